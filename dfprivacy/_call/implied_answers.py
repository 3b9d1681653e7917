"""Answers computed from the releases of other questions, if that is at least as accurate."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dfprivacy._json import plain_json
from dfprivacy._ledger.calls import CallSelection
from dfprivacy.errors import ArgumentError
from dfprivacy.release import Release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dfprivacy._call.call import Call
    from dfprivacy._measure.curator import Planner
    from dfprivacy.release import Privacy

__all__ = ["implied_answer", "privacy_paid_before"]

_NOT_OF_TABLE = {"mechanism", "origin", "arguments", "price", "group_by", "where", "columns", "seen"}
_MOST = 50  # newest answers that are read

_RowConditions = frozenset[str]
"""Conditions that select rows, as JSON texts; the category of a group is one of them."""


def implied_answer(question: Call, plans: Callable[[], Sequence[Planner]]) -> Release | None:
    """Compute an answer from kept releases of other questions about the same rows and columns.

    Parameters
    ----------
    question : Call
        The question; its mechanism has a reader of other releases.
    plans : callable
        Function that plans its measurements, of each group or of all rows, without reading the rows.

    Returns
    -------
    Release or None
        The most accurate answer for each group, at least as accurate as a paid answer by the mechanism's reader;
        None if a group has no such answer.
    """
    reader, texts = question.mechanism.reader, question.question_texts
    if reader is None or texts is None or question.target.table.sample is not None:
        return None
    own = json.loads(texts[0])
    names = [column.name for column in question.by]
    asked = [_conditions_of_group(own["where"], dict(zip(names, key, strict=True))) for key in question.group_keys]
    known = [each for each in _answers_about_same_table(question, own, asked) if each[0] in asked]
    if not {*asked} <= {rows for rows, *_ in known}:
        return None
    measured, sources = [], {}
    for rows, planned in zip(asked, plans(), strict=True):
        found: list[tuple[float, int, Any, Privacy]] = []
        for place, (of, source, privacy) in enumerate(known):
            read = reader(planned, source, **question.arguments) if of == rows else None
            if read is not None:
                found.append((read[0], place, read[1], privacy))
        if not found:
            return None
        _, _, sums, privacy = min(found)
        measured.append(sums)
        sources[id(privacy)] = privacy
    return question.conclude_release(measured).paid(_privacy_of_implied_answer(question, [*sources.values()]))


def _privacy_of_implied_answer(question: Call, sources: Sequence[Privacy]) -> Privacy:
    """Return the privacy record of an answer computed from other releases: epsilon 0, and the noise in them."""
    noise = [each for source in sources for each in privacy_paid_before(source).noise]
    return replace(
        privacy_paid_before(sources[0]),
        noise=tuple(dict.fromkeys(noise)),
        mechanism=f"{question.mechanism.name} ({question.mechanism.origin})",
        at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        question=question.sentence,
        where=question.where,
    )


def privacy_paid_before(source: Privacy) -> Privacy:
    """Return a copy of a privacy record with epsilon and delta of 0, for noise that was paid for before."""
    noise = [replace(each, epsilon=0.0, delta=0.0, reused=each.reused or source.at) for each in source.noise]
    return replace(source, epsilon=0.0, delta=0.0, noise=tuple(noise), replayed=False)


def _answers_about_same_table(
    question: Call, own: Mapping[str, Any], asked: Sequence[_RowConditions]
) -> Iterator[tuple[_RowConditions, Release, Privacy]]:
    """Yield the newest kept answers about the same table, if they declared the question's columns alike.

    Each comes with the conditions of its rows; an answer by group is returned group by group.
    """
    facts = _facts_of_table(own)
    for answer in question.target.account.newest_answers(CallSelection(question.mechanism.sources), _MOST):
        kept = None if answer.question is None else json.loads(answer.question)
        if kept is None or _facts_of_table(kept) != facts:
            continue
        columns = {**kept.get("columns", {}), **kept.get("seen", {})}
        policies = [each["arguments"].get("nan_policy", "omit") for each in (kept, own)]
        if policies[0] != policies[1] or any(columns.get(name) != of for name, of in own["columns"].items()):
            continue
        where = kept["where"]
        if (
            not (kept.get("group_by") or kept["arguments"].get("by"))
            and _conditions_of_group(where, {}) not in asked
        ):
            continue
        with suppress(ArgumentError):  # of another version
            release = Release.from_dict(answer.release)
            if release.privacy is None:
                continue
            for key, each in release._parts():  # noqa: SLF001 - our own
                yield _conditions_of_group(where, key), each, release.privacy


def _facts_of_table(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a question's JSON that describe its table."""
    return {name: value for name, value in asked.items() if name not in _NOT_OF_TABLE}


def _conditions_of_group(where: Iterable[object], group: Mapping[str, object]) -> _RowConditions:
    """Return the conditions that select the rows of a group, as JSON texts."""
    return frozenset(map(plain_json, [*where, *({name: {"in": [key]}} for name, key in group.items())]))
