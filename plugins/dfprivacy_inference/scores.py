"""Scores of rows: for each, half of how many others it surely exceeds, less those that surely exceed it.

Scores are given twice over, so that they are whole numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Column

__all__ = ["GehanScores", "MidRanks", "Scores", "Spread", "products", "signed_ranks"]


Spread = Literal["ties", "variance"]


class Scores(ABC):
    """What compares two rows: antisymmetric, from -1 to 1.

    Attributes
    ----------
    columns : tuple of Column
        What it looks at.
    gaps : tuple of Column
        Those of which a missing value leaves a row out.
    spread : {"ties", "variance"}
        What tells how far the rank sum of one of two groups varies: ``"ties"``, the part τ that equal values leave
        of the sum of squared scores; ``"variance"``, the variance κ of the rank sum itself. Both are divided by
        n(n² - 1)/12.
    moves : float
        By how much one row moves it, times n + 1.
    """

    columns: tuple[Column, ...]
    gaps: tuple[Column, ...]
    spread: Spread
    moves: float

    def there(self, rows: Any) -> NDArray[np.bool_]:
        """Tell which rows are compared."""
        gone = np.zeros(rows.size, dtype=np.bool_)
        for column in self.gaps:
            gone |= rows.missing(column)
        return ~gone

    @abstractmethod
    def summed(self, rows: Any, place: NDArray[np.intp], groups: int) -> tuple[list[int], int]:
        """Add up the scores of each group, times two, and compute the spread times n(n² - 1).

        Parameters
        ----------
        rows
            The rows.
        place : ndarray
            The number of each row's group; that of the groups for a row that is not compared.
        groups : int
            How many groups there are.

        Returns
        -------
        tuple of list of int, and int
            Exact numbers.
        """


class MidRanks(Scores):
    """Ranks, those of equal values the middle ones, less (n + 1)/2.

    Parameters
    ----------
    column : Column
        The numbers.
    gaps : tuple of Column
        The column, if rows without a value are left out.
    """

    spread: Spread = "ties"
    moves = 3.0

    def __init__(self, column: Column, gaps: tuple[Column, ...] = ()) -> None:
        self.columns, self.gaps, self.column = (column,), gaps, column

    def summed(self, rows: Any, place: NDArray[np.intp], groups: int) -> tuple[list[int], int]:
        """Add up the scores of each group, times two, and compute τ times n(n² - 1)."""
        there = place < groups
        doubled, place = self.doubled(rows, there), place[there]
        return [int(doubled[place == group].sum()) for group in range(groups)], 3 * products(doubled, doubled)

    def doubled(self, rows: Any, there: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Compute the scores of some rows among themselves, times two."""
        from scipy.stats import rankdata  # takes longer to import than all of dfprivacy

        values = rows.values(self.column)[there]
        return np.asarray(np.rint(2 * rankdata(values)).astype(np.int64) - (len(values) + 1))


class GehanScores(Scores):
    """Gehan's scores of times in two groups, some of which are censored.

    Parameters
    ----------
    time, event : Column
        Times, and whether they are those of an event: of two categories, the larger of which says so.
    gaps : tuple of Column
        Those of which a missing value leaves a row out.
    """

    spread: Spread = "variance"
    moves = 1.5

    def __init__(self, time: Column, event: Column, gaps: tuple[Column, ...] = ()) -> None:
        self.columns, self.gaps, self.time, self.event = (time, event), gaps, time, event
        self._code = (event.categories or ()).index(1)  # True is 1

    def there(self, rows: Any) -> NDArray[np.bool_]:
        """Return which rows are compared: those with a time, of which it is known whether it is an event's."""
        known: NDArray[np.bool_] = rows.codes(self.event) < len(self.event.categories or ())
        return super().there(rows) & known

    def summed(self, rows: Any, place: NDArray[np.intp], groups: int) -> tuple[list[int], int]:
        """Add up the scores of both groups, times two, and compute κ times n(n² - 1): three times Σ r₁r₂ of events.

        An event adds the number at risk in the other group to the score of its own group, with a minus. Equal times
        are together for the scores; for κ they are one event after the other, those of the first group first, and
        censored times last.
        """
        there = place < groups
        times, happened = rows.values(self.time)[there], rows.codes(self.event)[there] == self._code
        order = np.lexsort((place[there], ~happened, times))
        times, happened, second = times[order], happened[order], place[there][order] == 1
        before = np.append(0, np.cumsum(second))
        at = np.arange(len(times))
        together = np.maximum.accumulate(np.where(np.append(True, times[1:] > times[:-1])[: len(at)], at, 0))

        def at_risk(since: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            of_second = before[-1] - before[since]
            return len(at) - since - of_second, of_second

        first_then, second_then = at_risk(together)
        one = int(first_then[happened & second].sum()) - int(second_then[happened & ~second].sum())
        first_left, second_left = at_risk(at)
        return [one, -one], 3 * products(first_left[happened], second_left[happened])


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


def products(first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    """Add up products of whole numbers, exactly."""
    most = int(np.abs(first).max(initial=1)) * int(np.abs(second).max(initial=1))
    steps = range(0, len(first), max(1, 2**62 // most))
    return sum(int(first[at : at + steps.step] @ second[at : at + steps.step]) for at in steps)
