"""Storage of a ledger: its database tables, transactions, and checks against the ledger's last known state."""

from __future__ import annotations

import functools
import os
import secrets
import shutil
import sqlite3
import time
import weakref
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

from dfprivacy import _forks as forks
from dfprivacy._ledger.address import (
    ELSEWHERE,
    LOCK_SECONDS,
    MEMORY,
    engine_of,
    file_of_address,
    sync_to_disk,
    temporary_copy,
)
from dfprivacy._ledger.known_states import LedgerState, current_state, lacks_known_state, state_memory_at
from dfprivacy._ledger.names import (
    checked_analyst,
)
from dfprivacy._ledger.tables import (
    SCHEMA_VERSION,
    current_time,
    read_text,
    read_time,
    sha256_of_text,
    table_definitions,
    tables,
)
from dfprivacy.errors import ArgumentError, LedgerError

if TYPE_CHECKING:  # SQLAlchemy takes a fifth of a second to import: it waits for the first ledger
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import URL, Connection, Engine, Row, Select, Table

__all__ = ["ChargeStandsError", "LedgerRecord", "Store", "oldest_accounts_first", "retry_rolled_back"]

P = ParamSpec("P")
T = TypeVar("T")
DAMAGE = ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError
"""Errors that reading a damaged row of a ledger may raise."""

_ROOM = 1 << 24
"""Number of bytes that must be free on the disk before a charge, to store the answer that it pays for."""
_FREE_SPACE = "Free space on the ledger's disk, and ask again."
TRIES = 10  # of a transaction that the server undoes for the sake of others
ROLLED_BACK = {"40001", "40P01"}  # SQLSTATE: a serialisation failure, a deadlock


class ChargeStandsError(LedgerError):
    """Error for a ledger that fails while or after a charge is committed; the charge stands."""

    outcome = "Nothing was released; what was charged stays charged."


def retry_rolled_back(write: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that writes to the ledger: repeat it if the database server rolled it back."""

    @functools.wraps(write)
    def write_with_retries(*args: P.args, **kwargs: P.kwargs) -> T:
        for already in range(TRIES - 1):
            try:
                return write(*args, **kwargs)
            except LedgerError as error:
                if getattr(getattr(error.__cause__, "orig", None), "sqlstate", None) not in ROLLED_BACK:
                    raise
            time.sleep(secrets.SystemRandom().uniform(0, 0.01 * 2**already))  # not all at the same moment again
        return write(*args, **kwargs)

    return write_with_retries


@dataclass(frozen=True)
class LedgerRecord:
    """Recorded event of a ledger: "made", "found", "forgotten", "restored", or "key" for a key of an analyst."""

    at: datetime
    event: str
    subject: str
    value: str

    @classmethod
    def read(cls, row: Row[Any]) -> Self:
        """Construct a record from a row of the ledger; raise an error, such as `ValueError`, if it is damaged."""
        return cls(read_time(row.at), *map(read_text, row[2:]))


class Store:
    """Database tables of a ledger, in a file, on a server or in memory, and transactions on them.

    Attributes
    ----------
    where : str
        The file, the address without its password, or ``"memory:"``.
    file : Path or None
        Its file, without symbolic links; None where there is none.
    memory : Memory or None
        Its last known states; None for the ledger in memory, and for a temporary copy.
    schema : int
        The version of its tables: an older one if they could not be brought up to date.
    """

    schema = SCHEMA_VERSION

    def __init__(self, url: URL, where: str, *, passing: bool = False) -> None:
        self.where = where
        self._id = ""
        self._process = os.getpid()
        self._engine: Engine | None = engine_of(url, where)
        if where == MEMORY:  # one a request: Python 3.13 warns of a connection that nobody closes
            weakref.finalize(self, self._engine.dispose).atexit = False
        file = file_of_address(url)
        self.file = None if file is None else Path(os.path.realpath(file))
        self.memory = None if passing or where == MEMORY else state_memory_at(self.file or where)
        self._make_file(reading="immutable" in url.query or url.query.get("mode") == "ro")
        fresh = self._make_missing_tables(backup=not passing)
        self._refuse_older_copy(fresh=fresh)

    def __repr__(self) -> str:
        return f"Ledger({self.where!r})"

    @property
    def keeps_measurements(self) -> bool:
        """Whether the ledger has a table of measurements, which schema 1 lacks."""
        return self.schema > 1

    @property
    def keeps_analysts(self) -> bool:
        """Whether the ledger has tables of analysts and of their shares, which schemas 1 and 2 lack."""
        return self.schema > 2  # noqa: PLR2004 - see `SCHEMA_VERSION`

    def records(self) -> list[LedgerRecord]:
        """Return the recorded events of the ledger, oldest first."""
        table = tables().records
        return self.read(table.select().order_by(table.c.id), LedgerRecord.read)

    def records_about(self, subject: str) -> list[LedgerRecord]:
        """Return the recorded events about a subject, such as a key or a token, oldest first."""
        table = tables().records
        return self.read(table.select().where(table.c.subject == subject).order_by(table.c.id), LedgerRecord.read)

    def record(self, event: str, subject: str, value: str) -> None:
        """Record an event, unless the same event is recorded with the same subject and value."""
        table, row = tables().records, {"event": event, "subject": subject, "value": value}
        same = table.select().where(*(table.c[name] == each for name, each in row.items()))
        if self.read(same, LedgerRecord.read):  # most often it is there, and needs no writers' lock
            return
        with self.transaction(write=True) as connection:
            if connection.execute(same).first() is None:
                connection.execute(table.insert(), {"at": current_time(), **row})

    def analyst_of(self, fingerprint: str) -> str | None:
        """Return the analyst to whom a key belongs, by the key's fingerprint; None for an unknown key."""
        keys = [each for each in self.records() if (each.event, each.subject) == ("key", fingerprint)]
        return keys[0].value if keys else None

    def add_key(self, fingerprint: str, analyst: str) -> None:
        """Record the analyst of a key's fingerprint; raise an `ArgumentError` if it is another analyst's."""
        name = checked_analyst(analyst)
        if self.analyst_of(fingerprint) is None:
            self.record("key", fingerprint, name)
        if (known := self.analyst_of(fingerprint)) != name:
            raise ArgumentError(f"The key belongs to {known!r}.", "Make a key for each analyst.")

    def remember_state(self, **how_far: Any) -> None:
        """Remember the ledger's newest state, in this process and in a file beside it; see `LedgerState`."""
        if self.memory is not None:
            self.memory.remember_states(LedgerState(self._id, **how_far))

    def refuse_full_disk(self) -> None:
        """Raise a `LedgerError` if the disk of the file has too little room for a charge and its answer."""
        if self._disk_is_full():
            raise LedgerError(
                f"The disk of the ledger {self.where} has less than {_ROOM >> 20} MiB left, and an answer that is "
                "paid could be lost.",
                _FREE_SPACE,
            )

    def _disk_is_full(self) -> bool:
        if self.file is None:
            return False
        with suppress(OSError):  # without its folder there is another error
            disk = shutil.disk_usage(self.file.parent)
            return disk.total > 0 and disk.free < _ROOM  # a total of 0: some network's disks do not say
        return False

    def close(self) -> None:
        """Close the ledger: every later use of it, or of its accounts, raises a `LedgerError`."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    @contextmanager
    def transaction(self, *, write: bool = False, failure: type[LedgerError] = LedgerError) -> Iterator[Connection]:
        """Open a transaction; with `write`, take the writers' lock at once, and commit at the end.

        No transaction writes to a ledger that was replaced by another one, or lacks charges that were seen in it.
        """
        from sqlalchemy.exc import SQLAlchemyError

        try:
            engine, process = self._usable_engine(), os.getpid()
            # Before the transaction begins, for a server may show it what was committed until then.
            known = self._required_states() if write else []
            dialect = engine.dialect.name
            with forks.process_lock() if dialect == "sqlite" else nullcontext(), engine.connect() as connection:
                if dialect == "sqlite" and write:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                elif (
                    dialect == "postgresql"
                ):  # which may be set not to wait for its disk, and for locks without end
                    connection.exec_driver_sql(
                        "SELECT set_config('synchronous_commit', 'on', true), "
                        f"set_config('lock_timeout', '{LOCK_SECONDS}s', true)"
                    )
                self._refuse_lost_charges(connection, known)
                yield connection
                if os.getpid() != process:  # forked meanwhile: the transaction is the other process's
                    raise forks.ForkedConnectionError  # noqa: TRY301 - said below
                if write:
                    failure = ChargeStandsError  # a commit that fails may have reached the disk all the same
                    connection.commit()
        except forks.ForkedConnectionError as error:
            raise failure(
                f"The ledger {self.where} cannot be used here: this process was forked from another in the middle "
                "of a transaction.",
                "Start workers by 'spawn' or 'forkserver', or keep the ledger on a server.",
            ) from error
        except (SQLAlchemyError, OSError) as error:
            done, reason = (
                "written" if write else "read",
                str(getattr(error, "orig", None) or error).partition("\n")[0],
            )
            hint = _FREE_SPACE if self._disk_is_full() else ELSEWHERE
            raise failure(f"The ledger {self.where} cannot be {done}: {reason}.", hint) from error
        except LedgerError as error:
            if isinstance(error, failure):
                raise
            raise failure(error.what, error.hint) from error

    def read(
        self, query: Select[Any], read: Callable[[Row[Any]], T], several: Sequence[Mapping[str, object]] = ({},)
    ) -> list[T]:
        """Execute a query, once for each set of parameters in `several`, and convert its rows with `read`.

        A table that an older ledger lacks has no rows.
        """
        if self.schema != SCHEMA_VERSION:
            of = cast("list[Table]", query.get_final_froms())
            if any(_SINCE.get(table.name, 1) > self.schema for table in of):
                return []
        with self.transaction() as connection:
            rows = [row for each in several for row in connection.execute(query, each)]
        with self.reporting_damage():
            return [*map(read, rows)]

    @contextmanager
    def reporting_damage(self) -> Iterator[None]:
        """Convert errors that damaged rows raise in the block to a `LedgerError`."""
        try:
            yield
        except DAMAGE as error:
            raise LedgerError(f"A row of the ledger {self.where} is damaged.", ELSEWHERE) from error

    def _usable_engine(self) -> Engine:
        if self._engine is None:
            raise LedgerError(
                f"The ledger {self.where} is closed.", "Protect the data again, which opens the ledger again."
            )
        if self.where == MEMORY and os.getpid() != self._process:
            raise LedgerError(
                "The ledger in memory stays with its process: the copy in a fork would be a second budget.",
                "Use a ledger file.",
            )
        return self._engine

    def _make_file(self, *, reading: bool) -> None:
        """Make the file, readable by its owner only, unless it exists; refuse lost files and hard links."""
        if self.file is None:
            return
        if self.memory is not None and self.memory.file_is_lost and self.memory.recall_states():
            raise self._lost_ledger_error()
        if not reading:
            with suppress(OSError, forks.ForkedConnectionError), forks.process_lock():  # else SQLite says why not
                os.close(os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with suppress(FileNotFoundError):
            self._refuse_hard_links()

    def _refuse_older_copy(self, *, fresh: bool) -> None:
        """Raise a `LedgerError` if the ledger lacks charges seen before; remember its current state."""
        from sqlalchemy.exc import OperationalError

        if self.memory is None or self.schema != SCHEMA_VERSION:
            return
        known, noted = self.memory.recall_states(), False
        with self.transaction() as connection:
            self._refuse_lost_charges(connection, known.values())
            seen = current_state(connection.exec_driver_sql)
            # Writing ahead is a matter of speed, not of safety: a busy file is left as it is.
            with suppress(OperationalError):
                if self.file is not None:
                    connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        self._id, before = seen.ledger, known.get(seen.ledger, LedgerState(seen.ledger))
        gone = self.memory.path is not None and not self.memory.path.exists()
        if seen.charge > before.charge or seen.shares > before.shares or (gone and seen.charge):
            noted = self.memory.remember_states(seen)
        events = [
            ("forgotten", each.ledger, f"charge {each.charge}, {each.forgotten}") for each in self.memory.forgotten
        ]
        if noted and not (known or events or fresh):
            events = [("found", seen.ledger, f"charge {seen.charge}")]
        for event in events:
            with suppress(LedgerError):  # a ledger that is only read
                self.record(*event)

    def _required_states(self) -> list[LedgerState]:
        """Return known states that the ledger must include; raise a `LedgerError` if it must not be written."""
        if self.schema != SCHEMA_VERSION:
            raise LedgerError(
                f"The ledger {self.where} was made by an older dfprivacy, and can only be read by this process.",
                "Open it once with permission to create tables, which updates it.",
            )
        if self.memory is None or not self._id:  # a temporary copy, or not yet open
            return []
        if self.memory.file_is_lost:
            raise self._lost_ledger_error()
        self._refuse_hard_links()
        return [*({self._id: LedgerState(self._id)} | self.memory.recall_states()).values()]

    def _refuse_lost_charges(self, connection: Connection, known: Iterable[LedgerState]) -> None:
        if any(lacks_known_state(connection.exec_driver_sql, seen) for seen in known):
            raise self._lost_ledger_error()

    def _lost_ledger_error(self) -> LedgerError:
        again = "Put the file back, or restore a newer backup with `dfprivacy ledger restore SOURCE`. If it was "
        again += "deleted on purpose, with all that was released from it, run "
        again += f"`dfprivacy ledger forget {self.where}`."
        return LedgerError(
            f"The ledger {self.where} was lost, or replaced by an older or another one: it lacks charges or shares "
            "that were seen in it.",
            again if self.file else "Restore a newer backup of the server, and start this process again.",
        )

    def _refuse_hard_links(self) -> None:
        """Refuse a file with several hard links: SQLite has one write-ahead log for each name."""
        if self.file is not None and self.file.stat().st_nlink > 1:
            raise LedgerError(
                f"The ledger {self.where} has several names (hard links), and each name would have its own budget.",
                "Delete the other names.",
            )

    def _refuse_foreign_objects(self) -> None:
        """Refuse a file with foreign triggers, views, tables or indices, which could change or hide rows."""
        if self.file is None:
            return
        with self.transaction() as connection:
            ours = {_normalised_sql(text) for text in table_definitions(connection.dialect)}
            found = connection.exec_driver_sql(
                "SELECT name, sql FROM sqlite_master WHERE substr(name, 1, 7) <> 'sqlite_'"
            ).fetchall()
        foreign = [str(name) for name, sql in found if _normalised_sql(str(sql)) not in ours]
        if foreign:
            raise LedgerError(
                f"The ledger {self.where} has the table or trigger {ascii(foreign[0])[:50]}, which no ledger has.",
                "Name another file, or restore a backup without it.",
            )

    def _make_missing_tables(self, *, backup: bool) -> bool:
        """Create missing database tables; return whether the schema version has changed."""
        version = first = self._schema_version()
        self._refuse_foreign_objects()
        if version != SCHEMA_VERSION:
            try:
                self._make_tables(version, backup=backup)
            except (LedgerError, sqlite3.Error, OSError, forks.ForkedConnectionError):
                # Another process made them at this moment, or they may only be read, and are used as they are.
                if not self._schema_version():
                    raise
            self.schema = version = self._schema_version()
        return version != first

    def _make_tables(self, version: int, *, backup: bool) -> None:
        """Create the database tables that an older schema lacks, after a backup of the file; all rows stay."""
        copy, every = (
            self._backup_in_same_folder(version) if version and backup and self.file is not None else None,
            tables(),
        )
        try:
            with self.transaction(write=True) as connection:
                if version:
                    connection.execute(every.ledger.select().with_for_update())
                if self._schema_version_in(connection) != version:  # another was faster
                    return
                every.metadata.create_all(connection)
                for index in every.charges.indexes | every.answers.indexes:
                    index.create(connection, checkfirst=True)
                if version < _SINCE["records"]:
                    first = connection.execute(oldest_accounts_first()).first()
                    # An older backup gets the same id.
                    made = (
                        secrets.token_hex(16)
                        if first is None
                        else sha256_of_text(f"{first.name} {first.opened}")[:32]
                    )
                    event = {"event": "made", "subject": made, "value": f"schema {version}" if version else ""}
                    connection.execute(every.records.insert(), {"at": current_time(), **event})
                new = every.ledger.update() if version else every.ledger.insert()
                connection.execute(new, {"schema_version": SCHEMA_VERSION})
        except LedgerError:
            if copy is not None:
                copy.unlink(missing_ok=True)
            raise

    def _backup_in_same_folder(self, version: int) -> Path:
        """Copy the ledger's file to a backup in the same folder, and return the path of the backup."""
        file = cast("Path", self.file)
        kept = file.with_name(
            f"{file.name}.schema-{version}.{current_time().translate(str.maketrans('', '', '-:.+'))}"
        )
        with forks.process_lock(), temporary_copy(file, file) as copy:
            copy.replace(kept)
            sync_to_disk(file.parent)
        return kept

    def _schema_version(self) -> int:
        """Return the version of the ledger's tables; 0 if there are none."""
        with self.transaction() as connection:
            return self._schema_version_in(connection)

    def _schema_version_in(self, connection: Connection) -> int:
        if not connection.dialect.has_table(connection, "ledger"):
            return 0
        versions = set(connection.execute(tables().ledger.select()).scalars())  # of processes that made it at once
        with self.reporting_damage():
            (version,) = map(int, versions)
        if not 1 <= version <= SCHEMA_VERSION:
            raise LedgerError(
                f"The ledger {self.where} was made by a newer dfprivacy (schema {version}, not {SCHEMA_VERSION}).",
                "Upgrade dfprivacy, or choose another ledger.",
            )
        return version


def oldest_accounts_first() -> Select[Any]:
    """Return a query of the accounts, in the order in which they were opened."""
    table = tables().accounts
    return table.select().order_by(table.c.opened, table.c.name)


def _normalised_sql(sql: str) -> str:
    """Return an SQL definition without white space and double quotation marks."""
    return "".join(sql.split()).replace('"', "")


_SINCE = {
    "measurements": 2,
    "askers": 3,
    "shares": 3,
    "records": 4,
    "data_tables": 5,
}  # the schema that first had each
