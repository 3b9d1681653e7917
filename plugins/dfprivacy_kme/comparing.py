"""Two samples of embedded rows, and how far apart they would be if they were of one population."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_kme.embedding import Space

__all__ = ["Sample", "null_distances", "pooled"]

_BLOCK = 1 << 22  # numbers drawn at a time


@dataclass(frozen=True)
class Sample:
    """A mean embedding, and what is known of the rows that it is of.

    Attributes
    ----------
    embedding : ndarray of shape (F,)
        The mean feature, perhaps with noise.
    size : float
        Number of rows.
    rows, share : ndarray of shape (m, columns) and (m,)
        Points that stand for the rows, and the share of each.
    noise : float
        Standard deviation of the noise in each coordinate.
    count_noise : float
        Standard deviation of the noise in the number of rows, relative to it.
    laplace : bool
        Whether the noise is Laplace; if not, Gaussian.
    """

    embedding: NDArray[np.float64]
    size: float
    rows: NDArray[np.float64]
    share: NDArray[np.float64]
    noise: float = 0.0
    count_noise: float = 0.0
    laplace: bool = False

    @classmethod
    def of_rows(cls, rows: NDArray[np.float64], psi: NDArray[np.float64]) -> Sample:
        """Embed public rows, equal ones as one point."""
        points, counts = np.unique(rows, axis=0, return_counts=True)
        return cls(psi.mean(axis=0), float(len(rows)), points, counts / len(rows))

    @property
    def squared_noise(self) -> float:
        """Mean squared length of the noise."""
        squared = float(self.embedding @ self.embedding)
        return len(self.embedding) * self.noise**2 + self.count_noise**2 * squared


def pooled(one: Sample, other: Sample, space: Space) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give features of points that stand for a population of both samples, and their shares.

    Each sample counts by the inverse of the variance of its embedding, noise included: as one population would best
    be estimated.
    """
    psis = [space.features(each.rows) for each in (one, other)]
    means = [each.share @ psi for each, psi in zip((one, other), psis, strict=True)]
    traces = [
        float(each.share @ (psi**2).sum(axis=1)) - float(mean @ mean)
        for each, psi, mean in zip((one, other), psis, means, strict=True)
    ]
    rows = one.size + other.size
    spread = max(1e-12, (one.size * traces[0] + other.size * traces[1]) / rows)
    variances = [spread / each.size + each.squared_noise for each in (one, other)]
    weight = variances[1] / sum(variances)
    return np.vstack(psis), np.concatenate([weight * one.share, (1 - weight) * other.share])


def null_distances(
    one: Sample,
    other: Sample,
    psi: NDArray[np.float64],
    share: NDArray[np.float64],
    draws: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Draw squared distances of the embeddings of two samples of one population, noise included."""
    centred = psi - share @ psi
    height = max(1, _BLOCK // len(share))
    distances = np.empty(draws)
    for start in range(0, draws, height):
        count = min(height, draws - start)
        difference = np.zeros((count, psi.shape[1]))
        for each, sign in ((one, 1), (other, -1)):
            size = max(1, round(each.size))
            difference += sign * (rng.multinomial(size, share, size=count) / size - share) @ centred
            difference += _noise(each, share @ psi, count, rng)
        distances[start : start + count] = (difference**2).sum(axis=1)
    return distances


def _noise(sample: Sample, mean: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw the noise of an embedding: of its coordinates, and of the number of rows."""
    draw = rng.laplace if sample.laplace else rng.normal
    unit = 1 / math.sqrt(2) if sample.laplace else 1.0
    noise: NDArray[np.float64] = np.zeros((count, len(mean)))
    if sample.noise:
        noise += draw(0.0, sample.noise * unit, size=noise.shape)
    if sample.count_noise:
        noise += draw(0.0, sample.count_noise * unit, size=(count, 1)) * mean
    return noise
