"""Choose k rows of each person by hashes of what rows hold, whatever the order of rows."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._table.hashing import mixed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from dfprivacy._table.hashing import Hashes

__all__ = ["Choice", "Chosen", "counting", "parts"]

_HALF = np.uint64(32)
_LONG = 2**31
_TOGETHER = 1 << 22  # rows that are chosen from at once, at some 60 bytes each, unless one person has more


def parts(rows: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Give people in parts that have not too many rows: the first of a part, and the one after its last.

    Parameters
    ----------
    rows : ndarray of int of shape (people,)
        How many rows each has.

    Yields
    ------
    tuple of int
        Numbers of people.
    """
    part = (np.cumsum(rows) - 1) // _TOGETHER
    firsts = np.flatnonzero(np.diff(part, prepend=-1)).tolist()
    yield from itertools.pairwise([*firsts, len(rows)])


def counting(whose: NDArray[np.integer], hashes: Hashes, most: int) -> NDArray[np.bool_]:
    """Choose at most so many rows of each person: those with the least hashes.

    Parameters
    ----------
    whose : ndarray of int of shape (rows,)
        Whose each row is.
    hashes : ndarray of uint64 of shape (rows,)
        Of what each holds. A person's equal rows get hashes of their own, in the order in which they stand.
    most : int
        How many count, k.

    Returns
    -------
    ndarray of bool of shape (rows,)
        Which rows count.
    """
    limits, unclear = _limits(whose, hashes, most)
    counts = np.asarray(hashes <= limits[whose])
    if unclear.any():
        rows = np.flatnonzero(unclear[whose])
        counts[rows] = False
        counts[rows[_with_equal_rows(whose[rows], hashes[rows], most)]] = True
    return counts


def _limits(whose: NDArray[np.integer], hashes: Hashes, most: int) -> tuple[Hashes, NDArray[np.bool_]]:
    """Give everybody's k-th least hash, and who may have equal rows: hashes of which the first half is equal."""
    from scipy import sparse  # takes a while to import

    if not len(whose):
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.bool_)
    # Everybody's hashes together, by counting: people with as many rows are then sorted at once, each on its own.
    short = np.int32 if len(whose) < _LONG else np.int64  # as all that follows from these is then
    ends: NDArray[np.integer] = np.array([0, len(whose)], dtype=short)
    both: Any = sparse.csr_array((hashes, whose, ends), shape=(1, int(whose.max()) + 1)).tocsc()
    starts, rows = both.indptr[:-1], np.diff(both.indptr)
    limits, unclear = np.zeros(len(rows), dtype=np.uint64), np.zeros(len(rows), dtype=np.bool_)
    order = np.argsort(rows.astype(np.min_scalar_type(int(rows.max()))), kind="stable")  # small ones, by counting
    numbers, firsts = np.unique(rows[order], return_index=True)
    for number, first, end in zip(numbers.tolist(), firsts, [*firsts[1:], len(order)], strict=True):
        if number:
            people = order[first:end]
            ranked = both.data[starts[people][:, None] + np.arange(number)]
            ranked.sort(axis=1)
            limits[people] = ranked[:, min(most, number) - 1]
            halves = ranked >> _HALF
            unclear[people] = np.any(halves[:, 1:] == halves[:, :-1], axis=1)
    return limits, unclear


def _with_equal_rows(whose: NDArray[np.integer], hashes: Hashes, most: int) -> NDArray[np.intp]:
    """Choose where rows of one person may be equal."""
    if not len(whose):
        return np.zeros(0, dtype=np.intp)
    order = _ordered(whose, hashes)
    ranked, content = whose[order], hashes[order]
    equal = (ranked[1:] == ranked[:-1]) & (content[1:] == content[:-1])
    content = mixed(content, _rank(np.append(True, ~equal)).astype(np.uint64))
    again = _ordered(ranked, content)
    order, ranked = order[again], ranked[again]
    return order[_rank(np.append(True, ranked[1:] != ranked[:-1])) < most]


class Chosen:
    """What counts of people with more than k rows, by hashes of what rows hold.

    Of whom all rows are different, those count whose hashes are not above the person's limit. Of others, it is kept
    which contents count, and how often each: of one person, k times all together.

    Parameters
    ----------
    people : int
        How many there are.

    Attributes
    ----------
    limits : ndarray of uint64 of shape (people,)
        Everybody's largest hash that counts.
    unclear : ndarray of bool of shape (people,)
        Who may have equal rows.
    times : ndarray of int of shape (contents,)
        How often each content of these counts.
    """

    def __init__(self, people: int) -> None:
        self.limits = np.zeros(people, dtype=np.uint64)
        self.unclear = np.zeros(people, dtype=np.bool_)
        self._keep(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.uint64))

    def choose(self, parts: Iterable[tuple[int, NDArray[np.integer], Hashes]], most: int) -> None:
        """Choose from all rows, of some people at a time: the first of these, and whose from there rows are."""
        whose: list[NDArray[np.integer]] = [np.zeros(0, dtype=np.intp)]
        contents = [np.zeros(0, dtype=np.uint64)]
        for first, people, hashes in parts:
            limits, unclear = _limits(people, hashes, most)
            self.limits[first : first + len(limits)] = limits
            self.unclear[first : first + len(limits)] = unclear
            rows = np.flatnonzero(unclear[people])
            rows = rows[_with_equal_rows(people[rows], hashes[rows], most)]
            whose.append(people[rows] + first)
            contents.append(hashes[rows])
        self._keep(np.concatenate(whose), np.concatenate(contents))

    def _keep(self, whose: NDArray[np.integer], hashes: Hashes) -> None:
        order = _ordered(whose, hashes)
        whose, hashes = whose[order], hashes[order]
        new = np.ones(len(whose), dtype=np.bool_)
        new[1:] = (whose[1:] != whose[:-1]) | (hashes[1:] != hashes[:-1])
        self.times = np.diff(np.flatnonzero(new), append=len(new))
        self._hashes = hashes[new]
        self._ends = np.searchsorted(whose[new], np.arange(len(self.limits) + 1))
        self._steps = int(np.diff(self._ends).max(initial=0)).bit_length()

    def find(self, whose: NDArray[np.integer], hashes: Hashes) -> NDArray[np.intp]:
        """Give the place of each content of a person, -1 if it does not count, by bisection."""
        low, high = self._ends[whose], self._ends[whose + 1]
        end = high
        for _ in range(self._steps):
            middle = (low + high) // 2
            less = (low < high) & (self._hashes[np.minimum(middle, len(self._hashes) - 1)] < hashes)
            low, high = np.where(less, middle + 1, low), np.where(less, high, middle)
        there = low < end
        there[there] = self._hashes[low[there]] == hashes[there]
        return np.where(there, low, -1)


def _packed(whose: NDArray[np.integer], hashes: Hashes) -> Hashes:
    """Put a person, of whom there are fewer than 2^32, before the first half of a hash."""
    both = whose.astype(np.uint64) << _HALF
    both |= hashes >> _HALF
    return both


def _ordered(whose: NDArray[np.integer], hashes: Hashes) -> NDArray[np.intp]:
    """Give an order by person, then by hash; what is alike stays in its order."""
    both = _packed(whose, hashes)
    order = np.argsort(both, kind="stable")
    both = both[order]
    alike = np.flatnonzero(both[1:] == both[:-1])
    if np.any(hashes[order[alike]] > hashes[order[alike + 1]]):  # half a hash was not enough
        return np.lexsort((hashes, whose))
    return order


def _rank(new: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Give each place its distance from the last one before it, or itself, where something new begins."""
    places = np.arange(len(new))
    return places - np.maximum.accumulate(np.where(new, places, 0))


class Choice:
    """Which rows count, part after part of one pass of the data."""

    def __init__(self, chosen: Chosen, people: int, most: int) -> None:
        self._chosen = chosen
        self._most = most
        self._used = np.zeros(len(chosen.times), dtype=np.intp)
        self._many = np.zeros(len(chosen.limits), dtype=np.intp)
        self._few = np.zeros(people, dtype=np.intp)

    def of_many(self, whose: NDArray[np.integer], hashes: Hashes) -> NDArray[np.bool_]:
        """Tell which rows count of people with more than k, numbered among these."""
        chosen = self._chosen
        keep = np.asarray(hashes <= chosen.limits[whose])
        unclear = np.flatnonzero(chosen.unclear[whose])
        keep[unclear] = False
        keep[keep] = self._first(self._many, whose[keep], self._most)
        places = chosen.find(whose[unclear], hashes[unclear])
        there = places >= 0
        there[there] = self._first(self._used, places[there], chosen.times)
        keep[unclear] = there
        return keep

    def of_few(self, whose: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Tell which rows count of people who had at most k: all, unless this pass gives more."""
        return self._first(self._few, whose, self._most)

    @staticmethod
    def _first(
        used: NDArray[np.intp], places: NDArray[np.integer], most: NDArray[np.intp] | int
    ) -> NDArray[np.bool_]:
        """Tell which are the first so many of each place, counted in `used`."""
        np.add.at(used, places, 1)
        if np.all(used <= most):  # there are fewer places than rows
            return np.ones(len(places), dtype=np.bool_)
        np.subtract.at(used, places, 1)
        before = used[places]
        np.add.at(used, places, 1)
        order = np.argsort(places, kind="stable")
        rank = np.empty(len(places), dtype=np.intp)
        ranked = places[order]
        rank[order] = _rank(np.append(True, ranked[1:] != ranked[:-1]))
        return np.asarray(before + rank < np.broadcast_to(most, used.shape)[places])
