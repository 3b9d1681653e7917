"""Tests of many binary columns beside the bare count of them, and one critical value of a test.

    python tests/benchmarks/chi2_speed.py                          # 100,000 rows, 10,000 columns
    python tests/benchmarks/chi2_speed.py --rows 10000 --check     # and exit with status 1 if a goal is missed

The bare count is one matrix product, groups x table. NumPy turns a table of booleans into numbers for it; the
product of a table that is in float32 already (four times the memory) is given beside. The two sides of a ratio
take turns in one process, and the ratio is that of the medians of their processor times, all threads together,
which do not depend on who else uses the machine; the first turn does not count. The table is laid
out in memory by columns, as a frame that was read from a file or built from columns is, and by rows, as one around
a NumPy matrix is.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
import timeit
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from results import recorded

import dfprivacy as dp
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.inference import SignedDifference
from dfprivacy_chi2.nulls import MissingRowsNull

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 100
ROWS_OF_ONE = 1_000_000
RATIO, MILLISECONDS = 3.0, 1.0
GOALS = 1  # critical values that need one law; the others are of several


def table(rows: int, columns: int, order: str) -> np.ndarray:
    """Return a table of booleans."""
    rng = np.random.default_rng(1)
    found = np.empty((rows, columns), dtype=bool, order=order)
    for start in range(0, columns, BATCH):
        part = found[:, start : start + BATCH]
        part[:] = rng.random(part.shape, dtype=np.float32) < 0.3
    return found


def turns(*works: Callable[[], object], repeats: int) -> list[float]:
    """Return the median processor time of each of some works, which take turns after a turn that does not count."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeats + 1):
        for work, own in zip(works, times, strict=True):
            start = time.process_time()
            work()
            own.append(time.process_time() - start)
    return [statistics.median(own[1:]) for own in times]


def many(rows: int, columns: int, order: str, repeats: int) -> tuple[float, float, float]:
    """Time `chi2_many`, the product of a table of booleans, and that of a table in float32."""
    x, arm = table(rows, columns, order), np.arange(rows) % 2
    names = [f"x{k}" for k in range(columns)]
    frame = pd.concat([pd.DataFrame(x, columns=names, copy=False), pd.DataFrame({"arm": arm})], axis=1)
    categories = {**dict.fromkeys(names, (False, True)), "arm": (0, 1)}
    terms = {"epsilon": 10_000, "categories": categories, "public": ["arm"], "ledger": "memory:"}
    private = dp.protect(frame, f"chi2-speed-{time.time_ns()}", **terms)
    groups = np.stack([arm == 1, arm == 0]).astype(np.float32)
    ours, bare = turns(
        lambda: private.chi2_many(names, "arm", epsilon=1, fresh=True), lambda: groups @ x, repeats=repeats
    )
    numbers = x.astype(np.float32)
    (quick,) = turns(lambda: groups @ numbers, repeats=repeats)
    return ours, bare, quick


def best(work: Callable[[], object]) -> float:
    """Best time of some turns, in milliseconds."""
    return 1000 * min(timeit.repeat(work, timer=time.process_time, number=3, repeat=5)) / 3


def critical_values() -> dict[str, float]:
    """Time critical values at 5% for a million rows in two equal groups, in milliseconds."""
    half = ROWS_OF_ONE // 2
    scale, tau = 1 / (half * 0.1), 3.84
    works: dict[str, Callable[[], object]] = {
        "`chi2_unitcircle`, invariant margin": lambda: nulls.Null(
            (nulls.norm_given_margin(half, half, tau, 3 * half // 5),)
        ).critical_value(0.05, scale),
        "`chi2_many`, both noises": lambda: MissingRowsNull(half).critical_value(5e-6, scale, 2 * scale),
        "`chi2_unitcircle`, public rate: five laws": lambda: nulls.norm_null(half, half, tau, 0.3).critical_value(
            0.05, scale
        ),
        "`chi2_unitcircle`, private margin: a grid of shares": lambda: nulls.norm_null(
            half, half, tau, None
        ).critical_value(0.05, scale),
        "`chi2`": lambda: SignedDifference(
            (half, half), 0.0, half * scale, (0.1 * half, 0.0, 0.0), 9 * half * scale
        ).critical_value(0.05),
    }

    return {name: best(work) for name, work in works.items()}


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3, help="turns of which the median counts (default: 3)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a goal is missed")
    asked = parser.parse_args()
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pandas", "scipy", "opendp"))
    print(f"Python {platform.python_version()}, {packages}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.")
    missed = False
    print(f"\n{asked.columns:,} columns, {asked.rows:,} rows, medians of {asked.repeats}:\n")
    heads = ("table in memory", "`chi2_many`", "product", "ratio", "goal", "product, float32 already", "ratio")
    with recorded("chi2_speed", *heads) as row:
        for layout, order in (("by columns", "F"), ("by rows", "C")):
            ours, bare, quick = many(asked.rows, asked.columns, order, asked.repeats)
            missed |= ours > RATIO * bare
            times = (f"{ours:.2f} s", f"{bare:.2f} s", f"{ours / bare:.2f}", f"≤ {RATIO:g}")
            row(layout, *times, f"{quick:.2f} s", f"{ours / quick:.2f}")
    print()
    with recorded("chi2_critical_values", f"critical values, {ROWS_OF_ONE:,} rows", "time", "goal") as row:
        for at, (name, taken) in enumerate(critical_values().items()):
            missed |= at == 0 and taken > MILLISECONDS
            row(name, f"{taken:.2f} ms", f"≤ {MILLISECONDS:g} ms" if at < GOALS else "")
    return int(missed and asked.check)


if __name__ == "__main__":
    sys.exit(main())
