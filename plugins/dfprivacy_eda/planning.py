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
from dfprivacy_eda.choice import choice_error, choose_alone
from dfprivacy_eda.counts import edges_of
from dfprivacy_eda.grown import prefix_error, tree_error
from dfprivacy_eda.layout import layout, rows_epsilon
from dfprivacy_eda.sums import SD, statistic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy import Column, Curator
    from dfprivacy_eda.correlation import Products
    from dfprivacy_eda.grown import Grown
    from dfprivacy_eda.joint import Measured
    from dfprivacy_eda.reading import Aggregation
    from dfprivacy_eda.sums import Sums

__all__ = [
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
    "of_total",
]

RELATIVE = "expected relative error"
_ROWS = 10_000
_DRAWS = 999
_TYPICAL = 10  # values of a column of which nobody knows how many it has

Findings = dict[str, Any]


def rows_of(curator: Curator) -> float:
    """Give the number of rows; a private one is taken to be an equal part of the table's, if that is public."""
    rows = curator.typical_size if curator.size is None else curator.size
    return float(_ROWS if rows is None else max(rows, 1))


def laplace(curator: Curator) -> float:
    """Give the standard deviation of the noise of the last measurement; 0 where nothing was measured."""
    measured = [each for each in curator.measured if each.epsilon or each.reused]
    return measured[-1].law.standard_deviation if measured else 0.0


def _given(curator: Curator, what: str, statistic: str = "") -> str:
    given = [statistic] if statistic else []
    given += [f"there are {rows_of(curator):,.0f} rows"] if curator.size is None else []
    return f"expected standard error of {what}" + (f", if {' and '.join(given)}" if given else "")


def _expected(sums: Sums, name: str, rows: float) -> tuple[float, float]:
    """Give the standard error of a statistic, and in standard deviations of what it is of."""
    error = float(infer(sums.expected(rows), statistic(name)).noise_standard_error)
    sd = SD * sums.column.half
    return error, error / {"sum": rows * sd, "var": sd * sd}.get(name, sd)


def of_moments(name: str) -> Any:
    """Make the planner of a method that gives a mean, a variance or a standard deviation."""

    def findings(curator: Curator, column: Column, **_: Any) -> Findings:
        error, relative = _expected(curator.planned, name, rows_of(curator))
        assumption = "" if name == "mean" else f"the standard deviation is {SD * column.half:.4g}"
        return {_given(curator, f"the {name}", assumption): error, RELATIVE: relative}

    return findings


def of_total(curator: Curator, column: Column, **_: Any) -> Findings:
    """Plan a sum."""
    error = curator.planned[0].laws[0].standard_deviation * column.half
    return {_given(curator, "the sum"): error, RELATIVE: error / (rows_of(curator) * SD * column.half)}


def of_rows(curator: Curator, **_: Any) -> Findings:
    """Plan a number of rows."""
    error = laplace(curator)
    return {"expected standard error of the number of rows": error, RELATIVE: error / rows_of(curator)}


def _cells(curator: Curator, cells: int, what: str) -> Findings:
    error = laplace(curator)
    return {f"expected standard error of each {what}": error, RELATIVE: error * cells / rows_of(curator)}


def of_counts(
    curator: Curator, column: Column | None = None, a: Column | None = None, b: Column | None = None, **asked: Any
) -> Findings:
    """Plan a histogram, the counts of categories, or a crosstab: relative to the average cell."""
    if asked.get("categories") == "discover" or asked.get("domain") is not None:
        return of_keys(curator)
    if "bins" in asked and column is not None:
        _, inside = edges_of(column, asked["bins"])
        return _cells(curator, inside.stop - inside.start, "bin's count")
    sizes = [len(each.categories or ()) for each in (column, a, b) if each is not None]
    return _cells(curator, math.prod(sizes), "count")


def of_keys(curator: Curator, **_: Any) -> Findings:
    """Plan the search for values that enough rows hold: relative to one of ten values."""
    error = laplace(curator)
    return {
        "expected standard error of each count": error,
        RELATIVE: error * _TYPICAL * len(curator.measured) / rows_of(curator),
    }


def of_bounds(curator: Curator, columns: tuple[Column, ...], **_: Any) -> Findings:
    """Plan the search for bounds: relative to one of ten intervals."""
    error = laplace(curator)
    return {
        "rows that an interval needs to be seen, about": threshold(error / math.sqrt(2), len(columns)),
        RELATIVE: error * _TYPICAL / rows_of(curator),
    }


def of_profile(curator: Curator, **_: Any) -> Findings:
    """Plan a profile: relative to one of ten values."""
    error = curator.measured[0].scale
    return {"expected standard error of each number of rows": error, RELATIVE: error * _TYPICAL / rows_of(curator)}


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


def _tree_error(grown: Grown) -> float:
    """Give the mean error, in rows, of what a tree of counts has below an edge."""
    rows, *every = grown.variances
    return prefix_error(grown.layout, rows, tuple(every))


def of_describe(curator: Curator, **_: Any) -> Findings:
    """Plan a description: the moments relative to a standard deviation, quartiles to a quarter of the rows."""
    return _described(curator, curator.planned)


def of_report(curator: Curator, **_: Any) -> Findings:
    """Plan a report: a description, and correlations."""
    looked = curator.planned
    findings = _described(curator, looked.measured)
    if looked.products is None:
        return findings
    relative, correlations = findings.pop(RELATIVE), _correlated(curator, looked.products)
    return {**findings, **correlations, RELATIVE: max(relative, correlations[RELATIVE])}


def _described(curator: Curator, measured: Measured) -> Findings:
    n, findings, relative = rows_of(curator), {}, [0.0]
    if measured.sums:
        mean, std = (
            max(_expected(each, name, n)[1] for each in measured.sums.values()) for name in ("mean", "std")
        )
        rows = max(map(_tree_error, measured.trees.values()))
        findings[_given(curator, "a mean, in standard deviations of a sixth of the range")] = mean
        findings[_given(curator, "a standard deviation, in parts of it")] = std
        findings["expected standard error, in rows by which a quartile is off"] = rows
        relative += [mean, std, rows / (n / 4)]
    if measured.cells:
        count = max(cells.law.standard_deviation for cells in measured.cells.values())
        findings["expected standard error of the count of a category"] = count
        most = max(len(measured.columns[name].categories or ()) for name in measured.cells)
        relative.append(count * most / n)
    return {**findings, RELATIVE: max(relative)}


def of_products(curator: Curator, **_: Any) -> Findings:
    """Plan correlations, or covariances in the units in which they are correlations, near 0."""
    return _correlated(curator, curator.planned)


def _correlated(curator: Curator, products: Products) -> Findings:
    error = products.noise / rows_of(curator) / SD**2
    what = "a correlation, or of a covariance in standard deviations"
    return {_given(curator, what, "these are a sixth of the range"): error, RELATIVE: error}


def of_nunique(curator: Curator, column: Column, **_: Any) -> Findings:
    """Plan the number of different values: relative to that of the categories, or to ten."""
    error = laplace(curator)
    return {
        "expected standard error of the number of different values": error,
        RELATIVE: error / len(column.categories or range(_TYPICAL)),
    }


def of_agg(curator: Curator, aggregations: Any, *, named: Mapping[str, Any], **_: Any) -> Findings:
    """Plan aggregations, each by its name; the relative error is that of the one that is worst."""
    wanted = reading.read(aggregations, named)
    each = [(one, *_aggregated(curator, curator.planned, one)) for one in wanted]
    errors = {f"expected standard error of {one.name}{units}": error for one, error, _, units in each if error}
    given = _given(curator, "", "standard deviations are a sixth of the range").partition(", if ")[2]
    assumed = {"assumed": given} if errors else {}
    return {**errors, **assumed, RELATIVE: max((relative for _, _, relative, _ in each), default=0.0)}


def _aggregated(curator: Curator, measured: Measured, one: Aggregation) -> tuple[float, float, str]:
    """Give the error of one aggregation, the relative one, and the units where they are not the column's."""
    n = rows_of(curator)
    if one.column in measured.cells:
        known, count = len(measured.columns[one.column].categories or ()), measured.cells[one.column].law
        noise = count.standard_deviation
        if one.statistic in {"top", "freq"}:
            return noise * (one.statistic == "freq"), noise * known / n, ""
        summed = one.statistic == "count" or curator.size is not None  # what is in no category is what is left
        error = noise * (math.sqrt(known) if summed else 1)
        return error, error / n, ""
    if one.share is not None:
        rows = _tree_error(measured.trees[one.column])
        return rows, rows / (n / 4), ", in rows by which it is off"
    sums = measured.sums[one.column]
    if one.statistic in {"count", "missing"}:
        error = float(infer(sums, statistic(one.statistic)).noise_standard_error)
        return error, error / n, ""
    return *_expected(sums, one.statistic, n), ""
