"""Noise on whole units: what is claimed, what is charged, what law it has, and what is taken for it."""

# ruff: noqa: PD011 - measurements have values, too
from __future__ import annotations

import functools
import itertools
import math
from contextlib import contextmanager
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._measure.evaluate import Table
from dfprivacy._measure.price import measurement_grid, unit_grid
from dfprivacy._measure.query import Query
from dfprivacy._table.batch import number
from dfprivacy._table.conditions import batches
from dfprivacy._table.frames import adapt
from dfprivacy.features import Bins, Count, Given, Moments, OneHot, RowFeatures, Stack
from dfprivacy.features.base import common_unit, enforce_bounds
from dfprivacy.laws import NoiseLaw
from dfprivacy.schema import Column, Schema
from dfprivacy.testing import seeded_noise

NAMES = (f"units {i}" for i in itertools.count())
RELATIONS = ["replace_one", "add_remove"]
G = Column("g", categories=("a", "b"))
H = Column("h", categories=("u", "v", "w"))
X = Column("x", (0.0, 4.0), fill=2.0)
EDGES = [0, 1, 2, 3, 4]
FRAME = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.5] * 100, "g": ["a", "b", "b", None] * 100, "h": list("uvwu") * 100})
SAID = {"bounds": {"x": (0, 4)}, "categories": {"g": ["a", "b"], "h": ["u", "v", "w"]}}


def view(frame=FRAME, **terms):
    """Protect the table under a name of its own."""
    return dp.protect(frame, next(NAMES), **{"epsilon": 10_000, "ledger": "memory:", **SAID, **terms})


@contextmanager
def summed(features, **how):
    """Let every view have a mechanism that gives the noise and the values of a sum."""

    def mine(curator, column):
        found = curator.sum(features(column), **how)
        return {"grid": found.noise.grid, "scale": found.noise.scale, "values": found.values.ravel().tolist()}

    dp.register_mechanism(dp.mechanism(columns={"column": "any"}, name="mine", delta=True)(mine))
    try:
        yield
    finally:
        dp.unregister("mine")


# What is claimed


def apart(features, neighbors, k):
    """The largest L1 distance of sums on neighbouring tables, in steps, by looking at all pairs of rows."""
    values = itertools.product([0.0, 1.5, 4.0, math.nan], ["a", "b", None], ["u", "v"])
    frame = adapt(pd.DataFrame(values, columns=["x", "g", "h"]))
    (batch, _), *_ = batches(frame, list(features.reads), ())
    rows = [features.image([int(step) for step in row], k) for row in features.steps(batch, k)]
    vectors = np.array(rows, dtype=np.int64)
    if neighbors == "add_remove":
        return int(np.abs(vectors).sum(axis=1).max())
    return int(np.abs(vectors[:, None] - vectors[None]).sum(axis=2).max())


@pytest.mark.parametrize(("features", "unit", "exact"), [
    (Count(), 1.0, None), (OneHot(G), 1.0, (2, 1)), (OneHot(G, H), 1.0, (2, 1)),
    (OneHot(G) * Moments(X), None, None), (Moments(X), None, None), (Given(X), 1.0, (1, 1)),
    (Given(X, tally=(0, 1)), 1.0, (2, 1)), (Given(X, tally=(0, 0.5)), 0.5, (3, 2)),
    (Given(X, tally=(0, 0.1)), 2.0**-55, None), (Given(X, of=Moments(X), tally=(0, 1)), None, None),
    (Given(G, of=OneHot(H), tally=(0, 1)), 1.0, (2, 1)), (Bins(X, EDGES, missing=True), 1.0, (2, 1)),
    (Bins(X, EDGES, widths=(2, 1), weights=(3, 1)), 1.0, (8, 4)),
    (Bins(X, EDGES, widths=(2, 1), weights=(6, 4), missing=True), 2.0, (10, 5)),
    (Stack(OneHot(G), Given(X, tally=(0, 0.5))), 0.5, None),
    (Stack(OneHot(G), OneHot(H), Given(X)), 1.0, (5, 3)), (Stack(OneHot(G), Moments(X)), None, None),
], ids=lambda value: value.describe() if isinstance(value, RowFeatures) else str(value))  # fmt: skip
def test_units_and_sensitivities(features, unit, exact):
    """The unit is the largest power of two that divides all parts; in units, some pair moves by what is charged."""
    assert features.unit == unit
    for neighbors, expected in zip(RELATIONS, exact or (), strict=bool(exact)):
        table = Table(None, Schema(("x", "g", "h"), {"x": X, "g": G, "h": H}, neighbors, None))
        query = Query.read(features)
        grid = unit_grid(table, query, measurement_grid(table, query, 1, Fraction(1)))

        assert math.ldexp(1.0, -grid.k) == unit
        assert expected == grid.steps == apart(features, neighbors, grid.k)


def test_a_common_unit_divides():
    """All numbers are odd or even multiples of it, and not all are even."""
    for numbers in ([1.0], [0.75, 6.0], [-12.0, 0.0, 20.0], [0.1, 1.0], [5e-324, 1e300], [2.0**1000]):
        times = [Fraction(number) / Fraction(common_unit(numbers)) for number in numbers]

        assert all(each.denominator == 1 for each in times)
        assert any(each.numerator % 2 for each in times)


# What somebody else claims


class Whole(RowFeatures):
    """Two numbers of a row, which are said to be whole multiples of a unit."""

    shape = (2,)

    def __init__(self, column, unit, rows):
        self.columns, self.says, self.made = (column,), unit, rows

    @property
    def unit(self):
        return self.says

    def rows(self, batch):
        return self.made(batch.values(self.columns[0]))

    def radius(self, norm):
        return {1: 4.0, 2: math.sqrt(10)}.get(norm, 3.0)


class Proved(Whole):
    """The same with a diameter, by the same hand."""

    def rows(self, batch):
        return super().rows(batch)

    def diameter(self, norm, public):
        return 0.0 if self.columns[0].name in public else 2.0


FINE = np.linspace(0, 4, 1001)


def rows_of(features, numbers=FINE, k=None):
    """The vectors of some rows, in units or other steps."""
    (batch, _), *_ = batches(adapt(pd.DataFrame({"x": numbers})), [number(X)], ())
    return enforce_bounds(features).steps(batch, 1 - math.frexp(features.unit)[1] if k is None else k)


@pytest.mark.parametrize("unit", [1.0, 0.5, 2.0, 2.0**-20])
def test_a_false_claim_is_cut_to_whole_units_within_the_radius(unit):
    """Whatever rows are, what is summed is whole, no longer than the radius, and nowhere larger than it was."""

    def made(x):
        return np.column_stack([x * 1.7, -x / 3])

    steps = rows_of(Whole(X, unit, made))
    for k in (3, 30):
        assert (np.rint(steps * unit * 2**k) == rows_of(Whole(X, unit, made), k=k)).all()
    assert (steps == np.rint(steps)).all()
    assert np.abs(steps).sum(axis=1).max() * unit <= 4
    assert (np.square(steps * unit).sum(axis=1) <= 10 * (1 + 1e-12)).all()
    assert (np.abs(steps) * unit <= np.abs(made(FINE)) * (1 + 1e-12)).all()


def test_a_true_claim_loses_nothing():
    """Rows of whole units are what they were, also those of just the radius, whatever last bits a root has."""
    rows = np.array([[3.0, 1.0], [1.0, 3.0], [-3.0, 1.0], [0.0, 0.0], [2.0, -2.0]])

    assert (rows == rows_of(Whole(X, 1.0, lambda x: rows[x.astype(int)]), np.arange(5.0))).all()


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_cutting_is_charged_beside_a_stated_diameter(norm):
    """Rows that are not what they claim stay within what is charged, whatever diameter was proved."""

    def made(x):
        return np.column_stack([0.9 + x / 2, 0.9 + x / 2]) / (1 if norm == math.inf else 2)

    features = Proved(X, 1.0, made)
    steps, taken = rows_of(features), enforce_bounds(features)
    moved = max(np.linalg.norm(steps - one, ord=norm, axis=1).max() for one in np.unique(steps, axis=0))

    assert 2.0 < taken.diameter(norm, frozenset()) <= 2 * features.radius(norm)
    assert moved <= taken.diameter(norm, frozenset())
    assert taken.diameter(norm, frozenset("x")) == 0.0
    with summed(lambda column: Whole(column, 2.0, lambda x: np.column_stack([x, x])), grid="unit"):
        found = view(neighbors="add_remove").mine("x", epsilon=4).value
    assert (found["grid"], found["scale"], [each % 2 for each in found["values"]]) == (-1, 1.0, [0, 0])
    assert enforce_bounds(Proved(X, None, made)).diameter(norm, frozenset()) == 2.0


def test_what_cannot_be_asked_is_refused():
    """A unit that is no power of two, one of bundled features, an unknown grid, and a mean of several on units."""
    asked, moments = view(), Moments(X)
    for unit in (0, -1.0, 3.0, math.nan, math.inf, "1", 0.1):
        whole = functools.partial(Whole, unit=unit, rows=lambda x: x)
        with summed(whole, grid="unit"), pytest.raises(dp.PluginError, match="unit"):
            asked.mine("x", epsilon=1)
    for how in ({"grid": "whole"}, {"grid": "unit", "pool": True}):
        with summed(OneHot, **how), pytest.raises(dp.DPError):
            asked.mine("g", epsilon=1)
    with pytest.raises(dp.PluginError, match="cannot change"):
        moments.unit = 1.0
    vars(moments)["unit"] = 1.0
    assert enforce_bounds(moments).unit is None
    assert asked.budget.spent == 0


# On which grid


@pytest.mark.parametrize(("neighbors", "moved"), [("replace_one", 2), ("add_remove", 1)])
@pytest.mark.parametrize("epsilon", [0.01, 1, 3, 700])
def test_a_count_has_noise_on_whole_rows(neighbors, moved, epsilon):
    """Where it is asked for: its scale is the sensitivity over epsilon, the next float at most; else it is fine."""
    asked, found = view(neighbors=neighbors), {}
    for grid in ("unit", "fine"):
        with summed(OneHot, grid=grid):
            found[grid] = asked.mine("g", epsilon=epsilon, fresh=True).value

    assert found["unit"]["grid"] == 0
    assert moved / epsilon <= found["unit"]["scale"] <= math.nextafter(moved / epsilon, math.inf)
    assert Fraction(moved) / Fraction(found["unit"]["scale"]) <= Fraction(epsilon)
    assert all(each == round(each) for each in found["unit"]["values"])
    if moved == 1 and epsilon < 10:  # the variance of the geometric mechanism
        q = math.exp(-epsilon)
        assert asked.count(epsilon=epsilon).noise_standard_error ** 2 <= 2 * q / (1 - q) ** 2 * (1 + 1e-12)
    assert found["fine"]["scale"] * 2.0 ** found["fine"]["grid"] >= 2**15


PEOPLE = FRAME.assign(id=np.arange(400) // 4)


@pytest.mark.parametrize(("asked", "scale"), [
    (lambda: view(epsilon=10), 2), (lambda: view(epsilon=10, delta=1e-6, accounting="basic"), 2),
    (lambda: view(PEOPLE, unit="id", max_rows=3), 6),
    (lambda: view(PEOPLE, unit="id", max_rows=3, neighbors="add_remove"), 3),
    (lambda: view(public=["h"]).group_by("h"), 2), (lambda: view().sample(0.5), None),  # within it, epsilons add up
    # Where they do not, noise on whole rows costs more than fine noise.
    *((lambda how=how: view(epsilon=10, delta=1e-6, accounting=how), 0) for how in ("portfolio", "gdp", "rdp")),
])  # fmt: skip
def test_where_noise_is_on_whole_rows(asked, scale):
    """Where it composes as well as fine noise; of groups, people and samples as well."""
    found = asked().value_counts("g", epsilon=1)

    for noise in found.privacy.noise:
        assert (noise.grid == 0) == (scale != 0)
        assert not scale or noise.scale == noise.sensitivity == scale
        assert scale is not None or noise.scale < 2
    for each in getattr(found, "releases", [found]):
        assert not scale or (each.raw == np.rint(each.raw)).all()


@pytest.mark.parametrize(("features", "noise"), [
    (OneHot, "gaussian"), (OneHot, "cube"), (lambda column: Stack(OneHot(column), Moments(X)), "laplace"),
], ids=["gaussian", "cube", "no unit"])  # fmt: skip
def test_other_noise_and_features_stay_on_their_grid(features, noise):
    """Gaussian noise, that of the cube, and noise of features that have no unit, are as they are without asking."""
    asked, found = view(delta=1e-6, accounting="basic"), []
    for grid in ("unit", "fine"):
        with summed(features, noise=noise, grid=grid):
            found.append(asked.mine("g", epsilon=1, fresh=True, **({"delta": 1e-9} if noise == "gaussian" else {})))
    unit, fine = ((each.value["grid"], each.value["scale"]) for each in found)

    assert unit == fine
    assert unit[0] > 0


# The law


def reference(scale, step=1.0):
    """The law to 40 digits: probabilities by the distance from 0 in steps."""
    with mpmath.workdps(40):
        q = mpmath.exp(-mpmath.mpf(step) / mpmath.mpf(scale))
        far = [(1 - q) / (1 + q)]
        while len(far) < 3 or far[-1] > mpmath.mpf(10) ** -35:
            far.append(2 * (1 - q) / (1 + q) * q ** len(far))
        return far


@pytest.mark.parametrize("scale", [0.02, 0.05, 0.2, 0.5, 1.0, 2.0, 2 / 3, 10.0])
def test_variance_and_reach_are_those_of_the_probabilities(scale):
    """Summed up in 40 digits: up to the reach they are the confidence at least, and without its ends less."""
    for step in (1.0, 0.25):
        with mpmath.workdps(40):
            exact = float(sum(p * (m * step) ** 2 for m, p in enumerate(reference(scale, step))))
        assert NoiseLaw(scale, step).variance == pytest.approx(exact, rel=1e-13)
    far, law = reference(scale), NoiseLaw(scale, 2.0**-30)
    assert law.variance == pytest.approx(2 * scale**2, rel=1e-8)  # a fine step has the law of Laplace
    assert law.half_width(0.95) == pytest.approx(-scale * math.log(0.05), abs=2e-9)
    for confidence in (0.0, 0.5, 0.9, 0.95, 0.99, 1 - 1e-9):
        reach = int(NoiseLaw(scale, 1.0).half_width(confidence))
        assert float(sum(far[: reach + 1])) >= confidence
        assert reach == 0 or float(sum(far[:reach])) < confidence


@pytest.mark.statistical
@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("epsilon", [1, 5, 20])
def test_counts_and_intervals_have_the_law_that_is_said(epsilon, neighbors):
    """Of 4,000 categories, noise has its probabilities, and 95 % intervals hold the exact counts as often."""
    truth = np.bincount(np.random.default_rng(1).integers(0, 4000, 20_000), minlength=4000)
    frame = pd.DataFrame({"c": np.repeat(np.arange(4000), truth)})
    with seeded_noise(20_261_101 + epsilon):
        found = view(frame, bounds=None, categories={"c": range(4000)}, neighbors=neighbors).value_counts(
            "c", sort=False, epsilon=epsilon
        )
    far, (low, high) = np.abs(found.raw - truth).astype(int), found.intervals
    law = [float(p) for p in reference((2 if neighbors == "replace_one" else 1) / epsilon)]
    covered = sum(law[: int(found.half_width) + 1])

    assert covered >= 0.95
    for p, times in (
        (covered, ((low <= truth) & (truth <= high)).sum()),
        *zip(law[:4], np.bincount(far, minlength=4)[:4], strict=True),
    ):
        assert abs(times / 4000 - p) <= 5.5 * math.sqrt(max(p * (1 - p), 1 / 4000) / 4000)


# What is kept


@pytest.mark.parametrize(("first", "second", "free"), [
    (("fine", 2), ("unit", 1), True), (("fine", 1), ("unit", 1), False), (("fine", 1.05), ("unit", 1), True),
    (("fine", 1.005), ("unit", 1), False), (("unit", 1), ("unit", 1), True), (("unit", 2), ("unit", 1), True),
    (("unit", 1), ("unit", 2), False), (("unit", 2), ("fine", 1), False), (("fine", 1), ("fine", 1), True),
])  # fmt: skip
def test_what_is_taken_is_as_accurate_and_no_coarser(first, second, free):
    """Between grids the variances decide; who counts on fine noise is never given coarser noise."""
    asked, spent = view(), []
    for grid, epsilon in (first, second):
        with summed(OneHot, grid=grid):
            asked.mine("g", epsilon=epsilon)
        spent.append(float(asked.budget.spent))

    assert [first[1], first[1] + (0 if free else second[1])] == pytest.approx(spent)
