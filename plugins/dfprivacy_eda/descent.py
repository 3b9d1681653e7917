"""Trees of counts of which only those nodes are shown that some quantiles may lie in."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Places = NDArray[np.bool_]

__all__ = ["Descent"]

_WIDE = 3.0  # standard errors of the rows below an edge, within which a quantile is looked for


@dataclass(frozen=True)
class Descent:
    """The nodes of some trees, one after the other, in which quantiles may lie: from the root down, level by level.

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
        """Say in words what is shown."""
        return "shown where quantiles may lie"

    def next(self, values: Numbers, scales: Numbers) -> Places:
        """Say which nodes are shown next, of each group."""
        trees, start = [], 0
        for sizes, missing, shares in zip(self.sizes, self.missing, self.shares, strict=True):
            end = start + sum(sizes)
            trees.append(_shown(values[:, start:end], scales[start:end], sizes, np.array(shares)))
            if missing:
                trees.append(np.ones((len(values), 1), dtype=np.bool_))
            start = end + missing
        return np.hstack(trees)


def _shown(values: Numbers, scales: Numbers, sizes: tuple[int, ...], shares: Numbers) -> Places:
    """Tell of each node of a tree whether it is shown, given those that are."""
    ends = list(itertools.accumulate(sizes))
    counts = values[:, : sizes[0]]
    shown = [np.ones(counts.shape, dtype=np.bool_)]
    if np.isnan(counts).any():
        return _padded(shown, values.shape)
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
        reach = _WIDE * np.sqrt(variance)
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
    return _padded(shown, values.shape)


def _padded(shown: list[Places], shape: tuple[int, ...]) -> Places:
    places = np.zeros(shape, dtype=np.bool_)
    known = np.hstack(shown)
    places[:, : known.shape[1]] = known
    return places
