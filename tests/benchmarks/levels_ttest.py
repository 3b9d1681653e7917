"""Levels of the private t-test, and coverage of its 95% interval, on designs drawn at random.

    python tests/benchmarks/levels_ttest.py --runs 1000

Of every design of `designs.py` one sample is tested, its first group against the true mean, and two, with missing
values left out: under its own neighbouring relation, and under ``replace_one`` with public groups as well as with
private ones. The sums are of drawn rows; the noise is numpy's continuous Laplace instead of the library's
discrete one, which does not change a level; the test is the one that the method concludes with.

A result whose notes say that its level may not hold counts as noted, at each level on its own: a rejection that
the worst skewness of such data would undo, or a size that is mostly noise. The tables have how often a true
hypothesis was rejected without such a note; how often at all, notes or not, which is one minus the coverage of
the 95% interval; and how many results had a note at 5%. Exits with status 1 if a level without note is, in a
design, above nominal by more than a fifth and three standard errors.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from designs import DATA, LEVELS, Design, designs, exceeds
from results import recorded

from dfprivacy.inference.engine import infer
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.inference.notes import skewness, unreliable, worst_pvalue
from dfprivacy.laws import NoiseLaw
from dfprivacy_ttest.parameters import mean_parameter

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


def release(rng: np.random.Generator, groups: list[Sums], design: Design, kind: str) -> NoisyMoments:
    """The noisy sums of groups; of public sizes, how many rows have a value is measured too."""
    total, squares, rows = (np.stack(of, axis=-1) for of in zip(*groups, strict=True))
    scale = {"public": 2.0, "private": 3.0, "add_remove": 1.5}[kind] / design.epsilon

    public = kind == "public"
    scales = scale / np.array([1, 0.5, 1] if public else [1, 1, 0.5])  # (y, (1-y²)/2, 1), or (y, 1-y², y²/2)
    exact = np.stack([total, rows - squares, rows if public else squares], axis=-1)
    values = exact + scales * rng.laplace(size=exact.shape)
    laws = [NoiseLaw(each) for each in scales]
    sizes = np.broadcast_to(design.sizes[: len(groups)], rows.shape)
    return NoisyMoments(values, laws, sizes if public else None, "beside" if public else "private")


def tests(rng: np.random.Generator, design: Design, runs: int) -> dict[tuple[str, str], tuple[Any, Any, Any]]:
    """Of all tests on all sides the p-values, the worst ones, and whether a size is doubtful."""
    first, second = exact_sums(rng, design, runs)
    middle = (design.high + design.low) / 2
    mean = (design.mean(1_000_000) - middle) / ((design.high - design.low) / 2)
    relation = "add_remove" if design.neighbors == "add_remove" else "public"
    asked = {"one sample": ([first], relation, mean)}
    for kind in ["add_remove"] if relation == "add_remove" else ["public", "private"]:
        asked[f"two samples, {kind}"] = ([first, second], kind, 0.0)
    found = {}
    for test, (groups, kind, null) in asked.items():
        sums = release(rng, groups, design, kind)
        known = infer(sums, mean_parameter(len(groups)))
        for side in SIDES:
            p = known.pvalue(null, side)
            found[test, side] = p, worst_pvalue(p, skewness(known, sums), side), sums.doubtful
    return found


@dataclass(frozen=True)
class Found:
    """What one test of one design did, over all runs."""

    test: str
    side: str
    design: Design
    rejected: tuple[float, ...]
    anyway: float
    noted: float

    @property
    def rows(self) -> list[str]:
        """The rows of the table that this counts in."""
        low, high = next(ends for ends in BINS if ends[0] <= self.design.epsilon <= ends[1])
        return [f"{self.design.data} data", f"ε {low:g} to {high:g}", "all"]


def measure(rng: np.random.Generator, design: Design, runs: int) -> list[Found]:
    """Count rejections."""
    found = []
    for (test, side), (p, worst, doubtful) in tests(rng, design, runs).items():
        noted = {level: doubtful | unreliable(p, worst, level) for level in LEVELS}
        rejected = tuple(float(((p <= level) & ~noted[level]).mean()) for level in LEVELS)
        anyway, share = float((p <= LEVELS[0]).mean()), float(noted[LEVELS[0]].mean())
        found.append(Found(test, side, design, rejected, anyway, share))
    return found


def cells(found: list[Found]) -> list[str]:
    """Levels on both sides and on one, each the mean over designs, the worst design, and how much is noted."""
    two = [each for each in found if each.side == "two-sided"]
    one = [each for each in found if each.side != "two-sided"]
    return [
        f"{len(two)}",
        *(
            f"{np.mean([each.rejected[at] for each in part]):.4f}"
            for part in (two, one)
            for at in range(len(LEVELS))
        ),
        f"{max(each.rejected[0] for each in found):.3f}",
        f"{np.mean([each.anyway for each in two]):.3f}",
        f"{np.mean([each.noted for each in two]):.0%}",
    ]


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="tables a design (default: 1000)")
    parser.add_argument("--seed", type=int, default=15)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    found = [each for design in designs() for each in measure(rng, design, asked.runs)]
    names = [*(f"{data} data" for data in DATA), *(f"ε {low:g} to {high:g}" for low, high in BINS), "all"]
    heads = [f"{sides} {level:g}" for sides in ("two-sided", "one-sided") for level in LEVELS]
    columns = ("test", "designs", "number", *heads, "worst at .05", "with notes too", "noted")
    with recorded("levels_ttest", *columns) as row:
        for test in sorted({each.test for each in found}):
            for name in names:
                row(test, name, *cells([each for each in found if each.test == test and name in each.rows]))
    bad = [
        f"{each.test}, {each.side}, {level:g}: {rate:.4f} with {each.design}"
        for each in found
        for level, rate in zip(LEVELS, each.rejected, strict=True)
        if exceeds(round(rate * asked.runs), asked.runs, level)
    ]
    print(
        f"\n{len(bad)} of {len(found) * len(LEVELS)} levels are above nominal by more than a fifth.", *bad, sep="\n"
    )
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
