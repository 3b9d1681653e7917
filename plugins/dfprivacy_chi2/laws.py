"""Laws of a test statistic, and how Laplace noise makes them wider."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy
from scipy.special import gammainc, gammaln, log_ndtr, ndtr, xlog1py, xlogy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = [
    "Discrete",
    "Folded",
    "Law",
    "binomial",
    "by_binomials",
    "by_margin",
    "chi",
    "folded_sf",
    "normal_laplace_quantile",
    "normal_laplace_sf",
]

WINDOW = 9.0  # standard deviations; less than 1e-17 of a normal law is farther from its mean
ALIKE = 1e-4  # two scales that differ by less are taken for different by this much
_MOST = 1000  # counts of a binomial law
_NEWTON = 30  # steps at most; six are usual
_SLIGHT = 1e-3  # noise of less than this, in standard deviations, is taken for as much


class Law(ABC):
    """The law of a statistic T without noise."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """A value that T hardly exceeds."""

    @abstractmethod
    def _above(self, t: float, scale: float) -> float:
        """Probability that T plus one Laplace variable exceeds t; scale 0: that T is at least t."""

    def sf(self, t: float, *scales: float) -> float:
        """Return the probability that T plus noise exceeds t.

        Parameters
        ----------
        t : float
            Where.
        *scales : float
            Scale of each of one or two independent Laplace variables; 0 for none.

        Returns
        -------
        float
            The probability.
        """
        if len(scales) == 1 or not min(scales) > 0:
            return self._above(t, max(scales))
        a, b = max(scales), min(scales)
        b = min(b, a * (1 - ALIKE))  # in partial fractions the sum of two is a difference of one and one
        return (a * a * self._above(t, a) - b * b * self._above(t, b)) / (a * a - b * b)

    def critical_value(self, alpha: float, *scales: float) -> float:
        """Return t so that T plus noise exceeds it with probability `alpha`."""
        width = (sum(scales) + self.reach) * (1 + math.log(1 / min(alpha, 1 - alpha)))
        critical: float = scipy.optimize.brentq(
            lambda t: self.sf(t, *scales) - alpha, -width, 2 * width, xtol=1e-13 * width, rtol=1e-13
        )
        return critical


@dataclass(frozen=True)
class Discrete(Law):
    """A law on points."""

    points: Array
    weights: Array

    @property
    def reach(self) -> float:
        """A value that T hardly exceeds."""
        return float(np.abs(self.points).max()) + 1e-9

    def _above(self, t: float, scale: float) -> float:
        if scale == 0:
            return float(self.weights[self.points >= t - 1e-12 * abs(t)].sum())
        away = (self.points - t) / scale
        tail = np.exp(-np.abs(away)) / 2
        return float(self.weights @ np.where(away < 0, tail, 1 - tail))


@dataclass(frozen=True)
class Folded(Law):
    """The law of the absolute value of a normal variable."""

    mean: float
    sd: float

    @property
    def reach(self) -> float:
        """A value that T hardly exceeds."""
        return abs(self.mean) + WINDOW * self.sd

    def _above(self, t: float, scale: float) -> float:
        return float(folded_sf(t, self.mean, self.sd, scale))


def folded_sf(t: ArrayLike, mean: ArrayLike, sd: ArrayLike, scale: float) -> Array:
    """Return the probability that an absolute normal plus a Laplace variable exceeds t; arguments broadcast."""
    s = np.maximum(np.maximum(sd, 1e-9 * scale), 1e-100)  # a certain value is one that hardly varies
    b = np.maximum(scale, _SLIGHT * s)
    k, u = s / b, np.asarray(t) / s
    total = np.where(u < 0, 1.0, 0.0)
    at = np.maximum(u, 0.0)
    for m in (np.asarray(mean) / s, -np.asarray(mean) / s):  # both sides of 0, folded onto the positive one
        # The integral of e^(-z/b) over the normal density from `at` on is e^(k²/2 - m k) Φ(m - k - at).
        beyond = _exp_ndtr(k * u - m * k + k * k / 2, m - k - at)
        before = _between(-k * u + m * k + k * k / 2, -m - k, at - m - k)
        total = total - beyond / 2 + np.where(u < 0, 0.0, ndtr(m - at) + before / 2)
    return np.clip(total, 0.0, 1.0)


def normal_laplace_sf(t: ArrayLike, sd: ArrayLike, scale: float) -> Array:
    """Return the probability that a normal variable of mean 0 plus a Laplace one exceeds t; arguments broadcast."""
    s = np.maximum(np.maximum(sd, 1e-9 * scale), 1e-100)
    b = np.maximum(scale, _SLIGHT * s)
    k, u = s / b, np.asarray(t) / s
    exact = ndtr(-u) + (_exp_ndtr(k * k / 2 - k * u, u - k) - _exp_ndtr(k * k / 2 + k * u, -u - k)) / 2
    tail: Array = np.clip(exact, 0.0, 1.0)
    return tail


def normal_laplace_quantile(tail: float, sd: Array, scale: float) -> Array:
    """Return what a normal variable of mean 0 plus a Laplace one exceeds with this probability, below 1/2.

    The density is log-concave, and so is the tail: a tangent to its logarithm is above it, and meets what is asked
    beyond where the tail does. So Newton's method, begun beyond, stays there.
    """
    s = np.maximum(np.maximum(sd, 1e-9 * scale), 1e-100)
    b = np.maximum(scale, _SLIGHT * s)
    k = s / b
    u = math.sqrt(-2 * math.log(tail)) - math.log(tail) / k  # beyond: each part exceeds its own in tail/2 at most
    for _ in range(_NEWTON):
        near, far = _exp_ndtr(k * k / 2 - k * u, u - k), _exp_ndtr(k * k / 2 + k * u, -u - k)
        above = ndtr(-u) + (near - far) / 2
        step = np.log(above / tail) * above / (k * (near + far) / 2)
        u = u + step
        if np.all(np.abs(step) <= 1e-10 * (1 + u)):
            break
    quantile: Array = u * s
    return quantile


def _exp_ndtr(exponent: Array, x: Array) -> Array:
    """Give e^exponent Φ(x) where either alone may be out of range."""
    return np.exp(np.minimum(exponent + log_ndtr(x), 700.0))


def _between(exponent: Array, low: Array, high: Array) -> Array:
    """Give e^exponent (Φ(high) - Φ(low)), in the tail that keeps the digits."""
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    return _exp_ndtr(exponent, high) - _exp_ndtr(exponent, low)


def binomial(n: int, p: float) -> tuple[NDArray[np.int64], Array]:
    """Return the counts of a binomial law that are not negligible, and their probabilities.

    Where they are more than a thousand, every second stands for two, or every third for three, and so on.
    """
    reach = WINDOW * math.sqrt(n * p * (1 - p)) + 20
    low, high = max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach))
    counts = np.arange(low, high + 1, math.ceil((high - low + 1) / _MOST))
    log = (
        gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1) + xlogy(counts, p) + xlog1py(n - counts, -p)
    )
    weights = np.exp(log)
    return counts, weights / weights.sum()


def by_binomials(
    statistic: Callable[[NDArray[np.int64], NDArray[np.int64]], Array], n1: int, n0: int, p1: float, p0: float
) -> Discrete:
    """Return the exact law of a statistic of c11 ~ Bin(n1, p1) and c10 ~ Bin(n0, p0)."""
    (c11, first), (c10, second) = binomial(n1, p1), binomial(n0, p0)
    weights = np.multiply.outer(first, second)
    kept = weights > 1e-18 / weights.size
    return Discrete(np.asarray(statistic(c11[:, None], c10), dtype=np.float64)[kept], weights[kept])


def by_margin(
    statistic: Callable[[NDArray[np.int64], NDArray[np.int64]], Array], n1: int, n0: int, m1: int
) -> Discrete:
    """Return the exact law of a statistic given M1 = c11 + c10: c11 is hypergeometric."""
    n = n1 + n0
    mean = n1 * m1 / n
    reach = WINDOW * math.sqrt(mean * (1 - m1 / n) * n0 / max(n - 1, 1)) + 20
    c11 = np.arange(max(0, m1 - n0, math.floor(mean - reach)), min(n1, m1, math.ceil(mean + reach)) + 1)
    at = c11[:-1].astype(np.float64)
    steps = np.log((n1 - at) * (m1 - at)) - np.log((at + 1) * (n0 - m1 + at + 1))
    log = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(log - log.max())
    return Discrete(np.asarray(statistic(c11, m1 - c11), dtype=np.float64), weights / weights.sum())


def chi(df: int, sd: float) -> Discrete:
    """Return the law of the length of a vector of `df` independent normal variables."""
    ends = np.linspace(0.0, math.sqrt(df) + WINDOW, 4001)
    weights = np.diff(gammainc(df / 2, ends**2 / 2))
    return Discrete((ends[1:] + ends[:-1]) / 2 * sd, weights / weights.sum())
