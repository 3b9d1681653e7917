"""Moments of rows about the components of a public mixture."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
import scipy

from dfprivacy import ArgumentError
from dfprivacy.features import RowFeatures
from dfprivacy.features.upward import UP
from dfprivacy_gmm.sketch import local_jacobian

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.random import Generator
    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.features.base import Norm
    from dfprivacy_gmm.fit import Fit
    from dfprivacy_gmm.sketch import Sketch

__all__ = [
    "MixtureMoments",
    "Moments",
    "centre_covariances",
    "centre_errors",
    "directions",
    "information",
    "polished",
    "precision",
    "scores",
    "sketch_covariance",
]


@final
class MixtureMoments(RowFeatures):
    r"""Weight, mean and second moments of the rows about each component of a public Gaussian mixture.

    Parameters
    ----------
    columns : sequence of Column
        d columns with bounds, mapped from them to y in :math:`[-1, 1]^d`.
    weights : array of shape (K,)
        Weights of the components.
    means : array of shape (K, d)
        Means of the components, in units of y.
    roots : array of shape (K, d, d)
        Lower Cholesky factors :math:`L_k` of their covariances.

    Attributes
    ----------
    reach : float
        r, the length to which the rows' coordinates are clipped.

    Notes
    -----
    The coordinates of a row are :math:`g_k (r/2,\; u_k,\; u_k u_k^\top / r)` for each k, with the responsibilities
    :math:`g_k \ge 0`, :math:`\sum_k g_k = 1`, and :math:`u_k = L_k^{-1}(y - \mu_k)` clipped to the length
    :math:`r = \sqrt d + 3/2`; off-diagonal products are counted once, times :math:`\sqrt 2`.

    *Radius* 3r/2: with :math:`|u_k| \le r` the squared norm is at most
    :math:`\sum_k g_k^2 (r^2/4 + r^2 + r^2) \le (3r/2)^2`. *Diameter* :math:`\sqrt{9/2}\,r`: the inner product of
    two rows is :math:`\sum_k g_k g'_k (r^2/4 + t_k + t_k^2/r^2) = \sum_k g_k g'_k (r/2 + t_k/r)^2 \ge 0` with
    :math:`t_k = u_k \cdot u'_k`, so their squared distance is at most the sum of their squared norms. However many
    components there are, and wherever, they cost what one costs. In the norm of infinity they are r and 2r: with
    :math:`|u_k| \le r`, :math:`r/2`, :math:`|u_{ka}|`, :math:`u_{ka}^2/r` and
    :math:`\sqrt 2\,|u_{ka} u_{kb}|/r \le r/\sqrt 2` are at most r.

    *Rounding.* Floating point keeps each :math:`g_k \ge 0`, their sum below :math:`1 + (K+2)u`, the length of
    each :math:`u_k` below :math:`r(1 + (d+4)u)`, and every coordinate to a few u, the last bit. The core clips
    vectors to the radius; the diameter is raised by :math:`(K + 4d + 32)` bits. A row too far from all components
    for float64 has the vector 0, which is a radius from any other, and so less than the diameter.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        weights: NDArray[np.float64],
        means: NDArray[np.float64],
        roots: NDArray[np.float64],
    ) -> None:
        K, d = len(weights), len(columns)
        if not d or np.shape(means) != (K, d) or np.shape(roots) != (K, d, d):
            raise ArgumentError(
                f"{K} weights, means of shape {np.shape(means)} and roots of shape {np.shape(roots)} are no "
                f"mixture in {d} columns.",
                "Give arrays of shape (K,), (K, d) and (K, d, d).",
            )
        diagonal = np.diagonal(roots, axis1=1, axis2=2)
        if not (
            np.all(weights > 0) and np.all(diagonal > 0) and np.isfinite(roots).all() and np.isfinite(means).all()
        ):
            raise ArgumentError(
                "A weight or standard deviation of the mixture is not positive, or a number is not finite.",
                "Give positive weights and lower Cholesky factors.",
            )
        self.columns = tuple(columns)
        self.mixture = (weights, means, roots)
        self.reach = math.sqrt(d) + 1.5
        self._pairs = np.triu_indices(d)
        r = self.reach
        each = np.concatenate(
            [[r / 2], np.ones(d), np.where(self._pairs[0] == self._pairs[1], 1, math.sqrt(2)) / r]
        )
        self.shape = (K, len(each))
        self.weights = np.tile(each, (K, 1))
        self._log_heights = np.log(weights) - np.log(diagonal).sum(axis=1)

    def coordinates(self, y: NDArray[np.float64], *, clip: bool = True) -> NDArray[np.float64]:
        """Return g, g·u and g·u·u' (upper triangle) without weights.

        Parameters
        ----------
        y : ndarray of shape (d, rows)
            Rows in units of y.
        clip : bool
            Whether u is clipped to the length r.

        Returns
        -------
        ndarray of shape (K, 1 + d + d(d+1)/2, rows)
            The coordinates.
        """
        # No matrix products: each number must be a function of its row alone, to the last bit.
        _, means, roots = self.mixture
        K, d = means.shape
        coordinates = np.empty((*self.shape, y.shape[1]))
        g = coordinates[:, 0]
        for k in range(K):
            u = coordinates[k, 1 : 1 + d]
            squared = np.zeros(y.shape[1])
            for a in range(d):
                np.subtract(y[a], means[k, a], out=u[a])
                for b in range(a):
                    u[a] -= roots[k, a, b] * u[b]
                u[a] /= roots[k, a, a]
                squared += u[a] * u[a]
            np.subtract(self._log_heights[k], squared / 2, out=g[k])
            if clip:
                u *= np.minimum(1.0, self.reach / np.sqrt(np.maximum(squared, 1e-300)))
        g -= g.max(axis=0)
        np.exp(g, out=g)
        total = np.zeros(y.shape[1])
        for k in range(K):
            total += g[k]
        g /= total
        for k in range(K):
            u = coordinates[k, 1 : 1 + d]
            for place, (i, j) in enumerate(zip(*self._pairs, strict=True), start=1 + d):
                np.multiply(u[i], u[j], out=coordinates[k, place])
            coordinates[k, 1:] *= g[k]
        return coordinates

    def rows(self, batch: Any) -> NDArray[np.float64]:
        """Return the vectors of a batch."""
        y = np.stack([batch.standardized(column) for column in self.columns])
        coordinates = self.coordinates(y)
        coordinates *= np.asarray(self.weights)[..., None]
        vectors = coordinates.reshape(self.dimension, batch.size).T
        vectors[~np.isfinite(vectors).all(axis=1)] = 0.0
        return vectors

    def radius(self, norm: Norm) -> float:
        """Largest norm of a vector."""
        r, d = self.reach, len(self.columns)
        if norm == math.inf:
            return UP * r
        # L1: r/2 + |u|₁ + (|u|² + √2 Σ|u_a u_b|)/r, with |u|₁ ≤ √d r and 2Σ|u_a u_b| ≤ (d-1) r².
        return UP * r * (1.5 if norm == 2 else 1.5 + math.sqrt(d) + (d - 1) / math.sqrt(2))  # noqa: PLR2004

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Largest distance of two vectors."""
        if all(column.name in public for column in self.columns):
            return 0.0
        if norm != 2:  # noqa: PLR2004
            return 2 * self.radius(norm)
        last_bits = (self.shape[0] + 4 * len(self.columns) + 32) * 2.0**-52
        return math.sqrt(4.5) * self.reach * (1 + last_bits)


DRAWS = 12_000
STEPS = 2
_PRIOR = (0.2, 0.05, 2.0)  # precision of (logit, a, E)


@dataclass(frozen=True)
class Moments:
    """Noisy moments about the components of a mixture, divided by the number of rows.

    Attributes
    ----------
    values : ndarray of shape (K, 1 + d + d(d+1)/2)
        Means of g, g·u and g·u·u'.
    variances : ndarray of the same shape
        Variance of the noise in each.
    size : float
        Number of rows, perhaps noisy.
    size_error : float
        Its relative standard error.
    """

    values: NDArray[np.float64]
    variances: NDArray[np.float64]
    size: float
    size_error: float = 0.0


def polished(
    fit: Fit,
    sketch: Sketch,
    about: MixtureMoments,
    moments: Moments,
    rng: Generator,
) -> tuple[Fit, NDArray[np.float64]]:
    """Improve a fit by moments that were measured about it.

    Parameters
    ----------
    fit : Fit
        The mixture about whose components the moments were measured.
    sketch : Sketch
        The sketch that it was fitted to.
    about : MixtureMoments
        What was measured: moments about the fit.
    moments : Moments
        What came out.
    rng : Generator
        For the expectations.

    Returns
    -------
    Fit
        The polished mixture.
    ndarray of shape (P, P) with P = K·(1 + d + d(d+1)/2)
        The covariance of the local coordinates, from sampling and noise.
    """
    T = moments.values.ravel()
    prior = np.diag(precision(fit))
    draws = _draws(fit, rng)
    z, q = _points(fit, draws)
    clipped = _flat(about.coordinates(z))
    simulated = clipped @ q
    # Without clipping the expectation is known: simulate only what clipping changes.
    expected = _unclipped(fit) + (clipped - _flat(about.coordinates(z, clip=False))) @ q
    covariance = (clipped * q) @ clipped.T - np.outer(simulated, simulated)
    S = covariance / moments.size + np.diag(moments.variances.ravel())
    S += np.outer(expected, expected) * moments.size_error**2
    S[np.diag_indices_from(S)] += 1e-14
    factor = scipy.linalg.cho_factor(S)
    B = directions(fit)
    moved = np.zeros(B.shape[1])
    sketch = sketch.sampled(fit.mixtures)
    now = fit
    for _ in range(STEPS):
        there = expected + clipped @ q - simulated  # common random numbers
        G = (clipped * q) @ scores(_about(now, about), z).T
        weighted = scipy.linalg.cho_solve(factor, G)
        known, right = information(now, sketch)
        H = B.T @ (known + G.T @ weighted + prior) @ B
        right = B.T @ (right + weighted.T @ (T - there) - prior @ B @ moved)
        delta = np.linalg.solve(H, right)
        now = _moved(now, B @ delta)
        moved += delta
        z, q = _points(now, draws)
        clipped = _flat(about.coordinates(z))
    s = scores(_about(now, about), z)
    G = (clipped * q) @ s.T
    in_rows = moments.size * (s * q) @ s.T
    return now, _covariance(now, G.T @ scipy.linalg.cho_solve(factor, G), information(now, sketch)[0], in_rows)


def _covariance(
    fit: Fit, in_moments: NDArray[np.float64], in_sketch: NDArray[np.float64], in_rows: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Give the covariance of the local coordinates from the information in moments, sketch and rows.

    Moments and sketch are of the same rows. Unclipped moments are linear in the scores s, and Cov(s, sketch) is the
    sketch's derivative over n, so what the two have in common follows from the three matrices.
    """
    B = directions(fit)
    common = in_moments @ np.linalg.pinv(in_rows, rcond=1e-6, hermitian=True) @ in_sketch
    H = B.T @ (in_moments + in_sketch + np.diag(precision(fit))) @ B
    spread = B @ np.linalg.inv(H)
    covariance: NDArray[np.float64] = spread @ (H + B.T @ (common + common.T) @ B) @ spread.T
    return covariance


def information(fit: Fit, sketch: Sketch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the sketch's information about the local coordinates, and its score, at a fit."""
    value, J = local_jacobian(fit.weights, fit.means, fit.roots, sketch.frequencies)
    slope, rest = sketch.weighed(J.T), sketch.weighed(sketch.values - value)
    return slope @ slope.T, slope @ rest


def scores(about: MixtureMoments, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the derivatives of a mixture's log-density with respect to its local coordinates.

    Parameters
    ----------
    about : MixtureMoments
        Moments about the mixture.
    z : ndarray of shape (d, points)
        Points.

    Returns
    -------
    ndarray of shape (K·(1 + d + d(d+1)/2), points)
        Scores: g - π, g·u and g·(uu' - I), the diagonal of the last halved.
    """
    weights, means, _ = about.mixture
    d = means.shape[1]
    rows, columns = np.triu_indices(d)
    diagonal = 1 + d + np.flatnonzero(rows == columns)
    scores = about.coordinates(z, clip=False)
    scores[:, diagonal] = (scores[:, diagonal] - scores[:, :1]) / 2
    scores[:, 0] -= weights[:, None]
    return _flat(scores)


def sketch_covariance(fit: Fit, sketch: Sketch) -> NDArray[np.float64]:
    """Give the covariance of the local coordinates of a fit to the sketch alone."""
    B = directions(fit)
    H = information(fit, sketch.sampled(fit.mixtures))[0] + np.diag(precision(fit))
    covariance: NDArray[np.float64] = B @ np.linalg.inv(B.T @ H @ B) @ B.T
    return covariance


def centre_errors(fit: Fit, covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the error of each centre in standard deviations of its component, of a covariance of the coordinates."""
    own = centre_covariances(fit, covariance)
    errors: NDArray[np.float64] = np.sqrt(np.maximum(np.trace(own, axis1=1, axis2=2), 0.0))
    return errors


def centre_covariances(fit: Fit, covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Take the covariance of each centre, shape (K, d, d), out of that of the local coordinates."""
    K, d = fit.means.shape
    each = covariance.reshape(K, -1, K, covariance.shape[0] // K)
    own: NDArray[np.float64] = each[range(K), 1 : 1 + d, range(K), 1 : 1 + d]
    return own


def directions(fit: Fit) -> NDArray[np.float64]:
    """Give the directions in which a fit of its shape can move, shape (P, free)."""
    K, d = fit.means.shape
    rows, columns = np.triu_indices(d)
    E = np.eye(len(rows))
    if fit.shape in {"diag", "spherical"}:
        E = E[:, rows == columns]
    if fit.shape == "spherical":
        E = E.sum(axis=1, keepdims=True)
    first, each = 1 + d, 1 + d + len(rows)
    shared = fit.shape == "tied"
    B = np.zeros((K, each, K * first + E.shape[1] * (1 if shared else K)))
    for k in range(K):
        B[k, range(first), range(k * first, (k + 1) * first)] = 1
        at = K * first + (0 if shared else k * E.shape[1])
        B[k, first:, at : at + E.shape[1]] = E
    return B.reshape(K * each, -1)


def precision(fit: Fit) -> NDArray[np.float64]:
    """Give the precision of the weak prior of the local coordinates, shape (P,)."""
    K, d = fit.means.shape
    logit, a, E = _PRIOR
    return np.tile(np.concatenate([[logit], np.full(d, a), np.full(d * (d + 1) // 2, E)]), K)


def _unclipped(fit: Fit) -> NDArray[np.float64]:
    """E g = π, E gu = 0 and E guu' = πI."""
    rows, columns = np.triu_indices(fit.means.shape[1])
    each = np.concatenate([[1.0], np.zeros(fit.means.shape[1]), rows == columns])
    return np.outer(fit.weights, each).ravel()


def _draws(fit: Fit, rng: Generator) -> list[NDArray[np.float64]]:
    """Draw standard normal points for each component in proportion to its weight, antithetic."""
    d = fit.means.shape[1]
    counts = np.maximum((fit.weights * DRAWS / 2).astype(int), d + 2)
    halves = [rng.standard_normal((d, count)) for count in counts]
    return [np.concatenate([half, -half], axis=1) for half in halves]


def _points(fit: Fit, draws: list[NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Move the draws to the components; points of shape (d, points) and their probabilities."""
    z = [m[:, None] + L @ e for m, L, e in zip(fit.means, fit.roots, draws, strict=True)]
    q = [np.full(e.shape[1], weight / e.shape[1]) for weight, e in zip(fit.weights, draws, strict=True)]
    return np.concatenate(z, axis=1), np.concatenate(q)


def _about(fit: Fit, moments: MixtureMoments) -> MixtureMoments:
    """Give such moments about another mixture."""
    return MixtureMoments(moments.columns, fit.weights, fit.means, fit.roots)


def _flat(coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
    return coordinates.reshape(-1, coordinates.shape[-1])


def _moved(fit: Fit, delta: NDArray[np.float64]) -> Fit:
    """Move a mixture in its local coordinates, not too far."""
    K, d = fit.means.shape
    rows, columns = np.triu_indices(d)
    delta = delta.reshape(K, -1)
    weights = fit.weights * np.exp(np.clip(delta[:, 0], -1, 1))
    weights = np.maximum(weights / weights.sum(), 1e-4)
    a = delta[:, 1 : 1 + d]
    a = a / np.maximum(1, np.linalg.norm(a, axis=1, keepdims=True))
    E = np.zeros((K, d, d))
    E[:, rows, columns] = E[:, columns, rows] = delta[:, 1 + d :]
    e, V = np.linalg.eigh(E)
    e = np.where(e < 0, np.exp(np.maximum(e, -1.2)), 1 + np.minimum(e, 2))
    half = fit.roots @ (V * np.sqrt(e)[:, None])
    return replace(
        fit,
        weights=weights / weights.sum(),
        means=fit.means + (fit.roots @ a[..., None])[..., 0],
        roots=np.linalg.cholesky(half @ half.swapaxes(1, 2)),
    )
