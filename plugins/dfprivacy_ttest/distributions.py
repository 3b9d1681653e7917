"""The distributions behind a t-test on noisy statistics.

A noisy mean is a normal plus a Laplace variable (two of them for a difference of means); a noisy variance is
a gamma plus a Laplace variable. Tong, Xi, Kantarcioglu and Inan (2017) give their distribution and density
functions; here they are rewritten so that nothing overflows and nothing large cancels:

=====================  =============================  ==================================
here                   is the law of                  in the paper
=====================  =============================  ==================================
normal_laplace         N(0,1) + L(1/τ)                equations (2) and (3)
normal_two_laplace     N(0,1) + L(1/τ₁) + L(1/τ₂)     equations (6) and (7)
noisy_variance         G(k, mean 1) + L(1/b)          f_X(x) = 2x f_U(x²), equation (4)
noisy_pooled_variance  G(k, mean 1) + two Laplace     section 3.3
=====================  =============================  ==================================

Laplace variables are written L(scale), so τ and b are rates: the larger, the less noise.

References
----------
X. Tong, B. Xi, M. Kantarcioglu, A. Inan. Gaussian mixture models for classification and hypothesis tests
under differential privacy. DBSec 2017, LNCS 10359, 123-141.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import erfcx, gammainc, gammaincc, gammaln, hyp1f1, ndtr, ndtri

from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = [
    "noisy_pooled_variance_density",
    "noisy_variance_density",
    "normal_laplace_cdf",
    "normal_laplace_quantile",
    "normal_two_laplace_cdf",
    "normal_two_laplace_quantile",
    "solve_decreasing",
]

# Beyond 1e100 every distribution has long reached its limit, and squares stay finite below it.
_HUGE = 1e100
_TINY = 1e-100  # counts as zero: scipy's hyp1f1 has no value at subnormal numbers
# Two rates nearer than this (relative to their sum) count as one. The error of that is of second order
# (1e-10), and the weights of the general formula, 1/(4 · 1e-5), cost it less than 5 digits.
_SAME_RATE = 1e-5


def normal_laplace_cdf(w: ArrayLike, tau: ArrayLike) -> Array:
    """Distribution function of N(0,1) + Laplace(scale 1/tau).

    Parameters
    ----------
    w : array_like
        Where to evaluate, in standard deviations of the normal part.
    tau : array_like
        Standard deviation of the normal part over the scale of the Laplace part; 0 is all noise, infinity
        none.

    Returns
    -------
    ndarray
        Probabilities, with small relative error in the lower tail. For an upper tail use the symmetry.

    Notes
    -----
    Φ(w) + A(w)/2 - A(-w)/2 with A(w) = exp(τw + τ²/2) Φ(-w-τ). Equation (2) of the paper has y + μ for y - μ
    in its last exponent, and equation (3) the sign of δ reversed.

    Examples
    --------
    >>> float(normal_laplace_cdf(0, 1))
    0.5
    >>> f"{normal_laplace_cdf(-1.959963984540054, 1):.6f}"
    '0.112549'
    """
    w = _bounded(w)
    tau = _bounded(tau)
    return ndtr(w) + (_laplace_part(w, tau) - _laplace_part(-w, tau)) / 2


def normal_two_laplace_cdf(w: ArrayLike, tau1: ArrayLike, tau2: ArrayLike) -> Array:
    """Distribution function of N(0,1) + Laplace(scale 1/tau1) + Laplace(scale 1/tau2).

    Parameters
    ----------
    w : array_like
        Where to evaluate, in standard deviations of the normal part.
    tau1, tau2 : array_like
        Standard deviation of the normal part over the scale of each Laplace part.

    Returns
    -------
    ndarray
        Probabilities, with small relative error in the lower tail.

    Notes
    -----
    For different rates the sum of two Laplace variables is a signed mixture of the two; for equal rates the
    limit is taken. Equations (6) and (7) of the paper, whose 1/√(2π) terms cancel.

    Examples
    --------
    >>> f"{normal_two_laplace_cdf(1.5, 0.5, 2):.8f}"
    '0.72475096'
    """
    w, tau1, tau2 = np.broadcast_arrays(_bounded(w), _bounded(tau1), _bounded(tau2))
    wide, narrow = np.minimum(tau1, tau2), np.maximum(tau1, tau2)
    same = narrow - wide <= _SAME_RATE * (narrow + wide)
    lower = -np.abs(w)
    ratio = np.where(same, 0.0, (wide / np.where(same, 1.0, narrow)) ** 2)
    apart = (normal_laplace_cdf(lower, wide) - ratio * normal_laplace_cdf(lower, narrow)) / (1 - ratio)
    tail = np.clip(np.where(same, _normal_double_laplace(lower, (wide + narrow) / 2), apart), 0.0, 0.5)
    result: Array = np.where(w > 0, 1 - tail, tail)
    return np.where(np.isnan(w + wide), np.nan, result)


def normal_laplace_quantile(q: ArrayLike, tau: ArrayLike) -> Array:
    """Quantile function of N(0,1) + Laplace(scale 1/tau).

    Parameters
    ----------
    q : array_like
        Probabilities, strictly between 0 and 1.
    tau : array_like
        Standard deviation of the normal part over the scale of the Laplace part, positive.

    Returns
    -------
    ndarray
        The values below which the variable falls with probability `q`.

    Raises
    ------
    ArgumentError
        If a probability is not strictly between 0 and 1.

    Examples
    --------
    >>> f"{normal_laplace_quantile(0.975, 2.0):.4f}"
    '2.4158'
    """
    tau = _bounded(tau)
    return _symmetric_quantile(q, lambda x: normal_laplace_cdf(-x, tau), [tau])


def normal_two_laplace_quantile(q: ArrayLike, tau1: ArrayLike, tau2: ArrayLike) -> Array:
    """Quantile function of N(0,1) + Laplace(scale 1/tau1) + Laplace(scale 1/tau2).

    Parameters
    ----------
    q : array_like
        Probabilities, strictly between 0 and 1.
    tau1, tau2 : array_like
        Standard deviation of the normal part over the scale of each Laplace part, positive.

    Returns
    -------
    ndarray
        The values below which the variable falls with probability `q`.

    Raises
    ------
    ArgumentError
        If a probability is not strictly between 0 and 1.
    """
    tau1, tau2 = _bounded(tau1), _bounded(tau2)
    return _symmetric_quantile(q, lambda x: normal_two_laplace_cdf(-x, tau1, tau2), [tau1, tau2])


def noisy_variance_density(u: ArrayLike, k: ArrayLike, b: ArrayLike) -> Array:
    """Density of a noisy sample variance over the true variance: Gamma(shape k, mean 1) + Laplace(scale 1/b).

    Parameters
    ----------
    u : array_like
        Where to evaluate; may be negative, as the noisy variance may.
    k : array_like
        Half the degrees of freedom, positive.
    b : array_like
        True variance over the scale of the noise, positive.

    Returns
    -------
    ndarray
        The density f_U(u), not conditioned on U > 0.

    Notes
    -----
    The paper's equation (4) is 2x f_U(x²)/P(U > 0). Its θ₁ = 2/(n-1-2σ²/λ₂) is negative or infinite when b >=
    k, its last two exponents need a plus sign, and its gamma density terms cancel; here each side of the
    convolution is a confluent hypergeometric function, which needs no sign.

    Examples
    --------
    >>> f"{noisy_variance_density(1.2, 24.5, 1.6):.9f}"
    '0.560180737'
    """
    u, k, b = _broadcast(u, k, b)
    below, above = _convolution_sides(u, k, k, b)
    return b / 2 * (below + above)


def noisy_pooled_variance_density(u: ArrayLike, k: ArrayLike, b1: ArrayLike, b2: ArrayLike) -> Array:
    """Density of a noisy pooled variance: Gamma(shape k, mean 1) + Laplace(scale 1/b1) + Laplace(scale 1/b2).

    Parameters
    ----------
    u : array_like
        Where to evaluate; may be negative.
    k : array_like
        Half the pooled degrees of freedom, positive.
    b1, b2 : array_like
        Rates of the two noises, each divided by its group's weight in the pooled variance, positive.

    Returns
    -------
    ndarray
        The density, not conditioned on U > 0.

    Notes
    -----
    The paper distinguishes λ₃ = λ₄ from λ₃ ≠ λ₄; what matters is b₁ = b₂, that is (n₁-1)λ₃ = (n₂-1)λ₄. For
    equal rates its θ₁ and θ₂ must be 2/(v-2b) and 2/(v+2b).
    """
    u, k, b1, b2 = _broadcast(u, k, b1, b2)
    wide, narrow = np.minimum(b1, b2), np.maximum(b1, b2)
    same = narrow - wide <= _SAME_RATE * (narrow + wide)
    ratio = np.where(same, 0.0, (wide / narrow) ** 2)
    apart = (noisy_variance_density(u, k, wide) - ratio * noisy_variance_density(u, k, narrow)) / (1 - ratio)
    return np.where(same, _twice_noisy_variance_density(u, k, (wide + narrow) / 2), apart)


def solve_decreasing(function: Callable[[Array], Array], target: ArrayLike, high: ArrayLike) -> Array:
    """Solve function(x) = target elementwise for a decreasing function on [0, high].

    By Chandrupatla's method: inverse quadratic interpolation through the last three points where these lie so
    that it can be trusted, else bisection. The solution stays bracketed, as with bisection, but a dozen
    evaluations do for sixty-four.

    Parameters
    ----------
    function : callable
        A decreasing function of an array, evaluated elementwise.
    target : array_like
        The values to reach.
    high : array_like
        An upper end for each element, where the function is at most the target.

    Returns
    -------
    ndarray
        The solutions, to two units in the last place of `high`; `high` where the function is above the target
        everywhere.

    References
    ----------
    T. R. Chandrupatla. A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function
    without using derivatives. Advances in Engineering Software 28, 145-149 (1997).
    """
    goal = np.asarray(target, dtype=np.float64)
    # The solution lies between a, the newest point, and b; c is the one that was left last.
    a = np.broadcast_to(np.asarray(high, dtype=np.float64), np.broadcast_shapes(np.shape(high), goal.shape))
    fa = function(a) - goal
    b = c = np.where(fa > 0, a, 0.0)
    fb = fc = function(b) - goal
    near = a * 2.0**-52
    share = np.full_like(a, 0.5)  # of the way from a to b
    for _ in range(64):
        x = a + share * (b - a)
        fx = function(x) - goal
        beyond = (fx > 0) == (fa > 0)  # then a is left, else b
        b, c = np.where(beyond, b, a), np.where(beyond, a, b)
        fb, fc = np.where(beyond, fb, fa), np.where(beyond, fa, fb)
        a, fa = x, fx
        width = np.abs(b - a)
        if np.all(width <= 2 * near):
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            trusted = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            quadratic = fa / (fb - fa) * fc / (fb - fc)
            quadratic += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            least = np.minimum(near / width, 0.5)
        share = np.where(trusted, np.clip(quadratic, least, 1 - least), 0.5)
    return np.maximum(a, b)


def _laplace_part(w: Array, tau: Array) -> Array:
    """A(w) = exp(τw + τ²/2) Φ(-w-τ), with each factor at most 1."""
    a = w + tau
    right = 0.5 * erfcx(np.maximum(a, 0.0) / np.sqrt(2)) * np.exp(-w * w / 2)
    left = np.exp(np.minimum(tau * (w + tau / 2), 0.0)) * ndtr(-a)
    return np.where(a >= 0, right, left)


def _normal_double_laplace(w: Array, tau: Array) -> Array:
    """N(0,1) plus two Laplace variables of the same rate (equation (7) of the paper), for w <= 0."""
    t = np.minimum(tau, 1e4)
    quarter = t / 4 * w
    both = (
        ndtr(w)
        + (0.5 - quarter - t * t / 4) * _laplace_part(w, t)
        - (0.5 + quarter - t * t / 4) * _laplace_part(-w, t)
    )
    # The terms are τ times their sum. When both Laplace variables are 10,000 times narrower than the normal
    # one, a single one with their variance gives the same 12 digits without that loss.
    return np.where(tau > 1e4, normal_laplace_cdf(w, tau / np.sqrt(2)), both)  # noqa: PLR2004


def _symmetric_quantile(q: ArrayLike, tail: Callable[[Array], Array], taus: list[Array]) -> Array:
    q = np.asarray(q, dtype=np.float64)
    if not np.all((q > 0) & (q < 1)):
        raise ArgumentError(
            "A quantile was asked for a probability that is not between 0 and 1.",
            "Use a confidence level strictly between 0 and 1.",
        )
    outer = np.minimum(q, 1 - q)
    # If the sum exceeds a + b + c, then one of its terms exceeds its part: give each an equal share of the
    # tail.
    share = outer / (1 + len(taus))
    with np.errstate(divide="ignore"):
        high = -ndtri(share) + sum(-np.log(2 * share) / tau for tau in taus)
    distance = solve_decreasing(tail, outer, high)
    return np.where(q == 0.5, 0.0, np.where(q < 0.5, -distance, distance))  # noqa: PLR2004


def _convolution_sides(u: Array, shape: Array, rate: Array, b: Array) -> tuple[Array, Array]:
    """e^{-bu} ∫_0^u e^{bg} f(g) dg and e^{bu} ∫_u^∞ e^{-bg} f(g) dg for the gamma density f."""
    positive = u > 0
    v = np.where(positive, u, 1.0)
    log_f = shape * np.log(rate * v) - rate * v - gammaln(shape) - np.log(v)
    f = np.exp(log_f)

    # Below u: Kummer's function while its argument is moderate, else the incomplete gamma function, whose
    # factor is then at most 1 (log(1+y) <= y), so that neither overflows when the other underflows.
    x = v * (rate - b)
    far = x > shape + 1
    kummer = f * v / shape * _kummer(shape, np.where(far, 0.0, x))
    gap = np.where(far, rate - b, rate)
    far_below = np.exp(shape * np.log(rate / gap) - b * v) * gammainc(shape, v * gap)
    below = np.where(far, far_below, kummer)

    # Above u: the same with the upper incomplete gamma function, and its continued fraction in its far tail.
    z = v * (rate + b)
    near = z < shape + 1
    at_zero = shape * np.log(rate / (rate + b))
    near_above = np.exp(np.minimum(at_zero + b * v, 1.0)) * gammaincc(shape, z)
    far_above = f * v * _upper_gamma_fraction(shape, np.where(near, shape + 1, z))
    above = np.where(near, near_above, far_above)

    with np.errstate(over="ignore"):
        beyond_zero = np.exp(at_zero + b * np.minimum(u, 0.0))
    return np.where(positive, below, 0.0), np.where(positive, above, beyond_zero)


def _kummer(shape: Array, x: Array) -> Array:
    """1F1(1; s+1; x) for x <= s + 1, by its asymptotic series where scipy's is slow or gives up."""
    remote = x < -1e6 * (shape + 1)
    inverse = -1 / np.where(remote, x, -1.0)
    series = shape * inverse * (1 - (shape - 1) * inverse * (1 - (shape - 2) * inverse))
    return np.where(remote, series, hyp1f1(1.0, shape + 1, np.where(remote | (np.abs(x) < _TINY), 0.0, x)))


def _upper_gamma_fraction(shape: Array, z: Array) -> Array:
    """Γ(s,z) e^z z^{-s} for z >= s + 1 by its continued fraction (Lentz's algorithm)."""
    denominator = z + 1 - shape
    c = np.full_like(z, np.inf)
    d = 1 / denominator
    value = d.copy()
    converged = np.zeros(z.shape, dtype=bool)
    for j in range(1, 20_000):
        step = j * (shape - j)
        denominator = denominator + 2
        d = 1 / (denominator + step * d)
        c = denominator + step / c
        value = value * (c * d)
        converged |= np.abs(c * d - 1) < 1e-15  # noqa: PLR2004
        if converged.all():
            break
    return value


def _twice_noisy_variance_density(u: Array, k: Array, b: Array) -> Array:
    """Evaluate the density when both Laplace variables have the rate b."""
    limit = np.maximum(1e4, 1e3 * np.sqrt(k))
    b_ = np.minimum(b, limit)
    below, above = _convolution_sides(u, k, k, b_)
    # The same integrals of g f(g), which is a gamma density of shape k + 1 and the same rate.
    below_g, above_g = _convolution_sides(u, k + 1, k, b_)
    both = b_ / 4 * ((1 + b_ * u) * below - b_ * below_g + (1 - b_ * u) * above + b_ * above_g)
    # As for the means: noise far narrower than the gamma variable acts through its variance alone.
    return np.where(b > limit, noisy_variance_density(u, k, b / np.sqrt(2)), both)


def _bounded(x: ArrayLike) -> Array:
    return np.clip(np.asarray(x, dtype=np.float64), -_HUGE, _HUGE)


def _broadcast(*arrays: ArrayLike) -> tuple[Array, ...]:
    return tuple(np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in arrays)))
