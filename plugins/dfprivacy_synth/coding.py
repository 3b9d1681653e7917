"""Coding of columns: values are mapped to few codes with enough rows each, and codes back to values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.expressions import Expression, col, computed_column
from dfprivacy.features import Batch, Given, OneHot, RowFeatures
from dfprivacy.inference.counts import project_counts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dfprivacy import Column

    Array = NDArray[np.float64]

__all__ = [
    "Coding",
    "IntegerIndicator",
    "Offsets",
    "even_edges",
    "interval_counts",
    "quantile_edges",
    "value_counts",
]

BINS = 64
"""Equal intervals between the bounds of a number that are counted first, and the most that are counted next."""
CODES = 32
"""Codes of a number at most, but for missing values."""
CLEAR = 3.0
"""Standard errors of noise from which on a count is taken for one of rows."""
_GROUPED = 0.5
_DIGITS = 6  # of a number that is drawn from an interval


class IntegerIndicator(RowFeatures):
    """Feature that is `weight` for a row whose number is an integer, and 0 for all other rows.

    Parameters
    ----------
    column : Column
        A column with bounds.
    weight : float
        Value of the feature of a row with an integer.
    """

    description = "indicators that {columns} is an integer"
    shape = (1,)

    def __init__(self, column: Column, weight: float) -> None:
        self.columns = (column,)
        self.weights = self.weight = weight

    def rows(self, batch: Batch) -> NDArray[Any]:
        """Return the weight for each row with an integer, and 0 for the other rows."""
        x = batch.values(self.columns[0])
        whole = (x == np.rint(x)) & ~batch.missing(self.columns[0])
        return np.where(whole, self.weight, 0.0)[:, None]

    def radius(self, norm: float) -> float:  # noqa: ARG002 - the same in all
        """Return the weight, which is the largest value of the feature."""
        return self.weight

    def diameter(self, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the largest distance of the features of two rows: the weight, or 0 if the column is public."""
        return 0.0 if self.columns[0].name in public else self.weight


class Offsets(RowFeatures):
    """Features of numbers: each number's distance from the middle of its interval, divided by half the width.

    Parameters
    ----------
    column : Column
        A column with bounds.
    edges : sequence of float
        The edges of intervals, to which the numbers are limited.
    """

    description = "positions of {columns} in their intervals"

    def __init__(self, column: Column, edges: Sequence[float]) -> None:
        self.columns = (column,)
        self.edges = np.array(edges)
        self.shape = (len(edges) - 1,)

    def rows(self, batch: Batch) -> NDArray[Any]:
        """Return each row's relative distance from the middle of its interval, in that interval's coordinate."""
        x = np.clip(batch.values(self.columns[0]), self.edges[0], self.edges[-1])
        place = np.maximum(np.searchsorted(self.edges, x) - 1, 0)
        middle, half = (self.edges[1:] + self.edges[:-1]) / 2, np.diff(self.edges) / 2
        there = np.where(batch.missing(self.columns[0]), 0.0, (x - middle[place]) / half[place])
        found = np.zeros((len(x), *self.shape))
        found[np.arange(len(x)), place] = there
        return found

    def radius(self, norm: float) -> float:  # noqa: ARG002 - of one coordinate
        """Return 1, the largest relative distance."""
        return 1.0


def value_counts(column: Column) -> RowFeatures:
    """Return features that count the rows in each category of a column, and the rows without a value."""
    return Given(column, of=OneHot(column), tally=(0, 1))


def interval_counts(column: Column, edges: Array) -> RowFeatures:
    """Return features that count the rows in each interval of a column, and the rows without a value."""
    cut = col(column.name).cut([column.low, *edges[1:-1].tolist(), column.high], _labels(len(edges) - 1))
    return Given(column, of=OneHot(_recoded(column, cut)), tally=(0, 1))


def even_edges(column: Column) -> Array:
    """Return the edges of equal intervals between the bounds of a column."""
    return np.unique(np.linspace(column.low, column.high, BINS + 1))


def quantile_edges(edges: Array, counts: Array, noise: float, *, whole: bool) -> Array:
    """Return edges of intervals with enough rows each, which are narrow where rows are dense.

    Numbers are limited to where rows are seen, which `_first_occupied` tells from either end.

    Parameters
    ----------
    edges : ndarray of shape (k + 1,)
        The edges of intervals.
    counts : ndarray of shape (k,)
        Their noisy counts.
    noise : float
        The standard error of each.
    whole : bool
        Whether the values are whole: no interval is between two of them then.

    Returns
    -------
    ndarray
        Edges of at most `BINS` intervals.
    """
    first, end = _first_occupied(counts, noise), len(counts) - _first_occupied(counts[::-1], noise)
    if first >= end:  # of rows that are clear together only
        first, end = 0, len(counts)
    inside, edges = counts[first:end], edges[first : end + 1]
    rows = max(inside.sum(), 1.0)
    many = int(np.clip(rows / (CLEAR * noise), 1, BINS))
    below = np.append(0.0, np.cumsum(np.sqrt(project_counts(inside, rows))))
    inner = np.interp(np.arange(1, many) / many * below[-1], below, edges)
    low, high = edges[0], edges[-1]
    if whole:  # each interval holds an integer
        low, high = np.ceil(low), np.floor(high)
        inner = np.floor(inner) + 0.5 if high - low >= many else np.arange(low, high) + 0.5
    inner = np.unique(inner[(inner > low) & (inner < high)])
    return np.array([edges[0], *inner, edges[-1]])


def _first_occupied(counts: Array, noise: float) -> int:
    """Return the index of the first interval that may hold rows, shortly before the first count above noise.

    Of the first run of intervals with a clear count it is the beginning, less the length of the run.
    """
    below: list[float] = np.append(0.0, np.cumsum(counts)).tolist()
    for end in range(1, len(below)):
        for length in (1 << power for power in range(end.bit_length())):
            if below[end] - below[end - length] >= CLEAR * noise * math.sqrt(length):
                return max(end - 2 * length, 0)
    return 0


@dataclass(frozen=True)
class Coding:
    """Coding of a column: the code of each category or interval, and the values that a code stands for.

    A code is an interval of numbers, a category, the rare categories together, or missing values.

    Attributes
    ----------
    name : str
        The column.
    values : tuple
        The categories; of a number, the edges of the fine intervals between the limits.
    numeric : bool
        Whether it is a column of numbers.
    of : tuple of int
        The code of each category or fine interval, -1 where none has it.
    weights : tuple of float
        The share of each category or fine interval in its code.
    missing : bool
        Whether the last code is that of missing values.
    whole : bool
        Whether its numbers are whole.
    means, errors : tuple of float
        The mean of the numbers in each code, mapped from the limits to [-1, 1], and its standard error.
    rows : tuple of float
        The noisy number of rows in each code of numbers.
    beyond, beyond_error : float
        The noisy number of rows beyond the limits, and its standard error.
    """

    name: str
    values: tuple[Any, ...]
    numeric: bool
    of: tuple[int, ...]
    weights: tuple[float, ...]
    missing: bool = False
    whole: bool = False
    means: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    rows: tuple[float, ...] = ()
    beyond: float = 0.0
    beyond_error: float = 0.0
    counts: Array = field(default_factory=lambda: np.zeros(0), compare=False)
    cells: Array = field(default_factory=lambda: np.zeros(0), compare=False)

    @classmethod
    def from_categories(cls, column: Column, counts: Array, noise: float) -> Coding:
        """Construct the coding of categories; those with a noisy count below `CLEAR` standard errors share a code.

        Parameters
        ----------
        column : Column
            A column with categories.
        counts : ndarray of shape (categories + 1,)
            The noisy counts of the categories, and of missing values.
        noise : float
            The standard error of each.
        """
        kept = counts[:-1] >= CLEAR * noise
        if (~kept).sum() <= 1:
            kept[:] = True
        _, firsts, own = np.unique(np.where(kept, np.arange(len(kept)), -1), return_index=True, return_inverse=True)
        of = np.argsort(np.argsort(firsts))[own]  # in the order in which codes first appear
        return cls._from_groups(column.name, column.categories or (), of, counts, noise, numeric=False)

    @classmethod
    def from_intervals(cls, column: Column, edges: Array, counts: Array, noise: float, *, whole: bool) -> Coding:
        """Construct the coding of numbers; adjacent intervals are merged until each code has enough rows."""
        of, code, rows, several, together = [], 0, 0.0, 0, -(-(len(edges) - 1) // CODES)
        for count in counts[:-1]:
            of.append(code)
            rows, several = rows + count, several + 1
            if rows >= CLEAR * noise and several >= together:
                code, rows, several = code + 1, 0.0, 0
        of_each = np.minimum(of, max(code - 1, 0))  # with what is left at the end
        return cls._from_groups(column.name, edges.tolist(), of_each, counts, noise, numeric=True, whole=whole)

    @classmethod
    def _from_groups(
        cls, name: str, values: Sequence[Any], of: NDArray[np.intp], counts: Array, noise: float, **named: Any
    ) -> Coding:
        size, missing = int(of.max()) + 1, bool(counts[-1] >= CLEAR * noise)
        weights = np.zeros(len(of))
        for places in _indices_by_code(of):
            weights[places] = _shares(counts[places], spread=not named["numeric"])
        sums = np.bincount(of, weights=counts[:-1], minlength=size)
        cells = np.bincount(of, weights=np.ones(len(of)), minlength=size)
        if missing:
            sums, cells = np.append(sums, counts[-1]), np.append(cells, 1.0)
        return cls(
            name, tuple(values), of=tuple(of.tolist()), weights=tuple(weights.tolist()), missing=missing,
            counts=np.asarray(sums, dtype=np.float64), cells=np.asarray(cells, dtype=np.float64), **named,
        )  # fmt: skip

    @property
    def size(self) -> int:
        """Number of codes, including the code of missing values if there is one."""
        return max(self.of) + 1 + self.missing

    @cached_property
    def labels(self) -> tuple[Any, ...]:
        """Label of each code: its category or interval, a phrase for rare categories, None for missing values."""
        known: list[Any] = []
        for places in _indices_by_code(self.of):
            if self.numeric:
                known.append((self.values[places[0]], self.values[places[-1] + 1]))
            else:
                known.append(self.values[places[0]] if len(places) == 1 else f"{len(places)} rare categories")
        return (*known, *([None] if self.missing else ()))

    @property
    def is_one_to_one(self) -> bool:
        """Whether each category has a code of its own; False for a numeric column."""
        return not self.numeric and len(set(self.of)) == len(self.of)

    def column(self, column: Column) -> Column:
        """Return the computed column that contains the codes of a column."""
        if self.is_one_to_one and not self.missing:
            return column
        names, named = _labels(self.size), col(column.name)
        if self.numeric:
            edges = [column.low, *self.edges[1:-1], column.high]
            coded = named.cut(edges, names[: len(edges) - 1])
        else:
            coded = named.map({value: names[code] for value, code in zip(self.values, self.of, strict=True)})
        return _recoded(column, coded.fill(names[-1]) if self.missing else coded)

    @property
    def edges(self) -> list[float]:
        """Edges of the intervals of numeric codes, between the limits."""
        return [*(self.values[places[0]] for places in _indices_by_code(self.of)), self.values[-1]]

    def with_means(self, offsets: Array, noise: float) -> Coding:
        """Return the coding with the mean of the numbers in each code, estimated from noisy sums of `Offsets`.

        A priori a mean lies around the middle of its code with a standard deviation of a quarter of its width;
        the sums correct it as far as their noise allows.
        """
        mid, half = self.middle_and_half
        edges = (np.array(self.edges) - mid) / half
        middle, wide = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        rows = np.maximum(self.counts[: len(middle)], 1.0)
        error, prior = noise / rows, 1 / 2
        certain = prior**2 / (prior**2 + error**2)
        means = middle + wide * np.clip(certain * offsets / rows, -1.0, 1.0)
        errors = wide * error * np.sqrt(certain)
        return replace(self, means=tuple(means.tolist()), errors=tuple(errors.tolist()), rows=tuple(rows.tolist()))

    @cached_property
    def variances(self) -> Array:
        """Variance of the numbers in each code, scaled from the limits to [-1, 1], if uniform within intervals."""
        mid, half = self.middle_and_half
        edges, weights, unit = np.array(self.values), np.array(self.weights), 0.0
        low, high = edges[:-1], edges[1:]
        if self.whole:
            low, high, unit = np.ceil(low), np.floor(high), 1 / half
        low, high = (low - mid) / half, (high - mid) / half
        middle, spread = (low + high) / 2, ((high - low + unit) ** 2 - unit**2) / 12
        of, size = np.array(self.of), max(self.of) + 1
        mean = np.bincount(of, weights=weights * middle, minlength=size)
        square = np.bincount(of, weights=weights * (spread + middle**2), minlength=size)
        return np.asarray(np.maximum(square - mean**2, 0.0))

    @property
    def group_mean_sds(self) -> Array:
        """Assumed standard deviation, within each code, of the means of groups about the mean of the code.

        They follow from the variance in the code if the logarithm of the group's share changes by a half in a
        standard deviation of the numbers.
        """
        rows = np.maximum(self.rows, 1e-9)
        shares, means = rows / rows.sum(), np.array(self.means)
        total = float(shares @ (self.variances + means**2) - (shares @ means) ** 2)
        group_mean_sds: Array = _GROUPED * self.variances / math.sqrt(max(total, 1e-300))
        return group_mean_sds

    @property
    def middle_and_half(self) -> tuple[float, float]:
        """Midpoint of the limits, and half of their distance."""
        low, high = self.values[0], self.values[-1]
        return low / 2 + high / 2, high / 2 - low / 2

    def decode(self, codes: NDArray[np.intp], rng: np.random.Generator) -> list[Any]:
        """Draw a random value of the column for each given code."""
        weights = np.array(self.weights)
        places = np.zeros(len(codes), dtype=np.intp)
        for rows, inside in zip(_indices_by_code(codes, self.size), _indices_by_code(self.of), strict=False):
            places[rows] = rng.choice(inside, len(rows), p=weights[inside])
        gone = (codes == self.size - 1) if self.missing else np.zeros(len(codes), dtype=bool)
        if not self.numeric:
            return [None if none else self.values[at] for none, at in zip(gone, places, strict=True)]
        edges = np.array(self.values)
        if self.whole:
            drawn = rng.integers(np.ceil(edges[places]), np.floor(edges[places + 1]), endpoint=True)
        else:
            drawn = _rounded(rng.uniform(edges[places], edges[places + 1]), edges[-1] - edges[0])
        return [None if none else value for none, value in zip(gone, drawn.tolist(), strict=True)]

    @property
    def plain(self) -> dict[str, Any]:
        """Fields of the coding as a dict of JSON values."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.compare}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Coding:
        """Construct the coding from the dict that `plain` returns."""
        named: dict[str, Any] = {name: tuple(of) if isinstance(of, list) else of for name, of in plain.items()}
        return cls(**named)


def _rounded(values: Array, width: float) -> Array:
    """Round numbers to about six significant digits relative to the width of their range."""
    places = _DIGITS - 1 - math.floor(math.log10(width))
    return np.round(values, places)


def _indices_by_code(codes: ArrayLike, size: int = 0) -> list[NDArray[np.intp]]:
    """Return for each code the indices at which it occurs."""
    counts = np.bincount(np.asarray(codes, dtype=np.intp), minlength=size)
    return np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])


def _shares(counts: Array, *, spread: bool) -> Array:
    """Return nonnegative shares from noisy counts: by projection or, with `spread`, by raising counts below 0."""
    known = np.maximum(counts, 1e-9) if spread else project_counts(counts, max(float(counts.sum()), 1e-9))
    shares: Array = known / known.sum()
    return shares


def _labels(size: int) -> tuple[str, ...]:
    return tuple(f"code {at}" for at in range(size))


def _recoded(column: Column, expression: Expression) -> Column:
    return computed_column(column.name, expression, {column.name: column})
