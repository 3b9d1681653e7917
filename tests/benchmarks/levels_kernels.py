"""Levels and coverage of what rests on kernels and distances: two-sample tests, embeddings, and correlations.

    python tests/benchmarks/levels_kernels.py levels_dcor --runs 1500

Tables with ``levels_`` in their name are of the designs of `designs.py`: both groups, or both columns, follow one
distribution, independently, also where values are missing. All but `kernel_sample` is asked as a user asks it, with
seeded noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
from designs import LEVELS, Design
from harness import Array, Rng, Rows, Tables, answers, grouped, problem, protected
from levels import HEADS, RARE, Seen, by_data, covered, every_design, hits_of, pooled, spreads, told, worst

import dfprivacy as dp
from dfprivacy import Column
from dfprivacy._table.batch import Batch
from dfprivacy.testing import seeded_noise
from dfprivacy_kernel import law
from dfprivacy_kernel.design import Design as Kernel
from dfprivacy_kernel.design import Groups
from dfprivacy_kernel.law import SHARE, MMDMeasurement
from dfprivacy_kernel.moments import FEW
from dfprivacy_kernel.statistics import Spread, sampled_share
from dfprivacy_kme import release

tables = Tables(__doc__)
DELTA = 1e-6
UP_TO = tuple(f"{level:.1%}" for level in LEVELS)
WITH_WORST = tuple(f"{level}{which}" for level in HEADS for which in ("", ", worst design"))
BY = Column("group", categories=("a", "b"), public=True)
EPSILONS = (0.1, 0.5, 1.0, 2.5, 10.0)


# Two-sample tests, of designs that are made up


def numbers(d: int, reach: float = 3.0, name: str = "x") -> list[Column]:
    """Columns between -reach and reach."""
    return [Column(f"{name}{i}", bounds=(-reach, reach), fill=0.0) for i in range(d)]


def null_designs() -> dict[str, tuple[list[Column], tuple[int, int], Callable[[Rng, int], Array]]]:
    """Columns, sizes, and what draws rows: unequal sizes, ties, heavy tails, rare categories, and a survey."""
    from dfprivacy.demo import load_survey

    survey = load_survey()[["age", "yrs_married", "children", "religious", "educ"]]
    answers = np.array(survey.to_numpy(), dtype=np.float64)
    ends = zip(answers.min(axis=0).tolist(), answers.max(axis=0).tolist(), strict=True)
    asked = [Column(f"c{i}", bounds=(low, high), fill=low) for i, (low, high) in enumerate(ends)]
    groups = Column("g", categories=("a", "b", "c", "d", "e"))
    whole = [Column("k", bounds=(0.0, 4.0), fill=0.0)]

    def mixed(rng: Rng, n: int) -> Array:
        return np.column_stack([rng.normal(size=n), rng.choice(5, n, p=[0.6, 0.2, 0.1, 0.07, 0.03])])

    def correlated(rng: Rng, n: int) -> Array:
        return (rng.standard_normal((n, 1)) + 0.3 * rng.standard_normal((n, 8))) / 1.1

    def spiked(rng: Rng, n: int) -> Array:
        return np.where(rng.random((n, 2)) < 0.9, 0.0, rng.exponential(1.0, (n, 2)))

    def clusters(rng: Rng, n: int) -> Array:
        return np.where(rng.random((n, 1)) < 0.1, 2.0, -1.0) + 0.05 * rng.standard_normal((n, 2))

    def of_survey(rng: Rng, n: int) -> Array:
        return answers[rng.integers(len(answers), size=n)]

    return {
        "normal, 1 column": (numbers(1), (300, 300), lambda rng, n: rng.standard_normal((n, 1))),
        "normal, 1 column, unequal": (numbers(1), (60, 900), lambda rng, n: rng.standard_normal((n, 1))),
        "uniform, 3 columns": (numbers(3), (400, 1600), lambda rng, n: rng.uniform(-3, 3, (n, 3))),
        "Cauchy, 2 columns": (numbers(2), (500, 700), lambda rng, n: rng.standard_cauchy((n, 2))),
        "lognormal, 3 columns, unequal": (numbers(3), (150, 1500), lambda rng, n: rng.lognormal(0, 1, (n, 3)) - 3),
        "90% ties, 2 columns": (numbers(2), (1000, 1000), spiked),
        "integers 0 to 4": (whole, (200, 800), lambda rng, n: rng.binomial(4, 0.2, (n, 1)).astype(float)),
        "one factor in 8 columns": (numbers(8), (600, 600), correlated),
        "two tight clusters": (numbers(2), (1000, 500), clusters),
        "number and category": ([*numbers(1), groups], (400, 1200), mixed),
        "survey, 5 columns": (asked, (500, 500), of_survey),
        "survey, 5 columns, unequal": (asked, (200, 2500), of_survey),
        "survey, number of children": (asked[2:3], (1000, 3000), lambda rng, n: of_survey(rng, n)[:, 2:3]),
    }


def quicker(points: int = 2**10) -> None:
    """Integrate p-values over fewer points than 16,384, which moves them by a few thousandths."""
    law._POINTS = points


def two_groups(columns: list[Column], sizes: tuple[int, int], drawn: list[Array]) -> Any:
    """Protect tables of two groups, whose sizes are public."""
    frames = [pd.DataFrame(rows, columns=[each.name for each in columns]) for rows in drawn]
    frames = [frame.assign(group=np.repeat(["a", "b"], sizes)) for frame in frames]
    bounds = {each.name: each.bounds for each in columns if each.bounds is not None}
    known = {each.name: each.categories for each in columns if each.bounds is None}
    for name, of in known.items():
        frames = [frame.assign(**{name: np.array(of)[frame[name].astype(int)]}) for frame in frames]
    return grouped(frames, ("group",), bounds=bounds, categories={**known, "group": ["a", "b"]}, delta=0.5)


@tables.add("design", "n, m", *(f"ε = {epsilon:g}" for epsilon in EPSILONS))
def kernel_level(runs: int = 400) -> Rows:
    """The one-release test of designs that are made up, at 5% / 1%; each data set is asked at every epsilon."""
    quicker()
    for place, (name, (columns, (n, m), draw)) in enumerate(null_designs().items()):
        rng, pvalues = np.random.default_rng([2019, place]), []
        view = two_groups(columns, (n, m), [draw(rng, n + m) for _ in range(runs)])
        parted = {"categories": [each.name for each in columns if each.bounds is None] or None}
        names = [each.name for each in columns if each.bounds is not None]
        with seeded_noise(place):
            for epsilon in EPSILONS:
                found = answers(view, "kernel_two_sample", names, "group", epsilon=epsilon, **parted)
                pvalues.append([each.pvalue for each in found])
        rates = [(np.array(pvalues) <= level).mean(axis=1) for level in (0.05, 0.01)]
        for of, level, most in zip(rates, (0.05, 0.01), (0.06, 0.013), strict=True):
            if of.max() > most + 2 * math.sqrt(level * (1 - level) / runs):
                problem(f"{name}: {of.max():.4f} at {level:.0%}")
        yield name, f"{n}, {m}", *("/".join(f"{rate:.3f}" for rate in both) for both in zip(*rates, strict=True))


def noisy(apart: float, spread: Array, n: int, rng: Rng) -> MMDMeasurement:
    """What the one-release test of two groups of n rows measures at ε = 1."""
    share, scales = float(Fraction(SHARE)), np.full(3, 2 / float(Fraction(SHARE)))
    scale, noise = math.sqrt(2) / 2 / (1 - share), rng.gamma(4) * rng.uniform(-1, 1, 3) * scales
    return MMDMeasurement(apart + rng.laplace(0, scale), scale, spread + noise, scales, (n, n))


@tables.add("design", "share drawn", "level", "power of all rows", "of the sample")
def kernel_sample(runs: int = 20, rows: int = 1 << 16) -> Rows:
    """What the one-release test loses where it tells the spread of many rows from a sample of them, at ε = 1.

    The level is the chance that the law of the moments of all rows gives to the critical value of the sample's,
    without noise; the power is of separations between .8 and 1.4 times the critical value, noise included, of both.
    """
    quicker()
    sizes, zeros = (rows, rows), np.zeros(3)
    for place, (name, (columns, _, draw)) in enumerate(null_designs().items()):
        if "unequal" in name:
            continue
        rng = np.random.default_rng([2026, place])
        embedding = Kernel.from_arguments(columns, "nystrom", None, 0.5, None, 200).embedding()
        groups = Groups(BY, ("a", "b"), sizes, (), sizes)
        share = sampled_share(groups, embedding, 1.0)
        levels, rejected = [], []
        for _ in range(runs):
            drawn = batch(draw(rng, 2 * rows), columns)
            every = [Spread(groups, embedding, of) for of in (1.0, share)]
            spreads_ = [asked.value(drawn) / asked.weights for asked in every]
            laws = [MMDMeasurement(0.0, 0.0, each, zeros, sizes).null_law(still=True) for each in spreads_]
            whole, sample = (float(each.quantile(0.95)[0]) for each in laws)
            levels.append(float(laws[0].moments.tail(np.array(sample**2 / laws[0].factor[0]))[0]))
            for apart in whole * rows / 2 * rng.uniform(0.8, 1.4, 40):
                seed, both = int(rng.integers(1 << 32)), []
                for each, of in zip(spreads_, (1.0, share), strict=True):  # the moments of a part, as noise comes
                    one = noisy(apart, each * of, rows, np.random.default_rng(seed))
                    both.append(replace(one, spread=one.spread / of, spread_scales=one.spread_scales / of))
                rejected.append([each.pvalue <= 0.05 for each in both])
        power, loss = np.mean(rejected, axis=0), np.diff(np.array(rejected, dtype=float), axis=1)
        slack = 2 * float(loss.std()) / math.sqrt(len(loss)) + 0.005
        if np.mean(levels) > 0.052 or -float(loss.mean()) > slack:
            problem(f"{name}: level {np.mean(levels):.4f}, power {-loss.mean():.4f} less")
        yield name, f"{share:.2f}", f"{np.mean(levels):.4f}", f"{power[0]:.3f}", f"{power[1]:.3f}"


def batch(rows: Array, columns: list[Column]) -> Batch:
    """Rows of two groups as features read them."""
    made = Batch(len(rows), {})
    for values, column in zip(rows.T, columns, strict=True):
        made._missing[column] = np.zeros(len(rows), dtype=np.bool_)
        if column.bounds is None:
            made._encoded[column] = values.astype(np.intp)
        else:
            made._cleaned[column] = np.clip(values, column.low, column.high)
    made._encoded[BY] = np.repeat([0, 1], len(rows) // 2)
    return made


# Two-sample tests, of all designs


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
            number, none = sum(one.answers for one in of), np.mean([one.noted for one in of])
            yield d, kind, len(of), f"{number:,}", f"{none:.0%}", *pooled(of)


for table, method, columns, runs in (
    ("moments", "moments", (1, 3), 150),
    ("mmd", "mmd", (1,), 800),
    ("mmd_several", "mmd", (3,), 800),
    ("private", "private", (1,), 300),
):
    heads = ("columns", "data", "designs", "answers", "uninformative", *UP_TO)
    tables.add(*heads, name=f"levels_kernel_{table}")(partial(levels_kernel, method, columns, runs=runs))


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
        number, none = sum(one.answers for one in rows), np.mean([one.noted for one in rows])
        shown = *pooled(rows), worst(few[0]), *pooled(releases), worst(few[1])
        yield kind, len(rows), f"{number:,}", f"{none:.0%}", *shown, *covered(few[0])


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


# Distance correlation of two parties


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
        number = sum(one.answers for one in of)
        yield kind, len(of), f"{max(number, 1):,}", *pooled(of), worst(of), *covered(of)


if __name__ == "__main__":
    tables.main()
