"""Everyday questions at epsilon 1, beside diffprivlib, OpenDP, SmartNoise, PipelineDP and Tumult: errors and times.

    python tests/benchmarks/peers.py --peers ~/peers    # environments, made where there are none
    python tests/benchmarks/peers.py regression --peers ~/peers

A table of 10,000, 100,000 or a million rows has a normal column x in [0, 100] and a column c of eight categories.
Each library answers as its users ask it, by a call for each answer (`peers_ask.py`), at its defaults; where it
takes several questions for one of these, they share epsilon evenly. Ours leaves out rows without a value, of which
there are none, which the others cannot; "filled" counts them, as they do. An error is the mean absolute difference
from the table's own number: of x in standard deviations (of a variance in variances, of a sum in rows times
standard deviations), of counts in rows. The time is the processor's, the least of a call, with the table in memory.
Kept is each error with its standard error and each time, and where another's error is below ours by more than three
standard errors.

``regression``: one, three or five independent normal regressors, bounded by three standard deviations;
1/2, -1/2, 0, 1/2 and -1/2 are the slopes of an outcome, bounded by five, and of another's log-odds, -1 at the mean.
Errors are of slopes, against the fit of the table. SmartNoise, PipelineDP and Tumult have no regression.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from eda_errors import environment, error, kept
from peers_ask import BINS, CATEGORIES, HIGH, LOW, OUTCOME, QUARTILES, REGRESSORS, SPREAD, often
from results import recorded

import dfprivacy as dp

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARIES = {"diffprivlib": 30, "opendp": 5, "smartnoise": 5, "pipelinedp": 10, "tumult": 10}  # seconds of a task
NAMES = ("diffprivlib", "OpenDP", "SmartNoise", "PipelineDP", "Tumult")
SIZES = (10_000, 100_000, 1_000_000)
SLOW = {"pipelinedp": 100_000, "tumult": 10_000}  # rows, beyond which an answer takes half a minute and more
Found = dict[tuple[str, str], tuple[float, float, float]]


def table(n: int) -> pd.DataFrame:
    """The rows."""
    rng = np.random.default_rng(1)
    shares = np.arange(1, CATEGORIES + 1) / sum(range(CATEGORIES + 1))
    return pd.DataFrame({"x": rng.normal(45, 12, n).clip(LOW, HIGH), "c": rng.choice(CATEGORIES, n, p=shares)})


def line(n: int) -> pd.DataFrame:
    """Rows of a regression."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, max(REGRESSORS))).clip(-SPREAD, SPREAD)
    mean = x @ np.resize([0.5, -0.5, 0.0], max(REGRESSORS))
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(max(REGRESSORS))])
    y = (mean + rng.normal(size=n)).clip(-OUTCOME, OUTCOME)
    return frame.assign(y=y, z=rng.random(n) < 1 / (1 + np.exp(1 - mean)))


def fits(frame: pd.DataFrame) -> dict[str, tuple[np.ndarray, float]]:
    """The table's own slopes."""
    of = {}
    for q in REGRESSORS:
        x = sm.add_constant(frame.iloc[:, :q].to_numpy())
        of[f"ols of {q}"] = (np.linalg.lstsq(x, frame["y"], rcond=None)[0][1:], 1.0)
        of[f"logit of {q}"] = (sm.Logit(frame["z"], x).fit(disp=False).params.to_numpy()[1:], 1.0)
    return of


def regressions(view: dp.PrivateFrame, *, come_and_go: bool) -> dict[str, Callable[[], Any]]:
    """What is asked of ours."""

    def slopes(method: str, outcome: str, q: int) -> Callable[[], Any]:
        names = [f"x{i}" for i in range(q)]
        return lambda: [*getattr(view, method)(outcome, names, epsilon=1, fresh=True).params.values()][1:]

    both = (("ols", "y"), ("logit", "z"))
    return {f"{method} of {q}": slopes(method, outcome, q) for method, outcome in both for q in REGRESSORS}


def truths(frame: pd.DataFrame) -> dict[str, tuple[np.ndarray, float]]:
    """The table's own numbers, and the units of errors."""
    x, c = frame["x"], frame["c"]
    sd = float(x.std())
    of: dict[str, tuple[Any, float]] = {
        "count": (len(x), 1.0),
        "sum": (x.sum(), sd * len(x)),
        "mean": (x.mean(), sd),
        "var": (x.var(), sd**2),
        "std": (sd, sd),
        "median": (x.median(), sd),
        "quartiles": (x.quantile(QUARTILES), sd),
        "histogram": (np.histogram(x, BINS, range=(LOW, HIGH))[0], 1.0),
        "value_counts": (c.value_counts().sort_index(), 1.0),
        "group means": (x.groupby(c).mean(), sd),
    }
    return {task: (np.atleast_1d(np.asarray(true, dtype=float)), unit) for task, (true, unit) in of.items()}


def own(what: str, frame: pd.DataFrame) -> Found:
    """Errors and times of ours."""
    found: Found = {}
    truth, ask_of = (truths(frame), questions) if what == "eda" else (fits(frame), regressions)
    bounds = {
        "x": (LOW, HIGH),
        "y": (-OUTCOME, OUTCOME),
        **{f"x{i}": (-SPREAD, SPREAD) for i in range(max(REGRESSORS))},
    }
    categories = {"c": [*range(CATEGORIES)], "z": [False, True]}
    for relation in ("replace_one", "add_remove"):
        view = dp.protect(
            frame,
            f"{len(frame)} {relation}",
            epsilon=10**6,
            neighbors=relation,
            ledger="memory:",
            accounting="basic",
            bounds={name: each for name, each in bounds.items() if name in frame},
            categories={name: each for name, each in categories.items() if name in frame},
        )
        for task, ask in ask_of(view, come_and_go=relation == "add_remove").items():
            answers, seconds = often(ask, 10)
            found[relation, task] = (*error(answers, *truth[task.partition(",")[0]]), seconds)
    return found


def questions(view: dp.PrivateFrame, *, come_and_go: bool) -> dict[str, Callable[[], Any]]:
    """What is asked of ours; answers are numbers."""
    said = {"epsilon": 1, "fresh": True}

    def number(name: str, **more: Any) -> Callable[[], float]:
        return lambda: float(getattr(view, name)("x", **more, **said))

    def quartiles(**more: Any) -> Callable[[], Any]:
        return lambda: view.quantile("x", QUARTILES, **more, **said).values  # noqa: PD011 - no frame

    asked: dict[str, Callable[[], Any]] = {
        "sum": number("sum"),
        "mean": number("mean"),
        "mean, filled": number("mean", nan_policy="fill"),
        "var": number("var"),
        "std": number("std"),
        "median": number("median"),
        "quartiles": quartiles(),
        "quartiles, covers='table'": quartiles(covers="table"),
        "histogram": lambda: view.histogram("x", BINS, **said).counts,
        "value_counts": lambda: view.value_counts("c", sort=False, **said).counts,
    }
    if come_and_go:
        asked["count"] = lambda: float(view.count(**said))
        asked["group means"] = lambda: [*map(float, view.group_by("c").mean("x", **said).releases)]
    return asked


def theirs(what: str, library: str, frame: pd.DataFrame, folder: Path | None) -> Found:
    """Errors and times of another library."""
    python = environment(library, folder)
    if python is None or len(frame) > SLOW.get(library, np.inf):
        return {}
    with tempfile.TemporaryDirectory() as made:
        at, answers = Path(made) / "table.npz", Path(made) / "answers.json"
        truth = truths(frame) if what == "eda" else fits(frame)
        outcomes = frame[[name for name in ("c", "y", "z") if name in frame]]
        columns = {name: each.to_numpy() for name, each in outcomes.items()}
        np.savez(at, x=frame.drop(columns=outcomes).to_numpy().squeeze(), **columns)
        script = Path(__file__).with_name("peers_ask.py")
        asked = library if what == "eda" else f"{library}_regression"
        command = [python, script, asked, at, answers, str(LIBRARIES[library])]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=made, env={"PATH": "/usr/bin:/bin"})
        every = json.loads(answers.read_text(encoding="utf-8"))
    return {(relation, task): (*error(each, *truth[task]), seconds) for relation, task, each, seconds in every}


def main() -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("eda", "regression"), default="eda")
    parser.add_argument("--peers", type=Path, help=f"a folder of environments: {', '.join(LIBRARIES)}")
    parser.add_argument("--kept", type=Path, help="a folder for the errors of each library: read, or written")
    asked = parser.parse_args()
    what = asked.what
    libraries = LIBRARIES if what == "eda" else ("diffprivlib", "opendp")
    names = NAMES[: len(libraries)]
    found: dict[tuple[int, str], Found] = {}
    for n in SIZES:
        frame = table(n) if what == "eda" else line(n)
        for library in libraries:
            measured = partial(theirs, what, library, frame, asked.peers)
            found[n, library] = kept(f"{library}-{n}", asked.kept, measured)
        found[n, "dfprivacy"] = kept(f"dfprivacy-{n}", asked.kept, partial(own, what, frame))
    with recorded(f"peers_{what}", "relation", "question", "rows", "dfprivacy", *names, "clearly less") as row:
        for key, n in itertools.product(found[SIZES[0], "dfprivacy"], SIZES):
            relation, task = key
            ours = found[n, "dfprivacy"][key]
            others = [found[n, library].get((relation, task.partition(",")[0])) for library in libraries]
            less = [
                name
                for name, other in zip(names, others, strict=True)
                if other is not None and ours[0] - other[0] > 3 * np.hypot(ours[1], other[1])
            ]
            row(relation, task, f"{n:,}", short(ours), *map(short, others), ", ".join(less) or "–")
    return 0


def short(measured: tuple[float, float, float] | None) -> str:
    """An error, its standard error, and a time."""
    if measured is None:
        return "–"
    mean, spread, seconds = measured
    took = f"{1000 * seconds:.2g} ms" if seconds < 0.1 else f"{seconds:.2g} s"
    return f"{mean:.2g} ± {spread:.1g}, {took}"


if __name__ == "__main__":
    sys.exit(main())
