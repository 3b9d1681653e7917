"""How long the same question of a hundred groups takes, beside one of them by ``where``.

The first line is a plugin's: the same sums of each group, beside one sum over all groups at once, by `OneHot`.

    python tests/benchmarks/group_speed.py                   # 2 million rows
    python tests/benchmarks/group_speed.py --check           # and exit with status 1 if a goal is missed

The two sides take turns in one process; times are the least of some turns after the first, of the processor and on
the clock. The draws are those of the hundred groups: of noise, by OpenDP, whose time nothing here can shorten, and
of selections. Where they alone take more than twice one group's question, the goal cannot be reached.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from results import recorded

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._privacy.samplers import OpenDPSampler

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, GROUPS, GOAL = 2_000_000, 100, 2.0
TERMS: dict[str, Any] = {"epsilon": 0.5, "fresh": True}
QUESTIONS: dict[str, Callable[[Any], object]] = {
    "count": lambda view: view.count("x", **TERMS),
    "ttest": lambda view: view.ttest("x", popmean=20, **TERMS),
    "histogram": lambda view: view.histogram("x", 20, **TERMS),
    "mean": lambda view: view.mean("x", **TERMS),
    "std": lambda view: view.std("x", **TERMS),
    "describe": lambda view: view.describe(["x"], **TERMS),
    "quantile, quartiles": lambda view: view.quantile("x", [0.25, 0.5, 0.75], **TERMS),
    "median": lambda view: view.median("x", **TERMS),
}


@dp.mechanism(columns={"column": "numeric"})
def sums_of(curator: dp.Curator, column: dp.Column) -> Any:
    """Give the number of values of a column, and their sum."""
    return curator.sum(features.Moments(column, degree=1, count=True)).values  # noqa: PD011 - a NoisyValue


@dp.mechanism(columns={"column": "numeric", "by": "category"})
def sums_by(curator: dp.Curator, column: dp.Column, by: dp.Column) -> Any:
    """Give the same of each group."""
    return curator.sum(features.OneHot(by) * features.Moments(column, degree=1, count=True)).values  # noqa: PD011


def view(rows: int) -> Any:
    """Protect a column of numbers, and one of a hundred groups."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.gamma(2, 10, rows), "group": rng.integers(0, GROUPS, rows)})
    terms: dict[str, Any] = {"bounds": {"x": (0, 100)}, "categories": {"group": range(GROUPS)}, "ledger": "memory:"}
    return dp.protect(frame, f"group-speed-{time.time_ns()}", epsilon=1e6, **terms)


class Draws:
    """Processor seconds that draws of noise and selections take."""

    def __init__(self) -> None:
        self.seconds = 0.0
        for name in ("laplace", "gaussian", "noisy_top_k"):
            setattr(OpenDPSampler, name, self._timed(getattr(OpenDPSampler, name)))

    def _timed(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return draw(*args, **kwargs)
            finally:
                self.seconds += time.process_time() - start

        return timed


def least(works: list[Callable[[], object]], draws: Draws, turns: int) -> list[tuple[float, float, float]]:
    """Give the least times of some works: of the processor, on the clock, and of draws, in milliseconds."""
    times: list[list[tuple[float, float, float]]] = [[] for _ in works]
    for _ in range(turns + 1):
        for work, own in zip(works, times, strict=True):
            draws.seconds, start = 0.0, (time.process_time(), time.perf_counter())
            work()
            own.append((time.process_time() - start[0], time.perf_counter() - start[1], draws.seconds))
    return [tuple(1000 * min(of) for of in zip(*own[1:], strict=True)) for own in times]  # type: ignore[misc]


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a goal is missed")
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.")
    for plugin in (sums_of, sums_by):
        dp.register_mechanism(plugin)
    private, draws, missed = view(asked.rows), Draws(), False
    groups, one = private.group_by("group"), private.where(group=7)
    questions: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "`sums_of`, a plugin's": (
            lambda: groups.sums_of("x", **TERMS),
            lambda: private.sums_by("x", "group", **TERMS),
        ),
        **{
            f"`{name}`": (functools.partial(ask, groups), functools.partial(ask, one))
            for name, ask in QUESTIONS.items()
        },
    }
    heads = (
        "what",
        f"{GROUPS} groups",
        "beside",
        "ratio",
        "on the clock",
        "draws of noise / one",
        "goal",
        "met",
    )
    with recorded("group_speed", *heads) as row:
        for name, works in questions.items():
            (many, slow, drawn), (single, quick, _) = least([*works], draws, asked.turns)
            ratio, most = many / single, drawn / single
            met = "yes" if ratio <= GOAL else "no: the draws take longer" if most > GOAL else "**no**"
            missed |= met == "**no**"
            row(
                name,
                f"{many:.0f} ms",
                f"{single:.0f} ms",
                f"{ratio:.2g}",
                f"{slow / quick:.2g}",
                f"{most:.2g}",
                f"≤ {GOAL:g}",
                met,
            )
    return int(missed and asked.check)


if __name__ == "__main__":
    sys.exit(main())
