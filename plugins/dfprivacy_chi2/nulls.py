"""Distributions of a noisy norm and of a noisy difference of shares under the hypothesis of independence.

The share p of X = 1 is a nuisance. The null hypothesis of the norm holds one law for each share that cannot be
excluded; a p-value is the largest of theirs. That of the difference, of which any rows may be left out, is a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy
from scipy.special import ndtri

from dfprivacy_chi2.laws import WINDOW, Law, binomial_law, hypergeometric_law, mixture, noise_pdf, noise_sf
from dfprivacy_chi2.tables import unit_circle_norm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "CompositeNull",
    "MissingRowsNull",
    "Rate",
    "norm_given_margin",
    "norm_law",
    "norm_null",
    "share_nearest_half",
]

Rate: TypeAlias = "float | tuple[float, float] | None"

_MAX_EXACT_ROWS = 2000  # rows up to which laws are summed over all tables
_GRID_RATIO = 1.25  # ratio of neighbouring shares on a grid
_HERMITE_RULE = np.polynomial.hermite_e.hermegauss(5)
_TANGENT_POINTS = np.linspace(0.0, 40.0, 81)  # y, in scales of the larger noise


@dataclass(frozen=True)
class CompositeNull:
    """Composite null hypothesis: a set of distributions of the statistic, which includes the true one."""

    laws: tuple[Law, ...]

    def pvalue(self, statistic: float, *scales: float) -> float:
        """Return the largest p-value of a noisy statistic over the distributions, for noise of the given scales."""
        return max(law.sf(statistic, *scales) for law in self.laws)

    def critical_value(self, alpha: float, *scales: float) -> float:
        """Return a value that a noisy statistic exceeds with probability at most `alpha` in each distribution."""
        critical = -math.inf
        for law in self.laws:
            if not math.isfinite(critical) or law.sf(critical, *scales) > alpha:
                critical = law.critical_value(alpha, *scales)
        return critical


@dataclass(frozen=True)
class MissingRowsNull:
    r"""Null hypothesis of the absolute difference of shares if an unknown number of incomplete rows is omitted.

    The statistic is :math:`|D| / N` plus one or two Laplace variables.

    Attributes
    ----------
    rows : int
        Rows N of the smaller group, complete or not.
    share : float
        The share of X = 1 that is nearest 1/2, of those that are possible.

    Notes
    -----
    Of m and k complete rows, whatever rows these are, :math:`D = S - n \bar X`, where S adds up the n = min(m, k)
    rows of the smaller group and :math:`\bar X` is the mean of the larger. The mean of more rows is less spread
    out, in the convex order: :math:`E\,h(D) \le E\,h(D_n)` for each convex h, where :math:`D_n` is the difference
    of two sums of n rows: n terms, each 1 or -1 with probability p (1 - p), else 0. More terms, or a p nearer to
    1/2, spread it out further. So with N rows in the smaller group, and the share p nearest 1/2,

    .. math:: P(|D| + L > t) = E\,g(|D|) \le E\,h(|D|) \le E\,h(|D_N|)

    for any convex, nondecreasing h that is nowhere below the tail g of the noise. g is convex up to t and concave
    beyond: a tangent at t + y is above it there, and h is the larger of the two up to t. The least bound of some y
    is taken.
    """

    rows: int
    share: float = 0.5

    def pvalue(self, statistic: float, *scales: float) -> float:
        """Return an upper bound of the p-value of a noisy difference, whichever rows are omitted."""
        t, *noise = (self.rows * each for each in (statistic, *scales))
        weights, points = self._probabilities, np.arange(len(self._probabilities), dtype=np.float64) - t
        tail = noise_sf(-points[points <= 0], *noise)
        y = _TANGENT_POINTS * max(noise)
        slope = noise_pdf(y, *noise)
        start = noise_sf(-y, *noise) - slope * y  # of each tangent at t
        # Up to t a tangent less the convex g is concave, and at t it is not below 0: the larger from a point on.
        at = (start[:, None] + slope[:, None] * points[: len(tail)] < tail).sum(axis=1)
        below = np.append(0.0, np.cumsum(tail * weights[: len(tail)]))
        mass, moment = (np.append(np.cumsum(each[::-1])[::-1], 0.0) for each in (weights, weights * points))
        return min(1.0, float((below[at] + start * mass[at] + slope * moment[at]).min()))

    def critical_value(self, alpha: float, *scales: float) -> float:
        """Return a critical value of a noisy difference at level `alpha`, whichever rows are omitted."""

        def log(t: float) -> float:
            return math.log(max(self.pvalue(t, *scales), 1e-300) / alpha)

        width = (sum(scales) + 1.0) * (1 + math.log(1 / min(alpha, 1 - alpha)))
        spread = math.sqrt(2 * self.share * (1 - self.share) / self.rows)
        about = spread * float(ndtri(1 - alpha / 2)) + max(scales) * math.log(1 / alpha)
        near = log(about / 3) > 0 > log(1.5 * about)
        ends = (about / 3, 1.5 * about) if near else (-width, 2 * width)
        critical = float(scipy.optimize.brentq(log, *ends, xtol=1e-11 * width, rtol=1e-12))
        return critical if log(critical) <= 0 else critical + 1e-10 * width

    @cached_property
    def _probabilities(self) -> Array:
        """Probabilities of the values 0, 1, … of |D_N|, the absolute difference of two sums of N rows."""
        moves = self.share * (1 - self.share)
        top = min(self.rows, math.ceil(WINDOW * math.sqrt(2 * self.rows * moves)) + 20)
        size = 1 << (2 * top + 1).bit_length()
        angles = np.pi * np.arange(size // 2 + 1) / size
        wave = np.exp(self.rows * np.log1p(np.maximum(-4 * moves * np.sin(angles) ** 2, 2.0**-53 - 1)))
        weights: Array = np.maximum(np.fft.irfft(wave, size)[: top + 1], 0.0)
        weights[1:] *= 2
        weights /= weights.sum()
        return weights


def norm_law(n1: int, n0: int, tau: float, p1: float, p0: float, complete: tuple[int, int] | None = None) -> Law:
    """Return the distribution of the unit circle norm if the shares of X = 1 in the groups are p1 and p0."""
    rows = complete or (n1, n0)
    return binomial_law(lambda c11, c10: unit_circle_norm(c11, c10, n1, n0, tau, rows), *rows, p1, p0)


def norm_null(n1: int, n0: int, tau: float, rate: Rate, *, complete: bool = True) -> CompositeNull:
    """Return the null hypothesis of the unit circle norm: its distributions under independence.

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
        if sum(rows) <= _MAX_EXACT_ROWS:
            return norm_law(n1, n0, tau, p, p, rows)
        # Given M1 the law is hypergeometric; it changes slowly with M1, so that five values stand for all.
        nodes, weights = _HERMITE_RULE
        n = sum(rows)
        m1 = np.clip(np.rint(n * p + math.sqrt(n * p * (1 - p)) * nodes), 0, n).astype(int)
        return mixture([norm_given_margin(n1, n0, tau, int(m), rows) for m in m1], weights)

    constant = (Law(np.ones(1), np.ones(1)),) if rate is None else ()
    left = {(n1, n0)} if complete else {(n1, n0), (min(n1, n0),) * 2}
    return CompositeNull((*constant, *(law(p, rows) for rows in sorted(left) for p in _share_grid(rate, n1 + n0))))


def norm_given_margin(n1: int, n0: int, tau: float, m1: int, complete: tuple[int, int] | None = None) -> Law:
    """Return the null distribution of the unit circle norm, given the number m1 of rows with X = 1."""
    rows = complete or (n1, n0)
    return hypergeometric_law(lambda c11, c10: unit_circle_norm(c11, c10, n1, n0, tau, rows), *rows, m1)


def share_nearest_half(rate: Rate) -> float:
    """Return the share of X = 1 nearest to 1/2, of those that `rate` allows."""
    low, high = _share_range(rate)
    return min(max(low, 0.5), high)


def _share_range(rate: Rate) -> tuple[float, float]:
    """Return the lowest and the highest possible share of X = 1: `rate`, the ends of `rate`, or 0 and 1."""
    if rate is None:
        return 0.0, 1.0
    return rate if isinstance(rate, tuple) else (rate, rate)


def _share_grid(rate: Rate, n: int) -> list[float]:
    """Return a geometric grid of the shares of X = 1 that `rate` allows, each folded to at most 1/2."""
    low, high = _share_range(rate)
    inside = (low - 0.5) * (high - 0.5) <= 0
    low, high = sorted((min(low, 1 - low), min(high, 1 - high)))
    low, high = max(low, 0.25 / n), 0.5 if inside else high
    steps = max(1, math.ceil(math.log(high / low) / math.log(_GRID_RATIO))) if high > low else 0
    return [low * (high / low) ** (step / max(steps, 1)) for step in range(steps + 1)]
