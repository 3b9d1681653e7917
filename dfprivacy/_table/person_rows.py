"""Tables with one row per person: aggregates of each person's rows, with derived bounds and categories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dfprivacy._table.batch import gather_selected_rows, reads_of
from dfprivacy._table.conditions import batches
from dfprivacy._table.frames import ColumnsFrame, DerivedFrame, Read
from dfprivacy._table.people import NOBODY, keyed_hashes
from dfprivacy.errors import SchemaError, quoted
from dfprivacy.schema import Column, bounds_of
from dfprivacy.schema.values import Dictionary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.conditions import Condition
    from dfprivacy._table.people import BoundedFrame, BoundedRows, Hashes
    from dfprivacy.schema import Schema, Unit
    from dfprivacy.schema.values import Raw

__all__ = ["How", "PersonAggregation", "PersonColumn", "PersonFrame", "read_aggregates"]

How = Literal["mean", "sum", "min", "max", "count", "first", "last"]
_HOWS = get_args(How)
_BITS = 61  # of a sum, so that int64 has room for the rounding of each row


@dataclass(frozen=True)
class PersonColumn:
    """A column with one number or category per person, aggregated from the person's chosen rows.

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
        """Return the column as plain JSON values."""
        of = None if self.of is None else [self.of.name, self.of.describe()]
        return [self.name, self.how, of, self.column.describe()]


def read_aggregates(schema: Schema, unit: Unit, aggregates: Mapping[str, object]) -> tuple[PersonColumn, ...]:
    """Return the columns that the keyword arguments of `agg` define.

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
    tuple of PersonColumn
        What the new table has.

    Raises
    ------
    SchemaError
        If something cannot be used.
    """
    if not aggregates:
        raise SchemaError("agg() was given no column to compute.", "For example agg(bmi='mean', visits='count').")
    return tuple(_read_aggregate(schema, unit, name, wanted) for name, wanted in aggregates.items())


def _read_aggregate(schema: Schema, unit: Unit, name: str, wanted: object) -> PersonColumn:
    if not isinstance(name, str) or name == unit.column:
        raise SchemaError(
            f"agg({name}=...): {unit.column!r} is the column that identifies people.",
            "Give the new column another name.",
        )
    parts = wanted if isinstance(wanted, tuple) else (name, wanted) if name in schema.names else (None, wanted)
    source, how, limits = (*parts, None)[:3] if 2 <= len(parts) <= 3 else (None, None, None)  # noqa: PLR2004
    if how not in _HOWS:
        raise SchemaError(
            f"agg({name}=...){quoted(wanted)} is unknown.",
            f"Use one of {_HOWS!r}, or a tuple of a column and one of these: {name}=('column', 'mean').",
        )
    if source == unit.column:
        raise SchemaError(
            f"agg({name}=...): {source!r} identifies people and cannot be aggregated.", "Use another column."
        )
    if limits is not None and how != "sum":
        raise SchemaError(
            f"agg({name}=...): only a sum takes bounds.", "Leave out the bounds: they follow from the column."
        )
    of = None if source is None else schema.described(source)
    if how == "count":
        everybody = Column(name, bounds=(0.0, float(unit.max_rows)), fill=0.0, filled=True)
        return PersonColumn(name, how, of, everybody)
    if of is None:
        raise SchemaError(
            f"There is no column {name!r}.", f"Name a column of the table: {name}=('column', {how!r})."
        )
    if of.bounds is None and how not in {"first", "last"}:
        raise SchemaError(
            f"agg({name}=...): {source!r} has categories, which have no {how}.",
            f"Use 'first', 'last' or 'count', or declare bounds={{{source!r}: (low, high)}}.",
        )
    return PersonColumn(name, how, of, _derived_column(name, of, how, limits, unit.max_rows))


def _derived_column(name: str, of: Column, how: str, limits: object, most: int) -> Column:
    if of.bounds is None:
        return Column(name, categories=of.categories, other=of.other, filled=of.filled)
    low, high = of.bounds
    if how == "sum":
        low, high = bounds_of(name, (min(0.0, most * low), max(0.0, most * high)) if limits is None else limits)
        return Column(name, bounds=(low, high), fill=min(max(0.0, low), high), filled=True, beyond=of.beyond)
    return Column(name, bounds=(low, high), fill=of.fill, filled=of.filled, beyond=of.beyond)


class PersonFrame(DerivedFrame):
    """A frame with one row for each person of another table.

    Parameters
    ----------
    frame : BoundedFrame
        The table.
    people : PersonAggregation
        What is made of the rows of each.

    Notes
    -----
    People are in the order of a keyed hash of their names, which tells nothing: whoever is exchanged for another
    then has the same place as that one, for all that anybody knows who does not know the key.
    """

    def __init__(self, frame: BoundedFrame, people: PersonAggregation) -> None:
        super().__init__(frame)
        self.settled = True  # they are read once
        self._rows = frame
        self._people = people

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(each.name for each in self._people.columns)

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Yield the people's rows in batches of at most `size`."""
        return self._columns_of_people.batches(reads, size)

    @cached_property
    def _columns_of_people(self) -> ColumnsFrame:
        """Columns with one value per person, computed at first use."""
        parts = [*self._rows.apply_to_people(self._people.reads, self._people)]
        order = np.argsort(np.concatenate([hashes for hashes, _ in parts]), kind="stable")
        columns: dict[str, Raw] = {}
        for at, each in enumerate(self._people.columns):
            values = np.concatenate([made[at] for _, made in parts])[order]
            if each.column.bounds is None:
                known = [*(each.column.categories or ())]
                columns[each.name] = Dictionary(np.where(np.isnan(values), -1, values).astype(np.intp), known)
            else:
                columns[each.name] = values
        return ColumnsFrame(columns)


@dataclass(frozen=True)
class PersonAggregation:
    """Task run on the rows of some people: it returns their aggregates, and hashes to sort the people by.

    Attributes
    ----------
    conditions : tuple of Condition
        Which of their rows are asked.
    unit : Unit
        Whose rows they are.
    key : bytes
        The account's, by which people are put in order.
    columns : tuple of PersonColumn
        What each has.
    """

    conditions: tuple[Condition, ...]
    unit: Unit
    key: bytes
    columns: tuple[PersonColumn, ...]

    @property
    def _source_columns(self) -> tuple[Column, ...]:
        return tuple(dict.fromkeys(each.of for each in self.columns if each.of is not None))

    @property
    def reads(self) -> tuple[Read, ...]:
        """Requests to read the columns that are aggregated, and those of the conditions."""
        selected = (read for condition in self.conditions for read in condition.reads)
        return tuple(dict.fromkeys([*reads_of(self._source_columns), *selected]))

    def __call__(self, rows: BoundedRows) -> tuple[Hashes, list[NDArray[np.float64]]]:
        """Return each person's hash, and for each column an array with one value per person."""
        named = len(rows.person_of_each_row.values)
        whose = [np.zeros(0, dtype=np.intp)]
        who = Read(self.unit.column, "people")

        def record_people() -> Iterator[tuple[Batch, NDArray[np.bool_] | None]]:
            for batch, mask in batches(rows, (who, *reads_of(self._source_columns)), self.conditions):
                of_batch: Any = batch.raw[who]
                whose.append(of_batch.codes if mask is None else of_batch.codes[mask])
                yield batch, mask

        every: Any = gather_selected_rows(record_people(), self._source_columns)
        codes = np.concatenate(whose)
        own = np.flatnonzero(codes == NOBODY)
        codes[own] = named + np.arange(len(own))  # each a person of its own
        there, codes = np.unique(codes, return_inverse=True)
        own_names = (b"%d" % (each - named) for each in there[there >= named].tolist())
        hashes = rows.hashes(there[there < named], b"order"), keyed_hashes(own_names, self.key, b"own order")
        made = [_aggregate_by_person(each, every, codes, len(there), self.unit.max_rows) for each in self.columns]
        return np.concatenate(hashes), made


def _aggregate_by_person(
    aggregate: PersonColumn, batch: Batch, whose: NDArray[np.intp], people: int, most: int
) -> NDArray[np.float64]:
    """Compute one aggregate of each person's rows; categories as codes, NaN for a missing value.

    A person's numbers, within their bounds, are rounded to a grid so fine that they just do not overflow, and added
    as integers: to the last bit, the sum does not depend on the order of rows, on what lies between them, or
    on where a batch ends. The rounding is less than 2^-61 of the largest sum for each row.
    """
    how, of = aggregate.how, aggregate.of
    if of is not None and not of.filled and batch.missing(of).any():
        there = np.flatnonzero(~batch.missing(of))
        batch, whose = batch.take(there), whose[there]
    times = np.bincount(whose, minlength=people)
    if of is None or how == "count":
        return times.astype(np.float64)
    values = batch.values(of) if of.bounds is not None else batch.codes(of).astype(np.float64)
    if how in {"mean", "sum"}:
        k = _BITS - math.frexp(max(map(abs, of.bounds or ())))[1] - most.bit_length()
        steps = np.zeros(people, dtype=np.int64)
        np.add.at(steps, whose, np.rint(np.ldexp(values, k)).astype(np.int64))
        total = np.ldexp(steps.astype(np.float64), -k)
        if how == "sum":
            return total
        made = total / np.maximum(times, 1)
    elif how in {"min", "max"}:
        least = how == "min"
        made = np.full(people, math.inf if least else -math.inf)
        (np.minimum if least else np.maximum).at(made, whose, values)
    else:
        made = np.zeros(people)
        onwards = slice(None, None, -1 if how == "first" else 1)
        made[whose[onwards]] = values[onwards]  # of several, the last one stays
    return np.where(times > 0, made, np.nan)
