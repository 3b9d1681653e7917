"""The method ``view.agg``: several statistics of several columns in one release, of all rows or by group."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dfprivacy import ArgumentError, Column, Curator, Probability, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.markup import Grid
from dfprivacy.plotting import panels, wrap_label
from dfprivacy.wording import bounds_phrase
from dfprivacy_eda.describe import TableMeasurement, measure_table, quantile_share, statistic_cell
from dfprivacy_eda.results import (
    LONG,
    Entry,
    Statistics,
    clamping_note,
    covered_quantity,
    number_text,
    statistic_interval,
    statistic_words,
)
from dfprivacy_eda.sums import ROWS, SD

if TYPE_CHECKING:
    from dfprivacy_eda.sums import Cell

__all__ = ["Aggregates", "agg", "check_agg", "parse_aggregations", "split_budget"]

_COVERS_NOTE = "Intervals are for this table: privacy noise only, no sampling error"
_LISTED = 3  # numbers in a sentence


@dataclass(frozen=True, kw_only=True, repr=False)
class Aggregates(Statistics):
    """Result of ``view.agg``: named statistics of columns, such as ``result["age_mean"]``.

    Attributes
    ----------
    names : tuple of str
        What they are called: column and statistic, or as they were named.
    columns, statistics : tuple of str
        Of which column each is, and which.
    values : tuple
        The statistics; a category for ``"top"``.
    standard_errors : tuple
        The standard error that privacy adds to each.
    lows, highs : tuple
        Ends of an interval for the table's own number.
    raw : tuple
        The values with numbers of rows as the noise has them, unbiased: below 0 at times, or more than all rows.
    confidence : float
        Coverage of each interval.
    shares : dict
        The part of the budget that went to sums, quantiles and categories.
    notes : tuple of str
        What to know before trusting the numbers.
    bounds : tuple of (float, float) or None
        For each the bounds of its column, to which values are limited; None of categories and numbers of rows. A
        quantile at one may lie beyond it.
    clipped : tuple
        For each the shares of its column's rows below and above the bounds, as of `mean`; None where no values were
        summed.
    released : tuple of mapping or None
        For each the noisy sums that it follows from.
    """

    names: tuple[str, ...]
    notes: tuple[str, ...]

    @cached_property
    def _entries(self) -> list[Entry]:
        each = zip(self.names, self._column_cells, self.statistics, strict=True)
        return [Entry(name, column, statistic, *known) for name, (column, *known), statistic in each]

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise ArgumentError(f"There is no aggregation {name!r}.", f"The aggregations are {[*self.names]!r}.")
        return self.values[self.names.index(name)]

    def plot(self, ax: Any = None) -> Any:
        """Draw each numeric statistic with its confidence interval in a separate panel."""
        if all(low is None for low in self.lows):
            raise ArgumentError(
                "plot() draws numbers, and no aggregation is a number.",
                "Use view.value_counts(column, epsilon=...).plot().",
            )
        told = [each for each in self._entries if each.low is not None]
        return panels(ax, [self._panel([wrap_label(self._entry_label(each), LONG)], [each], "") for each in told])

    def _entry_label(self, each: Entry) -> str:
        """Return the plot label of a statistic: its name, or a description if its column has a label."""
        own = each.name == f"{each.column}_{each.statistic}" and each.column in self.column_words
        return f"{statistic_words(each.statistic)} of {self._with_units(each.column)}" if own else each.name

    def _sentence(self) -> str:
        """Write a sentence with the values of the first three statistics."""
        told = []
        for each in self._entries[:_LISTED]:
            words = f"the {self._statistic_words(each.statistic, each.column)}"
            own = each.name == f"{each.column}_{each.statistic}"
            told.append(self._number_words(each, words if own else f"{each.name}, {words},", whose=""))
        more = [f"{len(self.names) - _LISTED} more are below"] if len(self.names) > _LISTED else []
        limits = f"; values are{bounds_phrase(self.covers)}" if bounds_phrase(self.covers) else ""
        first = "; ".join([*told, *more]).removeprefix("the ")
        return f"{'The ' if told[0].startswith('the ') else ''}{first}. {_COVERS_NOTE}{limits}."

    def _grid(self) -> Grid:
        rows = [(each.name, number_text(each), statistic_interval(each)) for each in self._entries]
        return Grid(("", "value", f"{100 * self.confidence:.4g}% CI"), rows)

    def _notes(self) -> tuple[str, ...]:
        return (*self._clipping_notes(), *self.notes)


OF_NUMBERS = ("count", "missing", "mean", "sum", "var", "std", "median")
OF_LABELS = ("count", "missing", "top", "freq")
_ALTERNATIVES = {  # what dataframes have, and nobody can be told
    "min": 'The minimum is the value of a single row, which is private. Use a small quantile, such as "1%".',
    "max": 'The maximum is the value of a single row, which is private. Use a large quantile, such as "99%".',
    "first": "The first value is that of a single row, which is private.",
    "last": "The last value is that of a single row, which is private.",
    "nunique": "Use view.nunique(column, epsilon=...), which is a separate method.",
    "n_unique": "Use view.nunique(column, epsilon=...), which is a separate method.",
    "size": 'For the number of rows with a value, use "count".',
    "len": 'For the number of rows with a value, use "count".',
    "null_count": 'For the number of rows without a value, use "missing".',
    "mode": 'For the most frequent category, use "top"; for its number of rows, "freq".',
    "quantile": 'Name the quantile by its percentage, such as "25%".',
}


@dataclass(frozen=True)
class Aggregation:
    """Request for a statistic of a column, with the name that the statistic has in the result.

    Attributes
    ----------
    name : str
        Its name in the answer.
    column : str
        The column.
    statistic : str
        The statistic.
    """

    name: str
    column: str
    statistic: str


def parse_aggregations(aggregations: object, named: Mapping[str, object]) -> tuple[Aggregation, ...]:
    """Parse the arguments of `agg`: statistics by column, or pairs of column and statistic by name.

    Parameters
    ----------
    aggregations : mapping or None
        ``{"age": "mean", "income": ["mean", "std"]}``.
    named : mapping
        ``{"oldest": ("age", "99%")}``; a name with a statistic, or a list of them, is that of a column.

    Returns
    -------
    tuple of Aggregation
        In the order asked.

    Raises
    ------
    ArgumentError
        If something is no aggregation, or two have one name.
    """
    if not isinstance(aggregations, Mapping | None):
        raise ArgumentError(
            f"agg() takes statistics by column, not a {type(aggregations).__name__}.",
            'For example agg({"age": ["mean", "std"]}), or agg(mean_age=("age", "mean")).',
        )
    every = []
    by_column = [
        *(aggregations or {}).items(),
        *((name, each) for name, each in named.items() if _is_statistic_list(each)),
    ]
    for column, statistics in by_column:
        several = statistics if isinstance(statistics, list | tuple) else [statistics]
        every += [_aggregation(f"{column}_{each}", column, each) for each in several]
    for name, pair in named.items():
        if _is_statistic_list(pair):
            continue
        if not isinstance(pair, list | tuple) or len(pair) != 2:  # noqa: PLR2004
            given = repr(pair)[:100] if isinstance(pair, str | int | float | list | tuple) else type(pair).__name__
            raise ArgumentError(
                f"{name}={given} is not a pair of column and statistic.", f'Write {name}=("age", "mean").'
            )
        every.append(_aggregation(name, *pair))
    if not every:
        raise ArgumentError("agg() needs at least one aggregation.", 'For example agg({"age": ["mean", "std"]}).')
    names = [each.name for each in every]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError(
            f"Two aggregations are called {twice[0]!r}.",
            "Give each a different name: agg(name=(column, statistic)).",
        )
    return tuple(every)


def _is_statistic_list(given: object) -> bool:
    """Return whether the argument is a statistic or a list of statistics, not a pair of column and statistic."""
    several = given if isinstance(given, list) else [given]
    return bool(several) and all(isinstance(each, str) and _is_statistic(each) for each in several)


def _is_statistic(name: str) -> bool:
    share = quantile_share(name)
    return name in {*OF_NUMBERS, *OF_LABELS} or (share is not None and share <= 1)


def _aggregation(name: str, column: object, statistic: object) -> Aggregation:
    if not isinstance(column, str):
        raise ArgumentError(f"The column of {name!r} must be a name (str), not {type(column).__name__}.")
    if isinstance(statistic, str):
        if _is_statistic(statistic):
            return Aggregation(name, column, statistic)
        if statistic in _ALTERNATIVES:
            raise ArgumentError(f"agg() has no statistic {statistic!r}.", _ALTERNATIVES[statistic])
    written = getattr(statistic, "__name__", statistic) if callable(statistic) else statistic
    near = difflib.get_close_matches(str(written)[:100], {*OF_NUMBERS, *OF_LABELS}, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise ArgumentError(
        f"agg() has no statistic {written!r}, which was asked of column {column!r}."
        if not callable(statistic)
        else "agg() takes names of statistics, not functions.",
        f'{hint}Statistics of numbers: {", ".join(OF_NUMBERS)}, or a quantile such as "25%"; of categories: '
        f"{', '.join(OF_LABELS)}.",
    )


def columns_of(aggregations: Sequence[Aggregation], columns: Sequence[Column]) -> dict[str, Column]:
    """Return the aggregated columns by name; raise an error if a column lacks the requested statistic.

    Parameters
    ----------
    aggregations : sequence of Aggregation
        The aggregations.
    columns : sequence of Column
        All columns that have bounds or categories.

    Returns
    -------
    dict of str to Column
        Those asked for, in order.

    Raises
    ------
    ArgumentError
        If a column is not among them, or has no such statistic.
    """
    known = {column.name: column for column in columns}
    for each in aggregations:
        column = known.get(each.column)
        if column is None:
            near = difflib.get_close_matches(each.column, known, n=1)
            raise ArgumentError(
                f"There is no column {each.column!r} with bounds or categories.",
                (f"Did you mean {near[0]!r}?" if near else f"The columns are {[*known]!r}.")
                + f" To find unknown bounds: view.find_bounds({each.column!r}, epsilon=...).",
            )
        allowed = OF_LABELS if column.bounds is None else OF_NUMBERS
        if each.statistic not in allowed and not (
            quantile_share(each.statistic) is not None and column.bounds is not None
        ):
            kind = "categories" if column.bounds is None else "numbers"
            raise ArgumentError(
                f"Column {each.column!r} holds {kind}, and {each.statistic!r} is not a statistic of {kind}.",
                f"Use one of {', '.join(allowed)}.",
            )
    return {each.column: known[each.column] for each in aggregations}


_DEGREES = {"mean": 1, "sum": 1, "var": 2, "std": 2}
_NO_MISSING = (0.0, 0.0, 0.0, 0.0, 0.0)  # where it was said what a missing value counts as


_TREE_ERROR = (
    26.152  # standard error of the rows below an edge of a tree of 16³ intervals at an epsilon of 1, on average
)
_QUANTILE_SLOPE = 2.507  # standard deviations from a normal median for each unit of the share of rows
_STEPS = 10**6


def split_budget(summed: int, ranked: int, labels: Sequence[Column], *, moments: bool) -> dict[str, Fraction]:
    """Split the budget among sums, quantiles and counts of categories so that expected errors are equal.

    Parameters
    ----------
    summed : int
        Coordinates with noise of the cube.
    ranked : int
        Trees of counts.
    labels : sequence of Column
        Columns whose categories are counted.
    moments : bool
        Whether the coordinates are of values, and not of rows alone.

    Returns
    -------
    dict of str to Fraction
        The parts of sums, quantiles and categories, 1 together, in this order.
    """
    most = max((len(column.categories or ()) for column in labels), default=0)
    errors = {  # times the rows and epsilon, where rows change; where they come and go, half of each
        "sums": 2 * math.sqrt((summed + 1) * (summed + 2) / 3) / (SD if moments else 1) * (summed > 0),
        "quantiles": _QUANTILE_SLOPE * _TREE_ERROR * ranked,
        "categories": 2 * math.sqrt(2) * most * len(labels),
    }
    total = sum(errors.values()) or 1.0
    parts = {name: Fraction(round(_STEPS * error / total), _STEPS) for name, error in errors.items() if error}
    if parts:  # the last has what rounding leaves
        *_, last = parts
        parts[last] = 1 - sum((part for name, part in parts.items() if name != last), Fraction(0))
    return parts


def check_agg(aggregations: Any, named: Mapping[str, Any], **_: Any) -> None:
    """Check the arguments of `agg` before anything is charged."""
    parse_aggregations(aggregations, named)


@mechanism()
def agg(
    curator: Curator,
    aggregations: Mapping[str, Any] | None = None,
    *,
    nan_policy: NanPolicy = "omit",
    **named: Any,
) -> TableMeasurement:
    """Compute several statistics of several columns in one release.

    Parameters
    ----------
    aggregations : mapping of str to str or list of str, optional
        Statistics by column: ``{"age": ["mean", "std"], "income": "median"}``. Of numbers ``"count"``,
        ``"missing"``, ``"mean"``, ``"sum"``, ``"var"``, ``"std"``, ``"median"`` and quantiles such as ``"25%"``; of
        categories ``"count"``, ``"missing"``, ``"top"`` and ``"freq"``. They are called ``"age_mean"`` and so on.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of values that are missing, column by column: ``"omit"`` leaves them out, ``"fill"`` counts
        them with the column's fill value, ``"raise"`` refuses them, where the columns are public.
    confidence : float
        Coverage of the intervals, each on its own.
    **named : tuple of column and statistic
        The same by the name of the answer: ``mean_age=("age", "mean")``. A statistic, or a list of them, is of the
        column of that name: ``age=["mean", "std"]``.

    Returns
    -------
    Aggregates
        The statistics with standard errors and intervals; ``to_frame()`` has a row for each, by group too.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used, a column is not there, or has no such statistic; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation, as `describe`: sums of y, and
    of 2y²-1 where variances are asked for, have noise of the cube [1]_, with rows without a value in the same
    vector; a sixteenth of their part counts the rows beyond the bounds; quantiles come from a tree of counts for
    each column, and categories from counts, with discrete Laplace noise.

    **Statistics.** As for `mean`, `std`, `quantile` and `value_counts`. The budget is split so that the expected
    errors, relative to a standard deviation of a sixth of the bounds and to an average category, are equal: that
    follows from public numbers (docs/explanation/exploration.md). Fewer statistics are more accurate.

    References
    ----------
    .. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 26, 41] * 5000, "sex": ["f", "m", "f", "m"] * 5000})
    >>> view = dp.protect(df, "eda-agg", epsilon=2, ledger="memory:",
    ...                   bounds={"age": (0, 100)}, categories={"sex": ["f", "m"]})
    >>> found = view.group_by("sex").agg({"age": ["mean", "count"]}, epsilon=1)
    >>> frame = found.to_frame()
    >>> frame[frame["statistic"] == "mean"][["sex", "name", "value"]].round(0)
      sex      name  value
    0   f  age_mean   24.0
    2   m  age_mean   36.0
    >>> round(view.agg(mean_age=("age", "mean"), epsilon=1)["mean_age"])
    30
    """
    wanted = parse_aggregations(aggregations, named)
    columns = columns_of(wanted, curator.columns)
    about = {name: [each for each in wanted if each.column == name] for name in columns}
    degrees = {
        name: max(_DEGREES.get(each.statistic, 0) for each in about[name])
        for name, column in columns.items()
        if column.bounds is not None
    }
    ranked = [name for name in degrees if any(quantile_share(each.statistic) is not None for each in about[name])]
    gaps = {name: curator.gaps([column], nan_policy) for name, column in columns.items()}
    counted = [name for name in degrees if name not in ranked and gaps[name]]
    labels = [column for name, column in columns.items() if name not in degrees]
    dimension = sum(degrees.values()) + len(counted) + (curator.size is None and bool(degrees))
    shares = split_budget(dimension, len(ranked), labels, moments=any(degrees.values()))
    lost = {each.column for each in wanted if each.statistic == "missing" and curator.size is None}
    told = {column.name for column in labels if column.name in lost and not column.other}
    return measure_table(curator, columns, degrees, shares, nan_policy, ranked=ranked, counted=counted, told=told)


@agg.concludes
def conclude_agg(
    measured: TableMeasurement,
    aggregations: Mapping[str, Any] | None,
    *,
    named: Mapping[str, Any],
    confidence: Probability = 0.95,
) -> Aggregates:
    """Compute each requested statistic with its standard error and confidence interval."""
    wanted = parse_aggregations(aggregations, named)
    cells = [_aggregation_cell(each, measured, confidence) for each in wanted]
    moved = [
        each.name for each, one in zip(wanted, cells, strict=True) if each.statistic in ROWS and one[0] != one[-1]
    ]
    wide = [each.name for each, one in zip(wanted, cells, strict=True) if _is_uninformative(each, measured, one)]
    many = "too little data for this epsilon: intervals span more than half of the possible range"
    few = f"Uninformative: {many}: {', '.join(wide)}."
    return Aggregates(
        names=tuple(each.name for each in wanted),
        statistics=tuple(each.statistic for each in wanted),
        notes=(*((clamping_note(moved, "raw"),) if moved else ()), *((few,) if wide else ())),
        covers="limited table" if any(covered_quantity(each.statistic) != "table" for each in wanted) else "table",
        **measured.result_fields([each.column for each in wanted], zip(*cells, strict=True), confidence),
    )


def _aggregation_cell(one: Aggregation, measured: TableMeasurement, confidence: float) -> Cell:
    found = statistic_cell(measured, one.column, one.statistic, confidence)
    return _NO_MISSING if one.statistic == "missing" and found[0] is None else found


def _is_uninformative(one: Aggregation, measured: TableMeasurement, found: Cell) -> bool:
    """Return whether an interval spans more than half of the possible range; False for numbers of rows."""
    _, _, low, high, _ = found
    if low is None or high is None or one.column in measured.cells or one.statistic in ROWS:
        return False
    return measured.sums[one.column].is_wide(one.statistic, low, high)
