"""Rows as points of a metric space, and the distance covariance of the same rows in two spaces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from dfprivacy_dcor.univariate import Line, covariance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = [
    "Labels",
    "Lines",
    "Points",
    "Rows",
    "blocks",
    "features_covariance",
    "five_numbers",
    "squared_covariance",
]

_BLOCK = 1 << 20  # distances at a time


@dataclass(frozen=True)
class Lines:
    """Points whose distance is a weighted sum of distances on lines."""

    lines: tuple[Line, ...]
    weights: tuple[float, ...]

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.lines[0].size

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
        distances = np.zeros((len(self.lines[0].values[rows]), self.lines[0].size))
        for weight, line in zip(self.weights, self.lines, strict=True):
            distances += np.abs(line.values[rows, None] - line.values) * (weight / 2**line.bits)
        return distances

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
    def size(self) -> int:
        """Number of rows."""
        return len(self.codes)

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
        distances: NDArray[np.float64] = (self.codes[rows, None] != self.codes).astype(np.float64)
        return distances

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

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.points)

    def distances(self, rows: slice) -> NDArray[np.float64]:
        """Distances from some rows to all, each from its two points alone."""
        distances: NDArray[np.float64] = scipy.spatial.distance.cdist(self.points[rows], self.points)
        return distances

    @property
    def coordinates(self) -> list[NDArray[Any]]:
        """What tells points apart."""
        return list(self.points.T)

    def ordered(self, order: NDArray[np.intp]) -> Points:
        """Give the same points in another order."""
        return Points(self.points[order])


Rows = Lines | Labels | Points


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
    if x.size == 0:
        return np.zeros(5)
    if isinstance(x, Points) or isinstance(y, Points):
        squares, means = _pairwise(x, y)
    else:
        squares, means = (squared_covariance(x, y), x.variance, y.variance), (x.mean, y.mean)
    return np.array([*np.sqrt(np.maximum(squares, 0.0)), *means])


def squared_covariance(x: Rows, y: Rows) -> float:
    """Squared distance covariance, at least 0, and 0 of no rows."""
    if x.size == 0:
        return 0.0
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
