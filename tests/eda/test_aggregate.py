"""Several statistics of several columns: those of pandas and Polars, in one release, of all rows and by group."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dfprivacy.errors import ArgumentError
from dfprivacy.testing import seeded_noise
from dfprivacy_eda.aggregate import split

from .conftest import SAID, data

RELATIONS = ["replace_one", "add_remove"]
ASKED = {
    "age": ["mean", "std", "median"],
    "income": ["count", "missing", "sum", "var", "25%"],
    "visits": "mean",
    "region": ["count", "missing", "top", "freq"],
}


def truth(frame):
    """The same, as pandas has it."""
    return {
        "age_mean": frame["age"].mean(),
        "age_std": frame["age"].std(),
        "age_median": frame["age"].median(),
        "income_count": frame["income"].count(),
        "income_missing": frame["income"].isna().sum(),
        "income_sum": frame["income"].sum(),
        "income_var": frame["income"].var(),
        "income_25%": frame["income"].quantile(0.25),
        "visits_mean": frame["visits"].mean(),
        "region_count": frame["region"].count(),
        "region_missing": frame["region"].isna().sum(),
        "region_freq": frame["region"].value_counts().iloc[0],
    }


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("nan_policy", ["omit", "fill"])
def test_the_answers_are_those_of_pandas(neighbors, nan_policy, frame, protect):
    """With next to no noise, of all rows, with gaps left out or filled in."""
    if nan_policy == "fill":
        frame = frame.assign(income=frame["income"].fillna(1e5))

    found = protect(neighbors=neighbors).agg(ASKED, nan_policy=nan_policy, epsilon=3000)

    assert "n" == found["region_top"]
    for name, value in truth(frame).items():
        near = 60 if name == "income_25%" else 0.2
        assert value == pytest.approx(found[name], rel=3e-3, abs=near), name
        at = found.names.index(name)
        assert found.lows[at] <= found[name] <= found.highs[at] or name == "region_freq"
        if nan_policy == "omit" or "missing" not in name:
            assert (found.standard_errors[at] > 0) == (name != "income_count" or nan_policy == "omit" or
                                                       neighbors == "add_remove")  # fmt: skip


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_groups_by_several_keys(neighbors, frame, protect):
    """A row for each combination, with the numbers of its own rows, at the price of one."""
    grouped = protect(neighbors=neighbors).group_by("sex", "region")

    found = grouped.agg({"age": ["mean", "std"], "income": "median"}, rows=("age", "count"), epsilon=2000)

    tidy = found.to_frame()
    table = tidy.pivot_table(index=["sex", "region"], columns="name", values="value")
    known = frame.groupby(["sex", "region"]).agg({"age": ["mean", "std", "count"], "income": "median"})
    assert 8 == len(table)
    for key in known.index:
        assert known.loc[key, ("age", "mean")] == pytest.approx(table.loc[key, "age_mean"], abs=0.5)
        assert known.loc[key, ("age", "std")] == pytest.approx(table.loc[key, "age_std"], abs=0.5)
        assert known.loc[key, ("age", "count")] == pytest.approx(table.loc[key, "rows"], abs=0.5)
        assert known.loc[key, ("income", "median")] == pytest.approx(table.loc[key, "income_median"], rel=0.05)
    assert (tidy["low"] <= tidy["high"]).all()
    assert 2000 == pytest.approx(found.privacy.epsilon)
    assert found == type(found).from_dict(found.to_dict())


def test_public_keys_and_what_is_free(frame, protect):
    """Groups that neighbouring tables agree on have public sizes, and a count without gaps is exact and free."""
    view = protect(public=["sex", "age"])

    found = view.group_by("sex").agg({"age": ["count", "mean"]}, epsilon=1)

    rows = frame.groupby("sex")["age"]
    assert rows.count().to_list() == [found[key]["age_count"] for key in "fm"]
    assert rows.mean().to_list() == pytest.approx([found[key]["age_mean"] for key in "fm"])
    assert 0 == found.privacy.epsilon
    assert (
        4000 == protect(bounds={"age": (0, 120)}, missing={"age": 60}).agg({"age": "count"}, epsilon=1)["age_count"]
    )


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (pd.DataFrame, pd.DataFrame),
        (pl.DataFrame, pl.DataFrame),
        (pl.LazyFrame, pl.DataFrame),
        (pa.table, pa.Table),
    ],
)
def test_the_frame_is_of_the_callers_library(make, kind, protect):
    """A row for each statistic of each group, with its interval; a category has a column of its own."""
    view = protect(make({"x": [1.0, 2.0, None, 3.0], "g": ["a", "b", "a", "a"]}), bounds={"x": (0, 4)},
                   categories={"g": ["a", "b", "c"]})  # fmt: skip

    whole = view.agg({"x": "mean"}, top=("g", "top"), epsilon=10**4).to_frame()
    groups = view.group_by("g").agg({"x": ["mean", "missing"]}, epsilon=10**4).to_frame()

    assert isinstance(whole, kind)
    assert isinstance(groups, kind)
    names = list(whole.columns) if kind is not pa.Table else whole.column_names
    assert [
        *["name", "column", "statistic", "value", "category", "standard_error", "low", "high", "covers"]
    ] == names
    means, missing = (np.asarray(groups["value"])[at::2] for at in (0, 1))
    assert [2.0, 2.0] == pytest.approx(means[:2].tolist(), abs=0.01)
    assert 0 <= means[2] <= 4  # of nobody
    assert [1, 0, 0] == pytest.approx(missing.tolist(), abs=0.05)


def test_a_part_of_the_table(frame, protect):
    """Rows that a private column selects."""
    found = protect().where(sex="f").agg({"income": ["mean", "missing"], "region": "missing"}, epsilon=1000)

    part = frame[frame["sex"] == "f"]
    assert part["income"].mean() == pytest.approx(found["income_mean"], rel=1e-2)
    assert part["income"].isna().sum() == pytest.approx(found["income_missing"], abs=0.5)
    assert part["region"].isna().sum() == pytest.approx(found["region_missing"], abs=0.5)


def test_nothing_but_gaps_and_nobody(protect):
    """A column without a value, and a group without a row, are answered within what is possible."""
    view = protect(
        pd.DataFrame({"x": [np.nan] * 50, "g": ["a"] * 50}), bounds={"x": (0, 1)}, categories={"g": ["a", "b"]}
    )

    found = view.group_by("g").agg({"x": ["mean", "std", "median", "count"]}, epsilon=1)

    for key in "ab":
        assert all(0 <= found[key][f"x_{name}"] <= 1 for name in ("mean", "std", "median"))
        assert all(low <= high for low, high in zip(found[key].lows, found[key].highs, strict=True))


def test_one_release_with_the_noise_that_is_said(protect):
    """Sums share the cube: two coordinates of age and one of income, with its gaps and no number of rows."""
    found = protect().agg({"age": ["std"], "income": ["mean"]}, epsilon=1)

    beyond, noise = found.privacy.noise
    assert ("K-norm (cube)", 16) == (beyond.kind, pytest.approx(beyond.scale))
    assert ("K-norm (cube)", 32 / 15) == (noise.kind, pytest.approx(noise.scale))
    assert 1 == pytest.approx(beyond.epsilon + noise.epsilon)
    assert math.sqrt(7 * 8 / 3) * 32 / 15 * 60 / 4000 == pytest.approx(
        protect().agg({"age": ["mean", "std"], "income": ["mean", "std"]}, epsilon=1).standard_errors[0], rel=0.1
    )  # y and 2y²-1 of both, and gaps of each: six coordinates, for pandas cannot say that age has none


def test_how_the_budget_is_split():
    """So that errors are equal: noise of a sum in standard deviations, of a median's rank, of a category."""
    parts = split(2, 1, [], moments=True)

    assert 1 == sum(parts.values())
    assert 12 / (12 + 2.507 * 26.152) == pytest.approx(float(parts["sums"]), abs=1e-5)
    assert {"categories": 1} == split(0, 0, [type("K", (), {"categories": "abc"})], moments=False)
    assert {} == split(0, 0, [], moments=False)
    assert ["sums", "categories"] == [*split(1, 0, [type("K", (), {"categories": "abc"})], moments=False)]


@pytest.mark.statistical
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_intervals_cover(neighbors, frame, protect):
    """Of 40 releases at an epsilon of 2, 95 % intervals hold the table's own numbers."""
    view, known = protect(neighbors=neighbors), truth(frame)
    inside = dict.fromkeys(known, 0)
    with seeded_noise(2):
        every = [view.agg(ASKED, epsilon=2, fresh=True) for _ in range(40)]
    for found in every:
        for name, value in known.items():
            at = found.names.index(name)
            inside[name] += found.lows[at] - 1e-9 <= value <= found.highs[at] + 1e-9

    for name, count in inside.items():
        assert count >= 29, (name, count)  # six standard deviations below 38


REFUSED = {
    "nothing": ({}, {}, "needs at least one aggregation"),
    "no mapping": ("age", {}, "statistics by column, not a str"),
    "no column": ({"agee": "mean"}, {}, "no column 'agee'.*Did you mean 'age'"),
    "no statistic": ({"age": "maen"}, {}, "'maen' is no aggregation of 'age'.*Did you mean 'mean'"),
    "one person's": ({"age": "max"}, {}, 'one person\'s value.*"99%"'),
    "of another kind": ({"sex": "mean"}, {}, "column of categories, which has no 'mean'.*top"),
    "of no category": ({"age": "top"}, {}, "column of numbers, which has no 'top'"),
    "a quantile of categories": ({"sex": "median"}, {}, "has no 'median'"),
    "above 100": ({"age": "101%"}, {}, "'101%' is no aggregation"),
    "one twice": ({"age": ["mean", "mean"]}, {}, "Two aggregations are called 'age_mean'"),
    "one name": ({"age": "mean"}, {"age_mean": ("income", "mean")}, "Two aggregations are called 'age_mean'"),
    "no pair": ({}, {"x": ("mean",)}, 'x=\\(\'mean\',\\) is no aggregation.*x=\\("age", "mean"\\)'),
    "no such column by name": ({}, {"x": "mean"}, "There is no column 'x'"),
    "one name, by column": ({"age": "mean"}, {"age": ["std", "mean"]}, "Two aggregations are called 'age_mean'"),
    "a misspelt price": ({"age": "mean"}, {"epsilonn": 1}, "epsilonn=1 is no aggregation"),
    "a number": ({"age": 3}, {}, "3 is no aggregation of 'age'"),
    "a column of numbers": ({3: "mean"}, {}, "named by a string"),
    "a function": ({"age": np.mean}, {}, "A function is no aggregation.*Did you mean 'mean'"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("grouped", [False, True])
def test_refused_before_any_charge(case, grouped, protect):
    """What cannot be answered costs nothing, and the error says what to do."""
    aggregations, named, text = REFUSED[case]
    view = protect()
    asked = view.group_by("sex", "region") if grouped else view

    with pytest.raises(ArgumentError, match=text) as raised:
        asked.agg(aggregations, **named, epsilon=1)

    assert "Nothing was released or spent" in str(raised.value)
    assert not list(view.releases)


def test_expressions_are_refused(protect):
    """Those of Polars, by position or by name: what to write is said."""
    view = protect()

    with pytest.raises(ArgumentError, match=r'agg\(mean_age=\("age", "mean"\)\)'):
        view.agg(pl.col("age").mean(), epsilon=1)
    with pytest.raises(ArgumentError, match=r'high=\("age", "mean"\)'):
        view.agg(high=pl.col("age").quantile(0.9), epsilon=1)

    assert not list(view.releases)


def test_it_says_what_it_is(protect):
    """The text has every name, the number, its error and interval; and which are worthless."""
    found = protect().agg({"age": ["mean", "median"]}, share=("region", "top"), epsilon=0.001)

    text = repr(found)
    assert all(name in text for name in ("age_mean", "age_median", "share", "budget", "quantiles"))
    assert "Uninformative: too little data for this epsilon" in text
    with pytest.raises(ArgumentError, match="'age_std' is not among the aggregations"):
        found["age_std"]


def test_it_explains_itself(protect):
    """A plan has the measurements, and costs nothing."""
    view = protect()

    plan = view.group_by("sex").explain("agg", {"age": "mean", "income": "median"}, epsilon=1)

    assert 3 == len(plan.measurements)  # the rows beyond bounds are one
    assert not list(view.releases)


def test_what_was_measured_costs_nothing_again(protect):
    """Another statistic of the same sums, at the same price, is free."""
    view = protect()

    first = view.agg({"age": ["mean", "std"]}, epsilon=1)
    again = view.agg(spread=("age", "var"), middle=("age", "mean"), epsilon=1)

    assert 0 == again.privacy.epsilon
    assert first["age_mean"] == again["middle"]


def test_said_and_data_are_of_one_table():
    """The columns of the tests are those that are declared."""
    assert {*SAID["bounds"], *SAID["categories"]} == {*data()}
