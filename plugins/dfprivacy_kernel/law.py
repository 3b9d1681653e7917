"""The law of the MMD when both samples come from one distribution, as far as noisy moments tell it.

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
    from numpy.typing import NDArray

    from dfprivacy_kernel.design import Groups
    from dfprivacy_kernel.embedding import Array

__all__ = ["SHARE", "Measured", "MeasuredPairs", "Moments", "Null", "cube", "cube_noise", "share_interval"]

_POINTS = 2**14  # of the quadrature; more move single p-values by 2e-3 at most
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

    def __getitem__(self, at: NDArray[np.intp]) -> Moments:
        return Moments(self.trace[at], self.frobenius[at], self.largest[at])

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
        The noise, shape (d, points), and a uniform number for each, shape (points,): the same in every process.
    """
    spread = points(dimension + 2, _POINTS, seed=3)
    return gammaincinv(dimension + 1, spread[0]) * (2 * spread[1:-1] - 1), spread[-1]


def cube(dimension: int) -> NoiseLaw:
    """Give the law of one coordinate of `cube_noise`."""
    return NoiseLaw(1.0, kind="cube", dimension=dimension)


def no_noise(dimension: int) -> tuple[Array, Array]:
    """Give the one point in the middle of the noise."""
    return np.zeros((dimension, 1)), np.full(1, 0.5)


@dataclass(frozen=True)
class Null:
    """The law of the statistic under the null hypothesis, √(h (tr - k l + l χ²_k)), for draws of what is unknown.

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
    def of_public_sizes(cls, noisy: Array, scale: float, n: int, m: int, noise: tuple[Array, Array]) -> Null:
        """Draw (tr, F, l) for two samples of n and m rows."""
        cube, uniform = noise
        moments = Moments(*(noisy[:, None] + scale * cube))
        rows = np.full_like(uniform, n + m)
        part = (1 / n**3 + 1 / m**3) / (2 * (1 / n + 1 / m) ** 2)
        h = (1 / n + 1 / m) * rows / (rows - 1)
        return cls._settled(moments, h, 1 - 1 / rows, part + 0 * rows, uniform, rows > 0)

    @classmethod
    def of_pairs(cls, noisy: Array, scale: float, n: int, noise: tuple[Array, Array]) -> Null:
        """Draw (tr, F, l) of the second moment of the differences of n pairs, whose signs are exchangeable."""
        cube, uniform = noise
        moments = Moments(*(noisy[:, None] + scale * cube))
        factor, none = np.full_like(uniform, 1 / n), np.zeros_like(uniform)
        return cls._settled(moments, factor, none + _CAP_OF_PAIRS, none, uniform, uniform >= 0)

    @classmethod
    def of_private_sizes(
        cls, noisy: Array, scales: Array, most: tuple[float, float] | None, noise: tuple[Array, Array]
    ) -> Null:
        """Draw (n, m, N tr, N F, N l) of n and m rows, of which there are so many at most."""
        cube, uniform = noise
        n, m, *moments = noisy[:, None] + scales[:, None] * cube
        most_n, most_m = most or (np.inf, np.inf)
        allowed = (n >= 1) & (m >= 1)
        n, m = np.clip(n, 1, most_n), np.clip(m, 1, most_m)  # as a rule, nothing or little is missing
        rows = n + m
        pq = n * m / rows**2
        part = (1 / pq - 3) / (2 * rows)
        return cls._settled(
            Moments(*(each / rows for each in moments)),
            pq * rows**2 / (rows - 1),
            1 - 1 / rows,
            part,
            uniform,
            allowed,
        )

    @classmethod
    def _settled(
        cls, moments: Moments, factor: Array, cap: Array, part: Array, uniform: Array, allowed: NDArray[np.bool_]
    ) -> Null:
        """Keep the draws that are possible; where there are hardly any, move all to the nearest possible ones."""
        moments = moments.repaired()
        kept = allowed & moments.possible(cap)
        if kept.sum() < min(_FEW, len(kept)):
            kept = np.ones_like(kept)
            moments = moments.clipped(cap)
        times = max(1, -(-(len(kept) // _PART_KEPT) // int(kept.sum())))
        at = np.tile(np.flatnonzero(kept), times)
        uniform = (uniform[at] + np.repeat(np.arange(times) / times, kept.sum())) % 1.0
        return cls(moments[at].widened(part[at]), factor[at], np.clip(uniform, _TINY, 1 - _TINY))

    def quantile(self, level: float | Array) -> Array:
        """Give quantiles of the statistic, without its own noise."""
        return np.sqrt(np.maximum(self.factor * self.moments.quantile(level), 0))

    def pvalue(self, statistic: float, scale: float) -> float:
        """Give the probability of a noisy statistic at least as large, with Laplace noise of this scale.

        A mean over draws of the null law, of the tail of the noise. Where the noise is small, none of them may
        reach the statistic: in the tail it is no less than the mean over draws of the noise, of the law's tail.
        """
        null = self.quantile(self.uniform)
        pvalue = float(laplace_tail((statistic - null) / max(scale, _TINY)).mean())
        if pvalue >= _FAR:
            return pvalue
        reached = np.maximum(statistic - quantile(NoiseLaw(scale), self.uniform), 0)
        tails = np.where(reached > 0, self.moments.tail(reached**2 / self.factor), 1.0)
        return max(pvalue, float(tails.mean()))


SHARE = "3/20"
"""The part of epsilon that is spent on the spread; between a tenth and a fifth it hardly matters."""

_TOLD = 1.5  # scales of the noise by which a noisy number of rows must exceed 0
_NEGLIGIBLE = 1e-6
_FARTHEST = 2.0  # two means of features of length 1


@dataclass(frozen=True)
class Measured:
    """What was measured.

    Attributes
    ----------
    separation : float
        Noisy G = (nm/N) T.
    scale : float
        Scale of its Laplace noise.
    spread : ndarray
        Noisy N tr C, N ‖C‖, N λ; where the sizes are private, n and m before them.
    spread_scales : ndarray
        Scales of its noise of the cube.
    sizes : tuple of int or None
        Rows of each group that are compared, None where that is private.
    rows : tuple of int or None
        Rows of each group, complete or not, None where that is private.
    """

    separation: float
    scale: float
    spread: Array
    spread_scales: Array
    sizes: tuple[int, int] | None
    rows: tuple[int, int] | None = None

    @property
    def noisy_sizes(self) -> tuple[float, float]:
        """Rows of each group that are compared, as far as is known."""
        if self.sizes:
            return float(self.sizes[0]), float(self.sizes[1])
        most = self.rows or (math.inf, math.inf)
        n, m = (min(max(1.0, float(noisy)), top) for noisy, top in zip(self.spread[:2], most, strict=True))
        return n, m

    @property
    def moments(self) -> Array:
        """Noisy N tr C, N ‖C‖, N λ."""
        return self.spread[-3:]

    @property
    def informative(self) -> bool:
        """Whether the numbers of rows stand out of their noise."""
        return bool(self.sizes) or min(self.noisy_sizes) > _TOLD * float(self.spread_scales[0])

    @property
    def factor(self) -> float:
        """What turns G into T where the sizes are public, else 1: then the test is of G itself."""
        return sum(self.sizes) / math.prod(self.sizes) if self.sizes else 1.0

    @property
    def statistic(self) -> float:
        """Estimate of T, which is the distance of the mean embeddings."""
        return self.separation * sum(self.noisy_sizes) / math.prod(self.noisy_sizes)

    def null(self, *, still: bool = False) -> Null:
        """Give the law under the null hypothesis: for draws of the moments, or, if still, for the noisy ones."""
        noise = (no_noise if still else cube_noise)(len(self.spread))
        if self.sizes is None:
            return Null.of_private_sizes(self.spread, self.spread_scales, self.rows, noise)
        total = sum(self.sizes)
        return Null.of_public_sizes(self.spread / total, float(self.spread_scales[0]) / total, *self.sizes, noise)

    @property
    def pvalue(self) -> float:
        """Probability of a separation at least as large under the null hypothesis, all noise included."""
        return self.null().pvalue(self.factor * self.separation, self.factor * self.scale)

    def noise_of(self, sizes: tuple[float, float]) -> float:
        """Give the standard deviation of the noise in T, of groups of these sizes."""
        return math.sqrt(2) * self.scale * sum(sizes) / math.prod(sizes)

    @property
    def squared(self) -> float:
        """Estimate of MMD², unbiased for groups of equal size (or equal spread); it can be below 0."""
        n, m = self.noisy_sizes
        rows = max(3.0, n + m)
        labels, trace = n * m / (n + m), float(self.moments[0]) / rows
        square = (self.separation**2 - 2 * self.scale**2) / labels**2
        within = rows / (labels * (rows - 1)) * ((rows - 1) * trace - labels * square) / (rows - 2)
        return square - within

    def _factors(self, tail: float) -> tuple[float, float]:
        """Bound N/nm: at most `tail` of the noise of private sizes lies beyond either end."""
        doubt = 0.0
        if not self.sizes:
            doubt = float(self.spread_scales[0]) * cube(len(self.spread)).reach(1 - tail)
        most = self.rows or (math.inf, math.inf)
        ends = []
        for side in (1, -1):
            n, m = (
                min(max(1.0, size + side * doubt), top) for size, top in zip(self.noisy_sizes, most, strict=True)
            )
            ends.append(1 / n + 1 / m)
        return ends[0], ends[1]

    def interval(self, confidence: float) -> tuple[float, float]:
        """Interval for the MMD of the populations: approximate."""
        n, m = self.noisy_sizes
        alpha, total = 1 - confidence, n + m
        h = (1 / n + 1 / m) * total / max(1.0, total - 1)
        moments = self.null(still=True).moments
        frobenius, largest, trace = (*moments.frobenius, *moments.largest, self.moments[0] / total)
        doubt = h * float(self.spread_scales[-1]) / total * cube(len(self.spread)).reach(1 - alpha / 2)
        reach, z = self.scale * math.log(2 / alpha), float(ndtri(1 - alpha / 4))
        ends = []
        for side, factor in zip((-1, 1), self._factors(alpha / 8), strict=True):
            t = max(0.0, factor * (self.separation + side * reach))
            v = t**2 - h * trace + side * doubt
            sd = math.sqrt(4 * max(v, 0.0) * total / min(n, m) ** 2 * largest + 2 * h**2 * frobenius**2)
            ends.append(math.sqrt(max(0.0, v + side * z * sd)))
        return _within(*ends)


@dataclass(frozen=True)
class MeasuredPairs(Measured):
    """What was measured of pairs: n T, T the length of the mean difference, and n times its second moments.

    Where pairs can be incomplete, `sizes` is None, `rows` says how many there are, and their noisy number comes
    first in the spread. Incomplete ones have a difference of 0, so the test need not know which they are.
    """

    @property
    def noisy_sizes(self) -> tuple[float, float]:
        """Complete pairs, twice."""
        pairs = self._pairs if self.sizes else min(max(1.0, float(self.spread[0])), self._pairs)
        return float(pairs), float(pairs)

    @property
    def factor(self) -> float:
        """What turns n T into T, of all pairs."""
        return 1 / self._pairs

    @property
    def _pairs(self) -> int:
        known = self.sizes or self.rows
        assert known is not None  # noqa: S101 - pairs are counted in public, complete or not
        return known[0]

    @property
    def statistic(self) -> float:
        """Estimate of T."""
        return self.separation / self.noisy_sizes[0]

    def noise_of(self, sizes: tuple[float, float]) -> float:
        """Give the standard deviation of the noise in T, of so many pairs."""
        return math.sqrt(2) * self.scale / sizes[0]

    def null(self, *, still: bool = False) -> Null:
        """Give the law under random signs."""
        noisy, scale = self.moments / self._pairs, float(self.spread_scales[-1]) / self._pairs
        cube, uniform = (no_noise if still else cube_noise)(len(self.spread))
        return Null.of_pairs(noisy, scale, self._pairs, (cube[-3:], uniform))

    @property
    def squared(self) -> float:
        """Unbiased estimate of MMD²; it can be below 0."""
        pairs = max(2.0, self.noisy_sizes[0])
        square = (self.separation**2 - 2 * self.scale**2) / pairs**2
        return (pairs * square - float(self.moments[0]) / pairs) / (pairs - 1)


def _within(low: float, high: float) -> tuple[float, float]:
    """Keep an interval for a distance of two means to what it can be."""
    return min(max(low, 0.0), _FARTHEST), min(max(high, 0.0), _FARTHEST)


def share_interval(spread: Array, scales: Array, groups: Groups) -> tuple[float, float]:
    """Give an interval that all but certainly holds the first group's share of the rows, from noisy numbers."""
    if groups.sizes:
        n, m = groups.sizes
        return n / (n + m), n / (n + m)
    most = groups.rows or (math.inf, math.inf)
    noisy = tuple(float(size) for size in spread[:2])
    if groups.rows and noisy == (0.0, 0.0):  # a plan knows no more than that few rows are incomplete
        noisy = (float(groups.rows[0]), float(groups.rows[1]))
    doubt = float(scales[0]) * cube(len(spread)).reach(1 - 2 * _NEGLIGIBLE)
    (n_low, n_high), (m_low, m_high) = (
        (min(max(0.0, size - doubt), top), min(max(0.0, size + doubt), top))
        for size, top in zip(noisy, most, strict=True)
    )
    low = n_low / (n_low + m_high) if n_low else 0.0
    high = n_high / (n_high + m_low) if m_low else 1.0
    return low, high
