"""Accounts of data sets: charges to the budget, shares of analysts, and paid answers."""

from __future__ import annotations

import functools
import json
import operator
from collections import Counter
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar, cast

from dfprivacy._ledger.calls import ChargeRecord, KeptAnswer, call_record
from dfprivacy._ledger.known_states import current_state
from dfprivacy._ledger.names import current_analyst, name_key
from dfprivacy._ledger.store import ChargeStandsError, retry_rolled_back
from dfprivacy._ledger.tables import (
    DataTable,
    KeptMeasurement,
    Measurement,
    current_time,
    measurement_row,
    read_accountant,
    read_fraction,
    read_noisy_values,
    read_relation,
    read_spent,
    read_text,
    read_time,
    sha256_of_text,
    tables,
)
from dfprivacy._privacy.filters import Accountant, Accounting, Spent
from dfprivacy._privacy.losses import Gaussian, PrivacyLoss, Pure, loss_from_dict
from dfprivacy.errors import AccountMismatch, ArgumentError, BudgetExceeded, LedgerError

if TYPE_CHECKING:  # SQLAlchemy takes a fifth of a second to import: it waits for the first ledger
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy import Connection, Row, Select, Table

    from dfprivacy._ledger.calls import CallRecord, CallSelection
    from dfprivacy._ledger.store import Store

__all__ = [
    "Account",
    "AnalystShare",
    "JointAccount",
    "accounting_row",
]

P = ParamSpec("P")
T = TypeVar("T")
_by_name = operator.attrgetter("name")  # in one order every transaction locks accounts: none waits in a circle


@dataclass(frozen=True)
class AnalystShare:
    """Share of an account's budget that one analyst may spend, and the part of it that is spent.

    A share is a filter of its own beside that of the account: the same sums, with smaller caps, of the charges of
    one analyst. A charge has to fit into both, and both are written in one transaction. Shares are given once, as
    budgets are, and who has none of an account that has shares cannot ask.

    Names are taken at their word, from the environment or the system: a share keeps colleagues in order. It binds
    those who cannot write the ledger, for whom a custodian asks.
    """

    id: int
    analyst: str
    accountant: Accountant
    spent: Spent

    @classmethod
    def read(cls, row: Row[Any]) -> Self:
        """Construct a share from a row of the ledger; raise an error, such as `ValueError`, if it is damaged."""
        accountant = read_accountant(row.accountant)
        return cls(row.id, read_text(row.analyst), accountant, read_spent(row.spent, accountant))

    @property
    def epsilon(self) -> Fraction:
        """Epsilon that the analyst may spend in all."""
        return self.accountant.epsilon

    @property
    def remaining(self) -> Fraction:
        """Largest epsilon that one more question of the analyst can have, with Laplace noise."""
        return self.accountant.largest(self.spent)


@dataclass(frozen=True)
class Account:
    """Account with one budget for the people in its tables, made by `Ledger.open_account`; its terms never change.

    It pays for all its tables: neighbouring data sets differ in one person, in all of them.

    Attributes
    ----------
    name : str
        The account's name; that of its table, unless several tables share it.
    epsilon, delta : Fraction
        The whole budget.
    accounting : str
        How privacy losses are composed.
    neighbors : str
        The neighbouring relation that every loss of this account refers to.
    opened : datetime
        When the account was opened, in UTC.
    accountant : Accountant
        The filters that decide what the account can pay, as they were fixed at opening.
    ledger : Store
        Where the account is kept.
    key : str
        Secret key that chooses a person's rows. Empty in an older account of tables with one row a person.
    analyst : str
        The analyst who asks through this object; empty for the user of the process, see `current_analyst`.
    request : str
        The request, and the question in it, that is asked through this object; empty if there is none.
    """

    name: str
    epsilon: Fraction
    delta: Fraction
    accounting: str
    neighbors: str
    opened: datetime
    accountant: Accountant = field(repr=False)
    ledger: Store = field(repr=False)
    key: str = field(default="", repr=False)
    analyst: str = field(default="", repr=False)
    request: str = field(default="", repr=False)

    @classmethod
    def read(cls, row: Row[Any], ledger: Store) -> Self:
        """Construct an account from a row of the ledger; raise an error, such as `ValueError`, if it is damaged."""
        accountant = read_accountant(row.accountant)
        terms = accountant.epsilon, accountant.delta, accountant.accounting
        if terms != (read_fraction(row.epsilon), read_fraction(row.delta), row.accounting):
            raise ValueError
        neighbors, key = read_relation(row.neighbors)
        return cls(read_text(row.name), *terms, neighbors, read_time(row.opened), accountant, ledger, key)

    def tables(self) -> list[DataTable]:
        """Return the tables of the account, oldest first."""
        named = tables().accounts.select().where(tables().accounts.c.name == self.name)
        (first,) = self.ledger.read(named, DataTable.read_from_account)
        return [*first, *self.ledger.read(self.select_rows(tables().data_tables), DataTable.read)]

    @property
    def basic_composition(self) -> bool:
        """Whether the account adds up the epsilons of its charges (basic composition)."""
        return self.accountant.accounting == "basic"

    @property
    def keeps_measurements(self) -> bool:
        """Whether the account's ledger can store measurements, for later answers to reuse."""
        return self.ledger.keeps_measurements

    @property
    def asker(self) -> str:
        """Name of the analyst, or user, who asks."""
        return self.analyst or current_analyst()

    def spent(self) -> Spent:
        """Return the sums of the account's privacy filters after all charges so far, by any process."""
        with self.ledger.transaction() as connection:
            return self._spent(connection)

    def largest(self, *kind: Any) -> Fraction:
        """Return the largest epsilon that one question of the asker can have now; see `Accountant.largest`."""
        best = self.accountant.largest(self.spent(), *kind)
        with self.ledger.transaction() as connection:
            shares = self._shares(connection)
        share = shares.get(name_key(self.asker)) if shares else None
        if share is None:
            return Fraction(0) if shares else best
        return min(best, share.accountant.largest(share.spent, *kind))

    def default_delta(self, epsilon: Fraction) -> Fraction:
        """Return the default delta of a call: the budget's, in proportion to epsilon."""
        return self.accountant.default_delta(epsilon)

    def check_spent(self, most: int | None = None) -> None:
        """Raise a `LedgerError` if the spent total is below the sum of all charges, or of the `most` newest."""
        with self.ledger.transaction() as connection:
            shared = bool(self._shares(connection))
            # First: meanwhile more can be spent, never less.
            made = self._count_charges(connection, most, askers=shared)
            spent, shares = self._spent(connection), self._shares(connection) if shared else {}
        with self.ledger.reporting_damage():
            robbed = [
                f" by {share.analyst!r}"
                for key, share in shares.items()
                if not _covers_every_sum(share.spent, _sum_of_charges(share.accountant, made, key))
            ]
            if not _covers_every_sum(spent, _sum_of_charges(self.accountant, made)):
                robbed.append("")
        if robbed:
            raise LedgerError(
                f"In the ledger {self.ledger.where}, the spent total of {self.name!r}{robbed[0]} is below the "
                "sum of its charges.",
                "The ledger was changed or damaged: restore a backup with `dfprivacy ledger restore`.",
            )

    def give_shares(self, wanted: Mapping[str, Fraction]) -> None:
        """Add shares of analysts to the account; raise an `AccountMismatch` if an existing share differs.

        Earlier charges of an analyst count as spent from the share.
        """
        with self.ledger.transaction() as connection:
            known = {share.analyst: share.epsilon for share in self._shares(connection).values()}
        if known.items() >= wanted.items():  # most often nothing is new
            return
        with self.ledger.transaction(write=True) as connection:
            self._spent(connection, lock=True)
            shares, made = self._shares(connection), self._count_charges(connection)
            for analyst, epsilon in wanted.items():
                share = shares.get(name_key(analyst))
                if share is not None and (share.analyst, share.epsilon) != (analyst, epsilon):
                    raise AccountMismatch(
                        f"The share of {share.analyst!r} in the account {self.name!r} is epsilon = "
                        f"{share.epsilon}: {analyst!r} cannot be given a share of {epsilon}.",
                        "Give the share that is recorded: it cannot be changed.",
                    )
                if share is None:
                    delta = self.delta * epsilon / self.epsilon
                    accountant = Accountant.open(cast("Accounting", self.accounting), epsilon, delta)
                    with self.ledger.reporting_damage():
                        spent = _sum_of_charges(accountant, made, name_key(analyst))
                    row = {
                        "account": self.name,
                        "analyst": analyst,
                        "opened": current_time(),
                        **accounting_row(accountant, spent),
                    }
                    connection.execute(tables().shares.insert(), row)
            seen = current_state(connection.exec_driver_sql)
        self.ledger.remember_state(shares=seen.shares)

    @retry_rolled_back
    def charge(
        self,
        *losses: PrivacyLoss,
        call: str,
        mechanism: str,
        reserve: Sequence[PrivacyLoss] = (),
        also: Sequence[Account] = (),
    ) -> int:
        """Charge privacy losses to the account in one durable transaction: all of them, or none.

        Parameters
        ----------
        *losses : PrivacyLoss
            The losses of the measurement about to be made.
        call : str
            The call the measurement belongs to; a call may make several.
        mechanism : str
            The mechanism's name.
        reserve : sequence of PrivacyLoss, optional
            What the rest of the call may lose. It must fit as well, so that no call ends half way for want of
            budget; it is charged only when it is incurred.
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
            If the disk is nearly full, or the charge could not be committed; then nothing may be released.
        """
        self.ledger.refuse_full_disk()
        with self.ledger.transaction(write=True) as connection:
            for account in sorted([self, *also], key=_by_name):
                number = account._charge_with_share(connection, losses, reserve, call, mechanism, self)  # noqa: SLF001 - of our kind
        self.ledger.remember_state(charge=number, call=call)
        return number

    def _charge_with_share(
        self,
        connection: Connection,
        losses: Sequence[PrivacyLoss],
        reserve: Sequence[PrivacyLoss],
        call: str,
        mechanism: str,
        asker: Account,
    ) -> int:
        """Charge privacy losses to the account and to the asker's share; an error undoes both."""
        spent, shares = self._spent(connection, lock=True), self._shares(connection)
        rows: list[tuple[Table, Any, Accountant, Spent, str]] = [
            (tables().accounts, self.name, self.accountant, spent, f"the account {self.name!r}")
        ]
        if shares:
            share = shares.get(name_key(asker.asker))
            if share is None:
                raise BudgetExceeded(
                    f"{asker.asker!r} has no share of the budget of {self.name!r}, which other analysts share.",
                    "Ask the custodian for a share: protect(..., budgets={...}).",
                )
            of = f"the share that {share.analyst!r} has of the account {self.name!r}"
            rows.append((tables().shares, share.id, share.accountant, share.spent, of))
        for table, number, accountant, before, of in rows:
            after = functools.reduce(accountant.after, losses, before)
            reserved = functools.reduce(accountant.after, reserve, after)
            if not (accountant.holds(after) and accountant.holds(reserved)):
                raise _exceeded_error(accountant, before, [*losses, *reserve], mechanism, of)
            (key,) = table.primary_key
            connection.execute(table.update().where(key == number).values(spent=json.dumps(after.to_list())))
        event = self._begin_call(connection, call, mechanism, asker)
        for loss in losses:
            price = {"epsilon": str(loss.epsilon), "delta": str(loss.delta)}
            row = {**event, "loss": json.dumps(loss.to_dict()), **price}
            entry = connection.execute(tables().charges.insert(), row).inserted_primary_key
        return int(cast("Any", entry)[0])

    @retry_rolled_back
    def keep(
        self,
        *,
        call: str,
        mechanism: str,
        question: str | None,
        release: dict[str, Any] | None,
        measurements: Sequence[Measurement] = (),
        also: Sequence[Account] = (),
    ) -> None:
        """Store an answer and its measurements, so that neither is paid twice.

        Parameters
        ----------
        call, mechanism : str
            The call that paid for the answer, and the mechanism's name.
        question : str or None
            The canonical JSON text of what was asked; None for an answer that is never given again.
        release : dict or None
            The answer, of JSON types; None if the call failed after it had measured.
        measurements : sequence of Measurement, optional
            What the call measured.
        also : sequence of Account, optional
            Accounts of the same ledger that have paid for it too.

        Raises
        ------
        LedgerError
            If the answer could not be kept; its charge stays.
        """
        key = {"question": question, "question_sha256": None if question is None else sha256_of_text(question)}
        answers = [] if release is None else [{**key, "release": json.dumps(release)}]
        kept = [measurement_row(each) for each in measurements]
        with self.ledger.transaction(write=True, failure=ChargeStandsError) as connection:
            for account in sorted([self, *also], key=_by_name):  # a new row locks its account too
                event = account._begin_call(connection, call, mechanism, self)  # noqa: SLF001 - of our kind
                for table, rows in ((tables().answers, answers), (tables().measurements, kept)):
                    if rows:
                        connection.execute(table.insert(), [{**event, **row} for row in rows])

    def answer(self, *questions: str) -> KeptAnswer | None:
        """Return the newest answer to the first of several questions (canonical JSON) that has one, else None."""
        from sqlalchemy import bindparam

        table = tables().answers
        same = table.c.question_sha256 == bindparam("key"), table.c.question == bindparam("question")
        wanted = [{"key": sha256_of_text(each), "question": each} for each in questions]
        found = self.ledger.read(
            _newest_first(self.select_rows(table).where(*same), table, 1), KeptAnswer.read, wanted
        )
        return found[0] if found else None

    def measurements(self, keys: Sequence[str], *, private: bool) -> dict[tuple[str, str], list[KeptMeasurement]]:
        """Return kept measurements, by the digest of their description and their kind of noise.

        Parameters
        ----------
        keys : sequence of str
            Digests of descriptions.
        private : bool
            Whether to return measurements with secret noise, or those with the noise of a test.

        Returns
        -------
        dict of (str, str) to list of KeptMeasurement
            Oldest first, without their values; see `noisy_steps`.
        """
        from sqlalchemy import bindparam

        table = tables().measurements
        columns = ("description_sha256", "noise", "id", "at", "scale", "grid", "call")
        query = self.select_rows(table).with_only_columns(*(table.c[name] for name in columns))
        query = query.where(table.c.private == int(private), table.c.description_sha256 == bindparam("key"))
        measurements: dict[tuple[str, str], list[KeptMeasurement]] = {}
        wanted = [{"key": key} for key in dict.fromkeys(keys)]
        for key, kept in self.ledger.read(
            query, lambda row: (row.description_sha256, KeptMeasurement.read(row)), wanted
        ):
            measurements.setdefault((key, kept.noise), []).append(kept)
        return measurements

    def noisy_steps(self, kept: KeptMeasurement) -> NDArray[np.int64]:
        """Return the noisy values of a measurement, as multiples of its grid step."""
        table = tables().measurements
        query = self.select_rows(table).with_only_columns(table.c.steps).where(table.c.id == kept.id)
        with self.ledger.reporting_damage():
            return self.ledger.read(query, lambda row: read_noisy_values(row.steps))[0]

    def select_rows(self, table: Table, calls: Select[Any] | None = None) -> Select[Any]:
        """Return a query of the account's rows in a table by id, or of the rows of given calls by call and id."""
        query = table.select().where(table.c.account == self.name)
        if calls is None:
            return query.order_by(table.c.id)
        return query.where(table.c.call.in_(calls)).order_by(table.c.call, table.c.id)  # an index's order: no scan

    def entries(self, calls: Select[Any] | None = None) -> list[ChargeRecord]:
        """Return all charges, or the charges of the given calls, in the order of `select_rows`."""
        return self.ledger.read(self.select_rows(tables().charges, calls), ChargeRecord.read)

    def answers(self, calls: Select[Any] | None = None) -> list[KeptAnswer]:
        """Return all kept answers, or the answers to the given calls, in the order of `select_rows`."""
        return self.ledger.read(self.select_rows(tables().answers, calls), KeptAnswer.read)

    def newest_answers(self, wanted: CallSelection, most: int, skipped: int = 0) -> list[KeptAnswer]:
        """Return answers to the selected calls, newest first: at most `most`, after the first `skipped`."""
        table = tables().answers
        query = _newest_first(self._select_calls(wanted, table), table, most).offset(skipped)
        return self.ledger.read(query, KeptAnswer.read)

    def newest_questions(self, wanted: CallSelection, most: int) -> list[str]:
        """Return the questions of the newest answers, as canonical JSON, without reading the releases."""
        table = tables().answers
        query = _newest_first(self._select_calls(wanted, table), table, most)
        return self.ledger.read(query.with_only_columns(table.c.question), lambda row: row.question or "")

    def count(self, kind: Literal["charges", "answers"], wanted: CallSelection) -> int:
        """Count the charges, or the answers, of the selected calls."""
        from sqlalchemy import func

        table = tables().charges if kind == "charges" else tables().answers
        query = self._select_calls(wanted, table).with_only_columns(func.count(table.c.id)).order_by(None)
        return self.ledger.read(query, lambda row: int(row[0]))[0]

    def calls(
        self, wanted: CallSelection, last: int | None = None, *, answered: bool = False, skipped: int = 0
    ) -> list[CallRecord]:
        """Return records of the selected calls, oldest first: of all, of the last, or only of answered calls."""
        every = tables()
        # An older ledger has no calls but in its charges.
        table = every.answers if answered else every.askers if self.ledger.keeps_analysts else every.charges
        query = self._select_calls(wanted, table)
        found = query.with_only_columns(table.c.id, table.c.call, table.c.at, table.c.mechanism).order_by(None)
        rows = self.ledger.read(found.order_by(table.c.id.desc()).limit(last).offset(skipped), tuple)[::-1]
        if not rows:
            return []
        between = table.c.id >= rows[0][0], table.c.id <= rows[-1][0]
        these = query.with_only_columns(table.c.call).where(*between).order_by(None)
        answers, askers = {each.call: each for each in self.answers(these)}, self.askers(calls=these)
        charges: dict[str, list[ChargeRecord]] = {}
        for entry in self.entries(these):
            charges.setdefault(entry.call, []).append(entry)
        first = {call: (at, method) for _, call, at, method in reversed(rows)}  # of several charges the oldest
        with self.ledger.reporting_damage():
            return [
                call_record(call, at, method, askers.get(call, ""), charges.get(call, ()), answers.get(call))
                for call, (at, method) in reversed(first.items())
            ]

    def _select_calls(self, wanted: CallSelection, table: Table) -> Select[Any]:
        """Return a query of a table's rows that belong to the selected calls, oldest first."""
        query, (first, last) = self.select_rows(table), wanted.moments
        if wanted.method is not None:
            methods = [wanted.method] if isinstance(wanted.method, str) else wanted.method
            query = query.where(table.c.mechanism.in_(methods))
        query = query if wanted.call is None else query.where(table.c.call == wanted.call)
        query = query if first is None else query.where(table.c.at >= first)
        query = query if last is None else query.where(table.c.at <= last)
        if wanted.analyst is None:
            return query
        asked = tables().askers
        names = self.select_rows(asked).with_only_columns(asked.c.analyst).order_by(None).distinct()
        every = self.ledger.read(names, lambda row: read_text(row.analyst))
        same = [name for name in every if name_key(name) == name_key(wanted.analyst)]
        calls = self.select_rows(asked).with_only_columns(asked.c.call).where(asked.c.analyst.in_(same))
        return query.where(table.c.call.in_(calls))

    def total_charged(self) -> Fraction:
        """Return the sum of the epsilons that were charged."""
        from sqlalchemy import func

        epsilon = tables().charges.c.epsilon
        query = self.select_rows(tables().charges).with_only_columns(epsilon, func.count().label("times"))
        sums = self.ledger.read(
            query.order_by(None).group_by(epsilon), lambda row: read_fraction(row.epsilon) * int(row.times)
        )
        return sum(sums, Fraction(0))

    def askers(self, request: str | None = None, calls: Select[Any] | None = None) -> dict[str, str]:
        """Return the analyst by call id, where known: of all calls, of given calls, or of a request's calls."""
        table = tables().askers
        query = self.select_rows(table, calls)
        query = query if request is None else query.where(table.c.request == request)
        return dict(self.ledger.read(query, lambda row: (read_text(row.call), read_text(row.analyst))))

    def shares(self) -> list[AnalystShare]:
        """Return the analysts' shares of the account, each with its spent part."""
        return self.ledger.read(self.select_rows(tables().shares), AnalystShare.read)

    def _shares(self, connection: Connection) -> dict[str, AnalystShare]:
        """Return the analysts' shares, by the `name_key` of the analyst."""
        rows = connection.execute(self.select_rows(tables().shares)).all() if self.ledger.keeps_analysts else ()
        with self.ledger.reporting_damage():
            return {name_key(share.analyst): share for share in map(AnalystShare.read, rows)}

    def _spent(self, connection: Connection, *, lock: bool = False) -> Spent:
        """Return the spent total; with `lock`, a database server blocks other writers of the account."""
        table = tables().accounts
        query = table.select().where(table.c.name == self.name)
        row = connection.execute(query.with_for_update() if lock else query).one()
        with self.ledger.reporting_damage():
            return read_spent(row.spent, self.accountant)

    def _count_charges(
        self, connection: Connection, most: int | None = None, *, askers: bool = True
    ) -> Counter[tuple[str, str]]:
        """Count all charges, or the `most` newest, by loss (as JSON) and by the `name_key` of the asker."""
        charges = tables().charges
        query = _newest_first(self.select_rows(charges), charges, most).with_only_columns(
            charges.c.loss, charges.c.call
        )
        rows, asked = connection.execute(query).all(), {}
        if askers and self.ledger.keeps_analysts:
            calls = None if most is None else query.with_only_columns(charges.c.call)
            asked = {row.call: row.analyst for row in connection.execute(self.select_rows(tables().askers, calls))}
        with self.ledger.reporting_damage():
            return Counter((row.loss, name_key(read_text(asked.get(row.call, "")))) for row in rows)

    def _begin_call(self, connection: Connection, call: str, mechanism: str, asker: Account) -> dict[str, str]:
        """Record the asker of a call, unless it is recorded; return the column values of all rows of the call."""
        table = tables().askers
        event = {"account": self.name, "call": call, "at": current_time(), "mechanism": mechanism}
        if connection.execute(self.select_rows(table).where(table.c.call == call)).first() is None:
            asks = {"analyst": asker.asker, "request": asker.request or None}
            connection.execute(table.insert(), {**event, **asks})
        return event


@dataclass(frozen=True)
class JointAccount:
    """Two accounts of one ledger, which both pay for a question about a table of each.

    What is released is charged to both, in one transaction of the ledger that holds them: a person is in one of the
    accounts, and neighbouring pairs of data sets differ in that one. The answer is kept under both; the first
    account finds it again, for the question names the second.

    Parameters
    ----------
    first, second : Account
        Two accounts of one ledger.

    Raises
    ------
    ArgumentError
        If they are the same, or in different ledgers, which no transaction could charge together.
    """

    first: Account
    second: Account

    def __post_init__(self) -> None:
        if self.first.ledger.where != self.second.ledger.where:
            raise ArgumentError(
                f"The accounts {self.first.name!r} and {self.second.name!r} are in two ledgers, "
                f"{self.first.ledger.where} and {self.second.ledger.where}, which cannot be charged together.",
                "Protect both tables with the same ledger=.",
            )
        if self.first.name == self.second.name:
            raise ArgumentError(
                f"Both views are of the account {self.first.name!r}, so of the same people.",
                "Compare two groups of one view by a column, by=, or join two tables: view.join(other, on=...).",
            )

    @property
    def name(self) -> str:
        """Names of both accounts, joined by "and"."""
        return f"{self.first.name} and {self.second.name}"

    @property
    def basic_composition(self) -> bool:
        """Whether both accounts add up the epsilons of their charges (basic composition)."""
        return self.first.basic_composition and self.second.basic_composition

    @property
    def keeps_measurements(self) -> bool:
        """Whether the ledger of both accounts keeps measurements."""
        return self.first.keeps_measurements

    def largest(self, *kind: Any) -> Fraction:
        """Return the largest epsilon that both accounts can pay now."""
        return min(self.first.largest(*kind), self.second.largest(*kind))

    def default_delta(self, epsilon: Fraction) -> Fraction:
        """Return the smaller default delta of the two accounts."""
        return min(self.first.default_delta(epsilon), self.second.default_delta(epsilon))

    def charge(self, *losses: PrivacyLoss, call: str, mechanism: str, reserve: Sequence[PrivacyLoss] = ()) -> int:
        """Charge losses to both accounts, or to neither; see `Account.charge`."""
        return self.first.charge(*losses, call=call, mechanism=mechanism, reserve=reserve, also=[self.second])

    def answer(self, *questions: str) -> KeptAnswer | None:
        """Return the newest answer to the first of several questions that has an answer, else None."""
        return self.first.answer(*questions)

    def newest_questions(self, wanted: CallSelection, most: int) -> list[str]:
        """Return the questions of the first account's newest answers."""
        return self.first.newest_questions(wanted, most)

    def measurements(self, keys: Sequence[str], *, private: bool) -> dict[tuple[str, str], list[KeptMeasurement]]:
        """Return the first account's kept measurements, by the digest of their description and kind of noise."""
        return self.first.measurements(keys, private=private)

    def noisy_steps(self, kept: KeptMeasurement) -> NDArray[np.int64]:
        """Return the noisy values of a measurement, as multiples of its grid step."""
        return self.first.noisy_steps(kept)

    def keep(self, **what: Any) -> None:
        """Store an answer and its measurements under both accounts; see `Account.keep`."""
        self.first.keep(**what, also=[self.second])


def accounting_row(accountant: Accountant, spent: Spent) -> dict[str, str]:
    """Return the filters of an account or a share, and their sums, as JSON texts by column of the ledger."""
    return {"accountant": json.dumps(accountant.to_dict()), "spent": json.dumps(spent.to_list())}


def _newest_first(query: Select[Any], table: Table, most: int | None) -> Select[Any]:
    """Return a query that selects the same rows, newest first, and at most `most` of them."""
    return query.order_by(None).order_by(table.c.id.desc()).limit(most)


def _sum_of_charges(accountant: Accountant, made: Counter[tuple[str, str]], analyst: str | None = None) -> Spent:
    """Return the sums of an accountant's filters over all counted charges, or over those of one analyst."""
    counts = list(accountant.no_charges.counts)
    for (loss, by), times in made.items():
        if analyst in {None, by}:
            each = accountant.after(accountant.no_charges, loss_from_dict(json.loads(loss))).counts
            counts = [
                None if sum_ is None or one is None else sum_ + times * one
                for sum_, one in zip(counts, each, strict=True)
            ]
    return Spent(tuple(counts))


def _covers_every_sum(spent: Spent, least: Spent) -> bool:
    """Return whether each sum of `spent` is at least the corresponding sum of `least`, up to rounding.

    Charges are computed in floating point before they become integers, and two machines may differ in the last
    bits: 2 to the minus 30 of a sum is let pass.
    """
    return all(
        have is None or (want is not None and have + (have >> 30) >= want)
        for have, want in zip(spent.counts, least.counts, strict=True)
    )


def _exceeded_error(
    accountant: Accountant, spent: Spent, losses: Sequence[PrivacyLoss], mechanism: str, of: str
) -> BudgetExceeded:
    """Return the error for a charge that a budget cannot pay, with the largest epsilon that is left."""
    epsilon = sum((each.epsilon for each in losses), Fraction())
    delta = sum((each.delta for each in losses), Fraction())
    refusal = f"{mechanism} asks for epsilon = {_ten_digits(epsilon)}, delta = {_ten_digits(delta)} of {of}, where"
    again = "a question that was answered before can be asked again at no charge."
    if not delta:
        pure = any(isinstance(loss, Pure) for loss in losses)  # as all that is asked of a sample
        most = _ten_digits(accountant.largest(spent, "pure" if pure else "laplace"))
        return BudgetExceeded(f"{refusal} at most epsilon = {most} is left.", f"Ask for less; {again}")
    kind: Literal["gaussian", "approximate"] = "approximate"
    if all(isinstance(loss, Gaussian) for loss in losses):
        kind = "gaussian"
    left = accountant.largest(spent, kind)
    same = accountant.largest(spent, kind, delta)
    return BudgetExceeded(
        f"{refusal} at most epsilon = {_ten_digits(same)} is left at this delta, or epsilon = {_ten_digits(left)} "
        f"at the default delta, {_ten_digits(accountant.default_delta(left))}.",
        f"Ask for less, or leave out delta=, whose default is the budget's in proportion to epsilon; {again}",
    )


def _ten_digits(number: Fraction) -> str:
    """Format an epsilon or delta with ten digits, rounded down, so that the displayed number can be paid."""
    digits = Context(prec=10, rounding=ROUND_FLOOR).divide(Decimal(number.numerator), Decimal(number.denominator))
    return f"{float(digits):.10g}"
