"""Questions that analysts send to a server: answered at once, or kept until the custodian approves them."""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

from dfprivacy._call.requests import PlainQuestion
from dfprivacy._ledger.accounts import Account
from dfprivacy._ledger.calls import CallSelection
from dfprivacy._ledger.names import name_key
from dfprivacy.errors import ArgumentError, AwaitingApproval, BudgetExceeded, DPError
from dfprivacy.release import Release
from dfprivacy.request import read_question
from dfprivacy.view import PrivateFrame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from dfprivacy._call.question import Question
    from dfprivacy._ledger.calls import CallRecord, KeptAnswer
    from dfprivacy._ledger.ledger import Ledger
    from dfprivacy._ledger.tables import DataTable, KeptMeasurement
    from dfprivacy.server.config import ServedTables
    from dfprivacy.server.tokens import TokenHolder

__all__ = [
    "UNREADABLE",
    "OwnAccount",
    "WaitingQuestion",
    "answer_question",
    "approve_question",
    "refuse_question",
    "view_for",
    "views_of",
    "waiting_questions",
]

UNREADABLE = ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError
"""Errors that reading a request may raise if no dfprivacy client wrote it."""

_asking: WeakValueDictionary[tuple[str, str], threading.Lock] = WeakValueDictionary()
_guard, _noting = threading.Lock(), threading.Lock()


@dataclass(frozen=True)
class OwnAccount(Account):
    """Account as shown to an analyst who is limited to some tables: without other analysts' questions.

    Attributes
    ----------
    theirs : sequence of str
        The tables that are open.
    """

    theirs: Sequence[str] = ()

    def tables(self) -> list[DataTable]:
        """Return the tables that are open to the analyst."""
        return [each for each in super().tables() if each.name in self.theirs]

    def answer(self, *questions: str) -> KeptAnswer | None:
        """Return the newest answer to the first question that has one; None if another analyst's call made it."""
        found = super().answer(*questions)
        return found if found is not None and self._is_own(found.call) else None

    def measurements(self, keys: Sequence[str], *, private: bool) -> dict[tuple[str, str], list[KeptMeasurement]]:
        """Return the kept measurements that were made for questions of the analyst."""
        kept = super().measurements(keys, private=private)
        return {
            key: own for key, every in kept.items() if (own := [each for each in every if self._is_own(each.call)])
        }

    def newest_answers(self, wanted: CallSelection, most: int, skipped: int = 0) -> list[KeptAnswer]:
        """Return the newest answers to questions of the analyst."""
        return super().newest_answers(self._own_calls(wanted), most, skipped)

    def newest_questions(self, wanted: CallSelection, most: int) -> list[str]:
        """Return the questions of the newest answers to the analyst."""
        return super().newest_questions(self._own_calls(wanted), most)

    def count(self, kind: Literal["charges", "answers"], wanted: CallSelection) -> int:
        """Count the analyst's charges or answers."""
        return super().count(kind, self._own_calls(wanted))

    def calls(
        self, wanted: CallSelection, last: int | None = None, *, answered: bool = False, skipped: int = 0
    ) -> list[CallRecord]:
        """Return the records of the analyst's calls."""
        return super().calls(self._own_calls(wanted), last, answered=answered, skipped=skipped)

    def _is_own(self, call: str) -> bool:
        return bool(self.calls(CallSelection(call=call), 1))

    def _own_calls(self, wanted: CallSelection) -> CallSelection:
        """Return a selection restricted to the analyst's calls; it is empty if it named another analyst."""
        theirs = wanted.analyst is None or name_key(wanted.analyst) == name_key(self.asker)
        return replace(wanted, analyst=self.asker) if theirs else replace(wanted, call="")


@dataclass(frozen=True)
class WaitingQuestion:
    """Question of an analyst that waits for the custodian's approval.

    Attributes
    ----------
    number : str
        Its number, which the analyst was told.
    at : datetime
        When it was asked first, in UTC.
    table, analyst : str
        What it is about, and who asked.
    plain : mapping
        The question in plain JSON values.
    """

    number: str
    at: datetime
    table: str
    analyst: str
    plain: Any

    def question(self, held: ServedTables) -> Question:
        """Return the question, for an account that charges the analyst who asked it."""
        return _read_plain(held.views, view_for(held.views, self.table, self.analyst, self.number), self.plain)

    @property
    def text(self) -> str:
        """Text of the question, as a Python call."""
        return PlainQuestion.read(self.plain).text


def views_of(held: ServedTables, holder: TokenHolder) -> dict[str, PrivateFrame]:
    """Return the views of the tables that an analyst may ask, by name."""
    return {name: view for name, view in held.views.items() if holder.may_ask(name)}


def view_for(views: Mapping[str, PrivateFrame], table: str, analyst: str, request: str = "") -> PrivateFrame:
    """Return a table's view that charges the given analyst."""
    if table not in views:
        raise ArgumentError("There is no such table.", f"The tables are {[*views]!r}.")
    target = views[table]._target  # noqa: SLF001 - a view of ours
    return PrivateFrame(replace(target, account=replace(target.account, analyst=analyst, request=request)))


def _read_plain(views: Mapping[str, PrivateFrame], view: PrivateFrame, plain: Any) -> Question:
    """Construct a question from JSON values; raise an `ArgumentError` if they are not a valid question."""
    try:
        wanted = PlainQuestion.read(plain)
    except DPError:
        raise
    except UNREADABLE:
        raise ArgumentError(
            "The request holds no valid question.",
            "Use a client with the same version of dfprivacy as the server.",
        ) from None
    return read_question(view, wanted, lambda name: view_for(views, name, view._target.account.asker))  # noqa: SLF001


def answer_question(held: ServedTables, holder: TokenHolder, view: PrivateFrame, plain: Any) -> Release:
    """Answer an analyst's question; if approval is required, only if it is free or was approved.

    Raises
    ------
    AwaitingApproval
        If it waits for the custodian.
    ArgumentError
        If it cannot be read, or the custodian refused it.
    BudgetExceeded
        If it cannot be paid.
    """
    question = _read_plain(views_of(held, holder), view, plain)
    if not held.approve or question.is_in_ledger() or (plan := question.explain()).left <= 0:
        with _lock_of_question(question):
            return question.ask()
    account = question.target.account
    written = json.dumps({"table": view.name, "analyst": account.asker, "question": plain}, sort_keys=True)
    number = hashlib.sha256(written.encode()).hexdigest()[:16]
    if (approved := _approved_answer(account, number)) is not None:
        return approved
    refused = [each.value for each in held.ledger.records_about(number) if each.event == "refused"]
    if refused:
        raise ArgumentError(f"The custodian refused the question: {refused[0]}", "Ask another question.")
    if plan.left > plan.largest:
        raise BudgetExceeded(
            f"The question costs epsilon = {plan.left:g}, and at most epsilon = {plan.largest:g} is left.",
            "Ask with a smaller epsilon.",
        )
    with _noting:  # one after the other: none is one too many
        waiting = [each.number for each in waiting_questions(held.ledger) if each.analyst == account.asker]
        if number not in waiting and len(waiting) >= held.limits.waiting:
            raise ArgumentError(
                f"{len(waiting)} of your questions are waiting for the custodian's approval, and no more can.",
                "Ask again when the custodian has decided on some of them.",
            )
        held.ledger.record("asked", number, written)
    raise AwaitingApproval(
        f"The question waits for the custodian's approval, with the number {number}.", "Ask it again later."
    )


def _lock_of_question(question: Question) -> AbstractContextManager[Any]:
    """Return a lock shared by equal questions, so that the first pays and the others get its answer."""
    if question.fresh or question.question_texts is None:
        return nullcontext()
    with _guard:
        return _asking.setdefault((question.target.account.name, question.question_texts[0]), threading.Lock())


def _approved_answer(account: Account, number: str) -> Release | None:
    """Return the kept answer to the question with a number, even if it has fresh=True; None if there is none."""
    for call in account.askers(number):
        for kept in account.newest_answers(CallSelection(call=call), 1):
            release = Release.from_dict(kept.release)
            return release if release.privacy is None else release.paid(replace(release.privacy, replayed=True))
    return None


def waiting_questions(ledger: Ledger) -> list[WaitingQuestion]:
    """Return the questions that wait for the custodian's approval, oldest first."""
    records = ledger.records()
    decided = {each.subject for each in records if each.event in {"approved", "refused"}}
    asked = [each for each in records if each.event == "asked" and each.subject not in decided]
    with ledger.reporting_damage():
        plain = [json.loads(each.value) for each in asked]
        return [
            WaitingQuestion(each.subject, each.at, said["table"], said["analyst"], said["question"])
            for each, said in zip(asked, plain, strict=True)
        ]


def approve_question(held: ServedTables, number: str, custodian: str) -> tuple[str, str] | None:
    """Approve a waiting question: ask it, charge its analyst, and keep the answer in the ledger.

    Returns
    -------
    tuple of str, or None
        The account and the call that hold the answer; None if it followed from what was kept already.

    Raises
    ------
    DPError
        If it does not wait, or cannot be answered now: then it goes on waiting.
    """
    question = _find_waiting(held, number).question(held)
    account = question.target.account
    if _approved_answer(account, number) is None:
        question.ask()
    held.ledger.record("approved", number, custodian)
    calls = list(account.askers(number))
    return (account.name, calls[0]) if calls else None


def refuse_question(held: ServedTables, number: str, why: str) -> None:
    """Refuse a waiting question; the analyst reads the reason on asking it again."""
    held.ledger.record("refused", _find_waiting(held, number).number, why or "no reason was given.")


def _find_waiting(held: ServedTables, number: str) -> WaitingQuestion:
    found = next((each for each in waiting_questions(held.ledger) if each.number == number), None)
    if found is None:
        raise ArgumentError(
            "No question with this number is waiting: it was approved or refused.", "Reload the list of questions."
        )
    return found
