"""Errors and times of answers, beside those of other libraries.

    python tests/benchmarks/peers.py peers_eda --resume FILE

Other libraries answer in environments of their own, made where there are none, in the folder that the variable
``DFPRIVACY_PEERS`` names, or in the user's cache: `peers_ask.py` has what each is asked, a case each.
"""

from __future__ import annotations

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
from harness import Rows, Tables, parts, peer, protected
from peers_ask import BINS, CATEGORIES, HIGH, LOW, OUTCOME, QUARTILES, REGRESSORS, SPREAD, often

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


if __name__ == "__main__":
    tables.main()
