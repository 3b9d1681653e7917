"""Standard errors of the centres of a mixture that was fitted to a sketch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfprivacy_gmm.sketch import local_jacobian

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_gmm.fit import Fit
    from dfprivacy_gmm.sketch import Sketch

__all__ = ["centre_covariances"]

_PRIOR = (0.2, 0.05, 2.0)  # precision of (logit, a, E)


def centre_covariances(fit: Fit, sketch: Sketch) -> NDArray[np.float64]:
    """Give the covariance of each centre, shape (K, d, d), with its component's root for a unit.

    Parameters
    ----------
    fit : Fit
        A mixture.
    sketch : Sketch
        What it was fitted to.

    Returns
    -------
    ndarray of shape (K, d, d)
        From sampling and noise, by the sketch's information about the local coordinates of all components.
    """
    K, d = fit.means.shape
    _, J = local_jacobian(fit.weights, fit.means, fit.roots, sketch.frequencies)
    slope = sketch.sampled(fit.mixtures).weighed(J.T)
    logit, a, E = _PRIOR
    prior = np.tile(np.concatenate([[logit], np.full(d, a), np.full(d * (d + 1) // 2, E)]), K)
    B = _directions(fit)
    covariance = B @ np.linalg.inv(B.T @ (slope @ slope.T + np.diag(prior)) @ B) @ B.T
    each = covariance.reshape(K, -1, K, covariance.shape[0] // K)
    own: NDArray[np.float64] = each[range(K), 1 : 1 + d, range(K), 1 : 1 + d]
    return own


def _directions(fit: Fit) -> NDArray[np.float64]:
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
