"""What follows from a noisy T = ½ Σ |D_j| of several groups: a p-value, by simulation of its law without noise."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy_inference.two_groups import SLACK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["SHARE", "draws", "draws_of_sums", "known_sizes", "kruskal_h", "pvalue_of_t", "shares_towards_equal"]

SHARE = 0.1
"""What the sizes, and what the ties, add to the sensitivity, as a part of that of T."""

_DRAWS = 20_000
_SHARE_MIN = 1e-6
_TIES_MIN = 0.02


def draws(shares: Array, count: int = _DRAWS) -> Array:
    """Draw T under the null hypothesis, in units of the root of n²(n + 1)τ/12.

    Parameters
    ----------
    shares : ndarray of shape (k,)
        The part of each group.
    count : int
        How many; always the same ones.

    Returns
    -------
    ndarray
        Draws of ½ Σ |D_j|, D normal with covariance diag(p) - pp'.
    """
    return np.asarray(np.abs(draws_of_sums(shares, count)).sum(axis=1) / 2)


def draws_of_sums(shares: Array, count: int = _DRAWS) -> Array:
    """Draw the D_j that these are of.

    Parameters
    ----------
    shares, count
        As for `draws`.

    Returns
    -------
    ndarray of shape (count, k)
        Draws.
    """
    e = _normal(count, len(shares)) * np.sqrt(shares)
    return np.asarray(e - shares * e.sum(axis=1, keepdims=True))


@lru_cache(maxsize=8)
def _normal(count: int, k: int) -> Array:
    """Draw normal variables, always the same ones."""
    return np.random.default_rng(9).normal(size=(count, k))


def pvalue_of_t(t: float, scale: float, n: float, shares: Array, tau: float) -> float:
    """Probability of T and its noise together at least as large.

    Parameters
    ----------
    t : float
        The noisy T.
    scale : float
        Scale of its Laplace noise.
    n : float
        Number of rows.
    shares : ndarray of shape (k,)
        The part of each group.
    tau : float
        What ties leave of the variance.

    Returns
    -------
    float
        The mean, over draws of T, of the probability that the noise makes up for the rest.
    """
    apart = t - draws(shares) * np.sqrt(n**2 * (n + 1) * tau / 12)
    if not scale:
        return float((1 + (apart <= 0).sum()) / (1 + len(apart)))
    tail = np.exp(-np.abs(apart) / scale) / 2
    return float(np.where(apart > 0, tail, 1 - tail).mean())


def kruskal_h(t: float, scale: float, sizes: Array, tau: float) -> float | None:
    r"""Estimate Kruskal's H of two groups from T, with its noise removed.

    Parameters
    ----------
    t : float
        The noisy T.
    scale : float
        Scale of its Laplace noise.
    sizes : ndarray of shape (k,)
        Rows of each group.
    tau : float
        What ties leave of the variance.

    Returns
    -------
    float or None
        :math:`12 \sum D_j^2/n_j / (N (N + 1) τ)`, where :math:`T = |D_1| = |D_2|`; the variance of its noise is
        taken from the square. None for more groups, where T does not tell the single D_j.
    """
    if len(sizes) != 2:  # noqa: PLR2004
        return None
    n, square = sizes.sum(), max(t * abs(t) - 2 * scale**2, 0.0)
    return float(12 * square * (1 / sizes).sum() / (n * (n + 1) * tau))


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


def known_sizes(
    values: Sequence[float],
    scales: Sequence[float],
    k: int,
    n: int | None,
    rows: tuple[int, ...] | None,
    *,
    sizes: bool,
    ties: bool,
) -> tuple[float, Array, float, Array, float]:
    """Estimate what the law of T follows from: the number of rows, shares of the groups, and τ.

    Parameters
    ----------
    values, scales : sequence of float
        The coordinates of a `GroupRankSums`, and the scales of their noise.
    k : int
        Number of groups.
    n : int or None
        Number of rows, where it is public.
    rows : tuple of int or None
        Rows of each group, where they are public.
    sizes, ties : bool
        Whether the sizes, and whether τ, are told.

    Returns
    -------
    tuple
        Rows with a value, shares and their τ for the p-value; estimates of the sizes and of τ.
    """
    known = np.full(k, (n or 0) / k) if rows is None else np.array(rows, dtype=np.float64)
    if not sizes:
        of_all, counts, shares = float(n or 0), known, known / known.sum()
    else:
        counts, scale = np.array(values[1 : k + 1]), float(scales[1])
        of_all = float(counts.sum() + SLACK * scale * np.sqrt(2 * k))
        of_all = max(of_all if n is None else min(of_all, n), 4.0)
        counts = counts if rows is None else np.clip(counts, 0, rows)
        shares = shares_towards_equal(counts, max(float(counts.sum()), 1.0), scale)

    def among(tau: float, some: float) -> float:  # what is measured is the scores' part of those of all n rows
        part = 1.0 if n is None else (n**3 - n) / (some**3 - some)
        return float(np.clip(tau * part, _TIES_MIN, 1.0))

    tau, slack = (values[-1], SLACK * scales[-1]) if ties else (1.0, 0.0)
    floored = np.maximum(counts, 1.0)
    return of_all, shares, among(tau + slack, of_all), floored, among(tau, max(float(floored.sum()), 2.0))
