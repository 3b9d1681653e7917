"""Bounds that nobody knows: of which powers of two many rows lie between."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, Release, features, mechanism
from dfprivacy.wording import number
from dfprivacy_eda import plots

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EDGES", "FoundBounds", "find_bounds", "find_bounds_asked", "threshold"]

_POWERS = 2.0 ** np.arange(-10, 32)
EDGES = np.concatenate([-_POWERS[::-1], [0.0], _POWERS])
_TOLD = 3  # columns in a sentence
_BETA = 1e-4  # the probability that an empty interval passes, of all columns together


@dataclass(frozen=True, kw_only=True, repr=False)
class FoundBounds(Release):
    """Bounds within which most values of some columns lie.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    low, high : tuple of float or None
        Powers of two, their negatives or 0; None where no interval held enough rows.
    threshold : float
        What the noisy count of an interval had to exceed. About as many rows of each interval beyond the bounds may
        lie outside.
    counts : ndarray of shape (columns, intervals)
        The noisy counts, of the intervals between 0, ±2⁻¹⁰, …, ±2³¹ from the lowest on.
    notes : tuple of str
        What to know before using them.
    """

    columns: tuple[str, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    threshold: float
    counts: NDArray[np.float64]
    notes: tuple[str, ...]

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The bounds that were found by column, as `protect` takes them."""
        ends = zip(self.columns, self.low, self.high, strict=True)
        return {name: (low, high) for name, low, high in ends if low is not None and high is not None}

    @property
    def schema(self) -> dict[str, Any]:
        """What `protect` and `~dfprivacy.PrivateFrame.declare` take."""
        return {"bounds": self.bounds}

    def __getitem__(self, column: str) -> tuple[float, float]:
        if column not in self.bounds:
            raise ArgumentError(f"No bounds of {column!r} were found.", f"There are those of {[*self.bounds]!r}.")
        return self.bounds[column]

    def _tidy(self) -> list[dict[str, Any]]:
        return [{"column": self.columns, "low": self.low, "high": self.high, "threshold": self.threshold}]

    def _sentence(self) -> str:
        """Say which bounds were found."""
        ends = zip(self.columns, self.low, self.high, strict=True)
        told = [
            f"{self._noun(name)} "
            + ("has none" if low is None or high is None else f"{number(low)} to {number(high)} {self._unit(name)}")
            for name, low, high in ends
        ]
        some = "; ".join(each.rstrip() for each in told[:_TOLD])
        more = f"; and {len(told) - _TOLD} more columns below" if len(told) > _TOLD else ""
        return f"Bounds that hold all rows but about {self.threshold:,.0f} at each end were found: {some}{more}."

    def plot(self, ax: Any = None) -> Any:
        """Draw the noisy counts of the intervals, and the threshold that those within the bounds exceed."""
        return plots.bounds(self, EDGES, ax)

    def _rows(self) -> list[tuple[str, str]]:
        ends = zip(self.columns, self.low, self.high, strict=True)
        rows = [
            (name, "not found" if low is None or high is None else f"{number(low)} to {number(high)}")
            for name, low, high in ends
        ]
        return [*rows, *(("note", note) for note in self.notes)]


def threshold(scale: float, columns: int) -> float:
    """Count that an empty interval of some columns exceeds with probability 10⁻⁴ at most, all together."""
    return scale * math.log(columns * (len(EDGES) - 1) / (2 * _BETA))


def find_bounds_asked(columns: tuple[Column, ...]) -> None:
    """Check that columns are named, each once, before anything is paid."""
    names = [column.name for column in columns]
    if not names or len(set(names)) < len(names):
        raise ArgumentError(f"columns={names!r} must name at least one column, each once.", "Name each once.")


@dataclass(frozen=True)
class Found:
    """Noisy counts of the intervals of each column, and the scale of their noise."""

    counts: tuple[NDArray[np.float64], ...]
    scale: float


@mechanism(columns={"columns": "all"})
def find_bounds(curator: Curator, columns: tuple[Column, ...]) -> Found:
    """Find bounds of columns of which nobody knows any.

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
    empty interval passes. Bounds that are known are better: rows beyond those found are clipped, up to about
    the threshold in each interval.

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
        every.append(features.Given(wide, of=features.Bins(wide, EDGES)))
    measured = curator.sum(features.Stack(*every))
    return Found(tuple(part.values for part in measured.parts), float(np.max(measured.scales)))


@find_bounds.concludes
def _(measured: Found, columns: tuple[Column, ...]) -> FoundBounds:
    """Keep what exceeds the threshold."""
    least = threshold(measured.scale, len(columns))
    ends: list[tuple[Any, Any]] = []
    for counts in measured.counts:
        passed = np.flatnonzero(counts > least)
        ends.append((float(EDGES[passed[0]]), float(EDGES[passed[-1] + 1])) if len(passed) else (None, None))
    low, high = zip(*ends, strict=True)
    notes = [f"Up to about {least:.0f} rows of each interval beyond may lie outside; known bounds are better."]
    if None in low:
        notes.append(f"Not found: no interval holds clearly more than {least:.0f} rows. Ask with a larger epsilon.")
    return FoundBounds(
        columns=tuple(column.name for column in columns),
        low=low,
        high=high,
        threshold=least,
        counts=np.array(measured.counts),
        notes=tuple(notes),
    )
