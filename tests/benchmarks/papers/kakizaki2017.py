"""What Kakizaki, Fukuchi and Sakuma (2017) prove and print, measured.

    python tests/benchmarks/papers/kakizaki2017.py errors       # Theorems 2, 3 and 7, with a picture
    python tests/benchmarks/papers/kakizaki2017.py levels       # levels of `chi2_many(statistic="unitcircle")`
    python tests/benchmarks/papers/kakizaki2017.py algorithm4   # what each score selects, and false rejections
    python tests/benchmarks/papers/kakizaki2017.py broken       # tables on which what is printed costs more than ε

Laws of single tables are summed, not simulated. Simulated noise is numpy's; what begins with ``unsafe_`` is printed
in the paper, costs more than it says, and is nowhere in the library.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from designs import LEVELS, designs
from levels_chi2 import RANGES, categories
from results import recorded
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

PICTURE = Path(__file__).parents[3] / "docs/pictures/papers/kakizaki2017_errors.svg"
SHARES = (0.2, 0.3)  # of X = 1 in the second group, and how many more in the first
SIZES = (50, 100, 200, 400, 800)
EPSILONS = (0.1, 0.5)


# Theorems 2, 3 and 7


def errors() -> None:
    """Print the type II error of both mechanisms at their printed thresholds, and its bounds."""
    base, difference = SHARES
    heads = ("χ² plus noise", "Theorems 2 and 3", "circle", "Theorems 2 and 7", "the same, sensitivity of Lemma 2")
    curves = defaultdict(list)
    with recorded("kakizaki_errors", "rows in each group", "ε", *heads, "circle at 5%", "promised") as row:
        for epsilon in EPSILONS:
            for n in SIZES:
                shares = n, n, base + difference, base
                chi2 = binomial_law(lambda a, b, n=n: chi2_statistic(a, b, n, n), *shares)
                norm = binomial_law(lambda a, b, n=n: unit_circle_norm(a, b, n, n, TAU), *shares)
                asked = {"base": base, "difference": difference}
                found = (
                    1 - chi2.sf(TAU, chi2_sensitivity(n, n) / epsilon),
                    type_ii_bound(n, n, epsilon, **asked, statistic="chi2"),
                    1 - norm.sf(1.0, tight_sensitivity(n, n, TAU) / epsilon),
                    type_ii_bound(n, n, epsilon, **asked),
                    type_ii_bound(n, n, epsilon, **asked, sensitivity="paper"),
                )
                planned = [
                    1 - power(n, n, epsilon, **asked, method="unit_circle", bound=bound) for bound in (False, True)
                ]
                row(n, f"{epsilon:g}", *(f"{each:.2g}" for each in (*found, *planned)))
                curves[epsilon].append(found[:4])
    draw(curves)


def draw(curves: dict[float, list[tuple[float, ...]]]) -> None:
    """Draw the errors and their bounds, in inks that are read on light and on dark."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    grey = "#808080"
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "dfprivacy", "font.family": "sans-serif"}
    mpl.rcParams |= dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), grey
    )
    figure, parts = plt.subplots(1, len(curves), figsize=(8, 3), sharey=True, layout="constrained")
    for ax, (epsilon, found) in zip(parts, curves.items(), strict=True):
        chi2, third, circle, seventh = np.maximum(np.array(found).T, 1e-9)
        ax.plot(SIZES, chi2, color="#d9730d", marker="o", label="χ² plus noise")
        ax.plot(SIZES, third, color="#d9730d", ls="--", label="at most, Theorems 2 and 3")
        ax.plot(SIZES, circle, color="#2f7fd1", marker="o", label="unit circle")
        ax.plot(SIZES, seventh, color="#2f7fd1", ls="--", label="at most, Theorems 2 and 7")
        ax.set(xscale="log", yscale="log", ylim=(1e-9, 2), xlabel="rows in each group", title=f"ε = {epsilon:g}")
        ax.set(xticks=SIZES, xticklabels=[f"{size:,}" for size in SIZES])
        ax.minorticks_off()
        ax.patch.set_alpha(0)
    parts[0].set_ylabel("type II error")
    parts[0].legend(fontsize="small", frameon=False, labelcolor=grey)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, transparent=True, metadata={"Date": None})


# Levels of the circle in `chi2_many`


def levels(count: int) -> int:
    """Print the exact level of each column, over designs drawn at random: the null is a grid, the truth a sum."""
    rng, found = np.random.default_rng(20), defaultdict(list)
    for design in designs(count):
        share = float(categories(design, rng, two=True)[1])
        n1, n0 = design.sizes
        first = design.epsilon / (1 + 2 ** (2 / 3))
        for at, level in enumerate(LEVELS):
            tau = float(chdtri(1, level))
            unit = tight_sensitivity(n1, n0, tau)
            kinds = {
                "svt": (unit / first, 2 * unit / (design.epsilon - first)),
                "select": (2 * unit / design.epsilon,),
            }
            null, law = nulls.norm_null(n1, n0, tau, None), nulls.norm_law(n1, n0, tau, share, share)
            for kind, scales in kinds.items():
                rate = law.sf(null.critical_value(level, *scales), *scales)
                found[kind, next(r for r in RANGES if r[0] <= design.epsilon <= r[1]), at].append(rate / level)
    worst = 0.0
    heads = [f"{what} {level:g}" for level in LEVELS for what in ("mean at", "worst at")]
    with recorded("kakizaki_levels", "method", "ε", "designs", *heads) as row:
        for kind in ("svt", "select"):
            for low, high in RANGES:
                of = [np.array(found[kind, (low, high), at]) for at in range(len(LEVELS))]
                cells = [
                    f"{each * level:.3g}"
                    for ratios, level in zip(of, LEVELS, strict=True)
                    for each in (ratios.mean(), ratios.max())
                ]
                worst = max(worst, *(float(ratios.max()) for ratios in of))
                row(kind, f"{low:g} to {high:g}", len(of[0]), *cells)
    print(f"\nThe largest level is {worst:.3f} times its nominal one.")
    return int(worst > 1.2)


# Algorithm 4

COLUMNS, CAUSAL, ROWS = 500, 5, 1000
SCORES = ("difference", "distance", "circle", "χ²")


def algorithm4(runs: int) -> None:
    """Print how many of five columns that differ are selected by each score, and how often others are rejected."""
    rng = np.random.default_rng(4)
    tau = float(chdtri(1, 0.05 / COLUMNS))
    unit = {
        "difference": 1 / ROWS,
        "circle": tight_sensitivity(ROWS, ROWS, tau),
        "χ²": chi2_sensitivity(ROWS, ROWS),
    }

    def scores(c11: np.ndarray, c10: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "difference": np.abs(c11 - c10) / ROWS / unit["difference"],
            "distance": signed_distance(c11, c10, ROWS, ROWS, tau).astype(float),
            "circle": unit_circle_norm(c11, c10, ROWS, ROWS, tau) / unit["circle"],
            "χ²": chi2_statistic(c11, c10, ROWS, ROWS) / unit["χ²"],
        }

    tested = ("all null: α/K", "α/s", "α", "α/K, circle")
    with recorded("kakizaki_algorithm4", "ε", *(f"selected by {each}" for each in SCORES), *tested) as row:
        for epsilon in (1.0, 2.0, 5.0, 20.0):
            base = rng.uniform(0.05, 0.5, (runs, COLUMNS))
            causal = np.arange(COLUMNS) < CAUSAL
            c11 = rng.binomial(ROWS, base + 0.12 * causal)
            found = scores(c11, rng.binomial(ROWS, base))
            hits = [(selected(rng, found[each], epsilon) < CAUSAL).sum(axis=1).mean() for each in SCORES]
            wrong = false_rejections(rng, base, scores, unit, tau, epsilon)
            row(f"{epsilon:g}", *(f"{hit:.2f}" for hit in hits), *(f"{rate:.3f}" for rate in wrong))


def selected(rng: np.random.Generator, score: np.ndarray, epsilon: float) -> np.ndarray:
    """Draw the top five by the exponential mechanism with ε/2 in all: by Gumbel noise, without replacement."""
    noisy = score * epsilon / (4 * CAUSAL) + rng.gumbel(size=score.shape)
    return np.argpartition(-noisy, CAUSAL, axis=1)[:, :CAUSAL]


def false_rejections(rng, base, scores, unit, tau, epsilon) -> list[float]:
    """How often any of the five selected of columns that are all null is rejected, by test and its level."""
    at = rng.binomial(ROWS, base), rng.binomial(ROWS, base)
    found, places = scores(*at), np.arange(len(base))[:, None]
    rates = []
    tests = [*(("difference", 0.05 / k) for k in (COLUMNS, CAUSAL, 1)), ("circle", 0.05 / COLUMNS)]
    for statistic, level in tests:
        chosen = selected(rng, found[statistic], epsilon)
        scale = unit[statistic] * 2 * CAUSAL / epsilon
        noisy = found[statistic][places, chosen] * unit[statistic] + rng.laplace(0, scale, chosen.shape)
        null = MissingRowsNull(ROWS) if statistic == "difference" else nulls.norm_null(ROWS, ROWS, tau, None)
        rates.append(float((noisy > null.critical_value(level, scale)).any(axis=1).mean()))
    return rates


# What is printed and costs more


def unsafe_score(c11: int, c10: int, n1: int, n0: int, tau: float) -> int:
    """Minus the distance on the inner side, in place of 1 minus it: a row moves it by 2 across the circle."""
    score = int(signed_distance(c11, c10, n1, n0, tau))
    return score if score >= 1 else score - 1


def unsafe_loss(n1: int, n0: int, epsilon: float, sensitivity) -> tuple[float, str]:
    """The largest privacy loss of a decision with the critical value given the exact M₁, and where it is."""
    c11, c10 = np.indices((n1 + 1, n0 + 1))
    scale = sensitivity(n1, n0, TAU) / epsilon
    at = np.array([
        hypergeometric_law(lambda a, b: unit_circle_norm(a, b, n1, n0, TAU), n1, n0, m).critical_value(0.05, scale)
        for m in range(n1 + n0 + 1)
    ])  # fmt: skip
    away = (unit_circle_norm(c11, c10, n1, n0, TAU) - at[c11 + c10]) / scale
    tail, body = -np.abs(away) - math.log(2), np.log1p(-np.exp(-np.abs(away)) / 2)
    worst, where = 0.0, ""
    for outcome in (np.where(away < 0, tail, body), np.where(away < 0, body, tail)):
        for axis, step in ((0, (1, 0)), (1, (0, 1))):
            loss = np.abs(np.diff(outcome, axis=axis))
            place = tuple(int(each) for each in np.unravel_index(loss.argmax(), loss.shape))
            if loss[place] > worst:
                worst = float(loss[place])
                where = f"({place[0]}, {place[1]}) and ({place[0] + step[0]}, {place[1] + step[1]})"
    return worst, where


def broken() -> None:
    """Print the neighbouring tables on which what is printed breaks its promise."""
    with recorded(
        "kakizaki_broken", "as printed", "groups", "neighbouring (c₁₁, c₁₀)", "ε", "loss of ε, times"
    ) as row:
        n1 = n0 = 10
        for c11, c10 in ((8, 3), (9, 2)):
            here, there = ((a, c10) for a in (c11, c11 - 1))
            scores = [unsafe_score(*each, n1, n0, TAU) for each in (here, there)]
            right = [int(signed_distance(*each, n1, n0, TAU)) for each in (here, there)]
            if abs(scores[0] - scores[1]) > 1:
                row(
                    "score: minus the distance, inside",
                    f"{n1}, {n0}",
                    f"{here} and {there}: scores {scores[0]} and {scores[1]} (ours {right[0]} and {right[1]})",
                    "any",
                    abs(scores[0] - scores[1]),
                )
        for n, epsilon, name, sensitivity in (
            (50, 1.0, "tight", tight_sensitivity),
            (200, 1.0, "tight", tight_sensitivity),
            (200, 3.0, "tight", tight_sensitivity),
            (60, 6.0, "Lemma 2", paper_sensitivity),
        ):
            loss, where = unsafe_loss(n, n, epsilon, sensitivity)
            row(f"threshold from the exact M₁, {name}", f"{n}, {n}", where, f"{epsilon:g}", f"{loss / epsilon:.3f}")


def main() -> int:
    """Measure one part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("errors", "levels", "algorithm4", "broken"))
    parser.add_argument("--designs", type=int, default=200, help="of levels (default: 200)")
    parser.add_argument("--runs", type=int, default=400, help="tables of algorithm4 (default: 400)")
    asked = parser.parse_args()
    if asked.part == "levels":
        return levels(asked.designs)
    {"errors": errors, "algorithm4": lambda: algorithm4(asked.runs), "broken": broken}[asked.part]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
