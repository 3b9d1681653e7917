"""Answers that follow from what other questions have released, where that is at least as accurate."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dfprivacy.errors import ArgumentError
from dfprivacy.release import Release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dfprivacy._call.question import Question
    from dfprivacy._measure.curator import Planner

__all__ = ["implied_answer"]

_ROWS = ("where", "selected", "rows", "unit", "chosen", "derived", "neighbors", "sampler", "group_by")
_MOST = 50  # answers that are looked at


def implied_answer(question: Question, planner: Callable[[], Planner]) -> Release | None:
    """Answer from what other questions about the same rows and columns have released.

    Parameters
    ----------
    question : Question
        What is asked, of a mechanism with a reader.
    planner : callable
        Plans its measurements, without a look at the rows.

    Returns
    -------
    Release or None
        The most accurate of the answers that the mechanism's reader finds as accurate as what would be paid for.
    """
    reader, text = question.mechanism.reader, question.text
    if reader is None or text is None or question.by or question.target.table.sample is not None:
        return None
    sources = list(_about_the_same(question, json.loads(text)))
    if not sources:
        return None
    planned = planner()
    found: list[tuple[float, int, Any, Release]] = []
    for source in sources:
        read = reader(planned, source, **question.arguments)
        if read is not None:
            error, measured = read
            found.append((error, len(found), measured, source))
    if not found:
        return None
    _, _, measured, source = min(found)
    privacy = source.privacy
    if privacy is None:
        return None
    noise = tuple(replace(each, epsilon=0.0, delta=0.0, reused=each.reused or privacy.at) for each in privacy.noise)
    answer: Release = question.mechanism.conclude(measured, question.arguments)
    return answer.paid(
        replace(
            privacy,
            epsilon=0.0,
            delta=0.0,
            noise=noise,
            mechanism=f"{question.mechanism.name} ({question.mechanism.origin})",
            at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            question=question.sentence,
            replayed=False,
        )
    )


def _about_the_same(question: Question, own: Mapping[str, Any]) -> Iterator[Release]:
    """Return the newest answers about the same rows, with the same declarations of the columns that are asked."""
    for answer in question.target.account.newest_answers(question.mechanism.sources, _MOST):
        kept = None if answer.question is None else json.loads(answer.question)
        if kept is None or any(kept.get(name) != own.get(name) for name in _ROWS):
            continue
        columns = {**kept.get("columns", {}), **kept.get("seen", {})}
        policies = [each["arguments"].get("nan_policy", "omit") for each in (kept, own)]
        if policies[0] == policies[1] and all(columns.get(name) == of for name, of in own["columns"].items()):
            with suppress(ArgumentError):  # of another version
                yield Release.from_dict(answer.release)
