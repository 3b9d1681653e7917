"""How often the intervals of a kernel mean embedding hold the mean over the table's rows, and how wide they are.

    python tests/benchmarks/kme_coverage.py               # 500 releases of one table with each noise

100 000 rows of ten Gaussian clusters in the plane (Balog et al. 2018, appendix B), bounds [0, 200],
lengthscale 100.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
import pandas as pd
from kme_release import rows_of

import dfprivacy as dp
from dfprivacy.features import ProductKernel
from dfprivacy.testing.noise import seeded_noise

NAMES = ["x", "y"]
KERNEL = ProductKernel([dp.Column(name, bounds=(0.0, 200.0)) for name in NAMES], 100.0)
FUNCTIONS = {
    "kernel at (110, 90)": lambda r: KERNEL(np.column_stack([r["x"], r["y"]]), np.array([[110.0, 90.0]]))[:, 0],
    "x": lambda r: r["x"],
    "x²": lambda r: r["x"] ** 2,
    "cos(x / 60)": lambda r: np.cos(r["x"] / 60),
    "1 / (1 + exp((100 - x) / 10))": lambda r: 1 / (1 + np.exp((100 - r["x"]) / 10)),
    "x > 100": lambda r: r["x"] > 100,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=500)
    count = parser.parse_args().releases
    rows = pd.DataFrame(rows_of(2, 0), columns=NAMES)
    truth = {name: float(np.mean(f(rows))) for name, f in FUNCTIONS.items()}
    terms = {"epsilon": 100, "delta": 1e-3, "ledger": "memory:", "bounds": dict.fromkeys(NAMES, (0, 200))}
    print(f"{count} releases each.\n")
    print("| noise | function | mean over the rows | coverage | half width | rmse of the value | estimable |")
    print("|---|---|---|---|---|---|---|")
    for noise, asked in {
        "Gaussian, ε = 0.1, δ = 1e-6": {"epsilon": 0.1, "delta": 1e-6},
        "Laplace, ε = 1": {"epsilon": 1, "delta": 0, "n_points": 64},
    }.items():
        found = {name: [] for name in FUNCTIONS}
        for seed, batch in itertools.groupby(range(count), lambda i: i // 100):
            view = dp.protect(rows, f"coverage-{noise}-{seed}", **terms)
            for i in batch:
                with seeded_noise(i):
                    release = view.kme_release(NAMES, lengthscale=100, fresh=True, **asked)
                for name, f in FUNCTIONS.items():
                    found[name].append(release.expectation(f))
        for name, answers in found.items():
            value, low, high, estimable = np.array(answers, dtype=float).T
            covered = np.mean((low <= truth[name]) & (truth[name] <= high))
            half, rmse = np.mean(high - low) / 2, np.sqrt(np.mean((value - truth[name]) ** 2))
            known = "yes" if estimable.mean() > 0.5 else "no"
            print(
                f"| {noise} | {name} | {truth[name]:.5g} | {covered:.3f} | {half:.2g} | {rmse:.2g} | {known} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
