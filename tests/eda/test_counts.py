"""Counts of bins, categories and combinations, and bounds that are found, against NumPy and pandas."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dfprivacy.errors import ArgumentError
from dfprivacy.testing import seeded_noise
from dfprivacy_eda.bounds import EDGES, threshold

RELATIONS = ["replace_one", "add_remove"]


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_histograms_are_those_of_numpy(neighbors, frame, protect):
    """By number of bins and by edges; what lies outside the edges is not counted, and neither what is missing."""
    view, income = protect(neighbors=neighbors), frame["income"].dropna()

    for bins in (10, [10_000, 30_000, 80_000], [0, 50_000, 200_000], 1):
        truth, edges = np.histogram(income, bins, range=(0, 2e5))
        found = view.histogram("income", bins, epsilon=1000)

        assert truth == pytest.approx(found.counts, abs=0.2)
        assert edges.tolist() == found.edges.tolist()
        assert frame["income"].isna().sum() == pytest.approx(found.missing, abs=0.2)
        assert list(found.frame.columns) == ["low", "high", "count"]


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_counts_are_those_of_pandas(neighbors, frame, protect):
    """Sorted as pandas sorts, or in the order of the categories; shares add up to 1."""
    view = protect(neighbors=neighbors)
    truth = frame["region"].value_counts()

    found = view.value_counts("region", epsilon=1000)
    plain = view.value_counts("region", sort=False, normalize=True, epsilon=1000)

    assert truth.index.to_list() == list(found.categories)
    assert truth.to_numpy() == pytest.approx(found.counts, abs=0.2)
    assert ("n", "e", "s", "w") == plain.categories
    assert 1 == pytest.approx(plain.shares.sum())
    assert truth["s"] / truth.sum() == pytest.approx(plain["s"], abs=1e-3)
    if neighbors == "replace_one":
        assert frame["region"].isna().sum() == pytest.approx(found.missing, abs=0.2)
    with pytest.raises(ArgumentError, match="not a category"):
        found["x"]


@pytest.mark.parametrize("normalize", [False, True, "index", "columns"])
@pytest.mark.parametrize("margins", [False, True])
def test_crosstabs_are_those_of_pandas(normalize, margins, frame, protect):
    """Counts and shares of all, of rows and of columns, with sums and without."""
    truth = pd.crosstab(frame["sex"], frame["region"], normalize=normalize).reindex(columns=list("nesw"))

    found = protect().crosstab("sex", "region", normalize=normalize, margins=margins, epsilon=1000)

    assert truth.to_numpy() == pytest.approx(found.table[:2, :4], rel=1e-2)
    assert (3, 5) == found.table.shape or not margins
    assert ["sex", *"nesw", *(["All"] if margins else [])] == list(found.frame.columns)


@pytest.mark.parametrize(("neighbors", "scale"), [("replace_one", 2), ("add_remove", 1)])
def test_the_noise_does_not_grow_with_the_cells(neighbors, scale, protect):
    """The scale at an epsilon of 1 is 2 where rows change, 1 where they come and go."""
    view = protect(neighbors=neighbors)

    for found in (
        view.histogram("income", 3, epsilon=1),
        view.histogram("income", 300, epsilon=1),
        view.value_counts("region", epsilon=1),
        view.crosstab("sex", "region", epsilon=1),
    ):
        assert scale == pytest.approx(found.noise_scale, rel=1e-6)


@pytest.mark.statistical
def test_intervals_of_counts_cover(protect, frame):
    """Of 300 crosstabs of 8 cells, 95 % intervals hold the table's counts as often as they say."""
    view = protect()
    truth = pd.crosstab(frame["sex"], frame["region"]).reindex(columns=list("nesw")).to_numpy()
    inside = 0
    with seeded_noise(20_260_110):
        for _ in range(300):
            low, high = view.crosstab("sex", "region", epsilon=0.1, fresh=True).intervals
            inside += ((low <= truth) & (truth <= high)).sum()

    assert abs(inside / 2400 - 0.95) < 5 * math.sqrt(0.95 * 0.05 / 2400)


def test_raw_counts_are_unbiased_and_shown_ones_add_up(protect):
    """Counts that are shown are not negative and add up to the rows; the noisy ones stay as they are."""
    found = protect().histogram("visits", 50, epsilon=0.05)

    assert found.raw.min() < 0 <= found.counts.min()
    assert found.total == pytest.approx(found.counts.sum())
    assert found.total <= 4000 + 1e-6
    assert found == type(found).from_dict(found.to_dict())


@pytest.mark.statistical
@pytest.mark.parametrize("gaps", [0, 100])
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_raw_counts_are_unbiased_where_the_missing_rows_are_what_is_left(gaps, neighbors, protect):
    """Also of categories that no row has; and so are the rows in none, and the largest in describe and agg."""
    frame = pd.DataFrame({"a": ["x"] * (200 - gaps) + [None] * gaps})
    view = protect(frame, bounds={}, categories={"a": ["x", "y", "z"]}, neighbors=neighbors)
    scale, runs = (2 if neighbors == "replace_one" else 1) / 0.05, 100

    with seeded_noise(3):
        found = [view.value_counts("a", sort=False, epsilon=0.05, fresh=True) for _ in range(runs)]
        described = [view.describe(epsilon=0.5, fresh=True) for _ in range(runs)]
        several = [view.agg({"a": "freq"}, epsilon=0.5, fresh=True) for _ in range(runs)]

    error = 6 * math.sqrt(2 / runs) * scale
    assert [200 - gaps, 0, 0] == pytest.approx(np.mean([each.raw for each in found], axis=0), abs=error)
    assert min(each.raw.min() for each in found) < 0
    if neighbors == "replace_one":
        assert gaps == pytest.approx(np.mean([each.missing for each in found]), abs=2 * error)
    tops = [each.raw[0][each.statistics.index("freq")] for each in described], [each.raw[0] for each in several]
    assert [200 - gaps] * 2 == pytest.approx([np.mean(top) for top in tops], abs=error / 10)


REFUSED = {
    "no bins": (lambda v: v.histogram("age", 0, epsilon=1), "bins=0"),
    "one edge": (lambda v: v.histogram("age", [3], epsilon=1), "rising edges"),
    "reversed": (lambda v: v.histogram("age", [3, 2], epsilon=1), "rising edges"),
    "repeated": (lambda v: v.histogram("age", [3, 3, 4], epsilon=1), "rising edges"),
    "infinite": (lambda v: v.histogram("age", [0, math.inf], epsilon=1), "rising edges"),
    "text": (lambda v: v.histogram("age", "auto", epsilon=1), "rising edges"),
    "itself": (lambda v: v.crosstab("sex", "sex", epsilon=1), "a column twice"),
    "normalize": (lambda v: v.crosstab("sex", "region", normalize="rows", epsilon=1), "unknown"),
    "no columns": (lambda v: v.find_bounds([], epsilon=1), "at least one"),
    "twice": (lambda v: v.find_bounds(["age", "age"], epsilon=1), "each once"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_any_charge(case, protect):
    """What cannot be answered costs nothing."""
    ask, text = REFUSED[case]
    view = protect()

    with pytest.raises(ArgumentError, match=text):
        ask(view)

    assert not list(view.releases)


def test_thousands_of_categories(protect):
    """They are answered, and most of those that nobody has are shown as next to nothing."""
    codes = [f"c{at}" for at in range(5000)]
    view = protect(pd.DataFrame({"code": ["c1"] * 3000}), bounds={}, categories={"code": codes})

    found = view.value_counts("code", epsilon=1)

    # All counts together are at most two standard errors above their noisy sum, whose own is 198 rows: six of them.
    assert 3000 - 800 < found["c1"] < 3000 + 60
    assert "4,976 more" in repr(found)


def test_the_threshold_of_bounds():
    """An empty interval of 84 passes with probability 10⁻⁴ at most: 25.896 rows at an epsilon of 1."""
    assert 84 == len(EDGES) - 1
    assert 25.896 == pytest.approx(threshold(2, 1), abs=1e-3)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_bounds_are_found(neighbors, protect):
    """The powers of two around the values, of several columns, which need not be declared; and none of too few."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": rng.uniform(18, 90, 5000), "b": rng.normal(-3, 0.1, 5000), "c": np.nan})
    view = protect(frame, bounds={}, categories={}, neighbors=neighbors)

    found = view.find_bounds(["a", "b", "c"], epsilon=1)

    assert {"a": (16, 128), "b": (-4, -2)} == found.bounds
    assert (16, 128) == found["a"]
    assert "not found" in repr(found)
    with pytest.raises(ArgumentError, match="No bounds of 'c'"):
        found["c"]


@pytest.mark.parametrize("terms", [{}, {"neighbors": "add_remove"}, {"public": ["sex"]}])
def test_a_crosstab_is_tested_for_nothing(terms, protect):
    """The test of independence takes the same counts, at the same price, whichever is asked first."""
    view = protect(**terms)
    table = view.crosstab("sex", "region", epsilon=1)

    test = view.chi2("region", "sex", method="table", epsilon=1)

    other = view.chi2("sex", "region", method="table", epsilon=1)
    turned = view.crosstab("region", "sex", epsilon=1)
    assert 0 == test.privacy.epsilon == other.privacy.epsilon == turned.privacy.epsilon
    assert list(other.released) == pytest.approx(table.raw.T.ravel().tolist())
    assert turned.raw == pytest.approx(table.raw.T)
    assert table.raw.ravel().tolist() == pytest.approx(list(test.released))
    assert 0 == view.where(sex="f").crosstab("sex", "region", epsilon=1).privacy.epsilon - 1
