"""Distribution functions of a normal variable plus Laplace variables, as noisy means have them.

Tong, Xi, Kantarcioglu and Inan (2017) give them; here they are rewritten so that nothing overflows and nothing
large cancels: N(0,1) + L(1/τ) is in their equations (2) and (3), N(0,1) + L(1/τ₁) + L(1/τ₂) in (6) and (7).
Laplace variables are written L(scale), so τ is a rate: the larger, the less noise.

References
----------
X. Tong, B. Xi, M. Kantarcioglu, A. Inan. Gaussian mixture models for classification and hypothesis tests
under differential privacy. DBSec 2017, LNCS 10359, 123-141.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import erfcx, ndtr

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["normal_laplace_cdf", "normal_two_laplace_cdf"]

# Beyond 1e100 every distribution has long reached its limit, and squares stay finite below it.
_HUGE = 1e100
# Two rates nearer than this (relative to their sum) count as one. The error of that is of second order
# (1e-10), and the weights of the general formula, 1/(4 · 1e-5), cost it less than 5 digits.
SAME_RATE = 1e-5


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
    return _normal_laplace(_bounded(w), _bounded(tau))


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
    w, tau1, tau2 = _bounded(w), _bounded(tau1), _bounded(tau2)
    wide, narrow = np.minimum(tau1, tau2), np.maximum(tau1, tau2)
    same = narrow - wide <= SAME_RATE * (narrow + wide)
    lower = -np.abs(w)
    tail = lower * 0.0
    if np.any(same):
        tail = np.where(same, _normal_double_laplace(lower, (wide + narrow) / 2), tail)
    if not np.all(same):
        ratio = np.where(same, 0.0, (wide / np.where(same, 1.0, narrow)) ** 2)
        apart = (_normal_laplace(lower, wide) - ratio * _normal_laplace(lower, narrow)) / (1 - ratio)
        tail = np.where(same, tail, apart)
    tail = np.minimum(np.maximum(tail, 0.0), 0.5)
    return np.where(w > 0, 1 - tail, tail)


def _normal_laplace(w: Array, tau: Array) -> Array:
    return np.asarray(ndtr(w) + (_laplace_part(w, tau) - _laplace_part(-w, tau)) / 2)


def _laplace_part(w: Array, tau: Array) -> Array:
    """A(w) = exp(τw + τ²/2) Φ(-w-τ), with each factor at most 1."""
    a = w + tau
    right: Array = 0.5 * erfcx(np.maximum(a, 0.0) / np.sqrt(2)) * np.exp(-w * w / 2)
    if np.all(a >= 0):
        return right
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
    return np.where(tau > 1e4, _normal_laplace(w, tau / np.sqrt(2)), both) if np.any(tau > 1e4) else both  # noqa: PLR2004


def _bounded(x: ArrayLike) -> Array:
    return np.minimum(np.maximum(np.asarray(x, dtype=np.float64), -_HUGE), _HUGE)
