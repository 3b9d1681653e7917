"""Linear regression of a private table by least squares: ``view.ols``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from scipy.special import ndtri

from dfprivacy import (
    ArgumentError,
    Column,
    Curator,
    Mechanism,
    NanPolicy,
    Probability,
    Range,
    Schema,
    features,
    mechanism,
)
from dfprivacy.estimates import measure_beyond
from dfprivacy.features.weighted import check_weights
from dfprivacy.inference.clipped import SHARE
from dfprivacy.inference.draws import DRAWS, points, sums_above
from dfprivacy.inference.engine import Inference
from dfprivacy.inference.planning import FOUND
from dfprivacy.laws import NoiseLaw
from dfprivacy.made_up import assumed_sd, equal_weights
from dfprivacy.wording import list_text
from dfprivacy_regression import formula
from dfprivacy_regression.least_squares import DesignMoments, NoisySums, score_map
from dfprivacy_regression.result import OLS, STAGES, collinear_note, common_fields
from dfprivacy_regression.scores import HuberScore, WeightedMoments, n_score_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from dfprivacy_regression.design import Design
    from dfprivacy_regression.least_squares import LeastSquares
    from dfprivacy_regression.result import Regression

    Numbers = NDArray[np.float64]
    Stages = Literal["exact", "one", "again", "two"]

__all__ = [
    "OLSMeasurement",
    "draw_regressors",
    "first_is_significant",
    "known_columns",
    "moment_features",
    "ols",
    "regression_planner",
    "signal_to_noise",
    "weighted_design",
    "with_variances",
]

_RELATIVE_ERROR = "expected relative error"
_DETECTABLE_ERRORS = 2.8  # standard errors that a coefficient must have for a power of .8 at the level .05
_INFORMATIVE_LEVEL = 0.995  # that an answer is informative, for what it would know is said
_FIRST_SHARE = Fraction(2, 5)  # of the budget, for the second moments where there are many rows
_SHARES = ((5.6, _FIRST_SHARE), (3.2, Fraction(3, 5)), (2.3, Fraction(3, 4)))  # from a signal to noise on; else all
_ONE_SIDED = 1.645  # noise standard errors that the clipped part of the residuals is taken to be larger by
_NOTED, _NOTED_PART = 2.5, 0.002  # from so many on, and so much of c a row, a note says that residuals were clipped
_MIN_VARIANCE = 1e-15  # a variance where there is none
_MIN_CLARITY = 1.0  # noise standard errors of the smallest eigenvalue, below which they are measured again


@dataclass(frozen=True)
class OLSMeasurement:
    """Noisy moments and noisy score of a linear regression.

    Attributes
    ----------
    known : Known
        The moments and the covariance of their noise, by all measurements.
    stages : {"exact", "one", "again", "two"}
        How they were measured: without noise, in one shot, twice, or by the score at a first estimate.
    squares : ndarray of shape (q,) or None
        Noisy sums of u_j² ψ²/c² for robust errors, u_j being the direction a_jᵀx of a coefficient over its size.
    spread : float
        Their noise standard error.
    sizes : ndarray of shape (q,)
        c times the sizes, and times the root of how much larger the sum of squares is than that of the clipped.
    outlying : float or None
        Where residuals were clipped, in units of half the bounds, if some were beyond.
    """

    known: DesignMoments
    stages: Stages
    squares: Numbers | None = None
    spread: float = 0.0
    sizes: Numbers | None = None
    outlying: float | None = None


def known_columns(columns: Iterable[Column]) -> dict[str, Column]:
    """Return a dict of the columns that have bounds or categories, by name."""
    return {each.name: each for each in columns if each.bounds is not None or each.categories is not None}


@mechanism(columns={"weights": "numeric"})
def ols(
    curator: Curator,
    y: str,
    x: str | Sequence[str] | None = None,
    *,
    weights: Column | None = None,
    robust: bool = True,
    nan_policy: NanPolicy = "omit",
) -> OLSMeasurement:
    """Regress a column on other columns by least squares.

    Parameters
    ----------
    y : str
        A formula, ``"price ~ area + rooms + C(region)"``; or the outcome, where `x` says what explains it.
    x : str or sequence of str, optional
        The regressors. A column with bounds is a number, one with categories only is compared with its first
        category, as ``C(...)`` is in a formula. There always is an intercept. Values count as clipped to their
        bounds.
    weights : str, optional
        A column of sampling weights, with bounds from 0 or above: the coefficients are those of the population that
        they stand for. Weights count as clipped to their bounds; rows without one are left out
        (docs/howto/weights.md).
    robust : bool
        Standard errors that hold where the spread of the residuals changes from row to row, where they can be had
        (in two stages).
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: a row with a missing value in any of the columns is left out. ``"fill"``: it counts with the
        column's fill value. ``"raise"``: it is refused, where the columns are public.
    alpha : float
        The level at which `rejected` decides, for each coefficient.
    confidence : float
        Coverage of each interval.

    Returns
    -------
    OLS
        The fit with statsmodels' names: ``params``, ``bse``, ``tvalues``, ``pvalues``, ``conf_int()``,
        ``rsquared``, ``predict()``, ``summary()``.

    Raises
    ------
    ArgumentError, SchemaError
        If the formula or a column cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. The first stage measures the
    second moments of the row (1, x, y), every number mapped to [-1, 1], with noise of the cube [1]_: one row moves
    each by 2 at most (by 1 where rows come and go). The second, with a quarter of ε or up to three fifths, measures
    the score of the residuals at the first estimate, clipped where few are, and how much of them is beyond, in the
    same norm. Before, with a thirty-second of ε, the rows beyond the bounds of each number are counted: one row
    moves each count by 1 at most. All are noisy sums; what the second stage is of follows from what the first
    released. All else is post-processing. docs/explanation/regression.md has the proofs. With weights every sum is
    one of these vectors times a row's weight over its upper bound, which is at most 1, so a row moves it no more.

    **Statistics.** The two measurements are of one matrix, up to clipping, and are put together as such (Kalman's
    update). Errors hold what clipping may have cut off the score: with outliers the first stage decides. Where n or
    ε is small, or regressors are nearly collinear, all goes to the second moments. Standard errors and intervals
    hold the noise as well as the sampling of rows, for the population's coefficients of values limited to their
    bounds; where the noise leaves open whether the regressors can be told apart, ``informative`` is False, there
    are no estimates, and intervals have no ends. Nothing is shrunk. Outside the two stages errors are the classical
    ones. With weights the estimate is that of weighted least squares, and robust errors are the design-based ones
    of sampling with replacement [2]_; classical errors are an upper bound of these, if residuals have the same
    variance in all rows.

    References
    ----------
    .. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.
    .. [2] Binder (1983). On the variances of asymptotically normal estimators from complex surveys. International
       Statistical Review 51.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> rng = np.random.default_rng(1)
    >>> area = rng.uniform(0, 200, 50_000)
    >>> df = pd.DataFrame({"area": area, "price": 50 + 2 * area + rng.normal(0, 40, 50_000)})
    >>> view = dp.protect(df, "ols-example", epsilon=1, ledger="memory:",
    ...                   bounds={"area": (0, 200), "price": (0, 600)})
    >>> fit = view.ols("price ~ area", epsilon=1)
    >>> round(fit.params["area"], 1), fit.rejected["area"]
    (2.0, True)
    """
    design, gaps = weighted_design(
        curator, formula.linear_design(y, x, known_columns(curator.columns)), weights, nan_policy
    )
    (rows, _), n, q = curator.supposed_size, curator.size, design.width
    of, exact = moment_features(design, n, gaps)
    beyond = measure_beyond(curator, design.bounded_columns, gaps, counted=weights is not None)
    typical = round(rows * design.typical_weight)
    known_of = partial(DesignMoments.from_sums, design, exact, rows=typical, beyond=beyond)
    signal = signal_to_noise(curator, of.dimension, design)  # the fewer, the more the first estimate decides
    share = next((share for least, share in _SHARES if signal >= least), Fraction(1))
    if share == 1:
        sums = NoisySums.from_measurement(curator.sum(of, noise="cube"))
        return OLSMeasurement(known_of(sums), "one" if sums.scales.any() else "exact")
    sums = NoisySums.from_measurement(curator.sum(of, noise="cube", share=(1 - SHARE) * share))
    if not sums.scales.any():
        return OLSMeasurement(known_of(sums), "exact")
    known = known_of(sums)
    first = known.estimate()
    first = None if first is None or known.eigenvalue_ratio() < _MIN_CLARITY else first
    if first is None:
        again = NoisySums.from_measurement(curator.sum(of, noise="cube"))
        return OLSMeasurement(known_of(sums, again), "again")
    directions = design.units_map()[1] @ first.inverse
    sizes = np.abs(directions).sum(axis=1)
    c = first.residual_bound(_sum_noise(curator, n_score_sums(q, robust=robust), (1 - SHARE) * (1 - share)))
    score = HuberScore(design, np.clip(first.b, -3, 3), c, directions / sizes[:, None] if robust else None)
    scored = NoisySums.from_measurement(
        curator.sum(features.Given(*gaps, of=score) if gaps else score, noise="cube")
    )
    if not scored.values.any():  # of a plan
        scored = replace(scored, values=score.expected_sums(first.M))
    return _combine_stages(known, score, scored, sizes if robust else None)


def _combine_stages(
    known: DesignMoments, score: HuberScore, scored: NoisySums, sizes: Numbers | None
) -> OLSMeasurement:
    """Combine moments and score, with standard errors that cover the clipped part of the residuals.

    W = Σ(|e| - c)₊ was measured. Clipping moves the score of x_j by W max|x_j| at most, for which W times the root
    mean square of x_j is one more standard error of it. It takes between 2cW and (2c + top)W off the squares.
    """
    q, c, n = score.design.width, score.c, max(float(known.moments[0]), 1.0)
    shares = (scored.values[q:] + n) / 2  # sums of what is in [0, 1] in each row
    error = math.sqrt(scored.variances[-1] + float(known.covariance[0, 0])) / 2
    beyond = max(float(shares[1]), 0.0) * score.top
    most = beyond + _ONE_SIDED * error * score.top
    lengths = np.sqrt(np.clip(np.diag(known.matrix(known.moments))[:q] / n, 0.01, 1))
    cut = most * np.append(lengths, c + score.top / 2)
    means, units = score_map(known, score.b, c)
    scales = scored.scales[: q + 1] * np.hypot(1, cut / units / np.sqrt(scored.variances[: q + 1]))
    shift = np.append(np.zeros(q), 2 * c * beyond)
    known = known.combined_with(NoisySums(scored.values[: q + 1], scales, scored.dimension), means, units, shift)
    outlying = c if beyond > _NOTED * error * score.top + _NOTED_PART * n * c else None
    fit = known.estimate()
    if sizes is None or fit is None:
        return OLSMeasurement(known, "two", outlying=outlying)
    inflated = max(1.0, fit.variance * fit.degrees_of_freedom / (c**2 * max(float(shares[0]), error)))
    return OLSMeasurement(known, "two", shares[2:], error, c * math.sqrt(inflated) * sizes, outlying)


def weighted_design(
    curator: Curator, design: Design, weights: Column | None, nan_policy: NanPolicy
) -> tuple[Design, tuple[Column, ...]]:
    """Return the design with weights added, and the columns in which a missing value excludes a row."""
    gaps = curator.gaps(design.columns, nan_policy)
    if weights is None:
        return design, gaps
    check_weights(weights, design.columns)
    gaps += curator.gaps([weights], "omit" if nan_policy == "fill" else nan_policy)
    return replace(design, weights=weights), gaps


def moment_features(
    design: Design, n: int | None, gaps: tuple[Column, ...]
) -> tuple[features.RowFeatures, int | None]:
    """Return the features whose sums are the moments, and the number of rows; None if the features count it.

    Where rows only change, one that is left out may be as far from the others as these are from each other: a count
    of complete rows may have twice the weight. Fewer rows than coefficients are refused.
    """
    if n is not None and n <= design.width:
        raise ArgumentError(
            f"{n} rows are too few for {design.width} coefficients.",
            "Use fewer regressors, or a table with more rows.",
        )
    if design.weights is not None:
        weighted = WeightedMoments(design)
        return (features.Given(*gaps, of=weighted) if gaps else weighted), None
    of = design.second_moment_features(count=1.0 if n is None else 2.0 if gaps else False)
    return (features.Given(*gaps, of=of) if gaps else of), (None if gaps else n)


def signal_to_noise(curator: Curator, dimension: int, design: Design) -> float:
    """Return the expected signal-to-noise ratio of the moments, from public numbers that groups share.

    The signal is the regressors' scatter, if that is 1/9 a row, times a typical weight.
    """
    n, noise = curator.typical_size, 9 * _sum_noise(curator, dimension, _FIRST_SHARE) * math.sqrt(design.width)
    return math.inf if n is None else n / noise * design.typical_weight


def _sum_noise(curator: Curator, dimension: int, share: Fraction) -> float:
    """Return the standard error of the noise in sums of coordinates in [-1, 1], for a share of the budget."""
    width = 1 if curator.neighbors == "add_remove" else 2
    scale = width / (curator.epsilon * float(share))
    return NoiseLaw(scale, kind="cube", dimension=dimension).standard_deviation


@ols.concludes
def conclude_ols(measured: OLSMeasurement, *, alpha: Probability = 0.05, confidence: Probability = 0.95) -> OLS:
    """Compute the coefficients, their standard errors and R² from the measured moments.

    Intervals are quantiles of a confidence distribution: the average, over draws of what the moments may be without
    the noise, of Student's distributions around the coefficients that follow. A draw whose matrix of the regressors
    is not positive definite leaves everything possible, so half of its mass is at either end.
    """
    known, design, q = measured.known, measured.known.design, measured.known.design.width
    fit = known.estimate()
    found, possible = _inference(measured, fit) if fit is not None else (None, 0.0)
    params, covariance, noise = None, np.full((q, q), math.inf), np.full((q, q), math.inf)
    low, high, pvalues = np.full(q, -math.inf), np.full(q, math.inf), np.ones(q)
    rsquared: tuple[float | None, float, float] = (None, 0.0, 1.0)
    informative = fit is not None and found is not None and possible > confidence
    if fit is not None and found is not None and informative:
        start, change = design.units_map()
        params, noise = start + change @ fit.b, change @ fit.noise @ change.T
        covariance = _sampling_covariance(measured, fit, change) + noise
        lost = (1 - possible) / 2  # at either end
        outside = (1 - confidence) / 2
        low, high = found.quantile((np.array([[outside], [1 - outside]]) - lost) / possible)
        below = lost + possible * np.clip(found.cdf(0.0)[:q], 0, 1)
        pvalues = 2 * np.minimum(below, 1 - below)
        told, far = float(found.estimate[q]), _rsquared_margin(known, fit, outside)
        rsquared = (told, max(math.sqrt(told) - far, 0.0) ** 2, min(float(high[q]), 1.0))
        low, high = low[:q], high[:q]
    return OLS(
        **common_fields(known, params, covariance, noise, (low, high), pvalues),
        alpha=alpha,
        confidence=confidence,
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


def _inference(measured: OLSMeasurement, fit: LeastSquares) -> tuple[Inference, float]:
    """Return the inference about coefficients and R² over draws of the noise, and the share of valid draws."""
    start, change = measured.known.design.units_map()
    M, weights, possible = measured.known.draws()
    u = points(len(change) + 1, DRAWS, seed=1)
    inverse, products = np.linalg.inv(M[:, :-1, :-1]), M[:, :-1, -1]
    b = np.einsum("rij,rj->ri", inverse, products)
    squares, error = fit.residual_squares
    zero, law = np.zeros(1), NoiseLaw(error, kind="Gaussian")
    rest = np.maximum(sums_above(law, np.array([squares]), zero, u[-1]), _MIN_VARIANCE)
    if measured.squares is None or measured.sizes is None:
        variances = np.einsum("ij,rjk,ik->ir", change, inverse, change) * rest / fit.degrees_of_freedom
    else:
        law = NoiseLaw(measured.spread, kind="Gaussian")
        variances = sums_above(law, measured.squares[:, None], zero, u[:-1]) * measured.sizes[:, None] ** 2
    shares = _rsquared(M, b)
    sure = float(weights @ possible)
    return Inference(
        estimate=np.append(start + change @ fit.b, _rsquared(fit.M, fit.b)),
        theta=np.vstack([start[:, None] + change @ b.T, shares]),
        variance=np.maximum(
            np.vstack([variances, 4 * shares * (1 - shares) ** 2 / np.maximum(M[:, 0, 0], 1.0)]), _MIN_VARIANCE
        ),
        df=np.full((len(change) + 1, DRAWS), min(fit.degrees_of_freedom, 1e8)),
        weights=weights * possible / max(sure, _MIN_VARIANCE),
    ), sure


def _rsquared_margin(known: DesignMoments, fit: LeastSquares, outside: float) -> float:
    """Return an upper confidence bound of the error of the root of R² due to noise and sampling.

    Noise only adds to R² where it is small, and drawn again it adds once more. But the root of R² is a length, so
    it is off by no more than the length of the coefficients' error.
    """
    M, weights, possible = known.draws()
    b = np.linalg.solve(M[:, :-1, :-1], M[:, :-1, -1:])[..., 0]
    n = np.maximum(M[:, :1, :1], 1.0)
    centred = M[:, 1:, 1:] - M[:, 1:, :1] * M[:, :1, 1:] / n
    q = len(fit.b) - 1
    sampled = math.sqrt(fit.variance) * ndtri(points(q, DRAWS, seed=2)).T
    error = np.einsum("rji,rj->ri", np.linalg.cholesky(centred[:, :-1, :-1]), b[:, 1:] - fit.b[1:]) + sampled
    length = np.sqrt((error**2).sum(axis=1) / np.maximum(centred[:, -1, -1], _MIN_VARIANCE))
    length[~possible] = math.inf
    order = np.argsort(length)
    at = np.searchsorted(np.cumsum(weights[order]), 1 - outside)
    return float(length[order][min(at, DRAWS - 1)])  # rounded, the weights may add up to less than that


def _rsquared(M: Numbers, b: Numbers) -> Numbers:
    """Compute the coefficient of determination R², clipped to [0, 1]."""
    total = np.maximum(M[..., -1, -1] - M[..., 0, -1] ** 2 / np.maximum(M[..., 0, 0], 1.0), _MIN_VARIANCE)
    rest = M[..., -1, -1] - np.einsum("...i,...i->...", b, M[..., :-1, -1])
    explained: Numbers = np.clip(1 - rest / total, 0.0, 1.0)
    return explained


def _sampling_covariance(measured: OLSMeasurement, fit: LeastSquares, change: Numbers) -> Numbers:
    """Return the sampling covariance of the coefficients, the robust one if it was measured."""
    sampling: Numbers = change @ (fit.variance * fit.inverse) @ change.T
    if measured.squares is None or measured.sizes is None:
        return sampling
    return with_variances(sampling, np.maximum(measured.squares, measured.spread) * measured.sizes**2)


def with_variances(covariance: Numbers, variances: Numbers) -> Numbers:
    """Return a covariance matrix with the same correlations and the given variances."""
    sd = np.sqrt(variances / np.diag(covariance))
    scaled: Numbers = covariance * np.outer(sd, sd)
    return scaled


def _notes(measured: OLSMeasurement, fit: LeastSquares | None, *, informative: bool) -> tuple[str, ...]:
    notes, known = [], measured.known
    if not informative:
        _, vectors = np.linalg.eigh(known.matrix(known.moments)[1:-1, 1:-1])
        notes.append(f"Uninformative: {collinear_note(known.design.names[1:], vectors[:, 0])}")
    elif fit is not None and fit.residual_squares[0] <= 0:
        notes.append(
            "The variance of the residuals is not clearly above its noise: standard errors are upper bounds."
        )
    if measured.outlying is not None:
        reach = known.design.outcome.half * measured.outlying
        notes.append(
            f"Outliers: some residuals are clipped, as they are beyond ±{reach:.3g}. Standard errors are larger, "
            "to cover the clipped part."
        )
    if measured.stages in {"one", "again"} and informative:
        notes.append(
            "Standard errors are classical: they assume that residuals have the same variance in all rows."
        )
    return (*notes, *known.beyond_bounds[1])


def regression_planner(regression: Mechanism) -> Callable[..., Mapping[str, Any]]:
    """Return a function that plans a regression: it predicts the standard errors of the coefficients.

    The fit is that of the method's second half, whose stages no function of one release describes.
    """

    def plan(curator: Curator, **_: Any) -> Mapping[str, Any]:
        known: DesignMoments = curator.planned.known
        design, M = known.design, known.matrix(known.moments)
        binary, conclude = design.success is not None, regression.conclusion or regression.function
        fit: Regression = conclude(curator.planned, confidence=_INFORMATIVE_LEVEL)
        stages = {"stages": STAGES[fit.stages]}
        if not fit.informative:
            unknown = "not known: the noise may exceed the variation of the regressors"
            return {**stages, "expected standard errors of the coefficients": unknown, _RELATIVE_ERROR: "not known"}
        assumed = ["standard deviations are a sixth of the range", *filter(None, [curator.supposed_size[1]])]
        assumed += [f"weights are near {design.weights.mid:.3g}"] if design.weights is not None else []
        assumed += [f"half of the rows are {design.success!r}"] if binary else []
        names, share, spread = design.names[1:], M[0, 1:-1] / M[0, 0], 1.0 if binary else 1 / 3  # of the outcome
        spreads = np.sqrt(np.diag(M)[1:-1] / M[0, 0] - share**2) / spread / np.diag(design.units_map()[1])[1:]
        relative = [fit.noise_standard_errors[name] for name in names] * spreads
        found = f"found with probability {FOUND}"
        return {
            **stages,
            "assumed": list_text(assumed),
            **{f"expected standard error of the coefficient of {name}": fit.bse[name] for name in names},
            **{f"smallest coefficient of {name} {found}": _DETECTABLE_ERRORS * fit.bse[name] for name in names},
            _RELATIVE_ERROR: float(relative.max()),
        }

    return plan


def draw_outcomes(
    rng: np.random.Generator,
    n: int,
    schema: Schema,
    y: str,
    x: str | Sequence[str] | None,
    weights: Column | None = None,
    *,
    effect: float = 0.2,
    spread: Annotated[float, Range(1e-12, 1e300)] | None = None,
) -> dict[str, Any]:
    """Draw an outcome that depends linearly on the first regressor, with the standardized slope `effect`."""
    design = formula.linear_design(y, x, known_columns(schema.columns.values()))
    rows, score = draw_regressors(rng, n, design)
    out = design.outcome
    rows[out.name] = out.mid + assumed_sd(out, spread) * (effect * score + rng.normal(size=n))
    return rows | equal_weights(n, weights)


def first_is_significant(release: Regression) -> bool:
    """Return whether the first coefficient after the intercept differs significantly from 0."""
    _, first, *_ = release.rejected.values()
    return first


def draw_regressors(rng: np.random.Generator, n: int, design: Design) -> tuple[dict[str, Any], Any]:
    """Draw independent regressors with an sd of a sixth of the range; also return the first as z-scores."""
    rows: dict[str, Any] = {}
    scores = []
    for column in design.numbers:
        scores.append(rng.normal(size=n))
        rows[column.name] = column.mid + assumed_sd(column, None) * scores[-1]
    for factor in design.factors:
        categories = np.array(factor.categories or (), dtype=object)
        drawn = rng.integers(len(categories), size=n)
        rows[factor.name] = categories[drawn]
        scores.append(1.0 * (drawn == 1))
    if not scores:
        raise ArgumentError("No regressor is named.", "Name a column as x=.")
    return rows, scores[0]


ols = ols.plans(regression_planner(ols)).assumes(draw_outcomes, first_is_significant)
