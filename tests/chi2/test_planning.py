"""Power and sample size before any budget is spent, and the bounds of the type II error that the paper proves."""

import math

import numpy as np
import pytest
from scipy import stats

from dfprivacy import ArgumentError
from dfprivacy_chi2 import gamma_error, power, sample_size, type_ii_bound
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.inference import SignedDifference
from dfprivacy_chi2.laws import binomial_law
from dfprivacy_chi2.nulls import norm_law
from dfprivacy_chi2.tables import (
    chi2_sensitivity,
    chi2_statistic,
    paper_sensitivity,
    tight_sensitivity,
    unit_circle_norm,
)

CELLS = [
    # Two equal groups of n/2, base share 0.3, level 5%; n, epsilon, difference; power where p is known, where
    # nothing is, and where p is known with the paper's sensitivity
    (200, 0.05, 0.1815, 0.093, 0.066, None),
    (200, 0.1, 0.3629, 0.686, 0.476, 0.424),
    (200, 1, 0.1815, 0.735, 0.631, None),
    (1000, 0.05, 0.0812, 0.208, 0.112, 0.135),
    (1000, 0.1, 0.1623, 0.970, 0.914, None),
    (1000, 0.5, 0.0812, 0.758, 0.663, 0.741),
    (5000, 0.1, 0.0363, 0.702, 0.522, None),
]


@pytest.mark.parametrize(("n", "epsilon", "difference", "known", "nothing", "paper"), CELLS)
def test_power_of_the_unit_circle(n, epsilon, difference, known, nothing, paper):
    """The power has its reference values, with the share known and without, and with the paper's sensitivity."""
    n1, p = n // 2, 0.3 + difference / 2
    how = {"base": 0.3, "difference": difference, "method": "unit_circle"}

    assert power(n1, n1, epsilon, rate=p, **how) == pytest.approx(known, abs=4e-3)
    assert power(n1, n1, epsilon, **how) == pytest.approx(nothing, abs=4e-3)
    if paper is not None:
        scale = paper_sensitivity(n1, n1, TAU) / epsilon
        critical = norm_law(n1, n1, TAU, p, p).critical_value(0.05, scale)
        assert norm_law(n1, n1, TAU, 0.3 + difference, 0.3).sf(critical, scale) == pytest.approx(paper, abs=1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n1", "n0", "epsilon", "base", "difference"), [(400, 600, 1.0, 0.2, 0.1), (80, 120, 0.3, 0.2, 0.3)]
)
def test_power_of_the_signed_test_agrees_with_simulation(n1, n0, epsilon, base, difference):
    """The power of the signed test is the rate of rejections of simulated tables."""
    rng, runs, rejected = np.random.default_rng(20_261_123), 500, 0
    part = 0.9 if (n1 + n0) * epsilon >= 100 else 1.0
    scale, margin_scale = 1 / (part * epsilon), 10 / epsilon * (part < 1)
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
    """No difference gives the level at most; more rows, budget, difference and knowledge give more power."""
    base = {"n1": 100, "n0": 100, "epsilon": 0.4, "base": 0.3, "difference": 0.25, "method": method}
    better = [{"n1": 150, "n0": 150}, {"epsilon": 0.8}, {"difference": 0.3}, {"alpha": 0.1}]
    better += [{"rate": (0.2, 0.5)}, {"rate": 0.425}] * (method == "unit_circle")

    assert power(**base | {"difference": 0.0}) <= 0.0505
    assert all(power(**base | change) > power(**base) + 0.01 for change in better)


@pytest.mark.parametrize("ratio", [1.0, 2.5])
@pytest.mark.parametrize("method", ["signed", "unit_circle"])
def test_sample_size_is_the_smallest_that_suffices(method, ratio):
    """The sample reaches the power to half a percent of the rows, and two percent less do not."""
    how = {"base": 0.3, "difference": 0.1, "method": method}
    n1 = sample_size(0.8, 0.5, ratio=ratio, **how)

    reached = [power(rows, round(ratio * rows), 0.5, **how) for rows in (math.ceil(1.01 * n1), int(0.98 * n1))]

    assert reached[0] >= 0.8 > reached[1]
    if method == "signed" and ratio == 1:  # without noise to speak of it is the textbook's
        z = stats.norm.isf(0.025) + stats.norm.isf(0.2)
        n = sample_size(0.8, 1e4, base=0.25, difference=0.1)
        assert n == pytest.approx(2 * 0.3 * 0.7 * z**2 / 0.1**2, rel=0.03)


# Theorems 2, 3 and 7


def test_the_bounds_are_those_that_are_printed():
    """Theorem 3, and Theorem 7 with its own sensitivity, written out; of a common X it falls exponentially."""
    n1, n0, epsilon, gamma, m1 = 30, 50, 0.7, 6.0, 24
    n = n1 + n0
    spread = 2 * math.sqrt(((n0**2 + n1**2) * n + 2 * TAU * n0 * n1) / (TAU * n0 * n1 * n**2))
    delta = n * n / (n1 * n0) * (1 - 1 / (n0 + 1))
    root = math.sqrt(1 + 4 * gamma * m1 * (n - m1) / (TAU * n * n))

    third = gamma_error(gamma, n1, n0, epsilon, statistic="chi2")
    seventh = gamma_error(gamma, n1, n0, epsilon, share=m1 / n, sensitivity="paper")

    assert third == pytest.approx(math.exp(-gamma * epsilon / delta) / 2, rel=1e-12)
    assert seventh == pytest.approx(math.exp((1 - root) * epsilon / spread) / 2, rel=1e-12)
    common = [gamma_error(5.0, n, n, 1.0, share=0.4) for n in (100, 1000, 10_000)]
    assert common[0] > 10 * common[1] > 1e4 * common[2]
    assert gamma_error(0.5, 100, 100, 1.0, share=0.4, threshold=9.0) > 1 / 2  # most such tables are not rejected
    assert min(gamma_error(5.0, n, n, 1.0, share=0.5 / n) for n in (100, 1000, 10_000)) > 0.4
    how = {"base": 0.3, "difference": 0.2}
    assert type_ii_bound(200, 200, 0.5, **how) < type_ii_bound(200, 200, 0.5, **how, sensitivity="paper")


def kinds(n1, n0):
    """Each statistic as a function of c11 and c10, its sensitivity, and its value at tau."""
    return {
        "unitcircle": (lambda a, b: unit_circle_norm(a, b, n1, n0, TAU), tight_sensitivity(n1, n0, TAU), 1.0),
        "chi2": (lambda a, b: chi2_statistic(a, b, n1, n0), chi2_sensitivity(n1, n0), TAU),
    }


@pytest.mark.parametrize(("n1", "n0"), [(5, 5), (8, 3), (12, 20)])
@pytest.mark.parametrize("threshold", [None, 1.4])
def test_no_table_is_accepted_more_often(n1, n0, threshold):
    """Of all small tables above tau, none is accepted by the noise more often than Theorems 3 and 7 let."""
    c11, c10 = np.indices((n1 + 1, n0 + 1))
    chi2, share, epsilon = chi2_statistic(c11, c10, n1, n0), (c11 + c10) / (n1 + n0), 1.3
    above = chi2 > TAU

    for statistic, (value, sensitivity, own) in kinds(n1, n0).items():
        at = own if threshold is None else threshold * own
        away = (value(c11, c10) - at) * epsilon / sensitivity
        accepted = np.where(away >= 0, np.exp(-np.abs(away)) / 2, 1 - np.exp(-np.abs(away)) / 2)
        gamma = np.maximum(chi2 - TAU, 0.0)
        bound = gamma_error(gamma, n1, n0, epsilon, statistic=statistic, share=share, threshold=at)

        assert above.sum() > 4
        assert (accepted[above] <= bound[above] * (1 + 1e-9)).all()
        assert accepted[above] == pytest.approx(bound[above], rel=1e-6)  # at its own gamma a table attains it


@pytest.mark.parametrize(
    ("n1", "n0", "epsilon", "base", "difference"),
    [(100, 100, 0.5, 0.3, 0.3), (500, 300, 0.2, 0.1, 0.2), (50, 80, 2.0, 0.5, -0.3), (20, 20, 1.0, 0.0, 1.0)],
)
def test_the_error_is_below_its_bound(n1, n0, epsilon, base, difference):
    """The type II error, a sum over all tables, is below Theorem 2, not by orders; and so power says of its own."""
    how = {"base": base, "difference": difference}
    for statistic, (value, sensitivity, own) in kinds(n1, n0).items():
        error = 1 - binomial_law(value, n1, n0, base + difference, base).sf(own, sensitivity / epsilon)
        bound = type_ii_bound(n1, n0, epsilon, **how, statistic=statistic)
        assert error - 1e-12 <= bound <= 1
        assert error < 1e-6 or bound < 200 * error

    exact, promised = (power(n1, n0, epsilon, **how, method="unit_circle", bound=each) for each in (False, True))
    assert 0 <= promised <= exact + 1e-12
    assert exact - promised < 0.2 or exact < 0.9


FINE = {"epsilon": 1.0, "base": 0.3, "difference": 0.1}
REFUSED = [
    *((power, {"n1": n}, "out of range") for n in (0, math.nan, 50.5)),
    (power, {"n0": 2**40}, "out of range"),
    *((power, {"epsilon": epsilon}, "epsilon") for epsilon in (0, math.inf, math.nan)),
    *((power, {"base": base}, "must be shares") for base in (-0.1, math.nan)),
    (power, {"difference": 0.8}, "must be shares"),
    *((power, {"alpha": alpha}, "alpha") for alpha in (0, 1)),
    *((power, {"rate": rate}, "rate") for rate in (1.5, (0.4, 0.2), "half")),
    (power, {"tau": 0}, "tau"),
    (power, {"method": "exact"}, "no method 'exact'"),
    *((power, how, "rate= and bound= are options") for how in ({"rate": 0.3}, {"bound": True})),
    (sample_size, {"power": 1}, "power"),
    (sample_size, {"power": 0.04}, "above alpha"),
    (sample_size, {"difference": 0}, "large enough"),
    *((sample_size, {"ratio": ratio}, "ratio") for ratio in (0, math.inf)),
    (sample_size, {"epsilon": 0}, "epsilon"),
    (sample_size, {"base": 0.95}, "must be shares"),
    (sample_size, {"epsilon": 1e-12}, "would need more than"),
    (sample_size, {"method": "exact"}, "no method 'exact'"),
    (type_ii_bound, {"base": 0.7, "difference": 0.4}, "must be shares"),
]


@pytest.mark.parametrize(("function", "change", "message"), REFUSED)
def test_arguments_out_of_range_are_refused(function, change, message):
    """Every argument is checked, and the message says what is wrong."""
    sizes = {"power": 0.8} if function is sample_size else {"n1": 50, "n0": 50}
    with pytest.raises(ArgumentError, match=message):
        function(**{**sizes, **FINE, **change})
    for gamma, epsilon in ((1.0, 0.0), ([1.0, -1.0], 1.0)):  # an epsilon of nothing, and a chi² below tau
        with pytest.raises(ArgumentError, match="out of range"):
            gamma_error(gamma, 10, 10, epsilon)
