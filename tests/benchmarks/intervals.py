"""How often intervals cover what they are for, at a nominal 95%; and levels of what is asked as a user asks it.

python tests/benchmarks/intervals.py inference_shares --runs 1000
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from operator import add, sub, truediv
from typing import Any

import numpy as np
import pandas as pd
from designs import DATA as KINDS
from designs import Design, designs, exceeds
from harness import Array, Bools, Rng, Rows, Tables, answers, grouped, parts, problem, protected
from real import Table
from real import tables as real_tables
from scipy import stats

import dfprivacy as dp
from dfprivacy.inference.counts import NoisyCounts, arcsine_share, difference, odds_ratio, ratio, share_of_angle
from dfprivacy.inference.engine import infer
from dfprivacy.laws import NoiseLaw
from dfprivacy.testing import seeded_noise
from dfprivacy.wording import noise_share

tables = Tables(__doc__)
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
    view, truth = protected(table.frame, **terms), known(table.frame[name], ends)
    hits = defaultdict[str, list[bool]](list)
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

WHAT = ("mean", "variance", "covariance", "correlation")


def pair(design: Design, correlation: float, rng: Rng) -> pd.DataFrame:
    """A table of two columns, of which the second repeats a share of the first; each has missing values."""
    n = sum(design.sizes)
    x, z = (np.clip(KINDS[design.data](rng, n), design.low, design.high) for _ in range(2))
    frame = pd.DataFrame({"x": x, "z": np.where(rng.random(n) < correlation, x, z)})
    return frame.mask(rng.random((n, 2)) < design.missing)


def misses(design: Design, correlation: float, runs: int, rng: Rng) -> list[Any]:
    """Shares of tables of which an interval misses; that have a correlation; that are noted as small."""
    drawn = np.clip(KINDS[design.data](np.random.default_rng(0), 2_000_000), design.low, design.high)
    truths = (float(drawn.mean()), float(drawn.var()), correlation * float(drawn.var()), correlation)
    view = design.view([pair(design, correlation, rng) for _ in range(runs)], design.way)
    found = answers(view, "moments", ["x", "z"], epsilon=design.epsilon, delta=1e-6)
    kinds = ("means", "mean_errors"), ("variances", "variance_errors"), ("covariances", "covariance_errors")
    rates = []
    for (of, errors), truth in zip((*kinds, ("correlations", "correlation_errors")), truths, strict=True):
        each, error = (np.array([getattr(one, name)[0] for one in found], dtype=float) for name in (of, errors))
        if each.ndim == 3:
            each, error = each[:, 0, 1], error[:, 0, 1]
        rates.append(float(np.mean(np.abs(each - truth) > 1.959963984540054 * error + 1e-12 * design.high)))
    small = np.mean([any(SMALL in note for note in one.notes) for one in found])
    return [rates, float(np.isfinite(each).mean()), float(small)]


SMALL = "fewer than"


@tables.add(
    *("designs", "tables", *(f"{what}: {each}" for what in WHAT for each in ("average", "least"))),
    *("with a correlation", "noted as small"),
)
def moments_coverage(runs: int = 1000) -> Rows:
    """Estimate ± 1.96 standard errors of ``moments``, of two columns that have a correlation of 0.7 or 0."""
    cells = list(itertools.product(designs(), (0.7, 0.0)))
    with seeded_noise(1):
        found = [
            parts(f"moments_coverage {at} {runs}", partial(misses, *cell, runs, np.random.default_rng([1, at])))
            for at, cell in enumerate(cells)
        ]
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
    compared = (lambda each, of=of: of(*each) for of in (difference, ratio, odds_ratio))
    parameters = (lambda each: arcsine_share(each[0]), *compared)
    sizes = ((50, 50), (200, 200), (1000, 100), (5000, 5000))
    shares = ((0.3, 0.2), (0.05, 0.05), (0.005, 0.02), (0.95, 0.6))
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
    cells = ((228, 10, 1.0), (500, 10, 1.0), (500, 10, 0.5), (2000, 20, 1.0), (20_000, 20, 0.5))
    for n, intervals, epsilon in cells:
        edges, frames = np.linspace(0, 1000, intervals + 1), (times(rng, n) for _ in range(runs))
        at, truth = np.searchsorted(edges[1:], (200, 300, 500, 700)), survival_at(edges[1:])
        frames = [pd.DataFrame({"time": t, "died": event}) for t, event in frames]
        view = grouped(frames, bounds={"time": (0, 1000)}, categories={"died": [False, True]})
        with seeded_noise(41):
            found = answers(view, "kaplan_meier", "time", "died", edges, epsilon=epsilon)
        low, high = (np.array([getattr(each, name)[0] for each in found]) for name in ("lows", "highs"))
        covered = [((low <= truth) & (truth <= high))[:, at]]
        for name, value in (("median", middle), ("restricted_mean", mean)):
            ends = np.array([[getattr(each, f"{name}_{of}")[0] for of in ("low", "high")] for each in found])
            covered.append((ends[:, :1] <= value) & (value <= ends[:, 1:]))
        rates = [f"{rate:.3f}" for rate in np.hstack(covered).mean(axis=0)]
        width = f"{np.median((high - low)[:, at[2]]):.2f}"
        yield n, intervals, f"{epsilon:g}", ", ".join(rates[:4]), *rates[4:], width


SURVIVAL = (
    *((50, 0.5, 1.0, 1.0), (228, 0.5, 1.0, 1.0), (2000, 0.5, 0.5, 1.0), (1000, 0.2, 1.0, 1.0)),
    *((228, 0.5, 1.0, 1.6), (500, 0.5, 1.0, 1.6), (2000, 0.5, 0.5, 1.3), (1000, 0.2, 1.0, 1.5)),
)


@tables.add("rows", "first group", "ε", "hazard ratio", "private groups", "public groups")
def inference_survival(runs: int = 1000) -> Rows:
    """How often the survival test rejects at 5%: levels where the hazard ratio is 1, else powers."""
    rng, terms = np.random.default_rng(51), {"categories": {"g": [0, 1], "died": [False, True]}}
    for n, of_first, epsilon, hazard in SURVIVAL:
        group = (np.arange(n) >= round(of_first * n)).astype(int)
        drawn = (times(rng, n, np.where(group == 0, 1.0, hazard)) for _ in range(runs))
        frames, found = [pd.DataFrame({"time": t, "died": event, "g": group}) for t, event in drawn], []
        for public in ((), ("g",)):
            with seeded_noise(51):
                view = grouped(frames, public, bounds={"time": (0, 1020)}, **terms)
                told = answers(view, "survival_test", "time", "died", "g", epsilon=epsilon)
            found.append(np.mean([each.pvalue <= 0.05 for each in told]))
        yield n, f"{of_first:.0%}", f"{epsilon:g}", f"{hazard:g}", *(f"{rate:.3f}" for rate in found)


def trial(rng: Rng, n: int, ratio: float, share: float, shape: float, censored: float) -> pd.DataFrame:
    """Times of two groups, up to 1, of which a part is censored, half of it at the end."""
    group = (rng.random(n) >= share).astype(int)
    hazard = -np.log(censored / 2) * np.where(group == 0, ratio, 1.0)
    t, end = (rng.exponential(size=n) / hazard) ** (1 / shape), rng.random(n)
    end = np.where(rng.random(n) < censored / 2, end, 1.0)
    return pd.DataFrame({"time": np.minimum(t, end), "died": t < end, "g": group})


@tables.add("rows", "ε", "covered", "without a warning", "warned", "rejected at ratio 1", "noise")
def inference_hazards(runs: int = 1000) -> Rows:
    """How often intervals hold the hazard ratio, over ratios, groups, laws, censoring and intervals."""
    rng, terms = np.random.default_rng(61), {"categories": {"g": [0, 1], "died": [False, True]}}
    alike = list(itertools.product((1.0, 0.5, 2.0), (0.5, 1 / 6)))
    cells = [(*each, (1.0, 0.6, 2.0)[at % 3], (0.1, 0.4, 0.7)[at // 2]) for at, each in enumerate(alike)]
    for n, epsilon in itertools.product((500, 2000, 20_000), (0.3, 1.0, 5.0)):
        rates, covered, warned, rejected, noise = [], [], [], [], []
        for at, cell in enumerate(cells):
            view = grouped([trial(rng, n, *cell) for _ in range(runs)], bounds={"time": (0, 1)}, **terms)
            edges = np.linspace(0, 1, (5, 10)[at % 2] + 1)
            with seeded_noise(at):
                found = answers(view, "hazard_ratio", "time", "died", edges, by="g", epsilon=epsilon)
            covered += [each.low <= cell[0] <= each.high for each in found]
            warned += [any("Uninformative" in note for note in each.notes) for each in found]
            rates.append(np.mean(covered[-runs:]))
            for each in found:
                error, of_noise = float(each.standard_error), float(each.noise_standard_error)
                noise.append(noise_share(error, math.sqrt(max(error**2 - of_noise**2, 0))) or 0.0)
            rejected += [each.pvalue <= 0.05 for each in found if cell[0] == 1]
        quiet = ~np.array(warned)
        shown = (
            f"{np.mean(rates):.3f} ({min(rates):.3f} to {max(rates):.3f})",
            f"{np.mean(np.array(covered)[quiet]):.3f}",
        )
        last = f"{np.mean(rejected):.3f}", f"{np.median(np.array(noise)[quiet]):.0%}"
        yield n, f"{epsilon:g}", *shown, f"{np.mean(warned):.0%}", *last


# Arithmetic on releases


def mixed(rng: Rng, rows: int = 1000) -> pd.DataFrame:
    """Two numbers that go together, and two kinds of groups that do as well."""
    x = rng.normal(size=rows)
    y = 0.5 * x + np.sqrt(1 - 0.5**2) * rng.normal(size=rows)
    g = rng.random(rows) < 0.4
    h = np.where(rng.random(rows) < 0.3 + 0.2 * g, "u", "v")
    columns = {"x": (3 + x + 0.5 * g).clip(0, 8), "y": (2 + y).clip(0, 8), "g": np.where(g, "a", "b"), "h": h}
    return pd.DataFrame(columns)


def combined(f: Callable[..., float], *releases: Any, **named: Any) -> Any:
    """Combine the estimates of t-tests."""
    return dp.combine(lambda *every: f(*(each.estimate for each in every)), *releases, **named)


def means(view: Any, e: float) -> tuple[Any, Any]:
    """Two answers about the same rows."""
    return view.ttest("x", epsilon=e), view.ttest("y", epsilon=e)


def groups(view: Any, e: float) -> tuple[Any, Any]:
    """Two answers about other rows."""
    found = view.group_by("g").ttest("x", epsilon=e)
    return found["a"], found["b"]


def again(view: Any, e: float, **named: Any) -> Any:
    """Add one answer to another about the same column."""
    return combined(add, view.ttest("x", epsilon=e), view.ttest("x", epsilon=e, **named))


def of_counts(f: Callable[..., float], v: Any, e: float) -> Any:
    """Compute something of the four counts of two columns."""
    return dp.combine(lambda counts: f(*np.ravel(counts.raw)), v.crosstab("g", "h", epsilon=e))


def twice(a: float, b: float) -> float:
    """A difference in units of the sum."""
    return (a - b) / (a + b)


def apart(a: float, b: float, c: float, d: float) -> float:
    """Difference of two shares of the four counts of a table."""
    return float(a / (a + b) - c / (c + d))


def log_odds(a: float, b: float, c: float, d: float) -> float:
    """Log odds ratio of the four counts of a table."""
    return float(np.log(a * d / b / c))


def slope_of(v: Any, e: float) -> Any:
    """The slope of a regression."""
    return dp.combine(lambda fit: fit.params["x"], v.ols("y ~ x", epsilon=e))


Asked = dict[str, tuple[float, Callable[[Any, float], Any]]]
OF_TABLES: Asked = {
    "ttest(x) - ttest(y)": (0.2, lambda v, e: sub(*means(v, e))),
    "ttest(x) / ttest(y)": (0.2, lambda v, e: truediv(*means(v, e))),
    "the same, the divisor 4 standard errors from 0": (0.03, lambda v, e: truediv(*means(v, e))),
    "(a - b) / (a + b), each release twice": (0.2, lambda v, e: combined(twice, *means(v, e))),
    "ttest(x) + ttest(x, popmean=3): one measurement": (0.2, lambda v, e: again(v, e, popmean=3)),
    "ttest(x) + ttest(x), fresh: two measurements": (0.2, lambda v, e: again(v, e, fresh=True)),
    "group a - group b, of one answer by group": (0.5, lambda v, e: combined(sub, *groups(v, e))),
    "share(h = u) where g = a, less that where g = b": (0.5, partial(of_counts, apart)),
    "log odds ratio of crosstab(g, h)": (0.5, partial(of_counts, log_odds)),
    "slope of ols(y ~ x), two stages": (5.0, slope_of),
    "refine(ttest(x)), measured twice": (0.2, lambda v, e: v.refine(v.ttest("x", epsilon=e), epsilon=e)),
}
PEOPLE: dict[str, Any] = {"covers": "population"}
OF_PEOPLE: Asked = {  # the truth of a population, and the question
    "ttest(x), group a - group b: other rows": (0.5, lambda v, e: combined(sub, *groups(v, e), **PEOPLE)),
    "ttest(x) - ttest(y): the same rows": (1.2, lambda v, e: combined(sub, *means(v, e), **PEOPLE)),
}


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


def pvalue_and_ends(answer: Any) -> tuple[Any, Any, Any]:
    """Of a test and its interval."""
    return answer.pvalue, *answer.confidence_interval()


def first_difference(each: Any) -> tuple[Any, Any, Any]:
    """Of shares."""
    return math.nan, each.difference[1].low, each.difference[1].high


def at_400(each: Any) -> tuple[Any, Any, Any]:
    """Of a survival curve."""
    return math.nan, each.lows[0][3], each.highs[0][3]


def slope(fit: Any) -> tuple[float, float, float]:
    """Of the slope of z."""
    return fit.pvalues["z"], fit.low["z"], fit.high["z"]


EDGES = np.linspace(0, 1000, 11)
Told = Callable[[Any], tuple[Any, Any, Any]]
QUESTIONS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], Told | None, float]] = {
    # the method, what is asked, what tells p-value and interval, and what this should hold
    "mannwhitneyu": ("mannwhitneyu", ("x", "g"), {}, pvalue_and_ends, 0.5),
    "kruskal": ("kruskal", ("x", "k"), {}, None, math.nan),
    "wilcoxon, ranks": ("wilcoxon", ("x", "z"), {"method": "rank"}, None, math.nan),
    "wilcoxon, signs": ("wilcoxon", ("x", "z"), {"method": "sign"}, None, math.nan),
    "anova": ("anova", ("x", "k"), {}, None, math.nan),
    "mcnemar": ("mcnemar", ("before", "after"), {"success": True}, pvalue_and_ends, 1.0),
    "proportions": ("proportions", ("before", "g"), {"success": True}, first_difference, 0.0),
    "survival_test": ("survival_test", ("time", "died", "g"), {}, pvalue_and_ends, 0.5),
    "kaplan_meier": ("kaplan_meier", ("time", "died", EDGES), {}, at_400, float(survival_at(EDGES[4]))),
    "ols": ("ols", ("x", ["z"]), {}, slope, 0.0),
    "logit": ("logit", ("before", ["z"]), {}, slope, 0.0),
}


@tables.add("asked", "tables", "refused", "0.05", "0.01", "worst at .05", "with a note", "covers", "worst")
def inference_asked(runs: int = 200) -> Rows:
    """Of five designs, private groups and then public: how often a true hypothesis is rejected without a note."""
    found = defaultdict[str, list[Any]](list)
    for at, design in enumerate(designs(5, seed=53)):
        for way, view in design.views(np.random.default_rng((59, at)), runs).items():

            def measured(view: Any = view, asked: Any = None, e: float = design.epsilon) -> list[Any]:
                name, args, more, tells, truth = asked
                told = []
                for each in answers(view, name, *args, epsilon=e, **more):
                    p, low, high = tells(each) if tells else (each.pvalue, None, None)
                    told.append([p, math.nan if low is None else low <= truth <= high, bool(each.notes)])
                return told

            for name, asked in QUESTIONS.items():
                found[name].append(parts(f"{name}, {design}, {way}, {runs}", partial(measured, asked=asked)))
    for name, of in found.items():
        given = [np.array(each, dtype=float).T for each in of if each]
        silent = [np.where(noted > 0, 1.0, p) for p, _, noted in given]
        rates = np.array([[np.mean(p <= level) for level in (0.05, 0.01)] for p in silent])
        told = [f"{each:.3f}" for each in (*rates.mean(axis=0), rates[:, 0].max())]
        covers, noted = np.array([each[1].mean() for each in given]), np.mean([each[2].mean() for each in given])
        ends = [f"{covers.mean():.3f}", f"{covers.min():.3f}"] if not np.isnan(covers).any() else ["", ""]
        shown = told if not np.isnan(given[0][0]).any() else [""] * 3
        yield name, len(given), len(of) - len(given), *shown, f"{noted:.0%}", *ends


def zeros(rng: Rng, n: int, first: Any, shift: float) -> Array:
    """Mostly zeros: a tenth are not, of the first group more."""
    return np.where(rng.random(n) < 0.1 + shift * first, rng.exponential(size=n), 0.0)


def shifted(draw: Callable[[Rng, int], Array]) -> Callable[..., Array]:
    """Values of which those of the first group are shifted."""
    return lambda rng, n, first, shift: draw(rng, n) + shift * first


LAWS: dict[str, tuple[Callable[..., Array], tuple[float, float], str]] = {  # draws, bounds, and what it is called
    "t2": (shifted(lambda rng, n: rng.standard_t(2, n)), (-20, 20), "t(2), in ±20"),
    "lognormal": (shifted(lambda rng, n: rng.lognormal(size=n)), (0, 30), "lognormal, in 0 to 30"),
    "zeros": (zeros, (0, 10), "10% not 0, in 0 to 10"),
    "normal": (shifted(lambda rng, n: rng.normal(size=n)), (-5, 5), "normal, in ±5"),
}
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
    private, public = (
        grouped(every, of, bounds={"x": ends}, categories={"g": list(range(k))}) for of in ((), ("g",))
    )
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
    ends = {"x": (low, high), "z": (low, high), "apart": (low - high, high - low)}
    view = grouped(every, bounds=ends)
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
