"""Copies of a SQLite file that stand alone, made by SQLite itself while the file is in use."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from dfprivacy._ledger.address import LOCK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["address", "connect", "copied", "sync"]


@contextmanager
def copied(source: Path, beside: Path) -> Iterator[Path]:
    """Copy a SQLite file, with what was written ahead and its mode, to a passing name; it is on the disk."""
    new = beside.with_name(f"{beside.name}.{os.getpid()}.copy")
    try:
        new.unlink(missing_ok=True)
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        new.chmod(source.stat().st_mode & 0o777)
        with closing(connect(source, mode="ro")) as old, closing(connect(new, mode="rw")) as copy:
            old.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            if copy.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                raise sqlite3.DatabaseError("it is damaged")
        sync(new)
        yield new
    finally:
        for more in ("", "-wal", "-shm", "-journal"):
            new.with_name(new.name + more).unlink(missing_ok=True)


def address(path: Path, mode: str) -> str:
    """Write the address of a SQLite file."""
    return f"file:{quote(str(path))}?mode={mode}"


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a SQLite file, in a turn."""
    options = {"uri": True, "timeout": LOCK_SECONDS, "isolation_level": None, "check_same_thread": False}
    return sqlite3.connect(address(path, mode), **options)  # type: ignore[call-overload, no-any-return]


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":  # Windows has no such wait
        return
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)
