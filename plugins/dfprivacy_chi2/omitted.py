r"""The null law of a difference of shares where any rows may be left out: a bound of its tail, with a proof.

Of m and k complete rows, whatever rows these are, the statistic is |D| with :math:`D = S - n \bar X`, where S adds
up the n = min(m, k) rows of the smaller group and :math:`\bar X` is the mean of the larger. The mean of more rows
is less spread out, in the convex order: :math:`E\,h(D) \le E\,h(D_n)` for each convex h, where :math:`D_n` is the
difference of two sums of n rows: n terms, each 1 or -1 with probability p (1 - p), else 0. More terms, or a p
nearer to 1/2, spread it out further. So with N rows in the smaller group, and the share p nearest 1/2,

.. math:: P(|D| + L > t) = E\,g(|D|) \le E\,h(|D|) \le E\,h(|D_N|)

for any convex, nondecreasing h that is nowhere below the tail g of the noise. g is convex up to t and concave
beyond: a tangent at t + y is above it there, and h is the larger of the two up to t. The least bound of some y is
taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import ndtri

from dfprivacy_chi2.laws import ALIKE, WINDOW

__all__ = ["Omitted"]

Array = NDArray[np.float64]

_TANGENTS = np.linspace(0.0, 40.0, 81)  # y, in scales of the larger noise


@dataclass(frozen=True)
class Omitted:
    """The null hypothesis of the absolute difference where any rows are left out of two groups.

    The statistic is :math:`|D| / N` plus one or two Laplace variables.

    Attributes
    ----------
    rows : int
        Rows N of the smaller group, complete or not.
    share : float
        The share of X = 1 that is nearest 1/2, of those that are possible.
    """

    rows: int
    share: float = 0.5

    def pvalue(self, statistic: float, *scales: float) -> float:
        """Bound the probability of a noisy difference beyond this one, whatever rows are left out."""
        t, *noise = (self.rows * each for each in (statistic, *scales))
        weights = _law(self.rows, self.share * (1 - self.share))
        points = np.arange(len(weights), dtype=np.float64)
        return min(1.0, float(_bounds(points, weights, t, noise).min()))

    def critical_value(self, alpha: float, *scales: float) -> float:
        """Return what a noisy difference exceeds with probability `alpha` at most, whatever rows are left out."""
        return _critical_value(self, alpha, scales)


@lru_cache(maxsize=256)
def _critical_value(null: Omitted, alpha: float, scales: tuple[float, ...]) -> float:
    @cache
    def log(t: float) -> float:
        return math.log(max(null.pvalue(t, *scales), 1e-300) / alpha)

    width = (sum(scales) + 1.0) * (1 + math.log(1 / min(alpha, 1 - alpha)))
    low, high = -width, 2 * width
    spread = math.sqrt(2 * null.share * (1 - null.share) / null.rows)
    about = spread * float(ndtri(1 - alpha / 2)) + max(scales) * math.log(1 / alpha)
    if log(about / 3) > 0 > log(1.5 * about):
        low, high = about / 3, 1.5 * about
    critical = float(scipy.optimize.brentq(log, low, high, xtol=1e-11 * width, rtol=1e-12))
    return critical if log(critical) <= 0 else critical + 1e-10 * width


@lru_cache(maxsize=16)
def _law(rows: int, moves: float) -> Array:
    """Give the law of the absolute value of a sum of terms that are 1 or -1 with this probability each, else 0.

    It is that of the characteristic function; counts beyond nine standard deviations and 20 more are left out.
    """
    top = min(rows, math.ceil(WINDOW * math.sqrt(2 * rows * moves)) + 20)
    size = 1 << (2 * top + 1).bit_length()
    angles = np.pi * np.arange(size // 2 + 1) / size
    wave = np.exp(rows * np.log1p(np.maximum(-4 * moves * np.sin(angles) ** 2, 2.0**-53 - 1)))
    weights: Array = np.maximum(np.fft.irfft(wave, size)[: top + 1], 0.0)
    weights[1:] *= 2
    weights /= weights.sum()
    return weights


def _bounds(points: Array, weights: Array, t: float, noise: list[float]) -> Array:
    """Give E h for the h of each tangent, of a law on these points in ascending order.

    Up to t a tangent less the convex g is concave, and at t it is not below 0: the tangent is the larger from some
    point on, which is found by bisection. Sums up to each point, and from each one on, give the rest.
    """
    beyond = _TANGENTS * max(noise)
    height, slope = _above(-beyond, *noise), _density(beyond, *noise)
    edge = int(np.searchsorted(points, t, side="right"))
    tail = _above(t - points[:edge], *noise)
    low, high = np.zeros(len(beyond), dtype=np.intp), np.full(len(beyond), edge)
    while (low < high).any():
        middle = np.minimum((low + high) // 2, edge - 1)
        larger = height + slope * (points[middle] - t - beyond) >= tail[middle]
        low, high = (
            np.where((low < high) & ~larger, middle + 1, low),
            np.where(larger, np.minimum(middle, high), high),
        )
    below = np.append(0.0, np.cumsum(tail * weights[:edge]))
    mass, moment = (np.append(np.cumsum(each[::-1])[::-1], 0.0) for each in (weights, weights * (points - t)))
    return np.asarray(below[low] + (height - slope * beyond) * mass[low] + slope * moment[low])


def _above(y: Array, *scales: float) -> Array:
    """Probability that the noise exceeds y."""
    tail = _mixed(y, scales, 2)
    return np.asarray(np.where(y > 0, tail, 1 - tail))


def _density(y: Array, *scales: float) -> Array:
    """Density of the noise at y."""
    return _mixed(y, scales, 1)


def _mixed(y: Array, scales: tuple[float, ...], power: int) -> Array:
    """Give the tail beyond |y|, or the density there: that of two Laplace variables in partial fractions."""
    a, away = max(scales), np.abs(y)
    if len(scales) == 1:
        return np.asarray(a ** (power - 2) * np.exp(-away / a) / 2)
    b = min(*scales, a * (1 - ALIKE))
    parts = a**power * np.exp(-away / a) - b**power * np.exp(-away / b)
    return np.asarray(parts / (2 * (a * a - b * b)))
