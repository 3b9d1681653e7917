r"""The law of a noisy absolute difference of two shares, and its largest tail over all shares, with a proof.

Given the share p, the counts of X = 1 in the two groups are binomial, and a test rejects with a probability
:math:`f(p) = \sum_m a_m p^m (1 - p)^{N - m}`, where no :math:`a_m` is negative: they are sums of the probabilities
to reject a table. With :math:`\eta = \log\frac{p}{1-p}` and :math:`A(\eta) = N \log(1 + e^\eta)`,
:math:`\log f + A = \log \sum_m a_m e^{\eta m}` is convex in η. Between two shares it is below its chord, so

.. math:: \log f \le \max(\log f_1, \log f_2) + \tfrac18\,(\eta_2 - \eta_1)^2 \max A'', \qquad A'' = N p (1 - p),

and the largest f on an interval is bounded by two of its values. `Shares.most` halves intervals until the bound is
within a percent of what it has found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from dfprivacy_chi2.laws import ALIKE, WINDOW

__all__ = ["Shares", "tails"]

Array = NDArray[np.float64]

_SLACK = 0.01  # of the logarithm of a tail; five times that in large tables, whose tails take long
_LARGE = 20_000  # rows
_FIRST = 6.0  # standard deviations of a count between shares at first
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Shares:
    """The null hypothesis of the absolute difference: both groups have one share, within a range.

    The statistic is the absolute difference of shares plus one or two Laplace variables.

    Attributes
    ----------
    n1, n0 : int
        Rows in the two groups.
    low, high : float
        The range of the share, 0 and 1 where nothing is known of it.
    """

    n1: int
    n0: int
    low: float = 0.0
    high: float = 1.0

    def pvalue(self, statistic: float, *scales: float) -> float:
        """Return the largest probability of a noisy difference beyond this one, or up to a percent more."""
        return self.most(statistic, *scales)[0]

    def critical_value(self, alpha: float, *scales: float) -> float:
        """Return what a noisy difference exceeds with probability `alpha` at most, whatever the share."""
        return _critical_value(self, alpha, scales)

    def most(self, t: float, *scales: float) -> tuple[float, float]:
        """Bound the largest probability that the noisy difference exceeds t, and find where it is about that large.

        Parameters
        ----------
        t : float
            Where.
        *scales : float
            Scales of one or two Laplace variables.

        Returns
        -------
        bound : float
            No share of the range has a larger probability; at most a percent above that at `share`.
        share : float
            The share with the largest probability found.
        """
        if self.low == self.high:
            return self._at(np.array([self.low]), t, scales)[0], self.low
        # X and not X have the same law: shares up to 1/2 stand for all.
        low, high = sorted((min(self.low, 1 - self.low), min(self.high, 1 - self.high)))
        high = 0.5 if self.low <= 0.5 <= self.high else high  # noqa: PLR2004
        n = self.n1 + self.n0
        # Below 1e-9/n a row has X = 1 with probability 1e-9 at most: f differs from that of a constant by so much.
        nothing = 1e-9 / n
        constant = low < nothing
        low = max(low, nothing)
        angles = np.arcsin(np.sqrt([low, high]))
        count = max(2, math.ceil(2 * math.sqrt(n) * (angles[1] - angles[0]) / _FIRST) + 1)
        shares = np.sin(np.linspace(float(angles[0]), float(angles[1]), count)) ** 2
        shares[0], shares[-1] = low, high
        if constant:  # the step from almost nothing to something is a long one in η
            shares = np.union1d(shares, np.geomspace(low, shares[1], 12))
        values = self._at(shares, t, scales)
        left, right, at_left, at_right = shares[:-1], shares[1:], values[:-1], values[1:]
        best, share = values.max(), float(shares[values.argmax()])
        beyond = 0.0
        while True:
            bounds = _chord_bound(left, right, at_left, at_right, n)
            open_ = bounds > best * math.exp(_SLACK if n <= _LARGE else 5 * _SLACK)
            beyond = max(beyond, float(bounds[~open_].max(initial=0.0)))
            if not open_.any():
                break
            left, right, at_left, at_right = (each[open_] for each in (left, right, at_left, at_right))
            middle = _middle(left, right)
            at_middle = self._at(middle, t, scales)
            if at_middle.max() > best:
                best, share = at_middle.max(), float(middle[at_middle.argmax()])
            left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
            at_left, at_right = np.concatenate([at_left, at_middle]), np.concatenate([at_middle, at_right])
        bound = max(beyond, float(best)) + (1e-9 * float(best) if constant else 0.0)
        return min(bound, 1.0), share

    def _at(self, shares: Array, t: float, scales: tuple[float, ...]) -> Array:
        return np.maximum(tails(self.n1, self.n0, shares, shares, t, *scales), 1e-300)


@lru_cache(maxsize=256)
def _critical_value(null: Shares, alpha: float, scales: tuple[float, ...]) -> float:
    """Raise the critical value of one share, then of the worst one there, until no share exceeds it too often."""
    share, target, critical = min(max(0.5, null.low), null.high), alpha, -math.inf
    for _ in range(30):
        critical = max(critical, _at_one_share(null, share, target, scales))
        bound, share = null.most(critical, *scales)
        if bound <= alpha:
            break
        # The bound may exceed the largest value by a percent: aim below by what it did.
        at = float(tails(null.n1, null.n0, np.array([share]), np.array([share]), critical, *scales)[0])
        target = alpha * min(1.0, at / bound) * (1 - 1e-9)
    return critical


def _at_one_share(null: Shares, share: float, alpha: float, scales: tuple[float, ...]) -> float:
    p = np.array([share])

    def log(t: float) -> float:
        return math.log(max(float(tails(null.n1, null.n0, p, p, t, *scales)[0]), 1e-300) / alpha)

    width = (sum(scales) + 1.0) * (1 + math.log(1 / min(alpha, 1 - alpha)))
    return float(scipy.optimize.brentq(log, -width, 2 * width, xtol=1e-11 * width, rtol=1e-12))


def _middle(left: Array, right: Array) -> Array:
    """Half way between shares: in angles, or in logarithms where they are far apart."""
    angle = (np.arcsin(np.sqrt(left)) + np.arcsin(np.sqrt(right))) / 2
    middle: Array = np.where(right > 4 * left, np.sqrt(left * right), np.sin(angle) ** 2)
    return middle


def _chord_bound(left: Array, right: Array, at_left: Array, at_right: Array, n: int) -> Array:
    """Bound f between two shares up to 1/2 by its values there."""
    step = np.log(right / left) + np.log1p(-left) - np.log1p(-right)
    bound: Array = np.maximum(at_left, at_right) * np.exp(np.minimum(n * right * (1 - right) * step**2 / 8, 700))
    return bound


def tails(n1: int, n0: int, p1: Array, p0: Array, t: float, *scales: float) -> Array:
    """Return the probability that the noisy absolute difference of shares exceeds t, exactly.

    Parameters
    ----------
    n1, n0 : int
        Rows in the two groups.
    p1, p0 : ndarray of shape (m,)
        The shares of X = 1 in each.
    t : float
        Where.
    *scales : float
        Scales of one or two Laplace variables.

    Returns
    -------
    ndarray of shape (m,)
        The probabilities. Counts beyond nine standard deviations and 20 more are left out.
    """
    if len(scales) == 2:  # noqa: PLR2004
        a, b = max(scales), min(scales)
        b = min(b, a * (1 - ALIKE))  # in partial fractions the sum of two is a difference of one and one
        one, other = (tails(n1, n0, p1, p0, t, scale) for scale in (a, b))
        return np.asarray((a * a * one - b * b * other) / (a * a - b * b))
    exact = [_tail(n1, n0, float(first), float(second), t, scales[0]) for first, second in zip(p1, p0, strict=True)]
    return np.array(exact)


def _tail(n1: int, n0: int, p1: float, p0: float, t: float, scale: float) -> float:
    r"""Add up the tables: for each count of one group, sums over the other that one pass prepares.

    With x the shares of the first group and y one of the second, the probability is that of
    :math:`|x - y| \ge t`, changed by exponentials of the distance to that edge. Sums of
    :math:`w e^{-|x - u|/b}` over all x on one side of u follow from those at the nearest x.
    """
    if n1 < n0:
        n1, n0, p1, p0 = n0, n1, p0, p1
    first, w = _binomial(n1, p1)
    second, v = _binomial(n0, p0)
    b = max(scale, 1e-9 / n1)
    x, y = first / n1, second / n0
    step = (x[1] - x[0]) / b if len(x) > 1 else 0.0
    log = np.log(np.maximum(w, 1e-320))
    at = np.arange(len(x)) * step
    # Exponential sums of all x up to each one, and from each one on, in logarithms: no term overflows.
    up = np.exp(np.logaddexp.accumulate(log + at) - at)
    down = np.exp(np.logaddexp.accumulate((log - at)[::-1])[::-1] + at)
    mass = np.concatenate([[0.0], np.cumsum(w)])

    def below(u: Array, place: NDArray[np.intp]) -> Array:
        """Sum w exp(-(u - x)/b) over x < u, where `place` of them are."""
        last = np.maximum(place - 1, 0)
        return np.where(place > 0, up[last] * np.exp(-np.maximum(u - x[last], 0) / b), 0.0)

    def above(u: Array, place: NDArray[np.intp]) -> Array:
        """Sum w exp(-(x - u)/b) over x from u on."""
        following = np.minimum(place, len(x) - 1)
        return np.where(place < len(x), down[following] * np.exp(-np.maximum(x[following] - u, 0) / b), 0.0)

    middle = np.searchsorted(x, y)
    if t <= 0:  # every difference is beyond the edge
        inside = (below(y, middle) + above(y, middle)) * math.exp(t / b) / 2
        return float(v @ (1 - inside))
    lower, upper = np.searchsorted(x, y - t, side="right"), np.searchsorted(x, y + t)
    beyond = mass[lower] + mass[-1] - mass[upper]
    outside = below(y - t, lower) + above(y + t, upper)
    faded = math.exp(-t / b)
    inside = below(y + t, upper) - faded * below(y, middle) + above(y - t, lower) - faded * above(y, middle)
    return float(v @ (beyond + (np.maximum(inside, 0.0) - outside) / 2))


@lru_cache(maxsize=64)
def _binomial(n: int, p: float) -> tuple[NDArray[np.int64], Array]:
    """Give the counts of a binomial law that are not negligible, and their probabilities."""
    reach = WINDOW * math.sqrt(n * p * (1 - p)) + 20
    counts = np.arange(max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach)) + 1)
    log = (
        gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1) + xlogy(counts, p) + xlog1py(n - counts, -p)
    )
    weights = np.exp(log)
    return counts, weights / weights.sum()
