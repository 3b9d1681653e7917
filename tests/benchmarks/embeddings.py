"""How close private kernel mean embeddings are to the table's, how often their intervals hold, and what they keep.

    python tests/benchmarks/embeddings.py kme_release_2 --runs 5

Distances are in the kernel's space, by an exact basis. The tables are those of Balog et al. (2018, appendix B):
100,000 rows of ten Gaussian clusters, with bounds [0, 200]; δ = 1e-6.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from expansion import Expansion
from harness import Array, Rng, Rows, Tables, met, problem, protected
from real import ADULT, read
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import mannwhitneyu

import dfprivacy as dp
from dfprivacy._privacy.conversions import gaussian_unit_scale
from dfprivacy.features import Fourier, Nystrom, ProductKernel, gaussian_frequencies, spread
from dfprivacy.testing import seeded_noise
from dfprivacy_kme import simplex
from dfprivacy_kme.embedding import Space
from dfprivacy_kme.mechanisms import classical_scale

tables = Tables(__doc__)
N, DELTA, EPSILONS, SIZES, J = 100_000, 1e-6, (0.01, 0.1, 1.0), (30, 100, 300, 1000), 1000
PROTOTYPE = {  # what one of ours reached, by D and epsilon, and M public rows; goals are 1.3 times it
    (2, 0.01): {30: 0.0095, 100: 0.0043, 300: 0.0032, 1000: 0.0046, None: 0.0087},
    (2, 0.1): {30: 0.0014, 100: 0.00094, 300: 0.00084, 1000: 0.00092, None: 0.0013},
    (2, 1.0): {30: 0.00022, 100: 0.00018, 300: 0.00014, 1000: 0.00014, None: 0.00019},
    (5, 0.01): {30: 0.0097, 100: 0.0088, 300: 0.0066, 1000: 0.0053, None: 0.0168},
    (5, 0.1): {30: 0.0033, 100: 0.0016, 300: 0.0015, 1000: 0.0014, None: 0.0028},
    (5, 1.0): {30: 0.0012, 100: 0.00033, 300: 0.00025, 1000: 0.00026, None: 0.00041},
}


def rows_of(D: int, seed: int) -> Array:
    """One of the paper's tables."""
    rng = np.random.default_rng([D, seed])
    means = 100 + np.sqrt(200) * rng.standard_normal((10, D))
    shares = 1 / np.arange(1, 11)
    of = rng.choice(10, N, p=shares / shares.sum())
    return np.clip(means[of] + np.sqrt(30) * rng.standard_normal((N, D)), 0, 200)


def mean_of(features: Callable[[Array], Array], rows: Array, pieces: int = 50) -> Array:
    """Mean feature, some rows at a time."""
    return np.asarray(sum(features(part).sum(axis=0) for part in np.array_split(rows, pieces)) / len(rows))


def kernel_of(D: int) -> ProductKernel:
    """The paper's kernel, exp(-γ|x - y|²) with γ = 1e-4/D."""
    return ProductKernel([dp.Column(f"x{i}", bounds=(0.0, 200.0)) for i in range(D)], math.sqrt(D / 2e-4))


class Truth:
    """Distances from the table's embedding, and private embeddings of it."""

    def __init__(self, D: int, seed: int) -> None:
        self.seed, self.names, self.rows, self.kernel = (
            seed,
            [f"x{i}" for i in range(D)],
            rows_of(D, seed),
            kernel_of(D),
        )
        self.basis = Expansion(self.kernel, {2: 20, 5: 7}[D])
        self.mu = mean_of(self.basis.features, self.rows)

    def of_points(self, points: Array, weights: Array) -> float:
        """Distance of weighted points."""
        return float(np.linalg.norm(weights @ self.basis.features(points) - self.mu))

    @cached_property
    def view(self) -> Any:
        """The table, protected."""
        frame, bounds = pd.DataFrame(self.rows, columns=self.names), dict.fromkeys(self.names, (0, 200))
        return protected(frame, bounds=bounds, delta=0.5)

    def ours(self, epsilon: float, seed: int | None = None, **asked: Any) -> Any:
        """A release of the table."""
        asked = {"gamma": 1e-4 / len(self.names), "epsilon": epsilon, "delta": DELTA, "fresh": True, **asked}
        with seeded_noise(self.seed if seed is None else seed):
            return self.view.kme_release(self.names, **asked)

    def of_ours(self, epsilon: float, **asked: Any) -> float:
        """Distance of a release."""
        found = self.ours(epsilon, **asked)
        return self.of_points(found.locations, found.weights)

    @cached_property
    def variances(self) -> Array:
        """Variances of the rows' features along their principal axes."""
        return np.maximum(np.linalg.eigvalsh(np.cov(self.basis.features(self.rows[:20_000]).T)), 0)

    def best_linear(self, M: int, epsilon: float) -> float:
        """Root mean squared error of the best linear estimate from M public rows and noise for the distance √2."""
        variances, noise = self.variances / M, (math.sqrt(2) / N * gaussian_unit_scale(epsilon, DELTA)) ** 2
        return math.sqrt(np.sum(variances * noise / (variances + noise)))

    def algorithm_1(self, points: Array, epsilon: float, rng: Rng) -> float:
        """Distance of the paper's Algorithm 1, noise as printed: what the span misses, and the noise in it."""
        # A domain of its own: points may lie far outside the bounds.
        ends = min(0.0, points.min()), max(200.0, points.max())
        wide = ProductKernel([dp.Column(name, bounds=ends) for name in self.names], self.kernel.lengthscales[0])
        alpha = mean_of(Space.from_kernel(Nystrom(wide, points, 1e-10), wide).features, self.rows)
        noise = 2 / N * classical_scale(epsilon, DELTA) * rng.standard_normal(len(alpha))
        return math.sqrt(max(0.0, self.mu @ self.mu - alpha @ alpha) + noise @ noise)

    def algorithm_2(self, epsilon: float, rng: Rng) -> float:
        """Distance of weighted candidates, fitted in 1,000 random features as Algorithm 2 does."""
        features = Fourier(self.kernel.columns, gaussian_frequencies(self.kernel.lengthscales, J // 2))
        sigma = 2 / N * classical_scale(epsilon, DELTA)
        beta = mean_of(features.features, self.rows) + sigma * rng.standard_normal(J)
        candidates = spread(self.kernel.columns, 1024)
        return self.of_points(candidates, simplex(features.features(candidates), beta, 1e-3 * sigma**2))


def distances(D: int, seed: int) -> dict[tuple[float, int | None], dict[str, float]]:
    """Distances for one table, by epsilon and M, of each method."""
    truth, rng = Truth(D, seed), np.random.default_rng([D, seed, 1])
    found: dict[tuple[float, int | None], dict[str, float]] = {}
    for epsilon in EPSILONS:
        found[epsilon, None] = {"A2": truth.algorithm_2(epsilon, rng), "ours": truth.of_ours(epsilon)}
    for M in SIZES:
        sample = truth.rows[rng.choice(N, M, replace=False)]
        direction, even = rng.standard_normal((M, D)), spread(truth.kernel.columns, M)
        points = pd.DataFrame(sample, columns=truth.names)
        for epsilon in EPSILONS:
            found[epsilon, M] = {
                "sample": truth.of_points(sample, np.full(M, 1 / M)),
                "best linear": truth.best_linear(M, epsilon),
                "A1": truth.algorithm_1(sample, epsilon, rng),
                "ours": truth.of_ours(epsilon, points=points, represent="bayes"),
                "A1, sd 500": truth.algorithm_1(500 * direction, epsilon, rng),
                "A1, var 500": truth.algorithm_1(math.sqrt(500) * direction, epsilon, rng),
                "A1, even": truth.algorithm_1(even, epsilon, rng),
            }
    return found


def kme_release(D: int, runs: int) -> Rows:
    """Two scenarios: a public sample of M rows, and none, with Algorithm 1 at points around 0, or evenly spread."""
    every = [distances(D, seed) for seed in range(runs)]
    means = {of: {how: float(np.mean([one[of][how] for one in every])) for how in every[0][of]} for of in every[0]}

    def goal(epsilon: float, M: int | None, value: float) -> str:
        most = 1.3 * PROTOTYPE[D, epsilon][M]
        if value > most:
            problem(f"D = {D}, M = {M}, ε = {epsilon}: {value:.2g} where {most:.2g} was hoped for")
        return f"≤ {most:.2g}: {met(value <= most)}"

    for M, epsilon in itertools.product(SIZES, EPSILONS):
        shown = (f"{means[epsilon, M][how]:.2g}" for how in ("sample", "A1", "best linear", "ours"))
        yield f"kme_release_{D}_public", M, f"{epsilon:g}", *shown, goal(epsilon, M, means[epsilon, M]["ours"])
    for M, epsilon in itertools.product(SIZES, EPSILONS):
        mine, a1 = means[epsilon, None]["ours"], [means[epsilon, M][how] for how in A1]
        shown = [f"{value:.2g}" for value in (*a1, means[epsilon, None]["A2"], mine)]
        if D == 2:
            shown.append(f"{min(a1[:2]) / mine:.1f}")
        yield f"kme_release_{D}", M, f"{epsilon:g}", *shown[0 if D == 2 else 2 :], goal(epsilon, None, mine)


A1 = ("A1, sd 500", "A1, var 500", "A1, even")
of_two, of_five = (
    (*A1, "A2", "ours", "A1 / ours, at least"),
    ("A1, even", "A2", "ours"),
)  # others are at .08 and more
for D, runs, methods in ((2, 5, of_two), (5, 3, of_five)):
    heads = {f"kme_release_{D}_public": ("M", "ε", "sample", "A1", "best linear", "ours", "goal")}
    heads[f"kme_release_{D}"] = ("M", "ε", *methods, "goal")
    tables.add(name=f"kme_release_{D}", **heads)(partial(kme_release, D, runs=runs))


# Intervals

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "kernel at (110, 90)": lambda r: kernel_of(2)(np.column_stack([r["x0"], r["x1"]]), np.array([[110.0, 90.0]])).T[
        0
    ],
    "x": lambda r: r["x0"],
    "x²": lambda r: r["x0"] ** 2,
    "cos(x / 60)": lambda r: np.cos(r["x0"] / 60),
    "1 / (1 + exp((100 - x) / 10))": lambda r: 1 / (1 + np.exp((100 - r["x0"]) / 10)),
    "x > 100": lambda r: r["x0"] > 100,
}
NOISES: dict[str, dict[str, Any]] = {
    "Gaussian, ε = 0.1, δ = 1e-6": {"epsilon": 0.1},
    "Laplace, ε = 1": {"epsilon": 1, "delta": 0, "n_points": 64},
}


@tables.add("noise", "function", "mean over the rows", "coverage", "half width")
def kme_coverage(runs: int = 500) -> Rows:
    """How often the intervals of one table hold the mean over the rows, over draws of the noise."""
    truth = Truth(2, 0)
    rows = pd.DataFrame(truth.rows, columns=truth.names)
    exact = {name: float(np.mean(f(rows))) for name, f in FUNCTIONS.items()}
    for noise, asked in NOISES.items():
        releases = (truth.ours(**asked, seed=seed) for seed in range(runs))
        told = [{name: release.expectation(f) for name, f in FUNCTIONS.items()} for release in releases]
        for name, mean in exact.items():
            ends = np.array([(each[name].low, each[name].high) for each in told], dtype=float)
            covered = np.mean((ends[:, 0] <= mean) & (mean <= ends[:, 1]))
            yield noise, name, f"{mean:.5g}", f"{covered:.3f}", f"{np.median(np.diff(ends)) / 2:.2g}"


# The Adult table

BOUNDS = {"age": (17, 90), "fnlwgt": (0, 1_000_000), "education_num": (1, 16), "capital_gain": (0, 100_000)}
BOUNDS |= {"capital_loss": (0, 5_000), "hours_per_week": (1, 99)}
STATUS = "Married-civ-spouse Never-married Divorced Separated Widowed Married-spouse-absent Married-AF-spouse"
CATEGORIES = {"marital_status": STATUS.split(), "sex": ["Male", "Female"], "income": ["<=50K", ">50K"]}


def inputs(rows: pd.DataFrame) -> tuple[Array, Any]:
    """Of a classifier of income: standardized numbers by their bounds, and indicators."""
    numbers = [(rows[name] - low) / (high - low) for name, (low, high) in BOUNDS.items()]
    levels = [rows[name] == level for name, known in CATEGORIES.items() if name != "income" for level in known]
    return np.column_stack([np.ones(len(rows)), *numbers, *levels]).astype(float), rows["income"] == ">50K"


def scores(test: pd.DataFrame, train: pd.DataFrame) -> tuple[float, float]:
    """Accuracy, and area under the ROC curve, of a logistic regression."""
    x, y = inputs(train)
    sign = np.where(y, 1.0, -1.0)

    def loss(b: Array) -> tuple[float, Array]:
        z = sign * (x @ b)
        return np.logaddexp(0, -z).mean() + 1e-5 * b @ b, -(x.T @ (sign * expit(-z))) / len(y) + 2e-5 * b

    found = minimize(loss, np.zeros(x.shape[1]), jac=True).x
    new, truth = inputs(test)
    z = new @ found
    area = mannwhitneyu(z[truth], z[~truth]).statistic / (truth.sum() * (~truth).sum())
    return float(np.mean((z > 0) == truth)), float(area)


@tables.add(
    name="kme_adult",
    kme_adult=("column", "mean", "sample's", "sd", "sample's", "largest error of a quantile, of the bounds' width"),
    kme_adult_categories=("category", "share of rows", "of the sample"),
    kme_adult_classifiers=("trained on", "accuracy", "area under the ROC curve"),
)
def kme_adult(epsilon: float = 1.0) -> Rows:
    """What a release of half of a census table keeps and loses: a sample of it, beside the rows."""
    rows = read("adult.csv", ADULT)
    if rows is None:
        return
    rows = rows.astype(dict.fromkeys(BOUNDS, float)).sample(frac=1, random_state=1)
    train, test = rows.iloc[::2].reset_index(drop=True), rows.iloc[1::2]
    view = protected(train, delta=1e-4, bounds=BOUNDS, categories=CATEGORIES)
    with seeded_noise(1):
        release = view.kme_release(list(BOUNDS), categories=list(CATEGORIES), epsilon=epsilon, delta=1e-6)
    sample, quantiles = release.sample(len(train), seed=1), np.linspace(0.05, 0.95, 19)
    for name, (low, high) in BOUNDS.items():
        real, made = train[name], sample[name]
        off = np.abs(real.quantile(quantiles) - made.quantile(quantiles)).max() / (high - low)
        moments = (f"{real.mean():.4g}", f"{made.mean():.4g}", f"{real.std():.3g}", f"{made.std():.3g}")
        yield "kme_adult", name, *moments, f"{off:.0%}"
    real, made = (table[list(BOUNDS)].corr().to_numpy() for table in (train, sample))
    upper = np.triu_indices(len(real), 1)
    off = np.abs(real - made)[upper]
    print(f"\n{release.support} points. Correlations: largest of the rows {np.abs(real[upper]).max():.2f}")
    print(f"Differences of the sample's: {off.mean():.2f} on average, {off.max():.2f} at most.\n")
    for name, level in ((name, level) for name, known in CATEGORIES.items() for level in known):
        shares = (f"{(table[name] == level).mean():.3f}" for table in (train, sample))
        yield "kme_adult_categories", f"{name} = {level}", *shares
    yield "kme_adult_classifiers", "the majority alone", f"{(test['income'] == '<=50K').mean():.3f}", "0.500"
    for what, table in {"a sample of the release": sample, "the rows": train}.items():
        yield "kme_adult_classifiers", what, *(f"{score:.3f}" for score in scores(test, table))


if __name__ == "__main__":
    tables.main()
