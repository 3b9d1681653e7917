r"""Rank statistics of groups and of signed differences, and their sensitivities.

With s_ij in [-1, 1] and s_ij = -s_ji, the score of row i is a_i = ½ Σ_j s_ij, and the rank sum of the first group
is D = Σ a_i over its rows = ½ Σ s_ij over pairs of a row of either group. A row in neither group, or without a
value, has s_ij = 0. The proofs are in docs/explanation/inference.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy.statistics import OfRows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dfprivacy import Column

__all__ = [
    "COUNTED",
    "ERROR",
    "GehanScores",
    "GroupRankSums",
    "MidRanks",
    "RankSum",
    "Scores",
    "SignedSum",
    "Spread",
    "dot_product",
    "signed_ranks",
    "taper",
    "taper_switch",
]


def taper_switch(n: int, c: float) -> int:
    """Return the smallest group size M such that the taper H equals 1/m for every size m of at least M.

    Parameters
    ----------
    n : int
        Number of rows, 2 or more.
    c : float
        The part of the sensitivity for the size, 0 to 1/2.

    Returns
    -------
    int
        The smallest M, from n/2 on, with (1 - 2c)(M + 1) at least 2(n - 1 - M).
    """
    last = math.floor((2 * n - 3 + 2 * c) / (3 - 2 * c))  # at most one below
    while (1 - 2 * c) * (last + 1) < 2 * (n - 1 - last):
        last += 1
    return min(max(last, (n + 1) // 2), n)


def taper(n: int, larger: ArrayLike, c: float = 0.0) -> NDArray[np.float64]:
    """Return the factor H(M), M the larger group's size, that gives a rank sum sensitivity 1 for private groups.

    Parameters
    ----------
    n : int
        Number of rows, 2 or more.
    larger : array_like
        M, the size of the larger group, at least n/2.
    c : float
        The part of the sensitivity for the size, 0 to 1/2.

    Returns
    -------
    ndarray
        The factor.

    Notes
    -----
    Where one row can change its group, the rank sum D moves by up to n - 1, but only if nearly all of the n rows
    are in one group; between groups alike, by half of that. H is as large as the rows allow: H(M) D, with c times
    the size of the first group beside it, moves by 1 at most, in L1. The proof, and that this is the largest such
    factor by its recursion, is in docs/explanation/inference.md.

    Examples
    --------
    >>> taper(10, [5, 7, 10]) * 10
    array([1.86666667, 1.42857143, 1.        ])
    """
    last, larger = taper_switch(n, c), np.asarray(larger, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = (n - last) / last + 2 * (1 - c) * ((last - 1) / (larger - 1) - 1)
        below = (larger - 1) / (n - larger) * rest / max(last - 1, 1)
    return np.where(larger >= last, 1 / larger, below)


Spread = Literal["ties", "variance"]


class Scores(ABC):
    """Base class of rank scores: sums of antisymmetric comparisons of pairs of rows, each from -1 to 1.

    The score of a row is half of how many others it surely exceeds, less those that surely exceed it. Scores are
    multiplied by 2, so that they are integers.

    Attributes
    ----------
    columns : tuple of Column
        Columns that the scores are computed from.
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

    def compared_rows(self, rows: Any) -> NDArray[np.bool_]:
        """Return a mask of the rows that are compared: those without missing values."""
        gone = np.zeros(rows.size, dtype=np.bool_)
        for column in self.gaps:
            gone |= rows.missing(column)
        return ~gone

    @abstractmethod
    def group_sums(self, rows: Any, place: NDArray[np.intp], groups: int) -> tuple[list[int], int]:
        """Return twice the sum of the scores in each group, and n(n² - 1) times the tie factor or variance.

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
    """Rank scores: the midrank of each row minus the mean rank (n + 1)/2.

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

    def group_sums(self, rows: Any, place: NDArray[np.intp], groups: int) -> tuple[list[int], int]:
        """Return twice the sum of the scores in each group, and the tie factor τ times n(n² - 1)."""
        there = place < groups
        doubled, place = self.twice_ranks(rows, there), place[there]
        return [int(doubled[place == group].sum()) for group in range(groups)], 3 * dot_product(doubled, doubled)

    def twice_ranks(self, rows: Any, there: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return twice the centred midranks of the compared rows, which are integers."""
        from scipy.stats import rankdata  # takes longer to import than all of dfprivacy

        values = rows.values(self.column)[there]
        return np.asarray(np.rint(2 * rankdata(values)).astype(np.int64) - (len(values) + 1))


class GehanScores(Scores):
    """Rank scores of Gehan, for survival times that may be censored.

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

    def compared_rows(self, rows: Any) -> NDArray[np.bool_]:
        """Return a mask of the rows with a time and a known event status."""
        known: NDArray[np.bool_] = rows.codes(self.event) < len(self.event.categories or ())
        return super().compared_rows(rows) & known

    def group_sums(self, rows: Any, place: NDArray[np.intp], groups: int) -> tuple[list[int], int]:
        """Return twice the sum of the scores in both groups, and 3 Σ r₁r₂ over events (r: rows at risk).

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

        def n_at_risk(since: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            of_second = before[-1] - before[since]
            return len(at) - since - of_second, of_second

        first_then, second_then = n_at_risk(together)
        one = int(first_then[happened & second].sum()) - int(second_then[happened & ~second].sum())
        first_left, second_left = n_at_risk(at)
        return [one, -one], 3 * dot_product(first_left[happened], second_left[happened])


def signed_ranks(differences: NDArray[np.float64]) -> int:
    """Return the sum W of the signed ranks of differences, with zeros ranked too (Pratt).

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


def dot_product(first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    """Return the exact dot product of two arrays of integers."""
    most = int(np.abs(first).max(initial=1)) * int(np.abs(second).max(initial=1))
    steps = range(0, len(first), max(1, 2**62 // most))
    return sum(int(first[at : at + steps.step] @ second[at : at + steps.step]) for at in steps)


Relation = Literal["replace_one", "add_remove"]

COUNTED = 0.05
"""Part of the sensitivity for the size of each group, where the number of rows is private."""

ERROR = 2.0**-18
"""Bound of the floating-point error of a value below the number of rows, for up to 2^32 rows.

It is the same for all tables, as the sensitivity is: so groups of a call cost one loss.
"""


def group_indices(rows: Any, by: Column, codes: tuple[int, ...], scores: Scores) -> NDArray[np.intp]:
    """Return the group index of each row; rows without a group or a value have the number of groups instead."""
    known = np.full(len(by.categories or ()) + 1, len(codes), dtype=np.intp)
    known[list(codes)] = np.arange(len(codes))
    places: NDArray[np.intp] = np.where(scores.compared_rows(rows), known[rows.codes(by)], len(codes))
    return places


class _GroupStatistic(OfRows):
    """Base class of statistics computed from the rank sums of groups."""

    error = ERROR

    def __init__(
        self,
        scores: Scores,
        by: Column,
        codes: tuple[int, ...],
        n: int | None,
        known: tuple[int, ...] | None = None,
        *,
        sizes: float = 0.0,
        complete: float = 0.0,
        ties: float = 0.0,
    ) -> None:
        self.scores, self.by, self.codes, self.n, self.known = scores, by, codes, n, known
        self.sizes, self.complete, self.ties = sizes, complete, ties
        self.columns = (*scores.columns, by)
        self._factors = np.array(self._scale_of_coordinates())
        self.weights: NDArray[np.float64] = np.where(self._factors > 0, self._factors, 1.0)  # 1 where not measured
        self.shape = self.weights.shape

    @abstractmethod
    def _scale_of_coordinates(self) -> Any:
        """Return the factor by which each coordinate is multiplied; 0 if it is not measured."""

    def rank_sums(self, rows: Any) -> tuple[list[int], list[int], int]:
        """Return twice the rank sums, the group sizes, and n(n² - 1) times the tie factor or variance."""
        place = group_indices(rows, self.by, self.codes, self.scores)
        sums, spread = self.scores.group_sums(rows, place, len(self.codes))
        sizes = np.bincount(place, minlength=len(self.codes) + 1)[:-1].tolist()
        return sums, sizes, spread

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:
        """Return the joint sensitivity of all coordinates: for a public number of rows, at most 1 in every norm.

        T moves no more than each of the rank sums that it is the largest of. With public groups D moves by m, for a
        row keeps its group, or by m/2 if it leaves, which is counted then. Where n is private, a row that comes or
        goes moves D/n by 1/2, one count by 1, and the variance by 1/8; one that changes, twice that.
        """
        if self.n is None:
            added = 0.5 if norm == math.inf else (1 + self.ties) / 2 + COUNTED
            return added if relation == "add_remove" else 2 * added
        if relation != "replace_one" or (self.known is not None and self.by.name not in public):
            return math.inf
        return 1.0


class RankSum(_GroupStatistic):
    """Rank sum D of the first of two groups, times a factor, with the group sizes and the scores' variance.

    Its coordinates are, with private groups, H(M) D, the number of rows in the first group and that in both; with
    public ones D/m, m rows in the larger, and how many of each have a value; where the number of rows is private
    D/n, and both sizes. The last is τ = 12 Σa²/(n(n² - 1)), the share that ties leave of the variance, or κ, the
    variance of a rank sum of censored times, times 12/(n(n² - 1)); where n is private the variance of D/n. Those
    that are not told are 0.

    Parameters
    ----------
    scores : Scores
        What is compared.
    by : Column
        The column of the groups.
    codes : tuple of two int
        The categories that are compared.
    n : int or None
        Number of all rows, or of those of public groups; None where it is private.
    known : tuple of two int, or None
        Rows of each group, where they are public.
    sizes : float
        The part of the sensitivity for the size of the first group, at most 1/2; 0: it is not told.
    complete : float
        The part for the number of rows in both groups; with public groups 1, which is free; 0: it is not told.
    ties : float
        What the spread takes beside 1; 0: it is not told.
    """

    description = "the rank sum of {columns}"

    def _scale_of_coordinates(self) -> Any:
        n, known = self.n, self.known
        if n is None:
            return [1.0, COUNTED, COUNTED, 4 * self.ties]
        told = (1.0, self.sizes, self.complete) if known is None else (1 / max(known), *[self.complete / 2] * 2)
        return np.array([*told, self.ties * (n + 1) / self.scores.moves]) / (1 + self.ties)

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute the coordinates of the statistic, each times its weight."""
        sums, (first, second), spread = self.rank_sums(rows)
        rank_sum, n = sums[0] / 2, self.n
        if n is None:
            there = max(first + second, 1)
            return self._factors * [rank_sum / there, first, second, spread / 12 / there**2]
        relative = spread / (n * (n * n - 1))
        if self.known is not None:
            return self._factors * [rank_sum, first, second, relative]
        factor = float(taper(n, max(first, n - first), self.sizes))
        return self._factors * [factor * rank_sum, first, first + second, relative]


class GroupRankSums(_GroupStatistic):
    """T = ½ Σ_j |D_j|, the largest rank sum of any union of groups, with the group sizes and the tie factor τ.

    Parameters
    ----------
    scores, by, codes
        As for `RankSum`, of two groups or more.
    n : int or None
        Number of rows, or of rows in these groups where they are public; None where it is private: then T/n is
        measured.
    known : tuple of int or None
        Rows of each group, where they are public.
    sizes : float
        What the sizes take beside 1; 0: they are not told. With public groups those of rows with a value are free,
        up to 1.
    ties : float
        What τ takes beside 1; 0: it is not told.
    """

    description = "the rank sums of {columns}"

    def _scale_of_coordinates(self) -> Any:
        n, known, groups = self.n, self.known, len(self.codes)
        if n is None:
            return [1.0, *[COUNTED] * groups, 0.0]
        most = n - (1 if known is None else min(known))
        parts = [1 / most, *[self.sizes / 2] * groups, self.ties * (n + 1) / self.scores.moves]
        return np.array(parts) / (1 + self.ties + (self.sizes if known is None else 0.0))

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute the coordinates of the statistic, each times its weight."""
        sums, sizes, spread = self.rank_sums(rows)
        largest = sum(map(abs, sums)) / 4
        if self.n is None:
            return self._factors * [largest / max(sum(sizes), 1), *sizes, 0.0]
        return self._factors * [largest, *sizes, spread / (self.n * (self.n**2 - 1))]


class SignedSum(OfRows):
    """Sum W of signed ranks or of signs, and the number of rows, each multiplied by a weight.

    Where the number of rows is private: W/(n + 1) and some part of their number, or how many signs are above 0, and
    how many below.

    Parameters
    ----------
    column : Column
        The numbers.
    other : Column or None
        What is subtracted from them.
    popmean : float
        What is subtracted as well.
    gaps : tuple of Column
        Those of which a missing value leaves a row out.
    n : int or None
        Number of rows; None where it is private.
    ranks : bool
        Whether ranks are summed.
    """

    description = "the sum of signs or signed ranks of {columns}"
    shape = (2,)
    error = ERROR

    def __init__(
        self,
        column: Column,
        other: Column | None,
        popmean: float,
        gaps: tuple[Column, ...],
        n: int | None,
        *,
        ranks: bool,
    ) -> None:
        self.column, self.other, self.popmean, self.gaps, self.n = column, other, popmean, gaps, n
        self.columns, self.ranks = (column,) if other is None else (column, other), ranks
        private = [1.0, COUNTED if ranks else 1.0]
        self.weights: NDArray[np.float64] = np.array(private if n is None else [0.5 / n if ranks else 0.5, 0.5])

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute the coordinates of the statistic, each times its weight."""
        there = np.ones(rows.size, dtype=np.bool_)
        for gap in self.gaps:
            there &= ~rows.missing(gap)
        differences: NDArray[np.float64] = rows.values(self.column)[there] - self.popmean
        if self.other is not None:
            differences = differences - rows.values(self.other)[there]
        if self.ranks:
            ranked = signed_ranks(differences)
            first = ranked / (len(differences) + 1) if self.n is None else ranked
            return self.weights * [first, len(differences)]
        above, below = int((differences > 0).sum()), int((differences < 0).sum())
        return self.weights * ([above, below] if self.n is None else [above - below, len(differences)])

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the sensitivity: one row changes W by 2n at most, since it is in n of the pairs i <= j.

        Two signs are 2 apart, and a sign and none 1, which is counted then.
        """
        if self.n is not None:
            return 1.0 if relation == "replace_one" else math.inf
        if not self.ranks:
            return 1.0 if relation == "add_remove" or norm == math.inf else 2.0
        added = 1.5 if norm == math.inf else 1.5 + COUNTED
        return added if relation == "add_remove" else 2.0
