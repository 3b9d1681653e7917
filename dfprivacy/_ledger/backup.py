"""Backups of a ledger file, and the way back, which never lowers what was spent.

A copy of the file alone is no backup: the newest charges are in the file that SQLite writes ahead. These copies are
made by SQLite itself, while the ledger is in use, and stand alone.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dfprivacy import _forks as forks
from dfprivacy._ledger.address import place
from dfprivacy._ledger.copies import address, connect, copied, sync
from dfprivacy._ledger.ledger import Ledger, open_ledger
from dfprivacy._ledger.records import covers
from dfprivacy._ledger.remembered import Known, Memory
from dfprivacy.errors import LedgerError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

__all__ = ["backup", "forget", "restore"]

_TABLES = ("measurements", "answers", "charges", "accounts", "ledger")


def backup(ledger: Ledger, target: str | os.PathLike[str]) -> Path:
    """Copy a ledger file, with all that was charged until now, and wait until the copy is on the disk.

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
    if ledger.memory is None:
        raise LedgerError(f"The ledger {ledger.where} is not in a file.", "Use the tools of its server.")
    with (
        _errors(f"The ledger {ledger.where} cannot be copied to {path}"),
        forks.turn(),
        copied(ledger.memory.ledger, path) as new,
    ):
        _refuse_damage(new)
        new.replace(path)
        sync(path.parent)
    return path


def restore(source: str | os.PathLike[str], where: str | os.PathLike[str]) -> Path:
    """Put a backup in the place of a ledger file that was lost or damaged.

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
        If less was spent of any account in the backup than in the ledger, or than is remembered beside it; or if
        either cannot be used. Then nothing changes.
    """
    memory = Memory(Path(where).absolute())
    path = memory.ledger
    if not Path(source).is_file():
        raise LedgerError(f"The backup {source} does not exist.", "Check the path.")
    with (
        _errors(f"The ledger {path} cannot be restored from {source}"),
        forks.turn(),
        copied(Path(source).absolute(), path) as new,
    ):
        accounts = _refuse_damage(new)
        _refuse_less(accounts, memory.recall().values(), path)
        if _works(path):
            _exchange(new, path, accounts)
        else:  # nobody can have charged anything there
            new.replace(path)
            for more in ("-wal", "-shm", "-journal"):
                path.with_name(path.name + more).unlink(missing_ok=True)
            sync(path.parent)
    open_ledger(path).close()
    return path


def forget(where: str | os.PathLike[str]) -> bool:
    """Forget what is remembered of a ledger file that was deleted on purpose.

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
        If it cannot be deleted.
    """
    memory = Memory(Path(where).absolute())
    known = bool(memory.recall())
    with _errors(f"What is remembered of the ledger {where} cannot be deleted"):
        memory.forget()
    return known


def _exchange(new: Path, path: Path, accounts: dict[str, Known]) -> None:
    """Exchange all rows, in one transaction that whoever charges has to wait for."""
    with closing(connect(path, mode="rw")) as live:
        live.execute("PRAGMA synchronous = FULL")
        live.execute("ATTACH ? AS new", [address(new, "ro")])
        live.execute("BEGIN IMMEDIATE")
        _refuse_less(accounts, _rows(live), path)
        there = "SELECT name FROM main.sqlite_master"
        for (made,) in live.execute(f"SELECT sql FROM new.sqlite_master WHERE name NOT IN ({there})").fetchall():  # noqa: S608
            live.execute(made)
        for table in _TABLES:
            live.execute(f"DELETE FROM main.{table}")  # noqa: S608 - names of ours
        for table in reversed(_TABLES):
            live.execute(f"INSERT INTO main.{table} SELECT * FROM new.{table}")  # noqa: S608
        live.execute("COMMIT")


def _refuse_damage(copy: Path) -> dict[str, Known]:
    """Read a copy through, as a ledger of its own; its accounts by name."""
    ledger = Ledger(place(copy), str(copy), backup=False)
    for account in ledger.accounts():
        account.check()
    ledger.close()
    with closing(connect(copy, mode="rw")) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # nothing stays beside it
        return {each.name: each for each in _rows(connection)}


def _refuse_less(accounts: dict[str, Known], known: Iterable[Known], path: Path) -> None:
    for each in known:
        same = accounts.get(each.name)
        if same is None or same.opened != each.opened or not covers(same.spent, each.spent):
            raise LedgerError(
                f"To restore this backup would lower what was spent of {each.name!r} in the ledger {path}.",
                "Take a newer backup: with this one, what was released since then would not be accounted for.",
            )


def _rows(connection: sqlite3.Connection) -> list[Known]:
    rows = connection.execute("SELECT name, opened, spent FROM main.accounts").fetchall()
    return [Known.read(*row) for row in rows]


def _works(path: Path) -> bool:
    """Whether there is a ledger that somebody may be charging."""
    with suppress(sqlite3.DatabaseError, ValueError, TypeError), closing(connect(path, mode="rw")) as live:
        _rows(live)
        return live.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return False


@contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except forks.TornError:
        raise LedgerError(
            f"{what}: this process was forked in the middle of a transaction.", "Use another process."
        ) from None
    except (sqlite3.Error, OSError, ValueError, TypeError) as error:
        raise LedgerError(f"{what}: {error}.", "Nothing there was changed.") from error
