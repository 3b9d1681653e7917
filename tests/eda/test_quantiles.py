"""Quantiles: the scores' sensitivity and the law of the choice, answers near the truth, and refusals."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy import Column, features
from dfprivacy.errors import ArgumentError
from dfprivacy.testing import seeded_noise
from dfprivacy_eda.quantiles import RankOfLeaf
from dfprivacy_eda.tree import layout

X = Column("x", bounds=(0.0, 4.0), fill=2.0)
RELATIONS = ["replace_one", "add_remove"]


def rank(counts, q):
    edges = np.linspace(0, 4, len(counts) + 1)
    return RankOfLeaf(features.Bins(X, edges), q).value(np.array(counts, dtype=float))


def test_scores_of_intervals():
    """Of (4, 0, 0, 6) the last has the median; of (5, 0, 0, 5) any; ties are no matter."""
    assert [-1, -1, -1, 0] == rank([4, 0, 0, 6], 0.5).tolist()
    assert [0, 0, 0, 0] == rank([5, 0, 0, 5], 0.5).tolist()

    weights = np.exp(2 * rank([4, 0, 0, 6], 0.5) / 2)

    assert (0.17488, 0.17488, 0.17488, 0.47537) == pytest.approx(weights / weights.sum(), abs=1e-5)


@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.8, 1.0])
def test_how_far_a_score_moves(q):
    """Over all small counts, no row that changes, comes, goes or loses its value moves a score by more; some do."""
    asked = RankOfLeaf(features.Bins(X, np.arange(5.0)), q)
    ranks = {counts: asked.value(np.array(counts, dtype=float)) for counts in itertools.product(range(5), repeat=4)}
    most = dict.fromkeys(RELATIONS, 0.0)
    for counts in itertools.product(range(4), repeat=4):
        measured_tree = [ranks[*counts[:leaf], counts[leaf] + 1, *counts[leaf + 1 :]] for leaf in range(4)]
        added = max(np.abs(more - ranks[counts]).max() for more in measured_tree)
        moved = max(np.abs(one - other).max() for one in measured_tree for other in measured_tree)
        most["add_remove"] = max(most["add_remove"], added)
        most["replace_one"] = max(most["replace_one"], added, moved)

    for relation, found in most.items():
        bound = asked.sensitivity(relation, math.inf, frozenset())
        assert found <= bound + 1e-9
        assert found >= 0.9 * bound if relation == "add_remove" else found >= 0.7


def test_the_trees_of_columns():
    """Whole numbers have an interval each, on as many levels as they need; the rest 240, 1,024 or 4,096."""
    age = Column("age", bounds=(0.0, 120.0))

    assert (16, 256, 4096) == layout(age, None, math.inf).sizes
    assert (16, 256, 1024) == layout(age, None, 19_999).sizes
    assert (12, 240) == layout(age, None, 1_499).sizes
    assert (2, 3) == layout(age, None, 1_499).weights
    assert (16, 128) == layout(age, 1, math.inf).sizes
    assert (121 * [1])[:10] == np.diff(layout(age, 1, math.inf).edges)[:10].tolist()
    assert (11,) == layout(age, 12, math.inf).sizes
    assert (16, 256, 1024) == layout(Column("x", bounds=(0.0, 1000.0)), 1, math.inf).sizes
    assert (4, 3, 2) == layout(age, None, math.inf).weights


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_what_lies_at_a_bound_is_that_value(neighbors, protect):
    """Most rows at or beyond a bound are an interval of their own: a quantile among them is the bound, surely."""
    x = np.r_[np.zeros(1000), -np.ones(3000), np.linspace(1, 90, 2000), np.full(4000, 300.0)]
    view = protect(pd.DataFrame({"x": x}), neighbors=neighbors, bounds={"x": (0, 100)}, categories={})

    with seeded_noise(1):
        found = view.quantile("x", [0.1, 0.3, 0.5, 0.7, 0.95], epsilon=0.5)
        values = [found.quantile(q) for q in found.q]
        one = view.median("x", epsilon=0.5), view.quantile("x", 0.2, epsilon=0.5)

    assert values == pytest.approx([0, 0, 45.5, 100, 100], abs=8)
    assert {0.0, 100.0} == {*values[:2], *values[3:]}
    assert (0.0, 0.0, 100.0, 100.0) == (found.low[0], found.high[0], found.low[4], found.high[4])
    assert 0.0 == float(one[1]) != float(one[0])
    assert (0.0, 1.0) == pytest.approx((found.cdf(-0.1), found.cdf(100)))
    assert (0.4, 0.6) == pytest.approx((found.cdf(0), found.cdf(99.99)), abs=0.03)
    assert (0.0, 100.0) == (found.quantile(0), found.quantile(1))


def test_bounds_that_leave_no_room_beside_them():
    """Where floats have no room for an interval outside, the intervals begin and end at the bounds."""
    dense = layout(Column("x", bounds=(1e16, 1e16 + 480)), None, 1.0)

    assert (0.0, 1.0) == layout(Column("x", bounds=(0.0, 1.0)), None, 1.0).ends
    assert (1e16, 2.0, None) == (dense.low, dense.step, dense.ends)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_the_answers_are_those_of_the_table(neighbors, frame, protect):
    """With little noise, the quantiles of the values that are there, in their intervals."""
    view, q = protect(neighbors=neighbors), [0.1, 0.25, 0.5, 0.75, 0.9]
    truth = frame["income"].quantile(q)

    found = view.quantile("income", q, covers="table", confidence=1 - 1e-9, epsilon=200)
    whole = view.quantile("visits", q, step=1, epsilon=200)

    assert truth.to_numpy() == pytest.approx(np.array(found.values), abs=100)
    assert all(low <= x <= high for low, x, high in zip(found.low, truth, found.high, strict=True))
    assert frame["visits"].quantile(q, interpolation="lower").tolist() == list(whole.values)
    assert frame["income"].isna().sum() == pytest.approx(found.missing, abs=1)
    assert frame["income"].median() == pytest.approx(float(view.median("income", epsilon=20)), abs=200)
    assert 9 == float(view.quantile("visits", 0.9, step=1, epsilon=20))


def test_others_follow_for_nothing(frame, protect):
    """Any other quantile, and the cumulated shares, are read off the same release."""
    view = protect()
    found = view.quantile("age", [0.5], step=1, covers="table", epsilon=50)
    spent = len(list(view.releases))

    assert frame["age"].quantile(0.8) == found.quantile(0.8)
    assert (frame["age"] < 39.5).mean() == pytest.approx(found.cdf(39.5), abs=0.01)
    assert spent == len(list(view.releases))
    assert found == type(found).from_dict(found.to_dict())


def test_by_group(frame, protect):
    """Every group has its own quantiles, at the price of one."""
    truth = frame.groupby("sex")["income"].quantile(0.5)

    for asked in (0.5, [0.5]):
        found = protect(public=["sex"]).group_by("sex").quantile("income", asked, epsilon=100)
        values = [float(found[key]) if asked == 0.5 else found[key].values[0] for key in "fm"]  # noqa: PD011
        assert truth.to_list() == pytest.approx(values, abs=300)


def test_of_a_public_column(frame, protect):
    """What is public has no noise."""
    view = protect(public=["age"])

    found = view.median("age", step=1, epsilon=1)

    assert frame["age"].median() == float(found)
    assert 0 == found.privacy.epsilon


def test_one_alone_says_how_sure_it_is(protect):
    """There is no interval of values, but shares of rows between which the answer is a quantile."""
    found = protect().median("age", epsilon=1)

    assert None is found.low
    assert "between the 4" in found.notes[0]
    assert "covers='table'" in found.notes[1]


@pytest.mark.parametrize(
    ("rows", "step", "alone", "tree"),
    [(10_000, None, 4, 5), (100_000, None, 6, 7), (10_000, 1, 2, 3), (1_000, None, 3, 4), (100, None, 1, 2)],
)
def test_few_quantiles_are_chosen_and_many_are_of_a_tree(rows, step, alone, tree, protect):
    """Up to some number each is chosen alone, and has no interval; with a step, or few rows, up to fewer."""
    view = protect(pd.DataFrame({"x": np.arange(rows) % 100.0}), bounds={"x": (0, 127)}, categories={})

    chosen, of_tree = (
        view.quantile("x", np.linspace(0.3, 0.7, count), step=step, epsilon=1) for count in (alone, tree)
    )
    covered = view.quantile("x", [0.5], step=step, covers="table", epsilon=1)

    assert None is chosen.low is chosen.high
    assert None is not of_tree.low
    assert None is not covered.low
    assert sorted(chosen.values) == list(chosen.values)
    with pytest.raises(ArgumentError, match="covers='table'"):
        chosen.quantile(0.9)
    assert chosen == type(chosen).from_dict(chosen.to_dict())


def test_a_median_of_many_rows_is_not_one_of_few_intervals(protect):
    """Of 500,000 values, 100 intervals off would be a hundredth: the choice is among so many that it is nearer."""
    x = np.random.default_rng(1).normal(45, 12, 500_000)
    view = protect(pd.DataFrame({"x": x}), bounds={"x": (0, 100)}, categories={})

    with seeded_noise(3):
        off = [abs(float(view.median("x", epsilon=1, fresh=True)) - np.median(x)) for _ in range(5)]

    assert max(off) < 0.002


def test_where_rows_are_private_groups_share_a_million_intervals(protect):
    """A value that all rows have is off by half of one of 2^20 intervals, by group of 2^18."""
    x = np.random.default_rng(1).uniform(10, 90, 8)
    frame = pd.DataFrame(np.tile(x, (400, 1)), columns=[*"abcdefgh"]).assign(sex=["f", "m", "n", "o"] * 100)
    categories = {"sex": ["f", "m", "n", "o"]}
    view = protect(frame, neighbors="add_remove", bounds=dict.fromkeys("abcdefgh", (0, 100)), categories=categories)

    with seeded_noise(3):
        off = [abs(float(view.median(name, epsilon=20)) - value) for name, value in zip("abcdefgh", x, strict=True)]
        by = view.group_by("sex").median("a", epsilon=20)

    assert max(off) < 100 / 2**20 / 2 * 1.01
    assert max(abs(float(each) - x[0]) for each in by.releases) < 100 / 2**18 / 2 * 1.01


@pytest.mark.statistical
def test_the_choice_is_as_near_as_it_says(protect, frame):
    """Of 60 medians at an epsilon of .05, next to none is further off in rows than is said at 95 %."""
    view, age = protect(), np.sort(frame["age"].to_numpy())
    off = []
    for seed in range(60):
        with seeded_noise(seed):
            value = float(view.median("age", epsilon=0.05, fresh=True))
        low, high = np.searchsorted(age, value - 0.03), np.searchsorted(age, value + 0.03, side="right")
        off.append(max(0, low - 2000, 2000 - high))

    assert np.mean(np.array(off) <= 2 / 0.05 * math.log(800 * 20)) > 0.9


REFUSED = {
    "above 1": (lambda v: v.quantile("age", 1.5, epsilon=1), "is not a share of rows"),
    "one of several": (lambda v: v.quantile("age", [0.5, -0.1], epsilon=1), "is not a share of rows"),
    "text": (lambda v: v.quantile("age", "half", epsilon=1), "q"),
    "none": (lambda v: v.quantile("age", [], epsilon=1), "no quantile"),
    "step": (lambda v: v.median("age", step=0.7, epsilon=1), "in steps of 0.7"),
    "small step": (lambda v: v.median("age", step=0.001, epsilon=1), "4,096 values"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_any_charge(case, protect):
    """What cannot be answered costs nothing."""
    ask, text = REFUSED[case]
    view = protect()

    with pytest.raises(ArgumentError, match=text):
        ask(view)

    assert not list(view.releases)


@pytest.mark.parametrize("public", [[], ["part"]])
def test_groups_of_different_sizes_are_measured_alike(public, protect):
    """A tree, and how a budget is shared, follow from all rows: groups together cost what one does."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.random(3100), "part": ["few"] * 100 + ["many"] * 3000})
    said = {"bounds": {"x": (0, 1)}, "categories": {"part": ["few", "many"]}, "public": public}
    groups = protect(frame, **said).group_by("part")

    for found in (
        groups.quantile("x", [0.5], epsilon=1, fresh=True),
        groups.describe(["x"], epsilon=1, fresh=True),
        groups.std("x", epsilon=1, fresh=True),
        groups.mean("x", epsilon=1, fresh=True),
    ):
        assert 1 == pytest.approx(found.privacy.epsilon)


def test_by_group_people_with_several_rows_are_counted():
    """Where choices are not proved, one quantile and several come from the tree."""
    rows = {"p": np.arange(400) // 2, "x": np.linspace(0, 100, 400), "g": ["a", "b"] * 200}
    known = {"bounds": {"x": (0, 100)}, "categories": {"g": ["a", "b"]}, "ledger": "memory:"}
    view = dp.protect(pd.DataFrame(rows), "quantiles-people", epsilon=10**4, unit="p", max_rows=2, **known)

    one, several = (view.group_by("g").quantile("x", q, epsilon=10**3) for q in (0.5, [0.25, 0.5]))

    assert [each.low <= 50 <= each.high for each in one.releases] == [True, True]
    assert [each.quantile(0.5) for each in several.releases] == pytest.approx([50, 50], abs=2)
