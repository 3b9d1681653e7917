"""Least-squares estimates from noisy second moments, and from a noisy score of clipped residuals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy.inference.clipped import shares_beyond_bounds
from dfprivacy.inference.draws import cube_noise
from dfprivacy.laws import NoiseLaw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import NoisyValue
    from dfprivacy.inference.clipped import Sides
    from dfprivacy_regression.design import Design

    Numbers = NDArray[np.float64]

__all__ = ["DesignMoments", "LeastSquares", "NoisySums", "score_map"]

_MIN_VARIANCE = 1e-4  # of the squared half-width of the outcome's bounds: residuals are not taken to vary less


@dataclass(frozen=True)
class NoisySums:
    """Noisy sums: values and scales of their cube noise, and the dimension of the vector that was released."""

    values: Numbers
    scales: Numbers
    dimension: int

    @classmethod
    def from_measurement(cls, measured: NoisyValue) -> NoisySums:
        """Construct the noisy sums from a measurement."""
        return cls(measured.values.ravel(), measured.scales.ravel(), measured.values.size)

    @property
    def variances(self) -> Numbers:
        """Variance of the noise in each sum."""
        return NoiseLaw(1.0, kind="cube", dimension=self.dimension).variance * self.scales**2


@dataclass(frozen=True)
class DesignMoments:
    """Noisy second moments of the outcome and the regressors of a design.

    Attributes
    ----------
    design : Design
        The regression.
    moments : ndarray of shape (m,)
        The estimate, the number of rows first, and a 0 last.
    mixing : ndarray of shape (m, k)
        How the noise in the measured sums moves the estimate: by mixing @ noise.
    sums : tuple of Sums
        What was measured, k sums in all.
    beyond : tuple of NoisyValue
        The rows beyond the bounds of each column of numbers; with weights, theirs, and the number of rows as well.
    """

    design: Design
    moments: Numbers
    mixing: Numbers
    sums: tuple[NoisySums, ...]
    beyond: tuple[NoisyValue, ...] = ()

    @classmethod
    def from_sums(
        cls, design: Design, n: int | None, *measured: NoisySums, rows: int = 0, beyond: tuple[NoisyValue, ...] = ()
    ) -> DesignMoments:
        """Construct the moments from several measurements of the same sums, weighted by inverse variances.

        Parameters
        ----------
        design : Design
            The regression.
        n : int or None
            The number of rows where it was not measured.
        *measured : Sums
            One, or several with noise. A plan's are 0, and what is to be expected is put in their place.
        rows : int
            The number of rows of which a plan is, those that may be left out among them.
        beyond : tuple of NoisyValue
            As the attribute.

        Returns
        -------
        Known
            The moments.
        """
        start, taken = design.moments_map(n)
        precisions = [1 / each.variances if len(measured) > 1 else np.ones(len(each.values)) for each in measured]
        weights = [precision / sum(precisions) for precision in precisions]
        values = sum(weight * each.values for weight, each in zip(weights, measured, strict=True))
        planned = not measured[0].values.any()  # of an empty table, without noise
        moments = _assumed_moments(design, rows, len(start)) if planned else start + taken @ values
        return cls(design, moments, np.hstack([taken * weight for weight in weights]), measured, beyond)

    @cached_property
    def beyond_bounds(self) -> tuple[dict[str, Sides], tuple[str, ...]]:
        """Share of the rows below and above the bounds of each column, and notes on these shares."""
        columns = self.design.bounded_columns
        clipped, notes = shares_beyond_bounds(self.beyond, columns, self.rows[0], moved="coefficient")
        return {column.name: each for column, (each,) in zip(columns, clipped, strict=False)}, notes

    @property
    def rows(self) -> tuple[float, float]:
        """Number of complete rows, public or noisy, and the standard error of its noise."""
        if self.design.weights is None:
            return float(self.moments[0]), math.sqrt(float(self.covariance[0, 0]))
        return max(float(self.beyond[-1].values[0]), 0.0), self.beyond[-1].law.standard_deviation

    @cached_property
    def covariance(self) -> Numbers:
        """Covariance of the noise in the moments."""
        variances = np.concatenate([*(each.variances for each in self.sums), []])
        covariance: Numbers = self.mixing * variances @ self.mixing.T
        return covariance

    def matrix(self, moments: Numbers) -> Numbers:
        """Return vectors of moments as moment matrices M of (1, x, y), shape (..., q + 1, q + 1)."""
        matrix: Numbers = moments[..., self.design.moment_index()]
        return matrix

    def combined_with(self, sums: NoisySums, means: Numbers, units: Numbers, shift: Numbers) -> DesignMoments:
        """Return moments combined with further sums that obey units * sums + shift = means @ moments + noise.

        Parameters
        ----------
        sums : Sums
            k sums with noise.
        means : ndarray of shape (k, m)
            What they are expected to be.
        units, shift : ndarray of shape (k,)
            By what the sums are multiplied, and what is added to them.

        Returns
        -------
        Known
            The best linear estimate of both (Kalman's).
        """
        P, H = self.covariance, means
        gain = np.linalg.solve(H @ P @ H.T + np.diag(units**2 * sums.variances), H @ P).T
        return replace(
            self,
            moments=self.moments + gain @ (units * sums.values + shift - H @ self.moments),
            mixing=np.hstack([self.mixing - gain @ H @ self.mixing, gain * units]),
            sums=(*self.sums, sums),
        )

    def estimate(self) -> LeastSquares | None:
        """Return the least-squares estimate; None if the regressors' moment matrix is not positive definite."""
        M = self.matrix(self.moments)
        return LeastSquares(self, M) if np.linalg.eigvalsh(M[:-1, :-1])[0] > 0 else None

    def eigenvalue_ratio(self) -> float:
        """Return the smallest eigenvalue of the regressors' scatter matrix, divided by its noise standard error."""
        M = self.matrix(self.moments)
        n, at = M[0, 0], self.design.moment_index()[1:-1, 1:-1]
        if n <= 0:
            return -math.inf
        least = float(np.linalg.eigvalsh(M[1:-1, 1:-1] - np.outer(M[1:-1, 0], M[0, 1:-1]) / n)[0])
        noise = math.sqrt(float(self.covariance[at, at].max()) * self.design.width)
        return least / noise if noise else math.copysign(math.inf, least)

    def draws(self) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
        """Draw noise-free moment matrices given the noisy moments, with weights and a mask of valid matrices.

        Returns
        -------
        M : ndarray of shape (draws, q + 1, q + 1)
            The identity where the draw is impossible.
        weights : ndarray of shape (draws,)
            Of the draws, of sum 1.
        possible : ndarray of bool, shape (draws,)
            Where the matrix of the regressors is positive definite.
        """
        noise, weights = cube_noise(tuple((each.dimension, len(each.values)) for each in self.sums))
        scales = np.concatenate([each.scales for each in self.sums])
        M = self.matrix(self.moments - noise * scales @ self.mixing.T)
        possible = np.linalg.eigvalsh(M[:, :-1, :-1])[:, 0] > 0
        return np.where(possible[:, None, None], M, np.eye(M.shape[-1])), weights, possible


def _assumed_moments(design: Design, n: int, m: int) -> Numbers:
    """Return the m moments that a plan assumes: sds of a sixth of the range, equally frequent categories."""
    index = design.moment_index()
    moments = np.zeros(m)
    moments[index.diagonal()] = n / 9
    moments[index.diagonal()[design.dummies]] = n / (1 + design.width)
    if design.success is not None:
        moments[index[-1, -1]] = n / 2
    moments[0] = n
    return moments


@dataclass(frozen=True)
class LeastSquares:
    """Least-squares estimate from noisy moments.

    Attributes
    ----------
    known : Known
        The moments.
    M : ndarray of shape (q + 1, q + 1)
        The same as a matrix.
    """

    known: DesignMoments
    M: Numbers

    @cached_property
    def inverse(self) -> Numbers:
        """Inverse of A = X'X, the moment matrix of the regressors."""
        return np.asarray(np.linalg.inv(self.M[:-1, :-1]), dtype=np.float64)

    @cached_property
    def b(self) -> Numbers:
        """Estimated coefficients of the columns scaled to [-1, 1]."""
        b: Numbers = self.inverse @ self.M[:-1, -1]
        return b

    @property
    def degrees_of_freedom(self) -> float:
        """Degrees of freedom of the residuals."""
        return max(float(self.M[0, 0]) - len(self.b), 1.0)

    @cached_property
    def _score_map(self) -> Numbers:
        """Linear map from the moments to the score and to the sum of squared residuals."""
        return score_map(self.known, self.b, 0.0)[0]

    @cached_property
    def residual_squares(self) -> tuple[float, float]:
        """Noisy sum of the squared residuals, which can be negative, and the standard error of its noise."""
        weights = self._score_map[-1]
        variance = float(weights @ self.known.covariance @ weights)
        return float(weights @ self.known.moments), math.sqrt(max(variance, 0.0))

    @property
    def variance(self) -> float:
        """Variance s² of the residuals, at least the standard error of its own noise."""
        return max(self.residual_squares) / self.degrees_of_freedom

    @cached_property
    def noise(self) -> Numbers:
        """Covariance of the coefficients due to privacy noise, by the delta method."""
        root = self.inverse @ self._score_map[:-1]
        covariance: Numbers = root @ self.known.covariance @ root.T
        return covariance

    def residual_bound(self, noise: float) -> float:
        """Return the bound at which the noisy score clips residuals, computed from released numbers.

        Three standard deviations, as far as they are known. Farther where that costs little: up to where the noise
        of the score is a third of its sampling error, and no farther than residuals go.

        Parameters
        ----------
        noise : float
            Noise standard error of the sums of the second stage.
        """
        n = max(float(self.M[0, 0]), 1.0)
        at = self.known.design.moment_index()[-1, -1]
        unsure = math.sqrt(max(float(self.known.covariance[at, at]), 0.0)) / n
        wrong = min(math.sqrt(max(float(np.trace(self.noise)), 0.0)), 1.0)
        needed = 3 * math.sqrt(min(max(self.variance, _MIN_VARIANCE) + unsure, 1.0)) + wrong
        cheap = math.sqrt(self.variance * float(np.diag(self.M)[:-1].min())) / (3 * noise)
        return float(min(max(needed, cheap), 1 + np.abs(self.b).sum()))


def score_map(known: DesignMoments, b: Numbers, c: float) -> tuple[Numbers, Numbers]:
    """Return the linear map from moments to the score at coefficients b, assuming that no residual is clipped.

    Returns
    -------
    means : ndarray of shape (q + 1, m)
        Of c times the sums of x_j ψ/c, and of c²/2 times that of 2ψ²/c² - 1.
    units : ndarray of shape (q + 1,)
        What each of the measured sums is multiplied by.
    """
    index, q = known.design.moment_index(), len(b)
    means = np.zeros((q + 1, len(known.moments)))
    v = np.append(b, -1.0)
    for j in range(q):
        np.add.at(means[j], index[j], -v)
    np.add.at(means[q], index, np.outer(v, v))
    means[q, 0] -= c * c / 2
    return means, np.append(np.full(q, c), c * c / 2)
