"""What a noisy statistic may be distributed as if X and the groups are independent, and the tests that follow.

The share p of X = 1 is a nuisance. A null hypothesis holds one law for each share that cannot be excluded; a
p-value is the largest of theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.optimize import brentq

from dfprivacy_chi2.laws import Discrete, Folded, Law, by_binomials, by_margin, chi, folded_sf
from dfprivacy_chi2.tables import signed_distances, unit_circle_norm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "MOST_TABLES",
    "NoisyShare",
    "Null",
    "Rate",
    "association",
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
        found = -math.inf
        for law in self.laws:
            if not math.isfinite(found) or law.sf(found, *scales) > alpha:
                found = law.critical_value(alpha, *scales)
        return found


def difference_law(n1: int, n0: int, p1: float, p0: float) -> Law:
    """Return the law of the absolute difference the absolute δ of the shares of X = 1 in two groups."""
    if n1 + n0 <= _EXACT:
        return by_binomials(lambda c11, c10: np.abs(c11 / n1 - c10 / n0), n1, n0, p1, p0)
    return Folded(p1 - p0, math.sqrt(p1 * (1 - p1) / n1 + p0 * (1 - p0) / n0))


def difference(n1: int, n0: int, rate: Rate) -> Null:
    """Return the null hypothesis of the absolute δ, widest where p is nearest 1/2 (seen on grids, not proved)."""
    p = nearest_half(rate)
    return Null((difference_law(n1, n0, p, p),))


def norm_law(n1: int, n0: int, tau: float, p1: float, p0: float) -> Law:
    """Return the law of the norm of the unit circle mechanism."""
    return by_binomials(lambda c11, c10: unit_circle_norm(c11, c10, n1, n0, tau), n1, n0, p1, p0)


def norm(n1: int, n0: int, tau: float, rate: Rate) -> Null:
    """Return the null hypothesis of the norm; a constant X, p = 0, has the norm 1."""

    def law(p: float) -> Law:
        if n1 + n0 <= _EXACT:
            return norm_law(n1, n0, tau, p, p)
        # Given M1 the law is hypergeometric; it changes slowly with M1, so that five values stand for all.
        nodes, weights = _HERMITE
        n = n1 + n0
        m1 = np.clip(np.rint(n * p + math.sqrt(n * p * (1 - p)) * nodes), 0, n).astype(int)
        parts = [norm_given_margin(n1, n0, tau, int(m)) for m in m1]
        points = np.concatenate([part.points for part in parts])
        shares = weights / weights.sum()
        return Discrete(points, np.concatenate([w * part.weights for w, part in zip(shares, parts, strict=True)]))

    constant = (Discrete(np.ones(1), np.ones(1)),) if rate is None else ()
    return Null((*constant, *(law(p) for p in _shares(rate, n1 + n0))))


def norm_given_margin(n1: int, n0: int, tau: float, m1: int) -> Discrete:
    """Return the law of the norm if M1 is known."""
    return by_margin(lambda c11, c10: unit_circle_norm(c11, c10, n1, n0, tau), n1, n0, m1)


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
    low, high = _range(rate)
    return min(max(low, 0.5), high)


def _range(rate: Rate) -> tuple[float, float]:
    if rate is None:
        return 0.0, 1.0
    return rate if isinstance(rate, tuple) else (rate, rate)


def _shares(rate: Rate, n: int) -> list[float]:
    """Give the possible shares on a geometric grid; laws are the same for p and 1 - p."""
    low, high = _range(rate)
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


@dataclass(frozen=True)
class NoisyShare:
    """The null hypothesis of the absolute δ where a noisy total of X = 1 says which shares are likely.

    The test takes the share nearest 1/2 within `reach` scales of the noise of the total: its p-value π. How often
    that is at most u, at the share where it is so most often, is G(u), and G(π) is a p-value. Normal laws
    throughout.

    Attributes
    ----------
    n1, n0 : int
        Sizes of the groups.
    total : float
        The noisy total.
    total_scale : float
        Scale of its noise.
    reach : float
        In scales of the noise.
    """

    n1: int
    n0: int
    total: float
    total_scale: float
    reach: float = 2.0

    def share(self, total: float | Array) -> Array:
        """Return the share that the test takes if this is the total."""
        n = self.n1 + self.n0
        width = self.reach * self.total_scale
        nearest: Array = np.clip(0.5, np.clip((total - width) / n, 0, 1), np.clip((total + width) / n, 0, 1))
        return nearest

    def sd(self, p: float | Array) -> Array:
        """Return the standard deviation of δ at a share."""
        return np.sqrt(p * (1 - np.asarray(p)) * (1 / self.n1 + 1 / self.n0))

    def pvalue(self, statistic: float, scale: float) -> float:
        """Return the p-value of a noisy statistic."""
        plain = float(folded_sf(statistic, 0.0, self.sd(self.share(self.total)), scale))
        return self.size(plain, scale)

    def critical_value(self, alpha: float, scale: float) -> float:
        """Return the value that a noisy statistic exceeds with probability `alpha` at most."""
        plain = self.plain_level(alpha, scale)
        return Folded(0.0, float(self.sd(self.share(self.total)))).critical_value(plain, scale)

    def plain_level(self, alpha: float, scale: float) -> float:
        """Return the u with G(u) = alpha. It does not depend on the total."""
        return _plain_level(replace(self, total=0.0), alpha, scale)

    def size(self, plain: float, scale: float) -> float:
        """Return G(u)."""
        if not 0 < plain < 1:
            return min(max(plain, 0.0), 1.0)
        p = np.array(_shares(None, self.n1 + self.n0))[:, None, None]
        m1 = self._sampled(p)
        at = self.critical_values(plain, scale, self.share(m1 + self.total_scale * _LAPLACE))
        # Given M1 the difference varies as if that were the share: with M1 = 0 it is 0.
        given = self.sd(m1 / (self.n1 + self.n0))
        return float((folded_sf(at, 0.0, given, scale) * self._weights).sum(axis=(1, 2)).max())

    def power(self, alpha: float, scale: float, p1: float, p0: float) -> float:
        """Return the probability to reject at shares p1 and p0, whatever the total is."""
        p = (self.n1 * p1 + self.n0 * p0) / (self.n1 + self.n0)
        shares = self.share(self._sampled(p) + self.total_scale * _LAPLACE)
        at = self.critical_values(self.plain_level(alpha, scale), scale, shares)
        sd = math.sqrt(p1 * (1 - p1) / self.n1 + p0 * (1 - p0) / self.n0)
        return float((folded_sf(at, p1 - p0, sd, scale) * self._weights).sum())

    def critical_values(self, plain: float, scale: float, shares: Array) -> Array:
        """Return those of many shares, by a table."""
        sds = np.linspace(0.0, float(self.sd(0.5)), 129)
        low, high = np.zeros_like(sds), np.full_like(sds, Folded(0.0, float(sds[-1])).critical_value(plain, scale))
        low -= abs(high) + scale
        for _ in range(40):
            middle = (low + high) / 2
            over = folded_sf(middle, 0.0, sds, scale) > plain
            low, high = np.where(over, middle, low), np.where(over, high, middle)
        return np.interp(self.sd(shares), sds, high)

    def _sampled(self, p: float | Array) -> Array:
        """Give values of M1 that stand for all, axes (..., sampling, 1)."""
        n = self.n1 + self.n0
        m1 = n * np.asarray(p) + np.sqrt(n * np.asarray(p) * (1 - np.asarray(p))) * _HERMITE[0][:, None]
        inside: Array = np.clip(m1, 0.0, n)
        return inside

    @cached_property
    def _weights(self) -> Array:
        return np.repeat(_HERMITE[1][:, None] / _HERMITE[1].sum() / len(_LAPLACE), len(_LAPLACE), axis=1)


@lru_cache(maxsize=256)
def _plain_level(test: NoisyShare, alpha: float, scale: float) -> float:
    log: float = brentq(lambda u: test.size(math.exp(u), scale) - alpha, -600.0, -1e-3, xtol=1e-7, rtol=1e-7)
    return math.exp(log)


def _laplace_quantiles(count: int) -> Array:
    u = (np.arange(count) + 0.5) / count - 0.5
    quantiles: Array = -np.sign(u) * np.log1p(-2 * np.abs(u))
    return quantiles


_LAPLACE = _laplace_quantiles(64)
