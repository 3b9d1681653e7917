"""The textbook tests on noisy statistics: their laws in 40-digit arithmetic, and the paper's errors."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dfprivacy import ArgumentError
from dfprivacy_ttest import exact_power, exact_size
from dfprivacy_ttest.exact import mean_over_noisy_variance, normal_laplace_cdf, normal_two_laplace_cdf

W = st.floats(-1e300, 1e300) | st.floats(-50, 50)
TAU = st.floats(0, 1e300) | st.floats(1e-3, 1e3)
INF, NAN = math.inf, math.nan


def cdf(w, *taus):
    """The law of a normal variable with one Laplace variable or two."""
    return (normal_laplace_cdf if len(taus) == 1 else normal_two_laplace_cdf)(w, *taus)


def exact_normal_laplace(w, tau):
    w, tau = mpmath.mpf(w), mpmath.mpf(tau)

    def part(x):
        return mpmath.exp(tau * x + tau**2 / 2) * mpmath.ncdf(-x - tau)

    return mpmath.ncdf(w) + (part(w) - part(-w)) / 2


def exact_noisy_variance(u, k, b):
    u, k, b = (mpmath.mpf(x) for x in (u, k, b))
    if u <= 0:
        return b / 2 * mpmath.exp(b * u) * (k / (k + b)) ** k
    gamma = mpmath.exp(k * mpmath.log(k) + (k - 1) * mpmath.log(u) - k * u - mpmath.loggamma(k))
    z = u * (k + b)
    below = gamma * u / k * mpmath.hyp1f1(1, k + 1, u * (k - b))
    above = gamma * u * mpmath.exp(z - k * mpmath.log(z)) * mpmath.gammainc(k, z)
    return b / 2 * (below + above)


def exact(law, at, first, second=None, *, apart=30):
    """The same with a second Laplace variable: a weighted sum, of equal ones as a limit."""
    if second is None:
        return law(*at, first)
    first, second = mpmath.mpf(first), mpmath.mpf(second)
    if first == second:
        second *= 1 + mpmath.mpf(10) ** -apart
    weight = second**2 / (second**2 - first**2)
    return weight * law(*at, first) + (1 - weight) * law(*at, second)


@pytest.mark.parametrize(
    ("w", "taus", "expected", "rel"),
    [
        (1.959963984540054, (1,), 0.887451420362, 1e-8),
        (1.959963984540054, (0.1,), 0.586964680076, 1e-8),
        (-1, (2,), 0.201131913267, 1e-8),
        (3, (0.5,), 0.873606022673, 1e-8),
        (1, (50,), 0.841248035117, 1e-8),
        (2, (1000,), 0.97724976007, 1e-8),
        (-5, (20,), 3.06304465893e-7, 1e-8),
        (0.5, (0.001,), 0.500249792455, 1e-8),
        (1.5, (1, 1), 0.7684730881, 1e-8),
        (1.5, (0.5, 2), 0.7247509595, 1e-8),
        (-2, (0.3, 0.3), 0.3602325391, 1e-8),
        (1, (1, 1.1), 0.695268217, 1e-8),
        (-1.959963984540054, (INF,), 0.025, 1e-12),
        (-1.959963984540054, (INF, INF), 0.025, 1e-12),
        (-3, (0,), 0.5, 0),
        (-3, (0, 7), 0.5, 0),
        (NAN, (1,), NAN, 0),
        (1, (NAN,), NAN, 0),
        (NAN, (1, 1), NAN, 0),
        (1, (NAN, 1), NAN, 0),
        (1, (1, NAN), NAN, 0),
    ],
)
def test_reference_values_of_the_laws(w, taus, expected, rel):
    """Values in 40-digit arithmetic; noise of no size or without end; what is no number stays none."""
    assert float(cdf(w, *taus)) == pytest.approx(expected, rel=rel, nan_ok=True)


@pytest.mark.parametrize("w", [-30, -10, -2, -0.1, 0])
@pytest.mark.parametrize("tau", [1e-6, 0.1, 1, 30, 9.9e3, 1.1e4, 1e6])
def test_cdfs_keep_their_digits_in_the_tail(w, tau):
    """Both distribution functions have small relative errors far out, and across their change of formula."""
    factors = np.array([1, 1 + 1e-6, 1 + 1.9e-5, 1 + 2.1e-5, 1.1, 100.0])
    with mpmath.workdps(60):
        one = float(exact_normal_laplace(w, tau))
        two = [float(exact(exact_normal_laplace, (w,), tau, tau * factor)) for factor in factors]

    assert float(cdf(w, tau)) == pytest.approx(one, rel=1e-12, abs=1e-300)
    assert cdf(w, tau, tau * factors) == pytest.approx(two, rel=1e-7, abs=1e-30)


@given(w=W, tau1=TAU, tau2=TAU)
def test_cdfs_are_symmetric_probabilities(w, tau1, tau2):
    """In [0, 1], symmetric, without overflow; the two Laplace variables in either order."""
    for p, q in ((cdf(w, tau1), cdf(-w, tau1)), (cdf(w, tau1, tau2), cdf(-w, tau2, tau1))):
        assert 0 <= p <= 1
        assert p + q == pytest.approx(1, abs=1e-14)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("k", "rates"),
    [
        *((k, (b,)) for k, b in ((1, 0.01), (4.5, 4.5), (24.5, 24.4999), (24.5, 999), (199.5, 2e4))),
        *((k, (b, b)) for k, b in ((1, 0.5), (24.5, 8), (199.5, 2e4))),
        *((k, (b, b * 1.0001)) for k, b in ((4.5, 0.7), (199.5, 64))),
        (1.5, (0.7, 3)),
        (5000, (2e4,)),
    ],
)
def test_expectations_over_noisy_variances(k, rates):
    """They are integrals by the density in 40-digit arithmetic, also for b >= k, where the paper's form fails."""
    near = [1 + side * reach for side in (-1, 1) for reach in (12 / k**0.5, 4 / k**0.5, 40 / min(rates))]
    far = 1 + 12 / k**0.5 + 40 / k + 40 / min(rates)
    ends = sorted({0.0, 1e-4, 1e-2, 0.1, 0.5, 1.0, 2.0, far, *(end for end in near if end > 0)})
    places, weights = np.polynomial.legendre.leggauss(12)
    edges = np.unique(np.concatenate([np.linspace(a, b, 3) for a, b in itertools.pairwise(np.sqrt(ends))]))
    half = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + half * (1 + places)).ravel()
    with mpmath.workdps(40):
        density = [float(exact(exact_noisy_variance, (at * at, k), *rates, apart=20)) for at in x]
    weights = (half * weights).ravel() * np.array(density) * 2 * x

    for critical in (0.3, 3.0):

        def beyond(x, critical=critical):
            return 2 * cdf(-critical * x, 1.5)

        found = mean_over_noisy_variance(beyond, k, rates)
        assert found == pytest.approx(beyond(x) @ weights / weights.sum(), abs=1e-6)
    assert mean_over_noisy_variance(np.ones_like, k, rates) == pytest.approx(1, abs=1e-6)


# Type I errors at the nominal 5% level, rows by n, columns by epsilon: Tong et al. (2017), Table 1, with part (d)
# corrected.
TABLE_1 = {
    ("one-sample-z", 0.5, None): [
        [0.31773, 0.15419, 0.10112, 0.07940, 0.06886],
        [0.22510, 0.10701, 0.07618, 0.06471, 0.05937],
        [0.15419, 0.07940, 0.06306, 0.05730, 0.05464],
        [0.12387, 0.06965, 0.05867, 0.05484, 0.05308],
        [0.10701, 0.06471, 0.05648, 0.05362, 0.05231],
    ],
    ("one-sample-t", 0.4, None): [
        [0.38035, 0.21074, 0.13718, 0.10219, 0.08394],
        [0.29523, 0.14148, 0.09342, 0.07460, 0.06568],
        [0.20345, 0.09683, 0.07112, 0.06181, 0.05752],
        [0.16056, 0.08126, 0.06389, 0.05775, 0.05494],
        [0.13634, 0.07338, 0.06033, 0.05577, 0.05367],
    ],
    ("pooled-t", 0.35, 1.0): [
        [0.46446, 0.25762, 0.16119, 0.11568, 0.09242],
        [0.36094, 0.16729, 0.10568, 0.08153, 0.07009],
        [0.24715, 0.11084, 0.07739, 0.06531, 0.05973],
        [0.19361, 0.09073, 0.06805, 0.06007, 0.05641],
        [0.16272, 0.08049, 0.06344, 0.05750, 0.05478],
    ],
    ("pooled-t", 0.2, 1.1): [
        [0.54806, 0.39190, 0.29202, 0.22496, 0.17903],
        [0.50788, 0.31536, 0.20777, 0.14853, 0.11521],
        [0.42484, 0.21463, 0.13237, 0.09744, 0.08039],
        [0.35788, 0.16518, 0.10459, 0.08090, 0.06969],
        [0.30821, 0.13809, 0.09067, 0.07285, 0.06454],
    ],
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("test", "sigma", "ratio"), TABLE_1)
def test_table_1(test, sigma, ratio):
    """The type I errors are those of Table 1 of the paper, with part (d) corrected."""
    sizes = [
        [exact_size(test, n, epsilon / 5, sigma=sigma, n2=ratio and round(ratio * n)) for epsilon in range(1, 6)]
        for n in (50, 100, 200, 300, 400)
    ]

    # by the paper's own formula of the type II error
    power = exact_power("one-sample-z", 100, 0.6, shift=0.1, sigma=0.5)

    assert np.array(sizes) == pytest.approx(np.array(TABLE_1[test, sigma, ratio]), abs=2e-4)
    assert power == pytest.approx(1 - 0.485122804, abs=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("sizes", "epsilon", "sigma", "shift"),
    [((5,), 1.0, 0.3, 0.1), ((30,), 0.5, 0.2, -0.1), ((12, 30), 1.0, 0.25, 0.15)],
)
def test_power_agrees_with_simulation(sizes, epsilon, sigma, shift):
    """The power is the simulated rejection rate among positive noisy variances, of one sample and two."""
    rng, runs = np.random.default_rng(20170719), 200_000
    n, df, reach = np.array(sizes), sum(sizes) - len(sizes), sum(1 / each for each in sizes)
    noise = rng.laplace(0, 1, (2, runs, len(n))) / (n * epsilon)
    difference = shift + sigma * np.sqrt(reach) * rng.standard_normal(runs) + noise[0].sum(axis=1)
    variance = (sigma**2 * rng.chisquare(df, runs) + noise[1] @ (n - 1)) / df
    defined = variance > 0
    less = stats.t.cdf(difference[defined] / np.sqrt(variance[defined] * reach), df)
    test, n2 = ("one-sample-t", None) if len(sizes) == 1 else ("pooled-t", sizes[1])

    for side, p in {"two-sided": 2 * np.minimum(less, 1 - less), "less": less, "greater": 1 - less}.items():
        power = exact_power(test, sizes[0], epsilon, shift=shift, sigma=sigma, n2=n2, alternative=side)
        assert (p < 0.05).mean() == pytest.approx(power, abs=6 * np.sqrt(0.25 / defined.sum()))


@pytest.mark.parametrize(
    ("test", "n2", "df"), [("one-sample-z", None, np.inf), ("one-sample-t", None, 29), ("pooled-t", 40, 68)]
)
def test_without_noise_the_power_is_the_textbook_one(test, n2, df):
    """With a huge epsilon the size is the level, and the power that of the noncentral t-distribution."""
    shift, sigma = 0.1, 0.2
    delta = shift / (sigma * np.sqrt(1 / 30 + (1 / n2 if n2 else 0)))
    law = stats.norm(delta) if np.isinf(df) else stats.nct(df, delta)

    power = exact_power(test, 30, 1e9, shift=shift, sigma=sigma, n2=n2, alternative="greater")

    assert exact_size(test, 30, 1e9, sigma=sigma, n2=n2) == pytest.approx(0.05, abs=1e-7)
    assert power == pytest.approx(law.sf(stats.t.isf(0.05, df)), abs=1e-6)


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
        ({"n2": 10}, "cannot be used with"),
        ({"test": "pooled-t"}, "cannot be used with"),
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
