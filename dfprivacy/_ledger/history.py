"""What was asked of an account, by whom and at what price, for people to read: each call with its question."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dfprivacy import _words
from dfprivacy._ledger.names import name_key
from dfprivacy.errors import ArgumentError, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dfprivacy._ledger.accounts import Account, Answer

__all__ = ["CallRecord", "calls_of", "matching", "written"]


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
        """The question as one would type it, with all arguments that are not None, and of which rows."""
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


def calls_of(account: Account) -> dict[str, CallRecord]:
    """Read every call of an account that was charged or answered, oldest first, by its number."""
    entries, answers, askers = account.entries(), account.answers(), account.askers()
    first: dict[str, tuple[dt.datetime, str]] = {}
    paid: dict[str, list[Fraction]] = {}
    for entry in entries:
        first.setdefault(entry.call, (entry.at, entry.mechanism))
        epsilon, delta = paid.get(entry.call, [Fraction(0), Fraction(0)])
        paid[entry.call] = [epsilon + entry.epsilon, delta + entry.delta]
    for answer in answers:
        first.setdefault(answer.call, (answer.at, answer.mechanism))
    by_call = {answer.call: answer for answer in answers}
    records = {}
    with account.ledger.decoding():
        for call, (at, method) in sorted(first.items(), key=lambda item: item[1]):
            kept = by_call.get(call)
            records[call] = CallRecord(
                call=call,
                at=at,
                analyst=askers.get(call, ""),
                method=method,
                question=None if kept is None or kept.question is None else dict(json.loads(kept.question)),
                epsilon=paid.get(call, [Fraction(0)])[0],
                delta=paid.get(call, [Fraction(0)] * 2)[1],
                reused=_reused(kept),
                answered=kept is not None,
                typed=_typed(kept),
            )
    return records


def matching(
    calls: Iterable[CallRecord],
    *,
    method: str | None = None,
    analyst: str | None = None,
    since: str | dt.date | None = None,
    until: str | dt.date | None = None,
) -> list[CallRecord]:
    """Keep the calls of a method, an analyst and a time; ``until`` a day is until its end.

    Raises
    ------
    ArgumentError
        If a date is none.
    """
    first = None if since is None else _moment("since", since, last=False)
    last = None if until is None else _moment("until", until, last=True)
    return [
        each
        for each in calls
        if (method is None or each.method == method)
        and (analyst is None or name_key(each.analyst) == name_key(analyst))
        and (first is None or each.at >= first)
        and (last is None or each.at <= last)
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
