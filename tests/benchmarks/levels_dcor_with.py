"""Level and coverage of what a party learns from another's message (`dcor_with`), on designs drawn at random.

    python tests/benchmarks/levels_dcor_with.py --runs 100

Both columns follow the data of the design, independently, with the missing values of the design, and all other
arguments are the defaults. For the owner alone (`dcor_with_own`), independence is tested by 999 permutations; those
of a p-value that is surely above 5% are cut short. With an epsilon, of as much as the message, it is an interval
for the squared correlation with the message without Laplace noise, and counted is how often it holds it. The
library's own statistics and conclusions, with NumPy's continuous Laplace noise and angles randomised by NumPy.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from designs import LEVELS, designs, exceeds
from results import Parts, recorded, resumable

from dfprivacy import Column
from dfprivacy._table.batch import Batch, number
from dfprivacy.local import Arc
from dfprivacy.release import NoisyValue
from dfprivacy_dcor.angles import PLACES, DistanceMessage, best_half_width
from dfprivacy_dcor.parties import (
    _HARMONICS_FROM,
    MessageResult,
    MessageScores,
    _angle_maps,
    _random_blocks,
    dcor_with,
)
from dfprivacy_dcor.spaces import ROWS_MIN, metric_space
from dfprivacy_dcor.statistics import Deviation

if TYPE_CHECKING:
    from designs import Design
    from numpy.typing import NDArray

PERMUTATIONS = 999
STEPS = (99, 299, PERMUTATIONS)
"""Permutations after which a p-value above the largest level is sure enough to stop."""
FOR_ANGLES = 0.9
"""The part of a message's epsilon that its angles take."""


class Parties:
    """Two parties of one design: one writes messages, the other compares its rows with them."""

    def __init__(self, design: Design, rng: np.random.Generator) -> None:
        self.design, self.rng, self.n = design, rng, sum(design.sizes)
        bounds = (design.low, design.high)
        self.columns = [Column(name, bounds=bounds, fill=design.low) for name in "xy"]
        self.spaces = [metric_space((column,), "euclidean", nan_policy="omit") for column in self.columns]
        epsilon = FOR_ANGLES * design.epsilon
        self.arc = Arc.within(Fraction(epsilon), places=PLACES, reach=best_half_width(epsilon))
        self.harmonics = (1, 3) if self.n * design.epsilon**2 >= _HARMONICS_FROM else (1,)

    def rows(self, which: int) -> Batch:
        """Draw a table of one party."""
        return Batch(self.n, {number(self.columns[which]): self.design.draw(self.rng)})

    def message(self, rows: Batch) -> DistanceMessage:
        """Write a message."""
        turns = _random_blocks(self.n, len(self.harmonics), 1, self.rng)
        units = np.ones((len(self.harmonics), 1))
        maps, whose = _angle_maps((self.columns[0],), units, np.array(self.harmonics), 1.0, turns, self.rng)
        places = np.choose(whose, [each.rows(rows) for each in maps])
        weight = self.rng.integers(0, self.arc.weight, self.n)
        deviation = Deviation(self.spaces[0], self.n)
        values, scales = self.noisy(deviation, rows, (1 - FOR_ANGLES) * self.design.epsilon)
        return DistanceMessage(
            columns=("x",),
            rows=self.n,
            turns=turns,
            directions=units,
            deviation=float(values[0]),
            deviation_scale=float(scales[0]),
            complete=float(values[1]),
            complete_scale=float(scales[1]),
            keys=None,
            angles=self.arc.moved(places, weight),
            harmonics=self.harmonics,
            length=1.0,
            places=PLACES,
            reach=self.arc.reach,
            inside=self.arc.inside,
            outside=self.arc.outside,
        )

    def noisy(self, statistic: Deviation | MessageScores, rows: Batch, epsilon: float) -> tuple[NDArray, NDArray]:
        """Measure a statistic."""
        scales = statistic.sensitivity("replace_one", 1, frozenset()) / epsilon / statistic.weights
        return statistic.value(rows) / statistic.weights + self.rng.laplace(size=scales.shape) * scales, scales

    def pvalue(self, message: DistanceMessage, rows: Batch) -> float | None:
        """Test independence for oneself; None where too few rows are complete."""
        kept = np.flatnonzero(self.spaces[1].complete(rows))
        if len(kept) < ROWS_MIN:
            return None
        own, message = self.spaces[1].coordinates(rows)[kept, 0], message.only(kept)
        if not message.blocks():
            return None
        if (own == own[0]).all():
            return 1.0
        beyond = done = 0
        for step in STEPS:
            totals = message.covariances(own, step - done, self.rng)
            beyond, done = beyond + int((totals[1:] >= totals[0]).sum()), step
            if (1 + beyond) / (1 + PERMUTATIONS) > max(LEVELS):
                break
        return (1 + beyond) / (1 + done)

    def covered(self, first: Batch, message: DistanceMessage, second: Batch) -> bool | None:
        """Whether the interval holds what it would be without Laplace noise; None if that is not defined."""
        statistic = MessageScores(message, self.spaces[1])
        values, scales = self.noisy(statistic, second, self.design.epsilon)
        compared = MessageResult(
            message, ("y",), self.spaces[1].diameter, statistic.sampling, NoisyValue(values, scales, None)
        )
        found = dcor_with.conclusion(compared)
        covariance, y, below, share = statistic.value(second) / statistic.weights
        x, others = Deviation(self.spaces[0], self.n).value(first) / Deviation(self.spaces[0], self.n).weights
        if not x * y * share * others > 0:
            return None
        squared = covariance**2 - statistic.sampling * (below + self.spaces[1].diameter * share)
        truth = min(max(squared / (share * others * x * y), 0.0), 1.0)
        return found.low - 1e-9 <= truth <= found.high + 1e-9


def measured(design: Design, place: int, runs: int, seed: int) -> tuple[int, list[int], int, int]:
    """Count p-values of one design, those at each level, intervals and how many of them hold the truth."""
    parties, pvalues, held = Parties(design, np.random.default_rng([seed, place])), [], []
    for _ in range(runs):
        first, second = parties.rows(0), parties.rows(1)
        message = parties.message(first)
        pvalues.append(parties.pvalue(message, second))
        held.append(parties.covered(first, message, second))
    told = np.array([p for p in pvalues if p is not None])
    known = [each for each in held if each is not None]
    return len(told), [int((told <= level).sum()) for level in LEVELS], len(known), sum(known)


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="simulated tables of a design (default: 100)")
    parser.add_argument("--seed", type=int, default=2007)
    parser.add_argument("--every", type=int, default=1, help="take every so manieth design, and keep no table")
    resumable(parser)
    asked = parser.parse_args()
    parts, failed = Parts(asked.resume), 0
    kinds: dict[str, list[tuple[int, list[int], int, int]]] = defaultdict(list)
    for place, design in list(enumerate(designs()))[:: asked.every]:
        key = f"{place} {asked.runs} {asked.seed}"
        found = parts(key, partial(measured, design, place, asked.runs, asked.seed))
        kinds[design.data].append(found)
        count, hits, intervals, held = found
        off = [exceeds(hit, max(count, 1), level) for hit, level in zip(hits, LEVELS, strict=True)]
        if any(off) or exceeds(intervals - held, max(intervals, 1), 0.05):
            failed += 1
            print(f"{design}: {hits} of {count}, {held} of {intervals} covered", file=sys.stderr, flush=True)
    heads = [*("data", "designs", "answers"), *(f"{level:g}" for level in LEVELS)]
    with recorded("levels_dcor_with", *heads, "worst at .05", "covered", "least", keep=asked.every == 1) as row:
        for kind, parted in kinds.items():
            told = max(sum(each[0] for each in parted), 1)
            rates = [sum(each[1][at] for each in parted) / told for at in range(len(LEVELS))]
            worst = max((each[1][0] / each[0] for each in parted if each[0]), default=0.0)
            covered = [each[3] / each[2] for each in parted if each[2]]
            held = [f"{np.mean(covered):.3f}", f"{min(covered):.3f}"] if covered else ["–", "–"]
            row(kind, len(parted), f"{told:,}", *(f"{rate:.4f}" for rate in rates), f"{worst:.3f}", *held)
    print(f"\n{failed} designs reject too often, or cover too little.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
