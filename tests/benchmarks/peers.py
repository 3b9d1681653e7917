"""Everyday questions at epsilon 1, beside diffprivlib, OpenDP, SmartNoise, PipelineDP and Tumult: errors and times.

    python tests/benchmarks/peers.py --peers ~/peers    # environments, made where there are none

A table of 10,000, 100,000 or a million rows has a normal column x in [0, 100] and a column c of eight categories.
Each library answers as its users ask it, by a call for each answer (`peers_ask.py`), at its defaults; where it
takes several questions for one of these, they share epsilon evenly. Ours leaves out rows without a value, of which
there are none, which the others cannot; "filled" counts them, as they do. An error is the mean absolute difference
from the table's own number: of x in standard deviations (of a variance in variances, of a sum in rows times
standard deviations), of counts in rows. The time is the processor's, the least of a call, with the table in memory.
Kept is each error with its standard error and each time, and where another's error is below ours by more than three
standard errors.
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
from eda_errors import environment, error, kept
from peers_ask import BINS, CATEGORIES, HIGH, LOW, QUARTILES, often
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


def own(frame: pd.DataFrame) -> Found:
    """Errors and times of ours."""
    found: Found = {}
    truth = truths(frame)
    for relation in ("replace_one", "add_remove"):
        view = dp.protect(
            frame,
            f"{len(frame)} {relation}",
            epsilon=10**6,
            neighbors=relation,
            ledger="memory:",
            accounting="basic",
            bounds={"x": (LOW, HIGH)},
            categories={"c": [*range(CATEGORIES)]},
        )
        for task, ask in questions(view, come_and_go=relation == "add_remove").items():
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


def theirs(library: str, frame: pd.DataFrame, folder: Path | None) -> Found:
    """Errors and times of another library."""
    python = environment(library, folder)
    if python is None or len(frame) > SLOW.get(library, np.inf):
        return {}
    with tempfile.TemporaryDirectory() as made:
        at, answers = Path(made) / "table.npz", Path(made) / "answers.json"
        np.savez(at, x=frame["x"].to_numpy(), c=frame["c"].to_numpy())
        script = Path(__file__).with_name("peers_ask.py")
        command = [python, script, library, at, answers, str(LIBRARIES[library])]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=made, env={"PATH": "/usr/bin:/bin"})
        truth, every = truths(frame), json.loads(answers.read_text(encoding="utf-8"))
    return {(relation, task): (*error(each, *truth[task]), seconds) for relation, task, each, seconds in every}


def main() -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help=f"a folder of environments: {', '.join(LIBRARIES)}")
    parser.add_argument("--kept", type=Path, help="a folder for the errors of each library: read, or written")
    asked = parser.parse_args()
    found: dict[tuple[int, str], Found] = {}
    for n in SIZES:
        frame = table(n)
        for library in LIBRARIES:
            measured = partial(theirs, library, frame, asked.peers)
            found[n, library] = kept(f"{library}-{n}", asked.kept, measured)
        found[n, "dfprivacy"] = kept(f"dfprivacy-{n}", asked.kept, partial(own, frame))
    heads = ("relation", "question", "rows", "dfprivacy", *NAMES, "clearly less")
    with recorded("peers_eda", *heads) as row:
        for key, n in itertools.product(found[SIZES[0], "dfprivacy"], SIZES):
            relation, task = key
            ours = found[n, "dfprivacy"][key]
            others = [found[n, library].get((relation, task.partition(",")[0])) for library in LIBRARIES]
            less = [
                name
                for name, other in zip(NAMES, others, strict=True)
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
