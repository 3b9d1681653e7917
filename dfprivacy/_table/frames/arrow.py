"""Anything with an Arrow C stream: pyarrow tables, DuckDB relations and others."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._table.frames import Dictionary, Frame, Raw, Read
from dfprivacy._table.frames.texts import Texts
from dfprivacy.errors import ArgumentError, MissingDependency
from dfprivacy.schema.values import days, missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError:
    raise MissingDependency(
        "Reading an Arrow C stream needs pyarrow.", 'Install it: pip install "dfprivacy[arrow]".'
    ) from None

_PLAIN = frozenset(
    dtype.id
    for dtype in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
    )
)
"""Types whose values are numbers as they are."""


def adapt(frame: Any) -> Frame:
    """Return the adapter of an object with ``__arrow_c_stream__``."""
    if isinstance(frame, pa.RecordBatchReader):
        raise ArgumentError(
            "A RecordBatchReader can be read once only, and every question reads the table again.",
            "Pass the table it comes from, or a pyarrow.dataset.Dataset, which is as large as the disk.",
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
        self._schema = (frame if isinstance(frame, pa.Table) else self._open()).schema

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

    def rows(self) -> int:
        """Count the rows."""
        return sum(batch.num_rows for batch in self._open())

    def ready(self) -> None:
        """Do nothing: rows can be read in every process."""

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        for record_batch in self._open():
            columns = {read: _whole(record_batch.column(read.name), read) for read in reads}
            for start in range(0, record_batch.num_rows, size):
                rows = min(size, record_batch.num_rows - start)
                yield rows, {read: _part(column, read, start, rows) for read, column in columns.items()}

    @property
    def settled(self) -> bool:
        """Whether every pass gives the same rows in the same order: a table in memory does."""
        return isinstance(self._frame, pa.Table)

    def names_people(self, name: str) -> bool:
        """Whether the type of a column can name people."""
        return names_people(self._schema.field(name).type)

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns as lists."""
        lists: dict[str, list[Any]] = {name: [] for name in names}
        for batch in self._open():  # other columns may be large, and are not kept
            for name in names:
                lists[name].extend(batch.column(name).to_pylist())
        return lists


def names_people(dtype: pa.DataType) -> bool:
    """Whether values of a type can name people."""
    if pa.types.is_dictionary(dtype) or pa.types.is_run_end_encoded(dtype):
        return names_people(dtype.value_type)
    return _is_text(dtype) or pa.types.is_integer(dtype)


def _is_text(dtype: pa.DataType) -> bool:
    # Bytes as well: one value of bytes makes bytes of a column of text.
    kinds = "string", "large_string", "string_view"
    return _is_bytes(dtype) or any(getattr(pa.types, f"is_{kind}")(dtype) for kind in kinds)


def _is_bytes(dtype: pa.DataType) -> bool:
    return any(getattr(pa.types, f"is_{kind}")(dtype) for kind in ("binary", "large_binary", "binary_view"))


def _whole(column: pa.Array, read: Read) -> Any:
    """Give a column as what is soonest cut into parts: as NumPy sees it, if that is the same memory."""
    return column.to_numpy() if _is_plain(column, read) and not column.null_count else column


def _part(column: Any, read: Read, start: int, rows: int) -> Raw:
    if isinstance(column, np.ndarray):
        return column[start : start + rows]
    return raw(column.slice(start, rows), read)


def _is_plain(column: pa.Array, read: Read) -> bool:
    return column.type.id in _PLAIN and read.domain != "people"


def raw(column: pa.Array, read: Read) -> Raw:
    """Return an array as a raw column."""
    if _is_plain(column, read):
        return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pa.types.is_dictionary(column.type):
        if read.domain is not None and _is_text(column.type.value_type) and len(column.dictionary) <= len(column):
            return _dictionary(column)
        column = column.dictionary_decode()  # a dictionary longer than the batch is not worth looking through
    if _is_text(column.type):
        if read.domain is None:
            return missing(len(column))
        if read.domain == "people" and not _is_bytes(column.type):
            return _texts(column)
        return _dictionary(pc.dictionary_encode(column.cast(pa.large_binary())))
    if read.domain == "people" and pa.types.is_integer(column.type):
        places = np.where(column.is_null().to_numpy(zero_copy_only=False), -1, np.arange(len(column)))
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
        return Dictionary(places, values)  # people are numbered for all engines alike
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        # A date is no category, though it stands for a number.
        return _days(column) if read.domain is None else missing(len(column))
    return _numbers(column)


def _dictionary(column: pa.DictionaryArray) -> Dictionary:
    codes = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return Dictionary(codes.astype(np.intp), column.dictionary.cast(pa.large_binary()).to_pylist())


def _texts(column: pa.Array) -> Dictionary:
    """Give texts as they lie in memory."""
    there = column.is_valid().to_numpy(zero_copy_only=False)
    known = (column.drop_null() if column.null_count else column).cast(pa.large_string())
    _, bounds, data = known.buffers()
    own = np.frombuffer(bounds, dtype=np.int64)[known.offset : known.offset + len(known) + 1]
    texts = Texts(np.frombuffer(data, dtype=np.uint8), own)
    return Dictionary(np.where(there, np.cumsum(there) - 1, -1), texts)


def _days(column: pa.Array) -> np.ndarray[Any, Any]:
    since: np.ndarray[Any, Any] = days(column.to_numpy(zero_copy_only=False))
    return since


def _numbers(column: pa.Array) -> np.ndarray[Any, Any]:
    dtype = column.type
    if pa.types.is_boolean(dtype):
        column = column.cast(pa.uint8())
    elif pa.types.is_decimal(dtype):
        # Not at once: Arrow's way rounds twice, by the scale, which is that of the row with the most digits.
        column = column.cast(pa.string()).cast(pa.float64())
    elif not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype)):
        return missing(len(column))
    values: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
    return values
