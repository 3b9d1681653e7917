"""Trees of noisy counts: their layout over a column, their measurement, and quantiles from them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, features
from dfprivacy.inference.counts import project_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Places = NDArray[np.bool_]
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from dfprivacy.arguments import NanPolicy
    from dfprivacy.release import NoisyValue

__all__ = [
    "AdaptiveReveal",
    "CountTree",
    "Layout",
    "Tree",
    "choose_intervals",
    "choose_layout",
    "least_squares",
    "measure_tree",
    "prefix_error",
    "quantiles",
    "rows_epsilon",
    "rows_for_intervals",
    "tree_error",
]

_LEAVES = 16**3
# Rows times epsilon, up to which 240 leaves, and 1,024, are about as accurate as more, and drawn sooner; measured.
_FEW_ROWS, _MANY_ROWS = 1_500.0, 20_000.0
_ASSUMED_ROWS = 10_000  # rows that a table is taken to have where that is private
# Intervals for each row times epsilon, of which one is chosen: where values are ten times as dense as if they were
# spread over the bounds, one holds 2.5/epsilon rows, and its width is 3 % of the error.
_PER_ROW, _MIN_INTERVALS, _MAX_INTERVALS = 4.0, 256.0, 2.0**20


@dataclass(frozen=True)
class Layout:
    """Layout of a tree of counts: the intervals of a column that the nodes of each level count.

    Attributes
    ----------
    low, step : float
        The lowest edge, and the width of an interval.
    sizes : tuple of int
        Nodes of each level below the root; the last is that of the intervals.
    weights : tuple of int
        The part of the budget that goes to each level.
    whole : bool
        Whether each interval stands for one value.
    ends : tuple of two float, optional
        The lowest and highest value, if the first and the last interval are for these two values alone: they lie
        outside of them.
    """

    low: float
    step: float
    sizes: tuple[int, ...]
    weights: tuple[int, ...]
    whole: bool
    ends: tuple[float, float] | None = None

    @property
    def edges(self) -> NDArray[np.float64]:
        """Edges of the intervals that the leaves of the tree count."""
        edges: NDArray[np.float64] = self.low + self.step * np.arange(self.sizes[-1] + 1, dtype=np.float64)
        return edges

    @property
    def half_open_edges(self) -> NDArray[np.float64]:
        """Edges of half-open intervals that contain all values, so that the last edge is above the upper bound."""
        cuts = self.edges
        if self.ends is not None:
            cuts[1], cuts[-2] = np.nextafter(self.ends[0], np.inf), self.ends[1]
        return cuts

    def features(self, column: Column, *, missing: bool, root: bool) -> features.Bins:
        """Return the features that count the rows in each node of the tree, and the rows without a value."""
        sizes, weights = ((1, *self.sizes), (1, *self.weights)) if root else (self.sizes, self.weights)
        widths = tuple(self.sizes[-1] // size for size in sizes)
        return features.Bins(column, self.half_open_edges, widths=widths, weights=weights, missing=missing)


def choose_layout(column: Column, step: float | None, rows: float) -> Layout:
    """Choose the layout of a tree of counts; more possible values or more rows give more leaves.

    Without a step the first interval and the last are for the bounds themselves: many rows may lie there, and
    values outside do, and a quantile among them is that value and nothing beside it.

    Parameters
    ----------
    column : Column
        A column with bounds.
    step : float or None
        The distance of neighbouring values, if all are the lower bound plus multiples of it.
    rows : float
        The public number of rows times epsilon; infinity for the finest tree.

    Returns
    -------
    Layout
        The tree.
    """
    if step is None:
        sizes = (12, 240) if rows < _FEW_ROWS else (16, 256, 1024) if rows < _MANY_ROWS else (16, 256, 4096)
        return _bounded_layout(column, sizes, (2, 3) if len(sizes) == 2 else (4, 3, 2))  # noqa: PLR2004
    values = (column.high - column.low) / step + 1
    count = round(values)
    if count > _LEAVES or count < 2 or abs(values - count) > 1e-9 * count:  # noqa: PLR2004
        raise ArgumentError(
            f"From {column.low:g} to {column.high:g} there are no 2 to {_LEAVES:,} values in steps of {step:g}.",
            "Omit step= if values may lie anywhere between the bounds.",
        )
    above = tuple(16 ** (level + 1) for level in range(3) if 16 ** (level + 1) < count)[:2]
    most = above[-1] if above else 1
    sizes = (*above, most * math.ceil(count / most))
    return Layout(column.low - step / 2, step, sizes, ((1,), (1, 1), (4, 3, 2))[len(above)], whole=True)


def _bounded_layout(column: Column, sizes: tuple[int, ...], weights: tuple[int, ...]) -> Layout:
    """Return a layout with equal intervals between the bounds, and one for each bound itself if floats allow it."""
    width = (column.high - column.low) / (sizes[-1] - 2)
    ended = Layout(column.low - width, width, sizes, weights, whole=False, ends=(column.low, column.high))
    if np.isfinite(ended.edges).all() and (np.diff(ended.half_open_edges) > 0).all():
        return ended
    return Layout(column.low, (column.high - column.low) / sizes[-1], sizes, weights, whole=False)


def choose_intervals(column: Column, step: float | None, rows: float) -> Layout:
    """Choose the intervals from which a quantile is selected; a finer step or more rows give more intervals.

    Parameters
    ----------
    column, step
        As for `choose_layout`.
    rows : float
        The number of rows times epsilon, or of `rows_for_intervals`.

    Returns
    -------
    Layout
        One level of intervals: the more rows, the more, so that their width is no matter, up to 2^20.
    """
    if step is not None:
        return choose_layout(column, step, math.inf)
    count = min(_PER_ROW * rows, _MAX_INTERVALS)
    room = (column.high - column.low) / np.spacing(max(abs(column.low), abs(column.high))) / 4  # that floats have
    return _bounded_layout(column, (int(max(min(count, room), _MIN_INTERVALS)),), (1,))


def rows_for_intervals(curator: Curator) -> float:
    """Return the number of rows times epsilon; if it is private, a value that gives the most intervals.

    Groups share these intervals: they have the fewer rows, the more they are.
    """
    return _MAX_INTERVALS / _PER_ROW / curator.groups if curator.typical_size is None else rows_epsilon(curator)


def rows_epsilon(curator: Curator, share: Fraction = Fraction(1)) -> float:
    """Return the number of rows of a group times epsilon, with an assumed number if it is private."""
    rows = curator.typical_size
    return (_ASSUMED_ROWS if rows is None else rows) * curator.epsilon * float(share)


_REVEAL_ERRORS = 3.0  # standard errors of the rows below an edge, within which a quantile is looked for


@dataclass(frozen=True)
class AdaptiveReveal:
    """Rule that releases count trees level by level, each level only near the requested quantiles.

    The first level is shown. Of any other, the children of those nodes are shown that lie, with the noise in the
    counts above, within three standard errors of a quantile. So the ends of an interval of 95 % are found as well.

    Attributes
    ----------
    sizes : tuple of tuple of int
        Nodes of each level of each tree, below the root.
    missing : tuple of bool
        Whether the rows without a value are counted, after the nodes of a tree.
    shares : tuple of tuple of float
        The quantiles that are asked of each.
    """

    sizes: tuple[tuple[int, ...], ...]
    missing: tuple[bool, ...]
    shares: tuple[tuple[float, ...], ...]

    def describe(self) -> str:
        """Return a description of which nodes of the tree are released."""
        return "released only where requested quantiles may lie"

    def next(self, values: Numbers, scales: Numbers) -> Places:
        """Return a mask of the nodes that are released next, for the tree of each group."""
        trees, start = [], 0
        for sizes, missing, shares in zip(self.sizes, self.missing, self.shares, strict=True):
            end = start + sum(sizes)
            trees.append(_nodes_to_release(values[:, start:end], scales[start:end], sizes, np.array(shares)))
            if missing:
                trees.append(np.ones((len(values), 1), dtype=np.bool_))
            start = end + missing
        return np.hstack(trees)


def _nodes_to_release(values: Numbers, scales: Numbers, sizes: tuple[int, ...], shares: Numbers) -> Places:
    """Return a mask of the nodes of a tree to release next, given the noisy counts of the levels above."""
    ends = list(itertools.accumulate(sizes))
    counts = values[:, : sizes[0]]
    shown = [np.ones(counts.shape, dtype=np.bool_)]
    if np.isnan(counts).any():
        return _padded_masks(shown, values.shape)
    rows, first = counts.sum(axis=1, keepdims=True), 2 * scales[0] ** 2
    edges = np.arange(sizes[0] + 1)
    target = shares[:, None, None] * rows
    below = np.cumsum(counts, axis=1)
    below, above = below - counts, below
    # The rows below an edge and the share of all rows have noise of the same counts.
    q = shares[:, None]
    variance = first * (edges * (1 - q) ** 2 + (sizes[0] - edges) * q**2)
    variance = np.maximum(variance[:, None, :-1], variance[:, None, 1:])
    for (end, size), fewer in zip(itertools.pairwise(ends), sizes, strict=False):
        reach = _REVEAL_ERRORS * np.sqrt(variance)
        wanted = ((below - reach <= target) & (above + reach >= target)).any(axis=0)
        b = (size - end) // fewer
        shown.append(np.repeat(wanted, b, axis=1))
        children = values[:, end:size].reshape(len(values), fewer, b)
        if size == ends[-1] or np.isnan(children[wanted]).any():
            break
        left = (above - below - children.sum(axis=2)) / b  # nan where a family is not shown
        up_to = below[:, :, None] + np.cumsum(children + left[:, :, None], axis=2)
        below = np.concatenate([below[:, :, None], up_to[:, :, :-1]], axis=2).reshape(len(values), -1)
        above = up_to.reshape(len(values), -1)
        variance = np.repeat(variance, b, axis=2) + 2 * scales[end] ** 2 * b / 4
    return _padded_masks(shown, values.shape)


def _padded_masks(shown: list[Places], shape: tuple[int, ...]) -> Places:
    places = np.zeros(shape, dtype=np.bool_)
    known = np.hstack(shown)
    places[:, : known.shape[1]] = known
    return places


def least_squares(
    counts: Sequence[NDArray[np.float64]], variances: Sequence[float]
) -> tuple[NDArray[np.float64], tuple[float | Numbers, ...]]:
    """Return the least-squares estimate of consistent counts of a tree.

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
    unknown = [np.isnan(each) for each in counts]
    *above_leaves, leaves = (np.where(none, 0.0, each) for none, each in zip(unknown, counts, strict=True))
    below, spreads = [leaves], [np.where(unknown[-1], np.inf, variances[-1])]
    for y, none, v in zip(reversed(above_leaves), reversed(unknown[:-1]), reversed(variances[:-1]), strict=True):
        ahead = spreads[0].reshape(len(y), -1).sum(axis=1)
        known = np.isfinite(ahead)
        weight = np.divide(ahead, ahead + v, where=known & (v > 0), out=np.ones_like(ahead))
        spreads.insert(0, np.where(none, np.inf, weight * v))
        below.append(weight * y + (1 - weight) * below[-1].reshape(len(y), -1).sum(axis=1))
    above = below.pop()
    for z, spread in zip(reversed(below), spreads[1:], strict=True):
        families = z.reshape(len(above), -1)
        part = _weights_and_total_variance(spread.reshape(families.shape))[0]
        above = (families + (above - families.sum(axis=1))[:, None] * part).ravel()
    return above, tuple(float(each[0]) if (each == each[0]).all() else each for each in spreads)


def _weights_and_total_variance(variances: Numbers) -> tuple[Numbers, Numbers]:
    """Return the weights by which children share their parent's residual, and the sum of their variances.

    Where nothing is known of them, or all is, they share alike.
    """
    total = variances.sum(axis=1)
    uneven = (total > 0) & np.isfinite(total)
    each = np.where(uneven[:, None], variances, 1.0)
    return each / each.sum(axis=1, keepdims=True), np.where(uneven, total, 0.0)


def quantiles(leaves: NDArray[np.float64], edges: NDArray[np.float64], q: ArrayLike) -> NDArray[np.float64]:
    """Return quantiles of a histogram, interpolated linearly within its intervals.

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


@dataclass(frozen=True)
class Tree:
    """Consistent noisy counts of the intervals of a layout.

    Attributes
    ----------
    layout : Layout
        Where the intervals lie, N of them.
    leaves : ndarray of shape (N,)
        The least-squares counts: unbiased, and negative at times.
    spreads : tuple of float or ndarray
        Variances of `least_squares`, of each level, the root's first, or of each of its nodes.
    """

    layout: Layout
    leaves: NDArray[np.float64]
    spreads: tuple[float | Numbers, ...]

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """Edges of the intervals, shape (N + 1,)."""
        return self.layout.edges

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of nodes on each level, from the root (1) to the leaves (N)."""
        return (1, *self.layout.sizes)

    @property
    def total(self) -> float:
        """Number of rows: the count of the root."""
        return float(self.leaves.sum())

    @cached_property
    def counts(self) -> NDArray[np.float64]:
        """Nonnegative counts with the same total, obtained by projecting children to their parent's count."""
        above: NDArray[np.float64] = np.maximum(self.leaves.sum(keepdims=True), 0.0)
        for size in self.sizes[1:]:
            above = project_counts(self.leaves.reshape(size, -1).sum(axis=1).reshape(len(above), -1), above).ravel()
        return above

    @cached_property
    def prefix_variances(self) -> NDArray[np.float64]:
        """Variance of the number of rows below each edge, shape (N + 1,); infinite if it was not measured.

        A prefix is some whole children of a node, whose variances add up to C, and a part A of the next one, whose
        variance is s. Given the node's count, with S the variances of all its children, it varies by
        C + A² s - (C + A s)²/S, and takes the part (C + A s)/S of the node's own.
        """
        spreads = [np.broadcast_to(each, size) for each, size in zip(self.spreads, self.sizes, strict=True)]
        at = np.arange(self.sizes[-1] + 1)
        part, variance, known = np.zeros(len(at)), np.zeros(len(at)), np.zeros(len(at), dtype=np.bool_)
        known[[0, -1]] = True
        for (fewer, more), spread in zip(itertools.pairwise(self.sizes[::-1]), spreads[:0:-1], strict=True):
            b = fewer // more
            parts, total = _weights_and_total_variance(spread.reshape(more, b))
            ends = np.zeros((more + 1, b + 1))  # C/S, and one family more for the last edge, which is in none
            np.cumsum(parts, axis=1, out=ends[:-1, 1:])
            at, j = np.divmod(at, b)
            before, own = ends[at, j], ends[at, j + 1] - ends[at, j]
            variance += np.append(total, 0.0)[at] * (before + part**2 * own - (before + part * own) ** 2)
            part = before + part * own
            edges = known[:: self.sizes[-1] // fewer]
            edges[1:] |= np.isfinite(spread)
            edges[:-1] |= np.isfinite(spread)
        share = at + part  # all rows, or a part of them
        return np.where(known, np.maximum(variance, 0.0) + share**2 * spreads[0], np.inf)

    @cached_property
    def measured_edges(self) -> NDArray[np.bool_]:
        """Mask of the edges at which the number of rows below was measured, shape (N + 1,)."""
        return np.isfinite(self.prefix_variances)

    def rows_below(self, x: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the number of rows below each value, interpolated within intervals, with standard errors."""
        at = np.asarray(x, dtype=np.float64)
        if self.layout.ends is not None:
            at = np.where(
                at < self.layout.ends[0], self.edges[0], np.where(at > self.layout.ends[1], self.edges[-1], at)
            )
        at = np.clip(at, self.edges[0], self.edges[-1])
        reached = np.concatenate([[0.0], np.cumsum(self.counts)])
        right = np.clip(np.searchsorted(self.edges, at), 1, len(self.edges) - 1)
        near = right - (at - self.edges[right - 1] <= self.edges[right] - at)
        return np.interp(at, self.edges, reached), np.sqrt(self.prefix_variances[near])

    def quantiles(self, q: ArrayLike) -> NDArray[np.float64]:
        """Return quantiles of the column, from the nonnegative counts."""
        values = quantiles(self.counts, self.edges, q)
        if not self.layout.whole:
            return values if self.layout.ends is None else np.clip(values, *self.layout.ends)
        leaf = np.searchsorted(self.edges, values, side="left") - 1  # quantiles lie above their lower edge
        middles: NDArray[np.float64] = (self.edges[1:] + self.edges[:-1]) / 2
        return middles[np.clip(leaf, 0, len(middles) - 1)]

    def intervals(
        self, q: ArrayLike, z: float, *, population: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ends of a confidence interval for each quantile, from the unbiased counts.

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
        q, edges = np.asarray(q, dtype=np.float64), self.edges[self.measured_edges]
        total, reached = max(self.total, 0.0), np.concatenate([[0.0], np.cumsum(self.leaves)])[self.measured_edges]
        variance = self.prefix_variances[self.measured_edges] + (total * q * (1 - q))[:, None] * population
        reach = z * np.sqrt(variance)
        possible = reached + reach >= (q * total)[:, None]
        surely = reached - reach >= (q * total)[:, None]
        last = len(reached) - 1
        first = np.where(possible.any(axis=1), possible.argmax(axis=1), last)
        final = np.where(surely.all(axis=1), 0, last - (~surely)[:, ::-1].argmax(axis=1))
        inner = (self.edges[1] - self.edges[0]) / 2 if self.layout.whole else 0.0
        return edges[np.maximum(first - 1, 0)] + inner, edges[np.minimum(final + 1, last)] - inner


@dataclass(frozen=True)
class CountTree:
    """Measured tree of counts: its layout, the noisy counts of each level, and the rows without a value."""

    layout: Layout
    missing: tuple[float | None, float | None]
    levels: Sequence[NDArray[np.float64]]
    variances: Sequence[float]

    @cached_property
    def tree(self) -> Tree:
        """The tree of consistent counts, computed from the noisy counts of all levels."""
        leaves, spreads = least_squares(self.levels, self.variances)
        return Tree(self.layout, leaves, spreads)

    @classmethod
    def from_measurement(
        cls,
        plan: Layout,
        measured: NoisyValue,
        *,
        missing: bool,
        rows: tuple[float, float] | None,
        root: bool,
        none_missing: bool = False,
    ) -> CountTree:
        """Construct the tree from a measurement; `rows` is the number of all rows and its variance, if known."""
        values, variances = measured.values, 2 * measured.scales**2
        left: tuple[float | None, float | None] = (0.0, 0.0) if none_missing else (None, None)
        gone, spread = 0.0, 0.0
        if missing:
            gone, spread = float(values[-1]), float(variances[-1])
            left = gone, math.sqrt(spread)
        sizes = (1, *plan.sizes) if root else plan.sizes
        ends = np.cumsum(sizes)
        levels = [values[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        noise = [float(variances[end - 1]) for end in ends]
        if rows is not None:
            levels.insert(0, np.array([rows[0] - gone]))
            noise.insert(0, rows[1] + spread)
        return cls(plan, left, levels, noise)


def measure_tree(curator: Curator, column: Column, nan_policy: NanPolicy, step: float | None) -> CountTree:
    """Measure a tree of counts of one column."""
    n, gaps = curator.size, curator.gaps([column], nan_policy)
    plan = choose_layout(column, step, rows_epsilon(curator))
    measured = curator.sum(plan.features(column, missing=bool(gaps), root=n is None))
    all_rows = None if n is None else (float(n), 0.0)
    nothing = not (gaps or column.filled or nan_policy == "fill")
    return CountTree.from_measurement(
        plan, measured, missing=bool(gaps), rows=all_rows, root=n is None, none_missing=nothing
    )


@lru_cache(maxsize=32)  # for the groups of a call
def prefix_error(plan: Layout, rows_variance: float, variances: tuple[float, ...]) -> float:
    """Return the standard error of the number of rows below an edge, averaged over the edges of a tree."""
    counts = [np.zeros(size) for size in (1, *plan.sizes)]
    leaves, spreads = least_squares(counts, (rows_variance, *variances))
    return float(np.sqrt(Tree(plan, leaves, spreads).prefix_variances)[1:-1].mean()) if len(leaves) > 1 else 0.0


def tree_error(curator: Curator, plan: Layout) -> float:
    """Return the average standard error of the rows below an edge, for a tree with the whole budget."""
    private = curator.size is None
    moved = (2 if curator.neighbors == "replace_one" else 1) * (sum(plan.weights) + private)
    error = prefix_error(plan, 2.0 * private, tuple(2 / weight**2 for weight in plan.weights))
    return moved / curator.epsilon * error
