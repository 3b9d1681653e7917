"""What the house promises of any method, asked of one as the conformance kit asks.

Nothing here is a mistake that a method can make: people with several rows, on tables that differ in all rows of one
of them; secret samples of tables that differ in one row; and what else is asked of the same rows. Under a sampler
that adds no noise, what the ledger gives must be what an account measures that knows nothing.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from dfprivacy._call.payment import Target
from dfprivacy._measure.evaluate import Table
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.conversions import epsilon_on_sample
from dfprivacy._privacy.losses import Approximate, Pure
from dfprivacy._table import sample
from dfprivacy.errors import DPError, LedgerError
from dfprivacy.schema import Unit
from dfprivacy.view import PrivateFrame
from dfprivacy_audit.cases import few_rows, variants_among
from dfprivacy_audit.exact import Loss, loss_between, run_distance
from dfprivacy_audit.harness import (
    Failed,
    Harness,
    MemoryFrame,
    RecordingAccount,
    Replay,
    Skipped,
    captured_messages,
    check_time_limit,
    fixed_random_seeds,
    ledger_accounts,
    recorded_measurements,
    with_first_row,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dfprivacy._ledger.accounts import Account
    from dfprivacy._table.frames import Frame
    from dfprivacy.release import NoisyValue
    from dfprivacy_audit.cases import Case, Row
    from dfprivacy_audit.discipline import Audit
    from dfprivacy_audit.harness import Recording

_WHO = "whose row it is"
_UNIT = Unit(_WHO, 2)
_KEY = bytes(range(32))
_CORNERS = 4
_MANY = 9  # rows of somebody who has more than count
_PERSON = "somebody"
_SHARE = Fraction(1, 2)
_FINE = 1e-3  # of the scale of the noise: two grids differ by less


@dataclass(frozen=True)
class _OfPeople(Harness):
    """A mechanism asked of the rows of people, or with `per`, of people with one row each made of theirs."""

    per: bool = False
    people: int | None = None

    def frame(self, rows: Sequence[Row], log: list[str] | None = None, **options: Any) -> MemoryFrame:
        """Put rows into a table that says whose they are."""
        return MemoryFrame((*self.case.columns, _WHO), rows, [] if log is None else log, **options)

    def recording_accounts(self, log: list[str]) -> list[RecordingAccount]:
        """Open an account with the promise to people."""
        account = RecordingAccount(self.case, log)
        account.key = _KEY.hex()
        return [account]

    def view_of_all_rows(self, frame: Frame, account: Any) -> PrivateFrame:
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
    corners = few_rows(stage.case, others)[:_CORNERS]
    base = stage.trace(_with([corners[0]] * _UNIT.max_rows, others))
    if base.refused:
        return "refused"
    answer = "answered" if base.release is not None else "paid without an answer"
    _check_hidden(stage, base, corners, others)
    if not base.replayable or not base.charges:
        return answer

    def traced(rows: Sequence[Row]) -> Recording:
        return stage.measure(_with(rows, others), base)

    traces = {name: traced(rows) for name, rows in _people(corners)}
    pairs = list(itertools.combinations(traces.items(), 2))
    if stage.case.neighbors == "add_remove":
        nobody = "nobody", traced([])
        pairs = [(nobody, each) for each in traces.items()]
    (one, a), (other, b) = max(pairs, key=lambda pair: run_distance(pair[0][1], pair[1][1]))
    loss = loss_between(a, b, (None, None), "people")
    if loss.exceeds:
        raise Failed(
            f"{'people' if stage.per else 'rows'} of a table with {one} and of one with {other} are told apart by "
            f"epsilon {loss.epsilon:.6g}, and {loss.charge:.6g} was charged"
        )
    return f"{answer}, loss {loss.epsilon:.6g} of {loss.charge:.6g} charged"


def _people(corners: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Return what the one person may have."""
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
    """Check that rows without a person move nothing, however many they are."""
    hidden = [{**corner, _WHO: None} for corner in corners for _ in range(_MANY)]
    rows = _with([corners[0]] * _UNIT.max_rows, others)
    if base.replayable and run_distance(stage.measure([*hidden, *rows], base), base):
        raise Failed("rows that name nobody move what is measured, and they are left out")


@dataclass(frozen=True)
class _OfSample(Harness):
    """A mechanism asked of a secret sample of which the first half of the rows is drawn."""

    def view_of_all_rows(self, frame: Frame, account: Any) -> PrivateFrame:
        """Make a view of a sample."""
        return super().view_of_all_rows(frame, account).sample(_SHARE)


def samples_stand_alone(audit: Audit) -> str:
    """Catch a secret sample of two questions, or of rows that are not drawn, and a price that it does not cover.

    Ask of samples: what a row of one may cost there, that others have no influence, and what is charged.
    """
    if audit.case.other is not None:
        raise Skipped("two tables are asked together only as a whole")
    audit.answered()
    rows = audit.rows[: len(audit.rows) - (len(audit.rows) + 1) % 2]  # of an odd number, one less moves no other
    stage = _OfSample(audit.mechanism, audit.case)
    with _first_half() as drawn:
        base = stage.trace(rows)
        if base.refused:
            return "refused"
        corners = few_rows(replace(stage.case, public=()), rows)[:_CORNERS]  # no column of a sample is public
        if not base.charges:
            if any(stage.trace(with_first_row(rows, row)).outcome != base.outcome for row in corners):
                raise Failed("something private of a sample comes for nothing")
            return "answered"
        share = _check_drawn(stage, rows, base, drawn)
        if base.opaque:
            return "answered"
        traces = [stage.measure(with_first_row(rows, row), base) for row in corners]
        outside = [stage.measure([*rows[:-1], row], base) for row in corners[-2:]]
        if stage.case.neighbors == "add_remove":
            pairs = [(stage.measure(rows[1:], base), each) for each in traces]
        else:
            pairs = [*itertools.combinations(traces, 2)]
    if any(run_distance(each, base) for each in outside):
        raise Failed("a row that is not drawn moves what is measured")
    loss = max((_loss(share, *pair) for pair in pairs), key=lambda loss: loss.epsilon)
    if loss.exceeds:
        raise Failed(
            f"samples that differ in one row are told apart by epsilon {loss.epsilon:.6g}, where "
            f"{float(base.epsilon):.6g} was charged, which is worth {loss.charge:.6g} on them"
        )
    return f"loss {loss.epsilon:.6g} of {loss.charge:.6g}, for {float(base.epsilon):.6g} charged"


def _loss(share: Fraction, one: Recording, other: Recording) -> Loss:
    """Compute the loss between two samples, with what the charge is worth on them in place of it."""
    worth, delta = epsilon_on_sample(one.epsilon, share), one.delta / share
    price = (Approximate(worth, delta) if delta else Pure(worth),)
    return loss_between(replace(one, charges=price), replace(other, charges=price), (None, None), "sample")


def _check_drawn(stage: Harness, rows: Sequence[Row], base: Recording, drawn: list[int]) -> Fraction:
    """Check that each question draws another sample and is charged what was asked; return the share drawn."""
    first, accounts = len(drawn), stage.recording_accounts([])
    question = stage.question(stage.views(stage.frames(rows), accounts))
    if base.epsilon != question.epsilon:
        raise Failed(f"epsilon {float(base.epsilon):.6g} was charged, and {float(question.epsilon):.6g} was asked")
    with suppress(DPError):
        question.ask()
    with suppress(DPError):
        question.ask()
    if len(drawn) != 3 * first:
        raise Failed("two questions see one sample")
    return question.target.table.sample.share  # type: ignore[union-attr]


@contextmanager
def _first_half() -> Iterator[list[int]]:
    """Draw the first half of the rows, in order, and write down when."""
    drawn: list[int] = []

    def in_order(count: int) -> Any:
        drawn.append(count)
        return np.arange(count)

    with (
        mock.patch.object(sample, "draw_distinct", lambda _, count: np.arange(count)),
        mock.patch.object(sample, "draw_memberships", lambda _, count: np.arange(count) < (count + 1) // 2),
        mock.patch.object(sample, "draw_permutation", in_order),
    ):
        yield drawn


class _Exact(Replay):
    """A sampler that adds nothing."""

    def laplace(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        return values.copy()

    gaussian = cube = laplace


def reuses_what_was_measured(audit: Audit) -> str:
    """Catch a measurement that is taken from the ledger for another one, or paid where it is taken.

    Ask again under one account, and what else could be asked.
    """
    audit.answered()
    accounts = ledger_accounts(audit.harness)
    taken = _again(audit, accounts)
    tried = variants_among(audit.mechanism, audit.others or [audit.case], audit.case)
    for name, cases in tried:
        case = replace(cases[0], epsilon=audit.case.epsilon)
        stage, rows = Harness(audit.mechanism, case), _with_parts(case, audit.rows)
        for true, value in zip(
            _measured(stage, rows, ledger_accounts(stage)), _measured(stage, rows, accounts), strict=False
        ):
            if not (value.noise and value.noise.reused and true.noise):
                continue
            if true.values.shape != value.values.shape or _apart(true, value):
                raise Failed(f"with {name}, {value.noise.what} is taken for something else")
            if true.noise.scale != value.noise.scale:
                break  # from here on another course may be taken
    return f"{taken} measurements are taken again, bit by bit and for nothing; {len(tried)} variants take no other"


def _again(audit: Audit, accounts: Sequence[Account]) -> int:
    """Ask twice; give how many measurements the second call takes."""
    first = _measured(audit.harness, audit.rows, accounts)
    before = [account.spent() for account in accounts]
    again = [value for value in _measured(audit.harness, audit.rows, accounts) if value.noise]
    taken = [value for value in again if value.noise and value.noise.reused]
    if not taken:
        raise Skipped("it measures nothing that can be written down")
    for old, new in zip([value for value in first if value.noise], again, strict=True):
        if any(new is each for each in taken) and not np.array_equal(old.values, new.values):
            raise Failed(f"asked again, {new.noise and new.noise.what} is not what was measured")
    every = len(taken) == len(again) == len(audit.first_run.draws)
    if every and before != [account.spent() for account in accounts]:
        raise Failed("all that was measured is taken again, and yet the account has paid")
    return len(taken)


def _apart(true: NoisyValue, value: NoisyValue) -> bool:
    return bool((np.abs(true.values - value.values) > _FINE * true.scales).any())


def _measured(stage: Harness, rows: Sequence[Row], accounts: Sequence[Account]) -> list[NoisyValue]:
    """Ask, whether or not the answer is kept, and give what was measured on the way."""
    check_time_limit()
    with (
        captured_messages(),
        noise.use_sampler(_Exact()),
        fixed_random_seeds(),
        recorded_measurements() as measurements,
    ):
        try:
            question = stage.question(stage.views(stage.frames(rows), accounts), fresh=False)
            with mock.patch.multiple(type(question), _kept_answer=lambda _: None, _implied_answer=lambda *_: None):
                question.ask()
        except LedgerError as error:
            raise Failed(f"what is taken from the ledger does not fit: {error}") from error
        except Exception:  # noqa: BLE001, S110 - what it concludes is of no interest here
            pass
    return [each.answer for each in measurements if each.verb in {"sum", "measure"}]


def _with_parts(case: Case, rows: Sequence[Row]) -> list[Row]:
    """Return the rows, with a column of parts where the case has one more."""
    more = [name for name in case.columns if name not in rows[0]]
    kinds = {name: list(case.categories[name]) for name in more}
    return [
        {**{name: values[at % len(values)] for name, values in kinds.items()}, **row} for at, row in enumerate(rows)
    ]


PROMISES = {each.__name__: each for each in (people_stand_together, samples_stand_alone, reuses_what_was_measured)}
