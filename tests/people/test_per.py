"""One row a person: what each has, and that one person more is one row more."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy._measure.evaluate import Table
from dfprivacy._table.conditions import condition
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy._table.per import read_aggregates
from dfprivacy.schema import Unit

KEY = bytes(range(32))
SAID = {"bounds": {"x": (0.0, 8.0)}, "categories": {"g": ["a", "b"]}}
ROWS = [(8.0, "a"), (0.0, "b"), (None, "a")]  # what the person may have, up to three times, where two count
STATES = [*itertools.chain.from_iterable(itertools.product(ROWS, repeat=many) for many in range(4))][:31]
OTHERS = [(1, 8.0, "a"), (2, 0.0, "b"), (2, 3.0, "a"), (2, 5.0, "b"), (2, 8.0, "b"), (1, 2.0, "a")]


def frame_of(rows):
    return pl.DataFrame(rows, schema={"pid": pl.Int64, "x": pl.Float64, "g": pl.String}, orient="row")


def table_of(rows, neighbors, most=2, missing="omit", key=KEY, known=None):
    unit = Unit("pid", most, missing)
    frame = adapt(frame_of(rows))
    said = {**SAID, "public": (), "missing": None, "neighbors": neighbors}
    schema = read_schema(frame, **said, unit=unit)
    return Table(frame, schema, key=key, known=[*schema.columns.values()][:known])


def rows_with(state, name=9):
    """The others' rows, and between them those of one person."""
    between = itertools.zip_longest([(name, *row) for row in state], OTHERS)
    return [row for pair in between for row in pair if row is not None]


AGGREGATES = {
    "x": "mean", "visits": "count", "least": ("x", "min"), "most": ("x", "max"), "total": ("x", "sum", (0, 10)),
    "known": ("x", "count"), "g": "first", "after": ("g", "last"),
}  # fmt: skip


def people_of(rows, neighbors="add_remove", asked=AGGREGATES, most=2, missing="omit", where=None, key=KEY):
    table = table_of(rows, neighbors, most, missing, key)
    if where is not None:
        name, wanted = where
        table = table.where(condition(table.schema, name, wanted))
    unit = table.schema.unit
    return table.per_person(read_aggregates(table.schema, unit, asked))


def rows_of(table):
    """The rows of a table as tuples, in order."""
    batch = table.gathered(tuple(table.schema.columns.values()))
    columns = []
    for column in table.schema.columns.values():
        values = batch.values(column) if column.bounds else batch.codes(column)
        columns.append(
            [None if gone else v for v, gone in zip(values.tolist(), batch.missing(column), strict=True)]
        )
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("where", [None, ("g", "a"), ("x", (1, 4))])
def test_a_person_more_is_one_row_more(where):
    """Over all small tables: the others' rows stay as they are, to the last bit and in their order."""
    without = rows_of(people_of(OTHERS, where=where))
    for state in STATES[::3]:
        found = rows_of(people_of(rows_with(state), where=where))
        left = [[row for at, row in enumerate(found) if at != out] for out in range(len(found))]

        assert found == without or without in left
        assert found == without or len(found) == len(without) + 1


def test_what_each_persons_row_has():
    """Aggregates are those of pandas, of the rows that count, cleaned; all missing gives none."""
    rows = [(1, 2.0, "b"), (2, 99.0, "a"), (1, None, "a"), (3, None, "z"), (1, 6.0, None), (2, 8.0, "b")]

    found = {tuple(row) for row in rows_of(people_of(rows, most=3))}

    assert found == {
        (4.0, 3.0, 2.0, 6.0, 8.0, 2.0, 1, 0),
        (8.0, 2.0, 8.0, 8.0, 10.0, 2.0, 0, 1),
        (None, 1.0, None, None, 0.0, 0.0, None, None),
    }


def test_what_follows_for_each_column():
    """Bounds and categories come from those of the rows and the number that count."""
    columns = people_of(OTHERS, asked={**AGGREGATES, "sum": ("x", "sum")}, most=5).schema.columns

    assert {name: column.bounds for name, column in columns.items() if column.bounds} == {
        "x": (0.0, 8.0), "visits": (0.0, 5.0), "least": (0.0, 8.0), "most": (0.0, 8.0), "total": (0.0, 10.0),
        "known": (0.0, 5.0), "sum": (0.0, 40.0),
    }  # fmt: skip
    assert columns["g"].categories == columns["after"].categories == ("a", "b")


def test_a_mean_does_not_depend_on_other_peoples_rows():
    """To the last bit: whatever lies between a person's rows, and wherever a batch ends."""
    rng = np.random.default_rng(5)
    own = [(7, float(value), "a") for value in rng.uniform(0, 8, 50)]
    alone = rows_of(people_of(own, asked={"x": "mean", "s": ("x", "sum")}, most=60))
    many = [
        (int(who), float(value), "b")
        for who, value in zip(rng.integers(100, 900, 40_000), rng.uniform(0, 8, 40_000), strict=True)
    ]
    places = np.sort(rng.choice(40_000, 50, replace=False))
    for at, row in zip(places[::-1], own[::-1], strict=True):
        many.insert(at, row)

    assert alone[0] in rows_of(people_of(many, asked={"x": "mean", "s": ("x", "sum")}, most=60))


@pytest.mark.parametrize("bounds", [(0.0, 8.0), (-3e300, 1e300), (-1e-300, 3e-300), (-1.0, 1e17)])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, lambda rows: pl.DataFrame(rows).lazy()])
def test_means_and_sums_do_not_depend_on_the_order_of_rows(make, bounds):
    """To the last bit; and they are those of exact arithmetic, rounded once or twice."""
    rng = np.random.default_rng(5)
    low, high = bounds
    who, values = np.repeat(np.arange(40), 25), rng.uniform(low / 2, high, 1000) + low / 2
    kept = np.clip(values, low, high)
    asked = {"x": "mean", "total": ("x", "sum")}
    unit, found = Unit("pid", 25), []
    for order in (np.arange(1000), np.arange(1000)[::-1], rng.permutation(1000)):
        frame = adapt(make({"pid": who[order], "x": values[order]}))
        said = {"categories": None, "public": (), "missing": None, "neighbors": "add_remove"}
        schema = read_schema(frame, bounds={"x": bounds}, **said, unit=unit)
        table = Table(frame, schema, key=KEY)
        people = table.per_person(read_aggregates(schema, unit, asked))
        rows = people.gathered(tuple(people.schema.columns.values()))
        found.append([rows.values(people.schema.columns[name]) for name in asked])

    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    exact = sorted(math.fsum(kept[who == person]) for person in range(40))
    np.testing.assert_allclose(np.sort(found[0][1]), exact, rtol=1e-15, atol=25 * max(-low, high) * 2.0**-55)


def test_people_are_in_an_order_that_tells_nothing():
    """Not that of their rows or names, another for another key, and the same every time."""
    rows = [(name, name / 100, "a") for name in range(500)]
    first, again, other = (rows_of(people_of(rows, asked={"x": "mean"}, key=key)) for key in (KEY, KEY, KEY[::-1]))

    assert first == again != other
    assert abs(np.corrcoef([row[0] for row in first], np.arange(500))[0, 1]) < 0.2


def test_every_method_works_on_people():
    """A test, groups, a permutation test and a message, of people whose number is public."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"pid": np.arange(2000) // 4, "x": rng.uniform(0, 8, 2000), "g": ["a", "b"] * 1000})
    frame = frame.sample(frac=1, random_state=1)
    view = dp.protect(frame, "people", epsilon=99, **SAID, unit="pid", max_rows=4, size=500, ledger="memory:")
    each = view.per("pid").agg(x="mean", worst=("x", "max"), g="first")

    assert each.schema.size == 500
    assert each.ttest("x", popmean=4, epsilon=1).privacy.rows_note == ""
    assert len(each.group_by("g").ttest("worst", popmean=4, epsilon=1)) == 2
    assert each.dcor("x", "worst", epsilon=5).pvalue <= 1
    assert each.where(x=(0, 4)).schema.size == 500
    assert not each.where(x=(0, 4))._target.table.agreed(())
    assert "exchanged for those of another" in str(each.mean("x", epsilon=1, fresh=True).privacy)


def test_a_wrong_number_of_people_is_found_out():
    """What is said to be public is held against the table, after the charge."""
    view = dp.protect(
        frame_of(OTHERS), "wrong", epsilon=9, **SAID, unit="pid", max_rows=2, size=5, ledger="memory:"
    )

    with pytest.raises(dp.ReadError, match="protected with 5 rows"):
        view.per("pid").agg(x="mean").mean("x", epsilon=1)


def test_answers_about_different_people_are_not_exchanged():
    """The ledger tells tables apart that were made in different ways and look the same."""
    view = dp.protect(frame_of(OTHERS), "kept", epsilon=99, **SAID, unit="pid", max_rows=2, ledger="memory:")
    made = [
        view.per("pid").agg(x="mean"),
        view.per("pid").agg(x="max"),
        view.where(g="a").per("pid").agg(x="mean"),
        view,
    ]

    for each in made:
        each.sum("x", epsilon=1)
    assert view.budget.spent == 4
    made[0].sum("x", epsilon=1)
    made[0].mean("x", epsilon=1)
    assert view.budget.spent == 4 + (made[0].mean("x", epsilon=1).privacy.epsilon > 0)
