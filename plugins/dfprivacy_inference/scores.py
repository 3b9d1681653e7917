"""Scores of rows: for each, half of how many others it surely exceeds, less those that surely exceed it.

Scores are given twice over, so that they are whole numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Column

__all__ = ["GehanScores", "MidRanks", "Scores", "signed_ranks", "squares"]


class Scores(ABC):
    """What compares two rows: antisymmetric, from -1 to 1.

    Attributes
    ----------
    columns : tuple of Column
        What it looks at.
    gaps : tuple of Column
        Those of which a missing value leaves a row out.
    """

    columns: tuple[Column, ...]
    gaps: tuple[Column, ...]

    def there(self, rows: Any) -> NDArray[np.bool_]:
        """Tell which rows are compared."""
        gone = np.zeros(rows.size, dtype=np.bool_)
        for column in self.gaps:
            gone |= rows.missing(column)
        return ~gone

    @abstractmethod
    def doubled(self, rows: Any, there: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Compute the scores of some rows among themselves, times two."""


class MidRanks(Scores):
    """Ranks, those of equal values the middle ones, less (n + 1)/2.

    Parameters
    ----------
    column : Column
        The numbers.
    gaps : tuple of Column
        The column, if rows without a value are left out.
    """

    def __init__(self, column: Column, gaps: tuple[Column, ...] = ()) -> None:
        self.columns, self.gaps, self.column = (column,), gaps, column

    def doubled(self, rows: Any, there: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Compute the scores of some rows among themselves, times two."""
        from scipy.stats import rankdata  # takes longer to import than all of dfprivacy

        values = rows.values(self.column)[there]
        return np.asarray(np.rint(2 * rankdata(values)).astype(np.int64) - (len(values) + 1))


class GehanScores(Scores):
    """Gehan's scores of times, some of which are censored.

    Parameters
    ----------
    time, event : Column
        Times, and whether they are those of an event: of two categories, the larger of which says so.
    gaps : tuple of Column
        Those of which a missing value leaves a row out.
    """

    def __init__(self, time: Column, event: Column, gaps: tuple[Column, ...] = ()) -> None:
        self.columns, self.gaps, self.time, self.event = (time, event), gaps, time, event
        self._code = (event.categories or ()).index(1)  # True is 1

    def there(self, rows: Any) -> NDArray[np.bool_]:
        """Tell which rows are compared: those with a time, of which it is known whether it is an event's."""
        known: NDArray[np.bool_] = rows.codes(self.event) < len(self.event.categories or ())
        return super().there(rows) & known

    def doubled(self, rows: Any, there: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Compute the scores of some rows among themselves, times two."""
        times, event = rows.values(self.time)[there], rows.codes(self.event)[there] == self._code
        # Among equal times events come first: who is censored then has surely lived longer.
        _, place = np.unique(times, return_inverse=True)
        key = 2 * place.astype(np.int64) + ~event
        shorter = np.searchsorted(np.sort(key[event]), key, side="left")
        longer = np.where(event, len(key) - np.searchsorted(np.sort(key), key, side="right"), 0)
        return np.asarray(shorter - longer, dtype=np.int64)


def signed_ranks(differences: NDArray[np.float64]) -> int:
    """Add up the ranks of absolute differences with their signs, zeros ranked as well (Pratt): W.

    Parameters
    ----------
    differences : ndarray
        Any.

    Returns
    -------
    int
        The sum of the signs of d_i + d_j over all i <= j.
    """
    from scipy.stats import rankdata

    ranks = np.rint(2 * rankdata(np.abs(differences))).astype(np.int64)
    return int((np.sign(differences).astype(np.int64) * ranks).sum()) // 2


def squares(doubled: NDArray[np.int64]) -> int:
    """Add up squares of scores that are given twice over, times four, exactly."""
    most = int(np.abs(doubled).max(initial=1))
    step = max(1, 2**62 // most**2)
    return sum(int(part @ part) for part in np.split(doubled, range(step, len(doubled), step)))
