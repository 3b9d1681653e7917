"""Engines for Polars DataFrames and LazyFrames."""

from __future__ import annotations

import os
import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from dfprivacy._table.frames import TOGETHER, redact_errors, unused_name
from dfprivacy.engines import Engine, Keep
from dfprivacy.errors import DPError, ReadError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dfprivacy._table.frames.columns import Column

_STREAMED = 1 << 17  # rows asked of the streaming engine at a time
PROBE_SECONDS = 10.0
_alive: set[int] = set()  # processes in which Polars' threads were seen at work


def adapt(frame: object) -> Engine | None:
    """Return the engine for a Polars DataFrame or LazyFrame; None for any other object."""
    if isinstance(frame, pl.DataFrame):
        return PolarsEngine(frame)
    return LazyEngine(frame) if isinstance(frame, pl.LazyFrame) else None


def _check_threads() -> None:
    """Raise a ReadError if Polars' threads were lost in a fork, as reading would never end without them."""
    if os.getpid() in _alive:  # threads that are there stay there
        return
    probe = threading.Thread(target=_run_probe_query, daemon=True)
    probe.start()
    probe.join(PROBE_SECONDS)
    if probe.is_alive():
        raise ReadError(
            "This process was forked from another that had used Polars, whose threads do not survive a fork.",
            "Start processes with multiprocessing's 'spawn' or 'forkserver', or before Polars is first used.",
        ).after(DPError.outcome)
    _alive.add(os.getpid())


def _run_probe_query() -> None:
    frame = pl.DataFrame({"a": [0], "b": [0]}).select("a", "b")
    for _ in _stream(frame.lazy()):
        pass


class PolarsEngine(Engine):
    """A Polars DataFrame in memory."""

    library = "polars"
    settled = True

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def empty(self) -> pl.DataFrame:
        """Return a table with the same columns and no rows."""
        return self._frame.clear()

    def rows(self) -> int:
        """Count the rows."""
        return self._frame.height

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pl.DataFrame]:  # noqa: ARG002
        """Return the whole table as one part."""
        return iter([self._frame.select(columns)])

    def check_ready(self) -> None:
        """Raise a `ReadError` if no rows can be read in this process."""
        _check_threads()

    @property
    def _lazy(self) -> pl.LazyFrame:
        return self._frame.lazy()

    def join(
        self, other: Engine, on: str, how: Literal["left", "inner"], own: Sequence[str], others: Sequence[str]
    ) -> Engine | None:
        """Join with a Polars frame: in memory if both are DataFrames, else by a lazy query; None for others."""
        if not isinstance(other, PolarsEngine):
            return None
        left, right = self._lazy, other._lazy  # noqa: SLF001
        kinds = {self.empty().schema[on], other.empty().schema[on]}
        alike = len(kinds) == 1 and kinds.isdisjoint({pl.Categorical(), pl.Enum})
        who = pl.col(on) if alike else pl.col(on).cast(pl.String)  # exact: other types could be rounded
        key = unused_name("who", [*own, *others])
        joined = left.select(*own, who.alias(key)).join(
            right.filter(pl.col(on).is_not_null()).select(*others, who.alias(key)),
            on=key,
            how=how,
            maintain_order="left_right",
        )
        query = joined.select(*own, *others)
        in_memory = type(self) is type(other) is PolarsEngine
        return PolarsEngine(query.collect()) if in_memory else LazyEngine(query)


class LazyEngine(PolarsEngine):
    """A Polars LazyFrame, run by the streaming engine for every pass, and never held in memory as a whole."""

    settled = False

    def __init__(self, frame: pl.LazyFrame) -> None:
        _check_threads()  # or it would wait for good while the table is protected
        self._query = frame
        self._schema = redact_errors(frame.collect_schema)

    def empty(self) -> pl.DataFrame:
        """Return a table with the same columns and no rows."""
        return pl.DataFrame(schema=self._schema)

    @property
    def _lazy(self) -> pl.LazyFrame:
        return self._query

    def rows(self) -> int:
        """Count the rows."""
        return int(self._query.select(pl.len()).collect(engine="streaming").item())

    def split_by_person(self, column: str) -> Sequence[Engine]:
        """Split the rows into parts by a hash of the column that names people, if Polars can hash its type."""
        kind = self._schema[column]
        parts = -(-self.rows() // TOGETHER) if kind.is_integer() or kind in (pl.String, pl.Binary) else 1
        if parts <= 1:
            return [self]
        hashed = pl.col(column).hash() % parts
        return [LazyEngine(self._query.filter(hashed == part)) for part in range(parts)]

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pl.DataFrame]:  # noqa: ARG002
        """Yield some columns, a limited number of rows at a time."""
        return _stream(self._query.select(columns))


def _stream(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Run a lazy query, and yield its rows in order, as DataFrames.

    `collect_batches` would end early, without an error, where a thread of Polars panics: over a file that was cut.
    """
    given: queue.Queue[pl.DataFrame | BaseException | None] = queue.Queue(maxsize=2)
    stopped = threading.Event()

    def put_item(item: pl.DataFrame | BaseException | None) -> bool:
        while not stopped.is_set():
            with suppress(queue.Full):
                given.put(item, timeout=0.1)
                break
        return stopped.is_set()  # which ends the query

    def run_query() -> None:
        try:  # the one place that uses a method which Polars calls unstable
            frame.sink_batches(put_item, chunk_size=_STREAMED, maintain_order=True, engine="streaming")
        except BaseException as error:  # noqa: BLE001 - a panic of Rust is no Exception
            put_item(error)
        else:
            put_item(None)

    worker = threading.Thread(target=run_query, daemon=True)
    worker.start()
    try:
        while (item := given.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        worker.join(PROBE_SECONDS)


def names(frame: pl.DataFrame) -> list[str]:
    """Return the column names of a DataFrame."""
    return frame.columns


def empty_column(frame: pl.DataFrame, name: str) -> Column:
    """Return an empty column with the type of a DataFrame's column."""
    return _raw_column(frame[name][:0])


def batches(frame: pl.DataFrame, wanted: Sequence[str], size: int) -> Iterator[tuple[int, dict[str, Column]]]:
    """Yield some columns in parts of at most `size` rows, each as its number of rows and its columns."""
    for part in frame.iter_slices(size):
        if part.height:
            yield part.height, {name: _raw_column(part[name]) for name in wanted}


def lists(frame: pl.DataFrame, wanted: Sequence[str]) -> dict[str, list[Any]]:
    """Return some columns as lists."""
    return frame.select(wanted).to_dict(as_series=False)


def _raw_column(column: pl.Series) -> Column:
    """Convert a column to an Arrow array, or to a list if it holds Python objects."""
    if column.dtype == pl.Object:
        return column.to_list()
    if column.dtype in (pl.Int128, pl.UInt128):  # Arrow has none; their digits are exact, and read as numbers
        column = column.cast(pl.String)
    return column.to_arrow(compat_level=pl.CompatLevel.oldest())
