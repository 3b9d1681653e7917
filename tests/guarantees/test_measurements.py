"""What was measured once is not paid twice, and is taken for nothing else; also where a part of it is shown."""

# ruff: noqa: PD011 - measurements have values, too
from __future__ import annotations

import dataclasses
import itertools
import math
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy._ledger.tables import MOST
from dfprivacy._measure.evaluate import Table
from dfprivacy._measure.kept_measurements import PackageOrigins, containing_features, describe_measurement
from dfprivacy._measure.query import Query
from dfprivacy._privacy.samplers import OpenDPSampler
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy.features import Bins, Count, Given, Kernel, Moments, OneHot, Outer, ProductKernel, RowFeatures, Stack
from dfprivacy.schema import Column, Schema
from dfprivacy.testing import seeded_noise
from dfprivacy_eda.tree import AdaptiveReveal

NAMES = (f"measured {i}" for i in itertools.count())
ROWS = pd.DataFrame(
    {
        "x": np.random.default_rng(1).normal(size=400),
        "y": np.random.default_rng(2).normal(size=400),
        "g": np.random.default_rng(3).choice(["a", "b", "c"], 400),
        "n": [1, 2] * 200,
    }
)
SAID = {
    "bounds": {"x": (-3, 3), "y": (-3, 3), "n": (0, 3)},
    "categories": {"g": ["a", "b", "c"], "n": [1, 2]},
}


def view(frame=ROWS, *, name=None, **terms):
    """Protect the table under a name of its own."""
    return dp.protect(frame, name or next(NAMES), **{"epsilon": 100, "ledger": "memory:", **SAID, **terms})


@contextmanager
def registered(function, **how):
    """Let every view have a mechanism of this function."""
    made = dp.mechanism(**{"columns": {"column": "numeric"}, "name": "mine", **how})(function)
    dp.register_mechanism(made)
    try:
        yield
    finally:
        dp.unregister("mine")


def sums(curator, column, by=None):
    """The noisy sums of a column."""
    moments = Moments(column)
    return curator.sum(moments if by is None else OneHot(by) * moments).values


# ---- what costs nothing ---------------------------------------------------------------------------------

FREE = {
    "popmean": lambda v: v.ttest("x", popmean=0.5, epsilon=0.5),
    "alternative": lambda v: v.ttest("x", alternative="less", epsilon=0.5),
    "confidence": lambda v: v.ttest("x", confidence=0.9, epsilon=0.5),
    "method": lambda v: v.ttest("x", method="naive", epsilon=0.5),
    "a smaller price": lambda v: v.ttest("x", popmean=0.5, epsilon=0.25),
    "another method": lambda v: v.ztest("x", popmean=0, sigma=1, epsilon=0.5),
}


@pytest.mark.parametrize("again", FREE)
def test_another_conclusion_from_the_same_sums_is_free(again):
    """What the second half alone uses, and a smaller epsilon, is answered from what was measured; it is said."""
    asked = view(epsilon=0.5)
    before = asked.explain("ttest", "x", epsilon=0.5)
    first = asked.ttest("x", epsilon=0.5)
    after = asked.explain("ttest", "x", epsilon=0.5, popmean=1)

    second = FREE[again](asked)

    assert (0, Fraction(1, 2)) == (second.privacy.epsilon, asked.budget.spent)
    assert first.released == second.released
    assert not second.privacy.replayed
    (noise,) = second.privacy.noise
    assert (0, first.privacy.noise[0].scale, True) == (noise.epsilon, noise.scale, bool(noise.reused))
    assert "at no charge" in repr(second)
    assert [(each.left, bool(each.measurements[0].reused)) for each in (before, after)] == [
        (0.5, False),
        (0.0, True),
    ]
    assert "price: nothing: it follows from what was paid before (otherwise epsilon 0.5)" in repr(after)
    with pytest.raises(dp.BudgetExceeded):
        asked.ttest("y", epsilon=0.5)


@pytest.mark.parametrize("groups", [("a", "c"), ("c", "a")])
def test_a_tally_of_categories_is_kept_whole(groups):
    """The coordinate of rows in none is the last, in whichever order the categories were asked for."""

    def counts(curator, column, groups):
        g = next(each for each in curator.columns if each.name == "g")
        of = Given(g, of=OneHot(g, groups=groups), tally=(0, 1))
        return curator.sum(Stack(of, Count())).values

    asked = view()
    with registered(counts):
        there = asked.mine("x", groups, epsilon=0.5).value
        back = asked.mine("x", groups[::-1], epsilon=0.5)

    assert back.privacy.epsilon == 0
    assert [*there[1::-1], *there[2:]] == back.value.tolist()


def test_no_row_is_read_for_what_is_kept():
    """A table that can no longer be read answers from what was measured."""
    asked = view()
    first = asked.ttest("x", epsilon=0.5)

    class Gone:
        def __getattr__(self, name):
            raise AssertionError(name)

    held = asked._target.table.frame
    ready = type("Ready", (), {"check_readable": lambda self: None, "library": "pandas"})()
    vars(asked._target.table)["_frame"] = ready
    second = asked.ttest("x", epsilon=0.5, popmean=1)
    vars(asked._target.table)["_frame"] = held

    assert first.released == second.released


def test_a_part_of_a_call_is_spared():
    """A call pays for what is not kept alone, and says both."""

    def both(curator, first, second):
        return [float(curator.sum(Moments(each), share="1/2").values[0]) for each in (first, second)]

    asked = view()
    with registered(both, columns={"first": "numeric", "second": "numeric"}):
        asked.mine("x", "y", epsilon=1)
        release = asked.mine("y", "n", epsilon=1)

    assert release.privacy.epsilon == 0.5
    assert [bool(noise.reused) for noise in release.privacy.noise] == [True, False]
    assert "0.5-differential privacy for tables" in repr(release)
    assert "in addition to measurements of" in repr(release)


def test_what_a_call_measured_before_it_failed_is_kept():
    """A mechanism that fails after it has measured loses its answer, not what was paid for."""
    fails = [True]

    def fragile(curator, column):
        found = sums(curator, column)
        if fails:
            raise ValueError
        return found

    asked = view()
    with registered(fragile):
        with pytest.raises(dp.PluginError, match="stay charged"):
            asked.mine("x", epsilon=1)
        fails.clear()
        release = asked.mine("x", epsilon=1)

    assert (release.privacy.epsilon, asked.budget.spent) == (0, 1)


# ---- what is paid for -----------------------------------------------------------------------------------


def test_the_newest_of_the_most_accurate_is_taken():
    """What is fresh, or more accurate, is measured and paid; of what is good enough, the best is taken."""
    asked = view()
    first = asked.ttest("x", epsilon=0.5)
    fresh = asked.ttest("x", epsilon=0.5, popmean=1, fresh=True)
    newest = asked.ttest("x", epsilon=0.5, popmean=2)
    better = asked.ttest("x", epsilon=1)

    assert [each.privacy.epsilon for each in (fresh, newest, better)] == [0.5, 0, 1]
    assert first.released != fresh.released == newest.released
    assert better.released == asked.ttest("x", epsilon=0.25).released
    assert [asked.explain("ttest", c, epsilon=0.5, fresh=c == "x").left for c in "xy"] == [0.5, 0.5]


def test_a_call_takes_nothing_twice():
    """Who measures the same twice in a call gets two draws of noise, also from what is kept."""

    def twice(curator, column, *, option=0):
        return np.stack([curator.sum(Moments(column), share="1/2").values for _ in range(2)])

    asked = view()
    with registered(twice):
        first = asked.mine("x", epsilon=1).value
        again = asked.mine("x", option=1, epsilon=1)

    assert (first[0] != first[1]).all()
    assert sorted(first[:, 0]) == sorted(again.value[:, 0])
    assert again.privacy.epsilon == 0


def narrow(v, **more):
    return v.where(g="a", y=(-1, 1)).ttest("x", epsilon=0.5, **more)


def of_function(v, popmean):
    return v.where(lambda row: row["x"] > 0).ttest("x", epsilon=0.5, popmean=popmean)


OTHERS = {
    "the same": (True, lambda v: narrow(v(), popmean=1)),
    "conditions in another order": (True, lambda v: v().where(y=(-1, 1)).where(g="a").ttest("x", epsilon=0.5)),
    "another column's bounds": (True, lambda v: narrow(v(bounds={**SAID["bounds"], "n": (-3, 3)}), popmean=1)),
    "another column": (False, lambda v: v().where(g="a", y=(-1, 1)).ttest("y", epsilon=0.5)),
    "fewer conditions": (False, lambda v: v().where(g="a").ttest("x", epsilon=0.5)),
    "no condition": (False, lambda v: v().ttest("x", epsilon=0.5)),
    "other rows": (False, lambda v: v().where(g="a", y=(-1, 2)).ttest("x", epsilon=0.5)),
    "present rows": (False, lambda v: v().where(g="a", y=dp.present).ttest("x", epsilon=0.5)),
    "groups": (False, lambda v: v().where(y=(-1, 1)).ttest("x", by="g", groups=("a", "b"), epsilon=0.5)),
    "bounds": (False, lambda v: narrow(v(bounds={**SAID["bounds"], "x": (-3, 4)}))),
    "bounds of a condition": (False, lambda v: narrow(v(bounds={**SAID["bounds"], "y": (-2, 3)}))),
    "fill": (False, lambda v: narrow(v(missing={"x": 1}))),
    "categories": (False, lambda v: narrow(v(categories={**SAID["categories"], "g": ["a", "b", "d", "c"]}))),
    "other category": (False, lambda v: narrow(v(missing={"g": "other"}))),
    "number of rows": (False, lambda v: narrow(v(ROWS[:399]))),
    "a function": (False, lambda v: [of_function(v(), popmean) for popmean in (0, 1)][1]),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_another_measurement_is_paid_for(other):
    """Rows, groups, bounds, fill values and categories of what is summed or selected are part of it; no more is."""
    name, (free, ask) = next(NAMES), OTHERS[other]
    narrow(view(name=name))

    asked = ask(lambda *frame, **terms: view(*frame, name=name, **terms))

    assert asked.privacy.epsilon == (0 if free else 0.5)


# ---- descriptions ---------------------------------------------------------------------------------------


def table(frame=ROWS, conditions=(), neighbors="replace_one", public=()):
    """A table as the curator sees it."""
    how = {"public": public, "missing": None, "neighbors": neighbors, **SAID}
    return Table(adapt(frame), read_schema(adapt(frame), **how), conditions)


COLUMNS = table().schema.columns
X, Y, G, N = (COLUMNS[name] for name in "xygn")
KERNEL = ProductKernel([X, Y], lengthscale=1.0)
DIFFERENT = [
    Count(),
    Moments(X),
    Moments(Y),
    Moments(X, degree=1),
    Moments(X, count=True),
    Moments(X, degree=1, count=True),
    Moments(dataclasses.replace(X, bounds=(-3.0, 3.5))),
    Moments(dataclasses.replace(X, fill=1.0)),
    Moments(dataclasses.replace(X, public=True)),
    Given(X, of=Moments(X)),
    Given(Y, of=Moments(X)),
    Given(X, Y, of=Moments(X)),
    OneHot(G),
    OneHot(G, groups=["a", "b"]),
    OneHot(G, groups=["a"]),
    OneHot(dataclasses.replace(G, other=True)),
    OneHot(N),
    OneHot(G) * Moments(X),
    OneHot(N) * Moments(X),
    OneHot(G, N),
    OneHot(N, G),
    Stack(Moments(X), Moments(Y)),
    Stack(Moments(Y), Moments(X)),
    Stack(Moments(X), Count()),
    Outer([X, Y]),
    Outer([X, Y], radius=1.0),
    Outer([X, Y], count=True),
    Kernel(KERNEL, np.zeros((1, 2))),
    Kernel(KERNEL, np.ones((1, 2))),
    Kernel(ProductKernel([X, Y], lengthscale=2.0), np.zeros((1, 2))),
]


def described(features, **how):
    """The description of features on a table."""
    return describe_measurement(Query.read(features), table(**how), PackageOrigins({"plugin": "plugin 1"}))


def test_every_parameter_is_in_the_description():
    """No two features of different parameters have one description; each has the same one, also once evaluated."""
    found = [described(features) for features in DIFFERENT]
    for features in DIFFERENT:
        for norm in (1, 2, math.inf):
            features.radius(norm), features.diameter(norm, frozenset()), features.diameter(norm, frozenset("x"))
        table().total(features, 20)

    assert None not in found
    assert len(found) == len(set(found))
    assert found == [described(features) for features in DIFFERENT]


# What was made of rows and the sample are in the schema; the key is the account's; no value follows from memory.
OF_TABLE = {"sample", "memory", "_key", "_frame", "_source", "_of", "_made"}
OF_WHERE_BOUNDS_COME_FROM = {"find", "beyond"}  # from which no number follows
LEFT_OUT = {"words", "person", "library"}  # of a schema: for people to look at; nothing measured follows from them


def test_all_that_a_table_and_a_column_are_is_described():
    """A new field of a table, a schema or a column has to be described, or left out knowingly."""
    known = {
        Schema: {"names", "columns", "neighbors", "size", "unit", "people", "table", "derived", *LEFT_OUT},
        Column: {"name", "bounds", "categories", "fill", "other", "public", "filled", *OF_WHERE_BOUNDS_COME_FROM},
    }

    of_rows = {"schema", "conditions", "known", "mark", "parts", "by", "place", "whole", *OF_TABLE}
    assert of_rows == {*vars(Table(None, Schema((), {}, "add_remove", None)))} | {"by", "place", "whole"}
    assert known == {kind: {field.name for field in dataclasses.fields(kind)} for kind in known}
    found = dataclasses.replace(X, find=True, beyond=3.0)
    assert (
        described(Moments(X)) == described(Moments(found)) != described(Moments(dataclasses.replace(X, fill=0.5)))
    )


@pytest.mark.parametrize("given", [{}, {"g": "b"}, {"g": "c", "n": 2}, {"n": 1, "g": ["a"], "x": (-1, 1)}])
def test_what_is_measured_is_the_part_of_a_larger_measurement_that_is_said(given):
    """The exact sums of the larger features, of more rows, hold those that are asked at the places named."""
    found = 0
    stacked = OneHot(G, groups=["c", "b"]) * Stack(Moments(X), Count())
    for features in [
        *DIFFERENT,
        OneHot(G, N, groups={"g": ["c", "a"]}),
        OneHot(N, groups=[2]) * Moments(X),
        stacked,
    ]:
        rows = (view().where(**given) if given else view())._target.table
        for every, more, places in containing_features(features, rows):
            found += 1
            expected = np.asarray(rows.total(features, 20))

            assert expected.tolist() == np.asarray(more.total(every, 20))[places].tolist()

    assert found > 1


WHOLE = {
    "ttest": (lambda v, e: v.ttest("x", by="g", groups=["a", "b"], epsilon=e), ["std of one"]),
    "anova": (
        lambda v, e: v.anova("x", by="g", epsilon=e),
        ["ttest of two", "ttest of one", "std of one", "std by group"],
    ),
    "value_counts": (lambda v, e: v.value_counts("g", epsilon=e), ["count of one"]),
    "crosstab": (
        lambda v, e: v.crosstab("g", "n", epsilon=e),
        ["values of one", "values by group", "count of a cell", "chi2"],
    ),
}
PARTS = {
    "ttest of two": lambda v, e: v.ttest("x", by="g", groups=["c", "a"], epsilon=e),
    "ttest of one": lambda v, e: v.where(g="b").ttest("x", epsilon=e),
    "std of one": lambda v, e: v.where(g="b").std("x", epsilon=e),
    "std by group": lambda v, e: v.group_by("g").std("x", epsilon=e),
    "count of one": lambda v, e: v.where(g="b").count(epsilon=e),
    "values of one": lambda v, e: v.where(g="b").value_counts("n", epsilon=e),
    "values by group": lambda v, e: v.group_by("n").value_counts("g", epsilon=e),
    "count of a cell": lambda v, e: v.where(g="b").where(n=2).count(epsilon=e),
    "chi2": lambda v, e: v.chi2("n", "g", epsilon=e),
    "ttest of others": lambda v, e: v.where(g=["a", "b"]).ttest("x", epsilon=e),
    "ttest of more": lambda v, e: v.where(g="b", y=(0, 1)).ttest("x", epsilon=e),
    "ttest of another column": lambda v, e: v.where(g="b").ttest("y", epsilon=e),
    "ttest filled": lambda v, e: v.where(g="b").ttest("x", nan_policy="fill", epsilon=e),
    "ttest of other bounds": lambda v, e: v.declare(bounds={"x": (-3, 4)}).where(g="b").ttest("x", epsilon=e),
    "fresh": lambda v, e: v.where(g="b").ttest("x", epsilon=e, fresh=True),
    "better": lambda v, _: v.where(g="b").ttest("x", epsilon=30),
}


@pytest.mark.parametrize("first", WHOLE)
def test_a_part_of_what_was_measured_is_free(first):
    """Groups and cells that were measured among others are taken where they are as accurate, and nothing else."""
    ask, known = WHOLE[first]
    free = []
    for name, part in PARTS.items():
        asked = view()
        ask(asked, 9)
        if part(asked, 0.1).privacy.epsilon == 0:
            free.append(name)

    assert known == free


def test_a_part_shares_the_noise_of_the_whole():
    """A cell, or a group in another order or alone, less the same is 0, and less another is not."""
    asked = view()
    cells = asked.crosstab("g", "n", epsilon=1)
    counted = asked.where(g="b").value_counts("n", sort=False, epsilon=0.1)
    asked.anova("x", by="g", epsilon=9)
    two = asked.ttest("x", by="g", groups=["c", "b"], epsilon=0.5)
    back = asked.ttest("x", by="g", groups=["b", "c"], epsilon=0.5)
    one = asked.where(g="b").ttest("x", epsilon=0.1)

    assert asked.budget.spent == 10
    assert two.means == back.means[::-1]
    same = [
        dp.combine(lambda a, b: a.raw[1][1] - b.raw[1], cells, counted),
        dp.combine(lambda a, b: a.means[0] - b.means[1], two, back),
        dp.combine(lambda a, b: a.means[1] - b.means[0], two, one),
    ]
    assert [end for each in same for end in (each.low, each.high)] == pytest.approx([0] * 6, abs=1e-9)
    other = dp.combine(lambda a, b: a.raw[0][1] - b.raw[1], cells, counted)
    assert other.low < other.high


def test_a_part_is_taken_once_in_a_call():
    """Who measures the same part twice in a call gets two draws of noise."""

    def twice(curator, column):
        return np.stack([curator.sum(Moments(column, count=True), share="1/2").values for _ in range(2)])

    def once(curator, column):
        g = next(each for each in curator.columns if each.name == "g")
        return curator.sum(OneHot(g) * Moments(column, count=True)).values

    asked = view()
    with registered(once):
        whole = asked.mine("x", epsilon=9).value
    with registered(twice):
        found = asked.where(g="b").mine("x", epsilon=1)

    assert whole[1].tolist() == found.value[0].tolist() != found.value[1].tolist()
    assert found.privacy.epsilon == 0.5


def test_what_cannot_be_written_down_has_no_description():
    """Features that hold what may compute anything, or of no installed class, are never taken for others."""

    class Mine(RowFeatures):
        shape = (1,)
        columns = (X,)

        def rows(self, batch):
            return batch.values(X)[:, None]

        def radius(self, norm):
            return 3.0

    assert described(Mine()) is None
    origins = PackageOrigins({__name__.partition(".")[0]: "tests 1"})
    assert describe_measurement(Query.read(Mine()), table(), origins) is None  # of a function
    nested = {"a": [1, (lambda: 2)]}
    for held in (math.sin, np.random.default_rng(1), np.array([object()]), object(), stats.norm(0, 1), nested):
        features = Moments(X)
        vars(features)["held"] = held
        assert described(features) is None, held


def test_values_of_different_types_are_different():
    """1, 1.0, True and "1" are four values, and so are a list, a tuple and an array of them."""
    kinds = [
        1,
        1.0,
        True,
        "1",
        Fraction(1),
        np.float64(1),
        np.float32(1),
        np.int64(1),
        [1],
        (1,),
        {1},
        {"1": 1},
        None,
    ]
    kinds += [np.array([1]), np.array([1.0]), np.array([[1]]), [np.array([1])], "x" * 2000, "y" * 2000]
    found = []
    for held in kinds:
        features = Moments(X)
        vars(features)["held"] = held
        found.append(described(features))

    assert None not in found
    assert len(found) == len(set(found))


class Installed(RowFeatures):
    """As somebody's plugin might have it, with a radius as its parameter."""

    shape = (1,)

    def __init__(self, column, radius):
        self.columns, self.largest = (column,), radius

    def rows(self, batch):
        return batch.values(self.columns[0])[:, None]

    def radius(self, norm):
        return self.largest


def test_a_third_partys_features_are_described_with_their_version(monkeypatch):
    """By their distribution and all attributes, the class's too; one that cannot be written ends reuse."""
    package = __name__.partition(".")[0]

    def found(features, origin="p 1"):
        return describe_measurement(Query.read(features), table(), PackageOrigins({package: origin}))

    each = [Installed(X, 1.0), Installed(X, 2.0), Installed(Y, 1.0)]
    seen = [found(features, origin) for features, origin in itertools.product(each, ["p 1", "p 2"])]
    for threshold in (30, 80):
        monkeypatch.setattr(Installed, "threshold", threshold, raising=False)
        seen.append(found(each[0]))
    assert None not in seen
    assert len(seen) == len(set(seen))
    monkeypatch.setattr(Installed, "threshold", object())
    assert found(each[0]) is None


# ---- groups, two tables, noise --------------------------------------------------------------------------


@pytest.mark.parametrize("public", [(), ("g",)])
def test_groups_are_spared_each_on_its_own(public):
    """A view by group takes what is kept of some groups, pays once for the others, and then has them all."""
    asked = view(public=public)
    with registered(sums):
        one = asked.where(g="b").mine("x", epsilon=0.25)
        every = asked.group_by("g").mine("x", epsilon=0.25)
        again = asked.group_by("g").explain("mine", "x", epsilon=0.25)
        parts = [asked.where(g=g).mine("x", epsilon=0.25, fresh=False) for g in "ac"]

    price = 0.0 if public else 0.25  # private groups get more noise than private conditions
    assert [bool(noise.reused) for noise in every.privacy.noise] == [False, True, False]
    assert np.array_equal(one.value, every["b"].value)
    assert (every.privacy.epsilon, again.left) == (0.25, 0)
    assert [price] * 2 == [part.privacy.epsilon for part in parts]


def test_a_second_measurement_of_groups_stays_in_step():
    """What one group is spared does not pay for the next measurement of another."""

    def two(curator, column, *, other=None):
        return curator.sum(Moments(column), share="1/2").values, curator.sum(OneHot(other or N), share="1/2").values

    asked = view(public=["g"])
    with registered(two, columns={"column": "numeric", "other": "category"}):
        asked.where(g="a").mine("x", other="n", epsilon=1)
        release = asked.group_by("g").mine("x", other="n", epsilon=1)

    assert release.privacy.epsilon == 1
    assert [bool(noise.reused) for noise in release.privacy.noise] == [True, True, False, False, False, False]


@pytest.mark.parametrize(("noise", "delta"), [("laplace", 0), ("gaussian", 1e-6), ("cube", 0)])
def test_each_kind_of_noise_is_kept_by_itself(noise, delta):
    """Noise of one kind is not taken for another, at whatever scale."""

    def measured(curator, column, *, kind="laplace", option=0):
        return curator.sum(Moments(column), noise=kind).values

    asked = view(delta=1e-5)
    with registered(measured, delta=True):
        for kind in ("laplace", "gaussian", "cube"):
            if kind != noise:
                asked.mine("x", kind=kind, epsilon=2, delta=1e-6)
        first = asked.mine("x", kind=noise, epsilon=1, delta=1e-6)
        again = asked.mine("x", kind=noise, option=1, epsilon=1, delta=1e-6)

    assert (first.privacy.epsilon, again.privacy.epsilon) == (1, 0)
    assert np.array_equal(first.value, again.value)


def test_noise_of_a_test_is_never_taken():
    """What seeded noise measured protects nobody, and is not given to whoever asks for a private answer."""
    asked = view()
    with seeded_noise(1):
        asked.ttest("x", epsilon=0.5)

    release = asked.ttest("x", epsilon=0.5, popmean=1)

    assert (release.privacy.epsilon, release.privacy.private) == (0.5, True)


def test_two_tables_are_known_by_both_names():
    """A measurement of two tables is taken for the same two in the same order alone."""
    first, second, third = (view(ROWS[at:].reset_index(drop=True)) for at in (0, 1, 1))

    def compared(curator, column, *, other=None, option=0):
        return sums(curator, column, other)

    with registered(compared, columns={"column": "numeric", "other": "view"}):
        prices = [
            one.mine("x", other=two, option=option, epsilon=1).privacy.epsilon
            for one, two, option in [(first, second, 0), (first, second, 1), (first, third, 0), (second, first, 0)]
        ]

    assert prices == [1, 0, 1, 1]
    assert [each.budget.spent for each in (first, second, third)] == [3, 2, 1]


def test_what_is_paid_jointly_or_too_large_is_not_kept(monkeypatch):
    """Joint parts are paid before they are chosen; values beyond a size would fill the ledger."""

    def joint(curator, column, *, option=0):
        (part,) = curator.jointly((Moments(column), 1))
        return part(Moments(column)).values

    asked = view(delta=1e-5)
    with registered(joint, delta=True):
        prices = [asked.mine("x", option=option, epsilon=1, delta=1e-6).privacy.epsilon for option in (0, 1)]
    assert prices == [1, 1]
    monkeypatch.setattr("dfprivacy._measure.kept_measurements.MOST", 1)
    assert [asked.ttest("x", epsilon=0.5, popmean=at).privacy.epsilon for at in (0, 1)] == [0.5, 0.5]
    assert MOST == 2**20


def test_groups_that_are_not_kept_share_a_pass(monkeypatch):
    """Where the first groups are kept, the others are summed in one pass all the same."""
    passes = []
    summed = Table.exact_sums
    monkeypatch.setattr(
        Table, "exact_sums", lambda self, features, k: passes.append(1) or summed(self, features, k)
    )
    asked = view(public=["g"])
    with registered(sums):
        asked.where(g="a").mine("x", epsilon=1)
        passes.clear()
        asked.group_by("g").mine("x", epsilon=1)

    assert len(passes) == 1


# ---- of which a part is shown, step by step -------------------------------------------------------------

EDGES = tuple(np.linspace(-3, 3, 13))


@dataclass(frozen=True)
class Beside:
    """Show every third number, and the neighbours of those that are above a threshold."""

    above: float

    def next(self, values, scales):
        """Look at what is known."""
        assert scales.shape == values.shape[1:]
        shown = np.zeros(values.shape, dtype=bool)
        shown[:, ::3] = True
        large = np.nan_to_num(values, nan=-np.inf) > self.above
        large[:, 1:] |= large[:, :-1].copy()
        return shown | (large & ~np.isnan(values[:, :1]))

    def describe(self):
        """Name it."""
        return f"shown beside what is above {self.above:g}"


def in_part(curator, column, above=20.0, asked=1):
    """Counts of intervals, some of which are shown."""
    return curator.sum(Bins(column, EDGES), reveal=Beside(above)).values


def in_full(curator, column):
    """Counts of all of them."""
    return curator.sum(Bins(column, EDGES)).values


def test_a_part_is_of_all_noisy_sums_and_costs_what_they_cost():
    """What is shown is what would be shown of all, at their price; the others are nan."""
    with registered(in_full), seeded_noise(1):
        whole = view().mine("x", epsilon=1)
    with registered(in_part), seeded_noise(1):
        part = view().mine("x", epsilon=1)

    shown = ~np.isnan(part.value)
    assert 4 < shown.sum() < 12
    assert np.array_equal(whole.value[shown], part.value[shown])
    (all_noise,), (noise,) = whole.privacy.noise, part.privacy.noise
    assert (all_noise.scale, all_noise.epsilon) == (noise.scale, noise.epsilon)
    assert f"{all_noise.what}, shown beside what is above 20" == noise.what


def ranked(curator, column, q=0.5, asked=1):
    """Counts of a tree, shown where a quantile may lie; all of them without one."""
    tree = Bins(column, EDGES, widths=(3, 1), weights=(1, 1))
    return curator.sum(tree, reveal=AdaptiveReveal(((4, 12),), (False,), ((q,),)) if q else None).values


def test_a_part_is_kept_as_that_part_alone():
    """The same rule is answered again, bit by bit; another, none, and one without a name are measured anew."""
    asked = view()
    with registered(ranked):
        first = asked.mine("x", epsilon=10)
        again = asked.mine("x", asked=2, epsilon=5)
        others = [asked.mine("x", q=q, epsilon=10) for q in (0.9, 0)]
    with registered(in_part):
        nameless = [asked.mine("x", asked=at, epsilon=1 / at).privacy.epsilon for at in (1, 2)]

    assert np.isnan(first.value).any()
    assert np.array_equal(first.value, again.value, equal_nan=True)
    assert [each.privacy.epsilon for each in (first, again, *others)] == [10, 0, 10, 10]
    assert not np.isnan(others[-1].value).any()
    assert nameless == [1, 0.5]


def drawn(patch):
    """How many numbers OpenDP draws at a time."""
    sizes, draw = [], OpenDPSampler.laplace
    patch.setattr(
        OpenDPSampler, "laplace", lambda self, values, scale: sizes.append(values.size) or draw(self, values, scale)
    )
    return sizes


@pytest.mark.opendp
def test_parts_of_all_groups_are_drawn_step_by_step_at_once(monkeypatch):
    """Each step is one draw for all groups, of the numbers that are shown alone; public ones are exact."""
    sizes = drawn(monkeypatch)

    with registered(in_part):
        found = view().group_by("g").mine("x", epsilon=1)
        noisy = len(sizes)
        known = view(public=["x"]).mine("x", epsilon=1)

    shown = sum(int((~np.isnan(each.value)).sum()) for each in found.releases)
    assert sizes[0] == 3 * 4
    assert sum(sizes) == shown < 36
    assert (len(sizes), known.value.sum(), known.privacy.epsilon) == (noisy, 400, 0)


@dataclass(frozen=True)
class Wrong(Beside):
    """A rule that answers in places, not in booleans."""

    def next(self, values, scales):
        """Forget the shape."""
        return np.arange(3)


@pytest.mark.parametrize(
    ("rule", "how", "said"),
    [
        (Beside(1.0), {"noise": "cube"}, "reveal= needs Laplace noise"),
        (Beside(1.0), {"noise": "gaussian"}, "reveal= needs Laplace noise"),
        (Wrong(1.0), {}, "whether it is shown"),
    ],
)
def test_rules_that_cannot_be(rule, how, said):
    """Noise of one draw for all coordinates is refused before anything is paid; a rule says of each whether."""
    asked = view()

    def wrong(curator, column):
        return curator.sum(Bins(column, EDGES), reveal=rule, **how).values

    with registered(wrong), pytest.raises(dp.PluginError, match=said):
        asked.mine("x", epsilon=1)

    assert asked.budget.spent == (0 if how else 1)


def test_describe_draws_what_the_quartiles_need(monkeypatch):
    """By group, most of the nodes of the trees get no noise; every group has its quartiles all the same."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"x": rng.gamma(2, 10, 40_000), "g": rng.integers(0, 4, 40_000)})
    known = {"bounds": {"x": (0, 100)}, "categories": {"g": range(4)}}
    asked = dp.protect(rows, next(NAMES), epsilon=10, ledger="memory:", **known)
    sizes = drawn(monkeypatch)

    found = asked.group_by("g").describe(["x"], epsilon=5)

    truth = rows.groupby("g")["x"].quantile([0.25, 0.5, 0.75])
    near = [found[key].loc[f"{round(100 * q)}%", "x"] for key, q in truth.index]
    assert truth.to_list() == pytest.approx(near, abs=0.5)
    assert sum(size for size in sizes if size > 4) < 4 * (16 + 256 + 1024) / 4
