"""From the moments of a regression to coefficients in the columns' units, with errors and intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtr, stdtrit

from dfprivacy_regression.least_squares import CLEAR
from dfprivacy_regression.result import OLS, named

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_regression.least_squares import Estimate
    from dfprivacy_regression.mechanisms import Measured

    Numbers = NDArray[np.float64]

__all__ = ["conclude"]


def conclude(measured: Measured, alpha: float, confidence: float) -> OLS:
    """Give the estimate with its errors.

    Where the regressors' scatter stands out of the noise, intervals are Wald's; else they are quantiles of what
    noise and sampling leave possible, and without limits if that is nearly everything.
    """
    known, rng = measured.known, np.random.default_rng(0)
    design = known.design
    q = design.width
    fit, informative = known.estimate(), known.clarity() >= CLEAR
    start, change = design.natural()
    n = float(known.moments[0])
    draws = None if informative else known.draws(rng, max(n - q, 1.0))
    params: Numbers | None = None
    errors, noise, pvalues = np.full(q, math.inf), np.full(q, math.inf), np.ones(q)
    low, high, covariance = np.full(q, -math.inf), np.full(q, math.inf), np.full((q, q), math.inf)
    scale: float | None = None
    r: tuple[float | None, float, float] = (None, 0.0, 1.0)
    if fit is not None and (informative or draws is not None):
        params, covariance = start + change @ fit.b, _covariance(measured, fit, change)
        errors = np.sqrt(np.diag(covariance))
        noise = np.sqrt(np.maximum(np.diag(change @ fit.noise @ change.T), 0))
        if draws is None:
            reach = float(stdtrit(fit.degrees, (1 + confidence) / 2)) * errors
            low, high = params - reach, params + reach
            with np.errstate(divide="ignore", invalid="ignore"):
                pvalues = np.where(
                    errors > 0, 2 * stdtr(fit.degrees, -np.abs(params) / errors), (params == 0) * 1.0
                )
        else:
            found = np.isfinite(draws).all(axis=1)
            possible = np.concatenate([start + draws[found] @ change.T, draws[~found]])
            tail = (1 - confidence) / 2
            low = np.quantile(possible, tail, axis=0, method="lower")
            high = np.quantile(possible, 1 - tail, axis=0, method="higher")
            below = np.mean(possible <= 0, axis=0)
            pvalues = np.clip(2 * np.minimum(below, 1 - below), 1 / len(possible), 1)
        scale = fit.variance * design.outcome.half**2
        r = _explained(measured, fit, rng, confidence)
    else:
        informative = False
    names = design.names
    return OLS(
        formula=design.formula(),
        params=_perhaps(names, params),
        bse=named(names, errors),
        tvalues=_perhaps(names, None if params is None else _ratio(params, errors)),
        pvalues=named(names, pvalues),
        low=named(names, low),
        high=named(names, high),
        noise_standard_errors=named(names, noise),
        alpha=alpha,
        confidence=confidence,
        nobs=n,
        nobs_standard_error=math.sqrt(float(known.covariance[0, 0])),
        rsquared=r[0],
        rsquared_low=r[1],
        rsquared_high=r[2],
        scale=scale,
        covariance=covariance,
        regressors=tuple((column.name, column.low, column.high) for column in design.numbers),
        factors=tuple((factor.name, factor.categories or ()) for factor in design.factors),
        released=known.matrix(known.moments),
        stages=measured.stages,
        robust=measured.squares is not None,
        informative=informative,
        covers=design.covers,
        notes=_notes(measured, fit, informative=informative),
    )


def _perhaps(names: tuple[str, ...], values: Numbers | None) -> dict[str, float | None]:
    return dict.fromkeys(names) if values is None else named(names, values)


def _ratio(params: Numbers, errors: Numbers) -> Numbers:
    ratio: Numbers = np.divide(params, errors, out=np.zeros(len(params)), where=errors > 0)
    return ratio


def _covariance(measured: Measured, fit: Estimate, change: Numbers) -> Numbers:
    """Covariance of the coefficients: of sampling, robust where that was measured, and of noise."""
    sampling = change @ (fit.variance * fit.inverse) @ change.T
    if measured.squares is not None and measured.sizes is not None:
        robust = np.maximum(measured.squares, measured.spread) * measured.sizes**2
        sd = np.sqrt(robust / np.diag(sampling))
        sampling = sampling * np.outer(sd, sd)
    return sampling + change @ fit.noise @ change.T


def _explained(
    measured: Measured, fit: Estimate, rng: np.random.Generator, confidence: float
) -> tuple[float, float, float]:
    """R², with an interval that holds noise and sampling."""
    known, M = measured.known, fit.M
    n = max(float(M[0, 0]), 2.0)

    def share(M: Numbers) -> Numbers:
        total = M[..., -1, -1] - M[..., 0, -1] ** 2 / np.maximum(M[..., 0, 0], 1)
        rest = M[..., -1, -1] - np.einsum(
            "...i,...i->...", M[..., :-1, -1], np.linalg.solve(M[..., :-1, :-1], M[..., :-1, -1, None])[..., 0]
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            explained: Numbers = np.clip(np.where(total > 0, 1 - rest / total, 0.0), 0, 1)
        return explained

    explained = float(share(M))
    values, vectors = np.linalg.eigh(known.covariance)
    draws = known.matrix(
        known.moments + rng.normal(size=(1000, len(values))) * np.sqrt(np.maximum(values, 0)) @ vectors.T
    )
    possible = share(draws) + rng.normal(size=1000) * 2 * math.sqrt(explained / n) * (1 - explained)
    low, high = np.quantile(possible, [(1 - confidence) / 2, (1 + confidence) / 2])
    return explained, max(float(low), 0.0), min(float(high), 1.0)


def _notes(measured: Measured, fit: Estimate | None, *, informative: bool) -> tuple[str, ...]:
    notes = []
    names, known = measured.known.design.names, measured.known
    if not informative:
        M = known.matrix(known.moments)
        _, vectors = np.linalg.eigh(M[1:-1, 1:-1])
        least = np.abs(vectors[:, 0])
        blamed = [names[1 + at] for at in np.flatnonzero(least > 1 / 2 * least.max())]
        notes.append(
            f"Uninformative: the noise leaves open whether {', '.join(blamed)} can be told apart"
            f"{' from a constant' if len(blamed) == 1 else ''}. More rows, more epsilon, tighter bounds or fewer "
            "regressors would help."
        )
    elif fit is not None and not (fit.b @ fit.M[:-1, -1]) < fit.M[-1, -1]:
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
