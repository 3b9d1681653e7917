"""Inference from noisy rank sums: the common-language effect for two groups, a p-value for several groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from dfprivacy.inference.counts import project_counts
from dfprivacy.inference.draws import DRAWS, noise, points, quantile
from dfprivacy.inference.engine import Alternative, Inference
from dfprivacy.inference.planning import TABLES
from dfprivacy.laws import NoiseLaw
from dfprivacy_inference.statistics import taper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from dfprivacy_inference.statistics import Spread

    Array = NDArray[np.float64]

__all__ = [
    "COMPLETE",
    "ENOUGH",
    "SHARE",
    "SIZES",
    "SLACK",
    "TIES",
    "Effect",
    "SeveralGroups",
    "Shapes",
    "TwoGroups",
    "largest_rank_sum_pvalue",
    "shrunk_shares",
]

Shapes = Literal["any", "similar"]

ENOUGH = 100.0
"""From this number of rows times epsilon on the sizes and ties are measured as well."""
SIZES, COMPLETE, TIES = 0.2, 0.1, 0.1
"""Parts of the sensitivity for the size of the first group, the number of rows in both, and ties."""
SLACK = 2.5
"""How many scales of their noise the sizes of several groups are moved towards the wider law."""

_SPREAD_SLACK = 1.0  # the same for ties, and for the variance of censored times
_TIES_MIN = 0.02
_MOSTLY_EQUAL = 0.5
_FEW_VALUES = 5.0  # values that are not the usual one, in the smaller group
_FEW_DRAWS = 256
_MIN_ROWS = 2.0  # rows of a group that is divided by
_CLEAR_SDS = 3.0  # standard deviations of its noise that a size should be


@dataclass(frozen=True)
class Effect(Inference):
    """Inference about the effect A = P(X > Y) + P(X = Y)/2, with a sampling variance that depends on A.

    Attributes
    ----------
    variance : ndarray
        Of the estimate where the effect is 1/2.
    each : ndarray
        Rows of a group, on average, less 1.
    shapes : {"any", "similar"}
        ``"any"``: elsewhere the variance is in proportion to the largest of all pairs of laws, A(1 - A).
        ``"similar"``: to that of two exponential laws (Newcombe's method 5).
    """

    each: Array
    shapes: Shapes

    def cdf(self, x: ArrayLike) -> Array:
        """Return the confidence distribution function at x; at 1/2 it is the p-value of the one-sided rank test.

        An estimate with noise beyond 1 keeps the variance of the point as far on this side of 1, so that it rises.
        """
        x = np.asarray(x, dtype=np.float64)[..., None]
        at = np.clip(x, np.minimum(-self.theta, 0.5), np.maximum(2 - self.theta, 0.5)).clip(0, 1)
        se = np.sqrt(self.variance * self._relative_variance(at) / self._relative_variance(np.array(0.5)))
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(se > 0, (x - self.theta) / se, np.where(x >= self.theta, np.inf, -np.inf))
        return np.asarray((ndtr(z) * self.weights).sum(axis=-1))

    def interval(self, confidence: float = 0.95, alternative: Alternative = "two-sided") -> tuple[Array, Array]:
        """Return the confidence interval of the effect, which holds the values that the test does not reject."""
        low, high = np.clip(super().interval(confidence, alternative), 0.0, 1.0)
        return low, high

    def _relative_variance(self, a: Array) -> Array:
        if self.shapes == "any":
            return a * (1 - a)
        return a * (1 - a) * (1 + self.each[..., None] * ((1 - a) / (2 - a) + a / (1 + a)))


@dataclass(frozen=True)
class TwoGroups:
    """Noisy rank sum D of the first of two groups, with noisy group sizes and amount of ties.

    Attributes
    ----------
    values : ndarray of shape (..., 4)
        With private groups H(M) D, the first size, and both together; with public ones D and the rows with a value
        of each; where the number of rows is private D/n, and both sizes. The last is the spread of the scores.
    scales : sequence of four float
        Of the Laplace noise in them.
    n : int or None
        Number of rows, None where it is private.
    rows : tuple of two int, or None
        Rows of each group, where they are public.
    sized, complete : bool
        Whether there are the sizes of private groups, and the rows of both that have a value.
    spread : {"ties", "variance"} or None
        What the last number is, if it is there.
    """

    values: Array
    scales: Sequence[float]
    n: int | None
    rows: tuple[int, int] | None = None
    sized: bool = False
    complete: bool = False
    spread: Spread | None = None

    @property
    def laws(self) -> list[NoiseLaw]:
        """Distribution of the noise in each measured number; a number that was not measured has no noise."""
        told = (True, self.sized or self.complete, self.complete, self.spread is not None)
        if self.n is None:
            told = (True, True, True, self.spread is not None)
        return [NoiseLaw(float(scale) * on) for scale, on in zip(self.scales, told, strict=True)]

    @property
    def released(self) -> dict[str, Any]:
        """Fields of the result from which this measurement can be restored."""
        return {**vars(self), "values": tuple(map(float, self.values))}

    @property
    def lacks_sizes(self) -> bool:
        """Whether the sizes of the groups are neither public nor measured."""
        return self.n is not None and self.rows is None and not self.sized

    def multiplier(self, first: Array, second: Array) -> Array:
        """Return the factor by which the rank sum D was multiplied before the noise, given the group sizes."""
        if self.n is None:
            return 1 / (first + second)
        if self.rows is not None:
            return np.ones_like(first)
        most = np.clip(np.maximum(first, self.n - first), (self.n + 1) // 2, self.n - 1)
        return taper(self.n, most, SIZES * self.sized)

    def _sizes(self, one: Array, two: Array) -> tuple[Array, Array]:
        """Return the group sizes from the noisy numbers; groups whose sizes were not measured get equal sizes."""
        if self.n is None:
            return np.maximum(one, _MIN_ROWS), np.maximum(two, _MIN_ROWS)
        if self.rows is not None:
            counted = (one, two) if self.complete else (np.full_like(one, each) for each in self.rows)
            first, second = (
                np.clip(each, min(_MIN_ROWS, most), most) for each, most in zip(counted, self.rows, strict=True)
            )
            return first, second
        both = np.clip(two, 2 * _MIN_ROWS, self.n) if self.complete else np.full_like(one, self.n)
        first = np.clip(one, _MIN_ROWS, both - _MIN_ROWS) if self.sized else np.full_like(one, (self.n + 1) // 2)
        return first, both - first

    def _variance(self, first: Array, second: Array) -> Array:
        """Return the variance of D under the null hypothesis, or an upper bound if ties were not measured."""
        both = first + second
        most = first * second * (both + 1) / 12
        if self.spread is None:
            return most
        left = self.values[..., 3, None] + _SPREAD_SLACK * self.scales[3]
        if self.n is None:
            return np.clip(left * both**2, 1e-12, most)
        left = left * self.n * (self.n**2 - 1) / 12
        if self.spread == "ties":
            return np.clip(left * first * second / (both * (both - 1)), _TIES_MIN * most, most)
        return np.clip(left, _SPREAD_SLACK * self.scales[3], most)

    def effect(self, shapes: Shapes = "similar", draws: int = DRAWS) -> Effect:
        """Infer the effect A = P(X > Y) + P(X = Y)/2; groups whose sizes were not measured get equal sizes.

        Parameters
        ----------
        shapes : {"any", "similar"}
            What the laws of the groups are taken to be.
        draws : int
            How many draws of the noise.

        Returns
        -------
        Effect
            The p-value at 1/2 has the normal law of D, with a variance no lower than it is on average over draws.
        """
        drawn, weights = noise(self.laws[:3], points(3, draws))
        drawn = drawn.reshape(3, *[1] * (self.values.ndim - 1), draws)
        statistic, one, two = np.moveaxis(self.values[..., :3], -1, 0)[..., None] - drawn
        first, second = self._sizes(one, two)
        factor = self.multiplier(first, second)
        unit = factor * first * second
        if shapes == "similar":
            variance = factor**2 * self._variance(first, second)
        else:  # Birnbaum and Klose; without sizes H(M)² n₁² n₂²/(4 min(n₁, n₂)) is n/8 at most, for H(M) M is 1
            least = np.minimum(first, second)
            variance = 2 * factor**2 * self._variance(first, second) if self.lacks_sizes else unit**2 / (4 * least)
        variance = np.maximum(variance, (weights * variance).sum(axis=-1, keepdims=True))
        sizes = self.sizes
        return Effect(
            estimate=0.5 + self.values[..., 0] / (self.multiplier(*sizes) * sizes[0] * sizes[1]),
            theta=0.5 + statistic / unit,
            variance=variance / unit**2,
            df=np.array(np.inf),
            weights=weights,
            each=(sizes[0] + sizes[1]) / 2 - 1,
            shapes=shapes,
        )

    @property
    def sizes(self) -> tuple[Array, Array]:
        """Number of rows with a value in each group, public or noisy."""
        return self._sizes(self.values[..., 1], self.values[..., 2])

    @property
    def rank_sum(self) -> Array:
        """Noisy rank sum D of the first group."""
        return np.asarray(self.values[..., 0] / self.multiplier(*self.sizes))

    @property
    def has_uncertain_sizes(self) -> bool:
        """Whether a noisy group size is not clearly above its noise."""
        least = _CLEAR_SDS * self.laws[1].standard_deviation
        return self.rows is None and not self.lacks_sizes and bool(np.min(self.sizes) < least)

    @property
    def missing(self) -> tuple[float, float] | None:
        """Noisy number of rows without a value, and its standard error; None if it was not measured."""
        if self.n is None or not self.complete:
            return None
        counted = slice(1, 3) if self.rows is not None else slice(2, 3)
        laws = self.laws[counted]
        error = sum(law.variance for law in laws) ** 0.5
        return float(self.n - self.values[counted].sum()), error

    @property
    def has_mostly_ties(self) -> NDArray[np.bool_]:
        """Whether nearly all values are equal, with few different values in the smaller group.

        The noisy share τ that ties leave of the variance is about three times that of values that are not the usual
        one, if that is small. The normal law may be too light in its tails then.
        """
        tau, smaller = self.values[..., 3], np.minimum(*self.sizes)
        few = (tau < _MOSTLY_EQUAL) & (smaller * tau < 3 * _FEW_VALUES) & (self.spread == "ties")
        sd = self.multiplier(*self.sizes) * np.sqrt(
            self._variance(*(each[..., None] for each in self.sizes))[..., 0]
        )
        return np.asarray(few & (self.scales[0] < sd))

    def power(self, rows: int, effect: float, alpha: float, alternative: Alternative) -> float:
        """Return the power of the test to detect an effect, for values without ties and censoring.

        Parameters
        ----------
        rows : int
            Number of rows, where it is private; private groups are alike in size.
        effect : float
            The truth.
        alpha, alternative
            The level, and its side.

        Returns
        -------
        float
            The power.
        """
        n = rows if self.n is None else self.n
        first, second = (np.full(TABLES, float(each)) for each in self.rows or (n // 2, n - n // 2))
        u, variance = points(5, TABLES, seed=1), first * second * (n + 1) / 12
        rank_sum = (effect - 0.5) * first * second + np.sqrt(variance) * ndtri(u[0])
        spread = np.ones(TABLES)
        if self.spread == "variance":
            spread = variance / (n**2 if self.n is None else n * (n**2 - 1) / 12)
        third = second if self.n is None or self.rows is not None else first + second
        exact = np.stack([self.multiplier(first, second) * rank_sum, first, third, spread], axis=-1)
        added = [quantile(law, at) for law, at in zip(self.laws, u[1:], strict=True)]
        released = replace(self, values=exact + np.transpose(added))
        return float((released.effect(draws=_FEW_DRAWS).pvalue(0.5, alternative) <= alpha).mean())


SHARE = 0.1
"""Share of the sensitivity of T that the sizes add, and that the ties add."""

_DRAWS_OF_T = 20_000
_FEW_DRAWS_OF_T = 2000
_SHARE_MIN = 1e-6
_MIN_TOTAL_ROWS = 4.0


def _draw_null_rank_sums(shares: Array, count: int) -> Array:
    """Draw standardized rank sums under the null: normal with covariance diag(p) - pp', p the group shares."""
    e = np.random.default_rng(9).normal(size=(count, len(shares))) * np.sqrt(shares)  # always the same ones
    return np.asarray(e - shares * e.sum(axis=1, keepdims=True))


def largest_rank_sum_pvalue(
    t: ArrayLike, scale: float, n: float, shares: Array, tau: float, draws: int = _DRAWS_OF_T
) -> Array:
    """Return the p-value of the noisy rank sum T, under a null distribution that includes the noise.

    Parameters
    ----------
    t : array_like
        Noisy T.
    scale : float
        Scale of its Laplace noise.
    n : float
        Number of rows.
    shares : ndarray of shape (k,)
        The part of each group.
    tau : float
        What ties leave of the variance.
    draws : int
        How many of T.

    Returns
    -------
    ndarray
        The mean, over draws of T, of the probability that the noise makes up for the rest.
    """
    alone = np.abs(_draw_null_rank_sums(shares, draws)).sum(axis=1) / 2 * np.sqrt(n**2 * (n + 1) * tau / 12)
    apart = np.asarray(t, dtype=np.float64)[..., None] - alone
    tail = np.exp(-np.abs(apart) / max(scale, 1e-300)) / 2
    return np.asarray(np.where(apart > 0, tail, 1 - tail).mean(axis=-1))


@dataclass(frozen=True)
class SeveralGroups:
    """Noisy rank sum T, the largest of all unions of groups, with noisy group sizes and amount of ties.

    Attributes
    ----------
    values, scales : tuple of float
        T, or T/n where the number of rows is private, the rows of each group with a value, and τ; and the scales of
        the noise in them.
    n : int or None
        Number of rows, None where it is private.
    rows : tuple of int, or None
        Rows of each group, where they are public.
    sized, ties : bool
        Whether there are the rows of each group, and τ.
    """

    values: Sequence[float]
    scales: Sequence[float]
    n: int | None
    rows: Sequence[int] | None
    sized: bool
    ties: bool

    @property
    def counts(self) -> Array | None:
        """Noisy number of rows with a value in each group; None if it was not measured."""
        return np.array(self.values[1:-1]) if self.sized else None

    def _null_parameters(self) -> tuple[float, Array, float]:
        """Return upper limits of the number of complete rows and of the tie factor τ, and the group shares."""
        k = len(self.values) - 2
        known = np.full(k, (self.n or 0) / k) if self.rows is None else np.array(self.rows, dtype=np.float64)
        of_all, shares, counts = float(self.n or 0), known / max(known.sum(), 1), self.counts
        if counts is not None:
            scale = self.scales[1]
            most = float(counts.sum() + SLACK * scale * np.sqrt(2 * k))
            of_all = max(most if self.n is None else min(most, self.n), _MIN_TOTAL_ROWS)
            counts = counts if self.rows is None else np.clip(counts, 0, known)
            shares = shrunk_shares(counts, max(float(counts.sum()), 1.0), scale)
        return of_all, shares, self._upper_tie_factor(of_all, SLACK)

    def _upper_tie_factor(self, rows: float, scales: float) -> float:
        """Return an upper limit of the tie factor τ: the noisy factor plus a multiple of its noise."""
        tau = self.values[-1] + scales * self.scales[-1] if self.ties else 1.0
        part = 1.0 if self.n is None else (self.n**3 - self.n) / (rows**3 - rows)
        return float(np.clip(tau * part, _TIES_MIN, 1.0))

    @property
    def kruskal_h(self) -> float | None:
        r"""Kruskal's H of two groups, :math:`12 T^2 \sum 1/n_j / (N (N + 1) τ)`, corrected for the noise in T².

        None for more groups, as T does not determine the rank sums, and where sizes were not measured.
        """
        counts = self.counts if self.rows is None or self.counts is not None else np.array(self.rows)
        if counts is None or len(counts) != 2:  # noqa: PLR2004
            return None
        sizes = np.maximum(counts if self.rows is None else np.clip(counts, 0, self.rows), 1.0)
        n = float(sizes.sum())
        t, scale = (each[0] * (n if self.n is None else 1.0) for each in (self.values, self.scales))
        square = max(t * abs(t) - 2 * scale**2, 0.0)
        return float(12 * square * (1 / sizes).sum() / (n * (n + 1) * self._upper_tie_factor(max(n, 2.0), 0.0)))

    def pvalue(self) -> float:
        """Return the p-value of T under the null hypothesis that all groups have the same distribution."""
        law = self._null_parameters()
        unit = law[0] if self.n is None else 1.0
        return float(largest_rank_sum_pvalue(self.values[0] * unit, self.scales[0] * unit, *law))

    @property
    def largest_rank_sum(self) -> float:
        """Noisy rank sum T, the largest of all unions of groups."""
        return self.values[0] * (self._null_parameters()[0] if self.n is None else 1.0)

    def power(self, rows: int, effect: float, alpha: float, _: object) -> float:
        """Return the power to detect that one group tends to have larger values than all others.

        Parameters
        ----------
        rows : int
            Number of rows, where it is private.
        effect : float
            P(X > Y) of the first group over all others.
        alpha : float
            The level.

        Returns
        -------
        float
            The power.
        """
        n, k = float(rows if self.n is None else self.n), len(self.values) - 2
        shares = np.full(k, 1 / k) if self.rows is None else np.array(self.rows) / n
        scale = self.scales[0] * (n if self.n is None else 1.0)
        apart = np.where(np.arange(k) == 0, 1.0, -shares / (1 - shares[0]))  # of the D_j, if D_1 has the mean 1
        sums = _draw_null_rank_sums(shares, 2 * TABLES)[TABLES:] * np.sqrt(n**2 * (n + 1) / 12)
        t = np.abs(sums + apart * (effect - 0.5) * n**2 * shares[0] * (1 - shares[0])).sum(axis=1) / 2
        t = t + quantile(NoiseLaw(scale), points(1, TABLES)[0])
        return float((largest_rank_sum_pvalue(t, scale, n, shares, 1.0, _FEW_DRAWS_OF_T) <= alpha).mean())


def shrunk_shares(sizes: Array, n: float, scale: float) -> Array:
    """Return the groups' shares of the rows from noisy sizes, shrunk towards equal shares within the noise.

    Parameters
    ----------
    sizes : ndarray of shape (k,)
        Noisy sizes.
    n : float
        Their sum.
    scale : float
        Scale of the noise in each.

    Returns
    -------
    ndarray of shape (k,)
        Above 0, of sum 1.
    """
    apart = sizes - n / len(sizes)
    moved = n / len(sizes) + np.sign(apart) * np.maximum(np.abs(apart) - SLACK * scale, 0)
    shares = np.maximum(project_counts(moved, n) / n, _SHARE_MIN)
    return np.asarray(shares / shares.sum())
