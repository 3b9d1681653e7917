"""Errors of private Gaussian classes in the experiments of Tong et al. (2017), by simulation.

    python tests/benchmarks/gmm_experiments.py --runs 10
    python tests/benchmarks/gmm_experiments.py --runs 20 --tables repairs

Two classes of d columns, means .75 and -.25 (the sign of the paper's Table 2), correlation 1/2. Experiment 1: one
covariance, linear; experiment 2: the first class has the covariance I, quadratic. Prints a Markdown table of mean
errors on fresh rows: the paper's mechanism with epsilon for every scalar, the same with epsilon split among the
scalars of a class, `gmm_fit` with epsilon in all (delta 1e-6, public bounds, a row may change its class), and no
privacy. Then the share of the breast cancer patients of scikit-learn's table that are classified correctly, two
thirds of them for the fit, and its standard deviation. With the path of the Adult table, also the errors there.
Then the errors with each repair of the same noisy covariances, of both kinds of data.
Behind the ± of an error is the standard error of the mean before it. The noise is seeded: nothing here is private.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from results import recorded
from sklearn.datasets import load_breast_cancer

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_gmm import GaussianClassifier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

EPSILONS = (0.05, 0.3, 0.6, 1.0)
DESIGNS = (
    *(("lda", d, n) for d in (2, 5, 10) for n in (1000, 5000, 50_000)),
    *(("qda", d, n) for d, n in ((2, 1000), (2, 5000), (2, 50_000), (5, 1000), (5, 5000), (5, 50_000))),
    *(("qda", 10, n) for n in (5000, 20_000, 50_000)),
)
TABLES = ("experiments", "cancer", "adult", "repairs")
DELTA = 1e-6
FLOOR = 0.01  # of eigenvalues, in the paper's mechanism; the paper does not tell
ADULT = {
    "age": (17, 90),
    "fnlwgt": (0, 1.5e6),
    "education_num": (1, 16),
    "capital_gain": (0, 99_999),
    "capital_loss": (0, 4356),
    "hours_per_week": (1, 99),
}
REPAIRS = ("noise_aware", "shrink", "clip")
MANY = 50_000  # rows, at which hardly anything needs a repair
FIELDS = (0, 2, 4, 10, 11, 12)
TOPS = (  # upper bounds of the columns of the breast cancer table, in their order
    *(30, 50, 200, 3000, 0.2, 0.5, 0.5, 0.3, 0.5, 0.1),
    *(3, 5, 30, 1000, 0.05, 0.2, 0.5, 0.1, 0.1, 0.03),
    *(50, 50, 300, 5000, 0.3, 2, 2, 0.3, 1, 0.3),
)
FIVE = ["worst radius", "worst texture", "worst area", "worst smoothness", "worst concave points"]


def drawn(rng: np.random.Generator, method: str, d: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels."""
    y = rng.integers(0, 2, rows)
    z = rng.standard_normal((rows, d))
    own = z @ np.linalg.cholesky(0.64 * (0.5 * np.eye(d) + 0.5)).T
    first = own if method == "lda" else z
    return np.where((y == 0)[:, None], 0.75 + first, -0.25 + own), y


def ours(
    X: np.ndarray,
    y: np.ndarray,
    bounds: dict[str, tuple[float, float]],
    method: str,
    epsilon: float,
    seed: int,
    **asked: float,
) -> GaussianClassifier:
    """Fit with the library."""
    table = pd.DataFrame(X, columns=list(bounds)).assign(y=y)
    view = dp.protect(
        table,
        f"{method}-{X.shape}-{epsilon}-{seed}",
        epsilon=100,
        delta=1e-5,
        accounting="basic",
        ledger="memory:",
        bounds=bounds,
        categories={"y": [0, 1]},
    )
    asked = {"radius": 0.6 * np.sqrt(len(bounds)), **asked}  # rows are around the middle of their bounds
    with seeded_noise(seed):
        return view.gmm_fit(list(bounds), "y", method=method, epsilon=epsilon, delta=DELTA, **asked)


def unsafe_scalars(
    rng: np.random.Generator, X: np.ndarray, y: np.ndarray, method: str, each: float
) -> GaussianClassifier:
    """Laplace noise of the observed range in every mean, variance and covariance, at `each` for every scalar."""
    d = X.shape[1]
    ranges = X.max(axis=0) - X.min(axis=0)
    spans = ranges[:, None] * ranges
    model = GaussianClassifier(method)
    model.classes_, sizes = np.unique(y, return_counts=True)
    own = [X[y == name] for name in model.classes_]
    model.priors_ = sizes / sizes.sum()
    model.means_ = np.array([part.mean(axis=0) + rng.laplace(0, ranges / len(part) / each) for part in own])
    parts = own if method == "qda" else [np.concatenate([part - part.mean(axis=0) for part in own])]
    found = []
    for part in parts:
        noise = np.triu(rng.laplace(0, spans / len(part) / each))
        values, vectors = np.linalg.eigh(np.cov(part.T) + noise + np.triu(noise, 1).T)
        found.append((vectors * np.where(values < 0, FLOOR, values)) @ vectors.T)
    model.covariances_ = np.broadcast_to(np.array(found), (len(own), d, d))
    return model


def experiments(runs: int, seed: int) -> None:
    """Print the grid of experiments 1 and 2."""
    mechanisms = ("paper, ε a scalar", "paper, ε a class", "gmm_fit, ε in all", "no privacy")
    with recorded("gmm_experiments", "method", "d", "n", "ε", *mechanisms) as row:
        for method, d, n in DESIGNS:
            bounds = {f"x{i}": (-2.95, 3.45) for i in range(d)}
            for epsilon in EPSILONS:
                errors = []
                for run in range(runs):
                    rng = np.random.default_rng([seed, d, n, run, method == "lda"])
                    X, y = drawn(rng, method, d, n)
                    test = drawn(rng, method, d, 20_000)
                    models = (
                        unsafe_scalars(rng, X, y, method, epsilon),
                        unsafe_scalars(rng, X, y, method, epsilon / (d + d * (d + 1) / 2)),
                        ours(X, y, bounds, method, epsilon, seed + run),
                        GaussianClassifier(method).fit(X, y),
                    )
                    errors.append([1 - model.score(*test) for model in models])
                row(method, d, n, f"{epsilon:g}", *cells(errors))


def adult(path: Path, runs: int, seed: int) -> None:
    """Print the errors on the Adult table, 70% of it for the fit, and what they are above those without privacy."""
    table = pd.read_csv(path, header=None, skipinitialspace=True).dropna(how="all")
    X, y = table[list(FIELDS)].to_numpy(float), (table[14] == ">50K").to_numpy(int)
    epsilons = (*EPSILONS[1:], 3)
    print()
    with recorded("gmm_adult", "Adult", "mechanism", *(f"ε={e:g}" for e in epsilons), "no privacy") as row:
        for method in ("lda", "qda"):
            errors = []
            for run in range(runs):
                rng = np.random.default_rng([seed, run])
                train, test = np.split(rng.permutation(len(X)), [round(0.7 * len(X))])
                rows = X[train], y[train]
                asked = [{"epsilon": epsilon, "seed": seed + run} for epsilon in epsilons]
                plain = GaussianClassifier(method).fit(*rows)
                fits = (
                    [*(unsafe_scalars(rng, *rows, method, epsilon) for epsilon in epsilons), plain],
                    [*(ours(*rows, ADULT, method, **each, radius=np.sqrt(6)) for each in asked), plain],
                    [*(ours(*rows, ADULT, method, **each) for each in asked), plain],
                )
                errors.append([[1 - model.score(X[test], y[test]) for model in models] for models in fits])
            found = np.array(errors)
            row(method, "paper, ε a scalar", *cells(found[:, 0]))
            row(method, "gmm_fit, radius √6", *cells(found[:, 1]))
            row(method, "above no privacy, on the same rows", *cells(found[:, 1] - found[:, 1, -1:]))
            row(method, "gmm_fit, radius 0.6 √6", *cells(found[:, 2]))


def cancer(runs: int, seed: int) -> None:
    """Print the shares of patients that are classified correctly, and their standard deviations."""
    epsilons = (0.1, 0.3, 1.0, 3.0, 10.0)
    print()
    with recorded("gmm_cancer", "columns", *(f"ε={e:g}" for e in epsilons), "no privacy") as row:
        for kind, X, y, bounds in patients():
            shares = []
            for run in range(runs):
                train, test = np.split(np.random.default_rng([seed, run]).permutation(len(X)), [379])
                models = [ours(X[train], y[train], bounds, "lda", epsilon, seed + run) for epsilon in epsilons]
                models.append(GaussianClassifier("lda").fit(X[train], y[train]))
                shares.append([model.score(X[test], y[test]) for model in models])
            found = zip(np.mean(shares, axis=0), np.std(shares, axis=0, ddof=1), strict=True)
            row(kind, *(f"{m:.2f} ± {s:.2f}" for m, s in found))


def patients() -> Iterator[tuple[str, np.ndarray, np.ndarray, dict[str, tuple[float, float]]]]:
    """Columns of the breast cancer table: their name, rows, labels and bounds."""
    data = load_breast_cancer()
    names = [str(name) for name in data.feature_names]
    for kind, columns in {"these 5": FIVE, "the 10 means": names[:10], "all 30": names}.items():
        place = [names.index(name) for name in columns]
        yield kind, data.data[:, place], data.target, {names[i]: (0, TOPS[i]) for i in place}


def repairs(runs: int, seed: int) -> None:
    """Print the errors with each repair, fitted to the same releases."""
    print()
    with recorded("gmm_repairs", "data", "method", "n", "ε", *REPAIRS, "no privacy") as row:
        for method, d, n in DESIGNS:
            bounds = {f"x{i}": (-2.95, 3.45) for i in range(d)}
            for epsilon in (0.1, 1.0) if n < MANY else ():
                errors = []
                for run in range(runs):
                    rng = np.random.default_rng([seed, d, n, run, method == "lda"])
                    rows, test = drawn(rng, method, d, n), drawn(rng, method, d, 5000)
                    errors.append(repaired_errors(*rows, test, bounds, method, epsilon, seed + run))
                row(f"simulated, {d} columns", method, n, f"{epsilon:g}", *cells(errors))
        for kind, X, y, bounds in patients():
            for method, epsilon in product(("lda", "qda"), (1.0, 10.0)):
                errors = []
                for run in range(runs):
                    train, test = np.split(np.random.default_rng([seed, run]).permutation(len(X)), [379])
                    fresh = X[test], y[test]
                    errors.append(repaired_errors(X[train], y[train], fresh, bounds, method, epsilon, seed + run))
                row(f"cancer, {kind}", method, 379, f"{epsilon:g}", *cells(errors))


def repaired_errors(
    X: np.ndarray,
    y: np.ndarray,
    test: tuple[np.ndarray, np.ndarray],
    bounds: dict[str, tuple[float, float]],
    method: str,
    epsilon: float,
    seed: int,
) -> list[float]:
    """Errors on fresh rows of one release, with each repair, and without privacy."""
    fit = ours(X, y, bounds, method, epsilon, seed)
    models = [*(fit.refit(repair=repair) for repair in REPAIRS), GaussianClassifier(method).fit(X, y)]
    return [1 - model.score(*test) for model in models]


def cells(errors: ArrayLike) -> list[str]:
    """Means over the runs, and their standard errors."""
    mean, error = np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1) / np.sqrt(len(np.asarray(errors)))
    return [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]


def main() -> int:
    """Simulate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="simulated tables a cell (default: 10)")
    parser.add_argument("--seed", type=int, default=2017)
    parser.add_argument("--adult", type=Path, help="the Adult table of the UCI repository, adult.data")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    arguments = parser.parse_args()
    if "experiments" in arguments.tables:
        experiments(arguments.runs, arguments.seed)
    if "cancer" in arguments.tables:
        cancer(arguments.runs, arguments.seed)
    if "adult" in arguments.tables and arguments.adult:
        adult(arguments.adult, arguments.runs, arguments.seed)
    if "repairs" in arguments.tables:
        repairs(arguments.runs, arguments.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
