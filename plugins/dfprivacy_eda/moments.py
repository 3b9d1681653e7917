"""Mean, variance, standard deviation and sum of a column."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

from dfprivacy import ArgumentError, Column, Curator, Probability, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy_eda import centred
from dfprivacy_eda.results import ColumnStatistic, covers_of
from dfprivacy_eda.sums import Sums

__all__ = ["mean", "std", "total", "var", "var_asked"]

Covers = Literal["table", "population"]
_WIDE = 1 / 2  # of what is possible: an interval as wide tells next to nothing


def _concluded(name: str, measured: Sums, confidence: float, possible: tuple[float, float]) -> ColumnStatistic:
    """Give a number, with the interval in which the table's own lies."""
    value, error, low, high = measured.cell(name, confidence)
    left, left_error = measured.missing
    column = measured.column
    return ColumnStatistic(
        value=value,
        low=low,
        high=high,
        confidence=confidence,
        noise_standard_error=error,
        statistic=name,
        column=column.name,
        count=measured.known("count") + min(left or 0.0, 0.0),  # none are missing if fewer than none are
        missing=None if left is None else max(left, 0.0),
        missing_standard_error=left_error,
        covers=covers_of(name),
        bounds=(column.low, column.high),
        notes=_notes(low, high, possible),
        released=measured.released,
    )


_FEW = "there is too little data for this epsilon."


def _notes(low: float, high: float, possible: tuple[float, float]) -> tuple[str, ...]:
    if high - low <= _WIDE * (possible[1] - possible[0]):
        return ()
    return (f"Uninformative: the interval spans more than half of what is possible, {_FEW}",)


@mechanism(columns={"column": "numeric"})
def mean(curator: Curator, column: Column, *, nan_policy: NanPolicy = "omit", covers: Covers = "table") -> Sums:
    """Give the mean of a column.

    Parameters
    ----------
    column : str
        A column with bounds. Values count as clipped to them.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` leaves them out, ``"fill"`` counts them with the column's
        fill value, ``"raise"`` refuses them, where the column is public.
    covers : {"table", "population"}
        What the interval is for: the table's own mean, as a dataframe has it, or that of a population of which the
        rows are a sample. Sampling is in the second as well as noise.
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
    2, or (y, 1-y², y²/2) where the number of rows is private, of sensitivity 3/2 if rows come and go.

    **Statistics.** Intervals are quantiles over draws of the noise, whose law is public; for a population they are
    those of a t-test.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 5000})
    >>> view = dp.protect(df, "eda-mean", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
    >>> round(float(view.mean("age", epsilon=0.5)))
    30
    """
    return centred.mean(curator, column, nan_policy, alone=covers == "table")


@mean.concludes
def _(
    measured: Sums, column: Column, *, covers: Covers = "table", confidence: Probability = 0.95
) -> ColumnStatistic:
    """Divide the sum by the count."""
    bounds = (column.low, column.high)
    release = _concluded("mean", measured, confidence, bounds)
    if covers == "table":
        return release
    if (release.low, release.high) == bounds:
        return replace(release, covers="limited population")
    low, high = map(float, measured.population.interval(confidence))
    notes = _notes(low, high, bounds)
    return replace(release, low=low, high=high, covers="limited population", notes=notes)


@mechanism(columns={"column": "numeric"})
def var(curator: Curator, column: Column, *, nan_policy: NanPolicy = "omit") -> Sums:
    """Give the variance of a column, with the divisor n - 1.

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
    rows without a value counted; 3/2 if rows come and go [1]_. Where a public number n of rows is 1,000/ε or more,
    that has a tenth of ε if values may be missing and else ε/√(n ε), and the rest buys the least sum of (y - t)²
    for t within four scales of the noise about the mean so far: sensitivity (1 + abs(t))² for the largest such t.
    Without missing values, fewer rows buy the sum of squares about the mean at once, of sensitivity 4.

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
    return centred.variance(curator, column, nan_policy)


@var.concludes
def _(measured: Sums, column: Column, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Subtract the square of the mean from the mean of squares."""
    return _concluded("var", measured, confidence, (0.0, column.half * column.half))


def var_asked(column: Column, **_: Any) -> None:
    """Check that squares are finite before anything is paid."""
    if math.isinf(column.half * column.half):
        raise ArgumentError(
            f"Squares of {column.name!r} are too large for float64 within its bounds.", "Ask for its std."
        )


@mechanism(columns={"column": "numeric"})
def std(curator: Curator, column: Column, *, nan_policy: NanPolicy = "omit") -> Sums:
    """Give the standard deviation of a column, with the divisor n - 1.

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
    rows without a value counted; 3/2 if rows come and go [1]_. Where a public number n of rows is 1,000/ε or more,
    that has a tenth of ε if values may be missing and else ε/√(n ε), and the rest buys the least sum of (y - t)²
    for t within four scales of the noise about the mean so far: sensitivity (1 + abs(t))² for the largest such t.
    Without missing values, fewer rows buy the sum of squares about the mean at once, of sensitivity 4.

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
    return centred.variance(curator, column, nan_policy)


@std.concludes
def _(measured: Sums, column: Column, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Subtract the square of the mean from the mean of squares."""
    return _concluded("std", measured, confidence, (0.0, column.half))


@mechanism(name="sum", columns={"column": "numeric"})
def total(curator: Curator, column: Column, *, nan_policy: NanPolicy = "omit") -> tuple[Sums, int | None]:
    """Give the sum of a column.

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
    range of the column if rows change and that is larger [1]_.

    **Statistics.** The interval is for the table's own number: the noise is in it, sampling is not.

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
    return centred.total(curator, column, nan_policy), curator.size


@total.concludes
def _(measured: tuple[Sums, int | None], column: Column, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Add what the noise may be."""
    sums, rows = measured
    value, scale = sums.known("sum"), sums.laws[0].scale * column.half
    reach = -math.log1p(-confidence) * scale  # of a Laplace variable
    possible = (-math.inf, math.inf) if rows is None else (column.low * rows, column.high * rows)
    return ColumnStatistic(
        value=value,
        low=value - reach,
        high=value + reach,
        confidence=confidence,
        noise_standard_error=math.sqrt(2) * scale,
        statistic="sum",
        column=column.name,
        count=None if rows is None else float(rows),
        covers=covers_of("sum"),
        bounds=(column.low, column.high),
        notes=_notes(value - reach, value + reach, possible),
        released=sums.released,
    )
