"""Time and memory of the permutation test, beside the bare work: its features, and one product of matrices.

    OMP_NUM_THREADS=1 python tests/benchmarks/kernel_speed.py

Two groups of 10^5 rows of 10 columns, 200 landmarks, 499 permutations. Prints and keeps the ratio of its processor
time to that of the bare work (kernel values of all rows at all landmarks, and the product of a matrix of 500
relabellings with them), the largest memory beyond the table, and the ratio of the one-release test. Exits with
status 1 above a ratio of 3 or 200 MB.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np
import pandas as pd
from results import recorded

import dfprivacy as dp
from dfprivacy import Column
from dfprivacy_kernel.design import Design

PARTS = 1 << 12


def bare(rows: np.ndarray, columns: list[Column], landmarks: int, permutations: int) -> float:
    """Processor time of the features and of one product of matrices."""
    (kernel,) = Design.from_arguments(columns, "nystrom", None, 0.5, None, landmarks).embedding().parts
    labels = np.random.default_rng(1).integers(2, size=(permutations + 1, PARTS)).astype(np.float64)
    start = time.process_time()
    for at in range(0, len(rows), PARTS):
        values = kernel.features(rows[at : at + PARTS])  # type: ignore[attr-defined]
        _ = labels[:, : len(values)] @ values
    return time.process_time() - start


def peak() -> float:
    """Largest memory of the process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="rows in each group")
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--landmarks", type=int, default=200)
    parser.add_argument("--permutations", type=int, default=499)
    said = parser.parse_args()
    rng = np.random.default_rng(1)
    names = [f"x{i}" for i in range(said.columns)]
    columns = [Column(name, bounds=(-3.0, 3.0), fill=0.0) for name in names]
    terms = {"epsilon": 100, "ledger": "memory:", "categories": {"g": ["a", "b"]}, "public": ["g"]}
    bounds = dict.fromkeys(names, (-3, 3))

    def view(rows: int, name: str) -> dp.PrivateFrame:
        data = pd.DataFrame(rng.standard_normal((2 * rows, said.columns)), columns=names)
        return dp.protect(data.assign(g=["a", "b"] * rows), name, bounds=bounds, **terms)  # type: ignore[arg-type]

    asked = {"by": "g", "n_locations": said.landmarks, "epsilon": 1}
    permuted = {**asked, "method": "permutation", "n_permutations": said.permutations}
    small = view(50, "small")
    small.kernel_two_sample(names, **permuted)  # imports, and first calls
    whole = view(said.rows, "whole")
    before = peak()
    start = time.process_time()
    whole.kernel_two_sample(names, **permuted)
    test = time.process_time() - start
    memory = peak() - before
    start = time.process_time()
    whole.kernel_two_sample(names, **asked)
    release = time.process_time() - start
    work = bare(
        rng.standard_normal((2 * said.rows, said.columns)).clip(-3, 3), columns, said.landmarks, said.permutations
    )

    print(f"Bare features and product: {work:.2f} s.\n")
    with recorded("kernel_speed", "what", "measured", "goal", "met") as row:
        row("permutation test / bare features and product", f"{test / work:.1f}", "≤ 3", met(test <= 3 * work))
        row("memory beyond the table", f"{memory:.0f} MB", "≤ 200 MB", met(memory <= 200))
        row("one-release test / the same", f"{release / work:.1f}", "", "")
    return int(test > 3 * work or memory > 200)


def met(goal: bool) -> str:
    """Say whether a goal is met."""
    return "yes" if goal else "**no**"


if __name__ == "__main__":
    sys.exit(main())
