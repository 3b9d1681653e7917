"""The moments test: noisy differences at a few public locations, whitened by a covariance that knows the noise.

The means of the features, which locate a difference, and their second moment, which says how much of it is chance,
are released together by one draw of Gaussian noise; docs/explanation/kernel_two_sample.md proves the sensitivities.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.stats import chi2

from dfprivacy.statistics import OfRows
from dfprivacy_kernel.sums import ROUNDING, gram_of, image_of, mapped, totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import NoisyValue
    from dfprivacy._table.batch import Batch
    from dfprivacy_kernel.embedding import Array, Embedding, Features
    from dfprivacy_kernel.statistics import Groups

__all__ = [
    "Conclusion",
    "Differences",
    "Party",
    "Scales",
    "Summaries",
    "conclude",
    "conclude_apart",
    "conclude_paired",
    "domain_of",
    "scales",
    "scales_apart",
]

Domain = Literal["cube", "ball", "kernel"]

_RATIO = 2.0  # of the noise of the pooled mean to that of the difference
_PART = 0.5  # of the squared budget, for the means, where the second moments are not free


def domain_of(kind: Features, J: int) -> tuple[Domain, float]:
    """Tell in what set J features lie, and its diameter, but for rounding."""
    domains: dict[Features, tuple[Domain, float]] = {
        "me": ("cube", math.sqrt(J)),
        "scf": ("ball", 2.0),
        "nystrom": ("kernel", math.sqrt(2)),
    }
    return domains[kind]


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


class _OfFeatures(OfRows):
    """Means and second moments of features, each divided by the noise it is to have: one row moves all by 1."""

    embedding: Embedding
    diameter: float  # of the set that the noise is for

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
    """Difference of two groups' mean features, pooled mean, and pooled second moment."""

    def __init__(self, groups: Groups, embedding: Embedding, kind: Features, sizes: tuple[int, int]) -> None:
        domain, self.diameter = domain_of(kind, len(embedding.map))
        self.noise = noise = scales(domain, len(embedding.map), self.diameter, *sizes)
        self.groups, self.embedding = groups, embedding
        self.columns = (groups.by, *embedding.columns)
        J = self.J
        spreads = [np.full(J, noise.difference), np.full(J, noise.pooled), noise.of_second(J)]
        self.weights = 1 / np.concatenate(spreads)
        self.shape = self.weights.shape
        self.error = groups.rows * J * ROUNDING

    def value(self, rows: Batch) -> Array:
        """Compute them."""
        members = self.groups.members(rows)
        sums = totals(rows, self.embedding.steps, lambda part: members[:, part], (2, self.embedding.width))
        n, m = members.sum(axis=1)
        first, second = mapped(self.embedding, sums)
        gram = gram_of(rows, self.embedding.steps, self.groups.chosen(rows), self.embedding.width)
        moment = image_of(self.embedding, gram)[np.triu_indices(self.J)]
        found: Array = np.concatenate([first / n - second / m, (first + second) / (n + m), moment / (n + m)])
        return found * self.weights

    def read(self, measured: NoisyValue) -> tuple[Array, Array, Array, Scales]:
        """Give d, u, S and the noise that a measurement is of."""
        J = self.J
        d, u, upper = np.split(measured.values, [J, 2 * J])
        return d, u, symmetric(upper, J), self.noise.times(float(measured.scales[0]) / self.noise.difference)

    def describe(self) -> str:
        """Name them in words."""
        return f"differences at {self.J} locations, and second moments ({self.embedding.named})"


class Summaries(_OfFeatures):
    """Mean and second moment of the features of all rows, or of each of two groups: every row counts in one."""

    def __init__(self, groups: Groups | None, embedding: Embedding, kind: Features, sizes: Sequence[int]) -> None:
        domain, self.diameter = domain_of(kind, len(embedding.map))
        self.noise = [scales_apart(domain, len(embedding.map), self.diameter, size) for size in sizes]
        self.groups, self.embedding, self.sizes = groups, embedding, sizes
        self.columns = (*((groups.by,) if groups else ()), *embedding.columns)
        spreads = [
            np.concatenate([np.full(self.J, each.difference), each.of_second(self.J)]) for each in self.noise
        ]
        self.weights = 1 / np.stack(spreads)
        self.shape = self.weights.shape
        self.error = sum(sizes) * self.J * ROUNDING

    def value(self, rows: Batch) -> Array:
        """Compute them."""
        members = np.ones((1, rows.size)) if self.groups is None else self.groups.members(rows)
        sums = mapped(
            self.embedding,
            totals(rows, self.embedding.steps, lambda part: members[:, part], (len(members), self.embedding.width)),
        )
        found = []
        for member, total in zip(members, sums, strict=True):
            gram = gram_of(rows, self.embedding.steps, member.astype(np.bool_), self.embedding.width)
            moment = image_of(self.embedding, gram)[np.triu_indices(self.J)]
            found.append(np.concatenate([total, moment]) / max(member.sum(), 1.0))
        return np.stack(found) * self.weights

    def read(self, measured: NoisyValue) -> list[Party]:
        """Give what a measurement says of each group."""
        J = self.J
        return [
            Party(values[:J], symmetric(values[J:], J), noise.times(float(spread[0]) / noise.difference), size)
            for values, spread, noise, size in zip(
                measured.values, measured.scales, self.noise, self.sizes, strict=True
            )
        ]

    def describe(self) -> str:
        """Name them in words."""
        return f"means at {self.J} locations, and second moments ({self.embedding.named})"


def symmetric(upper: Array, J: int) -> Array:
    """Make a symmetric matrix of its upper triangle."""
    S = np.zeros((J, J))
    S[np.triu_indices(J)] = upper
    return S + np.triu(S, 1).T


@dataclass(frozen=True)
class Party:
    """What one party says: noisy mean and second moment of its features, their noise, and its number of rows."""

    mean: Array
    second: Array
    noise: Scales
    size: int


@dataclass(frozen=True)
class Conclusion:
    """A chi-squared test of the differences."""

    statistic: float
    pvalue: float
    covariance: Array

    @property
    def standard_errors(self) -> Array:
        """Of the differences, from sampling and noise together."""
        errors: Array = np.sqrt(np.diag(self.covariance))
        return errors


def conclude(d: Array, u: Array, S: Array, *, noise: Scales, n: int, m: int) -> Conclusion:
    """Test a difference of means, with pooled mean u and pooled second moment S; all noisy."""
    J, total, h = len(d), n + m, 1 / n + 1 / m
    eye, variance = np.eye(J), noise.difference**2
    C = S - np.outer(u, u) + noise.pooled**2 * eye - n * m / total**2 * (np.outer(d, d) - variance * eye)
    margin = h * max(noise.diagonal, noise.beside) * math.sqrt(J)
    return _test(d, h * C + (variance + margin) * eye, variance)


def conclude_apart(first: Party, second: Party) -> Conclusion:
    """Test the difference of two parties' means, each with its own second moment; all noisy."""
    J = len(first.mean)
    parties = first, second
    eye, floor = np.eye(J), sum(each.noise.difference**2 for each in parties)
    V = floor * eye
    for each in parties:
        V += (each.second - np.outer(each.mean, each.mean) + each.noise.difference**2 * eye) / each.size
    V += math.sqrt(J) * math.hypot(*(each.noise.diagonal / each.size for each in parties)) * eye
    return _test(first.mean - second.mean, V, floor)


def conclude_paired(party: Party) -> Conclusion:
    """Test the mean of pairs' differences, given what is released of half of them; noisy."""
    eye, floor = np.eye(len(party.mean)), party.noise.difference**2
    C = party.second - np.outer(party.mean, party.mean) + floor * eye
    margin = math.sqrt(len(party.mean)) * party.noise.diagonal / party.size
    half = _test(party.mean, C / party.size + (floor + margin) * eye, floor)
    return Conclusion(half.statistic, half.pvalue, 4 * half.covariance)


def _test(d: Array, V: Array, floor: float) -> Conclusion:
    """Compare d'V⁻¹d with chi-squared, the eigenvalues of V kept above those of the noise alone."""
    values, vectors = np.linalg.eigh((V + V.T) / 2)
    values = np.maximum(values, floor)
    statistic = float(np.sum((vectors.T @ d) ** 2 / values))
    return Conclusion(statistic, float(chi2.sf(statistic, len(d))), vectors * values @ vectors.T)
