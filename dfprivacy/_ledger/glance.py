"""What was read of a ledger file that nobody has written since, as its time stamps tell.

To ask SQLite whether anything was written takes a connection, which is most of the time of a look, and one that
stays open would cross forks (`dfprivacy._forks`). So the file system is asked: a transaction writes the file, or
the one beside it that SQLite writes ahead.

A stamp tells two writes apart only if a clock has ticked between them. So what is read is kept only if the last
write was longer ago than the coarsest clock of a file system needs for that: a later write then has another stamp.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

__all__ = ["Glance"]

T = TypeVar("T")

_TICK = 2.0  # seconds, of FAT; more than that of any other clock
_MOST = 1000  # answers that are kept


class Glance:
    """Answers from a file that has not changed since they were read.

    Parameters
    ----------
    file : Path
        The ledger's file.
    """

    def __init__(self, file: Path) -> None:
        self._files = str(file), f"{file}-wal"
        self._known: tuple[object, dict[Hashable, Any]] = None, {}

    def __call__(self, question: Hashable, read: Callable[[], T]) -> T:
        """Give what `read` has returned for the same question, or let it read, if the file was written since.

        Parameters
        ----------
        question : hashable
            What is read.
        read : callable
            Reads it from the file. What it returns is not changed by anybody.

        Returns
        -------
        object
            What it has returned.
        """
        stamp, newest = self._stamp()
        at, answers = self._known
        if at == stamp and question in answers:
            answer: T = answers[question]
            return answer
        settled = newest + _TICK < time.time()
        answer = read()
        if settled and self._stamp()[0] == stamp:
            if at != stamp or len(answers) >= _MOST:
                at, answers = self._known = stamp, {}
            answers[question] = answer
        return answer

    def _stamp(self) -> tuple[object, float]:
        """Give what any write changes, and when the last one was."""
        stamp: list[tuple[int, ...]] = []
        newest = 0.0
        for file in self._files:
            try:
                known = os.stat(file)  # noqa: PTH116 - a path object takes longer than the look
            except OSError:  # nothing is written ahead
                stamp.append(())
            else:
                stamp.append((known.st_dev, known.st_ino, known.st_size, known.st_mtime_ns))
                newest = max(newest, known.st_mtime)
        return stamp, newest
