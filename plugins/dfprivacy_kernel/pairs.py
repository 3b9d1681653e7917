"""Pairs: the i-th row of one table and the i-th row of another are one person, whose rows change together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy.statistics import OfPermutations, OfRows
from dfprivacy_kernel.moments import Party, domain_of, scales_apart, symmetric
from dfprivacy_kernel.sums import ROUNDING, differences, gram_of, image_of, mapped, totals

if TYPE_CHECKING:
    from dfprivacy import Column, NoisyValue
    from dfprivacy._table.batch import Batch
    from dfprivacy_kernel.embedding import Array, Embedding, Features

__all__ = ["Flipped", "PairedSeparation", "PairedSpread", "PairedSummary"]


class _OfPairs(OfRows):
    """A statistic of the differences z of n pairs of embedded rows."""

    def __init__(self, by: Column, embedding: Embedding, pairs: int) -> None:
        self.by, self.embedding, self.pairs = by, embedding, pairs
        self.columns = (by, *embedding.columns)
        self.error = 2 * pairs * len(embedding.map) * ROUNDING

    def moves(self, relation: str, public: frozenset[str]) -> float:
        """How far apart two pairs' differences can be."""
        if relation == "add_remove" or self.by.name not in public:
            return math.inf
        return 2 * self.embedding.diameter(public)

    def describe(self) -> str:
        """Name it in words."""
        return f"{self.what} of paired rows ({self.embedding.named})"

    what = "the mean difference"


class PairedSeparation(_OfPairs):
    """The length of the sum of z, which one pair moves by twice the diameter."""

    shape = (1,)

    def value(self, rows: Batch) -> Array:
        """Compute it."""
        half, values = differences(rows, self.embedding)
        sums = totals(half, values, lambda part: np.ones((1, part.stop - part.start)), (1, self.embedding.width))
        return np.asarray(np.linalg.norm(mapped(self.embedding, sums), axis=1), dtype=np.float64)

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far one pair moves it."""
        return self.moves(relation, public)


class PairedSpread(_OfPairs):
    """Half the trace, Frobenius norm and largest eigenvalue of the sum of zz': one pair moves each by 1 at most."""

    shape = (3,)
    weights = 0.5
    what = "the second moment"

    def value(self, rows: Batch) -> Array:
        """Compute them."""
        half, values = differences(rows, self.embedding)
        every = np.ones(half.size, dtype=np.bool_)
        scatter = image_of(self.embedding, gram_of(half, values, every, self.embedding.width))
        largest = np.linalg.eigvalsh(scatter)[-1]
        return np.array([np.trace(scatter), np.linalg.norm(scatter), largest]) / 2

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Bound how far one pair moves them."""
        if self.moves(relation, public) == math.inf:
            return math.inf
        return self.embedding.lift(public, rows=2) / 2 * (1.0 if norm == math.inf else 3 ** (1 / norm))


class Flipped(_OfPairs, OfPermutations):
    """T, and T after the signs of the differences are drawn anew, B times."""

    what = "the mean difference, and those of exchanged pairs,"

    def __init__(self, by: Column, embedding: Embedding, pairs: int, permutations: int) -> None:
        super().__init__(by, embedding, pairs)
        self.shape = (permutations + 1,)

    def value(self, rows: Batch, chance: np.random.Generator) -> Array:  # type: ignore[override]
        """Compute them."""
        half, values = differences(rows, self.embedding)

        def signs(part: slice) -> Array:
            drawn = chance.integers(2, size=(self.dimension, part.stop - part.start), dtype=np.int8)
            drawn[0] = 1
            return np.where(drawn == 1, 1.0, -1.0)

        sums = totals(half, values, signs, (self.dimension, self.embedding.width))
        length: Array = np.linalg.norm(mapped(self.embedding, sums), axis=1)
        length /= self.pairs
        return length

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far one pair moves each of them."""
        return self.moves(relation, public) / self.pairs


class PairedSummary(_OfPairs):
    """Mean and second moment of z/2, which lies where features do; each over the noise it is to have."""

    what = "mean and second moment"

    def __init__(self, by: Column, embedding: Embedding, pairs: int, kind: Features) -> None:
        super().__init__(by, embedding, pairs)
        self.J = len(embedding.map)
        domain, diameter = domain_of(kind, self.J)
        self.noise = scales_apart(domain, self.J, diameter, pairs)
        self.weights = 1 / np.concatenate([np.full(self.J, self.noise.difference), self.noise.of_second(self.J)])
        self.shape = self.weights.shape

    def value(self, rows: Batch) -> Array:
        """Compute them."""
        half, values = differences(rows, self.embedding)
        total = totals(half, values, lambda part: np.ones((1, part.stop - part.start)), (1, self.embedding.width))
        gram = gram_of(half, values, np.ones(half.size, dtype=np.bool_), self.embedding.width)
        moment = image_of(self.embedding, gram)[np.triu_indices(self.J)]
        mean = mapped(self.embedding, total)[0]
        found: Array = np.concatenate([mean / 2, moment / 4]) / self.pairs
        return found * self.weights

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Bound how far one pair moves them; see `dfprivacy_kernel.moments.Summaries`."""
        moved = self.moves(relation, public)
        if moved in {0.0, math.inf}:
            return moved
        stretch = 1.0 if self.embedding.centre else max(1.0, self.embedding.radius) ** 2
        return stretch * (math.sqrt(self.dimension) if norm == 1 else 1.0)

    def read(self, measured: NoisyValue) -> Party:
        """Give what a measurement says of z/2."""
        sigma = float(measured.scales[0]) / self.noise.difference
        values, J = measured.values, self.J
        return Party(values[:J], symmetric(values[J:], J), self.noise.times(sigma), self.pairs)
