"""Level of `KME.two_sample`, and coverage of `KME.expectation`, over designs drawn at random, by simulation.

    python tests/benchmarks/levels_kme.py --runs 200

The first group of every design of `designs.py` is released, at the defaults, and compared with the second as public
rows, and with a release of it. Both follow one distribution, also where values are missing. Exact sums are computed
in float64, the noise is NumPy's. Counted are p-values up to 5%, 1% and 0.1%, and how often 95% intervals for the
mean and for the mean square of the complete rows hold it, up to a millionth of the range. Left out are designs
whose number of rows is private, which are refused. The worst design is one of which a fourth of the answers and
more tell something.
"""

from __future__ import annotations

import argparse
import math
import sys
from fractions import Fraction
from functools import partial

import numpy as np
from designs import DATA, LEVELS, Design, designs, exceeds
from results import Parts, recorded, resumable

from dfprivacy import Column
from dfprivacy._privacy.calibrate import gaussian_scale
from dfprivacy.features import Nystrom, ProductKernel, spread
from dfprivacy_kme import KME, release
from dfprivacy_kme.embedding import Space
from dfprivacy_kme.mechanisms import MeasuredEmbedding, fit_release

DELTA = Fraction(1, 10**6)
GRID = 1e-6  # of a function's range: the library sees its values on a grid of public points
TESTS = ("public rows", "two releases")
TOLD = 5.0  # standard deviations of the noise that complete rows must exceed; else a release says it tells nothing


class Released:
    """What makes releases of one design."""

    def __init__(self, design: Design, rng: np.random.Generator) -> None:
        self.rng, self.design = rng, design
        column = Column("x", bounds=(design.low, design.high), fill=design.low)
        self.kernel = ProductKernel([column], {"x": 2 * column.half * math.sqrt(1 / 8)})
        self.basis = Nystrom(self.kernel, spread([column], 256), 1e-10)
        moved = max(self.basis.diameter(2, frozenset()), math.hypot(self.basis.radius(2), 1.0))
        self.sigma = moved * gaussian_scale(2**60, 1, Fraction(design.epsilon), DELTA) / 2**30

    def __call__(self, complete: np.ndarray, rows: int) -> KME:
        """Release complete rows, of so many."""
        drawn = self.sigma * self.rng.standard_normal(self.basis.dimension + 1)
        size = max(1.0, len(complete) + drawn[0])
        beta = (self.basis.features(complete[:, None]).sum(axis=0) + drawn[1:]) / size
        space = Space.from_kernel(self.basis, self.kernel)
        measured = MeasuredEmbedding(
            beta, self.sigma / size, laplace=False, size=size, count_noise=self.sigma, rows=rows, space=space
        )
        return fit_release(measured, "hull")


def answers(design: Design, made: Released, rng: np.random.Generator) -> tuple[list[float], list[bool]] | None:
    """Compare with public rows and with a release, and estimate; None if a release says that it tells nothing."""
    values = design.draw(rng)
    first, second = (values[design.groups == group] for group in (0, 1))
    x, y = first[~np.isnan(first)], second[~np.isnan(second)]
    one, other = made(x, len(first)), made(y, len(second))
    if not len(y) or min(one.size, other.size) < TOLD * made.sigma:
        return None
    held = []
    for f in (lambda t: t, lambda t: t**2):
        interval = one.expectation(lambda rows, f=f: f(rows["x"]))
        exact = float(np.mean(f(x)))
        slack = GRID * (design.high - design.low) ** 2
        held.append(interval.low - slack <= exact <= interval.high + slack)
    return [one.two_sample({"x": y}).pvalue, one.two_sample(other).pvalue], held


def measured(design: Design, place: int, runs: int, seed: int) -> tuple[int, int, list[int], float]:
    """Count answers of one design, those that tell nothing, and rejections at each level; and give the coverage."""
    rng = np.random.default_rng([seed, place])
    made = Released(design, rng)
    found = [answers(design, made, rng) for _ in range(runs)]
    told = [each for each in found if each is not None]
    table = np.reshape([pvalues for pvalues, _ in told], (-1, len(TESTS)))
    hits = [int((table[:, test] <= level).sum()) for test in range(len(TESTS)) for level in LEVELS]
    return len(told), runs - len(told), hits, float(np.mean([held for _, held in told])) if told else 1.0


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="releases of a design (default: 200)")
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--only", type=int, nargs="*", help="places of designs to take, and keep no table")
    resumable(parser)
    asked = parser.parse_args()
    release._DRAWS = 999  # in place of 4,999: p-values are as valid, and a little coarser
    parts, too_many = Parts(asked.resume), 0
    kinds: dict[str, list[tuple[int, int, list[int], float]]] = {kind: [] for kind in DATA}
    for place, design in enumerate(designs()):
        if design.neighbors != "replace_one" or (asked.only and place not in asked.only):
            continue
        key = f"{place} {asked.runs} {asked.seed}"
        found = parts(key, partial(measured, design, place, asked.runs, asked.seed))
        kinds[design.data].append(found)
        count, _, hits, covered = found
        pairs = list(zip(hits, LEVELS * len(TESTS), strict=True))
        pairs.append((round((1 - covered) * count), 0.05))
        if count and any(exceeds(hit, count, level) for hit, level in pairs):
            too_many += 1
            rates = " ".join(f"{hit / count:.4f}" for hit in hits)
            print(f"{place} {design}: {rates}, covered {covered:.3f}, of {count}", file=sys.stderr, flush=True)
    heads = [
        *("data", "designs", "answers", "uninformative"),
        *(head for test in TESTS for head in (*(f"{test}, {level:g}" for level in LEVELS), "worst at .05")),
        *("covered", "least"),
    ]
    with recorded("levels_kme", *heads, keep=not asked.only) as row:
        for kind, parted in kinds.items():
            told = [each for each in parted if each[0] >= max(asked.runs // 4, 1)]
            number, none = (sum(each[at] for each in parted) for at in (0, 1))
            rates = []
            for at in range(len(TESTS) * len(LEVELS)):
                rates.append(f"{sum(each[2][at] for each in parted) / max(number, 1):.4f}")
                if at % len(LEVELS) == len(LEVELS) - 1:
                    first = at - len(LEVELS) + 1
                    rates.append(f"{max((each[2][first] / each[0] for each in told), default=0.0):.3f}")
            covered = [each[3] for each in told]
            shown = [f"{np.mean(covered):.3f}", f"{min(covered):.3f}"] if covered else ["–", "–"]
            row(kind, len(parted), f"{number:,}", f"{none / max(none + number, 1):.0%}", *rates, *shown)
    print(f"\n{too_many} designs reject too often, or cover too little.")
    return int(too_many > 0)


if __name__ == "__main__":
    sys.exit(main())
