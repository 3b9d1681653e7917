"""Which rows are compared: those of two groups in which no value is missing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np

from dfprivacy import ArgumentError, Range
from dfprivacy.features import Given, OneHot
from dfprivacy_kernel.embedding import embed, lengthscales_of, points_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator, NanPolicy
    from dfprivacy.features import Batch
    from dfprivacy_kernel.embedding import Array, Embedding, Features
    from dfprivacy_kernel.printed import Variant
    from dfprivacy_kernel.results import Method

__all__ = [
    "Count",
    "Design",
    "Groups",
    "Mismatch",
    "can_be_missing",
    "check_groups",
    "check_method",
    "column_of",
    "complete",
]

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
    """Give the columns of which a value can be missing: not those where somebody said what that counts as."""
    return tuple(column for column in columns if not column.filled)


def complete(rows: Batch, columns: Sequence[Column]) -> NDArray[np.bool_]:
    """Tell in which rows no value is missing, shape (rows,)."""
    missing = np.zeros(rows.size, dtype=np.bool_)
    for column in columns:
        missing |= rows.missing(column)
    return ~missing


Count: TypeAlias = Annotated[int, Range(1, 2**12)]
"""A number of landmarks, locations or permutations."""

Mismatch: TypeAlias = Annotated[float, Range(0, 1, exclusive="high")]
"""What a different category leaves of the kernel."""


@dataclass(frozen=True)
class Design:
    """Columns, kernel and points of a test.

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
    def read(
        cls,
        columns: Sequence[Column],
        features: Features,
        lengthscale: object,
        mismatch: float,
        locations: object,
        n_locations: int,
    ) -> Design:
        """Check the arguments, or raise an `ArgumentError`."""
        if not columns or len({column.name for column in columns}) < len(columns):
            raise ArgumentError("columns= must name what is compared, each column once.", "Name at least one.")
        points = points_of(columns, locations, n_locations)
        return cls(tuple(columns), features, lengthscales_of(columns, lengthscale), mismatch, points)

    def embedding(self, *, mapped: bool = True) -> Embedding:
        """Make the embedding."""
        if not mapped and len(self.lengthscales) > 1:
            raise ArgumentError("The moments test takes one lengthscale.", "Give a number.")
        return embed(self.features, self.columns, self.lengthscales, self.points, self.mismatch, mapped=mapped)

    def located(self, points: Array) -> tuple[tuple[Any, ...], ...]:
        """Give points as rows of the columns, categories by name."""
        return tuple(
            tuple(
                float(value) if column.bounds is not None else (column.categories or ())[int(value)]
                for value, column in zip(row, self.columns, strict=True)
            )
            for row in points
        )

    def to_dict(self) -> dict[str, Any]:
        """Give it in JSON values."""
        return {
            "columns": [column.name for column in self.columns],
            "domains": [column.describe() for column in self.columns],
            "features": self.features,
            "lengthscales": list(self.lengthscales),
            "mismatch": self.mismatch,
            "locations": [list(row) for row in self.located(self.points)],
        }


def column_of(by: Column | None, other: Column | None, *, paired: bool) -> Column:
    """Give the column that tells the samples apart."""
    if (by is None) == (other is None):
        raise ArgumentError(
            "Two samples are compared: two groups of one view, or two views.", "Give either by= or other=."
        )
    if paired and other is None:
        raise ArgumentError("Pairs are rows of two tables.", "Give the other table's view: other=.")
    column = by or other
    assert column is not None  # noqa: S101 - one of them is given
    return column


def check_method(
    method: Method,
    *,
    paired: bool,
    pvalue: bool,
    permutations: int,
    alpha: float,
    variant: Variant | None,
    features: Features | None,
    gamma: float | None,
) -> None:
    """Refuse arguments that a method has no use for."""
    if variant is not None and method != "moments":
        raise ArgumentError(f"variant={variant!r} is of the moments test.", 'Use method="moments".')
    if variant is not None and features == "nystrom":
        raise ArgumentError(f"variant={variant!r} knows no Nyström features.", 'Use features="me" or "scf".')
    if variant == "nte" and paired:
        raise ArgumentError("NTE has two parties, who know no pairs.", 'Use variant="tcmc", or leave out paired=.')
    if gamma is not None and method != "whitened":
        raise ArgumentError("gamma= is the ridge of the whitened statistic.", 'Use method="whitened".')
    if pvalue and method not in {"permutation", "whitened"}:
        raise ArgumentError(f"method={method!r} has its p-value anyway.", "Leave out pvalue=.")
    if paired and method == "whitened":
        raise ArgumentError('method="whitened" knows no pairs.', 'Use "mmd", "permutation" or "moments".')
    if method in {"permutation", "whitened"} and (permutations + 1) * alpha < 1:
        raise ArgumentError(
            f"{permutations} permutations can never reject at level {alpha}.",
            f"Use {math.ceil(1 / alpha)} or more.",
        )


def check_groups(groups: Groups, design: Design, method: Method, *, paired: bool, variant: Variant | None) -> None:
    """Refuse groups that a method cannot compare."""
    if groups.by.name in {column.name for column in design.columns}:
        raise ArgumentError(f"by={groups.by.name!r} is among what is compared.", "Name the column of the groups.")
    if groups.rows is None and (method != "mmd" or paired):
        raise ArgumentError(
            f"method={method!r} needs groups whose sizes are public.",
            'Use method="mmd", protect the table with public=[...], or select rows by public columns only.',
        )
    if paired and groups.rows and groups.rows[0] != groups.rows[1]:
        raise ArgumentError(
            f"{groups.rows[0]} and {groups.rows[1]} rows are no pairs.", "Pairs need as many rows in both tables."
        )
    if variant == "tcmc" and groups.rows and groups.rows[0] != groups.rows[1]:
        raise ArgumentError(
            f"TCMC pairs rows by their order, and {groups.rows[0]} and {groups.rows[1]} rows are no pairs.",
            'Use variant="nte", or method="moments" without a variant.',
        )
    if paired and method == "moments" and design.features == "nystrom":
        raise ArgumentError("Moments of pairs need locations.", 'Use features="me" or "scf".')
