"""Records of the calls in a ledger: charges, kept answers, and the question of each call."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from dfprivacy import _words
from dfprivacy._ledger.tables import read_fraction, read_text, read_time, write_time
from dfprivacy._privacy.losses import PrivacyLoss, loss_from_dict
from dfprivacy.errors import ArgumentError, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Row

__all__ = [
    "CallRecord",
    "CallSelection",
    "ChargeRecord",
    "KeptAnswer",
    "call_record",
    "question_as_python",
    "split_price",
]


@dataclass(frozen=True)
class ChargeRecord:
    """One charge: its number, call, mechanism, time (in UTC) and privacy loss."""

    id: int
    call: str
    at: dt.datetime
    mechanism: str
    loss: PrivacyLoss
    epsilon: Fraction
    delta: Fraction

    @classmethod
    def read(cls, row: Row[Any]) -> Self:
        """Construct a charge from a row of the ledger; raise an error, such as `ValueError`, if it is damaged."""
        loss = loss_from_dict(json.loads(row.loss))
        if (loss.epsilon, loss.delta) != (read_fraction(row.epsilon), read_fraction(row.delta)):
            raise ValueError
        return cls(*_common_columns(row), loss, loss.epsilon, loss.delta)


@dataclass(frozen=True)
class KeptAnswer:
    """Answer that the ledger keeps: its release as JSON values, and its question as canonical JSON."""

    id: int
    call: str
    at: dt.datetime
    mechanism: str
    question: str | None
    release: dict[str, Any]

    @classmethod
    def read(cls, row: Row[Any]) -> Self:
        """Construct an answer from a row of the ledger; raise an error, such as `ValueError`, if it is damaged."""
        return cls(*_common_columns(row), row.question, dict(json.loads(row.release)))


@dataclass(frozen=True)
class CallRecord:
    """One call: its question, its asker and its outcome.

    Attributes
    ----------
    call : str
        Its number in the ledger.
    at : datetime
        When it was first charged, or answered, in UTC.
    analyst : str
        The analyst who asked; empty if the ledger does not record it, as in older versions.
    method : str
        The method.
    question : mapping or None
        The question in full, as the ledger keeps it: arguments, conditions, columns as declared, price. None if it
        could not be written as JSON, or the call failed.
    text, brief : str
        The question as Python text, with all arguments but None and empty ones and the conditions on rows; and in
        one line as it was typed, if the answer records it, with long arguments cut.
    charges : sequence of ChargeRecord
        What was charged.
    reused : int
        Number of its measurements that were reused from the ledger.
    answered : bool
        Whether it was answered: a call that fails after it has measured stays charged.
    """

    call: str
    at: dt.datetime
    analyst: str
    method: str
    question: Mapping[str, Any] | None
    text: str
    brief: str
    charges: Sequence[ChargeRecord]
    reused: int
    answered: bool

    @property
    def epsilon(self) -> Fraction:
        """Total epsilon that was charged for the call."""
        return sum((each.epsilon for each in self.charges), Fraction(0))

    @property
    def delta(self) -> Fraction:
        """Total delta that was charged for the call."""
        return sum((each.delta for each in self.charges), Fraction(0))

    def to_dict(self) -> dict[str, Any]:
        """Return the call as plain JSON values, with prices as exact strings."""
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
class CallSelection:
    """Selection of calls by method, analyst and time, or by the id of a call; a day given as ``until`` is included.

    Raises
    ------
    ArgumentError
        If `since` or `until` is not a date.
    """

    method: str | tuple[str, ...] | None = None
    analyst: str | None = None
    since: str | dt.date | None = None
    until: str | dt.date | None = None
    call: str | None = None
    moments: list[str | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        days = (("since", self.since), ("until", self.until))
        object.__setattr__(self, "moments", [None if day is None else _read_time(name, day) for name, day in days])


def call_record(
    call: str, at: str, method: str, analyst: str, charges: Sequence[ChargeRecord], answer: KeptAnswer | None
) -> CallRecord:
    """Return the record of a call from its charges and its answer."""
    question = None if answer is None or answer.question is None else dict(json.loads(answer.question))
    text = f"{method}(...)" if question is None else question_as_python(question)
    privacy = {} if answer is None else answer.release.get("privacy") or {}
    where = " and ".join(map(str, privacy.get("where", ())))
    typed = str(privacy.get("question", "")) + (f" where {where}" if where else "")
    reused = sum(bool(noise.get("reused")) for noise in privacy.get("noise", ()))
    about = read_time(at), analyst, read_text(method), question, text, typed or text
    return CallRecord(call, *about, charges, reused, answered=answer is not None)


def question_as_python(question: Mapping[str, Any]) -> str:
    """Return a question of the ledger as Python text, with its conditions and groups."""
    given = {name: value for name, value in question["arguments"].items() if value not in (None, {})}
    sentence = _words.call_as_text(
        question["mechanism"], ((name, _words.value_as_text(value)) for name, value in given.items())
    )
    where = [_words.condition_as_text(each) for each in question.get("where", ())]
    by = question.get("group_by") or []
    sentence += f" where {' and '.join(where)}" if where else ""
    return sentence + (f" by {by if isinstance(by, str) else ', '.join(by)}" if by else "")


def split_price(question: str) -> tuple[str, tuple[str, str | None]]:
    """Split a question, as canonical JSON, into the question without its price, and the price."""
    plain = dict(json.loads(question))
    epsilon, delta = plain.pop("price")
    return json.dumps(plain), (epsilon, delta)


def _read_time(name: str, given: object) -> str:
    """Convert a time or a day to ISO 8601 text in UTC; a day means its start, or its end for ``until``."""
    try:
        moment = dt.datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        moment = None
    day = isinstance(given, str) and len(given) <= len("2000-01-01")
    if isinstance(moment, dt.datetime) and not day:
        return write_time(moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC))
    if isinstance(moment, dt.date):
        time = dt.time.max if name == "until" else dt.time.min
        return write_time(dt.datetime.combine(moment, time, tzinfo=dt.UTC))
    raise ArgumentError(f"{name}{quoted(given)} is neither a date nor a time.", "For example 2026-01-31.")


def _common_columns(row: Row[Any]) -> tuple[int, str, dt.datetime, str]:
    return row.id, read_text(row.call), read_time(row.at), read_text(row.mechanism)
