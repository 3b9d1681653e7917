"""One person, many rows: which rows count, how far one person can move anything, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.records import read_relation, written_relation
from dfprivacy._measure.evaluate import Query, Table
from dfprivacy._measure.pricing import steps_of
from dfprivacy._plugins.loader import unregister
from dfprivacy._table.conditions import condition
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import Read, adapt
from dfprivacy._table.people import BoundedFrame
from dfprivacy._table.per import read_aggregates
from dfprivacy.schema import Column, Unit
from dfprivacy.statistics import OfRows, OfSums
from dfprivacy.testing import Case, people
from dfprivacy.testing.discipline import Audit, Failed
from dfprivacy.testing.people import people_stand_together

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
    return Table(BoundedFrame(frame, unit, key, [*schema.columns.values()][:known]), schema)


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
        with table.groups((table.schema.categorical("g"),)) as parts:
            return [step for part in parts for step in part.total(of, GRID)]

    table = table_of(OTHERS, neighbors)
    with table.groups((table.schema.categorical("g"),)) as parts:
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


# ---- one row a person ------------------------------------------------------------------------------------

AGGREGATES = {
    "x": "mean", "visits": "count", "least": ("x", "min"), "most": ("x", "max"), "total": ("x", "sum", (0, 10)),
    "known": ("x", "count"), "g": "first", "after": ("g", "last"),
}  # fmt: skip


def people_of(rows, neighbors="add_remove", asked=AGGREGATES, most=2, missing="omit", where=None, key=KEY):
    table = table_of(rows, neighbors, most, missing, key)
    if where is not None:
        name, wanted = where
        table = Table(table.frame, table.schema, (condition(table.schema, name, wanted),))
    unit = table.schema.unit
    return table.per_person(unit, key, read_aggregates(table.schema, unit, asked))


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
    assert each.ttest("x", popmean=4, epsilon=1).privacy.note == ""
    assert len(each.group_by("g").ttest("worst", popmean=4, epsilon=1).keys) == 2
    assert each.dcor("x", "worst", epsilon=5, permutations=50).pvalue <= 1
    assert each.where(x=(0, 4)).schema.size == 500
    assert not each.where(x=(0, 4))._target.table.agreed(())
    assert "exchanged for those of another" in str(each.mean("x", epsilon=1).privacy)


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


# ---- which rows count ------------------------------------------------------------------------------------

WHO = Read("pid", "people")
VISITS = [(who, float(visit), "a") for who in range(30) for visit in range(who % 7 + 1)]


def kept(frame, most=3, missing="omit", key=KEY, size=1 << 14):
    """The names and numbers of the rows that count, in order."""
    bounded = BoundedFrame(adapt(frame), Unit("pid", most, missing), key, [Column("x", (0.0, 8.0), fill=4.0)])
    found = []
    for rows, raw in bounded.batches([WHO, Read("x")], size):
        names = [*raw[WHO].values, None]  # noqa: PD011
        found += [
            (names[code], x) for code, x in zip(raw[Read("pid", "people")].codes, raw[Read("x")], strict=True)
        ]
        assert rows <= size
    return found


def test_at_most_k_rows_of_each_person_count():
    """All rows of who has no more, k of who has more, in the order of the table."""
    found = kept(frame_of(VISITS))

    counts = {who: sum(name == who for name, _ in found) for who in range(30)}
    assert counts == {who: min(who % 7 + 1, 3) for who in range(30)}
    assert found == sorted(found)


@pytest.mark.parametrize("size", [7, 1 << 14])
@pytest.mark.parametrize(
    "make",
    [
        frame_of,
        lambda rows: frame_of(rows).lazy(),
        lambda rows: frame_of(rows).to_pandas(),
        lambda rows: frame_of(rows).to_pandas().astype({"pid": "Int64"}),
        lambda rows: frame_of(rows).to_pandas().astype({"pid": object}),
        lambda rows: frame_of(rows).to_arrow(),
    ],
    ids=["polars", "lazy", "pandas", "nullable", "objects", "arrow"],
)
def test_the_same_rows_count_on_every_engine(make, size):
    """Whatever the library, the type and the batch."""
    assert kept(make(VISITS), size=size) == kept(frame_of(VISITS))


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: frame,
        lambda frame: frame.lazy(),
        lambda frame: frame.with_columns(pl.col("pid").cast(pl.Categorical)),
        lambda frame: frame.with_columns(pl.col("pid").cast(pl.Binary)),
        lambda frame: frame.to_pandas(),
        lambda frame: frame.to_pandas().astype({"pid": "category"}),
        lambda frame: frame.to_arrow(),
        lambda frame: frame.with_columns(pl.col("pid").cast(pl.Categorical)).to_arrow(),
    ],
    ids=["polars", "lazy", "categorical", "bytes", "pandas", "category", "arrow", "dictionary"],
)
def test_people_may_be_named_by_text(make):
    """The same rows count, and the one without a name does not."""
    frame = frame_of(VISITS).with_columns(pl.col("pid").cast(pl.String).replace("4", None))

    assert [x for _, x in kept(make(frame))] == [x for _, x in kept(frame)]
    assert len(kept(frame)) == len(kept(frame_of(VISITS))) - 3
    assert len(kept(make(frame), missing="own")) == len(kept(frame_of(VISITS))) + 2


def test_who_else_is_there_changes_nothing():
    """The rows of one person that count are the same, whoever else is in the table, before, between and after."""
    own = [row for row in VISITS if row[0] == 13]
    found = [row for row in kept(frame_of(VISITS[::2] + own)) if row[0] == 13]

    assert kept(frame_of(own)) == [row for row in kept(frame_of(VISITS)) if row[0] == 13]
    assert len(found) == 3


def test_every_row_of_a_person_is_as_likely_to_count():
    """Over people and keys, each of six rows counts in half of the cases where three do."""
    rows = [(who, float(visit), "a") for who in range(2000) for visit in range(6)]
    counts = np.bincount([int(x) for _, x in kept(frame_of(rows))], minlength=6)

    assert counts.sum() == 6000
    assert np.abs(counts - 1000).max() < 6 * math.sqrt(2000 / 4)  # six standard deviations
    assert kept(frame_of(rows)) != kept(frame_of(rows), key=KEY[::-1])


def test_large_numbers_are_not_rounded():
    """Two people whose numbers are one as fractions are two, missing numbers beside them or not."""
    rows = [(2**62 + at % 2, float(at), "a") for at in range(8)] + [(None, 9.0, "a")]
    for frame in (frame_of(rows), frame_of(rows).lazy(), frame_of(rows).to_arrow()):
        assert len(kept(frame)) == 6


def test_a_query_that_shuffles_its_rows_gives_no_more_of_anybody():
    """The order of rows may be another in every pass: at most k of each person count in each."""
    lazy = frame_of(VISITS).lazy().select(pl.struct(pl.all()).shuffle().alias("row")).unnest("row")
    bounded = BoundedFrame(adapt(lazy), Unit("pid", 3, "omit"), KEY)
    for _ in range(5):
        parts = [raw[WHO] for _, raw in bounded.batches([WHO], 16)]
        names = [part.values[code] for part in parts for code in part.codes]  # noqa: PD011

        assert max(map(names.count, names)) == 3
        assert len(names) == len(kept(frame_of(VISITS)))


def test_a_table_that_was_changed_is_not_read():
    """Rows are chosen by their place: another number of them is an error."""
    frame = frame_of(VISITS).to_pandas()
    view = dp.protect(frame, "changed", epsilon=9, **SAID, unit="pid", max_rows=3, ledger="memory:")
    view.sum("x", epsilon=1)
    frame.loc[len(frame)] = frame.loc[0]

    with pytest.raises(dp.ReadError):
        view.sum("x", epsilon=2)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_who_hides_under_a_missing_name_does_not_count(neighbors):
    """Left out: a thousand rows that name nobody move nothing. As people of their own, each moves as one row."""
    of = asked()["one-hot"]
    hidden = [(None, 8.0, "a")] * 1000

    alone, beside = (table_of(rows, neighbors).total(of, 0) for rows in (OTHERS, OTHERS + hidden))
    one, two = (table_of(OTHERS + hidden[:n], neighbors, missing="own").total(of, 0) for n in (1, 2))

    assert alone == beside
    assert [b - a for a, b in zip(one, two, strict=True)] == [1, 0]


# ---- what is public, kept, shown and refused ---------------------------------------------------------------


def protected(name="table", frame=None, **terms):
    said = {"epsilon": 99, "unit": "pid", "max_rows": 2, "ledger": "memory:", **SAID, **terms}
    return dp.protect(frame_of(OTHERS * 20) if frame is None else frame, name, **said)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_the_number_of_rows_is_private(neighbors):
    """Neither the rows nor the sizes of groups are known, whatever the relation, also where people are counted."""
    terms = {"size": 2} if neighbors == "replace_one" else {}
    view = protected(neighbors=neighbors, **terms)

    @dp.mechanism(columns={"by": "category"})
    def curious(curator, by):
        "What a mechanism is told."
        curator.sum(features.OneHot(by))
        return {"size": curator.size, "sizes": curator.sizes(by), "typical": curator.typical_size}

    dp.register_mechanism(curious)

    assert view.curious("g", epsilon=1).value == {"size": None, "sizes": None, "typical": None}
    assert view.curious("g", epsilon=1).privacy.epsilon == 1
    unregister("curious")


def test_the_result_says_what_misleads():
    """A result about rows of people says so and names the way out; one of a row each does not."""
    release = protected().ttest("x", popmean=4, epsilon=5)
    single = protected("single", max_rows=1).ttest("x", popmean=4, epsilon=5)

    assert "up to 2 rows are of one 'pid'" in repr(release)
    assert "view.per('pid')" in repr(release)
    assert (single.privacy.note, single.privacy.unit) == ("", "pid")
    assert dp.Release.from_dict(json.loads(json.dumps(release.to_dict()))) == release


def test_an_accounts_promise_is_kept():
    """Another unit, number of rows or rule for missing names is another promise, and the key is shown nowhere."""
    frame = frame_of(OTHERS).with_columns(other="pid")
    view = protected("promise", frame)
    key = open_ledger("memory:").account("promise").key

    for changed in ({"max_rows": 3}, {"unit": "other"}, {"unit_missing": "own"}, {"unit": None, "max_rows": None}):
        with pytest.raises(dp.AccountMismatch, match="neighbors"):
            protected("promise", frame, **changed)
    assert open_ledger("memory:").account("promise").key == key
    assert len(bytes.fromhex(key)) == 32
    shown = f"{view!r}{view.budget!r}{view.budget.to_dict()}{open_ledger('memory:').account('promise')!r}"
    assert key not in shown
    assert "at most" in repr(view)


def test_a_relation_is_read_as_it_was_written():
    """And what nobody wrote is damage."""
    whose = ("pid", 3, "own")
    assert read_relation(written_relation("replace_one", whose, "ab" * 32)) == ("replace_one", whose, "ab" * 32)
    assert read_relation("add_remove") == ("add_remove", None, "")
    good = json.loads(written_relation("replace_one", whose, "ab" * 32))
    for changed in ({"max_rows": 0}, {"max_rows": True}, {"key": "ab"}, {"unit_missing": "any"}, {"more": 1}):
        with pytest.raises((ValueError, TypeError, KeyError)):
            read_relation(json.dumps({**good, **changed}))


def test_a_view_that_nobody_held_is_made_again():
    """With the same rows left out; and a copy carries none."""
    frame = frame_of(VISITS)
    view = protected("again", frame, max_rows=1)
    before = view._target.table.total(asked()["one-hot"], 0)
    copy = pickle.loads(pickle.dumps(view.per("pid").agg(x="mean")._target.table))  # noqa: S301
    del view

    assert frame.dp.view._target.table.total(asked()["one-hot"], 0) == before
    with pytest.raises(dp.NotProtected):
        copy.present()


BAD = {
    "no rows": {"max_rows": 0},
    "fewer than none": {"max_rows": -1},
    "a fraction": {"max_rows": 2.0},
    "a boolean": {"max_rows": True},
    "text": {"max_rows": "2"},
    "very many": {"max_rows": 10**9},
    "no number": {"max_rows": None},
    "no unit": {"unit": None},
    "an unknown column": {"unit": "nobody"},
    "no name": {"unit": 3},
    "fractions": {"unit": "x"},
    "among the bounds": {"bounds": {"x": (0, 8), "pid": (0, 9)}},
    "among the categories": {"categories": {"pid": [1, 2]}},
    "among the missing": {"missing": {"pid": 1}},
    "public": {"public": ["pid"]},
    "something public": {"public": ["g"]},
    "another rule": {"unit_missing": "keep"},
    "no people": {"size": 0},
    "half a person": {"size": 1.5},
    "true people": {"size": True},
    "presence and a number": {"size": 2, "neighbors": "add_remove"},
    "categories to find": {"categories": {"g": dp.discover()}},
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_a_unit_is_refused(case):
    """Before an account is opened."""
    with pytest.raises((dp.SchemaError, dp.ArgumentError)) as error:
        protected("bad", **BAD[case])

    assert error.value.hint
    assert [account.name for account in open_ledger("memory:").accounts()] == []


@pytest.mark.parametrize("make", [lambda f: f, lambda f: f.to_pandas(), lambda f: f.to_arrow(), lambda f: f.lazy()])
def test_fractions_and_dates_name_nobody(make):
    """On every engine, by the type of the column alone."""
    frame = frame_of(OTHERS).with_columns(
        f=pl.col("pid").cast(pl.Float64), d=pl.col("pid").cast(pl.Date), b=pl.col("pid") > 1
    )
    for name in "fdb":
        with pytest.raises(dp.SchemaError, match="whole numbers or text"):
            protected("typed", make(frame), unit=name)


def test_nobody_is_grouped_by():
    """The column that names people is in no question of the account."""
    view = protected("grouped")

    with pytest.raises(dp.SchemaError):
        view.declare(categories={"pid": [1, 2]})
    with pytest.raises(dp.SchemaError):
        view.declare(bounds={"pid": (0, 9)})
    with pytest.raises(dp.SchemaError):
        view.group_by("pid")
    with pytest.raises(dp.SchemaError):
        view.where(pid=1)
    assert view.where(lambda row: "pid" not in row).sum("x", epsilon=1).privacy.epsilon == 1


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("find_categories", (["g"],)), ("profile", ()), ("dcor", ("x", "z"))],
)
def test_what_is_proved_for_one_row_is_refused(method, arguments):
    """With the way out, and before anything is paid."""
    frame = frame_of(OTHERS * 20).with_columns(z=pl.col("x") / 2)
    view = protected("refused", frame, bounds={"x": (0, 8), "z": (0, 8)}, delta=1e-6)

    with pytest.raises(dp.ArgumentError):
        getattr(view, method)(*arguments, epsilon=1)
    assert view.budget.spent == 0


def test_a_decision_by_group_is_refused_before_anything_is_paid():
    """A quantile chosen for each group, where a person may be in several."""

    @dp.mechanism(columns={"by": "category"})
    def chosen(curator, by):
        "Measure, and choose."
        curator.sum(features.OneHot(by), share="1/2")
        return int(curator.select(Rank(by))[0])

    dp.register_mechanism(chosen)
    view = protected(
        "chosen", categories={"g": ["a", "b"], "h": ["a"]}, frame=frame_of(OTHERS).with_columns(h=pl.lit("a"))
    )

    assert view.chosen("g", epsilon=1).value == 0
    with pytest.raises(dp.ArgumentError, match=r"view.per\('pid'\)"):
        view.group_by("h").chosen("g", epsilon=1)
    assert view.budget.spent == 1
    unregister("chosen")


def test_per_needs_the_unit_that_was_protected():
    """Of rows that are protected one by one, one row of several is no row of the promise."""
    with pytest.raises(dp.ArgumentError, match="max_rows"):
        protected("rows", unit=None, max_rows=None).per("pid")
    with pytest.raises(dp.ArgumentError):
        protected("units").per("g")
    with pytest.raises(dp.ArgumentError, match="Python function"):
        protected("units").where(lambda row: True).per("pid")


@pytest.mark.parametrize(
    "asked",
    [
        {}, {"x": "median"}, {"y": "mean"}, {"g": "mean"}, {"x": ("x", "mean", (0, 1))}, {"x": ("y", "mean")},
        {"x": ("x", "sum", (5, 1))}, {"pid": "count"}, {"w": ("pid", "first")}, {"x": 3}, {"x": ("x",)},
        {"x": ["x", "mean"]},
    ],
)  # fmt: skip
def test_what_cannot_be_aggregated_is_refused(asked):
    """And the error says what can."""
    with pytest.raises(dp.SchemaError):
        protected("agg").per("pid").agg(asked)


def test_two_tables_of_several_rows_are_not_asked_together():
    """A table with one row each is."""
    first, second = protected("first", size=2), protected("second", size=2)

    with pytest.raises(dp.ArgumentError, match=r"view.per\('pid'\)"):
        first.kernel_two_sample(["x"], other=second, epsilon=1)
    single, other = (each.per("pid").agg(x="mean") for each in (first, second))
    assert single.kernel_two_sample(["x"], other=other, epsilon=1).privacy.unit == "pid"


def test_a_stated_size_spares_the_count():
    """Rows are not counted where somebody says how many there are; a wrong number is found out."""
    frame = frame_of(OTHERS)
    view = dp.protect(frame, "sized", epsilon=9, **SAID, size=len(OTHERS), ledger="memory:")

    assert view.schema.size == len(OTHERS)
    assert view.sum("x", epsilon=1).privacy.epsilon == 1
    wrong = dp.protect(frame, "wrongly sized", epsilon=9, **SAID, size=3, ledger="memory:")
    with pytest.raises(dp.ReadError, match="3 rows"):
        wrong.sum("x", epsilon=1)
    assert (
        dp.protect(
            pa.table({"x": [1.0]}), "arrow", epsilon=1, size=1, bounds={"x": (0, 8)}, ledger="memory:"
        ).schema.size
        == 1
    )


def test_prices_are_those_of_k_rows():
    """The noise of a sum is k times that of one row, no more; under replace_one as where the number is private."""
    table = {most: table_of(OTHERS, "add_remove", most) for most in (1, 3)}
    of = asked()["one-hot"]

    assert [table[3].sensitivity(of, norm) / table[1].sensitivity(of, norm) for norm in (1, 2, math.inf)] == [3] * 3
    assert Fraction(table_of(OTHERS, "replace_one", 3).sensitivity(of, 1)) == 6


# ---- the conformance kit ---------------------------------------------------------------------------------


def audited(neighbors, **arguments):
    """What the kit finds of a method that counts rows by category."""
    case = Case(arguments={"by": "g"}, categories={"g": ["a", "b"]}, neighbors=neighbors, **arguments)

    @dp.mechanism(columns={"by": "category"})
    def counted(curator, by):
        "The number of rows in each category."
        return list(curator.sum(features.OneHot(by)).values)

    return people_stand_together(Audit(counted, case))


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("arguments", [{}, {"group_by": "g"}, {"where": {"g": "a"}}])
def test_the_kit_finds_nothing_wrong(neighbors, arguments):
    """And of all rows the worst person uses up what is charged."""
    said = audited(neighbors, **arguments)

    assert said.startswith("rows: answered, loss" if arguments else "rows: answered, loss 0.333333")


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("broken", ["noise for one row", "all rows count", "nobody's rows count"])
def test_the_kit_finds_what_is_broken(neighbors, broken, monkeypatch):
    """Noise for one row alone, rows beyond k that are read, and rows of nobody that are."""
    if broken == "noise for one row":
        monkeypatch.setattr(Table, "rows_each", 1)
    elif broken == "all rows count":
        monkeypatch.setattr(BoundedFrame, "batches", lambda self, reads, size: self._frame.batches(reads, size))
    else:
        monkeypatch.setattr(people, "_UNIT", Unit(people._WHO, 2, "own"))

    with pytest.raises(Failed):
        audited(neighbors)
