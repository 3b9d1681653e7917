"""Engines for Arrow tables and data sets, DuckDB relations, and objects with an Arrow stream."""

from __future__ import annotations

import math
from abc import abstractmethod
from contextlib import nullcontext, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.dataset as ds

from dfprivacy._forks import Lock
from dfprivacy._table.frames import TOGETHER, Read, redact_errors, unused_name
from dfprivacy._table.frames.columns import concatenate_people, matching_rows, read_column
from dfprivacy.engines import Engine, Keep
from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from dfprivacy._table.frames.columns import Column

_one_query = Lock()
_AHEAD = {"batch_size": 1 << 17, "batch_readahead": 4, "fragment_readahead": 2}  # what bounds the memory


def adapt(frame: Any) -> Engine | None:
    """Return the engine for a data set, a DuckDB relation or an object with an Arrow stream; None for others."""
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


class ArrowEngine(Engine):
    """Base class of engines that yield Arrow tables or record batches in this process."""

    @abstractmethod
    def empty(self) -> pa.Table:
        """Return a table with the same columns and no rows."""

    @abstractmethod
    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pa.Table | pa.RecordBatch]:
        """Yield some columns, one part of the rows after another."""

    def join(
        self, other: Engine, on: str, how: Literal["left", "inner"], own: Sequence[str], others: Sequence[str]
    ) -> Engine | None:
        """Join with another table, held in memory while this table's rows are read; None for any other engine."""
        return JoinedEngine(self, other, on, how, own, others) if isinstance(other, ArrowEngine) else None


class StreamEngine(ArrowEngine):
    """An Arrow table or an object with an Arrow stream; the stream is opened anew for every pass over the rows."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.settled = isinstance(frame, pa.Table)
        self._schema = (frame if self.settled else self._open()).schema

    def _open(self) -> pa.RecordBatchReader:
        if self.settled:  # the stream of a table with short string views crashes pyarrow 23 and older
            return self._frame.to_reader()
        return pa.RecordBatchReader.from_stream(self._frame)

    def empty(self) -> pa.Table:
        """Return a table with the same columns and no rows."""
        return pa.Table.from_batches([], self._schema)

    def rows(self) -> int:
        """Count the rows."""
        return sum(batch.num_rows for batch in self._open())

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield all columns, one record batch at a time."""
        return iter(self._open())


class DatasetEngine(ArrowEngine):
    """An Arrow data set, of which only the needed columns are read."""

    settled = True
    keeps = True

    def __init__(self, dataset: ds.Dataset) -> None:
        self._dataset = dataset

    def empty(self) -> pa.Table:
        """Return a table with the same columns and no rows."""
        return pa.Table.from_batches([], self._dataset.schema)

    def rows(self) -> int:
        """Count the rows; a Parquet file has their number in its metadata."""
        return int(self._dataset.count_rows())

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pa.RecordBatch]:
        """Yield some columns, one record batch at a time."""
        wanted = None
        for each in keep:
            kept = _arrow_filter(each, self._dataset.schema.field(each.column).type)
            wanted = kept if wanted is None else wanted & kept
        return iter(self._dataset.to_batches(columns=list(columns), filter=wanted, **_AHEAD))


class JoinedEngine(ArrowEngine):
    """The join of two tables, computed anew for every pass over its rows.

    Parameters
    ----------
    left, right : ArrowEngine
        The sources. The needed columns of the right one are held in memory.
    on, how, own, others
        As for `dfprivacy.engines.Engine.join`.
    """

    def __init__(
        self,
        left: ArrowEngine,
        right: ArrowEngine,
        on: str,
        how: Literal["left", "inner"],
        own: Sequence[str],
        others: Sequence[str],
    ) -> None:
        self._left, self._right, self._on, self._how = left, right, on, how
        self._own, self._others = own, others
        self.settled = left.settled and right.settled

    def empty(self) -> pa.Table:
        """Return a table with the same columns and no rows."""
        left, right = self._left.empty().select(self._own), self._right.empty().select(self._others)
        return pa.Table.from_batches([], pa.schema([*left.schema, *right.schema]))

    def rows(self) -> int:
        """Count the rows."""
        return sum(table.num_rows for table in self.parts([self._on], ()))

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pa.Table]:  # noqa: ARG002
        """Yield some columns as tables of many rows."""
        (right,) = _large_tables(
            self._right, [name for name in self._others if name in columns], self._on, math.inf
        )
        people = _encoded_people(right.column(self._on))
        for left in _large_tables(self._left, [name for name in self._own if name in columns], self._on, TOGETHER):
            rows, others = matching_rows(_encoded_people(left.column(self._on)), people, self._how)
            theirs = pa.array(others, mask=others < 0)
            yield pa.table(
                {
                    name: left.column(name).take(pa.array(rows))
                    if name in self._own
                    else right.column(name).take(theirs)
                    for name in columns
                }
            )


def _large_tables(engine: ArrowEngine, columns: Sequence[str], on: str, least: float) -> Iterator[pa.Table]:
    """Yield tables of some columns and the column `on`, each of at least `least` rows except the last."""
    names = [*dict.fromkeys([*columns, on])]
    empty = engine.empty().select(names)
    held, rows = [empty], 0
    for part in engine.parts(names, ()):
        held.append((part if isinstance(part, pa.Table) else pa.Table.from_batches([part])).select(names))
        rows += part.num_rows
        if rows >= least:
            yield pa.concat_tables(held)
            held, rows = [empty], 0
    yield pa.concat_tables(held)


def _encoded_people(column: pa.ChunkedArray) -> Any:
    return concatenate_people([read_column(chunk, Read("", "people")) for chunk in column.chunks])


class DuckEngine(Engine):
    """A DuckDB relation: a query that is run anew for every pass over the rows, for the needed columns only.

    A connection runs one query at a time, and a relation does not tell its connection: threads take turns.

    Parameters
    ----------
    relation : DuckDBPyRelation
        The query.
    places : sequence of str
        Of a join, columns of places by which its rows are in order; they are nobody's to read.
    turn : context manager
        Held while a query runs.
    """

    keeps = True

    def __init__(
        self, relation: Any, places: Sequence[str] = (), turn: AbstractContextManager[Any] = _one_query
    ) -> None:
        self._relation = relation
        self._places = places
        self._turn = turn

    @cached_property
    def _schema(self) -> pa.Schema:
        with self._turn:
            whole = redact_errors(lambda: pa.RecordBatchReader.from_stream(self._relation.limit(0)).schema)
        return pa.schema([field for field in whole if field.name not in self._places])

    def empty(self) -> pa.Table:
        """Return a table with the same columns and no rows."""
        return pa.Table.from_batches([], self._schema)

    def rows(self) -> int:
        """Count the rows."""
        with self._turn:
            ((rows,),) = self._relation.aggregate("count(*)").fetchall()
        return int(rows)

    def split_by_person(self, column: str) -> Sequence[Engine]:
        """Split the rows into parts by a hash of the column that identifies people."""
        parts = -(-self.rows() // TOGETHER)
        if parts <= 1:
            return [self]
        found = (f"hash({_sql_quoted(column)}) % {parts} = {part}" for part in range(parts))
        return [DuckEngine(self._relation.filter(each), self._places, self._turn) for each in found]

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pa.RecordBatch]:
        """Yield some columns, one record batch at a time."""
        relation = self._relation
        for each in keep:
            relation = relation.filter(_sql_condition(each))
        if self._places:
            relation = relation.order(_sql_names(self._places))
        with self._turn:
            yield from pa.RecordBatchReader.from_stream(relation.project(_sql_names(columns)))

    def join(
        self, other: Engine, on: str, how: Literal["left", "inner"], own: Sequence[str], others: Sequence[str]
    ) -> Engine | None:
        """Join with another relation of the same connection by a query; None for any other engine or connection."""
        if not isinstance(other, DuckEngine):
            return None
        kinds = {self._schema.field(on).type, other._schema.field(on).type}  # noqa: SLF001
        plain = len(kinds) == 1 and all(pa.types.is_integer(kind) or pa.types.is_binary(kind) for kind in kinds)
        # Bytes are compared exactly: other types could be rounded, and letters taken for others.
        who = _sql_quoted(on) if plain else f"encode(CAST({_sql_quoted(on)} AS VARCHAR))"
        key = unused_name("who", [*own, *others])
        names, places = [*own, *others, key], list[str]()
        sides: list[Any] = []
        for each, columns in ((self, own), (other, others)):
            projected = [*map(_sql_quoted, columns), f"{who} AS {_sql_quoted(key)}"]
            for place in [*map(_sql_quoted, each._places)] or ["row_number() OVER ()"]:  # noqa: SLF001
                places.append(unused_name("place", [*names, *places]))
                projected.append(f"{place} AS {_sql_quoted(places[-1])}")
            sides.append(each._relation.project(", ".join(projected)).set_alias(f"side {len(sides)}"))  # noqa: SLF001
        met = " = ".join(f'"side {side}".{_sql_quoted(key)}' for side in (0, 1))
        with suppress(Exception):  # of another connection
            joined = sides[0].join(sides[1], met, how=how)
            return DuckEngine(joined.project(_sql_names([*own, *others, *places])), places)
        return None


class DuckTableEngine(DuckEngine):
    """A table of a DuckDB file; every pass over it has its own cursor, so that several threads can read."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection, self._name = connection, ".".join(map(_sql_quoted, name.split(".")))
        super().__init__(connection.table(self._name))

    def rows(self) -> int:
        """Count the rows."""
        return self._with_new_cursor().rows()

    def split_by_person(self, column: str) -> Sequence[Engine]:
        """Split the rows into parts by a hash of the column that identifies people."""
        return self._with_new_cursor().split_by_person(column)

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pa.RecordBatch]:
        """Yield some columns, one record batch at a time."""
        return self._with_new_cursor().parts(columns, keep)

    def _with_new_cursor(self) -> DuckEngine:
        return DuckEngine(self._connection.cursor().table(self._name), turn=nullcontext())


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


def _sql_names(names: Sequence[str]) -> str:
    return ", ".join(map(_sql_quoted, names))


def _sql_quoted(name: str, mark: str = '"') -> str:
    return mark + name.replace(mark, 2 * mark) + mark


def _sql_number(number: float) -> str:
    return repr(number) if isinstance(number, int) else f"{number!r}::DOUBLE"


# ---- a table, or a batch, as parts of columns ---------------------------------------------------------------


def names(table: pa.Table | pa.RecordBatch) -> list[str]:
    """Return the column names of a table, duplicates included."""
    return list(table.schema.names)


def empty_column(table: pa.Table, name: str) -> Column:
    """Return an empty column with the type of a table's column."""
    return pa.nulls(0, table.schema.field(name).type)


def batches(
    table: pa.Table | pa.RecordBatch, wanted: Sequence[str], size: int
) -> Iterator[tuple[int, dict[str, Column]]]:
    """Yield some columns in parts of at most `size` rows, each as its number of rows and its columns."""
    for batch in [table] if isinstance(table, pa.RecordBatch) else table.to_batches():
        for start in range(0, batch.num_rows, size):
            part = batch.slice(start, size)
            yield part.num_rows, {name: part.column(name) for name in wanted}


def lists(table: pa.Table | pa.RecordBatch, wanted: Sequence[str]) -> dict[str, list[Any]]:
    """Return some columns of a table as lists."""
    return {name: table.column(name).to_pylist() for name in wanted}
