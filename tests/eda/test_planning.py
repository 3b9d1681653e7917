"""What the methods say beforehand of their errors, and how a budget is split by it."""

# ruff: noqa: SIM300 - no pandas here; expected == actual
from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy import ArgumentError, Column, SchemaError
from dfprivacy._call.plan import RELATIVE, split
from dfprivacy_eda.tree import layout, prefix_error

N = 5000
QUARTILES = [0.25, 0.5, 0.75]
ASKED = {
    "mean": ("age",),
    "sum": ("age",),
    "var": ("age",),
    "std": ("age",),
    "count": ("age",),
    "missing": ("age",),
    "quantile": ("age", QUARTILES),
    "median": ("age",),
    "histogram": ("age",),
    "value_counts": ("sex",),
    "crosstab": ("sex", "ill"),
    "describe": (),
    "find_bounds": (["age"],),
    "find_categories": (["sex"],),
    "nunique": ("sex",),
    "corr": (["age", "score"],),
    "cov": (["age", "score"],),
    "report": (),
    "agg": ({"age": ["mean", "sum", "std", "median"], "score": "var", "sex": ["count", "freq"]},),
}


@pytest.fixture(scope="module")
def frame():
    """Ages with a standard deviation of a sixth of the range, as a plan takes it, and two columns of categories."""
    rng = np.random.default_rng(3)
    age = rng.normal(60, 20, N).clip(0, 120)
    score = rng.normal(0.5, 1 / 6, N).clip(0, 1)
    labels = {"sex": rng.choice(["f", "m"], N), "ill": rng.choice(["no", "yes"], N)}
    return pd.DataFrame({"age": age, "score": score, **labels})


@pytest.fixture
def view(frame):
    """The table, protected anew."""
    return protect(frame)


def protect(frame, name="planned", **said):
    known = {"bounds": {"age": (0, 120), "score": (0, 1)}, "categories": {"sex": ["f", "m"], "ill": ["no", "yes"]}}
    return dp.protect(
        frame, name, **{"epsilon": 10**6, "delta": 0.1, "accounting": "basic", "ledger": "memory:", **known, **said}
    )


def test_the_rows_below_an_edge():
    """The mean error of a prefix is that of the trees that were computed elsewhere; without noise there is none."""
    fine = layout(Column("x", bounds=(0.0, 1.0)), None, math.inf)
    whole = layout(Column("x", bounds=(0.0, 127.0)), 1.0, math.inf)

    assert 26.1520 == pytest.approx(prefix_error(fine, 0.0, (40.5, 72.0, 162.0)), abs=1e-3)
    assert 10.5078 == pytest.approx(prefix_error(whole, 0.0, (32.0, 32.0)), abs=1e-3)
    assert 0 == prefix_error(whole, 0.0, (0.0, 0.0))


def test_a_split_of_known_needs():
    """Three needs of the table of reference share a budget in proportion; what is free costs a millionth."""
    needs = [2 * math.sqrt(2) / (N / 3), 2 * math.sqrt(2) * 10 / N, 26.152 / (N / 4)]

    parts = split(needs, Fraction(1))

    assert [0.00169706, 0.00565685, 0.0209216] == pytest.approx(needs, rel=1e-5)
    assert [0.06001859, 0.20006197, 0.73991944] == pytest.approx([float(part) for part in parts], abs=1e-6)
    assert 1 - Fraction(3, 10**6) <= sum(parts) <= 1
    assert [Fraction(1, 10**6), Fraction(999_999, 10**6)] == split([0.0, 2.0], Fraction(1))


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_every_method_says_what_to_expect(frame, neighbors):
    """Each method says an error in rows or units, and a relative one, about half as large at twice the price."""
    view = protect(frame, neighbors=neighbors)

    for name, asked in ASKED.items():
        found = view.explain(name, *asked, epsilon=1).findings
        twice = view.explain(name, *asked, epsilon=2).findings
        assert len(found) > 1
        assert all(value > 0 for value in found.values() if not isinstance(value, str))
        assert found[RELATIVE] / 2 == pytest.approx(twice[RELATIVE], rel=0.35), name  # the tree may be finer
    assert 0 == view.budget.spent


def test_from_which_rows_on_an_interval_is_seen(view):
    """The rows that `find_bounds` is planned to need are those that it says afterwards."""
    (rows, _) = view.explain("find_bounds", ["age"], epsilon=1).findings.values()
    assert rows == pytest.approx(view.find_bounds(["age"], epsilon=1).threshold)


def test_what_cannot_be_known_is_not_promised(view):
    """Where the noise may be all of a variance no error of a correlation is said; a plan takes it as not known."""
    found = view.explain("corr", ["age", "score"], epsilon=0.01).findings

    assert "not known" == found[RELATIVE]


def test_a_plan_of_what_has_several_answers(view):
    """Every method of exploration is planned by an error of its own, and `agg` takes its dictionary as it is."""
    asked = ["describe", "report", "corr", ("nunique", "sex"), ("agg", {"age": ["mean", "median"]})]

    plan = view.plan(asked, epsilon=2)

    errors = [each.error for each in plan.questions]
    assert [errors[0]] * 5 == pytest.approx(errors, rel=0.02)
    assert ("age_mean", "age_median") == plan.run()[-1].names


def test_a_plan_is_split_evenly_and_run(view):
    """The expected errors of all questions are one number; their prices add up to the budget, and are paid."""
    asked = [("mean", "age"), ("ttest", "age", {"by": "sex"}), "describe", ("quantile", "age", QUARTILES)]

    plan = view.plan(asked, epsilon=2)
    answers = plan.run()

    errors = [each.error for each in plan.questions]
    assert [errors[0]] * 4 == pytest.approx(errors, rel=0.02)
    assert 2 - 1e-5 < plan.epsilon <= 2
    assert plan.epsilon == view.budget.spent
    assert [float(each.epsilon) for each in plan.questions] == [a.privacy.epsilon for a in answers]
    assert "ttest('age', by='sex')" in repr(plan)
    assert ">describe()</th>" in plan._repr_html_()


def test_what_an_error_takes(view):
    """For a relative error of 2 %, each question has the price at which it is expected; nothing is paid."""
    plan = view.plan([("mean", "age"), ("histogram", "age", {"bins": 10})], error=0.02)

    assert [0.02, 0.02] == pytest.approx([each.error for each in plan.questions], rel=1e-3)
    whole = 2 * 2 * math.asinh(10 / N / 0.02 / math.sqrt(2))  # on whole rows: √2 / (2 sinh(ε/4)) of each count
    assert 2.125 * math.sqrt(2) / (N / 3) / 0.02 + whole == pytest.approx(float(plan.epsilon), rel=1e-3)
    assert 0 == view.budget.spent


def test_a_plan_of_groups(view):
    """A view by group splits among what is asked of each group."""
    plan = view.group_by("sex").plan([("mean", "age"), "count"], epsilon=1)

    first, _ = plan.run()

    assert {"f", "m"} == set(first.groups)
    assert 1 >= view.budget.spent > 0.99


@pytest.mark.parametrize(
    ("asked", "terms", "match"),
    [
        ("mean", {"epsilon": 1}, "takes a list"),
        ([], {"epsilon": 1}, "takes a list"),
        ([("mean", "age")], {}, "epsilon= or error="),
        ([("mean", "age")], {"epsilon": 1, "error": 0.1}, "epsilon= or error="),
        ([("mean", "age")], {"epsilon": -1}, "above zero"),
        ([("mean", "age")] * 2, {"epsilon": 1e-6}, "too little"),
        ([3], {"epsilon": 1}, "no question"),
        ([("mean", "age", {"epsilon": 1})], {"epsilon": 1}, "says epsilon"),
        ([("meen", "age")], {"epsilon": 1}, "Did you mean 'mean'"),
        ([("mean", pd.Series([1]))], {"epsilon": 1}, "public values only"),
    ],
)
def test_plans_that_cannot_be(asked, terms, match, view):
    """What is no question, two budgets and none are refused with what to do."""
    with pytest.raises(ArgumentError, match=match):
        view.plan(asked, **terms)
    with pytest.raises(SchemaError, match="no column 'agee'"):
        view.plan([("mean", "agee")], epsilon=1)
