"""Conditions by which a view selects rows; each depends on one row only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dfprivacy import _words
from dfprivacy._table.batch import BATCH_ROWS, Batch, category, declared_read, frame_reads, number
from dfprivacy.engines import Keep
from dfprivacy.errors import SchemaError
from dfprivacy.expressions import ComputedColumn
from dfprivacy.schema import OTHER, Category, Column, Schema, as_number, code_book_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from dfprivacy._table.frames import BatchSource, Read

Row: TypeAlias = Mapping[str, "float | Category | None"]


@dataclass(frozen=True)
class _ColumnCondition:
    """Base class of conditions on one column."""

    column: Column

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns on which the condition depends."""
        return (self.column,)

    @property
    def reads(self) -> tuple[Read, ...]:
        """Request to read the condition's column: as numbers if it has bounds, else as categories."""
        return (declared_read(self.column),)

    @property
    def public(self) -> bool:
        """Whether the condition reads public columns only."""
        return self.column.public

    def describe(self) -> dict[str, Any]:
        """Return the condition as plain JSON values."""
        raise NotImplementedError

    def __str__(self) -> str:
        return _words.condition_as_text(self.describe())


@dataclass(frozen=True)
class Between(_ColumnCondition):
    """Condition that a column's number lies in a closed interval; a missing number lies in no interval."""

    low: float
    high: float

    @property
    def reads(self) -> tuple[Read, ...]:
        """Request to read the condition's column, as numbers."""
        return (number(self.column),)

    def selects(self, batch: Batch) -> NDArray[np.bool_]:
        """Return a mask of the rows that the condition selects."""
        values = batch.values(self.column)
        return (values >= self.low) & (values <= self.high) & ~batch.missing(self.column)

    def describe(self) -> dict[str, Any]:
        """Return the condition as plain JSON values."""
        return {self.column.name: {"between": [self.low, self.high]}}


@dataclass(frozen=True)
class IsIn(_ColumnCondition):
    """Condition that a column's value is one of the given categories."""

    categories: tuple[Category, ...]

    @property
    def reads(self) -> tuple[Read, ...]:
        """Request to read the condition's column, as categories."""
        return (category(self.column),)

    def selects(self, batch: Batch) -> NDArray[np.bool_]:
        """Return a mask of the rows that the condition selects."""
        wanted = np.zeros(len(self.column.categories or ()) + 1, dtype=np.bool_)
        wanted[self.column.codes(self.categories)] = True
        return wanted[batch.codes(self.column)]

    def describe(self) -> dict[str, Any]:
        """Return the condition as plain JSON values."""
        return {self.column.name: {"in": list(self.categories)}}


@dataclass(frozen=True)
class Satisfies:
    """Condition that a Python function of one row returns a true value.

    The function is called with one row at a time, so that what it says of a row cannot depend on the others. What
    is missing is None. A row for which it fails is not selected: whether it fails may depend on the row, and must
    not be seen.
    """

    columns: tuple[Column, ...]
    predicate: Callable[[Row], bool]
    public: bool = False

    @property
    def reads(self) -> tuple[Read, ...]:
        """Requests to read the condition's columns: as numbers if they have bounds, else as categories."""
        return tuple(declared_read(column) for column in self.columns)

    def selects(self, batch: Batch) -> NDArray[np.bool_]:
        """Return a mask of the rows that the condition selects."""
        columns: dict[str, list[Any]] = {}
        for column in self.columns:
            if column.bounds is not None:
                there = np.where(batch.missing(column), None, batch.values(column))  # type: ignore[call-overload]
                columns[column.name] = there.tolist()
            else:
                labels = [*(column.categories or ()), None]
                columns[column.name] = [labels[code] for code in batch.codes(column)]
        names = list(columns)
        rows = zip(*columns.values(), strict=True)
        answers = (self._predicate_value(dict(zip(names, row, strict=True))) for row in rows)
        return np.fromiter(answers, dtype=np.bool_, count=batch.size)

    def _predicate_value(self, row: Row) -> bool:
        try:
            return bool(self.predicate(row))
        except Exception:  # noqa: BLE001 - see the class docstring
            return False

    def describe(self) -> None:
        """Return None: a Python function cannot be written as JSON."""

    def __str__(self) -> str:
        return "a Python function holds"


def conditions_for_engine(conditions: Iterable[Condition]) -> Iterator[Keep]:
    """Yield the conditions that an engine can apply itself, so that it reads fewer rows.

    Every row that is selected is kept, however its value is written and however it is rounded.
    """
    for each in conditions:
        name = each.columns[0].name
        if isinstance(each.columns[0], ComputedColumn):
            continue
        if isinstance(each, Between):  # a number beyond a bound counts as the bound
            low = None if each.low <= each.column.low else each.low
            high = None if each.high >= each.column.high else each.high
            if low is not None or high is not None:
                yield Keep(name, low, high)
        elif isinstance(each, IsIn) and not (each.column.other and OTHER in each.categories):
            codes = set(each.column.codes(each.categories))
            known = code_book_of(each.column.categories or ())
            numbers = [number for number, code in known.numbers.items() if code in codes]
            texts = tuple(text for text, code in known.texts.items() if code in codes)
            # A number is written in many ways, and where one is wanted, no list of texts has all of them.
            yield Keep(name, min(numbers, default=None), max(numbers, default=None), None if numbers else texts)


class Presence(Enum):
    """Argument of `where` that selects the rows in which a column's value is present, or missing."""

    PRESENT = "present"
    MISSING = "missing"

    def __repr__(self) -> str:
        return f"dfprivacy.{self.value}"


@dataclass(frozen=True)
class PresenceCondition(_ColumnCondition):
    """Condition that a column's value is present, or that it is missing; see `Batch.missing`."""

    wanted: Presence

    def selects(self, batch: Batch) -> NDArray[np.bool_]:
        """Return a mask of the rows that the condition selects."""
        gone = batch.missing(self.column)
        return gone if self.wanted is Presence.MISSING else ~gone

    def describe(self) -> dict[str, Any]:
        """Return the condition as plain JSON values."""
        return {self.column.name: {"is": self.wanted.value}}


Condition: TypeAlias = Between | IsIn | PresenceCondition | Satisfies


def with_private_column(condition: Condition) -> Condition:
    """Return the same condition with its column declared private."""
    if isinstance(condition, Satisfies):
        return condition
    return replace(condition, column=replace(condition.column, public=False))


def read_condition(schema: Schema, name: str, wanted: object) -> Condition:
    """Return the condition set by a keyword argument of ``where``, such as ``age=(30, 40)``, on that column.

    Parameters
    ----------
    schema : Schema
        Public facts about the table.
    name : str
        The column.
    wanted : tuple, list, Presence or value
        ``(low, high)``: the numbers from low to high, where None is the column's bound. A list: one of these
        categories. A value: this one. A `Presence`: whether there is one.

    Returns
    -------
    Condition
        What selects the rows.
    """
    if isinstance(wanted, Presence):
        return PresenceCondition(schema.described(name), wanted)
    if isinstance(wanted, tuple):
        if len(wanted) != 2:  # noqa: PLR2004
            raise SchemaError(f"where({name}=...): an interval is a pair (low, high), not {len(wanted)} values.")
        column = schema.numeric(name)
        ends = zip(wanted, (column.low, column.high), strict=True)
        low, high = (bound if end is None else as_number(end, f"where({name}=...)") for end, bound in ends)
        if low > high:
            raise SchemaError(
                f"where({name}=({low:.15g}, {high:.15g})): the interval is reversed.",
                f"Write the lower end first: {name}=({high:.15g}, {low:.15g}).",
            )
        return Between(column, low, high)
    column = schema.categorical(name) if isinstance(wanted, list | str) else schema.described(name)
    if column.categories is None:
        only = as_number(wanted, f"where({name}=...)")
        return Between(column, only, only)
    categories = tuple(wanted) if isinstance(wanted, list) else (wanted,)
    codes = {*column.codes(categories)}
    known = column.categories or ()
    return IsIn(column, tuple(known[code] for code in sorted(codes)))


def batches(
    rows: BatchSource, reads: Iterable[Read], conditions: tuple[Condition, ...]
) -> Iterator[tuple[Batch, NDArray[np.bool_] | None]]:
    """Yield batches of at most `BATCH_ROWS` rows, each with a mask of the rows that all conditions select.

    The mask is None where every row counts.
    """
    _reuse_freed_memory()
    for size, raw in rows.batches(
        frame_reads([*reads, *(read for c in conditions for read in c.reads)]), BATCH_ROWS
    ):
        batch = Batch(size, raw)
        mask = None
        for c in conditions:
            mask = c.selects(batch) if mask is None else mask & c.selects(batch)
        yield batch, mask


@cache
def _reuse_freed_memory() -> None:
    """Make the C library keep the freed memory of a batch's arrays for the next batch.

    The C library of Linux hands back what is freed at the end of its heap, and each batch would wait for new pages:
    two thirds of the time that moments take. Once a block of this size was freed it keeps twice as much, 64 MB; see
    M_MMAP_THRESHOLD in mallopt(3), which knows no larger one. The block itself is never touched.
    """
    np.empty((1 << 22) - (1 << 10))
