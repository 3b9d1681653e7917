"""Quantiles of which each is chosen alone: an interval of values, by the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy import Column, Curator, features
from dfprivacy.statistics import OfSums
from dfprivacy_eda.grown import tree_error
from dfprivacy_eda.layout import Layout, intervals, layout, rows_epsilon

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.arguments import NanPolicy

__all__ = ["Chosen", "RankOfLeaf", "choice_error", "choose_alone", "chosen"]

_BESIDE = 11.0  # scales of the choice: with fewer rows beside a quantile, what is far away adds up
_CLEARLY = 0.75


class RankOfLeaf(OfSums):
    """How far each interval is from holding a quantile: minus the rows by which it lies too low or too high.

    With C(k) the rows in the intervals up to k and n all of them: -max(0, C(k-1) - q n, q n - C(k)). Where a
    row changes, each count moves by at most 1 and n only if the value comes or goes, so that C - q n moves by 1
    at most; where a row comes or goes, by q or 1 - q.
    """

    error = 1e-6  # of q n, for up to 2^32 rows

    def __init__(self, counts: features.RowFeatures, q: float) -> None:
        self.features = counts
        self.columns = counts.columns
        self.shape = counts.shape
        self.q = q

    def value(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the scores of all intervals from the counts."""
        up_to = np.cumsum(sums)
        target = self.q * up_to[-1]
        ranks: NDArray[np.float64] = -np.maximum(0, np.maximum(up_to - sums - target, target - up_to))
        return ranks

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far a score moves."""
        most = 1.0 if relation == "replace_one" else max(self.q, 1 - self.q)
        return most if norm == math.inf else most * self.dimension ** (1 / norm)


@dataclass(frozen=True)
class Chosen:
    """The intervals that were chosen for quantiles, and the scales, in rows, by which each may be off."""

    layout: Layout
    leaves: tuple[int, ...]
    scales: tuple[float, ...]
    size: int | None

    def values(self, column: Column) -> list[float]:
        """Give the middle of each interval, within the bounds."""
        middles = self.layout.low + self.layout.step * (np.array(self.leaves) + 0.5)
        return [float(value) for value in np.clip(middles, column.low, column.high)]

    def rows(self, confidence: float) -> list[float]:
        """Give the rows by which each is off at most.

        Of L intervals, one whose score is below -b ln(L/α) is chosen with probability α at most, b the scale.
        """
        return [scale * math.log(self.layout.sizes[-1] / (1 - confidence)) for scale in self.scales]


def choice_error(curator: Curator, shares: Sequence[float]) -> float:
    """Give the standard error, in rows, of quantiles of which each is chosen alone, where values lie dense.

    One is off by r rows with probability in proportion to exp(-r / b), b the scale. It is infinite where a part of
    the rows so small is beside a quantile that the choice may be any value.
    """
    part = 2 * len(shares) / curator.epsilon
    scales = [part * (1.0 if curator.neighbors == "replace_one" else max(q, 1 - q)) for q in shares]
    rows = rows_epsilon(curator) / curator.epsilon
    if len(shares) > 1 and any(rows * min(q, 1 - q) < _BESIDE * b for q, b in zip(shares, scales, strict=True)):
        return math.inf
    return math.sqrt(2 * sum(scale**2 for scale in scales) / len(scales))


def choose_alone(
    curator: Curator, column: Column, shares: Sequence[float], step: float | None, covers: str | None
) -> bool:
    """Say whether each quantile is chosen alone: where no interval is asked for, and it is expected to be nearer.

    Where it is about the same, a tree of counts is better, for it has intervals. Of what is public, all counts are
    free; and by group a choice is not proved where a person has several rows.
    """
    if covers is not None or not curator.decides or (column.public and curator.size is not None):
        return False
    of_tree = tree_error(curator, layout(column, step, rows_epsilon(curator)))
    return choice_error(curator, shares) < _CLEARLY * of_tree


def chosen(
    curator: Curator, column: Column, shares: Sequence[float], nan_policy: NanPolicy, step: float | None
) -> Chosen:
    """Choose an interval for each quantile by the exponential mechanism, at an equal part of the budget."""
    gaps = curator.gaps([column], nan_policy)
    rows = None if curator.size is None else rows_epsilon(curator)
    leaves, scales = [], []
    for q in shares:
        ranks = curator.once(_ranks, column, gaps, q, step, rows)
        leaves.append(int(curator.select(ranks, share=Fraction(1, len(shares)))[0]))
        scales.append(curator.measured[-1].scale)
    return Chosen(curator.once(intervals, column, step, rows), tuple(leaves), tuple(scales), curator.size)


def _ranks(
    column: Column, gaps: tuple[Column, ...], q: float, step: float | None, rows: float | None
) -> RankOfLeaf:
    counts: features.RowFeatures = features.Bins(column, intervals(column, step, rows).cuts)
    return RankOfLeaf(features.Given(*gaps, of=counts) if gaps else counts, q)
