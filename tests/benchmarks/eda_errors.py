"""How far exploration is off on real tables, beside OpenDP's Context API, diffprivlib and SmartNoise SQL.

    python tests/benchmarks/eda_errors.py --adult adult.csv
    python tests/benchmarks/eda_errors.py --peers ~/peers    # environments: opendp, diffprivlib, smartnoise

Every statistic is asked for alone with all of epsilon, many times. Ours is run whole, both halves, by a curator
whose noise is NumPy's (`eda_simulation.py`): that is fine here, where nothing is private. Each of the others
gives its own noisy answers in an environment of its own, which is made where there is none, in the user's cache. Of
what needs several of its questions, epsilon is split evenly among them; diffprivlib's histogram, whose noise is for
rows that come and go, gets half of epsilon where rows change. No value is missing: ours may leave out rows without
a value, which the others cannot, or count a fill value, which they do. OpenDP chooses quantiles among the values
of a grid where there is a step, and among 1,025 elsewhere. A question of theirs has a few seconds (a quantile of
diffprivlib takes a tenth of one) and as many answers as fit; a library that has not ended after --limit seconds is
left out.

An error is the mean absolute difference from the table's own number: of numbers and quantiles in standard
deviations of the column, of a variance in variances, of a sum in rows times standard deviations, of counts in
rows. Kept are the errors, and how many times ours the others' are: the geometric mean over columns, the least, and
in how many cells of column and epsilon another's is below ours by more than three standard errors, and by a tenth.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from eda_simulation import Simulated
from eda_tables import Table, tables
from results import recorded

from dfprivacy_eda import counts, describe, moments, quantiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Answers = dict[tuple[Any, ...], tuple[float, float]]  # an error, and its standard error

PEERS = {
    "opendp": ("opendp==0.16.0", "numpy", "scikit-learn<1.7"),
    "diffprivlib": ("diffprivlib==0.6.6", "scikit-learn<1.7"),
    "smartnoise": ("smartnoise-sql==1.0.10", "setuptools<81"),
    "pipelinedp": ("pipeline-dp==0.3.1",),
    "tumult": ("tmlt.analytics==0.21.0",),
}
NAMES = {"opendp": "OpenDP", "diffprivlib": "diffprivlib", "smartnoise": "SmartNoise"}
EPSILONS = (0.1, 0.5, 1.0)
RELATIONS = ("replace_one", "add_remove")
NUMBERS = ("mean", "var", "std", "sum", "count", "median", "quartiles", "histogram")
COUNTED = ("value_counts", "crosstab")
BINS = 20
QUARTILES = [0.25, 0.5, 0.75]
CANDIDATES = 1025
CLEARLY = 0.1
NOTHING = 0.005  # standard deviations by which a quantile may be off and be right


def truth(table: Table, column: str, statistic: str) -> tuple[np.ndarray, float]:
    """The table's own numbers, and the unit of errors."""
    x = table.frame[column]
    sd, rows = float(x.std()) if column in table.bounds else 1.0, len(x)
    of: dict[str, Callable[[], tuple[Any, float]]] = {
        "mean": lambda: (x.mean(), sd),
        "var": lambda: (x.var(), sd**2),
        "std": lambda: (sd, sd),
        "sum": lambda: (x.sum(), sd * rows),
        "count": lambda: (rows, 1.0),
        "median": lambda: (x.quantile(0.5, "lower"), sd),
        "quartiles": lambda: (x.quantile(QUARTILES, "lower"), sd),
        "histogram": lambda: (np.histogram(x, BINS, range=table.bounds[column])[0], 1.0),
        "value_counts": lambda: (x.value_counts().reindex(table.categories[column], fill_value=0), 1.0),
    }
    number, unit = of[statistic]()
    return np.atleast_1d(np.asarray(number, dtype=float)), unit


def crossed(table: Table) -> tuple[str, str]:
    """The two columns of categories."""
    first, second = table.categories
    return first, second


def cross(table: Table) -> np.ndarray:
    """Their combinations."""
    a, b = crossed(table)
    made = pd.crosstab(table.frame[a], table.frame[b])
    return made.reindex(index=table.categories[a], columns=table.categories[b], fill_value=0).to_numpy().ravel()


def error(answers: Any, true: np.ndarray, unit: float) -> tuple[float, float]:
    """The mean absolute difference, in units, and its standard error."""
    off = np.abs(np.asarray(answers, dtype=float).reshape(-1, true.size) - true).mean(axis=1) / unit
    return float(off.mean()), float(off.std() / np.sqrt(len(off)))


def averaged(errors: list[tuple[float, float]]) -> tuple[float, float]:
    """The mean of some errors."""
    means, spreads = np.transpose(errors)
    return float(means.mean()), float(np.sqrt((spreads**2).sum()) / len(means))


# Ours.


METHODS = {
    "mean": moments.mean,
    "var": moments.var,
    "std": moments.std,
    "sum": moments.total,
    "count": counts.count,
    "median": quantiles.median,
    "quartiles": quantiles.quantile,
    "histogram": counts.histogram,
    "value_counts": counts.value_counts,
    "crosstab": counts.crosstab,
}


def ask(curator: Simulated, table: Table, column: str, statistic: str, policy: str) -> Any:
    """One answer, as numbers."""
    said: dict[str, Any] = {"column": column, "nan_policy": policy}
    if statistic in {"median", "quartiles"}:
        said["step"] = table.steps.get(column)
    if statistic == "quartiles":
        said["q"] = QUARTILES
    elif statistic == "histogram":
        said["bins"] = BINS
    elif statistic == "value_counts":
        said["sort"] = False
    elif statistic == "crosstab":
        first, second = crossed(table)
        said = {"a": first, "b": second, "nan_policy": policy}
    elif statistic == "count":
        said = {"columns": [column], "nan_policy": policy}
    found = curator.ask(METHODS[statistic], **said)
    if statistic == "quartiles":
        return found.values  # noqa: PD011 - no frame
    return found.counts if statistic in {"histogram", *COUNTED} else float(found)


def ours(table: Table, statistics: tuple[str, ...], runs: int) -> Answers:
    """Errors of each statistic of each column, with missing values left out and filled in."""
    found: Answers = {}
    for relation in RELATIONS:
        curator = Simulated(table, relation, 1.0, np.random.default_rng(1))
        for statistic, column in questions(table, relation, statistics):
            true, unit = (cross(table), 1.0) if statistic == "crosstab" else truth(table, column, statistic)
            for curator.epsilon in EPSILONS:
                for policy in ("omit",) if statistic in COUNTED else ("omit", "fill"):
                    answers = [ask(curator, table, column, statistic, policy) for _ in range(runs)]
                    key = (relation, statistic, table.name, column, curator.epsilon, policy)
                    found[key] = error(answers, true, unit)
    return found


def questions(table: Table, relation: str, statistics: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Which statistic of which column."""
    for statistic in statistics:
        if statistic == "describe":
            continue  # of all columns
        if statistic == "count" and relation == "replace_one":
            continue  # it is public
        if statistic == "crosstab":
            yield statistic, " x ".join(crossed(table))
        elif statistic in COUNTED:
            yield statistic, crossed(table)[0]
        elif statistic == "count":
            yield statistic, next(iter(table.bounds))
        else:
            for column in table.bounds:
                yield statistic, column


def parts_of_describe(table: Table, relation: str, statistics: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Which five questions of each column a description is, where rows change."""
    if relation == "replace_one" and "describe" in statistics:
        for statistic in ("mean", "std", "quartiles"):
            for column in table.bounds:
                yield statistic, column


def described(table: Table, relation: str, runs: int) -> Answers:
    """Errors of one description of all columns of numbers: means over columns."""
    names, found = list(table.bounds), {}
    curator = Simulated(table, relation, 1.0, np.random.default_rng(2))
    for curator.epsilon in EPSILONS:
        cells: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for _ in range(runs):
            one = curator.ask(describe.describe, columns=names)
            for at, column in enumerate(names):
                shown = dict(zip(one.statistics, one.values[at], strict=True))  # noqa: PD011 - no frame
                cells["mean", column].append(shown["mean"])
                cells["std", column].append(shown["std"])
                cells["quartiles", column].append([shown[each] for each in ("25%", "50%", "75%")])
        for statistic in ("mean", "std", "quartiles"):
            each = [error(cells[statistic, column], *truth(table, column, statistic)) for column in names]
            key = (relation, f"describe: {statistic}", table.name, f"{len(names)} columns", curator.epsilon, "omit")
            found[key] = averaged(each)
    return found


# Theirs.


def environment(library: str, folder: Path | None) -> Path | None:
    """The Python of an environment with a library, made if it is not there."""
    import platformdirs

    home = (folder or Path(platformdirs.user_cache_dir("dfprivacy")) / "benchmarks") / library
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", *PEERS[library]]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"pip could not install {library}: {done.stderr.strip()[-500:]}", file=sys.stderr)
            return None
    return python


def written(table: Table, statistic: str, column: str, folder: Path) -> dict[str, Any]:
    """A column as the others read it, and its bounds."""
    file = folder / f"{table.name}-{statistic}-{column.replace(' ', '-')}.npy"
    asked: dict[str, Any] = {"file": str(file)}
    if statistic in COUNTED or statistic == "histogram":
        if statistic == "histogram":
            low, high = table.bounds[column]
            edges = np.linspace(low, high, BINS + 1)
            codes = np.clip(np.searchsorted(edges, table.frame[column], side="right") - 1, 0, BINS - 1)
            cells = BINS
        elif statistic == "value_counts":
            codes = pd.Categorical(table.frame[column], table.categories[column]).codes
            cells = len(table.categories[column])
        else:
            a, b = crossed(table)
            codes = pd.Categorical(table.frame[a], table.categories[a]).codes.astype(int)
            codes = codes * len(table.categories[b]) + pd.Categorical(table.frame[b], table.categories[b]).codes
            cells = len(table.categories[a]) * len(table.categories[b])
        np.save(file, np.asarray(codes, dtype=float))
        return asked | {"cells": cells}
    low, high = table.bounds[column]
    step = table.steps.get(column, (high - low) / (CANDIDATES - 1))
    np.save(file, table.frame[column].to_numpy(dtype=float))
    return asked | {"low": low, "high": high, "candidates": np.arange(low, high + step / 2, step).tolist()}


def theirs(
    library: str, python: Path, every: list[Table], statistics: tuple[str, ...], folder: Path, limit: float
) -> Answers:
    """Errors of a library's answers."""
    asked, keys, scored = [], [], []
    for table in every:
        for relation in RELATIONS:
            for epsilon in EPSILONS:
                for statistic, column in questions(table, relation, statistics):
                    said = {"statistic": statistic, "relation": relation, "epsilon": epsilon}
                    asked.append({**said, **written(table, statistic, column, folder)})
                    keys.append((relation, statistic, table.name, column, epsilon, library))
                    true = (cross(table), 1.0) if statistic == "crosstab" else truth(table, column, statistic)
                    scored.append(true)
                for statistic, column in parts_of_describe(table, relation, statistics):
                    share = epsilon * (3 if statistic == "quartiles" else 1) / (5 * len(table.bounds))
                    said = {"statistic": statistic, "relation": relation, "epsilon": share}
                    asked.append({**said, **written(table, statistic, column, folder)})
                    keys.append((relation, f"describe: {statistic}", table.name, column, epsilon, library))
                    scored.append(truth(table, column, statistic))
    (folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    script = Path(__file__).with_name("eda_peers.py")
    quiet = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, script, library, folder / "asked.json", folder / "answers.json"]
    try:
        subprocess.run(command, check=True, env=quiet, stdout=subprocess.DEVNULL, timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"{library} had no answers after {limit:.0f} seconds.", file=sys.stderr)
        return {}
    answers = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    errors: dict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
    sizes = {table.name: len(table.bounds) for table in every}
    for key, answer, scores in zip(keys, answers, scored, strict=True):
        relation, statistic, table, column, epsilon, _ = key
        place = f"{sizes[table]} columns" if statistic.startswith("describe") else column
        if answer is not None:
            errors[relation, statistic, table, place, epsilon, library].append(error(answer, *scores))
    return {key: averaged(values) for key, values in errors.items()}


def of_library(library: str, every: list[Table], statistics: tuple[str, ...], asked: argparse.Namespace) -> Answers:
    """Errors of a library's answers."""
    python = environment(library, asked.peers)
    if python is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        return theirs(library, python, every, statistics, Path(folder), asked.limit)


def of_ours(every: list[Table], statistics: tuple[str, ...], runs: int) -> Answers:
    """Errors of all of ours."""
    found: Answers = {}
    for table in every:
        found |= ours(table, statistics, runs)
        if "describe" in statistics:
            for relation in RELATIONS:
                found |= described(table, relation, runs)
    return found


def kept(name: str, folder: Path | None, measured: Callable[[], Answers]) -> Answers:
    """Errors as an earlier run kept them, or anew."""
    file = folder / f"{name}.json" if folder else None
    if file is not None and file.exists():
        return {tuple(key): tuple(value) for key, value in json.loads(file.read_text(encoding="utf-8"))}
    found = measured()
    if file is not None:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps([[key, value] for key, value in found.items()]), encoding="utf-8")
    return found


# The tables.


def main() -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", type=Path, help="the UCI Adult table, adult.data")
    parser.add_argument("--peers", type=Path, help="a folder of environments: opendp, diffprivlib, smartnoise")
    parser.add_argument("--kept", type=Path, help="a folder for the errors of each library: read, or written")
    parser.add_argument("--runs", type=int, default=300, help="answers of ours (default: 300)")
    parser.add_argument("--only", nargs="+", default=[*NUMBERS, *COUNTED, "describe"], help="some statistics")
    parser.add_argument("--limit", type=float, default=1800, help="seconds of another library (default: 1800)")
    asked = parser.parse_args()
    every = tables(asked.adult)
    statistics = tuple(name for name in (*NUMBERS, *COUNTED, "describe") if name in asked.only)
    found: Answers = {}
    for library in NAMES:
        found |= kept(library, asked.kept, partial(of_library, library, every, statistics, asked))
    found |= kept("dfprivacy", asked.kept, partial(of_ours, every, statistics, asked.runs))
    show(found, keep=set(asked.only) >= {*NUMBERS, *COUNTED, "describe"})
    return 0


def show(found: Answers, *, keep: bool) -> None:
    """Print the errors, and the summary."""
    names = {kind: title for kind, title in NAMES.items() if any(key[5] == kind for key in found)}
    kinds = ("omit", "fill", *names)
    rows = list(dict.fromkeys(key[:4] for key in found if key[5] in {"omit", "fill"}))
    heads = ("relation", "statistic", "column", "dfprivacy", "dfprivacy, filled", *names.values())
    with recorded("eda_errors", *heads, keep=keep) as row:
        for key in rows:
            cells = [" / ".join(short(found.get((*key, epsilon, kind))) for epsilon in EPSILONS) for kind in kinds]
            row(key[0], key[1], f"{key[2]}: {key[3]}", *(cell if cell != "– / – / –" else "–" for cell in cells))
    print()
    heads = (
        *heads[:2],
        *(f"{name} / ours" for name in names.values()),
        "least, and where",
        "cells",
        "clearly less",
    )
    with recorded("eda_errors_summary", *heads, keep=keep) as row:
        for relation, statistic in dict.fromkeys(key[:2] for key in rows):
            least, cells, all_cells, worse = (np.inf, "–"), [], 0, 0
            for kind, title in names.items():
                ratios: dict[float, list[float]] = defaultdict(list)
                for key in rows:
                    for epsilon in EPSILONS:
                        other = found.get((*key, epsilon, kind))
                        if key[:2] != (relation, statistic) or other is None:
                            continue
                        own = found.get((*key, epsilon, "fill"), found.get((*key, epsilon, "omit"), (0.0, 0.0)))
                        all_cells += 1
                        nothing = NOTHING if statistic.endswith(("median", "quartiles")) else 0.0
                        if max(own[0], other[0]) <= nothing:  # both are right
                            continue
                        ratio = max(other[0], nothing) / max(own[0], nothing)
                        worse += ratio < 1 - CLEARLY and own[0] - other[0] > 3 * np.hypot(own[1], other[1])
                        ratios[epsilon].append(ratio)
                        least = min(least, (ratio, f"{key[3]}, ε={epsilon:g}, {title}"))
                means = [float(np.exp(np.mean(np.log(ratios[epsilon])))) for epsilon in ratios]
                cells.append(" / ".join(f"{mean:.2g}" for mean in means) if means else "–")
            where = "–" if least[1] == "–" else f"{least[0]:.2g}: {least[1]}"
            row(relation, statistic, *cells, where, all_cells, worse)


def short(number: tuple[float, float] | None) -> str:
    """Two digits."""
    return "–" if number is None else f"{number[0]:.2g}"


if __name__ == "__main__":
    sys.exit(main())
