"""Which rows of a person count: at most k, whoever else is there, in whatever order, on every engine."""

from __future__ import annotations

import hashlib
import math
from collections import Counter

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._measure.evaluate import Table
from dfprivacy._table.batch import Batch
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import Read, adapt, columns
from dfprivacy._table.people import BoundedFrame, BoundedRows, chosen
from dfprivacy.schema import Column, Unit

KEY = bytes(range(32))
SAID = {"bounds": {"x": (0.0, 8.0)}, "categories": {"g": ["a", "b"]}}
OTHERS = [(1, 8.0, "a"), (2, 0.0, "b"), (2, 3.0, "a"), (2, 5.0, "b"), (2, 8.0, "b"), (1, 2.0, "a")]


def frame_of(rows):
    return pl.DataFrame(rows, schema={"pid": pl.Int64, "x": pl.Float64, "g": pl.String}, orient="row")


def table_of(rows, neighbors, most=2, missing="omit", key=KEY, known=None):
    unit = Unit("pid", most, missing)
    frame = adapt(frame_of(rows))
    said = {**SAID, "public": (), "missing": None, "neighbors": neighbors}
    schema = read_schema(frame, **said, unit=unit)
    return Table(frame, schema, key=key, known=[*schema.columns.values()][:known])


def by_category(table):
    """The counts of the categories."""
    return features.OneHot(table.schema.categorical("g"))


WHO = Read("pid", "people")
VISITS = [(who, float(visit), "a") for who in range(30) for visit in range(who % 7 + 1)]


def kept(frame, most=3, missing="omit", key=KEY, size=1 << 14):
    """The names and numbers of the rows that count, in order."""
    bounded = BoundedFrame(adapt(frame), Unit("pid", most, missing), key, [Column("x", (0.0, 8.0), fill=4.0)])
    found = []
    for rows, raw in bounded.batches([WHO, Read("x")], size):
        names = [name if isinstance(name, int) else name.decode() for name in raw[WHO].values.to_pylist()] + [None]
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
        lambda frame: pa.concat_tables([frame.to_arrow()] * 2).slice(len(frame)),
        lambda frame: frame.with_columns(pl.col("pid").cast(pl.Categorical)).to_arrow(),
        lambda frame: frame.to_pandas().astype({"pid": "string[pyarrow]"}),
        lambda frame: frame.to_pandas().astype({"pid": "string[python]"}),
        lambda frame: frame.to_pandas().astype({"pid": object}),
    ],
    ids=[
        "polars",
        "lazy",
        "categorical",
        "bytes",
        "pandas",
        "category",
        "arrow",
        "slice",
        "dictionary",
        "string",
        "python",
        "objects",
    ],
)
def test_people_may_be_named_by_text(make):
    """The same rows count, and the one without a name does not; no letter at all is a name."""
    frame = frame_of(VISITS).with_columns(pl.col("pid").cast(pl.String).replace(["4", "5"], [None, ""]))

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
        names = [part.values[code].as_py() for part in parts for code in part.codes]

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
    of = by_category(table_of(OTHERS, neighbors))
    hidden = [(None, 8.0, "a")] * 1000

    alone, beside = (table_of(rows, neighbors).total(of, 0) for rows in (OTHERS, OTHERS + hidden))
    one, two = (table_of(OTHERS + hidden[:n], neighbors, missing="own").total(of, 0) for n in (1, 2))

    assert alone == beside
    assert [b - a for a, b in zip(one, two, strict=True)] == [1, 0]


# ---- the order of rows tells nothing ----------------------------------------------------------------------

X = Column("x", (0.0, 8.0), fill=4.0)
G = Column("g", categories=("a", "b"))


def counted(frame, most=3, columns=(X, G), size=1 << 14):
    """Which rows count, as a multiset: by person and what is known of a row."""
    bounded = BoundedFrame(adapt(frame), Unit("pid", most, "omit"), KEY, columns)
    found = Counter()
    for _, raw in bounded.batches([WHO, Read("x"), Read("g", ("a", "b"))], size):
        batch = Batch(len(raw[WHO].codes), raw)
        names = [raw[WHO].values[code].as_py() for code in raw[WHO].codes]
        found.update(zip(names, batch.values(X).tolist(), batch.codes(G).tolist(), strict=True))
    return found


def many(seed, rows=400, people=12, levels=5):
    """Rows with doubles, gaps, and numbers out of bounds."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-1, levels, rows) * 3.0
    columns = rng.integers(0, people, rows), x, rng.choice(["a", "b", "z"], rows)
    return frame_of([
        (int(who), None if value < 0 else float(value), letter) for who, value, letter in zip(*columns, strict=True)
    ])  # fmt: skip


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("levels", [2, 5, 100_000])
def test_which_rows_count_does_not_depend_on_their_order(levels, lazy):
    """Rearranged, in other batches, with people elsewhere, and one pass after the other."""
    frame = many(1, levels=levels)
    expected = counted(frame)
    for seed in range(5):
        other = frame.sample(fraction=1.0, shuffle=True, seed=seed)
        assert counted(other.lazy() if lazy else other, size=(16, 1 << 14)[seed % 2]) == expected

    assert expected.total() == 12 * 3
    assert {who: sum(n for (name, *_), n in expected.items() if name == who) for who in range(12)} == dict.fromkeys(
        range(12), 3
    )


def test_rows_of_which_nothing_is_known_are_chosen_by_their_order():
    """Then two tables that differ in one person still agree in all other people's rows."""
    frame = many(3)
    for who in range(12):
        without = frame.filter(pl.col("pid") != who)
        found, others = (counted(each, columns=()) for each in (frame, without))
        assert {row: n for row, n in found.items() if row[0] != who} == others


def test_equal_rows_count_as_often_as_others():
    """Of nineteen equal rows and another one, four count: the other one for a fifth of the people, not for half."""
    frame = frame_of([(who, float(at == 7), "a") for who in range(3000) for at in range(20)])
    alone = sum(n for (_, x, _), n in counted(frame, most=4).items() if x == 1)

    assert abs(alone - 600) < 6 * math.sqrt(3000 * 0.2 * 0.8)  # six standard deviations


def test_rows_are_chosen_by_whole_hashes():
    """Where half of them are equal, as where they are not: by those of all rows of a person, the least first."""
    rng = np.random.default_rng(4)
    whose = rng.integers(0, 20, 300)
    hashes = rng.integers(0, 2**63, 300).astype(np.uint64)
    least = [row for row in range(300) if np.sum(hashes[whose == whose[row]] < hashes[row]) < 4]
    alike = (hashes >> np.uint64(60) << np.uint64(60)) | (hashes & np.uint64(255))

    assert np.flatnonzero(chosen(whose, hashes, 4)).tolist() == least
    for who in range(20):  # of each person alone, the same
        rows = np.flatnonzero(whose == who)
        together = rows[chosen(whose, alike, 4)[rows]]
        assert rows[chosen(np.zeros(len(rows), int), alike[rows], 4)].tolist() == together.tolist()
        assert len(together) == min(4, len(rows))


def test_a_query_of_other_rows_in_every_pass_gives_no_more_of_anybody():
    """Not even where what counts was chosen from other rows."""
    mixed = [pl.col(name).shuffle() for name in ("pid", "x", "g")]
    bounded = BoundedFrame(adapt(many(5).lazy().select(mixed)), Unit("pid", 3, "omit"), KEY, (X, G))
    for _ in range(5):
        names = [code for _, raw in bounded.batches([WHO], 64) for code in raw[WHO].codes]
        assert max(Counter(names).values()) <= 3


# ---- people are numbered and hashed -------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [1, 2**40])
def test_people_are_told_apart_whatever_they_are_called(spread):
    """Whole numbers that lie close and far apart, and texts, in parts of different kinds, as a dictionary would."""
    rng = np.random.default_rng(6)
    numbers = rng.integers(-(2**21), 2**21, 4000) // 3000 * spread
    numbers[:2] = -(2**63), 2**63 - 1
    gone = [math.nan]
    names = ["x", "y", "x\0", "", "\0", 5 * spread, None, 2**70, b"x", 10.0 * spread, 0.5, True, "5", *gone, 2**63]
    mixture = [names[at] for at in rng.integers(0, len(names), 300)]
    whole = [None if number % 7 == 0 else number for number in numbers.tolist()]
    parts = [columns.raw(column, WHO) for column in (pa.array(whole, pa.int64()), mixture, whole)]

    def name(value):
        is_number = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
        if is_number or (isinstance(value, int) and value is not True):
            return str(int(value))
        return value if isinstance(value, str) else "x" if value == b"x" else None

    found = columns.together(parts)
    known = [*(each.decode() for each in found.values.to_pylist()), None]

    assert len(known) == len({*known})
    assert [known[at] for at in found.codes] == [name(value) for value in (*whole, *mixture, *whole)]


def test_long_texts_name_people():
    """As others do, though no table holds them."""
    names = ["a" * 127, "a" * 128, "a" * 129, "é" * 300]
    rows = [(name, float(visit), "a") for name in names for visit in range(5)]
    frame = pl.DataFrame(rows, schema={"pid": pl.String, "x": pl.Float64, "g": pl.String}, orient="row")

    assert Counter(name for name, _ in kept(frame)) == dict.fromkeys(names, 3)
    assert kept(frame) == kept(frame.lazy()) == kept(frame.to_pandas().astype({"pid": object}))


class Alone:
    """Rows of one column."""

    def __init__(self, values):
        self.values = values

    def batches(self, reads, size):
        yield len(self.values), {read: columns.raw(self.values, read) for read in reads}


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


def test_rows_of_a_person_with_equal_ones_leave_others_alone():
    """Whether somebody has equal rows, or hashes that begin alike, decides nothing of anybody else."""
    rng = np.random.default_rng(8)
    for most in (1, 2, 4):
        whose = rng.integers(0, 9, 200)
        hashes = rng.integers(0, 2**64, 200, dtype=np.uint64) >> rng.choice(np.array([0, 60], np.uint64), 200)
        every = chosen(whose, hashes, most)
        for who in range(9):
            own = whose == who
            assert np.array_equal(chosen(np.zeros(own.sum(), int), hashes[own], most), every[own])
            assert every[own].sum() == min(most, own.sum())
