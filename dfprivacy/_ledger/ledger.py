"""Ledgers in a file or database: accounts, which are privacy budgets of people, and the accounts' tables.

Every account pays for the tables that hold its people; a table alone has an account of its name. A release is
charged to it, and the charge is on the disk, before the data are read: a crash can lose an answer that was paid
for, and can never give one away. Nothing here lowers what was spent.

A ledger is kept in a SQLite file (the default), on a database server, or in the memory of the process, all
through SQLAlchemy. Each charge is one transaction that takes the writers' lock before it reads (``BEGIN
IMMEDIATE`` in SQLite, ``SELECT ... FOR UPDATE`` elsewhere), so that two processes that ask for the last of a
budget at the same moment cannot both get it.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, cast

from dfprivacy._ledger.accounts import Account, accounting_row
from dfprivacy._ledger.address import (
    MEMORY,
    file_of_address,
    ledger_address,
    url_of_existing_file,
)
from dfprivacy._ledger.names import (
    LENGTH,
    edition_key,
    has_invisible_characters,
    name_key,
)
from dfprivacy._ledger.store import LedgerRecord, Store, oldest_accounts_first, retry_rolled_back
from dfprivacy._ledger.tables import (
    KEY_BYTES,
    SCHEMA_VERSION,
    DataTable,
    current_time,
    read_relation,
    read_text,
    tables,
    write_relation,
)
from dfprivacy._privacy.filters import Accountant, Accounting
from dfprivacy.errors import AccountMismatch, ArgumentError, LedgerError

if TYPE_CHECKING:  # SQLAlchemy takes a fifth of a second to import: it waits for the first ledger
    import os
    from collections.abc import Callable, Mapping, Sequence
    from fractions import Fraction
    from pathlib import Path


__all__ = ["Ledger", "LedgerRecord", "ledger_file", "open_ledger"]

T = TypeVar("T")

_NEWEST = 1000
"""Number of newest charges that are compared with the spent total when an account is opened."""


class Ledger(Store):
    """Ledger in one file or database, with accounts and their tables; made by `open_ledger`."""

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
            The epsilon that each analyst may spend of it. Existing shares stay.

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
                **accounting_row(accountant, accountant.no_charges),
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
        account.check_spent(_NEWEST)
        return account

    def find_table(self, table: DataTable) -> DataTable | None:
        """Return the table of this name and edition as it was first protected; None if it is new.

        Raises
        ------
        AccountMismatch
            If the table, or the edition, is known otherwise.
        """
        _refuse_name(table.name)
        return _find_table(table, self._tables_of_name(table.name), self.where)

    def _tables_of_name(self, name: str) -> list[DataTable]:
        """Return all editions of the table with a name, oldest first."""
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
            rows = {row.name: row for row in connection.execute(oldest_accounts_first())}
            with self.reporting_damage():
                first = [table for row in rows.values() for table in DataTable.read_from_account(row)]
                known = [*first, *map(DataTable.read, connection.execute(data_tables.select()))]
                neighbors, key = read_relation(rows[table.account].neighbors)
            _refuse_lookalike(table.name, [*rows, *(each.name for each in known)], self.where)
            if _find_table(table, [each for each in known if each.name == table.name], self.where):
                return
            own = [each for each in first if each.account == table.account]
            connection.execute(data_tables.insert(), [each.to_row() for each in (*own, table)])
            if own:  # the account's row said so far what its table is
                relation = write_relation(neighbors, key or secrets.token_hex(KEY_BYTES))
                named = accounts.update().where(accounts.c.name == table.account)
                connection.execute(named.values(neighbors=relation, public="[]"))

    def find_account(self, name: str) -> Account | None:
        """Return the account with a name; None if there is none."""
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
                names = [read_text(row.name) for row in connection.execute(oldest_accounts_first())]
            _refuse_lookalike(name, names, self.where)
            # A process of an older dfprivacy takes no turn, and may insert it at this moment: then its terms count.
            with suppress(IntegrityError), connection.begin_nested():
                connection.execute(accounts.insert().values(name=name, **values))

    def account(self, name: str) -> Account:
        """Return the account with a name; raise a `LedgerError` if there is none."""
        found = self.find_account(name)
        if found is None:
            names = ", ".join(repr(each.name) for each in self.accounts()) or "none"
            raise LedgerError(
                f"The ledger {self.where} has no account {name!r}; it has {names}.", "Check the name."
            )
        return found

    def accounts(self) -> list[Account]:
        """Return every account, oldest first."""
        return self.read(oldest_accounts_first(), lambda row: Account.read(row, self))

    def problems(self) -> list[str]:
        """Check all accounts, and return a sentence about each problem."""
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
                "The ledger was made by an older dfprivacy, and can only be read by this process. "
                "Open it once with permission to create tables, which updates it."
            )
        for account in accounts:
            try:
                account.check_spent()
            except LedgerError as error:
                problems.append(f"{error.what} {error.hint}")
        return problems


def _refuse_name(name: str) -> None:
    if not name.strip() or not name.isprintable() or len(name) > LENGTH:
        raise ArgumentError(
            "The name of an account or table is not a short printable text.",
            f"Use 1 to {LENGTH} printable characters.",
        )


def _refuse_lookalike(name: str, known: Sequence[str], where: str) -> None:
    """Refuse a new name that looks the same as a known one, or has invisible characters."""
    same = [each for each in known if name_key(each) == name_key(name)]
    if same and name not in same:
        raise AccountMismatch(
            f"The name {name!r} looks the same as {' and '.join(map(repr, same))}, known to the ledger {where}.",
            "Use the name as it was given first, or one that reads differently.",
        )
    if has_invisible_characters(name) and not same:
        raise ArgumentError(
            f"The name {name!a} has invisible characters.", f"Use 1 to {LENGTH} printable characters."
        )


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
    now, before = table.terms_by_argument, first.terms_by_argument
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
            f"Name the edition of these rows, such as edition={editions[-1]!r}.",
        )
    last = max(editions, key=edition_key)
    if edition_key(table.edition) <= edition_key(last):
        raise AccountMismatch(
            f"The edition {table.edition!r} of {table.name!r} does not come after the last one, {last!r}.",
            f"Give new rows an edition that sorts after {last!r}, or name a known edition: "
            f"{', '.join(repr(each) for each in editions if each)}.",
        )
    return None


def _refuse_changed_edition(known: DataTable, table: DataTable) -> None:
    """Refuse an edition whose public number of rows, or of people, has changed."""
    if table.edition and known.size != table.size:
        raise AccountMismatch(
            f"The edition {table.edition!r} of {table.name!r} had a public size of {known.size}, not {table.size}.",
            "The rows of an edition never change: give the new rows a later edition.",
        )


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
    return Ledger(url_of_existing_file(url), str(url.database))


def ledger_file(where: str | os.PathLike[str] | None = None) -> Path:
    """Return the file that `open_ledger` would open; raise a `LedgerError` for a ledger without a file."""
    file = file_of_address(ledger_address(where))
    if file is None:
        raise LedgerError(
            "This ledger is not in a file, but on a database server or in memory.",
            "Use the backup tools of the server.",
        )
    return file


_in_memory: dict[str, Ledger] = {}
