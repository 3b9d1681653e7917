"""Levels of the private rank tests, and coverage of the effect's 95% interval, on designs drawn at random.

    python tests/benchmarks/levels_ranks.py --runs 400

Of every design of `designs.py` tables are drawn: its two groups are compared by ``mannwhitneyu``, missing values
left out, under its own neighbouring relation, and under ``replace_one`` with public groups as well as with private
ones; the first group, moved so that its law is symmetric about 0, is tested by ``wilcoxon``, by ranks and by signs.
Noise is numpy's continuous Laplace; the p-values are those that the methods conclude with. The tables have how
often a true hypothesis was rejected, for all designs and for those of some ε, and the worst design; and how often
the interval of the effect holds 1/2. ``kruskal``: levels of
several groups. ``power``: some cells, beside the powers expected of them. Exits with status 1 if a level is, in a
design, above nominal by more than a fifth and three standard errors. Rejections with the note that nearly all
values are equal do not count.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from designs import LEVELS, Design, designs, exceeds
from results import recorded
from scipy.stats import norm, rankdata

from dfprivacy.inference.counts import NoisyCounts
from dfprivacy.laws import NoiseLaw
from dfprivacy_inference.groups import COMPLETE, ENOUGH, SHARE, SIZES, TIES, SeveralGroups, TwoGroups
from dfprivacy_inference.signed import Differences, sign_pvalue
from dfprivacy_inference.statistics import COUNTED, GehanScores, MidRanks, Spread, taper

BINS = ((0.02, 0.2), (0.2, 1.0), (1.0, 5.0), (5.0, 50.0))
SYMMETRIC = ("normal", "uniform", "t3", "coin", "constant")


@dataclass(frozen=True)
class Exact:
    """What is exact of some tables: rank sum, sizes of the complete rows, and ties, of one design."""

    rank_sum: np.ndarray
    first: np.ndarray
    second: np.ndarray
    tau: np.ndarray
    sizes: tuple[int, int]


def drawn(rng: np.random.Generator, design: Design, runs: int) -> tuple[Exact, np.ndarray, np.ndarray, np.ndarray]:
    """Draw tables; the rank sums of two groups, and W, signs and rows of the first group."""
    found = np.zeros((7, runs))
    n, first = sum(design.sizes), design.sizes[0]
    middle = np.clip(0.0, design.low, design.high)
    for run in range(runs):
        x = design.draw(rng)
        there = ~np.isnan(x)
        rank = rankdata(x[there])
        a = rank - (rank.size + 1) / 2
        mine = there[:first].sum()
        d = x[:first][there[:first]] - middle
        signed = np.sign(d) @ rankdata(np.abs(d))
        tau = 12 * (a @ a) / (n * (n * n - 1))
        found[:, run] = a[:mine].sum(), mine, rank.size - mine, tau, signed, np.sign(d).sum(), d.size
    return Exact(*found[:4], design.sizes), found[4], found[5], found[6]


MOVES = {"ties": MidRanks.moves, "variance": GehanScores.moves}


def private(rng: np.random.Generator, exact: Exact, epsilon: float, *, spread: Spread = "ties") -> TwoGroups:
    """Release under ``replace_one``, groups private."""
    n, runs = sum(exact.sizes), exact.first.size
    on = n * epsilon >= ENOUGH and n >= 13
    c, t = (SIZES, TIES) if on else (0.0, 0.0)
    b = (1 + t) / epsilon
    factor = np.array([taper(n, int(max(size, n - size)), c) for size in exact.first])
    scales = [b, b / SIZES, b / COMPLETE, MOVES[spread] * b / (TIES * (n + 1))]
    values = [factor * exact.rank_sum, exact.first, exact.first + exact.second, exact.tau]
    noisy = [value + rng.laplace(0, scale, runs) for value, scale in zip(values, scales, strict=True)]
    return TwoGroups(np.stack(noisy, axis=-1), scales, n, sized=on, complete=on, spread=spread if on else None)


def public(rng: np.random.Generator, exact: Exact, epsilon: float, *, spread: Spread = "ties") -> TwoGroups:
    """Release under ``replace_one``, groups public."""
    n, most, runs = sum(exact.sizes), max(exact.sizes), exact.first.size
    on = n * epsilon >= ENOUGH
    b = (1 + (TIES if on else 0.0)) / epsilon
    scales = [b * most, 2 * b, 2 * b, MOVES[spread] * b / (TIES * (n + 1))]
    values = [exact.rank_sum, exact.first, exact.second, exact.tau]
    noisy = [value + rng.laplace(0, scale, runs) for value, scale in zip(values, scales, strict=True)]
    return TwoGroups(
        np.stack(noisy, axis=-1), scales, n, rows=exact.sizes, complete=True, spread=spread if on else None
    )


def added(rng: np.random.Generator, exact: Exact, epsilon: float) -> TwoGroups:
    """Release under ``add_remove``."""
    runs, scale = exact.first.size, (0.5 + COUNTED) / epsilon
    scales = [scale, scale / COUNTED, scale / COUNTED, 0.0]
    values = [exact.rank_sum / np.maximum(exact.first + exact.second, 1), exact.first, exact.second, 0.0]
    noisy = [value + rng.laplace(0, each, runs) for value, each in zip(values, scales, strict=True)]
    return TwoGroups(np.stack(noisy, axis=-1), scales, None)


def measure(rng: np.random.Generator, design: Design, runs: int) -> dict[str, tuple[np.ndarray, float]]:
    """P-values of each test, two-sided, and how often the interval holds 1/2."""
    exact, signed, signs, rows = drawn(rng, design, runs)
    ways = {"add_remove": added} if design.neighbors == "add_remove" else {"private": private, "public": public}
    found = {}
    for name, release in ways.items():
        two = release(rng, exact, design.epsilon)
        effect, low, high = two.effect(), *two.effect().interval(0.95)
        covers = float("nan") if two.lacks_sizes else float(((low <= 0.5) & (high >= 0.5)).mean())
        for side, cover in (("two-sided", covers), ("greater", float("nan"))):
            p = np.where(two.is_mostly_ties, 1.0, effect.pvalue(0.5, side))
            found[f"mannwhitneyu, {name}" + ", greater" * (side == "greater")] = p, cover
    if design.data in SYMMETRIC:
        n, scale = design.sizes[0], 2 / design.epsilon
        exact, scales = np.stack([signed, rows], axis=-1), np.array([n * scale, scale])
        noisy = Differences(exact + rng.laplace(size=exact.shape) * scales, scales, ranks=True, n=n, gaps=True)
        found["wilcoxon, ranks"] = noisy.effect().pvalue(0.5), float("nan")
        halves = np.stack([signs, rows], axis=-1) / 2 + rng.laplace(0, scale / 2, (runs, 2))
        laws, known = [NoiseLaw(scale / 2)] * 2, np.array([float(n)])
        each = [sign_pvalue(NoisyCounts(half[None], laws, known, "halves")) for half in halves]
        found["wilcoxon, signs"] = np.array(each), float("nan")
    return found


def levels(runs: int, seed: int) -> int:
    """Simulate, print, judge."""
    rng, bad = np.random.default_rng(seed), []
    found: dict[str, list[tuple[Design, np.ndarray, float]]] = {}
    for design in designs():
        for test, (p, covers) in measure(rng, design, runs).items():
            found.setdefault(test, []).append((design, np.array([(p <= level).mean() for level in LEVELS]), covers))
            rates = [(level, int((p <= level).sum())) for level in LEVELS]
            bad += [
                f"{test}, {level:g}: {k / runs:.4f} with {design}" for level, k in rates if exceeds(k, runs, level)
            ]
    names = [*(f"ε {low:g} to {high:g}" for low, high in BINS), "all"]
    with recorded(
        "levels_ranks", "test", "designs", "number", *(f"{x:g}" for x in LEVELS), "worst at .05", "covers"
    ) as row:
        for test, every in sorted(found.items()):
            for name, (low, high) in zip(names, [*BINS, (0.0, 100.0)], strict=True):
                part = [each for each in every if low <= each[0].epsilon <= high]
                rates = np.array([each[1] for each in part])
                covers = [each[2] for each in part if each[2] == each[2]]
                shown = f"{np.mean(covers):.3f}, {min(covers):.3f} in the worst" if covers else ""
                row(
                    test,
                    name,
                    len(part),
                    *(f"{rate:.4f}" for rate in rates.mean(axis=0)),
                    f"{rates[:, 0].max():.3f}",
                    shown,
                )
    print(f"\n{len(bad)} levels are above nominal by more than a fifth.", *bad, sep="\n")
    return int(bool(bad))


POWERS = (  # what the first group is shifted by in standard deviations, its share, rows, the expected powers
    (1.0, 0.5, 20, ".19, .23"),
    (1.0, 0.5, 40, ".57, .61"),
    (1.0, 0.5, 80, ".95, .96"),
    (0.5, 0.5, 100, ".50, .59"),
    (0.5, 0.5, 200, ".87, .90"),
    (0.2, 0.5, 1000, ".86, .87"),
    (1.0, 0.3, 60, ".50, .65"),
    (1.0, 0.3, 120, ".95, .97"),
    (0.5, 0.1, 400, ".53, .66"),
    (0.5, 0.1, 1000, ".98, .99"),
)


def power(runs: int, seed: int) -> int:
    """Powers at ε = 1, of private groups and public ones, and without noise."""
    rng = np.random.default_rng(seed)
    with recorded(
        "power_ranks", "shift", "first group", "rows", "private groups", "public", "no noise", "expected"
    ) as row:
        for shift, share, n, expected in POWERS:
            first = round(share * n)
            x = rng.normal(size=(runs, n))
            x[:, :first] += shift
            a = rankdata(x, axis=1) - (n + 1) / 2
            sizes = (first, n - first)
            ones = np.ones(runs)
            exact = Exact(a[:, :first].sum(axis=1), first * ones, (n - first) * ones, ones, sizes)
            z = np.abs(exact.rank_sum) / np.sqrt(first * (n - first) * (n + 1) / 12)
            both = [(release(rng, exact, 1.0).effect().pvalue(0.5) <= 0.05).mean() for release in (private, public)]
            row(
                f"{shift:g} sd",
                f"{share:.0%}",
                n,
                *(f"{each:.2f}" for each in (*both, (2 * norm.sf(z) <= 0.05).mean())),
                expected,
            )
    return 0


LAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "five values": lambda rng, n: rng.integers(5, size=n).astype(float),
    "90% zeros": lambda rng, n: np.where(rng.random(n) < 0.9, 0.0, rng.exponential(size=n)),
    "half missing": lambda rng, n: np.where(rng.random(n) < 0.5, np.nan, rng.normal(size=n)),
}
SEVERAL = (
    ((1 / 3,) * 3, 60, 1.0),
    ((1 / 3,) * 3, 300, 1.0),
    ((0.1, 0.3, 0.6), 300, 1.0),
    ((0.04,) * 5 + (0.8,), 1000, 0.5),
)


def kruskal(runs: int, seed: int) -> int:
    """Levels of the test of several groups."""
    rng = np.random.default_rng(seed)
    bad = []
    with recorded("levels_kruskal", "groups", "rows", "ε", "law", "number", *(f"{x:g}" for x in LEVELS)) as row:
        for shares, n, epsilon in SEVERAL:
            group = np.searchsorted(np.cumsum(shares) - 1e-9, (np.arange(n) + 0.5) / n)
            sizes = np.bincount(group)
            for law, draw in LAWS.items():
                for way in ("private", "public", "add_remove"):
                    p = np.array([_several(rng, draw(rng, n), group, sizes, epsilon, way) for _ in range(runs)])
                    counts = [int((p <= level).sum()) for level in LEVELS]
                    bad += [
                        f"{law}, {way}, {n}" for k, x in zip(counts, LEVELS, strict=True) if exceeds(k, runs, x)
                    ]
                    row(
                        f"{len(shares)}, the largest {max(shares):.0%}",
                        n,
                        f"{epsilon:g}",
                        law,
                        way,
                        *(f"{k / runs:.3f}" for k in counts),
                    )
    print(f"\n{len(bad)} levels are above nominal by more than a fifth.", *bad, sep="\n")
    return int(bool(bad))


def _several(
    rng: np.random.Generator, x: np.ndarray, group: np.ndarray, sizes: np.ndarray, epsilon: float, way: str
) -> float:
    """Release T, and give the p-value."""
    n, k = len(x), len(sizes)
    there = ~np.isnan(x)
    a = rankdata(x[there]) - (there.sum() + 1) / 2
    t = np.abs(np.bincount(group[there], a)).sum() / 2
    tau = 12 * (a @ a) / (n * (n * n - 1))
    counts = np.bincount(group[there], minlength=k)
    on = n * epsilon >= ENOUGH
    share = SHARE * on
    if way == "add_remove":
        b = (0.5 + COUNTED) / epsilon
        scales, exact, rows, size = [b, *[b / COUNTED] * k, 1.0], [t / there.sum(), *counts, 0.0], None, None
        told, ties = True, False
    else:
        known = way == "public"
        most, b = n - (sizes.min() if known else 1), (1 + share + share * (not known)) / epsilon
        each = 2 * b if known else 2 * b / max(share, 1e-9)
        scales = [b * most, *[each] * k, 3 * b / (max(share, 1e-9) * (n + 1))]
        exact, rows, size, told, ties = [t, *counts, tau], tuple(sizes) if known else None, n, known or on, on
    values = [value + rng.laplace(0, scale) for value, scale in zip(exact, scales, strict=True)]
    return SeveralGroups(values, scales, size, rows, told, ties).pvalue()


def main() -> int:
    """Choose."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="levels", choices=("levels", "power", "kruskal"))
    parser.add_argument("--runs", type=int, default=400, help="tables a design (default: 400)")
    parser.add_argument("--seed", type=int, default=17)
    asked = parser.parse_args()
    return {"levels": levels, "power": power, "kruskal": kruskal}[asked.what](asked.runs, asked.seed)


if __name__ == "__main__":
    sys.exit(main())
