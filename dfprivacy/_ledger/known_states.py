"""Last known states of ledgers, in the process and in a file beside the ledger.

A ledger has an id, and its charges have numbers. Every charge leaves its number and the id of its call in the
memory of the process, and in a line of the file beside the ledger. A ledger passes for the one that was seen if it
has the same id, the same call under that number, and as many shares of analysts: then no charge and no share is
missing, for rows are only ever added. `Ledger` asks this in every transaction that writes; the highest number wins.

This is a net for accidents, not a lock. A line that cannot be written is left out, and a line that cannot be read
is passed over. With both files deleted and every process ended, nothing is remembered.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfprivacy import _forks as forks

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LedgerState", "StateMemory", "current_state", "lacks_known_state", "state_memory_at"]

_LARGEST = 20_000  # bytes of the file beside a ledger; a longer one is written anew
_lock = forks.Lock()
_memories: dict[str, StateMemory] = {}
_ID = "(SELECT subject FROM records WHERE event = 'made' ORDER BY id LIMIT 1)"
_SHARES = "(SELECT coalesce(max(id), 0) FROM shares)"


@dataclass(frozen=True)
class LedgerState:
    """State of a ledger at one moment: the numbers of its last charge and its last share.

    Attributes
    ----------
    ledger : str
        The ledger's id; empty in a line that schema 3 or older wrote.
    charge, call : int, str
        The number of its last charge, and the id of the call that was charged; 0 and empty if there is none.
    shares : int
        The number of the last share of an analyst.
    forgotten : str
        The time at which a custodian ran ``dfprivacy ledger forget``; empty if the state still counts.
    """

    ledger: str
    charge: int = 0
    call: str = ""
    shares: int = 0
    forgotten: str = ""

    @classmethod
    def read(cls, line: bytes) -> LedgerState:
        """Construct a state from a line of the file; raise an error, such as `ValueError`, if it is damaged."""
        plain = json.loads(line)
        if "account" in plain:
            return cls("")
        seen = cls(**plain)
        if not all(type(value) is type(getattr(_NOTHING, name)) for name, value in vars(seen).items()):
            raise ValueError
        return seen

    def to_line(self) -> bytes:
        """Return the state as a line of JSON after a line break, which ends any incomplete line before it."""
        return b"\n" + json.dumps(vars(self)).encode()


_NOTHING = LedgerState("")


def current_state(execute: Callable[[str], Any]) -> LedgerState:
    """Return the current state of a ledger; `execute` runs SQL on it."""
    last = "(SELECT {} FROM charges ORDER BY id DESC LIMIT 1)"
    row = execute(
        f"SELECT {_ID}, coalesce({last.format('id')}, 0), coalesce({last.format('call')}, ''), {_SHARES}"
    ).fetchone()
    return LedgerState(str(row[0]), int(row[1]), str(row[2]), int(row[3]))


def lacks_known_state(execute: Callable[[str], Any], seen: LedgerState) -> bool:
    """Return whether a ledger has another id than a known state, or lacks that state's last charge or share."""
    if not seen.ledger:  # dfprivacy before schema 4 wrote it
        return False
    call = f"(SELECT call FROM charges WHERE id = {seen.charge:d})"  # noqa: S608 - a number
    row = execute(f"SELECT {_ID}, {call}, {_SHARES}").fetchone()
    return bool(row[0] != seen.ledger or (seen.charge > 0 and row[1] != seen.call) or row[2] < seen.shares)


class StateMemory:
    """Memory of the last known states of the ledgers at one path, to detect a restored old copy.

    Parameters
    ----------
    ledger : Path or None
        The ledger's file, which need not exist, without symbolic links; None on a server.
    """

    def __init__(self, ledger: Path | None) -> None:
        self.path = None if ledger is None else ledger.with_name(f"{ledger.name}.remembered")
        self.forgotten: dict[LedgerState, None] = {}
        self._ledger = ledger
        self._known: dict[str, LedgerState] = {}
        self._read = 0, 0  # the file's number, and how much of it was read

    @property
    def file_is_lost(self) -> bool:
        """Whether the ledger's file is missing or empty."""
        return self._ledger is not None and not (self._ledger.exists() and self._ledger.stat().st_size)

    def recall_states(self) -> dict[str, LedgerState]:
        """Return the newest known state of each ledger at this path, by the ledger's id."""
        with _lock:
            for line in self._new_lines():
                with suppress(ValueError, TypeError, RecursionError):
                    self._update_known_state(LedgerState.read(line))
            if self._read[1] > _LARGEST:
                self._rewrite_file()
            return dict(self._known)

    def remember_states(self, *seen: LedgerState) -> bool:
        """Remember states of ledgers; return whether the file beside the ledger could be written."""
        with _lock:
            for each in seen:
                self._update_known_state(each)
        if self.path is None or self._ledger is None or not seen:
            return False
        try:
            with open(self.path, "ab", buffering=0, opener=_open_private) as file:
                if os.fstat(file.fileno()).st_size == 0 and self._ledger.exists():
                    self.path.chmod(self._ledger.stat().st_mode & 0o666)
                # One write at the end of the file: lines of several processes do not mix.
                file.write(b"".join(each.to_line() for each in seen))
        except OSError:
            return False
        return True

    def _update_known_state(self, seen: LedgerState) -> None:
        before = self._known.get(seen.ledger, seen)
        if not seen.forgotten:
            last = max(before, seen, key=lambda each: each.charge)
            self._known[seen.ledger] = replace(last, shares=max(before.shares, seen.shares))
            return
        self.forgotten[seen] = None
        if before.charge <= seen.charge:
            self._known.pop(seen.ledger, None)

    def _new_lines(self) -> list[bytes]:
        """Read the lines that the file gained since the last call, or all lines if the file is a new one."""
        if self.path is None:
            return []
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                number, length = self._read
                file.seek(length if (found.st_ino == number and found.st_size >= length) else 0)
                text = file.read()
                self._read = found.st_ino, file.tell()
        except OSError:
            return []
        return text.split(b"\n")

    def _rewrite_file(self) -> None:
        # A line that another process adds meanwhile is lost here; that process remembers, and the ledger has it.
        if self.path is None:
            return
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        with suppress(OSError):
            new.write_bytes(b"".join(each.to_line() for each in [*self.forgotten, *self._known.values()]))
            new.chmod(self.path.stat().st_mode)
            new.replace(self.path)


def _open_private(path: str, flags: int) -> int:
    """Open a file that only its owner can write, so that nobody else can declare charges forgotten."""
    return os.open(path, flags, 0o600)


def state_memory_at(place: Path | str) -> StateMemory:
    """Return this process's `StateMemory` of the ledger in a file, or of the ledger at an address."""
    file = Path(os.path.realpath(place)) if isinstance(place, Path) else None
    return _memories.setdefault(str(file or place), StateMemory(file))
