"""Encoding of errors, answers, calls and measurements as JSON values, between a server and its clients.

Server and client use the functions of this module alone, so that each can read what the other has written.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from dfprivacy import errors
from dfprivacy._ledger.calls import CallRecord, CallSelection, ChargeRecord, KeptAnswer
from dfprivacy._ledger.tables import DataTable, KeptMeasurement, read_fraction
from dfprivacy._privacy.losses import loss_from_dict
from dfprivacy.errors import DPError, LedgerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy._ledger.accounts import Account

__all__ = ["PROTOCOL", "answer_about_account", "read_account_answer", "read_error", "write_error"]

PROTOCOL = 1
"""Version of the encoding, which must be the same on server and client."""

_MOST = 10_000  # descriptions that are looked up at once
_PAGE = 1000  # answers or calls at once
_ERRORS = {name: getattr(errors, name) for name in errors.__all__ if name not in {"DPError", "PluginWarning"}}


def write_error(error: DPError) -> dict[str, str]:
    """Convert an error to a dictionary of JSON values."""
    return {"error": type(error).__name__, "what": error.what, "hint": error.hint, "outcome": error.outcome}


def read_error(plain: Mapping[str, Any]) -> DPError:
    """Construct an error, with its class and text, from the result of `write_error`."""
    kind = _ERRORS.get(str(plain.get("error")), LedgerError)
    error: DPError = kind(str(plain.get("what", "")), str(plain.get("hint", "")))
    outcome = str(plain.get("outcome", ""))
    return error if outcome == error.outcome else error.after(outcome)


def answer_about_account(account: Account, asked: str, given: Sequence[Any]) -> Any:
    """Return what a client requests of an account, as JSON values: charges, releases or kept measurements.

    Raises
    ------
    ValueError, TypeError, LookupError, AttributeError
        If the request is unknown.
    """
    match asked, list(given):
        case "spent", []:
            return account.spent().to_list()
        case "total_charged", []:
            return str(account.total_charged())
        case "largest", [*kind]:
            return str(account.largest(*[_read_kind(each) for each in kind]))
        case "tables", []:
            return [asdict(each) for each in account.tables()]
        case "measurements", [list(keys), bool(private)] if len(keys) <= _MOST:
            known = account.measurements([str(key) for key in keys], private=private)
            return [[key, [asdict(each) for each in kept]] for (key, _), kept in known.items()]
        case "answer", [*questions] if len(questions) <= 2:  # noqa: PLR2004 - of one question
            found = account.answer(*map(str, questions))
            return None if found is None else _answer_to_dict(found)
        case "newest_answers", [wanted, int(most), int(skipped)] if 0 <= most <= _PAGE and skipped >= 0:
            return [
                _answer_to_dict(each) for each in account.newest_answers(_read_selection(wanted), most, skipped)
            ]
        case "count", ["charges" | "answers" as kind, wanted]:
            return account.count(kind, _read_selection(wanted))
        case "calls", [wanted, None | int() as last, bool(answered)]:
            calls = account.calls(_read_selection(wanted), min(last or _PAGE, _PAGE), answered=answered)
            return [_call_to_dict(each) for each in calls]
    raise ValueError


def read_account_answer(asked: str, plain: Any) -> Any:
    """Convert the result of `answer_about_account` to objects of the types that `Account` returns."""
    match asked:
        case "total_charged" | "largest":
            return read_fraction(plain)
        case "tables":
            return [_read_table(each) for each in plain]
        case "measurements":
            kept = ((key, KeptMeasurement(**each)) for key, every in plain for each in every)
            found: dict[tuple[str, str], list[KeptMeasurement]] = {}
            for key, each in kept:
                found.setdefault((key, each.noise), []).append(each)
            return found
        case "answer":
            return None if plain is None else _answer_from_dict(plain)
        case "newest_answers":
            return [*map(_answer_from_dict, plain)]
        case "calls":
            return [*map(_call_from_dict, plain)]
    return plain


def _read_kind(plain: Any) -> Any:
    return plain if plain in {"pure", "laplace", "gaussian", "approximate"} else read_fraction(plain)


def _read_selection(plain: Mapping[str, Any]) -> CallSelection:
    methods = plain.get("method")
    given: dict[str, Any] = {name: plain.get(name) for name in ("analyst", "since", "until")}
    if not all(value is None or isinstance(value, str) for value in given.values()):
        raise TypeError
    return CallSelection(tuple(map(str, methods)) if isinstance(methods, list) else methods, **given)


def _read_table(plain: Mapping[str, Any]) -> DataTable:
    whose, public = plain["whose"], plain["public"]
    return DataTable(**{**plain, "whose": None if whose is None else tuple(whose), "public": tuple(public)})


def _answer_to_dict(answer: KeptAnswer) -> dict[str, Any]:
    return {**asdict(answer), "at": answer.at.isoformat()}


def _answer_from_dict(plain: Mapping[str, Any]) -> KeptAnswer:
    return KeptAnswer(**{**plain, "at": dt.datetime.fromisoformat(plain["at"])})


def _call_to_dict(call: CallRecord) -> dict[str, Any]:
    given = {each.name: getattr(call, each.name) for each in fields(call)}
    charges = [
        {
            **{name: getattr(each, name) for name in ("id", "call", "mechanism")},
            "at": each.at.isoformat(),
            "loss": each.loss.to_dict(),
        }
        for each in call.charges
    ]
    return {**given, "at": call.at.isoformat(), "charges": charges}


def _call_from_dict(plain: Mapping[str, Any]) -> CallRecord:
    return CallRecord(
        **{
            **plain,
            "at": dt.datetime.fromisoformat(plain["at"]),
            "charges": tuple(_read_entry(each) for each in plain["charges"]),
        }
    )


def _read_entry(plain: Mapping[str, Any]) -> ChargeRecord:
    loss = loss_from_dict(plain["loss"])
    at = dt.datetime.fromisoformat(plain["at"])
    return ChargeRecord(plain["id"], plain["call"], at, plain["mechanism"], loss, loss.epsilon, loss.delta)
