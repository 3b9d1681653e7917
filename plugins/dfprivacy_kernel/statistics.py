"""What is measured, each with its proved sensitivity; docs/explanation/kernel_two_sample.md has the proofs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular

from dfprivacy.statistics import OfPermutations, OfRows
from dfprivacy_kernel.bounds import ridge, whitened_sensitivity
from dfprivacy_kernel.sums import ROUNDING, gram_of, image_of, mapped, totals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy._table.batch import Batch
    from dfprivacy_kernel.embedding import Array, Embedding

__all__ = [
    "CLIP",
    "Groups",
    "Rearranged",
    "Separation",
    "Spread",
    "Whitened",
    "subset",
]

_ROWS_MAX = 2.0**32  # for which the rounding is charged where the number of rows is private


@dataclass(frozen=True)
class Groups:
    """Which rows are in which of the two groups.

    Attributes
    ----------
    by : Column
        The column of the groups.
    pair : tuple
        The two categories.
    sizes : tuple of int or None
        Rows in each group, None where they are private.
    """

    by: Column
    pair: tuple[Any, Any]
    sizes: tuple[int, int] | None

    @property
    def rows(self) -> float:
        """Number of rows, or the most there can be."""
        return float(sum(self.sizes)) if self.sizes else _ROWS_MAX

    def members(self, rows: Batch) -> Array:
        """Tell of each row whether it is in the first group, and in the second; shape (2, rows)."""
        codes = rows.codes(self.by)
        return np.array([codes == self.by.code(value) for value in self.pair], dtype=np.float64)

    def chosen(self, rows: Batch) -> NDArray[np.bool_]:
        """Tell of each row whether it is in either group."""
        codes = rows.codes(self.by)
        chosen: NDArray[np.bool_] = np.isin(codes, [self.by.code(value) for value in self.pair])
        return chosen


def _times(norm: float, dimension: int) -> float:
    """How many times larger a vector's norm can be than its largest coordinate."""
    return 1.0 if norm == math.inf else dimension ** (1 / norm)


class Separation(OfRows):
    r"""How far the two groups are apart: :math:`G = \|\sum_i (l_i - \bar l)\,\phi(x_i)\| = \frac{nm}{N} T`.

    Of several embeddings: the largest of G - c.

    One row's content moves G by √2 max(n, m)/N if the sizes are public, and by √2 if a row can change its group,
    come or go.
    """

    shape = (1,)

    def __init__(self, groups: Groups, embeddings: tuple[Embedding, ...], critical: Array) -> None:
        self.groups, self.embeddings, self.critical = groups, embeddings, critical
        self.columns = (groups.by, *embeddings[0].columns)
        self.error = groups.rows * max(len(each.map) for each in embeddings) * ROUNDING

    def value(self, rows: Batch) -> Array:
        """Compute it."""
        members = self.groups.members(rows)
        n, m = members.sum(axis=1)
        lengths = []
        for each in self.embeddings:
            sums = totals(rows, each.steps, lambda part: members[:, part], (2, each.width))
            apart = (int(m) * sums[0].astype(object) - int(n) * sums[1].astype(object))[None]
            lengths.append(float(np.linalg.norm(mapped(each, apart))) / max(n + m, 1.0))
        return np.array([np.max(np.array(lengths) - self.critical)])

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far one row moves it."""
        farthest = max(each.diameter(public) for each in self.embeddings)
        sizes = self.groups.sizes
        if sizes is None or self.groups.by.name not in public or relation == "add_remove":
            return max(farthest, *(each.diameter(frozenset()) for each in self.embeddings))
        return farthest * max(sizes) / sum(sizes)

    def describe(self) -> str:
        """Name it in words."""
        return f"the distance of the groups' mean embeddings ({self.embeddings[0].named})"


class Spread(OfRows):
    r"""Moments of the pooled covariance C: N tr C/2, N ‖C‖/2, N λ/2; of private groups nm/N and N before them.

    One row moves each of them by 1 at most.
    """

    def __init__(self, groups: Groups, embeddings: tuple[Embedding, ...]) -> None:
        self.groups, self.embeddings = groups, embeddings
        self.columns = (groups.by, *embeddings[0].columns)
        self.shape = (3 * len(embeddings) + (0 if groups.sizes else 2),)
        self.weights = np.array([*(() if groups.sizes else (1.0, 1.0)), *[0.5] * 3 * len(embeddings)])
        self.error = groups.rows * max(len(each.map) for each in embeddings) * ROUNDING

    def value(self, rows: Batch) -> Array:
        """Compute them."""
        members = self.groups.members(rows)
        n, m = members.sum(axis=1)
        total = max(n + m, 1.0)
        found = [] if self.groups.sizes else [n * m / total, n + m]
        chosen = self.groups.chosen(rows)
        for each in self.embeddings:
            sums = totals(rows, each.steps, lambda part: members[:, part], (2, each.width)).sum(axis=0)[None]
            mean = mapped(each, sums)[0]
            scatter = image_of(each, gram_of(rows, each.steps, chosen, each.width)) - np.outer(mean, mean) / total
            largest = np.linalg.eigvalsh(scatter)[-1]
            found += [np.trace(scatter) / 2, np.linalg.norm(scatter) / 2, largest / 2]
        return np.array(found)

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Bound how far one row moves them."""
        of = frozenset() if relation == "add_remove" or self.groups.by.name not in public else public
        stretch = max(each.lift(of) for each in self.embeddings) / 2
        if self.groups.sizes is None:
            stretch = max(stretch, 1.0)
        return stretch * _times(norm, self.dimension)

    def describe(self) -> str:
        """Name them in words."""
        return f"the spread of the embedded rows ({self.embeddings[0].named})"


class Rearranged(OfPermutations):
    """T, and T after each of B random relabellings of the rows: one matrix product for each part of the rows."""

    def __init__(self, groups: Groups, embedding: Embedding, permutations: int) -> None:
        self.groups, self.embedding = groups, embedding
        self.columns = (groups.by, *embedding.columns)
        self.shape = (permutations + 1,)
        self.error = len(embedding.map) * ROUNDING

    def value(self, rows: Batch, chance: np.random.Generator) -> Array:  # type: ignore[override]
        """Compute them."""
        members = self.groups.members(rows).astype(np.bool_)
        chosen = self.groups.chosen(rows)
        n, m = (int(size) for size in members.sum(axis=1))
        firsts = np.zeros((self.dimension, -(-rows.size // 8)), dtype=np.uint8)  # one bit a row
        firsts[0] = np.packbits(members[0])
        places = np.flatnonzero(chosen)
        for row in firsts[1:]:
            drawn = np.zeros(rows.size, dtype=np.bool_)
            drawn[places] = subset(n, n + m, chance)
            row[:] = np.packbits(drawn)

        def coefficients(part: slice) -> Array:
            bits = np.unpackbits(firsts[:, part.start // 8 : -(-part.stop // 8)], axis=1)
            labels = np.empty((self.dimension + 1, part.stop - part.start))
            labels[:-1] = bits[:, : part.stop - part.start]
            labels[-1] = chosen[part]
            return labels

        sums = totals(rows, self.embedding.steps, coefficients, (self.dimension + 1, self.embedding.width))
        apart = (n + m) * sums[:-1].astype(object) - n * sums[-1].astype(object)  # m S_X - n S_Y
        return self.lengths(mapped(self.embedding, apart) / (n * m), rows, chosen)

    def lengths(self, differences: Array, rows: Batch, chosen: NDArray[np.bool_]) -> Array:  # noqa: ARG002
        """Give T of each difference of means, shape (B + 1, F)."""
        length: Array = np.linalg.norm(differences, axis=1)
        return length

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far one row moves each of them."""
        if relation == "add_remove" or self.groups.by.name not in public or self.groups.sizes is None:
            return math.inf
        return self.embedding.diameter(public) / min(self.groups.sizes)

    def describe(self) -> str:
        """Name it in words."""
        return f"the MMD of rearranged rows ({self.embedding.named})"


def subset(n: int, total: int, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Draw n of some rows, every choice equally likely: each row by its own chance, and then chance evens out."""
    drawn = chance.random(total, dtype=np.float32) * total < n
    surplus = int(drawn.sum()) - n
    if surplus:
        among = np.flatnonzero(drawn == (surplus > 0))
        drawn[chance.choice(among, abs(surplus), replace=False)] ^= True
    return drawn


class Whitened(Rearranged):
    r"""The same with :math:`T = \min(c, \sqrt{nm/N\; d'(S + \gamma I)^{-1} d})`, S the pooled covariance.

    Whitening makes directions in which rows hardly vary count as much as others. S does not depend on the labels,
    so the statistics of all relabellings are exchangeable.
    """

    def __init__(self, groups: Groups, embedding: Embedding, permutations: int, epsilon: float) -> None:
        super().__init__(groups, embedding, permutations)
        assert groups.sizes is not None  # noqa: S101 - of public groups only
        self._n, self._m = groups.sizes
        dimension, total = len(embedding.map), self._n + self._m
        part = _FEW_PART if dimension <= _FEW_DIMENSIONS else _MANY_PART
        self.gamma = ridge(total, embedding.diameter(frozenset()), min(part * epsilon, _MOST))
        self.error = 2.0**-50 * dimension * (CLIP * dimension * (4 / self.gamma + 4) + total)

    def lengths(self, differences: Array, rows: Batch, chosen: NDArray[np.bool_]) -> Array:
        """Give T of each difference of means."""
        total = self._n + self._m
        sums = totals(
            rows,
            self.embedding.steps,
            lambda part: chosen[None, part].astype(np.float64),
            (1, self.embedding.width),
        )
        mean = mapped(self.embedding, sums)[0] / total
        S = image_of(self.embedding, gram_of(rows, self.embedding.steps, chosen, self.embedding.width)) / total
        L = np.linalg.cholesky(S - np.outer(mean, mean) + self.gamma * np.eye(len(S)))
        white = solve_triangular(L, differences.T, lower=True, check_finite=False)
        length: Array = np.minimum(math.sqrt(self._n * self._m / total) * np.linalg.norm(white, axis=0), CLIP)
        return length

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Bound how far one row moves each of them."""
        plain = super().sensitivity(relation, norm, public)
        if plain in {0.0, math.inf}:
            return plain
        moved, lifted = self.embedding.diameter(public), self.embedding.lift(public)
        return whitened_sensitivity(self._n, self._m, moved, lifted, self.gamma, CLIP)

    def describe(self) -> str:
        """Name it in words."""
        return f"the whitened MMD of rearranged rows ({self.embedding.named})"


CLIP = 8.0
"""The largest whitened statistic: far above what chance gives a few dimensions."""

_FEW_PART, _MANY_PART, _MOST = 0.05, 0.02, 0.1  # of the diameter over √(N γ): the first two in parts of epsilon
_FEW_DIMENSIONS = 30
