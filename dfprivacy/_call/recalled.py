"""Releases that came from JSON: their questions, as the ledger wrote them down.

The text of a question names everything that could change its answer. So it is read, asked of what is public about a
data set that this process has protected, and written again: if that is the same text, it is the same question.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dfprivacy._call.answered import close, note
from dfprivacy._call.question import Question
from dfprivacy._call.target import slack
from dfprivacy._plugins.loader import registry
from dfprivacy._privacy.filters import exact
from dfprivacy._table.conditions import Presence, condition
from dfprivacy._table.per import OfPerson
from dfprivacy.errors import DPError
from dfprivacy.release import Release, Value
from dfprivacy.schema import Column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy._call.target import Target
    from dfprivacy._ledger.accounts import Answer
    from dfprivacy._measure.evaluate import Table
    from dfprivacy._table.conditions import Condition
    from dfprivacy._table.per import How
    from dfprivacy.schema import Schema

__all__ = ["asked_again", "protected", "recall"]

_PROTECTED: dict[tuple[str, str], Target] = {}


def protected(target: Target) -> None:
    """Remember what is public about a data set of this process, and its rows as long as somebody holds them."""
    _PROTECTED[target.account.ledger.where, target.account.name] = replace(target, table=target.table.weakly())


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
    for (_, name), target in list(_PROTECTED.items()):
        if privacy is None or privacy.account != name:
            continue
        for answer in reversed(target.account.answers()):
            if answer.question is None or not _same(answer, content):
                continue
            question = _read(target, answer.question, release)
            if question is not None:
                note(question, release)
                return True
    return False


def asked_again(question: Question, release: Release) -> Question | None:
    """Find the same question of the same rows through the view that is open now; None if there is none."""
    account = question.target.account
    target = _PROTECTED.get((account.ledger.where, account.name))
    if target is None or question.text is None:
        return None
    return _read(target, question.text, release) or _read(target, question.wide_text or "", release)


def _same(answer: Answer, content: Mapping[str, Any]) -> bool:
    """Whether an answer is this release, of this moment, with this noise."""
    kept: Mapping[str, Any] = answer.release.get("privacy") or {}
    own: Mapping[str, Any] = content["privacy"]
    same = all(kept.get(name) == own[name] for name in ("at", "noise"))
    return same and close(answer.release, dict(content))


def _read(target: Target, text: str, release: Release) -> Question | None:
    """Read a question; None if it is another one when it is asked of what is known here."""
    recorded = json.loads(text)
    mechanism = registry().mechanisms.get(recorded["mechanism"])
    if mechanism is None or "where" not in recorded:  # of two tables
        return None
    try:
        table = _rows(target.table, recorded)
        schema = table.schema
        given = Release.from_dict({**Value(value=None).to_dict(), "value": recorded["arguments"]}).value  # type: ignore[attr-defined]
        bound = mechanism.bind((), {**given, **given.pop(mechanism.gathers, {})})
        price, names = recorded["price"], recorded["group_by"] or []
        by = tuple(schema.categorical(name) for name in ([names] if isinstance(names, str) else names))
        paid = 0.0 if release.privacy is None else release.privacy.epsilon
        epsilon = exact(paid if price[0] == "rest" else price[0])
        delta = slack("delta", price[1] or 0)
        target, arguments = replace(target, table=table), mechanism.resolve(schema, bound)
        question = Question(target, mechanism, bound, arguments, epsilon, delta, price, fresh=False, by=by)
    except (DPError, KeyError, TypeError, ValueError):
        return None
    return question if text in (question.text, question.wide_text) else None


def _rows(table: Table, recorded: Mapping[str, Any]) -> Table:
    """Choose the rows of a question among those of the whole table, by the verbs of a view."""
    if "derived" in recorded:
        of = json.loads(recorded["derived"])  # a sample has none of these, and nothing is kept of it
        table = table.declaring(_columns(dict(of["chosen"])))
        each = (_condition(table.schema, condition) for condition, _ in of["where"])
        table = table.where(*each).per_person(tuple(_of_person(*aggregate) for aggregate in of["columns"]))
    elif "chosen" in recorded:
        table = table.declaring(_columns(dict(recorded["chosen"])))
    told = _columns({**recorded["columns"], **recorded.get("seen", {})})
    table = table.declaring({**table.schema.columns, **told})
    return table.where(*(_condition(table.schema, each) for each in recorded["where"]))


def _of_person(name: str, how: How, of: Sequence[Any] | None, column: Mapping[str, Any]) -> OfPerson:
    return OfPerson(name, how, None if of is None else _column(*of), _column(name, column))


def _columns(facts: Mapping[str, Mapping[str, Any]]) -> dict[str, Column]:
    return {name: _column(name, each) for name, each in facts.items()}


def _column(name: str, facts: Mapping[str, Any]) -> Column:
    own: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in facts.items()}
    return Column(name, **own)


def _condition(schema: Schema, recorded: Mapping[str, Any]) -> Condition:
    ((name, rule),) = recorded.items()
    match rule:
        case {"between": [low, high]}:
            return condition(schema, name, (low, high))
        case {"in": list(values)}:
            return condition(schema, name, values)
    return condition(schema, name, Presence(rule["is"]))
