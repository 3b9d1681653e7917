"""What the methods say beforehand of their errors, and how a budget is split by it."""

# ruff: noqa: SIM300 - no pandas here; expected == actual
from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

import dfprivacy as dp
from dfprivacy import ArgumentError, Column, SchemaError
from dfprivacy._call.plan import RELATIVE, split
from dfprivacy.testing.noise import seeded_noise
from dfprivacy_eda.grown import prefix_error
from dfprivacy_eda.layout import layout

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


def errors(view, method, truth, of=float, times=150):
    with seeded_noise(7):
        found = [of(getattr(view, method)(*ASKED[method], epsilon=1, fresh=True)) for _ in range(times)]
    return math.sqrt(np.mean((np.array(found) - truth) ** 2))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("method", "of", "truth"),
    [
        ("mean", float, lambda f: f["age"].mean()),
        ("std", float, lambda f: f["age"].std()),
        ("count", float, lambda f: N),
        ("histogram", lambda found: found.raw[5], lambda f: f["age"].between(60, 72, inclusive="left").sum()),
        ("value_counts", lambda found: found.raw[found.categories.index("f")], lambda f: (f["sex"] == "f").sum()),
    ],
)
def test_the_errors_are_those_that_were_expected(method, of, truth, frame, view):
    """Over 150 answers the error is about that of the plan; 3 sixths off is five standard deviations."""
    expected = next(iter(view.explain(method, *ASKED[method], epsilon=1).findings.values()))

    assert expected == pytest.approx(errors(view, method, truth(frame), of), rel=0.5)


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["mean", "std", "var"])
@pytest.mark.parametrize("epsilon", [0.05, 0.2, 1])
def test_the_errors_of_moments_are_within_a_quarter(method, epsilon, frame):
    """The root mean square error of 200 answers is within a quarter of what was said, a tenth of values missing."""
    gone = frame.assign(age=frame["age"].where(np.arange(N) % 10 > 0))
    view = protect(gone, bounds={"age": (0, 120)}, categories={})
    expected = next(iter(view.explain(method, "age", epsilon=epsilon).findings.values()))

    with seeded_noise(7):
        found = [float(getattr(view, method)("age", epsilon=epsilon, fresh=True)) for _ in range(200)]
    error = math.sqrt(np.mean((np.array(found) - getattr(gone["age"], method)()) ** 2))

    assert expected == pytest.approx(error, rel=0.25)


def test_a_private_group_is_taken_to_be_an_equal_part_of_a_public_table(view):
    """What is expected of one of two groups says so, and is what is measured within a quarter."""
    grouped = view.group_by("sex")
    said, expected = next(iter(grouped.explain("mean", "age", epsilon=1).findings.items()))

    with seeded_noise(7):
        errors = [grouped.mean("age", epsilon=1, fresh=True)["f"].noise_standard_error for _ in range(20)]

    assert f"{N // 2:,} rows" in said
    assert expected == pytest.approx(np.mean(errors), rel=0.25)


@pytest.mark.statistical
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_errors_of_several_at_once(frame, neighbors):
    """Over 50 answers each number of `agg` and `corr` is off by what was said of it, within a half."""
    table = pd.concat([frame, frame])  # as many rows as are taken where their number is private
    view = protect(table, neighbors=neighbors)
    said = view.explain("agg", *ASKED["agg"], epsilon=1).findings
    (of_corr, *_) = view.explain("corr", *ASKED["corr"], epsilon=1).findings.values()
    age, score = table["age"], table["score"]
    truth = {
        "age_mean": age.mean(),
        "age_sum": age.sum(),
        "age_std": age.std(),
        "score_var": score.var(),
        "sex_count": len(table),
        "sex_freq": table["sex"].value_counts().max(),
    }

    with seeded_noise(8):
        found = [view.agg(*ASKED["agg"], epsilon=1, fresh=True) for _ in range(50)]
        pairs = [view.corr(*ASKED["corr"], epsilon=1, fresh=True).values[0, 1] for _ in range(50)]  # noqa: PD011

    for name, value in truth.items():
        error = math.sqrt(np.mean([(each.raw[each.names.index(name)] - value) ** 2 for each in found]))
        assert said[f"expected standard error of {name}"] == pytest.approx(error, rel=0.5), name
    assert of_corr == pytest.approx(math.sqrt(np.mean((np.array(pairs) - age.corr(score)) ** 2)), rel=0.5)


def test_a_plan_of_what_has_several_answers(view):
    """Every method of exploration is planned by an error of its own, and `agg` takes its dictionary as it is."""
    asked = ["describe", "report", "corr", ("nunique", "sex"), ("agg", {"age": ["mean", "median"]})]

    plan = view.plan(asked, epsilon=2)

    errors = [each.error for each in plan.questions]
    assert [errors[0]] * 5 == pytest.approx(errors, rel=0.02)
    assert ("age_mean", "age_median") == plan.run()[-1].names


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("q", "said", "neighbors"),
    [
        ([0.5], {}, "replace_one"),
        (QUARTILES, {}, "replace_one"),
        (QUARTILES, {}, "add_remove"),
        (QUARTILES, {"covers": "table"}, "replace_one"),
        ([each / 10 for each in range(1, 10)], {}, "add_remove"),
    ],
    ids=["one", "chosen", "chosen, private size", "tree", "many"],
)
def test_quantiles_are_off_by_what_was_expected(q, said, neighbors):
    """Of 10,000 normal values, the root mean square error of 200 answers is within a quarter of what was said."""
    frame = pd.DataFrame({"age": 60 + 20 * ndtri((np.arange(10_000) + 0.5) / 10_000)})
    view = protect(frame, neighbors=neighbors, bounds={"age": (0, 120)}, categories={})
    expected = next(iter(view.explain("quantile", "age", q, **said, epsilon=1).findings.values()))

    with seeded_noise(5):
        found = [view.quantile("age", q, **said, epsilon=1, fresh=True) for _ in range(200)]
    off = np.array([each.values for each in found]) - frame["age"].quantile(q).to_numpy()  # noqa: PD011 - no frame
    error = math.sqrt(np.mean(off**2))

    assert expected == pytest.approx(error, rel=0.25)


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
    assert 2 * math.sqrt(2) / (N / 3) / 0.02 + whole == pytest.approx(float(plan.epsilon), rel=1e-3)
    assert 0 == view.budget.spent


def test_a_plan_of_groups(view):
    """A view by group splits among what is asked of each group."""
    plan = view.group_by("sex").plan([("mean", "age"), "count"], epsilon=1)

    first, _ = plan.run()

    assert {"f", "m"} == set(first.keys)
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
