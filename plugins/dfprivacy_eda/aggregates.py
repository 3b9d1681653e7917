"""What ``agg`` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dfprivacy import ArgumentError, Release
from dfprivacy.markup import Grid
from dfprivacy.wording import between, beyond, limited, number, sure
from dfprivacy_eda import plots
from dfprivacy_eda.results import at_bound, covers_of, is_quantile, possible_cells, redrawn_cells, said, unit_of

__all__ = ["Aggregates"]

_WHOSE = "Intervals are for the table's own numbers, all of them noise"
_TOLD = 3  # numbers in a sentence


@dataclass(frozen=True, kw_only=True, repr=False)
class Aggregates(Release):
    """Statistics of columns, by name; ``found["age_mean"]`` is a number.

    Attributes
    ----------
    names : tuple of str
        What they are called: column and statistic, or as they were named.
    columns, statistics : tuple of str
        Of which column each is, and which.
    values : tuple
        The statistics; a category for ``"top"``.
    standard_errors : tuple
        The standard error that privacy adds to each.
    lows, highs : tuple
        Ends of an interval for the table's own number.
    raw : tuple
        The values with numbers of rows as the noise has them, unbiased: below 0 at times, or more than all rows.
    confidence : float
        Coverage of each interval.
    shares : dict
        The part of the budget that went to sums, quantiles and categories.
    notes : tuple of str
        What to know before trusting the numbers.
    bounds : tuple of (float, float) or None
        For each the bounds of its column, to which values are limited; None of categories and numbers of rows. A
        quantile at one may lie beyond it.
    released : tuple of mapping or None
        For each the noisy sums that it follows from.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    statistics: tuple[str, ...]
    values: tuple[Any, ...]
    standard_errors: tuple[float | None, ...]
    lows: tuple[float | None, ...]
    highs: tuple[float | None, ...]
    raw: tuple[Any, ...]
    confidence: float
    shares: dict[str, float]
    notes: tuple[str, ...]
    bounds: tuple[tuple[float, float] | None, ...] = ()
    released: tuple[Mapping[str, Any] | None, ...] = field(default=(), compare=False)

    def _redrawn(self) -> Mapping[str, Any]:
        """Give the numbers that follow from sums under draws of the noise; others are None."""
        raw = redrawn_cells([*zip(self.columns, self.bounds, self.released, self.statistics, strict=True)])
        return {"raw": raw, "values": possible_cells(self.statistics, raw)}

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise ArgumentError(f"{name!r} was not asked for.", f"There are {[*self.names]!r}.")
        return self.values[self.names.index(name)]

    def plot(self, ax: Any = None) -> Any:
        """Draw each number with its interval, on a scale of its own."""
        if all(low is None for low in self.lows):
            raise ArgumentError("No number was asked for.", "Draw value_counts(...) of a column.")
        return plots.numbers(self, ax)

    def _tidy(self) -> list[dict[str, Any]]:
        """State each statistic; a category is no number, and has a column of its own."""
        texts = [isinstance(value, str) for value in self.values]
        numbers = [None if text else value for value, text in zip(self.values, texts, strict=True)]
        named = [value if text else None for value, text in zip(self.values, texts, strict=True)]
        return [
            {
                "name": self.names,
                "column": self.columns,
                "statistic": self.statistics,
                "value": numbers,
                **({"category": named} if any(texts) else {}),
                "standard_error": self.standard_errors,
                "low": self.lows,
                "high": self.highs,
                "covers": [
                    None if low is None else covers_of(statistic)
                    for low, statistic in zip(self.lows, self.statistics, strict=True)
                ],
            }
        ]

    def _sentence(self) -> str:
        """Say the first numbers, in the words of their columns."""
        told = []
        for at, (name, column, statistic) in enumerate(zip(self.names, self.columns, self.statistics, strict=True)):
            low, high, unit = self.lows[at], self.highs[at], unit_of(self, statistic, column)
            error = None if low is None or high is None else (high - low) / 4
            what = said(self, statistic, column) if name == f"{column}_{statistic}" else name
            how = sure(low, high, self.confidence, unit=unit, bounds=self._ends(at))
            value = f"{number(self.values[at], error)} {unit}".rstrip() + beyond(self.values[at], self._ends(at))
            told.append(f"the {what} is {value}{how}")
        more = [f"{len(told) - _TOLD} more are below"] if len(told) > _TOLD else []
        about = self._noun(*dict.fromkeys(filter(None, self.columns)))
        limits = f", of values{limited(self.covers)}" if limited(self.covers) else ""
        return f"Of {about}: {'; '.join([*told[:_TOLD], *more])}. {_WHOSE}{limits}."

    def _ends(self, at: int) -> tuple[float, float] | None:
        """Return the bounds of the column, where the statistic is a quantile."""
        return self.bounds[at] if self.bounds and is_quantile(self.statistics[at]) else None

    def _grid(self) -> Grid:
        cells = zip(self.names, self.values, self.standard_errors, self.lows, self.highs, strict=True)
        rows = [
            (
                name,
                at_bound(value, error, self._ends(at)),
                "" if low is None or high is None else between(low, high, bounds=self._ends(at)),
            )
            for at, (name, value, error, low, high) in enumerate(cells)
        ]
        return Grid(("", "value", f"{100 * self.confidence:.4g}% interval"), rows)

    def _rows(self) -> list[tuple[str, str]]:
        spent = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        rows = [("±", "one standard error, which privacy adds"), ("budget", spent)]
        return [*rows, *(("note", note) for note in self.notes)]
