"""Level of the private t-test over a grid of designs without missing values, by simulation.

    python tests/benchmarks/ttest_level.py --runs 4000

Data are normal, clipped to [0, 1]; the hypothesis tested is the true mean of the clipped data. The noise is
numpy's continuous Laplace instead of the library's discrete one: that is fine here, where nothing is private,
and does not change a level. Prints and keeps a Markdown table of rejection rates at the nominal 5% level and
exits with status 1 if a one-sample cell is outside [0.035, 0.06].
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from results import recorded
from scipy.special import ndtr

from dfprivacy.inference.engine import infer
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.laws import NoiseLaw
from dfprivacy_ttest.parameters import mean_parameter

EPSILONS = (0.1, 0.5, 1.0)
SIZES = (100, 400, 2000, 10_000)
POPULATIONS = ((0.5, 0.15), (0.5, 0.25), (0.5, 0.35), (0.3, 0.2))  # mean and standard deviation before clipping
TWO_SAMPLE_SIZES = (50, 100, 400, 2000, 10_000)
# Ratio n2/n1, mean, and the standard deviation of each group.
TWO_SAMPLE_DESIGNS = ((1.1, 0.5, 0.15, 0.15), (1.1, 0.5, 0.25, 0.25), (2.0, 0.5, 0.15, 0.35), (1.0, 0.35, 0.2, 0.2))
ACCEPTED = (0.035, 0.06)
BATCH = 4_000_000


def clipped_mean(mean: float, sd: float) -> float:
    """The mean of a normal variable clipped to [0, 1], in units of y = 2x - 1."""
    low, high = -mean / sd, (1 - mean) / sd
    density = np.exp(-(np.array([low, high]) ** 2) / 2) / np.sqrt(2 * np.pi)
    inside = mean * (ndtr(high) - ndtr(low)) + sd * (density[0] - density[1])
    return float(2 * (inside + ndtr(-high)) - 1)


def sums(rng: np.random.Generator, runs: int, n: int, mean: float, sd: float) -> tuple[np.ndarray, np.ndarray]:
    """Sums of y and of y² of `runs` samples."""
    total, squares = np.empty(runs), np.empty(runs)
    step = max(1, BATCH // n)
    for start in range(0, runs, step):
        stop = min(runs, start + step)
        y = 2 * np.clip(mean + sd * rng.standard_normal((stop - start, n), dtype=np.float32), 0, 1) - 1
        total[start:stop] = y.sum(axis=1, dtype=np.float64)
        squares[start:stop] = np.square(y).sum(axis=1, dtype=np.float64)
    return total, squares


def level(
    rng: np.random.Generator, groups: list[tuple[np.ndarray, np.ndarray, int]], epsilon: float, null: float
) -> float:
    """How often a true hypothesis is rejected: of sums of groups, and their public numbers of rows."""
    exact = np.stack(
        [np.stack([total, n - squares, 0 * total + n], axis=-1) for total, squares, n in groups], axis=1
    )
    scales = np.array([2, 4, 2]) / epsilon  # the number of rows is measured beside the sums: L1 sensitivity 2
    rows = np.broadcast_to([float(n) for *_, n in groups], exact.shape[:2])
    values = exact + scales * rng.laplace(size=exact.shape)
    sums = NoisyMoments(values, [NoiseLaw(each) for each in scales], rows, "beside")
    return float((infer(sums, mean_parameter(len(groups))).pvalue(null) < 0.05).mean())


def shown(levels: list[float]) -> list[str]:
    """Levels of a row, the smallest and the largest."""
    return [f"{level:.4f}" for level in (*levels, min(levels), max(levels))]


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4000, help="simulated samples a cell (default: 4000)")
    parser.add_argument("--seed", type=int, default=2017)
    arguments = parser.parse_args()
    runs = arguments.runs
    rng = np.random.default_rng(arguments.seed)

    heads = [f"ε={epsilon}" for epsilon in EPSILONS]
    print(f"{runs} runs a cell, standard error {np.sqrt(0.05 * 0.95 / runs):.4f}.\n")

    one_sample: list[float] = []
    two_sample: list[float] = []
    with recorded("ttest_level", "test", "n", "mean, sd", *heads, "min", "max") as row:
        for n in SIZES:
            for mean, sd in POPULATIONS:
                exact, null = sums(rng, runs, n, mean, sd), clipped_mean(mean, sd)
                levels = [level(rng, [(*exact, n)], e, null) for e in EPSILONS]
                row("one-sample", n, f"{mean}, {sd}", *shown(levels))
                one_sample += levels

        for n in TWO_SAMPLE_SIZES:
            for ratio, mean, sd1, sd2 in TWO_SAMPLE_DESIGNS:
                n2 = round(ratio * n)
                first, second = sums(rng, runs, n, mean, sd1), sums(rng, runs, n2, mean, sd2)
                # Clipping moves the means of groups with different spread apart unless they are in the middle.
                levels = [level(rng, [(*first, n), (*second, n2)], e, 0.0) for e in EPSILONS]
                row("two-sample", f"{n}, {n2}", f"{mean}, {sd1} and {sd2}", *shown(levels))
                two_sample += levels

    print()
    for test, levels in (("One-sample", one_sample), ("Two-sample", two_sample)):
        print(f"{test}: {len(levels)} cells, level from {min(levels):.4f} to {max(levels):.4f}.")
    outside = [level for level in one_sample if not ACCEPTED[0] <= level <= ACCEPTED[1]]
    if outside:
        print(f"{len(outside)} one-sample cells are outside {ACCEPTED}: {outside}.")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
