"""Survival curves from noisy life tables: estimates at the ends of intervals, bands, medians, restricted means.

The last axis is that of the intervals; the one before it tells events and the two parts of censored times apart.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Curve", "cumulated_hazard"]

_DRAWS = 256  # of the noise, each with its opposite
_ROUNDS = 3  # of numbers of rows at risk
_BITS = 30  # of an end of an interval
_HAZARD_MIN, _HAZARD_MAX = -0.9, 0.999
_ALL_LEFT = 30.0  # a cumulated hazard from which on nobody lives
_LEAST, _LEAST_VARIANCE, _ERROR_MAX = 1e-4, 1e-9, 20.0
_FLOOR, _SEEN = 6.0, 20.0  # scales of the noise that should be at risk, for the estimate


def cumulated_hazard(tables: Array, least: float = 0.0, seen: float = 0.0) -> tuple[Array, Array, Array]:
    """Estimate -log S at the end of each interval.

    Parameters
    ----------
    tables : ndarray of shape (..., 3, K)
        Events, and the parts of censored times that they lived of their interval, and did not: noisy or not.
    least : float
        The least number at risk that counts: where fewer are, the noise alone would make the curve fall.
    seen : float
        How many must be at risk at an edge so that a curve that falls to it is brought down before it as well.

    Returns
    -------
    tuple of three ndarray of shape (..., K)
        The cumulated hazard, the nearest that rises; what each interval adds to its variance (Greenwood); and the
        number of rows at risk at the interval's begin.

    Notes
    -----
    Within an interval the hazard is taken for constant. Who was censored with a part `a` of it to come would have
    met 1 - S^a events more, S the part of those at risk who live beyond it: so as many are exposed to the whole
    interval as (1 - S^a)/(1 - S) for each of them are not. With times on edges it is the estimate of
    Kaplan and Meier.
    """
    events, censored = tables[..., 0, :], tables[..., 1:, :].sum(axis=-2)
    at_risk = np.cumsum((events + censored)[..., ::-1], axis=-1)[..., ::-1]
    rest = np.clip(tables[..., 2, :] / np.maximum(censored, 1), 0, 1)
    left = np.maximum(censored, 0)
    exposed = at_risk - left * rest
    for _ in range(_ROUNDS):
        lives = 1 - np.clip(events / np.maximum(exposed, np.maximum(events, 1)), 1e-6, _HAZARD_MAX)
        exposed = at_risk - left * (1 - lives**rest) / (1 - lives)
    exposed = np.maximum(exposed, np.maximum(events, max(least, 1)))
    hazard = np.clip(events / exposed, _HAZARD_MIN, _HAZARD_MAX)
    last = (events >= exposed - 1e-6) & (events > 1 / 2)  # the last ones at risk
    raw = np.cumsum(np.where(last, _ALL_LEFT, -np.log1p(-hazard)), axis=-1)
    above = np.maximum.accumulate(raw, axis=-1)
    below = np.minimum.accumulate(np.where(at_risk >= seen, raw, np.inf)[..., ::-1], axis=-1)[..., ::-1]
    rising = np.maximum((above + np.minimum(below, above)) / 2, 0)
    return rising, np.where(last, 0.0, hazard / (exposed * (1 - hazard))), at_risk


@dataclass(frozen=True)
class Curve:
    """A noisy curve of one group, with intervals.

    Attributes
    ----------
    table : ndarray of shape (3, K)
        A noisy life table.
    scale : float
        Scale of the Laplace noise in each cell.
    edges : ndarray of shape (K + 1,)
        The ends of the intervals.
    """

    table: Array
    scale: float
    edges: Array

    @cached_property
    def _estimate(self) -> tuple[Array, Array, Array]:
        return cumulated_hazard(self.table, _FLOOR * self.scale, _SEEN * self.scale)

    @property
    def survival(self) -> Array:
        """The part that lives beyond each edge but the first."""
        return np.exp(-self._estimate[0])

    @property
    def at_risk(self) -> Array:
        """How many are at risk at each edge but the last."""
        return self._estimate[2]

    @cached_property
    def _drawn(self) -> tuple[Array, Array]:
        """Curves of tables that this one may be of: fresh noise of the same law is taken away."""
        seed = hashlib.blake2b(np.ascontiguousarray(self.table).tobytes(), digest_size=8).digest()
        draws = (_DRAWS, *self.table.shape) if self.scale else (1, *self.table.shape)
        noise = np.random.default_rng(int.from_bytes(seed)).laplace(0, 1, draws) * self.scale
        hazard, added, _ = cumulated_hazard(self.table - np.concatenate([noise, -noise]))
        return np.maximum(hazard, _LEAST), added

    def bands(self, confidence: float) -> tuple[Array, Array]:
        """Compute a confidence interval at each edge but the first; its ends fall.

        Parameters
        ----------
        confidence : float
            Coverage at each.

        Returns
        -------
        tuple of two ndarray
            The ends.
        """
        hazard, added = self._drawn
        error = np.sqrt(np.maximum(np.cumsum(added, axis=-1), _LEAST_VARIANCE)) / hazard
        low, high = _quantiles(np.log(hazard), np.minimum(error, _ERROR_MAX), confidence)
        lower, upper = np.exp(-np.exp(high)), np.exp(-np.exp(low))
        return np.minimum.accumulate(lower), np.maximum.accumulate(upper[::-1])[::-1]

    def median(self, low: Array, high: Array) -> tuple[float, float, float]:
        """Estimate the median survival time, and the edges between which it is if the curve is within a band.

        Parameters
        ----------
        low, high : ndarray
            The ends of the bands.

        Returns
        -------
        tuple of three float
            The time at which the curve is 1/2, the hazard constant within its interval; and the begin of the
            interval in which `low`, and the end of that in which `high`, comes down to 1/2: where in an interval
            events are the table does not tell. Infinite where 1/2 is not reached.
        """
        points = np.append(1.0, self.survival)
        at, first, last = (_interval(each) for each in (points[1:], low, high))
        middle = np.inf
        if at is not None:
            before, after = points[at], max(points[at + 1], np.exp(-_ALL_LEFT))
            middle = self.edges[at] + np.log(2 * before) / np.log(before / after) * np.diff(self.edges)[at]
        least = np.inf if first is None else self.edges[first]
        return float(middle), float(least), float(np.inf if last is None else self.edges[last + 1])

    def restricted_mean(self, confidence: float) -> tuple[float, float, float]:
        """Estimate the mean time lived up to the last edge, counted from the first, with its interval."""
        hazard, added = self._drawn
        areas = _areas(hazard, self.edges)
        after = np.cumsum(areas[..., ::-1], axis=-1)[..., ::-1] - areas / 2  # what an event takes away
        error = np.sqrt(np.maximum((after**2 * added).sum(axis=-1), _LEAST_VARIANCE))
        low, high = np.clip(_quantiles(areas.sum(axis=-1), error, confidence), 0, self.edges[-1] - self.edges[0])
        return float(_areas(self._estimate[0], self.edges).sum()), float(low), float(high)

    def events_at_ends(self) -> float:
        """Compute the restricted mean if all events of an interval are at its end."""
        return float(np.append(1.0, self.survival[:-1]) @ np.diff(self.edges))


def _interval(values: Array) -> int | None:
    """Find the interval in which a curve comes down to 1/2; None if it does not."""
    below = np.flatnonzero(values <= 1 / 2)
    return int(below[0]) if below.size else None


def _areas(hazard: Array, edges: Array) -> Array:
    """Compute the area under curves by interval, by Simpson's rule: -log S is a shape-preserving cubic (PCHIP)."""
    widths = np.diff(edges)
    ends = np.concatenate([np.zeros((*hazard.shape[:-1], 1)), hazard], axis=-1)
    rates = np.diff(ends, axis=-1) / widths
    one, two = rates[..., :-1], rates[..., 1:]
    weight, other = 2 * widths[1:] + widths[:-1], widths[1:] + 2 * widths[:-1]
    inner = (weight + other) * one * two / np.maximum(weight * two + other * one, 1e-300)  # a harmonic mean
    outer = [inner[..., at] if inner.shape[-1] else rates[..., at] for at in (0, -1)]
    begin, end = (
        np.clip(2 * rates[..., at] - each, 0, 3 * rates[..., at]) for at, each in zip((0, -1), outer, strict=True)
    )
    slopes = np.concatenate([begin[..., None], inner, end[..., None]], axis=-1)
    middle = (ends[..., :-1] + ends[..., 1:]) / 2 + widths / 8 * (slopes[..., :-1] - slopes[..., 1:])
    lives = np.exp(-np.stack([ends[..., :-1], middle, ends[..., 1:]]))
    return np.asarray(widths * np.tensordot([1 / 6, 4 / 6, 1 / 6], lives, axes=1))


def _quantiles(middle: Array, error: Array, confidence: float) -> Array:
    """Find both ends of the central part of a mixture of normal laws, one for each draw (the first axis)."""
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2]).reshape(2, *[1] * (middle.ndim - 1))
    low = np.broadcast_to((middle - 6 * error).min(axis=0), (2, *middle.shape[1:]))
    high = np.broadcast_to((middle + 6 * error).max(axis=0), low.shape)
    for _ in range(_BITS):
        half = (low + high) / 2
        short = ndtr((half[:, None] - middle) / error).mean(axis=1) < tails
        low, high = np.where(short, half, low), np.where(short, high, half)
    return np.asarray((low + high) / 2)
