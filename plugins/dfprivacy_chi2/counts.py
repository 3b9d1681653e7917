"""The statistics of counts that the tests measure, with their sensitivities.

All need group sizes that are public: neighbouring tables have the same number of rows and the same groups, and one
row changes its X. Anything else, and the sensitivity is infinite: the curator refuses.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.features import OneHot, Stack
from dfprivacy.statistics import OfSums
from dfprivacy_chi2.tables import signed_distance, unit_circle_norm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.features import RowFeatures

__all__ = [
    "Association",
    "Difference",
    "Differences",
    "Distance",
    "Spread",
    "Total",
    "UnitCircleNorm",
    "spread_sensitivity",
]

_ROUNDING = 2.0**-50  # a few last bits: eight roundings


class _OfCounts(OfSums):
    """A number of the counts of X = 1 in public groups, so scaled that one row moves it by 1 at most."""

    shape = (1,)

    def __init__(self, counted: RowFeatures, by: Column, sizes: Sequence[int]) -> None:
        self.features = counted
        self.columns = counted.columns
        self.by = by
        self.sizes = tuple(sizes)

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Bound how far one row moves the values: by 1 each."""
        if relation != "replace_one" or self.by.name not in public:
            return math.inf
        if all(column.name in public for column in self.columns):
            return 0.0
        dimension = self.dimension
        return 1.0 if norm == math.inf else float(dimension) if norm == 1 else math.sqrt(dimension)


def _ones(x: Column, by: Column, groups: Sequence[object]) -> RowFeatures:
    return OneHot(by, groups=groups) * OneHot(x, groups=(x.categories or ())[1:2])


class Total(_OfCounts):
    """The number of X = 1 in all groups."""

    def __init__(self, x: Column, by: Column, groups: Sequence[object], sizes: Sequence[int]) -> None:
        super().__init__(_ones(x, by, groups), by, sizes)

    def value(self, sums: NDArray[np.float64]) -> Any:
        """Compute it from the counts."""
        return sums.sum()


class Difference(_OfCounts):
    """The absolute difference of the shares of X = 1; times the smaller group it has the sensitivity 1."""

    def __init__(self, x: Column, by: Column, groups: Sequence[object], sizes: Sequence[int]) -> None:
        super().__init__(_ones(x, by, groups), by, sizes)
        self.weights = float(min(sizes))
        self.error = _ROUNDING * self.weights

    def value(self, sums: NDArray[np.float64]) -> Any:
        """Compute it from the counts."""
        n1, n0 = self.sizes
        c11, c10 = sums.ravel()
        return _difference(c11, c10, n1, n0)


def _difference(c11: Any, c10: Any, n1: int, n0: int) -> Any:
    """Give the absolute δ min(N1, N0); the numerator is a whole number."""
    return np.abs(n0 * c11 - n1 * c10) / max(n1, n0)


class UnitCircleNorm(_OfCounts):
    """The norm of the unit circle mechanism; divided by its sensitivity it has the sensitivity 1."""

    def __init__(
        self, x: Column, by: Column, groups: Sequence[object], sizes: Sequence[int], tau: float, sensitivity: float
    ) -> None:
        super().__init__(_ones(x, by, groups), by, sizes)
        self.tau = tau
        self.weights = 1 / sensitivity
        n1, n0 = self.sizes
        self.error = _ROUNDING * self.weights * (2 + 2 * math.sqrt(n1 * n0 / (tau * (n1 + n0))))

    def value(self, sums: NDArray[np.float64]) -> Any:
        """Compute it from the counts."""
        n1, n0 = self.sizes
        c11, c10 = sums.ravel()
        return unit_circle_norm(c11, c10, n1, n0, self.tau) * self.weights


class Distance(_OfCounts):
    """The signed distance of the table to those on the other side of tau."""

    def __init__(self, x: Column, by: Column, groups: Sequence[object], sizes: Sequence[int], tau: float) -> None:
        super().__init__(_ones(x, by, groups), by, sizes)
        self.tau = tau

    def value(self, sums: NDArray[np.float64]) -> Any:
        """Compute it from the counts."""
        n1, n0 = self.sizes
        c11, c10 = (int(c) for c in sums.ravel())
        return signed_distance(c11, c10, n1, n0, self.tau)


class Spread(_OfCounts):
    r"""How far the shares of the categories of X in the groups are from those in all rows.

    :math:`T = \sqrt{\sum_{ij} N_j (c_{ij}/N_j - M_i/N)^2 / w_i}` with public weights w; of two categories only the
    second is counted. T is the norm of a linear map of the counts, so one row moves it by the norm of its own
    contribution at most. A count that moves in group j changes :math:`N_j (c_{ij}/N_j - M_i/N)^2` summed over all
    groups like :math:`1/N_j - 1/N`, and a row moves two counts of one group.
    """

    def __init__(
        self, x: Column, by: Column, groups: Sequence[object], sizes: Sequence[int], shares: Sequence[float]
    ) -> None:
        binary = len(x.categories or ()) == 2  # noqa: PLR2004
        super().__init__(_ones(x, by, groups) if binary else OneHot(by, groups=groups) * OneHot(x), by, sizes)
        self.shares = np.array(shares)
        self.weights = 1 / spread_sensitivity(sizes, shares)
        cells = len(self.sizes) * len(shares)
        self.error = _ROUNDING * self.weights * math.sqrt(sum(sizes) / min(shares) * len(shares)) * (1 + cells / 8)

    def value(self, sums: NDArray[np.float64]) -> Any:
        """Compute it from the counts."""
        sizes = np.array(self.sizes, dtype=np.float64)[:, None]
        c = sums.reshape(len(sizes), -1)
        apart = c / sizes - c.sum(axis=0) / sizes.sum()
        return np.sqrt((sizes * apart**2 / self.shares).sum()) * self.weights


def spread_sensitivity(sizes: Sequence[int], shares: Sequence[float]) -> float:
    """Return how far one row can move the spread: it leaves one category for another, or for none."""
    first, *second = sorted(shares)[:2]
    moved = 1 / first + sum(1 / share for share in second)
    return math.sqrt((1 / min(sizes) - 1 / sum(sizes)) * moved)


class Association(OfSums):
    r"""The absolute value of c11 c00 - c10 c01, divided by N - 1; N rows, whose groups are private too.

    A row that leaves one of the four cells for another, or for none, moves c11 c00 - c10 c01 by a sum of at most
    two of the counts of the other rows, which are N - 1.
    """

    shape = (1,)

    def __init__(self, x: Column, by: Column, size: int) -> None:
        self.features = OneHot(by) * OneHot(x)
        self.columns = self.features.columns
        self.size = size
        self.error = _ROUNDING * size

    def value(self, sums: NDArray[np.float64]) -> Any:
        """Compute it from the counts, whose products are whole numbers of Python's."""
        (c00, c01), (c10, c11) = ((int(c) for c in row) for row in sums)
        return abs(c11 * c00 - c10 * c01) / (self.size - 1)

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far one row moves it: by 1."""
        return 1.0 if relation == "replace_one" else math.inf


class Differences(_OfCounts):
    """The absolute differences for many X, times the smaller group: one row moves each by 1 at most."""

    def __init__(self, xs: Sequence[Column], by: Column, groups: Sequence[object], sizes: Sequence[int]) -> None:
        ones = (OneHot(x, groups=(x.categories or ())[1:2]) for x in xs)
        super().__init__(OneHot(by, groups=groups) * Stack(*ones), by, sizes)
        self.shape = (len(xs),)
        self.error = _ROUNDING * min(sizes)

    def value(self, sums: NDArray[np.float64]) -> Any:
        """Compute them from the counts."""
        n1, n0 = self.sizes
        c11, c10 = sums
        return _difference(c11, c10, n1, n0)
