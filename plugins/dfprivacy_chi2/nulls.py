"""What a noisy statistic may be distributed as if X and the groups are independent, and the tests that follow.

The share p of X = 1 is a nuisance. A null hypothesis holds one law for each share that cannot be excluded; a
p-value is the largest of theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfprivacy_chi2.laws import Discrete, Folded, Law, by_binomials, by_margin, chi
from dfprivacy_chi2.shares import Shares, tails
from dfprivacy_chi2.tables import signed_distances, unit_circle_norm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "MOST_TABLES",
    "AbsoluteDifference",
    "Null",
    "Rate",
    "Widest",
    "association",
    "bounds_of",
    "difference",
    "difference_law",
    "distance",
    "distance_law",
    "nearest_half",
    "norm",
    "norm_given_margin",
    "norm_law",
    "spread",
]

Rate: TypeAlias = "float | tuple[float, float] | None"

MOST_TABLES = 1 << 25
"""Possible tables up to which the law of the signed distance is computed."""

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


@dataclass(frozen=True)
class Widest:
    """Null hypotheses of which one is true."""

    nulls: tuple[Shares, ...]

    def pvalue(self, statistic: float, *scales: float) -> float:
        """Return the largest of their p-values."""
        return max(null.pvalue(statistic, *scales) for null in self.nulls)

    def critical_value(self, alpha: float, *scales: float) -> float:
        """Return the largest of their critical values."""
        return max(null.critical_value(alpha, *scales) for null in self.nulls)


@dataclass(frozen=True)
class AbsoluteDifference(Law):
    """The exact law of the absolute difference of the shares of X = 1 in two groups."""

    n1: int
    n0: int
    p1: float
    p0: float

    @property
    def reach(self) -> float:
        """A value that it does not exceed."""
        return 1.0

    def _above(self, t: float, scale: float) -> float:
        return float(tails(self.n1, self.n0, np.array([self.p1]), np.array([self.p0]), t, scale)[0])


def difference_law(n1: int, n0: int, p1: float, p0: float) -> AbsoluteDifference:
    """Return the law of the absolute difference of the shares of X = 1 in two groups."""
    return AbsoluteDifference(n1, n0, p1, p0)


def difference(n1: int, n0: int, rate: Rate, *, complete: bool = True) -> Widest:
    """Return the null hypothesis of the absolute difference.

    Parameters
    ----------
    n1, n0 : int
        Rows in the two groups.
    rate : float, tuple or None
        What is known of the share of X = 1.
    complete : bool
        Whether no row is left out. Else fewer rows than these are counted. The statistic, in units of the smaller
        group, then varies most if none is left out, or if as many of the larger group are left as the smaller one
        has (by the normal law): the null holds both.
    """
    low, high = bounds_of(rate)
    sizes = {(n1, n0)} if complete else {(n1, n0), (min(n1, n0),) * 2}
    return Widest(tuple(Shares(*each, low, high) for each in sorted(sizes)))


def norm_law(n1: int, n0: int, tau: float, p1: float, p0: float, complete: tuple[int, int] | None = None) -> Law:
    """Return the law of the norm of the unit circle mechanism."""
    rows = complete or (n1, n0)
    return by_binomials(lambda c11, c10: unit_circle_norm(c11, c10, n1, n0, tau, rows), *rows, p1, p0)


def norm(n1: int, n0: int, tau: float, rate: Rate, *, complete: bool = True) -> Null:
    """Return the null hypothesis of the norm; a constant X, p = 0, has the norm 1.

    Where rows are left out it holds the laws of all rows, and of as many of the larger group as the smaller one
    has, as that of a difference does.
    """

    def law(p: float, rows: tuple[int, int]) -> Law:
        if sum(rows) <= _EXACT:
            return norm_law(n1, n0, tau, p, p, rows)
        # Given M1 the law is hypergeometric; it changes slowly with M1, so that five values stand for all.
        nodes, weights = _HERMITE
        n = sum(rows)
        m1 = np.clip(np.rint(n * p + math.sqrt(n * p * (1 - p)) * nodes), 0, n).astype(int)
        parts = [norm_given_margin(n1, n0, tau, int(m), rows) for m in m1]
        points = np.concatenate([part.points for part in parts])
        shares = weights / weights.sum()
        return Discrete(points, np.concatenate([w * part.weights for w, part in zip(shares, parts, strict=True)]))

    constant = (Discrete(np.ones(1), np.ones(1)),) if rate is None else ()
    left = {(n1, n0)} if complete else {(n1, n0), (min(n1, n0),) * 2}
    return Null((*constant, *(law(p, rows) for rows in sorted(left) for p in _shares(rate, n1 + n0))))


def norm_given_margin(n1: int, n0: int, tau: float, m1: int, complete: tuple[int, int] | None = None) -> Discrete:
    """Return the law of the norm if M1 is known."""
    rows = complete or (n1, n0)
    return by_margin(lambda c11, c10: unit_circle_norm(c11, c10, n1, n0, tau, rows), *rows, m1)


def distance_law(table: NDArray[np.int64], p1: float, p0: float) -> Law:
    """Return the law of the signed distance, given that of all tables."""
    n1, n0 = (side - 1 for side in table.shape)
    return by_binomials(lambda c11, c10: table[c11, c10].astype(np.float64), n1, n0, p1, p0)


def distance(n1: int, n0: int, tau: float, rate: Rate) -> Null:
    """Return the null hypothesis of the signed distance."""
    table = signed_distances(n1, n0, tau)
    constant = (Discrete(np.full(1, float(table[0, 0])), np.ones(1)),) if rate is None else ()
    return Null((*constant, *(distance_law(table, p, p) for p in _shares(rate, n1 + n0))))


def association(n: int) -> Null:
    """Return the null hypothesis of c11 c00 - c10 c01/(N-1), whose law is widest where both margins are even.

    (Seen on grids, not proved.)
    """
    return Null((Folded(0.0, math.sqrt(n) / 4 * n / (n - 1)),))


def spread(categories: int, groups: int, rate: Rate | Sequence[float]) -> Null:
    """Return the null hypothesis of the spread of the shares of `categories` over `groups`.

    Parameters
    ----------
    categories : int
        2 counts one of two categories, more count all.
    groups : int
        Number of groups.
    rate : float, tuple or None
        Two categories: what is known of p. More: the shares by which the statistic is weighted (then it is
        Pearson's), None if it is not: then the law is taken to be widest where some of the categories are equally
        frequent and the others do not occur (seen on random shares, not proved).
    """
    if categories == 2:  # noqa: PLR2004
        p = nearest_half(rate)  # type: ignore[arg-type]
        return Null((chi(groups - 1, math.sqrt(p * (1 - p))),))
    if rate is not None:
        return Null((chi((categories - 1) * (groups - 1), 1.0),))
    return Null(
        tuple(chi((k - 1) * (groups - 1), math.sqrt(1 / k)) for k in range(2, categories + 1)),
    )


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
