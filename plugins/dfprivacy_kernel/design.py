"""Designs of kernel tests: the compared groups, kernel and test locations, with checks of the arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np

from dfprivacy import ArgumentError, Range
from dfprivacy.features import Given, OneHot
from dfprivacy_kernel.embedding import Sample, lengthscales_of, location_points, make_embedding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator, NanPolicy
    from dfprivacy.features import Batch
    from dfprivacy_kernel.embedding import Array, Embedding, Features

__all__ = [
    "Count",
    "Design",
    "Groups",
    "Method",
    "Mismatch",
    "Variant",
    "check_groups",
    "check_method",
    "group_column",
    "required_columns",
]

Method: TypeAlias = Literal["mmd", "permutation", "moments", "whitened"]
Variant: TypeAlias = Literal["tcmc", "nte"]

_ROWS_MAX = 2.0**32  # for which the rounding is charged where the number of rows is private


@dataclass(frozen=True)
class Groups:
    """Two groups of rows that a test compares, and public facts about their sizes.

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
    def from_columns(
        cls,
        curator: Curator,
        by: Column,
        pair: tuple[Any, Any],
        columns: Sequence[Column],
        nan_policy: NanPolicy,
        *,
        paired: bool = False,
    ) -> Groups:
        """Construct the two groups from the arguments, with public facts about their sizes."""
        given = required_columns(curator, columns, nan_policy)
        counts = curator.sizes(by, pair)
        rows = sizes = None if counts is None else (int(counts[0]), int(counts[1]))
        if given and rows is not None:
            sizes = None
            if all(column.public for column in given) and not paired:
                n, m = curator.sum(OneHot(by, groups=list(pair)) * Given(*given)).values.ravel()
                sizes = int(n), int(m)
        smallest = min(sizes or rows or (2, 2))
        if smallest < 2:  # noqa: PLR2004
            raise ArgumentError(
                f"The smallest group has {smallest} rows.", "Compare groups with at least two rows each."
            )
        return cls(by, pair, sizes, given, rows, paired)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Column that contains the group of each row, as a tuple; empty for the table of a single party."""
        return () if self.by is None else (self.by,)

    @property
    def divisors(self) -> tuple[int, ...]:
        """Number by which each group's sums are divided: its complete rows if public, else all its rows."""
        return self.sizes or self.rows or (1, 1)

    @property
    def n_private_counts(self) -> int:
        """Number of private counts of complete rows or pairs that the test measures."""
        if self.sizes is not None:
            return 0
        return 2 if self.pair and not self.paired else 1

    @property
    def max_rows(self) -> float:
        """Upper bound of the number of rows, for the bound of the rounding error."""
        return float(sum(self.rows or self.sizes or (_ROWS_MAX,)))

    def group_is_fixed(self, relation: str, public: frozenset[str]) -> bool:
        """Return whether neighbouring tables differ only in a row's content, not in its presence or group."""
        return relation == "replace_one" and {column.name for column in self.columns} <= public

    def rows_are_public(self, relation: str, public: frozenset[str]) -> bool:
        """Return whether the selection of the compared rows is public."""
        known = self.sizes is not None or (self.paired and {column.name for column in self.given} <= public)
        return known and self.group_is_fixed(relation, public)

    def complete_mask(self, rows: Batch) -> NDArray[np.bool_]:
        """Return a mask of the rows without a missing value, shape (rows,)."""
        missing = np.zeros(rows.size, dtype=np.bool_)
        for column in self.given:
            missing |= rows.missing(column)
        return ~missing

    def group_masks(self, rows: Batch) -> NDArray[np.bool_]:
        """Return a mask of the rows compared in each group, shape (groups, rows)."""
        complete = self.complete_mask(rows)
        if self.by is None:
            return complete[None]
        codes = rows.codes(self.by)
        return np.array([complete & (codes == self.by.code(value)) for value in self.pair])

    def pooled_sample(self, rows: Batch, embedding: Embedding) -> tuple[Sample, NDArray[np.bool_]]:
        """Return the sample of all compared rows, and masks of the rows of the first and of the second group."""
        members = self.group_masks(rows)
        places = np.flatnonzero(members.any(axis=0))
        return Sample(embedding, rows, places), members[:, places]

    def pair_differences(self, rows: Batch, embedding: Embedding) -> tuple[Sample, NDArray[np.bool_]]:
        """Return the embedded differences of paired rows, and a mask of the pairs without missing values."""
        assert self.by is not None  # noqa: S101 - pairs are of two groups
        codes, complete = rows.codes(self.by), self.complete_mask(rows)
        first, second = (np.flatnonzero(codes == self.by.code(value)) for value in self.pair)
        return Sample(embedding, rows, first, second), complete[first] & complete[second]

    def samples(self, rows: Batch, embedding: Embedding, *, paired: bool) -> list[Sample]:
        """Return a list: the differences of complete pairs or, if not `paired`, each group's complete rows."""
        if paired:
            every, complete = self.pair_differences(rows, embedding)
            return [every.subset(complete)]
        return [Sample(embedding, rows, np.flatnonzero(each)) for each in self.group_masks(rows)]


def required_columns(curator: Curator, columns: Sequence[Column], nan_policy: NanPolicy) -> tuple[Column, ...]:
    """Return the columns in which a row must have a value, by the policy for missing values.

    A column with a declared fill value has no missing values.
    """
    gaps = tuple(column for column in columns if not column.filled)
    if nan_policy == "raise":
        curator.refuse_missing(*gaps)
    return gaps if nan_policy == "omit" else ()


Count: TypeAlias = Annotated[int, Range(1, 2**12)]
"""A number of landmarks, locations or permutations."""

Mismatch: TypeAlias = Annotated[float, Range(0, 1, exclusive="high")]
"""What a different category leaves of the kernel."""


@dataclass(frozen=True)
class Design:
    """Design of a kernel test: its columns, kernel and locations.

    Attributes
    ----------
    lengthscales : tuple of float
        In sixths of the bounds' widths; of several, the kernel is the mean.
    points : ndarray of shape (points, columns)
        Public rows.
    """

    columns: tuple[Column, ...]
    features: Features
    lengthscales: tuple[float, ...]
    mismatch: float
    points: Array

    @classmethod
    def from_arguments(
        cls,
        columns: Sequence[Column],
        features: Features,
        lengthscale: object,
        mismatch: float,
        locations: object,
        n_locations: int,
    ) -> Design:
        """Construct the design from the arguments of a test, after checking them."""
        if not columns or len({column.name for column in columns}) < len(columns):
            raise ArgumentError("columns= must name the compared columns, each once.", "Name at least one column.")
        points = location_points(columns, locations, n_locations)
        return cls(tuple(columns), features, lengthscales_of(columns, lengthscale), mismatch, points)

    def embedding(self, *, mapped: bool = True) -> Embedding:
        """Return the embedding of rows for this design."""
        if not mapped and len(self.lengthscales) > 1:
            raise ArgumentError('method="moments" takes a single lengthscale.', "Give a number as lengthscale=.")
        return make_embedding(
            self.features, self.columns, self.lengthscales, self.points, self.mismatch, mapped=mapped
        )

    def location_rows(self, points: Array) -> tuple[tuple[Any, ...], ...]:
        """Return test locations as rows of values by column, with categories by name."""
        return tuple(
            tuple(
                float(value) if column.bounds is not None else (column.categories or ())[int(value)]
                for value, column in zip(row, self.columns, strict=True)
            )
            for row in points
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the design as a dict of JSON values."""
        return {
            "columns": [column.name for column in self.columns],
            "domains": [column.describe() for column in self.columns],
            "features": self.features,
            "lengthscales": list(self.lengthscales),
            "mismatch": self.mismatch,
            "locations": [list(row) for row in self.location_rows(self.points)],
        }


def group_column(by: Column | None, other: Column | None, *, paired: bool) -> Column:
    """Return the column that names the group of a row, after checking by= and other=."""
    if (by is None) == (other is None):
        raise ArgumentError("The test compares two groups of one view, or two views.", "Give either by= or other=.")
    if paired and other is None:
        raise ArgumentError("paired= compares rows of two tables.", "Give the view of the other table: other=.")
    column = by or other
    assert column is not None  # noqa: S101 - one of them is given
    return column


def check_method(
    method: Method,
    alpha: float,
    permutations: int,
    variant: Variant | None,
    features: Features | None,
    gamma: float | None,
    *,
    paired: bool,
    pvalue: bool,
) -> None:
    """Check that the arguments apply to the chosen method of the test."""
    if variant is not None and method != "moments":
        raise ArgumentError(f"variant={variant!r} is an option of the moments test.", 'Use method="moments".')
    if variant is not None and features == "nystrom":
        raise ArgumentError(f"variant={variant!r} cannot use Nyström features.", 'Use features="me" or "scf".')
    if variant == "nte" and paired:
        raise ArgumentError('variant="nte" does not compare paired rows.', 'Use variant="tcmc", or omit paired=.')
    if gamma is not None and method != "whitened":
        raise ArgumentError('gamma= is an option of method="whitened".', 'Use method="whitened".')
    if pvalue and method not in {"permutation", "whitened"}:
        raise ArgumentError(f"method={method!r} always has a p-value.", "Omit pvalue=.")
    if paired and method == "whitened":
        raise ArgumentError(
            'method="whitened" does not compare paired rows.', 'Use "mmd", "permutation" or "moments".'
        )
    if method in {"permutation", "whitened"} and (permutations + 1) * alpha < 1:
        raise ArgumentError(
            f"{permutations} permutations cannot reject at level {alpha}.",
            f"Use n_permutations={math.ceil(1 / alpha)} or more.",
        )


def check_groups(groups: Groups, design: Design, method: Method, variant: Variant | None = None) -> None:
    """Check that the method can compare the groups."""
    (by,) = groups.columns
    if by.name in {column.name for column in design.columns}:
        raise ArgumentError(f"by={by.name!r} is one of the compared columns.", "Name the column of groups as by=.")
    if groups.rows is None:
        if method == "mmd" and not groups.paired:
            return
        raise ArgumentError(
            f"method={method!r} needs groups whose sizes are public.",
            'Use method="mmd", protect the table with public=[...], or select rows by public columns only.',
        )
    if len({*groups.rows}) > 1:
        no_pairs = f"{groups.rows[0]} and {groups.rows[1]} rows cannot be paired"
        if groups.paired:
            raise ArgumentError(f"{no_pairs}.", "Use two tables with the same number of rows, or omit paired=.")
        if variant == "tcmc":
            raise ArgumentError(
                f"TCMC pairs rows by their order, and {no_pairs}.",
                'Use variant="nte", or method="moments" without a variant.',
            )
    if groups.paired and method == "moments" and design.features == "nystrom":
        raise ArgumentError(
            'method="moments" with paired rows needs test locations.', 'Use features="me" or "scf".'
        )
