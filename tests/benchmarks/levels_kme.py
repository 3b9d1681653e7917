"""Level of `KME.two_sample`, and coverage of `KME.expectation`, over designs drawn at random, by simulation.

    python tests/benchmarks/levels_kme.py --runs 40

The first group of every design of `designs.py` is released, at the defaults, and compared with the second as public
rows, and with a release of it. Both follow one distribution, also where values are missing. Exact sums are computed
in float64, the noise is NumPy's. Counted are p-values up to 5%, 1% and 0.1%, and how often 95% intervals for the
mean and for the mean square of the complete rows hold it. Left out are designs whose number of rows is private,
which are refused.
"""

from __future__ import annotations

import argparse
import math
import sys
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from designs import DATA, LEVELS, Design, designs, exceeds
from results import recorded

from dfprivacy import Column
from dfprivacy._privacy.calibrate import gaussian_scale
from dfprivacy.features import ProductKernel
from dfprivacy_kme.mechanisms import Measured, _concluded
from dfprivacy_kme.taylor import Taylor

if TYPE_CHECKING:
    from dfprivacy_kme import KME

DELTA = Fraction(1, 10**6)
TOLD = 5.0  # standard deviations of the noise that complete rows must exceed; else a release says it tells nothing


class Released:
    """What makes releases of one design."""

    def __init__(self, design: Design, rng: np.random.Generator) -> None:
        self.rng, self.design = rng, design
        column = Column("x", bounds=(design.low, design.high), fill=design.low)
        self.kernel = ProductKernel([column], {"x": 2 * column.half * math.sqrt(1 / 8)})
        self.basis = Taylor(self.kernel, 14)
        moved = max(self.basis.diameter(2, frozenset()), math.hypot(self.basis.radius(2), 1.0))
        self.sigma = moved * gaussian_scale(2**60, 1, Fraction(design.epsilon), DELTA) / 2**30

    def __call__(self, complete: np.ndarray, rows: int) -> KME:
        """Release complete rows, of so many."""
        noise = self.sigma * self.rng.standard_normal(self.basis.dimension + 1)
        size = max(1.0, len(complete) + noise[0])
        beta = (self.basis.features(complete[:, None]).sum(axis=0) + noise[1:]) / size
        measured = Measured(
            beta,
            self.sigma / size,
            False,
            size,
            self.sigma,
            rows,
            self.basis,
            self.kernel,
            None,
        )
        return _concluded(measured, "hull")


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
        held.append(interval.low - 1e-9 <= exact <= interval.high + 1e-9)
    return [one.two_sample({"x": y}).pvalue, one.two_sample(other).pvalue], held


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40, help="releases of a design (default: 40)")
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--every", type=int, default=1, help="take every so manieth design")
    arguments = parser.parse_args()
    failed = False
    tests = ("public rows", "two releases")
    heads = (*(f"{test}, {level:.1%}" for test in tests for level in LEVELS), "covered")
    with recorded("levels_kme", "data", "designs", "answers", "uninformative", *heads) as row:
        for kind in DATA:
            pvalues, held, none, number = [], [], 0, 0
            for place, design in list(enumerate(designs()))[:: arguments.every]:
                if design.data != kind or design.neighbors != "replace_one":
                    continue
                number += 1
                rng = np.random.default_rng([arguments.seed, place])
                made = Released(design, rng)
                for _ in range(arguments.runs):
                    found = answers(design, made, rng)
                    none += found is None
                    if found is not None:
                        pvalues.append(found[0])
                        held.append(found[1])
            table, count = np.reshape(pvalues, (-1, 2)), max(len(pvalues), 1)
            hits = [int((table[:, test] <= level).sum()) for test in (0, 1) for level in LEVELS]
            failed |= any(exceeds(hit, count, level) for hit, level in zip(hits, LEVELS * 2, strict=True))
            row(
                kind, number, f"{len(pvalues):,}", f"{none / (none + count):.0%}",
                *(f"{hit / count:.4f}" for hit in hits), f"{np.mean(held) if held else math.nan:.3f}",
            )  # fmt: skip
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
