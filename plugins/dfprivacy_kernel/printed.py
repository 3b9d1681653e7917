"""The tests TCMC and NTE of Raj et al. (2019), with two noisy moments and the paper's null distribution.

The mean w of the differences z = g(x) - g(y) of n pairs of rows (TCMC), or of the features g(x) of one party's rows
(NTE), and the second moment Λ, with the divisor n - 1, are each released with Gaussian noise for their own
sensitivity, by the analytic calibration. docs/papers/raj2019.md proves these, and says where the printed ones are
wrong.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from dfprivacy.features import Given, OneHot
from dfprivacy_kernel.embedding import ROUNDING
from dfprivacy_kernel.moments import Conclusion, Party, Scales, max_feature_difference, symmetric_matrix
from dfprivacy_kernel.statistics import GroupStatistic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Curator
    from dfprivacy.features import Batch
    from dfprivacy_kernel.design import Groups, Variant
    from dfprivacy_kernel.embedding import Array, Embedding, Features

__all__ = ["FeatureMoment", "measure_paper_moments", "paper_test", "weighted_chi_squared"]

Changes: TypeAlias = Literal["row", "row of a pair", "pair"]

_EIGENVALUE_FLOOR = 0.01  # in place of eigenvalues that are not positive; the reference's footnote 4
_DRAWS, _DRAWS_SEED = 100_000, 20_190_916  # of the null law; public, so that p-values are reproducible
_PRINTED_NOTE = (
    "The paper's null distribution ignores the noise in the covariance, so the p-value can be too small. "
    "method='moments' without a variant includes it."
)
_COUNT_SHARE = Fraction(1, 20)  # of the price, where the numbers of complete rows are private


def moment_sensitivities(kind: Features, J: int, radius: float, changes: Changes) -> tuple[float, float]:
    """Return the L2 sensitivities of the sums of features and of their products if a row, or a pair, changes.

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


class FeatureMoment(GroupStatistic):
    """Statistic: the mean, or the upper triangle of the second moment, of features of rows or of pairs.

    Each is divided by what one row moves it by. A row with a missing value counts as 0, and so does its pair.
    """

    def __init__(
        self, degree: Literal[1, 2], groups: Groups, embedding: Embedding, kind: Features, changes: Changes
    ) -> None:
        self.degree, self.pairs, self.J = degree, changes != "row", len(embedding.map)
        rows = (groups.rows or groups.divisors)[: 1 if self.pairs else None]
        radius = 1.0 if kind == "me" else max(1.0, embedding.radius)
        reach = moment_sensitivities(kind, self.J, radius, changes)[degree - 1]
        # Divided by the noise that it is to have: reach/n of w, reach/(n - 1) of Λ.
        self.divisors = np.array(rows)[:, None] - (degree - 1)
        width = self.J if degree == 1 else self.J * (self.J + 1) // 2
        self.weights = np.repeat(self.divisors / reach, width, axis=1)
        super().__init__(groups, embedding, self.weights.shape)
        self.error = sum(rows) * self.J * ROUNDING
        of = "differences of pairs at " if self.pairs else ""
        self.what = f"{'means' if degree == 1 else 'second moments'} of {of}{self.J} feature{'s' * (self.J > 1)}"

    def value(self, rows: Batch) -> Array:
        """Compute the weighted mean, or the weighted upper triangle of the second moment."""
        samples = self.groups.samples(rows, self.embedding, paired=self.pairs)
        moments = [sample.moments()[self.degree - 1] for sample in samples]
        upper = [each if self.degree == 1 else each[np.triu_indices(self.J)] for each in moments]
        value: Array = np.stack(upper) / self.divisors * self.weights
        return value

    def row_bound(self, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return an upper bound of the change of the statistic when one row or pair changes."""
        return math.sqrt(self.dimension) if norm == 1 else 1.0


def measure_paper_moments(
    curator: Curator, variant: Variant, groups: Groups, embedding: Embedding, kind: Features
) -> tuple[Party, ...]:
    """Measure the mean, then the second moment, of features of pairs of rows or of each group's rows.

    Where a value can be missing, NTE measures how many rows are complete before.
    """
    embedding = replace(embedding, centre=0.0)  # kernel values as they are
    left, sizes, count_noise = Fraction(1), None, 0.0
    if groups.given and variant == "nte":
        present = Given(*groups.given)
        counted = present if groups.by is None else OneHot(groups.by, groups=list(groups.pair)) * present
        counts = curator.sum(counted, noise="gaussian", share=_COUNT_SHARE, then="gaussian")
        sizes, count_noise = np.maximum(2.0, counts.values.ravel()), float(counts.scales.max())
        left -= _COUNT_SHARE if count_noise else 0
    changes: Changes = "row" if variant == "nte" else "pair" if groups.paired else "row of a pair"
    first, second = (FeatureMoment(degree, groups, embedding, kind, changes) for degree in (1, 2))
    w = curator.measure(first, noise="gaussian", share=left / 2, then="gaussian")
    upper = curator.measure(second, noise="gaussian")
    parties = []
    for i, size in enumerate(first.divisors.ravel().tolist()):
        means, moments = (float(of.scales[i, 0]) for of in (w, upper))
        noise = Scales(means, math.inf, moments, moments)
        party = Party(
            w.values[i],
            symmetric_matrix(upper.values[i], first.J),
            noise,
            float(size),
            reach=max_feature_difference(kind, first.J),
        )
        parties.append(party if sizes is None else party.for_complete_rows(float(sizes[i]) / size, count_noise))
    return tuple(parties)


def paper_test(parties: Sequence[Party]) -> Conclusion:
    """Test whether mean features differ, by the null law of Raj et al.: a weighted sum of chi-squared variables.

    One party is of pairs (TCMC), two are NTE's. The weights know the noise of w, but not that of Λ: the p-value is
    too small where the latter is large.
    """
    covariances = [
        _positive_definite(each.second - each.size / (each.size - 1) * np.outer(each.mean, each.mean))
        for each in parties
    ]
    if len(parties) == 1:
        (S,), (party,) = covariances, parties
        d, noise, scale, own = party.mean, party.noise.difference, party.size, S / party.size
    else:
        first, second = parties
        n, m = first.size, second.size
        d, scale = first.mean - second.mean, n * m / (n + m)
        noise = math.hypot(first.noise.difference, second.noise.difference)
        S = ((n - 1) * covariances[0] + (m - 1) * covariances[1]) / (n + m - 2)
        own = covariances[0] / n + covariances[1] / m
        for each in parties:
            own = own + (each.count_noise / each.size) ** 2 * np.outer(each.mean, each.mean)
    values, vectors = np.linalg.eigh(S)
    white = vectors / np.sqrt(values)  # its square is the inverse of S
    V = own + noise**2 * np.eye(len(d))
    statistic = float(scale * np.sum((white.T @ d) ** 2))
    weights = np.linalg.eigvalsh(scale * white.T @ V @ white)
    informative = all(each.informative for each in parties)
    pvalue = weighted_chi_squared(weights, statistic) if informative else 1.0
    return Conclusion(d, noise, statistic, pvalue, V, informative, (_PRINTED_NOTE,))


def _positive_definite(S: Array) -> Array:
    """Return a symmetric matrix after replacing its nonpositive eigenvalues by a positive constant."""
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    positive: Array = vectors * np.where(values > 0, values, _EIGENVALUE_FLOOR) @ vectors.T
    return positive


def weighted_chi_squared(weights: Array, statistic: float) -> float:
    """Estimate the p-value of a weighted sum of chi-squared variables by simulation."""
    squares = np.random.default_rng(_DRAWS_SEED).standard_normal((len(weights), _DRAWS)) ** 2
    return float(1 + np.count_nonzero(weights @ squares >= statistic)) / (1 + _DRAWS)
