"""The law of a noisy mean, or difference of means, if a hypothesis is true.

The estimate's distance from the hypothesis is a normal variable, the error of sampling, plus Laplace variables,
the noise. The variance of the normal part is not known but estimated, from few rows or through noise. So the law
is a mixture over that variance (`NullLaw`):

- *rows*: the sample variance of ν + 1 normal rows is the true one times χ²_ν/ν. Dividing by it is what makes a
  normal variable a t-variable.
- *noise*: a sum of squares that was released as x with noise of scale β is distributed about as the noise around
  x, cut off below zero. Its mean and variance are those of a gamma variable of shape k.

A gamma variable over χ²_ν is an F-variable, so the variance is s F(2k, ν): for large k the law is Student's t
plus the noise, with no noise Student's t alone, and for a known variance the convolution of normal and Laplace.

The noise of S₁ is in the estimate and in the variance alike: a large one makes the estimate extreme and, if the
mean lies away from the middle of the bounds, the variance small. If the hypothesis is true, the distance tells
how large the noise is likely to be, so that much of it is taken out before the variance is computed
(`sampling_variances`). What is left of it does not depend on the distance any more, up to second order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from dfprivacy_ttest.distributions import normal_two_laplace_cdf
from dfprivacy_ttest.group import Array, Real
from dfprivacy_ttest.solve import solve_decreasing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfprivacy_ttest.group import Group

__all__ = ["NullLaw", "TextbookLaw", "log_ratio", "null_law", "textbook_law", "widest"]

_NODES = 48
_CERTAIN = 1e8  # a shape, or a number of degrees of freedom, beyond which a variance counts as known
_ALL = 1e100  # a rate of no noise
_LEAST = 1e-9  # a variance for data that are constant


@dataclass(frozen=True)
class NullLaw:
    """A normal variable of uncertain variance plus Laplace variables.

    Attributes
    ----------
    sampling : ndarray
        The variance from sampling, s.
    shape : ndarray
        How well it is known through the noise, k.
    df : ndarray
        Degrees of freedom of its estimate, ν; infinity for a known variance.
    most : ndarray
        The largest variance there can be.
    scales : tuple of ndarray
        Scales of the two widest Laplace variables.
    rest : ndarray
        Variance of the other ones, which are taken as normal.
    """

    sampling: Array
    shape: Array
    df: Array
    most: Array
    scales: tuple[Array, Array]
    rest: Array

    @property
    def noise(self) -> Array:
        """Variance of all the noise."""
        return np.asarray(self.rest + sum(2 * scale**2 for scale in self.scales))

    @property
    def standard_error(self) -> Array:
        """Standard deviation of the whole."""
        return np.sqrt(self.sampling + self.noise)

    @property
    def noise_se(self) -> Array:
        """Standard deviation of the noise."""
        return np.sqrt(self.noise)

    def cdf(self, x: Array) -> Array:
        """Distribution function, with small relative error in the lower tail."""
        return self._mixed(len(np.broadcast_shapes(np.shape(x), self.sampling.shape)))(x)

    def _mixed(self, axes: int) -> Callable[[Array], Array]:
        """Give the distribution function of arrays of so many axes."""
        share, weight = self._mixture(axes)
        se = np.sqrt(np.minimum(self.sampling * share, self.most) + self.rest)
        wide, narrow = (
            se / scale if np.all(scale > 0) else np.where(scale > 0, se / np.maximum(scale, 1e-300), _ALL)
            for scale in self.scales
        )
        return lambda x: np.asarray((weight * normal_two_laplace_cdf(x / se, wide, narrow)).sum(axis=0))

    def _mixture(self, axes: int) -> tuple[Array, Array]:
        """Spread points of F(2k, ν) evenly on the scale of its logarithm, and weight them."""
        k, half = np.minimum(self.shape, _CERTAIN), np.minimum(self.df, _CERTAIN) / 2
        if np.all(k == _CERTAIN) and np.all(half == _CERTAIN / 2):
            return np.ones((1,) * (axes + 1)), np.ones((1,) * (axes + 1))
        spread = 6 * np.sqrt(1 / k + 1 / half)  # beyond that, tails that fall by e^-26
        low, high = -np.minimum(spread + 26 / k, 60.0), np.minimum(spread + 26 / half, 60.0)
        u = low + (high - low) * np.linspace(0, 1, _NODES).reshape(-1, *[1] * axes)
        with np.errstate(over="ignore"):
            log_density = k * u - (k + half) * np.log1p(k / (k + half) * np.expm1(u))
        weight = np.exp(log_density - log_density.max(axis=0))
        return np.exp(u), weight / weight.sum(axis=0)

    def distance(self, tail: float, *, tolerance: float = 1e-12) -> Array:
        """Give the x that is exceeded with probability `tail`."""
        high = self.standard_error * widest(tail)
        cdf = self._mixed(high.ndim)
        while np.any(above := cdf(-high) > tail):
            high = np.where(above, 2 * high, high)
        return solve_decreasing(lambda x: log_ratio(cdf(-x), tail), high, tolerance=tolerance)


@dataclass(frozen=True)
class TextbookLaw:
    """A t-variable times a standard error, as if there were no noise."""

    sampling: Array
    df: Array
    noise: Array

    @property
    def shape(self) -> Array:
        """How well the variance is known, as if there were no noise."""
        return np.full_like(self.sampling, np.inf)

    @property
    def standard_error(self) -> Array:
        """Standard error of sampling."""
        return np.sqrt(self.sampling)

    @property
    def noise_se(self) -> Array:
        """Standard deviation of the noise, which this law leaves out."""
        return np.sqrt(self.noise)

    def cdf(self, x: Array) -> Array:
        """Distribution function."""
        w = x / self.standard_error
        return np.where(np.isinf(self.df), ndtr(w), stdtr(self.df, w))

    def distance(self, tail: float) -> Array:
        """Give the x that is exceeded with probability `tail`."""
        return -self.standard_error * np.where(np.isinf(self.df), ndtri(tail), stdtrit(self.df, tail))


def widest(tail: float) -> float:
    """How many standard deviations most of these laws exceed less often than this: those of a Laplace variable."""
    return max(-math.log(2 * tail) / math.sqrt(2), -float(ndtri(tail)), 0.1) * 1.1


def log_ratio(probability: Array, tail: float) -> Array:
    """Compare probabilities on the scale on which a tail is about straight."""
    return np.log(np.maximum(probability, 1e-300)) - math.log(tail)


def null_law(
    groups: Sequence[Group], means: Sequence[Real], distance: Array, *, sd: float | None, pooled: bool
) -> tuple[NullLaw, tuple[Array, ...]]:
    """Give the law of S₁/n - mean of the first group, less that of the second, and each group's variance.

    Parameters
    ----------
    groups : sequence of Group
        One, or two.
    means : sequence of float or ndarray
        Their hypothetical means.
    distance : ndarray
        What S₁/n - mean of the first group, less that of the second, is.
    sd : float or None
        The standard deviation, if it is known.
    pooled : bool
        Whether both groups have the same variance.

    Returns
    -------
    tuple of NullLaw and tuple of ndarray
        The law, and the variances.
    """
    sizes = [group.n for group in groups]
    effects = [group.mean_noise(mean) for group, mean in zip(groups, means, strict=True)]
    effects = [effects[0], *(-effect for effect in effects[1:])]
    if sd is None:
        found = _sampling_variances(groups, effects, distance)
        dfs = [n - 1 for n in sizes]
    else:
        found, dfs = [(np.asarray(sd**2), np.asarray(0.0))] * len(groups), [np.full_like(n, np.inf) for n in sizes]
    if pooled:
        df = dfs[0] + dfs[1]
        parts = [each / df for each in dfs]
        one = np.asarray(sum(part * v for part, (v, _) in zip(parts, found, strict=True)))
        uncertain: Array = np.asarray(sum(part**2 * u for part, (_, u) in zip(parts, found, strict=True)))
        weight = 1 / sizes[0] + 1 / sizes[1]
        variances: tuple[Array, ...] = (np.asarray(one),) * 2
        sampling, uncertain = np.asarray(one * weight), uncertain * weight**2
    else:
        variances = tuple(v for v, _ in found)
        sampling = np.asarray(sum(v / n for v, n in zip(variances, sizes, strict=True)))
        uncertain = np.asarray(sum(u / n**2 for (_, u), n in zip(found, sizes, strict=True)))
        df = _welch([v / n for v, n in zip(variances, sizes, strict=True)], dfs)
    scales = np.sort(np.abs(np.concatenate(effects)), axis=0)
    with np.errstate(divide="ignore"):
        law = NullLaw(
            sampling=sampling,
            shape=np.asarray(sampling**2 / uncertain),
            df=np.asarray(df),
            most=np.asarray(sum(1 / n for n in sizes) if sd is None else sampling),
            scales=(scales[-1], scales[-2]),
            rest=2 * np.square(scales[:-2]).sum(axis=0),
        )
    return law, variances


def textbook_law(
    groups: Sequence[Group], means: Sequence[Real], *, sd: float | None, pooled: bool
) -> tuple[TextbookLaw, tuple[Array, ...]]:
    """Give the law of the same distance as a textbook has it, from the noisy sums as they are."""
    sizes, dfs = [group.n for group in groups], [group.n - 1 for group in groups]
    variances = tuple(group.naive_variance if sd is None else np.asarray(sd**2) for group in groups)
    if pooled:
        df = dfs[0] + dfs[1]
        variances = ((dfs[0] * variances[0] + dfs[1] * variances[1]) / df,) * 2
    parts = [v / n for v, n in zip(variances, sizes, strict=True)]
    if not pooled:
        df = _welch(parts, dfs) if sd is None else np.full_like(sizes[0], np.inf)
    noise = sum(
        2 * np.square(group.mean_noise(mean)).sum(axis=0) for group, mean in zip(groups, means, strict=True)
    )
    return TextbookLaw(np.asarray(sum(parts)), np.asarray(df), np.asarray(noise)), variances


def _welch(parts: Sequence[Array], dfs: Sequence[Array]) -> Array:
    """Degrees of freedom of a sum of estimated variances (Welch and Satterthwaite)."""
    if len(parts) == 1 or np.all(np.isinf(dfs[0])):
        return dfs[0]
    return np.asarray(sum(parts) ** 2 / sum(part**2 / df for part, df in zip(parts, dfs, strict=True)))


def _sampling_variances(
    groups: Sequence[Group], effects: Sequence[Array], distance: Array
) -> list[tuple[Array, Array]]:
    """Estimate each group's variance, and the variance that this estimate has through the noise.

    A noise that moves the distance by `effect` standard deviations of its own is expected, given the distance, to
    be the share of it that it contributes to the variance of the whole. That variance needs those of the groups,
    so it is computed in turns.
    """
    noise = sum(2 * np.square(effect).sum(axis=0) for effect in effects)
    variances = [
        np.clip(
            _truncated(group.squares - (group.total**2 - 2 * group.scale_total**2) / group.n, _scale(group))[0]
            / group.n,
            *(_LEAST, 1.0),
        )
        for group in groups
    ]
    found: list[tuple[Array, Array]] = []
    for _ in range(2):
        whole = sum(v / group.n for v, group in zip(variances, groups, strict=True)) + noise
        whole = np.maximum(whole, _LEAST**2)
        found = [
            _one_variance(group, effect, distance, whole) for group, effect in zip(groups, effects, strict=True)
        ]
        variances = [v for v, _ in found]
    return found


def _one_variance(group: Group, effect: Array, distance: Array, whole: Array) -> tuple[Array, Array]:
    total, squares, n = group.without(2 * effect * distance / whole)
    left = (
        2 * group.scale_total**2 * (1 - 2 * effect[0] ** 2 / whole)
    )  # variance of what is left of the noise of S₁
    mean = np.clip(total / n, -1.0, 1.0)
    deviations = (squares - (total**2 - left) / n) * group.n / (group.n - 1)
    spread = group.deviations_noise(mean)
    common = 2 * (spread * effect).sum(axis=0)
    # The square of a Laplace variable has five times the square of its variance as its variance.
    noise = 2 * np.square(spread).sum(axis=0) - common**2 / whole + 5 * left**2 / n**2
    middle, uncertain = _truncated(deviations, np.sqrt(np.maximum(noise, 0.0) / 2))
    most = np.maximum(1 - mean**2, _LEAST)
    return np.clip(middle / group.n, _LEAST, most), uncertain / group.n**2


def _scale(group: Group) -> float:
    return math.hypot(group.scale_squares, group.scale_both)


def _truncated(x: Array, scale: Array | float) -> tuple[Array, Array]:
    """Mean and variance of a Laplace variable around x that is cut off below zero."""
    scale = np.maximum(scale, _LEAST**2)
    x = np.maximum(x, 0.0)
    below = np.exp(-x / scale)
    mean = (2 * x + scale * below) / (2 - below)
    square = (2 * x**2 + 4 * scale**2 - 2 * scale**2 * below) / (2 - below)
    return mean, np.maximum(square - mean**2, 0.0)
