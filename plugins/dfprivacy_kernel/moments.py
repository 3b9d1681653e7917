"""What the moments test measures: means of features at a few public locations, and their second moment.

The means locate a difference, the second moment says how much of it is due to sampling; both are released together
by one draw of Gaussian noise. Where values can be missing, so are the numbers of complete rows, for nothing.
docs/explanation/kernel_two_sample.md proves the sensitivities.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import chdtrc

from dfprivacy.statistics import OfRows
from dfprivacy_kernel.design import complete
from dfprivacy_kernel.sums import ROUNDING, differences, mapped, moments_of, totals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfprivacy import Column, NoisyValue
    from dfprivacy.features import Batch
    from dfprivacy_kernel.design import Groups
    from dfprivacy_kernel.embedding import Array, Embedding, Features

__all__ = [
    "COUNT_NOISE",
    "Conclusion",
    "Contrast",
    "Differences",
    "Party",
    "Scales",
    "Summary",
    "conclude",
    "conclude_apart",
    "conclude_paired",
    "domain_of",
    "reach_of",
    "scales",
    "scales_apart",
    "symmetric",
]

Domain = Literal["cube", "ball", "kernel"]

_TOLD = 5.0  # standard deviations by which a noisy number of rows must exceed 0
_RATIO = 2.0  # of the noise of the pooled mean to that of the difference
COUNT_NOISE = math.sqrt(2)
"""Of a number of complete rows, for noise of standard deviation 1 at an L2 sensitivity of 1."""

_PART = 0.5  # of the squared budget, for the means, where the second moments are not free


def domain_of(kind: Features, J: int) -> tuple[Domain, float]:
    """Tell in what set J features lie, and its diameter, but for rounding."""
    domains: dict[Features, tuple[Domain, float]] = {
        "me": ("cube", math.sqrt(J)),
        "scf": ("ball", 2.0),
        "nystrom": ("kernel", math.sqrt(2)),
    }
    return domains[kind]


def reach_of(kind: Features, J: int) -> float:
    """Tell how far apart two rows can be in one of J features."""
    reaches: dict[Features, float] = {"me": 1.0, "scf": math.sqrt(8 / J), "nystrom": math.sqrt(2)}
    return reaches[kind]


@dataclass(frozen=True)
class Scales:
    """Standard deviations of the noise, for noise of standard deviation 1 at an L2 sensitivity of 1.

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

    def times(self, sigma: float) -> Scales:
        """Give those of other noise."""
        return Scales(*(sigma * part for part in astuple(self)))

    def of_second(self, J: int) -> Array:
        """Give those of the upper triangle of the second moment, row by row."""
        rows, columns = np.triu_indices(J)
        return np.where(rows == columns, self.diagonal, self.beside)


def scales(domain: Domain, J: int, diameter: float, n: int, m: int) -> Scales:
    """Give the noise of a curator's release of difference, pooled mean and pooled second moment.

    Parameters
    ----------
    domain : {"cube", "ball", "kernel"}
        Where the J features lie: in [-1/2, 1/2]^J; in a ball of this diameter; in a set of this diameter.
    J : int
        Number of features.
    diameter : float
        Their L2 diameter; √J of the cube.
    n, m : int
        Rows in each group.
    """
    part = _PART if domain == "kernel" else 1.0
    smaller, total = min(n, m), n + m
    difference = diameter / (smaller * math.sqrt(part)) * math.hypot(1, smaller / (total * _RATIO))
    return Scales(difference, _RATIO * difference, *_second(domain, J, diameter, total))


def scales_apart(domain: Domain, J: int, diameter: float, n: int) -> Scales:
    """Give the noise of one party's release of its own mean (under `difference`) and second moment."""
    part = _PART if domain == "kernel" else 1.0
    return Scales(diameter / (n * math.sqrt(part)), math.inf, *_second(domain, J, diameter, n))


def _second(domain: Domain, J: int, diameter: float, rows: int) -> tuple[float, float]:
    if domain == "cube":
        return J / (2 * rows), J / (2 * rows)
    if domain == "ball":
        diagonal = math.sqrt(2) * diameter**2 / (2 * rows)  # 2√2 B² at B = half the diameter
    else:
        diagonal = diameter / (rows * math.sqrt(1 - _PART))
    return diagonal, diagonal / math.sqrt(2)


@dataclass(frozen=True)
class Party:
    """Noisy mean and second moment of the features of some rows.

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

    def of_complete(self, share: float, count_noise: float) -> Party:
        """Give the same of complete rows only, where sums of these were divided by the number of all rows."""
        size = max(1.0, share * self.size)
        all_to_complete = self.size / size
        return Party(
            self.mean * all_to_complete,
            self.second * all_to_complete,
            self.noise.times(all_to_complete),
            size,
            count_noise,
            self.reach,
        )

    @property
    def informative(self) -> bool:
        """Whether the number of complete rows stands out of its noise."""
        return self.size > _TOLD * self.count_noise


@dataclass(frozen=True)
class Contrast:
    """Noisy difference of two groups' mean features, their pooled mean and second moment.

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
    rows: tuple[float, float]
    sizes: tuple[float, float]
    count_noise: float = 0.0
    reach: float = 1.0

    @property
    def informative(self) -> bool:
        """Whether the numbers of complete rows stand out of their noise."""
        return min(self.sizes) > _TOLD * self.count_noise


class _OfFeatures(OfRows):
    """Means and second moments of features, each divided by the noise it is to have: one row moves all by 1."""

    embedding: Embedding
    diameter: float  # of the set that the noise is for
    given: tuple[Column, ...] = ()

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Bound how far one row moves it; there is no bound where a row can come, go, or change its group."""
        features = {column.name for column in self.embedding.columns}
        if features <= public:
            return 0.0
        if relation == "add_remove" or any(c.name not in public | features for c in self.columns):
            return math.inf
        stretch = 1.0  # the corners of a cube are on the grid, while rounding may put a row outside of a ball
        if not self.embedding.centre:
            stretch = max(1.0, self.embedding.radius**2, self.embedding.diameter(frozenset()) / self.diameter)
        return stretch * (math.sqrt(self.dimension) if norm == 1 else 1.0)

    @property
    def J(self) -> int:  # noqa: N802 - the paper's symbol
        """Number of features."""
        return len(self.embedding.map)


class Differences(_OfFeatures):
    """Difference of two groups' mean features, pooled mean and second moment; then complete rows of each."""

    def __init__(self, groups: Groups, embedding: Embedding, kind: Features) -> None:
        domain, self.diameter = domain_of(kind, len(embedding.map))
        self.rows = groups.sizes or groups.rows or (1, 1)
        self.noise = noise = scales(domain, len(embedding.map), self.diameter, *self.rows)
        self.groups, self.embedding = groups, embedding
        self.columns = (groups.by, *embedding.columns)
        J, self.reach = self.J, reach_of(kind, self.J)
        spreads = [np.full(J, noise.difference), np.full(J, noise.pooled), noise.of_second(J)]
        if groups.sizes is None:
            spreads.append(np.full(2, COUNT_NOISE))
        self.weights = 1 / np.concatenate(spreads)
        self.shape = self.weights.shape
        self.error = groups.most * J * ROUNDING

    def value(self, rows: Batch) -> Array:
        """Compute them."""
        members = self.groups.members(rows)
        sums = totals(rows, self.embedding.steps, lambda part: members[:, part], (2, self.embedding.width))
        n, m = self.rows
        first, second = mapped(self.embedding, sums)
        _, second_moment = moments_of(rows, self.embedding.steps, self.embedding, self.groups.chosen(rows))
        moment = second_moment[np.triu_indices(self.J)]
        counts = [] if self.groups.sizes else [*members.sum(axis=1)]
        means = [first / n - second / m, (first + second) / (n + m), moment / (n + m), counts]
        return np.concatenate(means) * self.weights

    def read(self, measured: NoisyValue) -> Contrast:
        """Give what a measurement says."""
        J = self.J
        d, u, upper, counts = np.split(measured.values, [J, 2 * J, 2 * J + J * (J + 1) // 2])
        sigma = float(measured.scales[0]) / self.noise.difference
        second, noise = symmetric(upper, J), self.noise.times(sigma)
        contrast = Contrast(d, u, second, noise, self.rows, self.rows, reach=self.reach)
        if self.groups.sizes:
            return contrast
        n, m = (max(1.0, float(count)) for count in counts)
        return replace(contrast, sizes=(n, m), count_noise=sigma * COUNT_NOISE)

    def describe(self) -> str:
        """Name them in words."""
        return f"differences at {self.J} locations, and second moments ({self.embedding.named})"


class Summary(_OfFeatures):
    """Mean and second moment of the features of all rows, or of half the differences of pairs.

    Such a half lies where features do. After them, where a value can be missing, comes the number of complete rows,
    or pairs.
    """

    def __init__(
        self,
        embedding: Embedding,
        kind: Features,
        rows: int,
        given: Sequence[Column] = (),
        by: Column | None = None,
    ) -> None:
        domain, self.diameter = domain_of(kind, len(embedding.map))
        self.noise = scales_apart(domain, len(embedding.map), self.diameter, rows)
        self.embedding, self.rows, self.given, self.by = embedding, rows, tuple(given), by
        self.reach = reach_of(kind, self.J)
        self.columns = (*((by,) if by else ()), *embedding.columns)
        counts = np.full(1 if given else 0, COUNT_NOISE / rows)
        self.weights = 1 / np.concatenate(
            [np.full(self.J, self.noise.difference), self.noise.of_second(self.J), counts]
        )
        self.shape = self.weights.shape
        self.error = 2 * rows * self.J * ROUNDING

    def value(self, rows: Batch) -> Array:
        """Compute them."""
        present, half = complete(rows, self.given), 0.5 if self.by else 1.0
        of: tuple[Any, Callable[[Any], Array]] = rows, self.embedding.steps
        if self.by:
            present = np.asarray(present.reshape(2, -1).all(axis=0))
            of = differences(rows, self.embedding, present)
        mean, second = moments_of(*of, self.embedding, present)
        counts = [present.sum()] if self.given else []
        sums: Array = np.concatenate([half * mean, half**2 * second[np.triu_indices(self.J)], counts])
        return sums / self.rows * self.weights

    def read(self, measured: NoisyValue) -> Party:
        """Give what a measurement says."""
        mean, upper, share = np.split(measured.values, [self.J, self.dimension - bool(self.given)])
        sigma = float(measured.scales[0]) / self.noise.difference
        party = Party(mean, symmetric(upper, self.J), self.noise.times(sigma), float(self.rows), reach=self.reach)
        return party.of_complete(float(share[0]), sigma * COUNT_NOISE) if self.given else party

    def describe(self) -> str:
        """Name them in words."""
        of = "differences of pairs at " if self.by else ""
        return f"means of {of}{self.J} features, and second moments ({self.embedding.named})"


def symmetric(upper: Array, J: int) -> Array:
    """Make a symmetric matrix of its upper triangle."""
    S = np.zeros((J, J))
    S[np.triu_indices(J)] = upper
    return S + np.triu(S, 1).T


_GRAINS = 2.0  # squared moves by one row that make up for means that are not normal; chosen in simulations


@dataclass(frozen=True)
class Conclusion:
    """A chi-squared test of differences.

    Attributes
    ----------
    differences : ndarray of shape (J,)
        What is tested to be 0.
    noise : float
        Standard deviation of the noise in each.
    statistic, pvalue : float
        The test.
    covariance : ndarray of shape (J, J)
        Of the differences, from sampling and noise together.
    informative : bool
        Whether numbers of complete rows stand out of their noise; if not, the p-value is 1.
    """

    differences: Array
    noise: float
    statistic: float
    pvalue: float
    covariance: Array
    informative: bool = True

    @property
    def standard_errors(self) -> Array:
        """Of the differences."""
        errors: Array = np.sqrt(np.diag(self.covariance))
        return errors


def conclude(contrast: Contrast) -> Conclusion:
    """Test the difference of two groups' means, with their pooled mean and second moment."""
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
    return _test(d, V, math.sqrt(variance), grain, informative=contrast.informative)


def conclude_apart(first: Party, second: Party) -> Conclusion:
    """Test the difference of two parties' means, each with its own second moment."""
    J = len(first.mean)
    parties = first, second
    eye, floor = np.eye(J), sum(each.noise.difference**2 for each in parties)
    V = floor * eye
    for each in parties:
        V += (each.second - np.outer(each.mean, each.mean) + each.noise.difference**2 * eye) / each.size
        V += (each.count_noise / each.size) ** 2 * np.outer(each.mean, each.mean)
    V += math.sqrt(J) * math.hypot(*(each.noise.diagonal / each.size for each in parties)) * eye
    informative = all(each.informative for each in parties)
    grain = max(each.reach / each.size for each in parties)
    return _test(first.mean - second.mean, V, math.sqrt(floor), grain, informative=informative)


def conclude_paired(party: Party) -> Conclusion:
    """Test the mean of pairs' differences, of which the halves were measured."""
    eye, floor = np.eye(len(party.mean)), party.noise.difference**2
    C = party.second - np.outer(party.mean, party.mean) + floor * eye
    margin = math.sqrt(len(party.mean)) * party.noise.diagonal / party.size
    V = C / party.size + (floor + margin) * eye
    grain = party.reach / party.size
    half = _test(party.mean, V, party.noise.difference, grain, informative=party.informative)
    return Conclusion(
        2 * half.differences, 2 * half.noise, half.statistic, half.pvalue, 4 * half.covariance, half.informative
    )


def _test(d: Array, V: Array, noise: float, grain: float, *, informative: bool) -> Conclusion:
    """Compare d'V⁻¹d with chi-squared.

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
    statistic = float(np.sum((vectors.T @ d) ** 2 / (values + _GRAINS * grain**2)))
    pvalue = float(chdtrc(len(d), statistic)) if informative else 1.0
    return Conclusion(d, noise, statistic, pvalue, vectors * values @ vectors.T, informative)
