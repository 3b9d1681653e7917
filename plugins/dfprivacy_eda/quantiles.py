"""Quantiles of a column: a few by the exponential mechanism, many from one tree of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, Column, Curator, Probability, Range, Release, features, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.markup import Grid
from dfprivacy.plotting import axes, text_color
from dfprivacy.schema import as_number
from dfprivacy.statistics import OfSums
from dfprivacy.wording import interval_text, limit_suffix, number, rows_phrase, rows_text, uncertainty, with_unit
from dfprivacy_eda.results import BAR, SURE, ColumnStatistic, interval_label, legend, missing_row, rank_ranges
from dfprivacy_eda.tree import (
    CountTree,
    Layout,
    Tree,
    choose_intervals,
    choose_layout,
    measure_tree,
    rows_epsilon,
    rows_for_intervals,
    tree_error,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.arguments import NanPolicy

__all__ = [
    "Quantiles",
    "RankOfLeaf",
    "SelectedIntervals",
    "check_quantile",
    "median",
    "quantile",
    "selects_separately",
]

_MIN_TAIL = 11.0  # scales of the choice: with fewer rows beside a quantile, what is far away adds up
_CLEARLY_BETTER = 0.75
_TAIL_SHARE = 0.002  # of the rows, at each side, that a curve may leave out


class RankOfLeaf(OfSums):
    """Score of each interval for a quantile: minus the number of rows between the interval and the quantile.

    With C(k) the rows in the intervals up to k and n all of them: -max(0, C(k-1) - q n, q n - C(k)). Where a
    row changes, each count moves by at most 1 and n only if the value comes or goes, so that C - q n moves by 1
    at most; where a row comes or goes, by q or 1 - q.
    """

    description = "the intervals of {columns} by nearness to the quantile"
    error = 1e-6  # of q n, for up to 2^32 rows

    def __init__(self, counts: features.RowFeatures, q: float) -> None:
        self.features = counts
        self.columns = counts.columns
        self.shape = counts.shape
        self.q = q

    def value(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the scores of all intervals from the counts of rows in them."""
        up_to = np.cumsum(sums)
        target = self.q * up_to[-1]
        ranks: NDArray[np.float64] = -np.maximum(0, np.maximum(up_to - sums - target, target - up_to))
        return ranks

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the largest change of a score if one row changes, or is added or removed."""
        most = 1.0 if relation == "replace_one" else max(self.q, 1 - self.q)
        return most if norm == math.inf else most * self.dimension ** (1 / norm)


@dataclass(frozen=True)
class SelectedIntervals:
    """Interval selected for each quantile, and the noise scale of each selection, in rows."""

    layout: Layout
    leaves: tuple[int, ...]
    scales: tuple[float, ...]
    size: int | None

    def values(self, column: Column) -> list[float]:
        """Return the midpoint of each selected interval, clipped to the bounds of the column."""
        middles = self.layout.low + self.layout.step * (np.array(self.leaves) + 0.5)
        return [float(value) for value in np.clip(middles, column.low, column.high)]

    def row_errors(self, confidence: float) -> list[float]:
        """Return an upper confidence bound for the error of each quantile, in rows.

        Of L intervals, one whose score is below -b ln(L/α) is chosen with probability α at most, b the scale.
        """
        return [scale * math.log(self.layout.sizes[-1] / (1 - confidence)) for scale in self.scales]


def selection_error(curator: Curator, shares: Sequence[float]) -> float:
    """Return the root mean square error, in rows, of separately selected quantiles of densely spaced values.

    One is off by r rows with probability in proportion to exp(-r / b), b the scale. It is infinite where a part of
    the rows so small is beside a quantile that the choice may be any value.
    """
    part = 2 * len(shares) / curator.epsilon
    scales = [part * (1.0 if curator.neighbors == "replace_one" else max(q, 1 - q)) for q in shares]
    rows = rows_epsilon(curator) / curator.epsilon
    if len(shares) > 1 and any(rows * min(q, 1 - q) < _MIN_TAIL * b for q, b in zip(shares, scales, strict=True)):
        return math.inf
    return math.sqrt(2 * sum(scale**2 for scale in scales) / len(scales))


def selects_separately(
    curator: Curator, column: Column, shares: Sequence[float], step: float | None, covers: str | None
) -> bool:
    """Return whether to select each quantile separately, which has smaller errors but no confidence intervals.

    Where it is about the same, a tree of counts is better, for it has intervals. Of what is public, all counts are
    free; and by group a choice is not proved where a person has several rows.
    """
    if covers is not None or not curator.decides or (column.public and curator.size is not None):
        return False
    of_tree = tree_error(curator, choose_layout(column, step, rows_epsilon(curator)))
    return selection_error(curator, shares) < _CLEARLY_BETTER * of_tree


def select_intervals(
    curator: Curator, column: Column, shares: Sequence[float], nan_policy: NanPolicy, step: float | None
) -> SelectedIntervals:
    """Select an interval for each quantile by the exponential mechanism, with equal parts of the budget."""
    gaps = curator.gaps([column], nan_policy)
    rows = rows_for_intervals(curator)
    leaves, scales = [], []
    for q in shares:
        ranks = _rank_scores(column, gaps, q, step, rows)
        leaves.append(int(curator.select(ranks, share=Fraction(1, len(shares)))[0]))
        scales.append(curator.measured[-1].scale)
    return SelectedIntervals(choose_intervals(column, step, rows), tuple(leaves), tuple(scales), curator.size)


def _rank_scores(column: Column, gaps: tuple[Column, ...], q: float, step: float | None, rows: float) -> RankOfLeaf:
    counts: features.RowFeatures = features.Bins(column, choose_intervals(column, step, rows).half_open_edges)
    return RankOfLeaf(features.Given(*gaps, of=counts) if gaps else counts, q)


@dataclass(frozen=True, kw_only=True, repr=False)
class Quantiles(Release):
    """Quantiles of one column, computed from a tree of noisy counts or each selected separately.

    ``to_frame()`` has a row for each, with the columns q, value, low and high. Those that were chosen alone have no
    interval, and none of what begins with `leaves`.

    Attributes
    ----------
    column : str
        The column.
    q : tuple of float
        The shares of rows that were asked for.
    values : tuple of float
        The quantile of each.
    low, high : tuple of float or None
        Ends of an interval for each; None where the notes say how sure they are.
    confidence : float
        Coverage of each interval.
    covers : {"table", "population", "sample"}
        What the intervals are for, as in `ColumnStatistic`.
    bounds : tuple of two float
        The column's bounds. A quantile at one may lie beyond it, for values there were limited.
    count : float or None
        Rows that the quantiles are about; noisy where that is private, or None.
    missing, missing_standard_error : float or None
        As for `ColumnStatistic`.
    notes : tuple of str
        What to know before trusting the numbers.
    leaves : ndarray of shape (N,)
        Noisy counts of N equal intervals, made consistent: unbiased, negative at times.
    grid : tuple of two float
        The lowest edge of the intervals, and their width.
    whole : bool
        Whether each interval stands for one value, its middle.
    ends : tuple of two float or None
        The lowest and highest value, if the first interval and the last are for these two alone.
    sizes : tuple of int
        Nodes on each level of the tree of counts.
    spreads : tuple of float
        Variance of a count on each level.
    """

    column: str
    q: tuple[float, ...]
    values: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    confidence: float
    covers: str | None = "table"
    bounds: tuple[float, float] | None = None
    count: float | None
    missing: float | None = None
    missing_standard_error: float | None = None
    notes: tuple[str, ...]
    leaves: NDArray[np.float64] | None = None
    grid: tuple[float, float] | None = None
    whole: bool = False
    sizes: tuple[int, ...] = ()
    spreads: tuple[float, ...] = ()
    ends: tuple[float, float] | None = None

    _row_counts = ("count",)

    @cached_property
    def tree(self) -> Tree:
        """Tree of noisy counts that determines all quantiles of the column."""
        if self.leaves is None or self.grid is None:
            raise ArgumentError(
                "Only the released quantiles are known, since each was selected separately.",
                "Use covers='table': its tree of counts gives all other quantiles.",
            )
        plan = Layout(*self.grid, self.sizes[1:], (), self.whole, self.ends)
        return Tree(plan, self.leaves, self.spreads)

    def quantile(self, q: float) -> float:
        """Compute any other quantile from the released tree of counts, at no cost.

        Parameters
        ----------
        q : float
            The share of rows at or below it, from 0 to 1.

        Returns
        -------
        float
            The quantile.

        Raises
        ------
        ArgumentError
            If the released quantiles were each chosen alone.
        """
        return float(self.tree.quantiles([checked_share(q)])[0])

    def cdf(self, x: float) -> float:
        """Compute the share of rows at or below a value from the released tree of counts, at no cost.

        Parameters
        ----------
        x : float
            The value.

        Returns
        -------
        float
            The share, linear between the edges of the counts.

        Raises
        ------
        ArgumentError
            If the released quantiles were each chosen alone.
        """
        rows, _ = self.tree.rows_below([np.nextafter(as_number(x, "x"), np.inf)])
        return float(rows[0]) / self.tree.total if self.tree.total > 0 else math.nan

    @property
    def frame(self) -> Any:
        """Table with a row for each quantile: the share, the value, and its interval."""
        return self._table({name: list(cells) for name, cells in self._tidy()[0].items()})

    def _tidy(self) -> list[dict[str, Any]]:
        low, high = zip(*self._intervals, strict=True)
        return [{"q": self.q, "value": self.values, "low": low, "high": high}]

    @property
    def _intervals(self) -> list[tuple[float, float] | tuple[None, None]]:
        if self.low is None or self.high is None:
            return [(None, None)] * len(self.q)
        return [*zip(self.low, self.high, strict=True)]

    def _value_text(self, at: int) -> str:
        low, high = self._intervals[at]
        error = None if low is None or high is None else (high - low) / 4
        return number(self.values[at], error)

    def _sentence(self) -> str:
        """Write a sentence with the quantiles; of many quantiles, the first, the middle and the last."""
        unit = self._unit(self.column)
        noisy = self.covers != "population" and any(self.spreads)
        of = rows_phrase(self.covers or "") + ": privacy noise only, no sampling error" * noisy
        last = len(self.q) - 1
        told = []
        ranges = rank_ranges(self.notes) if self.low is None else []
        for at in sorted({0, last // 2, last}):
            low, high = self._intervals[at]
            value = with_unit(self._value_text(at), unit) + limit_suffix(self.values[at], self.bounds)
            ends = uncertainty(low, high, self.confidence, whose="", bounds=self.bounds)
            how = f", {ranges[at]}" if ranges else ends
            told.append(f"the {100 * self.q[at]:.4g}% quantile is {value}{how}")
        intervals = "" if self.low is None else f" The intervals are for {of}."
        sure = f" ({100 * self.confidence:.4g}% CI; privacy noise only)" if ranges else ""
        return f"Of {self._label(self.column)}, {'; '.join(told)}{sure}.{intervals}"

    def _grid(self) -> Grid:
        rows = []
        for at, (q, value, (low, high)) in enumerate(zip(self.q, self.values, self._intervals, strict=True)):
            sides = "" if low is None or high is None else interval_text(low, high, bounds=self.bounds)
            rows.append((f"{q:.4g}", self._value_text(at) + limit_suffix(value, self.bounds), sides))
        heads = ("q", self.column, f"{100 * self.confidence:.4g}% CI")
        told = 2 if self.low is None else 3  # where no value has an interval, no column is headed so
        return Grid(heads[:told], [row[:told] for row in rows])

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("intervals", "each on its own")] if self.low is not None else []
        error = math.sqrt(self.spreads[0]) if self.spreads else None
        rows += [] if self.count is None else [("rows", rows_text(self.count, error))]
        rows += missing_row(self.missing, self.missing_standard_error)
        return [*rows, *(("note", note) for note in self.notes)]

    def plot(self, ax: Any = None) -> Any:
        """Draw the quantiles; with a tree of counts, also the distribution function with an error band."""
        ax, known = axes(ax, height=3.0), self.low is not None
        places = [*self.values, *(self._draw_cdf(ax) if known else ())]
        label = "" if known else "released; the notes give the errors of these quantiles"
        ax.plot(self.values, self.q, "o", ms=4, color=SURE, label=label)
        first, last = min(places), max(places)
        room = 0.02 * (last - first) or 1.0
        ax.set(xlabel=self._with_units(self.column), ylabel="share of rows", ylim=(0, 1))
        ax.set_xlim(first - room, last + room)
        return legend(ax, loc="lower right")

    def _draw_cdf(self, ax: Any) -> list[float]:
        """Draw the distribution function with a band of two standard errors; return values to be shown."""
        tree, low, high = self.tree, self.low or (), self.high or ()
        rows, error = tree.rows_below(tree.edges)
        at, how = tree.edges if tree.layout.ends is None else np.clip(tree.edges, *tree.layout.ends), {}
        if tree.layout.whole:  # shares up to a value, which holds up to the next
            at, rows, error, how = (tree.edges[1:] + tree.edges[:-1]) / 2, rows[1:], error[1:], {"step": "post"}
        total = max(tree.total, 1.0)
        ends = [np.clip((rows + sign * 2 * error) / total, 0, 1) for sign in (-1, 1)]
        ax.fill_between(at, *ends, **how, color=BAR, lw=0, label="± 2 standard errors")
        drawn = "share of rows up to a value"
        ax.plot(
            at, rows / total, color=text_color(ax), lw=1, drawstyle="steps-post" if how else "default", label=drawn
        )
        sides = interval_label(self.confidence, noise=self.covers != "population")
        ax.hlines(self.q, low, high, color=SURE, lw=2.5, label=sides)
        return [*low, *high, *tree.quantiles([_TAIL_SHARE, 1 - _TAIL_SHARE])]


def checked_share(q: object) -> float:
    """Return q as a float; raise an error if it is not a number from 0 to 1."""
    if isinstance(q, bool) or not isinstance(q, int | float | np.integer | np.floating) or not 0 <= q <= 1:
        raise ArgumentError(
            f"q={q!r} is not a share of rows.", "Use numbers from 0 to 1, such as 0.5 for the median."
        )
    return float(q)


Covers = Literal["table", "population"]
Step = Annotated[float, Range(0, exclusive="low")]
_WIDE_SHARE = 1 / 2  # of the bounds


def check_quantile(column: Column, q: Any = 0.5, *, step: float | None, **_: Any) -> None:
    """Check the arguments ``q`` and ``step`` of a quantile before anything is charged."""
    if not _requested_shares(q):
        raise ArgumentError("q= is empty.", "Give shares of rows, for example q=[0.25, 0.5, 0.75].")
    choose_layout(column, step, math.inf)


@mechanism(columns={"column": "numeric"})
def quantile(
    curator: Curator,
    column: Column,
    q: float | Sequence[float] = 0.5,
    *,
    step: Step | None = None,
    nan_policy: NanPolicy = "omit",
    covers: Covers | None = None,
) -> SelectedIntervals | CountTree:
    """Return quantiles of a column, by the method with the smallest expected error.

    Parameters
    ----------
    column : str
        A column with bounds. Values count as clipped to them.
    q : float or list of float
        Shares of rows, from 0 to 1: one, or a list.
    step : float, optional
        The distance of neighbouring values where it is public, such as 1 for integers: then the answer is one
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
    and at most 2^20 (as many if rows are private), with the rows as the score by which each is too low or too high,
    of sensitivity 1 where rows change and max(q, 1-q) where they come and go [1]_. Rows of equal values cost no
    accuracy. Many: counts of the nodes of a tree over the bounds, up to 20 branches a node, with discrete Laplace
    noise; a row is in one node of each level, and the levels share ε by 4, 3 and 2, or by 2 and 3 [2]_.

    **Statistics.** Which of the two follows from public numbers: the standard errors, in rows, that are expected of
    either. That of the first grows with the number of quantiles, that of the tree does not: it has four and
    more, or seven where the number of rows is large, and any number of them where rows times ε are few. From
    the tree there are intervals by least squares, and values from counts that are not negative. A quantile among
    rows that lie at a bound, or beyond, is that bound exactly.
    docs/explanation/exploration.md has the proofs, docs/benchmarks/exploration.md what was measured.

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
    shares = _requested_shares(q)
    if selects_separately(curator, column, shares, step, covers):
        return select_intervals(curator, column, shares, nan_policy, step)
    return measure_tree(curator, column, nan_policy, step)


@quantile.concludes
def conclude_quantile(
    measured: SelectedIntervals | CountTree,
    column: Column,
    q: float | Sequence[float],
    *,
    covers: Covers | None = None,
    confidence: Probability = 0.95,
) -> ColumnStatistic | Quantiles:
    """Compute the quantiles from the tree of counts, or from the selected intervals."""
    shares = _requested_shares(q)
    if isinstance(q, list | tuple | np.ndarray):
        return _quantiles(measured, column, shares, covers, confidence)
    return _single_quantile(measured, column, shares[0], covers, confidence, f"quantile {shares[0]:g}")


def _requested_shares(q: Any) -> list[float]:
    return [checked_share(each) for each in (q if isinstance(q, list | tuple | np.ndarray) else [q])]


@mechanism(columns={"column": "numeric"})
def median(
    curator: Curator, column: Column, *, step: Step | None = None, nan_policy: NanPolicy = "omit"
) -> SelectedIntervals | CountTree:
    """Return the median of a column.

    Parameters
    ----------
    column : str
        A column with bounds. Values count as clipped to them.
    step : float, optional
        The distance of neighbouring values where it is public, such as 1 for integers.
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
    measured: SelectedIntervals | CountTree = quantile.function(
        curator, column, 0.5, step=step, nan_policy=nan_policy
    )
    return measured


@median.concludes
def conclude_median(
    measured: SelectedIntervals | CountTree, column: Column, *, confidence: Probability = 0.95
) -> ColumnStatistic:
    """Compute the median from the tree of counts, or from the selected interval."""
    return _single_quantile(measured, column, 0.5, None, confidence, "median")


def _single_quantile(
    measured: SelectedIntervals | CountTree,
    column: Column,
    q: float,
    covers: Covers | None,
    confidence: float,
    name: str,
) -> ColumnStatistic:
    """Return a single quantile as a `ColumnStatistic`, with its interval if it has one."""
    release = _quantiles(measured, column, [q], covers, confidence)
    ((low, high),), noise = release._intervals, None  # noqa: SLF001 - of our own kind
    if low is not None and high is not None:
        noise = (high - low) / (2 * float(ndtri((1 + confidence) / 2))) if any(release.spreads) else 0.0
    same = ("column", "confidence", "covers", "bounds", "count", "missing", "missing_standard_error", "notes")
    return ColumnStatistic(
        value=release.values[0],
        low=low,
        high=high,
        noise_standard_error=noise,
        statistic=name,
        **{each: getattr(release, each) for each in same},
    )


def _quantiles(
    measured: SelectedIntervals | CountTree,
    column: Column,
    shares: list[float],
    covers: Covers | None,
    confidence: float,
) -> Quantiles:
    """Return quantiles from a tree of counts with intervals, or selected quantiles with notes on their errors."""
    if isinstance(measured, SelectedIntervals):
        known = _selected_quantile_fields(measured, column, shares, confidence)
    else:
        known = _tree_quantile_fields(measured, column, shares, covers, confidence)
    return Quantiles(
        column=column.name, q=tuple(shares), confidence=confidence, bounds=(column.low, column.high), **known
    )


def _selected_quantile_fields(
    measured: SelectedIntervals, column: Column, shares: list[float], confidence: float
) -> dict[str, Any]:
    """Return the fields of separately selected quantiles, with a note on their errors."""
    n, off = measured.size, measured.row_errors(confidence)
    low, high = np.clip([np.array(shares) + sign * np.array(off) / max(n or 0, 1) for sign in (-1, 1)], 0, 1)
    told = [
        f"between this table's {100 * a:.1f}% and {100 * b:.1f}% quantiles ({rows:.0f} rows either way)"
        if n is not None and b - a < 1
        else f"within {rows:.0f} rows of this table's {100 * q:.4g}% quantile"
        for q, rows, a, b in zip(shares, off, low, high, strict=True)
    ]
    what = "it lies" if len(shares) == 1 else "they lie"
    nothing = "Uninformative: " if n is not None and (high - low >= 1).any() else ""
    note = f"{nothing}At {confidence:.0%}, {what} {'; '.join(told)}."
    none = f"There is no interval in the units of {column.name}; "
    none += 'the argument covers="table" gives one, with more noise.'
    values = np.array(measured.values(column))
    values[np.argsort(shares, kind="stable")] = np.sort(values)
    return {
        "values": tuple(values.tolist()),
        "count": None if n is None else float(n),
        "notes": (note, none),
    }


def _tree_quantile_fields(
    measured: CountTree, column: Column, shares: list[float], covers: Covers | None, confidence: float
) -> dict[str, Any]:
    """Return the fields of quantiles from a tree of counts, with their intervals."""
    tree, plan = measured.tree, measured.layout
    ends = tree.intervals(shares, float(ndtri((1 + confidence) / 2)), population=covers == "population")
    values, low, high = (np.clip(each, column.low, column.high) for each in (tree.quantiles(shares), *ends))
    wide = ((ends[1] - ends[0]) > _WIDE_SHARE * (column.high - column.low)).any()
    few = "Uninformative: an interval spans more than half of the bounds: too little data for this epsilon."
    return {
        "values": tuple(values.tolist()),
        "low": tuple(low.tolist()),
        "high": tuple(high.tolist()),
        "covers": covers or "table",
        "count": tree.total,
        "missing": measured.missing[0],
        "missing_standard_error": measured.missing[1],
        "notes": (few,) * bool(wide),
        "leaves": tree.leaves,
        "grid": (plan.low, plan.step),
        "whole": plan.whole,
        "ends": plan.ends,
        "sizes": tree.sizes,
        "spreads": tuple(float(np.max(each)) for each in tree.spreads),  # which are alike: all of it was measured
    }
