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

__all__ = ["SHARE", "SHARE_FUSED", "Measured", "MeasuredPairs", "critical_values", "null_of"]

SHARE = "3/20"
"""The part of epsilon that is spent on the spread; between a tenth and a fifth it hardly matters."""

SHARE_FUSED = "1/5"
"""The same for several kernels."""


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
        Noisy N tr C, N ‖C‖, N λ of each kernel; of private groups, nm/N and N before them.
    spread_scales : ndarray
        Scales of its noise of the cube.
    sizes : tuple of int or None
        Rows in each group, None where they are private.
    critical : tuple of float
        c of each kernel.
    """

    separation: float
    scale: float
    spread: Array
    spread_scales: Array
    sizes: tuple[int, int] | None
    critical: tuple[float, ...] = (0.0,)

    @property
    def factor(self) -> float:
        """What turns G into T where the sizes are public, else 1: then the test is of G itself."""
        return sum(self.sizes) / math.prod(self.sizes) if self.sizes else 1.0

    def null(self, *, still: bool = False) -> Null:
        """Give the law under the null hypothesis: for draws of the moments, or, if still, for the noisy ones."""
        return null_of(self.spread, self.spread_scales, self.sizes, still=still)

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
        labels, rows, trace = self._centre
        square = (self.separation**2 - 2 * self.scale**2) / labels**2
        within = rows / (labels * (rows - 1)) * ((rows - 1) * trace - labels * square) / (rows - 2)
        return square - within

    @property
    def _centre(self) -> tuple[float, float, float]:
        """nm/N, N and tr C, as far as noisy numbers tell them."""
        if self.sizes:
            rows = float(sum(self.sizes))
            return math.prod(self.sizes) / rows, rows, float(self.spread[0]) / rows
        rows = max(3.0, float(self.spread[1]))
        labels = min(max(1.0 - 1 / rows, float(self.spread[0])), rows / 4)
        return labels, rows, float(self.spread[2]) / rows

    def sample_interval(self, confidence: float) -> tuple[float, float]:
        """Interval for the MMD of the two samples as they are, of public sizes: exact."""
        centre, reach = self.factor * self.separation, -self.factor * self.scale * math.log1p(-confidence)
        return max(0.0, centre - reach), max(0.0, centre + reach)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Interval for the MMD of the populations, of public sizes: approximate."""
        assert self.sizes is not None  # noqa: S101 - asked for of public sizes only
        n, m = self.sizes
        alpha, total = 1 - confidence, n + m
        h = (1 / n + 1 / m) * total / (total - 1)
        moments = self.null(still=True).moments
        frobenius, largest = float(moments.frobenius[0, 0]), float(moments.largest[0, 0])
        trace = float(self.spread[0]) / total
        doubt = h * float(self.spread_scales[0]) / total * cube_quantile(3, alpha / 4)
        reach, z = self.factor * self.scale * math.log(2 / alpha), float(ndtri(1 - alpha / 4))
        ends = []
        for side in (-1, 1):
            t = max(0.0, self.factor * self.separation + side * reach)
            v = t**2 - h * trace + side * doubt
            sd = math.sqrt(4 * max(v, 0.0) * total / min(n, m) ** 2 * largest + 2 * h**2 * frobenius**2)
            ends.append(math.sqrt(max(0.0, v + side * z * sd)))
        return ends[0], ends[1]


@dataclass(frozen=True)
class MeasuredPairs(Measured):
    """What was measured of pairs: n T, T the length of the mean difference, and n times its second moments."""

    @property
    def factor(self) -> float:
        """What turns n T into T."""
        return 1 / self._pairs

    @property
    def _pairs(self) -> int:
        assert self.sizes is not None  # noqa: S101 - pairs are counted in public
        return self.sizes[0]

    def null(self, *, still: bool = False) -> Null:
        """Give the law under random signs."""
        draw = no_noise if still else cube_noise
        noisy, scale = self.spread.reshape(-1, 3) / self._pairs, float(self.spread_scales[0]) / self._pairs
        return Null.of_pairs(noisy, scale, self._pairs, draw(len(self.spread)))

    @property
    def squared(self) -> float:
        """Unbiased estimate of MMD²; it can be below 0."""
        square = (self.separation**2 - 2 * self.scale**2) / self._pairs**2
        return (self._pairs * square - float(self.spread[0]) / self._pairs) / (self._pairs - 1)


def null_of(spread: Array, scales: Array, sizes: tuple[int, int] | None, *, still: bool) -> Null:
    """Give the law of two groups; see `Measured.null`."""
    draw = no_noise if still else cube_noise
    if sizes is None:
        return Null.of_private_sizes(spread, scales, draw(len(spread)))
    total = sum(sizes)
    return Null.of_public_sizes(spread.reshape(-1, 3) / total, float(scales[0]) / total, *sizes, draw(len(spread)))


def critical_values(spread: Array, scales: Array, sizes: tuple[int, int] | None, level: float = 0.05) -> Array:
    """Give for each of several kernels the G that it exceeds with its part of the level: post-processing."""
    null = null_of(spread, scales, sizes, still=True)
    values: Array = null.quantile(1 - level / len(null.moments.trace))[:, 0]
    return values * (math.prod(sizes) / sum(sizes) if sizes else 1.0)
