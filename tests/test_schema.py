"""What may be said about a table, and what becomes of raw values."""

# ruff: noqa: DTZ001 - stamps without a time zone are among what is tested

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dfprivacy
from dfprivacy._table.frames import Dictionary
from dfprivacy.errors import SchemaError
from dfprivacy.schema import Column, Schema
from dfprivacy.schema.values import days, plain_number

pytestmark = pytest.mark.pandas

CANARY = 31337.25
DAYS = {"age": [CANARY, 2.0], "arm": ["a", "canary"], "note": ["canary", "b"]}


class Broken(Fraction):
    """A number that cannot be had."""

    def __float__(self):
        raise RuntimeError("canary")


# ---- what is said ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bounds",
    [
        (10, 0),
        (1, 1),
        (0, math.inf),
        (-math.inf, 0),
        (math.nan, 1),
        (0, math.nan),
        (0,),
        (0, 1, 2),
        (),
        ("0", "1"),
        "01",
        5,
        None.__class__,
        {0: 1},
        (None, 1),
        (0, 10**400),
        (-1.7e308, 1.7e308),
        (0, 1e-310),
        (dt.date(2020, 1, 2), dt.date(2020, 1, 1)),
    ],
)
def test_bounds_that_cannot_be_used(constructor, schema_of, bounds):
    """Bounds that are no finite, increasing pair of numbers or dates are refused."""
    with pytest.raises(SchemaError, match="age") as caught:
        schema_of(constructor(DAYS), bounds={"age": bounds})

    assert "canary" not in str(caught.value)
    assert str(CANARY) not in str(caught.value)


@pytest.mark.parametrize(
    "said",
    [
        {"bounds": (1.0, 1.0)},
        {"bounds": (math.nan, 1.0)},
        {"bounds": (0.0, math.inf)},
        {"bounds": "01"},
        {"bounds": (0.0, 1.0), "fill": 1.5},
        {"bounds": (0.0, 1.0), "fill": math.nan},
        {"categories": ()},
        {"categories": ("a", "a")},
        {"categories": (1, True)},
        {"other": True},
        {"name": 7},
    ],
)
def test_a_column_checks_itself(said):
    """What a plugin makes of a column is checked as what a user says of it."""
    with pytest.raises(SchemaError):
        Column(**{"name": "x", **said})


def test_a_column_without_a_fill_counts_what_is_missing_as_the_middle():
    """Numbers become floats, lists tuples; the fill is the middle of the bounds."""
    column = Column("x", bounds=[18, 20], categories=["a"])

    assert (column.bounds, column.categories, column.fill) == ((18.0, 20.0), ("a",), 19.0)


@pytest.mark.parametrize(
    "categories",
    [
        [],
        "abc",
        7,
        ["a", "a"],
        [1, True],
        [1, 1.0],
        [0, False],
        [0.0, -0.0],
        [2**53, 2**53 + 1],
        [math.nan],
        [math.inf],
        [None],
        [["a"]],
        [b"a"],
        [10**400],
        [Decimal(1)],
        [dt.date(2020, 1, 1)],
        {"a", "b"},
    ],
)
def test_categories_that_cannot_be_used(constructor, schema_of, categories):
    """Categories that are no list of different strings and finite numbers are refused."""
    with pytest.raises(SchemaError, match="arm") as caught:
        schema_of(constructor(DAYS), categories={"arm": categories})

    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "said",
    [
        {"bounds": {"ages": (0, 1)}},
        {"categories": {"arms": ["a"]}},
        {"missing": {"ages": 1}},
        {"public": ["ages"]},
        {"public": "age"},
        {"public": 5},
        {"bounds": [("age", (0, 1))]},
        {"categories": "arm"},
        {"missing": 1},
        {"neighbors": "replace"},
        {"neighbors": ["replace_one"]},
        {"neighbors": "add_remove", "public": ["arm"]},
        {"missing": {"age": 5}},
        {"missing": {"age": "other"}},
        {"bounds": {"age": (0, 1)}, "missing": {"age": 1.5}},
        {"bounds": {"age": (0, 1)}, "missing": {"age": -0.5}},
        {"bounds": {"age": (0, 1)}, "missing": {"age": math.nan}},
        {"bounds": {"age": (0, 1)}, "missing": {"age": "zero"}},
        {"categories": {"arm": ["a"]}, "missing": {"arm": "another"}},
        {"categories": {"arm": ["a"]}, "missing": {"arm": 0}},
    ],
)
def test_what_cannot_be_said(constructor, schema_of, said):
    """Unknown columns, wrong shapes and contradictions are refused, in public words."""
    with pytest.raises(SchemaError) as caught:
        schema_of(constructor(DAYS), **said)

    assert "canary" not in str(caught.value)
    assert str(CANARY) not in str(caught.value)


def test_protect_refuses_the_same_and_opens_no_account(ledger):
    """`protect` says what is wrong with the schema before it touches the ledger."""
    with pytest.raises(SchemaError, match="equal or reversed"):
        dfprivacy.protect(pd.DataFrame(DAYS), "study", epsilon=1, bounds={"age": (9, 1)})

    assert not ledger.exists()


def test_an_empty_table_is_refused_where_its_size_is_public(constructor, schema_of):
    """A table without rows can only be protected if how many there are is private."""
    frame = constructor({"x": np.array([], dtype=np.float64)})

    with pytest.raises(SchemaError, match="no rows"):
        schema_of(frame, bounds={"x": (0, 1)})
    assert schema_of(frame, bounds={"x": (0, 1)}, neighbors="add_remove").size is None


def test_two_columns_of_one_name_are_refused(schema_of):
    """A name stands for one column, also where two names only look alike."""
    arrow = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])

    for frame in (pd.DataFrame([[1, 2]], columns=["x", "x"]), pd.DataFrame([[1, 2]], columns=[1, "1"]), arrow):
        with pytest.raises(SchemaError, match="more than once"):
            schema_of(frame)


def test_a_boolean_column_is_declared_like_any_other(constructor, schema_of):
    """The type of a boolean column says nothing, for one value can change it; the errors say what to write."""
    frame = constructor({"x": [True, False]})

    assert schema_of(frame).columns == {}
    with pytest.raises(
        SchemaError, match=r"bounds=\{'x': \(low, high\)\}\), where \(0, 1\) is that of True and False"
    ):
        schema_of(frame).numeric("x")
    with pytest.raises(SchemaError, match=r"categories=\{'x': \[False, True\]\}"):
        schema_of(frame).categorical("x")
    with pytest.raises(
        SchemaError, match=r"bounds=\{'x': \(low, high\)\}, where \(0, 1\) is that of True and False"
    ):
        schema_of(frame, categories={"x": [False, True]}).numeric("x")


def test_a_date_is_a_bound(schema_of):
    """Dates are bounds like their numbers of days."""
    schema = schema_of(pd.DataFrame(DAYS), bounds={"age": (dt.date(1970, 1, 2), dt.date(1970, 1, 11))})

    assert schema.numeric("age").bounds == (1.0, 10.0)


def test_the_fill_value_is_the_middle_unless_said(constructor, schema_of):
    """A missing number counts as the middle of the bounds, or as what was said."""
    frame = constructor(DAYS)

    assert schema_of(frame, bounds={"age": (2, 10)}).columns["age"].fill == 6
    assert schema_of(frame, bounds={"age": (2, 10)}, missing={"age": 3}).columns["age"].fill == 3


def test_other_is_the_last_category(constructor, schema_of):
    """The category for everything else comes last, wherever it was listed."""
    for categories in (["a", "b"], ["other", "a", "b"]):
        schema = schema_of(constructor(DAYS), categories={"arm": categories}, missing={"arm": "other"})

        assert schema.columns["arm"].categories == ("a", "b", "other")


def test_a_schema_knows_size_and_columns(constructor, schema_of):
    """The schema holds what was said, and the number of rows where it is public."""
    schema = schema_of(constructor(DAYS), bounds={"age": (0, 9)}, public=["arm"])

    assert schema.names == ("age", "arm", "note")
    assert list(schema.columns) == ["age", "arm"]
    assert schema.columns["arm"].public
    assert schema.size == 2


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda schema: schema.numeric("nope"), "There is no column 'nope'"),
        (lambda schema: schema.numeric(3), "named by a string, not by int"),
        (lambda schema: schema.numeric("note"), "has no bounds"),
        (lambda schema: schema.numeric("arm"), "is categorical"),
        (lambda schema: schema.categorical("age"), "has no categories"),
        (lambda schema: schema.select(["age", "nope"]), "There is no column 'nope'"),
        (lambda schema: schema.categorical("arm").code("z"), "'z' is not a category"),
    ],
)
def test_asking_for_what_was_not_said(schema_of, ask, text):
    """A method that needs bounds or categories that nobody gave is told so."""
    schema = schema_of(pd.DataFrame(DAYS), bounds={"age": (0, 9)}, categories={"arm": ["a", "b"]})

    with pytest.raises(SchemaError, match=text):
        ask(schema)


def test_select_keeps_order_and_knowledge(schema_of):
    """A selection knows of its columns what the whole did."""
    schema = schema_of(pd.DataFrame(DAYS), bounds={"age": (0, 9)}, categories={"arm": ["a", "b"]})

    part = schema.select(["arm", "age"])

    assert part.names == ("arm", "age")
    assert schema.columns == part.columns
    assert isinstance(part, Schema)


@pytest.mark.parametrize("category", [1, 1.0, True, np.int8(1), np.float32(1)])
def test_code_of_a_category(category):
    """1, 1.0 and True name one category; "1" names another."""
    column = Column("x", categories=("1", 1, "True"))

    assert column.code(category) == 1
    assert column.code("1") == 0


@pytest.mark.parametrize("category", ["2", 2, None, math.nan, [1], np.array([1, 2]), b"2", b"\xff", 10**400])
def test_code_of_what_is_no_category(category):
    """Whatever is no category has no code."""
    with pytest.raises(SchemaError, match="not a category"):
        Column("x", categories=("1", 1, "True")).code(category)


def test_a_column_is_described_in_plain_values():
    """What is known of a column can be written as JSON."""
    column = Column("x", (0.0, 1.0), ("a", 2), 0.5, other=False, public=True)

    expected = {"bounds": [0.0, 1.0], "categories": ["a", 2], "fill": 0.5, "other": False, "public": True}
    assert expected == column.describe()


# ---- what becomes of values ------------------------------------------------------------------------------


def test_clean_clips_and_fills():
    """Numbers beyond the bounds become the bounds, infinities too, and NaN the fill value."""
    raw = np.array([3.5, -1, 11, math.inf, -math.inf, math.nan, 0, 10])
    raw.flags.writeable = False

    assert Column("x", (0.0, 10.0), fill=2.0).clean(raw).tolist() == [3.5, 0, 10, 10, 0, 2, 0, 10]


@pytest.mark.parametrize("dtype", [*"bBhHiIlLqQ", "f2", "f4", "f8", "g", "?", ">f8", ">i4"])
def test_clean_takes_every_dtype_and_gives_a_new_float64(dtype):
    """Cleaned values are new float64 arrays, whatever the raw ones were."""
    raw = np.array([0, 1, 1], dtype=dtype)

    cleaned = Column("x", (0.0, 10.0), fill=2.0).clean(raw)

    assert cleaned.tolist() == [0, 1, 1]
    assert np.float64 == cleaned.dtype
    assert not np.shares_memory(raw, cleaned)


def test_categories_that_come_and_go_are_not_taken_for_each_other():
    """Codes are those of a column's own categories, though another tuple may have had its place in memory."""
    columns = (Column("g", categories=tuple(range(at, at + 3))) for at in range(500))

    assert all(column.encode(np.array([at + 1, at + 9])).tolist() == [1, 3] for at, column in enumerate(columns))


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (18, 90), (1e16, 1e16 + 2), (0.1, np.nextafter(0.1, 1)), (-1e300, 1e307), (1 / 3, 0.7), (0, 3e-300)],
)
def test_standardized_bounds_stay_within_one(low, high):
    """However the middle of the bounds is rounded, no value within them is mapped outside [-1, 1]."""
    column = Column("x", (float(low), float(high)))
    values = np.unique(np.clip(np.linspace(low, high, 1001), low, high))

    y = (values - column.mid) / column.half

    assert np.abs(y).max() <= 1
    assert np.abs(y).max() >= 1 - 1e-15


@pytest.mark.parametrize(
    ("raw", "categories", "expected"),
    [
        (np.array([1, 2, 3, 9], dtype=np.int64), (3, 1, 2), [1, 2, 0, 3]),
        (np.array([-1, 0, 1], dtype=np.int8), (1, -1), [1, 2, 0]),
        (np.array([-128, 127], dtype=np.int8), (127, -128, 300, -300), [1, 0]),
        (np.array([0, 255], dtype=np.uint8), (300, 301), [2, 2]),
        (np.array([0, 255], dtype=np.uint8), (-5, -3), [2, 2]),
        (np.array([2**64 - 1, 0], dtype=np.uint64), (-1, 0), [2, 1]),
        (np.array([2**63, 5], dtype=np.uint64), (5,), [1, 0]),
        (np.array([-(2**63), 2**63 - 1, 7]), (7,), [1, 1, 0]),
        (np.array([2**53, 2**53 + 2]), (2**53 + 2, 2**53), [1, 0]),
        (np.array([1, 70_000, 2]), (1, 70_000), [0, 1, 2]),
        (np.array([0.5, 1, 2, 1.5]), (2, 0.5, 1), [1, 2, 0, 3]),
        (np.array([1, 2, 3]), (0.5, 1, 2), [1, 2, 3]),
        (np.array([-1, 0, 1]), (-0.5, 0, 1), [3, 1, 2]),
        (np.array([1.0, 1.5, math.nan, math.inf, -math.inf, -0.0]), (0, 1), [1, 2, 2, 2, 2, 0]),
        (np.array([1.0, math.nan, math.inf]), (0.25, 1), [1, 2, 2]),
        (np.array([65504, 1], dtype=np.float16), (1, 2), [2, 0]),
        (np.array([True, False]), (False, True), [1, 0]),
        (np.array([True, False]), (1, 2), [0, 2]),
        (np.array([True, False]), (3, 4), [2, 2]),
        (np.array([1.0, 0.0]), (True, "1"), [0, 2]),
        (np.array([1, 2]), ("1", "2"), [0, 1]),
        (np.array([2, 10, 3], dtype=np.uint8), ("10", "2", "02"), [3, 0, 3]),
        (np.array([1.0, 2.5, math.nan]), ("2.5", "1"), [1, 0, 2]),
        (np.array([1.0, 2.0]), ("1.0", "2.00"), [0, 1]),
        (np.array([1, 2]), ("1", "1.0", "2"), [3, 2]),
        (np.array([1, 0]), ("1", "true", 0), [3, 2]),
        (np.array([1, 0]), ("1", 1.0), [1, 2]),
        (np.array([True, False]), ("False", "True"), [1, 0]),
        (np.array([True, False]), ("false", "true"), [1, 0]),
        (np.array([2**53, 2**53 - 1]), (str(2**53), str(2**53 - 1)), [0, 1]),
        (np.array([1000.0, math.nan, math.inf]), ("1_000", "nan", "inf", " 1000", "+1000", "1e3"), [6, 6, 6]),
        (np.array([], dtype=np.int64), (1, 2), []),
        (np.array([], dtype=np.float64), (1, 2.5), []),
    ],
)
def test_numbers_among_categories(raw, categories, expected):
    """A number is the category of the same value, in whatever type, and no other."""
    before = raw.copy()

    assert expected == Column("x", categories=categories).encode(raw).tolist()
    np.testing.assert_array_equal(before, raw)


def test_any_value_among_categories():
    """Values of a dictionary are told apart by kind: text, number, and all else."""
    values = ["1", b"1", 1, 1.0, True, Decimal(1), Fraction(1), np.int8(1), np.bool_(True), 1 + 0j, None, math.nan]
    values += [
        1 + 1j,
        [1],
        Broken(1),
        dt.date(1970, 1, 2),
        pd.Timestamp(1),
        Decimal("sNaN"),
        10**400,
        b"\xff",
        "",
        pd.NA,
    ]
    column = Column("x", categories=("1", 1))

    codes = column.encode(Dictionary(np.arange(-1, len(values)), values))

    assert [2, 0, 0, *[1] * 8, *[2] * 5, 1, *[2] * 6] == codes.tolist()


@pytest.mark.parametrize(
    ("text", "categories", "code"),
    [
        ("1", (0, 1), 1),
        (b"1", (0, 1), 1),
        ("1.0", (0, 1), 1),
        ("True", (False, True), 1),
        ("false", (False, True), 0),
        ("0.5", (1, 0.5), 1),
        ("-3", (-3, 3), 0),
        ("1", (1, "1"), 1),
        ("1.0", (1, "1"), 0),
        ("1.0", ("1", "2"), 0),
        ("01", (0, 1), 1),
        (" 1", (0, 1), 1),
        ("1_0", (10, 1), 2),
        ("nan", (0, 1), 2),
        ("", (0, 1), 2),
    ],
)
def test_a_text_that_reads_as_a_number_is_the_category_of_that_number(text, categories, code):
    """A text counts as the number that it reads as, where no category is the text itself."""
    assert [code] == Column("x", categories=categories).encode(Dictionary(np.array([0]), [text])).tolist()


def test_other_takes_all_that_is_no_category():
    """With a category for everything else, a row always has one."""
    column = Column("x", categories=("a", 1, "other"), other=True)

    assert column.encode(Dictionary(np.array([0, 1, 2, -1]), ["a", "b", "other"])).tolist() == [0, 2, 2, 2]
    assert column.encode(np.array([1, 2, math.nan])).tolist() == [1, 2, 2]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3),
        (2.5, 2.5),
        (True, 1),
        (np.bool_(True), 1),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.uint64(2**64 - 1), 2.0**64),
        (Decimal("0.1"), 0.1),
        (Decimal("1e400"), math.inf),
        (Decimal("-Infinity"), -math.inf),
        (Fraction(1, 3), 1 / 3),
        (2.5 + 0j, 2.5),
        (np.complex64(2.5), 2.5),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        (Fraction(-(10**400), 3), -math.inf),
        (dt.date(1970, 1, 3), 2),
        (dt.date(1969, 12, 31), -1),
        (dt.datetime(1970, 1, 2, 12), 1.5),
        (dt.datetime(1969, 12, 31, 12), -0.5),
        (dt.datetime(1970, 1, 2, 1, tzinfo=dt.timezone(dt.timedelta(hours=13))), 0.5),
        (pd.Timestamp("1970-01-02T12:00"), 1.5),
        (pd.Timestamp("1970-01-02T13:00", tz="Europe/Paris"), 1.5),
        (np.datetime64("1970-01-02T12:00"), 1.5),
        (np.datetime64("1970-01-03"), 2),
        (np.datetime64("1971"), 365),
    ],
)
def test_the_number_a_value_stands_for(value, number):
    """Numbers, booleans, decimals and dates stand for a number, whatever their type."""
    assert number == plain_number(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        pd.NA,
        pd.NaT,
        np.datetime64("NaT", "D"),
        np.datetime64("NaT", "ns"),
        math.nan,
        Decimal("NaN"),
        Decimal("sNaN"),
        "5",
        b"5",
        1 + 2j,
        dt.timedelta(1),
        np.timedelta64(1, "D"),
        dt.time(1),
        [1],
        Broken(1),
        object(),
    ],
)
def test_a_value_that_stands_for_no_number(value):
    """Everything else is missing; nothing raises, for an error would tell on its row."""
    assert math.isnan(plain_number(value))


def test_days_do_not_depend_on_the_unit():
    """The same instant is the same number to the last bit, in every unit and as a Python datetime."""
    rng = np.random.default_rng(5)
    milliseconds = rng.integers(-(10**13), 4 * 10**12, 1000)  # years 1653 to 2096
    milliseconds[0] = -1
    stamps = milliseconds.astype("datetime64[ms]")

    expected = [plain_number(stamp) for stamp in stamps.tolist()]

    for unit in ("ms", "us", "ns"):
        in_range = stamps > np.datetime64("1678")
        same = days(stamps[in_range].astype(f"datetime64[{unit}]")).tolist()
        assert np.array(expected)[in_range].tolist() == same
    assert expected == days(stamps).tolist()
    assert expected[:99] == [plain_number(pd.Timestamp(stamp)) for stamp in stamps[:99]]


def test_days_of_extreme_stamps():
    """The ends of what a stamp can hold, and NaT, give numbers or NaN and no error."""
    day = 86_400 * 10**9
    ends = np.array([-(2**63) + day, 2**63 - 1, -(2**63), -(2**63) + 1]).view("datetime64[ns]")

    found = days(ends)

    assert np.round(found[:2], 2).tolist() == [-106750.99, 106751.99]
    assert np.isnan(found[2:]).tolist() == [True, False]


@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns"])
def test_days_of_every_unit(unit):
    """A stamp is the same number of days in every unit, and the ends of the unit are numbers."""
    day = int(np.timedelta64(1, "D") / np.timedelta64(1, unit))
    stamps = np.array([-5 * day - day // 4, 3 * day, -(2**63) + 1, 2**63 - 1, -(2**63)]).view(f"datetime64[{unit}]")

    found = days(stamps)

    assert found[:2].tolist() == [-5.25 if day > 1 else -5.0, 3.0]
    assert np.isfinite(found).tolist() == [True, True, True, True, False]
