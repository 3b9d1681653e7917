"""What the one-release test measures; docs/explanation/kernel_two_sample.md proves the sensitivities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy.statistics import OfRows
from dfprivacy_kernel.sampling import drawn
from dfprivacy_kernel.sums import ROUNDING, image_of, mapped, middle, products_of, totals

if TYPE_CHECKING:
    from dfprivacy.features import Batch
    from dfprivacy_kernel.embedding import Array, Embedding
    from dfprivacy_kernel.groups import Groups

__all__ = ["SHARE_STEP", "Separation", "Spread", "times"]

SHARE_STEP = 20
"""The ends of the interval for the share of the first group are whole multiples of 2^-20."""


def times(norm: float, dimension: int) -> float:
    """How many times larger a vector's norm can be than its largest coordinate."""
    return 1.0 if norm == math.inf else dimension ** (1 / norm)


class Separation(OfRows):
    r"""How far the two groups are apart: :math:`G = \|\sum_i (l_i - \bar l)\,\phi(x_i)\| = \frac{nm}{N} T`.

    Of several embeddings: the largest of G - c.

    One row's content moves G by √2 max(n, m)/N if the sizes are public, and by √2 if a row can change its group.
    Where the groups are public, and only which rows are complete is not, the mean label is held within an interval
    that was chosen before, and G moves by √2 times the largest part that it leaves to a row.

    Parameters
    ----------
    share : (float, float)
        The interval, in which the share of the first group lies with all but a negligible probability.
    """

    shape = (1,)

    def __init__(
        self,
        groups: Groups,
        embeddings: tuple[Embedding, ...],
        critical: Array,
        share: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self.groups, self.embeddings, self.critical = groups, embeddings, critical
        unit = 1 << SHARE_STEP
        self.share = math.floor(share[0] * unit), math.ceil(share[1] * unit)
        self.columns = (groups.by, *embeddings[0].columns)
        self.error = groups.most * max(len(each.map) for each in embeddings) * ROUNDING

    def value(self, rows: Batch) -> Array:
        """Compute it."""
        members = self.groups.members(rows)
        n, m = (int(size) for size in members.sum(axis=1))
        first, rest, unit = self._parts(n, m)
        lengths = []
        for each in self.embeddings:
            sums = totals(rows, each.steps, lambda part: members[:, part], (2, each.width)).astype(object)
            apart = rest * sums[0] - first * sums[1]
            surplus = rest * n - first * m  # 0 but where the share lies outside of the interval
            if surplus:
                apart = apart - surplus * middle(each)
            lengths.append(float(np.linalg.norm(mapped(each, apart[None]))) / unit)
        return np.array([np.max(np.array(lengths) - self.critical)])

    def _parts(self, n: int, m: int) -> tuple[int, int, int]:
        """Give the share of the first group, that of the second, and their sum: whole numbers."""
        low, high = self.share
        unit = 1 << SHARE_STEP
        if n * unit < low * (n + m):
            return low, unit - low, unit
        if n * unit > high * (n + m):
            return high, unit - high, unit
        return n, m, max(n + m, 1)

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far one row moves it."""
        sizes = self.groups.sizes
        known = self.groups.by.name in public
        if known and sizes is not None and relation == "replace_one":
            farthest = max(each.diameter(public) for each in self.embeddings)
            return farthest * max(sizes) / sum(sizes)
        farthest = max(each.diameter(frozenset()) for each in self.embeddings)
        low, high = self.share
        return farthest * (max(high, (1 << SHARE_STEP) - low) / (1 << SHARE_STEP) if known else 1.0)

    def describe(self) -> str:
        """Name it in words."""
        return f"the distance of the groups' mean embeddings ({self.embeddings[0].named})"


class Spread(OfRows):
    r"""Moments of the pooled covariance C, N tr C, N ‖C‖, N λ; of private sizes n and m before them.

    Each is in units of the most that one row moves it by; of public sizes, of 2.

    Parameters
    ----------
    share : float
        The share of the rows that C is of; one row moves their moments by as much, which then stand for more rows.
    """

    def __init__(self, groups: Groups, embeddings: tuple[Embedding, ...], share: float = 1.0) -> None:
        self.groups, self.embeddings, self.share = groups, embeddings, share
        self.columns = (groups.by, *embeddings[0].columns)
        counts = 0 if groups.sizes else 2
        self.shape = (3 * len(embeddings) + counts,)
        self.unit = unit = 2.0 if groups.sizes else max(each.lift(frozenset()) for each in embeddings)
        self.weights = np.array([1.0] * counts + [share / unit] * 3 * len(embeddings))
        self.error = groups.most * max(len(each.map) for each in embeddings) * ROUNDING / min(unit, 1.0)

    def value(self, rows: Batch) -> Array:
        """Compute them."""
        moments = [] if self.groups.sizes else [*self.groups.members(rows).sum(axis=1)]
        chosen = drawn(rows, self.embeddings[0].columns, self.groups.chosen(rows), self.share)
        for each in self.embeddings:
            sums, products = products_of(rows, each.steps, chosen, each.width)
            total = mapped(each, sums[None])[0]
            scatter = image_of(each, products) - np.outer(total, total) / max(chosen.sum(), 1)
            largest = np.linalg.eigvalsh(scatter)[-1]
            moments += [moment / self.share for moment in (np.trace(scatter), np.linalg.norm(scatter), largest)]
        return np.array(moments) * self.weights

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Bound how far one row moves them."""
        fixed = self.groups.sizes is not None and relation == "replace_one" and self.groups.by.name in public
        if self.share < 1:  # a row may be drawn, and not what comes in its place
            fixed &= {column.name for column in self.columns} <= public
        stretch = max(each.lift(public if fixed else frozenset()) for each in self.embeddings) / self.unit
        if self.groups.sizes is None:
            stretch = max(stretch, 1.0)
        return stretch * times(norm, self.dimension)

    def describe(self) -> str:
        """Name them in words."""
        counted = "" if self.groups.sizes else "the rows of each group, and "
        return f"{counted}the spread of the embedded rows ({self.embeddings[0].named})"
