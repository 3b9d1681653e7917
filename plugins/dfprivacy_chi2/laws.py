"""Distributions of statistics of two groups of public sizes, and of the statistics plus Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy
from scipy.special import gammaln, xlog1py, xlogy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "N_POINTS",
    "WINDOW",
    "Law",
    "binomial_counts",
    "binomial_law",
    "hypergeometric_law",
    "mixture",
    "noise_pdf",
    "noise_sf",
]

WINDOW = 9.0  # standard deviations; less than 1e-17 of a normal law is farther from its mean
_MIN_SCALE_GAP = 1e-4  # two scales that differ by less are taken for different by this much
N_POINTS = 1000
"""Most points of a law of counts: with more counts, every k-th stands for k of them."""


@dataclass(frozen=True)
class Law:
    """Discrete distribution of a statistic before noise is added.

    Attributes
    ----------
    points, weights : ndarray
        What T may be, and how probable each is.
    """

    points: Array
    weights: Array

    def sf(self, t: float, *scales: float) -> float:
        """Return the probability that the statistic plus Laplace noise exceeds t.

        Parameters
        ----------
        t : float
            Where.
        *scales : float
            Scale of each of one or two independent Laplace variables.

        Returns
        -------
        float
            The probability.
        """
        return float(self.weights @ noise_sf(t - self.points, *scales))

    def critical_value(self, alpha: float, *scales: float) -> float:
        """Return the value that the statistic plus Laplace noise exceeds with probability `alpha`."""
        reach = float(np.abs(self.points).max()) + 1e-9
        width = (sum(scales) + reach) * (1 + math.log(1 / min(alpha, 1 - alpha)))
        critical: float = scipy.optimize.brentq(
            lambda t: self.sf(t, *scales) - alpha, -width, 2 * width, xtol=1e-13 * width, rtol=1e-13
        )
        return critical


def noise_sf(y: Array, *scales: float) -> Array:
    """Return the survival function at y of one Laplace variable, or of the sum of two, given their scales."""
    tail = _laplace_density_or_tail(y, scales, 2)
    return np.asarray(np.where(y > 0, tail, 1 - tail))


def noise_pdf(y: Array, *scales: float) -> Array:
    """Return the density at y of one Laplace variable, or of the sum of two, given their scales."""
    return _laplace_density_or_tail(y, scales, 1)


def _laplace_density_or_tail(y: Array, scales: tuple[float, ...], power: int) -> Array:
    """Return the density at y, or survival function at |y| (power 2), of one or a sum of two Laplace variables."""
    a, away = max(scales), np.abs(y)
    if len(scales) == 1:
        return np.asarray(a ** (power - 2) * np.exp(-away / a) / 2)
    b = min(*scales, a * (1 - _MIN_SCALE_GAP))
    parts = a**power * np.exp(-away / a) - b**power * np.exp(-away / b)
    return np.asarray(parts / (2 * (a * a - b * b)))


def binomial_counts(n: int, p: float) -> tuple[NDArray[np.int64], Array]:
    """Return the counts whose binomial probabilities are not negligible, and these probabilities.

    Where they are more than a thousand, every second stands for two, or every third for three, and so on.
    """
    counts = _count_grid(n * p, n * p * (1 - p), 0, n, N_POINTS)
    return counts, _normalized_weights(
        gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1) + xlogy(counts, p) + xlog1py(n - counts, -p)
    )


def binomial_law(
    statistic: Callable[[NDArray[np.int64], NDArray[np.int64]], Array], n1: int, n0: int, p1: float, p0: float
) -> Law:
    """Return the distribution of a statistic of two counts, c11 ~ Bin(n1, p1) and c10 ~ Bin(n0, p0)."""
    (c11, first), (c10, second) = binomial_counts(n1, p1), binomial_counts(n0, p0)
    weights = np.multiply.outer(first, second)
    kept = weights > 1e-18 / weights.size
    return Law(np.asarray(statistic(c11[:, None], c10), dtype=np.float64)[kept], weights[kept])


def hypergeometric_law(
    statistic: Callable[[NDArray[np.int64], NDArray[np.int64]], Array],
    n1: int,
    n0: int,
    m1: int,
    most: int | None = None,
) -> Law:
    """Return the distribution of a statistic of two counts c11 and c10 given their sum m1."""
    n = n1 + n0
    mean = n1 * m1 / n
    c11 = _count_grid(mean, mean * (1 - m1 / n) * n0 / max(n - 1, 1), max(0, m1 - n0), min(n1, m1), most)
    parts = (c11, n1 - c11, m1 - c11, n0 - m1 + c11)
    return Law(
        np.asarray(statistic(c11, m1 - c11), dtype=np.float64),
        _normalized_weights(-np.sum([gammaln(x + 1) for x in parts], axis=0)),
    )


def mixture(laws: Sequence[Law], chances: Array) -> Law:
    """Return the mixture of several distributions, with weights proportional to `chances`."""
    shares = chances / chances.sum()
    weights = [share * law.weights for share, law in zip(shares, laws, strict=True)]
    return Law(np.concatenate([law.points for law in laws]), np.concatenate(weights))


def _count_grid(mean: float, variance: float, least: int, top: int, most: int | None) -> NDArray[np.int64]:
    reach = WINDOW * math.sqrt(variance) + 20
    low, high = max(least, math.floor(mean - reach)), min(top, math.ceil(mean + reach))
    return np.arange(low, high + 1, math.ceil((high - low + 1) / most) if most else 1)


def _normalized_weights(log: Array) -> Array:
    weights: Array = np.exp(log - log.max())
    weights /= weights.sum()
    return weights
