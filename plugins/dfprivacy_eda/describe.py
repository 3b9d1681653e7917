"""A whole table at a glance: counts, moments and quartiles of numbers, the most frequent of categories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

from dfprivacy import ArgumentError, Column, Curator, Probability, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.markup import Grid
from dfprivacy.plotting import panels
from dfprivacy.wording import limited
from dfprivacy_eda.joint import Measured, cell, measure
from dfprivacy_eda.plots import interval_of
from dfprivacy_eda.reading import Aggregation
from dfprivacy_eda.results import Entry, Framed, Statistics
from dfprivacy_eda.sums import ROWS
from dfprivacy_eda.wording import at_bound, covers_of, note, said

__all__ = ["Description", "describe", "described", "measured_of", "split"]

Focus = Literal["moments", "quartiles", "categories"]
_PARTS = {"moments": 1, "quartiles": 2, "categories": 1, "correlations": 2}  # of the budget, for each column
_TOGETHER = range(2, 101)  # columns whose correlations are measured
_FOCUS = Fraction(3, 4)
_QUARTILES = (0.25, 0.5, 0.75)
_NUMBERS = ("mean", "std", "25%", "50%", "75%")
_LABELS = ("top", "freq")


@dataclass(frozen=True, kw_only=True, repr=False)
class Description(Statistics, Framed):
    """Statistics of each column, as of a dataframe's ``describe``, each with its standard error.

    ``described["mean", "age"]`` is a number, and ``described.loc["mean", "age"]`` of a pandas table, as in the
    frame itself.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    statistics : tuple of str
        The rows: count and missing, mean, std and quartiles of numbers, top and freq of categories.
    values : tuple of tuples
        For each column its statistics; None where it has none of that name.
    standard_errors : tuple of tuples
        The standard error that privacy adds to each.
    lows, highs : tuple of tuples
        Ends of an interval for the table's own number.
    raw : tuple of tuples
        The values with numbers of rows as the noise has them, unbiased: below 0 at times, or more than all rows.
    confidence : float
        Coverage of each interval.
    shares : dict
        The part of the budget that went to moments, quartiles and categories.
    bounds : tuple of (float, float) or None
        The bounds of each column, to which its values are limited; None of categories. A quartile at one may lie
        beyond it.
    clipped : tuple
        Of each column of numbers the shares of the rows below and above the bounds, as of `mean`.
    released : tuple of mapping or None
        Of each column of numbers the noisy sums.
    """

    @cached_property
    def _each(self) -> list[Entry]:
        return [
            Entry(f"{statistic} of {column}", column, statistic, bounds, plain, *each)
            for column, bounds, plain, *cells in self._of_columns
            for statistic, *each in zip(self.statistics, *cells, strict=True)
        ]

    def _shaped(self, cells: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(zip(*[iter(cells)] * len(self.statistics), strict=True))

    _named = ("statistic", "statistics")

    @property
    def unbiased(self) -> Any:
        """The same shape with numbers of rows as the noise has them, below 0 and above all rows at times."""
        return self._framed("raw")

    def __getitem__(self, column: str | tuple[str, str]) -> Any:
        if not isinstance(column, tuple):
            return self.frame[column]
        row, name = column
        if row not in self.statistics or name not in self.columns:
            raise ArgumentError(
                f"There is no cell {column!r}.", f"Rows are {[*self.statistics]!r}, columns {[*self.columns]!r}."
            )
        return self.values[self.columns.index(name)][self.statistics.index(row)]

    def _cells_of(self, name: str) -> dict[str, list[Any]]:
        named, pandas = {}, self.library == "pandas"
        for column, cells in zip(self.columns, getattr(self, name), strict=True):
            text = any(isinstance(cell, str) for cell in cells) and not pandas
            filled = [math.nan if cell is None and pandas else cell for cell in cells]
            named[column] = [None if cell is None else str(cell) for cell in filled] if text else filled
        return named

    def _tidy(self) -> list[dict[str, Any]]:
        (columns,) = super()._tidy()
        kept = [at for at, value in enumerate(columns["value"]) if value is not None]
        told = columns.keys() - {"name", "category"}
        return [{name: [cells[at] for at in kept] for name, cells in columns.items() if name in told}]

    def _sentence(self) -> str:
        """Name the columns, and say the mean, or the most frequent value, of the first."""
        many = f"{len(self.columns)} column{'s' * (len(self.columns) != 1)}"
        every = f"{many} described: {self._noun(*self.columns)}."
        known = [each for each in self._each if each.statistic in {"mean", "freq"} and each.low is not None]
        if not known:
            return every
        one = min(known, key=lambda each: each.statistic != "mean")
        what = f"The {said(self, one.statistic, one.column)}{limited(covers_of(one.statistic), one.bounds)}"
        told = self._says(one, what, whose="this table", noise=1.0)
        return f"{every} {told}."

    def _grid(self) -> Grid:
        told = ["" if each.value is None else at_bound(each.value, each.error, each.ends) for each in self._each]
        return Grid(("", *self.columns), [*zip(self.statistics, *self._shaped(told), strict=True)])

    def _notes(self) -> list[str]:
        """Describe which numbers were not possible, and which means are less certain than one row's value."""
        moved = [each.name for each in self._each if each.statistic in ROWS and each.value != each.raw]
        spread = {
            each.column: each.value for each in self._each if each.statistic == "std" and each.value is not None
        }
        means = [each for each in self._each if each.statistic == "mean" and each.column in spread]
        weak = [each.column for each in means if (each.error or 0) >= spread[each.column]]
        few = f"Uninformative: too little data for this epsilon: {', '.join(weak)}."
        return [*self._limits(), *([note(moved, "unbiased")] if moved else []), *([few] if weak else [])]

    def plot(self, ax: Any = None) -> Any:
        """Draw quartiles and mean of each column of numbers, with their intervals."""
        if "mean" not in self.statistics:
            raise ArgumentError("No column of numbers is described.", "Draw value_counts(...) of a column.")
        shown, words = ("mean", "25%", "50%", "75%"), interval_of(self.confidence)
        told = [each for each in self._each if each.statistic in shown and each.value is not None]
        columns = groupby(told, key=lambda each: each.column)
        return panels(ax, [self._panel(shown, of, f"{self._called(name)} ({words})") for name, of in columns])


@mechanism(columns={"columns": "columns"})
def describe(
    curator: Curator,
    columns: tuple[Column, ...] | None = None,
    *,
    focus: Focus | None = None,
    nan_policy: NanPolicy = "omit",
) -> Measured:
    """Describe columns: count and missing, mean, std and quartiles of numbers, the most frequent category.

    Parameters
    ----------
    columns : str or list of str, optional
        Columns with bounds or categories; one with both is a number. Default: all.
    focus : {"moments", "quartiles", "categories"}, optional
        What gets three quarters of the budget. Else a column of numbers has one part for its moments and two for
        its quartiles, and a column of categories one, which is to make relative errors alike.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of values that are missing, column by column: ``"omit"`` leaves them out, ``"fill"`` counts
        them with the column's fill value, ``"raise"`` refuses them, where the columns are public.
    confidence : float
        Coverage of the intervals, each on its own.

    Returns
    -------
    Description
        A table of the shape of ``describe`` of a dataframe, in ``frame``, and of the standard errors, in
        ``errors``.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used, or no column has bounds or categories; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. The sums of y and 2y²-1 of
    all columns of numbers, each mapped to y in [-1, 1], have noise of the cube [1]_: one row moves every one of
    them by 2 at most (by 1 where rows come and go, with one more coordinate for the number of rows). The
    quartiles come from a tree of counts for each column, as in `quantile`, and the categories from counts, all
    with discrete Laplace noise; columns share the part of the budget that is theirs.

    **Statistics.** As for `mean`, `std`, `quantile` and `value_counts`. The columns are described together at
    the price of the question, so fewer columns are described more accurately. Of the trees those nodes alone are
    drawn in which a quartile may lie, so no other quantile follows from them: ask `quantile` for several.

    References
    ----------
    .. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 5000, "sex": ["f", "m", "f", "f"] * 5000})
    >>> view = dp.protect(df, "eda-describe", epsilon=1, ledger="memory:",
    ...                   bounds={"age": (0, 100)}, categories={"sex": ["f", "m"]})
    >>> described = view.describe(epsilon=1)
    >>> round(described.loc["mean", "age"]), described.loc["top", "sex"]
    (30, 'f')
    """
    chosen = described(curator, columns)
    numbers = sum(column.bounds is not None for column in chosen)
    return measured_of(curator, chosen, split(numbers, len(chosen) - numbers, focus), nan_policy)


def described(curator: Curator, columns: tuple[Column, ...] | None) -> tuple[Column, ...]:
    """Return the columns that are described: those named, or all that can be."""
    if chosen := columns or curator.columns:
        return chosen
    raise ArgumentError("No column has bounds or categories.", "Say them: protect(..., bounds={...}).")


def measured_of(
    curator: Curator,
    chosen: tuple[Column, ...],
    shares: dict[str, Fraction],
    nan_policy: NanPolicy,
    *,
    whole_trees: bool = False,
) -> Measured:
    """Measure moments and quartiles of numbers and counts of categories, each with its share of the budget.

    Of the trees of counts only what the quartiles need is shown, if nobody needs the whole trees.
    """
    columns = {column.name: column for column in chosen}
    ranked = [column.name for column in chosen if column.bounds is not None]
    asked = None if whole_trees else [_QUARTILES] * len(ranked)
    return measure(curator, columns, dict.fromkeys(ranked, 2), shares, nan_policy, ranked=ranked, asked=asked)


def split(numbers: int, labels: int, focus: Focus | None = None, *, together: bool = False) -> dict[str, Fraction]:
    """Split the budget among what there is to measure of numbers and categories; correlations are of numbers."""
    counts = {"moments": numbers, "quartiles": numbers, "categories": labels}
    counts["correlations"] = numbers * (together and numbers in _TOGETHER)
    parts = {name: _PARTS[name] * count for name, count in counts.items() if count}
    if focus is not None and focus not in parts:
        raise ArgumentError(
            f"focus={focus!r}, and no column that is described has them.", f"Use one of {[*parts]!r}."
        )
    rest = sum(part for name, part in parts.items() if name != focus)
    if focus is None or not rest:
        return {name: Fraction(part, sum(parts.values())) for name, part in parts.items()}
    return {name: _FOCUS if name == focus else (1 - _FOCUS) * Fraction(part, rest) for name, part in parts.items()}


@describe.concludes
def _(measured: Measured, *, confidence: Probability = 0.95) -> Description:
    """Compute every cell with its standard error and interval."""
    names = ("count", "missing", *(_NUMBERS if measured.sums else ()), *(_LABELS if measured.cells else ()))
    asked = [Aggregation(name, column, name) for column in measured.columns for name in names]
    found = zip(*(cell(measured, one, confidence) for one in asked), strict=True)
    values, errors, lows, highs, raw = (tuple(zip(*[iter(each)] * len(names), strict=True)) for each in found)
    return Description(
        statistics=names,
        values=values,
        standard_errors=errors,
        lows=lows,
        highs=highs,
        raw=raw,
        confidence=confidence,
        covers="limited table" if measured.sums else "table",
        **measured.about([*measured.columns]),
    )
