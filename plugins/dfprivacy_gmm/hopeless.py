"""Whether a sketch is too noisy for any mixture to be found in it, said before a search for one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy_gmm.fit import Fit
from dfprivacy_gmm.polish import centre_errors, directions, information, precision

if TYPE_CHECKING:
    from dfprivacy_gmm.characteristic import Shape, Sketch

__all__ = ["everything", "predicted_error"]

_APART = 4.0  # standard deviations


def predicted_error(sketch: Sketch, K: int, shape: Shape) -> float:
    """Give the error of the centres that the sketch of a well separated mixture would leave.

    Parameters
    ----------
    sketch : Sketch
        What was released, whitened. Only its frequencies and its noise count, not its values.
    K : int
        Number of components.
    shape : {"spherical", "diag", "tied", "full"}
        Shape of the covariances.

    Returns
    -------
    float
        In standard deviations of a component, for components of equal weights of which the closest are 4 standard
        deviations apart, by the information that the sketch has about them; its sampling error is taken for
        independent.
    """
    ideal = _separated(K, sketch.d, shape)
    B = directions(ideal)
    H = B.T @ (information(ideal, sketch)[0] + np.diag(precision(ideal))) @ B
    return float(centre_errors(ideal, B @ np.linalg.solve(H, B.T)).mean())


def everything(sketch: Sketch, K: int, shape: Shape, error: float) -> Fit:
    """Give the mixture of K components that are all the same: one Gaussian of all rows, of a whitened sketch.

    Parameters
    ----------
    sketch : Sketch
        What was released, whitened.
    K : int
        Number of components.
    shape : {"spherical", "diag", "tied", "full"}
        Shape of the covariances.
    error : float
        What `predicted_error` gave.

    Returns
    -------
    Fit
        Without a search.
    """
    d = sketch.d
    values = np.exp(-np.square(sketch.frequencies).sum(axis=1) / 2) + 0j
    misfit = 0.5 * float(np.square(sketch.weighed(values - sketch.values)).sum())
    roots = np.repeat(np.eye(d)[None], K, axis=0)
    return Fit(np.full(K, 1 / K), np.zeros((K, d)), roots, misfit, shape, agreed=True, unsearched=error)


def _separated(K: int, d: int, shape: Shape) -> Fit:
    """Give a whitened mixture of standard normals at random places, the closest of them 4 apart."""
    places = np.random.default_rng(0).standard_normal((K, d))
    if d == 1:
        places = np.arange(K, dtype=np.float64)[:, None]
    apart = np.linalg.norm(places[:, None] - places, axis=2)[~np.eye(K, dtype=bool)]
    places = (places - places.mean(axis=0)) * (_APART / float(apart.min()))
    spread, turn = np.linalg.eigh(np.eye(d) + places.T @ places / K)
    white = (turn / np.sqrt(spread)) @ turn.T
    root = np.linalg.cholesky(white @ white.T)
    return Fit(np.full(K, 1 / K), places @ white.T, np.repeat(root[None], K, axis=0), math.nan, shape, agreed=True)
