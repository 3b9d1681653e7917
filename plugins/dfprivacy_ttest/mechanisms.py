"""The t-test and the z-test of a private table."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from dfprivacy import ArgumentError, ConfidenceInterval, Release, features, mechanism
from dfprivacy.plotting import axes
from dfprivacy.schema import as_number, as_probability
from dfprivacy_ttest.calibrated import (
    Alternative,
    Group,
    Method,
    Result,
    one_sample_t,
    one_sample_z,
    two_sample_t,
)
from dfprivacy_ttest.planning import minimum_detectable_effect, sample_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator
    from dfprivacy.release import NoisyValue

    Measured = tuple[NoisyValue, NDArray[np.float64] | None]
    """Noisy sums, and the rows of each group where they are public."""

__all__ = ["TTest", "t_asked", "ttest", "z_asked", "ztest"]


@dataclass(frozen=True, kw_only=True, repr=False)
class TTest(Release):
    """Result of a private t-test or z-test, in the units of the column.

    Attributes
    ----------
    statistic : float
        (estimate - null) / standard_error.
    pvalue : float
        Probability, if the null hypothesis is true, of a statistic at least as extreme; noise included.
    df : float
        Degrees of freedom; infinity where the reference is the normal distribution plus the noise.
    estimate : float
        The noisy mean, or the first mean minus the second.
    standard_error : float
        Standard error of the estimate, from sampling and noise together (``"naive"``: from sampling alone).
    noise_standard_error : float
        The standard error that privacy adds.
    means : tuple of float
        The noisy mean of each group.
    sizes : tuple of float
        Rows in each group; noisy where the size is private.
    low, high : float
        Ends of the confidence interval.
    confidence : float
        Its coverage.
    column, by, groups, popmean, sigma, equal_var, alternative, method
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers; an uninformative answer says so here.
    released : tuple of tuples of float
        What all this follows from: for each group the noisy sums of y and y² (y is the column mapped from its
        bounds to [-1, 1]), the rows, the scales of the noise in the two sums, and the variance of the noise in
        the rows.
    bounds : tuple of float
        The column's bounds.
    """

    statistic: float
    pvalue: float
    df: float
    estimate: float
    standard_error: float
    noise_standard_error: float
    means: tuple[float, ...]
    sizes: tuple[float, ...]
    low: float
    high: float
    confidence: float
    column: str
    by: str | None
    groups: tuple[Any, ...] | None
    popmean: float
    sigma: float | None
    equal_var: bool
    alternative: Alternative
    method: Method
    notes: tuple[str, ...]
    released: tuple[tuple[float, ...], ...]
    bounds: tuple[float, float]

    _shown = (
        *("statistic", "pvalue", "df", "estimate", "low", "high"),
        *("standard_error", "noise_standard_error", "sizes", "notes"),
    )

    def confidence_interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Interval for the mean, or for the difference of means.

        Parameters
        ----------
        confidence_level : float, optional
            Coverage; default: the one asked for. Any other costs nothing: it is computed from what is released.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``, in the column's units.
        """
        if confidence_level is None:
            return ConfidenceInterval(self.low, self.high)
        asked = _Asked(**{field.name: getattr(self, field.name) for field in fields(_Asked)})
        return asked.interval(asked.test([Group(*numbers) for numbers in self.released]), confidence_level)

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimate, its interval, and the part of the interval that privacy adds.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
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
        ax.plot(self.estimate, 0, "o", color="black", label="estimate")
        ax.axvline(0.0 if self.by is not None else self.popmean, color="grey", ls=":", label="null hypothesis")
        what = self.column
        if self.groups is not None:
            what += f": {self.by} {self.groups[0]} minus {self.groups[1]}"
        ax.set(yticks=[], xlabel=what, title=f"p = {self.pvalue:.3g}")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=2, fontsize="small", frameon=False)
        return ax


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What is tested, in the column's units; `TTest` has the same fields."""

    column: str
    bounds: tuple[float, float]
    by: str | None = None
    groups: tuple[Any, ...] | None = None
    popmean: float = 0.0
    sigma: float | None = None
    equal_var: bool = False
    alternative: Alternative
    method: Method = "conv"
    confidence: float

    def __post_init__(self) -> None:
        low, high = self.bounds
        if self.by is None and not low <= self.popmean <= high:
            raise ArgumentError(
                f"popmean={self.popmean:g} lies outside the bounds of {self.column!r}, {low:g} to {high:g}.",
                "A mean of clipped values cannot be there; choose another null hypothesis, or wider bounds.",
            )
        if self.by == self.column:
            raise ArgumentError(f"by={self.by!r} is the column that is tested.", "Name the column of the groups.")
        if self.sigma is not None and not 0 < self.sigma <= self.half:
            raise ArgumentError(
                f"sigma={self.sigma:g} must be positive, and at most half the width of the bounds, {self.half:g}: "
                "values between them cannot vary more.",
                "Give the known standard deviation, or wider bounds.",
            )
        if not isinstance(self.equal_var, bool | np.bool_):
            raise ArgumentError("equal_var is neither True nor False.", "Use equal_var=True to pool the variances.")
        if self.alternative not in get_args(Alternative):
            raise ArgumentError(
                f"alternative={self.alternative!r} is unknown.", f"Use one of {get_args(Alternative)}."
            )
        if self.method not in get_args(Method):
            raise ArgumentError(f"method={self.method!r} is unknown.", f"Use one of {get_args(Method)}.")
        as_probability(self.confidence, "confidence")

    @property
    def mid(self) -> float:
        return self.bounds[0] / 2 + self.bounds[1] / 2

    @property
    def half(self) -> float:
        return self.bounds[1] / 2 - self.bounds[0] / 2

    @property
    def shift(self) -> float:
        """What an estimate of 0 in units of y stands for: the middle, or no difference."""
        return self.mid if self.by is None else 0.0

    def test(self, measured: Sequence[Group]) -> Result:
        """Test in units of y."""
        if self.by is not None:
            first, second = measured
            return two_sample_t(
                first, second, equal_variances=self.equal_var, method=self.method, alternative=self.alternative
            )
        (group,) = measured
        null = (self.popmean - self.mid) / self.half
        if self.sigma is not None:
            return one_sample_z(group, null, sd=self.sigma / self.half, alternative=self.alternative)
        return one_sample_t(group, null, method=self.method, alternative=self.alternative)

    def interval(self, result: Result, confidence: float) -> ConfidenceInterval:
        low, high = (float(end) * self.half + self.shift for end in result.interval(confidence))
        return ConfidenceInterval(low, high)

    def conclude(self, measured: Sequence[Group]) -> TTest:
        """Test, and return to the column's units."""
        result = self.test(measured)
        low, high = self.interval(result, self.confidence)
        return TTest(
            **vars(self),
            statistic=float(result.statistic),
            pvalue=float(result.pvalue),
            df=float(result.df),
            estimate=float(result.estimate) * self.half + self.shift,
            standard_error=float(result.standard_error) * self.half,
            noise_standard_error=float(result.noise_standard_error) * self.half,
            means=tuple(float(group.mean) * self.half + self.mid for group in measured),
            sizes=tuple(float(group.size) for group in measured),
            low=low,
            high=high,
            notes=result.warnings,
            released=tuple(astuple(group) for group in measured),
        )


@mechanism(columns={"column": "numeric", "by": "category"})
def ttest(
    curator: Curator,
    column: Column,
    *,
    by: Column | None = None,
    groups: Sequence[Any] | None = None,
) -> Measured:
    """Test a mean, or the difference of the means of two groups.

    Parameters
    ----------
    column : str
        A column with bounds. What is tested is the mean of its values as clipped to them.
    by : str, optional
        A column with categories: compare two groups instead.
    groups : list or tuple of two categories, optional
        The groups to compare, first minus second; default: the column's, if it has two.
    popmean : float
        Without `by`: the mean under the null hypothesis, within the bounds.
    equal_var : bool
        Pool the variances (Student) instead of keeping them apart (Welch).
    alternative : {"two-sided", "less", "greater"}
        Side of the null hypothesis on which the truth is suspected.
    method : {"conv", "mc", "naive"}
        ``"conv"``: the reference distribution is the convolution of the normal and the noise. ``"mc"``: a
        parametric bootstrap, with the t-distribution's tails. ``"naive"``: the textbook test on noisy
        statistics, whose level is not the nominal one; for comparison.
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
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. With y the column mapped from
    its bounds to [-1, 1], the sums of (y, y²/2) over all rows, or over each group, are released with discrete
    Laplace noise scaled to their joint L1 sensitivity: 2 if the number of rows is public (the squares are free), 3
    in all if one row can change its group, in the coordinates (y, 1-y², y²/2) that also count the rows. All
    else is post-processing.

    **Statistics.** For normal data the estimate is distributed as normal plus Laplace; p-values and intervals come
    from that convolution with the noisy variance plugged in. (The reference analyses the textbook test on noisy
    statistics, which is ``method="naive"`` here.)

    References
    ----------
    .. [1] X. Tong, B. Xi, M. Kantarcioglu, A. Inan. Gaussian mixture models for classification and hypothesis
       tests under differential privacy. DBSec 2017.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"bmi": [22, 31, 27, 35] * 500, "smoker": ["no", "yes", "no", "yes"] * 500})
    >>> view = dp.protect(df, "ttest-example", epsilon=1, ledger="memory:",
    ...                   bounds={"bmi": (10, 60)}, categories={"smoker": ["yes", "no"]})
    >>> view.ttest("bmi", by="smoker", epsilon=0.5).pvalue < 0.01
    True
    """
    return _measure(curator, column, by, None if by is None else _pair(by, groups))


@ttest.concludes
def _(
    measured: Measured,
    column: Column,
    *,
    by: Column | None,
    groups: Sequence[Any] | None,
    popmean: float = 0.0,
    equal_var: bool = False,
    alternative: Alternative = "two-sided",
    method: Method = "conv",
    confidence: float = 0.95,
) -> TTest:
    """Test in the column's units."""
    asked = t_asked(
        column,
        by=by,
        groups=groups,
        popmean=popmean,
        equal_var=equal_var,
        alternative=alternative,
        method=method,
        confidence=confidence,
    )
    return asked.conclude(_groups(*measured))


def t_asked(
    column: Column,
    *,
    by: Column | None,
    groups: Sequence[Any] | None,
    popmean: float,
    equal_var: bool,
    alternative: Alternative,
    method: Method,
    confidence: float,
) -> _Asked:
    """Check the arguments of a t-test, which is done before anything is paid."""
    if by is None and groups is not None:
        raise ArgumentError("groups= was given without by=.", "Name the column that holds the groups.")
    if by is not None and popmean != 0:
        raise ArgumentError("popmean= and by= exclude each other.", "With by=, equality of the means is tested.")
    return _Asked(
        column=column.name,
        bounds=(column.low, column.high),
        by=None if by is None else by.name,
        groups=None if by is None else _pair(by, groups),
        popmean=as_number(popmean, "popmean"),
        equal_var=equal_var,
        alternative=alternative,
        method=method,
        confidence=confidence,
    )


@mechanism(columns={"column": "numeric"})
def ztest(curator: Curator, column: Column) -> Measured:
    """Test a mean when the standard deviation is known from elsewhere.

    Parameters
    ----------
    column : str
        A column with bounds.
    popmean : float
        The mean under the null hypothesis, within the bounds.
    sigma : float
        The known standard deviation, in the column's units.
    alternative : {"two-sided", "less", "greater"}
        Side of the null hypothesis on which the truth is suspected.
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

    **Statistics.** For normal data with this standard deviation and a public number of rows the p-value is exact.

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
    return _measure(curator, column)


@ztest.concludes
def _(
    measured: Measured,
    column: Column,
    *,
    popmean: float,
    sigma: float,
    alternative: Alternative = "two-sided",
    confidence: float = 0.95,
) -> TTest:
    """Test in the column's units."""
    asked = z_asked(column, popmean=popmean, sigma=sigma, alternative=alternative, confidence=confidence)
    return asked.conclude(_groups(*measured))


def z_asked(column: Column, *, popmean: float, sigma: float, alternative: Alternative, confidence: float) -> _Asked:
    """Check the arguments of a z-test, which is done before anything is paid."""
    return _Asked(
        column=column.name,
        bounds=(column.low, column.high),
        popmean=as_number(popmean, "popmean"),
        sigma=as_number(sigma, "sigma"),
        alternative=alternative,
        confidence=confidence,
    )


def findings(
    curator: Curator,
    column: Column,
    *,
    by: Column | None = None,
    groups: Sequence[Any] | None = None,
    popmean: float = 0.0,
    sigma: float | None = None,
    alternative: Alternative = "two-sided",
    **_: Any,
) -> Mapping[str, Any]:
    """Say what the test could find out, from public numbers only; for ``explain``."""
    scale = curator.measured[-1].scale
    sizes = _sizes(curator, by, None if by is None else _pair(by, groups))
    sd = column.half / 2 if sigma is None else min(as_number(sigma, "sigma"), column.half)
    given = f"with probability 0.8, if the standard deviation is {sd:.3g}"
    known: dict[str, Any] = {
        "sd": sd,
        "bounds": (column.low, column.high),
        "mean": None if by is not None else as_number(popmean, "popmean"),
        "alternative": alternative,
    }
    if sizes is not None:  # plan for the noise that there is: at the sensitivity 2 of public sizes
        first, *rest = (int(size) for size in sizes)
        known |= {"epsilon": 2 / scale, "fixed_groups": True, "n2": rest[0] if rest else None}
        return {f"smallest effect found {given}": minimum_detectable_effect(first, **known)}
    effect = column.half / 10
    known |= {"epsilon": 1.5 / scale, "neighbors": "add_remove", "ratio": None if by is None else 1.0}
    rows = sample_size(0.8, effect=-effect if alternative == "less" else effect, **known)
    each = "" if by is None else " in each group"
    return {f"an effect of {effect:.3g} is found {given}": f"from {rows:,} rows{each}"}


def _measure(
    curator: Curator, column: Column, by: Column | None = None, pair: tuple[Any, ...] | None = None
) -> Measured:
    """Measure the noisy sums of y and y² of all rows, or of each group, and their number where it is private."""
    sizes = _sizes(curator, by, pair)
    moments: features.RowFeatures = features.Moments(column, count=sizes is None)
    return curator.sum(moments if by is None else features.OneHot(by, groups=pair) * moments), sizes


def _groups(measured: NoisyValue, sizes: NDArray[np.float64] | None) -> list[Group]:
    """Take the sums, and the rows, of each group."""
    values, scales = (np.atleast_2d(part) for part in (measured.values, measured.scales))
    size_variance = 0.0
    if sizes is None:  # the coordinates are (y, 1-y², y²)
        sizes = values[:, 1] + values[:, 2]
        size_variance = 2 * float(scales[0, 1] ** 2 + scales[0, 2] ** 2)
    return [
        Group(float(sums[0]), float(sums[-1]), float(size), float(scale[0]), float(scale[-1]), size_variance)
        for sums, size, scale in zip(values, sizes, scales, strict=True)
    ]


def _sizes(curator: Curator, by: Column | None, pair: tuple[Any, ...] | None) -> NDArray[np.float64] | None:
    """Rows in each group, None where they are private; an error if a public group is too small to test."""
    if by is None:
        size = curator.size
        sizes = None if size is None else np.array([float(size)])
    else:
        sizes = curator.sizes(by, pair)
    if sizes is not None and sizes.min() < 2:  # noqa: PLR2004
        raise ArgumentError(
            f"A group has {sizes.min():g} rows.", "A t-test needs at least two rows in every group."
        )
    return sizes


def _pair(by: Column, groups: Sequence[Any] | None) -> tuple[Any, Any]:
    known = by.categories or ()
    pair = known if groups is None else groups
    if not isinstance(pair, tuple | list) or len(pair) != 2:  # noqa: PLR2004
        raise ArgumentError(
            f"A t-test compares two groups; {by.name!r} has {list(known)!r}."
            if groups is None
            else f"groups={groups!r} must be two categories of {by.name!r}.",
            "Name two: groups=(first, second).",
        )
    first, second = (known[by.code(value)] for value in pair)
    if first == second:
        raise ArgumentError(f"groups={groups!r} are the same group.", "Name two different ones.")
    return first, second
