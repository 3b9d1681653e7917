"""How long counts of a known domain take as it grows, beside the same of declared categories and pandas' own.

    python tests/benchmarks/domain_speed.py            # a million rows with 46,000 different codes
    python tests/benchmarks/domain_speed.py --check    # and exit with status 1 if it grows with the domain

All lines take turns in one process, and their ratios are those of the medians of processor times; the first turn
does not count.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from results import recorded

import dfprivacy as dp

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 1_000_000
DECLARED = 100_000
SIZES = (10**5, 10**7, 10**9, 10**15)
GROWS = 1.5


def works(rows: int) -> dict[str, Callable[[], object]]:
    """What is measured, by name: each asks anew."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"code": rng.zipf(1.3, rows) % DECLARED})
    name = f"domain-speed-{time.time_ns()}"
    view = dp.protect(frame, name, epsilon=1e6, categories={"code": range(DECLARED)}, ledger="memory:")

    def within(size: int) -> Callable[[], object]:
        return lambda: view.value_counts("code", domain=range(size), epsilon=1, fresh=True)

    return {
        "pandas' value_counts": frame["code"].value_counts,
        f"{DECLARED:,} declared categories": lambda: view.value_counts("code", epsilon=1, fresh=True),
        **{f"a domain of {size:,}": within(size) for size in SIZES},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    every = works(asked.rows)
    times: dict[str, list[float]] = {name: [] for name in every}
    for _ in range(1 + asked.repeats):
        for name, work in every.items():
            start = time.process_time()
            work()
            times[name].append(time.process_time() - start)
    medians = {name: statistics.median(each[1:]) for name, each in times.items()}
    least = medians[f"a domain of {SIZES[0]:,}"]
    columns = ("counts of", "processor seconds", "times the smallest domain's")
    with recorded("domain_speed", *columns, keep=asked.rows == ROWS and asked.repeats >= 7) as row:
        for name, seconds in medians.items():
            row(name, f"{seconds:.2f}", f"{seconds / least:.2f}")
    if asked.check and max(medians[f"a domain of {size:,}"] for size in SIZES) > GROWS * least:
        sys.exit(f"a larger domain takes more than {GROWS} times as long")


if __name__ == "__main__":
    main()
