"""What columns hold of which nothing was declared: what is counted, from how many rows on, and its privacy."""

# ruff: noqa: SIM300, PD011 - no pandas here; expected == actual
from __future__ import annotations

import datetime as dt
import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from dfprivacy import ArgumentError, Column, PluginError
from dfprivacy._measure.curator import Curator
from dfprivacy._measure.evaluate import Table
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.calibrate import SURVEY_GRID, gaussian_discovery
from dfprivacy._privacy.losses import Approximate
from dfprivacy._table import batch as rows
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt

pytestmark = pytest.mark.pandas

EDGES = np.array([-10.0, 0.0, 2.0, 10.0])
RELATIONS = {"add_remove": 2, "replace_one": 4}  # counts that a row of one column moves


def table_of(frame, **said):
    nothing = {"bounds": None, "categories": None, "public": (), "missing": None, "neighbors": "replace_one"}
    adapted = adapt(frame)
    return Table(adapted, read_schema(adapted, **{**nothing, **said}))


def plain(values):
    return pd.DataFrame({"x": pd.Series(values, dtype=object)})


# ---- what is counted -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "kinds", "held"),
    [
        (["b", "a", None, "b"], {"text": 3, "nothing": 1}, {"a": 1, "b": 2}),
        ([1, 3, 3, -5], {("number", 0): 1, ("number", 1): 1, ("number", 2): 2}, {-5: 1, 1: 1, 3: 2}),
        ([0.5, None, 0.5, 1e9], {("number", 1): 2, ("number", 2): 1, "nothing": 1}, {0.5: 2, 10**9: 1}),
        ([True, False, None, True], {("number", 1): 3, "nothing": 1}, {0: 1, 1: 2}),
        (
            [dt.datetime(1970, 1, 4), dt.datetime(1960, 1, 1)],  # noqa: DTZ001
            {("date", 2): 1, ("date", 0): 1},
            {"1970-01-04": 1, "1960-01-01": 1},
        ),
        ([None] * 3, {"nothing": 3}, {}),
    ],
    ids=["texts", "whole numbers", "numbers", "booleans", "dates", "nothing"],
)
def test_it_is_the_same_on_every_engine(constructor, values, kinds, held, monkeypatch):
    """On every engine, in batches of any size, each row has one kind and its value; none is taken from a type."""
    kinds = {(kind if isinstance(kind, tuple) else (kind, 0)): count for kind, count in kinds.items()}
    wanted = {(0, *kind): count for kind, count in kinds.items()}
    wanted |= {(0, "value", value): count for value, count in held.items()}
    frame = constructor({"x": values})

    assert wanted == table_of(frame).survey([Column("x")], EDGES)
    monkeypatch.setattr(rows, "BATCH_ROWS", 2)
    monkeypatch.setattr("dfprivacy._measure.tasks.batches", rows.batches)
    assert wanted == table_of(frame).survey([Column("x")], EDGES)


def test_one_value_changes_nothing_else():
    """A text among numbers, and an infinite one, change the column's type and leave every other count as it was."""
    plain_numbers = table_of(pd.DataFrame({"x": [1.0, 1.0, 5.0]})).survey([Column("x")], EDGES)
    mixed = table_of(plain([1.0, 1.0, 5.0, "a", math.inf])).survey([Column("x")], EDGES)

    own = {(0, "text", 0): 1, (0, "value", "a"): 1, (0, "number", 2): 2}
    assert {**plain_numbers, **own} == mixed


def test_no_row_moves_more_counts_than_are_charged():
    """Over all pairs of values of two columns, a row moves 4 counts a column at most, 2 if it comes; some do."""
    values = [1, 3, "a", "b", None, dt.date(1970, 1, 2), math.inf, -1.0]
    pairs = [*itertools.product(values, repeat=2)]
    columns = [Column("x"), Column("y")]
    nothing = {"bounds": None, "categories": None, "public": (), "missing": None, "neighbors": "replace_one"}

    def counts(pair):
        frame = adapt(
            pd.DataFrame({"x": pd.Series([pair[0]], dtype=object), "y": pd.Series([pair[1]], dtype=object)})
        )
        return Table(frame, read_schema(frame, **nothing)).survey(columns, EDGES)

    held = [counts(pair) for pair in pairs]
    moved = [
        sum((one.get(key, 0) - other.get(key, 0)) ** 2 for key in {*one, *other})
        for one, other in itertools.combinations(held, 2)
    ]

    assert 8 == max(moved)
    assert 4 == max(sum(count**2 for count in each.values()) for each in held)


# ---- from how many rows on -------------------------------------------------------------------------------


@pytest.mark.parametrize("price", [("1/10", "1e-6"), ("1", "1e-6"), ("1", "1e-9"), ("5", "1e-4"), ("20", "1/100")])
@pytest.mark.parametrize(("moved", "own"), [(2, 2), (4, 2), (400, 200)])
def test_the_threshold_is_the_smallest(moved, own, price):
    """To 40 digits, own keys are shown with half of delta at most, and one row less on with more."""
    epsilon, delta = map(Fraction, price)

    scale, threshold = gaussian_discovery(moved, own, epsilon, delta)

    with mpmath.workdps(40):
        sigma, half = mpmath.mpf(scale) / 2**SURVEY_GRID, mpmath.mpf(delta.numerator) / delta.denominator / 2
        step = mpmath.mpf(2) ** -SURVEY_GRID
        assert own * mpmath.ncdf((step + 1 - threshold) / sigma) <= half
        assert threshold == 2 or own * mpmath.ncdf((step + 2 - threshold) / sigma) > half * (1 - 1e-6)


def test_discrete_tails_are_below_the_continuous_ones_that_stand_for_them():
    """P(X >= m) of discrete Gaussian noise is at most that of continuous noise from m - 1 on."""
    with mpmath.workdps(30):
        for sigma in (0.3, 1.0, 4.0, 25.0):
            weights = [mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * sigma**2)) for x in range(600)]
            whole = 2 * mpmath.fsum(weights) - 1
            for m in (1, 2, 5, int(3 * sigma) + 1, int(6 * sigma) + 1):
                tail = mpmath.fsum(weights[m:]) / whole
                assert tail <= mpmath.ncdf((1 - m) / mpmath.mpf(sigma))


# ---- the law ---------------------------------------------------------------------------------------------


def law(count, sigma, threshold, cells):
    """Probabilities of what is seen of one key: nothing, or a noisy count in one of some cells."""
    if count == 0:
        return np.concatenate([[1.0], np.zeros(len(cells) - 1)])
    below = ndtr((cells - count) / sigma)
    below[0], below[-1] = ndtr((threshold - count) / sigma), 1.0
    return np.concatenate([[below[0]], np.diff(below)])


def divergence(one, other, epsilon, sigma, threshold, fine):
    """The hockey-stick divergence of two tables, each with the counts of a few keys, on a grid of cells."""
    cells = np.linspace(threshold, max(threshold, *one, *other) + 6 * sigma, fine)
    joint = [np.ones(()), np.ones(())]
    for at, table in enumerate((one, other)):
        for count in table:
            joint[at] = np.multiply.outer(joint[at], law(count, sigma, threshold, cells))
    return np.maximum(joint[0] - math.exp(epsilon) * joint[1], 0).sum()


def worst(relation, epsilon, delta, *, lower=0, moved=None):
    """The largest divergence over tables of keys with few rows, many, or as many as the threshold."""
    scale, threshold = gaussian_discovery(moved or RELATIONS[relation], 2, Fraction(epsilon), Fraction(delta))
    sigma, threshold = scale / 2**SURVEY_GRID, threshold - lower
    some = [0, 1, threshold - 1, threshold, threshold + math.ceil(3 * sigma)]
    found = 0.0
    if relation == "add_remove":
        for counts in itertools.combinations_with_replacement(some, 2):
            more = [count + 1 for count in counts]
            found = max(found, divergence(more, counts, epsilon, sigma, threshold, 300))
            found = max(found, divergence(counts, more, epsilon, sigma, threshold, 300))
        return found
    for a, b in itertools.product(some, repeat=2):
        one, other = [a + 1, a + 1, b, b], [a, a, b + 1, b + 1]
        found = max(found, divergence(one, other, epsilon, sigma, threshold, 24))
    return found


@pytest.mark.parametrize("price", [(1.0, 0.01), (0.3, 1e-3), (4.0, 1e-4)])
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_divergence_of_neighbouring_tables_is_at_most_delta(relation, price):
    """Over keys of few rows and many, which one row alone holds or several, by integration on a grid."""
    epsilon, delta = price

    assert delta / 10 < worst(relation, epsilon, delta) <= delta


def test_a_threshold_or_noise_that_is_too_low_is_found():
    """With a threshold of two rows less, or noise for a part of the counts that move, the integration objects."""
    assert worst("add_remove", 4.0, 1e-4, lower=2) > 1e-4
    assert worst("replace_one", 1.0, 0.01, moved=1) > 0.01


# ---- the verb --------------------------------------------------------------------------------------------


class Budget:
    """What pays for a call, and notes it."""

    basic_composition = True

    def __init__(self, epsilon="1", delta="1/1000000"):
        self.epsilon, self.delta, self.log = Fraction(epsilon), Fraction(delta), []

    def pay(self, losses, reserve):
        self.log += losses


class Exact(noise.FromLaplace):
    """A sampler that adds nothing, and notes what it was asked."""

    name, private = "NOT PRIVATE: nothing", False

    def gaussian(self, values, scale):
        self.scale = scale
        return values


@pytest.mark.parametrize(("neighbors", "moved"), [("replace_one", 8), ("add_remove", 4)])
def test_it_pays_and_draws_what_was_proved(neighbors, moved):
    """Two columns are charged as one release, with noise for the counts that a row of both moves."""
    frame = pd.DataFrame({"x": [1.0] * 300 + [3.0] * 5, "y": ["a"] * 200 + ["b"] * 100 + [None] * 5})
    budget, sampler = Budget(), Exact()
    table = table_of(frame, neighbors=neighbors)

    with noise.use(sampler):
        x, y = Curator(table, budget).survey([Column("x"), Column("y")], EDGES.tolist())
    scale, threshold = gaussian_discovery(moved, 4, Fraction(1), Fraction(1, 10**6))

    assert [Approximate(Fraction(1), Fraction(1, 10**6))] == budget.log
    assert scale == sampler.scale
    assert (threshold, scale / 2**SURVEY_GRID) == (x.threshold, x.scale)
    assert ({1: 300.0}, {}, 0.0, 0.0, {1: 300.0}) == (x.numbers, x.dates, x.text, x.nothing, x.values)
    assert (300.0, 0.0, [("a", 200.0), ("b", 100.0)]) == (y.text, y.nothing, [*y.values.items()])


def test_what_is_refused():
    """No delta, a delta that is not below epsilon, no column and one twice cost nothing."""
    table = table_of(plain([1, 2]))
    for budget, columns, error, match in (
        (Budget(delta="0"), [Column("x")], ArgumentError, "delta above zero"),
        (Budget(epsilon="1/100", delta="1/50"), [Column("x")], ArgumentError, "not below epsilon"),
        (Budget(), [], PluginError, "each once"),
        (Budget(), [Column("x")] * 2, PluginError, "each once"),
    ):
        with pytest.raises(error, match=match):
            Curator(table, budget).survey(columns, EDGES.tolist())
        assert [] == budget.log
