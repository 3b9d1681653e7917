"""Accounts: the charges to a data set's budget, and the answers that were paid for."""

from __future__ import annotations

import functools
import json
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast

from dfprivacy._ledger import statements
from dfprivacy._ledger.analysts import less_than_charged, note, share_of, shares, spend, who_asks
from dfprivacy._ledger.measurements import KeptMeasurement, Measurement, digest, read_kept, read_steps, written
from dfprivacy._ledger.records import (
    charged,
    covers,
    read_fraction,
    read_moment,
    read_spent,
    read_text,
    relation_of,
    written_moment,
)
from dfprivacy._ledger.tables import tables
from dfprivacy._privacy.losses import Gaussian, PrivacyLoss, Pure, loss_from_dict
from dfprivacy.errors import BudgetExceeded, LedgerError

if TYPE_CHECKING:  # SQLAlchemy takes a fifth of a second to import: it waits for the first ledger
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy import Connection, Row, Select

    from dfprivacy._ledger.analysts import Share
    from dfprivacy._ledger.history import Wanted
    from dfprivacy._ledger.ledger import Ledger
    from dfprivacy._privacy.filters import Accountant, Spent

__all__ = ["Account", "Answer", "ChargeStandsError", "Entry", "now", "tried_again"]

P = ParamSpec("P")
T = TypeVar("T")
_AT_ONCE = 500  # calls in one query
TRIES = 10  # of a transaction that the server undoes for the sake of others
UNDONE = {"40001", "40P01"}  # SQLSTATE: a serialisation failure, a deadlock


class ChargeStandsError(LedgerError):
    """The ledger failed when, or after, a charge was committed."""

    outcome = "Nothing was released; what was charged stays charged."


def tried_again(write: Callable[P, T]) -> Callable[P, T]:
    """Try again what the server has undone as a whole, and so charged to nobody."""

    @functools.wraps(write)
    def tried(*args: P.args, **kwargs: P.kwargs) -> T:
        for already in range(TRIES - 1):
            try:
                return write(*args, **kwargs)
            except LedgerError as error:
                if getattr(getattr(error.__cause__, "orig", None), "sqlstate", None) not in UNDONE:
                    raise
            time.sleep(secrets.SystemRandom().uniform(0, 0.01 * 2**already))  # not all at the same moment again
        return write(*args, **kwargs)

    return tried


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
    whose : tuple of (str, int, str) or None
        Where neighbouring tables differ in all rows of one person: the column that says whose they are, how many of
        one person count, and what becomes of those that name nobody.
    key : str
        What chooses a person's rows; nobody is shown it.
    analyst : str
        Who asks by this handle; empty for whoever runs the process, see `who_asks`.
    request : str
        Which question of which request is asked by it; empty where there is none.
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
    whose: tuple[str, int, str] | None = None
    key: str = field(default="", repr=False)
    analyst: str = field(default="", repr=False)
    request: str = field(default="", repr=False)

    @property
    def relation(self) -> str:
        """The neighbouring relation in words."""
        return relation_of(self.neighbors, self.whose)

    def spent(self) -> Spent:
        """Return what has been spent so far, by every process that shares the ledger."""
        with self.ledger.transaction() as connection:
            row = connection.execute(statements.account(), {"name": self.name}).one()
        return self._spent(row)

    def check(self, most: int | None = None) -> None:
        """Hold what was spent against all charges, or so many of the newest; a `LedgerError` if it is less."""
        with self.ledger.transaction() as connection:
            # First: meanwhile more can be spent, never less.
            losses = [
                loss for loss, _ in connection.execute(statements.newest_charges(most), {"account": self.name})
            ]
            row = connection.execute(statements.account(), {"name": self.name}).one()
            robbed = less_than_charged(connection, self, most)
        with self.ledger.decoding():
            times = [(loss_from_dict(json.loads(loss)), often) for loss, often in Counter(losses).items()]
            least = charged(self.accountant, self.accountant.nothing, times)
        if robbed or not covers(self._spent(row), least):
            by = f" by {robbed[0]!r}" if robbed else ""
            raise LedgerError(
                f"The ledger {self.ledger.where} says that less was spent of {self.name!r}{by} than was charged.",
                "It was changed or damaged: restore a backup with `dfprivacy ledger restore`.",
            )

    @property
    def basic_composition(self) -> bool:
        """Whether epsilons simply add up."""
        return self.accountant.accounting == "basic"

    @property
    def keeps_measurements(self) -> bool:
        """Whether its ledger keeps what was measured."""
        return self.ledger.keeps_measurements

    def largest(self, *kind: Any) -> Fraction:
        """Largest epsilon that the caller can spend now; see `Accountant.largest`."""
        best = self.accountant.largest(self.spent(), *kind)
        with self.ledger.transaction() as connection:
            share, may = share_of(connection, self, self.asker)
        if share is None:
            return best if may else Fraction(0)
        return min(best, share.accountant.largest(share.spent, *kind))

    @property
    def asker(self) -> str:
        """The analyst, or user, who asks."""
        return self.analyst or who_asks()

    def askers(self, request: str | None = None, calls: Sequence[str] | None = None) -> dict[str, str]:
        """Return who made each call, each of some, or each for a request, as far as it was written down."""
        if not self.ledger.keeps_analysts:
            return {}
        query = statements.of("askers")
        if request is not None:
            query = query.where(query.selected_columns.request == request)
        rows = self._of_calls(query, calls)
        with self.ledger.decoding():
            return {read_text(row.call): read_text(row.analyst) for row in rows}

    def analysts(self) -> list[str]:
        """Return who has asked."""
        table = tables().askers
        query = table.select().with_only_columns(table.c.analyst).where(table.c.account == self.name).distinct()
        with self.ledger.transaction() as connection:
            return [*connection.execute(query).scalars()] if self.ledger.keeps_analysts else []

    def _of_calls(self, query: Select[Any], calls: Sequence[str] | None) -> list[Row[Any]]:
        """Read the rows of some calls, or all."""
        call, parts = query.selected_columns.call, [calls]
        if calls is not None:
            parts = [calls[at : at + _AT_ONCE] for at in range(0, len(calls), _AT_ONCE)]
        wanted = [query if part is None else query.where(call.in_(part)) for part in parts]
        with self.ledger.transaction() as connection:
            return [row for each in wanted for row in connection.execute(each, {"account": self.name})]

    def shares(self) -> list[Share]:
        """Return what analysts may spend of it, and have spent."""
        with self.ledger.transaction() as connection:
            return [*shares(connection, self).values()]

    def default_delta(self, epsilon: Fraction) -> Fraction:
        """Return the delta of a call that says none: the budget's in proportion."""
        return self.accountant.default_delta(epsilon)

    @tried_again
    def charge(
        self,
        *losses: PrivacyLoss,
        call: str,
        mechanism: str,
        reserve: Sequence[PrivacyLoss] = (),
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
            If the charge could not be committed; then nothing may be released.
        """
        every, asker = self._in_order(also), self.asker
        after = {}
        with self.ledger.transaction(write=True) as connection:
            for account in every:
                row = connection.execute(statements.account(lock=True), {"name": account.name}).one()
                spent = account._spent(row)  # noqa: SLF001 - of our own kind
                after[account.name] = functools.reduce(account.accountant.after, losses, spent)
                reserved = functools.reduce(account.accountant.after, reserve, after[account.name])
                if not (account.accountant.holds(after[account.name]) and account.accountant.holds(reserved)):
                    raise account._exceeded(spent, [*losses, *reserve], mechanism)  # noqa: SLF001
                account._charge_share(connection, losses, reserve, mechanism, asker)  # noqa: SLF001
            note(connection, every, self._event(call, mechanism), self)
            for account in every:
                spent_now = {"whose": account.name, "spent": json.dumps(after[account.name].to_list())}
                connection.execute(statements.set_spent("accounts"), spent_now)
                for loss in losses:
                    price = {"epsilon": str(loss.epsilon), "delta": str(loss.delta)}
                    entry = {**account._event(call, mechanism), "loss": json.dumps(loss.to_dict()), **price}  # noqa: SLF001
                    key = connection.execute(statements.add("charges"), entry).inserted_primary_key
        number = int(cast("Row[Any]", key)[0])
        self.ledger.note(charge=number, call=call)
        return number

    def _charge_share(
        self,
        connection: Connection,
        losses: Sequence[PrivacyLoss],
        reserve: Sequence[PrivacyLoss],
        mechanism: str,
        asker: str,
    ) -> None:
        """Charge losses to the share of who asks, if the account has shares; whatever happens then undoes it."""
        share, may = share_of(connection, self, asker)
        if not may:
            raise BudgetExceeded(
                f"{asker!r} has no share of the budget of {self.name!r}, which others have.",
                "Ask its custodian for one: protect(..., budgets={...}).",
            )
        if share is None:
            return
        after = functools.reduce(share.accountant.after, losses, share.spent)
        reserved = functools.reduce(share.accountant.after, reserve, after)
        if not (share.accountant.holds(after) and share.accountant.holds(reserved)):
            of = f"the share that {share.analyst!r} has of the data set {self.name!r}"
            raise _exceeded(share.accountant, share.spent, [*losses, *reserve], mechanism, of)
        spend(connection, share, after)

    @tried_again
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
        """Keep an answer and what it was concluded from, so that neither has to be paid twice.

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
        key = {"question": question, "question_sha256": None if question is None else digest(question)}
        answers = [] if release is None else [{**key, "release": json.dumps(release)}]
        kept = [written(each) for each in measurements]
        with self.ledger.transaction(write=True, failure=ChargeStandsError) as connection:
            note(connection, self._in_order(also), self._event(call, mechanism), self)
            for account in self._in_order(also):  # a new row locks its account too
                event = account._event(call, mechanism)  # noqa: SLF001 - of our own kind
                for new, rows in ((statements.add("answers"), answers), (statements.add("measurements"), kept)):
                    if rows:
                        connection.execute(new, [{**event, **row} for row in rows])

    def answer(self, *questions: str) -> Answer | None:
        """Return the newest answer to the first of some questions (canonical JSON texts) that has one, or None."""
        keys = [{"account": self.name, "question": each, "key": digest(each)} for each in questions]
        newest = [rows[-1] for rows in self.ledger.rows(statements.answers(one=True), *keys) if rows]
        with self.ledger.decoding():
            return _answer(*newest[0]) if newest else None

    def measurements(self, keys: Sequence[str], *, private: bool) -> dict[tuple[str, str], list[KeptMeasurement]]:
        """Return what is kept of measurements, by the digest of what they are of and their kind of noise.

        Parameters
        ----------
        keys : sequence of str
            Digests of descriptions.
        private : bool
            Whether their noise protects anybody; no other will do.

        Returns
        -------
        dict of (str, str) to list of KeptMeasurement
            Oldest first, without their values; see `steps`.
        """
        if not self.ledger.keeps_measurements:
            return {}
        wanted = [{"account": self.name, "private": int(private), "key": key} for key in dict.fromkeys(keys)]
        measurements: dict[tuple[str, str], list[KeptMeasurement]] = {}
        with self.ledger.decoding():
            for rows in self.ledger.rows(statements.measurements(), *wanted):
                for of, noise, *rest in rows:
                    measurements.setdefault((of, noise), []).append(read_kept(noise, *rest))
        return measurements

    def steps(self, kept: KeptMeasurement) -> NDArray[np.int64]:
        """Return the noisy values of a measurement, in steps of its grid."""
        (rows,) = self.ledger.rows(statements.steps(), {"account": self.name, "number": kept.id})
        with self.ledger.decoding():
            return read_steps(rows[0][0])

    def answers(self, calls: Sequence[str] | None = None) -> list[Answer]:
        """Return every answer kept, or those of some calls, oldest first."""
        rows = self._of_calls(statements.answers(one=False), calls)
        with self.ledger.decoding():
            return [_answer(*tuple(row)) for row in rows]

    def charged(self) -> Fraction:
        """Return the sum of the epsilons that were charged."""
        from sqlalchemy import func

        table = tables().charges
        query = table.select().where(table.c.account == self.name).group_by(table.c.epsilon)
        query = query.with_only_columns(table.c.epsilon, func.count())
        with self.ledger.transaction() as connection, self.ledger.decoding():
            return sum((read_fraction(each) * often for each, often in connection.execute(query)), Fraction(0))

    def count(self, kind: Literal["charges", "answers"], wanted: Wanted) -> int:
        """Return how many charges or answers there are among the calls that are wanted."""
        from sqlalchemy import func

        table = tables().charges if kind == "charges" else tables().answers
        query = wanted.of(table.select().with_only_columns(func.count()).select_from(table), table, self)
        with self.ledger.transaction() as connection:
            return int(connection.execute(query).scalar_one())

    def page(self, wanted: Wanted, skipped: int, most: int) -> list[Answer]:
        """Return the newest answers among the calls that are wanted, some skipped, newest first."""
        table = tables().answers
        query = wanted.of(statements.answers(one=False), table, self).order_by(None).order_by(table.c.id.desc())
        query = query.offset(skipped).limit(most)
        with self.ledger.transaction() as connection, self.ledger.decoding():
            return [_answer(*tuple(row)) for row in connection.execute(query, {"account": self.name})]

    def newest_answers(self, mechanisms: tuple[str, ...], most: int) -> list[Answer]:
        """Return the newest answers of some mechanisms, so many at most, newest first."""
        (rows,) = self.ledger.rows(statements.newest_answers(mechanisms, most), {"account": self.name})
        with self.ledger.decoding():
            return [_answer(*tuple(row)) for row in rows]

    def entries(self, calls: Sequence[str] | None = None) -> list[Entry]:
        """Return every charge, or those of some calls, oldest first."""
        rows = self._of_calls(statements.of("charges"), calls)
        with self.ledger.decoding():
            return [_entry(row) for row in rows]

    def _in_order(self, also: Sequence[Account]) -> list[Account]:
        """Return the accounts in the one order in which every transaction locks them: none waits in a circle."""
        return sorted([self, *also], key=lambda account: account.name)

    def _event(self, call: str, mechanism: str) -> dict[str, str]:
        return {"account": self.name, "call": call, "at": now(), "mechanism": mechanism}

    def _spent(self, row: Row[Any]) -> Spent:
        with self.ledger.decoding():
            return read_spent(row.spent, self.accountant)

    def _exceeded(self, spent: Spent, losses: list[PrivacyLoss], mechanism: str) -> BudgetExceeded:
        return _exceeded(self.accountant, spent, losses, mechanism, f"the data set {self.name!r}")


def _exceeded(
    accountant: Accountant, spent: Spent, losses: list[PrivacyLoss], mechanism: str, of: str
) -> BudgetExceeded:
    """Describe what a budget could pay in place of what it cannot."""
    epsilon = _shown(sum((loss.epsilon for loss in losses), Fraction()))
    delta = _shown(sum((loss.delta for loss in losses), Fraction()))
    refusal = f"{mechanism} asks for epsilon = {epsilon}, delta = {delta} of {of}, where"
    again = "a question that was answered before can be asked again at no charge."
    if not any(loss.delta for loss in losses):
        pure = any(isinstance(loss, Pure) for loss in losses)  # as all that is asked of a sample
        most = _shown(accountant.largest(spent, "pure" if pure else "laplace"))
        return BudgetExceeded(
            f"{refusal} at most epsilon = {most} is left.",
            f"Ask for less; {again}",
        )
    gaussian = all(isinstance(loss, Gaussian) for loss in losses)
    kind: Literal["gaussian", "approximate"] = "gaussian" if gaussian else "approximate"
    left = accountant.largest(spent, kind)
    same = accountant.largest(spent, kind, sum((loss.delta for loss in losses), Fraction()))
    share = _shown(accountant.default_delta(left))
    return BudgetExceeded(
        f"{refusal} at most epsilon = {_shown(same)} is left at this delta, or epsilon = {_shown(left)} at that of "
        f"delta=None, {share}.",
        f"Ask for less, or leave out delta=, which then takes the budget's in proportion to epsilon; {again}",
    )


def _entry(row: Row[Any]) -> Entry:
    loss = loss_from_dict(json.loads(row.loss))
    entry = Entry(*_event(row), loss, read_fraction(row.epsilon), read_fraction(row.delta))
    if (entry.epsilon, entry.delta) != (loss.epsilon, loss.delta):
        raise ValueError
    return entry


def _answer(number: Any, call: Any, at: Any, mechanism: Any, question: Any, release: Any) -> Answer:
    event = number, read_text(call), read_moment(at), read_text(mechanism)
    return Answer(*event, question, dict(json.loads(release)))


def _event(row: Row[Any]) -> tuple[int, str, datetime, str]:
    return row.id, read_text(row.call), read_moment(row.at), read_text(row.mechanism)


def now() -> str:
    return written_moment(datetime.now(UTC))


def _shown(number: Fraction) -> str:
    """Return at most ten digits, rounded down: what is said to be left must be affordable."""
    digits = Context(prec=10, rounding=ROUND_FLOOR).divide(Decimal(number.numerator), Decimal(number.denominator))
    return f"{float(digits):.10g}"
