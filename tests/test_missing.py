"""Whether a value is missing: the row's own fact, in batches, features, statistics and conditions."""

# ruff: noqa: PD011, SIM300 - no pandas here; expected == actual

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
from dfprivacy._measure.evaluate import Table, union
from dfprivacy._plugins.loader import register_mechanism, unregister
from dfprivacy._table import batch as rows
from dfprivacy._table.batch import Batch, batches, described, gathered, reads_of
from dfprivacy._table.conditions import Is, Satisfies, condition
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy.errors import SchemaError
from dfprivacy.features import Given, Moments, OneHot
from dfprivacy.schema import Column
from dfprivacy.statistics import OfRows

pytestmark = pytest.mark.pandas

X = Column("x", bounds=(0.0, 10.0), fill=5.0)
BY = Column("by", categories=("a", "b", 3))
REST = Column("by", categories=("a", "other"), other=True)
BOTH = Column("x", bounds=(0.0, 1.0), categories=(False, True), fill=0.5)


def gone(frame, column):
    """Row by row, whether a value is missing."""
    found = [batch.missing(column) for batch, _ in batches(adapt(frame), [described(column)], ())]
    return np.concatenate(found).tolist()


def plain(values, name="x"):
    return pd.DataFrame({name: pd.Series(values, dtype=object)})


# ---- the fact --------------------------------------------------------------------------------------------


def test_what_stands_for_no_number_is_missing():
    """NaN, None, NaT, words and lists are missing; numbers, also as text, booleans, decimals and dates are not."""
    there = [1, 2.5, -1e300, math.inf, -math.inf, True, Decimal(3), dt.date(2020, 1, 1), 10**400, 4 + 0j, "7", b"7"]
    missing = [math.nan, None, pd.NaT, pd.NA, "seven", [1], 1j, dt.timedelta(1), Decimal("NaN")]

    assert [False] * len(there) + [True] * len(missing) == gone(plain(there + missing), X)


def test_what_is_none_of_the_categories_is_missing():
    """Unknown and missing values are missing; bytes, whole numbers of another type, numbers as text are not."""
    values = ["a", b"b", 3.0, np.int8(3), "3", "zzz", None, math.nan, b"\xff", dt.date(2020, 1, 1)]

    assert [False] * 5 + [True] * 5 == gone(plain(values, "by"), BY)


def test_what_counts_as_other_is_still_missing():
    """A missing value that counts as the category "other" is missing; the text "other" is not."""
    values = ["a", "other", "zzz", None]

    assert [False, False, True, True] == gone(plain(values, "by"), REST)


def test_of_a_column_with_bounds_the_number_counts():
    """A column with bounds and categories is looked at as a number, as features look at it."""
    assert [False, False, False, True, False] == gone(plain([True, 0, "True", "yes", 7]), BOTH)


@pytest.mark.parametrize("column", [X, BOTH])
def test_numbers_are_missing_alike_on_every_engine(constructor, column, monkeypatch):
    """Of the same numbers, the same are missing on every engine, in batches of any size."""
    data = {"x": [1.5, None, math.inf, 3.0, None, -2.0]}
    wanted = [False, True, False, False, True, False]

    assert wanted == gone(constructor(data), column)
    monkeypatch.setattr(rows, "BATCH_ROWS", 2)
    assert wanted == gone(constructor(data), column)


@pytest.mark.parametrize("column", [BY, REST])
def test_categories_are_missing_alike_on_every_engine(constructor, column, monkeypatch):
    """Of the same texts, the same are missing on every engine, in batches of any size."""
    data = {"by": ["a", "zzz", None, "a", None, "a"]}
    wanted = [False, True, True, False, True, False]

    assert wanted == gone(constructor(data), column)
    monkeypatch.setattr(rows, "BATCH_ROWS", 2)
    assert wanted == gone(constructor(data), column)


def test_no_value_of_the_column_that_tells_two_tables_apart_is_missing():
    """In a union every row is of one of the tables."""
    batch = Batch(3, {})
    batch.mark(Column("data set", categories=("one", "two")), 1)

    assert [False] * 3 == batch.missing(Column("data set", categories=("one", "two"))).tolist()


def test_rows_that_are_gathered_keep_what_is_missing():
    """A statistic of whole columns, of a union too, is told which values are missing."""
    frame = pd.DataFrame({"x": [1.0, math.nan, 3.0], "by": ["a", None, "zzz"]})
    schema = read_schema(
        adapt(frame), bounds={"x": (0, 10)}, categories={"by": ["a"]}, public=(), missing={"by": "other"},
        neighbors="replace_one",
    )  # fmt: skip
    columns = [schema.columns["x"], schema.columns["by"]]
    one = Table(adapt(frame), schema)
    both, _ = union(one, one, ("one", "two"))

    last = Satisfies((columns[0],), lambda row: row["x"] is None or row["x"] >= 3)
    parts = batches(adapt(frame), reads_of(columns), (last,))
    found, joined = gathered(parts, columns), both.gathered(columns)

    assert [True, False] == found.missing(columns[0]).tolist()
    assert [True, True] == found.missing(columns[1]).tolist()
    assert [False, True, False] * 2 == joined.missing(columns[0]).tolist()


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
    return {"mean": column.mid + column.half * (up - down) / (up + down), "count": up + down}


@dp.mechanism(columns={"column": "numeric"})
def gaps(curator, column):
    "How many values are missing."
    return curator.measure(Gaps(column)).values[0]


@dp.mechanism(columns={"other": "view"})
def sizes(curator, *, other=None):
    "How many rows two views have."
    return curator.sum(OneHot(other)).values


MECHANISMS = (average_of_present, gaps, sizes)


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


def test_the_mean_of_what_is_there(constructor):
    """With hardly any noise, the mean and the number of the values that are there come out, on every engine."""
    found = protect(constructor(DATA), str(constructor)).average_of_present("age", epsilon=10**5).value

    assert 40 == pytest.approx(found["mean"], abs=1e-2)
    assert 120 == pytest.approx(found["count"], abs=1e-2)


def test_a_statistic_counts_what_is_missing():
    """A statistic of whole columns sees which values are missing, in a part of the rows too."""
    view = protect()

    assert 80 == pytest.approx(view.gaps("age", epsilon=10**5).value, abs=0.01)
    assert 40 == pytest.approx(view.where(arm="b").gaps("age", epsilon=10**5).value, abs=0.01)


# ---- conditions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sentinel", [dp.present, dp.missing])
def test_presence_is_one_object(sentinel):
    """What asks for presence pickles and copies to itself."""
    assert sentinel is pickle.loads(pickle.dumps(sentinel))  # noqa: S301
    assert sentinel is copy.deepcopy(sentinel)
    assert f"dfprivacy.{sentinel.value}" == repr(sentinel)


def selected(frame, *conditions):
    masks = [mask for _, mask in batches(adapt(frame), (), conditions)]
    return np.concatenate(masks).tolist()


def test_presence_selects_rows(constructor, monkeypatch):
    """Rows in which a value is there or missing are selected alike on every engine, in batches of any size."""
    monkeypatch.setattr(rows, "BATCH_ROWS", 2)
    frame = constructor({"x": [1.0, None, 12.0], "by": ["zzz", "a", None]})

    assert [True, False, True] == selected(frame, Is(X, dp.present))
    assert [False, True, False] == selected(frame, Is(X, dp.missing))
    assert [True, False, True] == selected(frame, Is(BY, dp.missing))
    assert [False, False, True] == selected(
        frame, Is(X, dp.present), Is(REST, dp.missing), condition_of("x", (10, 10))
    )


def condition_of(name, wanted):
    schema = read_schema(
        adapt(pd.DataFrame({name: [0.0]})), bounds={name: (0, 10)}, categories=None, public=(), missing=None,
        neighbors="replace_one",
    )  # fmt: skip
    return condition(schema, name, wanted)


def test_a_view_of_what_is_there():
    """A view of the rows with a value asks of these alone, and says so."""
    part = protect().where(age=dp.present)

    assert 120 == pytest.approx(part.average_of_present("age", epsilon=10**5).value["count"], abs=0.01)
    assert "where age is present" in repr(part)
    assert "rows: 200" in repr(part)


def test_presence_is_as_private_as_the_column():
    """Which rows have a value is private, and their number is not free, unless the column is public."""
    private, public = protect().where(age=dp.missing), protect(name="open", public=["age"]).where(age=dp.missing)

    assert private._target.table.private_selection
    assert not public._target.table.private_selection
    assert 80 == public.gaps("age", epsilon=1).value
    assert 0 == public.budget.spent
    assert private.explain("gaps", "age", epsilon=1).measurements


def test_presence_is_part_of_the_question():
    """Asked again, a question about rows with a value is answered from the ledger; one about the others is not."""
    view = protect(name="asked again")

    first = view.where(age=dp.present).gaps("age", epsilon=1)
    again = view.where({"age": dp.present}).gaps("age", epsilon=1)
    other = view.where(age=dp.missing).gaps("age", epsilon=1)

    assert (first.value, True) == (again.value, again.privacy.replayed)
    assert not other.privacy.replayed
    assert 2 == view.budget.spent


def test_presence_in_two_views():
    """Of two views that are asked together, each keeps the condition of its own."""
    first, second = protect(name="first"), protect(name="second")

    found = first.where(age=dp.present).sizes(other=second.where(arm=dp.missing), epsilon=10**5).value

    assert [120, 80] == pytest.approx(found, abs=0.01)


def test_presence_of_a_column_that_nobody_described():
    """Whether a value is there cannot be said of a column with neither bounds nor categories."""
    with pytest.raises(SchemaError, match="has no bounds"):
        protect(bounds=None, name="undescribed").where(age=dp.present)


@dp.mechanism(columns={"columns": "columns"})
def which_gaps(curator, columns, nan_policy: dp.NanPolicy = "omit"):
    """Say which columns a row must have a value in, for nothing."""
    return [column.name for column in curator.gaps(columns, nan_policy)]


@pytest.fixture
def gaps_asked():
    register_mechanism(which_gaps)
    yield
    unregister("which_gaps")


@pytest.mark.usefixtures("gaps_asked")
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


@pytest.mark.usefixtures("gaps_asked")
def test_only_public_gaps_are_refused():
    """What is missing in a public column is said before anything is paid; of a private one nothing is."""
    view = protect(public=["arm"])

    with pytest.raises(dp.ArgumentError, match="A value is missing in 'arm'"):
        view.which_gaps("arm", "raise", epsilon=1)
    with pytest.raises(dp.ArgumentError, match="would tell whether a private value is missing in 'age'"):
        view.which_gaps("age", "raise", epsilon=1)
    with pytest.raises(dp.ArgumentError, match="would tell"):
        view.where(age=dp.present).which_gaps("arm", "raise", epsilon=1)
    assert view.where(arm="a").which_gaps("arm", "raise", epsilon=1).value == []
    assert view.budget.spent == 0


# ---- in bundled methods -----------------------------------------------------------------------------------

N = 2000
RNG = np.random.default_rng(1)
VALUES, OTHERS = RNG.uniform(0, 10, (2, N))
VALUES[: N // 4] = np.nan  # a quarter is missing
GAPS = pd.DataFrame({"x": VALUES, "y": OTHERS, "arm": ["a", "b"] * (N // 2)})
SIZES = {
    "ttest": lambda view, **how: sum(view.ttest("x", epsilon=100, **how).sizes),
    "moments": lambda view, **how: view.moments(["x", "y"], epsilon=100, **how).sizes[0],
    "gmm_fit": lambda view, **how: sum(view.gmm_fit(["x", "y"], "arm", epsilon=100, **how).sizes),
    "kme_release": lambda view, **how: view.kme_release(["x"], epsilon=100, **how).size,
    "kernel_two_sample": lambda view, **how: sum(
        view.kernel_two_sample(["x"], by="arm", lengthscale=1.0, epsilon=100, **how).sizes
    ),
    "dcor": lambda view, **how: N - (view.dcor("x", "y", epsilon=100, **how).missing or 0),
}


def many(name, **terms):
    return dp.protect(
        GAPS,
        name,
        epsilon=10**6,
        ledger="memory:",
        bounds={"x": (0, 10), "y": (0, 10)},
        categories={"arm": ["a", "b"]},
        public=["arm"],
        **terms,
    )


@pytest.mark.parametrize("method", SIZES)
def test_missing_values_are_left_out(method):
    """By default rows without a value are not counted, and with "fill" they are."""
    view = many("with gaps")

    assert SIZES[method](view) == pytest.approx(0.75 * N, abs=20)
    assert SIZES[method](view, nan_policy="fill") == pytest.approx(N, abs=1e-9)


@pytest.mark.parametrize("method", SIZES)
def test_what_was_said_to_count_is_counted(method):
    """A missing value of which somebody said what it counts as is not left out, nor refused."""
    view = many("filled", missing={"x": 5, "y": 5})

    assert SIZES[method](view) == pytest.approx(N, abs=1e-9 if method != "dcor" else 1)  # dcor counts anyway
