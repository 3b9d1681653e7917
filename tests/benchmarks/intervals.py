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
from typing import Any

import numpy as np
import pandas as pd
from designs import DATA as KINDS
from designs import Design, designs, exceeds
from harness import Array, Bools, Rng, Rows, Tables, answers, grouped, parts, problem, protected
from real import ALL, BOUNDS, HOUSES, POOR, ROOMS, USED, Table, read
from real import tables as real_tables

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
            one = Table(name, table.frame[[name]].astype(float), {name: ends}, {})
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


# Regression

THREE, SHARPER = [0.5, -0.3, 0.0], {"n": 1000, "beta": [1.0, 2.0], "x": 4.0, "y": 15.0}
LINES: dict[str, dict[str, Any]] = {
    "1 regressor": {"n": 1000, "beta": [0.5]},
    "1 regressor, n 5000": {"n": 5000, "beta": [0.5]},
    "3 regressors, n 2000": {"n": 2000, "beta": THREE},
    "3 regressors, n 5000": {"n": 5000, "beta": THREE},
    "3 regressors, n 20000": {"n": 20_000, "beta": THREE},
    "3, correlation .9, n 20000": {"n": 20_000, "beta": THREE, "rho": 0.9},
    "8 regressors, n 20000": {"n": 20_000, "beta": [0.3, -0.3, 0.3, -0.3, 0.0, 0.0, 0.2, 0.1]},
    "uneven residuals, n 50000": {"n": 50_000, "beta": [0.5], "errors": "uneven", "y": 9.0},
    "t(3) residuals, n 2000": {"n": 2000, "beta": [0.5], "errors": "t3", "y": 20.0},
    "rows come and go, n 5000": {"n": 5000, "beta": THREE, "neighbors": "add_remove"},
    "a fifth missing, n 5000": {"n": 5000, "beta": THREE, "missing": 0.2},
    **{f"x in ±4, y in ±15, n 1000, epsilon {e}": {**SHARPER, "epsilon": e} for e in (1, 2, 5, 10)},
    "logistic, 1 regressor, n 1000": {"n": 1000, "beta": [0.5], "shift": -1.0},
    "logistic, 1 regressor, n 5000": {"n": 5000, "beta": [0.5], "shift": -1.0},
    "logistic, 3 regressors, n 20000": {"n": 20_000, "beta": [0.5, -0.5, 0.0], "shift": -1.0},
    "logistic, rare (5 %), n 20000": {"n": 20_000, "beta": [0.5, -0.5, 0.0], "shift": -3.2},
    "logistic, strong, n 20000": {"n": 20_000, "beta": [1.5, -1.0, 0.0], "shift": -1.0},
}


def drawn(rng: Rng, cell: dict[str, Any]) -> pd.DataFrame:
    """Draw a table."""
    n, beta, rho = cell["n"], np.array(cell["beta"]), cell.get("rho", 0.0)
    x = np.sqrt(1 - rho) * rng.normal(size=(n, len(beta))) + np.sqrt(rho) * rng.normal(size=(n, 1))
    x = x.clip(-2.999, 2.999)
    df = pd.DataFrame(x, columns=[f"x{i}" for i in range(len(beta))])
    if "shift" in cell:
        return df.assign(y=rng.random(n) < 1 / (1 + np.exp(-(cell["shift"] + x @ beta))))
    errors = cell.get("errors", "")
    residuals = rng.standard_t(3, n) / np.sqrt(3) if errors == "t3" else rng.normal(size=n)
    if errors == "uneven":
        residuals *= np.sqrt(0.25 + 0.75 * x[:, 0] ** 2)
    df["y"] = x @ beta + residuals
    if "missing" in cell:
        df.loc[rng.random(n) < cell["missing"], "x0"] = np.nan
    return df


def fitted(df: pd.DataFrame, cell: dict[str, Any], seed: int) -> tuple[Any, list[Array]]:
    """Ask a table for its regression; the answer, and the low and high ends, slopes and errors of all."""
    names, wide, logistic = [f"x{i}" for i in range(len(cell["beta"]))], cell.get("x", 3.0), "shift" in cell
    high = cell.get("y", 5.0)
    bounds = dict.fromkeys(names, (-wide, wide)) | ({} if logistic else {"y": (-high, high)})
    categories = {"y": [False, True]} if logistic else {}
    view = protected(df, bounds=bounds, categories=categories, neighbors=cell.get("neighbors", "replace_one"))
    with seeded_noise(seed):
        fit = (view.logit if logistic else view.ols)("y", names, epsilon=cell.get("epsilon", 1), fresh=True)
    parts = fit.low, fit.high, fit.params, fit.bse
    return fit, [np.array([values[name] for name in names], dtype=float) for values in parts]


@tables.add("cell", "coverage", "standard error", "rmse", "informative")
def regression(runs: int = 200) -> Rows:
    """Linear and logistic regression: 95% intervals of slopes, their median standard error, and their errors."""
    for name, cell in LINES.items():
        rng, beta, told = np.random.default_rng(1), np.array(cell["beta"]), []
        for seed in range(runs):
            fit, (low, high, params, bse) = fitted(drawn(rng, cell), cell, seed)
            told.append(((low <= beta) & (beta <= high), bse, params - beta, fit.informative))
        inside, errors, missed, informative = zip(*told, strict=True)
        shown = np.median(errors), np.sqrt(np.nanmean(np.square(missed)))
        yield name, f"{np.mean(inside):.3f}", *(f"{each:.4f}" for each in shown), f"{np.mean(informative):.2f}"


@tables.add("formula", "ε", "regressor", "private", "95% interval", "on the rows", "says")
def price() -> Rows:
    """What predicts the price of a house, of 506 districts of Boston: each answer of docs/howto/price.md, once."""
    table = read("housing.csv", HOUSES)
    if table is None:
        return
    df = table[list(USED)].rename(columns=USED)
    view = protected(df, epsilon=100, bounds=BOUNDS, categories={"river": [0, 1]})
    print(view.explain("ols", ROOMS, epsilon=2))
    print(view.power(("ols", POOR), epsilon=[0.5, 1, 2, 5], assume={"effect": 1.0, "spread": 6}, runs=100))
    for formula, epsilon in ((POOR, 1), (POOR, 5), (ROOMS, 1), (ROOMS, 5), (ROOMS, 20), (ALL, 5), (ALL, 20)):
        fit = view.ols(formula, epsilon=epsilon)
        names = [name for name in fit.params if name != "Intercept"]
        X = np.column_stack([np.ones(len(df)), *(df["river" if name.startswith("C(") else name] for name in names)])
        exact = np.linalg.lstsq(X.astype(float), df["price"].to_numpy(), rcond=None)[0][1:]
        for name, value in zip(names, exact.tolist(), strict=True):
            found = "none" if fit.params[name] is None else f"{fit.params[name]:.2f}"
            says, ends = "informative" if fit.informative else "uninformative", (fit.low[name], fit.high[name])
            yield formula, f"{epsilon:g}", name, found, "{:.2f} to {:.2f}".format(*ends), f"{value:.2f}", says


if __name__ == "__main__":
    tables.main()
