"""Counts of bins, categories and combinations, against NumPy and pandas."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dfprivacy.errors import ArgumentError

RELATIONS = ["replace_one", "add_remove"]


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_counts_are_those_of_numpy_and_pandas(neighbors, frame, protect):
    """By number of bins and by edges; sorted as in pandas or as declared; none of what is missing or outside."""
    view, income, truth = protect(neighbors=neighbors), frame["income"].dropna(), frame["region"].value_counts()

    for bins in (10, [10_000, 30_000, 80_000], [0, 50_000, 200_000], 1):
        known, edges = np.histogram(income, bins, range=(0, 2e5))
        found = view.histogram("income", bins, epsilon=1000)
        assert known == pytest.approx(found.counts, abs=0.2)
        assert edges.tolist() == found.edges.tolist()
        assert frame["income"].isna().sum() == pytest.approx(found.missing, abs=0.2)
        assert list(found.frame.columns) == ["low", "high", "count"]
    found = view.value_counts("region", epsilon=1000)
    plain = view.value_counts("region", sort=False, normalize=True, epsilon=1000)
    assert truth.index.to_list() == list(found.categories)
    assert truth.to_numpy() == pytest.approx(found.counts, abs=0.2)
    assert ("n", "e", "s", "w") == plain.categories
    assert 1 == pytest.approx(plain.shares.sum())
    assert truth["s"] / truth.sum() == pytest.approx(plain["s"], abs=1e-3)
    if neighbors == "replace_one":
        assert frame["region"].isna().sum() == pytest.approx(found.missing, abs=0.2)
    with pytest.raises(ArgumentError, match="is not a category of 'region'"):
        found["x"]


@pytest.mark.parametrize("normalize", [False, True, "index", "columns"])
@pytest.mark.parametrize("margins", [False, True])
def test_crosstabs_are_those_of_pandas(normalize, margins, frame, protect):
    """Counts and shares of all, of rows and of columns, with sums and without; it says what shares are of."""
    truth = pd.crosstab(frame["sex"], frame["region"], normalize=normalize).reindex(columns=list("nesw"))

    found = protect().crosstab("sex", "region", normalize=normalize, margins=margins, epsilon=1000)

    assert truth.to_numpy() == pytest.approx(found.table[:2, :4], rel=1e-2)
    assert (3, 5) == found.table.shape or not margins
    assert ["sex", *"nesw", *(["All"] if margins else [])] == list(found.frame.columns)
    assert ("All" in repr(found)) == margins
    said = {"index": "of their row", "columns": "of their column", True: "of all rows"}
    assert all((text in repr(found)) == (key == normalize) for key, text in said.items())


@pytest.mark.parametrize(("neighbors", "scale"), [("replace_one", 2), ("add_remove", 1)])
def test_the_noise_does_not_grow_with_the_cells(neighbors, scale, protect):
    """The scale at an epsilon of 1 is 2 where rows change, 1 where they come and go."""
    view = protect(neighbors=neighbors)

    asked = [
        ("histogram", "income", 3), ("histogram", "income", 300), ("value_counts", "region"),
        ("crosstab", "sex", "region"),
    ]  # fmt: skip
    for name, *args in asked:
        assert scale == pytest.approx(getattr(view, name)(*args, epsilon=1).noise_scale, rel=1e-6)


@pytest.mark.statistical
def test_intervals_of_counts_cover(protect, frame):
    """Of 80 crosstabs of 8 cells, 95 % intervals hold the table's counts as often as they say."""
    view, runs = protect(), 80
    truth = pd.crosstab(frame["sex"], frame["region"]).reindex(columns=list("nesw")).to_numpy()

    ends = [view.crosstab("sex", "region", epsilon=0.1, fresh=True).intervals for _ in range(runs)]

    inside = sum(((low <= truth) & (truth <= high)).sum() for low, high in ends)
    assert abs(inside / (8 * runs) - 0.95) < 5 * math.sqrt(0.95 * 0.05 / (8 * runs))


@pytest.mark.statistical
@pytest.mark.parametrize(("gaps", "neighbors"), [(100, "replace_one"), (0, "replace_one"), (100, "add_remove")])
def test_raw_counts_are_unbiased(gaps, neighbors, protect):
    """Also of categories without rows, of rows in none, and the largest in describe and agg; shown, they add up."""
    frame = pd.DataFrame({"a": ["x"] * (200 - gaps) + [None] * gaps})
    view = protect(frame, neighbors=neighbors, bounds={}, categories={"a": ["x", "y", "z"]})
    scale, runs = (2 if neighbors == "replace_one" else 1) / 0.05, 25

    found = [view.value_counts("a", sort=False, epsilon=0.05, fresh=True) for _ in range(runs)]
    described = [view.describe(epsilon=0.5, fresh=True) for _ in range(runs)]
    several = [view.agg({"a": "freq"}, epsilon=0.5, fresh=True) for _ in range(runs)]

    error = 6 * math.sqrt(2 / runs) * scale
    assert [200 - gaps, 0, 0] == pytest.approx(np.mean([each.raw for each in found], axis=0), abs=error)
    assert min(each.raw.min() for each in found) < 0 <= min(each.counts.min() for each in found)
    assert [each.counts.sum() for each in found] == pytest.approx([each.total for each in found])
    if neighbors == "replace_one":
        assert gaps == pytest.approx(np.mean([each.missing for each in found]), abs=2 * error)
        assert max(each.total for each in found) <= 200 + 1e-6
    tops = [each.raw[0][each.statistics.index("freq")] for each in described], [each.raw[0] for each in several]
    assert [200 - gaps] * 2 == pytest.approx([np.mean(top) for top in tops], abs=error / 10)


def test_thousands_of_categories(protect):
    """They share one noise, and the answer says how much; most that nobody has are next to nothing."""
    codes = [f"c{at}" for at in range(5000)]
    view = protect(pd.DataFrame({"code": ["c1"] * 3000}), bounds={}, categories={"code": codes})

    found = view.value_counts("code", epsilon=1)

    # All counts together are at most two standard errors above their noisy sum, whose own is 198 rows: six of them.
    assert 3000 - 1200 < found["c1"] < 3000 + 60
    assert found.total <= 3000
    assert "4,976 more" in repr(found)
    error = math.sqrt(2) / (2 * math.sinh(1 / 4))  # of noise of scale 2 on whole rows
    assert f"{error:.1f} rows in each count" in repr(found)
    assert found.noise_standard_error == pytest.approx(error, rel=1e-12)


@pytest.mark.parametrize("terms", [{}, {"neighbors": "add_remove"}, {"public": ["sex"]}])
def test_a_crosstab_is_tested_for_nothing(terms, protect):
    """The test of independence takes the same counts, at the same price, whichever is asked first."""
    view = protect(**terms)
    table = view.crosstab("sex", "region", epsilon=1)
    tests = [view.chi2(*of, method="table", epsilon=1) for of in (("region", "sex"), ("sex", "region"))]
    turned = view.crosstab("region", "sex", epsilon=1)

    assert [0, 0, 0] == [each.privacy.epsilon for each in (*tests, turned)]
    assert table.raw.ravel().tolist() == pytest.approx(list(tests[0].released))
    assert table.raw.T.ravel().tolist() == pytest.approx(list(tests[1].released))
    assert turned.raw == pytest.approx(table.raw.T)
    assert 1 == view.where(sex="f").crosstab("sex", "region", epsilon=1).privacy.epsilon


def test_the_last_bin_holds_its_upper_edge(protect):
    """As in NumPy, wherever the edges are; a value just above it is in none."""
    values = np.array([20.0, 40, 40, 50, 60, 60, 60, np.nextafter(60, 61), 100])
    view = protect(pd.DataFrame({"age": values}), bounds={"age": (0, 100)}, categories=None)
    for edges in ([40, 50, 60], [0, 60], [20, 100], [40, 50, 100]):
        found = view.histogram("age", edges, epsilon=1000)
        assert np.histogram(values, edges)[0].tolist() == pytest.approx(found.raw.tolist(), abs=1e-3), edges
        assert edges == found.edges.tolist()


def test_a_histogram_says_how_many_rows_are_in_no_bin(frame, protect):
    """With the error of their number; where the bins span the bounds there is none."""
    view = protect()

    outside = (frame["age"] < 40).sum() + (frame["age"] > 59.5).sum()
    (note,) = view.histogram("age", [40, 50, 59.5], epsilon=10**4).limits
    assert note.removesuffix(" rows lie outside the bins.").split(" ± ")[0] == f"{outside:,}"
    assert () == view.histogram("age", 3, epsilon=10**4).limits
