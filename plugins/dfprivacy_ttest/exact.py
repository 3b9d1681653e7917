"""Exact type I error and power of standard tests that are applied to noisy statistics without correction.

What happens to the level and the power of a textbook z- or t-test when its mean and variance carry Laplace
noise that the test ignores: Tong, Xi, Kantarcioglu and Inan (2017). The answer is why this package calibrates
its tests instead: at n = 100 and ε = 0.2 the nominal 5% t-test on noisy statistics rejects a true hypothesis
in 30% of all samples.

The setting is the paper's. The data lie in an interval of length 1 (give `sigma` and `shift` in units of the
length of yours) and are close enough to normal. Every group of size n releases its mean and its variance
(divisor n-1), each with Laplace noise of scale 1/(n ε). Both statistics have sensitivity 1/n, so **the
release of one group costs 2 ε in all**, not ε. When the noisy variance is not positive the test is undefined;
as in the paper, such releases are set aside, and every probability is conditional on a positive variance.
(Counting them as rejections or acceptances would change a size by up to 0.07.)

Corrected relative to the paper: the sign of δ in equation (3), which matters to one-sided tests; the signs
and the parameters θ of equation (4) and of its two-sample versions, whose case distinction is (n₁-1)λ₃ =
(n₂-1)λ₄; and equation (5), where F_T(t) = ∫ F_Z(tx) f_X(x) dx holds for every t. Tables 1(a) to 1(c) of the
paper then reproduce. Table 1(d) does not, in any cell: its values are 0.004 to 0.05 too small, which
simulation confirms.

References
----------
X. Tong, B. Xi, M. Kantarcioglu, A. Inan. Gaussian mixture models for classification and hypothesis tests
under differential privacy. DBSec 2017, LNCS 10359, 123-141.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import erfcx, gammainccinv, gammaincinv, ndtr, ndtri, stdtrit

from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["exact_power", "exact_size", "mean_over_noisy_variance", "normal_laplace_cdf", "normal_two_laplace_cdf"]

Test = Literal["one-sample-z", "one-sample-t", "pooled-t"]
Alternative = Literal["two-sided", "less", "greater"]

_MAX_ARGUMENT = 1e100  # beyond, every distribution has long reached its limit; below, squares stay finite
_SIGNS = {"two-sided": (1, -1), "greater": (1,), "less": (-1,)}

# For expectations over a noisy variance: rule of each panel, tail probabilities of the gamma variable, distances
# from it in scales of the noise, and parts of it, for critical values so large that even small variances count.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_TAIL_PROBABILITIES = np.append(0.0, np.geomspace(1e-11, 0.5, 13))
_DISTANCES = np.array([0, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.4, 1, 2, 4, 8, 16, 40])
_NEAR = np.array([1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.4])


def exact_size(
    test: Test,
    n: int,
    epsilon: float,
    *,
    sigma: float,
    alpha: float = 0.05,
    n2: int | None = None,
    alternative: Alternative = "two-sided",
) -> float:
    """Compute the type I error of a standard z or t test whose mean and variance carry Laplace noise.

    Parameters
    ----------
    test : {"one-sample-z", "one-sample-t", "pooled-t"}
        Which test; "pooled-t" is the two-sample t-test with equal variances.
    n : int
        Size of the (first) sample.
    epsilon : float
        Privacy parameter of every single statistic. The whole release of a group costs twice as much (once
        for the z-test, which needs no variance).
    sigma : float
        Standard deviation of the data, in units of the length of their range.
    alpha : float
        Nominal level.
    n2 : int, optional
        Size of the second sample, for "pooled-t".
    alternative : {"two-sided", "less", "greater"}
        The side on which the test rejects.

    Returns
    -------
    float
        Probability of rejecting a true hypothesis, given that the noisy variance is positive.

    Raises
    ------
    ArgumentError
        If an argument is out of range, or `n2` does not go with the test.

    Examples
    --------
    >>> round(exact_size("one-sample-t", 100, 0.2, sigma=0.4), 4)
    0.2952
    >>> round(exact_size("pooled-t", 400, 1.0, sigma=0.35, n2=400), 4)
    0.0548
    """
    return exact_power(test, n, epsilon, shift=0.0, sigma=sigma, alpha=alpha, n2=n2, alternative=alternative)


def exact_power(
    test: Test,
    n: int,
    epsilon: float,
    *,
    shift: float,
    sigma: float,
    alpha: float = 0.05,
    n2: int | None = None,
    alternative: Alternative = "two-sided",
) -> float:
    """Compute the power of a standard z or t test whose mean and variance carry Laplace noise.

    Parameters
    ----------
    test : {"one-sample-z", "one-sample-t", "pooled-t"}
        Which test; "pooled-t" is the two-sample t-test with equal variances.
    n : int
        Size of the (first) sample.
    epsilon : float
        Privacy parameter of every single statistic. The whole release of a group costs twice as much (once
        for the z-test, which needs no variance).
    shift : float
        True mean minus hypothetical mean, or first mean minus second, in units of the length of the data's
        range.
    sigma : float
        Standard deviation of the data, in the same units.
    alpha : float
        Nominal level.
    n2 : int, optional
        Size of the second sample, for "pooled-t".
    alternative : {"two-sided", "less", "greater"}
        The side on which the test rejects.

    Returns
    -------
    float
        Probability of rejecting, given that the noisy variance is positive.

    Raises
    ------
    ArgumentError
        If an argument is out of range, or `n2` does not go with the test.

    Notes
    -----
    With T = Z/X, Z the standardised noisy mean (normal plus Laplace) and X² = U the noisy variance over the
    true one, the power is E[P(Z beyond tX) | X > 0] (`mean_over_noisy_variance`).

    Examples
    --------
    >>> round(1 - exact_power("one-sample-z", 100, 0.6, shift=0.1, sigma=0.5), 6)
    0.485123
    """
    _check_design(test, n, n2, alternative)
    _check_numbers(epsilon, shift, sigma, alpha)
    sizes = np.array([n] if n2 is None else [n, n2], dtype=np.float64)
    se = sigma * math.sqrt((1 / sizes).sum())
    taus = se * epsilon * sizes
    cdf = normal_laplace_cdf if len(sizes) == 1 else normal_two_laplace_cdf
    signs = _SIGNS[alternative]
    tail = alpha / len(signs)

    def rejection_probability(critical: Array) -> Array:
        return np.asarray(sum(cdf(sign * shift / se - critical, *taus) for sign in signs))

    if test == "one-sample-z":
        return float(rejection_probability(np.asarray(-ndtri(tail))))
    df = float((sizes - 1).sum())
    rates = df * sigma**2 * epsilon * sizes / (sizes - 1)
    return mean_over_noisy_variance(lambda x: rejection_probability(-stdtrit(df, tail) * x), df / 2, rates)


def mean_over_noisy_variance(f: Callable[[Array], Array], k: float, rates: Sequence[float] | Array) -> float:
    r"""Compute the mean of a function f of the noisy standard deviation, given a positive noisy variance.

    Parameters
    ----------
    f : callable
        A function of x, the noisy standard deviation over the true one.
    k : float
        Half the degrees of freedom, positive.
    rates : sequence of one or two float
        True variance over the scale of each noise in the variance, positive.

    Returns
    -------
    float
        E[f(√U) | U > 0] for U = Gamma(shape k, mean 1) + Laplace(scale 1/b), or two such Laplace variables.

    Notes
    -----
    By Gauss-Legendre quadrature over the gamma variable and over x. The density of U is the paper's equation (4),
    2x f_U(x²)/P(U > 0), whose θ₁ = 2/(n-1-2σ²/λ₂) is negative or infinite when b >= k, and whose last two exponents
    need a plus sign. For two noises the paper distinguishes λ₃ = λ₄ from λ₃ ≠ λ₄; what matters is b₁ = b₂, that is
    (n₁-1)λ₃ = (n₂-1)λ₄, where its θ₁ and θ₂ must be 2/(v-2b) and 2/(v+2b).
    """
    p, mass = _quadrature(_TAIL_PROBABILITIES)
    gamma, mass = np.concatenate([gammaincinv(k, p), gammainccinv(k, p)])[:, None] / k, np.tile(mass, 2)
    total = positive = 0.0
    for part, b in _laplace_mixture(rates, 1e-4):
        reach = _DISTANCES / b
        below = np.concatenate([np.maximum(gamma - reach, 0), np.maximum(gamma * _NEAR, gamma - reach[-1])], axis=1)
        x, width = _quadrature(np.sqrt(np.concatenate([np.sort(below, axis=1), gamma + reach[1:]], axis=1)))
        density = b * x * np.exp(-b * np.abs(x * x - gamma))
        total += float(part * (mass @ (f(x) * density * width).sum(axis=1)))
        positive += float(part * (mass @ (density * width).sum(axis=1)))  # whose error is that of the total
    return min(total / positive, 1.0)


def normal_laplace_cdf(w: ArrayLike, tau: ArrayLike) -> Array:
    """Return the distribution function at w of N(0,1) + Laplace(scale 1/tau).

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
    w, tau = _clipped_array(w), _clipped_array(tau)
    return np.asarray(ndtr(w) + _laplace_excess(w, tau))


def normal_two_laplace_cdf(w: ArrayLike, tau1: ArrayLike, tau2: ArrayLike) -> Array:
    """Return the distribution function at w of N(0,1) + Laplace(scale 1/tau1) + Laplace(scale 1/tau2).

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
    Equations (6) and (7) of the paper, whose 1/√(2π) terms cancel.

    Examples
    --------
    >>> f"{normal_two_laplace_cdf(1.5, 0.5, 2):.8f}"
    '0.72475096'
    """
    w, tau1, tau2 = _clipped_array(w), _clipped_array(tau1), _clipped_array(tau2)
    lower = -np.abs(w)
    excess = sum(part * _laplace_excess(lower, tau) for part, tau in _laplace_mixture((tau1, tau2), 1e-5))
    tail = np.minimum(np.maximum(ndtr(lower) + excess, 0.0), 0.5)
    return np.asarray(np.where(w > 0, 1 - tail, tail))


def _laplace_mixture(rates: Sequence[Any] | Array, min_gap: float) -> list[tuple[Any, Any]]:
    """Return (weight, rate) pairs of Laplace laws whose signed mixture is one Laplace variable or a sum of two.

    Two rates that are nearer than so much, relative to their sum, are taken for that far apart, about the same
    middle: the error of that is of second order, and the weights, 1/(4 · alike), cost some digits.
    """
    if len(rates) == 1:
        return [(1.0, rates[0])]
    wide, narrow = np.minimum(*rates), np.maximum(*rates)
    middle, same = wide / 2 + narrow / 2, narrow - wide <= min_gap * (narrow + wide)
    wide, narrow = np.where(same, (1 - min_gap) * middle, wide), np.where(same, (1 + min_gap) * middle, narrow)
    ratio = (wide / np.where(narrow > 0, narrow, 1.0)) ** 2
    return [(1 / (1 - ratio), wide), (-ratio / (1 - ratio), narrow)]


def _laplace_excess(w: Array, tau: Array) -> Array:
    """Return the difference at w of the distribution functions of N(0,1) + Laplace(scale 1/tau) and N(0,1)."""
    return (_laplace_part(w, tau) - _laplace_part(-w, tau)) / 2


def _laplace_part(w: Array, tau: Array) -> Array:
    """Compute A(w) = exp(τw + τ²/2) Φ(-w-τ) without overflow."""
    a = w + tau
    right = np.exp(-w * w / 2) * erfcx(np.maximum(a, 0.0) / math.sqrt(2)) / 2
    return np.asarray(np.where(a < 0, np.exp(np.minimum(tau * (w + tau / 2), 0.0)) * ndtr(-a), right))


def _clipped_array(x: ArrayLike) -> Array:
    return np.asarray(np.clip(np.asarray(x, dtype=np.float64), -_MAX_ARGUMENT, _MAX_ARGUMENT))


def _quadrature(edges: Array) -> tuple[Array, Array]:
    """Return nodes and weights of Gauss-Legendre quadrature on the intervals between edges, along the last axis."""
    half = np.diff(edges)[..., None] / 2
    shape = (*edges.shape[:-1], -1)
    return (edges[..., :-1, None] + half * (1 + _NODES)).reshape(shape), (half * _WEIGHTS).reshape(shape)


def _check_design(test: str, n: int, n2: int | None, alternative: str) -> None:
    if test not in {"one-sample-z", "one-sample-t", "pooled-t"}:
        raise ArgumentError(f"There is no test {test!r}.", "Use 'one-sample-z', 'one-sample-t' or 'pooled-t'.")
    if alternative not in {"two-sided", "less", "greater"}:
        raise ArgumentError(f"There is no alternative {alternative!r}.", "Use 'two-sided', 'less' or 'greater'.")
    if (test == "pooled-t") != (n2 is not None):
        raise ArgumentError(
            f"n2={n2} cannot be used with test={test!r}.", "'pooled-t' needs n2=; the other tests do not take n2=."
        )
    smallest = 1 if test == "one-sample-z" else 2
    if n < smallest or (n2 is not None and n2 < smallest):
        raise ArgumentError(
            f"n={n} is too small for a test." if n < smallest else f"n2={n2} is too small for a test.",
            f"Use sample sizes of {smallest} or more.",
        )


def _check_numbers(epsilon: float, shift: float, sigma: float, alpha: float) -> None:
    if not (0 < epsilon < math.inf and 0 < sigma < math.inf):
        raise ArgumentError(
            f"epsilon={epsilon} and sigma={sigma} must be positive and finite.",
            "Give sigma= in units of the width of the bounds, for example 0.25.",
        )
    if not (0 < alpha < 1 and math.isfinite(shift)):
        raise ArgumentError(
            f"alpha={alpha} or shift={shift} is out of range.", "Use 0 < alpha < 1 and a finite shift=."
        )
