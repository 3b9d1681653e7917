"""How often tests reject what is true, by simulation; of kernels and distances, how often intervals hold, too.

    python tests/benchmarks/levels.py levels_ttest --runs 1000

Most are of the designs of `designs.py`: of each, tables are drawn, and asked as a user asks them, with seeded
noise; of means, many draws of the noise are added to their exact sums. A design's groups are compared under its own
neighbouring relation, and under ``replace_one`` with public groups as well as with private ones. Rejections with a
note that the level may not hold do not count. A level is too high if it is, in a design, above nominal by a fifth
and three standard errors.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
from designs import DATA, LEVELS, Design, designs, exceeds
from harness import Array, Rng, Rows, Tables, answers, parts, problem, protected
from scipy import stats
from scipy.special import bdtrc

import dfprivacy as dp
from dfprivacy.inference.engine import infer
from dfprivacy.inference.groups import mean, omnibus
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.inference.notes import is_unreliable, skewness, worst_pvalue
from dfprivacy.laws import NoiseLaw
from dfprivacy.testing import seeded_noise
from dfprivacy_kernel import law
from dfprivacy_kernel.moments import FEW
from dfprivacy_kme import release
from dfprivacy_ttest.parameters import mean_parameter

tables = Tables(__doc__)
RANGES = ((0.02, 0.2), (0.2, 1.0), (1.0, 5.0), (5.0, 50.0))
HEADS = tuple(f"{level:g}" for level in LEVELS)
UP_TO = tuple(f"{level:.1%}" for level in LEVELS)
WITH_WORST = tuple(f"{level}{which}" for level in HEADS for which in ("", ", worst design"))
DELTA = 1e-6
RARE = 1e-4  # how rare a level is by the binomial law that is too high, where runs are few and rates are many


# What the tables of designs count


@dataclass(frozen=True)
class Seen:
    """Of one design: answers, rejections at each level, and shares: covered, noted, and rejected with notes too."""

    design: Design
    answers: int
    hits: list[int]
    covers: float = math.nan
    noted: float = 0.0
    anyway: float = math.nan


def hits_of(pvalues: Any) -> list[int]:
    """How many p-values are at most each level."""
    return [int((np.asarray(pvalues) <= level).sum()) for level in LEVELS]


def says(answer: Any, words: str) -> bool:
    """Whether a note of an answer has some words."""
    return bool(words) and any(words in note for note in answer.notes)


def told(design: Design, found: list[Any], truth: float = math.nan, silent: str = "", doubt: str = "") -> Seen:
    """Count rejections, and intervals that hold the truth, of answers.

    Those do not count that say in a note that they tell nothing, and no rejection does with a note of doubt.
    """
    known = [each for each in found if not says(each, silent)]
    p = np.array([1.0 if says(each, doubt) else each.pvalue for each in known], dtype=float)
    held = [each.low <= truth <= each.high for each in known if not math.isnan(truth) and each.low is not None]
    noted = 1 - len(known) / len(found) if found else 1.0
    return Seen(design, len(p), hits_of(p), float(np.mean(held)) if held else math.nan, noted)


def judge(what: str, one: Seen, rare: float = 1.0) -> Seen:
    """Tell of levels that are too high, and of intervals that cover too little."""
    misses = [] if math.isnan(one.covers) else [(round((1 - one.covers) * one.answers), LEVELS[0])]
    for hits, level in (*zip(one.hits, LEVELS, strict=False), *misses):
        too_many = one.answers and exceeds(hits, one.answers, level)
        if too_many and bdtrc(hits - 1, one.answers, 1.2 * level) < rare:
            problem(f"{what}, {level:g}: {hits} of {one.answers} with {one.design}")
    return one


def shares(every: list[Seen]) -> Array:
    """The rates of designs that answered, one row each; zeros where none did."""
    return np.array([np.array(one.hits) / one.answers for one in every if one.answers] or [[0.0] * len(LEVELS)])


def rates(every: list[Seen]) -> list[str]:
    """The means of the designs' rates."""
    return [f"{rate:.4f}" for rate in shares(every).mean(axis=0)]


def worst(every: list[Seen]) -> str:
    """The largest rate of a design at the largest level."""
    return f"{max(rate for rate, *_ in shares(every)):.3f}"


def pooled(every: list[Seen]) -> list[str]:
    """The rates of all answers together."""
    hits, of = np.sum([one.hits for one in every], axis=0), sum(one.answers for one in every)
    return [f"{rate:.4f}" for rate in hits / max(of, 1)]


def spreads(every: list[Seen]) -> list[str]:
    """The mean rate and that of the worst design, at each level."""
    return [cell for of in shares(every).T for cell in (f"{np.mean(of):.4f}", f"{max(of):.4f}")]


def covered(every: list[Seen], blank: str = "–") -> list[str]:
    """The mean coverage of designs, and the least."""
    covers = [one.covers for one in every if not math.isnan(one.covers)]
    return [f"{np.mean(covers):.3f}", f"{min(covers):.3f}"] if covers else [blank, blank]


def number(every: list[Seen]) -> str:
    """How many answers there are."""
    return f"{sum(one.answers for one in every):,}"


def noted(every: list[Seen]) -> str:
    """The mean share of answers with a note that counts."""
    return f"{np.mean([one.noted for one in every]):.0%}"


def ways_of(design: Design) -> tuple[str, ...]:
    """How the groups of a design are compared."""
    return ("add_remove",) if design.neighbors == "add_remove" else ("public", "private")


def by_range(every: list[Seen]) -> Iterator[tuple[str, list[Seen]]]:
    """Those of some epsilons."""
    for low, high in RANGES:
        if of := [one for one in every if low <= one.design.epsilon <= high]:
            yield f"{low:g} to {high:g}", of


def by_range_and_all(every: list[Seen]) -> Iterator[tuple[str, list[Seen]]]:
    """The same, and all."""
    yield from ((f"ε {name}", of) for name, of in by_range(every))
    yield "all", every


def by_data(every: list[Seen]) -> Iterator[tuple[str, list[Seen]]]:
    """Those of each kind of data."""
    for kind in DATA:
        if of := [one for one in every if one.design.data == kind]:
            yield kind, of


def every_design(
    seed: int, asked: Any, label: str, rare: float = 1.0, *, covers: bool = False
) -> dict[str, list[Seen]]:
    """What is asked of each design, by name, measured or taken from the file of parts; levels are judged."""
    found = defaultdict[str, list[Seen]](list)
    for place, design in enumerate(designs()):

        def measure(design: Design = design, place: int = place) -> list[list[Any]]:
            with seeded_noise(place):
                seen = asked(design, np.random.default_rng([seed, place]))
            return [[name, *(getattr(one, field) for field in FIELDS)] for name, one in seen.items()]

        for name, *values in parts(f"{label} {place}", measure):
            one = Seen(design, *values)
            judge(name, one if covers else replace(one, covers=math.nan), rare)
            found[name].append(one)
    return dict(sorted(found.items()))


FIELDS = ("answers", "hits", "covers", "noted", "anyway")


# Means: of exact sums, which many draws of the noise are added to; NumPy's continuous noise does not change a level


def exact_sums(rng: Rng, design: Design, runs: int, cuts: Any = None) -> Array:
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
    return NoisyMoments(values, [NoiseLaw(each) for each in scales], known, "beside" if public else "private")


def true_mean(design: Design) -> float:
    """Mean of a clipped value, in units of y."""
    return (design.mean(1_000_000) - (design.high + design.low) / 2) / ((design.high - design.low) / 2)


def counted(design: Design, p: Array, worst_p: Array, silent: Any) -> Seen:
    """Count rejections, but for those with a note that the level may not hold."""
    noted = [silent | is_unreliable(p, worst_p, level) for level in LEVELS]
    hits = [int(((p <= level) & ~of).sum()) for level, of in zip(LEVELS, noted, strict=True)]
    return Seen(design, len(p), hits, noted=float(noted[0].mean()), anyway=float((p <= LEVELS[0]).mean()))


def tested(sums: NoisyMoments, null: float, design: Design, side: str) -> Seen:
    """Test means."""
    known = infer(sums, mean_parameter(sums.values.shape[1]))
    p = known.pvalue(null, side)
    return counted(design, p, worst_pvalue(p, skewness(known, sums), side), sums.size_is_doubtful)


SIDES = ("two-sided", "less", "greater")


@tables.add(
    *("test", "designs", "number"),
    *(f"{sides} {level}" for sides in ("two-sided", "one-sided") for level in HEADS),
    *("worst at .05", "with notes too", "noted"),
)
def levels_ttest(runs: int = 1000) -> Rows:
    """The t-test of one sample, against the true mean, and of two."""
    rng, found = np.random.default_rng(15), defaultdict[str, list[list[Seen]]](list)
    for design in designs():
        sums, ways = exact_sums(rng, design, runs), ways_of(design)
        asked = {"one sample": (sums[:, :1], ways[0], true_mean(design))}
        asked |= {f"two samples, {way}": (sums, way, 0.0) for way in ways}
        for test, (exact, way, null) in asked.items():
            noisy = noisy_sums(rng, exact, design.epsilon, way, design.sizes[: exact.shape[1]])
            found[test].append([judge(f"{test}, {side}", tested(noisy, null, design, side)) for side in SIDES])
    for test, every in sorted(found.items()):
        two, less, greater = (list(side) for side in zip(*every, strict=True))
        for name, both in (*((f"{kind} data", of) for kind, of in by_data(two)), *by_range_and_all(two)):
            single = [each for each in less + greater if each.design in {one.design for one in both}]
            shown = *rates(both), *rates(single), worst(both + single)
            yield test, name, len(both), *shown, f"{np.mean([each.anyway for each in both]):.3f}", noted(both)


@tables.add("groups", "designs", "number", *HEADS[:2], "worst at .05", "noted")
def levels_anova(runs: int = 200) -> Rows:
    """The analysis of variance of three groups, the first of the design's two cut in half."""
    rng, found, fewest = np.random.default_rng(18), defaultdict[str, list[Seen]](list), 10
    for design in (each for each in designs() if each.sizes[0] >= 4):
        cuts = [design.sizes[0] // 2, design.sizes[0]]
        for way in sorted(ways_of(design)):
            sizes = np.diff([0, *cuts, sum(design.sizes)]).astype(float)
            sums = noisy_sums(rng, exact_sums(rng, design, runs, cuts), design.epsilon, way, sizes)
            p, each = omnibus(sums).pvalue, infer(sums, mean)
            small = (sums.estimate.n < fewest).any(axis=(-2, -1))
            silent = sums.size_is_doubtful | each.unclear_variance.any(axis=-1) | small
            worst_p = worst_pvalue(p, skewness(each, sums).max(axis=-1))
            found[way].append(judge(f"anova, {way}", counted(design, p, worst_p, silent)))
    for way, every in sorted(found.items()):
        for name, of in by_range_and_all(every):
            yield way, name, len(of), *rates(of)[:2], worst(of), noted(of)


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
            y = 2 * np.clip(middle + sd * rng.standard_normal((len(part), n), dtype=np.float32), 0, 1) - 1
            part[:, 0], part[:, 1] = (of.sum(axis=1, dtype=np.float64) for of in (y, np.square(y)))
        found[:, 2] = n
        return found

    def levels(*groups: Array, null: float) -> list[str]:
        exact = np.stack(groups, axis=1)
        sums = (noisy_sums(rng, exact, epsilon, "public", exact[:, :, 2]) for epsilon in (0.1, 0.5, 1.0))
        found = [float((infer(each, mean_parameter(len(groups))).pvalue(null) < 0.05).mean()) for each in sums]
        if len(groups) == 1 and not all(0.035 <= level <= 0.06 for level in found):
            problem(f"one sample: {found}")
        return [f"{level:.4f}" for level in (*found, min(found), max(found))]

    for n, (middle, sd) in itertools.product((100, 400, 2000, 10_000), POPULATIONS):
        null = stats.norm(middle, sd).expect(lambda x: 2 * np.clip(x, 0, 1) - 1)  # in units of y
        yield "one-sample", n, f"{middle}, {sd}", *levels(drawn(n, middle, sd), null=null)
    for n, (ratio, middle, *sds) in itertools.product((50, 100, 400, 2000, 10_000), TWO_SAMPLES):
        sizes = n, round(ratio * n)
        groups = [drawn(size, middle, sd) for size, sd in zip(sizes, sds, strict=True)]
        # Clipping moves the means of groups with different spread apart unless they are in the middle.
        what = "two-sample", "{}, {}".format(*sizes), f"{middle}, {sds[0]} and {sds[1]}"
        yield *what, *levels(*groups, null=0.0)


# Ranks


@tables.add("test", "designs", "number", *HEADS, "worst at .05", "covers")
def levels_ranks(runs: int = 150) -> Rows:
    """Rank tests of two groups, and of the first group where its law is symmetric about a number."""

    def asked(design: Design, rng: Rng) -> dict[str, Seen]:
        found, said = {}, {"epsilon": design.epsilon}
        for way, view in design.views(rng, runs, itemgetter(["x", "g"])).items():
            for side, name, truth in (("two-sided", "", 0.5), ("greater", ", greater", math.nan)):
                given = answers(view, "mannwhitneyu", "x", "g", alternative=side, **said)
                found[f"mannwhitneyu, {way}{name}"] = told(design, given, truth, doubt="Most values are equal")
        if design.data in {"normal", "uniform", "t3", "coin", "constant"}:
            few = replace(design.halves()[0], neighbors="replace_one")
            view = few.views(rng, runs, itemgetter(["x"]))["private"]
            middle = float(np.clip(0.0, design.low, design.high))
            for kind in ("rank", "sign"):
                given = answers(view, "wilcoxon", "x", popmean=middle, method=kind, **said)
                found[f"wilcoxon, {kind}s"] = told(design, given)
        return found

    for test, every in every_design(17, asked, f"levels_ranks {runs}").items():
        for name, of in by_range_and_all(every):
            shown = ", ".join(covered(of, "")) + " in the worst"
            yield test, name, len(of), *rates(of), worst(of), "" if shown.startswith(",") else shown


# Independence

CUTS = {"coin": 0.0, "rare": 0.0, "counts": 0.5, "constant": 0.0}
CUTS |= {"normal": 1.0, "uniform": -1.0, "exponential": 1.5}  # of others 2


def coded(design: Design) -> Any:
    """What makes categories of x: two at a cut, and up to four."""
    cuts = {"two": [CUTS.get(design.data, 2.0)], "four": [-0.5, 0.5, 2.5]}

    def codes(frame: pd.DataFrame) -> pd.DataFrame:
        x = frame["x"]
        return frame[["g"]].assign(
            **{name: np.where(x.isna(), np.nan, np.digitize(x, of)) for name, of in cuts.items()}
        )

    return codes


@tables.add("method", "ε", "designs", "runs", *HEADS, "worst at 0.05", "too high")
def levels_chi2(runs: int = 600) -> Rows:
    """Tests of independence, of public groups but where it is said; a tenth of the runs of tables."""

    def asked(design: Design, rng: Rng) -> dict[str, Seen]:
        public, make = replace(design, neighbors="replace_one"), coded(design)
        view = public.views(rng, runs, make)["public"]
        full = replace(public, missing=(0.0, 0.0)).views(rng, runs, make)["public"]
        private, own = (each.views(rng, max(1, runs // 10), make) for each in (design, public))

        def ask(view: Any, method: str = "chi2", x: str = "two", **more: Any) -> list[Any]:
            return answers(view, method, x, "g", epsilon=design.epsilon, **more)

        every = {
            "signed (default)": ask(view),
            "signed, nan_policy='fill'": ask(full, nan_policy="fill"),
            "table, private groups": ask(private[design.way], x="four"),
            "table, public groups": ask(own["public"], x="four"),
            "unit circle": ask(full, "chi2_unitcircle", nan_policy="fill"),
        }
        many = [answers(view, "chi2_many", ["two"], "g", alpha=level, epsilon=design.epsilon) for level in LEVELS]
        hits = [sum(bool(each.discoveries) for each in of) for of in many]
        found = {name: told(design, each) for name, each in every.items()}
        return {**found, "one of many columns": Seen(design, len(many[0]), hits)}

    for method, every in every_design(2017, asked, f"levels_chi2 {runs}", rare=0.0).items():
        for name, of in by_range(every):
            before = problem.count
            for one in of:
                judge(method, one, RARE)
            yield method, name, len(of), number(of), *pooled(of), worst(of), problem.count - before


# Two-sample tests, embeddings and distance correlations


def quicker(points: int = 2**10) -> None:
    """Integrate p-values over fewer points than 16,384, which moves them by a few thousandths."""
    law._POINTS = points


def levels_kernel(method: str, columns: tuple[int, ...], runs: int) -> Rows:
    """Two-sample tests of one column and of three of one kind, of which a fourth of the runs; those not refused."""
    quicker()

    def asked(design: Design, rng: Rng, d: int, times: int) -> dict[str, Seen]:
        if min(design.sizes) < 2 or (design.neighbors == "add_remove" and method != "private"):
            return {}
        view = design.views(rng, times, itemgetter(["x", "z", "y", "g"]))
        view = view[design.way if method == "private" else "public"]
        said = {"method": "mmd" if method == "private" else method, "epsilon": design.epsilon}
        said |= {"delta": DELTA} if method == "moments" else {}
        return {
            method: told(design, answers(view, "kernel_two_sample", ["x", "z", "y"][:d], "g", **said), silent=FEW)
        }

    for d in columns:
        times = runs if d == 1 else max(1, runs // 4)
        every = every_design(15, partial(asked, d=d, times=times), f"levels_kernel {method} {d} {times}", RARE)
        for kind, of in by_data(every[method]):
            yield d, kind, len(of), number(of), noted(of), *pooled(of)


for method, columns, runs in (("moments", (1, 3), 150), ("mmd", (1,), 800), ("private", (1,), 300)):
    heads = ("columns", "data", "designs", "answers", "uninformative", *UP_TO)
    tables.add(*heads, name=f"levels_kernel_{method}")(partial(levels_kernel, method, columns, runs=runs))


# Kernel mean embeddings


@tables.add(
    *("data", "designs", "answers", "uninformative"),
    *(*(f"public rows, {level}" for level in HEADS), "worst at .05"),
    *(*(f"two releases, {level}" for level in HEADS), "worst at .05"),
    *("covered", "least"),
)
def levels_kme(runs: int = 200) -> Rows:
    """`two_sample` with public rows, and with a release; and intervals of the mean and of the mean square."""
    release._DRAWS = 999  # in place of 4,999: p-values are as valid, and a little coarser

    def asked(design: Design, rng: Rng) -> dict[str, Seen]:
        if design.neighbors == "add_remove":
            return {}
        frames = [[each.frame(rng)[["x"]] for _ in range(runs)] for each in design.halves()]
        said = {"epsilon": design.epsilon, "delta": DELTA}
        made = [answers(design.view(of, "private"), "kme_release", ["x"], **said) for of in frames]
        pvalues, held, slack = [], [], 1e-6 * (design.high - design.low) ** 2  # values are seen on a grid
        for first, second, one, other in zip(*frames, *made, strict=True):
            x, y = first["x"].dropna().to_numpy(), second["x"].dropna().to_numpy()
            if not len(y) or min(each.size / each.missing_standard_error for each in (one, other)) < 5:
                continue
            pvalues.append([one.two_sample({"x": y}).pvalue, one.two_sample(other).pvalue])
            for f in (lambda t: t, lambda t: t**2):
                interval, exact = one.expectation(lambda rows, f=f: f(rows["x"])), float(np.mean(f(x)))
                held.append(interval.low - slack <= exact <= interval.high + slack)
        both, none = np.reshape(pvalues, (-1, 2)), 1 - len(pvalues) / runs
        covers = float(np.mean(held)) if held else math.nan
        of = zip(("public rows", "two releases"), both.T, strict=True)
        return {name: Seen(design, len(p), hits_of(p), covers, none) for name, p in of}

    every = every_design(15, asked, f"levels_kme {runs}", covers=True)
    for (kind, rows), (_, releases) in zip(*map(by_data, every.values()), strict=True):
        few = [[one for one in of if one.answers >= max(runs // 4, 1)] for of in (rows, releases)]
        shown = *pooled(rows), worst(few[0]), *pooled(releases), worst(few[1])
        yield kind, len(rows), number(rows), noted(rows), *shown, *covered(few[0])


# Distance correlations


def of_distances(design: Design, rng: Rng, runs: int, name: str, what: str, **more: Any) -> Seen:
    """Ask about the independence of two columns, and whether intervals hold what is asked again nearly exactly."""
    design = replace(design, neighbors="replace_one")
    view = design.views(rng, runs, itemgetter(["x", "z"]))["private"]
    found, exact = (answers(view, name, "x", "z", **more, epsilon=epsilon) for epsilon in (design.epsilon, 10**5))
    seen, truths = told(design, found), [getattr(each, what) for each in exact]
    held = [one.low - 1e-6 <= truth <= one.high + 1e-6 for one, truth in zip(found, truths, strict=True)]
    noted = float(np.mean([any("uninformative" in note for note in each.notes) for each in found]))
    return replace(seen, covers=float(np.mean(held)), noted=noted)


@tables.add("data", "designs", *WITH_WORST, "least coverage", "uninformative")
def levels_dcor(runs: int = 1500) -> Rows:
    """`dcor` with its default arguments, and coverage of R."""

    def asked(design: Design, rng: Rng) -> dict[str, Seen]:
        return {"dcor": of_distances(design, rng, runs, "dcor", "correlation")}

    for kind, of in by_data(every_design(2007, asked, f"levels_dcor {runs}")["dcor"]):
        yield kind, len(of), *spreads(of), covered(of)[1], f"{np.mean([one.noted for one in of]):.3f}"


@tables.add("kernel", "data", "designs", *WITH_WORST, "least coverage")
def levels_hsic(runs: int = 300, rows: int = 2000) -> Rows:
    """`hsic` with its default arguments; larger designs are made smaller."""

    def asked(design: Design, rng: Rng) -> dict[str, Seen]:
        share = min(1.0, rows / sum(design.sizes))
        smaller = replace(design, sizes=tuple(max(2, round(share * size)) for size in design.sizes))
        found = {}
        for kernel, width in (("gaussian", None), ("gaussian", 0.25), ("laplace", None)):
            name, said = f"{kernel}, lengthscale {width:g}" if width else kernel, {"kernel": kernel}
            said |= {"lengthscale": width} if width else {}
            found[name] = of_distances(smaller, rng, runs, "hsic", "hsic", **said)
        return found

    for name, every in every_design(2005, asked, f"levels_hsic {runs} {rows}").items():
        for kind, of in sorted(by_data(every)):
            yield name, kind, len(of), *spreads(of), covered(of)[1]


@tables.add("data", "designs", "answers", *HEADS, "worst at .05", "covered", "least")
def levels_dcor_with(runs: int = 50) -> Rows:
    """What one party learns from another's message: for itself, and as an interval that it may show."""

    def one_run(design: Design, rng: Rng) -> tuple[float | None, float]:
        terms = {"bounds": dict.fromkeys("xz", (design.low, design.high))}
        first, second = (protected(design.frame(rng)[["x", "z"]], **terms) for _ in "12")
        try:
            message, sure = (first.dcor_message("x", epsilon=epsilon) for epsilon in (design.epsilon, 10**5))
            own = second.dcor_with_own(message, "z")
            shown = second.dcor_with(message, "z", epsilon=design.epsilon)
            of = ("deviation", "deviation_scale", "complete", "complete_scale")
            message = replace(message, **{each: getattr(sure, each) for each in of})  # without noise in its numbers
            truth = second.dcor_with(message, "z", epsilon=10**5)
        except dp.ArgumentError:  # too few rows
            return None, math.nan
        return own.pvalue, float(shown.low - 1e-6 <= truth.squared <= shown.high)

    def asked(design: Design, rng: Rng) -> dict[str, Seen]:
        pvalues, held = zip(*(one_run(design, rng) for _ in range(runs)), strict=True)
        told, known = [p for p in pvalues if p is not None], [each for each in held if not math.isnan(each)]
        return {"dcor_with": Seen(design, len(told), hits_of(told), float(np.mean(known)) if known else math.nan)}

    every = every_design(2007, asked, f"levels_dcor_with {runs}", covers=True)
    for kind, of in by_data(every["dcor_with"]):
        yield kind, len(of), number(of), *pooled(of), worst(of), *covered(of)


if __name__ == "__main__":
    tables.main()
