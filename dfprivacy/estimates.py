"""Mechanisms for a statistic of one column, defined by a function that computes an estimate from moments."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from dfprivacy import features
from dfprivacy.arguments import NanPolicy, Probability, Range
from dfprivacy.errors import ArgumentError
from dfprivacy.inference.clipped import SHARE, WEIGHT
from dfprivacy.laws import NoiseLaw
from dfprivacy.mechanism import Mechanism, mechanism
from dfprivacy.plotting import axes, draw_interval, interval_legend, text_color
from dfprivacy.release import ConfidenceInterval, Release
from dfprivacy.schema import SPREAD, Column, as_probability
from dfprivacy.wording import bounds_phrase, noise_share, number, uncertainty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from dfprivacy._measure.curator import Curator
    from dfprivacy.inference.engine import Inference
    from dfprivacy.inference.moments import Moments, NoisyMoments
    from dfprivacy.inference.weighted import NoisyWeighted
    from dfprivacy.release import NoisyValue

    Measured = tuple[NoisyValue, NDArray[np.float64] | None]
    """Noisy sums, and the rows of each group where their number is public."""

__all__ = [
    "Estimate",
    "check_squares",
    "inference_fields",
    "measure_beyond",
    "measure_moments",
    "measure_weighted",
    "public_sizes",
    "statistic",
]

_TABLES = 256
_GUARANTEE = """

Parameters
----------
column : str
    A column with bounds.
nan_policy : {"omit", "fill", "raise"}
    Policy for missing values: leave the rows out, use the column's fill value, or raise an error.
alternative : {"two-sided", "less", "greater"}
    Alternative hypothesis: different from, below, or above the null value.
alpha : float
    Level of the test.
confidence : float
    Coverage of the interval.

Returns
-------
Estimate
    The estimate, its errors, its interval, and its p-value if there is a null hypothesis.

Notes
-----
**Privacy.** Pure ε-differential privacy: the sums of a number and of its square, and the rows where their number is
private, and the numbers of rows beyond the bounds are released with discrete Laplace noise
(`dfprivacy.features.Moments`, `dfprivacy.features.Beyond`). All else is post-processing.
"""


def check_squares(column: Column) -> None:
    """Raise an error if squares of a column's values, or variances of squares, may overflow within its bounds.

    Raises
    ------
    ArgumentError
        If they may be infinite.
    """
    square = column.half * column.half
    if math.isinf(square * square):
        raise ArgumentError(
            f"Squares of {column.name!r} are too large for float64 within its bounds.",
            "Declare narrower bounds, or store the column in a larger unit of measurement.",
        )


def measure_moments(
    curator: Curator,
    column: Column,
    nan_policy: NanPolicy,
    by: Column | None = None,
    groups: tuple[Any, ...] | None = None,
) -> Measured:
    """Measure the noisy sums of a column and of its squares, over all rows or in each group.

    Parameters
    ----------
    curator : Curator
        Measures.
    column : Column
        A column with bounds.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value.
    by : Column, optional
        The column of the groups.
    groups : tuple, optional
        Which groups; default: all categories.

    Returns
    -------
    tuple
        The noisy sums, and the numbers of rows of the groups, None where these are private: what
        `dfprivacy.inference.moments.NoisyMoments.from_sums` takes.

    Raises
    ------
    ArgumentError
        If squares of the values may be too large, or a group whose number of rows is public has fewer than two;
        nothing is charged.
    """
    check_squares(column)
    sizes = public_sizes(curator, by, groups)
    gaps = curator.gaps([column], nan_policy)
    return curator.sum(_features_to_sum(column, gaps, sizes is None, by, groups)), sizes


def measure_beyond(
    curator: Curator,
    columns: Sequence[Column],
    gaps: Sequence[Column] = (),
    share: Fraction = SHARE,
    *,
    counted: bool = False,
) -> tuple[NoisyValue, ...]:
    """Measure the noisy numbers of rows with values beyond the bounds of each column, with K-norm (cube) noise.

    A sum of its own: in the vector of other sums with such noise, each coordinate would widen it as any other does.

    Parameters
    ----------
    curator : Curator
        Measures.
    columns : sequence of Column
        Columns with bounds; of none nothing is measured.
    gaps : sequence of Column
        Columns in which a row must have a value.
    share : Fraction
        The part of the call's budget.
    counted : bool
        Whether to count the complete rows as well.

    Returns
    -------
    tuple of NoisyValue
        For each column the numbers of rows below and above its bounds, and then the number of rows if `counted`,
        as `dfprivacy.inference.clipped.shares_beyond_bounds` takes them.
    """
    if not columns:
        return ()
    more = [features.Count()] if counted else []
    of: features.RowFeatures = features.Stack(*map(features.Beyond, columns), *more)
    return curator.sum(features.Given(*gaps, of=of) if gaps else of, noise="cube", share=share).parts


def measure_weighted(
    curator: Curator,
    weights: Column,
    of: features.RowFeatures,
    numbers: Sequence[Column] = (),
    nan_policy: NanPolicy = "omit",
    *,
    by: Sequence[Column] = (),
    groups: tuple[Any, ...] | None = None,
    crossed: bool = True,
    noise: Literal["any", "laplace"] = "any",
) -> NoisyWeighted:
    """Measure noisy sums of features times sampling weights, over all rows or in each group.

    Rows beyond the bounds of the numbers and the weights are counted first, with a thirty-second of the budget, and
    all rows with them where some may be left out or their number is private. The noise is that of the cube or
    Laplace noise, as has the smaller variance.

    Parameters
    ----------
    curator : Curator
        Measures.
    weights : Column
        A column of sampling weights, with bounds that are not negative. Rows without a weight are left out.
    of : RowFeatures
        What is weighted, as `dfprivacy.features.Weighted` takes it.
    numbers : sequence of Column
        The columns with bounds in it.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without one of these numbers.
    by : sequence of Column
        The columns of the groups, or of cells.
    groups : tuple, optional
        Which groups, of one column; default: all categories.
    crossed : bool
        As for `dfprivacy.features.Weighted`.
    noise : {"any", "laplace"}
        ``"laplace"``: never that of the cube.

    Returns
    -------
    NoisyWeighted
        The noisy sums, from which `dfprivacy.inference.weighted` computes estimates.

    Raises
    ------
    ArgumentError
        If the weights may be negative or can only be 0, or are a column of values; nothing is charged.
    """
    from dfprivacy.inference.weighted import NoisyWeighted

    checked = features.Weighted(weights, of)
    gaps = (
        *curator.gaps(numbers, nan_policy),
        *curator.gaps([weights], "omit" if nan_policy == "fill" else nan_policy),
    )

    def weighted_features(square: float) -> features.RowFeatures:
        inner: features.RowFeatures = features.Weighted(weights, of, square=square, crossed=crossed)
        inner = features.Given(*gaps, of=inner) if gaps else inner
        kept = {by[0].name: groups} if by and groups else None
        return features.OneHot(*by, groups=kept, of=inner) if by else inner

    cube, laplace = weighted_features(1.0), weighted_features(0.5)
    widest = [
        each.sensitivity(curator.neighbors, norm, frozenset()) for each, norm in ((cube, math.inf), (laplace, 1))
    ]
    laws = NoiseLaw(widest[0], kind="cube", dimension=cube.dimension), NoiseLaw(widest[1])
    columns = tuple(dict.fromkeys((*numbers, weights)))
    beyond = measure_beyond(curator, columns, gaps, counted=bool(gaps) or curator.size is None)
    best = noise == "any" and laws[0].variance <= laws[1].variance
    noisy = curator.sum(cube, noise="cube") if best else curator.sum(laplace)
    return NoisyWeighted.from_sums(noisy, weights, checked.of.dimension, curator.size, beyond, *columns)


def public_sizes(curator: Curator, by: Column | None, groups: tuple[Any, ...] | None) -> NDArray[np.float64] | None:
    """Return the number of rows of each group, None if private; raise an error if a group has fewer than 2 rows."""
    if by is not None:
        return curator.sizes(by, groups, least=2)
    size = curator.size
    if size is not None and size < 2:  # noqa: PLR2004
        raise ArgumentError(f"The table has {size} rows, and at least 2 are needed.", "Select more rows.")
    return None if size is None else np.array([float(size)])


def _features_to_sum(
    column: Column,
    gaps: tuple[Column, ...],
    unknown: bool,  # noqa: FBT001
    by: Column | None,
    groups: tuple[Any, ...] | None,
) -> features.RowFeatures:
    """Return the features of a column to sum; they count rows too if the numbers of rows are private."""
    of: features.RowFeatures = features.Moments(column, count=unknown)
    if gaps:
        of = features.Given(*gaps, of=features.Moments(column, count=True if unknown else "beside"))
    of = features.Stack(of, features.Beyond(column, weight=WEIGHT))
    return of if by is None else features.OneHot(by, groups=groups) * of


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate(Release):
    """Estimate of a statistic of one column, with its standard errors, confidence interval and test.

    Attributes
    ----------
    term : str
        Names the parameter.
    estimate : float
        The estimate.
    standard_error : float
        Its standard error, from sampling and noise together.
    noise_standard_error : float
        The standard error that privacy adds.
    low, high : float
        Ends of the confidence interval, which is one-sided where the test is.
    confidence : float
        Its coverage.
    null : float or None
        The null hypothesis.
    pvalue : float or None
        Probability, if the null hypothesis is true, of an estimate at least as far from it; noise included.
    alternative, alpha
        As asked.
    rejected : bool or None
        Whether the null hypothesis is rejected at the level alpha.
    n : float
        Rows with a value; noisy where their number is private.
    column : str
        The column.
    bounds : tuple of float
        Its bounds.
    nan_policy : str
        As asked.
    notes : tuple of str
        Reservations about the numbers.
    clipped : tuple or None
        The shares of the rows below and above the bounds, with the ends of their 95 % intervals: ``((share, low,
        high), (share, low, high))``; of a test, for each group. None where they were not measured.
    released : mapping
        The noisy sums that all this follows from.
    """

    term: str
    estimate: float
    standard_error: float
    noise_standard_error: float
    low: float
    high: float
    confidence: float
    null: float | None
    pvalue: float | None
    alternative: Literal["two-sided", "less", "greater"]
    alpha: float
    rejected: bool | None
    n: float
    column: str
    bounds: tuple[float, float]
    nan_policy: NanPolicy
    notes: tuple[str, ...]
    released: Mapping[str, Any] = field(compare=False)
    clipped: tuple[Any, ...] | None = None
    covers: str | None = "limited population"

    _row_counts: ClassVar[tuple[str, ...]] = ("n",)

    def _replicates(self) -> Mapping[str, Any]:
        """Return the estimate recomputed for each draw of the noise."""
        from dfprivacy.inference.moments import NoisyMoments

        sums = NoisyMoments.from_release(self.released, self.bounds).replicates
        return {"estimate": _FUNCTIONS[self.term](sums.estimate[0])[0][..., 0]}

    @property
    def _shown(self) -> tuple[str, ...]:  # type: ignore[override]
        tested = () if self.pvalue is None else ("pvalue", "alpha", "rejected")
        return ("estimate", "low", "high", "standard_error", "noise_standard_error", *tested, "n", "notes")

    @property
    def _sampling_error(self) -> float:
        return math.sqrt(max(self.standard_error**2 - self.noise_standard_error**2, 0.0))

    @property
    def _noise_part(self) -> float | None:
        return noise_share(self.standard_error, self._sampling_error) or 0.0

    def _tidy(self) -> list[dict[str, Any]]:
        names = ("estimate", "standard_error", "noise_standard_error", "low", "high", "pvalue", "n")
        return [{"term": f"{self.term}({self.column})", **{name: getattr(self, name) for name in names}}]

    def _sentence(self) -> str:
        """Return the estimate and the result of its test as a sentence."""
        of = f"The {self.term} of {self._label(self.column)}{bounds_phrase(self.covers, self.bounds)}"
        how = uncertainty(self.low, self.high, self.confidence, noise=self._noise_part, p=self.pvalue)
        found = ""
        if self.null is not None:
            side = {"two-sided": "different from", "greater": "above", "less": "below"}[self.alternative]
            found = f", {'' if self.rejected else 'not '}shown to be {side} {self.null:g}"
        return f"{of} is {number(self.estimate, self.standard_error)}{found}{how}."

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimate, its interval, and the part of the interval that is privacy noise."""
        ax = axes(ax)
        draw_interval(ax, 0, self.estimate, (self.low, self.high), noise=self._noise_part)
        ax.plot(self.estimate, 0, "o", color=text_color(ax))
        if self.null is not None:
            ax.axvline(self.null, color="grey", ls=":")
        ax.set(yticks=[], xlabel=f"{self.term} of {self._with_units(self.column)}")
        interval_legend(ax, self.confidence, [self._noise_part], "o")
        return ax

    def confidence_interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Return the confidence interval at another level, at no charge.

        Parameters
        ----------
        confidence_level : float, optional
            Coverage; default: the one asked for.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``.

        Raises
        ------
        ArgumentError
            If the level is no probability, or the statistic is not known to this process.
        """
        if confidence_level is None:
            return ConfidenceInterval(self.low, self.high)
        level = as_probability(confidence_level, "confidence_level")
        return ConfidenceInterval(*map(float, self._interval(level)))

    def _interval(self, level: float) -> tuple[Any, Any]:
        """Compute the confidence interval at a level from the released sums."""
        from dfprivacy.inference.moments import NoisyMoments

        if self.term not in _FUNCTIONS:
            raise ArgumentError(
                f"No statistic {self.term!r} is defined in this process.",
                "Define the statistic with dfprivacy.statistic, as it was when the question was asked.",
            )
        found = _infer_statistic(NoisyMoments.from_release(self.released, self.bounds), _FUNCTIONS[self.term])
        return found.interval(level, self.alternative)


def inference_fields(
    found: Inference,
    null: float | None,
    alternative: Literal["two-sided", "less", "greater"],
    alpha: float,
    confidence: float,
) -> dict[str, Any]:
    """Return the fields of an `Estimate` that follow from the inference about one parameter.

    Parameters
    ----------
    found : Inference
        The inference: the estimate, its errors, and functions for its interval and its p-value.
    null, alternative, alpha, confidence
        As for `Estimate`.

    Returns
    -------
    dict of str to object
        Fields by name: the estimate, its errors, its interval and its test.
    """
    low, high = found.interval(confidence, alternative)
    p = None if null is None else float(found.pvalue(null, alternative))
    return {
        "estimate": float(found.estimate),
        "standard_error": float(found.standard_error),
        "noise_standard_error": float(found.noise_standard_error),
        "low": float(low),
        "high": float(high),
        "confidence": confidence,
        "null": null,
        "pvalue": p,
        "alternative": alternative,
        "alpha": alpha,
        "rejected": None if p is None else p <= alpha,
    }


_FUNCTIONS: dict[str, Callable[[Moments], tuple[Any, Any]]] = {}


def statistic(
    *, null: float | None = None, name: str | None = None
) -> Callable[[Callable[[Moments], tuple[Any, Any]]], Mechanism]:
    """Return a decorator that makes a mechanism from a function of the moments of a column.

    The mechanism has an estimate, an interval, a p-value, free answers to what follows from the same sums,
    ``explain``, ``plan``, ``power``, groups, notes, a picture, and rows for tables.

    Parameters
    ----------
    null : float, optional
        The null hypothesis of its test; default: it has none.
    name : str, optional
        Its name as a method; default: the function's.

    Returns
    -------
    callable
        What makes a `Mechanism` of a function ``f(s) -> (estimate, variance)``: of `s`, the
        `~dfprivacy.inference.moments.Moments` of the column (``s.n``, ``s.mean``, ``s.variance``, ``s.sd``:
        arrays, in its units), the estimate, and the variance that the sampling of rows gives it. The first line of
        its docstring says what it estimates.

    Examples
    --------
    >>> import dfprivacy as dp, pandas as pd
    >>> @dp.register_mechanism
    ... @dp.statistic(null=1.0)
    ... def relative_spread(s):
    ...     "Estimate the coefficient of variation."
    ...     cv = s.sd / s.mean
    ...     return cv, cv**2 * (0.5 + cv**2) / s.n
    >>> df = pd.DataFrame({"wage": [12, 30, 18, 24] * 5000})
    >>> view = dp.protect(df, "statistic-example", epsilon=1, bounds={"wage": (0, 60)}, ledger="memory:")
    >>> found = view.relative_spread("wage", epsilon=0.5)
    >>> found.rejected, abs(found.estimate - 0.32) < 0.1
    (True, True)
    """

    def make_mechanism(function: Callable[[Moments], tuple[Any, Any]]) -> Mechanism:
        about = inspect.getdoc(function) or f"Estimate {function.__name__}."
        called = name or function.__name__
        _FUNCTIONS[called.replace("_", " ")] = function

        def measure(curator: Curator, column: Column, *, nan_policy: NanPolicy = "omit") -> Measured:
            return measure_moments(curator, column, nan_policy)

        measure.__doc__ = about + _GUARANTEE
        made = mechanism(name=called, columns={"column": "numeric"})(measure)

        @made.concludes
        def conclude(
            measured: Measured,
            column: Column,
            *,
            alternative: Literal["two-sided", "less", "greater"] = "two-sided",
            alpha: Probability = 0.05,
            confidence: Probability = 0.95,
            nan_policy: NanPolicy,
        ) -> Estimate:
            from dfprivacy.inference.moments import NoisyMoments
            from dfprivacy.inference.notes import noise_notes

            sums = NoisyMoments.from_sums(*measured, column)
            found = _infer_statistic(sums, function)
            return Estimate(
                **inference_fields(found, null, alternative, alpha, confidence),
                term=called.replace("_", " "),
                n=float(sums.size[0]),
                column=column.name,
                bounds=(column.low, column.high),
                nan_policy=nan_policy,
                notes=(*sums.limits(), *noise_notes(found, sums)),
                clipped=sums.shares and sums.shares[0],
                released=sums.released,
            )

        def expected_errors(curator: Curator, column: Column, **_: Any) -> Mapping[str, Any]:
            from dfprivacy.inference.moments import NoisyMoments

            sd = 2 * column.half * SPREAD
            rows, given = curator.supposed_size
            given = given and f", if {given}"
            error = f"expected standard error of the {called.replace('_', ' ')} from noise"
            noisy, sizes = curator.planned
            sums = NoisyMoments.from_sums(noisy, sizes, column)
            releases = sums.simulate([max(rows, 2)], [column.mid], [sd], _TABLES)
            found = _infer_statistic(releases, function)
            noise = float(np.median(found.noise_standard_error))
            size = abs(float(np.median(found.estimate)))
            return {
                f"{error}{given}": noise,
                f"{error} and sampling{given}": float(np.median(found.standard_error)),
                **({"expected relative error": noise / size} if size else {}),
            }

        def draw_normal_rows(
            rng: np.random.Generator,
            n: int,
            column: Column,
            *,
            mean: float | None = None,
            spread: Annotated[float, Range(1e-12, 1e300)] | None = None,
        ) -> Mapping[str, Any]:
            """Draw normal values around the middle of the bounds, or around a mean."""
            sd = 2 * column.half * SPREAD if spread is None else spread
            return {column.name: (column.mid if mean is None else mean) + sd * rng.normal(size=n)}

        return made.plans(expected_errors).assumes(draw_normal_rows, lambda answer: bool(answer.rejected))

    return make_mechanism


def _infer_statistic(sums: NoisyMoments, function: Callable[[Moments], tuple[Any, Any]]) -> Inference:
    from dfprivacy.inference.engine import infer

    def parameter(moments: Moments) -> tuple[Any, Any, Any]:
        group = moments[0]
        estimate, variance = function(group)
        return estimate, np.maximum(variance, 0.0), group.n - 1

    return infer(sums, parameter)
