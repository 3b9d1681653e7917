"""Quantiles: few by the exponential mechanism, many from one tree of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, Column, Curator, Probability, Range, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy_eda.choice import Chosen, choose_alone, chosen
from dfprivacy_eda.grown import Grown, grown
from dfprivacy_eda.layout import layout
from dfprivacy_eda.ranked import Quantiles, share
from dfprivacy_eda.results import ColumnStatistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["median", "median_asked", "quantile", "quantile_asked"]

Covers = Literal["table", "population"]
Step = Annotated[float, Range(0, exclusive="low")]
_WIDE = 1 / 2  # of the bounds


def quantile_asked(column: Column, q: Any, *, step: float | None, **_: Any) -> None:
    """Check the shares and the step before anything is paid."""
    shares = q if isinstance(q, list | tuple | np.ndarray) else [q]
    if not len(shares):
        raise ArgumentError("q= names no quantile.", "For example [0.25, 0.5, 0.75].")
    for each in shares:
        share(each)
    layout(column, step, math.inf)


def median_asked(column: Column, *, step: float | None, **_: Any) -> None:
    """Check the step before anything is paid."""
    layout(column, step, math.inf)


@mechanism(columns={"column": "numeric"})
def quantile(
    curator: Curator,
    column: Column,
    q: float | Sequence[float] = 0.5,
    *,
    step: Step | None = None,
    nan_policy: NanPolicy = "omit",
    covers: Covers | None = None,
) -> Chosen | Grown:
    """Give quantiles of a column, in the way that is expected to be the most accurate.

    Parameters
    ----------
    column : str
        A column with bounds. Values count as clipped to them.
    q : float or list of float
        Shares of rows, from 0 to 1: one, or a list.
    step : float, optional
        The distance of neighbouring values where it is public, such as 1 for whole numbers: then the answer is one
        of them, and more accurate.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` leaves them out, ``"fill"`` counts them with the column's
        fill value, ``"raise"`` refuses them, where the column is public.
    covers : {"table", "population"}, optional
        Give intervals of values, and what they are for: the table's own quantile, as a dataframe has it, or that of
        a population of which the rows are a sample. The quantiles come from one tree of counts then, and afterwards
        any other and the cumulated shares. Default: intervals only where the tree is about as accurate.
    confidence : float
        Coverage of the intervals, each on its own, or how sure the note is of the rows by which a quantile is off.

    Returns
    -------
    ColumnStatistic or Quantiles
        One for a number, the other for a list. Those that were chosen alone have no interval of values: a note says
        of which shares of rows they are quantiles.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. Few, at equal parts of ε: the
    exponential mechanism (permute-and-flip where epsilons add up) among equal intervals, four for each row times ε
    and at most 2^20, with the rows as the score by which each is too low or too high, of sensitivity 1 where rows
    change and max(q, 1-q) where they come and go [1]_. Rows of equal values cost no accuracy. Many: counts of the
    nodes of a tree over the bounds, up to 20 branches a node, with discrete Laplace noise; a row is in one node of
    each level, and the levels share ε by 4, 3 and 2, or by 2 and 3 [2]_.

    **Statistics.** Which of the two follows from public numbers: the standard errors, in rows, that are expected of
    either. That of the first grows with the number of quantiles, that of the tree does not: it has four and
    more, or seven where the number of rows is large, and any number of them where rows times ε are few. From
    the tree there are intervals by least squares, and values from counts that are not negative. A quantile among
    rows that lie at a bound, or beyond, is that bound exactly.
    docs/explanation/exploration.md has the proofs, docs/benchmarks.md what was measured.

    References
    ----------
    .. [1] Smith (2011). Privacy-preserving statistical estimation with optimal convergence rates. STOC.
    .. [2] Hay, Rastogi, Miklau and Suciu (2010). Boosting the accuracy of differentially private histograms through
       consistency. VLDB.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 5000})
    >>> view = dp.protect(df, "eda-quantile", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
    >>> [round(x) for x in view.quantile("age", [0.1, 0.9], step=1, epsilon=0.5).values]
    [22, 40]
    """
    return _measured(curator, column, _shares(q), nan_policy, step, covers)


@quantile.concludes
def _(
    measured: Chosen | Grown,
    column: Column,
    q: float | Sequence[float],
    *,
    covers: Covers | None = None,
    confidence: Probability = 0.95,
) -> ColumnStatistic | Quantiles:
    """Read quantiles off the tree, or give the values of the intervals that were chosen."""
    shares = _shares(q)
    if isinstance(q, list | tuple | np.ndarray):
        return _several(measured, column, shares, covers, confidence)
    return _one(measured, column, shares[0], covers, confidence, f"quantile {shares[0]:g}")


def _shares(q: Any) -> list[float]:
    return [share(each) for each in (q if isinstance(q, list | tuple | np.ndarray) else [q])]


def _measured(
    curator: Curator,
    column: Column,
    shares: list[float],
    nan_policy: NanPolicy,
    step: float | None,
    covers: Covers | None,
) -> Chosen | Grown:
    """Measure in the way that is expected to be more accurate."""
    if choose_alone(curator, column, shares, step, covers):
        return chosen(curator, column, shares, nan_policy, step)
    return grown(curator, column, nan_policy, step)


@mechanism(columns={"column": "numeric"})
def median(
    curator: Curator, column: Column, *, step: Step | None = None, nan_policy: NanPolicy = "omit"
) -> Chosen | Grown:
    """Give the median of a column.

    Parameters
    ----------
    column : str
        A column with bounds. Values count as clipped to them.
    step : float, optional
        The distance of neighbouring values where it is public, such as 1 for whole numbers.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` leaves them out, ``"fill"`` counts them with the column's
        fill value, ``"raise"`` refuses them, where the column is public.
    confidence : float
        How sure the note is of the shares of rows between which the answer is a quantile.

    Returns
    -------
    ColumnStatistic
        The median, without an interval of values; ``view.quantile(column, covers="table")`` has one.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** As one of `quantile`: pure ε-differential privacy by the exponential mechanism [1]_.

    References
    ----------
    .. [1] Smith (2011). Privacy-preserving statistical estimation with optimal convergence rates. STOC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 27, 40, 30] * 5000})
    >>> view = dp.protect(df, "eda-median", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
    >>> float(view.median("age", step=1, epsilon=0.5))
    30.0
    """
    return _measured(curator, column, [0.5], nan_policy, step, None)


@median.concludes
def _(measured: Chosen | Grown, column: Column, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Give the value of the interval that was chosen."""
    return _one(measured, column, 0.5, None, confidence, "median")


def _one(
    measured: Chosen | Grown, column: Column, q: float, covers: Covers | None, confidence: float, name: str
) -> ColumnStatistic:
    """Give one quantile alone."""
    release = _several(measured, column, [q], covers, confidence)
    low, high = release.low, release.high
    noise = None
    if low is not None and high is not None:
        noise = (high[0] - low[0]) / (2 * float(ndtri((1 + confidence) / 2))) if any(release.spreads) else 0.0
    return ColumnStatistic(
        value=release.values[0],
        low=None if low is None else low[0],
        high=None if high is None else high[0],
        confidence=confidence,
        noise_standard_error=noise,
        statistic=name,
        column=release.column,
        covers=release.covers,
        bounds=release.bounds,
        count=release.count,
        missing=release.missing,
        missing_standard_error=release.missing_standard_error,
        notes=release.notes,
    )


def _alone(measured: Chosen, column: Column, shares: list[float], confidence: float) -> Quantiles:
    """Say between which shares of rows the chosen intervals have their quantiles."""
    n, off = measured.size, measured.rows(confidence)
    low, high = np.clip([np.array(shares) + sign * np.array(off) / max(n or 0, 1) for sign in (-1, 1)], 0, 1)
    told = [
        f"of {q:g} of the rows, but for {rows:.0f} rows"
        + (f": of a share from {a:.3f} to {b:.3f} of all" if n is not None and b - a < 1 else "")
        for q, rows, a, b in zip(shares, off, low, high, strict=True)
    ]
    what = "It is a quantile" if len(shares) == 1 else "They are quantiles"
    nothing = "Uninformative: " if n is not None and (high - low >= 1).any() else ""
    note = f"{nothing}{what} of the table {'; '.join(told)} (at {confidence:.0%})."
    values = np.array(measured.values(column))
    values[np.argsort(shares, kind="stable")] = np.sort(values)
    return Quantiles(
        column=column.name,
        q=tuple(shares),
        values=tuple(values.tolist()),
        low=None,
        high=None,
        confidence=confidence,
        bounds=(column.low, column.high),
        count=None if n is None else float(n),
        missing=None,
        missing_standard_error=None,
        notes=(note, "Intervals of values come with covers='table', and more noise."),
    )


def _several(
    measured: Chosen | Grown, column: Column, shares: list[float], covers: Covers | None, confidence: float
) -> Quantiles:
    if isinstance(measured, Chosen):
        return _alone(measured, column, shares, confidence)
    tree, plan = measured.tree, measured.layout
    z = float(ndtri((1 + confidence) / 2))
    low, high = tree.intervals(shares, z, population=covers == "population")
    notes: tuple[str, ...] = ()
    if ((high - low) > _WIDE * (column.high - column.low)).any():
        notes = (
            "Uninformative: an interval spans more than half of the bounds, of too little data for this epsilon.",
        )
    left, error = measured.missing

    def within(values: NDArray[np.float64]) -> tuple[float, ...]:
        return tuple(np.clip(values, column.low, column.high).tolist())

    return Quantiles(
        column=column.name,
        q=tuple(shares),
        values=within(tree.quantiles(shares)),
        low=within(low),
        high=within(high),
        confidence=confidence,
        covers=covers or "table",
        bounds=(column.low, column.high),
        count=tree.total,
        missing=left,
        missing_standard_error=error,
        notes=notes,
        leaves=tree.leaves,
        grid=(plan.low, plan.step),
        whole=plan.whole,
        ends=plan.ends,
        sizes=tree.sizes,
        spreads=tuple(float(np.max(each)) for each in tree.spreads),  # which are alike: all of it was measured
    )
