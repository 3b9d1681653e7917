"""A tree of noisy counts: the least-squares counts, those that are not negative, and quantiles from either."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy_eda.simplex import project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Numbers = NDArray[np.float64]

__all__ = ["Tree", "least_squares", "quantiles"]


def least_squares(
    counts: Sequence[NDArray[np.float64]], variances: Sequence[float]
) -> tuple[NDArray[np.float64], tuple[float | Numbers, ...]]:
    """Make noisy counts of a tree consistent, in least squares.

    Parameters
    ----------
    counts : sequence of ndarray
        The noisy counts of each level, the root first and the leaves last. Each level has a whole multiple of the
        nodes of the one above. Families whose counts nobody knows have nan.
    variances : sequence of float
        Variance of the noise in a count of each level; 0 for what is known.

    Returns
    -------
    leaves : ndarray
        The counts of the leaves; those of all other nodes are their sums. Of a node whose children are not known,
        each of them has the same part.
    spreads : tuple of float or ndarray
        Variance of a node's estimate from itself and what is below it, at each level: of all nodes alike, or of
        each; infinite where nothing is known.

    Notes
    -----
    With y a node's count, v its variance and z, s the same of its b children: from below, the estimate is the mean
    of y and the sum of z, weighted by 1/v and 1/(b s); from above, what a family and its parent differ by is shared
    among the children [1]_.

    References
    ----------
    .. [1] Hay, Rastogi, Miklau and Suciu (2010). Boosting the accuracy of differentially private histograms through
       consistency. VLDB.
    """
    every, sizes = np.concatenate(counts), tuple(map(len, counts))
    hidden = np.isnan(every)
    every[hidden] = 0
    weights, parts, spreads = _solver(sizes, tuple(variances), hidden.tobytes())
    *above_leaves, leaves = np.split(every, np.cumsum(sizes)[:-1])
    below = [leaves]
    for y, weight in zip(reversed(above_leaves), weights, strict=True):
        below.append(weight * y + (1 - weight) * below[-1].reshape(len(y), -1).sum(axis=1))
    above = below.pop()
    for z, part in zip(reversed(below), parts, strict=True):
        families = z.reshape(len(above), -1)
        above = (families + (above - families.sum(axis=1))[:, None] * part).ravel()
    return above, spreads


@lru_cache(maxsize=128)  # the groups of a call know the same nodes, more often than not
def _solver(
    sizes: tuple[int, ...], variances: tuple[float, ...], hidden: bytes
) -> tuple[list[Numbers], list[Numbers], tuple[float | Numbers, ...]]:
    """Give the weights of nodes' own counts, from below, their parts of what is left, from above, and spreads."""
    unknown = np.split(np.frombuffer(hidden, dtype=np.bool_), np.cumsum(sizes)[:-1])
    spreads, weights = [np.where(unknown[-1], np.inf, variances[-1])], []
    for none, v in zip(reversed(unknown[:-1]), reversed(variances[:-1]), strict=True):
        ahead = spreads[0].reshape(len(none), -1).sum(axis=1)
        known = np.isfinite(ahead)
        weights.append(np.divide(ahead, ahead + v, where=known & (v > 0), out=np.ones_like(ahead)))
        spreads.insert(0, np.where(none, np.inf, weights[-1] * v))
    parts = [_parts(each.reshape(len(above), -1))[0] for above, each in itertools.pairwise(spreads)]
    return weights, parts, tuple(float(each[0]) if (each == each[0]).all() else each for each in spreads)


def _parts(variances: Numbers) -> tuple[Numbers, Numbers]:
    """Give the parts by which children share what is left of their parent, and the sum of their variances.

    Where nothing is known of them, or all is, they share alike.
    """
    total = variances.sum(axis=1)
    uneven = (total > 0) & np.isfinite(total)
    each = np.where(uneven[:, None], variances, 1.0)
    return each / each.sum(axis=1, keepdims=True), np.where(uneven, total, 0.0)


def quantiles(leaves: NDArray[np.float64], edges: NDArray[np.float64], q: ArrayLike) -> NDArray[np.float64]:
    """Quantiles of a histogram, linear within its intervals.

    Parameters
    ----------
    leaves : ndarray of shape (N,)
        Counts, not negative.
    edges : ndarray of shape (N + 1,)
        Edges of the intervals.
    q : array_like
        Shares between 0 and 1.

    Returns
    -------
    ndarray
        The middle of all where there are no counts.

    Examples
    --------
    >>> quantiles(np.array([2.0, 5, 0, 3]), np.arange(5.0), [0.1, 0.25, 0.5, 0.75, 0.9]).round(3).tolist()
    [0.5, 1.1, 1.6, 3.167, 3.667]
    """
    q = np.asarray(q, dtype=np.float64)
    reached = np.cumsum(leaves)
    if not reached[-1] > 0:
        return np.full(q.shape, (edges[0] + edges[-1]) / 2)
    target = np.clip(q * reached[-1], np.nextafter(0, 1), reached[-1])
    leaf = np.minimum(np.searchsorted(reached, target, side="left"), len(leaves) - 1)
    share = (target - (reached[leaf] - leaves[leaf])) / leaves[leaf]
    values: NDArray[np.float64] = edges[leaf] + np.clip(share, 0, 1) * (edges[leaf + 1] - edges[leaf])
    return values


@lru_cache(maxsize=128)
def _prefixes(sizes: tuple[int, ...], written: tuple[bytes, ...]) -> NDArray[np.float64]:
    """Compute the variance of the count below each edge.

    A prefix is some whole children of a node, whose variances add up to C, and a part A of the next one, whose
    variance is s. Given the node's count, with S the variances of all its children, it varies by
    C + A² s - (C + A s)²/S, and takes the part (C + A s)/S of the node's own.
    """
    spreads = [np.broadcast_to(np.frombuffer(each), size) for each, size in zip(written, sizes, strict=True)]
    at = np.arange(sizes[-1] + 1)
    part, variance = np.zeros(len(at)), np.zeros(len(at))
    known = np.zeros(len(at), dtype=np.bool_)
    known[[0, -1]] = True
    for (fewer, more), spread in zip(itertools.pairwise(sizes[::-1]), spreads[:0:-1], strict=True):
        b = fewer // more
        parts, total = _parts(spread.reshape(more, b))
        ends = np.zeros((more + 1, b + 1))  # C/S, and one family more for the last edge, which is in none
        np.cumsum(parts, axis=1, out=ends[:-1, 1:])
        at, j = np.divmod(at, b)
        before, own = ends[at, j], ends[at, j + 1] - ends[at, j]
        variance += np.append(total, 0.0)[at] * (before + part**2 * own - (before + part * own) ** 2)
        part = before + part * own
        edges = known[:: sizes[-1] // fewer]
        edges[1:] |= np.isfinite(spread)
        edges[:-1] |= np.isfinite(spread)
    share = at + part  # all rows, or a part of them
    variances = np.where(known, np.maximum(variance, 0.0) + share**2 * spreads[0], np.inf)
    variances.setflags(write=False)
    return variances


@dataclass(frozen=True)
class Tree:
    """Noisy counts of the intervals between edges, made consistent.

    Attributes
    ----------
    edges : ndarray of shape (N + 1,)
        Edges of the intervals.
    sizes : tuple of int
        Nodes of each level, the root's 1 first and the leaves' N last.
    leaves : ndarray of shape (N,)
        The least-squares counts: unbiased, and negative at times.
    spreads : tuple of float or ndarray
        Variances of `least_squares`, of a level or of each of its nodes.
    whole : bool
        Whether each interval stands for one value, its middle.
    ends : tuple of two float, optional
        The lowest and highest value, if the first interval and the last are for these two alone.
    """

    edges: NDArray[np.float64]
    sizes: tuple[int, ...]
    leaves: NDArray[np.float64]
    spreads: tuple[float | Numbers, ...]
    whole: bool = False
    ends: tuple[float, float] | None = None

    @property
    def total(self) -> float:
        """Number of rows, as the root has it."""
        return float(self.leaves.sum())

    @cached_property
    def counts(self) -> NDArray[np.float64]:
        """Counts that are not negative, of the same total: projected family by family, from the root down."""
        above: NDArray[np.float64] = np.maximum(self.leaves.sum(keepdims=True), 0.0)
        for size in self.sizes[1:]:
            above = project(self.leaves.reshape(size, -1).sum(axis=1).reshape(len(above), -1), above).ravel()
        return above

    @cached_property
    def prefix_variances(self) -> NDArray[np.float64]:
        """Variance of the least-squares count below each edge, shape (N + 1,); infinite where it is not known."""
        return _prefixes(self.sizes, tuple(np.asarray(each, dtype=np.float64).tobytes() for each in self.spreads))

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Whether an edge is one of a node whose count was measured, shape (N + 1,)."""
        return np.isfinite(self.prefix_variances)

    def below(self, x: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Count rows below some values, linear within intervals, and the standard error at the nearest edge."""
        at = np.asarray(x, dtype=np.float64)
        if self.ends is not None:
            at = np.where(at < self.ends[0], self.edges[0], np.where(at > self.ends[1], self.edges[-1], at))
        at = np.clip(at, self.edges[0], self.edges[-1])
        reached = np.concatenate([[0.0], np.cumsum(self.counts)])
        right = np.clip(np.searchsorted(self.edges, at), 1, len(self.edges) - 1)
        near = right - (at - self.edges[right - 1] <= self.edges[right] - at)
        return np.interp(at, self.edges, reached), np.sqrt(self.prefix_variances[near])

    def quantiles(self, q: ArrayLike) -> NDArray[np.float64]:
        """Quantiles of the counts that are not negative."""
        values = quantiles(self.counts, self.edges, q)
        if not self.whole:
            return values if self.ends is None else np.clip(values, *self.ends)
        leaf = np.searchsorted(self.edges, values, side="left") - 1  # quantiles lie above their lower edge
        middles: NDArray[np.float64] = (self.edges[1:] + self.edges[:-1]) / 2
        return middles[np.clip(leaf, 0, len(middles) - 1)]

    def intervals(
        self, q: ArrayLike, z: float, *, population: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Find the ends of an interval for each quantile, from the unbiased counts.

        Parameters
        ----------
        q : array_like of shape (m,)
            Shares between 0 and 1.
        z : float
            Normal quantile of the coverage.
        population : bool
            Cover the quantile of what the rows are a sample of, in place of that of the rows.

        Returns
        -------
        low, high : ndarray of shape (m,)
            Edges that are known: those at which the count below is not clearly above, or below, the share.
        """
        q, edges = np.asarray(q, dtype=np.float64), self.edges[self.known]
        total, reached = max(self.total, 0.0), np.concatenate([[0.0], np.cumsum(self.leaves)])[self.known]
        variance = self.prefix_variances[self.known] + (total * q * (1 - q))[:, None] * population
        reach = z * np.sqrt(variance)
        possible = reached + reach >= (q * total)[:, None]
        surely = reached - reach >= (q * total)[:, None]
        last = len(reached) - 1
        first = np.where(possible.any(axis=1), possible.argmax(axis=1), last)
        final = np.where(surely.all(axis=1), 0, last - (~surely)[:, ::-1].argmax(axis=1))
        inner = (self.edges[1] - self.edges[0]) / 2 if self.whole else 0.0
        return edges[np.maximum(first - 1, 0)] + inner, edges[np.minimum(final + 1, last)] - inner
