"""What a question costs on each engine, beside a bare pass of pyarrow and NumPy over the same rows.

    OMP_NUM_THREADS=1 python tests/benchmarks/engines.py                    # 4 million rows, 2.5 of kernels
    OMP_NUM_THREADS=1 python tests/benchmarks/engines.py --rows 200000 --turns 1

The bare passes read batches of a Parquet file by pyarrow, or of a table in memory, of the size that is fastest for
them, and add up: ``X @ X.T`` and the sums of six columns; by group, the number of rows, and sums and squares of one
column; of the kernel, ``exp(X @ Z)`` at 1,000 points in 1 MB of memory that is used again. They check, clip, round
and charge nothing. A private call cleans, clips, standardizes, rounds to the grid, sums exactly, charges a ledger
and draws noise; by group it first counts the rows of each, which are public here, and a mean is measured twice.

All that a line compares takes turns in one process, half as many for kernels. Ratios are of the processor's seconds
of all threads and processes in the best of all turns, BLAS on one thread; wall time is not measured where other
processes run. Spark has two Python workers, and its own processes count; Dask has two threads, on eight parts; both
are warm. The two-sample test is asked of a tenth of the rows as well. Ratios of people are those of `people_speed`,
which compares more: eight of some ten rows of each count.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import people_speed
import polars as pl
import psutil
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from results import recorded
from threadpoolctl import threadpool_limits

import dfprivacy as dp
from dfprivacy.features import Kernel, ProductKernel, spread
from dfprivacy_kernel.design import Design

NAMES = [f"x{i}" for i in range(6)]
PIECE, POINTS = 128, 1000
QUIET = 1.6  # load, of which this process is one
TERMS = {
    "epsilon": 10_000,
    "delta": "1/100",
    "accounting": "basic",
    "ledger": "memory:",
    "bounds": dict.fromkeys(NAMES, (0, 100)),
    "categories": {"group": list(range(8)), "arm": [0, 1]},
    "public": ["group", "arm"],
}


# ---- bare passes -----------------------------------------------------------------------------------------


def batches(source, names, rows):
    """Batches of a file or of a table, as arrays."""
    table = isinstance(source, pa.Table)
    read = source.select(names).to_batches(rows) if table else ds.dataset(source).to_batches(names, batch_size=rows)
    for batch in read:
        yield [batch.column(name).to_numpy(zero_copy_only=False) for name in names]


def second_moments(source):
    total, sums = np.zeros((6, 6)), np.zeros(6)
    for batch in batches(source, NAMES, 1 << 14):
        X = np.stack(batch)
        total += X @ X.copy().T  # BLAS multiplies a matrix by itself more slowly
        sums += X.sum(axis=1)
    return total, sums


def by_group(source):
    total = np.zeros((3, 8))
    for x, group in batches(source, ["x0", "group"], 1 << 17):
        total += [np.bincount(group, minlength=8), np.bincount(group, x, 8), np.bincount(group, x * x, 8)]
    return total


def kernel(columns):
    """Sums of kernel values, neither exact nor the same in every order of rows."""
    Z = np.random.default_rng(2).normal(size=(4, POINTS))
    u, v = (column / 50 - 1 for column in columns)
    left = np.column_stack([u, v, -(u * u + v * v) / 2, np.ones(len(u))])
    total, room = np.zeros(POINTS), np.empty((PIECE, POINTS))
    for at in range(0, len(left), PIECE):
        part = left[at : at + PIECE]
        values = np.matmul(part, Z, out=room[: len(part)])
        total += np.exp(values, out=values).sum(axis=0)
    return total


def kernel_by_two(columns):
    """The same on two threads."""
    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(kernel, zip(*(np.array_split(column, 2) for column in columns), strict=True)))


# ---- private questions -----------------------------------------------------------------------------------


def kernel_of(view):
    x = [view.schema.numeric(name) for name in NAMES[:2]]
    return Kernel(ProductKernel(x, 50.0), spread(x, POINTS))


def features_of_the_test(view):
    x = [view.schema.numeric(name) for name in NAMES[:2]]
    (values,) = Design.from_arguments(x, "nystrom", None, 0.5, None, 200).embedding().parts
    return values


ASKED = {
    "second moments": lambda view: view.moments(NAMES, epsilon=1, delta=1e-6),
    "t-test by group": lambda view: view.group_by("group").ttest("x0", popmean=50, epsilon=1),
    "mean by group": lambda view: view.group_by("group").mean("x0", epsilon=1),
    "kernel": lambda view: view._target.table.total(kernel_of(view), 30),
    "two-sample test": lambda view: view.kernel_two_sample(NAMES[:2], by="arm", epsilon=1),
    "its features": lambda view: view._target.table.total(features_of_the_test(view), 39),
}


def private(what, frame):
    """What asks a private question; the table is protected before."""
    view = dp.protect(frame, f"{what} {time.time_ns()}", **TERMS)
    return lambda: ASKED[what](view)


# ---- measuring -------------------------------------------------------------------------------------------


def spent(*, everybody):
    """The processor's seconds of this process, or of all that it has started as well, and the time."""
    started = psutil.Process().children(recursive=True) if everybody else []
    others = sum(sum(each.cpu_times()[:4]) for each in started)
    return time.process_time() + others, time.perf_counter()


def taking_turns(turns, works, *, everybody=False):
    """Seconds of processors and of clocks that some works take, by name; each is made anew, and warmed up once."""
    took = {name: [] for name in works}
    for turn in range(-1, turns):
        for name, make in works.items():
            work = make()
            before = spent(everybody=everybody)
            work()
            if turn >= 0:
                after = spent(everybody=everybody)
                took[name].append([end - start for start, end in zip(before, after, strict=True)])
    return took


def processor(times):
    return min(time[0] for time in times)


def clock(times):
    return min(time[1] for time in times)


def written(path, rows):
    rng = np.random.default_rng(1)
    data = {name: rng.uniform(0, 100, rows) for name in NAMES}
    data |= {"group": rng.integers(0, 8, rows), "arm": rng.integers(0, 2, rows)}
    pq.write_table(pa.table(data), path, row_group_size=250_000)
    return path


def passes(row, turns, path):
    """Moments, beside bare passes over the same file, or the same table."""
    table, frame = pq.read_table(path), pd.read_parquet(path)
    engines = {
        "pyarrow.dataset": lambda: ds.dataset(path),
        "DuckDB": lambda: duckdb.connect().read_parquet(str(path)),
        "Polars, lazy": lambda: pl.scan_parquet(path),
        "pyarrow.Table": lambda: table,
        "pandas": lambda: frame.copy(deep=False),
    }
    bare = {"second moments": second_moments, "t-test by group": by_group, "mean by group": by_group}
    for what, work in bare.items():
        works = {"file": lambda work=work: lambda: work(path), "memory": lambda work=work: lambda: work(table)}
        for engine, opened in engines.items():
            works[engine] = lambda what=what, opened=opened: private(what, opened())
        took = {name: processor(times) for name, times in taking_turns(turns, works).items()}
        for engine in engines:
            beside = "memory" if engine in {"pyarrow.Table", "pandas"} else "file"
            goal = "1.5" if what == "second moments" else "2.0"
            aim = goal if engine == "pyarrow.dataset" and what != "mean by group" else ""
            row(
                what,
                engine,
                f"bare pass, {beside}: {took[beside]:.3f} s",
                f"{took[engine] / took[beside]:.2f}",
                aim,
            )


def kernels(row, turns, path):
    """Kernel features on one thread and on two, and on engines that have two."""
    frame = pd.read_parquet(path)
    few = frame[: len(frame) // 10]
    columns = [frame[name].to_numpy() for name in NAMES[:2]]

    def on(threads, make):
        def make_limited():
            work = make()

            def limited():
                with threadpool_limits(threads, user_api="blas"):
                    work()

            return limited

        return make_limited

    works = {
        "bare": on(1, lambda: lambda: kernel(columns)),
        "bare, two": on(1, lambda: lambda: kernel_by_two(columns)),
        "one": on(1, lambda: private("kernel", frame.copy(deep=False))),
        "two": on(2, lambda: private("kernel", frame.copy(deep=False))),
        "Dask": on(1, lambda: private("kernel", dd.from_pandas(frame, npartitions=8))),
        "test": on(1, lambda: private("two-sample test", frame.copy(deep=False))),
        "features": on(1, lambda: private("its features", frame.copy(deep=False))),
        "test, few": on(1, lambda: private("two-sample test", few.copy(deep=False))),
        "features, few": on(1, lambda: private("its features", few.copy(deep=False))),
    }
    quiet = os.getloadavg()[0] < QUIET
    took = taking_turns(turns, works)
    spark = session(path)
    if spark is not None:
        of_spark = {
            "bare, two, beside Spark": works["bare, two"],
            "Spark": on(1, lambda: private("kernel", spark.read.parquet(str(path)))),
        }
        took |= taking_turns(turns, of_spark, everybody=True)
        spark.stop()
    cpu = {name: processor(times) for name, times in took.items()}
    beside = f"bare loop: {cpu['bare']:.2f} s"
    row("kernel, 1,000 points", "pandas, one thread", beside, f"{cpu['one'] / cpu['bare']:.2f}", "1.2")
    wall = {name: clock(took[name]) / clock(took["bare"]) for name in ("two", "bare, two")}
    for name, where, goal in (("two", "pandas", "0.65"), ("bare, two", "the bare loop", "")):
        ratio = f"{wall[name]:.2f}" if quiet else "not quiet"
        row("kernel, wall time", f"{where}, two threads", "bare loop, one thread", ratio, goal)
    for engine, loop, goal in (("Dask", "bare, two", "1.6"), ("Spark", "bare, two, beside Spark", "2.0")):
        if engine in cpu:
            beside = f"bare loop, two threads: {cpu[loop]:.2f} s"
            row("kernel", f"{engine}, two threads", beside, f"{cpu[engine] / cpu[loop]:.2f}", goal)
    for of, which, goal in (("", "", "3.0"), (", few", ", a tenth of the rows", "")):
        beside = f"the sum of its features: {cpu['features' + of]:.2f} s"
        ratio = f"{cpu['test' + of] / cpu['features' + of]:.2f}"
        row("default two-sample test", f"pandas, one thread{which}", beside, ratio, goal)


def people(row, turns, rows):
    """A sum over people with several rows, and one row a person, beside what engines take."""
    visits = people_speed.table(rows, rows // 10, "numbers")
    engines = {
        "pyarrow.Table": lambda: pa.Table.from_pandas(visits, preserve_index=False),
        "pandas": lambda: visits,
        "Polars": lambda: pl.from_pandas(visits),
        "Polars, lazy": lambda: pl.from_pandas(visits).lazy(),
    }
    for engine, opened in engines.items():
        _, later, _, _, first, per = people_speed.ratios(opened(), turns)
        row("`unit=`, first question", engine, "its sum of everybody's first rows", f"{first:.2f}", "5.0")
        # a query may give other rows each time: whose they are is found out again
        row("`unit=`, later questions", engine, "its sum", f"{later:.2f}", "" if "lazy" in engine else "5.0")
        row("`per`", engine, "its groups", f"{per:.2f}", "4.0")


def session(path):
    """A session of Spark with two Python workers, if it is installed."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    # as many parts as Dask has, for a file of a few MB would be one
    return builder.config("spark.sql.files.maxPartitionBytes", str(max(1, path.stat().st_size // 8))).getOrCreate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    with (
        threadpool_limits(1),
        dask.config.set(scheduler="threads", num_workers=2),
        tempfile.TemporaryDirectory() as folder,
        recorded("engines", "what", "where", "beside", "ratio", "goal") as row,
    ):
        passes(row, options.turns, written(Path(folder) / "rows.parquet", options.rows))
        kernels(row, (options.turns + 1) // 2, written(Path(folder) / "kernel.parquet", options.rows * 5 // 8))
        people(row, (options.turns + 1) // 2, options.rows // 2)


if __name__ == "__main__":
    main()
