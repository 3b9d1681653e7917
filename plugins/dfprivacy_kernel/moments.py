"""What the moments test measures: means of features at a few public locations, and their second moment.

The means locate a difference, the second moment says how much of it is due to sampling; both are released together
by one draw of Gaussian noise. Where values can be missing, so are the numbers of complete rows, for nothing.
docs/explanation/kernel_two_sample.md proves the sensitivities.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfprivacy.statistics import OfRows
from dfprivacy_kernel.groups import complete
from dfprivacy_kernel.sums import ROUNDING, gram_of, image_of, mapped, totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Column, NoisyValue
    from dfprivacy.features import Batch
    from dfprivacy_kernel.embedding import Array, Embedding, Features
    from dfprivacy_kernel.groups import Groups

__all__ = [
    "COUNT_NOISE",
    "Contrast",
    "Differences",
    "Party",
    "Scales",
    "Summaries",
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
        gram = gram_of(rows, self.embedding.steps, self.groups.chosen(rows), self.embedding.width)
        moment = image_of(self.embedding, gram)[np.triu_indices(self.J)]
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


class Summaries(_OfFeatures):
    """Mean and second moment of the features of all rows, or of each of two groups; then how many are complete."""

    def __init__(
        self,
        groups: Groups | None,
        embedding: Embedding,
        kind: Features,
        rows: Sequence[int],
        given: Sequence[Column] = (),
    ) -> None:
        domain, self.diameter = domain_of(kind, len(embedding.map))
        self.noise = [scales_apart(domain, len(embedding.map), self.diameter, size) for size in rows]
        self.groups, self.embedding, self.rows, self.given = groups, embedding, rows, tuple(given)
        self.reach = reach_of(kind, self.J)
        self.columns = (*((groups.by,) if groups else ()), *embedding.columns)
        self.weights = 1 / np.stack(
            [
                np.concatenate(
                    [
                        np.full(self.J, noise.difference),
                        noise.of_second(self.J),
                        np.full(1 if given else 0, COUNT_NOISE / size),
                    ]
                )
                for noise, size in zip(self.noise, rows, strict=True)
            ]
        )
        self.shape = self.weights.shape
        self.error = sum(rows) * self.J * ROUNDING

    def value(self, rows: Batch) -> Array:
        """Compute them."""
        present = complete(rows, self.given)[None].astype(np.float64)
        members = present if self.groups is None else self.groups.members(rows)
        sums = mapped(
            self.embedding,
            totals(rows, self.embedding.steps, lambda part: members[:, part], (len(members), self.embedding.width)),
        )
        of_groups = []
        for member, total, size in zip(members, sums, self.rows, strict=True):
            gram = gram_of(rows, self.embedding.steps, member.astype(np.bool_), self.embedding.width)
            moment = image_of(self.embedding, gram)[np.triu_indices(self.J)]
            counts = [member.sum()] if self.given else []
            of_groups.append(np.concatenate([total, moment, counts]) / size)
        return np.stack(of_groups) * self.weights

    def read(self, measured: NoisyValue) -> list[Party]:
        """Give what a measurement says of each group."""
        parties = []
        for values, spread, noise, size in zip(
            measured.values, measured.scales, self.noise, self.rows, strict=True
        ):
            mean, upper, share = np.split(values, [self.J, len(values) - bool(self.given)])
            sigma = float(spread[0]) / noise.difference
            party = Party(mean, symmetric(upper, self.J), noise.times(sigma), float(size), reach=self.reach)
            parties.append(party.of_complete(float(share[0]), sigma * COUNT_NOISE) if self.given else party)
        return parties

    def describe(self) -> str:
        """Name them in words."""
        return f"means at {self.J} locations, and second moments ({self.embedding.named})"


def symmetric(upper: Array, J: int) -> Array:
    """Make a symmetric matrix of its upper triangle."""
    S = np.zeros((J, J))
    S[np.triu_indices(J)] = upper
    return S + np.triu(S, 1).T
