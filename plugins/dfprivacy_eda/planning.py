"""What the methods are expected to find, from public numbers: the standard error of each, before anything is paid.

A column is taken to have a standard deviation of a sixth of its range, and a private number of rows to be 10,000.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from dfprivacy_eda import reading, report
from dfprivacy_eda.aggregate import Wanted
from dfprivacy_eda.bounds import threshold
from dfprivacy_eda.choice import choice_error, choose_alone
from dfprivacy_eda.counts import edges_of
from dfprivacy_eda.describe import Focus, split
from dfprivacy_eda.grown import prefix_error, tree_error
from dfprivacy_eda.layout import Layout, layout, rows_epsilon

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from dfprivacy import Column, Curator
    from dfprivacy.arguments import NanPolicy
    from dfprivacy.laws import NoiseLaw
    from dfprivacy_eda.reading import Aggregation

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
]

RELATIVE = "expected relative error"
_SPREAD = 1 / 3  # in halves of the range
_ROWS = 10_000
_DRAWS = 999
_TYPICAL = 10  # values of a column of which nobody knows how many it has

Findings = dict[str, Any]


def rows_of(curator: Curator) -> float:
    """Give the number of rows, or what a private one is taken to be."""
    return float(_ROWS if curator.size is None else max(curator.size, 1))


def laplace(curator: Curator) -> float:
    """Give the standard deviation of the noise of the last measurement; 0 where nothing was measured."""
    measured = [each for each in curator.measured if each.epsilon or each.reused]
    return measured[-1].law.standard_deviation if measured else 0.0


def _given(curator: Curator, what: str, statistic: str = "") -> str:
    given = [statistic] if statistic else []
    given += [f"there are {_ROWS:,} rows"] if curator.size is None else []
    return f"expected standard error of {what}" + (f", if {' and '.join(given)}" if given else "")


def of_moments(name: str) -> Any:
    """Make the planner of a method that gives a mean, a variance, a standard deviation or a sum.

    As in `centred`, with a mean in the middle of the bounds.
    """

    def findings(curator: Curator, column: Column, **asked: Any) -> Findings:
        n, noise = rows_of(curator), laplace(curator)
        two, halves = len(curator.measured) > 1, curator.size is None and asked.get("covers") != "population"
        sd = _SPREAD * column.half
        first = (2 if two else math.sqrt(2) if halves else 1) * noise / n
        second = (1 if two else 2) * noise / n
        if curator.size is not None and noise and not two:
            second = 4 * noise / curator.measured[-1].sensitivity / n
        total = noise * max(abs(column.low), abs(column.high))
        error, relative = {
            "mean": (first * column.half, first / _SPREAD),
            "sum": (total, total / (n * sd)),
            "var": (second * column.half * column.half, second / _SPREAD**2),
            "std": (second / (2 * _SPREAD) * column.half, second / (2 * _SPREAD**2)),
        }[name]
        assumption = f"the standard deviation is {sd:.4g}" if name in {"var", "std"} else ""
        return {_given(curator, f"the {name}", assumption): error, RELATIVE: relative}

    return findings


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


def _tree_error(curator: Curator, plan: Layout, scale: float, whole: float) -> float:
    """Give the mean error in rows; `scale` is that of weighted counts, `whole` the variance of all rows."""
    variances = tuple(2 * (scale / weight) ** 2 for weight in plan.weights)
    return prefix_error(plan, whole if curator.size is None else 0.0, variances)


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
    assumed = f"values are normal with a standard deviation of {_SPREAD * column.half:.4g}"
    moved = column.half * _moved(shares, error / n, 0.0 if step is None else step / column.half)
    return {_given(curator, what, assumed): moved, RELATIVE: error / (n / 4)}


def _moved(shares: Sequence[float], error: float, step: float) -> float:
    """Give how far quantiles of normal values in [-1, 1] move by a standard error of a part of all rows."""
    q, z = np.asarray(shares, dtype=np.float64)[:, None], ndtri((np.arange(_DRAWS) + 0.5) / _DRAWS)
    y = np.clip(_SPREAD * ndtri(np.clip([q + 0 * z, q + error * z], 0, 1)), -1, 1)
    if step:
        y = step * np.rint((y + 1) / step)
    return float(np.sqrt(np.mean((y[1] - y[0]) ** 2)))


def _spent(curator: Curator) -> tuple[list[float], list[NoiseLaw]]:
    """Give the scales of what was measured with noise of the cube, and the laws of what with Laplace's."""
    noisy = [each for each in curator.measured if each.epsilon or each.reused]
    cube = [each.scale for each in noisy if "cube" in each.kind]
    return cube, [each.law for each in noisy if "cube" not in each.kind]


def _of_cube(dimension: int, scale: float) -> float:
    """Give the standard deviation of a coordinate of the noise of a cube."""
    return scale * math.sqrt((dimension + 1) * (dimension + 2) / 3)


def of_describe(
    curator: Curator, columns: tuple[Column, ...] | None, *, focus: Focus | None = None, **_: Any
) -> Findings:
    """Plan a description: the moments relative to a standard deviation, quartiles to a quarter of the rows."""
    chosen = columns or curator.columns
    numbers = sum(column.bounds is not None for column in chosen)
    return _described(curator, chosen, split(numbers, len(chosen) - numbers, focus))


def of_report(curator: Curator, columns: tuple[Column, ...] | None, *, nan_policy: NanPolicy, **_: Any) -> Findings:
    """Plan a report: a description, and correlations."""
    chosen = columns or curator.columns
    numbers = [column for column in chosen if column.bounds is not None]
    shares = report.split(len(numbers), len(chosen) - len(numbers))
    findings = _described(curator, chosen, shares)
    if "correlations" not in shares:
        return findings
    relative = findings.pop(RELATIVE)
    correlations = of_products(curator, tuple(numbers), nan_policy=nan_policy)
    return {**findings, **correlations, RELATIVE: max(relative, correlations[RELATIVE])}


def _described(curator: Curator, chosen: tuple[Column, ...], shares: dict[str, Fraction]) -> Findings:
    numbers = [column for column in chosen if column.bounds is not None]
    labels = [column for column in chosen if column.bounds is None]
    n = rows_of(curator)
    cube, laws = _spent(curator)
    findings: Findings = {}
    relative = [0.0]
    if numbers and cube:
        noise = _of_cube(2 * len(numbers) + (curator.size is None), cube[0])
        findings[_given(curator, "a mean, in standard deviations of a sixth of the range")] = noise / n / _SPREAD
        findings[_given(curator, "a standard deviation, in parts of it")] = noise / 2 / n / (2 * _SPREAD**2)
        share = shares["quartiles"] / len(numbers)
        plan = layout(numbers[0], None, rows_epsilon(curator, share))
        rows = _tree_error(curator, plan, laws[0].scale, noise**2)
        findings["expected standard error, in rows by which a quartile is off"] = rows
        relative += [noise / n / _SPREAD, noise / (4 * n * _SPREAD**2), rows / (n / 4)]
    if labels and laws:
        count = laws[-1].standard_deviation
        findings["expected standard error of the count of a category"] = count
        most = max(len(column.categories or ()) for column in labels)
        relative.append(count * most / n)
    return {**findings, RELATIVE: max(relative)}


def of_products(
    curator: Curator, columns: tuple[Column, ...] | None, *, nan_policy: NanPolicy, **_: Any
) -> Findings:
    """Plan correlations, or covariances in the units in which they are correlations, near 0."""
    columns = columns or tuple(column for column in curator.columns if column.bounds is not None)
    p, cube = len(columns), _spent(curator)[0]
    if not cube:  # all is public
        return {RELATIVE: 0.0}
    counted = curator.size is None or bool(curator.gaps(columns, nan_policy))
    error = _of_cube(p + p * (p + 1) // 2 + counted, cube[-1]) / rows_of(curator) / _SPREAD**2
    what = "a correlation, or of a covariance in standard deviations"
    return {_given(curator, what, "these are a sixth of the range"): error, RELATIVE: error}


def of_nunique(curator: Curator, column: Column, **_: Any) -> Findings:
    """Plan the number of different values: relative to that of the categories, or to ten."""
    error = laplace(curator)
    return {
        "expected standard error of the number of different values": error,
        RELATIVE: error / len(column.categories or range(_TYPICAL)),
    }


def of_agg(
    curator: Curator, aggregations: Any, *, named: Mapping[str, Any], nan_policy: NanPolicy, **_: Any
) -> Findings:
    """Plan aggregations, each by its name; the relative error is that of the one that is worst."""
    wanted = Wanted.of(curator, reading.read(aggregations, named), nan_policy)
    each = [(one, *_aggregated(curator, wanted, one)) for one in wanted.aggregations]
    errors = {f"expected standard error of {one.name}{units}": error for one, error, _, units in each if error}
    given = _given(curator, "", "standard deviations are a sixth of the range").partition(", if ")[2]
    assumed = {"assumed": given} if errors else {}
    return {**errors, **assumed, RELATIVE: max((relative for _, _, relative, _ in each), default=0.0)}


def _aggregated(curator: Curator, wanted: Wanted, one: Aggregation) -> tuple[float, float, str]:
    """Give the error of one aggregation, the relative one, and the units where they are not the column's."""
    n, column = rows_of(curator), wanted.columns[one.column]
    cube, laws = _spent(curator)
    noise = _of_cube(wanted.dimension, cube[0]) if cube else 0.0
    if column.bounds is None:
        known = len(column.categories or ())
        count = laws[-1].standard_deviation if laws else 0.0
        if one.statistic in {"top", "freq"}:
            return count * (one.statistic == "freq"), count * known / n, ""
        summed = one.statistic == "count" or curator.size is not None  # what is in no category is what is left
        error = count * (math.sqrt(known) if summed else 1)
        return error, error / n, ""
    if one.share is not None:
        plan = _plan_of(curator, wanted, column)
        rows = _tree_error(curator, plan, laws[0].scale, noise**2) if laws else 0.0
        return rows, rows / (n / 4), ", in rows by which it is off"
    if one.statistic in {"count", "missing"}:
        gone = noise / (2 if curator.size is not None else 1) if wanted.gaps[one.column] else 0.0
        if one.column in wanted.ranked and wanted.gaps[one.column] and laws:
            gone = laws[0].standard_deviation / sum(_plan_of(curator, wanted, column).weights)
        error = math.hypot(gone, noise * (curator.size is None)) if one.statistic == "count" else gone
        return error, error / n, ""
    total = math.hypot(column.half, column.mid * (curator.size is None)) * noise
    sd, half = _SPREAD * column.half, noise / 2 / n
    error = {
        "mean": noise / n * column.half,
        "sum": total,
        "var": half * column.half * column.half,
        "std": half / (2 * _SPREAD) * column.half,
    }[one.statistic]
    return error, error / {"sum": n * sd, "var": sd * sd}.get(one.statistic, sd), ""


def _plan_of(curator: Curator, wanted: Wanted, column: Column) -> Layout:
    return layout(column, None, rows_epsilon(curator, wanted.shares["quantiles"] / len(wanted.ranked)))
