"""Statistics of counts that tests of independence measure, with their sensitivities.

All need group sizes that are public: neighbouring tables have the same number of rows and the same groups, and one
row changes its X. Anything else, and the sensitivity is infinite: the curator refuses.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.features import OneHot, RowFeatures, Stack
from dfprivacy.statistics import OfSums
from dfprivacy_chi2.tables import signed_distance, unit_circle_norm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column

__all__ = ["Difference", "Distance", "Margins", "UnitCircleNorm"]

_ROUNDING_ERROR = 2.0**-50  # a few last bits: eight roundings


class _CountStatistic(OfSums):
    """Base class of statistics of the numbers of rows with X = 1 in public groups, with sensitivity 1.

    Counted is X = 1, and X = 0 too where rows without X are left out, of each column in each group.

    Parameters
    ----------
    xs : sequence of Column
        Columns with two categories.
    by, groups
        The public groups.
    sizes : sequence of int
        Rows in the groups.
    fill : bool
        Whether rows without X count as X = 0; else they are left out.
    """

    def __init__(
        self, xs: Sequence[Column], by: Column, groups: Sequence[object], sizes: Sequence[int], *, fill: bool
    ) -> None:
        kept = [(x.categories or ())[1:2] if fill else (x.categories or ())[::-1] for x in xs]
        of_x = [OneHot(x, groups=(value,)) for x, values in zip(xs, kept, strict=True) for value in values]
        self.features = OneHot(by, groups=groups) * Stack(*of_x)
        self.columns = self.features.columns
        self.shape = (len(xs),)
        self.by, self.sizes, self.fill = by, tuple(sizes), fill

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Return the largest change of the statistics by one row in a norm; at most 1 in each coordinate."""
        if relation != "replace_one" or self.by.name not in public:
            return math.inf
        if all(column.name in public for column in self.columns):
            return 0.0
        return 1.0 if norm == math.inf else float(self.dimension) if norm == 1 else math.sqrt(self.dimension)

    def group_counts(self, sums: NDArray[np.float64]) -> Any:
        """Return the number of rows with X = 1, and the number of complete rows, in each group."""
        if self.fill:
            return tuple(sums), self.sizes
        (c, m), (d, k) = ((group[:, 0], group.sum(axis=1)) for group in sums.reshape(2, -1, 2))
        return (c, d), (m, k)


class Difference(_CountStatistic):
    r"""Difference of the shares of X = 1 in two groups, times the number of complete rows of the smaller group.

    With c of m rows and d of k rows in the two groups, :math:`f = (c/m - d/k) \min(m, k)
    = (c k - d m)/\max(m, k)`, 0 where a group has none. A row moves it by 1 at most. *If X changes*, c moves by 1,
    and the numerator by k or m. *If a row of the group of m is left out*, c/m and m change. Where m ≤ k, f =
    c - m d/k: it moves by d/k, or by 1 - d/k. Where m > k, c/m moves by (1 - c/m)/(m - 1) or (c/m)/(m - 1) and f by
    k times that, which is k/(m - 1) ≤ 1 at most. Its absolute value moves no more than f.

    Parameters
    ----------
    xs, by, groups, sizes, fill
        As everywhere here.
    signed : bool
        Whether to keep the sign.
    """

    description = "the differences of shares in {columns}"

    def __init__(
        self,
        xs: Sequence[Column],
        by: Column,
        groups: Sequence[object],
        sizes: Sequence[int],
        *,
        fill: bool = False,
        signed: bool = False,
    ) -> None:
        super().__init__(xs, by, groups, sizes, fill=fill)
        self.signed = signed
        self.error = _ROUNDING_ERROR * min(sizes)

    def value(self, sums: NDArray[np.float64]) -> Any:
        """Compute the scaled difference of shares of each column from the counts."""
        (c, d), (m, k) = self.group_counts(sums)
        larger = np.maximum(m, k)
        apart = np.where(np.minimum(m, k) > 0, c * k - d * m, 0.0) / np.maximum(larger, 1.0)
        return apart if self.signed else np.abs(apart)


class Margins(RowFeatures):
    r"""Features whose sums are margins: ±1/2 for X = 1 or 0, or 1/2 in the group's coordinate if X is missing.

    A vector has one entry of ±1/2 at most: its radius is 1/2, and two are 1 apart in L1. So to know how many are
    missing costs no more noise than to know how many have X = 1.
    """

    description = "indicators of {columns}"
    shape = (3,)

    def __init__(self, x: Column, by: Column, groups: Sequence[object], *, fill: bool) -> None:
        self.columns = (x, by)
        self._codes = tuple(by.code(group) for group in groups)
        self._fill = fill

    def rows(self, batch: Any) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        x, by = self.columns
        code, group = batch.codes(x), batch.codes(by)
        gone = np.zeros(batch.size, dtype=np.bool_) if self._fill else code > 1
        inside = [group == code for code in self._codes]
        sign = np.where(code == 1, 0.5, -0.5) * (inside[0] | inside[1])
        return np.stack([np.where(gone, 0.0, sign), *(0.5 * (gone & each) for each in inside)], axis=1)

    def radius(self, norm: float) -> float:  # noqa: ARG002
        """Return the largest norm of a row's feature vector."""
        return 0.5


class UnitCircleNorm(_CountStatistic):
    """Norm of the unit circle mechanism for each column, divided by a sensitivity."""

    description = "the unit circle norms of {columns}"

    def __init__(
        self,
        xs: Sequence[Column],
        by: Column,
        groups: Sequence[object],
        sizes: Sequence[int],
        tau: float,
        sensitivity: float,
        *,
        fill: bool = False,
    ) -> None:
        super().__init__(xs, by, groups, sizes, fill=fill)
        self.tau = tau
        self.weights = 1 / sensitivity
        n1, n0 = self.sizes
        self.error = _ROUNDING_ERROR * self.weights * (2 + 2 * math.sqrt(n1 * n0 / (tau * (n1 + n0))))

    def value(self, sums: NDArray[np.float64]) -> Any:
        """Return the unit circle norm of each column, computed from the counts and divided by its sensitivity."""
        n1, n0 = self.sizes
        (c11, c10), complete = self.group_counts(sums)
        return unit_circle_norm(c11, c10, n1, n0, self.tau, complete) * self.weights


class Distance(_CountStatistic):
    """Signed number of rows that must change before the chi² of a column crosses tau."""

    description = "the numbers of rows between {columns} and significance"

    def __init__(
        self, xs: Sequence[Column], by: Column, groups: Sequence[object], sizes: Sequence[int], tau: float
    ) -> None:
        super().__init__(xs, by, groups, sizes, fill=True)
        self.tau = tau

    def value(self, sums: NDArray[np.float64]) -> Any:
        """Compute the signed distance of each column from the counts."""
        n1, n0 = self.sizes
        c11, c10 = sums.astype(np.int64)
        return signed_distance(c11, c10, n1, n0, self.tau)
