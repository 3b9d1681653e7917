"""The law of the MMD when both samples come from one distribution, as far as noisy moments tell it.

The spectrum of the features' pooled covariance C enters by three numbers, its *moments*: the trace tr C, the
Frobenius norm F and the largest eigenvalue l. Under the null hypothesis T² is, in law, h times

    tr - k l + l χ²_k,    k = (F / l)²,

which has the mean and the variance of the true limit Σ λ Z², and at least its skewness.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import scipy
from scipy.special import gammaincc, gammaincinv

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Moments", "Null", "cube_noise", "cube_quantile", "laplace_tail", "no_noise"]

_POINTS = 2**14  # of the quadrature; more move single p-values by 1e-3 at most
_FEW = 8  # draws of the moments that must be possible, else the possible ones nearest to all draws stand in
_PART_KEPT = 4  # of the points, which the quadrature of the null law keeps at least, with few draws of the moments
_TINY = 1e-12
_FAR = 0.01  # probability from which on draws resolve a tail
_CAP_OF_PAIRS = 2.0  # of the trace: differences of rows have a squared length of 2 at most


@dataclass(frozen=True)
class Moments:
    """Trace, Frobenius norm and largest eigenvalue of covariances: arrays of one shape."""

    trace: Array
    frobenius: Array
    largest: Array

    def __getitem__(self, at: tuple[object, ...]) -> Moments:
        return Moments(self.trace[at], self.frobenius[at], self.largest[at])  # type: ignore[index]

    def repaired(self) -> Moments:
        """Put noisy moments in their order: l ≤ F ≤ tr."""
        crossed = self.largest > self.frobenius
        frobenius = np.where(crossed, (self.largest + self.frobenius) / 2, self.frobenius)
        return Moments(np.maximum(self.trace, frobenius), frobenius, np.minimum(self.largest, frobenius))

    def possible(self, cap: Array) -> NDArray[np.bool_]:
        """Tell which are moments of any covariance at all with a trace up to `cap`."""
        bounded = (self.frobenius > 0) & (self.trace <= cap)
        return bounded & (self.largest * self.trace >= self.frobenius**2)

    def clipped(self, cap: Array) -> Moments:
        """Give possible moments near these."""
        trace = np.clip(self.trace, _TINY, cap)
        frobenius = np.clip(self.frobenius, trace / 1000, trace)  # a thousandth: of a million equal eigenvalues
        return Moments(trace, frobenius, np.clip(self.largest, frobenius**2 / trace, frobenius))

    def widened(self, part: Array) -> Moments:
        """Add the largest part that a fourth moment of bounded features can have in the variance of T²."""
        spare = np.maximum(2 * self.trace - self.trace**2 - 2 * self.frobenius**2, 0)
        frobenius = np.minimum(self.trace, np.sqrt(self.frobenius**2 + part * spare))
        largest = np.minimum(frobenius, self.largest + frobenius - self.frobenius)
        return Moments(self.trace, frobenius, largest)

    def quantile(self, level: float | Array) -> Array:
        """Give the quantile of tr - k l + l χ²_k."""
        k = (self.frobenius / self.largest) ** 2
        quantile: Array = self.trace - k * self.largest + 2 * self.largest * gammaincinv(k / 2, level)
        return quantile

    def tail(self, value: Array) -> Array:
        """Give the probability that tr - k l + l χ²_k exceeds a value."""
        k = (self.frobenius / self.largest) ** 2
        above = np.maximum(value - self.trace + k * self.largest, 0)
        tail: Array = gammaincc(k / 2, above / (2 * self.largest))
        return tail


def laplace_tail(x: Array) -> Array:
    """Give the probability that standard Laplace noise exceeds x."""
    half: Array = np.exp(-np.abs(x)) / 2
    return np.where(x > 0, half, 1 - half)


@cache
def cube_noise(dimension: int) -> tuple[Array, Array]:
    """Spread points evenly over the noise of the K-norm mechanism of the cube, at scale 1.

    Parameters
    ----------
    dimension : int
        Number of coordinates d. The noise is r U, with U uniform on [-1, 1]^d and r of the gamma law of shape d+1.

    Returns
    -------
    tuple of ndarray
        The noise, shape (d, points), and a uniform number for each, shape (points,). A scrambled Sobol sequence
        with a fixed seed: the same in every process, and kept, so that nobody can write into it.
    """
    points = _sobol(dimension + 2, _POINTS)
    noise = gammaincinv(dimension + 1, points[0]) * (2 * points[1:-1] - 1), points[-1].copy()
    for each in noise:
        each.flags.writeable = False
    return noise


@cache
def _sobol(dimension: int, count: int) -> Array:
    from scipy.stats import qmc  # takes longer to import than all of dfprivacy

    points: Array = qmc.Sobol(dimension, seed=3).random(count).T
    return np.clip(points, _TINY, 1 - _TINY)


def no_noise(dimension: int) -> tuple[Array, Array]:
    """Give the one point in the middle of the noise."""
    return np.zeros((dimension, 1)), np.full(1, 0.5)


def cube_quantile(dimension: int, tail: float) -> float:
    """Give the value that one coordinate of the noise of `cube_noise` exceeds with probability `tail` < 1/2."""

    def surplus(t: float) -> float:
        upper = gammaincc(dimension + 1, t) - t / dimension * gammaincc(dimension, t)
        return float(upper / 2 - tail)

    return float(scipy.optimize.brentq(surplus, 0.0, 1000.0))


@dataclass(frozen=True)
class Null:
    """The law of the statistic under the null hypothesis, √(h (tr - k l + l χ²_k)), for draws of what is unknown.

    Attributes
    ----------
    moments : Moments
        Draws of the moments, given their noisy values: arrays of shape (kernels, draws).
    factor : ndarray of shape (draws,)
        h of each draw.
    uniform : ndarray of shape (draws,)
        A uniform number for each draw.
    """

    moments: Moments
    factor: Array
    uniform: Array

    @classmethod
    def of_public_sizes(cls, noisy: Array, scale: float, n: int, m: int, noise: tuple[Array, Array]) -> Null:
        """Draw (tr, F, l) of each kernel, shape (kernels, 3), for two samples of n and m rows."""
        cube, uniform = noise
        moments = Moments(*np.moveaxis(noisy[:, :, None] + scale * cube.reshape(*noisy.shape, -1), 1, 0))
        rows = np.full_like(uniform, n + m)
        part = (1 / n**3 + 1 / m**3) / (2 * (1 / n + 1 / m) ** 2)
        h = (1 / n + 1 / m) * rows / (rows - 1)
        return cls._settled(moments, h, 1 - 1 / rows, part + 0 * rows, uniform, rows > 0)

    @classmethod
    def of_pairs(cls, noisy: Array, scale: float, n: int, noise: tuple[Array, Array]) -> Null:
        """Draw (tr, F, l) of the second moment of the differences of n pairs, whose signs are exchangeable."""
        cube, uniform = noise
        moments = Moments(*np.moveaxis(noisy[:, :, None] + scale * cube.reshape(*noisy.shape, -1), 1, 0))
        factor, none = np.full_like(uniform, 1 / n), np.zeros_like(uniform)
        return cls._settled(moments, factor, none + _CAP_OF_PAIRS, none, uniform, uniform >= 0)

    @classmethod
    def of_private_sizes(
        cls, noisy: Array, scales: Array, most: tuple[float, float] | None, noise: tuple[Array, Array]
    ) -> Null:
        """Draw (n, m, N tr, N F, N l, ...) of n and m rows, of which there are so many at most."""
        cube, uniform = noise
        n, m, *moments = noisy[:, None] + scales[:, None] * cube
        most_n, most_m = most or (np.inf, np.inf)
        allowed = (n >= 1) & (m >= 1)
        n, m = np.clip(n, 1, most_n), np.clip(m, 1, most_m)  # as a rule, nothing or little is missing
        rows = n + m
        pq = n * m / rows**2
        each = np.reshape(moments, (-1, 3, len(uniform))) / rows
        part = (1 / pq - 3) / (2 * rows)
        return cls._settled(
            Moments(*np.moveaxis(each, 1, 0)), pq * rows**2 / (rows - 1), 1 - 1 / rows, part, uniform, allowed
        )

    @classmethod
    def _settled(
        cls, moments: Moments, factor: Array, cap: Array, part: Array, uniform: Array, allowed: NDArray[np.bool_]
    ) -> Null:
        """Keep the draws that are possible; where there are hardly any, move all to the nearest possible ones."""
        moments = moments.repaired()
        kept = allowed & moments.possible(cap).all(axis=0)
        if kept.sum() < min(_FEW, len(kept)):
            kept = np.ones_like(kept)
            moments = moments.clipped(cap)
        times = max(1, -(-(len(kept) // _PART_KEPT) // int(kept.sum())))
        at = np.tile(np.flatnonzero(kept), times)
        uniform = (uniform[at] + np.repeat(np.arange(times) / times, kept.sum())) % 1.0
        return cls(moments[:, at].widened(part[at]), factor[at], np.clip(uniform, _TINY, 1 - _TINY))

    def quantile(self, level: float | Array) -> Array:
        """Give quantiles of the statistic, without its own noise."""
        return np.sqrt(np.maximum(self.factor * self.moments.quantile(level), 0))

    def pvalue(self, statistic: float, scale: float) -> float:
        """Give the probability of a noisy statistic at least as large, with Laplace noise of this scale.

        A mean over draws of the null law, of the tail of the noise. Where the noise is small, none of them may
        reach the statistic: in the tail it is no less than the mean over draws of the noise, of the law's tail.
        """
        (null,) = self.quantile(self.uniform)
        pvalue = float(laplace_tail((statistic - null) / max(scale, _TINY)).mean())
        return max(pvalue, self.fused_pvalue(statistic, np.zeros(1), scale)) if pvalue < _FAR else pvalue

    def fused_pvalue(self, statistic: float, critical: Array, scale: float) -> float:
        """Bound the probability that the largest of T - c over the kernels, with Laplace noise, is as large."""
        noise = -scale * np.sign(self.uniform - 0.5) * np.log1p(-2 * np.abs(self.uniform - 0.5))
        reached = np.maximum(critical[:, None] + statistic - noise, 0)
        tails = np.where(reached > 0, self.moments.tail(reached**2 / self.factor), 1.0)
        return float(np.minimum(tails.sum(axis=0), 1).mean())
