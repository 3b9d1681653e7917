"""Quantiles as they are returned, with the counts from which any other follows where there are some."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError
from dfprivacy.markup import Grid
from dfprivacy.schema import as_number
from dfprivacy.wording import between, beyond, number, sure, whose
from dfprivacy_eda import plots
from dfprivacy_eda.results import Tabled, tidy
from dfprivacy_eda.tree import Tree
from dfprivacy_eda.wording import left_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Quantiles", "share"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Quantiles(Tabled):
    """Quantiles of one column: from noisy counts from which any other follows, or each chosen alone.

    ``to_frame()`` has a row for each, with the columns q, value, low and high. Those that were chosen alone have no
    interval, and none of what begins with `leaves`.

    Attributes
    ----------
    column : str
        The column.
    q : tuple of float
        The shares of rows that were asked for.
    values : tuple of float
        The quantile of each.
    low, high : tuple of float or None
        Ends of an interval for each; None where the notes say how sure they are.
    confidence : float
        Coverage of each interval.
    covers : {"table", "population", "sample"}
        What the intervals are for, as in `ColumnStatistic`.
    bounds : tuple of two float
        The column's bounds. A quantile at one may lie beyond it, for values there were limited.
    count : float or None
        Rows that the quantiles are about; noisy where that is private, or None.
    missing, missing_standard_error : float or None
        As for `ColumnStatistic`.
    notes : tuple of str
        What to know before trusting the numbers.
    leaves : ndarray of shape (N,)
        Noisy counts of N equal intervals, made consistent: unbiased, negative at times.
    grid : tuple of two float
        The lowest edge of the intervals, and their width.
    whole : bool
        Whether each interval stands for one value, its middle.
    ends : tuple of two float or None
        The lowest and highest value, if the first interval and the last are for these two alone.
    sizes : tuple of int
        Nodes on each level of the tree of counts.
    spreads : tuple of float
        Variance of a count on each level.
    """

    column: str
    q: tuple[float, ...]
    values: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
    confidence: float
    covers: str | None = "table"
    bounds: tuple[float, float] | None = None
    count: float | None
    missing: float | None
    missing_standard_error: float | None
    notes: tuple[str, ...]
    leaves: NDArray[np.float64] | None = None
    grid: tuple[float, float] | None = None
    whole: bool = False
    sizes: tuple[int, ...] = ()
    spreads: tuple[float, ...] = ()
    ends: tuple[float, float] | None = None

    @cached_property
    def tree(self) -> Tree:
        """The counts of intervals, with which everything else is computed."""
        if self.leaves is None or self.grid is None:
            raise ArgumentError(
                "Nothing but these quantiles is known: each was chosen alone.",
                "Ask with covers='table': from a tree of counts any other follows.",
            )
        edges = self.grid[0] + self.grid[1] * np.arange(len(self.leaves) + 1.0)
        edges = np.asarray(edges, dtype=np.float64)
        return Tree(edges, self.sizes, self.leaves, self.spreads, self.whole, self.ends)

    def quantile(self, q: float) -> float:
        """Give another quantile, at no price.

        Parameters
        ----------
        q : float
            The share of rows at or below it, from 0 to 1.

        Returns
        -------
        float
            The quantile.
        """
        return float(self.tree.quantiles([share(q)])[0])

    def cdf(self, x: float) -> float:
        """Give the share of rows up to a value, at no price.

        Parameters
        ----------
        x : float
            The value.

        Returns
        -------
        float
            The share, linear between the edges of the counts.
        """
        rows, _ = self.tree.below([np.nextafter(as_number(x, "x"), np.inf)])
        return float(rows[0]) / self.tree.total if self.tree.total > 0 else math.nan

    @property
    def frame(self) -> Any:
        """A row for each quantile: the share, the value, and its interval."""
        return tidy(self, self._columns())

    def _columns(self) -> dict[str, tuple[float | None, ...]]:
        low, high = zip(*self._intervals, strict=True)
        return {"q": self.q, "value": self.values, "low": low, "high": high}

    @property
    def _intervals(self) -> list[tuple[float, float] | tuple[None, None]]:
        if self.low is None or self.high is None:
            return [(None, None)] * len(self.q)
        return [*zip(self.low, self.high, strict=True)]

    def _value(self, at: int) -> str:
        low, high = self._intervals[at]
        error = None if low is None or high is None else (high - low) / 4
        return number(self.values[at], error)

    def _sentence(self) -> str:
        """Say the quantiles, of many the first, the middle and the last."""
        unit = self._unit(self.column)
        noisy = self.covers != "population" and any(self.spreads)
        of = whose(self.covers or "") + ", all of them noise" * noisy
        last = len(self.q) - 1
        told = []
        for at in sorted({0, last // 2, last}):
            low, high = self._intervals[at]
            value = f"{self._value(at)} {unit}".rstrip() + beyond(self.values[at], self.bounds)
            how = sure(low, high, self.confidence, bounds=self.bounds)
            told.append(f"the {100 * self.q[at]:.4g}% quantile is {value}{how}")
        intervals = "" if self.low is None else f" The intervals are for {of}."
        return f"Of {self._noun(self.column)}, {'; '.join(told)}.{intervals}"

    def _grid(self) -> Grid:
        rows = []
        for at, (q, value, (low, high)) in enumerate(zip(self.q, self.values, self._intervals, strict=True)):
            sides = "" if low is None or high is None else between(low, high, bounds=self.bounds)
            rows.append((f"{q:.4g}", self._value(at) + beyond(value, self.bounds), sides))
        return Grid(("q", self.column, f"{100 * self.confidence:.4g}% interval"), rows)

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("intervals", "each on its own")] if self.low is not None else []
        rows += [] if self.count is None else [("rows", f"{self.count:,.0f}")]
        rows += left_out(self.missing, self.missing_standard_error)
        return [*rows, *(("note", note) for note in self.notes)]

    def plot(self, ax: Any = None) -> Any:
        """Draw the quantiles; with a tree of counts the cumulated shares of rows with a band, and intervals."""
        return plots.quantiles(self, ax)


def share(q: object) -> float:
    """Check a share of rows."""
    if isinstance(q, bool) or not isinstance(q, int | float | np.integer | np.floating) or not 0 <= q <= 1:
        raise ArgumentError(
            f"q={q!r} is no share of rows.", "Give numbers from 0 to 1, such as 0.5 for the median."
        )
    return float(q)
