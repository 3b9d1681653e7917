"""From the moments of a regression to coefficients in the columns' units, with errors and intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy.inference.draws import DRAWS, points, sums_above
from dfprivacy.inference.engine import Inference
from dfprivacy.laws import NoiseLaw
from dfprivacy_regression.result import OLS, alike, common

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_regression.least_squares import Estimate
    from dfprivacy_regression.mechanisms import Measured

    Numbers = NDArray[np.float64]

__all__ = ["conclude"]

_LEAST = 1e-15  # a variance where there is none


def conclude(measured: Measured, alpha: float, confidence: float) -> OLS:
    """Return the estimate with its errors.

    Intervals are quantiles of a confidence distribution: the average, over draws of what the moments may be without
    the noise, of Student's distributions around the coefficients that follow. A draw whose matrix of the regressors
    is not positive definite leaves everything possible, so half of its mass is at either end.
    """
    known, design, q = measured.known, measured.known.design, measured.known.design.width
    fit = known.estimate()
    found, possible = _inferred(measured, fit) if fit is not None else (None, 0.0)
    params, covariance, noise = None, np.full((q, q), math.inf), np.full((q, q), math.inf)
    low, high, pvalues = np.full(q, -math.inf), np.full(q, math.inf), np.ones(q)
    rsquared: tuple[float | None, float, float] = (None, 0.0, 1.0)
    informative = fit is not None and found is not None and possible > confidence
    if fit is not None and found is not None and informative:
        start, change = design.natural()
        params, noise = start + change @ fit.b, change @ fit.noise @ change.T
        covariance = _sampling(measured, fit, change) + noise
        lost = (1 - possible) / 2  # at either end
        outside = (1 - confidence) / 2
        low, high = found.quantile((np.array([[outside], [1 - outside]]) - lost) / possible)
        below = lost + possible * np.clip(found.cdf(0.0)[:q], 0, 1)
        pvalues = 2 * np.minimum(below, 1 - below)
        rsquared = (float(found.estimate[q]), max(float(low[q]), 0.0), min(float(high[q]), 1.0))
        low, high = low[:q], high[:q]
    return OLS(
        **common(design, params, covariance, noise, (low, high), pvalues),
        alpha=alpha,
        confidence=confidence,
        nobs=float(known.moments[0]),
        nobs_standard_error=math.sqrt(float(known.covariance[0, 0])),
        rsquared=rsquared[0],
        rsquared_low=rsquared[1],
        rsquared_high=rsquared[2],
        scale=fit.variance * design.outcome.half**2 if fit is not None and informative else None,
        released=known.matrix(known.moments),
        stages=measured.stages,
        robust=measured.squares is not None,
        informative=informative,
        notes=_notes(measured, fit, informative=informative),
    )


def _inferred(measured: Measured, fit: Estimate) -> tuple[Inference, float]:
    """Return what is known of the coefficients and of R², given that draws are possible, and how sure that is."""
    start, change = measured.known.design.natural()
    M, weights, possible = measured.known.draws()
    u = points(len(change) + 1, DRAWS, seed=1)
    inverse, products = np.linalg.inv(M[:, :-1, :-1]), M[:, :-1, -1]
    b = np.einsum("rij,rj->ri", inverse, products)
    squares, error = fit.squares
    rest = np.maximum(sums_above(NoiseLaw(error, kind="Gaussian"), squares, 0.0, u[-1]), _LEAST)
    if measured.squares is None or measured.sizes is None:
        variances = np.einsum("ij,rjk,ik->ir", change, inverse, change) * rest / fit.degrees
    else:
        law = NoiseLaw(measured.spread, kind="Gaussian")
        variances = sums_above(law, measured.squares[:, None], 0.0, u[:-1]) * measured.sizes[:, None] ** 2
    shares = _explained(M, b)
    sure = float(weights @ possible)
    return Inference(
        estimate=np.append(start + change @ fit.b, _explained(fit.M, fit.b)),
        theta=np.vstack([start[:, None] + change @ b.T, shares]),
        variance=np.maximum(
            np.vstack([variances, 4 * shares * (1 - shares) ** 2 / np.maximum(M[:, 0, 0], 1.0)]), _LEAST
        ),
        df=np.full((len(change) + 1, DRAWS), min(fit.degrees, 1e8)),
        weights=weights * possible / max(sure, _LEAST),
    ), sure


def _explained(M: Numbers, b: Numbers) -> Numbers:
    """Return R², from 0 to 1."""
    total = np.maximum(M[..., -1, -1] - M[..., 0, -1] ** 2 / np.maximum(M[..., 0, 0], 1.0), _LEAST)
    rest = M[..., -1, -1] - np.einsum("...i,...i->...", b, M[..., :-1, -1])
    return np.clip(1 - rest / total, 0.0, 1.0)


def _sampling(measured: Measured, fit: Estimate, change: Numbers) -> Numbers:
    """Return the covariance of the coefficients from the sampling of rows, robust where that was measured."""
    sampling: Numbers = change @ (fit.variance * fit.inverse) @ change.T
    if measured.squares is None or measured.sizes is None:
        return sampling
    robust = np.maximum(measured.squares, measured.spread) * measured.sizes**2
    sd = np.sqrt(robust / np.diag(sampling))
    return sampling * np.outer(sd, sd)


def _notes(measured: Measured, fit: Estimate | None, *, informative: bool) -> tuple[str, ...]:
    notes, known = [], measured.known
    if not informative:
        _, vectors = np.linalg.eigh(known.matrix(known.moments)[1:-1, 1:-1])
        notes.append(f"Uninformative: {alike(known.design.names[1:], vectors[:, 0])}")
    elif fit is not None and fit.squares[0] <= 0:
        notes.append("The residuals' variance is lost in the noise: errors are upper bounds.")
    if measured.outlying is not None:
        reach = known.design.outcome.half * measured.outlying
        notes.append(
            f"Outliers: some residuals are beyond ±{reach:.3g}, where the score is clipped. Errors are larger, "
            "and hold what the clip cuts off."
        )
    if measured.stages in {"one", "again"} and informative:
        notes.append("Errors are classical: they hold if residuals vary alike in all rows.")
    return tuple(notes)
