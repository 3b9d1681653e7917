"""Sources of Arrow record batches: tables, data sets, DuckDB, and objects with a stream."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from dfprivacy._table.frames import TOGETHER, redact_errors
from dfprivacy.engines import Engine, Keep
from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dfprivacy._table.frames.columns import Column

_AHEAD = {"batch_size": 1 << 17, "batch_readahead": 4, "fragment_readahead": 2}  # what bounds the memory


def adapt(frame: Any) -> Engine | None:
    """Return the engine of a source of record batches; None for anything else."""
    if isinstance(frame, ds.Dataset):
        return DatasetEngine(frame)
    if type(frame).__name__ == "DuckDBPyRelation":
        return DuckEngine(frame)
    if isinstance(frame, pa.RecordBatchReader):
        raise ArgumentError(
            "A RecordBatchReader can be read only once, and each question reads the table anew.",
            "Pass the table it comes from, or a pyarrow.dataset.Dataset, which may exceed the memory.",
        )
    if not hasattr(frame, "__arrow_c_stream__"):
        return None
    with suppress(Exception):  # its text may quote the data
        return StreamEngine(frame)
    raise ArgumentError(
        f"The Arrow stream of {type(frame).__name__} could not be opened as a table.",
        "Pass a table: a stream of named columns.",
    )


class StreamEngine(Engine):
    """A stream, opened anew at every pass; or a table."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.settled = isinstance(frame, pa.Table)
        self._schema = (frame if self.settled else self._open()).schema

    def _open(self) -> pa.RecordBatchReader:
        if self.settled:  # the stream of a table with short string views crashes pyarrow 23 and older
            return self._frame.to_reader()
        return pa.RecordBatchReader.from_stream(self._frame)

    def empty(self) -> pa.Table:
        """Return a table without rows."""
        return pa.Table.from_batches([], self._schema)

    def rows(self) -> int:
        """Count the rows."""
        return sum(batch.num_rows for batch in self._open())

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Read all columns, a batch at a time."""
        return iter(self._open())


class DatasetEngine(Engine):
    """A data set; only needed columns are read."""

    settled = True
    keeps = True

    def __init__(self, dataset: ds.Dataset) -> None:
        self._dataset = dataset

    def empty(self) -> pa.Table:
        """Return a table without rows."""
        return pa.Table.from_batches([], self._dataset.schema)

    def rows(self) -> int:
        """Count the rows; a Parquet file has their number in its metadata."""
        return int(self._dataset.count_rows())

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pa.RecordBatch]:
        """Read some columns, a batch at a time."""
        wanted = None
        for each in keep:
            kept = _arrow_filter(each, self._dataset.schema.field(each.column).type)
            wanted = kept if wanted is None else wanted & kept
        return iter(self._dataset.to_batches(columns=list(columns), filter=wanted, **_AHEAD))


class DuckEngine(Engine):
    """A relation of DuckDB: a query of the needed columns, run anew at every pass."""

    keeps = True

    def __init__(self, relation: Any) -> None:
        self._relation = relation

    @cached_property
    def _schema(self) -> pa.Schema:
        return redact_errors(lambda: pa.RecordBatchReader.from_stream(self._relation.limit(0)).schema)

    def empty(self) -> pa.Table:
        """Return a table without rows."""
        return pa.Table.from_batches([], self._schema)

    def rows(self) -> int:
        """Count the rows."""
        ((rows,),) = self._relation.aggregate("count(*)").fetchall()
        return int(rows)

    def together(self, column: str) -> Sequence[Engine]:
        """Divide the rows by a hash of the person."""
        parts = -(-self.rows() // TOGETHER)
        if parts <= 1:
            return [self]
        found = (f"hash({_sql_quoted(column)}) % {parts} = {part}" for part in range(parts))
        return [DuckEngine(self._relation.filter(each)) for each in found]

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pa.RecordBatch]:
        """Read some columns, a batch at a time."""
        relation = self._relation
        for each in keep:
            relation = relation.filter(_sql_condition(each))
        return iter(pa.RecordBatchReader.from_stream(relation.project(", ".join(map(_sql_quoted, columns)))))


def _arrow_filter(keep: Keep, dtype: pa.DataType) -> ds.Expression:
    field = ds.field(keep.column)
    if keep.texts is not None:
        return field.isin(pa.array(keep.texts, dtype))
    kind = dtype if pa.types.is_integer(dtype) else pa.float64()
    low = ds.scalar(True) if keep.low is None else field >= pa.scalar(keep.low, kind)
    return low if keep.high is None else low & (field <= pa.scalar(keep.high, kind))


def _sql_condition(keep: Keep) -> str:
    name = _sql_quoted(keep.column)
    if keep.texts is not None:
        return (
            f"{name} IN ({', '.join(_sql_quoted(text, chr(39)) for text in keep.texts)})" if keep.texts else "false"
        )
    low = "true" if keep.low is None else f"{name} >= {_sql_number(keep.low)}"
    return low if keep.high is None else f"{low} AND {name} <= {_sql_number(keep.high)}"


def _sql_quoted(name: str, mark: str = '"') -> str:
    return mark + name.replace(mark, 2 * mark) + mark


def _sql_number(number: float) -> str:
    return repr(number) if isinstance(number, int) else f"{number!r}::DOUBLE"


# ---- a table, or a batch, as parts of columns ---------------------------------------------------------------


def names(table: pa.Table | pa.RecordBatch) -> list[str]:
    """Return the names of the columns, duplicates included."""
    return list(table.schema.names)


def column(table: pa.Table, name: str) -> Column:
    """Return an empty column of the same type."""
    return pa.nulls(0, table.schema.field(name).type)


def batches(
    table: pa.Table | pa.RecordBatch, wanted: Sequence[str], size: int
) -> Iterator[tuple[int, dict[str, Column]]]:
    """Cut some columns into parts of at most `size` rows."""
    for batch in [table] if isinstance(table, pa.RecordBatch) else table.to_batches():
        for start in range(0, batch.num_rows, size):
            part = batch.slice(start, size)
            yield part.num_rows, {name: part.column(name) for name in wanted}


def lists(table: pa.Table | pa.RecordBatch, wanted: Sequence[str]) -> dict[str, list[Any]]:
    """Return some columns as lists."""
    return {name: table.column(name).to_pylist() for name in wanted}
