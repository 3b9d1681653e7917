"""The question that a release answers, known as long as this process holds the release."""

from __future__ import annotations

import weakref
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dfprivacy._privacy.filters import exact

if TYPE_CHECKING:
    from dfprivacy._call.question import Question
    from dfprivacy.release import Release

__all__ = ["answered_by", "note"]

_KNOWN: dict[int, tuple[weakref.ref[Release], Question]] = {}


def note(question: Question, release: Release) -> None:
    """Remember which question a release answers, without its rows."""
    question = replace(question, target=replace(question.target, table=question.target.table.weakly()))
    if question.words[0] == "rest" and release.privacy is not None:  # which was more, before it was paid
        question = replace(question, epsilon=exact(release.privacy.epsilon), delta=exact(release.privacy.delta))
    place = id(release)

    def forget(_: object, known: dict[int, Any] = _KNOWN) -> None:  # which outlives the module's own name
        known.pop(place, None)

    with suppress(TypeError):  # a class of somebody's that cannot be referred to weakly
        _KNOWN[place] = weakref.ref(release, forget), question


def answered_by(release: Release) -> Question | None:
    """Find the question that a release answers; None if this process does not know it."""
    reference, question = _KNOWN.get(id(release), (None, None))
    return question if reference is not None and reference() is release else None
