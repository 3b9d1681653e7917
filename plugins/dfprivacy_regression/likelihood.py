"""Logistic regression from noisy sums: a discriminant start, and steps of Newton."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy_regression.scores import pairs, sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_regression.design import Design
    from dfprivacy_regression.least_squares import Known

    Numbers = NDArray[np.float64]

__all__ = ["LONG", "Information", "discriminant", "length"]

_FAR = 8.0  # L1 length of a start, in units of the bounds
LONG = 4.0  # and of a step
_WRONG = 0.05  # part of an information by which one that takes regressors for normal may be off
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_FLOOR = 0.7  # noise standard errors below which no eigenvalue of the scatter is taken to be


def discriminant(known: Known) -> Numbers:
    """Start from the means of both outcomes and the scatter within them, as if regressors were normal.

    Newton's steps from 0 go wrong where the outcome is rare or depends strongly on the regressors.
    """
    M = known.matrix(known.moments)
    n = max(float(M[0, 0]), 2.0)
    ones = float(np.clip(M[0, -1], 1, n - 1))
    means = [M[1:-1, -1] / ones, (M[0, 1:-1] - M[1:-1, -1]) / (n - ones)]
    scatter = M[1:-1, 1:-1] - sum(
        rows * np.outer(mean, mean) for rows, mean in zip((ones, n - ones), means, strict=True)
    )
    index = known.design.index()[1:-1, 1:-1]
    noise = math.sqrt(max(float(known.covariance[index, index].max()), 0.0) * len(scatter))
    inverse = _floored(scatter / n, _FLOOR * noise / n)
    slopes: Numbers = inverse @ (means[0] - means[1])
    start = math.log(ones / (n - ones)) - float((means[0] + means[1]) @ slopes) / 2
    return _shortened(np.append(start, slopes), _FAR)


def _floored(matrix: Numbers, least: float) -> Numbers:
    """Invert a symmetric matrix, with no eigenvalue taken to be below one number."""
    values, vectors = np.linalg.eigh(matrix)
    floored: Numbers = (vectors / np.maximum(values, max(least, 1e-9))) @ vectors.T
    return floored


def length(vector: Numbers) -> float:
    """Return the L1 norm."""
    return float(np.abs(vector).sum())


def _shortened(vector: Numbers, longest: float) -> Numbers:
    shortened: Numbers = vector * min(1.0, longest / max(length(vector), 1e-12))
    return shortened


@dataclass(frozen=True)
class Information:
    """The information at some coefficients, and the variance of the noise in each entry.

    Attributes
    ----------
    b : ndarray of shape (q,)
    H, noise : ndarray of shape (q, q)
    """

    b: Numbers
    H: Numbers
    noise: Numbers

    @classmethod
    def expected(cls, known: Known, b: Numbers) -> Information:
        """Return the information at b that the first stage implies for normal regressors."""
        index = known.design.index()[:-1, :-1]
        M = known.moments[index]
        n = max(float(M[0, 0]), 2.0)
        mean = M[0] / n
        along = M @ b / n - mean * float(mean @ b)
        spread = math.sqrt(max(float(b @ along), 1e-6))
        share = sigmoid(float(b @ mean) + spread * _NODES)
        weight = n * share * (1 - share) * _WEIGHTS / _WEIGHTS.sum()
        along /= spread
        w, wt, wtt = (float(weight @ _NODES**k) for k in range(3))
        H = w * M / n + (wtt - w) * np.outer(along, along) + wt * (np.outer(mean, along) + np.outer(along, mean))
        return cls(b, H, (w / n) ** 2 * known.covariance[index, index])

    @classmethod
    def of(
        cls, design: Design, b: Numbers, sums: Numbers, variance: float, rows: tuple[float, float]
    ) -> Information:
        """Return the information from noisy sums.

        The noise of each has the given variance; `rows` is the number of rows in their unit, and its variance.
        """
        q = design.width
        H, noise = np.zeros((q, q)), np.zeros((q, q))
        for value, (i, j, signed) in zip(sums, pairs(design), strict=True):
            H[i, j] = H[j, i] = value if signed else (value + rows[0]) / 2
            noise[i, j] = noise[j, i] = variance if signed else (variance + rows[1]) / 4
        for k in design.dummies:  # a 0 or 1 is its own square
            H[k, k], noise[k, k] = H[0, k], noise[0, k]
        return cls(b, H, noise)

    def pooled(self, other: Information) -> Information:
        """Return the mean with what regressors would give that are normal, weighted by the inverse variances.

        That may be off by some percent, so where noise is small it counts for nothing.
        """
        sizes = np.sqrt(np.abs(np.diag(other.H)))
        weight = self.noise / (self.noise + other.noise + (_WRONG * np.outer(sizes, sizes)) ** 2)
        return replace(self, H=self.H + weight * (other.H - self.H), noise=(1 - weight) * self.noise)

    @property
    def spread(self) -> float:
        """Noise standard error of its smallest eigenvalue, roughly."""
        return math.sqrt(float(self.noise.max()) * len(self.H))

    @property
    def inverse(self) -> Numbers:
        """Its inverse, with no eigenvalue taken to be below half its noise."""
        return _floored(self.H, self.spread / 2)

    def step(self, score: Numbers) -> Numbers:
        """Return a step of Newton that allows for how the information changes.

        The logarithm of the mean weight σ(1 - σ) is taken to change as if regressors were normal, with the moments
        that they have under these weights, up to the middle of the step.

        Parameters
        ----------
        score : ndarray of shape (q,)
            The noisy score.

        Returns
        -------
        ndarray of shape (q,)
            The step, of an L1 norm of at most `LONG`.
        """
        straight = _shortened(self.inverse @ score, LONG)
        total = max(float(self.H[0, 0]), 1e-9)
        mean = float(np.clip(self.H[0] @ self.b / total, -_FAR, _FAR))
        slope = math.tanh(mean / 2)
        step = straight
        for _ in range(3):
            moved = float(self.H[0] @ step) / total
            joint = float(self.b @ self.H @ step) / total - mean * moved
            step = straight * math.exp(np.clip(slope * moved + joint * (1 - slope**2) / 2, -2, 2) / 2)
        return _shortened(step, LONG)
