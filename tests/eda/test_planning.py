"""What the methods say beforehand of their errors, and how a budget is split by it."""

# ruff: noqa: PD011, SIM300 - no pandas here; expected == actual
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
from dfprivacy_eda import dfprivacy_register_mechanisms
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


def noisy(release):
    """The number of rows as the noise has it."""
    return release.value if release.raw is None else release.raw


def described(found):
    return [found["mean", "age"] / 20, found["std", "age"] / 20, found["50%", "age"], found["freq", "sex"]]


def truly_described(f):
    age = f["age"]
    return [age.mean() / 20, age.std() / 20, age.median(), f["sex"].value_counts().max()]


def in_rows(f):
    """Units of the column in a row, at the median of normal values."""
    return [1, 1, 20 * math.sqrt(2 * math.pi) / len(f), 1]


AGG = {"age": ["mean", "sum", "std", "var", "median", "count"], "sex": ["count", "freq"]}
AGES = {"mean": "mean", "sum": "sum", "var": "var", "std": "std", "median": "median"}
PROMISES = {  # what is asked, what is read off the answer, the truth of that, and units of what is said
    **{name: (("age",), float, lambda f, name=name: getattr(f["age"], name)(), None) for name in AGES},
    "count": (("age",), noisy, len, None),
    "missing": (("age",), noisy, lambda f: 0, None),
    "quantile": (("age", QUARTILES), lambda r: r.values, lambda f: f["age"].quantile(QUARTILES).tolist(), None),
    "histogram": (("age",), lambda r: r.raw[5], lambda f: ((f["age"] >= 60) & (f["age"] < 72)).sum(), None),
    "value_counts": (("sex",), lambda r: r.raw[r.categories.index("f")], lambda f: (f["sex"] == "f").sum(), None),
    "crosstab": (("sex", "ill"), lambda r: r.raw[0, 0], lambda f: pd.crosstab(f["sex"], f["ill"]).iloc[0, 0], None),
    "nunique": (("sex",), noisy, lambda f: f["sex"].nunique(), None),
    "corr": ((["age", "score"],), lambda r: r.values[0, 1], lambda f: f["age"].corr(f["score"]), None),
    "cov": (
        (["age", "score"],),
        lambda r: r.values[0, 1] / (20 / 6),
        lambda f: f["age"].cov(f["score"]) / (20 / 6),
        None,
    ),
    "find_categories": ((["sex"],), lambda r: r["sex"]["f"], lambda f: (f["sex"] == "f").sum(), None),
    "profile": (
        (["age", "sex"],),
        lambda r: r.counts[1][r.values[1].index("f")],
        lambda f: (f["sex"] == "f").sum(),
        None,
    ),
    "describe": ((["age", "sex"],), described, truly_described, in_rows),
    "report": (
        (["age", "score", "sex"],),
        lambda r: [*described(r.description), r.correlations.values[0, 1]],
        lambda f: [*truly_described(f), f["age"].corr(f["score"])],
        lambda f: [*in_rows(f), 1],
    ),
    "agg": (
        (AGG,),
        lambda r: r.raw,
        lambda f: [*(getattr(f["age"], name)() for name in AGG["age"]), len(f), f["sex"].value_counts().max()],
        lambda f: [1, 1, 1, 1, in_rows(f)[2], 1, 1, 1],
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("case", ["a table", "a private number of rows", "a group", "a group, little budget"])
def test_what_is_promised_comes_true(case):
    """The root mean square error of 100 answers, or 80 of what takes long, is within a third of what was said.

    Or it is said that nothing is known. Of a group in private, the rows are an equal part of the table's.
    """
    grouped, epsilon = "group" in case, 0.1 if "little" in case else 1
    rows = 500 if grouped else 10_000 if "private" in case else N
    rng = np.random.default_rng(3)
    part = pd.DataFrame(
        {
            "age": (60 + 20 * ndtri((np.arange(rows) + 0.5) / rows)).clip(0, 120),
            "score": rng.normal(0.5, 1 / 6, rows).clip(0, 1),
            "sex": rng.permutation(["f", "m", "f", "f"] * (rows // 4)),
            "ill": rng.choice(["no", "yes"], rows),
            "g": "a",
        }
    )
    table = pd.concat([part, part.assign(g="b")]) if grouped else part
    known = {"sex": ["f", "m"], "ill": ["no", "yes"], **({"g": ["a", "b"]} if grouped else {})}
    view = protect(table, neighbors="add_remove" if "private" in case else "replace_one", categories=known)
    asked = view.group_by("g") if grouped else view
    some = ["mean", "std", "describe"]
    methods = some if grouped else [*some, "corr", "agg"] if "private" in case else PROMISES

    for name in methods:
        arguments, read, truth, units = PROMISES[name]
        price = {"epsilon": epsilon, **({"delta": 1e-5} if name in {"find_categories", "profile"} else {})}
        said = asked.explain(name, *arguments, **price).findings
        promised = [value for what, value in said.items() if what.startswith("expected standard error")]
        if promised == ["not known"]:
            continue
        runs = 80 if name in {"report", "agg", "profile"} else 100
        with seeded_noise(7):
            answers = [getattr(asked, name)(*arguments, fresh=True, **price) for _ in range(runs)]
        found = np.array([read(each["a"] if grouped else each) for each in answers]).reshape(runs, -1)
        off = (found - truth(part)) / (1 if units is None else units(part))
        error = np.sqrt(np.mean(off**2, axis=0))
        error = error if len(promised) > 1 else [math.sqrt(np.mean(error**2))]

        assert error == pytest.approx(promised, rel=1 / 3), (name, said)


def test_every_promise_is_measured(view):
    """Every method of the package makes one, and `find_bounds` says from which rows on an interval is seen."""
    methods: list[dp.Mechanism] = []
    dfprivacy_register_mechanisms(methods.append)

    assert {*PROMISES, "find_bounds"} == {each.name for each in methods}
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


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("q", "said", "neighbors"),
    [
        ([0.5], {}, "replace_one"),
        (QUARTILES, {}, "replace_one"),
        ([0.25], {}, "add_remove"),
        (QUARTILES, {"covers": "table"}, "replace_one"),
        ([each / 10 for each in range(1, 10)], {}, "add_remove"),
    ],
    ids=["one", "chosen", "one, private size", "tree", "many"],
)
def test_quantiles_are_off_by_what_was_expected(q, said, neighbors):
    """Of 10,000 normal values, the root mean square error of 200 answers is within a quarter of what was said."""
    frame = pd.DataFrame({"age": 60 + 20 * ndtri((np.arange(10_000) + 0.5) / 10_000)})
    view = protect(frame, neighbors=neighbors, bounds={"age": (0, 120)}, categories={})
    expected = next(iter(view.explain("quantile", "age", q, **said, epsilon=1).findings.values()))

    with seeded_noise(5):
        found = [view.quantile("age", q, **said, epsilon=1, fresh=True) for _ in range(200)]
    off = np.array([each.values for each in found]) - frame["age"].quantile(q).to_numpy()
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
