"""Sums are exact: the same integers for every engine, order and batching, as computed row by row in fractions."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dfprivacy._measure.evaluate import Table
from dfprivacy._table import conditions as rows
from dfprivacy._table.conditions import Between, Satisfies
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy.errors import ReadError
from dfprivacy.features import Beyond, Count, Moments, OneHot, Outer, RowFeatures, Stack
from dfprivacy.schema import Column

pytestmark = pytest.mark.pandas

LOW, HIGH, FILL = 1.7, 9.1, 3.3
K = 38
VALUES = [
    None,
    LOW,
    HIGH,
    FILL,
    np.nextafter(LOW, 9),
    np.nextafter(HIGH, 0),
    5.4,
    math.nan,
    math.inf,
    -1e308,
    5e-324,
]
LABELS = ["a", "b", "c", "d", "", None]


class Wave(RowFeatures):
    """What somebody else might write, with a radius that is too small."""

    shape = (2,)

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        y = batch.standardized(self.columns[0])
        with np.errstate(all="ignore"):
            return np.column_stack([np.sin(40 * y), np.where(y > 0.3, np.log(y - 0.5), 1.7e308 / y)])

    def radius(self, norm):
        return 1.5 / norm


FEATURES = {
    "count": lambda x, by: Count(),
    "mean": lambda x, by: Moments(x, degree=1),
    "moments": lambda x, by: Moments(x),
    "counted mean": lambda x, by: Moments(x, degree=1, count=True),
    "counted": lambda x, by: Moments(x, count=True),
    "limited": lambda x, by: Stack(Moments(x), Beyond(x, weight=1 / 16)),
    "limited by": lambda x, by: OneHot(by) * Stack(Moments(x), Beyond(x)),
    "counts": lambda x, by: OneHot(by),
    "by": lambda x, by: OneHot(by) * Moments(x, count=True),
    "two groups": lambda x, by: OneHot(by, groups=["c", "a"]) * Moments(x, count=True),
    "one group": lambda x, by: OneHot(by, groups=["b"]) * Moments(x),
    "wave": lambda x, by: OneHot(by) * Wave(x),
    "products": lambda x, by: OneHot(by) * Outer([x], radius=0.9, count=True),
}
OF_ALL = {"count", "mean", "moments", "counted mean", "counted", "limited"}
CONDITIONS = (
    lambda schema: Between(schema.columns["x"], 2, 8),
    lambda schema: Satisfies(tuple(schema.columns.values()), lambda row: row["by"] != "b" or row["x"] > 5),
)


def as_polars(data):
    x, by = zip(*data, strict=True) if data else ((), ())
    return pl.DataFrame({"x": x, "by": by}, schema={"x": pl.Float64, "by": pl.String}, strict=False)


def as_chunks(data):
    return pl.concat([as_polars(data[at : at + 3]) for at in range(-3, len(data), 3) if at or data], rechunk=False)


def as_arrow(data):
    whole = as_polars(data).to_arrow()
    whole = whole.set_column(1, "by", whole["by"].cast(pa.string()).dictionary_encode())
    return pa.Table.from_batches(whole.to_batches(max_chunksize=2), whole.schema)


ENGINES = {
    "pandas": lambda data: as_polars(data).to_pandas(),
    "polars": as_polars,
    "chunks": as_chunks,
    "lazy": lambda data: as_chunks(data).lazy(),
    "arrow": as_arrow,
}


def table(frame, conditions=(), **said):
    about = {"bounds": {"x": (LOW, HIGH)}, "categories": {"by": ["a", "b", "c"]}, "missing": {"x": FILL}}
    schema = read_schema(adapt(frame), **{**about, "public": (), "neighbors": "add_remove", **said})
    return Table(adapt(frame), schema, tuple(condition(schema) for condition in conditions))


def totals(table, names=tuple(FEATURES), k=K):
    x, by = table.schema.columns["x"], table.schema.columns["by"]
    return {name: table.total(FEATURES[name](x, by), k) for name in names}


def asked(frame):
    """All sums of a frame, and some of the rows that conditions select."""
    return totals(table(frame)), totals(table(frame, CONDITIONS), ["by", "limited"])


def random_rows(rng):
    """Rows of all kinds of values; few enough that each batching differs."""
    size = int(rng.integers(1, 21))
    numbers = [VALUES[rng.integers(len(VALUES))] if rng.random() < 0.5 else rng.uniform(0, 11) for _ in range(size)]
    return list(zip(numbers, [LABELS[at] for at in rng.integers(0, len(LABELS), size)], strict=True))


def reference(data, feature, k):
    """The sum, row by row in Python: the same float64 operations, then whole steps as fractions."""
    mid = LOW / 2 + HIGH / 2
    half = max(HIGH - mid, mid - LOW)
    groups = {"two groups": "ca", "one group": "b"}.get(feature, "abc")
    sums: dict[tuple[str, int], int] = {}
    for x, group in data:
        value = FILL if x is None or math.isnan(x) else min(max(x, LOW), HIGH)
        y = (value - mid) / half
        square = y * y
        limited = [float(x is not None and x < LOW), float(x is not None and x > HIGH)]
        coordinates = {
            "count": [1.0],
            "counts": [1.0],
            "mean": [y],
            "moments": [y, square / 2],
            "one group": [y, square / 2],
            "limited": [y, square / 2, limited[0] / 16, limited[1] / 16],
            "limited by": [y, square / 2, *limited],
            "counted mean": [(1 + y) / 2, (1 - y) / 2],
        }.get(feature, [y, 1 - square, square / 2])
        place = "all" if feature in OF_ALL else group
        for at, coordinate in enumerate(coordinates):
            step = round(Fraction(coordinate) * 2**k)  # half to even, as NumPy's rint does
            sums[place, at] = sums.get((place, at), 0) + step
    return [
        sums.get((g, at), 0) for g in (["all"] if feature in OF_ALL else groups) for at in range(len(coordinates))
    ]


def test_the_sum_of_the_rows():
    """The sum is that of a reference computed row by row with fractions."""
    rng = np.random.default_rng(1)
    named = [name for name in FEATURES if name not in {"wave", "products"}]
    for k in (0, 7, 38, 40):
        for _ in range(12):
            data = random_rows(rng)
            assert totals(table(as_polars(data)), named, k) == {name: reference(data, name, k) for name in named}


@pytest.mark.parametrize("engine", ENGINES)
def test_one_sum_on_every_engine(engine, monkeypatch):
    """Every engine, order of rows, chunking and batch size gives the same integers, and selects the same rows."""
    rng = np.random.default_rng(2)
    for _ in range(8):
        data = random_rows(rng)
        shuffled = [data[at] for at in rng.permutation(len(data))]
        expected = asked(as_polars(data))
        with monkeypatch.context() as patch:
            patch.setattr(rows, "BATCH_ROWS", int(rng.integers(1, 9)))
            for some in (data, shuffled):
                assert expected == asked(ENGINES[engine](some))


def test_one_sum_of_many_rows(tmp_path, monkeypatch):
    """So they are for a table of many batches and files, which the streaming engine reads in any order."""
    rng = np.random.default_rng(11)
    size = 50_000
    frame = pl.DataFrame({"x": rng.normal(5, 4, size), "by": rng.choice(["a", "b", "c", "d"], size)})
    expected = totals(table(frame))
    for at, part in enumerate(frame.iter_slices(7001)):
        part.write_parquet(tmp_path / f"{at}.parquet", row_group_size=1000)

    shuffled = frame.sample(fraction=1, shuffle=True, seed=1)
    for same in (pl.scan_parquet(tmp_path / "*.parquet"), shuffled.to_pandas(), frame.to_arrow()):
        assert totals(table(same)) == expected
    monkeypatch.setattr(rows, "BATCH_ROWS", 777)
    assert totals(table(frame)) == expected


@pytest.mark.pandas(False)
def test_sums_do_not_overflow(monkeypatch):
    """Sums of batches end as Python integers, and those of products of a full batch are those of these."""
    d, size = 6, 1 << 14
    values = np.random.default_rng(3).uniform(-1, 1, (size, d))
    values[: size // 2] = 1 - 2.0**-19
    columns = [Column(f"x{i}", bounds=(-1.0, 1.0), fill=0.0) for i in range(d)]
    features = Outer(columns, count=True)
    full = rows.Batch(size, {rows.number(c): values[:, i] for i, c in enumerate(columns)})
    points = features.points(full).astype(np.int64)

    found = features.total(full, None, 0)
    monkeypatch.setattr(rows, "BATCH_ROWS", 1)
    many = table(pl.DataFrame({"x": [HIGH] * 2000, "by": ["a"] * 2000}))

    assert found.tolist() == [int(points[i] @ points[j]) for i, j in zip(*np.triu_indices(d + 1), strict=True)]
    assert totals(many, ["mean"], 52) == {"mean": [2000 * 2**52]}


@pytest.mark.parametrize("k", [-3, 0, 20, 38, 39, 60])
def test_weights_are_exact(k):
    """An image of a sum is within half a step of the weighted one, in Python's fractions."""
    columns = [Column(name, bounds=(0.0, 1.0), fill=0.0) for name in "xy"]
    features = Outer(columns, radius=0.77, count=True)
    total = [int(t) for t in np.random.default_rng(4).integers(-(2**61), 2**61, 6)]

    for step, t, weight in zip(features.image(total, k), total, features.weights.tolist(), strict=True):
        assert abs(step - Fraction(weight) * t * Fraction(2) ** (k - 38)) <= Fraction(1, 2)


@pytest.mark.parametrize("bounds", [(0, 2.1e-300), (-1e-300, 1e-300), (-8e307, 8e307), (LOW, HIGH)])
@pytest.mark.parametrize("kind", [{"degree": 1}, {"count": True}, {"count": "beside"}, {"centred": True}, {}])
def test_the_narrowest_and_the_widest_bounds_have_steps(bounds, kind):
    """Rows have the same steps whether the power of two comes before the division by the bounds or after all."""
    column = Column("x", bounds)
    values = np.linspace(0, 1, 101) * bounds[1] + np.linspace(1, 0, 101) * bounds[0]
    batch = rows.Batch(101, {rows.number(column): values})
    features = Moments(column, **kind)

    steps = features.steps(batch, K)

    assert (steps == np.rint(np.ldexp(features.rows(batch), K))).all()


def test_a_table_that_has_changed_is_not_summed():
    """A table with another number of rows than was protected is refused, and neither number is compared aloud."""
    frame = pd.DataFrame({"x": [5.0, 6.0], "by": ["a", "b"]})
    protected = table(frame, neighbors="replace_one")
    frame.loc[2] = [7.0, "c"]

    with pytest.raises(ReadError, match="protected with 2 rows and now has another number"):
        totals(protected, ["mean"])


def test_no_warning_tells_on_a_row():
    """Whatever the rows hold, and whatever a third party computes of them, no warning says so."""

    class Log(Wave):
        def rows(self, batch):
            y = batch.standardized(self.columns[0])
            return np.column_stack([np.log(y), 1.7e308 / y])

    frame = pd.DataFrame({"x": [-1e308, 0.0, 1e308, math.nan, math.inf, 0.1], "by": ["a"] * 6})
    wide = table(frame, bounds={"x": (-8e307, 8e307)}, missing=None)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide.total(Log(wide.schema.columns["x"]), K)
