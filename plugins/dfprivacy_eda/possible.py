"""What can be: noisy numbers of rows are brought between none and all, and their intervals with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Cell", "brought", "note", "within"]

_NAMED = 3

Cell = tuple[Any, float | None, float | None, float | None]
"""A number, or a text, its standard error, and the ends of its interval."""


def within(value: float, low: float, high: float, most: float) -> tuple[float, float, float]:
    """Bring a noisy number between 0 and the most it can be, with its interval.

    The interval reaches as far below and above the new number as it did of the old one, so it holds all that it
    held of what is possible, and never says that what is possible ends where the noise happened to end.

    Examples
    --------
    >>> within(-39.0, -69.0, -9.0, 1000.0), within(990.0, 960.0, 1020.0, 1000.0)
    ((0.0, 0.0, 30.0), (990.0, 960.0, 1000.0))
    """
    kept = min(max(value, 0.0), most)
    first, last = (min(max(end + kept - value, 0.0), most) for end in (low, high))
    return kept, first, last


def brought(cell: Cell, most: float) -> Cell:
    """Bring a number of rows between none and all, with its interval; what is not known stays so."""
    value, error, low, high = cell
    if value is None or low is None or high is None:
        return cell
    kept, first, last = within(value, low, high, most)
    return kept, error, first, last


def note(names: Sequence[str], where: str) -> str:
    """Say which numbers were brought to what is possible, and where the noisy ones are.

    Examples
    --------
    >>> note(["count of sex"], "raw")
    'Noise took count of sex beyond what is possible; shown is what is nearest, and `raw` has the noisy ones.'
    """
    listed = ", ".join(names) if len(names) <= _NAMED else f"{len(names)} numbers of rows"
    return (
        f"Noise took {listed} beyond what is possible; shown is what is nearest, and `{where}` has the noisy ones."
    )
