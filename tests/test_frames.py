"""Every library's frames give the same cleaned values."""

# ruff: noqa: DTZ001 - stamps without a time zone are among what is tested

from __future__ import annotations

import datetime as dt
import math
import traceback
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dfprivacy._measure.evaluate import Table
from dfprivacy._table.batch import batches, category, number
from dfprivacy._table.frames import Read, adapt, redact_errors
from dfprivacy.errors import ArgumentError, ReadError, SchemaError
from dfprivacy.features import Count, Moments, OneHot

pytestmark = pytest.mark.pandas

UTC = dt.UTC
TOKYO = dt.timezone(dt.timedelta(hours=9))
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


class Loud:
    """An object whose every use as a value fails, with a secret in the text."""

    def _fail(self, *_):
        raise RuntimeError("canary-31337")

    __float__ = __int__ = __index__ = __hash__ = __eq__ = __bool__ = __len__ = __str__ = __repr__ = _fail


class Lookalike:
    """An object that says it is 1, and is no number."""

    def __eq__(self, other):
        return other == 1

    def __hash__(self):
        return hash(1)


def text_of(error):
    """All that a log of an exception would show."""
    seen, chain = [], [error]
    while chain:
        one = chain.pop()
        seen += [*traceback.format_exception(one), *one.args, str(one), *getattr(one, "__notes__", ())]
        chain += [other for other in (one.__cause__, one.__context__) if other is not None]
    return "\n".join(map(str, seen))


# ---- numbers ---------------------------------------------------------------------------------------------


def test_floats(constructor, numbers_of):
    """Numbers are clipped, infinities too; NaN and missing ones are filled; on every backend."""
    data = {"x": [3.5, math.nan, None, math.inf, -math.inf, 11.0, -0.5, 10.0, 0.0]}

    assert numbers_of(constructor(data), (0, 10), 2) == [3.5, 2, 2, 10, 0, 10, 0, 10, 0]


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32"])
def test_widths(constructor, numbers_of, dtype):
    """Numbers of every width are the same numbers."""
    largest = np.iinfo(dtype).max if dtype in INTEGERS else 65504
    frame = constructor({"x": np.array([0, 5, 11, largest], dtype=dtype)})

    assert numbers_of(frame) == [0, 5, 10, 10]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_widths_as_categories(constructor, categories_of, dtype):
    """Integers of every width are found among the categories, and the largest is not taken for -1."""
    frame = constructor({"x": np.array([0, 5, 3, np.iinfo(dtype).max], dtype=dtype)})

    assert categories_of(frame, [5, -1, 3, -128]) == [None, 5, 3, None]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_widths_with_missing_values(numbers_of, categories_of, dtype):
    """A missing integer is missing, in every library's way of saying so."""
    values = [0, None, 5, int(np.iinfo(dtype).max)]
    capital = dtype.replace("i", "I").replace("u", "U")
    series = [
        pd.DataFrame({"x": pd.array(values, dtype=capital)}),
        pd.DataFrame({"x": pd.array(values, dtype=pd.ArrowDtype(getattr(pa, dtype)()))}),
        pl.DataFrame({"x": pl.Series(values, dtype=getattr(pl, capital))}),
        pl.LazyFrame({"x": pl.Series(values, dtype=getattr(pl, capital))}),
        pa.table({"x": pa.array(values, getattr(pa, dtype)())}),
    ]

    for frame in series:
        assert numbers_of(frame, (0, 10), 2) == [0, 2, 5, 10]
        assert categories_of(frame, [5, 0]) == [0, None, 5, None]


def test_unsigned_beyond_int64(constructor, numbers_of, categories_of):
    """A uint64 above 2^63 is a large number, not a negative one."""
    frame = constructor({"x": np.array([2**64 - 1, 2**63, 2**63 + 1, 1], dtype=np.uint64)})

    assert numbers_of(frame) == [10, 10, 10, 1]
    assert numbers_of(frame, (0, 1e30)) == [2.0**64, 2.0**63, 2.0**63, 1]
    assert categories_of(frame, [-1, 1, -(2**53) + 2]) == [None, None, None, 1]


def test_wide_polars_integers(numbers_of):
    """128-bit integers are numbers as well."""
    frame = pl.DataFrame({"x": pl.Series([2**100, -(2**100), 3, None], dtype=pl.Int128)})

    assert numbers_of(frame) == [10, 0, 3, 5]


def test_huge_python_integers(numbers_of, categories_of):
    """Integers beyond every machine type are clipped like others."""
    frame = pd.DataFrame({"x": pd.Series([10**400, -(10**400), 5, 2**64], dtype=object)})

    assert numbers_of(frame) == [10, 0, 5, 10]
    assert categories_of(frame, [5, 6]) == [None, None, 5, None]


def test_booleans(constructor, numbers_of, categories_of):
    """Booleans are 0 and 1, as numbers and as categories."""
    frame = constructor({"x": [True, False, True]})

    assert numbers_of(frame, (0, 10)) == [1, 0, 1]
    assert numbers_of(frame, (0, 0.5)) == [0.5, 0, 0.5]
    assert categories_of(frame, [False, True]) == [True, False, True]
    assert categories_of(frame, [1, 2]) == [1, None, 1]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": pd.array([True, None, False], dtype="boolean")}),
        pd.DataFrame({"x": pd.array([True, None, False], dtype=pd.ArrowDtype(pa.bool_()))}),
        pd.DataFrame({"x": pd.Series([True, None, False], dtype=object)}),
        pd.DataFrame({"x": pd.Series([np.True_, pd.NA, np.False_], dtype=object)}),
        pl.DataFrame({"x": [True, None, False]}),
        pl.LazyFrame({"x": [True, None, False]}),
        pa.table({"x": [True, None, False]}),
    ],
)
def test_booleans_with_missing_values(frame, numbers_of, categories_of):
    """A missing boolean is missing."""
    assert numbers_of(frame, (0, 10), 2) == [1, 2, 0]
    assert categories_of(frame, [False, True]) == [True, None, False]


@pytest.mark.parametrize(
    "make",
    [
        lambda v: pd.DataFrame({"x": pd.Series(v, dtype=object)}),
        lambda v: pd.DataFrame({"x": pd.array(v, dtype=pd.ArrowDtype(pa.decimal128(9, 3)))}),
        lambda v: pd.DataFrame({"x": pd.Categorical(v)}),
        lambda v: pl.DataFrame({"x": pl.Series(v, dtype=pl.Decimal(9, 3))}),
        lambda v: pl.LazyFrame({"x": pl.Series(v, dtype=pl.Decimal(9, 3))}),
        *(
            lambda v, t=t: pa.table({"x": pa.array(v, getattr(pa, t)(9, 3))})
            for t in ("decimal32", "decimal64", "decimal128", "decimal256")
            if hasattr(pa, t)  # the narrow ones are of pyarrow 19
        ),
    ],
)
def test_decimals(make, numbers_of, categories_of):
    """A decimal is the nearest float64, as a number and as a category."""
    frame = make([Decimal("0.100"), None, Decimal("11.500"), Decimal("-1.000"), Decimal("2.000")])

    assert numbers_of(frame, (0, 10), 3) == [0.1, 3, 10, 0, 2]
    assert categories_of(frame, [0.1, 2]) == [0.1, None, None, None, 2]


# ---- dates -----------------------------------------------------------------------------------------------

DATES = [dt.date(1970, 1, 3), None, dt.date(1969, 12, 31), dt.date(2000, 1, 1)]
STAMPS = [dt.datetime(1970, 1, 3, 6), None, dt.datetime(1969, 12, 31), dt.datetime(2000, 1, 1)]
AWARE = [stamp and stamp.replace(tzinfo=UTC).astimezone(TOKYO) for stamp in STAMPS]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": pd.Series(DATES, dtype=object)}),
        pd.DataFrame({"x": pd.array(DATES, dtype=pd.ArrowDtype(pa.date32()))}),
        pl.DataFrame({"x": DATES}),
        pl.LazyFrame({"x": DATES}),
        pa.table({"x": pa.array(DATES, pa.date32())}),
        pa.table({"x": pa.array(DATES, pa.date64())}),
        pa.table({"x": pa.array(DATES, pa.date32()).dictionary_encode()}),
    ],
)
def test_dates(frame, numbers_of):
    """A date is its number of days since 1970-01-01."""
    assert numbers_of(frame, (0, 10), 1) == [2, 1, 0, 10]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("values", [STAMPS, AWARE], ids=["naive", "aware"])
def test_datetimes(numbers_of, unit, values):
    """An instant is its days since 1970-01-01 (UTC), in every unit and time zone."""
    zone = None if values is STAMPS else "Asia/Tokyo"
    arrow = pa.array(values, pa.timestamp(unit, tz=zone))
    dtype = f"datetime64[{unit}]" if zone is None else f"datetime64[{unit}, {zone}]"
    frames = [
        pa.table({"x": arrow}),
        pd.DataFrame({"x": pd.Series(values, dtype=dtype)}),
        pd.DataFrame({"x": pd.array(values, dtype=pd.ArrowDtype(arrow.type))}),
        pd.DataFrame({"x": pd.Series(values, dtype=object)}),
        pd.DataFrame({"x": pd.Series([pd.Timestamp(value) for value in values], dtype=object)}),
    ]
    if unit != "s":
        series = pl.Series(values, dtype=pl.Datetime(unit, zone))
        frames += [pl.DataFrame({"x": series}), pl.LazyFrame({"x": series})]

    for frame in frames:
        assert numbers_of(frame, (dt.date(1970, 1, 1), dt.datetime(1970, 1, 11)), 1) == [2.25, 1, 0, 10]


# ---- text ------------------------------------------------------------------------------------------------

TEXT = ["b", None, "a", "unknown", "b", ""]


def _polars(dtype):
    return pl.DataFrame({"x": pl.Series(TEXT, dtype=dtype)})


TEXTS = {
    "object": lambda: pd.DataFrame({"x": pd.Series(TEXT, dtype=object)}),
    "str": lambda: pd.DataFrame({"x": pd.Series(TEXT)}),
    "string": lambda: pd.DataFrame({"x": pd.Series(TEXT, dtype="string")}),
    "string[python]": lambda: pd.DataFrame({"x": pd.Series(TEXT, dtype="string[python]")}),
    "string[pyarrow]": lambda: pd.DataFrame({"x": pd.Series(TEXT, dtype="string[pyarrow]")}),
    "category": lambda: pd.DataFrame({"x": pd.Categorical(TEXT)}),
    "unused": lambda: pd.DataFrame({"x": pd.Categorical(TEXT, [*map(str, range(99)), *"cab", "unknown", ""])}),
    "missing": lambda: pd.DataFrame({"x": pd.Categorical(["b", None, "a", None, "b", None], ["b", "a", ""])}),
    **{
        f"ArrowDtype {t}": lambda t=t: pd.DataFrame({"x": pd.Series(pd.array(TEXT, dtype=pd.ArrowDtype(t)))})
        for t in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()))
    },
    **{
        f"arrow {t}": lambda t=t: pa.table({"x": pa.array(TEXT).cast(t)})
        for t in (pa.string(), pa.large_string(), pa.string_view())
    },
    "arrow dictionary": lambda: pa.table({"x": pa.array(TEXT).dictionary_encode()}),
    "arrow large dictionary": lambda: pa.table(
        {
            "x": pa.DictionaryArray.from_arrays(
                pa.array([1, None, 0, 2, 1, 3], pa.int8()), ["a", "b", "unknown", "", "z", "y", "w"]
            )
        }
    ),
    "arrow null in dictionary": lambda: pa.table(
        {
            "x": pa.DictionaryArray.from_arrays(
                pa.array([1, 4, 0, 2, 1, 3], pa.int8()), ["a", "b", "unknown", "", None]
            )
        }
    ),
    "String": lambda: _polars(pl.String),
    "Categorical": lambda: _polars(pl.Categorical),
    "Enum": lambda: _polars(pl.Enum(["", "unknown", "b", "a"])),
    "Object": lambda: _polars(pl.Object),
    "lazy String": lambda: _polars(pl.String).lazy(),
    "lazy Categorical": lambda: _polars(pl.Categorical).lazy(),
    "lazy Enum": lambda: _polars(pl.Enum(["", "unknown", "b", "a"])).lazy(),
}


@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS)
def test_text(make, categories_of):
    """Text is found among the categories in every representation; what is none of them counts nowhere."""
    assert categories_of(make(), ["a", "b"]) == ["b", None, "a", None, "b", None]
    assert categories_of(make(), ["b", 7, ""])[:5] == ["b", None, None, None, "b"]
    assert categories_of(make(), ["a", "b"], "other") == ["b", "other", "a", "other", "b", "other"]
    assert categories_of(make(), [1, 2]) == [None] * 6


def test_two_polars_categoricals_of_one_process(categories_of):
    """Polars numbers categories in order of appearance; the categories here are told apart by their text."""
    first = pl.DataFrame({"x": pl.Series(["b", "a"], dtype=pl.Categorical)})
    second = pl.DataFrame({"x": pl.Series(["a", "b"], dtype=pl.Categorical)})

    assert categories_of(first, ["a", "b"]) == ["b", "a"]
    assert categories_of(second, ["a", "b"]) == ["a", "b"]


@pytest.mark.parametrize("one", [1, 1.0, True])
def test_one_is_one_however_written(numbers_of, categories_of, one):
    """1, 1.0 and True are one category, whatever the column is made of, and so is "1" where it is no other."""
    plain = [1, 0, 1]
    frames = [
        pd.DataFrame({"x": plain}),
        pd.DataFrame({"x": [1.0, 0.0, 1.0]}),
        pd.DataFrame({"x": [True, False, True]}),
        pd.DataFrame({"x": pd.Series([1, "0", True], dtype=object)}),
        pd.DataFrame({"x": pd.Series([1.0, "02", Decimal(1)], dtype=object)}),
        pd.DataFrame({"x": pd.Categorical(plain)}),
        pd.DataFrame({"x": pd.Categorical([1.0, 0.0, 1.0], [2.0, 1.0, 0.0])}),
        pl.DataFrame({"x": plain}),
        pl.DataFrame({"x": [1.0, 0.0, 1.0]}),
        pl.DataFrame({"x": [True, False, True]}),
        pl.DataFrame({"x": pl.Series([1, "0", True], dtype=pl.Object)}),
        pa.table({"x": [1.0, 0.0, 1.0]}),
        pa.table({"x": pa.array(plain).dictionary_encode()}),
    ]

    for frame in frames:
        assert [one, None, one] == categories_of(frame, [one])
    for frame in (pd.DataFrame({"x": ["1", "0"]}), pl.DataFrame({"x": ["1", "0"]}), pa.table({"x": ["1", "0"]})):
        assert categories_of(frame, [one]) == [one, None]
        with pytest.raises(SchemaError, match="reads as it"):
            categories_of(frame, ["1", one])


WRITTEN = [1, 0, 2, 1]
AS_NUMBERS = {
    "pandas, integers": lambda: pd.DataFrame({"x": WRITTEN}),
    "pandas, nullable": lambda: pd.DataFrame({"x": pd.array(WRITTEN, dtype="Int64")}),
    "pandas, float": lambda: pd.DataFrame({"x": np.array(WRITTEN, dtype=float)}),
    "pandas, objects": lambda: pd.DataFrame({"x": pd.Series(WRITTEN, dtype=object)}),
    "pandas, categorical": lambda: pd.DataFrame({"x": pd.Categorical(WRITTEN)}),
    "pandas, Arrow": lambda: pd.DataFrame({"x": pd.array(WRITTEN, dtype=pd.ArrowDtype(pa.int32()))}),
    "Polars": lambda: pl.DataFrame({"x": pl.Series(WRITTEN, dtype=pl.UInt8)}),
    "Polars, lazy": lambda: pl.LazyFrame({"x": WRITTEN}),
    "Arrow": lambda: pa.table({"x": pa.array(WRITTEN, pa.int16())}),
    "Arrow, dictionary": lambda: pa.table({"x": pa.array(WRITTEN).dictionary_encode()}),
    "Arrow, decimal": lambda: pa.table({"x": pa.array(map(Decimal, WRITTEN), pa.decimal128(9, 2))}),
}
TEXTS = [str(each) for each in WRITTEN]
AS_TEXTS = {
    "pandas": lambda: pd.DataFrame({"x": TEXTS}),
    "pandas, objects": lambda: pd.DataFrame({"x": pd.Series(TEXTS, dtype=object)}),
    "pandas, nullable": lambda: pd.DataFrame({"x": pd.array(TEXTS, dtype="string")}),
    "pandas, categorical": lambda: pd.DataFrame({"x": pd.Categorical(TEXTS)}),
    "pandas, Arrow": lambda: pd.DataFrame({"x": pd.array(TEXTS, dtype=pd.ArrowDtype(pa.string()))}),
    "Polars": lambda: pl.DataFrame({"x": TEXTS}),
    "Polars, lazy": lambda: pl.LazyFrame({"x": TEXTS}),
    "Polars, Categorical": lambda: pl.DataFrame({"x": pl.Series(TEXTS, dtype=pl.Categorical)}),
    "Polars, Enum": lambda: pl.DataFrame({"x": pl.Series(TEXTS, dtype=pl.Enum(["2", "1", "0"]))}),
    "Polars, bytes": lambda: pl.DataFrame({"x": [each.encode() for each in TEXTS]}),
    "Arrow": lambda: pa.table({"x": TEXTS}),
    "Arrow, dictionary": lambda: pa.table({"x": pa.array(TEXTS).dictionary_encode()}),
}


@pytest.mark.parametrize("frame", [pytest.param(make, id=name) for name, make in AS_NUMBERS.items()])
def test_numbers_whose_categories_are_given_as_text(categories_of, frame):
    """A column of numbers is in the categories that are written so, in every engine and type."""
    assert categories_of(frame(), ["0", "1"]) == ["1", "0", None, "1"]


@pytest.mark.parametrize("frame", [pytest.param(make, id=name) for name, make in AS_TEXTS.items()])
def test_texts_whose_categories_are_given_as_numbers(categories_of, frame):
    """A column of text is in the categories that it writes, in every engine and type."""
    assert categories_of(frame(), [0, 1]) == [1, 0, None, 1]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": [True, False]}),
        pd.DataFrame({"x": pd.array([True, False], dtype="boolean")}),
        pl.DataFrame({"x": [True, False]}),
        pa.table({"x": [True, False]}),
    ],
    ids=["pandas", "pandas, nullable", "Polars", "Arrow"],
)
@pytest.mark.parametrize("categories", [["True", "False"], ["true", "false"], ["1", "0"], ["1.0", "0.0"]])
def test_booleans_whose_categories_are_given_as_text(categories_of, frame, categories):
    """True and False may be written as Python, Polars and Arrow write them, or as numbers."""
    assert categories_of(frame, categories) == categories


def test_mixed_object_columns(numbers_of, categories_of):
    """A pandas column of anything is read value by value."""
    values = [
        5,
        "5",
        2.5,
        True,
        None,
        math.nan,
        pd.NA,
        pd.NaT,
        Decimal("7.5"),
        dt.date(1970, 1, 4),
        [1],
        Loud(),
        1j,
    ]
    expected = [5, 5, 2.5, 1, 9, 9, 9, 9, 7.5, 3, 9, 9, 9]

    for frame in (
        pd.DataFrame({"x": pd.Series(values, dtype=object)}),
        pl.DataFrame({"x": pl.Series(values, dtype=pl.Object)}),
    ):
        assert expected == numbers_of(frame, (0, 10), 9)
        assert [5, 5, 2.5, *[None] * 10] == categories_of(frame, [2.5, 5])


def test_a_value_is_read_alone(categories_of):
    """What a value counts as does not depend on an equal object in another row."""
    values = [Lookalike(), 1, Decimal(1), Lookalike()]

    assert categories_of(pd.DataFrame({"x": pd.Series(values, dtype=object)}), [1]) == [None, 1, 1, None]
    assert categories_of(pd.DataFrame({"x": pd.Series(values[1::2], dtype=object)}), [1]) == [1, None]


def test_pandas_categories_as_numbers(numbers_of):
    """A categorical of numbers can have bounds; its text is missing."""
    assert numbers_of(pd.DataFrame({"x": pd.Categorical([5, None, 20, "text"])}), (0, 10), 3) == [5, 3, 10, 3]


def test_sparse_pandas(numbers_of, categories_of):
    """Sparse columns are read like others."""
    frame = pd.DataFrame({"x": pd.arrays.SparseArray([0.0, 3.0, math.nan, 0.0])})

    assert numbers_of(frame, (0, 10), 7) == [0, 3, 7, 0]
    assert categories_of(frame, [3]) == [None, 3, None, None]


def test_columns_without_a_value(numbers_of, categories_of):
    """A column of nothing but missing values is all fill value and no category."""
    nothing = [None, None]

    for frame in (pd.DataFrame({"x": nothing}), pl.DataFrame({"x": nothing}), pa.table({"x": nothing})):
        assert numbers_of(frame) == [5, 5]
        assert categories_of(frame, ["a", 1]) == [None, None]


# ---- the shape of frames ---------------------------------------------------------------------------------


def test_each_frame_has_its_adapter(constructor):
    """A frame of every library knows columns and rows."""
    frame = adapt(constructor({"x": [1.0, 2.0], "by": ["a", "b"]}))

    assert frame.columns == ("x", "by")
    assert frame.rows() == 2


@pytest.mark.parametrize("thing", [[1, 2], {"x": [1]}, np.zeros(3), pd.Series([1]), pl.Series([1]), None, "x", 5])
def test_what_is_no_table(thing):
    """Anything that is no table is refused, and not quoted."""
    with pytest.raises(ArgumentError, match="a table"):
        adapt(thing)


def test_a_stream_that_can_be_read_once_is_refused():
    """A record batch reader is used up by its first reading, so it cannot be protected."""
    with pytest.raises(ArgumentError, match="read once only"):
        adapt(pa.table({"x": [1]}).to_reader())


class Stream:
    """Something else with an Arrow C stream."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_anything_with_an_arrow_stream(numbers_of):
    """The Arrow C stream is enough to be read, as often as asked."""
    frame = Stream(pa.table({"x": [1, 2, 30]}))

    assert numbers_of(frame) == [1, 2, 10]
    assert numbers_of(frame) == [1, 2, 10]


def test_one_row(constructor, numbers_of, categories_of):
    """A table of one row is a table."""
    assert numbers_of(constructor({"x": [7.0]})) == [7]
    assert categories_of(constructor({"x": ["a"]}), ["a"]) == ["a"]


def test_empty_tables_have_no_batches(constructor, schema_of):
    """A table without rows sums to zero."""
    frame = constructor({"x": np.array([], dtype=np.float64)})
    schema = schema_of(frame, bounds={"x": (0, 1)}, neighbors="add_remove")

    assert Table(adapt(frame), schema).total(Moments(schema.numeric("x"), count=True), 30) == [0, 0, 0]


def test_rows_are_counted_without_reading_a_column(constructor, schema_of):
    """Counting the rows of a table needs none of its columns."""
    frame = constructor({"x": [1.0, 2.0, 3.0]})

    assert Table(adapt(frame), schema_of(frame)).total(Count(), 10) == [3 * 2**10]


def test_rows_of_a_frame_without_columns(schema_of):
    """A pandas frame may have rows and no columns."""
    frame = pd.DataFrame(index=range(3))

    assert Table(adapt(frame), schema_of(frame)).total(Count(), 0) == [3]


def test_pandas_names_need_not_be_text(schema_of):
    """A pandas column named by a number or a tuple is known by how that is written."""
    frame = pd.DataFrame([[1, 2, 3]], columns=pd.Index([0, ("a", 1), "x"], dtype=object))
    schema = schema_of(frame, bounds={"0": (0, 10), "('a', 1)": (0, 10)})

    columns = [schema.numeric("0"), schema.numeric("('a', 1)")]
    [(batch, _)] = batches(adapt(frame), map(number, columns), ())
    assert [batch.values(column).tolist() for column in columns] == [[1], [2]]


def test_pandas_columns_are_found_where_they_are_now(schema_of):
    """A frame that gets another column, or other names, is read by its names of this moment."""
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    adapted = adapt(frame)
    column = schema_of(frame, bounds={"x": (0, 10)}).numeric("x")

    def values():
        [(batch, _)] = batches(adapted, [number(column)], ())
        return batch.values(column).tolist()

    found = [values()]
    frame.insert(0, "first", [5.0, 6.0])
    found.append(values())
    frame.columns = ["x", "first", "y"]
    found.append(values())

    assert found == [[1, 2], [1, 2], [5, 6]]


@pytest.mark.parametrize("layout", ["C", "F"])
def test_blocks_of_any_layout(numbers_of, layout):
    """Columns that lie in a shared, read-only, strided block are read right and left alone."""
    block = np.array([[1.0, 20.0, math.nan], [4.0, 5.0, 6.0]], order=layout)
    block.flags.writeable = False
    frame = pd.DataFrame(block, columns=["a", "x", "c"], copy=False)

    assert numbers_of(frame) == [10, 5]
    assert numbers_of(pd.DataFrame(block[:, ::-1], columns=["a", "x", "c"], copy=False)) == [10, 5]
    assert numbers_of(frame.iloc[::-1]) == [5, 10]
    np.testing.assert_array_equal([[1.0, 20.0, math.nan], [4.0, 5.0, 6.0]], block)


def test_a_pandas_index_does_not_matter(numbers_of):
    """Rows are read by position, also where labels repeat."""
    assert numbers_of(pd.DataFrame({"x": [1, 2, 3]}, index=[5, 5, 0])) == [1, 2, 3]


def test_sliced_and_chunked_frames(numbers_of, categories_of):
    """Slices and frames of many pieces, empty ones among them, are read in order."""
    x, text = list(range(10)), list("abcabcabca")
    arrow = pa.table({"x": x, "by": text})
    pieces = pa.concat_tables([arrow.slice(0, 3), arrow.slice(3, 0), arrow.slice(3, 4), arrow.slice(7)])
    frame = pl.DataFrame({"x": x, "by": text})
    chunked = pl.concat([frame[:3], frame[3:3], frame[3:7], frame[7:]], rechunk=False)

    assert x == numbers_of(pieces)
    assert x[2:8] == numbers_of(pieces.slice(2, 6))
    assert x == numbers_of(chunked)
    assert x[2:8] == numbers_of(chunked.slice(2, 6))
    assert x[2:8] == numbers_of(chunked.lazy().slice(2, 6))
    assert x[::3] == numbers_of(pd.DataFrame({"x": x})[::3])
    renamed = pieces.slice(2, 6).drop(["x"]).rename_columns(["x"])
    assert categories_of(renamed, ["a", "b", "c"]) == ["c", "a", "b", "c", "a", "b"]
    encoded = pa.table({"x": pieces["by"].dictionary_encode()}).slice(2, 6)
    assert categories_of(encoded, ["a", "b", "c"]) == ["c", "a", "b", "c", "a", "b"]


def test_batches_of_no_rows(numbers_of):
    """A stream may hold batches without rows."""
    batch = pa.record_batch({"x": [1.0, 2.0]})

    assert numbers_of(pa.Table.from_batches([batch, batch.slice(0, 0), batch])) == [1, 2, 1, 2]


def test_batches_are_no_longer_than_asked(constructor, monkeypatch):
    """No batch has more rows than asked for, and all rows are in one."""
    frame = adapt(constructor({"x": np.arange(10.0)}))

    sizes = [rows for rows, _ in frame.batches([], 4)]

    assert max(sizes) <= 4
    assert sum(sizes) == 10


def test_the_frame_is_never_changed(constructor, schema_of):
    """Reading a frame, at the edges of its bounds and in missing values, leaves it as it was."""
    data = {"x": [3.5, None, math.inf, -4.0], "by": ["a", None, "b", "z"], "n": [1, 2, 300, -4]}
    frame, same = constructor(data), constructor(data)
    schema = schema_of(frame, bounds={"x": (0, 1), "n": (0, 10)}, categories={"by": ["a"], "n": [1, 2]})
    x, by = schema.numeric("x"), schema.categorical("by")

    Table(adapt(frame), schema).total(OneHot(by) * Moments(x), 30)
    list(batches(adapt(frame), [category(schema.columns["n"]), number(schema.columns["n"])], ()))

    if isinstance(frame, pl.LazyFrame):
        frame, same = frame.collect(), same.collect()
    assert frame.equals(same)


def test_reading_the_same_column_both_ways(constructor, schema_of):
    """A column with bounds and categories can be read as both at once."""
    frame = constructor({"x": [1, 2, 3]})
    column = schema_of(frame, bounds={"x": (0, 2)}, categories={"x": [3, 1]}).columns["x"]

    [(batch, _)] = batches(adapt(frame), [number(column), category(column)], ())

    assert batch.values(column).tolist() == [1, 2, 2]
    assert batch.codes(column).tolist() == [1, 2, 0]


# ---- errors while reading --------------------------------------------------------------------------------


def _failing_polars():
    return pl.LazyFrame({"text": ["canary-31337", "1"]}).select(x=pl.col("text").cast(pl.Float64, strict=True))


def _failing_udf():
    def fail(_):
        raise ValueError("canary-31337")

    return pl.LazyFrame({"x": [1.0]}).select(pl.col("x").map_batches(fail, return_dtype=pl.Float64))


class FailingStream:
    """An Arrow stream that breaks off after its first batch."""

    def __arrow_c_stream__(self, requested_schema=None):
        def read():
            yield pa.record_batch({"x": [1.0]})
            raise ValueError("canary-31337")

        schema = pa.schema({"x": pa.float64()})
        return pa.RecordBatchReader.from_batches(schema, read()).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("make", [_failing_polars, _failing_udf, FailingStream])
def test_an_engine_that_quotes_the_data(make, schema_of):
    """What an engine says when it fails is redact_errors, in the text, its causes and its traceback."""
    frame = make()
    schema = schema_of(frame, bounds={"x": (0, 1)}, neighbors="add_remove")
    table = Table(adapt(frame), schema)

    with pytest.raises(ReadError, match="withheld") as caught:
        redact_errors(lambda: table.total(Moments(schema.numeric("x")), 30))

    assert "canary" not in text_of(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def _failing_filter():
    text = pl.LazyFrame({"x": ["canary-31337", "1"]})
    return text.filter(pl.col("x").cast(pl.Float64, strict=True) > 0)


@pytest.mark.parametrize("make", [_failing_filter, FailingStream])
def test_an_engine_that_quotes_the_data_when_it_counts(make, schema_of):
    """Counting the rows, when a table is protected, quotes nothing either."""
    with pytest.raises(ReadError, match="withheld") as caught:
        schema_of(make())

    assert "canary" not in text_of(caught.value)


def test_a_stream_that_cannot_be_opened(schema_of):
    """An error on opening a stream is redact_errors as well."""

    class Closed:
        def __arrow_c_stream__(self, requested_schema=None):
            raise ValueError("canary-31337")

    with pytest.raises(ArgumentError, match="could not be opened") as caught:
        schema_of(Closed())

    assert "canary" not in text_of(caught.value)


def test_a_panic_is_withheld():
    """A panic of a Rust engine, which is no `Exception`, is redact_errors like one."""

    def panic():
        raise pl.exceptions.PanicException("canary-31337")

    with pytest.raises(ReadError) as caught:
        redact_errors(panic)

    assert "canary" not in text_of(caught.value)


def test_an_interrupt_is_an_interrupt():
    """Stopping the program is not an error of the data."""

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        redact_errors(interrupt)


def test_a_broken_object_is_missing(numbers_of, categories_of):
    """An object that cannot be read is a missing value: an error would tell that it is there."""
    frame = pd.DataFrame({"x": pd.Series([Loud(), 5, Loud()], dtype=object)})

    assert numbers_of(frame, (0, 10), 2) == [2, 5, 2]
    assert categories_of(frame, [5, "canary-31337"]) == [None, 5, None]


def test_a_column_is_found_while_another_thread_finds_one():
    """In every moment: a column's name that reads the frame when it is written stands for the other thread."""
    asked = []

    class Name:
        def __str__(self):
            if not asked:
                asked.append("x")
                asked.extend(rows for rows, _ in frame.batches([Read("x")], 10))
            return "y"

    frame = adapt(pd.DataFrame({"x": [1.0, 2.0], Name(): [3.0, 4.0]}))
    rows_of_y = [rows for rows, _ in frame.batches([Read("y")], 10)]

    assert (asked, rows_of_y) == (["x", 2], [2])
