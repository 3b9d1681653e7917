"""Pairs: the i-th row of one table and the i-th row of another are one person, whose rows change together.

A pair with a missing value has a difference of 0, and is not counted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.statistics import OfPermutations, OfRows
from dfprivacy_kernel.groups import complete
from dfprivacy_kernel.moments import COUNT_NOISE, Party, domain_of, reach_of, scales_apart, symmetric
from dfprivacy_kernel.statistics import times
from dfprivacy_kernel.sums import ROUNDING, differences, gram_of, image_of, mapped, totals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, NoisyValue
    from dfprivacy.features import Batch
    from dfprivacy_kernel.embedding import Array, Embedding, Features

__all__ = ["Flipped", "PairedSeparation", "PairedSpread", "PairedSummary"]


class _OfPairs(OfRows):
    """A statistic of the differences z of n pairs of embedded rows."""

    def __init__(self, by: Column, embedding: Embedding, pairs: int, given: Sequence[Column] = ()) -> None:
        self.by, self.embedding, self.pairs, self.given = by, embedding, pairs, tuple(given)
        self.columns = (by, *embedding.columns)
        self.error = 2 * pairs * len(embedding.map) * ROUNDING

    def present(self, rows: Batch) -> NDArray[np.bool_]:
        """Tell which pairs are complete."""
        return np.asarray(complete(rows, self.given).reshape(2, -1).all(axis=0), dtype=np.bool_)

    def differences(self, rows: Batch) -> tuple[Any, Callable[[Any], Array]]:
        """Pair the rows, see `dfprivacy_kernel.sums.differences`."""
        return differences(rows, self.embedding, self.present(rows))

    def moves(self, relation: str, public: frozenset[str]) -> float:
        """How far apart two pairs' differences can be."""
        if relation == "add_remove" or self.by.name not in public:
            return math.inf
        moved = 2 * self.embedding.diameter(public)
        return max(moved, self.embedding.diameter(frozenset())) if self._may_vanish(public) else moved

    def _may_vanish(self, public: frozenset[str]) -> bool:
        """Whether it is private which pairs are complete."""
        return any(column.name not in public for column in self.given)

    def describe(self) -> str:
        """Name it in words."""
        return f"{self.what} of paired rows ({self.embedding.named})"

    what = "the mean difference"


class PairedSeparation(_OfPairs):
    """The length of the sum of z, which one pair moves by twice the diameter."""

    shape = (1,)

    def value(self, rows: Batch) -> Array:
        """Compute it."""
        half, values = self.differences(rows)
        sums = totals(half, values, lambda part: np.ones((1, part.stop - part.start)), (1, self.embedding.width))
        return np.asarray(np.linalg.norm(mapped(self.embedding, sums), axis=1), dtype=np.float64)

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far one pair moves it."""
        return self.moves(relation, public)


class PairedSpread(_OfPairs):
    """Half the trace, Frobenius norm and largest eigenvalue of the sum of zz': one pair moves each by 1 at most.

    Before them, where a value can be missing, the number of complete pairs.
    """

    what = "the second moment"

    def __init__(self, by: Column, embedding: Embedding, pairs: int, given: Sequence[Column] = ()) -> None:
        super().__init__(by, embedding, pairs, given)
        unit = embedding.lift(frozenset()) if given else 2.0
        self.unit = unit
        self.weights = np.array([*([1.0] if given else []), *[1 / unit] * 3])
        self.shape = (3 + bool(given),)
        self.error /= min(unit, 1.0)

    def value(self, rows: Batch) -> Array:
        """Compute them."""
        half, values = self.differences(rows)
        every = np.ones(half.size, dtype=np.bool_)
        scatter = image_of(self.embedding, gram_of(half, values, every, self.embedding.width))
        moments = [np.trace(scatter), np.linalg.norm(scatter), np.linalg.eigvalsh(scatter)[-1]]
        counts = [float(self.present(rows).sum())] if self.given else []
        return np.array([*counts, *moments]) * self.weights

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Bound how far one pair moves them."""
        if self.moves(relation, public) == math.inf:
            return math.inf
        agreed = frozenset() if self._may_vanish(public) else public
        stretch = self.embedding.lift(agreed, rows=2) / self.unit
        return max(stretch, 1.0 if self._may_vanish(public) else 0.0) * times(norm, self.dimension)


class Flipped(_OfPairs, OfPermutations):
    """T, and T after the signs of the differences are drawn anew, B times."""

    what = "the mean difference, and those of exchanged pairs,"

    def __init__(
        self, by: Column, embedding: Embedding, pairs: int, permutations: int, given: Sequence[Column] = ()
    ) -> None:
        super().__init__(by, embedding, pairs, given)
        self.shape = (permutations + 1,)

    def value(self, rows: Batch, rng: np.random.Generator) -> Array:  # type: ignore[override]
        """Compute them."""
        half, values = self.differences(rows)

        def signs(part: slice) -> Array:
            drawn = rng.integers(2, size=(self.dimension, part.stop - part.start), dtype=np.int8)
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
    """Mean and second moment of z/2, which lies where features do; each over the noise it is to have.

    After them, where a value can be missing, the number of complete pairs, which comes free.
    """

    what = "mean and second moment"

    def __init__(
        self, by: Column, embedding: Embedding, pairs: int, kind: Features, given: Sequence[Column] = ()
    ) -> None:
        super().__init__(by, embedding, pairs, given)
        self.J, self.kind = len(embedding.map), kind
        domain, diameter = domain_of(kind, self.J)
        self.noise = scales_apart(domain, self.J, diameter, pairs)
        counts = [COUNT_NOISE / pairs] if given else []
        noise = [np.full(self.J, self.noise.difference), self.noise.of_second(self.J), np.array(counts)]
        self.weights = 1 / np.concatenate(noise)
        self.shape = self.weights.shape

    def value(self, rows: Batch) -> Array:
        """Compute them."""
        half, values = self.differences(rows)
        total = totals(half, values, lambda part: np.ones((1, part.stop - part.start)), (1, self.embedding.width))
        gram = gram_of(half, values, np.ones(half.size, dtype=np.bool_), self.embedding.width)
        moment = image_of(self.embedding, gram)[np.triu_indices(self.J)]
        mean = mapped(self.embedding, total)[0]
        counts = [self.present(rows).sum()] if self.given else []
        sums: Array = np.concatenate([mean / 2, moment / 4, counts])
        return sums / self.pairs * self.weights

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
        mean, upper, count = np.split(measured.values, [self.J, self.dimension - bool(self.given)])
        party = Party(
            mean, symmetric(upper, self.J), self.noise.times(sigma), self.pairs, reach=reach_of(self.kind, self.J)
        )
        return party.of_complete(float(count[0]), sigma * COUNT_NOISE) if self.given else party
