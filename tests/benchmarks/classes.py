"""Errors of private Gaussian classes, and how often Gaussian mixtures are found, by simulation.

    python tests/benchmarks/classes.py gmm_experiments --runs 20

Behind the ± of an error is the standard error of the mean before it. What begins with ``unsafe_`` is printed in
Tong et al. (2017), and costs more than it says. The noise is seeded: nothing here is private.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness import Array, Ints, Rng, Rows, Tables, parts, peer, protected
from numpy.typing import ArrayLike
from real import ADULT, read
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from scipy.stats import fisher_exact

from dfprivacy._privacy.conversions import gaussian_unit_scale
from dfprivacy.testing import seeded_noise
from dfprivacy_gmm import GaussianClassifier

tables = Tables(__doc__)
Bounds = dict[str, tuple[float, float]]
Labelled = tuple[Array, Ints]
DELTA, SEED = 1e-6, 2017


# Classes: two, of which the quadratic method's first has the covariance I

EPSILONS = (0.05, 0.3, 0.6, 1.0)
DESIGNS = (
    *(("lda", d, n) for d in (2, 5, 10) for n in (1000, 5000, 50_000)),
    *(("qda", d, n) for d, n in ((2, 1000), (2, 5000), (2, 50_000), (5, 1000), (5, 5000), (5, 50_000))),
    *(("qda", 10, n) for n in (5000, 20_000, 50_000)),
)
NUMBERS: Bounds = {"age": (17, 90), "fnlwgt": (0, 1.5e6), "education_num": (1, 16), "capital_gain": (0, 99_999)}
NUMBERS |= {"capital_loss": (0, 4356), "hours_per_week": (1, 99)}
REPAIRS = ("noise_aware", "shrink", "clip")
TOPS = (  # upper bounds of the columns of the breast cancer table, in their order
    *(30, 50, 200, 3000, 0.2, 0.5, 0.5, 0.3, 0.5, 0.1),
    *(3, 5, 30, 1000, 0.05, 0.2, 0.5, 0.1, 0.1, 0.03),
    *(50, 50, 300, 5000, 0.3, 2, 2, 0.3, 1, 0.3),
)
FIVE = ["worst radius", "worst texture", "worst area", "worst smoothness", "worst concave points"]


def drawn(rng: Rng, method: str, d: int, rows: int) -> Labelled:
    """Rows with means .75 and -.25 (the sign of the paper's Table 2), correlation 1/2, and their labels."""
    y = rng.integers(0, 2, rows)
    z = rng.standard_normal((rows, d))
    own = z @ np.linalg.cholesky(0.64 * (0.5 * np.eye(d) + 0.5)).T
    return np.where((y == 0)[:, None], 0.75 + (own if method == "lda" else z), -0.25 + own), y


def ours(
    X: Array, y: Any, bounds: Bounds, method: str, epsilon: float, seed: int, **asked: Any
) -> GaussianClassifier:
    """Fit with the library: epsilon in all, public bounds, a row may change its class."""
    table = pd.DataFrame(X, columns=list(bounds)).assign(y=y)
    view = protected(table, delta=1e-5, bounds=bounds, categories={"y": [0, 1]})
    if "queries" not in asked:
        asked.setdefault("radius", 0.6 * np.sqrt(len(bounds)))  # rows are around the middle of their bounds
    with seeded_noise(seed):
        return view.gmm_fit(list(bounds), "y", method=method, epsilon=epsilon, delta=DELTA, **asked)


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


def plain(X: Array, y: Any, method: str) -> GaussianClassifier:
    """Fit without privacy."""
    return GaussianClassifier(method).fit(X, y)


def cells(errors: ArrayLike) -> list[str]:
    """Means over the runs, and their standard errors."""
    mean, error = np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1) / np.sqrt(len(np.asarray(errors)))
    return [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]


def missed(test: Labelled, *models: GaussianClassifier) -> list[float]:
    """The share of rows that each labels wrongly."""
    return [1 - model.score(*test) for model in models]


def simulated(method: str, d: int, n: int, run: int, fresh: int) -> tuple[Rng, Labelled, Labelled, Bounds]:
    """Rows for a fit, fresh rows, and public bounds."""
    rng = np.random.default_rng([SEED, d, n, run, method == "lda"])
    return rng, drawn(rng, method, d, n), drawn(rng, method, d, fresh), {f"x{i}": (-2.95, 3.45) for i in range(d)}


@tables.add("method", "d", "n", "ε", "paper, ε a scalar", "paper, ε a class", "gmm_fit, ε in all", "no privacy")
def gmm_experiments(runs: int = 20) -> Rows:
    """Experiments 1 and 2 of the paper: errors on fresh rows."""
    for (method, d, n), epsilon in product(DESIGNS, EPSILONS):
        errors = []
        for run in range(runs):
            rng, rows, test, bounds = simulated(method, d, n, run, 20_000)
            printed = [unsafe_scalars(rng, *rows, method, epsilon / k) for k in (1, d + d * (d + 1) / 2)]
            fit = ours(*rows, bounds, method, epsilon, SEED + run)
            errors.append(missed(test, *printed, fit, plain(*rows, method)))
        yield method, d, n, f"{epsilon:g}", *cells(errors)


@tables.add("Adult", "mechanism", "ε=0.3", "ε=0.6", "ε=1", "ε=3", "no privacy")
def gmm_adult(runs: int = 40) -> Rows:
    """Errors on the census table, 70% of it for the fit, and what they are above those without privacy."""
    table, epsilons = read("adult.csv", ADULT), (0.3, 0.6, 1.0, 3)
    if table is None:
        return
    X, y = table[list(NUMBERS)].to_numpy(float), (table["income"] == ">50K").to_numpy(int)
    for method in ("lda", "qda"):
        errors = []
        for run in range(runs):
            rng = np.random.default_rng([SEED, run])
            train, test = np.split(rng.permutation(len(X)), [round(0.7 * len(X))])
            rows, fresh = (X[train], y[train]), (X[test], y[test])
            printed = [unsafe_scalars(rng, *rows, method, epsilon) for epsilon in epsilons]
            last = plain(*rows, method)
            fit, radius = partial(ours, *rows, NUMBERS, method, seed=SEED + run), np.sqrt(6)
            fits = [fit(epsilon, radius=radius) for epsilon in epsilons], [fit(epsilon) for epsilon in epsilons]
            errors.append([missed(fresh, *models, last) for models in (printed, *fits)])
        found = np.array(errors)
        yield method, "paper, ε a scalar", *cells(found[:, 0])
        yield method, "gmm_fit, radius √6", *cells(found[:, 1])
        yield method, "above no privacy, on the same rows", *cells(found[:, 1] - found[:, 1, -1:])
        yield method, "gmm_fit, radius 0.6 √6", *cells(found[:, 2])


def patients() -> Iterator[tuple[str, Array, Ints, Bounds]]:
    """Columns of the breast cancer table: their name, rows, labels and bounds."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = [str(name) for name in data.feature_names]
    for kind, columns in {"these 5": FIVE, "the 10 means": names[:10], "all 30": names}.items():
        place = [names.index(name) for name in columns]
        yield kind, data.data[:, place], data.target, {names[i]: (0, TOPS[i]) for i in place}


def of_patients(X: Array, y: Any, run: int) -> tuple[Labelled, Labelled]:
    """Two thirds of the patients for a fit, and the others."""
    train, test = np.split(np.random.default_rng([SEED, run]).permutation(len(X)), [379])
    return (X[train], y[train]), (X[test], y[test])


@tables.add("columns", "ε=0.1", "ε=0.3", "ε=1", "ε=3", "ε=10", "no privacy")
def gmm_cancer(runs: int = 40) -> Rows:
    """The shares of patients that are classified correctly, and their standard deviations."""
    for kind, X, y, bounds in patients():
        shares = []
        for run in range(runs):
            rows, test = of_patients(X, y, run)
            fits = [ours(*rows, bounds, "lda", epsilon, SEED + run) for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0)]
            shares.append([model.score(*test) for model in (*fits, plain(*rows, "lda"))])
        found = zip(np.mean(shares, axis=0), np.std(shares, axis=0, ddof=1), strict=True)
        yield kind, *(f"{m:.2f} ± {s:.2f}" for m, s in found)


@tables.add("data", "method", "n", "ε", *REPAIRS, "no privacy")
def gmm_repairs(runs: int = 20) -> Rows:
    """Errors with each repair of the covariances of the same releases; of 50,000 rows hardly any needs one."""

    def repaired(
        rows: Labelled, test: Labelled, bounds: Bounds, method: str, epsilon: float, run: int
    ) -> list[float]:
        fit = ours(*rows, bounds, method, epsilon, SEED + run)
        return missed(test, *(fit.refit(repair=repair) for repair in REPAIRS), plain(*rows, method))

    for (method, d, n), epsilon in product((each for each in DESIGNS if each[2] < 50_000), (0.1, 1.0)):
        drawn_ = (simulated(method, d, n, run, 5000)[1:] for run in range(runs))
        errors = [repaired(*each, method, epsilon, run) for run, each in enumerate(drawn_)]
        yield f"simulated, {d} columns", method, n, f"{epsilon:g}", *cells(errors)
    for (kind, X, y, bounds), method, epsilon in product(patients(), ("lda", "qda"), (1.0, 10.0)):
        errors = [repaired(*of_patients(X, y, run), bounds, method, epsilon, run) for run in range(runs)]
        yield f"cancer, {kind}", method, 379, f"{epsilon:g}", *cells(errors)


# Mixtures

Mixture = tuple["Array", "Array", "Array"]  # weights, means, covariances
Cell = tuple[int, int, float, int]

# K, d, the least distance of centres in standard deviations: the success of a reference implementation in 20 tables
# of 2,000, 10,000, 50,000 and 200,000 rows; a dash where it was not asked.
REFERENCE = """
2 1 4 1 1 1 - | 3 1 4 1 1 1 - | 5 1 4 1 1 1 - | 2 2 4 1 1 1 - | 3 2 4 1 1 1 - | 5 2 4 1 1 1 -
10 2 4 .35 .8 .8 - | 2 5 4 .85 1 1 - | 5 5 4 0 1 1 - | 10 5 4 0 .65 .9 - | 2 10 4 0 1 1 - | 5 10 4 0 .05 1 -
2 1 2.5 .8 .95 1 - | 5 1 2.5 .75 .95 .95 - | 2 2 2.5 .8 1 1 1 | 3 2 2.5 .6 1 1 1 | 5 2 2.5 .25 .85 1 1
10 2 2.5 0 .3 .75 .9 | 2 5 2.5 0 .95 1 1 | 5 5 2.5 0 .15 .95 1 | 2 10 2.5 0 .55 1 1 | 5 10 2.5 0 0 - -
2 2 1.5 - - .85 1 | 3 2 1.5 - - - .85 | 2 5 1.5 - - - .95
"""
CELLS: dict[Cell, float] = {
    (int(K), int(d), float(apart), n): float(rate)
    for K, d, apart, *rates in (line.split() for line in REFERENCE.strip().replace("\n", " | ").split(" | "))
    for n, rate in zip((2000, 10_000, 50_000, 200_000), rates, strict=True)
    if rate != "-"
}
SHAPES = ((2, 1), (2, 2), (3, 2), (5, 2), (10, 2), (2, 5), (5, 5), (2, 10))
COMPARED = {(*shape, apart, 10_000) for shape in SHAPES for apart in (2.5, 4)}
COMPARED |= {(*shape, 2.5, 50_000) for shape in SHAPES if shape not in {(2, 1), (2, 5)}}
CHOICES: dict[Cell, float] = {  # right numbers of components in 12 tables
    **{(K, 2, 2.5, 20_000): 1.0 for K in (1, 2, 3)},
    (2, 2, 2.5, 5000): 1.0,
    (3, 2, 2.5, 5000): 0.75,
    (5, 2, 2.5, 50_000): 1.0,
    (5, 2, 4, 20_000): 1.0,
    (2, 5, 2.5, 20_000): 1.0,
    (2, 10, 4, 20_000): 1.0,
}
KMEANS = """
import json, sys, warnings
import numpy as np
from diffprivlib.models import KMeans
warnings.simplefilter("ignore")
tables, K = np.load(sys.argv[1]), int(sys.argv[2])
fits = [KMeans(K, epsilon=1, bounds=(-1, 1), random_state=i).fit(X) for i, X in enumerate(tables)]
print(json.dumps([fit.cluster_centers_.tolist() for fit in fits]))
"""


def truth(cell: Cell, run: int) -> tuple[Mixture, float, Rng]:
    """A mixture in [-1, 1]^d, the best spread of 40, its unit of standard deviation, and what goes on to draw.

    Weights are equal or as 1/i, covariances equal or not, in turn; the data fill about two fifths of the bounds.
    """
    K, d, separation, n = cell
    rng = np.random.default_rng([5, K, d, int(10 * separation), n, run])
    best, chosen = 0.0, np.zeros((K, d))
    for _ in range(40 if K > 2 else 1):
        centres = rng.standard_normal((K, d))
        if d == 1:
            centres = rng.permutation(np.arange(K) + rng.uniform(-0.15, 0.15, K))[:, None]
        distance = np.linalg.norm(centres[:, None] - centres, axis=2) + np.diag(np.full(K, np.inf))
        least = distance.min() if K > 1 else 1.0
        spread = least / max(np.sqrt(np.square(centres - centres.mean(axis=0)).sum(axis=1).mean()), 1e-12)
        if spread > best:
            best, chosen = spread, centres * separation / least
    means = chosen - chosen.mean(axis=0)
    weights = np.ones(K) if run % 2 == 0 else 1 / np.arange(1, K + 1)
    covariances = np.repeat(np.eye(d)[None], K, axis=0)
    if run // 2 % 2:
        for covariance in covariances:
            Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
            covariance[:] = (Q * rng.uniform(0.6, 1.4, d) ** 2) @ Q.T
    sd = 0.4 / (np.abs(means).max() + 3)
    return (weights / weights.sum(), means * sd + rng.uniform(-0.35, 0.35, d), covariances * sd**2), sd, rng


def rows_of(mixture: Mixture, n: int, rng: Rng) -> Labelled:
    """Rows and labels."""
    weights, means, covariances = mixture
    labels = rng.choice(len(weights), size=n, p=weights)
    z = rng.standard_normal((n, means.shape[1]))
    return means[labels] + np.einsum("nij,nj->ni", np.linalg.cholesky(covariances)[labels], z), labels


def log_joint(mixture: Mixture, X: Array) -> Array:
    """Log of weight times density."""
    found = []
    for weight, mean, covariance in zip(*mixture, strict=True):
        L = np.linalg.cholesky(covariance)
        u = np.linalg.solve(L, (X - mean).T)
        found.append(np.log(weight) - 0.5 * np.square(u).sum(axis=0) - np.log(np.diag(L)).sum())
    return np.array(found).T


def responsibilities(mixture: Mixture, X: Array) -> Array:
    """How much of each row is each component's."""
    joint = log_joint(mixture, X)
    return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))


def em(mixture: Mixture, X: Array, steps: int) -> Mixture:
    """Expectation maximisation without privacy."""
    for _ in range(steps):
        g = responsibilities(mixture, X)
        sizes = g.sum(axis=0) + 1e-9
        means = (g.T @ X) / sizes[:, None]
        own = [((X - m) * w[:, None]).T @ (X - m) / n for m, w, n in zip(means, g.T, sizes, strict=True)]
        mixture = (sizes / sizes.sum(), means, np.array(own) + 1e-6 * np.eye(X.shape[1]))
    return mixture


def private_em(mixture: Mixture, X: Array, steps: int, rng: Rng) -> Mixture:
    """Expectation maximisation on noisy sums of g (r/2, y, yy'/r), |y| at most r = 0.6 sqrt(d), and repair."""
    n, d = X.shape
    r = 0.6 * np.sqrt(d)
    Y = X * np.minimum(1, r / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))
    noise = gaussian_unit_scale(1.0, DELTA) * np.sqrt(4.5) * r * np.sqrt(steps)
    for _ in range(steps):
        g = responsibilities(mixture, X)
        K = g.shape[1]
        sizes = np.maximum(g.sum(axis=0) + rng.normal(0, noise / (r / 2), K), 0.01 * n / K)
        means = np.clip((g.T @ Y + rng.normal(0, noise, (K, d))) / sizes[:, None], -1, 1)
        covariances = []
        for mean, w, size in zip(means, g.T, sizes, strict=True):
            E = np.triu(rng.normal(0, noise * r / np.sqrt(2), (d, d)), 1)
            M = (Y * w[:, None]).T @ Y + E + E.T + np.diag(rng.normal(0, noise * r, d))
            C, se = M / size - np.outer(mean, mean), noise * r / np.sqrt(2) / size
            off = C - np.diag(np.diag(C))
            C -= off * min(1, se**2 * d * (d - 1) / max(np.square(off).sum(), 1e-12))
            e, V = np.linalg.eigh(C)
            covariances.append((V * np.clip(e, se * np.sqrt(d), 1)) @ V.T)
        mixture = (sizes / sizes.sum(), means, np.array(covariances))
    return mixture


def others(X: Array, start: Mixture, sd: float, rng: Rng) -> list[Array]:
    """Labels of private expectation maximisation from a random and from a good start, and of scikit-learn."""
    from sklearn.mixture import GaussianMixture

    (weights, means, _), d = start, X.shape[1]
    K, equal = len(weights), np.full(len(weights), 1 / len(weights))
    random = (equal, rng.uniform(-0.6, 0.6, (K, d)), np.repeat(0.04 * np.eye(d)[None], K, axis=0))
    near = (equal, means + rng.normal(0, 0.5 * sd, (K, d)), np.repeat(sd**2 * np.eye(d)[None], K, axis=0))
    fits = [private_em(random, X, 10, rng), private_em(near, X, 3, rng)]
    known = GaussianMixture(K, n_init=10, random_state=0).fit(X[:20_000])
    return [*(log_joint(fit, X).argmax(axis=1) for fit in fits), known.predict(X)]


def found_by(X: Array, n_components: int | str, seed: int) -> Any:
    """Fit with the library, epsilon 1 in all."""
    bounds = {f"x{i}": (-1, 1) for i in range(X.shape[1])}
    view = protected(pd.DataFrame(X, columns=list(bounds)), delta=DELTA, bounds=bounds)
    with seeded_noise(seed):
        return view.gmm_fit(list(bounds), n_components=n_components, epsilon=1.0, delta=DELTA)


def wrong(found: Any, labels: Any) -> float:
    """Share of rows labelled wrongly, components matched as well as can be."""
    counts = pd.crosstab(found, labels).to_numpy()
    return float(1 - counts[linear_sum_assignment(-counts)].sum() / len(labels))


def kmeans(tables: list[Array], K: int) -> list[Any]:
    """Labels by diffprivlib's KMeans, in an environment of its own; none where it cannot be made."""
    python = peer("diffprivlib")
    if python is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "tables.npy", np.array(tables))
        told = subprocess.check_output([python, "-c", KMEANS, f"{folder}/tables.npy", str(K)])
    centres = map(np.array, json.loads(told))
    return [np.linalg.norm(X[:, None] - c, axis=2).argmin(axis=1) for X, c in zip(tables, centres, strict=True)]


def mixtures(cell: Cell, runs: int) -> list[str]:
    """Simulate one design; the rest of its row."""
    done, warned, errors, kept = [], 0, [], []
    for run in range(runs):
        mixture, sd, rng = truth(cell, run)
        X, labels = rows_of(mixture, cell[3], rng)
        limit = wrong(log_joint(em(mixture, X[:20_000], 25), X).argmax(axis=1), labels) + 0.03
        fit = found_by(X, cell[0], 5 + run)
        warned += bool(fit.notes)
        told = [fit.predict(X), *(others(X, mixture, sd, rng) if cell in COMPARED else [])]
        done.append([wrong(each, labels) <= limit for each in told])
        if done[-1][0]:
            k, j = linear_sum_assignment(np.linalg.norm(fit.means_[:, None] - mixture[1], axis=2))
            errors.append(float(np.mean(((fit.means_[k] - mixture[1][j]) / fit.mean_errors[k]) ** 2)))
        kept.append((X, labels, limit))
    rates, near = [*np.mean(done, axis=0), *[np.nan] * 3][:4], []
    if cell in COMPARED:
        by_centres = zip(kmeans([X for X, *_ in kept], cell[0]), kept, strict=False)
        near = [wrong(labels, known) <= limit for labels, (_, known, limit) in by_centres]
    before, good = round(CELLS[cell] * 20), round(rates[0] * runs)
    p = fisher_exact([[good, runs - good], [before, 20 - before]]).pvalue  # how often they differ as much by chance
    error = np.sqrt(np.mean(errors)) if errors else np.nan
    of_kmeans = np.mean(near) if near else np.nan
    shown = (CELLS[cell], rates[0], p, warned / runs, error, *rates[1:3], of_kmeans, rates[3])
    return ["" if np.isnan(x) else f"{x:.2f}" for x in shown]


def chosen(cell: Cell, runs: int) -> list[str]:
    """The numbers of components that are chosen, as the rest of a row."""
    told = []
    for run in range(runs):
        mixture, _, rng = truth(cell, run)
        told.append(found_by(rows_of(mixture, cell[3], rng)[0], "auto", 5 + run).n_components)
    rest = ", ".join(str(k) for k in sorted(told) if k != cell[0])
    return [f"{CHOICES[cell]:.2f}", f"{told.count(cell[0]) / runs:.2f}", rest]


def seldom(cell: Cell) -> tuple[float, ...]:
    """Order cells so that those that take longest are last."""
    slow = cell[0] * cell[1] > 40
    return slow, -cell[3] if slow else cell[3], *cell[:3]


@tables.add(
    *("K", "d", "separation", "n", "reference", "gmm_fit", "p", "warned", "errors", "private EM", "good start"),
    *("KMeans", "scikit-learn"),
)
def gmm_mixtures(runs: int = 20) -> Rows:
    """How often labels are wrong at most 3 points more often than those of expectation maximisation from the truth.

    Beside it private expectation maximisation, of ten steps from a random start and three from a good one, KMeans
    of diffprivlib, and scikit-learn's mixture of at most 20,000 rows. "Errors": of means, in standard errors.
    """
    for cell in sorted(CELLS, key=seldom):
        start = "{} {} {:g} {}".format(*cell).split()
        yield *start, *parts(f"gmm_mixtures {cell} {runs}", partial(mixtures, cell, runs))


@tables.add("K", "d", "separation", "n", "reference", "right", "else chosen")
def gmm_mixtures_choice(runs: int = 12) -> Rows:
    """How often the number of components is chosen rightly among 1 to 6."""
    for cell in CHOICES:
        start = "{} {} {:g} {}".format(*cell).split()
        yield *start, *parts(f"gmm_mixtures_choice {cell} {runs}", partial(chosen, cell, runs))


if __name__ == "__main__":
    tables.main()
