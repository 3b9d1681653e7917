"""What was measured once is not paid twice, and is taken for nothing else."""

# ruff: noqa: PD011 - measurements have values, too
from __future__ import annotations

import dataclasses
import itertools
import math
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy._ledger.tables import MOST
from dfprivacy._measure.evaluate import Table
from dfprivacy._measure.kept import Origins, describe, larger
from dfprivacy._measure.query import Query
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy.features import Count, Given, Kernel, Moments, OneHot, Outer, ProductKernel, RowFeatures, Stack
from dfprivacy.schema import Column, Schema
from dfprivacy.testing import seeded_noise

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


# ---- what costs nothing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "again",
    [
        {"popmean": 0.5},
        {"alternative": "less"},
        {"confidence": 0.9},
        {"equal_var": True},
        {"method": "naive"},
        {"popmean": 0.5, "epsilon": 0.25},
    ],
    ids=", ".join,
)
def test_another_conclusion_from_the_same_sums_is_free(again):
    """Whatever the second half alone uses, and a smaller epsilon, is answered from what was measured."""
    asked = view()
    first = asked.ttest("x", epsilon=0.5)

    second = asked.ttest("x", **{"epsilon": 0.5, **again})

    assert (0, Fraction(1, 2)) == (second.privacy.epsilon, asked.budget.spent)
    assert first.released == second.released
    assert not second.privacy.replayed
    (noise,) = second.privacy.noise
    assert (0, first.privacy.noise[0].scale) == (noise.epsilon, noise.scale)
    assert noise.reused
    assert "nothing more was paid" in repr(second)


def test_another_method_on_the_same_sums_is_free():
    """A z-test after a t-test measures nothing."""
    asked = view()
    first = asked.ttest("x", epsilon=0.5)

    second = asked.ztest("x", popmean=0, sigma=1, epsilon=0.5)

    assert (0, first.released) == (second.privacy.epsilon, second.released)


def test_swapped_groups_are_free():
    """Groups are kept in the order of the schema, and given in that of the question."""
    asked = view()
    there = asked.ttest("x", by="g", groups=("a", "c"), epsilon=0.5)

    back = asked.ttest("x", by="g", groups=("c", "a"), epsilon=0.5)

    assert (0, there.means[::-1]) == (back.privacy.epsilon, back.means)


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


def test_what_is_kept_needs_no_budget():
    """Where nothing is left, what was measured can be asked again."""
    asked = view(epsilon=0.5)
    asked.ttest("x", epsilon=0.5)

    assert asked.ttest("x", epsilon=0.5, popmean=1).privacy.epsilon == 0
    with pytest.raises(dp.BudgetExceeded):
        asked.ttest("y", epsilon=0.5)


def test_an_explanation_says_what_is_spared():
    """`explain` reads and writes nothing, and says what is left to pay."""
    asked = view()
    before = asked.explain("ttest", "x", epsilon=0.5)
    asked.ttest("x", epsilon=0.5)

    after = asked.explain("ttest", "x", epsilon=0.5, popmean=1)

    assert (before.left, after.left) == (0.5, 0.0)
    assert before.measurements[0].reused == ""
    assert after.measurements[0].reused
    assert "of which 0 is left to pay" in repr(after)
    assert [asked.explain("ttest", c, epsilon=0.5, fresh=c == "x").left for c in "xy"] == [0.5, 0.5]


def test_no_row_is_read_for_what_is_kept():
    """A table that can no longer be read answers from what was measured."""
    asked = view()
    first = asked.ttest("x", epsilon=0.5)

    class Gone:
        def __getattr__(self, name):
            raise AssertionError(name)

    held = asked._target.table.frame
    ready = type("Ready", (), {"ready": lambda self: None, "library": "pandas"})()
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
    assert "beside what was measured on" in repr(release)


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


# ---- what is paid for ------------------------------------------------------------------------------------


def test_fresh_measures_again():
    """What is to be fresh is measured, paid, and then the newest of its accuracy."""
    asked = view()
    first = asked.ttest("x", epsilon=0.5)
    fresh = asked.ttest("x", epsilon=0.5, popmean=1, fresh=True)

    newest = asked.ttest("x", epsilon=0.5, popmean=2)

    assert (0.5, Fraction(1)) == (fresh.privacy.epsilon, asked.budget.spent)
    assert first.released != fresh.released == newest.released


def test_more_accuracy_is_paid_for_and_the_most_accurate_taken():
    """Noise that is larger than asked for is not taken; of what is good enough, the most accurate is."""
    asked = view()
    asked.ttest("x", epsilon=0.5)
    better = asked.ttest("x", epsilon=1)

    assert better.privacy.epsilon == 1
    assert better.released == asked.ttest("x", epsilon=0.25).released


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


@pytest.mark.parametrize(
    ("changed", "question"),
    [
        ("another column", lambda v: v.ttest("y", epsilon=0.5)),
        ("some rows", lambda v: v.where(g="a").ttest("x", epsilon=0.5)),
        ("other rows", lambda v: v.where(y=(-1, 1)).ttest("x", epsilon=0.5)),
        ("present rows", lambda v: v.where(y=dp.present).ttest("x", epsilon=0.5)),
        ("groups", lambda v: v.ttest("x", by="g", groups=("a", "b"), epsilon=0.5)),
    ],
)
def test_another_question_of_the_same_view_is_paid_for(changed, question):
    """Another column, other rows or other groups are another measurement."""
    asked = view()
    for known in (asked.ttest, asked.where(g="b").ttest, asked.where(y=(-1, 2)).ttest):
        known("x", epsilon=0.5)
    asked.ttest("x", by="g", groups=("a", "c"), epsilon=0.5)

    assert question(asked).privacy.epsilon == 0.5, changed


@pytest.mark.parametrize(
    "terms",
    [
        {"bounds": {**SAID["bounds"], "x": (-3, 4)}},
        {"missing": {"x": 1}},
        {"bounds": {**SAID["bounds"], "y": (-2, 3)}},
        {"categories": {**SAID["categories"], "g": ["a", "b", "d", "c"]}},
        {"missing": {"g": "other"}},
    ],
    ids=str,
)
def test_other_terms_are_paid_for(terms):
    """Bounds, fill values and categories of what is summed, or of what selects the rows, are part of it."""
    name = next(NAMES)
    narrow = {"where": {"g": "a", "y": (-1, 1)}}
    view(name=name).where(**narrow["where"]).ttest("x", epsilon=0.5)

    assert view(name=name, **terms).where(**narrow["where"]).ttest("x", epsilon=0.5).privacy.epsilon == 0.5
    assert view(name=name).where(**narrow["where"]).ttest("x", epsilon=0.5, popmean=1).privacy.epsilon == 0


def test_a_column_that_is_not_looked_at_changes_nothing():
    """Other terms of other columns are no part of it."""
    name = next(NAMES)
    view(name=name).ttest("x", epsilon=0.5)

    assert view(name=name, bounds={"x": (-3, 3)}).ttest("x", epsilon=0.5, popmean=1).privacy.epsilon == 0


def test_another_number_of_rows_is_another_table():
    """A data set that has grown under its name is measured anew."""
    name = next(NAMES)
    view(name=name).ttest("x", epsilon=0.5)

    assert view(ROWS[:399], name=name).ttest("x", epsilon=0.5).privacy.epsilon == 0.5


def test_the_order_of_conditions_does_not_matter():
    """Conditions select the same rows in any order, and as a group of a view by group."""
    asked = view()
    asked.where(g="a").where(y=(-1, 1)).ttest("x", epsilon=0.5)

    assert asked.where(y=(-1, 1)).where(g="a").ttest("x", epsilon=0.5, popmean=1).privacy.epsilon == 0


def test_a_python_condition_is_never_taken_for_another():
    """Which rows a function selects cannot be written down."""
    asked = view().where(lambda row: row["x"] > 0)

    for popmean in (0, 1):
        assert asked.ttest("x", epsilon=0.5, popmean=popmean).privacy.epsilon == 0.5


# ---- descriptions ----------------------------------------------------------------------------------------


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
    return describe(Query.read(features), table(**how), Origins({"plugin": "plugin 1"}))


def test_every_parameter_is_in_the_description():
    """No two features of different parameters have one description; each has the same one every time."""
    found = [described(features) for features in DIFFERENT]

    assert None not in found
    assert len(found) == len(set(found))
    assert found == [described(features) for features in DIFFERENT]


def test_a_description_does_not_change_when_features_were_evaluated():
    """What features work out once they are asked is no part of it."""
    for features in DIFFERENT:
        before = described(features)
        for norm in (1, 2, math.inf):
            features.radius(norm), features.diameter(norm, frozenset()), features.diameter(norm, frozenset("x"))
        table().total(features, 20)

        assert before == described(features)


# What was made of rows and the sample are in the schema; the key is the account's; no value follows from memory.
OF_TABLE = {"sample", "memory", "_key", "_frame", "_source", "_of", "_made"}
OF_WHERE_BOUNDS_COME_FROM = {"find", "beyond"}  # from which no number follows
LEFT_OUT = {"words", "library"}  # of a schema: for people to look at; nothing that is measured follows from them


def test_all_that_a_table_and_a_column_are_is_described():
    """A new field of a table, a schema or a column has to be described, or left out knowingly."""
    known = {
        Schema: {"names", "columns", "neighbors", "size", "unit", "people", "derived", *LEFT_OUT},
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
        for every, more, places in larger(features, rows):
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
    """A cell of a table less the same cell asked alone is 0, and less another one is not."""
    asked = view()
    cells = asked.crosstab("g", "n", epsilon=1)
    alone = asked.where(g="b").value_counts("n", sort=False, epsilon=0.1)

    same = dp.combine(lambda a, b: a.raw[1][1] - b.raw[1], cells, alone)
    other = dp.combine(lambda a, b: a.raw[0][1] - b.raw[1], cells, alone)
    assert (same.low, same.high) == (0, 0)
    assert other.low < other.high


def test_a_part_of_a_stack_shares_the_noise_of_the_whole():
    """A group's mean is drawn again alike, asked among three groups, two in another order, or alone."""
    asked = view()
    asked.anova("x", by="g", epsilon=9)
    two = asked.ttest("x", by="g", groups=["c", "b"], epsilon=0.5)
    back = asked.ttest("x", by="g", groups=["b", "c"], epsilon=0.5)
    one = asked.where(g="b").ttest("x", epsilon=0.1)

    assert asked.budget.spent == 9
    turned = dp.combine(lambda a, b: a.means[0] - b.means[1], two, back)
    alone = dp.combine(lambda a, b: a.means[1] - b.means[0], two, one)
    assert (turned.low, turned.high) == pytest.approx((0, 0), abs=1e-9)
    assert (alone.low, alone.high) == pytest.approx((0, 0), abs=1e-9)


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


@pytest.mark.parametrize(
    "held",
    [
        math.sin,
        np.random.default_rng(1),
        np.array([object()]),
        object(),
        stats.norm(0, 1),
        {"a": [1, (lambda: 2)]},
    ],
    ids=["function", "generator", "objects", "object", "elsewhere", "nested"],
)
def test_what_cannot_be_written_down_has_no_description(held):
    """Features that hold what may compute anything are never taken for others."""
    features = Moments(X)
    vars(features)["held"] = held

    assert described(features) is None


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


def test_a_class_that_is_not_installed_has_no_description():
    """A feature of a notebook or of a test may be another one tomorrow."""

    class Mine(RowFeatures):
        shape = (1,)
        columns = (X,)

        def rows(self, batch):
            return batch.values(X)[:, None]

        def radius(self, norm):
            return 3.0

    assert described(Mine()) is None
    assert (
        describe(Query.read(Mine()), table(), Origins({__name__.partition(".")[0]: "tests 1"})) is None
    )  # of a function


class Installed(RowFeatures):
    """As somebody's plugin might have it, with a radius as its parameter."""

    shape = (1,)

    def __init__(self, column, radius):
        self.columns, self.largest = (column,), radius

    def rows(self, batch):
        return batch.values(self.columns[0])[:, None]

    def radius(self, norm):
        return self.largest


def test_a_third_partys_features_are_described_with_their_version():
    """A plain class of an installed distribution is known by it, and by all its attributes."""
    package = __name__.partition(".")[0]
    found = [
        describe(Query.read(features), table(), Origins({package: origin}))
        for features, origin in itertools.product(
            [Installed(X, 1.0), Installed(X, 2.0), Installed(Y, 1.0)], ["p 1", "p 2"]
        )
    ]

    assert None not in found
    assert len(found) == len(set(found))


def test_an_attribute_of_a_plugins_class_is_described(monkeypatch):
    """Whoever sets one for all objects asks something else; one that cannot be written down ends reuse."""
    origins = Origins({__name__.partition(".")[0]: "p 1"})
    before = describe(Query.read(Installed(X, 1.0)), table(), origins)
    monkeypatch.setattr(Installed, "threshold", 30, raising=False)
    low = describe(Query.read(Installed(X, 1.0)), table(), origins)
    monkeypatch.setattr(Installed, "threshold", 80)
    high = describe(Query.read(Installed(X, 1.0)), table(), origins)
    monkeypatch.setattr(Installed, "threshold", object())

    assert len({before, low, high} - {None}) == 3
    assert describe(Query.read(Installed(X, 1.0)), table(), origins) is None


# ---- groups, two tables, noise ---------------------------------------------------------------------------


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


def test_what_is_paid_jointly_is_not_kept():
    """Joint parts are paid before they are chosen: nothing is spared, and nothing kept."""

    def joint(curator, column, *, option=0):
        (part,) = curator.jointly((Moments(column), 1))
        return part(Moments(column)).values

    asked = view(delta=1e-5)
    with registered(joint, delta=True):
        prices = [asked.mine("x", option=option, epsilon=1, delta=1e-6).privacy.epsilon for option in (0, 1)]

    assert prices == [1, 1]


def test_what_is_too_large_is_not_kept(monkeypatch):
    """Values beyond a size would fill the ledger."""
    monkeypatch.setattr("dfprivacy._measure.kept.MOST", 1)
    asked = view()
    for popmean in (0, 1):
        assert asked.ttest("x", epsilon=0.5, popmean=popmean).privacy.epsilon == 0.5
    assert MOST == 2**20


def test_statistics_are_kept_as_sums_are():
    """A bundled statistic is known by its attributes."""
    asked = view()
    first = asked.dcor("x", "y", epsilon=1)

    again = asked.dcor("x", "y", epsilon=1, confidence=0.9)

    assert first.privacy.epsilon == 1
    assert first.privacy.noise[0].scale == again.privacy.noise[0].scale
    assert (0, Fraction(1)) == (again.privacy.epsilon, asked.budget.spent)


def test_groups_that_are_not_kept_share_a_pass(monkeypatch):
    """Where the first groups are kept, the others are summed in one pass all the same."""
    passes = []
    summed = Table.summed
    monkeypatch.setattr(Table, "summed", lambda self, features, k: passes.append(1) or summed(self, features, k))
    asked = view(public=["g"])
    with registered(sums):
        asked.where(g="a").mine("x", epsilon=1)
        passes.clear()
        asked.group_by("g").mine("x", epsilon=1)

    assert len(passes) == 1
