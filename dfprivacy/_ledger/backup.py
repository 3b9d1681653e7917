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
from dfprivacy._ledger.address import connect_to_file, file_uri, ledger_address, sync_to_disk, temporary_copy
from dfprivacy._ledger.known_states import LedgerState, current_state, lacks_known_state, state_memory_at
from dfprivacy._ledger.ledger import Ledger, open_ledger
from dfprivacy._ledger.tables import current_time, tables
from dfprivacy.errors import LedgerError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

__all__ = ["backup_ledger", "forget_ledger", "restore_ledger"]


def backup_ledger(ledger: Ledger, target: str | os.PathLike[str]) -> Path:
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
        raise LedgerError(f"The file {path} exists.", "Name a new file: a backup overwrites no file.")
    if ledger.file is None:
        raise LedgerError(
            f"The ledger {ledger.where} is not in a file, but on a database server or in memory.",
            "Use the backup tools of the server.",
        )
    with (
        _describe_failures(f"The ledger {ledger.where} cannot be copied to {path}"),
        forks.process_lock(),
        temporary_copy(ledger.file, path) as new,
    ):
        _refuse_damaged_copy(new)
        new.replace(path)
        sync_to_disk(path.parent)
    return path


def restore_ledger(source: str | os.PathLike[str], where: str | os.PathLike[str]) -> Path:
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
    memory = state_memory_at(path)
    if not Path(source).is_file():
        raise LedgerError(f"The backup {source} does not exist.", "Check the path.")
    with (
        _describe_failures(f"The ledger {path} cannot be restored from {source}"),
        forks.process_lock(),
        temporary_copy(Path(source).absolute(), path) as new,
    ):
        _refuse_damaged_copy(new)
        known, works = [*memory.recall_states().values()], _is_working_ledger(path)
        if not (known or works or memory.file_is_lost):
            raise LedgerError(
                f"The ledger {path} cannot be read, and no file beside it records its last charge.",
                "To accept the loss of charges made after the backup, move the ledger away, and restore again.",
            )
        if path.exists():
            new.chmod(path.stat().st_mode & 0o777)
        with closing(connect_to_file(new, mode="rw")) as copy:
            restored = current_state(copy.execute)
            _refuse_lost_charges(copy, known, path)
            event = current_time(), "restored", restored.ledger, f"charge {restored.charge}, {current_time()}"
            copy.execute("INSERT INTO records (at, event, subject, value) VALUES (?, ?, ?, ?)", event)
        if works:
            _replace_ledger_rows(new, path)
        else:  # no process can have charged anything there
            new.replace(path)
            for more in ("-wal", "-shm", "-journal"):
                path.with_name(path.name + more).unlink(missing_ok=True)
            sync_to_disk(path.parent)
    memory.remember_states(restored)
    open_ledger(path).close()
    return path


def forget_ledger(where: str | os.PathLike[str]) -> bool:
    """Forget the charges of a ledger that was deleted or replaced on purpose, so that a new one can be made.

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
    memory = state_memory_at(path)
    known = [*memory.recall_states().values()]
    if not known:
        return False
    with _describe_failures(f"The ledger {where} cannot be forgotten"), forks.process_lock():
        if not memory.file_is_lost and _is_working_ledger(path):
            with closing(connect_to_file(path, mode="ro")) as live:
                complete = not any(lacks_known_state(live.execute, each) for each in known)
            if complete:
                raise LedgerError(
                    f"The ledger {where} exists, and no known charge is missing in it.",
                    "Only a ledger that was deleted or replaced can be forgotten.",
                )
        if not memory.remember_states(*(replace(each, forgotten=current_time()) for each in known)):
            raise LedgerError(f"The file {memory.path} cannot be written.", "Check the permissions of its folder.")
    return True


def _replace_ledger_rows(new: Path, path: Path) -> None:
    """Replace all rows of the ledger at `path` by the rows of a backup, in one transaction."""
    Ledger(ledger_address(path), str(path), passing=True).close()  # an older one gets the tables of today
    with closing(connect_to_file(path, mode="rw")) as live, closing(connect_to_file(new, mode="ro")) as copy:
        live.execute("PRAGMA synchronous = FULL")
        live.execute("ATTACH ? AS new", [file_uri(new, "ro")])
        live.execute("BEGIN IMMEDIATE")
        seen = current_state(live.execute)
        _refuse_lost_charges(copy, [seen] if seen.charge or seen.shares else [], path)
        names = [table.name for table in tables().metadata.sorted_tables]  # what others refer to first
        for name in reversed(names):
            live.execute(f"DELETE FROM main.{name}")  # noqa: S608 - names of ours
        for name in names:
            live.execute(f"INSERT INTO main.{name} SELECT * FROM new.{name}")  # noqa: S608
        live.execute("COMMIT")


def _refuse_damaged_copy(copy: Path) -> None:
    """Raise a `LedgerError` if a copy is not a ledger, or the spent total of an account is below its charges."""
    ledger = Ledger(ledger_address(copy), str(copy), passing=True)
    for account in ledger.accounts():
        account.check_spent()
    ledger.close()


def _refuse_lost_charges(copy: sqlite3.Connection, known: Iterable[LedgerState], path: Path) -> None:
    if any(lacks_known_state(copy.execute, each) for each in known):
        raise LedgerError(
            f"This backup lacks charges or shares of the ledger {path}: to restore it would lower what was spent.",
            "Use a newer backup.",
        )


def _is_working_ledger(path: Path) -> bool:
    """Return whether a path has a SQLite file with accounts that passes SQLite's integrity check."""
    try:
        with closing(connect_to_file(path, mode="rw")) as live:
            live.execute("SELECT name, opened, spent FROM main.accounts").fetchall()
            return live.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            raise
        return False


@contextmanager
def _describe_failures(what: str) -> Iterator[None]:
    try:
        yield
    except forks.ForkedConnectionError:
        raise LedgerError(
            f"{what}: this process was forked in the middle of a transaction.", "Run the command in a new process."
        ) from None
    except (sqlite3.Error, OSError, ValueError, TypeError) as error:
        raise LedgerError(f"{what}: {error}.", "No file was changed.") from error
