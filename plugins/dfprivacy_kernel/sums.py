"""Exact sums of the values of rows: whole numbers, whatever the order of the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy_kernel.embedding import MAP_STEP, STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from dfprivacy.features import Batch
    from dfprivacy_kernel.embedding import Array, Embedding

    Integers = NDArray[Any]  # int64, or Python integers of any size

__all__ = ["ROUNDING", "Sample", "mapped", "products_of", "totals"]

_ROWS = 1 << 10  # rows at a time: their values fit the cache
_HALF = 13  # bits of the lower half of a value: products of halves add up exactly
_DIGIT = 20  # bits of a digit: products of two, added over 2^13 places, are at most 2^53

ROUNDING = 2.0**-48
"""Relative error, for each dimension, of what floating-point arithmetic makes of exact sums."""


@dataclass(frozen=True)
class Sample:
    """Some rows, at these places of a batch, or the differences of some from others, as an embedding has them."""

    embedding: Embedding
    batch: Batch
    first: NDArray[np.intp]
    second: NDArray[np.intp] | None = None

    @property
    def size(self) -> int:
        """How many."""
        return len(self.first)

    def of(self, chosen: NDArray[Any]) -> Sample:
        """Give some of them."""
        second = None if self.second is None else self.second[chosen]
        return replace(self, first=self.first[chosen], second=second)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Go through them: which they are, and their values in whole steps, shape (rows, M)."""
        for start in range(0, self.size, _ROWS):
            at = slice(start, min(start + _ROWS, self.size))
            steps = self.embedding.steps(self.batch.take(self.first[at]))
            if self.second is not None:
                steps -= self.embedding.steps(self.batch.take(self.second[at]))
            yield at, steps

    def total(self) -> Array:
        """Sum the embedded values, shape (F,), exactly."""
        ones = np.ones((1, _ROWS))
        total: Array = mapped(self.embedding, totals(self, lambda at: ones[:, : at.stop - at.start], 1))[0]
        return total

    def moments(self) -> tuple[Array, Array]:
        """Sum the embedded values, shape (F,), and their outer products with themselves, exactly."""
        sums, products = products_of((steps for _, steps in self.blocks()), self.embedding.width)
        steps = _map_steps(self.embedding)
        image = _product(_product(steps, products), steps.T)
        return mapped(self.embedding, sums[None])[0], _rounded(image, 2 * (STEP + MAP_STEP))


def totals(sample: Sample, coefficients: Callable[[slice], Array], count: int) -> Integers:
    """Sum values of rows with small whole coefficients, exactly.

    Parameters
    ----------
    sample : Sample
        The rows.
    coefficients : callable
        Given a slice of rows, returns their coefficients, shape (sums, rows).
    count : int
        How many sums.

    Returns
    -------
    ndarray of int, shape (sums, M)
        The sums, in steps: Python integers, which arithmetic never wraps around.
    """
    total = np.zeros((count, sample.embedding.width), dtype=np.int64)
    for at, steps in sample.blocks():
        total += (coefficients(at) @ steps).astype(np.int64)
    return total.astype(object)


def products_of(blocks: Iterable[Array], width: int) -> tuple[Integers, Integers]:
    """Sum values of rows, and their outer products with themselves, exactly.

    Values are at most 2^27 in size. Each is a multiple of 2^13 and a rest: a product of two halves is at most 2^28,
    and a thousand of them add up exactly in float64.

    Parameters
    ----------
    blocks : iterable of ndarray
        Values of some rows in whole steps, shape (rows, M), of 2^24 rows at most.
    width : int
        M.

    Returns
    -------
    ndarray of int, shape (M,)
        The sums, in steps.
    ndarray of int, shape (M, M)
        Those of the products, in squared steps.
    """
    total, products = np.zeros(width, dtype=np.int64), np.zeros((2 * width, 2 * width), dtype=np.int64)
    for steps in blocks:
        total += steps.sum(axis=0).astype(np.int64)
        high = np.rint(steps * 2.0**-_HALF)
        halves = np.hstack([high, steps - high * 2.0**_HALF])
        products += (halves.T @ halves).astype(np.int64)  # of a matrix with itself: BLAS does half the work
    whole = products.astype(object)
    crossed = whole[:width, width:]
    return total.astype(object), (
        (whole[:width, :width] << 2 * _HALF) + ((crossed + crossed.T) << _HALF) + whole[width:, width:]
    )


def mapped(embedding: Embedding, sums: Integers) -> Array:
    """Apply the map of an embedding to sums, shape (sums, M), exactly; rounded to float64 in the end."""
    return _rounded(_product(sums, _map_steps(embedding).T), STEP + MAP_STEP)


def _rounded(numbers: Integers, bits: int) -> Array:
    """Give whole numbers of steps of 2^-bits in float64."""
    rounded: Array = np.ldexp(numbers.astype(np.float64), -bits)
    return rounded


def _map_steps(embedding: Embedding) -> Integers:
    """Give the map of an embedding in whole steps."""
    steps: Integers = np.vectorize(int, otypes=[object])(np.ldexp(embedding.map, MAP_STEP))
    return steps


def _product(left: Integers, right: Integers) -> Integers:
    """Multiply matrices of whole numbers of any size, digit by digit, each product exact in float64."""
    ones, others = _digits(left), _digits(right)
    total: Integers = np.zeros((left.shape[0], right.shape[1]), dtype=object)
    for place in reversed(range(len(ones) + len(others) - 1)):
        pairs = [(one, others[place - i]) for i, one in enumerate(ones) if 0 <= place - i < len(others)]
        total = (total << _DIGIT) + sum((one @ other).astype(np.int64) for one, other in pairs)
    return total


def _digits(numbers: Integers) -> list[Array]:
    """Give the digits of whole numbers, the lowest first; the highest has the sign, the others are none below 0."""
    digits = []
    while numbers.size and max(numbers.max(), -numbers.min()) > 1 << _DIGIT:
        digits.append((numbers & ((1 << _DIGIT) - 1)).astype(np.float64))
        numbers = numbers >> _DIGIT
    return [*digits, numbers.astype(np.float64)]
