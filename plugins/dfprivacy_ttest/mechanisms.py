"""The t-test and the z-test of a private table, and the class of their results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, NanPolicy, Probability, Range, features, mechanism
from dfprivacy.estimates import Estimate, inference_fields, measure_moments, measure_weighted, public_sizes
from dfprivacy.features import RowFeatures
from dfprivacy.inference.engine import Alternative, Inference, infer
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.inference.notes import noise_notes, notes
from dfprivacy.inference.weighted import NoisyWeighted, difference, mean
from dfprivacy.plotting import axes, legend_below, text_color
from dfprivacy.release import NoisyValue
from dfprivacy.schema import chosen_groups
from dfprivacy.wording import bounds_phrase, number, rows_phrase, uncertainty, with_unit
from dfprivacy_ttest.parameters import Method, Queries, classical_inference, mean_parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dfprivacy import Release
    from dfprivacy.estimates import Measured
    from dfprivacy.inference.engine import Parameter

__all__ = [
    "ColumnPower",
    "TTest",
    "check_ttest",
    "check_ztest",
    "noisy_moments",
    "ttest",
    "weighted_parameter",
    "ztest",
]

_COUNT_ERROR = 10.0  # with this error a number of rows is printed without decimals
_RELATION = {"two-sided": "different from", "greater": "above", "less": "below"}
_UNDEFINED = "Undefined: a noisy variance is not positive, so the test statistic of method='naive' does not exist."


@mechanism(columns={"column": "numeric", "by": "category", "weights": "numeric"})
def ttest(
    curator: Curator,
    column: Column,
    by: Column | None = None,
    *,
    weights: Column | None = None,
    groups: Sequence[Any] | None = None,
    queries: Queries = "jointly",
    nan_policy: NanPolicy = "omit",
) -> Measured | NoisyWeighted:
    """Test a mean, or the difference of the means of two groups.

    Parameters
    ----------
    column : str
        A column with bounds. What is tested is the mean of its values as clipped to them.
    by : str, optional
        A column with categories: compare two groups instead.
    weights : str, optional
        A column of sampling weights, with bounds from 0 or above: the means are those of the population that they
        stand for. Weights count as clipped to their bounds; rows without one are left out (docs/howto/weights.md).
    groups : list or tuple of two categories, optional
        The groups to compare, first minus second; default: the column's, if it has two.
    queries : {"jointly", "separately"}
        ``"jointly"``: the sums of y and y² are one measurement, in which the squares are free. ``"separately"``:
        each is a query of its own, as in the reference, with an equal part of ε; what is charged is the sum of
        these parts, and the mean gets half of ε, or a third where rows are counted.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: a row in which `column` is missing contributes nothing and is not counted. ``"fill"``: it
        counts, with the column's fill value. ``"raise"``: it is refused, where `column` is public.
    popmean : float
        Without `by`: the mean under the null hypothesis, within the bounds.
    equal_var : bool
        Pool the variances (Student) instead of keeping them apart (Welch).
    alternative : {"two-sided", "less", "greater"}
        Side of the null hypothesis on which the truth is suspected.
    method : {"conv", "naive"}
        ``"conv"``: the reference distribution is Student's t, convolved with the noise. ``"naive"``: the textbook
        test on noisy statistics, whose level is not the nominal one; for comparison.
    alpha : float
        The level at which `rejected` decides.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    TTest
        The result with scipy's names: ``statistic``, ``pvalue``, ``df``, ``confidence_interval()``.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. With y the
    column mapped from its bounds to [-1, 1], the sums of (y, (1-y²)/2, 1) over the rows that have a value, of all
    or of each group, are released with discrete Laplace noise scaled to their joint L1 sensitivity. It is 2 if
    the number of rows is public: squares and missing rows are free. If that is private, (y, 1-y², y²/2) take the
    place of these coordinates, and the sensitivity is 3/2 if rows come and go, 8/3 if they change, and 3 if one
    row can change its group. In the same vector
    are the numbers of rows below and above the bounds, of weight 1/16, which add 1/8 to it, or 1/16 if rows come
    and go. All else is post-processing. With ``queries="separately"`` the sums of y, of y² and, where it is
    private, of 1 have the sensitivities 2, 1 and 1, or 2 each if one row can change its group, and each gets pure
    (ε/2)- or (ε/3)-differential privacy. (The reference gives ε to each.)

    With weights, v being a weight over its upper bound, the sums of v(1+y)/2, v(1-y)/2 and of the products of these
    two numbers, of all rows or of each group, are released with noise of the cube, of sensitivity 1, or Laplace
    noise of sensitivity 3, or 3/2 if rows come and go (`dfprivacy.features.Weighted`). Before, with a thirty-second
    of ε, the rows beyond the bounds are counted.

    **Statistics.** For normal data the estimate is distributed as normal plus Laplace; p-values and intervals come
    from that convolution, averaged over what few rows and noise leave open about the variance. (The reference
    analyses the textbook test on noisy statistics, which is ``method="naive"`` here, with
    ``queries="separately"``.) Where the data could be so
    far from normal that the p-value would not hold, or the noise is most of the error, ``notes`` says so.
    Weighted means are Hájek's, with the variance of sampling with replacement, and Kish's effective numbers of rows
    give the degrees of freedom [2]_.

    References
    ----------
    .. [1] X. Tong, B. Xi, M. Kantarcioglu, A. Inan. Gaussian mixture models for classification and hypothesis
       tests under differential privacy. DBSec 2017.
    .. [2] Kish (1965). Survey sampling. Wiley.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"bmi": [22, 31, 27, 35] * 500, "smoker": ["no", "yes", "no", "yes"] * 500})
    >>> view = dp.protect(df, "ttest-example", epsilon=1, ledger="memory:",
    ...                   bounds={"bmi": (10, 60)}, categories={"smoker": ["yes", "no"]})
    >>> view.ttest("bmi", by="smoker", epsilon=0.5).pvalue < 0.01
    True
    """
    pair = chosen_groups(by, groups) or None
    if weights is not None:
        halves, keys = features.Moments(column, degree=1, count=True), [] if by is None else [by]
        return measure_weighted(curator, weights, halves, [column], nan_policy, by=keys, groups=pair)
    return _measure_sums(curator, column, nan_policy, by, pair, queries)


@ttest.concludes
def conclude_ttest(
    measured: Measured | NoisyWeighted,
    column: Column,
    *,
    by: Column | None,
    groups: Sequence[Any] | None,
    queries: Queries,
    popmean: float = 0.0,
    equal_var: bool = False,
    alternative: Alternative = "two-sided",
    method: Literal["conv", "naive"] = "conv",
    alpha: Probability = 0.05,
    confidence: Probability = 0.95,
    nan_policy: NanPolicy,
) -> TTest:
    """Compute the result of the t-test from the noisy sums, in the units of the column."""
    return ttest_result(
        measured if isinstance(measured, NoisyWeighted) else noisy_moments(measured, column, queries),
        column=column.name,
        bounds=(column.low, column.high),
        by=None if by is None else by.name,
        groups=chosen_groups(by, groups) or None,
        popmean=popmean,
        equal_var=equal_var,
        alternative=alternative,
        method="naive" if method == "naive" else "conv",
        alpha=alpha,
        confidence=confidence,
        queries=queries,
        nan_policy=nan_policy,
    )


def check_ttest(
    column: Column,
    *,
    by: Column | None,
    groups: Sequence[Any] | None,
    popmean: float,
    weights: Column | None = None,
    queries: Queries = "jointly",
    equal_var: bool = False,
    method: Method = "conv",
    **_: Any,
) -> None:
    """Check the arguments of a t-test before anything is charged."""
    if weights is not None and (equal_var or queries == "separately" or method == "naive"):
        raise ArgumentError(
            'weights= cannot be combined with equal_var=True, queries="separately" or method="naive".',
            "Omit those arguments, or omit weights=.",
        )
    if by is not None:
        if popmean != 0:
            raise ArgumentError(
                "popmean= and by= exclude each other.",
                "With by=, the means of two groups are compared: omit popmean=.",
            )
        if by.name == column.name:
            raise ArgumentError(f"by={by.name!r} is the tested column.", "Name the column of groups as by=.")
    else:
        _check_popmean(column, popmean)
    chosen_groups(by, groups)


@mechanism(columns={"column": "numeric"})
def ztest(curator: Curator, column: Column, *, nan_policy: NanPolicy = "omit") -> Measured:
    """Test a mean whose standard deviation is known from other sources.

    Parameters
    ----------
    column : str
        A column with bounds.
    nan_policy : {"omit", "fill", "raise"}
        As in `ttest`.
    popmean : float
        The mean under the null hypothesis, within the bounds.
    sigma : float
        The known standard deviation, in the column's units.
    alternative : {"two-sided", "less", "greater"}
        Side of the null hypothesis on which the truth is suspected.
    alpha : float
        The level at which `rejected` decides.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    TTest
        The result.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** As `ttest`: pure ε-differential privacy, by the same measurement.

    **Statistics.** For normal data with this standard deviation the p-value is exact; see `ttest` for the noise.

    References
    ----------
    .. [1] X. Tong, B. Xi, M. Kantarcioglu, A. Inan. Gaussian mixture models for classification and hypothesis
       tests under differential privacy. DBSec 2017.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"iq": [85, 100, 115, 100] * 500})
    >>> view = dp.protect(df, "ztest-example", epsilon=1, ledger="memory:", bounds={"iq": (40, 160)})
    >>> view.ztest("iq", popmean=110, sigma=15, epsilon=0.5).pvalue < 0.01
    True
    """
    return _measure_sums(curator, column, nan_policy)


@ztest.concludes
def conclude_ztest(
    measured: Measured,
    column: Column,
    *,
    popmean: float,
    sigma: Annotated[float, Range(0, exclusive="low")],
    alternative: Alternative = "two-sided",
    alpha: Probability = 0.05,
    confidence: Probability = 0.95,
    nan_policy: NanPolicy,
) -> TTest:
    """Compute the result of the z-test from the noisy sums, in the units of the column."""
    return ttest_result(
        noisy_moments(measured, column),
        column=column.name,
        bounds=(column.low, column.high),
        popmean=popmean,
        sigma=sigma,
        alternative=alternative,
        alpha=alpha,
        confidence=confidence,
        nan_policy=nan_policy,
    )


def check_ztest(column: Column, *, popmean: float, sigma: float, **_: Any) -> None:
    """Check the arguments of a z-test before anything is charged."""
    _check_popmean(column, popmean)
    if sigma > column.half:
        raise ArgumentError(
            f"sigma={sigma:g} is more than half the width of the bounds, {column.half:g}: values within the bounds "
            "have no larger standard deviation.",
            "Give a smaller sigma=, or declare wider bounds.",
        )


def _check_popmean(column: Column, popmean: float) -> None:
    if not column.low <= popmean <= column.high:
        raise ArgumentError(
            f"popmean={popmean:g} lies outside the bounds of {column.name!r}, {column.low:g} to {column.high:g}.",
            "The mean of clipped values lies within the bounds; choose another popmean=, or declare wider bounds.",
        )


def _measure_sums(
    curator: Curator,
    column: Column,
    nan_policy: NanPolicy,
    by: Column | None = None,
    pair: tuple[Any, ...] | None = None,
    queries: Queries = "jointly",
) -> Measured:
    """Measure noisy sums of y and y² over all rows or each group, and the numbers of rows if they are private.

    One by one, each with an equal part of epsilon, if the queries are to be separate: as the reference asks.
    """
    if queries == "jointly":
        return measure_moments(curator, column, nan_policy, by, pair)
    sizes = public_sizes(curator, by, pair)
    gaps = curator.gaps([column], nan_policy)
    count = [features.Count()] if sizes is None or gaps else []
    quantities: list[RowFeatures] = [ColumnPower(column, 1), ColumnPower(column, 2), *count]
    measured = []
    for quantity in quantities:
        of = features.Given(*gaps, of=quantity) if gaps else quantity
        asked = of if by is None else features.OneHot(by, groups=pair) * of
        measured.append(curator.sum(asked, share=Fraction(1, len(quantities))))
    values, scales = (
        np.concatenate(each, axis=-1) for each in zip(*((m.values, m.scales) for m in measured), strict=True)
    )
    return NoisyValue(values, scales, measured[0].noise, id=" ".join(each.id for each in measured)), sizes


class ColumnPower(RowFeatures):
    """Feature of a row: a column's value scaled from its bounds to y in [-1, 1], or y squared.

    Two values of y are 2 apart at most, two squares 1.

    Parameters
    ----------
    column : Column
        A column with bounds.
    exponent : {1, 2}
        1 for y, 2 for its square.
    """

    description = "a power of {columns}"
    shape = (1,)

    def __init__(self, column: Column, exponent: Literal[1, 2]) -> None:
        self.columns = (column,)
        self.exponent = exponent

    def rows(self, batch: Any) -> NDArray[np.float64]:
        """Return y, or y squared, for each row of a batch, shape (rows, 1)."""
        y: NDArray[np.float64] = np.array(batch.standardized(self.columns[0])).reshape(-1, 1)
        return y if self.exponent == 1 else y * y

    def radius(self, norm: float) -> float:  # noqa: ARG002 - a number has one length
        """Return 1, the largest absolute value of the feature."""
        return 1.0

    def diameter(self, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the largest distance of two rows' features: 2 for y, 1 for y squared, 0 for a public column."""
        return 0.0 if self.columns[0].name in public else 2.0 / self.exponent


def noisy_moments(measured: Measured, column: Column, queries: Queries = "jointly") -> NoisyMoments:
    """Return the noisy sums of each group as `NoisyMoments`."""
    return NoisyMoments.from_sums(*measured, column, apart=queries == "separately")


def ttest_result(
    sums: NoisyMoments | NoisyWeighted,
    *,
    bounds: tuple[float, float],
    sigma: float | None = None,
    method: Method = "conv",
    **asked: Any,
) -> TTest:
    """Compute a t-test or z-test from noisy sums, and return its result.

    Parameters
    ----------
    sums : NoisyMoments or NoisyWeighted
        Of one group, or two.
    bounds, sigma, method, **asked
        What was asked, as the attributes of `TTest`.

    Returns
    -------
    TTest
        The result.
    """
    groups, alternative = sums.values.shape[-2], asked["alternative"]
    found = _infer_parameter(sums, bounds, sigma=sigma, equal_var=asked.get("equal_var", False), method=method)
    null = asked["popmean"] if groups == 1 else 0.0
    told = inference_fields(found, null, alternative, asked["alpha"], asked["confidence"])
    away, error, p = told["estimate"] - null, told["standard_error"], told["pvalue"]
    about = _weighted_group_fields(sums, bounds) if isinstance(sums, NoisyWeighted) else _group_fields(sums, asked)
    if method == "naive":
        known: tuple[str, ...] = () if math.isfinite(p) else (_UNDEFINED,)
    elif isinstance(sums, NoisyWeighted):
        known = noise_notes(found, sums)
    else:
        known = notes(found, sums, p, asked["alpha"], alternative, normal=sigma is not None)
    about["notes"] += known
    return TTest(
        **asked | told | about,
        sigma=sigma,
        method=method,
        term="mean" if groups == 1 else "difference of means",
        statistic=away / error if error else math.copysign(math.inf, away),
        df=float(found.degrees_of_freedom),
        released=sums.released,
        bounds=bounds,
    )


def _group_fields(sums: NoisyMoments, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result's fields on its groups: means, sizes, missing rows, notes, and shares beyond the bounds."""
    missing, missing_standard_error = sums.missing or (None, None)
    return {
        "n": float(sums.size.sum()),
        "means": tuple(sums.estimate.mean[:, 0].tolist()),
        "sizes": tuple(sums.size.tolist()),
        "missing": missing,
        "missing_standard_error": missing_standard_error,
        "notes": sums.limits(asked.get("groups") or (), "mean"),
        "clipped": sums.shares,
    }


def _weighted_group_fields(sums: NoisyWeighted, bounds: tuple[float, float]) -> dict[str, Any]:
    """Return a weighted result's fields on its groups: weighted means, effective sizes and notes."""
    means, _, df = mean(sums.estimate, bounds)
    return {
        "n": sums.rows,
        "means": tuple(means[:, 0].tolist()),
        "sizes": tuple((df[:, 0] + 1).tolist()),
        "missing": None,
        "missing_standard_error": None,
        "notes": sums.limits,
        "clipped": None,
        "weights": sums.weights,
    }


def _infer_parameter(
    sums: NoisyMoments | NoisyWeighted,
    bounds: tuple[float, float],
    *,
    sigma: float | None,
    equal_var: bool,
    method: Method,
) -> Inference:
    if isinstance(sums, NoisyWeighted):
        return infer(sums, weighted_parameter(len(sums.values), bounds))
    tested = mean_parameter(sums.values.shape[-2], sigma=sigma, equal_var=equal_var)
    return classical_inference(sums, tested) if method == "naive" else infer(sums, tested)


def weighted_parameter(groups: int, bounds: tuple[float, float]) -> Parameter:
    """Return a function of weighted sums: a weighted mean, or the difference of two, and its sampling variance."""
    if groups == 1:
        return lambda sums: mean(sums[0], bounds)
    return lambda sums: difference(sums[0], sums[1], bounds)


@dataclass(frozen=True, kw_only=True, repr=False)
class TTest(Estimate):
    """Result of a private t-test or z-test, as `dfprivacy.estimates.Estimate`, in the units of the column.

    Attributes
    ----------
    statistic : float
        (estimate - null) / standard_error.
    df : float
        Degrees of freedom of the variance; infinity for z-tests.
    means : tuple of float
        The noisy mean of each group.
    sizes : tuple of float
        Rows with a value in each group; noisy where their number is private. With weights the effective number of
        rows of each group (Kish): as many with equal weights would tell as much.
    missing : float or None
        Noisy number of rows that were left out because their value is missing. None if nothing was left out, or
        if the number of rows is private: then what is measured of them does not tell it.
    missing_standard_error : float or None
        Standard error of `missing`, from noise alone.
    weights : str or None
        The column of sampling weights; the means are then those of the population that they stand for.
    by, groups, popmean, sigma, equal_var, method, queries
        What was asked.
    """

    statistic: float
    pvalue: float
    rejected: bool
    df: float
    means: tuple[float, ...]
    sizes: tuple[float, ...]
    missing: float | None
    missing_standard_error: float | None
    weights: str | None = None
    by: str | None = None
    groups: tuple[Any, ...] | None = None
    popmean: float
    sigma: float | None
    equal_var: bool = False
    method: Method
    queries: Queries = "jointly"

    _row_counts = ("n", "sizes")

    def _parts(self) -> list[tuple[dict[str, Any], Release]]:
        """Return each group's label, with a copy of the result that has only the noisy sums of this group."""
        if self.groups is None or self.queries == "separately" or self.weights is not None:
            return super()._parts()
        sums = NoisyMoments.from_release(self.released, self.bounds)
        return [
            ({self.by or "": group}, replace(self, released=sums[at].released))
            for at, group in enumerate(self.groups)
        ]

    def _replicates(self) -> Mapping[str, Any]:
        """Return the estimate and the group means under random draws of the noise."""
        if self.weights is not None:
            weighted = NoisyWeighted.from_release(self.released)
            drawn, parameter = weighted.replicates, weighted_parameter(len(weighted.values), self.bounds)
            return {"estimate": parameter(drawn)[0], "means": tuple(mean(drawn, self.bounds)[0])}
        sums = NoisyMoments.from_release(self.released, self.bounds).replicates
        tested = mean_parameter(sums.values.shape[-2], sigma=self.sigma, equal_var=self.equal_var)
        return {
            "estimate": tested(sums.estimate)[0][..., 0],
            "means": tuple(sums.estimate.mean[..., 0].T),
        }

    _shown = (
        *("statistic", "pvalue", "alpha", "rejected", "df", "estimate", "low", "high", "standard_error"),
        *("noise_standard_error", "means", "sizes", "missing", "missing_standard_error", "notes"),
    )

    def _rows(self) -> list[tuple[str, str]]:
        """Return the rows of the printed table, with each mean and size labelled by its group."""
        rows = dict(super()._rows())
        if self.weights is not None:
            rows["weights"] = f"{self.weights}; rows without a weight are omitted; sizes are effective sample sizes"
        if self.groups is None:
            del rows["means"]  # it is the estimate
        else:
            for name, error in (("means", self.standard_error), ("sizes", _COUNT_ERROR)):
                each = (f"{g}: {number(x, error)}" for g, x in zip(self.groups, getattr(self, name), strict=True))
                rows[name] = ", ".join(each)
        return list(rows.items())

    def _sentence(self) -> str:
        """Write a sentence with the mean, or the difference of two means, and the result of the test."""
        unit, error = self._unit(self.column), (self.high - self.low) / 4
        whose = rows_phrase(self.covers or "", self.weights)
        how = uncertainty(
            self.low, self.high, self.confidence, unit=unit, whose=whose, noise=self._noise_part, p=self.pvalue
        )
        weighted = "" if self.weights is None else "weighted "
        what = f"{weighted}mean {self._label(self.column)}{bounds_phrase(self.covers, self.bounds)}"
        if self.groups is None or self.by is None:
            found = "" if self.rejected else "not "
            said = with_unit(number(self.estimate, error), unit)
            return f"The {what} is {said}, {found}shown to be {_RELATION[self.alternative]} {self.popmean:g}{how}."
        first, second = (f"{self._label(self.by)} = {group}" for group in self.groups)
        apart = with_unit(number(abs(self.estimate), error), unit)
        if self.rejected:
            more = "lower" if self.estimate < 0 else "higher"
            return f"The {what} is {apart} {more} for {first} than for {second}{how}."
        told = with_unit(number(self.estimate, error), unit)
        side = _RELATION[self.alternative]
        return f"The {what} for {first} is not shown to be {side} that for {second}; the difference is {told}{how}."

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the mean, or the difference of two means, and its test as a row of a tidy table."""
        apart = "" if self.groups is None else f": {self.groups[0]} - {self.groups[1]}"
        names = ("estimate", "standard_error", "noise_standard_error", "low", "high", "statistic", "df", "pvalue")
        numbers = {name: getattr(self, name) for name in names}
        return [{"term": f"{self.column}{apart}", **numbers, "n": self.n}]

    @property
    def _noise_part(self) -> float | None:
        return None if self.method == "naive" else super()._noise_part

    @property
    def _axis_label(self) -> str:
        """Label of the plot's horizontal axis: the column, or the difference of the two groups."""
        what = self._with_units(self.column)
        if self.groups is None or self.by is None:
            return what
        return f"{what}: {self._with_units(self.by)} {self.groups[0]} minus {self.groups[1]}"

    def _interval(self, level: float) -> tuple[Any, Any]:
        if self.weights is None:
            sums: NoisyMoments | NoisyWeighted = NoisyMoments.from_release(self.released, self.bounds)
        else:
            sums = NoisyWeighted.from_release(self.released)
        found = _infer_parameter(sums, self.bounds, sigma=self.sigma, equal_var=self.equal_var, method=self.method)
        return found.interval(level, self.alternative)

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimate, its interval, and the part of the interval that is due to privacy noise."""
        ax = axes(ax)
        low, high = self.bounds
        reach = (low, high) if self.by is None else (low - high, high - low)  # what an estimate can be at all
        ends = np.clip([self.low, self.high], *reach)
        sampling = self.standard_error
        if self.method != "naive":
            sampling = math.sqrt(max(0.0, sampling**2 - self.noise_standard_error**2))
            ax.plot(ends, [0, 0], color="tab:orange", lw=3, label=f"{self.confidence:.0%} interval, noise included")
        inner = self.estimate + (ends - self.estimate) * (sampling / self.standard_error)
        ax.plot(inner, [0, 0], color="tab:blue", lw=7, solid_capstyle="butt", label="of it from sampling")
        ax.plot(self.estimate, 0, "o", color=text_color(ax), label="estimate")
        ax.axvline(0.0 if self.by is not None else self.popmean, color="grey", ls=":", label="null hypothesis")
        ax.set(yticks=[], xlabel=self._axis_label, title=f"p = {self.pvalue:.3g}")
        legend_below(ax)
        return ax
