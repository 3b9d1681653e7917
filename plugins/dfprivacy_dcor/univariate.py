r"""Distance covariance of two numbers a row, exactly, in n log n steps.

With :math:`a_{ij} = |x_i - x_j|`, :math:`b_{ij} = |y_i - y_j|`, row sums :math:`a_{i\cdot}` and totals
:math:`a_{\cdot\cdot}`, the squared distance covariance of a sample [1]_ is

.. math::
   \mathrm{dCov}^2 = \frac{S_1}{n^2} - \frac{2 S_2}{n^3} + \frac{S_3}{n^4}, \quad
   S_1 = \sum_{ij} a_{ij} b_{ij}, \quad S_2 = \sum_i a_{i\cdot} b_{i\cdot}, \quad
   S_3 = a_{\cdot\cdot} b_{\cdot\cdot}.

Near independence the three terms cancel, and the square root makes much of what is left. So the numbers are put on
a grid, which is a pure function of each, and all sums are those of whole numbers: nothing is lost.

References
----------
.. [1] Székely, Rizzo and Bakirov (2007). Measuring and testing dependence by correlation of distances.
   Annals of Statistics 35.
.. [2] Huo and Székely (2016). Fast computing for distance covariance. Technometrics 58.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Line", "covariance", "covariance_u", "grid_bits", "on_grid"]

_BITS_MAX = 26
_FEW = 128


def grid_bits(n: int) -> int:
    """Bits k of a grid on [0, 1] for which sums of n products of two numbers on it stay below 2^62."""
    return min(_BITS_MAX, (62 - n.bit_length()) // 2)


def on_grid(unit: NDArray[np.float64], bits: int) -> NDArray[np.int64]:
    """Round numbers in [0, 1] to whole steps of 2^-bits."""
    return np.rint(np.ldexp(unit, bits)).astype(np.int64)


@dataclass(frozen=True)
class Line:
    """Whole numbers, one a row, and what follows from them alone.

    Attributes
    ----------
    values : ndarray of int64 of shape (n,)
        From 0 to 2^bits.
    bits : int
        What they are counted in: steps of 2^-bits of the width of the bounds.
    """

    values: NDArray[Any]
    bits: int

    @property
    def size(self) -> int:
        """Number of rows n."""
        return len(self.values)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Rows in increasing order."""
        return np.argsort(self.values, kind="stable")

    @cached_property
    def ranks(self) -> NDArray[np.intp]:
        """Places of the rows in that order."""
        ranks = np.empty(self.size, dtype=np.intp)
        ranks[self.order] = np.arange(self.size)
        return ranks

    @cached_property
    def row_sums(self) -> NDArray[Any]:
        """Sum of the distances from each row to all others, in steps."""
        ordered = self.values[self.order]
        below = np.cumsum(ordered) - ordered
        sums = np.empty_like(ordered)
        sums[self.order] = (2 * np.arange(self.size) - self.size) * ordered + ordered.sum() - 2 * below
        return sums

    @cached_property
    def total(self) -> int:
        """Sum of all distances, in steps."""
        return _total(self.row_sums)

    @property
    def mean(self) -> float:
        """Mean distance m, as a part of the width."""
        return float(Fraction(self.total, self.size**2 << self.bits))

    @cached_property
    def variance(self) -> Fraction:
        """Squared distance variance, as a part of the squared width."""
        first = 2 * (self.size * _dot(self.values, self.values) - int(self.values.sum()) ** 2)
        return _together(self, self, first)

    def permuted(self, places: NDArray[np.intp]) -> Line:
        """Give the same numbers in other rows."""
        line = Line(self.values[places], self.bits)
        order = np.empty_like(places)
        order[places] = np.arange(self.size)
        vars(line).update(order=order[self.order], ranks=self.ranks[places], total=self.total)
        vars(line)["row_sums"] = self.row_sums[places]
        return line


def covariance(x: Line, y: Line) -> Fraction:
    """Squared distance covariance of a sample, at least 0.

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
    >>> x = Line(np.arange(4), 2)
    >>> covariance(x, x) == x.variance
    True
    """
    return _together(x, y, _products(x, y))


def covariance_u(x: Line, y: Line) -> Fraction:
    """Squared distance covariance of the population without bias, perhaps below 0, in the same units."""
    n = x.size
    second, third = _dot(x.row_sums, y.row_sums), x.total * y.total
    total = (n - 1) * (n - 2) * _products(x, y) - 2 * (n - 1) * second + third
    return Fraction(total, (n * (n - 1) * (n - 2) * (n - 3)) << (x.bits + y.bits))


def _together(x: Line, y: Line, first: int) -> Fraction:
    n = x.size
    second, third = _dot(x.row_sums, y.row_sums), x.total * y.total
    return Fraction(n**2 * first - 2 * n * second + third, n**4 << (x.bits + y.bits))


def _products(x: Line, y: Line) -> int:
    """Sum of the products of all distances.

    A product is (x_i - x_j)(y_i - y_j) but for its sign, so their sum is four times that over the pairs in which
    both grow, less twice that over all. Of few rows all pairs at once take a tenth of the time.
    """
    if x.size <= _FEW:
        apart, its = (np.abs(np.subtract.outer(line.values, line.values)) for line in (x, y))
        return _total(apart * its)
    concordant = _concordant(x.values[x.order], y.values[x.order], y.ranks[x.order])
    covariance = x.size * _dot(x.values, y.values) - int(x.values.sum()) * int(y.values.sum())
    return 2 * (2 * concordant - covariance)


def _concordant(x: NDArray[Any], y: NDArray[Any], ranks: NDArray[np.intp]) -> int:
    """Sum of (x_i - x_j)(y_i - y_j) over the pairs of rows with j before i and a smaller rank of y.

    One pass for each bit of the ranks, the highest first. In each, the rows stand in blocks that share all higher
    bits, in the order of x; rows with a 0 in this bit have smaller ranks than those of the same block with a 1,
    and go before them. Ranks are all different, so each block has as many zeros as ones.
    """
    levels = max(1, int(len(x) - 1).bit_length())
    size = 1 << levels
    if size > len(x):  # rows that stand first and have the highest ranks are in no pair that counts
        more = size - len(x)
        x, y = (np.concatenate([np.zeros(more, dtype=part.dtype), part]) for part in (x, y))
        ranks = np.concatenate([np.arange(len(ranks), size), ranks])
    ranks = ranks.astype(np.int32 if levels < 31 else np.int64)  # noqa: PLR2004
    total = 0
    for level in reversed(range(levels)):
        bit = (ranks >> level) & 1
        ones, zeros = np.flatnonzero(bit), np.flatnonzero(bit == 0)
        x1, y1, x0, y0 = x[ones], y[ones], x[zeros], y[zeros]
        before = ones - np.arange(size // 2)  # zeros before each one, in all blocks
        half = 1 << level
        start = np.arange(size // 2) & -half  # zeros before its block
        sums = [_between(values, before, half) for values in (x0, y0, x0 * y0)]
        total += _total(x1 * (y1 * (before - start) - sums[1]) - (y1 * sums[0] - sums[2]))
        x, y, ranks = (
            np.stack([low.reshape(-1, half), high.reshape(-1, half)], axis=1).ravel()
            for low, high in ((x0, x1), (y0, y1), (ranks[zeros], ranks[ones]))
        )
    return total


def _between(values: NDArray[Any], before: NDArray[np.intp], half: int) -> NDArray[Any]:
    """Sum of the values up to `before` from the start of the block, a whole multiple of `half`."""
    sums = np.concatenate([np.zeros(1, dtype=values.dtype), np.cumsum(values)])
    between: NDArray[Any] = sums[before] - np.repeat(sums[: len(values) : half], half)
    return between


def _total(values: NDArray[Any]) -> int:
    """Sum of whole numbers below 2^62, which int64 alone cannot hold, as that of 6 million rows of distances."""
    return (int((values >> 31).sum()) << 31) + int((values & (2**31 - 1)).sum())


def _dot(a: NDArray[Any], b: NDArray[Any]) -> int:
    """Sum of products of whole numbers from 0 on, which int64 alone cannot hold."""
    n, bits = len(a), (62 - len(a).bit_length()) // 2
    if int(a.max()).bit_length() + int(b.max()).bit_length() + n.bit_length() < 64:  # noqa: PLR2004
        return int(np.dot(a, b))
    return sum(
        int(np.dot(high, low)) << (bits * (i + j))
        for i, high in enumerate(_limbs(a, bits))
        for j, low in enumerate(_limbs(b, bits))
    )


def _limbs(values: NDArray[Any], bits: int) -> list[NDArray[Any]]:
    count = -(-int(values.max()).bit_length() // bits)
    return [(values >> (bits * at)) & ((1 << bits) - 1) for at in range(count)]
