"""Trees of counts as they are measured: of one column, or of several in one release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy import Column, Curator, features
from dfprivacy_eda.descent import Descent
from dfprivacy_eda.layout import Layout, layout, rows_epsilon
from dfprivacy_eda.tree import Tree, least_squares

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from dfprivacy.arguments import NanPolicy
    from dfprivacy.release import NoisyValue

__all__ = ["Grown", "Planned", "grown", "prefix_error", "tree_error"]


@dataclass(frozen=True)
class Grown:
    """A measured tree: its layout, the rows without a value where they were counted, and the noisy counts."""

    layout: Layout
    missing: tuple[float | None, float | None]
    levels: Sequence[NDArray[np.float64]]
    variances: Sequence[float]

    @cached_property
    def tree(self) -> Tree:
        """The tree, of consistent counts: no part of the measurement."""
        plan = self.layout
        leaves, spreads = least_squares(self.levels, self.variances)
        return Tree(plan.edges, (1, *plan.sizes), leaves, spreads, plan.whole, plan.ends)

    @classmethod
    def of(
        cls,
        plan: Layout,
        measured: NoisyValue,
        *,
        missing: bool,
        rows: tuple[float, float] | None,
        root: bool,
        none_missing: bool = False,
    ) -> Grown:
        """Put noisy counts in levels; `rows` is the number of all rows and its variance, None where unknown."""
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


def grown(curator: Curator, column: Column, nan_policy: NanPolicy, step: float | None) -> Grown:
    """Measure a tree of counts of one column."""
    n, gaps = curator.size, curator.gaps([column], nan_policy)
    plan = layout(column, step, rows_epsilon(curator))
    measured = curator.sum(plan.features(column, missing=bool(gaps), root=n is None))
    all_rows = None if n is None else (float(n), 0.0)
    nothing = not (gaps or column.filled or nan_policy == "fill")
    return Grown.of(plan, measured, missing=bool(gaps), rows=all_rows, root=n is None, none_missing=nothing)


def prefix_error(plan: Layout, rows_variance: float, variances: tuple[float, ...]) -> float:
    """Give the mean standard error of the rows below an edge, of a tree with these variances of counts."""
    sizes = (1, *plan.sizes)
    leaves, spreads = least_squares([np.zeros(size) for size in sizes], (rows_variance, *variances))
    tree = Tree(plan.edges, sizes, leaves, spreads)
    return float(np.sqrt(tree.prefix_variances)[1:-1].mean()) if len(leaves) > 1 else 0.0


def tree_error(curator: Curator, plan: Layout) -> float:
    """Give the same of the tree of one column that all of a call's budget buys."""
    private = curator.size is None
    moved = (2 if curator.neighbors == "replace_one" else 1) * (sum(plan.weights) + private)
    return moved / curator.epsilon * curator.once(_of_scale_one, plan, private)


def _of_scale_one(plan: Layout, private: bool) -> float:  # noqa: FBT001 - as `once` takes it
    return prefix_error(plan, 2.0 * private, tuple(2 / weight**2 for weight in plan.weights))


@dataclass(frozen=True)
class Planned:
    """Trees of counts of several columns, without a root, which is all rows, and which of their nodes are shown."""

    layouts: tuple[Layout, ...]
    features: features.Stack
    descent: Descent | None

    @classmethod
    def of(
        cls,
        curator: Curator,
        columns: Sequence[Column],
        gaps: Mapping[str, tuple[Column, ...]],
        share: Fraction,
        asked: Sequence[tuple[float, ...]] | None,
    ) -> Planned:
        """Lay them out, before anything is paid; all nodes are shown if nobody says which quantiles are asked."""
        counted = tuple(bool(gaps[column.name]) for column in columns)
        rows = rows_epsilon(curator, share / len(columns))
        return curator.once(_planned, tuple(columns), counted, rows, None if asked is None else tuple(asked))

    def measured(self, curator: Curator, share: Fraction) -> list[tuple[Layout, NoisyValue]]:
        """Measure them, with their share of the call's budget."""
        counts = curator.sum(self.features, share=share, reveal=self.descent)
        return [*zip(self.layouts, counts.parts, strict=True)]


def _planned(
    columns: tuple[Column, ...],
    counted: tuple[bool, ...],
    rows: float,
    asked: tuple[tuple[float, ...], ...] | None,
) -> Planned:
    plans = tuple(layout(column, None, rows) for column in columns)
    trees = [
        plan.features(column, missing=missing, root=False)
        for plan, column, missing in zip(plans, columns, counted, strict=True)
    ]
    descent = None if asked is None else Descent(tuple(plan.sizes for plan in plans), counted, asked)
    return Planned(plans, features.Stack(*trees), descent)
