"""A noisy T = ½ Σ |D_j| of several groups: a p-value, by simulation of its law without noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy.inference.draws import points, quantile
from dfprivacy.inference.planning import TABLES
from dfprivacy.laws import NoiseLaw
from dfprivacy_inference.two_groups import SLACK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["SHARE", "SeveralGroups", "pvalue_of_t", "shares_towards_equal"]

SHARE = 0.1
"""What the sizes, and what the ties, add to the sensitivity, as a part of that of T."""

_DRAWS = 20_000
_FEW_DRAWS = 2000
_SHARE_MIN = 1e-6
_TIES_MIN = 0.02
_FEWEST = 4.0


def _rank_sums(shares: Array, count: int) -> Array:
    """Draw D of groups alike in units of the root of n²(n + 1)τ/12: normal, of covariance diag(p) - pp'."""
    e = _normal(count, len(shares)) * np.sqrt(shares)
    return np.asarray(e - shares * e.sum(axis=1, keepdims=True))


@lru_cache(maxsize=8)
def _normal(count: int, k: int) -> Array:
    """Draw normal variables, always the same ones."""
    return np.random.default_rng(9).normal(size=(count, k))


def pvalue_of_t(t: ArrayLike, scale: float, n: float, shares: Array, tau: float, draws: int = _DRAWS) -> Array:
    """Probability of T and its noise together at least as large.

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
    alone = np.abs(_rank_sums(shares, draws)).sum(axis=1) / 2 * np.sqrt(n**2 * (n + 1) * tau / 12)
    apart = np.asarray(t, dtype=np.float64)[..., None] - alone
    tail = np.exp(-np.abs(apart) / max(scale, 1e-300)) / 2
    return np.asarray(np.where(apart > 0, tail, 1 - tail).mean(axis=-1))


@dataclass(frozen=True)
class SeveralGroups:
    """A noisy T, and what else was released.

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
        """Noisy rows of each group with a value; None if they were not measured."""
        return np.array(self.values[1:-1]) if self.sized else None

    def _law(self) -> tuple[float, Array, float]:
        """Return the number of rows with a value, shares of the groups and τ, as far as noise makes likely."""
        k = len(self.values) - 2
        known = np.full(k, (self.n or 0) / k) if self.rows is None else np.array(self.rows, dtype=np.float64)
        of_all, shares, counts = float(self.n or 0), known / max(known.sum(), 1), self.counts
        if counts is not None:
            scale = self.scales[1]
            most = float(counts.sum() + SLACK * scale * np.sqrt(2 * k))
            of_all = max(most if self.n is None else min(most, self.n), _FEWEST)
            counts = counts if self.rows is None else np.clip(counts, 0, known)
            shares = shares_towards_equal(counts, max(float(counts.sum()), 1.0), scale)
        return of_all, shares, self._ties_among(of_all, SLACK)

    def _ties_among(self, rows: float, scales: float) -> float:
        """Return τ of the rows with a value, some scales of its noise larger; measured is that of all n rows."""
        tau = self.values[-1] + scales * self.scales[-1] if self.ties else 1.0
        part = 1.0 if self.n is None else (self.n**3 - self.n) / (rows**3 - rows)
        return float(np.clip(tau * part, _TIES_MIN, 1.0))

    @property
    def kruskal_h(self) -> float | None:
        r"""Kruskal's H of two groups, :math:`12 T^2 \sum 1/n_j / (N (N + 1) τ)`, what noise adds to T² taken away.

        None for more groups, where T does not tell the single rank sums, and where sizes were not measured.
        """
        counts = self.counts if self.rows is None or self.counts is not None else np.array(self.rows)
        if counts is None or len(counts) != 2:  # noqa: PLR2004
            return None
        sizes = np.maximum(counts if self.rows is None else np.clip(counts, 0, self.rows), 1.0)
        n = float(sizes.sum())
        t, scale = (each[0] * (n if self.n is None else 1.0) for each in (self.values, self.scales))
        square = max(t * abs(t) - 2 * scale**2, 0.0)
        return float(12 * square * (1 / sizes).sum() / (n * (n + 1) * self._ties_among(max(n, 2.0), 0.0)))

    def pvalue(self) -> float:
        """Return the probability of a T at least as large, if all groups follow one law."""
        law = self._law()
        unit = law[0] if self.n is None else 1.0
        return float(pvalue_of_t(self.values[0] * unit, self.scales[0] * unit, *law))

    @property
    def largest_rank_sum(self) -> float:
        """T with noise."""
        return self.values[0] * (self._law()[0] if self.n is None else 1.0)

    def power(self, rows: int, effect: float, alpha: float, _: object) -> float:
        """Return how often an effect is found that one group has over all others, of groups alike in size.

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
        sums = _rank_sums(shares, 2 * TABLES)[TABLES:] * np.sqrt(n**2 * (n + 1) / 12)
        t = np.abs(sums + apart * (effect - 0.5) * n**2 * shares[0] * (1 - shares[0])).sum(axis=1) / 2
        t = t + quantile(NoiseLaw(scale), points(1, TABLES)[0])
        return float((pvalue_of_t(t, scale, n, shares, 1.0, _FEW_DRAWS) <= alpha).mean())


def shares_towards_equal(sizes: Array, n: float, scale: float) -> Array:
    """Move noisy sizes towards each other, as far as their noise makes likely, and give the shares.

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
    falling = -np.sort(-moved)  # the nearest sizes that are not negative
    thetas = (np.cumsum(falling) - n) / np.arange(1, len(moved) + 1)
    theta = thetas[np.flatnonzero(falling > thetas)[-1]]
    shares = np.maximum(np.maximum(moved - theta, 0.0) / n, _SHARE_MIN)
    return np.asarray(shares / shares.sum())
