"""What the methods say beforehand of their errors, and how a budget is split by it."""

# ruff: noqa: SIM300 - no pandas here; expected == actual
from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dfprivacy import ArgumentError, Column, SchemaError
from dfprivacy._call.explanation import RELATIVE
from dfprivacy._call.plan import split_epsilon
from dfprivacy_eda.tree import choose_layout, prefix_error

N = 5000
QUARTILES = [0.25, 0.5, 0.75]


@pytest.fixture(scope="module")
def frame():
    """Ages with a standard deviation of a sixth of the range, as a plan takes it, and two columns of categories."""
    rng = np.random.default_rng(3)
    age = rng.normal(60, 20, N).clip(0, 120)
    score = rng.normal(0.5, 1 / 6, N).clip(0, 1)
    labels = {"sex": rng.choice(["f", "m"], N), "ill": rng.choice(["no", "yes"], N)}
    return pd.DataFrame({"age": age, "score": score, **labels})


@pytest.fixture
def view(frame, protect):
    """What protects the table, by default as it is; anew for each test."""

    def make(**said):
        known = {"bounds": {"age": (0, 120), "score": (0, 1)}, "delta": 0.1, "accounting": "basic"}
        known["categories"] = {"sex": ["f", "m"], "ill": ["no", "yes"]}
        return protect(frame, **known, **said)

    return make


def test_known_needs():
    """The mean error of a prefix is that of trees computed elsewhere; three needs of reference share a budget."""
    fine = choose_layout(Column("x", bounds=(0.0, 1.0)), None, math.inf)
    whole = choose_layout(Column("x", bounds=(0.0, 127.0)), 1.0, math.inf)
    needs = [2 * math.sqrt(2) / (N / 3), 2 * math.sqrt(2) * 10 / N, 26.152 / (N / 4)]

    parts = split_epsilon(needs, Fraction(1))

    assert 26.1520 == pytest.approx(prefix_error(fine, 0.0, (40.5, 72.0, 162.0)), abs=1e-3)
    assert 10.5078 == pytest.approx(prefix_error(whole, 0.0, (32.0, 32.0)), abs=1e-3)
    assert 0 == prefix_error(whole, 0.0, (0.0, 0.0))
    assert [0.06001859, 0.20006197, 0.73991944] == pytest.approx([float(part) for part in parts], abs=1e-6)
    assert 1 - Fraction(3, 10**6) <= sum(parts) <= 1
    assert sum(split_epsilon([1e-12] * 5 + [1.0], Fraction(1))) == 1
    assert [Fraction(1, 10**6), Fraction(999_999, 10**6)] == split_epsilon(
        [0.0, 2.0], Fraction(1)
    )  # free: a millionth


def test_what_is_seen_and_what_cannot_be_known(view):
    """Rows that `find_bounds` is planned to need are those it says; no error of a correlation is made up."""
    view = view()
    (rows, _) = view.explain("find_bounds", ["age"], epsilon=1).findings.values()

    assert rows == pytest.approx(view.find_bounds(["age"], epsilon=1).threshold)
    assert "not known" == view.explain("corr", ["age", "score"], epsilon=0.01).findings[RELATIVE]


@pytest.mark.parametrize(
    "asked",
    [
        ["describe", "report", "corr", ("nunique", "sex"), ("agg", {"age": ["mean", "median"]})],
        [("mean", "age"), ("ttest", "age", {"by": "sex"}), ("quantile", "age", QUARTILES)],
    ],
    ids=len,
)
def test_a_plan_is_split_evenly_and_run(view, asked):
    """The expected errors of all questions are one number; their prices add up to the budget, and are paid."""
    view = view()

    plan = view.plan(asked, epsilon=2)
    answers = plan.run()

    errors = [each.error for each in plan.questions]
    assert [errors[0]] * len(asked) == pytest.approx(errors, rel=0.02)
    assert 2 - 1e-5 < plan.epsilon <= 2
    assert plan.epsilon >= view.budget.spent
    if len(asked) == 5:
        assert "describe()</th>" in plan._repr_html_()
        assert ("age_mean", "age_median") == answers[-1].names
    else:  # none of these answers another
        assert plan.epsilon == view.budget.spent
        assert [float(each.epsilon) for each in plan.questions] == [a.privacy.epsilon for a in answers]
        assert "ttest('age', by='sex')" in repr(plan)


def test_what_an_error_takes(view):
    """For a relative error of 2 %, each question has the price at which it is expected; nothing is paid."""
    view = view()
    plan = view.plan([("mean", "age"), ("histogram", "age", {"bins": 10})], error=0.02)

    assert [0.02, 0.02] == pytest.approx([each.error for each in plan.questions], rel=1e-3)
    whole = 2 * 2 * math.asinh(10 / N / 0.02 / math.sqrt(2))  # on whole rows: √2 / (2 sinh(ε/4)) of each count
    assert 2.125 * math.sqrt(2) / (N / 3) / 0.02 + whole == pytest.approx(float(plan.epsilon), rel=1e-3)
    assert 0 == view.budget.spent


REFUSED = [
    ("mean", {"epsilon": 1}, "takes a list"),
    ([], {"epsilon": 1}, "takes a list"),
    ([("mean", "age")], {}, "epsilon= or error="),
    ([("mean", "age")], {"epsilon": 1, "error": 0.1}, "epsilon= or error="),
    ([("mean", "age")], {"epsilon": -1}, "must be a number from"),
    ([("mean", "age")] * 2, {"epsilon": 1e-6}, "too little"),
    ([3], {"epsilon": 1}, "A question is a method's name"),
    ([("mean", "age", {"epsilon": 1})], {"epsilon": 1}, "sets the argument epsilon"),
    ([("meen", "age")], {"epsilon": 1}, "Did you mean 'mean'"),
    ([("mean", pd.Series([1]))], {"epsilon": 1}, "public values only"),
    ([("mean", "agee")], {"epsilon": 1}, "no column 'agee'"),
]


def test_plans_that_cannot_be(view):
    """What is no question, two budgets and none are refused with what to do."""
    for asked, terms, match in REFUSED:
        with pytest.raises((ArgumentError, SchemaError), match=match):
            view().plan(asked, **terms)
