"""The law of a normal variable plus Laplace noise, and p-values by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import erfcx, ndtr

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Alternative", "normal_laplace_cdf", "normal_laplace_quantile", "pvalue"]

Alternative = Literal["two-sided", "less", "greater"]

_STEPS = 80  # of a bisection


def normal_laplace_cdf(x: ArrayLike, sd: ArrayLike, scale: ArrayLike) -> NDArray[np.float64]:
    """Distribution function of N(0, sd²) plus Laplace noise of a scale.

    Parameters
    ----------
    x : array_like
        Where.
    sd : array_like
        Standard deviations, above 0.
    scale : array_like
        Scales of the noise, 0 or above.

    Returns
    -------
    ndarray
        Probabilities.

    Notes
    -----
    With w = x/sd and τ = sd/scale it is Φ(w) + (A(w) - A(-w))/2, A(w) = exp(τ²/2 + τw) Φ(-w - τ), computed without
    overflow by the scaled complementary error function.
    """
    sd = np.asarray(sd, dtype=np.float64)
    with np.errstate(divide="ignore"):
        rate = np.minimum(sd / np.asarray(scale, dtype=np.float64), 1e12)  # no noise: the normal law
    w, rate = np.broadcast_arrays(np.asarray(x, dtype=np.float64) / sd, rate)
    return np.asarray(ndtr(w) + (_tail(w, rate) - _tail(-w, rate)) / 2)


def _tail(w: NDArray[np.float64], rate: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give exp(τ²/2 + τw) Φ(-w - τ)."""
    a = w + rate
    far = a >= 0
    scaled = 0.5 * erfcx(np.where(far, a, 0.0) / np.sqrt(2)) * np.exp(-w * w / 2)
    plain = np.exp(np.where(far, 0.0, rate * w + rate * rate / 2)) * ndtr(-a)
    return np.where(far, scaled, plain)


def normal_laplace_quantile(probability: float, sd: float, scale: float) -> float:
    """Find where the distribution function has a value.

    Parameters
    ----------
    probability : float
        Between 0 and 1.
    sd, scale : float
        Of the two parts.

    Returns
    -------
    float
        The quantile.
    """
    reach = 40 * (sd + scale)
    low, high = -reach, reach
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if normal_laplace_cdf(middle, sd, scale) < probability else (low, middle)
    return (low + high) / 2


def pvalue(
    x: ArrayLike, sd: ArrayLike, scale: ArrayLike, alternative: Alternative = "two-sided"
) -> NDArray[np.float64]:
    """Probability of a value at least as extreme as x.

    Parameters
    ----------
    x : array_like
        Noisy values of mean 0 under the null hypothesis.
    sd : array_like
        Their standard deviation without the noise, or an upper bound of it.
    scale : array_like
        The scale of the Laplace noise in them.
    alternative : {"two-sided", "less", "greater"}
        What counts as extreme.

    Returns
    -------
    ndarray
        P-values.
    """
    if alternative == "two-sided":
        return np.minimum(2 * normal_laplace_cdf(-np.abs(x), sd, scale), 1.0)
    return normal_laplace_cdf(x if alternative == "less" else -np.asarray(x), sd, scale)
