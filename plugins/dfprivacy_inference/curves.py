"""Survival curves from noisy counts of events and censored times by interval.

The last axis is that of the intervals; the one before it tells events and censored times apart.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["Curve", "Estimate", "estimate"]

_REDRAWS = 400
_FLOOR = 3.0  # scales of the noise: no fewer are taken to be at risk
_HAZARD_MAX = 0.999
_EDGE = 1e-6


@dataclass(frozen=True)
class Estimate:
    """A curve at the ends of intervals.

    Attributes
    ----------
    survival : ndarray
        Probability to live longer.
    greenwood : ndarray
        Greenwood's sum: the variance of log S from sampling.
    at_risk : ndarray
        How many are at risk at the beginning of each interval.
    hazard : ndarray
        Share of those at risk for whom the event comes in each interval.
    exposed : ndarray
        How many that is a share of.
    """

    survival: Array
    greenwood: Array
    at_risk: Array
    hazard: Array
    exposed: Array


def estimate(events: ArrayLike, censored: ArrayLike, floor: float) -> Estimate:
    """Estimate survival at the end of each interval, half of its censored times counted as at risk (actuarial).

    Parameters
    ----------
    events, censored : array_like of shape (..., intervals)
        Counts, noisy or not.
    floor : float
        The least number to divide by.

    Returns
    -------
    Estimate
        The curve.
    """
    d, c = np.asarray(events, dtype=np.float64), np.asarray(censored, dtype=np.float64)
    n = np.cumsum((d + c)[..., ::-1], axis=-1)[..., ::-1]
    r = np.maximum(n - c / 2, floor)
    h = np.clip(np.divide(d, r, out=np.zeros_like(r), where=r > 0), 0.0, _HAZARD_MAX)
    inner = np.divide(h, r * (1 - h), out=np.zeros_like(r), where=r > 0)
    return Estimate(np.cumprod(1 - h, axis=-1), np.cumsum(inner, axis=-1), n, h, r)


@dataclass(frozen=True)
class Curve:
    """A noisy curve of one group, with bands.

    Attributes
    ----------
    counts : ndarray of shape (2, intervals)
        Noisy counts: events, then censored times.
    scale : float
        Scale of the Laplace noise in each.
    edges : ndarray of shape (intervals + 1,)
        The ends of the intervals.
    """

    counts: Array
    scale: float
    edges: Array

    @property
    def estimate(self) -> Estimate:
        """The curve at the ends of the intervals."""
        return estimate(self.counts[0], self.counts[1], _FLOOR * self.scale)

    @property
    def survival(self) -> Array:
        """Survival, within the open interval (0, 1)."""
        return np.clip(self.estimate.survival, _EDGE, 1 - _EDGE)

    def _redrawn(self) -> Estimate:
        """Curves of tables that these counts may be of: fresh noise of the same law is taken away."""
        seed = hashlib.blake2b(np.ascontiguousarray(self.counts).tobytes(), digest_size=8).digest()
        noise = np.random.default_rng(int.from_bytes(seed)).laplace(0, self.scale, (_REDRAWS, *self.counts.shape))
        counts = self.counts - noise
        return estimate(counts[:, 0], counts[:, 1], _FLOOR * self.scale)

    def bands(self, confidence: float, *, noise: bool = True) -> tuple[Array, Array]:
        """Give a confidence interval at each edge, by log(-log S): Greenwood's variance and that of redrawn noise.

        Parameters
        ----------
        confidence : float
            Coverage at each.
        noise : bool
            Whether the noise is in them; else they are as wide as sampling alone makes them.

        Returns
        -------
        tuple of two ndarray
            The ends.
        """
        s = self.survival
        variance = self.estimate.greenwood / np.log(s) ** 2
        if noise:
            variance += np.log(-np.log(np.clip(self._redrawn().survival, _EDGE, 1 - _EDGE))).var(axis=0)
        reach = ndtri((1 + confidence) / 2) * np.sqrt(variance)
        middle = np.log(-np.log(s))
        return np.exp(-np.exp(middle + reach)), np.exp(-np.exp(middle - reach))

    def time_at(self, values: Array, level: float) -> float:
        """Find when a falling curve through 1 at the first edge comes down to a level; infinity if it does not."""
        curve = np.minimum.accumulate(np.concatenate([[1.0], values]))
        below = np.flatnonzero(curve <= level)
        if not below.size:
            return float("inf")
        at = int(below[0])
        left, right = self.edges[at - 1 : at + 1]
        part = (curve[at - 1] - level) / (curve[at - 1] - curve[at])
        return float(left + part * (right - left))

    def median(self, confidence: float) -> tuple[float, float, float]:
        """Give the median survival time, and where the bands come down to 1/2 (Brookmeyer and Crowley)."""
        low, high = self.bands(confidence)
        return self.time_at(self.survival, 0.5), self.time_at(low, 0.5), self.time_at(high, 0.5)

    def restricted_mean(self, confidence: float) -> tuple[float, float, float]:
        """Give the mean time lived up to the last edge, counted from the first, with its interval."""
        estimate, mean = self.estimate, _area(self.survival, self.edges)
        again = _area(self._redrawn().survival, self.edges)
        widths = np.diff(self.edges)
        points = np.concatenate([[1.0], self.survival])
        pieces = widths * (points[:-1] + points[1:]) / 2
        after = np.cumsum(pieces[::-1])[::-1] - pieces / 2  # what an event in the middle of an interval takes away
        h, r = estimate.hazard, estimate.exposed
        sampling = (after**2 * np.divide(h, r * (1 - h), out=np.zeros_like(h), where=r > 0)).sum()
        reach = ndtri((1 + confidence) / 2) * np.sqrt(again.var() + sampling)
        span = self.edges[-1] - self.edges[0]
        return float(mean), float(max(mean - reach, 0.0)), float(min(mean + reach, span))


def _area(survival: Array, edges: Array) -> Array:
    """Area under curves that start at 1 and are straight between edges."""
    first = np.ones((*survival.shape[:-1], 1))
    points = np.concatenate([first, survival], axis=-1)
    return np.asarray((np.diff(edges) * (points[..., :-1] + points[..., 1:]) / 2).sum(axis=-1))
