"""Public columns as they are: values of any kind, of rows that public columns select, exact and free."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._plugins.loader import register_mechanism, unregister
from dfprivacy._table.frames import Read, adapt
from dfprivacy.schema.values import plain_key

pytestmark = pytest.mark.pandas

DATA = {"id": ["p1", "p2", "p3", "p4"], "age": [31.0, 45.0, 28.0, 52.0], "arm": ["drug", "placebo", "drug", "drug"]}
TERMS = {"bounds": {"age": (18, 90)}, "categories": {"arm": ["drug", "placebo"]}, "public": ["id", "arm"]}


@dp.mechanism(columns={"keys": "public", "other": "view"})
def listed(curator, keys=None, *, other=None, name=None):
    "The values of a column, and what else the curator says of columns."
    if name is not None:
        return curator.public_values(dp.Column(name))
    values = keys if keys is None or isinstance(keys, list) else curator.public_values(keys)
    return {"values": values, "known": [column.name for column in curator.columns]}


@pytest.fixture(autouse=True)
def _mechanism():
    register_mechanism(listed)
    yield
    unregister("listed")


def protect(df=None, name="study", **terms):
    return dp.protect(pd.DataFrame(DATA) if df is None else df, name, **{"epsilon": 1, **TERMS, **terms})


class Code(str):
    """A text that carries something."""

    __slots__ = ("patient",)


def code(text="a"):
    made = Code(text)
    made.patient = "Ann"
    return made


class Colour(enum.StrEnum):
    """A text with a name."""

    RED = "a"


@dp.mechanism(columns={"column": "any", "public": "public"}, delta=True)
def exits(curator, column, public):
    "What each verb that shows values shows."
    found = curator.discover(column, share="1/4").keys
    pairs = curator.discover([column, public], share="1/4").keys
    within = curator.discover(column, domain=[code(), 1], share="1/4").keys
    (survey,) = curator.survey([column], [0.0, 1.0], share="1/4")
    SHOWN.append([*found, *(part for pair in pairs for part in pair), *within, *dict(survey.values)])
    SHOWN.append(curator.public_values(public))
    return 0


SHOWN = []


@pytest.mark.parametrize("first", [
    "a", np.str_("a"), code(), Colour.RED, b"a", np.float64(1), np.int8(1), np.True_, Decimal(1),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_no_object_of_the_rows_leaves(first):
    """Whatever object a row holds, a verb shows the same one of Python's own, which carries nothing."""
    register_mechanism(exits)
    frame = pd.DataFrame({"g": pd.Series([first] + ["a"] * 500 + [1] * 500, dtype=object)}).assign(
        id=lambda d: d["g"]
    )
    try:
        dp.protect(frame, "exits", epsilon=40, delta=0.01, public=["id"]).exits("g", "id", epsilon=40)
    finally:
        unregister("exits")
    shown, public = SHOWN.pop(-2), SHOWN.pop()

    assert {str, int} == {type(value) for value in shown}
    assert {"a", 1} == {*shown}
    assert {type(value) for value in public} <= {str, int, float, bool}


@pytest.mark.parametrize(("value", "wanted"), [
    (pd.Timestamp("2020-01-02 03:04:05", tz="Europe/Berlin"), "2020-01-02T03:04:05+01:00"),
    (pd.Timestamp("2020-01-02"), "2020-01-02T00:00:00"), (dt.date(2020, 1, 2), "2020-01-02"), (pd.NaT, None),
])  # fmt: skip
def test_dates_leave_as_dates(value, wanted):
    """A date or a time is one of Python's own."""
    found = plain_key(value)

    assert type(found) in {dt.date, dt.datetime, type(None)}
    assert wanted == (None if found is None else found.isoformat())


@pytest.mark.parametrize(
    "values", [[3, 1, 2, 2**62], [0.5, 1.5, 2.5, 3.5], ["", "ä", "b\n", "1"], [True, False, True, True]]
)
def test_values_stay_what_they_are(constructor, values):
    """Integers, fractions, text and booleans are those that went in."""
    view = protect(constructor({**DATA, "id": values}))

    found = view.listed("id", epsilon=1).value["values"]

    assert values == found
    assert [type(value) for value in values] == [type(value) for value in found]


def test_rows_that_public_columns_select(constructor):
    """It comes in the order of rows, on every backend, for nothing; conditions, groups and two views select."""
    view, second = protect(constructor(DATA)), protect(pd.DataFrame({**DATA, "id": [*"qrst"]}), "other study")
    both = view.where(arm="drug").listed("id", other=second, epsilon=1)
    groups = view.group_by("arm").listed("id", epsilon=1)

    assert DATA["id"] == view.listed("id", epsilon=1).value["values"]
    assert ["p1", "p3", "p4", *"qrst"] == both.value["values"]
    assert [["p1", "p3", "p4"], ["p2"]] == [release.value["values"] for release in groups.releases]
    assert (0, 0) == (view.budget.spent, second.budget.spent)
    assert ["p1", "p3", "p4"] == view.where(arm="drug").listed("id", epsilon=1).value["values"]
    assert [] == view.where(arm="drug").where(arm="placebo").listed("id", epsilon=1).value["values"]


def test_long_tables_keep_their_order(tmp_path):
    """Batches of a file that is streamed come one after the other."""
    pl.DataFrame({"id": np.arange(200_000), "age": np.zeros(200_000)}).write_parquet(
        tmp_path / "rows.parquet", row_group_size=3000
    )
    frame = adapt(pl.scan_parquet(tmp_path / "rows.parquet"))
    read = np.concatenate([raw[Read("id")] for _, raw in frame.batches([Read("id")], 1 << 14)])

    assert np.array_equal(np.arange(200_000), read)
    assert list(range(200_000)) == frame.lists(["id"])["id"]


def test_what_a_mechanism_gets_and_knows():
    """Values in place of a name, and None, reach it; a column that is only public is none of its columns."""
    view = protect()

    assert [7, 8] == view.listed([7, 8], epsilon=1).value["values"]
    assert {"values": None, "known": ["age", "arm"]} == view.listed(epsilon=1).value
    assert "id: as it is (public)" in repr(view)
    assert () == view.explain("listed", "id", epsilon=1).measurements


@pytest.mark.parametrize(("ask", "words"), [
    (lambda v: v.listed("age", epsilon=1), "'age' is not public"),
    (lambda v: v.listed("name", epsilon=1), "no column 'name'"),
    (lambda v: v.listed("", epsilon=1), "no column ''"),
    (lambda v: v.listed(name="age", epsilon=1), "are private: "),  # asked by the mechanism itself
    (lambda v: v.listed(name="nothing", epsilon=1), "are private: "),  # which made it up
    (lambda v: v.where(age=(20, 40)).listed("id", epsilon=1), "are private: "),  # it would tell who they are
    (lambda _: protect(public=["id"], name="arms").group_by("arm").listed("id", epsilon=1), "are private: "),
])  # fmt: skip
def test_what_is_private_is_refused(ask, words):
    """A private column, and a public one of rows that a private condition selects."""
    view = protect()

    with pytest.raises(dp.errors.DPError, match=words):
        ask(view)
    assert view.budget.spent == 0


def test_plans_reckon_with_the_rows_that_public_columns_select():
    """Of a view's conditions those on public columns, and of its groups all alike; where that is public at all."""
    frame = pd.DataFrame({"g": ["a"] * 5 + ["b"] * 30 + ["c"], "x": [*range(36)], "s": [0, 1] * 18})

    @dp.mechanism(columns={"x": "numeric"})
    def planned(curator, x):
        "How many rows a plan reckons with."
        curator.sum(features.Moments(x))
        return curator.typical_size

    def found(view):
        return view.planned("x", epsilon=1)

    said = {"bounds": {"x": (0, 36)}, "categories": {"g": ["a", "b", "c"], "s": [0, 1]}, "public": ["g"]}
    view = dp.protect(frame, "planned", epsilon=99, ledger="memory:", **said)
    added = dp.protect(
        frame, "added", epsilon=99, neighbors="add_remove", ledger="memory:", **{**said, "public": ()}
    )
    register_mechanism(planned)
    selected = [
        view,
        view.where(g="a"),
        view.where(x=(0, 3)),
        view.where(g=["a", "b"], x=(0, 3)),
        added.where(g="a"),
    ]
    by_group = found(view.where(g=["a", "b"]).group_by("s"))

    assert [found(each).value for each in selected] == [36, 5, 36, 35, None]
    assert [by_group[s].value for s in (0, 1)] == [17, 17]
    unregister("planned")


@pytest.fixture
def counted():
    """What curators tell of public groups, call by call."""
    told = []

    @register_mechanism
    @dp.mechanism(columns={"by": "category"})
    def counted(curator, by):
        "The sizes of public groups."
        told.append(curator.sizes(by).tolist())
        return told[-1]

    yield told
    unregister("counted")


def test_plans_of_other_rows_and_columns_read_them(counted):
    """Public conditions tell rows apart, and features what is counted of them."""
    frame = pd.DataFrame({**DATA, "ward": ["a", "b", "b", "a"]})
    terms = {"categories": {**TERMS["categories"], "ward": ["a", "b"]}, "public": ["id", "arm", "ward"]}
    view = protect(frame, **terms)
    for of, by in 2 * [(view, "arm"), (view, "ward"), (view.where(ward="a"), "arm"), (view.where(ward="b"), "arm")]:
        of.explain("counted", by, epsilon=1)

    assert 2 * [[3, 1], [2, 2], [2, 0], [1, 1]] == counted
    frame["arm"] = "placebo"  # a table that was changed in place is read by the next plan and the next answer
    view.counted("arm", epsilon=1, fresh=True)
    view.explain("counted", "arm", epsilon=1)
    assert 2 * [[0, 4]] == counted[8:]
