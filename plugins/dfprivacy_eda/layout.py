"""How a tree of counts lies over a column: how many intervals, in which groups, from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, features

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Layout", "intervals", "layout", "rows_epsilon"]

_LEAVES = 16**3
# Rows times epsilon, up to which 240 leaves, and 1,024, are about as accurate as more, and drawn sooner; measured.
_FEW, _MANY = 1_500.0, 20_000.0
_UNKNOWN = 10_000  # rows that a table is taken to have where that is private
# Intervals for each row times epsilon, of which one is chosen: where values are ten times as dense as if they were
# spread over the bounds, one holds 2.5/epsilon rows, and its width is 3 % of the error.
_FINE, _FEWEST, _MOST, _PRIVATE = 4.0, 256.0, 2.0**20, 2.0**18  # the last where the number of rows is private


@dataclass(frozen=True)
class Layout:
    """How a tree of counts lies over a column.

    Attributes
    ----------
    low, step : float
        The lowest edge, and the width of an interval.
    sizes : tuple of int
        Nodes of each level below the root; the last is that of the intervals.
    weights : tuple of int
        The part of the budget that goes to each level.
    whole : bool
        Whether each interval stands for one value.
    ends : tuple of two float, optional
        The lowest and highest value, if the first and the last interval are for these two values alone: they lie
        outside of them.
    """

    low: float
    step: float
    sizes: tuple[int, ...]
    weights: tuple[int, ...]
    whole: bool
    ends: tuple[float, float] | None = None

    @property
    def edges(self) -> NDArray[np.float64]:
        """Edges of the intervals."""
        edges: NDArray[np.float64] = self.low + self.step * np.arange(self.sizes[-1] + 1, dtype=np.float64)
        return edges

    @property
    def cuts(self) -> NDArray[np.float64]:
        """Edges at which rows are told apart: as an interval holds its lower edge, the lowest value ends above."""
        cuts = self.edges
        if self.ends is not None:
            cuts[1], cuts[-2] = np.nextafter(self.ends[0], np.inf), self.ends[1]
        return cuts

    def features(self, column: Column, *, missing: bool, root: bool) -> features.Bins:
        """Count rows in all nodes, in that of the root if their number is private, and those without a value."""
        sizes, weights = ((1, *self.sizes), (1, *self.weights)) if root else (self.sizes, self.weights)
        widths = tuple(self.sizes[-1] // size for size in sizes)
        return features.Bins(column, self.cuts, widths=widths, weights=weights, missing=missing)


def layout(column: Column, step: float | None, rows: float) -> Layout:
    """Choose the tree: 20 branches a node or fewer, and as many leaves as the values, or the rows, are worth.

    Without a step the first interval and the last are for the bounds themselves: many rows may lie there, and
    values outside do, and a quantile among them is that value and nothing beside it.

    Parameters
    ----------
    column : Column
        A column with bounds.
    step : float or None
        The distance of neighbouring values, if all are the lower bound plus multiples of it.
    rows : float
        The public number of rows times epsilon; infinity for the finest tree.

    Returns
    -------
    Layout
        The tree.
    """
    if step is None:
        sizes = (12, 240) if rows < _FEW else (16, 256, 1024) if rows < _MANY else (16, 256, 4096)
        return _between(column, sizes, (2, 3) if len(sizes) == 2 else (4, 3, 2))  # noqa: PLR2004
    values = (column.high - column.low) / step + 1
    count = round(values)
    if count > _LEAVES or count < 2 or abs(values - count) > 1e-9 * count:  # noqa: PLR2004
        raise ArgumentError(
            f"From {column.low:g} to {column.high:g} there are no 2 to {_LEAVES:,} values in steps of {step:g}.",
            "Leave step= out where values lie anywhere between the bounds.",
        )
    above = tuple(16 ** (level + 1) for level in range(3) if 16 ** (level + 1) < count)[:2]
    most = above[-1] if above else 1
    sizes = (*above, most * math.ceil(count / most))
    return Layout(column.low - step / 2, step, sizes, ((1,), (1, 1), (4, 3, 2))[len(above)], whole=True)


def _between(column: Column, sizes: tuple[int, ...], weights: tuple[int, ...]) -> Layout:
    """Lay equal intervals between the bounds, and one on each of them if floats have room for it."""
    width = (column.high - column.low) / (sizes[-1] - 2)
    ended = Layout(column.low - width, width, sizes, weights, whole=False, ends=(column.low, column.high))
    if np.isfinite(ended.edges).all() and (np.diff(ended.cuts) > 0).all():
        return ended
    return Layout(column.low, (column.high - column.low) / sizes[-1], sizes, weights, whole=False)


def intervals(column: Column, step: float | None, rows: float | None) -> Layout:
    """Choose the intervals of which one is chosen for a quantile: as many as the values, or the rows, are worth.

    Parameters
    ----------
    column, step
        As for `layout`.
    rows : float or None
        The number of rows times epsilon; None where it is private.

    Returns
    -------
    Layout
        One level of intervals: the more rows, the more, so that their width is no matter, up to 2^20.
    """
    if step is not None:
        return layout(column, step, math.inf)
    count = _PRIVATE if rows is None else min(_FINE * rows, _MOST)
    room = (column.high - column.low) / np.spacing(max(abs(column.low), abs(column.high))) / 4  # that floats have
    return _between(column, (int(max(min(count, room), _FEWEST)),), (1,))


def rows_epsilon(curator: Curator, share: Fraction = Fraction(1)) -> float:
    """Give the number of rows, the same for all groups, or what a private one is taken to be, times an epsilon."""
    rows = None if curator.size is None else curator.typical_size
    return (_UNKNOWN if rows is None else rows) * curator.epsilon * float(share)
