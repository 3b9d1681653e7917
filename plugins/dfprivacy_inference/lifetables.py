"""What survival is asked of, and what is measured: a table of events and censored times by interval."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError
from dfprivacy.features import RowFeatures
from dfprivacy_inference.asking import check_apart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.features.base import Norm

__all__ = ["LifeTable", "check_times", "edges_of"]

_INTERVALS_MAX = 1000
_PAIR = (0, 1)
_ROOT_TWO = 1.4142135623730951  # rounded up


class LifeTable(RowFeatures):
    """Events by interval of time, and censored times in two parts: the share of its interval lived, and the rest.

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

    def __init__(self, time: Column, event: Column, edges: NDArray[np.float64]) -> None:
        self.columns, self.edges = (time, event), edges
        self.shape = (3, len(edges) - 1)
        self._code = (event.categories or ()).index(1)  # True is 1

    def rows(self, batch: Any) -> NDArray[np.float64]:
        """Return the vectors of a batch."""
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
        """Largest norm of a vector: its parts are not negative, and add up to 1."""
        return 1.0

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Largest distance of two vectors."""
        if all(column.name in public for column in self.columns):
            return 0.0
        return {1: 2.0, 2: _ROOT_TWO, math.inf: 1.0}[norm]


def check_times(time: Column, event: Column) -> None:
    """Refuse times below 0, and events that are not 0 or 1."""
    check_apart(time, event)
    if time.low < 0:
        raise ArgumentError(
            f"The bounds of {time.name!r} begin at {time.low:g}: a time cannot be negative.",
            "Declare bounds from 0 on.",
        )
    known = event.categories or ()
    if len(known) != 2 or any(isinstance(each, str) for each in known) or {*known} != {*_PAIR}:  # noqa: PLR2004
        raise ArgumentError(
            f"The categories of {event.name!r} are {list(known)!r}, which are not 0 and 1.",
            f"Declare categories={{{event.name!r}: [0, 1]}}, or [False, True], where 1 is the event.",
        )


def edges_of(time: Column, edges: Sequence[float] | int) -> NDArray[np.float64]:
    """Give the ends of the intervals; an error if they do not cover the bounds."""
    if isinstance(edges, int | np.integer) and not isinstance(edges, bool):
        if not 1 <= edges <= _INTERVALS_MAX:
            raise ArgumentError(f"edges={edges} intervals are too many, or none.", f"From 1 to {_INTERVALS_MAX}.")
        return np.linspace(time.low, time.high, int(edges) + 1)
    try:
        ends = np.array([float(edge) for edge in islice(edges, _INTERVALS_MAX + 2)])  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ArgumentError(f"edges={edges!r} are no times.", "Give a list of rising times, or a number.") from None
    if not 1 < len(ends) <= _INTERVALS_MAX + 1 or not np.isfinite(ends).all() or (np.diff(ends) <= 0).any():
        raise ArgumentError("Edges must be finite and rise.", f"Give 2 to {_INTERVALS_MAX + 1} of them, each once.")
    if ends[0] > time.low or ends[-1] < time.high:
        raise ArgumentError(
            f"The edges, {ends[0]:g} to {ends[-1]:g}, do not cover the bounds of {time.name!r}, {time.low:g} to "
            f"{time.high:g}.",
            "Times beyond them would be counted in the first or the last interval. Widen the edges.",
        )
    return ends
