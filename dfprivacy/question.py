"""From a call to a release: what is asked, what pays for it, and what is kept."""

from __future__ import annotations

import datetime as dt
import hashlib
import html
import uuid
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import noise as noises
from dfprivacy.accounting import exact
from dfprivacy.curator import Curator, Holder, Planner
from dfprivacy.errors import ArgumentError, BudgetExceeded, DPError, PluginError, ReadError, SchemaError, quoted
from dfprivacy.joint import JointAccount
from dfprivacy.plugins import registry
from dfprivacy.release import Groups, Noise, Privacy, Release, Value, plain_json
from dfprivacy.schema import Column
from dfprivacy.table import union

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy.ledger import Account
    from dfprivacy.losses import PrivacyLoss
    from dfprivacy.mechanism import Mechanism
    from dfprivacy.table import Table

__all__ = ["Explanation", "Question", "Subject", "held", "positive", "slack"]

EPSILON_MIN = Fraction(1, 10**9)  # below it a release says nothing
EPSILON_MAX = 10**6  # beyond it there is no privacy left to speak of, and noise finer than the grid
_BITS_MAX = 1000  # of an exact price's denominator
_TEXT_MAX = 1024  # characters of an argument that are kept as they are
_NUMBER = "Give a number, or a string such as '0.1' or '1/3'."


def positive(argument: str, value: object) -> Fraction:
    """Read a positive price exactly, or raise an `ArgumentError`."""
    number = _number(argument, value)
    if not EPSILON_MIN <= number <= EPSILON_MAX:
        raise ArgumentError(
            f"{argument}{quoted(value)} must be above zero, from {float(EPSILON_MIN):g} to {EPSILON_MAX}.",
            "Typical: between 0.01 and 10.",
        )
    return _written_out(argument, number)


def slack(argument: str, value: object) -> Fraction:
    """Read a delta exactly, or raise an `ArgumentError`."""
    number = _number(argument, value)
    if not 0 <= number < 1:
        raise ArgumentError(
            f"{argument}{quoted(value)} must be at least 0 and below 1.", "Typical: far below one over the rows."
        )
    return _written_out(argument, number)


def _number(argument: str, value: object) -> Fraction:
    if not isinstance(value, str | Real | Decimal):
        raise ArgumentError(f"{argument}{quoted(value)} is not a number.", _NUMBER)
    try:
        return exact(value)
    except ArgumentError:
        raise ArgumentError(f"{argument}{quoted(value)} is not a finite number.", _NUMBER) from None


def _written_out(argument: str, number: Fraction) -> Fraction:
    if number.denominator.bit_length() > _BITS_MAX:  # the ledger keeps prices as text
        raise ArgumentError(f"{argument} has too many digits.", _NUMBER)
    return number


@dataclass(frozen=True)
class Subject:
    """What questions are asked of: rows and what is public about them, and the account that pays.

    A question of two views is asked of the union of their tables, and their accounts both pay.
    """

    account: Account
    table: Table
    default_epsilon: Fraction | None = None
    second: Account | None = None

    @property
    def payer(self) -> Account | JointAccount:
        """What pays."""
        return self.account if self.second is None else JointAccount(self.account, self.second)

    def price(self, epsilon: object, delta: object, *, takes_delta: bool) -> tuple[Fraction, Fraction]:
        """Read the price of a call: ``"rest"`` (0 if nothing is left), the default, or a number."""
        if epsilon is None:
            if self.default_epsilon is None:
                raise ArgumentError(
                    "No epsilon was given.",
                    "Say what the answer may cost, epsilon=0.1, or protect the table with a default_epsilon.",
                )
            price = self.default_epsilon
        elif _is_rest(epsilon):
            price = self.payer.largest()
        else:
            price = positive("epsilon", epsilon)
        if not takes_delta:
            return price, Fraction(0)
        return price, self.payer.default_delta(price) if delta is None else slack("delta", delta)


def _is_rest(epsilon: object) -> bool:
    return isinstance(epsilon, str) and epsilon == "rest"


@dataclass(frozen=True)
class Question:
    """One question in full: the method, its arguments, of which rows, at what price.

    Attributes
    ----------
    given, arguments : mapping
        The arguments as they were given, and with columns in place of their names.
    words : sequence of str or None
        How the price was asked for.
    """

    subject: Subject
    mechanism: Mechanism
    given: Mapping[str, Any]
    arguments: Mapping[str, Any]
    epsilon: Fraction
    delta: Fraction
    words: Sequence[str | None]
    fresh: bool
    by: Column | None

    @classmethod
    def read(
        cls,
        subject: Subject,
        mechanism: Mechanism,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        by: Column | None = None,
    ) -> Question:
        """Check a call. Nothing is charged and no private column is read."""
        rest = dict(kwargs)
        asked = rest.pop("epsilon", None)
        delta = rest.pop("delta", None) if mechanism.delta else None
        fresh = rest.pop("fresh", False)
        if not isinstance(fresh, bool):
            raise ArgumentError(f"fresh{quoted(fresh)} is neither True nor False.", "Use fresh=True to pay again.")
        given = mechanism.bind(args, rest)
        other = _other(mechanism, given)
        if other is None:
            arguments = mechanism.resolve(subject.table.schema, given)
        elif by is not None:
            raise ArgumentError(
                "A view by group cannot be asked together with another view.", "Ask without group_by."
            )
        else:
            parameter, second = other
            subject, arguments = _together(subject, second, mechanism, given, parameter)
            given[parameter] = second.account.name
        price = subject.price(asked, delta, takes_delta=mechanism.delta)
        # What "rest" was depends on what is left now; the same words must find the same answer.
        words = ["rest", None if delta is None else str(price[1])] if _is_rest(asked) else [str(p) for p in price]
        return cls(subject, mechanism, given, arguments, *price, words, fresh, by)

    @cached_property
    def text(self) -> str | None:
        """The question as JSON, by which the ledger knows it again; None if it cannot be written down."""
        return _written(self.subject.table, self.mechanism, self.given, self.arguments, self.by, self.words)

    def ask(self) -> Release:
        """Answer from the ledger if the answer is there, else pay, measure and conclude."""
        question, table = self._prepared(), self.subject.table
        release = question._kept() or question._paid()  # noqa: SLF001 - its own
        frame = table.parts[0].frame if table.parts else table.frame
        return release if frame is None else release.made_for(frame.library)

    def _prepared(self) -> Question:
        """Let the mechanism exchange arguments first, such as another view for what that one answers."""
        changed = _changed(self.mechanism, self.subject, self.arguments, self.epsilon, self.delta)
        return replace(self, given={**self.given, **changed}, arguments={**self.arguments, **changed})

    def _kept(self) -> Release | None:
        kept = None if self.fresh or self.text is None else self.subject.payer.answer(self.text)
        if kept is None:
            return None
        release = Release.from_dict(kept.release)
        return release if release.privacy is None else release.paid(replace(release.privacy, replayed=True))

    def _paid(self) -> Release:
        self._check_rest()
        call = Call(self.subject.payer, self.mechanism.name, self.epsilon, self.delta)
        release = self._conclude(call) if self.by is None else self._conclude_by_group(call, self.by)
        release = release.paid(self._privacy(call))
        try:
            plain = release.to_dict()
        except TypeError as error:
            raise _failure(self.mechanism, error, call) from error
        self.subject.payer.keep(call=call.id, mechanism=self.mechanism.name, question=self.text, release=plain)
        registry().announce(release, self.subject.payer.name)
        return release

    def _check_rest(self) -> None:
        if not self.epsilon > 0:
            raise BudgetExceeded(
                f"Nothing is left of the budget of {self.subject.payer.name!r}.",
                "A question that was answered before can be asked again at no charge.",
            )

    def _conclude(self, call: Call) -> Release:
        curator = Curator(self.subject.table, call)
        release = _run(self.mechanism, curator, self.arguments, call)
        call.noise += curator.measured
        return release

    def _conclude_by_group(self, call: Call, by: Column) -> Release:
        parts = self.subject.table.groups(by)
        if by.public:  # a group that cannot be asked is found before another one has paid
            for part in parts:
                self._plan(part)
        paid: set[tuple[int, PrivacyLoss]] = set()
        releases = []
        for part in parts:
            curator = Curator(part, Branch(call, paid))
            releases.append(_run(self.mechanism, curator, self.arguments, call))
            call.noise += curator.measured
        return Groups(by=by.name, keys=tuple(by.categories or ()), releases=tuple(releases))

    def _privacy(self, call: Call) -> Privacy:
        sampler = noises.sampler()
        return Privacy(
            epsilon=float(_epsilon(call.losses)),
            delta=float(_delta(call.losses)),
            neighbors=self.subject.table.schema.neighbors,
            noise=tuple(call.noise),
            account=self.subject.payer.name,
            mechanism=f"{self.mechanism.name} ({self.mechanism.origin})",
            at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            sampler=sampler.name,
            private=sampler.private,
        )

    def explain(self) -> Explanation:
        """Plan the measurements without reading private columns and without a charge."""
        self._check_rest()
        table = self.subject.table
        planner = self._plan(table if self.by is None else table.groups(self.by)[0])
        try:
            findings = self.mechanism.planner(planner, **self.arguments) if self.mechanism.planner else {}
        except DPError:
            raise
        except Exception as error:
            raise _failure(self.mechanism, error) from error
        account = self.subject.payer
        gaussian = any(noise.delta for noise in planner.measured)
        largest = account.largest(*(("gaussian", self.delta) if gaussian else ()))
        return Explanation(
            method=self.mechanism.name,
            account=account.name,
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            measurements=tuple(planner.measured),
            largest=float(largest),
            findings=dict(findings),
        )

    def _plan(self, table: Table) -> Planner:
        """Let the mechanism plan its measurements of a table."""
        planner = Planner(table, Estimate(self.subject, self.epsilon, self.delta))
        try:
            with np.errstate(all="ignore"):  # of an empty table
                self.mechanism.function(planner, **self.arguments)
        except DPError:
            raise
        except Exception as error:
            if not planner.measured:  # else: what a mechanism makes of an empty table is void
                raise _failure(self.mechanism, error) from error
        return planner


def held(
    subject: Subject, mechanism: Mechanism, args: Sequence[Any], kwargs: Mapping[str, Any], by: Column | None
) -> Any:
    """Answer whoever holds the table, from rows as they are: nothing is charged or kept, and nothing released.

    Parameters
    ----------
    subject, mechanism, args, kwargs, by
        As for `Question.read`; the mechanism has a form for the holder, and there is no epsilon.

    Returns
    -------
    object
        What the mechanism's form for the holder makes of the rows; no `Release`.
    """
    own = {name: value for name, value in kwargs.items() if name not in {"epsilon", "fresh"}}
    given = mechanism.bind(args, own)
    if by is not None:
        raise ArgumentError(
            f"Without an epsilon, {mechanism.name}() answers for one table, not by group.",
            f"Give an epsilon, or ask each part: view.where({by.name}=...).",
        )
    arguments = mechanism.resolve(subject.table.schema, given)
    arguments |= _changed(mechanism, subject, arguments, Fraction(0), Fraction(0))
    holder = Holder(subject.table, Estimate(subject, Fraction(0), Fraction(0)))
    try:
        found = mechanism.holder(holder, **arguments) if mechanism.holder else None
    except DPError:
        raise
    except Exception as error:  # noqa: BLE001 - its text may quote the rows
        found = error
    if isinstance(found, Exception | Release):
        what = type(found).__name__
        raise PluginError(
            f"Mechanism {mechanism.name!r} ({mechanism.origin}) failed without an epsilon, with {what}.",
            "Tell its authors.",
        )
    return found


def _changed(
    mechanism: Mechanism, subject: Subject, arguments: Mapping[str, Any], epsilon: Fraction, delta: Fraction
) -> Mapping[str, Any]:
    """Let a mechanism prepare arguments: those that change."""
    if mechanism.preparer is None:
        return {}
    try:
        return mechanism.preparer(Planner(subject.table, Estimate(subject, epsilon, delta)), **arguments)
    except DPError:
        raise
    except Exception as error:
        raise _failure(mechanism, error) from error


class Call:
    """What pays for one call: every loss goes to the account, durably, before it is incurred."""

    def __init__(self, account: Account | JointAccount, mechanism: str, epsilon: Fraction, delta: Fraction) -> None:
        self.id = uuid.uuid4().hex
        self.epsilon = epsilon
        self.delta = delta
        self.losses: list[PrivacyLoss] = []
        self.noise: list[Noise] = []
        self._account = account
        self._mechanism = mechanism

    @property
    def adds_up(self) -> bool:
        """Whether epsilons simply add up on the account."""
        return self._account.adds_up

    def pay(self, losses: Sequence[PrivacyLoss], then: Sequence[PrivacyLoss]) -> None:
        """Charge losses at once, or none of them and raise."""
        whole = [*self.losses, *losses]
        if _epsilon(whole) > self.epsilon or _delta(whole) > self.delta:
            raise PluginError(
                f"Mechanism {self._mechanism!r} measures one group otherwise than another, "
                "and all groups together more than the call may cost.",
                "Tell its authors: shares must not depend on the group.",
            )
        self._account.charge(*losses, call=self.id, mechanism=self._mechanism, then=then)
        self.losses += losses


class Branch:
    """What pays for one group of a call by group.

    What one group has paid for its i-th measurement covers the same loss of the others' i-th: the loss is that of
    all groups' sums together, because the curator takes the sensitivity of them all (`Table.sensitivity`).
    """

    def __init__(self, call: Call, paid: set[tuple[int, PrivacyLoss]]) -> None:
        self.epsilon = call.epsilon
        self.delta = call.delta
        self._call = call
        self.adds_up = call.adds_up
        self._paid = paid
        self._next = 0

    def pay(self, losses: Sequence[PrivacyLoss], then: Sequence[PrivacyLoss]) -> None:
        """Charge what no other group has paid."""
        for loss in losses:
            if (self._next, loss) not in self._paid:
                self._call.pay([loss], then)
                self._paid.add((self._next, loss))
            self._next += 1


class Estimate:
    """What pays for a plan: nothing."""

    def __init__(self, subject: Subject, epsilon: Fraction, delta: Fraction) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adds_up = subject.payer.adds_up

    def pay(self, losses: Sequence[PrivacyLoss], then: Sequence[PrivacyLoss]) -> None:
        """Charge nothing."""


def _other(mechanism: Mechanism, arguments: Mapping[str, Any]) -> tuple[str, Subject] | None:
    """Find the parameter that takes a second view, and what that view is of; None if none is given."""
    for parameter, kind in mechanism.columns.items():
        given = arguments[parameter]
        if kind == "view" and given is not None:
            second = getattr(given, "_subject", None)
            if not isinstance(second, Subject) or getattr(given, "_by", None) is not None:
                raise ArgumentError(
                    f"{parameter}= takes a view, not a {type(given).__name__}.",
                    "Pass what protect() returned, or view.where(...).",
                )
            return parameter, second
    return None


def _together(
    subject: Subject, second: Subject, mechanism: Mechanism, arguments: Mapping[str, Any], parameter: str
) -> tuple[Subject, dict[str, Any]]:
    """Ask of two tables together: their union, both accounts, and the arguments with its columns."""
    _ = JointAccount(subject.account, second.account)  # or it says why they cannot pay together
    names = subject.account.name, second.account.name
    table, which = union(subject.table, second.table, names)
    resolved = mechanism.resolve(subject.table.schema, arguments)
    try:
        its = mechanism.resolve(second.table.schema, arguments)
    except SchemaError as error:
        raise SchemaError(f"In {names[1]!r}: {error.what}", error.hint) from None
    differ = [
        column.name
        for name in mechanism.columns
        if name != parameter
        for column, another in zip(_many(resolved[name]), _many(its[name]), strict=True)
        if column != another
    ]
    if differ:
        raise ArgumentError(
            f"Columns {differ!r} are declared otherwise in {names[1]!r} than in {names[0]!r}.",
            "Protect both with the same bounds, categories, missing= and public=.",
        )
    asked = replace(subject, table=table, second=second.account)
    return asked, {**resolved, parameter: which}


def _run(mechanism: Mechanism, curator: Curator, arguments: Mapping[str, Any], call: Call) -> Release:
    """Let a mechanism measure and conclude."""
    try:
        found = mechanism.function(curator, **arguments)
    except ReadError:  # says itself what became of the charge
        raise
    except DPError as error:
        if not call.losses:
            raise
        raise error.after(_stays(call)) from error
    except Exception as error:
        raise _failure(mechanism, error, call) from error
    return found if isinstance(found, Release) else Value(value=found)


def _failure(mechanism: Mechanism, error: Exception, call: Call | None = None) -> PluginError:
    failure = PluginError(
        f"Mechanism {mechanism.name!r} ({mechanism.origin}) failed with {type(error).__name__}: {error}.",
        "Tell its authors.",
    )
    return failure.after(_stays(call)) if call and call.losses else failure


def _stays(call: Call) -> str:
    return f"Nothing was released; its measurements stay charged: epsilon {float(_epsilon(call.losses)):g}."


def _epsilon(losses: Sequence[PrivacyLoss]) -> Fraction:
    return sum((loss.epsilon for loss in losses), Fraction(0))


def _delta(losses: Sequence[PrivacyLoss]) -> Fraction:
    return sum((loss.delta for loss in losses), Fraction(0))


def _written(
    table: Table,
    mechanism: Mechanism,
    arguments: Mapping[str, Any],
    resolved: Mapping[str, Any],
    by: Column | None,
    price: Sequence[str | None],
) -> str | None:
    """Write a question down, with all that is public and could change its answer; None if it cannot be."""
    conditions = [condition.describe() for condition in table.conditions]
    named = [value for name in mechanism.columns for value in _many(resolved[name])]
    named += [by] if by else []
    if None in conditions:
        return None
    try:
        return plain_json(
            {
                "mechanism": mechanism.name,
                "origin": mechanism.origin,
                "arguments": {name: _brief(_same(value)) for name, value in arguments.items()},
                "price": price,
                **(
                    {"tables": [_of_which_rows(part, named) for part in table.parts]}
                    if table.parts
                    else _of_which_rows(table, named)
                ),
                "group_by": by.name if by else None,
                "neighbors": table.schema.neighbors,
                "sampler": noises.sampler().name,
            }
        )
    except TypeError:
        return None


def _of_which_rows(table: Table, named: Sequence[Column]) -> dict[str, Any]:
    asked = [*named, *(column for condition in table.conditions for column in condition.columns)]
    return {
        "where": [condition.describe() for condition in table.conditions],
        "columns": {column.name: column.describe() for column in asked},
        "rows": table.schema.size,
    }


def _same(value: Any) -> Any:
    """Write a whole number as an integer, for 30 and 30.0 ask the same, and a release as its digest."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Release):  # it may be as long as a table, and what was paid for it changes when replayed
        return {"sha256": _digest(plain_json({"type": type(value).__qualname__, **value.result}))}
    if isinstance(value, list | tuple):
        items = [_same(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _brief(value: Any) -> Any:
    """Write what is long, such as a key for each row, as its digest."""
    text = plain_json(value)
    return {"sha256": _digest(text)} if len(text) > _TEXT_MAX else value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _many(value: Any) -> Sequence[Column]:
    """Give the columns among what a parameter that names columns was given."""
    return [each for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, Column)]


@dataclass(frozen=True)
class Explanation:
    """What a method would do: its measurements, their noise and price, and what it could find out.

    Attributes
    ----------
    method, account : str
        What would be asked of which account.
    epsilon, delta : float
        The price.
    measurements : tuple of Noise
        What would be measured, in order.
    largest : float
        The largest epsilon the account can still pay at once.
    findings : dict
        What the method could find out, in its own words.
    """

    method: str
    account: str
    epsilon: float
    delta: float
    measurements: tuple[Noise, ...]
    largest: float
    findings: Mapping[str, Any]

    def _lines(self) -> list[str]:
        afford = "can" if self.epsilon <= self.largest else "CANNOT"
        return [
            f"price: epsilon {self.epsilon:g}" + (f", delta {self.delta:g}" if self.delta else ""),
            *(f"measures {noise}" for noise in self.measurements),
            *(
                f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}"
                for name, value in self.findings.items()
            ),
            f"the account {self.account!r} {afford} pay: the most it can pay at once is epsilon {self.largest:g}",
        ]

    def __repr__(self) -> str:
        return "\n  ".join([f"{self.method} would cost and measure (nothing was charged or read):", *self._lines()])

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in self._lines())
        return f"<b>{html.escape(self.method)}</b> (nothing was charged or read)<ul>{lines}</ul>"
