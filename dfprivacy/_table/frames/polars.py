"""Polars DataFrames, and LazyFrames streamed."""

from __future__ import annotations

import os
import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dfprivacy._table.frames import Dictionary, Frame, Raw, Read, redact_errors
from dfprivacy._table.frames.texts import Texts
from dfprivacy.errors import DPError, ReadError
from dfprivacy.schema import codes_of
from dfprivacy.schema.values import days, missing, plain_number

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
            yield batch.height, {read: _raw(batch[read.name], read) for read in reads}


def _names_people(dtype: pl.DataType) -> bool:
    return dtype.is_integer() or dtype in (pl.String, pl.Binary, pl.Categorical, pl.Enum, pl.Object)


def _raw(column: pl.Series, read: Read) -> Raw:
    dtype = column.dtype
    if dtype == pl.Object:
        values = column.to_list()
        return _numbers_of(values) if read.domain is None else Dictionary(np.arange(len(values)), values)
    if read.domain == "people" and (people := _people(column)) is not None:
        return people
    if dtype.is_numeric() or dtype == pl.Boolean:
        return _numbers(column)
    if read.domain is None:
        return _days(column) if dtype in (pl.Date, pl.Datetime) else missing(len(column))
    if dtype == pl.Binary:
        return Dictionary(np.arange(len(column)), column.to_list())
    if dtype not in (pl.String, pl.Categorical, pl.Enum):
        return missing(len(column))
    # Never to_physical() of a Categorical: its codes are handed out by the process, in order of appearance.
    if read.domain is ...:
        column = column.cast(pl.String)
        domain = column.drop_nulls().unique(maintain_order=True).to_list()  # which is faster
    else:
        texts = (key[1] for key in codes_of(read.domain) if isinstance(key, tuple))
        domain = [text for text in texts if _is_unicode(text)]
    codes = column.cast(pl.Enum(domain), strict=False).to_physical().to_numpy()
    if codes.dtype.kind == "f":  # with nulls as NaN
        codes = np.where(np.isnan(codes), -1, codes)
    return Dictionary(codes.astype(np.intp), domain)


def _people(column: pl.Series) -> Dictionary | None:
    """Give whole numbers and texts as they are: people are numbered for all engines alike."""
    dtype = column.dtype
    if dtype in (pl.Int128, pl.UInt128):
        distinct = column.drop_nulls().unique().sort()
        places = column.rank("dense").cast(pl.Int64).fill_null(0).to_numpy() - 1
        return Dictionary(places.astype(np.intp), distinct.to_list())
    if not dtype.is_integer() and dtype not in (pl.String, pl.Categorical, pl.Enum):
        return None
    there = column.is_not_null().to_numpy()
    places = np.arange(len(column)) if there.all() else np.where(there, np.cumsum(there) - 1, -1)
    known = column.drop_nulls()
    return Dictionary(places, known.to_numpy() if dtype.is_integer() else _texts(known.cast(pl.String)))


def _texts(column: pl.Series) -> Texts:
    lengths = column.str.len_bytes()
    some = column.filter(lengths > 0) if lengths.min() == 0 else column  # an empty list has one byte, a missing one
    data = some.cast(pl.Binary).cast(pl.List(pl.UInt8)).explode().to_numpy()
    return Texts.joined(data, lengths.to_numpy())


def _numbers(column: pl.Series) -> np.ndarray[Any, Any]:
    dtype = column.dtype
    if dtype == pl.Boolean:
        column = column.cast(pl.UInt8)
    elif dtype.is_decimal() or dtype in (pl.Int128, pl.UInt128, pl.Float16):
        column = column.cast(pl.Float64, strict=False)
    return column.to_numpy()  # integers with nulls become float64 with NaN


def _days(column: pl.Series) -> np.ndarray[Any, Any]:
    since: np.ndarray[Any, Any] = days(column.to_numpy())
    return since


def _is_unicode(text: str) -> bool:
    # A lone surrogate is in no column of Polars, which fails if it is asked for one.
    return text.encode(errors="ignore").decode() == text


def _numbers_of(values: list[object]) -> np.ndarray[Any, Any]:
    return np.fromiter((plain_number(value) for value in values), dtype=np.float64, count=len(values))
