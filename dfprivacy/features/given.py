"""Other features, of complete rows only."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np

from dfprivacy._table.batch import described
from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import Norm, RowFeatures, enforced
from dfprivacy.features.moments import Count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.frames import Read
    from dfprivacy.schema import Column

__all__ = ["Given"]


@final
class Given(RowFeatures):
    """Features of the rows in which some columns have a value; zero for any other row.

    A row with a missing value then contributes nothing and is not counted, where else it would count with its fill
    value. What is missing is said by `Batch.missing`.

    Parameters
    ----------
    *columns : Column
        The columns that must have a value, at least one.
    of : RowFeatures, optional
        What to sum over these rows; default: `Count`, how many there are.

    Notes
    -----
    The radius is that of `of`. Two rows are a diameter of `of` apart if both are complete, a radius if one is: the
    diameter is the larger of the two, and that of `of` if the columns are public, for then both rows are complete
    or neither is. As most diameters are above the radius, to leave out missing rows mostly costs nothing, and
    ``Given(x, of=Moments(x, count=True))`` also says how many are left.

    Examples
    --------
    >>> from dfprivacy import Column
    >>> from dfprivacy.features import Moments
    >>> age = Column("age", bounds=(0, 100))
    >>> Given(age, of=Moments(age, degree=1)).diameter(1, frozenset()), Given(age).diameter(1, frozenset())
    (2.0, 1.0)
    """

    def __init__(self, *columns: Column, of: RowFeatures | None = None) -> None:
        if not columns:
            raise ArgumentError("Given() was given no column.", "Name those that must have a value.")
        self.given = columns
        self.of = of = Count() if of is None else enforced(of)
        self.columns = tuple(dict.fromkeys((*columns, *of.columns)))
        self.shape = of.shape
        self.weights = of.weights

    @property
    def reads(self) -> Sequence[Read]:
        """How the columns are read."""
        return [*(described(column) for column in self.given), *self.of.reads]

    @property
    def summands(self) -> int:
        """Number of coordinates that are added up."""
        return self.of.summands

    @property
    def support(self) -> int:
        """Most coordinates that one row can make different from zero."""
        return self.of.support

    @property
    def counts(self) -> bool:
        """Whether every coordinate of every row is a whole number."""
        return self.of.counts

    @property
    def stacked(self) -> tuple[RowFeatures, ...]:
        """The features whose sums lie one after the other along the last axis."""
        return self.of.stacked

    def complete(self, batch: Batch) -> NDArray[np.bool_]:
        """Tell which rows of a batch have all the values."""
        gone = np.zeros(batch.size, dtype=np.bool_)
        for column in self.given:
            gone |= batch.missing(column)
        return ~gone

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the vectors of a batch."""
        inner = np.asarray(self.of.rows(batch), dtype=np.float64).reshape(batch.size, self.dimension)
        return np.where(self.complete(batch)[:, None], inner, 0.0)

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return the vectors of a batch in whole steps, those of `of` clipped as they would be alone."""
        return np.where(self.complete(batch)[:, None], self.of.steps(batch, k), 0.0)

    def total(self, batch: Batch, mask: NDArray[np.bool_] | None, k: int) -> NDArray[np.float64]:
        """Return the exact sum of a batch in whole steps."""
        complete = self.complete(batch)
        if not complete.all():  # most often nothing is missing, and no row need be picked
            mask = complete if mask is None else mask & complete
        return self.of.total(batch, mask, k)

    def totals(self, batch: Batch, place: NDArray[np.intp], bins: int, k: int) -> NDArray[np.float64]:
        """Return the same for the rows at each place below `bins`, shape (bins, summands)."""
        complete = self.complete(batch)
        return self.of.totals(batch, place if complete.all() else np.where(complete, place, bins), bins, k)

    def image(self, total: list[int], k: int) -> list[int]:
        """Return the released coordinates of the exact sums."""
        return self.of.image(total, k)

    def radius(self, norm: Norm) -> float:
        """Largest norm of a vector."""
        return self.of.radius(norm)

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Largest distance of two vectors."""
        within = self.of.diameter(norm, public)
        if all(column.name in public for column in self.given):
            return within
        return max(within, self.of.radius(norm))

    def describe(self) -> str:
        """Name the feature in words."""
        return f"{self.of.describe()} given {', '.join(column.name for column in self.given)}"
