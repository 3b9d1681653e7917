"""What a call leaves behind: files, processes, connections, variables, sources of chance, state of modules."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.testing.insides import insides, package

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dfprivacy.mechanism import Mechanism

__all__ = ["Traces", "everywhere", "kept_chance", "random_state", "seed", "state", "watching"]

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_SEEN = (
    "os.mkdir", "os.remove", "os.rename", "os.link", "os.symlink", "os.truncate", "os.utime", "os.chmod",
    "os.chdir", "os.setxattr", "os.putenv", "os.unsetenv", "os.system", "os.exec", "os.posix_spawn", "os.spawn",
    "os.fork", "subprocess.Popen", "sqlite3.connect", "socket.connect", "socket.bind", "socket.sendto",
    "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname", "shutil.", "webbrowser.open",
)  # fmt: skip
# What Python compiles, and what other plugins do with a release.
_PARDONED = {("_frozen_importlib_external", "_write_atomic"), ("dfprivacy._plugins.loader", "announce")}
_listeners: list[list[str]] = []


@dataclass
class Traces:
    """What was seen while somebody watched.

    Attributes
    ----------
    events : list of str
        Files written, processes started, connections made.
    printed : bytes
        What was written to the process's own output, past `sys.stdout` and `sys.stderr`.
    """

    events: list[str] = field(default_factory=list)
    printed: bytes = b""


def _hear(event: str, args: tuple[Any, ...]) -> None:
    """Listen to Python's audit events; such a hook can never be removed."""
    if not _listeners:
        return
    if event == "open":
        path, mode, flags = args
        letters = set(mode) if isinstance(mode, str) else set()
        writes = bool(letters & set("wax+")) if letters else bool((flags or 0) & _WRITES)
        if not writes or isinstance(path, int) or path == os.devnull:
            return
    elif not event.startswith(_SEEN) or (event == "sqlite3.connect" and args[0] == ":memory:"):
        return
    frame: Any = sys._getframe(1)  # noqa: SLF001 - who does it is the question
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) in _PARDONED:
            return
        frame = frame.f_back
    for heard in _listeners:
        heard.append(f"{event} {args[0]!r}" if args else event)


@contextmanager
def watching() -> Iterator[Traces]:
    """Watch what is done to the world."""
    if not _hooked:
        sys.addaudithook(_hear)
        _hooked.append(True)
    traces = Traces()
    with tempfile.TemporaryFile() as output:
        sys.stdout.flush(), sys.stderr.flush()
        kept = [os.dup(descriptor) for descriptor in (1, 2)]
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
        _listeners.append(traces.events)
        try:
            yield traces
        finally:
            _listeners.remove(traces.events)
            for descriptor, before in zip((1, 2), kept, strict=True):
                os.dup2(before, descriptor)
                os.close(before)
            output.seek(0)
            traces.printed = output.read()


_hooked: list[bool] = []


def seed(number: int) -> None:
    """Seed the generators that everybody shares."""
    random.seed(number)
    np.random.seed(number)  # noqa: NPY002


@contextmanager
def kept_chance() -> Iterator[None]:
    """Put the generators that everybody shares back to where they were."""
    before, numpy_before = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numpy_before)  # noqa: NPY002


def random_state() -> tuple[object, object]:
    """Give the state of the generators that everybody shares: Python's and NumPy's."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    return random.getstate(), (name, np.asarray(keys).tobytes(), *rest)


def state(mechanism: Mechanism) -> dict[str, str]:
    """Write down the state of a mechanism: of its functions, and of all modules of their packages."""
    parts = (mechanism.planner, mechanism.preparer, mechanism.conclusion, mechanism.check)
    own = () if mechanism.own is None else (mechanism.own.function,)
    functions = [mechanism.function, *own, *parts]
    of = frozenset(package(function) for function in functions if function is not None) - {"dfprivacy"}
    modules = [vars(m) for name, m in sorted(sys.modules.items()) if name.partition(".")[0] in of - {"__main__"}]
    roots = [{k: v for k, v in module.items() if not k.startswith("__")} for module in modules]
    return insides([functions, roots], "state", own=of)


def everywhere(mechanism: Mechanism) -> dict[tuple[str, str], object]:
    """Write down the numbers and texts in all other modules, the classes of dfprivacy, and the environment."""
    own = package(mechanism.function)
    values: dict[tuple[str, str], object] = {("os.environ", name): value for name, value in os.environ.items()}
    values["os", "getcwd()"] = os.getcwd()  # noqa: PTH109 - a text
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == own or name.startswith("dfprivacy.testing") or module is None:
            continue
        spaces: list[tuple[str, Mapping[str, Any]]] = [(name, vars(module))]
        if name.startswith("dfprivacy"):
            spaces += [(f"{name}.{v.__qualname__}", vars(v)) for v in vars(module).values() if type(v) is type]
        for place, names in spaces:
            for key, value in list(names.items()):
                if type(value) in _TELL:
                    values[place, key] = value if type(value) in _EXACT else np.asarray(value).tobytes()
    return values


_EXACT = {int, bool, str, bytes}
_TELL = {*_EXACT, np.ndarray, np.float64, np.int64, float}
