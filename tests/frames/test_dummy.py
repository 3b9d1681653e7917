"""A made-up table has a schema's columns, and nothing of the real one's rows."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp

DATA = {
    "age": [987654.25, 31.0, 45.0, 28.0] * 25, "g": ["CANARY", "b"] * 50, "grade": [1, 2] * 50,
    "mixed": ["1", "x"] * 50, "free": ["CANARY"] * 100,
}  # fmt: skip
SAID = {
    "bounds": {"age": (18, 90), "grade": (1, 5)},
    "categories": {"g": ["a", "b"], "grade": [1, 2, 3], "mixed": [1, "x"]},
    "missing": {"g": "other"},
}


def test_it_is_a_table_of_the_schema(constructor):
    """Each value is one that was declared, in a table of the caller's library, protected like the real one."""
    view = dp.protect(constructor(DATA), "real", epsilon=1, **SAID)

    made = view.schema.dummy(seed=3)

    columns = {name: list(values) for name, values in as_columns(made).items()}
    assert list(DATA) == list(columns)
    assert {len(values) for values in columns.values()} == {100}
    assert all(18 <= value <= 90 for value in columns["age"])
    assert {"a", "b"} == {value for value in columns["g"] if isinstance(value, str)}
    assert {1, 2, 3} == set(columns["grade"])
    assert {"1", "x"} == set(columns["mixed"])
    assert not any(isinstance(value, str) for value in columns["free"])
    practice = dp.protect(made, "practice", epsilon=10, **SAID)
    assert practice.schema == view.schema
    assert practice.group_by("mixed").mean("age", epsilon=1).privacy.epsilon == 1
    assert view.budget.spent == 0


def as_columns(frame):
    """Lists by column, of any library."""
    if isinstance(frame, pd.DataFrame):
        return {name: frame[name].tolist() for name in frame.columns}
    return {name: pl.DataFrame(frame)[name].to_list() for name in pl.DataFrame(frame).columns}


def test_it_knows_no_row():
    """Tables of one schema have one dummy; seeds and sizes change it."""
    other = {name: values[::-1] for name, values in DATA.items()}
    first, second = (dp.protect(pl.DataFrame(data), "real", epsilon=1, **SAID) for data in (DATA, other))

    assert first.schema.dummy(50, 1).equals(second.schema.dummy(50, 1))
    assert not first.schema.dummy(50, 1).equals(first.schema.dummy(50, 2))
    assert len(first.schema.dummy(7)) == 7
    private = dp.protect(pl.DataFrame(DATA), "private", epsilon=1, neighbors="add_remove", **SAID)
    assert len(private.schema.dummy()) == 1000  # whose number of rows is private


def test_people_have_several_rows():
    """The column of people names as many as are public, and can be protected."""
    df = pd.DataFrame({"who": [1, 1, 2, 3], "x": [0.5] * 4})
    terms = {"epsilon": 1, "bounds": {"x": (0, 1)}, "unit": "who", "max_rows": 2}
    known, unknown = dp.protect(df, "known", size=3, **terms), dp.protect(df, "unknown", **terms)

    assert known.schema.dummy(8)["who"].nunique() == 3
    assert unknown.schema.dummy(8)["who"].value_counts().max() == 2
    made = dp.protect(known.schema.dummy(), "practice", size=3, **terms | {"epsilon": 9})
    assert made.per("who").agg(x="mean").mean("x", epsilon=1).privacy.epsilon == 1
    with pytest.raises(dp.ArgumentError, match="too few"):
        known.schema.dummy(2)


@pytest.mark.parametrize("bad", [{"n": 0}, {"n": 1.5}, {"n": True}, {"seed": -1}, {"seed": "a"}])
def test_what_cannot_be_made(bad):
    """Numbers that are none are refused."""
    view = dp.protect(pd.DataFrame(DATA), "real", epsilon=1, **SAID)

    with pytest.raises(dp.ArgumentError, match="is not an integer"):
        view.schema.dummy(**bad)
