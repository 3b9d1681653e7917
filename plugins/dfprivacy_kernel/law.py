"""Null distribution of the MMD statistic, computed from noisy moments of the pooled covariance matrix.

The spectrum of the features' pooled covariance C enters by three numbers, its *moments*: the trace tr C, the
Frobenius norm F and the largest eigenvalue l. Under the null hypothesis T² is, in law, h times

    tr - k l + l χ²_k,    k = (F / l)²,

which has the mean and the variance of the true limit Σ λ Z², and at least its skewness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaincc, gammaincinv, ndtri

from dfprivacy.inference.draws import points, quantile
from dfprivacy.laws import NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy_kernel.design import Groups
    from dfprivacy_kernel.embedding import Array

__all__ = ["SHARE", "MMDMeasurement", "Moments", "NullDistribution", "cube_law", "cube_noise", "share_interval"]

_POINTS = 2**14  # of the quadrature; more move single p-values by 2e-3 at most
_MIN_DRAWS = 8  # draws of the moments that must be possible, else the possible ones nearest to all draws stand in
_PART_KEPT = 4  # of the points, which the quadrature of the null law keeps at least, with few draws of the moments
_TINY = 1e-12
_TAIL_FROM = 0.01  # probability from which on draws resolve a tail
_CAP_OF_PAIRS = 2.0  # of the trace: differences of rows have a squared length of 2 at most


@dataclass(frozen=True)
class Moments:
    """Trace, Frobenius norm and largest eigenvalue of covariance matrices, as three arrays of the same shape."""

    trace: Array
    frobenius: Array
    largest: Array

    def __getitem__(self, at: NDArray[np.intp]) -> Moments:
        return Moments(self.trace[at], self.frobenius[at], self.largest[at])

    def repaired(self) -> Moments:
        """Return the moments adjusted so that eigenvalue ≤ Frobenius norm ≤ trace."""
        crossed = self.largest > self.frobenius
        frobenius = np.where(crossed, (self.largest + self.frobenius) / 2, self.frobenius)
        return Moments(np.maximum(self.trace, frobenius), frobenius, np.minimum(self.largest, frobenius))

    def is_possible(self, cap: Array) -> NDArray[np.bool_]:
        """Return a mask of the moments that a covariance matrix with a trace of at most `cap` can have."""
        bounded = (self.frobenius > 0) & (self.trace <= cap)
        return bounded & (self.largest * self.trace >= self.frobenius**2)

    def clipped(self, cap: Array) -> Moments:
        """Return the moments clipped to the range of covariance matrices with a trace of at most `cap`."""
        trace = np.clip(self.trace, _TINY, cap)
        frobenius = np.clip(self.frobenius, trace / 1000, trace)  # a thousandth: of a million equal eigenvalues
        return Moments(trace, frobenius, np.clip(self.largest, frobenius**2 / trace, frobenius))

    def with_fourth_moments(self, part: Array) -> Moments:
        """Return the moments with a larger Frobenius norm, which covers the effect of fourth moments on var(T²)."""
        spare = np.maximum(2 * self.trace - self.trace**2 - 2 * self.frobenius**2, 0)
        frobenius = np.minimum(self.trace, np.sqrt(self.frobenius**2 + part * spare))
        largest = np.minimum(frobenius, self.largest + frobenius - self.frobenius)
        return Moments(self.trace, frobenius, largest)

    def quantile(self, level: float | Array) -> Array:
        """Return a quantile of the shifted and scaled chi-squared law that has these moments."""
        k = (self.frobenius / self.largest) ** 2
        quantile: Array = self.trace - k * self.largest + 2 * self.largest * gammaincinv(k / 2, level)
        return quantile

    def tail(self, value: Array) -> Array:
        """Return the probability that the shifted and scaled chi-squared law with these moments exceeds a value."""
        k = (self.frobenius / self.largest) ** 2
        above = np.maximum(value - self.trace + k * self.largest, 0)
        tail: Array = gammaincc(k / 2, above / (2 * self.largest))
        return tail


def laplace_tail(x: Array) -> Array:
    """Return the probability that standard Laplace noise exceeds x."""
    half: Array = np.exp(-np.abs(x)) / 2
    return np.where(x > 0, half, 1 - half)


@cache
def cube_noise(dimension: int) -> tuple[Array, Array]:
    """Return quasi-random draws of the noise of the K-norm mechanism of the cube, at scale 1.

    Parameters
    ----------
    dimension : int
        Number of coordinates d. The noise is r U, with U uniform on [-1, 1]^d and r of the gamma law of shape d+1.

    Returns
    -------
    tuple of ndarray
        The noise, shape (d, points), and a uniform number for each, shape (points,): the same in every process.
    """
    spread = points(dimension + 2, _POINTS, seed=3)
    return gammaincinv(dimension + 1, spread[0]) * (2 * spread[1:-1] - 1), spread[-1]


def cube_law(dimension: int) -> NoiseLaw:
    """Return the distribution of one coordinate of `cube_noise`."""
    return NoiseLaw(1.0, kind="cube", dimension=dimension)


@dataclass(frozen=True)
class NullDistribution:
    """Null distribution of the separation of two groups, averaged over draws of noise-free moments.

    Given the moments it is that of √(h (tr - k l + l χ²_k)).

    Attributes
    ----------
    moments : Moments
        Draws of the moments, given their noisy values: arrays of shape (draws,).
    factor : ndarray of shape (draws,)
        h of each draw.
    uniform : ndarray of shape (draws,)
        A uniform number for each draw.
    """

    moments: Moments
    factor: Array
    uniform: Array

    @classmethod
    def from_moments(
        cls, moments: Moments, factor: Array, cap: Array, part: Array, uniform: Array, allowed: NDArray[np.bool_]
    ) -> NullDistribution:
        """Construct the null distribution from draws of moments, except those that no covariance matrix has.

        Where there are hardly any, all are moved to the nearest possible ones.
        """
        moments = moments.repaired()
        kept = allowed & moments.is_possible(cap)
        if kept.sum() < min(_MIN_DRAWS, len(kept)):
            kept = np.ones_like(kept)
            moments = moments.clipped(cap)
        times = max(1, -(-(len(kept) // _PART_KEPT) // int(kept.sum())))
        at = np.tile(np.flatnonzero(kept), times)
        uniform = (uniform[at] + np.repeat(np.arange(times) / times, kept.sum())) % 1.0
        return cls(moments[at].with_fourth_moments(part[at]), factor[at], np.clip(uniform, _TINY, 1 - _TINY))

    def quantile(self, level: float | Array) -> Array:
        """Return quantiles of the noise-free separation under the null hypothesis."""
        return np.sqrt(np.maximum(self.factor * self.moments.quantile(level), 0))

    def pvalue(self, statistic: float, scale: float) -> float:
        """Return the p-value of a noisy separation with Laplace noise of a given scale.

        A mean over draws of the null law, of the tail of the noise. Where the noise is small, none of them may
        reach the statistic: in the tail it is no less than the mean over draws of the noise, of the law's tail.
        """
        null = self.quantile(self.uniform)
        pvalue = float(laplace_tail((statistic - null) / max(scale, _TINY)).mean())
        if pvalue >= _TAIL_FROM:
            return pvalue
        reached = np.maximum(statistic - quantile(NoiseLaw(scale), self.uniform), 0)
        tails = np.where(reached > 0, self.moments.tail(reached**2 / self.factor), 1.0)
        return max(pvalue, float(tails.mean()))


SHARE = "3/20"
"""The part of epsilon that is spent on the spread; between a tenth and a fifth it hardly matters."""

_MIN_COUNT_SCALES = 1.5  # scales of the noise by which a noisy number of rows must exceed 0
_NEGLIGIBLE = 1e-6
_MAX_DISTANCE = 2.0  # two means of features of length 1


@dataclass(frozen=True)
class MMDMeasurement:
    """Noisy measurement of the MMD test: the groups' separation and sizes, and moments of the covariance.

    Attributes
    ----------
    separation : float
        Noisy G = (nm/N) T; of pairs n T, with T the length of the mean difference.
    scale : float
        Scale of its Laplace noise.
    spread : ndarray
        Noisy N tr C, N ‖C‖, N λ, of pairs n times those of the second moment of the differences; where the sizes
        are private, n and m before them, or the number of complete pairs. Incomplete pairs have a difference of 0,
        so the test need not know which they are.
    spread_scales : ndarray
        Scales of its noise of the cube.
    sizes : tuple of int or None
        Rows of each group that are compared, None where that is private.
    rows : tuple of int or None
        Rows of each group, complete or not, None where that is private.
    paired : bool
        Whether it is of pairs.
    """

    separation: float
    scale: float
    spread: Array
    spread_scales: Array
    sizes: tuple[int, ...] | None
    rows: tuple[int, ...] | None = None
    paired: bool = False

    @property
    def max_sizes(self) -> Array:
        """Largest possible number of compared rows of each group."""
        return np.array(self.sizes or self.rows or (math.inf, math.inf), dtype=np.float64)

    @property
    def noisy_sizes(self) -> tuple[float, float]:
        """Number of compared rows of each group, public or noisy."""
        n, m = self.max_sizes if self.sizes else np.clip(self.spread[:-3], 1.0, self.max_sizes)
        return float(n), float(m)

    @property
    def count_noise(self) -> float:
        """Standard deviation of the noise in the number of compared rows of a group."""
        return 0.0 if self.sizes else float(self.spread_scales[0]) * cube_law(len(self.spread)).standard_deviation

    @property
    def informative(self) -> bool:
        """Whether the numbers of compared rows are public, or clearly larger than their noise."""
        return bool(self.sizes) or min(self.noisy_sizes) > _MIN_COUNT_SCALES * float(self.spread_scales[0])

    def distance_factor(self, sizes: Sequence[float]) -> float:
        """Return the factor that turns the separation into T, the distance of the groups' mean embeddings."""
        return 1 / sizes[0] if self.paired else sum(sizes) / math.prod(sizes)

    @property
    def statistic(self) -> float:
        """Estimate of T, the distance between the mean embeddings of the groups."""
        return self.separation * self.distance_factor(self.noisy_sizes)

    def noise_sd(self, sizes: Sequence[float]) -> float:
        """Return the standard deviation of the noise in T for groups of these sizes."""
        return math.sqrt(2) * self.scale * self.distance_factor(sizes)

    def null_law(self, *, still: bool = False) -> NullDistribution:
        """Return the null distribution of the separation, with the noise in its moments unless `still`.

        It is averaged over draws of the unknown numbers; if still, it takes the noisy ones for exact.
        """
        d = len(self.spread)
        noise, uniform = (np.zeros((d, 1)), np.full(1, 0.5)) if still else cube_noise(d)
        drawn = self.spread[:, None] + self.spread_scales[:, None] * noise
        if self.paired:
            pairs = self.max_sizes[0] + 0 * uniform
            cap, every = np.full_like(uniform, _CAP_OF_PAIRS), uniform >= 0
            return NullDistribution.from_moments(
                Moments(*drawn[-3:] / pairs), pairs, cap, 0 * uniform, uniform, every
            )
        sizes = self.max_sizes[:, None] + 0 * uniform if self.sizes else drawn[:2]
        n, m = np.clip(sizes, 1, self.max_sizes[:, None])  # as a rule, nothing or little is missing
        rows = n + m
        pq = n * m / rows**2
        return NullDistribution.from_moments(
            Moments(*drawn[-3:] / rows),
            pq * rows**2 / (rows - 1),
            1 - 1 / rows,
            (1 / pq - 3) / (2 * rows),
            uniform,
            np.asarray((sizes >= 1).all(axis=0)),
        )

    @property
    def pvalue(self) -> float:
        """P-value of the noisy separation under a null distribution that includes all noise."""
        return self.null_law().pvalue(self.separation, self.scale)

    @property
    def squared_mmd(self) -> float:
        """Unbiased estimate of MMD², which can be below 0.

        Unbiased of pairs, and for groups of equal size (or equal spread).
        """
        n, m = self.noisy_sizes
        square = (self.separation**2 - 2 * self.scale**2) * self.distance_factor((n, m)) ** 2
        if self.paired:
            pairs = max(2.0, n)
            return float((pairs * square - self.spread[-3] / pairs) / (pairs - 1))
        rows = max(3.0, n + m)
        labels, trace = n * m / (n + m), float(self.spread[-3]) / rows
        within = rows / (labels * (rows - 1)) * ((rows - 1) * trace - labels * square) / (rows - 2)
        return square - within

    def _factor_bounds(self, tail: float) -> list[float]:
        """Return bounds of 1/n + 1/m, each exceeded with probability at most `tail` due to noise in n and m."""
        doubt = 0.0
        if not self.sizes:
            doubt = float(self.spread_scales[0]) * cube_law(len(self.spread)).half_width(1 - tail)
        sizes = np.array(self.noisy_sizes)
        return [float(np.sum(1 / np.clip(sizes + side * doubt, 1, self.max_sizes))) for side in (1, -1)]

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return an approximate confidence interval for the MMD of two groups' populations."""
        n, m = self.noisy_sizes
        alpha, total = 1 - confidence, n + m
        h = (1 / n + 1 / m) * total / max(1.0, total - 1)
        moments = self.null_law(still=True).moments
        frobenius, largest, trace = (*moments.frobenius, *moments.largest, self.spread[-3] / total)
        doubt = h * float(self.spread_scales[-1]) / total * cube_law(len(self.spread)).half_width(1 - alpha / 2)
        reach, z = self.scale * math.log(2 / alpha), float(ndtri(1 - alpha / 4))
        ends = []
        for side, factor in zip((-1, 1), self._factor_bounds(alpha / 8), strict=True):
            t = max(0.0, factor * (self.separation + side * reach))
            v = t**2 - h * trace + side * doubt
            sd = math.sqrt(4 * max(v, 0.0) * total / min(n, m) ** 2 * largest + 2 * h**2 * frobenius**2)
            ends.append(min(math.sqrt(max(0.0, v + side * z * sd)), _MAX_DISTANCE))
        return ends[0], ends[1]


def share_interval(spread: Array, scales: Array, groups: Groups) -> tuple[float, float]:
    """Return a confidence interval for the first group's share of the rows, from noisy counts."""
    if groups.sizes:
        n, m = groups.sizes
        return n / (n + m), n / (n + m)
    most = np.array(groups.rows or (math.inf, math.inf))
    noisy = spread[:2]
    if groups.rows and not noisy.any():  # a plan knows no more than that few rows are incomplete
        noisy = most
    doubt = float(scales[0]) * cube_law(len(spread)).half_width(1 - 2 * _NEGLIGIBLE)
    (n_low, m_low), (n_high, m_high) = (np.clip(noisy + side * doubt, 0.0, most).tolist() for side in (-1, 1))
    return n_low / (n_low + m_high) if n_low else 0.0, n_high / (n_high + m_low) if m_low else 1.0
