"""Choice of at most k rows of each person, before any question reads the rows.

A person's rows are chosen by a keyed hash of who it is, of what is known of each row, and of how many equal ones
the person has. So which count depends neither on anybody else's rows nor on the order of rows, is the same for
every question about the same columns, and is known to nobody who does not know the key. Privacy needs the first of
these only: docs/explanation/people.md.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from dfprivacy._json import plain_json
from dfprivacy._table.batch import Batch, reads_of
from dfprivacy._table.frames import DerivedFrame, Read, cut_into_batches
from dfprivacy.schema.values import Dictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.frames import BatchSource, Frame
    from dfprivacy.schema import Column, Unit
    from dfprivacy.schema.values import Raw

__all__ = ["NOBODY", "BoundedFrame", "BoundedRows", "Hashes", "choose_rows", "keyed_hashes", "sort_columns"]

T = TypeVar("T")
Hashes = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]

NOBODY = -1
_ALL = np.uint64(2**64 - 1)  # no number within bounds is written so
_HIGH = np.uint64(32)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_PART = 1 << 22  # rows at a time where only people are read: a name is looked up once in each
_HASHED = 1 << 16  # and where what is known of them is hashed: so many stay in the cache


def sort_columns(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Sort columns by name and declaration, so that hashes of rows do not depend on a question's column order."""
    return tuple(sorted(columns, key=lambda column: (column.name, plain_json(column.describe()))))


class BoundedFrame(DerivedFrame):
    """A frame that yields at most k rows of each person, and leaves out the person's other rows.

    Parameters
    ----------
    frame : Frame
        The table.
    unit : Unit
        Whose rows they are, and how many of one person count.
    key : bytes
        The account's, by which rows are chosen.
    columns : sequence of Column
        What is known of a row, by which it is chosen.

    Notes
    -----
    Where every pass gives the same rows, whose each one is is found out once. A query may give others in each pass,
    so each is held in memory while rows are chosen among those that it gives.
    """

    def __init__(self, frame: Frame, unit: Unit, key: bytes, columns: Sequence[Column] = ()) -> None:
        super().__init__(frame)
        self.elsewhere = frame.elsewhere
        self._chosen_by = unit, key, sort_columns(columns)

    def with_row_choice_columns(self, columns: Sequence[Column]) -> BoundedFrame:
        """Return the same frame, with other columns whose values decide which rows of a person are chosen."""
        other = BoundedFrame(self.frame, *self._chosen_by[:2], columns)
        if other._chosen_by == self._chosen_by:
            return self
        if "_rows_in_memory" in self.__dict__:
            other.__dict__["_rows_in_memory"] = self._rows_in_memory.with_row_choice_columns(other._chosen_by[2])
        return other

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Yield the chosen rows in batches of at most `size`; people are encoded as indices into their names."""
        held: Callable[[BoundedRows], BatchSource] = partial(_RowsInMemory, reads=reads)
        for part in self.apply_to_people(reads, held if self.elsewhere else lambda rows: rows):
            yield from part.batches(reads, size)

    def apply_to_people(self, reads: Sequence[Read], work: Callable[[BoundedRows], T]) -> Iterator[T]:
        """Apply a function to parts of the table, each with all rows of its people, and yield the results."""

        def work_on_rows(rows: BoundedRows, _: Callable[[int], None]) -> T:
            return work(rows)

        if self.elsewhere:
            yield from self.map_parts(reads, work_on_rows, lambda _: None, portable=True)
        elif self.settled:
            yield work(self._rows_in_memory)
        else:
            held = _PeopleTask(tuple(reads), self._chosen_by, work_on_rows)
            for part in self._frames_by_person:
                yield held(part, lambda _: None)

    def map_parts(
        self,
        reads: Sequence[Read],
        work: Callable[[BoundedRows, Callable[[int], None]], T],
        count: Callable[[int], None],
        *,
        portable: bool,
        enough: Callable[[T], bool] = lambda _: False,
    ) -> list[T]:
        """Apply a function to the chosen rows on a cluster, as `ClusterFrame.map_parts` does to all rows."""
        (frame,) = self._frames_by_person
        held = _PeopleTask(tuple(reads), self._chosen_by, work)
        results: list[T] = frame.map_parts(held.columns_to_read, held, count, portable=portable, enough=enough)  # type: ignore[attr-defined]
        return results

    @cached_property
    def _frames_by_person(self) -> Sequence[Frame]:
        return self.frame.split_by_person(self._chosen_by[0].column)

    @cached_property
    def _rows_in_memory(self) -> BoundedRows:
        return BoundedRows(self.frame, *self._chosen_by)


class BoundedRows:
    """All rows of some people; `batches` yields at most k chosen rows of each person.

    Parameters
    ----------
    rows : BatchSource
        The rows: every pass gives the same.
    unit, key, columns
        As for `BoundedFrame`.
    """

    def __init__(self, rows: BatchSource, unit: Unit, key: bytes, columns: tuple[Column, ...]) -> None:
        self._rows = rows
        self._unit = unit
        self._key = key
        self._known = columns
        self._who = Read(unit.column, "people")

    def with_row_choice_columns(self, columns: tuple[Column, ...]) -> BoundedRows:
        """Return the same rows, with other columns whose values decide which rows of a person are chosen."""
        other = BoundedRows(self._rows, self._unit, self._key, columns)
        other.__dict__.update(
            {name: value for name, value in self.__dict__.items() if name == "person_of_each_row"}
        )
        return other

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Yield the chosen rows in order, in batches of at most `size`; people are encoded as integer codes."""
        start, counts, everybody = 0, self._chosen_mask, self.person_of_each_row
        for rows, raw in self._rows.batches([read for read in reads if read != self._who], size):
            kept: Any = np.flatnonzero(counts[start : start + rows])
            if len(kept):
                given = {read: column if len(kept) == rows else column[kept] for read, column in raw.items()}
                if self._who in reads:
                    codes = everybody.codes[start : start + rows][kept].astype(np.intp)
                    given[self._who] = Dictionary(codes, everybody.values)
                yield len(kept), given
            start += rows
        if start != len(counts):
            raise RuntimeError  # somebody has changed the table

    @cached_property
    def person_of_each_row(self) -> Dictionary:
        """Person of each row, chosen or not, as an index into the list of all names."""
        from dfprivacy._table.frames.columns import concatenate_people  # which imports Arrow

        return concatenate_people([raw[self._who] for _, raw in self._rows.batches([self._who], _PART)])

    @cached_property
    def _chosen_mask(self) -> NDArray[np.bool_]:
        """Mask of the chosen rows among all rows."""
        whose, names = self.person_of_each_row.codes, self.person_of_each_row.values
        counts = whose >= 0
        times = np.bincount(whose[counts], minlength=len(names))
        many = np.flatnonzero(times > self._unit.max_rows)
        if len(many):
            place = np.full(len(names) + 1, NOBODY, dtype=np.int32)  # the last is nobody's
            place[many] = np.arange(len(many))
            rows = np.flatnonzero(place[whose] >= 0)
            of_many = place[whose[rows]]
            hashes = self._row_hashes(rows, self.hashes(many, b"rows")[of_many])
            counts[rows] = choose_rows(of_many, hashes, self._unit.max_rows)
        return counts | (whose < 0) if self._unit.missing == "own" else counts

    def hashes(self, people: NDArray[np.integer], purpose: bytes) -> Hashes:
        """Return a keyed hash of each person's name."""
        from dfprivacy._table.frames.columns import identifiers_as_bytes

        return keyed_hashes(identifiers_as_bytes(self.person_of_each_row.values, people), self._key, purpose)

    def _row_hashes(self, rows: NDArray[np.intp], hashes: Hashes) -> Hashes:
        """Return a hash of each row, made from its person's hash, its clipped numbers and its categories."""
        reads = reads_of(self._known)
        if not reads:
            return hashes
        start = done = 0
        every = np.empty_like(hashes)
        for size, raw in self._rows.batches(reads, _HASHED):
            start += size
            end = int(np.searchsorted(rows, start))
            own = rows[done:end] - (start - size)
            batch, states = Batch(len(own), {read: raw[read][own] for read in reads}), hashes[done:end]
            for column in self._known:
                gone = batch.missing(column)
                if column.bounds is not None:
                    states = mix_words(states, np.where(gone, _ALL, batch.values(column).view(np.uint64)))
                if column.categories is not None:
                    marks = gone.astype(np.uint64) << _HIGH
                    states = mix_words(states, batch.codes(column).astype(np.uint64) | marks)
            every[done:end] = states
            done = end
        return every


class _RowsInMemory:
    """Batches of one pass over a table, held in memory."""

    def __init__(self, rows: BatchSource, reads: Sequence[Read]) -> None:
        self._batches = [*rows.batches(reads, _PART)]

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Yield the rows in batches of at most `size`."""
        for rows, raw in self._batches:
            yield from cut_into_batches({read: raw[read] for read in reads}, rows, size)


@dataclass(frozen=True)
class _PeopleTask(Generic[T]):
    """Task on all rows of some people: reads them into memory, chooses rows, and applies a function."""

    reads: tuple[Read, ...]
    chosen_by: tuple[Unit, bytes, tuple[Column, ...]]
    work: Callable[[BoundedRows, Callable[[int], None]], T]

    @property
    def columns_to_read(self) -> list[Read]:
        """Requests to read the task's columns, people's names, and columns that decide which rows are chosen."""
        unit, _, known = self.chosen_by
        return [*dict.fromkeys([*self.reads, Read(unit.column, "people"), *reads_of(known)])]

    def __call__(self, rows: BatchSource, count: Callable[[int], None]) -> T:
        """Choose rows from a part of the table, and apply the function to them."""
        return self.work(BoundedRows(_RowsInMemory(rows, self.columns_to_read), *self.chosen_by), count)


def keyed_hashes(names: Iterable[bytes], key: bytes, purpose: bytes) -> Hashes:
    """Return the BLAKE2b hash [1]_ of each name, for a key and a purpose, as an integer from 0 to 2^64 - 1.

    References
    ----------
    .. [1] Saarinen and Aumasson (2015). The BLAKE2 cryptographic hash and message authentication code. RFC 7693.
    """
    start = hashlib.blake2b(digest_size=8, key=key, person=purpose)

    def hash_name(name: bytes) -> bytes:
        each = start.copy()
        each.update(name)
        return each.digest()

    return np.frombuffer(b"".join(map(hash_name, names)), dtype="<u8").astype(np.uint64)


def mix_words(states: Hashes, words: Hashes) -> Hashes:
    """Mix 64-bit words into hash states; from one state, different words give different states [1]_.

    References
    ----------
    .. [1] Steele, Lea and Flood (2014). Fast splittable pseudorandom number generators. OOPSLA.
    """
    z = (states + _GOLDEN) ^ words
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def choose_rows(whose: NDArray[np.integer], hashes: Hashes, most: int) -> NDArray[np.bool_]:
    """Return a mask of at most `most` rows of each person: the rows with the smallest hashes.

    Parameters
    ----------
    whose : ndarray of int of shape (rows,)
        Whose each row is; everybody has one.
    hashes : ndarray of uint64 of shape (rows,)
        Of what each holds. A person's equal rows get hashes of their own, in the order in which they stand.
    most : int
        How many count, k.

    Returns
    -------
    ndarray of bool of shape (rows,)
        Which rows count.
    """
    order = np.lexsort((hashes, whose))
    ranked, content = whose[order], hashes[order]
    new = np.append(True, ranked[1:] != ranked[:-1])
    equal = np.append(False, content[1:] == content[:-1]) & ~new
    twice = np.flatnonzero(np.isin(ranked, ranked[equal]))  # all rows of those who have equal ones
    again = mix_words(content[twice], _position_in_run(~equal)[twice].astype(np.uint64))
    order[twice] = order[twice][np.lexsort((again, ranked[twice]))]
    counts = np.zeros(len(whose), dtype=np.bool_)
    counts[order[_position_in_run(new) < most]] = True
    return counts


def _position_in_run(new: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the distance of each element from the start of its run, where `new` marks the starts."""
    places = np.arange(len(new))
    return places - np.maximum.accumulate(np.where(new, places, 0))
