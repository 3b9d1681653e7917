"""Embeddings of rows in a feature space: the largest distance of two embedded rows, and exact sums.

docs/explanation/kernel_two_sample.md has the proofs. Every bound is computed without cancellation, so that rounding
changes it by some 2^-50 of itself; it is raised by 2^-30.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy

from dfprivacy import features
from dfprivacy.errors import ArgumentError
from dfprivacy.schema import as_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.features import Batch, RowFeatures

    Array = NDArray[np.float64]
    Integers = NDArray[Any]  # int64, or Python integers of any size

__all__ = [
    "ABOVE",
    "ROUNDING",
    "STEP",
    "Embedding",
    "Features",
    "Sample",
    "apply_map",
    "eigenvalue_bound",
    "lengthscales_of",
    "location_points",
    "make_embedding",
    "sums_and_products",
    "weighted_sums",
]

ABOVE = 1 + 2.0**-30
"""Factor that covers the rounding error of a norm or a bound."""


def eigenvalue_bound(moved: float, longest: float, traced: float = math.inf) -> float:
    """Return an upper bound of the largest eigenvalue of aa' - bb' for features a and b of two rows.

    Parameters
    ----------
    moved : float
        At least |a - b|.
    longest : float
        At least |a| and |b|.
    traced : float
        At least the trace, |a|² - |b|², where more is known of it.

    Returns
    -------
    float
        The bound; at most the square of the longest.
    """
    if moved >= longest:
        return longest**2 * ABOVE
    trace = min(traced, moved * (2 * longest - moved))
    # The root is that of (2 longest - moved)² or more: nothing cancels.
    return (trace + moved * math.sqrt(4 * longest**2 - 2 * trace - moved**2)) / 2 * ABOVE


Features = Literal["nystrom", "me", "scf"]

STEP = 26
"""Feature values are rounded to integer multiples of 2^-26."""

MAP_STEP = 40
"""The entries of a map are integer multiples of 2^-40."""

_TOLERANCE = 1e-6  # squared distance from the span of other points below which a point is left out
_FEW_COLUMNS = 3  # many points in few numeric columns cover the bounds evenly; else they are normal
_MANY_POINTS = 32
_EXP_ROUNDING = 1 + 2.0**-20  # what the rounding of an exponential adds to that of a value to whole steps


@dataclass(frozen=True)
class Embedding:
    """Embedding of rows in a feature space: public features, followed by a public linear map.

    Attributes
    ----------
    parts : tuple of RowFeatures
        Features with values in [-1, 1].
    map : ndarray of shape (F, M)
        What is applied to the M values.
    spans : tuple of (RowFeatures, float)
        Features whose L2 radii and diameters, times the numbers beside them, bound the length of a row and the
        distance of two: the root of the sum of their squares.
    points : ndarray
        The points of the map's rows, or of its frequencies.
    centre : float
        What is subtracted from the values.
    slip : float
        How far, in the Frobenius norm, the rounding of its entries moved the map.
    """

    parts: tuple[RowFeatures, ...]
    map: Array
    spans: tuple[tuple[RowFeatures, float], ...]
    points: Array
    centre: float = 0.0
    slip: float = 0.0

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns that the features use."""
        return self.parts[0].columns

    @property
    def names(self) -> str:
        """Names of the columns that the features use."""
        return ", ".join(column.name for column in self.columns)

    @property
    def width(self) -> int:
        """Number M of features, before the linear map is applied."""
        return int(self.map.shape[1])

    def diameter(self, public: frozenset[str]) -> float:
        """Return the largest distance, with rounding errors, of two embedded rows that agree on public columns."""
        if self.all_public(public):
            return 0.0
        farthest = _joint_length(stretch * span.diameter(2, public) for span, stretch in self.spans)
        return (farthest + 2 * self._rounding) * ABOVE

    def eigenvalue_bound(self, public: frozenset[str], rows: int = 1) -> float:
        r"""Return a bound of the largest eigenvalue of aa' - bb' for embedded rows that agree on public columns.

        Parameters
        ----------
        public : frozenset of str
            Columns on which the rows x and x' agree.
        rows : {1, 2}
            1: a and b are x and x' less a mean of rows. 2: each is a row less another, and both of them change.

        Returns
        -------
        float
            The bound; see `dfprivacy_kernel.embedding.eigenvalue_bound`.
        """
        if self.all_public(public):
            return 0.0
        everywhere = self.diameter(frozenset())
        plain = eigenvalue_bound(rows * self.diameter(public), everywhere)
        kernels = [
            (stretch * span.radius(2), span.kernel)
            for span, stretch in self.spans
            if isinstance(span, features.Kernel | features.Nystrom)
        ]
        if len(kernels) < len(self.spans):
            return plain

        def apart(agreed: frozenset[str]) -> float:
            return _joint_length(stretch * kernel.distance(agreed) for stretch, kernel in kernels)

        # Rows are images of kernel features, each stretched, under a map that makes nothing longer.
        moved, longest = apart(public), apart(frozenset())
        rounding = self._rounding + self.radius * max(kernel.excess for _, kernel in kernels)
        rounded = 8 * rounding * (longest + rounding)
        return min(plain, (eigenvalue_bound(rows * moved, longest, moved**2) + rounded) * ABOVE)

    def all_public(self, public: frozenset[str]) -> bool:
        """Return whether all columns of the embedding are public."""
        return all(column.name in public for column in self.columns)

    @cached_property
    def radius(self) -> float:
        """Largest norm of an embedded row, if the features are not centred."""
        return (_joint_length(stretch * span.radius(2) for span, stretch in self.spans) + self._rounding) * ABOVE

    @cached_property
    def _rounding(self) -> float:
        """Upper bound of the error of an embedded row due to rounding of the features and of the map."""
        rounded = float(np.linalg.norm(self.map)) * _EXP_ROUNDING * 2.0 ** -(STEP + 1)
        return (rounded + self.slip) * math.sqrt(self.width) * ABOVE

    def integer_features(self, rows: Any) -> Array:
        """Return the features of rows as integer multiples of 2^-26, shape (rows, M)."""
        parts = [part.rows(rows) for part in self.parts]
        values = parts[0] if len(parts) == 1 else np.hstack(parts)
        values *= 2.0**STEP
        np.rint(values, out=values)
        if self.centre:
            values -= self.centre * 2.0**STEP
        return values


def _joint_length(parts: Iterable[float]) -> float:
    """Return the norm of a vector, given the norms of its parts."""
    return math.sqrt(sum(part**2 for part in parts))


def make_embedding(
    kind: Features,
    columns: Sequence[Column],
    lengthscales: Sequence[float],
    points: Array,
    mismatch: float = 0.5,
    *,
    mapped: bool = True,
) -> Embedding:
    """Return the embedding of rows for a kind of features, such as ``"nystrom"``.

    Parameters
    ----------
    kind : {"nystrom", "me", "scf"}
        Coordinates in the span of the points' kernel features, kernel values at the points (mean embedding), or
        cosines and sines of as many frequencies (smoothed characteristic function).
    columns : sequence of Column
        The columns of a row.
    lengthscales : sequence of float
        Of the kernel, in sixths of the bounds' widths; of several, the kernels are averaged.
    points : ndarray of shape (points, columns)
        Public rows.
    mismatch : float
        What a different category leaves of the kernel.
    mapped : bool
        Whether to scale kernel values and Fourier features to a diameter of √2 at most. If not, kernel values are
        taken less 1/2.

    Returns
    -------
    Embedding
        With ``diameter()`` at most √2, but for rounding, if it is mapped.
    """
    if kind == "scf" and any(column.bounds is None for column in columns):
        raise ArgumentError('features="scf" takes columns with bounds only.', 'Use "nystrom" or "me".')
    kept = points
    weight = math.sqrt(1 / len(lengthscales))
    parts: list[RowFeatures] = []
    maps: list[Array] = []
    spans: list[tuple[RowFeatures, float]] = []
    part: RowFeatures
    span: RowFeatures
    for lengthscale in lengthscales:
        lengths = {c.name: c.half / 3 * lengthscale / math.sqrt(2) for c in columns if c.bounds is not None}
        kernel = features.ProductKernel(columns, lengths or 1.0, mismatch)
        scale = weight
        if kind == "nystrom":
            span = nystrom = features.Nystrom(kernel, points, _TOLERANCE)
            part, matrix, kept = features.Kernel(kernel, nystrom.points), nystrom.map, nystrom.points
        else:
            part = span = (
                features.Fourier(columns, features.gaussian_frequencies(np.array([*lengths.values()]), len(points)))
                if kind == "scf"
                else features.Kernel(kernel, points)
            )
            matrix = np.eye(part.dimension)
            if mapped:
                scale *= min(1.0, math.sqrt(2) / part.diameter(2, frozenset()))
        parts.append(part)
        maps.append(scale * matrix)
        spans.append((span, scale))
    exact = scipy.linalg.block_diag(*maps)
    rounded = np.ldexp(np.rint(np.ldexp(exact, MAP_STEP)), -MAP_STEP)
    centre = 0.5 if kind == "me" and not mapped else 0.0
    return Embedding(tuple(parts), rounded, tuple(spans), kept, centre, float(np.linalg.norm(rounded - exact)))


def lengthscales_of(columns: Sequence[Column], lengthscale: object) -> tuple[float, ...]:
    """Return the lengthscales of the averaged kernels, given the argument `lengthscale`."""
    usual = math.sqrt(max(1, sum(column.bounds is not None for column in columns)))
    if lengthscale is None:
        return (usual,)
    if lengthscale == "robust":
        return usual, 2 * usual
    number = as_number(lengthscale, "lengthscale")
    if number <= 0:
        raise ArgumentError(
            f"lengthscale={lengthscale!r} must be a positive number.",
            'Give a positive number, in sixths of the width of each column\'s bounds, or "robust".',
        )
    return (number,)


def location_points(columns: Sequence[Column], locations: object, n: int) -> Array:
    """Return the test locations as public rows: the given rows, or n rows spread over the bounds.

    Many points cover up to three numeric columns evenly. More columns, or with few points, they cover normally,
    three standard deviations to each bound: hardly a row is in a corner. Categories are covered evenly.
    """
    if locations is not None:
        return _given_points(columns, locations)
    points = features.spread(columns, n)
    numbers = [i for i, column in enumerate(columns) if column.bounds is not None]
    if numbers and (len(numbers) > _FEW_COLUMNS or n < _MANY_POINTS):
        # gaussian_frequencies of unit lengths are quasi-random standard normal points.
        normal = features.gaussian_frequencies(np.ones(len(numbers)), n)
        for i, z in zip(numbers, normal.T, strict=True):
            column = columns[i]
            points[:, i] = np.clip(column.mid + column.half / 3 * z, column.low, column.high)
    return points


def _given_points(columns: Sequence[Column], locations: object) -> Array:
    rows = locations.tolist() if isinstance(locations, np.ndarray) else locations
    hint = f"Give rows with a value for each of {[column.name for column in columns]!r}."
    if not isinstance(rows, list | tuple) or not rows:
        raise ArgumentError("locations= must be a list of rows.", hint)
    points = np.empty((len(rows), len(columns)))
    for i, row in enumerate(rows):
        values = row if isinstance(row, list | tuple) else [row]
        if len(values) != len(columns):
            raise ArgumentError(f"Row {i} of locations= has {len(values)} values.", hint)
        for j, (value, column) in enumerate(zip(values, columns, strict=True)):
            points[i, j] = as_number(value, "locations") if column.bounds is not None else column.code(value)
    return points


_BLOCK_ROWS = 1 << 10  # rows at a time: their values fit the cache
_HALF_BITS = 13  # bits of the lower half of a value: products of halves add up exactly
_DIGIT_BITS = 20  # bits of a digit: products of two, added over 2^13 places, are at most 2^53

ROUNDING = 2.0**-48
"""Relative floating-point error, for each dimension, of a result computed from exact sums."""


@dataclass(frozen=True)
class Sample:
    """Embedded rows at given positions of a batch, or differences of embedded rows at two lists of positions."""

    embedding: Embedding
    batch: Batch
    first: NDArray[np.intp]
    second: NDArray[np.intp] | None = None

    @property
    def size(self) -> int:
        """Number of embedded rows or differences."""
        return len(self.first)

    def subset(self, chosen: NDArray[Any]) -> Sample:
        """Return the sample restricted to the chosen rows or differences."""
        second = None if self.second is None else self.second[chosen]
        return replace(self, first=self.first[chosen], second=second)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of rows, each as a slice and as features in integer multiples of 2^-26, shape (rows, M)."""
        for start in range(0, self.size, _BLOCK_ROWS):
            at = slice(start, min(start + _BLOCK_ROWS, self.size))
            steps = self.embedding.integer_features(self.batch.take(self.first[at]))
            if self.second is not None:
                steps -= self.embedding.integer_features(self.batch.take(self.second[at]))
            yield at, steps

    def total(self) -> Array:
        """Return the exact sum of the embedded rows or differences, rounded to float64, shape (F,)."""
        ones = np.ones((1, _BLOCK_ROWS))
        total: Array = apply_map(self.embedding, weighted_sums(self, lambda at: ones[:, : at.stop - at.start], 1))[
            0
        ]
        return total

    def moments(self) -> tuple[Array, Array]:
        """Return the exact sums of the embedded rows, shape (F,), and of their outer products, shape (F, F)."""
        sums, products = sums_and_products((steps for _, steps in self.blocks()), self.embedding.width)
        steps = _integer_map(self.embedding)
        image = _exact_product(_exact_product(steps, products), steps.T)
        return apply_map(self.embedding, sums[None])[0], _to_floats(image, 2 * (STEP + MAP_STEP))


def weighted_sums(sample: Sample, coefficients: Callable[[slice], Array], count: int) -> Integers:
    """Return exact sums of the features of rows times small integer coefficients.

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


def sums_and_products(blocks: Iterable[Array], width: int) -> tuple[Integers, Integers]:
    """Return exact sums of the features of rows, and of the outer products of the features.

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
        high = np.rint(steps * 2.0**-_HALF_BITS)
        halves = np.hstack([high, steps - high * 2.0**_HALF_BITS])
        products += (halves.T @ halves).astype(np.int64)  # of a matrix with itself: BLAS does half the work
    crossed = products[:width, width:]
    squares = (products[:width, :width].astype(object) << 2 * _HALF_BITS) + (
        (crossed + crossed.T).astype(object) << _HALF_BITS
    )
    return total.astype(object), squares + products[width:, width:]


def apply_map(embedding: Embedding, sums: Integers) -> Array:
    """Apply an embedding's linear map to an array of exact sums, shape (n, M), and round the results to float64."""
    return _to_floats(_exact_product(sums, _integer_map(embedding).T), STEP + MAP_STEP)


def _to_floats(numbers: Integers, bits: int) -> Array:
    """Convert integer multiples of 2^-bits to float64."""
    rounded: Array = np.ldexp(numbers.astype(np.float64), -bits)
    return rounded


def _integer_map(embedding: Embedding) -> Integers:
    """Return the linear map of an embedding as integer multiples of 2^-40."""
    steps: Integers = np.vectorize(int, otypes=[object])(np.ldexp(embedding.map, MAP_STEP))
    return steps


def _exact_product(left: Integers, right: Integers) -> Integers:
    """Multiply matrices of arbitrarily large integers exactly, digit by digit in float64."""
    ones, others = _base_digits(left), _base_digits(right)
    total: Integers = np.zeros((left.shape[0], right.shape[1]), dtype=object)
    for place in reversed(range(len(ones) + len(others) - 1)):
        pairs = [(one, others[place - i]) for i, one in enumerate(ones) if 0 <= place - i < len(others)]
        total = (total << _DIGIT_BITS) + sum((one @ other).astype(np.int64) for one, other in pairs)
    return total


def _base_digits(numbers: Integers) -> list[Array]:
    """Return the digits of integers, least significant first; only the most significant can be negative."""
    digits = []
    while numbers.size and max(numbers.max(), -numbers.min()) > 1 << _DIGIT_BITS:
        digits.append((numbers & ((1 << _DIGIT_BITS) - 1)).astype(np.float64))
        numbers = numbers >> _DIGIT_BITS
    return [*digits, numbers.astype(np.float64)]
