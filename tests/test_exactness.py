"""Sums are exact: the same integers for every engine, order and batching, and as sensitive as charged."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dfprivacy._measure.evaluate import Table
from dfprivacy._table import batch as rows
from dfprivacy._table.conditions import Between, IsIn, Satisfies
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy.errors import ReadError
from dfprivacy.features import Beyond, Count, Moments, OneHot, RowFeatures, Stack
from dfprivacy.schema import Column

pytestmark = pytest.mark.pandas

LOW, HIGH, FILL = 1.7, 9.1, 3.3
K = 38
BOUNDS, CATEGORIES = {"x": (LOW, HIGH)}, {"by": ["a", "b", "c"]}
EXHAUSTIVE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

raw_x = st.one_of(
    st.none(),
    st.floats(),
    st.sampled_from([LOW, HIGH, FILL, np.nextafter(LOW, 9), np.nextafter(HIGH, 0), 5.4, math.nan, math.inf]),
    st.floats(LOW, HIGH),
)
raw_by = st.sampled_from(["a", "b", "c", "d", "", None])
row = st.tuples(raw_x, raw_by)
table_rows = st.lists(row, min_size=1, max_size=20)

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
}
SUMS_OF_ALL = {"count", "mean", "moments", "counted mean", "counted", "limited"}


class Wave(RowFeatures):
    """What somebody else might write, with a radius that is too small."""

    shape = (2,)

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        y = batch.standardized(self.columns[0])
        return np.column_stack([np.sin(40 * y), np.where(y > 0.3, np.inf, 2 * y)])

    def radius(self, norm):
        return 1.5 / norm


def columns(data):
    x, by = zip(*data, strict=True) if data else ((), ())
    return list(x), list(by)


def as_pandas(data):
    x, by = columns(data)
    return pd.DataFrame({"x": pd.Series(x, dtype=float), "by": pd.Series(by, dtype=object)})


def as_polars(data):
    x, by = columns(data)
    return pl.DataFrame({"x": x, "by": by}, schema={"x": pl.Float64, "by": pl.String})


def as_chunks(data):
    frames = [as_polars(data[i : i + 3]) for i in range(0, len(data), 3)]
    return pl.concat([as_polars([]), *frames], rechunk=False)


def as_lazy(data):
    return as_chunks(data).lazy()


def as_arrow(data):
    x, by = columns(data)
    whole = pa.table({"x": pa.array(x, pa.float64()), "by": pa.array(by, pa.string()).dictionary_encode()})
    return pa.Table.from_batches(whole.to_batches(max_chunksize=2), whole.schema)


def table(frame, conditions=(), **said):
    nothing = {"bounds": BOUNDS, "categories": CATEGORIES, "public": (), "missing": {"x": FILL}}
    schema = read_schema(adapt(frame), **{**nothing, "neighbors": "add_remove", **said})
    return Table(adapt(frame), schema, tuple(c(schema) for c in conditions))


def total(table, feature, k=K):
    return table.total(FEATURES[feature](table.schema.columns["x"], table.schema.columns["by"]), k)


# ---- one sum, whatever computes it -----------------------------------------------------------------------


def rint(number: float) -> Fraction:
    """Round half to even, as NumPy's rint does."""
    return Fraction(round(Fraction(number)))


def reference(data, feature, k=K):
    """The sum, row by row in Python: the same float64 operations, then whole steps as fractions."""
    mid = LOW / 2 + HIGH / 2
    half = max(HIGH - mid, mid - LOW)
    groups = {"two groups": "ca", "one group": "b"}.get(feature, "abc")
    sums: dict[tuple[str, int], Fraction] = {}
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
        place = "all" if feature in SUMS_OF_ALL else group
        for i, coordinate in enumerate(coordinates):
            sums[place, i] = sums.get((place, i), Fraction(0)) + rint(Fraction(coordinate) * 2**k)
    grouped = feature not in SUMS_OF_ALL
    dimension = len(coordinates)
    return [int(sums.get((g, i), 0)) for g in (groups if grouped else ["all"]) for i in range(dimension)]


@EXHAUSTIVE
@given(data=table_rows, k=st.sampled_from([0, 7, 38, 40]))
def test_the_sum_of_the_rows(data, k):
    """The sum is that of a reference computed row by row with fractions."""
    asked = table(as_pandas(data))

    for feature in set(FEATURES) - {"wave"}:
        assert total(asked, feature, k) == reference(data, feature, k), feature


@EXHAUSTIVE
@given(data=table_rows, shuffle=st.randoms(use_true_random=False), size=st.integers(1, 8))
def test_one_sum_on_every_engine(data, shuffle, size, monkeypatch):
    """Every engine, order of rows, chunking and batch size gives the same integers."""
    whole = table(as_pandas(data))
    expected = {feature: total(whole, feature) for feature in FEATURES}
    shuffled = list(data)
    shuffle.shuffle(shuffled)

    with monkeypatch.context() as patch:
        patch.setattr(rows, "BATCH_ROWS", size)
        for frame_of in (as_pandas, as_polars, as_chunks, as_lazy, as_arrow):
            for some in (data, shuffled):
                asked = table(frame_of(some))
                assert {feature: total(asked, feature) for feature in FEATURES} == expected


@pytest.mark.parametrize("feature", FEATURES)
def test_one_sum_of_many_rows(feature, tmp_path, monkeypatch):
    """So they are for a table of many batches and files, which the streaming engine reads in any order."""
    rng = np.random.default_rng(11)
    size = 50_000
    frame = pl.DataFrame({"x": rng.normal(5, 4, size), "by": rng.choice(["a", "b", "c", "d"], size)})
    expected = total(table(frame), feature)
    for i, part in enumerate(frame.iter_slices(7001)):
        part.write_parquet(tmp_path / f"{i}.parquet", row_group_size=1000)
    scan = pl.scan_parquet(tmp_path / "*.parquet")

    for _ in range(3):
        assert total(table(scan), feature) == expected
    assert total(table(frame.sample(fraction=1, shuffle=True, seed=1).to_pandas()), feature) == expected
    assert total(table(frame.to_arrow()), feature) == expected
    monkeypatch.setattr(rows, "BATCH_ROWS", 777)
    assert total(table(frame), feature) == expected


@EXHAUSTIVE
@given(data=table_rows, size=st.integers(1, 5))
def test_one_selection_on_every_engine(data, size, monkeypatch):
    """A view's conditions select the same rows on every engine, so that sums over them agree too."""
    conditions = (
        lambda schema: Between(schema.columns["x"], 2, 8),
        lambda schema: Satisfies(tuple(schema.columns.values()), lambda row: row["by"] != "b" or row["x"] > 5),
    )
    expected = total(table(as_pandas(data), conditions), "by")

    with monkeypatch.context() as patch:
        patch.setattr(rows, "BATCH_ROWS", size)
        for frame_of in (as_pandas, as_polars, as_chunks, as_lazy, as_arrow):
            assert total(table(frame_of(data), conditions), "by") == expected


@pytest.mark.pandas(False)
def test_sums_beyond_int64_batches_do_not_overflow(monkeypatch):
    """Sums of batches are kept apart from float64 and int64 limits: they end as Python integers."""
    monkeypatch.setattr(rows, "BATCH_ROWS", 1)
    size = 2000
    frame = pl.DataFrame({"x": [HIGH] * size, "by": ["a"] * size})

    assert total(table(frame), "mean", 52) == [size * 2**52]


# ---- one row more, less or other -------------------------------------------------------------------------


def charged(table, features, norm):
    """The integer sensitivity the curator charges for, in grid steps, squared for the L2 norm."""
    slack = features.support if norm == 1 else math.sqrt(features.support)
    steps = Fraction(table.sensitivity(features, norm)) * 2**K + Fraction(slack) + 1
    return math.ceil(steps) if norm == 1 else math.ceil(steps * steps)


def check_sensitivity(one, other, asked=tuple(FEATURES)):
    """The two tables' sums are no further apart than what is charged, in whole numbers, for any features."""
    for feature in asked:
        features = FEATURES[feature](one.schema.columns["x"], one.schema.columns["by"])
        change = [a - b for a, b in zip(total(one, feature), total(other, feature), strict=True)]

        assert sum(map(abs, change)) <= charged(one, features, 1), feature
        assert sum(c * c for c in change) <= charged(one, features, 2), feature


PRIVATE = (
    lambda schema: Between(schema.columns["x"], 3, 8),
    lambda schema: IsIn(schema.columns["by"], ("a", "c")),
)


@pytest.mark.pandas(False)
@EXHAUSTIVE
@given(data=table_rows, at=st.integers(0, 19))
def test_one_row_more_or_less(data, at):
    """Adding or removing any row changes the sum by no more than the sensitivity charged."""
    without = [*data[: at % len(data)], *data[at % len(data) + 1 :]]

    check_sensitivity(table(as_polars(data)), table(as_polars(without)))
    check_sensitivity(table(as_polars(data), PRIVATE), table(as_polars(without), PRIVATE))


@pytest.mark.pandas(False)
@EXHAUSTIVE
@given(data=table_rows, at=st.integers(0, 19), new=row)
def test_one_row_replaced(data, at, new):
    """Replacing a row changes the sum by no more than is charged, under every choice of conditions."""
    other = list(data)
    other[at % len(data)] = new

    for conditions in ((), PRIVATE[:1], PRIVATE[1:], PRIVATE):
        said = {"neighbors": "replace_one"}
        check_sensitivity(table(as_polars(data), conditions, **said), table(as_polars(other), conditions, **said))


@pytest.mark.pandas(False)
@EXHAUSTIVE
@given(data=table_rows, at=st.integers(0, 19), new=row)
def test_one_row_replaced_but_for_a_public_column(data, at, new):
    """Where neighbours agree on a column, the smaller sensitivity charged still holds."""
    at %= len(data)
    for public, changed in (("by", (new[0], data[at][1])), ("x", (data[at][0], new[1]))):
        other = list(data)
        other[at] = changed
        for conditions in ((), PRIVATE[:1], PRIVATE[1:], PRIVATE):
            said = {"neighbors": "replace_one", "public": [public]}
            check_sensitivity(
                table(as_polars(data), conditions, **said), table(as_polars(other), conditions, **said)
            )


def test_the_sensitivity_is_attained():
    """The most different neighbours differ by the sensitivity, so nothing is charged in vain."""
    one, elsewhere, below = (table(as_pandas([r])) for r in [(HIGH, "a"), (LOW, "b"), (LOW, "a")])
    features = OneHot(one.schema.columns["by"]) * Moments(one.schema.columns["x"], count=True)

    across = [a - b for a, b in zip(total(one, "by"), total(elsewhere, "by"), strict=True)]
    within = [a - b for a, b in zip(total(one, "by"), total(below, "by"), strict=True)]

    assert sum(map(abs, across)) >= 0.999 * features.diameter(1, frozenset()) * 2**K
    assert math.hypot(*within) >= 0.999 * features.diameter(2, frozenset()) * 2**K


def test_bounds_too_close_for_float64_keep_their_sensitivity():
    """Bounds a few units in the last place apart cannot make a row count more than it may."""
    bounds = {"x": (1e16, 1e16 + 2)}
    tables = [
        table(pd.DataFrame({"x": [x], "by": ["a"]}), bounds=bounds, missing=None)
        for x in (1e16, 1e16 + 2, math.inf)
    ]

    for one in tables:
        for other in tables:
            check_sensitivity(one, other, ["moments"])


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


# ---- what cannot be summed -------------------------------------------------------------------------------


def test_a_table_that_has_changed_is_not_summed():
    """A table with another number of rows than was protected is refused, and neither number is compared aloud."""
    frame = as_pandas([(5.0, "a"), (6.0, "b")])
    protected = table(frame, neighbors="replace_one")
    frame.loc[2] = [7.0, "c"]

    with pytest.raises(ReadError, match="protected with 2 rows and now has another number"):
        total(protected, "mean")


def test_no_warning_tells_on_a_row():
    """Whatever the rows hold, and whatever a third party computes of them, no warning says so."""

    class Log(RowFeatures):
        shape = (2,)

        def __init__(self, column):
            self.columns = (column,)

        def rows(self, batch):
            y = batch.standardized(self.columns[0])
            return np.column_stack([np.log(y), 1.7e308 / y])

        def radius(self, norm):
            return 1.0

    frame = pd.DataFrame({"x": [-1e308, 0.0, 1e308, math.nan, math.inf, 0.1], "by": ["a"] * 6})
    wide = table(frame, bounds={"x": (-8e307, 8e307)}, missing=None)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide.total(Log(wide.schema.columns["x"]), K)
