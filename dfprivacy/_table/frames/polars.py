"""Polars DataFrames, and LazyFrames streamed."""

from __future__ import annotations

import os
import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import polars as pl

from dfprivacy._table.frames import Frame, Raw, Read, columns, redact_errors
from dfprivacy.errors import DPError, ReadError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_STREAMED = 1 << 17  # rows asked of the streaming engine at a time, if not more are wanted
PROBE_SECONDS = 10.0
_alive: set[int] = set()  # processes in which Polars' threads were seen at work


def adapt(frame: object) -> Frame | None:
    """Return the adapter of a Polars DataFrame or LazyFrame, None for anything else."""
    if isinstance(frame, pl.DataFrame):
        return PolarsFrame(frame)
    if isinstance(frame, pl.LazyFrame):
        return PolarsLazyFrame(frame)
    return None


def _ready() -> None:
    """Raise a `ReadError` where Polars' threads were lost in a fork: whoever asks them for rows waits for good."""
    if os.getpid() in _alive:  # threads that are there stay there
        return
    probe = threading.Thread(target=_probe, daemon=True)
    probe.start()
    probe.join(PROBE_SECONDS)
    if probe.is_alive():
        raise ReadError(
            "This process was forked from another that had used Polars, whose threads do not survive a fork.",
            "Start workers by 'spawn' or 'forkserver', or before Polars is first used.",
        ).after(DPError.outcome)
    _alive.add(os.getpid())


def _probe() -> None:
    frame = pl.DataFrame({"a": [0], "b": [0]}).select("a", "b")
    for _ in _stream(frame.lazy()):
        pass


class PolarsFrame:
    """A Polars DataFrame as batches of raw columns."""

    library = "polars"
    settled = True

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._frame.columns)

    def rows(self) -> int:
        """Count the rows."""
        return self._frame.height

    def ready(self) -> None:
        """Raise a `ReadError` if no rows can be read in this process."""
        _ready()

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        return _slices(self._frame[_names(reads, self.columns)], reads, size)

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns as lists."""
        return self._frame.select(names).to_dict(as_series=False)

    def names_people(self, name: str) -> bool:
        """Whether the type of a column can name people."""
        return _names_people(self._frame.schema[name])


class PolarsLazyFrame:
    """A Polars LazyFrame, run by the streaming engine at every pass and never held as a whole."""

    library = "polars"
    settled = False

    def __init__(self, frame: pl.LazyFrame) -> None:
        _ready()  # or it would wait for good while the table is protected
        self._frame = frame
        self._schema = redact_errors(frame.collect_schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._schema.names())

    def rows(self) -> int:
        """Count the rows."""
        return int(self._frame.select(pl.len()).collect(engine="streaming").item())

    def ready(self) -> None:
        """Raise a `ReadError` if no rows can be read in this process."""
        _ready()

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        for frame in _stream(self._frame.select(_names(reads, self.columns)), max(size, _STREAMED)):
            yield from _slices(frame, reads, size)

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns as lists."""
        return self._frame.select(names).collect().to_dict(as_series=False)

    def names_people(self, name: str) -> bool:
        """Whether the type of a column can name people."""
        return _names_people(self._schema[name])


def _stream(frame: pl.LazyFrame, rows: int = _STREAMED) -> Iterator[pl.DataFrame]:
    """Run a query, and give its rows in order, for messages and statistics are of them.

    `collect_batches` would end early, without an error, where a thread of Polars panics: over a file that was cut.
    """
    given: queue.Queue[pl.DataFrame | BaseException | None] = queue.Queue(maxsize=2)
    stopped = threading.Event()

    def put(item: pl.DataFrame | BaseException | None) -> bool:
        while not stopped.is_set():
            with suppress(queue.Full):
                given.put(item, timeout=0.1)
                break
        return stopped.is_set()  # which ends the query

    def run() -> None:
        try:  # the one place that uses a method which Polars calls unstable
            frame.sink_batches(put, chunk_size=rows, maintain_order=True, engine="streaming")
        except BaseException as error:  # noqa: BLE001 - a panic of Rust is no Exception
            put(error)
        else:
            put(None)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    try:
        while (item := given.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        worker.join(PROBE_SECONDS)


def _names(reads: Sequence[Read], columns: tuple[str, ...]) -> list[str]:
    # A frame without columns has no rows in Polars: to count rows, read some column.
    return list(dict.fromkeys(read.name for read in reads)) or list(columns[:1])


def _slices(frame: pl.DataFrame, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
    for batch in frame.iter_slices(size):
        if batch.height:
            yield batch.height, {read: columns.raw(_column(batch[read.name]), read) for read in reads}


def _column(column: pl.Series) -> columns.Column:
    """Give a column as Arrow has it; Python objects as they are."""
    if column.dtype == pl.Object:
        return column.to_list()
    if column.dtype in (pl.Int128, pl.UInt128):  # Arrow has none; their digits are exact, and read as numbers
        column = column.cast(pl.String)
    return column.to_arrow(compat_level=pl.CompatLevel.oldest())


def _names_people(dtype: pl.DataType) -> bool:
    return columns.names_people(_column(pl.Series(dtype=dtype)))
