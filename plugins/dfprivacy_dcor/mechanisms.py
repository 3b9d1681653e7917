"""Distance correlation within one private table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from dfprivacy import ArgumentError, NanPolicy, Probability, Range, mechanism
from dfprivacy_dcor.inference import SEEN, NoisyStatistics, bounded_share
from dfprivacy_dcor.results import HSIC, DistanceCorrelation, Screening, result_fields
from dfprivacy_dcor.spaces import ROWS_MIN, Kernel, Metric, checked_rows, kernel_factor, kernel_space, metric_space
from dfprivacy_dcor.statistics import CandidateScores, DistanceDeviation, PairStatistics, largest_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfprivacy import Column, Curator
    from dfprivacy.release import NoisyValue
    from dfprivacy_dcor.spaces import Space

__all__ = ["PairMeasurement", "conclude_pair", "dcor", "dcor_screen", "hsic", "measure_pair", "plan_dcor"]

_DIRECTIONS_MAX = 1000
_UNIFORM_DEVIATION = math.sqrt(2 / 45)  # distance standard deviation of a uniform variable, as a part of its width
_UNIFORM_NOTE = "columns are uniform between their bounds; intervals are wider if they vary less"
_TRUE_VALUES = (0.1, 0.5, 0.9)  # distance correlations for which `plan_dcor` says how wide the interval would be


@dataclass(frozen=True)
class PairMeasurement:
    """Measurement of a distance correlation or HSIC: the noisy statistics, and public facts on the columns."""

    x: Space
    y: Space | None
    rows: int
    noisy: NoisyValue


@mechanism(columns={"x": "columns", "y": "columns"})
def dcor(
    curator: Curator,
    x: tuple[Column, ...],
    y: tuple[Column, ...],
    *,
    metric: Metric = "euclidean",
    directions: Annotated[int, Range(1, _DIRECTIONS_MAX)] = 50,
    nan_policy: NanPolicy = "omit",
) -> PairMeasurement:
    """Estimate the distance correlation of two sets of columns, and test whether they are independent.

    Parameters
    ----------
    x : str or list of str
        Columns with bounds, or one with categories. Each is scaled by its bounds to a width of 1.
    y : str or list of str
        Other such columns.
    metric : {"euclidean", "l1", "projected", "discrete"}
        Distance of rows. ``"euclidean"``: exact, with several columns in n² steps for up to 20,000 rows. ``"l1"``:
        sum over columns, n log n; sees dependence between single columns only. ``"projected"``: an estimate of the
        Euclidean distance from random directions, n log n. ``"discrete"``: for categories, 1 if they differ.
    directions : int
        With ``"projected"``: how many.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: rows with a missing value in a column do not count. ``"fill"``: they count, with the fill value
        or as a category of their own. ``"raise"`` is for public columns.
    confidence : float
        Coverage of the interval.
    alpha : float
        Level of the test.

    Returns
    -------
    DistanceCorrelation
        R with its interval, and the test.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, the number of rows is private or below 4; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for tables that differ in the content of one row. The distance
    covariance s_xy, the distance standard deviations s_x, s_y and the mean distances m_x, m_y (square roots of
    V-statistics, and means) of the complete rows, times their share of the n rows, each change by at most 2(n-1)/n²
    times the diameters when one row does; s_xy by √1.5 of that if both sides have several Euclidean columns or
    categories. They are released with discrete Laplace noise for their joint sensitivity, which the share does not
    raise; all else is post-processing.

    **Statistics.** The interval is guaranteed for the R of the complete rows. The null distribution is an
    approximation for many rows, a little wider than the limit up to a level of .05: at 5% it rejects in .040 to
    .0525 of cases. It is not that of noisy sums of rows, for distances are of pairs. A p-value takes the noise into
    account, that of the numbers which its null distribution follows from included; it may be as small as the noise
    allows.

    References
    ----------
    .. [1] Székely, Rizzo and Bakirov (2007). Measuring and testing dependence by correlation of distances. Annals
       of Statistics 35.
    .. [2] Vepakomma, Pushpita and Raskar (2021). Private measurement of nonlinear correlations between data hosted
       across multiple parties.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> x = np.linspace(-1, 1, 2000)
    >>> df = pd.DataFrame({"dose": x, "effect": x**2})
    >>> view = dp.protect(df, "dcor-example", epsilon=4, ledger="memory:",
    ...                   bounds={"dose": (-1, 1), "effect": (0, 1)})
    >>> view.dcor("dose", "effect", epsilon=2).pvalue < 0.05
    True
    """
    one = metric_space(x, metric, directions, nan_policy=nan_policy)
    other = metric_space(y, metric, directions, seed=1, nan_policy=nan_policy)
    return measure_pair(curator, one, other, checked_rows(curator, one, other, nan_policy=nan_policy))


@dcor.concludes
def conclude_dcor(
    measured: PairMeasurement,
    *,
    confidence: Probability = 0.95,
    alpha: Probability = 0.05,
) -> DistanceCorrelation:
    """Compute the distance correlation and its test from the noisy statistics."""
    return conclude_pair(measured, alpha=alpha, confidence=confidence)


def measure_pair(curator: Curator, x: Space, y: Space, n: int, share: object = None) -> PairMeasurement:
    """Measure the noisy statistics of a distance correlation."""
    return PairMeasurement(x, y, n, curator.measure(PairStatistics(x, y, n), share=share))


def conclude_pair(pair: PairMeasurement, *, alpha: float, confidence: float) -> DistanceCorrelation:
    """Compute a distance correlation, its confidence interval and its test from noisy statistics."""
    x, y, values, scales = pair.x, pair.y or pair.x, pair.noisy.values.tolist(), pair.noisy.scales.tolist()
    if not x.omit:  # all rows are complete
        values, scales = [*values, 1.0], [*scales, 0.0]
    numbers = NoisyStatistics(tuple(values), tuple(scales), pair.rows, largest_values(x, y))
    (low, high), pvalue = numbers.interval(confidence), numbers.pvalue()
    return DistanceCorrelation(
        correlation=numbers.correlation,
        corrected=numbers.corrected,
        low=low,
        high=high,
        confidence=confidence,
        statistic=numbers.statistic,
        pvalue=pvalue,
        alpha=alpha,
        rejected=pvalue <= alpha,
        x=x.names,
        y=y.names,
        metric=x.metric if x.metric == y.metric else f"{x.metric} and {y.metric}",
        notes=numbers.notes(rejected=pvalue <= alpha),
        largest=numbers.largest,
        **result_fields(values, scales, pair.rows, counted=x.omit),
    )


def plan_dcor(
    curator: Curator,
    x: tuple[Column, ...],
    y: tuple[Column, ...],
    *,
    metric: Metric = "euclidean",
    confidence: float = 0.95,
    nan_policy: NanPolicy = "omit",
    **_: Any,
) -> Mapping[str, Any]:
    """Return the expected confidence intervals for distance correlations of 0.1, 0.5 and 0.9; for ``explain``."""
    one, other = (metric_space(columns, metric, nan_policy=nan_policy) for columns in (x, y))
    n = checked_rows(curator, one, other)
    scales = (*(curator.measured[-1].scale / PairStatistics(one, other, n).weights[:5]).tolist(), 0.0)
    spreads = _UNIFORM_DEVIATION * one.diameter, _UNIFORM_DEVIATION * other.diameter
    intervals = {"assumed": _UNIFORM_NOTE}
    for truth in _TRUE_VALUES:
        noisy = (truth * math.sqrt(math.prod(spreads)), *spreads, 0.0, 0.0, 1.0)
        low, high = NoisyStatistics(noisy, scales, n, largest_values(one, other)).interval(confidence)
        intervals[f"interval for a distance correlation of {truth:g}"] = f"{low:.2f} to {high:.2f}"
    return intervals


Selection = tuple[tuple[str, ...], tuple[str, ...], tuple[PairMeasurement, ...]]
"""Names of the candidates and of the selected columns, with the noisy statistics of these if requested."""


@mechanism(columns={"target": "columns", "features": "columns"})
def dcor_screen(
    curator: Curator,
    target: tuple[Column, ...],
    features: tuple[Column, ...] | None = None,
    *,
    top: Annotated[int, Range(1)],
    estimate: bool = False,
    nan_policy: NanPolicy = "omit",
) -> Selection:
    """Select the columns with the largest distance correlation with a target column.

    Parameters
    ----------
    target : str
        A column with bounds or categories.
    features : list of str, optional
        The columns to choose from; default: all others that have bounds or categories.
    top : int
        How many to select.
    estimate : bool
        Spend half of epsilon on the distance correlations of those selected.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: rows with a missing value in the target or the column do not count. ``"fill"``: they count, with
        the fill value, or as a category of their own. ``"raise"`` is for public columns.
    confidence : float
        Coverage of their intervals.
    alpha : float
        Level of their tests.

    Returns
    -------
    Screening
        The names, best first.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, the number of rows is private or below 4; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for tables that differ in the content of one row. The score of a column
    is its distance covariance with the target, times the share of complete rows, as a part of the root of both
    diameters, which one row changes by 2(n-1)/n² (√1.5 of that if both have three categories and more). One
    selection after the other takes its part of epsilon, whatever the number of columns to choose from. The ranking
    is one by covariance in units of the bounds: columns whose bounds are much too wide come late, and so do those
    of which much is missing.

    References
    ----------
    .. [1] McKenna and Sheldon (2020). Permute-and-flip: a new mechanism for differentially private selection.
       NeurIPS.
    .. [2] Durfee and Rogers (2019). Practical differentially private top-k selection with pay-what-you-get
       composition. NeurIPS.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> x = np.linspace(-1, 1, 2000)
    >>> df = pd.DataFrame({"dose": x, "effect": x**2, "day": np.arange(2000) % 7})
    >>> view = dp.protect(df, "dcor-screen-example", epsilon=4, ledger="memory:",
    ...                   bounds={"dose": (-1, 1), "effect": (0, 1), "day": (0, 6)})
    >>> view.dcor_screen("effect", top=1, epsilon=2).features
    ('dose',)
    """
    if len(target) != 1:
        raise ArgumentError("target= takes one column.", "Call dcor_screen() once for each target.")
    y = metric_space(target, "euclidean", nan_policy=nan_policy)
    chosen_from = [c for c in curator.columns if c not in target] if features is None else list(features)
    if len(set(chosen_from)) < len(chosen_from) or not chosen_from:
        raise ArgumentError(
            "features= must name at least one column, each once.",
            "Omit features= to select among all other columns.",
        )
    candidates = [metric_space((column,), "euclidean", nan_policy=nan_policy) for column in chosen_from]
    n = checked_rows(curator, y, *candidates, nan_policy=nan_policy)
    if top > len(candidates):
        raise ArgumentError(
            f"top={top!r} exceeds the number of columns, {len(candidates)}.", f"Use top={len(candidates)} or less."
        )
    places = curator.select(CandidateScores(candidates, y, n), top=top, share="1/2" if estimate else None)
    best = [candidates[int(place)] for place in places]
    pairs = tuple(measure_pair(curator, x, y, n, f"1/{2 * top}") for x in best if estimate)
    return tuple(column.name for column in chosen_from), tuple(name for x in best for name in x.names), pairs


@dcor_screen.concludes
def conclude_dcor_screen(
    measured: Selection,
    target: tuple[Column, ...],
    *,
    confidence: Probability = 0.95,
    alpha: Probability = 0.05,
) -> Screening:
    """Return the selected columns, with the distance correlation of each if it was measured."""
    candidates, features, pairs = measured
    return Screening(
        features=features,
        target=target[0].name,
        candidates=candidates,
        estimates=tuple(conclude_pair(pair, alpha=alpha, confidence=confidence) for pair in pairs),
    )


_MAX_HSIC = 4 / 9  # a quarter, with 1/(m-1)² in place of 1/m² and four rows
HIDDEN = "uninformative: the noise hides the variation of the columns; use more rows or a larger epsilon"


@mechanism(columns={"x": "columns", "y": "columns"})
def hsic(
    curator: Curator,
    x: tuple[Column, ...],
    y: tuple[Column, ...] | None = None,
    *,
    kernel: Kernel = "gaussian",
    lengthscale: Annotated[float, Range(0.01, 1000)] | None = None,
    nan_policy: NanPolicy = "omit",
) -> PairMeasurement:
    r"""Estimate the Hilbert-Schmidt independence criterion of two sets of columns, and test independence.

    Prefer `dcor` where nothing is known of the dependence: distances have no lengthscale, and single columns take
    n log n steps. A kernel sees dependence that comes and goes within a lengthscale, such as that on a sine of many
    periods.

    Parameters
    ----------
    x : str or list of str
        Columns with bounds, or one with categories. Each is scaled by its bounds to a width of 1.
    y : str or list of str, optional
        Other such columns. Without them HSIC of x with itself, of which there is no test.
    kernel : {"gaussian", "laplace", "distance"}
        ``"gaussian"``: exp(-d²/lengthscale²). ``"laplace"``: exp(-d/lengthscale), d the sum of the differences.
        ``"distance"``: 1 - d/D, with D the diameter of the bounds; HSIC is then the squared distance covariance,
        over both D. Of categories it is always 1 for equal ones, else 0.
    lengthscale : float, optional
        In sixths of the bounds' widths; public, never chosen by looking at the rows. Default: the root of the
        number of columns, and for ``"laplace"`` their number.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: rows with a missing value in a column do not count. ``"fill"``: they count, with the fill value
        or as a category of their own. ``"raise"`` is for public columns.
    confidence : float
        Coverage of the interval.
    alpha : float
        Level of the test.

    Returns
    -------
    HSIC
        The criterion with its interval, and the test.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, the number of rows is private, below 4 or above 20,000; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for tables that differ in the content of one row. HSIC with kernel k is
    the squared distance covariance of the distance 1 - k [1]_, and what is released are the numbers of `dcor` for
    it: the root of HSIC changes by at most √1.5 · 2(n-1)/n² times the root of both diameters when one row does,
    that of a variable with itself by 2(n-1)/n² times its diameter. So HSIC moves by a
    fifth of the bound (12n-11)/(n-1)² of [2]_ at most, and by much less near independence, where the root is small.

    **Statistics.** HSIC is :math:`(m-1)^{-2}\,\mathrm{tr}\,KHLH` of the m complete rows [3]_, corrected for the
    noise; its interval is guaranteed. The null distribution is that of `dcor`: an approximation for many rows, with
    the noise in it.

    References
    ----------
    .. [1] Shen and Vogelstein (2021). The exact equivalence of distance and kernel methods in hypothesis testing.
       AStA Advances in Statistical Analysis 105.
    .. [2] Kusner, Sun, Sridharan and Weinberger (2016). Private causal inference. AISTATS.
    .. [3] Gretton, Bousquet, Smola and Schölkopf (2005). Measuring statistical dependence with Hilbert-Schmidt
       norms. Algorithmic Learning Theory.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> x = np.linspace(-1, 1, 2000)
    >>> df = pd.DataFrame({"phase": x, "signal": np.sin(6 * np.pi * x)})
    >>> view = dp.protect(df, "hsic-example", epsilon=4, ledger="memory:",
    ...                   bounds={"phase": (-1, 1), "signal": (-1, 1)})
    >>> view.hsic("phase", "signal", lengthscale=0.5, epsilon=4).pvalue < 0.05
    True
    """
    one = kernel_space(x, kernel, lengthscale, nan_policy=nan_policy)
    if y is None:
        n = checked_rows(curator, one, nan_policy=nan_policy)
        return PairMeasurement(one, None, n, curator.measure(DistanceDeviation(one, n)))
    other = kernel_space(y, kernel, lengthscale, nan_policy=nan_policy)
    return measure_pair(curator, one, other, checked_rows(curator, one, other, nan_policy=nan_policy))


@hsic.concludes
def conclude_hsic(
    measured: PairMeasurement,
    *,
    kernel: Kernel,
    confidence: Probability = 0.95,
    alpha: Probability = 0.05,
) -> HSIC:
    """Compute HSIC, its confidence interval and its test from the noisy statistics."""
    one, other = measured.x, measured.y or measured.x
    values, scales = measured.noisy.values.tolist(), measured.noisy.scales.tolist()
    share, share_scale = (values[-1], scales[-1]) if one.omit else (1.0, 0.0)
    value, low, high = hsic_interval(
        values[0],
        scales[0],
        share,
        share_scale,
        measured.rows,
        kernel_factor(one) * kernel_factor(other),
        confidence,
    )
    shared: dict[str, Any] = {
        "hsic": value,
        "low": low,
        "high": high,
        "confidence": confidence,
        "alpha": alpha,
        "x": one.names,
        "kernel": kernel,
        **result_fields(values, scales, measured.rows, counted=one.omit),
    }
    if measured.y is None:
        seen = values[0] >= SEEN * scales[0]
        none: dict[str, Any] = dict.fromkeys(("alignment", "statistic", "pvalue", "rejected"))
        return HSIC(y=(), notes=() if seen else (HIDDEN,), **none, **shared)
    tested = conclude_pair(measured, alpha=alpha, confidence=confidence)
    return HSIC(
        y=other.names,
        alignment=tested.corrected,
        statistic=tested.statistic,
        pvalue=tested.pvalue,
        rejected=tested.rejected,
        notes=tested.notes,
        **shared,
    )


def hsic_interval(
    root: float, scale: float, share: float, share_scale: float, rows: int, units: float, confidence: float
) -> tuple[float, float, float]:
    """Estimate HSIC, (m-1)⁻² tr KHLH, with a confidence interval by Bonferroni's inequality.

    Parameters
    ----------
    root, scale : float
        Noisy root of the squared distance covariance, times the share of complete rows; scale of its Laplace noise.
    share, share_scale : float
        Noisy share of complete rows, and the scale of its noise; 1 and 0 where all rows count.
    rows : int
        Number of rows n.
    units : float
        What the distances of both sides are in, multiplied.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    tuple of three floats
        Estimate, lower and upper end.
    """
    lost = (1 - confidence) / (2 if share_scale else 1)
    reach, share_reach = scale * math.log(1 / lost), share_scale * math.log(1 / lost)
    most, least = min(share + share_reach, 1.0), min(max(share - share_reach, ROWS_MIN / rows), 1.0)

    def hsic_of(square: float, part: float) -> float:  # of m = part n rows: square times part², HSIC over (m-1)²
        return min(max(square, 0.0) / units / (max(part, ROWS_MIN / rows) - 1 / rows) ** 2, _MAX_HSIC)

    square, middle = math.copysign(root**2, root) - 2 * scale**2, bounded_share(share, share_scale, rows)
    return (
        hsic_of(square, middle),
        hsic_of(max(root - reach, 0.0) ** 2, most),
        hsic_of(max(root + reach, 0.0) ** 2, least),
    )
