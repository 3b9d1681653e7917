"""Words for numbers, and for rows that are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy.wording import beyond, clearly_some, number, with_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Release
    from dfprivacy_eda.results import ColumnStatistic

__all__ = ["at_bound", "covers_of", "is_quantile", "left_out", "note", "said", "stated", "unit_of", "word"]

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
_NAMED = 3  # numbers in a note
_LIMITED = {"mean", "sum", "var", "std"}


def left_out(missing: float | None, error: float | None) -> Sequence[tuple[str, str]]:
    """Return a row about missing values, where there clearly are some."""
    if missing is None or not clearly_some(missing, error):
        return ()
    return (("missing", f"{with_error(missing, error)} rows, left out"),)


def is_quantile(statistic: str) -> bool:
    """Whether a statistic is a quantile, such as ``"median"``, ``"quantile 0.9"`` or ``"25%"``."""
    return statistic.startswith(("median", "quantile ")) or statistic.endswith("%")


def at_bound(value: Any, error: float | None, bounds: tuple[float, float] | None) -> str:
    """Write a number with its error, or a quantile at a bound, with no error, as one that may lie beyond it."""
    past = beyond(value, bounds)
    return f"{number(value)}{past}" if past and not error else f"{with_error(value, error)}{past}"


def covers_of(statistic: str) -> str:
    """Return which number of the table an interval of a statistic covers: that of limited values of a mean.

    Limits do not move quantiles within them, nor numbers of rows.
    """
    return "limited table" if statistic in _LIMITED else "table"


def word(statistic: str) -> str:
    """Return what a statistic is called."""
    return _WORDS.get(statistic, statistic)


def stated(release: ColumnStatistic) -> str:
    """Describe what a number is, in the words of the column."""
    name = release._called(*release.column.split(", "))  # noqa: SLF001 - of our own kind
    return f"{word(release.statistic)} of {name}" if release.column else "rows"


def said(release: Release, statistic: str, column: str) -> str:
    """Describe what a statistic is of, in the words of the schema."""
    if not column:
        return "number of rows"
    of = release._noun(*column.split(", "))  # noqa: SLF001 - of our own kind
    share = statistic[:-1] if statistic.endswith("%") else ""
    return f"{f'{share}% quantile' if share else word(statistic)} of {of}"


def unit_of(release: Release, statistic: str, column: str) -> str:
    """Return the unit of a statistic of a column: rows of numbers of rows, the square of that of a variance."""
    if statistic in _ROWS or not column:
        return ""
    unit = release._unit(column)  # noqa: SLF001 - of our own kind
    return f"({unit})²" if unit and statistic == "var" else unit


def note(names: Sequence[str], where: str) -> str:
    """Return which numbers were clamped to what is possible, and where the noisy ones are.

    Examples
    --------
    >>> note(["count of sex"], "raw")
    'Noise took count of sex below 0 or above the number of rows; it was clamped, and `raw` holds the noisy value.'
    """
    one = len(names) == 1
    listed = ", ".join(names) if len(names) <= _NAMED else f"{len(names)} numbers of rows"
    clamped = "it was clamped" if one else "they were clamped"
    return (
        f"Noise took {listed} below 0 or above the number of rows; {clamped}, and `{where}` holds the noisy "
        f"value{'s' * (not one)}."
    )
