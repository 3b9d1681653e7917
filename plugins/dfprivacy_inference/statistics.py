r"""What is measured of ranks, and how far one row can move it.

With s_ij in [-1, 1] and s_ij = -s_ji, the score of row i is a_i = ½ Σ_j s_ij, and the rank sum of the first group
is D = Σ a_i over its rows = ½ Σ s_ij over pairs of a row of either group. A row in neither group, or without a
value, has s_ij = 0. The proofs are in docs/explanation/inference.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy.statistics import OfRows
from dfprivacy_inference.scores import signed_ranks
from dfprivacy_inference.taper import taper

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy_inference.scores import Scores

__all__ = [
    "COUNTED",
    "ERROR",
    "GroupRankSums",
    "RankSum",
    "SignedSum",
]

Relation = Literal["replace_one", "add_remove"]

COUNTED = 0.05
"""Part of the sensitivity for the size of each group, where the number of rows is private."""

ERROR = 2.0**-18
"""More than floating-point arithmetic makes of a value that is below the number of rows, up to 2^32 of them.

It is the same for all tables, as the sensitivity is: so groups of a call cost one loss.
"""


def places(rows: Any, by: Column, codes: tuple[int, ...], scores: Scores) -> NDArray[np.intp]:
    """Give the number of each row's group; that of the groups for rows that are in none, or have no value."""
    known = np.full(len(by.categories or ()) + 1, len(codes), dtype=np.intp)
    known[list(codes)] = np.arange(len(codes))
    places: NDArray[np.intp] = np.where(scores.there(rows), known[rows.codes(by)], len(codes))
    return places


class _OfGroups(OfRows):
    """A statistic of the rank sums of groups."""

    error = ERROR

    def __init__(
        self,
        scores: Scores,
        by: Column,
        codes: tuple[int, ...],
        n: int | None,
        known: tuple[int, ...] | None,
        ties: float = 0.0,
    ) -> None:
        self.scores, self.by, self.codes = scores, by, codes
        self.n, self.known, self.ties = n, known, ties
        self.columns = (*scores.columns, by)

    def counted(self, rows: Any) -> tuple[list[int], list[int], int]:
        """Give the rank sums times two, the sizes, and the spread of the scores times n(n² - 1)."""
        place = places(rows, self.by, self.codes, self.scores)
        sums, spread = self.scores.summed(rows, place, len(self.codes))
        sizes = np.bincount(place, minlength=len(self.codes) + 1)[:-1].tolist()
        return sums, sizes, spread

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:
        """1 together, in L1 and so in every norm: 1 and the part of the spread, over their sum.

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


class RankSum(_OfGroups):
    """A multiple of the rank sum D of the first of two groups, their sizes, and the spread of the scores.

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
    rows : tuple of two int, or None
        Rows of each group, where they are public.
    sizes : float
        The part of the sensitivity for the size of the first group, at most 1/2; 0: it is not told.
    complete : float
        The part for the number of rows in both groups; with public groups 1, which is free; 0: it is not told.
    ties : float
        What the spread takes beside 1; 0: it is not told.
    """

    shape = (4,)

    def __init__(
        self,
        scores: Scores,
        by: Column,
        codes: tuple[int, ...],
        n: int | None,
        rows: tuple[int, int] | None = None,
        *,
        sizes: float = 0.0,
        complete: float = 0.0,
        ties: float = 0.0,
    ) -> None:
        super().__init__(scores, by, codes, n, rows, ties)
        self.sizes, self.complete = sizes, complete
        if n is None:
            self._parts = np.array([1.0, COUNTED, COUNTED, 4 * ties])
        else:
            told = (1.0, sizes, complete) if rows is None else (1 / max(rows), complete / 2, complete / 2)
            self._parts = np.array([*told, ties * (n + 1) / scores.moves]) / (1 + ties)
        self.weights: NDArray[np.float64] = _one_for_none(self._parts)

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute them, weights included."""
        sums, (first, second), spread = self.counted(rows)
        rank_sum, n = sums[0] / 2, self.n
        if n is None:
            there = max(first + second, 1)
            return self._parts * [rank_sum / there, first, second, spread / 12 / there**2]
        relative = spread / (n * (n * n - 1))
        if self.known is not None:
            return self._parts * [rank_sum, first, second, relative]
        factor = float(taper(n, max(first, n - first), self.sizes))
        return self._parts * [factor * rank_sum, first, first + second, relative]


class GroupRankSums(_OfGroups):
    """T = ½ Σ_j |D_j|, the largest rank sum of any groups together, the size of each, and τ.

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

    def __init__(
        self,
        scores: Scores,
        by: Column,
        codes: tuple[int, ...],
        n: int | None,
        *,
        known: tuple[int, ...] | None = None,
        sizes: float = 0.0,
        ties: float = 0.0,
    ) -> None:
        super().__init__(scores, by, codes, n, known, ties)
        each = COUNTED if n is None else sizes / 2
        if n is None:
            most, of_rows, of_ties = 1.0, 1.0, 0.0
        else:
            most, of_rows, of_ties = (
                n - (1 if known is None else min(known)),
                1 + ties,
                ties * (n + 1) / scores.moves,
            )
            of_rows += 0.0 if known is not None else sizes
        self._parts = np.array([1 / most, *[each] * len(codes), of_ties]) / of_rows
        self.weights: NDArray[np.float64] = _one_for_none(self._parts)
        self.shape = self.weights.shape

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute them, weights included."""
        sums, sizes, spread = self.counted(rows)
        largest = sum(map(abs, sums)) / 4
        if self.n is None:
            return self._parts * [largest / max(sum(sizes), 1), *sizes, 0.0]
        return self._parts * [largest, *sizes, spread / (self.n * (self.n**2 - 1))]


class SignedSum(OfRows):
    """The sum W of signed ranks of differences over 2n, or half of that of signs, and half of how many there are.

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
        """Compute them, weights included."""
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
        """W moves by 2n at most, for a row is in n of the pairs i <= j, and by n if it leaves.

        Two signs are 2 apart, and a sign and none 1, which is counted then.
        """
        if self.n is not None:
            return 1.0 if relation == "replace_one" else math.inf
        if not self.ranks:
            return 1.0 if relation == "add_remove" or norm == math.inf else 2.0
        added = 1.5 if norm == math.inf else 1.5 + COUNTED
        return added if relation == "add_remove" else 2.0


def _one_for_none(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give weights: 1 for coordinates that are not told."""
    return np.where(parts > 0, parts, 1.0)
