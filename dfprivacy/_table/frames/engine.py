"""Frames of engines, which read their rows as tables in this process or on a cluster."""

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
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from dfprivacy._table.frames import Frame, Raw, Read, redact_errors, unread
from dfprivacy.engines import Cluster, Engine, Keep
from dfprivacy.errors import PluginError, ReadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from importlib.resources.abc import Traversable

T = TypeVar("T")


class EngineFrame(Frame):
    """Frame of an engine's table, as batches of raw columns.

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
        return tuple(_reader(empty).names(empty))

    def names_people(self, name: str) -> bool:
        """Return whether the type of a column can name people."""
        from dfprivacy._table.frames.columns import names_people  # which imports Arrow

        empty = self.engine.empty()
        return names_people(_reader(empty).column(empty, name))

    def rows(self) -> int:
        """Count the rows."""
        return int(self.engine.rows())

    def ready(self) -> None:
        """Raise a `ReadError` if no rows can be read in this process."""
        self.engine.ready()

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        return Part(self.engine.parts(self.needed(reads), self.keep)).batches(reads, size)

    def needed(self, reads: Iterable[Read]) -> list[str]:
        """Return the names of the columns to read; any one column to count rows."""
        return _names(reads) or list(self.columns[:1])

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns as lists."""
        parts = [_reader(table).lists(table, names) for table in self.engine.parts(list(names), self.keep)]
        return {name: [value for part in parts for value in part[name]] for name in names}

    def together(self, name: str) -> Sequence[EngineFrame]:
        """Divide the rows so that all rows of a person, whom a column names, are in one part."""
        return [type(self)(each, self.keep) for each in self.engine.together(name)]

    def keeping(self, keep: Iterable[Keep]) -> EngineFrame:
        """Return the frame with conditions by which the engine may read fewer rows, if they fit the types."""
        if not self.engine.keeps:
            return self
        types: Any = self.engine.empty()
        fitting = (_applicable(each, types.schema.field(each.column).type) for each in keep)
        return type(self)(self.engine, tuple(each for each in fitting if each is not None))


def _applicable(keep: Keep, dtype: Any) -> Keep | None:
    """Return a condition as it applies to a column of this type; None if it does not."""
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


def _names(reads: Iterable[Read]) -> list[str]:
    return [*dict.fromkeys(read.name for read in reads)]


@dataclass(frozen=True)
class Part:
    """A sequence of tables as batches of raw columns."""

    tables: Iterator[object]

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        from dfprivacy._table.frames.columns import raw  # which imports Arrow

        names = _names(reads)
        for table in self.tables:
            for rows, columns in _reader(table).batches(table, names, size):
                yield rows, {read: raw(columns[read.name], read) for read in reads}


def _reader(table: object) -> Any:
    """Return the module that reads a table: that for Arrow, pandas or Polars."""
    library = "arrow"
    for kind in type(table).__mro__:
        if (found := kind.__module__.partition(".")[0]) in {"pandas", "polars"}:
            library = found
    return importlib.import_module(f"{__package__}.{library}")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """The outcome of one part: a value or the type of an error, the rows read, and the reader.

    With digests of the code of packages other than this one.
    """

    value: T
    rows: int
    by: tuple[str, ...]
    failed: str = ""
    code: tuple[tuple[str, str], ...] = ()


class ClusterFrame(EngineFrame):
    """Frame of a table on a cluster, where tasks run."""

    engine: Cluster
    elsewhere = True

    def fold(
        self,
        reads: Iterable[Read],
        work: Callable[[Part, Callable[[int], None]], T],
        count: Callable[[int], None],
        *,
        portable: bool,
        enough: Callable[[T], bool] = lambda _: False,
    ) -> list[T]:
        """Apply a function on the cluster, part by part.

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
        travelling = _picklable(_packed(work))
        outcomes: list[Outcome[T] | None] = []

        def bring() -> None:
            for written in self.engine.run(self.needed(reads), self.keep, travelling):
                outcome: Outcome[T] | None = pickle.loads(written) if written else None  # noqa: S301 - our own
                outcomes.append(outcome)
                if outcome is None or outcome.failed:
                    break
                count(outcome.rows)
                if enough(outcome.value):
                    break

        redact_errors(bring)
        return [_checked(outcome, portable=portable) for outcome in outcomes]


def _checked(outcome: Outcome[T] | None, *, portable: bool) -> T:
    """Return the value of an outcome; raise a ReadError if it failed, or cannot be added to others."""
    if outcome is None:
        raise unread(
            "A worker has no dfprivacy, or lacks what it needs.",
            "Install the same version of dfprivacy on all workers: pip install dfprivacy.",
        )
    if outcome.by[0] != here()[0]:
        raise unread(
            f"A worker has dfprivacy {outcome.by[0]}, and this process {here()[0]}.",
            "Install the same version on all workers.",
        )
    for name, digest in outcome.code:
        if digest and digest != code_of(name):  # without it, code has come along
            raise unread(
                f"A worker has other code of {name!r} than this process.",
                "Install the same version on all workers.",
            )
    if outcome.failed:
        raise unread(f"On a worker: {outcome.failed}", "The cluster's custodian can read a part there.")
    if not portable and outcome.by != here():
        raise unread(
            "A worker's processor, NumPy or C library is not like this process's, and may give exponentials and "
            "cosines another last bit: the sum would depend on who reads which row.",
            "Use workers of one kind, like the driver's; counts, moments and their products need no such.",
        )
    return outcome.value


def framed(engine: object) -> Frame:
    """Return the frame of an engine."""
    if not isinstance(engine, Engine):
        raise PluginError(
            f"A {type(engine).__name__} is no engine.", "Let the entry point return a dfprivacy.engines.Engine."
        )
    return ClusterFrame(engine) if isinstance(engine, Cluster) else EngineFrame(engine)


def _picklable(work: bytes) -> Callable[[Iterator[object]], bytes]:
    """Wrap a function so that it is pickled with its code, and a worker without the package can report that."""

    def run(tables: Iterator[object]) -> bytes:
        try:
            from dfprivacy._table.frames.engine import worked
        except ImportError:
            return b""
        return worked(work, tables)

    return run


def worked(work: bytes, tables: Iterator[object]) -> bytes:
    """Run a function on a worker; return an error's type, as its text may quote the data."""
    rows = 0
    names, pickled = pickle.loads(work)  # noqa: S301 - the driver's
    code = tuple((name, code_of(name)) for name in names)

    def count(more: int) -> None:
        nonlocal rows
        rows += more

    def value() -> object:
        with np.errstate(all="ignore"):
            return pickle.loads(pickled)(Part(tables), count)  # noqa: S301 - it comes from the driver

    try:
        return pickle.dumps(Outcome(redact_errors(value), rows, here(), code=code))
    except ReadError as error:
        return pickle.dumps(Outcome(None, rows, here(), str(error.what), code))


@cache
def here() -> tuple[str, ...]:
    """Describe the environment that decides an answer's last bits: versions, processor and test values."""
    module = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    features = importlib.import_module(f"{module}._multiarray_umath").__cpu_features__
    able = ",".join(sorted(name for name, has in features.items() if has))
    libc = "-".join(platform.libc_ver())
    return version("dfprivacy"), np.__version__, platform.system(), platform.machine(), libc, able, _last_bits()


def _last_bits() -> str:
    """Return a digest of function values, as builds of one version may differ.

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


def _packed(work: object) -> bytes:
    """Pickle a function by cloudpickle, with the names of the packages that its code needs."""
    import cloudpickle

    names: set[str] = set()
    along = tuple(f"{name}." for name in cloudpickle.list_registry_pickle_by_value())  # these come with their code

    class Noting(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
        """Pickler that records the modules of the objects it pickles."""

        def reducer_override(self, obj: Any) -> Any:
            if not f"{_defined(obj)}.".startswith(along):
                names.add(_defined(obj).partition(".")[0])
            return super().reducer_override(obj)

    file = io.BytesIO()
    Noting(file).dump(work)
    own = {*sys.stdlib_module_names, *_COMPARED_OTHERWISE, "__main__", ""}
    return pickle.dumps((tuple(sorted(names - own)), file.getvalue()))


def _defined(thing: Any) -> str:
    """Return the name of the module that defines an object, or its class."""
    if isinstance(thing, ModuleType):
        return thing.__name__
    named = thing if isinstance(thing, type) or callable(thing) else type(thing)
    module = getattr(named, "__module__", None)
    return module if isinstance(module, str) else ""


@cache
def code_of(package: str) -> str:
    """Return a digest of a package's source, in a folder or a zip; empty if there is none."""
    try:
        spec = find_spec(package)
        if spec is None:
            return ""
        if spec.submodule_search_locations is None:
            source: Any = getattr(spec.loader, "get_source", lambda _: None)(package)
            return "" if source is None else hashlib.blake2b(source.encode(), digest_size=16).hexdigest()
        digest = hashlib.blake2b(digest_size=16)
        for name, file in sorted(_sources(resources.files(package), PurePath())):
            content = file.read_bytes()
            digest.update(f"{name} {len(content)} ".encode() + content)
        return digest.hexdigest()
    except Exception:  # noqa: BLE001 - whoever cannot read it can use it all the same
        return ""


def _sources(folder: Traversable, path: PurePath) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _sources(each, path / each.name)
        elif each.name.endswith(".py"):
            yield (path / each.name).as_posix(), each
