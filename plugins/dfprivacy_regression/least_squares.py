"""Least squares from noisy second moments, and from a noisy score: two measurements of one matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_regression.design import Design

    Numbers = NDArray[np.float64]

__all__ = ["CLEAR", "DRAWS", "Estimate", "Known", "cube_variance", "score_of"]

DRAWS = 2000
CLEAR = 3.0  # noise standard errors by which the smallest eigenvalue must stand out
_NARROW = (
    1e-4  # of the squared half-width of the outcome's bounds: residuals are not clipped as if they varied less
)


def cube_variance(dimension: int, scale: float) -> float:
    """Variance of each coordinate of the noise of a cube, P(x) ∝ exp(-max|x_i| / scale)."""
    return (dimension + 1) * (dimension + 2) / 3 * scale**2


@dataclass(frozen=True)
class Known:
    """What is known of the moments of a design: an estimate, and the covariance of its noise.

    Attributes
    ----------
    design : Design
        The regression.
    moments : ndarray of shape (m,)
        The number of rows first, and a 0 last.
    covariance : ndarray of shape (m, m)
        Of the noise in them.
    """

    design: Design
    moments: Numbers
    covariance: Numbers

    @classmethod
    def assumed(cls, design: Design, n: int) -> Known:
        """Give moments for a plan: numbers vary by a third of half their bounds, categories are alike in size."""
        index = design.index()
        diagonal = index.diagonal()
        moments = np.zeros(index.max() + 1)
        moments[diagonal] = n / 9
        moments[diagonal[design.dummies]] = n / (1 + design.width)
        moments[0] = n
        return cls(design, moments, np.zeros((len(moments),) * 2))

    def matrix(self, moments: Numbers) -> Numbers:
        """Put moments into M, shape (..., q + 1, q + 1)."""
        matrix: Numbers = moments[..., self.design.index()]
        return matrix

    def updated(self, observed: Numbers, means: Numbers, noise: Numbers) -> Known:
        """Take in more that is linear in the moments: observed = means @ moments + noise.

        Parameters
        ----------
        observed : ndarray of shape (k,)
        means : ndarray of shape (k, m)
        noise : ndarray of shape (k,)
            Variances.

        Returns
        -------
        Known
            The best linear estimate of both (Kalman's), which is exact for Gaussian noise.
        """
        P, H = self.covariance, means
        gain = np.linalg.solve(H @ P @ H.T + np.diag(noise), H @ P).T
        covariance = P - gain @ H @ P
        covariance = (covariance + covariance.T) / 2
        return replace(self, moments=self.moments + gain @ (observed - H @ self.moments), covariance=covariance)

    def estimate(self) -> Estimate | None:
        """Give the least-squares estimate; None if the matrix of the regressors is not positive definite."""
        M = self.matrix(self.moments)
        try:
            np.linalg.cholesky(M[:-1, :-1])
        except np.linalg.LinAlgError:
            return None
        return Estimate(self, M)

    def clarity(self) -> float:
        """How far the smallest eigenvalue of the regressors' scatter stands out, in noise standard errors.

        Infinite where there is no noise.
        """
        M = self.matrix(self.moments)
        n, at = M[0, 0], self.design.index()[1:-1, 1:-1]
        if n <= 0:
            return -math.inf
        scatter = M[1:-1, 1:-1] - np.outer(M[1:-1, 0], M[0, 1:-1]) / n
        least = float(np.linalg.eigvalsh(scatter)[0])
        noise = math.sqrt(float(self.covariance[at, at].max()) * self.design.width)
        return least / noise if noise else math.copysign(math.inf, least)

    def draws(self, rng: np.random.Generator, degrees: float) -> Numbers | None:
        """Draw coefficients from what they may be: the noise, and the sampling of rows.

        Returns
        -------
        ndarray of shape (draws, q) or None
            Infinite, every other one negative, where the matrix that the noise leaves possible is not positive
            definite; None if most are.
        """
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0))
        M = self.matrix(self.moments + rng.normal(size=(DRAWS, len(values))) @ root.T)
        M = M[np.linalg.eigvalsh(M[:, :-1, :-1])[:, 0] > 0]
        if len(M) < DRAWS / 2:
            return None
        lost = np.full((DRAWS - len(M), len(M[0]) - 1), np.inf)
        lost[::2] *= -1
        products = M[:, :-1, -1]
        inverse = np.asarray(np.linalg.inv(M[:, :-1, :-1]), dtype=np.float64)
        b: Numbers = np.einsum("rij,rj->ri", inverse, products)
        rest = np.maximum(M[:, -1, -1] - np.einsum("ri,ri->r", b, products), 0) / degrees
        spread = np.linalg.cholesky(inverse) * np.sqrt(rest)[:, None, None]
        return np.concatenate([b + np.einsum("rij,rj->ri", spread, rng.normal(size=b.shape)), lost])


@dataclass(frozen=True)
class Estimate:
    """A least-squares estimate from moments with noise.

    Attributes
    ----------
    known : Known
        The moments.
    M : ndarray of shape (q + 1, q + 1)
        The same as a matrix.
    """

    known: Known
    M: Numbers

    @cached_property
    def inverse(self) -> Numbers:
        """Inverse of A, the matrix of the regressors."""
        return np.asarray(np.linalg.inv(self.M[:-1, :-1]), dtype=np.float64)

    @cached_property
    def b(self) -> Numbers:
        """The coefficients."""
        b: Numbers = self.inverse @ self.M[:-1, -1]
        return b

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the residuals."""
        return max(float(self.M[0, 0]) - len(self.b), 1.0)

    @cached_property
    def variance(self) -> float:
        """Variance s² of the residuals, and no less than its own noise standard error."""
        index, v = self.known.design.index(), np.append(self.b, -1.0)
        weights = np.zeros(len(self.known.moments))
        np.add.at(weights, index, np.outer(v, v))
        noise = math.sqrt(max(float(weights @ self.known.covariance @ weights), 0.0))
        return max(float(v @ self.M @ v), noise) / self.degrees

    @cached_property
    def noise(self) -> Numbers:
        """Covariance of the coefficients that comes from the noise, by the derivative of A⁻¹ times the products."""
        index, q = self.known.design.index(), len(self.b)
        J = np.zeros((q, len(self.known.moments)))
        for j in range(q):
            J[j, index[j, q]] += 1
            for k in range(q):
                J[j, index[j, k]] -= self.b[k]
        root = self.inverse @ J
        covariance: Numbers = root @ self.known.covariance @ root.T
        return covariance

    def clip(self, noise: float) -> float:
        """Choose where residuals are clipped in the second stage, from public numbers.

        Three standard deviations, as far as they are known. Farther where that costs little: up to where the noise
        of the score is a third of its sampling error, and no farther than residuals go.

        Parameters
        ----------
        noise : float
            Noise standard error of the sums of the second stage.
        """
        n = max(float(self.M[0, 0]), 1.0)
        at = self.known.design.index()[-1, -1]
        unsure = math.sqrt(max(float(self.known.covariance[at, at]), 0.0)) / n
        wrong = min(math.sqrt(max(float(np.trace(self.noise)), 0.0)), 1.0)
        needed = 3 * math.sqrt(min(max(self.variance, _NARROW) + unsure, 1.0)) + wrong
        cheap = math.sqrt(self.variance * float(np.diag(self.M)[:-1].min())) / (3 * noise)
        return float(min(max(needed, cheap), 1 + np.abs(self.b).sum()))

    def directions(self) -> Numbers:
        """Rows a_j by which the coefficients in the columns' units follow from the products, shape (q, q)."""
        directions: Numbers = self.known.design.natural()[1] @ self.inverse
        return directions


def score_of(known: Known, b: Numbers, c: float) -> tuple[Numbers, Numbers]:
    """Return the linear map from the moments to the score at b, if no residual is clipped.

    Returns
    -------
    means : ndarray of shape (q + 1, m)
        Of c times the sums of x_j ψ/c, and of c²/2 times that of 2ψ²/c² - 1.
    scales : ndarray of shape (q + 1,)
        What each of the measured sums is multiplied by.
    """
    index, q = known.design.index(), len(b)
    means = np.zeros((q + 1, len(known.moments)))
    v = np.append(b, -1.0)
    for j in range(q):
        np.add.at(means[j], index[j], -v)
    np.add.at(means[q], index, np.outer(v, v))
    means[q, 0] -= c * c / 2
    return means, np.append(np.full(q, c), c * c / 2)
