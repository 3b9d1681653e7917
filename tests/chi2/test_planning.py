"""Power and sample size before any budget is spent."""

import math

import numpy as np
import pytest
from dfprivacy_chi2.margin import NoisyMargin
from scipy import stats

from dfprivacy import ArgumentError
from dfprivacy_chi2 import power, sample_size
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.nulls import norm_law
from dfprivacy_chi2.omitted import Omitted
from dfprivacy_chi2.tables import paper_sensitivity

CELLS = [
    # Two equal groups of n/2, base share 0.3, level 5%; power where p is known, and where nothing is:
    # n, epsilon, difference; unit circle; signed distance; difference
    (200, 0.05, 0.1815, (0.093, 0.066), (0.096, 0.074), (0.097, 0.097)),
    (200, 0.1, 0.3629, (0.686, 0.476), (0.696, 0.557), (0.696, 0.696)),
    (200, 1, 0.1815, (0.735, 0.631), (0.735, 0.707), (0.735, 0.720)),
    (1000, 0.05, 0.0812, (0.208, 0.112), (0.229, 0.125), (0.235, 0.225)),
    (1000, 0.1, 0.1623, (0.970, 0.914), (0.972, 0.928), (0.973, 0.971)),
    (1000, 0.5, 0.0812, (0.758, 0.663), (0.759, 0.708), (0.759, 0.725)),
    (1000, 1, 0.0812, (0.770, 0.722), (0.770, 0.753), (0.770, 0.736)),
    (5000, 0.1, 0.0363, (0.702, 0.522), None, (0.717, 0.674)),
    (5000, 0.5, 0.0363, (0.784, 0.740), None, (0.784, 0.740)),
]


@pytest.mark.parametrize(("n", "epsilon", "difference", "circle", "distance", "plain"), CELLS)
def test_power_in_two_equal_groups(n, epsilon, difference, circle, distance, plain):
    """The power has its reference values, with the share known and without."""
    expected = {"unit_circle": circle, "distance": distance, "difference": plain}
    how = {"base": 0.3, "difference": difference}

    for method, cells in expected.items():
        for rate, cell in zip((0.3 + difference / 2, None), cells or (), strict=False):
            assert power(n // 2, n // 2, epsilon, method=method, rate=rate, **how) == pytest.approx(
                cell,
                abs=4e-3,  # the proof for all shares costs a percent of the level
            )


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


UNKNOWN = [
    # Nothing known of the share. n1 = n0, base, epsilon, difference; difference, calibrated, distance, unit circle
    (100, 0.3, 0.1, 0.3815, 0.742, 0.578, 0.614, 0.534),
    (500, 0.3, 0.1, 0.1212, 0.834, 0.788, 0.684, 0.644),
    (500, 0.3, 1, 0.0852, 0.777, 0.795, 0.792, 0.763),
    (500, 0.05, 0.1, 0.0786, 0.442, 0.415, 0.470, 0.300),
    (500, 0.05, 0.5, 0.0466, 0.172, 0.610, 0.679, 0.483),
    (2500, 0.3, 0.1, 0.0443, 0.843, 0.843, None, 0.729),
    (2500, 0.05, 0.1, 0.0253, 0.294, 0.673, None, 0.398),
    (2500, 0.05, 0.5, 0.0189, 0.094, 0.740, None, 0.630),
]


@pytest.mark.parametrize(
    ("n", "base", "epsilon", "difference", "plain", "calibrated", "distance", "circle"), UNKNOWN
)
def test_power_where_nothing_is_known(n, base, epsilon, difference, plain, calibrated, distance, circle):
    """The difference is best in small tables, the calibrated one in large ones, the distance where X is rare."""
    expected = {"difference": plain, "calibrated": calibrated, "distance": distance, "unit_circle": circle}

    for method, cell in expected.items():
        if cell is not None:
            found = power(n, n, epsilon, base=base, difference=difference, method=method)
            assert found == pytest.approx(cell, abs=5e-3), method


def test_power_in_unequal_groups():
    """The same with 1,000 and 4,000 rows."""
    for difference, circle, plain in [(0.0454, 0.239, 0.279), (0.0907, 0.801, 0.834)]:
        how = {"base": 0.3, "difference": difference, "rate": 0.3 + difference / 5}

        assert power(1000, 4000, 0.05, method="unit_circle", **how) == pytest.approx(circle, abs=6e-3)
        assert power(1000, 4000, 0.05, method="difference", **how) == pytest.approx(plain, abs=6e-3)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n1", "n0", "epsilon", "base", "difference"), [(400, 600, 1.0, 0.2, 0.1), (300, 300, 1.0, 0.05, -0.04)]
)
def test_power_of_the_calibrated_test_agrees_with_simulation(n1, n0, epsilon, base, difference):
    """The power of the calibrated test is the rate of rejections of simulated tables."""
    rng, runs = np.random.default_rng(20_261_123), 40_000
    c11, c10 = rng.binomial(n1, base + difference, runs), rng.binomial(n0, base, runs)
    total = c11 + c10 + rng.laplace(0, 10 / epsilon, runs)
    scale = 1 / (0.9 * epsilon * min(n1, n0))
    statistic = np.abs(c11 / n1 - c10 / n0 + rng.laplace(0, scale, runs))
    test = NoisyMargin(n1, n0, 0.0, 10 / epsilon)
    critical = test.required(total, 0.05, scale)

    expected = power(n1, n0, epsilon, base=base, difference=difference, method="calibrated")

    assert (statistic > critical).mean() == pytest.approx(expected, abs=0.01 + 5 * 0.5 / math.sqrt(runs))


@pytest.mark.parametrize("base", [0.05, 0.3])
@pytest.mark.parametrize(("n", "epsilon"), [(50, 0.2), (100, 0.2), (400, 0.1)])
def test_the_signed_test_finds_more_in_small_tables(n, epsilon, base):
    """Below 100 rows times epsilon the default finds more than with a part of its budget for the share."""
    how = {"base": base, "difference": 4.5 / (n * epsilon)}

    signed, calibrated, unsigned = (
        power(n, n, epsilon, method=method, **how) for method in ("auto", "calibrated", "difference")
    )

    assert calibrated + 0.005 < signed < unsigned


@pytest.mark.statistical
def test_power_of_the_signed_test_agrees_with_simulation():
    """The power of the signed test is the rate of rejections of simulated tables."""
    rng, runs, scale = np.random.default_rng(20_261_124), 40_000, 1 / (80 * 0.3)
    apart = rng.binomial(80, 0.5, runs) / 80 - rng.binomial(120, 0.2, runs) / 120
    critical = Omitted(80, signed=True).critical_value(0.05, scale)

    expected = power(80, 120, 0.3, base=0.2, difference=0.3, method="signed")

    rejected = np.abs(apart + rng.laplace(0, scale, runs)) > critical
    assert rejected.mean() == pytest.approx(expected, abs=0.01 + 5 * 0.5 / math.sqrt(runs))


@pytest.mark.parametrize("method", ["difference", "calibrated", "signed", "distance", "unit_circle"])
def test_power_grows_with_everything(method):
    """No difference gives the level at most; more rows, more budget and more difference give more power."""
    base = {"n1": 100, "n0": 100, "epsilon": 0.4, "base": 0.3, "difference": 0.25, "method": method}
    better = [{"n1": 150, "n0": 150}, {"epsilon": 0.8}, {"difference": 0.3}, {"alpha": 0.1}]

    assert power(**base | {"difference": 0.0}) <= 0.0505
    assert all(power(**base | change) > power(**base) + 0.02 for change in better)


def test_what_is_known_of_the_share_helps():
    """The nearer to the truth, the more power; and a test that knows costs no total."""
    how = {"base": 0.05, "difference": 0.04}

    nothing, between, known = (
        power(500, 500, 0.5, method="difference", rate=rate, **how) for rate in (None, (0.02, 0.2), 0.07)
    )

    assert nothing < between - 0.1 < known - 0.2


def test_auto_is_one_of_them():
    """With nothing known of the share the calibrated test is chosen, and the difference alone in small tables."""
    how = {"base": 0.3, "difference": 0.1}

    assert power(1000, 1000, 0.1, **how) == power(1000, 1000, 0.1, method="calibrated", **how)
    assert power(400, 400, 0.1, **how) == power(400, 400, 0.1, method="signed", **how)
    assert power(1000, 1000, 0.1, rate=0.3, **how) == power(1000, 1000, 0.1, method="difference", rate=0.3, **how)


@pytest.mark.parametrize("ratio", [1.0, 2.5])
@pytest.mark.parametrize("method", ["difference", "unit_circle"])
def test_sample_size_is_the_smallest_that_suffices(method, ratio):
    """The sample reaches the power, and one row less in the first group does not."""
    how = {"base": 0.3, "difference": 0.1, "method": method}

    n1 = sample_size(0.8, 0.5, ratio=ratio, **how)

    def reached(rows):
        return power(rows, round(ratio * rows), 0.5, **how)

    assert reached(n1) >= 0.8
    assert reached(n1 - 1) < 0.8 + 2e-3  # groups are whole rows, so that the power is not quite monotone


def test_without_noise_to_speak_of_the_sample_is_the_textbooks():
    """With a huge epsilon and a known share, the sample size is the normal one."""
    p, difference = 0.3, 0.1
    z = stats.norm.isf(0.025) + stats.norm.isf(0.2)

    n = sample_size(0.8, 1e4, base=p - difference / 2, difference=difference, method="difference", rate=p)

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
        ({"base": -0.1}, "no shares"),
        ({"base": math.nan}, "no shares"),
        ({"difference": 0.8}, "no shares"),
        ({"alpha": 0}, "alpha"),
        ({"alpha": 1}, "alpha"),
        ({"rate": 1.5}, "rate"),
        ({"rate": (0.4, 0.2)}, "rate"),
        ({"rate": "half"}, "rate"),
        ({"tau": 0}, "tau"),
        ({"method": "exact"}, "method='exact' is unknown"),
        ({"method": "calibrated", "rate": 0.3}, "rate"),
        ({"method": "signed", "rate": 0.3}, "rate"),
        ({"method": "distance", "n1": 10**5, "n0": 10**5}, "smaller groups"),
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
        ({"base": 0.95}, "no shares"),
        ({"epsilon": 1e-12}, "would be needed"),
        ({"method": "exact"}, "unknown"),
    ],
)
def test_samples_that_cannot_be_are_refused(change, message):
    """So are those of the sample size."""
    with pytest.raises(ArgumentError, match=message):
        sample_size(**{"power": 0.8, "epsilon": 1.0, "base": 0.3, "difference": 0.1} | change)
