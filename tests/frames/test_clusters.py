"""The same integers wherever the rows are: on one machine, in other processes, in any parts."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import sys
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import cloudpickle
import dask
import dask.dataframe as dd
import distributed
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._measure.evaluate import Table, Task
from dfprivacy._plugins.loader import registry
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy._table.frames.engine import ClusterFrame, EngineFrame, TablePart
from dfprivacy._table.person_rows import read_aggregates
from dfprivacy.schema import Unit
from dfprivacy.testing import seeded_noise
from dfprivacy_audit.cases import cases_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not have the tests
pytestmark = pytest.mark.filterwarnings("ignore")  # of what starts clusters

ROWS = 150
TERMS = {"epsilon": 10**6, "delta": "0.1", "accounting": "basic"}
rng = np.random.default_rng(20_261_122)


def numbers(low, high):
    return np.where(rng.random(ROWS) < 0.1, np.nan, rng.uniform(low, high, ROWS))


def texts(values):
    return rng.choice(np.array([*values, None], dtype=object), ROWS)


# The columns of all cases of all bundled methods, with what is out of bounds, in no category, and missing.
DATA = pd.DataFrame(
    {
        "x": numbers(-4, 5),
        "y": numbers(-0.5, 2.5),
        "z": numbers(-2.2, 2.2),
        "w": numbers(-0.1, 1.1),
        "t": numbers(-0.1, 2.1),
        "e": rng.integers(0, 2, ROWS),
        "by": texts("ab"),
        "g": texts("abc12"),
        "h": texts("pqruvwz"),
        "k": texts("ab"),
    }
)
ARROW = pa.Table.from_pandas(DATA, preserve_index=False)
CUTS = [[ROWS], [0, 1, 1, 70, ROWS], [50, 100, 100, ROWS]]


def pieces(cuts):
    """Cut the rows; some pieces are empty."""
    return [DATA.iloc[start:end] for start, end in zip([0, *cuts], [*cuts, ROWS], strict=True)]


def ask(name, case, frame, at=""):
    """Ask what an audit asks."""

    def view(which):
        return dp.protect(
            frame,
            f"{name} {at} {which}",
            account=f"{case.neighbors} {which}",  # of all cases: to open one more takes longer the more there are
            **TERMS,
            bounds=dict(case.bounds),
            categories=dict(case.categories),
            public=list(case.public),
            missing=dict(case.missing),
            neighbors=case.neighbors,
        )

    asked, arguments = view("one"), dict(case.arguments)
    if case.where:
        asked = asked.where(**case.where)
    if case.group_by:
        asked = asked.group_by(case.group_by)
    if case.other:
        arguments[case.other] = view("other")
    if case.delta:
        arguments["delta"] = 1e-5
    with seeded_noise(1):
        return getattr(asked, name)(**arguments, epsilon=1)


@pytest.fixture(scope="session")
def tasks():
    """What all bundled methods do with rows, by method, as their audits ask them."""
    by_method, fold = {}, Table._results_by_part

    def note(table, reads, use, **said):
        for part in table.parts or (table,):
            task = Task(tuple(reads), part.conditions, part.mark, use)
            by_method.setdefault(name, {})[cloudpickle.dumps(task)] = task
        return fold(table, reads, use, **said)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "_results_by_part", note)
        patch.setenv("DFPRIVACY_LEDGER", "memory:")
        for name, mechanism in registry().mechanisms.items():
            for at, case in enumerate(cases_of(mechanism)):
                try:
                    ask(name, case, DATA, at)
                except dp.ArgumentError:  # of another number of rows, or of pairs
                    assert name in {"dcor_with", "kernel_message", "dcor_message", "kernel_two_sample"}
    return by_method


class Every:
    """Many tasks of the same rows, at once."""

    def __init__(self, tasks):
        self.tasks = tasks

    def __call__(self, part, count):
        tables = list(part.tables)
        return [plain(task(type(part)(iter(tables)), count)) for task in self.tasks]


def plain(value):
    """What comes of a task, as plain numbers."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value if isinstance(value, list | Counter) else gathered(value)


def gathered(batch):
    """The rows that a statistic of whole columns gets, sorted: those of several parts are put together."""
    kept = [*batch._cleaned.values(), *batch._encoded.values()]
    return Counter(zip(*(column.tolist() for column in kept), strict=True))


def added(values):
    """What the parts give together."""
    first = values[0]
    if isinstance(first, list):
        return [sum(each) for each in zip(*values, strict=True)]
    return sum(values, Counter())


def values_of(frame, tasks):
    """What tasks give of a frame, wherever its rows are."""
    adapted = adapt(frame)
    needed = dict.fromkeys(read for task in tasks for read in task.columns_needed)
    if not isinstance(adapted, EngineFrame):
        return [plain(task(adapted, lambda _: None)) for task in tasks]
    if not isinstance(adapted, ClusterFrame):
        return Every(tasks)(TablePart(adapted.engine.parts(adapted.columns_needed(needed), ())), lambda _: None)
    parts = adapted.map_parts(needed, Every(tasks), lambda _: None, portable=False)
    return [added(values) for values in zip(*parts, strict=True)]


# ---- the engines -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def workers():
    """What needs processes of a cluster is tried by `tox -e clusters`, with Dask and Spark."""
    if "DFPRIVACY_TEST_CLUSTERS" not in os.environ:
        pytest.skip("starts workers: tox -e clusters")


@contextlib.contextmanager
def cluster_of_dask():
    """A cluster of Dask's: two processes, and two tries for each task."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def dask_cluster(workers):
    """A cluster whose workers live."""
    with cluster_of_dask() as client:
        yield client


@pytest.fixture(scope="session")
def spark(workers):
    """A session of Spark with two Python workers, and two tries for each task."""
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local[2, 2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "3").getOrCreate()
    yield session
    session.stop()


def of_memory(request):
    """Frames of this machine in other forms than contracts ask for."""
    folder = request.getfixturevalue("tmp_path")
    for at, piece in enumerate(pieces(CUTS[1])):
        pq.write_table(pa.Table.from_pandas(piece, ARROW.schema), folder / f"{at}.parquet", row_group_size=40)
    frame = pl.from_arrow(ARROW)
    return [
        DATA.convert_dtypes(dtype_backend="pyarrow"),
        pl.concat([frame[:3], frame[3:3], frame[3:]], rechunk=False),
        *(frame.lazy(), ds.dataset(folder), ds.dataset([ds.dataset(ARROW[:9]), ds.dataset(ARROW[9:])])),
        *(duckdb.from_arrow(ARROW), duckdb.read_parquet(str(folder / "*.parquet")).order("x")),
    ]


def as_it_is(piece):
    return piece


def of_dask(_):
    return [dd.from_map(as_it_is, pieces(cuts), meta=DATA.iloc[:0]) for cuts in CUTS[1:]]


def of_distributed(request):
    return of_dask(request) if request.getfixturevalue("dask_cluster") else []


def of_spark(request):
    session = request.getfixturevalue("spark")
    frame = session.createDataFrame(ARROW)
    return [frame.repartition(4), frame.filter("x > 0 or x is null").union(frame.filter("x <= 0"))]


ENGINES = {"memory": of_memory, "dask": of_dask, "distributed": of_distributed, "spark": of_spark}


@pytest.fixture(params=ENGINES)
def frames(request):
    """The same rows as frames of one engine, in several parts; a cluster's is the one in use."""
    made = ENGINES[request.param](request)
    if request.param == "distributed":
        with request.getfixturevalue("dask_cluster").as_current():
            yield made
    else:
        yield made


def test_every_method_gets_the_same_whole_numbers(tasks, frames):
    """What every bundled method sums or counts of rows is the same on every engine, in any parts, to the bit."""
    every = [task for of_method in tasks.values() for task in of_method.values()]
    # Some take messages, row by row, or refuse this table.
    unread = {"dcor_message", "dcor_with", "kernel_message"}
    assert set(registry().mechanisms) - set(tasks) <= unread
    expected = [plain(task(adapt(DATA), lambda _: None)) for task in every]

    for frame in frames:
        assert expected == values_of(frame, every)


def people_of(frame, unit, most=7):
    """The rows of people, of whom some have too many."""
    said = {"bounds": {"x": (-2, 4), "y": (0, 2)}, "categories": {"h": ["p", "q", "r"]}, "missing": None}
    adapted = adapt(frame)
    schema = read_schema(adapted, **said, public=(), neighbors="add_remove", unit=Unit(unit, most))
    return Table(adapted, schema, key=bytes(range(32)))


def of_people(table, *hows):
    """Sums of the rows that count, and of people, and the people themselves, in their order."""
    schema = table.schema
    asked = {how: ("x", how) for how in hows} | {"n": "count", "of_x": ("x", "count")}
    if "first" in hows:
        asked["of_h"] = ("h", "first")
    made = table.per_person(read_aggregates(schema, schema.unit, asked))
    columns = tuple(made.schema.columns.values())
    every = made.selected_batch(columns)
    return [
        table.total(features.Moments(schema.numeric("x")), 30),
        table.total(features.OneHot(schema.categorical("h")), 30),
        made.total(features.Moments(made.schema.numeric(hows[0])), 30),
        [plain(every.values(column) if column.bounds else every.codes(column)) for column in columns],
    ]


@pytest.mark.parametrize("unit", ["g", "e"])
def test_the_same_rows_of_people_count(frames, unit):
    """Of people with too many rows, and what is made of one's rows, to the bit and in the same order."""
    hows = "mean", "sum", "min", "max"
    expected = of_people(people_of(DATA, unit), *hows)

    for frame in frames:
        assert expected == of_people(people_of(frame, unit), *hows)


def test_the_first_of_a_persons_rows(spark):
    """Where rows have an order, parts of people have it too."""
    first = spark.createDataFrame(ARROW).coalesce(1)
    hows = "first", "last"
    expected = of_people(people_of(DATA, "g"), *hows)

    for frame in (first, *of_dask(None)):
        assert expected == of_people(people_of(frame, "g"), *hows)


def test_people_of_a_large_query_are_read_in_parts(monkeypatch):
    """DuckDB and Polars divide them, so that not all rows are in memory at once."""
    expected = of_people(people_of(DATA, "g"), "mean")
    for module in ("arrow", "polars"):
        monkeypatch.setattr(importlib.import_module(f"dfprivacy._table.frames.{module}"), "TOGETHER", 40)
    for frame in (duckdb.from_arrow(ARROW), pl.from_arrow(ARROW).lazy()):
        table = people_of(frame, "g")
        assert len(table.frame._frames_by_person) == 4
        assert expected == of_people(table, "mean")


# Names that engines may take for each other: of other case, with zeros in front, missing, empty, with what is not
# shown, and numbers that are one as fractions.
TEXT_NAMES = ["1", "01", "1.0", "a", "A", "\u00e4", "a\u0308", "", "x", "x\0", "x ", "True", "nan", None]
NUMBER_NAMES = [1, 0, -1, 2**53, 2**53 + 1, 2**62, 2**62 + 1, -(2**63), 2**63 - 1, 7, 8, 9, 10, None]
NAMES = {
    "text": (TEXT_NAMES, pa.string(), pa.string()),
    "categories": (TEXT_NAMES, pa.dictionary(pa.int8(), pa.string()), pa.string()),
    "bytes": ([None if name is None else name.encode() for name in TEXT_NAMES], pa.binary(), pa.binary()),
    "numbers": (NUMBER_NAMES, pa.int64(), pa.int64()),
    "small numbers": ([None if name is None else abs(name) % 100 for name in NUMBER_NAMES], pa.int16(), pa.int64()),
    "large numbers": ([2**53, 2**53 + 1, 2**62, 2**62 + 1, 2**63 - 1, 7, None], pa.int64(), pa.uint64()),
}
nullable = {"types_mapper": pd.ArrowDtype}


def in_parts(table, **how):
    """A Dask DataFrame of four parts."""
    return dd.from_pandas(table.to_pandas(**how), npartitions=4, sort=False)


HOLDS = {
    "pandas": lambda table, _: table.to_pandas(**nullable),
    "objects": lambda table, _: pd.DataFrame(
        {name: pd.Series(table[name].to_pylist(), dtype=object) for name in table.column_names}
    ),
    "polars": lambda table, _: pl.from_arrow(table),
    "lazy": lambda table, _: pl.from_arrow(table).lazy(),
    "arrow": lambda table, _: table,
    "data set": lambda table, _: ds.dataset(pa.concat_tables([table[:7], table[7:]])),
    "duckdb": lambda table, connection: connection.from_arrow(table),
    "dask": lambda table, _: in_parts(table, **nullable),
}
AT = (f"joined {at}" for at in range(10**6))


def people_met(names):
    """The names of the people of 90 rows of one table, and of 30 of the other."""
    rng = np.random.default_rng(9)
    return ([names[at] for at in rng.integers(0, len(names), many)] for many in (90, 30))


def joins_of(hold, called, how, connection=None):
    """The rows of a join that count, sorted, sums of them, and the first and last of each person."""
    names, kind, other = NAMES[called]
    left, right = people_met(names)
    left = pa.array(left, pa.string() if "dict" in str(kind) else kind).cast(kind)
    left = pa.table({"pid": left, "x": np.arange(90.0)})
    right = pa.table({"pid": pa.array(right, other), "y": np.arange(30.0), "h": list("pqr") * 10})
    account = next(AT)
    said = {"account": account, "epsilon": 1, "ledger": "memory:", "unit": "pid", "max_rows": 4}
    one = dp.protect(hold(left, connection), f"{account} left", bounds={"x": (0, 90)}, **said)
    more = {"bounds": {"y": (0, 30)}, "categories": {"h": ["p", "q", "r"]}}
    two = dp.protect(hold(right, connection), f"{account} right", **more, **said)
    table = one.join(two, on="pid", how=how)._target.table
    table = Table(table.frame.frame, table.schema, key=bytes(range(32)))
    x, y, h = (table.schema.columns[name] for name in "xyh")
    every = table.selected_batch((x, y, h))
    rows = zip(every.values(x).tolist(), every.values(y).tolist(), every.codes(h).tolist(), strict=True)
    sums = table.total(features.Stack(features.OneHot(h) * features.Moments(x), features.Moments(y)), 20)
    asked = {"first": ("y", "first"), "last": ("y", "last"), "x": "last"}
    people = table.per_person(read_aggregates(table.schema, table.schema.unit, asked))
    columns = tuple(people.schema.columns.values())
    of_each = people.selected_batch(columns)
    return sorted(rows), sums, [of_each.values(column).tolist() for column in columns]


@functools.cache
def expected_joins(called, how):
    """The same of Python's objects."""
    return joins_of(HOLDS["objects"], called, how)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", ["left", "inner"])
@pytest.mark.parametrize("called", NAMES)
@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
def test_the_same_people_meet_on_every_engine(hold, called, how):
    """Whatever they are called and by whichever types; who has no name meets nobody."""
    answer = joins_of(hold, called, how, duckdb.connect())
    found = answer[0]
    left, right = people_met(NAMES[called][0])
    met = {
        (float(at), float(place), place % 3)
        for at, name in enumerate(left)
        for place, one in enumerate(right)
        if name is not None and name == one
    }
    alone = {float(at) for at, name in enumerate(left) if name is not None and name not in right}

    assert {row for row in found if row[2] < 3} <= met
    assert {row[0] for row in found if row[2] == 3} == (alone if how == "left" else set())
    assert answer == expected_joins(called, how)


def test_people_of_a_collation_that_ignores_case_are_told_apart():
    """DuckDB compares its own columns as they were made."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE one (pid VARCHAR COLLATE NOCASE, x DOUBLE)")
    connection.execute("CREATE TABLE two (pid VARCHAR COLLATE NOCASE, y DOUBLE, h VARCHAR)")
    made = {"x": connection.table("one"), "y": connection.table("two")}

    def hold(table, _):
        name = "x" if "x" in table.column_names else "y"
        connection.from_arrow(table).insert_into("one" if name == "x" else "two")
        return made[name]

    assert joins_of(hold, "text", "left") == expected_joins("text", "left")


def test_the_same_people_meet_on_spark(spark):
    """Of text and of numbers of different widths."""
    for called in ("text", "numbers", "small numbers"):
        for how in ("left", "inner"):
            found = joins_of(lambda table, _: spark.createDataFrame(table), called, how)
            assert found == expected_joins(called, how)


def test_a_sample_of_people_elsewhere(spark):
    """All or none of a person's rows are drawn, and in a sample of nearly everybody are those that count."""
    for frame in (spark.createDataFrame(ARROW), *of_dask(None)):
        table = people_of(frame, "g")
        x = features.Moments(table.schema.numeric("x"))
        drawn = table.sampled(Fraction(10**12 - 1, 10**12)).with_drawn_sample()
        assert drawn.total(x, 30) == table.total(x, 30)


def test_all_rows_of_a_person_are_drawn_or_none(monkeypatch):
    """In however many batches and parts they come."""
    monkeypatch.setattr(importlib.import_module("dfprivacy._table.frames.polars"), "TOGETHER", 40)
    people = list(range(6))
    data = pd.DataFrame({"who": people * 25, "w": people * 25, "x": 1.0})
    dasked = dd.from_map(as_it_is, [data.iloc[start : start + 30] for start in range(0, ROWS, 30)], meta=data[:0])
    for frame in (data, dasked, pl.from_pandas(data).lazy()):
        adapted = adapt(frame)
        said = {"bounds": {"x": (0, 1)}, "categories": {"w": people}, "missing": None, "public": ()}
        schema = read_schema(adapted, **said, neighbors="add_remove", unit=Unit("who", 20))
        table = Table(adapted, schema, key=bytes(range(32))).sampled(Fraction(1, 2))
        drawn = [table.with_drawn_sample().total(features.OneHot(schema.categorical("w")), 0) for _ in range(20)]
        assert {count for each in drawn for count in each} == {0, 20}


def test_a_spark_frame_has_a_view(spark):
    """``df.dp`` is on Spark's frames; rows of people and public values come to this process in order."""
    frame = spark.createDataFrame(ARROW).coalesce(1)
    bounded = {"bounds": {"x": (-2, 4)}, "categories": {"g": ["a", "b"], "by": ["a", "b"]}}
    frame.dp.protect("spark", epsilon=10, **bounded, public=["by"])
    same = dp.protect(ARROW, "arrow", epsilon=10, **bounded, public=["by"])
    with seeded_noise(5):
        there = frame.dp.where(by="a").ttest("x", by="g", groups=("a", "b"), epsilon=1)
    with seeded_noise(5):
        here = same.where(by="a").ttest("x", by="g", groups=("a", "b"), epsilon=1)
    column = same.schema.columns["by"]

    assert (here.statistic, here.sizes) == (there.statistic, there.sizes)
    assert same._target.table.public_values(column) == frame.dp.view._target.table.public_values(column)


BOUNDS = {"epsilon": 10, "bounds": {"x": (-2, 4), "y": (0, 2)}, "categories": {"g": ["a", "b"]}}


@dp.mechanism(columns={"column": "numeric"})
def fatal(curator, column):
    """What kills whoever reads the rows."""
    return curator.sum(Deadly(column, "always"))


def refused_and_charged(frame, match):
    """A view that has paid for what kills whoever reads it, and has no answer."""
    view = dp.protect(frame, "fatal", **BOUNDS)
    with pytest.raises(dp.ReadError, match=match):
        view._question(fatal, ("x",), {"epsilon": 1}).ask()

    assert view.budget.spent == 1
    assert len(view.releases) == 0
    return view


def exact(frame, made, k=30):
    """The exact sum of features."""
    view = dp.protect(frame, "exact", **BOUNDS)
    return view._target.table.total(made(view.schema.numeric("x")), k)


class Deadly(features.RowFeatures):
    """A number whose reader is killed: the first to come, or everybody."""

    shape = (1,)

    def __init__(self, column, marker):
        self.columns, self.marker = (column,), marker

    def rows(self, batch):
        import os
        from pathlib import Path

        if os.getpid() != self.driver and self.marker != "always":
            with contextlib.suppress(FileExistsError):
                Path(self.marker).touch(exist_ok=False)
                os._exit(1)
        elif os.getpid() != self.driver:
            os._exit(1)
        return batch.standardized(self.columns[0])[:, None]

    driver = os.getpid()

    def radius(self, norm):
        return 1.0


def test_a_worker_of_spark_that_is_killed(spark, tmp_path):
    """The sum is the right one when a Python worker dies in the middle and another reads its part."""
    frame, marker = spark.createDataFrame(ARROW).repartition(4), tmp_path / "killed"

    assert exact(DATA, lambda x: Deadly(x, "always")) == exact(frame, lambda x: Deadly(x, str(marker)))
    assert marker.exists()


def test_workers_of_spark_that_are_killed_again_and_again(spark):
    """Spark gives up: no answer, the charge is kept, and the next question is answered."""
    frame = spark.createDataFrame(ARROW).repartition(4)

    view = refused_and_charged(frame, r"failed with \w+; its text is withheld")

    assert view.mean("x", epsilon=2).privacy.epsilon == 2


PAGE = Path(__file__).parents[2] / "docs/howto/engines.md"


def of_the_page(library, folder, monkeypatch):
    """Run the commands of the page for a cluster, on two files of its kind; the answers there, and in memory."""
    n = 400
    arm = np.array(["drug", "placebo"] * (n // 2))
    data = pa.table(
        {"arm": arm, "weight": rng.normal(80, 12, n) - 9 * (arm == "drug"), "visits": rng.poisson(3, n)}
    )
    (folder / "trial").mkdir()
    for at in range(2):
        pq.write_table(data[at * 200 : at * 200 + 200], folder / f"trial/{at}.parquet")
    terms = {"epsilon": 4, "bounds": {"weight": (40, 160), "visits": (0, 20)}, "public": ["arm"]}
    terms["categories"] = {"arm": ["drug", "placebo"]}
    monkeypatch.chdir(folder)
    blocks = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (block,) = [each for each in blocks if library in each]
    block = block.replace('parquet("trial")', f"parquet({str(folder / 'trial')!r})")  # Spark may run elsewhere
    names = {"terms": terms}
    with seeded_noise(3):
        exec(block, names)  # noqa: S102 - our own
    with seeded_noise(3):
        here = dp.protect(data, "in memory", **terms).ttest("weight", by="arm", epsilon=1)
    return names, names["there"], here


def test_the_page_runs_on_spark(spark, tmp_path, monkeypatch):
    """The commands of the documentation for Spark give the answer that the rows have in memory."""
    _, there, here = of_the_page("pyspark", tmp_path, monkeypatch)

    assert here.statistic == there.statistic


def test_the_page_runs_on_dask(workers, tmp_path, monkeypatch):
    """The commands of the documentation for a cluster of Dask's do so as well."""
    names, there, here = of_the_page("distributed", tmp_path, monkeypatch)
    names["client"].shutdown()

    assert here.statistic == there.statistic


# ---- Dask ------------------------------------------------------------------------------------------------


@pytest.fixture
def frame(dask_cluster):
    """The rows, in four parts on a cluster of two processes."""
    with dask_cluster.as_current():
        yield dd.from_map(as_it_is, pieces(CUTS[2]), meta=DATA.iloc[:0])


def test_a_dask_frame_has_a_view(frame):
    """``df.dp`` is on Dask's frames, and asks what pandas' frames are asked, with the same answer."""
    answers = []
    for each in (frame, DATA.copy()):
        each.dp.protect(f"view of {type(each)}", **BOUNDS)
        with seeded_noise(5):
            answers.append(each.dp.ttest("x", by="g", groups=("a", "b"), epsilon=1))

    assert answers[0].statistic == answers[1].statistic
    assert answers[0].sizes == answers[1].sizes


@pytest.fixture
def mortal(workers):
    """The rows on a cluster of Dask's whose workers may die."""
    with cluster_of_dask() as client, client.as_current():
        yield client, dd.from_map(as_it_is, pieces(CUTS[2]), meta=DATA.iloc[:0])


def test_a_worker_that_is_killed(mortal, tmp_path):
    """The sum is the right one when a worker dies in the middle and another reads its part."""
    _, frame = mortal
    marker = tmp_path / "killed"

    assert exact(DATA, lambda x: Deadly(x, "always")) == exact(frame, lambda x: Deadly(x, str(marker)))
    assert marker.exists()


def test_workers_that_are_killed_again_and_again(mortal):
    """Dask gives up, and so does whoever waits for workers that Dask does not start again; the charge is kept."""
    _, frame = mortal
    with dask.config.set({"distributed.scheduler.no-workers-timeout": "5s"}):
        refused_and_charged(frame, "KilledWorker|has lost its workers")


THEIRS = """
from dfprivacy.features import RowFeatures

class Scaled(RowFeatures):
    shape = (1,)

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        return batch.standardized(self.columns[0])[:, None] * {}

    def radius(self, norm):
        return 1.0
"""


def look_in(folder):
    sys.path.insert(0, folder)


def test_workers_with_another_version_of_a_plugin(mortal, tmp_path, monkeypatch):
    """Its features are refused where its source is another one, and added up where it is the same."""
    client, frame = mortal
    for where in ("driver", "workers"):
        (tmp_path / where).mkdir()
        for name in ("alike", "unlike"):
            reach = 0.25 if (where, name) == ("workers", "unlike") else 0.5
            (tmp_path / where / f"their_{name}_features.py").write_text(THEIRS.format(reach))
    monkeypatch.syspath_prepend(tmp_path / "driver")
    client.wait_for_workers(2)  # one that comes later would not look there
    client.run(look_in, str(tmp_path / "workers"))
    alike, unlike = (importlib.import_module(f"their_{name}_features").Scaled for name in ("alike", "unlike"))

    assert exact(DATA, alike) == exact(frame, alike) == exact(DATA, unlike)
    with pytest.raises(dp.ReadError, match="A worker has another version of 'their_unlike_features'"):
        exact(frame, unlike)


def test_a_cluster_without_workers(mortal):
    """A question waits for workers, not for good: the charge is kept, and with new ones the next is answered."""
    client, frame = mortal
    view = dp.protect(frame, "alone", **BOUNDS)
    client.cluster.scale(0)
    while client.nthreads():
        time.sleep(0.05)
    with dask.config.set({"distributed.scheduler.no-workers-timeout": "1s"}):
        with pytest.raises(dp.ReadError, match=r"has lost its workers.*stays charged.*Start new workers"):
            view.mean("x", epsilon=1)
        with pytest.raises(dp.ReadError, match="has lost its workers"):
            dp.protect(frame, "rows are counted", **BOUNDS)
    client.cluster.scale(1)

    assert view.budget.spent == 1
    assert view.mean("x", epsilon=2).privacy.epsilon == 2


def test_a_scheduler_that_is_gone(mortal):
    """There is an error, and the charge is kept."""
    client, frame = mortal
    view = dp.protect(frame, "headless", **BOUNDS)
    client.cluster.close()
    with pytest.raises(dp.ReadError, match="stays charged"):
        view.mean("x", epsilon=1)

    assert view.budget.spent == 1


def test_a_result_that_takes_long_to_come(frame, monkeypatch):
    """A partition that is there, and takes longer to fetch than a look at the workers, is fetched."""
    monkeypatch.setattr(importlib.import_module("dfprivacy._table.frames.dask"), "_LOOK", 1e-4)

    assert adapt(frame).lists(["e"])["e"] == DATA["e"].tolist()
