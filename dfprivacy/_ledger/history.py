"""The history of an account: each call with its question, its analyst and its price."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dfprivacy import _words
from dfprivacy._ledger.names import name_key
from dfprivacy._ledger.records import read_moment, read_text, written_moment
from dfprivacy._ledger.tables import tables
from dfprivacy.errors import ArgumentError, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Select, Table

    from dfprivacy._ledger.accounts import Account, Answer

__all__ = ["PAGE", "CallRecord", "Wanted", "calls_by", "calls_of", "written"]

PAGE = 50
"""Calls or answers that are read, or shown, at once."""


@dataclass(frozen=True)
class CallRecord:
    """One call: what was asked, who asked, and what became of it.

    Attributes
    ----------
    call : str
        Its number in the ledger.
    at : datetime
        When it was first charged, or answered, in UTC.
    analyst : str
        Who asked; empty if nobody wrote it down, as in ledgers of older versions.
    method : str
        The method.
    question : mapping or None
        The question in full, as the ledger keeps it: arguments, conditions, columns as declared, price. None if it
        could not be written down, or the call failed.
    epsilon, delta : Fraction
        What was charged.
    reused : int
        How many of its measurements were in the ledger already.
    answered : bool
        Whether it was answered: what fails after it has measured stays charged.
    typed : str
        The call as it was typed, what is long cut short; empty where the answer does not say.
    """

    call: str
    at: dt.datetime
    analyst: str
    method: str
    question: Mapping[str, Any] | None
    epsilon: Fraction
    delta: Fraction
    reused: int
    answered: bool
    typed: str = ""

    @property
    def brief(self) -> str:
        """The question in one line."""
        return self.typed or self.text

    @property
    def text(self) -> str:
        """The call as one would type it, with all arguments that are not None, and its conditions."""
        return f"{self.method}(...)" if self.question is None else written(self.question)

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain JSON values; prices as exact strings."""
        return {
            "at": self.at.isoformat(timespec="seconds"),
            "analyst": self.analyst,
            "method": self.method,
            "asked": self.text,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "reused": self.reused,
            "answered": self.answered,
            "call": self.call,
            "question": self.question,
        }


@dataclass(frozen=True)
class Wanted:
    """A filter of calls: by method, analyst and time; ``until`` a day is until its end.

    Raises
    ------
    ArgumentError
        If a date is none.
    """

    method: str | None = None
    analyst: str | None = None
    since: str | dt.date | None = None
    until: str | dt.date | None = None

    def __post_init__(self) -> None:
        _ = self.moments

    @property
    def moments(self) -> tuple[str | None, str | None]:
        """The first and the last moment, as the ledger writes them."""
        since, until = (
            None if day is None else _moment(name, day, last=name == "until")
            for name, day in (("since", self.since), ("until", self.until))
        )
        first, last = (None if at is None else written_moment(at) for at in (since, until))
        return first, last

    def of(self, query: Select[Any], table: Table, account: Account) -> Select[Any]:
        """Select these calls among the rows of a table."""
        first, last = self.moments
        query = query.where(table.c.account == account.name)
        query = query if self.method is None else query.where(table.c.mechanism == self.method)
        query = query if first is None else query.where(table.c.at >= first)
        query = query if last is None else query.where(table.c.at <= last)
        if self.analyst is None:
            return query
        asked = tables().askers
        same = [name for name in account.analysts() if name_key(name) == name_key(self.analyst)]
        of_them = asked.select().with_only_columns(asked.c.call)
        return query.where(
            table.c.call.in_(of_them.where(asked.c.account == account.name, asked.c.analyst.in_(same)))
        )


def calls_of(account: Account, wanted: Wanted | None = None, last: int | None = None) -> list[CallRecord]:
    """Read the calls of an account that were charged or answered, or the last of them; oldest first."""
    known = account.ledger.keeps_analysts  # an older one has no calls but in its charges
    table = tables().askers if known else tables().charges
    query = (wanted or Wanted()).of(table.select(), table, account).order_by(table.c.id.desc()).limit(last)
    with account.ledger.transaction() as connection:
        rows = [dict(row) for row in connection.execute(query).mappings()]
    first = {row["call"]: row for row in rows}  # of several charges the oldest
    return _records(account, [*first.values()][::-1], everything=last is None)


def calls_by(account: Account, answers: Sequence[Answer]) -> list[CallRecord]:
    """Read the calls that some answers are of."""
    rows = [{"call": each.call, "at": written_moment(each.at), "mechanism": each.mechanism} for each in answers]
    return _records(account, rows, everything=False)


def _records(account: Account, rows: Sequence[Mapping[str, Any]], *, everything: bool) -> list[CallRecord]:
    calls = None if everything else [str(row["call"]) for row in rows]
    paid: dict[str, list[Fraction]] = {}
    for entry in account.entries(calls):
        epsilon, delta = paid.get(entry.call, [Fraction(0), Fraction(0)])
        paid[entry.call] = [epsilon + entry.epsilon, delta + entry.delta]
    by_call, askers = {answer.call: answer for answer in account.answers(calls)}, account.askers(calls=calls)
    with account.ledger.decoding():
        return [
            CallRecord(
                call=row["call"],
                at=read_moment(row["at"]),
                analyst=askers.get(row["call"], ""),
                method=read_text(row["mechanism"]),
                question=None if kept is None or kept.question is None else dict(json.loads(kept.question)),
                epsilon=paid.get(row["call"], [Fraction(0)])[0],
                delta=paid.get(row["call"], [Fraction(0)] * 2)[1],
                reused=_reused(kept),
                answered=kept is not None,
                typed=_typed(kept),
            )
            for row in rows
            for kept in [by_call.get(row["call"])]
        ]


def written(question: Mapping[str, Any]) -> str:
    """Write a question that the ledger keeps as one would type it."""
    given = {name: value for name, value in question["arguments"].items() if value is not None}
    sentence = _words.call(question["mechanism"], ((name, _words.value(value)) for name, value in given.items()))
    where = [_words.condition(each) for each in question.get("where", ())]
    by = question.get("group_by") or []
    sentence += f" where {' and '.join(where)}" if where else ""
    return sentence + (f" by {by if isinstance(by, str) else ', '.join(by)}" if by else "")


def _typed(answer: Answer | None) -> str:
    privacy = _privacy(answer)
    where = " and ".join(map(str, privacy.get("where", ())))
    return str(privacy.get("question", "")) + (f" where {where}" if where else "")


def _privacy(answer: Answer | None) -> Mapping[str, Any]:
    return {} if answer is None else answer.release.get("privacy") or {}


def _reused(answer: Answer | None) -> int:
    privacy = _privacy(answer)
    return sum(bool(noise.get("reused")) for noise in privacy["noise"]) if privacy else 0


def _moment(name: str, given: object, *, last: bool) -> dt.datetime:
    """Read a date or a moment; of a date, its first or last; without a zone, UTC."""
    try:
        moment = dt.datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        moment = None
    day = isinstance(given, str) and len(given) <= len("2000-01-01")
    if isinstance(moment, dt.datetime) and not day:
        return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    if isinstance(moment, dt.date):
        return dt.datetime.combine(moment, dt.time.max if last else dt.time.min, tzinfo=dt.UTC)
    raise ArgumentError(f"{name}{quoted(given)} is no date.", "For example 2026-01-31.")
