"""Several statistics of several columns in one release, of all rows or of every group: ``view.agg``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dfprivacy import ArgumentError, Curator, Probability, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.markup import Grid
from dfprivacy.plotting import panels, wrapped
from dfprivacy.wording import between, limited
from dfprivacy_eda import reading
from dfprivacy_eda.joint import Measured, cell, measure, split
from dfprivacy_eda.plots import LONG
from dfprivacy_eda.reading import Aggregation
from dfprivacy_eda.results import Entry, Statistics
from dfprivacy_eda.sums import ROWS, Cell
from dfprivacy_eda.wording import at_bound, covers_of, note, said, word

__all__ = ["Aggregates", "agg", "agg_asked"]

_WHOSE = "Intervals are for this table: privacy noise only, no sampling error"
_TOLD = 3  # numbers in a sentence


@dataclass(frozen=True, kw_only=True, repr=False)
class Aggregates(Statistics):
    """Statistics of columns, by name; ``found["age_mean"]`` is a number.

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
    def _each(self) -> list[Entry]:
        each = zip(self.names, self._of_columns, self.statistics, strict=True)
        return [Entry(name, column, statistic, *known) for name, (column, *known), statistic in each]

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise ArgumentError(f"{name!r} was not asked for.", f"There are {[*self.names]!r}.")
        return self.values[self.names.index(name)]

    def plot(self, ax: Any = None) -> Any:
        """Draw each number with its interval, on a scale of its own."""
        if all(low is None for low in self.lows):
            raise ArgumentError("No number was asked for.", "Draw value_counts(...) of a column.")
        told = [each for each in self._each if each.low is not None]
        return panels(ax, [self._panel([wrapped(self._name(each), LONG)], [each], "") for each in told])

    def _name(self, each: Entry) -> str:
        """Name a number as it was asked, in the words of its column where the name is made of that."""
        own = each.name == f"{each.column}_{each.statistic}" and each.column in self.column_words
        return f"{word(each.statistic)} of {self._called(each.column)}" if own else each.name

    def _sentence(self) -> str:
        """Write the first numbers, in the words of their columns."""
        told = []
        for each in self._each[:_TOLD]:
            own = each.name == f"{each.column}_{each.statistic}"
            told.append(self._says(each, f"the {said(self, each.statistic, each.column) if own else each.name}"))
        more = [f"{len(self.names) - _TOLD} more are below"] if len(self.names) > _TOLD else []
        about = self._noun(*dict.fromkeys(filter(None, self.columns)))
        limits = f"; values are{limited(self.covers)}" if limited(self.covers) else ""
        return f"Of {about}: {'; '.join([*told, *more])}. {_WHOSE}{limits}."

    def _grid(self) -> Grid:
        rows = [
            (
                each.name,
                at_bound(each.value, each.error, each.ends),
                "" if each.low is None or each.high is None else between(each.low, each.high, bounds=each.ends),
            )
            for each in self._each
        ]
        return Grid(("", "value", f"{100 * self.confidence:.4g}% CI"), rows)

    def _notes(self) -> tuple[str, ...]:
        return (*self._limits(), *self.notes)


_DEGREE = {"mean": 1, "sum": 1, "var": 2, "std": 2}
_NONE_LOST = (0.0, 0.0, 0.0, 0.0, 0.0)  # where it was said what a missing value counts as
_WIDE = 1 / 2


def agg_asked(aggregations: Any, named: Mapping[str, Any], **_: Any) -> None:
    """Check what is asked for before anything is paid."""
    reading.read(aggregations, named)


@mechanism()
def agg(
    curator: Curator,
    aggregations: Mapping[str, Any] | None = None,
    *,
    nan_policy: NanPolicy = "omit",
    **named: Any,
) -> Measured:
    """Aggregate several columns in several ways, in one release.

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
    vector; quantiles come from a tree of counts for each column, and categories from counts, with discrete Laplace
    noise.

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
    wanted = reading.read(aggregations, named)
    columns = reading.columns_of(wanted, curator.columns)
    about = {name: [each for each in wanted if each.column == name] for name in columns}
    degrees = {
        name: max(_DEGREE.get(each.statistic, 0) for each in about[name])
        for name, column in columns.items()
        if column.bounds is not None
    }
    ranked = [name for name in degrees if any(each.share is not None for each in about[name])]
    gaps = {name: curator.gaps([column], nan_policy) for name, column in columns.items()}
    counted = [name for name in degrees if name not in ranked and gaps[name]]
    labels = [column for name, column in columns.items() if name not in degrees]
    dimension = sum(degrees.values()) + len(counted) + (curator.size is None and bool(degrees))
    shares = split(dimension, len(ranked), labels, moments=any(degrees.values()))
    lost = {each.column for each in wanted if each.statistic == "missing" and curator.size is None}
    told = {column.name for column in labels if column.name in lost and not column.other}
    return measure(curator, columns, degrees, shares, nan_policy, ranked=ranked, counted=counted, told=told)


@agg.concludes
def _(
    measured: Measured,
    aggregations: Mapping[str, Any] | None,
    *,
    named: Mapping[str, Any],
    confidence: Probability = 0.95,
) -> Aggregates:
    """Compute each with its standard error and interval."""
    wanted = reading.read(aggregations, named)
    cells = [_cell(each, measured, confidence) for each in wanted]
    moved = [
        each.name for each, one in zip(wanted, cells, strict=True) if each.statistic in ROWS and one[0] != one[-1]
    ]
    values, errors, lows, highs, raw = zip(*cells, strict=True)
    wide = [each.name for each, one in zip(wanted, cells, strict=True) if _uninformative(each, measured, one)]
    many = "too little data for this epsilon, an interval spans half of what is possible"
    few = f"Uninformative: {many}: {', '.join(wide)}."
    return Aggregates(
        names=tuple(each.name for each in wanted),
        statistics=tuple(each.statistic for each in wanted),
        values=values,
        standard_errors=errors,
        lows=lows,
        highs=highs,
        raw=raw,
        confidence=confidence,
        notes=(*((note(moved, "raw"),) if moved else ()), *((few,) if wide else ())),
        covers="limited table" if any(covers_of(each.statistic) != "table" for each in wanted) else "table",
        **measured.about([each.column for each in wanted]),
    )


def _cell(one: Aggregation, measured: Measured, confidence: float) -> Cell:
    found = cell(measured, one, confidence)
    return _NONE_LOST if one.statistic == "missing" and found[0] is None else found


def _uninformative(aggregation: Aggregation, measured: Measured, found: Cell) -> bool:
    """Return whether an interval spans half of what is possible for values between the bounds."""
    _, _, low, high, _ = found
    column = measured.columns[aggregation.column]
    if low is None or high is None or column.name in measured.cells or aggregation.statistic in ROWS:
        return False
    rows = max(measured.sums[column.name].known("count"), 1.0)
    most = {"sum": 2 * column.half * rows, "var": column.half * column.half, "std": column.half}
    return high - low > _WIDE * most.get(aggregation.statistic, 2 * column.half)
