"""Conditions: which rows a view selects."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dfprivacy._table import conditions as rows
from dfprivacy._table.batch import Batch, category, number
from dfprivacy._table.conditions import Between, IsIn, Satisfies, batches, read_condition
from dfprivacy._table.frames import adapt
from dfprivacy.errors import SchemaError
from dfprivacy.schema import Column

pytestmark = pytest.mark.pandas

X = Column("x", bounds=(0.0, 10.0), fill=5.0)
BY = Column("by", categories=("a", "b", 3))
FLAG = Column("flag", bounds=(0.0, 1.0), categories=(False, True), fill=0.5)
NOTHING = Column("nothing", public=True)

TABLE = {"x": [0.0, 2.0, math.nan, 8.0, 99.0, -math.inf], "by": ["a", "b", 3, None, "zzz", "a"]}


def selected(frame, *conditions):
    """Row by row, whether all conditions select it."""
    found = [
        np.ones(batch.size, bool) if mask is None else mask for batch, mask in batches(adapt(frame), (), conditions)
    ]
    return np.concatenate(found).tolist()


def table():
    return pd.DataFrame({"x": TABLE["x"], "by": pd.Series(TABLE["by"], dtype=object)})


# ---- batches ---------------------------------------------------------------------------------------------


def test_values_and_codes_are_made_once_for_each_column():
    """A batch cleans a column once; columns of one name and other bounds do not share the result."""
    narrow = Column("x", bounds=(0.0, 5.0), categories=(4,), fill=1.0)
    raw = np.array([4.0, 20.0])
    batch = Batch(2, {number(X): raw, category(narrow): raw})

    assert batch.values(X) is batch.values(X)
    assert batch.values(X).tolist() == [4, 10]
    assert batch.values(narrow).tolist() == [4, 5]
    assert batch.codes(narrow) is batch.codes(narrow)
    assert batch.codes(narrow).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("low", "high"), [(1e16, 1e16 + 2), (0.1, np.nextafter(0.1, 1)), (1 / 3, 0.7), (-1e308, 7e307), (0, 3e-300)]
)
def test_rounding_does_not_carry_values_beyond_one(low, high):
    """Bounds so close or so far that their middle is rounded still map to [-1, 1]."""
    column = Column("x", bounds=(low, high), fill=low)
    raw = np.array([*np.linspace(low, high, 1001), math.inf, -math.inf, math.nan])
    batch = Batch(len(raw), {number(column): raw})

    y = batch.standardized(column)

    assert 1 - 1e-15 <= np.abs(y).max() <= 1
    assert y[-3] == y[1000] >= y[0] == y[-2] == y[-1]


# ---- what a condition selects ----------------------------------------------------------------------------


REST = Column("by", categories=("a", "other"), other=True)
SELECTED = [  # of x = 0, 2, missing, 8, beyond, below; and by = a, b, 3, missing, unknown, a
    ([Between(X, 5, 5)], ""),  # a missing number lies in no interval, whatever its fill value
    ([Between(X, 0, 10)], "01 345"),
    ([Between(X, 10, 10)], "4"),
    ([Between(X, -5, 0)], "05"),
    ([Between(X, 2, 8)], "13"),
    ([Between(X, np.nextafter(2, 3), np.nextafter(8, 7))], ""),
    ([IsIn(BY, ("a", 3))], "025"),
    ([IsIn(BY, ("a", "b", 3))], "0125"),
    ([IsIn(BY, ())], ""),
    ([IsIn(REST, ("other",))], "1234"),
    ([Between(X, 1, 5), IsIn(BY, ("a", "b"))], "1"),
    ([Satisfies((X, BY), lambda row: 1 / row["x"] > 0 and row["by"] + "!")], "1"),  # it fails, and selects nothing
    *[([Satisfies((X,), lambda _, answer=answer: answer)], rows)
      for answer, rows in [(None, ""), (math.nan, "012345"), ("yes", "012345"), ([], ""), (np.array([1, 2]), ""),
                           (np.bool_(True), "012345")]],
]  # fmt: skip


@pytest.mark.parametrize(("conditions", "rows"), SELECTED)
def test_what_conditions_select(conditions, rows):
    """What every condition selects; what a function says is as Python takes it, and an error selects nothing."""
    assert selected(table(), *conditions) == [str(row) in rows for row in range(6)]


def test_a_function_is_asked_row_by_row():
    """A function sees one row at a time, cleaned: numbers, categories, None for what is missing."""
    seen = []
    flags = pd.DataFrame({**table(), "flag": [True, False] * 3, "nothing": range(6)})

    assert selected(flags, Satisfies((X, BY, FLAG, NOTHING), lambda row: seen.append(row) or row["x"] > 4)) == [
        *[False] * 3,
        *[True] * 2,
        False,
    ]
    assert seen == [
        {"x": x, "by": by, "flag": flag, "nothing": None}
        for x, by, flag in zip([0, 2, None, 8, 10, 0], ["a", "b", 3, None, None, "a"], [1, 0] * 3, strict=True)
    ]


values = st.one_of(st.floats(allow_nan=True), st.none())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.lists(st.tuples(values, st.sampled_from(["a", "b", 3, 3.5, None, True])), min_size=1, max_size=25),
    order=st.randoms(use_true_random=False),
    size=st.integers(1, 7),
)
def test_what_is_selected_depends_on_the_row_alone(data, order, size, monkeypatch):
    """Neither the order of the rows nor how they are batched changes which are selected."""
    conditions = [
        Between(X, 1, 6),
        IsIn(BY, ("a", 3)),
        Satisfies((X, BY), lambda row: row["x"] > 2 or row["by"] == "b"),
    ]

    def frame(rows):
        x, by = zip(*rows, strict=True)
        return pd.DataFrame({"x": pd.Series(x, dtype=float), "by": pd.Series(by, dtype=object)})

    shuffled = list(range(len(data)))
    order.shuffle(shuffled)
    for c in conditions:
        alone = [selected(frame([row]), c)[0] for row in data]
        with monkeypatch.context() as patch:
            patch.setattr(rows, "BATCH_ROWS", size)
            together = selected(frame([data[i] for i in shuffled]), c)

        assert together == [alone[i] for i in shuffled]


# ---- how a condition is written --------------------------------------------------------------------------


@pytest.fixture
def schema(schema_of):
    return schema_of(
        table(), bounds={"x": (0, 10)}, categories={"by": ["a", "b", 3]}, public=["by"], missing={"x": 5}
    )


def test_how_conditions_are_written(schema):
    """A pair is an interval, a list or a value a choice in the order of codes; a function is private, unwritten."""
    pair, several = read_condition(schema, "x", (2, 4.5)), read_condition(schema, "by", [3.0, "a", "a"])
    one, function = read_condition(schema, "by", "b"), Satisfies((X,), bool)

    assert pair == Between(schema.columns["x"], 2.0, 4.5)
    assert several == IsIn(schema.columns["by"], ("a", 3))
    assert one == IsIn(schema.columns["by"], ("b",))
    described = [each.describe() for each in (pair, several, function)]
    assert described == [{"x": {"between": [2.0, 4.5]}}, {"by": {"in": ["a", 3]}}, None]
    assert [each.public for each in (pair, several, one, function)] == [False, True, True, False]


@pytest.mark.parametrize(("name", "wanted", "text"), [
    ("nope", (0, 1), "no column 'nope'"), ("x", (1,), "pair"), ("x", (1, 2, 3), "pair"),
    ("x", (4, 2), "reversed"), ("x", (math.nan, 2), "finite number"), ("x", ("a", 2), "finite number"),
    ("by", (0, 1), "is categorical"), ("x", [5], "has no categories"), ("by", "z", "'z' is not a category"),
    ("by", ["a", "3"], "'3' is not a category"), ("by", None, "None is not a category"),
])  # fmt: skip
def test_conditions_that_cannot_be_used(schema, name, wanted, text):
    """A condition that does not fit the schema is refused."""
    with pytest.raises(SchemaError, match=text):
        read_condition(schema, name, wanted)


@pytest.mark.filterwarnings("error")
def test_no_warning_tells_on_a_row():
    """Extreme values pass through conditions without a warning."""
    frame = pd.DataFrame({"x": [1.7e308, -1.7e308, math.inf, math.nan]})

    assert selected(frame, Between(Column("x", (-1e307, 1e307), fill=0.0), -1, 1)) == [False] * 4
