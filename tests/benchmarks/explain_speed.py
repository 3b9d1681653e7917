"""How long `explain` takes, beside the answer that it is about, with its durable charge.

    python tests/benchmarks/explain_speed.py                 # 10,000 rows, and a million
    python tests/benchmarks/explain_speed.py --check         # and exit with status 1 if a goal is missed

The two take turns in one process: after two seconds ten answers, and after two seconds more explanations at ten
prices, as people ask before they pay. Every price is a new one. Times are medians of all turns, of the processor
and on the clock. The *first* of ten finds the processor's caches full of other things, and the first explanation
the ledger written since it was read. It is a file on the disk. A fresh question (``fresh=True``) is not looked for
in it; the other one is, and finds a measurement of the same where there is no chance in what is measured, in the
account of another data set: the answers are all fresh.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from results import recorded

import dfprivacy as dp

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, PRICES, GOAL = (10_000, 1_000_000), 10, 0.05
PAUSE = 2.1  # seconds, within which nobody reads an answer
TERMS: dict[str, Any] = {
    "epsilon": 1_000_000,
    "bounds": dict.fromkeys("xyz", (0, 100)),
    "categories": {"arm": ["drug", "placebo"], "ill": ["no", "yes"], "site": ["a", "b"]},
    "public": ["site"],
}
QUESTIONS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "ttest, one sample": ("ttest", ("x",), {"popmean": 20}),
    "ttest, two groups": ("ttest", ("x",), {"by": "arm"}),
    "ttest, public groups": ("ttest", ("x",), {"by": "site"}),
    "mean": ("mean", ("x",), {}),
    "describe": ("describe", (["x"],), {}),
    "chi2": ("chi2", ("ill", "arm"), {}),
    "chi2_many": ("chi2_many", (["ill", "arm"], "site"), {}),
    "kernel_two_sample": ("kernel_two_sample", (["x", "y"],), {"by": "arm"}),
    "dcor": ("dcor", ("x", "y"), {}),
    "ols": ("ols", ("y ~ x + z",), {}),
}


def table(rows: int) -> pd.DataFrame:
    """Make three columns of numbers and three of groups."""
    rng = np.random.default_rng(1)
    numbers = {name: rng.normal(50, 10, rows) for name in "xyz"}
    return pd.DataFrame(
        {**numbers, **{name: rng.choice(groups, rows) for name, groups in TERMS["categories"].items()}}
    )


def taken(work: Callable[[], object]) -> tuple[float, float]:
    """Give the milliseconds that it takes: of the processor, and on the clock."""
    start = time.process_time(), time.perf_counter()
    work()
    return 1000 * (time.process_time() - start[0]), 1000 * (time.perf_counter() - start[1])


def times(asked: Any, kept: Any, name: str, turns: int) -> list[tuple[float, float]]:
    """Give the times of answers, explanations of fresh questions and of others, and of the first of each."""
    method, args, about = QUESTIONS[name]
    getattr(kept, method)(*args, **about, epsilon=2)
    prices = (0.5 + each / 10**6 for each in itertools.count())
    taken_by: dict[str, list[list[tuple[float, float]]]] = {"answer": [], "fresh": [], "looked": []}
    for _ in range(turns):
        for view, fresh in ((asked, True), (kept, False)):
            explain = functools.partial(view.explain, method, *args, **about, fresh=fresh)
            answer = functools.partial(getattr(asked, method), *args, **about, fresh=True)
            for work, own in (
                (answer, taken_by["answer"]),
                (explain, taken_by["fresh" if fresh else "looked"]),
            ):
                time.sleep(PAUSE)
                own.append([taken(functools.partial(work, epsilon=next(prices))) for _ in range(PRICES)])
    every = [[*itertools.chain(*own)] for own in taken_by.values()]
    every += [[turn[0] for turn in own] for own in taken_by.values()]
    return [(median(cpu for cpu, _ in each), median(clock for _, clock in each)) for each in every]


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a goal is missed")
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.")
    missed = False
    heads = (
        *("what", "rows", "answer", "first answer", "explain fresh", "first", "of the answer"),
        *("explain what may be kept", "first of these", "of the answer too", "on the clock", "goal", "met"),
    )
    with tempfile.TemporaryDirectory() as folder, recorded("explain_speed", *heads) as row:
        for name, rows in itertools.product(QUESTIONS, given.rows):
            frame, terms = table(rows), {**TERMS, "ledger": Path(folder, f"{name} {rows}.sqlite")}
            asked, kept = dp.protect(frame, "asked", **terms), dp.protect(frame.copy(), "kept", **terms)
            (answer, clock), *explained = times(asked, kept, name, given.turns)
            (fresh, quick), (looked, slow), (first_answer, _), (first, _), (first_looked, _) = explained
            met = max(fresh, looked) / answer <= GOAL and max(quick, slow) / clock <= GOAL
            missed |= not met
            row(
                f"`{name}`",
                f"{rows:,}",
                *(f"{answer:.1f} ms", f"{first_answer:.1f} ms"),
                *(f"{fresh:.2f} ms", f"{first:.2f} ms", f"{fresh / answer:.1%}"),
                *(f"{looked:.2f} ms", f"{first_looked:.2f} ms", f"{looked / answer:.1%}"),
                f"{quick / clock:.1%}, {slow / clock:.1%}",
                f"≤ {GOAL:.0%}",
                "yes" if met else "**no**",
            )
    return int(missed and given.check)


if __name__ == "__main__":
    sys.exit(main())
