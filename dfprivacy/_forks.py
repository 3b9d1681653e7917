"""Locks and SQLite connections across forks: no fork copies a held lock or an open connection.

SQLite writes down in the memory of its process which locks that process holds on a file. A fork copies these
notes, and not the locks, so a child that finds its parent's open connection in its memory would skip locks that it
does not have. So one thread at a time has a connection open, in its *turn*, and ``fork()`` waits for the end of it.
C code that forks without telling Python cannot wait: where it forked within a turn, the child is refused the
ledger.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ForkedConnectionError", "Lock", "process_lock"]

_IMPORT_SECONDS = 10.0  # two threads may wait for each other's imports


class Lock:
    """A lock that forks wait for, so that no child process inherits it in a locked state."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.__enter__, after_in_parent=self.__exit__, after_in_child=self.__exit__)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class ForkedConnectionError(Exception):
    """Raised in a child process that C code forked while SQLite was in use, as it cannot use SQLite safely."""


class _ProcessState:
    """Use of SQLite in one process: its lock, the number of open connections, and whether a fork was unsafe."""

    def __init__(self, *, forked_in_use: bool = False) -> None:
        self.id, self.lock, self.n_open, self.forked_in_use = os.getpid(), Lock(), 0, forked_in_use


_process = _ProcessState()


@contextmanager
def process_lock() -> Iterator[None]:
    """Block other threads and forks while SQLite is used; raise `ForkedConnectionError` after an unsafe fork."""
    global _process  # noqa: PLW0603 - the one state of this module
    if os.getpid() != _process.id:
        _process = _ProcessState(forked_in_use=_process.forked_in_use or _process.n_open > 0)
    process = _process
    if process.forked_in_use:
        raise ForkedConnectionError
    with process.lock:
        process.n_open += 1
        try:
            yield
        finally:
            if os.getpid() == process.id:  # else this is a copy, in which the lock is never released
                process.n_open -= 1


def _unlock_properties() -> None:
    """Replace the locks of the package's cached properties, as a fork may have copied them while they were held."""
    for module in [module for name, module in sys.modules.items() if name.startswith("dfprivacy")]:
        for each in [each for each in vars(module).values() if isinstance(each, type)]:
            for attribute in vars(each).values():
                if isinstance(attribute, cached_property):
                    attribute.lock = threading.RLock()  # type: ignore[attr-defined]


def _other_threads_import() -> bool:
    """Return whether other threads are importing modules."""
    locks = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})  # of CPython
    ours = {None, threading.get_ident()}
    return any(getattr(lock(), "owner", None) not in ours for lock in list(locks.values()))


def _finish_imports() -> None:
    """Wait for imports in other threads: a module that is half imported at a fork stays locked in the child."""
    end = time.monotonic() + _IMPORT_SECONDS
    while _other_threads_import() and time.monotonic() < end:
        time.sleep(0.001)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish_imports)
if hasattr(os, "register_at_fork") and sys.version_info < (3, 12):  # later, cached properties have no lock
    os.register_at_fork(after_in_child=_unlock_properties)
