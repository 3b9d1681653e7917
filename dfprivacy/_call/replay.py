"""Recognition of questions: by the ledger from their text, and by this process while the answer exists."""

from __future__ import annotations

import math
import weakref
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._json import plain_json
from dfprivacy._ledger.tables import sha256_of_text
from dfprivacy._privacy import samplers as noises
from dfprivacy._privacy.filters import exact
from dfprivacy.release import Release
from dfprivacy.schema import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy._call.question import Question
    from dfprivacy._measure.evaluate import Table

__all__ = ["columns_among", "question_of_release", "question_text", "remember_question"]

_QUESTIONS: dict[int, tuple[weakref.ref[Release], Question]] = {}
_TEXT_MAX = 1024  # characters of an argument that are kept as they are


def question_text(question: Question) -> tuple[str, str] | None:
    """Write a question as JSON with all public facts that could change its answer; None if it cannot be written.

    Returns
    -------
    tuple of str, or None
        The question; and the same with all columns that are known, for a mechanism that looked at them.
    """
    table, mechanism, by, named = question.target.table, question.mechanism, question.by, question.named
    names = [column.name for column in by]
    seen = {column.name: column.describe() for column in table.schema.columns.values()}
    if any(condition.describe() is None for condition in table.conditions):
        return None
    try:
        own: dict[str, Any] = {
            "mechanism": mechanism.name,
            "origin": mechanism.origin,
            "arguments": {
                name: _long_value_as_digest(_canonical_value(value)) for name, value in question.given.items()
            },
            "price": question.words,
            "group_by": names if len(names) > 1 else next(iter(names), None),
            "neighbors": table.schema.neighbors,
            "sampler": noises.sampler().name,
        }
        if table.parts:
            own["tables"] = [_describe_table(part, named) for part in table.parts]
        else:
            own |= _describe_table(table, named)
        return plain_json(own), plain_json({**own, "seen": seen} if seen else own)
    except (TypeError, OverflowError):
        return None


def _describe_table(table: Table, named: Sequence[Column]) -> dict[str, Any]:
    """Describe the rows of a table: conditions, people, the choice of a person's rows, and their origin."""
    unit, which, derived = table.schema.unit, table.schema.table, table.schema.derived
    selected = [column for condition in table.conditions for column in condition.columns]
    columns = {column.name: column.describe() for column in (*selected, *named)}
    otherwise = any(columns[column.name] != column.describe() for column in selected)  # they were declared then
    return {
        "where": [condition.describe() for condition in table.conditions],
        "columns": columns,
        **({"selected": [[column.name, column.describe()] for column in selected]} if otherwise else {}),
        "rows": table.schema.size,
        **(
            {}
            if unit is None
            else {"unit": [unit.column, unit.max_rows, unit.missing], "chosen": table.choice_columns}
        ),
        **({} if which is None else {"table": which}),
        **({} if derived is None else {"derived": derived}),
    }


def _canonical_value(value: Any) -> Any:
    """Write a whole number as an integer, as 30 and 30.0 are equal arguments, and a release as its digest."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Fraction | Decimal) and math.isfinite(value):
        value = float(value) if Fraction(value) == float(value) else Fraction(value)
    if isinstance(value, Release):  # it may be as long as a table, and what was paid for it changes when replayed
        return {"sha256": sha256_of_text(plain_json({"type": type(value).__qualname__, **value.result}))}
    if isinstance(value, range):  # as long as it may be, it is three numbers
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, list | tuple):
        items = [_canonical_value(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _long_value_as_digest(value: Any) -> Any:
    """Write a long value, such as a list with a key for each row, as its digest."""
    text = plain_json(value)
    return {"sha256": sha256_of_text(text)} if len(text) > _TEXT_MAX else value


def columns_among(value: Any) -> Sequence[Column]:
    """Return the columns among the values of an argument that names columns."""
    return [each for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, Column)]


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
