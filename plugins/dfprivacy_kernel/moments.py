"""Measurements of the moments test: means and second moments of features at a few public locations.

The means locate a difference, the second moment says how much of it is due to sampling; both are released together
by one draw of Gaussian noise. Where values can be missing, so are the numbers of complete rows, for nothing.
docs/explanation/kernel_two_sample.md proves the sensitivities.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import chdtrc

from dfprivacy.schema import UNDECLARED
from dfprivacy_kernel.embedding import ROUNDING
from dfprivacy_kernel.statistics import GroupStatistic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import NoisyValue
    from dfprivacy.features import Batch
    from dfprivacy_kernel.design import Groups
    from dfprivacy_kernel.embedding import Array, Embedding, Features

__all__ = [
    "COUNT_NOISE",
    "FEW",
    "Conclusion",
    "Contrast",
    "OneSampleMoments",
    "Party",
    "Scales",
    "TwoSampleMoments",
    "contrast_test",
    "max_feature_difference",
    "noise_scales",
    "parties_test",
    "symmetric_matrix",
]

_COUNT_SDS = 5.0  # standard deviations by which a noisy number of rows must exceed 0
_NOISE_RATIO = 2.0  # of the noise of the pooled mean to that of the difference
COUNT_NOISE = math.sqrt(2)
"""Noise in a number of complete rows, for noise of standard deviation 1 at an L2 sensitivity of 1."""

_MEANS_PART = 0.5  # of the squared budget, for the means, where the second moments are not free
FEW = f"Complete rows are too few for the noise in their number: the answer is unreliable. {UNDECLARED}"
"""Note on an unreliable answer."""


def feature_diameter(kind: Features, J: int) -> float:
    """Return the largest distance between two feature vectors with J features, ignoring rounding errors."""
    return {"me": math.sqrt(J), "scf": 2.0, "nystrom": math.sqrt(2)}[kind]


def max_feature_difference(kind: Features, J: int) -> float:
    """Return the largest difference of two rows in any one of J features."""
    return {"me": 1.0, "scf": math.sqrt(8 / J), "nystrom": math.sqrt(2)}[kind]


@dataclass(frozen=True)
class Scales:
    """Standard deviations of the noise in mean features and in second moments of features.

    Attributes
    ----------
    difference, pooled : float
        Of each coordinate of the difference of the means, and of the pooled mean.
    diagonal, beside : float
        Of the entries of the second moment on the diagonal, and beside it.
    """

    difference: float
    pooled: float
    diagonal: float
    beside: float

    def scaled_by(self, sigma: float) -> Scales:
        """Return the standard deviations multiplied by a noise factor sigma."""
        return Scales(*(sigma * part for part in astuple(self)))

    def second_moment(self, J: int) -> Array:
        """Return the noise standard deviations of the upper triangle of the second moment, row by row."""
        rows, columns = np.triu_indices(J)
        return np.where(rows == columns, self.diagonal, self.beside)


def noise_scales(kind: Features, J: int, *sizes: int) -> Scales:
    """Return the noise standard deviations of mean differences, pooled means and second moments, for unit noise.

    Parameters
    ----------
    kind : {"me", "scf", "nystrom"}
        What the J features are: they lie in [-1/2, 1/2]^J, in a ball, or in a set of known diameter.
    J : int
        Number of features.
    *sizes : int
        Rows in each group; of one party alone, the difference is its own mean.
    """
    part = _MEANS_PART if kind == "nystrom" else 1.0
    diameter, smaller, rows = feature_diameter(kind, J), min(sizes), sum(sizes)
    difference, pooled = diameter / (smaller * math.sqrt(part)), math.inf
    if len(sizes) > 1:
        difference *= math.hypot(1, smaller / (rows * _NOISE_RATIO))
        pooled = _NOISE_RATIO * difference
    if kind == "me":
        return Scales(difference, pooled, J / (2 * rows), J / (2 * rows))
    if kind == "scf":
        diagonal = math.sqrt(2) * diameter**2 / (2 * rows)  # 2√2 B² at B = half the diameter
    else:
        diagonal = diameter / (rows * math.sqrt(1 - _MEANS_PART))
    return Scales(difference, pooled, diagonal, diagonal / math.sqrt(2))


@dataclass(frozen=True)
class Party:
    """Noisy mean and second moment of the features of one party's rows, with the scales of their noise.

    Attributes
    ----------
    mean, second : ndarray of shape (J,) and (J, J)
        Of complete rows.
    noise : Scales
        Their noise.
    size : float
        Complete rows; noisy where that is private.
    count_noise : float
        Standard deviation of the noise in their number.
    reach : float
        How far apart two rows can be in one feature.
    """

    mean: Array
    second: Array
    noise: Scales
    size: float
    count_noise: float = 0.0
    reach: float = 1.0

    def for_complete_rows(self, share: float, count_noise: float) -> Party:
        """Return the moments divided by the number of complete rows, in place of the number of all rows."""
        size = max(1.0, share * self.size)
        all_to_complete = self.size / size
        return Party(
            self.mean * all_to_complete,
            self.second * all_to_complete,
            self.noise.scaled_by(all_to_complete),
            size,
            count_noise,
            self.reach,
        )

    @property
    def informative(self) -> bool:
        """Whether the number of complete rows is clearly larger than its noise."""
        return self.size > _COUNT_SDS * self.count_noise


@dataclass(frozen=True)
class Contrast:
    """Noisy difference of two groups' mean features, with the pooled mean and second moment of the features.

    Attributes
    ----------
    difference, pooled : ndarray of shape (J,)
        The means; a row with a missing value counts as 0 in them, and in the second moment.
    second : ndarray of shape (J, J)
        Second moment.
    noise : Scales
        Their noise.
    rows : tuple of float
        What the sums were divided by.
    sizes : tuple of float
        Complete rows of each group; noisy where these are private.
    count_noise : float
        Standard deviation of the noise in each.
    reach : float
        How far apart two rows can be in one feature.
    """

    difference: Array
    pooled: Array
    second: Array
    noise: Scales
    rows: tuple[float, ...]
    sizes: tuple[float, ...]
    count_noise: float = 0.0
    reach: float = 1.0


class _FeatureMoments(GroupStatistic):
    """Base class of statistics of means and second moments of features, with a joint L2 sensitivity of 1.

    After them, where a value can be missing, come the numbers of complete rows, or pairs.
    """

    def __init__(self, groups: Groups, embedding: Embedding, kind: Features, sizes: Sequence[int]) -> None:
        J = len(embedding.map)
        self.J, self.reach, self.diameter = J, max_feature_difference(kind, J), feature_diameter(kind, J)
        self.sizes, self.noise = sizes, noise_scales(kind, J, *sizes)
        means = [self.noise.difference, self.noise.pooled][: len(sizes)]
        spreads = [np.repeat(means, J), self.noise.second_moment(J), np.full(groups.n_private_counts, COUNT_NOISE)]
        self.weights = 1 / np.concatenate(spreads)
        super().__init__(groups, embedding, self.weights.shape)

    def row_bound(self, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return an upper bound of the change of the statistic when one row or pair changes."""
        stretch = 1.0  # the corners of a cube are on the grid, while rounding may put a row outside of a ball
        if not self.embedding.centre:
            stretch = max(1.0, self.embedding.radius**2, self.embedding.diameter(frozenset()) / self.diameter)
        return stretch * (math.sqrt(self.dimension) if norm == 1 else 1.0)

    def _unpack(self, measured: NoisyValue) -> tuple[list[Array], Array, Array, float]:
        """Split a measurement into means, second moment, numbers of complete rows, and the noise factor."""
        *means, upper, counts = np.split(
            measured.values,
            np.cumsum([*[self.J] * len(self.sizes), self.J * (self.J + 1) // 2]),
        )
        return means, symmetric_matrix(upper, self.J), counts, float(measured.scales[0]) / self.noise.difference


class TwoSampleMoments(_FeatureMoments):
    """Statistic with the difference of mean features, pooled moments and numbers of complete rows of two groups."""

    def __init__(self, groups: Groups, embedding: Embedding, kind: Features) -> None:
        super().__init__(groups, embedding, kind, groups.divisors)
        self.what = f"differences at {self.J} location{'s' * (self.J > 1)}, and second moments"

    def value(self, rows: Batch) -> Array:
        """Compute the weighted difference of means, pooled moments and numbers of complete rows."""
        samples = self.groups.samples(rows, self.embedding, paired=False)
        (first, products), (second, others) = (sample.moments() for sample in samples)
        n, m = self.sizes
        moment = (products + others)[np.triu_indices(self.J)]
        counts = np.array([sample.size for sample in samples][: self.groups.n_private_counts])
        means = [first / n - second / m, (first + second) / (n + m), moment / (n + m), counts]
        return np.concatenate(means) * self.weights

    def noisy_contrast(self, measured: NoisyValue) -> Contrast:
        """Return a measurement of this statistic as a `Contrast`."""
        (d, u), second, counts, sigma = self._unpack(measured)
        sizes = tuple(map(float, self.sizes))
        contrast = Contrast(d, u, second, self.noise.scaled_by(sigma), sizes, sizes, reach=self.reach)
        if self.groups.sizes:
            return contrast
        return replace(contrast, sizes=tuple(np.maximum(1.0, counts).tolist()), count_noise=sigma * COUNT_NOISE)


class OneSampleMoments(_FeatureMoments):
    """Statistic with the mean and second moment of features of rows, or of halved differences of pairs.

    Such a half lies where features do.
    """

    def __init__(self, groups: Groups, embedding: Embedding, kind: Features) -> None:
        super().__init__(groups, embedding, kind, groups.divisors[:1])
        self.error = 2 * self.sizes[0] * self.J * ROUNDING
        of = "differences of pairs at " if groups.paired else ""
        self.what = f"means of {of}{self.J} feature{'s' * (self.J > 1)}, and second moments"

    def value(self, rows: Batch) -> Array:
        """Compute the weighted mean, second moment and number of complete rows."""
        (sample,) = self.groups.samples(rows, self.embedding, paired=self.groups.paired)
        half = 0.5 if self.groups.paired else 1.0
        mean, second = sample.moments()
        sums = np.concatenate([half * mean, half**2 * second[np.triu_indices(self.J)]]) / self.sizes[0]
        return np.append(sums, [sample.size][: self.groups.n_private_counts]) * self.weights

    def noisy_moments(self, measured: NoisyValue) -> Party:
        """Return a measurement of this statistic as a `Party`."""
        (mean,), second, counts, sigma = self._unpack(measured)
        party = Party(mean, second, self.noise.scaled_by(sigma), float(self.sizes[0]), reach=self.reach)
        return party.for_complete_rows(float(counts[0]) / party.size, sigma * COUNT_NOISE) if counts.size else party


def symmetric_matrix(upper: Array, J: int) -> Array:
    """Return the symmetric J x J matrix with a given upper triangle."""
    S = np.zeros((J, J))
    S[np.triu_indices(J)] = upper
    return S + np.triu(S, 1).T


_ROW_MOVES = 2.0  # squared moves by one row that make up for means that are not normal; chosen in simulations


@dataclass(frozen=True)
class Conclusion:
    """Result of a chi-squared test that the mean differences of all features are 0.

    Attributes
    ----------
    differences : ndarray of shape (J,)
        Estimated differences, whose expectations are tested to be 0.
    noise : float
        Standard deviation of the noise in each.
    statistic, pvalue : float
        The test.
    covariance : ndarray of shape (J, J)
        Of the differences, from sampling and noise together.
    informative : bool
        Whether numbers of complete rows stand out of their noise; if not, the p-value is 1.
    notes : tuple of str
        What to know before trusting it.
    """

    differences: Array
    noise: float
    statistic: float
    pvalue: float
    covariance: Array
    informative: bool = True
    notes: tuple[str, ...] = ()

    def result_fields(self, alpha: float) -> dict[str, Any]:
        """Return the fields of the `KernelTest` result."""
        return {
            "method": "moments",
            "alpha": alpha,
            "rejected": self.pvalue <= alpha,
            "pvalue": self.pvalue,
            "statistic": self.statistic,
            "differences": tuple(self.differences.tolist()),
            "standard_errors": tuple(np.sqrt(np.diag(self.covariance)).tolist()),
            "noise_standard_error": self.noise,
            "notes": self.notes if self.informative else (FEW, *self.notes),
        }


def contrast_test(contrast: Contrast) -> Conclusion:
    """Test whether two groups have the same mean features, by a difference and pooled moments."""
    noise, (n0, m0), (n, m) = contrast.noise, contrast.rows, contrast.sizes
    J, total, h = len(contrast.difference), n + m, 1 / n + 1 / m
    eye = np.eye(J)
    # Sums of complete rows were divided by the number of all rows.
    first_up, second_up, up = n0 / n, m0 / m, (n0 + m0) / total
    by_difference = (m0 * first_up + n0 * second_up) / (n0 + m0)
    d = by_difference * contrast.difference + (first_up - second_up) * contrast.pooled
    u, S = up * contrast.pooled, up * contrast.second
    variance = (by_difference * noise.difference) ** 2 + ((first_up - second_up) * noise.pooled) ** 2
    pooled = (up * noise.pooled) ** 2
    C = S - np.outer(u, u) + pooled * eye - n * m / total**2 * (np.outer(d, d) - variance * eye)
    margin = h * up * max(noise.diagonal, noise.beside) * math.sqrt(J)
    counted = contrast.count_noise**2 * (1 / n**2 + 1 / m**2) * np.outer(u, u)
    V = h * C + counted + (variance + margin) * eye
    grain = contrast.reach / min(n, m)
    return _wald_test(d, V, math.sqrt(variance), grain, informative=min(n, m) > _COUNT_SDS * contrast.count_noise)


def parties_test(parties: Sequence[Party]) -> Conclusion:
    """Test whether two parties have the same mean features, or the mean difference of pairs is 0.

    Of pairs, the halves of the differences were measured, whose mean is 0 under the hypothesis: so noise in the
    number of pairs adds nothing to its variance.
    """
    eye, floor = np.eye(len(parties[0].mean)), sum(each.noise.difference**2 for each in parties)
    V = floor * eye
    for each in parties:
        V += (each.second - np.outer(each.mean, each.mean) + each.noise.difference**2 * eye) / each.size
        if len(parties) > 1:
            V += (each.count_noise / each.size) ** 2 * np.outer(each.mean, each.mean)
    V += math.sqrt(len(eye)) * math.hypot(*(each.noise.diagonal / each.size for each in parties)) * eye
    informative = all(each.informative for each in parties)
    d, noise, grain = parties[0].mean, math.sqrt(floor), max(each.reach / each.size for each in parties)
    if len(parties) == 1:
        return _wald_test(2 * d, 4 * V, 2 * noise, 2 * grain, informative=informative)
    return _wald_test(d - parties[1].mean, V, noise, grain, informative=informative)


def _wald_test(d: Array, V: Array, noise: float, grain: float, *, informative: bool) -> Conclusion:
    """Return the result of a Wald test: the statistic d'V⁻¹d and its chi-squared p-value.

    The eigenvalues of V are kept above those of the noise alone. Where noise is small and a group is, too, means of
    features that few rows have are far from normal; as much is added to V as makes up for that.

    Parameters
    ----------
    d : ndarray of shape (J,)
        Differences.
    V : ndarray of shape (J, J)
        Their covariance.
    noise : float
        Standard deviation of the noise in each.
    grain : float
        How far one row of the smaller group can move one of them.
    """
    values, vectors = np.linalg.eigh((V + V.T) / 2)
    values = np.maximum(values, noise**2)
    statistic = float(np.sum((vectors.T @ d) ** 2 / (values + _ROW_MOVES * grain**2)))
    pvalue = float(chdtrc(len(d), statistic)) if informative else 1.0
    return Conclusion(d, noise, statistic, pvalue, vectors * values @ vectors.T, informative)
