"""Logistic regression of a private table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from dfprivacy import ArgumentError, Curator, NanPolicy, Probability, features, mechanism
from dfprivacy_regression import formula
from dfprivacy_regression.likelihood import LONG, Information, LogisticScore, discriminant, length, stepped
from dfprivacy_regression.mechanisms import Sums, known_columns, moments_of, rows_wanted
from dfprivacy_regression.result import Logit, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy_regression.design import Design
    from dfprivacy_regression.least_squares import Known

    Numbers = NDArray[np.float64]

__all__ = ["ENOUGH", "logit"]

_SHARES = (Fraction(1, 4), Fraction(7, 20))  # of the start, and of the score with the information
_START = Fraction(2, 5)  # where there is no third stage
ENOUGH = 2.5  # signal to noise, below which there is none
_CLEAR = 2.0  # noise standard errors by which the smallest eigenvalue of the information must stand out
_SEEN = 1.0  # below which nothing is known in its direction: there Newton's steps correct nothing
_PART = 0.1  # of a coefficient that lies in that direction, from which on nothing is known of it either
_SETTLED = (
    2.0  # standard errors that the last step may leave open, if information changes along it as much as it may
)
_EVENTS = 10.0  # rows of the rarer outcome for each coefficient, and
_SURE = 3.0  # noise standard errors by which they must be more


@dataclass(frozen=True)
class Measured:
    """What was measured for a logistic regression.

    Attributes
    ----------
    design : Design
        The regression.
    rows : tuple of two float
        How many rows there are, and the variance of that.
    b : ndarray of shape (q,)
        The estimate.
    moved : ndarray of shape (q,)
        How far it is from where the information was measured.
    bent : float
        The part of it that the information, which changes on the way, may be wrong by.
    longest : float
        L1 length of the longest step.
    events : tuple of two float
        Rows of the rarer outcome, and the noise standard error of that.
    information : Information
        And
    variance : float
        the variance of the noise in the last score.
    stages : int
        How many there were.
    """

    design: Design
    rows: tuple[float, float]
    b: Numbers
    moved: Numbers
    bent: float
    longest: float
    events: tuple[float, float]
    information: Information
    variance: float
    stages: int


@mechanism()
def logit(
    curator: Curator,
    y: str,
    x: str | Sequence[str] | None = None,
    *,
    success: str | float | bool | None = None,
    nan_policy: NanPolicy = "omit",
) -> Measured:
    """Regress a category on other columns: logistic regression.

    Parameters
    ----------
    y : str
        A formula, ``"smoker ~ age + C(region)"``; or the outcome, where `x` says what explains it. The outcome has
        categories.
    x : str or sequence of str, optional
        The regressors, as for `ols`.
    success : str, int, float or bool, optional
        The category whose probability is modelled; default: the second of two.
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
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. Three noisy sums with noise of
    the cube [1]_, of coordinates that are in [-1, 1] for every row: the second moments of the regressors, and their
    sums over the rows with the outcome (1/4 of ε), the score and the information at a first estimate (7/20), and
    the score at a second one (2/5). What is measured later follows from what was released before. All else is
    post-processing. docs/explanation/regression.md has the proofs.

    **Statistics.** The first estimate is that of the linear discriminant, from which two steps of Newton lead near
    the maximum of the likelihood; where n or ε is small, one. Standard errors hold the sampling of rows, the
    noise in score and information, and how much the information may have changed on the way; intervals are for the
    population's coefficients of values limited to their bounds. Where the steps do not settle (``converged``), or
    the rarer outcome has fewer than ten rows for each coefficient, ``informative`` is False and intervals have no
    ends. Where the noise leaves open whether the regressors can be told apart, ``informative`` is False, and where
    they may be one, their intervals have no ends.

    References
    ----------
    .. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.

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
    design = formula.read_binary(y, x, success, known_columns(curator))
    gaps = curator.gaps(design.columns, nan_policy)
    n, q = curator.size, design.width
    if n is not None and n <= q:
        raise ArgumentError(
            f"{n} rows cannot tell {q} coefficients.", "Name fewer regressors, or ask a view with more rows."
        )
    of, exact = moments_of(design, n, gaps)
    typical = curator.typical_size  # the same for all groups, as what each stage gets has to be
    three = typical is None or typical >= ENOUGH * rows_wanted(curator, of.dimension, q)
    first, second = _SHARES if three else (_START, None)
    known = Sums.of(curator.sum(of, noise="cube", share=first)).known(design, exact)
    rows = (float(known.moments[0]), float(known.covariance[0, 0]))

    def score_at(b: Numbers, share: Fraction | None, *, information: bool) -> Sums:
        score: features.RowFeatures = LogisticScore(design, b, information=information)
        return Sums.of(curator.sum(features.Given(*gaps, of=score) if gaps else score, noise="cube", share=share))

    events = _events(known)
    b1 = discriminant(known)
    sums = score_at(b1, second, information=True)
    information = Information.of(design, sums.values[q:], float(sums.variances[0]), rows)
    moved = stepped(information, sums.values[:q])
    b2 = b1 + moved
    if not three:
        bent, longest = _bent(known, moved), length(moved)
        return Measured(design, rows, b2, moved, bent, longest, events, information, float(sums.variances[0]), 2)
    score = score_at(b2, None, information=False)
    step = stepped(information, score.values)
    bent, longest = _bent(known, moved + step), max(length(moved), length(step))
    return Measured(design, rows, b2 + step, step, bent, longest, events, information, float(score.variances[0]), 3)


def _events(known: Known) -> tuple[float, float]:
    """Return the noisy number of rows of the rarer outcome, and its noise standard error."""
    index = known.design.index()
    n, ones = known.moments[[0, index[0, -1]]]
    variances = np.diag(known.covariance)[[0, index[0, -1]]]
    return float(min(ones, n - ones)), math.sqrt(max(float(variances.sum()), 0.0))


def _bent(known: Known, way: Numbers) -> float:
    """Bound by how much, relatively, the information of a typical row changes over a way.

    The logarithm of σ(t)(1 - σ(t)) changes by less than t does, and that by the root mean square of xᵀway.
    """
    A = known.matrix(known.moments)[:-1, :-1]
    return -math.expm1(-math.sqrt(max(float(way @ A @ way), 0.0) / max(float(A[0, 0]), 1.0)))


@logit.concludes
def _(measured: Measured, *, alpha: Probability = 0.05, confidence: Probability = 0.95) -> Logit:
    """Give coefficients in the columns' units."""
    design, information = measured.design, measured.information
    start, change = design.natural()
    clarity = information.clarity
    params = start + change @ measured.b
    sampling, noise = information.sampling, information.noise_alone(measured.moved, measured.variance)
    bent = measured.bent * measured.moved
    settled = _SETTLED * np.sqrt(np.diag(sampling + noise))
    converged = measured.longest < LONG * (1 - 1e-9) and bool((np.abs(bent) <= settled).all())
    events, unsure = measured.events
    enough = events - _SURE * unsure >= _EVENTS * design.width
    left = max(1 - measured.bent, 1e-9)  # of the information, at least, in a typical row
    noise = noise / left + np.outer(bent, bent)
    covariance = change @ (sampling / left + noise) @ change.T
    noise = change @ noise @ change.T
    lost = _lost(information, change) | (not (converged and enough))
    errors, spread = (np.where(lost, math.inf, np.sqrt(np.diag(each))) for each in (covariance, noise))
    covariance = np.where(lost[:, None] | lost, math.inf, covariance)
    reach = float(ndtri((1 + confidence) / 2)) * errors
    names, clear = design.names, clarity >= _CLEAR
    return Logit(
        formula=design.formula(),
        params=named(names, params),
        bse=named(names, errors),
        tvalues=named(names, params / errors),
        pvalues=named(names, 2 * ndtr(-np.abs(params) / errors)),
        low=named(names, params - reach),
        high=named(names, params + reach),
        noise_standard_errors=named(names, spread),
        alpha=alpha,
        confidence=confidence,
        nobs=measured.rows[0],
        nobs_standard_error=math.sqrt(measured.rows[1]),
        covariance=covariance,
        regressors=tuple((column.name, column.low, column.high) for column in design.numbers),
        factors=tuple((factor.name, factor.categories or ()) for factor in design.factors),
        released=information.H,
        stages=str(measured.stages),
        informative=clear and converged and enough,
        converged=converged,
        covers=design.covers,
        notes=_notes(measured, clear=clear, converged=converged, enough=enough),
    )


def _lost(information: Information, change: Numbers) -> NDArray[np.bool_]:
    """Say of which coefficients nothing is known: those in directions whose information may be none."""
    values, vectors = np.linalg.eigh(information.H)
    unseen = change @ vectors[:, values < _SEEN * information.spread]
    lost: NDArray[np.bool_] = (np.abs(unseen) > _PART * np.linalg.norm(change, axis=1)[:, None]).any(axis=1)
    return lost


def _notes(measured: Measured, *, clear: bool, converged: bool, enough: bool) -> tuple[str, ...]:
    notes = []
    if not converged:
        notes.append(
            "Uninformative: the fit did not converge, so nothing is known of its coefficients. Tighter bounds, "
            "logarithms of skewed regressors, more rows or more epsilon would help."
        )
    if not enough:
        events, unsure = measured.events
        notes.append(
            f"Uninformative: {max(events, 0):,.0f} ± {unsure:,.0f} rows have the rarer outcome, and "
            f"{measured.design.width} coefficients need {_EVENTS * measured.design.width:,.0f} beyond doubt. More "
            "rows, more epsilon or fewer regressors would help."
        )
    if not clear:
        values, vectors = np.linalg.eigh(measured.information.H)
        least = np.abs(vectors[:, int(np.argmin(values))])
        blamed = [measured.design.names[at] for at in np.flatnonzero(least > least.max() / 2)]
        notes.append(
            f"Uninformative: the noise leaves open whether {', '.join(blamed)} can be told apart. More rows, more "
            "epsilon, tighter bounds or fewer regressors would help."
        )
    return tuple(notes)
