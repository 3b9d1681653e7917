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

from dfprivacy.inference.engine import infer
from dfprivacy.inference.groups import mean, omnibus
from dfprivacy.inference.moments import Form, NoisyMoments
from dfprivacy.inference.notes import skewness, unreliable, worst_pvalue
from dfprivacy.laws import NoiseLaw

BINS = ((0.02, 0.2), (0.2, 1.0), (1.0, 5.0), (5.0, 50.0))
LEVELS = EVERY[:2]
FEWEST = 10


def released(rng: np.random.Generator, design: Design, way: str, runs: int) -> NoisyMoments:
    """Draw tables, and the noisy sums of their three groups."""
    half, middle = (design.high - design.low) / 2, (design.high + design.low) / 2
    cuts = [design.sizes[0] // 2, design.sizes[0]]
    exact = np.empty((runs, 3, 3))
    for table in exact:
        parts = [part[~np.isnan(part)] for part in np.split((design.draw(rng) - middle) / half, cuts)]
        s, q, n = (np.array([of(part) for part in parts], dtype=float) for of in (np.sum, lambda p: p @ p, np.size))
        table[:] = np.stack((s, n - q, n if way == "public" else q), axis=-1)
    b = {"private": 3.0, "public": 2.0, "add_remove": 1.5}[way] / design.epsilon
    scales = b / np.array((1, 0.5, 1) if way == "public" else (1, 1, 0.5))
    rows = None
    if way == "public":
        rows = np.broadcast_to(np.diff([0, *cuts, sum(design.sizes)]).astype(float), (runs, 3))
    values = exact + scales * rng.laplace(size=exact.shape)
    form: Form = "private" if rows is None else "beside"
    return NoisyMoments(values, [NoiseLaw(each) for each in scales], rows, form)


def measure(rng: np.random.Generator, design: Design, way: str, runs: int) -> tuple[np.ndarray, float]:
    """How often each level rejects without a note, and how often there is one at 5%."""
    sums = released(rng, design, way, runs)
    p, each = omnibus(sums).pvalue, infer(sums, mean)
    small = (sums.estimate.n < FEWEST).any(axis=(-2, -1))
    silent = sums.doubtful | each.hidden.any(axis=-1) | small
    worst = worst_pvalue(p, skewness(each, sums).max(axis=-1))
    noted = {level: silent | unreliable(p, worst, level) for level in LEVELS}
    rejected = np.array([((p <= level) & ~noted[level]).sum() for level in LEVELS])
    return rejected, float(noted[LEVELS[0]].mean())


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
