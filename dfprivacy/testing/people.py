"""The audit of people with several rows: a mechanism on tables that differ in all rows of one of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dfprivacy._call.target import Target
from dfprivacy._measure.evaluate import Table
from dfprivacy.schema import Unit
from dfprivacy.testing.cases import few
from dfprivacy.testing.discipline import Audit, Failed, Skipped
from dfprivacy.testing.exact import distance, loss_between
from dfprivacy.testing.harness import Harness, MemoryFrame, RecordingAccount
from dfprivacy.view import PrivateFrame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dfprivacy._table.frames import Frame
    from dfprivacy.testing.cases import Row
    from dfprivacy.testing.harness import Recording

__all__ = ["people_stand_together"]

_WHO = "whose row it is"
_UNIT = Unit(_WHO, 2)
_KEY = bytes(range(32))
_CORNERS = 4
_MANY = 9  # rows of somebody who has more than count
_PERSON = "somebody"


@dataclass(frozen=True)
class _OfPeople(Harness):
    """A mechanism asked of the rows of people, or with `per`, of people with one row each made of theirs."""

    per: bool = False
    people: int | None = None

    def frame(self, rows: Sequence[Row], log: list[str] | None = None, **options: Any) -> MemoryFrame:
        """Put rows into a table that says whose they are."""
        return MemoryFrame((*self.case.columns, _WHO), rows, [] if log is None else log, **options)

    def accounts_of(self, log: list[str]) -> list[RecordingAccount]:
        """Open an account with the promise to people."""
        account = RecordingAccount(self.case, log)
        account.whose, account.key = (_UNIT.column, _UNIT.max_rows, _UNIT.missing), _KEY.hex()
        return [account]

    def whole(self, frame: Frame, account: Any) -> PrivateFrame:
        """Make a view of all rows, or of people."""
        case = self.case
        schema = self.schema(frame, unit=_UNIT, size=self.people if case.neighbors == "replace_one" else None)
        view = PrivateFrame(Target(account, Table(frame, schema, key=_KEY)))
        kinds = {name: "last" if name in case.categories else "mean" for name in case.columns}
        return view.per(_WHO).agg(kinds) if self.per else view


def people_stand_together(audit: Audit) -> str:
    """Catch too little noise for all rows of a person: in several groups, more than count, or without a name.

    Ask of tables that differ in all rows of one person, and of such people with one row each.
    """
    if audit.case.other is not None:
        raise Skipped("two tables are asked together only with one row a person")
    audit.answered()
    case = replace(audit.case, public=())
    others = [{**row, _WHO: f"{at // 2}"} for at, row in enumerate(audit.rows)]
    people = len({row[_WHO] for row in others}) + 1
    stages = [_OfPeople(audit.mechanism, case, per=per, people=people) for per in (False, True)]
    answers = [_largest(stage, others) for stage in stages]
    return "; ".join(f"{what}: {answer}" for what, answer in zip(("rows", "people"), answers, strict=True))


def _largest(stage: _OfPeople, others: Sequence[Row]) -> str:
    """Find the largest loss between two tables that differ in one person."""
    corners = few(stage.case, others)[:_CORNERS]
    base = stage.trace(_with([corners[0]] * _UNIT.max_rows, others))
    if base.refused:
        return "refused"
    answer = "answered" if base.release is not None else "paid without an answer"
    _check_hidden(stage, base, corners, others)
    if not base.replayable or not base.charges:
        return answer
    until = len(base.given) or None

    def traced(rows: Sequence[Row]) -> Recording:
        recording = stage.trace(_with(rows, others), transcript=base.given, until=until)
        return replace(recording, charges=base.charges) if recording.stopped else recording

    traces = {name: traced(rows) for name, rows in _people(corners)}
    pairs = list(itertools.combinations(traces.items(), 2))
    if stage.case.neighbors == "add_remove":
        nobody = "nobody", traced([])
        pairs = [(nobody, each) for each in traces.items()]
    (one, a), (other, b) = max(pairs, key=lambda pair: distance(pair[0][1], pair[1][1]))
    loss = loss_between(a, b, (None, None), "people")
    if loss.exceeds:
        raise Failed(
            f"{'people' if stage.per else 'rows'} of a table with {one} and of one with {other} are told apart by "
            f"epsilon {loss.epsilon:.6g}, and {loss.charge:.6g} was charged"
        )
    return f"{answer}, loss {loss.epsilon:.6g} of {loss.charge:.6g} charged"


def _people(corners: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Give what the one person may have."""
    for at, corner in enumerate(corners, 1):
        yield f"as many rows as count, all as row {at}", [corner] * _UNIT.max_rows
    yield "a single row", [corners[-1]]
    yield "rows in several groups", list(corners)[: _UNIT.max_rows]
    yield "more rows than count", [corners[0]] * _MANY
    yield "more rows than count, in several groups", [*corners] * _MANY


def _with(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """Put somebody's rows into a table: half of them first, half of them last."""
    own = [{**row, _WHO: _PERSON} for row in rows]
    half = len(own) // 2
    return [*own[:half], *others, *own[half:]]


def _check_hidden(stage: _OfPeople, base: Recording, corners: Sequence[Row], others: Sequence[Row]) -> None:
    """Let nobody's rows, however many they are, move nothing."""
    hidden = [{**corner, _WHO: None} for corner in corners for _ in range(_MANY)]
    rows = _with([corners[0]] * _UNIT.max_rows, others)
    recording = stage.trace([*hidden, *rows], transcript=base.given, until=len(base.given) or None)
    recording = replace(recording, charges=base.charges) if recording.stopped else recording
    if base.replayable and distance(recording, base):
        raise Failed("rows that name nobody move what is measured, and they are left out")
