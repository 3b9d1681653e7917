"""What can be: noisy numbers of rows are brought between none and all, and add up to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["ROWS", "Cell", "Noisy", "note", "project", "within"]

ROWS = ("count", "missing")  # between none and all


def project(counts: ArrayLike, totals: ArrayLike) -> NDArray[np.float64]:
    """Find the nearest numbers in least squares that are not negative and have given sums, row by row.

    Parameters
    ----------
    counts : array_like of shape (..., c)
        Any numbers.
    totals : array_like of shape (...)
        The sums; below 0 counts as 0.

    Returns
    -------
    ndarray of shape (..., c)
        max(counts - theta, 0), with one theta a row.

    Examples
    --------
    >>> project([3, -1, 5, 2], 8).round(3).tolist()
    [2.333, 0.0, 4.333, 1.333]
    """
    counts = np.asarray(counts, dtype=np.float64)
    if not counts.size:
        return counts
    totals = np.maximum(np.asarray(totals, dtype=np.float64), 0.0)[..., None]
    falling = -np.sort(-counts, axis=-1)
    thetas = (np.cumsum(falling, axis=-1) - totals) / np.arange(1, counts.shape[-1] + 1)
    last = np.maximum((falling > thetas).sum(axis=-1, keepdims=True) - 1, 0)  # the first is always kept
    return np.maximum(counts - np.take_along_axis(thetas, last, axis=-1), 0.0)


_NAMED = 3

Noisy = tuple[Any, float | None, float | None, float | None]
"""A number, or a text, its standard error, and the ends of its interval."""
Cell = tuple[Any, float | None, float | None, float | None, Any]
"""The same, and what was released, where that is not possible."""


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
