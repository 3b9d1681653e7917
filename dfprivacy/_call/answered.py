"""What a release answers: its question, and the measurements in the ledger that it stands on.

A release holds no question. What this process has asked is known here by the identity of the object, as long as
somebody holds it; `dfprivacy._call.recalled` finds what came from JSON, or from `PrivateFrame.releases`. No frame
is kept alive by either.
"""

from __future__ import annotations

import itertools
import math
import weakref
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from dfprivacy._call.kept import Kept
from dfprivacy._call.payment import Unpaid
from dfprivacy._ledger.measurements import digest
from dfprivacy._measure.redraw import Recorded, Recorder, Redrawer, Tape, World
from dfprivacy._privacy.filters import exact
from dfprivacy.errors import ArgumentError
from dfprivacy.release import Groups, Release, Value

if TYPE_CHECKING:
    from dfprivacy._call.question import Question
    from dfprivacy._ledger.accounts import Account
    from dfprivacy._ledger.measurements import KeptMeasurement
    from dfprivacy._measure.description import Origins
    from dfprivacy._measure.evaluate import Table
    from dfprivacy.release import MeasurementRecord, Privacy

__all__ = ["Answered", "Part", "answered_of", "close", "note"]

_CHECKED = 2  # draws in which every measurement is held against its description


@dataclass(frozen=True, eq=False)
class Answered:
    """A question that was answered, and its answer: what it takes to draw the noise in it again.

    It holds no rows for itself.
    """

    question: Question
    release: Release

    @property
    def account(self) -> Account:
        """Who paid; the first of two."""
        return self.question.target.account

    @property
    def ledger(self) -> str:
        """Where its measurements are kept."""
        return self.account.ledger.where

    @property
    def table(self) -> Table:
        """The very rows that were asked, if somebody still holds the table."""
        return self.question.target.table

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Each group of the answer, or the one that it is, with what was measured for it.

        Two calls within a second may have measured the same at the same price. The answer tells which it is of.
        """
        for nth in itertools.count():
            reader = _Reader(self, nth)
            parts = self._parts(reader)
            if not reader.more or all(part.follows for part in parts):
                return parts
        raise AssertionError

    def _parts(self, reader: _Reader) -> tuple[Part, ...]:
        question = self.question
        members = self.release.releases if isinstance(self.release, Groups) else (self.release,)
        if not question.by:
            return (Part(self, self.table, members[0], _recorded(self, self.table, reader)),)
        with self.table.groups(question.by) as tables:
            return tuple(
                Part(self, table, release, _recorded(self, table, reader))
                for table, release in zip(tables, members, strict=True)
            )

    def in_words(self, key: object = None) -> str:
        """Write the question as it would be typed, and of which rows it is."""
        question = self.question
        where = list(question.where)
        if key is None:
            return " ".join([question.sentence, *(["where", " and ".join(where)] if where else [])])
        names = [column.name for column in question.by]
        keys = key if isinstance(key, tuple) and len(names) > 1 else (key,)
        where += [f"{name} = {each}" for name, each in zip(names, keys, strict=True)]
        return f"{question.typed} where {' and '.join(where)}"


@dataclass(frozen=True, eq=False)
class Part:
    """One answer, of one group or of all rows, and the tape of what was measured for it."""

    answered: Answered
    table: Table
    release: Release
    tape: Tape
    checked: list[int] = field(default_factory=list)

    @property
    def records(self) -> list[MeasurementRecord]:
        """The measurements, in order."""
        return [slot.recorded.record for slot in self.tape.slots if slot.recorded is not None]

    def measured(self, world: World) -> Any:
        """Run the first half again, with a draw of the noise."""
        question = self.answered.question
        often = len(self.checked) < _CHECKED
        curator = Redrawer(
            self.table,
            Unpaid(question.target, question.epsilon, question.delta),
            tape=self.tape,
            world=world,
            origins=_origins(self.answered) if often else None,
        )
        measured = question.mechanism.measure(curator, question.arguments)
        if often and world.number is not None:
            self.checked.append(world.number)
        return measured

    def concluded(self, measured: Any) -> Release:
        """Run the second half."""
        answer = self.answered.question.mechanism.conclude(measured, self.answered.question.arguments)
        return answer if isinstance(answer, Release) else Value(value=answer)

    @cached_property
    def follows(self) -> bool:
        """Whether the release follows from what was found in the ledger."""
        measured = self.measured(World(None))
        question = self.answered.question
        again = self.concluded(measured)
        short = question.mechanism.estimate(measured, question.arguments)
        if short is not None and not close(short, getattr(again, again._estimate)):  # noqa: SLF001 - of our own kind
            raise ArgumentError(
                f"The short way to the estimate of {question.mechanism.name}() leads elsewhere.",
                "Tell its authors.",
            )
        return type(again) is type(self.release) and close(again.to_dict(), self.release.to_dict())

    def check(self) -> None:
        """Refuse a release that does not follow from what the ledger keeps."""
        if not self.follows:
            raise ArgumentError(
                f"What {self.answered.question.mechanism.name}() released does not follow from what the ledger "
                "keeps.",
                "Ask again with fresh=True, or install the version that made it.",
            )


class _Reader:
    """The measurements of one call in the ledger, found in the order in which they were made.

    Parameters
    ----------
    asked : Asked
        The question, and its answer.
    nth : int
        Which call it was, of those since then that have measured the same with the same noise.
    """

    def __init__(self, answered: Answered, nth: int) -> None:
        privacy = cast("Privacy", answered.release.privacy)
        self.origins = _origins(answered)
        self.more = False
        self._account, self._private, self._nth = answered.account, privacy.private, nth
        self._since, self._moment = datetime.fromisoformat(privacy.at), ""
        self._records = iter(privacy.noise)
        self._taken: set[int] = set()

    def next(self, description: str, noise: str) -> Recorded:
        """Find what the next record of the release is about."""
        record = next(self._records, None)
        key = digest(description)
        known = self._account.measurements(key, private=self._private).get((key, noise), [])
        same = [
            each for each in known if record is not None and each.id not in self._taken and self._is(each, record)
        ]
        if record is not None and not record.reused and not self._moment and same:
            moments = list(dict.fromkeys(each.at for each in same))
            self._moment, self.more = moments[self._nth], len(moments) > self._nth + 1
            same = [each for each in same if each.at == self._moment]
        if record is None or not same:
            raise ArgumentError(
                "The ledger does not have the measurements any more that this answer stands on"
                + (f": {record.what}." if record is not None else "."),
                "Ask its question again with fresh=True.",
            )
        kept = same[0]
        self._taken.add(kept.id)
        steps = self._account.steps(kept)
        return Recorded(
            (self._account.name, kept.id), noise, kept.steps_scale, replace(record, reused=kept.at), steps
        )

    def _is(self, kept: KeptMeasurement, record: MeasurementRecord) -> bool:
        if kept.grid != record.grid or kept.scale != record.scale:
            return False
        if record.reused or self._moment:
            return kept.at == (record.reused or self._moment)
        return datetime.fromisoformat(kept.at) >= self._since


_KNOWN: dict[int, tuple[weakref.ref[Release], Answered, object]] = {}


def note(question: Question, release: Release) -> None:
    """Remember what a release answers, for as long as somebody holds it."""
    answered = _answered(question, release)
    _remember(release, answered, None)
    if isinstance(release, Groups):
        for key, each in zip(release.keys, release.releases, strict=True):
            _remember(each, answered, key)


def answered_of(release: Release) -> tuple[Answered, object] | None:
    """Find what a release answers, and which group of it if it is one of several.

    Parameters
    ----------
    release : Release
        What a method returned.

    Returns
    -------
    tuple of (Asked, object) or None
        Question and answer; and the group's key, None for an answer about all rows, and for all groups together.
        None if this process does not know it.
    """
    known = _KNOWN.get(id(release))
    return known[1:] if known is not None and known[0]() is release else None


def _remember(release: Release, answered: Answered, key: object) -> None:
    place = id(release)

    def forget(_: object, known: dict[int, Any] = _KNOWN) -> None:  # which outlives the module's own name
        known.pop(place, None)

    with suppress(TypeError):  # a class of somebody's that cannot be referred to weakly
        _KNOWN[place] = weakref.ref(release, forget), answered, key


def _answered(question: Question, release: Release) -> Answered:
    """Keep a question without its rows."""
    question = replace(question, target=replace(question.target, table=question.target.table.weakly()))
    if question.words[0] == "rest" and release.privacy is not None:  # which was more, before it was paid
        question = replace(question, epsilon=exact(release.privacy.epsilon), delta=exact(release.privacy.delta))
    return Answered(question, replace(release))  # a copy: the release itself is held weakly


def _recorded(answered: Answered, table: Table, reader: _Reader) -> Tape:
    question = answered.question
    if question.mechanism.conclusion is None:
        raise ArgumentError(
            f"{question.mechanism.name}() measures and concludes in one piece: its noise cannot be drawn again.",
            "Combine answers of methods that measure first and then conclude, as nearly all do.",
        )
    budget = Unpaid(question.target, question.epsilon, question.delta)
    recorder = Recorder(table, budget, recordings=reader)
    question.mechanism.measure(recorder, question.arguments)
    return recorder.tape


def _origins(answered: Answered) -> Origins:
    return Kept(answered.account, fresh=False).origins


def close(first: Any, second: Any) -> bool:
    """Whether JSON values are the same, numbers up to the last digits, and whatever was paid."""
    if isinstance(first, dict) and isinstance(second, dict):
        names = {*first, *second} - {"privacy"}
        return all(name in first and name in second and close(first[name], second[name]) for name in names)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(itertools.starmap(close, zip(first, second, strict=True)))
    if isinstance(first, float) or isinstance(second, float):
        both = isinstance(first, int | float) and isinstance(second, int | float)
        return both and math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12)
    return bool(first == second)
