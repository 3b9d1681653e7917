"""How often private Gaussian mixtures are found, by simulation.

    python tests/benchmarks/gmm_mixtures.py --runs 20 [--diffprivlib PYTHON] [--output FILE]

K Gaussians in d columns with a least distance of their centres, in standard deviations; weights equal or as 1/i,
covariances equal or not, in turn; the data fill about two fifths of public bounds. A fit succeeds if its labels
are wrong at most 3 points more often than those of expectation maximisation without privacy, started at the truth.
Prints a Markdown table of success rates, epsilon 1 in all and delta 1e-6:

- ``gmm_fit``, how many of its results carry a note of warning, and the root mean square of the errors of its means
  in predicted standard errors, of those that succeed;
- private expectation maximisation, ten steps from a random start, and three steps from a start half a standard
  deviation from the truth in each column;
- diffprivlib's KMeans (pure epsilon), if the Python of an environment that has it is given;
- scikit-learn's GaussianMixture with n_init=10 on at most 20,000 rows, without privacy;

and a table of how often the number of components is chosen rightly. The noise is seeded: nothing here is private.
Rows are written to the file as they are done; what is in it already is not done again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from results import cells, line, recorded
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from scipy.stats import fisher_exact
from sklearn.mixture import GaussianMixture

import dfprivacy as dp
from dfprivacy._privacy.conversions import gaussian_unit_scale
from dfprivacy.testing import seeded_noise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

EPSILON, DELTA = 1.0, 1e-6
MARGIN = 0.03
Mixture = tuple[np.ndarray, np.ndarray, np.ndarray]  # weights, means, covariances

# (K, d, separation, n): success of the reference implementation in 20 data sets.
CELLS = {
    **{(2, 1, 4, n): 1.0 for n in (2000, 10_000, 50_000)},
    **{(3, 1, 4, n): 1.0 for n in (2000, 10_000, 50_000)},
    **{(5, 1, 4, n): 1.0 for n in (2000, 10_000, 50_000)},
    **{(2, 2, 4, n): 1.0 for n in (2000, 10_000, 50_000)},
    **{(3, 2, 4, n): 1.0 for n in (2000, 10_000, 50_000)},
    **{(5, 2, 4, n): 1.0 for n in (2000, 10_000, 50_000)},
    **dict(zip([(10, 2, 4, n) for n in (2000, 10_000, 50_000)], (0.35, 0.80, 0.80), strict=True)),
    **dict(zip([(2, 5, 4, n) for n in (2000, 10_000, 50_000)], (0.85, 1.0, 1.0), strict=True)),
    **dict(zip([(5, 5, 4, n) for n in (2000, 10_000, 50_000)], (0.0, 1.0, 1.0), strict=True)),
    **dict(zip([(10, 5, 4, n) for n in (2000, 10_000, 50_000)], (0.0, 0.65, 0.90), strict=True)),
    **dict(zip([(2, 10, 4, n) for n in (2000, 10_000, 50_000)], (0.0, 1.0, 1.0), strict=True)),
    **dict(zip([(5, 10, 4, n) for n in (2000, 10_000, 50_000)], (0.0, 0.05, 1.0), strict=True)),
    **dict(zip([(2, 1, 2.5, n) for n in (2000, 10_000, 50_000)], (0.80, 0.95, 1.0), strict=True)),
    **dict(zip([(5, 1, 2.5, n) for n in (2000, 10_000, 50_000)], (0.75, 0.95, 0.95), strict=True)),
    **dict(zip([(2, 2, 2.5, n) for n in (2000, 10_000, 50_000, 200_000)], (0.80, 1.0, 1.0, 1.0), strict=True)),
    **dict(zip([(3, 2, 2.5, n) for n in (2000, 10_000, 50_000, 200_000)], (0.60, 1.0, 1.0, 1.0), strict=True)),
    **dict(zip([(5, 2, 2.5, n) for n in (2000, 10_000, 50_000, 200_000)], (0.25, 0.85, 1.0, 1.0), strict=True)),
    **dict(zip([(10, 2, 2.5, n) for n in (2000, 10_000, 50_000, 200_000)], (0.0, 0.30, 0.75, 0.90), strict=True)),
    **dict(zip([(2, 5, 2.5, n) for n in (2000, 10_000, 50_000, 200_000)], (0.0, 0.95, 1.0, 1.0), strict=True)),
    **dict(zip([(5, 5, 2.5, n) for n in (2000, 10_000, 50_000, 200_000)], (0.0, 0.15, 0.95, 1.0), strict=True)),
    **dict(zip([(2, 10, 2.5, n) for n in (2000, 10_000, 50_000, 200_000)], (0.0, 0.55, 1.0, 1.0), strict=True)),
    **dict(zip([(5, 10, 2.5, n) for n in (2000, 10_000)], (0.0, 0.0), strict=True)),
    **dict(zip([(2, 2, 1.5, n) for n in (50_000, 200_000)], (0.85, 1.0), strict=True)),
    (3, 2, 1.5, 200_000): 0.85,
    (2, 5, 1.5, 200_000): 0.95,
}
COMPARED = {  # of the reference: private EM, the same from a good start, KMeans, scikit-learn
    (2, 1, 2.5, 10_000): (0.20, 0.70, 0.65, 1.0),
    (2, 2, 2.5, 10_000): (0.05, 0.55, 0.35, 1.0),
    (3, 2, 2.5, 10_000): (0.0, 0.45, 0.0, 0.90),
    (5, 2, 2.5, 10_000): (0.0, 0.15, 0.0, 0.90),
    (10, 2, 2.5, 10_000): (0.0, 0.0, 0.0, 0.40),
    (2, 5, 2.5, 10_000): (0.0, 0.35, 0.05, 1.0),
    (5, 5, 2.5, 10_000): (0.0, 0.0, 0.0, 0.80),
    (2, 10, 2.5, 10_000): (0.0, 0.0, 0.05, 0.80),
    (2, 1, 4, 10_000): (0.55, 0.95, 0.75, 1.0),
    (2, 2, 4, 10_000): (0.20, 0.90, 0.75, 1.0),
    (3, 2, 4, 10_000): (0.0, 0.80, 0.10, 1.0),
    (5, 2, 4, 10_000): (0.0, 0.70, 0.0, 1.0),
    (10, 2, 4, 10_000): (0.0, 0.0, 0.0, 0.95),
    (2, 5, 4, 10_000): (0.0, 1.0, 0.35, 1.0),
    (5, 5, 4, 10_000): (0.0, 0.0, 0.0, 1.0),
    (2, 10, 4, 10_000): (0.0, 0.25, 0.05, 1.0),
    (2, 2, 2.5, 50_000): (0.30, 0.65, 0.55, 1.0),
    (3, 2, 2.5, 50_000): (0.0, 0.55, 0.20, 0.70),
    (5, 2, 2.5, 50_000): (0.0, 0.40, 0.0, 0.75),
    (10, 2, 2.5, 50_000): (0.0, 0.15, 0.0, 0.60),
    (5, 5, 2.5, 50_000): (0.0, 0.10, 0.0, 0.55),
    (2, 10, 2.5, 50_000): (0.05, 0.45, 0.25, 0.95),
}
CHOICES = {  # right numbers of components in 12 data sets
    (1, 2, 2.5, 20_000): 1.0,
    (2, 2, 2.5, 20_000): 1.0,
    (3, 2, 2.5, 20_000): 1.0,
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


def truth(K: int, d: int, separation: float, run: int, rng: np.random.Generator) -> tuple[Mixture, float]:
    """Give a mixture in [-1, 1]^d, the best spread of 40, and its unit of standard deviation."""
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
    return (weights / weights.sum(), means * sd + rng.uniform(-0.35, 0.35, d), covariances * sd**2), sd


def drawn(mixture: Mixture, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels."""
    weights, means, covariances = mixture
    labels = rng.choice(len(weights), size=n, p=weights)
    noise = np.einsum(
        "nij,nj->ni", np.linalg.cholesky(covariances)[labels], rng.standard_normal((n, means.shape[1]))
    )
    return means[labels] + noise, labels


def log_joint(mixture: Mixture, X: np.ndarray) -> np.ndarray:
    """Log of weight times density."""
    found = []
    for weight, mean, covariance in zip(*mixture, strict=True):
        L = np.linalg.cholesky(covariance)
        u = np.linalg.solve(L, (X - mean).T)
        found.append(np.log(weight) - 0.5 * np.square(u).sum(axis=0) - np.log(np.diag(L)).sum())
    return np.array(found).T


def wrong(found: np.ndarray, labels: np.ndarray) -> float:
    """Share of rows labelled wrongly, components matched as well as can be."""
    counts = pd.crosstab(found, labels).to_numpy()
    return 1 - counts[linear_sum_assignment(-counts)].sum() / len(labels)


def em(mixture: Mixture, X: np.ndarray, steps: int) -> Mixture:
    """Expectation maximisation without privacy."""
    for _ in range(steps):
        joint = log_joint(mixture, X)
        g = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        sizes = g.sum(axis=0) + 1e-9
        means = (g.T @ X) / sizes[:, None]
        parts = [((X - m) * w[:, None]).T @ (X - m) / n for m, w, n in zip(means, g.T, sizes, strict=True)]
        mixture = (sizes / sizes.sum(), means, np.array(parts) + 1e-6 * np.eye(X.shape[1]))
    return mixture


def private_em(mixture: Mixture, X: np.ndarray, steps: int, rng: np.random.Generator) -> Mixture:
    """Expectation maximisation on noisy sums of g (r/2, y, yy'/r), |y| at most r = 0.6 sqrt(d), and repair."""
    n, d = X.shape
    r = 0.6 * np.sqrt(d)
    Y = X * np.minimum(1, r / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))
    noise = gaussian_unit_scale(EPSILON, DELTA) * np.sqrt(4.5) * r * np.sqrt(steps)
    for _ in range(steps):
        joint = log_joint(mixture, X)
        g = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
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


def ours(X: np.ndarray, n_components: int | str, seed: int) -> dp.Release:
    """Fit with the library."""
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    bounds = dict.fromkeys(table.columns, (-1, 1))
    view = dp.protect(
        table,
        f"{X.shape}-{n_components}-{X[0, 0]}",
        epsilon=EPSILON,
        delta=DELTA,
        accounting="basic",
        ledger="memory:",
        bounds=bounds,
    )
    with seeded_noise(seed):
        return view.gmm_fit(list(bounds), n_components=n_components, epsilon=EPSILON, delta=DELTA)


def kmeans(python: str, tables: np.ndarray, K: int) -> list[np.ndarray]:
    """Centres of diffprivlib's KMeans."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tables.npy"
        np.save(path, tables)
        asked = [python, "-c", KMEANS, str(path), str(K)]
        found = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    return [np.array(centres) for centres in json.loads(found)]


def others(X: np.ndarray, start: Mixture, sd: float, rng: np.random.Generator) -> list[np.ndarray]:
    """Labels of private expectation maximisation from a random and from a good start, and of scikit-learn."""
    (weights, means, _), d = start, X.shape[1]
    K = len(weights)
    equal = np.full(K, 1 / K)
    random = (equal, rng.uniform(-0.6, 0.6, (K, d)), np.repeat(0.04 * np.eye(d)[None], K, axis=0))
    near = (equal, means + rng.normal(0, 0.5 * sd, (K, d)), np.repeat(sd**2 * np.eye(d)[None], K, axis=0))
    fits = [private_em(random, X, 10, rng), private_em(near, X, 3, rng)]
    plain = GaussianMixture(K, n_init=10, random_state=0).fit(X[:20_000])
    return [*(log_joint(fit, X).argmax(axis=1) for fit in fits), plain.predict(X)]


def chance(rate: float, reference: float, runs: int) -> float:
    """How often two rates differ as much by chance; that of the reference is of 20 tables."""
    good, before = round(rate * runs), round(reference * 20)
    return float(fisher_exact([[good, runs - good], [before, 20 - before]]).pvalue)


def compared(rows: Iterable[list[str]], runs: int) -> str:
    """Say how many rates differ from the reference."""
    found = []
    for row in rows:
        K, d, separation, n, ours, rate, *_, em, good, near, plain = row
        each = (int(K), int(d), float(separation), int(n))
        rates = zip((em, good, near, plain), COMPARED.get(each, ()), strict=False)
        pairs = [(rate, ours), *((rate, before) for rate, before in rates if rate)]
        found += [chance(float(rate), float(before), runs) for rate, before in pairs]
    return f"{np.sum(np.array(found) < 0.05)} of {len(found)} rates differ from the reference at 5%."


def off(fit: dp.Release, means: np.ndarray) -> float:
    """Mean square of the errors of the means, in predicted standard errors."""
    distance = np.linalg.norm(fit.means_[:, None] - means, axis=2)
    k, j = linear_sum_assignment(distance)
    return float(np.mean(((fit.means_[k] - means[j]) / fit.mean_errors[k]) ** 2))


def cell(K: int, d: int, separation: float, n: int, runs: int, seed: int, python: str | None) -> list[str]:
    """Simulate one design; give the rest of its row."""
    done, warned, errors, tables, labels_of, limits = [], 0, [], [], [], []
    beside = (K, d, separation, n) in COMPARED
    for run in range(runs):
        rng = np.random.default_rng([seed, K, d, int(10 * separation), n, run])
        mixture, sd = truth(K, d, separation, run, rng)
        X, labels = drawn(mixture, n, rng)
        limit = wrong(log_joint(em(mixture, X[:20_000], 25), X).argmax(axis=1), labels) + MARGIN
        fit = ours(X, K, seed + run)
        warned += bool(fit.notes)
        found = [fit.predict(X), *(others(X, mixture, sd, rng) if beside else [])]
        done.append([wrong(each, labels) <= limit for each in found])
        errors += [off(fit, mixture[1])] if done[-1][0] else []
        tables.append(X)
        labels_of.append(labels)
        limits.append(limit)
    rates = list(np.mean(done, axis=0))
    rates += [np.nan] * (4 - len(rates))
    near = np.nan
    if beside and python:
        centres = kmeans(python, np.array(tables), K)
        nearest = [
            np.linalg.norm(X[:, None] - c, axis=2).argmin(axis=1) for X, c in zip(tables, centres, strict=True)
        ]
        near = np.mean([wrong(*each) <= limit for *each, limit in zip(nearest, labels_of, limits, strict=True)])
    reference = CELLS[K, d, separation, n]
    p = chance(rates[0], reference, runs)
    error = np.sqrt(np.mean(errors)) if errors else np.nan
    shown = (reference, rates[0], p, warned / runs, error, *rates[1:3], near, rates[3])
    return ["" if np.isnan(x) else f"{x:.2f}" for x in shown]


def chosen(K: int, d: int, separation: float, n: int, runs: int, seed: int) -> list[str]:
    """Give the numbers of components that are chosen, as the rest of a row."""
    found = []
    for run in range(runs):
        rng = np.random.default_rng([seed, K, d, int(10 * separation), n, run])
        X, _ = drawn(truth(K, d, separation, run, rng)[0], n, rng)
        found.append(ours(X, "auto", seed + run).n_components)
    right = found.count(K) / runs
    rest = ", ".join(str(k) for k in sorted(found) if k != K)
    return [f"{CHOICES[K, d, separation, n]:.2f}", f"{right:.2f}", rest]


def seldom(each: tuple[int, int, float, int]) -> tuple[float, ...]:
    """Order cells so that those that take longest are last."""
    K, d, separation, n = each
    slow = K * d > 40
    return slow, -n if slow else n, K, d, separation


def table(
    name: str,
    heads: Sequence[str],
    designs: Iterable[tuple],
    simulate: Callable[..., list[str]],
    kept: Path | None,
    *,
    whole: bool = True,
) -> list[list[str]]:
    """Print and keep the table of some designs, and its rows in a file as soon as they are there."""
    rows = []
    known = [cells(each) for each in kept.read_text().splitlines()] if kept and kept.exists() else []
    with recorded(name, "K", "d", "separation", "n", *heads, keep=whole) as row:
        for each in designs:
            start = "{} {} {:g} {}".format(*each).split()
            found = next((old for old in known if old[:4] == start and len(old) == 4 + len(heads)), [])
            if not found:
                found = [*start, *simulate(*each)]
                if kept:
                    with kept.open("a") as file:
                        file.write(line(found) + "\n")
            row(*found)
            rows.append(found)
    return rows


def main() -> int:
    """Simulate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="simulated tables a cell (default: 20)")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--rows", type=int, nargs="+", help="only tables of these sizes")
    parser.add_argument("--diffprivlib", metavar="PYTHON", help="the Python of an environment with diffprivlib")
    parser.add_argument("--only", choices=("fits", "choice"))
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to keep rows that are done")
    asked = parser.parse_args()
    fits = ("reference", "gmm_fit", "p", "warned", "errors", "private EM", "good start", "KMeans", "scikit-learn")
    if asked.only != "choice":
        designs = sorted(CELLS, key=seldom)
        rows = table(
            "gmm_mixtures",
            fits,
            [each for each in designs if not asked.rows or each[3] in asked.rows],
            lambda *each: cell(*each, asked.runs, asked.seed, asked.diffprivlib),
            asked.output,
            whole=not asked.rows,
        )
        print("\n" + compared(rows, asked.runs))
    if asked.only != "fits":
        print()
        choices = ("reference", "right", "else chosen")
        choose = partial(chosen, runs=min(asked.runs, 12), seed=asked.seed)
        table("gmm_mixtures_choice", choices, CHOICES, choose, asked.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
