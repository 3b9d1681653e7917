"""Requests and answers in files: an analyst writes questions, and the custodian of the table answers them.

The analyst has the schema file and a key, and never the table. What a request shows is public, and so are the price
and the plan that the custodian sees before anything is asked.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np

from dfprivacy._call.bounds import QuestionWithBoundsSearch
from dfprivacy._call.payment import Target, parse_delta, positive_price
from dfprivacy._call.requests import (
    ANSWERS,
    MOST,
    REQUEST,
    PlainQuestion,
    content_digest,
    decode_argument,
    encode_argument,
    key_fingerprint,
    read_key,
    read_signed,
    sign_content,
    write_new_file,
)
from dfprivacy._json import read_release
from dfprivacy._ledger.address import MEMORY, ledger_address
from dfprivacy._ledger.ledger import Ledger
from dfprivacy._ledger.names import checked_analyst, current_analyst
from dfprivacy._measure.evaluate import Table
from dfprivacy._plugins.loader import registry
from dfprivacy._privacy.filters import exact
from dfprivacy._table.declare import read_schema, read_size, read_unit
from dfprivacy._table.frames import AbsentFrame, ColumnsFrame
from dfprivacy._view_steps import view_by_steps, write_steps
from dfprivacy._visible import visible
from dfprivacy.errors import ArgumentError, BudgetExceeded, DPError, SchemaError, trimmed
from dfprivacy.release import Release
from dfprivacy.schema.files import USUAL, read_file
from dfprivacy.view import PrivateFrame

if TYPE_CHECKING:
    import os

    from dfprivacy._call.explanation import Explanation
    from dfprivacy._call.question import Question
    from dfprivacy._ledger.store import Store
    from dfprivacy.mechanism import Mechanism
    from dfprivacy.schema import Schema
    from dfprivacy.schema.files import SchemaFile

    Path = str | os.PathLike[str]

__all__ = [
    "Answers",
    "PendingQuestion",
    "ReceivedRequest",
    "Request",
    "answers",
    "plain_question",
    "read_question",
    "request",
    "schema_of_file",
]


class Request(PrivateFrame):
    """View of a custodian's table, without rows: its methods record questions, for a request file.

    Its methods check their arguments and return the recorded question; no question is answered here. `explain`,
    `plan` and `power` need no rows.
    """

    def __init__(self, target: Target, name: str, digest: str) -> None:
        self._written: list[PlainQuestion] = []
        self._name = name
        self._digest = digest
        super().__init__(replace(target, question_handler=self._write_question))

    @property
    def questions(self) -> tuple[PlainQuestion, ...]:
        """Questions recorded so far, by this view and by views derived from it."""
        return tuple(self._written)

    @trimmed
    def save(self, path: Path, *, key: Path | None = None, analyst: str | None = None) -> None:
        """Write the questions, signed, to a new file.

        Parameters
        ----------
        path : str or path
            The file, for the custodian.
        key : str or path, optional
            The file of the key that analyst and custodian share; default: the one that ``DFPRIVACY_KEY`` names.
        analyst : str, optional
            A name for people to read; default: the one in ``DFPRIVACY_ANALYST``, or else the user of the operating
            system. The request is that analyst's to whom the key belongs in the custodian's ledger.

        Raises
        ------
        ArgumentError
            If there are no questions, there is no key, or the file exists.
        """
        if not self._written:
            raise ArgumentError(
                "The request has no questions yet.", "For example request.mean('age', epsilon=0.1)."
            )
        secret = read_key(key)
        plain = {
            "format": REQUEST,
            "id": secrets.token_hex(16),
            "made": _current_time(),
            "analyst": current_analyst() if analyst is None else checked_analyst(analyst),
            "data_set": self._name,
            "schema": self._digest,
            "questions": [each.to_dict() for each in self._written],
        }
        write_new_file(path, sign_content(plain, secret))

    @property
    def budget(self) -> NoReturn:
        """Raise an `AttributeError`: a request has no budget, which is kept with the table."""
        raise AttributeError("A request has no budget: the budget is kept with the table.")

    releases = budget

    def __repr__(self) -> str:
        lines = [f"Request of the table {self._name!r}", *map(repr, self._written)]
        return "\n  ".join(lines)

    def _write_question(self, question: Question) -> PlainQuestion:
        if len(self._written) >= MOST:
            raise ArgumentError(
                f"A request can have at most {MOST} questions.", "Save this request, and make another one."
            )
        _refuse_unwritable(question.mechanism, question.words[0], fresh=question.fresh)
        wanted = replace(plain_question(question), number=len(self._written) + 1)
        self._written.append(wanted)
        return wanted


def schema_of_file(file: SchemaFile) -> Schema:
    """Return the schema that a schema file describes; its size is None unless the file declares it."""
    said = {**USUAL, **file.arguments()}
    whose = read_unit(said.get("unit"), said.get("max_rows"), said["unit_missing"])
    ids = whose and whose.column
    rows = {each: np.zeros(1, dtype=np.int64 if each == ids else np.float64) for each in file.columns}
    with file.name_file_in_errors():
        size = read_size(said.get("size"), said["neighbors"])
        about = {each: said[each] for each in ("bounds", "categories", "public", "missing", "neighbors")}
        known = read_schema(ColumnsFrame(rows), **about, unit=whose, size=size)
    return replace(known, size=None if whose else size, words=file.words)


def plain_question(question: Question) -> PlainQuestion:
    """Convert a question to a `PlainQuestion`; raise an `ArgumentError` if it cannot be written as JSON."""
    question.check()
    mechanism = question.mechanism
    if question.target.second is not None:
        raise ArgumentError(
            f"{mechanism.name}() is given two tables, and a request is about one table.",
            "Ask the question where both tables are protected.",
        )
    find = {"bounds": "find"} if isinstance(question, QuestionWithBoundsSearch) and question.explicit else {}
    return PlainQuestion(
        method=mechanism.name,
        arguments={**_arguments_by_name(mechanism, question.given), **find},
        steps=write_steps(question.target.steps),
        by=[column.name for column in question.by],
        epsilon=str(question.words[0]),
        delta=str(question.delta) if mechanism.delta else None,
        fresh=question.fresh,
    )


def read_question(
    view: PrivateFrame, wanted: PlainQuestion, table_of: Callable[[str], PrivateFrame] | None = None
) -> Question:
    """Construct a question from the result of `plain_question`, for a view of the whole table.

    Raises
    ------
    DPError
        If it cannot be asked, or is no result of `plain_question`.
    """
    mechanism = registry(wanted.method).mechanisms.get(wanted.method)
    if mechanism is None:
        raise ArgumentError(f"There is no method {wanted.method!r} here.", "Install the plugin that has it.")
    try:
        part, given = view_by_steps(view, wanted.steps, table_of), dict(decode_argument(dict(wanted.arguments)))
    except DPError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise ArgumentError(
            "its conditions, groups or arguments cannot be read.", "Write it with the same version of dfprivacy."
        ) from None
    price = {"epsilon": wanted.epsilon, "fresh": wanted.fresh}
    price |= {} if wanted.delta is None else {"delta": wanted.delta}
    if reserved := sorted({"epsilon", "fresh", *(["delta"] if mechanism.delta else [])} & given.keys()):
        raise ArgumentError(
            f"its arguments contain {reserved[0]}, which a question has beside its arguments.",
            "Write it with the same version of dfprivacy.",
        )
    grouped = part.group_by(list(wanted.by)) if wanted.by else part
    question: Question = grouped._question(mechanism, (), {**given, **price})  # noqa: SLF001 - a view of ours
    return question


@trimmed
def request(schema: Path) -> Request:
    """Return a view without rows, whose methods record questions for the custodian of the table.

    Parameters
    ----------
    schema : str or path
        The schema file, which names the data set.

    Returns
    -------
    Request
        The view. ``save`` writes the questions to a file.

    Raises
    ------
    SchemaError
        If the file cannot be used, or names no data set.

    Examples
    --------
    >>> from pathlib import Path
    >>> import dfprivacy as dp
    >>> _ = Path("clinic.toml").write_text('''
    ... name = "clinic"
    ... [columns.age]
    ... bounds = [18, 90]
    ... ''')
    >>> asked = dp.request("clinic.toml")
    >>> asked.where(age=(30, 60)).mean("age", epsilon=0.5)
    question 1: mean(column='age') where age from 30 to 60, at epsilon 1/2
    """
    file = read_file(schema)
    name = _data_set_name(file)
    said = {**USUAL, **file.arguments()}
    default = said.get("default_epsilon")
    known = schema_of_file(file)
    # An account that nobody is charged: prices are read as those of the real one are.
    account = Ledger(ledger_address(MEMORY), MEMORY).open_account(
        str(file.terms.get("account", name)),
        epsilon=positive_price("epsilon", said.get("epsilon", 1)),
        delta=parse_delta("delta", said.get("delta", 0)),
        accounting=said.get("accounting"),
        neighbors=known.neighbors,
    )
    table = Table(AbsentFrame(known.names, known.library), known)
    usual = None if default is None else positive_price("default_epsilon", default)
    return Request(Target(account, table, usual), name, file.digest)


@trimmed
def answers(path: Path, *, request: Path, key: Path | None = None) -> Answers:
    """Read the answers to a request.

    Parameters
    ----------
    path : str or path
        The file of answers.
    request : str or path
        The file of the request, as it was saved.
    key : str or path, optional
        The file of the key that analyst and custodian share; default: the one that ``DFPRIVACY_KEY`` names.

    Returns
    -------
    Answers
        The releases, and the questions that were refused.

    Raises
    ------
    ArgumentError
        If a file cannot be read, was signed with another key or changed since, or if the answers are to another
        request, or of another schema.
    """
    secret = read_key(key)
    plain, asked = read_signed(path, ANSWERS, secret), read_signed(request, REQUEST, secret)
    try:
        questions = [item["question"] for item in plain["answers"]]
        if (plain["data_set"], plain["schema"]) != (asked["data_set"], asked["schema"]):
            raise ArgumentError(
                f"The answers in {path} are about another data set than the request in {request}, or another "
                "version of its schema file.",
                "Name the request that these answers belong to.",
            )
        if (plain["request"], questions) != (content_digest(asked), asked["questions"]):
            raise ArgumentError(
                f"The answers in {path} belong to another request than {request}.",
                "Name the request that these answers belong to.",
            )
        each = [
            (PlainQuestion.read(item["question"], place), item) for place, item in enumerate(plain["answers"], 1)
        ]
        return Answers(
            str(plain["data_set"]),
            tuple(wanted.text for wanted, item in each if "release" in item),
            tuple(read_release(Release, item["release"]) for _, item in each if "release" in item),
            tuple((wanted.text, str(item["refused"])) for wanted, item in each if "release" not in item),
        )
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, ArgumentError):  # a release of a plugin that is not here
            raise
        raise ArgumentError(
            f"The answers in the file {path} cannot be read.", "Ask the custodian for the file again."
        ) from None


@dataclass(frozen=True, eq=False, repr=False)
class Answers(Sequence[Release]):
    """Answers of a custodian to a request, in the order of its questions.

    Attributes
    ----------
    data_set : str
        The name of the table.
    questions : tuple of str
        The question of each release.
    refused : tuple of (str, str)
        The questions that were refused, each with the reason.
    """

    data_set: str
    questions: tuple[str, ...]
    _releases: tuple[Release, ...]
    refused: tuple[tuple[str, str], ...]

    @overload
    def __getitem__(self, index: int) -> Release: ...
    @overload
    def __getitem__(self, index: slice) -> list[Release]: ...
    def __getitem__(self, index: int | slice) -> Release | list[Release]:
        return list(self._releases[index]) if isinstance(index, slice) else self._releases[index]

    def __len__(self) -> int:
        return len(self._releases)

    def __repr__(self) -> str:
        lines = [f"Answers about the data set {self.data_set!r}: {len(self)}, and {len(self.refused)} refused"]
        lines += self.questions
        lines += [f"refused: {question}: {why}" for question, why in self.refused]
        return "\n  ".join(map(visible, lines))


@dataclass(frozen=True)
class PendingQuestion:
    """One checked question of a request, which a custodian may answer or refuse.

    Attributes
    ----------
    wanted : Wanted
        The question in the request.
    explanation : Explanation
        The plan of its measurements, and its price.
    kept : bool
        Whether the ledger has the answer, which then costs nothing.
    due : Fraction
        The epsilon to pay for the answer.
    """

    wanted: PlainQuestion
    explanation: Explanation
    kept: bool
    due: Fraction
    _question: Question

    def ask(self) -> dict[str, Any]:
        """Ask the question, and return its entry for the file of answers: the release, or an error as a refusal."""
        try:
            return {"question": self.wanted.to_dict(), "release": self._question.ask().to_dict()}
        except DPError as error:
            return self.refused(str(error))

    def refused(self, why: str = "The custodian did not answer this question.") -> dict[str, Any]:
        """Return the entry of a refused question for the file of answers."""
        return {"question": self.wanted.to_dict(), "refused": why}


@dataclass(frozen=True)
class ReceivedRequest:
    """Request that a custodian has read, after checking its signature and its schema file.

    Attributes
    ----------
    analyst : str
        The name in the file, which anybody can write; see `signer`.
    data_set : str
        The name of the table.
    wanted : tuple of Wanted
        The questions, not checked yet; see `pending`.
    """

    analyst: str
    data_set: str
    wanted: tuple[PlainQuestion, ...]
    _digest: str
    _schema: str
    _key: str

    @classmethod
    def read(cls, path: Path, schema: Path, key: bytes) -> ReceivedRequest:
        """Read a request file, and check its signature and its schema file; the data are not needed.

        Raises
        ------
        ArgumentError
            If it cannot be read, was changed, or is too long.
        SchemaError
            If it was written for another schema.
        """
        plain = read_signed(path, REQUEST, key)
        file = read_file(schema)
        name = _data_set_name(file)
        try:
            questions, analyst = list(plain["questions"]), checked_analyst(plain["analyst"])
            if len(questions) > MOST:
                raise ArgumentError(
                    f"The request has {len(questions)} questions, and at most {MOST} can be answered.",
                    "Ask the analyst for several requests.",
                )
            if (plain["data_set"], plain["schema"]) != (name, file.digest):
                same = "another version of it" if plain["data_set"] == name else "that of another data set"
                raise SchemaError(
                    f"The request was not written for the schema file {file.path}, but for {same}.",
                    "Send the analyst your schema file, and ask for a new request.",
                )
            wanted = tuple(PlainQuestion.read(each, place) for place, each in enumerate(questions, 1))
        except DPError:
            raise
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ArgumentError(
                f"The request in the file {path} cannot be read.", "Ask the analyst for the file again."
            ) from None
        return cls(analyst, name, wanted, content_digest(plain), file.digest, key_fingerprint(key))

    def signer(self, ledger: Store) -> str:
        """Return the analyst to whom the signing key belongs, according to the ledger.

        Raises
        ------
        ArgumentError
            If the ledger does not know the key.
        """
        analyst = ledger.analyst_of(self._key)
        if analyst is None:
            raise ArgumentError(
                f"The ledger {ledger.where} does not know to which analyst the key of the request belongs.",
                "Record the key once: dfprivacy ledger key ANALYST KEYFILE.",
            )
        return analyst

    def pending(self, view: PrivateFrame) -> list[PendingQuestion]:
        """Check and plan every question for a view of the table; nothing is charged, and no row is read.

        Raises
        ------
        ArgumentError
            If a question cannot be asked; the message has its number.
        BudgetExceeded
            If the questions cost more than is left.
        """
        waiting, analyst = [], self.signer(view._target.account.ledger)  # noqa: SLF001 - a view of ours
        for wanted in self.wanted:
            try:
                waiting.append(self._check_question(view, wanted, analyst))
            except DPError as error:
                what = f"Question {wanted.number} of the request cannot be asked: {error.what}"
                raise type(error)(what, error.hint) from None
        # The same twice is paid once; all together must fit where epsilons simply add up.
        due = {(each._question.question_texts or [None])[0]: each.due for each in waiting}  # noqa: SLF001 - of ours
        total, account = sum(due.values(), Fraction(0)), view._target.account  # noqa: SLF001
        left = replace(account, analyst=analyst).largest()
        if account.basic_composition and total > left:
            raise BudgetExceeded(
                f"The request asks for epsilon = {float(total):g} in all, and {float(left):g} is left.",
                "Ask the analyst for a smaller request.",
            )
        return waiting

    def _check_question(self, view: PrivateFrame, wanted: PlainQuestion, analyst: str) -> PendingQuestion:
        target = view._target  # noqa: SLF001 - a view of ours
        account = replace(target.account, analyst=analyst, request=f"{self._digest}#{wanted.number}")
        question = read_question(PrivateFrame(replace(target, account=account)), wanted)
        _refuse_unwritable(question.mechanism, question.words[0], fresh=question.fresh)
        kept = question.is_in_ledger()
        if not kept and account.askers(account.request):
            raise ArgumentError(
                "it was asked before, but the ledger has no answer to it, so asking again would charge it twice.",
                "Ask the analyst for a new request.",
            )
        explanation = question.explain()
        due = Fraction(0) if kept else question.epsilon
        if not kept and explanation.left < explanation.epsilon:
            due = exact(explanation.left)
        if not kept and explanation.left > explanation.largest:
            raise BudgetExceeded(
                f"it costs epsilon = {explanation.left:g}, and the most that can be paid at once is "
                f"{explanation.largest:g}.",
                "Ask the analyst for a smaller epsilon.",
            )
        return PendingQuestion(wanted, explanation, kept, due, question)

    def signed_answers(self, items: Sequence[Mapping[str, Any]], key: bytes) -> str:
        """Return the signed content of the file of answers, as JSON text."""
        plain = {
            "format": ANSWERS,
            "request": self._digest,
            "data_set": self.data_set,
            "schema": self._schema,
            "answered": _current_time(),
            "answers": list(items),
        }
        return sign_content(plain, key)


def _data_set_name(file: SchemaFile) -> str:
    name = file.terms.get("name")
    if not name:
        raise SchemaError(f"The schema file {file.path} names no data set.", 'Write name = "..." into the file.')
    return str(name)


def _refuse_unwritable(mechanism: Mechanism, epsilon: str | None, *, fresh: bool) -> None:
    """Raise an error for a question with epsilon="rest" or fresh=True, which a request cannot have."""
    if epsilon == "rest":
        raise ArgumentError('epsilon="rest" is not possible in a request.', "Pass a number, such as epsilon=0.1.")
    if fresh:
        raise ArgumentError(
            f"fresh=True of {mechanism.name}() is not possible in a request, which is answered once.",
            "Leave out fresh=True.",
        )


def _arguments_by_name(mechanism: Mechanism, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a question as JSON values by name, without arguments that equal their default."""
    named = {**given, **given.get(mechanism.kwargs_parameter or "", {})}
    named.pop(mechanism.kwargs_parameter or "", None)
    usual = {name: each.default for name, each in mechanism.signature.parameters.items()}
    return {
        name: encode_argument(value, f"{mechanism.name}(): {name}")
        for name, value in named.items()
        if name not in usual or type(usual[name]) is not type(value) or usual[name] != value
    }


def _current_time() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
