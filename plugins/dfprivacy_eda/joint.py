"""One release for several columns: sums with noise of the cube, trees of counts, and how they share the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from dfprivacy import Column, Curator, features
from dfprivacy.estimates import measure_beyond
from dfprivacy.laws import NoiseLaw
from dfprivacy_eda.counts import Cells
from dfprivacy_eda.sums import ROWS, SD, STATISTICS, Sums, project, within
from dfprivacy_eda.tree import AdaptiveReveal, CountTree, layout, rows_epsilon

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from dfprivacy import Column
    from dfprivacy.arguments import NanPolicy
    from dfprivacy.release import NoisyValue
    from dfprivacy_eda.reading import Aggregation
    from dfprivacy_eda.sums import Cell, Noisy

__all__ = ["Measured", "Summed", "cell", "measure", "split"]


def of_labels(column: Column, measured: Cells, confidence: float) -> dict[str, Noisy]:
    """Return the number of rows in a category and in none, the most frequent category and its rows."""
    reach, error = measured.law.reach(confidence), measured.law.standard_deviation
    known = column.categories or ()
    z, all_error = float(ndtri((1 + confidence) / 2)), error * math.sqrt(len(known))
    rows = float(measured.raw.sum()) if not column.other or measured.size is None else float(measured.size)
    spread = 0.0 if column.other and measured.size is not None else all_error
    cells: dict[str, Noisy] = {"count": (rows, spread, rows - z * spread, rows + z * spread)}
    gone, gone_error = measured.missing
    if gone is not None and gone_error is not None:
        cells["missing"] = (gone, gone_error, gone - z * gone_error, gone + z * gone_error)
    top = int(np.argmax(measured.raw))
    cells["top"] = (known[top], None, None, None)
    raw = float(measured.raw[top])
    most = math.inf if measured.size is None else float(measured.size)
    shown = float(project(measured.raw, min(max(rows, 0.0), most))[top])  # no more than all in some category
    cells["freq"] = (shown, error, max(min(raw - reach, shown), 0.0), max(raw, shown) + reach)
    return cells


_RANKS = (
    26.152  # standard error of the rows below an edge of a tree of 16³ intervals at an epsilon of 1, on average
)
_SLOPE = 2.507  # standard deviations from a normal median for each unit of the share of rows
_PARTS = 10**6
_NONE = NoiseLaw(0.0)
_BEYOND = Fraction(1, 16)  # of the part of sums, for the rows beyond bounds


def split(summed: int, ranked: int, labels: Sequence[Column], *, moments: bool) -> dict[str, Fraction]:
    """Split the budget so that the expected errors are equal, from public numbers.

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
        "quantiles": _SLOPE * _RANKS * ranked,
        "categories": 2 * math.sqrt(2) * most * len(labels),
    }
    total = sum(errors.values()) or 1.0
    parts = {name: Fraction(round(_PARTS * error / total), _PARTS) for name, error in errors.items() if error}
    if parts:  # the last has what rounding leaves
        *_, last = parts
        parts[last] = 1 - sum((part for name, part in parts.items() if name != last), Fraction(0))
    return parts


@dataclass(frozen=True)
class Summed:
    """Sums of several columns in one vector, with noise of the cube.

    Attributes
    ----------
    rows : float
        The number of all rows.
    law : NoiseLaw
        Of the noise in each sum.
    parts : mapping of str to NoisyValue
        What was summed of each column.
    counted : str
        The id of the number of all rows; None where that is public.
    told : frozenset of str
        The columns of which rows without a value were counted in the same vector.
    weight : float
        How much each of these rows counted.
    beyond : mapping of str to NoisyValue
        The rows beyond the bounds of each column whose values were summed.
    """

    rows: float
    law: NoiseLaw = _NONE
    parts: Mapping[str, NoisyValue] = field(default_factory=dict)
    counted: str | None = None
    told: frozenset[str] = frozenset()
    weight: float = 1.0
    beyond: Mapping[str, NoisyValue] = field(default_factory=dict)

    @classmethod
    def measured(
        cls,
        curator: Curator,
        columns: Mapping[str, Column],
        degrees: Mapping[str, int],
        gaps: Mapping[str, tuple[Column, ...]],
        told: frozenset[str],
        share: Fraction,
    ) -> Summed:
        """Measure y of a degree of 1, and 2y²-1 as well of 2, with the number of rows where that is private.

        Where rows change, one without a value counts twice: it is then as far from others as these from each other.
        Rows beyond bounds have a part of their own: in the same vector each would widen the noise as a sum does.
        """
        n, beyond = curator.size, {}
        weight = 2.0 if n is not None else 1.0
        if limited := {name: column for name, column in columns.items() if degrees[name]}:
            counted = measure_beyond(curator, tuple(limited.values()), share=share * _BEYOND)
            beyond = dict(zip(limited, counted, strict=True))
            share *= 1 - _BEYOND
        every: dict[str, features.RowFeatures] = {}
        for name, column in columns.items():
            if degrees[name]:
                of = features.Moments(column, degree=degrees[name], centred=degrees[name] > 1)
                tally = (0.0, weight) if name in told else None
                every[name] = features.Given(*gaps[name], of=of, tally=tally) if gaps[name] else of
            elif name in told:
                every[name] = features.Given(*gaps[name])
        all_rows = [features.Count()] if n is None else []
        noisy = curator.sum(features.Stack(*every.values(), *all_rows), noise="cube", share=share)
        parts = dict(zip(every, noisy.parts, strict=False))
        counted_by = None if n is not None else noisy.parts[-1].id
        rows = float(noisy.values[-1]) if n is None else float(n)
        return cls(rows, noisy.law, parts, counted_by, told, weight, beyond)

    @property
    def variance(self) -> float:
        """Variance of the noise in the number of all rows, 0 where it is public."""
        return 0.0 if self.counted is None else self.law.variance

    def of(self, column: Column, degree: int, tree: CountTree | None, *, complete: bool) -> Sums:
        """Put together what was measured of one column: rows, the sums of y and 2y²-1, and rows without a value.

        The sum of y² is half of that of 2y²-1 and of the rows with a value.
        """
        told, law = column.name in self.told, replace(self.law, step=0.0)
        values = self.parts[column.name].values.tolist() if column.name in self.parts else []
        at = [0, *(range(1, 1 + degree)), *([3] if told else [])]
        sums, none = np.zeros(4), replace(law, scale=0.0)
        laws = [law if self.variance else none, none, none, none]
        ids = [(self.counted or "", 0), *[("", 0)] * 3]
        sums[at] = [self.rows, *values]
        for place, each in enumerate(at[1:]):
            laws[each], ids[each] = law, (self.parts[column.name].id, place)
        map_ = np.array([[1, 0, 0, -1], [0, 1, 0, 0], [1 / 2, 0, 1 / 2, -1 / 2], [0, 0, 0, 1]])
        if told and degree:
            map_[:, 3] /= self.weight
        elif told:  # those with a value were counted
            map_[[0, 3]] = [0, 0, 0, 1], [1, 0, 0, -1]
        elif tree is not None and tree.missing[0] is not None:
            gone, error = tree.missing
            sums[3], laws[3], ids[3] = gone, NoiseLaw((error or 0.0) / math.sqrt(2)), (f"{tree.missing}", 0)
            told = True
        found = Sums(column, sums, tuple(laws), map_, np.zeros(4), complete or told, tuple(ids))
        return found.limited(self.beyond[column.name]) if column.name in self.beyond else found


@dataclass(frozen=True)
class Measured:
    """Measurements of each column, and how the budget was split."""

    columns: dict[str, Column]
    sums: dict[str, Sums]
    trees: dict[str, CountTree]
    cells: dict[str, Cells]
    shares: dict[str, float]
    size: int | None

    def about(self, columns: Sequence[str]) -> dict[str, Any]:
        """Return the names, bounds and noisy sums of some columns, and how the budget was split, for a release."""
        sums = [self.sums.get(name) for name in columns]
        return {
            "columns": tuple(columns),
            "bounds": tuple(None if each is None else each.column.bounds for each in sums),
            "released": tuple(None if each is None else each.released for each in sums),
            "clipped": tuple(each.clipped.shares[0] if each and each.clipped else None for each in sums),
            "shares": self.shares,
        }


def measure(
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
) -> Measured:
    """Measure sums of numbers, trees of their counts, and counts of categories, each with its share of the budget.

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
        layout(numbers[name], None, rows_epsilon(curator, (of_trees or Fraction(0)) / len(ranked)))
        for name in ranked
    ]
    each = zip(ranked, plans, lost, strict=True)  # laid out before anything is paid: some bounds have no room
    nodes = [plan.features(numbers[name], missing=gone, root=False) for name, plan, gone in each]
    shown = None if asked is None else AdaptiveReveal(tuple(plan.sizes for plan in plans), lost, tuple(asked))
    moments, trees = Summed(float(curator.size or 0)), dict[str, CountTree]()
    if of_sums is not None:
        moments = Summed.measured(curator, numbers, degrees, gaps, frozenset(counted), of_sums)
    if of_trees is not None:
        rows = moments.rows, moments.variance
        parts = curator.sum(features.Stack(*nodes), share=of_trees, reveal=shown).parts
        for name, plan, part, gone in zip(ranked, plans, parts, lost, strict=True):
            trees[name] = CountTree.of(plan, part, missing=gone, rows=rows, root=False, none_missing=complete[name])
    return Measured(
        columns=dict(columns),
        sums={
            name: moments.of(column, degrees[name], trees.get(name), complete=complete[name])
            for name, column in numbers.items()
        },
        trees=trees,
        cells={} if of_counts is None else _counted(curator, labels, told, of_counts),
        shares={name: float(share) for name, share in shares.items()},
        size=curator.size,
    )


def _counted(curator: Curator, labels: list[Column], told: Collection[str], share: Fraction) -> dict[str, Cells]:
    """Count the rows in each category, and of some columns those in none, in a cell of their own."""
    every: list[features.RowFeatures] = [
        features.Given(column, of=features.OneHot(column), tally=(0, 1))
        if column.name in told
        else features.OneHot(column)
        for column in labels
    ]
    counted = {}
    parts = curator.sum(features.Stack(*every), share=share, grid="unit").parts
    for column, part in zip(labels, parts, strict=True):
        counted[column.name] = Cells.of(part, curator.size, (column,))
        if column.name in told:
            *_, gone = part.values.tolist()
            lost = gone, counted[column.name].law.standard_deviation
            counted[column.name] = replace(counted[column.name], raw=part.values[:-1], missing=lost)
    return counted


def cell(measured: Measured, one: Aggregation, confidence: float) -> Cell:
    """Return a statistic of a column, its standard error and interval, and what was released.

    A number of rows is brought between none and all. It is None where the column has none of that name.
    """
    value, error, low, high = _noisy(measured, one, confidence)
    most_frequent = one.statistic == "freq" and value is not None
    raw = float(measured.cells[one.column].raw.max()) if most_frequent else value
    if one.statistic in ROWS and low is not None and high is not None:
        value, low, high = within(value, low, high, math.inf if measured.size is None else float(measured.size))
    return value, error, low, high, raw


def _noisy(measured: Measured, one: Aggregation, confidence: float) -> Noisy:
    column, nothing = measured.columns[one.column], (None, None, None, None)
    if column.name in measured.cells:
        return of_labels(column, measured.cells[column.name], confidence).get(one.statistic, nothing)
    if one.share is not None:
        tree, z = measured.trees[column.name].tree, float(ndtri((1 + confidence) / 2))
        every = [tree.quantiles([one.share])[0], *(end[0] for end in tree.intervals([one.share], z))]
        value, low, high = np.clip(every, column.low, column.high).tolist()
        return value, (high - low) / (2 * z), low, high
    own = measured.sums[column.name]
    known = one.statistic in STATISTICS and (own.counted or one.statistic != "missing")
    return own.cell(one.statistic, confidence) if known else nothing
