"""How far distance correlations are from the truth: within one table, and between two parties, by each protocol.

    python tests/benchmarks/dcor_errors.py             # everything, an hour or two
    python tests/benchmarks/dcor_errors.py central     # or some of: central, angle, several

Prints and keeps Markdown tables of mean absolute errors. ``central``: of R against that of the rows (`dcor`).
``angle``: of R² against that of the population, for one column (`dcor_message` and `estimate`), with the paper's
beside it. ``several``: the same for several columns of real tables, with equations 3 and 4 of the paper. Messages
are drawn until the standard error of their mean error is below 5 % of it, or below 0.0005.

The real tables are Boston housing and white wine quality, from the UCI repository: ``housing.csv`` and
``winequality-white.csv``, without a header line, in the folder that the variable DFPRIVACY_TEST_DATA names. They
are left out where it names none. Their columns are scaled by their own extremes, which count as public here.
"""

from __future__ import annotations

import argparse
import itertools
import os
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from results import recorded

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_dcor.inference import NoisyStatistics
from dfprivacy_dcor.message import distance_variance
from dfprivacy_dcor.points import five_numbers
from dfprivacy_dcor.spaces import metric_space
from dfprivacy_dcor.statistics import SHARES, Deviation, largest_changes, largest_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "linear": lambda x, _: x,
    "quadratic": lambda x, _: x * x,
    "sine": lambda x, _: np.sin(2 * np.pi * x),
    "circle": lambda x, rng: np.sin(np.arccos(x)) * rng.choice([-1.0, 1.0], len(x)),
    "independent": lambda x, rng: rng.uniform(-1, 1, len(x)),
}
POPULATION = {"linear": 0.967, "quadratic": 0.213, "sine": 0.181, "circle": 0.0345, "independent": 0.0}
BOUNDS = {"x": (-1.0, 1.0), "y": (-1.5, 1.5)}
TABLES = {"Boston": ("housing.csv", 0, 6, 13, 0.5, 20), "wine": ("winequality-white.csv", 0, 5, 11, 0.15, 10)}
ENOUGH, UNSEEN, AT_ONCE, MOST = 0.05, 0.0005, 20, 2000
CENTRAL, LOCAL = (0.1, 0.5, 1, 2), (0.5, 1, 2, 5, 10)
count = itertools.count()


class Standing:
    """Rows of columns within their bounds, as statistics read them."""

    def __init__(self, values: dict[str, np.ndarray]) -> None:
        self.values, self.size = values, len(next(iter(values.values())))

    def standardized(self, column: dp.Column) -> np.ndarray:
        """Numbers in [-1, 1]."""
        return (np.clip(self.values[column.name], column.low, column.high) - column.mid) / column.half


def synthetic(relation: str, n: int, seed: int) -> dict[str, np.ndarray]:
    """Uniform x, or x uniform around a circle, and y a function of it with some noise."""
    rng = np.random.default_rng(seed)
    x = np.cos(rng.uniform(0, np.pi, n)) if relation == "circle" else rng.uniform(-1, 1, n)
    noise = 0.0 if relation == "independent" else 0.1 * rng.normal(size=n)
    return {"x": x, "y": np.clip(RELATIONS[relation](x, rng) + noise, -1.5, 1.5)}


def real(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Both halves of the columns of a real table, scaled to [0, 1]; None where it is not there."""
    file, start, middle, end, *_ = TABLES[name]
    path = Path(os.environ.get("DFPRIVACY_TEST_DATA", "")) / file
    if not path.is_file():
        return None
    whole = np.loadtxt(path, delimiter=",")[:, start:end]
    whole = (whole - whole.min(axis=0)) / np.ptp(whole, axis=0)
    return whole[:, :middle], whole[:, middle:]


def view(values: dict[str, np.ndarray], bounds: dict[str, tuple[float, float]], folder: str) -> dp.PrivateFrame:
    """Protect a table with much to spend."""
    terms: dict[str, Any] = {"epsilon": 10**5, "delta": 0.1, "accounting": "basic", "ledger": f"{folder}/ledger.db"}
    return dp.protect(pd.DataFrame(values), f"errors {next(count)}", bounds=bounds, **terms)


@contextmanager
def errors_of(name: str, title: str, what: str, epsilons: tuple[float, ...]) -> Iterator[Callable[..., None]]:
    """Print and keep a table of errors."""
    print(f"\n{title}\n")
    with recorded(name, what, *(f"ε={epsilon:g}" for epsilon in epsilons)) as row:
        yield lambda what, errors: row(what, *(f"{error:.3f}" for error in errors))


def error_of_r(exact: np.ndarray, x: Any, y: Any, n: int, epsilon: float, draws: int, seed: int) -> list[float]:
    """Errors of R for many draws of the noise of five numbers."""
    rng = np.random.default_rng(seed)
    change = largest_changes(x, y, n)
    scales = change / (epsilon * np.array(SHARES))
    truth = exact[0] / np.sqrt(exact[1] * exact[2])
    fixed = ((*scales, 0.0), n, largest_values(x, y))
    noisy = exact + rng.laplace(scale=scales, size=(draws, 5))
    return [abs(NoisyStatistics((*values, 1.0), *fixed).correlation - truth) for values in noisy]


def central(draws: int, sets: int) -> None:
    """Within one table."""
    columns = {name: dp.Column(name, bounds=ends, fill=sum(ends) / 2) for name, ends in BOUNDS.items()}
    x, y = (metric_space((columns[name],), "euclidean") for name in "xy")
    for n in (500, 2000, 10_000):
        title = f"R of the rows, `dcor`, n = {n}: {draws} draws of noise for each of {sets} tables"
        with errors_of(f"dcor_errors_{n}", title, f"n = {n:,}", CENTRAL) as line:
            for relation in RELATIONS:
                rows = [Standing(synthetic(relation, n, seed)) for seed in range(sets)]
                exact = [five_numbers(x.rows(each), y.rows(each)) for each in rows]
                errors = [
                    [e for at, five in enumerate(exact) for e in error_of_r(five, x, y, n, epsilon, draws, at)]
                    for epsilon in CENTRAL
                ]
                line(relation, [float(np.mean(each)) for each in errors])
    tables = {name: halves for name in TABLES if (halves := real(name)) is not None}
    if tables:
        with errors_of("dcor_errors_several", "R of the rows, `dcor`", "several columns", CENTRAL) as line:
            central_of(tables, line)


def central_of(tables: dict[str, tuple[np.ndarray, np.ndarray]], line: Callable[..., None]) -> None:
    """Within one real table, between halves of its columns."""
    for name, halves in tables.items():
        for metric in ("euclidean", "l1"):
            spaces, values = [], {}
            for side, half in zip("xy", halves, strict=True):
                names = [f"{side}{at}" for at in range(half.shape[1])]
                values |= dict(zip(names, half.T, strict=True))
                spaces.append(metric_space(tuple(dp.Column(c, bounds=(0.0, 1.0), fill=0.5) for c in names), metric))
            one, other = spaces
            rows = Standing(values)
            exact = five_numbers(one.rows(rows), other.rows(rows))
            errors = [error_of_r(exact, one, other, rows.size, epsilon, 4000, 1) for epsilon in CENTRAL]
            r = exact[0] / np.sqrt(exact[1] * exact[2])
            line(f"{name}, {metric}, R = {r:.4f}", [float(np.mean(each)) for each in errors])


def deviation(y: np.ndarray) -> float:
    """Distance deviation without bias."""
    return float(np.sqrt(distance_variance(y)))


def message_error(
    table: dict[str, np.ndarray],
    bounds: tuple[float, float],
    y: np.ndarray,
    spread: float,
    truth: float,
    **terms: Any,
) -> float:
    """Error of R² from one message about a table, as `estimate` gives it; `spread` is the deviation of y."""
    with TemporaryDirectory() as folder:  # of a ledger
        message = view(table, dict.fromkeys(table, bounds), folder).dcor_message(list(table), **terms)
    covariance = float(message.covariances(y, 0, np.random.default_rng(0))[0])
    return abs(min(max(covariance / (message.share * message.spread * spread), 0.0), 1.0) - truth)


def once(value: Callable[[Deviation, Any], Any]) -> Callable[[Deviation, Any], Any]:
    """Compute from all pairs of rows only once what all messages about a table share."""
    known: dict[Any, Any] = {}

    def remembered(self: Deviation, rows: Any) -> Any:
        if self.columns not in known:
            known[self.columns] = value(self, rows)
        return known[self.columns]

    return remembered


def settled(draw: Callable[[int], float]) -> float:
    """Mean error of as many messages as it takes."""
    errors: list[float] = []
    while len(errors) < MOST:
        errors += [draw(len(errors) + at) for at in range(AT_ONCE)]
        mean, around = np.mean(errors), np.std(errors, ddof=1) / np.sqrt(len(errors))
        if around <= max(ENOUGH * mean, UNSEEN):
            break
    return float(mean)


def angle() -> None:
    """Between two parties, one column each; a table for each message."""
    protocols: dict[str, dict[str, Any]] = {
        "angle, k = 1": {"harmonics": [1]},
        "angle, k = 1, 3": {"harmonics": [1, 3]},
        "paper": {"protocol": "paper", "delta": 1e-5},
    }

    def error(relation: str, n: int, terms: dict[str, Any], seed: int) -> float:
        table = synthetic(relation, n, seed)
        return message_error(
            {"x": table["x"]}, BOUNDS["x"], table["y"], deviation(table["y"]), POPULATION[relation], **terms
        )

    for n in (2000, 10_000):
        title = "R² of the population, from a message"
        with errors_of(f"dcor_messages_{n}", title, f"n = {n:,}", LOCAL) as line:
            for relation, truth in POPULATION.items():
                for protocol, terms in protocols.items():
                    errors = [settled(partial(error, relation, n, {**terms, "epsilon": e})) for e in LOCAL]
                    line(f"{relation} ({truth:g}), {protocol}", errors)


def several() -> None:
    """Between two parties, several columns each."""

    def error(table: Any, y: Any, spread: float, truth: float, terms: dict[str, Any], seed: int) -> float:
        return message_error(table, (0.0, 1.0), y, spread, truth, seed=seed, **terms)

    Deviation.value = once(Deviation.value)  # type: ignore[method-assign]
    for name, (*_, length, blocks) in TABLES.items():
        halves = real(name)
        if halves is None:
            continue
        x, y = halves
        table = {f"{name} {at}": column for at, column in enumerate(x.T)}
        spread, truth = deviation(y), exact_squared(x, y)
        paper = {"protocol": "paper", "delta": 1e-5}
        protocols: dict[str, dict[str, Any]] = {
            f"angle, L = {length:g}, {blocks} blocks": {"length": length, "blocks": blocks},
            "paper, equation 3, K = 1": {**paper, "split": False, "blocks": 1},
            "paper, equation 3, K = 10": {**paper, "split": False, "blocks": 10},
            "paper, equation 4, K = 10": {**paper, "blocks": 10},
        }

        title = f"{name}, n = {len(x)}, R² = {truth:.3f} (U)"
        with errors_of(f"dcor_messages_{name.lower()}", title, name, LOCAL) as line:
            for protocol, terms in protocols.items():
                errors = [settled(partial(error, table, y, spread, truth, {**terms, "epsilon": e})) for e in LOCAL]
                line(protocol, errors)


def exact_squared(x: np.ndarray, y: np.ndarray) -> float:
    """R² with U-statistics from all pairs."""
    a, b = (np.sqrt(((z[:, None, :] - z) ** 2).sum(axis=2)) for z in (x, y))
    n = len(a)

    def centred(d: np.ndarray) -> np.ndarray:
        rows = d.sum(axis=1) / (n - 2)
        found = d - rows[:, None] - rows + d.sum() / ((n - 1) * (n - 2))
        np.fill_diagonal(found, 0)
        return found

    a, b = centred(a), centred(b)
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=[], metavar="WHAT", help="central, angle, several; default: all")
    parser.add_argument("--sets", type=int, default=10, help="tables of each kind for central (default: 10)")
    asked = parser.parse_args()
    wanted = asked.what or ["central", "angle", "several"]
    if unknown := set(wanted) - {"central", "angle", "several"}:
        parser.error(f"there are no tables {sorted(unknown)}")
    with seeded_noise(1):
        if "central" in wanted:
            central(300, asked.sets)
        if "angle" in wanted:
            angle()
        if "several" in wanted:
            several()


if __name__ == "__main__":
    main()
