"""Logistic regression of a private table: ``view.logit``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import expit, ndtr, ndtri

from dfprivacy import Column, Curator, NanPolicy, Probability, Schema, features, mechanism
from dfprivacy.estimates import measure_beyond
from dfprivacy.inference.clipped import SHARE
from dfprivacy.made_up import equal_weights
from dfprivacy_regression import formula
from dfprivacy_regression.least_squares import DesignMoments, NoisySums
from dfprivacy_regression.linear import (
    draw_regressors,
    first_is_significant,
    known_columns,
    moment_features,
    regression_planner,
    signal_to_noise,
    weighted_design,
    with_variances,
)
from dfprivacy_regression.result import Logit, collinear_note, common_fields
from dfprivacy_regression.scores import (
    LONG,
    Information,
    LogisticScore,
    LogisticSquares,
    discriminant_start,
    l1_norm,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

__all__ = ["LogitMeasurement", "logit"]

_SHARES: tuple[tuple[float, tuple[Fraction, Fraction | None, Fraction]], ...] = (
    (20.0, (Fraction(3, 20), Fraction(3, 20), Fraction(11, 20))),
    (8.0, (Fraction(3, 20), Fraction(3, 20), Fraction(1, 2))),
    (2.5, (Fraction(1, 4), Fraction(1, 10), Fraction(2, 5))),
    (-math.inf, (Fraction(2, 5), None, Fraction(3, 10))),
)  # from a signal to noise on, of the budget: for the moments, one score, and another; the information has the rest
_SQUARES_SHARE = Fraction(1, 10)  # of the budget, for the squares of weighted scores; all else has the rest
_CLEAR_ERRORS = 2.0  # noise standard errors by which the smallest eigenvalue of the information must stand out
_MIN_ERRORS = 1.0  # below which nothing is known in its direction: there Newton's steps correct nothing
_MAX_PART = 0.1  # of a coefficient that lies in that direction, from which on nothing is known of it either
_LAST_STEP = 2.0  # standard errors that the last step may leave open, by how much information may change along it
_MIN_EVENTS = 10.0  # rows of the rarer outcome for each coefficient, and
_EVENT_ERRORS = 3.0  # noise standard errors by which they must be more
_NOT_CONVERGED = (
    "the fit did not converge, so its coefficients are unknown. Use tighter bounds, logarithms of "
    "skewed regressors, more rows or a larger epsilon."
)
_RARE_NOTE = (
    "{:,.0f} ± {:,.0f} rows{} have the rarer outcome, and {} coefficients need {:,.0f} or more. "
    "Use more rows, a larger epsilon or fewer regressors."
)
_RARE_WEIGHTED = ", weighted relative to the largest weight,"


@dataclass(frozen=True)
class LogitMeasurement:
    """Noisy moments, scores and information of a logistic regression.

    Attributes
    ----------
    known : Known
        The moments, the outcome's among them.
    information : Information
        At the last estimate but one.
    step : ndarray
        From there.
    variance : float
        Variance of the noise in its score.
    stages : {"3", "4"}
        How many sums.
    squares : ndarray of shape (q,) or None
        With weights, the noisy design-based variances of the coefficients in the columns' units.
    spreads : ndarray of shape (q,)
        Their noise standard errors.
    """

    known: DesignMoments
    information: Information
    step: Numbers
    variance: float
    stages: Literal["3", "4"]
    squares: Numbers | None = None
    spreads: Numbers | None = None


@mechanism(columns={"weights": "numeric"})
def logit(
    curator: Curator,
    y: str,
    x: str | Sequence[str] | None = None,
    *,
    success: str | float | bool | None = None,
    weights: Column | None = None,
    nan_policy: NanPolicy = "omit",
) -> LogitMeasurement:
    """Regress a binary outcome on other columns by logistic regression.

    Parameters
    ----------
    y : str
        A formula, ``"smoker ~ age + C(region)"``; or the outcome, where `x` says what explains it. The outcome has
        categories.
    x : str or sequence of str, optional
        The regressors, as for `ols`.
    success : str, int, float or bool, optional
        The category whose probability is modelled; default: the second of two.
    weights : str, optional
        A column of sampling weights, as for `ols`: the coefficients are those of the population that they stand
        for, also where rows were chosen by their outcome.
    nan_policy : {"omit", "fill", "raise"}
        As for `ols`.
    alpha : float
        The level at which `rejected` decides, for each coefficient.
    confidence : float
        Coverage of each interval.

    Returns
    -------
    Logit
        The fit with statsmodels' names: ``params``, ``bse``, ``tvalues``, ``pvalues``, ``conf_int()``,
        ``odds_ratios()``, ``predict()``, ``summary()``.

    Raises
    ------
    ArgumentError, SchemaError
        If the formula or a column cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. Four noisy sums with noise of
    the cube [1]_, of coordinates that are in [-1, 1] for every row: the second moments of the regressors, and their
    sums over the rows with the outcome; the score at a first estimate; the score and the information at a second
    one, half of ε or so for this score. Before, with a thirty-second of ε, the rows beyond the bounds of each
    number are counted, with the same noise. What is measured later follows from what was released before. All else
    is post-processing. docs/explanation/regression.md has the proofs. With weights all of these coordinates are
    multiplied by a row's weight over its upper bound, v, which is in [0, 1], so a row moves them no more; and a
    tenth of ε is for one more sum, of v² u² (y - σ)² for each coefficient, which is in [0, 1] for every row.

    **Statistics.** The first estimate is that of the linear discriminant, from which two steps of Newton lead near
    the maximum of the likelihood; where n or ε is small, one. Standard errors hold the sampling of rows, the
    noise in score and information, and how much the information may change along the last step; intervals are for
    the population's coefficients of values limited to their bounds. Where the steps do not settle
    (``converged``), or the rarer outcome has fewer than ten rows for each coefficient, ``informative`` is False and
    intervals have no ends. Where the noise leaves open whether the regressors can be told apart, ``informative`` is
    False, and where they may be one, their intervals have no ends. With weights the estimate is that of weighted
    likelihood (pseudo-likelihood), its errors are the design-based ones of sampling with replacement [2]_, also
    where the model is wrong, and rows count by v where the rarer outcome needs ten.

    References
    ----------
    .. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.
    .. [2] Binder (1983). On the variances of asymptotically normal estimators from complex surveys. International
       Statistical Review 51.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> rng = np.random.default_rng(1)
    >>> age = rng.uniform(20, 80, 50_000)
    >>> ill = rng.random(50_000) < 1 / (1 + np.exp(5 - age / 10))
    >>> df = pd.DataFrame({"age": age, "ill": np.where(ill, "yes", "no")})
    >>> view = dp.protect(df, "logit-example", epsilon=1, ledger="memory:",
    ...                   bounds={"age": (20, 80)}, categories={"ill": ["no", "yes"]})
    >>> fit = view.logit("ill ~ age", epsilon=1)
    >>> round(fit.params["age"], 1), fit.rejected["age"]
    (0.1, True)
    """
    design, gaps = weighted_design(
        curator, formula.logistic_design(y, x, success, known_columns(curator.columns)), weights, nan_policy
    )
    (supposed, _), n, q = curator.supposed_size, curator.size, design.width
    of, exact = moment_features(design, n, gaps)
    signal = signal_to_noise(curator, of.dimension, design)
    first, second, third = next(shares for least, shares in _SHARES if signal >= least)
    beyond = measure_beyond(curator, design.bounded_columns, gaps, counted=weights is not None)
    rest = (1 - SHARE) * (1 if weights is None else 1 - _SQUARES_SHARE)
    moments = NoisySums.from_measurement(curator.sum(of, noise="cube", share=rest * first))
    typical = round(supposed * design.typical_weight)
    known = DesignMoments.from_sums(design, exact, moments, rows=typical, beyond=beyond)

    def sums_of(score: LogisticScore | LogisticSquares, share: Fraction | None) -> tuple[Numbers, float]:
        of = features.Given(*gaps, of=score) if gaps else score
        sums = NoisySums.from_measurement(curator.sum(of, noise="cube", share=share))
        return score.top * sums.values, score.top**2 * float(sums.variances[0])

    b, before = discriminant_start(known), float(known.covariance[-2, -2])
    if second:
        score, before = sums_of(LogisticScore(design, b, information=False), rest * second)
        b = b + Information.for_normal_regressors(known, b).newton_step(score)
    score, variance = sums_of(LogisticScore(design, b, information=False), rest * third)
    weight = LogisticScore(design, b, information=True)
    sums, unsure = sums_of(weight, None if weights is None else rest * (1 - first - (second or 0) - third))
    rows = (weight.top * float(known.moments[0]), weight.top**2 * float(known.covariance[0, 0]))
    information = Information.from_sums(design, b, sums, unsure, rows)
    model = Information.for_normal_regressors(known, b)
    planned = not sums.any()
    if planned:  # no slopes are to be expected, and a step that undoes noise
        b = 0 * b
        model = Information.for_normal_regressors(known, b)
        information = replace(information, b=b, H=model.H)
        score = np.full(q, math.sqrt(before + variance))
    information = information.pooled_with(model)
    measured = LogitMeasurement(
        known, information, information.newton_step(score), variance, "4" if second else "3"
    )
    if weights is None:
        return measured
    directions = design.units_map()[1] @ information.inverse
    sizes = np.abs(directions).sum(axis=1)
    squared = LogisticSquares(design, b, directions / sizes[:, None])
    squares, unsure = sums_of(squared, None)
    if planned:
        squares = design.typical_weight * np.diag(directions @ information.H @ directions.T) / sizes**2
    return replace(measured, squares=squares * sizes**2, spreads=math.sqrt(unsure) * sizes**2)


def _rarer_outcome_rows(known: DesignMoments) -> tuple[float, float]:
    """Return the noisy number of rows with the less frequent outcome, and its standard error."""
    index = known.design.moment_index()
    n, ones = known.moments[[0, index[0, -1]]]
    variances = np.diag(known.covariance)[[0, index[0, -1]]]
    return float(min(ones, n - ones)), math.sqrt(max(float(variances.sum()), 0.0))


def _information_change(known: DesignMoments, way: Numbers) -> float:
    """Return an upper bound of the relative change of a typical row's Fisher information along a Newton step.

    The logarithm of σ(t)(1 - σ(t)) changes by less than t does, and that by the root mean square of xᵀway.
    """
    A = known.matrix(known.moments)[:-1, :-1]
    return -math.expm1(-math.sqrt(max(float(way @ A @ way), 0.0) / max(float(A[0, 0]), 1.0)))


@logit.concludes
def conclude_logit(
    measured: LogitMeasurement, *, alpha: Probability = 0.05, confidence: Probability = 0.95
) -> Logit:
    """Compute coefficients with standard errors that cover sampling, noise and unfinished Newton steps."""
    known, design, information = measured.known, measured.known.design, measured.information
    start, change = design.units_map()
    last = measured.step
    params = start + change @ (information.b + last)
    inverse = information.inverse
    sampling = change @ inverse @ change.T
    if measured.squares is not None and measured.spreads is not None:
        sampling = with_variances(sampling, np.maximum(measured.squares, measured.spreads))
    noise = inverse @ np.diag(measured.variance + information.noise @ last**2) @ inverse
    bent = _information_change(known, last / 2)
    left = max(1 - _information_change(known, last), 1e-9)  # of the information, at least, in a typical row
    settled = bent * np.abs(last) <= _LAST_STEP * np.sqrt(np.diag(inverse + noise))
    converged = l1_norm(last) < LONG * (1 - 1e-9) and bool(settled.all())
    events, unsure = _rarer_outcome_rows(known)
    needed = _MIN_EVENTS * design.width
    enough = events - _EVENT_ERRORS * unsure >= needed
    counted = "" if design.weights is None else _RARE_WEIGHTED
    values, vectors = np.linalg.eigh(information.H)
    faults = {
        _NOT_CONVERGED: not converged,
        _RARE_NOTE.format(max(events, 0), unsure, counted, design.width, needed): not enough,
        collinear_note(design.names, vectors[:, 0]): values[0] < _CLEAR_ERRORS * information.eigenvalue_error,
    }
    noise = change @ (noise / left + np.outer(bent * last, bent * last)) @ change.T
    covariance = noise + sampling / left
    unseen = np.abs(change @ vectors[:, values < _MIN_ERRORS * information.eigenvalue_error])
    lost = (unseen > _MAX_PART * np.linalg.norm(change, axis=1)[:, None]).any(axis=1) | (not (converged and enough))
    covariance, noise = (np.where(lost[:, None] | lost, math.inf, each) for each in (covariance, noise))
    errors = np.sqrt(np.diag(covariance))
    reach = float(ndtri((1 + confidence) / 2)) * errors
    return Logit(
        **common_fields(
            known, params, covariance, noise, (params - reach, params + reach), 2 * ndtr(-np.abs(params) / errors)
        ),
        alpha=alpha,
        confidence=confidence,
        released=information.H,
        stages=measured.stages,
        informative=not any(faults.values()),
        converged=converged,
        notes=(*(f"Uninformative: {fault}" for fault, there in faults.items() if there), *known.beyond_bounds[1]),
    )


def draw_events(
    rng: np.random.Generator,
    n: int,
    schema: Schema,
    y: str,
    x: str | Sequence[str] | None,
    success: Any,
    weights: Column | None = None,
    *,
    effect: float = 0.5,
    intercept: float = 0.0,
) -> dict[str, Any]:
    """Draw an outcome whose log-odds change by `effect` per standard deviation of the first regressor."""
    design = formula.logistic_design(y, x, success, known_columns(schema.columns.values()))
    rows, score = draw_regressors(rng, n, design)
    others = [each for each in design.outcome.categories or () if each != design.success]
    values = np.array([*others[:1], design.success], dtype=object)
    happened = rng.random(n) < expit(intercept + effect * score)
    rows[design.outcome.name] = values[happened.astype(int) if others else 0 * happened]
    return rows | equal_weights(n, weights)


logit = logit.plans(regression_planner(logit)).assumes(draw_events, first_is_significant)
