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
from scipy.special import bdtrc, chdtrc

from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.omitted import Omitted
from dfprivacy_chi2.results import Chi2
from dfprivacy_chi2.table import merged
from dfprivacy_chi2.tables import signed_distances, tight_sensitivity, unit_circle_norm

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
AT_ONCE = 2_000_000


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


def of_difference(design: Design, rng, seconds: float, *, omit: bool):
    """The absolute difference, of which nothing is known."""
    n1, n0 = design.sizes
    smaller = min(n1, n0)
    null = nulls.difference(n1, n0, None, complete=not omit)
    return fixed(design, rng, seconds, null, lambda c: np.abs(difference(c)) / smaller, 1 / smaller, omit=omit)


def of_omitted(design: Design, rng, seconds: float, *, signed: bool):
    """What is judged at the worst rows to leave out: a signed difference, or one column of `chi2_many`."""
    smaller, shares = min(design.sizes), categories(design, rng, two=True)
    apart = difference(drawn(design, shares, MOST, rng)) / smaller
    scales = (1.0,) if signed else (1 + 2 ** (2 / 3), 2 / (1 - 1 / (1 + 2 ** (2 / 3))))
    scales = tuple(scale / (smaller * design.epsilon) for scale in scales)
    noise = sum(rng.laplace(0, scale, MOST) for scale in scales)
    noisy = np.abs(apart + noise) if signed else np.abs(apart) + noise
    null = Omitted(smaller, signed=signed)
    return np.array([(noisy > null.critical_value(alpha, *scales)).sum() for alpha in LEVELS]), MOST, 0


def of_circle(design: Design, rng, seconds: float):
    """The unit circle mechanism."""
    n1, n0 = design.sizes
    null = nulls.norm(n1, n0, TAU, None)
    norm = lambda c: unit_circle_norm(c[:, 0, 1], c[:, 1, 1], n1, n0, TAU)  # noqa: E731
    return fixed(design, rng, seconds, null, norm, tight_sensitivity(n1, n0, TAU), omit=False)


def of_distance(design: Design, rng, seconds: float):
    """The signed distance, where it is quick."""
    n1, n0 = design.sizes
    if (n1 + 1) * (n0 + 1) > AT_ONCE:
        return None
    table = signed_distances(n1, n0, TAU)
    null = nulls.distance(n1, n0, TAU, None)
    return fixed(design, rng, seconds, null, lambda c: table[c[:, 0, 1], c[:, 1, 1]], 1.0, omit=False)


def of_association(design: Design, rng, seconds: float):
    """Two categories in two private groups, by one number."""
    n = sum(design.sizes)
    shares, of_groups = categories(design, rng, two=True), np.array(design.sizes) / n
    counts = rng.multinomial(n, np.outer(of_groups, shares).ravel(), MOST).astype(float)
    noisy = np.abs(counts[:, 3] * counts[:, 0] - counts[:, 2] * counts[:, 1]) / (n - 1)
    noisy += rng.laplace(0, 1 / design.epsilon, MOST)
    null = nulls.association(n)
    return np.array([(noisy > null.critical_value(a, 1 / design.epsilon)).sum() for a in LEVELS]), MOST, 0


def of_calibrated(design: Design, rng, seconds: float, *, omit: bool):
    """The default: a signed difference, judged by a noisy number of X = 1."""
    shares, (n1, n0), epsilon = categories(design, rng, two=True), design.sizes, design.epsilon
    end, rejected, runs = time.process_time() + seconds, np.zeros(3, dtype=int), 0
    noise, scale = 1 / (0.9 * epsilon * min(n1, n0)), 10 / epsilon
    shown = design if omit else replace(design, missing=(0.0, 0.0))
    about = {
        "method": "calibrated",
        "x": "x",
        "by": "by",
        "categories": (0, 1),
        "groups": (0, 1),
        "sizes": (n1, n0),
    }
    deviations = (noise, scale, 2 * scale, 2 * scale) if omit else (noise, scale)
    about |= {"alpha": 0.05, "noise_standard_error": tuple(math.sqrt(2) * each for each in deviations)}
    while time.process_time() < end and runs < MOST:
        for counts in drawn(shown, shares, 100, rng):
            apart = float(difference(counts[None])[0]) / min(n1, n0) + rng.laplace(0, noise)
            half = float((counts[:, 1] - counts[:, 0]).sum()) / 2 + rng.laplace(0, scale)
            missing = tuple((design.sizes - counts.sum(axis=1) + rng.laplace(0, 2 * scale, 2)).tolist()) * omit
            null = Chi2(**about, released=(apart, half, *missing))._null()
            runs += 1
            if null.plain(apart, noise) <= LEVELS[0]:  # the p-value is no smaller
                rejected += null.pvalue(apart, noise) <= np.array(LEVELS)
    return rejected, runs, 0


def of_table(design: Design, rng, seconds: float, *, private: bool):
    """Noisy counts of all cells."""
    shares = categories(design, rng, two=False)
    shares = shares[shares > 0]
    n, moved = sum(design.sizes), 2 if design.neighbors == "replace_one" else 1
    of_groups, gone = np.array(design.sizes) / n, np.array(design.missing)
    end, rejected, runs, void = time.process_time() + seconds, np.zeros(3, dtype=int), 0, 0
    if len(shares) < 2:
        shares = np.array([1.0, 0.0])
    cells = np.outer(of_groups * (1 - gone), shares).ravel()
    while time.process_time() < end and runs < MOST:
        if private:
            block = rng.multinomial(n, [*cells, max(0.0, 1 - cells.sum())], 50)[:, :-1].reshape(50, 2, -1)
        else:
            block = drawn(design, shares, 50, rng)
        block = block + rng.laplace(0, moved / design.epsilon, block.shape)
        deviation = np.full(block.shape[:0:-1], math.sqrt(2) * moved / design.epsilon)
        for counts in block:
            runs += 1
            table, *_ = merged(counts.T, deviation, groups=private)
            if table is None:
                void += 1
            elif chdtrc(table.df, table.statistic) <= LEVELS[0]:
                rejected += table.pvalue(table.statistic) <= np.array(LEVELS)
    return rejected, runs, void


METHODS = {
    "calibrated (default)": lambda *a: of_calibrated(*a, omit=True),
    "calibrated, nan_policy='fill'": lambda *a: of_calibrated(*a, omit=False),
    "table, private groups": lambda *a: of_table(*a, private=True),
    "table, public groups": lambda *a: of_table(*a, private=False),
    "difference": lambda *a: of_difference(*a, omit=True),
    "difference, nan_policy='fill'": lambda *a: of_difference(*a, omit=False),
    "distance": of_distance,
    "association": of_association,
    "unit circle": of_circle,
}
PROVED = {
    "signed": lambda *a: of_omitted(*a, signed=True),
    "one of many columns": lambda *a: of_omitted(*a, signed=False),
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
    tables = {tuple(METHODS): "levels_chi2", tuple(PROVED): "levels_chi2_omitted"}
    name = tables.get(tuple(arguments.methods)) if arguments.designs == 200 else None
    columns = ("method", "ε", "designs", "runs", *heads, "worst at 0.05", "too high")
    with recorded(name or "part", *columns, keep=name is not None) as row:
        for method in arguments.methods:
            cells = defaultdict(list)
            for number, design in enumerate(every):
                rng = np.random.default_rng([2017, number])
                found = (METHODS | PROVED)[method](design, rng, arguments.seconds)
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
