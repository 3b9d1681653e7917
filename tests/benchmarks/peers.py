"""Errors, times and powers of answers, beside those of other libraries and of what others have published.

    python tests/benchmarks/peers.py peers_eda --resume FILE

Other libraries answer in environments of their own, made where there are none, in the folder that the variable
``DFPRIVACY_PEERS`` names, or in the user's cache: `peers_ask.py` has what each is asked, a case each.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from errors import fitted
from harness import Array, Bools, Rng, Rows, Tables, parts, peer, protected
from peers_ask import BINS, CATEGORIES, HIGH, LOW, OUTCOME, QUARTILES, REGRESSORS, SPREAD, often
from scipy import fft, stats
from scipy.optimize import isotonic_regression

import dfprivacy as dp
from dfprivacy_inference.curves import cumulative_hazard

tables = Tables(__doc__)
Truths = dict[str, tuple[Any, float]]


# Everyday questions at epsilon 1, asked of each library as its users ask it, a call for each answer

LIBRARIES = {  # seconds of a task, its name, and the rows beyond which an answer takes half a minute and more
    "diffprivlib": (30, "diffprivlib", np.inf),
    "opendp": (5, "OpenDP", np.inf),
    "smartnoise": (5, "SmartNoise", np.inf),
    "pipelinedp": (10, "PipelineDP", 100_000),
    "tumult": (10, "Tumult", 10_000),
}
SIZES = (10_000, 100_000, 1_000_000)
FRESH: dict[str, Any] = {"epsilon": 1, "fresh": True}


def everyday(n: int) -> tuple[pd.DataFrame, Truths]:
    """A normal column x in [0, 100] and a column c of eight categories; its numbers, and the units of errors."""
    rng, shares = np.random.default_rng(1), np.arange(1, CATEGORIES + 1) / sum(range(CATEGORIES + 1))
    frame = pd.DataFrame({"x": rng.normal(45, 12, n).clip(LOW, HIGH), "c": rng.choice(CATEGORIES, n, p=shares)})
    x, sd = frame["x"], float(frame["x"].std())
    return frame, {
        "count": (len(x), 1.0),
        "sum": (x.sum(), sd * len(x)),
        "mean": (x.mean(), sd),
        "var": (x.var(), sd**2),
        "std": (sd, sd),
        "median": (x.median(), sd),
        "quartiles": (x.quantile(QUARTILES), sd),
        "histogram": (np.histogram(x, BINS, range=(LOW, HIGH))[0], 1.0),
        "value_counts": (frame["c"].value_counts().sort_index(), 1.0),
        "group means": (x.groupby(frame["c"]).mean(), sd),
    }


def lines(n: int) -> tuple[pd.DataFrame, Truths]:
    """Five normal regressors, an outcome y and one z by log-odds, -1 at the mean; the slopes of its fits."""
    import statsmodels.api as sm

    rng, most = np.random.default_rng(1), max(REGRESSORS)
    x = rng.normal(size=(n, most)).clip(-SPREAD, SPREAD)
    mean = x @ np.resize([0.5, -0.5, 0.0], most)
    y = (mean + rng.normal(size=n)).clip(-OUTCOME, OUTCOME)
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(most)])
    frame, known = frame.assign(y=y, z=rng.random(n) < 1 / (1 + np.exp(1 - mean))), {}
    for q in REGRESSORS:
        X = sm.add_constant(x[:, :q])
        known[f"ols of {q}"] = (np.linalg.lstsq(X, frame["y"], rcond=None)[0][1:], 1.0)
        known[f"logit of {q}"] = (sm.Logit(frame["z"], X).fit(disp=False).params.to_numpy()[1:], 1.0)
    return frame, known


def questions(view: Any, relation: str) -> dict[str, Callable[[], Any]]:
    """What is asked of ours; answers are numbers."""

    def number(name: str, **more: Any) -> Callable[[], float]:
        return lambda: float(getattr(view, name)("x", **more, **FRESH))

    def quartiles(**more: Any) -> Callable[[], Any]:
        return lambda: view.quantile("x", QUARTILES, **more, **FRESH).values

    asked = {name: number(name) for name in ("sum", "mean")} | {"mean, filled": number("mean", nan_policy="fill")}
    asked |= {name: number(name) for name in ("var", "std", "median")}
    asked |= {"quartiles": quartiles(), "quartiles, covers='table'": quartiles(covers="table")}
    asked["histogram"] = lambda: view.histogram("x", BINS, **FRESH).counts
    asked["value_counts"] = lambda: view.value_counts("c", sort=False, **FRESH).counts
    if relation == "add_remove":
        asked["count"] = lambda: float(view.count(**FRESH))
        asked["group means"] = lambda: [*map(float, view.group_by("c").mean("x", **FRESH).releases)]
    return asked


def regressions(view: Any, _: str) -> dict[str, Callable[[], Any]]:
    """The slopes of ours."""

    def slopes(method: str, outcome: str, q: int) -> Callable[[], Any]:
        names = [f"x{i}" for i in range(q)]
        return lambda: [*getattr(view, method)(outcome, names, **FRESH).params.values()][1:]

    both = itertools.product((("ols", "y"), ("logit", "z")), REGRESSORS)
    return {f"{method} of {q}": slopes(method, outcome, q) for (method, outcome), q in both}


def error(answers: Any, true: Any, unit: float) -> tuple[float, float]:
    """The mean absolute difference, in units, and its standard error."""
    true = np.atleast_1d(np.asarray(true, dtype=float))
    off = np.abs(np.asarray(answers, dtype=float).reshape(-1, true.size) - true).mean(axis=1) / unit
    return float(off.mean()), float(off.std() / np.sqrt(len(off)))


def own(frame: pd.DataFrame, truth: Truths, ask_of: Callable[..., dict[str, Callable[[], Any]]]) -> list[Any]:
    """Errors and times of ours, by relation and task."""
    bounds: dict[str, Any] = {"x": (LOW, HIGH), "y": (-OUTCOME, OUTCOME)}
    bounds |= {f"x{i}": (-SPREAD, SPREAD) for i in range(max(REGRESSORS))}
    terms = {"bounds": bounds, "categories": {"c": [*range(CATEGORIES)], "z": [False, True]}}
    terms = {what: {name: each for name, each in of.items() if name in frame} for what, of in terms.items()}
    found = []
    for relation in ("replace_one", "add_remove"):
        view = protected(frame, neighbors=relation, **terms)
        for task, ask in ask_of(view, relation).items():
            answers, seconds = often(ask, 10)
            found.append([relation, task, *error(answers, *truth[task.partition(",")[0]]), seconds])
    return found


def theirs(what: str, library: str, frame: pd.DataFrame, truth: Truths) -> list[Any]:
    """Errors and times of another library."""
    seconds, _, most = LIBRARIES[library]
    python = peer(library) if len(frame) <= most else None
    if python is None:
        return []
    with tempfile.TemporaryDirectory() as made:
        outcomes = {name: frame[name].to_numpy() for name in ("c", "y", "z") if name in frame}
        np.savez(Path(made) / "table.npz", x=frame.drop(columns=[*outcomes]).to_numpy().squeeze(), **outcomes)
        asked, script = library + "_regression" * (what == "regression"), Path(__file__).with_name("peers_ask.py")
        command = [python, script, asked, "table.npz", "answers.json", str(seconds)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=made, env={"PATH": "/usr/bin:/bin"})
        every = json.loads((Path(made) / "answers.json").read_text(encoding="utf-8"))
    return [[relation, task, *error(each, *truth[task]), took] for relation, task, each, took in every]


def beside(what: str, drawn: Callable[[int], Any], ask_of: Any, libraries: tuple[str, ...], most: int) -> Rows:
    """Everyday questions of tables of up to `most` rows."""
    sizes = [n for n in SIZES if n <= most]
    found: dict[tuple[int, str], dict[tuple[str, str], tuple[float, float, float]]] = {}
    for n in sizes:
        frame, truth = drawn(n)
        asked = {library: partial(theirs, what, library, frame, truth) for library in libraries}
        for library, measure in {**asked, "dfprivacy": partial(own, frame, truth, ask_of)}.items():
            told = parts(f"{what}, {library}, {n}", measure)
            found[n, library] = {(relation, task): tuple(rest) for relation, task, *rest in told}
    for (relation, task), n in itertools.product(found[sizes[0], "dfprivacy"], sizes):
        ours, less = found[n, "dfprivacy"][relation, task], []
        others = {LIBRARIES[of][1]: found[n, of].get((relation, task.partition(",")[0])) for of in libraries}
        for name, other in others.items():
            if other is not None and ours[0] - other[0] > 3 * np.hypot(ours[1], other[1]):
                less.append(name)
        yield relation, task, f"{n:,}", short(ours), *map(short, others.values()), ", ".join(less) or "–"


def short(measured: tuple[float, float, float] | None) -> str:
    """An error, its standard error, and a time."""
    if measured is None:
        return "–"
    mean, spread, seconds = measured
    took = f"{1000 * seconds:.2g} ms" if seconds < 0.1 else f"{seconds:.2g} s"
    return f"{mean:.2g} ± {spread:.1g}, {took}"


@tables.add(
    "relation", "question", "rows", "dfprivacy", *(name for _, name, _ in LIBRARIES.values()), "clearly less"
)
def peers_eda(most: int = 10**6) -> Rows:
    """Sums, means, quantiles and counts; "filled" counts what is missing, as the others do."""
    return beside("eda", everyday, questions, tuple(LIBRARIES), most)


@tables.add("relation", "question", "rows", "dfprivacy", "diffprivlib", "OpenDP", "clearly less")
def peers_regression(most: int = 10**6) -> Rows:
    """Slopes, of one, three or five regressors; SmartNoise, PipelineDP and Tumult have no regression."""
    return beside("regression", lines, regressions, ("diffprivlib", "opendp"), most)


# Rank tests


def couch(rng: Rng, shift: float, n: int, runs: int) -> float:
    """Power of |D| with noise of the scale (n - 1)/ε at ε = 1 (Couch et al. 2019), of groups alike."""
    x, half = rng.normal(size=(runs, n)), n // 2
    x[:, :half] += shift
    d = stats.rankdata(x, axis=1)[:, :half].sum(axis=1) - half * (n + 1) / 2
    sd, draws = np.sqrt(half * (n - half) * (n + 1) / 12), 100_000
    null = np.abs(rng.normal(0, sd, draws)) + rng.laplace(0, n - 1, draws)
    return float((np.abs(d) + rng.laplace(0, n - 1, runs) > np.quantile(null, 0.95)).mean())


def f1(rng: Rng, k: int, n: int, runs: int) -> float:
    """Power of the F1 test at ε = 1, 70% of it for the sum between groups (Swanberg et al. 2019).

    Of normal groups of standard deviation .15 in [0, 1], each one above the next.
    """
    group = np.arange(n) % k

    def statistic(u: Array) -> tuple[Array, Array]:
        means = np.stack([u[:, group == j].mean(axis=1) for j in range(k)], axis=1)
        between = np.abs(means[:, group] - u.mean(axis=1, keepdims=True)).sum(axis=1)
        within = np.abs(u - means[:, group]).sum(axis=1)
        between += rng.laplace(0, 4 / 0.7, len(u))
        noisy = within + rng.laplace(0, 3 / 0.3, len(u))
        return between / (k - 1) / np.maximum(noisy / (n - k), 1e-9), within

    def drawn(spread: float, step: float, count: int) -> Array:
        return np.clip(0.5 + spread * rng.normal(size=(count, n)) + step * ((k - 1) / 2 - group), 0, 1)

    found, within = statistic(drawn(0.15, 0.15, runs))
    null, _ = statistic(drawn(np.sqrt(np.pi / 2) * within.mean() / (n - k), 0.0, 4000))
    return float((found > np.quantile(null, 0.95)).mean())


@tables.add("groups", "apart", "rows", "ours", "Couch et al.", "F1")
def peers_ranks(runs: int = 200) -> Rows:
    """Powers of tests of groups at level .05 and ε = 1, ours by `dp.power`."""
    rng = np.random.default_rng(71)

    def ours(method: str, n: int, effect: float, spread: float, ends: tuple[int, int], groups: int) -> str:
        terms = {"bounds": {"x": ends}, "categories": {"g": list("abcdefgh"[:groups])}, "runs": runs}
        asked = (method, "x", {"by": "g"})
        found = dp.power(asked, n=n, epsilon=1, assume={"effect": effect, "spread": spread}, **terms)
        return f"{found.shares[0][0]:.2f}"

    for shift, n in ((1.0, 20), (1.0, 40), (1.0, 80), (0.5, 100), (0.5, 200), (0.7, 60), (0.3, 600)):
        own_power = ours("mannwhitneyu", n, shift, 1, (-5, 5), 2)
        yield 2, f"{shift:g} sd", n, own_power, f"{couch(rng, shift, n, 4000):.2f}", ""
    for k, n in ((3, 45), (3, 60), (3, 90), (3, 290), (5, 60)):
        yield k, "steps of 1 sd", n, ours("kruskal", n, 1, 0.15, (0, 1), k), "", f"{f1(rng, k, n, 1000):.2f}"


# Regression

PUBLISHED = {1.0: ".89 to .99", 2.0: ".45 to .49", 5.0: ".18 to .20", 10.0: ".092 to .101"}  # by dp-statsmodels
SLOPES = (
    *((1000, (1.0, 2.0), 4.0, 15.0, epsilon) for epsilon in PUBLISHED),
    (1000, (0.5,), 3.0, 5.0, 1.0),
    (5000, (0.5, -0.3, 0.0), 3.0, 5.0, 1.0),
    (20_000, (0.5, -0.3, 0.0), 3.0, 5.0, 1.0),
    (5000, (0.4, 0.4, 0.0, -0.2, 0.1), 3.0, 5.0, 2.0),
)


def adassp(rng: Rng, X: Array, y: Array, epsilon: float, delta: float = 1e-6) -> Array:
    """Least squares with an adaptive ridge (Wang 2018, algorithm 2); rows of X and y lie in [-1, 1]."""
    d, third, log = X.shape[1], epsilon / 3, np.log(6 / delta)
    A, bound = X.T @ X, X.shape[1]  # of the squared norm of a row of X
    least = np.linalg.eigvalsh(A)[0] + np.sqrt(log) / third * bound * rng.normal() - log / third * bound
    ridge = max(0.0, np.sqrt(d * log * np.log(2 * d**2 / 0.05)) * bound / third - max(least, 0.0))
    noise = np.triu(rng.normal(size=(d, d)))
    A = A + np.sqrt(log) / third * bound * (noise + np.triu(noise, 1).T) + ridge * np.eye(d)
    return np.linalg.solve(A, X.T @ y + np.sqrt(log) / third * np.sqrt(bound) * rng.normal(size=d))


@tables.add("rows", "slopes", "bounds", "ε", "ours, rmse", "covers", "AdaSSP, rmse", "dp-statsmodels, rmse")
def peers_ols(runs: int = 100) -> Rows:
    """Errors of slopes, beside AdaSSP (δ = 1e-6) on the same tables and figures of dp-statsmodels (δ = 1e-5)."""
    rng = np.random.default_rng(73)
    for n, beta, wide, high, epsilon in SLOPES:
        mine, other, inside = [], [], []
        cell = {"beta": beta, "x": wide, "y": high, "epsilon": epsilon}
        for run in range(runs):
            x = rng.normal(size=(n, len(beta))).clip(-wide, wide)
            y = x @ beta + rng.normal(size=n)
            df = pd.DataFrame(x, columns=[f"x{j}" for j in range(len(beta))]).assign(y=y)
            _, (least, most, params, _) = fitted(df, cell, run)
            inside.append((least <= beta) & (np.array(beta) <= most))
            mine.append(params - beta)
            X = np.column_stack([np.ones(n), x / wide])
            other.append(adassp(rng, X, y.clip(-high, high) / high, epsilon)[1:] * high / wide - beta)
        what = n, ", ".join(f"{each:g}" for each in beta), f"x ±{wide:g}, y ±{high:g}", f"{epsilon:g}"
        shown = f"{np.sqrt(np.nanmean(np.square(mine))):.3f}", f"{np.mean(inside):.3f}", f"{rmse(other, 0):.3f}"
        yield *what, *shown, PUBLISHED[epsilon] if len(beta) == 2 else ""


# Survival curves


def studies() -> dict[str, tuple[Array, Bools, float]]:
    """Times, events, and an end of time that is known beforehand."""
    from statsmodels.datasets import heart

    lifelines = importlib.util.find_spec("lifelines")
    if lifelines is None or lifelines.origin is None:
        raise SystemExit("Install lifelines: its tables of survival are asked.")
    df, folder = heart.load_pandas().data, Path(lifelines.origin).parent / "datasets"
    lung, breast = pd.read_csv(folder / "lung.csv"), pd.read_csv(folder / "gbsg2.csv")
    return {
        "heart": (df["survival"].to_numpy(), df["censors"].to_numpy() == 1, 1800.0),
        "lung": (lung["time"].to_numpy(), lung["status"].to_numpy() == lung["status"].max(), 1100.0),
        "gbsg2": (breast["time"].to_numpy(), breast["cens"].to_numpy() == 1, 2700.0),
    }


def survival_of(d: Any, c: Any, n: Any = None) -> Array:
    """A product of 1 - d/r, with the number at risk counted down from the first: r_j = r_{j-1} - d - c."""
    d, c = np.asarray(d, dtype=float), np.asarray(c, dtype=float)
    n = d.sum() + c.sum() if n is None else n
    at_risk = np.asarray(n)[..., None] - np.cumsum(d + c, axis=-1) + d + c
    hazard = np.divide(d, at_risk, out=np.ones_like(d), where=at_risk > 0)
    return np.cumprod(1 - np.clip(hazard, 0, 1), axis=-1)


def risk_table(rng: Rng, d: Array, c: Array, epsilon: float, runs: int) -> Array:
    """Noise on the first number at risk, on events and on censored times (Gondara and Wang 2020)."""
    first = d.sum() + c.sum() + rng.laplace(0, 2 / epsilon, runs)
    d, c = (each + rng.laplace(0, 2 / epsilon, (runs, len(each))) for each in (d, c))
    return np.clip(np.minimum.accumulate(survival_of(d, c, first), axis=1), 0, 1)


def dp_matrix(rng: Rng, d: Array, c: Array, epsilon: float, runs: int) -> Array:
    """Noise on events and on censored times, rounded and clipped at 0; rows are known (Rahimian et al. 2023)."""
    noisy = [np.rint(each + rng.laplace(0, 2 / epsilon, (runs, len(each)))).clip(0) for each in (d, c)]
    return survival_of(*noisy, float(d.sum() + c.sum()))


def chances(d: Array, c: Array) -> Array:
    """The probability of an event in each interval, and of none: what DP-Prob adds noise to."""
    survival = np.append(1.0, survival_of(d, c))
    return np.append(-np.diff(survival), survival[-1])


def waves(d: Array, c: Array) -> Array:
    """The discrete cosine transform of the curve, which DP-Surv adds noise to."""
    return np.asarray(fft.dct(np.append(1.0, survival_of(d, c)), norm="ortho"))


def dp_prob(rng: Rng, d: Array, c: Array, scale: float, runs: int) -> Array:
    """Noise on the probability of each interval, clipped and normed (Rahimian et al.)."""
    noisy = np.clip(chances(d, c) + rng.laplace(0, scale, (runs, len(d) + 1)), 0, None)
    noisy /= np.maximum(noisy.sum(axis=1, keepdims=True), 1e-12)
    return 1 - np.cumsum(noisy, axis=1)[:, :-1]


def dp_surv(rng: Rng, d: Array, c: Array, scale: float, runs: int, kept: int) -> Array:
    """Noise on the first coefficients of the transform, the others 0, and the curve made to fall (the same)."""
    noisy = waves(d, c) + rng.laplace(0, scale, (runs, len(d) + 1))
    noisy[:, kept:] = 0
    curves = fft.idct(noisy, norm="ortho", axis=1)
    curves[:, 0] = 1.0
    return np.array([isotonic_regression(each, increasing=False).x for each in curves])[:, 1:].clip(0, 1)


def farthest(f: Callable[..., Array], d: Array, c: Array) -> Array:
    """How far another value of one row moves the first coordinates of what noise is added to, in L1."""
    cells, here = np.concatenate([d, c]), f(d, c)
    most = np.zeros(len(here))
    for old, new in itertools.permutations(range(len(cells)), 2):
        if cells[old]:
            moved = cells.copy()
            moved[old] -= 1
            moved[new] += 1
            most = np.maximum(most, np.cumsum(np.abs(f(*np.split(moved, 2)) - here)))
    return most


def our_curve(counts: Array, scale: float) -> Array:
    """Our curve, of noise of a scale."""
    return np.asarray(np.exp(-cumulative_hazard(counts, 6 * scale, 20 * scale)[0]))


def rmse(found: Any, exact: Any) -> float:
    """Root mean squared error."""
    return float(np.sqrt(np.mean(np.square(np.asarray(found) - exact))))


@tables.add(
    *("table", "rows", "intervals", "ε", "ours", "risk table", "DP-Matrix", "DP-Prob", "times ε"),
    *("with the noise for ε", "DP-Surv", "times ε", "with the noise for ε"),
)
def peers_curves(runs: int = 3000) -> Rows:
    """Errors of curves at the ends of intervals, from that without noise; and how far one row moves them.

    DP-Surv keeps as many coefficients as turn out best.
    """
    rng, few = np.random.default_rng(97), min(runs, 200)
    for (name, (t, event, end)), intervals in itertools.product(studies().items(), (10, 20)):
        edges, n = np.linspace(0, end, intervals + 1), len(t)
        d, c = (np.histogram(t[event == here], edges)[0] for here in (True, False))
        table = np.stack([d, c / 2, c / 2])  # censored in the middle of their interval
        exact, known = our_curve(table, 0.0), survival_of(d, c, float(n))
        prob = farthest(chances, d, c)[-1] * d.sum() / 2
        surv = farthest(waves, d, c)[:-1] / np.sqrt(np.arange(1, intervals + 1) * intervals) * n
        for epsilon in (0.1, 0.5, 1.0, 2.0, 10.0):
            b = 2 / epsilon
            shown = [rmse(our_curve(table + rng.laplace(0, b, (runs, *table.shape)), b), exact)]
            shown += [rmse(f(rng, d, c, epsilon, runs), known) for f in (risk_table, dp_matrix)]
            shown += [rmse(dp_prob(rng, d, c, times * b / d.sum(), runs), known) for times in (1.0, prob)]
            ways = []
            for times in (np.ones(intervals), surv):
                errors = {}
                for kept in range(1, intervals, 2):
                    scale = times[kept - 1] * np.sqrt(kept * intervals) / n / epsilon
                    errors[kept] = rmse(dp_surv(rng, d, c, scale, few, kept), known)
                best = min(errors, key=errors.__getitem__)
                ways += [errors[best], surv[best - 1]]
            cells = [*(f"{each:.3f}" for each in shown[:4]), f"{prob:.1f}", f"{shown[4]:.3f}"]
            cells += [f"{ways[0]:.3f}", f"{ways[1]:.1f}", f"{ways[2]:.3f}"]
            yield name, n, intervals, f"{epsilon:g}", *cells


if __name__ == "__main__":
    tables.main()
