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
from dfprivacy_ttest.group import LEAST, Array, Real, truncated
from dfprivacy_ttest.solve import solve_decreasing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfprivacy_ttest.group import Group

__all__ = ["NullLaw", "TextbookLaw", "null_law", "solve_tail", "textbook_law"]

_NODES = 48
_SIGNS = np.array([1.0, -1.0])  # of two groups in their difference
_CERTAIN = 1e8  # a shape, or a number of degrees of freedom, beyond which a variance counts as known
_ALL = 1e100  # a rate of no noise


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
        return solve_tail(self._mixed(self.standard_error.ndim), self.standard_error, tail, tolerance=tolerance)


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


def solve_tail(cdf: Callable[[Array], Array], standard_error: Array, tail: float, *, tolerance: float) -> Array:
    """Solve cdf(-x) = tail on the scale of normal scores, on which it is about straight.

    Parameters
    ----------
    cdf : callable
        The distribution function of a symmetric law, which may depend on x itself.
    standard_error : ndarray
        Its standard deviation, about.
    tail : float
        A probability below 1/2.
    tolerance : float
        As for `solve_decreasing`.

    Returns
    -------
    ndarray
        The solutions.
    """
    score = float(ndtri(tail))
    # Most of these laws exceed so many standard deviations less often: those of a Laplace variable.
    widest = max(-math.log(2 * tail) / math.sqrt(2), -score, 0.1) * 1.1
    return solve_decreasing(
        lambda x: ndtri(np.maximum(cdf(-x), 1e-300)) - score,
        standard_error * widest,
        at_zero=-score,
        tolerance=tolerance,
    )


def null_law(
    groups: Group, means: Array, distance: Array, *, sd: float | None, pooled: bool
) -> tuple[NullLaw, Array]:
    """Give the law of S₁/n - mean of the first group, less that of the second, and each group's variance.

    Parameters
    ----------
    groups : Group
        One or two, `side_by_side`.
    means : ndarray
        Their hypothetical means, along the last axis.
    distance : ndarray
        What S₁/n - mean of the first group, less that of the second, is.
    sd : float or None
        The standard deviation, if it is known.
    pooled : bool
        Whether both groups have the same variance.

    Returns
    -------
    tuple of NullLaw and ndarray
        The law, and the variances, along the last axis.
    """
    n = groups.n
    effects = groups.mean_noise(means) * _SIGNS[: n.shape[-1]]
    if sd is None:
        variances, uncertain = _sampling_variances(groups, effects, distance)
        df = n - 1
    else:
        variances, uncertain, df = np.full_like(n, sd**2), np.zeros_like(n), np.full_like(n, np.inf)
    if pooled:
        part, weight = df / df.sum(axis=-1, keepdims=True), (1 / n).sum(axis=-1)
        variances = np.broadcast_to((part * variances).sum(axis=-1, keepdims=True), variances.shape)
        sampling, uncertain = variances[..., 0] * weight, (part**2 * uncertain).sum(axis=-1) * weight**2
        df = df.sum(axis=-1)
    else:
        parts = variances / n
        sampling, uncertain = parts.sum(axis=-1), (uncertain / n**2).sum(axis=-1)
        df = _welch(parts, df)
    scales = np.sort(np.abs(np.concatenate(np.moveaxis(effects, -1, 0))), axis=0)
    with np.errstate(divide="ignore"):
        law = NullLaw(
            sampling=sampling,
            shape=np.asarray(sampling**2 / uncertain),
            df=np.asarray(df),
            most=np.asarray((1 / n).sum(axis=-1) if sd is None else sampling),
            scales=(scales[-1], scales[-2]),
            rest=2 * np.square(scales[:-2]).sum(axis=0),
        )
    return law, variances


def textbook_law(
    groups: Sequence[Group], means: Sequence[Real], *, sd: float | None, pooled: bool
) -> tuple[TextbookLaw, Array]:
    """Give the law of the same distance as a textbook has it, from the noisy sums as they are."""
    sizes, dfs = [group.n for group in groups], [group.n - 1 for group in groups]
    variances = tuple(group.naive_variance if sd is None else np.asarray(sd**2) for group in groups)
    if pooled:
        df = dfs[0] + dfs[1]
        variances = ((dfs[0] * variances[0] + dfs[1] * variances[1]) / df,) * 2
    parts = [v / n for v, n in zip(variances, sizes, strict=True)]
    if not pooled:
        known = np.full_like(sizes[0], np.inf)
        df = known if sd is not None else _welch(np.stack(parts, axis=-1), np.stack(dfs, axis=-1))
    noise = sum(
        2 * np.square(group.mean_noise(mean)).sum(axis=0) for group, mean in zip(groups, means, strict=True)
    )
    law = TextbookLaw(np.asarray(sum(parts)), np.asarray(df), np.asarray(noise))
    return law, np.stack(variances, axis=-1)


def _welch(parts: Array, dfs: Array) -> Array:
    """Degrees of freedom of a sum of estimated variances (Welch and Satterthwaite), along the last axis."""
    if parts.shape[-1] == 1 or np.all(np.isinf(dfs)):
        return dfs[..., 0]
    return np.asarray(parts.sum(axis=-1) ** 2 / (parts**2 / dfs).sum(axis=-1))


def _sampling_variances(groups: Group, effects: Array, distance: Array) -> tuple[Array, Array]:
    """Estimate each group's variance, and the variance that this estimate has through the noise.

    A noise that moves the distance by `effect` standard deviations of its own is expected, given the distance, to
    be the share of it that it contributes to the variance of the whole. That variance needs those of the groups,
    so it is computed in turns.
    """
    noise = 2 * np.square(effects).sum(axis=(0, -1))
    variances = uncertain = groups.rough_variance
    for _ in range(2):
        of_sums = np.maximum((variances / groups.n).sum(axis=-1) + noise, LEAST**2)
        variances, uncertain = _variances(groups, effects, np.asarray(distance)[..., None], of_sums[..., None])
    return variances, uncertain


def _variances(group: Group, effect: Array, distance: Array, of_sums: Array) -> tuple[Array, Array]:
    total, squares, n = group.without(2 * effect * distance / of_sums)
    left = (
        2 * group.scale_total**2 * (1 - 2 * effect[0] ** 2 / of_sums)
    )  # variance of what is left of the noise of S₁
    mean = np.minimum(np.maximum(total / n, -1.0), 1.0)
    deviations = (squares - (total**2 - left) / n) * group.n / (group.n - 1)
    spread = group.deviations_noise(mean)
    common = 2 * (spread * effect).sum(axis=0)
    # The square of a Laplace variable has five times the square of its variance as its variance.
    noise = 2 * np.square(spread).sum(axis=0) - common**2 / of_sums + 5 * left**2 / n**2
    middle, uncertain = truncated(deviations, np.sqrt(np.maximum(noise, 0.0) / 2))
    most = np.maximum(1 - mean**2, LEAST)
    return np.minimum(np.maximum(middle / group.n, LEAST), most), uncertain / group.n**2
