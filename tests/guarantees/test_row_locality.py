"""What a row counts as is a function of that row alone: its number, its category, its key and its person.

Random tables of hostile values, in every kind of column that a library has: each value counts as it does alone in a
table, and as the Python object counts, whatever else is in its column, batch, chunk or partition.
"""

# ruff: noqa: DTZ001, PD011 - stamps without a time zone are among what is tested; values are no Series

from __future__ import annotations

import datetime as dt
import enum
import math
import uuid
from decimal import Decimal
from fractions import Fraction

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

from dfprivacy._measure.evaluate import Table
from dfprivacy._table.batch import Batch, category, number
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import Read, adapt, columns
from dfprivacy._table.keys import _codes_of_values, key_read
from dfprivacy._table.people import NOBODY, BoundedFrame
from dfprivacy.features import Given, Moments, Stack
from dfprivacy.schema import Column, Unit
from dfprivacy.schema.values import read_number

pytestmark = pytest.mark.pandas


class Text(str):
    """A text with an attribute of its own."""

    __slots__ = ("patient",)


class Real(float):
    """A number of a class of its own."""


class Letter(enum.Enum):
    A = "a"


class TextLetter(str, enum.Enum):  # noqa: UP042 - what people have
    A = "a"


class One(enum.IntEnum):
    A = 1


class Everything:
    """Equal to all, and hashed as one text."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash("a")


class Broken:
    """Raises whatever it is asked."""

    def __getattribute__(self, name):
        raise RuntimeError


class BrokenText(str):
    """A text that refuses to be read as one."""

    __slots__ = ()

    def __str__(self):
        raise RuntimeError

    def encode(self, *_, **__):
        raise RuntimeError


WORDS = ["a", "b", "a\0", "b\0", "\0", "", "A", "nan", "None", "NaT", "é", "e\u0301", "a ", "n/a", "'a'"]
WORDS += ["x" * 127, "x" * 128, "x" * 129, "y" * 400, "0x1", "1_0", "١", "1 2", "1,5", "infinit", "2020-02-30"]
NUMERALS = ["1", "1.0", "+1", "01", " 1\n", "1.", ".5", "-0", "1e0", "1e400", "-1e-400", "inf", "-Infinity"]
NUMERALS += ["True", "true", "FALSE", "0.1", "9007199254740993", "18446744073709551616", "007"]
DAYS = ["2020-01-01", "2020-01-01 13:07:09", "2020-01-01T13:07:09.123456789Z", "1969-12-31 23:59+09:00"]
TEXTS = [*WORDS, *NUMERALS, *DAYS, "0001-01-01"]
FLOATS = [0.0, -0.0, 0.1, 1.0, 2.5, math.inf, -math.inf, math.nan, 1e300, 2.0**53, None]
WHOLE = [0, 1, -1, 7, 2**53 + 1, 2**63 - 1, -(2**63), None]
STAMPS = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 13, 7, 9), dt.datetime(1960, 5, 5, 1, 1, 1, 1), None]
DATES = [dt.date(2020, 1, 1), dt.date(1, 1, 1), dt.date(1969, 12, 31), None]
DECIMALS = [Decimal(text) for text in ("1", "0.1", "10000000000.5", "-3.25", "2.5", "1E3")] + [None]
BYTES = [b"a", b"a\0", b"\xff", b"", b"1", b" 7", None]
HUGE = [10**400, -(10**400)]
HALVES = ["a\ud800", "\udcff"]
UNMADE = [*HUGE, *HALVES]  # of which pandas makes no column by itself
ODD = [
    *(*HALVES, pd.NA, pd.NaT, np.int8(1), np.float32(0.1), np.bool_(True), np.str_("a")),
    *(True, False, 2**63, 2**64, *HUGE, Decimal("NaN"), Decimal("sNaN"), Fraction(1, 2), 1 + 0j, 1 + 1j, 1j),
    *(dt.timedelta(1), np.timedelta64(1, "s"), np.datetime64("2020-01-01"), np.datetime64("NaT", "D")),
    *(dt.time(1), object()),
    *(Text("a"), BrokenText("a"), Real(1), Letter.A, TextLetter.A, One.A, Everything(), (1,), [1], {"a": 1}),
    *(uuid.UUID(int=1), str(uuid.UUID(int=1)), pd.Timestamp("2020-01-01", tz="US/Eastern"), pd.Period("2020")),
    *(
        dt.datetime(2020, 1, 1, 6, tzinfo=dt.timezone(dt.timedelta(hours=9))),
        np.datetime64("20200-01-01"),
        np.bytes_(b"a"),
    ),
]
OBJECTS = [*TEXTS, *FLOATS, *WHOLE, *STAMPS, *DATES, *DECIMALS, *BYTES, *ODD]


def of_pandas(dtype=None):
    return lambda values: pd.DataFrame({"v": pd.Series(values, dtype=dtype)})


def of_polars(dtype):
    return lambda values: pl.concat([pl.DataFrame({"v": pl.Series(part, dtype=dtype)}) for part in halves(values)])


def of_arrow(kind):
    return lambda values: pa.table({"v": pa.chunked_array([pa.array(part, kind) for part in halves(values)], kind)})


def halves(values):
    """Give values in two parts, of which one may be empty."""
    return values[: len(values) // 2], values[len(values) // 2 :]


def categorical(values):
    known = [*dict.fromkeys(value for value in values if value is not None)]
    codes = [-1 if value is None else known.index(value) for value in values]
    return pd.DataFrame({"v": pd.Categorical.from_codes(codes, categories=pd.Index(known, dtype=object))})


def nothing_in_its_dictionary(values):
    known = ["b?", "b", "a", None]
    codes = pa.array([known.index(value) for value in values], pa.int8())
    return pa.table({"v": pa.DictionaryArray.from_arrays(codes, known)})


def dask(values, parts=2):
    return dd.from_pandas(pd.DataFrame({"v": values}), npartitions=parts, sort=False)


def duck(make):
    return lambda values: duckdb.from_arrow(make(values))


def with_polars(make, use):
    return lambda values: use(make(values))


TEXT_OR_NONE, SOME = [*TEXTS, None], [*TEXTS[::3], None]
KINDS = {
    "pandas objects": (OBJECTS, of_pandas(object)),
    "pandas objects, texts": ([*TEXT_OR_NONE, "a\ud800"], of_pandas(object)),
    "pandas objects, numbers": ([*FLOATS, *WHOLE, True, False], of_pandas(object)),
    "pandas, whatever it makes": (
        [each for each in OBJECTS if not any(each is other for other in UNMADE)],
        of_pandas(),
    ),
    "pandas, text": (TEXT_OR_NONE, of_pandas("string[python]")),
    "pandas, text in Arrow": (SOME, of_pandas("string[pyarrow]")),
    "pandas, numbers": ([each for each in FLOATS if each is not None], of_pandas(float)),
    "pandas, complex": ([1j, 1 + 0j, complex(math.nan, 0)], of_pandas(complex)),
    "pandas, nullable": (WHOLE, of_pandas("Int64")),
    "pandas, nullable truth": ([True, False, None], of_pandas("boolean")),
    "pandas, sparse": (
        [1.0, 0.1, 0.0, math.nan],
        lambda values: pd.DataFrame({"v": pd.arrays.SparseArray(values)}),
    ),
    "pandas, stamps": (STAMPS, lambda values: pd.DataFrame({"v": np.array(values, "M8[us]")})),
    "pandas, categories": ([*TEXT_OR_NONE, 1.5, 2], categorical),
    "pandas, decimals in Arrow": (DECIMALS, of_pandas(pd.ArrowDtype(pa.decimal128(38, 18)))),
    "Polars, text": (TEXT_OR_NONE, of_polars(pl.String)),
    "Polars, categorical": (
        TEXT_OR_NONE,
        lambda values: pl.DataFrame({"v": pl.Series(values, dtype=pl.String).cast(pl.Categorical)}),
    ),
    "Polars, enum": (SOME, of_polars(pl.Enum(TEXTS))),
    "Polars, lazy": (SOME, with_polars(of_polars(pl.String), pl.DataFrame.lazy)),
    "Polars, lazy numbers": (FLOATS, with_polars(of_polars(pl.Float64), pl.DataFrame.lazy)),
    "Polars, objects": (
        [each for each in OBJECTS if each is not Letter.A],  # of which Polars makes a text
        lambda values: pl.DataFrame({"v": pl.Series(values, dtype=pl.Object)}),
    ),
    "Polars, bytes": (BYTES, of_polars(pl.Binary)),
    "Polars, large": ([1, 0, 2**100, -(2**63), None], of_polars(pl.Int128)),
    "Polars, decimals": (DECIMALS, of_polars(pl.Decimal(38, 18))),
    "Polars, dates": (DATES, of_polars(pl.Date)),
    "Polars, stamps": (STAMPS, of_polars(pl.Datetime("us"))),
    **{f"Arrow, {kind}": (TEXT_OR_NONE, of_arrow(kind)) for kind in (pa.string(), pa.large_string())},
    "Arrow, views": (SOME, lambda values: pa.table({"v": pa.array(values, pa.string_view())})),
    "Arrow, dictionary": (
        SOME,
        lambda values: pa.table({"v": pa.array(values, pa.string()).dictionary_encode()}),
    ),
    "Arrow, runs": (
        WHOLE,
        lambda values: pa.table({"v": pc.run_end_encode(pa.array(values, pa.int64()))}),
    ),
    "Arrow, bytes": (BYTES, of_arrow(pa.binary())),
    "Arrow, decimals": (DECIMALS, of_arrow(pa.decimal128(38, 18))),
    "Arrow, thousands": ([Decimal("1E3"), Decimal("1E5"), None], of_arrow(pa.decimal128(5, -3))),
    "Arrow, unsigned": ([2**63, 2**64 - 1, 1, None], of_arrow(pa.uint64())),
    "Arrow, numbers": (FLOATS, of_arrow(pa.float64())),
    "Arrow, truth": ([True, False, None], of_arrow(pa.bool_())),
    "Arrow, dates": (DATES, of_arrow(pa.date32())),
    "Arrow, nothing": ([None], of_arrow(pa.null())),
    "Arrow, spans": ([dt.timedelta(1), None], of_arrow(pa.duration("us"))),
    "DuckDB, text": (SOME, duck(of_arrow(pa.string()))),
    "DuckDB, decimals": (DECIMALS, duck(of_arrow(pa.decimal128(38, 18)))),
    "DuckDB, truth": ([True, False, None], duck(of_arrow(pa.bool_()))),
    "Dask, text": (SOME, dask),
    "Dask, numbers": (FLOATS, dask),
    "Dask, truth": ([True, False, None], dask),
    "Dask, decimals": (DECIMALS, dask),
    "Dask, dates": (DATES, dask),
}
WIDTHS = [*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
for width in WIDTHS:
    named = width.replace("i", "I").replace("u", "U")
    values = [0, 1, 7, int(np.iinfo(width).min), int(np.iinfo(width).max)]
    KINDS |= {
        f"pandas, {width}": (values, of_pandas(width)),
        f"pandas, nullable {width}": ([*values, None], of_pandas(named)),
        f"pandas, {width} in Arrow": ([*values, None], of_pandas(pd.ArrowDtype(getattr(pa, width)()))),
        f"Polars, {width}": ([*values, None], of_polars(getattr(pl, named))),
        f"Arrow, {width}": ([*values, None], of_arrow(getattr(pa, width)())),
    }
ZONED = [each and each.replace(tzinfo=dt.UTC).astimezone(dt.timezone(dt.timedelta(hours=9))) for each in STAMPS[1:]]
ZONED = [each and each.replace(microsecond=0) for each in ZONED]
for unit in ("s", "ms", "us", "ns"):
    kind = pa.timestamp(unit, "Asia/Tokyo")
    KINDS |= {
        f"Arrow, zoned {unit}": (ZONED, of_arrow(kind)),
        f"pandas, zoned {unit}": (ZONED, of_pandas(f"datetime64[{unit}, Asia/Tokyo]")),
        f"pandas, zoned {unit} in Arrow": (ZONED, of_pandas(pd.ArrowDtype(kind))),
    }
KINDS |= {
    "pandas, halves": ([0.0, 1.0, 7.0, math.inf, math.nan], of_pandas("float16")),
    "pandas, truth in Arrow": ([True, False, None], of_pandas(pd.ArrowDtype(pa.bool_()))),
    "pandas, dates in Arrow": (DATES, of_pandas(pd.ArrowDtype(pa.date32()))),
    "pandas, text of its own": (SOME, of_pandas("str")),
    "pandas, dictionary in Arrow": (SOME, of_pandas(pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())))),
    "pandas, categories that none has": (
        ["a", "b", "1", None],
        lambda values: pd.DataFrame({"v": pd.Categorical(values, ["x", "b", "y", "1", "a", 2])}),
    ),
    "Arrow, nothing in its dictionary": (["a", "b", None], nothing_in_its_dictionary),
    "Polars, zoned": (ZONED, of_polars(pl.Datetime("us", "Asia/Tokyo"))),
    "Polars, truth": ([True, False, None], of_polars(pl.Boolean)),
    "Arrow, dates in milliseconds": (DATES[1:], of_arrow(pa.date64())),
    **{
        f"Arrow, {kind}": ([Decimal("0.1"), Decimal(2), None], of_arrow(getattr(pa, kind)(9, 3)))
        for kind in ("decimal32", "decimal64", "decimal256")
        if hasattr(pa, kind)  # the narrow ones are of pyarrow 19
    },
}  # fmt: skip
UNNAMED = {"pandas, complex", "Dask, truth", "Dask, decimals", "Dask, dates"}
"""Of other types as columns than as objects, of which the first name nobody; Dask makes texts of objects."""

X = Column("v", bounds=(-10.0, 20_000.0), fill=3.0)
NAMES = ("a", "b", 0.1, 7, "e\u0301", "\0", "a\0", "nan", "", "2020-01-01", "1.0", "x" * 127, "x" * 128, "a\ud800")
C = Column("v", categories=NAMES)
AMONG = C, Column("v", categories=(0, 1, 7, 2.5)), Column("v", categories=("a", "b"))
K = Column("v")
WHO = Read("v", "people")


def named(name):
    return name.decode(errors="surrogatepass") if isinstance(name, bytes) else None if name is None else str(name)


def counted(frame, size):
    """What each row counts as: its number, whether that is missing, its category, its key and its person."""
    rows = []
    for count, raw in adapt(frame).batches([number(X), *map(category, AMONG), key_read(K), WHO], size):
        batch = Batch(count, raw)
        places, values = _codes_of_values(batch, K)
        keys = [None if place < 0 else values[place] for place in places.tolist()]
        assert {type(key) for key in keys} <= {str, int, float, type(None)}
        names = [named(each) for each in raw[WHO].values.to_pylist()]
        people = [None if code == NOBODY else names[code] for code in raw[WHO].codes.tolist()]
        codes = np.stack([batch.codes(column) for column in AMONG], axis=1).tolist()
        found = batch.values(X).tolist(), batch.missing(X).tolist(), codes, keys, people
        rows += [tuple(map(repr, row)) for row in zip(*found, strict=True)]
    return rows


def as_object(value, known={}):  # noqa: B006
    """What a Python object counts as, worked out once."""
    if id(value) not in known:
        known[id(value)] = value, counted(of_pandas(object)([value]), 1)[0]  # which keeps the identity taken
    return known[id(value)][1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_counts_as_it_does_alone(kind):
    """In company of any other values, in any order, batch, chunk and partition; and as the Python object counts."""
    pool, make = KINDS[kind]
    rng = np.random.default_rng(17)
    kept = slice(4 if kind in UNNAMED else 5)  # of what a row counts as
    alone = [counted(make([value]), 1)[0] for value in pool]
    objects = [as_object(value) for value in pool]

    if kind != "pandas, whatever it makes":  # one value by itself may become another one, as True does 1
        assert dict(enumerate(each[kept] for each in alone)) == dict(enumerate(each[kept] for each in objects))
    for _ in range(5 if len(pool) > 20 else 3):
        places = rng.integers(0, len(pool), rng.integers(2, 40))
        found = counted(make([pool[at] for at in places]), int(rng.choice([1, 3, 8, 40])))
        expected = [objects[at] if kind == "pandas, whatever it makes" else alone[at] for at in places]
        assert [each[kept] for each in found] == [each[kept] for each in expected]


def test_an_object_that_raises_is_missing():
    """Whatever it is asked."""
    for read, expected in ((Read("v"), [1.0, math.nan]), (WHO, ["1", None]), (key_read(K), [1.0, None])):
        found = columns.read_column([1, Broken()], read)
        if not isinstance(found, np.ndarray):
            values = [each.decode() if isinstance(each, bytes) else each for each in list(found.values.to_pylist()
                      if read == WHO else found.values)]  # fmt: skip
            found = [None if code < 0 else values[code] for code in found.codes]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_reads_alike_alone_and_among_many(text):
    """The number that Python reads is the one that Arrow reads, to the last bit."""
    frame = pa.table({"v": [text, "a", text, "1", None]})
    [(_, raw)] = adapt(frame).batches([Read("v")], 9)

    np.testing.assert_array_equal(raw[Read("v")], [read_number(text), math.nan, read_number(text), 1.0, math.nan])


def test_numbers_as_text_are_those_numbers():
    """Whichever way they are written."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**64, 3000, dtype=np.uint64).view(np.float64)
    numbers = np.concatenate(
        [bits[~np.isnan(bits)], rng.normal(size=500), rng.integers(-(2**62), 2**62, 500) * 1.0]
    )
    for write in (repr, "{:.3e}".format, "{:f}".format, "{:+.17g}".format):
        texts = [write(each) for each in numbers.tolist()]
        [(_, raw)] = adapt(pa.table({"v": texts})).batches([Read("v")], 10_000)
        np.testing.assert_array_equal(raw[Read("v")], [float(text) for text in texts])


# ---- whole tables -----------------------------------------------------------------------------------------

READERS = {
    "pandas": pd.read_csv,
    "Polars": lambda path: pl.read_csv(path, infer_schema_length=None),
    "Arrow": pyarrow.csv.read_csv,
    "DuckDB": lambda path: duckdb.read_csv(path, sample_size=-1),
}
CELLS = {"floats": "1.0", "whole": "1", "truth": "True", "dates": "1970-01-02", "blanks": " 1.0"}


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("reader", READERS)
def test_one_cell_of_a_file_moves_one_row(reader, cell, tmp_path):
    """A cell "unknown" makes texts of the 999 other cells of its column, and they count as before."""
    found = []
    for last in (cell, "unknown"):
        path = str(tmp_path / f"{last.strip()}.csv")
        with open(path, "w") as file:  # noqa: PTH123
            file.write("x,y\n" + f"{cell},1\n" * 999 + f"{last},1\n")
        frame = adapt(READERS[reader](path))
        said = {"bounds": {"x": (-1, 1)}, "categories": None, "public": (), "missing": None}
        table = Table(frame, read_schema(frame, **said, neighbors="replace_one"))
        x = table.schema.columns["x"]
        found.append(table.total(Stack(Moments(x, degree=1), Given(x)), 0))

    assert found == [[1000, 1000], [999, 999]]


@pytest.mark.parametrize("where", [0, 5_000, 9_999])
@pytest.mark.parametrize("dtype", [object, "string[python]", "category"])
def test_a_zero_byte_moves_one_row(dtype, where):
    """A text that goes on after a zero byte is another one, and takes no others along."""
    labels = ["b"] * 10_000
    labels[where] = "b\0"
    frame = categorical(labels) if dtype == "category" else of_pandas(dtype)(labels)
    parts = adapt(frame).batches([category(C)], 4096)
    codes = [code for count, raw in parts for code in Batch(count, raw).codes(C)]

    assert codes.count(1) == 9_999
    assert codes[where] == len(NAMES)


IDS = ["", "\0", "L" + "x" * 126, "L" + "x" * 127, "L" + "x" * 130, "p", "p\0", "1", "01"]


@pytest.mark.parametrize("make", [
    lambda table: table,
    lambda table: table.combine_chunks(),
    pl.from_arrow,
    lambda table: pl.from_arrow(table).lazy(),
    lambda table: table.to_pandas().astype({"id": object}),
    duckdb.from_arrow,
    lambda table: dd.from_pandas(table.to_pandas(), npartitions=3, sort=False),
], ids=["chunks", "one chunk", "Polars", "lazy", "pandas", "DuckDB", "Dask"])  # fmt: skip
def test_people_of_hostile_names_are_each_their_own(make):
    """Blank, long, with zero bytes, in chunks of different names: nobody's rows move anybody else's."""
    rng = np.random.default_rng(3)
    parts = [[IDS[at] for at in rng.integers(0, len(IDS), 60)] + [f"q{part}"] * 2 for part in range(4)]
    tables = [pa.table({"id": part, "v": rng.integers(-9, 9, len(part)).astype(float)}) for part in parts]
    every = pa.concat_tables(tables)

    def kept(table):
        frame = BoundedFrame(adapt(table), Unit("id", 3, "omit"), bytes(range(32)), (X,))
        who = Read("id", "people")
        found = [(raw[who].values[code].as_py(), x) for _, raw in frame.batches([who, number(X)], 16)
                 for code, x in zip(raw[who].codes, raw[number(X)], strict=True)]  # fmt: skip
        return sorted(found)

    rows = kept(make(every))
    assert len(rows) == 3 * len(IDS) + 2 * 4
    for name in IDS[:3]:
        without = every.filter(pc.not_equal(every["id"], name))
        assert kept(make(without)) == [row for row in rows if row[0] != name.encode()]


def test_people_are_one_however_their_number_is_held():
    """An integer and the text of its digits name one person."""
    frame = pd.DataFrame({"v": pd.Series(["7", 7, 7.0, Decimal(7), b"7", np.int8(7)], dtype=object)})
    parts = [raw[WHO] for _, raw in adapt(frame).batches([WHO], 2)]

    assert columns.concatenate_people(parts).codes.tolist() == [0] * 6
