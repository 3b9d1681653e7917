"""What the noisy norm may be distributed as if X and the groups are independent.

The share p of X = 1 is a nuisance. A null hypothesis holds one law for each share that cannot be excluded; a
p-value is the largest of theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfprivacy_chi2.laws import Law, by_binomials, by_margin, mixed
from dfprivacy_chi2.tables import unit_circle_norm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Null", "Rate", "bounds_of", "nearest_half", "norm", "norm_given_margin", "norm_law"]

Rate: TypeAlias = "float | tuple[float, float] | None"

_EXACT = 2000  # rows up to which laws are summed over all tables
_GRID = 1.25  # ratio of neighbouring shares on a grid
_HERMITE = np.polynomial.hermite_e.hermegauss(5)


@dataclass(frozen=True)
class Null:
    """Laws of which one is true under the null hypothesis."""

    laws: tuple[Law, ...]

    def pvalue(self, statistic: float, *scales: float) -> float:
        """Return the largest probability of a noisy statistic beyond this one; scales as in `Law.sf`."""
        return max(law.sf(statistic, *scales) for law in self.laws)

    def critical_value(self, alpha: float, *scales: float) -> float:
        """Return the value that a noisy statistic exceeds with probability `alpha` at most."""
        critical = -math.inf
        for law in self.laws:
            if not math.isfinite(critical) or law.sf(critical, *scales) > alpha:
                critical = law.critical_value(alpha, *scales)
        return critical


def norm_law(n1: int, n0: int, tau: float, p1: float, p0: float, complete: tuple[int, int] | None = None) -> Law:
    """Return the law of the norm of the unit circle mechanism."""
    rows = complete or (n1, n0)
    return by_binomials(lambda c11, c10: unit_circle_norm(c11, c10, n1, n0, tau, rows), *rows, p1, p0)


def norm(n1: int, n0: int, tau: float, rate: Rate, *, complete: bool = True) -> Null:
    """Return the null hypothesis of the norm; a constant X, p = 0, has the norm 1.

    Parameters
    ----------
    n1, n0 : int
        Rows in the two groups.
    tau : float
        Value of chi² that the circle stands for.
    rate : float, tuple or None
        What is known of the share of X = 1.
    complete : bool
        Whether no row is left out. Else the null holds the laws of all rows, and of as many of the larger group as
        the smaller one has.
    """

    def law(p: float, rows: tuple[int, int]) -> Law:
        if sum(rows) <= _EXACT:
            return norm_law(n1, n0, tau, p, p, rows)
        # Given M1 the law is hypergeometric; it changes slowly with M1, so that five values stand for all.
        nodes, weights = _HERMITE
        n = sum(rows)
        m1 = np.clip(np.rint(n * p + math.sqrt(n * p * (1 - p)) * nodes), 0, n).astype(int)
        return mixed([norm_given_margin(n1, n0, tau, int(m), rows) for m in m1], weights)

    constant = (Law(np.ones(1), np.ones(1)),) if rate is None else ()
    left = {(n1, n0)} if complete else {(n1, n0), (min(n1, n0),) * 2}
    return Null((*constant, *(law(p, rows) for rows in sorted(left) for p in _shares(rate, n1 + n0))))


def norm_given_margin(n1: int, n0: int, tau: float, m1: int, complete: tuple[int, int] | None = None) -> Law:
    """Return the law of the norm if M1 is known."""
    rows = complete or (n1, n0)
    return by_margin(lambda c11, c10: unit_circle_norm(c11, c10, n1, n0, tau, rows), *rows, m1)


def nearest_half(rate: Rate) -> float:
    """Return the possible share nearest 1/2."""
    low, high = bounds_of(rate)
    return min(max(low, 0.5), high)


def bounds_of(rate: Rate) -> tuple[float, float]:
    """Return the ends of what is known of a share."""
    if rate is None:
        return 0.0, 1.0
    return rate if isinstance(rate, tuple) else (rate, rate)


def _shares(rate: Rate, n: int) -> list[float]:
    """Give the possible shares on a geometric grid; laws are the same for p and 1 - p."""
    low, high = bounds_of(rate)
    low, high = (
        sorted((min(low, 1 - low), min(high, 1 - high)))
        if (low - 0.5) * (high - 0.5) > 0
        else (
            min(low, 1 - high),
            0.5,
        )
    )
    low = max(low, 0.25 / n)
    steps = max(1, math.ceil(math.log(high / low) / math.log(_GRID))) if high > low else 0
    return [low * (high / low) ** (step / max(steps, 1)) for step in range(steps + 1)]
