"""What the kernel test loses where it tells the spread of many rows from a sample of them.

    python tests/benchmarks/kernel_sample.py --runs 40

Two groups of 65,536 rows of the designs of `kernel_level`, all from one distribution. The critical value at 5% is
computed from the moments of the sample that is drawn at ε = 1 and from those of all rows, both without noise. The
level is the chance that the null law of the moments of all rows gives to the critical value of the sample, in the
mean of all runs. The power is the share of rejections at ε = 1, noise included, of both with the same separations,
between .8 and 1.4 times the critical value. Exits with status 1 if a level is above
5.2%, or a power lower by more than two standard errors of the difference and half a percent.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace

import numpy as np
from kernel_level import designs, measured
from results import recorded

from dfprivacy import Column
from dfprivacy._table.batch import Batch
from dfprivacy_kernel import law
from dfprivacy_kernel.design import Design, Groups
from dfprivacy_kernel.statistics import Spread, sampled_share

ROWS, NOISES = 1 << 16, 40
BY = Column("group", categories=("a", "b"), public=True)
LEVEL_MAX, LOSS_MAX = 0.052, 0.005


def batch(rows, columns):
    """Give rows as features read them."""
    made = Batch(len(rows), {})
    for values, column in zip(rows.T, columns, strict=True):
        made._missing[column] = np.zeros(len(rows), dtype=np.bool_)
        if column.bounds is None:
            made._encoded[column] = values.astype(np.intp)
        else:
            made._cleaned[column] = np.clip(values, column.low, column.high)
    made._encoded[BY] = np.repeat([0, 1], len(rows) // 2)
    return made


def noisy(apart, spread, sizes, part, rng):
    """What the mechanism would measure at ε = 1, of the spread of a part of the rows."""
    exact = measured((apart, spread * part), *sizes, 1.0, rng)  # the moments of the part, as noise comes to them
    return replace(exact, spread=exact.spread / part, spread_scales=exact.spread_scales / part)


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40, help="data sets a design (default: 40)")
    parser.add_argument("--only", default="", help="designs whose name contains this")
    arguments = parser.parse_args()
    law._POINTS = 2**10
    failed = False
    sizes = (ROWS, ROWS)
    zeros = np.zeros(3)
    heads = ("design", "share drawn", "level", "power of all rows", "of the sample")
    with recorded("kernel_sample", *heads, keep=not arguments.only) as row:
        for place, (name, (columns, _, draw)) in enumerate(designs().items()):
            if arguments.only not in name or "unequal" in name:
                continue
            rng = np.random.default_rng([2026, place])
            embedding = Design.from_arguments(columns, "nystrom", None, 0.5, None, 200).embedding()
            groups = Groups(BY, ("a", "b"), sizes, (), sizes)
            share = sampled_share(groups, embedding, 1.0)
            levels, rejected = [], []
            for _ in range(arguments.runs):
                rows = batch(draw(rng, 2 * ROWS), columns)
                spreads = []
                for part in (1.0, share):
                    asked = Spread(groups, embedding, part)
                    spreads.append(asked.value(rows) / asked.weights)
                laws = [
                    law.MMDMeasurement(0.0, 0.0, spread, zeros, sizes).null_law(still=True) for spread in spreads
                ]
                whole, sample = (float(each.quantile(0.95)[0]) for each in laws)
                levels.append(float(laws[0].moments.tail(np.array(sample**2 / laws[0].factor[0]))[0]))
                for apart in whole * ROWS / 2 * rng.uniform(0.8, 1.4, NOISES):
                    seed = int(rng.integers(1 << 32))
                    both = [
                        noisy(apart, spread, sizes, part, np.random.default_rng(seed))
                        for spread, part in zip(spreads, (1.0, share), strict=True)
                    ]
                    rejected.append([each.pvalue <= 0.05 for each in both])
            power = np.mean(rejected, axis=0)
            loss = np.diff(np.array(rejected, dtype=float), axis=1)
            slack = 2 * float(loss.std()) / math.sqrt(len(loss)) + LOSS_MAX
            failed |= np.mean(levels) > LEVEL_MAX or -float(loss.mean()) > slack
            row(name, f"{share:.2f}", f"{np.mean(levels):.4f}", f"{power[0]:.3f}", f"{power[1]:.3f}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
