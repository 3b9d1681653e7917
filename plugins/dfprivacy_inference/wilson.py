"""Intervals of proportions from noisy counts, and of their difference, ratio and odds ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import ndtri

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["Share", "combined", "from_counts", "from_halves", "of_known_rows"]

_LEAST = 1e-9


@dataclass(frozen=True)
class Share:
    """A proportion and its interval.

    Attributes
    ----------
    estimate, low, high : ndarray
        The proportion and the ends.
    """

    estimate: Array
    low: Array
    high: Array


def from_counts(hits: ArrayLike, misses: ArrayLike, scale: float, confidence: float = 0.95) -> Share:
    """Conclude from two noisy counts, with independent Laplace noise of one scale.

    Parameters
    ----------
    hits, misses : array_like
        Noisy counts.
    scale : float
        The scale.
    confidence : float
        Coverage.

    Returns
    -------
    Share
        The values p with (a - pN)² at most z² (N p(1 - p) + 2b² ((1 - p)² + p²)): Wilson's interval, noise inside.
    """
    a, n = np.asarray(hits, dtype=np.float64), np.maximum(np.asarray(hits) + np.asarray(misses), 1.0)
    noise = 2 * scale**2
    return _roots(a, n, (noise, -2 * noise, 2 * noise), confidence)


def from_halves(difference: ArrayLike, half: ArrayLike, scale: float, confidence: float = 0.95) -> Share:
    """Conclude from half of the difference of two counts, and half of their sum.

    Parameters
    ----------
    difference, half : array_like
        (hits - misses)/2 and (hits + misses)/2, with noise.
    scale : float
        The scale of the noise in each.
    confidence : float
        Coverage.

    Returns
    -------
    Share
        The same, where the noise of a - pN has the variance 2b² (1 + (1 - 2p)²).
    """
    x, h = np.asarray(difference, dtype=np.float64), np.asarray(half, dtype=np.float64)
    noise = 2 * scale**2
    return _roots(x + h, np.maximum(2 * h, 1.0), (2 * noise, -4 * noise, 4 * noise), confidence)


def of_known_rows(hits: ArrayLike, rows: ArrayLike, scale: float, confidence: float = 0.95) -> Share:
    """Conclude from a noisy count among a public number of rows.

    Parameters
    ----------
    hits, rows : array_like
        The noisy count, and the number.
    scale : float
        The scale of the noise.
    confidence : float
        Coverage.

    Returns
    -------
    Share
        The same, where the noise of a - pN has the variance 2b².
    """
    a = np.asarray(hits, dtype=np.float64)
    return _roots(a, np.asarray(rows, dtype=np.float64) + 0 * a, (2 * scale**2, 0.0, 0.0), confidence)


def _roots(a: Array, n: Array, noise: tuple[float, float, float], confidence: float) -> Share:
    """Solve (a - pN)² = z² (N p(1 - p) + noise), the noise a polynomial of p, the constant first."""
    z2 = float(ndtri((1 + confidence) / 2)) ** 2
    c0, c1, c2 = noise
    two, one, zero = n**2 + z2 * n - z2 * c2, -(2 * a * n + z2 * n + z2 * c1), a**2 - z2 * c0
    root = np.sqrt(np.maximum(one**2 - 4 * two * zero, 0.0))
    void = two <= 0  # the noise is larger than the counts: nothing is known
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (np.clip((-one + sign * root) / (2 * two), 0.0, 1.0) for sign in (-1, 1))
    estimate = np.clip(a / n, 0.0, 1.0)
    return Share(np.where(void, 0.5, estimate), np.where(void, 0.0, low), np.where(void, 1.0, high))


def combined(one: Share, other: Share, kind: Literal["difference", "ratio", "odds"]) -> Share:
    """Combine the intervals of two independent proportions (MOVER).

    Parameters
    ----------
    one, other : Share
        Their intervals.
    kind : {"difference", "ratio", "odds"}
        p - q, p/q, or the odds ratio; for the last two, logarithms are combined.

    Returns
    -------
    Share
        The estimate and its interval; for ratios not their logarithms.
    """

    def scale(p: Array) -> Array:
        if kind == "difference":
            return p
        inside = np.clip(p, _LEAST, 1.0 if kind == "ratio" else 1 - _LEAST)
        return np.asarray(np.log(inside) - (np.log1p(-inside) if kind == "odds" else 0.0))

    (p, l1, u1), (q, l2, u2) = ([scale(each) for each in (s.estimate, s.low, s.high)] for s in (one, other))
    differences = (p - q, p - q - np.hypot(p - l1, u2 - q), p - q + np.hypot(u1 - p, q - l2))
    return Share(*(each if kind == "difference" else np.exp(each) for each in differences))
