"""What the methods return."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Release
from dfprivacy.markup import Grid
from dfprivacy.schema import as_number
from dfprivacy_eda import plots
from dfprivacy_eda.simplex import project
from dfprivacy_eda.tree import Tree
from dfprivacy_eda.wording import between, left_out, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ColumnStatistic", "Counts", "Crosstab", "Histogram", "Quantiles", "share", "tidy"]

_SHOWN = 24  # cells


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnStatistic(Release):
    """One number about a column, or about rows; ``float()`` gives it.

    Attributes
    ----------
    value : float
        The answer, in the column's units.
    low, high : float or None
        Ends of its confidence interval; noise is in it, and where `covers` says so sampling. None where the notes
        say how sure the answer is.
    confidence : float
        The interval's coverage.
    noise_standard_error : float or None
        Standard error that privacy adds to the answer.
    statistic : str
        What it is, such as ``"mean"``.
    column : str
        Of which column, or columns.
    covers : {"table", "population"}
        What the interval is for: the table's own number, as a dataframe has it, or that of a population of which
        the rows are a sample.
    count : float or None
        Rows that the answer is about; noisy where that is private.
    missing, missing_standard_error : float or None
        Rows left out because a value is missing, with noise, and its standard error; None where none was left out
        or it is not known.
    notes : tuple of str
        What to know before trusting the number.
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    noise_standard_error: float | None
    statistic: str
    column: str
    covers: str = "table"
    count: float | None = None
    missing: float | None = None
    missing_standard_error: float | None = None
    notes: tuple[str, ...] = ()

    def __float__(self) -> float:
        return self.value

    def _rows(self) -> list[tuple[str, str]]:
        asked, error = f"{self.statistic} of {self.column}".removesuffix(" of "), self.noise_standard_error
        rows = [(asked, number(self.value, error))]
        if self.low is not None and self.high is not None:
            whose = "the table's own" if self.covers == "table" else "the population behind the rows"
            rows += [(f"{100 * self.confidence:.4g}% interval", f"{between(self.low, self.high)}, for {whose}")]
            rows += [("noise_standard_error", number(error, error))]
        if self.count is not None and self.statistic != "count":
            rows.append(("rows", f"{self.count:,.0f}"))
        rows += left_out(self.missing, self.missing_standard_error)
        return [*rows, *(("note", note) for note in self.notes)]

    def plot(self, ax: Any = None) -> Any:
        """Draw the number and its interval.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        return plots.statistic(self, ax)


def tidy(release: Release, columns: Mapping[str, Sequence[Any]]) -> Any:
    """Make a frame of the library whose table was asked: pandas, Polars, or pyarrow."""
    return release._table({name: list(values) for name, values in columns.items()})  # noqa: SLF001 - its own


@dataclass(frozen=True, kw_only=True, repr=False)
class _Counted(Release):
    """Counts of cells, with what is the same for all of them."""

    raw: NDArray[np.float64]
    total: float
    noise_scale: float
    confidence: float
    normalize: bool = False
    missing: float | None = None
    missing_standard_error: float | None = None

    @cached_property
    def counts(self) -> NDArray[np.float64]:
        """Counts that are not negative, with the sum `total`: the nearest to the noisy ones."""
        return project(self.raw.ravel(), self.total).reshape(self.raw.shape)

    @property
    def shares(self) -> NDArray[np.float64]:
        """The same as parts of their sum; NaN where that is 0."""
        return self.counts / self.total if self.total > 0 else np.full(self.raw.shape, np.nan)

    @property
    def noise_standard_error(self) -> float:
        """Standard error of each noisy count."""
        return math.sqrt(2) * self.noise_scale

    @property
    def intervals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends of an interval for the table's own count in each cell, from the unbiased one."""
        reach = -math.log1p(-self.confidence) * self.noise_scale
        return np.maximum(self.raw - reach, 0), np.maximum(self.raw + reach, 0)

    @property
    def _head(self) -> str:
        """What the cells are of."""
        raise NotImplementedError

    def _cells(self) -> list[str]:
        """Name the cells, in the order in which they are shown."""
        raise NotImplementedError

    def _grid(self) -> Grid:
        low, high = (ends.ravel() for ends in self.intervals)
        error, shares = self.noise_standard_error, self.shares.ravel()
        shown = [f"{100 * share:.1f}%" for share in shares] if self.normalize else None
        rows = [
            (
                name,
                shown[at] if shown else number(float(self.counts.ravel()[at]), error),
                between(float(low[at]), float(high[at])),
            )
            for at, name in enumerate(self._cells()[:_SHOWN])
        ]
        more = self.raw.size - _SHOWN
        rows += [(f"… {more:,} more", "", "")] if more > 0 else []
        return Grid(
            (self._head, "share" if shown else "rows", f"{100 * self.confidence:.4g}% interval, rows"), rows
        )

    def _rows(self) -> list[tuple[str, str]]:
        error = self.noise_standard_error
        rows = [("noise_standard_error", f"{error:.4g} rows in each count")] if error else []
        rows += left_out(self.missing, self.missing_standard_error)
        return [*rows, *(("note", note) for note in self._notes())]

    def _notes(self) -> list[str]:
        reach = -math.log1p(-self.confidence) * self.noise_scale
        notes = []
        if reach and self.raw.size and float(self.raw.max()) < 2 * reach:
            notes.append("No count is clearly above the noise: there is too little data for this epsilon.")
        if (self.raw < 0).any():
            notes.append(
                "Counts below 0 became 0 and others smaller, so small ones are too large; raw is unbiased."
            )
        return notes


@dataclass(frozen=True, kw_only=True, repr=False)
class Counts(_Counted):
    """How many rows are in each category.

    Attributes
    ----------
    column : str
        The column.
    categories : tuple
        Its categories, the largest count first if it was sorted.
    raw : ndarray of shape (categories,)
        The noisy counts: unbiased, negative at times. Sums and tests are made of these.
    counts : ndarray of shape (categories,)
        The nearest that are not negative and add up to `total`. Small ones are too large on average, and the
        largest too small.
    shares : ndarray of shape (categories,)
        The same as parts of their sum.
    intervals : tuple of two ndarray
        Ends of an interval for the table's own count of each, from `raw`.
    total : float
        Rows in some category, as they add up.
    normalize : bool
        Whether shares were asked for, and are shown.
    noise_scale, noise_standard_error : float
        Scale of the Laplace noise in each count, and its standard error.
    confidence : float
        Coverage of each interval.
    missing, missing_standard_error : float or None
        Rows in none of the categories, and the standard error; None where that is not known.
    """

    column: str
    categories: tuple[Any, ...]

    def __getitem__(self, category: object) -> float:
        if category not in self.categories:
            raise ArgumentError(
                f"{category!r} is no category of {self.column!r}.", f"They are {list(self.categories)!r}."
            )
        return float((self.shares if self.normalize else self.counts)[self.categories.index(category)])

    @property
    def frame(self) -> Any:
        """A row for each category: itself, and its count or share."""
        name, values = ("proportion", self.shares) if self.normalize else ("count", self.counts)
        return tidy(self, {self.column: self.categories, name: values.tolist()})

    @property
    def _head(self) -> str:
        return self.column

    def _cells(self) -> list[str]:
        return [str(category) for category in self.categories]

    def plot(self, ax: Any = None) -> Any:
        """Draw a bar for each category, with its interval.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        return plots.counts(self, ax)


@dataclass(frozen=True, kw_only=True, repr=False)
class Histogram(_Counted):
    """How many rows are between each two edges.

    Attributes
    ----------
    column : str
        The column.
    edges : ndarray of shape (bins + 1,)
        The edges. A bin holds its lower edge and not its upper one, but the last holds both.
    raw, counts, shares, intervals, total, normalize, noise_scale, noise_standard_error, confidence
        As for `Counts`, by bin.
    missing, missing_standard_error : float or None
        Rows without a value, and the standard error; None where that is not known.
    """

    column: str
    edges: NDArray[np.float64]

    @property
    def frame(self) -> Any:
        """A row for each bin: its edges, and its count or share."""
        name, values = ("proportion", self.shares) if self.normalize else ("count", self.counts)
        return tidy(self, {"low": self.edges[:-1].tolist(), "high": self.edges[1:].tolist(), name: values.tolist()})

    @property
    def _head(self) -> str:
        return self.column

    def _cells(self) -> list[str]:
        ends = [number(float(edge)) for edge in self.edges]
        *bins, last = (f"[{low}, {high})" for low, high in itertools.pairwise(ends))
        return [*bins, f"{last[:-1]}]"]

    def plot(self, ax: Any = None) -> Any:
        """Draw the histogram, with an interval for each bin.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        return plots.histogram(self, ax)


@dataclass(frozen=True, kw_only=True, repr=False)
class Crosstab(_Counted):
    """How many rows are in each combination of two columns' categories.

    Attributes
    ----------
    columns : tuple of two str
        The columns: the first in rows, the second in columns.
    categories : tuple of two tuples
        Their categories.
    raw, counts, shares, intervals, total, noise_scale, noise_standard_error, confidence
        As for `Counts`, of shape (categories of the first, of the second).
    by : {"all", "index", "columns"} or None
        Of what the shown shares are parts: of all rows, of their row, of their column; None: counts are shown.
    margins : bool
        Whether sums are shown.
    missing, missing_standard_error : float or None
        Rows in none of the combinations, and the standard error; None where that is not known.
    """

    columns: tuple[str, str]
    categories: tuple[tuple[Any, ...], tuple[Any, ...]]
    by: str | None = None
    margins: bool = False

    @property
    def table(self) -> NDArray[np.float64]:
        """The counts or shares that were asked for, with sums in a last row and column where they were."""
        whole = self.counts
        if self.margins:
            whole = np.vstack([whole, whole.sum(axis=0)])
            whole = np.column_stack([whole, whole.sum(axis=1)])
        rows, columns = (len(each) for each in self.categories)
        sums = {
            "all": self.counts.sum(),
            "index": whole[:, :columns].sum(axis=1, keepdims=True),
            "columns": whole[:rows].sum(axis=0, keepdims=True),
        }
        if self.by is None:
            return whole
        with np.errstate(invalid="ignore", divide="ignore"):
            parts: NDArray[np.float64] = whole / sums[self.by]
        return parts

    @property
    def frame(self) -> Any:
        """A row for each category of the first column, a column for each of the second."""
        rows, columns = ([*each, *(["All"] if self.margins else [])] for each in self.categories)
        parts = {str(name): values.tolist() for name, values in zip(columns, self.table.T, strict=True)}
        return tidy(self, {self.columns[0]: rows, **parts})

    def _grid(self) -> Grid:
        rows, columns = ([*map(str, each), *(["All"] if self.margins else [])][:_SHOWN] for each in self.categories)
        error = self.noise_standard_error

        def written(cell: float) -> str:
            return number(cell, error) if self.by is None else f"{100 * cell:.1f}%"

        cells = [
            (row, *map(written, found[: len(columns)]))
            for row, found in zip(rows, self.table.tolist(), strict=False)
        ]
        return Grid((" / ".join(self.columns), *columns), cells)

    def _rows(self) -> list[tuple[str, str]]:
        whole, margin = (len(each) for each in self.categories), int(self.margins)
        hidden = [
            f"{most + margin - _SHOWN:,} more {name}"
            for most, name in zip(whole, ("rows", "columns"), strict=True)
            if most + margin > _SHOWN
        ]
        parts = {"all": "all rows", "index": "their row", "columns": "their column"}
        rows = [("…", " and ".join(hidden))] if hidden else []
        rows += [("shares", f"of {parts[self.by]}")] if self.by else []
        reach = -math.log1p(-self.confidence) * self.noise_scale
        rows += (
            [(f"{100 * self.confidence:.4g}% interval", f"± {number(reach, reach)} rows around each noisy count")]
            if reach
            else []
        )
        return [*rows, *super()._rows()]

    def plot(self, ax: Any = None) -> Any:
        """Draw a bar for each combination, with its interval; a map where there are many.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        return plots.crosstab(self, ax)


@dataclass(frozen=True, kw_only=True, repr=False)
class Quantiles(Release):
    """Quantiles of one column, with the noisy counts from which any other follows.

    Attributes
    ----------
    column : str
        The column.
    q : tuple of float
        The shares of rows that were asked for.
    values : tuple of float
        The quantile of each.
    low, high : tuple of float
        Ends of an interval for each.
    confidence : float
        Coverage of each interval.
    covers : {"table", "population"}
        What the intervals are for, as in `ColumnStatistic`.
    count : float
        Rows that the quantiles are about; noisy where that is private.
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
    low: tuple[float, ...]
    high: tuple[float, ...]
    confidence: float
    covers: str
    count: float
    missing: float | None
    missing_standard_error: float | None
    notes: tuple[str, ...]
    leaves: NDArray[np.float64]
    grid: tuple[float, float]
    whole: bool
    sizes: tuple[int, ...]
    spreads: tuple[float, ...]
    ends: tuple[float, float] | None = None

    @cached_property
    def tree(self) -> Tree:
        """The counts of intervals, with which everything else is computed."""
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
        return tidy(self, {"q": self.q, "value": self.values, "low": self.low, "high": self.high})

    def _grid(self) -> Grid:
        rows = [
            (f"{q:.4g}", number(value, (high - low) / 4), between(low, high))
            for q, value, low, high in zip(self.q, self.values, self.low, self.high, strict=True)
        ]
        return Grid(("q", self.column, f"{100 * self.confidence:.4g}% interval"), rows)

    def _rows(self) -> list[tuple[str, str]]:
        whose = "the table's own" if self.covers == "table" else "the population behind the rows"
        rows = [("intervals", f"for {whose}, each on its own"), ("rows", f"{self.count:,.0f}")]
        rows += left_out(self.missing, self.missing_standard_error)
        return [*rows, *(("note", note) for note in self.notes)]

    def plot(self, ax: Any = None) -> Any:
        """Draw the cumulated shares of rows with a band, and the quantiles with their intervals.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        return plots.quantiles(self, ax)


def share(q: object) -> float:
    """Check a share of rows."""
    if isinstance(q, bool) or not isinstance(q, int | float | np.integer | np.floating) or not 0 <= q <= 1:
        raise ArgumentError(
            f"q={q!r} is no share of rows.", "Give numbers from 0 to 1, such as 0.5 for the median."
        )
    return float(q)
