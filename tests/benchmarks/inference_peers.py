"""Everyday inference beside what others have published: powers, errors, and time.

    python tests/benchmarks/inference_peers.py ranks --runs 300
    python tests/benchmarks/inference_peers.py ols --runs 60
    python tests/benchmarks/inference_peers.py curves --runs 2000
    python tests/benchmarks/inference_peers.py speed

``ranks``: powers at level .05 and ε = 1 of ``mannwhitneyu`` and ``kruskal``, by `dfprivacy.power`, beside the
test of Couch et al. (2019), |D| with noise of the scale (n - 1)/ε, and, for several groups, the F1 test of Swanberg
et al. (2019), 70% of its budget for the sum between groups. ``ols``: root mean squared errors of slopes, beside
AdaSSP (Wang 2018; δ = 1e-6) on the same tables, and the figures of dp-statsmodels (δ = 1e-5), which are those of
its repository. ``curves``: root mean squared errors of survival curves at the ends of intervals, from the curve of
the same intervals without noise, beside four estimators on the same tables; those are of statsmodels (heart
transplants) and of lifelines (lung cancer, breast cancer), which has to be installed. DP-Surv keeps as many
coefficients as turn out best. ``speed``: CPU time of a million rows, beside scipy's and NumPy's on one core.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from results import recorded
from scipy import fft, stats
from scipy.optimize import isotonic_regression
from statsmodels.datasets import heart

import dfprivacy as dp
from dfprivacy_inference.curves import cumulated_hazard

if TYPE_CHECKING:
    from collections.abc import Callable

TWO = ((1.0, 20), (1.0, 40), (1.0, 80), (0.5, 100), (0.5, 200), (0.7, 60), (0.3, 600))
STEPS = ((3, 45), (3, 60), (3, 90), (3, 290), (5, 60))
DRAWS = 100_000
PUBLISHED = {1.0: ".89 to .99", 2.0: ".45 to .49", 5.0: ".18 to .20", 10.0: ".092 to .101"}
LINES = (
    *((1000, (1.0, 2.0), 4.0, 15.0, epsilon) for epsilon in PUBLISHED),
    (1000, (0.5,), 3.0, 5.0, 1.0),
    (5000, (0.5, -0.3, 0.0), 3.0, 5.0, 1.0),
    (20_000, (0.5, -0.3, 0.0), 3.0, 5.0, 1.0),
    (5000, (0.4, 0.4, 0.0, -0.2, 0.1), 3.0, 5.0, 2.0),
)


def couch(rng: np.random.Generator, shift: float, n: int, runs: int, epsilon: float) -> float:
    """Power of the absolute rank sum, of groups alike."""
    x, half = rng.normal(size=(runs, n)), n // 2
    x[:, :half] += shift
    d = stats.rankdata(x, axis=1)[:, :half].sum(axis=1) - half * (n + 1) / 2
    scale, sd = (n - 1) / epsilon, np.sqrt(half * (n - half) * (n + 1) / 12)
    null = np.abs(rng.normal(0, sd, DRAWS)) + rng.laplace(0, scale, DRAWS)
    return float((np.abs(d) + rng.laplace(0, scale, runs) > np.quantile(null, 0.95)).mean())


def f1(rng: np.random.Generator, k: int, n: int, runs: int, epsilon: float) -> float:
    """Power of the F1 test, of normal groups of standard deviation .15 in [0, 1], each one above the next."""
    group = np.arange(n) % k

    def statistic(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means = np.stack([u[:, group == j].mean(axis=1) for j in range(k)], axis=1)
        between = np.abs(means[:, group] - u.mean(axis=1, keepdims=True)).sum(axis=1)
        within = np.abs(u - means[:, group]).sum(axis=1)
        between += rng.laplace(0, 4 / (0.7 * epsilon), len(u))
        noisy = within + rng.laplace(0, 3 / (0.3 * epsilon), len(u))
        return between / (k - 1) / np.maximum(noisy / (n - k), 1e-9), within

    def drawn(spread: float, step: float, count: int) -> np.ndarray:
        return np.clip(0.5 + spread * rng.normal(size=(count, n)) + step * ((k - 1) / 2 - group), 0, 1)

    found, within = statistic(drawn(0.15, 0.15, runs))
    null, _ = statistic(drawn(np.sqrt(np.pi / 2) * within.mean() / (n - k), 0.0, 4000))
    return float((found > np.quantile(null, 0.95)).mean())


def ranks(runs: int) -> None:
    """Powers of tests of groups."""
    rng = np.random.default_rng(71)
    with recorded("peers_ranks", "groups", "apart", "rows", "ours", "Couch et al.", "F1") as row:
        for shift, n in TWO:
            ours = dp.power(
                ("mannwhitneyu", "x", {"by": "g"}),
                n=n,
                epsilon=1,
                assume={"effect": shift, "spread": 1},
                bounds={"x": (-5, 5)},
                categories={"g": ["a", "b"]},
                runs=runs,
            )
            row(2, f"{shift:g} sd", n, f"{ours.shares[0][0]:.2f}", f"{couch(rng, shift, n, 4000, 1.0):.2f}", "")
        for k, n in STEPS:
            ours = dp.power(
                ("kruskal", "x", {"by": "g"}),
                n=n,
                epsilon=1,
                assume={"effect": 1, "spread": 0.15},
                bounds={"x": (0, 1)},
                categories={"g": list("abcdefgh"[:k])},
                runs=runs,
            )
            row(k, "steps of 1 sd", n, f"{ours.shares[0][0]:.2f}", "", f"{f1(rng, k, n, 1000, 1.0):.2f}")


def adassp(
    rng: np.random.Generator, X: np.ndarray, y: np.ndarray, epsilon: float, delta: float = 1e-6
) -> np.ndarray:
    """Least squares with an adaptive ridge (Wang 2018, algorithm 2); rows of X and y lie in [-1, 1]."""
    d, third, log = X.shape[1], epsilon / 3, np.log(6 / delta)
    bound = d  # of the squared norm of a row of X
    A = X.T @ X
    least = np.linalg.eigvalsh(A)[0] + np.sqrt(log) / third * bound * rng.normal() - log / third * bound
    ridge = max(0.0, np.sqrt(d * log * np.log(2 * d**2 / 0.05)) * bound / third - max(least, 0.0))
    noise = np.triu(rng.normal(size=(d, d)))
    noise = noise + np.triu(noise, 1).T
    A = A + np.sqrt(log) / third * bound * noise + ridge * np.eye(d)
    b = X.T @ y + np.sqrt(log) / third * np.sqrt(bound) * rng.normal(size=d)
    return np.linalg.solve(A, b)


def ols(runs: int) -> None:
    """Errors of slopes, and coverage of ours."""
    rng = np.random.default_rng(73)
    with recorded(
        "peers_ols", "rows", "slopes", "bounds", "ε", "ours, rmse", "covers", "AdaSSP, rmse", "dp-statsmodels, rmse"
    ) as row:
        for n, beta, wide, high, epsilon in LINES:
            names = [f"x{j}" for j in range(len(beta))]
            missed, theirs, inside = [], [], []
            for run in range(runs):
                x = rng.normal(size=(n, len(beta))).clip(-wide, wide)
                y = x @ beta + rng.normal(size=n)
                df = pd.DataFrame(np.column_stack([x, y]), columns=[*names, "y"])
                bounds = {**dict.fromkeys(names, (-wide, wide)), "y": (-high, high)}
                name = f"peers-{n}-{epsilon:g}-{len(beta)}-{run}"
                fit = dp.protect(df, name, epsilon=epsilon, ledger="memory:", bounds=bounds).ols(
                    "y", names, epsilon=epsilon
                )
                found = (fit.low, fit.high, fit.params)
                least, most, params = (np.array([each[x] for x in names], dtype=float) for each in found)
                inside.append((least <= beta) & (np.array(beta) <= most))
                missed.append(params - beta)
                X = np.column_stack([np.ones(n), x / wide])
                theirs.append(adassp(rng, X, y.clip(-high, high) / high, epsilon)[1:] * high / wide - beta)
            row(
                n,
                ", ".join(f"{each:g}" for each in beta),
                f"x ±{wide:g}, y ±{high:g}",
                f"{epsilon:g}",
                f"{np.sqrt(np.nanmean(np.square(missed))):.3f}",
                f"{np.mean(inside):.3f}",
                f"{np.sqrt(np.mean(np.square(theirs))):.3f}",
                PUBLISHED[epsilon] if len(beta) == 2 else "",
            )


def studies() -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """Give times, events, and an end of time that is known beforehand."""
    df = heart.load_pandas().data
    found = {"heart": (df["survival"].to_numpy(), df["censors"].to_numpy() == 1, 1800.0)}
    lifelines = importlib.util.find_spec("lifelines")
    if lifelines is None or lifelines.origin is None:
        raise SystemExit("Install lifelines: its tables of survival are asked.")
    folder = Path(lifelines.origin).parent / "datasets"
    lung, breast = pd.read_csv(folder / "lung.csv"), pd.read_csv(folder / "gbsg2.csv")
    found["lung"] = lung["time"].to_numpy(), lung["status"].to_numpy() == lung["status"].max(), 1100.0
    found["gbsg2"] = breast["time"].to_numpy(), breast["cens"].to_numpy() == 1, 2700.0
    return found


def survival_of(d: np.ndarray, c: np.ndarray, n: np.ndarray | float) -> np.ndarray:
    """Give a product of 1 - d/r, with the number at risk counted down from the first: r_j = r_{j-1} - d - c."""
    left = np.asarray(n)[..., None] - np.cumsum(d + c, axis=-1) + d + c
    hazard = np.divide(d, left, out=np.ones_like(d), where=left > 0)
    return np.cumprod(1 - np.clip(hazard, 0, 1), axis=-1)


def risk_table(rng: np.random.Generator, d: np.ndarray, c: np.ndarray, epsilon: float, runs: int) -> np.ndarray:
    """Noise on the first number at risk, on events and on censored times (Gondara and Wang 2020)."""
    first = d.sum() + c.sum() + rng.laplace(0, 2 / epsilon, runs)
    d, c = (each + rng.laplace(0, 2 / epsilon, (runs, len(each))) for each in (d, c))
    return np.clip(np.minimum.accumulate(survival_of(d, c, first), axis=1), 0, 1)


def dp_matrix(rng: np.random.Generator, d: np.ndarray, c: np.ndarray, epsilon: float, runs: int) -> np.ndarray:
    """Noise on events and on censored times, rounded and clipped at 0; rows are known (Rahimian et al.)."""
    n = d.sum() + c.sum()
    noisy = [np.rint(each + rng.laplace(0, 2 / epsilon, (runs, len(each)))).clip(0) for each in (d, c)]
    return survival_of(noisy[0], noisy[1], float(n))


def chances(d: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Give the probability of an event in each interval, and of none: what DP-Prob adds noise to."""
    survival = np.append(1.0, survival_of(d.astype(float), c.astype(float), float(d.sum() + c.sum())))
    return np.append(-np.diff(survival), survival[-1])


def waves(d: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Give the discrete cosine transform of the curve, which DP-Surv adds noise to."""
    survival = np.append(1.0, survival_of(d.astype(float), c.astype(float), float(d.sum() + c.sum())))
    return np.asarray(fft.dct(survival, norm="ortho"))


def dp_prob(rng: np.random.Generator, d: np.ndarray, c: np.ndarray, scale: float, runs: int) -> np.ndarray:
    """Noise on the probability of each interval, clipped and normed (Rahimian et al.)."""
    noisy = np.clip(chances(d, c) + rng.laplace(0, scale, (runs, len(d) + 1)), 0, None)
    noisy /= np.maximum(noisy.sum(axis=1, keepdims=True), 1e-12)
    return 1 - np.cumsum(noisy, axis=1)[:, :-1]


def dp_surv(
    rng: np.random.Generator, d: np.ndarray, c: np.ndarray, scale: float, runs: int, kept: int
) -> np.ndarray:
    """Noise on the first coefficients of the transform, the others 0, and the curve made to fall (the same)."""
    noisy = waves(d, c) + rng.laplace(0, scale, (runs, len(d) + 1))
    noisy[:, kept:] = 0
    curves = fft.idct(noisy, norm="ortho", axis=1)
    curves[:, 0] = 1.0
    return np.array([isotonic_regression(each, increasing=False).x for each in curves])[:, 1:].clip(0, 1)


def farthest(f: Callable[..., np.ndarray], d: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Give how far another value of one row moves the first coordinates of what noise is added to, in L1."""
    cells, here = np.concatenate([d, c]), f(d, c)
    most = np.zeros(len(here))
    for old, new in itertools.permutations(range(len(cells)), 2):
        if cells[old]:
            moved = cells.copy()
            moved[old] -= 1
            moved[new] += 1
            most = np.maximum(most, np.cumsum(np.abs(f(*np.split(moved, 2)) - here)))
    return most


def ours(tables: np.ndarray, scale: float) -> np.ndarray:
    """Give our curve, of noise of a scale."""
    return np.asarray(np.exp(-cumulated_hazard(tables, 6 * scale, 20 * scale)[0]))


def curves(runs: int) -> None:
    """Errors of survival curves, and how much more than they say one row moves what the last two release."""
    rng, few = np.random.default_rng(97), min(runs, 200)
    with recorded(
        *("peers_curves", "table", "rows", "intervals", "ε", "ours", "risk table", "DP-Matrix"),
        *("DP-Prob", "times ε", "with the noise for ε", "DP-Surv", "times ε", "with the noise for ε"),
    ) as row:
        for (name, (t, event, end)), intervals in itertools.product(studies().items(), (10, 20)):
            edges, n = np.linspace(0, end, intervals + 1), len(t)
            d, c = (np.histogram(t[event == here], edges)[0] for here in (True, False))
            table = np.stack([d, c / 2, c / 2])  # censored in the middle of their interval
            exact, theirs = ours(table, 0.0), survival_of(d.astype(float), c.astype(float), float(n))
            prob = farthest(chances, d, c)[-1] * d.sum() / 2
            surv = farthest(waves, d, c)[:-1] / np.sqrt(np.arange(1, intervals + 1) * intervals) * n
            for epsilon in (0.1, 0.5, 1.0, 2.0, 10.0):
                b = 2 / epsilon
                shown = [rmse(ours(table + rng.laplace(0, b, (runs, *table.shape)), b), exact)]
                shown += [rmse(f(rng, d, c, epsilon, runs), theirs) for f in (risk_table, dp_matrix)]
                shown += [rmse(dp_prob(rng, d, c, times * b / d.sum(), runs), theirs) for times in (1.0, prob)]
                ways = []
                for times in (np.ones(intervals), surv):
                    errors = {}
                    for kept in range(1, intervals, 2):
                        scale = times[kept - 1] * np.sqrt(kept * intervals) / n / epsilon
                        errors[kept] = rmse(dp_surv(rng, d, c, scale, few, kept), theirs)
                    best = min(errors, key=errors.__getitem__)
                    ways += [errors[best], surv[best - 1]]
                cells = [*(f"{each:.3f}" for each in shown[:4]), f"{prob:.1f}", f"{shown[4]:.3f}"]
                row(
                    name, n, intervals, f"{epsilon:g}", *cells, f"{ways[0]:.3f}", f"{ways[1]:.1f}", f"{ways[2]:.3f}"
                )


def rmse(found: np.ndarray, exact: np.ndarray) -> float:
    """Root mean squared error."""
    return float(np.sqrt(np.mean(np.square(found - exact))))


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """Least CPU time."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def speed() -> None:
    """Time a million rows."""
    rng, n = np.random.default_rng(79), 1_000_000
    x, group = rng.normal(size=n), rng.integers(0, 2, n)
    wide = rng.normal(size=(n, 10)).clip(-4, 4)
    y = wide @ np.full(10, 0.1) + rng.normal(size=n)
    names = [f"x{j}" for j in range(10)]
    df = pd.DataFrame({"x": x, "g": group, **{name: wide[:, j] for j, name in enumerate(names)}, "y": y})
    bounds = {"x": (-6, 6), "y": (-8, 8), **dict.fromkeys(names, (-4, 4))}
    view = dp.protect(df, "peers-speed", epsilon=10**6, ledger="memory:", bounds=bounds, categories={"g": [0, 1]})
    X = np.column_stack([np.ones(n), wide])
    with recorded("peers_speed", "what", "ours, s", "theirs, s", "times") as row:
        for what, ours, theirs in (
            (
                "mannwhitneyu, 1e6 rows; scipy",
                seconds(lambda: view.mannwhitneyu("x", by="g", epsilon=1, fresh=True)),
                seconds(lambda: stats.mannwhitneyu(x[group == 0], x[group == 1])),
            ),
            (
                "ols, 1e6 rows, 10 regressors; numpy.linalg.lstsq",
                seconds(lambda: view.ols("y", names, epsilon=1, fresh=True)),
                seconds(lambda: np.linalg.lstsq(X, y, rcond=None)),
            ),
        ):
            row(what, f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}")


def main() -> None:
    """Choose."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ranks", "ols", "curves", "speed"))
    parser.add_argument("--runs", type=int, default=200)
    asked = parser.parse_args()
    if asked.what == "speed":
        speed()
    else:
        {"ranks": ranks, "ols": ols, "curves": curves}[asked.what](asked.runs)


if __name__ == "__main__":
    main()
