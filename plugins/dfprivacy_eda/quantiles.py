"""Quantiles: one by the exponential mechanism, several from one tree of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, Column, Curator, Probability, Range, features, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.statistics import OfSums
from dfprivacy_eda.ranked import Quantiles, share
from dfprivacy_eda.results import ColumnStatistic
from dfprivacy_eda.tree import Tree, least_squares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.release import NoisyValue

__all__ = [
    "Grown",
    "Layout",
    "RankOfLeaf",
    "layout",
    "median",
    "median_asked",
    "quantile",
    "quantile_asked",
    "rows_of",
]

Covers = Literal["table", "population"]
Step = Annotated[float, Range(0, exclusive="low")]
_LEAVES = 16**3
# Rows times epsilon, up to which 256 leaves, and 1,024, are about as accurate as more, and drawn sooner; measured.
_FEW, _MANY = 1_500.0, 20_000.0
_UNKNOWN = 10_000  # rows that a table is taken to have where that is private
_WIDE = 1 / 2


@dataclass(frozen=True)
class Layout:
    """How a tree of counts lies over a column.

    Attributes
    ----------
    low, step : float
        The lowest edge, and the width of an interval.
    sizes : tuple of int
        Nodes of each level below the root; the last is that of the intervals.
    weights : tuple of int
        The part of the budget that goes to each level.
    whole : bool
        Whether each interval stands for one value.
    ends : tuple of two float, optional
        The lowest and highest value, if the first and the last interval are for these two values alone: they lie
        outside of them.
    """

    low: float
    step: float
    sizes: tuple[int, ...]
    weights: tuple[int, ...]
    whole: bool
    ends: tuple[float, float] | None = None

    @property
    def edges(self) -> NDArray[np.float64]:
        """Edges of the intervals."""
        edges: NDArray[np.float64] = self.low + self.step * np.arange(self.sizes[-1] + 1, dtype=np.float64)
        return edges

    @property
    def cuts(self) -> NDArray[np.float64]:
        """Edges at which rows are told apart: as an interval holds its lower edge, the lowest value ends above."""
        cuts = self.edges
        if self.ends is not None:
            cuts[1], cuts[-2] = np.nextafter(self.ends[0], np.inf), self.ends[1]
        return cuts

    def features(self, column: Column, *, missing: bool, root: bool) -> features.Bins:
        """Count rows in all nodes, in that of the root if their number is private, and those without a value."""
        sizes, weights = ((1, *self.sizes), (1, *self.weights)) if root else (self.sizes, self.weights)
        widths = tuple(self.sizes[-1] // size for size in sizes)
        return features.Bins(column, self.cuts, widths=widths, weights=weights, missing=missing)


def layout(column: Column, step: float | None, rows: float) -> Layout:
    """Choose the tree: 16 branches a node or fewer, and as many leaves as the values, or the rows, are worth.

    Without a step the first interval and the last are for the bounds themselves: many rows may lie there, and
    values outside do, and a quantile among them is that value and nothing beside it.

    Parameters
    ----------
    column : Column
        A column with bounds.
    step : float or None
        The distance of neighbouring values, if all are the lower bound plus multiples of it.
    rows : float
        The public number of rows times epsilon; infinity for the finest tree.

    Returns
    -------
    Layout
        The tree.
    """
    if step is None:
        sizes = (16, 256) if rows < _FEW else (16, 256, 1024) if rows < _MANY else (16, 256, 4096)
        weights = (3, 2) if len(sizes) == 2 else (4, 3, 2)  # noqa: PLR2004
        width = (column.high - column.low) / (sizes[-1] - 2)
        ended = Layout(column.low - width, width, sizes, weights, whole=False, ends=(column.low, column.high))
        if np.isfinite(ended.edges).all() and (np.diff(ended.cuts) > 0).all():
            return ended
        return Layout(column.low, (column.high - column.low) / sizes[-1], sizes, weights, whole=False)
    values = (column.high - column.low) / step + 1
    count = round(values)
    if count > _LEAVES or count < 2 or abs(values - count) > 1e-9 * count:  # noqa: PLR2004
        raise ArgumentError(
            f"From {column.low:g} to {column.high:g} there are no 2 to {_LEAVES:,} values in steps of {step:g}.",
            "Leave step= out where values lie anywhere between the bounds.",
        )
    above = tuple(16 ** (level + 1) for level in range(3) if 16 ** (level + 1) < count)[:2]
    most = above[-1] if above else 1
    sizes = (*above, most * math.ceil(count / most))
    return Layout(column.low - step / 2, step, sizes, ((1,), (1, 1), (4, 3, 2))[len(above)], whole=True)


def rows_of(curator: Curator, share: Fraction = Fraction(1)) -> float:
    """Give the number of rows, the same for all groups, or what a private one is taken to be, times an epsilon."""
    rows = None if curator.size is None else curator.typical_size
    return (_UNKNOWN if rows is None else rows) * curator.epsilon * float(share)


@dataclass(frozen=True)
class Grown:
    """A measured tree: its layout, and the rows without a value where they were counted."""

    layout: Layout
    tree: Tree
    missing: tuple[float | None, float | None]

    @classmethod
    def of(
        cls,
        plan: Layout,
        measured: NoisyValue,
        *,
        missing: bool,
        rows: tuple[float, float] | None,
        root: bool,
        none_missing: bool = False,
    ) -> Grown:
        """Make noisy counts consistent; `rows` is the number of all rows and its variance, None where unknown."""
        values, variances = measured.values, 2 * measured.scales**2
        left: tuple[float | None, float | None] = (0.0, 0.0) if none_missing else (None, None)
        gone, spread = 0.0, 0.0
        if missing:
            gone, spread = float(values[-1]), float(variances[-1])
            left = gone, math.sqrt(spread)
        sizes = (1, *plan.sizes) if root else plan.sizes
        ends = np.cumsum(sizes)
        levels = [values[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        noise = [float(variances[end - 1]) for end in ends]
        if rows is not None:
            levels.insert(0, np.array([rows[0] - gone]))
            noise.insert(0, rows[1] + spread)
        leaves, spreads = least_squares(levels, noise)
        return cls(plan, Tree(plan.edges, (1, *plan.sizes), leaves, spreads, plan.whole, plan.ends), left)


class RankOfLeaf(OfSums):
    """How far each interval is from holding a quantile: minus the rows by which it lies too low or too high.

    With C(k) the rows in the intervals up to k and n all of them: -max(0, C(k-1) - q n, q n - C(k)). Where a
    row changes, each count moves by at most 1 and n only if the value comes or goes, so that C - q n moves by 1
    at most; where a row comes or goes, by q or 1 - q.
    """

    error = 1e-6  # of q n, for up to 2^32 rows

    def __init__(self, counts: features.RowFeatures, q: float) -> None:
        self.features = counts
        self.columns = counts.columns
        self.shape = counts.shape
        self.q = q

    def value(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the scores of all intervals from the counts."""
        up_to = np.cumsum(sums)
        target = self.q * up_to[-1]
        found: NDArray[np.float64] = -np.maximum(0, np.maximum(up_to - sums - target, target - up_to))
        return found

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far a score moves."""
        most = 1.0 if relation == "replace_one" else max(self.q, 1 - self.q)
        return most if norm == math.inf else most * self.dimension ** (1 / norm)


@dataclass(frozen=True)
class Chosen:
    """The interval that was chosen for a quantile, and how many rows it may be off by."""

    layout: Layout
    leaf: int
    scale: float
    size: int | None


def grown(curator: Curator, column: Column, nan_policy: NanPolicy, step: float | None) -> Grown:
    """Measure a tree of counts of one column."""
    n, gaps = curator.size, curator.gaps([column], nan_policy)
    plan = layout(column, step, rows_of(curator))
    measured = curator.sum(plan.features(column, missing=bool(gaps), root=n is None))
    whole = None if n is None else (float(n), 0.0)
    nothing = not (gaps or column.filled or nan_policy == "fill")
    return Grown.of(plan, measured, missing=bool(gaps), rows=whole, root=n is None, none_missing=nothing)


def chosen(curator: Curator, column: Column, q: float, nan_policy: NanPolicy, step: float | None) -> Chosen | Grown:
    """Choose one interval by the exponential mechanism; of what is public, all counts are free."""
    n = curator.size
    if column.public and n is not None:
        return grown(curator, column, nan_policy, step)
    gaps = curator.gaps([column], nan_policy)
    plan = layout(column, step, math.inf)
    counts: features.RowFeatures = features.Bins(column, plan.cuts)
    counts = features.Given(*gaps, of=counts) if gaps else counts
    (leaf,) = curator.select(RankOfLeaf(counts, q))
    return Chosen(plan, int(leaf), curator.measured[-1].scale, n)


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
    nodes of a tree over the bounds, 16 branches a node, with discrete Laplace noise; a row is in one node of
    each level, and the levels share ε by 4, 3 and 2, or by 3 and 2 [1]_. One alone: the exponential mechanism
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
    found = _several(measured, column, shares, covers, confidence)
    return found if several else _first(found, f"quantile {shares[0]:g}")


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
    note = f"It is a quantile of the table of {q:g} of the rows, but for {off} (at {confidence:.0%})."
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
        notes=notes,
    )


def _several(measured: Grown, column: Column, shares: list[float], covers: Covers, confidence: float) -> Quantiles:
    tree, plan = measured.tree, measured.layout
    z = float(ndtri((1 + confidence) / 2))
    low, high = tree.intervals(shares, z, population=covers == "population")
    notes: tuple[str, ...] = ()
    if ((high - low) > _WIDE * (column.high - column.low)).any():
        notes = ("An interval spans more than half of the bounds: there is too little data for this epsilon.",)
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
        count=tree.total,
        missing=left,
        missing_standard_error=error,
        notes=notes,
        leaves=tree.leaves,
        grid=(plan.low, plan.step),
        whole=plan.whole,
        ends=plan.ends,
        sizes=tree.sizes,
        spreads=tree.spreads,
    )


def _first(found: Quantiles, name: str) -> ColumnStatistic:
    """Give the first of several quantiles alone."""
    z = float(ndtri((1 + found.confidence) / 2))
    return ColumnStatistic(
        value=found.values[0],
        low=found.low[0],
        high=found.high[0],
        confidence=found.confidence,
        noise_standard_error=(found.high[0] - found.low[0]) / (2 * z),
        statistic=name,
        column=found.column,
        covers=found.covers,
        count=found.count,
        missing=found.missing,
        missing_standard_error=found.missing_standard_error,
        notes=found.notes,
    )
