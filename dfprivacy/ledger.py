"""The ledger: who spent what on which data set.

Every data set has one account, under its name. A release is charged to it, and the charge is on the disk,
before the data are read: a crash can lose an answer that was paid for, and can never give one away. Nothing
here lowers what was spent.

A ledger is kept in a SQLite file (the default), on a database server, or in the memory of the process, all
through SQLAlchemy. Each charge is one transaction that takes the writers' lock before it reads (``BEGIN
IMMEDIATE`` in SQLite, ``SELECT ... FOR UPDATE`` elsewhere), so that two processes that ask for the last of a
budget at the same moment cannot both get it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dfprivacy.accounting import Accountant, Accounting, Spent
from dfprivacy.errors import AccountMismatch, ArgumentError, BudgetExceeded, LedgerError, MissingDependency
from dfprivacy.losses import PrivacyLoss, loss_from_dict

if TYPE_CHECKING:  # SQLAlchemy takes a fifth of a second to import: it waits for the first ledger
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import URL, Column, Connection, Engine, MetaData, Row, Table

__all__ = ["Account", "Answer", "Entry", "Ledger", "open_ledger"]

SCHEMA_VERSION = 1
LOCK_SECONDS = 60  # SQLite's queue is unfair: one writer among several can wait for seconds
NAME_LENGTH = 200
MEMORY = "memory:"
_ELSEWHERE = "Mend it, or choose another ledger with ledger=... or DFPRIVACY_LEDGER."


class _ChargeStandsError(LedgerError):
    """The ledger failed when, or after, a charge was committed."""

    outcome = "Nothing was released; what was charged stays charged."


@dataclass(frozen=True)
class Entry:
    """One charge: its number, the call and mechanism it was made for, when (in UTC), and the privacy loss."""

    id: int
    call: str
    at: datetime
    mechanism: str
    loss: PrivacyLoss
    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True)
class Answer:
    """One released answer; `question` is the canonical JSON text of what was asked."""

    id: int
    call: str
    at: datetime
    mechanism: str
    question: str | None
    release: dict[str, Any]


@dataclass(frozen=True)
class Account:
    """The account of one data set: a handle, made by `Ledger.open_account`, whose terms never change.

    Attributes
    ----------
    name : str
        The data set's name.
    epsilon, delta : Fraction
        The whole budget.
    accounting : str
        How privacy losses are composed.
    neighbors : str
        The neighbouring relation that every loss of this account refers to.
    public : tuple of str
        What else was declared public about the data set.
    opened : datetime
        When the account was opened, in UTC.
    accountant : Accountant
        The filters that decide what the account can pay, as they were fixed at opening.
    ledger : Ledger
        Where the account is kept.
    """

    name: str
    epsilon: Fraction
    delta: Fraction
    accounting: str
    neighbors: str
    public: tuple[str, ...]
    opened: datetime
    accountant: Accountant = field(repr=False)
    ledger: Ledger = field(repr=False)

    def spent(self) -> Spent:
        """Return what has been spent so far, by every process that shares the ledger."""
        accounts = _schema().accounts
        with self.ledger.transaction() as connection:
            row = connection.execute(accounts.select().where(accounts.c.name == self.name)).one()
        return self._spent(row)

    @property
    def adds_up(self) -> bool:
        """Whether epsilons simply add up."""
        return self.accountant.accounting == "basic"

    def largest(self, *kind: Any) -> Fraction:
        """Largest epsilon it can pay now; see `Accountant.largest`."""
        return self.accountant.largest(self.spent(), *kind)

    def default_delta(self, epsilon: Fraction) -> Fraction:
        """Give the delta of a call that says none: the budget's in proportion."""
        return self.accountant.default_delta(epsilon)

    def charge(
        self,
        *losses: PrivacyLoss,
        call: str,
        mechanism: str,
        then: Sequence[PrivacyLoss] = (),
        also: Sequence[Account] = (),
    ) -> int:
        """Charge losses, all at once or none; when this returns, the charge is on the disk, for good.

        Parameters
        ----------
        *losses : PrivacyLoss
            The losses of the measurement about to be made.
        call : str
            The call the measurement belongs to; a call may make several.
        mechanism : str
            The mechanism's name.
        then : sequence of PrivacyLoss, optional
            The losses of the rest of the call. They must fit as well, so that no call ends half way for want of
            budget; they are charged only when they are incurred.
        also : sequence of Account, optional
            Accounts of the same ledger that are charged the same: all of them or none, in one transaction.

        Returns
        -------
        int
            The number of the last entry.

        Raises
        ------
        BudgetExceeded
            If an account cannot pay; nothing is charged, of none of them.
        LedgerError
            If the charge could not be committed; then nothing may be released.
        """
        accounts, charges = _schema().accounts, _schema().charges
        every = sorted([self, *also], key=lambda account: account.name)  # locked in one order by all processes
        after = {}
        with self.ledger.transaction(write=True) as connection:
            for account in every:
                this = accounts.select().where(accounts.c.name == account.name).with_for_update()
                spent = account._spent(connection.execute(this).one())  # noqa: SLF001 - of our own kind
                after[account.name] = functools.reduce(account.accountant.after, losses, spent)
                whole = functools.reduce(account.accountant.after, then, after[account.name])
                if not (account.accountant.holds(after[account.name]) and account.accountant.holds(whole)):
                    raise account._exceeded(spent, [*losses, *then], mechanism)  # noqa: SLF001
            for account in every:
                written = accounts.update().where(accounts.c.name == account.name)
                connection.execute(written.values(spent=json.dumps(after[account.name].to_list())))
                for loss in losses:
                    price = {"epsilon": str(loss.epsilon), "delta": str(loss.delta)}
                    paid = {"loss": json.dumps(loss.to_dict()), **price}
                    entry = charges.insert().values(**account._event(call, mechanism), **paid)  # noqa: SLF001
                    key = connection.execute(entry).inserted_primary_key
        return int(cast("Row[Any]", key)[0])

    def keep(
        self,
        *,
        call: str,
        mechanism: str,
        question: str | None,
        release: dict[str, Any],
        also: Sequence[Account] = (),
    ) -> None:
        """Keep an answer, so that the same question can be answered again at no charge.

        Parameters
        ----------
        call, mechanism : str
            The call that paid for the answer, and the mechanism's name.
        question : str or None
            The canonical JSON text of what was asked; None for an answer that is never given again.
        release : dict
            The answer, of JSON types.
        also : sequence of Account, optional
            Accounts of the same ledger that have paid for it too.

        Raises
        ------
        LedgerError
            If the answer could not be kept; its charge stays.
        """
        asked = {"question": question, "question_sha256": None if question is None else _sha256(question)}
        answer = {**asked, "release": json.dumps(release)}
        with self.ledger.transaction(write=True, failure=_ChargeStandsError) as connection:
            for account in (self, *also):
                event = account._event(call, mechanism)  # noqa: SLF001 - of our own kind
                connection.execute(_schema().answers.insert().values({**event, **answer}))

    def answer(self, question: str) -> Answer | None:
        """Return the newest answer to a question (its canonical JSON text), or None."""
        answers = _schema().answers
        same = self._answers(answers.c.question_sha256 == _sha256(question), answers.c.question == question)
        return same[-1] if same else None

    def answers(self) -> list[Answer]:
        """Return every answer kept, oldest first."""
        return self._answers()

    def entries(self) -> list[Entry]:
        """Return every charge, oldest first."""
        rows = self._rows(_schema().charges)
        with self.ledger.decoding():
            losses = [loss_from_dict(json.loads(row.loss)) for row in rows]
            return [
                Entry(*_event(row), loss, Fraction(row.epsilon), Fraction(row.delta))
                for row, loss in zip(rows, losses, strict=True)
            ]

    def _answers(self, *conditions: Any) -> list[Answer]:
        rows = self._rows(_schema().answers, *conditions)
        with self.ledger.decoding():
            return [Answer(*_event(row), row.question, json.loads(row.release)) for row in rows]

    def _event(self, call: str, mechanism: str) -> dict[str, str]:
        return {"account": self.name, "call": call, "at": _now(), "mechanism": mechanism}

    def _rows(self, table: Table, *conditions: Any) -> list[Row[Any]]:
        query = table.select().where(table.c.account == self.name, *conditions).order_by(table.c.id)
        with self.ledger.transaction() as connection:
            return list(connection.execute(query))

    def _spent(self, row: Row[Any]) -> Spent:
        with self.ledger.decoding():
            return Spent.from_list(json.loads(row.spent))

    def _exceeded(self, spent: Spent, losses: list[PrivacyLoss], mechanism: str) -> BudgetExceeded:
        epsilon = _shown(sum((loss.epsilon for loss in losses), Fraction()))
        delta = _shown(sum((loss.delta for loss in losses), Fraction()))
        left = _shown(self.accountant.largest(spent, "laplace"))
        return BudgetExceeded(
            f"{mechanism} asks for epsilon = {epsilon}, delta = {delta} of the data set {self.name!r}, where "
            f"one more release with Laplace noise can have epsilon = {left}.",
            "Ask for less; a question that was answered before can be asked again at no charge.",
        )


class Ledger:
    """The accounts in one place; made by `open_ledger`.

    Attributes
    ----------
    where : str
        The file, the address without its password, or ``"memory:"``.
    """

    def __init__(self, url: URL, where: str) -> None:
        self.where = where
        self._process = os.getpid()
        # One connection holds a ledger in memory, so its users take turns. Elsewhere there must be no lock in
        # the process: a fork could copy it while another thread holds it.
        self._turn = threading.RLock() if where == MEMORY else nullcontext()
        self._engine: Engine | None = _engine(url, where)
        self._prepare()

    def __repr__(self) -> str:
        return f"Ledger({self.where!r})"

    def __reduce__(self) -> tuple[Callable[[str], Ledger], tuple[str]]:
        # A copy in another process opens the same place. A password stays here: there it comes from the driver.
        return open_ledger, (self.where,)

    def open_account(
        self,
        name: str,
        *,
        epsilon: Fraction,
        delta: Fraction,
        accounting: str | None,
        neighbors: str,
        public: tuple[str, ...],
    ) -> Account:
        """Open the account of a data set, or return it if it was opened before with the same terms.

        Parameters
        ----------
        name : str
            The data set's name.
        epsilon, delta : Fraction
            The whole budget.
        accounting : str or None
            How privacy losses are composed; None for the default, which depends on delta.
        neighbors : str
            The neighbouring relation.
        public : tuple of str
            What else is declared public about the data set.

        Returns
        -------
        Account
            The account, whatever was spent of it before.

        Raises
        ------
        AccountMismatch
            If the name is known with other terms: a budget is given once.
        """
        from sqlalchemy.exc import IntegrityError

        if not name.strip() or not name.isprintable() or len(name) > NAME_LENGTH:
            raise ArgumentError(
                "The data set's name is not a short line of text.",
                f"Use 1 to {NAME_LENGTH} printable characters.",
            )
        accountant = Accountant.open(cast("Accounting | None", accounting), epsilon, delta)
        asked = {
            "epsilon": str(epsilon),
            "delta": str(delta),
            "accounting": accountant.accounting,
            "neighbors": neighbors,
            "public": json.dumps(public),
        }
        accounts = _schema().accounts
        known = accounts.select().where(accounts.c.name == name)
        new = accounts.insert().values(
            name=name,
            **asked,
            accountant=json.dumps(accountant.to_dict()),
            spent=json.dumps(accountant.nothing.to_list()),
            opened=_now(),
        )
        with self.transaction(write=True) as connection:
            if connection.execute(known).first() is None:
                # On a server another process may insert it at this moment: then the other's terms count.
                with suppress(IntegrityError), connection.begin_nested():
                    connection.execute(new)
            row = connection.execute(known).one()
        stored = {term: getattr(row, term) for term in asked}
        differ = [f"{term} = {stored[term]}, not {asked[term]}" for term in asked if stored[term] != asked[term]]
        if differ:
            raise AccountMismatch(
                f"The data set {name!r} is known to the ledger {self.where} with {'; '.join(differ)}.",
                "Use the terms it was given first, or give another data set another name.",
            )
        return self._account(row)

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
        accounts = _schema().accounts
        with self.transaction() as connection:
            rows = list(connection.execute(accounts.select().order_by(accounts.c.opened, accounts.c.name)))
        return [self._account(row) for row in rows]

    def close(self) -> None:
        """Close the ledger: every later use of it, or of its accounts, is a `LedgerError`."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    @contextmanager
    def transaction(self, *, write: bool = False, failure: type[LedgerError] = LedgerError) -> Iterator[Connection]:
        """Open one transaction; with `write`, it takes the writers' lock now and is committed at the end."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with self._turn, self._usable().connect() as connection:
                _begin(connection, write=write)
                yield connection
                if write:
                    failure = _ChargeStandsError  # a commit that fails may have reached the disk all the same
                    connection.commit()
        except (SQLAlchemyError, OSError) as error:
            reason = str(getattr(error, "orig", None) or error).partition("\n")[0]
            done = "written" if write else "read"
            raise failure(f"The ledger {self.where} cannot be {done}: {reason}.", _ELSEWHERE) from error

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Turn a failure to understand a row into a `LedgerError`."""
        try:
            yield
        except (ValueError, TypeError, KeyError) as error:
            raise LedgerError(f"A row of the ledger {self.where} is damaged.", _ELSEWHERE) from error

    def _usable(self) -> Engine:
        if self._engine is None:
            raise LedgerError(f"The ledger {self.where} is closed.", "Open it, and protect the data, again.")
        if self.where == MEMORY and os.getpid() != self._process:
            raise LedgerError(
                "The ledger in memory stays with its process: the copy in a fork would be a second budget.",
                "Use a ledger file.",
            )
        return self._engine

    def _prepare(self) -> None:
        from sqlalchemy.exc import OperationalError

        if self._version() is None:
            try:
                with self.transaction(write=True) as connection:
                    _schema().metadata.create_all(connection, checkfirst=False)
                    connection.execute(_schema().ledger.insert().values(schema_version=SCHEMA_VERSION))
            except LedgerError:
                if self._version() is None:  # else another process made it at this moment
                    raise
        version = self._version()
        if version != SCHEMA_VERSION:
            raise LedgerError(
                f"The ledger {self.where} is of a newer dfprivacy (schema {version}, not {SCHEMA_VERSION}).",
                "Upgrade dfprivacy, or choose another ledger.",
            )
        if self._usable().dialect.name == "sqlite":
            # Writing ahead is a matter of speed, not of safety: who finds the file busy leaves it as it is.
            with self.transaction() as connection, suppress(OperationalError):
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")

    def _version(self) -> int | None:
        from sqlalchemy import inspect

        with self.transaction() as connection:
            if not inspect(connection).has_table("ledger"):
                return None
            return int(connection.execute(_schema().ledger.select()).scalar_one())

    def _account(self, row: Row[Any]) -> Account:
        with self.decoding():
            return Account(
                name=row.name,
                epsilon=Fraction(row.epsilon),
                delta=Fraction(row.delta),
                accounting=row.accounting,
                neighbors=row.neighbors,
                public=tuple(json.loads(row.public)),
                opened=datetime.fromisoformat(row.opened),
                accountant=Accountant.from_dict(json.loads(row.accountant)),
                ledger=self,
            )


def open_ledger(where: str | os.PathLike[str] | None = None) -> Ledger:
    """Open a ledger, or make it.

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
    url = _url(os.fspath(where or os.environ.get("DFPRIVACY_LEDGER") or _default()))
    if url.get_backend_name() != "sqlite" or url.query:
        shown = url.difference_update_query(["password", "sslpassword"])
        return Ledger(url, shown.render_as_string(hide_password=True))
    if url.database in {None, "", ":memory:"}:
        # The same object every time, closed or not: a second one would be a second budget.
        return _in_memory.get(MEMORY) or _in_memory.setdefault(MEMORY, Ledger(url, MEMORY))
    return Ledger(url, str(url.database))


_in_memory: dict[str, Ledger] = {}


def _default() -> Path:
    import platformdirs

    folder = Path(platformdirs.user_data_dir("dfprivacy"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(f"The ledger's folder {folder} cannot be made: {error.strerror}.", _ELSEWHERE) from error
    return folder / "ledger.sqlite"


def _url(where: str) -> URL:
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
            raise LedgerError(f"The ledger's path cannot be used: {error}.", _ELSEWHERE) from error
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
        return _url(url.database or MEMORY)
    return url


def _engine(url: URL, where: str) -> Engine:
    from sqlalchemy import create_engine
    from sqlalchemy.exc import NoSuchModuleError
    from sqlalchemy.pool import NullPool, StaticPool

    # Without a pool no connection outlives its transaction, so none crosses a fork.
    options: dict[str, Any] = {
        "poolclass": StaticPool if where == MEMORY else NullPool,
        "hide_parameters": True,
    }
    if url.get_backend_name() == "sqlite":  # isolation_level None: BEGIN and COMMIT are ours, not the driver's
        options["connect_args"] = {
            "timeout": LOCK_SECONDS,
            "isolation_level": None,
            "check_same_thread": where != MEMORY,
        }
    try:
        return create_engine(url, **options)
    except NoSuchModuleError as error:
        raise LedgerError(f"{url.drivername!r} is no database that SQLAlchemy knows.", _ELSEWHERE) from error
    except ImportError as error:
        wanted = '"dfprivacy[postgresql]"' if url.get_backend_name() == "postgresql" else error.name
        raise MissingDependency(f"The ledger {where} needs {error.name}.", f"pip install {wanted}") from error


def _begin(connection: Connection, *, write: bool) -> None:
    if connection.dialect.name == "sqlite":
        # With NORMAL the last charges could be lost when the power fails.
        connection.exec_driver_sql("PRAGMA synchronous = FULL")
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        if write:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif connection.dialect.name == "postgresql":
        # A server may be set not to wait for its disk, and to wait for locks without end.
        connection.exec_driver_sql(
            "SELECT set_config('synchronous_commit', 'on', true), "
            f"set_config('lock_timeout', '{LOCK_SECONDS}s', true)"
        )


class _Schema(NamedTuple):
    metadata: MetaData
    ledger: Table
    accounts: Table
    charges: Table
    answers: Table


@functools.cache
def _schema() -> _Schema:
    """Return the tables. Numbers are exact text (``p/q``), times are ISO 8601 text in UTC."""
    from sqlalchemy import Column, ForeignKey, Index, Integer, MetaData, String, Table, Text

    def text(*names: str) -> list[Column[str]]:
        return [Column(name, Text, nullable=False) for name in names]

    def event() -> list[Column[Any]]:
        account = Column("account", String(NAME_LENGTH), ForeignKey("accounts.name"), nullable=False)
        return [Column("id", Integer, primary_key=True), account, *text("call", "at", "mechanism")]

    metadata = MetaData()
    name = Column("name", String(NAME_LENGTH), primary_key=True)
    terms = text("epsilon", "delta", "accounting", "neighbors", "public", "accountant", "opened")
    question = [Column("question", Text), Column("question_sha256", String(64))]
    by_account, by_question = (
        Index("charges_of", "account"),
        Index("answers_to", "account", "question_sha256"),
    )
    return _Schema(
        metadata,
        Table("ledger", metadata, Column("schema_version", Integer, nullable=False)),
        Table("accounts", metadata, name, *terms, *text("spent")),
        Table("charges", metadata, *event(), *text("loss", "epsilon", "delta"), by_account),
        Table("answers", metadata, *event(), *question, *text("release"), by_question),
    )


def _event(row: Row[Any]) -> tuple[int, str, datetime, str]:
    return row.id, row.call, datetime.fromisoformat(row.at), row.mechanism


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _shown(number: Fraction) -> str:
    """Return at most ten digits, rounded down: what is said to be left must be affordable."""
    digits = Context(prec=10, rounding=ROUND_FLOOR).divide(Decimal(number.numerator), Decimal(number.denominator))
    return f"{float(digits):.10g}"
