"""What `chi2_many` asks of each column: a number that one row moves by 1, and its laws.

Released and compared are numbers in units of their sensitivity; `unit` brings them back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import ArgumentError
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.counts import Difference, Distance, UnitCircleNorm
from dfprivacy_chi2.omitted import Omitted
from dfprivacy_chi2.tables import tight_sensitivity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy_chi2.laws import Law

__all__ = ["Compared", "Differences", "Norms", "Score", "Statistic", "compared", "scores"]

Statistic = Literal["difference", "unitcircle"]
Score = Literal["statistic", "distance"]

_LONGEST = 1 << 22  # rows of the smaller group, up to which a distance is looked for


@dataclass(frozen=True)
class Compared:
    """Two public groups in which columns are compared.

    Attributes
    ----------
    by : Column
        The column of the groups.
    groups : tuple
        The two.
    sizes : tuple of int
        Their rows.
    fill : bool
        Whether rows without a value count as the first category; else they are left out.
    tau : float
        The value of chi² that a circle or a distance is about.
    """

    by: Column
    groups: tuple[Any, ...]
    sizes: tuple[int, ...]
    fill: bool
    tau: float

    def critical(self, rates: Sequence[nulls.Rate], level: float, *scales: float) -> NDArray[np.float64]:
        """Return the threshold of each column; columns of which the same is known share one."""
        of_rate = {rate: self.null(rate).critical_value(level, *scales) for rate in dict.fromkeys(rates)}
        return np.array([of_rate[rate] for rate in rates])

    @property
    def unit(self) -> float:
        """How far one row can move the number."""
        raise NotImplementedError

    def of(self, xs: Sequence[Column]) -> Difference | UnitCircleNorm:
        """Return the numbers of some columns, in units of their sensitivity."""
        raise NotImplementedError

    def null(self, rate: nulls.Rate) -> nulls.Widest | nulls.Null | Omitted:
        """Return the null hypothesis of a column, of all rows or of any of them."""
        raise NotImplementedError

    def law(self, p1: float, p0: float) -> Law:
        """Return the law of the number if the groups have these shares of X = 1."""
        raise NotImplementedError


class Differences(Compared):
    """The absolute difference of the shares of X = 1."""

    @property
    def unit(self) -> float:
        """How far one row can move the number."""
        return 1 / min(self.sizes)

    def of(self, xs: Sequence[Column]) -> Difference:
        """Return the numbers of some columns."""
        return Difference(xs, self.by, self.groups, self.sizes, fill=self.fill)

    def null(self, rate: nulls.Rate) -> nulls.Widest | Omitted:
        """Return the null hypothesis of a column."""
        if self.fill:
            return nulls.difference(self.sizes[0], self.sizes[1], rate)
        return Omitted(min(self.sizes), nulls.nearest_half(rate))

    def law(self, p1: float, p0: float) -> Law:
        """Return the law of the number."""
        return nulls.difference_law(self.sizes[0], self.sizes[1], p1, p0)


class Norms(Compared):
    """The norm of the unit circle mechanism."""

    @property
    def unit(self) -> float:
        """How far one row can move the number."""
        return tight_sensitivity(self.sizes[0], self.sizes[1], self.tau)

    def of(self, xs: Sequence[Column]) -> UnitCircleNorm:
        """Return the numbers of some columns."""
        return UnitCircleNorm(xs, self.by, self.groups, self.sizes, self.tau, self.unit, fill=self.fill)

    def null(self, rate: nulls.Rate) -> nulls.Null:
        """Return the null hypothesis of a column."""
        return nulls.norm(self.sizes[0], self.sizes[1], self.tau, rate, complete=self.fill)

    def law(self, p1: float, p0: float) -> Law:
        """Return the law of the number."""
        return nulls.norm_law(self.sizes[0], self.sizes[1], self.tau, p1, p0)


def compared(
    statistic: Statistic,
    by: Column,
    groups: tuple[Any, ...],
    sizes: tuple[int, ...],
    *,
    fill: bool,
    tau: float,
) -> Compared:
    """Return what is asked of each column."""
    kind = Differences if statistic == "difference" else Norms
    return kind(by, groups, sizes, fill, tau)


def scores(score: Score, question: Compared, xs: Sequence[Column]) -> Difference | UnitCircleNorm | Distance:
    """Return what columns are selected by: the number that is tested, or how many rows decide."""
    if score == "statistic":
        return question.of(xs)
    if min(question.sizes) > _LONGEST:
        raise ArgumentError(
            f"The distance is looked for in groups of up to {_LONGEST:,} rows; the smaller one has "
            f"{min(question.sizes):,}.",
            'Use score="statistic".',
        )
    return Distance(xs, question.by, question.groups, question.sizes, question.tau)
