"""Welch's analysis of variance from noisy sums: a statistic, its law by simulation, means and the effect size.

All numbers are of y, the column mapped from its bounds to [-1, 1]; the last axis is that of the groups.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import ndtr, ndtri

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["DRAWS", "Sums", "doubtful", "holm", "skewed"]

DRAWS = 1999
"""Simulations of a null law."""

_SIZE_MIN = 5.0
_SURE = 3.0  # standard deviations of its noise that a size should have
_ROWS = 10.0  # of a group
_SLACK = 1.2  # a level that is above the nominal one by no more than a fifth holds
_VARIANCE_MIN = 1e-3

Kind = Literal["private", "known", "beside"]


@dataclass(frozen=True)
class Sums:
    """Noisy sums of groups.

    Attributes
    ----------
    values : ndarray of shape (..., k, 3)
        ``"private"``: sums of y, 1 - y² and y². ``"beside"``: of y, 1 - y² and 1. ``"known"``: of y and y², and the
        public number of rows.
    scales : ndarray of shape (3,)
        Scales of the Laplace noise in them; 0 for what is public.
    kind : {"private", "known", "beside"}
        Which of them these are.
    """

    values: Array
    scales: Array
    kind: Kind

    @cached_property
    def sizes(self) -> Array:
        """Rows in each group, 5 at least where they are noisy."""
        second, third = self.values[..., 1], self.values[..., 2]
        if self.kind == "private":
            return np.asarray(np.maximum(second + third, _SIZE_MIN))
        return np.asarray(np.maximum(third, 2.0 if self.kind == "known" else _SIZE_MIN))

    @cached_property
    def squares(self) -> Array:
        """Sums of y²."""
        second, third = self.values[..., 1], self.values[..., 2]
        return np.asarray({"private": third, "known": second, "beside": third - second}[self.kind])

    @property
    def size_noise(self) -> float:
        """Variance of the noise of a size."""
        _, second, third = self.scales
        return float(2 * third**2 + (2 * second**2 if self.kind == "private" else 0.0))

    @cached_property
    def means(self) -> Array:
        """Means of y."""
        return np.asarray(np.clip(self.values[..., 0] / self.sizes, -1.0, 1.0))

    @cached_property
    def variances(self) -> Array:
        """Variances of y, without what the noise of the mean adds."""
        noise = 2 * self.scales[0] ** 2 / self.sizes**2
        return np.asarray(np.clip(self.squares / self.sizes - self.means**2 + noise, _VARIANCE_MIN, 1.0))

    @cached_property
    def errors(self) -> Array:
        """Variances of the means: of sampling, and of the noise in sums and sizes."""
        n = self.sizes
        common = np.clip(self.values[..., 0].sum(axis=-1) / n.sum(axis=-1), -1.0, 1.0)[..., None]
        return np.asarray(self.variances / n + (2 * self.scales[0] ** 2 + common**2 * self.size_noise) / n**2)

    @cached_property
    def common(self) -> Array:
        """Mean of the means, each weighted by its accuracy."""
        weights = 1 / self.errors
        return np.asarray((weights * self.means).sum(axis=-1) / weights.sum(axis=-1))

    @cached_property
    def statistic(self) -> Array:
        """Weighted sum of squared distances of the means from their common one."""
        return np.asarray(((self.means - self.common[..., None]) ** 2 / self.errors).sum(axis=-1))

    @property
    def seed(self) -> int:
        """A seed that follows from what was released, which is public."""
        return int.from_bytes(hashlib.blake2b(np.ascontiguousarray(self.values).tobytes(), digest_size=8).digest())

    def under_null(self, draws: int = DRAWS) -> Sums:
        """Draw releases of normal groups with one mean, and with sizes and variances that these may be of.

        Parameters
        ----------
        draws : int
            How many.

        Returns
        -------
        Sums
            Of shape (draws, k, 3).
        """
        rng = np.random.default_rng(self.seed)
        again, shape = self.redrawn(draws), (draws, self.values.shape[-2])
        n, variances = again.sizes, again.variances
        mean = np.clip(self.common, -1.0, 1.0) + np.sqrt(variances / n) * rng.normal(size=shape)
        square = variances * rng.chisquare(np.maximum(n - 1, 2.0)) + n * mean**2
        rest = {"private": (n - square, square), "known": (square, n), "beside": (n - square, n)}[self.kind]
        exact = np.stack(np.broadcast_arrays(n * mean, *rest), axis=-1)
        return replace(self, values=exact + self.scales * rng.laplace(size=exact.shape))

    def redrawn(self, draws: int) -> Sums:
        """Take fresh noise of the same law away: tables that these sums may be of.

        Parameters
        ----------
        draws : int
            How many.

        Returns
        -------
        Sums
            Of shape (draws, k, 3).
        """
        rng = np.random.default_rng(self.seed + 1)
        return replace(self, values=self.values - self.scales * rng.laplace(size=(draws, *self.values.shape)))

    @property
    def between(self) -> Array:
        """The part of the sum of squares that is between groups, less what the noise adds on average."""
        n = self.sizes
        total = self.values[..., 0].sum(axis=-1)
        rows = n.sum(axis=-1)
        raw = (n * self.means**2).sum(axis=-1) - total**2 / rows
        within = self.squares.sum(axis=-1) - total**2 / rows
        added = ((2 * self.scales[0] ** 2 + self.means**2 * self.size_noise) / n).sum(axis=-1)
        return np.asarray((raw - added) / np.maximum(within, _VARIANCE_MIN))

    def effect(self, confidence: float, draws: int = 1000) -> tuple[float, float, float]:
        """Give η² of the table, with an interval by redrawing the noise.

        Parameters
        ----------
        confidence : float
            Coverage.
        draws : int
            Of the noise.

        Returns
        -------
        tuple of float
            η² and the ends of the interval, within 0 and 1.
        """
        again = self.redrawn(draws)
        # Redrawn sums have the noise twice, so twice of what it adds is taken away.
        n = again.sizes
        total_squares = np.maximum(
            again.squares.sum(axis=-1) - again.values[..., 0].sum(axis=-1) ** 2 / n.sum(axis=-1), _VARIANCE_MIN
        )
        added = ((2 * self.scales[0] ** 2 + again.means**2 * self.size_noise) / n).sum(axis=-1)
        ends = np.quantile(again.between - added / total_squares, [(1 - confidence) / 2, (1 + confidence) / 2])
        low, high = np.clip(ends, 0.0, 1.0)
        return float(np.clip(self.between, 0.0, 1.0)), float(low), float(high)

    def population(self, draws: int) -> Array:
        """Draw means of the population, of noise and of sampling.

        Parameters
        ----------
        draws : int
            How many.

        Returns
        -------
        ndarray of shape (draws, k)
            Means.
        """
        rng = np.random.default_rng(self.seed + 2)
        again = self.redrawn(draws)
        return np.asarray(again.means + np.sqrt(self.variances / self.sizes) * rng.normal(size=again.means.shape))


def doubtful(sums: Sums) -> bool:
    """Tell whether a group is too small, or its size or variance too noisy, for the law to be known.

    Parameters
    ----------
    sums : Sums
        One release.

    Returns
    -------
    bool
        Whether p-value and intervals are not to be trusted.
    """
    n, (_, second, third) = sums.sizes, sums.scales
    noise = {"private": third, "known": second, "beside": float(np.hypot(second, third))}[sums.kind]
    of_variance = np.sqrt(2) * noise / n
    small = n < max(_ROWS, _SURE * np.sqrt(sums.size_noise))
    return bool((small | (sums.variances < of_variance)).any())


def skewed(sums: Sums, pvalue: float, alpha: float) -> bool:
    """Tell whether a rejection could be undone by data as skewed as the bounds and the variances admit.

    Parameters
    ----------
    sums : Sums
        One release.
    pvalue : float
        Its p-value.
    alpha : float
        The level.

    Returns
    -------
    bool
        Whether the null hypothesis is rejected, and would not be with the worst skewness γ of a mean: the third
        absolute central moment of y in [-1, 1] is at most (1 + |mean|) times the variance, and the noise has none.
        It moves the normal score z of the p-value by γ(2z² + 1)/6, as far as the expansion is trusted.
    """
    most = float(((1 + np.abs(sums.means)) * sums.variances / sums.sizes**2 / sums.errors**1.5).max())
    z = -float(ndtri(pvalue / 2))
    trusted = min(abs(z), 1.5 / most)
    shift = most * (2 * trusted**2 + 1) / 6
    worst = float(ndtr(shift - trusted) + ndtr(-trusted - shift))
    return pvalue <= alpha < worst / _SLACK


def holm(pvalues: Array) -> Array:
    """Correct p-values of several comparisons, step down (Holm).

    Parameters
    ----------
    pvalues : ndarray of shape (m,)
        Of each alone.

    Returns
    -------
    ndarray of shape (m,)
        Such that rejecting those up to α errs in any of them with probability α at most.
    """
    order = np.argsort(pvalues)
    steps = pvalues[order] * np.arange(len(pvalues), 0, -1)
    adjusted = np.empty_like(pvalues)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
