"""Expected standard errors of the methods, from public numbers, before anything is paid.

A column is taken to have a standard deviation of a sixth of its range, and a private number of rows to be 10,000.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri

from dfprivacy import Column
from dfprivacy.estimates import Estimate
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.laws import NoiseLaw
from dfprivacy_eda.aggregate import read
from dfprivacy_eda.bounds import threshold
from dfprivacy_eda.categories import FoundCounts
from dfprivacy_eda.describe import of_labels, share_of
from dfprivacy_eda.quantiles import Chosen
from dfprivacy_eda.results import ColumnStatistic, Entry, Statistics
from dfprivacy_eda.sums import ROWS, SD, Sums
from dfprivacy_eda.tables import Counts, Crosstab
from dfprivacy_eda.tree import CountTree, prefix_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy import Curator, Release
    from dfprivacy_eda.correlation import Products
    from dfprivacy_eda.counts import Cells
    from dfprivacy_eda.describe import Measured

    Array = NDArray[np.float64]

__all__ = ["PLANS", "READS"]

RELATIVE = "expected relative error"
_DRAWS = 64
_NORMAL = ndtri((np.arange(999) + 0.5) / 999)
_BY_CHANCE = 1 / 3  # of a row, by which a choice is off the more as rows do not lie evenly; measured
_FAR = 40.0  # scales of a choice, beyond which it does not go
_CELLS = 64  # whose sum is told: that of more is as noisy as at a sixteenth of the price, and slow to draw
_TYPICAL = 10  # values of a column of which nobody knows how many it has
_DESCRIBED = {
    "mean": "a mean, in standard deviations of a sixth of the range",
    "std": "a standard deviation, in parts of it",
    "50%": "a median, in standard deviations",
    "freq": "the largest count of a category, in parts of it",
}

Findings = dict[str, Any]


def rows_of(curator: Curator) -> float:
    """Return the number of rows; a private one is taken to be an equal part of the table's, if that is public."""
    return float(max(curator.supposed_size[0], 1))


def laplace(curator: Curator, at: int = -1) -> float:
    """Return the standard deviation of the noise of the last measurement, or another; 0 if nothing was measured."""
    measured = [each for each in curator.measured if each.epsilon or each.reused]
    return measured[at].law.standard_deviation if measured else 0.0


def _given(curator: Curator, what: str, *assumed: str) -> str:
    given = [*assumed, *filter(None, [curator.supposed_size[1]])]
    return f"expected standard error of {what}" + (f", if {' and '.join(given)}" if given else "")


def _expected(sums: Sums, name: str, rows: float) -> tuple[float, float]:
    """Return the standard error of a statistic, and in standard deviations of what it is of."""
    error = sums.expected(rows).error(name)
    sd = SD * sums.column.half
    return error, error / {"sum": rows * sd, "var": sd * sd, "count": rows, "missing": rows}.get(name, sd)


def _of_moments(name: str) -> Any:
    """Make the planner of a method that gives a mean, a variance or a standard deviation."""

    def findings(curator: Curator, column: Column, **_: Any) -> Findings:
        error, relative = _expected(curator.planned, name, rows_of(curator))
        assumed = [] if name in {"mean", "sum"} else [f"the standard deviation is {SD * column.half:.4g}"]
        return {_given(curator, f"the {name}", *assumed): error, RELATIVE: relative}

    return findings


# By statistic the statistics of a column whose sums tell it, alone, when the first step to a variance may tell no
# mean, and among several.
_TOLD_BY = {
    "mean": ({"mean"}, {"mean", "sum", "var", "std"}),
    "sum": ({"mean", "sum"}, {"mean", "sum", "var", "std"}),
    "var": ({"var", "std"}, {"var", "std"}),
    "std": ({"var", "std"}, {"var", "std"}),
    "count": ({"mean"}, {"count", "mean", "sum", "var", "std"}),
    "missing": ({"mean"}, {"missing", "count", "mean", "sum", "var", "std"}),
}


def _known_sums(release: Release, column: Column, name: str) -> Sums | None:
    """Return the noisy sums of a column that a release holds, if they tell a statistic."""
    if isinstance(release, Estimate) and release.column == column.name:
        moments = NoisyMoments.of_release(release.released, release.bounds)
        if len(moments.values) > 1:  # of two groups
            return None
        sums = Sums.of_moments(moments, column)
        told = {"count": moments.form != "known", "missing": sums.counted}
        return sums if told.get(name, True) else None
    several = isinstance(release, Statistics)
    every = release._each if isinstance(release, Statistics) else [release]  # noqa: SLF001 - of our own kind
    for each in every:
        if not isinstance(each, Entry | ColumnStatistic) or each.column != column.name or each.released is None:
            continue
        if each.statistic in _TOLD_BY[name][several]:
            sums = Sums.of_release(each.released, column)
            return None if name in ROWS and not sums.counted else sums
    return None


def _in_cells(release: Counts | Crosstab, columns: Sequence[Column], size: int | None, name: str) -> Sums | None:
    """Return the rows with a value in columns of categories, if the cells are those of all these columns."""
    named, raw = [column.name for column in columns], release.raw.ravel()
    other = {*named} != {*release._of_columns} or any(column.bounds for column in columns)  # noqa: SLF001 - our own
    if (
        other
        or isinstance(release, FoundCounts)
        or release.released is None
        or raw.size > _CELLS
        or (name == "missing" and size is None)
    ):
        return None
    (measurement, places), map_ = release.released, np.zeros((4, raw.size))
    map_[0], map_[3] = 1, 0 if size is None else -1
    laws = (NoiseLaw(release.noise_scale, release.noise_step),) * raw.size
    start, ids = np.array([0.0, 0, 0, size or 0]), tuple((measurement, place) for place in places)
    return Sums(Column(", ".join(named), (-1.0, 1.0)), raw, laws, map_, start, counted=size is not None, ids=ids)


def _known_statistic(name: str) -> Any:
    """Make the reader of answers that tell a statistic of a column."""

    def reader(
        curator: Curator,
        release: Release,
        column: Column | None = None,
        columns: tuple[Column, ...] | None = None,
        **asked: Any,
    ) -> tuple[float, Sums] | None:
        if column is None and len(columns or ()) == 1:
            (column,) = columns or ()
        sums = None if column is None else _known_sums(release, column, name)
        if columns and isinstance(release, Counts | Crosstab) and asked["nan_policy"] == "omit":
            sums = _in_cells(release, columns, curator.size, name)
        if sums is None or asked.get("covers") == "population":
            return None
        rows = max(sums.known("count"), 1.0) if curator.size is None else rows_of(curator)
        error, most = sums.error(name), _expected(curator.planned, name, rows)[0]
        return (error, sums) if error <= most else None

    return reader


def _noise(what: str, of: Callable[..., float] = lambda *_, **__: 1, at: int = -1) -> Any:
    """Make the planner of noisy numbers: relative to all rows over what `of` gives."""

    def findings(curator: Curator, **asked: Any) -> Findings:
        error = laplace(curator, at)
        named = what.format("bin's count" if "bins" in asked else "count")
        return {
            f"expected standard error of {named}": error,
            RELATIVE: error * of(curator, **asked) / rows_of(curator),
        }

    return findings


_of_keys = _noise("each count", lambda curator, **_: _TYPICAL * len(curator.measured))
_of_cells = _noise("each {}", lambda curator, **_: curator.planned.raw.size)


def _of_counts(curator: Curator, **asked: Any) -> Findings:
    """Plan a histogram, the counts of categories, or a crosstab: relative to the average cell."""
    found = asked.get("categories") == "discover" or asked.get("domain") is not None
    return dict((_of_keys if found else _of_cells)(curator, **asked))


def _of_nunique(curator: Curator, column: Column, **_: Any) -> Findings:
    """Plan the number of different values: half of those that there can be."""
    known = len(column.categories or ())
    error = _rms(np.clip(laplace(curator) * _NORMAL, *((-known / 2, known / 2) if known else (None, None))))
    return {
        "expected standard error of the number of different values": error,
        RELATIVE: error / (known or _TYPICAL),
    }


def _of_bounds(curator: Curator, columns: tuple[Column, ...], **_: Any) -> Findings:
    """Plan the search for bounds: relative to one of ten intervals."""
    error = laplace(curator)
    return {
        "rows that an interval needs to be seen, about": threshold(error / math.sqrt(2), len(columns)),
        RELATIVE: error * _TYPICAL / rows_of(curator),
    }


def _of_quantiles(curator: Curator, column: Column, *, q: Any = None, **_: Any) -> Findings:
    """Plan quantiles: in the column's units, and in rows relative to a quarter of all."""
    what, shares = ("the median", [0.5]) if q is None else ("a quantile", [*np.atleast_1d(q)])
    moved = rows = 0.0
    if laplace(curator):
        moved, rows = _off(curator.planned, column, shares, rows_of(curator))
    assumed = f"values are normal with a standard deviation of {SD * column.half:.4g}"
    return {_given(curator, what, assumed): moved, RELATIVE: rows / (rows_of(curator) / 4)}


def _off(measured: Chosen | CountTree, column: Column, shares: Sequence[float], n: float) -> tuple[float, float]:
    """Return the standard error of quantiles of normal values, and the same in rows."""
    of, plan, sd = np.asarray(shares, dtype=np.float64), measured.layout, SD * column.half
    middles = np.clip((plan.edges[1:] + plan.edges[:-1]) / 2, column.low, column.high)
    cuts = (plan.cuts - column.mid) / sd
    cuts[[0, -1]] = -np.inf, np.inf
    true = np.clip(column.mid + sd * ndtri(of), column.low, column.high)
    if plan.whole:
        true = middles[np.maximum(np.searchsorted(cuts, ndtri(of)) - 1, 0)]
    if isinstance(measured, Chosen):
        rows = [scale + _BY_CHANCE for scale in measured.scales]
        squares = [_chosen(cuts, middles - at, n, q, b) for q, at, b in zip(of, true, rows, strict=True)]
        return math.sqrt(np.mean(squares)), math.sqrt(2 * np.mean(np.square(rows)))
    rng, found = np.random.default_rng(1), []
    expected = [n * np.diff(ndtr(cuts[:: plan.sizes[-1] // size])) for size in (1, *plan.sizes)]
    for _ in range(_DRAWS):
        noises = [
            rng.laplace(0, math.sqrt(v / 2), len(e)) for e, v in zip(expected, measured.variances, strict=True)
        ]
        levels = [count + noise for count, noise in zip(expected, noises, strict=True)]
        found.append(np.clip(replace(measured, levels=levels).tree.quantiles(of), column.low, column.high))
    of_all = 0.0, tuple(measured.variances[1:])  # the root's noise moves a share of it as well
    return _rms(np.array(found) - true), prefix_error(plan, *of_all)


def _chosen(cuts: Array, off: Array, n: float, q: float, rows: float) -> float:
    """Return the mean squared error of a choice that is off by k rows with probability ∝ exp(-k / rows)."""
    reach = np.clip([q - _FAR * rows / n, q + _FAR * rows / n], 0, 1)
    first, last = np.searchsorted(cuts, ndtri(reach))
    at = slice(max(first - 1, 0), last)
    below = ndtr(cuts[at.start : last + 1])
    beside = np.maximum(0, np.maximum(below[:-1] - q, q - below[1:]))
    return float(np.average(off[at] ** 2, weights=np.exp(-n * beside / rows)))


def _of_describe(curator: Curator, **_: Any) -> Findings:
    """Plan a description, by the column of which each statistic is known worst."""
    return _described(curator, curator.planned)


def _of_report(curator: Curator, **_: Any) -> Findings:
    """Plan a report: a description, and correlations."""
    measured, products = curator.planned
    findings = _described(curator, measured)
    correlations = {} if products is None else _correlated(curator, products, "correlation")
    relative = [each.get(RELATIVE, 0.0) for each in (findings, correlations)]
    worst = "not known" if "not known" in relative else max(relative)
    return {**findings, **correlations, RELATIVE: worst}


def _described(curator: Curator, measured: Measured) -> Findings:
    findings = {}
    for name, what in _DESCRIBED.items():
        of: Any = {"freq": measured.cells, "50%": measured.trees}.get(name, measured.sums)
        # Trees of one shape and noise have the same relative error, and take a while.
        shape = {
            each: (t.layout.sizes, *t.variances) if isinstance(t := of[each], CountTree) else each for each in of
        }
        alike = {shape[column]: column for column in of}.values()
        errors = [_aggregated(curator, measured, column, name) for column in alike]
        if errors:
            findings[_given(curator, what)] = max(relative for _, relative in errors)
    return {**findings, RELATIVE: max(findings.values(), default=0.0)}


def _correlated(curator: Curator, products: Products, name: str) -> Findings:
    what = "a correlation" if name == "correlation" else "a covariance in standard deviations"
    error = products.expected(rows_of(curator), name)
    told = "not known" if error is None else error
    return {_given(curator, what, "these are a sixth of the range"): told, RELATIVE: told}


def _of_agg(curator: Curator, aggregations: Any, *, named: Mapping[str, Any], **_: Any) -> Findings:
    """Plan aggregations, each by its name; the relative error is that of the one that is worst."""
    each = [
        (one, *_aggregated(curator, curator.planned, one.column, one.statistic))
        for one in read(aggregations, named)
    ]
    errors = {f"expected standard error of {one.name}": error for one, error, _ in each if error}
    given = _given(curator, "", "standard deviations are a sixth of the range").partition(", if ")[2]
    assumed = {"assumed": given} if errors else {}
    return {**errors, **assumed, RELATIVE: max((relative for *_, relative in each), default=0.0)}


def _aggregated(curator: Curator, measured: Measured, name: str, statistic: str) -> tuple[float, float]:
    """Return the standard error of a statistic of a column, and the relative one."""
    n, column = rows_of(curator), measured.columns[name]
    if (share := share_of(statistic)) is not None:
        error, _ = _off(measured.trees[name], column, [share], n)
        return error, error / (SD * column.half)
    if name not in measured.cells:
        error, relative = _expected(measured.sums[name], statistic, n)
    else:
        cells, known = measured.cells[name], len(column.categories or ())
        if statistic in {"top", "freq"}:
            error = _largest(column, cells, n / known)
            return error * (statistic == "freq"), error * known / n
        summed = statistic == "count" or curator.size is not None  # what is in no category is what is left
        error = cells.law.standard_deviation * (math.sqrt(known) if summed else 1)
    if statistic not in ROWS:
        return error, relative
    error = _rms(np.clip(error * _NORMAL, -0.1 * n, 0.9 * n))  # of a tenth that is missing
    return error, error / n


def _largest(column: Column, cells: Cells, rows: float) -> float:
    """Return the standard error of the largest count, of categories with equally many rows."""
    noise = np.random.default_rng(1).laplace(0, cells.law.scale, (_DRAWS, *cells.raw.shape))
    every = [of_labels(replace(cells, raw=rows + each), column, 0.95)["freq"][0] for each in noise]
    return _rms(np.array(every) - rows)


def _rms(off: Array) -> float:
    return float(np.sqrt(np.mean(off**2)))


PLANS: Mapping[str, Any] = {
    **{name: _of_moments(name) for name in ("mean", "var", "std", "sum")},
    **dict.fromkeys(ROWS, _noise("the number of rows")),
    **dict.fromkeys(("quantile", "median"), _of_quantiles),
    **dict.fromkeys(("histogram", "value_counts", "crosstab"), _of_counts),
    "nunique": _of_nunique,
    "corr": lambda curator, **_: _correlated(curator, curator.planned, "correlation"),
    "cov": lambda curator, **_: _correlated(curator, curator.planned, "covariance"),
    "agg": _of_agg,
    "describe": _of_describe,
    "report": _of_report,
    "find_bounds": _of_bounds,
    "find_categories": _of_keys,
    "profile": _noise("each number of rows", lambda *_, **__: _TYPICAL, at=0),
}
"""The planner of each method."""

_TELL = ("describe", "agg", "mean", "var", "std", "sum", "ttest", "ztest")  # whose answers hold sums of columns
READS = {name: (_known_statistic(name), *_TELL) for name in ("mean", "var", "std", "sum")} | {
    name: (_known_statistic(name), *_TELL, "value_counts", "crosstab") for name in ROWS
}
"""Of each method that other answers may tell, what reads them, and which they are."""
