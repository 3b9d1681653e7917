"""Coverage of the intervals of ``moments``, estimate ± 1.96 standard errors, over designs drawn at random.

    python tests/benchmarks/moments_coverage.py --runs 500

Two columns are made of each of the designs of `designs.py`: the second repeats the first in a share r of the rows,
and is drawn anew in the others, so that both are distributed alike and their correlation is r, 0.7 or 0. Missing
values leave out rows. The noise is numpy's continuous Gaussian instead of the library's discrete one: that is fine
here, where nothing is private. Prints and keeps the coverage by kind of data and by epsilon: the mean over the
designs, and the least. Where there is no correlation because a variance may be all noise, there is no interval to
miss. Exits with status 1 if an interval misses more often than in 6% of the tables of some design, where the method
does not say itself that the rows are few.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from typing import TYPE_CHECKING

import numpy as np
from designs import DATA, Design, designs, exceeds
from results import recorded

from dfprivacy._privacy.conversions import gaussian_unit_scale
from dfprivacy_gmm.estimates import estimate_moments
from dfprivacy_gmm.sums import Sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

DELTA = 1e-6
CORRELATIONS = (0.7, 0.0)
WHAT = ("mean", "variance", "covariance", "correlation")
EPSILONS = ((0.02, 0.1), (0.1, 1.0), (1.0, 10.0), (10.0, 50.0))
FAIRLY = 2.0**0.5  # r, of two columns
Z = 1.959963984540054
TINY = 1e-12  # of rounding
NOTED = 0.5  # of the tables of a design
COMPLETE = 200  # designs from which the tables are kept


def sums(design: Design, correlation: float, runs: int, rng: np.random.Generator) -> Sums:
    """Noisy sums of so many tables, each a group."""
    n, half, mid = sum(design.sizes), (design.high - design.low) / 2, (design.high + design.low) / 2
    sizes, totals, products = np.empty(runs), np.empty((runs, 2)), np.empty((runs, 2, 2))
    for run in range(runs):
        x, z = (np.clip(DATA[design.data](rng, n), design.low, design.high) for _ in range(2))
        y = np.array([x, np.where(rng.random(n) < correlation, x, z)])
        if any(design.missing):
            y = y[:, (rng.random((2, n)) >= np.array(design.missing)[:, None]).all(axis=0)]
        y = (y - mid) / half
        sizes[run], totals[run], products[run] = y.shape[1], y.sum(axis=1), y @ y.T
    replaced = design.neighbors == "replace_one"
    sd = gaussian_unit_scale(design.epsilon, DELTA) * FAIRLY * (math.sqrt(4.5) if replaced else 1.5)
    size_sd = sd / FAIRLY / (math.sqrt(2.5) if replaced else 0.5)
    product_sd = sd * FAIRLY * np.array([[1, math.sqrt(0.5)], [math.sqrt(0.5), 1]])
    noise = rng.standard_normal((runs, 2, 2)) * product_sd
    noise[:, 1, 0] = noise[:, 0, 1]
    totals += sd * rng.standard_normal((runs, 2))
    return Sums(sizes + size_sd * rng.standard_normal(runs), totals, products + noise, size_sd, sd, product_sd)


def truth(design: Design) -> tuple[float, float]:
    """Mean and variance of a clipped value, in units of y."""
    drawn = np.clip(DATA[design.data](np.random.default_rng(0), 2_000_000), design.low, design.high)
    half, mid = (design.high - design.low) / 2, (design.high + design.low) / 2
    return float((drawn.mean() - mid) / half), float(drawn.var() / half**2)


def misses(design: Design, correlation: float, runs: int, rng: np.random.Generator) -> tuple[Array, float, float]:
    """Shares of tables of which an interval misses; that have a correlation; that are noted as small."""
    mean, variance = truth(design)
    own = estimate_moments(sums(design, correlation, runs, rng))
    covariances, errors = own.covariances, own.covariance_errors()
    diagonal = (slice(None), range(2), range(2))
    intervals = (
        (own.means, own.mean_errors(), mean),
        (covariances[diagonal], errors[diagonal], variance),
        (covariances[:, 0, 1], errors[:, 0, 1], correlation * variance),
        (own.correlations()[:, 0, 1], own.correlation_errors()[:, 0, 1], correlation),
    )
    rates = [np.mean(np.abs(estimate - true) > Z * error + TINY) for estimate, error, true in intervals]
    told = np.isfinite(own.correlations()[:, 0, 1])
    return np.array(rates), float(told.mean()), float(own.has_few_rows().mean())


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="tables for each design and correlation")
    parser.add_argument("--designs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng, runs = np.random.default_rng(arguments.seed), arguments.runs
    cells = list(itertools.product(designs(arguments.designs), CORRELATIONS))
    found = [misses(*cell, runs, rng) for cell in cells]
    rates = np.array([rate for rate, *_ in found])
    told, few = np.array([shares for _, *shares in found]).T
    over = np.array([[exceeds(round(rate * runs), runs, 0.05) for rate in row] for row in rates])
    slices = {name: [design.data == name for design, _ in cells] for name in DATA}
    slices |= {f"{low:g} ≤ ε < {high:g}": [low <= d.epsilon < high for d, _ in cells] for low, high in EPSILONS}
    heads = [f"{what}: {each}" for what in WHAT for each in ("average", "least")]
    complete = arguments.designs >= COMPLETE
    with recorded(
        "moments_coverage", "designs", "tables", *heads, "with a correlation", "noted as small", keep=complete
    ) as row:
        for name, mask in {"all": [True] * len(cells), **slices}.items():
            own = rates[mask]
            shares = [
                f"{1 - share:.3f}" for pair in zip(own.mean(axis=0), own.max(axis=0), strict=True) for share in pair
            ]
            row(name, sum(mask), *shares, f"{told[mask].mean():.0%}", f"{few[mask].mean():.0%}")
    for (design, correlation), rate, where, small in zip(cells, rates, over, few, strict=True):
        if where.any():
            shown = ", ".join(f"{what} {1 - share:.3f}" for what, share in zip(WHAT, rate, strict=True))
            print(f"below: {design}, r = {correlation}, noted as small {small:.0%}: {shown}")
    return int(over[few < NOTED].any())


if __name__ == "__main__":
    sys.exit(main())
