"""One person, many rows: which of them count, chosen for each person alone and before anything else is read.

A person's rows are chosen by a keyed hash of who it is and of each row's place among the person's own. So which
count does not depend on anybody else's rows, is the same for every question of an account, and is known to nobody
who does not know the key. Privacy needs the first of these only.
"""

from __future__ import annotations

import hashlib
import math
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import numpy as np

from dfprivacy._table.frames import Dictionary, Frame, Read
from dfprivacy.errors import SchemaError
from dfprivacy.schema.values import plain_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.frames import Raw
    from dfprivacy.schema import Unit

__all__ = ["BoundedFrame", "Named", "check_ids", "keyed"]

Name: TypeAlias = int | str | tuple[int]  # the last of somebody who is not named

_WHOLE_MAX = 2**53  # below it float64 holds every whole number
_PART = 1 << 20  # rows at a time where only people are read
_ALL = np.iinfo(np.uint64).max


def check_ids(frame: Frame, name: str) -> None:
    """Raise a `SchemaError` if a column is of a type that cannot tell one person from another."""
    if not frame.names_people(name):
        raise SchemaError(
            f"unit={name!r} must be a column of whole numbers or text, and this one is of another type.",
            "Fractions are rounded, and two people may become one. In pandas, one missing number makes fractions "
            "of a column of whole ones: use astype('Int64'), or text.",
        )


class Named:
    """People by the names they have in a column, numbered as they come."""

    def __init__(self) -> None:
        self.places: dict[Name, int] = {}
        self._own = 0

    def number(self, raw: Raw, *, own: bool = False) -> NDArray[np.intp]:
        """Give each row the number of its person, a new one where it is the first.

        A row that names nobody gets -1, or with `own` a number of its own.
        """
        if not isinstance(raw, Dictionary):
            raise TypeError
        names = [_name(value) for value in raw.values]
        known = self.places
        found = _looked_up([-1 if name is None else known.setdefault(name, len(known)) for name in names], raw)
        if own:
            for row in np.flatnonzero(found < 0).tolist():
                self._own += 1
                found[row] = known.setdefault((self._own,), len(known))
        return found

    def find(self, raw: Raw) -> NDArray[np.intp]:
        """Give each row the number of its person; -1 where it names nobody, -2 where somebody who is not known."""
        if not isinstance(raw, Dictionary):
            raise TypeError
        names = [_name(value) for value in raw.values]
        return _looked_up([-1 if name is None else self.places.get(name, -2) for name in names], raw)


def _looked_up(places: list[int], raw: Dictionary) -> NDArray[np.intp]:
    return np.array([*places, -1], dtype=np.intp)[raw.codes]  # the code -1 (missing) is the last entry


def _name(value: object) -> int | str | None:
    """Give what two values share if they name one person: whole numbers, or text; None for all else."""
    if type(value) is int:
        return value
    text = str(value) if isinstance(value, UUID) else plain_text(value)
    if text is not None or isinstance(value, bool | np.bool_):
        return text
    try:
        if isinstance(value, np.integer | int):
            return int(value)
        if isinstance(value, float | np.floating | Decimal) and math.isfinite(value):
            whole = int(value)
            return whole if value == whole and abs(whole) < _WHOLE_MAX else None
    except Exception:  # noqa: BLE001 - an error would tell on its row
        return None
    return None


def keyed(name: Name, key: bytes, purpose: bytes) -> int:
    """Give a number from 0 to 2^64 - 1 that nobody can tell from chance without the key."""
    written = f"{type(name).__name__}:{name}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(written, digest_size=8, key=key, person=purpose).digest())


class BoundedFrame:
    """A frame of which at most k rows of each person count; the others are in no batch.

    Parameters
    ----------
    frame : Frame
        The table.
    unit : Unit
        Whose rows they are, and how many of one person count.
    key : bytes
        The account's, by which rows are chosen.

    Notes
    -----
    Of a person with more than k rows, those count whose hashes are the k least. Who has how many is found out once.
    A pass of a query that gives its rows in another order, or others, numbers each person's rows anew: it still
    gives at most k of them, and which does not depend on anybody else's.
    """

    def __init__(self, frame: Frame, unit: Unit, key: bytes) -> None:
        self._frame = frame
        self._unit = unit
        self.key = key

    @property
    def library(self) -> str:
        """Whose tables releases make."""
        return self._frame.library

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return self._frame.columns

    @property
    def settled(self) -> bool:
        """Whether every pass gives the same rows."""
        return self._frame.settled

    def names_people(self, name: str) -> bool:
        """Whether the type of a column can name people."""
        return self._frame.names_people(name)

    def rows(self) -> int:
        """Count the rows that count."""
        return sum(rows for rows, _ in self.batches([], _PART))

    def ready(self) -> None:
        """Raise a `ReadError` if no rows can be read in this process."""
        self._frame.ready()

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Give nothing: of people who may have several rows no column is public."""
        raise NotImplementedError(names)

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows that count, in order, in batches of at most `size`."""
        if not self.settled:
            return self._read_again(reads, size)
        return self._read(reads, size)

    def _read(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        start = 0
        for rows, raw in self._frame.batches(reads, size):
            keep = self._mask[start : start + rows]
            start += rows
            if count := int(np.count_nonzero(keep)):
                yield count, {read: _only(column, keep) for read, column in raw.items()}
        if start != len(self._mask):
            raise RuntimeError  # somebody has changed the table

    def _read_again(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Choose the rows in the pass that gives them."""
        choice = _Choice(self._limits, self._unit)
        for _, raw in self._frame.batches([*dict.fromkeys([*reads, self._who])], size):
            keep = choice.of(raw[self._who])
            if count := int(np.count_nonzero(keep)):
                yield count, {read: _only(raw[read], keep) for read in reads}

    @property
    def _who(self) -> Read:
        return Read(self._unit.column, "people")

    @cached_property
    def _limits(self) -> _Limits:
        """What is known of each person before rows are chosen."""
        return _Limits(self._parts(), self._unit.max_rows, self.key)

    @cached_property
    def _mask(self) -> NDArray[np.bool_]:
        """Which rows count, where every pass gives the same."""
        choice = _Choice(_Limits(self._parts(), self._unit.max_rows, self.key), self._unit)  # forgotten then
        return np.concatenate([np.zeros(0, dtype=np.bool_), *(choice.of(raw) for raw in self._parts())])

    def _parts(self) -> Iterator[Raw]:
        return (raw[self._who] for _, raw in self._frame.batches([self._who], _PART))


class _Limits:
    """How many rows each person has, and up to which hash they count.

    Attributes
    ----------
    people : Named
        Who they are.
    rows : ndarray of int of shape (people,)
        How many rows each has.
    seeds, most : ndarray of uint64 of shape (people,)
        What each person's hashes are made of, and the largest that counts.
    """

    def __init__(self, parts: Iterable[Raw], max_rows: int, key: bytes) -> None:
        self.people = Named()
        self.rows = np.zeros(0, dtype=np.int64)
        for raw in parts:
            places = self.people.number(raw)
            counts = np.bincount(places[places >= 0], minlength=len(self.people.places))
            counts[: len(self.rows)] += self.rows
            self.rows = counts
        self.seeds = np.zeros(len(self.rows), dtype=np.uint64)
        self.most = np.full(len(self.rows), _ALL, dtype=np.uint64)
        over = np.flatnonzero(self.rows > max_rows)
        if len(over):
            self._choose(over, max_rows, key)

    def _choose(self, over: NDArray[np.intp], max_rows: int, key: bytes) -> None:
        """Find the hash up to which rows of people with too many count."""
        names = list(self.people.places)  # in the order of their numbers
        self.seeds[over] = [keyed(names[person], key, b"rows") for person in over.tolist()]
        whose = np.repeat(over, self.rows[over])
        first = np.cumsum(self.rows[over]) - self.rows[over]
        hashes = hashed(self.seeds[whose], np.arange(len(whose)) - np.repeat(first, self.rows[over]))
        order = np.lexsort((hashes, whose))
        self.most[over] = hashes[order][first + max_rows - 1]


class _Choice:
    """Which rows count, part after part of one pass."""

    def __init__(self, limits: _Limits, unit: Unit) -> None:
        self._limits = limits
        self._own = unit.missing == "own"
        self._seen = np.zeros(len(limits.rows), dtype=np.int64)

    def of(self, raw: Raw) -> NDArray[np.bool_]:
        """Tell which rows of the next part count."""
        limits = self._limits
        places = limits.people.find(raw)
        known = np.flatnonzero(places >= 0)
        whose = places[known]
        place = self._seen[whose] + _among_own(whose)
        self._seen += np.bincount(whose, minlength=len(self._seen))
        keep = places == -1 if self._own else np.zeros(len(places), dtype=np.bool_)
        keep[known] = (place < limits.rows[whose]) & (hashed(limits.seeds[whose], place) <= limits.most[whose])
        return keep


def _among_own(whose: NDArray[np.intp]) -> NDArray[np.intp]:
    """Give each row its place among those of its person, from 0 on."""
    order = np.argsort(whose, kind="stable")
    ranked = whose[order]
    first = np.searchsorted(ranked, ranked)
    found = np.empty(len(whose), dtype=np.intp)
    found[order] = np.arange(len(whose)) - first
    return found


def hashed(seeds: NDArray[np.uint64], places: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Mix seeds with places: of one seed, different places have different hashes [1]_.

    References
    ----------
    .. [1] Steele, Lea and Flood (2014). Fast splittable pseudorandom number generators. OOPSLA.
    """
    with np.errstate(over="ignore"):
        z = seeds + (places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))


def _only(column: Raw, keep: NDArray[np.bool_]) -> Raw:
    """Leave out rows of a raw column."""
    return Dictionary(column.codes[keep], column.values) if isinstance(column, Dictionary) else column[keep]
