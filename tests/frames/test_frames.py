"""Every library's frames give the same cleaned values."""

from __future__ import annotations

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


def test_values(constructor, numbers_of, categories_of):
    """Numbers are clipped and filled, infinities too; what is no category counts nowhere, or as all else does."""
    numbers = constructor({"x": [3.5, math.nan, None, math.inf, -math.inf, 11.0, -0.5, 10.0, 0.0]})
    texts = constructor({"x": ["b", None, "a", "unknown", "b", "1"]})

    assert numbers_of(numbers, (0, 10), 2) == [3.5, 2, 2, 10, 0, 10, 0, 10, 0]
    assert numbers_of(constructor({"x": [True, False]}), (0, 0.5)) == [0.5, 0]
    assert categories_of(texts, ["b", 7, ""]) == ["b", None, None, None, "b", None]
    assert categories_of(texts, ["a", "b"], "other") == ["b", "other", "a", "other", "b", "other"]
    assert categories_of(texts, [1, 2]) == [None] * 5 + [1]
    with pytest.raises(SchemaError, match="stands for it too"):
        categories_of(texts, ["1", 1])


def test_an_object_is_read_by_itself(categories_of):
    """What a value counts as does not depend on an equal object in another row."""
    values = pd.Series([Lookalike(), 1, Decimal(1), Lookalike()], dtype=object)

    assert categories_of(pd.DataFrame({"x": values}), [1]) == [None, 1, 1, None]


# ---- the shape of frames ---------------------------------------------------------------------------------


def test_tables_without_rows_or_columns(constructor, schema_of):
    """A table without rows sums to zero; a pandas frame may have rows and no columns."""
    frame, bare = constructor({"x": np.array([], dtype=np.float64)}), pd.DataFrame(index=range(3))
    schema = schema_of(frame, bounds={"x": (0, 1)}, neighbors="add_remove")

    assert Table(adapt(frame), schema).total(Moments(schema.numeric("x"), count=True), 30) == [0, 0, 0]
    assert Table(adapt(bare), schema_of(bare)).total(Count(), 0) == [3]


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


X, TEXT = list(range(10)), list("abcabcabca")
PIECES = [slice(0, 3), slice(3, 3), slice(3, 7), slice(7, 10)]
ARROW = pa.concat_tables([pa.table({"x": X, "by": TEXT})[each] for each in PIECES])
CHUNKED = pl.concat([pl.DataFrame({"x": X})[each] for each in PIECES], rechunk=False)
BLOCK = [[1.0, 20.0, math.nan], [4.0, 5.0, 6.0]]


def block(order, step=1):
    """Columns that lie in a shared, read-only, strided block."""
    made = np.array(BLOCK, order=order)
    made.flags.writeable = False
    return pd.DataFrame(made[:, ::step], columns=["a", "x", "c"], copy=False)


@pytest.mark.parametrize(("frame", "expected"), [
    (ARROW, X), (ARROW.slice(2, 6), X[2:8]), (CHUNKED, X), (CHUNKED.slice(2, 6), X[2:8]),
    (CHUNKED.lazy().slice(2, 6), X[2:8]), (pd.DataFrame({"x": X})[::3], X[::3]),
    (block("C"), [10, 5]), (block("F"), [10, 5]), (block("C", -1), [10, 5]), (block("F").iloc[::-1], [5, 10]),
])  # fmt: skip
def test_slices_pieces_and_blocks(frame, expected, numbers_of):
    """Slices, frames of many pieces, empty ones among them, and blocks of any layout are read in order."""
    assert numbers_of(frame) == expected


def test_sliced_texts(categories_of):
    """Of many pieces, as they are and as codes of a dictionary."""
    part = ARROW.slice(2, 6)
    for texts in (part["by"], part["by"].dictionary_encode(), ARROW["by"].dictionary_encode()[2:8]):
        assert categories_of(pa.table({"x": texts}), ["a", "b", "c"]) == ["c", "a", "b", "c", "a", "b"]


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


def fail(*_):
    raise ValueError("canary-31337")


class FailingStream:
    """An Arrow stream that cannot be opened, or breaks off after its first batch."""

    def __init__(self, opens):
        self.opens = opens

    def __arrow_c_stream__(self, requested_schema=None):
        def read():
            yield pa.record_batch({"x": [1.0]})
            fail()

        _ = None if self.opens else fail()
        reader = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.float64()}), read())
        return reader.__arrow_c_stream__(requested_schema)


NUMBER = pl.col("x").cast(pl.Float64, strict=True)
QUERY = pl.LazyFrame({"x": ["canary-31337", "1"]})
QUOTING = {
    "a cast": (QUERY.select(NUMBER), "add_remove", ReadError, "withheld"),
    "a function": (QUERY.select(pl.col("x").map_batches(fail, return_dtype=pl.Float64)), "add_remove", ReadError,
                   "withheld"),
    "a stream": (FailingStream(opens=True), "add_remove", ReadError, "withheld"),
    "a filter that counts": (QUERY.filter(NUMBER > 0), "replace_one", ReadError, "withheld"),
    "a stream that counts": (FailingStream(opens=True), "replace_one", ReadError, "withheld"),
    "a stream that does not open": (FailingStream(opens=False), "replace_one", ArgumentError,
                                    "could not be opened"),
}  # fmt: skip


@pytest.mark.parametrize(("frame", "neighbors", "kind", "said"), QUOTING.values(), ids=QUOTING)
def test_an_engine_that_quotes_the_data(frame, neighbors, kind, said, schema_of):
    """What an engine says when it fails is in no text, cause or traceback, also when rows are counted."""

    def read():
        schema = schema_of(frame, bounds={"x": (0, 1)}, neighbors=neighbors)
        redact_errors(lambda: Table(adapt(frame), schema).total(Moments(schema.numeric("x")), 30))

    with pytest.raises(kind, match=said) as caught:
        read()

    assert "canary" not in text_of(caught.value)
    assert kind is ArgumentError or caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize(("raised", "seen"), [
    (pl.exceptions.PanicException("canary-31337"), ReadError), (KeyboardInterrupt(), KeyboardInterrupt),
])  # fmt: skip
def test_what_is_no_exception(raised, seen):
    """A panic of a Rust engine is withheld like an error; stopping the program is not an error of the data."""

    def stop():
        raise raised

    with pytest.raises(seen) as caught:
        redact_errors(stop)

    assert "canary" not in text_of(caught.value)


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
