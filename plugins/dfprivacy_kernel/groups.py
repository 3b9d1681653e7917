"""Which rows are compared, those in which no value is missing, and what is measured of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError
from dfprivacy.features import Given, OneHot
from dfprivacy.statistics import OfRows
from dfprivacy_kernel.sums import ROUNDING, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator, NanPolicy
    from dfprivacy.features import Batch
    from dfprivacy_kernel.embedding import Embedding

__all__ = ["Groups", "OfGroups", "given_of", "times"]

_ROWS_MAX = 2.0**32  # for which the rounding is charged where the number of rows is private


@dataclass(frozen=True)
class Groups:
    """Which rows are compared, and what is public about their number.

    Attributes
    ----------
    by : Column or None
        The column of the groups; None of one table that is no group of any.
    pair : tuple
        The two categories.
    sizes : tuple of int or None
        Rows of each group that are compared, None where that is private.
    given : tuple of Column
        Columns in which a row must have a value, or it is in neither group.
    rows : tuple of int or None
        Rows of each group, complete or not, None where that is private.
    paired : bool
        Whether the i-th rows of both groups are compared with each other, and one person's.
    """

    by: Column | None
    pair: tuple[Any, ...]
    sizes: tuple[int, ...] | None
    given: tuple[Column, ...] = ()
    rows: tuple[int, ...] | None = None
    paired: bool = False

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
        given = given_of(curator, columns, nan_policy)
        counts = curator.sizes(by, pair)
        rows = sizes = None if counts is None else (int(counts[0]), int(counts[1]))
        if given and rows is not None:
            sizes = None
            if all(column.public for column in given) and not paired:
                n, m = curator.sum(OneHot(by, groups=list(pair)) * Given(*given)).values.ravel()
                sizes = int(n), int(m)
        smallest = min(sizes or rows or (2, 2))
        if smallest < 2:  # noqa: PLR2004
            raise ArgumentError(f"A group has {smallest} rows.", "The test needs at least two rows in every group.")
        return cls(by, pair, sizes, given, rows, paired)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The column of the groups, if there is one."""
        return () if self.by is None else (self.by,)

    @property
    def counted(self) -> tuple[int, ...]:
        """Rows of each group that sums are divided by: those compared, or all, as far as is public."""
        return self.sizes or self.rows or (1, 1)

    @property
    def counts(self) -> int:
        """How many private numbers of complete rows, or pairs, there are."""
        if self.sizes is not None:
            return 0
        return 2 if self.pair and not self.paired else 1

    @property
    def most(self) -> float:
        """The most rows there can be, for which rounding is charged."""
        return float(sum(self.rows or self.sizes or (_ROWS_MAX,)))

    def stays(self, relation: str, public: frozenset[str]) -> bool:
        """Tell whether a row can change its content only, and neither come, go, nor change its group."""
        return relation == "replace_one" and {column.name for column in self.columns} <= public

    def settled(self, relation: str, public: frozenset[str]) -> bool:
        """Tell whether which rows are compared is public."""
        known = self.sizes is not None or (self.paired and {column.name for column in self.given} <= public)
        return known and self.stays(relation, public)

    def complete(self, rows: Batch) -> NDArray[np.bool_]:
        """Tell in which rows no value is missing, shape (rows,)."""
        missing = np.zeros(rows.size, dtype=np.bool_)
        for column in self.given:
            missing |= rows.missing(column)
        return ~missing

    def members(self, rows: Batch) -> NDArray[np.bool_]:
        """Tell of each row whether it is compared, in the first group and in the second; shape (groups, rows)."""
        complete = self.complete(rows)
        if self.by is None:
            return complete[None]
        codes = rows.codes(self.by)
        return np.array([complete & (codes == self.by.code(value)) for value in self.pair])

    def pooled(self, rows: Batch, embedding: Embedding) -> tuple[Sample, NDArray[np.bool_]]:
        """Give the rows that are compared, and whether they are in the first group and in the second."""
        members = self.members(rows)
        places = np.flatnonzero(members.any(axis=0))
        return Sample(embedding, rows, places), members[:, places]

    def pairs(self, rows: Batch, embedding: Embedding) -> tuple[Sample, NDArray[np.bool_]]:
        """Give the differences of all pairs, and which pairs are complete."""
        assert self.by is not None  # noqa: S101 - pairs are of two groups
        codes, complete = rows.codes(self.by), self.complete(rows)
        first, second = (np.flatnonzero(codes == self.by.code(value)) for value in self.pair)
        return Sample(embedding, rows, first, second), complete[first] & complete[second]

    def samples(self, rows: Batch, embedding: Embedding, *, paired: bool) -> list[Sample]:
        """Give the complete pairs, or else the complete rows of each group."""
        if paired:
            every, complete = self.pairs(rows, embedding)
            return [every.of(complete)]
        return [Sample(embedding, rows, np.flatnonzero(each)) for each in self.members(rows)]


class OfGroups(OfRows):
    """A statistic of the embedded rows of groups, which can move where a row changes its content only.

    Attributes
    ----------
    what : str
        What it is, in words.
    """

    what: str

    def __init__(self, groups: Groups, embedding: Embedding, shape: tuple[int, ...]) -> None:
        self.groups, self.embedding, self.shape = groups, embedding, shape
        self.columns = (*groups.columns, *embedding.columns)
        self.error = groups.most * len(embedding.map) * ROUNDING

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Bound how far one row, or pair, moves it: by anything, where one can come, go or change its group."""
        if not self.groups.stays(relation, public):
            return math.inf
        return 0.0 if self.embedding.agreed(public) else self.moves(norm, public)

    def moves(self, norm: float, public: frozenset[str]) -> float:
        """Bound how far one row, or pair, moves it, of which not all is public."""
        raise NotImplementedError

    def describe(self) -> str:
        """Name it in words."""
        return f"{self.what} ({self.embedding.named})"


def times(norm: float, dimension: int) -> float:
    """How many times larger a vector's norm can be than its largest coordinate."""
    return 1.0 if norm == math.inf else dimension ** (1 / norm)


def given_of(curator: Curator, columns: Sequence[Column], nan_policy: NanPolicy) -> tuple[Column, ...]:
    """Give the columns in which a row must have a value, by the policy on those that can be missing.

    A value cannot be missing of a column of which somebody said what that counts as.
    """
    gaps = tuple(column for column in columns if not column.filled)
    if nan_policy == "raise":
        curator.refuse_missing(*gaps)
    return gaps if nan_policy == "omit" else ()
