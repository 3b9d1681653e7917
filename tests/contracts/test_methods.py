"""What holds for every method, whatever it measures."""

from __future__ import annotations

import inspect
import json
import re

import numpy as np
import pytest

import dfprivacy as dp
from dfprivacy.cli import main


def test_every_bundled_method_has_a_case(every_method, capsys):
    """The methods that the command line lists of this distribution are those that are asked here."""
    main(["plugins", "--json"])

    plugins = json.loads(capsys.readouterr().out)["plugins"]
    bundled = [name for each in plugins if each["distribution"] == "dfprivacy" for name in each["methods"]]
    assert set(bundled) == {each.method for each in every_method}


@pytest.mark.one_in(2)
def test_numbers_are_the_same_on_every_frame(varied, answer, frames, folder, at):
    """Polars, a lazy frame and Arrow, each in turn, give what pandas gives, in tables of their own."""
    _, *others = frames
    frame = others[at % len(others)]

    other = varied.of(frame=frame, folder=folder)()

    assert _plain(answer) == _plain(other)
    assert type(other.to_frame()).__module__.startswith({"arrow": "pyarrow"}.get(frame, "polars"))


def _plain(answer):
    """Give what is in an answer, but for moments, names of tables, and ids of measurements."""
    content = answer.to_dict()
    content["privacy"].pop("at")
    return re.sub(r"contract \d+|[0-9a-f]{16}", "", json.dumps(content, sort_keys=True))


@pytest.mark.one_in(2)
def test_computed_columns_are_columns(computable, answer):
    """Of columns that are computed from others a question has the answer that it has of a table with them."""
    computed = computable.of(computed=True)()

    first, second = (re.sub(r"contract \d+", "", str(each.records())) for each in (answer, computed))
    assert first == second
    assert type(computed).from_dict(computed.to_dict()).records() == computed.records()


def test_a_refused_question_is_free(method):
    """Refused are a price that is no positive finite number, what the account cannot pay, and arguments of others.

    An argument is refused that has another name, or is of another kind.
    """
    asked = method.of(epsilon="3/4")
    for epsilon in (0, -1, float("nan"), float("inf"), "x", True, None, [1]):
        with pytest.raises(dp.DPError):
            asked(epsilon=epsilon)
    with pytest.raises(dp.BudgetExceeded):
        asked()
    for other in ({"unheard_of": 1}, *({name: object()} for name in method.case.arguments)):
        with pytest.raises(dp.ArgumentError):
            asked(**other)

    assert {0} == set(asked.spent)


def test_a_question_is_paid_once(varied):
    """To explain it is free; to ask it costs what was explained; again, or at a lower price, it costs nothing."""
    asked = varied.of()
    explained = asked.part.explain(asked.method, **asked.given)
    shown = repr(explained), explained._repr_html_(), explained.findings
    free = asked.spent

    answer, spent = asked(), asked.spent
    again, cheaper = asked(), asked(epsilon=0.5)
    left = asked.part.explain(asked.method, **asked.given).left

    assert {0} == set(free)
    assert f"{asked.method} " in shown[0]
    assert explained.epsilon == 1
    assert all(0 < each <= 1 for each in spent)
    assert answer == again == cheaper
    assert left == 0
    assert spent == asked.spent
    assert list(asked.view.releases) == [answer]
    assert "spent" in repr(asked.view.budget)


@pytest.mark.one_in(2)
def test_a_plan_is_free_and_runs(method):
    """To plan a question spends nothing, and to run the plan costs what was planned at most."""
    asked = method.of()
    price, *_ = (asked.given.pop(name) for name in ("epsilon", "delta") if name in asked.given)

    plan = asked.part.plan([(asked.method, asked.given)], epsilon=price)
    shown = repr(plan), plan._repr_html_()
    spent = asked.spent
    (answer,) = plan.run()

    assert {0} == set(spent)
    assert all(asked.method in each for each in shown)
    assert answer.privacy.epsilon <= plan.epsilon <= 1
    assert all(each <= plan.epsilon for each in asked.spent)


def test_power_is_free(method):
    """Power is of made-up rows: what holds of every answer is always found, and nothing is spent."""
    asked = method.of()
    price = {name: asked.given.pop(name) for name in ("epsilon", "delta") if name in asked.given}
    n = len(method.rows(60))

    def assume(rng, n):
        """Rows like these."""
        rows = method.rows(n, int(rng.integers(100)))
        return {name: rows[name].to_numpy() for name in rows}

    found = asked.view.power(
        (asked.method, asked.given),
        n=n,
        runs=2,
        assume=assume,
        finder=lambda answer: isinstance(answer, dp.Release),
        **price,
    )

    assert found.shares == ((1.0,),)
    assert "Rows like these" in repr(found)
    assert {0} == set(asked.spent)


def test_power_of_what_a_method_assumes(method):
    """A method that says what to find in made-up rows finds it in a part of them, and nothing is spent."""
    asked = method.of()
    price = {name: asked.given.pop(name) for name in ("epsilon", "delta") if name in asked.given}

    found = asked.view.power((asked.method, asked.given), n=[60, 600], runs=4, **price)

    assert all(0 <= share <= 1 for share in found.shares[0])
    assert "assumed: " in repr(found)
    assert {0} == set(asked.spent)


def test_an_interval_holds_what_its_test_does_not_reject(sided):
    """A one-sided test has an interval to one side; whether it holds the null hypothesis is the test's verdict."""
    asked = sided.of()
    for alternative in ("two-sided", "less", "greater"):
        answer = asked(alternative=alternative)
        if hasattr(answer, "low"):
            null = getattr(answer, "null", 1.0)  # of an odds ratio
            assert (answer.low <= null <= answer.high) != answer.rejected, alternative
            assert {"less": answer.low, "greater": answer.high}.get(alternative, 0) in {-np.inf, 0, 1, np.inf}


def by_group(question, *, public):
    """Ask it by group, and see that there is an answer for each."""
    parted = question.of_parts(public=public)
    asked = parted.but(group_by=["part", *question.case.grouped]).of()

    answers = asked()

    keys = [parted.case.categories[name] for name in ["part", *question.case.grouped]]
    assert np.prod([len(each) for each in keys]) == len(answers)
    assert answers == dp.Release.from_json(answers.to_json())
    assert asked.paid


def test_by_private_groups(varied):
    """Of groups of a private column there is an answer for each, at the price of one."""
    by_group(varied, public=False)


def test_by_public_groups(varied):
    """Of groups of a public column there is an answer for each, at the price of one."""
    by_group(varied, public=True)


def of_a_part(question, *, public):
    """Ask a part of the rows, and all of them."""
    parted = question.of_parts(public=public)
    asked = parted.but(where={**question.case.where, "part": "in"}).of()

    answer = asked()

    assert any("part" in each for each in answer.privacy.where)
    assert asked.paid


def test_a_private_part_of_the_rows(varied):
    """Of rows that a private column selects there is an answer, which says so."""
    of_a_part(varied, public=False)


def test_a_public_part_of_the_rows(varied):
    """Of rows that a public column selects there is an answer, which says so."""
    of_a_part(varied, public=True)


def test_the_other_neighbours(varied):
    """Under the other neighbouring relation there is an answer, which says under which."""
    other = "add_remove" if varied.case.neighbors == "replace_one" else "replace_one"
    asked = varied.but(neighbors=other, public=() if other == "add_remove" else varied.case.public).of()

    assert other == asked().privacy.neighbors
    assert asked.paid


def test_no_public_columns(publicly):
    """Where all columns are private there is an answer."""
    asked = publicly.but(public=()).of()

    assert asked().privacy.noise
    assert asked.paid


def test_missing_values(varied):
    """Where values are missing there is an answer."""
    rows = varied.rows()
    for at, name in enumerate(each for each in varied.case.columns if each not in varied.case.public):
        kept = (np.arange(len(rows)) + at) % 7 > 0
        rows[name] = (
            rows[name].where(kept) if name in varied.case.bounds else rows[name].astype(object).where(kept, None)
        )
    asked = varied.of(rows)

    assert asked() == asked()
    assert asked.paid


def of_people(question):
    """Rows of people with six each, and how they are protected."""
    rows = question.rows()
    return rows.assign(person=np.arange(len(rows)) // 6), {"unit": "person", "max_rows": 3, "public": []}


def test_people_with_several_rows(varied):
    """All rows of a person are protected together, and the answer says so."""
    rows, unit = of_people(varied)
    asked = varied.of(rows, **unit)

    assert asked().privacy.unit == "person"
    assert asked.paid


def test_a_row_for_each_person(varied):
    """Of a row that is made of those of each person there is an answer."""
    rows, unit = of_people(varied)
    how = {name: "mean" if name in varied.case.bounds else "first" for name in varied.case.columns}
    asked = varied.of(rows, part=lambda view: view.per("person").agg(how), **unit)

    assert asked().privacy.unit == "person"
    assert asked.paid


def test_a_secret_sample(varied):
    """Of a sample there is an answer, which says so."""
    asked = varied.of(part=lambda view: view.sample(0.5))

    assert asked().privacy.sample
    assert asked.paid


@pytest.mark.one_in(4)
def test_a_request_is_answered(method, ledger, tmp_path, capsys):
    """What an analyst writes into a file, without the table, a custodian answers and lists by command."""
    rows = method.rows()
    paths = {each: str(tmp_path / each) for each in ("schema.toml", "rows.parquet", "key", "request", "answers")}
    rows.to_parquet(paths["rows.parquet"])
    asked = method.of(rows, ledger=ledger)
    (tmp_path / "schema.toml").write_text(asked.view.to_toml())
    (tmp_path / "key").write_text("a" * 64)
    request = dp.request(paths["schema.toml"])
    part = request.where(**method.case.where) if method.case.where else request
    written = getattr(part, method.method)(**asked.given)
    request.save(paths["request"], key=paths["key"], analyst="ana")

    main(["ledger", "--ledger", ledger, "key", "ana", paths["key"]])
    files = {"data": "rows.parquet", "schema": "schema.toml", "key": "key", "output": "answers"}
    named = [word for name, file in files.items() for word in (f"--{name}", paths[file])]
    code = main(["answer", paths["request"], *named, "--ledger", ledger, "--yes"])

    assert code == 0, capsys.readouterr()
    (answer,) = dp.answers(paths["answers"], request=paths["request"], key=paths["key"])
    assert answer == asked.view.releases[0]
    assert method.method in str(written)
    capsys.readouterr()
    assert main(["ledger", "--ledger", ledger, asked.view.name]) == 0
    assert f"{method.method}(" in capsys.readouterr().out


@pytest.mark.one_in(2)
def test_all_of_a_budget_can_be_asked(varied):
    """Where `explain` says that the account can pay, it can, be it the last that there is."""
    asked = varied.of(epsilon=1, delta="1/100000", accounting="portfolio")
    asked.given.pop("delta", None)  # the default is what is left

    said = repr(asked.part.explain(asked.method, **asked.given))

    assert "' can pay" in said
    assert asked()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("accounting", ["rdp", "gdp", "portfolio"])
def test_other_accounting(method, accounting):
    """However losses add up, a question costs what was asked at most, and its answer is kept."""
    asked = method.of(accounting=accounting)

    assert asked() == asked()
    assert asked.paid


def test_few_rows_at_a_small_price(varied):
    """What tells hardly anything is an answer, too, and warns of nothing: warnings are errors here."""
    asked = varied.of(varied.rows(24))

    answer = asked(epsilon="1/1000")

    assert repr(answer)
    assert answer == dp.Release.from_json(answer.to_json())
    assert all(each <= 1 / 1000 for each in asked.spent)


@pytest.mark.one_in(2)
def test_another_frame_of_the_account_knows_the_answer(method, ledger):
    """The answer is kept in the ledger's file, under the account's name, and not by the frame."""
    rows = method.rows()
    first = method.of(rows, "pandas", ledger=ledger)
    answer, spent = first(), first.spent
    second = method.of(rows, "arrow", names=[view.name for view in first.views], ledger=ledger)

    assert answer == second()
    assert spent == second.spent


@pytest.mark.one_in(2)
def test_a_column_asks_the_same(method):
    """A method that begins with a column is one of that column, and the same method."""
    if method.method == "agg":  # a column takes its statistics alone: tests/questions/test_views.py
        return
    asked = method.of()
    first, *_ = inspect.signature(getattr(asked.part, method.method)).parameters
    named = asked.given.pop(first, None)
    column = asked.part[
        named if isinstance(named, str) and named in method.case.columns else method.case.columns[0]
    ]

    if method.method in dir(column):
        explained = column.explain(method.method, **asked.given)
        answer, spent = getattr(column, method.method)(**asked.given), asked.spent
        assert explained.epsilon == 1
        assert answer == asked(**{first: column.name})
        assert spent == asked.spent
        assert asked.paid
    else:
        with pytest.raises(AttributeError, match="belongs to the view"):
            getattr(column, method.method)


def test_a_ledger_is_copied_and_put_back(every_method, tmp_path, capsys):
    """The command line lists a ledger, and a copy of it, put back, still knows each answer."""
    ledger, copied = str(tmp_path / "ledger.sqlite"), str(tmp_path / "copy.sqlite")
    every = [method.of(ledger=ledger) for method in every_method[::10]]
    answers, spent = [asked() for asked in every], [asked.spent for asked in every]
    listed = [[], ["--json"], [every[0].view.name, "--csv"]]

    codes = {
        main(["ledger", "--ledger", ledger, *more]) for more in [*listed, ["backup", copied], ["restore", copied]]
    }

    shown = capsys.readouterr().out
    assert {0} == codes
    assert all(asked.view.name in shown for asked in every)
    assert answers == [asked() for asked in every]
    assert spent == [asked.spent for asked in every]


def test_refining_costs_its_price(method):
    """To measure again what was answered costs what was asked at most, and pools both answers."""
    asked = method.of()
    answer = asked()

    pooled = asked.view.refine(answer, epsilon=1)

    assert pooled.low <= pooled.estimate <= pooled.high
    assert all(1 <= each <= 2 for each in asked.spent)


def test_arithmetic_is_free(method):
    """What is calculated from an answer costs nothing, and is within its interval; an answer less itself is 0."""
    asked = method.of()
    answer, spent = asked(), asked.spent

    nothing, double = answer - answer, 2 * answer

    assert {0} == {nothing.low, nothing.estimate, nothing.high}
    assert double.low <= double.estimate <= double.high
    assert spent == asked.spent
