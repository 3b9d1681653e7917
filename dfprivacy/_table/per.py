"""One row a person: a table made of the several rows of each, with bounds and categories that follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dfprivacy._table.batch import described
from dfprivacy._table.frames import Dictionary, Read
from dfprivacy._table.hashing import keyed
from dfprivacy._table.ids import NOBODY
from dfprivacy.errors import SchemaError, quoted
from dfprivacy.schema import Column, bounds_of
from dfprivacy.schema.values import plain_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.frames import Raw
    from dfprivacy._table.people import BoundedFrame
    from dfprivacy.schema import Schema, Unit

__all__ = ["How", "OfPerson", "PerFrame", "read_aggregates"]

How = Literal["mean", "sum", "min", "max", "count", "first", "last"]
_HOWS = get_args(How)
_BITS = 61  # of a sum, so that int64 has room for the rounding of each row


@dataclass(frozen=True)
class OfPerson:
    """One number or category of each person, from the person's rows that count and have a value.

    Attributes
    ----------
    name : str
        What it is called.
    how : {"mean", "sum", "min", "max", "count", "first", "last"}
        How it is made. A person none of whose rows has a value has none, but for ``"sum"`` and ``"count"``, which
        are 0 then.
    of : Column or None
        Of which column; None for the number of rows.
    column : Column
        What follows from that for the result.
    """

    name: str
    how: How
    of: Column | None
    column: Column

    def describe(self) -> list[Any]:
        """Return the same as plain JSON values."""
        of = None if self.of is None else [self.of.name, self.of.describe()]
        return [self.name, self.how, of, self.column.describe()]


def read_aggregates(schema: Schema, unit: Unit, aggregates: Mapping[str, object]) -> tuple[OfPerson, ...]:
    """Read what is asked of each person's rows.

    Parameters
    ----------
    schema : Schema
        What is public about the rows.
    unit : Unit
        Whose rows they are.
    aggregates : mapping
        ``name=how`` or ``name=(column, how)`` or ``name=(column, "sum", (low, high))``.

    Returns
    -------
    tuple of OfPerson
        What the new table has.

    Raises
    ------
    SchemaError
        If something cannot be used.
    """
    if not aggregates:
        raise SchemaError("agg() was asked for nothing.", "For example agg(bmi='mean', visits='count').")
    return tuple(_aggregate(schema, unit, name, wanted) for name, wanted in aggregates.items())


def _aggregate(schema: Schema, unit: Unit, name: str, wanted: object) -> OfPerson:
    if not isinstance(name, str) or name == unit.column:
        raise SchemaError(f"agg({name}=...): {unit.column!r} says whose a row is.", "Give it another name.")
    parts = wanted if isinstance(wanted, tuple) else (name, wanted) if name in schema.names else (None, wanted)
    source, how, limits = (*parts, None)[:3] if 2 <= len(parts) <= 3 else (None, None, None)  # noqa: PLR2004
    if how not in _HOWS:
        raise SchemaError(
            f"agg({name}=...){quoted(wanted)} is unknown.",
            f"Use one of {_HOWS!r}, or a tuple of a column and one of these: {name}=('column', 'mean').",
        )
    if source == unit.column:
        raise SchemaError(f"agg({name}=...): {source!r} says whose a row is and is in no question.", "Use another.")
    if limits is not None and how != "sum":
        raise SchemaError(f"agg({name}=...): only a sum takes bounds.", "Others have those of their column.")
    if source is None:
        if how != "count":
            raise SchemaError(f"There is no column {name!r}.", f"Say of which: {name}=('column', {how!r}).")
        return OfPerson(name, "count", None, _counted(name, unit.max_rows))
    of = schema.described(source)
    if how == "count":
        return OfPerson(name, how, of, _counted(name, unit.max_rows))
    if of.bounds is None and how not in {"first", "last"}:
        raise SchemaError(
            f"agg({name}=...): {source!r} has categories, of which there is no {how}.",
            f"Use 'first', 'last' or 'count', or declare bounds={{{source!r}: (low, high)}}.",
        )
    return OfPerson(name, how, of, _derived(name, of, how, limits, unit.max_rows))


def _counted(name: str, most: int) -> Column:
    return Column(name, bounds=(0.0, float(most)), fill=0.0, filled=True)  # everybody has one


def _derived(name: str, of: Column, how: str, limits: object, most: int) -> Column:
    if of.bounds is None:
        return Column(name, categories=of.categories, other=of.other, filled=of.filled)
    low, high = of.bounds
    if how == "sum":
        low, high = bounds_of(name, (min(0.0, most * low), max(0.0, most * high)) if limits is None else limits)
        return Column(name, bounds=(low, high), fill=min(max(0.0, low), high), filled=True, beyond=of.beyond)
    return Column(name, bounds=(low, high), fill=of.fill, filled=of.filled, beyond=of.beyond)


class PerFrame:
    """The people of a table, one row each.

    Parameters
    ----------
    frame : BoundedFrame
        The table.
    read : callable
        Given reads, gives batches of the rows that count and a mask of those that are asked for.
    unit : Unit
        Whose rows they are.
    key : bytes
        The account's, by which people are put in order.
    columns : tuple of OfPerson
        What each has.

    Notes
    -----
    People are in the order of a keyed hash of their names, which tells nothing: whoever is exchanged for another
    then has the same place as that one, for all that anybody knows who does not know the key.
    """

    settled = True

    def __init__(
        self,
        frame: BoundedFrame,
        read: Callable[[Sequence[Read]], Iterator[tuple[Batch, NDArray[np.bool_] | None]]],
        unit: Unit,
        key: bytes,
        columns: tuple[OfPerson, ...],
    ) -> None:
        self._frame = frame
        self._read = read
        self._unit = unit
        self._key = key
        self._columns = columns

    @property
    def library(self) -> str:
        """Whose tables releases make."""
        return self._frame.library

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(each.name for each in self._columns)

    def rows(self) -> int:
        """Count the people."""
        return self._made[0]

    def ready(self) -> None:
        """Raise a `ReadError` if no rows can be read in this process."""
        self._frame.ready()

    def names_people(self, name: str) -> bool:  # noqa: ARG002
        """Whether a column can name people: the rows are people themselves."""
        return False

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Give nothing: no column is public."""
        raise NotImplementedError(names)

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """People in batches of at most `size`."""
        people, made = self._made
        for start in range(0, people, size):
            stop = min(start + size, people)
            yield stop - start, {read: _part(made[read.name], read, start, stop) for read in reads}

    @cached_property
    def _made(self) -> tuple[int, dict[str, Raw]]:
        """Read the rows once: how many people there are, and their columns."""
        who = Read(self._unit.column, "people")
        people, unnamed = self._frame.people, 0
        counts: dict[Column | None, _Counted] = {None: _Counted(None)}  # first, all rows that are asked for
        for aggregate in self._columns:
            if aggregate.of is not None and not aggregate.of.filled:
                counts.setdefault(aggregate.of, _Counted(aggregate.of))
        folded = [
            _Folded(aggregate, counts.get(aggregate.of, counts[None]), self._unit.max_rows)
            for aggregate in self._columns
        ]
        by_count = [(count, [each for each in folded if each.counted is count]) for count in counts.values()]
        of = (each.of for each in self._columns if each.of is not None)
        for batch, mask in self._read([who, *dict.fromkeys(described(column) for column in of)]):
            whose = _numbers(batch.raw[who])
            own = np.flatnonzero(whose == NOBODY) if self._unit.missing == "own" else np.zeros(0, dtype=np.intp)
            whose[own] = len(people) + unnamed + np.arange(len(own))  # each a person of its own
            unnamed += len(own)
            for count, those in by_count:
                rows = count.rows(batch, mask)
                of_whom = whose if rows is None else whose[rows]
                count.longer(len(people) + unnamed)
                for each in those:
                    each.add(batch, rows, of_whom)
                count.add(of_whom)
        there = np.flatnonzero(counts[None].times)
        named, own = there[there < len(people)], there[there >= len(people)] - len(people)
        hashes = (
            people.hashes(named, self._key, b"order"),
            keyed(map(b"%d".__mod__, own.tolist()), self._key, b"own order"),
        )
        order = np.argsort(np.concatenate(hashes), kind="stable")
        return len(there), {each.aggregate.name: each.raw(there[order]) for each in folded}


def _numbers(raw: Raw) -> NDArray[np.intp]:
    if not isinstance(raw, Dictionary):
        raise TypeError
    return raw.codes


class _Counted:
    """How many rows of each person have a value in a column; or how many there are, of no column.

    Parameters
    ----------
    of : Column or None
        Of which column.

    Attributes
    ----------
    times : ndarray of int
        How many so far, by number of the person.
    """

    def __init__(self, of: Column | None) -> None:
        self._of = of
        self.times = np.zeros(0, dtype=np.int64)

    def rows(self, batch: Batch, mask: NDArray[np.bool_] | None) -> NDArray[np.intp] | None:
        """Give the rows of a batch that count, of those of a mask; None for all."""
        of = self._of
        if of is not None:
            if of.bounds is not None:
                batch.values(of)  # tells whether one is missing
            if batch.has_missing(of):
                there = ~batch.missing(of)
                mask = there if mask is None else mask & there
        return None if mask is None else np.flatnonzero(mask)

    def longer(self, people: int) -> None:
        """Make room for so many people."""
        self.times = _longer(self.times, people, fill=0)

    def add(self, whose: NDArray[np.intp]) -> None:
        """Count some rows."""
        np.add.at(self.times, whose, 1)


class _Folded:
    """One column of the people, row after row.

    A person's numbers, within their bounds, are rounded to a grid so fine that they just do not overflow, and added
    as whole numbers: to the last bit, the sum does not depend on the order of rows, on what lies between them, or
    on where a batch ends. The rounding is less than 2^-61 of the largest sum for each row.

    Parameters
    ----------
    aggregate : OfPerson
        Which column.
    counted : _Counted
        How many of each person's rows it is made of.
    most : int
        How many rows of one person count.
    """

    def __init__(self, aggregate: OfPerson, counted: _Counted, most: int) -> None:
        self.aggregate = aggregate
        self.counted = counted
        self._adds = aggregate.how in {"mean", "sum"}
        self._k = 0
        if self._adds and aggregate.of is not None and aggregate.of.bounds is not None:
            self._k = _BITS - math.frexp(max(map(abs, aggregate.of.bounds)))[1] - most.bit_length()
        self._start = {"min": math.inf, "max": -math.inf}.get(aggregate.how, 0.0)
        self._value: NDArray[Any] = np.zeros(0, dtype=np.int64 if self._adds else np.float64)

    def add(self, batch: Batch, rows: NDArray[np.intp] | None, whose: NDArray[np.intp]) -> None:
        """Take some rows of a batch, all for None, before they are counted; and whose they are."""
        how, of = self.aggregate.how, self.aggregate.of
        if of is None or how == "count":
            return
        self._value = _longer(self._value, len(self.counted.times), fill=self._start)
        values = batch.values(of) if of.bounds is not None else batch.codes(of).astype(np.float64)
        if rows is not None:
            values = values[rows]
        if self._adds:
            np.add.at(self._value, whose, np.rint(np.ldexp(values, self._k)).astype(np.int64))
        elif how == "min":
            np.minimum.at(self._value, whose, values)
        elif how == "max":
            np.maximum.at(self._value, whose, values)
        elif how == "last":
            self._value[whose] = values  # of several, the last one stays
        else:
            new = self.counted.times[whose] == 0
            self._value[whose[new][::-1]] = values[new][::-1]

    def raw(self, people: NDArray[np.intp]) -> Raw:
        """Give the column of some people, in this order."""
        how, count = self.aggregate.how, self.counted.times[people]
        if how == "count":
            return count.astype(np.float64)
        value = _longer(self._value, len(self.counted.times), fill=self._start)[people]
        if self._adds:
            value = np.ldexp(value.astype(np.float64), -self._k)
        if how == "mean":
            value /= np.maximum(count, 1)
        if self.aggregate.column.bounds is None:
            codes = np.where(count > 0, value, -1).astype(np.intp)
            return Dictionary(codes, self.aggregate.column.categories or ())
        return value if how == "sum" else np.where(count > 0, value, np.nan)


def _longer(array: NDArray[Any], length: int, *, fill: float) -> NDArray[Any]:
    """Make room for more people; at least a half more at a time, for they come batch by batch."""
    if length <= len(array):
        return array
    return np.concatenate([array, np.full(max(length, len(array) * 3 // 2) - len(array), fill, dtype=array.dtype)])


def _part(column: Raw, read: Read, start: int, stop: int) -> Raw:
    if not isinstance(column, Dictionary):
        return column[start:stop]
    codes = column.codes[start:stop]
    if read.domain is not None:
        return Dictionary(codes, column.values)
    return np.array([*map(plain_number, column.values), math.nan])[codes]
