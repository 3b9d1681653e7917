"""Quantiles: the law of the choice, the tree of counts, answers near the truth, and intervals that cover."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest

from dfprivacy import Column, features
from dfprivacy.errors import ArgumentError
from dfprivacy.inference.counts import project_counts
from dfprivacy.testing import seeded_noise
from dfprivacy_eda.quantiles import RankOfLeaf
from dfprivacy_eda.tree import Layout, Tree, choose_layout, least_squares, quantiles

RELATIONS = ["replace_one", "add_remove"]


def test_scores_of_intervals():
    """Of (4, 0, 0, 6) the last has the median; of (5, 0, 0, 5) any; ties are no matter."""
    asked = RankOfLeaf(features.Bins(Column("x", bounds=(0.0, 4.0), fill=2.0), np.arange(5.0)), 0.5)
    ranks = [asked.value(np.array(counts, dtype=float)) for counts in ([4, 0, 0, 6], [5, 0, 0, 5])]
    weights = np.exp(2 * ranks[0] / 2)

    assert [[-1, -1, -1, 0], [0, 0, 0, 0]] == [each.tolist() for each in ranks]
    assert (0.17488, 0.17488, 0.17488, 0.47537) == pytest.approx(weights / weights.sum(), abs=1e-5)


def test_the_trees_of_columns():
    """Integers have an interval each, on as many levels as they need; the rest 240, 1,024 or 4,096.

    Where floats have no room for an interval outside, the intervals begin and end at the bounds.
    """
    age, wide = Column("age", bounds=(0.0, 120.0)), Column("x", bounds=(0.0, 1000.0))
    dense = choose_layout(Column("x", bounds=(1e16, 1e16 + 480)), None, 1.0)

    assert (16, 256, 4096) == choose_layout(age, None, math.inf).sizes
    assert (16, 256, 1024) == choose_layout(age, None, 19_999).sizes == choose_layout(wide, 1, math.inf).sizes
    assert ((12, 240), (2, 3)) == (choose_layout(age, None, 1_499).sizes, choose_layout(age, None, 1_499).weights)
    assert (16, 128) == choose_layout(age, 1, math.inf).sizes
    assert (121 * [1])[:10] == np.diff(choose_layout(age, 1, math.inf).edges)[:10].tolist()
    assert (11,) == choose_layout(age, 12, math.inf).sizes
    assert (4, 3, 2) == choose_layout(age, None, math.inf).weights
    assert (0.0, 1.0) == choose_layout(Column("x", bounds=(0.0, 1.0)), None, 1.0).ends
    assert (1e16, 2.0, None) == (dense.low, dense.step, dense.ends)


# The tree of counts, against numbers computed elsewhere, a solver and simulation


def tree_of(counts, variances, edges=None):
    leaves, spreads = least_squares([np.asarray(each, dtype=float) for each in counts], variances)
    low, step = (0.0, 1.0) if edges is None else (edges[0], edges[1] - edges[0])
    return Tree(Layout(low, step, tuple(map(len, counts[1:])), (), whole=False), leaves, spreads)


def blank(sizes, variances):
    return tree_of([np.zeros(size) for size in sizes], variances)


def test_a_tree_of_reference():
    """Ten rows, counts (7, 2) and (4, 1, 3, -2), at equal shares and at 3 to 2; and where a part is known."""
    for variances, unbiased, positive in (
        ((0, 1, 1), (5.166667, 2.166667, 3.833333, -1.166667), (5.166667, 2.166667, 2.666667, 0)),
        ((0, 4, 9), (5.204545, 2.204545, 3.795455, -1.204545), (5.204545, 2.204545, 2.590909, 0)),
    ):
        tree = tree_of([[10], [7, 2], [4, 1, 3, -2]], variances)
        assert unbiased == pytest.approx(tree.leaves, abs=1e-6)
        assert positive == pytest.approx(tree.counts, abs=1e-6)
    part = tree_of([[10], [6, 4], [np.nan, np.nan, 3, 1]], (0, 1e-9, 1e-9))  # children that nobody knows
    assert (3, 3, 3, 1) == pytest.approx(part.leaves, abs=1e-6)
    assert [True, False, True, True, True] == part.measured_edges.tolist()
    assert [(0,), (2,)] == [tuple(end) for end in part.intervals([0.3], 1.96)]
    flat = tree_of([[10], [2, 5, 0, 3]], (0, 2.0))
    rows, error = flat.rows_below([1, 1.5, 9])
    assert [2, 4.5, 10] == rows.tolist()
    assert error == pytest.approx(np.sqrt(flat.prefix_variances[[1, 1, 4]]))
    leaves, edges = np.array([2.0, 5, 0, 3]), np.arange(5.0)
    found = quantiles(leaves, edges, [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1])
    assert (0, 0.5, 1.1, 1.6, 3.166667, 3.666667, 4) == pytest.approx(found, abs=1e-6)
    assert 2 == quantiles(np.zeros(4), edges, 0.3)  # the middle, where there is nothing


def test_the_nearest_counts_that_are_not_negative():
    """Projections onto a simplex, of which no other point is nearer; a total below 0 is 0."""
    rng = np.random.default_rng(1)
    counts, totals = rng.normal(size=(50, 6)) * 5, rng.uniform(0, 10, 50)
    found = project_counts(counts, totals)
    others = rng.dirichlet(np.full(6, 0.4), (300, 50)) * totals[:, None]

    assert (7 / 3, 0, 13 / 3, 4 / 3) == pytest.approx(project_counts([3, -1, 5, 2], 8))
    assert [4, 0, 0, 0] == project_counts([10, -4, -3, 1], 4).tolist()
    assert [0, 0, 0] == project_counts([-1, -2, -3], 0).tolist()
    assert [0, 0] == project_counts([5, 5], -1).tolist()
    assert np.abs(found.sum(axis=1) - totals).max() < 1e-12
    assert (((found - counts) ** 2).sum(axis=1) <= ((others - counts) ** 2).sum(axis=2).min(axis=0) + 1e-12).all()


def test_variances_of_reference():
    """Of 16³ leaves with 4/9, 3/9 and 2/9 of an epsilon of 1, and of 16 times 8 leaves with a half each."""
    large, small = blank((1, 16, 256, 4096), (0.0, 40.5, 72.0, 162.0)), blank((1, 16, 128), (0, 32.0, 32.0))
    sd, few = np.sqrt(large.prefix_variances), np.sqrt(small.prefix_variances)
    expected = {1: 12.3342, 136: 30.3307, 256: 6.0535, 2048: 12.5040, 2049: 17.5593}

    assert (0, 39.087653, 70.054054, 162) == pytest.approx(large.spreads, abs=1e-6)
    assert expected == pytest.approx({k: sd[k] for k in expected}, abs=1e-4)
    assert (32.4914, 26.1520) == pytest.approx((sd.max(), sd[1:-1].mean()), abs=1e-3)
    assert (5.1640, 10.6667, 13.0469) == pytest.approx(few[[8, 64, 68]], abs=1e-4)
    assert (13.0469, 10.5078) == pytest.approx((few.max(), few[1:-1].mean()), abs=2e-3)


@pytest.mark.parametrize("root", [0.0, 30.0])
@pytest.mark.parametrize(
    "hidden",
    [[], [(3, 0, 6)], [(3, 3, 24)], [(2, 4, 6), (3, 12, 18)], [(3, 0, 3), (3, 9, 15)], [(2, 0, 8), (3, 0, 24)]],
)
def test_a_tree_of_which_a_part_is_known_is_that_of_a_solver(root, hidden):
    """Least squares of what was measured, and the variance below every edge of that; no other edge is known."""
    rng, sizes, variances = np.random.default_rng(4), (1, 4, 8, 24), (root, 5.0, 9.0, 20.0)
    counts = [rng.normal(50, 20, size) for size in sizes]
    for level, first, end in hidden:
        counts[level][first:end] = np.nan
    design = np.vstack([np.kron(np.eye(size), np.ones(24 // size)) for size in sizes])
    y = np.hstack(counts)
    weights = np.where(np.isnan(y), 0, 1 / np.repeat(np.maximum(variances, 1e-6), sizes))
    solved = np.linalg.pinv(design.T * weights @ design, rcond=1e-14, hermitian=True)
    below = np.tril(np.ones((24, 24)))

    tree = tree_of(counts, variances)

    known = np.linalg.norm(below - below @ solved @ (design.T * weights @ design), axis=1) < 1e-3
    assert [True, *known] == tree.measured_edges.tolist()
    best = below @ solved @ (design.T * weights) @ np.nan_to_num(y)
    assert best[known] == pytest.approx(np.cumsum(tree.leaves)[known], abs=0.01)
    variance = np.diag(below @ solved @ below.T)
    assert variance[known] == pytest.approx(tree.prefix_variances[1:][known], abs=1e-3)
    assert np.isinf(tree.prefix_variances[1:][~known]).all()


@pytest.mark.statistical
def test_intervals_of_quantiles_cover():
    """Over 200 noisy trees of a skewed table with ties, 95 % intervals cover its quartiles."""
    rng, runs = np.random.default_rng(3), 200
    x = np.where(rng.random(3000) < 0.3, 0, rng.gamma(1.5, 8, 3000)).clip(0, 99.9)
    edges, q = np.linspace(0, 100, 4097), [0.1, 0.25, 0.5, 0.75, 0.9]
    truth = np.histogram(x, edges)[0].astype(float)
    sizes, scales = (1, 16, 256, 4096), np.array([0, 9, 12, 18])
    known, inside = np.quantile(x, q, method="inverted_cdf"), np.zeros(5)
    for _ in range(runs):
        levels = [
            truth.reshape(size, -1).sum(axis=1) + rng.laplace(0, 1, size) * scale
            for size, scale in zip(sizes, scales, strict=True)
        ]
        low, high = tree_of(levels, 2.0 * scales**2, edges).intervals(q, 1.96)
        inside += (low <= known) & (known <= high)

    assert inside.min() >= runs * 0.95 - 5 * np.sqrt(runs * 0.95 * 0.05)


# Answers


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


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_the_answers_are_those_of_the_table(neighbors, frame, protect):
    """With little noise, the quantiles of the values that are there, in their intervals; and those of groups."""
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
    medians = frame.groupby("sex")["income"].median().to_list()
    for asked in (0.5, [0.5]):
        groups = view.group_by("sex").quantile("income", asked, epsilon=100)
        values = [float(groups[key]) if asked == 0.5 else groups[key].values[0] for key in "fm"]  # noqa: PD011
        assert medians == pytest.approx(values, abs=300)
    more = view.quantile("age", [0.5], step=1, covers="table", epsilon=50)
    assert frame["age"].quantile(0.8) == more.quantile(0.8)  # any other is read off the same release
    assert (frame["age"] < 39.5).mean() == pytest.approx(more.cdf(39.5), abs=0.01)


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


def test_a_median_of_many_rows_is_not_one_of_few_intervals(protect):
    """Of 500,000 values, 100 intervals off would be a hundredth: the choice is among so many that it is nearer.

    There is no interval of values, but shares of rows between which the answer is a quantile.
    """
    x = np.random.default_rng(1).normal(45, 12, 500_000)
    view = protect(pd.DataFrame({"x": x}), bounds={"x": (0, 100)}, categories={})

    found = [float(view.median("x", epsilon=1, fresh=True)) for _ in range(3)]
    few = protect().median("age", epsilon=1)

    assert np.abs(np.array(found) - np.median(x)).max() < 0.002
    assert (few.low, few.notes[0].count("between this table's 4")) == (None, 1)


def test_where_rows_are_private_groups_share_a_million_intervals(protect):
    """A value that all rows have is off by half of one of 2^20 intervals, by group of 2^18."""
    x, names = np.random.default_rng(1).uniform(10, 90, 4), [*"abcd"]
    frame = pd.DataFrame(np.tile(x, (400, 1)), columns=names).assign(sex=["f", "m", "n", "o"] * 100)
    known = {"bounds": dict.fromkeys(names, (0, 100)), "categories": {"sex": ["f", "m", "n", "o"]}}
    view = protect(frame, neighbors="add_remove", **known)

    off = [abs(float(view.median(name, epsilon=20)) - value) for name, value in zip(names, x, strict=True)]
    by = view.group_by("sex").median("a", epsilon=20)

    assert max(off) < 100 / 2**20 / 2 * 1.01
    assert max(abs(float(each) - x[0]) for each in by.releases) < 100 / 2**18 / 2 * 1.01


@pytest.mark.statistical
def test_the_choice_is_as_near_as_it_says(protect, frame):
    """Of 30 medians at an epsilon of .05, next to none is further off in rows than is said at 95 %."""
    view, age = protect(), np.sort(frame["age"].to_numpy())
    off = []
    for _ in range(30):
        value = float(found := view.median("age", epsilon=0.05, fresh=True))
        low, high = np.searchsorted(age, value - 0.03), np.searchsorted(age, value + 0.03, side="right")
        off.append(max(0, low - 2000, 2000 - high))

    said = int(re.search(r"([\d,]+) rows either way", found.notes[0])[1].replace(",", ""))
    assert sum(each <= 2 / 0.05 * math.log(800 * 20) for each in off) >= 21  # P < 10⁻⁵
    assert said >= 2 / 0.05 * math.log(800 * 20) - 1


def test_by_group_people_with_several_rows_are_counted(protect):
    """Where choices are not proved, one quantile and several come from the tree."""
    rows = {"p": np.arange(400) // 2, "x": np.linspace(0, 100, 400), "g": ["a", "b"] * 200}
    known = {"bounds": {"x": (0, 100)}, "categories": {"g": ["a", "b"]}, "unit": "p", "max_rows": 2}
    view = protect(pd.DataFrame(rows), **known)

    one, several = (view.group_by("g").quantile("x", q, epsilon=10**3) for q in (0.5, [0.25, 0.5]))

    assert [each.low <= 50 <= each.high for each in one.releases] == [True, True]
    assert [each.quantile(0.5) for each in several.releases] == pytest.approx([50, 50], abs=2)
