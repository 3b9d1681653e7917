"""Anything with an Arrow C stream: pyarrow tables, DuckDB relations and others."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.errors import ArgumentError, MissingDependency
from dfprivacy.frames import Dictionary, Frame, Kind, Raw, Read
from dfprivacy.frames.values import days, plain_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    with suppress(Exception):  # its text may quote the data
        return ArrowFrame(frame)
    raise ArgumentError(
        f"The Arrow stream of a {type(frame).__name__} could not be opened as a table.",
        "Pass a table: a stream of named columns.",
    )


class ArrowFrame:
    """An Arrow stream, opened anew at every pass."""

    library = "pyarrow"

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._schema = self._open().schema

    def _open(self) -> pa.RecordBatchReader:
        if isinstance(
            self._frame, pa.Table
        ):  # the stream of one with short string views crashes pyarrow 23 and older
            return self._frame.to_reader()
        return pa.RecordBatchReader.from_stream(self._frame)

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._schema.names)

    def kind(self, name: str) -> Kind:
        """Tell what the column's type says about its values."""
        return kind(self._schema.field(name).type)

    def rows(self) -> int:
        """Count the rows."""
        return sum(batch.num_rows for batch in self._open())

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        for whole in self._open():
            for start in range(0, whole.num_rows, size):
                batch = whole.slice(start, size)
                yield batch.num_rows, {read: raw(batch.column(read.name), read) for read in reads}

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns as lists."""
        found: dict[str, list[Any]] = {name: [] for name in names}
        for batch in self._open():  # other columns may be large, and are not kept
            for name in names:
                found[name].extend(batch.column(name).to_pylist())
        return found


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
    return "mixed" if pa.types.is_null(dtype) else "other"


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype))


def raw(column: pa.Array, read: Read) -> Raw:
    """Return an array as a raw column."""
    if pa.types.is_dictionary(column.type):
        if _is_text(column.type.value_type) and len(column.dictionary) <= len(column):
            return _dictionary(column)
        column = column.dictionary_decode()  # a dictionary longer than the batch is not worth looking through
    if read.domain is not None and _is_text(column.type):
        return _dictionary(pc.dictionary_encode(column.cast(pa.large_string())))
    return _numbers(column)


def _dictionary(column: pa.DictionaryArray) -> Dictionary:
    codes = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return Dictionary(codes.astype(np.intp), column.dictionary.to_pylist())


def _numbers(column: pa.Array) -> np.ndarray[Any, Any]:
    dtype = column.type
    if pa.types.is_timestamp(dtype) or pa.types.is_date(dtype):
        since: np.ndarray[Any, Any] = days(column.to_numpy(zero_copy_only=False))
        return since
    if pa.types.is_boolean(dtype):
        column = column.cast(pa.uint8())
    elif pa.types.is_decimal(dtype):
        column = column.cast(pa.float64(), safe=False)
    elif not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype)):
        values = (plain_number(value) for value in column.to_pylist())
        return np.fromiter(values, dtype=np.float64, count=len(column))
    found: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
    return found
