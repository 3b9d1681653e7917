"""Ways to several quantiles, cell by cell: the tree of counts, and three others that are as private.

    python tests/benchmarks/eda_quantiles.py

m evenly spaced quantiles of n rows whose number is public, at an epsilon, of columns of six shapes between 0 and
100: uniform, normal, lognormal, half zeros, and whole numbers with few and with many ties. All choose among the
values of one grid, a step of 1 or 4,094 intervals, and rows are jittered within their interval where a method needs
distinct values. Noise is NumPy's.

tree
    What `view.quantile` does for many: noisy counts of a tree, consistent and not negative.
each alone
    The exponential mechanism for each, with an m-th of epsilon: what `view.quantile` does for few.
recursive
    ApproximateQuantiles (Kaplan, Schnapp and Stemmer 2022): the middle quantile by the exponential mechanism, then
    those below among the rows below it, and so on, at ε/(2⌈log₂(m+1)⌉) each, since a row that changes is in two
    parts.
sliced
    SliceQuantiles (Imola, Boninsegna, Keller, Aamand, Roy Chowdhury and Pagh 2025), pure: ranks moved by the noise
    of a counter, then the median of a slice of rows around each, with half of epsilon for both; as in their
    programs, a quarter of epsilon is the noise's and a sixth the choice's where rows change, slices have 2l + 1
    rows with l = (2/ε') ln(4 m L/.05) for L intervals, and where they do not fit the answer is random.

An error is the share of rows by which an answer is off, in thousandths, the mean over quantiles and runs; beside it
that of the value, in standard deviations. Kept is each cell, and how often which method is the best: ours (tree,
or for few quantiles the choice alone, as `view.quantile` has it) unless another error is clearly below it, by
three standard errors and a ten-thousandth of the rows.
"""

from __future__ import annotations

import argparse
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from results import recorded

from dfprivacy import Column
from dfprivacy.release import NoisyValue
from dfprivacy_eda.quantiles import selects_separately
from dfprivacy_eda.tree import CountTree, Layout, choose_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

COLUMN = Column("x", bounds=(0.0, 100.0), fill=50.0)
SIZES, EPSILONS, NUMBERS = (500, 5_000, 50_000), (0.1, 0.5, 1.0), (1, 3, 9, 99)
SHAPES: dict[str, tuple[Callable[[np.random.Generator, int], Numbers], float | None]] = {
    "uniform": (lambda rng, n: rng.uniform(0, 100, n), None),
    "normal": (lambda rng, n: rng.normal(45, 12, n), None),
    "lognormal": (lambda rng, n: rng.lognormal(1.5, 0.9, n), None),
    "half zeros": (lambda rng, n: rng.gamma(1, 9, n) * (rng.random(n) < 0.5), None),
    "whole, many ties": (lambda rng, n: rng.poisson(rng.gamma(0.7, 4, n)).astype(float), 1.0),
    "whole, few ties": (lambda rng, n: rng.normal(38, 14, n).round(), 1.0),
}
TINY = 1e-4  # of all rows
FAILED = 0.05  # the probability that a slice is too small


def counted(x: Numbers, plan: Layout) -> tuple[Numbers, NDArray[np.intp]]:
    """Rows in each interval, and the interval of each row in rising order."""
    places = np.sort(np.clip(np.searchsorted(plan.half_open_edges, x, side="right") - 1, 0, plan.sizes[-1] - 1))
    return np.bincount(places, minlength=plan.sizes[-1]).astype(float), places


def by_tree(
    x: Numbers,
    step: float | None,
    q: Sequence[Numbers],
    epsilon: float,
    rng: np.random.Generator,
    column: Column = COLUMN,
) -> list[Numbers]:
    """Values of any number of quantiles of one tree, of the layout that so many rows get."""
    plan = choose_layout(column, step, len(x) * epsilon)
    leaves, _ = counted(x, plan)
    exact = np.concatenate([leaves.reshape(size, -1).sum(axis=1) for size in plan.sizes])
    scales = np.repeat([2 * sum(plan.weights) / (epsilon * weight) for weight in plan.weights], plan.sizes)
    noisy = NoisyValue(exact + rng.laplace(scale=scales), scales, None)  # type: ignore[arg-type]
    measured_tree = CountTree.from_measurement(plan, noisy, missing=False, rows=(float(len(x)), 0.0), root=False)
    return [measured_tree.tree.quantiles(each) for each in q]


def asked_by(n: int, epsilon: float) -> Any:
    """What the choice of a way looks at: public numbers of a table of n rows."""
    said = {"size": n, "typical_size": n, "epsilon": epsilon, "neighbors": "replace_one", "decides": True}
    return SimpleNamespace(**said, once=lambda make, *of: make(*of))


def each_alone(leaves: Numbers, q: Numbers, epsilon: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """An interval for each quantile, by how many rows it is too low or too high."""
    up_to = np.cumsum(leaves)
    target = q[:, None] * up_to[-1]
    scores = -np.maximum(0, np.maximum(up_to - leaves - target, target - up_to))
    return (scores + rng.gumbel(scale=2 * len(q) / epsilon, size=scores.shape)).argmax(axis=1)


def between(rows: Numbers, low: float, high: float, rank: float, epsilon: float, rng: np.random.Generator) -> float:
    """A value near a rank of rising rows, by the exponential mechanism over the gaps between them."""
    ends = np.concatenate([[low], np.clip(rows, low, high), [high]])
    with np.errstate(divide="ignore"):
        scores = np.log(np.diff(ends)) - epsilon / 2 * abs(np.arange(len(rows) + 1) - rank)
    gap = int((scores + rng.gumbel(size=len(scores))).argmax())
    return float(rng.uniform(ends[gap], ends[gap + 1]))


def recursive(rows: Numbers, top: float, q: Numbers, epsilon: float, rng: np.random.Generator) -> Numbers:
    """Quantiles by halves, from the middle one on."""
    each = epsilon / (2 * math.ceil(math.log2(len(q) + 1)))
    found = np.empty(len(q))

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


def sliced(rows: Numbers, top: float, q: Numbers, epsilon: float, rng: np.random.Generator) -> Numbers:
    """Medians of slices around ranks that a counter's noise has moved."""
    m, n, choice = len(q), len(rows), epsilon / 2 / 3
    reach = math.ceil(2 / choice * math.log(4 * m * top / FAILED) - 1)
    ranks = np.floor(q * n) + counter(m, epsilon / 2 / 2, rng)
    if (np.diff(ranks) < 2 * reach + 1).any() or ranks[0] < reach or ranks[-1] > n - reach - 1:
        return np.sort(rng.uniform(0, top, m))
    found, low = np.empty(m), 0.0
    for at, rank in enumerate(ranks.astype(int)):
        part = rows[rank - reach : rank + reach + 1]
        found[at] = low = between(part, low, top, len(part) / 2, choice, rng)
    return found


def counter(m: int, epsilon: float, rng: np.random.Generator) -> Numbers:
    """Noise of the first 1, 2, … m numbers of a series, from a tree of the branching with the least variance."""
    best = min(range(2, m + 2), key=lambda k: (k - 1) * levels(m, k) ** 3)
    height, steps = levels(m, best), np.arange(1, m + 1)
    noise = np.zeros(m)
    for level in range(height):
        width = best**level
        nodes = rng.laplace(scale=height / epsilon, size=m // width + 1)
        cut = np.concatenate([[0.0], np.cumsum(nodes)])
        last = steps // width  # whole nodes below, of which those of a node above are not counted again
        noise += cut[last] - cut[last // best * best]
    return np.rint(noise)


def levels(m: int, branches: int) -> int:
    """Levels of a tree over m numbers."""
    return max(1, math.ceil(math.log(m + 1, branches) - 1e-9))


def off(leaves: Numbers, chosen: NDArray[np.intp], q: Numbers) -> float:
    """The share of rows by which intervals miss their quantiles."""
    up_to = np.cumsum(leaves)
    n = up_to[-1]
    missed = np.maximum(up_to[chosen] - leaves[chosen] - q * n, q * n - up_to[chosen])
    return float(np.maximum(missed, 0).mean() / n)


def cell(
    shape: str, n: int, epsilon: float, runs: int, rng: np.random.Generator
) -> dict[int, dict[str, list[tuple[float, float]]]]:
    """Errors of all methods, for each number of quantiles: in rank, and in value."""
    draw, step = SHAPES[shape]
    plan = choose_layout(COLUMN, step, math.inf)
    errors: dict[int, dict[str, list[tuple[float, float]]]] = {m: {} for m in NUMBERS}
    shares = [np.arange(1, m + 1) / (m + 1) for m in NUMBERS]
    for _ in range(runs):
        x = np.clip(draw(rng, n), 0, 100)
        leaves, places = counted(x, plan)
        rows = np.sort(places + rng.random(n))
        sd, top = float(x.std()), float(plan.sizes[-1])
        middles = np.clip(plan.low + plan.step * (np.arange(plan.sizes[-1]) + 0.5), 0, 100)
        trees = by_tree(x, step, shares, epsilon, rng)
        for q, values, into in zip(shares, trees, errors.values(), strict=True):
            truth = np.quantile(x, q, method="inverted_cdf")
            at = np.searchsorted(plan.half_open_edges, values, side="right") - 1
            found = {
                "tree": (np.clip(at, 0, plan.sizes[-1] - 1), values),
                "each alone": each_alone(leaves, q, epsilon, rng),
                "recursive": np.minimum(recursive(rows, top, q, epsilon, rng), top - 1).astype(int),
                "sliced": np.minimum(sliced(rows, top, q, epsilon, rng), top - 1).astype(int),
            }
            for name, answer in found.items():
                chosen, value = answer if isinstance(answer, tuple) else (answer, middles[answer])
                into.setdefault(name, []).append((off(leaves, chosen, q), float(abs(value - truth).mean() / sd)))
    return errors


def main() -> None:
    """Simulate, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40, help="of up to 5,000 rows; of more, a quarter")
    asked = parser.parse_args()
    names = ("tree", "each alone", "recursive", "sliced")
    rng, won = np.random.default_rng(1), {}
    with recorded("eda_quantiles", "column", "rows", "ε", "quantiles", *names, "best") as row:
        for shape in SHAPES:
            for n in SIZES:
                for epsilon in EPSILONS:
                    found = cell(shape, n, epsilon, asked.runs if n <= SIZES[1] else asked.runs // 4, rng)
                    for m, each in found.items():
                        means = {name: np.mean(each[name], axis=0) for name in names}
                        spread = {name: np.std([rank for rank, _ in each[name]]) for name in names}
                        noise = {name: spread[name] / math.sqrt(len(each[name])) for name in names}
                        q = np.arange(1, m + 1) / (m + 1)
                        alone = selects_separately(asked_by(n, epsilon), COLUMN, q, SHAPES[shape][1], None)
                        own = "each alone" if alone else "tree"
                        best = min(names, key=lambda name, means=means: means[name][0])  # type: ignore[misc]
                        clear = max(3 * math.hypot(noise[own], noise[best]), TINY)
                        said = best if means[own][0] - means[best][0] > clear else "ours"
                        kind = "whole" if SHAPES[shape][1] else "real"
                        won.setdefault((kind, m), []).append((said, means[own][0] / max(means[best][0], TINY)))
                        cells = [f"{1000 * means[name][0]:.3g}, {means[name][1]:.2g}" for name in names]
                        row(shape, f"{n:,}", f"{epsilon:g}", m, *cells, said)
    print()
    heads = ("column", "quantiles", "cells", "ours", *names, "error of ours / the best, most")
    with recorded("eda_quantiles_summary", *heads) as row:
        for (kind, m), every in won.items():
            kinds = [said for said, _ in every]
            counts = [kinds.count(name) for name in ("ours", *names)]
            row(
                kind,
                m,
                len(every),
                *counts,
                f"{max((each for said, each in every if said != 'ours'), default=1):.2g}",
            )


if __name__ == "__main__":
    main()
