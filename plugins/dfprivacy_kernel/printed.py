"""TCMC and NTE as the reference prints them: two draws of noise, at half of the price each, and its null law.

The mean w of the differences z = g(x) - g(y) of n pairs of rows (TCMC), or of the features g(x) of one party's rows
(NTE), and the second moment Λ, with the divisor n - 1, are each released with Gaussian noise for their own
sensitivity, by the analytic calibration. docs/papers/raj2019.md proves these, and says where the printed ones are
wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from dfprivacy.features import Given, OneHot
from dfprivacy.statistics import OfRows
from dfprivacy_kernel.design import complete
from dfprivacy_kernel.moments import Conclusion, Party, Scales, reach_of, symmetric
from dfprivacy_kernel.sums import ROUNDING, Part, moments_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator
    from dfprivacy.features import Batch
    from dfprivacy_kernel.design import Groups
    from dfprivacy_kernel.embedding import Array, Embedding, Features

__all__ = ["Moment", "Printed", "Variant", "conclude_printed", "measure_printed", "weighted_chi_squared"]

Variant: TypeAlias = Literal["tcmc", "nte"]
Changes: TypeAlias = Literal["row", "row of a pair", "pair"]

_FLOOR = 0.01  # in place of eigenvalues that are not positive; the reference's footnote 4
_DRAWS, _DRAWS_SEED = 100_000, 20_190_916  # of the null law; public, so that p-values can be had again
_COUNTED = Fraction(1, 20)  # of the price, where the numbers of complete rows are private


@dataclass(frozen=True)
class Printed:
    """What a variant measured: of pairs, or of two parties."""

    variant: Variant
    parties: tuple[Party, ...]


def reaches(kind: Features, J: int, radius: float, changes: Changes) -> tuple[float, float]:
    """Bound how far n w and (n - 1) Λ move in L2, where a row changes, or one of a pair of rows, or both of them.

    Parameters
    ----------
    kind : {"me", "scf"}
        Kernel values, in [0, 1]; or cosines and sines, in a ball.
    J : int
        How many.
    radius : float
        Of the ball.
    changes : {"row", "row of a pair", "pair"}
        What neighbouring tables differ in.
    """
    if kind == "me":
        return (2 * math.sqrt(J), math.sqrt(2) * J) if changes == "pair" else (math.sqrt(J), float(J))
    longest = radius if changes == "row" else 2 * radius
    return 2 * (longest if changes == "pair" else radius), math.sqrt(2) * longest**2


class Moment(OfRows):
    """w, or the upper triangle of Λ: of pairs of rows, of each of two groups, or of all rows.

    Each is divided by what one row moves it by. A row with a missing value counts as 0, and so does its pair.
    """

    def __init__(
        self,
        degree: Literal[1, 2],
        groups: Groups | None,
        embedding: Embedding,
        kind: Features,
        rows: Sequence[int],
        changes: Changes,
        given: Sequence[Column] = (),
    ) -> None:
        self.degree, self.groups, self.embedding, self.rows = degree, groups, embedding, rows
        self.given = tuple(given)
        self.pairs = changes != "row"
        self.columns = (*((groups.by,) if groups else ()), *embedding.columns)
        self.J = J = len(embedding.map)
        radius = 1.0 if kind == "me" else max(1.0, embedding.radius)
        reach = reaches(kind, J, radius, changes)[degree - 1]
        # Divided by the noise that it is to have: reach/n of w, reach/(n - 1) of Λ.
        self.noise = np.array([reach / (size - (degree - 1)) for size in rows])
        self.weights = np.repeat(1 / self.noise[:, None], J if degree == 1 else J * (J + 1) // 2, axis=1)
        self.shape = self.weights.shape
        self.error = sum(rows) * J * ROUNDING

    def samples(self, rows: Batch) -> list[tuple[Callable[[Any], Array], NDArray[np.bool_]]]:
        """Give of each sample what makes values of rows, and which rows count."""
        present, steps = complete(rows, self.given), self.embedding.steps
        if self.groups is None:
            return [(steps, present)]
        codes = rows.codes(self.groups.by)
        members = [codes == self.groups.by.code(value) for value in self.groups.pair]
        if not self.pairs:
            return [(steps, present & each) for each in members]
        other = np.zeros(rows.size, dtype=np.intp)
        other[members[0]] = np.flatnonzero(members[1])

        def apart(part: Part) -> Array:
            z: Array = steps(part) - steps(Part(rows, other[part.rows]))
            return z

        return [(apart, members[0] & present & present[other])]

    def value(self, rows: Batch) -> Array:
        """Compute it."""
        of_samples = []
        for values, chosen in self.samples(rows):
            mean, second = moments_of(rows, values, self.embedding, chosen)
            of_samples.append(mean if self.degree == 1 else second[np.triu_indices(self.J)])
        counts = np.array([size - (self.degree - 1) for size in self.rows])[:, None]
        moments: Array = np.stack(of_samples) / counts * self.weights
        return moments

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Bound how far one row, or pair, moves it."""
        features = {column.name for column in self.embedding.columns}
        if features <= public:
            return 0.0
        if relation == "add_remove" or (self.groups is not None and self.groups.by.name not in public):
            return math.inf
        return math.sqrt(self.dimension) if norm == 1 else 1.0

    def describe(self) -> str:
        """Name it in words."""
        what = "means" if self.degree == 1 else "second moments"
        of = "differences of pairs at " if self.pairs else ""
        return f"{what} of {of}{self.J} features ({self.embedding.named})"


def measure_printed(
    curator: Curator,
    variant: Variant,
    groups: Groups | None,
    embedding: Embedding,
    kind: Features,
    rows: Sequence[int],
    *,
    paired: bool = False,
    given: Sequence[Column] = (),
) -> Printed:
    """Measure w, then Λ; where a value can be missing, NTE measures how many rows are complete before."""
    embedding = replace(embedding, centre=0.0)  # kernel values as they are
    sizes, count_noise, left = [float(size) for size in rows], 0.0, Fraction(1)
    told = bool(given) and variant == "nte"
    if told:
        present = Given(*given)
        counted = present if groups is None else OneHot(groups.by, groups=list(groups.pair)) * present
        counts = curator.sum(counted, noise="gaussian", share=_COUNTED, then="gaussian")
        sizes = [max(2.0, float(count)) for count in counts.values.ravel()]
        count_noise = float(counts.scales.max())
        left -= _COUNTED if count_noise else 0
    changes: Changes = "row" if variant == "nte" else "pair" if paired else "row of a pair"
    arguments = groups, embedding, kind, rows, changes, given
    first, second = Moment(1, *arguments), Moment(2, *arguments)
    w = curator.measure(first, noise="gaussian", share=left / 2, then="gaussian")
    upper = curator.measure(second, noise="gaussian")
    parties = []
    for i, size in enumerate(rows):
        means, moments = (float(of.scales[i, 0]) for of in (w, upper))
        noise = Scales(means, math.inf, moments, moments)
        party = Party(
            w.values[i], symmetric(upper.values[i], first.J), noise, float(size), reach=reach_of(kind, first.J)
        )
        parties.append(party.of_complete(sizes[i] / size, count_noise) if told else party)
    return Printed(variant, tuple(parties))


def conclude_printed(printed: Printed) -> Conclusion:
    """Compare the statistic with its printed null law, a weighted sum of chi-squared variables.

    The weights know the noise of w, but not that of Λ: the p-value is too small where the latter is large.
    """
    covariances, noises, means = [], [], []
    for party in printed.parties:
        n, mean = party.size, party.mean
        covariances.append(_positive(party.second - n / (n - 1) * np.outer(mean, mean)))
        noises.append(party.noise.difference)
        means.append(mean)
    if printed.variant == "tcmc":
        (S,), (noise,), (d,) = covariances, noises, means
        scale = printed.parties[0].size
        own = S / scale
    else:
        n, m = (party.size for party in printed.parties)
        d, noise, scale = means[0] - means[1], math.hypot(*noises), n * m / (n + m)
        S = ((n - 1) * covariances[0] + (m - 1) * covariances[1]) / (n + m - 2)
        own = covariances[0] / n + covariances[1] / m
        for party in printed.parties:
            own = own + (party.count_noise / party.size) ** 2 * np.outer(party.mean, party.mean)
    values, vectors = np.linalg.eigh(S)
    white = vectors / np.sqrt(values)  # its square is the inverse of S
    V = own + noise**2 * np.eye(len(d))
    statistic = float(scale * np.sum((white.T @ d) ** 2))
    weights = np.linalg.eigvalsh(scale * white.T @ V @ white)
    informative = all(party.informative for party in printed.parties)
    pvalue = weighted_chi_squared(weights, statistic) if informative else 1.0
    return Conclusion(d, noise, statistic, pvalue, V, informative)


def _positive(S: Array) -> Array:
    """Replace the eigenvalues that are not positive."""
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    positive: Array = vectors * np.where(values > 0, values, _FLOOR) @ vectors.T
    return positive


def weighted_chi_squared(weights: Array, statistic: float) -> float:
    """Estimate the probability that a weighted sum of squared normal variables is at least this, by simulation."""
    squares = np.random.default_rng(_DRAWS_SEED).standard_normal((len(weights), _DRAWS)) ** 2
    return float(1 + np.count_nonzero(weights @ squares >= statistic)) / (1 + _DRAWS)
