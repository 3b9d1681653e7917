"""Errors of linear and logistic regression, and coverage of their 95% intervals.

    python tests/benchmarks/regression_errors.py --runs 200

Epsilon is 1 unless said; regressors are normal within bounds of three standard deviations, residuals have standard
deviation 1, and the outcome's bounds are five of them. The row has the share of intervals of slopes that hold the
slope of the population, the median standard error and the root mean squared error, in units of the regressors, and
how many answers called themselves informative.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd
from results import recorded

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

LINEAR: dict[str, dict[str, Any]] = {
    "1 regressor": {"n": 1000, "beta": [0.5]},
    "1 regressor, n 5000": {"n": 5000, "beta": [0.5]},
    "3 regressors, n 2000": {"n": 2000, "beta": [0.5, -0.3, 0.0]},
    "3 regressors, n 5000": {"n": 5000, "beta": [0.5, -0.3, 0.0]},
    "3 regressors, n 20000": {"n": 20_000, "beta": [0.5, -0.3, 0.0]},
    "3, correlation .9, n 20000": {"n": 20_000, "beta": [0.5, -0.3, 0.0], "rho": 0.9},
    "8 regressors, n 20000": {"n": 20_000, "beta": [0.3, -0.3, 0.3, -0.3, 0.0, 0.0, 0.2, 0.1]},
    "uneven residuals, n 50000": {"n": 50_000, "beta": [0.5], "errors": "uneven", "y": 9.0},
    "t(3) residuals, n 2000": {"n": 2000, "beta": [0.5], "errors": "t3", "y": 20.0},
    "rows come and go, n 5000": {"n": 5000, "beta": [0.5, -0.3, 0.0], "neighbors": "add_remove"},
    "a fifth missing, n 5000": {"n": 5000, "beta": [0.5, -0.3, 0.0], "missing": 0.2},
    **{
        f"x in ±4, y in ±15, n 1000, epsilon {epsilon}": {
            "n": 1000, "beta": [1.0, 2.0], "x": 4.0, "y": 15.0, "epsilon": epsilon
        }
        for epsilon in (1, 2, 5, 10)
    },
}  # fmt: skip
LOGISTIC: dict[str, dict[str, Any]] = {
    "logistic, 1 regressor, n 1000": {"n": 1000, "beta": [0.5]},
    "logistic, 1 regressor, n 5000": {"n": 5000, "beta": [0.5]},
    "logistic, 3 regressors, n 20000": {"n": 20_000, "beta": [0.5, -0.5, 0.0]},
    "logistic, rare (5 %), n 20000": {"n": 20_000, "beta": [0.5, -0.5, 0.0], "shift": -3.2},
    "logistic, strong, n 20000": {"n": 20_000, "beta": [1.5, -1.0, 0.0]},
}


def draw(rng: np.random.Generator, cell: dict[str, Any], *, logistic: bool) -> pd.DataFrame:
    """Draw a table."""
    n, beta = cell["n"], np.array(cell["beta"])
    rho = cell.get("rho", 0.0)
    x = np.sqrt(1 - rho) * rng.normal(size=(n, len(beta))) + np.sqrt(rho) * rng.normal(size=(n, 1))
    x = x.clip(-2.999, 2.999)
    df = pd.DataFrame(x, columns=[f"x{i}" for i in range(len(beta))])
    if logistic:
        df["y"] = rng.random(n) < 1 / (1 + np.exp(-(cell.get("shift", -1.0) + x @ beta)))
        return df
    residuals = {"t3": lambda: rng.standard_t(3, n) / np.sqrt(3)}.get(
        cell.get("errors", ""), lambda: rng.normal(size=n)
    )()
    if cell.get("errors") == "uneven":
        residuals *= np.sqrt(0.25 + 0.75 * x[:, 0] ** 2)
    df["y"] = x @ beta + residuals
    if "missing" in cell:
        df.loc[rng.random(n) < cell["missing"], "x0"] = np.nan
    return df


def run(cell: dict[str, Any], runs: int, *, logistic: bool) -> tuple[float, float, float, float]:
    """Give coverage, standard error, root mean squared error, and how many answers are informative."""
    rng, beta = np.random.default_rng(1), np.array(cell["beta"])
    names = [f"x{i}" for i in range(len(beta))]
    bounds: dict[str, tuple[float, float]] = dict.fromkeys(names, (-cell.get("x", 3.0), cell.get("x", 3.0)))
    if not logistic:
        bounds["y"] = (-cell.get("y", 5.0), cell.get("y", 5.0))
    inside, errors, missed, informative = [], [], [], []
    for seed in range(runs):
        view = dp.protect(
            draw(rng, cell, logistic=logistic),
            f"regression-{seed}-{abs(hash(str((bounds, cell))))}",
            epsilon=20,
            ledger="memory:",
            bounds=bounds,
            categories={"y": [False, True]} if logistic else {},
            neighbors=cell.get("neighbors", "replace_one"),
        )
        with seeded_noise(seed):
            fit = (view.logit if logistic else view.ols)("y", names, epsilon=cell.get("epsilon", 1), fresh=True)
        low, high, params, bse = (
            np.array([values[name] for name in names], dtype=float)
            for values in (fit.low, fit.high, fit.params, fit.bse)
        )
        inside.append((low <= beta) & (beta <= high))
        errors.append(bse)
        missed.append(params - beta)
        informative.append(fit.informative)
    return (
        float(np.mean(inside)),
        float(np.median(errors)),
        float(np.sqrt(np.nanmean(np.square(missed)))),
        float(np.mean(informative)),
    )


def main() -> None:
    """Measure all cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    with recorded("regression", "cell", "coverage", "standard error", "rmse", "informative") as row:
        for cells, logistic in ((LINEAR, False), (LOGISTIC, True)):
            for name, cell in cells.items():
                coverage, error, rmse, informative = run(cell, runs, logistic=logistic)
                row(name, f"{coverage:.3f}", f"{error:.4f}", f"{rmse:.4f}", f"{informative:.2f}")


if __name__ == "__main__":
    main()
