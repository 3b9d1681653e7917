"""Everyday inference beside what others have published: powers, errors, and time.

    python tests/benchmarks/inference_peers.py ranks --runs 300
    python tests/benchmarks/inference_peers.py ols --runs 60
    python tests/benchmarks/inference_peers.py speed

``ranks``: powers at level .05 and ε = 1 of ``mannwhitneyu`` and ``kruskal``, by `dfprivacy.power`, beside the
test of Couch et al. (2019), |D| with noise of the scale (n - 1)/ε, and, for several groups, the F1 test of Swanberg
et al. (2019), 70% of its budget for the sum between groups. ``ols``: root mean squared errors of slopes, beside
AdaSSP (Wang 2018; δ = 1e-6) on the same tables, and the figures of dp-statsmodels (δ = 1e-5), which are those of
its repository. ``speed``: CPU time of a million rows, beside scipy's and NumPy's on one core.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from results import recorded
from scipy import stats

import dfprivacy as dp

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
            row(2, f"{shift:g} sd", n, f"{ours.found[0][0]:.2f}", f"{couch(rng, shift, n, 4000, 1.0):.2f}", "")
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
            row(k, "steps of 1 sd", n, f"{ours.found[0][0]:.2f}", "", f"{f1(rng, k, n, 1000, 1.0):.2f}")


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
    parser.add_argument("what", choices=("ranks", "ols", "speed"))
    parser.add_argument("--runs", type=int, default=200)
    asked = parser.parse_args()
    if asked.what == "speed":
        speed()
    else:
        {"ranks": ranks, "ols": ols}[asked.what](asked.runs)


if __name__ == "__main__":
    main()
