"""Counts of rows by key: a tuple of values of one or more columns, which need no declared categories."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfprivacy._table.batch import category, number
from dfprivacy._table.frames import Read
from dfprivacy.expressions import ComputedColumn
from dfprivacy.schema import Category
from dfprivacy.schema.values import Dictionary, date_text, plain_number, plain_text, read_date, read_numeral

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy.schema import Codes, Column

__all__ = ["LENGTH_MAX", "Key", "count_keys", "count_values", "key_read", "sort_keys"]

Key: TypeAlias = tuple[Category, ...]

LENGTH_MAX = 256
"""Characters of a text that can be a key: what is longer is a note rather than a key."""

_WHOLE_MAX = 2**53  # float64 holds every integer up to here


def key_read(column: Column) -> Read:
    """Return the request (`Read`) for a column as part of a key: codes if it has categories, else its values."""
    computed = isinstance(column, ComputedColumn)
    return category(column) if computed or column.categories is not None else Read(column.name, ...)


def count_keys(
    parts: Iterable[tuple[Batch, NDArray[np.bool_] | None]], columns: Sequence[Column], *, as_written: bool = False
) -> Counter[Key]:
    """Count the selected rows by key; rows with a value that cannot be part of a key are not counted.

    Parameters
    ----------
    parts : iterable of (Batch, mask)
        Batches that were read as `key_read` says, and which rows of them are selected.
    columns : sequence of Column
        One part of a key each.
    as_written : bool
        Whether a text that reads as a number stays a text, to be looked for in a domain.

    Returns
    -------
    Counter
        In no order that may be shown.
    """
    totals: Counter[Key] = Counter()
    for batch, mask in parts:
        coded = [_codes_of_values(batch, column, as_written=as_written) for column in columns]
        complete = np.ones(batch.size, dtype=np.bool_) if mask is None else mask.copy()
        for codes, _ in coded:
            complete &= codes >= 0
        places = zip(*(codes[complete].tolist() for codes, _ in coded), strict=True)
        for place, count in Counter(places).items():
            totals[tuple([values[at] for at, (_, values) in zip(place, coded, strict=True)])] += count
    return totals


def count_values(
    parts: Iterable[tuple[Batch, NDArray[np.bool_] | None]], columns: Sequence[Column], edges: NDArray[np.float64]
) -> Counter[Key]:
    """Count the selected rows of each column by value, and by kind of value: numbers and dates by interval.

    Parameters
    ----------
    parts : iterable of (Batch, mask)
        Batches that were read as numbers and as `key_read` says, and which rows of them are selected.
    columns : sequence of Column
        Columns without bounds and categories.
    edges : ndarray
        Edges of intervals; numbers beyond count in the first or the last.

    Returns
    -------
    Counter
        By the column's place, ``"value"``, and the value; and by the column's place and the kind: ``"number"`` or
        ``"date"``, and the interval, ``"text"`` or ``"nothing"``. A row has one kind, and one value at most.
    """
    counts: Counter[Key] = Counter()
    for batch, mask in parts:
        chosen = slice(None) if mask is None else mask
        for place, column in enumerate(columns):
            coded, values = _codes_of_values(batch, column)
            codes, raw = coded[chosen], batch.raw_values(number(column))[chosen]
            x = np.full(len(codes), np.nan) if isinstance(raw, Dictionary) else np.asarray(raw, dtype=np.float64)
            gone, is_key = np.isnan(x), codes >= 0
            for at, count in Counter(codes[is_key].tolist()).items():
                counts[place, "value", values[at]] += count
            is_number = np.array([*(not isinstance(value, str) for value in values), False])[codes]
            dates = ~gone & ~is_number & np.isfinite(x)  # the key of a date is a text
            interval = (np.searchsorted(edges, x, side="right") - 1).clip(0, len(edges) - 2)
            for kind, rows in (("number", ~gone & ~dates), ("date", dates)):
                for at, count in Counter(interval[rows].tolist()).items():
                    counts[place, kind, at] += count
            for kind, rows in (("text", gone & is_key), ("nothing", gone & ~is_key)):
                if count := int(np.count_nonzero(rows)):
                    counts[place, kind, 0] += count
    return counts


def sort_keys(counts: Mapping[Key, int]) -> dict[Key, int]:
    """Sort keys, numbers before texts, so that their order does not depend on rows and batches."""
    kinds: defaultdict[tuple[bool, ...], list[Key]] = defaultdict(list)
    for key in counts:
        kinds[tuple([isinstance(part, str) for part in key])].append(key)
    return {key: counts[key] for kind in sorted(kinds) for key in sorted(kinds[kind])}


def _codes_of_values(batch: Batch, column: Column, *, as_written: bool = False) -> tuple[Codes, Sequence[Category]]:
    """Return each row's index into the distinct values, -1 if it cannot be part of a key, and these values."""
    if column.categories is not None:
        codes = batch.codes(column)
        return np.where(codes == len(column.categories), -1, codes), column.categories
    raw = batch.raw_values(key_read(column))
    if isinstance(raw, Dictionary):
        keys = [_part_of_key(value, as_written=as_written) for value in raw.values]
        place = {key: at for at, key in enumerate(dict.fromkeys(key for key in keys if key is not None))}
        lookup = np.array([*(-1 if key is None else place[key] for key in keys), -1], dtype=np.intp)
        return lookup[raw.codes], [*place]  # the code -1 (missing) is the last entry
    numbers = np.asarray(raw, dtype=np.float64)
    finite = np.isfinite(numbers)
    different, codes = np.unique(numbers[finite], return_inverse=True)
    places = np.full(len(numbers), -1, dtype=np.intp)
    places[finite] = codes
    return places, [_plain_number(number) for number in different.tolist()]


def _part_of_key(value: object, *, as_written: bool) -> Category | None:
    """Convert a value to a Python number or string as part of a key; None if it has another type or is too long."""
    text = plain_text(value)
    number = plain_number(value) if text is None else math.nan if as_written else read_numeral(text)
    if math.isfinite(number):
        return _plain_number(number)
    if text is None or (not as_written and not math.isnan(number)):  # it reads as infinite
        return None
    if not as_written and not math.isnan(day := read_date(text)):
        return date_text(day)
    return text if len(text) <= LENGTH_MAX else None


def _plain_number(number: float) -> Category:
    return int(number) if number.is_integer() and abs(number) <= _WHOLE_MAX else number
