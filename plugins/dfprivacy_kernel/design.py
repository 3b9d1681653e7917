"""What is compared, and which arguments fit together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from dfprivacy import ArgumentError, Range
from dfprivacy_kernel.embedding import embed, lengthscales_of, points_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Column
    from dfprivacy_kernel.embedding import Array, Embedding, Features
    from dfprivacy_kernel.groups import Groups
    from dfprivacy_kernel.printed import Variant
    from dfprivacy_kernel.results import Method

__all__ = [
    "Count",
    "Design",
    "Mismatch",
    "check_groups",
    "check_method",
    "column_of",
]

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
    alpha: float,
    permutations: int,
    variant: Variant | None,
    features: Features | None,
    gamma: float | None,
    *,
    paired: bool,
    pvalue: bool,
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
    (by,) = groups.columns
    if by.name in {column.name for column in design.columns}:
        raise ArgumentError(f"by={by.name!r} is among what is compared.", "Name the column of the groups.")
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
