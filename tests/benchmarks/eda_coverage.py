"""Coverage of the intervals of exploration, at a nominal 95%, of twelve real columns.

    python tests/benchmarks/eda_coverage.py --adult adult.csv

All eight columns of numbers of `eda_tables.py` as they are, and four of them with a tenth of the values missing; of
each table two columns of categories, and the correlations of all numbers. For a population, of which the table is a
sample, 2,000 rows are drawn each time, with replacement. The noise is NumPy's (`eda_simulation.py`), and intervals
are of 5,000 draws of it in place of 20,000, for time. Shown are the mean coverage over columns, and the least, of
the table's own number, or the population's. An interval of a quantile ends at an edge of an interval of values and
is wider than it need be. Exits with status 1 if one covers less than 95%, by more than four standard errors.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from eda_simulation import Simulated
from eda_tables import Table, tables
from results import Parts, recorded, resumable

from dfprivacy_eda import correlation, counts, describe, moments, quantiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EPSILONS = (0.1, 0.5, 1.0)
RELATIONS = ("replace_one", "add_remove")
QUARTILES = [0.25, 0.5, 0.75]
GAPPY = {"mdvis", "affairs", "hours", "capital_gain"}
SAMPLE = 2000
FEWER = 4  # times fewer runs of what takes long
NOMINAL = 0.95
TINY = 1e-9


def columns(file: Path | None) -> Iterator[tuple[str, Table]]:
    """Columns of numbers, each a table of its own, whole and some with gaps."""
    for table in tables(file):
        for name, ends in table.bounds.items():
            one = Table(name, table.frame[[name]].astype(float), {name: ends}, {}, {})
            yield f"{table.name}: {name}", one
            if name in GAPPY:
                yield f"{table.name}: {name}, a tenth missing", gappy(one, name)


def gappy(table: Table, name: str) -> Table:
    """The same with a tenth of the values missing."""
    gone = np.random.default_rng(1).random(len(table.frame)) < 0.1
    return replace(table, frame=table.frame.mask(pd.Series(gone), axis=0) if gone.any() else table.frame, name=name)


def intervals(found: Any) -> list[tuple[float, float]]:
    """The ends of the intervals of an answer."""
    if hasattr(found, "edges"):
        return list(zip(*(ends.tolist() for ends in found.intervals), strict=True))
    if hasattr(found, "q"):
        return list(zip(found.low, found.high, strict=True))
    return [(found.low, found.high)]


def known(x: pd.Series, ends: tuple[float, float]) -> dict[str, list[float]]:
    """The table's own numbers."""
    seen = x.dropna()
    return {
        "mean": [seen.mean()],
        "var": [seen.var()],
        "std": [seen.std()],
        "sum": [seen.sum()],
        "count": [float(len(seen))],
        "missing": [float(len(x) - len(seen))],
        "quartiles": seen.quantile(QUARTILES, "lower").tolist(),
        "histogram": np.histogram(seen, 10, range=ends)[0].astype(float).tolist(),
    }


METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "mean": (moments.mean, {}),
    "var": (moments.var, {}),
    "std": (moments.std, {}),
    "sum": (moments.total, {}),
    "count": (counts.count, {}),
    "missing": (counts.missing, {}),
    "quartiles": (quantiles.quantile, {"q": QUARTILES, "covers": "table"}),
    "histogram": (counts.histogram, {}),
}


def of_table(table: Table, relation: str, epsilon: float, runs: int, rng: np.random.Generator) -> dict[str, float]:
    """How often the intervals of each statistic hold the table's own numbers."""
    (name,) = table.bounds
    curator = Simulated(table, relation, epsilon, rng)
    truth, found = known(table.frame[name], table.bounds[name]), {}
    for statistic, (method, said) in METHODS.items():
        place = {"columns": [name]} if statistic in {"count", "missing"} else {"column": name}
        hit = []
        for _ in range(runs):
            ends = intervals(curator.ask(method, **place, **said))
            hit += [
                low - TINY <= number <= high + TINY
                for number, (low, high) in zip(truth[statistic], ends, strict=True)
            ]
        found[statistic] = float(np.mean(hit))
    inside: dict[str, list[bool]] = {}
    same = {"count": "count", "missing": "missing", "mean": "mean", "std": "std"}
    for _ in range(runs // FEWER):
        one = curator.ask(describe.describe, columns=[name])
        for at, row in enumerate(one.statistics):
            low, high = one.lows[0][at], one.highs[0][at]
            if low is not None:
                number = (
                    truth[same[row]][0] if row in same else truth["quartiles"][["25%", "50%", "75%"].index(row)]
                )
                kind = "describe: quartiles" if row not in same else f"describe: {row}"
                inside.setdefault(kind, []).append(low - TINY <= number <= high + TINY)
    return found | {kind: float(np.mean(hits)) for kind, hits in inside.items()}


def of_column(table: Table, relation: str, epsilon: float, runs: int, rng: np.random.Generator) -> dict[str, float]:
    """How often the intervals of one column hold what they are for."""
    found = of_table(table, relation, epsilon, runs, rng)
    return found | of_population(table, relation, epsilon, runs // FEWER, rng)


def of_population(
    table: Table, relation: str, epsilon: float, runs: int, rng: np.random.Generator
) -> dict[str, float]:
    """How often they hold those of a population, of which the table is a sample."""
    (name,) = table.bounds
    truth = known(table.frame[name], table.bounds[name])
    asked: dict[str, Callable[[Simulated], Any]] = {
        "mean": lambda curator: curator.ask(moments.mean, column=name, covers="population"),
        "quartiles": lambda curator: curator.ask(quantiles.quantile, column=name, q=QUARTILES, covers="population"),
    }
    hits: dict[str, list[bool]] = {kind: [] for kind in asked}
    for _ in range(runs):
        drawn = table.frame.sample(SAMPLE, replace=True, random_state=int(rng.integers(2**31)), ignore_index=True)
        curator = Simulated(replace(table, frame=drawn), relation, epsilon, rng)
        for kind, ask in asked.items():
            ends = intervals(ask(curator))
            hits[kind] += [
                low - TINY <= number <= high + TINY for number, (low, high) in zip(truth[kind], ends, strict=True)
            ]
    return {f"{kind}, population": float(np.mean(each)) for kind, each in hits.items()}


def of_categories(
    table: Table, relation: str, epsilon: float, runs: int, rng: np.random.Generator
) -> dict[str, float]:
    """How often the intervals of counts and of correlations hold the table's own."""
    curator, found = Simulated(table, relation, epsilon, rng), {}
    first, *_ = table.categories
    truth = table.frame[first].value_counts().reindex(table.categories[first], fill_value=0).to_numpy()
    hits = []
    for _ in range(runs):
        low, high = curator.ask(counts.value_counts, column=first, sort=False).intervals
        hits.append((low <= truth) & (truth <= high))
    found["value_counts"] = float(np.mean(hits))
    names, hits = list(table.bounds), []
    above = np.triu_indices(len(names), 1)
    own = table.frame[names].astype(float).corr().to_numpy()[above]
    for _ in range(runs // FEWER):
        matrix = curator.ask(correlation.corr, columns=names)
        low, high = matrix.lows[above], matrix.highs[above]
        hits.append((low <= own) & (own <= high))
    return found | {"corr": float(np.mean(hits))}


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", type=Path, help="the UCI Adult table, adult.data")
    parser.add_argument("--runs", type=int, default=400)
    resumable(parser)
    asked = parser.parse_args()
    rng, failed, parts = np.random.default_rng(1), False, Parts(asked.resume)
    heads = ("statistic", "relation", *(f"ε={epsilon:g}: mean, least" for epsilon in EPSILONS), "least in")
    cells: dict[tuple[str, str], dict[float, list[tuple[float, str]]]] = {}

    def rated(name: str, measured: Callable[[], dict[str, float]], relation: str, epsilon: float) -> None:
        for statistic, rate in parts(f"{name}, {relation}, {epsilon}", measured).items():
            cells.setdefault((statistic, relation), {}).setdefault(epsilon, []).append((rate, name))

    for relation in RELATIONS:
        for epsilon in EPSILONS:
            for name, table in columns(asked.adult):
                terms = (table, relation, epsilon)
                rated(name, lambda terms=terms: of_column(*terms, asked.runs, rng), relation, epsilon)
            for table in tables(asked.adult):
                terms = (table, relation, epsilon)
                rated(table.name, lambda terms=terms: of_categories(*terms, asked.runs, rng), relation, epsilon)
    with recorded("eda_coverage", *heads) as row:
        for (statistic, relation), by in cells.items():
            shown = [
                f"{np.mean([rate for rate, _ in by[epsilon]]):.3f}, {min(by[epsilon])[0]:.3f}"
                for epsilon in EPSILONS
            ]
            least, name = min(min(each) for each in by.values())
            few = asked.runs / FEWER if ":" in statistic or "," in statistic or statistic == "corr" else asked.runs
            failed |= least < NOMINAL - 4 * math.sqrt(NOMINAL * (1 - NOMINAL) / few)
            row(statistic, relation, *shown, name)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
