"""What predicts the price of a house? The regressions of docs/howto/price.md, on 506 districts of Boston.

    DFPRIVACY_TEST_DATA=folder python tests/benchmarks/price.py

The folder holds housing.csv, without a header line (UCI). Bounds are of general knowledge: shares lie between 0 and
100, a dwelling has 3 to 9 rooms, prices are said in thousands of dollars and cut at 50. Each answer is asked once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from results import recorded

import dfprivacy as dp

NAMES = ["crim", "zn", "indus", "chas", "nox", "rm", "age", "dis", "rad", "tax", "ptratio", "b", "lstat", "medv"]
USED = {"rm": "rooms", "lstat": "poor", "ptratio": "pupils", "chas": "river", "medv": "price"}
BOUNDS = {"rooms": (3, 9), "poor": (0, 40), "pupils": (10, 25), "price": (0, 50)}
POOR, ROOMS = "price ~ poor", "price ~ rooms + poor"
ALL = "price ~ rooms + poor + pupils + C(river)"
ASKED = ((POOR, 1), (POOR, 5), (ROOMS, 1), (ROOMS, 5), (ROOMS, 20), (ALL, 5), (ALL, 20))


def main() -> int:
    """Ask, beside least squares on the rows."""
    folder = os.environ.get("DFPRIVACY_TEST_DATA", "")
    file = Path(folder) / "housing.csv"
    if not folder or not file.exists():
        print("Name the folder that holds housing.csv: DFPRIVACY_TEST_DATA=folder.", file=sys.stderr)
        return 1
    df = pd.read_csv(file, header=None, names=NAMES)[list(USED)].rename(columns=USED)
    view = dp.protect(df, "boston", epsilon=100, ledger="memory:", bounds=BOUNDS, categories={"river": [0, 1]})
    print(view.explain("ols", ROOMS, epsilon=2))
    print(view.power(("ols", POOR), epsilon=[0.5, 1, 2, 5], assume={"effect": 1.0, "spread": 6}, runs=100))
    with recorded("price", "formula", "ε", "regressor", "private", "95% interval", "on the rows", "says") as row:
        for formula, epsilon in ASKED:
            fit = view.ols(formula, epsilon=epsilon)
            exact = on_rows(df, [name for name in fit.params if name != "Intercept"])
            for name, value in exact.items():
                params, low, high = fit.params[name], fit.low[name], fit.high[name]
                row(
                    formula,
                    f"{epsilon:g}",
                    name,
                    "none" if params is None else f"{params:.2f}",
                    f"{low:.2f} to {high:.2f}",
                    f"{value:.2f}",
                    "informative" if fit.informative else "uninformative",
                )
    return 0


def on_rows(df: pd.DataFrame, names: list[str]) -> dict[str, float]:
    """Give the slopes of least squares."""
    columns = [df["river"] == 1 if name.startswith("C(") else df[name] for name in names]
    X = np.column_stack([np.ones(len(df)), *columns]).astype(float)
    found = np.linalg.lstsq(X, df["price"].to_numpy(), rcond=None)[0][1:]
    return dict(zip(names, found.tolist(), strict=True))


if __name__ == "__main__":
    sys.exit(main())
