"""Exact sums of the values of rows: whole numbers, whatever the order of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy_kernel.embedding import MAP_STEP, STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.features import Batch
    from dfprivacy_kernel.embedding import Array, Embedding

    Integers = NDArray[Any]  # int64, or Python integers of any size

__all__ = ["ROUNDING", "differences", "gram_of", "image_of", "mapped", "middle", "totals"]

_ROWS = 1 << 12  # rows at a time: their values fit the cache
_BLOCK = 1 << 10  # rows whose outer products are added in float64, and
_LOW = 21  # bits in which that sum may be off: see `gram_of`
_DIGIT = 20  # bits of a digit: products of two, added over 2^12 places, stay below 2^53

ROUNDING = 2.0**-48
"""Relative error, for each dimension, of what floating-point arithmetic makes of exact sums."""


@dataclass(frozen=True)
class _Part:
    """Some consecutive rows, as features read them."""

    batch: Batch
    rows: slice

    @property
    def size(self) -> int:
        return int(self.rows.stop - self.rows.start)

    def values(self, column: Column) -> Array:
        values: Array = self.batch.values(column)[self.rows]
        return values

    def standardized(self, column: Column) -> Array:
        return (self.values(column) - column.mid) / column.half

    def codes(self, column: Column) -> Any:
        return self.batch.codes(column)[self.rows]


class _Middle:
    """One public row, in the middle of the bounds, with the first of the categories, as features read it."""

    size = 1

    def values(self, column: Column) -> Array:
        return np.array([column.mid])

    def standardized(self, column: Column) -> Array:  # noqa: ARG002
        return np.zeros(1)

    def codes(self, column: Column) -> Any:  # noqa: ARG002
        return np.zeros(1, dtype=np.intp)


def middle(embedding: Embedding) -> Integers:
    """Give the values of a public row in whole steps, shape (M,)."""
    values: Integers = embedding.steps(_Middle())[0].astype(np.int64).astype(object)
    return values


def differences(
    rows: Batch, embedding: Embedding, complete: NDArray[np.bool_]
) -> tuple[Any, Callable[[Any], Array]]:
    """Pair the first half of some rows with the second: the first half, and what gives its rows' differences.

    Pairs that are not complete, shape (pairs,), have a difference of 0.
    """
    half = rows.size // 2

    def values(part: _Part) -> Array:
        later = _Part(rows, slice(part.rows.start + half, part.rows.stop + half))
        difference: Array = embedding.steps(part) - embedding.steps(later)
        return np.where(complete[part.rows, None], difference, 0.0)

    return _Part(rows, slice(0, half)), values


def parts_of(rows: Batch) -> Iterator[_Part]:
    """Cut a batch into parts that fit the cache."""
    for start in range(0, rows.size, _ROWS):
        yield _Part(rows, slice(start, min(start + _ROWS, rows.size)))


def totals(
    rows: Batch, values: Callable[[Any], Array], coefficients: Callable[[slice], Array], shape: tuple[int, int]
) -> Integers:
    """Sum values of rows with small whole coefficients, exactly.

    Parameters
    ----------
    rows : Batch
        The rows.
    values : callable
        Given some rows, returns their values in whole steps, shape (rows, M).
    coefficients : callable
        Given a slice of rows, returns their coefficients, shape (sums, rows).
    shape : tuple
        (sums, M).

    Returns
    -------
    ndarray of int64
        The sums, in steps.
    """
    total = np.zeros(shape, dtype=np.int64)
    for part in parts_of(rows):
        total += (coefficients(part.rows) @ values(part)).astype(np.int64)
    return total


def gram_of(rows: Batch, values: Callable[[Any], Array], chosen: NDArray[np.bool_], width: int) -> Integers:
    """Sum the outer products of the values of the chosen rows with themselves, exactly, in squared steps.

    Values are at most 2^26 in size. The product of a block of rows in float64 is off by less than 2^20: a sum of
    2^10 products, below 2^52, is rounded 2^10 times at most, by 2^-53 of itself (Higham 2002, section 3.1). Its
    lowest 21 bits are those of the product of the values' own lowest 21 bits, with signs, which is exact: products
    of 40 bits add up to 50. The two tell the whole number. So it is with the sum of all blocks, of which the
    lowest 64 bits add up in int64, and float64 tells the rest.
    """
    nearly, lowest, blocks = np.zeros((width, width)), np.zeros((width, width), dtype=np.int64), 0
    for part in parts_of(rows):
        steps = values(part)[chosen[part.rows]]
        low = steps - np.rint(steps * 2.0**-_LOW) * 2.0**_LOW
        for start in range(0, len(steps), _BLOCK):
            block, of_low = steps[start : start + _BLOCK], low[start : start + _BLOCK]
            product = block.T @ block  # of a matrix with itself: BLAS does half the work
            nearly += product
            whole = product.astype(np.int64)
            off = (of_low.T @ of_low).astype(np.int64)
            off -= whole
            off += 1 << (_LOW - 1)
            off &= (1 << _LOW) - 1
            whole += off
            lowest += whole  # and wraps around
            blocks += 1
    total = np.vectorize(int, otypes=[object])(nearly)
    off = (lowest.astype(object) - blocks * (1 << (_LOW - 1)) - total + (1 << 63)) % (1 << 64) - (1 << 63)
    whole_total: Integers = total + off
    return whole_total


def mapped(embedding: Embedding, sums: Integers) -> Array:
    """Apply the map of an embedding to sums, shape (sums, M), exactly; rounded to float64 in the end."""
    steps = _product(sums.astype(object), _integers(embedding.map).T)
    return np.ldexp(steps.astype(np.float64), -STEP - MAP_STEP)


def image_of(embedding: Embedding, gram: Integers) -> Array:
    """Apply the map of an embedding to both sides of a sum of outer products, exactly."""
    integers = _integers(embedding.map)
    squared = _product(_product(integers, gram), integers.T)
    return np.ldexp(squared.astype(np.float64), -2 * (STEP + MAP_STEP))


def _integers(map_: Array) -> Integers:
    return np.array([[int(entry) for entry in row] for row in np.ldexp(map_, MAP_STEP)], dtype=object)


def _product(left: Integers, right: Integers) -> Integers:
    """Multiply matrices of whole numbers of any size, digit by digit, each product exact in float64."""
    total = np.zeros((left.shape[0], right.shape[1]), dtype=object)
    digits = list(_digits(right))
    for i, one in enumerate(_digits(left)):
        for j, other in enumerate(digits):
            total += (one @ other).astype(np.int64).astype(object) << _DIGIT * (i + j)
    return total


def _digits(numbers: Integers) -> Iterator[Array]:
    """Give the digits of whole numbers, the lowest first, with the numbers' signs."""
    sign = np.where(numbers < 0, -1.0, 1.0)
    rest: Any = abs(numbers)
    while rest.any():
        yield sign * (rest & ((1 << _DIGIT) - 1)).astype(np.float64)
        rest = rest >> _DIGIT
