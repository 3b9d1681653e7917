"""What ``corr`` and ``cov`` return: a matrix of columns by columns, with an interval for every cell."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dfprivacy import ArgumentError
from dfprivacy.markup import Grid
from dfprivacy.wording import limited, number, sure, with_error
from dfprivacy_eda import plots
from dfprivacy_eda.results import Tabled, tidy
from dfprivacy_eda.wording import left_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

__all__ = ["Correlations", "Covariances"]

_SHOWN = 12  # columns
_FLOOR = 1e-9  # least eigenvalue of the nearest matrix, as a part of the largest


@dataclass(frozen=True, kw_only=True, repr=False)
class _Matrix(Tabled):
    """A number for each two columns."""

    _what: ClassVar[str]

    columns: tuple[str, ...]
    estimates: Numbers
    unknown: tuple[str, ...]
    standard_errors: Numbers
    lows: Numbers
    highs: Numbers
    confidence: float
    count: float
    missing: float | None
    missing_standard_error: float | None
    bounds: tuple[tuple[float, float], ...]
    notes: tuple[str, ...]
    covers: str | None = "limited table"

    @property
    def values(self) -> Numbers:
        """The numbers, NaN where nothing is known."""
        out = np.array([name in self.unknown for name in self.columns])
        return np.where(out[:, None] | out, np.nan, self.estimates)

    @property
    def frame(self) -> Any:
        """The matrix, as a table of the library whose table was asked; Polars and Arrow have names in a column."""
        return self._shaped(self.values)

    @property
    def errors(self) -> Any:
        """The same shape with the standard error of each number."""
        return self._shaped(self.standard_errors)

    @property
    def loc(self) -> Any:
        """What picks cells of a pandas frame by name."""
        return self.frame.loc

    def __getitem__(self, column: str | tuple[str, str]) -> Any:
        if not isinstance(column, tuple):
            return self.frame[column]
        places = [self.columns.index(name) if name in self.columns else None for name in column]
        match places:
            case [int(row), int(other)]:
                return float(self.values[row, other])
        raise ArgumentError(f"{column!r} are not two of the columns.", f"They are {[*self.columns]!r}.")

    def _shaped(self, cells: Numbers) -> Any:
        named: dict[str, list[Any]] = {} if self.library == "pandas" else {"column": list(self.columns)}
        made = tidy(self, {**named, **dict(zip(self.columns, cells.T.tolist(), strict=True))})
        if self.library == "pandas":
            made.index = list(self.columns)
        return made

    def _columns(self) -> dict[str, list[Any]]:
        pairs = self._pairs()
        tables = {
            "value": self.values,
            "standard_error": self.standard_errors,
            "low": self.lows,
            "high": self.highs,
        }
        named = {side: [self.columns[pair[at]] for pair in pairs] for at, side in enumerate("ab")}
        cells = {name: [float(table[pair]) for pair in pairs] for name, table in tables.items()}
        return {**named, **cells}

    def _pairs(self) -> list[tuple[int, int]]:
        return list(itertools.combinations_with_replacement(range(len(self.columns)), 2))

    def _sentence(self) -> str:
        """Say the number that is farthest from 0."""
        pairs = [pair for pair in self._pairs() if pair[0] != pair[1] and not math.isnan(self.values[pair])]
        if not pairs:
            return f"No {self._what} of {self._noun(*self.columns)} is known."
        first, second = max(pairs, key=lambda pair: abs(self._scaled(*pair)))
        low, high = float(self.lows[first, second]), float(self.highs[first, second])
        names = self.columns[first], self.columns[second]
        units = [unit for name in names if (unit := self._unit(name))] if self._what == "covariance" else []
        told = f"{number(float(self.values[first, second]), (high - low) / 4)} {' · '.join(units)}".rstrip()
        how = sure(low, high, self.confidence, whose="the table's own", noise=1.0)
        most = f", the strongest of {len(pairs)} pairs" if len(pairs) > 1 else ""
        return f"The {self._what} of {self._noun(*names)}{limited(self.covers)} is {told}{how}{most}."

    def _scaled(self, first: int, second: int) -> float:
        """Give a number without units."""
        return float(self.values[first, second])

    def _grid(self) -> Grid:
        shown = self.columns[:_SHOWN]
        rows = [
            (name, *(_written(self.values[i, j], self.standard_errors[i, j]) for j in range(len(shown))))
            for i, name in enumerate(shown)
        ]
        return Grid(("", *shown), rows)

    def _rows(self) -> list[tuple[str, str]]:
        hidden = len(self.columns) - _SHOWN
        rows = [("…", f"{hidden:,} more columns, in frame")] if hidden > 0 else []
        rows.append(("±", "one standard error, which privacy adds"))
        rows.append(("intervals", f"{100 * self.confidence:.4g}%, in to_frame()"))
        rows.append(("rows", f"{self.count:,.0f}"))
        rows += left_out(self.missing, self.missing_standard_error)
        return [*rows, *(("note", note) for note in self.notes)]

    def plot(self, ax: Any = None) -> Any:
        """Draw the matrix as coloured squares, with the number and its standard error in each."""
        return plots.matrix(self, ax)


def _written(value: float, error: float) -> str:
    return "not known" if math.isnan(value) else with_error(value, error)


@dataclass(frozen=True, kw_only=True, repr=False)
class Correlations(_Matrix):
    """Pearson's correlation of each two columns.

    ``to_frame()`` has a row for each two, in the order of the upper triangle, with the columns a, b, value,
    standard_error, low and high.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    values : ndarray of shape (columns, columns)
        The correlations, each for itself between -1 and 1; NaN where the noise could be all of a column's variance.
        Together they may be those of no data; `nearest` are not.
    estimates : ndarray of the same shape
        The same with 0 where nothing is known.
    unknown : tuple of str
        The columns of which nothing is known.
    standard_errors : ndarray of the same shape
        Standard error that privacy adds to each.
    lows, highs : ndarrays of the same shape
        Ends of an interval for the table's own number.
    confidence : float
        Coverage of each interval.
    count : float
        Rows with a value in every column; noisy where that is private.
    missing, missing_standard_error : float or None
        Rows left out, for a missing value in some column, with noise, and its standard error; None where none was
        left out or it is not known.
    bounds : tuple of pairs
        To what the values of each column were clipped.
    notes : tuple of str
        What to know before trusting the numbers.
    """

    _what = "correlation"

    @property
    def nearest(self) -> Numbers:
        """A matrix of correlations near them that some data have: no eigenvalue is below 0, the diagonal is 1.

        Unknown ones count as 0. It is biased where it differs from `values`.
        """
        known = self.estimates.copy()
        np.fill_diagonal(known, 1.0)
        raised = _raised(known)
        root = np.sqrt(np.diag(raised))
        nearest: Numbers = raised / np.outer(root, root)
        return nearest


@dataclass(frozen=True, kw_only=True, repr=False)
class Covariances(_Matrix):
    """The covariance of each two columns, with the divisor n - 1, in the product of their units.

    ``to_frame()`` is as for `Correlations`.

    Attributes
    ----------
    columns, estimates, unknown, standard_errors, lows, highs, confidence, bounds, notes
        As for `Correlations`.
    count, missing, missing_standard_error
        As for `Correlations`.
    values : ndarray of shape (columns, columns)
        The covariances, as the noise has them: a variance may be negative, and all together those of no data.
    """

    _what = "covariance"

    def _scaled(self, first: int, second: int) -> float:
        (low, high), (least, most) = self.bounds[first], self.bounds[second]
        return float(self.values[first, second]) / ((high - low) * (most - least))

    @property
    def nearest(self) -> Numbers:
        """A matrix of covariances near them that some data have: no eigenvalue is below 0.

        Nearest counts each column in parts of the width of its bounds. It is biased where it differs from `values`.
        """
        half = np.array([(high - low) / 2 for low, high in self.bounds])
        units = np.outer(half, half)
        return _raised(self.estimates / units) * units


def _raised(matrix: Numbers) -> Numbers:
    """Raise eigenvalues to 0, or a little above."""
    values, vectors = np.linalg.eigh(matrix)
    least = _FLOOR * max(float(values[-1]), _FLOOR)
    raised: Numbers = (vectors * np.maximum(values, least)) @ vectors.T
    return (raised + raised.T) / 2


def of_no_data(matrix: Numbers) -> bool:
    """Tell whether a matrix has an eigenvalue clearly below 0."""
    return bool(np.linalg.eigvalsh(matrix)[0] < -math.sqrt(_FLOOR) * abs(matrix).max())
