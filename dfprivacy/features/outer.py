"""Row features for first and second moments of several numbers: the outer product of a row with itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dfprivacy._table.batch import BATCH_ROWS
from dfprivacy._words import join_names
from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import UP, Norm, RowFeatures, integers, root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy.features.base import Integers
    from dfprivacy.schema import Column

__all__ = ["Outer"]

_BITS = (53 - BATCH_ROWS.bit_length() + 1) // 2
"""Bits of y after the binary point: the products of a batch add up in float64 without rounding."""

_NARROW = 16  # rows up to which BLAS multiplies a matrix by another faster than by itself
_RADIUS_MIN = 1e-3  # times the square root of d; the rounding of y is far below


@final
class Outer(RowFeatures):
    r"""Numbers and their products: the coordinates 1, y_i and y_i y_j (i ≤ j) of the outer product of (1, y).

    Each number is mapped from its column's bounds to [-1, 1]; y is the vector of d of them.

    Parameters
    ----------
    columns : sequence of Column
        Columns with bounds, each once.
    radius : float, optional
        For Gaussian noise: rows with :math:`\lVert y\rVert_2` above it, at most √d, are scaled down to it.
        Without it, y may lie anywhere in the cube, and the coordinates are weighted for Laplace noise.
    count : bool or float
        Also measure how many rows there are, for tables whose size is private. A number is the weight of the
        count in place of that of the table below: a larger one has less noise in the count.
    centred : bool
        For noise of the cube, without a radius: 2y_i²-1 in place of y_i², which is in [-1, 1] as all else is.

    Notes
    -----
    The order is that of the upper triangle, row by row: (1), y_1, ..., y_d, y_1 y_1, y_1 y_2, ..., y_d y_d.
    The coordinates share one sensitivity. With r the radius:

    ========== =========== ==================================== ============== ===================================
    noise      weight of 1 weights of y_i, y_i², y_i y_j         radius         diameter
    ========== =========== ==================================== ============== ===================================
    Gaussian   r/2         1, 1/r, √2/r                          3r/2           √4.5 r (d = 1: 2r)
    Laplace    d/2         1, 1/2, 1/2                           d (d+7)/4      2d + d (d-1)²/(4 (d+1))
    cube       1           1, 1 (of 2y_i²-1), 1                  1 (L∞)         2 (L∞)
    ========== =========== ==================================== ============== ===================================

    The radius is that with the count; without, it is √2 r and d (d+5)/4. With a weight w of its own, the squared
    radius is w² + 2 r² for Gaussian noise. The diameter is of two rows that count alike, and has no w in it: where
    rows only change, a count of complete rows (`Given`) is free up to w = √2.5 r (d = 1: √2 r). Rows in different
    categories are √2 (2) radii apart, which for Gaussian noise, and the weight of the table, is √4.5 r as well.

    In the norm of infinity, with m = min(r, 1), the radius without the count is m, and the diameter 2m; for the
    cube, m = 1. For :math:`|y_i| \le m`, :math:`y_i^2/r \le m^2/r \le m`, and as :math:`2|y_i y_j| \le r^2`,
    :math:`\sqrt2\,|y_i y_j|/r \le \min(\sqrt2\,m^2/r,\ r/\sqrt2) \le m`: the first for r above √2, the second
    for r up to √2 (if r ≤ 1, it is r/√2). With the count, the radius is max(m, r/2), for the cube max(1, d/2).
    Centred, every coordinate is in [-1, 1]: the radius is 1, or a weight w above 1 of the count, and the diameter
    2; so a count of complete rows (`Given`) is free up to w = 2 where rows only change. In L1 and L2 the radius is
    that of a corner, 2d + d(d-1)/2 ones beside the count, and the diameter is said to be twice that.

    A sum of products is not rounded row by row: y is, to multiples of :math:`2^{-19}`, so that a matrix product
    adds up the products of a batch exactly. The sum of all rows is exact too, and is rounded once, in the end.
    Radius and diameter are of the rounded y, which stay in the cube or the ball, and are rounded up by more than
    the weights' own last bits.
    """

    weights: NDArray[np.float64]
    portable = True

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        radius: float | None = None,
        count: bool | float = False,
        centred: bool = False,
    ) -> None:
        self.columns = tuple(columns)
        d = len(self.columns)
        if not d or len({column.name for column in self.columns}) < d:
            names = [column.name for column in self.columns]
            raise ArgumentError(f"columns={names!r} must name at least one column, each once.")
        if radius is not None and not _RADIUS_MIN <= radius / math.sqrt(d) <= 1:
            raise ArgumentError(
                f"radius={radius!r} is out of range for {d} columns.",
                f"Use at most √{d} = {math.sqrt(d):.4g}, the largest L2 norm of {d} numbers in [-1, 1].",
            )
        if centred and radius is not None:
            raise ArgumentError("centred=True must be used without radius=.", "Leave one of them out.")
        self.ball = radius
        self.centred = centred
        self._maps = [(column.mid, column.half * 2.0**-_BITS) for column in self.columns]
        one, square, product = (
            (d / 2, 0.5, 0.5) if radius is None else (radius / 2, 1 / radius, math.sqrt(2) / radius)
        )
        if centred:
            one = square = product = 1.0
        self.count = bool(count)
        if not isinstance(count, bool):
            if not 0 < count < math.inf:
                raise ArgumentError(
                    f"count={count!r} is not a weight.", "Use count=True, count=False or a positive number."
                )
            one = float(count)
        grid = np.full((d + 1, d + 1), product)
        np.fill_diagonal(grid, square)
        grid[0] = 1.0
        grid[0, 0] = one
        # What is added up; rows are counted for 2y²-1 too.
        self._upper = tuple(indices[0 if count or centred else 1 :] for indices in np.triu_indices(d + 1))
        self.weights = grid[self._upper][int(centred and not count) :]
        self.shape = self.weights.shape
        self.n_sums = len(self._upper[0])
        self.support = 2 * self.dimension  # steps: the final rounding moves each coordinate of either row by one

    def points(self, batch: Batch) -> NDArray[np.float64]:
        """Return (1, y) of each row, as multiples of 2^-19, shape (d + 1, batch.size)."""
        points = np.empty((len(self.columns) + 1, batch.size))
        points[0] = 2.0**_BITS
        for y, column, (mid, half) in zip(points[1:], self.columns, self._maps, strict=True):
            np.subtract(batch.values(column), mid, out=y)
            np.divide(y, half, out=y)  # rounding is monotone, so y stays within the steps of [-1, 1]
        if self.ball is not None and self.ball < math.sqrt(len(self.columns)):
            self._scale_down(points[1:])
        return np.rint(points, out=points)

    def _scale_down(self, y: NDArray[np.float64]) -> None:
        """Scale the rows outside the ball down to its radius in place, with a margin for rounding."""
        radius = float(self.ball or 0) * 2.0**_BITS - math.sqrt(len(y))
        squares = np.zeros(y.shape[1])
        for each in y:  # one after the other: a row's length must not depend on the batch
            squares += each * each
        y *= radius / np.sqrt(np.maximum(squares, radius * radius, out=squares), out=squares)

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        steps = self.steps(batch, 0)
        if self.centred:
            steps = np.array([self._centred_sums(row) for row in steps.tolist()]).reshape(
                batch.size, self.dimension
            )
        vectors: NDArray[np.float64] = steps * (4.0**-_BITS * self.weights)
        return vectors

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:  # noqa: ARG002 - the unit is its own
        """Return the entries of the outer product of each row's (1, y), without weights, as multiples of 2^-38."""
        points = self.points(batch)
        i, j = self._upper
        return (points[i] * points[j]).T

    def totals(
        self,
        batch: Batch,
        labels: NDArray[np.intp] | None,
        n_groups: int,
        k: int,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Return the exact sums of products by group, without weights, as multiples of 2^-38."""
        if labels is None:
            return self._sums_of_products(self.points(batch))[None]
        small = labels.astype(np.uint16) if n_groups < 1 << 16 else labels  # NumPy sorts short integers by digits
        points = self.points(batch).take(np.argsort(small, kind="stable"), axis=1)
        ends = np.cumsum(np.bincount(labels, minlength=n_groups)[:n_groups])
        return np.array([self._sums_of_products(part) for part in np.split(points, ends, axis=1)[:n_groups]])

    def _sums_of_products(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        if len(points) > _NARROW:
            products: NDArray[np.float64] = points @ points.T
        else:
            products = np.full((len(points),) * 2, points.shape[1] * 4.0**_BITS)  # the count, and then the others
            products[:, 1:] = points @ points[1:].T
        return products[self._upper]

    def _centred_sums(self, total: list[Any]) -> list[Any]:
        """Return the sums with 2y_i²-1 in place of y_i², given sums whose first one is the number of rows."""
        rows, pairs = total[0], zip(total, *(indices.tolist() for indices in self._upper), strict=True)
        sums = [2 * t - rows if i == j > 0 else t for t, i, j in pairs]
        return sums if self.count else sums[1:]

    def image(self, total: Integers, k: int) -> Integers:
        """Multiply the exact sums by the weights, and round them to multiples of 2^-k."""
        total = integers(total)
        if self.centred:
            total = self._centred_sums(total)
        ratios = [weight.as_integer_ratio() for weight in self.weights.tolist()]
        shifts = [2 * _BITS - k + over.bit_length() - 1 for _, over in ratios]
        return [
            ((times * t >> shift - 1) + 1 >> 1) if shift > 0 else times * t << -shift
            for t, (times, _), shift in zip(total, ratios, shifts, strict=True)
        ]

    def radius(self, norm: Norm) -> float:
        """Return the largest norm of a row's feature vector."""
        one = float(self.weights[0]) if self.count else 0.0
        if norm == math.inf:
            return max(one, self._norm_without_count(norm))
        return one + self._norm_without_count(1) if norm == 1 else math.hypot(one, self._norm_without_count(2)) * UP

    def _norm_without_count(self, norm: Norm) -> float:
        """Return the largest norm of all coordinates except the count, for y in the cube or in the ball."""
        d = len(self.columns)
        if norm == math.inf:
            return 1.0 if self.ball is None else min(self.ball, 1.0) * UP
        if self.centred:
            ones = 2 * d + d * (d - 1) / 2
            return ones if norm == 1 else root(ones)
        if self.ball is None:
            return d * (d + 5) / 4 if norm == 1 else root(d * (d + 9) / 8)
        if norm == 2:  # noqa: PLR2004
            return math.sqrt(2) * self.ball * UP
        return (math.sqrt(d) * self.ball + self.ball * (1 + math.sqrt(0.5) * (d - 1))) * UP

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance between the feature vectors of two rows."""
        if all(column.name in public for column in self.columns):
            return 0.0
        d = len(self.columns)
        if self.ball is None and norm == 1 and not self.centred:
            return _cube_diameter(d, 0.5)
        if self.ball is not None and norm == 2:  # noqa: PLR2004
            farthest = 2 * self.ball if d == 1 else math.sqrt(_ball_diameter_squared(self.ball, 1 / self.ball))
            return farthest * UP
        return 2 * self._norm_without_count(norm)

    def describe(self) -> str:
        """Return a description of the features."""
        products = [*(column.name for column in self.columns), "their products"]
        return join_names(["ones", *products] if self.count else products)


def _ball_diameter_squared(r: float, w: float) -> float:
    """Return the largest squared L2 distance of two points (y, w y yᵀ) with y in a ball of two or more dimensions.

    With a and b the lengths of y and y', and c their product, it is a² + b² - 2c + w² (a⁴ + b⁴ - 2c²), which grows
    with a and b; at a = b = r the best c in [-r², r²] is -1/(2w²), or -r².
    """
    if 2 * w * w * r * r <= 1:
        return 4 * r * r
    return 2 * r * r + 2 * w * w * r**4 + 1 / (2 * w * w)


def _cube_diameter(d: int, w: float) -> float:
    """Return the largest L1 distance of two points (y, w y_i y_j for i ≤ j) with y in [-1, 1]^d.

    With s and t the sum and difference of y and y', y_i y_j - y'_i y'_j = (s_i t_j + t_i s_j)/2 and
    |t_i| ≤ 2 - |s_i|, so with S the sum of |s_i| and Q that of their squares it is at most
    2d + S (w (d+1) - 1) - w (S² + Q)/2, and Q ≥ S²/d. All s_i = 1 - 1/(w (d+1)) attain the maximum.
    """
    u = w * (d + 1)
    return (2 * d + d * (u - 1) ** 2 / (2 * u)) * UP if u > 1 else 2.0 * d
