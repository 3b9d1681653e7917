"""Summary statistics of a whole table, and the joint measurement of several columns in one release.

Sums have noise of the cube, trees of counts and counts of categories discrete Laplace noise; they share the budget.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, Column, Curator, Probability, features, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.estimates import measure_beyond
from dfprivacy.inference.counts import project_counts
from dfprivacy.laws import NoiseLaw
from dfprivacy.markup import Grid
from dfprivacy.plotting import panels
from dfprivacy.wording import bounds_phrase
from dfprivacy_eda.counts import Cells
from dfprivacy_eda.results import (
    Entry,
    Statistics,
    TableResult,
    clamping_note,
    covered_quantity,
    interval_label,
    number_text,
)
from dfprivacy_eda.sums import ROWS, STATISTICS, Sums, clamp_to_range
from dfprivacy_eda.tree import AdaptiveReveal, CountTree, choose_layout, rows_epsilon

if TYPE_CHECKING:
    from dfprivacy.release import NoisyValue
    from dfprivacy_eda.sums import Cell

__all__ = [
    "Description",
    "JointSums",
    "TableMeasurement",
    "category_cells",
    "check_distinct_columns",
    "columns_to_describe",
    "describe",
    "measure_description",
    "measure_table",
    "quantile_share",
    "split_budget",
    "statistic_cell",
]

Focus = Literal["moments", "quartiles", "categories"]
_BUDGET_PARTS = {"moments": 1, "quartiles": 2, "categories": 1, "correlations": 2}  # of the budget, for each column
_CORRELATED = range(2, 101)  # columns whose correlations are measured
_FOCUS = Fraction(3, 4)
_QUARTILES = (0.25, 0.5, 0.75)
_NUMBERS = ("mean", "std", "25%", "50%", "75%")
_LABELS = ("top", "freq")
_NO_NOISE = NoiseLaw(0.0)
_EMPTY_CELL = (None, None, None, None, None)
_BEYOND_SHARE = Fraction(1, 16)  # of the part of sums, for the rows beyond bounds


@dataclass(frozen=True, kw_only=True, repr=False)
class Description(Statistics, TableResult):
    """Summary statistics of each column, as of a dataframe's ``describe``, with their standard errors.

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
    def _entries(self) -> list[Entry]:
        return [
            Entry(f"{statistic} of {column}", column, statistic, bounds, plain, *each)
            for column, bounds, plain, *cells in self._column_cells
            for statistic, *each in zip(self.statistics, *cells, strict=True)
        ]

    def _as_fields(self, cells: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(zip(*[iter(cells)] * len(self.statistics), strict=True))

    _named = ("statistic", "statistics")

    @property
    def unbiased(self) -> Any:
        """Table of the statistics before numbers of rows were clamped to the range from 0 to all rows."""
        return self._frame_of("raw")

    def __getitem__(self, column: str | tuple[str, str]) -> Any:
        if not isinstance(column, tuple):
            return self.frame[column]
        row, name = column
        if row not in self.statistics or name not in self.columns:
            raise ArgumentError(
                f"The description has no row or column {column!r}.",
                f"Its rows are {[*self.statistics]!r} and its columns {[*self.columns]!r}.",
            )
        return self.values[self.columns.index(name)][self.statistics.index(row)]

    def _table_columns(self, name: str) -> dict[str, list[Any]]:
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
        """Write a sentence with the columns, and the mean or most frequent value of the first column."""
        many = f"{len(self.columns)} column{'s' * (len(self.columns) != 1)}"
        every = f"{many} described: {self._label(*self.columns)}."
        known = [each for each in self._entries if each.statistic in {"mean", "freq"} and each.low is not None]
        if not known:
            return every
        one = min(known, key=lambda each: each.statistic != "mean")
        covered = bounds_phrase(covered_quantity(one.statistic), one.bounds)
        what = f"The {self._statistic_words(one.statistic, one.column)}{covered}"
        told = self._number_words(one, what, whose="this table", noise=1.0)
        return f"{every} {told}."

    def _grid(self) -> Grid:
        told = ["" if each.value is None else number_text(each) for each in self._entries]
        return Grid(("", *self.columns), [*zip(self.statistics, *self._as_fields(told), strict=True)])

    def _notes(self) -> list[str]:
        """Return notes on clamped numbers of rows, and on means whose error exceeds the standard deviation."""
        moved = [each.name for each in self._entries if each.statistic in ROWS and each.value != each.raw]
        spread = {
            each.column: each.value for each in self._entries if each.statistic == "std" and each.value is not None
        }
        means = [each for each in self._entries if each.statistic == "mean" and each.column in spread]
        weak = [each.column for each in means if (each.error or 0) >= spread[each.column]]
        few = f"Uninformative: too little data for this epsilon. The noise hides the mean of {', '.join(weak)}."
        return [
            *self._clipping_notes(),
            *([clamping_note(moved, "unbiased")] if moved else []),
            *([few] if weak else []),
        ]

    def plot(self, ax: Any = None) -> Any:
        """Draw the quartiles and mean of each numeric column, with their confidence intervals."""
        if "mean" not in self.statistics:
            raise ArgumentError(
                "plot() draws columns of numbers, and none is described.",
                "Use view.value_counts(column, epsilon=...).plot().",
            )
        shown, words = ("mean", "25%", "50%", "75%"), interval_label(self.confidence)
        told = [each for each in self._entries if each.statistic in shown and each.value is not None]
        columns = groupby(told, key=lambda each: each.column)
        return panels(ax, [self._panel(shown, of, f"{self._with_units(name)} ({words})") for name, of in columns])


@dataclass(frozen=True)
class JointSums:
    """Noisy sums of several columns, measured as one vector with noise that is uniform in a cube of random size.

    Attributes
    ----------
    rows : float
        The number of all rows.
    law : NoiseLaw
        Of the noise in each sum.
    parts : mapping of str to NoisyValue
        What was summed of each column: values, and last the rows without one, if they were counted.
    counted : str
        The id of the number of all rows; None where that is public.
    beyond : mapping of str to NoisyValue
        The rows beyond the bounds of each column whose values were summed.
    """

    rows: float
    law: NoiseLaw = _NO_NOISE
    parts: Mapping[str, NoisyValue] = field(default_factory=dict)
    counted: str | None = None
    beyond: Mapping[str, NoisyValue] = field(default_factory=dict)

    @classmethod
    def measure(
        cls,
        curator: Curator,
        columns: Mapping[str, Column],
        degrees: Mapping[str, int],
        gaps: Mapping[str, tuple[Column, ...]],
        told: Collection[str],
        share: Fraction,
    ) -> JointSums:
        """Measure sums of scaled values, and of their squares for degree 2, and the number of rows if private.

        Where rows change, one without a value counts twice: it is then as far from others as these from each other.
        Rows beyond bounds have a part of their own: in the same vector each would widen the noise as a sum does.
        """
        n, beyond = curator.size, {}
        if limited := {name: column for name, column in columns.items() if degrees[name]}:
            counted = measure_beyond(curator, tuple(limited.values()), share=share * _BEYOND_SHARE)
            beyond = dict(zip(limited, counted, strict=True))
            share *= 1 - _BEYOND_SHARE
        every: dict[str, features.RowFeatures] = {}
        for name, column in columns.items():
            if degrees[name]:
                of = features.Moments(column, degree=degrees[name], centred=degrees[name] > 1)
                tally = (0.0, 1.0 if n is None else 2.0) if name in told else None
                every[name] = features.Given(*gaps[name], of=of, tally=tally) if gaps[name] else of
            elif name in told:
                every[name] = features.Given(*gaps[name])
        all_rows = [features.Count()] if n is None else []
        noisy = curator.sum(features.Stack(*every.values(), *all_rows), noise="cube", share=share)
        parts = dict(zip(every, noisy.parts, strict=False))
        if n is None:
            return cls(float(noisy.values[-1]), noisy.law, parts, noisy.parts[-1].id, beyond)
        return cls(float(n), noisy.law, parts, None, beyond)

    @property
    def variance(self) -> float:
        """Variance of the noise in the number of all rows; 0 if the number is public."""
        return 0.0 if self.counted is None else self.law.variance

    def column_sums(self, column: Column, degree: int, tree: CountTree | None, *, complete: bool) -> Sums:
        """Return the noisy sums of one column, from which its count, mean and variance are computed.

        The sum of y² is half of that of 2y²-1 and of the rows with a value.
        """
        law = replace(self.law, step=0.0)
        none = replace(law, scale=0.0)
        sums, laws, ids = [self.rows, 0.0, 0.0, 0.0], [none] * 4, [("", 0)] * 4
        if self.variance:
            laws[0], ids[0] = law, (self.counted or "", 0)
        part = self.parts.get(column.name)
        values = [] if part is None else part.values.tolist()
        told = len(values) > degree
        for place, (at, value) in enumerate(zip([*range(1, 1 + degree), 3], values, strict=False)):
            sums[at], laws[at], ids[at] = value, law, (part.id if part else "", place)
        map_ = np.array([[1, 0, 0, -1], [0, 1, 0, 0], [1 / 2, 0, 1 / 2, -1 / 2], [0, 0, 0, 1]])
        if told and degree:
            map_[:, 3] /= 2.0 if self.counted is None else 1.0
        elif told:  # those with a value were counted
            map_[[0, 3]] = [0, 0, 0, 1], [1, 0, 0, -1]
        elif tree is not None and (gone := tree.missing[0]) is not None:
            scale = (tree.missing[1] or 0.0) / math.sqrt(2)
            sums[3], laws[3], ids[3] = gone, NoiseLaw(scale), (f"{tree.missing}", 0)
            told = True
        found = Sums(column, np.array(sums), tuple(laws), map_, np.zeros(4), complete or told, tuple(ids))
        return found.with_rows_beyond(self.beyond[column.name]) if column.name in self.beyond else found


@dataclass(frozen=True)
class TableMeasurement:
    """Measurements of all columns, and the share of the budget that each measurement used."""

    columns: dict[str, Column]
    sums: dict[str, Sums]
    trees: dict[str, CountTree]
    cells: dict[str, Cells]
    shares: dict[str, float]
    size: int | None

    def result_fields(
        self, columns: Sequence[str], cells: Iterable[Iterable[Any]], confidence: float
    ) -> dict[str, Any]:
        """Return the fields of a result: statistics, bounds, noisy sums and shares of the budget."""
        sums = [self.sums.get(name) for name in columns]
        names = ("values", "standard_errors", "lows", "highs", "raw")
        return {
            **{name: tuple(of) for name, of in zip(names, cells, strict=True)},
            "confidence": confidence,
            "columns": tuple(columns),
            "bounds": tuple(None if each is None else each.column.bounds for each in sums),
            "released": tuple(None if each is None else each.released for each in sums),
            "clipped": tuple(each.clipped.shares[0] if each and each.clipped else None for each in sums),
            "shares": self.shares,
        }


def measure_table(
    curator: Curator,
    columns: Mapping[str, Column],
    degrees: Mapping[str, int],
    shares: Mapping[str, Fraction],
    nan_policy: NanPolicy,
    *,
    ranked: Sequence[str],
    counted: Sequence[str] = (),
    told: Collection[str] = (),
    asked: Sequence[tuple[float, ...]] | None = None,
) -> TableMeasurement:
    """Measure sums of numeric columns, trees of counts, and counts of categories, each with a share of the budget.

    Parameters
    ----------
    curator : Curator
        What measures.
    columns : mapping of str to Column
        The columns.
    degrees : mapping of str to int
        Up to which power the values of each column of numbers are summed.
    shares : mapping of str to Fraction
        The parts of the budget of sums or moments, of quantiles or quartiles, and of categories.
    nan_policy : str
        As the methods have it.
    ranked, counted : sequence of str
        The columns of numbers with a tree of counts, and those whose missing values are counted beside the sums.
    told : collection of str
        The columns of categories of which rows in none are counted.
    asked : sequence of tuple of float, optional
        The quantiles that are asked of each tree, whose other nodes are not shown; default: all are.

    Returns
    -------
    Measured
        All of it.
    """
    gaps = {name: curator.gaps([column], nan_policy) for name, column in columns.items()}
    numbers = {name: columns[name] for name in degrees}
    labels = [column for name, column in columns.items() if name not in degrees]
    of_sums, of_trees, of_counts = (
        next((shares[name] for name in names if name in shares), None)
        for names in (("sums", "moments"), ("quantiles", "quartiles"), ("categories",))
    )
    complete = {name: not (gaps[name] or column.filled or nan_policy == "fill") for name, column in numbers.items()}
    lost = tuple(bool(gaps[name]) for name in ranked)
    plans = [
        choose_layout(numbers[name], None, rows_epsilon(curator, (of_trees or Fraction(0)) / len(ranked)))
        for name in ranked
    ]
    each = zip(ranked, plans, lost, strict=True)  # laid out before anything is paid: some bounds have no room
    nodes = [plan.features(numbers[name], missing=gone, root=False) for name, plan, gone in each]
    shown = None if asked is None else AdaptiveReveal(tuple(plan.sizes for plan in plans), lost, tuple(asked))
    moments, trees = JointSums(float(curator.size or 0)), dict[str, CountTree]()
    if of_sums is not None:
        moments = JointSums.measure(curator, numbers, degrees, gaps, counted, of_sums)
    if of_trees is not None:
        rows = moments.rows, moments.variance
        parts = curator.sum(features.Stack(*nodes), share=of_trees, reveal=shown).parts
        for name, plan, part, gone in zip(ranked, plans, parts, lost, strict=True):
            trees[name] = CountTree.from_measurement(
                plan, part, missing=gone, rows=rows, root=False, none_missing=complete[name]
            )
    return TableMeasurement(
        columns=dict(columns),
        sums={
            name: moments.column_sums(column, degrees[name], trees.get(name), complete=complete[name])
            for name, column in numbers.items()
        },
        trees=trees,
        cells={} if of_counts is None else _measure_categories(curator, labels, told, of_counts),
        shares={name: float(share) for name, share in shares.items()},
        size=curator.size,
    )


def _measure_categories(
    curator: Curator, labels: list[Column], told: Collection[str], share: Fraction
) -> dict[str, Cells]:
    """Measure the number of rows in each category and, for the columns in `told`, in no category."""
    every: list[features.RowFeatures] = [
        features.Given(column, of=features.OneHot(column), tally=(0, 1))
        if column.name in told
        else features.OneHot(column)
        for column in labels
    ]
    counted = {}
    parts = curator.sum(features.Stack(*every), share=share, grid="unit").parts
    for column, part in zip(labels, parts, strict=True):
        counted[column.name] = Cells.from_measurement(part, curator.size, (column,))
        if column.name in told:
            *_, gone = part.values.tolist()
            lost = gone, counted[column.name].law.standard_deviation
            counted[column.name] = replace(counted[column.name], raw=part.values[:-1], missing=lost)
    return counted


def quantile_share(statistic: str) -> float | None:
    """Return the share of rows below "median" or a quantile such as "25%"; None for other statistics."""
    if statistic == "median":
        return 0.5
    written = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)%", statistic)
    return None if written is None else float(written[1]) / 100


def category_cells(measured: Cells, column: Column, confidence: float) -> dict[str, Cell]:
    """Return count, missing, top and freq of a categorical column, each with its error and interval."""
    reach, error = measured.law.half_width(confidence), measured.law.standard_deviation
    known, all_rows = column.categories or (), math.inf if measured.size is None else float(measured.size)
    z, spread, rows = float(ndtri((1 + confidence) / 2)), error * math.sqrt(len(known)), float(measured.raw.sum())
    if column.other and measured.size is not None:
        rows, spread = all_rows, 0.0
    cells = {"count": clamp_to_range(rows, spread, rows - z * spread, rows + z * spread, all_rows)}
    gone, gone_error = measured.missing
    if gone is not None and gone_error is not None:
        cells["missing"] = clamp_to_range(gone, gone_error, gone - z * gone_error, gone + z * gone_error, all_rows)
    top = int(np.argmax(measured.raw))
    cells["top"] = (known[top], None, None, None, known[top])
    raw = float(measured.raw[top])
    shown = float(
        project_counts(measured.raw, min(max(rows, 0.0), all_rows))[top]
    )  # no more than all in some category
    cells["freq"] = (shown, error, max(min(raw - reach, shown), 0.0), max(raw, shown) + reach, raw)
    return cells


def statistic_cell(measured: TableMeasurement, name: str, statistic: str, confidence: float) -> Cell:
    """Return a statistic of a column, its standard error and interval, and its unclamped value.

    Numbers of rows are clamped to 0 and all rows. The cell is empty where the column has no such statistic.
    """
    column = measured.columns[name]
    if name in measured.cells:
        return category_cells(measured.cells[name], column, confidence).get(statistic, _EMPTY_CELL)
    if (share := quantile_share(statistic)) is not None:
        tree, z = measured.trees[name].tree, float(ndtri((1 + confidence) / 2))
        every = [tree.quantiles([share])[0], *(end[0] for end in tree.intervals([share], z))]
        value, low, high = np.clip(every, column.low, column.high).tolist()
        return value, (high - low) / (2 * z), low, high, value
    sums = measured.sums[name]
    known = statistic in STATISTICS and (sums.counted or statistic != "missing")
    return sums.cell(statistic, confidence) if known else _EMPTY_CELL


def check_distinct_columns(columns: Sequence[Column] | None, **_: object) -> None:
    """Check that at least one column is named and none is named twice; None stands for all columns."""
    names = None if columns is None else [column.name for column in columns]
    if names is not None and (not names or len(set(names)) < len(names)):
        raise ArgumentError(
            f"columns={names!r} must name at least one column, each once.", "Name every column once."
        )


@mechanism(columns={"columns": "columns"})
def describe(
    curator: Curator,
    columns: tuple[Column, ...] | None = None,
    *,
    focus: Focus | None = None,
    nan_policy: NanPolicy = "omit",
) -> TableMeasurement:
    """Describe columns: count, missing values, mean, std and quartiles, or the most frequent category.

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
    them by 2 at most (by 1 where rows come and go, with one more coordinate for the number of rows). A sixteenth of
    this part of the budget counts the rows beyond the bounds of each column, with the same noise. The
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
    chosen = columns_to_describe(curator, columns)
    numbers = sum(column.bounds is not None for column in chosen)
    return measure_description(curator, chosen, split_budget(numbers, len(chosen) - numbers, focus), nan_policy)


def columns_to_describe(curator: Curator, columns: tuple[Column, ...] | None) -> tuple[Column, ...]:
    """Return the columns to describe: the named columns, or all columns with bounds or categories."""
    if chosen := columns or curator.columns:
        return chosen
    raise ArgumentError(
        "No column has bounds or categories.", "Declare them: protect(..., bounds={...}, categories={...})."
    )


def measure_description(
    curator: Curator,
    chosen: tuple[Column, ...],
    shares: dict[str, Fraction],
    nan_policy: NanPolicy,
    *,
    whole_trees: bool = False,
) -> TableMeasurement:
    """Measure moments and quartiles of numeric columns, and counts of categories.

    Of the trees of counts only the part for the quartiles is released, unless whole trees are requested.
    """
    columns = {column.name: column for column in chosen}
    ranked = [column.name for column in chosen if column.bounds is not None]
    asked = None if whole_trees else [_QUARTILES] * len(ranked)
    return measure_table(curator, columns, dict.fromkeys(ranked, 2), shares, nan_policy, ranked=ranked, asked=asked)


def split_budget(
    numbers: int, labels: int, focus: Focus | None = None, *, together: bool = False
) -> dict[str, Fraction]:
    """Split the budget among moments, quartiles, categories and correlations."""
    counts = {"moments": numbers, "quartiles": numbers, "categories": labels}
    counts["correlations"] = numbers * (together and numbers in _CORRELATED)
    parts = {name: _BUDGET_PARTS[name] * count for name, count in counts.items() if count}
    if focus is not None and focus not in parts:
        raise ArgumentError(
            f"focus={focus!r} does not apply to any described column.", f"Omit focus=, or use one of {[*parts]!r}."
        )
    rest = sum(part for name, part in parts.items() if name != focus)
    if focus is None or not rest:
        return {name: Fraction(part, sum(parts.values())) for name, part in parts.items()}
    return {name: _FOCUS if name == focus else (1 - _FOCUS) * Fraction(part, rest) for name, part in parts.items()}


@describe.concludes
def conclude_describe(measured: TableMeasurement, *, confidence: Probability = 0.95) -> Description:
    """Compute the statistics of each column, with standard errors and confidence intervals."""
    names = ("count", "missing", *(_NUMBERS if measured.sums else ()), *(_LABELS if measured.cells else ()))
    asked = [(column, name) for column in measured.columns for name in names]
    found = zip(*(statistic_cell(measured, *one, confidence) for one in asked), strict=True)
    by_column = (zip(*[iter(each)] * len(names), strict=True) for each in found)
    return Description(
        statistics=names,
        covers="limited table" if measured.sums else "table",
        **measured.result_fields([*measured.columns], by_column, confidence),
    )
