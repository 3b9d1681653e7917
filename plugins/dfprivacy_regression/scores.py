"""Second stages of regressions: scores at an earlier estimate, and Newton steps from a discriminant analysis."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from dfprivacy import features

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_regression.design import Design
    from dfprivacy_regression.least_squares import DesignMoments

    Numbers = NDArray[np.float64]

__all__ = [
    "LONG",
    "HuberScore",
    "Information",
    "LogisticScore",
    "LogisticSquares",
    "WeightedMoments",
    "discriminant_start",
    "l1_norm",
    "n_score_sums",
    "sigmoid",
]

_GRID_STEPS = float(2**24)  # in 1: products of two multiples of a step, and sums of norm 1 of them, fit 53 bits
_MAX_START = 8.0  # L1 length of a start, in units of the bounds
LONG = 4.0  # and of a step
_MODEL_ERROR = 0.05  # part of an information by which one that takes regressors for normal may be off
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_MIN_EIGENVALUE = 0.7  # noise standard errors below which no eigenvalue of the scatter is taken to be


def n_score_sums(q: int, *, robust: bool) -> int:
    """Return the number of sums in a `HuberScore` of q coefficients."""
    return 2 * q + 2 if robust else q + 2


def sigmoid(t: Numbers) -> Numbers:
    """Return the logistic function 1 / (1 + exp(-t))."""
    probability: Numbers = 1 / (1 + np.exp(-np.clip(t, -30, 30)))
    return probability


class _UnitFeatures(features.RowFeatures):
    """Base class of features with every coordinate in [-1, 1]."""

    def radius(self, norm: float) -> float:
        """Return the largest norm of a vector with coordinates in [-1, 1]."""
        d = self.dimension
        return 1.0 if norm == math.inf else float(d) if norm == 1 else math.nextafter(math.sqrt(d), math.inf)


@final
class WeightedMoments(_UnitFeatures):
    """Features whose sums are weighted second moments: v and v z_i z_j, or v (2z² - 1) for squares of numbers.

    Parameters
    ----------
    design : Design
        The regression, with weights.
    """

    description = "weighted products of {columns}"

    def __init__(self, design: Design) -> None:
        self.design = design
        self.columns = design.read_columns
        self.shape = (1 + len(design.moment_entries()),)

    def rows(self, batch: features.Batch) -> Numbers:
        """Return the feature vectors of the rows in a batch."""
        z, v = np.vstack([np.ones(batch.size), self.design.rows(batch)]), self.design.row_weights(batch)
        products = [
            2 * z[i] * z[j] - 1 if centred else z[i] * z[j] for i, j, centred in self.design.moment_entries()
        ]
        rows: Numbers = np.stack([z[0], *products], axis=-1) * np.reshape(v, (-1, 1))
        return rows


@final
class HuberScore(_UnitFeatures):
    """Features of a Huber score: x_j ψ/c for residuals clipped to ψ in [-c, c], and squares for standard errors.

    With weights v in [0, 1]: v x_j ψ/c, v (2ψ²/c² - 1), v (2w/top - 1), and v (2v u_j² ψ²/c² - 1).

    With e = y - xᵀb, ψ is e clipped to ±c, w = (|e| - c)₊ is the part beyond, at most top = 1 + |b|₁ - c, and
    u_j = a_jᵀx. Every coordinate is in [-1, 1].

    Parameters
    ----------
    design : Design
        The regression.
    b : ndarray of shape (q,)
        The first estimate.
    c : float
        Where residuals are clipped.
    tilt : ndarray of shape (q, q), optional
        The vectors a_j, each with an L1 norm of at most 1, so that u_j is in [-1, 1]. They, and x in u_j, are
        rounded to whole steps of 2^-24: then no sum is, and a product of matrices gives every row the same u_j
        among any others.
    """

    description = "scores and squared residuals of {columns}"

    def __init__(self, design: Design, b: Numbers, c: float, tilt: Numbers | None = None) -> None:
        self.design = design
        self.columns = design.read_columns
        self.b, self.c = b, c
        self.top = max(1 + float(np.abs(b).sum()) - c, 1e-9)
        self.tilt = None if tilt is None else np.trunc(tilt * _GRID_STEPS)
        self.shape = (n_score_sums(design.width, robust=tilt is not None),)

    def rows(self, batch: features.Batch) -> Numbers:
        """Return the feature vectors of the rows in a batch, each computed from its own row alone."""
        q, z = self.design.width, self.design.rows(batch)
        x, e = z[:-1], z[-1] - self.b[0]
        for b, xj in zip(self.b[1:], x, strict=True):
            e -= b * xj
        rows = np.empty((self.dimension, batch.size))
        np.clip(np.abs(e) - self.c, 0, self.top, out=rows[q + 1])
        rows[q + 1] /= self.top
        psi = np.clip(e, -self.c, self.c, out=e)
        psi /= self.c
        rows[0] = psi
        np.multiply(x, psi, out=rows[1:q])
        np.multiply(psi, psi, out=rows[q])
        if self.tilt is not None:
            x *= _GRID_STEPS
            u = np.matmul(self.tilt[:, 1:], np.rint(x, out=x), out=rows[q + 2 :])
            u += _GRID_STEPS * self.tilt[:, :1]
            u /= _GRID_STEPS**2
            u *= u
            u *= rows[q]
        v = self.design.row_weights(batch)
        rows[q + 2 :] *= v
        rows[q:] *= 2
        rows[q:] -= 1
        rows *= v
        return rows.T

    def expected_sums(self, M: Numbers) -> Numbers:
        """Return the sums expected for rows with second moments M of (1, x, y), if no residual is clipped."""
        v, n = np.append(self.b, -1.0), M[0, 0]
        squares = v @ M @ v / self.c**2
        sums = [*np.zeros(self.design.width), 2 * squares - n, -n]
        if self.tilt is not None:
            tilt, weight = self.tilt / _GRID_STEPS, self.design.typical_weight
            sums += [2 * weight * (u @ M[:-1, :-1] @ u) / n * squares - n for u in tilt]
        return np.array(sums)


@final
class LogisticScore(_UnitFeatures):
    """Features of a logistic regression: score x_j (y - σ(xᵀb)), or information x_i x_j σ (1 - σ).

    Each is divided by the largest value that it can have at b, as xᵀb is within |b_1| + … + |b_q-1| of b_0; t in
    [0, 1], which is never negative, enters as 2t - 1. With weights v in [0, 1] all of this is multiplied by v, so
    every coordinate is still in [-1, 1].

    Parameters
    ----------
    design : Design
        The regression.
    b : ndarray of shape (q,)
        The coefficients at which it is taken.
    information : bool
        Whether it is the information.

    Attributes
    ----------
    top : float
        What it is divided by. In a plan no slopes are known, and their sum is taken to be 1.
    """

    description = "logistic scores, or entries of the Fisher information, of {columns}"

    def __init__(self, design: Design, b: Numbers, *, information: bool) -> None:
        self.design = design
        self.columns = design.read_columns
        self.b = b
        self.pairs = information_entries(design) if information else []
        self.shape = (len(self.pairs) or design.width,)
        low, nearest, high = _probability_range(b)
        self.top = nearest * (1 - nearest) if information else max(high, 1 - low)

    def rows(self, batch: features.Batch) -> Numbers:
        """Return the feature vectors of the rows in a batch, each computed from its own row alone."""
        x, y, share = _rows_and_probabilities(self.design, self.b, batch)
        rows = np.empty((self.dimension, batch.size))
        if not self.pairs:
            np.multiply(x, (y - share) / self.top, out=rows)
        weight = share * (1 - share) / self.top
        for at, (i, j, signed) in enumerate(self.pairs):
            product = x[i] * x[j] * weight
            rows[at] = product if signed else 2 * product - 1
        np.clip(rows, -1, 1, out=rows)  # a rounding may be beyond
        rows *= self.design.row_weights(batch)
        return rows.T


@final
class LogisticSquares(_UnitFeatures):
    """Features v² u_j² (y - σ(xᵀb))²: squares of weighted logistic scores in given directions.

    With u_j = a_jᵀx, and a_j of an L1 norm of at most 1, u_j is in [-1, 1], and a weight v in [0, 1]. The squares
    are divided by the largest that (y - σ)² can be at b, as a `LogisticScore` is.

    Parameters
    ----------
    design : Design
        The regression, with weights.
    b : ndarray of shape (q,)
        The coefficients at which they are taken.
    directions : ndarray of shape (q, q)
        The vectors a_j.

    Attributes
    ----------
    top : float
        What they are divided by.
    """

    description = "squared logistic scores of {columns}"

    def __init__(self, design: Design, b: Numbers, directions: Numbers) -> None:
        self.design = design
        self.columns = design.read_columns
        self.b, self.directions = b, directions
        self.shape = (len(directions),)
        low, _, high = _probability_range(b)
        self.top = max(high, 1 - low) ** 2

    def diameter(self, norm: float, public: frozenset[str]) -> float:
        """Return the largest distance of two vectors with coordinates in [0, 1], which equals the radius."""
        return 0.0 if {column.name for column in self.columns} <= public else self.radius(norm)

    def rows(self, batch: features.Batch) -> Numbers:
        """Return the feature vectors of the rows in a batch, each computed from its own row alone."""
        x, y, share = _rows_and_probabilities(self.design, self.b, batch)
        residual = self.design.row_weights(batch) * (y - share)
        rows = np.zeros((self.dimension, batch.size))
        for at, direction in enumerate(self.directions):
            for a, xj in zip(direction, x, strict=True):
                rows[at] += a * xj
        rows *= residual
        rows *= rows / self.top
        return np.minimum(rows, 1, out=rows).T  # a rounding may be beyond


def _probability_range(b: Numbers) -> tuple[float, float, float]:
    """Return the smallest possible probability at coefficients b, the one nearest to 1/2, and the largest."""
    reach = float(np.abs(b[1:]).sum()) or 1.0
    low, nearest, high = sigmoid(np.array([b[0] - reach, max(abs(b[0]) - reach, 0.0), b[0] + reach])).tolist()
    return low, nearest, high


def _rows_and_probabilities(design: Design, b: Numbers, batch: features.Batch) -> tuple[Numbers, Numbers, Numbers]:
    """Return regressors (with the constant), outcomes and probabilities at coefficients b of a batch's rows."""
    z = design.rows(batch)
    x = np.vstack([np.ones(batch.size), z[:-1]])
    t = np.full(batch.size, b[0])
    for each, xj in zip(b[1:], x[1:], strict=True):
        t += each * xj
    return x, z[-1], sigmoid(t)


def information_entries(design: Design) -> list[tuple[int, int, bool]]:
    """Return the measured entries (i, j) of the information matrix, and whether each can be negative."""
    q, dummies = design.width, {0, *design.dummies}
    return [
        (i, j, i != j and not {i, j} <= dummies)
        for i in range(q)
        for j in range(i, q)
        if not (i == j > len(design.numbers)) and not (i != j and design.same_factor(i, j))
    ]


def discriminant_start(known: DesignMoments) -> Numbers:
    """Return starting coefficients by linear discriminant analysis, from the noisy moments.

    Newton's steps from 0 go wrong where the outcome is rare or depends strongly on the regressors.
    """
    M = known.matrix(known.moments)
    n = max(float(M[0, 0]), 2.0)
    ones = float(np.clip(M[0, -1], 1, n - 1))
    means = [M[1:-1, -1] / ones, (M[0, 1:-1] - M[1:-1, -1]) / (n - ones)]
    scatter = M[1:-1, 1:-1] - sum(
        rows * np.outer(mean, mean) for rows, mean in zip((ones, n - ones), means, strict=True)
    )
    index = known.design.moment_index()[1:-1, 1:-1]
    noise = math.sqrt(max(float(known.covariance[index, index].max()), 0.0) * len(scatter))
    inverse = _floored_inverse(scatter / n, _MIN_EIGENVALUE * noise / n)
    slopes: Numbers = inverse @ (means[0] - means[1])
    start = math.log(ones / (n - ones)) - float((means[0] + means[1]) @ slopes) / 2
    return _shortened(np.append(start, slopes), _MAX_START)


def _floored_inverse(matrix: Numbers, least: float) -> Numbers:
    """Return the inverse of a symmetric matrix after raising its eigenvalues to at least `least`."""
    values, vectors = np.linalg.eigh(matrix)
    floored: Numbers = (vectors / np.maximum(values, max(least, 1e-9))) @ vectors.T
    return floored


def l1_norm(vector: Numbers) -> float:
    """Return the L1 norm of a vector."""
    return float(np.abs(vector).sum())


def _shortened(vector: Numbers, longest: float) -> Numbers:
    shortened: Numbers = vector * min(1.0, longest / max(l1_norm(vector), 1e-12))
    return shortened


@dataclass(frozen=True)
class Information:
    """Noisy Fisher information matrix at coefficients b, with the noise variance of each entry.

    Attributes
    ----------
    b : ndarray of shape (q,)
    H, noise : ndarray of shape (q, q)
    """

    b: Numbers
    H: Numbers
    noise: Numbers

    @classmethod
    def for_normal_regressors(cls, known: DesignMoments, b: Numbers) -> Information:
        """Estimate the information matrix at coefficients b from the moments, assuming normal regressors."""
        index = known.design.moment_index()[:-1, :-1]
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
    def from_sums(
        cls, design: Design, b: Numbers, sums: Numbers, variance: float, rows: tuple[float, float]
    ) -> Information:
        """Construct the information matrix at coefficients b from noisy sums of its entries.

        The noise of each has the given variance; `rows` is the number of rows in their unit, and its variance.
        """
        q = design.width
        H, noise = np.zeros((q, q)), np.zeros((q, q))
        for value, (i, j, signed) in zip(sums, information_entries(design), strict=True):
            H[i, j] = H[j, i] = value if signed else (value + rows[0]) / 2
            noise[i, j] = noise[j, i] = variance if signed else (variance + rows[1]) / 4
        for k in design.dummies:  # a 0 or 1 is its own square
            H[k, k], noise[k, k] = H[0, k], noise[0, k]
        return cls(b, H, noise)

    def pooled_with(self, other: Information) -> Information:
        """Return the mean of two information matrices, weighted by inverse noise variances.

        That may be off by some percent, so where noise is small it counts for nothing.
        """
        sizes = np.sqrt(np.abs(np.diag(other.H)))
        weight = self.noise / (self.noise + other.noise + (_MODEL_ERROR * np.outer(sizes, sizes)) ** 2)
        return replace(self, H=self.H + weight * (other.H - self.H), noise=(1 - weight) * self.noise)

    @property
    def eigenvalue_error(self) -> float:
        """Approximate standard error, due to noise, of the smallest eigenvalue of the information matrix."""
        return math.sqrt(float(self.noise.max()) * len(self.H))

    @property
    def inverse(self) -> Numbers:
        """Inverse of the information matrix, after raising its eigenvalues to at least half their noise."""
        return _floored_inverse(self.H, self.eigenvalue_error / 2)

    def newton_step(self, score: Numbers) -> Numbers:
        """Return a Newton step, corrected for the change of the information along the step.

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
        mean = float(np.clip(self.H[0] @ self.b / total, -_MAX_START, _MAX_START))
        slope = math.tanh(mean / 2)
        step = straight
        for _ in range(3):
            moved = float(self.H[0] @ step) / total
            joint = float(self.b @ self.H @ step) / total - mean * moved
            step = straight * math.exp(np.clip(slope * moved + joint * (1 - slope**2) / 2, -2, 2) / 2)
        return _shortened(step, LONG)
