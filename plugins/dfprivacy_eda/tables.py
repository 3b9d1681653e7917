"""Results of counts: of categories, of bins, and of combinations of two columns."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, Release
from dfprivacy.inference.counts import project_counts
from dfprivacy.inference.draws import noise_draws
from dfprivacy.laws import NoiseLaw
from dfprivacy.markup import Grid
from dfprivacy.plotting import axes, forest, text_color
from dfprivacy.schema import UNDECLARED
from dfprivacy.wording import ROW_ERROR, noise_share, number, rows_phrase, uncertainty, with_unit
from dfprivacy_eda.results import BAR, SURE, draw_matrix, interval_label, legend, missing_row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Counts", "Crosstab", "Histogram"]

_SHOWN = 24  # cells
_MAX_REDRAWN = 2_000  # cells whose noise is drawn again
_MAX_DRAWN_ROWS, _MAX_LABELLED = 40, 240  # of a picture, and its cells
_ROW_INCHES = 0.28  # inches of a row


@dataclass(frozen=True, kw_only=True, repr=False)
class _CellCounts(Release):
    """Base class of results that are noisy counts of cells."""

    covers: str | None = "table"
    raw: NDArray[np.float64]
    total: float
    noise_scale: float
    noise_step: float = 0.0
    noise_kind: Literal["Laplace", "Gaussian", "cube"] = "Laplace"
    confidence: float
    normalize: bool = False
    missing: float | None = None
    missing_standard_error: float | None = None
    weights: str | None = None
    sampling_standard_errors: NDArray[np.float64] | None = None
    limits: tuple[str, ...] = ()
    released: tuple[str, tuple[int, ...]] | None = field(default=None, compare=False)

    def _replicates(self) -> Mapping[str, Any]:
        """Return the noisy counts under random draws of the noise, for tables that are not too large."""
        if self.released is None or self.raw.size > _MAX_REDRAWN:
            return super()._replicates()  # which refuses it
        measurement, places = self.released
        noise = noise_draws(self._law, np.full(max(places, default=0) + 1, self.noise_scale), measurement)[
            [*places]
        ]
        return {"raw": self.raw[..., None] - noise.reshape(*self.raw.shape, -1)}

    @cached_property
    def counts(self) -> NDArray[np.float64]:
        """Nonnegative counts with the sum `total`, nearest to the noisy counts."""
        return project_counts(self.raw.ravel(), self.total).reshape(self.raw.shape)

    @property
    def shares(self) -> NDArray[np.float64]:
        """Counts divided by their sum; NaN if the sum is 0."""
        return self.counts / self.total if self.total > 0 else np.full(self.raw.shape, np.nan)

    @property
    def noise_standard_error(self) -> float:
        """Standard error of each noisy count."""
        return self._law.standard_deviation

    @property
    def intervals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends of the confidence intervals of the exact counts; with weights, of the population counts."""
        return np.maximum(self.raw - self._half_widths, 0), np.maximum(self.raw, 0) + self._half_widths

    @property
    def half_width(self) -> float:
        """Half the width of each count's confidence interval; with weights, of the widest."""
        return float(np.max(self._half_widths, initial=0.0))

    @property
    def _half_widths(self) -> NDArray[np.float64]:
        """Half the width of the confidence interval of each count."""
        if self.sampling_standard_errors is None:
            return np.full(self.raw.shape, self._law.half_width(self.confidence))
        both = np.hypot(self.noise_standard_error, self.sampling_standard_errors)
        return np.asarray(both * ndtri((1 + self.confidence) / 2))

    @property
    def _count_unit(self) -> str:
        """The printed unit of the counts: rows, or with weights the population."""
        return "rows" if self.weights is None else "population"

    @property
    def _law(self) -> NoiseLaw:
        return NoiseLaw(self.noise_scale, self.noise_step, self.noise_kind)

    @property
    def _counted_columns(self) -> tuple[str, ...]:
        """Names of the columns whose values are counted."""
        raise NotImplementedError

    def _label_columns(self) -> dict[str, list[Any]]:
        """Return the labels of the cells, as columns of a table."""
        raise NotImplementedError

    def _tidy(self) -> list[dict[str, Any]]:
        columns = {"count": self.counts, **({"proportion": self.shares} if self.normalize else {}), "raw": self.raw}
        low, high = self.intervals
        numbers = {**columns, "low": low, "high": high}
        keys = {f"{name}_" if name in numbers else name: cells for name, cells in self._label_columns().items()}
        return [{**keys, **{name: each.ravel().tolist() for name, each in numbers.items()}}]

    def _cell_labels(self) -> list[str]:
        """Return the labels of the cells, in printed order."""
        raise NotImplementedError

    def _sentence(self) -> str:
        """Write a sentence with the cell that has the largest count."""
        if not self.raw.size:
            return f"No value of {self._label(*self._counted_columns)} was found."
        at = int(np.argmax(self.raw))
        low, high = (float(ends.ravel()[at]) for ends in self.intervals)
        count, error = float(self.counts.ravel()[at]), max(self.noise_standard_error, ROW_ERROR)
        share = f", {self.shares.ravel()[at]:.1%} of all" if self.normalize and self.total > 0 else ""
        about, noise = (rows_phrase(self.covers or "", self.weights), 1.0) if self.noise_scale else ("", None)
        if self.sampling_standard_errors is not None:
            sampling = float(self.sampling_standard_errors.ravel()[at])
            noise = noise_share(math.hypot(sampling, self.noise_standard_error), sampling)
        how = uncertainty(low, high, self.confidence, whose=about, noise=noise, least=ROW_ERROR)
        cell = f"{self._label(*self._counted_columns)} = {self._cell_label(at)}"
        rows = " rows" if self.weights is None else ""
        return f"The largest of {self.raw.size:,} counts is {cell}: {number(count, error)}{rows}{share}{how}."

    def _cell_label(self, at: int) -> str:
        """Return the label of the cell at an index, as it stands in a sentence."""
        return self._cell_labels()[at]

    def _grid(self) -> Grid:
        low, high = (ends.ravel() for ends in self.intervals)
        error, shares = max(self.noise_standard_error, ROW_ERROR), self.shares.ravel()
        shown = [f"{100 * share:.1f}%" for share in shares] if self.normalize else None
        rows = [
            (
                name,
                shown[at] if shown else number(float(self.counts.ravel()[at]), error),
                f"{number(float(low[at]), error)} to {number(float(high[at]), error)}",
            )
            for at, name in enumerate(self._cell_labels()[:_SHOWN])
        ]
        more = self.raw.size - _SHOWN
        rows += [(f"… {more:,} more", "", "")] if more > 0 else []
        return Grid(
            (
                self._counted_columns[0],
                "share" if shown else self._count_unit,
                f"{100 * self.confidence:.4g}% CI, {self._count_unit}",
            ),
            rows,
        )

    def _rows(self) -> list[tuple[str, str]]:
        error = self.noise_standard_error
        unit = " rows" if self.weights is None else ""
        rows = [("noise_standard_error", f"{number(error, error)}{unit} in each count")] if error else []
        if self.weights is not None:
            rows.append(("weights", f"{self.weights}; rows without it are omitted"))
        rows += missing_row(self.missing, self.missing_standard_error)
        return [*rows, *(("note", note) for note in self._notes())]

    def _notes(self) -> list[str]:
        notes = [*self.limits]
        if self.half_width and self.raw.size and float(self.raw.max()) < 2 * self.half_width:
            notes.append(
                "Uninformative: no count is clearly above the noise: too little data for this epsilon. "
                f"{UNDECLARED}"
            )
        if (self.raw < 0).any():
            notes.append(
                "Negative counts were raised to 0 and others lowered: small counts are biased upwards; `raw` holds "
                "unbiased counts."
            )
        if self.raw.size and float(np.max(abs(self.counts - self.raw))) >= 1:
            notes.append("Counts are adjusted to add up; intervals are around the unadjusted counts.")
        return notes


@dataclass(frozen=True, kw_only=True, repr=False)
class _ColumnCounts(_CellCounts):
    """Base class of results that count rows by the values of one column."""

    column: str

    @property
    def _counted_columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def _plot_unit(self) -> tuple[float, str]:
        """Divisor of the counts in a picture, and its unit: rows, or shares of all rows."""
        return (max(self.total, 1.0), f"share of {self._count_unit}") if self.normalize else (1.0, self._count_unit)

    def _labelled_frame(self, **keys: Any) -> Any:
        """Return the counts, or shares, with their labels as a frame."""
        name, values = ("proportion", self.shares) if self.normalize else ("count", self.counts)
        return self._table({**keys, name: values.tolist()})


@dataclass(frozen=True, kw_only=True, repr=False)
class Counts(_ColumnCounts):
    """Noisy counts of the rows in each category of a column.

    ``to_frame()`` has a row for each: the category, count, raw, low and high, and proportion where that was asked.

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
    noise_scale, noise_step, noise_standard_error : float
        Scale of the noise in each count, the step of its grid (1 where the noise is on whole rows, as good as 0
        where it is not), and its standard error.
    noise_kind : {"Laplace", "Gaussian"}
        The law of the noise: Gaussian where a synthetic table's counts tell the answer.
    confidence : float
        Coverage of each interval.
    missing, missing_standard_error : float or None
        Rows in none of the categories, and the standard error; None where that is not known.
    weights : str or None
        The column of sampling weights: counts are then those of the population that they stand for, estimated, and
        intervals are for these.
    sampling_standard_errors : ndarray or None
        With weights, the standard error of each count from sampling.
    limits : tuple of str
        Notes on weights that were limited to their bounds, and on rows outside the bins.
    released : tuple of (str, tuple of int) or None
        The measurement, and which of its numbers these are.
    """

    categories: tuple[Any, ...]

    def __getitem__(self, category: object) -> float:
        if category not in self.categories:
            raise ArgumentError(
                f"{category!r} is not a category of {self.column!r}.",
                f"The categories are {list(self.categories)!r}.",
            )
        return float((self.shares if self.normalize else self.counts)[self.categories.index(category)])

    @property
    def frame(self) -> Any:
        """Table with a row for each category, and its count or share."""
        return self._labelled_frame(**{self.column: list(self.categories)})

    def _label_columns(self) -> dict[str, list[Any]]:
        return {self.column: list(self.categories)}

    def _cell_labels(self) -> list[str]:
        return [str(category) for category in self.categories]

    def plot(self, ax: Any = None) -> Any:
        """Draw the count of each category, with its interval."""
        shown, (every, rows) = self.categories[:_MAX_DRAWN_ROWS], self._plot_unit
        numbers = (each[: len(shown)] / every for each in (self.counts, *self.intervals))
        noise = [1.0 if self.noise_scale else None] * len(shown)
        values = [*zip(*numbers, strict=True)]
        ax = forest([*map(str, shown)], values, rows, ax, confidence=self.confidence, noise=noise)
        rest = len(self.categories) - len(shown)
        ax.set_ylabel(self._with_units(self.column) + (f" ({rest} more not drawn)" if rest else ""))
        return ax


@dataclass(frozen=True, kw_only=True, repr=False)
class Histogram(_ColumnCounts):
    """Histogram: noisy counts of the rows in each interval of a column.

    ``to_frame()`` has a row for each bin: from, to, and the columns of `Counts`.

    Attributes
    ----------
    column : str
        The column.
    edges : ndarray of shape (bins + 1,)
        The edges. A bin holds its lower edge and not its upper one, but the last holds both.
    raw, counts, shares, intervals, total, normalize, noise_scale, noise_step, noise_standard_error, confidence
        As for `Counts`, by bin.
    missing, missing_standard_error : float or None
        Rows without a value, and the standard error; None where that is not known.
    bounds : tuple of two float
        The column's bounds: values count as limited to them.
    """

    covers: str | None = "limited table"
    edges: NDArray[np.float64]
    bounds: tuple[float, float] | None = None

    @property
    def frame(self) -> Any:
        """Table with a row for each bin: its edges, and its count or share."""
        return self._labelled_frame(low=self.edges[:-1].tolist(), high=self.edges[1:].tolist())

    def _cell_label(self, at: int) -> str:
        return with_unit(super()._cell_label(at), self._unit(self.column))

    def _label_columns(self) -> dict[str, list[Any]]:
        return {"from": self.edges[:-1].tolist(), "to": self.edges[1:].tolist()}

    def _cell_labels(self) -> list[str]:
        ends = [number(float(edge)) for edge in self.edges]
        *bins, last = (f"[{low}, {high})" for low, high in itertools.pairwise(ends))
        return [*bins, f"{last[:-1]}]"]

    def plot(self, ax: Any = None) -> Any:
        """Draw the histogram, with an interval for each bin."""
        ax, widths = axes(ax), np.diff(self.edges)
        even = bool(np.allclose(widths, widths[0], rtol=1e-9))
        every, rows = self._plot_unit
        unit = (np.ones(len(widths)) if even else widths) * every
        low, high = (ends / unit for ends in self.intervals)
        ax.stairs(self.counts / unit, self.edges, fill=True, color=BAR)
        ax.stairs(self.counts / unit, self.edges, color=text_color(ax), lw=0.6)
        middle = (self.edges[1:] + self.edges[:-1]) / 2
        ax.vlines(middle, low, high, color=SURE, label=interval_label(self.confidence))
        what = self._with_units(self.column)
        ax.set(xlabel=what, ylabel=rows if even else f"{rows} per unit of {what}")
        ax.set_xlim(self.edges[0], self.edges[-1])
        ax.set_ylim(bottom=0)
        return legend(ax)


@dataclass(frozen=True, kw_only=True, repr=False)
class Crosstab(_CellCounts):
    """Contingency table: noisy counts of rows by the categories of two columns.

    ``to_frame()`` has a row for each: both categories, and the columns of `Counts`.

    Attributes
    ----------
    columns : tuple of two str
        The columns: the first in rows, the second in columns.
    categories : tuple of two tuples
        Their categories.
    raw, counts, shares, intervals, total, noise_scale, noise_step, noise_standard_error, confidence
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
    def _counted_columns(self) -> tuple[str, ...]:
        return self.columns

    @property
    def table(self) -> NDArray[np.float64]:
        """The counts or shares, with margins in a last row and column if requested."""
        table = self.counts
        if self.margins:
            table = np.vstack([table, table.sum(axis=0)])
            table = np.column_stack([table, table.sum(axis=1)])
        rows, columns = (len(each) for each in self.categories)
        sums = {
            "all": self.counts.sum(),
            "index": table[:, :columns].sum(axis=1, keepdims=True),
            "columns": table[:rows].sum(axis=0, keepdims=True),
        }
        if self.by is None:
            return table
        with np.errstate(invalid="ignore", divide="ignore"):
            parts: NDArray[np.float64] = table / sums[self.by]
        return parts

    @property
    def frame(self) -> Any:
        """Table with a row for each category of the first column, and a column for each of the second column."""
        rows, columns = ([*each, *(["All"] if self.margins else [])] for each in self.categories)
        parts = {str(name): values.tolist() for name, values in zip(columns, self.table.T, strict=True)}
        return self._table({self.columns[0]: rows, **parts})

    def _cell_label(self, at: int) -> str:
        first, second = np.unravel_index(at, self.raw.shape)
        return f"{self.categories[0][first]} and {self.categories[1][second]}"

    def _label_columns(self) -> dict[str, list[Any]]:
        pairs = itertools.product(*self.categories)
        return dict(zip(self.columns, map(list, zip(*pairs, strict=True)), strict=True))

    def _grid(self) -> Grid:
        rows, columns = ([*map(str, each), *(["All"] if self.margins else [])][:_SHOWN] for each in self.categories)
        error = max(self.noise_standard_error, ROW_ERROR)

        def written(cell: float) -> str:
            return number(cell, error) if self.by is None else f"{100 * cell:.1f}%"

        cells = [
            (row, *map(written, counts[: len(columns)]))
            for row, counts in zip(rows, self.table.tolist(), strict=False)
        ]
        return Grid((" / ".join(self.columns), *columns), cells)

    def _rows(self) -> list[tuple[str, str]]:
        sizes, margin = (len(each) for each in self.categories), int(self.margins)
        hidden = [
            f"{most + margin - _SHOWN:,} more {name}"
            for most, name in zip(sizes, ("rows", "columns"), strict=True)
            if most + margin > _SHOWN
        ]
        parts = {"all": "all rows", "index": "their row", "columns": "their column"}
        rows = [("…", " and ".join(hidden))] if hidden else []
        rows += [("shares", f"of {parts[self.by]}")] if self.by else []
        if self.half_width:
            most, unit = ("", " rows") if self.weights is None else ("at most ", "")
            reach = f"{most}± {number(self.half_width, self.half_width)}{unit} around each noisy count"
            rows.append((f"{100 * self.confidence:.4g}% CI", reach))
        if self.weights is not None:
            return [*rows, *super()._rows()]
        first, second = self.columns
        question = f'chi2({first!r}, {second!r}, method="table", epsilon=...)'
        test = [("test", f"{question} tests independence; it is free with the epsilon of this table")]
        return [*rows, *super()._rows(), *(test if self.noise_kind == "Laplace" else [])]

    def plot(self, ax: Any = None) -> Any:
        """Draw a bar with its interval for each combination, or a heat map if there are many."""
        rows, columns = ([*map(str, each)] for each in self.categories)
        values = self.table[: len(rows), : len(columns)]
        form = "{:,.0f}" if self.by is None else "{:.1%}"
        few = self.raw.size <= _MAX_LABELLED
        written = np.vectorize(form.format, otypes=[object])(values) if few else None
        ax = axes(ax, height=max(2.2, _ROW_INCHES * (len(rows) + 4)))
        draw_matrix(ax, np.nan_to_num(values), written, rows, columns)
        reach = f"each ± {self.half_width:.3g} {self._count_unit} ({100 * self.confidence:.4g}%)"
        ax.figure.colorbar(ax.images[0], ax=ax, label=f"{'share' if self.by else self._count_unit},\n{reach}")
        ax.set(xlabel=self._with_units(self.columns[1]), ylabel=self._with_units(self.columns[0]))
        return ax
