"""Coverage of `dp.combine`, of arithmetic on releases and of `view.refine`, asked as a user asks.

    python tests/benchmarks/combine_coverage.py --runs 200

The 95% intervals for the table are for one table of 1,000 rows whose answers are measured anew in each run, and
are compared with the numbers that the same methods give of it without noise; those for the population are of a new
table in each run. "Noise" is the spread of the value over the runs, over the mean of the standard errors that it
says.
"""

from __future__ import annotations

import argparse
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from results import Parts, recorded, resumable

import dfprivacy as dp

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, COUNT = 1000, itertools.count()
ALONG = 0.5


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


def estimates(f: Callable[..., float], *releases: Any, **named: Any) -> Any:
    """Combine the estimates of t-tests."""
    return dp.combine(lambda *all_: f(*(each.estimate for each in all_)), *releases, **named)


def means(view: Any, epsilon: float) -> tuple[Any, Any]:
    """Give two answers about the same rows."""
    return view.ttest("x", epsilon=epsilon), view.ttest("y", epsilon=epsilon)


def minus(view: Any, epsilon: float) -> Any:
    """Write it as a user does."""
    a, b = means(view, epsilon)
    return a - b


def over(view: Any, epsilon: float) -> Any:
    """Write it as a user does."""
    a, b = means(view, epsilon)
    return a / b


def relative(view: Any, epsilon: float) -> Any:
    """Give a function in which each of two releases appears twice."""
    return estimates(lambda a, b: (a - b) / (a + b), *means(view, epsilon))


def shared(view: Any, epsilon: float) -> Any:
    """Add two answers that stand on one measurement."""
    first = view.ttest("x", epsilon=epsilon)
    return estimates(lambda a, b: a + b, first, view.ttest("x", popmean=3, epsilon=epsilon))


def apart_in_time(view: Any, epsilon: float) -> Any:
    """Add two answers that stand on two measurements."""
    first = view.ttest("x", epsilon=epsilon)
    return estimates(lambda a, b: a + b, first, view.ttest("x", epsilon=epsilon, fresh=True))


def by_group(view: Any, epsilon: float) -> Any:
    """Give the difference of two groups."""
    groups = view.group_by("g").ttest("x", epsilon=epsilon)
    return estimates(lambda a, b: a - b, groups["a"], groups["b"])


def apart(counts: Any) -> float:
    """Difference of two shares of the four counts of a table."""
    (a, b), (c, d) = counts.raw
    return a / (a + b) - c / (c + d)  # type: ignore[no-any-return]


def of_groups(view: Any, epsilon: float) -> Any:
    """Give the difference of two groups, whose rows are others, for the population."""
    groups = view.group_by("g").ttest("x", epsilon=epsilon)
    return estimates(lambda a, b: a - b, groups["a"], groups["b"], covers="population")


def of_columns(view: Any, epsilon: float) -> Any:
    """Give the difference of two columns of the same rows, for the population."""
    return estimates(lambda a, b: a - b, *means(view, epsilon), covers="population")


OF_TABLES: dict[str, tuple[float, Callable[[Any, float], Any]]] = {
    "ttest(x) - ttest(y)": (0.2, minus),
    "ttest(x) / ttest(y)": (0.2, over),
    "the same, the divisor 4 standard errors from 0": (0.03, over),
    "(a - b) / (a + b), each release twice": (0.2, relative),
    "ttest(x) + ttest(x, popmean=3): one measurement": (0.2, shared),
    "ttest(x) + ttest(x), fresh: two measurements": (0.2, apart_in_time),
    "group a - group b, of one answer by group": (0.5, by_group),
    "share(h = u) where g = a, less that where g = b": (
        0.5,
        lambda v, e: dp.combine(apart, v.crosstab("g", "h", epsilon=e)),
    ),
    "log odds ratio of crosstab(g, h)": (
        0.5,
        lambda v, e: dp.combine(odds, v.crosstab("g", "h", epsilon=e)),
    ),
    "slope of ols(y ~ x), two stages": (
        5.0,
        lambda v, e: dp.combine(lambda fit: fit.params["x"], v.ols("y ~ x", epsilon=e)),
    ),
    "refine(ttest(x)), measured twice": (0.2, lambda v, e: v.refine(v.ttest("x", epsilon=e), epsilon=e)),
}


def main(runs: int, part: Parts) -> None:
    """Count."""
    with recorded("combine_coverage", "what", "for", "ε", "covers", "noise", "refused") as row:
        df = table(np.random.default_rng(83))
        for what, (epsilon, ask) in OF_TABLES.items():

            def of_table(ask: Any = ask, epsilon: float = epsilon) -> list[str]:
                truth = ask(protect(df), 10**5).estimate
                return shown([found(ask, df, epsilon) for _ in range(runs)], truth)

            row(what, "the table", f"{epsilon:g}", *part(what, of_table))
        for (what, ask, truth), epsilon in itertools.product(
            (
                ("ttest(x), group a - group b: other rows", of_groups, 0.5),
                ("ttest(x) - ttest(y): the same rows", of_columns, 1 + 0.5 * 0.4),
            ),
            (0.5, 20.0),
        ):

            def of_people(ask: Any = ask, epsilon: float = epsilon, truth: float = truth) -> list[str]:
                rng = np.random.default_rng(89)
                return shown([found(ask, table(rng), epsilon) for _ in range(runs)], truth)

            row(what, "the population", f"{epsilon:g}", *part(f"{what}, {epsilon}", of_people))


def found(ask: Callable[[Any, float], Any], df: pd.DataFrame, epsilon: float) -> Any:
    """Ask once; None where it is refused."""
    try:
        return ask(protect(df), epsilon)
    except dp.ArgumentError:
        return None


def shown(results: list[Any], truth: float) -> list[str]:
    """Say how many intervals hold the truth, how far the noise is what they say, and how many were refused."""
    given = [each for each in results if each is not None]
    inside = np.mean([each.low <= truth <= each.high for each in given])
    said = np.mean([np.hypot(each.noise_standard_error, each.sampling_standard_error or 0) for each in given])
    spread = np.std([each.estimate for each in given])
    return [f"{inside:.3f}", f"{spread / said:.2f}", f"{1 - len(given) / len(results):.0%}"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    resumable(parser)
    asked = parser.parse_args()
    main(asked.runs, Parts(asked.resume))
