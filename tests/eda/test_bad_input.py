"""What people get wrong is refused before any charge, and what is only unusual is answered."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp
from dfprivacy.errors import ArgumentError, SchemaError
from dfprivacy.testing import seeded_noise

SAID = {"bounds": {"x": (0, 10)}, "categories": {"g": ["a", "b"], "h": ["u", "v"]}}
TABLE = {"x": [1.0, 4.0, None, 9.0] * 5, "g": ["a", "b", None, "z"] * 5, "h": ["u", "v"] * 10, "n": [1, 2] * 10}
ICD, DISCOVER = "[A-Z][0-9]{2}", {"categories": "discover"}
EDGES = [[5, 3, 0], [0, 3, 3, 9], [0, math.nan, 9], [0, math.inf], [], [3], "auto", True]  # none that rise
BOUNDLESS = {  # of a column without bounds
    **dict.fromkeys(("mean", "std", "sum", "median", "histogram"), ("n",)),
    "quantile": ("n", [0.5]),
    "describe": (["n"],),
    "corr": (["x", "n"],),
    "report": (["n"],),
    "agg": ({"n": "mean"},),
}
REFUSED = [  # a method, its arguments, and words of the error
    *(("quantile", ("x", q), "is not a share of rows") for q in (1.01, [0.5, -0.01], [math.nan], [True])),
    ("quantile", ("x", "half"), "q"),
    ("quantile", ("x", []), "q= is empty"),
    ("median", ("x", {"step": 0.07}), "in steps of 0.07"),
    ("median", ("x", {"step": 0.001}), "4,096 values"),
    *((name, ("x", {"nan_policy": "raise"}), "nan_policy='raise'") for name in ("median", "mean")),
    *(("histogram", ("x", bins), "is not a possible number of bins") for bins in (0, -3)),
    *(("histogram", ("x", edges), "increasing edges") for edges in EDGES),
    ("histogram", ("x", [100, 200]), "outside the bounds"),
    ("histogram", ("x", 10**9), "1 to 65,536"),
    ("mean", ("y",), "no column 'y'"),
    ("mean", ("g",), "categorical"),
    ("mean", ("x", {"covers": "all"}), "'table'"),
    ("mean", ("x", {"confidence": 95}), "not between 0 and 1"),
    ("std", ("x", {"confidence": 1}), "confidence"),
    ("value_counts", ("x",), "no categories"),
    ("crosstab", ("g", "x"), "no categories"),
    ("crosstab", ("g", "g"), "a column twice"),
    ("crosstab", ("g", "h", {"normalize": "rows"}), "unknown"),
    ("describe", (["x", "x"],), "Name every column once"),
    ("describe", ([],), "at least one column"),
    ("describe", ("x", {"focus": "categories"}), "does not apply to any described column"),
    ("report", (["x", "x"],), "each once"),
    *((name, asked, "find_bounds") for name, asked in BOUNDLESS.items()),
    ("nunique", ("n",), "bounds= for a column of numbers"),
    ("nunique", ("n",), "Declare categories={'n'"),
    ("corr", (["x"],), "view.var(column)"),
    ("corr", (["x", "x"],), "each once"),
    ("corr", ("x",), "takes a list of columns"),
    ("corr", (["x", "x2"], {"nan_policy": "raise"}), "nan_policy='raise'"),
    ("cov", (["x", "g"],), "categorical"),
    ("cov", (["x", "xx"],), "no column 'xx'"),
    # aggregations
    ("agg", ({},), "needs at least one aggregation"),
    ("agg", ("x",), "statistics by column, not a str"),
    ("agg", ({"xx": "mean"},), "no column 'xx'"),
    ("agg", ({"x": "maen"},), "Did you mean 'mean'"),
    ("agg", ({"x": "max"},), "value of a single row"),
    ("agg", ({"g": "mean"},), "'mean' is not a statistic of categories"),
    ("agg", ({"g": "median"},), "'median' is not a statistic of categories"),
    ("agg", ({"x": "top"},), "'top' is not a statistic of numbers"),
    ("agg", ({"x": "101%"},), "no statistic '101%'"),
    ("agg", ({"x": 3},), "no statistic 3, which was asked of column 'x'"),
    ("agg", ({3: "mean"},), "must be a name (str), not int"),
    ("agg", ({"x": np.mean},), "takes names of statistics"),
    ("agg", ({"x": ["mean", "mean"]},), "Two aggregations are called 'x_mean'"),
    ("agg", ({"x": "mean"}, {"x_mean": ("x2", "mean")}), "Two aggregations are called 'x_mean'"),
    ("agg", ({"x": "mean"}, {"x": ["std", "mean"]}), "Two aggregations are called 'x_mean'"),
    ("agg", ({}, {"a": ("mean",)}), "a=('mean',) is not a pair"),
    ("agg", ({}, {"a": "mean"}), "There is no column 'a'"),
    ("agg", ({"x": "mean"}, {"epsilonn": 1}), "epsilonn=1 is not a pair"),
    ("agg", (pl.col("x").mean(),), 'agg(mean_age=("age", "mean"))'),
    ("agg", ({}, {"high": pl.col("x").quantile(0.9)}), 'high=("age", "mean")'),
    # what is to be found
    ("find_categories", ([],), "at least one"),
    ("find_categories", (["g", "g"],), "each once"),
    ("find_categories", (["xx"],), "no column 'xx'"),
    ("find_categories", (["n"],), "delta above zero"),
    ("value_counts", ("n", DISCOVER), "delta above zero"),
    ("value_counts", ("n", {**DISCOVER, "delta": 1e-6}), "the budget has no delta"),
    ("value_counts", ("n", {**DISCOVER, "nan_policy": "fill"}), "nan_policy"),
    ("value_counts", ("n",), 'categories="discover"'),
    ("value_counts", ("n", {**DISCOVER, "domain": ICD}), "Omit one of the two arguments"),
    ("value_counts", ("n", {"domain": ICD, "nan_policy": "fill"}), "domain= always omits missing"),
    ("value_counts", ("n", {"domain": "[A-Z"}), "character 1"),
    ("value_counts", ("n", {"domain": []}), "at least one value"),
    ("value_counts", ("n", {"domain": ["J45", "J45"]}), "each value once"),
    ("value_counts", ("n", {"domain": r"\d{20}"}), "more than"),
    ("value_counts", ("n", {"domain": 5}), "not a list, a range"),
    ("profile", (), "delta above zero"),
    ("profile", ({"delta": 1e-6},), "protect(..., epsilon=1,"),
    ("profile", (["n", "n"],), "each once"),
    ("profile", ([],), "at least one"),
    ("profile", (["xx"],), "no column 'xx'"),
    ("find_bounds", ([],), "at least one"),
    ("find_bounds", (["n", "n"],), "each once"),
]
OF_VIEWS = [
    (lambda v: v.where({"g": ["q"]}).count(epsilon=1), "not a category"),
    (lambda v: v.select("n").describe(epsilon=1), "No column has bounds"),
    (lambda v: v.select("n").report(epsilon=1), "bounds"),
    (lambda v: v.select("g").corr(epsilon=1), "0 columns have bounds"),
    (lambda v: v["n"].mean(epsilon=1), "find_bounds"),
    (lambda v: v.group_by([]).count(epsilon=1), "no column"),
    (lambda v: dp.discover(delta=1e-6, domain=ICD), "without a delta"),
    (lambda v: v.declare(), "given nothing to declare"),
    (lambda v: v.declare(bounds={"q": (0, 1)}), "that the table lacks"),
    (lambda v: v.declare(bounds={"n": (2, 1)}), "equal or reversed"),
]


def ask(view, name, given):
    """Ask a method; dictionaries after the first argument are further ones by name."""
    args, more = [*given], {}
    while args and isinstance(args[-1], dict) and (len(args) > 1 or name == "profile"):
        more |= args.pop()
    return getattr(view, name)(*args, **{"epsilon": 1, **more})


def test_refused_before_any_charge(protect):
    """All of them say what to do, and nothing was charged; by group neither."""
    view = protect(pd.DataFrame({**TABLE, "x2": TABLE["x"]}), **SAID | {"bounds": {"x": (0, 10), "x2": (0, 10)}})
    calls = [(lambda v, name=name, given=given: ask(v, name, given), text) for name, given, text in REFUSED]
    calls += [
        (lambda v, given=given: ask(v.group_by("g", "h"), "agg", given), text)
        for name, given, text in REFUSED
        if name == "agg"
    ]

    for at, (call, text) in enumerate([*calls, *OF_VIEWS]):
        with pytest.raises((ArgumentError, SchemaError)) as raised:
            call(view)
        assert text in str(raised.value), at
        assert at >= len(calls) + 6 or "Nothing was released or spent" in str(raised.value), at

    assert not list(view.releases)
    with pytest.raises(ArgumentError, match="found bounds or categories"):
        view.declare(view.count(epsilon=1))
    with pytest.raises(ArgumentError, match="not below epsilon"):
        protect(epsilon=400, delta=1e-2).profile(epsilon=1e-3, delta=1e-2)


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


@seeded_noise(3)
def test_what_cannot_be_is_not_shown(protect):
    """Numbers of rows are between none and all, in every answer, with the unbiased ones beside them."""
    frame = pd.DataFrame({"x": [5.0] * 40, "g": ["a"] * 40})
    view = protect(frame, bounds={"x": (0, 10)}, categories={"g": ["a", "b"]})
    asked = {"x": ["count", "missing", "std"], "g": ["count", "freq"]}

    for _ in range(8):
        described = view.describe(epsilon=0.05, fresh=True)
        several = view.agg(asked, epsilon=0.05, fresh=True)
        (count, missing, mean, std, *quartiles, _, _), (labels, _, *_, freq) = described.values  # noqa: PD011
        assert count + missing == pytest.approx(40)
        assert 0 <= count <= 40
        assert 0 <= freq <= labels <= 40 + 1e-9
        assert 0 <= mean <= 10
        assert 0 <= std
        assert quartiles == sorted(quartiles)
        assert all(0 <= several[name] <= 40 for name in ("x_count", "x_missing", "g_count", "g_freq"))
        for name, column, most in (("missing", "x", 40), ("count", "x", 40), ("nunique", "g", 2)):
            each = getattr(view, name)(column, epsilon=0.05, fresh=True)
            assert 0 <= each.low <= float(each) <= each.high <= most
            assert each.low < each.high
            assert each.raw is None or not 0 <= each.raw <= most
            assert each.raw is None or min(max(each.raw, 0), most) == float(each)

    assert "`unbiased` holds the noisy value" in repr(described)
    assert described.raw != described.values  # noqa: PD011


def test_nothing_but_missing_values(protect):
    """Every method answers within the bounds, and says that it knows next to nothing."""
    view = protect(pd.DataFrame({"x": [math.nan] * 60}), bounds={"x": (-3, 5)}, categories={})
    cells, noted, means = ["count", "missing", "mean", "std"], 0, []

    for seed in range(20):
        with seeded_noise(seed):
            alone = view.mean("x", epsilon=1, fresh=True)
            described, several = view.describe(epsilon=1, fresh=True), view.agg({"x": cells}, epsilon=1, fresh=True)
        noted += bool(alone.notes)
        ends = [*zip(described.lows[0], described.highs[0], strict=True)]
        means += [ends[2:4], [*zip(several.lows, several.highs, strict=True)][2:]]
        assert (alone.low, alone.high) == (-3, 5)
        assert -3 <= float(alone) <= 5

    assert noted == 20
    assert sum(mean == (-3.0, 5.0) for mean, _ in means) >= 32
    assert sum(low == 0 and 4 <= high <= 4 * math.sqrt(2) for _, (low, high) in means) >= 32
    for q in ({"q": 0.5}, {"q": [0.25, 0.75]}):
        assert all(-3 <= value <= 5 for value in np.ravel(view.quantile("x", **q, epsilon=1).to_frame()["value"]))
    std = view.std("x", epsilon=1)
    assert 0 <= std.low <= float(std) <= std.high <= 4 * math.sqrt(2)
    assert 60 == pytest.approx(float(view.missing("x", epsilon=100)), abs=4)
    assert 0 == pytest.approx(float(view.sum("x", epsilon=100)), abs=4)
    assert 0 == pytest.approx(view.histogram("x", 4, epsilon=100).total, abs=4)


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
    assert all(math.isfinite(float(getattr(view, name)("x", epsilon=100))) for name in ("mean", "std"))


def test_integers_that_floats_do_not_hold(protect):
    """Beyond 2^53 they are rounded as floats round them, and the answers are those of the rounded ones."""
    whole = [2**53 + 1, 2**60, -5, 2**63 - 1] * 300
    view = protect(pd.DataFrame({"x": whole}), bounds={"x": (0, 2**61)}, categories={})
    truth = np.clip(np.array(whole, dtype=float), 0, 2.0**61)

    for name, exact in (("mean", truth.mean()), ("std", truth.std(ddof=1)), ("sum", truth.sum())):
        assert exact == pytest.approx(float(getattr(view, name)("x", epsilon=1000)), rel=1e-3)
    assert [600, 0, 300, 300] == pytest.approx(view.histogram("x", 4, epsilon=1000).counts, abs=0.5)
    assert 2.0**52 == pytest.approx(float(view.quantile("x", 0.4, epsilon=1000)), abs=2.0**53)
