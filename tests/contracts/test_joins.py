"""What holds for every method where tables of the same people are joined, or values looked up in a public one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

from .conftest import NAMES, TERMS

HOW_IT_WAS_MADE = {"released", "formula", "formulas", "of"}


def ask(asked, view):
    """Ask the question of a case of another view, with the same noise."""
    case = asked.case
    part = view.where(**case.where) if case.where else view
    part = part.group_by(*case.grouped) if case.grouped else part
    given = {**case.arguments, "epsilon": 1, **({"delta": case.delta} if case.delta else {})}
    with seeded_noise(1):
        return getattr(part, asked.method)(**given)


def numbers(answer):
    """Return what was answered, without the names of measurements and the formulas of columns."""
    if isinstance(answer, dp.Release):
        answer = answer.result
    if isinstance(answer, dict):
        return {name: numbers(each) for name, each in answer.items() if name not in HOW_IT_WAS_MADE}
    return [numbers(each) for each in answer] if isinstance(answer, list | tuple) else repr(answer)


def about(case, columns):
    """What is declared of some columns."""
    said = {name: getattr(case, name) for name in ("bounds", "categories", "missing")}
    return {name: {key: value for key, value in of.items() if key in columns} for name, of in said.items()}


@pytest.mark.one_in(4)
def test_a_join_answers_as_the_merged_table(varied):
    """With the same numbers, and at the same price: a person's rows are chosen among the same rows."""
    case, rows = varied.case, varied.rows()
    person = np.arange(len(rows)) // 6
    left, right = case.columns[::2], case.columns[1::2]
    visits = rows[[*left]].assign(person=person)
    people = rows[[*right]].assign(person=person)[::6]
    merged = visits.merge(people, on="person", how="left")
    account, unit = next(NAMES), {"unit": "person", "max_rows": 3}
    said = {**TERMS, "account": account, "neighbors": case.neighbors}
    whole = dp.protect(merged, f"{account} merged", **said, **unit, **about(case, case.columns))
    one = dp.protect(visits, f"{account} visits", **said, **unit, **about(case, left))
    two = dp.protect(people, f"{account} people", **said, **about(case, right))
    joined = one.join(two, on="person")

    expected = ask(varied, whole)
    paid = whole.budget.spent
    found = ask(varied, joined)

    assert numbers(found) == numbers(expected)
    assert joined.budget.spent == 2 * paid > 0
    assert found.privacy.unit == "person"
    assert found.privacy.table == joined.name


def answer_or_refusal(method, view):
    """Return what was answered, or why it was refused: a case may need what is public of its own table."""
    try:
        return numbers(ask(method, view))
    except dp.ArgumentError as error:
        return str(error)


@pytest.mark.one_in(4)
def test_a_lookup_answers_as_the_plain_table(method):
    """With the same numbers, and at the same price, where columns are those of a public table."""
    case, rows = method.case, method.rows()
    if case.other is not None:
        return
    public = rows[:60].assign(key=np.arange(len(rows[:60])))
    keys = pd.DataFrame({"key": np.arange(len(rows)) % len(public)})
    said = {**TERMS, "neighbors": case.neighbors, "bounds": {"key": (0, 59)}}
    view = dp.protect(
        keys,
        next(NAMES),
        **said,
    )
    view = view.lookup(public, on="key")
    known = view.schema.columns
    said["bounds"] = {name: known[name].bounds for name in ("key", *case.bounds)}
    said["categories"] = {name: known[name].categories for name in known if known[name].categories}
    merged = keys.merge(public, on="key", how="left")
    plain = dp.protect(merged, next(NAMES), **said)

    expected = answer_or_refusal(method, plain)
    found = answer_or_refusal(method, view)

    assert found == expected
    assert view.budget.spent == plain.budget.spent
