"""What is remembered beside a ledger file, so that a file that was lost does not become a fresh budget.

SQLite makes an empty file where it finds none: a ledger that was deleted, truncated, or replaced by an older copy
would forget what was spent, and say nothing. So every opening and every charge adds a line to a file beside it: the
account, when it was opened, and what was spent of it. `Ledger` compares at each opening.

This is a net, not a lock. The ledger alone is what a charge waits for: a line that cannot be written is left out,
a line that cannot be read is passed over, and who deletes both files has a fresh budget.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dfprivacy._privacy.filters import Spent

__all__ = ["Known", "Memory"]

_LINES = 200  # more are written anew, one for each account


@dataclass(frozen=True)
class Known:
    """What was once seen of an account: its name, when it was opened, and what was spent of it."""

    name: str
    opened: str
    spent: Spent

    @classmethod
    def read(cls, name: str, opened: str, spent: str) -> Known:
        """Read it from the columns of an account."""
        return cls(str(name), str(opened), Spent.from_list(json.loads(spent)))

    def or_more(self, other: Spent) -> Known:
        """Return the same with the larger of each two sums."""
        if len(other.counts) != len(self.spent.counts):
            return self
        pairs = zip(self.spent.counts, other.counts, strict=True)
        return Known(
            self.name,
            self.opened,
            Spent(tuple(None if a is None or b is None else max(a, b) for a, b in pairs)),
        )

    def line(self) -> bytes:
        """Return it as a line; the line break comes first, so that a line torn by a crash spoils no other."""
        plain = {"account": self.name, "opened": self.opened, "spent": self.spent.to_list()}
        return b"\n" + json.dumps(plain).encode()


class Memory:
    """The file beside a ledger.

    Parameters
    ----------
    ledger : Path
        The ledger's file, which need not exist.
    """

    def __init__(self, ledger: Path) -> None:
        self.ledger = Path(os.path.realpath(ledger))
        self.path = self.ledger.with_name(f"{self.ledger.name}.remembered")

    @property
    def lost(self) -> bool:
        """Whether the ledger has nothing in it, or is not there."""
        try:
            return self.ledger.stat().st_size == 0
        except OSError:
            return True

    def recall(self) -> dict[tuple[str, str], Known]:
        """Return every account that is remembered, with the most that was ever spent of it."""
        known: dict[tuple[str, str], Known] = {}
        lines = self._lines()
        for line in lines:
            with suppress(ValueError, TypeError, KeyError, AttributeError):
                plain = json.loads(line)
                each = Known(str(plain["account"]), str(plain["opened"]), Spent.from_list(plain["spent"]))
                before = known.get((each.name, each.opened), each)
                known[each.name, each.opened] = before.or_more(each.spent)
        if len(lines) > _LINES + len(known):
            self._rewrite(known)
        return known

    def note(self, *known: Known) -> None:
        """Remember accounts; nothing is said where nothing can be written."""
        if not known:
            return
        with suppress(OSError):
            # One write at the end of the file: lines of several processes do not mix.
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(file, b"".join(each.line() for each in known))
            finally:
                os.close(file)

    def forget(self) -> None:
        """Remember nothing of this ledger."""
        self.path.unlink(missing_ok=True)

    def _lines(self) -> list[bytes]:
        try:
            return self.path.read_bytes().split(b"\n")
        except OSError:
            return []

    def _rewrite(self, known: dict[tuple[str, str], Known]) -> None:
        # A line that another process adds meanwhile is lost here; the ledger is read after this, and has it.
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        with suppress(OSError):
            new.write_bytes(b"".join(each.line() for each in known.values()))
            new.chmod(self.path.stat().st_mode)
            new.replace(self.path)
