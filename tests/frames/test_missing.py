"""Whether a value is missing: the row's own fact, in batches, features, statistics, conditions and methods."""

# ruff: noqa: PD011 - no pandas here

from __future__ import annotations

import copy
import datetime as dt
import math
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._measure.evaluate import Table, union_of_tables
from dfprivacy._plugins.loader import register_mechanism, unregister
from dfprivacy._table import conditions as rows
from dfprivacy._table.batch import Batch, declared_read, gather_selected_rows, reads_of
from dfprivacy._table.conditions import PresenceCondition, Satisfies, batches
from dfprivacy._table.frames import adapt
from dfprivacy.errors import SchemaError
from dfprivacy.features import Given, Moments, OneHot
from dfprivacy.schema import Column
from dfprivacy.statistics import OfRows

pytestmark = pytest.mark.pandas

X = Column("x", bounds=(0.0, 10.0), fill=5.0)
BY = Column("x", categories=("a", "b", 3))
REST = Column("x", categories=("a", "other"), other=True)
BOTH = Column("x", bounds=(0.0, 1.0), categories=(False, True), fill=0.5)


# ---- the fact --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("column", "there", "missing"), [
    (X, [1, 2.5, -1e300, math.inf, -math.inf, True, Decimal(3), dt.date(2020, 1, 1), 10**400, 4 + 0j, "7", b"7"],
     [math.nan, None, pd.NaT, pd.NA, "seven", [1], 1j, dt.timedelta(1), Decimal("NaN")]),
    (BY, ["a", b"b", 3.0, np.int8(3), "3"], ["zzz", None, math.nan, b"\xff", dt.date(2020, 1, 1)]),
    (REST, ["a", "other"], ["zzz", None]),  # though they count as "other"
    (BOTH, [True, 0, "True", 7], ["yes", None]),  # of a column with bounds, the number
], ids=["number", "category", "other", "both"])  # fmt: skip
def test_what_is_missing(column, there, missing):
    """What stands for no number, or is none of the categories; nothing else."""
    frame = pd.DataFrame({"x": pd.Series([*there, *missing], dtype=object)})
    [(batch, _)] = batches(adapt(frame), [declared_read(column)], ())

    assert batch.missing(column).tolist() == [False] * len(there) + [True] * len(missing)


@pytest.mark.parametrize(("column", "data"), [
    *((column, [1.5, None, math.inf, 3.0, None, -2.0]) for column in (X, BOTH)),
    *((column, ["a", "zzz", "b" if column is BY else "other", "a", None, "a"]) for column in (BY, REST)),
])  # fmt: skip
@pytest.mark.parametrize("size", [2, 100])
def test_the_same_is_missing_on_every_engine(constructor, column, data, size, monkeypatch):
    """In batches of any size, and conditions on presence select accordingly."""
    monkeypatch.setattr(rows, "BATCH_ROWS", size)
    frame, wanted = constructor({"x": data}), [False, True, False, False, True, False]
    wanted = wanted if isinstance(data[1], str) else [each is None for each in data]
    found = [batch.missing(column) for batch, _ in batches(adapt(frame), [declared_read(column)], ())]
    masks = [
        np.concatenate([mask for _, mask in batches(adapt(frame), (), (PresenceCondition(column, of),))])
        for of in (dp.missing, dp.present)
    ]

    assert np.concatenate(found).tolist() == wanted
    assert [mask.tolist() for mask in masks] == [wanted, [not each for each in wanted]]


def test_rows_that_are_gathered_keep_what_is_missing(schema_of):
    """A statistic of whole columns is told; in a union every row is of one of the tables."""
    frame = pd.DataFrame({"x": [1.0, math.nan, 3.0], "by": ["a", None, "zzz"]})
    schema = schema_of(frame, bounds={"x": (0, 10)}, categories={"by": ["a"]}, missing={"by": "other"})
    columns = [schema.columns["x"], schema.columns["by"]]
    one = Table(adapt(frame), schema)
    both, _ = union_of_tables(one, one, ("one", "two"))
    batch, which = Batch(3, {}), Column("data set", categories=("one", "two"))
    batch.mark(which, 1)

    last = Satisfies((columns[0],), lambda row: row["x"] is None or row["x"] >= 3)
    found = gather_selected_rows(batches(adapt(frame), reads_of(columns), (last,)), columns)

    assert found.missing(columns[0]).tolist() == [True, False]
    assert found.missing(columns[1]).tolist() == [True, True]
    assert both.selected_batch(columns).missing(columns[0]).tolist() == [False, True, False] * 2
    assert batch.missing(which).tolist() == [False] * 3
    features = Given(columns[0], of=Moments(columns[0], degree=1))  # whose columns are named once
    assert features.rows(one.selected_batch(features.columns)).tolist() == [[-0.8], [0.0], [-0.4]]


# ---- in a mechanism --------------------------------------------------------------------------------------


class Gaps(OfRows):
    """How many values are missing."""

    shape = (1,)

    def __init__(self, column):
        self.columns = (column,)

    def value(self, rows):
        return rows.missing(self.columns[0]).sum()

    def sensitivity(self, relation, norm, public):
        return 1.0


@dp.mechanism(columns={"column": "numeric"})
def average_of_present(curator, column):
    "The mean of the values that are there, and how many those are."
    up, down = curator.sum(Given(column, of=Moments(column, degree=1, count=True))).values
    return [column.mid + column.half * (up - down) / (up + down), up + down]


@dp.mechanism(columns={"column": "numeric"})
def gaps(curator, column):
    "How many values are missing."
    return curator.measure(Gaps(column)).values[0]


@dp.mechanism(columns={"other": "view"})
def sizes(curator, *, other=None):
    "How many rows two views have."
    return curator.sum(OneHot(other)).values


@dp.mechanism(columns={"columns": "columns"})
def which_gaps(curator, columns, nan_policy: dp.NanPolicy = "omit"):
    """Say which columns a row must have a value in, for nothing."""
    return [column.name for column in curator.gaps(columns, nan_policy)]


MECHANISMS = (average_of_present, gaps, sizes, which_gaps)


@pytest.fixture(autouse=True)
def mechanisms():
    for each in MECHANISMS:
        register_mechanism(each)
    yield
    for each in MECHANISMS:
        unregister(each.name)


DATA = {"age": [20.0, None, 40.0, None, 60.0] * 40, "arm": ["a", "b", None, "zzz", "a"] * 40}


def protect(frame=None, name="clinic", **terms):
    said = {"bounds": {"age": (0, 100)}, "categories": {"arm": ["a", "b"]}, **terms}
    return dp.protect(pd.DataFrame(DATA) if frame is None else frame, name, epsilon=10**6, ledger="memory:", **said)


def test_presence_in_questions(constructor):
    """The values that are there, in all rows and in those that presence selects, by group, and in two views."""
    view, second = protect(constructor(DATA)), protect(name="second")
    there = view.where(age=dp.present)
    terms = {"epsilon": 10**4}

    of_all, of_there = (each.average_of_present("age", **terms).value for each in (view, there))
    of_a = there.group_by("arm").average_of_present("age", **terms)["a"].value

    assert [of_all, of_there, of_a] == [pytest.approx([40, n], abs=0.02) for n in (120, 120, 80)]
    assert view.gaps("age", **terms).value == pytest.approx(80, abs=0.02)
    assert view.where(arm="b").gaps("age", **terms).value == pytest.approx(40, abs=0.02)
    assert there.sizes(other=second.where(arm=dp.missing), **terms).value == pytest.approx([120, 80], abs=0.02)
    assert "where age is present" in repr(there)
    assert "rows: 200" in repr(there)


def test_presence_is_as_private_as_the_column():
    """Which rows have a value is private, and their number is not free, unless the column is public."""
    private, public = protect().where(age=dp.missing), protect(name="open", public=["age"]).where(age=dp.missing)

    assert private._target.table.private_selection
    assert not public._target.table.private_selection
    assert public.gaps("age", epsilon=1).value == 80
    assert public.budget.spent == 0
    assert private.explain("gaps", "age", epsilon=1).measurements
    with pytest.raises(SchemaError, match="has no bounds"):
        protect(bounds=None, name="undescribed").where(age=dp.present)


def test_presence_is_one_object_and_part_of_the_question():
    """It pickles and copies to itself; the same question is known, and one about the other rows is not."""
    view, sentinels = protect(), (dp.present, dp.missing)
    replayed = [
        view.where({"age": each}).gaps("age", epsilon=1).privacy.replayed for each in (*sentinels, *sentinels)
    ]

    assert [pickle.loads(pickle.dumps(each)) is each for each in sentinels] == [True, True]  # noqa: S301
    assert [copy.deepcopy(each) is each for each in sentinels] == [True, True]
    assert [repr(each) for each in sentinels] == ["dfprivacy.present", "dfprivacy.missing"]
    assert replayed == [False, False, True, True]
    assert view.budget.spent == 2


def test_gaps_are_of_columns_in_which_a_value_may_be_missing():
    """Not of public ones without a gap, nor of those whose missing values were said to count as something."""
    data = {**DATA, "site": ["x", "y"] * 100, "gone": ["x", None] * 100, "cost": [1.0, None] * 100}
    columns = ["age", "arm", "site", "gone", "cost"]
    view = protect(
        pd.DataFrame(data),
        bounds={"age": (0, 100), "cost": (0, 10)},
        categories={"arm": ["a", "b"], "site": ["x", "y"], "gone": ["x"]},
        missing={"cost": 0, "arm": "other"},
        public=["site", "gone"],
    )

    assert view.which_gaps(columns, epsilon=1).value == ["age", "gone"]
    assert view.where(age=dp.present).which_gaps(columns, epsilon=1).value == ["age", "site", "gone"]
    assert view.which_gaps(columns, "fill", epsilon=1).value == []
    assert view.which_gaps("site", "raise", epsilon=1).value == []
    assert view.budget.spent == 0


def test_only_public_gaps_are_refused():
    """What is missing in a public column is said before anything is paid; of a private one nothing is."""
    view = protect(public=["arm"])

    for asked, column, words in (
        (view, "arm", "A value is missing in 'arm'"),
        (view, "age", "would reveal whether a private value is missing in 'age'"),
        (view.where(age=dp.present), "arm", "would reveal"),
    ):
        with pytest.raises(dp.ArgumentError, match=words):
            asked.which_gaps(column, "raise", epsilon=1)
    assert view.where(arm="a").which_gaps("arm", "raise", epsilon=1).value == []
    assert view.budget.spent == 0
