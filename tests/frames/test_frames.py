"""Every library's frames give the same cleaned values."""

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
from dfprivacy._table.batch import category, number
from dfprivacy._table.conditions import batches
from dfprivacy._table.frames import Read, adapt, redact_errors
from dfprivacy.errors import ArgumentError, ReadError, SchemaError
from dfprivacy.features import Count, Moments, OneHot

pytestmark = pytest.mark.pandas


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


# ---- values; of all types in guarantees/test_row_locality.py -----------------------------------------------


def test_floats(constructor, numbers_of):
    """Numbers are clipped, infinities too; NaN and missing ones are filled; on every backend."""
    data = {"x": [3.5, math.nan, None, math.inf, -math.inf, 11.0, -0.5, 10.0, 0.0]}

    assert numbers_of(constructor(data), (0, 10), 2) == [3.5, 2, 2, 10, 0, 10, 0, 10, 0]
    assert numbers_of(constructor({"x": [7]})) == [7]
    assert numbers_of(constructor({"x": [True, False]}), (0, 0.5)) == [0.5, 0]


def test_texts(constructor, categories_of):
    """Text is found among the categories; what is none of them counts nowhere, or as all else does."""
    frame = constructor({"x": ["b", None, "a", "unknown", "b", "1"]})

    assert categories_of(frame, ["a", "b"]) == ["b", None, "a", None, "b", None]
    assert categories_of(frame, ["b", 7, ""]) == ["b", None, None, None, "b", None]
    assert categories_of(frame, ["a", "b"], "other") == ["b", "other", "a", "other", "b", "other"]
    assert categories_of(frame, [1, 2]) == [None] * 5 + [1]
    with pytest.raises(SchemaError, match="reads as it"):
        categories_of(frame, ["1", 1])


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


def test_empty_tables_have_no_batches(constructor, schema_of):
    """A table without rows sums to zero."""
    frame = constructor({"x": np.array([], dtype=np.float64)})
    schema = schema_of(frame, bounds={"x": (0, 1)}, neighbors="add_remove")

    assert Table(adapt(frame), schema).total(Moments(schema.numeric("x"), count=True), 30) == [0, 0, 0]


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
