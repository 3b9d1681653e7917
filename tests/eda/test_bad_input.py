"""What people get wrong is refused before any charge, in every library, and what is only unusual is answered."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dfprivacy.errors import ArgumentError, SchemaError
from dfprivacy.testing import seeded_noise

SAID = {"bounds": {"x": (0, 10)}, "categories": {"g": ["a", "b"], "h": ["u", "v"]}}
TABLE = {"x": [1.0, 4.0, None, 9.0] * 5, "g": ["a", "b", None, "z"] * 5, "h": ["u", "v"] * 10, "n": [1, 2] * 10}
REFUSED = {
    "a share above 1": (lambda v: v.quantile("x", 1.01, epsilon=1), "is not a share of rows"),
    "a share below 0": (lambda v: v.quantile("x", [0.5, -0.01], epsilon=1), "is not a share of rows"),
    "a share that is no number": (lambda v: v.quantile("x", [math.nan], epsilon=1), "is not a share of rows"),
    "a share that is a flag": (lambda v: v.quantile("x", [True], epsilon=1), "is not a share of rows"),
    "no bins": (lambda v: v.histogram("x", 0, epsilon=1), "is not a possible number of bins"),
    "fewer than no bins": (lambda v: v.histogram("x", -3, epsilon=1), "is not a possible number of bins"),
    "a flag for bins": (lambda v: v.histogram("x", True, epsilon=1), "rising edges"),
    "reversed edges": (lambda v: v.histogram("x", [5, 3, 0], epsilon=1), "rising edges"),
    "repeated edges": (lambda v: v.histogram("x", [0, 3, 3, 9], epsilon=1), "rising edges"),
    "edges that are no numbers": (lambda v: v.histogram("x", [0, math.nan, 9], epsilon=1), "rising edges"),
    "no such column": (lambda v: v.mean("y", epsilon=1), "no column 'y'"),
    "no such category": (lambda v: v.where({"g": ["q"]}).count(epsilon=1), "not a category"),
    "a number by category": (lambda v: v.value_counts("x", epsilon=1), "no categories"),
    "a crosstab of a number": (lambda v: v.crosstab("g", "x", epsilon=1), "no categories"),
    "a crosstab of one column": (lambda v: v.crosstab("g", "g", epsilon=1), "a column twice"),
    "the mean of categories": (lambda v: v.mean("g", epsilon=1), "categorical"),
    "columns twice": (lambda v: v.describe(["x", "x"], epsilon=1), "Name each once"),
    "no columns": (lambda v: v.describe([], epsilon=1), "at least one column"),
    "no bounds, mean": (lambda v: v.mean("n", epsilon=1), "find_bounds"),
    "no bounds, std": (lambda v: v.std("n", epsilon=1), "find_bounds"),
    "no bounds, sum": (lambda v: v.sum("n", epsilon=1), "find_bounds"),
    "no bounds, median": (lambda v: v.median("n", epsilon=1), "find_bounds"),
    "no bounds, quantiles": (lambda v: v.quantile("n", [0.5], epsilon=1), "find_bounds"),
    "no bounds, histogram": (lambda v: v.histogram("n", epsilon=1), "find_bounds"),
    "no bounds, describe": (lambda v: v.describe(["n"], epsilon=1), "find_bounds"),
    "no bounds, by column": (lambda v: v["n"].mean(epsilon=1), "find_bounds"),
    "no bounds, correlation": (lambda v: v.corr(["x", "n"], epsilon=1), "find_bounds"),
    "no bounds, aggregated": (lambda v: v.agg({"n": "mean"}, epsilon=1), "find_bounds"),
    "no bounds, report": (lambda v: v.report(["n"], epsilon=1), "find_bounds"),
    "nothing declared, nunique": (lambda v: v.nunique("n", epsilon=1), "bounds if they are numbers"),
    "no shares": (lambda v: v.quantile("x", [], epsilon=1), "names no quantile"),
    "no edges": (lambda v: v.histogram("x", [], epsilon=1), "rising edges"),
    "one edge": (lambda v: v.histogram("x", [3], epsilon=1), "rising edges"),
    "bins by a rule": (lambda v: v.histogram("x", "auto", epsilon=1), "rising edges"),
    "bins beyond the bounds": (lambda v: v.histogram("x", [100, 200], epsilon=1), "outside of the bounds"),
    "a thousand million bins": (lambda v: v.histogram("x", 10**9, epsilon=1), "1 to 65,536"),
    "one column correlated": (lambda v: v.corr(["x"], epsilon=1), "view.var"),
    "nothing aggregated": (lambda v: v.agg({}, epsilon=1), "needs at least one aggregation"),
    "an aggregation no column allows": (
        lambda v: v.agg({"x": "max"}, epsilon=1),
        "'max' is not an aggregation",
    ),
    "an aggregation of others": (lambda v: v.agg({"g": "mean"}, epsilon=1), "column of categories"),
    "one name twice": (
        lambda v: v.agg({"x": "mean"}, x_mean=("x", "std"), epsilon=1),
        "Two aggregations are called",
    ),
    "groups of nothing": (lambda v: v.group_by([]).count(epsilon=1), "no column"),
    "infinite epsilon": (lambda v: v.describe(epsilon=math.inf), "not a finite number"),
    "no number for epsilon": (lambda v: v.describe(epsilon=math.nan), "not a finite number"),
    "no epsilon": (lambda v: v.describe(epsilon=0), "above zero"),
    "a confidence in percent": (lambda v: v.mean("x", confidence=95, epsilon=1), "not between 0 and 1"),
    "values without a delta": (lambda v: v.value_counts("g", categories="discover", epsilon=1), "delta above zero"),
    "a delta that there is not": (
        lambda v: v.value_counts("g", categories="discover", epsilon=1, delta=1e-6),
        "the budget has no delta",
    ),
    "a profile for a delta that there is not": (
        lambda v: v.profile(epsilon=1, delta=1e-6),
        "protect(..., epsilon=1,",
    ),
    "a focus on nothing": (
        lambda v: v.describe("x", focus="categories", epsilon=1),
        "does not apply to any described column",
    ),
    "nobody's to know": (lambda v: v.median("x", nan_policy="raise", epsilon=1), "nan_policy='raise'"),
}


def test_refused_before_any_charge(constructor, protect):
    """Every library's table refuses all of them, says what to do, and nothing was charged."""
    view = protect(constructor(TABLE), **SAID)

    for name, (ask, text) in REFUSED.items():
        with pytest.raises((ArgumentError, SchemaError)) as raised:
            ask(view)
        assert text in str(raised.value), name
        assert "Nothing was released or spent" in str(raised.value), name

    assert not list(view.releases)


def test_a_category_that_is_not_there(constructor, protect):
    """It is asked of a release that was paid, and costs nothing more; the error has those that are."""
    view = protect(constructor(TABLE), **SAID)
    found = view.value_counts("g", epsilon=1)

    with pytest.raises(ArgumentError, match="is not a category of 'g'"):
        found["z"]

    assert 1 == len(list(view.releases))


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda v: v["x"].max, "one person's value"),
        (lambda v: v["x"].null_count, "It is called missing"),
        (lambda v: v.head, "Rows are shown to nobody"),
        (lambda v: v.columns, "list\\(view\\)"),
        (lambda v: v.shape, "view.schema.size"),
    ],
)
def test_what_dataframes_have_and_a_view_does_not(ask, said, protect):
    """The error names what to ask for in its place."""
    with pytest.raises(AttributeError, match=said):
        ask(protect(pd.DataFrame(TABLE), **SAID))


def test_what_cannot_be_is_not_shown(protect):
    """Numbers of rows are between none and all, in every answer, with the unbiased ones beside them."""
    frame = pd.DataFrame({"x": [5.0] * 40, "g": ["a"] * 40})
    view = protect(frame, bounds={"x": (0, 10)}, categories={"g": ["a", "b"]})

    with seeded_noise(3):
        for _ in range(10):
            described = view.describe(epsilon=0.05, fresh=True)
            several = view.agg({"x": ["count", "missing", "std"], "g": ["count", "freq"]}, epsilon=0.05, fresh=True)
            rows = [view.missing("x", epsilon=0.05, fresh=True), view.count("x", epsilon=0.05, fresh=True)]
            (count, missing, mean, std, *quartiles, _, _), (labels, _, *_, freq) = described.values  # noqa: PD011
            assert count + missing == pytest.approx(40)
            assert 0 <= count <= 40
            assert 0 <= freq <= labels <= 40 + 1e-9
            assert 0 <= mean <= 10
            assert 0 <= std
            assert quartiles == sorted(quartiles)
            assert all(0 <= several[name] <= 40 for name in ("x_count", "x_missing", "g_count", "g_freq"))
            for each in (*rows, view.nunique("g", epsilon=0.05, fresh=True)):
                assert each.low <= float(each) <= each.high
                assert each.low < each.high
                most = 2 if each.statistic == "nunique" else 40
                assert each.raw is None or not 0 <= each.raw <= most
                assert 0 <= float(each) <= most
                assert each.raw is None or min(max(each.raw, 0), most) == float(each)

    assert "`unbiased` holds the noisy value" in repr(described)
    assert described.raw != described.values  # noqa: PD011


def test_thousands_of_categories_say_what_they_cost(protect):
    """They share one noise, of which the answer says how much there is in each count."""
    codes = [f"c{at}" for at in range(8000)]
    view = protect(pd.DataFrame({"code": ["c7"] * 2000}), bounds={}, categories={"code": codes})

    found = view.value_counts("code", epsilon=1)

    error = math.sqrt(2) / (2 * math.sinh(1 / 4))  # of noise of scale 2 on whole rows
    assert f"{error:.4g} rows in each count" in repr(found)
    assert found.noise_standard_error == pytest.approx(error, rel=1e-12)
    assert 2000 == pytest.approx(found.raw[0], abs=100)
    assert found.total <= 2000


def test_nothing_but_missing_values(constructor, protect):
    """Every method answers, within the bounds, and does not pretend to know."""
    frame = constructor({"x": [math.nan] * 60, "g": ["z"] * 60})
    view = protect(frame, bounds={"x": (0, 10)}, categories={"g": ["a", "b"]})

    mean, std, median = (getattr(view, name)("x", epsilon=1) for name in ("mean", "std", "median"))
    quartiles = view.quantile("x", [0.25, 0.75], epsilon=1)
    described = view.describe(epsilon=1)
    noted = [bool(view.mean("x", epsilon=1, fresh=True).notes) for _ in range(8)]

    assert 0 <= float(mean) <= 10
    assert sum(noted) >= 4  # one of 140 has noise for rows
    assert 0 <= float(std) <= 10.5
    assert 0 <= float(median) <= 10
    assert all(0 <= value <= 10 for value in quartiles.values)  # noqa: PD011 - no frame
    assert 60 == pytest.approx(float(view.missing("x", epsilon=100)), abs=4)
    assert 0 == pytest.approx(float(view.sum("x", epsilon=100)), abs=4)
    assert 0 == pytest.approx(view.histogram("x", 4, epsilon=100).total, abs=4)
    assert 0 == pytest.approx(view.value_counts("g", epsilon=100).total, abs=4)
    assert {"count", "mean", "top"} <= set(described.statistics)


def test_integers_that_floats_do_not_hold(constructor, protect):
    """Beyond 2^53 they are rounded as floats round them, and the answers are those of the rounded ones."""
    whole = [2**53 + 1, 2**60, -5, 2**63 - 1] * 300
    view = protect(constructor({"x": whole}), bounds={"x": (0, 2**61)}, categories={})
    truth = np.clip(np.array(whole, dtype=float), 0, 2.0**61)

    assert truth.mean() == pytest.approx(float(view.mean("x", epsilon=1000)), rel=1e-3)
    assert truth.std(ddof=1) == pytest.approx(float(view.std("x", epsilon=1000)), rel=1e-3)
    assert truth.sum() == pytest.approx(float(view.sum("x", epsilon=1000)), rel=1e-3)
    assert [600, 0, 300, 300] == pytest.approx(view.histogram("x", 4, epsilon=1000).counts, abs=0.5)
    assert 2.0**52 == pytest.approx(float(view.quantile("x", 0.4, epsilon=1000)), abs=2.0**53)


FAR = {"few floats": (1e16, 1e16 + 4), "huge": (-1e300, 1e300)}
NOT_THERE = {
    "few floats": {"median": {}, "quantile": {"q": [0.5]}, "histogram": {"bins": 50}, "describe": {}},
    "huge": {"var": {}},
}


@pytest.mark.parametrize("case", FAR)
def test_bounds_at_the_end_of_what_floats_hold(case, protect):
    """What cannot be answered within them is refused before any charge, and the rest is answered."""
    low, high = FAR[case]
    view = protect(pd.DataFrame({"x": [low, high] * 30}), bounds={"x": FAR[case]}, categories={})

    for name, said in NOT_THERE[case].items():
        asked = {"columns": ["x"]} if name == "describe" else {"column": "x"}
        with pytest.raises(ArgumentError, match="Nothing was released or spent"):
            getattr(view, name)(**asked, **said, epsilon=100)
    assert not list(view.releases)
    for name in ("mean", "std"):
        assert math.isfinite(float(getattr(view, name)("x", epsilon=100)))
