"""Levels of the private t-test where each person has several rows: of the rows, and of one row a person.

    python tests/benchmarks/people_levels.py --runs 10000

A thousand people have eight rows each, normal with variance 1, of which the part that is called the intraclass
correlation is the person's own. The hypothesis that their mean is 0 is true. It is tested at 5% on all rows, as
``view.ttest(...)`` of a table with ``unit=`` and ``max_rows=8`` does it, and on the people's means, as
``view.per(...).agg(x="mean").ttest(...)`` does. All rows of a person are protected in both, under ``add_remove``;
bounds are five standard deviations on either side. Sums are of drawn rows; the noise is numpy's continuous Laplace
instead of the library's discrete one, and the test is the one that the method concludes with.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from results import recorded

from dfprivacy.inference.engine import infer
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.laws import NoiseLaw
from dfprivacy_ttest.parameters import mean_parameter

PEOPLE, ROWS, BOUND = 1000, 8, 5.0
PART = 500  # tables at a time
RADIUS = 1.5  # of the moments of one row, in L1


def level(rng: np.random.Generator, y: np.ndarray, epsilon: float, max_rows: int) -> int:
    """How many true hypotheses are rejected: of tables with rows y in [-1, 1], shape (tables, rows)."""
    scale = max_rows * RADIUS / epsilon
    total, rest, squares = (
        sums + rng.laplace(0, scale, len(y)) * unit
        for sums, unit in ((y.sum(axis=1), 1), ((1 - y * y).sum(axis=1), 1), ((y * y).sum(axis=1), 2))
    )
    values = np.stack([total, rest, squares], axis=-1)[:, None]
    sums = NoisyMoments(values, [NoiseLaw(scale), NoiseLaw(scale), NoiseLaw(2 * scale)], form="private")
    return int((infer(sums, mean_parameter(1)).pvalue(0.0) <= 0.05).sum())


def main() -> None:
    """Simulate, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, help="tables a line (default: 10000)")
    parser.add_argument("--seed", type=int, default=18)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    columns = ("intraclass correlation", "ε", "level of the rows' test", "level of the people's test")
    with recorded("people_levels", *columns) as row:
        for shared in (0.0, 0.1, 0.5):
            for epsilon in (1.0, 10.0):
                found = np.zeros(2)
                for _ in range(asked.runs // PART):
                    own = rng.standard_normal((PART, PEOPLE, 1)) * math.sqrt(shared)
                    x = own + rng.standard_normal((PART, PEOPLE, ROWS)) * math.sqrt(1 - shared)
                    y = np.clip(x / BOUND, -1, 1)
                    rows = level(rng, y.reshape(PART, -1), epsilon, ROWS)
                    found += rows, level(rng, y.mean(axis=2), epsilon, 1)
                row(f"{shared:g}", f"{epsilon:g}", *(f"{each / (asked.runs // PART * PART):.3f}" for each in found))


if __name__ == "__main__":
    main()
