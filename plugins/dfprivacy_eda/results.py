"""What the methods of one number return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dfprivacy import Release
from dfprivacy.plotting import axes

__all__ = ["ColumnStatistic"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnStatistic(Release):
    """One number about a column, or about rows; ``float()`` gives it.

    Attributes
    ----------
    value : float
        The answer, in the column's units.
    low, high : float
        Ends of its confidence interval; noise is in it, and where `covers` says so sampling.
    confidence : float
        The interval's coverage.
    noise_standard_error : float
        Standard error that privacy adds to the answer.
    statistic : str
        What it is, such as ``"mean"``.
    column : str
        Of which column, or columns.
    covers : {"table", "population"}
        What the interval is for: the table's own number, as a dataframe has it, or that of a population of which
        the rows are a sample.
    count : float or None
        Rows that the answer is about; noisy where that is private.
    missing, missing_standard_error : float or None
        Rows left out because a value is missing, with noise, and its standard error; None where none was left out
        or it is not known.
    notes : tuple of str
        What to know before trusting the number.
    """

    value: float
    low: float
    high: float
    confidence: float
    noise_standard_error: float
    statistic: str
    column: str
    covers: str = "table"
    count: float | None = None
    missing: float | None = None
    missing_standard_error: float | None = None
    notes: tuple[str, ...] = ()

    def __float__(self) -> float:
        return self.value

    def _rows(self) -> list[tuple[str, str]]:
        asked = f"{self.statistic} of {self.column}" if self.column else self.statistic
        rows = [
            (asked, f"{self.value:.6g}"),
            (f"{self.confidence:.4g} interval", f"{self.low:.6g} to {self.high:.6g}, for the {self.covers}"),
            ("noise_standard_error", f"{self.noise_standard_error:.4g}"),
        ]
        if self.count is not None and self.statistic != "count":
            rows.append(("rows", f"{self.count:,.0f}"))
        if self.missing is not None and self.missing > 3 * (self.missing_standard_error or 0):
            rows.append(("missing", f"{self.missing:,.0f} ± {self.missing_standard_error or 0:.3g}, left out"))
        return [*rows, *(("note", note) for note in self.notes)]

    def plot(self, ax: Any = None) -> Any:
        """Draw the number and its interval.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        ax = axes(ax)
        ax.plot([self.low, self.high], [0, 0], color="tab:orange", lw=3, label=f"{self.confidence:.0%} interval")
        ax.plot(self.value, 0, "o", color="black", label=self.statistic)
        ax.set(yticks=[], xlabel=self.column)
        ax.legend(frameon=False)
        return ax
