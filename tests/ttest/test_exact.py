"""The exact errors of the textbook tests on noisy statistics."""

import numpy as np
import pytest
from scipy import stats

from dfprivacy import ArgumentError
from dfprivacy_ttest.exact import exact_power, exact_size

SIZES = (50, 100, 200, 300, 400)
EPSILONS = (0.2, 0.4, 0.6, 0.8, 1.0)

# Type I errors at the nominal 5% level, rows by n, columns by epsilon: Tong et al. (2017), Table 1, with part (d)
# corrected.
ONE_SAMPLE_Z = [
    [0.31773, 0.15419, 0.10112, 0.07940, 0.06886],
    [0.22510, 0.10701, 0.07618, 0.06471, 0.05937],
    [0.15419, 0.07940, 0.06306, 0.05730, 0.05464],
    [0.12387, 0.06965, 0.05867, 0.05484, 0.05308],
    [0.10701, 0.06471, 0.05648, 0.05362, 0.05231],
]
ONE_SAMPLE_T = [
    [0.38035, 0.21074, 0.13718, 0.10219, 0.08394],
    [0.29523, 0.14148, 0.09342, 0.07460, 0.06568],
    [0.20345, 0.09683, 0.07112, 0.06181, 0.05752],
    [0.16056, 0.08126, 0.06389, 0.05775, 0.05494],
    [0.13634, 0.07338, 0.06033, 0.05577, 0.05367],
]
POOLED_T = [
    [0.46446, 0.25762, 0.16119, 0.11568, 0.09242],
    [0.36094, 0.16729, 0.10568, 0.08153, 0.07009],
    [0.24715, 0.11084, 0.07739, 0.06531, 0.05973],
    [0.19361, 0.09073, 0.06805, 0.06007, 0.05641],
    [0.16272, 0.08049, 0.06344, 0.05750, 0.05478],
]
POOLED_T_UNEQUAL_SIZES = [
    [0.54806, 0.39190, 0.29202, 0.22496, 0.17903],
    [0.50788, 0.31536, 0.20777, 0.14853, 0.11521],
    [0.42484, 0.21463, 0.13237, 0.09744, 0.08039],
    [0.35788, 0.16518, 0.10459, 0.08090, 0.06969],
    [0.30821, 0.13809, 0.09067, 0.07285, 0.06454],
]


@pytest.mark.parametrize(
    ("test", "sigma", "ratio", "expected"),
    [
        pytest.param("one-sample-z", 0.5, None, ONE_SAMPLE_Z, id="a"),
        pytest.param("one-sample-t", 0.4, None, ONE_SAMPLE_T, id="b"),
        pytest.param("pooled-t", 0.35, 1.0, POOLED_T, id="c"),
        pytest.param("pooled-t", 0.2, 1.1, POOLED_T_UNEQUAL_SIZES, id="d"),
    ],
)
def test_table_1(test, sigma, ratio, expected):
    """The type I errors are those of Table 1 of the paper, with part (d) corrected."""
    sizes = [
        [exact_size(test, n, eps, sigma=sigma, n2=None if ratio is None else round(ratio * n)) for eps in EPSILONS]
        for n in SIZES
    ]

    assert np.array(sizes) == pytest.approx(np.array(expected), abs=2e-4)


def test_type_ii_error_of_the_z_test():
    """The type II error of the z-test has the value of the paper's own formula."""
    beta = 1 - exact_power("one-sample-z", 100, 0.6, shift=0.1, sigma=0.5)

    assert beta == pytest.approx(0.485122804, abs=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
@pytest.mark.parametrize(("n", "epsilon", "sigma", "shift"), [(5, 1.0, 0.3, 0.1), (30, 0.5, 0.2, -0.1)])
def test_power_of_the_t_test_agrees_with_simulation(n, epsilon, sigma, shift, alternative):
    """The power is the simulated rejection rate among positive noisy variances, on every side."""
    rng = np.random.default_rng(20170719)
    runs = 200_000
    mean = shift + sigma / np.sqrt(n) * rng.standard_normal(runs) + rng.laplace(0, 1 / (n * epsilon), runs)
    variance = sigma**2 * rng.chisquare(n - 1, runs) / (n - 1) + rng.laplace(0, 1 / (n * epsilon), runs)
    defined = variance > 0
    t = mean[defined] / np.sqrt(variance[defined] / n)
    pvalue = {
        "two-sided": 2 * stats.t.sf(abs(t), n - 1),
        "less": stats.t.cdf(t, n - 1),
        "greater": stats.t.sf(t, n - 1),
    }[alternative]

    power = exact_power("one-sample-t", n, epsilon, shift=shift, sigma=sigma, alternative=alternative)

    assert (pvalue < 0.05).mean() == pytest.approx(power, abs=6 * np.sqrt(0.25 / defined.sum()))


@pytest.mark.statistical
def test_power_of_the_pooled_test_agrees_with_simulation():
    """The same for two samples of different sizes, with a one-sided alternative."""
    rng = np.random.default_rng(20170720)
    runs, n1, n2, epsilon, sigma, shift = 200_000, 12, 30, 1.0, 0.25, 0.15
    noise = rng.laplace(0, 1, (4, runs)) / (np.array([[n1], [n2], [n1], [n2]]) * epsilon)
    difference = shift + sigma * np.sqrt(1 / n1 + 1 / n2) * rng.standard_normal(runs) + noise[0] - noise[1]
    df = n1 + n2 - 2
    variance = (sigma**2 * rng.chisquare(df, runs) + (n1 - 1) * noise[2] + (n2 - 1) * noise[3]) / df
    defined = variance > 0
    t = difference[defined] / np.sqrt(variance[defined] * (1 / n1 + 1 / n2))

    power = exact_power("pooled-t", n1, epsilon, shift=shift, sigma=sigma, n2=n2, alternative="greater")

    assert (stats.t.sf(t, df) < 0.05).mean() == pytest.approx(power, abs=6 * np.sqrt(0.25 / defined.sum()))


@pytest.mark.parametrize(
    ("test", "n2", "df"), [("one-sample-z", None, np.inf), ("one-sample-t", None, 29), ("pooled-t", 40, 68)]
)
def test_without_noise_the_power_is_the_textbook_one(test, n2, df):
    """With a huge epsilon the size is the level, and the power that of the noncentral t-distribution."""
    shift, sigma = 0.1, 0.2
    delta = shift / (sigma * np.sqrt(1 / 30 + (1 / n2 if n2 else 0)))
    law = stats.norm(delta) if np.isinf(df) else stats.nct(df, delta)
    critical = stats.t.isf(0.05, df)

    assert exact_size(test, 30, 1e9, sigma=sigma, n2=n2) == pytest.approx(0.05, abs=1e-7)
    assert exact_power(test, 30, 1e9, shift=shift, sigma=sigma, n2=n2, alternative="greater") == pytest.approx(
        law.sf(critical), abs=1e-6
    )


def test_smallest_and_largest_samples():
    """Two rows, and millions, give a probability."""
    assert 0 < exact_size("one-sample-t", 2, 1, sigma=0.3) < 0.05
    assert exact_size("one-sample-t", 3_000_000, 1, sigma=0.3) == pytest.approx(0.05, abs=1e-5)
    assert exact_size("pooled-t", 3_000_000, 1, sigma=0.3, n2=3_000_000) == pytest.approx(0.05, abs=1e-5)
    assert exact_size("one-sample-t", 3, 1e6, sigma=0.3, alpha=1e-6) < 1e-6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test": "two-sample-t"}, "no test"),
        ({"alternative": "both"}, "no alternative"),
        ({"n2": 10}, "does not go with"),
        ({"test": "pooled-t"}, "does not go with"),
        ({"n": 1}, "n=1 is too small"),
        ({"epsilon": 0.0}, "must be positive"),
        ({"sigma": float("inf")}, "must be positive"),
        ({"alpha": 1.0}, "out of range"),
        ({"shift": float("nan")}, "out of range"),
    ],
)
def test_arguments_out_of_range_are_refused(change, message):
    """Every argument is checked, and the message names it."""
    arguments = {"test": "one-sample-t", "n": 50, "epsilon": 1.0, "shift": 0.0, "sigma": 0.3} | change

    with pytest.raises(ArgumentError, match=message):
        exact_power(**arguments)
