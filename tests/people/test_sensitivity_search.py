"""How far one person with several rows can move sums and statistics: exactly, on all small tables."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._measure.evaluate import Table
from dfprivacy._measure.query import Query, steps_of
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy.schema import Unit
from dfprivacy.statistics import OfRows, OfSums

KEY = bytes(range(32))
SAID = {"bounds": {"x": (0.0, 8.0)}, "categories": {"g": ["a", "b"]}}
ROWS = [(8.0, "a"), (0.0, "b"), (None, "a")]  # what the person may have, up to three times, where two count
STATES = [*itertools.chain.from_iterable(itertools.product(ROWS, repeat=many) for many in range(4))][:31]
OTHERS = [(1, 8.0, "a"), (2, 0.0, "b"), (2, 3.0, "a"), (2, 5.0, "b"), (2, 8.0, "b"), (1, 2.0, "a")]
GRID = 12


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


def neighbours(neighbors):
    """All pairs of what one person, or another in the place, may have: under replace_one each a row."""
    if neighbors == "add_remove":
        return [((), state) for state in STATES]
    return list(itertools.combinations(STATES[1:], 2))


def asked():
    schema = table_of(OTHERS, "add_remove").schema
    x, g = schema.numeric("x"), schema.categorical("g")
    moments = features.Moments(x, count=True)
    return {
        "moments": moments,
        "one-hot": features.OneHot(g),
        "by category": features.OneHot(g) * features.Moments(x, degree=1),
        "given": features.Given(x, of=features.Moments(x)),
        "stack": features.Stack(moments, features.OneHot(g)),
        "bins": features.Bins(x, (0.0, 2.0, 4.0, 8.0)),
    }


def length(vector, norm):
    return max(map(abs, vector)) if norm == math.inf else sum(abs(v) ** norm for v in vector) ** (1 / norm)


def distances(neighbors, value):
    """How far the vectors of all neighbours are apart, in three norms."""
    found = {state: value(rows_with(state, name=9 if at % 2 else 5)) for at, state in enumerate(STATES)}
    pairs = neighbours(neighbors)
    apart = [[a - b for a, b in zip(found[one], found[other], strict=True)] for one, other in pairs]
    return {norm: max(length(each, norm) for each in apart) for norm in (1, 2, math.inf)}


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", asked())
def test_no_person_moves_a_sum_further_than_is_charged(neighbors, name):
    """Over all small tables: what is charged is never less than the farthest pair, and at most 2 % more."""
    table, of = table_of(OTHERS, neighbors), asked()[name]

    found = distances(neighbors, lambda rows: table_of(rows, neighbors).total(of, GRID))

    for norm, apart in found.items():
        charged = steps_of(table, Query.read(of), norm, GRID, table.sensitivity(of, norm))
        assert apart <= charged
        if norm == 1 and (name in {"one-hot", "bins"} or (name, neighbors) == ("moments", "add_remove")):
            assert charged <= 1.02 * apart


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", ["moments", "one-hot", "given"])
def test_no_person_moves_the_sums_of_all_groups_further_than_is_charged(neighbors, name):
    """A person with rows in several groups moves all their sums together by what each group's noise is for."""
    of = asked()[name]

    def value(rows):
        table = table_of(rows, neighbors)
        parts = table.groups((table.schema.categorical("g"),))
        return [step for part in parts for step in part.total(of, GRID)]

    table = table_of(OTHERS, neighbors)
    parts = table.groups((table.schema.categorical("g"),))
    query = Query.read(of)
    charged = {n: steps_of(parts[0], query, n, GRID, parts[0].sensitivity(of, n)) for n in (1, 2, math.inf)}
    found = distances(neighbors, value)

    assert all(apart <= charged[norm] for norm, apart in found.items())


def test_the_search_finds_a_person_whose_rows_all_count():
    """Were rows beyond k not left out, the search would say so."""
    of = asked()["one-hot"]
    table = table_of(OTHERS, "add_remove")

    found = distances("add_remove", lambda rows: table_of(rows, "add_remove", most=3).total(of, GRID))

    assert found[1] > steps_of(table, Query.read(of), 1, GRID, table.sensitivity(of, 1))


class Rank(OfSums):
    """A statistic of counts that one row more moves by 1, one exchanged by 2."""

    shape = (1,)

    def __init__(self, column):
        self.features = features.OneHot(column)
        self.columns = (column,)

    def value(self, sums):
        return sums[0] - sums[1]

    def sensitivity(self, relation, norm, public):
        return 2.0 if relation == "replace_one" else 1.0


class Changes(OfRows):
    """A statistic of rows in order: how often a row differs from the one before; each row moves it by 2."""

    shape = (1,)

    def __init__(self, column):
        self.columns = (column,)

    def value(self, rows):
        return int(np.count_nonzero(np.diff(rows.codes(self.columns[0]))))

    def sensitivity(self, relation, norm, public):
        return 2.0


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", [Rank, Changes])
def test_no_person_moves_a_statistic_further_than_is_charged(neighbors, kind):
    """The same of statistics, also of one that depends on the order of rows."""
    of = kind(table_of(OTHERS, neighbors).schema.categorical("g"))

    found = distances(neighbors, lambda rows: table_of(rows, neighbors).value(Query.read(of), 0))

    assert found[1] <= table_of(OTHERS, neighbors).sensitivity(of, 1)
    assert kind is Changes or found[1] == table_of(OTHERS, neighbors).sensitivity(of, 1)


def test_a_statistic_without_a_bound_for_one_row_more_is_refused():
    """Where the number of rows is part of what is proved, nothing is proved for people."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"pid": np.arange(40) // 2, "x": rng.uniform(0, 8, 40), "y": rng.uniform(0, 8, 40)})
    view = frame.dp.protect(
        "unbounded", epsilon=9, bounds={"x": (0, 8), "y": (0, 8)}, unit="pid", max_rows=2, ledger="memory:"
    )

    with pytest.raises(dp.ArgumentError):
        view.dcor("x", "y", epsilon=1)
    assert view.budget.spent == 0
