"""Calls by group read the data once, and every group's integers are those of a pass of its own."""

# ruff: noqa: PD011, SIM300 - no pandas here; expected == actual

from __future__ import annotations

import itertools
import json
import math
from contextlib import contextmanager

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy._measure.evaluate import Table
from dfprivacy._measure.price import RowRequest
from dfprivacy._measure.steps import GroupRunner
from dfprivacy._plugins.loader import register_mechanism, unregister
from dfprivacy._table import conditions as rows
from dfprivacy._table.conditions import Between, IsIn, Satisfies
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy.errors import ArgumentError, PluginError, SchemaError
from dfprivacy.features import (
    Beyond,
    Bins,
    Count,
    Fourier,
    Given,
    Kernel,
    Moments,
    Nystrom,
    OneHot,
    Outer,
    ProductKernel,
    RowFeatures,
    Stack,
    gaussian_frequencies,
    spread,
)
from dfprivacy.features.base import enforce_bounds, integers
from dfprivacy.release import Release
from dfprivacy.statistics import OfSums, Statistic
from dfprivacy.testing import seeded_noise

K = 24
ROWS = 400
BOUNDS = {"x": (-1.0, 3.0), "y": (0.0, 7.0)}
CATEGORIES = {"g": ["a", "b", "never", "c"], "h": [0, 1], "i": [True, False]}

rng = np.random.default_rng(20_260_101)
DATA = {
    "x": np.where(rng.random(ROWS) < 0.1, np.nan, rng.normal(1, 2, ROWS)).tolist(),
    "y": rng.uniform(-1, 8, ROWS).tolist(),
    "g": rng.choice(["a", "b", "c", "undeclared", None], ROWS).tolist(),
    "h": rng.choice([0.0, 1.0, 2.0, math.nan], ROWS).tolist(),
    "i": rng.choice([True, False], ROWS).tolist(),
}
ENGINES = {
    "pandas": pd.DataFrame, "polars": lambda data: pl.DataFrame(data, strict=False),
    "lazy": lambda data: pl.LazyFrame(data, strict=False), "arrow": pa.table,
}  # fmt: skip
KEYS = [("g",), ("h",), ("i", "g", "h")]
CONDITIONS = {
    "all": lambda _: (),
    "between": lambda c: (Between(c["x"], 0.0, 2.0),),
    "within the groups": lambda c: (IsIn(c["g"], ("a", "never")),),
    "a function": lambda c: (Satisfies((c["x"], c["h"]), lambda row: row["x"] > 0 and row["h"] == 1),),
    "none": lambda c: (Between(c["y"], 9.0, 10.0),),
}


class Wave(RowFeatures):
    """What somebody else might write, with a radius that is too small."""

    shape = (2,)

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        y = batch.standardized(self.columns[0])
        return np.column_stack([np.sin(40 * y), np.where(y > 0.3, np.inf, 2 * y)])

    def radius(self, norm):
        return 1.5 / norm


def kernel(c):
    return ProductKernel((c["x"], c["y"]), {"x": 1.0, "y": 2.0})


FEATURES = {
    "count": lambda _: Count(),
    "mean": lambda c: Moments(c["x"], degree=1),
    "moments": lambda c: Moments(c["x"], count=True),
    "limited": lambda c: Stack(Moments(c["x"]), Beyond(c["x"], weight=1 / 16)),
    "categories": lambda c: OneHot(c["h"]),
    "by itself": lambda c: OneHot(c["g"], groups=["c", "a"]) * Moments(c["y"]),
    "cube": lambda c: Outer((c["x"], c["y"]), count=True),
    "ball": lambda c: OneHot(c["i"]) * Outer((c["x"], c["y"]), radius=0.9),
    "crosstabs": lambda c: (
        OneHot(c["g"], groups=["b", "a"])
        * Stack(OneHot(c["h"], groups=[1]), OneHot(c["i"], groups=[True]), OneHot(c["i"], groups=[False]))
    ),
    "kernel": lambda c: Kernel(kernel(c), spread((c["x"], c["y"]), 7)),
    "nystrom": lambda c: Nystrom(kernel(c), spread((c["x"], c["y"]), 7)),
    "fourier": lambda c: Fourier((c["x"], c["y"]), gaussian_frequencies([1.0, 2.0], 5)),
    "wave": lambda c: Wave(c["x"]),
}


def table(frame, conditions="all", **said):
    schema = read_schema(
        adapt(frame),
        **{"bounds": BOUNDS, "categories": CATEGORIES, "public": (), "missing": {"x": 0.5}, **said},
        neighbors="replace_one",
    )
    return Table(adapt(frame), schema, CONDITIONS[conditions](schema.columns))


@contextmanager
def passes():
    """Count the passes of the data."""
    counted, read = [], Table._pass_rows_here
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "_pass_rows_here", lambda self, *about: (counted.append(self), read(self, *about))[1])
        yield counted


def in_step(whole, keys, measurands, k=K):
    """Exact values that groups ask at once, and of each by itself."""
    parts, steps = whole.groups(tuple(whole.schema.columns[name] for name in keys)), GroupRunner(None, whole=whole)
    asked = [
        RowRequest(table=part, query=steps.copied_query(each), k=k)
        for part, each in zip(parts, measurands, strict=False)
    ]
    with passes() as counted:
        found = [integers(each) for each in steps._exact_values(asked)]
    own = [integers(each.table.value(each.query, each.k)) for each in asked]
    return own, found, counted


def both(whole, keys, made):
    """Sums of all groups from one pass, and each from a pass of its own."""
    features = made(whole.schema.columns)
    own, found, counted = in_step(whole, keys, itertools.repeat(features))
    assert [whole] == counted
    return own, found


# The same integers


@pytest.mark.parametrize("keys", KEYS, ids=" and ".join)
@pytest.mark.parametrize("feature", FEATURES)
def test_one_pass_has_the_sums_of_a_pass_for_each(feature, keys):
    """Whatever is summed, by one key or several, rows without a category and groups without rows included."""
    own, found = both(table(pd.DataFrame(DATA)), keys, FEATURES[feature])

    assert own == found
    assert any(any(total) for total in found)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("engine", "conditions"),
    [(name, each) for at, each in enumerate(CONDITIONS) for name in [*ENGINES][at % 2 :: 2]],
)
def test_one_pass_is_that_of_the_selected_rows(engine, conditions, monkeypatch):
    """Of every engine, in many batches, of which the last is shorter, and under every kind of condition."""
    monkeypatch.setattr(rows, "BATCH_ROWS", 7)
    frame = ENGINES[engine]({name: values[:60] for name, values in DATA.items()})

    for name in ("moments", "ball", "crosstabs", "nystrom", "wave"):
        own, found = both(table(frame, conditions), ("g", "h"), FEATURES[name])

        assert own == found, name


class Moved(OfSums):
    """The sum of y and a number that each group has of its own."""

    shape = (1,)

    def __init__(self, column, by):
        self.features, self.columns, self.by = Moments(column, degree=1), (column,), by

    def value(self, sums):
        return sums + self.by

    def sensitivity(self, relation, norm, public):
        return 2.0


@pytest.mark.parametrize("keys", KEYS, ids=" and ".join)
def test_groups_that_ask_otherwise_share_a_pass(keys, monkeypatch):
    """Features and statistics that a group chose for itself; what would fill the memory is read group by group."""
    whole = table(pd.DataFrame(DATA))
    x = whole.schema.columns["x"]
    of = [FEATURES[name](whole.schema.columns) for name in ("moments", "ball", "nystrom", "wave", "crosstabs")]
    for asked in (itertools.cycle(of), (Moved(x, by) for by in itertools.count())):
        own, found, counted = in_step(whole, keys, asked)
        assert own == found
        assert [whole] == counted

    monkeypatch.setattr("dfprivacy._measure.steps._TOGETHER", 3)
    *_, counted = in_step(whole, keys, itertools.repeat(Moments(x)))
    assert math.prod(len(CATEGORIES[name]) for name in keys) == len(counted)


# Of calls


@dp.mechanism(columns={"column": "numeric"})
def averaged(curator, column):
    "The number of rows and the mean, and then the square."
    KEPT.append(curator)
    half = curator.sum(Moments(column, degree=1, count=True), share="1/2").values
    return [*half, *curator.sum(Moments(column, count=True)).values, curator.size]


KEPT = []


@pytest.fixture(autouse=True)
def mechanisms():
    register_mechanism(averaged)
    yield
    KEPT.clear()
    unregister("averaged")


def protect(data=DATA, engine=pd.DataFrame, name="clinic", **terms):
    given = {"epsilon": 100, "bounds": BOUNDS, "categories": CATEGORIES, **terms}
    return dp.protect(engine(data), name, **given)


@pytest.mark.parametrize("keys", [("g",), ("g", "h")], ids=" and ".join)
@pytest.mark.parametrize(
    "terms", [{"neighbors": "add_remove"}, {}, {"public": ["g"]}, {"public": ["g", "h"]}], ids=str
)
def test_a_call_by_group_reads_once_for_each_measurement(keys, terms):
    """Two measurements of all groups are two passes; public sizes are one more, before and after the charge."""
    view = protect(**terms).group_by(*keys)
    known = set(keys) <= set(terms.get("public", ()))

    with passes() as counted:
        answers = view.averaged("x", epsilon=1)

    assert 2 + 2 * known == len(counted)
    assert len(answers.groups) == len(answers.releases)


# Several keys


def test_several_keys_are_all_their_combinations():
    """In order, whether or not a row has them, at the price of one; JSON, frames and the ledger know them again."""
    data = {"x": [0.0, 1.0, 2.0, 3.0] * 50, "y": [0.0] * 200, "g": ["a", "b"] * 100, "h": [0, 0, 1, 1] * 50}
    view = protect(data, categories={"g": ["b", "a"], "h": [1, 0, 2]}, epsilon=10**5)

    answers = view.group_by("g", "h").averaged("x", epsilon=10**4)
    again = view.group_by("g", "h").averaged("x", epsilon=10**4)
    frame = answers.to_frame("polars")

    assert tuple(itertools.product(["b", "a"], [1, 0, 2])) == answers.groups
    assert [50, 50, 0, 50, 50, 0] == [round(sum(release.value[:2])) for release in answers.releases]
    assert 25 == pytest.approx(answers["b", 0].value[0], abs=0.1)
    assert answers == again == Release.from_dict(json.loads(json.dumps(answers.to_dict())))
    assert (again.privacy.replayed, ("g", "h"), 10**4) == (True, again.by, view.budget.spent)
    assert [5000] * 12 == [noise.epsilon for noise in answers.privacy.noise]
    assert list(answers.groups) == list(dict.fromkeys(zip(frame["g"], frame["h"], strict=True)))
    assert "  a, 2  " in repr(answers)
    for other in (("h", "g"), ("g",)):
        assert not view.group_by(*other).averaged("x", epsilon=1).privacy.replayed
    with pytest.raises(ArgumentError, match="no group with this key"):
        answers["b"]
    for keys, said in ((("g", "h", "g"), "twice"), (("g", "x"), "'x' has no categories")):
        with pytest.raises(SchemaError, match=said):
            view.group_by(*keys)


@pytest.mark.parametrize(("public", "keys", "expected"), [
    ((), ("g", "h"), 3), (("g",), ("g", "h"), 3), (("h",), ("g", "h"), 3), (("g", "h"), ("g", "h"), 8 / 3),
    (("g",), ("g",), 8 / 3),
], ids=str)  # fmt: skip
def test_a_private_key_lets_a_row_leave_its_cell(public, keys, expected):
    """The sensitivity is twice the radius, 3/2, unless every key is public: then it is the diameter, 8/3."""
    view = protect(public=public)

    _, squares = view.group_by(*keys).explain("averaged", "x", epsilon=1).measurements

    assert expected == pytest.approx(squares.sensitivity, rel=1e-6)


class Remembering(Statistic):
    """A statistic that keeps what it sees, and says that rows move it by as much."""

    shape = ()

    def __init__(self, column):
        self.columns, self.seen = (column,), [1.0]

    def value(self, rows):
        self.seen.append(float(rows.values(self.columns[0]).max(initial=0)))
        return 0.0

    def sensitivity(self, relation, norm, public):
        return max(self.seen)

    def describe(self):
        return "nothing"


@pytest.mark.parametrize("keys", [(), ("g",)], ids=str)
def test_what_is_priced_has_seen_no_row(keys):
    """A statistic that keeps what it sees has the price of one that has seen nothing, also when asked again."""
    scales, seen = [], []

    @dp.mechanism(columns={"column": "numeric"})
    def again(curator, column):
        "The same twice."
        statistic = Remembering(column)
        scales.append([float(curator.measure(statistic, share=share).scales) for share in ("1/4", "3/4")])
        seen.append(statistic.seen)

    register_mechanism(again)
    try:
        view = protect({"x": [3.0], "y": [0.0], "g": ["a"], "h": [0]}, categories={"g": ["a", "b"]})
        (view.group_by(*keys) if keys else view).again("x", epsilon=1)
    finally:
        unregister("again")

    assert [[1.0]] * len(seen) == seen
    assert [3.0] * len(scales) == pytest.approx([first / last for first, last in scales], rel=1e-3)


def test_a_group_cannot_ask_for_another():
    """Two measurements of the rows of one group are not one for two groups, at the price of one."""
    curators = []

    @dp.mechanism(columns={"column": "numeric"})
    def other(curator, column):
        "Whatever the first group has."
        curators.append(curator)
        return curators[0].sum(Moments(column, count=True), share="1/8").values.tolist()

    register_mechanism(other)
    view = protect()
    try:
        with pytest.raises(PluginError, match="its own"):
            view.group_by("g").other("x", epsilon=1)
    finally:
        unregister("other")

    assert 0 == view.budget.spent


@pytest.mark.one_in(2)
@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("k", [0, K, 60, -3])
def test_many_cells_are_counted_as_few_are(where, missing, k, monkeypatch):
    """With more coordinates than rows in a batch the integers are the same."""
    whole = table(pd.DataFrame(DATA), where)
    x, by, other = (whole.schema.columns[name] for name in "xgh")
    of = Bins(x, np.linspace(-1, 3, 65), widths=(16, 1), weights=(2, 1), missing=missing)
    every = [of, Stack(of), Given(x, of=of), OneHot(by, of=of), OneHot(by, other, of=Given(x, of=of))]

    few = [whole.total(each, k) for each in every]
    monkeypatch.setattr(rows, "BATCH_ROWS", 16)
    many = [whole.total(each, k) for each in every]

    assert few == many


@dp.mechanism(columns={"column": "numeric"})
def twice(curator, column):
    "The same sum with the same noise, twice."
    found = [curator.sum(Moments(column, degree=1, count=True), share="1/2").values for _ in range(2)]
    return np.concatenate(found).tolist()


def test_noise_of_all_groups_is_their_own():
    """Every group has other noise, and what is asked again has another."""
    register_mechanism(twice)
    view = protect({**DATA, "x": [1.0] * ROWS, "g": ["undeclared"] * ROWS})

    try:
        with seeded_noise(1):
            answers = view.group_by("g").twice("x", epsilon=1)
    finally:
        unregister("twice")

    assert 16 == len({value for release in answers.releases for value in release.value})


def test_features_are_copied():
    """What is summed is what was claimed first; what cannot be copied is refused."""
    schema = table(pd.DataFrame(DATA)).schema
    x, y = schema.columns["x"], schema.columns["y"]
    features, steps = Moments(x, degree=1), GroupRunner(None, whole=table(pd.DataFrame(DATA)))
    first, same = steps.copied_query(features), steps.copied_query(Moments(x, degree=1))
    vars(features)["columns"] = (y,)
    assert same is first
    assert (x, x, y) == (first.of.columns[0], first.columns[0], steps.copied_query(features).of.columns[0])
    wave = Wave(x)
    wave.held = (each for each in ())
    with pytest.raises(PluginError, match="cannot be copied"):
        GroupRunner(None).copied_query(enforce_bounds(wave))
