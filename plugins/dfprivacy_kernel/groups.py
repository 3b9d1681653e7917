"""Which rows are compared: those of two groups in which no value is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError
from dfprivacy.features import Given, OneHot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator, NanPolicy
    from dfprivacy.features import Batch
    from dfprivacy_kernel.embedding import Array

__all__ = ["Groups", "can_be_missing", "complete"]

_ROWS_MAX = 2.0**32  # for which the rounding is charged where the number of rows is private


@dataclass(frozen=True)
class Groups:
    """Which rows are compared, and what is public about their number.

    Attributes
    ----------
    by : Column
        The column of the groups.
    pair : tuple
        The two categories.
    sizes : tuple of int or None
        Rows of each group that are compared, None where that is private.
    given : tuple of Column
        Columns in which a row must have a value, or it is in neither group.
    rows : tuple of int or None
        Rows of each group, complete or not, None where that is private.
    """

    by: Column
    pair: tuple[Any, Any]
    sizes: tuple[int, int] | None
    given: tuple[Column, ...] = ()
    rows: tuple[int, int] | None = None

    @classmethod
    def of(
        cls,
        curator: Curator,
        by: Column,
        pair: tuple[Any, Any],
        columns: Sequence[Column],
        nan_policy: NanPolicy,
        *,
        paired: bool = False,
    ) -> Groups:
        """Find out what is public about two groups, which is free."""
        given = can_be_missing(columns) if nan_policy == "omit" else ()
        if nan_policy == "raise":
            curator.refuse_missing(*can_be_missing(columns))
        counts = curator.sizes(by, pair)
        rows = None if counts is None else (int(counts[0]), int(counts[1]))
        sizes = rows
        if given and rows is not None:
            sizes = None
            if all(column.public for column in given) and not paired:
                n, m = curator.sum(OneHot(by, groups=list(pair)) * Given(*given)).values.ravel()
                sizes = int(n), int(m)
        smallest = min(sizes or rows or (2, 2))
        if smallest < 2:  # noqa: PLR2004
            raise ArgumentError(f"A group has {smallest} rows.", "The test needs at least two rows in every group.")
        return cls(by, pair, sizes, given, rows)

    @property
    def most(self) -> float:
        """The most rows there can be, for which rounding is charged."""
        return float(sum(self.rows or self.sizes or (_ROWS_MAX,)))

    def members(self, rows: Batch) -> Array:
        """Tell of each row whether it is in the first group, and in the second; shape (2, rows)."""
        codes = rows.codes(self.by)
        members = np.array([codes == self.by.code(value) for value in self.pair])
        if self.given:
            members &= complete(rows, self.given)
        return members.astype(np.float64)

    def chosen(self, rows: Batch) -> NDArray[np.bool_]:
        """Tell of each row whether it is in either group."""
        return np.asarray(self.members(rows).any(axis=0), dtype=np.bool_)


def can_be_missing(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Give the columns of which a value can be missing: not those where that is a category of its own."""
    return tuple(column for column in columns if column.bounds is not None or not column.other)


def complete(rows: Batch, columns: Sequence[Column]) -> NDArray[np.bool_]:
    """Tell in which rows no value is missing, shape (rows,)."""
    missing = np.zeros(rows.size, dtype=np.bool_)
    for column in columns:
        missing |= rows.missing(column)
    return ~missing
