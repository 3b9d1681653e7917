"""Expected standard errors of the methods' results, computed from public numbers before any budget is spent.

A column is taken to have a standard deviation of a sixth of its range, and a private number of rows to be 10,000.
"""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri

from dfprivacy import Column
from dfprivacy.estimates import Estimate
from dfprivacy.inference.engine import infer
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.laws import NoiseLaw
from dfprivacy_eda.aggregate import parse_aggregations
from dfprivacy_eda.bounds import threshold
from dfprivacy_eda.categories import FoundCounts
from dfprivacy_eda.counts import Cells
from dfprivacy_eda.describe import category_cells, quantile_share
from dfprivacy_eda.quantiles import SelectedIntervals
from dfprivacy_eda.results import ColumnStatistic, Entry, Statistics, weighted_parameter
from dfprivacy_eda.sums import ROWS, SD, Sums
from dfprivacy_eda.tables import Counts, Crosstab
from dfprivacy_eda.tree import CountTree, prefix_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy import Curator, Release
    from dfprivacy_eda.correlation import Products
    from dfprivacy_eda.describe import TableMeasurement

    Array = NDArray[np.float64]

__all__ = ["PLANS", "READS"]

RELATIVE = "expected relative error"
_DRAWS = 64
_NORMAL_POINTS = ndtri((np.arange(999) + 0.5) / 999)
_CHOICE_OFFSET = 1 / 3  # of a row, by which a choice is off the more as rows do not lie evenly; measured
_MAX_SCALES = 40.0  # scales of a choice, beyond which it does not go
_MAX_CELLS = 64  # whose sum is told: that of more is as noisy as at a sixteenth of the price, and slow to draw
_NAMES = {"var": "variance", "std": "standard deviation"}  # of statistics, by method
_TYPICAL_COUNT = 10  # values of a column of which nobody knows how many it has
_DESCRIBED = {
    "mean": "a mean, relative to a standard deviation of a sixth of the range",
    "std": "a standard deviation of a sixth of the range, relative to it",
    "50%": "a median, relative to a standard deviation of a sixth of the range",
    "freq": "the largest count of a category, relative to it",
}

Findings = dict[str, Any]


def assumed_rows(curator: Curator) -> float:
    """Return the number of rows that a plan assumes: of all rows, or of each group if there are groups."""
    return float(max(curator.supposed_size[0], 1))


def noise_sd(curator: Curator, at: int = -1) -> float:
    """Return the standard deviation of the noise of a measurement, by default the last; 0 without noise."""
    measured = [each for each in curator.measured if each.epsilon or each.reused]
    return measured[at].law.standard_deviation if measured else 0.0


def _standard_error_label(curator: Curator, what: str, *assumed: str) -> str:
    given = [*assumed, *filter(None, [curator.supposed_size[1]])]
    return f"expected standard error of {what}" + (f", if {' and '.join(given)}" if given else "")


def _expected_error(sums: Sums, name: str, rows: float) -> tuple[float, float]:
    """Return the expected standard error of a statistic, in absolute and in relative terms."""
    error = sums.typical_sums(rows).error(name)
    sd = SD * sums.column.half
    return error, error / {"sum": rows * sd, "var": sd * sd, "count": rows, "missing": rows}.get(name, sd)


def _moment_planner(name: str) -> Any:
    """Return a function that computes the expected errors of a mean, sum, variance or standard deviation."""

    def plan_moment(curator: Curator, column: Column, *, weights: Column | None = None, **_: Any) -> Findings:
        if weights is not None:
            return _weighted_errors(curator, name, column, weights)
        error, relative = _expected_error(curator.planned, name, assumed_rows(curator))
        assumed = (
            []
            if name in {"mean", "sum"}
            else [f"the standard deviation is {SD * column.half:.4g} (a sixth of the range)"]
        )
        return {
            _standard_error_label(curator, f"the {_NAMES.get(name, name)}", *assumed): error,
            RELATIVE: relative,
        }

    return plan_moment


def _weighted_errors(curator: Curator, name: str, column: Column, weights: Column) -> Findings:
    """Return the expected errors of a weighted mean or sum, if weights are in the middle of their bounds."""
    n = assumed_rows(curator)
    sums = curator.planned.expected_release([n], weights.mid / weights.high, SD)
    found = infer(sums, weighted_parameter(sums, name, (column.low, column.high)))
    error = float(found.noise_standard_error)
    size = SD * column.half * (weights.mid * n if name == "sum" else 1)
    return {
        _standard_error_label(curator, f"the {name}", f"weights are near {weights.mid:.4g}"): error,
        RELATIVE: error / size,
    }


# By statistic the statistics of a column whose sums tell it, alone, when the first step to a variance may tell no
# mean, and among several.
_SOURCES = {
    "mean": ({"mean"}, {"mean", "sum", "var", "std"}),
    "sum": ({"mean", "sum"}, {"mean", "sum", "var", "std"}),
    "var": ({"var", "std"}, {"var", "std"}),
    "std": ({"var", "std"}, {"var", "std"}),
    "count": ({"mean"}, {"count", "mean", "sum", "var", "std"}),
    "missing": ({"mean"}, {"missing", "count", "mean", "sum", "var", "std"}),
}


def _released_sums(release: Release, column: Column, name: str) -> Sums | None:
    """Return the noisy sums of a column from an earlier release; None if it lacks those for the statistic."""
    if isinstance(release, Estimate) and release.column == column.name:
        moments = NoisyMoments.from_release(release.released, release.bounds)
        if len(moments.values) > 1:  # of two groups
            return None
        sums = Sums.from_moments(moments, column)
        told = {"count": moments.form != "known", "missing": sums.counted}
        return sums if told.get(name, True) else None
    several = isinstance(release, Statistics)
    every = release._entries if isinstance(release, Statistics) else [release]  # noqa: SLF001 - of our own kind
    for each in every:
        if not isinstance(each, Entry | ColumnStatistic) or each.column != column.name or each.released is None:
            continue
        if each.statistic in _SOURCES[name][several]:
            sums = Sums.from_released(each.released, column)
            return None if name in ROWS and not sums.counted else sums
    return None


def _cell_sums(release: Counts | Crosstab, columns: Sequence[Column], size: int | None, name: str) -> Sums | None:
    """Return the number of complete rows as the sum of released counts; None if these are of other columns."""
    named, raw = [column.name for column in columns], release.raw.ravel()
    other = {*named} != {*release._counted_columns} or any(column.bounds for column in columns)  # noqa: SLF001 - our own
    if (
        other
        or isinstance(release, FoundCounts)
        or release.released is None
        or raw.size > _MAX_CELLS
        or (name == "missing" and size is None)
    ):
        return None
    (measurement, places), map_ = release.released, np.zeros((4, raw.size))
    map_[0], map_[3] = 1, 0 if size is None else -1
    laws = (NoiseLaw(release.noise_scale, release.noise_step),) * raw.size
    start, ids = np.array([0.0, 0, 0, size or 0]), tuple((measurement, place) for place in places)
    return Sums(Column(", ".join(named), (-1.0, 1.0)), raw, laws, map_, start, counted=size is not None, ids=ids)


def _answer_reader(name: str) -> Any:
    """Return a function that computes a statistic from an earlier release, if that is as accurate as a new one."""

    def read_release(
        curator: Curator,
        release: Release,
        column: Column | None = None,
        columns: tuple[Column, ...] | None = None,
        **asked: Any,
    ) -> tuple[float, Sums] | None:
        if asked.get("weights") is not None or getattr(release, "weights", None) is not None:
            return None
        if column is None and len(columns or ()) == 1:
            (column,) = columns or ()
        sums = None if column is None else _released_sums(release, column, name)
        if columns and isinstance(release, Counts | Crosstab) and asked["nan_policy"] == "omit":
            sums = _cell_sums(release, columns, curator.size, name)
        names = (name, "var") if asked.get("covers") == "population" else (name,)
        if sums is None or ("var" in names and not sums.map[2].any()):
            return None
        rows = max(sums.noisy_value("count"), 1.0) if curator.size is None else assumed_rows(curator)
        errors = [sums.error(each) for each in names]
        planned = [_expected_error(curator.planned, each, rows)[0] for each in names]
        return (errors[0], sums) if all(map(operator.le, errors, planned)) else None

    return read_release


def _cell_reader(
    curator: Curator,
    release: Release,
    column: Column | None = None,
    a: Column | None = None,
    b: Column | None = None,
    **asked: Any,
) -> tuple[float, Cells] | None:
    """Return counts of categories from a synthetic table, if they are as accurate as a new measurement."""
    columns = tuple(each for each in (column, a, b) if each is not None)
    plain = asked.get("categories", "declared") == "declared" and asked.get("domain") is None
    if not plain or asked.get("weights") is not None or not isinstance(curator.planned, Cells):
        return None
    found = release.category_counts({each.name: each.categories or () for each in columns})  # type: ignore[attr-defined]
    if found is None or found[1] > curator.planned.law.standard_deviation:
        return None
    counts, error = found
    law = NoiseLaw(error, kind="Gaussian")
    return error, Cells.of_counts(counts, law, curator.size, columns)


def _make_count_planner(what: str, n_cells: Callable[..., float] = lambda *_, **__: 1, at: int = -1) -> Any:
    """Return a function that computes expected errors of counts; `n_cells` gives the number of cells."""

    def expected_count_errors(curator: Curator, **asked: Any) -> Findings:
        weights = asked.get("weights")  # of which a row has about the middle of the bounds
        unit, each = (1.0, 1.0) if weights is None else (weights.high, weights.mid)
        error = unit * noise_sd(curator, at)
        named = what.format("bin's count" if "bins" in asked else "count")
        return {
            f"expected standard error of {named}": error,
            RELATIVE: error * n_cells(curator, **asked) / (each * assumed_rows(curator)),
        }

    return expected_count_errors


_plan_keys = _make_count_planner("each count", lambda curator, **_: _TYPICAL_COUNT * len(curator.measured))
_plan_cells = _make_count_planner("each {}", lambda curator, **_: curator.planned.raw.size)


def _plan_counts(curator: Curator, **asked: Any) -> Findings:
    """Return the expected errors of a histogram, of counts of categories or of a crosstab."""
    found = asked.get("categories") == "discover" or asked.get("domain") is not None
    return dict((_plan_keys if found else _plan_cells)(curator, **asked))


def _plan_nunique(curator: Curator, column: Column, **_: Any) -> Findings:
    """Return the expected error of the number of distinct values, if half of the possible values occur."""
    known = len(column.categories or ())
    error = _root_mean_square(
        np.clip(noise_sd(curator) * _NORMAL_POINTS, *((-known / 2, known / 2) if known else (None, None)))
    )
    return {
        "expected standard error of the number of distinct values": error,
        RELATIVE: error / (known or _TYPICAL_COUNT),
    }


def _plan_bounds(curator: Curator, columns: tuple[Column, ...], **_: Any) -> Findings:
    """Return the rows needed to detect an interval, and the relative error of a count of a tenth of the rows."""
    error = noise_sd(curator)
    return {
        "approximate number of rows for an interval to be detected": threshold(error / math.sqrt(2), len(columns)),
        RELATIVE: error * _TYPICAL_COUNT / assumed_rows(curator),
    }


def _plan_quantiles(curator: Curator, column: Column, *, q: Any = None, **_: Any) -> Findings:
    """Return the expected errors of quantiles, in units of the column and relative to a quarter of the rows."""
    what, shares = ("the median", [0.5]) if q is None else ("a quantile", [*np.atleast_1d(q)])
    moved = rows = 0.0
    if noise_sd(curator):
        moved, rows = _quantile_errors(curator.planned, column, shares, assumed_rows(curator))
    assumed = f"values are normal with a standard deviation of {SD * column.half:.4g} (a sixth of the range)"
    return {_standard_error_label(curator, what, assumed): moved, RELATIVE: rows / (assumed_rows(curator) / 4)}


def _quantile_errors(
    measured: SelectedIntervals | CountTree, column: Column, shares: Sequence[float], n: float
) -> tuple[float, float]:
    """Return the expected standard error of quantiles of a normal column, in units of the column and in rows."""
    of, plan, sd = np.asarray(shares, dtype=np.float64), measured.layout, SD * column.half
    middles = np.clip((plan.edges[1:] + plan.edges[:-1]) / 2, column.low, column.high)
    cuts = (plan.half_open_edges - column.mid) / sd
    cuts[[0, -1]] = -np.inf, np.inf
    true = np.clip(column.mid + sd * ndtri(of), column.low, column.high)
    if plan.whole:
        true = middles[np.maximum(np.searchsorted(cuts, ndtri(of)) - 1, 0)]
    if isinstance(measured, SelectedIntervals):
        rows = [scale + _CHOICE_OFFSET for scale in measured.scales]
        squares = [_choice_variance(cuts, middles - at, n, q, b) for q, at, b in zip(of, true, rows, strict=True)]
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
    return _root_mean_square(np.array(found) - true), prefix_error(plan, *of_all)


def _choice_variance(cuts: Array, off: Array, n: float, q: float, rows: float) -> float:
    """Return the mean squared error of a selected quantile that is k rows off with probability ∝ exp(-k / rows)."""
    reach = np.clip([q - _MAX_SCALES * rows / n, q + _MAX_SCALES * rows / n], 0, 1)
    first, last = np.searchsorted(cuts, ndtri(reach))
    at = slice(max(first - 1, 0), last)
    below = ndtr(cuts[at.start : last + 1])
    beside = np.maximum(0, np.maximum(below[:-1] - q, q - below[1:]))
    return float(np.average(off[at] ** 2, weights=np.exp(-n * beside / rows)))


def _plan_describe(curator: Curator, **_: Any) -> Findings:
    """Return the expected errors of describe(): of each statistic, the largest error of any column."""
    return _description_errors(curator, curator.planned)


def _plan_report(curator: Curator, **_: Any) -> Findings:
    """Return the expected errors of report(): of its description and of its correlations."""
    measured, products = curator.planned
    findings = _description_errors(curator, measured)
    correlations = {} if products is None else _correlation_error(curator, products, "correlation")
    relative = [each.get(RELATIVE, 0.0) for each in (findings, correlations)]
    worst = "not known" if "not known" in relative else max(relative)
    return {**findings, **correlations, RELATIVE: worst}


def _description_errors(curator: Curator, measured: TableMeasurement) -> Findings:
    findings = {}
    for name, what in _DESCRIBED.items():
        of: Any = {"freq": measured.cells, "50%": measured.trees}.get(name, measured.sums)
        # Trees of one shape and noise have the same relative error, and take a while.
        shape = {
            each: (t.layout.sizes, *t.variances) if isinstance(t := of[each], CountTree) else each for each in of
        }
        alike = {shape[column]: column for column in of}.values()
        errors = [_statistic_error(curator, measured, column, name) for column in alike]
        if errors:
            findings[_standard_error_label(curator, what)] = max(relative for _, relative in errors)
    return {**findings, RELATIVE: max(findings.values(), default=0.0)}


def _correlation_error(curator: Curator, products: Products, name: str) -> Findings:
    what = "a correlation" if name == "correlation" else "a covariance, relative to the standard deviations"
    error = products.expected_error(assumed_rows(curator), name)
    told = "not known" if error is None else error
    return {
        _standard_error_label(curator, what, "standard deviations are a sixth of the range"): told,
        RELATIVE: told,
    }


def _plan_agg(curator: Curator, aggregations: Any, *, named: Mapping[str, Any], **_: Any) -> Findings:
    """Return the expected errors of agg(): the standard error of each statistic, and the largest relative one."""
    each = [
        (one, *_statistic_error(curator, curator.planned, one.column, one.statistic))
        for one in parse_aggregations(aggregations, named)
    ]
    errors = {f"expected standard error of {one.name}": error for one, error, _ in each if error}
    given = _standard_error_label(curator, "", "standard deviations are a sixth of the range").partition(", if ")[2]
    assumed = {"assumed": given} if errors else {}
    return {**errors, **assumed, RELATIVE: max((relative for *_, relative in each), default=0.0)}


def _statistic_error(
    curator: Curator, measured: TableMeasurement, name: str, statistic: str
) -> tuple[float, float]:
    """Return the expected standard error of a statistic of a column, in absolute and in relative terms."""
    n, column = assumed_rows(curator), measured.columns[name]
    if (share := quantile_share(statistic)) is not None:
        error, _ = _quantile_errors(measured.trees[name], column, [share], n)
        return error, error / (SD * column.half)
    if name not in measured.cells:
        error, relative = _expected_error(measured.sums[name], statistic, n)
    else:
        cells, known = measured.cells[name], len(column.categories or ())
        if statistic in {"top", "freq"}:
            error = _largest_count_error(column, cells, n / known)
            return error * (statistic == "freq"), error * known / n
        summed = statistic == "count" or curator.size is not None  # what is in no category is what is left
        error = cells.law.standard_deviation * (math.sqrt(known) if summed else 1)
    if statistic not in ROWS:
        return error, relative
    error = _root_mean_square(np.clip(error * _NORMAL_POINTS, -0.1 * n, 0.9 * n))  # of a tenth that is missing
    return error, error / n


def _largest_count_error(column: Column, cells: Cells, rows: float) -> float:
    """Return the expected standard error of the largest count, for equally frequent categories."""
    noise = np.random.default_rng(1).laplace(0, cells.law.scale, (_DRAWS, *cells.raw.shape))
    every = [category_cells(replace(cells, raw=rows + each), column, 0.95)["freq"][0] for each in noise]
    return _root_mean_square(np.array(every) - rows)


def _root_mean_square(off: Array) -> float:
    return float(np.sqrt(np.mean(off**2)))


PLANS: Mapping[str, Any] = {
    **{name: _moment_planner(name) for name in ("mean", "var", "std", "sum")},
    "count": _make_count_planner("the number of rows"),
    "missing": _make_count_planner("the number of rows without a value"),
    **dict.fromkeys(("quantile", "median"), _plan_quantiles),
    **dict.fromkeys(("histogram", "value_counts", "crosstab"), _plan_counts),
    "nunique": _plan_nunique,
    "corr": lambda curator, **_: _correlation_error(curator, curator.planned, "correlation"),
    "cov": lambda curator, **_: _correlation_error(curator, curator.planned, "covariance"),
    "agg": _plan_agg,
    "describe": _plan_describe,
    "report": _plan_report,
    "find_bounds": _plan_bounds,
    "find_categories": _plan_keys,
    "profile": _make_count_planner("each number of rows", lambda *_, **__: _TYPICAL_COUNT, at=0),
}
"""The planner of each method."""

_TELL = ("describe", "agg", "mean", "var", "std", "sum", "ttest", "ztest")  # whose answers hold sums of columns
READS: Mapping[str, tuple[Any, ...]] = {
    **{name: (_answer_reader(name), *_TELL) for name in ("mean", "var", "std", "sum")},
    **{name: (_answer_reader(name), *_TELL, "value_counts", "crosstab") for name in ROWS},
    **dict.fromkeys(("value_counts", "crosstab"), (_cell_reader, "synth")),
}
"""Of each method that other answers may tell, what reads them, and which they are."""
