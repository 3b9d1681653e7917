"""Levels and coverage of what rests on kernels and distances: two-sample tests, embeddings, and correlations.

    python tests/benchmarks/levels_kernels.py levels_dcor --runs 1500

Tables with ``levels_`` in their name are of the designs of `designs.py`: both groups, or both columns, follow one
distribution, independently, also where values are missing. Exact sums are computed in float64, the noise is NumPy's
in place of the library's discrete one, and what concludes is what the methods conclude with.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from designs import DATA, LEVELS, Design, designs
from harness import Array, Ints, Rng, Rows, Tables, problem
from levels import HEADS, RARE, Seen, by_data, hits_of, judge, part, pooled, spreads, worst
from scipy.linalg import eigh

from dfprivacy import Column
from dfprivacy._privacy.calibrate import gaussian_scale
from dfprivacy._table.batch import Batch, number
from dfprivacy.features import Nystrom, ProductKernel, spread
from dfprivacy.local import Arc
from dfprivacy.release import NoisyValue
from dfprivacy_dcor.angles import PLACES, DistanceMessage, best_half_width
from dfprivacy_dcor.inference import NoisyStatistics, null_tail
from dfprivacy_dcor.mechanisms import hsic_interval
from dfprivacy_dcor.parties import (
    _HARMONICS_FROM,
    MessageResult,
    MessageScores,
    _angle_maps,
    _random_blocks,
    dcor_with,
)
from dfprivacy_dcor.spaces import ROWS_MIN, kernel_space, metric_space
from dfprivacy_dcor.statistics import Deviation, FiveNumbers, largest_values
from dfprivacy_kernel import law
from dfprivacy_kernel.design import Design as Kernel
from dfprivacy_kernel.design import Groups
from dfprivacy_kernel.law import SHARE, MMDMeasurement, share_interval
from dfprivacy_kernel.moments import COUNT_NOISE, Contrast, Differences, contrast_test
from dfprivacy_kernel.statistics import Spread, sampled_share
from dfprivacy_kme import KME, release
from dfprivacy_kme.embedding import Space
from dfprivacy_kme.mechanisms import MeasuredEmbedding, fit_release

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfprivacy_kernel.embedding import Embedding


tables = Tables(__doc__)
DELTA = Fraction(1, 10**6)
UP_TO = tuple(f"{level:.1%}" for level in LEVELS)
WITH_WORST = tuple(f"{level}{which}" for level in HEADS for which in ("", ", worst design"))
BY = Column("group", categories=("a", "b"), public=True)
EPSILONS = (0.1, 0.5, 1.0, 2.5, 10.0)


def unit_scale(epsilon: float, delta: Fraction = DELTA) -> float:
    """Standard deviation of the Gaussian mechanism at a sensitivity of 1, on a very fine grid."""
    return gaussian_scale(2**60, 1, Fraction(epsilon), delta) / 2**30


def symmetric(rng: Rng, scale: Any, J: int) -> Array:
    """Noise of a symmetric matrix of which the upper triangle is released."""
    upper = np.triu(scale * rng.standard_normal((J, J)))
    return upper + np.triu(upper, 1).T


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


def features(embedding: Embedding, columns: list[Column], rows: Array) -> Array:
    """Embedded rows, shape (rows, F)."""
    clipped = rows.copy()
    for i, column in enumerate(columns):
        if column.bounds is not None:
            clipped[:, i] = np.clip(rows[:, i], column.low, column.high)
    of: list[Any] = list(embedding.parts)
    return np.hstack([each.features(clipped) for each in of]) @ embedding.map.T


def separation(phi: Array, n: int, m: int) -> tuple[float, Array]:
    """Separation and spread of embedded rows, n of one sample and m of the other."""
    C = np.cov(phi.T, bias=True).reshape(phi.shape[1], -1)
    top = eigh(C, eigvals_only=True, subset_by_index=[len(C) - 1, len(C) - 1])[0]
    apart = n * m / (n + m) * float(np.linalg.norm(phi[:n].mean(axis=0) - phi[n:].mean(axis=0)))
    return apart, (n + m) * np.array([np.trace(C), np.linalg.norm(C), top])


def measured(found: tuple[float, Array], n: int, m: int, epsilon: float, rng: Rng) -> MMDMeasurement:
    """What the one-release test measures."""
    (apart, spread_), total, share = found, n + m, float(Fraction(SHARE))
    scales = np.full(3, 2 / (share * epsilon))
    scale = math.sqrt(2) * max(n, m) / total / ((1 - share) * epsilon)
    noise = rng.gamma(4) * rng.uniform(-1, 1, 3) * scales
    return MMDMeasurement(apart + rng.laplace(0, scale), scale, spread_ + noise, scales, (n, m))


def quicker(points: int = 2**10) -> None:
    """Integrate p-values over fewer points than 16,384, which moves them by a few thousandths."""
    law._POINTS = points


@tables.add("design", "n, m", *(f"ε = {epsilon:g}" for epsilon in EPSILONS))
def kernel_level(runs: int = 400) -> Rows:
    """The one-release test of designs that are made up, at 5% / 1%; each data set is asked at every epsilon."""
    quicker()
    for place, (name, (columns, (n, m), draw)) in enumerate(null_designs().items()):
        rng, pvalues = np.random.default_rng([2019, place]), np.empty((runs, len(EPSILONS)))
        embedding = Kernel.from_arguments(columns, "nystrom", None, 0.5, None, 200).embedding()
        for told in pvalues:
            found = separation(features(embedding, columns, draw(rng, n + m)), n, m)
            told[:] = [measured(found, n, m, epsilon, rng).pvalue for epsilon in EPSILONS]
        rates = [(pvalues <= level).mean(axis=0) for level in (0.05, 0.01)]
        for of, level, most in zip(rates, (0.05, 0.01), (0.06, 0.013), strict=True):
            if of.max() > most + 2 * math.sqrt(level * (1 - level) / runs):
                problem(f"{name}: {of.max():.4f} at {level:.0%}")
        yield name, f"{n}, {m}", *("/".join(f"{rate:.3f}" for rate in both) for both in zip(*rates, strict=True))


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
                for each, of in zip(
                    spreads_, (1.0, share), strict=True
                ):  # the moments of a part, as noise comes to them
                    one = measured((apart, each * of), *sizes, 1.0, np.random.default_rng(seed))
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


class Asked:
    """One design with so many columns, asked by one method."""

    def __init__(self, design: Design, d: int, method: str, rng: Rng) -> None:
        self.design, self.rng, self.moments, self.d = design, rng, method == "moments", d
        columns = [Column(f"x{i}", bounds=(design.low, design.high), fill=design.low) for i in range(d)]
        kind, points = ("me", 5) if self.moments else ("nystrom", 200)
        self.embedding = Kernel.from_arguments(columns, kind, None, 0.5, None, points).embedding(
            mapped=not self.moments
        )
        self.public = method != "private"
        by = Column("g", categories=("a", "b"), public=self.public)
        rows = design.sizes if self.public and design.neighbors == "replace_one" else None
        self.groups = Groups(by, ("a", "b"), None, tuple(columns), rows)
        if self.moments:
            sums = Differences(replace(self.groups, rows=design.sizes), self.embedding, "me")
            self.sigma = unit_scale(design.epsilon)
            self.scales, self.reach = sums.noise.scaled_by(self.sigma), sums.reach
        else:
            statistic, share = Spread(self.groups, self.embedding), float(Fraction(SHARE))
            moved = np.full(5, statistic.sensitivity("replace_one", math.inf, frozenset()))
            self.spread_scales = moved / statistic.weights / (share * design.epsilon)
            self.farthest = self.embedding.diameter(frozenset()) / ((1 - share) * design.epsilon)

    def pvalue(self) -> float | None:
        """Simulate one answer; None where it says that it tells nothing."""
        values = np.column_stack([self.design.draw(self.rng) for _ in range(self.d)])
        complete, first = ~np.isnan(values).any(axis=1), self.design.groups == 0
        of: Any = self.embedding.parts[0]
        phi = (of.features(values[complete]) - self.embedding.centre) @ self.embedding.map.T
        x, y = phi[first[complete]], phi[~first[complete]]
        told = contrast_test(self._contrast(x, y)) if self.moments else self._measured(x, y)
        return told.pvalue if told.informative else None

    def _measured(self, x: Array, y: Array) -> MMDMeasurement:
        rng, n, m = self.rng, len(x), len(y)
        phi = np.vstack([x, y])
        total, mean = max(n + m, 1), phi.sum(axis=0)
        scatter = phi.T @ phi - np.outer(mean, mean) / total
        top = eigh(scatter, eigvals_only=True, subset_by_index=[len(scatter) - 1] * 2)[0]
        exact = np.array([n, m, np.trace(scatter), np.linalg.norm(scatter), top])
        noisy = exact + rng.gamma(6) * rng.uniform(-1, 1, 5) * self.spread_scales
        low, high = share_interval(noisy, self.spread_scales, self.groups) if self.public else (0.0, 1.0)
        share = float(np.clip(n / total, low, high))
        scale = self.farthest * (max(high, 1 - low) if self.public else 1.0)
        G = float(np.linalg.norm((1 - share) * x.sum(axis=0) - share * y.sum(axis=0)))
        return MMDMeasurement(G + rng.laplace(0, scale), scale, noisy, self.spread_scales, None, self.groups.rows)

    def _contrast(self, x: Array, y: Array) -> Contrast:
        rng, (n, m), noise, J = self.rng, self.design.sizes, self.scales, x.shape[1]
        error, count_noise = symmetric(rng, noise.diagonal, J), self.sigma * COUNT_NOISE
        sizes = tuple(max(1.0, len(of) + count_noise * rng.standard_normal()) for of in (x, y))
        apart = x.sum(axis=0) / n - y.sum(axis=0) / m + noise.difference * rng.standard_normal(J)
        middle = (x.sum(axis=0) + y.sum(axis=0)) / (n + m) + noise.pooled * rng.standard_normal(J)
        second = (x.T @ x + y.T @ y) / (n + m) + error
        return Contrast(apart, middle, second, noise, (n, m), sizes, count_noise, self.reach)


def levels_kernel(method: str, columns: tuple[int, ...], runs: int) -> Rows:
    """Two-sample tests of one column and of three of one kind, of which a fourth of the runs; those not refused."""
    quicker()

    def measure(place: int, design: Design, d: int, times: int) -> tuple[int, list[int], float, float]:
        question = Asked(design, d, method, np.random.default_rng([15, place]))
        told = [p for p in (question.pvalue() for _ in range(times)) if p is not None]
        return len(told), hits_of(np.array(told)), math.nan, 1 - len(told) / times

    for d in columns:
        every, times = [], runs if d == 1 else max(1, runs // 4)
        for place, design in enumerate(designs()):
            if min(design.sizes) > 1 and (design.neighbors == "replace_one" or method == "private"):
                key = f"levels_kernel {method} {d} {place} {times}"
                every.append(judge(method, part(key, design, partial(measure, place, design, d, times)), RARE))
        for kind, of in by_data(every).items():
            answers, none = sum(one.answers for one in of), np.mean([one.noted for one in of])
            yield d, kind, len(of), f"{answers:,}", f"{none:.0%}", *pooled(of)


for table, method, columns, runs in (
    ("moments", "moments", (1, 3), 150),
    ("mmd", "mmd", (1,), 800),
    ("mmd_several", "mmd", (3,), 800),
    ("private", "private", (1,), 300),
):
    heads = ("columns", "data", "designs", "answers", "uninformative", *UP_TO)
    tables.add(*heads, name=f"levels_kernel_{table}")(partial(levels_kernel, method, columns, runs=runs))


# Kernel mean embeddings


class Released:
    """What makes releases of one design."""

    def __init__(self, design: Design, rng: Rng) -> None:
        self.rng, self.design = rng, design
        column = Column("x", bounds=(design.low, design.high), fill=design.low)
        self.kernel = ProductKernel([column], {"x": 2 * column.half * math.sqrt(1 / 8)})
        self.basis = Nystrom(self.kernel, spread([column], 256), 1e-10)
        moved = max(self.basis.diameter(2, frozenset()), math.hypot(self.basis.radius(2), 1.0))
        self.sigma = moved * unit_scale(design.epsilon)

    def __call__(self, complete: Array, rows: int) -> KME:
        """Release complete rows, of so many."""
        drawn = self.sigma * self.rng.standard_normal(self.basis.dimension + 1)
        size = max(1.0, len(complete) + drawn[0])
        beta = (self.basis.features(complete[:, None]).sum(axis=0) + drawn[1:]) / size
        of = Space.from_kernel(self.basis, self.kernel)
        noise = {"laplace": False, "size": size, "count_noise": self.sigma}
        return fit_release(MeasuredEmbedding(beta, self.sigma / size, **noise, rows=rows, space=of), "hull")

    def answers(self) -> tuple[list[float], list[bool]] | None:
        """Compare with public rows and a release, and estimate; None if a release says that it tells nothing."""
        values = self.design.draw(self.rng)
        first, second = (values[self.design.groups == group] for group in (0, 1))
        x, y = first[~np.isnan(first)], second[~np.isnan(second)]
        one, other = self(x, len(first)), self(y, len(second))
        if not len(y) or min(one.size, other.size) < 5 * self.sigma:
            return None
        held, slack = [], 1e-6 * (self.design.high - self.design.low) ** 2  # values are seen on a grid
        for f in (lambda t: t, lambda t: t**2):
            interval, exact = one.expectation(lambda rows, f=f: f(rows["x"])), float(np.mean(f(x)))
            held.append(interval.low - slack <= exact <= interval.high + slack)
        return [one.two_sample({"x": y}).pvalue, one.two_sample(other).pvalue], held


@tables.add(
    *("data", "designs", "answers", "uninformative"),
    *(*(f"public rows, {level}" for level in HEADS), "worst at .05"),
    *(*(f"two releases, {level}" for level in HEADS), "worst at .05"),
    *("covered", "least"),
)
def levels_kme(runs: int = 200) -> Rows:
    """`two_sample` with public rows, and with a release; and intervals of the mean and of the mean square."""
    release._DRAWS = 999  # in place of 4,999: p-values are as valid, and a little coarser

    def measure(place: int, design: Design) -> tuple[int, list[int], float, float]:
        made = Released(design, np.random.default_rng([15, place]))
        told = [each for each in (made.answers() for _ in range(runs)) if each is not None]
        both = np.reshape([pvalues for pvalues, _ in told], (-1, 2))
        covers = float(np.mean([held for _, held in told])) if told else 1.0
        return len(told), hits_of(both[:, 0]) + hits_of(both[:, 1]), covers, 1 - len(told) / runs

    every = []
    for place, design in enumerate(designs()):
        if design.neighbors == "replace_one":
            one = part(f"levels_kme {place} {runs}", design, partial(measure, place, design))
            every.append(judge("public rows", one))
            judge("two releases", replace(one, hits=one.hits[3:], covers=math.nan))
    for kind, of in by_data(every).items():
        told = [one for one in of if one.answers >= max(runs // 4, 1)]
        releases = [replace(one, hits=one.hits[3:]) for one in told]
        rates, covers = pooled(of), [one.covers for one in told]
        shown = *rates[:3], worst(told), *rates[3:], worst(releases)
        ends = (f"{np.mean(covers):.3f}", f"{min(covers):.3f}") if covers else ("–", "–")
        answers, none = sum(one.answers for one in of), np.mean([one.noted for one in of])
        yield kind, len(of), f"{answers:,}", f"{none:.0%}", *shown, *ends


# Distance correlations


def grid(design: Design, count: int = 128) -> Array:
    """At most so many values that stand for those of a design."""
    values = np.clip(DATA[design.data](np.random.default_rng(1), 200_000), design.low, design.high)
    values = np.unique(np.concatenate([np.quantile(values, np.linspace(0, 1, count - 27)), values[:27]]))
    return values[:: 1 + len(values) // count]


def joint(design: Design, values: Array, runs: int, rng: Rng) -> Ints:
    """How often each pair of values occurs among complete rows, for each of some runs."""
    n, count = sum(design.sizes), len(values)
    gone = np.asarray(design.missing)[design.groups]
    between = (values[1:] + values[:-1]) / 2
    draws = (np.clip(DATA[design.data](rng, runs * n), design.low, design.high) for _ in range(2))
    codes = [np.searchsorted(between, draw) for draw in draws]
    there = np.ones((runs, n), dtype=bool)
    for _ in range(2):  # a value of each column may be missing
        there &= rng.random((runs, n)) >= gone
    whose = np.repeat(np.arange(runs), n).reshape(runs, n)
    cells = (whose * count + codes[0].reshape(runs, n)) * count + codes[1].reshape(runs, n)
    return np.bincount(cells[there], minlength=runs * count**2).reshape(runs, count, count)


def six_numbers(distances: tuple[Array, Array], table: Ints, n: int, diameters: tuple[float, float]) -> Array:
    """The six numbers of each table of counts, without noise, from the distances of the values of both sides."""
    m = np.maximum(table.sum(axis=(1, 2)), 1).astype(float)
    shares = table / m[:, None, None]
    x, y = shares.sum(axis=2), shares.sum(axis=1)
    a, b = x @ distances[0], y @ distances[1]  # mean distances from each value
    ab = (shares * np.matmul(distances[0] @ shares, distances[1])).sum(axis=(1, 2))
    pairs = zip((x, y), distances, strict=True)
    aa, bb = (np.einsum("ra,ab,rb->r", z, each**2, z, optimize=True) for z, each in pairs)
    means = (x * a).sum(axis=1), (y * b).sum(axis=1)
    squares = (
        ab - 2 * np.einsum("ra,rab,rb->r", a, shares, b, optimize=True) + means[0] * means[1],
        aa - 2 * (x * a**2).sum(axis=1) + means[0] ** 2,
        bb - 2 * (y * b**2).sum(axis=1) + means[1] ** 2,
    )
    share = table.sum(axis=(1, 2)) / n
    shifted = [mean - diameter for mean, diameter in zip(means, diameters, strict=True)]
    roots = [np.sqrt(np.maximum(each, 0.0)) for each in squares]
    return np.stack([*roots, *shifted, np.ones_like(share)], axis=1) * share[:, None]


def simulated(
    design: Design, both: list[Any], values: Array, distance: Array, runs: int, rng: Rng, at_once: int
) -> tuple[Array, Array, Array, list[int]]:
    """The six numbers of many tables without noise and with it, its scales, and rejections of independence."""
    n, parted = sum(design.sizes), []
    scales, most = 1 / (FiveNumbers(*both, n).weights * design.epsilon), largest_values(*both)
    step = max(1, at_once // max(n, len(values) ** 2))
    for start in range(0, runs, step):
        counts = joint(design, values, min(step, runs - start), rng)
        parted.append(six_numbers((distance, distance), counts, n, (both[0].diameter, both[1].diameter)))
    truth = np.concatenate(parted)
    noisy = truth + rng.laplace(size=truth.shape) * scales
    hits = [int((null_tail(noisy, scales, n, most, level) <= 0.9 * level).sum()) for level in LEVELS]
    return truth, noisy, scales, hits


@tables.add("data", "designs", *WITH_WORST, "least coverage", "uninformative")
def levels_dcor(runs: int = 1500) -> Rows:
    """`dcor` with its default arguments, of values that are rounded to 128; coverage of 300 answers."""

    def measure(place: int, design: Design) -> tuple[int, list[int], float, float]:
        values, ends = grid(design), (design.low, design.high)
        both = [metric_space((Column(x, bounds=ends, fill=0.0),), "euclidean", nan_policy="omit") for x in "xy"]
        distance = np.abs(np.subtract.outer(values, values)) / (design.high - design.low)
        rng = np.random.default_rng([2007, place])
        truth, noisy, scales, hits = simulated(design, both, values, distance, runs, rng, 2_000_000)
        covered, noted = [], []
        for told, (covariance, x, y, *_) in zip(noisy[:300], truth, strict=False):
            one = NoisyStatistics(tuple(told), tuple(scales), sum(design.sizes), largest_values(*both))
            low, high = one.interval(0.95)
            noted.append(not one.informative)
            if min(x, y) > 0:
                covered.append(low - 1e-9 <= covariance / np.sqrt(x * y) <= high + 1e-9)
        return runs, hits, float(np.mean(covered)) if covered else 1.0, float(np.mean(noted))

    every = []
    for place, design in enumerate(designs()):
        every.append(part(f"levels_dcor {place} {runs}", design, partial(measure, place, design)))
        judge("dcor", replace(every[-1], covers=math.nan))
    for kind, of in by_data(every).items():
        noted = f"{np.mean([one.noted for one in of]):.3f}"
        yield kind, len(of), *spreads(of), f"{min(one.covers for one in of):.3f}", noted


@tables.add("kernel", "data", "designs", *WITH_WORST, "least coverage")
def levels_hsic(runs: int = 1500, rows: int = 2000) -> Rows:
    """`hsic` with its default arguments, of values that are rounded to 64; larger designs are made smaller."""

    def measure(place: int, design: Design, kernel: Any, width: float | None) -> tuple[int, list[int], float]:
        values, n, ends, held = grid(design)[::2], sum(design.sizes), (design.low, design.high), []
        columns = [Column(name, bounds=ends, fill=design.low) for name in "xy"]
        both = [kernel_space((column,), kernel, width, nan_policy="omit") for column in columns]
        away = np.abs(np.subtract.outer(values, values)) / (design.high - design.low) / both[0].lengthscale
        distance = -np.expm1(-(away**2 if kernel == "gaussian" else away))
        rng = np.random.default_rng([2005, place])
        truth, noisy, scales, hits = simulated(design, both, values, distance, runs, rng, 1_000_000)
        for known, told in zip(truth, noisy, strict=True):
            if known[5] * n >= 4:
                value = (known[0] / (known[5] - 1 / n)) ** 2
                _, least, greatest = hsic_interval(told[0], scales[0], told[5], scales[5], n, 1.0, 0.95)
                held.append(least - 1e-9 <= value <= greatest + 1e-9)
        return runs, hits, float(np.mean(held)) if held else 1.0

    found = defaultdict[str, list[Seen]](list)
    for place, design in enumerate(designs()):
        share = min(1.0, rows / sum(design.sizes))
        smaller = replace(design, sizes=tuple(max(2, round(share * size)) for size in design.sizes))
        for kernel, width in (("gaussian", None), ("gaussian", 0.25), ("laplace", None)):
            name = kernel if width is None else f"{kernel}, lengthscale {width:g}"
            key = f"levels_hsic {place} {name} {runs}"
            found[name].append(part(key, smaller, partial(measure, place, smaller, kernel, width)))
            judge(name, replace(found[name][-1], covers=math.nan))
    for name, every in sorted(found.items()):
        for kind, of in sorted(by_data(every).items()):
            yield name, kind, len(of), *spreads(of), f"{min(one.covers for one in of):.3f}"


# Distance correlation of two parties

FOR_ANGLES = 0.9  # the part of a message's epsilon that its angles take


@dataclass
class Parties:
    """Two parties of one design: one writes messages, the other compares its rows with them."""

    design: Design
    rng: Rng

    def __post_init__(self) -> None:
        design, self.n = self.design, sum(self.design.sizes)
        self.columns = [Column(name, bounds=(design.low, design.high), fill=design.low) for name in "xy"]
        self.spaces = [metric_space((column,), "euclidean", nan_policy="omit") for column in self.columns]
        self.harmonics = (1, 3) if self.n * design.epsilon**2 >= _HARMONICS_FROM else (1,)

    def rows(self, which: int) -> Batch:
        """Draw a table of one party."""
        return Batch(self.n, {number(self.columns[which]): self.design.draw(self.rng)})

    def message(self, rows: Batch) -> DistanceMessage:
        """Write a message."""
        turns, units = _random_blocks(self.n, len(self.harmonics), 1, self.rng), np.ones((len(self.harmonics), 1))
        told = angles_of(rows, (self.columns[0],), FOR_ANGLES * self.design.epsilon, units, turns, 1.0,
                         np.array(self.harmonics), self.rng)  # fmt: skip
        values, scales = self.noisy(Deviation(self.spaces[0], self.n), rows, (1 - FOR_ANGLES) * self.design.epsilon)
        of = {"deviation": float(values[0]), "deviation_scale": float(scales[0])}
        return told(harmonics=self.harmonics, complete=float(values[1]), complete_scale=float(scales[1]), **of)

    def noisy(self, statistic: Deviation | MessageScores, rows: Batch, epsilon: float) -> tuple[Array, Array]:
        """Measure a statistic."""
        scales = statistic.sensitivity("replace_one", 1, frozenset()) / epsilon / statistic.weights
        return statistic.value(rows) / statistic.weights + self.rng.laplace(size=scales.shape) * scales, scales

    def pvalue(self, message: DistanceMessage, rows: Batch) -> float | None:
        """Test independence for oneself, by 999 permutations, or fewer where it is surely not rejected."""
        kept = np.flatnonzero(self.spaces[1].complete(rows))
        if len(kept) < ROWS_MIN:
            return None
        own, message = self.spaces[1].coordinates(rows)[kept, 0], message.subset(kept)
        if not message.blocks():
            return None
        if (own == own[0]).all():
            return 1.0
        beyond = done = 0
        for step in (99, 299, 999):
            totals = message.covariances(own, step - done, self.rng)
            beyond, done = beyond + int((totals[1:] >= totals[0]).sum()), step
            if (1 + beyond) / 1000 > max(LEVELS):
                break
        return (1 + beyond) / (1 + done)

    def covered(self, first: Batch, message: DistanceMessage, second: Batch) -> bool | None:
        """Whether the interval holds what it would be without Laplace noise; None if that is not defined."""
        statistic, diameter = MessageScores(message, self.spaces[1]), self.spaces[1].diameter
        told = NoisyValue(*self.noisy(statistic, second, self.design.epsilon), None)
        found = dcor_with.conclusion(MessageResult(message, ("y",), diameter, statistic.sampling, told))
        covariance, y, below, share = statistic.value(second) / statistic.weights
        x, others = Deviation(self.spaces[0], self.n).value(first) / Deviation(self.spaces[0], self.n).weights
        if not x * y * share * others > 0:
            return None
        squared = covariance**2 - statistic.sampling * (below + diameter * share)
        truth = min(max(squared / (share * others * x * y), 0.0), 1.0)
        return found.low - 1e-9 <= truth <= found.high + 1e-9


def angles_of(
    rows: Batch,
    columns: tuple[Column, ...],
    epsilon: float,
    units: Array,
    turns: Ints,
    length: float,
    harmonics: Ints,
    rng: Rng,
    fills: bool = True,
) -> Callable[..., DistanceMessage]:
    """Randomise the angles of rows, as `dcor_message` does; what makes the message of them."""
    arc = Arc.within(Fraction(epsilon), places=PLACES, reach=best_half_width(epsilon))
    maps, whose = _angle_maps(columns, units, harmonics, length, turns, rng if fills else None)
    places = np.choose(whose, [each.rows(rows) for each in maps])
    moved = arc.sample(places, rng.integers(0, arc.weight, len(turns)))
    known = {"places": PLACES, "reach": arc.reach, "inside": arc.inside, "outside": arc.outside, "keys": None}
    known |= {"columns": tuple(column.name for column in columns), "rows": len(turns), "turns": turns}
    return partial(DistanceMessage, **known, directions=units, angles=moved, length=length)


@tables.add("data", "designs", "answers", *HEADS, "worst at .05", "covered", "least")
def levels_dcor_with(runs: int = 50) -> Rows:
    """What one party learns from another's message: for itself, and as an interval that it may show."""

    def measure(place: int, design: Design) -> tuple[int, list[int], float]:
        parties, pvalues, held = Parties(design, np.random.default_rng([2007, place])), [], []
        for _ in range(runs):
            first, second = parties.rows(0), parties.rows(1)
            message = parties.message(first)
            pvalues.append(parties.pvalue(message, second))
            held.append(parties.covered(first, message, second))
        told, known = ([each for each in every if each is not None] for every in (pvalues, held))
        return len(told), hits_of(np.array(told)), sum(known) / len(known) if known else math.nan

    every = []
    for place, design in enumerate(designs()):
        one = part(f"levels_dcor_with {place} {runs}", design, partial(measure, place, design))
        every.append(judge("dcor_with", one))
    for kind, of in by_data(every).items():
        answers, covers = sum(one.answers for one in of), [one.covers for one in of if not math.isnan(one.covers)]
        ends = (f"{np.mean(covers):.3f}", f"{min(covers):.3f}") if covers else ("–", "–")
        yield kind, len(of), f"{max(answers, 1):,}", *pooled(of), worst(of), *ends


if __name__ == "__main__":
    tables.main()
