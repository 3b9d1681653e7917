"""Power and sample size before any budget is spent."""

import math

import numpy as np
import pytest
from scipy import stats

from dfprivacy import ArgumentError
from dfprivacy_chi2 import power, sample_size
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.inference import SignedDifference
from dfprivacy_chi2.nulls import norm_law
from dfprivacy_chi2.tables import paper_sensitivity

CELLS = [
    # Two equal groups of n/2, base share 0.3, level 5%; n, epsilon, difference; power where p is known, and where
    # nothing is
    (200, 0.05, 0.1815, 0.093, 0.066),
    (200, 0.1, 0.3629, 0.686, 0.476),
    (200, 1, 0.1815, 0.735, 0.631),
    (1000, 0.05, 0.0812, 0.208, 0.112),
    (1000, 0.1, 0.1623, 0.970, 0.914),
    (1000, 0.5, 0.0812, 0.758, 0.663),
    (1000, 1, 0.0812, 0.770, 0.722),
    (5000, 0.1, 0.0363, 0.702, 0.522),
    (5000, 0.5, 0.0363, 0.784, 0.740),
]


@pytest.mark.parametrize(("n", "epsilon", "difference", "known", "nothing"), CELLS)
def test_power_of_the_unit_circle(n, epsilon, difference, known, nothing):
    """The power has its reference values, with the share known and without."""
    for rate, expected in ((0.3 + difference / 2, known), (None, nothing)):
        how = {"base": 0.3, "difference": difference, "method": "unit_circle", "rate": rate}

        assert power(n // 2, n // 2, epsilon, **how) == pytest.approx(expected, abs=4e-3)


@pytest.mark.parametrize(
    ("n", "epsilon", "difference", "known"),
    [(200, 0.1, 0.3629, 0.424), (1000, 0.05, 0.0812, 0.135), (1000, 0.5, 0.0812, 0.741)],
)
def test_power_of_the_unit_circle_with_the_papers_bound(n, epsilon, difference, known):
    """With the paper's sensitivity the unit circle finds less."""
    n1, p = n // 2, 0.3 + difference / 2
    scale = paper_sensitivity(n1, n1, TAU) / epsilon
    critical = norm_law(n1, n1, TAU, p, p).critical_value(0.05, scale)

    found = norm_law(n1, n1, TAU, 0.3 + difference, 0.3).sf(critical, scale)

    assert found == pytest.approx(known, abs=1e-3)
    assert found < power(n1, n1, epsilon, base=0.3, difference=difference, method="unit_circle", rate=p)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n1", "n0", "epsilon", "base", "difference"),
    [(400, 600, 1.0, 0.2, 0.1), (300, 300, 1.0, 0.05, 0.08), (80, 120, 0.3, 0.2, 0.3)],
)
def test_power_of_the_signed_test_agrees_with_simulation(n1, n0, epsilon, base, difference):
    """The power of the signed test is the rate of rejections of simulated tables."""
    rng, runs = np.random.default_rng(20_261_123), 1000
    part = 0.9 if (n1 + n0) * epsilon >= 100 else 1.0
    scale, margin_scale = 1 / (part * epsilon), 10 / epsilon * (part < 1)
    rejected = 0
    for _ in range(runs):
        c, d = rng.binomial(n1, base + difference), rng.binomial(n0, base)
        released = (c * n0 - d * n1) / max(n1, n0) + rng.laplace(0, scale)
        half = c + d - (n1 + n0) / 2
        margins = tuple(np.array([half, 0.0, 0.0]) + rng.laplace(0, margin_scale, 3)) if part < 1 else ()
        test = SignedDifference((n1, n0), released, scale, margins, margin_scale, omitted=part == 1)
        rejected += test.pvalue <= 0.05

    expected = power(n1, n0, epsilon, base=base, difference=difference)

    assert 0.5 < expected < 0.99
    assert rejected / runs == pytest.approx(expected, abs=0.02 + 4 * 0.5 / math.sqrt(runs))


@pytest.mark.parametrize("method", ["signed", "unit_circle"])
def test_power_grows_with_everything(method):
    """No difference gives the level at most; more rows, more budget and more difference give more power."""
    base = {"n1": 100, "n0": 100, "epsilon": 0.4, "base": 0.3, "difference": 0.25, "method": method}
    better = [{"n1": 150, "n0": 150}, {"epsilon": 0.8}, {"difference": 0.3}, {"alpha": 0.1}]

    assert power(**base | {"difference": 0.0}) <= 0.0505
    assert all(power(**base | change) > power(**base) + 0.02 for change in better)


def test_what_is_known_of_the_share_helps():
    """The nearer to the truth, the more power."""
    how = {"base": 0.05, "difference": 0.04, "method": "unit_circle"}

    nothing, between, known = (power(500, 500, 0.5, rate=rate, **how) for rate in (None, (0.02, 0.2), 0.07))

    assert nothing < between < known


@pytest.mark.parametrize("ratio", [1.0, 2.5])
@pytest.mark.parametrize("method", ["signed", "unit_circle"])
def test_sample_size_is_the_smallest_that_suffices(method, ratio):
    """The sample reaches the power to half a percent of the rows, and two percent less do not."""
    how = {"base": 0.3, "difference": 0.1, "method": method}

    n1 = sample_size(0.8, 0.5, ratio=ratio, **how)

    def reached(rows):
        return power(rows, round(ratio * rows), 0.5, **how)

    assert reached(math.ceil(1.01 * n1)) >= 0.8
    assert reached(math.floor(0.98 * n1)) < 0.8


def test_without_noise_to_speak_of_the_sample_is_the_textbooks():
    """With a huge epsilon the sample size is the normal one."""
    p, difference = 0.3, 0.1
    z = stats.norm.isf(0.025) + stats.norm.isf(0.2)

    n = sample_size(0.8, 1e4, base=p - difference / 2, difference=difference)

    assert n == pytest.approx(2 * p * (1 - p) * z**2 / difference**2, rel=0.03)


FINE = {"n1": 50, "n0": 50, "epsilon": 1.0, "base": 0.3, "difference": 0.1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n1": 0}, "out of range"),
        ({"n0": 2**40}, "out of range"),
        ({"n1": math.nan}, "out of range"),
        ({"n1": 50.5}, "out of range"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"base": -0.1}, "must be shares"),
        ({"base": math.nan}, "must be shares"),
        ({"difference": 0.8}, "must be shares"),
        ({"alpha": 0}, "alpha"),
        ({"alpha": 1}, "alpha"),
        ({"rate": 1.5}, "rate"),
        ({"rate": (0.4, 0.2)}, "rate"),
        ({"rate": "half"}, "rate"),
        ({"tau": 0}, "tau"),
        ({"method": "exact"}, "method='exact' is unknown"),
        ({"rate": 0.3}, "rate= and bound= are options"),
        ({"bound": True}, "rate= and bound= are options"),
    ],
)
def test_arguments_out_of_range_are_refused(change, message):
    """Every argument is checked, and the message says what is wrong."""
    with pytest.raises(ArgumentError, match=message):
        power(**FINE | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"power": 1}, "power"),
        ({"power": 0.04}, "above alpha"),
        ({"difference": 0}, "large enough"),
        ({"ratio": 0}, "ratio"),
        ({"ratio": math.inf}, "ratio"),
        ({"epsilon": 0}, "epsilon"),
        ({"base": 0.95}, "must be shares"),
        ({"epsilon": 1e-12}, "would be needed"),
        ({"method": "exact"}, "unknown"),
    ],
)
def test_samples_that_cannot_be_are_refused(change, message):
    """So are those of the sample size."""
    with pytest.raises(ArgumentError, match=message):
        sample_size(**{"power": 0.8, "epsilon": 1.0, "base": 0.3, "difference": 0.1} | change)
