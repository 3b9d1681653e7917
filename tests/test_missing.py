"""Whether a value is missing: the row's own fact, in batches, features, statistics and conditions."""

# ruff: noqa: PD011, SIM300 - no pandas here; expected == actual

from __future__ import annotations

import copy
import datetime as dt
import itertools
import math
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dfprivacy as dp
from dfprivacy._measure.evaluate import Table, union
from dfprivacy._plugins.loader import register_mechanism, unregister
from dfprivacy._table import batch as rows
from dfprivacy._table.batch import Batch, batches, described, gathered, reads_of
from dfprivacy._table.conditions import Is, Satisfies, condition
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import Dictionary, adapt
from dfprivacy.errors import ArgumentError, SchemaError
from dfprivacy.features import Count, Given, Moments, OneHot, Outer, RowFeatures
from dfprivacy.schema import Column
from dfprivacy.statistics import OfRows
from dfprivacy_audit import Case, check_mechanism

pytestmark = pytest.mark.pandas

X = Column("x", bounds=(0.0, 10.0), fill=5.0)
Y = Column("y", bounds=(-1.0, 1.0), fill=0.0)
BY = Column("by", categories=("a", "b", 3))
REST = Column("by", categories=("a", "other"), other=True)
BOTH = Column("x", bounds=(0.0, 1.0), categories=(False, True), fill=0.5)


def gone(frame, column):
    """Row by row, whether a value is missing."""
    found = [batch.missing(column) for batch, _ in batches(adapt(frame), [described(column)], ())]
    return np.concatenate(found).tolist()


def plain(values, name="x"):
    return pd.DataFrame({name: pd.Series(values, dtype=object)})


def batch_of(x, y=None, by=None):
    raw = {described(X): np.asarray(x, dtype=np.float64)}
    raw |= {} if y is None else {described(Y): np.asarray(y, dtype=np.float64)}
    raw |= {} if by is None else {described(BY): Dictionary(np.asarray(by, dtype=np.intp), ["a", "b", 3])}
    return Batch(len(x), raw)


# ---- the fact --------------------------------------------------------------------------------------------


def test_what_stands_for_no_number_is_missing():
    """NaN, None, NaT, words and lists are missing; numbers, also as text, booleans, decimals and dates are not."""
    there = [1, 2.5, -1e300, math.inf, -math.inf, True, Decimal(3), dt.date(2020, 1, 1), 10**400, 4 + 0j, "7", b"7"]
    missing = [math.nan, None, pd.NaT, pd.NA, "seven", [1], 1j, dt.timedelta(1), Decimal("NaN")]

    assert [False] * len(there) + [True] * len(missing) == gone(plain(there + missing), X)


def test_what_is_filled_is_what_is_missing():
    """A value is missing exactly where another fill would give another number."""
    values = [0.0, 5.0, 12.0, math.nan, None, "text", -math.inf]
    other = Column("x", bounds=(0.0, 10.0), fill=7.0)
    [(batch, _)] = batches(adapt(plain(values)), [described(X)], ())

    assert (batch.values(X) != batch.values(other)).tolist() == batch.missing(X).tolist()


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


# ---- features of complete rows ---------------------------------------------------------------------------

GIVEN = {
    "count": Given(X),
    "moments": Given(X, of=Moments(X)),
    "halves": Given(X, of=Moments(X, degree=1, count=True)),
    "squares": Given(X, of=Moments(X, count=True)),
    "two": Given(X, Y, of=Moments(X)),
    "categories": Given(X, of=OneHot(BY)),
    "another": Given(BY, of=Moments(X)),
    "nothing left": Given(X, of=Count()),
}


def points():
    x, y, by = zip(*itertools.product([0, 2.5, 10, math.nan], [-1, 0.5, math.nan], [0, 2, -1]), strict=True)
    return batch_of(x, y, by)


@pytest.mark.parametrize("name", GIVEN)
def test_a_missing_row_contributes_nothing(name):
    """The vector of a row is that of the features if all values are there, and zero if not."""
    features, batch = GIVEN[name], points()
    missing = np.any([batch.missing(column) for column in features.given], axis=0)

    found = features.rows(batch)

    assert missing.any()
    assert not found[missing].any()
    assert features.of.rows(batch)[~missing].tolist() == found[~missing].tolist()


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("name", GIVEN)
def test_the_radius_and_diameter_of_complete_rows_are_attained(name, norm):
    """Radius and diameter bound the vectors and their distances, and corners of the domain attain them."""
    features = GIVEN[name]
    fine = batch_of(
        *zip(*itertools.product([*np.linspace(0, 10, 61), math.nan], [0, math.nan], [0, 1, -1]), strict=True)
    )
    found = features.rows(fine)
    farthest = max(np.linalg.norm(found - row, ord=norm, axis=1).max() for row in found)

    assert farthest == pytest.approx(features.diameter(norm, frozenset()), rel=1e-3)
    assert farthest <= features.diameter(norm, frozenset()) * (1 + 1e-12)
    assert np.linalg.norm(found, ord=norm, axis=1).max() == pytest.approx(features.radius(norm), rel=1e-3)


def test_rows_that_agree_on_what_must_be_there_are_no_further_apart_than_the_features():
    """Given a public column, the diameter is that of the features; given a private one, at least the radius."""
    open_ = Column("open", bounds=(0.0, 1.0), fill=0.5, public=True)

    assert 0 == Given(open_).diameter(1, frozenset({"open"}))
    assert 2 == Given(open_, of=Moments(X, degree=1)).diameter(1, frozenset({"open"}))
    assert 1 == Given(X).diameter(1, frozenset({"open"}))
    assert 1 == Given(open_, X).diameter(1, frozenset({"open"}))


@settings(max_examples=50, deadline=None)
@given(data=st.data(), k=st.integers(0, 20), name=st.sampled_from(sorted(GIVEN)))
def test_the_total_of_complete_rows_is_the_sum_of_their_steps(data, k, name):
    """Totals, and totals by place, add up the rows' whole steps, under every mask."""
    features, batch = GIVEN[name], points()
    mask = data.draw(st.lists(st.booleans(), min_size=batch.size, max_size=batch.size).map(np.array))
    place = np.array(data.draw(st.lists(st.integers(0, 2), min_size=batch.size, max_size=batch.size)))
    steps = features.steps(batch, k)

    assert steps[mask].sum(axis=0).tolist() == features.total(batch, mask, k).tolist()
    assert steps.sum(axis=0).tolist() == features.total(batch, None, k).tolist()
    assert [steps[place == at].sum(axis=0).tolist() for at in (0, 1)] == features.totals(
        batch, place, 2, k
    ).tolist()


def test_products_of_complete_rows_are_their_second_moments():
    """Features with an image of their own, such as products, keep it, by group as well."""
    batch = batch_of([10, 5, math.nan, 0], [1, math.nan, 0, -1], [0, 0, 0, 1])
    features = Given(X, Y, of=Outer([X, Y], radius=1.4, count=True))
    plain_, rest = Outer([X, Y], radius=1.4, count=True), batch_of([10, 0], [1, -1], [0, 1])

    found = features.image([int(each) for each in features.total(batch, None, 20)], 20)

    assert plain_.image([int(each) for each in plain_.total(rest, None, 20)], 20) == found
    assert (OneHot(BY) * features).total(batch, None, 20).tolist() == (OneHot(BY) * plain_).total(
        rest, None, 20
    ).tolist()


class Long(RowFeatures):
    """Somebody else's features, with vectors a hundred times as long as they say."""

    shape = (1,)

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        return 100 * batch.standardized(self.columns[0])[:, None]

    def radius(self, norm):
        return 1.0


def test_complete_rows_of_somebody_elses_features_are_clipped():
    """Features that are wrapped are held to the radius that they say."""
    features = Given(Y, of=Long(X))

    steps = features.steps(batch_of([10, 0, 10], [1, 1, math.nan]), 0)

    assert [[1], [-1], [0]] == steps.tolist()
    assert 2 == features.diameter(1, frozenset())


def test_complete_rows_of_no_column():
    """What must be there has to be named."""
    with pytest.raises(ArgumentError, match="no column"):
        Given(of=Moments(X))


def test_complete_rows_can_be_gathered():
    """Columns that must be there and are summed are named once, so that a kit can show features their rows."""
    frame = pd.DataFrame({"x": [1.0, math.nan, 3.0]})
    schema = read_schema(
        adapt(frame), bounds={"x": (0, 10)}, categories=None, public=(), missing=None, neighbors="replace_one"
    )
    column = schema.columns["x"]
    features = Given(column, of=Moments(column, degree=1))

    rows = features.rows(Table(adapt(frame), schema).gathered(features.columns))

    assert (column,) == features.columns
    assert [[-0.8], [0.0], [-0.4]] == rows.tolist()


def test_complete_rows_in_words():
    """An explanation says of which rows the features are."""
    assert "Moments(x) given x, y" == Given(X, Y, of=Moments(X)).describe()
    assert "Count() given x" == Given(X).describe()


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


CHECKED = ("loss_within_charge", "charge_is_tight", "concludes_from_noise_alone", "same_on_every_frame")


def failures(mechanism, case):
    """What the checks that are about privacy say against a mechanism."""
    checks = [check for check in check_mechanism(mechanism, [case]) if check.name in CHECKED]
    assert len(checks) == len(CHECKED)
    return [(found.check, found.detail) for found in (check.run() for check in checks) if found.status == "failed"]


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


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_complete_rows_pass_the_audit(neighbors):
    """The sums of complete rows are as private as they are charged, and no noise is wasted."""
    case = Case(arguments={"column": "x"}, bounds={"x": (-1.0, 1.0)}, neighbors=neighbors, epsilon=1)

    assert [] == failures(average_of_present, case)


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


def test_presence_by_group():
    """A view of the rows with a value can be asked by group."""
    found = protect().where(age=dp.present).group_by("arm").average_of_present("age", epsilon=10**5)

    assert 40 == pytest.approx(found["a"].value["mean"], abs=0.01)
    assert [80, 0] == [pytest.approx(found[arm].value["count"], abs=0.01) for arm in ("a", "b")]


def test_presence_in_two_views():
    """Of two views that are asked together, each keeps the condition of its own."""
    first, second = protect(name="first"), protect(name="second")

    found = first.where(age=dp.present).sizes(other=second.where(arm=dp.missing), epsilon=10**5).value

    assert [120, 80] == pytest.approx(found, abs=0.01)


def test_presence_of_a_column_that_nobody_described():
    """Whether a value is there cannot be said of a column with neither bounds nor categories."""
    with pytest.raises(SchemaError, match="has no bounds"):
        protect(bounds=None, name="undescribed").where(age=dp.present)


@pytest.mark.parametrize("wanted", [dp.present, dp.missing])
def test_presence_passes_the_audit(wanted):
    """A question about the rows with, or without, a value is as private as it is charged."""
    case = Case(
        arguments={"column": "x"}, bounds={"x": (-1.0, 1.0), "y": (0.0, 1.0)}, where={"y": wanted}, epsilon=1,
        tightness=0.0,  # a row that enters or leaves moves the sums less than one that changes
    )  # fmt: skip

    assert [] == failures(average_of_present, case)


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
