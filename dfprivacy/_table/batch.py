"""Rows as mechanisms may use them: cleaned, in batches, and only those a view's conditions select."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dfprivacy._table.frames import Frame, Raw, Read
from dfprivacy.errors import SchemaError
from dfprivacy.schema import Category, Column, Schema, as_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.schema import Codes

BATCH_ROWS = 1 << 14
"""Rows in a batch: small enough for the cache, and for float64 to hold exact sums of grid steps."""

Row: TypeAlias = Mapping[str, "float | Category | None"]


@dataclass
class Batch:
    """Some rows of a table, every value within its public bounds or among its public categories.

    Attributes
    ----------
    size : int
        Number of rows, those that no condition selects included.
    raw : mapping of Read to Raw
        The columns as the engine gave them.
    """

    size: int
    raw: Mapping[Read, Raw]
    _cleaned: dict[Column, NDArray[np.float64]] = field(default_factory=dict)
    _encoded: dict[Column, Codes] = field(default_factory=dict)
    _missing: dict[Column, NDArray[np.bool_]] = field(default_factory=dict)

    def mark(self, column: Column, code: int) -> None:
        """Let a column have the same category in every row."""
        self._encoded[column] = np.full(self.size, code, dtype=np.intp)
        self._missing[column] = np.zeros(self.size, dtype=np.bool_)

    def values(self, column: Column) -> NDArray[np.float64]:
        """Numbers of a column within its bounds, shape (size,). Not to be written to."""
        if column not in self._cleaned:
            raw = self.raw[number(column)]
            self._cleaned[column] = column.clean(raw)  # type: ignore[arg-type]
        return self._cleaned[column]

    def standardized(self, column: Column) -> NDArray[np.float64]:
        """Numbers of a column mapped from its bounds to [-1, 1], shape (size,)."""
        y = self.values(column) - column.mid
        y /= column.half  # rounding is monotone, so y stays within [-1, 1]
        return y

    def codes(self, column: Column) -> Codes:
        """Category codes of a column, ``len(categories)`` for none of them, shape (size,)."""
        if column not in self._encoded:
            self._encoded[column] = column.encode(self.raw[category(column)])
        return self._encoded[column]

    def among(self, column: Column, code: int) -> NDArray[np.bool_]:
        """Tell which rows are in one category of a column, shape (size,). Not to be written to."""
        if column in self._encoded:
            found: NDArray[np.bool_] = self._encoded[column] == code
            return found
        return column.among(self.raw[category(column)], code)

    def missing(self, column: Column) -> NDArray[np.bool_]:
        """Tell in which rows the value of a column is missing, whatever it counts as.

        Parameters
        ----------
        column : Column
            If it has bounds, what stands for no number is missing. If not, what is none of the categories, also
            where that counts as the category ``"other"``.

        Returns
        -------
        ndarray of bool of shape (size,)
            Not to be written to.
        """
        if column not in self._missing:
            plain = column.bounds is None and not column.other
            self._missing[column] = (
                self.codes(column) == len(column.categories or ())
                if plain
                else column.missing(self.raw[described(column)])
            )
        return self._missing[column]


def number(column: Column) -> Read:
    """Ask for a column as numbers."""
    return Read(column.name)


def category(column: Column) -> Read:
    """Ask for a column as category codes."""
    return Read(column.name, column.categories or ())


def described(column: Column) -> Read:
    """Ask for a column as numbers if it has bounds, else as category codes."""
    return number(column) if column.bounds is not None else category(column)


@dataclass(frozen=True)
class Between:
    """The rows whose number lies in an interval, ends included; a missing number counts as its fill value."""

    column: Column
    low: float
    high: float

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns it looks at."""
        return (self.column,)

    @property
    def reads(self) -> tuple[Read, ...]:
        """How it looks at them."""
        return (number(self.column),)

    @property
    def public(self) -> bool:
        """Whether it looks at public columns only."""
        return self.column.public

    def selects(self, batch: Batch) -> NDArray[np.bool_]:
        """Tell which rows it selects."""
        values = batch.values(self.column)
        return (values >= self.low) & (values <= self.high)

    def describe(self) -> dict[str, Any]:
        """Return the same as plain JSON values."""
        return {self.column.name: {"between": [self.low, self.high]}}


@dataclass(frozen=True)
class IsIn:
    """The rows whose category is one of some."""

    column: Column
    categories: tuple[Category, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns it looks at."""
        return (self.column,)

    @property
    def reads(self) -> tuple[Read, ...]:
        """How it looks at them."""
        return (category(self.column),)

    @property
    def public(self) -> bool:
        """Whether it looks at public columns only."""
        return self.column.public

    def selects(self, batch: Batch) -> NDArray[np.bool_]:
        """Tell which rows it selects."""
        wanted = np.zeros(len(self.column.categories or ()) + 1, dtype=np.bool_)
        wanted[[self.column.code(value) for value in self.categories]] = True
        return wanted[batch.codes(self.column)]

    def describe(self) -> dict[str, Any]:
        """Return the same as plain JSON values."""
        return {self.column.name: {"in": list(self.categories)}}


@dataclass(frozen=True)
class Satisfies:
    """The rows for which a Python function of one row is true.

    The function is called with one row at a time, so that what it says of a row cannot depend on the others.
    A row for which it fails is not selected: whether it fails may depend on the row, and must not be seen.
    """

    columns: tuple[Column, ...]
    predicate: Callable[[Row], bool]
    public: bool = False

    @property
    def reads(self) -> tuple[Read, ...]:
        """How it looks at them."""
        return tuple(described(column) for column in self.columns)

    def selects(self, batch: Batch) -> NDArray[np.bool_]:
        """Tell which rows it selects."""
        columns: dict[str, list[Any]] = {}
        for column in self.columns:
            if column.bounds is not None:
                columns[column.name] = batch.values(column).tolist()
            else:
                labels = [*(column.categories or ()), None]
                columns[column.name] = [labels[code] for code in batch.codes(column)]
        names = list(columns)
        rows = zip(*columns.values(), strict=True)
        said = (self._says(dict(zip(names, row, strict=True))) for row in rows)
        return np.fromiter(said, dtype=np.bool_, count=batch.size)

    def _says(self, row: Row) -> bool:
        try:
            return bool(self.predicate(row))
        except Exception:  # noqa: BLE001 - see the class docstring
            return False

    def describe(self) -> None:
        """Return nothing: a function cannot be written down."""


class Presence(Enum):
    """What `where` may ask of a column in place of a value: whether there is one."""

    PRESENT = "present"
    MISSING = "missing"

    def __repr__(self) -> str:
        return f"dfprivacy.{self.value}"


@dataclass(frozen=True)
class Is:
    """The rows whose value is there, or missing; see `Batch.missing`."""

    column: Column
    wanted: Presence

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns it looks at."""
        return (self.column,)

    @property
    def reads(self) -> tuple[Read, ...]:
        """How it looks at them."""
        return (described(self.column),)

    @property
    def public(self) -> bool:
        """Whether it looks at public columns only."""
        return self.column.public

    def selects(self, batch: Batch) -> NDArray[np.bool_]:
        """Tell which rows it selects."""
        gone = batch.missing(self.column)
        return gone if self.wanted is Presence.MISSING else ~gone

    def describe(self) -> dict[str, Any]:
        """Return the same as plain JSON values."""
        return {self.column.name: {"is": self.wanted.value}}


Condition: TypeAlias = Between | IsIn | Is | Satisfies


def condition(schema: Schema, name: str, wanted: object) -> Condition:
    """Read one condition of ``where``.

    Parameters
    ----------
    schema : Schema
        What is public about the table.
    name : str
        The column.
    wanted : tuple, list, Presence or value
        ``(low, high)``: the numbers from low to high. A list: one of these categories. A value: this one. A
        `Presence`: whether there is one.

    Returns
    -------
    Condition
        What selects the rows.
    """
    if isinstance(wanted, Presence):
        return Is(schema.described(name), wanted)
    if isinstance(wanted, tuple):
        if len(wanted) != 2:  # noqa: PLR2004
            raise SchemaError(f"where({name}={wanted!r}): an interval is a pair (low, high).")
        low, high = (as_number(end, f"where({name}=...)") for end in wanted)
        if low > high:
            raise SchemaError(f"where({name}={wanted!r}): the interval is reversed.", "Give (low, high).")
        return Between(schema.numeric(name), low, high)
    column = schema.categorical(name)
    categories = tuple(wanted) if isinstance(wanted, list) else (wanted,)
    codes = {column.code(value) for value in categories}
    known = column.categories or ()
    return IsIn(column, tuple(known[code] for code in sorted(codes)))


def batches(
    frame: Frame, reads: Iterable[Read], conditions: tuple[Condition, ...]
) -> Iterator[tuple[Batch, NDArray[np.bool_] | None]]:
    """Rows of a frame in batches of at most `BATCH_ROWS`, with a mask of the rows that all conditions select.

    The mask is None where every row counts.
    """
    needed = dict.fromkeys([*reads, *(read for c in conditions for read in c.reads)])
    for size, raw in frame.batches(tuple(needed), BATCH_ROWS):
        batch = Batch(size, raw)
        mask = None
        for c in conditions:
            mask = c.selects(batch) if mask is None else mask & c.selects(batch)
        yield batch, mask


def gathered(parts: Iterable[tuple[Batch, NDArray[np.bool_] | None]], columns: Sequence[Column]) -> Batch:
    """All rows that are selected in some batches, as one batch."""
    numbers = [c for c in columns if c.bounds is not None]
    labels = [c for c in columns if c.categories is not None]
    values: dict[Column, list[NDArray[np.float64]]] = {c: [] for c in numbers}
    codes: dict[Column, list[Codes]] = {c: [] for c in labels}
    gone: dict[Column, list[NDArray[np.bool_]]] = {c: [] for c in (*numbers, *labels)}
    selected = 0
    for batch, mask in parts:
        chosen = slice(None) if mask is None else mask
        selected += batch.size if mask is None else int(mask.sum())
        for c in numbers:
            values[c].append(batch.values(c)[chosen])
        for c in labels:
            codes[c].append(batch.codes(c)[chosen])
        for c, found in gone.items():
            found.append(batch.missing(c)[chosen])
    whole = Batch(selected, {})
    for c in numbers:
        whole._cleaned[c] = np.concatenate(values.pop(c) or [np.empty(0)])  # noqa: SLF001 - a batch like any other
    for c in labels:
        whole._encoded[c] = np.concatenate(codes.pop(c) or [np.empty(0, np.intp)])  # noqa: SLF001
    for c, found in gone.items():
        whole._missing[c] = np.concatenate(found or [np.empty(0, np.bool_)])  # noqa: SLF001
    return whole


def reads_of(columns: Sequence[Column]) -> tuple[Read, ...]:
    """How `gathered` looks at columns: as numbers where there are bounds, as codes where there are categories."""
    numbers = (number(c) for c in columns if c.bounds is not None)
    return (*numbers, *(category(c) for c in columns if c.categories is not None))
