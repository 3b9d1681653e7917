r"""Messages with a noisy angle for each row, from which another party measures nonlinear dependence.

On an interval of length L the distance is a Fourier series,
:math:`-|r| = c + \sum_{k\,\mathrm{odd}} \frac{4L}{(\pi k)^2} \cos(k \pi r / L)`, so the angle
:math:`k \pi x / L` of a row is all that the k-th part of a distance covariance needs of x. The row's message is
that angle, randomised in the local model. Its mean direction is the true one, shorter by a known factor, and the
noise of different rows is independent: whoever has the other variable estimates the k-th part of the squared
distance covariance without any bias. The first harmonic holds 81 % of the kernel, the first two 90 %; what is left
out is not negative, so an estimate errs on the side of independence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.local import Arc, RowLabels
from dfprivacy_dcor.message import Message, feature_covariances
from dfprivacy_dcor.points import features_covariance
from dfprivacy_dcor.spaces import ROWS_MIN, sphere_constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy_dcor.points import Rows

__all__ = ["HARMONIC_MAX", "PLACES", "Angles", "DistanceMessage", "best_half_width"]

PLACES = 1 << 16
HARMONIC_MAX = 1 << 20
"""The largest harmonic of a message."""
_RESULTANT_MIN = 1e-12  # that of the least epsilon, 1e-9, is above 1e-10


@dataclass(frozen=True)
class AngleFeatures:
    """Integer cosine and sine of the noisy angle of each row in one block of a message.

    Attributes
    ----------
    rows : ndarray of int
        Which rows.
    steps : ndarray of int64 of shape (m, 2)
        Their features.
    weight : float
        What a product of two features is multiplied by, so that squared distances of features are distances.
    """

    rows: NDArray[np.intp]
    steps: NDArray[np.int64]
    weight: float

    @property
    def _centred(self) -> NDArray[np.int64]:
        """Features minus the block's mean, times the block's number of rows, which makes them integers."""
        centred: NDArray[np.int64] = len(self.rows) * self.steps - self.steps.sum(axis=0)
        return centred

    @property
    def _scale(self) -> float:
        """Factor that turns the squared norm of a centred feature into a squared distance."""
        return self.weight / 2 / len(self.rows) ** 2

    @property
    def squares(self) -> NDArray[np.float64]:
        """Squared distance of each row's feature vector from the mean feature vector."""
        squares: NDArray[np.float64] = self._scale * (self._centred.astype(np.float64) ** 2).sum(axis=1)
        return squares

    def subset(self, mask: NDArray[np.bool_]) -> AngleFeatures:
        """Return the features of the block's rows that a mask of all rows selects."""
        kept = mask[self.rows]
        return AngleFeatures(self.rows[kept], self.steps[kept], self.weight)

    def covariance(self, y: Rows) -> float:
        """Compute the squared distance covariance of the features with the points y of the same rows."""
        return self._scale * features_covariance(self._centred, y)


class Angles(RowLabels):
    r"""Feature of a row: the angle of its projection on a direction, as the index of one of N points on a circle.

    Parameters
    ----------
    columns : tuple of Column
        Columns with bounds; each is scaled to a width of 1.
    direction : ndarray of shape (p,)
        What the row is projected on.
    harmonic : int
        k: how often the angle goes half around in a length L.
    length : float
        L, as a part of the width of the projection.
    gap : int, optional
        Place of a row in which a value is missing; default: that of the fill values.
    """

    description = "the angle of {columns}"
    places = PLACES

    def __init__(
        self,
        columns: tuple[Column, ...],
        direction: NDArray[np.float64],
        harmonic: int,
        length: float,
        gap: int | None = None,
    ) -> None:
        self.columns = columns
        self.direction = direction
        self.gap = gap
        self.turns = harmonic / (2 * length * float(np.abs(direction).sum()))

    def rows(self, batch: Any) -> NDArray[np.int64]:
        """Return, for each row of a batch, the index of its point on the circle."""
        along = np.zeros(batch.size)
        for step, column in zip(self.direction, self.columns, strict=True):
            along += step * (batch.standardized(column) / 2 + 0.5)
        places: NDArray[np.int64] = np.rint(along * self.turns * PLACES).astype(np.int64) % PLACES
        if self.gap is not None:
            for column in self.columns:
                if not column.filled:
                    places[batch.missing(column)] = self.gap
        return places


def best_half_width(epsilon: float, places: int = PLACES) -> int:
    """Return the half width of randomized response for which noisy angles are closest to true ones on average."""
    lengths = np.arange(1, places - 1, 2, dtype=np.float64)
    ratio = math.exp(min(epsilon, 40.0))
    resultant = (ratio - 1) * np.sin(np.pi * lengths / places) / (lengths * ratio + places - lengths)
    return int(resultant.argmax())


@dataclass(frozen=True, kw_only=True, repr=False)
class DistanceMessage(Message):
    """Message for `dcor_with`: a noisy angle of each row, and a noisy distance standard deviation.

    It may be kept, sent and used as often as one likes: all that is post-processing of what was paid for.

    Attributes
    ----------
    columns : tuple of str
        The columns that it is about.
    rows : int
        Number of rows n.
    angles : ndarray of int64 of shape (n,)
        The noisy place of each row on a circle of ``places``.
    turns : ndarray of int64 of shape (n,)
        Which of the directions and harmonics the row's angle is of; drawn without looking at the data.
    directions : ndarray of shape (blocks, p)
        Directions in which the columns, each scaled to a width of 1, are projected.
    harmonics : tuple of int
        Harmonic of each block.
    length : float
        Length L of the kernel, as a part of the width of a projection.
    places, reach, inside, outside : int
        How the angles were randomised; see ``dfprivacy.local.Arc``.
    deviation, deviation_scale : float
        Noisy distance standard deviation s_x times the share of complete rows, and the scale of its Laplace noise.
    complete, complete_scale : float or None
        Noisy share of complete rows, and the scale of its Laplace noise; None where all rows count. The others send
        noise alone.
    keys : tuple or None
        The key of each row, if the caller gave keys.
    """

    angles: NDArray[np.int64]
    harmonics: tuple[int, ...]
    length: float
    places: int
    reach: int
    inside: int
    outside: int

    _row_fields = ("angles", "turns")
    protocol = "angle"

    @property
    def arc(self) -> Arc:
        """Randomized response that was applied to the angles."""
        return Arc(self.places, self.reach, self.inside, self.outside)

    def blocks(self) -> list[tuple[NDArray[np.intp], float]]:
        """Return the row indices and the distance weight of each block of at least four rows.

        The pseudo-distance of two rows of a block is minus the weight times the product of their `features`.
        """
        sizes = np.bincount(self.turns, minlength=len(self.harmonics))
        p = len(self.columns)
        blocks = []
        for at, harmonic in enumerate(self.harmonics):
            if sizes[at] < ROWS_MIN:
                continue
            alike = sum(int(size) for size, k in zip(sizes, self.harmonics, strict=True) if k == harmonic)
            width = float(np.abs(self.directions[at]).sum()) * sphere_constant(p)
            weight = 4 * self.length * width / (math.pi * harmonic) ** 2 * int(sizes[at]) / alike
            blocks.append((np.flatnonzero(self.turns == at), weight))
        return blocks

    @property
    def features(self) -> NDArray[np.float64]:
        """Unbiased estimates of the cosine and sine of the true angle of each row, shape (n, 2)."""
        return self._unit_vectors / self.arc.resultant

    @property
    def _unit_vectors(self) -> NDArray[np.float64]:
        """Cosine and sine of the noisy angle of each row."""
        angle = self.angles * (2 * math.pi / self.places)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def parts(self) -> list[AngleFeatures]:
        """Return the integer features of each block, computed from the noisy angles alone."""
        wave, parts = self._unit_vectors, []
        for rows, weight in self.blocks():
            bits = 29 - len(rows).bit_length()
            steps = np.rint(np.ldexp(wave[rows], bits)).astype(np.int64)
            parts.append(AngleFeatures(rows, steps, weight / (self.arc.resultant * 2.0**bits) ** 2))
        return parts

    def covariances(
        self, y: NDArray[np.float64], permutations: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Compute unbiased squared distance covariances of the rows with y and with permutations of y."""
        total = np.zeros(permutations + 1)
        for rows, weight in self.blocks():
            total += feature_covariances(self.features[rows], y[rows], permutations, rng) * weight
        return total

    def is_consistent(self) -> bool:
        """Return whether angles, harmonics, length and randomized response have valid types, shapes and ranges."""
        return (
            self.angles.dtype == np.int64
            and self.angles.shape == (self.rows,)
            and 0 <= self.angles.min() <= self.angles.max() < self.places
            and len(self.harmonics) == len(self.directions)
            and all(isinstance(k, int) and 0 < k <= HARMONIC_MAX for k in self.harmonics)
            and 0 < self.length < math.inf
            and _RESULTANT_MIN < self.arc.resultant <= 1
        )
