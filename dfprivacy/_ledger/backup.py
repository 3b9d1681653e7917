"""Backups of a ledger file, and their restoration, which loses no known charge.

A copy of the file alone is no backup: the newest charges are in the file that SQLite writes ahead. These copies are
made by SQLite itself, while the ledger is in use, and stand alone.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dfprivacy import _forks as forks
from dfprivacy._ledger.address import connect, copied, place, sync, uri
from dfprivacy._ledger.ledger import Ledger, open_ledger
from dfprivacy._ledger.remembered import Seen, lacks, memory_of, newest
from dfprivacy._ledger.tables import now, tables
from dfprivacy.errors import LedgerError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

__all__ = ["backup", "forget", "restore"]


def backup(ledger: Ledger, target: str | os.PathLike[str]) -> Path:
    """Copy a ledger file with all its charges, and wait until the copy is on the disk.

    Parameters
    ----------
    ledger : Ledger
        A ledger in a file; it may be in use.
    target : str or path
        The new file.

    Returns
    -------
    Path
        The new file.

    Raises
    ------
    LedgerError
        If the ledger is in no file, the target exists or cannot be written, or the ledger is damaged.
    """
    path = Path(target).absolute()
    if path.exists():
        raise LedgerError(f"The file {path} exists.", "Name a new one: a backup takes no other's place.")
    if ledger.file is None:
        raise LedgerError(f"The ledger {ledger.where} is not in a file.", "Use the tools of its server.")
    with (
        _errors(f"The ledger {ledger.where} cannot be copied to {path}"),
        forks.process_lock(),
        copied(ledger.file, path) as new,
    ):
        _refuse_damage(new)
        new.replace(path)
        sync(path.parent)
    return path


def restore(source: str | os.PathLike[str], where: str | os.PathLike[str]) -> Path:
    """Restore a lost or damaged ledger file from a backup.

    Parameters
    ----------
    source : str or path
        The backup.
    where : str or path
        The ledger's file. It may be missing, empty or damaged; if it is in use, it changes in one transaction.

    Returns
    -------
    Path
        The ledger's file.

    Raises
    ------
    LedgerError
        If the backup lacks a charge or a share that the ledger has, or that was seen in it; or if either cannot be
        used. Then nothing changes.

    Notes
    -----
    The restored ledger holds a record of it. A ledger that cannot be read, and of which nothing is remembered, has
    to be moved away first: then what was charged since the backup is given up.
    """
    path = Path(where).resolve()
    memory = memory_of(path)
    if not Path(source).is_file():
        raise LedgerError(f"The backup {source} does not exist.", "Check the path.")
    with (
        _errors(f"The ledger {path} cannot be restored from {source}"),
        forks.process_lock(),
        copied(Path(source).absolute(), path) as new,
    ):
        _refuse_damage(new)
        known, works = [*memory.recall().values()], _is_usable(path)
        if not (known or works or memory.lost):
            raise LedgerError(
                f"The ledger {path} cannot be read, and how far it had come is not remembered beside it.",
                "To give up what was charged since the backup, move it away, and restore again.",
            )
        if path.exists():
            new.chmod(path.stat().st_mode & 0o777)
        with closing(connect(new, mode="rw")) as copy:
            restored = newest(copy.execute)
            _refuse_less(copy, known, path)
            event = now(), "restored", restored.ledger, f"charge {restored.charge}, {now()}"
            copy.execute("INSERT INTO records (at, event, subject, value) VALUES (?, ?, ?, ?)", event)
        if works:
            _replace_rows(new, path)
        else:  # no process can have charged anything there
            new.replace(path)
            for more in ("-wal", "-shm", "-journal"):
                path.with_name(path.name + more).unlink(missing_ok=True)
            sync(path.parent)
    memory.note(restored)
    open_ledger(path).close()
    return path


def forget(where: str | os.PathLike[str]) -> bool:
    """Forget a ledger file that was deleted or replaced on purpose, with all its charges.

    The ledger that is made or restored in its place holds a record of it.

    Parameters
    ----------
    where : str or path
        The ledger's file.

    Returns
    -------
    bool
        Whether anything was remembered.

    Raises
    ------
    LedgerError
        If the ledger is there with all that is remembered of it, or nothing can be written beside it.
    """
    path = Path(where).resolve()
    memory = memory_of(path)
    known = [*memory.recall().values()]
    if not known:
        return False
    with _errors(f"The ledger {where} cannot be given up"), forks.process_lock():
        if not memory.lost and _is_usable(path):
            with closing(connect(path, mode="ro")) as live:
                complete = not any(lacks(live.execute, each) for each in known)
            if complete:
                raise LedgerError(
                    f"The ledger {where} is there, with all that is remembered of it.",
                    "Only a ledger that was deleted or replaced can be given up.",
                )
        if not memory.note(*(replace(each, forgotten=now()) for each in known)):
            raise LedgerError(
                f"Nothing can be written beside the ledger {where}.", "Check the folder's permissions."
            )
    return True


def _replace_rows(new: Path, path: Path) -> None:
    """Replace all rows in one transaction, for which every charge waits."""
    Ledger(place(path), str(path), passing=True).close()  # an older one gets the tables of today
    with closing(connect(path, mode="rw")) as live, closing(connect(new, mode="ro")) as copy:
        live.execute("PRAGMA synchronous = FULL")
        live.execute("ATTACH ? AS new", [uri(new, "ro")])
        live.execute("BEGIN IMMEDIATE")
        seen = newest(live.execute)
        _refuse_less(copy, [seen] if seen.charge or seen.shares else [], path)
        names = [table.name for table in tables().metadata.sorted_tables]  # what others refer to first
        for name in reversed(names):
            live.execute(f"DELETE FROM main.{name}")  # noqa: S608 - names of ours
        for name in names:
            live.execute(f"INSERT INTO main.{name} SELECT * FROM new.{name}")  # noqa: S608
        live.execute("COMMIT")


def _refuse_damage(copy: Path) -> None:
    """Check a copy by reading it as a ledger."""
    ledger = Ledger(place(copy), str(copy), passing=True)
    for account in ledger.accounts():
        account.check()
    ledger.close()


def _refuse_less(copy: sqlite3.Connection, known: Iterable[Seen], path: Path) -> None:
    if any(lacks(copy.execute, each) for each in known):
        raise LedgerError(
            f"To restore this backup would lower what was spent in the ledger {path}: charges or shares that were "
            "seen there are not in it.",
            "Take a newer backup: with this one, what was released since then would not be accounted for.",
        )


def _is_usable(path: Path) -> bool:
    """Return whether a working ledger exists there, which a process may be charging."""
    try:
        with closing(connect(path, mode="rw")) as live:
            live.execute("SELECT name, opened, spent FROM main.accounts").fetchall()
            return live.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            raise
        return False


@contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except forks.ForkedConnectionError:
        raise LedgerError(
            f"{what}: this process was forked in the middle of a transaction.", "Use another process."
        ) from None
    except (sqlite3.Error, OSError, ValueError, TypeError) as error:
        raise LedgerError(f"{what}: {error}.", "Nothing there was changed.") from error
