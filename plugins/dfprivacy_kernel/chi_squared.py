"""The chi-squared test of noisy moments: differences, whitened by a covariance that knows the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc

if TYPE_CHECKING:
    from dfprivacy_kernel.embedding import Array
    from dfprivacy_kernel.moments import Contrast, Party

__all__ = ["Conclusion", "conclude", "conclude_apart", "conclude_paired"]


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
