"""Releases that came from JSON: their questions, as the ledger wrote them down.

The text of a question names everything that could change its answer. So it is read, asked of what is public about a
data set that this process has protected, and written again: if that is the same text, it is the same question.
"""

from __future__ import annotations

import json
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dfprivacy._call.answered import close, note
from dfprivacy._call.question import Question
from dfprivacy._call.target import slack
from dfprivacy._plugins.loader import registry
from dfprivacy._privacy.filters import exact
from dfprivacy._table.conditions import Presence, condition
from dfprivacy.errors import DPError
from dfprivacy.release import Release, Value
from dfprivacy.schema import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfprivacy._call.target import Target
    from dfprivacy._ledger.accounts import Answer
    from dfprivacy._table.conditions import Condition
    from dfprivacy.schema import Schema

__all__ = ["protected", "recall"]

_PROTECTED: dict[tuple[str, str], tuple[Target, weakref.ref[Any] | None]] = {}


def protected(target: Target) -> None:
    """Remember what is public about a data set of this process, and its rows as long as somebody holds them."""
    frame, bare = target.table.frame, replace(target, table=replace(target.table, frame=None))
    place = target.account.ledger.where, target.account.name
    _PROTECTED[place] = bare, None if frame is None else weakref.ref(frame)


def recall(release: Release) -> bool:
    """Find the question of a release from JSON, and remember it; False if there is none.

    Parameters
    ----------
    release : Release
        With what was paid for it.

    Returns
    -------
    bool
        Whether `answered_of` knows it now.
    """
    privacy = release.privacy
    content = release.to_dict()
    for (_, name), (target, frame) in list(_PROTECTED.items()):
        if privacy is None or privacy.account != name:
            continue
        for answer in reversed(target.account.answers()):
            if answer.question is None or not _same(answer, content):
                continue
            table = replace(target.table, frame=None if frame is None else frame())
            question = _read(replace(target, table=table), answer.question, release)
            if question is not None and answer.question in (question.text, question.wide_text):
                note(question, release)
                return True
    return False


def _same(answer: Answer, content: Mapping[str, Any]) -> bool:
    """Whether an answer is this release, of this moment, with this noise."""
    kept: Mapping[str, Any] = answer.release.get("privacy") or {}
    own: Mapping[str, Any] = content["privacy"]
    same = all(kept.get(name) == own[name] for name in ("at", "noise"))
    return same and close(answer.release, dict(content))


def _read(target: Target, text: str, release: Release) -> Question | None:
    """Read a question; None if it cannot be asked of what is known here."""
    recorded = json.loads(text)
    mechanism = registry().mechanisms.get(recorded["mechanism"])
    if mechanism is None or "where" not in recorded:  # of two tables
        return None
    try:
        schema = _schema(target.table.schema, {**recorded["columns"], **recorded.get("seen", {})}, recorded["rows"])
        where = tuple(_condition(schema, each) for each in recorded["where"])
        table = replace(target.table, schema=schema, conditions=where)
        given = Release.from_dict({**Value(value=None).to_dict(), "value": recorded["arguments"]}).value  # type: ignore[attr-defined]
        bound = mechanism.bind((), {**given, **given.pop(mechanism.gathers, {})})
        price, names = recorded["price"], recorded["group_by"] or []
        by = tuple(schema.categorical(name) for name in ([names] if isinstance(names, str) else names))
        paid = 0.0 if release.privacy is None else release.privacy.epsilon
        epsilon = exact(paid if price[0] == "rest" else price[0])
        delta = slack("delta", price[1] or 0)
        target, arguments = replace(target, table=table), mechanism.resolve(schema, bound)
        return Question(target, mechanism, bound, arguments, epsilon, delta, price, fresh=False, by=by)
    except (DPError, KeyError, TypeError, ValueError):
        return None


def _schema(schema: Schema, columns: Mapping[str, Mapping[str, Any]], rows: int | None) -> Schema:
    """Give what is public about a table, with columns as they were declared for a question."""

    def column(name: str, facts: Mapping[str, Any]) -> Column:
        own: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in facts.items()}
        return Column(name, **own)

    declared = {name: column(name, facts) for name, facts in columns.items()}
    return replace(schema, columns={**schema.columns, **declared}, size=rows)


def _condition(schema: Schema, recorded: Mapping[str, Any]) -> Condition:
    ((name, rule),) = recorded.items()
    match rule:
        case {"between": [low, high]}:
            return condition(schema, name, (low, high))
        case {"in": list(values)}:
            return condition(schema, name, values)
    return condition(schema, name, Presence(rule["is"]))
