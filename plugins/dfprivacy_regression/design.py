"""Designs of regressions: their columns, coefficients, and the sums from which second moments follow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy import features

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.schema import Category

    Numbers = NDArray[np.float64]

__all__ = ["Design"]


@dataclass(frozen=True)
class Design:
    """Design of a regression: an outcome, and numeric and categorical regressors.

    A row is z = (1, x, y): the numbers and y are mapped from their bounds to [-1, 1], and a factor has a 0 or 1 for
    each of its categories but the first. M is the sum of z zᵀ over the rows.

    With a `success`, y is 1 in this category of the outcome, and 0 in any other. With `weights`, M is the sum of
    v z zᵀ, v being a row's weight over its upper bound.
    """

    outcome: Column
    numbers: tuple[Column, ...]
    factors: tuple[Column, ...]
    success: Category | None = None
    weights: Column | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns of the design, except the column of sampling weights."""
        return tuple(dict.fromkeys((*self.numbers, self.outcome, *self.factors)))

    @property
    def read_columns(self) -> tuple[Column, ...]:
        """All columns of the design, including the column of sampling weights."""
        return self.columns if self.weights is None else (*self.columns, self.weights)

    @property
    def bounded_columns(self) -> tuple[Column, ...]:
        """Columns whose values beyond the bounds are counted: the numeric columns and the weights."""
        return self.clipped_columns if self.weights is None else (*self.clipped_columns, self.weights)

    @property
    def typical_weight(self) -> float:
        """Sampling weight that a plan assumes, divided by the largest weight; 1 without weights."""
        return 1.0 if self.weights is None else self.weights.mid / self.weights.high

    @property
    def clipped_columns(self) -> tuple[Column, ...]:
        """The numeric columns, whose values are clipped to their bounds."""
        return self.numbers if self._is_binary else (*self.numbers, self.outcome)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients, as R and statsmodels name them."""
        dummies = (f"C({factor.name})[T.{each}]" for factor in self.factors for each in _contrast_levels(factor))
        return ("Intercept", *(number.name for number in self.numbers), *dummies)

    @property
    def width(self) -> int:
        """Number q of coefficients, including the intercept."""
        return 1 + len(self.numbers) + sum(len(_contrast_levels(factor)) for factor in self.factors)

    @property
    def _is_binary(self) -> bool:
        return self.success is not None

    @property
    def covered_population(self) -> str:
        """Population that confidence intervals cover; it is limited if numeric columns are clipped to bounds."""
        return "population" if self._is_binary and not self.numbers else "limited population"

    @property
    def dummies(self) -> range:
        """Indices of the dummy variables among the coefficients."""
        return range(1 + len(self.numbers), self.width)

    def same_factor(self, i: int, j: int) -> bool:
        """Return whether regressors i and j are dummy variables of the same factor."""
        groups = self._dummy_groups()
        return any(i in group and j in group for group in groups)

    def _dummy_groups(self) -> list[range]:
        starts = np.cumsum([1 + len(self.numbers), *(len(_contrast_levels(factor)) for factor in self.factors)])
        return [range(start, end) for start, end in pairwise(starts.tolist())]

    def formula(self) -> str:
        """Return the formula of the design, as in R."""
        terms = [*(number.name for number in self.numbers), *(f"C({factor.name})" for factor in self.factors)]
        outcome = self.outcome.name if not self._is_binary else f"({self.outcome.name} == {self.success!r})"
        return f"{outcome} ~ {' + '.join(terms)}"

    def second_moment_features(self, *, count: bool | float) -> features.RowFeatures:
        """Return the features whose sums are the second moments, with coordinates in [-1, 1].

        Products that are known are left out: those of two categories of one factor are 0.
        """
        numbers = self.clipped_columns
        groups = [(factor, _contrast_levels(factor)) for factor in self.factors]
        if self.success is not None:
            groups.append((self.outcome, (self.success,)))
        parts: list[features.RowFeatures] = [features.Count()] if count and not numbers else []
        if numbers:
            parts.append(features.Outer(numbers, count=count, centred=True))
        for factor, kept in groups:
            inner = features.Stack(features.Count(), *(features.Moments(each, degree=1) for each in numbers))
            parts.append(features.OneHot(factor, groups=kept) * inner)
        for (a, ours), (b, theirs) in combinations(groups, 2):
            parts.append(features.OneHot(a, b, groups={a.name: ours, b.name: theirs}))
        return features.Stack(*parts) if len(parts) > 1 else parts[0]

    def _scaled_indices(self) -> list[int]:
        """Return the indices of the numeric columns in (1, x, y), which are scaled to [-1, 1]."""
        return [*range(1, 1 + len(self.numbers)), *([] if self._is_binary else [self.width])]

    def moment_index(self) -> NDArray[np.intp]:
        """Return the index of each entry of the moment matrix M in the vector of moments.

        Returns
        -------
        ndarray of int of shape (q + 1, q + 1)
            Places in a vector of moments; nobody writes to it.
        """
        return _moment_index(self)

    def moments_map(self, exact: int | None) -> tuple[Numbers, Numbers]:
        """Return the affine map from measured sums to moments: moments = start + map @ measured sums.

        Parameters
        ----------
        exact : int or None
            The number of rows; None where it is measured, before all else.

        Returns
        -------
        start : ndarray of shape (m,)
        map : ndarray of shape (m, coordinates)
        """
        entries, first = self.moment_entries(), int(exact is None)
        m = len(entries) + 2
        start, taken = np.zeros(m), np.zeros((m, first + len(entries)))
        if exact is None:
            taken[0, 0] = 1
        else:
            start[0] = exact
        for at, (_, _, centred) in enumerate(entries):
            taken[at + 1, first + at] = 1
            if centred:
                taken[at + 1] = (taken[at + 1] + taken[0]) / 2
                start[at + 1] = start[0] / 2
        return start, taken

    def moment_entries(self) -> Sequence[tuple[int, int, bool]]:
        """Return the measured entries (i, j) of M, each with whether 2z² - 1 is measured in place of z²."""
        numbers = self._scaled_indices()
        return [(i, j, i == j and i in numbers) for i, j in _moment_entries(self)]

    def row_weights(self, batch: features.Batch) -> Numbers | float:
        """Return the weight of each row of a batch divided by its upper bound; 1 without weights."""
        return 1.0 if self.weights is None else batch.values(self.weights) / self.weights.high

    def rows(self, batch: features.Batch) -> Numbers:
        """Return regressors and outcome (x, y) of a batch's rows, without the constant, shape (q, batch.size)."""
        rows = np.empty((self.width, batch.size))
        for at, column in enumerate(self.numbers):
            rows[at] = batch.standardized(column)
        at = len(self.numbers)
        for factor in self.factors:
            codes = batch.codes(factor)
            for each in _contrast_levels(factor):
                rows[at] = codes == factor.code(each)
                at += 1
        if self._is_binary:
            rows[at] = batch.codes(self.outcome) == self.outcome.code(self.success)
        else:
            rows[at] = batch.standardized(self.outcome)
        return rows

    def units_map(self) -> tuple[Numbers, Numbers]:
        """Return the affine map, start + map @ b, from scaled coefficients b to coefficients in the columns' units.

        Returns
        -------
        start : ndarray of shape (q,)
        map : ndarray of shape (q, q)
        """
        half, mid = (1.0, 0.0) if self._is_binary else (self.outcome.half, self.outcome.mid)
        halves = np.array([1.0, *(column.half for column in self.numbers)])
        scale = half / np.concatenate([halves, np.ones(self.width - len(halves))])
        change = np.diag(scale)
        change[0, 1 : len(halves)] = [-half * (column.mid / column.half) for column in self.numbers]
        start = np.zeros(self.width)
        start[0] = mid
        return start, change


@lru_cache(maxsize=64)  # a call asks many times; no attribute, for what is measured is described by all that it has
def _moment_entries(design: Design) -> Sequence[tuple[int, int]]:
    """Return the entries (i, j), i ≤ j, of the moment matrix M that the features measure, in their order."""
    numbers, groups = design._scaled_indices(), design._dummy_groups()  # noqa: SLF001 - our own
    if design.success is not None:
        groups.append(range(design.width, design.width + 1))  # the outcome is the last of all
    places = [0, *numbers]
    entries = [(places[i], places[j]) for i, j in zip(*np.triu_indices(len(places)), strict=True) if j]
    for group in groups:
        for k in group:
            entries += [(k, k), *((min(k, i), max(k, i)) for i in numbers)]
    for first, second in combinations(groups, 2):
        entries += [(i, j) for i in first for j in second]
    return entries


@lru_cache(maxsize=64)
def _moment_index(design: Design) -> NDArray[np.intp]:
    """Return the index of each entry of the moment matrix M in the vector of moments of a design."""
    entries = _moment_entries(design)
    index = np.full((design.width + 1,) * 2, len(entries) + 1)
    index[0, 0] = 0
    for at, (i, j) in enumerate(entries, start=1):
        index[i, j] = index[j, i] = at
    binary = [] if design.success is None else [design.width]
    for k in (*design.dummies, *binary):  # a 0 or 1 is its own square
        index[0, k] = index[k, 0] = index[k, k]
    index.setflags(write=False)
    return index


def _contrast_levels(factor: Column) -> tuple[Category, ...]:
    """Return the categories of a factor that have a coefficient: all but the first."""
    return (factor.categories or ())[1:]
