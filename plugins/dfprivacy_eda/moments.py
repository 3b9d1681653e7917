"""Mean, variance, standard deviation and sum of a column, computed from noisy sums."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import Column, Curator, Probability, features, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.estimates import check_squares, measure_weighted
from dfprivacy.inference.clipped import WEIGHT
from dfprivacy.inference.engine import infer
from dfprivacy.inference.moments import laws_of
from dfprivacy.inference.weighted import NoisyWeighted
from dfprivacy.statistics import OfSums
from dfprivacy_eda.results import ColumnStatistic, column_statistic, statistic_notes, weighted_statistic
from dfprivacy_eda.sums import Sums, measurement_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.release import NoisyValue
    from dfprivacy_eda.sums import StatisticDraws

__all__ = ["Centred", "Spread", "Total", "check_var", "mean", "mean_and_degrees", "std", "total", "var"]

_BEYOND_SHARE = Fraction(1, 16)  # of the budget, where rows beyond the bounds are counted in a sum of their own
_GUESS_SHARE = Fraction(1, 10)  # of the budget, where rows without a value have to be counted as well
# Rows times epsilon from which on a guess is worth it: with missing values, the square of what it is off by is
# below the noise; else it costs 1 in 30 of the budget at most.
_GUESS_FROM = 1000.0
_MEAN_GUESS_FROM = 3000.0
_GUESS_SCALES = (
    4.0  # scales of the noise in a guess, within which the mean is looked for: but for 1 in 55 draws it is there
)


class _SumStatistic(OfSums):
    """Base class of statistics computed from sums over rows of functions of y, the values scaled to [-1, 1]."""

    shape = (1,)
    error = 3e-5  # of six sums and products, for up to 2^32 rows
    moved = 1.0  # by a row that changes

    def __init__(self, column: Column, gaps: tuple[Column, ...], degree: int = 2) -> None:
        of = features.Moments(column, degree=degree, count=True)
        self.features = features.Given(*gaps, of=of) if gaps else of
        self.columns = self.features.columns

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the largest change of the statistic if one row changes, or is added or removed."""
        return self.moved if relation == "replace_one" else 1.0


class Centred(_SumStatistic):
    """Sum of (y - t) / 2 over the rows with a value y, scaled to [-1, 1], for a fixed t in [-1, 1].

    Before the division a row adds a number in [-1 - t, 1 - t]; one without a value adds 0, which lies in it. So a
    row that changes moves the sum by 1 at most, and one that comes or goes as well: the claim is the same for all
    groups of a table, whatever t is.
    """

    description = "the centred sum of {columns}"
    lipschitz = 1.0  # of y, 1-y² and y²/2 summed

    def __init__(self, column: Column, gaps: tuple[Column, ...], t: float) -> None:
        super().__init__(column, gaps)
        self.t = t

    def value(self, sums: NDArray[np.float64]) -> float:
        """Compute the sum of (y - t) / 2 from the sums of y, 1-y² and y²."""
        first, rest, second = sums.tolist()
        return float(first - self.t * (rest + second)) / 2


class Spread(_SumStatistic):
    """Sum over the rows of ((y - t)² - v) / (1 + b)², minimised over t, for values y scaled to [-1, 1].

    The interval lies in [-1, 1], b is the largest absolute value in it, and v is in [0, 1]. For a fixed t a row
    adds a number in [-v, (1 + |t|)² - v] before the division, one without a value adds 0, which lies in it: so a
    row that changes, comes or goes moves the sum by 1 at most. The least of functions that move by 1 at most moves
    by 1 at most. Where the mean of y is in the interval, it is the sum of squares about the mean.
    """

    description = "the sum of squared deviations of {columns}"
    lipschitz = 2.0  # 2(1 + t²) over the unit, with y, 1-y² and y²/2 summed

    def __init__(self, column: Column, gaps: tuple[Column, ...], ends: tuple[float, float], v: float) -> None:
        super().__init__(column, gaps)
        self.ends, self.v = ends, v
        self.unit = (1 + max(map(abs, ends))) ** 2

    def value(self, sums: NDArray[np.float64]) -> float:
        """Compute the minimum over t from the sums of y, 1-y² and y²."""
        first, rest, second = sums.tolist()
        n, (low, high) = rest + second, self.ends
        inside = [min(max(first / n, low), high)] if n > 0 else []
        return float(min(second - 2 * t * first + (t**2 - self.v) * n for t in (low, high, *inside))) / self.unit


class Total(_SumStatistic):
    """Sum of a column divided by the largest absolute value within its bounds.

    A row without a value adds 0. Where a row changes, it moves by the range of the column, or by the largest
    number if that is more, for a value may go missing; where one comes or goes, by the largest number.
    """

    description = "the sum of {columns}"
    lipschitz = 1.0
    error = 1e-5

    def __init__(self, column: Column, gaps: tuple[Column, ...]) -> None:
        super().__init__(column, gaps, degree=1)
        self.most = max(abs(column.low), abs(column.high))
        self.ends = (column.high / self.most, column.low / self.most)
        self.moved = max(self.ends[0] - self.ends[1], 1.0 if gaps else 0.0)

    def value(self, sums: NDArray[np.float64]) -> float:
        """Compute the scaled sum of the column from its sums of (1+y)/2 and (1-y)/2, for y scaled to [-1, 1]."""
        return float(sums @ np.array(self.ends))


def _measure_moments(
    curator: Curator, column: Column, nan_policy: NanPolicy, *, degree: int = 2, share: Fraction | None = None
) -> Sums:
    """Measure in one vector the number of rows with a value and the sums of the scaled values and their squares.

    With n public: (y, y²/2), and 1/2 for a row without a value; of degree 1 y, and 1. With n private: (y, 1-y²,
    y²/2), and where rows come and go 3/2 for a row without a value; of degree 1 (1+y)/2 and (1-y)/2, and 1.
    docs/explanation/exploration.md has the sensitivities. Rows beyond the bounds are in the same vector, and have
    about a sixteenth of the call's budget beside the `checked_share` of the others.
    """
    n, gaps = curator.size, curator.gaps([column], nan_policy)
    counted = bool(gaps) and (n is not None or degree == 1 or curator.neighbors == "add_remove")
    weight = 1.0 if degree == 1 else 0.5 if n is not None else 1.5
    beyond = WEIGHT if share is None else 2.0 ** round(math.log2(WEIGHT / share))
    of: features.RowFeatures = features.Moments(column, degree=degree, count=n is None)
    if gaps:
        of = features.Given(*gaps, of=of, tally=(0, weight) if counted else None)
    of = features.Stack(of, features.Beyond(column, weight=beyond))
    measured, clipped = curator.sum(of, share=None if share is None else share * (1 + Fraction(beyond))).parts
    sums = np.zeros((4, len(measured.values)))
    if n is None:
        sums[:3, : degree + 1] = [[1, 1], [1, -1], [0, 0]] if degree == 1 else [[0, 1, 1], [1, 0, 0], [0, 0, 1]]
    else:
        sums[1 : 1 + degree, :degree] = np.eye(degree)
    if counted:
        sums[3, -1] = 1 / weight
        sums[0] -= 0 if n is None else sums[3]
    start = np.array([0.0 if n is None else float(n), 0.0, 0.0, 0.0])
    complete = not (gaps or column.filled or nan_policy == "fill")
    found = Sums(
        column,
        measured.values,
        tuple(laws_of(measured)),
        sums,
        start,
        counted or complete,
        measurement_ids(measured),
    )
    return found.with_rows_beyond(clipped)


def _measure_mean(curator: Curator, column: Column, nan_policy: NanPolicy, *, alone: bool = True) -> Sums:
    """Measure the sums that a mean needs and, unless `alone`, also the sums that a variance needs.

    Where the number of rows is private, the sums of (1+y)/2 and (1-y)/2 have all of the noise of a count, and give
    the number of rows and the sum of y. Where it is public, the sum of y and, if values may be missing, the number
    of rows without one are measured. Of many rows, a part of the budget gives of these a guess t, and the mean is
    t plus the mean of y - t: the less t is off, the less it matters how many rows there are.
    """
    if not alone:
        check_squares(column)
    gaps, rows = curator.gaps([column], nan_policy), _rows_epsilon(curator)
    if not (alone and gaps and rows >= _MEAN_GUESS_FROM):
        return _measure_moments(curator, column, nan_policy, degree=1 if alone else 2)
    share = _power_share(rows**0.4 / 2)
    guess = _measure_moments(curator, column, nan_policy, degree=1, share=share)
    if not any(law.scale for law in guess.laws):
        return guess
    t = float(guess.estimate.scaled_mean[0])
    joined = _replace_sum(guess, curator.measure(Centred(column, gaps, t)), 2.0, 1)
    joined.map[1] += t * joined.map[0]
    joined.start[1] = t * joined.start[0]
    return joined


def _measure_variance(curator: Curator, column: Column, nan_policy: NanPolicy) -> Sums:
    """Measure the sums that a variance needs; of many rows, first estimate the mean with part of the budget.

    The nearer that is to the middle of the bounds, the less one row moves the sum. With few rows there is no guess,
    and the mean may lie anywhere; where their number is private, or small and values may be missing, the sums of y
    and y² are measured.
    """
    n, gaps, many = curator.size, curator.gaps([column], nan_policy), _rows_epsilon(curator)
    if n is None or (gaps and many < _GUESS_FROM):
        return _measure_moments(curator, column, nan_policy)
    if many < _GUESS_FROM:
        blank = _sums_of_count(column, n, counted=not (column.filled or nan_policy == "fill"))
        blank = blank.with_rows_beyond(curator.sum(features.Beyond(column), share=_BEYOND_SHARE))
        return _replace_sum(blank, curator.measure(Spread(column, (), (-1.0, 1.0), 0.0)), 4.0, 2, 0.0)
    share = _GUESS_SHARE if gaps else _power_share(math.sqrt(many))
    guess = _measure_moments(curator, column, nan_policy, share=share)
    if not any(law.scale for law in guess.laws):
        return guess
    rows, t = max(guess.noisy_value("count"), 1.0), float(guess.estimate.scaled_mean[0])
    v = min(max(float(guess.estimate.second[0]) / rows - t**2, 0.0), 1.0)
    scale = (2 + 4 * abs(t) * bool(gaps)) / (float(share) * curator.epsilon * rows)
    spread = Spread(column, gaps, (max(t - _GUESS_SCALES * scale, -1.0), min(t + _GUESS_SCALES * scale, 1.0)), v)
    return _replace_sum(guess, curator.measure(spread), spread.unit, 2, v)


def _power_share(parts: float) -> Fraction:
    """Return the power of two nearest to 1/`parts`, so that shares of the budget add up without rounding."""
    return Fraction(1, 2 ** round(math.log2(parts)))


def _rows_epsilon(curator: Curator) -> float:
    """Return the typical number of rows of a group times epsilon; 0 if the number of rows is private."""
    typical = curator.typical_size
    return 0.0 if curator.size is None or typical is None else typical * curator.epsilon


def _sums_of_count(column: Column, rows: float, *, counted: bool) -> Sums:
    """Return `Sums` for a column of which only the number of rows is known."""
    return Sums(column, np.empty(0), (), np.zeros((4, 0)), np.array([rows, 0.0, 0, 0]), counted)


def _replace_sum(guess: Sums, noisy: NoisyValue, unit: float, row: int, about: float | None = None) -> Sums:
    """Return `Sums` in which a later measurement replaces one of the sums."""
    law = replace(noisy.law, scale=noisy.law.scale * unit, step=0.0)
    map_, start = np.column_stack([guess.map, np.zeros(4)]), guess.start.copy()
    map_[row], start[row] = 0, 0
    map_[row, -1] = 1
    values = np.append(guess.values, noisy.values * unit)
    laws, ids = (*guess.laws, law), (*guess.ids, *measurement_ids(noisy))
    return replace(guess, values=values, laws=laws, map=map_, start=start, ids=ids, about=about)


Covers = Literal["table", "population"]


@mechanism(columns={"column": "numeric", "weights": "numeric"})
def mean(
    curator: Curator,
    column: Column,
    *,
    weights: Column | None = None,
    nan_policy: NanPolicy = "omit",
    covers: Covers = "table",
) -> Sums | NoisyWeighted:
    """Return the mean of a column.

    Parameters
    ----------
    column : str
        A column with bounds. Values count as clipped to them.
    weights : str, optional
        A column of sampling weights, with bounds from 0 or above: the mean is that of the population that they
        stand for. Weights count as clipped to their bounds; rows without one are left out (docs/howto/weights.md).
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` leaves them out, ``"fill"`` counts them with the column's
        fill value, ``"raise"`` refuses them, where the column is public.
    covers : {"table", "population"}
        What the interval is for: the table's own mean, as a dataframe has it, or that of a population of which the
        rows are a sample. Sampling is in the second as well as noise. With weights it is always the population's.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    ColumnStatistic
        The mean, with an interval and the number of rows without a value.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. With y the column mapped from
    its bounds to [-1, 1], the sum of y and the number of rows without a value are released together, with discrete
    Laplace noise, scaled to their joint L1 sensitivity, which is 2 [1]_. Where a public number n of rows is 3,000/ε
    or more and values may be missing, that has 2 (n ε)^-0.4 of ε, and the rest buys the sum of y - t, t being the
    mean so far: sensitivity 2. Where the number of rows is private, the sums of (1+y)/2 and (1-y)/2 and the number
    of rows without a value are released: sensitivity 1 if rows come and go, 2 if they change. For a population the
    sum of y² is needed as well, so there is one step, with (y, y²/2) and the rows without a value, of sensitivity
    2, or (y, 1-y², y²/2) where the number of rows is private, of sensitivity 3/2 if rows come and go, 8/3 if they
    change. In the first vector are the numbers of rows below and above the bounds too, which add 1/8 to its
    sensitivity, or 1/16 if rows come and go; where it has a part of ε, they have about a sixteenth of ε beside it.

    With weights, v being a weight over its upper bound, the sums of v(1+y)/2, v(1-y)/2 and, for a population, of
    the products of these two numbers are released with noise of the cube, of sensitivity 1, or Laplace noise, of
    sensitivity 3/2 if rows come and go (`dfprivacy.features.Weighted`). Before, with a thirty-second of ε, the rows
    beyond the bounds are counted.

    **Statistics.** Intervals are quantiles over draws of the noise, whose law is public; for a population they are
    those of a t-test. The weighted mean is Hájek's, with the variance of sampling with replacement [2]_.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.
    .. [2] Särndal, Swensson and Wretman (1992). Model assisted survey sampling. Springer.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 5000})
    >>> view = dp.protect(df, "eda-mean", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
    >>> round(float(view.mean("age", epsilon=0.5)))
    30

    A survey that asked every tenth of the young, and every hundredth of the old:

    >>> df = pd.DataFrame({"age": [22, 60] * 10_000, "w": [10, 100] * 10_000})
    >>> view = dp.protect(df, "eda-weighted", epsilon=1, ledger="memory:", bounds={"age": (0, 100), "w": (0, 100)})
    >>> found = view.mean("age", weights="w", epsilon=0.5)
    >>> 55 < float(found) < 58, found.covers
    (True, 'limited population')
    """
    if weights is not None:
        halves = features.Moments(column, degree=1, count=True)
        return measure_weighted(curator, weights, halves, [column], nan_policy)
    return _measure_mean(curator, column, nan_policy, alone=covers == "table")


@mean.concludes
def conclude_mean(
    measured: Sums | NoisyWeighted, column: Column, *, covers: Covers = "table", confidence: Probability = 0.95
) -> ColumnStatistic:
    """Compute the mean from the noisy sum and the number of rows."""
    if isinstance(measured, NoisyWeighted):
        return weighted_statistic("mean", measured, column, confidence)
    release = column_statistic("mean", measured, confidence)
    if covers == "table":
        return release
    if (release.low, release.high) == column.bounds:
        return replace(release, covers="limited population")
    ends = low, high = tuple(map(float, infer(measured, mean_and_degrees).interval(confidence)))
    notes = statistic_notes("mean", measured, ends)
    return replace(release, low=low, high=high, covers="limited population", notes=notes)


@mechanism(columns={"column": "numeric"})
def var(curator: Curator, column: Column, *, nan_policy: NanPolicy = "omit") -> Sums:
    """Return the variance of a column, with the divisor n - 1.

    Parameters
    ----------
    column : str
        A column with bounds. Values count as clipped to them.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` leaves them out, ``"fill"`` counts them with the column's
        fill value, ``"raise"`` refuses them, where the column is public.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    ColumnStatistic
        The variance, in squared units.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. With y the column mapped from
    its bounds to [-1, 1], the number of rows with a value and the sums of y and y² are released together with
    discrete Laplace noise, scaled to their joint L1 sensitivity: 2 if the number of rows is public, also with the
    rows without a value counted; else 3/2 if rows come and go, 8/3 if they change [1]_. The numbers of rows beyond
    the bounds are in the same vector or, where it has a part of ε, have about a sixteenth of ε beside it. Where a
    public number n of rows is 1,000/ε or more, that has a tenth of ε if values may be missing and else ε/√(n ε),
    and the rest buys the least sum of (y - t)² for t within four scales of the noise about the mean so far:
    sensitivity (1 + abs(t))² for the largest such t. Without missing values, fewer rows buy the sum of squares
    about the mean, of sensitivity 4, and with a sixteenth of ε the numbers of rows beyond the bounds.

    **Statistics.** The interval is for the table's own number: the noise is in it, sampling is not.
    A negative estimate is 0.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 5000})
    >>> view = dp.protect(df, "eda-var", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
    >>> 30 < float(view.var("age", epsilon=0.5)) < 57
    True
    """
    return _measure_variance(curator, column, nan_policy)


@var.concludes
def conclude_var(measured: Sums, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Compute the variance from the noisy sums."""
    return column_statistic("var", measured, confidence)


def mean_and_degrees(drawn: StatisticDraws) -> tuple[Any, Any, Any]:
    """Return the mean, the sampling variance of the mean, and its degrees of freedom, for draws of the noise."""
    rows = np.maximum(drawn.count, 2)
    return drawn.mean, drawn.var / rows, rows - 1


def check_var(column: Column, **_: Any) -> None:
    """Check that squares of the values are finite, before anything is charged."""
    check_squares(column)


@mechanism(columns={"column": "numeric"})
def std(curator: Curator, column: Column, *, nan_policy: NanPolicy = "omit") -> Sums:
    """Return the standard deviation of a column, with the divisor n - 1.

    Parameters
    ----------
    column : str
        A column with bounds. Values count as clipped to them.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` leaves them out, ``"fill"`` counts them with the column's
        fill value, ``"raise"`` refuses them, where the column is public.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    ColumnStatistic
        The standard deviation.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. With y the column mapped from
    its bounds to [-1, 1], the number of rows with a value and the sums of y and y² are released together with
    discrete Laplace noise, scaled to their joint L1 sensitivity: 2 if the number of rows is public, also with the
    rows without a value counted; else 3/2 if rows come and go, 8/3 if they change [1]_. The numbers of rows beyond
    the bounds are in the same vector or, where it has a part of ε, have about a sixteenth of ε beside it. Where a
    public number n of rows is 1,000/ε or more, that has a tenth of ε if values may be missing and else ε/√(n ε),
    and the rest buys the least sum of (y - t)² for t within four scales of the noise about the mean so far:
    sensitivity (1 + abs(t))² for the largest such t. Without missing values, fewer rows buy the sum of squares
    about the mean, of sensitivity 4, and with a sixteenth of ε the numbers of rows beyond the bounds.

    **Statistics.** The interval is for the table's own number: the noise is in it, sampling is not.
    A negative estimate is 0.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 5000})
    >>> view = dp.protect(df, "eda-std", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
    >>> 5.5 < float(view.std("age", epsilon=0.5)) < 7.5
    True
    """
    return _measure_variance(curator, column, nan_policy)


@std.concludes
def conclude_std(measured: Sums, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Compute the standard deviation from the noisy sums."""
    return column_statistic("std", measured, confidence)


@mechanism(name="sum", columns={"column": "numeric", "weights": "numeric"})
def total(
    curator: Curator, column: Column, *, weights: Column | None = None, nan_policy: NanPolicy = "omit"
) -> Sums | NoisyWeighted:
    """Return the sum of a column.

    Parameters
    ----------
    column : str
        A column with bounds. Values count as clipped to them.
    weights : str, optional
        A column of sampling weights, as for `mean`: the sum is that of the population that they stand for.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` leaves them out, ``"fill"`` counts them with the column's
        fill value, ``"raise"`` refuses them, where the column is public.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    ColumnStatistic
        The sum.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation: the sum of the values, 0 for a
    row without one, with discrete Laplace noise. Its sensitivity is the largest value in absolute terms, or the
    range of the column if rows change and that is larger, or no value can be missing [1]_. A sixteenth of ε is for
    the numbers of rows beyond the bounds and, where it is private, the number of rows. With weights as `mean`.

    **Statistics.** The interval is for the table's own number: the noise is in it, sampling is not. With weights it
    is for the population's (Horvitz and Thompson), by the variance of Poisson sampling, which is too large if the
    design fixes the number of rows. Where the population's size N is known, ``view.mean(..., weights=...) * N`` is
    more accurate.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 5000})
    >>> view = dp.protect(df, "eda-sum", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
    >>> 590_000 < float(view.sum("age", epsilon=0.5)) < 610_000
    True
    """
    if weights is not None:
        halves = features.Moments(column, degree=1, count=True)
        return measure_weighted(curator, weights, halves, [column], nan_policy)
    statistic, size = Total(column, curator.gaps([column], nan_policy)), curator.size
    counted = [features.Given(column)] if size is None else []
    beyond = curator.sum(features.Stack(features.Beyond(column), *counted), share=_BEYOND_SHARE).parts
    noisy = curator.measure(statistic)
    n, of = float(size or 0), None if size is not None else float(beyond[-1].values[0])
    unit = statistic.most / column.half  # as the sum of y, and that of the middles
    found = _replace_sum(_sums_of_count(column, n, counted=False).with_rows_beyond(beyond[0], of), noisy, unit, 1)
    found.start[1] = -n * column.mid / column.half
    return found


@total.concludes
def conclude_total(
    measured: Sums | NoisyWeighted, column: Column, *, confidence: Probability = 0.95
) -> ColumnStatistic:
    """Compute the sum of the column with its confidence interval."""
    if isinstance(measured, NoisyWeighted):
        return weighted_statistic("sum", measured, column, confidence)
    return column_statistic("sum", measured, confidence)
