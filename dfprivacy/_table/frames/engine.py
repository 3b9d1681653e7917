"""Tables of engines that give their rows as other tables, in this process or where the rows are."""

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
    """A table of an engine as batches of raw columns.

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
        """Name the columns that are read: to count rows, some column."""
        return _names(reads) or list(self.columns[:1])

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns as lists."""
        parts = [_reader(table).lists(table, names) for table in self.engine.parts(list(names), self.keep)]
        return {name: [value for part in parts for value in part[name]] for name in names}

    def together(self, name: str) -> Sequence[EngineFrame]:
        """Divide the rows so that all rows of a person, whom a column names, are in one part."""
        return [type(self)(each, self.keep) for each in self.engine.together(name)]

    def keeping(self, keep: Iterable[Keep]) -> EngineFrame:
        """Leave out rows where the engine can, by conditions that fit the types of their columns."""
        if not self.engine.keeps:
            return self
        types: Any = self.engine.empty()
        fitting = (_fitting(each, types.schema.field(each.column).type) for each in keep)
        return type(self)(self.engine, tuple(each for each in fitting if each is not None))


def _fitting(keep: Keep, dtype: Any) -> Keep | None:
    """Return what a condition says of a column of this type, if anything."""
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
    """Some tables, one after the other, as batches of raw columns."""

    tables: Iterator[object]

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        from dfprivacy._table.frames.columns import raw  # which imports Arrow

        names = _names(reads)
        for table in self.tables:
            for rows, columns in _reader(table).batches(table, names, size):
                yield rows, {read: raw(columns[read.name], read) for read in reads}


def _reader(table: object) -> Any:
    """Find what knows a table: Arrow's, or one of pandas or Polars."""
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
    """A table whose rows are elsewhere: what can be done there is."""

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
        """Do some work where the rows are, part by part.

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
        travelling = _travelling(_packed(work))
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
    """Return the value of an outcome; `ReadError` if there is none that can be added to those of others."""
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
    """Take an engine into the house."""
    if not isinstance(engine, Engine):
        raise PluginError(
            f"A {type(engine).__name__} is no engine.", "Let the entry point return a dfprivacy.engines.Engine."
        )
    return ClusterFrame(engine) if isinstance(engine, Cluster) else EngineFrame(engine)


def _travelling(work: bytes) -> Callable[[Iterator[object]], bytes]:
    """Wrap work so that it is pickled with its code: a worker without the package can say so."""

    def run(tables: Iterator[object]) -> bytes:
        try:
            from dfprivacy._table.frames.engine import worked
        except ImportError:
            return b""
        return worked(work, tables)

    return run


def worked(work: bytes, tables: Iterator[object]) -> bytes:
    """Do the work on a worker; an error is named and not raised, for its text and arguments may quote the data."""
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
    """Describe what decides the last bits of an answer: package, NumPy, C library, processor and some bits."""
    module = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    features = importlib.import_module(f"{module}._multiarray_umath").__cpu_features__
    able = ",".join(sorted(name for name, has in features.items() if has))
    libc = "-".join(platform.libc_ver())
    return version("dfprivacy"), np.__version__, platform.system(), platform.machine(), libc, able, _last_bits()


def _last_bits() -> str:
    """Digest of what functions give for some numbers: builds of one version may be of other code.

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
    """Pickle work by cloudpickle, with the names of the packages whose code it needs: plugins, as a rule."""
    import cloudpickle

    names: set[str] = set()
    along = tuple(f"{name}." for name in cloudpickle.list_registry_pickle_by_value())  # these come with their code

    class Noting(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
        """Notes where what it pickles is defined."""

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
    """Digest of the source of a package or module, in a folder or a zip; empty where there is none."""
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
