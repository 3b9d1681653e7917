"""How often intervals cover what they are for, at a nominal 95%; and levels of what is asked as a user asks it.

python tests/benchmarks/intervals.py inference_shares --runs 1000
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import replace
from functools import cache, partial
from operator import add, sub
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from designs import DATA as KINDS
from designs import Design, designs, exceeds
from harness import Array, Bools, Rng, Rows, Tables, parts, problem, protected
from levels import Exact, noisy_ranks, rejects
from real import Table
from real import tables as real_tables
from scipy import stats

import dfprivacy as dp
from dfprivacy._privacy.conversions import gaussian_unit_scale
from dfprivacy.inference.counts import NoisyCounts, arcsine_share, difference, odds_ratio, ratio, share_of_angle
from dfprivacy.inference.engine import infer
from dfprivacy.laws import NoiseLaw
from dfprivacy.testing import seeded_noise
from dfprivacy.wording import noise_share
from dfprivacy_gmm.estimates import estimate_moments
from dfprivacy_gmm.sums import Sums
from dfprivacy_inference.curves import Curve
from dfprivacy_inference.hazards import TwoLifeTables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


tables = Tables(__doc__)
Answer = tuple[float, bool | None, bool]  # p-value, whether the interval holds the truth, whether there is a note
TINY = 1e-9


# Exploration, of real columns

QUARTILES = [0.25, 0.5, 0.75]
GAPPY = {"mdvis", "affairs", "hours", "capital_gain"}
FEWER = 4  # times fewer runs of descriptions, correlations and populations
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ("mean", "var", "std", "sum", "count", "missing")},
    "quartiles": ("quantile", {"q": QUARTILES, "covers": "table"}),
    "histogram": ("histogram", {}),
}


def columns() -> Iterator[tuple[str, Table]]:
    """Columns of numbers, each a table of its own, and of some a tenth of the values missing."""
    for table in real_tables():
        for name, ends in table.bounds.items():
            one = Table(name, table.frame[[name]].astype(float), {name: ends}, {}, {})
            yield f"{table.name}: {name}", one
            if name in GAPPY:
                gone = pd.Series(np.random.default_rng(1).random(len(one.frame)) < 0.1)
                yield f"{table.name}: {name}, a tenth missing", replace(one, frame=one.frame.mask(gone, axis=0))


def known(x: pd.Series, ends: tuple[float, float]) -> dict[str, list[float]]:
    """The table's own numbers."""
    seen = x.dropna()
    quartiles = seen.quantile(QUARTILES, "lower").tolist()
    found = {"mean": seen.mean(), "var": seen.var(), "std": seen.std(), "sum": seen.sum(), "count": len(seen)}
    found = {name: [float(number)] for name, number in (found | {"missing": len(x) - len(seen)}).items()}
    histogram = np.histogram(seen, 10, range=ends)[0].astype(float).tolist()
    each = {f"{100 * q:g}%": [number] for q, number in zip(QUARTILES, quartiles, strict=True)}
    return {**found, **each, "quartiles": quartiles, "histogram": histogram}


def held(answer: Any, truth: list[float]) -> list[bool]:
    """Whether the intervals of an answer hold some numbers."""
    lows, highs = answer.intervals if hasattr(answer, "edges") else map(np.ravel, (answer.low, answer.high))
    return [low - TINY <= number <= high + TINY for number, low, high in zip(truth, lows, highs, strict=True)]


def of_column(table: Table, relation: str, epsilon: float, runs: int) -> dict[str, float]:
    """How often the intervals of one column hold the table's own numbers, or those of what it is a sample of."""
    ((name, ends),) = table.bounds.items()
    terms = {"bounds": table.bounds, "neighbors": relation}
    view, truth, hits = (
        protected(table.frame, **terms),
        known(table.frame[name], ends),
        defaultdict[str, list[bool]](list),
    )
    said = {"epsilon": epsilon, "fresh": True}
    for statistic, (method, more) in ASKED.items():
        for _ in range(runs):
            hits[statistic] += held(getattr(view, method)(name, **more, **said), truth[statistic])
    for _ in range(runs // FEWER):
        one = view.describe([name], **said)
        for row, low, high in zip(one.statistics, one.lows[0], one.highs[0], strict=True):
            if low is not None:
                kind = row if row in ASKED else "quartiles"
                hits[f"describe: {kind}"].append(low - TINY <= truth[row][0] <= high + TINY)
    rng = np.random.default_rng(1)
    for _ in range(runs // FEWER):
        drawn = table.frame.sample(2000, replace=True, random_state=int(rng.integers(2**31)), ignore_index=True)
        view = protected(drawn, **terms)
        for kind, method, more in (("mean", "mean", {}), ("quartiles", "quantile", {"q": QUARTILES})):
            answer = getattr(view, method)(name, **more, covers="population", **said)
            hits[f"{kind}, population"] += held(answer, truth[kind])
    return {kind: float(np.mean(each)) for kind, each in hits.items()}


def of_categories(table: Table, relation: str, epsilon: float, runs: int) -> dict[str, float]:
    """How often the intervals of counts and of correlations hold the table's own."""
    first, names, hits = next(iter(table.categories)), list(table.bounds), defaultdict[str, list[Any]](list)
    frame = table.frame[[first, *names]].astype(dict.fromkeys(names, float))
    terms = {"bounds": table.bounds, "categories": {first: table.categories[first]}, "neighbors": relation}
    view, said = protected(frame, **terms), {"epsilon": epsilon, "fresh": True}
    truth = frame[first].value_counts().reindex(table.categories[first], fill_value=0).to_numpy()
    above = np.triu_indices(len(names), 1)
    own = frame[names].corr().to_numpy()[above]
    for run in range(runs):
        low, high = view.value_counts(first, sort=False, **said).intervals
        hits["value_counts"].append((low <= truth) & (truth <= high))
        if run % FEWER == 0:
            matrix = view.corr(names, **said)
            hits["corr"].append((matrix.lows[above] <= own) & (own <= matrix.highs[above]))
    return {kind: float(np.mean(each)) for kind, each in hits.items()}


@tables.add("statistic", "relation", "ε=0.1: mean, least", "ε=0.5: mean, least", "ε=1: mean, least", "least in")
def eda_coverage(runs: int = 400) -> Rows:
    """Of real columns, the table's own numbers or a population's: the mean over columns, and the least."""
    cells = defaultdict[tuple[str, str], dict[float, list[tuple[float, str]]]](lambda: defaultdict(list))
    asked = [(name, partial(of_column, table)) for name, table in columns()]
    asked += [(table.name, partial(of_categories, table)) for table in real_tables()]
    for relation, epsilon in itertools.product(("replace_one", "add_remove"), (0.1, 0.5, 1.0)):
        for name, measure in asked:
            with seeded_noise(1):
                found = parts(f"{name}, {relation}, {epsilon}", partial(measure, relation, epsilon, runs))
            for statistic, rate in found.items():
                cells[statistic, relation][epsilon].append((rate, name))
    for (statistic, relation), by in cells.items():
        shown = (f"{np.mean([rate for rate, _ in each]):.3f}, {min(each)[0]:.3f}" for each in by.values())
        least, name = min(min(each) for each in by.values())
        few = runs if statistic in {*ASKED, "value_counts"} else runs / FEWER
        if least < 0.95 - 4 * math.sqrt(0.95 * 0.05 / few):
            problem(f"{statistic}, {relation}: {least:.3f} of {name}")
        yield statistic, relation, *shown, name


# Second moments


def noisy_moments(design: Design, correlation: float, runs: int, rng: Rng) -> Sums:
    """Noisy sums of so many tables of two columns, each a group; the second repeats a share of the first."""
    n, half, mid = sum(design.sizes), (design.high - design.low) / 2, (design.high + design.low) / 2
    sizes, totals, products = np.empty(runs), np.empty((runs, 2)), np.empty((runs, 2, 2))
    for run in range(runs):
        x, z = (np.clip(KINDS[design.data](rng, n), design.low, design.high) for _ in range(2))
        y = np.array([x, np.where(rng.random(n) < correlation, x, z)])
        if any(design.missing):
            y = y[:, (rng.random((2, n)) >= np.array(design.missing)[:, None]).all(axis=0)]
        y = (y - mid) / half
        sizes[run], totals[run], products[run] = y.shape[1], y.sum(axis=1), y @ y.T
    replaced, r = design.neighbors == "replace_one", 2.0**0.5  # r, of two columns
    sd = gaussian_unit_scale(design.epsilon, 1e-6) * r * (math.sqrt(4.5) if replaced else 1.5)
    size_sd = sd / r / (math.sqrt(2.5) if replaced else 0.5)
    product_sd = sd * r * np.array([[1, math.sqrt(0.5)], [math.sqrt(0.5), 1]])
    noise = rng.standard_normal((runs, 2, 2)) * product_sd
    noise[:, 1, 0] = noise[:, 0, 1]
    totals += sd * rng.standard_normal((runs, 2))
    return Sums(sizes + size_sd * rng.standard_normal(runs), totals, products + noise, size_sd, sd, product_sd)


def misses(design: Design, correlation: float, runs: int, rng: Rng) -> tuple[list[float], float, float]:
    """Shares of tables of which an interval misses; that have a correlation; that are noted as small."""
    drawn = np.clip(KINDS[design.data](np.random.default_rng(0), 2_000_000), design.low, design.high)
    half, mid = (design.high - design.low) / 2, (design.high + design.low) / 2
    mean, variance = float((drawn.mean() - mid) / half), float(drawn.var() / half**2)
    own = estimate_moments(noisy_moments(design, correlation, runs, rng))
    covariances, errors, diagonal = own.covariances, own.covariance_errors(), (slice(None), range(2), range(2))
    intervals = (
        (own.means, own.mean_errors(), mean),
        (covariances[diagonal], errors[diagonal], variance),
        (covariances[:, 0, 1], errors[:, 0, 1], correlation * variance),
        (own.correlations()[:, 0, 1], own.correlation_errors()[:, 0, 1], correlation),
    )
    z = 1.959963984540054
    rates = [float(np.mean(np.abs(found - true) > z * error + 1e-12)) for found, error, true in intervals]
    told = np.isfinite(own.correlations()[:, 0, 1])
    return rates, float(told.mean()), float(own.has_few_rows().mean())


WHAT = ("mean", "variance", "covariance", "correlation")


@tables.add(
    *("designs", "tables", *(f"{what}: {each}" for what in WHAT for each in ("average", "least"))),
    *("with a correlation", "noted as small"),
)
def moments_coverage(runs: int = 1000) -> Rows:
    """Estimate ± 1.96 standard errors of ``moments``, of two columns that have a correlation of 0.7 or 0."""
    rng = np.random.default_rng(1)
    cells = list(itertools.product(designs(), (0.7, 0.0)))
    found = [misses(*cell, runs, rng) for cell in cells]
    rates, (told, few) = np.array([rate for rate, *_ in found]), np.array([of for _, *of in found]).T
    parted = {"all": [True] * len(cells)} | {name: [design.data == name for design, _ in cells] for name in KINDS}
    for low, high in ((0.02, 0.1), (0.1, 1.0), (1.0, 10.0), (10.0, 50.0)):
        parted[f"{low:g} ≤ ε < {high:g}"] = [low <= design.epsilon < high for design, _ in cells]
    for name, of in parted.items():
        pairs = zip(rates[of].mean(axis=0), rates[of].max(axis=0), strict=True)
        shown = (f"{1 - share:.3f}" for pair in pairs for share in pair)
        yield name, sum(of), *shown, f"{told[of].mean():.0%}", f"{few[of].mean():.0%}"
    for (design, correlation), rate, small in zip(cells, rates, few, strict=True):
        if small < 0.5 and any(exceeds(round(each * runs), runs, 0.05) for each in rate):
            problem(f"below: {design}, r = {correlation}: {np.round(1 - rate, 3)}")


# Shares and survival


@tables.add("groups", "ε", "share", "difference", "ratio", "odds")
def inference_shares(runs: int = 1000) -> Rows:
    """Intervals of a share, a difference, a risk ratio and an odds ratio; of 256 draws of the exact counts."""
    rng, found = np.random.default_rng(31), defaultdict[tuple[bool, float], list[list[float]]](list)
    parameters = (
        lambda each: arcsine_share(each[0]),
        *(lambda each, of=of: of(*each) for of in (difference, ratio, odds_ratio)),
    )
    sizes, shares = (
        ((50, 50), (200, 200), (1000, 100), (5000, 5000)),
        ((0.3, 0.2), (0.05, 0.05), (0.005, 0.02), (0.95, 0.6)),
    )
    for public, size, (p, q), epsilon in itertools.product((False, True), sizes, shares, (0.1, 0.5, 2.0)):
        b, n = (1 if public else 2) / epsilon, np.array(size, dtype=float)
        hits = rng.binomial(size, (p, q), (runs, 2))
        exact = hits[..., None] if public else np.stack([hits, n - hits], axis=-1)
        laws, form = [NoiseLaw(b)] * exact.shape[-1], (n, "hits") if public else (None, "counts")
        sums, rates = NoisyCounts(exact + rng.laplace(0, b, exact.shape), laws, *form), []
        truths, backs = (p, p - q, p / q, p / (1 - p) * (1 - q) / q), (share_of_angle, np.positive, np.exp, np.exp)
        for parameter, back, truth in zip(parameters, backs, truths, strict=True):
            low, high = map(back, infer(sums, parameter, 256).interval())
            rates.append(((low <= truth) & (truth <= high)).mean())
        found[public, epsilon].append(rates)
    for (public, epsilon), every in sorted(found.items()):
        shown = (f"{np.mean(each):.3f} ({min(each):.3f} to {max(each):.3f})" for each in zip(*every, strict=True))
        yield "public" if public else "private", f"{epsilon:g}", *shown


def times(rng: Rng, n: int, hazard: Array | float = 1.0) -> tuple[Array, Bools]:
    """Draw times of a Weibull law, censored evenly between 200 and 1,020, and whether they are an event's."""
    event, end = rng.weibull(1.3, n) * 420 * np.power(hazard, -1 / 1.3), rng.uniform(200, 1020, n)
    return np.minimum(np.minimum(event, end), 999.99), event <= end


def survival_at(t: Array) -> Array:
    """The share that outlives some times."""
    return np.exp(-((t / 420) ** 1.3))


@tables.add(
    *("rows", "intervals", "ε", "at 200, 300, 500 and 700", "median", "restricted mean", "width at 500"),
)
def inference_curves(runs: int = 300) -> Rows:
    """Bands of survival curves at four times, the median and the restricted mean."""
    rng, fine = np.random.default_rng(41), np.linspace(0, 1000, 100_001)
    middle, mean = 420 * np.log(2) ** (1 / 1.3), np.trapezoid(survival_at(fine), fine)
    for n, intervals, epsilon in (
        (228, 10, 1.0),
        (500, 10, 1.0),
        (500, 10, 0.5),
        (2000, 20, 1.0),
        (20_000, 20, 0.5),
    ):
        edges = np.linspace(0, 1000, intervals + 1)
        truth, at = survival_at(edges[1:]), np.searchsorted(edges[1:], (200, 300, 500, 700))
        covered, widths = np.zeros((runs, 6)), np.zeros(runs)
        for run in range(runs):
            t, event = times(rng, n)
            place = np.clip(np.searchsorted(edges, t) - 1, 0, intervals - 1)
            lived = (t - edges[place]) / np.diff(edges)[place]
            counted = (event, ~event * lived, ~event * (1 - lived))
            exact = np.stack([np.bincount(place, each, intervals) for each in counted])
            curve = Curve(exact + rng.laplace(0, 2 / epsilon, exact.shape), NoiseLaw(2 / epsilon), edges)
            low, high = curve.bands(0.95)
            covered[run, :4] = ((low <= truth) & (truth <= high))[at]
            ends = curve.median(low, high), curve.restricted_mean(0.95)
            covered[run, 4:] = [lo <= value <= hi for value, (_, lo, hi) in zip((middle, mean), ends, strict=True)]
            widths[run] = (high - low)[at[2]]
        rates = [f"{rate:.3f}" for rate in covered.mean(axis=0)]
        yield n, intervals, f"{epsilon:g}", ", ".join(rates[:4]), *rates[4:], f"{np.median(widths):.2f}"


def gehan(t: Array, event: Bools, first: int) -> tuple[float, float]:
    """The rank sum of the first rows, of times without ties, and its variance times 12/(n(n² - 1))."""
    n, order = len(t), np.argsort(t)
    event, of_first = event[order], order < first
    one = first - np.cumsum(of_first) + of_first  # at risk
    two = n - np.arange(n) - one
    spread = 3 * float(one[event] @ two[event]) / (n * (n**2 - 1))
    return (one[event & ~of_first].sum() - two[event & of_first].sum()) / 2, spread


SURVIVAL = (
    *((50, 0.5, 1.0, 1.0), (228, 0.5, 1.0, 1.0), (2000, 0.5, 0.5, 1.0), (1000, 0.2, 1.0, 1.0)),
    *((228, 0.5, 1.0, 1.6), (500, 0.5, 1.0, 1.6), (2000, 0.5, 0.5, 1.3), (1000, 0.2, 1.0, 1.5)),
)


@tables.add("rows", "first group", "ε", "hazard ratio", "private groups", "public groups")
def inference_survival(runs: int = 1000) -> Rows:
    """How often the survival test rejects at 5%: levels where the hazard ratio is 1, else powers."""
    rng = np.random.default_rng(51)
    for n, of_first, epsilon, hazard in SURVIVAL:
        first = round(of_first * n)
        sums, ones = np.empty((2, runs)), np.ones(runs)
        for run in range(runs):
            sums[:, run] = gehan(*times(rng, n, np.where(np.arange(n) < first, 1.0, hazard)), first)
        exact = Exact(sums[0], first * ones, (n - first) * ones, sums[1], (first, n - first))
        found = [rejects(noisy_ranks(rng, exact, epsilon, way, "variance")) for way in ("private", "public")]
        yield n, f"{of_first:.0%}", f"{epsilon:g}", f"{hazard:g}", *(f"{rate:.3f}" for rate in found)


def trials(rng: Rng, runs: int, n: int, design: tuple[float, ...], intervals: int) -> Array:
    """Exact life tables of two groups, of times up to 1 of which a part is censored, half of it at the end."""
    ratio, share, shape, censored = design
    found = np.zeros((runs, 1, 2, 3, intervals))
    for table in found:
        group = (rng.random(n) >= share).astype(int)
        hazard = -np.log(censored / 2) * np.where(group == 0, ratio, 1.0)
        t, end = (rng.exponential(size=n) / hazard) ** (1 / shape), rng.random(n)
        end = np.where(rng.random(n) < censored / 2, end, 1.0)
        event, t = t < end, np.minimum(t, end)
        place = np.clip(np.ceil(t * intervals).astype(int) - 1, 0, intervals - 1)
        lived = t * intervals - place
        for at, each in enumerate((event, ~event * lived, ~event * (1 - lived))):
            np.add.at(table[0], (group, at, place), each)
    return found


@tables.add("rows", "ε", "covered", "without a warning", "warned", "rejected at ratio 1", "noise")
def inference_hazards(runs: int = 1000) -> Rows:
    """How often intervals hold the hazard ratio, over ratios, groups, laws, censoring and intervals."""
    rng = np.random.default_rng(61)
    alike = itertools.product((1.0, 0.5, 2.0), (0.5, 1 / 6))
    drawn = [
        ((*each, (1.0, 0.6, 2.0)[at % 3], (0.1, 0.4, 0.7)[at // 2]), (5, 10)[at % 2])
        for at, each in enumerate(alike)
    ]
    for n, epsilon in itertools.product((500, 2000, 20_000), (0.3, 1.0, 5.0)):
        covered, said, rejected, parts_of_noise = [], [], [], []
        for design, intervals in drawn:
            exact = trials(rng, runs, n, design, intervals)
            for table in exact + rng.laplace(0, 2 / epsilon, exact.shape):
                life = TwoLifeTables(table, 2 / epsilon)
                found = life.log_ratio_inference
                low, high = found.interval(0.95)
                covered.append(low <= np.log(design[0]) <= high)
                said.append(not (np.isfinite(high - low) and life.has_clear_sizes))
                errors = float(found.standard_error), float(found.sampling_standard_error)
                parts_of_noise.append(noise_share(*errors) or 0.0)
                if design[0] == 1:
                    rejected.append(found.pvalue() <= 0.05)
        rates, quiet = np.array(covered).reshape(len(drawn), runs), ~np.array(said)
        yield (
            n,
            f"{epsilon:g}",
            f"{np.mean(rates):.3f} ({rates.mean(axis=1).min():.3f} to {rates.mean(axis=1).max():.3f})",
            f"{np.mean(np.array(covered)[quiet]):.3f}",
            f"{np.mean(said):.0%}",
            f"{np.mean(rejected):.3f}",
            f"{np.median(np.array(parts_of_noise)[quiet]):.0%}",
        )


# Arithmetic on releases


def mixed(rng: Rng, rows: int = 1000) -> pd.DataFrame:
    """Two numbers that go together, and two kinds of groups that do as well."""
    x = rng.normal(size=rows)
    y = 0.5 * x + np.sqrt(1 - 0.5**2) * rng.normal(size=rows)
    g = rng.random(rows) < 0.4
    h = np.where(rng.random(rows) < 0.3 + 0.2 * g, "u", "v")
    return pd.DataFrame(
        {"x": (3 + x + 0.5 * g).clip(0, 8), "y": (2 + y).clip(0, 8), "g": np.where(g, "a", "b"), "h": h}
    )


def combined(f: Callable[..., float], *releases: Any, **named: Any) -> Any:
    """Combine the estimates of t-tests."""
    return dp.combine(lambda *every: f(*(each.estimate for each in every)), *releases, **named)


def means(view: Any, epsilon: float) -> tuple[Any, Any]:
    """Two answers about the same rows."""
    return view.ttest("x", epsilon=epsilon), view.ttest("y", epsilon=epsilon)


def groups(view: Any, epsilon: float) -> tuple[Any, Any]:
    """Two answers about other rows."""
    found = view.group_by("g").ttest("x", epsilon=epsilon)
    return found["a"], found["b"]


def again(view: Any, epsilon: float, **named: Any) -> tuple[Any, Any]:
    """One answer, and another about the same column."""
    return view.ttest("x", epsilon=epsilon), view.ttest("x", epsilon=epsilon, **named)


def apart(counts: Any) -> float:
    """Difference of two shares of the four counts of a table."""
    (a, b), (c, d) = counts.raw
    return float(a / (a + b) - c / (c + d))


def odds(counts: Any) -> float:
    """Log odds ratio of the four counts of a table."""
    (a, b), (c, d) = counts.raw
    return float(np.log(a * d / b / c))


def over(view: Any, epsilon: float) -> Any:
    """Write it as a user does."""
    a, b = means(view, epsilon)
    return a / b


def shares(f: Callable[[Any], float]) -> Callable[[Any, float], Any]:
    """Compute something of the counts of two columns."""
    return lambda view, epsilon: dp.combine(f, view.crosstab("g", "h", epsilon=epsilon))


def slope_of(view: Any, epsilon: float) -> Any:
    """The slope of a regression."""
    return dp.combine(lambda fit: fit.params["x"], view.ols("y ~ x", epsilon=epsilon))


def between(a: float, b: float) -> float:
    """A difference in units of the sum."""
    return (a - b) / (a + b)


OF_TABLES: dict[str, tuple[float, Callable[[Any, float], Any]]] = {
    "ttest(x) - ttest(y)": (0.2, lambda v, e: v.ttest("x", epsilon=e) - v.ttest("y", epsilon=e)),
    "ttest(x) / ttest(y)": (0.2, over),
    "the same, the divisor 4 standard errors from 0": (0.03, over),
    "(a - b) / (a + b), each release twice": (0.2, lambda v, e: combined(between, *means(v, e))),
    "ttest(x) + ttest(x, popmean=3): one measurement": (0.2, lambda v, e: combined(add, *again(v, e, popmean=3))),
    "ttest(x) + ttest(x), fresh: two measurements": (0.2, lambda v, e: combined(add, *again(v, e, fresh=True))),
    "group a - group b, of one answer by group": (0.5, lambda v, e: combined(sub, *groups(v, e))),
    "share(h = u) where g = a, less that where g = b": (0.5, shares(apart)),
    "log odds ratio of crosstab(g, h)": (0.5, shares(odds)),
    "slope of ols(y ~ x), two stages": (5.0, slope_of),
    "refine(ttest(x)), measured twice": (0.2, lambda v, e: v.refine(v.ttest("x", epsilon=e), epsilon=e)),
}
OF_PEOPLE: dict[str, tuple[float, Callable[[Any, float], Any]]] = {  # the truth of a population, and the question
    "ttest(x), group a - group b: other rows": (
        0.5, lambda v, e: combined(sub, *groups(v, e), covers="population")
    ),
    "ttest(x) - ttest(y): the same rows": (1.2, lambda v, e: combined(sub, *means(v, e), covers="population")),
}  # fmt: skip


@tables.add("what", "for", "ε", "covers", "noise", "refused")
def combine_coverage(runs: int = 100) -> Rows:
    """`dp.combine`, arithmetic and `view.refine`, for one table that is measured anew, or for the population.

    "Noise" is the spread of the value over the runs, over the mean of the standard errors that it says.
    """
    terms = {"bounds": {"x": (0, 8), "y": (0, 8)}, "categories": {"g": ["a", "b"], "h": ["u", "v"]}}

    def found(ask: Callable[[Any, float], Any], df: pd.DataFrame, epsilon: float) -> Any:
        try:
            return ask(protected(df, **terms), epsilon)
        except dp.ArgumentError:
            return None

    def shown(results: list[Any], truth: float) -> list[str]:
        given = [each for each in results if each is not None]
        inside = np.mean([each.low <= truth <= each.high for each in given])
        said = np.mean([np.hypot(each.noise_standard_error, each.sampling_standard_error or 0) for each in given])
        spread = np.std([each.estimate for each in given])
        return [f"{inside:.3f}", f"{spread / said:.2f}", f"{1 - len(given) / len(results):.0%}"]

    df = mixed(np.random.default_rng(83))
    for what, (epsilon, ask) in OF_TABLES.items():
        truth = ask(protected(df, **terms), 10**5).estimate
        told = parts(what, lambda ask=ask, e=epsilon, t=truth: shown([found(ask, df, e) for _ in range(runs)], t))
        yield what, "the table", f"{epsilon:g}", *told
    for (what, (truth, ask)), epsilon in itertools.product(OF_PEOPLE.items(), (0.5, 20.0)):
        rng = np.random.default_rng(89)
        of = parts(f"{what}, {epsilon}", lambda ask=ask, e=epsilon, t=truth, rng=rng: shown(
            [found(ask, mixed(rng), e) for _ in range(runs)], t))  # fmt: skip
        yield what, "the population", f"{epsilon:g}", *of


# Everyday inference, asked as a user asks it


def asked_of(
    every: list[pd.DataFrame], categories: dict[str, Any], public: tuple[str, ...] = (), **terms: Any
) -> Any:
    """Protect tables in one account, each a group of it: who asks one pays for one, and hears of one."""
    runs = list(range(len(every)))
    df = pd.concat(every, keys=runs, names=["run"]).reset_index("run")
    known = () if terms.get("neighbors") == "add_remove" else ("run", *public)
    return protected(df, categories={**categories, "run": runs}, public=known, **terms).group_by("run")


def drawn(rng: Rng, design: Design) -> pd.DataFrame:
    """Draw a table: numbers, coins, times, two groups and three, none of which has to do with any other."""
    n, first = sum(design.sizes), design.sizes[0]
    event, end = rng.weibull(1.3, n) * 420, rng.uniform(200, 1020, n)
    columns = {"x": design.draw(rng), "z": design.draw(rng), "g": np.repeat([0, 1], design.sizes)}
    columns["k"] = np.repeat([0, 1, 2], [first // 2, first - first // 2, n - first])
    columns |= {"before": rng.random(n) < 0.3, "after": rng.random(n) < 0.3}
    return pd.DataFrame({**columns, "time": np.minimum(np.minimum(event, end), 999.99), "died": event <= end})


def test_of(truth: float | None, name: str, *args: Any, **named: Any) -> Callable[[Any, float], list[Answer]]:
    """Ask a test, and whether its interval, if it has one, holds the truth."""

    def ask(view: Any, epsilon: float) -> list[Answer]:
        answers = [answer for _, answer in getattr(view, name)(*args, epsilon=epsilon, **named).items()]
        ends = [None if truth is None else each.confidence_interval() for each in answers]
        inside = [None if each is None else bool(each.low <= truth <= each.high) for each in ends]
        return [(each.pvalue, of, bool(each.notes)) for each, of in zip(answers, inside, strict=True)]

    return ask


def other(
    told: Callable[[Any], tuple[float, float, float]], truth: float, name: str, *args: Any, **named: Any
) -> Any:
    """Ask what has its p-value and interval elsewhere."""

    def ask(view: Any, epsilon: float) -> list[Answer]:
        answers = [answer for _, answer in getattr(view, name)(*args, epsilon=epsilon, **named).items()]
        every = [(told(answer), bool(answer.notes)) for answer in answers]
        return [(p, bool(low <= truth <= high), note) for (p, low, high), note in every]

    return ask


def slope(fit: Any) -> tuple[float, float, float]:
    """The p-value and the interval of the slope of z."""
    return fit.pvalues["z"], fit.low["z"], fit.high["z"]


EDGES = np.linspace(0, 1000, 11)
QUESTIONS: dict[str, Callable[[Any, float], list[Answer]]] = {
    "mannwhitneyu": test_of(0.5, "mannwhitneyu", "x", by="g"),
    "kruskal": test_of(None, "kruskal", "x", by="k"),
    "wilcoxon, ranks": test_of(None, "wilcoxon", "x", "z", method="rank"),
    "wilcoxon, signs": test_of(None, "wilcoxon", "x", "z", method="sign"),
    "anova": test_of(None, "anova", "x", by="k"),
    "mcnemar": test_of(1.0, "mcnemar", "before", "after", success=True),
    "proportions": other(lambda each: (np.nan, each.difference[1].low, each.difference[1].high), 0.0,
                         "proportions", "before", by="g", success=True),
    "survival_test": test_of(0.5, "survival_test", "time", "died", by="g"),
    "kaplan_meier": other(lambda each: (np.nan, each.lows[0][3], each.highs[0][3]), float(survival_at(EDGES[4])),
                          "kaplan_meier", "time", "died", edges=EDGES),
    "ols": other(slope, 0.0, "ols", "x", ["z"]),
    "logit": other(slope, 0.0, "logit", "before", ["z"]),
}  # fmt: skip


@tables.add("asked", "tables", "refused", "0.05", "0.01", "worst at .05", "with a note", "covers", "worst")
def inference_asked(runs: int = 200) -> Rows:
    """Of five designs, private groups and then public: how often a true hypothesis is rejected without a note."""
    found, coin = defaultdict[str, list[list[Answer]]](list), [False, True]
    kinds = {"g": [0, 1], "k": [0, 1, 2], "before": coin, "after": coin, "died": coin}
    for at, design in enumerate(designs(5, seed=53)):
        ends = (design.low, design.high)
        terms = {"bounds": {"x": ends, "z": ends, "time": (0, 1000)}, "neighbors": design.neighbors}

        @cache
        def every(design: Design = design, at: int = at) -> list[pd.DataFrame]:
            rng = np.random.default_rng((59, at))
            return [drawn(rng, design) for _ in range(runs)]

        ways = (False,) if design.neighbors == "add_remove" else (False, True)
        for public, (name, ask) in itertools.product(ways, QUESTIONS.items()):
            terms["public"] = ("g", "k") if public else ()

            def answers(every: Any = every, terms: Any = terms, ask: Any = ask, e: float = design.epsilon) -> Any:
                try:
                    return ask(asked_of(every(), kinds, **terms), e)
                except dp.ArgumentError:  # too few rows
                    return []

            found[name].append(parts(f"{name}, {design}, {public}", answers))
    for name, of in found.items():
        given = [np.array(each, dtype=float).T for each in of if each]
        silent = [np.where(noted > 0, 1.0, p) for p, _, noted in given]
        rates = np.array([[np.mean(p <= level) for level in (0.05, 0.01)] for p in silent])
        told = [f"{each:.3f}" for each in (*rates.mean(axis=0), rates[:, 0].max())]
        covers, noted = (
            np.array([inside.mean() for _, inside, _ in given]),
            np.mean([each[2].mean() for each in given]),
        )
        ends = [f"{covers.mean():.3f}", f"{covers.min():.3f}"] if not np.isnan(covers).any() else ["", ""]
        shown = told if not np.isnan(given[0][0]).any() else [""] * 3
        yield name, len(given), len(of) - len(given), *shown, f"{noted:.0%}", *ends


def zeros(rng: Rng, n: int, first: Any, shift: float) -> Array:
    """Mostly zeros: a tenth are not, of the first group more."""
    return np.where(rng.random(n) < 0.1 + shift * first, rng.exponential(size=n), 0.0)


LAWS: dict[str, tuple[Callable[..., Array], tuple[float, float], str]] = {  # draws, bounds, and what it is called
    "t2": (lambda rng, n, first, shift: rng.standard_t(2, n) + shift * first, (-20, 20), "t(2), in ±20"),
    "lognormal": (
        lambda rng, n, first, shift: rng.lognormal(size=n) + shift * first, (0, 30), "lognormal, in 0 to 30"
    ),
    "zeros": (zeros, (0, 10), "10% not 0, in 0 to 10"),
    "normal": (lambda rng, n, first, shift: rng.normal(size=n) + shift * first, (-5, 5), "normal, in ±5"),
}  # fmt: skip
POWERS = (  # test, law, shift, ε, and rows with the expected powers of the first two, where they were computed
    ("mannwhitneyu", "normal", 1.0, 1.0, {40: ".57, .61"}),
    ("mannwhitneyu", "t2", 1.0, 1.0, {60: ".57, .60", 120: ".88, .92"}),
    ("mannwhitneyu", "lognormal", 0.5, 1.0, {120: ".71, .78", 240: ".97, .98"}),
    ("mannwhitneyu", "zeros", 0.15, 1.0, {200: ".41, .37", 400: ".88, .80"}),
    ("kruskal", "normal", 1.0, 1.0, {90: ""}),
    ("kruskal", "t2", 1.0, 1.0, {120: "", 240: ""}),
    ("kruskal", "lognormal", 0.5, 1.0, {240: "", 480: ""}),
    ("kruskal", "zeros", 0.15, 1.0, {400: "", 800: ""}),
    ("wilcoxon", "normal", 1.0, 1.0, {20: ".65, .79"}),
    ("wilcoxon", "normal", 0.5, 0.1, {200: ".31, .67"}),
    ("wilcoxon", "t2", 0.5, 1.0, {60: "", 120: ""}),
    ("wilcoxon", "lognormal", 0.5, 1.0, {60: "", 120: ""}),
    ("wilcoxon", "zeros", 0.15, 1.0, {200: "", 400: ""}),
)


def of_groups(name: str, law: str, shift: float, n: int, epsilon: float, rng: Rng, runs: int) -> list[float]:
    """Compare two groups, or three of which two are alike: how often do private, public, means and scipy reject?"""
    k, (draw, ends, _), said = 2 if name == "mannwhitneyu" else 3, LAWS[law], {"by": "g", "epsilon": epsilon}
    group = np.arange(n) % k
    every = [pd.DataFrame({"x": draw(rng, n, group == 0, shift).clip(*ends), "g": group}) for _ in range(runs)]
    private, public = (asked_of(every, {"g": list(range(k))}, of, bounds={"x": ends}) for of in ((), ("g",)))
    by_means = private.ttest if k == 2 else private.anova
    answers = [getattr(private, name)("x", **said), getattr(public, name)("x", **said), by_means("x", **said)]
    exact = [getattr(stats, name)(*(df.x[group == each] for each in range(k))).pvalue for df in every]
    return rejecting(answers, exact)


def of_pairs(law: str, shift: float, n: int, epsilon: float, rng: Rng, runs: int) -> list[float]:
    """Compare pairs by ranks, by signs, by their mean and by scipy; values of the first column are shifted."""
    draw, (low, high), _ = LAWS[law]

    def table() -> pd.DataFrame:
        x, z = (draw(rng, n, np.full(n, first), shift).clip(low, high) for first in (True, False))
        z = np.zeros(n) if law in {"normal", "t2"} else z  # then the differences themselves follow the law
        return pd.DataFrame({"x": x, "z": z, "apart": x - z})

    every = [table() for _ in range(runs)]
    view = asked_of(every, {}, bounds={"x": (low, high), "z": (low, high), "apart": (low - high, high - low)})
    answers = [view.wilcoxon("x", "z", method=method, epsilon=epsilon) for method in ("rank", "sign")]
    exact = [stats.wilcoxon(df.apart, zero_method="pratt").pvalue for df in every]
    return rejecting([*answers, view.ttest("apart", epsilon=epsilon)], exact)


def rejecting(answers: list[Any], exact: list[float]) -> list[float]:
    """How often each rejects, scipy last."""
    ours = (float(np.mean([each.rejected for _, each in one.items()])) for one in answers)
    return [*ours, float(np.mean(np.array(exact) <= 0.05))]


@tables.add(
    *("asked", "data", "shift", "rows", "ε", "private groups, or ranks", "public groups, or signs", "by means"),
    *("no noise", "expected of the first two"),
)
def inference_powers(runs: int = 200) -> Rows:
    """Rank tests at level .05, of tables whose tails, skewness or zeros a mean does not bear."""
    cells = [(*cell, n, expected) for *cell, sizes in POWERS for n, expected in sizes.items()]
    for at, (name, law, shift, epsilon, n, expected) in enumerate(cells):
        rng = np.random.default_rng((61, at))
        asked = of_pairs if name == "wilcoxon" else partial(of_groups, name)
        found = parts(f"{name} {law} {shift} {n} {epsilon}", partial(asked, law, shift, n, epsilon, rng, runs))
        yield name, LAWS[law][2], f"{shift:g}", n, f"{epsilon:g}", *(f"{each:.2f}" for each in found), expected


if __name__ == "__main__":
    tables.main()
