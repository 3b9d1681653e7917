"""Which rows of a person count, how far they move what is measured, and what a table of one row each has."""

# ruff: noqa: PD011 - dictionaries have values, too

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._call.call import _describe_table
from dfprivacy._measure.evaluate import Table
from dfprivacy._measure.kept_measurements import PackageOrigins, describe_measurement
from dfprivacy._measure.query import Query
from dfprivacy._table.batch import Batch
from dfprivacy._table.conditions import read_condition
from dfprivacy._table.declare import read_schema, redeclared_schema
from dfprivacy._table.frames import Read, adapt, columns
from dfprivacy._table.people import BoundedFrame, BoundedRows, choose_rows
from dfprivacy._table.person_rows import read_aggregates
from dfprivacy.schema import Column, Unit

from .helpers import Changes, Rank, between

KEY = bytes(range(32))
GRID = 12
RELATIONS = ["add_remove", "replace_one"]
WHO = Read("pid", "people")
X, G = Column("x", (0.0, 8.0), fill=4.0), Column("g", categories=("a", "b"))
SAID = {"bounds": {"x": (0.0, 8.0)}, "categories": {"g": ["a", "b"]}, "public": (), "missing": None}
VISITS = [(who, float(visit), "a") for who in range(30) for visit in range(who % 7 + 1)]
OTHERS = [(1, 8.0, "a", 1.0), (2, 0.0, "b", 5.0), (2, 3.0, "a", 4.0), (2, 5.0, "b", 0.0), (2, 8.0, "b", 2.0)]
ROWS = [(8.0, "a", 1.0), (0.0, "b", 2.0), (None, "a", 3.0)]  # of one person: up to three, of which two count
STATES = [*itertools.chain.from_iterable(itertools.product(ROWS, repeat=many) for many in range(4))]
STATES = STATES[:13] + STATES[13::6]


def frame_of(rows, pid=pl.Int64):
    names = {"pid": pid, "x": pl.Float64, "g": pl.String, "y": pl.Float64}
    return pl.DataFrame([(*row, 0.0)[:4] for row in rows], schema=names, orient="row")


def table_of(rows, neighbors="add_remove", most=2, missing="omit", key=KEY, **said):
    """The table of all rows, with people of several rows or, for most=None, of one each."""
    unit = None if most is None else Unit("pid", most, missing)
    frame = adapt(frame_of(rows) if isinstance(rows, list) else rows)
    return Table(frame, read_schema(frame, neighbors=neighbors, unit=unit, **{**SAID, **said}), key=key)


def where(table, **wanted):
    return table.where(*(read_condition(table.schema, name, each) for name, each in wanted.items()))


def declare(table, **bounds):
    return table.with_declarations(
        redeclared_schema(table.schema, bounds=bounds, categories=None, missing=None).columns
    )


def per(table, **asked):
    return table.per_person(read_aggregates(table.schema, table.schema.unit, asked or {"x": "mean", "g": "first"}))


def counted(frame, most=3, missing="omit", key=KEY, size=1 << 14, columns=(X,)):
    """Which rows count, in order: by person, number and category."""
    bounded = BoundedFrame(adapt(frame), Unit("pid", most, missing), key, columns)
    found = []
    for rows, raw in bounded.batches([WHO, Read("x"), Read("g", ("a", "b"))], size):
        batch = Batch(rows, raw)
        names = [str(name) if isinstance(name, int) else name.decode() for name in raw[WHO].values.to_pylist()] + [
            None
        ]
        assert rows <= size
        found += zip(
            [names[at] for at in raw[WHO].codes], batch.values(X).tolist(), batch.codes(G).tolist(), strict=True
        )
    return found


# Which rows count

MAKES = {
    "polars": lambda frame: frame,
    "lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "objects": lambda frame: frame.to_pandas().astype({"pid": object}),
    "arrow": lambda frame: frame.to_arrow(),
    "slice": lambda frame: pa.concat_tables([frame.to_arrow()] * 2).slice(len(frame)),
    "nullable": lambda frame: frame.to_pandas().astype({"pid": "Int64"}),
    "categorical": lambda frame: frame.with_columns(pl.col("pid").cast(pl.Categorical)),
    "bytes": lambda frame: frame.with_columns(pl.col("pid").cast(pl.Binary)),
    "category": lambda frame: frame.to_pandas().astype({"pid": "category"}),
    "dictionary": lambda frame: frame.with_columns(pl.col("pid").cast(pl.Categorical)).to_arrow(),
    "string": lambda frame: frame.to_pandas().astype({"pid": "string[pyarrow]"}),
    "python": lambda frame: frame.to_pandas().astype({"pid": "string[python]"}),
}


@pytest.mark.parametrize("make", MAKES)
def test_the_same_rows_count_on_every_engine(make):
    """At most k of each person, in order, whatever the library, the type of names and the batch; "" is a name."""
    numbers, frames = counted(frame_of(VISITS)), []
    text = frame_of(VISITS).with_columns(pl.col("pid").cast(pl.String).replace(["4", "5"], [None, ""]))
    if make in [*MAKES][:7]:
        for size in (7, 1 << 14):
            assert counted(MAKES[make](frame_of(VISITS)), size=size) == numbers
    if make != "nullable":
        frames = [counted(MAKES[make](text), missing=missing) for missing in ("omit", "own")]
        assert [row[1:] for row in frames[0]] == [row[1:] for row in counted(text)]
        assert [len(each) for each in frames] == [len(numbers) - 3, len(numbers) + 2]

    assert Counter(int(who) for who, *_ in numbers) == {who: min(who % 7 + 1, 3) for who in range(30)}
    assert [(int(who), x) for who, x, _ in numbers] == sorted((int(who), x) for who, x, _ in numbers)


def test_who_else_is_there_changes_nothing():
    """The rows of one person that count are the same, whoever else is in the table, before, between and after."""
    own = [row for row in VISITS if row[0] == 13]
    among = [row for row in counted(frame_of(VISITS[::2] + own)) if row[0] == "13"]

    assert counted(frame_of(own)) == [row for row in counted(frame_of(VISITS)) if row[0] == "13"]
    assert len(among) == 3


def test_every_row_of_a_person_is_as_likely_to_count():
    """Over people and keys, each of six rows counts in half of the cases where three do, equal rows as others."""
    frame = frame_of([(who, float(visit), "a") for who in range(2000) for visit in range(6)])
    counts = np.bincount([int(x) for _, x, _ in counted(frame)], minlength=6)
    equal = frame_of([(who, float(at == 7), "a") for who in range(1000) for at in range(20)])
    alone = sum(x == 1 for _, x, _ in counted(equal, most=4))

    assert counts.sum() == 6000
    assert np.abs(counts - 1000).max() < 6 * math.sqrt(2000 / 4)  # six standard deviations
    assert abs(alone - 200) < 6 * math.sqrt(1000 * 0.2 * 0.8)  # not half of the people
    assert counted(frame) != counted(frame, key=KEY[::-1])


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("levels", [2, 5, 100_000])
def test_which_rows_count_does_not_depend_on_their_order(levels, lazy):
    """Rearranged, in other batches, with people elsewhere, and one pass after the other."""
    rng = np.random.default_rng(1)
    x = rng.integers(-1, levels, 400) * 3.0
    drawn = zip(rng.integers(0, 12, 400), x, rng.choice(["a", "b", "z"], 400), strict=True)
    frame = frame_of([(int(who), None if value < 0 else float(value), letter) for who, value, letter in drawn])
    expected = Counter(counted(frame, columns=(X, G)))
    for seed in range(3):
        other = frame.sample(fraction=1.0, shuffle=True, seed=seed)
        size = (16, 1 << 14)[seed % 2]
        assert Counter(counted(other.lazy() if lazy else other, size=size, columns=(X, G))) == expected
    assert {*Counter(who for who, *_ in expected.elements()).values()} == {3}
    for who in range(12):  # of which nothing is known, they are chosen by their order: others' are the same
        every, without = (
            Counter(counted(each, columns=())) for each in (frame, frame.filter(pl.col("pid") != who))
        )
        assert Counter({row: n for row, n in every.items() if row[0] != str(who)}) == without


def test_a_query_that_shuffles_its_rows_gives_no_more_of_anybody():
    """The order of rows, or rows, may be others in every pass: at most k of each person count in each."""
    lazy = frame_of(VISITS).lazy()
    shuffled = lazy.select(pl.struct(pl.all()).shuffle().alias("row")).unnest("row")
    for query, known in (
        (shuffled, ()),
        (lazy.select(pl.col(name).shuffle() for name in ("pid", "x", "g")), (X, G)),
    ):
        bounded = BoundedFrame(adapt(query), Unit("pid", 3), KEY, known)
        for _ in range(5):
            names = Counter(
                raw[WHO].values[at].as_py() for _, raw in bounded.batches([WHO], 16) for at in raw[WHO].codes
            )
            assert max(names.values()) == 3
            assert names.total() == len(counted(frame_of(VISITS)))


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_who_hides_under_a_missing_name_does_not_count(neighbors):
    """Left out: a thousand rows that name nobody move nothing. As people of their own, each moves as one row."""
    hidden, of = [(None, 8.0, "a")] * 1000, features.OneHot(table_of(OTHERS).schema.categorical("g"))

    alone, beside = (table_of(rows, neighbors).total(of, 0) for rows in (OTHERS, OTHERS + hidden))
    one, two = (table_of(OTHERS + hidden[:n], neighbors, missing="own").total(of, 0) for n in (1, 2))

    assert alone == beside
    assert [b - a for a, b in zip(one, two, strict=True)] == [1, 0]


def test_rows_are_chosen_by_whole_hashes_of_one_person():
    """The least of each; whether somebody has equal hashes, or some that begin alike, decides of nobody else."""
    rng = np.random.default_rng(4)
    whose, hashes = rng.integers(0, 20, 300), rng.integers(0, 2**63, 300).astype(np.uint64)
    least = [row for row in range(300) if np.sum(hashes[whose == whose[row]] < hashes[row]) < 4]
    alike = (hashes >> np.uint64(60) << np.uint64(60)) | (hashes & np.uint64(255))
    few = hashes >> rng.choice(np.array([0, 60], np.uint64), 300)

    assert np.flatnonzero(choose_rows(whose, hashes, 4)).tolist() == least
    for each, most, who in itertools.product((alike, few), (1, 2, 4), range(20)):
        own = whose == who
        together = choose_rows(whose, each, most)[own]
        assert choose_rows(np.zeros(own.sum(), int), each[own], most).tolist() == together.tolist()
        assert together.sum() == min(most, own.sum())


# People are numbered and hashed


@pytest.mark.parametrize("spread", [1, 2**40])
def test_people_are_told_apart_whatever_they_are_called(spread):
    """Integers that lie close and far apart, and texts, in parts of different kinds, as a dictionary would."""
    rng = np.random.default_rng(6)
    numbers = rng.integers(-(2**21), 2**21, 4000) // 3000 * spread
    numbers[:2] = -(2**63), 2**63 - 1
    names = [
        "x",
        "y",
        "x\0",
        "",
        "\0",
        5 * spread,
        None,
        2**70,
        b"x",
        10.0 * spread,
        0.5,
        True,
        "5",
        math.nan,
        2**63,
    ]
    mixture = [names[at] for at in rng.integers(0, len(names), 300)]
    whole = [None if number % 7 == 0 else number for number in numbers.tolist()]
    parts = [columns.read_column(column, WHO) for column in (pa.array(whole, pa.int64()), mixture, whole)]

    def name(value):
        is_number = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
        if is_number or (isinstance(value, int) and value is not True):
            return str(int(value))
        return value if isinstance(value, str) else "x" if value == b"x" else None

    found = columns.concatenate_people(parts)
    known = [*(each.decode() for each in found.values.to_pylist()), None]

    assert len(known) == len({*known})
    assert [known[at] for at in found.codes] == [name(value) for value in (*whole, *mixture, *whole)]


def test_long_names_and_large_numbers_are_whole():
    """Texts that no table holds, and two people whose numbers are one as fractions, missing numbers beside them."""
    names = ["a" * 127, "a" * 128, "a" * 129, "é" * 300]
    text = frame_of([(name, float(visit), "a") for name in names for visit in range(5)], pl.String)
    large = frame_of([(2**62 + at % 2, float(at), "a") for at in range(8)] + [(None, 9.0, "a")])

    assert Counter(who for who, *_ in counted(text)) == dict.fromkeys(names, 3)
    assert counted(text) == counted(text.lazy()) == counted(text.to_pandas().astype({"pid": object}))
    assert {len(counted(each)) for each in (large, large.lazy(), large.to_arrow())} == {6}


class Alone:
    """Rows of one column."""

    def __init__(self, values):
        self.values = values

    def batches(self, reads, size):
        yield len(self.values), {read: columns.read_column(self.values, read) for read in reads}


def test_the_hash_of_a_name_does_not_depend_on_other_names():
    """It is a keyed hash of the text, or of the digits, whatever the type that holds them."""
    texts = ["", "a", "b" * 7, "d" * 300, "é", "\udc80", "a\0", "1"]
    together = BoundedRows(Alone(texts), Unit("pid", 1), KEY, ())
    rows, order = (together.hashes(np.arange(len(texts)), purpose).tolist() for purpose in (b"rows", b"order"))

    for text, expected in zip(texts, rows, strict=True):
        own = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8, key=KEY, person=b"rows").digest()
        assert int.from_bytes(own, "little") == expected
    number = BoundedRows(Alone(np.array([1])), Unit("pid", 1), KEY, ())
    assert number.hashes(np.array([0]), b"rows").tolist() == rows[-1:]
    assert not {*order} & {*rows}


# How far a person moves what is measured

WAYS = {
    "plain": lambda t: [t],
    "where": lambda t: [where(t, g="a")],
    "where_numbers": lambda t: [where(t, x=(1, 8))],
    "select": lambda t: [t.select(["x", "g"])],
    "declare": lambda t: [declare(t, y=(0, 5))],
    "where_declare": lambda t: [declare(where(t, x=(1, 8)), x=(0, 4))],
    "declare_where": lambda t: [where(declare(t, y=(0, 5)), y=(0, 2), g="a")],
    "groups": lambda t: t.groups((t.schema.categorical("g"),)),
    "per": lambda t: [per(t)],
    "per_sum": lambda t: [per(t, x=("x", "sum", (0, 10)), g="last")],
    "where_per": lambda t: [per(where(t, g="a"))],
    "per_where": lambda t: [where(per(t), x=(1, 5))],
    "declare_per": lambda t: [per(declare(t, y=(0, 5)), x=("y", "max"), g="first")],
    "per_declare": lambda t: [declare(per(t), x=(2, 4))],
}
OF_ROWS = [way for way in WAYS if "per" not in way and way != "groups"]


def asked(table):
    """Sums of everything that a table has: rows, numbers, categories, and numbers by category."""
    x, g = table.schema.numeric("x"), table.schema.categorical("g")
    both = features.Moments(x, count=True)
    given = features.Given(x, of=features.Moments(x))
    return [features.Count(), both, features.OneHot(g), features.OneHot(g, of=both), given]


def sums(tables):
    """Of all groups together."""
    parts = [
        [np.array(table.total(each, GRID), dtype=float) / 2**GRID for each in asked(table)] for table in tables
    ]
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


def pairs(neighbors, states):
    """All pairs of what one person, or another in the place, may have: under replace_one each a row."""
    if neighbors == "add_remove":
        return [(0, at) for at in range(len(states))]
    return list(itertools.combinations(range(1, len(states)), 2))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize(
    ("way", "most"), [*itertools.product(WAYS, [2]), *itertools.product(OF_ROWS, [None])], ids=str
)
def test_neighbouring_tables_differ_by_no_more_than_the_sensitivity(way, most, neighbors):
    """In all ways of choosing rows, exactly; and for some sum by as much, so the bound is not too large."""
    states = STATES if most else [state for state in STATES if len(state) <= 1]
    tables = [WAYS[way](table_of(between(OTHERS, state, 9), neighbors, most)) for state in states]
    found, shares = [sums(each) for each in tables], []
    one, other = np.array(pairs(neighbors, states)).T
    for at, measured in enumerate(asked(tables[0][0])):
        values = np.array([each[at] for each in found])
        for norm in (1.0, 2.0):
            far = np.linalg.norm(values[one] - values[other], ord=norm, axis=1).max()
            rounding = values.shape[1] * 4 * 2.0**-GRID
            shares.append(far / (tables[0][0].sensitivity(measured, norm) + rounding))

    assert max(shares) <= 1
    assert max(shares) > 0.9


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("kind", [Rank, Changes])
def test_no_person_moves_a_statistic_further_than_is_charged(neighbors, kind):
    """The same of statistics, also of one of the order of rows; were all rows counted, the search would say so."""
    table = table_of(OTHERS, neighbors)
    of, charged = kind(table.schema.categorical("g")), table.sensitivity(kind(G), 1)

    def moved(most):
        values = [
            table_of(between(OTHERS, state, 9), neighbors, most).value(Query.read(of), 0)[0] for state in STATES
        ]
        return max(abs(values[one] - values[other]) for one, other in pairs(neighbors, STATES))

    assert moved(2) <= charged
    assert kind is Changes or moved(2) == charged < moved(3)


def test_prices_are_those_of_k_rows():
    """The sensitivity of a sum is k times that of one row; under replace_one, twice that."""
    of = features.OneHot(G)
    one, three = (table_of(OTHERS, most=most) for most in (1, 3))

    assert [three.sensitivity(of, norm) / one.sensitivity(of, norm) for norm in (1, 2, math.inf)] == [3] * 3
    assert table_of(OTHERS, "replace_one", 3).sensitivity(of, 1) == 6


# Which rows are asked is one value


def text_of(table):
    named = [table.schema.numeric("x"), table.schema.categorical("g")]
    return json.dumps([_describe_table(table, named), table.schema.neighbors])


def variants():
    """One table of people with too many rows, chosen in many ways, by many declarations."""
    rng = np.random.default_rng(30)
    rows = [(i // 4, float(rng.integers(9)), "ab"[rng.integers(2)], float(rng.integers(6))) for i in range(160)]
    bounds = {"x": (0.0, 8.0), "y": (0.0, 5.0)}
    told = [{}, {"bounds": bounds}, {"bounds": {"x": (0.0, 6.0)}}, {"categories": {"g": ["b", "a"]}}]
    for said, most, way in itertools.product(told, [1, 2], WAYS):
        yield from WAYS[way](table_of(rows, most=most, **said))
    for way in OF_ROWS:
        yield from WAYS[way](table_of(rows, most=None))


def test_equal_descriptions_are_of_equal_sums():
    """Of measurements and of questions: what chooses rows is in them, and nothing more is needed to tell apart."""
    known = PackageOrigins({})
    by_description, by_text = {}, {}
    for table in variants():
        for at, (measured, exact) in enumerate(zip(asked(table), sums([table]), strict=True)):
            description = describe_measurement(Query.read(measured), table, known)
            by_description.setdefault(description, set()).add(tuple(exact.tolist()))
            by_text.setdefault((at, text_of(table)), set()).add(tuple(exact.tolist()))

    assert {len(exact) for exact in by_description.values()} == {1}
    assert {len(exact) for exact in by_text.values()} == {1}
    assert len(by_text) > 5 * 60  # nearly each variant is another one


def test_other_declarations_choose_other_rows():
    """Of people with too many rows; and a condition keeps the declaration of the column that it is about."""
    ((plain,), (more,)) = (WAYS[way](next(variants())) for way in ("plain", "declare"))
    table = where(table_of(OTHERS, most=None), x=(0, 5))

    assert not np.array_equal(sums([plain])[1], sums([more])[1])
    assert text_of(plain) != text_of(more)
    assert len({text_of(declare(table, x=ends)) for ends in ((0, 8), (0, 6), (0, 5))}) == 3


def test_no_part_is_exchanged_for_anothers():
    """Neither by `dataclasses.replace`, nor by setting, nor by making a table of chosen rows."""
    rows = table_of(OTHERS)
    people = per(rows)
    for attempt in (
        lambda: dataclasses.replace(people, frame=rows.frame),
        lambda: setattr(people, "schema", rows.schema),
        lambda: setattr(people, "_frame", rows.frame),
        lambda: Table(rows.frame, people.schema),
        lambda: Table(people.frame, rows.schema),
        lambda: Table(rows.sampled(dp._privacy.filters.exact("1/2")).frame, rows.schema),
        lambda: people.with_source_frame(rows.frame),
    ):
        with pytest.raises((TypeError, AttributeError)):
            attempt()


# One row a person

AGGREGATES = {
    "x": "mean", "visits": "count", "least": ("x", "min"), "most": ("x", "max"), "total": ("x", "sum", (0, 10)),
    "known": ("x", "count"), "g": "first", "after": ("g", "last"),
}  # fmt: skip


def rows_of(table):
    """The rows of a table as tuples, in order."""
    every = [*table.schema.columns.values()]
    batch, found = table.selected_batch(tuple(every)), []
    for column in every:
        values = batch.values(column) if column.bounds else batch.codes(column)
        found.append([None if gone else v for v, gone in zip(values.tolist(), batch.missing(column), strict=True)])
    return list(zip(*found, strict=True))


@pytest.mark.parametrize("wanted", [{}, {"g": "a"}, {"x": (1, 4)}])
def test_a_person_more_is_one_row_more(wanted):
    """Over all small tables: the others' rows stay as they are, to the last bit and in their order."""
    without, *every = (rows_of(per(where(table_of(between(OTHERS, s, 9)), **wanted), **AGGREGATES)) for s in STATES)
    for found in every:
        left = [[row for at, row in enumerate(found) if at != out] for out in range(len(found))]

        assert found == without or without in left
        assert found == without or len(found) == len(without) + 1


def test_what_each_persons_row_has():
    """Aggregates are of the rows that count, cleaned; all missing gives none; bounds and categories follow."""
    rows = [(1, 2.0, "b"), (2, 99.0, "a"), (1, None, "a"), (3, None, "z"), (1, 6.0, None), (2, 8.0, "b")]
    table = per(table_of(rows, most=3), **AGGREGATES)
    known = per(table_of(OTHERS, most=5), **AGGREGATES, sum=("x", "sum")).schema.columns

    assert set(rows_of(table)) == {
        (4.0, 3.0, 2.0, 6.0, 8.0, 2.0, 1, 0),
        (8.0, 2.0, 8.0, 8.0, 10.0, 2.0, 0, 1),
        (None, 1.0, None, None, 0.0, 0.0, None, None),
    }
    assert {name: column.bounds for name, column in known.items() if column.bounds} == {
        "x": (0.0, 8.0), "visits": (0.0, 5.0), "least": (0.0, 8.0), "most": (0.0, 8.0), "total": (0.0, 10.0),
        "known": (0.0, 5.0), "sum": (0.0, 40.0),
    }  # fmt: skip
    assert known["g"].categories == known["after"].categories == ("a", "b")


@pytest.mark.parametrize("bounds", [(0.0, 8.0), (-3e300, 1e300), (-1e-300, 3e-300), (-1.0, 1e17)])
def test_means_and_sums_do_not_depend_on_other_rows_or_their_order(bounds):
    """To the last bit, wherever a batch ends; and they are those of exact arithmetic, rounded once or twice."""
    rng = np.random.default_rng(5)
    low, high = bounds
    who, values = np.repeat(np.arange(40), 25), rng.uniform(low / 2, high, 1000) + low / 2
    between = rng.permutation(np.repeat([True, False], [1000, 19_000]))  # rows of others lie between
    found = []
    for make, order in (
        (pd.DataFrame, np.arange(1000)),
        (pl.LazyFrame, np.arange(1000)[::-1]),
        (pa.table, rng.permutation(1000)),
    ):
        table = table_of(
            make({"pid": who[order], "x": values[order]}), most=25, bounds={"x": bounds}, categories=None
        )
        found.append(sorted(rows_of(per(table, x="mean", total=("x", "sum")))))
    pid, x = rng.integers(100, 900, 20_000), np.full(20_000, high)
    pid[between], x[between] = who, values
    many = table_of(pl.DataFrame({"pid": pid, "x": x}), most=25, bounds={"x": bounds}, categories=None)

    assert found[0] == found[1] == found[2]
    assert {*found[0]} <= {*rows_of(per(many, x="mean", total=("x", "sum")))}
    kept = np.clip(values, low, high)
    exact = sorted(math.fsum(kept[who == person]) for person in range(40))
    np.testing.assert_allclose(sorted(total for _, total in found[0]), exact, rtol=1e-15,
                               atol=25 * max(-low, high) * 2.0**-55)  # fmt: skip


def test_people_are_in_an_order_that_tells_nothing():
    """Not that of their rows or names, another for another key, and the same every time."""
    rows = [(name, name / 100, "a") for name in range(500)]
    first, again, other = (rows_of(per(table_of(rows, key=key), x="mean")) for key in (KEY, KEY, KEY[::-1]))

    assert first == again != other
    assert abs(np.corrcoef([row[0] for row in first], np.arange(500))[0, 1]) < 0.2
