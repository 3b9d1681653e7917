"""An attacker with two neighbouring tables: what is put under the noise tells them apart by epsilon at most.

Methods are asked as users ask them. A sampler writes down what it is given and its scale, and answers the second
table with what the first was answered, so that later measurements depend on the same earlier ones. The loss is then
exact: of Laplace noise the L1 distance over the scale, of the cube's the largest, of a choice the range of the
scores' changes.
"""

from __future__ import annotations

import itertools
import os
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._privacy import samplers

TURNS = int(os.environ.get("DFPRIVACY_TEST_SEARCH", "1"))  # as `tox -e stress` searches
NUMBERS = itertools.count()


class Overheard(samplers.FromLaplace):
    """Writes down what is to be noised; gives answers of its own, or those that it was given."""

    name, private = "overheard", True

    def __init__(self, rng: np.random.Generator, answers: list[Any] | None = None) -> None:
        self.rng, self.answers, self.heard, self.given = rng, answers, [], []

    def _answer(self, kind: str, values: Any, scale: float, made: Any) -> Any:
        self.heard.append((kind, values, scale))
        found = made() if self.answers is None else self.answers[len(self.given)]
        self.given.append(found)
        return found

    def laplace(self, values, scale):
        noise = self.rng.laplace(scale=min(scale, 2**50), size=values.shape)
        return self._answer("laplace", values.copy(), scale, lambda: values + np.rint(noise).astype(np.int64))

    def cube(self, values, scale):
        noise = self.rng.uniform(-1, 1, values.shape) * min(scale, 2**50)
        return self._answer("cube", values.copy(), scale, lambda: values + np.rint(noise).astype(np.int64))

    def noisy_top_k(self, values, scale, k, *, flip):
        order = self.rng.permutation(len(values)).tolist()
        return self._answer("choice", values.copy(), scale, lambda: order[:k])

    def loss(self, other: Overheard) -> Fraction:
        """How much more likely one table is to give what both gave."""
        assert [(kind, scale, len(values)) for kind, values, scale in self.heard] == [
            (kind, scale, len(values)) for kind, values, scale in other.heard
        ]
        lost = Fraction(0)
        for (kind, one, scale), (_, two, _) in zip(self.heard, other.heard, strict=True):
            moved = [int(a) - int(b) for a, b in zip(np.ravel(one), np.ravel(two), strict=True)]
            far = {
                "laplace": sum(map(abs, moved)),
                "cube": max(map(abs, moved)),
                "choice": max(moved) - min(moved),
            }[kind]
            lost += Fraction(far) / Fraction(scale)
        return lost


ENDS = {
    "units": (0.0, 1.0),
    "around 0": (-3.0, 1.5),
    "tiny": (1e-200, 2e-200),
    "huge": (-1e300, 1e300),
    "few floats": (1e16, 1e16 + 4),
    "far from 0": (100.0, 101.0),
}
ASKED: dict[str, dict[str, Any]] = {
    "mean": {"column": "x"},
    "var": {"column": "x"},
    "sum": {"column": "x"},
    "count": {"columns": ["x", "g"]},
    "missing": {"columns": ["x"]},
    "median": {"column": "x"},
    "quantile": {"column": "x", "q": [0.25, 0.5]},
    "histogram": {"column": "x", "bins": 3},
    "value_counts": {"column": "g"},
    "crosstab": {"a": "g", "b": "h"},
    "describe": {"columns": ["x", "g"]},
    "find_bounds": {"columns": ["x"]},
}
WITHOUT_POLICY = {"find_bounds"}


def values(ends: tuple[float, float], rng: np.random.Generator) -> float:
    """A number at an end, between, beyond, or none."""
    low, high = ends
    return float(
        rng.choice([low, high, low, high, low / 2 + high / 2, np.nan, np.inf, low + (high - low) * rng.random()])
    )


def row(
    ends: tuple[float, float], rng: np.random.Generator, like: dict[str, Any] | None, public: list[str]
) -> dict[str, Any]:
    """A row, with the public values of another."""
    made = {"x": values(ends, rng), "g": rng.choice(["a", "b", None, "z"]), "h": rng.choice(["u", "v"])}
    return {name: like[name] if like and name in public else value for name, value in made.items()}


def pair(ends: Any, relation: str, public: list[str], rng: np.random.Generator) -> list[pd.DataFrame]:
    """Two neighbouring tables of a few rows."""
    rows = [row(ends, rng, None, []) for _ in range(rng.integers(1, 5))]
    other = [row(ends, rng, rows[0], public), *rows[1:]] if relation == "replace_one" else rows[1:] or rows
    if relation == "add_remove" and len(rows) == 1:
        rows = [*rows, row(ends, rng, None, [])]
    return [
        pd.DataFrame(each, columns=["x", "g", "h"]).astype({"x": float, "g": object, "h": object})
        for each in (rows, other)
    ]


def lost(
    name: str, said: dict[str, Any], config: dict[str, Any], rng: np.random.Generator
) -> tuple[Fraction, Fraction]:
    """What a question loses on a pair of tables, and what was paid for it."""
    ends, relation, public = config["ends"], config["relation"], config["public"]
    answers, heard, paid = None, [], None
    for frame in pair(ends, relation, public, rng):
        options = {"epsilon": 10**6, "ledger": "memory:", "neighbors": relation, "public": public}
        known = {"bounds": {"x": ends}, "categories": {"g": ["a", "b"], "h": ["u", "v"]}}
        view = dp.protect(frame, f"attack-{next(NUMBERS)}", **options, **known)
        if config["where"]:
            view = view.where(config["where"])
        if config["by"]:
            view = view.group_by(config["by"])
        with samplers.use(Overheard(rng, answers)) as sampler:
            found = getattr(view, name)(**said, epsilon=config["epsilon"])
        heard.append(sampler)
        answers, paid = sampler.given, Fraction(found.privacy.epsilon)
    return heard[0].loss(heard[1]), paid


def configs(rng: np.random.Generator) -> Any:
    """Settings, drawn at random, each kind as often as the others."""
    while True:
        relation = rng.choice(["replace_one", "add_remove"])
        public = rng.choice(["", "h", "x", "hx"]) if relation == "replace_one" else ""
        yield {
            "ends": ENDS[rng.choice([*ENDS])],
            "relation": relation,
            "public": list(public),
            "where": [None, None, {"h": ["u"]}, {"g": ["a"]}][rng.integers(4)],
            "by": [None, None, "h", "g"][rng.integers(4)],
            "epsilon": float(rng.choice([1e-3, 0.1, 1.0, 30.0, 2000.0])),
            "policy": rng.choice(["omit", "fill"]),
        }


@pytest.mark.parametrize("name", ASKED)
def test_no_pair_of_tables_is_told_apart_by_more_than_was_paid(name):
    """Over random settings, with missing values, extreme bounds, conditions and groups, public or not."""
    rng = np.random.default_rng(11)
    most = Fraction(0)
    for config in itertools.islice(configs(rng), 12 * TURNS):
        if config["by"] in {
            *(config["where"] or ()),
            ASKED[name].get("column"),
            ASKED[name].get("b"),
            ASKED[name].get("a"),
        }:
            config["by"] = None
        said = {**ASKED[name], **({} if name in WITHOUT_POLICY else {"nan_policy": config["policy"]})}
        try:
            loss, paid = lost(name, said, config, rng)
        except dp.ArgumentError:  # squares of huge numbers, many intervals between few floats
            continue

        assert loss <= paid, config
        most = max(most, loss / paid if paid else 0)

    assert most > Fraction(1, 4)  # the search is one
