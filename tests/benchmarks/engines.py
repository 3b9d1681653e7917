"""What a question costs on each engine, beside a bare pass of pyarrow and NumPy over the same file.

    python tests/benchmarks/engines.py                    # 2 million rows, 200,000 for the kernel
    python tests/benchmarks/engines.py --rows 200000 --turns 1

The bare passes read batches of a Parquet file by pyarrow and add up: ``X @ X.T`` and the sums of six columns; by
group, the sums and squares of one column; of the kernel, ``exp(X @ Z)`` at 1,000 points by batches of 256 rows. A
private call also cleans, clips, standardizes, rounds to the grid, sums exactly, charges a ledger and draws noise.
All take turns in one process; times are the processor's seconds of all its threads, BLAS on one, medians of the
turns. Dask uses its threads, on eight parts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from results import recorded
from threadpoolctl import threadpool_limits

import dfprivacy as dp
from dfprivacy.features import Kernel, ProductKernel, spread

NAMES = [f"x{i}" for i in range(6)]
BATCH, SMALL, POINTS = 1 << 17, 256, 1000
TERMS = {
    "epsilon": 10_000,
    "delta": "1/100",
    "accounting": "basic",
    "ledger": "memory:",
    "bounds": dict.fromkeys(NAMES, (0, 100)),
    "categories": {"group": list(range(8))},
    "public": ["group"],
}


def columns(path, names):
    """Batches of a file, as arrays."""
    for batch in ds.dataset(path).to_batches(columns=names, batch_size=BATCH):
        yield [batch.column(name).to_numpy(zero_copy_only=False) for name in names]


def second_moments(path):
    total = np.zeros((6, 6))
    for batch in columns(path, NAMES):
        X = np.stack(batch)
        total += X @ X.copy().T  # BLAS multiplies a matrix by itself more slowly
        X.sum(axis=1)
    return total


def by_group(path):
    total = np.zeros((2, 8))
    for x, group in columns(path, ["x0", "group"]):
        total += [np.bincount(group, x, 8), np.bincount(group, x * x, 8)]
    return total


def kernel(path, rows):
    Z = np.random.default_rng(2).normal(size=(4, POINTS))
    total = np.zeros(POINTS)
    for x, y in columns(path, NAMES[:2]):
        u, v = x / 50 - 1, y / 50 - 1
        left = np.column_stack([u, v, -(u * u + v * v) / 2, np.ones(len(u))])
        for at in range(0, min(rows, len(u)), SMALL):
            exponents = left[at : at + SMALL] @ Z
            total += np.exp(exponents, out=exponents).sum(axis=0)
    return total


def questions(path, short):
    """The bare pass, and the private question, by what is asked; the file that it is asked of."""

    def features(view):
        x = [view.schema.numeric(name) for name in NAMES[:2]]
        return view._target.table.total(Kernel(ProductKernel(x, 50.0), spread(x, POINTS)), 30)

    return {
        "second moments": (
            path,
            second_moments,
            lambda view: view.moments(NAMES, epsilon=1, delta=1e-6, fresh=True),
        ),
        "moments by group": (path, by_group, lambda view: view.group_by("group").mean("x0", epsilon=1)),
        "kernel": (short, lambda path: kernel(path, 10**9), features),
    }


ENGINES = {
    "pyarrow.dataset": ds.dataset,
    "DuckDB": lambda path: duckdb.connect().read_parquet(str(path)),
    "Polars, lazy": pl.scan_parquet,
    "Dask, threads": lambda path: dd.from_pandas(pd.read_parquet(path), npartitions=8),
    "pyarrow.Table": pq.read_table,
    "pandas": pd.read_parquet,
}


def seconds(work):
    """The processor's seconds that some work takes."""
    started = time.process_time()
    work()
    return time.process_time() - started


def written(path, rows):
    rng = np.random.default_rng(1)
    data = {name: rng.uniform(0, 100, rows) for name in NAMES} | {"group": rng.integers(0, 8, rows)}
    pq.write_table(pa.table(data), path, row_group_size=250_000)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "rows.parquet", options.rows)
        short = written(Path(folder) / "few.parquet", options.rows // 10)
        asked = questions(path, short)
        took = {name: {engine: [] for engine in ["bare", *ENGINES]} for name in asked}
        for turn in range(-1, options.turns):  # one to warm up
            for name, (file, bare, private) in asked.items():
                took[name]["bare"].append(seconds(lambda file=file, bare=bare: bare(file)))
                for engine, opened in ENGINES.items():
                    view = dp.protect(opened(file), f"{name} {engine} {turn}", **TERMS)
                    took[name][engine].append(seconds(lambda view=view, private=private: private(view)))
    for of in took.values():
        for each in of.values():
            del each[0]
    with recorded("engines", "engine", *(f"{name}, ratio" for name in asked)) as row:
        middle = {name: {e: statistics.median(t) for e, t in of.items()} for name, of in took.items()}
        row("the bare pass, s", *(f"{of['bare']:.2f}" for of in middle.values()))
        for engine in ENGINES:
            row(engine, *(f"{of[engine] / of['bare']:.2f}" for of in middle.values()))


if __name__ == "__main__":
    main()
