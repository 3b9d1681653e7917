"""The moments test: noisy differences at a few public locations, whitened by a covariance that knows the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.stats import chi2

if TYPE_CHECKING:
    from dfprivacy_kernel.embedding import Array

__all__ = ["Conclusion", "Scales", "conclude", "conclude_apart", "scales", "scales_apart"]

Domain = Literal["cube", "ball", "kernel"]

_RATIO = 2.0  # of the noise of the pooled mean to that of the difference
_PART = 0.5  # of the squared budget, for the means, where the second moments are not free


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
class Conclusion:
    """A chi-squared test of the differences."""

    statistic: float
    pvalue: float
    covariance: Array


def conclude(d: Array, u: Array, S: Array, *, noise: Scales, n: int, m: int, margin: bool = True) -> Conclusion:
    """Test a difference of means, with pooled mean u and pooled second moment S; all noisy, noise in the features' units."""
    J, total, h = len(d), n + m, 1 / n + 1 / m
    eye, variance = np.eye(J), noise.difference**2
    C = S - np.outer(u, u) + noise.pooled**2 * eye - n * m / total**2 * (np.outer(d, d) - variance * eye)
    extra = h * max(noise.diagonal, noise.beside) * math.sqrt(J) if margin else 0.0
    return _test(d, h * C + (variance + extra) * eye, variance)


def conclude_apart(
    means: tuple[Array, Array], seconds: tuple[Array, Array], noise: tuple[Scales, Scales], sizes: tuple[int, int]
) -> Conclusion:
    """Test the difference of two parties' means, each with its own second moment; all noisy."""
    J = len(means[0])
    eye, floor = np.eye(J), sum(each.difference**2 for each in noise)
    V = floor * eye
    for mean, S, each, size in zip(means, seconds, noise, sizes, strict=True):
        V += (S - np.outer(mean, mean) + each.difference**2 * eye) / size
    V += math.sqrt(J) * math.hypot(*(each.diagonal / size for each, size in zip(noise, sizes, strict=True))) * eye
    return _test(means[0] - means[1], V, floor)


def _test(d: Array, V: Array, floor: float) -> Conclusion:
    """Compare d'V⁻¹d with chi-squared, the eigenvalues of V kept above those of the noise alone."""
    values, vectors = np.linalg.eigh((V + V.T) / 2)
    values = np.maximum(values, floor)
    statistic = float(np.sum((vectors.T @ d) ** 2 / values))
    return Conclusion(statistic, float(chi2.sf(statistic, len(d))), vectors * values @ vectors.T)
