"""One quantile alone: an interval of values is chosen by the exponential mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy import Column, Curator, features
from dfprivacy.statistics import OfSums
from dfprivacy_eda.grown import Grown, grown
from dfprivacy_eda.layout import Layout, layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.arguments import NanPolicy

__all__ = ["Chosen", "RankOfLeaf", "chosen"]


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
    """The interval that was chosen for a quantile, and how many rows it may be off by."""

    layout: Layout
    leaf: int
    scale: float
    size: int | None


def chosen(curator: Curator, column: Column, q: float, nan_policy: NanPolicy, step: float | None) -> Chosen | Grown:
    """Choose one interval by the exponential mechanism; of what is public, all counts are free."""
    n = curator.size
    if column.public and n is not None:
        return grown(curator, column, nan_policy, step)
    gaps = curator.gaps([column], nan_policy)
    plan = curator.once(layout, column, step, math.inf)
    (leaf,) = curator.select(curator.once(_ranks, column, gaps, q, step))
    return Chosen(plan, int(leaf), curator.measured[-1].scale, n)


def _ranks(column: Column, gaps: tuple[Column, ...], q: float, step: float | None) -> RankOfLeaf:
    counts: features.RowFeatures = features.Bins(column, layout(column, step, math.inf).cuts)
    return RankOfLeaf(features.Given(*gaps, of=counts) if gaps else counts, q)
