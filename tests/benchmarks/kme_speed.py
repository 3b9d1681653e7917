"""What measuring a kernel mean embedding costs, beside a bare loop that adds up kernel values inexactly.

    python tests/benchmarks/kme_speed.py                    # a million rows of 5 columns, 1000 points

The two sides of a ratio take turns in one process, and the best turn of each counts: two threads cannot be
timed while others keep both cores busy. The bare loop is one product with an additional column, an exponential in
place and a product with the rows' own factors, in pieces that fit the cache. Memory is the highest resident size
that the kernel has seen beyond the table, so this needs Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from results import recorded
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from collections.abc import Callable

D, M, PIECE = 5, 1000, 1 << 17
NAMES = [f"x{i}" for i in range(D)]
TERMS: dict[str, Any] = {
    "epsilon": 100,
    "delta": 1e-3,
    "bounds": dict.fromkeys(NAMES, (0.0, 1.0)),
    "ledger": "memory:",
}
LENGTHSCALE = 0.25  # so short that none of the points is nearly in the span of others


def table(rows: int) -> np.ndarray:
    """Rows within the bounds."""
    return np.random.default_rng(1).random((rows, D))


def asked(points: int = M) -> Any:
    """The features: the subspace of points that cover the bounds."""
    import dfprivacy as dp
    from dfprivacy.features import Nystrom, ProductKernel, spread

    kernel = ProductKernel([dp.Column(name, bounds=(0.0, 1.0)) for name in NAMES], LENGTHSCALE)
    return Nystrom(kernel, spread(kernel.columns, points), 1e-10)


def bare(rows: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Sums of kernel values, the least that can be done: not exact, and not the same for each order of the rows."""
    gamma = 1 / (2 * LENGTHSCALE**2)
    centred = points - points.mean(axis=0)
    right = np.vstack([2 * gamma * centred.T, -gamma * (centred**2).sum(axis=1)])
    height = PIECE // M
    total, room, left = np.zeros(M), np.empty((height, M)), np.ones((height, D + 1))
    for start in range(0, len(rows), height):
        part = rows[start : start + height] - points.mean(axis=0)
        left[: len(part), :D] = part
        out = np.matmul(left[: len(part)], right, out=room[: len(part)])
        np.exp(out, out=out)
        total += np.exp(-gamma * (part**2).sum(axis=1)) @ out
    return total


def view(frame: Any) -> Any:
    """Protect a table."""
    import dfprivacy as dp

    return dp.protect(frame, f"speed-{time.time_ns()}", **TERMS)


def summed(frame: Any, features: Any) -> Callable[[], object]:
    """Stage A without the noise: read, clean, evaluate, round to the grid, add up exactly, map."""
    seen = view(frame)._target.table  # what a curator is given
    return lambda: seen.total(features, 39)


# What is measured; each function runs in a process of its own.


def ratios(rows: int, repeats: int, folder: Path) -> dict[str, float]:
    """Stage A on one thread and on two, beside the bare loop on one."""
    import pandas as pd
    import polars as pl

    x, features = table(rows), asked()
    frame = pl.DataFrame(x, schema=NAMES)
    frame.write_parquet(folder / "table.parquet", row_group_size=100_000)
    in_memory = summed(pd.DataFrame(x, columns=NAMES), features)
    streamed = summed(pl.scan_parquet(folder / "table.parquet"), features)
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(repeats):
        with threadpool_limits(1, user_api="blas"):
            turn = {"bare": timed(lambda: bare(x, features.points)), "one": timed(in_memory)}
        with threadpool_limits(2, user_api="blas"):
            turn |= {"two": timed(in_memory), "stream": timed(streamed)}
        for name, value in turn.items():
            found.setdefault(name, []).append(value)
    (bare_wall, bare_cpu), (_, one), (two, _), (stream, _) = (np.min(found[name], axis=0) for name in turn)
    return {
        "points": len(features.points),
        "bare": bare_wall,
        "one": one / bare_cpu,
        "two": two / bare_wall,
        "stream": stream / bare_wall,
    }


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds that passed, and seconds that processors worked."""
    start, start_cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - start_cpu


def memory(rows: int, repeats: int, folder: Path) -> dict[str, float]:
    """Memory that stage A takes beyond a pandas frame, its map included, in MB."""
    import pandas as pd

    frame = pd.DataFrame(table(rows), columns=NAMES)
    summed(frame.head(1000), asked(64))()  # what is imported on first use
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest size so far
    before = _status("VmRSS")
    summed(frame, asked())()
    return {"memory": _status("VmHWM") - before}


def streamed_memory(rows: int, repeats: int, folder: Path) -> dict[str, float]:
    """The same beyond an idle process, where the rows stay in a Parquet file."""
    import polars as pl

    small = pl.scan_parquet(folder / "table.parquet").head(1000)
    summed(small, asked(64))()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    summed(pl.scan_parquet(folder / "table.parquet"), asked())()
    return {"streamed memory": _status("VmHWM") - before}


def _status(field: str) -> float:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[field].split()[0]) / 1024


WORKERS = {work.__name__: work for work in (ratios, memory, streamed_memory)}


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5, help="turns of which the best counts (default: 5)")
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.worker:
        print(json.dumps(WORKERS[said.worker](said.rows, said.repeats, said.folder)))
        return 0
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for worker in WORKERS:
            command = [sys.executable, __file__, "--worker", worker, "--folder", folder]
            command += ["--rows", str(said.rows), "--repeats", str(said.repeats)]
            found |= json.loads(subprocess.check_output(command))
    print(f"{said.rows:,} rows of {D} columns, {found['points']:.0f} points; load {os.getloadavg()[0]:.1f}.")
    print(f"The bare loop: {found['bare']:.2f} s on one thread.\n")
    with recorded("kme_speed", "what", "measured", "goal") as row:
        row("exact sums on one thread / bare loop on one thread, CPU time", f"{found['one']:.2f}", "≤ 1.4")
        row("exact sums on two threads / bare loop on one thread, wall time", f"{found['two']:.2f}", "≤ 0.8")
        row("exact sums streamed from Parquet, two threads / the same", f"{found['stream']:.2f}", "")
        row("memory beyond a pandas frame, the map included", f"{found['memory']:.0f} MB", "≤ 50 MB")
        row("memory beyond an idle process, from Parquet", f"{found['streamed memory']:.0f} MB", "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
