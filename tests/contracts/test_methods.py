"""What holds for every method, whatever it measures: of each case of each, and a few dear ones of each method."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dfprivacy as dp
from dfprivacy.testing.noise import seeded_noise


def numbers(answer):
    """What is released, without the account and the moment."""
    plain = answer.to_dict()
    plain.pop("privacy")
    return json.dumps(plain, sort_keys=True)


def test_numbers_are_the_same_on_every_frame(question, frames):
    """Pandas, Polars, a lazy frame and Arrow give the same numbers where the noise is the same."""
    seen = set()
    for frame in frames:
        with seeded_noise(3):
            seen.add(numbers(question.of(frame=frame)()))

    assert len(seen) == 1


def test_what_was_asked_is_free(question):
    """The same question again spends nothing, gives the same answer, and is listed once."""
    asked = question.of()

    first = asked()
    spent = asked.spent
    again = asked()

    assert first == again
    assert spent == asked.spent
    assert all(0 < each <= 1 for each in spent)
    assert len(asked.view.releases) == 1
    assert asked.view.releases[0] == first


def test_an_explanation_is_free_and_true(question):
    """Explaining spends nothing; asking then costs no more than was explained, on noise that was."""
    asked = question.of()

    explained = asked.part.explain(asked.method, **asked.arguments, **asked.price())
    texts = repr(explained), explained._repr_html_(), dict(explained.findings)
    spent = asked.spent
    answer = asked()

    assert set(spent) == {0}
    assert all(texts[:2])
    assert explained.epsilon == 1
    assert all(each <= explained.epsilon for each in asked.spent)
    assert answer.privacy.epsilon <= explained.epsilon


def test_a_plan_is_free_and_runs(question):
    """Planning spends nothing, and what is planned is asked at that price."""
    asked = question.of()

    plan = asked.part.plan([(asked.method, asked.arguments)], epsilon=1)
    texts = repr(plan), plan._repr_html_()
    spent = asked.spent
    (answer,) = plan.run()

    assert all(texts)
    assert set(spent) == {0}
    assert answer.privacy.epsilon <= plan.epsilon <= 1


def test_power_is_free(question):
    """Power asks made-up rows: what holds of every answer is found always, and nothing is spent."""
    asked = question.of()

    def assume(rng, n):
        rows = question.rows(n, int(rng.integers(100)))
        return {name: rows[name].to_numpy() for name in rows}

    power = asked.view.power(
        (asked.method, asked.arguments),
        n=60,
        epsilon=1,
        delta=question.case.delta,
        runs=2,
        assume=assume,
        finder=lambda answer: isinstance(answer, dp.Release),
    )

    assert power.shares == ((1.0,),)
    assert set(asked.spent) == {0}
    assert repr(power)


def test_a_bad_price_is_refused(question):
    """A price that is no positive finite number is refused before anything is spent."""
    asked = question.of()
    for epsilon in (0, -1, float("nan"), float("inf"), "x", True, None, [1]):
        with pytest.raises(dp.DPError):
            asked(epsilon=epsilon)

    assert set(asked.spent) == {0}


def test_what_the_account_cannot_pay_is_refused(question):
    """A price beyond the budget is refused before anything is spent; the rest is still there."""
    asked = question.of(epsilon="1/2")

    with pytest.raises(dp.BudgetExceeded):
        asked()

    assert set(asked.spent) == {0}
    assert asked(epsilon="1/4").privacy.epsilon <= 0.25


def test_arguments_that_do_not_exist_are_refused(question):
    """Columns and arguments that nobody knows are refused, and nothing is spent."""
    asked = question.of()
    with pytest.raises(dp.ArgumentError):
        getattr(asked.part, asked.method)(**asked.arguments, **asked.price(), unheard_of=1)
    for name in asked.arguments:
        with pytest.raises((dp.ArgumentError, dp.PluginError)):
            getattr(asked.part, asked.method)(**{**asked.arguments, name: object()}, **asked.price())

    assert set(asked.spent) == {0}


def parted(question):
    """The rows, and a column that halves them."""
    rows = question.rows()
    return rows.assign(part=np.where(np.arange(len(rows)) // 2 % 3 == 0, "out", "in"))


def known(question, **more):
    """What is public of the column, too."""
    return {"categories": {**question.case.categories, "part": ["in", "out"]}, **more}


@pytest.mark.parametrize("public", [False, True], ids=["private", "public"])
def test_by_group(question, public):
    """Of a view by group there is an answer for each group, at the price of one."""
    case = question.case
    also = {"public": [*case.public, "part"], "neighbors": "replace_one"} if public else {}
    asked = question.of(parted(question), part=None if case.grouped else lambda view: view, **known(question, **also))
    grouped = asked.part.group_by("part") if not case.grouped else asked.part

    answers = getattr(grouped, asked.method)(**asked.arguments, **asked.price())

    assert isinstance(answers, dp.Groups)
    assert dp.Groups.from_json(answers.to_json()) == answers
    assert all(0 < each <= 1 for each in asked.spent)


@pytest.mark.parametrize("public", [False, True], ids=["private", "public"])
def test_a_part_of_the_rows(question, public):
    """Conditions select rows; what is asked of a part is another question than of all."""
    case = question.case
    also = {"public": [*case.public, "part"], "neighbors": "replace_one"} if public else {}
    asked = question.of(parted(question), part=lambda view: view.where(part="in"), **known(question, **also))

    answer = asked()

    assert "part" in answer.privacy.question
    assert all(0 < each <= 1 for each in asked.spent)


def test_other_neighbours(question):
    """Under the other neighbouring relation there is an answer, which says under which."""
    relation = "add_remove" if question.case.neighbors == "replace_one" else "replace_one"
    asked = question.of(neighbors=relation, **({"public": []} if relation == "add_remove" else {}))

    answer = asked()

    assert answer.privacy.neighbors == relation
    assert all(0 < each <= 1 for each in asked.spent)


def test_private_groups(question):
    """Nothing needs to be public."""
    asked = question.of(public=[])

    asked()

    assert all(0 < each <= 1 for each in asked.spent)


def test_missing_values(question):
    """Missing values are no error."""
    rows = question.rows()
    for at, name in enumerate(question.case.columns):
        if name not in question.case.public:
            rows[name] = rows[name].astype(object).where(np.arange(len(rows)) % 7 != at % 7, None)
            if name not in question.case.categories:
                rows[name] = rows[name].astype(float)
    asked = question.of(rows)

    asked()

    assert all(0 < each <= 1 for each in asked.spent)


def test_people_with_several_rows(question):
    """All rows of a person are protected together."""
    rows = question.rows()
    asked = question.of(
        rows.assign(person=np.arange(len(rows)) // 6), unit="person", max_rows=2, public=[], neighbors="replace_one"
    )

    answer = asked()

    assert "person" in repr(answer)
    assert all(0 < each <= 1 for each in asked.spent)


def test_a_row_for_each_person(question):
    """The rows of each person become one."""
    case, rows = question.case, question.rows()
    how = {name: "first" if name in case.categories else "mean" for name in case.columns}
    asked = question.of(
        rows.assign(person=np.arange(len(rows)) // 6),
        part=lambda view: view.per("person").agg(how),
        unit="person",
        max_rows=3,
        public=[],
        neighbors="replace_one",
    )

    asked()

    assert all(0 < each <= 1 for each in asked.spent)


def test_a_secret_sample(question):
    """A sample costs what was asked."""
    asked = question.of(part=lambda view: view.sample(0.5))

    asked()

    assert all(0 < each <= 1 for each in asked.spent)


@pytest.mark.parametrize("accounting", ["rdp", "gdp", "portfolio"])
def test_other_accounting(method, accounting):
    """However losses add up, a question costs no more than was asked, and its answer is kept."""
    asked = method.of(accounting=accounting)

    assert asked() == asked()
    assert all(0 < each <= 1 for each in asked.spent)


def test_few_rows_at_a_small_price(question):
    """What says little is an answer, too."""
    asked = question.of(question.rows(24))

    answer = asked(epsilon="1/100")

    assert repr(answer)
    assert all(0 < each <= 1 / 100 for each in asked.spent)


def test_arithmetic(method):
    """What is calculated from an answer costs nothing, and is within its interval; an answer less itself is 0."""
    asked = method.of()
    answer = asked()
    spent = asked.spent

    nothing = answer - answer
    double = 2 * answer

    assert nothing.estimate == 0
    assert double.low <= double.estimate <= double.high
    assert repr(double)
    assert spent == asked.spent
