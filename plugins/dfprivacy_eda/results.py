"""What a method returns that gives one number, and how tables are made of results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from dfprivacy import Column, Release
from dfprivacy.wording import between, beyond, limited, noise_share, number, sure, whose, with_error
from dfprivacy_eda import plots
from dfprivacy_eda.sums import STATISTICS, Drawn, Sums
from dfprivacy_eda.wording import left_out

__all__ = [
    "ColumnStatistic",
    "Tabled",
    "at_bound",
    "covers_of",
    "is_quantile",
    "possible_cells",
    "redrawn_cells",
    "said",
    "tidy",
    "unit_of",
]


class Tabled(Release):
    """A result of several numbers, which are the rows of a table."""

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        """Give the columns of that table."""
        raise NotImplementedError

    def _tidy(self) -> list[Mapping[str, Any]]:
        return [self._columns()]


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnStatistic(Release):
    """One number about a column, or about rows; ``float()`` gives it.

    Attributes
    ----------
    value : float
        The answer, in the column's units.
    low, high : float or None
        Ends of its confidence interval; noise is in it, and where `covers` says so sampling. None where the notes
        say how sure the answer is. Those of a quantile at a bound may lie beyond it, for values there were limited.
    confidence : float
        The interval's coverage.
    noise_standard_error : float or None
        Standard error that privacy adds to the answer.
    statistic : str
        What it is, such as ``"mean"``.
    column : str
        Of which column, or columns.
    covers : {"table", "population", "sample", "limited table", "limited population", "limited sample"} or None
        What the interval is for: the table's own number, as a dataframe has it, that of a population of which the
        rows are a sample, or of ``view.sample(...)`` that of the rows that were drawn; limited: of values limited
        to the bounds. None where there is no interval.
    count : float or None
        Rows that the answer is about; noisy where that is private.
    missing, missing_standard_error : float or None
        Rows left out because a value is missing, with noise, and its standard error; None where none was left out
        or it is not known.
    raw : float or None
        The noisy number, unbiased, where `value` is another: it was brought to what is possible, for a number of
        rows is not below 0. None where both are one.
    bounds : tuple of two float, or None
        The column's bounds, to which values are limited; None of rows and categories.
    notes : tuple of str
        What to know before trusting the number.
    released : mapping or None
        What it follows from, where that are noisy sums: values, of each the noise and the measurement, and how
        rows and moments follow.
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    noise_standard_error: float | None
    statistic: str
    column: str
    covers: str | None = "table"
    count: float | None = None
    missing: float | None = None
    missing_standard_error: float | None = None
    raw: float | None = None
    bounds: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    released: Mapping[str, Any] | None = field(default=None, compare=False)

    _estimate: ClassVar[str] = "value"

    def __float__(self) -> float:
        return self.value

    def _redrawn(self) -> Mapping[str, Any]:
        """Give the number under draws of the noise."""
        if self.released is None:
            return super()._redrawn()
        name = self.statistic if self.statistic in STATISTICS else "count"
        values = getattr(drawn(self.released, self.column, self.bounds), name)
        if self.raw is None:
            return {"value": values}
        within = (
            np.minimum if self.value < self.raw else np.maximum
        )  # what was brought to what is possible stays so
        return {"value": within(values, self.value), "raw": values}

    @property
    def _repeated(self) -> tuple[str, ...]:
        question = f"{self.statistic} of {self.column}".removesuffix(" of ")
        return question, f"{100 * self.confidence:.4g}% interval"

    def _tidy(self) -> list[dict[str, Any]]:
        """State the number; `n` is the rows that it is about."""
        ends = {"noise_standard_error": self.noise_standard_error, "low": self.low, "high": self.high}
        about = {"column": self.column, "statistic": self.statistic}
        return [{**about, "value": self.value, **ends, "n": self.count, "covers": self.covers}]

    def _sentence(self) -> str:
        """Say the number, what it is of, and how sure it is."""
        low, high, ends = self.low, self.high, self._ends
        unit = unit_of(self, self.statistic, self.column)
        of = whose(self.covers or "")
        how = sure(low, high, self.confidence, unit=unit, whose=of, noise=self._noise_part, bounds=ends)
        if self._exact and low is not None and low == high:
            how = ", exactly: it is public"
        error = self.noise_standard_error if low is None or high is None else (high - low) / 4
        told = f"{number(self.value, error)} {unit}".rstrip() + beyond(self.value, ends)
        what = said(self, self.statistic, self.column) + limited(self.covers, self.bounds)
        return f"The {what} is {told}{how}."

    @property
    def _ends(self) -> tuple[float, float] | None:
        """The bounds of a quantile, which may lie beyond them if it lies on one; None of other numbers."""
        return self.bounds if is_quantile(self.statistic) else None

    @property
    def _exact(self) -> bool:
        """Whether nothing that was measured has noise."""
        return self.privacy is not None and not self.privacy.noise

    @property
    def _noise_part(self) -> float | None:
        """All of an interval for the table; of one for the population as far as its width tells."""
        noise = self.noise_standard_error
        if not (self.covers or "population").endswith("population"):
            return 1.0 if noise and not self._exact else None
        if self.low is None or self.high is None or noise is None:
            return None
        total = (self.high - self.low) / (2 * float(ndtri((1 + self.confidence) / 2)))
        return noise_share(total, math.sqrt(total**2 - noise**2)) if noise <= total else None

    @property
    def _axis(self) -> str:
        return plots.stated(self)

    def _rows(self) -> list[tuple[str, str]]:
        question, error = f"{self.statistic} of {self.column}".removesuffix(" of "), self.noise_standard_error
        rows = [(question, number(self.value, error) + beyond(self.value, self._ends))]
        if self.low is not None and self.high is not None:
            interval = between(self.low, self.high, bounds=self._ends)
            rows += [(f"{100 * self.confidence:.4g}% interval", interval)]
        if error is not None:
            rows += [("noise_standard_error", number(error, error))]
        if self.count is not None and self.statistic != "count":
            rows.append(("rows", f"{self.count:,.0f}"))
        rows += left_out(self.missing, self.missing_standard_error)
        if self.raw is not None:
            nearest = f"{number(self.raw, error)}, unbiased, is not possible: the nearest that is became the answer"
            rows.append(("raw", nearest))
        return [*rows, *(("note", note) for note in self.notes)]

    def plot(self, ax: Any = None) -> Any:
        """Draw the number and its interval."""
        return plots.statistic(self, ax)


def drawn(released: Mapping[str, Any], column: str, bounds: tuple[float, float] | None) -> Drawn:
    """Return the numbers of a column under draws of the noise in what was released of it."""
    return Sums.of_release(released, Column(column, bounds or (-1.0, 1.0))).redrawn


def redrawn_cells(
    asked: Sequence[tuple[str, tuple[float, float] | None, Mapping[str, Any] | None, str]],
) -> tuple[Any, ...]:
    """Return statistics under draws of the noise, of their columns, bounds, noisy sums and names; or None."""
    return tuple(
        None if plain is None or statistic not in STATISTICS else getattr(drawn(plain, column, bounds), statistic)
        for column, bounds, plain, statistic in asked
    )


def possible_cells(statistics: Sequence[str], raw: Sequence[Any]) -> tuple[Any, ...]:
    """Return what is drawn of numbers as released: not of rows, which were brought to what is possible."""
    return tuple(None if name in _ROWS else each for name, each in zip(statistics, raw, strict=True))


_WORDS = {
    "missing": "number of rows without a value",
    "nunique": "number of different values",
    "std": "standard deviation",
    "var": "variance",
    "top": "most frequent value",
    "freq": "number of rows with the most frequent value",
    "count": "number of rows with a value",
}
_ROWS = {"missing", "nunique", "count", "freq", "top"}  # in no column's units


_QUANTILES = ("median", "quantile ")
_LIMITED = {"mean", "sum", "var", "std"}


def is_quantile(statistic: str) -> bool:
    """Whether a statistic is a quantile, such as ``"median"``, ``"quantile 0.9"`` or ``"25%"``."""
    return statistic.startswith(_QUANTILES) or statistic.endswith("%")


def at_bound(value: Any, error: float | None, bounds: tuple[float, float] | None) -> str:
    """Write a number with its error, or a quantile at a bound, with no error, as one that may lie beyond it."""
    past = beyond(value, bounds)
    return f"{number(value)}{past}" if past and not error else f"{with_error(value, error)}{past}"


def covers_of(statistic: str) -> str:
    """Return which number of the table an interval of a statistic covers: that of limited values of a mean.

    Limits do not move quantiles within them, nor numbers of rows.
    """
    return "limited table" if statistic in _LIMITED else "table"


def said(release: Release, statistic: str, column: str) -> str:
    """Say what a statistic is of, in the words of the schema."""
    if not column:
        return "number of rows"
    of = release._noun(*column.split(", "))  # noqa: SLF001 - of our own kind
    share = statistic[:-1] if statistic.endswith("%") else ""
    return f"{f'{share}% quantile' if share else _WORDS.get(statistic, statistic)} of {of}"


def unit_of(release: Release, statistic: str, column: str) -> str:
    """Give the unit of a statistic of a column: rows of numbers of rows, the square of that of a variance."""
    if statistic in _ROWS or not column:
        return ""
    unit = release._unit(column)  # noqa: SLF001 - of our own kind
    return f"({unit})²" if unit and statistic == "var" else unit


def tidy(release: Release, columns: Mapping[str, Sequence[Any]]) -> Any:
    """Make a frame of the library whose table was asked: pandas, Polars, or pyarrow."""
    return release._table({name: list(values) for name, values in columns.items()})  # noqa: SLF001 - its own
