"""How close are private kernel mean embeddings to the table's: the two scenarios of Balog et al. (2018).

    python tests/benchmarks/kme_release.py                # 5 tables for each number of columns
    python tests/benchmarks/kme_release.py --check        # and exit with status 1 if a goal is missed

N = 100 000 rows of ten Gaussian clusters (their appendix B), D = 2 and 5, epsilon .01, .1 and 1, delta 1e-6.
Distances in the kernel's space, by an exact basis, mean over the tables.

With a public sample of M rows: the sample itself, their Algorithm 1 with their noise, ours, and the root mean
squared error of the best linear estimate from sample and noisy embedding, which would know the rows' covariance.
Without: Algorithm 1 at M points drawn around 0 with the standard deviation 500 or with the variance 500 (their text
can be read in either way); Algorithm 2 with 1000 features and the points fitted as ours are; ours. "A1, even" is
beyond the paper: its Algorithm 1 at points that cover the bounds [0, 200] evenly, as ours do. The goals are 1.3
times what a prototype of ours reached, and a quarter of the paper's Algorithm 1 at D = 2.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys

import numpy as np
import pandas as pd
from expansion import Expansion
from results import recorded

import dfprivacy as dp
from dfprivacy._privacy.conversions import gaussian_unit_scale
from dfprivacy.features import Fourier, Nystrom, ProductKernel, gaussian_frequencies, spread
from dfprivacy.testing import seeded_noise
from dfprivacy_kme import simplex
from dfprivacy_kme.embedding import Space

N, DELTA = 100_000, 1e-6
EPSILONS = (0.01, 0.1, 1.0)
DEGREE = {2: 20, 5: 7}
SIZES, J = (30, 100, 300, 1000), 1000
SPREAD = 1.3
PROTOTYPE = {  # by D and epsilon: with M public rows, and with none
    (2, 0.01): {30: 0.0095, 100: 0.0043, 300: 0.0032, 1000: 0.0046, None: 0.0087},
    (2, 0.1): {30: 0.0014, 100: 0.00094, 300: 0.00084, 1000: 0.00092, None: 0.0013},
    (2, 1.0): {30: 0.00022, 100: 0.00018, 300: 0.00014, 1000: 0.00014, None: 0.00019},
    (5, 0.01): {30: 0.0097, 100: 0.0088, 300: 0.0066, 1000: 0.0053, None: 0.0168},
    (5, 0.1): {30: 0.0033, 100: 0.0016, 300: 0.0015, 1000: 0.0014, None: 0.0028},
    (5, 1.0): {30: 0.0012, 100: 0.00033, 300: 0.00025, 1000: 0.00026, None: 0.00041},
}


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


def best_linear(variances, epsilon):
    """Root of its mean squared error, with the analytic Gaussian mechanism's noise for the distance √2."""
    noise = (math.sqrt(2) / N * gaussian_unit_scale(epsilon, DELTA)) ** 2
    return math.sqrt(np.sum(variances * noise / (variances + noise)))


class Truth:
    """Distances from the table's embedding."""

    def __init__(self, kernel, rows, D):
        self.kernel, self.rows = kernel, rows
        self.basis = Expansion(kernel, DEGREE[D])
        self.mu = mean_of(self.basis.features, rows)

    def of_points(self, points, weights):
        return float(np.linalg.norm(weights @ self.basis.features(points) - self.mu))

    def variances(self):
        """Variances of the rows' features along their principal axes."""
        return np.maximum(np.linalg.eigvalsh(np.cov(self.basis.features(self.rows[:20_000]).T)), 0)

    def algorithm_1(self, points, epsilon, rng):
        """Distance of Algorithm 1's weights: what the span misses, and the noise in it."""
        # A domain of its own: points may lie far outside the bounds.
        low, high = min(0.0, points.min()), max(200.0, points.max())
        wide = tuple(dp.Column(c.name, bounds=(low, high)) for c in self.kernel.columns)
        space_kernel = ProductKernel(wide, self.kernel.lengthscales[0])
        space = Space.from_kernel(Nystrom(space_kernel, points, 1e-10), space_kernel)
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
    """Distances for one table: {(epsilon, M or None): {method: distance}}."""
    rows = rows_of(D, seed)
    names = [f"x{i}" for i in range(D)]
    gamma = 1e-4 / D
    kernel = ProductKernel([dp.Column(name, bounds=(0.0, 200.0)) for name in names], 1 / math.sqrt(2 * gamma))
    truth = Truth(kernel, rows, D)
    rng = np.random.default_rng([D, seed, 1])
    view = dp.protect(
        pd.DataFrame(rows, columns=names),
        f"benchmark-{D}-{seed}",
        epsilon=50,
        delta=1e-3,
        ledger="memory:",
        bounds=dict.fromkeys(names, (0, 200)),
    )

    def ours(epsilon, **asked):
        with seeded_noise(seed):
            found = view.kme_release(names, gamma=gamma, epsilon=epsilon, delta=DELTA, **asked)
        return truth.of_points(found.locations, found.weights)

    spread_of_one = truth.variances()
    found = {}
    for epsilon in EPSILONS:
        found[epsilon, None] = {"A2": truth.algorithm_2(epsilon, rng), "ours": ours(epsilon)}
    for M in SIZES:
        sample = rows[rng.choice(N, M, replace=False)]
        direction = rng.standard_normal((M, D))
        even = spread(kernel.columns, M)
        for epsilon in EPSILONS:
            found[epsilon, M] = {
                "sample": truth.of_points(sample, np.full(M, 1 / M)),
                "best linear": best_linear(spread_of_one / M, epsilon),
                "A1": truth.algorithm_1(sample, epsilon, rng),
                "ours": ours(epsilon, points=pd.DataFrame(sample, columns=names), represent="bayes"),
                "A1, sd 500": truth.algorithm_1(500 * direction, epsilon, rng),
                "A1, var 500": truth.algorithm_1(math.sqrt(500) * direction, epsilon, rng),
                "A1, even": truth.algorithm_1(even, epsilon, rng),
            }
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=5)
    parser.add_argument("--columns", type=int, nargs="+", default=[2, 5], choices=[2, 5])
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a goal is missed")
    said = parser.parse_args()
    missed = 0
    for D in said.columns:
        tables = [one(D, seed) for seed in range(said.tables)]
        means = {
            cell: {method: float(np.mean([table[cell][method] for table in tables])) for method in tables[0][cell]}
            for cell in tables[0]
        }
        print(f"\nD = {D}, a public sample of M rows, {said.tables} tables\n")
        methods = ("sample", "A1", "best linear", "ours")
        with recorded(f"kme_release_{D}_public", "M", "ε", *methods, "goal") as row:
            for M, epsilon in itertools.product(SIZES, EPSILONS):
                cell, goal = means[epsilon, M], SPREAD * PROTOTYPE[D, epsilon][M]
                row(M, f"{epsilon:g}", *(f"{cell[name]:.2g}" for name in methods), judged(cell["ours"], goal))
                missed += cell["ours"] > goal
        print(f"\nD = {D}, no public rows, {said.tables} tables\n")
        methods = ("A1, sd 500", "A1, var 500", "A1, even")
        heads = ("M", "ε", *methods, "A2", "ours", "A1 / ours, at least", "goal")
        with recorded(f"kme_release_{D}", *heads) as row:
            for M, epsilon in itertools.product(SIZES, EPSILONS):
                a1 = [means[epsilon, M][name] for name in methods]
                mine, goal = means[epsilon, None]["ours"], SPREAD * PROTOTYPE[D, epsilon][None]
                shown = (f"{value:.2g}" for value in (*a1, means[epsilon, None]["A2"], mine))
                least = min(a1[:2]) / mine
                row(M, f"{epsilon:g}", *shown, f"{least:.1f}", judged(mine, goal))
                missed += mine > goal or (D == 2 and least < 4)
    return int(missed > 0 and said.check)


def judged(value, goal):
    return f"≤ {goal:.2g}: {'yes' if value <= goal else '**no**'}"


if __name__ == "__main__":
    sys.exit(main())
