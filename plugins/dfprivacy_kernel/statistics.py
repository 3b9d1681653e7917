"""Statistics of the MMD test and of the permutation tests, with their sensitivities.

docs/explanation/kernel_two_sample.md proves the sensitivities.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from dfprivacy.features import Batch, number
from dfprivacy.statistics import OfPermutations, OfRows
from dfprivacy_kernel.embedding import ABOVE, ROUNDING, apply_map, weighted_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy_kernel.design import Groups
    from dfprivacy_kernel.embedding import Array, Embedding, Sample

    Hashes = NDArray[np.uint64]

__all__ = [
    "CLIP",
    "SHARE_STEP",
    "CovarianceMoments",
    "GroupStatistic",
    "PairedSeparation",
    "PermutedMMD",
    "Separation",
    "SignFlips",
    "WhitenedMMD",
    "norm_ratio",
    "random_subset",
    "ridge_for",
    "sample_mask",
    "sampled_share",
    "whitened_change_bound",
    "whitened_sensitivity",
]

SHARE_STEP = 20
"""The ends of the interval for the share of the first group are integer multiples of 2^-20."""


class GroupStatistic(OfRows):
    """Base class of statistics of embedded groups of rows, with sensitivity to changes of a row's values.

    Attributes
    ----------
    what : str
        Name of the statistic, in words.
    """

    what: str

    def __init__(self, groups: Groups, embedding: Embedding, shape: tuple[int, ...]) -> None:
        self.groups, self.embedding, self.shape = groups, embedding, shape
        self.columns = (*groups.columns, *embedding.columns)
        self.error = groups.max_rows * len(embedding.map) * ROUNDING

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Return the sensitivity to one row or pair; infinite if neighbours can differ in a row's group."""
        if not self.groups.group_is_fixed(relation, public):
            return math.inf
        return 0.0 if self.embedding.all_public(public) else self.row_bound(norm, public)

    def row_bound(self, norm: float, public: frozenset[str]) -> float:
        """Return an upper bound of the change of the statistic when private columns of one row or pair change."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return a description of the statistic."""
        return f"{self.what} ({self.embedding.names})"


def norm_ratio(norm: float, dimension: int) -> float:
    """Return the largest L1, L2 or L∞ norm of a vector whose coordinates lie in [-1, 1]."""
    return 1.0 if norm == math.inf else dimension ** (1 / norm)


class Separation(GroupStatistic):
    r"""Distance of the mean embeddings, scaled: :math:`G = \|\sum_i (l_i - \bar l)\,\phi(x_i)\| = \frac{nm}{N} T`.

    In units of the largest part of a row's features that moves it, so that the price does not depend on the sizes.

    One row's content moves G by √2 max(n, m)/N if the sizes are public, and by √2 if a row can change its group.
    Where the groups are public, and only which rows are complete is not, the mean label is held within an interval
    that was chosen before, and G moves by √2 times the largest part that it leaves to a row.

    Parameters
    ----------
    share : (float, float)
        The interval, in which the share of the first group lies with all but a negligible probability.
    """

    def __init__(self, groups: Groups, embedding: Embedding, share: tuple[float, float] = (0.0, 1.0)) -> None:
        super().__init__(groups, embedding, (1,))
        self.what = "the distance of the groups' mean embeddings"
        unit = 1 << SHARE_STEP
        self.share = low, high = math.floor(share[0] * unit), math.ceil(share[1] * unit)
        self.part = 1.0
        if all(column.public for column in groups.columns):
            self.part = max(groups.sizes) / sum(groups.sizes) if groups.sizes else max(high, unit - low) / unit
        # A part is a half or more, and the price must be the same whatever it is.
        self.error *= 2

    def value(self, rows: Batch) -> Array:
        """Compute the scaled distance G of the mean embeddings."""
        sample, members = self.groups.pooled_sample(rows, self.embedding)
        n, m = (int(size) for size in members.sum(axis=1))
        low, high = ((n + m) * end for end in self.share)
        whole = (n + m) << SHARE_STEP
        first = min(max(n << SHARE_STEP, low), high)  # the share of the first group, held within the interval
        rest = whole - first
        sums = weighted_sums(sample, lambda at: members[:, at].astype(np.float64), 2)
        apart = rest * sums[0] - first * sums[1]
        surplus = rest * n - first * m  # 0 but where the share lies outside of the interval
        if surplus:
            apart = apart - surplus * middle_row(self.embedding)
        return np.array([float(np.linalg.norm(apply_map(self.embedding, apart[None]))) / max(whole, 1) / self.part])

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the sensitivity of the distance to one row."""
        known = {column.name for column in self.groups.columns} <= public
        agreed = public if self.groups.rows_are_public(relation, public) else frozenset()
        return self.embedding.diameter(agreed) / (1.0 if known else self.part)


def middle_row(embedding: Embedding) -> Any:
    """Return the features, in integer multiples of 2^-26, of a public row: mid-bounds and first categories."""
    row = Batch(1, {number(c): np.array([c.mid]) for c in embedding.columns if c.bounds is not None})
    for column in embedding.columns:
        if column.bounds is None:
            row.mark(column, 0)
    return embedding.integer_features(row)[0].astype(np.int64).astype(object)


class CovarianceMoments(GroupStatistic):
    r"""Moments N tr C, N ‖C‖, N λ of the pooled covariance C, and the group sizes n and m if they are private.

    Of pairs, moments of the sum of zz', z their differences, and before them how many are complete where a value
    can be missing. Each is in units of the most that one row, or pair, moves it by; of public sizes, of 2.

    Parameters
    ----------
    share : float
        The share of the rows that C is of; one row moves their moments by as much, which then stand for more rows.
    """

    def __init__(self, groups: Groups, embedding: Embedding, share: float = 1.0) -> None:
        super().__init__(groups, embedding, (groups.n_private_counts + 3,))
        self.share = share
        self.unit = 2.0 if groups.sizes else embedding.eigenvalue_bound(frozenset())
        self.weights = np.array([1.0] * groups.n_private_counts + [share / self.unit] * 3)
        self.error /= min(self.unit, 1.0)
        of, rows = ("rows of each group", "embedded rows")
        if groups.paired:
            of, rows = ("pairs", "differences of paired rows")
        self.what = (
            f"the {of}, and the spread of the {rows}" if groups.n_private_counts else f"the spread of the {rows}"
        )

    def value(self, rows: Batch) -> Array:
        """Compute the trace, Frobenius norm and largest eigenvalue of the covariance, and private counts."""
        groups = self.groups
        if groups.paired:
            (sample,) = groups.samples(rows, self.embedding, paired=True)
            counts = [sample.size]
        else:
            sample, members = groups.pooled_sample(rows, self.embedding)
            counts = members.sum(axis=1).tolist()
            if self.share < 1:
                sample = sample.subset(sample_mask(rows.take(sample.first), self.embedding.columns, self.share))
        total, scatter = sample.moments()
        if not groups.paired:
            scatter = scatter - np.outer(total, total) / max(sample.size, 1)
        moments = np.array([np.trace(scatter), np.linalg.norm(scatter), np.linalg.eigvalsh(scatter)[-1]])
        return np.array([*counts[: groups.n_private_counts], *(moments / self.share)]) * self.weights

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Return the sensitivity of the moments and counts to one row or pair."""
        groups = self.groups
        if groups.paired and not groups.group_is_fixed(relation, public):
            return math.inf
        fixed = groups.rows_are_public(relation, public)
        agreed = fixed
        if self.share < 1:  # a row may be drawn, and not what comes in its place
            agreed &= self.embedding.all_public(public)
        stretch = (
            self.embedding.eigenvalue_bound(public if agreed else frozenset(), 2 if groups.paired else 1)
            / self.unit
        )
        if groups.n_private_counts and not fixed:
            stretch = max(stretch, 1.0)
        return stretch * norm_ratio(norm, self.dimension)


_SHARE_ROWS, _ROWS_PER_LANDMARK = 1 << 15, 1 << 8
_SHARE_BITS = 32  # a share is a whole multiple of 2^-32

# SplitMix64 (Steele, Lea and Flood 2014), with which neighbouring numbers have unlike hashes.
_HASH_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_HASH_FACTORS = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_HASH_SHIFT = np.uint64(31)


def sampled_share(groups: Groups, embedding: Embedding, epsilon: float) -> float:
    """Return the share of the rows that suffices to estimate the moments of their covariance.

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
        below 1. Of more rows, what leaves as many. 1 of pairs, and where the number of rows is private.
    """
    if groups.rows is None or groups.paired:
        return 1.0
    enough = max(_SHARE_ROWS, _ROWS_PER_LANDMARK * embedding.width) / min(1.0, epsilon)
    return min(1.0, -(-(enough * 2.0**_SHARE_BITS) // sum(groups.rows)) * 2.0**-_SHARE_BITS)


def sample_mask(rows: Batch, columns: Sequence[Column], share: float) -> NDArray[np.bool_]:
    """Return a mask that samples a share of the rows, by a hash of their values in some columns.

    Parameters
    ----------
    rows : Batch
        The rows.
    columns : sequence of Column
        Those by whose values a row is drawn.
    share : float
        Chance of a row, a whole multiple of 2^-32.

    Returns
    -------
    ndarray of bool, shape (rows,)
        The rows that are drawn.
    """
    read = [rows.values(c) if c.bounds is not None else rows.codes(c) for c in columns]
    values = [each.astype(np.float64) + 0.0 for each in read]  # -0 is 0
    hashes = np.zeros(rows.size, dtype=np.uint64)
    for each in values:
        hashes = _hash64(hashes + each.view(np.uint64))
    ordered = np.sort(hashes)
    again = np.flatnonzero(np.isin(hashes, ordered[1:][ordered[1:] == ordered[:-1]]))
    copies = np.zeros(rows.size, dtype=np.uint64)
    copies[again] = _n_earlier_copies([each[again] for each in values])
    lots = _hash64(hashes + copies) >> np.uint64(64 - _SHARE_BITS)
    return np.asarray(lots < np.uint64(share * 2.0**_SHARE_BITS))


def _hash64(numbers: Hashes) -> Hashes:
    """Return one-to-one hashes of 64-bit integers."""
    numbers = numbers + _HASH_INCREMENT
    for shift, factor in _HASH_FACTORS:
        numbers = (numbers ^ (numbers >> shift)) * factor
    return numbers ^ (numbers >> _HASH_SHIFT)


def _n_earlier_copies(values: Sequence[Array]) -> Hashes:
    """Return for each row the number of earlier rows with the same values."""
    order = np.lexsort(values)
    ordered = np.array(values)[:, order]
    first = np.r_[True, (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)]
    starts = np.flatnonzero(first)
    copies = np.zeros(len(order), dtype=np.uint64)
    copies[order] = np.arange(len(order)) - starts[np.cumsum(first[: len(order)]) - 1]
    return copies


class PermutedMMD(GroupStatistic, OfPermutations):
    """MMD statistic T of two groups, and its values after B random permutations of the group labels.

    Where it is private which rows are complete, T is (N/nm) G with n and m of all rows, and G of the complete ones.
    """

    what = "the MMD under permuted group labels"

    def __init__(self, groups: Groups, embedding: Embedding, permutations: int) -> None:
        super().__init__(groups, embedding, (permutations + 1,))
        self._n, self._m = groups.divisors
        self._unit = (self._n + self._m) / (self._n * self._m)  # what turns G into T
        self.error = len(embedding.map) * ROUNDING

    def value(self, rows: Batch, rng: np.random.Generator) -> Array:  # type: ignore[override]
        """Compute T for the true labels, and for B permutations of them."""
        sample, members = self.groups.pooled_sample(rows, self.embedding)
        n, m = (int(size) for size in members.sum(axis=1))
        firsts = np.zeros((self.dimension, -(-sample.size // 8)), dtype=np.uint8)  # one bit a row
        firsts[0] = np.packbits(members[0])
        for row in firsts[1:]:
            drawn = (
                random_subset(n, n + m, rng)
                if self.groups.sizes
                else lowest_keys(n, rng.random(rows.size)[sample.first])
            )
            row[:] = np.packbits(drawn)

        def coefficients(at: slice) -> Array:
            bits = np.unpackbits(firsts[:, at.start // 8 : -(-at.stop // 8)], axis=1)[:, : at.stop - at.start]
            return np.vstack([bits, np.ones(bits.shape[1])])

        sums = weighted_sums(sample, coefficients, self.dimension + 1)
        apart = apply_map(self.embedding, (n + m) * sums[:-1] - n * sums[-1])  # m S_X - n S_Y
        return self.lengths(apart / max(n + m, 1) * self._unit, sample)

    def lengths(self, differences: Array, sample: Sample) -> Array:  # noqa: ARG002
        """Return T, the norm, of each difference of means; differences have the shape (B + 1, F)."""
        length: Array = np.linalg.norm(differences, axis=1)
        return length

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return an upper bound of the change that one row makes in each of the B + 1 statistics."""
        if not self.groups.group_is_fixed(relation, public) or not (self.groups.sizes or self.groups.rows):
            return math.inf
        if self.groups.sizes is not None:
            return self.embedding.diameter(public) / min(self.groups.sizes)
        return self.embedding.diameter(frozenset()) * self._unit


def random_subset(n: int, total: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask of n random rows of `total`, every choice equally likely."""
    drawn = rng.random(total, dtype=np.float32) * total < n
    surplus = int(drawn.sum()) - n
    if surplus:
        among = np.flatnonzero(drawn == (surplus > 0))
        drawn[rng.choice(among, abs(surplus), replace=False)] ^= True
    return drawn


def lowest_keys(n: int, keys: Array) -> NDArray[np.bool_]:
    """Return a mask of the n smallest keys; an additional key removes at most one other from the selection."""
    drawn = np.zeros(len(keys), dtype=np.bool_)
    if n:
        drawn[np.argpartition(keys, n - 1)[:n]] = True
    return drawn


CLIP = 8.0
"""The largest whitened statistic: far above what chance gives a few dimensions."""

_FEW_RATIO, _MANY_RATIO, _MAX_RATIO = 0.05, 0.02, 0.1  # diameter / √(N γ): the first two in parts of epsilon
_FEW_DIMENSIONS = 30


class WhitenedMMD(PermutedMMD):
    r"""MMD statistic with the mean difference whitened by the pooled covariance, and its permutations.

    It is :math:`T = \min(c, \sqrt{nm/N\; d'(S + \gamma I)^{-1} d})`.

    Whitening makes directions in which rows hardly vary count as much as others. S does not depend on the labels,
    so the statistics of all relabellings are exchangeable.
    """

    what = "the whitened MMD under permuted group labels"

    def __init__(
        self, groups: Groups, embedding: Embedding, permutations: int, epsilon: float, gamma: float | None = None
    ) -> None:
        super().__init__(groups, embedding, permutations)
        dimension, total = len(embedding.map), self._n + self._m
        part = _FEW_RATIO if dimension <= _FEW_DIMENSIONS else _MANY_RATIO
        usual = ridge_for(total, embedding.diameter(frozenset()), min(part * epsilon, _MAX_RATIO))
        self.gamma = usual if gamma is None else gamma
        self.error = 2.0**-50 * dimension * (CLIP * dimension * (4 / self.gamma + 4) + total)

    def lengths(self, differences: Array, sample: Sample) -> Array:
        """Return the whitened T of each difference of means."""
        total = self._n + self._m
        sums, products = sample.moments()
        S = (products - np.outer(sums, sums / max(sample.size, 1))) / total
        L = np.linalg.cholesky(S + self.gamma * np.eye(len(S)))
        white = scipy.linalg.solve_triangular(L, differences.T, lower=True, check_finite=False)
        length: Array = np.minimum(math.sqrt(self._n * self._m / total) * np.linalg.norm(white, axis=0), CLIP)
        return length

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Return an upper bound of the change that one row makes in each of the B + 1 statistics."""
        plain = super().sensitivity(relation, norm, public)
        if plain in {0.0, math.inf}:
            return plain
        n, m = self._n, self._m
        agreed = public if self.groups.sizes else frozenset()
        moved, lifted = self.embedding.diameter(agreed), self.embedding.eigenvalue_bound(agreed)
        if self.groups.sizes:
            return whitened_sensitivity(n, m, moved, lifted, self.gamma, CLIP)
        return whitened_change_bound((n + m) / math.sqrt(n * m) * moved, lifted, (n + m) * self.gamma, CLIP)


def ridge_for(total: int, diameter: float, part: float) -> float:
    """Return the ridge γ such that the diameter equals `part` times √(N²γ/(N-1))."""
    return diameter**2 * (total - 1) / (total**2 * part**2)


def whitened_sensitivity(n: int, m: int, moved: float, lifted: float, gamma: float, clip: float) -> float:
    """Return the sensitivity of min(T, clip) to one row's features, for all group labels.

    Parameters
    ----------
    n, m : int
        Rows in each group.
    moved, lifted : float
        How far the row's features move, and its outer product about the mean of the others; see `eigenvalue_bound`.
    gamma : float
        The ridge.
    clip : float
        The largest T.
    """
    total = n + m
    most = min(clip, math.sqrt(total))  # T² is a part of a sum of squares that is N
    return whitened_change_bound(
        math.sqrt(max(n / m, m / n)) * moved, lifted * (total - 1) / total, total * gamma, most
    )


def whitened_change_bound(shifted: float, lifted: float, ridge: float, most: float) -> float:
    """Return an upper bound of the change of min(√(g'W⁻¹g), most) when g and W change.

    Parameters
    ----------
    shifted : float
        At least the length by which g moves.
    lifted : float
        At least the largest eigenvalue of what is added to W, or taken from it.
    ridge : float
        At most the least eigenvalue of either W.
    most : float
        The largest value.
    """
    root = math.sqrt(1 + lifted / ridge)
    shift = shifted / math.sqrt(ridge)
    if shift >= most:
        return most * ABOVE
    # most - (most - shift)/root, where nothing cancels
    grown = lifted / ridge / (1 + root)
    return (most * grown + shift) / root * ABOVE


class PairedSeparation(GroupStatistic):
    """Norm of the sum of the embedded differences of pairs of rows."""

    what, part = "the mean difference of paired rows", 1.0

    def __init__(self, groups: Groups, embedding: Embedding) -> None:
        super().__init__(groups, embedding, (1,))

    def value(self, rows: Batch) -> Array:
        """Compute the norm of the sum of the embedded differences."""
        (sample,) = self.groups.samples(rows, self.embedding, paired=True)
        return np.array([np.linalg.norm(sample.total())])

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the sensitivity of the norm to one pair."""
        if not self.groups.group_is_fixed(relation, public):
            return math.inf
        moved = 2 * self.embedding.diameter(public)
        if self.groups.rows_are_public(relation, public):
            return moved
        return max(moved, self.embedding.diameter(frozenset()))


class SignFlips(PairedSeparation, OfPermutations):
    """MMD statistic T of paired rows, and its values after B random sign flips of the pair differences."""

    what = "the mean difference of paired rows, and those under flipped signs"

    def __init__(self, groups: Groups, embedding: Embedding, permutations: int) -> None:
        super().__init__(groups, embedding)
        self.shape = (permutations + 1,)

    def value(self, rows: Batch, rng: np.random.Generator) -> Array:  # type: ignore[override]
        """Compute T for the true differences, and for B random sign flips of them."""
        sample, complete = self.groups.pair_differences(rows, self.embedding)

        def signs(at: slice) -> Array:
            drawn = rng.integers(2, size=(self.dimension, at.stop - at.start), dtype=np.int8)
            drawn[0] = 1
            return np.where(drawn == 1, 1.0, -1.0) * complete[at]

        length: Array = np.linalg.norm(
            apply_map(self.embedding, weighted_sums(sample, signs, self.dimension)), axis=1
        )
        return length / self.groups.divisors[0]

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Return an upper bound of the change that one pair makes in each of the B + 1 statistics."""
        return super().sensitivity(relation, norm, public) / self.groups.divisors[0]
