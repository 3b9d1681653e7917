"""Engine for Spark DataFrames, read as Arrow batches on their executors."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, functions
from pyspark.sql.pandas.types import to_arrow_schema

from dfprivacy._table.frames import unused_name
from dfprivacy.engines import Cluster, Engine, Keep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


def adapt(frame: object) -> Engine | None:
    """Return the engine for a Spark DataFrame; None for any other object."""
    if not isinstance(frame, DataFrame):
        return None
    context = getattr(frame.sparkSession, "_sc", None)  # there is none with Spark Connect
    if context is not None and context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # workers on this machine, else of whichever `python3` is first
    return SparkEngine(frame)


class SparkEngine(Cluster):
    """A Spark DataFrame: a query plan, run anew for every pass over its rows.

    Parameters
    ----------
    frame : DataFrame
        The plan.
    by : str, optional
        The people's column by which rows are divided.
    places : sequence of str
        Of a join, columns of places by which its rows are in order; they are nobody's to read.
    """

    keeps = True

    def __init__(self, frame: DataFrame, by: str | None = None, places: Sequence[str] = ()) -> None:
        self._frame = frame
        self._by = by
        self._places = places

    def empty(self) -> pa.Table:
        """Return a table with the same columns and no rows."""
        known = to_arrow_schema(self._frame.schema).empty_table()
        return known.drop_columns([*self._places]) if self._places else known

    def rows(self) -> int:
        """Count the rows."""
        return int(self._frame.count())

    def split_by_person(self, column: str) -> list[SparkEngine]:
        """Return an engine with each person's rows in one part, in their original order."""
        return [SparkEngine(self._frame, column, self._places)]

    def join(
        self, other: Engine, on: str, how: Literal["left", "inner"], own: Sequence[str], others: Sequence[str]
    ) -> Engine | None:
        """Join with a Spark DataFrame by a query plan, without running it; None for any other engine."""
        if not isinstance(other, SparkEngine):
            return None
        names, sides = [*own, *others], []
        places: list[str] = []
        keys: list[str] = []
        for each, columns in ((self, own), (other, others)):
            keys.append(unused_name("who", [*names, *places, *keys]))
            # Bytes are compared exactly: other types could be rounded, and letters taken for others.
            chosen = [_column_expression(on).cast("string").cast("binary").alias(keys[-1])]
            for place in [*map(_column_expression, each._places)] or [functions.monotonically_increasing_id()]:  # noqa: SLF001
                places.append(unused_name("place", [*names, *places, *keys]))
                chosen.append(place.alias(places[-1]))
            sides.append(each._frame.select(*map(_column_expression, columns), *chosen))  # noqa: SLF001
        met = _column_expression(keys[0]) == _column_expression(keys[1])
        joined = sides[0].join(sides[1], met, how)
        return SparkEngine(joined.select(*map(_column_expression, [*own, *others, *places])), None, places)

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pa.Table]:
        """Yield the rows as Arrow tables, fetched one partition at a time."""

        def write_batches(batches: Iterable[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for batch in batches:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, batch.schema) as stream:
                    stream.write_batch(batch)
                yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["part"])

        for row in self._select_columns(columns, keep).mapInArrow(write_batches, "part binary").toLocalIterator():
            yield pa.ipc.open_stream(row.part).read_all()

    def run(
        self, columns: Sequence[str], keep: Sequence[Keep], work: Callable[[Iterator[object]], bytes]
    ) -> Iterator[bytes]:
        """Call a function on each partition, on its executor, and yield the results."""

        def work_on_batches(batches: Iterable[Any]) -> Iterator[Any]:  # pickled with its code: see `Cluster.run`
            import pyarrow as pa

            written = work(pa.Table.from_batches([batch]) for batch in batches)
            yield pa.record_batch([pa.array([written], pa.binary())], ["part"])

        for row in self._select_columns(columns, keep).mapInArrow(work_on_batches, "part binary").collect():
            yield bytes(row.part)

    def _select_columns(self, columns: Sequence[str], keep: Sequence[Keep]) -> DataFrame:
        frame = self._frame
        for each in keep:
            frame = frame.filter(_filter_expression(each))
        chosen = [*map(_column_expression, columns)]
        if self._by is None:
            return frame.select(*chosen)
        new = unused_name("place", columns)
        places = [*map(_column_expression, self._places or [new])]
        made = places if self._places else [functions.monotonically_increasing_id().alias(new)]
        parts = frame.select(*chosen, *made).repartition(_column_expression(self._by))
        return parts.sortWithinPartitions(*places).select(*chosen)


def _column_expression(name: str) -> Any:
    return functions.col("`" + name.replace("`", "``") + "`")


def _filter_expression(keep: Keep) -> Any:
    column = _column_expression(keep.column)
    if keep.texts is not None:
        return column.isin(*keep.texts)
    low = functions.lit(True) if keep.low is None else column >= keep.low
    return low if keep.high is None else low & (column <= keep.high)
