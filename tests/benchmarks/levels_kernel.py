"""Level of the kernel two-sample tests over designs drawn at random, by simulation.

    python tests/benchmarks/levels_kernel.py --runs 400

Every design of `designs.py` is asked of one column, and of three of the same kind; both groups follow one
distribution, also where values are missing. Exact sums are computed in float64, the noise is NumPy's, and what the
methods conclude is what they conclude. Counted are p-values up to 5%, 1% and 0.1% in all runs of each kind of data.
Designs in which a group has fewer than two rows are refused by the method, and answers that call themselves
uninformative are counted apart. Prints a Markdown table, and the designs that are worst.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from designs import DATA, LEVELS, designs, exceeds
from results import Parts, recorded, resumable
from scipy.linalg import eigh
from scipy.special import bdtrc

from dfprivacy import Column
from dfprivacy._privacy.calibrate import gaussian_scale
from dfprivacy_kernel import law
from dfprivacy_kernel.design import Design as Kernel
from dfprivacy_kernel.design import Groups
from dfprivacy_kernel.law import SHARE, MMDMeasurement, share_interval
from dfprivacy_kernel.moments import COUNT_NOISE, Contrast, Differences, contrast_test
from dfprivacy_kernel.statistics import Spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from designs import Design
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

DELTA = Fraction(1, 10**6)
RARE = 1e-4
METHODS = {"moments": "moments", "mmd": "mmd", "mmd, private groups": "private"}
"""The table of each."""


class Asked:
    """One design with so many columns, asked by one method."""

    def __init__(self, design: Design, d: int, method: str, rng: np.random.Generator) -> None:
        self.design, self.rng, self.moments, self.d = design, rng, method == "moments", d
        columns = [Column(f"x{i}", bounds=(design.low, design.high), fill=design.low) for i in range(d)]
        self.kernel = Kernel.from_arguments(
            columns, "me" if self.moments else "nystrom", None, 0.5, None, 5 if self.moments else 200
        )
        self.embedding = self.kernel.embedding(mapped=not self.moments)
        public = method != "mmd, private groups"
        by = Column("g", categories=("a", "b"), public=public)
        rows = design.sizes if public and design.neighbors == "replace_one" else None
        self.groups = Groups(by, ("a", "b"), None, tuple(columns), rows)
        self.labelled = public
        self.epsilon = design.epsilon
        if self.moments:
            sums = Differences(replace(self.groups, rows=design.sizes), self.embedding, "me")
            sigma = gaussian_scale(2**60, 1, Fraction(design.epsilon), DELTA) / 2**30
            self.scales, self.reach, self.sigma = sums.noise.scaled_by(sigma), sums.reach, sigma
        else:
            spread = Spread(self.groups, self.embedding)
            share = float(Fraction(SHARE))
            self.spread_scales = np.full(5, spread.sensitivity("replace_one", math.inf, frozenset()))
            self.spread_scales = self.spread_scales / spread.weights / (share * self.epsilon)
            self.farthest = self.embedding.diameter(frozenset()) / ((1 - share) * self.epsilon)

    def features(self) -> tuple[Array, Array]:
        """Draw complete rows, embedded, of both groups."""
        values = np.column_stack([self.design.draw(self.rng) for _ in range(self.d)])
        complete = ~np.isnan(values).any(axis=1)
        first = self.design.groups == 0
        of: Any = self.embedding.parts[0]
        phi = of.features(values[complete]) - self.embedding.centre
        phi = phi @ self.embedding.map.T
        return phi[first[complete]], phi[~first[complete]]

    def pvalue(self) -> float | None:
        """Simulate one answer; None where it says that it tells nothing."""
        x, y = self.features()
        if self.moments:
            contrast = self._contrast(x, y)
            return contrast_test(contrast).pvalue if contrast.informative else None
        measured = self._measured(x, y)
        return measured.pvalue if measured.informative else None

    def _measured(self, x: Array, y: Array) -> MMDMeasurement:
        rng, n, m = self.rng, len(x), len(y)
        phi = np.vstack([x, y])
        total, mean = max(n + m, 1), phi.sum(axis=0)
        scatter = phi.T @ phi - np.outer(mean, mean) / total
        largest = eigh(scatter, eigvals_only=True, subset_by_index=[len(scatter) - 1] * 2)[0]
        exact = np.array([n, m, np.trace(scatter), np.linalg.norm(scatter), largest])
        spread = exact + rng.gamma(6) * rng.uniform(-1, 1, 5) * self.spread_scales
        low, high = share_interval(spread, self.spread_scales, self.groups) if self.labelled else (0.0, 1.0)
        share = float(np.clip(n / total, low, high))
        scale = self.farthest * (max(high, 1 - low) if self.labelled else 1.0)
        G = float(np.linalg.norm((1 - share) * x.sum(axis=0) - share * y.sum(axis=0)))
        return MMDMeasurement(G + rng.laplace(0, scale), scale, spread, self.spread_scales, None, self.groups.rows)

    def _contrast(self, x: Array, y: Array) -> Contrast:
        rng, (n, m), noise = self.rng, self.design.sizes, self.scales
        J = x.shape[1]
        upper = np.triu(noise.diagonal * rng.standard_normal((J, J)))
        count_noise = self.sigma * COUNT_NOISE
        first, second = (max(1.0, len(part) + count_noise * rng.standard_normal()) for part in (x, y))
        return Contrast(
            x.sum(axis=0) / n - y.sum(axis=0) / m + noise.difference * rng.standard_normal(J),
            (x.sum(axis=0) + y.sum(axis=0)) / (n + m) + noise.pooled * rng.standard_normal(J),
            (x.T @ x + y.T @ y) / (n + m) + upper + np.triu(upper, 1).T,
            noise,
            (n, m),
            (first, second),
            count_noise,
            self.reach,
        )


def asked(method: str) -> Iterator[tuple[int, Design]]:
    """All designs that a method takes, and their places."""
    for place, design in enumerate(designs()):
        public = design.neighbors == "replace_one"  # else no column is
        if min(design.sizes) > 1 and (public or method == "mmd, private groups"):
            yield place, design


def measured(
    design: Design, place: int, columns: int, method: str, runs: int, seed: int
) -> tuple[int, list[float]]:
    """Count answers of one design that tell something, and give their p-values up to the largest level."""
    question = Asked(design, columns, method, np.random.default_rng([seed, place]))
    told = [p for p in (question.pvalue() for _ in range(runs)) if p is not None]
    return len(told), [p for p in told if p <= max(LEVELS)]


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs", type=int, default=400, help="answers to a design; a fourth with several columns (default: 400)"
    )
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--columns", type=int, nargs="*", default=[1, 3])
    parser.add_argument("--only", type=int, nargs="*", help="places of designs to take, and keep no table")
    resumable(parser)
    arguments = parser.parse_args()
    parts = Parts(arguments.resume)
    law._POINTS = 2**10
    worst: list[tuple[float, str]] = []
    failed = False
    heads = ("columns", "data", "designs", "answers", "uninformative", *(f"{a:.1%}" for a in LEVELS))
    for method in arguments.methods:
        print(f"\n{method}\n")
        name = f"levels_kernel_{METHODS[method]}" + ("" if 1 in arguments.columns else "_several")
        with recorded(name, *heads, keep=not arguments.only) as row:
            for columns in arguments.columns:
                counted = {kind: np.zeros(2 + len(LEVELS), dtype=int) for kind in DATA}
                number = dict.fromkeys(DATA, 0)
                runs = arguments.runs if columns == 1 else arguments.runs // 4
                for place, design in asked(method):
                    if arguments.only and place not in arguments.only:
                        continue
                    key = f"{method} {columns} {place} {runs} {arguments.seed}"
                    told, low = parts(key, partial(measured, design, place, columns, method, runs, arguments.seed))
                    hits = [sum(p <= level for p in low) for level in LEVELS]
                    number[design.data] += 1
                    counted[design.data] += [told, runs - told, *hits]
                    for level, rejected in zip(LEVELS, hits, strict=True):
                        # With few answers a rate is not normal: too many must be rare by the binomial law as well.
                        rare = bdtrc(rejected - 1, told, 1.2 * level) < RARE
                        if told and rare and exceeds(rejected, told, level):
                            rate = f"{rejected / told:.4f} of {told} at {level}"
                            about = f"{place}: {method}, {columns} columns, {design}: {rate}"
                            worst.append((rejected / told / level, about))
                for kind, (told_, none, *hits_) in counted.items():
                    rates = [hit / max(told_, 1) for hit in hits_]
                    failed |= any(exceeds(h, max(told_, 1), a) for h, a in zip(hits_, LEVELS, strict=True))
                    row(
                        columns, kind, number[kind], f"{told_:,}", f"{none / max(told_ + none, 1):.0%}",
                        *(f"{rate:.4f}" for rate in rates),
                    )  # fmt: skip
    for _, text in sorted(worst, reverse=True)[:40]:
        print(text)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
