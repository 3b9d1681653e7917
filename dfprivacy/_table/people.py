"""One person, many rows: which of them count, chosen for each person alone and before anything else is read.

A person's rows are chosen by a keyed hash of who it is, of what is known of each row, and of how many equal ones
the person has. So which count depends neither on anybody else's rows nor on the order of rows, is the same for
every question about the same columns, and is known to nobody who does not know the key. Privacy needs the first of
these only: docs/explanation/people.md.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy._json import plain_json
from dfprivacy._table.batch import Batch, reads_of
from dfprivacy._table.choice import Choice, Chosen, counting, parts
from dfprivacy._table.frames import Dictionary, Frame, Over, Read
from dfprivacy._table.hashing import mixed
from dfprivacy._table.ids import NOBODY, UNKNOWN, People
from dfprivacy.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.frames import Raw
    from dfprivacy._table.hashing import Hashes
    from dfprivacy.schema import Column, Unit

__all__ = ["BoundedFrame", "check_ids", "in_order"]

_ALL = np.uint64(2**64 - 1)  # no number within bounds is written so
_HIGH = np.uint64(32)
_PART = 1 << 20  # rows at a time where only people are read
_HASHED = 1 << 16  # and where what is known of them is hashed
_VALUES = 1 << 22  # at a time where people are found again in every pass: each of a part once


def check_ids(frame: Frame, name: str) -> None:
    """Raise a `SchemaError` if a column is of a type that cannot tell one person from another."""
    if not frame.names_people(name):
        raise SchemaError(
            f"unit={name!r} must be a column of whole numbers or text, and this one is of another type.",
            "Fractions are rounded, and two people may become one. In pandas, one missing number makes fractions "
            "of a column of whole ones: use astype('Int64'), or text.",
        )


def in_order(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Sort columns by name and by what is declared of them: hashes of rows must not depend on who asks."""
    return tuple(sorted(columns, key=lambda column: (column.name, plain_json(column.describe()))))


class BoundedFrame(Over):
    """A frame of which at most k rows of each person count; the others are in no batch.

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
    Of a person with more than k rows, those count whose hashes are the k least. Who has how many is found out once.
    Where every pass gives the same rows, whose each one is is kept, in eight bytes a row; elsewhere, of people with
    too many, the largest hash that counts, and of those with equal rows what these hold. A pass of a query that
    gives other rows than the one before it gives at most k of each person too, and which does not depend on anybody
    else's.
    """

    def __init__(self, frame: Frame, unit: Unit, key: bytes, columns: Sequence[Column] = ()) -> None:
        super().__init__(frame)
        self._unit = unit
        self.key = key
        self._known = in_order(columns)

    def knowing(self, columns: Sequence[Column]) -> BoundedFrame:
        """Give the same frame where something else is known of a row."""
        other = BoundedFrame(self.frame, self._unit, self.key, columns)
        if other._known == self._known:
            return self
        for attribute in {"_everybody", "_many"} & {*self.__dict__}:  # these do not depend on what is known of rows
            other.__dict__[attribute] = self.__dict__[attribute]
        return other

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows that count, in order, in batches of at most `size`; whose they are, as numbers of all people."""
        return self._read(reads, size) if self.settled else self._read_again(reads, size)

    def _read(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        start, every = 0, self._whose
        for rows, raw in self.frame.batches([read for read in reads if read != self._who], size):
            whose = every[start : start + rows]
            start += rows
            kept = np.flatnonzero(whose >= 0)
            if len(kept):
                yield len(kept), self._only(reads, raw, whose, None if len(kept) == rows else kept)
        if start != len(every):
            raise RuntimeError  # somebody has changed the table

    def _read_again(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Choose the rows in the pass that gives them."""
        for raw, whose in self._passed(reads):
            kept = np.flatnonzero(whose >= 0)
            for start in range(0, len(kept), size):
                rows = kept[start : start + size]
                yield len(rows), self._only(reads, raw, whose, rows)

    def _only(
        self,
        reads: Sequence[Read],
        raw: Mapping[Read, Raw],
        whose: NDArray[np.integer],
        kept: NDArray[np.intp] | None,
    ) -> dict[Read, Raw]:
        """Leave out the rows that do not count, or none for None."""
        columns: dict[Read, Raw] = {}
        for read in reads:
            if read == self._who:
                codes = (whose if kept is None else whose[kept]).astype(np.intp)
                if self._unit.missing == "own":
                    codes[codes == len(self.people)] = NOBODY
                columns[read] = Dictionary(codes, self.people.names)
            else:
                columns[read] = raw[read] if kept is None else _only(raw[read], kept)
        return columns

    def _passed(self, reads: Sequence[Read]) -> Iterator[tuple[Mapping[Read, Raw], NDArray[np.intp]]]:
        """Read all rows, and whose each one is: -1 if it does not count, who comes after all for nobody's."""
        people, (places, seeds) = self.people, self._many
        choice = Choice(self._chosen, len(people), self._unit.max_rows)
        nobody = len(people) if self._unit.missing == "own" else NOBODY
        content = self._content if len(seeds) else ()
        every = [*dict.fromkeys([*reads, self._who, *content])]
        for _, raw in self.frame.batches(every, _part_of(every)):
            whose = people.find(raw[self._who])
            place = places[whose]
            many, few = np.flatnonzero(place >= 0), np.flatnonzero((place < 0) & (whose >= 0))
            place = place[many]
            left_out = [
                many[~choice.of_many(place, self._hashed(raw, many, seeds[place]))],
                few[~choice.of_few(whose[few])],
                np.flatnonzero(whose == UNKNOWN),
            ]
            if nobody != NOBODY:
                whose[whose == NOBODY] = nobody
            for rows in left_out:
                whose[rows] = NOBODY
            yield raw, whose

    @property
    def _who(self) -> Read:
        return Read(self._unit.column, "people")

    @property
    def _content(self) -> tuple[Read, ...]:
        """How to read what is known of a row."""
        return reads_of(self._known)

    def _hashed(self, raw: Mapping[Read, Raw], rows: NDArray[np.intp], hashes: Hashes) -> Hashes:
        """Mix what is known of some rows, each value within its bounds or a category, into the hashes of people."""
        mixed = np.empty(len(rows), dtype=np.uint64)
        for start in range(0, len(rows), _HASHED):  # so many stay in the cache
            part = slice(start, start + _HASHED)
            mixed[part] = self._mixed(raw, rows[part], hashes[part])
        return mixed

    def _mixed(self, raw: Mapping[Read, Raw], rows: NDArray[np.intp], hashes: Hashes) -> Hashes:
        batch = Batch(len(rows), {read: _only(raw[read], rows) for read in self._content})
        for column in self._known:
            gone = batch.missing(column)
            if column.bounds is not None:
                hashes = mixed(hashes, np.where(gone, _ALL, batch.values(column).view(np.uint64)))
            if column.categories is not None:
                hashes = mixed(hashes, batch.codes(column).astype(np.uint64) | (gone.astype(np.uint64) << _HIGH))
        return hashes

    @property
    def people(self) -> People:
        """Who has rows, numbered."""
        return self._everybody[0]

    @cached_property
    def _everybody(self) -> tuple[People, NDArray[np.int32]]:
        """Who has rows; and where every pass gives the same, whose each row is, also of those that do not count."""
        rows = _VALUES if self.settled else _PART  # a name is looked up once in each
        parts = (raw[self._who] for _, raw in self.frame.batches([self._who], rows))
        people = People(parts, settled=self.settled)
        return people, people.whose

    @cached_property
    def _many(self) -> tuple[NDArray[np.int32], Hashes]:
        """Everybody's number among people with more than k rows, or -1; and of these, hashes of who they are."""
        many = np.flatnonzero(self.people.rows > self._unit.max_rows)
        places = np.full(len(self.people) + 2, -1, dtype=np.int32)  # the last two are for nobody
        places[many] = np.arange(len(many))
        return places, self.people.hashes(many, self.key, b"rows")

    def _from(self) -> Iterator[tuple[list[NDArray[np.intp]], int, NDArray[np.int32], Hashes]]:
        """Read the rows to choose from, of some people with more than k: which they are, whose, and their hashes.

        People are numbered from the first of these. Which rows they are is said in parts, for not all need it.
        """
        places, seeds = self._many
        for first, end in parts(self.people.rows[places[:-2] >= 0]):
            pieces, start = [], 0
            every = self._content if self.settled else (self._who, *self._content)
            for size, raw in self.frame.batches(every, _HASHED if self.settled else _part_of(every)):
                known = self._everybody[1][start : start + size]
                whose = known if self.settled else self.people.find(raw[self._who])
                place = places[whose]
                rows = np.flatnonzero((place >= first) & (place < end) if end < len(seeds) else place >= first)
                place = place[rows]
                pieces.append((rows + start, place - first, self._hashed(raw, rows, seeds[place])))
                start += size
            every_row, every_place, every_hash = zip(*pieces, strict=True)
            yield list(every_row), first, np.concatenate(every_place), np.concatenate(every_hash)

    @cached_property
    def _chosen(self) -> Chosen:
        """What counts of people with more than k rows, where passes may give rows in other orders."""
        chosen = Chosen(len(self._many[1]))
        chosen.choose(((first, place, hashes) for _, first, place, hashes in self._from()), self._unit.max_rows)
        return chosen

    @cached_property
    def _whose(self) -> NDArray[np.int32]:
        """Whose each row is, as in `_passed`, where every pass gives the same."""
        people, everybody = self._everybody
        whose = everybody.copy()
        if self._unit.missing == "own":
            whose[whose == NOBODY] = len(people)
        whose[whose == UNKNOWN] = NOBODY
        for rows, _, place, hashes in self._from():
            whose[np.concatenate(rows)[~counting(place, hashes, self._unit.max_rows)]] = NOBODY
        return whose


def _part_of(reads: Sequence[Read]) -> int:
    """Give how many rows have so many values in some columns."""
    return min(_PART, _VALUES // len(reads))


def _only(column: Raw, rows: NDArray[np.intp]) -> Raw:
    """Give some rows of a raw column."""
    return Dictionary(column.codes[rows], column.values) if isinstance(column, Dictionary) else column[rows]
