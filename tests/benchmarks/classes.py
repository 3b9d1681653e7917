"""Errors of private Gaussian classes, and how many components of Gaussian mixtures are found, by simulation.

    python tests/benchmarks/classes.py gmm_experiments --runs 20

Behind the ± of an error is the standard error of the mean before it. What begins with ``unsafe_`` is printed in
Tong et al. (2017), and costs more than it says. The noise is seeded: nothing here is private.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from harness import Array, Ints, Rng, Rows, Tables, parts, protected

from dfprivacy.testing import seeded_noise
from dfprivacy_gmm import GaussianClassifier

tables = Tables(__doc__)
Bounds = dict[str, tuple[float, float]]
DELTA, SEED = 1e-6, 2017


# Classes: two, of which the quadratic method's first has the covariance I

EPSILONS = (0.05, 0.3, 0.6, 1.0)
DESIGNS = (
    *(("lda", d, n) for d in (2, 5, 10) for n in (1000, 5000, 50_000)),
    *(("qda", d, n) for d, n in ((2, 1000), (2, 5000), (2, 50_000), (5, 1000), (5, 5000), (5, 50_000))),
    *(("qda", 10, n) for n in (5000, 20_000, 50_000)),
)


def drawn(rng: Rng, method: str, d: int, rows: int) -> tuple[Array, Ints]:
    """Rows with means .75 and -.25 (the sign of the paper's Table 2), correlation 1/2, and their labels."""
    y = rng.integers(0, 2, rows)
    z = rng.standard_normal((rows, d))
    own = z @ np.linalg.cholesky(0.64 * (0.5 * np.eye(d) + 0.5)).T
    return np.where((y == 0)[:, None], 0.75 + (own if method == "lda" else z), -0.25 + own), y


def ours(X: Array, y: Any, bounds: Bounds, method: str, epsilon: float, seed: int) -> GaussianClassifier:
    """Fit with the library: epsilon in all, public bounds, a row may change its class."""
    table = pd.DataFrame(X, columns=list(bounds)).assign(y=y)
    view = protected(table, delta=1e-5, bounds=bounds, categories={"y": [0, 1]})
    said = {"radius": 0.6 * np.sqrt(len(bounds)), "epsilon": epsilon, "delta": DELTA}  # rows are around the middle
    with seeded_noise(seed):
        return view.gmm_fit(list(bounds), "y", method=method, **said)


def unsafe_scalars(rng: Rng, X: Array, y: Any, method: str, each: float) -> GaussianClassifier:
    """Laplace noise of the observed range in every mean, variance and covariance, at `each` for every scalar."""
    d, ranges, model = X.shape[1], X.max(axis=0) - X.min(axis=0), GaussianClassifier(method)
    spans = ranges[:, None] * ranges
    model.classes_, sizes = np.unique(y, return_counts=True)
    own = [X[y == name] for name in model.classes_]
    model.priors_ = sizes / sizes.sum()
    model.means_ = np.array([part.mean(axis=0) + rng.laplace(0, ranges / len(part) / each) for part in own])
    found = []
    for part in own if method == "qda" else [np.concatenate([part - part.mean(axis=0) for part in own])]:
        noise = np.triu(rng.laplace(0, spans / len(part) / each))
        values, vectors = np.linalg.eigh(np.cov(part.T) + noise + np.triu(noise, 1).T)
        found.append((vectors * np.where(values < 0, 0.01, values)) @ vectors.T)  # the paper tells no floor
    model.covariances_ = np.broadcast_to(np.array(found), (len(own), d, d))
    return model


@tables.add("method", "d", "n", "ε", "paper, ε a scalar", "paper, ε a class", "gmm_fit, ε in all", "no privacy")
def gmm_experiments(runs: int = 20) -> Rows:
    """Experiments 1 and 2 of the paper: errors on fresh rows, as in Figures 6 to 9."""
    for (method, d, n), epsilon in product(DESIGNS, EPSILONS):
        errors, bounds = [], {f"x{i}": (-2.95, 3.45) for i in range(d)}
        for run in range(runs):
            rng = np.random.default_rng([SEED, d, n, run, method == "lda"])
            rows, test = drawn(rng, method, d, n), drawn(rng, method, d, 20_000)
            fits = [unsafe_scalars(rng, *rows, method, epsilon / k) for k in (1, d + d * (d + 1) / 2)]
            fits += [ours(*rows, bounds, method, epsilon, SEED + run), GaussianClassifier(method).fit(*rows)]
            errors.append([1 - fit.score(*test) for fit in fits])
        means, spreads = np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1) / np.sqrt(runs)
        yield method, d, n, f"{epsilon:g}", *(f"{m:.3f} ± {e:.3f}" for m, e in zip(means, spreads, strict=True))


TOPS = (  # upper bounds of the columns of the breast cancer table, in their order
    *(30, 50, 200, 3000, 0.2, 0.5, 0.5, 0.3, 0.5, 0.1),
    *(3, 5, 30, 1000, 0.05, 0.2, 0.5, 0.1, 0.1, 0.03),
    *(50, 50, 300, 5000, 0.3, 2, 2, 0.3, 1, 0.3),
)
FIVE = ["worst radius", "worst texture", "worst area", "worst smoothness", "worst concave points"]


@tables.add("columns", "ε=0.1", "ε=0.3", "ε=1", "ε=3", "ε=10", "no privacy")
def gmm_cancer(runs: int = 40) -> Rows:
    """The shares of patients that are classified correctly, and their standard deviations."""
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer(as_frame=True)
    names, y = list(table.data), table.target.to_numpy()
    for kind, columns in {"these 5": FIVE, "the 10 means": names[:10], "all 30": names}.items():
        X, bounds = table.data[columns].to_numpy(), {name: (0, TOPS[names.index(name)]) for name in columns}
        shares = []
        for run in range(runs):
            train, test = np.split(np.random.default_rng([SEED, run]).permutation(len(X)), [379])
            fits = [
                ours(X[train], y[train], bounds, "lda", each, SEED + run) for each in (0.1, 0.3, 1.0, 3.0, 10.0)
            ]
            fits.append(GaussianClassifier("lda").fit(X[train], y[train]))
            shares.append([fit.score(X[test], y[test]) for fit in fits])
        found = zip(np.mean(shares, axis=0), np.std(shares, axis=0, ddof=1), strict=True)
        yield kind, *(f"{m:.2f} ± {s:.2f}" for m, s in found)


# Mixtures

Cell = tuple[int, int, float, int]  # K, d, the least distance of centres in standard deviations, and rows
CHOICES: dict[Cell, float] = {  # right numbers of components by a reference implementation, in 12 tables
    **{(K, 2, 2.5, 20_000): 1.0 for K in (1, 2, 3)},
    (2, 2, 2.5, 5000): 1.0,
    (3, 2, 2.5, 5000): 0.75,
    (5, 2, 2.5, 50_000): 1.0,
    (5, 2, 4, 20_000): 1.0,
    (2, 5, 2.5, 20_000): 1.0,
    (2, 10, 4, 20_000): 1.0,
}


def mixed(cell: Cell, run: int) -> Array:
    """Rows of a mixture in [-1, 1]^d, the best spread of 40.

    Weights are equal or as 1/i, covariances equal or not, in turn; the data fill about two fifths of the bounds.
    """
    K, d, separation, n = cell
    rng = np.random.default_rng([5, K, d, int(10 * separation), n, run])
    best, means = 0.0, np.zeros((K, d))
    for _ in range(40 if K > 2 else 1):
        centres = rng.standard_normal((K, d))
        distance = np.linalg.norm(centres[:, None] - centres, axis=2) + np.diag(np.full(K, np.inf))
        least = distance.min() if K > 1 else 1.0
        spread = least / max(np.sqrt(np.square(centres - centres.mean(axis=0)).sum(axis=1).mean()), 1e-12)
        if spread > best:
            best, means = spread, centres * separation / least
    means = means - means.mean(axis=0)
    weights = np.ones(K) if run % 2 == 0 else 1 / np.arange(1, K + 1)
    roots = np.repeat(np.eye(d)[None], K, axis=0)  # of covariances
    if run // 2 % 2:
        for root in roots:
            Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
            root[:] = np.linalg.cholesky((Q * rng.uniform(0.6, 1.4, d) ** 2) @ Q.T)
    sd = 0.4 / (np.abs(means).max() + 3)
    middles = means * sd + rng.uniform(-0.35, 0.35, d)
    labels = rng.choice(K, size=n, p=weights / weights.sum())
    return middles[labels] + sd * np.einsum("nij,nj->ni", roots[labels], rng.standard_normal((n, d)))


def chosen(cell: Cell, runs: int) -> list[str]:
    """The numbers of components that are chosen, ε = 1 in all, as the rest of a row."""
    names, told = [f"x{i}" for i in range(cell[1])], []
    for run in range(runs):
        frame = pd.DataFrame(mixed(cell, run), columns=names)
        view = protected(frame, delta=DELTA, bounds=dict.fromkeys(names, (-1, 1)))
        with seeded_noise(5 + run):
            told.append(view.gmm_fit(names, n_components="auto", epsilon=1.0, delta=DELTA).n_components)
    rest = ", ".join(str(k) for k in sorted(told) if k != cell[0])
    return [f"{CHOICES[cell]:.2f}", f"{told.count(cell[0]) / runs:.2f}", rest]


@tables.add("K", "d", "separation", "n", "reference", "right", "else chosen")
def gmm_mixtures_choice(runs: int = 12) -> Rows:
    """How often the number of components is chosen rightly among 1 to 6."""
    for cell in CHOICES:
        start = "{} {} {:g} {}".format(*cell).split()
        yield *start, *parts(f"gmm_mixtures_choice {cell} {runs}", partial(chosen, cell, runs))


if __name__ == "__main__":
    tables.main()
