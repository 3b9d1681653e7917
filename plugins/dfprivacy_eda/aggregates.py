"""What ``agg`` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dfprivacy import ArgumentError, Release

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Aggregates"]


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
    confidence : float
        Coverage of each interval.
    shares : dict
        The part of the budget that went to sums, quantiles and categories.
    notes : tuple of str
        What to know before trusting the numbers.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    statistics: tuple[str, ...]
    values: tuple[Any, ...]
    standard_errors: tuple[float | None, ...]
    lows: tuple[float | None, ...]
    highs: tuple[float | None, ...]
    confidence: float
    shares: dict[str, float]
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise ArgumentError(f"{name!r} was not asked for.", f"There are {[*self.names]!r}.")
        return self.values[self.names.index(name)]

    def _row(self) -> dict[str, Any]:
        row: dict[str, Any] = {}
        cells = zip(self.names, self.values, self.standard_errors, self.lows, self.highs, strict=True)
        for name, value, error, low, high in cells:
            row[name] = value
            if not isinstance(value, str):
                row |= {f"{name}_standard_error": error, f"{name}_low": low, f"{name}_high": high}
        return row

    def _rows(self) -> list[tuple[str, str]]:
        cells = zip(self.names, self.values, self.standard_errors, self.lows, self.highs, strict=True)
        rows = [(name, _said(cell)) for name, *cell in cells]
        spent = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        return [*rows, ("budget", spent), *(("note", note) for note in self.notes)]


def _said(cell: Sequence[Any]) -> str:
    value, error, low, high = cell
    return str(value) if error is None else f"{value:.5g} ± {error:.2g}  ({low:.5g} to {high:.5g})"
