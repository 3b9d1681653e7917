r"""The test of a noisy signed difference where a noisy number of X = 1 says which shares are likely.

Given the number m of rows with X = 1, and given that X and the groups are independent, the count in the first group
is hypergeometric, whatever the share is. Let :math:`h_m(t)` be the probability that the noisy difference is farther
than t from 0 then. The test finds the margins up to two scales of noise nearer to N/2 than the noisy one, and takes
the largest of their tails: π. How often π is at most u is, given m,

.. math:: G_m(u) = \sum_k P(\text{the margin found is } m_k)\, h_m(c_k(u)),

where :math:`c_k(u)` is the difference with π = u at that margin. The two noises are independent, so this is exact;
:math:`G(u) = \max_m G_m(u)` over a grid of margins, and G(π) is the p-value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from dfprivacy_chi2.given_margin import Noisy, grid
from dfprivacy_chi2.laws import normal_laplace_sf

__all__ = ["NoisyMargin"]

Array = NDArray[np.float64]

_LITTLE = 1e-13


@dataclass(frozen=True)
class NoisyMargin:
    """The null hypothesis where a noisy number of X = 1 says which shares are likely.

    Attributes
    ----------
    n1, n0 : int
        Rows in the two groups.
    total : float
        The noisy number of X = 1 in both.
    total_scale : float
        Scale of its Laplace noise.
    reach : float
        In scales of the noise: how far from the noisy number the test looks.
    unit : float
        What the difference of shares is multiplied by, before the noise.
    """

    n1: int
    n0: int
    total: float
    total_scale: float
    reach: float = 2.0
    unit: float = 1.0

    @property
    def rows(self) -> int:
        """Rows in both groups."""
        return self.n1 + self.n0

    def share(self) -> float:
        """Return the share nearest 1/2 that the noisy number makes likely."""
        return float(self.margins[self._place(np.array([self.total]))[0]]) / self.rows

    def pvalue(self, statistic: float, scale: float) -> float:
        """Return the p-value of a noisy difference; scale is that of its Laplace noise."""
        plain = self.plain(statistic, scale)
        return min(1.0, max(plain, self.size(plain, scale)))

    def plain(self, statistic: float, scale: float) -> float:
        """Return π, the largest tail at the margins up to two scales of noise nearer to N/2 than the noisy one."""
        places = np.arange(self._place(np.array([self.total]))[0] + 1)
        return float(self._tails(np.full(len(places), abs(statistic)), scale, places).max())

    def critical_value(self, alpha: float, scale: float) -> float:
        """Return what the absolute value of a noisy difference exceeds with probability `alpha` at most."""
        return float(self.required(np.array([self.total]), alpha, scale)[0])

    def required(self, totals: Array, alpha: float, scale: float) -> Array:
        """Return the same for many noisy totals."""
        required: Array = self.critical_values(self.plain_level(alpha, scale), scale)[self._place(totals)]
        return required

    def plain_level(self, alpha: float, scale: float) -> float:
        """Return the u with G(u) = alpha. It does not depend on the total."""
        return _plain_level(replace(self, total=0.0), alpha, scale)

    def size(self, plain: float, scale: float) -> float:
        """Return G(u)."""
        if not 0 < plain < 1:
            return min(max(plain, 0.0), 1.0)
        chance = self._chances(self.margins.astype(np.float64))
        true, found = np.nonzero(chance > _LITTLE * plain)  # what is left out adds nothing that shows
        tails = self._tails(self.critical_values(plain, scale)[found], scale, true)
        return float(np.bincount(true, tails * chance[true, found]).max())

    def power(self, alpha: float, scale: float, p1: float, p0: float) -> float:
        """Return the probability to reject at shares p1 and p0, by normal laws."""
        n, at = self.rows, self.critical_values(self.plain_level(alpha, scale), scale)
        p = (self.n1 * p1 + self.n0 * p0) / n
        nodes, weights = np.polynomial.hermite_e.hermegauss(5)
        totals = np.clip(n * p + math.sqrt(n * p * (1 - p)) * nodes, 0, n)
        chance = (weights / weights.sum()) @ self._chances(totals)
        sd = math.sqrt(p1 * (1 - p1) / self.n1 + p0 * (1 - p0) / self.n0)
        return float(
            chance @ (normal_laplace_sf(at - (p1 - p0), sd, scale) + normal_laplace_sf(at + p1 - p0, sd, scale))
        )

    def critical_values(self, plain: float, scale: float) -> Array:
        """Return the difference whose largest tail up to each margin of the grid is u."""
        ends: Array = np.maximum.accumulate(self._laws(scale).quantiles(plain)) * self.unit
        return ends

    @property
    def margins(self) -> NDArray[np.int64]:
        """Numbers of X = 1 up to half of the rows that stand for all: X and not X have the same law."""
        return grid(self.rows)

    def _place(self, totals: Array) -> NDArray[np.intp]:
        """Find the place on the grid of the margin that the test takes for each noisy total."""
        folded = np.maximum(np.minimum(totals, self.rows - totals), 0.0) + self.reach * self.total_scale
        return np.minimum(np.searchsorted(self.margins, folded), len(self.margins) - 1)

    def _chances(self, totals: Array) -> Array:
        """Give the probability of each place if this is the number of X = 1, shape (totals, places)."""
        n, b = self.rows, self.total_scale
        ends = self.margins[:-1] - self.reach * b  # a folded noisy total up to here has this place, or one before
        m = np.asarray(totals, dtype=np.float64)[:, None]
        up_to = np.where(ends < n / 2, _laplace_cdf((ends - m) / b) + _laplace_cdf((ends - (n - m)) / b), 1.0)
        up_to = np.where(ends < 0, 0.0, up_to)  # no noisy total is taken to be below 0, or above all
        chances: Array = np.diff(np.clip(up_to, 0, 1), axis=1, prepend=0.0, append=1.0)
        return chances

    def _tails(self, t: Array, scale: float, places: NDArray[np.intp]) -> Array:
        """Give the probability, at the margin of each place, that the noisy difference is farther from 0 than t."""
        return self._laws(scale).tails(t / self.unit, places)

    def _laws(self, scale: float) -> Noisy:
        return Noisy.of(self.n1, self.n0, scale / self.unit)


def _laplace_cdf(x: Array) -> Array:
    tail = np.exp(-np.abs(x)) / 2
    return np.where(x < 0, tail, 1 - tail)


@lru_cache(maxsize=256)
def _plain_level(test: NoisyMargin, alpha: float, scale: float) -> float:
    top = test.size(math.exp(-1e-3), scale)
    if top <= alpha:
        return math.exp(-1e-3)

    def log(u: float) -> float:
        return math.log(max(test.size(math.exp(u), scale), 1e-300) / alpha)

    low = math.log(alpha) - 1.0
    while log(low) > 0:
        low = 2 * low - 1
    return math.exp(float(scipy.optimize.brentq(log, low, -1e-3, xtol=1e-4)))
