"""The t-test and the z-test of a private table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from dfprivacy import ArgumentError, ConfidenceInterval, Release, features, mechanism
from dfprivacy.plotting import axes
from dfprivacy.schema import as_number
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

__all__ = ["TTest", "ttest", "ztest"]


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
        Standard error of the estimate, from sampling and noise together.
    noise_standard_error : float
        The part of it that privacy adds.
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
    released : tuple of pairs of float
        For each group the noisy sums of y and y² behind all this; y is the column mapped from its bounds to [-1, 1].
    scales : tuple of float
        Scales of the Laplace noise in these sums.
    size_variance : float
        Variance of the noise in the sizes; 0 where they are public.
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
    released: tuple[tuple[float, float], ...]
    scales: tuple[float, float]
    size_variance: float
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
        return _interval(self._result(), confidence_level, self.bounds, difference=self.by is not None)

    def _result(self) -> Result:
        groups = [
            Group(*sums, size, *self.scales, self.size_variance)
            for sums, size in zip(self.released, self.sizes, strict=True)
        ]
        return _test(groups, self.popmean, self.sigma, self.bounds, self.equal_var, self.alternative, self.method)

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
        share = np.sqrt(max(0.0, 1 - (self.noise_standard_error / self.standard_error) ** 2))
        ends = np.clip([self.low, self.high], *_reach(self.bounds, difference=self.by is not None))
        inner = self.estimate + (ends - self.estimate) * share
        ax.plot(ends, [0, 0], color="tab:orange", lw=3, label=f"{self.confidence:.0%} interval, noise included")
        ax.plot(inner, [0, 0], color="tab:blue", lw=7, solid_capstyle="butt", label="of it from sampling")
        ax.plot(self.estimate, 0, "o", color="black", label="estimate")
        ax.axvline(0.0 if self.by is not None else self.popmean, color="grey", ls=":", label="null hypothesis")
        what = self.column
        if self.groups is not None:
            what += f": {self.by} {self.groups[0]} minus {self.groups[1]}"
        ax.set(yticks=[], xlabel=what, title=f"p = {self.pvalue:.3g}")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=2, fontsize="small", frameon=False)
        return ax


@mechanism(columns={"column": "numeric", "by": "category"})
def ttest(
    curator: Curator,
    column: Column,
    *,
    popmean: float = 0.0,
    by: Column | None = None,
    groups: Sequence[Any] | None = None,
    equal_var: bool = False,
    alternative: Alternative = "two-sided",
    method: Method = "conv",
    confidence: float = 0.95,
) -> TTest:
    """Test a mean, or the difference of the means of two groups.

    Parameters
    ----------
    column : str
        A column with bounds. What is tested is the mean of its values as clipped to them.
    popmean : float
        Without `by`: the mean under the null hypothesis, within the bounds.
    by : str, optional
        A column with categories: compare two groups instead.
    groups : sequence of two categories, optional
        The groups to compare, first minus second; default: the column's, if it has two.
    equal_var : bool
        Pool the variances (Student) instead of keeping them apart (Welch).
    alternative : {"two-sided", "less", "greater"}
        Side of the null hypothesis on which the truth is suspected.
    method : {"conv", "mc", "naive"}
        ``"conv"``: the reference distribution is the convolution of the normal and the noise. ``"mc"``: a
        parametric bootstrap, for tiny samples. ``"naive"``: the textbook test on noisy statistics, whose level is not the
        nominal one; for comparison.
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
    from that convolution with the noisy variance plugged in [1]_.

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
    _check(alternative, method, confidence)
    if by is None:
        if groups is not None:
            raise ArgumentError("groups= was given without by=.", "Name the column that holds the groups.")
        null = _null(popmean, column)
        return _measure(curator, column, None, None, null, None, equal_var, alternative, method, confidence)
    if popmean != 0:
        raise ArgumentError("popmean= and by= exclude each other.", "With by=, equality of the means is tested.")
    pair = _pair(by, groups)
    return _measure(curator, column, by, pair, 0.0, None, equal_var, alternative, method, confidence)


@mechanism(columns={"column": "numeric"})
def ztest(
    curator: Curator,
    column: Column,
    *,
    popmean: float,
    sigma: float,
    alternative: Alternative = "two-sided",
    confidence: float = 0.95,
) -> TTest:
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
    _check(alternative, "conv", confidence)
    spread = as_number(sigma, "sigma")
    if not spread > 0:
        raise ArgumentError(f"sigma={sigma!r} must be positive.", "Give the known standard deviation.")
    null = _null(popmean, column)
    return _measure(curator, column, None, None, null, spread, False, alternative, "conv", confidence)


def findings(
    curator: Curator,
    column: Column,
    *,
    by: Column | None = None,
    groups: Sequence[Any] | None = None,
    alternative: Alternative = "two-sided",
    **_: Any,
) -> Mapping[str, Any]:
    """Say what the test could find out, from public numbers only; for ``explain``."""
    scale = curator.measured[-1].scale
    sizes = _sizes(curator, by, None if by is None else _pair(by, groups))
    known: dict[str, Any] = {
        "sd": column.half / 2,
        "bounds": (column.low, column.high),
        "alternative": alternative,
        "fixed_groups": True,
    }
    given = f"with probability 0.8, if the standard deviation is {known['sd']:.3g}"
    if sizes is None:  # plan for the noise that there is: at add_remove's sensitivity of 3/2
        effect = column.half / 10
        known |= {"epsilon": 1.5 / scale, "neighbors": "add_remove", "ratio": None if by is None else 1.0}
        try:
            rows = sample_size(0.8, effect=effect, **known)
        except ArgumentError:
            return {f"an effect of {effect:.3g} is found {given}": "never, at this price"}
        each = "" if by is None else " in each group"
        return {f"an effect of {effect:.3g} is found {given}": f"from {rows:,} rows{each}"}
    first, *rest = (int(size) for size in sizes)
    known |= {"epsilon": 2 / scale, "n2": rest[0] if rest else None}
    return {f"smallest effect found {given}": minimum_detectable_effect(first, **known)}


def _measure(
    curator: Curator,
    column: Column,
    by: Column | None,
    pair: tuple[Any, Any] | None,
    null: float,
    sigma: float | None,
    equal_var: bool,  # noqa: FBT001
    alternative: Alternative,
    method: Method,
    confidence: float,
) -> TTest:
    sizes = _sizes(curator, by, pair)
    moments: features.RowFeatures = features.Moments(column, count=sizes is None)
    if by is not None:
        moments = features.OneHot(by, pair) * moments
    measured = curator.sum(moments)
    values = measured.values.reshape(-1, measured.values.shape[-1])
    scales = measured.scales.reshape(values.shape)[0]
    size_variance = 0.0
    if sizes is None:  # the coordinates are (y, 1-y², y²)
        sizes = values[:, 1] + values[:, 2]
        size_variance = float(2 * (scales[1] ** 2 + scales[2] ** 2))
    released = tuple((float(row[0]), float(row[-1])) for row in values)
    noise = (float(scales[0]), float(scales[-1]))
    counts = tuple(float(size) for size in sizes)
    groups = [Group(*sums, size, *noise, size_variance) for sums, size in zip(released, counts, strict=True)]
    bounds = column.low, column.high
    result = _test(groups, null, sigma, bounds, equal_var, alternative, method)
    low, high = _interval(result, confidence, bounds, difference=by is not None)
    shift = 0.0 if by is not None else column.mid
    return TTest(
        statistic=float(result.statistic),
        pvalue=float(result.pvalue),
        df=float(result.df),
        estimate=float(result.estimate) * column.half + shift,
        standard_error=float(result.standard_error) * column.half,
        noise_standard_error=float(result.noise_standard_error) * column.half,
        means=tuple(float(group.mean) * column.half + column.mid for group in groups),
        sizes=counts,
        low=low,
        high=high,
        confidence=confidence,
        column=column.name,
        by=by.name if by is not None else None,
        groups=pair,
        popmean=null,
        sigma=sigma,
        equal_var=bool(equal_var),
        alternative=alternative,
        method=method,
        notes=result.warnings,
        released=released,
        scales=noise,
        size_variance=size_variance,
        bounds=bounds,
    )


def _test(
    groups: Sequence[Group],
    null: float,
    sigma: float | None,
    bounds: tuple[float, float],
    equal_var: bool,  # noqa: FBT001
    alternative: Alternative,
    method: Method,
) -> Result:
    """Test in units of y."""
    if len(groups) == 2:  # noqa: PLR2004
        first, second = groups
        return two_sample_t(first, second, equal_variances=equal_var, method=method, alternative=alternative)
    mid, half = (bounds[0] + bounds[1]) / 2, (bounds[1] - bounds[0]) / 2
    mean = (null - mid) / half
    if sigma is not None:
        return one_sample_z(groups[0], mean, sd=sigma / half, alternative=alternative)
    return one_sample_t(groups[0], mean, method=method, alternative=alternative)


def _interval(
    result: Result, confidence: float, bounds: tuple[float, float], *, difference: bool
) -> ConfidenceInterval:
    mid, half = (bounds[0] + bounds[1]) / 2, (bounds[1] - bounds[0]) / 2
    low, high = (float(end) * half + (0.0 if difference else mid) for end in result.interval(confidence))
    return ConfidenceInterval(low, high)


def _reach(bounds: tuple[float, float], *, difference: bool) -> tuple[float, float]:
    """Give the values that a mean, or a difference of means, can take at all."""
    low, high = bounds
    return (low - high, high - low) if difference else (low, high)


def _sizes(curator: Curator, by: Column | None, pair: tuple[Any, Any] | None) -> NDArray[np.float64] | None:
    """Rows in each group, None where they are private; an error if a public group is too small to test."""
    if by is None:
        sizes = None if curator.size is None else np.array([float(curator.size)])
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
    if isinstance(pair, str) or len(pair) != 2:  # noqa: PLR2004
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


def _null(popmean: object, column: Column) -> float:
    null = as_number(popmean, "popmean")
    if not column.low <= null <= column.high:
        raise ArgumentError(
            f"popmean={popmean!r} lies outside the bounds of {column.name!r}, {column.low:g} to {column.high:g}.",
            "A mean of clipped values cannot be there; choose another null hypothesis, or wider bounds.",
        )
    return null


def _check(alternative: str, method: str, confidence: float) -> None:
    if alternative not in get_args(Alternative):
        raise ArgumentError(f"alternative={alternative!r} is unknown.", f"Use one of {get_args(Alternative)}.")
    if method not in get_args(Method):
        raise ArgumentError(f"method={method!r} is unknown.", f"Use one of {get_args(Method)}.")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise ArgumentError(f"confidence={confidence!r} is not between 0 and 1.", "Use, for example, 0.95.")
