"""Designs drawn at random, on which levels and coverage are measured, the same ones for every method.

A design is what a user may bring: how many rows, how unequal the groups, what the data look like, how much is
missing, how wide the bounds are and where the data lie in them, and how much privacy is paid. Within a design both
groups follow one distribution, and values are missing independently of them: every null hypothesis is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from harness import Array, Ints, grouped
from scipy.special import bdtrc

LEVELS = (0.05, 0.01, 0.001)
"""Levels at which rejections are counted."""

_THREE = 0.00135  # probability of a normal law beyond three standard deviations

DATA = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "uniform": lambda rng, n: rng.uniform(-math.sqrt(3), math.sqrt(3), n),
    "exponential": lambda rng, n: rng.standard_exponential(n) - 1,
    "lognormal": lambda rng, n: (rng.lognormal(0, 1, n) - math.exp(0.5)) / 2.1612,
    "t3": lambda rng, n: rng.standard_t(3, n) / math.sqrt(3),
    "coin": lambda rng, n: rng.choice([-1.0, 1.0], n),
    "rare": lambda rng, n: (rng.binomial(1, 0.02, n) - 0.02) / 0.14,
    "counts": lambda rng, n: rng.poisson(1, n) - 1.0,
    "constant": lambda rng, n: np.zeros(n),
}
"""What the data look like: mean 0 and standard deviation 1, but for constants."""


@dataclass(frozen=True)
class Design:
    """One design. Columns are in units of their standard deviation.

    Attributes
    ----------
    sizes : tuple of int
        Rows in each of two groups.
    data : str
        A name of `DATA`.
    missing : tuple of float
        The share of missing values in each group.
    epsilon : float
        What is paid.
    low, high : float
        The column's bounds; values beyond are clipped, as the library clips them.
    neighbors : {"replace_one", "add_remove"}
        The neighbouring relation.
    """

    sizes: tuple[int, int]
    data: str
    missing: tuple[float, float]
    epsilon: float
    low: float
    high: float
    neighbors: str

    @property
    def groups(self) -> Ints:
        """The group of each row, 0 or 1."""
        return np.repeat([0, 1], self.sizes)

    def draw(self, rng: np.random.Generator) -> Array:
        """Draw a table's column: one value for each row, NaN where it is missing, clipped to the bounds."""
        values = np.clip(DATA[self.data](rng, sum(self.sizes)), self.low, self.high)
        values[rng.random(values.size) < np.asarray(self.missing)[self.groups]] = math.nan
        return values

    def frame(self, rng: np.random.Generator) -> pd.DataFrame:
        """Draw a table: numbers, coins and times, two groups and three, none of which has to do with any other."""
        n, first = sum(self.sizes), self.sizes[0]
        columns = {**{name: self.draw(rng) for name in "xyz"}, "g": self.groups}
        columns["k"] = np.repeat([0, 1, 2], [first // 2, first - first // 2, n - first])
        columns |= {"before": rng.random(n) < 0.3, "after": rng.random(n) < 0.3}
        event, end = rng.weibull(1.3, n) * 420, rng.uniform(200, 1020, n)
        return pd.DataFrame({**columns, "time": np.minimum(np.minimum(event, end), 999.99), "died": event <= end})

    @property
    def way(self) -> str:
        """How groups are compared that are private."""
        return "add_remove" if self.neighbors == "add_remove" else "private"

    def halves(self) -> tuple[Design, Design]:
        """The designs of one group each."""
        return replace(self, sizes=(self.sizes[0], 0)), replace(self, sizes=(0, self.sizes[1]))

    def view(self, frames: list[pd.DataFrame], way: str) -> Any:
        """Protect tables, a group each, and compare their own groups in some way."""
        ends, coin = (self.low, self.high), [False, True]
        categories = {"g": [0, 1], "k": [0, 1, 2], "before": coin, "after": coin, "died": coin}
        categories |= {"two": [0, 1], "four": [0, 1, 2, 3]}
        bounds = {**dict.fromkeys("xyz", ends), "time": (0, 1000)}
        known = [{name: of[name] for name in of if name in frames[0]} for of in (bounds, categories)]
        terms = {"bounds": known[0], "categories": known[1], "neighbors": self.neighbors, "delta": 0.5}
        public = tuple(name for name in "gk" if way == "public" and name in frames[0])
        return grouped(frames, public, **terms)

    def views(
        self, rng: np.random.Generator, runs: int, of: Callable[[pd.DataFrame], pd.DataFrame] = pd.DataFrame
    ) -> dict[str, Any]:
        """Protect what is made of drawn tables for every way in which their groups can be compared."""
        frames, ways = [of(self.frame(rng)) for _ in range(runs)], (self.way, "public")
        return {way: self.view(frames, way) for way in ways[: 1 if self.way == "add_remove" else 2]}

    def mean(self, draws: int = 4_000_000) -> float:
        """Mean of a clipped value."""
        return float(np.mean(np.clip(DATA[self.data](np.random.default_rng(0), draws), self.low, self.high)))

    def __str__(self) -> str:
        gone = "" if not any(self.missing) else " missing " + ":".join(f"{share:.0%}" for share in self.missing)
        return (
            f"{self.sizes[0]}:{self.sizes[1]} {self.data} in {self.low:.3g}..{self.high:.3g}{gone}, "
            f"ε = {self.epsilon:.3g}, {self.neighbors}"
        )


def designs(count: int = 200, *, seed: int = 15) -> list[Design]:
    """Draw designs: sizes from 10 to 5,000, splits to 1:50, bounds from 2 to 30 standard deviations wide."""
    rng = np.random.default_rng(seed)

    def one(number: int) -> Design:
        size = round(math.exp(rng.uniform(math.log(10), math.log(5_000))))
        small = max(2, round(size / math.exp(rng.uniform(0, math.log(50)))))
        half = math.exp(rng.uniform(math.log(2), math.log(30)))
        middle = rng.uniform(-1, 1) * max(0.0, half - 2)  # the data may lie near an end
        shares = tuple(float(share) for share in rng.uniform(0, 0.6, 2)) if rng.random() < 0.5 else (0.0, 0.0)
        return Design(
            sizes=(size, small) if rng.random() < 0.5 else (small, size),
            data=list(DATA)[number % len(DATA)],
            missing=shares,
            epsilon=math.exp(rng.uniform(math.log(0.02), math.log(50))),
            low=middle - half,
            high=middle + half,
            neighbors="replace_one" if rng.random() < 0.7 else "add_remove",
        )

    return [one(number) for number in range(count)]


def exceeds(rejected: int, runs: int, level: float) -> bool:
    """Whether a level is above nominal by more than a fifth and three standard errors, by the binomial law."""
    return bool(bdtrc(rejected - 1, runs, 1.2 * level) < _THREE) if rejected else False
