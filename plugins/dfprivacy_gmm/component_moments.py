"""Moments of rows about the components of a public mixture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dfprivacy import ArgumentError
from dfprivacy.features import RowFeatures
from dfprivacy.features.upward import UP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.features.base import Norm

__all__ = ["MixtureMoments"]


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
