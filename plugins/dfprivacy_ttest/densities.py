"""Densities of noisy variances, which are a gamma plus Laplace variables.

=====================  =============================  ==================================
here                   is the law of                  in the paper
=====================  =============================  ==================================
noisy_variance         G(k, mean 1) + L(1/b)          f_X(x) = 2x f_U(x²), equation (4)
noisy_pooled_variance  G(k, mean 1) + two Laplace     section 3.3
=====================  =============================  ==================================

Laplace variables are written L(scale), so b is a rate: the larger, the less noise.

References
----------
X. Tong, B. Xi, M. Kantarcioglu, A. Inan. Gaussian mixture models for classification and hypothesis tests
under differential privacy. DBSec 2017, LNCS 10359, 123-141.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammainc, gammaincc, gammaln, hyp1f1

from dfprivacy_ttest.distributions import SAME_RATE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["noisy_pooled_variance_density", "noisy_variance_density"]

_TINY = 1e-100  # counts as zero: scipy's hyp1f1 has no value at subnormal numbers


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
    same = narrow - wide <= SAME_RATE * (narrow + wide)
    ratio = np.where(same, 0.0, (wide / narrow) ** 2)
    apart = (noisy_variance_density(u, k, wide) - ratio * noisy_variance_density(u, k, narrow)) / (1 - ratio)
    return np.where(same, _twice_noisy_variance_density(u, k, (wide + narrow) / 2), apart)


def _convolution_sides(u: Array, shape: Array, rate: Array, b: Array) -> tuple[Array, Array]:
    """e^{-bu} ∫_0^u e^{bg} f(g) dg and e^{bu} ∫_u^∞ e^{-bg} f(g) dg for the gamma density f."""
    positive = u > _TINY
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


def _broadcast(*arrays: ArrayLike) -> tuple[Array, ...]:
    return tuple(np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in arrays)))
