"""What Kakizaki, Fukuchi and Sakuma (2017) prove and print, measured.

    python tests/benchmarks/kakizaki2017.py kakizaki_errors

Laws of single tables are summed, not simulated. Simulated noise is numpy's; what begins with ``unsafe_`` is printed
in the paper, costs more than it says, and is nowhere in the library.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from designs import LEVELS, Design, designs
from harness import Array, Ints, Rng, Rows, Tables, draw, problem, read
from levels import CUTS, HEADS, RANGES
from scipy.special import chdtri

from dfprivacy_chi2 import nulls, power, type_ii_bound
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.laws import binomial_law, hypergeometric_law
from dfprivacy_chi2.nulls import MissingRowsNull
from dfprivacy_chi2.tables import (
    chi2_sensitivity,
    chi2_statistic,
    paper_sensitivity,
    signed_distance,
    tight_sensitivity,
    unit_circle_norm,
)

tables = Tables(__doc__)
SIZES = (50, 100, 200, 400, 800)


def share_above(design: Design, rng: Rng) -> float:
    """The share of values above a design's cut, from many rows as it draws them."""
    values = np.concatenate([design.draw(rng) for _ in range(math.ceil(40_000 / sum(design.sizes)))])
    return float(np.mean(values[~np.isnan(values)] >= CUTS.get(design.data, 2.0)))


def picture() -> None:
    """Draw the errors and their bounds."""
    kinds = (("#d9730d", "o-", "χ² plus noise"), ("#d9730d", "--", "at most, Theorems 2 and 3"))
    kinds += (("#2f7fd1", "o-", "unit circle"), ("#2f7fd1", "--", "at most, Theorems 2 and 7"))
    panels: dict[str, list[Any]] = {"ε = 0.1": [], "ε = 0.5": []}
    for (title, lines), (at, (color, style, label)) in itertools.product(panels.items(), enumerate(kinds)):
        rows = (row for row in read("kakizaki_errors")["rows"] if f"ε = {row[1]}" == title)
        lines.append(
            (SIZES, [max(float(row[2 + at]), 1e-9) for row in rows], style, {"color": color, "label": label})
        )
    ticks = {"xticks": SIZES, "xticklabels": [f"{size:,}" for size in SIZES]}
    asked = {"xscale": "log", "yscale": "log", "ylim": (1e-9, 2), **ticks}
    draw("papers/kakizaki2017_errors", (8, 3), panels, x="rows in each group", y="type II error", **asked)


@tables.add(
    *("rows in each group", "ε", "χ² plus noise", "Theorems 2 and 3", "circle", "Theorems 2 and 7"),
    *("the same, sensitivity of Lemma 2", "circle at 5%", "promised"),
    draw=picture,
)
def kakizaki_errors() -> Rows:
    """Theorems 2, 3 and 7: the type II error of both mechanisms at their printed thresholds, and its bounds."""
    asked = {"base": 0.2, "difference": 0.3}
    for epsilon, n in itertools.product((0.1, 0.5), SIZES):
        chi2 = binomial_law(lambda a, b, n=n: chi2_statistic(a, b, n, n), n, n, 0.5, 0.2)
        norm = binomial_law(lambda a, b, n=n: unit_circle_norm(a, b, n, n, TAU), n, n, 0.5, 0.2)
        found = (
            1 - chi2.sf(TAU, chi2_sensitivity(n, n) / epsilon),
            type_ii_bound(n, n, epsilon, **asked, statistic="chi2"),
            1 - norm.sf(1.0, tight_sensitivity(n, n, TAU) / epsilon),
            type_ii_bound(n, n, epsilon, **asked),
            type_ii_bound(n, n, epsilon, **asked, sensitivity="paper"),
            *(1 - power(n, n, epsilon, **asked, method="unit_circle", bound=bound) for bound in (False, True)),
        )
        yield n, f"{epsilon:g}", *(f"{each:.2g}" for each in found)


@tables.add("method", "ε", "designs", *(f"{what} at {level}" for level in HEADS for what in ("mean", "worst")))
def kakizaki_levels(count: int = 200) -> Rows:
    """The exact level of each column of `chi2_many`, over designs: the null is a grid, the truth a sum."""
    rng, found = np.random.default_rng(20), defaultdict[Any, list[float]](list)
    for design in designs(count):
        share, (n1, n0) = share_above(design, rng), design.sizes
        first, of = design.epsilon / (1 + 2 ** (2 / 3)), next(r for r in RANGES if r[0] <= design.epsilon <= r[1])
        for level in LEVELS:
            tau = float(chdtri(1, level))
            unit = tight_sensitivity(n1, n0, tau)
            null, law = nulls.norm_null(n1, n0, tau, None), nulls.norm_law(n1, n0, tau, share, share)
            last = 2 * unit / (design.epsilon - first)
            kinds = {"svt": (unit / first, last), "select": (2 * unit / design.epsilon,)}
            for kind, scales in kinds.items():
                rate = law.sf(null.critical_value(level, *scales), *scales)
                found[kind, of, level].append(rate)
                if rate > 1.2 * level:
                    problem(f"{kind}: {rate:.4f} at {level:g} with {design}")
    for kind, of in itertools.product(("svt", "select"), RANGES):
        every = [found[kind, of, level] for level in LEVELS]
        cells = (f"{each:.3g}" for rates in every for each in (np.mean(rates), max(rates)))
        yield kind, f"{of[0]:g} to {of[1]:g}", len(every[0]), *cells


# Algorithm 4

COLUMNS, CAUSAL, ROWS = 500, 5, 1000
SCORES = ("difference", "distance", "circle", "χ²")


@tables.add("ε", *(f"selected by {each}" for each in SCORES), "all null: α/K", "α/s", "α", "α/K, circle")
def kakizaki_algorithm4(runs: int = 1000) -> Rows:
    """How many of five columns that differ each score selects, and how often others are rejected."""
    rng, tau = np.random.default_rng(4), float(chdtri(1, 0.05 / COLUMNS))
    unit = {
        "difference": 1 / ROWS,
        "circle": tight_sensitivity(ROWS, ROWS, tau),
        "χ²": chi2_sensitivity(ROWS, ROWS),
    }

    def scores(c11: Any, c10: Any) -> dict[str, Array]:
        return {
            "difference": np.abs(c11 - c10) / ROWS / unit["difference"],
            "distance": signed_distance(c11, c10, ROWS, ROWS, tau).astype(float),
            "circle": unit_circle_norm(c11, c10, ROWS, ROWS, tau) / unit["circle"],
            "χ²": chi2_statistic(c11, c10, ROWS, ROWS) / unit["χ²"],
        }

    def selected(score: Array) -> Ints:  # with ε/2 in all: by Gumbel noise, without replacement
        noisy = score * epsilon / (4 * CAUSAL) + rng.gumbel(size=score.shape)
        return np.argpartition(-noisy, CAUSAL, axis=1)[:, :CAUSAL]

    def false_rejection(found: Array, statistic: str, level: float) -> float:
        chosen, scale = selected(found), unit[statistic] * 2 * CAUSAL / epsilon
        values = found[np.arange(runs)[:, None], chosen] * unit[statistic]
        null = MissingRowsNull(ROWS) if statistic == "difference" else nulls.norm_null(ROWS, ROWS, tau, None)
        hit = values + rng.laplace(0, scale, chosen.shape) > null.critical_value(level, scale)
        return float(hit.any(axis=1).mean())

    for epsilon in (1.0, 2.0, 5.0, 20.0):
        base = rng.uniform(0.05, 0.5, (runs, COLUMNS))
        c11 = rng.binomial(ROWS, base + 0.12 * (np.arange(COLUMNS) < CAUSAL))
        found = scores(c11, rng.binomial(ROWS, base))
        hits = [(selected(found[each]) < CAUSAL).sum(axis=1).mean() for each in SCORES]
        null = scores(rng.binomial(ROWS, base), rng.binomial(ROWS, base))
        tests = [*(("difference", 0.05 / k) for k in (COLUMNS, CAUSAL, 1)), ("circle", 0.05 / COLUMNS)]
        wrong = [false_rejection(null[statistic], statistic, level) for statistic, level in tests]
        yield f"{epsilon:g}", *(f"{hit:.2f}" for hit in hits), *(f"{rate:.3f}" for rate in wrong)


# What is printed and costs more


def unsafe_score(c11: int, c10: int, n1: int, n0: int, tau: float) -> int:
    """Minus the distance on the inner side, in place of 1 minus it: a row moves it by 2 across the circle."""
    score = int(signed_distance(c11, c10, n1, n0, tau))
    return score if score >= 1 else score - 1


def unsafe_loss(n1: int, n0: int, epsilon: float, sensitivity: Callable[..., float]) -> tuple[float, str]:
    """The largest privacy loss of a decision with the critical value given the exact M₁, and where it is."""
    (c11, c10), scale, at = np.indices((n1 + 1, n0 + 1)), sensitivity(n1, n0, TAU) / epsilon, []
    for m in range(n1 + n0 + 1):
        law = hypergeometric_law(lambda a, b: unit_circle_norm(a, b, n1, n0, TAU), n1, n0, m)
        at.append(law.critical_value(0.05, scale))
    away = (unit_circle_norm(c11, c10, n1, n0, TAU) - np.array(at)[c11 + c10]) / scale
    tail, body = -np.abs(away) - math.log(2), np.log1p(-np.exp(-np.abs(away)) / 2)
    worst, where = 0.0, ""
    for outcome in (np.where(away < 0, tail, body), np.where(away < 0, body, tail)):
        for axis, step in ((0, (1, 0)), (1, (0, 1))):
            loss = np.abs(np.diff(outcome, axis=axis))
            a, b = (int(each) for each in np.unravel_index(loss.argmax(), loss.shape))
            if loss[a, b] > worst:
                worst, where = float(loss[a, b]), f"({a}, {b}) and ({a + step[0]}, {b + step[1]})"
    return worst, where


@tables.add("as printed", "groups", "neighbouring (c₁₁, c₁₀)", "ε", "loss of ε, times")
def kakizaki_broken() -> Rows:
    """Neighbouring tables on which what is printed breaks its promise."""
    n = 10
    for c11, c10 in ((8, 3), (9, 2)):
        pair = [(a, c10) for a in (c11, c11 - 1)]
        told, right = ([int(score(*each, n, n, TAU)) for each in pair] for score in (unsafe_score, signed_distance))
        if abs(told[0] - told[1]) > 1:
            where = f"{pair[0]} and {pair[1]}: scores {told[0]} and {told[1]} (ours {right[0]} and {right[1]})"
            yield "score: minus the distance, inside", f"{n}, {n}", where, "any", abs(told[0] - told[1])
    lemma = ("Lemma 2", paper_sensitivity)
    tight = ("tight", tight_sensitivity)
    for n, epsilon, (name, sensitivity) in (
        (50, 1.0, tight),
        (200, 1.0, tight),
        (200, 3.0, tight),
        (60, 6.0, lemma),
    ):
        loss, where = unsafe_loss(n, n, epsilon, sensitivity)
        yield f"threshold from the exact M₁, {name}", f"{n}, {n}", where, f"{epsilon:g}", f"{loss / epsilon:.3f}"


if __name__ == "__main__":
    tables.main()
