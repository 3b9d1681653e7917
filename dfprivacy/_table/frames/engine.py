"""Frames whose rows an `Engine` reads, in this process or on a cluster."""

from __future__ import annotations

import hashlib
import importlib
import io
import math
import pickle
import platform
import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import PurePath
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np

from dfprivacy._table.frames import Frame, Read, read_error, redact_errors
from dfprivacy.engines import Cluster, Engine, Keep
from dfprivacy.errors import PluginError, ReadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from importlib.resources.abc import Traversable

    from dfprivacy.schema.values import Raw

T = TypeVar("T")


class EngineFrame(Frame):
    """Frame that yields an engine's table as batches of raw columns.

    Parameters
    ----------
    engine : Engine
        Reads the rows.
    keep : tuple of Keep
        Which of them may be left out.
    """

    def __init__(self, engine: Engine, keep: tuple[Keep, ...] = ()) -> None:
        self.engine = engine
        self.keep = keep
        self.library = engine.library
        self.settled = engine.settled

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        empty = self.engine.empty()
        return tuple(_module_for_table(empty).names(empty))

    def identifier_kind(self, name: str) -> str:
        """Return the kind of identifiers that a column's type can hold, such as "text"; empty if none."""
        from dfprivacy._table.frames.columns import identifier_kind  # which imports Arrow

        empty = self.engine.empty()
        return identifier_kind(_module_for_table(empty).empty_column(empty, name))

    def join(
        self,
        other: Frame,
        on: str,
        how: Literal["left", "inner"],
        own: Sequence[str],
        others: Sequence[str],
    ) -> Frame | None:
        """Return the join with another frame, computed by the engine; None if the engine cannot join them."""
        if not isinstance(other, EngineFrame):
            return None
        engine = redact_errors(lambda: self.engine.join(other.engine, on, how, own, others))
        return None if engine is None else frame_of_engine(engine)

    def rows(self) -> int:
        """Count the rows."""
        return int(self.engine.rows())

    def check_readable(self) -> None:
        """Raise a `ReadError` if no rows can be read in this process."""
        self.engine.check_ready()

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Yield the rows in batches of at most `size`."""
        return TablePart(self.engine.parts(self.columns_needed(reads), self.keep)).batches(reads, size)

    def columns_needed(self, reads: Iterable[Read]) -> list[str]:
        """Return the names of the columns to read; the first column if only the rows are counted."""
        return _names_of_reads(reads) or list(self.columns[:1])

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as lists of Python values."""
        parts = [
            _module_for_table(table).lists(table, names) for table in self.engine.parts(list(names), self.keep)
        ]
        return {name: [value for part in parts for value in part[name]] for name in names}

    def split_by_person(self, name: str) -> Sequence[EngineFrame]:
        """Split the frame so that all rows of a person, who is identified by column `name`, are in one part."""
        return [type(self)(each, self.keep) for each in self.engine.split_by_person(name)]

    def with_conditions(self, keep: Iterable[Keep]) -> EngineFrame:
        """Return a frame whose engine filters rows by those conditions that fit the columns' types."""
        if not self.engine.keeps:
            return self
        types: Any = self.engine.empty()
        fitting = (_adapted_condition(each, types.schema.field(each.column).type) for each in keep)
        return type(self)(self.engine, tuple(each for each in fitting if each is not None))


def _adapted_condition(keep: Keep, dtype: Any) -> Keep | None:
    """Return a condition adapted to a column's type; None if it does not fit the type."""
    from pyarrow import types

    if keep.texts is not None and (types.is_string(dtype) or types.is_large_string(dtype)):
        return Keep(keep.column, texts=keep.texts)
    if keep.low is None and keep.high is None:
        return None
    if types.is_integer(dtype):
        limits = np.iinfo(dtype.to_pandas_dtype())  # the house compares the nearest float64, which may be beside it
        low = None if keep.low is None else math.floor(math.nextafter(keep.low, -math.inf))
        high = None if keep.high is None else math.ceil(math.nextafter(keep.high, math.inf))
        return Keep(
            keep.column,
            None if low is None else min(max(low, limits.min), limits.max),
            None if high is None else min(max(high, limits.min), limits.max),
        )
    return Keep(keep.column, keep.low, keep.high) if types.is_float32(dtype) or types.is_float64(dtype) else None


def _names_of_reads(reads: Iterable[Read]) -> list[str]:
    return [*dict.fromkeys(read.name for read in reads)]


@dataclass(frozen=True)
class TablePart:
    """Part of a table: a sequence of dataframes, read as batches of raw columns."""

    tables: Iterator[object]

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Yield the rows in batches of at most `size`."""
        from dfprivacy._table.frames.columns import read_column  # which imports Arrow

        names = _names_of_reads(reads)
        for table in self.tables:
            for rows, columns in _module_for_table(table).batches(table, names, size):
                yield rows, {read: read_column(columns[read.name], read) for read in reads}


def _module_for_table(table: object) -> Any:
    """Return the module of this package that reads a table: `arrow`, `pandas` or `polars`."""
    library = "arrow"
    for kind in type(table).__mro__:
        if (found := kind.__module__.partition(".")[0]) in {"pandas", "polars"}:
            library = found
    return importlib.import_module(f"{__package__}.{library}")


@dataclass(frozen=True)
class TaskOutcome(Generic[T]):
    """Result of a task on one part of a table: value or type of error, number of rows, versions on the worker.

    With digests of the code of packages other than this one.
    """

    value: T
    rows: int
    by: tuple[str, ...]
    failed: str = ""
    code: tuple[tuple[str, str], ...] = ()


class ClusterFrame(EngineFrame):
    """Frame of a table on a cluster; the cluster's workers run functions on parts of the table."""

    engine: Cluster
    elsewhere = True

    def map_parts(
        self,
        reads: Iterable[Read],
        work: Callable[[TablePart, Callable[[int], None]], T],
        count: Callable[[int], None],
        *,
        portable: bool,
        enough: Callable[[T], bool] = lambda _: False,
    ) -> list[T]:
        """Apply a function to each part of the table on the cluster, and return the results in order.

        Parameters
        ----------
        reads : iterable of Read
            What it reads.
        work : callable
            Given a part and what counts its rows, returns what can be pickled. It travels by cloudpickle.
        count : callable
            Told of rows as parts are done.
        portable : bool
            Whether the work gives the same bits on all processors.
        enough : callable
            Told of what each part gives, until it returns True: no more is fetched then.

        Returns
        -------
        list
            What it returned for each part, in order, as far as they were fetched.
        """
        travelling = _function_for_worker(_pickle_with_packages(work))
        outcomes: list[TaskOutcome[T] | None] = []

        def fetch_outcomes() -> None:
            for written in self.engine.run(self.columns_needed(reads), self.keep, travelling):
                outcome: TaskOutcome[T] | None = pickle.loads(written) if written else None  # noqa: S301 - our own
                outcomes.append(outcome)
                if outcome is None or outcome.failed:
                    break
                count(outcome.rows)
                if enough(outcome.value):
                    break

        redact_errors(fetch_outcomes)
        return [_checked_value(outcome, portable=portable) for outcome in outcomes]


def _checked_value(outcome: TaskOutcome[T] | None, *, portable: bool) -> T:
    """Return an outcome's value; raise a ReadError if the task failed, or if the worker has other versions."""
    if outcome is None:
        raise read_error(
            "A worker has no dfprivacy, or lacks a library that dfprivacy needs.",
            "Install the same version of dfprivacy on all workers: pip install dfprivacy.",
        )
    if outcome.by[0] != describe_environment()[0]:
        raise read_error(
            f"A worker has dfprivacy {outcome.by[0]}, and this process has {describe_environment()[0]}.",
            "Install the version of this process on all workers.",
        )
    for name, digest in outcome.code:
        if digest and digest != digest_of_package(name):  # without it, code has come along
            raise read_error(
                f"A worker has another version of {name!r} than this process.",
                "Install the version of this process on all workers.",
            )
    if outcome.failed:
        raise read_error(
            f"On a worker: {outcome.failed}",
            "The cluster's custodian can run the same computation on a worker to see the message.",
        )
    if not portable and outcome.by != describe_environment():
        raise read_error(
            "A worker's processor, NumPy or C library is not like this process's, so the last bits of exponentials "
            "and cosines may differ: the sum would depend on which worker reads which row.",
            "Use workers with the processor and libraries of this process; counts and moments run on any worker.",
        )
    return outcome.value


def frame_of_engine(engine: object) -> Frame:
    """Return the frame that reads an engine's table."""
    if not isinstance(engine, Engine):
        raise PluginError(
            f"The entry point returned {type(engine).__name__}, not an engine.",
            "Let the entry point return a dfprivacy.engines.Engine.",
        )
    return ClusterFrame(engine) if isinstance(engine, Cluster) else EngineFrame(engine)


def _function_for_worker(work: bytes) -> Callable[[Iterator[object]], bytes]:
    """Return a function that runs pickled work on a worker, and returns b"" if the worker lacks dfprivacy."""

    def run_on_tables(tables: Iterator[object]) -> bytes:
        try:
            from dfprivacy._table.frames.engine import run_on_worker
        except ImportError:
            return b""
        return run_on_worker(work, tables)

    return run_on_tables


def run_on_worker(work: bytes, tables: Iterator[object]) -> bytes:
    """Run a pickled function on a worker, and return the pickled `TaskOutcome`, without the text of an error."""
    rows = 0
    names, pickled = pickle.loads(work)  # noqa: S301 - the driver's
    code = tuple((name, digest_of_package(name)) for name in names)

    def count_rows(more: int) -> None:
        nonlocal rows
        rows += more

    def run_task() -> object:
        with np.errstate(all="ignore"):
            return pickle.loads(pickled)(TablePart(tables), count_rows)  # noqa: S301 - it comes from the driver

    try:
        return pickle.dumps(TaskOutcome(redact_errors(run_task), rows, describe_environment(), code=code))
    except ReadError as error:
        return pickle.dumps(TaskOutcome(None, rows, describe_environment(), str(error.what), code))


@cache
def describe_environment() -> tuple[str, ...]:
    """Return versions, processor and a digest of test values: the last bits of results depend on these."""
    module = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    features = importlib.import_module(f"{module}._multiarray_umath").__cpu_features__
    able = ",".join(sorted(name for name, has in features.items() if has))
    libc = "-".join(platform.libc_ver())
    return (
        version("dfprivacy"),
        np.__version__,
        platform.system(),
        platform.machine(),
        libc,
        able,
        _digest_of_last_bits(),
    )


def _digest_of_last_bits() -> str:
    """Return a digest of values of exp, log, sin and others, whose last bits may differ between builds.

    Where two libraries differ, they do so in some hundredths of all results; here are 8,188 of each function.
    """
    numbers = np.ldexp(np.arange(1, 2048) * 0.7390851332151607, -8)  # up to 6, no one like another in its last bits
    functions = (np.exp, np.expm1, np.log, np.log1p, np.sin, np.cos, np.tanh, np.cbrt)
    with np.errstate(all="ignore"):
        every = [f(sign * numbers.astype(kind)) for f in functions for kind in ("f4", "f8") for sign in (1, -1)]
    return hashlib.blake2b(b"".join(each.tobytes() for each in every), digest_size=16).hexdigest()


# ---- whether the code that work needs is the same where the rows are ----------------------------------------

# The first has its version compared; of the others, no more than pickled arrays and code needs.
_COMPARED_OTHERWISE = {"dfprivacy", "numpy", "cloudpickle"}


def _pickle_with_packages(work: object) -> bytes:
    """Pickle a function by cloudpickle, with the names of the packages that its code needs."""
    import cloudpickle

    names: set[str] = set()
    along = tuple(f"{name}." for name in cloudpickle.list_registry_pickle_by_value())  # these come with their code

    class ModuleRecorder(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
        """Pickler that records the modules of the objects it pickles."""

        def reducer_override(self, obj: Any) -> Any:
            if not f"{_defining_module(obj)}.".startswith(along):
                names.add(_defining_module(obj).partition(".")[0])
            return super().reducer_override(obj)

    file = io.BytesIO()
    ModuleRecorder(file).dump(work)
    own = {*sys.stdlib_module_names, *_COMPARED_OTHERWISE, "__main__", ""}
    return pickle.dumps((tuple(sorted(names - own)), file.getvalue()))


def _defining_module(thing: Any) -> str:
    """Return the name of the module that defines an object, or its class."""
    if isinstance(thing, ModuleType):
        return thing.__name__
    named = thing if isinstance(thing, type) or callable(thing) else type(thing)
    module = getattr(named, "__module__", None)
    return module if isinstance(module, str) else ""


@cache
def digest_of_package(package: str) -> str:
    """Return a digest of a package's source files, in a folder or a zip; empty if they cannot be read."""
    try:
        spec = find_spec(package)
        if spec is None:
            return ""
        if spec.submodule_search_locations is None:
            source: Any = getattr(spec.loader, "get_source", lambda _: None)(package)
            return "" if source is None else hashlib.blake2b(source.encode(), digest_size=16).hexdigest()
        digest = hashlib.blake2b(digest_size=16)
        for name, file in sorted(_source_files(resources.files(package), PurePath())):
            content = file.read_bytes()
            digest.update(f"{name} {len(content)} ".encode() + content)
        return digest.hexdigest()
    except Exception:  # noqa: BLE001 - whoever cannot read it can use it all the same
        return ""


def _source_files(folder: Traversable, path: PurePath) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _source_files(each, path / each.name)
        elif each.name.endswith(".py"):
            yield (path / each.name).as_posix(), each
