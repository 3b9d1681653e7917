"""What is public about a test: columns, kernel, and where it looks. All follows from arguments and bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from dfprivacy import ArgumentError, Range
from dfprivacy_kernel.embedding import embed, informative, lengthscales_of, points_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Column
    from dfprivacy_kernel.embedding import Array, Embedding, Features

__all__ = ["Count", "Design", "Mismatch"]

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
        In sixths of the bounds' widths.
    averaged : bool
        Whether several lengthscales make one kernel, their mean; else each makes its own.
    points : ndarray of shape (points, columns)
        Public rows.
    notes : tuple of str
        What was left out.
    """

    columns: tuple[Column, ...]
    features: Features
    lengthscales: tuple[float, ...]
    averaged: bool
    mismatch: float
    points: Array
    notes: tuple[str, ...] = ()

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
        lengthscales, averaged = lengthscales_of(columns, lengthscale)
        points = points_of(columns, locations, n_locations)
        kept = lengthscales
        notes: tuple[str, ...] = ()
        if not averaged:
            kept = tuple(each for each in lengthscales if informative(columns, each, points, mismatch))
            left = sorted(set(lengthscales) - set(kept))
            notes = (f"Left out, for no landmark sees another: lengthscales {left}.",) if left else ()
            if not kept:
                raise ArgumentError("No lengthscale lets the landmarks see each other.", "Give larger ones.")
        return cls(tuple(columns), features, kept, averaged, mismatch, points, notes)

    def embedding(self, *, mapped: bool = True) -> Embedding:
        """Make the embedding of one kernel, or raise if there are several."""
        if not (self.averaged or len(self.lengthscales) == 1):
            raise ArgumentError(
                "This method takes one kernel.", 'Give one lengthscale, or "robust" where it is offered.'
            )
        if not mapped and len(self.lengthscales) > 1:
            raise ArgumentError("The moments test takes one lengthscale.", "Give a number.")
        return embed(self.features, self.columns, self.lengthscales, self.points, self.mismatch, mapped=mapped)

    def embeddings(self) -> tuple[Embedding, ...]:
        """Make the embeddings of all kernels."""
        sets = [self.lengthscales] if self.averaged else [(each,) for each in self.lengthscales]
        return tuple(embed(self.features, self.columns, each, self.points, self.mismatch) for each in sets)

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
