"""Results of linear and logistic regressions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import expit, ndtri, stdtrit

from dfprivacy import ArgumentError, ConfidenceInterval, Release
from dfprivacy.expressions import read_column
from dfprivacy.inference.draws import noise_draws
from dfprivacy.laws import NoiseLaw
from dfprivacy.plotting import forest
from dfprivacy.wording import (
    covered_phrase,
    list_text,
    noise_share,
    number,
    rows_phrase,
    uncertainty,
    with_error,
    with_unit,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy.inference.clipped import Sides
    from dfprivacy_regression.estimator import ReleasedClassifier, ReleasedRegressor
    from dfprivacy_regression.least_squares import DesignMoments

    Numbers = NDArray[np.float64]

__all__ = ["OLS", "STAGES", "Logit", "Regression", "collinear_note", "common_fields"]

STAGES = {
    "exact": "public columns, without noise",
    "one": "second moments, with all of the budget",
    "again": "second moments, measured twice",
    "two": "second moments, then the score of the residuals",
    "3": "linear discriminant analysis, then one Newton step",
    "4": "linear discriminant analysis, then two Newton steps",
}

_COEFFICIENTS = "coefficients"
_MAY_MAKE = "the noise may make "  # and then which terms


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Regression(Release):
    """Base class of regression results, with the attributes of statsmodels' results.

    Attributes
    ----------
    formula : str
        What was regressed on what.
    params, bse, tvalues, pvalues : dict of str to float
        For each coefficient, in the columns' units: its estimate, the standard error of sampling and noise
        together, their ratio, and the p-value for a coefficient of 0. Where the noise leaves everything possible,
        estimates are None and errors infinite. Coefficients are those of values limited to their bounds, as a fit
        of the clipped columns has them.
    low, high : dict of str to float
        Ends of each interval, which covers the population's coefficient; infinite where the data leave everything
        possible.
    noise_standard_errors : dict of str to float
        The part of each standard error that privacy adds.
    alpha : float
        The level at which `rejected` decides.
    confidence : float
        Coverage of each interval.
    nobs, nobs_standard_error : float
        Complete rows, and the noise in their number.
    covariance : ndarray of shape (q, q)
        Of the coefficients, in the order of `params`.
    noise_covariance : ndarray of shape (q, q)
        The part of it that privacy adds.
    regressors : tuple of (str, float, float)
        Names and bounds of the regressors that are numbers.
    factors : tuple of (str, tuple)
        Names and categories of the others; the first category is what the rest is compared with.
    released : ndarray
        What was measured, by all stages: see the class.
    stages : str
        How it was measured.
    clipped : dict of str to tuple
        Of each column of numbers the shares of the rows below and above its bounds, as of
        `dfprivacy.estimates.Estimate`.
    informative : bool
        Whether the noise leaves the regressors distinguishable. If not, `notes` names those in doubt.
    covers : {"limited population", "population"}
        Which coefficient the intervals cover: that of a population of which the rows are a sample, with numbers
        limited to their bounds; "population" where all columns are categories.
    notes : tuple of str
        What to know before trusting the numbers.
    weights : str or None
        The column of sampling weights; the coefficients are then those of the population that they stand for.
    formulas : dict
        Of each column that is computed from others, how it is computed.
    """

    formula: str
    params: dict[str, float | None]
    bse: dict[str, float]
    tvalues: dict[str, float | None]
    pvalues: dict[str, float]
    low: dict[str, float]
    high: dict[str, float]
    noise_standard_errors: dict[str, float]
    alpha: float
    confidence: float
    nobs: float
    nobs_standard_error: float
    covariance: NDArray[np.float64]
    noise_covariance: NDArray[np.float64]
    regressors: tuple[tuple[str, float, float], ...]
    factors: tuple[tuple[str, tuple[Any, ...]], ...]
    released: NDArray[np.float64]
    stages: str
    clipped: dict[str, Sides]
    informative: bool
    covers: str | None = "limited population"
    notes: tuple[str, ...] = ()
    weights: str | None = None
    formulas: dict[str, Any] = field(default_factory=dict)

    def _replicates(self) -> Mapping[str, Any]:
        """Return the coefficients under random normal draws of the noise."""
        known = [each for each in self.params.values() if each is not None]
        if len(known) < len(self.params) or not np.isfinite(self.noise_covariance).all():
            return super()._replicates()  # which refuses it
        values, vectors = np.linalg.eigh(self.noise_covariance)
        spread, measurement = np.sqrt(np.maximum(values, 0.0)), blake2b(self.released.tobytes()).hexdigest()
        away = vectors @ noise_draws(NoiseLaw(1.0, kind="Gaussian"), spread, measurement)
        return {"params": dict(zip(self.params, np.array(known)[:, None] + away, strict=True))}

    @property
    def rejected(self) -> dict[str, bool]:
        """Whether each coefficient differs significantly from 0 at level `alpha`."""
        return {name: p < self.alpha for name, p in self.pvalues.items()}

    def conf_int(self) -> dict[str, ConfidenceInterval]:
        """Return the confidence interval of each coefficient.

        Returns
        -------
        dict of str to ConfidenceInterval
            With ``low`` and ``high``. Another confidence costs nothing: ask again with ``confidence=``.
        """
        return {name: ConfidenceInterval(self.low[name], self.high[name]) for name in self.params}

    @property
    def names_of_regressors(self) -> list[str]:
        """Names of the regressors, numeric columns before categorical columns."""
        return [*(name for name, *_ in self.regressors), *(name for name, _ in self.factors)]

    def linear_predictor(self, at: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return the linear predictor for given values of the regressors.

        Parameters
        ----------
        at : mapping of str to array_like, or DataFrame
            As for `predict`.

        Returns
        -------
        ndarray of shape (rows,)
            The mean outcome of `OLS`, the log-odds of `Logit`.
        """
        return self._design_matrix(at) @ self._coefficient_vector()

    def _design_matrix(self, at: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return the design matrix for given values of the regressors, with the constant as first column."""
        names = self.names_of_regressors
        formulas: dict[str, Any] = {name: read_column(name, **of) for name, of in self.formulas.items()}
        needed = {
            name: [name] if name in at or name not in formulas else formulas[name].source_names for name in names
        }
        every = dict.fromkeys(each for of in needed.values() for each in of)
        gone = [name for name in every if name not in at]
        if gone:
            raise ArgumentError(
                f"at= has no value for {', '.join(map(repr, gone))}.", f"Give at= values of {', '.join(every)}."
            )
        given = {
            name: np.atleast_1d(np.asarray(at[name])) if name in at else formulas[name].values_of(at)
            for name in names
        }
        rows = max(map(len, given.values()), default=1)
        columns = [np.ones(rows)]
        for name, low, high in self.regressors:
            numbers = given[name].astype(np.float64)
            if np.isnan(numbers).any():
                raise ArgumentError(f"at= has missing values of {name!r}.", "Give a number, not NaN, for each row.")
            columns.append(np.broadcast_to(np.clip(numbers, low, high), rows))
        for name, categories in self.factors:
            if not np.isin(given[name], np.array(categories)).all():
                raise ArgumentError(
                    f"at= has a value of {name!r} that is not a category of the column.",
                    f"The categories are {categories!r}.",
                )
            columns += [np.broadcast_to(given[name] == each, rows) for each in categories[1:]]
        return np.column_stack(columns).astype(np.float64)

    def _sentence(self) -> str:
        """Write a sentence with the most significant coefficient other than the intercept."""
        name, many = self._most_significant
        of, unit = self._outcome_words()
        if name is None:
            return f"No coefficient of {of} is known."
        error = self.bse[name]
        how = uncertainty(
            self.low[name],
            self.high[name],
            self.confidence,
            whose=rows_phrase(self.covers or "", self.weights),
            noise=self._noise_share(name),
            p=self.pvalues[name],
        )
        per = f" per {self._unit(name)}" if self._unit(name) else ""
        what = self._term_words(name) if name.startswith("C(") else self._label(name)
        more = f", the most significant of {many} coefficients" if many > 1 else ""
        told = with_unit(number(self.params[name], error), unit) + per * (not name.startswith("C("))
        weighted = "" if self.weights is None else "weighted "
        doubted = [] if name in self._collinear else self._collinear
        doubt = f" Do not trust {list_text(doubted)}: the noise may cause collinearity." if doubted else ""
        return f"The {weighted}{self._coefficient} of {what} for {of} is {told}{how}{more}.{doubt}"

    @property
    def _most_significant(self) -> tuple[str | None, int]:
        """Name of the known coefficient with the least p-value, other than the intercept, and their number."""
        names = [name for name in self.params if name != "Intercept"] or [*self.params]
        known = [name for name in names if self.params[name] is not None and math.isfinite(self.bse[name])]
        return min(known, key=lambda each: self.pvalues[each], default=None), len(names)

    @property
    def _collinear(self) -> list[str]:
        """Names of the coefficients that a note calls collinear."""
        notes = (note.partition(_MAY_MAKE)[2].partition(" collinear")[0] for note in self.notes)
        listed = f", {', '.join(filter(None, notes))}, "
        return [name for name in self.params if f", {name}, " in listed]

    @property
    def _uninformative(self) -> bool:
        """Whether the coefficient of the sentence is not to be trusted."""
        name, _ = self._most_significant
        return super()._uninformative and (name is None or name in self._collinear)

    def _noise_share(self, name: str) -> float | None:
        """Return the share of the width of a coefficient's confidence interval that is due to noise."""
        error, noise = self.bse[name], self.noise_standard_errors[name]
        return noise_share(error, math.sqrt(max(error**2 - noise**2, 0.0))) if math.isfinite(error) else None

    def _outcome_words(self) -> tuple[str, str]:
        """Return the printed name of the outcome, and the unit of the coefficients."""
        outcome, event = self._event_words()
        return self._label(outcome) + event, "" if event else self._unit(outcome)

    def _event_words(self) -> tuple[str, str]:
        """Return the name of the outcome's column, and " = " with the category that counts as 1, if any."""
        outcome, _, event = self.formula.partition(" ~ ")[0].partition(" == ")
        outcome = outcome.removeprefix("(") if event else outcome
        return outcome, f" = {event.removesuffix(')').strip(chr(39))}" if event else ""

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the coefficients with their tests as rows of a tidy table."""
        fields: dict[str, dict[str, Any]] = {
            "estimate": self.params,
            "standard_error": self.bse,
            "noise_standard_error": self.noise_standard_errors,
            "low": self.low,
            "high": self.high,
            "statistic": self.tvalues,
            "pvalue": self.pvalues,
        }
        columns = {name: [*values.values()] for name, values in fields.items()}
        return [{"term": [*self.params], **columns, "n": self.nobs}]

    def summary(self) -> str:
        """Return a summary table in the layout of statsmodels.

        Returns
        -------
        str
            Its lines.
        """
        wide = max(len(name) for name in self.params)
        line = "=" * (wide + 64)
        share = (1 - self.confidence) / 2
        head = f"{'coef':>10}{'std err':>10}{'t':>9}{'P>|t|':>8}{f'[{share:.3g}':>12}{f'{1 - share:.3g}]':>12}"
        rows = [
            f"{name:<{wide}}{_format_or_none(self.params[name]):>10}{self.bse[name]:>10.3g}"
            f"{_format_or_none(self.tvalues[name], '.3f'):>9}"
            f"{self.pvalues[name]:>8.3f}{self.low[name]:>12.4g}{self.high[name]:>12.4g}"
            for name in self.params
        ]
        title = f"{type(self).__name__} Regression Results, with differential privacy"
        lines = [f"{title:^{len(line)}}", line, self.formula]
        lines += [f"No. Observations: {self.nobs:,.0f}    {self._fit_text()}", f"Measured: {STAGES[self.stages]}"]
        lines += [
            f"Intervals: {covered_phrase(self.covers or 'population')}",
            line,
            " " * wide + head,
            "-" * len(line),
        ]
        return "\n".join([*lines, *rows, line, *self.notes])

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("formula", self.formula), (_COEFFICIENTS, "estimate ± standard error, privacy noise included")]
        for name, value in self.params.items():
            error, noise = self.bse[name], self.noise_standard_errors[name]
            known = value is not None and math.isfinite(error)
            told = with_error(value, error) if known else "not known"
            how = uncertainty(self.low[name], self.high[name], self.confidence, whose="", p=self.pvalues[name])
            rows.append((name, f"{told}{how}" + f"; noise alone ± {number(noise, noise)}" * known))
        unsure = self.nobs_standard_error
        rows += [("rows", with_error(self.nobs, unsure) if unsure else f"{self.nobs:,.0f}")]
        if self.weights is not None:
            rows.append(("weights", f"{self.weights}; rows without a weight are omitted"))
        rows += [("fit", self._fit_text())]
        rows += [("measured", STAGES[self.stages])]
        return [*rows, *(("note", note) for note in self.notes)]

    def _term_words(self, term: str) -> str:
        """Return the printed name of a coefficient: its column, and a category against the baseline category."""
        for name, categories in self.factors:
            for each in categories[1:]:
                if name in self.column_words and term == f"C({name})[T.{each}]":
                    return f"{self._with_units(name)}: {each}, not {categories[0]}"
        return self._with_units(term)

    def plot(self, ax: Any = None) -> Any:
        """Draw all coefficients except the intercept, with their confidence intervals."""
        names = [name for name in self.params if name != "Intercept"]
        known = [math.isfinite(self.low[name]) for name in names]
        ends = [(self.params[name] or 0.0, self.low[name], self.high[name]) for name in names]
        drawn = [of if there else (math.nan,) * 3 for of, there in zip(ends, known, strict=True)]
        labels = [
            self._term_words(name) + ": not known" * (not there) for name, there in zip(names, known, strict=True)
        ]
        outcome, event = self._event_words()
        what = f"{self._coefficient} for {self._with_units(outcome)}{event}"
        ax = forest(labels, drawn, what, ax, noise=[*map(self._noise_share, names)], confidence=self.confidence)
        ax.axvline(0, color="grey", lw=1, ls=":")
        return ax

    _coefficient: ClassVar[str] = "coefficient"
    _row_counts = ("nobs",)

    @property
    def _facts_in_frame(self) -> tuple[str, ...]:
        return (_COEFFICIENTS,)

    def _fit_text(self) -> str:
        """Return a phrase that states the goodness of fit."""
        raise NotImplementedError

    def _prediction_variance(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the variance of predictions for rows x of a design matrix; infinite for unknown coefficients."""
        known = np.where(np.isfinite(self.covariance), self.covariance, 0.0)
        lost = np.isinf(np.diag(self.covariance))
        variance: NDArray[np.float64] = np.einsum("ni,ij,nj->n", x, known, x)
        return np.where((x[:, lost] != 0).any(axis=1), np.inf, variance)

    def _coefficient_vector(self) -> NDArray[np.float64]:
        """Return the coefficients as one vector."""
        if any(value is None for value in self.params.values()):
            raise ArgumentError("This regression has no estimated coefficients.", self.notes[0])
        return np.array([*self.params.values()], dtype=np.float64)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class OLS(Regression):
    """Result of a private linear regression.

    `released` are the noisy sums of products of (1, x, y), numbers mapped from their bounds to [-1, 1].

    Attributes
    ----------
    rsquared, rsquared_low, rsquared_high : float or None
        The share of the outcome's variance that is explained, with its interval, for the population. Of sampling
        it holds the error for normal residuals.
    scale : float or None
        Variance of the residuals.
    robust : bool
        Whether the standard errors hold where residuals vary more in some rows than in others.
    """

    rsquared: float | None
    rsquared_low: float
    rsquared_high: float
    scale: float | None
    robust: bool

    def _fit_text(self) -> str:
        ends = f"({100 * self.confidence:.4g}% CI {self.rsquared_low:.3f} to {self.rsquared_high:.3f})"
        errors = "robust" if self.robust else "classical"
        return f"R-squared: {_format_or_none(self.rsquared, '.3f')} {ends}; {errors} errors"

    def estimator(self) -> ReleasedRegressor:
        """Return a scikit-learn regressor with these coefficients, for pipelines and scores on public rows.

        Returns
        -------
        ReleasedRegressor
            Fitted, for good: it predicts arrays, and ``fit`` changes nothing.
        """
        from dfprivacy_regression.estimator import ReleasedRegressor  # who wants one has scikit-learn

        return ReleasedRegressor(self.formula, self.names_of_regressors, self.linear_predictor)

    def predict(self, at: Mapping[str, Any]) -> Any:
        """Predict the mean outcome for given values of the regressors.

        Parameters
        ----------
        at : mapping of str to array_like, or DataFrame
            A value, or as many values as there are rows, for each regressor. Numbers count as clipped to their
            bounds.

        Returns
        -------
        DataFrame
            One row each, of the library that holds the table: the mean and its standard error, the interval of
            the mean (``mean_low``, ``mean_high``), and that of one row's outcome (``low``, ``high``), which takes
            the residuals for normal.

        Raises
        ------
        ArgumentError
            If a regressor is missing, or a category is unknown.
        """
        x = self._design_matrix(at)
        mean, variance = x @ self._coefficient_vector(), self._prediction_variance(x)
        z = float(stdtrit(max(self.nobs - x.shape[1], 1), (1 + self.confidence) / 2))
        error, of_new_rows = np.sqrt(variance), np.sqrt(variance + (self.scale or 0.0))
        columns = {
            "mean": mean,
            "standard_error": error,
            "mean_low": mean - z * error,
            "mean_high": mean + z * error,
        }
        columns |= {"low": mean - z * of_new_rows, "high": mean + z * of_new_rows}
        return self._table({name: values.tolist() for name, values in columns.items()})


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Logit(Regression):
    """Result of a private logistic regression.

    `released` is the noisy information, numbers mapped from their bounds to [-1, 1].

    Attributes
    ----------
    converged : bool
        Whether Newton's steps settled. If not, nothing is known: intervals have no ends, and p-values are 1.
    """

    converged: bool

    _coefficient = "coefficient (log-odds)"

    def _sentence(self) -> str:
        if self.converged:
            return super()._sentence()
        return f"The logistic regression of {self._outcome_words()[0]} did not converge."

    def _fit_text(self) -> str:
        return "coefficients are log-odds"

    def odds_ratios(self) -> dict[str, ConfidenceInterval]:
        """Return a confidence interval for each odds ratio, the exponential of a coefficient.

        Returns
        -------
        dict of str to ConfidenceInterval
            For a change of the regressor by 1, or for a category against the first; the intercept is left out.
        """
        names = [name for name in self.params if name != "Intercept"]
        with np.errstate(over="ignore"):
            return {
                name: ConfidenceInterval(float(np.exp(self.low[name])), float(np.exp(self.high[name])))
                for name in names
            }

    def estimator(self) -> ReleasedClassifier:
        """Return a scikit-learn classifier with these coefficients, for pipelines and scores on public rows.

        Returns
        -------
        ReleasedClassifier
            Fitted, for good: it predicts whether the event happens, and ``fit`` changes nothing.
        """
        from dfprivacy_regression.estimator import ReleasedClassifier  # who wants one has scikit-learn

        return ReleasedClassifier(self.formula, self.names_of_regressors, self.linear_predictor)

    def predict(self, at: Mapping[str, Any]) -> Any:
        """Predict the probability of the event for given values of the regressors.

        Parameters
        ----------
        at : mapping of str to array_like, or DataFrame
            A value, or as many values as there are rows, for each regressor. Numbers count as clipped to their
            bounds.

        Returns
        -------
        DataFrame
            One row each, of the library that holds the table: the probability and its interval (``low``, ``high``).

        Raises
        ------
        ArgumentError
            If a regressor is missing, or a category is unknown.
        """
        x = self._design_matrix(at)
        logits = x @ self._coefficient_vector()
        reach = float(ndtri((1 + self.confidence) / 2)) * np.sqrt(self._prediction_variance(x))
        ends = {"probability": logits, "low": logits - reach, "high": logits + reach}
        return self._table({name: expit(values).tolist() for name, values in ends.items()})


def _format_or_none(number: float | None, how: str = ".4g") -> str:
    """Return a formatted number, or "none" if the number is None."""
    return "none" if number is None else format(number, how)


def common_fields(
    known: DesignMoments,
    params: Numbers | None,
    covariance: Numbers,
    noise: Numbers,
    interval: tuple[Numbers, Numbers],
    pvalues: Numbers,
) -> dict[str, Any]:
    """Return the fields that all regression results have, from arrays in the order of the coefficients."""
    design = known.design
    errors, added = (np.sqrt(np.maximum(np.diag(each), 0.0)) for each in (covariance, noise))

    def named(values: Numbers | None) -> dict[str, Any]:
        given = [None] * design.width if values is None else values.tolist()
        return dict(zip(design.names, given, strict=True))

    return {
        "formula": design.formula(),
        "params": named(params),
        "bse": named(errors),
        "tvalues": named(None if params is None else params / np.maximum(errors, 1e-300)),
        "pvalues": named(pvalues),
        "low": named(interval[0]),
        "high": named(interval[1]),
        "noise_standard_errors": named(added),
        "covariance": covariance,
        "noise_covariance": noise,
        "regressors": tuple((column.name, column.low, column.high) for column in design.numbers),
        "factors": tuple((factor.name, factor.categories or ()) for factor in design.factors),
        "nobs": known.rows[0],
        "nobs_standard_error": known.rows[1],
        "weights": None if design.weights is None else design.weights.name,
        "covers": design.covered_population,
        "clipped": known.beyond_bounds[0],
        "formulas": {each.name: each.to_json() for each in design.columns if each.computed},
    }


def collinear_note(names: Sequence[str], direction: Numbers) -> str:
    """Return a note on regressors that noise may make collinear, from the eigenvector of the least eigenvalue."""
    far = np.abs(direction) > np.abs(direction).max() / 2
    blamed = [name for name, is_far in zip(names, far, strict=True) if is_far]
    return (
        f"{_MAY_MAKE}{', '.join(blamed)} collinear"
        f"{' with the constant' if len(blamed) == 1 else ''}. Use more rows, a larger epsilon, tighter bounds or "
        "fewer regressors."
    )
