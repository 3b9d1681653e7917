"""How fast and how large: what `moments` and `gmm_fit` cost beside a bare pass over the same columns.

    python tests/benchmarks/moments_speed.py                      # 20 million rows of six columns
    python tests/benchmarks/moments_speed.py --rows 1000000
    python tests/benchmarks/moments_speed.py --check              # and exit with status 1 if a goal is missed

The bare pass reads pyarrow batches of 131,072 rows and adds up ``X.T @ X`` and the sums, without clipping, without
bounds and without exactness; by class, it adds up those of ``X[labels == c]``. The lean pass does so with batches
that fit the cache and columns that stay contiguous. A private call also cleans, clips, standardizes, rounds to the
grid, sums exactly, charges a ledger in memory and draws the noise. The two take turns in one process; times are the
medians of the processor's seconds, of all threads, with BLAS at one. Memory is what the call takes beyond the frame
and what was loaded before, by the highest resident size that the kernel has seen, so this needs Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from results import recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NAMES = [f"x{i}" for i in range(6)]
GROUPS = 2
BATCH = 1 << 17
WIDE, MANY = 100, 50


def table(rows: int) -> Any:
    """Return an Arrow table of six columns of numbers and one of labels."""
    import pyarrow as pa

    rng = np.random.default_rng(1)
    columns = {name: rng.normal(50, 10, rows) for name in NAMES}
    return pa.table({**columns, "group": rng.integers(0, GROUPS, rows)})


def view(frame: Any, names: list[str], groups: int) -> Any:
    """Protect a table."""
    import dfprivacy as dp

    return dp.protect(
        frame,
        f"speed-{time.time_ns()}",
        epsilon=10_000,
        delta="1/1000",
        accounting="basic",
        bounds=dict.fromkeys(names, (0, 100)),
        categories={"group": list(range(groups))},
        ledger="memory:",
    )


def bare(batches: Iterable[Any], groups: int = 1) -> np.ndarray:
    """Sums and second moments, of all rows or by group."""
    total = np.zeros((groups, 7, 6))
    for batch in batches:
        X = np.column_stack([batch.column(name).to_numpy() for name in NAMES])
        labels = batch.column("group").to_numpy() if groups > 1 else None
        for c in range(groups):
            own = X if labels is None else X[labels == c]
            total[c, 0] += own.sum(axis=0)
            total[c, 1:] += own.T @ own
    return total


def lean(batches: Iterable[Any]) -> np.ndarray:
    """Sums and second moments, as fast as they come."""
    total = np.zeros((7, 7))
    for batch in batches:
        X = np.empty((7, batch.num_rows))
        X[0] = 1
        for x, name in zip(X[1:], NAMES, strict=True):
            x[:] = batch.column(name).to_numpy()
        total += X @ X.T
    return total


def ratio(ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> float:
    """Give the ratio of the medians of two works' times, which take turns after a turn that does not count."""
    times: list[list[float]] = [[], []]
    for _ in range(repeats + 1):
        for work, own in zip((ours, theirs), times, strict=True):
            start = time.process_time()
            work()
            own.append(time.process_time() - start)
    return statistics.median(times[0][1:]) / statistics.median(times[1][1:])


# What is measured; each function runs in a process of its own and returns a number.


def arrow_moments(rows: int, repeats: int) -> float:
    """Moments of an Arrow table in memory."""
    frame = table(rows)
    private = view(frame, NAMES, GROUPS)
    return ratio(
        lambda: private.moments(NAMES, epsilon=0.5, delta=1e-6, fresh=True),
        lambda: bare(frame.to_batches(max_chunksize=BATCH)),
        repeats,
    )


def lean_moments(rows: int, repeats: int) -> float:
    """Moments of an Arrow table in memory, beside the lean pass."""
    frame = table(rows)
    private = view(frame, NAMES, GROUPS)
    return ratio(
        lambda: private.moments(NAMES, epsilon=0.5, delta=1e-6, fresh=True),
        lambda: lean(frame.to_batches(max_chunksize=1 << 14)),
        repeats,
    )


def pandas_moments(rows: int, repeats: int) -> float:
    """Moments of a pandas frame, beside the same numbers as an Arrow table."""
    frame = table(rows)
    private = view(frame.to_pandas(), NAMES, GROUPS)
    return ratio(
        lambda: private.moments(NAMES, epsilon=0.5, delta=1e-6, fresh=True),
        lambda: bare(frame.to_batches(max_chunksize=BATCH)),
        repeats,
    )


def parquet_moments(rows: int, repeats: int) -> float:
    """Moments streamed from Parquet."""
    import polars as pl
    from pyarrow import dataset, parquet

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.parquet"
        parquet.write_table(table(rows), file, row_group_size=250_000)
        private = view(pl.scan_parquet(file), NAMES, GROUPS)
        return ratio(
            lambda: private.moments(NAMES, epsilon=0.5, delta=1e-6, fresh=True),
            lambda: bare(dataset.dataset(file).to_batches(columns=NAMES)),
            repeats,
        )


def arrow_classes(rows: int, repeats: int) -> float:
    """Classes of an Arrow table in memory, beside a bare pass by class."""
    frame = table(rows)
    private = view(frame, NAMES, GROUPS)
    return ratio(
        lambda: private.gmm_fit(NAMES, "group", epsilon=0.5, delta=1e-6, fresh=True),
        lambda: bare(frame.to_batches(max_chunksize=BATCH), GROUPS),
        repeats,
    )


def wide_memory(rows: int, repeats: int) -> float:
    """Memory beyond a frame of 100 columns that a fit of 50 classes takes, in MB."""
    import pandas as pd

    rng = np.random.default_rng(1)
    names = [f"x{i}" for i in range(WIDE)]
    frame = pd.DataFrame(rng.normal(50, 10, (rows // 20, WIDE)), columns=names)
    frame["group"] = rng.integers(0, MANY, len(frame))
    private = view(frame, names, MANY)
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest size so far
    before = _status("VmRSS")
    private.gmm_fit(names, "group", method="qda", epsilon=0.5, delta=1e-6)
    return _status("VmHWM") - before


def _status(field: str) -> float:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[field].split()[0]) / 1024


ROWS = (
    (arrow_moments, "`moments` of an Arrow table / bare pass over its batches", 1.5, ""),
    (lean_moments, "`moments` of an Arrow table / lean pass over batches that fit the cache", 1.5, ""),
    (pandas_moments, "`moments` of a pandas frame / the same bare pass", 1.5, ""),
    (parquet_moments, "`moments` streamed from Parquet / bare pass over the file's batches", 1.5, ""),
    (arrow_classes, "`gmm_fit` of two classes of an Arrow table / bare pass by class", 1.5, ""),
    (wide_memory, "memory of `gmm_fit` with 100 columns and 50 classes, of a twentieth of the rows", 300, " MB"),
)
WORKERS = {work.__name__: work for work, *_ in ROWS}


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=3, help="turns of which the median counts (default: 3)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a goal is missed")
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        print(json.dumps(WORKERS[asked.worker](asked.rows, asked.repeats)))
        return 0

    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pandas", "polars", "pyarrow"))
    print(f"Python {platform.python_version()}, {packages}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.")
    print(f"\n{asked.rows:,} rows:\n")
    missed = False
    with recorded("moments_speed", "what", "measured", "goal", "met") as row:
        for work, what, goal, unit in ROWS:
            command = [sys.executable, __file__, "--worker", work.__name__]
            command += ["--rows", str(asked.rows), "--repeats", str(asked.repeats)]
            one = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            measured = float(subprocess.check_output(command, env=one))
            met = measured <= goal
            missed |= not met
            row(what, f"{measured:.3g}{unit}", f"≤ {goal:g}{unit}", "yes" if met else "**no**")
    return int(missed and asked.check)


if __name__ == "__main__":
    sys.exit(main())
