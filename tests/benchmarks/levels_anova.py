"""Levels of the private analysis of variance, on designs drawn at random.

    python tests/benchmarks/levels_anova.py --runs 200

Of every design of `designs.py` tables of three groups are drawn, the first of its two cut in half, and their means
are compared, missing values left out, under its own neighbouring relation, and under ``replace_one`` with public
groups as well as with private ones. Noise is continuous. Results whose notes say that their level may not hold,
because a group is small or mostly noise, or its data could be skewed, are counted apart. Exits with status 1 if a
level without note is, in a design, above nominal by more than a fifth and three standard errors.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from designs import LEVELS as EVERY
from designs import Design, designs, exceeds
from results import recorded

from dfprivacy_inference.welch import Kind, Sums, doubtful, skewed

BINS = ((0.02, 0.2), (0.2, 1.0), (1.0, 5.0), (5.0, 50.0))
LEVELS = EVERY[:2]  # a null law of 399 draws has no smaller p-values
DRAWS = 399


def released(rng: np.random.Generator, design: Design, way: str) -> Sums:
    """Draw a table, and the noisy sums of its three groups."""
    half, middle = (design.high - design.low) / 2, (design.high + design.low) / 2
    y = (design.draw(rng) - middle) / half
    cuts = [design.sizes[0] // 2, design.sizes[0]]
    parts = [part[~np.isnan(part)] for part in np.split(y, cuts)]
    s, q, n = (np.array([of(part) for part in parts], dtype=float) for of in (np.sum, lambda p: p @ p, np.size))
    b = {"private": 3.0, "public": 2.0, "add_remove": 1.5}[way] / design.epsilon
    kind: Kind = "beside" if way == "public" else "private"
    exact = np.stack((s, n - q, q) if kind == "private" else (s, n - q, n), axis=-1)
    scales = np.array((b, b, 2 * b) if kind == "private" else (b, 2 * b, b))
    return Sums(exact + scales * rng.laplace(size=exact.shape), scales, kind)


def measure(rng: np.random.Generator, design: Design, way: str, runs: int) -> tuple[np.ndarray, float]:
    """How often each level rejects without a note, and how often there is one at 5%."""
    rejected, noted = np.zeros(len(LEVELS), dtype=int), 0
    for _ in range(runs):
        sums = released(rng, design, way)
        null = sums.under_null(DRAWS)
        p = (1 + (null.statistic >= sums.statistic).sum()) / (1 + DRAWS)
        silent = doubtful(sums)
        rejected += [p <= level and not silent and not skewed(sums, p, level) for level in LEVELS]
        noted += silent or skewed(sums, p, LEVELS[0])
    return rejected, noted / runs


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="tables a design (default: 200)")
    parser.add_argument("--seed", type=int, default=18)
    asked = parser.parse_args()
    rng, found, bad = np.random.default_rng(asked.seed), {}, []
    for design in designs():
        if design.sizes[0] < 4:
            continue
        for way in ("add_remove",) if design.neighbors == "add_remove" else ("private", "public"):
            counts, noted = measure(rng, design, way, asked.runs)
            found.setdefault(way, []).append((design, counts / asked.runs, noted))
            bad += [
                f"{way}, {level:g}: {rate / asked.runs:.4f} with {design}"
                for level, rate in zip(LEVELS, counts.tolist(), strict=True)
                if exceeds(rate, asked.runs, level)
            ]
    names = [*(f"ε {low:g} to {high:g}" for low, high in BINS), "all"]
    heads = (*(f"{x:g}" for x in LEVELS), "worst at .05", "noted")
    with recorded("levels_anova", "groups", "designs", "number", *heads) as row:
        for way, every in sorted(found.items()):
            for name, (low, high) in zip(names, [*BINS, (0.0, 100.0)], strict=True):
                part = [each for each in every if low <= each[0].epsilon <= high]
                rates = np.array([each[1] for each in part])
                cells = [*(f"{rate:.4f}" for rate in rates.mean(axis=0)), f"{rates[:, 0].max():.3f}"]
                row(way, name, len(part), *cells, f"{np.mean([each[2] for each in part]):.0%}")
    print(f"\n{len(bad)} levels are above nominal by more than a fifth.", *bad, sep="\n")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
