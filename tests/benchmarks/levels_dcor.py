"""Levels of the test of independence by distance covariance, on designs drawn at random, by simulation.

    python tests/benchmarks/levels_dcor.py --runs 5000

Both columns of `dcor` follow the data of the design, independently, with the missing values of the design, and all
other arguments are the defaults. Values are rounded to at most 128, so that a distance covariance follows from a
table of counts: it is four times the integral of the squared covariance of the indicators of x > s and y > t. The
noise is NumPy's continuous Laplace instead of the library's discrete one, which does not change a level. Both
neighbouring relations are taken for that of replaced rows, which the method needs.

Prints and keeps a table, by kind of data, with the worst design of each.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from designs import DATA, LEVELS, designs, exceeds
from results import Parts, recorded, resumable

from dfprivacy import Column
from dfprivacy_dcor.inference import UNINFORMATIVE, NoisyStatistics, null_tail
from dfprivacy_dcor.spaces import metric_space
from dfprivacy_dcor.statistics import FiveNumbers, largest_values

if TYPE_CHECKING:
    from designs import Design
    from numpy.typing import NDArray

VALUES = 128
BATCH = 2_000_000
CONFIDENCE = 0.95


def grid(design: Design) -> NDArray[np.float64]:
    """At most 128 values that stand for those of a design."""
    values = np.clip(DATA[design.data](np.random.default_rng(1), 200_000), design.low, design.high)
    values = np.unique(np.concatenate([np.quantile(values, np.linspace(0, 1, VALUES - 27)), values[:27]]))
    return values[:: 1 + len(values) // VALUES]


def tables(design: Design, values: NDArray[np.float64], runs: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often each pair of values occurs among complete rows, for each of some runs."""
    n, count = sum(design.sizes), len(values)
    gone = np.asarray(design.missing)[design.groups]
    between = (values[1:] + values[:-1]) / 2
    draws = (np.clip(DATA[design.data](rng, runs * n), design.low, design.high) for _ in range(2))
    codes = [np.searchsorted(between, draw) for draw in draws]
    there = np.ones((runs, n), dtype=bool)
    for _ in range(2):  # a value of each column may be missing
        there &= rng.random((runs, n)) >= gone
    whose = np.repeat(np.arange(runs), n).reshape(runs, n)
    cells = (whose * count + codes[0].reshape(runs, n)) * count + codes[1].reshape(runs, n)
    return np.bincount(cells[there], minlength=runs * count**2).reshape(runs, count, count)


def exact(values: NDArray[np.float64], table: NDArray[np.int64], n: int, width: float) -> NDArray[np.float64]:
    """The six numbers of each table, without noise, for columns of a width of 1."""
    gaps = np.diff(values) / width
    m = table.sum(axis=(1, 2))
    joint = table.cumsum(axis=1).cumsum(axis=2) / np.maximum(m, 1)[:, None, None]
    x, y = joint[:, :-1, -1], joint[:, -1, :-1]
    excess = joint[:, :-1, :-1] - x[:, :, None] * y[:, None, :]
    squares = [np.einsum("rst,rst,s,t->r", excess, excess, gaps, gaps, optimize=True)]
    means = []
    for one in (x, y):
        overlap = np.minimum(one[:, :, None], one[:, None, :]) - one[:, :, None] * one[:, None, :]
        squares.append(np.einsum("rst,rst,s,t->r", overlap, overlap, gaps, gaps, optimize=True))
        means.append(2 * ((one * (1 - one)) @ gaps) - 1)
    share = m / n
    found = np.stack([*(2 * np.sqrt(np.maximum(each, 0)) for each in squares), *means, np.ones_like(share)], axis=1)
    return found * share[:, None]


def spaces(design: Design):
    """What is public of both columns."""
    bounds = (design.low, design.high)
    return [metric_space((Column(name, bounds=bounds, fill=0.0),), "euclidean", nan_policy="omit") for name in "xy"]


def released(design: Design, runs: int, rng: np.random.Generator) -> tuple[NDArray, NDArray, NDArray]:
    """Numbers with and without noise, and the scales of it."""
    n, values = sum(design.sizes), grid(design)
    statistic = FiveNumbers(*spaces(design), n)
    scales = 1 / (statistic.weights * design.epsilon)
    step = max(1, BATCH // max(n, len(values) ** 2))
    parts = [
        exact(values, tables(design, values, min(step, runs - start), rng), n, design.high - design.low)
        for start in range(0, runs, step)
    ]
    numbers = np.concatenate(parts)
    return numbers, numbers + rng.laplace(size=numbers.shape) * scales, scales


def central(design: Design, runs: int, rng: np.random.Generator) -> tuple[list[int], float, float]:
    """Rejections at each level, coverage, and the share of results that are called uninformative."""
    n = sum(design.sizes)
    truth, noisy, scales = released(design, runs, rng)
    most = largest_values(*spaces(design))
    rejected = [int((null_tail(noisy, scales, n, most, level) <= 0.9 * level).sum()) for level in LEVELS]
    covered, noted = [], []
    for at in range(min(runs, 300)):
        numbers = NoisyStatistics(tuple(noisy[at]), tuple(scales), n, most)
        low, high = numbers.interval(CONFIDENCE)
        covariance, x, y = truth[at, :3]
        noted.append(UNINFORMATIVE in numbers.notes())
        if min(x, y) > 0:
            covered.append(low - 1e-9 <= covariance / np.sqrt(x * y) <= high + 1e-9)
    return rejected, float(np.mean(covered)) if covered else 1.0, float(np.mean(noted))


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5000, help="simulated tables a design (default: 5000)")
    parser.add_argument("--only", type=int, nargs="*", help="places of designs to take, and keep no table")
    parser.add_argument("--seed", type=int, default=2007)
    parser.add_argument("--verbose", action="store_true", help="print each design")
    resumable(parser)
    asked = parser.parse_args()
    parts, failed = Parts(asked.resume), 0
    kinds: dict[str, list[tuple[list[int], float, float]]] = defaultdict(list)
    for place, design in enumerate(designs()):
        if asked.only and place not in asked.only:
            continue
        rng = np.random.default_rng([asked.seed, place])
        found = parts(f"{place} {asked.runs} {asked.seed}", partial(central, design, asked.runs, rng))
        kinds[design.data].append(found)
        counts, covered, uninformative = found
        too_many = any(exceeds(count, asked.runs, level) for count, level in zip(counts, LEVELS, strict=True))
        failed += too_many
        if asked.verbose or too_many:
            rates = " ".join(f"{count / asked.runs:.5f}" for count in counts)
            print(place, design, rates, f"covers {covered:.3f}, uninformative {uninformative:.3f}", file=sys.stderr)
    heads = [f"{level:g}{which}" for level in LEVELS for which in ("", ", worst design")]
    columns = ["data", "designs", *heads, "least coverage", "uninformative"]
    with recorded("levels_dcor", *columns, keep=not asked.only) as row:
        for kind, parted in kinds.items():
            cells = []
            for at in range(len(LEVELS)):
                rates = [counts[at] / asked.runs for counts, *_ in parted]
                cells += [f"{np.mean(rates):.4f}", f"{max(rates):.4f}"]
            cells += [f"{min(each[1] for each in parted):.3f}", f"{np.mean([each[2] for each in parted]):.3f}"]
            row(kind, len(parted), *cells)
    print(f"\n{failed} designs reject too often.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
