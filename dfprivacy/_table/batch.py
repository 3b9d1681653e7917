"""Batches of a table's rows: numbers clipped to their bounds, other values encoded as category codes."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._table.frames import Read
from dfprivacy.expressions import ComputedColumn, Formula, LabelCodes
from dfprivacy.schema.values import Dictionary, Raw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy.schema import Codes, Column

BATCH_ROWS = 1 << 14
"""Rows in a batch: small enough for the cache, and for float64 to hold exact sums of grid steps."""

_NORMAL = sys.float_info.min  # from here on, a power of two changes no bit of a quotient

VALUE_BYTES = 10
"""Bytes of a value of a whole column: eight, one that says whether it is missing, and one on which side."""


@dataclass
class Batch:
    """Some rows of a table, with numbers clipped to their public bounds and other values as category codes.

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
    _side: dict[Column, NDArray[np.int8]] = field(default_factory=dict)
    _computed: dict[Read, Raw] = field(default_factory=dict, kw_only=True)

    def take(self, rows: slice | NDArray[np.intp]) -> Batch:
        """Return a batch of the given rows, in the given order, with read-only arrays."""

        def take_rows(array: NDArray[Any]) -> NDArray[Any]:
            part = array[rows]
            part.flags.writeable = False  # of this view or copy alone
            return part

        def take_from_each(arrays: Mapping[Column, NDArray[Any]]) -> dict[Column, NDArray[Any]]:
            return {column: take_rows(array) for column, array in arrays.items()}

        raw = {
            read: Dictionary(take_rows(of.codes), of.values) if isinstance(of, Dictionary) else take_rows(of)
            for read, of in {**self.raw, **self._computed}.items()
        }
        size = len(range(self.size)[rows]) if isinstance(rows, slice) else len(rows)
        return Batch(
            size,
            raw,
            take_from_each(self._cleaned),
            take_from_each(self._encoded),
            take_from_each(self._missing),
            take_from_each(self._side),
        )

    def mark(self, column: Column, code: int) -> None:
        """Set a column to the same category code in all rows of the batch."""
        self._encoded[column] = np.full(self.size, code, dtype=np.intp)
        self._missing[column] = np.zeros(self.size, dtype=np.bool_)

    def values(self, column: Column) -> NDArray[np.float64]:
        """Return a column's numbers, clipped to its bounds, shape (size,), read-only."""
        values = self._cleaned.get(column)
        if values is None:
            values = self._cleaned[column] = column.clean(self.raw_values(number(column)))  # type: ignore[arg-type]
        return values

    def standardized(
        self, column: Column, unit: float = 1.0, *, out: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return a column's numbers, mapped from its bounds to [-1, 1] and multiplied by `unit`, a power of two."""
        half = column.half
        y = np.subtract(self.values(column), column.mid, out=out)
        if math.isfinite(half / unit) and half / unit >= _NORMAL:
            y /= half / unit  # rounding is monotone, so y stays within [-1, 1] times the unit
        else:
            y /= half
            y *= unit
        return y

    def beyond(self, column: Column) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return two masks: rows with a number below the column's bounds, and rows with a number above them.

        Parameters
        ----------
        column : Column
            One with bounds. A missing value is in neither, whatever it counts as, nor is one on a bound.

        Returns
        -------
        tuple of ndarray of bool
            Each of shape (size,), by the row's value before it was limited.
        """
        if (side := self._side.get(column)) is not None:
            return side < 0, side > 0
        raw = np.asarray(self.raw_values(number(column)), dtype=np.float64)
        below, above = raw < column.low, raw > column.high
        if isinstance(column, ComputedColumn):  # from limited values: those of a row with others may lie beyond
            sides = [side for part in column.formula.columns if part.bounds for side in self.beyond(part)]
            rows = np.flatnonzero(np.logical_or.reduce(sides)) if sides else ()
            if len(rows):
                found: Any = column.formula.rows(lambda part: self._formula_input(part, limited=False)[rows])
                below[rows], above[rows] = found < column.low, found > column.high
        return below, above

    def side(self, column: Column) -> NDArray[np.int8]:
        """Return for each row -1 if its number lies below the bounds, 1 if above, and 0 otherwise."""
        below, above = self.beyond(column)
        return above.astype(np.int8) - below.astype(np.int8)

    def codes(self, column: Column) -> Codes:
        """Return the category codes of a column, ``len(categories)`` for other values, shape (size,)."""
        codes = self._encoded.get(column)
        if codes is None:
            codes = self._encoded[column] = column.encode(self.raw_values(category(column)))
        return codes

    def missing(self, column: Column) -> NDArray[np.bool_]:
        """Return a mask of the rows in which a column's value is missing, even if it has a fill value.

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
                else column.missing(self.raw_values(declared_read(column)))
            )
        return self._missing[column]

    def raw_values(self, read: Read) -> Raw:
        """Return a column's values before clipping, as the engine gave them or as a formula computes them."""
        if not isinstance(read.domain, Formula) or read in self.raw:
            return self.raw[read]
        if read not in self._computed:
            found = read.domain.rows(self._formula_input)
            self._computed[read] = Dictionary(found.codes, found.known) if isinstance(found, LabelCodes) else found
        return self._computed[read]

    def _formula_input(self, column: Column, *, limited: bool = True) -> NDArray[np.float64] | LabelCodes:
        """Return a column as input of a formula: numbers, NaN where missing, or codes, -1 where missing."""
        if column.bounds is None:
            codes, known = self.codes(column), column.categories or ()
            return LabelCodes(np.where(codes == len(known), -1, codes), known)
        values = self.values(column) if limited else np.array(self.raw_values(number(column)), dtype=np.float64)
        gone = self.missing(column)
        filled = column.fill if column.filled and column.fill is not None else math.nan
        return np.where(gone, filled, values) if gone.any() else values


def number(column: Column) -> Read:
    """Return the request (`Read`) to read a column as numbers.

    Parameters
    ----------
    column : Column
        One with bounds.

    Returns
    -------
    Read
        How to read it, for `RowFeatures.reads`.
    """
    return Read(column.name, column.formula if isinstance(column, ComputedColumn) else None)


def category(column: Column) -> Read:
    """Return the request (`Read`) to read a column as category codes.

    Parameters
    ----------
    column : Column
        One with categories.

    Returns
    -------
    Read
        How to read it, for `RowFeatures.reads`.
    """
    return number(column) if isinstance(column, ComputedColumn) else Read(column.name, column.categories or ())


def declared_read(column: Column) -> Read:
    """Return the request (`Read`) for a column: as numbers if it has bounds, else as category codes."""
    return number(column) if column.bounds is not None else category(column)


def declared_reads(column: Column) -> list[Read]:
    """Return the requests (`Read`) for a column: as numbers, as category codes, or both, by its declaration."""
    both = column.bounds is not None and column.categories is not None
    return [number(column), category(column)] if both else [declared_read(column)]


def frame_reads(reads: Iterable[Read]) -> tuple[Read, ...]:
    """Return the distinct requests to a frame: a computed column is replaced by the columns of its formula."""
    parts = (
        [declared_read(column) for column in read.domain.columns] if isinstance(read.domain, Formula) else [read]
        for read in reads
    )
    return tuple(dict.fromkeys(each for of_read in parts for each in of_read))


def gather_selected_rows(
    parts: Iterable[tuple[Batch, NDArray[np.bool_] | None]], columns: Sequence[Column], most: float = math.inf
) -> Batch | None:
    """Return the selected rows of all batches as one batch; None if there are more than `most` of them."""
    numbers = [c for c in columns if c.bounds is not None]
    labels = [c for c in columns if c.categories is not None]
    looks: tuple[tuple[Any, Sequence[Column], Any], ...] = (
        (Batch.values, numbers, np.float64),
        (Batch.codes, labels, np.intp),
        (Batch.missing, [*numbers, *labels], np.bool_),
        (Batch.side, numbers, np.int8),
    )
    arrays: list[dict[Column, list[Any]]] = [{c: [np.empty(0, kind)] for c in of} for _, of, kind in looks]
    selected = 0
    for batch, mask in parts:
        chosen = slice(None) if mask is None else mask
        selected += batch.size if mask is None else int(mask.sum())
        if selected > most:
            return None
        for (look, *_), of_each_column in zip(looks, arrays, strict=True):
            for c, parts_of in of_each_column.items():
                parts_of.append(look(batch, c)[chosen])
    # One by one, for memory.
    return Batch(selected, {}, *({c: np.concatenate(each.pop(c)) for c in [*each]} for each in arrays))


def apply_to_batch(work: Callable[[Batch], Any], batch: Batch, width: int) -> NDArray[np.float64]:
    """Apply a plugin's function to a batch; if it fails, apply it to smaller parts, down to single rows.

    Whether it fails may depend on a row and must not be seen, and no row may decide what others count.

    Parameters
    ----------
    work : callable
        What gives `width` numbers for each row of a batch, each a pure function of its row.
    batch : Batch
        The rows.
    width : int
        How many numbers.

    Returns
    -------
    ndarray of shape (batch.size, width)
        The numbers, and nan for a row for which it fails.
    """
    try:
        return np.array(work(batch.take(slice(None))), dtype=np.float64).reshape(batch.size, width)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a panic of Rust is no Exception
        if batch.size <= 1:
            return np.full((batch.size, width), np.nan)
    half = batch.size // 2
    parts = (batch.take(slice(half)), batch.take(slice(half, None)))
    return np.concatenate([apply_to_batch(work, part, width) for part in parts])


def reads_of(columns: Sequence[Column]) -> tuple[Read, ...]:
    """Return requests (`Read`) for numbers of columns with bounds, then for codes of columns with categories."""
    numbers = (number(c) for c in columns if c.bounds is not None)
    return (*numbers, *(category(c) for c in columns if c.categories is not None))
