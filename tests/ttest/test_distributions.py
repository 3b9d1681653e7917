"""The distributions of noisy means and variances, against published values and 50-digit arithmetic."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfprivacy_ttest.exact import normal_laplace_cdf, normal_two_laplace_cdf, over_noisy_variance

W = st.floats(-1e300, 1e300) | st.floats(-50, 50)
TAU = st.floats(0, 1e300) | st.floats(1e-3, 1e3)


def exact_normal_laplace(w, tau):
    w, tau = mpmath.mpf(w), mpmath.mpf(tau)

    def part(x):
        return mpmath.exp(tau * x + tau**2 / 2) * mpmath.ncdf(-x - tau)

    return mpmath.ncdf(w) + (part(w) - part(-w)) / 2


def exact_normal_two_laplace(w, tau1, tau2):
    tau1, tau2 = mpmath.mpf(tau1), mpmath.mpf(tau2)
    if tau1 == tau2:
        tau2 *= 1 + mpmath.mpf(10) ** -30
    weight = tau2**2 / (tau2**2 - tau1**2)
    return weight * exact_normal_laplace(w, tau1) + (1 - weight) * exact_normal_laplace(w, tau2)


def exact_noisy_variance(u, k, b):
    u, k, b = (mpmath.mpf(x) for x in (u, k, b))
    if u <= 0:
        return b / 2 * mpmath.exp(b * u) * (k / (k + b)) ** k
    gamma = mpmath.exp(k * mpmath.log(k) + (k - 1) * mpmath.log(u) - k * u - mpmath.loggamma(k))
    z = u * (k + b)
    below = gamma * u / k * mpmath.hyp1f1(1, k + 1, u * (k - b))
    above = gamma * u * mpmath.exp(z - k * mpmath.log(z)) * mpmath.gammainc(k, z)
    return b / 2 * (below + above)


def exact_noisy_pooled_variance(u, k, b1, b2):
    b1, b2 = mpmath.mpf(b1), mpmath.mpf(b2)
    if b1 == b2:
        b2 *= 1 + mpmath.mpf(10) ** -20
    weight = b2**2 / (b2**2 - b1**2)
    return weight * exact_noisy_variance(u, k, b1) + (1 - weight) * exact_noisy_variance(u, k, b2)


@pytest.mark.parametrize(
    ("w", "tau", "expected"),
    [
        (1.959963984540054, 1, 0.887451420362),
        (1.959963984540054, 0.1, 0.586964680076),
        (-1, 2, 0.201131913267),
        (3, 0.5, 0.873606022673),
        (1, 50, 0.841248035117),
        (2, 1000, 0.97724976007),
        (-5, 20, 3.06304465893e-7),
        (0.5, 0.001, 0.500249792455),
    ],
)
def test_normal_laplace_reference_values(w, tau, expected):
    """The distribution function has its values in 40-digit arithmetic."""
    assert float(normal_laplace_cdf(w, tau)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    ("w", "tau1", "tau2", "expected"),
    [
        (1.5, 1, 1, 0.7684730881),
        (1.5, 0.5, 2, 0.7247509595),
        (-2, 0.3, 0.3, 0.3602325391),
        (1, 1, 1.1, 0.695268217),
    ],
)
def test_normal_two_laplace_reference_values(w, tau1, tau2, expected):
    """With two Laplace variables too, of equal and of different rates."""
    assert float(normal_two_laplace_cdf(w, tau1, tau2)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("w", [-30, -10, -2, -0.1, 0])
@pytest.mark.parametrize("tau", [1e-6, 0.1, 1, 30, 9.9e3, 1.1e4, 1e6])
def test_cdfs_keep_their_digits_in_the_tail(w, tau):
    """Both distribution functions have small relative errors far out, and across their change of formula."""
    factors = np.array([1, 1 + 1e-6, 1 + 1.9e-5, 1 + 2.1e-5, 1.1, 100.0])
    with mpmath.workdps(60):
        one = float(exact_normal_laplace(w, tau))
        two = [float(exact_normal_two_laplace(w, tau, tau * factor)) for factor in factors]

    assert float(normal_laplace_cdf(w, tau)) == pytest.approx(one, rel=1e-12, abs=1e-300)
    assert normal_two_laplace_cdf(w, tau, tau * factors) == pytest.approx(two, rel=1e-7, abs=1e-30)


@pytest.mark.parametrize(
    ("k", "rates"),
    [
        *((k, (b,)) for k in (1, 4.5, 24.5, 199.5) for b in (0.01, 4.5, 24.4999, 999, 2e4)),
        *((k, (b, b)) for k, b in ((1, 0.5), (24.5, 8), (24.5, 300), (199.5, 2e4))),
        *((k, (b, b * 1.0001)) for k, b in ((4.5, 0.7), (24.5, 8), (199.5, 64))),
        (1.5, (0.7, 3)),
        (5000, (2e4,)),
    ],
)
@pytest.mark.parametrize("critical", [0.3, 3.0])
def test_expectations_over_noisy_variances(k, rates, critical):
    """They are integrals by the density in 40-digit arithmetic, also for b >= k, where the paper's form fails."""
    density = exact_noisy_variance if len(rates) == 1 else exact_noisy_pooled_variance
    near = [1 + side * reach for side in (-1, 1) for reach in (12 / k**0.5, 4 / k**0.5, 40 / min(rates))]
    far = 1 + 12 / k**0.5 + 40 / k + 40 / min(rates)
    ends = sorted({0.0, 1e-4, 1e-2, 0.1, 0.5, 1.0, 2.0, far, *(end for end in near if end > 0)})

    def integral(f):
        places, weights = np.polynomial.legendre.leggauss(12)
        edges = np.unique(np.concatenate([np.linspace(a, b, 5) for a, b in itertools.pairwise(np.sqrt(ends))]))
        half = np.diff(edges)[:, None] / 2
        x = (edges[:-1, None] + half * (1 + places)).ravel()
        with mpmath.workdps(40):
            f_x = np.array([float(density(at * at, k, *rates)) for at in x]) * 2 * x
        return (half * weights).ravel() @ (f(x) * f_x)

    def beyond(x):
        return 2 * normal_laplace_cdf(-critical * x, 1.5)

    found = over_noisy_variance(beyond, k, rates)

    assert found == pytest.approx(integral(beyond) / integral(np.ones_like), abs=1e-6)
    assert over_noisy_variance(np.ones_like, k, rates) == pytest.approx(1, abs=1e-6)


def test_the_laplace_parts_vanish_or_take_over():
    """Rates of infinity leave the normal distribution; a rate of zero leaves one half everywhere."""
    infinity = float("inf")

    assert float(normal_laplace_cdf(-1.959963984540054, infinity)) == pytest.approx(0.025, rel=1e-12)
    assert float(normal_two_laplace_cdf(-1.959963984540054, infinity, infinity)) == pytest.approx(0.025, rel=1e-12)
    assert float(normal_laplace_cdf(-3, 0)) == 0.5
    assert float(normal_two_laplace_cdf(-3, 0, 7)) == 0.5
    assert normal_two_laplace_cdf(1.3, 2, 1e12) == pytest.approx(normal_laplace_cdf(1.3, 2), rel=1e-12)


def test_not_a_number_stays_one():
    """A missing argument gives a missing probability, never a plausible one."""
    nan = float("nan")

    assert np.isnan(normal_laplace_cdf([nan, 1], [1, nan])).all()
    assert np.isnan(normal_two_laplace_cdf([nan, 1, 1], [1, nan, 1], [1, 1, nan])).all()


@settings(deadline=None)
@given(w=W, tau=TAU)
def test_normal_laplace_cdf_is_a_symmetric_probability(w, tau):
    """The distribution function stays in [0, 1], is symmetric and never overflows."""
    p, q = float(normal_laplace_cdf(w, tau)), float(normal_laplace_cdf(-w, tau))

    assert 0 <= p <= 1
    assert p + q == pytest.approx(1, abs=1e-14)


@settings(deadline=None)
@given(w=W, tau1=TAU, tau2=TAU)
def test_normal_two_laplace_cdf_is_a_symmetric_probability(w, tau1, tau2):
    """The same with two Laplace variables, in either order."""
    p, q = float(normal_two_laplace_cdf(w, tau1, tau2)), float(normal_two_laplace_cdf(-w, tau2, tau1))

    assert 0 <= p <= 1
    assert p + q == pytest.approx(1, abs=1e-14)


@settings(deadline=None)
@given(low=st.floats(-40, 40), step=st.floats(0, 5), tau1=st.floats(1e-6, 1e6), tau2=st.floats(1e-6, 1e6))
def test_cdfs_increase(low, step, tau1, tau2):
    """Both distribution functions increase, up to rounding."""
    one = normal_laplace_cdf([low, low + step], tau1)
    two = normal_two_laplace_cdf([low, low + step], tau1, tau2)

    assert one[1] - one[0] >= -1e-15
    assert two[1] - two[0] >= -1e-10
