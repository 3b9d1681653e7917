"""Search for bounds of columns without declared bounds, among 0 and positive and negative powers of two."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, NoisyValue, Release, features, mechanism
from dfprivacy.plotting import axes
from dfprivacy.schema import FoundPair
from dfprivacy.wording import number, with_unit
from dfprivacy_eda.results import SURE, legend

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BETA",
    "BEYOND",
    "EDGES",
    "RUN",
    "FoundBounds",
    "count_outer_intervals",
    "extended_range",
    "find_bounds",
    "rows_beyond",
    "sum_thresholds",
    "threshold",
]

_POWERS = 2.0 ** np.arange(-10, 32)
EDGES = np.concatenate([-_POWERS[::-1], [0.0], _POWERS])
_LISTED = 3  # columns in a sentence
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")  # colours of columns
BETA = 1e-4
"""The probability that an empty interval passes, and that a run of empty ones does, of all columns together."""
RUN = 16
"""Intervals whose rows are looked at together, at most."""
_ONE_SIDED = 1.645  # standard errors, which noise exceeds with probability 5 %


BEYOND = "Known bounds are better: values beyond found bounds are clipped to them, which can bias answers."
"""Note on found bounds."""


@dataclass(frozen=True, kw_only=True, repr=False)
class FoundBounds(Release):
    """Bounds that contain most values of each searched column.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    low, high : tuple of float or None
        Powers of two, their negatives or 0; None where no interval held enough rows.
    threshold : float
        What the noisy count of an interval had to exceed.
    counts : ndarray of shape (columns, intervals)
        The noisy counts, of the intervals between 0, ±2⁻¹⁰, …, ±2³¹ from the lowest on.
    notes : tuple of str
        What to know before using them.
    beyond : tuple of float or None
        At most so many rows lie beyond the bounds, with probability 0.95: from the noisy counts there.
    """

    columns: tuple[str, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    threshold: float
    counts: NDArray[np.float64]
    notes: tuple[str, ...]
    beyond: tuple[float | None, ...] = ()
    covers: str | None = "table"

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Found bounds by column, for the argument ``bounds`` of `protect`; marked as found, not declared."""
        ends = zip(self.columns, self.low, self.high, self.beyond or (None,) * len(self.columns), strict=True)
        return {
            name: FoundPair((low, high), math.inf if beyond is None else beyond)
            for name, low, high, beyond in ends
            if low is not None and high is not None
        }

    @property
    def schema(self) -> dict[str, Any]:
        """Schema with the found bounds, for `protect` and `~dfprivacy.PrivateFrame.declare`."""
        return {"bounds": self.bounds}

    def __getitem__(self, column: str) -> tuple[float, float]:
        if column not in self.bounds:
            raise ArgumentError(
                f"No bounds of {column!r} were found.", f"Columns with found bounds are {[*self.bounds]!r}."
            )
        return self.bounds[column]

    def _tidy(self) -> list[dict[str, Any]]:
        ends = {"low": self.low, "high": self.high, "beyond": self.beyond or None}
        return [{"column": self.columns, **ends, "threshold": self.threshold}]

    def _bounds_text(self, at: int) -> str:
        """Return the bounds of a column as text, with an upper limit of the number of rows beyond them."""
        low, high = self.low[at], self.high[at]
        if low is None or high is None:
            return "not found"
        ends = with_unit(f"{number(low)} to {number(high)}", self._unit(self.columns[at]))
        rows = self.beyond[at] if self.beyond else None
        return ends if rows is None else f"{ends}, with at most {rows:,.0f} rows beyond"

    def _sentence(self) -> str:
        """Write a sentence with the found bounds of each column."""
        told = [f"{self._label(name)} {self._bounds_text(at)}" for at, name in enumerate(self.columns[:_LISTED])]
        more = f"; and {len(self.columns) - _LISTED} more columns below" if len(self.columns) > _LISTED else ""
        return f"Bounds were found: {'; '.join(told)}{more} (95% confidence)."

    def plot(self, ax: Any = None) -> Any:
        """Draw the noisy number of rows in each interval, and the threshold for the count of a single interval."""
        ax, at = axes(ax, height=3.0), np.arange(len(EDGES))
        ends = zip(self.columns, self.counts, self.low, self.high, strict=True)
        for colour, (name, row, low, high) in zip(itertools.cycle(_COLOURS), ends, strict=False):
            interval = "not found" if low is None else f"{low:g} to {high:g}"
            ax.stairs(np.maximum(row, 0), at, color=colour, lw=1.5, label=f"{self._with_units(name)}: {interval}")
        ax.axhline(self.threshold, color=SURE, ls="--", label=f"threshold, {self.threshold:,.0f} rows")
        held = np.flatnonzero((self.counts > self.threshold).any(axis=0))
        if len(held):
            ax.set_xlim(max(int(held[0]) - 3, 0), min(int(held[-1]) + 4, at[-1]))
        first, last = (int(end) for end in ax.get_xlim())
        ticks = np.arange(max(first, 0), last + 1, max(1, (last - first) // 8))
        ax.set_xticks(ticks, [_edge_label(EDGES[tick]) for tick in ticks])
        ax.set(xlabel="value, in intervals between powers of two", ylabel="rows")
        ax.set_ylim(bottom=0)
        return legend(ax, loc="lower left", bbox_to_anchor=(0, 1))

    def _rows(self) -> list[tuple[str, str]]:
        rows = [(name, self._bounds_text(at)) for at, name in enumerate(self.columns)]
        return [*rows, *(("note", note) for note in self.notes)]


def _edge_label(edge: float) -> str:
    """Return the axis label of an interval edge: 0, or a positive or negative power of two."""
    return f"${'-' if edge < 0 else ''}2^{{{round(np.log2(abs(edge)))}}}$" if edge else "0"


def threshold(scale: float, columns: int) -> float:
    """Return a threshold that no noisy count of an empty interval exceeds, except with probability 10⁻⁴."""
    return scale * math.log(columns * (len(EDGES) - 1) / (2 * BETA))


def sum_thresholds(scale: float, columns: int) -> NDArray[np.float64]:
    """Return thresholds for sums of 1, 2, … adjacent noisy counts, which empty intervals hardly ever exceed.

    One interval has `threshold`; any run of several empty ones of some columns exceeds its own with probability
    10⁻⁴ at most, all together.
    """
    u, m = np.linspace(0.01, 0.99, 99), np.arange(1, RUN + 1)[:, None]
    level = math.log(columns * (len(EDGES) - 1) * RUN / BETA)
    limits: NDArray[np.float64] = scale * ((level - m * np.log1p(-u * u)) / u).min(axis=1)
    limits[0] = threshold(scale, columns)
    return limits


def count_outer_intervals(counts: NDArray[np.float64], limits: NDArray[np.float64]) -> int:
    """Return the number of intervals by which to extend a bound, while sums of noisy counts exceed thresholds.

    Parameters
    ----------
    counts : ndarray
        Noisy number of rows in each interval, from the bound outwards.
    limits : ndarray
        Thresholds for the sums of the counts of the next 1, 2, … intervals.

    Returns
    -------
    int
        Number of intervals by which to extend the bound.

    Examples
    --------
    >>> count_outer_intervals(np.array([60.0, 70, 65, 2, -3]), np.array([100.0, 120, 130, 140, 150]))
    2
    """
    at, most = 0, len(limits)
    while len(passed := np.flatnonzero((sums := np.cumsum(counts[at : at + most])) > limits[: len(sums)])):
        at += int(passed[0]) + 1
    return at


def rows_beyond(counts: NDArray[np.float64], error: float, rows: int | None) -> float:
    """Return a 95% upper confidence bound of the number of rows in some intervals, from their noisy counts."""
    most = max(float(counts.sum()), 0.0) + _ONE_SIDED * error * math.sqrt(counts.size)
    return min(most, math.inf if rows is None else rows)


def extended_range(
    counts: NDArray[np.float64], first: int, last: int, limits: NDArray[np.float64], error: float, rows: int | None
) -> tuple[int, int, float]:
    """Extend a range of intervals to all detected rows; return it with an upper bound of the rows beyond."""
    first, last = (
        first - count_outer_intervals(counts[:first][::-1], limits),
        last + count_outer_intervals(counts[last:], limits),
    )
    return first, last, rows_beyond(np.append(counts[:first], counts[last:]), error, rows)


@mechanism(columns={"columns": "all"})
def find_bounds(curator: Curator, columns: tuple[Column, ...]) -> tuple[NoisyValue, int | None]:
    """Find bounds of columns without declared bounds.

    Parameters
    ----------
    columns : list of str
        Columns of numbers; bounds that were declared are not used.

    Returns
    -------
    FoundBounds
        Bounds by column, in ``bounds``: what `protect` takes, or `PrivateFrame.declare` to use them at once.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation: counts of the intervals
    between 0, ±2⁻¹⁰, …, ±2³¹, with discrete Laplace noise; a row is in one interval of each column, so the
    sensitivity is 2 for each column where rows change, 1 where they come and go [1]_. Missing values count
    nowhere.

    **Statistics.** The bounds are the outer ends of the first and the last interval whose noisy count exceeds b
    ln(B/2β), with b the scale of the noise, B the intervals of all columns and β = 10⁻⁴: that is how often an
    empty interval passes. They reach further where up to 16 intervals hold clearly some rows together, and a run
    of empty ones passes as rarely. Values beyond are limited to the bounds, and so are the answers that follow: of
    how many rows at most, the noisy counts beyond tell. Known bounds are better.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"income": [18_000, 31_000, 27_000, 40_000] * 500})
    >>> view = dp.protect(df, "eda-bounds", epsilon=1, ledger="memory:")
    >>> view.find_bounds(["income"], epsilon=0.5).bounds
    {'income': (16384.0, 65536.0)}
    >>> found = view.find_bounds(["income"], epsilon=0.5)  # answered from the ledger
    >>> 28_000 < float(view.declare(found).mean("income", epsilon=0.5)) < 30_000
    True
    """
    every: list[features.RowFeatures] = []
    for column in columns:
        wide = replace(column, bounds=(float(EDGES[0]), float(EDGES[-1])), categories=None, other=False, fill=0.0)
        wide = replace(wide, find=False, beyond=None)
        every.append(features.Given(wide, of=features.Bins(wide, EDGES)))
    return curator.sum(features.Stack(*every)), curator.size


@find_bounds.concludes
def conclude_find_bounds(measured: tuple[NoisyValue, int | None], columns: tuple[Column, ...]) -> FoundBounds:
    """Compute the bounds of each column from the intervals whose noisy counts exceed thresholds."""
    noisy, rows = measured
    scale, every = float(np.max(noisy.scales)), [part.values for part in noisy.parts]
    least, limits = threshold(scale, len(columns)), sum_thresholds(scale, len(columns))
    ends: list[tuple[Any, Any, Any]] = []
    for counts in every:
        passed = np.flatnonzero(counts > least)
        if not len(passed):
            ends.append((None, None, None))
            continue
        around = int(passed[0]), int(passed[-1]) + 1
        first, last, outside = extended_range(counts, *around, limits, math.sqrt(2) * scale, rows)
        ends.append((float(EDGES[first]), float(EDGES[last]), outside))
    low, high, beyond = zip(*ends, strict=True)
    notes = [BEYOND]
    if None in low:
        notes.append(
            f"Bounds not found: no interval has clearly more than {least:.0f} rows. Ask with a larger epsilon."
        )
    return FoundBounds(
        columns=tuple(column.name for column in columns),
        low=low,
        high=high,
        threshold=least,
        counts=np.array(every),
        notes=tuple(notes),
        beyond=beyond,
    )
