"""Fourier features: cosines and sines of a row's numbers at public frequencies."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING, final

import numpy as np

from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import Norm, SlowFeatures
from dfprivacy.features.product_kernel import sobol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy.schema import Column

__all__ = ["Fourier", "gaussian_frequencies"]

_GRID_BITS = 26  # standardized numbers are integer multiples of 2^-26
_FEW, _WORK, _NEAR, _SLACK = 6, 1 << 22, 1e-3, 1e-9  # of the search for the least mean of cosines
_FLOAT32_ERROR = 2.0**-20  # more than what cosine and sine in float32 miss of the unit circle, over √m


@final
class Fourier(SlowFeatures):
    r"""Fourier features of a row x: :math:`m^{-1/2}\,(\cos \omega_j'(x - c),\ \sin \omega_j'(x - c))`, j = 1, …, m.

    The sums, divided by the weight :math:`m^{-1/2}`, are the empirical characteristic function times the number
    of rows.

    Parameters
    ----------
    columns : sequence of Column
        Columns with bounds.
    frequencies : array_like of shape (m, columns)
        Public frequencies :math:`\omega_j`, in radians per unit of each column.

    Attributes
    ----------
    frequencies : ndarray of shape (m, columns)
        The frequencies as used, after rounding.
    centre : ndarray of shape (columns,)
        c, the middle of the bounds. Another origin is a rotation of each pair, which costs nothing afterwards.
    shape : tuple
        (2, m): cosines, then sines.

    Notes
    -----
    :math:`\cos^2 + \sin^2 = 1`, so the vector has L2 norm 1. Its kernel, a mean of cosines, can be negative: two
    vectors can be opposite, and the diameter is up to 2, not the √2 of a kernel in [0, 1]. It is
    :math:`\sqrt{2 - 2\kappa}` with :math:`\kappa` the least value of the mean of cosines
    :math:`\frac1m \sum_j \cos \omega_j'\Delta` over the differences of two rows within the bounds. A lower bound of
    it is found by branch and bound: in a box with centre c and half widths h, by Taylor's theorem,

    .. math:: \frac1m \sum_j \cos \omega_j'\Delta \ge \frac1m \sum_j \cos \omega_j'c
       - \sum_i h_i \Bigl|\frac1m \sum_j \omega_{ji} \sin \omega_j'c\Bigr|
       - \frac1{2m} \sum_j \Bigl(\sum_i h_i |\omega_{ji}|\Bigr)^2 ,

    and the boxes that may hold the least value are halved. Where there are too many (many columns), the bound at
    that point holds, and at worst the diameter is 2. The error of floating point is taken off: that of an angle is
    some last bits of the largest, and moves cosine and slope by as much.

    A phase, in turns, is a scalar product of numbers on binary grids that is exact in float64, reduced to [-1/2,
    1/2] without rounding. So the vector is a pure function of its row. Cosine and sine are taken in float32, of
    the same angle; what they miss of the unit circle, less than 10\ :sup:`-6`, is charged.

    In the norm of infinity the radius is :math:`m^{-1/2}`. Two points of the unit circle at angles that differ by
    :math:`\theta` are :math:`2 |\sin(\theta/2)|` apart, and so are their cosines and sines at most: the diameter is
    :math:`2 m^{-1/2} \sin(\min(\theta, \pi)/2)`, with :math:`\theta` the largest difference of two rows' angles.
    """

    def __init__(self, columns: Sequence[Column], frequencies: NDArray[np.float64]) -> None:
        self.columns = tuple(columns)
        omegas = np.asarray(frequencies, dtype=np.float64)
        if omegas.ndim != 2 or omegas.shape[1] != len(self.columns) or not omegas.size:  # noqa: PLR2004
            raise ArgumentError(
                f"Frequencies of shape {omegas.shape} do not fit {len(self.columns)} columns.",
                "Give one row for each frequency, with one entry for each column.",
            )
        if not np.isfinite(omegas).all():
            raise ArgumentError(
                "Frequencies must be finite numbers.", "Leave out infinite and missing frequencies."
            )
        self.centre = np.array([column.mid for column in self.columns])
        self._half_widths = np.array([column.half for column in self.columns])
        with np.errstate(over="ignore"):
            turns = omegas * self._half_widths / (2 * np.pi)
            reach = max(1.0, float(np.abs(turns).sum(axis=1).max()))
        q = 52 - _GRID_BITS - math.ceil(math.log2(min(reach, 2.0**52))) - 1
        if q < 8:  # noqa: PLR2004
            raise ArgumentError(
                "Frequencies are too high for the bounds.", "Give lower frequencies, or tighter bounds."
            )
        self._turns = np.rint(turns * 2.0**q) / 2.0**q
        self.frequencies = self._turns * (2 * np.pi) / self._half_widths
        m = len(omegas)
        self.shape = (2, m)
        self._weight = 1 / math.sqrt(m)
        self.weights = self._weight

    def _angles(self, y: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the angles ω'(x - c) of standardized rows for each frequency ω, reduced to [-π, π]."""
        turns: NDArray[np.float64] = np.rint(y * 2.0**_GRID_BITS) / 2.0**_GRID_BITS @ self._turns.T
        turns -= np.rint(turns)
        turns *= 2 * np.pi
        return turns.astype(np.float32)

    def _standardized_rows(self, batch: Batch) -> NDArray[np.float64]:
        return np.column_stack([batch.standardized(column) for column in self.columns])

    def features(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the feature vectors of public rows, scaled by 1/√m, as float64 of shape (rows, 2m)."""
        angles = (np.asarray(rows, dtype=np.float64) - self.centre) @ self.frequencies.T
        waves: NDArray[np.float64] = np.hstack([np.cos(angles), np.sin(angles)]) * self._weight
        return waves

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        angles = self._angles(self._standardized_rows(batch))
        return np.hstack([np.cos(angles), np.sin(angles)]).astype(np.float64) * self._weight

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return the feature vectors of a batch as multiples of the grid step."""
        return np.rint(self.rows(batch) * 2.0**k)

    def radius(self, norm: Norm) -> float:
        """Return the largest norm of a row's feature vector."""
        if norm == math.inf:
            return (1 + _FLOAT32_ERROR) * self._weight
        return (1 + _FLOAT32_ERROR) * (1.0 if norm != 1 else math.sqrt(2 * self.shape[1]))

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance between the feature vectors of two rows."""
        private = [column.name not in public for column in self.columns]
        if not any(private):
            return 0.0
        # radians per half width; rows differ by up to 2 of these
        omega = 2 * np.pi * self._turns[:, private]
        if norm == math.inf:
            half_angle = min(float(np.abs(omega).sum(axis=1).max()), math.pi / 2)
            return 2 * self._weight * (math.sin(half_angle) + _FLOAT32_ERROR)
        euclidean = math.sqrt(2 - 2 * _least_mean_cosine(omega.tobytes(), sum(private), 2.0)) + 2 * _FLOAT32_ERROR
        return euclidean if norm != 1 else euclidean * math.sqrt(2 * self.shape[1])

    def describe(self) -> str:
        """Return a description of the feature."""
        names = ", ".join(column.name for column in self.columns)
        return f"{self.shape[1]} Fourier features of ({names})"


@lru_cache(maxsize=64)
def _least_mean_cosine(frequencies: bytes, d: int, reach: float) -> float:
    """Return a lower bound of the mean of cos(ω'x) over frequencies ω, for x in the cube [-reach, reach]^d.

    The mean is even, so boxes on one side of the cube stand for those opposite.
    """
    omega = np.frombuffer(frequencies).reshape(-1, d)
    m = len(omega)
    slack = _SLACK + 4 * (d + 2) * 2.0**-53 * reach * float(np.abs(omega).sum(axis=1).max())
    centres, half = np.zeros((1, d)), np.full(d, reach)
    met, sides = 1.0, 1
    while True:
        angles = centres @ omega.T
        values = np.cos(angles).mean(axis=1)
        slopes = np.abs(np.sin(angles) @ omega) / m @ half
        bounds = values - slopes - float(np.mean((np.abs(omega) @ half) ** 2)) / 2 - slack
        met = min(met, float(values.min()))
        enough = met - _NEAR * (1 - met)  # below every box that was left out
        centres = centres[bounds < enough]
        if not len(centres) or d > _FEW or sides * len(centres) * m << d > _WORK:
            return max(-1.0, min(enough, float(bounds.min())))
        corners = np.array(list(itertools.product((-0.5, 0.5), repeat=d)))
        centres = (centres[:, None, :] + corners * half).reshape(-1, d)
        if sides == 1:
            centres, sides = centres[centres[:, 0] > 0], 2
        half = half / 2


def gaussian_frequencies(lengthscales: NDArray[np.float64], m: int) -> NDArray[np.float64]:
    r"""Return quasi-random normal frequencies, whose Fourier features approximate the Gaussian kernel.

    Parameters
    ----------
    lengthscales : ndarray of shape (columns,)
        Of the kernel :math:`\exp(-\sum_i (x_i - x_i')^2 / 2\ell_i^2)`.
    m : int
        How many.

    Returns
    -------
    ndarray of shape (m, columns)
        In radians per unit: the first m points of the Sobol sequence, through the normal quantile function,
        over the lengthscales. Public, and always the same.
    """
    from scipy.special import ndtri  # SciPy takes longer to import than all of dfprivacy

    points = sobol(len(lengthscales), m)
    inside = points[:m] + 0.5 / len(points)  # away from 0
    omegas: NDArray[np.float64] = ndtri(inside) / lengthscales
    return omegas
