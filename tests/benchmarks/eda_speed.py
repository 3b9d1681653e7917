"""How fast exploration is: a description beside pandas' own, a hundred groups beside one, and single questions.

    python tests/benchmarks/eda_speed.py                     # 20 million rows of six columns, about 3 GB
    python tests/benchmarks/eda_speed.py --rows 2000000 --check

The sides of a ratio take turns in one process, and the ratio is that of the medians of their processor
times, which depend little on who else uses the machine; the first turn does not count. The ratio on the clock is
beside it: noise for many groups is drawn on several threads. Questions of 10,000 rows
are asked in a durable ledger, the first of each kind not counted: the least processor time of some turns, and the
least on the clock, in which the disk is as well.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from results import recorded

import dfprivacy as dp

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 20_000_000
NAMES = [f"x{at}" for at in range(6)]
BOUNDS = dict.fromkeys(NAMES, (0.0, 100.0))
GROUPS = 100
SMALL = 10_000
DESCRIBE, GROUPED, MILLISECONDS = 3.0, 2.0, 15.0


def table(rows: int) -> pd.DataFrame:
    """Six columns of numbers, and one of a hundred groups."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({name: rng.gamma(2, 10, rows) for name in NAMES})
    frame["group"] = rng.integers(0, GROUPS, rows)
    frame["sex"] = rng.integers(0, 2, rows)
    return frame


def view(frame: pd.DataFrame, ledger: str) -> Any:
    """A view that can pay for everything."""
    categories = {"group": [*range(GROUPS)], "sex": [0, 1]}
    name = f"eda-speed-{time.time_ns()}"
    return dp.protect(frame, name, epsilon=1e6, bounds=BOUNDS, categories=categories, ledger=ledger)


def ratios(ours: Callable[[], object], *theirs: Callable[[], object], repeats: int) -> list[tuple[float, float]]:
    """The ratios of the medians of a work's times to those of others: of the processor, and on the clock."""
    times: list[list[tuple[float, float]]] = [[] for _ in range(1 + len(theirs))]
    for _ in range(repeats + 1):
        for work, own in zip((ours, *theirs), times, strict=True):
            start = time.process_time(), time.perf_counter()
            work()
            own.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    (busy, clock), *others = [tuple(map(statistics.median, zip(*own[1:], strict=True))) for own in times]
    return [(busy / of, clock / by) for of, by in others]


def least(work: Callable[[], object], turns: int = 25) -> tuple[float, float]:
    """The least processor time of some turns after the first, and the least on the clock, in milliseconds."""
    work()
    busy, clock = [], []
    for _ in range(turns):
        start = time.process_time(), time.perf_counter()
        work()
        busy.append(time.process_time() - start[0])
        clock.append(time.perf_counter() - start[1])
    return 1000 * min(busy), 1000 * min(clock)


def questions(private: Any) -> dict[str, Callable[[], object]]:
    """Single questions of one column."""
    said = {"epsilon": 0.1, "fresh": True}
    return {
        "mean": lambda: private.mean("x0", **said),
        "std": lambda: private.std("x0", **said),
        "sum": lambda: private.sum("x0", **said),
        "count": lambda: private.count("x0", **said),
        "median": lambda: private.median("x0", **said),
        "quantile, quartiles": lambda: private.quantile("x0", [0.25, 0.5, 0.75], **said),
        "histogram": lambda: private.histogram("x0", 20, **said),
        "value_counts": lambda: private.value_counts("group", **said),
        "crosstab": lambda: private.crosstab("group", "sex", **said),
    }


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=3, help="turns of which the median counts (default: 3)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a goal is missed")
    asked = parser.parse_args()
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pandas", "opendp"))
    print(f"Python {platform.python_version()}, {packages}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.")
    frame = table(asked.rows)
    private, missed = view(frame, "memory:"), False
    with recorded("eda_speed", "what", "measured", "goal", "met") as row:

        def judged(what: str, measured: float, goal: float, unit: str = "") -> None:
            nonlocal missed
            missed |= measured > goal
            row(what, f"{measured:.3g}{unit}", f"≤ {goal:g}{unit}", "yes" if measured <= goal else "**no**")

        groups, one = private.group_by("group"), private.where(group=7)
        said = {"epsilon": 0.5, "fresh": True}
        ((described, _),) = ratios(
            lambda: private.describe(NAMES, **said), frame[NAMES].describe, repeats=asked.repeats
        )
        judged(f"`describe` of {asked.rows:,} rows of six columns / pandas' own", described, DESCRIBE)
        by_group = ratios(
            lambda: groups.describe(NAMES, **said),
            lambda: private.describe(NAMES, **said),
            lambda: one.describe(NAMES, **said),
            repeats=asked.repeats,
        )
        for (busy, clock), of in zip(by_group, ("all rows", "one of them by `where`"), strict=True):
            judged(f"`describe` by {GROUPS} groups / of {of} ({clock:.2g} on the clock)", busy, GROUPED)
        ((grouped, _),) = ratios(
            lambda: groups.mean("x0", **said), lambda: private.mean("x0", **said), repeats=asked.repeats
        )
        judged(f"`mean` by {GROUPS} groups / of all rows", grouped, GROUPED)
        with tempfile.TemporaryDirectory() as folder:
            small = view(table(SMALL), f"sqlite:///{Path(folder) / 'ledger.sqlite'}")
            for name, ask in questions(small).items():
                busy, clock = least(ask)
                judged(f"`{name}` of {SMALL:,} rows ({clock:.1f} ms on the clock)", busy, MILLISECONDS, " ms")
    return int(missed and asked.check)


if __name__ == "__main__":
    sys.exit(main())
