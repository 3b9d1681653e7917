"""What the methods are expected to find, from public numbers: the standard error of each, before anything is paid.

A column is taken to have a standard deviation of a sixth of its range, and a private number of rows to be 10,000.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from dfprivacy.inference.engine import infer
from dfprivacy_eda import reading
from dfprivacy_eda.bounds import threshold
from dfprivacy_eda.possible import ROWS
from dfprivacy_eda.quantiles import choice_error, choose_alone
from dfprivacy_eda.reading import Aggregation
from dfprivacy_eda.results import ColumnStatistic, Entry, Statistics
from dfprivacy_eda.sums import SD, Sums, statistic
from dfprivacy_eda.tree import layout, prefix_error, rows_epsilon, tree_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dfprivacy import Column, Curator, Release
    from dfprivacy_eda.correlation import Products
    from dfprivacy_eda.joint import Measured

__all__ = [
    "known_statistic",
    "of_agg",
    "of_bounds",
    "of_counts",
    "of_describe",
    "of_keys",
    "of_moments",
    "of_nunique",
    "of_products",
    "of_profile",
    "of_quantiles",
    "of_report",
    "of_rows",
]

RELATIVE = "expected relative error"
_DRAWS = 999
_TYPICAL = 10  # values of a column of which nobody knows how many it has
_DESCRIBED = {  # by statistic, what is told of it, and whether in rows
    "mean": ("a mean, in standard deviations of a sixth of the range", False),
    "std": ("a standard deviation, in parts of it", False),
    "50%": (", in rows by which a quartile is off", True),
    "freq": (" of the count of a category", True),
}

Findings = dict[str, Any]


def rows_of(curator: Curator) -> float:
    """Give the number of rows; a private one is taken to be an equal part of the table's, if that is public."""
    return float(max(curator.supposed_size[0], 1))


def laplace(curator: Curator) -> float:
    """Give the standard deviation of the noise of the last measurement; 0 where nothing was measured."""
    measured = [each for each in curator.measured if each.epsilon or each.reused]
    return measured[-1].law.standard_deviation if measured else 0.0


def _given(curator: Curator, what: str, *assumed: str) -> str:
    given = [*assumed, *filter(None, [curator.supposed_size[1]])]
    return f"expected standard error of {what}" + (f", if {' and '.join(given)}" if given else "")


def _expected(sums: Sums, name: str, rows: float) -> tuple[float, float]:
    """Give the standard error of a statistic, and in standard deviations of what it is of."""
    error = float(infer(sums.expected(rows), statistic(name)).noise_standard_error)
    sd = SD * sums.column.half
    return error, error / {"sum": rows * sd, "var": sd * sd, "count": rows, "missing": rows}.get(name, sd)


def of_moments(name: str) -> Any:
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
    several = isinstance(release, Statistics)
    every = release._each if isinstance(release, Statistics) else [release]  # noqa: SLF001 - of our own kind
    for each in every:
        if not isinstance(each, Entry | ColumnStatistic) or each.column != column.name or each.released is None:
            continue
        if each.statistic in _TOLD_BY[name][several]:
            sums = Sums.of_release(each.released, column)
            return None if name in ROWS and not sums.counted else sums
    return None


def known_statistic(name: str) -> Any:
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
        if sums is None or asked.get("covers") == "population":
            return None
        rows = max(sums.known("count"), 1.0) if curator.size is None else rows_of(curator)
        if isinstance(planned := curator.planned, Sums):
            most = _expected(planned, name, rows)[0]
        else:
            most = planned.laws[name == "missing"].standard_deviation
        error = float(infer(sums, statistic(name)).noise_standard_error)
        return (error, sums) if error <= most else None

    return reader


def _noise(what: str, of: Callable[..., float] = lambda *_, **__: 1, at: int = -1) -> Any:
    """Make the planner of noisy numbers: relative to all rows over what `of` gives."""

    def findings(curator: Curator, **asked: Any) -> Findings:
        measured = [each for each in curator.measured if each.epsilon or each.reused]
        error = measured[at].law.standard_deviation if measured else 0.0
        named = what.format("bin's count" if "bins" in asked else "count")
        return {
            f"expected standard error of {named}": error,
            RELATIVE: error * of(curator, **asked) / rows_of(curator),
        }

    return findings


of_rows = _noise("the number of rows")
of_keys = _noise("each count", lambda curator, **_: _TYPICAL * len(curator.measured))
of_profile = _noise("each number of rows", lambda *_, **__: _TYPICAL, at=0)
of_nunique = _noise(
    "the number of different values",
    lambda curator, column, **_: rows_of(curator) / len(column.categories or range(_TYPICAL)),
)
_of_cells = _noise("each {}", lambda curator, **_: curator.planned.raw.size)


def of_counts(curator: Curator, **asked: Any) -> Findings:
    """Plan a histogram, the counts of categories, or a crosstab: relative to the average cell."""
    found = asked.get("categories") == "discover" or asked.get("domain") is not None
    return dict((of_keys if found else _of_cells)(curator, **asked))


def of_bounds(curator: Curator, columns: tuple[Column, ...], **_: Any) -> Findings:
    """Plan the search for bounds: relative to one of ten intervals."""
    error = laplace(curator)
    return {
        "rows that an interval needs to be seen, about": threshold(error / math.sqrt(2), len(columns)),
        RELATIVE: error * _TYPICAL / rows_of(curator),
    }


def of_quantiles(
    curator: Curator, column: Column, *, step: float | None, q: Any = None, covers: Any = None, **_: Any
) -> Findings:
    """Plan quantiles: in the column's units, and in rows relative to a quarter of all."""
    what, shares = ("the median", [0.5]) if q is None else ("a quantile", [*np.atleast_1d(q)])
    error = 0.0
    if laplace(curator):
        alone = choose_alone(curator, column, shares, step, covers)
        plan = layout(column, step, rows_epsilon(curator))
        error = choice_error(curator, shares) if alone else tree_error(curator, plan)
    n = rows_of(curator)
    assumed = f"values are normal with a standard deviation of {SD * column.half:.4g}"
    moved = column.half * _moved(shares, error / n, 0.0 if step is None else step / column.half)
    return {_given(curator, what, assumed): moved, RELATIVE: error / (n / 4)}


def _moved(shares: Sequence[float], error: float, step: float) -> float:
    """Give how far quantiles of normal values in [-1, 1] move by a standard error of a part of all rows."""
    q, z = np.asarray(shares, dtype=np.float64)[:, None], ndtri((np.arange(_DRAWS) + 0.5) / _DRAWS)
    y = np.clip(SD * ndtri(np.clip([q + 0 * z, q + error * z], 0, 1)), -1, 1)
    if step:
        y = step * np.rint((y + 1) / step)
    return float(np.sqrt(np.mean((y[1] - y[0]) ** 2)))


def of_describe(curator: Curator, **_: Any) -> Findings:
    """Plan a description, by the column of which each statistic is known worst."""
    return _described(curator, curator.planned)


def of_report(curator: Curator, **_: Any) -> Findings:
    """Plan a report: a description, and correlations."""
    looked = curator.planned
    findings = _described(curator, looked.measured)
    correlations = {} if looked.products is None else _correlated(curator, looked.products, "correlation")
    relative = [each.get(RELATIVE, 0.0) for each in (findings, correlations)]
    worst = "not known" if "not known" in relative else max(relative)
    return {**findings, **correlations, RELATIVE: worst}


def _described(curator: Curator, measured: Measured) -> Findings:
    findings, worst = {}, [0.0]
    for name, (what, in_rows) in _DESCRIBED.items():
        of = measured.cells if name == "freq" else measured.sums
        errors = [_aggregated(curator, measured, Aggregation(name, column, name)) for column in of]
        if errors:
            worst.append(max(relative for _, relative, _ in errors))
            most = max(error for error, *_ in errors) if in_rows else worst[-1]
            findings[f"expected standard error{what}" if in_rows else _given(curator, what)] = most
    return {**findings, RELATIVE: max(worst)}


def of_products(name: str) -> Any:
    """Make the planner of correlations, or of covariances in standard deviations."""
    return lambda curator, **_: _correlated(curator, curator.planned, name)


def _correlated(curator: Curator, products: Products, name: str) -> Findings:
    what = "a correlation" if name == "correlation" else "a covariance in standard deviations"
    error = products.expected(rows_of(curator), name)
    told = "not known" if error is None else error
    return {_given(curator, what, "these are a sixth of the range"): told, RELATIVE: told}


def of_agg(curator: Curator, aggregations: Any, *, named: Mapping[str, Any], **_: Any) -> Findings:
    """Plan aggregations, each by its name; the relative error is that of the one that is worst."""
    each = [(one, *_aggregated(curator, curator.planned, one)) for one in reading.read(aggregations, named)]
    errors = {f"expected standard error of {one.name}{units}": error for one, error, _, units in each if error}
    given = _given(curator, "", "standard deviations are a sixth of the range").partition(", if ")[2]
    assumed = {"assumed": given} if errors else {}
    return {**errors, **assumed, RELATIVE: max((relative for _, _, relative, _ in each), default=0.0)}


def _aggregated(curator: Curator, measured: Measured, one: Aggregation) -> tuple[float, float, str]:
    """Give the error of one aggregation, the relative one, and the units where they are not the column's."""
    n = rows_of(curator)
    if one.share is not None:
        tree = measured.trees[one.column]
        error = prefix_error(
            tree.layout, 0.0, tuple(tree.variances[1:])
        )  # of a share, which the root's moves as well
        return error, error / (n / 4), ", in rows by which it is off"
    if one.column not in measured.cells:
        return *_expected(measured.sums[one.column], one.statistic, n), ""
    known, noise = len(measured.columns[one.column].categories or ()), measured.cells[one.column].law
    error = noise.standard_deviation
    if one.statistic in {"top", "freq"}:
        return error * (one.statistic == "freq"), error * known / n, ""
    summed = one.statistic == "count" or curator.size is not None  # what is in no category is what is left
    error *= math.sqrt(known) if summed else 1
    return error, error / n, ""
