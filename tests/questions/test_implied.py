"""What is known already is not paid for again: a mean after a description of the same rows and columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

_rng = np.random.default_rng(3)
DATA = pd.DataFrame({"x": _rng.normal(2, 1, 5000), "y": _rng.normal(2, 1, 5000), "g": ["a", "b"] * 2500})
DATA["h"] = ["u", "u", "v", "v"] * 1250


def protect(name, **terms):
    terms = {"bounds": {"x": (-3, 7), "y": (-3, 7)}, "categories": {"g": ["a", "b"], "h": ["u", "v"]}, **terms}
    return dp.protect(DATA, name, epsilon=100, **{"ledger": "memory:", **terms})


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_a_description_answers_what_it_tells_better(name, relation):
    """At a price that would buy less the answer is free, and is that of the description; explain says so."""
    view = protect(f"{name} {relation}", neighbors=relation)
    described = view.describe(epsilon=1)
    cheap, dear = view.explain(name, "x", epsilon=0.1), view.explain(name, "x", epsilon=50)
    found = getattr(view, name)("x", epsilon=0.1)
    assert (cheap.left, dear.left, found.privacy.epsilon, view.budget.spent) == (0, 50, 0, 1)
    if name != "var":
        assert found.value == described[name, "x"]
    assert all(record.reused for record in found.privacy.noise)
    assert (found - found).high == 0
    assert getattr(view, name)("x", epsilon=50).privacy.epsilon == 50


@pytest.mark.parametrize(
    "other",
    [
        lambda v: v.where(g="a").mean("x", epsilon=0.1),
        lambda v: v.declare(bounds={"x": (-3, 8)}).mean("x", epsilon=0.1),
        lambda v: v.mean("x", epsilon=0.1, fresh=True),
        lambda v: v.mean("x", epsilon=0.1, nan_policy="fill"),
        lambda v: v.group_by("g").mean("x", epsilon=0.1),
        lambda v: v.count(["x", "y"], epsilon=0.1),
    ],
)
@pytest.mark.parametrize("first", [lambda v: v.describe(["x"], epsilon=1), lambda v: v.ttest("x", epsilon=1)])
def test_what_is_of_other_rows_or_of_something_else_is_paid(first, other):
    view = protect("other")
    first(view)
    assert other(view).privacy.epsilon == pytest.approx(0.1)


PARTS = {
    "all": lambda v: v, "by g": lambda v: v.group_by("g"), "g = a": lambda v: v.where(g="a"),
    "g = b": lambda v: v.where(g="b"), "by h and g": lambda v: v.group_by("h", "g"),
}  # fmt: skip
NUMBERS = ["mean", "std", "sum", "count", "missing"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("rows", ["all", "by g", "g = a"])
@pytest.mark.parametrize(
    ("first", "told"),
    [
        (lambda v: v.describe(epsilon=9), NUMBERS),
        (lambda v: v.agg({"x": ["mean", "std", "count"]}, epsilon=9), NUMBERS),
        (lambda v: v.agg({"x": "sum"}, epsilon=9), ["mean", "sum", "count", "missing"]),
        (lambda v: v.mean("x", epsilon=9), ["mean", "sum", "count", "missing"]),
        (lambda v: v.std("x", epsilon=9), ["std"]),
        (lambda v: v.sum("x", epsilon=9), ["sum"]),
    ],
    ids=["describe", "agg", "agg of a sum", "mean", "std", "sum"],
)
def test_an_answer_tells_others_and_no_more(first, told, rows):
    """What follows from the sums of an answer is free, of the same rows and of its groups, and all else is paid."""
    view = protect(f"{first} {rows}")
    first(PARTS[rows](view))
    known = {"by g": ["by g", "g = a", "g = b"]}.get(rows, [rows])
    for asked, part in PARTS.items():
        for name in NUMBERS:
            free = part(view).explain(name, "x", epsilon=0.1).left == 0
            assert free == (asked in known and name in told), (asked, name)


OF_ROWS = ["mean", "std", "sum", "count"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    ("test", "known", "told"),
    [
        (lambda v, **p: v.ttest("x", **p), ["all"], OF_ROWS),
        (lambda v, **p: v.ttest("x", queries="separately", **p), ["all"], OF_ROWS),
        (lambda v, **p: v.ttest("x", by="g", **p), ["by g", "g = a", "g = b"], OF_ROWS),
        (lambda v, **p: v.group_by("g").ttest("x", popmean=2, **p), ["by g", "g = a", "g = b"], OF_ROWS),
        (lambda v, **p: v.group_by("h").ttest("x", by="g", **p), ["by h and g"], OF_ROWS),
        (lambda v, **p: v.where(g="a").ztest("x", popmean=2, sigma=1, **p), ["g = a"], OF_ROWS),
    ],
    ids=["of one", "separately", "of two", "by group", "of two by group", "z"],
)
def test_a_test_tells_of_its_rows_or_groups(test, known, told, relation):
    """What follows from the sums of a test is free, if these are as accurate; what is more accurate is paid."""
    for price, free in ((9, known), (0.05, [])):
        view = protect(f"{test} {relation} {price}", neighbors=relation)
        test(view, epsilon=price)
        for asked, part in PARTS.items():
            for name in told:
                left = part(view).explain(name, "x", epsilon=0.1).left
                assert (left == 0) == (asked in free), (asked, name)
    with seeded_noise(7):
        paid = PARTS[known[-1]](view).mean("x", epsilon=0.1)
    assert paid.privacy.epsilon == pytest.approx(0.1)


def test_a_mean_of_a_group_of_a_test_is_that_of_the_test():
    """It is the number that the test has, of the same noise, and is paid by nobody."""
    view = protect("groups of a test")
    test, alone = view.ttest("x", by="g", epsilon=2), view.ttest("y", epsilon=2)
    means = [view.where(g=group).mean("x", epsilon=0.5) for group in "ab"]
    of_all = view.mean("y", epsilon=2)

    assert [each.privacy.epsilon for each in (*means, of_all)] == [0, 0, 0]
    assert view.budget.spent == 4
    np.testing.assert_allclose([each.value for each in means], test.means)
    np.testing.assert_allclose([each._replicates()["value"] for each in means], test._replicates()["means"])
    np.testing.assert_allclose(of_all.value, alone.estimate)
    np.testing.assert_allclose(of_all._replicates()["value"], alone._replicates()["estimate"])
    assert view.where(g="a").mean("y", epsilon=0.5).privacy.epsilon == 0.5
    assert view.mean("x", epsilon=0.5).privacy.epsilon == 0.5


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_a_mean_of_the_population_follows_from_moments(relation):
    """It is free after a test or a description, whose sums of squares tell the spread, and not after a mean."""
    for first, free in (("ttest", True), ("describe", True), ("mean", False)):
        view = protect(f"population {relation} {first}", neighbors=relation)[["x"]]
        known = view.describe(epsilon=9) if first == "describe" else getattr(view, first)("x", epsilon=9)
        found = view.mean("x", epsilon=0.1, covers="population")
        assert (found.privacy.epsilon == 0) == free
        if first == "ttest":
            ends = known.estimate, known.low, known.high
            np.testing.assert_allclose((found.value, found.low, found.high), ends, rtol=1e-4)


LABELS = pd.DataFrame({
    "g": _rng.choice(["a", "b", None], 2000), "h": _rng.choice(["u", "v", "w", "z"], 2000), "o": ["p", "q"] * 1000
})  # fmt: skip
COUNTED = {
    "g": lambda v: v.count("g", epsilon=0.1),
    "g missing": lambda v: v.missing("g", epsilon=0.1),
    "g, where o": lambda v: v.where(o="p").count("g", epsilon=0.1),
    "g by o": lambda v: v.group_by("o").count("g", epsilon=0.1),
    "g filled": lambda v: v.count("g", nan_policy="fill", epsilon=0.1),
    "h and g": lambda v: v.count(["h", "g"], epsilon=0.1),
    "h": lambda v: v.count("h", epsilon=0.1),
    "more accurate": lambda v: v.count(["g", "h"], epsilon=9),
}


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    ("first", "told"),
    [
        (lambda v: v.value_counts("g", epsilon=1), {"g", "g missing"}),
        (lambda v: v.crosstab("g", "h", epsilon=1), {"h and g"}),
        (lambda v: v.group_by("o").value_counts("g", epsilon=1), {"g, where o", "g by o"}),
        (lambda v: v.value_counts("g", domain=["a", "b"], epsilon=1), set()),
    ],
    ids=["value_counts", "crosstab", "by group", "found"],
)
def test_counts_tell_how_many_rows_have_a_value(first, told, relation):
    """Those in some cell of all categories, if that is as accurate: of the same columns and rows, and no others."""
    terms = {"categories": {"g": ["a", "b"], "h": ["u", "v", "w"], "o": ["p", "q"]}, "neighbors": relation}
    told = told - ({"g missing"} if relation == "add_remove" else set())
    for name, ask in COUNTED.items():
        view = dp.protect(LABELS, f"{first} {relation} {name}", epsilon=100, ledger="memory:", **terms)
        counted, found = first(view), ask(view)
        free = found.privacy.epsilon == 0 and len(found.privacy.noise) > 0
        assert free == (name in told), name
        if free and name in {"g", "h and g"}:
            drawn = counted._replicates()["raw"]
            np.testing.assert_allclose(found._replicates()["value"], drawn.reshape(-1, drawn.shape[-1]).sum(axis=0))
            noise = counted._law.drawn(np.random.default_rng(1), (100_000, counted.raw.size)).sum(axis=1)
            ends = counted.raw.sum() + np.quantile(noise, [0.025, 0.975])
            np.testing.assert_allclose([found.low, found.high], ends, atol=1)


def test_groups_are_known_from_answers_of_their_own():
    """Rows are the same however they are selected, and each group has the most accurate of its answers."""
    view = protect("each")
    view.where(g="a").describe("x", epsilon=5)
    assert view.group_by("g").mean("x", epsilon=0.1).privacy.epsilon == 0.1
    alone = view.where(g="b").describe("x", epsilon=5)

    found = view.group_by("g").mean("x", epsilon=0.2)

    assert (found.privacy.epsilon, found.privacy.question) == (0, "mean('x') by g")
    assert found["b"].value == alone["mean", "x"]
    assert len({record.reused for record in found.privacy.noise}) >= 1
    assert view.explain("mean", "y", epsilon=0.1).left == 0.1
    assert view.group_by("g").explain("mean", "x", epsilon=0.1).left == 0


@pytest.mark.parametrize("ask", [
    lambda v: v.group_by("h", "g").agg({"x": "std"}, epsilon=2),
    lambda v: v.group_by("h").ttest("x", by="g", epsilon=2),
])  # fmt: skip
def test_intervals_of_what_follows_hold_the_tables_numbers(ask):
    """In 30 answers by four groups, about 95 % of the intervals of groups hold the number of their rows."""
    covered = []
    truth = DATA[:1200].groupby(["h", "g"])["x"].agg(["mean", "sum", "std"])
    for run in range(30):
        with seeded_noise(run):
            categories = {"g": ["a", "b"], "h": ["u", "v"]}
            view = dp.protect(
                DATA[:1200], f"{ask} {run}", epsilon=100, bounds={"x": (-3, 7)}, categories=categories
            )
            ask(view)
            for name in ("mean", "sum", "std"):
                found = getattr(view.group_by("h", "g"), name)("x", epsilon=0.001)
                covered += [each.low <= truth[name][key] <= each.high for key, each in found.items()]

    assert view.budget.spent == 2
    assert 0.9 <= np.mean(covered) <= 0.98


def test_an_answer_of_another_version_is_passed_over(tmp_path):
    """A class that is not as it was tells nothing, and stands in nobody's way."""
    from sqlalchemy import create_engine, text

    file = tmp_path / "ledger.sqlite"
    view = protect("versions", ledger=file)
    view.describe(epsilon=5)
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE answers SET release = replace(release, 'Description', 'Gone')"))
    engine.dispose()
    assert view.mean("x", epsilon=0.1).privacy.epsilon == 0.1


def test_persons_with_several_rows():
    """Rows are chosen by the declared columns: a description of more of them is of other rows."""
    rows = DATA.assign(who=np.arange(len(DATA)) // 3)
    view = dp.protect(
        rows, "persons", epsilon=100, ledger="memory:", unit="who", max_rows=2, bounds={"x": (-3, 7), "y": (-3, 7)}
    )
    view.describe(["x", "y"], epsilon=5)
    other = view.declare(bounds={"y": (-3, 8)})
    assert (view.mean("x", epsilon=0.1).privacy.epsilon, other.mean("x", epsilon=0.1).privacy.epsilon) == (0, 0.1)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("missing", [False, True])
def test_counts_of_categories_tell_shares(relation, missing):
    """Shares of all rows and of groups follow from counts at a higher price, and are those of the exact ones."""
    data = DATA.assign(h=DATA.h.mask(DATA.index % 7 == 0)) if missing else DATA
    terms = {"categories": {"g": ["a", "b"], "h": ["u", "v"]}, "neighbors": relation, "ledger": "memory:"}
    view = dp.protect(data, f"shares {relation} {missing}", epsilon=500, accounting="basic", **terms)
    counts = view.value_counts("h", epsilon=100)
    view.crosstab("g", "h", epsilon=100)
    spent, known = view.budget.spent, data.dropna()
    alone = view.proportions("h", success="u", epsilon=1)
    groups = view.proportions("h", by="g", success="v", epsilon=1)
    others = view.proportions("g", by="h", success="a", groups=["v"], epsilon=1)

    assert view.budget.spent == spent
    assert alone.noise_standard_error == counts.noise_standard_error
    assert alone.shares[0] == pytest.approx((known.h == "u").mean(), abs=0.001)
    assert groups.shares == pytest.approx([(known.h[known.g == g] == "v").mean() for g in "ab"], abs=0.002)
    assert others.shares == pytest.approx([(known.g[known.h == "v"] == "a").mean()], abs=0.002)
    assert groups.sizes == pytest.approx([(known.g == g).sum() for g in "ab"], abs=2)
    view.value_counts("g", epsilon=1)
    assert view.proportions("g", success="a", epsilon=4).privacy.epsilon == 4
