"""What a row moves: claims against searches and grids, and an attacker with two neighbouring tables.

The attacker asks methods as users ask them. A sampler writes down what it is given and its scale, and answers the
second table with what the first was answered, so that later measurements depend on the same earlier ones. The loss
is then exact: of Laplace noise the L1 distance over the scale, of the cube's the largest, of a choice the range of
the scores' changes.
"""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy import Column, features
from dfprivacy._privacy import samplers
from dfprivacy.features import Batch, Count, Given, Moments, OneHot, Outer, Stack, Weighted, number
from dfprivacy_eda.counts import Categories, Values
from dfprivacy_eda.moments import Centred, Spread, Total
from dfprivacy_eda.quantiles import RankOfLeaf

# An attacker

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
    "weighted mean": {"column": "x", "weights": "w"},
    "weighted sum": {"column": "x", "weights": "w"},
    "var": {"column": "x"},
    "sum": {"column": "x"},
    "count": {"columns": ["x", "g"]},
    "missing": {"columns": ["x"]},
    "median": {"column": "x"},
    "quantile": {"column": "x", "q": [0.25, 0.5]},
    "histogram": {"column": "x", "bins": 3},
    "value_counts": {"column": "g"},
    "crosstab": {"a": "g", "b": "h"},
    "weighted crosstab": {"a": "g", "b": "h", "weights": "w"},
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
    made["w"] = rng.choice([0.0, 2.0, 2.0, 7.0, np.nan, -1.0])
    return {name: like[name] if like and name in public else value for name, value in made.items()}


def pair(ends: Any, relation: str, public: list[str], rng: np.random.Generator) -> list[pd.DataFrame]:
    """Two neighbouring tables of a few rows."""
    rows = [row(ends, rng, None, []) for _ in range(rng.integers(1, 5))]
    other = [row(ends, rng, rows[0], public), *rows[1:]] if relation == "replace_one" else rows[1:] or rows
    if relation == "add_remove" and len(rows) == 1:
        rows = [*rows, row(ends, rng, None, [])]
    return [
        pd.DataFrame(each, columns=["x", "w", "g", "h"]).astype({"x": float, "w": float, "g": object, "h": object})
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
        known = {"bounds": {"x": ends, "w": (0.0, 2.0)}, "categories": {"g": ["a", "b"], "h": ["u", "v"]}}
        view = dp.protect(frame, f"attack-{next(NUMBERS)}", **options, **known)
        if config["where"]:
            view = view.where(config["where"])
        if config["by"]:
            view = view.group_by(config["by"])
        with samplers.use_sampler(Overheard(rng, answers)) as sampler:
            found = getattr(view, name.removeprefix("weighted "))(**said, epsilon=config["epsilon"])
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
    for config in itertools.islice(configs(rng), 10 * TURNS):
        if config["by"] in {*(config["where"] or ()), *(ASKED[name].get(of) for of in ("column", "a", "b"))}:
            config["by"] = None
        said = {**ASKED[name], **({} if name in WITHOUT_POLICY else {"nan_policy": config["policy"]})}
        try:
            loss, paid = lost(name, said, config, rng)
        except dp.ArgumentError:  # squares of huge numbers, many intervals between few floats
            continue

        assert loss <= paid, config
        most = max(most, loss / paid if paid else 0)

    assert most > Fraction(1, 4)  # the search is one


# Claims of sums, against a search for rows whose vectors are farther apart

X = Column("x", bounds=(-3.0, 1.5), fill=-0.75)
Y = Column("y", bounds=(0.0, 1.0), fill=0.5)
FAR = Column("far", bounds=(1e16, 1e16 + 4), fill=1e16)  # four floats wide
BY = Column("by", categories=("a", "b"))
COLUMNS = {"two": [X, Y], "narrow": [X, FAR], "three": [X, Y, FAR]}
CUBE = math.inf
NOBODY = frozenset()


@pytest.fixture
def with_gaps(search):
    """The search over tables in which values of columns with bounds may be missing."""

    class Gaps(search):
        def drawn(self, column):
            return math.nan if column.bounds and self.rng.random() < 0.25 else super().drawn(column)

        def batch(self, table):
            numbers = [(at, column) for at, column in enumerate(self.columns) if column.bounds]
            batch = Batch(len(table), {number(column): table[:, at] for at, column in numbers})
            for at, column in enumerate(self.columns):
                if not column.bounds:
                    batch._encoded[column] = table[:, at].astype(np.intp)
            return batch

    return Gaps


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("count", [False, 1.0, 2.0])
def test_no_row_moves_the_products_more(search, with_gaps, columns, count):
    """The sums of y_i, 2y_i²-1 and y_i y_j, with the number of rows or without, in three norms; 1 is the most."""
    of = COLUMNS[columns]
    asked = Outer(of, count=count, centred=True)
    most = [search(of, 1).features(asked, norm, tries=2, steps=60) for norm in (1, 2, CUBE)]

    assert min(most) > 0.4
    assert 0.99 < most[-1] <= max(most) <= 1 + 1e-9
    if count == 1:
        assert asked.radius(CUBE) == 1
    if count == 2:  # a row may lose or gain a value: complete rows count twice, within the diameter of 2
        given = Given(*of, of=asked)
        assert given.diameter(CUBE, NOBODY) == 2
        assert 0.99 < with_gaps(of, 1).features(given, CUBE, tries=3, steps=60) <= 1 + 1e-9


@pytest.mark.parametrize(
    "of", [Count(), OneHot(BY), Moments(X, degree=1, count=True)], ids=lambda of: of.describe()
)
@pytest.mark.parametrize("square", [0, 0.5, 1])
def test_no_row_moves_weighted_sums_more(with_gaps, of, square):
    """The parts of a weighted row and their products, of complete rows and by category."""
    asked = Given(Y, of=Weighted(Y, of, square=square))

    most = [with_gaps(asked.columns, 2).features(asked, norm, tries=6, steps=90) for norm in (1, 2, CUBE)]

    assert all(0.9 < each <= 1 + 1e-9 for each in most), most
    asked = OneHot(BY) * asked
    assert 0.99 < with_gaps(asked.columns, 2).features(asked, 1, tries=6, steps=90) <= 1 + 1e-9


def test_a_heavier_count_would_not_be_free(with_gaps):
    """With half as much weight again, the search finds rows farther apart than two complete ones can be."""
    asked = Given(X, Y, of=Outer([X, Y], count=3.0, centred=True))

    assert with_gaps([X, Y], 2).features(asked, CUBE, tries=3, steps=80) * asked.diameter(CUBE, NOBODY) > 2.9


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("by", [None, BY, replace(BY, public=True)], ids=["all", "private", "public"])
def test_no_row_moves_the_sums_of_an_aggregation_more(with_gaps, degree, by):
    """Sums of two columns, rows without a value counted twice, and those of a third by category."""
    x = Given(X, of=Moments(X, degree=1) if degree == 1 else Moments(X, centred=True), tally=(0, 2))
    asked, every = Stack(x, Given(Y), Count()), [X, Y]
    if by is not None:
        asked, every = OneHot(by) * asked, [*every, by]

    most = with_gaps(every, 3).features(asked, CUBE, tries=3, steps=60)

    assert asked.diameter(CUBE, NOBODY) == 2
    assert 0.99 < most <= 1 + 1e-9


def test_no_row_moves_tallies_and_different_values_more(search):
    """Rows in no category have a cell of their own, which costs nothing; a number of values moves by one."""
    tally = Given(BY, of=OneHot(BY), tally=(0, 1))
    x, g = Column("x", bounds=(0.0, 1.0), fill=0.5), Column("g", categories=("a", "b", "c"))

    assert (tally.diameter(1, NOBODY), tally.radius(1)) == (2, 1)
    assert 0.99 < search([BY], 1).features(tally, 1, tries=3, steps=60) <= 1 + 1e-9
    for column, of in ((x, Values(x, omit=False)), (g, Categories(g))):
        assert [search([column], 1).statistic(of, 1, rows, tries=3, steps=60) for rows in (2, 5)] == [1, 1]


def test_diameters_and_radii_of_moments():
    """The L1 diameter of (y, y²/2) and 1/2 for a missing row is 2, the radius with a count and 3/2 is 3/2.

    That of y alone and 1 for a missing row is 2 as well.
    """
    x = Column("x", bounds=(0.0, 1.0), fill=0.5)
    free = Given(x, of=Moments(x, count=True), tally=(0, 1.5))
    diameters = [
        (Moments(x), 2),
        (Given(x, of=Moments(x), tally=(0, 0.5)), 2),
        (Given(x, of=Moments(x, degree=1), tally=(0, 1)), 2),
        (free, 3),
    ]

    for asked, known in diameters:
        assert asked.diameter(1, NOBODY) == pytest.approx(known, abs=1e-12)
    assert [Moments(x, count=True).radius(1), free.radius(1)] == pytest.approx([1.5, 1.5], abs=1e-12)
    assert Stack(*(Moments(column, centred=True) for column in (X, Y))).radius(CUBE) == 1


# Claims of statistics, over grids

GRID = [-3.0, -2.0, -0.75, 0.0, 0.6, 1.5, math.nan]
CENTRES = [-1.0, -0.9, 0.0, 0.4, 1.0]
SPREADS = [((-1.0, -0.8), 0.0), ((0.0, 0.0), 0.3), ((-0.1, 0.5), 1.0), ((1.0, 1.0), 0.2), ((-1.0, 1.0), 0.0)]


def value(asked, x, column=X):
    """The statistic of a table of some values."""
    batch = Batch(len(x), {number(column): np.array(x, dtype=float)})
    sums = asked.features.rows(batch).sum(axis=0).reshape(asked.features.shape) / asked.features.weights
    return asked.value(sums)


def claims(asked):
    """How far a row that changes moves a statistic, and one that comes or goes."""
    return [asked.sensitivity(relation, 1, NOBODY) for relation in ("replace_one", "add_remove")]


@pytest.mark.parametrize("gaps", [(), (X,)], ids=["complete", "gaps"])
def test_sums_move_by_what_is_claimed(gaps):
    """Over all pairs of rows of a grid, beside tables of other rows; some reach the claim, whatever the bounds."""
    values = [x for x in GRID if gaps or not math.isnan(x)]
    tables = [[], [0.0], [-3.0, 1.5], [-3.0] * 40, [1.5] * 200, [-0.75] * 9 + [1.5] * 3]
    centred = [(Centred(X, gaps, t), [[]]) for t in CENTRES]  # a sum, so one row is enough
    tightest = []
    for asked, others in centred + [(Spread(X, gaps, ends, v), tables) for ends, v in SPREADS]:
        changes, added = claims(asked)
        most = 0.0
        for table in others:
            every = [value(asked, [*table, x]) for x in values]
            before = value(asked, table) if table else 0.0
            most = max(most, max(every) - min(every))
            assert max(abs(found - before) for found in every) <= added + 1e-9
        assert most <= changes + 1e-9
        tightest.append(most / changes)
    for ends in [(-3.0, 1.5), (0.0, 1.5), (1.0, 1.5), (-3.0, -2.0)]:
        column = replace(X, bounds=ends, fill=ends[0])
        asked = Total(column, (column,) if gaps else ())
        every = [value(asked, [x], column) for x in [*ends, *([math.nan] if gaps else [])]]
        assert [*ends] == pytest.approx([x * asked.most for x in every[:2]])
        assert claims(asked) == pytest.approx([max(every) - min(every), max(map(abs, every))])

    assert max(tightest[: len(CENTRES)]) > 0.99
    assert min(tightest[len(CENTRES) :]) > 0.97


def test_the_least_is_about_the_mean_where_it_may_be():
    """It is the sum of squares about the mean within the interval, and about the nearest end outside."""
    x = [-3.0, -2.0, 0.6, 1.5, 1.5]
    y = (np.array(x) + 0.75) / 2.25

    for low, high in [(-1.0, 1.0), (-1.0, -0.5), (0.4, 0.5), (0.0, 0.2)]:
        asked = Spread(X, (), (low, high), 0.3)
        t = min(max(y.mean(), low), high)
        assert ((y - t) ** 2 - 0.3).sum() == pytest.approx(value(asked, x) * asked.unit)


def test_rounded_sums_move_a_centred_one_by_less_than_is_charged():
    """The Lipschitz constant holds in L1 of the weighted sums, over random sums."""
    rng = np.random.default_rng(1)
    for asked in [*(Centred(X, (), t) for t in CENTRES), *(Spread(X, (), ends, v) for ends, v in SPREADS)]:
        for one, two in rng.normal(size=(50, 2, 3)) * 100:
            apart = np.abs((one - two) * asked.features.weights).sum()
            assert abs(asked.value(one) - asked.value(two)) <= asked.lipschitz * apart + 1e-9


@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.8, 1.0])
def test_how_far_a_score_moves(q):
    """Over all small counts, no row that changes, comes, goes or loses its value moves a score by more; some do."""
    asked = RankOfLeaf(features.Bins(Column("x", bounds=(0.0, 4.0), fill=2.0), np.arange(5.0)), q)
    ranks = {counts: asked.value(np.array(counts, dtype=float)) for counts in itertools.product(range(5), repeat=4)}
    most = dict.fromkeys(("replace_one", "add_remove"), 0.0)
    for counts in itertools.product(range(4), repeat=4):
        grown = [ranks[*counts[:leaf], counts[leaf] + 1, *counts[leaf + 1 :]] for leaf in range(4)]
        added = max(np.abs(more - ranks[counts]).max() for more in grown)
        moved = max(np.abs(one - other).max() for one in grown for other in grown)
        most["add_remove"] = max(most["add_remove"], added)
        most["replace_one"] = max(most["replace_one"], added, moved)

    for relation, found in most.items():
        bound = asked.sensitivity(relation, math.inf, NOBODY)
        assert found <= bound + 1e-9
        assert found >= 0.9 * bound if relation == "add_remove" else found >= 0.7
