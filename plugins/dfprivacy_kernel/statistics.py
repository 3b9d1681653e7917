"""What the one-release test measures; docs/explanation/kernel_two_sample.md proves the sensitivities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from dfprivacy.statistics import OfPermutations, OfRows
from dfprivacy_kernel.design import complete
from dfprivacy_kernel.embedding import ridge, whitened_move, whitened_sensitivity
from dfprivacy_kernel.sums import ROUNDING, differences, mapped, middle, moments_of, totals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.features import Batch
    from dfprivacy_kernel.design import Groups
    from dfprivacy_kernel.embedding import Array, Embedding

    Hashes = NDArray[np.uint64]

__all__ = [
    "CLIP",
    "SHARE_STEP",
    "Flipped",
    "PairedSeparation",
    "PairedSpread",
    "Rearranged",
    "Separation",
    "Spread",
    "Whitened",
    "drawn",
    "share_of",
    "subset",
    "times",
]

SHARE_STEP = 20
"""The ends of the interval for the share of the first group are whole multiples of 2^-20."""


def times(norm: float, dimension: int) -> float:
    """How many times larger a vector's norm can be than its largest coordinate."""
    return 1.0 if norm == math.inf else dimension ** (1 / norm)


class Separation(OfRows):
    r"""How far the two groups are apart: :math:`G = \|\sum_i (l_i - \bar l)\,\phi(x_i)\| = \frac{nm}{N} T`.

    In units of the largest part of a row's features that moves it, so that the price does not depend on the sizes.

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
        embedding: Embedding,
        share: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self.groups, self.embedding = groups, embedding
        unit = 1 << SHARE_STEP
        self.share = low, high = math.floor(share[0] * unit), math.ceil(share[1] * unit)
        self.part = 1.0
        if groups.by.public:
            self.part = max(groups.sizes) / sum(groups.sizes) if groups.sizes else max(high, unit - low) / unit
        self.columns = (groups.by, *embedding.columns)
        # A part is a half or more, and the price must be the same whatever it is.
        self.error = 2 * groups.most * len(embedding.map) * ROUNDING

    def value(self, rows: Batch) -> Array:
        """Compute it."""
        members = self.groups.members(rows)
        n, m = (int(size) for size in members.sum(axis=1))
        first, rest, unit = self._parts(n, m)
        each = self.embedding
        sums = totals(rows, each.steps, lambda part: members[:, part], (2, each.width)).astype(object)
        apart = rest * sums[0] - first * sums[1]
        surplus = rest * n - first * m  # 0 but where the share lies outside of the interval
        if surplus:
            apart = apart - surplus * middle(each)
        return np.array([float(np.linalg.norm(mapped(each, apart[None]))) / unit / self.part])

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
        known = self.groups.by.name in public
        fixed = known and self.groups.sizes is not None and relation == "replace_one"
        return self.embedding.diameter(public if fixed else frozenset()) / (1.0 if known else self.part)

    def describe(self) -> str:
        """Name it in words."""
        return f"the distance of the groups' mean embeddings ({self.embedding.named})"


class Spread(OfRows):
    r"""Moments of the pooled covariance C, N tr C, N ‖C‖, N λ; of private sizes n and m before them.

    Each is in units of the most that one row moves it by; of public sizes, of 2.

    Parameters
    ----------
    share : float
        The share of the rows that C is of; one row moves their moments by as much, which then stand for more rows.
    """

    def __init__(self, groups: Groups, embedding: Embedding, share: float = 1.0) -> None:
        self.groups, self.embedding, self.share = groups, embedding, share
        self.columns = (groups.by, *embedding.columns)
        counts = 0 if groups.sizes else 2
        self.unit = unit = 2.0 if groups.sizes else embedding.lift(frozenset())
        self.weights = np.array([1.0] * counts + [share / unit] * 3)
        self.shape = self.weights.shape
        self.error = groups.most * len(embedding.map) * ROUNDING / min(unit, 1.0)

    def value(self, rows: Batch) -> Array:
        """Compute them."""
        counts = [] if self.groups.sizes else [*self.groups.members(rows).sum(axis=1)]
        chosen = drawn(rows, self.embedding.columns, self.groups.chosen(rows), self.share)
        total, products = moments_of(rows, self.embedding.steps, self.embedding, chosen)
        scatter = products - np.outer(total, total) / max(chosen.sum(), 1)
        moments = np.array([np.trace(scatter), np.linalg.norm(scatter), np.linalg.eigvalsh(scatter)[-1]])
        return np.array([*counts, *(moments / self.share)]) * self.weights

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Bound how far one row moves them."""
        fixed = self.groups.sizes is not None and relation == "replace_one" and self.groups.by.name in public
        if self.share < 1:  # a row may be drawn, and not what comes in its place
            fixed &= {column.name for column in self.columns} <= public
        stretch = self.embedding.lift(public if fixed else frozenset()) / self.unit
        if self.groups.sizes is None:
            stretch = max(stretch, 1.0)
        return stretch * times(norm, self.dimension)

    def describe(self) -> str:
        """Name them in words."""
        counted = "" if self.groups.sizes else "the rows of each group, and "
        return f"{counted}the spread of the embedded rows ({self.embedding.named})"


_ROWS, _ROWS_EACH = 1 << 15, 1 << 8
_FINEST = 32  # a share is a whole multiple of 2^-32

# SplitMix64 (Steele, Lea and Flood 2014), with which neighbouring numbers have unlike hashes.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST = np.uint64(31)


def share_of(groups: Groups, embedding: Embedding, epsilon: float) -> float:
    """Tell what share of the rows tells enough of their spread.

    Parameters
    ----------
    groups : Groups
        Which rows are compared.
    embedding : Embedding
        What becomes of a row.
    epsilon : float
        Budget of the test: with less, noise is larger beside few rows.

    Returns
    -------
    float
        1 up to 2^15 rows, or 256 for each landmark if that is more, and 1/epsilon times as many for an epsilon
        below 1. Of more rows, what leaves as many. 1 where the number of rows is private.
    """
    if groups.rows is None:
        return 1.0
    enough = max(_ROWS, _ROWS_EACH * embedding.width) / min(1.0, epsilon)
    return min(1.0, -(-(enough * 2.0**_FINEST) // sum(groups.rows)) * 2.0**-_FINEST)


def drawn(rows: Batch, columns: Sequence[Column], chosen: NDArray[np.bool_], share: float) -> NDArray[np.bool_]:
    """Draw a share of the chosen rows, by their values in some columns.

    Parameters
    ----------
    rows : Batch
        The rows.
    columns : sequence of Column
        Those by whose values a row is drawn.
    chosen : ndarray of bool, shape (rows,)
        The rows of which to draw.
    share : float
        Chance of a row, a whole multiple of 2^-32.

    Returns
    -------
    ndarray of bool, shape (rows,)
        The rows that are drawn.
    """
    if share >= 1:
        return chosen
    places = np.flatnonzero(chosen)
    values = [(rows.values(c) if c.bounds is not None else rows.codes(c))[places] for c in columns]
    hashes = np.zeros(len(places), dtype=np.uint64)
    for each in values:
        hashes = _mixed(hashes + (each + 0.0).view(np.uint64))  # -0 is 0
    lots = _mixed(hashes + _copies(hashes, values)) >> np.uint64(64 - _FINEST)
    found = np.zeros(rows.size, dtype=np.bool_)
    found[places[lots < np.uint64(share * 2.0**_FINEST)]] = True
    return found


def _mixed(numbers: Hashes) -> Hashes:
    """Hash whole numbers of 64 bits, one to one; they are overwritten."""
    numbers += _GAMMA
    for shift, times in _MIX:
        numbers ^= numbers >> shift
        numbers *= times
    numbers ^= numbers >> _LAST
    return numbers


def _copies(hashes: Hashes, values: Sequence[NDArray[Any]]) -> Hashes:
    """Count for each row how many before it have the same values; other rows of the same hash do not matter."""
    copies = np.zeros(len(hashes), dtype=np.uint64)
    ordered = np.sort(hashes)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not twice.size:
        return copies
    near = np.minimum(np.searchsorted(twice, hashes), len(twice) - 1)
    places = np.flatnonzero(twice[near] == hashes)
    alike = [each[places] for each in values]
    order = np.lexsort(alike)
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = np.any([each[order][1:] != each[order][:-1] for each in alike], axis=0)
    starts = np.flatnonzero(first)
    since = np.arange(len(order)) - starts[np.cumsum(first) - 1]
    copies[places[order]] = since.astype(np.uint64)
    return copies


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
        sums, products = moments_of(rows, self.embedding.steps, self.embedding, chosen)
        S = (products - np.outer(sums, sums / count)) / total
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
        total, _ = moments_of(*self.differences(rows), self.embedding, self.present(rows))
        return np.array([np.linalg.norm(total)])

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
        _, scatter = moments_of(*self.differences(rows), self.embedding, self.present(rows))
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
