"""Progress bars for work that takes longer than two seconds.

A bar of tqdm's takes a lock that all processes share, shown or not: a worker killed while it holds the lock would
stop all others, each after it has paid. So a bar is made only where it can be seen, with a lock of this process.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import warnings
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["progress", "waiting"]

DELAY_SECONDS = 2.0
_TICK_SECONDS = 0.5


class ProgressBar(Protocol):
    """Interface of a progress bar."""

    def update(self, n: float = 1) -> object:
        """Add `n` to the number of rows or steps that are done."""


class _HiddenBar:
    """Progress bar that is not displayed."""

    def update(self, n: float = 1) -> None:
        """Do nothing."""


@functools.cache
def _bar_class() -> Any:
    """Return a class of progress bars that share no state with the user's own bars, or with other processes.

    In a notebook the bar is a widget; without installed widgets it is text.
    """
    from tqdm.std import tqdm

    kind: Any = tqdm
    if "ipykernel" in sys.modules:
        with suppress(ImportError), warnings.catch_warnings(action="ignore"):
            from tqdm import notebook

            kind = tqdm if getattr(notebook, "IProgress", None) is None else notebook.tqdm_notebook

    class IndependentBar(kind):  # type: ignore[misc]
        monitor_interval = 0  # no thread that redraws
        _instances: ClassVar[WeakSet[Any]] = WeakSet()
        _lock = threading.RLock()

    if hasattr(os, "register_at_fork"):  # another thread may hold it at that moment
        os.register_at_fork(after_in_child=lambda: IndependentBar.set_lock(threading.RLock()))
    return IndependentBar


def progress(
    total: int | None, what: str = "reading rows", unit: str = " rows"
) -> AbstractContextManager[ProgressBar]:
    """Return a progress bar for a ``with`` statement; call its ``update`` with the number of rows that are done.

    Parameters
    ----------
    total : int or None
        Total number of rows or steps; None if it is private: then the bar shows the elapsed time only.
    what : str
        Description of the work.
    unit : str
        Name of the counted units.

    Returns
    -------
    context manager
        A bar that appears after two seconds on a terminal or in a notebook, and is removed at the end.
    """
    if not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        return nullcontext(_HiddenBar())
    bar: AbstractContextManager[ProgressBar] = _bar_class()(
        total=total,
        desc=what,
        unit=unit,
        unit_scale=True,
        bar_format="{desc}: {elapsed}" if total is None else None,
        delay=DELAY_SECONDS,
        leave=False,
    )
    return bar


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Display the elapsed time of work that reports no progress, for a ``with`` statement.

    Parameters
    ----------
    what : str
        Description of the work.
    """
    with progress(None, what) as bar:
        done = threading.Event()

        def show_time() -> None:
            while not done.wait(_TICK_SECONDS):
                bar.update(0)

        watch = threading.Thread(target=show_time, daemon=True)
        if not isinstance(bar, _HiddenBar):
            watch.start()
        try:
            yield
        finally:
            done.set()
            if watch.is_alive():
                watch.join()
