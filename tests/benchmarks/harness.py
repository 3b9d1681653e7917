"""What all benchmarks share: tables by name, with what measures their rows, and what measures need.

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
import datetime as dt
import inspect
import itertools
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dfprivacy as dp

Row = tuple[object, ...]
Rows = Iterator[Row]
Array = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Rng = np.random.Generator

FOLDER = Path(__file__).parent / "results"
PACKAGES = ("dfprivacy", "numpy", "scipy", "pandas", "polars", "pyarrow", "opendp")
DATA = Path(os.environ.get("DFPRIVACY_TEST_DATA", ""))
"""The folder of public tables that are not shipped: adult.csv, housing.csv and winequality-white.csv, of UCI."""


@dataclass(frozen=True)
class Case:
    """The columns of a table, and the measure, which yields its rows."""

    columns: tuple[str, ...]
    measure: Callable[..., Iterable[Row]]


class Tables:
    """The tables of a module."""

    def __init__(self, about: str | None) -> None:
        self.about, self.cases = about, dict[str, Case]()

    def add(self, *columns: str, name: str = "") -> Any:
        """Make the table of a measure known, by a name, or by the measure's."""

        def known(measure: Any) -> Any:
            self.cases[name or measure.__name__] = Case(columns, measure)
            return measure

        return known

    def main(self) -> None:
        """Measure what the command line names, print it and keep it."""
        layout = argparse.RawDescriptionHelpFormatter
        parser = argparse.ArgumentParser(description=self.about, formatter_class=layout)
        parser.add_argument("--resume", type=Path, metavar="FILE", help="keep parts here, and go on from there")
        names = parser.add_subparsers(dest="name", required=True, metavar="TABLE")
        for name, case in self.cases.items():
            told = getattr(case.measure, "func", case.measure).__doc__.splitlines()[0]
            one = names.add_parser(name, help=told.replace("%", "%%"))
            for size in inspect.signature(case.measure).parameters.values():
                one.add_argument(f"--{size.name}", type=type(size.default), default=size.default)
        asked = vars(parser.parse_args())
        parts.read(asked.pop("resume"))
        name = asked.pop("name")
        with recorded(name, *self.cases[name].columns) as row:
            for cells in self.cases[name].measure(**asked):
                row(*cells)
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
    known = {"epsilon": 10**6, "accounting": "basic", "ledger": "memory:"}
    return dp.protect(frame, f"benchmark {next(count)}", **known | terms)


def grouped(frames: list[pd.DataFrame], public: tuple[str, ...] = (), **terms: Any) -> Any:
    """Protect tables in one account, each a group of it: who asks pays once, and hears of each table."""
    runs = list(range(len(frames)))
    frame = pd.concat(frames, keys=runs, names=["run"]).reset_index("run")
    categories = {**terms.pop("categories", {}), "run": runs}
    known = () if terms.get("neighbors") == "add_remove" else ("run", *public)
    return protected(frame, categories=categories, public=known, **terms).group_by("run")


def answers(view: Any, name: str, /, *args: Any, **asked: Any) -> list[Any]:
    """Ask each group of a view; none answers where there are too few rows."""
    try:
        return [answer for _, answer in getattr(view, name)(*args, **asked).items()]
    except dp.ArgumentError:
        return []


def met(goal: bool) -> str:
    """Say whether a goal is met."""
    return "yes" if goal else "**no**"


# Tables of results: printed as they are measured, and kept in files from which `report.py` makes the documents


@contextmanager
def recorded(name: str, *columns: str) -> Iterator[Callable[..., None]]:
    """Print a table as it is measured, and keep it when it is complete."""
    rows: list[list[str]] = []

    def row(*cells: object) -> None:
        rows.append([str(cell) for cell in cells])
        print(line(rows[-1]), flush=True)

    print(markdown(columns, []), flush=True)
    yield row
    write({
        "name": name,
        "command": command(),
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "versions": {"python": platform.python_version(), **{each: version(each) for each in PACKAGES}},
        "columns": list(columns),
        "rows": rows,
    })  # fmt: skip


def command() -> str:
    """What was called, without the file of an interrupted run."""
    script = Path(sys.argv[0]).resolve().relative_to(FOLDER.parent).as_posix()
    told = shlex.join(["python", f"tests/benchmarks/{script}", *sys.argv[1:]])
    return re.sub(r" --resume[ =]\S+", "", told)


def write(result: dict[str, Any]) -> None:
    """Write a result, a line for each row."""
    FOLDER.mkdir(exist_ok=True)
    rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in result["rows"])
    text = json.dumps({**result, "rows": []}, indent=2, ensure_ascii=False)
    text = text.replace('"rows": []', f'"rows": [\n{rows}\n  ]')
    (FOLDER / f"{result['name']}.json").write_text(text + "\n", encoding="utf-8")


def read(name: str) -> dict[str, Any]:
    """Read a result."""
    result: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return result


def markdown(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    heads = list(columns)
    return "\n".join([line(heads), "|" + "---|" * len(heads), *map(line, rows)])


def line(cells: Iterable[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


# Other libraries

PEERS = {
    "opendp": ("opendp==0.16.0", "numpy", "scikit-learn<1.7"),
    "diffprivlib": ("diffprivlib==0.6.6", "scikit-learn<1.7"),
    "smartnoise": ("smartnoise-sql==1.0.10", "setuptools<81"),
    "pipelinedp": ("pipeline-dp==0.3.1",),
    "tumult": ("tmlt.analytics==0.21.0",),
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
