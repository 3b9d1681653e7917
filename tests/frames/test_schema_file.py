"""A schema in a file says what arguments say, comes back as it was written, and is refused in time."""

from __future__ import annotations

import datetime as dt
import string
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import dfprivacy as dp
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import ColumnsFrame
from dfprivacy._table.frames.files import declared_columns, open_table
from dfprivacy.cli import main
from dfprivacy.schema.files import read_file, skeleton

CANARY = 987654.25
ROWS = pd.DataFrame({"age": [CANARY, 31.0, 45.0, 28.0] * 25, "g": ["a", "b"] * 50, "id": range(100)})
TERMS = 'name = "survey"\nepsilon = "1/3"\n'
COLUMNS = """
[columns.age]
bounds = [18, 90]
label = "age"
units = "years"

[columns.g]
categories = ["a", "b"]
public = true
"""


@pytest.fixture
def written(tmp_path):
    """Write a schema file of some text."""

    def write(text):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


class Unread:
    """A table that must not be read."""

    def __arrow_c_stream__(self, requested_schema=None):
        schema = pa.schema([("age", pa.float64()), ("g", pa.string()), ("id", pa.int64())])

        def rows():
            raise AssertionError("rows were read")
            yield

        return pa.RecordBatchReader.from_batches(schema, rows()).__arrow_c_stream__()


def test_a_file_says_what_arguments_say(written):
    """The view is that of the same arguments, and its account is the same."""
    same_or_more = {"epsilon": "1/3", "bounds": {"age": (18.0, 90), "id": (0, 99)}, "public": ["g"]}
    more = dp.protect(ROWS, "survey", schema=written(TERMS + COLUMNS), **same_or_more, default_epsilon=0.1)
    assert more.schema.columns["id"].bounds == (0.0, 99.0)
    by_file = dp.protect(ROWS, "survey", schema=written(TERMS + COLUMNS))

    by_hand = dp.protect(
        ROWS, "survey", epsilon="1/3", bounds={"age": (18, 90)}, categories={"g": ["a", "b"]}, public=["g"]
    )
    assert by_hand.schema == by_file.schema
    assert by_hand.budget.epsilon == by_file.budget.epsilon
    first = by_file.mean("age", epsilon="1/3")
    assert by_hand.mean("age", epsilon="1/3").privacy.replayed
    assert first.privacy.epsilon == 1 / 3


def test_words_are_shown_and_change_nothing_else(written):
    """What was measured before there were words is found again, and the view shows them."""
    before = dp.protect(ROWS, "survey", epsilon=1, bounds={"age": (18, 90)})
    before.mean("age", epsilon=0.5)

    view = dp.protect(ROWS, "survey", schema=written("epsilon = 1\n" + COLUMNS.partition("[columns.g]")[0]))

    assert "age: age (years); from 18 to 90" in repr(view)
    assert "age (years)" in repr(view["age"])
    assert "age (years)" in view._repr_html_()
    assert view.mean("age", epsilon=0.5).privacy.replayed
    assert view.where(age=(20, 30)).declare(bounds={"id": (0, 99)}).schema.words == view.schema.words


def test_a_person_with_several_rows(written):
    """Whose the rows are, how many count and how many people there are can be said in a file."""
    text = (
        TERMS + 'unit = "id"\nmax_rows = 2\nunit_missing = "own"\nsize = 50\n\n[columns.age]\nbounds = [18, 90]\n'
    )

    view = dp.protect(ROWS, "survey", schema=written(text))

    assert (view.schema.unit.column, view.schema.unit.max_rows, view.schema.unit.missing) == ("id", 2, "own")
    assert view.schema.people == 50
    again = dp.protect(ROWS, "survey", schema=written(view.to_toml()))
    assert view.schema == again.schema
    with pytest.raises(dp.SchemaError, match="aggregated by person"):
        view.per("id").agg(age="mean").schema.to_toml()


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.floats(-1e15, 1e15, allow_nan=False)
BOUNDS = st.tuples(NUMBERS, NUMBERS).filter(lambda pair: pair[1] - pair[0] > 1e-6).map(lambda pair: pair)
CATEGORIES = st.one_of(
    st.lists(NAMES, min_size=1, max_size=4, unique=True),
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=4, unique=True),
    st.lists(st.floats(-1e3, 1e3).map(lambda x: x + 0.0), min_size=1, max_size=4, unique=True),
    st.just([False, True]),
)


@st.composite
def schemas(draw):
    """Any schema of up to four columns."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    some = st.lists(st.sampled_from(names), unique=True)
    bounds = {name: draw(BOUNDS) for name in draw(some)}
    categories = {name: draw(CATEGORIES) for name in draw(some)}
    missing = {name: draw(st.floats(*bounds[name])) for name in draw(some) if name in bounds}
    missing |= {name: "other" for name in draw(some) if name in categories}
    said = {"bounds": bounds, "categories": categories, "missing": missing}
    frame = ColumnsFrame({name: pd.Series([0.0] * draw(st.integers(1, 3))).to_numpy() for name in names[:1]})
    frame._columns |= dict.fromkeys(names, frame._columns[names[0]])
    if draw(st.booleans()):
        return read_schema(frame, **said, public=(), neighbors="add_remove")
    return read_schema(frame, **said, public=tuple(draw(some)), neighbors="replace_one")


@settings(max_examples=60, deadline=None)
@given(schemas())
def test_what_is_written_is_read_as_it_was(tmp_path_factory, schema):
    """Writing and reading gives the same schema back, whatever its names and values are."""
    path = tmp_path_factory.getbasetemp() / "round.toml"
    path.write_text(schema.to_toml(), encoding="utf-8")

    read = read_file(path)
    frame = ColumnsFrame({name: pd.Series([0.0]).to_numpy() for name in read.columns})
    about = {"bounds", "categories", "missing", "public", "neighbors", "size"}
    again = read_schema(frame, **{name: value for name, value in read.arguments().items() if name in about})

    assert schema.columns == again.columns
    kinds = [[type(c) for col in each.columns.values() for c in col.categories or ()] for each in (schema, again)]
    assert kinds[0] == kinds[1]
    assert (schema.names, schema.neighbors, schema.size) == (again.names, again.neighbors, again.size)


def test_dates_are_bounds(written):
    """A date in the file is the day that it is."""
    text = "epsilon = 1\n[columns.age]\nbounds = [1970-01-02, 1970-01-11]\nmissing = 1970-01-05\n"

    column = dp.protect(ROWS, "survey", schema=written(text)).schema.columns["age"]

    assert (column.bounds, column.fill) == ((1.0, 10.0), 4.0)
    dp.protect(ROWS, "survey", schema=written(text), bounds={"age": (dt.date(1970, 1, 2), 10)}, missing={"age": 4})


BAD = {
    "an unknown key": ("colour = 1\n", "unknown key, 'colour'"),
    "a near key": ('delte = "1"\n', "Did you mean 'delta'"),
    "an unknown key of a column": ("[columns.age]\nbouds = [1, 2]\n", "of column 'age', 'bouds'. .*'bounds'"),
    "reversed bounds": ("[columns.age]\nbounds = [90, 18]\n", "equal or reversed"),
    "bounds of one": ("[columns.age]\nbounds = [90]\n", "must be a pair"),
    "bounds of text": ('[columns.age]\nbounds = "18-90"\n', "must be a pair"),
    "endless bounds": ("[columns.age]\nbounds = [0, inf]\n", "finite number"),
    "another column": ("[columns.aeg]\n", "There is no column 'aeg'"),
    "a column that is no table": ("[columns]\nage = 3\n", "is not a table"),
    "columns that are none": ("columns = 3\n", "columns is not a table"),
    "doubled categories": ("[columns.g]\ncategories = [1, 1.0]\n", "each value once"),
    "a date as category": ("[columns.g]\ncategories = [1970-01-02]\n", "strings and finite numbers"),
    "a fill outside": ("[columns.age]\nbounds = [1, 2]\nmissing = 3\n", "outside the bounds"),
    "no truth": ('[columns.g]\npublic = "yes"\n', "public of column 'g' is not true or false"),
    "a truth as a budget": ("default_epsilon = true\n", "default_epsilon is not text"),
    "no budget": ('default_epsilon = "much"\n', "not a finite number"),
    "no relation": ('neighbors = "next door"\n', "unknown"),
    "public and private": ('neighbors = "add_remove"\n[columns.g]\npublic = true\n', "public columns need"),
    "rows without a unit": ("max_rows = 3\n", "needs unit="),
    "no size": ("size = 0\n", "not an integer"),
    "not TOML": ("delta == 1\n", "is not TOML"),
    "twice": ("[columns.age]\n[columns.age]\n", "is not TOML"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_cannot_be_used_is_refused_before_anything(written, case):
    """The error names the file and what to do; no row is read and no account is opened."""
    text, expected = BAD[case]
    path = written("epsilon = 1\n" + text)

    with pytest.raises(dp.ArgumentError, match=expected) as caught:
        dp.protect(Unread(), "survey", schema=path)

    assert str(path) in str(caught.value) or case == "no budget"
    assert "Nothing was released or spent." in str(caught.value)
    assert open_ledger("memory:").accounts() == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"name": "other"}, "describes the data set 'survey', not 'other'"),
        ({"epsilon": 1}, "different values of epsilon"),
        ({"bounds": {"age": (18, 91)}}, r"different values of bounds\['age'\]"),
        ({"categories": {"g": ["b", "a"]}}, r"different values of categories\['g'\]"),
        ({"categories": {"g": dp.discover()}}, r"different values of categories\['g'\]"),
        ({"public": ["id"]}, "does not declare 'id' public"),
    ],
)
def test_an_argument_that_says_otherwise_is_refused(written, given, expected):
    """Neither wins over the other."""
    name = given.pop("name", "survey")

    with pytest.raises(dp.SchemaError, match=expected):
        dp.protect(Unread(), name, schema=written(TERMS + COLUMNS), **given)


@pytest.mark.parametrize("schema", ["nowhere.toml", ".", 3, "bytes.toml", "large.toml"])
def test_no_file(schema, tmp_path, monkeypatch):
    """What is no file is refused; a table passed by mistake is not taken apart."""
    monkeypatch.chdir(tmp_path)
    Path("bytes.toml").write_bytes(b"\xff")
    with Path("large.toml").open("wb") as file:
        file.truncate(10**8)

    with pytest.raises(dp.SchemaError, match="more than" if schema == "large.toml" else None):
        dp.protect(ROWS, "survey", schema=schema)


def test_digests_tell_schemas_apart_and_nothing_else(written):
    """Prices, words, comments and defaults do not count; bounds, categories, names and the relation do."""
    base = read_file(written(TERMS + COLUMNS)).digest

    same = [
        TERMS.replace("1/3", "7") + COLUMNS.replace("years", "a"),
        "# a\n" + TERMS + 'neighbors = "replace_one"\n' + COLUMNS.replace("18,", "18.0,"),
    ]
    other = [
        TERMS.replace("survey", "s") + COLUMNS,
        TERMS + COLUMNS.replace("90", "91"),
        TERMS + COLUMNS.replace("public = true", ""),
        TERMS + COLUMNS.replace('["a", "b"]', '["b", "a"]'),
        TERMS + "size = 3\n" + COLUMNS,
        TERMS + COLUMNS + "[columns.id]\n",
    ]
    assert {base} == {read_file(written(text)).digest for text in same}
    assert base not in {read_file(written(text)).digest for text in other}


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_a_skeleton_knows_no_value(tmp_path, ending):
    """It has the names and types; no value, no statistic, no dictionary and no number of rows."""
    text_value = "CANARYTEXT"
    df = pl.DataFrame(
        {
            "age": [CANARY, 31.0],
            "a name": [text_value, "b"],
            "cat": pl.Series([text_value, "c"], dtype=pl.Categorical),
            "enum": pl.Series([text_value, "d"], dtype=pl.Enum([text_value, "d"])),
        }
    )
    path = tmp_path / f"table.{ending}"
    {"parquet": df.write_parquet, "arrow": df.write_ipc, "csv": df.write_csv}[ending](path)

    printed = skeleton(declared_columns(path), "table")

    assert list(df.columns) == list(read_file_of(tmp_path, printed).columns)
    assert text_value not in printed
    assert str(int(CANARY)) not in printed
    assert ("double" in printed) == (ending != "csv")
    assert df.columns == list(dict(declared_columns(path)))
    assert open_table(path).columns == df.columns


def read_file_of(folder, text):
    path = folder / "skeleton.toml"
    path.write_text(text, encoding="utf-8")
    return read_file(path)


def test_a_skeleton_reads_no_rows(tmp_path):
    """Pages of values may be damaged: only the footer is read."""
    path = tmp_path / "torn.parquet"
    parquet.write_table(pa.table({"x": list(range(1000)), "y": list(string.ascii_letters[:40] * 25)}), path)
    content = bytearray(path.read_bytes())
    length = int.from_bytes(content[-8:-4], "little")
    content[4 : -8 - length] = bytes(len(content) - 12 - length)
    path.write_bytes(content)

    assert [name for name, _ in declared_columns(path)] == ["x", "y"]
    with pytest.raises(dp.ReadError):
        open_table(path)


def test_the_command_line_writes_a_skeleton(tmp_path, capsys):
    """It prints it, or writes a new file, and writes over none."""
    path, out = tmp_path / "t.csv", tmp_path / "t.toml"
    path.write_text("age,g\n31,CANARY\n")

    assert main(["schema", "init", str(path)]) == 0
    printed = capsys.readouterr().out
    assert main(["schema", "init", str(path), "--output", str(out)]) == 0
    assert printed == out.read_text()
    assert ("CANARY" not in printed, ["age", "g"]) == (True, list(read_file(out).columns))
    assert main(["schema", "init", str(path), "--output", str(out)]) == 1
    assert "exists" in capsys.readouterr().err
    assert main(["schema", "init", str(tmp_path / "nowhere.csv")]) == 1
    assert main(["schema", "init", str(tmp_path)]) == 1


@pytest.mark.parametrize(
    "line", ["31,45", "age,45", "age,age", ",", "1e5,x", "nan,x", "-nan,x", "1_000,x", "2026-01-31,x", "True,x", ""]
)
def test_a_file_without_a_header_is_refused(tmp_path, line):
    """Its first line may be a row, so it is not shown."""
    path = tmp_path / "table.csv"
    path.write_text(f"{line}\n1,2\n", encoding="utf-8")

    with pytest.raises(dp.ArgumentError, match="header") as refused:
        declared_columns(path)

    assert "45" not in str(refused.value).replace(str(path), "")
