"""Questions to a table, answered from the ledger, from other releases, or by measurements that are charged."""

from __future__ import annotations

import datetime as dt
import traceback
import weakref
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._call.call import Call, mechanism_failure, name_mechanism_in_errors
from dfprivacy._call.explanation import Explanation, recommend_bounds
from dfprivacy._call.implied_answers import implied_answer
from dfprivacy._call.payment import CallPayer, PlanPayer, Target, total_delta, total_epsilon
from dfprivacy._ledger.calls import CallSelection, split_price
from dfprivacy._ledger.store import DAMAGE
from dfprivacy._measure.curator import Curator, Holder, Planner
from dfprivacy._measure.kept_measurements import ResultCache
from dfprivacy._measure.steps import GroupRunner
from dfprivacy._plugins.loader import registry
from dfprivacy._privacy import samplers as noises
from dfprivacy._privacy.filters import exact
from dfprivacy._privacy.losses import Approximate, Pure
from dfprivacy.errors import ArgumentError, BudgetExceeded, DPError, LedgerError, PluginError
from dfprivacy.release import Exact, Privacy, Release

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy._ledger.calls import KeptAnswer
    from dfprivacy._measure.evaluate import Table
    from dfprivacy.mechanism import Mechanism
    from dfprivacy.schema import Column

__all__ = ["Question", "answer_owner", "question_of_release", "remember_question"]

_MOST_ANSWERS = 20  # that are read to find one at a higher price
_QUESTIONS: dict[int, tuple[weakref.ref[Release], Question]] = {}


@dataclass(frozen=True)
class Question(Call):
    """Question to a table, answered from the ledger, from other releases, or by measurements that are charged."""

    def ask(self) -> Release:
        """Return the answer: from the ledger or other releases at no charge, or else newly measured and charged."""
        if self.target.question_handler is not None:
            return self.target.question_handler(self)  # type: ignore[no-any-return]  # a question of a file, too
        question, table = self._with_prepared_arguments(), self.target.table
        release = question._kept_answer() or question._implied_answer() or question._paid_answer()  # noqa: SLF001 - its own
        first = table.parts[0] if table.parts else table
        if first.frame is not None:
            words = {name: each.of(name) for name, each in first.schema.words.items()}
            units = {name: each.units for name, each in first.schema.words.items() if each.units}
            release = release.with_library(first.frame.library, words, units)
        if table.sample is None:  # of which nothing is kept that could be drawn again
            remember_question(question, release)
        return release

    def is_in_ledger(self) -> bool:
        """Return whether the ledger has the answer, which then costs nothing."""
        return self._with_prepared_arguments()._kept_answer() is not None  # noqa: SLF001 - its own

    def _with_prepared_arguments(self) -> Question:
        """Return the question after its mechanism has replaced arguments, such as a view by an answer about it."""
        prepared = self
        if self.mechanism.preparer is not None:
            changed = _prepared_arguments(self.mechanism, self.target, self.arguments, *self.spending)
            given, arguments = {**self.given, **changed}, {**self.arguments, **changed}
            prepared = replace(self, given=given, arguments=arguments) if changed else self
        prepared.check()
        return prepared

    def check(self) -> None:
        """Run the mechanism's check of its arguments, before anything is paid."""
        if self.mechanism.check is not None:
            with name_mechanism_in_errors(self.mechanism):
                self.mechanism.check(**self.arguments)

    def _kept_answer(self) -> Release | None:
        if self.fresh or self.question_texts is None:
            return None
        text, wide = self.question_texts
        kept = self.target.payer.answer(wide, text)
        if kept is None and "rest" not in self.words:
            kept = self._answer_at_higher_price()
        if kept is None:
            return None
        release = Release.from_dict(kept.release)
        return release if release.privacy is None else release.paid(replace(release.privacy, replayed=True))

    def _answer_at_higher_price(self) -> KeptAnswer | None:
        """Return the kept answer with the largest epsilon to the same question, at this price or a higher one."""
        same, found = {split_price(text)[0] for text in self.question_texts or ()}, []
        payer = self.target.payer
        for text in payer.newest_questions(CallSelection(self.mechanism.name), _MOST_ANSWERS):
            with suppress(*DAMAGE):  # in a question, and where its price is "rest"
                question, price = split_price(text)
                epsilon, delta = map(Fraction, price)  # type: ignore[arg-type]
                if question in same and epsilon >= self.epsilon and delta >= self.delta:
                    found.append((epsilon, text))
        return payer.answer(max(found)[1]) if found else None

    def _implied_answer(self) -> Release | None:
        """Compute the answer from the releases of other questions, if that is as accurate as a paid answer."""
        if self.fresh or self.target.table.parts or not self.epsilon or self.mechanism.reader is None:
            return None
        with name_mechanism_in_errors(self.mechanism):
            return implied_answer(self, self._plan_groups)

    def _paid_answer(self) -> Release:
        self._refuse_empty_rest()
        table, price, terms = self.target.table, None, (self.mechanism.name, *self.spending)
        if table.sample is not None:  # which this question alone sees, and pays at once for all that it measures
            table = table.with_drawn_sample()
            price = Approximate(self.epsilon, self.delta) if self.delta else Pure(self.epsilon)
        tables = table.groups(self.by) if self.by else [table]
        call = CallPayer(self.target.payer, *terms, fresh=self.fresh, price=price)
        try:
            if self.by and all(column.public for column in self.by):
                self._plan_groups(tables)  # a group that cannot be asked is found before another one has paid
            answer = self.conclude_release(self._measure(tables, call), call)
            release = answer.paid(self._privacy(call))
            with name_mechanism_in_errors(self.mechanism, call):
                plain = release.to_dict()
        except BaseException:
            with suppress(LedgerError):  # what was measured is paid for, and can be asked again
                call.keep()
            raise
        text, wide = self.question_texts or (None, None)
        with nullcontext() if call.charged else suppress(LedgerError):  # what was free need not be kept
            call.keep(wide if call.looked else text, plain)
        registry("").announce(release, self.target.name)
        return release

    def _refuse_empty_rest(self) -> None:
        if not self.epsilon > 0:
            raise BudgetExceeded(
                f"Nothing is left of the budget of {self.target.payer.name!r}.",
                "A question that was answered before can be asked again at no charge.",
            )

    @property
    def _tables(self) -> list[Table]:
        """Table of all selected rows, or one table for each group."""
        table = self.target.table
        return table.groups(self.by) if self.by else [table]

    def _measure(self, tables: Sequence[Table], call: CallPayer) -> list[Any]:
        """Run the mechanism's measurements of all groups, then close the curators."""
        if self.target.table.schema.unit is not None:  # what is refused there is refused before anything is paid
            self._plan_groups(tables)
        kept = call.kept if self.target.table.sample is None else None
        steps = GroupRunner(call, kept, tables[0].whole)
        curators = [Curator(table, call, kept, steps) for table in tables]

        def measure_group(curator: Curator) -> Any:
            with name_mechanism_in_errors(self.mechanism, call):
                return self.mechanism.measure(curator, self.arguments)

        try:
            return steps.run([partial(measure_group, curator) for curator in curators])
        finally:
            for curator in curators:
                curator.close()
                call.noise += curator.measured
                call.looked |= curator.looked
                call.numbers |= curator.numbers

    def _privacy(self, call: CallPayer) -> Privacy:
        sampler, first = noises.sampler(), (self.target.table.parts or (self.target.table,))[0]
        selecting = {column for each in self.target.table.conditions for column in each.columns}
        return Privacy(
            epsilon=float(total_epsilon(call.charged)),
            delta=float(total_delta(call.charged)),
            neighbors=self.target.table.schema.neighbors,
            noise=tuple(call.noise),
            account=self.target.payer.name,
            table=self.target.name,
            mechanism=f"{self.mechanism.name} ({self.mechanism.origin})",
            at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            sampler=sampler.name,
            private=sampler.private,
            unit=first.schema.person,
            max_rows=self.target.table.max_rows_per_person,
            question=self.sentence,
            where=self.where,
            sample="" if self.target.table.sample is None else str(self.target.table.sample),
            found=tuple(sorted({str(each) for each in {*call.numbers, *selecting} if each.beyond is not None})),
        )

    def explain(self) -> Explanation:
        """Plan the measurements without reading private columns and without a charge."""
        self._refuse_empty_rest()
        self.check()
        tables, sample = self._tables, self.target.table.sample
        kept = ResultCache(self.target.payer, registry("").origins, fresh=self.fresh) if sample is None else None
        planner, void, spared = self._plan_table(tables[0], kept)
        if void is not None and _raised_in_measurement(void):
            raise mechanism_failure(self.mechanism, void) from void
        if spared:  # what one group has paid, all have: only what is kept of every group is spared
            spared = min([spared, *(self._plan_table(table, kept)[2] for table in tables[1:])])
        if self._kept_answer() is not None or self._implied_answer() is not None:
            spared = self.epsilon
        account = self.target.payer
        gaussian = {"Gaussian" in noise.kind for noise in planner.measured if noise.delta}
        kind = "gaussian" if gaussian == {True} else "approximate"
        about = (kind, self.delta) if gaussian else ()
        return Explanation(
            method=self.mechanism.name,
            account=account.name,
            epsilon=float(self.epsilon),
            delta=float(self.delta) if gaussian or sample or void else 0.0,
            left=float(self.epsilon - spared),
            measurements=tuple(each for each in planner.measured if each.reused or spared < self.epsilon),
            ended="" if void is None else type(void).__name__,
            sample=""
            if sample is None
            else f"{sample}, on which the question has epsilon {float(self.spending[0]):g}",
            sampling="" if sample is None else sample.sampling_error_note,
            find=lambda: self._planner_findings(planner, advise=spared < self.epsilon),
            afford=lambda: float(account.largest(*about)),
        )

    def _planner_findings(self, planner: Planner, *, advise: bool) -> Mapping[str, Any]:
        """Return the findings of the mechanism's planner, such as expected errors, and advice on finding bounds."""
        found: Mapping[str, Any] = {}
        if self.mechanism.planner is not None and planner.measured:
            with name_mechanism_in_errors(self.mechanism):
                found = self.mechanism.planner(planner, **self.arguments)
        return {**found, **(recommend_bounds(self, planner, found) if advise else {})}

    def _plan_table(
        self, table: Table, kept: ResultCache | None = None
    ) -> tuple[Planner, Exception | None, Fraction]:
        """Plan the measurements of a table; those that the ledger keeps cost nothing.

        Returns
        -------
        Planner
            The planner, which holds the planned measurements.
        Exception or None
            The error that ended the plan early. A mechanism that measures and concludes in one function continues
            with void values, so that an error after the first measurement need not be its fault.
        Fraction
            The epsilon of measurements that are kept in the ledger and need not be paid.
        """
        planner = Planner(table, PlanPayer(self.target, *self.spending), kept)
        void = self._run_plan(planner)
        return planner, void, planner.saved_epsilon

    def _plan_groups(self, tables: Sequence[Table] = ()) -> list[Planner]:
        """Plan the measurements of all groups, or of all rows; raise an error if a group cannot be asked."""
        tables, payer = tables or self._tables, PlanPayer(self.target, *self.spending)
        steps = GroupRunner(payer, None, tables[0].whole, dry=True)
        planners = [Planner(table, payer, None, steps) for table in tables]
        steps.run([partial(self._run_plan, planner) for planner in planners])
        return planners

    def _run_plan(self, planner: Planner) -> Exception | None:
        """Run the plan of a mechanism; return the error that ended it early, if any."""
        try:
            with np.errstate(all="ignore"):  # of an empty table
                planner.planned = self.mechanism.measure(planner, self.arguments)
        except DPError:
            raise
        except Exception as error:
            if self.mechanism.conclusion or not planner.measured:
                raise mechanism_failure(self.mechanism, error) from error
            return error
        return None


def _raised_in_measurement(error: Exception) -> bool:
    """Return whether an error was raised inside a curator's measurement."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    modules = {kind.__module__ for kind in Curator.__mro__}
    return any(frame.f_globals.get("__name__") in modules for frame in frames)


def answer_owner(
    target: Target, mechanism: Mechanism, args: Sequence[Any], kwargs: Mapping[str, Any], by: tuple[Column, ...]
) -> Exact:
    """Compute a mechanism's exact answer for the owner of the table; nothing is charged or kept.

    Parameters
    ----------
    target, mechanism, args, kwargs, by
        As for `Question.read`; the mechanism has a form for the owner.

    Returns
    -------
    Exact
        The result of the mechanism's function for the owner.
    """
    own = mechanism.own
    if own is None:
        raise PluginError(
            f"Mechanism {mechanism.name!r} has no function for the table's owner.", "Ask with an epsilon."
        )
    given = own.bind(args, kwargs)
    if by:
        each = ", ".join(f"{column.name}=..." for column in by)
        raise ArgumentError(
            f"{own.name}() answers for one table, not by group.", f"Ask each part: view.where({each})."
        )
    if target.table.sample is not None:
        raise ArgumentError(
            f"{own.name}() shows rows, and the rows of a sample are secret.", "Ask the view of the whole table."
        )
    arguments = own.resolve(target.table.schema, given)
    arguments |= _prepared_arguments(mechanism, target, arguments, Fraction(0), Fraction(0))
    holder = Holder(target.table, PlanPayer(target, Fraction(0), Fraction(0)))
    found: object
    try:
        found = own.measure(holder, arguments)
    except DPError:
        raise
    except Exception as error:  # noqa: BLE001 - its text may quote the rows
        found = error
    finally:
        holder.close()
    if not (isinstance(found, Exact) and "not private" in repr(found)):
        raise PluginError(
            f"Mechanism {mechanism.name!r} ({mechanism.origin}) failed in {own.name}(): it "
            f"returned or raised {type(found).__name__}, not an Exact whose repr says that it is not private.",
            "Report this error to the authors of the mechanism.",
        )
    return found


def _prepared_arguments(
    mechanism: Mechanism, target: Target, arguments: Mapping[str, Any], epsilon: Fraction, delta: Fraction
) -> Mapping[str, Any]:
    """Return the arguments that a mechanism's preparer replaces, by name."""
    prepare = mechanism.preparer
    if prepare is None:
        return {}
    planner = Planner(target.table, PlanPayer(target, epsilon, delta))
    with name_mechanism_in_errors(mechanism):
        return prepare(planner, **arguments)


def remember_question(question: Question, release: Release) -> None:
    """Remember which question a release answers, without its rows."""
    question = replace(question, target=replace(question.target, table=question.target.table.with_weak_reference()))
    if question.words[0] == "rest" and release.privacy is not None:  # which was more, before it was paid
        question = replace(question, epsilon=exact(release.privacy.epsilon), delta=exact(release.privacy.delta))
    place = id(release)

    def forget_question(
        _: object, known: dict[int, Any] = _QUESTIONS
    ) -> None:  # which outlives the module's own name
        known.pop(place, None)

    with suppress(TypeError):  # a class of somebody's that cannot be referred to weakly
        _QUESTIONS[place] = weakref.ref(release, forget_question), question


def question_of_release(release: Release) -> Question | None:
    """Find the question that a release answers; None if this process does not know it."""
    reference, question = _QUESTIONS.get(id(release), (None, None))
    return question if reference is not None and reference() is release else None
