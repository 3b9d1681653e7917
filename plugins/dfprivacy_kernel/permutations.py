"""The statistics of the permutation tests: of the groups as they are, and of random relabellings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy

from dfprivacy.statistics import OfPermutations
from dfprivacy_kernel.bounds import ridge, whitened_move, whitened_sensitivity
from dfprivacy_kernel.sums import ROUNDING, gram_of, image_of, mapped, totals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.features import Batch
    from dfprivacy_kernel.embedding import Array, Embedding
    from dfprivacy_kernel.groups import Groups

__all__ = ["CLIP", "Rearranged", "Whitened", "subset"]

CLIP = 8.0
"""The largest whitened statistic: far above what chance gives a few dimensions."""

_FEW_PART, _MANY_PART, _MOST = 0.05, 0.02, 0.1  # of the diameter over √(N γ): the first two in parts of epsilon
_FEW_DIMENSIONS = 30


class Rearranged(OfPermutations):
    """T, and T after each of B random relabellings of the rows: one matrix product for each part of the rows.

    Where it is private which rows are complete, T is (N/nm) G with n and m of all rows, and G of the complete ones.
    """

    def __init__(self, groups: Groups, embedding: Embedding, permutations: int) -> None:
        self.groups, self.embedding = groups, embedding
        self.columns = (groups.by, *embedding.columns)
        self.shape = (permutations + 1,)
        self._n, self._m = groups.sizes or groups.rows or (1, 1)
        self.error = len(embedding.map) * ROUNDING

    def value(self, rows: Batch, rng: np.random.Generator) -> Array:  # type: ignore[override]
        """Compute them."""
        members = self.groups.members(rows).astype(np.bool_)
        chosen: NDArray[np.bool_] = np.asarray(members.any(axis=0))
        n, m = (int(size) for size in members.sum(axis=1))
        firsts = np.zeros((self.dimension, -(-rows.size // 8)), dtype=np.uint8)  # one bit a row
        firsts[0] = np.packbits(members[0])
        places = np.flatnonzero(chosen)
        for row in firsts[1:]:
            drawn = np.zeros(rows.size, dtype=np.bool_)
            drawn[places] = subset(n, n + m, rng) if self.groups.sizes else lowest(n, rng.random(rows.size)[places])
            row[:] = np.packbits(drawn)

        def coefficients(part: slice) -> Array:
            bits = np.unpackbits(firsts[:, part.start // 8 : -(-part.stop // 8)], axis=1)
            labels = np.empty((self.dimension + 1, part.stop - part.start))
            labels[:-1] = bits[:, : part.stop - part.start]
            labels[-1] = chosen[part]
            return labels

        sums = totals(rows, self.embedding.steps, coefficients, (self.dimension + 1, self.embedding.width))
        apart = (n + m) * sums[:-1].astype(object) - n * sums[-1].astype(object)  # m S_X - n S_Y
        return self.lengths(mapped(self.embedding, apart) / max(n + m, 1) * self._unit, rows, chosen)

    @property
    def _unit(self) -> float:
        """What turns G into T."""
        return (self._n + self._m) / (self._n * self._m)

    def lengths(self, differences: Array, rows: Batch, chosen: NDArray[np.bool_]) -> Array:  # noqa: ARG002
        """Give T of each difference of means, shape (B + 1, F)."""
        length: Array = np.linalg.norm(differences, axis=1)
        return length

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far one row moves each of them."""
        if relation == "add_remove" or self.groups.by.name not in public:
            return math.inf
        if self.groups.sizes is not None:
            return self.embedding.diameter(public) / min(self.groups.sizes)
        if self.groups.rows is None:
            return math.inf
        return self.embedding.diameter(frozenset()) * self._unit

    def describe(self) -> str:
        """Name it in words."""
        return f"the MMD of rearranged rows ({self.embedding.named})"


def subset(n: int, total: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw n of some rows, every choice equally likely: each row on its own, and then the number is evened out."""
    drawn = rng.random(total, dtype=np.float32) * total < n
    surplus = int(drawn.sum()) - n
    if surplus:
        among = np.flatnonzero(drawn == (surplus > 0))
        drawn[rng.choice(among, abs(surplus), replace=False)] ^= True
    return drawn


def lowest(n: int, keys: Array) -> NDArray[np.bool_]:
    """Choose the rows with the n lowest keys: one row more or less changes the choice of one other at most."""
    drawn = np.zeros(len(keys), dtype=np.bool_)
    if n:
        drawn[np.argpartition(keys, n - 1)[:n]] = True
    return drawn


class Whitened(Rearranged):
    r"""The same with :math:`T = \min(c, \sqrt{nm/N\; d'(S + \gamma I)^{-1} d})`, S the pooled covariance.

    Whitening makes directions in which rows hardly vary count as much as others. S does not depend on the labels,
    so the statistics of all relabellings are exchangeable.
    """

    def __init__(
        self, groups: Groups, embedding: Embedding, permutations: int, epsilon: float, gamma: float | None = None
    ) -> None:
        super().__init__(groups, embedding, permutations)
        dimension, total = len(embedding.map), self._n + self._m
        part = _FEW_PART if dimension <= _FEW_DIMENSIONS else _MANY_PART
        usual = ridge(total, embedding.diameter(frozenset()), min(part * epsilon, _MOST))
        self.gamma = usual if gamma is None else gamma
        self.error = 2.0**-50 * dimension * (CLIP * dimension * (4 / self.gamma + 4) + total)

    def lengths(self, differences: Array, rows: Batch, chosen: NDArray[np.bool_]) -> Array:
        """Give T of each difference of means."""
        total, count = self._n + self._m, max(float(chosen.sum()), 1.0)
        sums = totals(
            rows,
            self.embedding.steps,
            lambda part: chosen[None, part].astype(np.float64),
            (1, self.embedding.width),
        )
        mean = mapped(self.embedding, sums)[0]
        scatter = image_of(self.embedding, gram_of(rows, self.embedding.steps, chosen, self.embedding.width))
        S = (scatter - np.outer(mean, mean / count)) / total
        L = np.linalg.cholesky(S + self.gamma * np.eye(len(S)))
        white = scipy.linalg.solve_triangular(L, differences.T, lower=True, check_finite=False)
        length: Array = np.minimum(math.sqrt(self._n * self._m / total) * np.linalg.norm(white, axis=0), CLIP)
        return length

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Bound how far one row moves each of them."""
        plain = super().sensitivity(relation, norm, public)
        if plain in {0.0, math.inf}:
            return plain
        n, m = self._n, self._m
        if self.groups.sizes is not None:
            moved, lifted = self.embedding.diameter(public), self.embedding.lift(public)
            return whitened_sensitivity(n, m, moved, lifted, self.gamma, CLIP)
        moved, lifted = self.embedding.diameter(frozenset()), self.embedding.lift(frozenset())
        return whitened_move((n + m) / math.sqrt(n * m) * moved, lifted, (n + m) * self.gamma, CLIP)

    def describe(self) -> str:
        """Name it in words."""
        return f"the whitened MMD of rearranged rows ({self.embedding.named})"
