"""Quantiles: one by the exponential mechanism, several from one tree of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, Column, Curator, Probability, Range, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy_eda.choice import Chosen, chosen
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
) -> Chosen | Grown:
    """Give quantiles of a column: one alone, or several from one release.

    Parameters
    ----------
    column : str
        A column with bounds. Values count as clipped to them.
    q : float or list of float
        Shares of rows, from 0 to 1. A number: that quantile alone. A list: all of them, and afterwards any
        other and the cumulated shares, from one tree of counts.
    step : float, optional
        The distance of neighbouring values where it is public, such as 1 for whole numbers: then the answer is one
        of them, and more accurate.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` leaves them out, ``"fill"`` counts them with the column's
        fill value, ``"raise"`` refuses them, where the column is public.
    covers : {"table", "population"}
        What the intervals are for: the table's own quantile, as a dataframe has it, or that of a population of
        which the rows are a sample. One quantile alone has the first only.
    confidence : float
        Coverage of the intervals, each on its own.

    Returns
    -------
    ColumnStatistic or Quantiles
        One alone has no interval of values: a note says of which shares of rows it is a quantile.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. Several: counts of the
    nodes of a tree over the bounds, up to 20 branches a node, with discrete Laplace noise; a row is in one node of
    each level, and the levels share ε by 4, 3 and 2, or by 2 and 3 [1]_. One alone: the exponential mechanism
    (permute-and-flip where epsilons add up) among 4,096 intervals, with the rows as the score by which each is
    too low or too high, of sensitivity 1 where rows change and max(q, 1-q) where they come and go [2]_. Rows of
    equal values cost no accuracy.

    **Statistics.** Several: least squares over the tree for the intervals; counts that are not negative for the
    values. A quantile among rows that lie at a bound, or beyond, is that bound exactly. Where values lie all over
    the bounds, up to three quantiles are nearer in rank if each is asked for alone, at its part of ε.
    docs/explanation/exploration.md has the proofs, docs/benchmarks.md what was measured.

    References
    ----------
    .. [1] Hay, Rastogi, Miklau and Suciu (2010). Boosting the accuracy of differentially private histograms through
       consistency. VLDB.
    .. [2] Smith (2011). Privacy-preserving statistical estimation with optimal convergence rates. STOC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 5000})
    >>> view = dp.protect(df, "eda-quantile", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
    >>> [round(x) for x in view.quantile("age", [0.1, 0.9], step=1, epsilon=0.5).values]
    [22, 40]
    """
    if isinstance(q, list | tuple | np.ndarray):
        return grown(curator, column, nan_policy, step)
    return chosen(curator, column, float(q), nan_policy, step)  # type: ignore[arg-type]


@quantile.concludes
def _(
    measured: Chosen | Grown,
    column: Column,
    q: float | Sequence[float],
    *,
    covers: Covers = "table",
    confidence: Probability = 0.95,
) -> ColumnStatistic | Quantiles:
    """Read quantiles off the tree, or give the value of the interval that was chosen."""
    several = isinstance(q, list | tuple | np.ndarray)
    shares = [share(each) for each in (q if isinstance(q, list | tuple | np.ndarray) else [q])]
    if isinstance(measured, Chosen):
        return _one(measured, column, shares[0], confidence, f"quantile {shares[0]:g}")
    release = _several(measured, column, shares, covers, confidence)
    return release if several else _first(release, f"quantile {shares[0]:g}")


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
        The median, without an interval of values; ``view.quantile(column, [0.5])`` has one.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** As one quantile alone of `quantile`: pure ε-differential privacy by the exponential mechanism [1]_.

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
    return chosen(curator, column, 0.5, nan_policy, step)


@median.concludes
def _(measured: Chosen | Grown, column: Column, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Give the value of the interval that was chosen."""
    if isinstance(measured, Chosen):
        return _one(measured, column, 0.5, confidence, "median")
    return _first(_several(measured, column, [0.5], "table", confidence), "median")


def _one(measured: Chosen, column: Column, q: float, confidence: float, name: str) -> ColumnStatistic:
    """Say between which shares of rows the chosen interval has its quantile.

    Of L intervals, one whose score is below -b ln(L/α) is chosen with probability α at most, b the scale.
    """
    plan = measured.layout
    rows = measured.scale * math.log(plan.sizes[-1] / (1 - confidence))
    value = float(plan.low + plan.step * (measured.leaf + (0.5 if plan.whole else 0.0)))
    off = f"{rows:.0f} rows"
    if measured.size is not None:
        low, high = (min(max(q + sign * rows / max(measured.size, 1), 0.0), 1.0) for sign in (-1, 1))
        off += f": of a share from {low:.3f} to {high:.3f} of all" if high - low < 1 else ", which may be any share"
    nothing = "Uninformative: " if measured.size is not None and high - low >= 1 else ""
    note = f"{nothing}It is a quantile of the table of {q:g} of the rows, but for {off} (at {confidence:.0%})."
    notes = (note, f"An interval of values comes with several quantiles: quantile({column.name!r}, [{q:g}]).")
    return ColumnStatistic(
        value=min(max(value, column.low), column.high),
        low=None,
        high=None,
        confidence=confidence,
        noise_standard_error=None,
        statistic=name,
        column=column.name,
        count=None if measured.size is None else float(measured.size),
        bounds=(column.low, column.high),
        notes=notes,
    )


def _several(measured: Grown, column: Column, shares: list[float], covers: Covers, confidence: float) -> Quantiles:
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
        covers=covers,
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


def _first(release: Quantiles, name: str) -> ColumnStatistic:
    """Give the first of several quantiles alone."""
    z = float(ndtri((1 + release.confidence) / 2))
    return ColumnStatistic(
        value=release.values[0],
        low=release.low[0],
        high=release.high[0],
        confidence=release.confidence,
        noise_standard_error=(release.high[0] - release.low[0]) / (2 * z) if any(release.spreads) else 0.0,
        statistic=name,
        column=release.column,
        covers=release.covers,
        bounds=release.bounds,
        count=release.count,
        missing=release.missing,
        missing_standard_error=release.missing_standard_error,
        notes=release.notes,
    )
