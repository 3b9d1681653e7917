"""Several statistics of several columns in one release, of all rows or of every group: ``view.agg``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import ndtri

from dfprivacy import Column, Curator, Probability, features, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy_eda import reading
from dfprivacy_eda.aggregates import Aggregates
from dfprivacy_eda.counts import Cells
from dfprivacy_eda.grown import Grown, Planned
from dfprivacy_eda.joint import Summed, split
from dfprivacy_eda.labels import of_labels, released
from dfprivacy_eda.possible import Cell, brought, note
from dfprivacy_eda.reading import Aggregation
from dfprivacy_eda.results import covers_of
from dfprivacy_eda.sums import Sums

__all__ = ["Wanted", "agg", "agg_asked"]

_DEGREE = {"mean": 1, "sum": 1, "var": 2, "std": 2}
_NONE_LOST = (0.0, 0.0, 0.0, 0.0)  # where it was said what a missing value counts as
_WIDE = 1 / 2
_ROWS = {"count", "missing"}  # between none and all


@dataclass(frozen=True)
class Measured:
    """What was measured of each column, and how the budget was split."""

    columns: dict[str, Column]
    sums: dict[str, Sums]
    trees: dict[str, Grown]
    cells: dict[str, Cells]
    shares: dict[str, float]
    size: int | None


@dataclass(frozen=True)
class Wanted:
    """What has to be measured for some aggregations, which follows from public facts.

    Attributes
    ----------
    asked : tuple of Asked
        The aggregations.
    columns, numbers : dict of str to Column
        The columns that they are of, and those with bounds.
    labels : list of Column
        The others, whose categories are counted.
    gaps : dict of str to tuple of Column
        Where values may be missing, as `Curator.gaps` says.
    degrees : dict of str to int
        Up to which power the values of each column of numbers are summed.
    ranked, counted_apart : list of str
        The columns with a tree of counts; and those whose gaps no tree counts.
    dimension : int
        Coordinates of the sums.
    shares : dict of str to Fraction
        The parts of the budget.
    """

    aggregations: tuple[Aggregation, ...]
    columns: dict[str, Column]
    numbers: dict[str, Column]
    labels: list[Column]
    gaps: dict[str, tuple[Column, ...]]
    degrees: dict[str, int]
    ranked: list[str]
    counted_apart: list[str]
    dimension: int
    shares: dict[str, Fraction]

    @classmethod
    def of(cls, curator: Curator, aggregations: tuple[Aggregation, ...], nan_policy: NanPolicy) -> Wanted:
        """Find the columns, and say what to measure of each."""
        columns = reading.columns_of(aggregations, curator.columns)
        numbers = {name: column for name, column in columns.items() if column.bounds is not None}
        labels = [column for column in columns.values() if column.bounds is None]
        gaps = {name: curator.gaps([column], nan_policy) for name, column in columns.items()}
        degrees = {
            name: max(_DEGREE.get(each.statistic, 0) for each in aggregations if each.column == name)
            for name in numbers
        }
        ranked = [
            name for name in numbers if any(each.column == name and each.share is not None for each in aggregations)
        ]
        apart = [name for name in numbers if name not in ranked and gaps[name]]
        dimension = sum(degrees.values()) + len(apart) + (curator.size is None and bool(numbers))
        shares = split(dimension, len(ranked), labels, moments=any(degrees.values()))
        return cls(aggregations, columns, numbers, labels, gaps, degrees, ranked, apart, dimension, shares)


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
    wanted = Wanted.of(curator, reading.read(aggregations, named), nan_policy)
    columns, numbers, gaps, shares = wanted.columns, wanted.numbers, wanted.gaps, wanted.shares
    measured = Measured(columns, {}, {}, {}, {name: float(share) for name, share in shares.items()}, curator.size)
    ranked = [numbers[name] for name in wanted.ranked]
    planned = Planned.of(curator, ranked, gaps, shares["quantiles"], None) if ranked else None
    moments = Summed(float(curator.size or 0))
    if wanted.dimension:
        moments = Summed.measured(
            curator, numbers, wanted.degrees, gaps, frozenset(wanted.counted_apart), shares["sums"]
        )
    if planned is not None:
        counts = planned.measured(curator, shares["quantiles"])
        for name, (plan, part) in zip(wanted.ranked, counts, strict=True):
            measured.trees[name] = Grown.of(
                plan, part, missing=bool(gaps[name]), rows=(moments.rows, moments.variance), root=False
            )
    for name, column in numbers.items():
        complete = not (gaps[name] or column.filled or nan_policy == "fill")
        measured.sums[name] = moments.of(column, wanted.degrees[name], measured.trees.get(name), complete=complete)
    if wanted.labels:
        lost = {each.column for each in wanted.aggregations if each.statistic == "missing" and curator.size is None}
        told = {name for name in lost if not columns[name].other}
        measured.cells.update(_counted(curator, wanted.labels, told))
    return measured


def _counted(curator: Curator, labels: list[Column], told: set[str]) -> dict[str, Cells]:
    """Count the rows in each category, and of some columns those in none, in a cell of their own."""
    every: list[features.RowFeatures] = [
        features.Given(column, of=features.OneHot(column), tally=(0, 1))
        if column.name in told
        else features.OneHot(column)
        for column in labels
    ]
    counted = {}
    for column, part in zip(labels, curator.sum(features.Stack(*every), grid="unit").parts, strict=True):
        counted[column.name] = Cells.of(part, curator.size, (column,))
        if column.name in told:
            *_, gone = part.values.tolist()
            lost = gone, counted[column.name].law.standard_deviation
            counted[column.name] = replace(counted[column.name], raw=part.values[:-1], missing=lost)
    return counted


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
    most = math.inf if measured.size is None else float(measured.size)
    noisy = [_cell(each, measured, confidence) for each in wanted]
    cells = [
        brought(cell, most) if each.statistic in _ROWS else cell for each, cell in zip(wanted, noisy, strict=True)
    ]
    moved = [each.name for each, cell, raw in zip(wanted, cells, noisy, strict=True) if cell[0] != raw[0]]
    raw = [
        released(each.statistic, value, measured.cells.get(each.column))
        for each, (value, *_) in zip(wanted, noisy, strict=True)
    ]
    values, errors, lows, highs = zip(*cells, strict=True)
    wide = [each.name for each, cell in zip(wanted, cells, strict=True) if _uninformative(each, measured, cell)]
    many = "too little data for this epsilon, an interval spans half of what is possible"
    few = f"Uninformative: {many}: {', '.join(wide)}."
    return Aggregates(
        names=tuple(each.name for each in wanted),
        columns=tuple(each.column for each in wanted),
        statistics=tuple(each.statistic for each in wanted),
        values=values,
        standard_errors=errors,
        lows=lows,
        highs=highs,
        raw=tuple(raw),
        confidence=confidence,
        shares=measured.shares,
        notes=(*((note(moved, "raw"),) if moved else ()), *((few,) if wide else ())),
        covers="limited table" if any(covers_of(each.statistic) != "table" for each in wanted) else "table",
        bounds=tuple(
            measured.columns[each.column].bounds if each.column in measured.sums else None for each in wanted
        ),
    )


def _cell(aggregation: Aggregation, measured: Measured, confidence: float) -> Cell:
    column = measured.columns[aggregation.column]
    if column.name in measured.cells:
        labels = of_labels(column, measured.cells[column.name], confidence)
        return labels.get(aggregation.statistic, _NONE_LOST)
    if aggregation.share is not None:
        grown, z = measured.trees[column.name].tree, float(ndtri((1 + confidence) / 2))
        low, high = (
            float(np.clip(end[0], column.low, column.high)) for end in grown.intervals([aggregation.share], z)
        )
        value = float(np.clip(grown.quantiles([aggregation.share])[0], column.low, column.high))
        return value, (high - low) / (2 * z), low, high
    own = measured.sums[column.name]
    told = aggregation.statistic != "missing" or own.counted
    return own.cell(aggregation.statistic, confidence) if told else _NONE_LOST


def _uninformative(aggregation: Aggregation, measured: Measured, cell: Cell) -> bool:
    """Tell whether an interval spans half of what is possible for values between the bounds."""
    _, _, low, high = cell
    column = measured.columns[aggregation.column]
    if low is None or high is None or column.name in measured.cells or aggregation.statistic in _ROWS:
        return False
    rows = max(measured.sums[column.name].known("count"), 1.0)
    most = {"sum": 2 * column.half * rows, "var": column.half * column.half, "std": column.half}
    return high - low > _WIDE * most.get(aggregation.statistic, 2 * column.half)
