"""The ledger: accounts of people and their tables, in a file or database.

Every account pays for the tables that hold its people; a table alone has an account of its name. A release is
charged to it, and the charge is on the disk, before the data are read: a crash can lose an answer that was paid
for, and can never give one away. Nothing here lowers what was spent.

A ledger is kept in a SQLite file (the default), on a database server, or in the memory of the process, all
through SQLAlchemy. Each charge is one transaction that takes the writers' lock before it reads (``BEGIN
IMMEDIATE`` in SQLite, ``SELECT ... FOR UPDATE`` elsewhere), so that two processes that ask for the last of a
budget at the same moment cannot both get it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections import defaultdict
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from dfprivacy import _forks as forks
from dfprivacy._ledger.accounts import Account, ChargeStandsError, filter_columns, retry_rolled_back
from dfprivacy._ledger.address import (
    ELSEWHERE,
    LOCK_SECONDS,
    MEMORY,
    address_for_reading,
    engine_of,
    file_of_address,
    ledger_address,
    sync_to_disk,
    temporary_copy,
)
from dfprivacy._ledger.known_states import LedgerState, lacks_known_state, memory_of, newest_state
from dfprivacy._ledger.names import (
    LENGTH,
    checked_analyst,
    edition_key,
    has_invisible_characters,
    name_key,
)
from dfprivacy._ledger.tables import (
    KEY_BYTES,
    SCHEMA_VERSION,
    DataTable,
    current_time,
    read_relation,
    read_text,
    read_time,
    sha256_of_text,
    table_definitions,
    tables,
    write_relation,
)
from dfprivacy._privacy.filters import Accountant, Accounting
from dfprivacy.errors import AccountMismatch, ArgumentError, LedgerError

if TYPE_CHECKING:  # SQLAlchemy takes a fifth of a second to import: it waits for the first ledger
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from fractions import Fraction

    from sqlalchemy import URL, Connection, Engine, Row, Select, Table

__all__ = ["Ledger", "LedgerRecord", "ledger_file", "open_ledger"]

T = TypeVar("T")
DAMAGE = ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError
"""What readers of rows raise for what dfprivacy never writes."""

_NEWEST = 1000
"""Charges that are held against what was spent when an account is opened."""
_ROOM = 1 << 24
"""Free bytes of the disk, at least, before a charge: the answer that it pays has to be kept."""
_FREE_SPACE = "Free space on the ledger's disk, and ask again."


@dataclass(frozen=True)
class LedgerRecord:
    """A recorded event of a ledger: made, found, forgotten, restored, or an analyst's key."""

    at: datetime
    event: str
    subject: str
    value: str

    @classmethod
    def read(cls, row: Row[Any]) -> Self:
        """Construct from a row of the ledger; raise a `ValueError` or the like for a damaged row."""
        return cls(read_time(row.at), *map(read_text, row[2:]))


class Ledger:
    """The accounts in one place; made by `open_ledger`.

    Attributes
    ----------
    where : str
        The file, the address without its password, or ``"memory:"``.
    file : Path or None
        Its file, without symbolic links; None where there is none.
    memory : Memory or None
        How far it had come when it was last seen here; None for the ledger in memory, and for a passing copy.
    schema : int
        The version of its tables: an older one if they could not be brought up to date.
    """

    schema = SCHEMA_VERSION

    def __init__(self, url: URL, where: str, *, passing: bool = False) -> None:
        self.where = where
        self._id = ""
        self._process = os.getpid()
        self._engine: Engine | None = engine_of(url, where)
        file = file_of_address(url)
        self.file = None if file is None else Path(os.path.realpath(file))
        self.memory = None if passing or where == MEMORY else memory_of(self.file or where)
        self._make_file(reading="immutable" in url.query or url.query.get("mode") == "ro")
        fresh = self._make_missing_tables(backup=not passing)
        self._refuse_outdated(fresh=fresh)

    def __repr__(self) -> str:
        return f"Ledger({self.where!r})"

    @property
    def keeps_measurements(self) -> bool:
        """Whether the ledger keeps measurements."""
        return self.schema > 1

    @property
    def keeps_analysts(self) -> bool:
        """Whether the ledger keeps the names of askers, and shares of analysts."""
        return self.schema > 2  # noqa: PLR2004 - see `SCHEMA_VERSION`

    def __reduce__(self) -> tuple[Callable[[str], Ledger], tuple[str]]:
        # A copy in another process opens the same place. A password stays here: there it comes from the driver.
        return open_ledger, (self.where,)

    @retry_rolled_back
    def open_account(
        self,
        name: str,
        *,
        epsilon: Fraction,
        delta: Fraction,
        accounting: str | None,
        neighbors: str,
        shares: Mapping[str, Fraction] | None = None,
    ) -> Account:
        """Open an account of people, or return it if it was opened before with the same terms.

        Parameters
        ----------
        name : str
            The account's name.
        epsilon, delta : Fraction
            The whole budget.
        accounting : str or None
            How privacy losses are composed; None for the default, which depends on delta.
        neighbors : str
            The neighbouring relation.
        shares : mapping of str to Fraction, optional
            The epsilon that each analyst may spend of it. Those that have theirs already keep it.

        Returns
        -------
        Account
            The account, whatever was spent of it before.

        Raises
        ------
        AccountMismatch
            If the name, or one that looks the same, is known with other terms: a budget is given once.
        LedgerError
            If less was spent of the account than its charges add up to.
        """
        _refuse_name(name)
        accountant = Accountant.open(cast("Accounting | None", accounting), epsilon, delta)
        account = self.find_account(name)
        if account is None:
            self._add_account(
                name=name,
                epsilon=str(epsilon),
                delta=str(delta),
                accounting=accountant.accounting,
                neighbors=write_relation(neighbors, secrets.token_hex(KEY_BYTES)),
                public="[]",  # of schema 4 and before
                opened=current_time(),
                **filter_columns(accountant, accountant.no_charges),
            )
            account = self.account(name)
        _refuse_other_terms(
            f"The account {name!r} is known to the ledger {self.where}",
            {
                "epsilon": (account.epsilon, epsilon),
                "delta": (account.delta, delta),
                "accounting": (account.accounting, accountant.accounting),
                "neighbors": (account.neighbors, neighbors),
            },
            "Use the terms it was given first, or give other people an account of another name.",
        )
        if shares:
            account.give_shares(shares)
        account.check(_NEWEST)
        return account

    def find_table(self, table: DataTable) -> DataTable | None:
        """Return a table as it was protected first; None for a new table, or a new edition.

        Raises
        ------
        AccountMismatch
            If the table, or the edition, is known otherwise.
        """
        _refuse_name(table.name)
        return _find_table(table, self._tables_of_name(table.name), self.where)

    def _tables_of_name(self, name: str) -> list[DataTable]:
        """Return all editions of a table, oldest first."""
        accounts, data_tables = tables().accounts, tables().data_tables
        first = self.read(accounts.select().where(accounts.c.name == name), DataTable.read_from_account)
        query = data_tables.select().where(data_tables.c.name == name).order_by(data_tables.c.id)
        return [*(each for row in first for each in row), *self.read(query, DataTable.read)]

    @retry_rolled_back
    def add_table(self, table: DataTable) -> None:
        """Add a table to its account, unless another process has just done so."""
        data_tables, accounts = tables().data_tables, tables().accounts
        with self.transaction(write=True) as connection:
            connection.execute(tables().ledger.select().with_for_update())  # as for a new account
            rows = {row.name: row for row in connection.execute(_oldest_first())}
            with self.reporting_damage():
                first = [table for row in rows.values() for table in DataTable.read_from_account(row)]
                known = [*first, *map(DataTable.read, connection.execute(data_tables.select()))]
                neighbors, key = read_relation(rows[table.account].neighbors)
            _refuse_lookalike(table.name, [*rows, *(each.name for each in known)], self.where)
            if _find_table(table, [each for each in known if each.name == table.name], self.where):
                return
            own = [each for each in first if each.account == table.account]
            connection.execute(data_tables.insert(), [each.columns() for each in (*own, table)])
            if own:  # the account's row said so far what its table is
                relation = write_relation(neighbors, key or secrets.token_hex(KEY_BYTES))
                named = accounts.update().where(accounts.c.name == table.account)
                connection.execute(named.values(neighbors=relation, public="[]"))

    def find_account(self, name: str) -> Account | None:
        """Return the account of a name; None if there is none."""
        named = tables().accounts.select().where(tables().accounts.c.name == name)
        found = self.read(named, lambda row: Account.read(row, self))
        return found[0] if found else None

    def _add_account(self, name: str, **values: str) -> None:
        """Add a new account, unless another process has just done so."""
        from sqlalchemy.exc import IntegrityError

        accounts = tables().accounts
        with self.transaction(write=True) as connection:
            # A server locks rows: two new names wait for each other here, or each would miss the other.
            connection.execute(tables().ledger.select().with_for_update())
            with self.reporting_damage():
                names = [read_text(row.name) for row in connection.execute(_oldest_first())]
            _refuse_lookalike(name, names, self.where)
            # A process of an older dfprivacy takes no turn, and may insert it at this moment: then its terms count.
            with suppress(IntegrityError), connection.begin_nested():
                connection.execute(accounts.insert().values(name=name, **values))

    def account(self, name: str) -> Account:
        """Return the account of a data set; a `LedgerError` if there is none of this name."""
        known = {account.name: account for account in self.accounts()}
        if name not in known:
            names = ", ".join(map(repr, known)) or "none"
            raise LedgerError(
                f"The ledger {self.where} has no account {name!r}; it has {names}.", "Check the name."
            )
        return known[name]

    def accounts(self) -> list[Account]:
        """Return every account, oldest first."""
        return self.read(_oldest_first(), lambda row: Account.read(row, self))

    def problems(self) -> list[str]:
        """Return sentences about problems of the accounts."""
        accounts, alike = self.accounts(), defaultdict(list)
        for account in accounts:
            alike[name_key(account.name)].append(account.name)
        problems = [
            f"The names {' and '.join(map(ascii, names))} look the same: if they hold the same people, these "
            f"people have {len(names)} budgets, and their privacy losses add up."
            for names in alike.values()
            if len(names) > 1
        ]
        if self.schema != SCHEMA_VERSION:
            problems.append(
                "It was made by an older dfprivacy, cannot be brought up to date from here, and can only be read. "
                "Open it once where tables can be made."
            )
        for account in accounts:
            try:
                account.check()
            except LedgerError as error:
                problems.append(f"{error.what} {error.hint}")
        return problems

    def records(self) -> list[LedgerRecord]:
        """Return the recorded events of the ledger, oldest first."""
        table = tables().records
        return self.read(table.select().order_by(table.c.id), LedgerRecord.read)

    def records_about(self, subject: str) -> list[LedgerRecord]:
        """Return the recorded events about a subject, oldest first."""
        table = tables().records
        return self.read(table.select().where(table.c.subject == subject).order_by(table.c.id), LedgerRecord.read)

    def record(self, event: str, subject: str, value: str) -> None:
        """Write a record, unless it exists."""
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
        """Record an analyst's key; raise an `ArgumentError` if it belongs to another analyst."""
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
        """Open one transaction; with `write`, it takes the writers' lock now and is committed at the end.

        No transaction writes a ledger that is another one than was seen before, or lacks what it had then.
        """
        from sqlalchemy.exc import SQLAlchemyError

        try:
            engine, process = self._usable_engine(), os.getpid()
            # Before the transaction begins, for a server may show it what was committed until then.
            known = self._required_state() if write else []
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
        """Read the rows of a query, once for each of several sets of its parameters.

        There are none of a table that an older ledger has not.
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
        """Convert errors about a damaged row to a `LedgerError`."""
        try:
            yield
        except DAMAGE as error:
            raise LedgerError(f"A row of the ledger {self.where} is damaged.", ELSEWHERE) from error

    def _usable_engine(self) -> Engine:
        if self._engine is None:
            raise LedgerError(f"The ledger {self.where} is closed.", "Open it, and protect the data, again.")
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
            self._refuse_links()

    def _refuse_outdated(self, *, fresh: bool) -> None:
        """Refuse a ledger that lacks charges seen before; remember its newest state."""
        from sqlalchemy.exc import OperationalError

        if self.memory is None or self.schema != SCHEMA_VERSION:
            return
        known, noted = self.memory.recall_states(), False
        with self.transaction() as connection:
            self._refuse_lost_charges(connection, known.values())
            seen = newest_state(connection.exec_driver_sql)
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

    def _required_state(self) -> list[LedgerState]:
        """Return the state that the ledger must include; refuse one that is not safe to write."""
        if self.schema != SCHEMA_VERSION:
            raise LedgerError(
                f"The ledger {self.where} was made by an older dfprivacy, and can only be read from here.",
                "Open it once where tables can be made.",
            )
        if self.memory is None or not self._id:  # a passing copy, or not yet open
            return []
        if self.memory.file_is_lost:
            raise self._lost_ledger_error()
        self._refuse_links()
        return [*({self._id: LedgerState(self._id)} | self.memory.recall_states()).values()]

    def _refuse_lost_charges(self, connection: Connection, known: Iterable[LedgerState]) -> None:
        if any(lacks_known_state(connection.exec_driver_sql, seen) for seen in known):
            raise self._lost_ledger_error()

    def _lost_ledger_error(self) -> LedgerError:
        again = "Put the file back, or restore a newer backup with `dfprivacy ledger restore SOURCE`. If it was "
        again += "deleted on purpose, with all that was released from it, say so: "
        again += f"`dfprivacy ledger forget {self.where}`."
        return LedgerError(
            f"The ledger {self.where} was lost, or replaced by an older or another one: it lacks charges or shares "
            "that were seen in it.",
            again if self.file else "Restore a newer backup of the server, and start this process again.",
        )

    def _refuse_links(self) -> None:
        """Refuse a file with hard links: SQLite has a write-ahead log for each name."""
        if self.file is not None and self.file.stat().st_nlink > 1:
            raise LedgerError(
                f"The ledger {self.where} has several names (hard links), and each name would have its own budget.",
                "Delete the other names.",
            )

    def _refuse_foreign(self) -> None:
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
                f"The file of the ledger {self.where} holds {ascii(foreign[0])[:50]}, which belongs to no ledger.",
                "Name another file, or restore a backup without it.",
            )

    def _make_missing_tables(self, *, backup: bool) -> bool:
        """Make missing tables; return whether any was made."""
        version = first = self._schema_version()
        self._refuse_foreign()
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
        """Make the tables that an older schema lacks, after a backup of the file; all rows stay."""
        copy, every = (
            self._backup_beside(version) if version and backup and self.file is not None else None,
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
                    first = connection.execute(_oldest_first()).first()
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

    def _backup_beside(self, version: int) -> Path:
        """Make a backup of the file beside it."""
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


def _refuse_name(name: str) -> None:
    if not name.strip() or not name.isprintable() or len(name) > LENGTH:
        raise ArgumentError("The name is not a short line of text.", f"Use 1 to {LENGTH} printable characters.")


def _refuse_lookalike(name: str, known: Sequence[str], where: str) -> None:
    """Refuse a new name that looks the same as a known one, or that nobody can see."""
    same = [each for each in known if name_key(each) == name_key(name)]
    if same and name not in same:
        raise AccountMismatch(
            f"The name {name!r} looks the same as {' and '.join(map(repr, same))}, known to the ledger {where}.",
            "Use the name as it was given first, or one that reads differently.",
        )
    if has_invisible_characters(name) and not same:
        raise ArgumentError("The name has invisible characters.", f"Use 1 to {LENGTH} printable characters.")


def _refuse_other_terms(what: str, terms: Mapping[str, tuple[object, object]], hint: str) -> None:
    differ = [f"{term} = {one}, not {two}" for term, (one, two) in terms.items() if one != two]
    if differ:
        raise AccountMismatch(f"{what} with {'; '.join(differ)}.", hint)


def _find_table(table: DataTable, known: Sequence[DataTable], where: str) -> DataTable | None:
    """Find a table among its known editions; see `Ledger.find_table`."""
    if not known:
        return None
    first = known[0]
    if first.account != table.account:
        raise AccountMismatch(
            f"The table {table.name!r} belongs to the account {first.account!r} of the ledger {where}, and not to "
            f"{table.account!r}.",
            f"Protect it with account={first.account!r}, or give another table another name.",
        )
    now, before = table.words, first.words
    _refuse_other_terms(
        f"The table {table.name!r} is known to the ledger {where}",
        {term: (before[term], now[term]) for term in now},
        "Use the terms it was given first, or give another table another name.",
    )
    for each in known:
        if each.edition == table.edition:
            _refuse_changed_edition(each, table)
            return each
    editions = [each.edition for each in known]
    if not table.edition:
        raise AccountMismatch(
            f"The table {table.name!r} has editions: {', '.join(map(repr, editions))}.",
            f"Say which one these rows are: edition={editions[-1]!r}.",
        )
    last = max(editions, key=edition_key)
    if edition_key(table.edition) <= edition_key(last):
        raise AccountMismatch(
            f"The edition {table.edition!r} of {table.name!r} does not come after the last one, {last!r}.",
            f"Editions go forward: give the new rows a later edition, or name one of "
            f"{', '.join(repr(each) for each in editions if each)}.",
        )
    return None


def _refuse_changed_edition(known: DataTable, table: DataTable) -> None:
    """Refuse an edition whose public number of rows, or of people, has changed."""
    if table.edition and known.size != table.size:
        raise AccountMismatch(
            f"The edition {table.edition!r} of {table.name!r} had a public size of {known.size}, not {table.size}.",
            "An edition never changes: give the new rows a later one.",
        )


def _oldest_first() -> Select[Any]:
    """Select the accounts in the order in which they were opened."""
    table = tables().accounts
    return table.select().order_by(table.c.opened, table.c.name)


def _normalised_sql(sql: str) -> str:
    """Return an SQL definition without spaces and quotation marks."""
    return "".join(sql.split()).replace('"', "")


def open_ledger(where: str | os.PathLike[str] | None = None) -> Ledger:
    """Open a ledger; make it if it does not exist.

    Parameters
    ----------
    where : str or path, optional
        A SQLite file, in a folder that exists; ``"memory:"`` for the one ledger in the memory of this
        process, which ends with it; or the address of a database, ``"postgresql://user@host/database"``.
        Else the environment variable ``DFPRIVACY_LEDGER`` says where; else it is ``ledger.sqlite`` in the
        user's data directory.

    Returns
    -------
    Ledger

    Raises
    ------
    LedgerError
        If the place cannot hold a ledger, or holds one of a newer dfprivacy.
    MissingDependency
        If the driver of the database is not installed.

    Examples
    --------
    >>> open_ledger("memory:")
    Ledger('memory:')
    >>> open_ledger("memory:") is open_ledger("memory:")
    True
    """
    url = ledger_address(where)
    if url.get_backend_name() != "sqlite" or url.query:
        shown = url.difference_update_query(["password", "sslpassword"])
        return Ledger(url, shown.render_as_string(hide_password=True))
    if url.database in {None, "", ":memory:"}:
        # The same object every time, closed or not: a second one would be a second budget.
        return _in_memory.get(MEMORY) or _in_memory.setdefault(MEMORY, Ledger(url, MEMORY))
    return Ledger(address_for_reading(url), str(url.database))


def ledger_file(where: str | os.PathLike[str] | None = None) -> Path:
    """Return the file that `open_ledger` would open; raise a `LedgerError` if it is not in a file."""
    file = file_of_address(ledger_address(where))
    if file is None:
        raise LedgerError("This ledger is not in a file.", "Use the tools of its server.")
    return file


_SINCE = {
    "measurements": 2,
    "askers": 3,
    "shares": 3,
    "records": 4,
    "data_tables": 5,
}  # the schema that first had each
_in_memory: dict[str, Ledger] = {}
