r"""What distances are between the rows of some columns, and the distance covariance of two such spaces.

Each column is first scaled by its bounds, so that its width is 1. Then the rows are points of a space with one of
four metrics, all of negative type:

================ ==================================================== ============= ==============================
metric           distance of two rows                                 diameter D    cost with n rows
================ ==================================================== ============= ==============================
``"euclidean"``  :math:`|x - x'|` in p dimensions                      :math:`\sqrt p`  n log n if p is 1, else n²
``"l1"``         :math:`\sum_j |x_j - x'_j|`                             p             p q n log n
``"projected"``  :math:`\frac{C_p}{K} \sum_k |u_k (x - x')|`, an         see `Space`   K² n log n
                 estimate of the Euclidean distance from K directions
``"discrete"``   1 if a category differs, else 0                      1             n
================ ==================================================== ============= ==============================

A sum of distances on lines has a distance covariance that is the sum over all pairs of lines, which is why ``"l1"``
and ``"projected"`` are exact in n log n steps; ``"l1"`` sees dependence between single columns only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.spatial.distance import cdist

from dfprivacy import ArgumentError
from dfprivacy_dcor.univariate import Line, covariance, grid_bits, on_grid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dfprivacy import Column

__all__ = ["Labels", "Lines", "Metric", "Points", "Space", "five_numbers", "space"]

Metric = Literal["euclidean", "l1", "projected", "discrete"]
PAIRWISE_MAX = 20_000
"""The most rows for which all pairs of distances are computed."""

_BLOCK = 1 << 20  # distances at a time
_ERROR = 64 * 2.0**-52  # of a squared distance covariance from distances in float64, as a part of the diameters


@dataclass(frozen=True)
class Lines:
    """Points whose distance is a weighted sum of distances on lines."""

    lines: tuple[Line, ...]
    weights: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean distance m."""
        return math.fsum(weight * line.mean for weight, line in zip(self.weights, self.lines, strict=True))

    @cached_property
    def variance(self) -> float:
        """Squared distance variance."""
        return sum_of_lines(self, self)

    def distances(self, rows: slice) -> NDArray[np.float64]:
        """Distances from some rows to all."""
        whole = np.zeros((len(self.lines[0].values[rows]), self.lines[0].size))
        for weight, line in zip(self.weights, self.lines, strict=True):
            whole += np.abs(line.values[rows, None] - line.values) * (weight / 2**line.bits)
        return whole

    @property
    def coordinates(self) -> list[NDArray[Any]]:
        """What tells points apart."""
        return [line.values for line in self.lines]

    def ordered(self, order: NDArray[np.intp]) -> Lines:
        """Give the same points, or some of them, in another order."""
        moved = (
            line.permuted(order) if len(order) == line.size else Line(line.values[order], line.bits)
            for line in self.lines
        )
        return Lines(tuple(moved), self.weights)


@dataclass(frozen=True)
class Labels:
    """Points that are equal or not: a code from 0 for each row."""

    codes: NDArray[np.intp]
    count: int

    @property
    def mean(self) -> float:
        """Mean distance m."""
        sizes = np.bincount(self.codes, minlength=self.count)
        return 1.0 - math.fsum((sizes / len(self.codes)) ** 2)

    @property
    def variance(self) -> float:
        """Squared distance variance."""
        return _tables(self, self)

    def distances(self, rows: slice) -> NDArray[np.float64]:
        """Distances from some rows to all."""
        found: NDArray[np.float64] = (self.codes[rows, None] != self.codes).astype(np.float64)
        return found

    @property
    def coordinates(self) -> list[NDArray[Any]]:
        """What tells points apart."""
        return [self.codes]

    def ordered(self, order: NDArray[np.intp]) -> Labels:
        """Give the same points in another order."""
        return Labels(self.codes[order], self.count)


@dataclass(frozen=True)
class Points:
    """Points of Euclidean space, shape (n, p)."""

    points: NDArray[np.float64]

    def distances(self, rows: slice) -> NDArray[np.float64]:
        """Distances from some rows to all, each from its two points alone."""
        found: NDArray[np.float64] = cdist(self.points[rows], self.points)
        return found

    @property
    def coordinates(self) -> list[NDArray[Any]]:
        """What tells points apart."""
        return list(self.points.T)

    def ordered(self, order: NDArray[np.intp]) -> Points:
        """Give the same points in another order."""
        return Points(self.points[order])


Rows = Lines | Labels | Points


@dataclass(frozen=True)
class Space:
    """Some columns as a metric space: what is public of it.

    Attributes
    ----------
    columns : tuple of Column
        The columns.
    metric : {"euclidean", "l1", "projected", "discrete"}
        Their distance.
    directions : ndarray of shape (K, p) or None
        Unit vectors of the projected metric.
    """

    columns: tuple[Column, ...]
    metric: Metric
    directions: NDArray[np.float64] | None = None

    @property
    def widths(self) -> NDArray[np.float64]:
        """Weight of each line: the largest distance on it."""
        if self.directions is None:
            return np.ones(len(self.columns))
        widths: NDArray[np.float64] = np.abs(self.directions).sum(axis=1)
        return widths * (sphere_constant(len(self.columns)) / len(widths))

    @property
    def straight(self) -> bool:
        """Whether the distance is a sum of distances on lines."""
        if self.metric == "discrete":
            return _count(self.columns[0]) == 2  # noqa: PLR2004 - two points are on a line
        return self.metric != "euclidean" or len(self.columns) == 1

    @property
    def diameter(self) -> float:
        """Largest distance D."""
        if self.metric == "discrete":
            return 1.0
        if self.metric == "euclidean":
            return math.sqrt(len(self.columns))
        return math.fsum(self.widths)

    @property
    def mean_max(self) -> float:
        """Largest mean distance: D/2 on lines, where half of the rows are at either end; else less than D."""
        return self.diameter / 2 if self.straight else self.diameter

    @property
    def pairwise(self) -> bool:
        """Whether all pairs of distances are needed."""
        return self.metric == "euclidean" and len(self.columns) > 1

    def rows(self, batch: Any) -> Rows:
        """Make points of cleaned rows."""
        if self.metric == "discrete":
            return Labels(batch.codes(self.columns[0]), _count(self.columns[0]))
        units = [batch.standardized(column) / 2 + 0.5 for column in self.columns]
        if self.pairwise:
            return Points(np.stack(units, axis=1))
        if self.directions is not None:
            units = [_projected(units, direction) for direction in self.directions]
        bits = grid_bits(batch.size)
        return Lines(tuple(Line(on_grid(unit, bits), bits) for unit in units), tuple(self.widths.tolist()))


def space(columns: tuple[Column, ...], metric: Metric, directions: int = 50, seed: int = 0) -> Space:
    """Check and describe a metric space.

    Parameters
    ----------
    columns : tuple of Column
        One column with categories, or columns with bounds.
    metric : {"euclidean", "l1", "projected", "discrete"}
        Their distance. A column that has categories and no bounds always has the discrete one.
    directions : int
        How many directions the projected metric has.
    seed : int
        What the directions are drawn from.

    Returns
    -------
    Space
        What is public of it.

    Raises
    ------
    ArgumentError
        If the columns do not have such a metric.
    """
    if metric not in ("euclidean", "l1", "projected", "discrete"):
        raise ArgumentError(f"metric={metric!r} is unknown.", 'Use "euclidean", "l1", "projected" or "discrete".')
    names = [column.name for column in columns]
    if not columns or len(set(names)) < len(names):
        raise ArgumentError(f"The columns {names!r} must be at least one, each once.", "Name other columns.")
    categories = [column.name for column in columns if column.bounds is None]
    if metric == "discrete" or categories:
        if len(columns) > 1 or columns[0].categories is None:
            raise ArgumentError(
                f"The columns {names!r} cannot be compared as categories: the discrete metric takes one column "
                "that has categories.",
                "Ask for one column with categories, or for columns with bounds.",
            )
        return Space(columns, "discrete")
    if metric != "projected" or len(columns) == 1:
        return Space(columns, metric if len(columns) > 1 else "euclidean")
    if not isinstance(directions, int) or isinstance(directions, bool) or not 1 <= directions <= 1000:  # noqa: PLR2004
        raise ArgumentError(f"directions={directions!r} is not a number from 1 to 1000.", "Typical: 50.")
    return Space(columns, metric, unit_vectors(directions, len(columns), seed))


def unit_vectors(count: int, dimension: int, seed: int) -> NDArray[np.float64]:
    """Draw public directions, uniform on the sphere."""
    found: NDArray[np.float64] = np.random.default_rng(seed).normal(size=(count, dimension))
    found /= np.sqrt((found * found).sum(axis=1, keepdims=True))
    return found


def sphere_constant(p: int) -> float:
    """Give C_p with |x| = C_p E|u x| for u uniform on the sphere of p dimensions."""
    return math.sqrt(math.pi) * math.exp(math.lgamma((p + 1) / 2) - math.lgamma(p / 2))


def five_numbers(x: Rows, y: Rows) -> NDArray[np.float64]:
    """Compute distance covariance, both distance deviations, and both mean distances.

    Parameters
    ----------
    x, y : Lines, Labels or Points
        The same rows in two spaces.

    Returns
    -------
    ndarray of shape (5,)
        s_xy, s_x, s_y (square roots of the squared distance covariance and variances) and m_x, m_y.
    """
    if isinstance(x, Points) or isinstance(y, Points):
        squares, means = _pairwise(x, y)
    else:
        squares, means = (squared_covariance(x, y), x.variance, y.variance), (x.mean, y.mean)
    return np.array([*np.sqrt(np.maximum(squares, 0.0)), *means])


def error(x: Space, y: Space) -> NDArray[np.float64]:
    """Bound the floating-point error of each of the five numbers."""
    whole = math.sqrt(x.diameter * y.diameter)
    part = math.sqrt(_ERROR) if x.pairwise or y.pairwise else _ERROR
    return part * np.array([whole, x.diameter, y.diameter, x.diameter, y.diameter])


def squared_covariance(x: Rows, y: Rows) -> float:
    """Squared distance covariance, at least 0."""
    if isinstance(x, Points) or isinstance(y, Points):
        return max(_pairwise(x, y)[0][0], 0.0)
    if isinstance(x, Labels):
        return _tables(x, y) if isinstance(y, Labels) else _labels_on_lines(x, y)
    return _labels_on_lines(y, x) if isinstance(y, Labels) else sum_of_lines(x, y)


def sum_of_lines(x: Lines, y: Lines) -> float:
    """Squared distance covariance: the sum of those of all pairs of lines."""
    return math.fsum(
        a * b * float(one.variance if one is other else covariance(one, other))
        for a, one in zip(x.weights, x.lines, strict=True)
        for b, other in zip(y.weights, y.lines, strict=True)
    )


def _tables(x: Labels, y: Labels) -> float:
    """Squared distance covariance of categories: the sum of squares of the table minus what independence says."""
    n = len(x.codes)
    table = np.bincount(x.codes * y.count + y.codes, minlength=x.count * y.count).reshape(x.count, y.count)
    excess = (n * table - np.outer(table.sum(axis=1), table.sum(axis=0))) / n**2
    return math.fsum((excess * excess).ravel())


def _labels_on_lines(x: Labels, y: Lines) -> float:
    hot = np.eye(x.count, dtype=np.int64)[x.codes]
    n = len(hot)
    return features_covariance(n * hot - hot.sum(axis=0), y) / (2 * n**2)


def features_covariance(centred: NDArray[np.int64], y: Rows) -> float:
    r"""Squared distance covariance of features, the square of whose Euclidean distance is the metric.

    Parameters
    ----------
    centred : ndarray of int64 of shape (n, d)
        Features f with columns whose sums are 0, below 2^31.
    y : Lines, Labels or Points
        The same rows in another space.

    Returns
    -------
    float
        :math:`\frac{4}{n^2} |\sum_i f_i \otimes \psi_i|^2`. On a line that is :math:`\frac{4}{n^2} \int |\sum_{y_i
        \le t} f_i|^2\,dt`.
    """
    n = len(centred)
    if isinstance(y, Lines):
        parts = [w * _integral(centred, line) for w, line in zip(y.weights, y.lines, strict=True)]
        return 4 * math.fsum(parts) / n**2
    if isinstance(y, Labels):
        sums = np.zeros((y.count, centred.shape[1]), dtype=np.int64)
        np.add.at(sums, y.codes, centred)
        return 2 * math.fsum((sums.astype(np.float64) ** 2).ravel()) / n**2
    order = np.lexsort([*centred.T, *y.coordinates])
    f, y = centred[order].astype(np.float64), y.ordered(order)
    inner = [(y.distances(block)[:, None, :] * f.T).sum(axis=2) * f[block] for block in blocks(n)]
    return max(0.0, -2 * math.fsum(np.concatenate(inner).ravel()) / n**2)


def _integral(centred: NDArray[np.int64], line: Line) -> float:
    """Integrate the squared norm of the sum of the features up to t over the line."""
    ordered = line.values[line.order]
    sums = np.cumsum(centred[line.order], axis=0).astype(np.float64)
    gaps = np.diff(ordered, append=1 << line.bits) / 2**line.bits
    return math.fsum((sums * sums).sum(axis=1) * gaps)


def _pairwise(x: Rows, y: Rows) -> tuple[tuple[float, float, float], tuple[float, float]]:
    """Compute squared distance (co)variances and mean distances from all pairs, a block of rows at a time.

    Rows are put in an order of their own first, so that sums in float64 do not depend on that of the table.
    """
    order = np.lexsort([*x.coordinates, *y.coordinates])
    x, y, n = x.ordered(order), y.ordered(order), len(order)
    a_sums, b_sums = np.empty(n), np.empty(n)
    products: list[NDArray[np.float64]] = []
    for block in blocks(n):
        a, b = x.distances(block), y.distances(block)
        a_sums[block], b_sums[block] = a.sum(axis=1), b.sum(axis=1)
        products.append(np.stack([(a * b).sum(axis=1), (a * a).sum(axis=1), (b * b).sum(axis=1)]))
    firsts = [math.fsum(part) for part in np.concatenate(products, axis=1)]
    a_total, b_total = math.fsum(a_sums), math.fsum(b_sums)
    pairs = [(a_sums, b_sums, a_total, b_total), (a_sums,) * 2 + (a_total,) * 2, (b_sums,) * 2 + (b_total,) * 2]
    squares = [
        math.fsum([first / n**2, -2 * math.fsum(one * other) / n**3, total / n**2 * (its / n**2)])
        for first, (one, other, total, its) in zip(firsts, pairs, strict=True)
    ]
    return tuple(squares), (a_total / n**2, b_total / n**2)  # type: ignore[return-value]


def blocks(n: int) -> Iterator[slice]:
    """Cut n rows into blocks of about a million distances."""
    step = max(1, _BLOCK // n)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def _count(column: Column) -> int:
    """Points of a column of categories; what is in none of them is one more."""
    return len(column.categories or ()) + (not column.other)


def _projected(units: list[NDArray[np.float64]], direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Project rows on a direction, scaled to [0, 1]; column by column, so that a row's place cannot matter."""
    along = sum(step * (unit if step > 0 else unit - 1) for step, unit in zip(direction, units, strict=True))
    found: NDArray[np.float64] = np.clip(along / np.abs(direction).sum(), 0.0, 1.0)
    return found
