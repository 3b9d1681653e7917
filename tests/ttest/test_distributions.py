"""The distributions of noisy means and variances, against published values and 50-digit arithmetic."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfprivacy_ttest.densities import noisy_pooled_variance_density, noisy_variance_density
from dfprivacy_ttest.distributions import normal_laplace_cdf, normal_two_laplace_cdf

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


@pytest.mark.parametrize(
    ("u", "k", "b", "expected"),
    [
        (0.5, 24.5, 8, 0.2120724278),
        (1.2, 24.5, 1.6, 0.560180737),
        (1, 24.5, 40, 1.941174047),
        (2, 4.5, 4.5, 0.1363609758),
        (0.9, 4.5, 9, 0.8584373033),
    ],
)
def test_noisy_variance_reference_values(u, k, b, expected):
    """The density has its values in 40-digit arithmetic, also for b >= k, where the paper's form fails."""
    assert float(noisy_variance_density(u, k, b)) == pytest.approx(expected, rel=1e-8)


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


@pytest.mark.parametrize("k", [1, 4.5, 24.5, 199.5, 5000])
@pytest.mark.parametrize("b", [0.01, 4.5, 24.4999, 999, 2e4, 1e6, 1e12])
def test_noisy_variance_densities_keep_their_digits(k, b):
    """The densities agree with 60-digit arithmetic where one side of the convolution under- or overflows."""
    u = np.array([-3, -0.1, 0.1, 0.5, 0.99, 1, 1.1, 1.5, 3, 20])
    with mpmath.workdps(60):
        single = [float(exact_noisy_variance(x, k, b)) for x in u]
        near = [float(exact_noisy_pooled_variance(x, k, b, b * 1.0001)) for x in u]

    assert noisy_variance_density(u, k, b) == pytest.approx(single, rel=3e-11, abs=1e-280)
    assert noisy_pooled_variance_density(u, k, b, b * 1.0001) == pytest.approx(near, rel=1e-7, abs=1e-30)


@pytest.mark.parametrize(("k", "b"), [(1, 0.5), (24.5, 8), (24.5, 300), (199.5, 2e4)])
def test_equal_rates_are_the_limit_of_different_rates(k, b):
    """The pooled density for equal rates is the limit of the one for different rates."""
    u = np.array([-0.02, 0.3, 0.9, 1.0, 1.2, 2.0])
    with mpmath.workdps(60):
        expected = [float(exact_noisy_pooled_variance(x, k, b, b)) for x in u]

    assert noisy_pooled_variance_density(u, k, b, b) == pytest.approx(expected, rel=1e-6, abs=1e-30)


@pytest.mark.parametrize(("k", "b1", "b2"), [(1.5, 0.7, 3), (24.5, 8, 8), (24.5, 8, 8.01), (199.5, 64, 100)])
def test_noisy_variance_densities_integrate_to_one_with_mean_one(k, b1, b2):
    """Density functions integrate to 1, and noise of mean 0 leaves the mean of the variance at 1."""

    # Gauss and Legendre's rule of 20 points on pieces that are finer near 0, where the density has a bend.
    ends = np.concatenate([[0], np.geomspace(1e-12, 60, 200)])
    low, width = np.concatenate([-ends[1:], ends[:-1]]), np.tile(np.diff(ends), 2)
    places, weights = np.polynomial.legendre.leggauss(20)
    u = low[:, None] + width[:, None] * (places + 1) / 2
    masses = noisy_pooled_variance_density(u, k, b1, b2) * width[:, None] * weights / 2

    assert (masses.sum(), (masses * u).sum()) == pytest.approx((1, 1), abs=1e-8)


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


@settings(deadline=None)
@given(u=st.floats(-1e6, 1e6), k=st.floats(0.5, 1e6), b1=st.floats(1e-6, 1e15), b2=st.floats(1e-6, 1e15))
def test_noisy_variance_densities_are_finite_and_not_negative(u, k, b1, b2):
    """No argument, however extreme, gives an infinite, missing or negative density (up to rounding)."""
    densities = np.array([noisy_variance_density(u, k, b1), noisy_pooled_variance_density(u, k, b1, b2)])

    assert np.isfinite(densities).all()
    assert (densities >= -1e-6 * max(1, k)).all()
