"""Exact sums of the values of rows: whole numbers, whatever the order of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy_kernel.embedding import MAP_STEP, STEP

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.features import Batch
    from dfprivacy_kernel.embedding import Array, Embedding

    Integers = NDArray[Any]  # int64, or Python integers of any size
    Digits = list[Array]  # whole numbers, each that of its place

__all__ = ["ROUNDING", "Part", "differences", "image_of", "mapped", "middle", "moments_of", "products_of", "totals"]

_ROWS = 1 << 10  # rows at a time: their values fit the cache
_BLOCK = 1 << 10  # rows whose outer products are added in float64, and then
_LOW = 21  # bits in which that sum may be off: see `products_of`
_DIGIT = 20  # bits of a digit: products of two, added over 2^12 places, stay below 2^53
_LAST_DIGIT, _TOP = (1 << _DIGIT) - 1, 1 << (_DIGIT - 1)
_CHUNK = 3 * _DIGIT  # bits of several digits that int64 holds
_SMALL = 1 << _CHUNK

ROUNDING = 2.0**-48
"""Relative error, for each dimension, of what floating-point arithmetic makes of exact sums."""


@dataclass(frozen=True)
class Part:
    """Some rows, as features read them: consecutive ones, or those at some places."""

    batch: Batch
    rows: slice | NDArray[np.intp]

    @property
    def size(self) -> int:
        """How many."""
        return self.rows.stop - self.rows.start if isinstance(self.rows, slice) else len(self.rows)

    def after(self, rows: int) -> Part:
        """Give those that come so many rows later."""
        at = self.rows
        return Part(self.batch, slice(at.start + rows, at.stop + rows) if isinstance(at, slice) else at + rows)

    def values(self, column: Column) -> Array:
        """Numbers of a column."""
        values: Array = self.batch.values(column)[self.rows]
        return values

    def standardized(self, column: Column, unit: float = 1.0, *, out: Array | None = None) -> Array:
        """Numbers of a column, with bounds of -1 and 1, times a unit."""
        y = np.subtract(self.values(column), column.mid, out=out)
        y /= column.half
        y *= unit
        return y

    def codes(self, column: Column) -> Any:
        """Codes of a category."""
        return self.batch.codes(column)[self.rows]


class _Middle:
    """One public row, in the middle of the bounds, with the first of the categories, as features read it."""

    size = 1

    def values(self, column: Column) -> Array:
        return np.array([column.mid])

    def standardized(self, column: Column, unit: float = 1.0, *, out: Array | None = None) -> Array:  # noqa: ARG002
        return np.multiply(np.zeros(1), unit, out=out)

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

    def values(part: Part) -> Array:
        difference: Array = embedding.steps(part) - embedding.steps(Part(rows, part.rows).after(half))
        return np.where(complete[part.rows, None], difference, 0.0)

    return Part(rows, slice(0, half)), values


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
    for start in range(0, rows.size, _ROWS):
        at = slice(start, min(start + _ROWS, rows.size))
        total += (coefficients(at) @ values(Part(rows, at))).astype(np.int64)
    return total


def moments_of(
    rows: Batch, values: Callable[[Any], Array], embedding: Embedding, chosen: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Sum the embedded values of the chosen rows, shape (F,), and their outer products with themselves, exactly."""
    sums, products = products_of(rows, values, chosen, embedding.width)
    return mapped(embedding, sums[None])[0], image_of(embedding, products)


def products_of(
    rows: Batch, values: Callable[[Any], Array], chosen: NDArray[np.bool_], width: int
) -> tuple[Integers, Integers]:
    """Sum the values of the chosen rows, and their outer products with themselves, exactly.

    Values are at most 2^26 in size. The product of a block of rows in float64 is off by less than 2^20: a sum of
    2^10 products, each 2^52 at most, is rounded 2^10 times at most, by 2^-53 of what all come to (Higham 2002,
    section 3.1), which is 2^19. Its lowest 21 bits are those of the product of the values' own lowest 21 bits, with
    signs, which is exact: products of 40 bits add up to 50. The two tell the whole number. So it is with the sum of
    all blocks, of which the lowest 64 bits add up in int64, and float64 tells the rest.

    Parameters
    ----------
    rows : Batch
        The rows.
    values : callable
        Given some rows, returns their values in whole steps, shape (rows, M).
    chosen : ndarray of bool, shape (rows,)
        The rows that count.
    width : int
        M.

    Returns
    -------
    ndarray of int64, shape (M,)
        The sums, in steps.
    ndarray of int, shape (M, M)
        Those of the products, in squared steps.
    """
    sums, nearly, blocks = np.zeros(width, dtype=np.int64), np.zeros((width, width)), 0
    lowest = np.zeros((width, width), dtype=np.int64)
    places = np.flatnonzero(chosen)
    for start in range(0, len(places), _BLOCK):
        steps = values(Part(rows, places[start : start + _BLOCK]))
        sums += steps.sum(axis=0).astype(np.int64)
        low = steps - np.rint(steps * 2.0**-_LOW) * 2.0**_LOW
        product = steps.T @ steps  # of a matrix with itself: BLAS does half the work
        nearly += product
        whole = product.astype(np.int64)
        off = (low.T @ low).astype(np.int64)
        off -= whole
        off += 1 << (_LOW - 1)
        off &= (1 << _LOW) - 1
        whole += off
        lowest += whole  # which wraps around
        blocks += 1
    whole_part = np.vectorize(int, otypes=[object])(nearly)
    off_part = (lowest.astype(object) - blocks * (1 << (_LOW - 1)) - whole_part + (1 << 63)) % (1 << 64) - (1 << 63)
    return sums, whole_part + off_part


def mapped(embedding: Embedding, sums: Integers) -> Array:
    """Apply the map of an embedding to sums, shape (sums, M), exactly; rounded to float64 in the end."""
    steps = _whole(_product(_digits(sums.astype(object)), [digit.T for digit in _digits_of(embedding)]))
    return np.ldexp(steps.astype(np.float64), -STEP - MAP_STEP)


def image_of(embedding: Embedding, gram: Integers) -> Array:
    """Apply the map of an embedding to both sides of a sum of outer products, exactly."""
    of_map = _digits_of(embedding)
    squared = _whole(_product(_product(of_map, _digits(gram)), [digit.T for digit in of_map]))
    return np.ldexp(squared.astype(np.float64), -2 * (STEP + MAP_STEP))


def _digits_of(embedding: Embedding) -> Digits:
    """Give the digits of the map of an embedding, which is public."""
    return _digits_of_map(embedding.map.tobytes(), len(embedding.map))


@lru_cache(maxsize=4)
def _digits_of_map(entries: bytes, rows: int) -> Digits:
    steps = np.ldexp(np.frombuffer(entries).reshape(rows, -1), MAP_STEP)
    return _digits(np.array([[int(entry) for entry in row] for row in steps], dtype=object))


def _product(left: Digits, right: Digits) -> Digits:
    """Multiply matrices of whole numbers of any size, digit by digit, each product exact in float64."""
    total = np.zeros((len(left) + len(right) - 1, left[0].shape[0], right[0].shape[1]), dtype=np.int64)
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            total[i + j] += (one @ other).astype(np.int64)
    digits, rest = [], np.zeros(total.shape[1:], dtype=np.int64)
    for each in total:
        rest += each
        digits.append((rest & _LAST_DIGIT).astype(np.float64))
        rest >>= _DIGIT
    return [*digits, *_split(rest)]


def _digits(numbers: Integers) -> Digits:
    """Give the digits of whole numbers, the lowest first; the highest has the sign, the others are none below 0."""
    digits: Digits = []
    rest: Any = numbers
    while rest.size and not -_SMALL <= rest.min() <= rest.max() < _SMALL:
        digits += _split((rest & ((1 << _CHUNK) - 1)).astype(np.int64), _CHUNK // _DIGIT)
        rest = rest >> _CHUNK
    return [*digits, *_split(rest.astype(np.int64))]


def _split(numbers: NDArray[np.int64], count: int = 0) -> Digits:
    """Give so many digits of whole numbers that are not below 0; of any, as many as it takes."""
    digits: Digits = []
    rest = numbers.copy()
    while len(digits) < count or (not count and rest.size and not -_TOP <= rest.min() <= rest.max() < _TOP):
        digits.append((rest & _LAST_DIGIT).astype(np.float64))
        rest >>= _DIGIT
    return digits if count else [*digits, rest.astype(np.float64)]


def _whole(digits: Digits) -> Integers:
    """Give the whole numbers that have some digits."""
    total = np.zeros(digits[0].shape, dtype=object)
    each = _CHUNK // _DIGIT
    for start in range(0, len(digits), each):
        parts = enumerate(digits[start : start + each])
        chunk = sum(
            (part.astype(np.int64) << _DIGIT * i for i, part in parts), np.zeros(total.shape, dtype=np.int64)
        )
        total += chunk.astype(object) << _DIGIT * start
    return total
