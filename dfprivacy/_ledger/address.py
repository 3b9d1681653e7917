"""Addresses and connections of ledgers, and copies of a ledger file that is in use."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from dfprivacy.errors import LedgerError, MissingDependency

if TYPE_CHECKING:  # SQLAlchemy takes a fifth of a second to import: it waits for the first ledger
    from collections.abc import Iterator

    from sqlalchemy import URL, Engine

__all__ = [
    "ELSEWHERE",
    "LOCK_SECONDS",
    "MEMORY",
    "connect_to_file",
    "engine_of",
    "file_of_address",
    "file_uri",
    "ledger_address",
    "sync_to_disk",
    "temporary_copy",
    "url_of_existing_file",
]

LOCK_SECONDS = 60  # SQLite's queue is unfair: one writer among several can wait for seconds
_CONNECT: dict[str, Any] = {  # isolation_level None: BEGIN and COMMIT are ours, not the driver's
    "timeout": LOCK_SECONDS,
    "isolation_level": None,
    "check_same_thread": False,  # threads take turns
}
MEMORY = "memory:"
ELSEWHERE = "Repair the ledger, or choose another ledger with ledger=... or DFPRIVACY_LEDGER."


def ledger_address(where: str | os.PathLike[str] | None) -> URL:
    return parse_address(os.fspath(where or os.environ.get("DFPRIVACY_LEDGER") or default_ledger_file()))


def file_of_address(url: URL) -> Path | None:
    """Return the path of a SQLite database, given its URL; None for another database, or one in memory."""
    database = url.database or ""
    if url.get_backend_name() != "sqlite" or database in {"", ":memory:"}:
        return None
    return Path(unquote(database.removeprefix("file:")) if database.startswith("file:") else database).absolute()


def url_of_existing_file(url: URL) -> URL:
    """Return a URL that opens an existing SQLite file, for reading only if it cannot be written."""
    path = Path(str(url.database))
    ahead = path.with_name(f"{path.name}-wal")
    if not path.is_file() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        how = {"mode": "rw"}
    else:  # reading the log needs SQLite's shared memory, which a file without a writer must do without
        how = {"mode": "ro"} if ahead.is_file() and ahead.stat().st_size else {"immutable": "1"}
    return url.set(database=f"file:{quote(str(path))}", query={**how, "uri": "true"})


def default_ledger_file() -> Path:
    import platformdirs

    folder = Path(platformdirs.user_data_dir("dfprivacy"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(f"The ledger's folder {folder} cannot be made: {error.strerror}.", ELSEWHERE) from error
    return folder / "ledger.sqlite"


def parse_address(where: str) -> URL:
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError as NoAddressError

    if where in {MEMORY, ":memory:"}:
        return URL.create("sqlite")
    if "://" not in where:
        if "\0" in where:
            raise LedgerError("The ledger's path holds a null character.", "Name a file in a folder that exists.")
        try:
            path = Path(where).expanduser().absolute()  # the working directory may change later
            folder, homeless = path.is_dir(), not path.parent.is_dir()
        except (OSError, ValueError, RuntimeError) as error:
            raise LedgerError(f"The ledger's path cannot be used: {error}.", ELSEWHERE) from error
        if folder or homeless:
            wrong = "is a folder" if folder else f"cannot be made: the folder {path.parent} does not exist"
            raise LedgerError(f"The ledger {path} {wrong}.", "Name a file in a folder that exists.")
        return URL.create("sqlite", database=str(path))
    try:
        url = make_url(where)
    except (NoAddressError, ValueError):  # neither is shown, for the text may hold a password
        hint = "Write postgresql://user@host/database, or name a file."
        raise LedgerError("The ledger's address is not the address of a database.", hint) from None
    if url.drivername in {"postgres", "postgresql"}:
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite" and not url.query:
        return parse_address(url.database or MEMORY)
    return url


def engine_of(url: URL, where: str) -> Engine:
    from sqlalchemy import NullPool, StaticPool, create_engine, event
    from sqlalchemy.exc import NoSuchModuleError

    # Without a pool no connection outlives its transaction, so that a fork has to wait for no more than that.
    try:
        if url.get_backend_name() != "sqlite":
            # Charges lock the rows that they read; a stricter level undoes those of other accounts for nothing.
            level = "READ COMMITTED" if url.get_backend_name() == "postgresql" else None
            return create_engine(url, poolclass=NullPool, hide_parameters=True, isolation_level=level)
        if url.get_dialect().driver != "pysqlite":
            raise LedgerError(f"The driver {url.drivername!r} is not known to be safe with forks.", ELSEWHERE)
    except NoSuchModuleError as error:
        raise LedgerError(f"{url.drivername!r} is not a database that SQLAlchemy supports.", ELSEWHERE) from error
    except ImportError as error:
        wanted = '"dfprivacy[postgresql]"' if url.get_backend_name() == "postgresql" else error.name
        raise MissingDependency(f"The ledger {where} needs {error.name}.", f"pip install {wanted}") from error
    pool = StaticPool if where == MEMORY else NullPool
    engine = create_engine(url, poolclass=pool, connect_args=_CONNECT, hide_parameters=True)
    event.listen(engine, "connect", _set_safe_pragmas)
    return engine


def _set_safe_pragmas(connection: sqlite3.Connection, _: object) -> None:
    # With NORMAL the last charges could be lost when the power fails.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


@contextmanager
def temporary_copy(source: Path, beside: Path) -> Iterator[Path]:
    """Copy a SQLite file, with its write-ahead log and mode, to a temporary file on the disk."""
    new = beside.with_name(f"{beside.name}.{os.getpid()}.copy")
    try:
        new.unlink(missing_ok=True)
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        new.chmod(source.stat().st_mode & 0o777)
        with closing(connect_to_file(source, mode="ro")) as old, closing(connect_to_file(new, mode="rw")) as copy:
            old.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            if copy.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                raise sqlite3.DatabaseError("it is damaged")
        sync_to_disk(new)
        yield new
    finally:
        for more in ("", "-wal", "-shm", "-journal"):
            new.with_name(new.name + more).unlink(missing_ok=True)


def file_uri(path: Path, mode: str) -> str:
    """Return the URI of a SQLite file."""
    return f"file:{quote(str(path))}?mode={mode}"


def connect_to_file(path: Path, mode: str) -> sqlite3.Connection:
    """Open a connection to a SQLite file; the caller holds the process lock."""
    opened: sqlite3.Connection = sqlite3.connect(
        file_uri(path, mode), uri=True, **{**_CONNECT, "timeout": LOCK_SECONDS}
    )
    return opened


def sync_to_disk(path: Path) -> None:
    """Wait until the content of a file, or the list of files in a folder, is on the disk (fsync)."""
    if path.is_dir() and os.name == "nt":  # Windows has no such wait
        return
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)
