"""Anything with an Arrow C stream: pyarrow tables, DuckDB relations and others."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dfprivacy._table.frames import Frame, Raw, Read, columns
from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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
        for batch in self._open():
            for start in range(0, batch.num_rows, size):
                part = batch.slice(start, size)
                yield part.num_rows, {read: columns.raw(part.column(read.name), read) for read in reads}

    @property
    def settled(self) -> bool:
        """Whether every pass gives the same rows in the same order: a table in memory does."""
        return isinstance(self._frame, pa.Table)

    def names_people(self, name: str) -> bool:
        """Whether the type of a column can name people."""
        return columns.names_people(pa.nulls(0, self._schema.field(name).type))

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns as lists."""
        lists: dict[str, list[Any]] = {name: [] for name in names}
        for batch in self._open():  # other columns may be large, and are not kept
            for name in names:
                lists[name].extend(batch.column(name).to_pylist())
        return lists
