"""How far answers are off, and beside what: regressions, quantiles, distance correlations, and a price.

python tests/benchmarks/errors.py regression --runs 200
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from harness import Array, Ints, Rng, Rows, Tables, protected
from real import ALL, BOUNDS, HOUSES, POOR, ROOMS, USED, read
from real import tables as real_tables

import dfprivacy as dp
from dfprivacy.release import NoisyValue
from dfprivacy.testing import seeded_noise
from dfprivacy_dcor.inference import NoisyStatistics
from dfprivacy_dcor.message import distance_variance
from dfprivacy_dcor.points import Line, Lines, five_numbers, grid_bits, on_grid
from dfprivacy_dcor.spaces import metric_space
from dfprivacy_dcor.statistics import SHARES, largest_changes, largest_values
from dfprivacy_eda.quantiles import selects_separately
from dfprivacy_eda.tree import CountTree, Layout, choose_intervals, choose_layout

tables = Tables(__doc__)


# Regression

THREE, SHARPER = [0.5, -0.3, 0.0], {"n": 1000, "beta": [1.0, 2.0], "x": 4.0, "y": 15.0}
LINES: dict[str, dict[str, Any]] = {
    "1 regressor": {"n": 1000, "beta": [0.5]},
    "1 regressor, n 5000": {"n": 5000, "beta": [0.5]},
    "3 regressors, n 2000": {"n": 2000, "beta": THREE},
    "3 regressors, n 5000": {"n": 5000, "beta": THREE},
    "3 regressors, n 20000": {"n": 20_000, "beta": THREE},
    "3, correlation .9, n 20000": {"n": 20_000, "beta": THREE, "rho": 0.9},
    "8 regressors, n 20000": {"n": 20_000, "beta": [0.3, -0.3, 0.3, -0.3, 0.0, 0.0, 0.2, 0.1]},
    "uneven residuals, n 50000": {"n": 50_000, "beta": [0.5], "errors": "uneven", "y": 9.0},
    "t(3) residuals, n 2000": {"n": 2000, "beta": [0.5], "errors": "t3", "y": 20.0},
    "rows come and go, n 5000": {"n": 5000, "beta": THREE, "neighbors": "add_remove"},
    "a fifth missing, n 5000": {"n": 5000, "beta": THREE, "missing": 0.2},
    **{f"x in ±4, y in ±15, n 1000, epsilon {e}": {**SHARPER, "epsilon": e} for e in (1, 2, 5, 10)},
    "logistic, 1 regressor, n 1000": {"n": 1000, "beta": [0.5], "shift": -1.0},
    "logistic, 1 regressor, n 5000": {"n": 5000, "beta": [0.5], "shift": -1.0},
    "logistic, 3 regressors, n 20000": {"n": 20_000, "beta": [0.5, -0.5, 0.0], "shift": -1.0},
    "logistic, rare (5 %), n 20000": {"n": 20_000, "beta": [0.5, -0.5, 0.0], "shift": -3.2},
    "logistic, strong, n 20000": {"n": 20_000, "beta": [1.5, -1.0, 0.0], "shift": -1.0},
}


def drawn(rng: Rng, cell: dict[str, Any]) -> pd.DataFrame:
    """Draw a table."""
    n, beta, rho = cell["n"], np.array(cell["beta"]), cell.get("rho", 0.0)
    x = np.sqrt(1 - rho) * rng.normal(size=(n, len(beta))) + np.sqrt(rho) * rng.normal(size=(n, 1))
    x = x.clip(-2.999, 2.999)
    df = pd.DataFrame(x, columns=[f"x{i}" for i in range(len(beta))])
    if "shift" in cell:
        return df.assign(y=rng.random(n) < 1 / (1 + np.exp(-(cell["shift"] + x @ beta))))
    errors = cell.get("errors", "")
    residuals = rng.standard_t(3, n) / np.sqrt(3) if errors == "t3" else rng.normal(size=n)
    if errors == "uneven":
        residuals *= np.sqrt(0.25 + 0.75 * x[:, 0] ** 2)
    df["y"] = x @ beta + residuals
    if "missing" in cell:
        df.loc[rng.random(n) < cell["missing"], "x0"] = np.nan
    return df


def fitted(df: pd.DataFrame, cell: dict[str, Any], seed: int) -> tuple[Any, list[Array]]:
    """Ask a table for its regression; the answer, and the low and high ends, slopes and errors of all."""
    names, wide, logistic = [f"x{i}" for i in range(len(cell["beta"]))], cell.get("x", 3.0), "shift" in cell
    high = cell.get("y", 5.0)
    bounds = dict.fromkeys(names, (-wide, wide)) | ({} if logistic else {"y": (-high, high)})
    categories = {"y": [False, True]} if logistic else {}
    view = protected(df, bounds=bounds, categories=categories, neighbors=cell.get("neighbors", "replace_one"))
    with seeded_noise(seed):
        fit = (view.logit if logistic else view.ols)("y", names, epsilon=cell.get("epsilon", 1), fresh=True)
    parts = fit.low, fit.high, fit.params, fit.bse
    return fit, [np.array([values[name] for name in names], dtype=float) for values in parts]


@tables.add("cell", "coverage", "standard error", "rmse", "informative")
def regression(runs: int = 200) -> Rows:
    """Linear and logistic regression: 95% intervals of slopes, their median standard error, and their errors."""
    for name, cell in LINES.items():
        rng, beta, told = np.random.default_rng(1), np.array(cell["beta"]), []
        for seed in range(runs):
            fit, (low, high, params, bse) = fitted(drawn(rng, cell), cell, seed)
            told.append(((low <= beta) & (beta <= high), bse, params - beta, fit.informative))
        inside, errors, missed, informative = zip(*told, strict=True)
        shown = np.median(errors), np.sqrt(np.nanmean(np.square(missed)))
        yield name, f"{np.mean(inside):.3f}", *(f"{each:.4f}" for each in shown), f"{np.mean(informative):.2f}"


@tables.add("formula", "ε", "regressor", "private", "95% interval", "on the rows", "says")
def price() -> Rows:
    """What predicts the price of a house, of 506 districts of Boston: each answer of docs/howto/price.md, once."""
    table = read("housing.csv", HOUSES)
    if table is None:
        return
    df = table[list(USED)].rename(columns=USED)
    view = protected(df, epsilon=100, bounds=BOUNDS, categories={"river": [0, 1]})
    print(view.explain("ols", ROOMS, epsilon=2))
    print(view.power(("ols", POOR), epsilon=[0.5, 1, 2, 5], assume={"effect": 1.0, "spread": 6}, runs=100))
    for formula, epsilon in ((POOR, 1), (POOR, 5), (ROOMS, 1), (ROOMS, 5), (ROOMS, 20), (ALL, 5), (ALL, 20)):
        fit = view.ols(formula, epsilon=epsilon)
        names = [name for name in fit.params if name != "Intercept"]
        X = np.column_stack([np.ones(len(df)), *(df["river" if name.startswith("C(") else name] for name in names)])
        exact = np.linalg.lstsq(X.astype(float), df["price"].to_numpy(), rcond=None)[0][1:]
        for name, value in zip(names, exact.tolist(), strict=True):
            found = "none" if fit.params[name] is None else f"{fit.params[name]:.2f}"
            says, ends = "informative" if fit.informative else "uninformative", (fit.low[name], fit.high[name])
            yield formula, f"{epsilon:g}", name, found, "{:.2f} to {:.2f}".format(*ends), f"{value:.2f}", says


# Quantiles

COLUMN, SIZES, NUMBERS = dp.Column("x", bounds=(0.0, 100.0), fill=50.0), (500, 5_000, 50_000), (1, 3, 9, 99)
SHAPES: dict[str, tuple[Callable[[Rng, int], Array], float | None]] = {
    "uniform": (lambda rng, n: rng.uniform(0, 100, n), None),
    "normal": (lambda rng, n: rng.normal(45, 12, n), None),
    "lognormal": (lambda rng, n: rng.lognormal(1.5, 0.9, n), None),
    "half zeros": (lambda rng, n: rng.gamma(1, 9, n) * (rng.random(n) < 0.5), None),
    "whole, many ties": (lambda rng, n: rng.poisson(rng.gamma(0.7, 4, n)).astype(float), 1.0),
    "whole, few ties": (lambda rng, n: rng.normal(38, 14, n).round(), 1.0),
}
WAYS = ("tree", "each alone", "recursive", "sliced")
LITTLE = 1e-4  # of all rows


def counted(x: Array, plan: Layout) -> tuple[Array, Ints]:
    """Rows in each interval, and the interval of each row in rising order."""
    places = np.sort(np.clip(np.searchsorted(plan.half_open_edges, x, side="right") - 1, 0, plan.sizes[-1] - 1))
    return np.bincount(places, minlength=plan.sizes[-1]).astype(float), places


def middles(plan: Layout, low: float, high: float) -> Array:
    """The middle of each interval."""
    return np.clip(plan.low + plan.step * (np.arange(plan.sizes[-1]) + 0.5), low, high)


def by_tree(
    x: Array, step: float | None, q: Sequence[Array], epsilon: float, rng: Rng, column: dp.Column = COLUMN
) -> list[Array]:
    """Values of any number of quantiles of one noisy tree of counts, consistent and not negative."""
    plan = choose_layout(column, step, len(x) * epsilon)
    leaves, _ = counted(x, plan)
    exact = np.concatenate([leaves.reshape(size, -1).sum(axis=1) for size in plan.sizes])
    scales = np.repeat([2 * sum(plan.weights) / (epsilon * weight) for weight in plan.weights], plan.sizes)
    noisy = NoisyValue(exact + rng.laplace(scale=scales), scales, None)
    made = CountTree.from_measurement(plan, noisy, missing=False, rows=(float(len(x)), 0.0), root=False)
    return [made.tree.quantiles(each) for each in q]


def alone_is_taken(n: int, epsilon: float, column: dp.Column, q: Array, step: float | None) -> bool:
    """Whether `quantile` would choose each alone, of n rows."""
    said = {"size": n, "typical_size": n, "epsilon": epsilon, "neighbors": "replace_one", "decides": True}
    return selects_separately(SimpleNamespace(**said, once=lambda make, *of: make(*of)), column, q, step, None)


def each_alone(leaves: Array, q: Array, epsilon: float, rng: Rng) -> Ints:
    """An interval for each quantile by the exponential mechanism, by how many rows it is too low or too high."""
    up_to = np.cumsum(leaves)
    target = q[:, None] * up_to[-1]
    scores = -np.maximum(0, np.maximum(up_to - leaves - target, target - up_to))
    return (scores + rng.gumbel(scale=2 * len(q) / epsilon, size=scores.shape)).argmax(axis=1)


def between(rows: Array, low: float, high: float, rank: float, epsilon: float, rng: Rng) -> float:
    """A value near a rank of rising rows, by the exponential mechanism over the gaps between them."""
    ends = np.concatenate([[low], np.clip(rows, low, high), [high]])
    with np.errstate(divide="ignore"):
        scores = np.log(np.diff(ends)) - epsilon / 2 * abs(np.arange(len(rows) + 1) - rank)
    gap = int((scores + rng.gumbel(size=len(scores))).argmax())
    return float(rng.uniform(ends[gap], ends[gap + 1]))


def recursive(rows: Array, top: float, q: Array, epsilon: float, rng: Rng) -> Array:
    """ApproximateQuantiles (Kaplan, Schnapp and Stemmer 2022): the middle one, then those on either side of it.

    Each has ε/(2⌈log₂(m+1)⌉), since a row that changes is in two parts.
    """
    each, found = epsilon / (2 * math.ceil(math.log2(len(q) + 1))), np.empty(len(q))

    def half(first: int, last: int, start: int, stop: int, low: float, high: float) -> None:
        if first > last:
            return
        middle = (first + last) // 2
        # Of the rows of this part, from one known quantile to the next, those below the middle one.
        below, above = (q[first - 1] if first else 0.0), (q[last + 1] if last + 1 < len(q) else 1.0)
        rank = (q[middle] - below) / (above - below) * (stop - start)
        found[middle] = value = between(rows[start:stop], low, high, rank, each, rng)
        cut = start + int(np.searchsorted(rows[start:stop], value))
        half(first, middle - 1, start, cut, low, value)
        half(middle + 1, last, cut, stop, value, high)

    half(0, len(q) - 1, 0, len(rows), 0.0, top)
    return found


def sliced(rows: Array, top: float, q: Array, epsilon: float, rng: Rng) -> Array:
    """SliceQuantiles (Imola and others 2025), pure: ranks moved by a counter's noise, then medians of slices.

    As in their programs a quarter of epsilon is the noise's and a sixth the choice's, slices have 2l + 1 rows with
    l = (2/ε') ln(4 m L/.05) for L intervals, and where they do not fit the answer is random.
    """
    m, n, choice = len(q), len(rows), epsilon / 2 / 3
    reach = math.ceil(2 / choice * math.log(4 * m * top / 0.05) - 1)
    ranks = np.floor(q * n) + counter(m, epsilon / 2 / 2, rng)
    if (np.diff(ranks) < 2 * reach + 1).any() or ranks[0] < reach or ranks[-1] > n - reach - 1:
        return np.sort(rng.uniform(0, top, m))
    found, low = np.empty(m), 0.0
    for at, rank in enumerate(ranks.astype(int)):
        part = rows[rank - reach : rank + reach + 1]
        found[at] = low = between(part, low, top, len(part) / 2, choice, rng)
    return found


def counter(m: int, epsilon: float, rng: Rng) -> Array:
    """Noise of the first 1, 2, … m numbers of a series, from a tree of the branching with the least variance."""

    def height(branches: int) -> int:
        return max(1, math.ceil(math.log(m + 1, branches) - 1e-9))

    best = min(range(2, m + 2), key=lambda k: (k - 1) * height(k) ** 3)
    noise, steps = np.zeros(m), np.arange(1, m + 1)
    for level in range(height(best)):
        width = best**level
        nodes = rng.laplace(scale=height(best) / epsilon, size=m // width + 1)
        cut = np.concatenate([[0.0], np.cumsum(nodes)])
        last = steps // width  # whole nodes below, of which those of a node above are not counted again
        noise += cut[last] - cut[last // best * best]
    return np.rint(noise)


def missed(leaves: Array, chosen: Ints, q: Array) -> float:
    """The share of rows by which intervals miss their quantiles."""
    up_to = np.cumsum(leaves)
    n = up_to[-1]
    off = np.maximum(up_to[chosen] - leaves[chosen] - q * n, q * n - up_to[chosen])
    return float(np.maximum(off, 0).mean() / n)


def quantile_errors(shape: str, n: int, epsilon: float, runs: int, rng: Rng) -> dict[int, Array]:
    """Errors of all ways in rank and in value, for each number of quantiles: shape (runs, ways, 2)."""
    draw, step = SHAPES[shape]
    plan, shares = choose_layout(COLUMN, step, math.inf), [np.arange(1, m + 1) / (m + 1) for m in NUMBERS]
    errors = {m: np.empty((runs, len(WAYS), 2)) for m in NUMBERS}
    for run in range(runs):
        x = np.clip(draw(rng, n), 0, 100)
        leaves, places = counted(x, plan)
        rows, top, centres = np.sort(places + rng.random(n)), float(plan.sizes[-1]), middles(plan, 0, 100)
        for q, values, into in zip(shares, by_tree(x, step, shares, epsilon, rng), errors.values(), strict=True):
            at = np.clip(np.searchsorted(plan.half_open_edges, values, side="right") - 1, 0, plan.sizes[-1] - 1)
            chosen, others = [each_alone(leaves, q, epsilon, rng)], (recursive, sliced)
            chosen += [np.minimum(way(rows, top, q, epsilon, rng), top - 1).astype(int) for way in others]
            truth, told = np.quantile(x, q, method="inverted_cdf"), [values, *(centres[each] for each in chosen)]
            into[run, :, 0] = [missed(leaves, each, q) for each in (at, *chosen)]
            into[run, :, 1] = [abs(value - truth).mean() / float(x.std()) for value in told]
    return errors


@tables.add(
    eda_quantiles=("column", "rows", "ε", "quantiles", *WAYS, "best"),
    eda_quantiles_summary=("column", "quantiles", "cells", "ours", *WAYS, "error of ours / the best, most"),
)
def eda_quantiles(runs: int = 40) -> Rows:
    """Four ways to several quantiles: errors in thousandths of the rows, and in standard deviations; which is best.

    All choose among the values of one grid. Ours is the best unless another error is clearly below it, by three
    standard errors and a ten-thousandth of the rows. Of 50,000 rows a quarter of the runs.
    """
    rng, won = np.random.default_rng(1), {}
    for shape, (_, step) in SHAPES.items():
        for n, epsilon in ((n, epsilon) for n in SIZES for epsilon in (0.1, 0.5, 1.0)):
            found = quantile_errors(shape, n, epsilon, runs if n <= SIZES[1] else runs // 4, rng)
            for m, errors in found.items():
                means, noise = errors.mean(axis=0), errors[:, :, 0].std(axis=0) / math.sqrt(len(errors))
                own = int(alone_is_taken(n, epsilon, COLUMN, np.arange(1, m + 1) / (m + 1), step))
                best = int(means[:, 0].argmin())
                clear = max(3 * math.hypot(noise[own], noise[best]), LITTLE)
                said = WAYS[best] if means[own, 0] - means[best, 0] > clear else "ours"
                of = won.setdefault(("whole" if step else "real", m), [])
                of.append((said, means[own, 0] / max(means[best, 0], LITTLE)))
                cells = (f"{1000 * rank:.3g}, {value:.2g}" for rank, value in means)
                yield "eda_quantiles", shape, f"{n:,}", f"{epsilon:g}", m, *cells, said
    for (kind, m), every in won.items():
        kinds, most = [said for said, _ in every], max((each for said, each in every if said != "ours"), default=1)
        counts = (kinds.count(name) for name in ("ours", *WAYS))
        yield "eda_quantiles_summary", kind, m, len(every), *counts, f"{most:.2g}"


@tables.add("column", "rows", "step", "ε", "n ε", "tree", "each alone", "better", "taken")
def eda_quartiles(runs: int = 200) -> Rows:
    """Quartiles of real columns from one tree, and each alone; which is better, by three standard errors."""
    rng, q = np.random.default_rng(1), np.array([0.25, 0.5, 0.75])
    for table, name in ((each, name) for each in real_tables() for name in each.bounds):
        (low, high), step = table.bounds[name], table.steps.get(name)
        x = np.clip(table.frame[name].to_numpy(dtype=float), low, high)
        column = dp.Column(name, bounds=(low, high), fill=low)
        for epsilon in (0.1, 0.5, 1.0):
            plan = choose_intervals(column, step, len(x) * epsilon)
            leaves, _ = counted(x, plan)
            trees = [by_tree(x, step, [q], epsilon, rng, column)[0] for _ in range(runs)]
            alone = [middles(plan, low, high)[each_alone(leaves, q, epsilon, rng)] for _ in range(runs)]
            off = np.abs(np.array([trees, alone]) - np.quantile(x, q, method="lower")).mean(axis=2) / x.std()
            means, errors = off.mean(axis=1), off.std(axis=1) / math.sqrt(runs)
            clear = abs(means[0] - means[1]) > max(3 * math.hypot(*errors), 1e-3)
            what = f"{table.name}: {name}", f"{len(x):,}", "none" if step is None else f"{step:g}", f"{epsilon:g}"
            shown = (f"{mean:.4f} ± {error:.4f}" for mean, error in zip(means, errors, strict=True))
            better, taken = WAYS[means.argmin()] if clear else "–", alone_is_taken(len(x), epsilon, column, q, step)
            yield *what, f"{len(x) * epsilon:,.0f}", *shown, better, WAYS[taken]


# Distance correlations

RELATIONS: dict[str, Callable[[Array, Rng], Array]] = {
    "linear": lambda x, _: x,
    "quadratic": lambda x, _: x * x,
    "sine": lambda x, _: np.sin(2 * np.pi * x),
    "circle": lambda x, rng: np.sin(np.arccos(x)) * rng.choice([-1.0, 1.0], len(x)),
    "independent": lambda x, rng: rng.uniform(-1, 1, len(x)),
}
POPULATION = {"linear": 0.967, "quadratic": 0.213, "sine": 0.181, "circle": 0.0345, "independent": 0.0}
ENDS = {"x": (-1.0, 1.0), "y": (-1.5, 1.5)}
CENTRAL, LOCAL = (0.1, 0.5, 1, 2), (0.5, 1, 2, 5, 10)


def synthetic(relation: str, n: int, seed: int) -> dict[str, Array]:
    """Uniform x, or x uniform around a circle, and y a function of it with some noise."""
    rng = np.random.default_rng(seed)
    x = np.cos(rng.uniform(0, np.pi, n)) if relation == "circle" else rng.uniform(-1, 1, n)
    noise = 0.0 if relation == "independent" else 0.1 * rng.normal(size=n)
    return {"x": x, "y": np.clip(RELATIONS[relation](x, rng) + noise, -1.5, 1.5)}


def dcor_errors(n: int, runs: int) -> Rows:
    """R of the rows by `dcor`: mean absolute errors of 300 draws of the noise of each of some tables."""
    columns = [dp.Column(name, bounds=ends, fill=sum(ends) / 2) for name, ends in ENDS.items()]
    spaces, bits = [metric_space((column,), "euclidean") for column in columns], grid_bits(n)
    for relation in RELATIONS:
        exact, cells = [], []
        for seed in range(runs):
            drawn = synthetic(relation, n, seed)
            units = ((drawn[each.name] - each.low) / (each.high - each.low) for each in columns)
            exact.append(five_numbers(*(Lines((Line(on_grid(z, bits), bits),), (1.0,)) for z in units)))
        for epsilon in CENTRAL:
            scales, errors = largest_changes(*spaces, n) / (epsilon * np.array(SHARES)), []
            for seed, five in enumerate(exact):
                noisy = five + np.random.default_rng(seed).laplace(scale=scales, size=(300, 5))
                known = (*scales, 0.0), n, largest_values(*spaces)
                told = [NoisyStatistics((*each, 1.0), *known).correlation for each in noisy]
                errors += [abs(each - five[0] / np.sqrt(five[1] * five[2])) for each in told]
            cells.append(f"{np.mean(errors):.3f}")
        yield relation, *cells


def dcor_messages(n: int, runs: int) -> Rows:
    """R² of the population from a message, a table for each: at most so many, until the error is known to 5 %."""
    protocols: dict[str, dict[str, Any]] = {
        "angle, k = 1": {"harmonics": [1]},
        "angle, k = 1, 3": {"harmonics": [1, 3]},
        "paper": {"protocol": "paper", "delta": 1e-5},
    }

    def error(relation: str, terms: dict[str, Any], seed: int) -> float:
        table, price = synthetic(relation, n, seed), {"epsilon": 10**5, "delta": 0.1}
        view = protected(pd.DataFrame({"x": table["x"]}), bounds={"x": ENDS["x"]}, **price)
        message = view.dcor_message(["x"], **terms)
        covariance = float(message.covariances(table["y"], 0, np.random.default_rng(0))[0])
        spread = message.share * message.spread * math.sqrt(distance_variance(table["y"]))
        return abs(min(max(covariance / spread, 0.0), 1.0) - POPULATION[relation])

    def settled(draw: Callable[[int], float]) -> float:
        errors: list[float] = []
        while len(errors) < runs:
            errors += [draw(len(errors) + at) for at in range(20)]
            if np.std(errors, ddof=1) / np.sqrt(len(errors)) <= max(0.05 * np.mean(errors), 0.0005):
                break
        return float(np.mean(errors))

    with seeded_noise(1):
        for relation, truth in POPULATION.items():
            for protocol, terms in protocols.items():
                found = [settled(partial(error, relation, {**terms, "epsilon": epsilon})) for epsilon in LOCAL]
                yield f"{relation} ({truth:g}), {protocol}", *(f"{each:.3f}" for each in found)


for rows in (500, 2000, 10_000):
    add = tables.add(f"n = {rows:,}", *(f"ε={epsilon:g}" for epsilon in CENTRAL), name=f"dcor_errors_{rows}")
    add(partial(dcor_errors, rows, runs=10))
for rows in (2000, 10_000):
    add = tables.add(f"n = {rows:,}", *(f"ε={epsilon:g}" for epsilon in LOCAL), name=f"dcor_messages_{rows}")
    add(partial(dcor_messages, rows, runs=2000))


if __name__ == "__main__":
    tables.main()
