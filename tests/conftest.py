"""What many tests share: a throwaway ledger, and the frames of every library."""

from __future__ import annotations

import functools
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections import defaultdict
from contextlib import ExitStack, closing, contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import make_url

from dfprivacy._ledger.address import MEMORY
from dfprivacy._ledger.ledger import Ledger
from dfprivacy._ledger.tables import tables
from dfprivacy._table.batch import Batch, category, number
from dfprivacy._table.conditions import batches
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt, polars
from dfprivacy.statistics import OfPermutations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dfprivacy import Column


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among modules and tests, which live as long as the suite: that takes long."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the cases of a test with the mark `one_in(n)` keep each n-th, always the same ones, chosen by their names.

    With `DFPRIVACY_TEST_ALL` all are kept.
    """
    if "DFPRIVACY_TEST_ALL" in os.environ:
        return
    cases = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("one_in"):
            cases[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    left_out = {
        item
        for (_, n), those in cases.items()
        for item in sorted(those, key=lambda item: zlib.crc32(item.name.encode()))[-(-len(those) // n) :]
    }
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def server_binaries() -> Path | None:
    """The folder of initdb and pg_ctl, or None."""
    on_path = shutil.which("pg_ctl")
    folders = [Path(on_path).parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def unprivileged() -> dict[str, Any] | None:
    """Arguments of subprocess.run that leave root, as which PostgreSQL refuses to run."""
    import pwd  # which Windows has not

    if os.geteuid() != 0:
        return {}
    names = {user.pw_name: user for user in pwd.getpwall()}
    user = names.get("postgres") or names.get("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else None


@pytest.fixture(scope="session")
def new_database() -> Iterator[Callable[[], str]]:
    """Start a throwaway PostgreSQL server; gives a function that makes a database and returns its URL.

    Its `restart` crashes the server, and starts it again.
    """
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    binaries, user = server_binaries(), unprivileged()
    if binaries is None or user is None:
        pytest.skip("no PostgreSQL server here that can be started")
    folder = Path(tempfile.mkdtemp(prefix="dfprivacy-pg-"))  # short: the path of a socket has 107 bytes
    if user:
        os.chown(folder, user["user"], user["group"])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    run = functools.partial(subprocess.run, check=True, cwd=folder, **quiet, **user)
    pg_ctl = [binaries / "pg_ctl", "-D", folder / "data"]
    try:
        try:
            how = "-U analyst -A trust -E UTF8 --no-sync --locale=C"
            run([binaries / "initdb", "-D", folder / "data", *how.split()])
            options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
            start = [*pg_ctl, "-w", "-l", folder / "log", "-o", options]
            run([*start, "start"])
        except (subprocess.CalledProcessError, OSError) as error:
            pytest.skip(f"PostgreSQL does not start: {error}")

        def create() -> str:
            create.made += 1
            name = f"ledger{create.made}"
            with psycopg.connect(host=str(folder), user="analyst", dbname="postgres", autocommit=True) as server:
                server.execute(f"CREATE DATABASE {name}")
            return f"postgresql://analyst@/{name}?host={folder}"

        create.made = 0
        create.restart = functools.partial(run, [*start, "-m", "immediate", "restart"])
        yield create
        run([*pg_ctl, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def _throwaway_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger of the test's own, in memory, where nobody says otherwise: a file takes twice the time.

    It is the worker's one, emptied: a new one would have all its statements compiled anew, which takes longer
    than most tests.
    """
    monkeypatch.setenv("DFPRIVACY_LEDGER", "memory:")
    monkeypatch.setattr("dfprivacy._ledger.ledger._in_memory", {MEMORY: _emptied()})


def _emptied() -> Ledger:
    """Take all rows out of the worker's ledger, but that of its version; make another if a test closed it."""
    ledger = _of_worker()
    if ledger._engine is None:
        _of_worker.cache_clear()
        return _of_worker()
    with closing(ledger._engine.raw_connection()) as connection:
        for name in reversed(tables()._fields[2:]):  # what refers to others first
            connection.execute(f"DELETE FROM {name}")  # noqa: S608 - our own names
        connection.commit()
    return ledger


@functools.cache
def _of_worker() -> Ledger:
    return Ledger(make_url("sqlite://"), MEMORY)


@pytest.fixture
def ledger(_throwaway_ledger: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is the test's ledger, where nobody says otherwise."""
    path = tmp_path / "throwaway.sqlite"
    monkeypatch.setenv("DFPRIVACY_LEDGER", str(path))
    return path


class Parquet:
    """Make a Polars LazyFrame that scans a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, data: Any) -> pl.LazyFrame:
        path = self.folder / f"{len(list(self.folder.glob('*.parquet')))}.parquet"
        pl.DataFrame(data).write_parquet(path)
        return pl.scan_parquet(path)


_CONSTRUCTORS: dict[str, Callable[[Any], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars-lazy": pl.LazyFrame,
    "arrow": pa.table,
}


@pytest.fixture(params=[*_CONSTRUCTORS, "polars-parquet"])
def constructor(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Any], Any]:
    """What makes a frame of a dictionary of lists or arrays; the test runs once for each library."""
    return _CONSTRUCTORS.get(request.param) or Parquet(tmp_path)


# A process that has imported some modules forks one for each script.
_FORKS = """
import gc, importlib, json, os, signal, sys, traceback, types, warnings

for module in sys.argv[1:]:
    importlib.import_module(module)
gc.freeze()  # or a child's first look for garbage would copy all of the memory
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    try:
        signal.alarm(600)  # what waits for good is ended
        for number, (name, flags) in enumerate(zip(asked["streams"], (os.O_RDONLY, os.O_RDWR, os.O_RDWR))):
            os.dup2(os.open(name, flags | os.O_NOCTTY), number)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", closefd=False) for number, mode in enumerate("rww")
        )
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        sys.argv = ["-c", *asked["arguments"]]
        if asked["strict"]:  # but from Python 3.12 on, a fork of a process with threads is warned of
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", DeprecationWarning)
        code = 0
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(asked["script"], vars(main))
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        code = 1
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
"""

# It forks one process for each list of arguments, and lets all of them begin at one moment.
_TOGETHER = """
import json, os, sys

script, *several = sys.argv[1:]
ready, start = os.pipe(), os.pipe()
for arguments in several:
    if os.fork() == 0:
        sys.argv = ["-c", *json.loads(arguments)]
        os.write(ready[1], b"!")
        os.read(start[0], 1)
        exec(script)
        sys.exit()
for _ in several:
    os.read(ready[0], 1)
os.write(start[1], b"!" * len(several))
assert [os.wait()[1] for _ in several] == [0] * len(several)
"""


class Forks:
    """Runs scripts in processes of their own, all of which begin with the same modules imported.

    To import what dfprivacy needs takes longer than most scripts.
    """

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self.server, self.folder = server, folder

    def __call__(
        self,
        script: str,
        *arguments: str,
        environment: Mapping[str, str] = os.environ,
        given: bytes = b"",
        terminal: int | None = None,
        strict: bool = False,
        status: int = 0,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a script with arguments and what it reads; its standard error can be a terminal.

        With `strict` warnings are errors; `status` is how it has to end, less than zero for a signal.
        """
        streams = [self.folder / name for name in ("in", "out", "err")]
        for stream, written in zip(streams, (given, b"", b""), strict=True):
            stream.write_bytes(written)
        names = [*map(str, streams)] if terminal is None else [*map(str, streams[:2]), os.ttyname(terminal)]
        asked = {"script": script, "arguments": arguments, "environment": dict(environment), "streams": names}
        asked["strict"] = strict
        assert self.server.stdin
        assert self.server.stdout
        print(json.dumps(asked), file=self.server.stdin, flush=True)
        code = int(self.server.stdout.readline())
        out, err = (stream.read_bytes() for stream in streams[1:])
        assert code == status, err.decode()
        return subprocess.CompletedProcess(script, code, out, err)

    def run_together(self, script: str, *several: Sequence[str]) -> list[str]:
        """Run a script at one moment in several processes, each with its arguments; the lines that they print."""
        return self(_TOGETHER, script, *map(json.dumps, several), strict=True).stdout.decode().splitlines()


@pytest.fixture(scope="session")
def needed() -> list[str]:
    """What a question imports where it is needed, and the bundled plugins, none of which is loaded by that."""
    lazily = ["cloudpickle", "opendp.measurements", "opendp.mod", "sqlalchemy.dialects.sqlite"]
    bundled = metadata.distribution("dfprivacy").entry_points.select(group="dfprivacy")
    return [*lazily, "dfprivacy._call.question", *(plugin.module for plugin in bundled)]


@pytest.fixture(scope="module")
def forking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Forks]]:
    """What starts the process that imports modules of these names, and forks one for each script."""
    with ExitStack() as started:

        def start(*modules: str) -> Forks:
            return started.enter_context(_forks(modules, tmp_path_factory.mktemp("forks")))

        yield start


@contextmanager
def _forks(modules: Sequence[str], folder: Path) -> Iterator[Forks]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORKS, *modules]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        assert server.stdout.readline() == "ready\n"
        yield Forks(server, folder)


@pytest.fixture(scope="session")
def forked(needed: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """What runs a script in a fork of one process, which has imported what questions need and opened no ledger."""
    ledger = ["dfprivacy._ledger.ledger", "dfprivacy._ledger.accounts"]
    with _forks(["pandas", "polars", *ledger, *needed], tmp_path_factory.mktemp("forked")) as forks:
        yield forks


@pytest.fixture(scope="session")
def environment() -> Callable[..., Path]:
    """What makes an environment of its own in a folder, installs into it from the network, and gives its Python.

    uv does so in a tenth of pip's time. `subprocess.CalledProcessError` says what it could not install.
    """
    from uv import find_uv_bin

    def make(home: Path, *requirements: str) -> Path:
        python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        for command in (
            ["venv", "--quiet", "--python", sys.executable, home],
            ["pip", "install", "--quiet", "--python", python, *requirements],
        ):
            subprocess.run([find_uv_bin(), *command], capture_output=True, text=True, check=True)
        return python

    return make


@pytest.fixture
def schema_of() -> Callable[..., Any]:
    """`read_schema` of a frame, with nothing said unless it is."""

    def read(frame: Any, **said: Any) -> Any:
        nothing: dict[str, Any] = {"bounds": None, "categories": None, "public": (), "missing": None}
        return read_schema(adapt(frame), **{**nothing, "neighbors": "replace_one", **said})

    return read


@pytest.fixture
def numbers_of(schema_of: Callable[..., Any]) -> Callable[..., list[float]]:
    """The cleaned numbers of the column ``x`` of a frame, in the order of its rows."""

    def read(frame: Any, bounds: Any = (0, 10), missing: Any = None) -> list[float]:
        said = None if missing is None else {"x": missing}
        column = schema_of(frame, bounds={"x": bounds}, missing=said).numeric("x")
        found = [batch.values(column) for batch, _ in batches(adapt(frame), [number(column)], ())]
        return np.concatenate(found).tolist()

    return read


@pytest.fixture
def categories_of(schema_of: Callable[..., Any]) -> Callable[..., list[Any]]:
    """The categories of the column ``x`` of a frame, in the order of its rows, None for none of them."""

    def read(frame: Any, categories: Any, missing: Any = None) -> list[Any]:
        said = None if missing is None else {"x": missing}
        column = schema_of(frame, categories={"x": categories}, missing=said).categorical("x")
        found = [batch.codes(column) for batch, _ in batches(adapt(frame), [category(column)], ())]
        return [[*column.categories, None][code] for code in np.concatenate(found)]

    return read


LONGER = int(os.environ.get("DFPRIVACY_TEST_SEARCH", "1"))  # as `tox -e stress` searches

# The suite tries the same examples each time, however busy the machine is; `tox -e stress` tries others.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=LONGER == 1,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")
polars.PROBE_SECONDS = 600.0


class Search:
    """A seeded climb to the pair of neighbouring tables between which something moves most.

    A table is an array of numbers within bounds and codes of categories, "none of them" included, a column each; on
    the other table its last row stands in place of its first, but for public columns.
    """

    def __init__(
        self, columns: Sequence[Column], seed: int, kept: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        self.columns, self.kept = columns, kept or {}
        self.public = frozenset(column.name for column in columns if column.public)
        self.rng = np.random.default_rng(seed)

    def drawn(self, column: Column) -> float:
        """Draw a value of a column, mostly one at an end."""
        if column.bounds is None:
            return float(self.rng.integers(len(column.categories) + (not column.other)))
        anywhere = column.low + column.half * 2 * self.rng.random()
        return float(self.rng.choice([column.low, column.high, column.low, column.high, column.fill, anywhere]))

    def batch(self, table: np.ndarray) -> Batch:
        """Make of a table what statistics and features read."""
        batch = Batch(len(table), {})
        for column, values in zip(self.columns, table.T, strict=True):
            if column.bounds is None:
                batch._encoded[column] = values.astype(np.intp)
            else:
                batch._cleaned[column] = np.clip(values, *column.bounds)
        return batch

    def pair(self, rows: np.ndarray) -> tuple[Batch, Batch]:
        """Make the two neighbouring tables."""
        last = [0 if column.public else len(rows) - 1 for column in self.columns]
        other = rows[:-1].copy()
        other[0] = [rows[row, at] for at, row in enumerate(last)]
        return self.batch(rows[:-1]), self.batch(other)

    def change(self, rows: int, free: Sequence[int]) -> Callable[[np.ndarray], None]:
        """Draw a change of a table of so many rows."""
        to, like = self.rng.integers(rows, size=2)
        if self.rng.random() < 0.3:  # a row becomes like another

            def changed(table: np.ndarray) -> None:
                table[to, free] = table[like, free]

            return changed
        at = self.rng.choice(free)
        value = self.drawn(self.columns[at])
        return lambda table: table.__setitem__((to, at), value)

    def climb(self, moved: Callable[[np.ndarray], np.ndarray], n: int, tries: int, steps: int) -> float:
        """Change one value at a time as long as it moves no less, several times from the start, side by side.

        How far something moves is asked of all tries at once: of tables of shape (tries, n + 1, columns).
        """
        free = [at for at, column in enumerate(self.columns) if column.name not in self.kept]
        starts, changes = [], []
        for turn in range(tries):
            rows = np.array([[self.drawn(column) for column in self.columns] for _ in range(n + 1)])
            for at, column in enumerate(self.columns):
                if column.name in self.kept:
                    rows[:-1, at] = kept = self.rng.permutation(self.kept[column.name])
                    values = np.unique(kept)
                    first = int(np.argmax(kept == values[turn % len(values)]))  # small groups as often as large
                    rows[[0, first], at] = rows[[first, 0], at]
            starts.append(rows)
            changes.append([self.change(n + 1, free) for _ in range(steps * LONGER)])
        tables = np.array(starts)
        best = moved(tables)
        for each in zip(*changes, strict=True):
            changed = tables.copy()
            for table, change in zip(changed, each, strict=True):
                change(table)
            found = moved(changed)
            better = found >= best
            tables[better], best[better] = changed[better], found[better]
        return max(0.0, float(best.max()))

    def statistic(self, asked: Any, norm: float, n: int, tries: int = 4, steps: int = 150) -> float:
        """How far a statistic was moved by one row, its arithmetic's error aside, as a part of what it claims."""
        claim = asked.sensitivity("replace_one", norm, self.public)
        error = 2 * asked.error * asked.dimension ** (0 if norm == np.inf else 1 / norm)

        def value(batch: Batch) -> np.ndarray:
            if hasattr(asked, "features"):
                sums = asked.features.rows(batch).sum(axis=0).reshape(asked.features.shape)
                return np.ravel(asked.value(sums))
            rng = [np.random.default_rng(0)] if isinstance(asked, OfPermutations) else []
            return np.ravel(asked.value(batch, *rng))

        def moved(tables: np.ndarray) -> np.ndarray:
            pairs = (self.pair(table) for table in tables)
            apart = [np.linalg.norm(value(one) - value(other), ord=norm) for one, other in pairs]
            return (np.array(apart) - error) / claim

        return self.climb(moved, n, tries, steps)

    def features(self, asked: Any, norm: int, tries: int = 6, steps: int = 200) -> float:
        """How far apart the vectors of two rows were found, as a part of what features claim."""
        claim = asked.sensitivity("replace_one", norm, self.public)

        agreed = [at for at, column in enumerate(self.columns) if column.public]

        def moved(tables: np.ndarray) -> np.ndarray:
            one, other = tables[:, 0], tables[:, 1].copy()
            other[:, agreed] = one[:, agreed]
            vectors = asked.rows(self.batch(np.concatenate([one, other]))).reshape(2, len(tables), -1)
            return np.linalg.norm(vectors[0] - vectors[1], ord=norm, axis=1) / claim

        return self.climb(moved, 1, tries, steps)


@pytest.fixture
def search() -> type[Search]:
    """The search for neighbouring tables that refute a claimed sensitivity."""
    return Search


@pytest.fixture
def plt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Matplotlib without a screen."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield pyplot
    pyplot.close("all")
