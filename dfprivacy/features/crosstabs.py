"""Many columns by the groups of one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, final

import numpy as np

from dfprivacy._table.batch import category
from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import Norm, RowFeatures
from dfprivacy.features.upward import root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.frames import Read
    from dfprivacy.schema import Column

__all__ = ["Crosstabs"]

_AT_ONCE = 256  # columns
_ROWS = 1024


@final
class Crosstabs(RowFeatures):
    r"""Whether a row is in one category of each of many columns, by group: the sum counts them all in one pass.

    Parameters
    ----------
    columns : sequence of Column
        Columns with categories.
    categories : sequence
        The category to count, one for each column.
    by : Column
        The column of the groups.
    groups : sequence, optional
        The categories of `by` to keep, in this order; rows of others count nowhere. Default: all.

    Notes
    -----
    The shape is (groups, columns). A row adds 1 to each of K columns in one group at most, so the radius is K in
    L1 and √K in L2. If `by` is public, a row can change the columns that are not: as many, or the square root.
    Else it can leave one group for another: 2K, or √(2K). In the norm of infinity both are 1.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        categories: Sequence[object],
        by: Column,
        groups: Sequence[object] | None = None,
    ) -> None:
        known = by.categories or ()
        kept = range(len(known)) if groups is None else [by.code(value) for value in groups]
        if not columns or len(columns) != len(categories) or not kept or len(set(kept)) < len(kept):
            raise ArgumentError(
                f"Crosstabs of {len(columns)} columns, {len(categories)} categories and groups={groups!r} have no "
                "counts.",
                "Give at least one column, a category of each, and different groups.",
            )
        self.by = by
        self.groups = tuple(known[code] for code in kept)
        self.counted = tuple((c, c.code(value)) for c, value in zip(columns, categories, strict=True))
        self.columns = (by, *columns)
        self.shape = (len(kept), len(columns))
        self._place = np.full(len(known) + 1, len(kept), dtype=np.intp)
        self._place[list(kept)] = np.arange(len(kept))

    @property
    def reads(self) -> Sequence[Read]:
        """How the columns are read."""
        return [category(column) for column in self.columns]

    @property
    def counts(self) -> bool:
        """Whether every coordinate of every row is a whole number."""
        return True

    @property
    def support(self) -> int:
        """Most coordinates that one row can make different from zero."""
        return len(self.counted)

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the vectors of a batch."""
        hot = np.eye(len(self.groups) + 1)[self._place[batch.codes(self.by)], :-1]
        inside = np.array([batch.among(column, code) for column, code in self.counted]).T
        product: NDArray[np.float64] = (hot[:, :, None] * inside[:, None, :]).reshape(batch.size, self.dimension)
        return product

    def total(self, batch: Batch, mask: NDArray[np.bool_] | None, k: int) -> NDArray[np.float64]:
        """Return the exact sum of a batch in whole steps."""
        place = np.zeros(batch.size, dtype=np.intp) if mask is None else (~mask).astype(np.intp)
        return self.totals(batch, place, 1, k).ravel()

    def totals(self, batch: Batch, place: NDArray[np.intp], bins: int, k: int) -> NDArray[np.float64]:
        """Return the same for the rows at each place below `bins`: what a group and a category share is counted."""
        own = self._place[batch.codes(self.by)]
        members = [(place == each) & (own == group) for each in range(bins) for group in range(len(self.groups))]
        counts, both = np.empty((len(members), len(self.counted))), np.empty(batch.size, dtype=np.bool_)
        for first in range(0, len(self.counted), _AT_ONCE):
            insides = [batch.among(column, code) for column, code in self.counted[first : first + _AT_ONCE]]
            for at, inside in enumerate(_contiguous(insides), start=first):
                for row, member in enumerate(members):
                    counts[row, at] = np.count_nonzero(np.logical_and(inside, member, out=both))
        return counts.reshape(bins, self.dimension) * 2.0**k

    def radius(self, norm: Norm) -> float:
        """Largest norm of a vector."""
        return _norm(len(self.counted), norm)

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Largest distance of two vectors."""
        if self.by.name in public:
            return _norm(sum(column.name not in public for column, _ in self.counted), norm)
        return _norm(len(self.counted) * min(len(self.groups), 2), norm)

    def describe(self) -> str:
        """Name the feature in words."""
        first = self.counted[0][0].name
        rest = f" and {len(self.counted) - 1} more" if len(self.counted) > 1 else ""
        return f"Crosstabs({first}{rest} by {self.by.name})"


def _contiguous(columns: list[NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
    """Copy columns of a table laid out by rows, some rows of all at a time: neighbours share cache lines."""
    if all(column.flags.c_contiguous for column in columns):
        return columns
    found = np.empty((len(columns), len(columns[0])), dtype=np.bool_)
    for start in range(0, found.shape[1], _ROWS):
        rows = slice(start, start + _ROWS)
        for copy, column in zip(found, columns, strict=True):
            copy[rows] = column[rows]
    return list(found)


def _norm(ones: int, norm: Norm) -> float:
    if norm == math.inf:
        return float(ones > 0)
    return float(ones) if norm == 1 else root(ones)
