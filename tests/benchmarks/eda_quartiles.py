"""Quartiles of real columns: from one tree of counts, or each by the exponential mechanism at a third of epsilon.

    python tests/benchmarks/eda_quartiles.py --adult adult.csv

The columns of `eda_tables.py`, of which the number of rows is public, with both ways of `eda_quantiles.py` on the
grids that `view.quantile` would take, and the way that it takes. An error is the mean absolute difference from the
table's own quartiles, in standard deviations of the column, with its standard error. Which is better is said where
they differ by more than three standard errors and by a thousandth.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from eda_quantiles import asked_by, by_tree, counted, each_alone
from eda_tables import tables
from results import recorded

from dfprivacy import Column
from dfprivacy_eda.quantiles import selects_separately
from dfprivacy_eda.tree import choose_intervals

EPSILONS = (0.1, 0.5, 1.0)
Q = np.array([0.25, 0.5, 0.75])
LITTLE = 1e-3  # standard deviations


def main() -> None:
    """Simulate, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", type=Path, help="the UCI Adult table, adult.data")
    parser.add_argument("--runs", type=int, default=400)
    asked = parser.parse_args()
    rng = np.random.default_rng(1)
    with recorded(
        "eda_quartiles", "column", "rows", "step", "ε", "n ε", "tree", "each alone", "better", "taken"
    ) as row:
        for table in tables(asked.adult):
            for name, (low, high) in table.bounds.items():
                x, step = np.clip(table.frame[name].to_numpy(dtype=float), low, high), table.steps.get(name)
                column = Column(name, bounds=(low, high), fill=low)
                truth = np.quantile(x, Q, method="lower")
                for epsilon in EPSILONS:
                    plan = choose_intervals(column, step, len(x) * epsilon)
                    middles = np.clip(plan.low + plan.step * (np.arange(plan.sizes[-1]) + 0.5), low, high)
                    leaves, _ = counted(x, plan)
                    trees = [by_tree(x, step, [Q], epsilon, rng, column)[0] for _ in range(asked.runs)]
                    alone = [middles[each_alone(leaves, Q, epsilon, rng)] for _ in range(asked.runs)]
                    off = [abs(np.array(each) - truth).mean(axis=1) / x.std() for each in (trees, alone)]
                    means, errors = zip(
                        *((each.mean(), each.std() / math.sqrt(asked.runs)) for each in off), strict=True
                    )
                    clear = abs(means[0] - means[1]) > max(3 * math.hypot(*errors), LITTLE)
                    row(
                        f"{table.name}: {name}",
                        f"{len(x):,}",
                        "none" if step is None else f"{step:g}",
                        f"{epsilon:g}",
                        f"{len(x) * epsilon:,.0f}",
                        *(f"{mean:.4f} ± {error:.4f}" for mean, error in zip(means, errors, strict=True)),
                        ("tree" if means[0] < means[1] else "each alone") if clear else "–",
                        "each alone"
                        if selects_separately(asked_by(len(x), epsilon), column, Q, step, None)
                        else "tree",
                    )


if __name__ == "__main__":
    main()
