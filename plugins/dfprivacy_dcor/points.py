r"""Points of a metric space, and the distance covariance of the same rows in two metric spaces.

Of two numbers a row it is exact, in n log n steps.

With :math:`a_{ij} = |x_i - x_j|`, :math:`b_{ij} = |y_i - y_j|`, row sums :math:`a_{i\cdot}` and totals
:math:`a_{\cdot\cdot}`, the squared distance covariance of a sample [1]_ is

.. math::
   \mathrm{dCov}^2 = \frac{S_1}{n^2} - \frac{2 S_2}{n^3} + \frac{S_3}{n^4}, \quad
   S_1 = \sum_{ij} a_{ij} b_{ij}, \quad S_2 = \sum_i a_{i\cdot} b_{i\cdot}, \quad
   S_3 = a_{\cdot\cdot} b_{\cdot\cdot}.

Near independence the three terms cancel, and the square root makes much of what is left. So the numbers are put on
a grid, which is a pure function of each, and all sums are those of integers: nothing is lost.

References
----------
.. [1] Székely, Rizzo and Bakirov (2007). Measuring and testing dependence by correlation of distances.
   Annals of Statistics 35.
.. [2] Huo and Székely (2016). Fast computing for distance covariance. Technometrics 58.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = [
    "Labels",
    "Line",
    "Lines",
    "Points",
    "Rows",
    "covariance",
    "covariance_u",
    "distance_statistics",
    "features_covariance",
    "grid_bits",
    "index_blocks",
    "round_to_grid",
    "squared_covariance",
]

_BITS_MAX = 26


def grid_bits(n: int) -> int:
    """Return the largest k such that sums of n products of two k-bit numbers stay below 2^62."""
    return min(_BITS_MAX, (62 - n.bit_length()) // 2)


def round_to_grid(unit: NDArray[np.float64], bits: int) -> NDArray[np.int64]:
    """Round numbers in [0, 1] to multiples of 2^-bits, and return the integer multiples."""
    return np.rint(np.ldexp(unit, bits)).astype(np.int64)


@dataclass(frozen=True)
class Line:
    """Points on a line with integer coordinates, and the sums of their distances.

    Attributes
    ----------
    values : ndarray of int64 of shape (n,)
        From 0 to 2^bits.
    bits : int
        The unit of the values is 2^-bits of the width of the bounds.
    """

    values: NDArray[Any]
    bits: int

    @property
    def size(self) -> int:
        """Number of points, one for each row."""
        return len(self.values)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Indices that sort the rows by value."""
        return np.argsort(self.values, kind="stable")

    @cached_property
    def row_sums(self) -> NDArray[Any]:
        """Sum of the distances from each row to all others, in multiples of the grid step."""
        ordered = self.values[self.order]
        below = np.cumsum(ordered) - ordered
        sums = np.empty_like(ordered)
        sums[self.order] = (2 * np.arange(self.size) - self.size) * ordered + ordered.sum() - 2 * below
        return sums

    @cached_property
    def total(self) -> int:
        """Sum of the distances of all ordered pairs of rows, in multiples of the grid step."""
        return _exact_sum(self.row_sums)

    @property
    def mean(self) -> float:
        """Mean distance of two points, as a fraction of the width of the bounds."""
        return float(Fraction(self.total, self.size**2 << self.bits))


def covariance(x: Line, y: Line) -> Fraction:
    """Compute the squared distance covariance (V-statistic) of two columns of numbers, which is at least 0.

    Parameters
    ----------
    x, y : Line
        Two numbers a row.

    Returns
    -------
    Fraction
        As a part of the product of the two widths, without any rounding.

    Examples
    --------
    >>> x = Line(np.array([0, 4]), 2)
    >>> covariance(x, x)
    Fraction(1, 4)
    """
    n = x.size
    second, third = _exact_dot(x.row_sums, y.row_sums), x.total * y.total
    return Fraction(n**2 * _distance_products(x, y) - 2 * n * second + third, n**4 << (x.bits + y.bits))


def covariance_u(x: Line, y: Line) -> Fraction:
    """Compute the unbiased squared distance covariance (U-statistic) of two columns; it can be negative."""
    n = x.size
    second, third = _exact_dot(x.row_sums, y.row_sums), x.total * y.total
    total = (n - 1) * (n - 2) * _distance_products(x, y) - 2 * (n - 1) * second + third
    return Fraction(total, (n * (n - 1) * (n - 2) * (n - 3)) << (x.bits + y.bits))


def _distance_products(x: Line, y: Line) -> int:
    """Compute the exact sum over all pairs of rows of the product of their distances in two columns.

    A product is (x_i - x_j)(y_i - y_j) but for its sign, so their sum is four times that over the pairs in which
    both grow, less twice that over all. Of a line with itself both grow in all.
    """
    total = x.size * _exact_dot(x.values, y.values) - int(x.values.sum()) * int(y.values.sum())
    return 2 * total if x is y else 2 * (2 * _concordant_products(x.values[x.order], y.values[x.order]) - total)


def _concordant_products(x: NDArray[Any], y: NDArray[Any]) -> int:
    """Compute the sum of (x_i - x_j)(y_i - y_j) over the pairs of rows with j before i and y_j at most y_i.

    Rows are sorted by y by merging; each pair is counted when the two blocks that it lies in are merged [2]_.
    """
    more = (1 << (len(x) - 1).bit_length()) - len(x)  # rows that stand first and have the largest y are in no pair
    x, y = (np.concatenate([np.full(more, first, part.dtype), part]) for first, part in ((0, x), (y.max() + 1, y)))
    total, half = 0, 1
    while half < len(x):
        blocks = x.reshape(-1, 2 * half), y.reshape(-1, 2 * half)
        order = np.argsort(blocks[1], axis=1, kind="stable")
        x, y = (np.take_along_axis(part, order, axis=1) for part in blocks)
        first = order < half
        count, x_sum, y_sum, products = (np.cumsum(part * first, axis=1) for part in (x**0, x, y, x * y))
        total += _exact_sum(((x * count - x_sum) * y - x * y_sum + products)[~first])
        x, y, half = x.ravel(), y.ravel(), 2 * half
    return total


def _exact_sum(values: NDArray[Any]) -> int:
    """Compute the exact sum of integers below 2^62, also if the sum exceeds int64."""
    return (int((values >> 31).sum()) << 31) + int((values & (2**31 - 1)).sum())


def _exact_dot(a: NDArray[Any], b: NDArray[Any]) -> int:
    """Compute the exact dot product of nonnegative integers, also if it exceeds int64."""
    bits = (62 - len(a).bit_length()) // 2
    return sum(
        int(np.dot(high, low)) << (bits * (i + j))
        for i, high in enumerate(_split_bits(a, bits))
        for j, low in enumerate(_split_bits(b, bits))
    )


def _split_bits(values: NDArray[Any], bits: int) -> list[NDArray[Any]]:
    count = -(-int(values.max()).bit_length() // bits)
    return [(values >> (bits * at)) & ((1 << bits) - 1) for at in range(count)]


_BLOCK = 1 << 20  # distances at a time
_METRICS: dict[str | None, Any] = {None: "euclidean", "gaussian": "sqeuclidean", "laplace": "cityblock"}


@dataclass(frozen=True)
class Lines:
    """Points whose distance is the weighted sum of their distances on several lines."""

    lines: tuple[Line, ...]
    weights: tuple[float, ...]

    @property
    def size(self) -> int:
        """Number of points, one for each row."""
        return self.lines[0].size

    @property
    def mean(self) -> float:
        """Mean distance of two points."""
        return math.fsum(weight * line.mean for weight, line in zip(self.weights, self.lines, strict=True))

    def distances(self, rows: slice) -> NDArray[np.float64]:
        """Compute the distances from the points of some rows to those of all rows."""
        distances = np.zeros((len(self.lines[0].values[rows]), self.lines[0].size))
        for weight, line in zip(self.weights, self.lines, strict=True):
            distances += np.abs(line.values[rows, None] - line.values) * (weight / 2**line.bits)
        return distances

    @property
    def coordinates(self) -> list[NDArray[Any]]:
        """Coordinates of the points, one array for each line."""
        return [line.values for line in self.lines]

    def reorder(self, order: NDArray[np.intp]) -> Lines:
        """Return the points of the given rows, in the given order."""
        return Lines(tuple(Line(line.values[order], line.bits) for line in self.lines), self.weights)


@dataclass(frozen=True)
class Labels:
    """Points with the discrete distance, which is 1 if labels differ; labels are integer codes from 0."""

    codes: NDArray[np.intp]
    count: int

    @property
    def size(self) -> int:
        """Number of points, one for each row."""
        return len(self.codes)

    @property
    def mean(self) -> float:
        """Mean distance of two points."""
        sizes = np.bincount(self.codes, minlength=self.count)
        return 1.0 - math.fsum((sizes / len(self.codes)) ** 2)

    def distances(self, rows: slice) -> NDArray[np.float64]:
        """Compute the distances from the points of some rows to those of all rows."""
        distances: NDArray[np.float64] = (self.codes[rows, None] != self.codes).astype(np.float64)
        return distances

    @property
    def coordinates(self) -> list[NDArray[Any]]:
        """Integer codes of the points' labels, as a list of one array."""
        return [self.codes]

    def reorder(self, order: NDArray[np.intp]) -> Labels:
        """Return the points of the given rows, in the given order."""
        return Labels(self.codes[order], self.count)


@dataclass(frozen=True)
class Points:
    """Points, shape (n, p), with the Euclidean distance or, given a kernel k, the distance 1 - k."""

    points: NDArray[np.float64]
    kernel: Literal["gaussian", "laplace"] | None = None

    @property
    def size(self) -> int:
        """Number of points, one for each row."""
        return len(self.points)

    def distances(self, rows: slice) -> NDArray[np.float64]:
        """Compute the distances from the points of some rows to those of all rows."""
        metric = _METRICS[self.kernel]
        distances: NDArray[np.float64] = scipy.spatial.distance.cdist(self.points[rows], self.points, metric)
        return distances if self.kernel is None else -np.expm1(-distances)

    @property
    def coordinates(self) -> list[NDArray[Any]]:
        """Coordinates of the points, one array for each dimension."""
        return list(self.points.T)

    def reorder(self, order: NDArray[np.intp]) -> Points:
        """Return the points of the given rows, in the given order."""
        return Points(self.points[order], self.kernel)


Rows = Lines | Labels | Points


def distance_statistics(x: Rows, y: Rows) -> NDArray[np.float64]:
    """Compute distance covariance, standard deviations and mean distances of the same rows in two metric spaces.

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
        squares, means = _all_pairs(x, y)
    else:
        squares, means = [squared_covariance(*pair) for pair in ((x, y), (x, x), (y, y))], (x.mean, y.mean)
    return np.array([*np.sqrt(np.maximum(squares, 0.0)), *means])


def squared_covariance(x: Rows, y: Rows) -> float:
    """Compute the squared distance covariance of the same rows in two metric spaces; 0 if there are no rows."""
    if x.size == 0:
        return 0.0
    if isinstance(x, Points) or isinstance(y, Points):
        return max(_all_pairs(x, y)[0][0], 0.0)
    if isinstance(x, Lines) and isinstance(y, Lines):
        return math.fsum(
            a * b * float(covariance(one, other))
            for a, one in zip(x.weights, x.lines, strict=True)
            for b, other in zip(y.weights, y.lines, strict=True)
        )
    if not isinstance(x, Labels):
        return squared_covariance(y, x)
    n = x.size
    if isinstance(y, Labels):  # one table, whatever the number of categories
        table = np.bincount(x.codes * y.count + y.codes, minlength=x.count * y.count).reshape(x.count, y.count)
        excess = (n * table - np.outer(table.sum(axis=1), table.sum(axis=0))) / n**2
        return math.fsum((excess * excess).ravel())
    hot = np.eye(x.count, dtype=np.int64)[x.codes]
    return features_covariance(n * hot - hot.sum(axis=0), y) / (2 * n**2)


def features_covariance(centred: NDArray[np.int64], y: Rows) -> float:
    r"""Compute the squared distance covariance of y with features, whose metric is the squared Euclidean distance.

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
        parts = [w * _norm_integral(centred, line) for w, line in zip(y.weights, y.lines, strict=True)]
        return 4 * math.fsum(parts) / n**2
    if isinstance(y, Labels):
        sums = np.zeros((y.count, centred.shape[1]), dtype=np.int64)
        np.add.at(sums, y.codes, centred)
        return 2 * math.fsum((sums.astype(np.float64) ** 2).ravel()) / n**2
    order = np.lexsort([*centred.T, *y.coordinates])
    f, y = centred[order].astype(np.float64), y.reorder(order)
    inner = [(y.distances(block)[:, None, :] * f.T).sum(axis=2) * f[block] for block in index_blocks(n)]
    return max(0.0, -2 * math.fsum(np.concatenate(inner).ravel()) / n**2)


def _norm_integral(centred: NDArray[np.int64], line: Line) -> float:
    """Integrate the squared norm of S(t) over t, where S(t) sums the features of the rows with values up to t."""
    ordered = line.values[line.order]
    sums = np.cumsum(centred[line.order], axis=0).astype(np.float64)
    gaps = np.diff(ordered, append=1 << line.bits) / 2**line.bits
    return math.fsum((sums * sums).sum(axis=1) * gaps)


def _all_pairs(x: Rows, y: Rows) -> tuple[list[float], tuple[float, float]]:
    """Compute squared distance (co)variances and mean distances from all pairs of rows, in blocks.

    Rows are put in an order of their own first, so that sums in float64 do not depend on that of the table.
    """
    order = np.lexsort([*x.coordinates, *y.coordinates])
    x, y, n = x.reorder(order), y.reorder(order), len(order)
    a_sums, b_sums = np.empty(n), np.empty(n)
    products: list[NDArray[np.float64]] = []
    for block in index_blocks(n):
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
    return squares, (a_total / n**2, b_total / n**2)


def index_blocks(n: int) -> Iterator[slice]:
    """Yield slices of n rows, so that each slice has about a million distances to all rows."""
    step = max(1, _BLOCK // n)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))
