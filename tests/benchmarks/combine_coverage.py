"""Coverage of `dp.combine`, of arithmetic on releases and of `view.refine`, asked as a user asks.

    python tests/benchmarks/combine_coverage.py --runs 200

The 95% intervals for the table are for one table of 1,000 rows whose answers are measured anew in each run, and
are compared with the numbers that the same methods give of it without noise; those for the population are of a new
table in each run. "Noise" is the spread of the value over the runs, over the mean of the standard errors that it says.
"""

from __future__ import annotations

import argparse
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from results import recorded

import dfprivacy as dp

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, COUNT = 1000, itertools.count()
ALONG, DRAWS = 0.5, 499


def table(rng: np.random.Generator) -> pd.DataFrame:
    """Two numbers that go together, and two kinds of groups that do as well."""
    x = rng.normal(size=ROWS)
    y = ALONG * x + np.sqrt(1 - ALONG**2) * rng.normal(size=ROWS)
    g = rng.random(ROWS) < 0.4
    return pd.DataFrame({
        "x": (3 + x + 0.5 * g).clip(0, 8),
        "y": (2 + y).clip(0, 8),
        "g": np.where(g, "a", "b"),
        "h": np.where(rng.random(ROWS) < 0.3 + 0.2 * g, "u", "v"),
    })  # fmt: skip


def protect(df: pd.DataFrame, **terms: Any) -> Any:
    """Protect a table under a name of its own."""
    return dp.protect(
        df,
        f"combined-{next(COUNT)}",
        epsilon=10**6,
        ledger="memory:",
        bounds={"x": (0, 8), "y": (0, 8)},
        categories={"g": ["a", "b"], "h": ["u", "v"]},
        **terms,
    )


def odds(counts: Any) -> float:
    """Log odds ratio of the four counts of a table."""
    (a, b), (c, d) = counts.raw
    return float(np.log(a * d / b / c))


def relative(view: Any, epsilon: float) -> Any:
    """Give a function in which each of two releases appears twice."""
    a, b = view.mean("x", epsilon=epsilon), view.mean("y", epsilon=epsilon)
    return (a - b) / (a + b)


def by_group(view: Any, epsilon: float) -> Any:
    """Give the difference of two groups."""
    groups = view.group_by("g").mean("x", epsilon=epsilon)
    return groups["a"] - groups["b"]


def shares(view: Any, epsilon: float) -> Any:
    """Give the shares of both groups."""
    return view.proportions("h", by="g", success="u", epsilon=epsilon)


def apart(a: Any, b: Any) -> Any:
    """Give the difference of two t-tests, for the population."""
    return dp.combine(lambda a, b: a.estimate - b.estimate, a, b, covers="population", draws=DRAWS)


def of_groups(view: Any, epsilon: float) -> Any:
    """Give the difference of two groups, whose rows are others."""
    groups = view.group_by("g").ttest("x", epsilon=epsilon)
    return apart(groups["a"], groups["b"])


def of_columns(view: Any, epsilon: float) -> Any:
    """Give the difference of two columns of the same rows."""
    return apart(view.ttest("x", epsilon=epsilon), view.ttest("y", epsilon=epsilon))


Ask = "Callable[[Any, float], Any]"
OF_TABLES: dict[str, tuple[float, Ask]] = {
    "mean(x) - mean(y)": (0.2, lambda v, e: v.mean("x", epsilon=e) - v.mean("y", epsilon=e)),
    "mean(x) / mean(y)": (0.2, lambda v, e: v.mean("x", epsilon=e) / v.mean("y", epsilon=e)),
    "mean(x) / mean(y), the divisor 4 standard errors from 0": (
        0.03,
        lambda v, e: v.mean("x", epsilon=e) / v.mean("y", epsilon=e),
    ),
    "(a - b) / (a + b), each release twice": (0.2, relative),
    "ttest(x) + ttest(x, popmean=3): one measurement": (
        0.2,
        lambda v, e: v.ttest("x", epsilon=e) + v.ttest("x", popmean=3, epsilon=e),
    ),
    "ttest(x) + ttest(x), fresh: two measurements": (
        0.2,
        lambda v, e: v.ttest("x", epsilon=e) + v.ttest("x", epsilon=e, fresh=True),
    ),
    "group a - group b, of one answer by group": (0.5, by_group),
    "share(h = u) where g = a, less that where g = b": (
        0.5,
        lambda v, e: dp.combine(lambda p: p.shares[0] - p.shares[1], shares(v, e), draws=DRAWS),
    ),
    "log odds ratio of crosstab(g, h)": (0.5, lambda v, e: dp.combine(odds, v.crosstab("g", "h", epsilon=e))),
    "slope of ols(y ~ x), two stages": (
        5.0,
        lambda v, e: dp.combine(lambda fit: fit.params["x"], v.ols("y ~ x", epsilon=e), draws=DRAWS),
    ),
    "refine(mean(x)), measured twice": (0.2, lambda v, e: v.refine(v.mean("x", epsilon=e), epsilon=e)),
    "refine(refine(mean(x)))": (
        0.2,
        lambda v, e: v.refine(v.refine(v.mean("x", epsilon=e), epsilon=e), epsilon=2 * e),
    ),
}


def main(runs: int) -> None:
    """Count."""
    rng = np.random.default_rng(83)
    df = table(rng)
    with recorded("combine_coverage", "what", "for", "ε", "covers", "noise", "refused") as row:
        for what, (epsilon, ask) in OF_TABLES.items():
            truth = ask(protect(df), 10**5).estimate
            show(row, what, "the table", epsilon, [(found(ask, df, epsilon), truth) for _ in range(runs)])
        for what, ask, truth in (
            ("ttest(x), group a - group b: other rows", of_groups, 0.5),
            ("ttest(x) - ttest(y): the same rows", of_columns, 1 + 0.5 * 0.4),
        ):
            for epsilon in (0.5, 20.0):
                drawn = [(found(ask, table(rng), epsilon), truth) for _ in range(runs)]
                show(row, what, "the population", epsilon, drawn)


def found(ask: Callable[[Any, float], Any], df: pd.DataFrame, epsilon: float) -> Any:
    """Ask once; None where it is refused."""
    try:
        return ask(protect(df), epsilon)
    except dp.ArgumentError:
        return None


def show(row: Callable[..., None], what: str, of: str, epsilon: float, results: list[tuple[Any, float]]) -> None:
    """Write a row."""
    given = [(each, truth) for each, truth in results if each is not None]
    inside = np.mean([each.low <= truth <= each.high for each, truth in given])
    said = np.mean([np.hypot(each.noise_standard_error, each.sampling_standard_error or 0) for each, _ in given])
    spread = np.std([each.estimate for each, _ in given])
    refused = 1 - len(given) / len(results)
    row(what, of, f"{epsilon:g}", f"{inside:.3f}", f"{spread / said:.2f}", f"{refused:.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    main(parser.parse_args().runs)
