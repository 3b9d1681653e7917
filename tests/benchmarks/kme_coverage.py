"""How often the intervals of a kernel mean embedding hold the mean over the table's rows, and how wide they are.

    python tests/benchmarks/kme_coverage.py               # 500 draws of each noise for one table

100 000 rows of ten Gaussian clusters in the plane (Balog et al. 2018, appendix B), bounds [0, 200],
lengthscale 100.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from kme_release import mean_of, rows_of
from results import recorded

import dfprivacy as dp
from dfprivacy.features import ProductKernel
from dfprivacy.testing import seeded_noise
from dfprivacy_kme.release import _RIDGES, grid_rows

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


def linear(release, f):
    """The public vector, constant and half width of an interval, as `expectation` chooses them."""
    psi, left, s, right = release._grid_features
    values = release._function_values(f, grid_rows(release._feature_space))
    centre = (values.min() + values.max()) / 2
    path = np.array([right.T @ (s / (s**2 + ridge) * (left.T @ (values - centre))) for ridge in _RIDGES])
    half = np.abs(psi @ path.T + centre - values[:, None]).max(axis=0)
    counted = np.abs(psi @ path.T).max(axis=0)
    half += [release._noise_bound(a, top, 0.95) for a, top in zip(path, counted, strict=True)]
    return path[np.argmin(half)], centre, half.min()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=500)
    count = parser.parse_args().draws
    table = rows_of(2, 0)
    rows = pd.DataFrame(table, columns=NAMES)
    rng = np.random.default_rng(0)
    print(f"{count} draws of the noise.\n")
    with recorded("kme_coverage", "noise", "function", "mean over the rows", "coverage", "half width") as row:
        for noise, asked in {
            "Gaussian, ε = 0.1, δ = 1e-6": {"epsilon": 0.1, "delta": 1e-6},
            "Laplace, ε = 1": {"epsilon": 1, "delta": 0, "n_points": 64},
        }.items():
            view = dp.protect(
                rows, noise, epsilon=10, delta=1e-3, ledger="memory:", bounds=dict.fromkeys(NAMES, (0, 200))
            )
            with seeded_noise(0):
                release = view.kme_release(NAMES, lengthscale=100, **asked)
            alpha = mean_of(release._feature_space.features, table)
            draw = rng.normal if release.noise_kind == "gaussian" else rng.laplace
            unit = 1 if release.noise_kind == "gaussian" else 1 / np.sqrt(2)
            noise_of_sums = draw(0, release.noise_standard_error * release.size * unit, size=(count, len(alpha)))
            sizes = len(table) + draw(0, release.missing_standard_error * unit, size=(count, 1))
            betas = (len(table) * alpha + noise_of_sums) / sizes
            for name, f in FUNCTIONS.items():
                a, centre, half = linear(release, f)
                truth = float(np.mean(f(rows)))
                covered = np.mean(np.abs(betas @ a + centre - truth) <= half)
                row(noise, name, f"{truth:.5g}", f"{covered:.3f}", f"{half:.2g}")


if __name__ == "__main__":
    main()
