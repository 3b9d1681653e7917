"""Anything with an Arrow C stream: pyarrow tables, DuckDB relations and others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dfprivacy.errors import ArgumentError, MissingDependency
from dfprivacy.frames import Dictionary, Frame, Kind, Raw, Read
from dfprivacy.schema import plain_number

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError:
    raise MissingDependency(
        "Reading an Arrow C stream needs pyarrow.", 'Install it: pip install "dfprivacy[arrow]".'
    ) from None


def adapt(frame: Any) -> Frame:
    """Return the adapter of an object with ``__arrow_c_stream__``."""
    if isinstance(frame, pa.RecordBatchReader):
        raise ArgumentError(
            "A RecordBatchReader can be read once only, and every question reads the table again.",
            "Pass the table, data set or query it comes from.",
        )
    return ArrowFrame(frame)


class ArrowFrame:
    """An Arrow stream, opened anew at every pass."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._schema = self._open().schema

    def _open(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_stream(self._frame)

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._schema.names)

    def kind(self, name: str) -> Kind:
        """Tell what the column's type says about its values."""
        return kind(self._schema.field(name).type)

    def rows(self) -> int:
        """Number of rows."""
        return sum(batch.num_rows for batch in self._open())

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        for whole in self._open():
            for start in range(0, whole.num_rows, size):
                batch = whole.slice(start, size)
                yield batch.num_rows, {read: _raw(batch.column(read.name), read) for read in reads}


def kind(dtype: pa.DataType) -> Kind:
    """Tell what an Arrow type says about its values."""
    if pa.types.is_dictionary(dtype):
        return kind(dtype.value_type)
    if pa.types.is_boolean(dtype):
        return "boolean"
    if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
        return "number"
    if pa.types.is_date(dtype) or pa.types.is_timestamp(dtype):
        return "date"
    if _is_text(dtype):
        return "text"
    return "other"


def _is_text(dtype: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype)
    )


def _raw(column: pa.Array, read: Read) -> Raw:
    if pa.types.is_dictionary(column.type):
        if _is_text(column.type.value_type):
            return _dictionary(column)
        column = column.dictionary_decode()
    if read.domain is not None and _is_text(column.type):
        return _dictionary(pc.dictionary_encode(column.cast(pa.large_string())))
    return numbers(column)


def _dictionary(column: pa.DictionaryArray) -> Dictionary:
    codes = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return Dictionary(codes.astype(np.intp), column.dictionary.to_pylist())


def numbers(column: pa.Array) -> np.ndarray[Any, Any]:
    """Return numbers, booleans, decimals and dates as a NumPy array, NaN where missing."""
    dtype = column.type
    if pa.types.is_timestamp(dtype) or pa.types.is_date(dtype):
        column = column.cast(pa.timestamp(dtype.unit if pa.types.is_timestamp(dtype) else "s"))
        stamps = column.to_numpy(zero_copy_only=False)
        days: np.ndarray[Any, Any] = (stamps - np.datetime64(0, "D")) / np.timedelta64(1, "D")
        return days
    if pa.types.is_boolean(dtype):
        column = column.cast(pa.uint8())
    elif pa.types.is_decimal(dtype):
        column = column.cast(pa.float64(), safe=False)
    elif not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype)):
        values = (plain_number(value) for value in column.to_pylist())
        return np.fromiter(values, dtype=np.float64, count=len(column))
    found: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
    return found
