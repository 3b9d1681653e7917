"""What may be said about a table, and what becomes of raw values."""

# ruff: noqa: DTZ001 - stamps without a time zone are among what is tested

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dfprivacy.errors import SchemaError
from dfprivacy.schema import Column, Schema
from dfprivacy.schema.values import Dictionary, days, plain_number

pytestmark = pytest.mark.pandas


class Broken(Fraction):
    """A number that cannot be had."""

    def __float__(self):
        raise RuntimeError("canary")


# ---- what is said ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [
    {"bounds": (1.0, 1.0)}, {"bounds": (math.nan, 1.0)}, {"bounds": (0.0, math.inf)}, {"bounds": "01"},
    {"bounds": (0.0, 1.0), "fill": 1.5}, {"bounds": (0.0, 1.0), "fill": math.nan}, {"categories": ()},
    {"categories": ("a", "a")}, {"categories": (1, True)}, {"other": True}, {"name": 7},
])  # fmt: skip
def test_a_column_checks_itself(said):
    """What a plugin makes of a column is checked as what a user says of it."""
    with pytest.raises(SchemaError):
        Column(**{"name": "x", **said})


def test_a_column_without_a_fill_counts_what_is_missing_as_the_middle():
    """Numbers become floats, lists tuples; the fill is the middle of the bounds."""
    column = Column("x", bounds=[18, 20], categories=["a"])

    assert (column.bounds, column.categories, column.fill) == ((18.0, 20.0), ("a",), 19.0)


DATA = {"age": [31337.25, 2.0], "arm": ["a", "canary"], "note": ["canary", "b"], "flag": [True, False]}


def test_a_schema_knows_what_was_said(constructor, schema_of):
    """Columns with their bounds and categories, missing values and "other", and how many rows there are."""
    days = dt.date(1970, 1, 2), dt.date(1970, 1, 11)
    schema = schema_of(
        constructor(DATA),
        bounds={"age": days},
        categories={"arm": ["other", "a", "b"]},
        public=["arm"],
        missing={"arm": "other", "age": 3},
    )
    part = schema.select(["arm", "age"])

    assert (schema.names, list(schema.columns), schema.size) == (tuple(DATA), ["age", "arm"], 2)
    assert (schema.numeric("age").bounds, schema.numeric("age").fill) == ((1.0, 10.0), 3)
    assert schema.categorical("arm").categories == ("a", "b", "other")
    assert schema.categorical("arm").public
    assert schema.words == {"age": ("age since 1970-01-01", "days")}
    assert (part.names, part.columns, type(part)) == (("arm", "age"), schema.columns, Schema)
    assert schema_of(constructor(DATA), bounds={"age": (2, 10)}).numeric("age").fill == 6
    nobody = constructor({"x": np.array([], dtype=np.float64)})
    with pytest.raises(SchemaError, match="no rows"):
        schema_of(nobody, bounds={"x": (0, 1)})
    assert schema_of(nobody, bounds={"x": (0, 1)}, neighbors="add_remove").size is None


BOTH = {"bounds": {"age": (0, 9)}, "categories": {"arm": ["a", "b"]}}
UNSAID = [
    (BOTH, lambda schema: schema.numeric("nope"), "There is no column 'nope'"),
    (BOTH, lambda schema: schema.numeric(3), "named by a string, not by int"),
    (BOTH, lambda schema: schema.numeric("note"), "has no bounds"),
    (BOTH, lambda schema: schema.numeric("arm"), "is categorical"),
    (BOTH, lambda schema: schema.categorical("age"), "has no categories"),
    (BOTH, lambda schema: schema.select(["age", "nope"]), "There is no column 'nope'"),
    (BOTH, lambda schema: schema.categorical("arm").code("z"), "'z' is not a category"),
    (
        {},
        lambda s: s.numeric("flag"),
        r"bounds=\{'flag': \(low, high\)\}\), where \(0, 1\) is that of True and False",
    ),
    ({}, lambda schema: schema.categorical("flag"), r"categories=\{'flag': \[False, True\]\}"),
    (
        {"categories": {"flag": [False, True]}},
        lambda schema: schema.numeric("flag"),
        r"bounds=\{'flag': \(low, high\)\}; for True and False, \(0, 1\)",
    ),
]


@pytest.mark.parametrize(("said", "ask", "text"), UNSAID)
def test_asking_for_what_was_not_said(schema_of, said, ask, text):
    """A method that needs bounds or categories that nobody gave is told so; the type of a column says nothing."""
    schema = schema_of(pd.DataFrame(DATA), **said)

    assert list(schema.columns) == [name for each in said.values() for name in each]
    with pytest.raises(SchemaError, match=text):
        ask(schema)


def test_codes_of_categories():
    """1, 1.0 and True name one category; "1" names another; whatever is no category has no code."""
    column = Column("x", (0.0, 1.0), ("1", 1, "True"), 0.5, public=True)

    assert [column.code(each) for each in (1, 1.0, True, np.int8(1), np.float32(1), "1")] == [1, 1, 1, 1, 1, 0]
    for other in ("2", 2, None, math.nan, [1], np.array([1, 2]), b"2", b"\xff", 10**400):
        with pytest.raises(SchemaError, match="not a category"):
            column.code(other)
    known = {"bounds": [0.0, 1.0], "categories": ["1", 1, "True"], "fill": 0.5, "other": False, "public": True}
    assert column.describe() == known
    columns = [Column("g", categories=tuple(range(at, at + 3))) for at in range(500)]  # none in another's place
    assert all(each.encode(np.array([at + 1, at + 9])).tolist() == [1, 3] for at, each in enumerate(columns))
    rest = Column("x", categories=("a", 1, "other"), other=True)
    assert rest.encode(Dictionary(np.array([0, 1, 2, -1]), ["a", "b", "other"])).tolist() == [0, 2, 2, 2]
    assert rest.encode(np.array([1, 2, math.nan])).tolist() == [1, 2, 2]


# ---- what becomes of values ------------------------------------------------------------------------------


def test_clean_clips_and_fills():
    """Numbers beyond the bounds become the bounds, infinities too, and NaN the fill value."""
    raw = np.array([3.5, -1, 11, math.inf, -math.inf, math.nan, 0, 10])
    raw.flags.writeable = False

    column = Column("x", (0.0, 10.0), fill=2.0)
    assert column.clean(raw).tolist() == [3.5, 0, 10, 10, 0, 2, 0, 10]
    for dtype in (*"bBhHiIlLqQ", "f2", "f4", "f8", "?", ">f8", ">i4"):
        cleaned = column.clean(raw := np.array([0, 1, 1], dtype=dtype))
        assert (cleaned.tolist(), cleaned.dtype) == ([0, 1, 1], np.float64)
        assert not np.shares_memory(raw, cleaned)


@pytest.mark.parametrize(("raw", "categories", "expected"), [
    (np.array([1, 2, 3, 9], dtype=np.int64), (3, 1, 2), [1, 2, 0, 3]),
    (np.array([-1, 0, 1], dtype=np.int8), (1, -1), [1, 2, 0]),
    (np.array([-128, 127], dtype=np.int8), (127, -128, 300, -300), [1, 0]),
    (np.array([0, 255], dtype=np.uint8), (300, 301), [2, 2]),
    (np.array([0, 255], dtype=np.uint8), (-5, -3), [2, 2]),
    (np.array([2**64 - 1, 0], dtype=np.uint64), (-1, 0), [2, 1]),
    (np.array([2**63, 5], dtype=np.uint64), (5,), [1, 0]), (np.array([-(2**63), 2**63 - 1, 7]), (7,), [1, 1, 0]),
    (np.array([2**53, 2**53 + 2]), (2**53 + 2, 2**53), [1, 0]),
    (np.array([1, 70_000, 2]), (1, 70_000), [0, 1, 2]), (np.array([0.5, 1, 2, 1.5]), (2, 0.5, 1), [1, 2, 0, 3]),
    (np.array([1, 2, 3]), (0.5, 1, 2), [1, 2, 3]), (np.array([-1, 0, 1]), (-0.5, 0, 1), [3, 1, 2]),
    (np.array([1.0, 1.5, math.nan, math.inf, -math.inf, -0.0]), (0, 1), [1, 2, 2, 2, 2, 0]),
    (np.array([1.0, math.nan, math.inf]), (0.25, 1), [1, 2, 2]),
    (np.array([65504, 1], dtype=np.float16), (1, 2), [2, 0]), (np.array([True, False]), (False, True), [1, 0]),
    (np.array([True, False]), (1, 2), [0, 2]), (np.array([True, False]), (3, 4), [2, 2]),
    (np.array([1.0, 0.0]), (True, "1"), [0, 2]), (np.array([1, 2]), ("1", "2"), [0, 1]),
    (np.array([2, 10, 3], dtype=np.uint8), ("10", "2", "02"), [3, 0, 3]),
    (np.array([1.0, 2.5, math.nan]), ("2.5", "1"), [1, 0, 2]), (np.array([1.0, 2.0]), ("1.0", "2.00"), [0, 1]),
    (np.array([1, 2]), ("1", "1.0", "2"), [3, 2]), (np.array([1, 0]), ("1", "true", 0), [3, 2]),
    (np.array([1, 0]), ("1", 1.0), [1, 2]), (np.array([True, False]), ("False", "True"), [1, 0]),
    (np.array([True, False]), ("false", "true"), [1, 0]),
    (np.array([2**53, 2**53 - 1]), (str(2**53), str(2**53 - 1)), [0, 1]),
    (np.array([1000.0, math.nan, math.inf]), ("1_000", "nan", "inf", " 1000", "+1000", "1e3"), [6, 6, 6]),
    (np.array([], dtype=np.int64), (1, 2), []), (np.array([], dtype=np.float64), (1, 2.5), []),
])  # fmt: skip
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


@pytest.mark.parametrize(("text", "categories", "code"), [
    ("1", (0, 1), 1), (b"1", (0, 1), 1), ("1.0", (0, 1), 1), ("True", (False, True), 1),
    ("false", (False, True), 0), ("0.5", (1, 0.5), 1), ("-3", (-3, 3), 0), ("1", (1, "1"), 1),
    ("1.0", (1, "1"), 0), ("1.0", ("1", "2"), 0), ("01", (0, 1), 1), (" 1", (0, 1), 1), ("1_0", (10, 1), 2),
    ("nan", (0, 1), 2), ("", (0, 1), 2),
])  # fmt: skip
def test_a_text_that_reads_as_a_number_is_the_category_of_that_number(text, categories, code):
    """A text counts as the number that it reads as, where no category is the text itself."""
    assert [code] == Column("x", categories=categories).encode(Dictionary(np.array([0]), [text])).tolist()


@pytest.mark.parametrize(("value", "number"), [
    (3, 3), (2.5, 2.5), (True, 1), (np.bool_(True), 1), (np.float32(0.1), float(np.float32(0.1))),
    (np.uint64(2**64 - 1), 2.0**64), (Decimal("0.1"), 0.1), (Decimal("1e400"), math.inf),
    (Decimal("-Infinity"), -math.inf), (Fraction(1, 3), 1 / 3), (2.5 + 0j, 2.5), (np.complex64(2.5), 2.5),
    (10**400, math.inf), (-(10**400), -math.inf), (Fraction(-(10**400), 3), -math.inf), (dt.date(1970, 1, 3), 2),
    (dt.date(1969, 12, 31), -1), (dt.datetime(1970, 1, 2, 12), 1.5), (dt.datetime(1969, 12, 31, 12), -0.5),
    (dt.datetime(1970, 1, 2, 1, tzinfo=dt.timezone(dt.timedelta(hours=13))), 0.5),
    (pd.Timestamp("1970-01-02T12:00"), 1.5), (pd.Timestamp("1970-01-02T13:00", tz="Europe/Paris"), 1.5),
    (np.datetime64("1970-01-02T12:00"), 1.5), (np.datetime64("1970-01-03"), 2), (np.datetime64("1971"), 365),
])  # fmt: skip
def test_the_number_a_value_stands_for(value, number):
    """Numbers, booleans, decimals and dates stand for a number, whatever their type."""
    assert number == plain_number(value)


@pytest.mark.parametrize("value", [
    None, pd.NA, pd.NaT, np.datetime64("NaT", "D"), np.datetime64("NaT", "ns"), math.nan, Decimal("NaN"),
    Decimal("sNaN"), "5", b"5", 1 + 2j, dt.timedelta(1), np.timedelta64(1, "D"), dt.time(1), [1], Broken(1),
    object(),
])  # fmt: skip
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


@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns"])
def test_days_of_every_unit(unit):
    """A stamp is the same number of days in every unit, and the ends of the unit are numbers."""
    day = int(np.timedelta64(1, "D") / np.timedelta64(1, unit))
    stamps = np.array([-5 * day - day // 4, 3 * day, -(2**63) + 1, 2**63 - 1, -(2**63)]).view(f"datetime64[{unit}]")

    found = days(stamps)

    assert found[:2].tolist() == [-5.25 if day > 1 else -5.0, 3.0]
    assert np.isfinite(found).tolist() == [True, True, True, True, False]
