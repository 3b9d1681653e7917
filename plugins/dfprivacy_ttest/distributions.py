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

import math
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
    lower = -np.abs(w)
    bell = np.exp(-lower * lower / 2)
    if np.all(narrow == _HUGE):  # there is one Laplace variable at most
        excess = _excess(lower, wide, bell)
    else:
        same = narrow - wide <= SAME_RATE * (narrow + wide)
        excess = np.zeros(()) if np.all(same) else _excess_of_two(lower, wide, narrow, bell, same)
        if np.any(same):
            excess = np.where(same, _excess_of_alike(lower, (wide + narrow) / 2, bell), excess)
    tail = np.minimum(np.maximum(ndtr(lower) + excess, 0.0), 0.5)
    return np.where(w > 0, 1 - tail, tail)


def _normal_laplace(w: Array, tau: Array) -> Array:
    return np.asarray(ndtr(w) + _excess(w, tau, np.exp(-w * w / 2)))


def _excess(w: Array, tau: Array, bell: Array) -> Array:
    """Give what a Laplace variable adds to the normal distribution function; `bell` is exp(-w²/2)."""
    return (_laplace_part(w, tau, bell) - _laplace_part(-w, tau, bell)) / 2


def _excess_of_two(w: Array, wide: Array, narrow: Array, bell: Array, same: NDArray[np.bool_]) -> Array:
    """Give what two Laplace variables of different rates add; where they are the same, any number."""
    ratio = np.where(same, 0.0, (wide / np.where(same, 1.0, narrow)) ** 2)
    excess: Array = (_excess(w, wide, bell) - ratio * _excess(w, narrow, bell)) / (1 - ratio)
    return excess


def _excess_of_alike(w: Array, tau: Array, bell: Array) -> Array:
    """Give what two Laplace variables of the same rate add (equation (7) of the paper), for w <= 0."""
    t = np.minimum(tau, 1e4)
    quarter, square = t / 4 * w, t * t / 4
    both = (0.5 - quarter - square) * _laplace_part(w, t, bell)
    both -= (0.5 + quarter - square) * _laplace_part(-w, t, bell)
    # The terms are τ times their sum. When both Laplace variables are 10,000 times narrower than the normal
    # one, a single one with their variance gives the same 12 digits without that loss.
    return np.where(tau > 1e4, _excess(w, tau / np.sqrt(2), bell), both) if np.any(tau > 1e4) else both  # noqa: PLR2004


def _laplace_part(w: Array, tau: Array, bell: Array) -> Array:
    """A(w) = exp(τw + τ²/2) Φ(-w-τ), with each factor at most 1."""
    a = w + tau
    part = np.asarray(bell * erfcx(np.maximum(a, 0.0) / math.sqrt(2)) / 2)
    left = a < 0
    if np.any(left):
        w, tau, a = (np.broadcast_to(x, part.shape)[left] for x in (w, tau, a))
        part[left] = np.exp(np.minimum(tau * (w + tau / 2), 0.0)) * ndtr(-a)
    return part


def _bounded(x: ArrayLike) -> Array:
    return np.minimum(np.maximum(np.asarray(x, dtype=np.float64), -_HUGE), _HUGE)
