"""The number that `chi2_many` compares with a threshold in each column, and its laws.

Released and compared are numbers in units of their sensitivity; `unit` brings them back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import ArgumentError
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.counts import Difference, Distance, UnitCircleNorm
from dfprivacy_chi2.laws import by_binomials
from dfprivacy_chi2.omitted import Omitted
from dfprivacy_chi2.tables import tight_sensitivity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy_chi2.laws import Law

__all__ = ["Compared", "Score", "Statistic"]

Statistic = Literal["difference", "unitcircle"]
Score = Literal["statistic", "distance"]

_LONGEST = 1 << 22  # rows of the smaller group, up to which a distance is looked for


@dataclass(frozen=True)
class Compared:
    """Two public groups in which columns are compared.

    Attributes
    ----------
    statistic : {"difference", "unitcircle"}
        The absolute difference of the shares of X = 1, or the norm of the unit circle mechanism.
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

    statistic: Statistic
    by: Column
    groups: tuple[Any, ...]
    sizes: tuple[int, ...]
    fill: bool
    tau: float

    @cached_property
    def unit(self) -> float:
        """How far one row can move the number."""
        n1, n0 = self.sizes
        return 1 / min(n1, n0) if self.statistic == "difference" else tight_sensitivity(n1, n0, self.tau)

    def of(self, xs: Sequence[Column]) -> Difference | UnitCircleNorm:
        """Return the numbers of some columns, in units of their sensitivity."""
        if self.statistic == "difference":
            return Difference(xs, self.by, self.groups, self.sizes, fill=self.fill)
        return UnitCircleNorm(xs, self.by, self.groups, self.sizes, self.tau, self.unit, fill=self.fill)

    def scores(self, score: Score, xs: Sequence[Column]) -> Difference | UnitCircleNorm | Distance:
        """Return what columns are selected by: the number that is tested, or how many rows decide."""
        if score == "statistic":
            return self.of(xs)
        if min(self.sizes) > _LONGEST:
            raise ArgumentError(
                f"The distance is looked for in groups of up to {_LONGEST:,} rows; the smaller one has "
                f"{min(self.sizes):,}.",
                'Use score="statistic".',
            )
        return Distance(xs, self.by, self.groups, self.sizes, self.tau)

    def null(self, rate: nulls.Rate) -> nulls.Null | Omitted:
        """Return the null hypothesis of a column, of all rows or of any of them."""
        n1, n0 = self.sizes
        if self.statistic == "difference":
            return Omitted(min(n1, n0), nulls.nearest_half(rate))
        return nulls.norm(n1, n0, self.tau, rate, complete=self.fill)

    def critical(self, rates: Sequence[nulls.Rate], level: float, *scales: float) -> NDArray[np.float64]:
        """Return the threshold of each column; columns of which the same is known share one."""
        of_rate = {rate: self.null(rate).critical_value(level, *scales) for rate in dict.fromkeys(rates)}
        return np.array([of_rate[rate] for rate in rates])

    def law(self, p1: float, p0: float) -> Law:
        """Return the law of the number if the groups have these shares of X = 1."""
        n1, n0 = self.sizes
        if self.statistic == "difference":
            return by_binomials(lambda c11, c10: np.abs(c11 / n1 - c10 / n0), n1, n0, p1, p0)
        return nulls.norm_law(n1, n0, self.tau, p1, p0)
