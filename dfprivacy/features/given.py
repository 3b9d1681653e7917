"""Other features, of complete rows only."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, final

import numpy as np

from dfprivacy._privacy.conversions import above
from dfprivacy._table.batch import described
from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import UP, Composed, Norm, RowFeatures, common_unit, enforced, integers
from dfprivacy.features.moments import Count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.frames import Read
    from dfprivacy.features.base import Integers
    from dfprivacy.schema import Column

__all__ = ["Given"]


@final
class Given(Composed):
    """Features of the rows in which some columns have a value; zero for any other row.

    A row with a missing value then contributes nothing and is not counted, where else it would count with its fill
    value. What is missing is said by `Batch.missing`.

    Parameters
    ----------
    *columns : Column
        The columns that must have a value, at least one.
    of : RowFeatures, optional
        What to sum over these rows; default: `Count`, how many there are.
    tally : tuple of two float, optional
        One more coordinate, the last: the first number for a complete row, the second for any other, so that rows
        are counted in the same vector. The sum is then flat: the coordinates of `of`, and this one.

    Notes
    -----
    The radius is that of `of`. Two rows are a diameter of `of` apart if both are complete, a radius if one is: the
    diameter is the larger of the two, and that of `of` if the columns are public, for then both rows are complete
    or neither is. As most diameters are above the radius, to leave out missing rows mostly costs nothing, and
    ``Given(x, of=Moments(x, count=True))`` also says how many are left.

    With a tally (a, b) and r the radius of `of`, the radius is that of (r, a), or b if that is larger; a complete
    row and another are (r, a - b) apart, where two complete rows are a diameter of `of`. So (0, 1/2) is free beside
    ``Moments(x)`` under Laplace noise, whose radius is 3/2 and diameter 2, where rows change, and (0, 3/2) beside
    ``Moments(x, count=True)`` where they come and go.

    Examples
    --------
    >>> from dfprivacy import Column
    >>> from dfprivacy.features import Moments
    >>> age = Column("age", bounds=(0, 100))
    >>> Given(age, of=Moments(age, degree=1)).diameter(1, frozenset()), Given(age).diameter(1, frozenset())
    (2.0, 1.0)
    >>> Given(age, of=Moments(age, degree=1), tally=(0, 1)).diameter(1, frozenset())
    2.0
    """

    def __init__(
        self, *columns: Column, of: RowFeatures | None = None, tally: tuple[float, float] | None = None
    ) -> None:
        if not columns:
            raise ArgumentError("Given() was given no column.", "Name those that must have a value.")
        if tally is not None and not (len(tally) == 2 and all(map(math.isfinite, tally)) and any(tally)):  # noqa: PLR2004
            raise ArgumentError(
                f"tally={tally!r} counts nothing.", "For example (0, 1): how many rows are left out."
            )
        self.given = columns
        self.of = of = Count() if of is None else enforced(of)
        self.columns = tuple(dict.fromkeys((*columns, *of.columns)))
        self.tally = None if tally is None else (float(tally[0]), float(tally[1]))
        self.shape, self.weights = of.shape, of.weights
        if tally is not None:
            self.shape = (of.dimension + 1,)
            self.weights = np.append(np.broadcast_to(of.weights, of.shape).ravel(), 1.0)

    @property
    def inner(self) -> Sequence[RowFeatures]:
        """Features that this one is made of."""
        return (self.of,)

    @property
    def reads(self) -> Sequence[Read]:
        """How the columns are read."""
        return [*(described(column) for column in self.given), *self.of.reads]

    @property
    def summands(self) -> int:
        """Number of coordinates that are added up."""
        return super().summands + (self.tally is not None)

    @property
    def support(self) -> int:
        """Most coordinates that one row can make different from zero."""
        return super().support + (self.tally is not None)

    @property
    def unit(self) -> float | None:
        """The unit of what is summed, and of the tally."""
        return common_unit((self.of.unit, *(self.tally or ())))

    @property
    def stacked(self) -> tuple[RowFeatures, ...]:
        """The features whose sums lie one after the other along the last axis."""
        return self.of.stacked if self.tally is None else ()

    def complete(self, batch: Batch) -> NDArray[np.bool_]:
        """Return which rows of a batch have all the values."""
        complete: NDArray[np.bool_] = ~reduce(operator.or_, [batch.missing(column) for column in self.given])
        return complete

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the vectors of a batch."""
        inner = np.asarray(self.of.rows(batch), dtype=np.float64).reshape(batch.size, self.of.dimension)
        return self._where(self.complete(batch), inner, self.tally)

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return the vectors of a batch in whole steps, those of `of` clipped as they would be alone."""
        return self._where(self.complete(batch), self.of.steps(batch, k), self._tallied(k))

    def _where(
        self, complete: NDArray[np.bool_], inner: NDArray[np.float64], tally: tuple[float, float] | None
    ) -> NDArray[np.float64]:
        vectors = np.where(complete[:, None], inner, 0.0)
        return vectors if tally is None else np.column_stack([vectors, np.where(complete, *tally)])

    def _tallied(self, k: int) -> tuple[float, float] | None:
        """Return the tally of a row in whole steps."""
        return None if self.tally is None else (_steps(self.tally[0], k), _steps(self.tally[1], k))

    def totals(self, batch: Batch, place: NDArray[np.intp] | None, bins: int, k: int) -> NDArray[np.float64]:
        """Return the exact sums of the complete rows at each place below `bins`, shape (bins, summands)."""
        inside, complete = place, self.complete(batch)
        if not complete.all():  # most often nothing is missing, and no row need be picked
            inside = np.where(complete, 0 if place is None else place, bins)
        totals = self.of.totals(batch, inside, bins, k)
        if (tally := self._tallied(k)) is None:
            return totals
        rows, left = (Count().totals(batch, each, bins, 0) for each in (place, inside))
        return np.hstack([totals, left * tally[0] + (rows - left) * tally[1]])

    def image(self, total: Integers, k: int) -> Integers:
        """Return the released coordinates of the exact sums."""
        if self.tally is None:
            return self.of.image(total, k)
        return [*integers(self.of.image(total[:-1], k)), *integers(total[-1:])]

    def radius(self, norm: Norm) -> float:
        """Largest norm of a vector."""
        radius = self.of.radius(norm)
        return radius if self.tally is None else max(_both(radius, self.tally[0], norm), abs(self.tally[1]))

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Largest distance of two vectors."""
        within = self.of.diameter(norm, public)
        if all(column.name in public for column in self.given):
            return within
        apart = 0.0 if self.tally is None else above(abs(Fraction(self.tally[0]) - Fraction(self.tally[1])))
        return max(within, _both(self.of.radius(norm), apart, norm))

    def describe(self) -> str:
        """Name the feature in words."""
        return f"{self.of.describe()} given {', '.join(column.name for column in self.given)}"


def _steps(number: float, k: int) -> float:
    """Round a number to whole steps of 2 to the minus `k`."""
    return float(np.rint(math.ldexp(number, k)))


def _both(length: float, one: float, norm: Norm) -> float:
    """Norm of a vector of a length and one more coordinate, rounded up."""
    one = abs(one)
    if not one or norm == math.inf:
        return max(length, one)
    if norm == 1:
        return above(Fraction(length) + Fraction(one))
    return math.hypot(length, one) * UP
