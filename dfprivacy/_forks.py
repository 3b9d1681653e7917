"""Nothing of SQLite crosses a fork, and no lock of the house that is held.

SQLite writes down in the memory of its process which locks that process holds on a file, and how far the file's
log was read. A fork copies these notes, and not the locks: POSIX locks belong to the process that took them. A
child that finds its parent's connection in its memory skips locks that it does not have, and two processes write
one file at once; or it waits for a thread that was not copied.

So one thread at a time has a connection open, in its *turn*, and ``fork()`` takes a turn as well: it waits until
every connection is closed, and the child's copy of SQLite knows of no file. A fork cannot wait within a turn of its
own thread, for more than a minute, or where C code forks without telling Python. If a connection is open then,
the child's SQLite is *torn*: it is refused there for good, and what it inherits is never used, closed or
finalised. The parent is harmed in no case, for a process can give up no locks but its own.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sqlite3
import sys
import threading
import time
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Connection", "Lock", "TornError", "turn"]

IMPORT_SECONDS = 10.0  # two threads may wait for each other's imports
WAIT_SECONDS = 60.0  # a fork waits no longer than a transaction does; see LOCK_SECONDS of the ledger


class Lock:
    """A lock that no child inherits held by a thread that was not copied: a fork waits for it, a minute at most."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._wait, after_in_parent=self._go_on, after_in_child=self._begin)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _wait(self) -> None:
        self._lock.acquire(timeout=WAIT_SECONDS)

    def _go_on(self) -> None:
        with suppress(RuntimeError):  # the minute was over
            self._lock.release()

    def _begin(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            self._lock = threading.RLock()


class TornError(Exception):
    """A fork while a connection was open made this process: SQLite cannot be used in it."""


class _Process:
    """What is known of SQLite in one process."""

    def __init__(self, *, torn: bool = False) -> None:
        self.id = os.getpid()
        self.lock = threading.RLock()
        self.turns = 0
        self.open: set[Connection] = set()
        self.torn = torn


_here = _Process()


class Connection(sqlite3.Connection):
    """A connection that is known to be open until it is closed, and is dead in every other process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._process = _here
        self._process.open.add(self)
        try:
            super().__init__(*args, **kwargs)
        except BaseException:
            self._process.open.discard(self)
            raise

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        """Make a cursor; an error in a fork."""
        if self._elsewhere:
            raise sqlite3.ProgrammingError("the connection belongs to the process that this one was forked from")
        return super().cursor(*args, **kwargs)

    def commit(self) -> None:
        """Commit; an error in a fork."""
        if self._elsewhere:
            raise sqlite3.ProgrammingError("the transaction belongs to the process that this one was forked from")
        super().commit()

    def rollback(self) -> None:
        """Roll back; nothing in a fork."""
        if not self._elsewhere:
            super().rollback()

    def close(self) -> None:
        """Close; nothing in a fork."""
        if not self._elsewhere:
            super().close()
            self._process.open.discard(self)

    @property
    def _elsewhere(self) -> bool:
        return os.getpid() != self._process.id


@contextmanager
def turn() -> Iterator[None]:
    """Hold off other threads and forks while SQLite is used; `TornError` where it cannot be used any more."""
    if os.getpid() != _here.id:
        _in_child()  # C code has forked
    process = _here
    if process.torn:
        raise TornError
    with process.lock:
        process.turns += 1
        try:
            yield
        finally:
            process.turns -= 1


def _before() -> None:
    """Wait for a turn, and close what an interrupted thread may have left open."""
    if _here.lock.acquire(timeout=WAIT_SECONDS) and not _here.turns:
        for connection in list(_here.open):
            connection.close()


def _in_parent() -> None:
    with suppress(RuntimeError):  # it did not get its turn
        _here.lock.release()


def _in_child() -> None:
    global _here  # noqa: PLW0603 - the one state of this module
    for connection in _here.open:  # never to be finalised, not even when the interpreter ends
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    _here = _Process(torn=_here.torn or bool(_here.open))


def _unlock_properties() -> None:
    """Give each cached property of the house a new lock."""
    for module in [module for name, module in sys.modules.items() if name.startswith("dfprivacy")]:
        for each in [each for each in vars(module).values() if isinstance(each, type)]:
            for attribute in vars(each).values():
                if isinstance(attribute, cached_property):
                    attribute.lock = threading.RLock()  # type: ignore[attr-defined]


def _elsewhere() -> list[str]:
    """Name the modules that other threads are importing."""
    locks = getattr(
        getattr(importlib, "_bootstrap", None), "_module_locks", {}
    )  # of CPython; else a child may hang
    ours = {None, threading.get_ident()}
    return [name for name, lock in list(locks.items()) if getattr(lock(), "owner", None) not in ours]


def _finish_imports() -> None:
    """Wait for other threads' imports: in the child, a module that is half imported could never be imported."""
    end = time.monotonic() + IMPORT_SECONDS
    while _elsewhere() and time.monotonic() < end:
        time.sleep(0.001)


def _forget_imports() -> None:
    """In the child, begin anew what a thread began after all, while other libraries got ready for the fork."""
    for name in _elsewhere():
        del importlib._bootstrap._module_locks[name]  # type: ignore[attr-defined]  # noqa: SLF001 - see `_elsewhere`
        sys.modules.pop(name, None)


if hasattr(os, "register_at_fork"):
    # What is registered first is done last before a fork, and first after it.
    os.register_at_fork(before=_finish_imports, after_in_child=_forget_imports)
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
    if sys.version_info < (3, 12):  # later, cached properties have no lock
        os.register_at_fork(after_in_child=_unlock_properties)
