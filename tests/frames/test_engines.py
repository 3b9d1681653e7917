"""Tables of other engines: read where they are, as little as is asked for, and with nothing taken along."""

from __future__ import annotations

import importlib
import io
import pickle
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import cloudpickle
import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import dfprivacy as dp
from dfprivacy._measure.evaluate import Table
from dfprivacy._table.conditions import read_condition
from dfprivacy._table.frames import adapt
from dfprivacy._table.frames.engine import digest_of_package
from dfprivacy._table.person_rows import read_aggregates
from dfprivacy.engines import Cluster, Engine
from dfprivacy.features import Kernel, Moments, OneHot, ProductKernel, RowFeatures, spread
from dfprivacy.schema import Unit

DATA = {
    "x": [0.0, 1.0, 2.0, None, 4.0, 5.0, float("nan"), 7.0] * 5,
    "n": [1, 2, 3, 4, None, 6, 7, 8] * 5,
    "g": ["a", "b", None, "c", "a", "b", "1", "a"] * 5,
}
TERMS = {"epsilon": 10, "bounds": {"x": (0, 6), "n": (2, 7)}, "categories": {"g": ["a", "b", 1]}}
ARROW = pa.table(DATA)
RUN = """
import sys, pickle
{before}
import cloudpickle, pyarrow
work, tables = pickle.load(sys.stdin.buffer)
pickle.dump([pickle.loads(work)(iter([table])) for table in tables], sys.stdout.buffer)
"""


class Rented(Cluster):
    """An engine of a third party's, whose rows are read by a process of their own."""

    keeps = True

    def __init__(self, parts, worker, before="", settled=False):
        self.tables, self.worker, self.before, self.settled = parts, worker, before, settled
        self.sent, self.read = [], []

    def empty(self):
        return self.tables[0].slice(0, 0)

    def rows(self):
        return sum(table.num_rows for table in self.tables)

    def parts(self, columns, keep):
        self.read.append((list(columns), list(keep)))
        return (table.select(columns) for table in self.tables)

    def split_by_person(self, column):
        other = Rented([pa.concat_tables(self.tables)], self.worker, self.before, self.settled)
        other.sent, other.read = self.sent, self.read
        return [other]

    def run(self, columns, keep, work):
        self.sent.append(cloudpickle.dumps(work))
        given = pickle.dumps((self.sent[-1], list(self.parts(columns, keep))))
        yield from pickle.loads(self.worker(RUN.format(before=self.before), given=given).stdout)  # noqa: S301


def fresh(script, given):
    """Run a script in a new interpreter."""
    return subprocess.run([sys.executable, "-c", script], input=given, capture_output=True, check=True)


@pytest.fixture(scope="module")
def forks(forking):
    """Fork of a process that has the libraries, and nothing of dfprivacy."""
    return forking("numpy", "pandas", "polars", "pyarrow", "cloudpickle")


@pytest.fixture
def installed(tmp_path, monkeypatch, forks):
    """A distribution that adds an engine by its entry point."""
    (tmp_path / "rented.py").write_text("made = None\n\n\nclass Frame:\n    engine = None\n")
    metadata = tmp_path / "rented-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: rented\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[dfprivacy.frames]\nrented = rented:made\n")
    monkeypatch.syspath_prepend(tmp_path)
    import rented

    rented.made = lambda frame: frame.engine
    rented.Frame.worker = forks
    yield rented.Frame
    del sys.modules["rented"]


def rented(installed, *parts, **said):
    frame = installed()
    frame.engine = Rented(parts or (ARROW[:7], ARROW[7:7], ARROW[7:]), frame.worker, **said)
    return frame


def read_schema_of(adapted, unit=None, **said):
    """What is declared of a frame."""
    from dfprivacy._table.declare import read_schema

    terms = {"bounds": TERMS["bounds"], "categories": TERMS["categories"], "public": (), "missing": None}
    return read_schema(adapted, **{**terms, **said}, unit=unit, neighbors="replace_one")


def table(frame, conditions=None, **said):
    """A frame as the curator sees it."""
    adapted = adapt(frame)
    schema = read_schema_of(adapted, **said)
    chosen = (read_condition(schema, name, wanted) for name, wanted in (conditions or {}).items())
    return Table(adapted, schema, tuple(chosen))


def total(table, k=30):
    """A sum that looks at every kind of column."""
    schema = table.schema
    return table.total(OneHot(schema.categorical("g")) * Moments(schema.numeric("x"), count=True), k)


# ---- engines of third parties ----------------------------------------------------------------------------


def test_what_is_no_engine_is_refused(installed):
    """An entry point that leads to something else is named."""
    frame = installed()
    frame.engine = [1, 2]

    with pytest.raises(dp.PluginError, match=r"list, not an engine.*dfprivacy\.engines\.Engine"):
        adapt(frame)


class Named(pickle.Unpickler):
    """Reads a pickle, and notes whatever it names."""

    def __init__(self, written):
        super().__init__(io.BytesIO(written))
        self.names = set()

    def find_class(self, module, name):
        self.names.add(f"{module}.{name}")
        return super().find_class(module, name)


def named_in(written):
    """What a pickled function names, and what the bytes in its closure do."""
    reader = Named(written)
    function = reader.load()
    inside = [cell.cell_contents for cell in function.__closure__ if isinstance(cell.cell_contents, bytes)]
    names = set(reader.names)
    while inside:
        reader = Named(inside.pop())
        packed = reader.load()
        names |= reader.names
        inside += [each for each in packed if isinstance(each, bytes)] if isinstance(packed, tuple) else []
    return names


def test_nothing_travels_but_code_and_public_facts(installed):
    """What a worker gets names no ledger, no noise and no account."""
    frame = rented(installed)
    assert total(table(ARROW)) == total(table(frame))
    assert frame.engine.read[-1][0] == ["g", "x"]
    view = dp.protect(frame, "a-secret-account", **TERMS)
    view.where(n=(3, 5)).ttest("x", popmean=1, epsilon=1)
    view.group_by("g").mean("x", epsilon=1)
    sent = frame.engine.sent

    named = set().union(*map(named_in, sent))
    kinds = {name for name in named if name.startswith("dfprivacy.")}
    parts = {name.split(".")[1] for name in kinds}
    assert {"dfprivacy._measure.tasks.Task", "dfprivacy.schema.Column"} <= kinds
    assert parts <= {"_measure", "_table", "features", "schema"}
    assert not [name for name in named if name.partition(".")[0] in {"opendp", "sqlalchemy"}]
    assert not [written for written in sent if b"a-secret-account" in written]


def test_rows_of_people_are_chosen_where_they_are(installed):
    """With a unit nothing comes to the driver but sums, and of `per` a row for each person."""
    data = ARROW.append_column("who", pa.array([str(at % 9) for at in range(ARROW.num_rows)]))
    frame = rented(installed, data[:7], data[7:])
    here, there = (
        Table(adapt(each), read_schema_of(adapt(each), Unit("who", 3)), key=bytes(32)) for each in (data, frame)
    )
    features = Moments(here.schema.numeric("x")), OneHot(here.schema.categorical("g"))
    made = read_aggregates(here.schema, here.schema.unit, {"x": "mean", "g": "first", "n": ("n", "sum")})
    people = [each.per_person(made) for each in (here, there)]

    assert [here.total(each, 30) for each in features] == [there.total(each, 30) for each in features]
    assert len({tuple(each.total(Moments(each.schema.numeric("x")), 30)) for each in people}) == 1
    every = [each.selected_batch(tuple(each.schema.columns.values())) for each in people]
    for column in people[0].schema.columns.values():
        values = [each.values(column) if column.bounds else each.codes(column) for each in every]
        assert np.array_equal(*values)
    assert len(frame.engine.sent) == 3


# ---- workers that are not like the driver ----------------------------------------------------------------


def test_a_worker_without_the_package(installed):
    """It is said what is missing there; what was charged stays charged, and the next question is answered."""
    frame = rented(installed, before="sys.modules['dfprivacy'] = None")
    view = dp.protect(frame, "bare", **TERMS)

    with pytest.raises(dp.ReadError, match=r"worker has no dfprivacy.*stays charged.*pip install"):
        view.mean("x", epsilon=1)

    frame.engine.before = ""
    assert view.budget.spent == 1
    assert view.mean("x", epsilon=2).privacy.epsilon == 2
    frame.engine.before = "sys.modules['dfprivacy'] = None"
    terms = TERMS | {"bounds": {"x": (0, 6)}}
    people = dp.protect(frame, "bare people", **terms, unit="n", max_rows=3)
    for each in (people, people.per("n").agg(x="mean"), people.sample("1/2")):
        with pytest.raises(dp.ReadError, match=r"worker has no dfprivacy.*stays charged.*pip install"):
            each.mean("x", epsilon=1)


OTHER = "import os; os.environ['NPY_DISABLE_CPU_FEATURES'] = {!r}"


def able():
    """What NumPy's other ways on this processor are."""
    core = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    umath = importlib.import_module(f"{core}._multiarray_umath")
    return " ".join(name for name in umath.__cpu_dispatch__ if umath.__cpu_features__[name])


UNLIKE = {
    "another processor": OTHER,
    "another version of NumPy": "import numpy, pandas, pyarrow; numpy.__version__ += '.post1'",
    "other code under the same name": """
import numpy
true = numpy.exp
numpy.exp = lambda x, **given: numpy.nextafter(true(x, **given), 2, **given)
""",
}


@pytest.mark.parametrize("kind", UNLIKE)
def test_a_worker_with_other_exponentials(kind, installed):
    """Sums of arithmetic are the same there; those of exponentials are refused, for a last bit may differ."""
    before = UNLIKE[kind].format(able()) if kind == "another processor" else UNLIKE[kind]
    frame = rented(installed, before=before)
    if kind == "another processor":
        frame.engine.worker = fresh  # NumPy looks at its processor once
        if not able():
            pytest.skip("NumPy has one way only on this processor")
    here = table(ARROW)
    x = here.schema.numeric("x")

    assert total(here) == total(table(frame))
    for wanted in ({}, {"x": (0, 6)}):
        with pytest.raises(dp.ReadError, match="is not like this process's"):
            table(frame, wanted).total(Kernel(ProductKernel((x,)), spread((x,), 4)), 30)


def theirs(folder, reach):
    """A plugin's package: its features are in one module, and what they do is in another."""
    package = folder / "theirs"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from dfprivacy.features import RowFeatures\nfrom theirs.helper import moved\n\n\n"
        "class Moved(RowFeatures):\n    shape = (1,)\n\n"
        "    def __init__(self, column):\n        self.columns = (column,)\n\n"
        "    def rows(self, batch):\n        return moved(batch.standardized(self.columns[0])[:, None])\n\n"
        "    def radius(self, norm):\n        return 1.0\n"
    )
    (package / "helper.py").write_text(f"def moved(rows):\n    return rows * {reach}\n")
    return folder


@pytest.fixture
def moved(tmp_path, monkeypatch):
    """Features of a plugin that this process has."""
    monkeypatch.syspath_prepend(theirs(tmp_path / "here", 0.5))
    yield importlib.import_module("theirs").Moved
    for name in ("theirs", "theirs.helper"):
        del sys.modules[name]
    digest_of_package.cache_clear()


WORKERS = {
    "the same": (lambda folder: theirs(folder, 0.5), None),
    "the same in a zip": (lambda folder: shutil.make_archive(folder, "zip", theirs(folder, 0.5)), None),
    "another version": (lambda folder: theirs(folder, 0.25), r"A worker has another version of 'theirs' than"),
    "none": (lambda folder: folder, r"On a worker: .* ModuleNotFoundError"),
}


@pytest.mark.parametrize(("make", "refusal"), WORKERS.values(), ids=WORKERS)
def test_a_worker_with_other_features(make, refusal, moved, installed, tmp_path):
    """The whole package counts that defines what is summed, wherever it was installed from."""
    frame = rented(installed, before=f"sys.path.insert(0, {str(make(tmp_path / 'there'))!r})")
    here, there = table(ARROW), table(frame)
    features = moved(here.schema.numeric("x"))

    if refusal is None:
        assert here.total(features, 30) == there.total(features, 30)
    else:
        with pytest.raises(dp.ReadError, match=refusal):
            there.total(features, 30)


@pytest.mark.parametrize("before", ["", "sys.path.insert(0, {!r})"])
def test_features_that_come_along_need_no_code_there(before, moved, installed, tmp_path):
    """Whoever has no such package, or another one, can use it where it is pickled with its code."""
    package = sys.modules["theirs"]
    here = table(ARROW)
    there = table(rented(installed, before=before.format(str(theirs(tmp_path / "there", 0.25)))))
    features = moved(here.schema.numeric("x"))
    cloudpickle.register_pickle_by_value(package)
    try:
        found = there.total(features, 30)
    finally:
        cloudpickle.unregister_pickle_by_value(package)

    assert here.total(features, 30) == found


def test_no_more_is_fetched_than_may_be_kept(installed):
    """The room for whole columns is that of all parts together; those that would not fit stay where they are."""
    frame, fetched = rented(installed, *[ARROW] * 50), []
    run = frame.engine.run

    def noted(*asked):
        for part in run(*asked):
            fetched.append(part)
            yield part

    frame.engine.run = noted
    terms = {**TERMS, "neighbors": "add_remove"}
    view = dp.protect(frame, "too much", **terms, memory=9 * 2 * len(ARROW) * 2.5)
    with pytest.raises(dp.ReadError, match=r"take more than memory=1\.8e"):
        view.mannwhitneyu("x", by="g", groups=("a", "b"), epsilon=1)

    assert len(fetched) <= 10
    assert view.budget.spent == 1


def test_what_fails_on_a_worker_quotes_nothing(installed, capfd):
    """A part that cannot be read fails with the type of the error alone, on the worker too."""
    frame = rented(installed, ARROW[:7], ARROW[7:].rename_columns(["x", "n", "canary"]))
    frame.engine.parts = lambda columns, keep: iter(frame.engine.tables)

    with pytest.raises(dp.ReadError, match=r"On a worker: .* withheld") as caught:
        total(table(frame))

    assert "canary" not in str(caught.value) + "".join(capfd.readouterr())


# ---- less is read ----------------------------------------------------------------------------------------


@pytest.fixture(params=["dataset", "duckdb"])
def reader(request, tmp_path):
    """What makes a frame of Parquet files that Arrow or DuckDB reads."""

    def make(data, rows=10):
        path = tmp_path / "rows.parquet"
        pq.write_table(data, path, row_group_size=rows)
        return ds.dataset(path) if request.param == "dataset" else duckdb.read_parquet(str(path))

    return make


WANTED = [
    {"x": (1, 4)}, {"x": (2, 6)}, {"x": (0, 2.5)}, {"n": (3, 7)}, {"n": (3.5, 5)}, {"g": "a"}, {"g": [1, "b"]},
    {"g": "b", "n": (2, 4)}, {"x": dp.present}, {"n": dp.missing},
]  # fmt: skip


@pytest.mark.parametrize("wanted", WANTED, ids=str)
@pytest.mark.parametrize("missing", [None, {"x": 3, "n": 4, "g": "other"}], ids=["left out", "filled"])
def test_public_conditions_are_used_to_read_less(reader, wanted, missing):
    """What an engine leaves out no condition selects, whatever is missing, out of bounds or written otherwise."""
    said = {"public": ["x", "n", "g"], "missing": missing}
    frame = reader(ARROW)
    here, there = table(ARROW, wanted, **said), table(frame, wanted, **said)

    assert total(here) == total(there)


@pytest.mark.parametrize("public", [True, False])
def test_what_public_conditions_exclude_is_not_read(public, reader, monkeypatch):
    """Nor are columns that nobody asks for; what private ones exclude would show in the time that it takes."""
    chosen = table(reader(ARROW), {"n": (3, 5), "g": ["a", "b"]}, public=["n", "g"] if public else [])
    engine, given = type(chosen.required_frame.engine), []
    parts = engine.parts
    monkeypatch.setattr(engine, "parts", lambda *asked: (given.append(part) or part for part in parts(*asked)))

    chosen.total(Moments(chosen.schema.numeric("n")), 30)

    assert {column for part in given for column in part.column_names} == {"n", "g"}
    assert (sum(part.num_rows for part in given) < ARROW.num_rows) == public
    assert public == ({each for part in given for each in part["n"].to_pylist()} <= {2, 3, 4, 5, 6})


@pytest.mark.parametrize("values", [[2**53 + 1, 2**53, 5, -(2**53) - 1], [0, 1, 2, 250]])
@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32", "float64"])
def test_limits_of_every_type(reader, values, dtype):
    """Numbers that float64 rounds are kept as the house reads them."""
    numbers = [each for each in values if dtype != "uint8" or 0 <= each < 256]
    data = pa.table(
        {"n": pa.array(np.array(numbers).astype(dtype)), "x": [1.0] * len(numbers), "g": ["a"] * len(numbers)}
    )
    for limits in [(2**53, 2**54), (-(2**53), 1), (0.5, 1.5), (5, 5), (-300, 300)]:
        said = {"public": ["n"], "bounds": {"x": (0, 6), "n": (-(2**60), 2**60)}}

        assert total(table(data, {"n": limits}, **said)) == total(table(reader(data), {"n": limits}, **said))


def test_a_column_that_fails_is_not_read_for_another():
    """A query's column that nobody asks for is not computed."""
    relation = duckdb.sql("select range::double as x, error('canary') as bad from range(20)")
    view = dp.protect(relation, "columns", epsilon=1, bounds={"x": (0, 20), "bad": (0, 1)}, size=20)

    assert view.mean("x", epsilon=0.5).privacy.epsilon == 0.5
    with pytest.raises(dp.ReadError, match="withheld"):
        view.mean("bad", epsilon=0.5)


def at_once(*asks):
    """Call functions in threads that begin at one moment; return what each returned."""
    with ThreadPoolExecutor(len(asks)) as pool:
        return [each.result(60) for each in [*map(pool.submit, asks)]]


def test_relations_of_one_connection_are_asked_from_several_threads():
    """A query would end the one before, whose charge stands: threads take turns, and each gets its answer."""
    with duckdb.connect() as connection:
        connection.execute("create table one as select range / 300000 as x from range(300000)")
        connection.execute("create table two as select 1 - x as x from one")
        names = ["one", "two"] * 2
        views = [
            dp.protect(connection.table(name), f"threads {name}", epsilon=100, bounds={"x": (0, 1)})
            for name in names
        ]

        def ask(at):
            return [views[at].where(x=(0, 0.9 - at / 10)).mean("x", epsilon=1).value for _ in range(5)]

        answers = at_once(*(partial(ask, at) for at in range(4)))

    assert [len({*each}) for each in answers] == [1] * 4
    assert [view.budget.spent for view in views] == [2] * 4


class Broken(RowFeatures):
    """A feature of somebody's that fails at a row."""

    shape = (1,)

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        raise ValueError("canary")

    def radius(self, norm):
        return 1.0


def test_a_relation_whose_reading_broke_off_is_read_by_another_thread():
    """The turn ends with the reading, also where it failed in the middle, and its error is kept."""
    asked = table(duckdb.sql("select range / 300000 as x from range(300000)"), bounds={"x": (0, 1)}, categories={})
    with pytest.raises(dp.DPError) as caught:
        asked.total(Broken(asked.schema.numeric("x")), 30)

    assert at_once(lambda: asked.total(Moments(asked.schema.numeric("x")), 30))
    assert "canary" not in str(caught.value)


# ---- what goes wrong -------------------------------------------------------------------------------------


def test_a_reader_that_can_be_read_once_is_refused():
    """A stream is no table: the way out is named."""
    with pytest.raises(dp.ArgumentError, match=r"only once.*pyarrow\.dataset\.Dataset"):
        dp.protect(ARROW.to_reader(), "stream", **TERMS)


@pytest.mark.parametrize("scan", [ds.dataset, pl.scan_parquet, lambda path: duckdb.read_parquet(str(path))])
@pytest.mark.parametrize("change", ["gone", "cut"])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_a_file_that_is_gone_or_cut(scan, change, neighbors, tmp_path, capfd):
    """A file that disappears, or ends early, gives an error without a quotation, and no half of a sum."""
    path = tmp_path / "canary.parquet"
    pq.write_table(ARROW, path, row_group_size=5)
    frame = scan(path)
    dp.protect(frame, "counted", **TERMS)  # engines may keep what they have learned of a file
    view = dp.protect(frame, "file", **TERMS, neighbors=neighbors)
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:200])

    with pytest.raises(dp.ReadError, match="stays charged") as caught:
        view.mean("x", epsilon=1)

    assert "canary" not in str(caught.value) + "".join(capfd.readouterr())
    assert view.budget.spent == 1


@pytest.mark.parametrize("scan", [ds.dataset, pl.scan_parquet, dd.read_parquet, duckdb.read_parquet])
def test_files_that_know_other_categories(scan, tmp_path):
    """A part may hold none of the categories, others, or the same in another order: each value counts as it is."""
    kinds = [["a", "b"], ["c", "b", "a"], [None, "zzz"], ["b"]]
    parts = [
        pa.table({"x": [1.0] * len(kind), "g": pa.array(kind, pa.string()).dictionary_encode()}) for kind in kinds
    ]
    for at, part in enumerate(parts):
        pq.write_table(part, tmp_path / f"{at}.parquet")
    path = str(tmp_path) if scan in (ds.dataset, dd.read_parquet) else f"{tmp_path}/*.parquet"
    bounds = {"x": (0, 6)}
    plain = pa.table({"x": [1.0] * 8, "g": [value for kind in kinds for value in kind]})

    assert total(table(plain, bounds=bounds)) == total(table(scan(path), bounds=bounds))


class Early:
    """An Arrow stream that fails, or has fewer rows, from the third pass on."""

    def __init__(self, failing):
        self.failing, self.passes = failing, 0

    def __arrow_c_stream__(self, requested_schema=None):
        self.passes += 1

        def rows():
            yield from ARROW[:20].to_batches()
            if self.passes <= 2:
                yield from ARROW[20:].to_batches()
            elif self.failing:
                raise OSError("canary")

        reader = pa.RecordBatchReader.from_batches(ARROW.schema, rows())
        return reader.__arrow_c_stream__(requested_schema)


def of_two_types(scan, folder):
    """Files whose column is of integers in one and of text in the other."""
    for at, values in enumerate(([1, 2], ["1", "q"])):
        pq.write_table(pa.table({"x": values}), folder / f"{at}.parquet")
    return scan(str(folder) if scan is ds.dataset else f"{folder}/*.parquet")


NUMBER = pl.col("x").cast(pl.Int8)
X, X_AND_N = {"bounds": {"x": (0, 6)}}, {"bounds": {"x": (0, 6), "n": (2, 7)}}
FAILING = {
    **{f"types {scan.__name__}": (partial(of_two_types, scan), "withheld", {**X, "size": 4})
       for scan in (ds.dataset, pl.scan_parquet, duckdb.read_parquet)},
    "a stream that breaks off": (lambda _: Early(failing=True), "OSError; its text is withheld", X),
    "a stream that ends early": (lambda _: Early(failing=False), "another number", X),
    "an overflow of DuckDB's": (
        lambda _: duckdb.sql("select (range::tinyint * 100::tinyint) as x, range as n from range(40)"),
        "withheld", X_AND_N),
    "an overflow of Polars'": (
        lambda _: pl.LazyFrame({"x": [100, 200] * 20, "n": [1, 2] * 20}).with_columns(NUMBER), "withheld", X_AND_N),
}  # fmt: skip


@pytest.mark.parametrize(("make", "said", "terms"), FAILING.values(), ids=FAILING)
def test_a_reading_that_fails_keeps_its_charge(make, said, terms, tmp_path):
    """There is no half of a sum, nothing is quoted, and other columns are read."""
    view = dp.protect(make(tmp_path), "failing", epsilon=10, **terms)

    with pytest.raises(dp.ReadError, match=rf"{said}.*stays charged") as caught:
        view.mean("x", epsilon=1)

    assert "canary" not in str(caught.value)
    assert view.budget.spent == 1
    assert "n" not in terms["bounds"] or view.mean("n", epsilon=2).privacy.epsilon == 2


class Stopped(Engine):
    """A data set during which somebody presses Ctrl-C, once."""

    settled = True

    def __init__(self):
        self.presses = 0

    def empty(self):
        return ARROW[:0]

    def rows(self):
        return ARROW.num_rows

    def parts(self, columns, keep):
        yield ARROW[:20].select(columns)
        if self.presses:
            self.presses -= 1
            signal.raise_signal(signal.SIGINT)
        yield ARROW[20:].select(columns)


def test_control_c_in_the_middle(installed):
    """An interrupt stops the pass: the charge is kept, nothing is answered, and the next question is."""
    frame = installed()
    frame.engine = Stopped()
    view = dp.protect(frame, "stopped", **TERMS)
    frame.engine.presses = 1

    with pytest.raises(KeyboardInterrupt):
        view.mean("x", epsilon=1)

    assert view.budget.spent == 1
    assert len(view.releases) == 0
    assert view.mean("x", epsilon=2).privacy.epsilon == 2


def test_a_table_that_grew(installed):
    """Another number of rows than was counted is refused, also where not all rows are read."""
    frame = rented(installed, ARROW[:7], ARROW[7:])
    for where in ({}, {"n": (3, 5)}):
        view = dp.protect(frame, f"grown {where}", **TERMS, public=["n"], size=41)
        view = view.where(**where) if where else view

        with pytest.raises(dp.ReadError, match="another number"):
            view.mean("x", epsilon=1)


def test_parts_of_different_types(installed):
    """A column may be numbers in one part, text or nothing in another: each value counts as it does alone."""
    kinds = [
        pa.table({"x": pa.array([1, 2], pa.int8()), "g": pa.array(["a", "zzz"]).dictionary_encode()}),
        pa.table({"x": pa.array([3.5, None]), "g": pa.array(["b", None])}),
        pa.table({"x": pa.array([None, None], pa.null()), "g": pa.array([1, 7], pa.uint64())}),
        pa.table({"x": pa.array([2**63, 2**64 - 1], pa.uint64()), "g": pa.array([None, None], pa.null())}),
        pa.table({"x": pa.array(["3", "x"]), "g": pa.array([1.0, 1e300])}),
    ]
    alone = [total(table(kind, bounds={"x": (0, 6)})) for kind in kinds]
    frame = rented(installed)
    frame.engine.empty = lambda: pd.DataFrame(DATA).iloc[:0]
    frame.engine.parts = lambda columns, keep: iter([pd.DataFrame(DATA)[:9], pl.DataFrame(DATA, strict=False)[9:]])
    assert total(table(ARROW)) == total(table(frame))

    assert [sum(each) for each in zip(*alone, strict=True)] == total(
        table(rented(installed, *kinds), bounds={"x": (0, 6)})
    )
