"""Comparison of the means of several groups: an omnibus test, pairwise tests, and the variance between groups."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import fdtrc, gammaincinv, ndtri

from dfprivacy.inference.draws import DRAWS, points
from dfprivacy.inference.engine import Inference, infer, root_of_increasing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.inference.moments import Moments, NoisyMoments

    Array = NDArray[np.float64]

__all__ = ["Omnibus", "difference", "holm", "mean", "omnibus", "pairwise"]

_TINY = 1e-300


def mean(group: Moments) -> tuple[Array, Array, Array]:
    """Return the mean, its variance from sampling, and the degrees of freedom of the variance."""
    return group.mean, group.variance / group.n, group.n - 1


def difference(first: Moments, second: Moments) -> tuple[Array, Array, Array]:
    """Return the difference of two means, with Welch's variance and degrees of freedom."""
    one, two = first.variance / first.n, second.variance / second.n
    df = (one + two) ** 2 / (one**2 / (first.n - 1) + two**2 / (second.n - 1))
    return first.mean - second.mean, one + two, df


def pairwise(sums: NoisyMoments) -> tuple[list[tuple[int, int]], Inference, Array]:
    """Compare the means of every pair of groups, with p-values corrected by Holm's method.

    Parameters
    ----------
    sums : NoisyMoments
        Of k groups.

    Returns
    -------
    tuple
        The pairs of groups, what is known of the first mean minus the second in each, of shape (..., pairs), and
        their p-values, corrected by Holm.
    """
    pairs = list(itertools.combinations(range(sums.values.shape[-2]), 2))
    first, second = np.transpose(pairs)
    found = infer(sums, lambda exact: difference(exact[first], exact[second]))
    return pairs, found, holm(found.pvalue())


def holm(pvalues: Array) -> Array:
    """Correct the p-values of several tests by Holm's step-down method.

    Parameters
    ----------
    pvalues : ndarray of shape (..., m)
        Of each alone.

    Returns
    -------
    ndarray of shape (..., m)
        Such that rejecting those up to α errs in any of them with probability α at most.
    """
    order = np.argsort(pvalues, axis=-1)
    steps = np.take_along_axis(pvalues, order, -1) * np.arange(pvalues.shape[-1], 0, -1)
    stepped = np.minimum(np.maximum.accumulate(steps, axis=-1), 1.0)
    return np.take_along_axis(stepped, np.argsort(order, axis=-1), -1)


@dataclass(frozen=True)
class Omnibus:
    r"""Omnibus test of the equality of k means by Welch's F, with a null distribution that accounts for the noise.

    With weights :math:`w_j = 1/V_j`, :math:`V_j` the variance of a noisy mean from sampling and noise, the
    statistic is :math:`Q(m) = \sum w_j (m_j - \tilde m)^2`. A draw of what the noise was moves the means by δ;
    sampling moves them by a random direction times a radius ρ, of which :math:`ρ^2/((k - 1) c)` has the law of F
    with k - 1 and ν degrees of freedom, c and ν those of Welch: so for one draw the law of Q is a formula, and
    without noise the p-value is Welch's.

    Attributes
    ----------
    means : ndarray of shape (..., k, 1)
        As released.
    weights : ndarray of shape (..., k, 1)
        Of the statistic.
    shares : ndarray of shape (..., k, 1)
        The part of the rows that is in each group.
    shift : ndarray of shape (..., k, draws)
        Draws of the noise in the means.
    direction : ndarray of shape (..., k, draws)
        Random directions in which sampling moves the means.
    within : ndarray of shape (..., draws)
        The variance within groups.
    sampled : ndarray of shape (..., draws)
        Draws of the factor by which sampling divides that.
    df, factor : ndarray of shape (..., draws)
        ν, and (k - 1) c.
    chances : ndarray of shape (draws,)
        Weights of the draws.
    """

    means: Array
    weights: Array
    shares: Array
    shift: Array
    direction: Array
    within: Array
    sampled: Array
    df: Array
    factor: Array
    chances: Array

    def _centred_product(self, one: Array, other: Array) -> Array:
        """Return the weighted scalar product of two vectors, each less its weighted mean."""
        both = (self.weights * one).sum(axis=-2) * (self.weights * other).sum(axis=-2)
        return np.asarray((self.weights * one * other).sum(axis=-2) - both / self.weights.sum(axis=-2))

    @cached_property
    def _variance_of_means(self) -> Array:
        return self._centred_product(self.means, self.means)

    @property
    def statistic(self) -> Array:
        """Welch's F, with variances that include the noise."""
        expected = (self.chances * self.factor).sum(axis=-1)
        return np.asarray(self._variance_of_means[..., 0] / expected)

    @cached_property
    def pvalue(self) -> Array:
        """Probability of a statistic at least as large as observed if all means are equal."""
        return self._tail_probability(self.shift)

    def _tail_probability(self, shift: Array) -> Array:
        """Return the probability of a statistic at least as large as observed, if means are moved by `shift`."""
        a, b = self._centred_product(self.direction, self.direction), self._centred_product(shift, self.direction)
        root = np.sqrt(np.maximum(b * b - a * (self._centred_product(shift, shift) - self._variance_of_means), 0.0))
        above = self._radius_tail_probability((root - b) / a) + self._radius_tail_probability((root + b) / a)
        return np.asarray(np.minimum((self.chances * above).sum(axis=-1), 1.0))

    def _radius_tail_probability(self, radius: Array) -> Array:
        """Return the probability that the radius ρ, with a random sign, exceeds `radius`."""
        k = self.means.shape[-2]
        tail = fdtrc(k - 1, self.df, radius**2 / self.factor) / 2
        return np.where(radius >= 0, tail, 1 - tail)

    @property
    def eta_squared(self) -> Array:
        """Share of the table's variance that is between groups, η², corrected for the bias from noise."""
        exact = self._between_variance(self.means)[..., 0]
        added = (self.chances * self._between_variance(self.means + self.shift)).sum(axis=-1) - exact
        left = np.maximum(exact - added, 0.0)
        return np.asarray(left / (left + (self.chances * self.within).sum(axis=-1)))

    def _between_variance(self, means: Array) -> Array:
        """Return the variance between groups with these means."""
        middle = (self.shares * means).sum(axis=-2, keepdims=True)
        return np.asarray((self.shares * (means - middle) ** 2).sum(axis=-2))

    def interval(self, confidence: float = 0.95) -> tuple[Array, Array]:
        """Return a confidence interval for the population's η², by inverting the test.

        Parameters
        ----------
        confidence : float
            Coverage.

        Returns
        -------
        tuple of ndarray
            Lower and upper ends.
        """
        apart = self.means - (self.shares * self.means).sum(axis=-2, keepdims=True)
        size = np.sqrt((self.shares * apart**2).sum(axis=-2, keepdims=True))
        unit = apart / np.maximum(size, _TINY) * np.sqrt(self.within / self.sampled)[..., None, :]
        outside = 1 - confidence
        none = self._variance_of_means[..., 0] * 0
        chances = np.reshape([outside / 2, 1 - outside / 2], (2, *[1] * none.ndim)) + none

        def tail(effect: Array) -> Array:
            return self._tail_probability(self.shift + np.maximum(effect, 0)[..., None, None] * unit)

        effect = np.maximum(root_of_increasing(tail, np.maximum(chances, tail(none)), none, none + 1), 0.0)
        low, high = effect**2 / (1 + effect**2)
        return low, high


def omnibus(sums: NoisyMoments, draws: int = DRAWS) -> Omnibus:
    """Test whether the means of several groups are equal.

    Parameters
    ----------
    sums : NoisyMoments
        Of k groups.
    draws : int
        How many draws of what the exact sums may be.

    Returns
    -------
    Omnibus
        The test, and how much of the variance is between groups.
    """
    exact, chances = sums.draws(draws)
    plain = sums.estimate
    k, shift = sums.values.shape[-2], exact.mean - plain.mean
    within = (exact.variance * (exact.n - 1)).sum(axis=-2)
    variance = exact.variance * (sums.within(points(1, draws, seed=2)[0]) / within)[..., None, :]
    squared = variance / exact.n
    half = (plain.n.sum(axis=-2) - k) / 2
    middle = (chances * shift).sum(axis=-1, keepdims=True)
    total = (chances * (squared + (shift - middle) ** 2)).sum(axis=-1, keepdims=True)
    shares = plain.n / plain.n.sum(axis=-2, keepdims=True)
    own = 1 / squared
    apart = (1 - own / own.sum(axis=-2, keepdims=True)) ** 2 / (exact.n - 1)
    spread = apart.sum(axis=-2) / (k * k - 1)
    normal = ndtri(points(k, draws, seed=1))
    ahead = 1 / np.sqrt(squared)
    normal = normal - ahead * (ahead * normal).sum(axis=-2, keepdims=True) / own.sum(axis=-2, keepdims=True)
    direction = normal / np.sqrt((normal**2).sum(axis=-2, keepdims=True) * own)
    return Omnibus(
        means=plain.mean,
        weights=1 / total,
        shares=shares,
        shift=shift,
        direction=direction,
        within=(shares * variance).sum(axis=-2),
        sampled=gammaincinv(half, points(1, draws, seed=3)[0]) / half,
        df=1 / (3 * spread),
        factor=(k - 1) * (1 + 2 * (k - 2) * spread),
        chances=chances,
    )
