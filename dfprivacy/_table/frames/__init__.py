"""Adapters that read the tables of dataframe libraries as batches of raw columns.

An adapter turns its frame into batches of raw columns: numbers as NumPy arrays, everything else as codes
into a dictionary of values. What the values mean (bounds, categories, missing values) is decided by
`dfprivacy.schema`, in one place for every engine.

A column's type decides only how its values are read, never what they count as or whether they are read at all:
a value in one row can change the type, and then every other row must still count as it did.

An engine's own errors and warnings may quote values of the data. `redact_errors` is the one place that catches
them.
"""

from __future__ import annotations

import importlib
import os
import threading
import warnings
from abc import ABC, abstractmethod
from functools import cached_property
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from dfprivacy.engines import Engine, WorkersLost
from dfprivacy.errors import ArgumentError, ReadError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from types import EllipsisType

    from dfprivacy.schema.values import Raw

T = TypeVar("T")
_PART = 1 << 20  # rows at a time where they are counted
TOGETHER = 1 << 22
"""Rows of a query that are held in memory at once."""


class Read(NamedTuple):
    """Request to read one column as numbers, as categories of a public domain, as keys, or as people's identifiers.

    Whoever the people are, they are told apart: their raw column is a dictionary with each name once, in which no
    integer is rounded. Its column is one that can name people. Values that a formula computes are read as they
    are, and only the columns of the formula are read from a frame.
    """

    name: str
    domain: tuple[object, ...] | EllipsisType | Literal["people"] | Hashable | None = None

    def __hash__(self) -> int:
        return hash(self.name)  # reads are looked up in every batch, and a domain may have many categories


def cut_into_batches(columns: Mapping[Read, Raw], rows: int, size: int) -> Iterator[tuple[int, dict[Read, Raw]]]:
    """Cut columns of length `rows` into batches of at most `size` rows; yield each batch's length and columns."""
    for start in range(0, rows, size):
        part = slice(start, min(start + size, rows))
        yield part.stop - start, {read: column[part] for read, column in columns.items()}


class BatchSource(Protocol):
    """Interface of objects that yield their rows in batches."""

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Yield batches of at most `size` rows, each as its number of rows and its unclipped columns."""
        ...


class Frame(BatchSource, ABC):
    """Base class of adapters that yield a table's rows in batches.

    Attributes
    ----------
    library : {"pandas", "polars", "pyarrow"}
        Library of the tables that releases make.
    settled : bool
        Whether every pass gives the same rows in the same order, unless somebody changes the table.
    elsewhere : bool
        Whether the rows are in other processes, where work can be done by `map_parts`.
    """

    library: str = "pandas"
    settled: bool = True
    elsewhere: bool = False

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Column names in order, duplicates included."""

    @abstractmethod
    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Yield batches of at most `size` rows, each as its number of rows and its unclipped columns."""

    def rows(self) -> int:
        """Count the rows."""
        return sum(rows for rows, _ in self.batches((), _PART))

    def check_readable(self) -> None:
        """Raise a `ReadError`, before anything is charged, if no rows can be read in this process."""

    def split_by_person(self, name: str) -> Sequence[Frame]:  # noqa: ARG002
        """Split the frame so that all rows of a person, who is identified by column `name`, are in one part."""
        return [self]

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return public columns as lists of Python values, in the order of the rows."""
        raise NotImplementedError(names)

    def identifier_kind(self, name: str) -> str:  # noqa: ARG002
        """Return the kind of identifiers that a column's type can hold, such as "text"; empty if none."""
        return ""

    def join(
        self,
        other: Frame,  # noqa: ARG002
        on: str,  # noqa: ARG002
        how: Literal["left", "inner"],  # noqa: ARG002
        own: Sequence[str],  # noqa: ARG002
        others: Sequence[str],  # noqa: ARG002
    ) -> Frame | None:
        """Return the join with another frame, as `dfprivacy.engines.Engine.join` does; None if not possible."""
        return None


class DerivedFrame(Frame):
    """Base class of frames whose rows are derived from the rows of another frame."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.library = frame.library
        self.settled = frame.settled

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return self.frame.columns

    def identifier_kind(self, name: str) -> str:
        """Return the kind of identifiers that a column's type can hold, such as "text"; empty if none."""
        return self.frame.identifier_kind(name)

    def check_readable(self) -> None:
        """Raise a `ReadError` if no rows can be read in this process."""
        self.frame.check_readable()


class ColumnsFrame(Frame):
    """A frame of given columns in memory: arrays of numbers, or codes with the list of their values.

    Parameters
    ----------
    columns : mapping of str to ndarray or Dictionary
        Numbers, or categories.
    """

    def __init__(self, columns: Mapping[str, Raw]) -> None:
        self._columns = dict(columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._columns)

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as lists of Python values."""
        return {name: self._columns[name].tolist() for name in names}  # type: ignore[union-attr]

    def rows(self) -> int:
        """Count the rows."""
        return len(next(iter(self._columns.values())))

    def identifier_kind(self, name: str) -> str:
        """Return "integers" if a column has an integer or object type, so that it can identify people; else ""."""
        column = self._columns[name]
        whole = isinstance(column, np.ndarray) and column.dtype.kind in "iuO"
        return "integers" if whole else ""

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Yield the rows in batches of at most `size`."""
        from dfprivacy._table.frames.columns import read_column  # which imports Arrow

        for rows, columns in cut_into_batches(
            {read: self._columns[read.name] for read in reads}, self.rows(), size
        ):
            yield rows, {read: read_column(column, read) for read, column in columns.items()}


class AbsentFrame(Frame):
    """A frame whose rows are on a server, which sends only the public columns.

    Parameters
    ----------
    columns : tuple of str
        The names of all columns, in order.
    library : str
        Library of the tables that releases make.
    fetch : callable, optional
        Returns the public columns as lists.
    """

    def __init__(
        self, columns: tuple[str, ...], library: str, fetch: Callable[[], Mapping[str, list[Any]]] = dict
    ) -> None:
        self._names = columns
        self._fetch = fetch
        self.library = library

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return self._names

    @cached_property
    def _public(self) -> ColumnsFrame:
        return ColumnsFrame(self._fetch())  # type: ignore[arg-type]  # lists are read as Python objects

    def identifier_kind(self, name: str) -> str:
        """Return "identifiers on a server" for a column, as only the server knows its type; else ""."""
        return "identifiers on a server" if name in self._names else ""

    def join(
        self, other: Frame, on: str, how: Literal["left", "inner"], own: Sequence[str], others: Sequence[str]
    ) -> Frame | None:
        """Return the columns of the join with another frame on a server; None for a frame in this process."""
        del on, how
        return AbsentFrame((*own, *others), self.library) if isinstance(other, AbsentFrame) else None

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Yield the rows of public columns in batches of at most `size`."""
        if not {read.name for read in reads} <= {*self._public.columns}:
            raise read_error(
                "The rows are on a server.", "Ask the question there: only public columns are read here."
            )
        yield from self._public.batches(reads, size)


# Where the frames of each library are adapted.
_ADAPTERS = {"duckdb": "arrow", "_duckdb": "arrow", "pyarrow": "arrow", "pyspark": "spark"}
_ADAPTERS |= {library: library for library in ("dask", "pandas", "polars")}
ENTRY_POINTS = "dfprivacy.frames"


def adapt(frame: object) -> Frame:
    """Return the `Frame` that reads a dataframe.

    Parameters
    ----------
    frame : object
        The table: of pandas, Polars, Arrow, DuckDB, Dask or Spark, of an engine that has an entry point, or
        anything with an Arrow C stream.

    Returns
    -------
    Frame
        Its adapter.

    Raises
    ------
    ArgumentError
        If no adapter knows it.
    """
    engine = _engine_of_frame(frame)
    if engine is None:
        raise ArgumentError(
            f"dfprivacy cannot read an object of type {type(frame).__name__} as a table.",
            "Pass a DataFrame of pandas, Polars, Dask or Spark, a Polars LazyFrame, a table or data set of Arrow, "
            "a DuckDB relation, or an object with an Arrow C stream.",
        )
    adapted: Frame = importlib.import_module(f"{__name__}.engine").frame_of_engine(engine)
    return adapted


def _engine_of_frame(frame: object) -> object | None:
    """Return the engine for a dataframe, found by the library of its class, an entry point or its Arrow stream."""
    if isinstance(frame, Engine):
        return frame
    engine: object | None
    for library in dict.fromkeys(kind.__module__.partition(".")[0] for kind in type(frame).__mro__):
        if library in _ADAPTERS:
            engine = _engine_from_module(_ADAPTERS[library], frame)
            if engine is not None:
                return engine
        elif library != "builtins":  # to look for entry points takes milliseconds
            for entry in entry_points(group=ENTRY_POINTS, name=library):
                engine = entry.load()(frame)
                if engine is not None:
                    return engine
    return _engine_from_module("arrow", frame)


def _engine_from_module(module: str, frame: object) -> object | None:
    engine: object | None = importlib.import_module(f"{__name__}.{module}").adapt(frame)
    return engine


def unused_name(name: str, taken: Iterable[str]) -> str:
    """Return `name`, with apostrophes appended until it differs from all `taken` names, ignoring case."""
    known = {each.casefold() for each in taken}
    while name in known:
        name += "'"
    return name


def redact_errors(work: Callable[[], T]) -> T:
    """Call a function that reads rows, and withhold its warnings and the text of its errors, which may quote data.

    Parameters
    ----------
    work : callable
        What to do; called without arguments.

    Returns
    -------
    object
        Its result.

    Raises
    ------
    ReadError
        If it fails. The error names the type of the failure only: its text may quote the data.
    """
    own = None
    try:
        with _silence:
            return work()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - any error may quote data, and a panic of Rust is no Exception
        failed, lost = type(error).__name__, type(error) is WorkersLost
        own = error if isinstance(error, ReadError) and "quotes_nothing" in vars(error) else None
    # Raised outside the handler, so that the error does not carry the engine's along as its context.
    if own is not None:
        raise own
    if lost:
        raise read_error("The cluster has lost its workers.", "Start new workers, and ask again.")
    raise read_error(
        f"Reading the rows failed with {failed}; its text is withheld because it may quote the data.",
        "The frame's custodian can see the message by running the same computation outside dfprivacy.",
    )


def read_error(what: str, hint: str) -> ReadError:
    """Return a `ReadError` whose message quotes no data, so that `redact_errors` does not withhold it."""
    error = ReadError(what, hint)
    vars(error)["quotes_nothing"] = True
    return error


class _WarningFilter:
    """Context manager that suppresses all warnings of the process while any of its threads reads rows.

    `warnings.catch_warnings` of two threads that overlap would restore each other's filters in the wrong order.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._readers = 0
        self._filters = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._turn:
            if not self._readers:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")
            self._readers += 1

    def __exit__(self, *_: object) -> None:
        with self._turn:
            self._readers -= 1
            if not self._readers:
                self._filters.__exit__(None, None, None)

    def reset_after_fork(self) -> None:
        """Show warnings again in a forked child, which has none of its parent's reading threads."""
        if self._readers:
            self._filters.__exit__(None, None, None)
        self._turn, self._readers = threading.Lock(), 0


_silence = _WarningFilter()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_silence.reset_after_fork)
