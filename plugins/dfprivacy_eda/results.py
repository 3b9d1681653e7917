"""Results with one or several statistics, with their printed text and pictures.

Dots, bars and lines of a picture are what was released; the lines across them are intervals, whose coverage the
legend says. The colours can be told apart by people who see fewer of them, and in grey.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import ndtri

from dfprivacy import Column, Release
from dfprivacy.inference.clipped import Clipped
from dfprivacy.inference.engine import infer
from dfprivacy.inference.weighted import NoisyWeighted, mean, total
from dfprivacy.plotting import axes, forest, legend_below, text_color
from dfprivacy.wording import (
    ROW_ERROR,
    bounds_phrase,
    clearly_some,
    interval_text,
    limit_suffix,
    noise_share,
    number,
    rows_phrase,
    rows_text,
    uncertainty,
    with_error,
    with_unit,
)
from dfprivacy_eda.sums import ROWS, STATISTICS, StatisticDraws, Sums

if TYPE_CHECKING:
    from dfprivacy.inference.engine import Parameter
    from dfprivacy.inference.weighted import WeightedSums

__all__ = [
    "BAR",
    "LONG",
    "ROW_COUNTS",
    "SURE",
    "ColumnStatistic",
    "Entry",
    "Statistics",
    "TableResult",
    "clamping_note",
    "column_statistic",
    "covered_quantity",
    "draw_matrix",
    "interval_label",
    "is_quantile",
    "legend",
    "missing_row",
    "number_text",
    "quantile_bounds",
    "rank_ranges",
    "statistic_interval",
    "statistic_notes",
    "statistic_words",
    "weighted_parameter",
    "weighted_statistic",
]

BAR, SURE = "#9ec3e6", "#d95f02"
LONG = 18
"""Letters beside a plot, from which a name is broken."""
_DARK_SHARE = 0.65  # of the largest number, from which its square is too dark for black


def legend(ax: Any, **how: Any) -> Any:
    """Add a legend to the axes, and hide the upper and right sides of their frame."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small", **how)
    return ax


def interval_label(confidence: float, *, noise: bool = True) -> str:
    """Return the legend text of confidence intervals, such as "95% CI, all noise"."""
    return f"{100 * confidence:.4g}% CI{', all noise' if noise else ''}"


def draw_matrix(
    ax: Any, values: Any, written: Any, rows: Sequence[str], columns: Sequence[str], colours: str = "Blues"
) -> Any:
    """Draw a matrix as coloured squares with the given texts; larger numbers are darker."""
    most = float(np.nanmax(abs(values), initial=1e-300))
    ax.imshow(values, cmap=colours, vmin=0 if colours == "Blues" else -most, vmax=most, aspect="auto")
    for (i, j), text in [] if written is None else np.ndenumerate(written):
        colour = "white" if abs(values[i, j]) > _DARK_SHARE * most else "black"
        ax.text(j, i, text, ha="center", va="center", color=colour)
    ax.set_xticks(range(len(columns)), columns, rotation=45, ha="right")
    ax.set_yticks(range(len(rows)), rows)
    return ax


_WORDS = {
    "missing": "number of rows without a value",
    "nunique": "number of distinct values",
    "std": "standard deviation",
    "var": "variance",
    "top": "most frequent value",
    "freq": "number of rows with the most frequent value",
    "count": "number of rows with a value",
}
ROW_COUNTS = {"missing", "nunique", "count", "freq", "top"}  # in no column's units
_MAX_NAMED = 3  # numbers in a note
_OF_LIMITED = {"mean", "sum", "var", "std"}
_WIDE = "Uninformative: the interval spans more than half of the possible range: too little data for this epsilon."


def missing_row(missing: float | None, error: float | None) -> list[tuple[str, str]]:
    """Return a list with a printed row on missing values; empty if their number is not clearly above 0."""
    some = clearly_some(missing, error)
    return [("missing", f"{rows_text(missing, error)} rows, left out")] if some else []


def is_quantile(statistic: str) -> bool:
    """Return whether a statistic is a quantile, such as ``"median"``, ``"quantile 0.9"`` or ``"25%"``."""
    return statistic.startswith(("median", "quantile ")) or statistic.endswith("%")


def quantile_bounds(one: ColumnStatistic | Entry) -> tuple[float, float] | None:
    """Return the bounds if the statistic is a quantile, as the exact quantile may lie beyond them; else None."""
    return one.bounds if is_quantile(one.statistic) else None


def number_text(one: Entry) -> str:
    """Return a statistic as text with its error; mark a quantile at a bound, as the exact one may lie beyond."""
    if one.statistic in ROW_COUNTS:
        return rows_text(one.value, one.error)
    past = limit_suffix(one.value, quantile_bounds(one))
    return f"{number(one.value) if past and not one.error else with_error(one.value, one.error)}{past}"


def digits_error(one: ColumnStatistic | Entry, error: float | None = None) -> float | None:
    """Return the error that determines the printed digits of a statistic: from its interval, or else as given."""
    error = error if one.low is None or one.high is None else (one.high - one.low) / 4
    return max(error or 0.0, ROW_ERROR) if one.statistic in ROW_COUNTS else error


def statistic_interval(one: ColumnStatistic | Entry) -> str:
    """Return the interval of a statistic as text; empty if it has none."""
    if one.low is None or one.high is None:
        return ""
    least = ROW_ERROR if one.statistic in ROW_COUNTS else 0.0
    return interval_text(one.low, one.high, bounds=quantile_bounds(one), least=least)


def rank_ranges(notes: Sequence[str]) -> list[str]:
    """Return the part of the table in which each selected quantile lies, from the first note on them.

    Examples
    --------
    >>> rank_ranges(["At 95%, it lies between this table's 49.1% and 50.9% quantiles (11 rows either way)."])
    ["between this table's 49.1% and 50.9% quantiles"]
    """
    _, _, told = notes[0].removesuffix(".").partition(" lies " if " it lies " in notes[0] else " they lie ")
    return [each.partition(" (")[0] for each in told.split("; ")] if told else []


def covered_quantity(statistic: str) -> str:
    """Return what the interval of a statistic covers: "limited table" if it is of clipped values, else "table".

    Limits do not move quantiles within them, nor numbers of rows.
    """
    return "limited table" if statistic in _OF_LIMITED else "table"


def statistic_words(statistic: str) -> str:
    """Return the printed name of a statistic, such as "standard deviation" for ``"std"``."""
    return _WORDS.get(statistic, statistic)


def clamping_note(names: Sequence[str], where: str) -> str:
    """Return a note that numbers were clamped, and where to find the unclamped noisy numbers.

    Examples
    --------
    >>> clamping_note(["count of sex"], "raw")
    'Noise took count of sex below 0 or above the number of rows; it was clamped, and `raw` holds the noisy value.'
    """
    one = len(names) == 1
    listed = ", ".join(names) if len(names) <= _MAX_NAMED else f"{len(names)} numbers of rows"
    clamped = "it was clamped" if one else "they were clamped"
    return (
        f"Noise took {listed} below 0 or above the number of rows; {clamped}, and `{where}` holds the noisy "
        f"value{'s' * (not one)}."
    )


class TableResult(Release):
    """Base class of results that are a table of numbers with named rows, and a table of standard errors."""

    _named: ClassVar[tuple[str, str]]
    """Header of the column of row names, and the attribute with these names."""

    def _table_columns(self, name: str) -> Mapping[str, list[Any]]:
        """Return the columns of one table of the result: of ``"values"``, ``"standard_errors"`` or ``"raw"``."""
        raise NotImplementedError

    def _frame_of(self, name: str) -> Any:
        """Return one table of the result as a dataframe; row names are the index in pandas, else a first column."""
        pandas, cells = self.library == "pandas", self._table_columns(name)
        head, names = self._named[0], list(getattr(self, self._named[1]))
        made = self._table(dict(cells) if pandas else {head: names, **cells})
        if pandas:
            made.index = names
        return made

    @property
    def frame(self) -> Any:
        """The numbers as a table; row names are the index in pandas, and a column in Polars and Arrow."""
        return self._frame_of("values")

    @property
    def errors(self) -> Any:
        """Standard error of each number, in the same shape as the numbers."""
        return self._frame_of("standard_errors")

    @property
    def loc(self) -> Any:
        """Indexer of the numbers by row and column names, as of a pandas DataFrame."""
        return self.frame.loc


class _ColumnResult(Release):
    """Base class of results about columns; it writes statistics and their names as text."""

    confidence: float

    def _statistic_words(self, statistic: str, column: str) -> str:
        """Return a statistic and its column as text, such as "standard deviation of age"."""
        if not column:
            return "number of rows"
        first, *others = (self._label(name) for name in column.split(", "))
        if statistic == "missing" and others:
            return f"number of rows lacking {', '.join([first, *others[:-1]])} or {others[-1]}"
        share = f"{statistic} quantile" if statistic.endswith("%") else statistic_words(statistic)
        return f"{share} of {self._label(*column.split(', '))}"

    def _number_words(
        self, one: ColumnStatistic | Entry, what: str, how: str = "", error: float | None = None, **about: Any
    ) -> str:
        """Return a phrase with a statistic, its unit and its uncertainty."""
        unit = "" if one.statistic in ROW_COUNTS or not one.column else self._unit(one.column)
        unit = f"({unit})²" if unit and one.statistic == "var" else unit
        value = with_unit(number(one.value, digits_error(one, error)), unit)
        value += limit_suffix(one.value, quantile_bounds(one))
        least = ROW_ERROR if one.statistic in ROW_COUNTS else 0.0
        ends: dict[str, Any] = {"unit": unit, "bounds": quantile_bounds(one), "least": least}
        told = uncertainty(one.low, one.high, self.confidence, **ends, **about)
        return f"{what} is {value}{how or told}"


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnStatistic(_ColumnResult):
    """One statistic of a column or of rows; ``float()`` gives its value.

    Attributes
    ----------
    value : float
        The answer, in the column's units.
    low, high : float or None
        Ends of its confidence interval; noise is in it, and where `covers` says so sampling. None where the notes
        say how sure the answer is. Those of a quantile at a bound may lie beyond it, for values there were limited.
    confidence : float
        The interval's coverage.
    noise_standard_error : float or None
        Standard error that privacy adds to the answer.
    statistic : str
        What it is, such as ``"mean"``.
    column : str
        Of which column, or columns.
    covers : {"table", "population", "sample", "limited table", "limited population", "limited sample"} or None
        What the interval is for: the table's own number, as a dataframe has it, that of a population of which the
        rows are a sample, or of ``view.sample(...)`` that of the rows that were drawn; limited: of values limited
        to the bounds. None where there is no interval.
    count : float or None
        Rows that the answer is about; noisy where that is private.
    missing, missing_standard_error : float or None
        Rows left out because a value is missing, with noise, and its standard error; None where none was left out
        or it is not known.
    raw : float or None
        The noisy number, unbiased, where `value` is another: it was brought to what is possible, for a number of
        rows is not below 0. None where both are one.
    bounds : tuple of two float, or None
        The column's bounds, to which values are limited; None of rows and categories.
    clipped : tuple or None
        Of a mean, sum, variance or standard deviation the shares of the rows below and above the bounds, with the
        ends of their 95 % intervals: ``((share, low, high), (share, low, high))``.
    notes : tuple of str
        What to know before trusting the number.
    weights : str or None
        The column of sampling weights; the population is then the one that they stand for.
    released : mapping or None
        What it follows from, where that are noisy sums: values, of each the noise and the measurement, and how
        rows and moments follow.
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    noise_standard_error: float | None
    statistic: str
    column: str
    covers: str | None = "table"
    count: float | None = None
    missing: float | None = None
    missing_standard_error: float | None = None
    raw: float | None = None
    bounds: tuple[float, float] | None = None
    clipped: tuple[Any, ...] | None = None
    notes: tuple[str, ...] = ()
    weights: str | None = None
    released: Mapping[str, Any] | None = field(default=None, compare=False)

    _estimate: ClassVar[str] = "value"
    _row_counts = ("count",)

    def _replicates(self) -> Mapping[str, Any]:
        """Return the statistic recomputed under random draws of the noise."""
        if self.released is None:
            return super()._replicates()
        if self.weights is not None:
            sums = NoisyWeighted.from_release(self.released)
            found = weighted_parameter(sums, self.statistic, self.bounds or (-1.0, 1.0))(sums.replicates)
            return {"value": found[0]}
        name = self.statistic if self.statistic in STATISTICS else "count"
        values = getattr(redrawn_sums(self.released, self.column, self.bounds), name)
        if self.raw is None:
            return {"value": values}
        kept = np.minimum if self.value < self.raw else np.maximum  # what was brought to what is possible stays so
        return {"value": kept(values, self.value), "raw": values}

    @property
    def _facts_in_frame(self) -> tuple[str, ...]:
        return self._name, f"{100 * self.confidence:.4g}% CI"

    @property
    def _name(self) -> str:
        """Name of the statistic in a table, such as "weighted sum of x"."""
        return f"{'weighted ' * (self.weights is not None)}{self.statistic} of {self.column}".removesuffix(" of ")

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the statistic as a row of a tidy table; `n` is the number of rows that it summarises."""
        ends = {"noise_standard_error": self.noise_standard_error, "low": self.low, "high": self.high}
        about = {"column": self.column, "statistic": self.statistic}
        return [{**about, "value": self.value, **ends, "n": self.count, "covers": self.covers}]

    def _sentence(self) -> str:
        """Write a sentence with the statistic and its uncertainty."""
        exact = self._exact and self.low is not None and self.low == self.high
        how = ", exact: it follows from public columns or from what was declared" if exact else ""
        if self.low is None and (ranges := rank_ranges(self.notes)):
            how = f": {ranges[0]} ({100 * self.confidence:.4g}% CI; privacy noise only)"
        words = f"{'weighted ' * (self.weights is not None)}{self._statistic_words(self.statistic, self.column)}"
        what = f"The {words}{bounds_phrase(self.covers, self.bounds)}"
        about = {"whose": rows_phrase(self.covers or "", self.weights), "noise": self._noise_part}
        return self._number_words(self, what, how, self.noise_standard_error, **about) + "."

    @property
    def _exact(self) -> bool:
        """Whether the statistic was released without noise."""
        return self.privacy is not None and not self.privacy.noise

    @property
    def _noise_part(self) -> float | None:
        """Share of the interval's width that is due to noise; 1 if the interval has no sampling error."""
        noise = self.noise_standard_error
        if not (self.covers or "population").endswith("population"):
            return 1.0 if noise and not self._exact else None
        if self.low is None or self.high is None or noise is None:
            return None
        total = (self.high - self.low) / (2 * float(ndtri((1 + self.confidence) / 2)))
        return noise_share(total, math.sqrt(total**2 - noise**2)) if noise <= total else None

    @property
    def _axis_label(self) -> str:
        """Label of the axis: the statistic and the column."""
        return (
            f"{statistic_words(self.statistic)} of {self._with_units(*self.column.split(', '))}"
            if self.column
            else "rows"
        )

    def _rows(self) -> list[tuple[str, str]]:
        error = self.noise_standard_error
        value = number(self.value, digits_error(self, error)) + limit_suffix(self.value, quantile_bounds(self))
        rows = [(self._name, value)]
        if interval := statistic_interval(self):
            rows += [(f"{100 * self.confidence:.4g}% CI", interval)]
        if error is not None:
            rows += [("noise_standard_error", number(error, error))]
        known = self.count is not None and (self.released is not None or self.count.is_integer())  # with its error
        if self.count is not None and known and self.statistic != "count":
            rows.append(("rows", rows_text(self.count, self._count_error)))
        if self.weights is not None:
            rows.append(("weights", f"{self.weights}; rows without it are omitted"))
        rows += missing_row(self.missing, self.missing_standard_error)
        if self.raw is not None:
            raw = number(self.raw, None if self.raw.is_integer() else error)
            rows.append(
                ("raw", f"unbiased estimate: {raw}, set to {number(self.value, digits_error(self, error))}")
            )
        return [*rows, *(("note", note) for note in self.notes)]

    @property
    def _count_error(self) -> float | None:
        """Standard error of the noise in the number of rows; None or 0 if it is public, or not known."""
        if self.released is None:
            return None
        if self.weights is not None:
            weighted = NoisyWeighted.from_release(self.released)
            public = 0 < weighted.rows == round(weighted.rows)  # noise of the cube is on no grid of whole rows
            return None if public else weighted.beyond[self.column].law.standard_deviation
        sums = Sums.from_released(self.released, Column(self.column, self.bounds or (-1.0, 1.0)))
        return None if self.statistic == "missing" and math.isfinite(sums.size) else sums.error("count")

    def plot(self, ax: Any = None) -> Any:
        """Draw the statistic and its confidence interval."""
        ax = axes(ax)
        of = (self.covers or "table").removeprefix("limited ")
        known = self.low is not None and self.high is not None
        ax.set(yticks=[], xlabel=self._axis_label + (f"; the interval is for the {of}" if known else ""))
        if self.low is None or self.high is None:
            ax.plot(self.value, 0, "o", color=text_color(ax), label="released; see the notes for its error")
            legend_below(ax)
            return ax
        values = [(self.value, self.low, self.high)]
        return forest([""], values, ax.get_xlabel(), ax, noise=[self._noise_part], confidence=self.confidence)


def column_statistic(name: str, sums: Sums, confidence: float) -> ColumnStatistic:
    """Return a statistic computed from noisy sums, with a confidence interval for the exact statistic."""
    value, error, low, high, raw = sums.cell(name, confidence)
    left, left_error = sums.missing
    rows: float | None = sums.noisy_value("count")
    about: dict[str, Any] = {"raw": None if value == raw else raw}
    if name in ROWS:
        rows = sums.size if name == "missing" and math.isfinite(sums.size) else rows
        left = left if name == "count" and sums.column.name else None
    else:
        known = bool(rows or sums.map[0].any())
        rows = sums.noisy_value("count") + min(left or 0.0, 0.0) if known else None  # none are missing if fewer are
        about = {"bounds": sums.column.bounds, "notes": statistic_notes(name, sums, (low, high))}
        about["clipped"] = None if sums.clipped is None else sums.clipped.shares[0]
    return ColumnStatistic(
        value=value,
        low=low,
        high=high,
        **about,
        confidence=confidence,
        noise_standard_error=error,
        statistic=name,
        column=sums.column.name,
        count=rows,
        missing=None if left is None else max(left, 0.0),
        missing_standard_error=None if left is None else left_error,
        covers=covered_quantity(name),
        released=sums.released,
    )


def weighted_parameter(measured: NoisyWeighted, statistic: str, bounds: tuple[float, float]) -> Parameter:
    """Return the function that computes a weighted mean or sum from `WeightedSums`, in the units of the column."""

    def parameter(sums: WeightedSums) -> tuple[Any, Any, Any]:
        group, ends = sums[0], measured.most * np.array(bounds[::-1])
        return mean(group, bounds) if statistic == "mean" else total(group, ends)

    return parameter


def weighted_statistic(
    statistic: str, measured: NoisyWeighted, column: Column, confidence: float
) -> ColumnStatistic:
    """Return a weighted mean or sum computed from noisy sums, with its confidence interval."""
    bounds = column.low, column.high
    found = infer(measured, weighted_parameter(measured, statistic, bounds))
    low, high = map(float, found.interval(confidence))
    notes = measured.limits
    if statistic == "mean":
        low, high = (min(max(end, bounds[0]), bounds[1]) for end in (low, high))
        notes += (_WIDE,) * (high - low > column.half)
    return ColumnStatistic(
        value=float(found.estimate),
        low=low,
        high=high,
        confidence=confidence,
        noise_standard_error=float(found.noise_standard_error),
        statistic=statistic,
        column=column.name,
        covers="limited population",
        count=measured.rows,
        bounds=bounds,
        clipped=measured.beyond[column.name].shares[0],
        notes=notes,
        weights=measured.weights,
        released=measured.released,
    )


def statistic_notes(name: str, sums: Sums, ends: tuple[Any, ...]) -> tuple[str, ...]:
    """Return notes on clipped values, their effect on a mean or sum, and wide intervals."""
    limited = () if sums.clipped is None else sums.clipped.notes(moved=name if name in {"mean", "sum"} else "")
    return (*limited, _WIDE) if sums.is_wide(name, *ends) else limited


def redrawn_sums(released: Mapping[str, Any], column: str, bounds: tuple[float, float] | None) -> StatisticDraws:
    """Return the statistics of a column under random draws of the noise, from the sums in its release."""
    return Sums.from_released(released, Column(column, bounds or (-1.0, 1.0))).replicates


@dataclass(frozen=True)
class Entry:
    """One statistic of a result with several: its name, column, value, standard error and interval."""

    name: str
    column: str
    statistic: str
    bounds: tuple[float, float] | None
    released: Mapping[str, Any] | None
    value: Any
    error: float | None
    low: float | None
    high: float | None
    raw: Any

    @property
    def replicates(self) -> Any:
        """The statistic under random draws of the noise; None if it is not computed from sums."""
        if self.released is None or self.statistic not in STATISTICS:
            return None
        return getattr(redrawn_sums(self.released, self.column, self.bounds), self.statistic)


@dataclass(frozen=True, kw_only=True, repr=False)
class Statistics(_ColumnResult):
    """Base class of results with several statistics, stored by column or as a list."""

    columns: tuple[str, ...]
    statistics: tuple[str, ...]
    values: tuple[Any, ...]
    standard_errors: tuple[Any, ...]
    lows: tuple[Any, ...]
    highs: tuple[Any, ...]
    raw: tuple[Any, ...]
    confidence: float
    shares: dict[str, float]
    bounds: tuple[tuple[float, float] | None, ...] = ()
    clipped: tuple[Any, ...] = ()
    released: tuple[Mapping[str, Any] | None, ...] = field(default=(), compare=False)

    @cached_property
    def _entries(self) -> list[Entry]:
        """The statistics of the result as a list of `Entry`."""
        raise NotImplementedError

    @property
    def _column_cells(self) -> Iterator[tuple[Any, ...]]:
        """Iterator over the column, its bounds and further fields of `Entry`, for each column or statistic."""
        none = (None,) * len(self.columns)
        cells = (self.values, self.standard_errors, self.lows, self.highs, self.raw)
        return zip(self.columns, self.bounds or none, self.released or none, *cells, strict=True)

    def _as_fields(self, cells: Sequence[Any]) -> tuple[Any, ...]:
        """Return values, one for each statistic, in the shape in which the result stores them."""
        return tuple(cells)

    def _replicates(self) -> Mapping[str, Any]:
        """Return the statistics recomputed under random draws of the noise; None for those not made from sums."""
        raw = [each.replicates for each in self._entries]
        # What is drawn is as released: not the numbers of rows, which were brought to what is possible.
        values = [None if one.statistic in ROWS else each for one, each in zip(self._entries, raw, strict=True)]
        return {"raw": self._as_fields(raw), "values": self._as_fields(values)}

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the statistics as rows of a tidy table, with most frequent categories in a separate column."""
        texts = [each.value if isinstance(each.value, str) else None for each in self._entries]
        named: dict[str, Any] = {
            "name": [each.name for each in self._entries],
            "column": [each.column for each in self._entries],
            "statistic": [each.statistic for each in self._entries],
            "value": [None if isinstance(each.value, str) else each.value for each in self._entries],
            **({"category": texts} if any(texts) else {}),
            "standard_error": [each.error for each in self._entries],
            "low": [each.low for each in self._entries],
            "high": [each.high for each in self._entries],
        }
        covers = [None if each.low is None else covered_quantity(each.statistic) for each in self._entries]
        return [{**named, "covers": covers}]

    def _clipping_notes(self) -> list[str]:
        """Return notes on clipped values, for each column whose clipped values were counted."""
        told: list[str] = []
        for column in dict.fromkeys(self.columns):
            of = [each for each in self._entries if each.column == column and each.released is not None]
            beyond = of[0].released and of[0].released.get("clipped") if of else None
            if beyond is not None:
                moved = next((name for name in ("mean", "sum") if any(each.statistic == name for each in of)), "")
                told += Clipped.from_release(beyond, of[0].bounds or (-1.0, 1.0)).notes(of=column, moved=moved)
        return told

    def _panel(self, names: Sequence[str], told: Iterable[Entry], what: str) -> tuple[Any, ...]:
        """Return the arguments of `dfprivacy.plotting.panels` for one panel with the given statistics."""
        values, lows, highs, noise = zip(*((each.value, each.low, each.high, None) for each in told), strict=True)
        return names, values, lows, highs, what, noise

    def _notes(self) -> Sequence[str]:
        """Return all notes of the result."""
        raise NotImplementedError

    def _rows(self) -> list[tuple[str, str]]:
        spent = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        rows = [("±", "one standard error of the privacy noise"), ("budget", spent)]
        return [*rows, *(("note", note) for note in self._notes())]
