"""Who the people of a table are: whole numbers and texts, numbered and counted as arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, overload
from uuid import UUID

import numpy as np

from dfprivacy._table.frames import Dictionary
from dfprivacy._table.frames.texts import Texts
from dfprivacy._table.hashing import keyed_numbers, keyed_texts, keyed_words, mixed
from dfprivacy._table.text_table import LONGEST, UNKNOWN, TextTable, read_words
from dfprivacy.schema.values import plain_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy._table.frames import Raw
    from dfprivacy._table.hashing import Hashes

__all__ = ["NOBODY", "UNKNOWN", "People"]

Name: TypeAlias = int | str
Numbers: TypeAlias = "NDArray[np.intp]"

NOBODY = -1
_WHOLE_MAX = 2**53  # below it float64 holds every whole number
_LEAST, _LARGEST = -(2**63), 2**63 - 1  # of int64
_LOOSE = 16  # a table by id has at most so many entries for each person


class People:
    """The people whom a column names, and how many rows each has.

    First all rows are counted, part after part; then everybody has a number: first whoever is named by a whole
    number, in the order of these, then whoever is named by a text, or by a number that does not fit 64 bits.
    """

    def __init__(self) -> None:
        self._integers = np.zeros(0, dtype=np.int64)
        self._integer_rows = np.zeros(0, dtype=np.int64)
        self._texts = TextTable()
        self._others: dict[Name, int] = {}  # what is no text of a table, by numbers among these
        self._texts_rows = np.zeros(0, dtype=np.int64)
        self._places: _Places | None = None

    def __len__(self) -> int:
        return len(self._integers) + len(self._texts)

    @property
    def rows(self) -> NDArray[np.int64]:
        """How many rows each has, by number."""
        return np.concatenate([self._integer_rows, self._texts_rows])

    def count(self, raw: Raw) -> Numbers | None:
        """Count the rows of each person in a part of the column.

        Returns
        -------
        ndarray of int of shape (rows,) or None
            Numbers among those who are named by texts, -1 for nobody; None if somebody is named by a whole number.
        """
        if not isinstance(raw, Dictionary):
            raise TypeError
        values, codes = raw.values, raw.codes
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and _fits(values):
            known = codes[codes >= 0] if codes.min(initial=0) < 0 else codes
            self._count_integers(*_counted(values[known].astype(np.int64, copy=False)))
            return None
        names = _names(values)
        integers, places = _integer_names(names)
        if len(integers):
            times = np.bincount(codes[codes >= 0], minlength=len(names))
            different, inverse = np.unique(integers, return_inverse=True)
            rows = np.zeros(len(different), dtype=np.int64)
            np.add.at(rows, inverse, times[places])
            self._count_integers(different, rows)
        numbers: Numbers = np.append(self._among_texts(names, new=True), NOBODY)[codes]
        rows = np.bincount(numbers[numbers >= 0], minlength=len(self._texts))
        rows[: len(self._texts_rows)] += self._texts_rows
        self._texts_rows = rows
        return None if len(integers) else numbers

    def _count_integers(self, numbers: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Add rows of people who are named by whole numbers, each there once and in order."""
        if not len(self._integers):
            self._integers, self._integer_rows = numbers, rows
            return
        at = np.searchsorted(self._integers, numbers)
        known = self._integers[np.minimum(at, len(self._integers) - 1)] == numbers
        self._integer_rows[at[known]] += rows[known]
        self._integers = np.insert(self._integers, at[~known], numbers[~known])
        self._integer_rows = np.insert(self._integer_rows, at[~known], rows[~known])

    def _among_texts(self, names: Sequence[Name | None], *, new: bool) -> Numbers:
        """Give numbers among texts: -1 for nobody and whole numbers, -2 for who is not known if `new` is false."""
        if isinstance(names, Texts):
            numbers = self._texts.add(names) if new else self._texts.find(names)
            for place in np.flatnonzero(names.lengths > LONGEST).tolist():
                numbers[place] = self._other(names[place], new=new)
            return numbers
        numbers = np.full(len(names), NOBODY, dtype=np.intp)
        texts = [place for place, name in enumerate(names) if isinstance(name, str)]
        numbers[texts] = self._among_texts(Texts.of([str(names[place]) for place in texts]), new=new)
        for place, name in enumerate(names):
            if isinstance(name, int) and not _is_whole(name):
                numbers[place] = self._other(name, new=new)
        return numbers

    def _other(self, name: Name, *, new: bool) -> int:
        if new and name not in self._others:
            self._others[name] = self._texts.skip()
        return self._others.get(name, UNKNOWN)

    def among_all(self, texts: Numbers) -> Numbers:
        """Give the numbers of people of whom `count` gave those among texts."""
        return np.where(texts >= 0, texts + len(self._integers), texts)

    def find(self, raw: Raw) -> Numbers:
        """Give each row the number of its person: -1 where it names nobody, -2 where somebody who is not known."""
        if not isinstance(raw, Dictionary):
            raise TypeError
        if self._places is None:
            self._places = _Places(self._integers)
        values = raw.values
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and _fits(values):
            known = self._places.find(values.astype(np.int64, copy=False))
        else:
            names = _names(values)
            known = self.among_all(self._among_texts(names, new=False))
            integers, at = _integer_names(names)
            known[at] = self._places.find(integers)
        numbers: Numbers = np.append(known, NOBODY)[raw.codes]  # the code -1 (missing) is the last entry
        return numbers

    def hashes(self, people: Numbers, key: bytes, purpose: bytes) -> Hashes:
        """Give a keyed hash of the name of each of some people."""
        every = np.empty(len(people), dtype=np.uint64)
        by_integer = people < len(self._integers)
        every[by_integer] = keyed_numbers(self._integers[people[by_integer]], key, purpose)
        texts = people[~by_integer] - len(self._integers)
        hashes = keyed_words(self._texts.words[:, texts], key, purpose)
        if self._others:
            others = {number: _text(name) for name, number in self._others.items()}
            rows = np.flatnonzero(np.isin(texts, list(others)))
            hashes[rows] = keyed_texts([others[number] for number in texts[rows].tolist()], key, purpose)
        every[~by_integer] = hashes
        return every

    @property
    def names(self) -> Sequence[Name]:
        """Who they are, by number."""
        return _Called(self._integers, self._texts, self._others)


class _Called(Sequence[Name]):
    """Names by number, each made when it is asked for."""

    def __init__(self, integers: NDArray[np.int64], texts: TextTable, others: dict[Name, int]) -> None:
        self._integers, self._texts, self._others = integers, texts, others

    def __len__(self) -> int:
        return len(self._integers) + len(self._texts)

    @overload
    def __getitem__(self, person: int) -> Name: ...
    @overload
    def __getitem__(self, person: slice) -> list[Name]: ...
    def __getitem__(self, person: int | slice) -> Name | list[Name]:
        if isinstance(person, slice):
            return [self[each] for each in range(*person.indices(len(self)))]
        if not 0 <= person < len(self):
            raise IndexError
        if person < len(self._integers):
            return int(self._integers[person])
        number = person - len(self._integers)
        if number in self._others.values():
            return next(name for name, other in self._others.items() if other == number)
        return read_words(self._texts.words[:, number])


class _Places:
    """Where a whole number is among different ones that are in order."""

    def __init__(self, numbers: NDArray[np.int64]) -> None:
        self._numbers = numbers
        self._low = int(numbers[0]) if len(numbers) else 0
        self._high = int(numbers[-1]) if len(numbers) else -1
        self._close = self._high - self._low < _LOOSE * len(numbers)
        if self._close:
            self._table = np.full(self._high - self._low + 1, UNKNOWN, dtype=np.intp)
            self._table[numbers - self._low] = np.arange(len(numbers))
        else:
            self._scatter()

    def _scatter(self) -> None:
        """Make a hash table: each number is in the first free slot from its own on."""
        self._bits = max(len(self._numbers) - 1, 1).bit_length() + 1
        self._table = np.full(1 << self._bits, UNKNOWN, dtype=np.intp)
        left = np.arange(len(self._numbers))
        slots = self._slots(self._numbers)
        while len(left):
            free = self._table[slots] == UNKNOWN
            self._table[slots[free]] = left[free]  # of several, one stays
            more = self._table[slots] != left
            left, slots = left[more], (slots[more] + 1) & ((1 << self._bits) - 1)

    def _slots(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        hashes = mixed(np.zeros(1, dtype=np.uint64), np.ascontiguousarray(numbers).view(np.uint64))
        return (hashes >> np.uint64(64 - self._bits)).astype(np.int64)

    def find(self, numbers: NDArray[np.int64]) -> Numbers:
        """Give the place of each number, -2 where there is none."""
        if not len(self._numbers):
            return np.full(len(numbers), UNKNOWN, dtype=np.intp)
        if self._close:
            above = (numbers - self._low).view(np.uint64)  # what is less than the least one becomes very large
            if above.max(initial=0) < len(self._table):
                return self._table[above.view(np.int64)]
            inside = above < len(self._table)
            return np.where(inside, self._table[np.where(inside, above, 0).view(np.int64)], UNKNOWN)
        slots = self._slots(numbers)
        places = self._table[slots]
        other = np.flatnonzero((places != UNKNOWN) & (self._numbers[places] != numbers))
        for _ in range(len(self._table)):
            if not len(other):
                break
            slots[other] = (slots[other] + 1) & ((1 << self._bits) - 1)
            places[other] = self._table[slots[other]]
            other = other[(places[other] != UNKNOWN) & (self._numbers[places[other]] != numbers[other])]
        return places


def _fits(values: NDArray[Any]) -> bool:
    return values.dtype != np.uint64 or int(values.max(initial=0)) <= _LARGEST


def _counted(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the numbers that occur, in order, and how often."""
    if not len(numbers):
        return numbers, np.zeros(0, dtype=np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < _LOOSE * len(numbers):
        times = np.bincount(numbers - low)
        different = np.flatnonzero(times)
        return different + low, times[different]
    different, times = np.unique(numbers, return_counts=True)
    return different, times


def _names(values: Sequence[object] | NDArray[Any]) -> Sequence[Name | None]:
    """Give what values share if they name one person: whole numbers, or text; None for all else."""
    if isinstance(values, Texts):
        return values
    if set(map(type, values)) == {str}:
        return Texts.of(values)  # type: ignore[arg-type]
    return [_name(value) for value in values]


def _name(value: object) -> Name | None:
    text = str(value) if isinstance(value, UUID) else plain_text(value)
    if text is not None or isinstance(value, bool | np.bool_):
        return text
    try:
        if isinstance(value, np.integer | int):
            return int(value)
        if isinstance(value, float | np.floating | Decimal) and math.isfinite(value):
            integer = int(value)
            return integer if value == integer and abs(integer) < _WHOLE_MAX else None
    except Exception:  # noqa: BLE001 - an error would tell on its row
        return None
    return None


def _is_whole(name: Name) -> bool:
    """Whether a name is a number that fits int64; a larger one is kept beside the texts."""
    return isinstance(name, int) and _LEAST <= name <= _LARGEST


def _integer_names(names: Sequence[Name | None]) -> tuple[NDArray[np.int64], Numbers]:
    """Give the names that are numbers of int64, and their places."""
    if isinstance(names, Texts):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.intp)
    at = [place for place, name in enumerate(names) if name is not None and _is_whole(name)]
    return np.array([names[place] for place in at], dtype=np.int64), np.array(at, dtype=np.intp)


def _text(name: Name) -> str:
    return name if isinstance(name, str) else f"number {name}"
