"""Levels of the private t-test, and coverage of its 95% interval, on designs drawn at random.

    python tests/benchmarks/levels_ttest.py --runs 2000

Every design of `designs.py` is asked for one sample, its first group against the true mean, and for two, with missing
values left out: under its own neighbouring relation, and two samples under ``replace_one`` with public groups as
well as with private ones. The sums are of drawn rows; the noise is numpy's continuous Laplace instead of the
library's discrete one, which does not change a level, and the test is the one that the method concludes with.

A result whose note says that its level may not hold counts as noted, at each level on its own. Prints and keeps a table
of the levels of what is not noted by kind of data and by epsilon, and exits with status 1 if a level in a
design is above nominal by more than a fifth and three standard errors.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from designs import LEVELS, Design, designs, exceeds
from results import recorded

from dfprivacy_ttest.calibrated import Result, one_sample_t, two_sample_t
from dfprivacy_ttest.group import Group
from dfprivacy_ttest.notes import unreliable

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIDES = ("two-sided", "less", "greater")
BATCH = 4_000_000
BINS = ((0.02, 0.2), (0.2, 1.0), (1.0, 5.0), (5.0, 50.0))

Sums = tuple["NDArray[np.float64]", ...]
"""Σy, Σy² and the number of rows with a value, for each run."""


def exact_sums(rng: np.random.Generator, design: Design, runs: int) -> tuple[Sums, Sums]:
    """Sums of both groups of many tables, y in [-1, 1]."""
    half, middle = (design.high - design.low) / 2, (design.high + design.low) / 2
    found = np.empty((2, 3, runs))
    for run in range(runs):
        y = (design.draw(rng) - middle) / half
        for group, part in enumerate(np.split(y, [design.sizes[0]])):
            there = part[~np.isnan(part)]
            found[group, :, run] = there.sum(), there @ there, there.size
    return tuple(found[0]), tuple(found[1])


def release(rng: np.random.Generator, sums: Sums, epsilon: float, kind: str) -> Group:
    """The noisy sums of a group whose number of rows is public, measured beside the others, or private."""
    total, squares, rows = sums
    scale = {"public": 2.0, "private": 3.0, "add_remove": 1.5}[kind] / epsilon

    def noise() -> NDArray[np.float64]:
        return rng.laplace(0, scale, total.shape)

    if kind == "public":  # (y, (1-y²)/2, 1)
        half_rest, present = (rows - squares) / 2 + noise(), rows + noise()
        sums, scales = [total + noise(), 2 * half_rest, present], [scale, 2 * scale, scale]
        return Group.measured(sums, scales, float(rows[0]))
    sums = [total + noise(), rows - squares + noise(), squares + 2 * noise()]  # (y, 1-y², y²/2)
    return Group.measured(sums, [scale, scale, 2 * scale], None)


def tests(rng: np.random.Generator, design: Design, runs: int) -> dict[tuple[str, str], tuple[Result, float]]:
    """Results of both tests and all sides, with the true value of what is estimated, in units of y."""
    first, second = exact_sums(rng, design, runs)
    middle = (design.high + design.low) / 2
    mean = (design.mean(1_000_000) - middle) / ((design.high - design.low) / 2)
    relation = "add_remove" if design.neighbors == "add_remove" else "public"
    groups = ["add_remove"] if relation == "add_remove" else ["public", "private"]
    found = {}
    for side in SIDES:
        one = release(rng, first, design.epsilon, relation)
        found["one sample", side] = one_sample_t(one, mean, alternative=side), mean
    for kind in groups:
        pair = [release(rng, sums, design.epsilon, kind) for sums in (first, second)]
        for side in SIDES:
            found[f"two samples, {kind}", side] = two_sample_t(*pair, alternative=side), 0.0
    return found


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="tables a design (default: 2000)")
    parser.add_argument("--designs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=15)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    counts: dict[tuple[str, str, float, str], list[tuple[float, float, str]]] = defaultdict(list)
    covered: dict[tuple[str, str], list[float]] = defaultdict(list)
    bad = []
    for design in designs(asked.designs):
        low, high = next(b for b in BINS if b[0] <= design.epsilon <= b[1])
        rows = [f"{design.data} data", f"ε {low:g} to {high:g}", "all"]
        for (test, side), (result, _) in tests(rng, design, asked.runs).items():
            sides = "two-sided" if side == "two-sided" else "one-sided"
            for level in LEVELS:
                rejected = np.asarray(result.pvalue) <= level
                noted = unreliable(result, level)
                rate, shy = float((rejected & ~noted).mean()), float(noted.mean())
                if exceeds(round(rate * asked.runs), asked.runs, level):
                    bad.append(f"{test}, {side}, {level:g}: {rate:.4f} ({shy:.0%} noted) with {design}")
                for row in rows:
                    counts[row, sides, level, test].append((rate, shy, str(design)))
            if side == "two-sided":
                # The interval holds what a test at 5% does not reject.
                for row in rows:
                    covered[row, test].append(float(((np.asarray(result.pvalue) > 0.05) | unreliable(result, 0.05)).mean()))
    tests_of = sorted({key[3] for key in counts})
    names = list(dict.fromkeys(key[0] for key in counts))
    names.sort(key=lambda name: (name == "all", name.startswith("ε"), name if not name.startswith("ε") else float(name.split()[1])))
    heads = [f"{sides} {level:g}" for sides in ("two-sided", "one-sided") for level in LEVELS]
    with recorded("levels_ttest", "test", "designs of", "number", "noted", *heads, "worst", "coverage") as row:
        for test in tests_of:
            for name in names:
                here = counts[name, "two-sided", 0.05, test]
                if not here:
                    continue
                cells = []
                for sides in ("two-sided", "one-sided"):
                    for level in LEVELS:
                        rates = [rate for rate, _, _ in counts[name, sides, level, test]]
                        cells.append(f"{np.mean(rates):.4f}")
                worst = max(rate for rate, _, _ in here)
                shy = np.mean([s for _, s, _ in here])
                row(test, name, len(here), f"{shy:.0%}", *cells, f"{worst:.3f}", f"{np.mean(covered[name, test]):.3f}")
    print(f"\n{len(bad)} levels of {sum(map(len, counts.values()))} are above nominal by more than a fifth:")
    for line in bad:
        print(" ", line)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
