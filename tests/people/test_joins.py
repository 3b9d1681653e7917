"""Joined tables of the same people: how far one of them moves what is measured, what is refused, what is kept."""

from __future__ import annotations

import itertools
import json
import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._measure.evaluate import Table
from dfprivacy._measure.query import Query
from dfprivacy._table.conditions import read_condition
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy._table.joins import read_join
from dfprivacy._table.person_rows import read_aggregates
from dfprivacy.schema import Unit

from .helpers import Changes, between

KEY = bytes(range(32))
GRID = 12
NAMES = (f"joined {at}" for at in itertools.count())
TERMS = {"epsilon": 10_000, "ledger": "memory:"}

# How far a person moves what is measured

VISITS = [
    (1, 8.0, "a"), (2, 0.0, "b"), (2, 3.0, "a"), (2, 5.0, "b"), (3, 8.0, "b"), (1, 2.0, "a"), (None, 1.0, "a"),
]  # fmt: skip
PEOPLE = [(1, 4.0, "u"), (2, 0.0, "v"), (4, 2.0, "u"), (2, 3.0, "u"), (None, 4.0, "v")]
OF_VISITS = [(8.0, "a"), (0.0, "b")]
OF_PEOPLE = [(4.0, "u"), (0.0, None)]


def states(rows, most):
    """What one person may have in a table: up to two rows more than count."""
    return [each for many in range(most + 3) for each in itertools.combinations_with_replacement(rows, many)]


def table_of(rows, names, bounds, categories, most, neighbors):
    """A table of people with several rows, or for most=None, of one each."""
    frame = adapt(
        pl.DataFrame(rows, schema=dict(zip(names, (pl.Int64, pl.Float64, pl.String), strict=True)), orient="row")
    )
    said = {"bounds": bounds, "categories": categories, "public": (), "missing": None, "neighbors": neighbors}
    return Table(frame, read_schema(frame, **said, unit=None if most is None else Unit("pid", most)), key=KEY)


def joined(visits, people, limits, how, neighbors, max_rows=None):
    """The join of two small tables."""
    left = table_of(visits, ("pid", "x", "g"), {"x": (0, 8)}, {"g": ["a", "b"]}, limits[0], neighbors)
    right = table_of(people, ("pid", "y", "h"), {"y": (0, 4)}, {"h": ["u", "v"]}, limits[1], neighbors)
    return left.join(right, read_join(left, right, "pid", how, max_rows, "account"))


def asked(table):
    """Sums of rows, numbers and categories of both tables, and of both together."""
    x, y = table.schema.numeric("x"), table.schema.numeric("y")
    g, h = table.schema.categorical("g"), table.schema.categorical("h")
    both = features.OneHot(g, h)
    return [features.Moments(y), both, features.OneHot(h) * features.Moments(x)]


WAYS = {
    "rows": lambda table: [table],
    "where": lambda table: [table.where(read_condition(table.schema, "y", (1, 4)))],
    "groups": lambda table: table.groups((table.schema.categorical("h"),)),
}


@pytest.mark.parametrize(("how", "limits", "max_rows", "neighbors"), [
    ("left", (2, 1), None, "add_remove"), ("inner", (1, 2), None, "add_remove"),
    ("left", (1, 1), None, "replace_one"), ("inner", (2, 1), 1, "add_remove"),
    ("left", (2, None), None, "replace_one"), ("inner", (None, 2), None, "replace_one"),
])  # fmt: skip
def test_neighbouring_joins_differ_by_no_more_than_the_sensitivity(how, limits, max_rows, neighbors):
    """Of a person with up to two rows more than count in either table; and some sum differs by as much."""
    left, right = (states(rows, most or -1) for rows, most in zip((OF_VISITS, OF_PEOPLE), limits, strict=True))
    of_each = [(left[i], right[j]) for i, j in np.ndindex(len(left), len(right)) if (i + j) % 3 == 0]
    named = [(8, state) for state in of_each] + [(9, state) for state in of_each if neighbors == "replace_one"]
    tables = [
        joined(between(VISITS, of_visits, name), between(PEOPLE, of_people, name), limits, how, neighbors, max_rows)
        for name, (of_visits, of_people) in named
    ]
    many, shares, measurands = len(of_each), [], asked(tables[0])
    ends = np.cumsum([math.prod(measured.shape) for measured in measurands])[:-1]
    for way in WAYS.values():
        parts = [way(table) for table in tables]
        sums = [[each.total(features.Stack(*measurands), GRID) for each in part] for part in parts]
        each_one = np.split(np.array(sums, dtype=float) / 2**GRID, ends, axis=-1)
        for measured, found in zip(measurands, each_one, strict=True):
            values = found.reshape(len(tables), -1)
            one, other = (
                (values[:1], values) if neighbors == "add_remove" else (values[:many, None], values[None, many:])
            )
            for norm in (1, 2):
                far = np.linalg.norm(one - other, ord=norm, axis=-1).max()
                charged = parts[0][0].sensitivity(measured, norm)
                shares.append(far / (charged + values.shape[1] * 8 * 2.0**-GRID))

    assert max(shares) <= 1
    assert max(shares) > 0.9


def test_no_person_moves_a_statistic_of_rows_in_order_further_than_is_charged():
    """The rows of others stay in their order, whatever one person has."""
    of_each = itertools.product(states(OF_VISITS, 1), states(OF_PEOPLE, 1))
    tables = [
        joined(between(VISITS, a, 9), between(PEOPLE, b, 9), (1, 1), "left", "add_remove") for a, b in of_each
    ]
    of = Changes(tables[0].schema.categorical("g"))
    values = [table.value(Query.read(of), 0)[0] for table in tables]

    assert max(abs(value - values[0]) for value in values) <= tables[0].sensitivity(of, 1)


LAZY = {
    "pandas": lambda rows, _: rows,
    "polars": lambda rows, _: pl.from_pandas(rows).lazy(),
    "arrow": lambda rows, _: pa.Table.from_pandas(rows, preserve_index=False),
    "duckdb": lambda rows, of: of.from_arrow(pa.Table.from_pandas(rows, preserve_index=False)),
}


@pytest.mark.parametrize("make", LAZY.values(), ids=LAZY)
def test_a_persons_rows_have_an_order_of_their_own(make, monkeypatch):
    """First and last are those of the left rows, then of the right ones, whoever else is there, also in parts."""
    for module in ("arrow", "polars"):
        monkeypatch.setattr(f"dfprivacy._table.frames.{module}.TOGETHER", 700)
    rng, connection = np.random.default_rng(5), duckdb.connect()
    left = pd.DataFrame({"pid": rng.integers(0, 200, 2000), "x": rng.uniform(0, 8, 2000)})
    right = pd.DataFrame({"pid": rng.permutation(np.arange(150).repeat(3)), "y": rng.uniform(0, 4, 450)})

    def of_people(left, right):
        account = next(NAMES)
        said = {"account": account, "ledger": "memory:", "unit": "pid"}
        one = dp.protect(
            make(left, connection), f"{account} a", epsilon=1, bounds={"x": (0, 8)}, max_rows=30, **said
        )
        two = dp.protect(make(right, connection), f"{account} b", bounds={"y": (0, 4)}, max_rows=5, **said)
        table = one.join(two, on="pid")._target.table
        made = read_aggregates(table.schema, table.schema.unit, {"y": "first", "z": ("y", "last"), "x": "last"})
        of_each = table.per_person(made)
        every = of_each.selected_batch(tuple(of_each.schema.columns.values()))
        return np.sort([every.values(column) for column in of_each.schema.columns.values()], axis=1)

    merged = left.merge(right, on="pid", how="left").groupby("pid", sort=False)
    expected = [merged.y.nth(0).fillna(2), merged.y.nth(-1).fillna(2), merged.x.nth(-1)]

    assert np.allclose(of_people(left, right), np.sort(expected, axis=1), rtol=0, atol=0)


# What is public of a join


def views(of_visits=(), **terms):
    """Two tables of an account."""
    account = next(NAMES)
    said = {"account": account, "ledger": "memory:", "neighbors": "replace_one"}
    rows = pd.DataFrame(VISITS * 20, columns=["pid", "x", "g"]).astype({"pid": "Int64"})
    visits = {"unit": "pid", "max_rows": 3, "bounds": {"x": (0, 8)}, "categories": {"g": ["a", "b"]}}
    people = {"bounds": {"y": (0, 4)}, "categories": {"h": ["u", "v"]}}
    frame = pd.DataFrame(PEOPLE[:3], columns=["pid", "y", "h"]).astype({"pid": "Int64"})
    one = dp.protect(rows, f"{account} visits", **{"epsilon": 10_000, **said, **visits, **dict(of_visits)})
    return one, dp.protect(frame, f"{account} people", **{**said, **people, **terms})


def test_what_is_known_of_a_join_follows():
    """Its columns, its people, no public number, and the account; conditions and computed columns of both stay."""
    visits, people = views(public=["h"])
    left = visits.where(g="a").with_columns(half=dp.col("x") / 2)
    view = left.join(people.with_columns(old=dp.col("y") >= 3).select("old", "h"), on="pid")

    assert list(view) == ["pid", "x", "g", "half", "old", "h"]
    assert view.schema.unit == Unit("pid", 3)
    assert view.schema.columns["half"].bounds == (0, 4)
    assert not any(column.public for column in view.schema.columns.values())
    assert (view.schema.size, view.schema.people, view.schema.neighbors) == (None, None, "replace_one")
    assert view.name == f"{visits.name} joined with {people.name}"
    assert view.account == visits.account
    half, x = (features.Moments(view.schema.numeric(name), degree=1) for name in ("half", "x"))
    assert view._target.table.total(half, 0) == view._target.table.total(x, 0)
    again = visits.join(people.select("h"), on="pid").join(people.select("y"), on="pid", max_rows=2)
    assert (list(again), again.schema.unit) == (["pid", "x", "g", "h", "y"], Unit("pid", 2))
    assert view.mean("half", epsilon=1000).privacy.where == ("g = a", "half := (x / 2)")
    assert visits.budget.spent == view.budget.spent == 1000
    assert view.editions == []
    with pytest.raises(dp.SchemaError, match="file cannot describe"):
        view.to_toml()
    assert again.explain("mean", "x", epsilon=1)
    assert "at most 3 of each 'pid' count" in repr(view)


def test_a_name_that_both_tables_have_is_of_one_of_them():
    """Whose undeclared column it is follows from what was selected; declared later, each is measured for itself."""
    account = {"account": "a name of both", "ledger": "memory:"}
    visits = pd.DataFrame({"id": range(400), "cost": [5.0] * 400, "x": [1.0] * 400})
    people = pd.DataFrame({"id": range(400), "age": [50.0] * 400, "x": [9.0] * 400})
    left = dp.protect(visits, "names left", epsilon=100, unit="id", max_rows=1, bounds={"cost": (0, 9)}, **account)
    right = dp.protect(people, "names right", bounds={"age": (0, 99)}, **account)

    found = [
        view.join(right, on="id").declare(bounds={"x": (0, 10)}).mean("x", epsilon=20)
        for view in (left, left.select("cost"))
    ]

    assert [each.value for each in found] == pytest.approx([1, 9], abs=0.5)
    assert [each.privacy.epsilon for each in found] == [20, 20]


def test_nothing_of_a_join_answers_for_anything_else():
    """Neither a table, nor another edition, nor another way to join, nor other people; but for the same join."""
    names = next(NAMES), next(NAMES)
    rows = pd.DataFrame(VISITS * 20, columns=["pid", "x", "g"]).astype({"pid": "Int64"})
    people = pd.DataFrame(PEOPLE[:3], columns=["pid", "y", "h"]).astype({"pid": "Int64"})
    said = {"account": names[0], "bounds": {"x": (0, 8)}, "unit": "pid", "max_rows": 2}
    first, second = (dp.protect(rows, names[0], edition=edition, **TERMS, **said) for edition in ("1", "2"))
    one, two = (
        dp.protect(people, f"{name} people", account=names[0], bounds={"y": (0, 4)}, **TERMS) for name in names
    )
    every = [
        first,
        second,
        first.join(one, on="pid"),
        second.join(one, on="pid"),
        first.join(two, on="pid"),
        first.join(one, on="pid", how="inner"),
        first.join(one, on="pid", max_rows=1),
        first.join(one.select("y"), on="pid").join(two.select("h"), on="pid"),
        first.join(one.select("y").join(two.select("h"), on="pid"), on="pid"),
    ]
    for at, view in enumerate(every):
        assert not view.count(epsilon=1).privacy.noise[0].reused
        assert view.budget.spent == at + 1

    assert first.join(one, on="pid").count(epsilon=1).value == every[2].count(epsilon=1).value
    assert first.budget.spent == len(every)
    assert json.loads(every[-1].schema.table)["join"][0] == [names[0], "1"]


# What is refused

OTHER_KIND = pd.DataFrame({"pid": ["1", "2"], "y": [1.0, 2.0]})
REFUSED = {
    "another account": (lambda v, p: v.join(views()[1], on="pid"), "belong to the accounts"),
    "no view": (lambda v, p: v.join(OTHER_KIND, on="pid"), "not DataFrame"),
    "one row each": (lambda v, p: v.join(v.per("pid").agg(x="mean"), on="pid"), "cannot be joined"),
    "of one row each": (lambda v, p: v.per("pid").agg(x="mean").join(p, on="pid"), "cannot be joined"),
    "before agg": (lambda v, p: v.join(v.per("pid"), on="pid"), "not PerPerson"),
    "groups": (lambda v, p: v.join(p.group_by("h"), on="pid"), "not GroupedView"),
    "a sample": (lambda v, p: v.join(p.sample(0.5), on="pid"), "cannot be joined"),
    "of a sample": (lambda v, p: v.sample(0.5).join(p, on="pid"), "cannot be joined"),
    "conditions": (lambda v, p: v.join(p.where(h="u"), on="pid"), "selects some rows"),
    "not the unit": (lambda v, p: v.join(p, on="x"), "by column 'pid', not by 'x'"),
    "no column": (lambda v, p: p.join(p, on="nobody"), "no column 'nobody'"),
    "fractions": (lambda v, p: p.join(p, on="y"), "integers or text"),
    "a name in both": (lambda v, p: v.join(v, on="pid"), "Both tables have a column"),
    "a name but for case": (lambda v, p: v.join(p.with_columns(G=dp.col("y") + 1), on="pid"), "a column 'g'"),
    "how": (lambda v, p: v.join(p, on="pid", how="outer"), "'outer' is unknown"),
    "how of another type": (lambda v, p: v.join(p, on="pid", how=["left"]), "is unknown"),
    "on of another type": (lambda v, p: v.join(p, on=["pid"]), "name of a column, not list"),
    "no rows": (lambda v, p: v.join(p, on="pid", max_rows=0), "max_rows"),
    "too many rows": (lambda v, p: v.join(p, on="pid", max_rows=4), "max_rows"),
    "rows of another type": (lambda v, p: v.join(p, on="pid", max_rows=True), "max_rows"),
    "a protected table": (lambda v, p: v.lookup(p, on="g"), "is protected"),
}  # fmt: skip
TABLE = pa.table({"pid": [1, 2], "x": [1.0, 2.0]})
OF_TABLES = {
    "another type": (OTHER_KIND, {"categories": {}}, "(integers|text) in one table and (integers|text)"),
    "another library": (pl.DataFrame(PEOPLE[:3], schema=["pid", "y", "h"], orient="row"), {}, "held by one engine"),
    "own": (None, {"unit": "pid", "max_rows": 1, "unit_missing": "own"}, "unit_missing='own'"),
    "too many": (None, {"unit": "pid", "max_rows": 1 << 20}, "at most 1048576 can count"),
}  # fmt: skip


def refused(said, visits, call):
    """With what is the matter, and at no charge."""
    with pytest.raises((dp.ArgumentError, AttributeError), match=said) as caught:
        call()

    assert "Nothing was released or spent" in str(caught.value)
    assert visits.budget.spent == 0


@pytest.mark.parametrize(("call", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_joined_is_refused(call, said):
    """By whatever it is called."""
    visits, people = views()
    refused(said, visits, lambda: call(visits, people))


@pytest.mark.parametrize(("frame", "terms", "said"), OF_TABLES.values(), ids=OF_TABLES)
def test_a_table_that_cannot_be_joined_is_refused(frame, terms, said):
    """One whose people cannot be compared, are not known, or have too many rows; from either side."""
    visits, _ = views()
    said_of = {"account": visits.account, "bounds": {"y": (0, 4)}, **TERMS, **terms}
    frame = pd.DataFrame(PEOPLE[:3], columns=["pid", "y", "h"]).astype({"pid": "Int64"}) if frame is None else frame
    other = dp.protect(frame, next(NAMES), **said_of)

    for one, two in ((visits, other), (other, visits)):
        refused(said, visits, lambda one=one, two=two: one.join(two, on="pid"))


@pytest.mark.parametrize(("make", "ledgers", "said"), [
    (lambda: duckdb.connect().from_arrow(TABLE), ["memory:"] * 2, "DuckDB, from the same connection"),
    (TABLE.to_pandas, ["one", "two"], "in one ledger"),
])  # fmt: skip
def test_tables_of_two_places_are_refused(make, ledgers, said, tmp_path):
    """Of two connections or ledgers: their names do not make them one."""
    account = next(NAMES)
    one, two = (
        dp.protect(make(), f"{account} {at}", account=account, epsilon=1,
                   ledger=where if where == "memory:" else tmp_path / where)
        for at, where in zip("ab", ledgers, strict=True)
    )  # fmt: skip

    refused(said, one, lambda: one.join(two, on="pid"))


# Public tables

ZIPS = pd.DataFrame({"g": ["a", "b", "z", None], "income": [10.0, 20, 99, 98], "region": ["n", None, "s", "s"]})


def test_a_public_value_is_a_function_of_the_row():
    """Bounds and categories follow from the values that can be met; a value that is not there is missing."""
    visits, _ = views({"max_rows": 1000})  # all rows count, whatever the key
    view = visits.lookup(ZIPS, on="g").lookup(
        pl.DataFrame({"x": [8, 3, 9], "k": [1, 2, 3]}), on="x", missing={"k": 0}
    )

    assert view.schema.columns["income"].bounds == (10, 20)
    assert view.schema.columns["income"].categories == (10, 20)
    assert view.schema.columns["region"].categories == ("n",)
    assert view.schema.columns["k"].bounds == (0, 2)
    table = view._target.table
    total = {
        name: table.total(features.OneHot(table.schema.categorical(name)), 0) for name in ("g", "income", "region")
    }
    assert total["g"] == total["income"]
    assert total["region"] == total["g"][:1]
    assert table.total(features.Moments(table.schema.columns["k"], degree=1), 0)[0] != 0


def test_many_public_values_are_looked_up():
    """They are not written into every question, but other ones are told apart; they are no categories."""
    many = np.arange(20_000)
    rows = pd.DataFrame({"zip": many[::-1]})
    public = pd.DataFrame({"zip": many, "income": many * 2.0, "name": [f"n{at % 7}" for at in many]})
    view = dp.protect(rows, next(NAMES), bounds={"zip": (0, 19_999)}, **TERMS).lookup(public, on="zip")
    found = view.mean("income", epsilon=1000)

    assert abs(found.value - 19_999) < 10
    assert view.schema.columns["income"].categories is None
    assert view.schema.columns["name"].categories == tuple(f"n{at}" for at in range(7))
    assert len(json.dumps(view.schema.columns["income"].describe())) < 1000
    assert len(repr(view)) < 2000
    changed = public.assign(income=public.income.where(public.zip != 5, 7.0))
    again = dp.protect(rows, view.name, bounds={"zip": (0, 19_999)}, **TERMS).lookup(changed, on="zip")
    assert view.mean("income", epsilon=1000).value == found.value
    assert not again.mean("income", epsilon=1000).privacy.noise[0].reused


LOOKUPS = {
    "several rows": (pd.DataFrame({"g": ["a", "a"], "y": [1, 2]}), {}, "several rows"),
    "several rows of one number": (pd.DataFrame({"x": ["1", "1.0"], "y": [1, 2]}), {"on": "x"}, "several rows"),
    "no column": (pd.DataFrame({"y": [1, 2]}), {}, "names a column 'g'"),
    "no other column": (pd.DataFrame({"g": ["a"]}), {}, "columns"),
    "unknown columns": (ZIPS, {"columns": ["nothing"]}, "'nothing'"),
    "columns as text": (ZIPS, {"columns": "income"}, "list of column names"),
    "missing": (ZIPS, {"missing": {"rent": 1}}, "'rent'"),
    "missing of another type": (ZIPS, {"missing": 0}, "dictionary"),
    "a label for a number": (ZIPS, {"missing": {"income": "none"}}, "mix numbers and labels"),
    "a name that is taken": (ZIPS.rename(columns={"income": "x"}), {}, "a column 'x' already"),
    "people": (pd.DataFrame({"pid": [1], "y": [1]}), {"on": "pid"}, "identifies people"),
    "nothing met": (pd.DataFrame({"g": ["c"], "y": [1]}), {}, "no value of 'y'"),
    "one number": (pd.DataFrame({"g": ["a", "b"], "y": [1, 1]}), {}, "the same number in 'y'"),
    "too long": (pd.DataFrame({"g": np.arange(100_001), "y": 1}), {}, "at most 100000"),
    "no table": ([1, 2], {}, "as a table"),
    "a table that fails": (pl.LazyFrame({"g": ["a"]}).with_columns(y=pl.col("g").cast(pl.Int64)), {}, "withheld"),
    "on of another type": (ZIPS, {"on": ["g"]}, "name of a column, not list"),
}  # fmt: skip


@pytest.mark.parametrize(("public", "given", "said"), LOOKUPS.values(), ids=LOOKUPS)
def test_public_tables_that_cannot_be_used(public, given, said):
    """Are refused before anything is charged."""
    visits, _ = views()
    with pytest.raises(dp.DPError, match=said) as caught:
        visits.lookup(public, **{"on": "g", **given})

    assert "Nothing was released or spent" in str(caught.value)
