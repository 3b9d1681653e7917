"""What people get wrong is refused before any charge, and what is only unusual is answered."""

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
EDGES = {  # no edges that rise
    "reversed": [5, 3, 0], "repeated": [0, 3, 3, 9], "no numbers": [0, math.nan, 9], "infinite": [0, math.inf],
    "none": [], "one": [3], "a rule": "auto", "a flag": True,
}  # fmt: skip
BOUNDLESS = {  # of a column without bounds
    **dict.fromkeys(("mean", "std", "sum", "median", "histogram"), ("n",)),
    "quantile": ("n", [0.5]),
    "describe": (["n"],),
    "corr": (["x", "n"],),
    "report": (["n"],),
    "agg": ({"n": "mean"},),
}
REFUSED = [
    *(
        (lambda v, q=q: v.quantile("x", q, epsilon=1), "is not a share of rows")
        for q in (1.01, [0.5, -0.01], [math.nan])
    ),
    (lambda v: v.quantile("x", [True], epsilon=1), "is not a share of rows"),
    (lambda v: v.quantile("x", "half", epsilon=1), "q"),
    (lambda v: v.quantile("x", [], epsilon=1), "q= is empty"),
    (lambda v: v.median("x", step=0.07, epsilon=1), "in steps of 0.07"),
    (lambda v: v.median("x", step=0.001, epsilon=1), "4,096 values"),
    (lambda v: v.median("x", nan_policy="raise", epsilon=1), "nan_policy='raise'"),
    (lambda v: v.histogram("x", 0, epsilon=1), "bins=0 is not a possible number of bins"),
    (lambda v: v.histogram("x", -3, epsilon=1), "is not a possible number of bins"),
    *((lambda v, edges=edges: v.histogram("x", edges, epsilon=1), "increasing edges") for edges in EDGES.values()),
    (lambda v: v.histogram("x", [100, 200], epsilon=1), "outside the bounds"),
    (lambda v: v.histogram("x", 10**9, epsilon=1), "1 to 65,536"),
    (lambda v: v.mean("y", epsilon=1), "no column 'y'"),
    (lambda v: v.mean("g", epsilon=1), "categorical"),
    (lambda v: v.mean("x", nan_policy="raise", epsilon=1), "nan_policy='raise'"),
    (lambda v: v.mean("x", covers="all", epsilon=1), "'table'"),
    (lambda v: v.mean("x", confidence=95, epsilon=1), "not between 0 and 1"),
    (lambda v: v.std("x", confidence=1, epsilon=1), "confidence"),
    (lambda v: v.where({"g": ["q"]}).count(epsilon=1), "not a category"),
    (lambda v: v.value_counts("x", epsilon=1), "no categories"),
    (lambda v: v.crosstab("g", "x", epsilon=1), "no categories"),
    (lambda v: v.crosstab("g", "g", epsilon=1), "a column twice"),
    (lambda v: v.crosstab("g", "h", normalize="rows", epsilon=1), "unknown"),
    (lambda v: v.describe(["x", "x"], epsilon=1), "Name every column once"),
    (lambda v: v.describe([], epsilon=1), "at least one column"),
    (lambda v: v.report(["x", "x"], epsilon=1), "each once"),
    (lambda v: v.select("n").describe(epsilon=1), "No column has bounds"),
    (lambda v: v.select("n").report(epsilon=1), "bounds"),
    *((lambda v, n=n, a=a: getattr(v, n)(*a, epsilon=1), "find_bounds") for n, a in BOUNDLESS.items()),
    (lambda v: v["n"].mean(epsilon=1), "find_bounds"),
    (lambda v: v.nunique("n", epsilon=1), "bounds= for a column of numbers"),
    (lambda v: v.nunique("n", epsilon=1), "Declare categories={'n'"),
    (lambda v: v.group_by([]).count(epsilon=1), "no column"),
    (lambda v: v.describe("x", focus="categories", epsilon=1), "does not apply to any described column"),
    (lambda v: v.value_counts("g", categories="discover", epsilon=1, delta=1e-6), "the budget has no delta"),
    (lambda v: v.profile(epsilon=1, delta=1e-6), "protect(..., epsilon=1,"),
]


def test_refused_before_any_charge(protect):
    """All of them say what to do, and nothing was charged."""
    view = protect(pd.DataFrame(TABLE), **SAID)

    for at, (ask, text) in enumerate(REFUSED):
        with pytest.raises((ArgumentError, SchemaError)) as raised:
            ask(view)
        assert text in str(raised.value), at
        assert "Nothing was released or spent" in str(raised.value), at

    assert not list(view.releases)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda v: v["x"].max, "one person's value"),
        (lambda v: v["x"].null_count, "It is called missing"),
        (lambda v: v.head, "Rows are never shown"),
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
    asked = {"x": ["count", "missing", "std"], "g": ["count", "freq"]}

    with seeded_noise(3):
        for _ in range(8):
            described = view.describe(epsilon=0.05, fresh=True)
            several = view.agg(asked, epsilon=0.05, fresh=True)
            rows = [getattr(view, name)("x", epsilon=0.05, fresh=True) for name in ("missing", "count")]
            (count, missing, mean, std, *quartiles, _, _), (labels, _, *_, freq) = described.values  # noqa: PD011
            assert count + missing == pytest.approx(40)
            assert 0 <= count <= 40
            assert 0 <= freq <= labels <= 40 + 1e-9
            assert 0 <= mean <= 10
            assert 0 <= std
            assert quartiles == sorted(quartiles)
            assert all(0 <= several[name] <= 40 for name in ("x_count", "x_missing", "g_count", "g_freq"))
            for each in (*rows, view.nunique("g", epsilon=0.05, fresh=True)):
                most = 2 if each.statistic == "nunique" else 40
                assert each.low <= float(each) <= each.high
                assert each.low < each.high
                assert each.raw is None or not 0 <= each.raw <= most
                assert 0 <= float(each) <= most
                assert each.raw is None or min(max(each.raw, 0), most) == float(each)

    assert "`unbiased` holds the noisy value" in repr(described)
    assert described.raw != described.values  # noqa: PD011


def test_nothing_but_missing_values(protect):
    """Every method answers, within the bounds, and does not pretend to know."""
    frame = pd.DataFrame({"x": [math.nan] * 60, "g": ["z"] * 60})
    view = protect(frame, bounds={"x": (0, 10)}, categories={"g": ["a", "b"]})

    mean, std, median = (float(getattr(view, name)("x", epsilon=1)) for name in ("mean", "std", "median"))
    noted = [bool(view.mean("x", epsilon=1, fresh=True).notes) for _ in range(8)]

    assert 0 <= mean <= 10
    assert sum(noted) >= 4  # one of 140 has noise for rows
    assert 0 <= std <= 10.5
    assert 0 <= median <= 10
    assert all(0 <= value <= 10 for value in view.quantile("x", [0.25, 0.75], epsilon=1).values)  # noqa: PD011
    assert 60 == pytest.approx(float(view.missing("x", epsilon=100)), abs=4)
    assert 0 == pytest.approx(float(view.sum("x", epsilon=100)), abs=4)
    assert 0 == pytest.approx(view.histogram("x", 4, epsilon=100).total, abs=4)
    assert 0 == pytest.approx(view.value_counts("g", epsilon=100).total, abs=4)
    described = view.describe(epsilon=1)
    assert {"count", "mean", "top"} <= set(described.statistics)
    assert 0 <= described.loc["mean", "x"] <= 10


def test_integers_that_floats_do_not_hold(constructor, protect):
    """Beyond 2^53 they are rounded as floats round them, and the answers are those of the rounded ones."""
    whole = [2**53 + 1, 2**60, -5, 2**63 - 1] * 300
    view = protect(constructor({"x": whole}), bounds={"x": (0, 2**61)}, categories={})
    truth = np.clip(np.array(whole, dtype=float), 0, 2.0**61)

    for name, exact in (("mean", truth.mean()), ("std", truth.std(ddof=1)), ("sum", truth.sum())):
        assert exact == pytest.approx(float(getattr(view, name)("x", epsilon=1000)), rel=1e-3)
    assert [600, 0, 300, 300] == pytest.approx(view.histogram("x", 4, epsilon=1000).counts, abs=0.5)
    assert 2.0**52 == pytest.approx(float(view.quantile("x", 0.4, epsilon=1000)), abs=2.0**53)


FAR = [
    ((1e16, 1e16 + 4), {"median": ("x",), "quantile": ("x", [0.5]), "histogram": ("x", 50), "describe": (["x"],)}),
    ((-1e300, 1e300), {"var": ("x",), "ttest": ("x",)}),
]


@pytest.mark.parametrize(("bounds", "not_there"), FAR, ids=["few floats", "huge"])
def test_bounds_at_the_end_of_what_floats_hold(bounds, not_there, protect):
    """What cannot be answered within them is refused before any charge, and the rest is answered."""
    view = protect(pd.DataFrame({"x": [*bounds] * 30}), bounds={"x": bounds}, categories={})

    for name, asked in not_there.items():
        with pytest.raises(ArgumentError, match="Nothing was released or spent"):
            getattr(view, name)(*asked, epsilon=100)
    assert not list(view.releases)
    for name in ("mean", "std"):
        assert math.isfinite(float(getattr(view, name)("x", epsilon=100)))
