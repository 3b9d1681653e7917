"""Levels of the tests of independence over 200 designs drawn at random.

    python tests/benchmarks/levels_chi2.py --seconds 2
    python tests/benchmarks/levels_chi2.py --methods signed 'one of many columns'     # a table of their own

Data are made categories: two at a cut, or three to four, by what the design's data are. Both groups have one
distribution and different shares of missing values. Sums over the table are simulated with numpy's continuous
Laplace noise, and the concluding half of each method decides; each design gets as many runs as fit in some seconds
of each method. Prints and keeps a table of rejection rates by method and range of epsilon, and exits with status 1
if a design rejects more often than a fifth above nominal and three standard errors.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import defaultdict
from dataclasses import replace

import numpy as np
from designs import LEVELS, Design, designs, exceeds
from results import recorded
from scipy.special import bdtrc

from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import MARGIN_SHARE, ROWS_TO_CALIBRATE, TAU
from dfprivacy_chi2.inference import NoisyTable, SignedDifference
from dfprivacy_chi2.nulls import MissingRowsNull
from dfprivacy_chi2.tables import tight_sensitivity, unit_circle_norm

CUTS = {
    "coin": 0.0,
    "rare": 0.0,
    "counts": 0.5,
    "constant": 0.0,
    "normal": 1.0,
    "uniform": -1.0,
    "exponential": 1.5,
}
RANGES = ((0.02, 0.2), (0.2, 1.0), (1.0, 5.0), (5.0, 50.0))
MOST = 20_000
RARE = 1e-4  # there are some 5,000 rates


def categories(design: Design, rng, *, two: bool) -> np.ndarray:
    """Probabilities of the categories, from many rows as the design draws them."""
    values = np.concatenate([design.draw(rng) for _ in range(math.ceil(40_000 / sum(design.sizes)))])
    values = values[~np.isnan(values)]
    cuts = [CUTS.get(design.data, 2.0)] if two else [-0.5, 0.5, 2.5]
    counts = np.bincount(np.digitize(values, cuts), minlength=len(cuts) + 1)
    return counts / counts.sum()


def drawn(design: Design, shares: np.ndarray, runs: int, rng) -> np.ndarray:
    """Counts of complete rows, shape (runs, groups, categories)."""
    complete = [rng.binomial(n, 1 - gone, runs) for n, gone in zip(design.sizes, design.missing, strict=True)]
    return np.stack([rng.multinomial(each, shares) for each in complete], axis=1)


def difference(counts: np.ndarray) -> np.ndarray:
    """The signed difference of shares of complete rows, times the smaller number of them."""
    m, k = counts.sum(axis=2).T
    c, d = counts[:, :, 1].T
    return np.where(np.minimum(m, k) > 0, c * k - d * m, 0) / np.maximum(np.maximum(m, k), 1)


def fixed(design: Design, rng, seconds: float, null, statistic, sensitivity: float, *, omit: bool):
    """Rejections of one number with public critical values, at all levels."""
    shares, sizes = categories(design, rng, two=True), design.sizes
    at = [null.critical_value(alpha, sensitivity / design.epsilon) for alpha in LEVELS]
    if omit:
        counts = drawn(design, shares, MOST, rng)
    else:  # missing values count as X = 0, and may not be missing more often in one group
        ones = [rng.binomial(n, shares[1], MOST) for n in sizes]
        counts = np.stack([np.stack([n - c, c], axis=1) for n, c in zip(sizes, ones, strict=True)], axis=1)
    noisy = statistic(counts) + rng.laplace(0, sensitivity / design.epsilon, MOST)
    return np.array([(noisy > critical).sum() for critical in at]), MOST, 0


def of_many(design: Design, rng, seconds: float):
    """One column of `chi2_many`, judged at the worst rows to leave out, the noise of its threshold included."""
    smaller, shares = min(design.sizes), categories(design, rng, two=True)
    apart = difference(drawn(design, shares, MOST, rng)) / smaller
    scales = tuple(
        scale / (smaller * design.epsilon) for scale in (1 + 2 ** (2 / 3), 2 / (1 - 1 / (1 + 2 ** (2 / 3))))
    )
    noisy = np.abs(apart) + sum(rng.laplace(0, scale, MOST) for scale in scales)
    null = MissingRowsNull(smaller)
    return np.array([(noisy > null.critical_value(alpha, *scales)).sum() for alpha in LEVELS]), MOST, 0


def of_circle(design: Design, rng, seconds: float):
    """The unit circle mechanism."""
    n1, n0 = design.sizes
    null = nulls.norm_null(n1, n0, TAU, None)
    norm = lambda c: unit_circle_norm(c[:, 0, 1], c[:, 1, 1], n1, n0, TAU)  # noqa: E731
    return fixed(design, rng, seconds, null, norm, tight_sensitivity(n1, n0, TAU), omit=False)


def of_signed(design: Design, rng, seconds: float, *, omit: bool):
    """The default: a signed difference, judged by a noisy number of X = 1 where that tells something."""
    shares, epsilon = categories(design, rng, two=True), design.epsilon
    end, rejected, runs = time.process_time() + seconds, np.zeros(3, dtype=int), 0
    measured = sum(design.sizes) * epsilon >= ROWS_TO_CALIBRATE
    of_margins = epsilon * float(MARGIN_SHARE) if measured else 0.0
    scale, margin_scale = 1 / (epsilon - of_margins), 1 / of_margins if measured else 0.0
    shown = design if omit else replace(design, missing=(0.0, 0.0))
    while time.process_time() < end and runs < MOST:
        for counts in drawn(shown, shares, 20, rng):
            released = float(difference(counts[None])[0]) + rng.laplace(0, scale)
            halves = [(counts[:, 1] - counts[:, 0]).sum(), *(design.sizes - counts.sum(axis=1)) * omit]
            noisy = np.array(halves) / 2 + rng.laplace(0, margin_scale, 3)
            margins = tuple(noisy[: 3 if omit else 1]) if measured else ()
            test = SignedDifference(
                design.sizes, released, scale, margins, margin_scale, omitted=omit and not measured
            )
            runs += 1
            rejected += test.pvalue <= np.array(LEVELS)
    return rejected, runs, 0


def of_table(design: Design, rng, seconds: float, *, private: bool):
    """Noisy counts of all cells."""
    shares = categories(design, rng, two=False)
    shares = shares[shares > 0]
    n, moved = sum(design.sizes), 2 if design.neighbors == "replace_one" else 1
    of_groups, gone = np.array(design.sizes) / n, np.array(design.missing)
    end, rejected, runs = time.process_time() + seconds, np.zeros(3, dtype=int), 0
    if len(shares) < 2:
        shares = np.array([1.0, 0.0])
    cells = np.outer(of_groups * (1 - gone), shares).ravel()
    while time.process_time() < end and runs < MOST:
        if private:
            block = rng.multinomial(n, [*cells, max(0.0, 1 - cells.sum())], 10)[:, :-1].reshape(10, 2, -1)
        else:
            block = drawn(design, shares, 10, rng)
        block = block + rng.laplace(0, moved / design.epsilon, block.shape)
        for counts in block:
            runs += 1
            rejected += NoisyTable(counts.T, moved / design.epsilon).pvalue <= np.array(LEVELS)
    return rejected, runs, 0


METHODS = {
    "signed (default)": lambda *a: of_signed(*a, omit=True),
    "signed, nan_policy='fill'": lambda *a: of_signed(*a, omit=False),
    "table, private groups": lambda *a: of_table(*a, private=True),
    "table, public groups": lambda *a: of_table(*a, private=False),
    "unit circle": of_circle,
    "one of many columns": of_many,
}


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.5, help="a design, of the methods whose laws are slow")
    parser.add_argument("--designs", type=int, default=200)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    arguments = parser.parse_args()
    every, failed = designs(arguments.designs), 0
    heads = [f"{level:g}" for level in LEVELS]
    whole = tuple(arguments.methods) == tuple(METHODS) and arguments.designs == 200
    name = "levels_chi2" if whole else None
    columns = ("method", "ε", "designs", "runs", *heads, "worst at 0.05", "too high")
    with recorded(name or "part", *columns, keep=name is not None) as row:
        for method in arguments.methods:
            cells = defaultdict(list)
            for number, design in enumerate(every):
                rng = np.random.default_rng([2017, number])
                found = METHODS[method](design, rng, arguments.seconds)
                if found is None:
                    continue
                rejected, runs, _ = found
                # With few runs a rate is not normal: what is too high must be rare by the binomial law as well.
                over = any(
                    exceeds(int(r), runs, level) and bdtrc(int(r) - 1, runs, 1.2 * level) < RARE
                    for r, level in zip(rejected, LEVELS, strict=True)
                )
                if over:
                    failed += 1
                    print(f"  {method}: {design}: {rejected / runs} of {runs}", file=sys.stderr, flush=True)
                place = next(at for at, (_, high) in enumerate(RANGES) if design.epsilon <= high)
                cells[place].append((rejected, runs, over))
            for place, (low, high) in enumerate(RANGES):
                of = cells[place]
                if of:
                    runs = sum(each[1] for each in of)
                    rates = sum(each[0] for each in of) / runs
                    worst = max(each[0][0] / each[1] for each in of)
                    shown = [f"{rate:.4f}" for rate in rates]
                    row(
                        method,
                        f"{low:g} to {high:g}",
                        len(of),
                        f"{runs:,}",
                        *shown,
                        f"{worst:.3f}",
                        sum(e[2] for e in of),
                    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
