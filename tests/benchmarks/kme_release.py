"""How close are private kernel mean embeddings to the table's: the two scenarios of Balog et al. (2018).

N = 100 000 rows of ten Gaussian clusters (their Appendix B), D = 2 and 5, epsilon .01, .1, 1, delta 1e-6.
Distances in the kernel's space, by an exact basis, mean over the seeds.

- with a public sample of M rows: their Algorithm 1 with their noise, ours ("bayes"), and the sample itself;
- with none: Algorithm 1 at M points drawn with the standard deviation 500 around 100, and at evenly spread
  points within [0, 200]; Algorithm 2 with J features, projected to the hull; ours.

Usage: ``python tests/benchmarks/kme_release.py [SEEDS]``.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import pandas as pd

import dfprivacy as dp
from dfprivacy.features import Fourier, Nystrom, ProductKernel, Taylor, gaussian_frequencies, spread
from dfprivacy.testing.noise import seeded_noise
from dfprivacy_kme import simplex
from dfprivacy_kme.embedding import Space

N, DELTA = 100_000, 1e-6
EPSILONS = (0.01, 0.1, 1.0)
DEGREE = {2: 20, 5: 7}
PUBLIC, J = 300, 1000


def rows_of(D, seed):
    rng = np.random.default_rng([D, seed])
    means = 100 + np.sqrt(200) * rng.standard_normal((10, D))
    shares = 1 / np.arange(1, 11)
    of = rng.choice(10, N, p=shares / shares.sum())
    return np.clip(means[of] + np.sqrt(30) * rng.standard_normal((N, D)), 0, 200)


def mean_of(features, rows):
    """Mean feature, some thousand rows at a time."""
    return sum(features(part).sum(axis=0) for part in np.array_split(rows, 50)) / len(rows)


def classical(epsilon):
    """Noise of the paper: sensitivity 2, and the classical Gaussian mechanism."""
    return 2 / N * math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon


class Truth:
    """Distances from the table's embedding."""

    def __init__(self, kernel, rows, D):
        self.kernel, self.rows = kernel, rows
        self.basis = Taylor(kernel, DEGREE[D])
        self.mu = mean_of(self.basis.features, rows)

    def of_points(self, points, weights):
        return float(np.linalg.norm(weights @ self.basis.features(points) - self.mu))

    def algorithm_1(self, points, epsilon, rng):
        """Distance of Algorithm 1's weights: what the span misses, and the noise in it."""
        # A domain of its own: points may lie far outside the bounds.
        low, high = min(0.0, points.min()), max(200.0, points.max())
        wide = tuple(dp.Column(c.name, bounds=(low, high)) for c in self.kernel.columns)
        space_kernel = ProductKernel(wide, self.kernel.lengthscales[0])
        space = Space.of(Nystrom(space_kernel, points, 1e-10), space_kernel)
        alpha = mean_of(space.features, self.rows)
        noise = classical(epsilon) * rng.standard_normal(len(alpha))
        return math.sqrt(max(0.0, self.mu @ self.mu - alpha @ alpha) + noise @ noise)

    def algorithm_2(self, epsilon, rng):
        """Distance of weighted candidates, fitted in random features as Algorithm 2 does."""
        features = Fourier(self.kernel.columns, gaussian_frequencies(self.kernel.lengthscales, J // 2))
        sigma = classical(epsilon)
        beta = mean_of(features.features, self.rows) + sigma * rng.standard_normal(J)
        candidates = spread(self.kernel.columns, 1024)
        return self.of_points(candidates, simplex(features.features(candidates), beta, 1e-3 * sigma**2))


def one(D, seed):
    """All columns for one table, by epsilon."""
    rows = rows_of(D, seed)
    names = [f"x{i}" for i in range(D)]
    gamma = 1e-4 / D
    kernel = ProductKernel([dp.Column(name, bounds=(0.0, 200.0)) for name in names], 1 / math.sqrt(2 * gamma))
    truth = Truth(kernel, rows, D)
    rng = np.random.default_rng([D, seed, 1])
    sample = rows[rng.choice(N, PUBLIC, replace=False)]
    far = 100 + 500 * rng.standard_normal((PUBLIC, D))
    even = spread(kernel.columns, PUBLIC)
    view = dp.protect(
        pd.DataFrame(rows, columns=names),
        f"benchmark-{D}-{seed}",
        epsilon=50,
        delta=1e-3,
        ledger="memory:",
        bounds=dict.fromkeys(names, (0, 200)),
    )
    found = {}
    for epsilon in EPSILONS:
        asked = {"gamma": gamma, "epsilon": epsilon, "delta": DELTA}
        points = {name: sample[:, i].tolist() for i, name in enumerate(names)}
        with seeded_noise(seed):
            bayes = view.kme_release(names, points=points, represent="bayes", **asked)
            ours = view.kme_release(names, **asked)
        found[epsilon] = {
            "public: sample": truth.of_points(sample, np.full(PUBLIC, 1 / PUBLIC)),
            "public: A1": truth.algorithm_1(sample, epsilon, rng),
            "public: ours": truth.of_points(bayes.locations, bayes.weights),
            "none: A1, sd 500": truth.algorithm_1(far, epsilon, rng),
            "none: A1, even": truth.algorithm_1(even, epsilon, rng),
            "none: A2": truth.algorithm_2(epsilon, rng),
            "none: ours": truth.of_points(ours.locations, ours.weights),
        }
    return found


def main(seeds):
    for D in (2, 5):
        tables = [one(D, seed) for seed in range(seeds)]
        print(f"\nD = {D}, M = {PUBLIC}, {seeds} tables")
        names = list(tables[0][EPSILONS[0]])
        print(f"{'epsilon':>8}", *(f"{name:>18}" for name in names))
        for epsilon in EPSILONS:
            means = (np.mean([table[epsilon][name] for table in tables]) for name in names)
            print(f"{epsilon:>8}", *(f"{mean:>18.5f}" for mean in means), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
