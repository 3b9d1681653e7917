"""The one-release test: what follows from the noisy separation and spread of two groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from dfprivacy_kernel.null import Null, cube_noise, cube_quantile, no_noise

if TYPE_CHECKING:
    from dfprivacy_kernel.embedding import Array
    from dfprivacy_kernel.groups import Groups

__all__ = [
    "SHARE",
    "SHARE_FUSED",
    "Measured",
    "MeasuredPairs",
    "critical_values",
    "null_of",
    "share_interval",
]

SHARE = "3/20"
"""The part of epsilon that is spent on the spread; between a tenth and a fifth it hardly matters."""

SHARE_FUSED = "1/5"
"""The same for several kernels."""


_TOLD = 1.5  # scales of the noise by which a noisy number of rows must exceed 0
_NEGLIGIBLE = 1e-6
_FARTHEST = 2.0  # two means of features of length 1


@dataclass(frozen=True)
class Measured:
    """What was measured.

    Attributes
    ----------
    separation : float
        Noisy G = (nm/N) T, or the largest G - c of several kernels.
    scale : float
        Scale of its Laplace noise.
    spread : ndarray
        Noisy N tr C, N ‖C‖, N λ of each kernel; where the sizes are private, n and m before them.
    spread_scales : ndarray
        Scales of its noise of the cube.
    sizes : tuple of int or None
        Rows of each group that are compared, None where that is private.
    rows : tuple of int or None
        Rows of each group, complete or not, None where that is private.
    critical : tuple of float
        c of each kernel.
    """

    separation: float
    scale: float
    spread: Array
    spread_scales: Array
    sizes: tuple[int, int] | None
    rows: tuple[int, int] | None = None
    critical: tuple[float, ...] = (0.0,)

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
        """Noisy N tr C, N ‖C‖, N λ of each kernel, shape (kernels, 3)."""
        return self.spread[0 if self.sizes else 2 :].reshape(-1, 3)

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
        return null_of(self.spread, self.spread_scales, self.sizes, self.rows, still=still)

    @property
    def pvalue(self) -> float:
        """Probability of a separation at least as large under the null hypothesis, all noise included."""
        null = self.null()
        statistic, scale = self.factor * self.separation, self.factor * self.scale
        if len(self.critical) == 1:
            return null.pvalue(statistic + self.factor * self.critical[0], scale)
        return null.fused_pvalue(statistic, self.factor * np.array(self.critical), scale)

    @property
    def squared(self) -> float:
        """Estimate of MMD², unbiased for groups of equal size (or equal spread); it can be below 0."""
        n, m = self.noisy_sizes
        rows = max(3.0, n + m)
        labels, trace = n * m / (n + m), float(self.moments[0, 0]) / rows
        square = (self.separation**2 - 2 * self.scale**2) / labels**2
        within = rows / (labels * (rows - 1)) * ((rows - 1) * trace - labels * square) / (rows - 2)
        return square - within

    def _factors(self, tail: float) -> tuple[float, float]:
        """Bound N/nm: at most `tail` of the noise of private sizes lies beyond either end."""
        doubt = 0.0
        if not self.sizes:
            doubt = float(self.spread_scales[0]) * cube_quantile(len(self.spread), tail / 2)
        most = self.rows or (math.inf, math.inf)
        ends = []
        for side in (1, -1):
            n, m = (
                min(max(1.0, size + side * doubt), top) for size, top in zip(self.noisy_sizes, most, strict=True)
            )
            ends.append(1 / n + 1 / m)
        return ends[0], ends[1]

    def sample_interval(self, confidence: float) -> tuple[float, float]:
        """Interval for the MMD of the two samples as they are: exact."""
        if self.sizes:
            centre, reach = self.factor * self.separation, -self.factor * self.scale * math.log1p(-confidence)
            return _within(centre - reach, centre + reach)
        alpha = 1 - confidence
        reach = -self.scale * math.log(alpha / 2)
        low, high = self._factors(alpha / 4)
        return _within(low * (self.separation - reach), high * (self.separation + reach))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Interval for the MMD of the populations: approximate."""
        n, m = self.noisy_sizes
        alpha, total = 1 - confidence, n + m
        h = (1 / n + 1 / m) * total / max(1.0, total - 1)
        moments = self.null(still=True).moments
        frobenius, largest = float(moments.frobenius[0, 0]), float(moments.largest[0, 0])
        trace = float(self.moments[0, 0]) / total
        doubt = h * float(self.spread_scales[-1]) / total * cube_quantile(len(self.spread), alpha / 4)
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
    def moments(self) -> Array:
        """Noisy n tr, n F, n l."""
        return self.spread[-3:].reshape(1, 3)

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
        return (pairs * square - float(self.moments[0, 0]) / pairs) / (pairs - 1)


def _within(low: float, high: float) -> tuple[float, float]:
    """Keep an interval for a distance of two means to what it can be."""
    return min(max(low, 0.0), _FARTHEST), min(max(high, 0.0), _FARTHEST)


def null_of(
    spread: Array,
    scales: Array,
    sizes: tuple[int, int] | None,
    rows: tuple[int, int] | None,
    *,
    still: bool,
) -> Null:
    """Give the law of two groups; see `Measured.null`."""
    draw = no_noise if still else cube_noise
    if sizes is None:
        return Null.of_private_sizes(spread, scales, rows, draw(len(spread)))
    total = sum(sizes)
    return Null.of_public_sizes(spread.reshape(-1, 3) / total, float(scales[0]) / total, *sizes, draw(len(spread)))


def critical_values(spread: Array, scales: Array, groups: Groups, level: float = 0.05) -> Array:
    """Give for each of several kernels the G that it exceeds with its part of the level: post-processing."""
    sizes = groups.sizes
    null = null_of(spread, scales, sizes, groups.rows, still=True)
    values: Array = null.quantile(1 - level / len(null.moments.trace))[:, 0]
    return values * (math.prod(sizes) / sum(sizes) if sizes else 1.0)


def share_interval(spread: Array, scales: Array, groups: Groups) -> tuple[float, float]:
    """Give an interval that all but certainly holds the first group's share of the rows, from noisy numbers."""
    if groups.sizes:
        n, m = groups.sizes
        return n / (n + m), n / (n + m)
    most = groups.rows or (math.inf, math.inf)
    noisy = tuple(float(size) for size in spread[:2])
    if groups.rows and noisy == (0.0, 0.0):  # a plan knows no more than that few rows are incomplete
        noisy = (float(groups.rows[0]), float(groups.rows[1]))
    doubt = float(scales[0]) * cube_quantile(len(spread), _NEGLIGIBLE)
    (n_low, n_high), (m_low, m_high) = (
        (min(max(0.0, size - doubt), top), min(max(0.0, size + doubt), top))
        for size, top in zip(noisy, most, strict=True)
    )
    low = n_low / (n_low + m_high) if n_low else 0.0
    high = n_high / (n_high + m_low) if m_low else 1.0
    return low, high
