"""Fitting of weighted points to a noisy embedding, as post-processing without privacy cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import nnls
from scipy.special import chdtrc

from dfprivacy.features import spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column

__all__ = ["absolute", "hull_projection", "shrunk", "simplex"]

_MAX_STEPS = 400  # supports have some ten points
_GAP_MIN, _GAP_MAX = 1e-13, 1e-3
_N_ROUNDS, _N_LOCAL, _SHRINKAGE = 6, 1024, 0.6
_PRIOR_LEVEL = 0.01


def simplex(psi: NDArray[np.float64], beta: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    r"""Return the weights that minimise :math:`\|\Psi'w - \beta\|^2` over the simplex :math:`w \ge 0, 1'w = 1`.

    Parameters
    ----------
    psi : ndarray of shape (M, F)
        Features of the points.
    beta : ndarray of shape (F,)
        The embedding.
    gap : float
        Stop when the objective is provably within this of the least.

    Returns
    -------
    ndarray of shape (M,)
        The weights, most of them 0.

    Notes
    -----
    Fully corrective Frank-Wolfe: the point that the gradient likes best joins, then the quadratic problem on the
    points chosen so far is solved exactly, and those whose weight becomes 0 leave.
    """
    q = psi @ beta
    chosen, w = [int(np.argmax(q - (psi**2).sum(axis=1) / 2))], np.ones(1)
    for _ in range(_MAX_STEPS):
        gradient = psi @ (w @ psi[chosen]) - q
        best = int(np.argmin(gradient))
        if w @ gradient[chosen] - gradient[best] <= max(gap, _GAP_MIN) or best in chosen:
            break
        chosen.append(best)
        w = _active_weights(psi[chosen], beta)
        chosen, w = [at for at, weight in zip(chosen, w, strict=True) if weight], w[w > 0]
    weights = np.zeros(len(psi))
    weights[chosen] = w
    return weights


def _active_weights(psi: NDArray[np.float64], beta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return nonnegative weights w that minimise |Σ w_i (ψ_i - β)|² + (Σ w_i - 1)², scaled to sum 1."""
    system = np.vstack([(psi - beta).T, np.ones(len(psi))])
    w, _ = nnls(system, np.append(np.zeros(len(beta)), 1.0), maxiter=_MAX_STEPS * len(psi))
    return np.asarray(w / w.sum())


def absolute(
    psi: NDArray[np.float64], beta: NDArray[np.float64], gap: float, most: float = 1.0
) -> NDArray[np.float64]:
    r"""Return the weights with L1 norm of at most `most` whose weighted feature sum is closest to beta.

    The same problem as `simplex` on the points' features times `most` and their negatives.

    Parameters
    ----------
    psi : ndarray of shape (M, F)
        Features of the points.
    beta : ndarray of shape (F,)
        The embedding.
    gap : float
        As for `simplex`.
    most : float
        Bound on the sum of absolute weights.

    Returns
    -------
    ndarray of shape (M,)
        The weights.
    """
    both = simplex(np.vstack([most * psi, -most * psi]), beta, gap)
    weights: NDArray[np.float64] = most * (both[: len(psi)] - both[len(psi) :])
    return weights


def shrunk(psi: NDArray[np.float64], beta: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    r"""Return the posterior mean of a noisy embedding, given a public sample of the same population.

    With u and C the mean and covariance of the points' features, the prior is :math:`N(u, G)`, :math:`G = C/M`, and
    the posterior mean :math:`u + G (G + \sigma^2 I)^{-1} (\beta - u)`. If :math:`\beta` is too far from u for that
    prior at the level 0.01, G is enlarged by the factor that makes it most likely.

    Parameters
    ----------
    psi : ndarray of shape (M, F)
        Features of the public sample.
    beta : ndarray of shape (F,)
        The noisy embedding.
    sigma : float
        Standard deviation of the noise in each coordinate.

    Returns
    -------
    ndarray of shape (F,)
        The posterior mean.
    """
    if sigma == 0:
        return beta
    u = psi.mean(axis=0)
    _, s, right = np.linalg.svd((psi - u) / len(psi), full_matrices=False)
    g = s**2
    away = right @ (beta - u)
    outside = max(0.0, float((beta - u) @ (beta - u) - away @ away)) / sigma**2
    if chdtrc(len(beta), float(np.sum(away**2 / (g + sigma**2))) + outside) < _PRIOR_LEVEL:
        factors = np.geomspace(1, 1e6, 61)
        spreads = np.outer(factors, g) + sigma**2
        g = g * factors[np.argmin(np.sum(away**2 / spreads + np.log(spreads), axis=1))]
    posterior: NDArray[np.float64] = u + right.T @ (g / (g + sigma**2) * away)
    return posterior


def hull_projection(
    feature: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    candidates: NDArray[np.float64],
    beta: NDArray[np.float64],
    gap: float,
    columns: Sequence[Column],
    *,
    signed: bool = False,
    fits: float = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Project an embedding onto the convex hull of all rows' features, and return points and their weights.

    Parameters
    ----------
    feature : callable
        The public feature map of rows.
    candidates : ndarray of shape (M, columns)
        Public rows to begin with.
    beta : ndarray of shape (F,)
        The embedding.
    gap : float
        As for `simplex`.
    columns : sequence of Column
        The columns of a row.
    signed : bool
        Whether weights may have either sign, with absolute values that add up to 1 at most: the hull of the
        features and their negatives.
    fits : float
        Squared distance of the points from the embedding that the noise explains: no round follows below it.

    Returns
    -------
    points, weights : ndarray of shape (m, columns) and (m,)
        Only those whose weight is not 0.

    Notes
    -----
    Points on a fixed grid may be too far apart beside the kernel: rounds follow in which the candidates are those
    that have a weight and their neighbours, in boxes that shrink.
    """
    gap, fit = min(gap, _GAP_MAX), absolute if signed else simplex

    def fit_support(candidates: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        w = fit(feature(candidates), beta, gap)
        return candidates[w != 0], w[w != 0]

    points, w = fit_support(candidates)
    numbers = [i for i, column in enumerate(columns) if column.bounds is not None]
    low, high = (np.array([getattr(columns[i], end) for i in numbers]) for end in ("low", "high"))
    unit = spread([columns[i] for i in numbers], _N_LOCAL)
    offsets = unit - (low + high) / 2
    for number in range(_N_ROUNDS if numbers else 0):
        left = w @ feature(points) - beta
        if left @ left <= fits:
            break
        around = np.repeat(points, max(1, _N_LOCAL // len(points)), axis=0)
        moved = offsets[np.arange(len(around)) % _N_LOCAL] * 0.5 * _SHRINKAGE**number
        around[:, numbers] = np.clip(around[:, numbers] + moved, low, high)
        points, w = fit_support(np.vstack([points, around]))
    return points, w
