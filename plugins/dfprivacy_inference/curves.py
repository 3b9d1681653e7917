"""Noisy life tables, and survival curves computed from them: bands, medians and restricted means."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dfprivacy import ArgumentError
from dfprivacy.features import RowFeatures
from dfprivacy.inference.draws import points, quantile
from dfprivacy.inference.engine import infer
from dfprivacy_inference.asking import check_distinct_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.features.base import Norm
    from dfprivacy.laws import NoiseLaw

    Array = NDArray[np.float64]
    Hazards: TypeAlias = tuple[Array, Array, Array]

__all__ = ["Curve", "LifeTable", "check_times", "cumulative_hazard", "exposed_rows", "interval_edges"]

_INTERVALS_MAX = 1000
_BINARY = (0, 1)
_ROOT_TWO = 1.4142135623730951  # rounded up


class LifeTable(RowFeatures):
    """Features of a life table: events, and the parts of an interval before and after a censored time.

    Parameters
    ----------
    time, event : Column
        Times, and whether they are those of an event: of two categories, the larger of which says so.
    edges : ndarray of shape (K + 1,)
        Ends of intervals, each of which holds its upper end and not its lower one, but the first holds both.

    Notes
    -----
    A row is (1, 0, 0) or (0, f, 1 - f) in one of the K columns, 0 ≤ f ≤ 1, and zeros where `event` is missing: its
    parts add up to 1. So the radius is 1 in every norm, and the sum moves as a histogram does: by 1 if a row comes
    or goes; if a row changes by 2 in L1, by √2 in L2, and by 1 in each cell.
    """

    description = "events and times at risk of {columns}"

    def __init__(self, time: Column, event: Column, edges: NDArray[np.float64]) -> None:
        self.columns, self.edges = (time, event), edges
        self.shape = (3, len(edges) - 1)
        self._code = (event.categories or ()).index(1)  # True is 1

    def rows(self, batch: Any) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        time, event = self.columns
        times, codes, bins = batch.values(time), batch.codes(event), self.shape[1]
        place = np.clip(np.searchsorted(self.edges, times, side="left") - 1, 0, bins - 1)
        lived = np.clip((times - self.edges[place]) / np.diff(self.edges)[place], 0.0, 1.0)
        happened, censored = codes == self._code, codes == 1 - self._code
        vectors = np.zeros((batch.size, 3, bins))
        vectors[np.arange(batch.size), :, place] = np.column_stack(
            [happened, censored * lived, censored * (1 - lived)]
        )
        return vectors.reshape(batch.size, 3 * bins)

    def radius(self, norm: Norm) -> float:  # noqa: ARG002
        """Return 1, the largest norm of a row's feature vector, as its nonnegative entries sum to 1."""
        return 1.0

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance between the feature vectors of two rows."""
        if all(column.name in public for column in self.columns):
            return 0.0
        return {1: 2.0, 2: _ROOT_TWO, math.inf: 1.0}[norm]


def check_times(time: Column, event: Column) -> None:
    """Check that the lower bound of times is not negative, and that the categories of events are 0 and 1."""
    check_distinct_columns(time, event)
    if time.low < 0:
        raise ArgumentError(
            f"The lower bound of {time.name!r} is {time.low:g}, and a time cannot be negative.",
            "Declare bounds that begin at 0 or above.",
        )
    known = event.categories or ()
    if len(known) != 2 or any(isinstance(each, str) for each in known) or {*known} != {*_BINARY}:  # noqa: PLR2004
        raise ArgumentError(
            f"The categories of {event.name!r} are {list(known)!r}, which are not 0 and 1.",
            f"Declare categories={{{event.name!r}: [0, 1]}}, or [False, True], where 1 is the event.",
        )


def interval_edges(time: Column, edges: Sequence[float] | int) -> NDArray[np.float64]:
    """Return the edges of the time intervals; raise an error if they do not cover the column's bounds."""
    if isinstance(edges, int | np.integer) and not isinstance(edges, bool):
        if not 1 <= edges <= _INTERVALS_MAX:
            raise ArgumentError(
                f"edges={edges} must be at least 1 and at most {_INTERVALS_MAX:,}.",
                "Give a number of intervals, or a list of increasing times.",
            )
        return np.linspace(time.low, time.high, int(edges) + 1)
    try:
        ends = np.array([float(edge) for edge in islice(edges, _INTERVALS_MAX + 2)])  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ArgumentError(
            f"edges={edges!r} is not a list of times.", "Give increasing times, or a number of intervals."
        ) from None
    if not 1 < len(ends) <= _INTERVALS_MAX + 1 or not np.isfinite(ends).all() or (np.diff(ends) <= 0).any():
        raise ArgumentError(
            "The times in edges= must be finite and increase.", f"Give 2 to {_INTERVALS_MAX + 1} increasing times."
        )
    if ends[0] > time.low or ends[-1] < time.high:
        raise ArgumentError(
            f"The edges, {ends[0]:g} to {ends[-1]:g}, do not cover the bounds of {time.name!r}, {time.low:g} to "
            f"{time.high:g}.",
            "Times beyond them would be counted in the first or the last interval. Widen the edges.",
        )
    return ends


_DRAWS = 512
_ROUNDS = 3  # of numbers of rows at risk
_HAZARD_MIN, _HAZARD_MAX = -0.9, 0.999
_MAX_HAZARD = 30.0  # a cumulated hazard from which on nobody lives
_MIN_HAZARD, _LEAST_VARIANCE, _ERROR_MAX = 1e-4, 1e-9, 20.0
_NODES, _WEIGHTS = (np.polynomial.legendre.leggauss(5) + np.array([[1.0], [0.0]])) / 2
_MIN_AT_RISK, _CLEARLY_AT_RISK = 6.0, 20.0  # scales of the noise that should be at risk, for the estimate


def exposed_rows(tables: Array) -> Hazards:
    """Estimate events, rows exposed and rows at risk of each interval, for constant hazards within intervals.

    Parameters
    ----------
    tables : ndarray of shape (..., 3, K)
        Events, and the parts of censored times that they lived of their interval, and did not: noisy or not.

    Returns
    -------
    tuple of three ndarray of shape (..., K)
        Events, rows exposed to the whole interval, and rows at risk at its begin.

    Notes
    -----
    Who was censored with a part `a` of the interval to come would have met 1 - S^a events more, S the part of those
    at risk who live beyond it: so as many are exposed to the whole interval as (1 - S^a)/(1 - S) for each of them
    are not.
    """
    events, censored = tables[..., 0, :], tables[..., 1:, :].sum(axis=-2)
    at_risk = np.cumsum((events + censored)[..., ::-1], axis=-1)[..., ::-1]
    rest = np.clip(tables[..., 2, :] / np.maximum(censored, 1), 0, 1)
    left = np.maximum(censored, 0)
    exposed = at_risk - left * rest
    for _ in range(_ROUNDS):
        beyond = 1 - np.clip(events / np.maximum(exposed, np.maximum(events, 1)), 1e-6, _HAZARD_MAX)
        exposed = at_risk - left * (1 - beyond**rest) / (1 - beyond)
    return events, exposed, at_risk


def cumulative_hazard(tables: Array, least: float = 0.0, seen: float = 0.0) -> Hazards:
    """Estimate the cumulative hazard -log S(t) at each interval's end, and its increments of variance.

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
    Within an interval the hazard is taken for constant (`exposed_rows`). With times on edges it is the estimate of
    Kaplan and Meier.
    """
    events, exposed, at_risk = exposed_rows(tables)
    exposed = np.maximum(exposed, np.maximum(events, max(least, 1)))
    hazard = np.clip(events / exposed, _HAZARD_MIN, _HAZARD_MAX)
    last = (events >= exposed - 1e-6) & (events > 1 / 2)  # the last ones at risk
    raw = np.cumsum(np.where(last, _MAX_HAZARD, -np.log1p(-hazard)), axis=-1)
    above = np.maximum.accumulate(raw, axis=-1)
    below = np.minimum.accumulate(np.where(at_risk >= seen, raw, np.inf)[..., ::-1], axis=-1)[..., ::-1]
    rising = np.maximum((above + np.minimum(below, above)) / 2, 0)
    return rising, np.where(last, 0.0, hazard / (exposed * (1 - hazard))), at_risk


@dataclass(frozen=True)
class Curve:
    """The noisy life table of one group, and the survival curve estimated from it.

    Attributes
    ----------
    table : ndarray of shape (3, K)
        A noisy life table.
    law : NoiseLaw
        Of the noise in each cell.
    edges : ndarray of shape (K + 1,)
        The ends of the intervals.
    """

    table: Array
    law: NoiseLaw
    edges: Array

    @cached_property
    def estimate(self) -> Hazards:
        """Estimated cumulative hazard, increment of its variance and number at risk, for each interval."""
        return cumulative_hazard(self.table[None], _MIN_AT_RISK * self.law.scale, _CLEARLY_AT_RISK * self.law.scale)

    @property
    def survival(self) -> Array:
        """Estimated survival probability at each edge except the first."""
        return np.asarray(np.exp(-self.estimate[0][0]))

    @property
    def at_risk(self) -> Array:
        """Estimated number of rows at risk at each edge except the last."""
        return np.asarray(self.estimate[2][0])

    def draws(self, draws: int = _DRAWS) -> tuple[Hazards, Array]:
        """Draw cumulative hazards of noise-free life tables given the noisy one, with equal weights.

        Cells are left as drawn: limited to what they can be, each by itself, they would add up to a bias of the
        hazard (60 intervals: coverage .07 to .81). The curve is mended instead.
        """
        u = points(self.table.size, draws)
        drawn = self.table - quantile(self.law, u.T.reshape(draws, *self.table.shape))
        hazard, added, at_risk = cumulative_hazard(drawn)
        return (np.maximum(hazard, _MIN_HAZARD), added, at_risk), np.full(draws, 1 / draws)

    def bands(self, confidence: float) -> tuple[Array, Array]:
        """Compute a pointwise confidence band of the survival curve at each edge but the first, made decreasing.

        Parameters
        ----------
        confidence : float
            Coverage at each edge.

        Returns
        -------
        tuple of two ndarray
            The ends.
        """
        low, high = infer(self, _log_hazard, _DRAWS).interval(confidence)
        lower, upper = np.exp(-np.exp(high)), np.exp(-np.exp(low))
        return np.minimum.accumulate(lower), np.maximum.accumulate(upper[::-1])[::-1]

    def median(self, low: Array, high: Array) -> tuple[float, float, float]:
        """Estimate the median survival time, with an interval read from the confidence band.

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
        at, first, last = (_median_interval(each) for each in (points[1:], low, high))
        middle = np.inf
        if at is not None:
            before, after = points[at], max(points[at + 1], np.exp(-_MAX_HAZARD))
            middle = self.edges[at] + np.log(2 * before) / np.log(before / after) * np.diff(self.edges)[at]
        least = np.inf if first is None else self.edges[first]
        return float(middle), float(least), float(np.inf if last is None else self.edges[last + 1])

    def restricted_mean(self, confidence: float) -> tuple[float, float, float]:
        """Estimate the restricted mean survival time up to the last edge, with its confidence interval."""

        def area_under_curve(hazards: Hazards) -> tuple[Array, Array, float]:
            areas = _interval_areas(hazards[0], self.edges)
            after = np.cumsum(areas[..., ::-1], axis=-1)[..., ::-1] - areas / 2  # what an event takes away
            variance = np.maximum((after**2 * hazards[1]).sum(axis=-1), _LEAST_VARIANCE)
            return areas.sum(axis=-1), variance, np.inf

        found = infer(self, area_under_curve, _DRAWS)
        low, high = np.clip(found.interval(confidence), 0, self.edges[-1] - self.edges[0])
        return float(found.estimate), float(low), float(high)

    def restricted_mean_if_late(self) -> float:
        """Compute the restricted mean survival time as if all events were at the ends of intervals."""
        return float(np.append(1.0, self.survival[:-1]) @ np.diff(self.edges))


def _log_hazard(hazards: Hazards) -> tuple[Array, Array, float]:
    """Return the log of the cumulative hazard at each interval's end, and its sampling variance (Greenwood)."""
    hazard = np.maximum(hazards[0], _MIN_HAZARD)
    variance = np.maximum(np.cumsum(hazards[1], axis=-1), _LEAST_VARIANCE) / hazard**2
    return np.log(hazard).T, np.minimum(variance, _ERROR_MAX**2).T, np.inf


def _median_interval(values: Array) -> int | None:
    """Return the index of the interval in which a survival curve reaches 1/2; None if it stays above 1/2."""
    below = np.flatnonzero(values <= 1 / 2)
    return int(below[0]) if below.size else None


def _interval_areas(hazard: Array, edges: Array) -> Array:
    """Compute the areas under survival curves in each interval, by monotone cubic interpolation of -log S."""
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
    t, begin, end = _NODES[:, None], ends[..., None, :-1], ends[..., None, 1:]
    bent = (1 - t) * slopes[..., None, :-1] - t * slopes[..., None, 1:]
    between = begin + (end - begin) * t**2 * (3 - 2 * t) + t * (1 - t) * widths * bent
    return np.asarray(widths * np.tensordot(_WEIGHTS, np.exp(-between), axes=(0, -2)))
