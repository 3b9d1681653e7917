"""What survival is asked of: times, events, and the ends of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy import ArgumentError, Column
from dfprivacy_inference.asking import check_apart

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_times", "edges_of"]

_INTERVALS_MAX = 1000
_PAIR = (0, 1)


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
