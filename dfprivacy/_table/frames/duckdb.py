"""Relations of DuckDB: a query, run anew at every pass, of the columns that are asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from dfprivacy._table.frames import redact_errors
from dfprivacy.engines import Engine, Keep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def adapt(frame: object) -> Engine | None:
    """Return the engine of a relation, None for anything else."""
    return DuckEngine(frame) if isinstance(frame, duckdb.DuckDBPyRelation) else None


class DuckEngine(Engine):
    """A relation, streamed."""

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self._relation = relation

    @cached_property
    def _schema(self) -> pa.Schema:
        return redact_errors(lambda: _stream(self._relation.limit(0)).schema)

    def empty(self) -> pa.Table:
        """Return a table without rows."""
        return self._schema.empty_table()

    def rows(self) -> int:
        """Count the rows."""
        ((rows,),) = self._relation.aggregate("count(*)").fetchall()
        return int(rows)

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pa.Table]:
        """Read some columns, a batch at a time."""
        relation = self._relation
        for each in keep:
            relation = relation.filter(_condition(each))
        for batch in _stream(relation.project(", ".join(map(_quoted, columns)))):
            yield pa.Table.from_batches([batch])


def _stream(relation: duckdb.DuckDBPyRelation) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_stream(relation)


def _quoted(name: str, mark: str = '"') -> str:
    return mark + name.replace(mark, 2 * mark) + mark


def _condition(keep: Keep) -> str:
    name = _quoted(keep.column)
    if keep.texts is not None:
        return f"{name} IN ({', '.join(_quoted(text, chr(39)) for text in keep.texts)})" if keep.texts else "false"
    low = "true" if keep.low is None else f"{name} >= {_written(keep.low)}"
    return low if keep.high is None else f"{low} AND {name} <= {_written(keep.high)}"


def _written(number: float) -> str:
    return repr(number) if isinstance(number, int) else f"{number!r}::DOUBLE"
