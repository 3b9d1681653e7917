"""How often tests of means, ranks and independence reject what is true, by simulation.

    python tests/benchmarks/levels.py levels_ttest --runs 1000

Most are of the designs of `designs.py`: of each, tables are drawn, and their exact sums. The noise is NumPy's
continuous Laplace in place of the library's discrete one, which does not change a level; what concludes is what the
methods conclude with. A design's groups are compared under its own neighbouring relation, and under ``replace_one``
with public groups as well as with private ones. Rejections with a note that the level may not hold do not count. A
level is too high if it is, in a design, above nominal by a fifth and three standard errors.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from designs import DATA, LEVELS, Design, designs, exceeds
from harness import Array, Ints, Rng, Rows, Tables, parts, problem
from scipy.special import bdtrc, ndtr
from scipy.stats import rankdata

from dfprivacy.inference.counts import NoisyCounts
from dfprivacy.inference.engine import infer
from dfprivacy.inference.groups import mean, omnibus
from dfprivacy.inference.moments import Form, NoisyMoments
from dfprivacy.inference.notes import is_unreliable, skewness, worst_pvalue
from dfprivacy.laws import NoiseLaw
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import MARGIN_SHARE, ROWS_TO_CALIBRATE, TAU
from dfprivacy_chi2.inference import NoisyTable, SignedDifference
from dfprivacy_chi2.tables import tight_sensitivity, unit_circle_norm
from dfprivacy_inference.groups import COMPLETE, ENOUGH, SHARE, SIZES, TIES, SeveralGroups, TwoGroups
from dfprivacy_inference.signed import Differences, sign_pvalue
from dfprivacy_inference.statistics import COUNTED, GehanScores, MidRanks, Spread, taper
from dfprivacy_ttest.parameters import mean_parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


tables = Tables(__doc__)
RANGES = ((0.02, 0.2), (0.2, 1.0), (1.0, 5.0), (5.0, 50.0))
HEADS = tuple(f"{level:g}" for level in LEVELS)
SIDES = ("two-sided", "less", "greater")
RARE = 1e-4  # how rare a level is by the binomial law that is too high, where runs are few and rates are many


# What the tables of designs count


@dataclass(frozen=True)
class Seen:
    """Of one design: answers, how many of them reject at each level, and what share covers, or carries a note."""

    design: Design
    answers: int
    hits: list[int]
    covers: float = math.nan
    noted: float = 0.0


def judge(what: str, one: Seen, rare: float = 1.0) -> Seen:
    """Tell of levels that are too high, and of intervals that cover too little."""
    misses = [] if math.isnan(one.covers) else [(round((1 - one.covers) * one.answers), LEVELS[0])]
    for hits, level in (*zip(one.hits, LEVELS, strict=False), *misses):
        too_many = one.answers and exceeds(hits, one.answers, level)
        if too_many and bdtrc(hits - 1, one.answers, 1.2 * level) < rare:
            problem(f"{what}, {level:g}: {hits} of {one.answers} with {one.design}")
    return one


def hits_of(pvalues: Array, noted: Any = False, levels: Iterable[float] = LEVELS) -> list[int]:
    """How many p-values without a note are at most each level."""
    return [int(((pvalues <= level) & ~np.asarray(noted, dtype=bool)).sum()) for level in levels]


def rates(every: list[Seen]) -> list[str]:
    """The means of the designs' rates."""
    return [f"{rate:.4f}" for rate in np.mean([np.array(one.hits) / one.answers for one in every], axis=0)]


def worst(every: list[Seen]) -> str:
    """The largest rate of a design at the largest level."""
    return f"{max((one.hits[0] / one.answers for one in every if one.answers), default=0.0):.3f}"


def by_range(every: list[Seen], all_too: str = "") -> Iterator[tuple[str, list[Seen]]]:
    """Those of some epsilons, and all."""
    for low, high in RANGES:
        yield f"{low:g} to {high:g}", [one for one in every if low <= one.design.epsilon <= high]
    if all_too:
        yield all_too, every


def by_data(every: list[Seen]) -> dict[str, list[Seen]]:
    """Those of each kind of data."""
    return {kind: of for kind in DATA if (of := [one for one in every if one.design.data == kind])}


def part(key: str, design: Design, measure: Callable[[], Any]) -> Seen:
    """Measure a design, or take it from the file of parts."""
    return Seen(design, *parts(key, measure))


def pooled(every: list[Seen]) -> list[str]:
    """The rates of all answers together."""
    hits, answers = np.sum([one.hits for one in every], axis=0), sum(one.answers for one in every)
    return [f"{rate:.4f}" for rate in hits / max(answers, 1)]


def spreads(every: list[Seen]) -> list[str]:
    """The mean rate and that of the worst design, at each level."""
    levels = zip(*(np.array(one.hits) / one.answers for one in every), strict=True)
    return [cell for of in levels for cell in (f"{np.mean(of):.4f}", f"{max(of):.4f}")]


def ways_of(design: Design) -> tuple[str, ...]:
    """How the groups of a design are compared."""
    return ("add_remove",) if design.neighbors == "add_remove" else ("public", "private")


# Means


def exact_sums(rng: Rng, design: Design, runs: int, cuts: list[int] | None = None) -> Array:
    """Σy, Σy² and rows with a value, of y in [-1, 1], in each group of many tables."""
    half, middle = (design.high - design.low) / 2, (design.high + design.low) / 2
    cuts = cuts or [design.sizes[0]]
    found = np.empty((runs, len(cuts) + 1, 3))
    for table in found:
        for group, part in zip(table, np.split((design.draw(rng) - middle) / half, cuts), strict=True):
            there = part[~np.isnan(part)]
            group[:] = there.sum(), there @ there, there.size
    return found


def noisy_sums(rng: Rng, exact: Array, epsilon: float, way: str, sizes: Any = None) -> NoisyMoments:
    """Add noise; of public sizes, how many rows have a value is measured too."""
    total, squares, rows = np.moveaxis(exact, -1, 0)
    public = way == "public"
    scale = {"public": 2.0, "private": 3.0, "add_remove": 1.5}[way] / epsilon
    scales = scale / np.array([1, 0.5, 1] if public else [1, 1, 0.5])  # (y, (1-y²)/2, 1), or (y, 1-y², y²/2)
    values = np.stack([total, rows - squares, rows if public else squares], axis=-1)
    values = values + scales * rng.laplace(size=values.shape)
    known = np.broadcast_to(sizes, rows.shape) if public else None
    form: Form = "beside" if public else "private"
    return NoisyMoments(values, [NoiseLaw(each) for each in scales], known, form)


def true_mean(design: Design) -> float:
    """Mean of a clipped value, in units of y."""
    return (design.mean(1_000_000) - (design.high + design.low) / 2) / ((design.high - design.low) / 2)


def tested(sums: NoisyMoments, null: float, design: Design, side: str) -> Seen:
    """Test means; rejections with a note do not count, and are in what is not covered."""
    known = infer(sums, mean_parameter(sums.values.shape[1]))
    p = known.pvalue(null, side)
    worst_p = worst_pvalue(p, skewness(known, sums), side)
    noted = [sums.size_is_doubtful | is_unreliable(p, worst_p, level) for level in LEVELS]
    hits = [int(((p <= level) & ~of).sum()) for level, of in zip(LEVELS, noted, strict=True)]
    return Seen(design, len(p), hits, float((p <= LEVELS[0]).mean()), float(noted[0].mean()))


@tables.add(
    *("test", "designs", "number"),
    *(f"{sides} {level}" for sides in ("two-sided", "one-sided") for level in HEADS),
    *("worst at .05", "with notes too", "noted"),
)
def levels_ttest(runs: int = 1000) -> Rows:
    """The t-test of one sample, against the true mean, and of two."""
    rng, found = np.random.default_rng(15), defaultdict[str, list[dict[str, Seen]]](list)
    for design in designs():
        sums, ways = exact_sums(rng, design, runs), ways_of(design)
        asked = {"one sample": (sums[:, :1], ways[0], true_mean(design))}
        asked |= {f"two samples, {way}": (sums, way, 0.0) for way in ways}
        for test, (exact, way, null) in asked.items():
            noisy = noisy_sums(rng, exact, design.epsilon, way, design.sizes[: exact.shape[1]])
            found[test].append(
                {side: tested(noisy, null, design, side) for side in ("two-sided", "less", "greater")}
            )
            for side, one in found[test][-1].items():
                judge(f"{test}, {side}", replace(one, covers=math.nan))
    for test in sorted(found):
        two, *_ = sides = [[each[side] for each in found[test]] for side in SIDES]
        one = [each for pair in zip(*sides[1:], strict=True) for each in pair]
        parts = [(f"{data} data", lambda d, data=data: d.data == data) for data in DATA]
        parts += [(f"ε {a:g} to {b:g}", lambda d, a=a, b=b: a <= d.epsilon <= b) for a, b in RANGES]
        for name, holds in (*parts, ("all", lambda _: True)):
            both, single = ([each for each in of if holds(each.design)] for of in (two, one))
            anyway, noted = np.mean([(each.covers, each.noted) for each in both], axis=0)
            shown = (*rates(both), *rates(single), worst(both + single), f"{anyway:.3f}", f"{noted:.0%}")
            yield test, name, len(both), *shown


@tables.add("groups", "designs", "number", *HEADS[:2], "worst at .05", "noted")
def levels_anova(runs: int = 200) -> Rows:
    """The analysis of variance of three groups, the first of the design's two cut in half."""
    rng, found, fewest = np.random.default_rng(18), defaultdict[str, list[Seen]](list), 10
    for design in designs():
        if design.sizes[0] < 4:
            continue
        cuts = [design.sizes[0] // 2, design.sizes[0]]
        for way in sorted(ways_of(design)):
            exact = exact_sums(rng, design, runs, cuts)
            sums = noisy_sums(rng, exact, design.epsilon, way, np.diff([0, *cuts, sum(design.sizes)]).astype(float))
            p, each = omnibus(sums).pvalue, infer(sums, mean)
            small = (sums.estimate.n < fewest).any(axis=(-2, -1))
            silent = sums.size_is_doubtful | each.unclear_variance.any(axis=-1) | small
            worst_p = worst_pvalue(p, skewness(each, sums).max(axis=-1))
            noted = [silent | is_unreliable(p, worst_p, level) for level in LEVELS[:2]]
            hits = [int(((p <= level) & ~of).sum()) for level, of in zip(LEVELS, noted, strict=False)]
            found[way].append(judge(f"anova, {way}", Seen(design, runs, hits, noted=float(noted[0].mean()))))
    for way, every in sorted(found.items()):
        for name, of in by_range(every, "all"):
            noted = f"{np.mean([one.noted for one in of]):.0%}"
            yield way, name if name == "all" else f"ε {name}", len(of), *rates(of), worst(of), noted


POPULATIONS = ((0.5, 0.15), (0.5, 0.25), (0.5, 0.35), (0.3, 0.2))  # mean and standard deviation before clipping
TWO_SAMPLES = ((1.1, 0.5, 0.15, 0.15), (1.1, 0.5, 0.25, 0.25), (2.0, 0.5, 0.15, 0.35), (1.0, 0.35, 0.2, 0.2))
"""Ratio of the sizes, mean, and the standard deviation of each group."""


@tables.add("test", "n", "mean, sd", "ε=0.1", "ε=0.5", "ε=1.0", "min", "max")
def ttest_level(runs: int = 4000) -> Rows:
    """The t-test of normal data clipped to [0, 1], at the nominal 5%; nothing is missing."""
    rng = np.random.default_rng(2017)

    def drawn(n: int, middle: float, sd: float) -> Array:
        found, step = np.empty((runs, 3)), max(1, 4_000_000 // n)
        for start in range(0, runs, step):
            part = found[start : start + step]
            x = middle + sd * rng.standard_normal((len(part), n), dtype=np.float32)
            y = 2 * np.clip(x, 0, 1) - 1
            part[:, 0] = y.sum(axis=1, dtype=np.float64)
            part[:, 1] = np.square(y).sum(axis=1, dtype=np.float64)
        found[:, 2] = n
        return found

    def levels(*groups: Array, null: float) -> list[str]:
        exact = np.stack(groups, axis=1)
        sums = (noisy_sums(rng, exact, epsilon, "public", exact[:, :, 2]) for epsilon in (0.1, 0.5, 1.0))
        found = [float((infer(each, mean_parameter(len(groups))).pvalue(null) < 0.05).mean()) for each in sums]
        if len(groups) == 1 and not all(0.035 <= level <= 0.06 for level in found):
            problem(f"one sample: {found}")
        return [f"{level:.4f}" for level in (*found, min(found), max(found))]

    for n in (100, 400, 2000, 10_000):
        for middle, sd in POPULATIONS:
            null = clipped_mean(middle, sd)
            yield "one-sample", n, f"{middle}, {sd}", *levels(drawn(n, middle, sd), null=null)
    for n in (50, 100, 400, 2000, 10_000):
        for ratio, middle, *sds in TWO_SAMPLES:
            sizes = n, round(ratio * n)
            groups = [drawn(size, middle, sd) for size, sd in zip(sizes, sds, strict=True)]
            # Clipping moves the means of groups with different spread apart unless they are in the middle.
            yield (
                "two-sample",
                "{}, {}".format(*sizes),
                f"{middle}, {sds[0]} and {sds[1]}",
                *levels(*groups, null=0.0),
            )


def clipped_mean(middle: float, sd: float) -> float:
    """The mean of a normal variable clipped to [0, 1], in units of y = 2x - 1."""
    low, high = -middle / sd, (1 - middle) / sd
    density = np.exp(-(np.array([low, high]) ** 2) / 2) / np.sqrt(2 * np.pi)
    inside = middle * (ndtr(high) - ndtr(low)) + sd * (density[0] - density[1])
    return float(2 * (inside + ndtr(-high)) - 1)


@tables.add("intraclass correlation", "ε", "level of the rows' test", "level of the people's test")
def people_levels(runs: int = 10_000) -> Rows:
    """The t-test of a thousand people with eight normal rows: of all rows, with ``unit=``, and of their means."""
    rng, at_once, people, most = np.random.default_rng(18), 500, 1000, 8

    def rejected(y: Array, epsilon: float, max_rows: int) -> int:
        scale = max_rows * 1.5 / epsilon  # 1.5: the radius of the moments of one row, in L1
        parts = ((y.sum(axis=1), 1), ((1 - y * y).sum(axis=1), 1), ((y * y).sum(axis=1), 2))
        values = np.stack([sums + rng.laplace(0, scale, len(y)) * unit for sums, unit in parts], axis=-1)
        laws = [NoiseLaw(scale), NoiseLaw(scale), NoiseLaw(2 * scale)]
        sums = NoisyMoments(values[:, None], laws, form="private")
        return int((infer(sums, mean_parameter(1)).pvalue(0.0) <= 0.05).sum())

    for shared in (0.0, 0.1, 0.5):
        for epsilon in (1.0, 10.0):
            found = np.zeros(2)
            for _ in range(runs // at_once):
                own = rng.standard_normal((at_once, people, 1)) * math.sqrt(shared)
                x = own + rng.standard_normal((at_once, people, most)) * math.sqrt(1 - shared)
                y = np.clip(x / 5.0, -1, 1)  # bounds of five standard deviations
                rows = rejected(y.reshape(at_once, -1), epsilon, most)
                found += rows, rejected(y.mean(axis=2), epsilon, 1)
            yield f"{shared:g}", f"{epsilon:g}", *(f"{each / (runs // at_once * at_once):.3f}" for each in found)


# Ranks


@dataclass(frozen=True)
class Exact:
    """What is exact of some tables: rank sum, sizes of the complete rows, and ties, of one design."""

    rank_sum: Array
    first: Array
    second: Array
    tau: Array
    sizes: tuple[int, int]


def drawn_ranks(rng: Rng, design: Design, runs: int) -> tuple[Exact, Array, Array, Array]:
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


def noisy_ranks(rng: Rng, exact: Exact, epsilon: float, way: str, spread: Spread = "ties") -> TwoGroups:
    """Release what the rank test of two groups releases."""
    n, runs, known = sum(exact.sizes), exact.first.size, {}
    on = n * epsilon >= ENOUGH and (way == "public" or n >= 13)
    b = (1 + (TIES if on else 0.0)) / epsilon
    of_spread = MOVES[spread] * b / (TIES * (n + 1))
    if way == "add_remove":
        b = (0.5 + COUNTED) / epsilon
        scales = [b, b / COUNTED, b / COUNTED, 0.0]
        values = [exact.rank_sum / np.maximum(exact.first + exact.second, 1), exact.first, exact.second, 0.0]
    elif way == "public":
        scales = [b * max(exact.sizes), 2 * b, 2 * b, of_spread]
        values = [exact.rank_sum, exact.first, exact.second, exact.tau]
        known = {"rows": exact.sizes, "complete": True, "spread": spread if on else None}
    else:
        factor = np.array([taper(n, int(max(size, n - size)), SIZES if on else 0.0) for size in exact.first])
        scales = [b, b / SIZES, b / COMPLETE, of_spread]
        values = [factor * exact.rank_sum, exact.first, exact.first + exact.second, exact.tau]
        known = {"sized": on, "complete": on, "spread": spread if on else None}
    noisy = [value + rng.laplace(0, scale, runs) for value, scale in zip(values, scales, strict=True)]
    return TwoGroups(np.stack(noisy, axis=-1), scales, None if way == "add_remove" else n, **known)


@tables.add("test", "designs", "number", *HEADS, "worst at .05", "covers")
def levels_ranks(runs: int = 150) -> Rows:
    """Rank tests of two groups, and of the first group, moved so that its law is symmetric about 0."""
    rng, found = np.random.default_rng(17), defaultdict[str, list[Seen]](list)

    def add(test: str, p: Array, covers: float = math.nan) -> None:
        one = Seen(design, runs, hits_of(p))
        judge(test, one)
        found[test].append(replace(one, covers=covers))

    for design in designs():
        exact, signed, signs, rows = drawn_ranks(rng, design, runs)
        for way in sorted(ways_of(design)):
            two = noisy_ranks(rng, exact, design.epsilon, way)
            effect, low, high = two.effect(), *two.effect().interval(0.95)
            covers = math.nan if two.lacks_sizes else float(((low <= 0.5) & (high >= 0.5)).mean())
            for side, name in (("two-sided", ""), ("greater", ", greater")):
                p = np.where(
                    two.is_mostly_ties, 1.0, effect.pvalue(0.5, side)
                )  # nearly all values are equal: not trusted
                add(f"mannwhitneyu, {way}{name}", p, math.nan if name else covers)
        if design.data in {"normal", "uniform", "t3", "coin", "constant"}:
            n, scale = design.sizes[0], 2 / design.epsilon
            sums, scales = np.stack([signed, rows], axis=-1), np.array([n * scale, scale])
            noisy = Differences(sums + rng.laplace(size=sums.shape) * scales, scales, ranks=True, n=n, gaps=True)
            add("wilcoxon, ranks", noisy.effect().pvalue(0.5))
            halves = np.stack([signs, rows], axis=-1) / 2 + rng.laplace(0, scale / 2, (runs, 2))
            laws, known = [NoiseLaw(scale / 2)] * 2, np.array([float(n)])
            each = [sign_pvalue(NoisyCounts(half[None], laws, known, "halves")) for half in halves]
            add("wilcoxon, signs", np.array(each))
    for test, every in sorted(found.items()):
        for name, of in by_range(every, "all"):
            covers = [one.covers for one in of if not math.isnan(one.covers)]
            shown = f"{np.mean(covers):.3f}, {min(covers):.3f} in the worst" if covers else ""
            yield test, name if name == "all" else f"ε {name}", len(of), *rates(of), worst(of), shown


LAWS: dict[str, Callable[[Rng, int], Array]] = {
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


@tables.add("groups", "rows", "ε", "law", "number", *HEADS)
def levels_kruskal(runs: int = 300) -> Rows:
    """The rank test of several groups."""
    rng = np.random.default_rng(17)
    for shares, n, epsilon in SEVERAL:
        group = np.searchsorted(np.cumsum(shares) - 1e-9, (np.arange(n) + 0.5) / n)
        for law, draw in LAWS.items():
            for way in ("private", "public", "add_remove"):
                hits = hits_of(np.array([several(rng, draw(rng, n), group, epsilon, way) for _ in range(runs)]))
                if any(exceeds(hit, runs, level) for hit, level in zip(hits, LEVELS, strict=True)):
                    problem(f"kruskal: {law}, {way}, {n}")
                what = f"{len(shares)}, the largest {max(shares):.0%}", n, f"{epsilon:g}", law, way
                yield *what, *(f"{hit / runs:.3f}" for hit in hits)


def several(rng: Rng, x: Array, group: Ints, epsilon: float, way: str) -> float:
    """Release T, and give the p-value."""
    n, sizes, there = len(x), np.bincount(group), ~np.isnan(x)
    k = len(sizes)
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


def rejects(two: TwoGroups) -> float:
    """How often the test of two groups rejects at 5%."""
    return float((two.effect().pvalue(0.5) <= 0.05).mean())


# Independence

CUTS = {
    "coin": 0.0,
    "rare": 0.0,
    "counts": 0.5,
    "constant": 0.0,
    "normal": 1.0,
    "uniform": -1.0,
    "exponential": 1.5,
}
MOST = 20_000  # runs of what decides by one critical value


def categories(design: Design, rng: Rng, *, two: bool) -> Array:
    """Probabilities of the categories, two at a cut or up to four, from many rows as the design draws them."""
    values = np.concatenate([design.draw(rng) for _ in range(math.ceil(40_000 / sum(design.sizes)))])
    values = values[~np.isnan(values)]
    cuts = [CUTS.get(design.data, 2.0)] if two else [-0.5, 0.5, 2.5]
    counts = np.bincount(np.digitize(values, cuts), minlength=len(cuts) + 1)
    return counts / counts.sum()


def drawn_counts(design: Design, shares: Array, runs: int, rng: Rng) -> Ints:
    """Counts of complete rows, shape (runs, groups, categories)."""
    complete = [rng.binomial(n, 1 - gone, runs) for n, gone in zip(design.sizes, design.missing, strict=True)]
    return np.stack([rng.multinomial(each, shares) for each in complete], axis=1)


def difference(counts: Ints) -> Array:
    """The signed difference of shares of complete rows, times the smaller number of them."""
    m, k = counts.sum(axis=2).T
    c, d = counts[:, :, 1].T
    return np.where(np.minimum(m, k) > 0, c * k - d * m, 0) / np.maximum(np.maximum(m, k), 1)


def of_many(design: Design, rng: Rng, _: int) -> Seen:
    """One column of `chi2_many`, judged at the worst rows to leave out, the noise of its threshold included."""
    smaller, shares = min(design.sizes), categories(design, rng, two=True)
    noisy = np.abs(difference(drawn_counts(design, shares, MOST, rng)) / smaller)
    factors = 1 + 2 ** (2 / 3), 2 / (1 - 1 / (1 + 2 ** (2 / 3)))
    scales = [factor / (smaller * design.epsilon) for factor in factors]
    noisy = noisy + sum(rng.laplace(0, scale, MOST) for scale in scales)
    null = nulls.MissingRowsNull(smaller)
    return Seen(design, MOST, [int((noisy > null.critical_value(level, *scales)).sum()) for level in LEVELS])


def of_circle(design: Design, rng: Rng, _: int) -> Seen:
    """The unit circle; missing values count as X = 0, and may not be missing more often in one group."""
    shares, (n1, n0) = categories(design, rng, two=True), design.sizes
    null, scale = nulls.norm_null(n1, n0, TAU, None), tight_sensitivity(n1, n0, TAU) / design.epsilon
    c11, c10 = (rng.binomial(n, shares[1], MOST) for n in (n1, n0))
    noisy = unit_circle_norm(c11, c10, n1, n0, TAU) + rng.laplace(0, scale, MOST)
    return Seen(design, MOST, [int((noisy > null.critical_value(level, scale)).sum()) for level in LEVELS])


def of_signed(design: Design, rng: Rng, runs: int, *, omit: bool) -> Seen:
    """The default: a signed difference, judged by a noisy number of X = 1 where that tells something."""
    shares, shown = categories(design, rng, two=True), design if omit else replace(design, missing=(0.0, 0.0))
    p = []
    for _ in range(-(-runs // 20)):
        for counts in drawn_counts(shown, shares, 20, rng):
            halves = [(counts[:, 1] - counts[:, 0]).sum(), *(design.sizes - counts.sum(axis=1)) * omit]
            exact = float(difference(counts[None])[0])
            p.append(signed_pvalue(rng, design.sizes, exact, halves, design.epsilon, omit=omit))
    return Seen(design, len(p), hits_of(np.array(p)))


def signed_pvalue(
    rng: Rng,
    sizes: tuple[int, int],
    exact: float,
    halves: list[float],
    epsilon: float,
    *,
    omit: bool,
) -> float:
    """Release a signed difference, and the numbers of X = 1 and of missing values if they tell something."""
    measured = sum(sizes) * epsilon >= ROWS_TO_CALIBRATE
    of_margins = epsilon * float(MARGIN_SHARE) if measured else 0.0
    scale, margin_scale = 1 / (epsilon - of_margins), 1 / of_margins if measured else 0.0
    released = exact + rng.laplace(0, scale)
    noisy = np.array(halves) / 2 + rng.laplace(0, margin_scale, 3)
    margins = tuple(noisy[: 3 if omit else 1]) if measured else ()
    return SignedDifference(sizes, released, scale, margins, margin_scale, omitted=omit and not measured).pvalue


def of_table(design: Design, rng: Rng, runs: int, *, private: bool) -> Seen:
    """Noisy counts of all cells."""
    shares = categories(design, rng, two=False)
    shares = shares[shares > 0]
    n, moved, p = sum(design.sizes), 2 if design.neighbors == "replace_one" else 1, []
    if len(shares) < 2:
        shares = np.array([1.0, 0.0])
    cells = np.outer(np.array(design.sizes) / n * (1 - np.array(design.missing)), shares).ravel()
    for _ in range(-(-runs // 200)):  # their law takes longest
        if private:
            block = rng.multinomial(n, [*cells, max(0.0, 1 - cells.sum())], 10)[:, :-1].reshape(10, 2, -1)
        else:
            block = drawn_counts(design, shares, 10, rng)
        block = block + rng.laplace(0, moved / design.epsilon, block.shape)
        p += [NoisyTable(counts.T, moved / design.epsilon).pvalue for counts in block]
    return Seen(design, len(p), hits_of(np.array(p)))


INDEPENDENCE: dict[str, Callable[[Design, Rng, int], Seen]] = {
    "signed (default)": lambda *a: of_signed(*a, omit=True),
    "signed, nan_policy='fill'": lambda *a: of_signed(*a, omit=False),
    "table, private groups": lambda *a: of_table(*a, private=True),
    "table, public groups": lambda *a: of_table(*a, private=False),
    "unit circle": of_circle,
    "one of many columns": of_many,
}


@tables.add("method", "ε", "designs", "runs", *HEADS, "worst at 0.05", "too high")
def levels_chi2(runs: int = 600) -> Rows:
    """Tests of independence: runs of the default, a tenth of tables', and 20,000 where a critical value decides."""
    for method, measure in INDEPENDENCE.items():
        every = [measure(design, np.random.default_rng([2017, at]), runs) for at, design in enumerate(designs())]
        for name, of in by_range(every):
            before = problem.count
            for one in of:
                judge(method, one, RARE)
            answers = sum(one.answers for one in of)
            yield method, name, len(of), f"{answers:,}", *pooled(of), worst(of), problem.count - before


if __name__ == "__main__":
    tables.main()
