"""What a method returns that gives one number, and how tables are made of results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from dfprivacy import Column, Release
from dfprivacy.wording import between, beyond, limited, noise_share, number, sure, whose
from dfprivacy_eda import plots
from dfprivacy_eda.sums import STATISTICS, Drawn, Sums
from dfprivacy_eda.wording import is_quantile, left_out, said, stated, unit_of

__all__ = ["ColumnStatistic", "Framed", "Tabled", "possible_cells", "redrawn_cells", "tidy"]


class Tabled(Release):
    """A result of several numbers, which are the rows of a table."""

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        """Give the columns of that table."""
        raise NotImplementedError

    def _tidy(self) -> list[Mapping[str, Any]]:
        return [self._columns()]


class Framed(Tabled):
    """A result that is a table of numbers, whose rows have names; a number more of each is its standard error."""

    _named: ClassVar[tuple[str, str]]
    """What a column of their names is called, and the attribute that has them."""

    def _cells_of(self, name: str) -> Mapping[str, Sequence[Any]]:
        """Give the columns of one of the tables: ``"values"``, ``"standard_errors"``, ..."""
        raise NotImplementedError

    def _framed(self, name: str) -> Any:
        """Make a frame; that of pandas has the rows' names as an index, others in a first column."""
        pandas, cells = self.library == "pandas", self._cells_of(name)
        head, names = self._named[0], list(getattr(self, self._named[1]))
        made = tidy(self, cells if pandas else {head: names, **cells})
        if pandas:
            made.index = names
        return made

    @property
    def frame(self) -> Any:
        """The numbers, as a table of the library whose table was asked; Polars and Arrow have names in a column."""
        return self._framed("values")

    @property
    def errors(self) -> Any:
        """The same shape with the standard error of each number."""
        return self._framed("standard_errors")

    @property
    def loc(self) -> Any:
        """What picks cells of a pandas frame by name."""
        return self.frame.loc


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
        return stated(self)

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
    return tuple(None if name in ("count", "missing") else each for name, each in zip(statistics, raw, strict=True))


def tidy(release: Release, columns: Mapping[str, Sequence[Any]]) -> Any:
    """Make a frame of the library whose table was asked: pandas, Polars, or pyarrow."""
    return release._table({name: list(values) for name, values in columns.items()})  # noqa: SLF001 - its own
