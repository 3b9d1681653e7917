"""Bounds that nobody knows: every method finds them first, says so, and never claims the table's own number."""

from __future__ import annotations

import pytest

import dfprivacy as dp
from dfprivacy_audit.report import all_checks

PRICE = 40
NUMBERS = ("numeric", ["numeric"])
KINDS = {check.audit.mechanism.name: check.audit.mechanism.columns for check in all_checks()}


def sums_numbers(method):
    """Whether a method takes columns of numbers, and this case names some."""
    given = method.case.arguments
    return any(kind in NUMBERS and given.get(name) for name, kind in KINDS[method.method].items())


def says_that_bounds_were_found(answer):
    """See that an answer is one of limited values, and says so."""
    every = getattr(answer, "releases", [answer])
    notes = [each.result.get("notes") for each in every]
    covers = [each.covers for each in every] + [row.get("covers") for row in answer.records()]
    return (
        "were found, not declared" in " ".join(repr(answer).split())
        and "were found, not declared" in answer._repr_html_()
        and all(
            each is None or "were found, not declared" in str(each) for each in notes if isinstance(each, tuple)
        )
        and all(each is None or each.startswith("limited") for each in covers)
        and answer == dp.Release.from_json(answer.to_json())
        and dp.Release.from_json(answer.to_json()).privacy == answer.privacy
    )


def tried(ask):
    """Give what is answered, or why there is no answer."""
    try:
        return ask(), ""
    except dp.DPError as error:
        return None, str(error)


@pytest.mark.one_in(4)
def test_bounds_are_found_first(method):
    """Bounds and answer are one call at one price, which is explained before; what makes no sense is refused."""
    rows, names = method.rows(), [*method.case.bounds]
    asked = method.but(bounds=dict.fromkeys(names, "find")).of(rows)
    asked.given["epsilon"] = PRICE
    explained, refused = tried(lambda: asked.part.explain(asked.method, **asked.given))
    findings = {} if explained is None else explained.findings
    free = asked.spent
    answer, also = tried(asked)

    assert {0} == set(free)
    assert bool(refused) == bool(also)
    if answer is None:
        assert "find_bounds" in also
        assert "Nothing was released or spent" in also
        assert {0} == set(asked.spent)
        return
    assert explained.epsilon == PRICE
    assert all(each <= PRICE for each in asked.spent)
    assert sums_numbers(method) <= ("bounds are found first" in findings)
    if "bounds are found first" in findings:
        assert says_that_bounds_were_found(answer)
        assert answer.privacy.epsilon == asked.spent[0]
        assert answer.privacy.noise[0].epsilon == PRICE / 4
    again, spent = asked(), asked.spent
    assert again == answer
    assert spent == asked.spent


@pytest.mark.one_in(2)
def test_bounds_that_were_found_are_remembered(method):
    """What was declared from a release about columns is known as found by all that is asked afterwards."""
    names = [*method.case.bounds]

    def found(view):
        return view.declare(view.find_bounds(names, epsilon=PRICE)) if names else view

    asked = method.of(part=found)
    spent = asked.spent
    answer, refused = tried(asked)

    if answer is None:  # within bounds that are powers of two
        assert "Nothing was released or spent" in refused
        assert spent == asked.spent
        return
    assert sums_numbers(method) <= bool(answer.privacy.found)
    assert not answer.privacy.found or says_that_bounds_were_found(answer)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("told", ["protect", "call"])
def test_plans_and_power_find_bounds(method, told):
    """A plan with bounds to be found is free and runs, and power finds them in made-up tables."""
    bounds = dict.fromkeys(method.case.bounds, "find") if told == "protect" else method.case.bounds
    asked = method.but(bounds=bounds).of(method.rows())
    price = {name: asked.given.pop(name) for name in ("epsilon", "delta") if name in asked.given}
    given = {**asked.given, **({"bounds": "find"} if told == "call" else {})}
    plan, refused = tried(lambda: asked.part.plan([(asked.method, given)], epsilon=PRICE))
    if plan is None:
        assert "find" in refused
        return
    rows = {name: each.to_numpy() for name, each in method.rows(200).items()}
    found = asked.view.power(
        (asked.method, given),
        n=len(method.rows(200)),
        runs=1,
        assume=lambda *_: rows,
        finder=lambda answer: isinstance(answer, dp.Release),
        epsilon=PRICE,
        **({"delta": price["delta"]} if "delta" in price else {}),
    )

    assert asked.method in repr(plan)
    assert found.shares in (((1.0,),), ((0.0,),))
    assert {0} == set(asked.spent)
    (answer,) = plan.run()
    assert answer.privacy.epsilon <= PRICE
