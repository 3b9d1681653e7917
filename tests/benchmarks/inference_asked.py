"""Levels, coverage and powers of everyday inference, every answer asked of a protected table as a user asks it.

    python tests/benchmarks/inference_asked.py levels --runs 400
    python tests/benchmarks/inference_asked.py powers --runs 400

All runs of a design are tables of one account, of which each is asked as a group (``view.group_by("run")``): what
is asked of a group is asked of the view of its rows. ``levels``: five designs drawn anew, in the way of
`designs.py` (10 to 5,000 rows, splits to 1:50, every kind of data, missing values left out, ε from .02 to 50, both
neighbouring relations), and of each a new table in every run, in which every null hypothesis is true: how often
each test rejects, and how often intervals hold the truth. Where rows change and none comes or goes, groups are
private first, and then public. Rejections with a note do not count. ``powers``: rank tests at level .05, on the
same tables as scipy's test without noise and the t-test or the analysis of variance of this library, whose bounds
are far beyond the data; "expected" are the powers that were computed when the methods were designed.
"""

from __future__ import annotations

import argparse
import itertools
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from designs import Design, designs
from results import Parts, recorded, resumable
from scipy import stats

import dfprivacy as dp

if TYPE_CHECKING:
    from collections.abc import Callable

    Answer = tuple[
        float, bool | None, bool
    ]  # p-value, whether the interval holds the truth, whether there is a note

COUNT = itertools.count()
EDGES = np.linspace(0, 1000, 11)
DESIGNS = 5


def protect(tables: list[pd.DataFrame], declared: dict[str, Any]) -> Any:
    """Protect tables under one name, and give their views; who asks one pays for one, and hears of one."""
    runs = list(range(len(tables)))
    df = pd.concat(tables, keys=runs, names=["run"]).reset_index("run")
    categories, public = {**declared.pop("categories", {}), "run": runs}, tuple(declared.pop("public", ()))
    known = () if declared.get("neighbors") == "add_remove" else ("run", *public)
    name = f"asked-{next(COUNT)}"
    view = dp.protect(df, name, epsilon=10**6, ledger="memory:", categories=categories, public=known, **declared)
    return view.group_by("run")


def drawn(rng: np.random.Generator, design: Design) -> pd.DataFrame:
    """Draw a table: numbers, coins, times, two groups and three, none of which has to do with any other."""
    n, first = sum(design.sizes), design.sizes[0]
    event, end = rng.weibull(1.3, n) * 420, rng.uniform(200, 1020, n)
    return pd.DataFrame({
        "x": design.draw(rng),
        "z": design.draw(rng),
        "g": np.repeat([0, 1], design.sizes),
        "k": np.repeat([0, 1, 2], [first // 2, first - first // 2, n - first]),
        "before": rng.random(n) < 0.3,
        "after": rng.random(n) < 0.3,
        "time": np.minimum(np.minimum(event, end), 999.99),
        "died": event <= end,
    })  # fmt: skip


def declared(design: Design, *, public: bool) -> dict[str, Any]:
    """Say what is known of it beforehand."""
    of_x, coin = (design.low, design.high), [False, True]
    return {
        "bounds": {"x": of_x, "z": of_x, "time": (0, 1000)},
        "categories": {"g": [0, 1], "k": [0, 1, 2], "before": coin, "after": coin, "died": coin},
        "neighbors": design.neighbors,
        "public": ("g", "k") if public else (),
    }


def each_of(groups: Any) -> list[Any]:
    """Give the answers of all groups."""
    return [answer for _, answer in groups.items()]


def tested(truth: float | None, name: str, *args: Any, **named: Any) -> Callable[[Any, float], list[Answer]]:
    """Ask a test, and whether its interval, if it has one, holds the truth."""

    def ask(view: Any, epsilon: float) -> list[Answer]:
        answers = each_of(getattr(view, name)(*args, epsilon=epsilon, **named))
        ends = [None if truth is None else each.confidence_interval() for each in answers]
        held = [None if each is None else bool(each.low <= truth <= each.high) for each in ends]
        return [(each.pvalue, inside, bool(each.notes)) for each, inside in zip(answers, held, strict=True)]

    return ask


def slope(name: str, y: str) -> Callable[[Any, float], list[Answer]]:
    """Ask a regression for the slope of z, which is 0."""

    def ask(view: Any, epsilon: float) -> list[Answer]:
        fits = each_of(getattr(view, name)(y, ["z"], epsilon=epsilon))
        return [(fit.pvalues["z"], bool(fit.low["z"] <= 0 <= fit.high["z"]), bool(fit.notes)) for fit in fits]

    return ask


def shares(view: Any, epsilon: float) -> list[Answer]:
    """Ask for the difference of two shares, which is 0."""
    answers = each_of(view.proportions("before", by="g", success=True, epsilon=epsilon))
    ends = [each.difference[1] for each in answers]
    return [(np.nan, bool(d.low <= 0 <= d.high), bool(a.notes)) for a, d in zip(answers, ends, strict=True)]


def curve(view: Any, epsilon: float) -> list[Answer]:
    """Ask for a survival curve, at the end of its fourth interval."""
    answers = each_of(view.kaplan_meier("time", "died", edges=EDGES, epsilon=epsilon))
    truth = np.exp(-((EDGES[4] / 420) ** 1.3))
    return [(np.nan, bool(a.lows[0][3] <= truth <= a.highs[0][3]), bool(a.notes)) for a in answers]


ASKED: dict[str, Callable[[Any, float], list[Answer]]] = {
    "mannwhitneyu": tested(0.5, "mannwhitneyu", "x", by="g"),
    "kruskal": tested(None, "kruskal", "x", by="k"),
    "wilcoxon, ranks": tested(None, "wilcoxon", "x", "z", method="rank"),
    "wilcoxon, signs": tested(None, "wilcoxon", "x", "z", method="sign"),
    "anova": tested(None, "anova", "x", by="k"),
    "mcnemar": tested(1.0, "mcnemar", "before", "after", success=True),
    "proportions": shares,
    "survival_test": tested(0.5, "survival_test", "time", "died", by="g"),
    "kaplan_meier": curve,
    "ols": slope("ols", "x"),
    "logit": slope("logit", "before"),
}


def levels(runs: int, part: Parts) -> None:
    """How often what is true is rejected, and how often intervals hold it."""
    found: dict[str, list[list[Answer]]] = {}
    for number, design in enumerate(designs(DESIGNS, seed=53)):
        ways = (False,) if design.neighbors == "add_remove" else (False, True)

        @cache
        def tables(design: Design = design, number: int = number) -> list[pd.DataFrame]:
            rng = np.random.default_rng((59, number))
            return [drawn(rng, design) for _ in range(runs)]

        for public, (name, ask) in itertools.product(ways, ASKED.items()):

            def answers(
                tables: Any = tables, design: Design = design, public: bool = public, ask: Any = ask
            ) -> list[Answer]:
                try:
                    return ask(protect(tables(), declared(design, public=public)), design.epsilon)
                except dp.ArgumentError:  # too few rows
                    return []

            found.setdefault(name, []).append(part(f"{name}, {design}, {public}", answers))
    heads = ("0.05", "0.01", "worst at .05", "with a note", "covers", "worst")
    with recorded("inference_asked", "asked", "tables", "refused", *heads) as row:
        for name, every in found.items():
            given = [np.array(each, dtype=float).T for each in every if each]
            refused = len(every) - len(given)
            silent = [np.where(noted > 0, 1.0, p) for p, _, noted in given]
            rates = np.array([[np.mean(p <= level) for level in (0.05, 0.01)] for p in silent])
            tests = [f"{each:.3f}" for each in (*rates.mean(axis=0), rates[:, 0].max())]
            covers = np.array([inside.mean() for _, inside, _ in given])
            noted = np.mean([each[2].mean() for each in given])
            row(
                name,
                len(given),
                refused,
                *(tests if not np.isnan(given[0][0]).any() else [""] * 3),
                f"{noted:.0%}",
                *([f"{covers.mean():.3f}", f"{covers.min():.3f}"] if not np.isnan(covers).any() else ["", ""]),
            )


def t2(rng: np.random.Generator, group: np.ndarray, shift: float) -> np.ndarray:
    """Heavy tails, of which no variance exists."""
    return rng.standard_t(2, len(group)) + shift * (group == 0)


def lognormal(rng: np.random.Generator, group: np.ndarray, shift: float) -> np.ndarray:
    """Skewed values, the first group's later."""
    return rng.lognormal(size=len(group)) + shift * (group == 0)


def zeros(rng: np.random.Generator, group: np.ndarray, shift: float) -> np.ndarray:
    """Mostly zeros: a tenth are not, of the first group more."""
    return np.where(rng.random(len(group)) < 0.1 + shift * (group == 0), rng.exponential(size=len(group)), 0.0)


def normal(rng: np.random.Generator, group: np.ndarray, shift: float) -> np.ndarray:
    """Normal values."""
    return rng.normal(size=len(group)) + shift * (group == 0)


LAWS = {  # how values are drawn, their bounds, and what this is called
    "t2": (t2, (-20, 20), "t(2), in ±20"),
    "lognormal": (lognormal, (0, 30), "lognormal, in 0 to 30"),
    "zeros": (zeros, (0, 10), "10% not 0, in 0 to 10"),
    "normal": (normal, (-5, 5), "normal, in ±5"),
}
POWERS = (  # test, law, shift, rows, ε, expected powers with private and public groups, or of ranks and signs
    ("mannwhitneyu", "normal", 1.0, 40, 1.0, ".57, .61"),
    ("mannwhitneyu", "t2", 1.0, 60, 1.0, ".57, .60"),
    ("mannwhitneyu", "t2", 1.0, 120, 1.0, ".88, .92"),
    ("mannwhitneyu", "lognormal", 0.5, 120, 1.0, ".71, .78"),
    ("mannwhitneyu", "lognormal", 0.5, 240, 1.0, ".97, .98"),
    ("mannwhitneyu", "zeros", 0.15, 200, 1.0, ".41, .37"),
    ("mannwhitneyu", "zeros", 0.15, 400, 1.0, ".88, .80"),
    ("kruskal", "normal", 1.0, 90, 1.0, ""),
    ("kruskal", "t2", 1.0, 120, 1.0, ""),
    ("kruskal", "t2", 1.0, 240, 1.0, ""),
    ("kruskal", "lognormal", 0.5, 240, 1.0, ""),
    ("kruskal", "lognormal", 0.5, 480, 1.0, ""),
    ("kruskal", "zeros", 0.15, 400, 1.0, ""),
    ("kruskal", "zeros", 0.15, 800, 1.0, ""),
    ("wilcoxon", "normal", 1.0, 20, 1.0, ".65, .79"),
    ("wilcoxon", "normal", 0.5, 200, 0.1, ".31, .67"),
    ("wilcoxon", "t2", 0.5, 60, 1.0, ""),
    ("wilcoxon", "t2", 0.5, 120, 1.0, ""),
    ("wilcoxon", "lognormal", 0.5, 60, 1.0, ""),
    ("wilcoxon", "lognormal", 0.5, 120, 1.0, ""),
    ("wilcoxon", "zeros", 0.15, 200, 1.0, ""),
    ("wilcoxon", "zeros", 0.15, 400, 1.0, ""),
)


def of_groups(
    name: str, law: str, shift: float, n: int, epsilon: float, rng: np.random.Generator, runs: int
) -> list[float]:
    """Compare two groups, or three of which two are alike: how often do private, public, means and scipy reject?"""
    k = 2 if name == "mannwhitneyu" else 3
    draw, bounds, _ = LAWS[law]
    group = np.arange(n) % k
    tables = [pd.DataFrame({"x": draw(rng, group, shift).clip(*bounds), "g": group}) for _ in range(runs)]
    known = {"bounds": {"x": bounds}, "categories": {"g": list(range(k))}}
    private, public = protect(tables, {**known}), protect(tables, {**known, "public": ["g"]})
    answers = [
        getattr(private, name)("x", by="g", epsilon=epsilon),
        getattr(public, name)("x", by="g", epsilon=epsilon),
        private.ttest("x", by="g", epsilon=epsilon) if k == 2 else private.anova("x", by="g", epsilon=epsilon),
    ]
    exact = [getattr(stats, name)(*(df.x[group == each] for each in range(k))).pvalue for df in tables]
    return rates(answers, exact)


def of_pairs(
    _: str, law: str, shift: float, n: int, epsilon: float, rng: np.random.Generator, runs: int
) -> list[float]:
    """Compare pairs by ranks, by signs, by their mean and by scipy; values of the first column are shifted."""
    draw, (low, high), _name = LAWS[law]

    def table() -> pd.DataFrame:
        x, z = (draw(rng, np.full(n, each), shift).clip(low, high) for each in (0, 1))
        z = np.zeros(n) if law in {"normal", "t2"} else z  # then the differences themselves follow the law
        return pd.DataFrame({"x": x, "z": z, "apart": x - z})

    tables = [table() for _ in range(runs)]
    view = protect(tables, {"bounds": {"x": (low, high), "z": (low, high), "apart": (low - high, high - low)}})
    answers = [
        view.wilcoxon("x", "z", method="rank", epsilon=epsilon),
        view.wilcoxon("x", "z", method="sign", epsilon=epsilon),
        view.ttest("apart", epsilon=epsilon),
    ]
    exact = [stats.wilcoxon(df.apart, zero_method="pratt").pvalue for df in tables]
    return rates(answers, exact)


def rates(answers: list[Any], exact: list[float]) -> list[float]:
    """How often each rejects, scipy last."""
    return [
        *(float(np.mean([each.rejected for each in each_of(one)])) for one in answers),
        float(np.mean(np.array(exact) <= 0.05)),
    ]


def powers(runs: int, part: Parts) -> None:
    """Powers of rank tests, on tables whose tails, skewness or zeros a mean does not bear."""
    heads = (
        "private groups, or ranks",
        "public groups, or signs",
        "by means",
        "no noise",
        "expected of the first two",
    )
    with recorded("inference_powers", "asked", "data", "shift", "rows", "ε", *heads) as row:
        for number, (name, law, shift, n, epsilon, expected) in enumerate(POWERS):

            def rejections(cell: Any = (name, law, shift, n, epsilon), number: int = number) -> list[float]:
                rng = np.random.default_rng((61, number))
                return (of_pairs if cell[0] == "wilcoxon" else of_groups)(*cell, rng, runs)

            found = part(f"{name} {law} {shift} {n} {epsilon}", rejections)
            row(name, LAWS[law][2], f"{shift:g}", n, f"{epsilon:g}", *(f"{each:.2f}" for each in found), expected)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("levels", "powers"))
    parser.add_argument("--runs", type=int, default=400)
    resumable(parser)
    asked = parser.parse_args()
    {"levels": levels, "powers": powers}[asked.what](asked.runs, Parts(asked.resume))
