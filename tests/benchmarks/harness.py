"""What all benchmarks share: tables by name, with what measures their rows, and what measures and pictures need.

A module of benchmarks makes its tables known, a case each, and is called with the name of one:

    tables = Tables(__doc__)

    @tables.add("design", "level")
    def levels_of_something(runs: int = 200) -> Iterator[Row]:
        yield "few rows", "0.049"

    if __name__ == "__main__":
        tables.main()

``python tests/benchmarks/levels.py levels_of_something --runs 1000`` prints that table as its rows come, and keeps
it in ``results/`` when it is complete. Arguments of the measure are options of the command. ``--resume FILE`` keeps
what is given to `parts` in a file: a run that was interrupted goes on where it stopped. The exit status is 1 if a
measure told of a `problem`.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from results import recorded

Row = tuple[object, ...]
Rows = Iterator[Row]
Array = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Rng = np.random.Generator

HERE = Path(__file__).parent
DATA = Path(os.environ.get("DFPRIVACY_TEST_DATA", ""))
"""The folder of public tables that are not shipped: adult.csv, housing.csv and winequality-white.csv, of UCI."""


@dataclass(frozen=True)
class Case:
    """The columns of a table, or of several of one measure; the measure, which yields their rows; a picture."""

    columns: dict[str, tuple[str, ...]]
    measure: Callable[..., Iterable[Row]]
    draw: Callable[[], object] | None = None


class Tables:
    """The tables of a module."""

    def __init__(self, about: str | None) -> None:
        self.about, self.cases = about, dict[str, Case]()

    def add(self, *columns: str, name: str = "", draw: Callable[[], object] | None = None) -> Callable[[Any], Any]:
        """Make a table known, under the name of its measure if no other is said, and what draws it when kept."""

        def known(measure: Any) -> Any:
            own = name or measure.__name__
            self.cases[own] = Case({own: columns}, measure, draw)
            return measure

        return known

    def add_several(self, name: str, **columns: tuple[str, ...]) -> Callable[[Any], Any]:
        """Make tables known that come of one measure: it yields the name of one before each row, in their order."""

        def known(measure: Any) -> Any:
            self.cases[name] = Case(columns, measure)
            return measure

        return known

    def rows(self, name: str, **sizes: Any) -> Iterator[tuple[str, Row]]:
        """Measure a case; the table of each row, and the row."""
        case = self.cases[name]
        for row in case.measure(**sizes):
            yield (name, row) if list(case.columns) == [name] else (str(row[0]), row[1:])

    def main(self) -> None:
        """Measure what the command line names, print it and keep it."""
        parser = argparse.ArgumentParser(
            description=self.about, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--redraw", action="store_true", help="draw what is kept, and measure nothing")
        parser.add_argument("--resume", type=Path, metavar="FILE", help="keep parts here, and go on from there")
        names = parser.add_subparsers(dest="name", required=True, metavar="TABLE")
        for name, case in self.cases.items():
            told = getattr(case.measure, "func", case.measure).__doc__.splitlines()[
                0
            ]  # of what a case is a part of
            one = names.add_parser(name, help=told.replace("%", "%%"))
            for size in inspect.signature(case.measure).parameters.values():
                one.add_argument(f"--{size.name}", type=type(size.default), default=size.default)
        asked = vars(parser.parse_args())
        parts.read(asked.pop("resume"))
        case, redraw = self.cases[asked["name"]], asked.pop("redraw")
        measured = itertools.groupby(self.rows(**asked), lambda each: each[0])
        for name, rows in measured if not redraw else ():
            with recorded(name, *case.columns[name]) as row:
                for _, cells in rows:
                    row(*cells)
            print()
        if case.draw:
            case.draw()
        sys.exit(problem.count > 0)


class Problem:
    """What is said of a result that is not as it should be."""

    count = 0

    def __call__(self, text: str) -> None:
        """Say it, and fail in the end."""
        self.count += 1
        print(text, file=sys.stderr, flush=True)


class Parts:
    """Parts of a long run, kept in a file as they come, if there is one."""

    def __init__(self) -> None:
        self.file: Path | None = None
        self.known: dict[str, Any] = {}

    def read(self, file: Path | None) -> None:
        """Take the parts of a run before."""
        self.file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else []
        self.known |= dict(map(json.loads, lines))

    def __call__(self, key: str, measure: Callable[[], Any]) -> Any:
        """Take a part from the file, or measure it and write it there."""
        if key not in self.known:
            found = measure()
            if self.file is None:
                return found
            self.known[key] = found
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, found], default=lambda number: number.item()) + "\n")
        return self.known[key]


problem, parts, count = Problem(), Parts(), itertools.count()


def protected(frame: Any, **terms: Any) -> Any:
    """Protect a table under a name of its own; it can pay for much, in memory, unless the terms say otherwise."""
    import dfprivacy as dp

    known = {"epsilon": 10**6, "accounting": "basic", "ledger": "memory:"}
    return dp.protect(frame, f"benchmark {next(count)}", **known | terms)


def met(goal: bool) -> str:
    """Say whether a goal is met."""
    return "yes" if goal else "**no**"


# Other libraries

PEERS = {
    "opendp": ("opendp==0.16.0", "numpy", "scikit-learn<1.7"),
    "diffprivlib": ("diffprivlib==0.6.6", "scikit-learn<1.7"),
    "smartnoise": ("smartnoise-sql==1.0.10", "setuptools<81"),
    "pipelinedp": ("pipeline-dp==0.3.1",),
    "tumult": ("tmlt.analytics==0.21.0",),
    "dcor": ("dcor==0.7",),
    "dpmm": ("dpmm==0.1.9",),
}


def peer(library: str) -> Path | None:
    """The Python of a library's environment in the user's cache, made if it is not there; None if it cannot be."""
    import platformdirs

    home = Path(os.environ.get("DFPRIVACY_PEERS") or Path(platformdirs.user_cache_dir("dfprivacy")) / "benchmarks")
    python = home / library / "bin" / "python"
    if not python.exists():
        venv.create(home / library, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", *PEERS[library]]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            problem(f"pip could not install {library}: {done.stderr.strip()[-500:]}")
            return None
    return python


# Pictures

GREY = "#808080"  # is read on light and on dark


def panels(rows: int, columns: int, size: tuple[float, float], **asked: Any) -> Any:
    """A figure and its axes, in inks that are read on light and on dark."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "dfprivacy", "font.family": "sans-serif"}
    mpl.rcParams |= {**dict.fromkeys(inked, GREY), "axes.titlesize": "small", "axes.facecolor": "none"}
    return plt.subplots(rows, columns, figsize=size, sharey=True, layout="constrained", **asked)


def save(figure: Any, name: str) -> None:
    """Save a picture of the documents."""
    file = HERE.parents[1] / "docs/pictures" / f"{name}.svg"
    figure.savefig(file, transparent=True, metadata={"Date": None})
