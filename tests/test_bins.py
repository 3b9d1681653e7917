"""Counts of intervals: the right ones, the same by every way of adding up, at the sensitivity of every norm."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dfprivacy._table.batch import Batch, number
from dfprivacy.errors import ArgumentError
from dfprivacy.features import Bins, Given, Moments
from dfprivacy.schema import Column

X = Column("x", bounds=(0.0, 100.0), fill=50.0)
BY = Column("by", categories=(0, 1))
NOBODY: frozenset[str] = frozenset()
EDGES = [np.linspace(0, 100, 4097), [0, 1, 5, 7.5, 100], np.arange(0, 101), [10, 20, 20.0000001, 90]]


def batch_of(x):
    return Batch(len(x), {number(X): np.asarray(x, dtype=np.float64)})


@pytest.mark.parametrize("edges", EDGES, ids=len)
def test_every_number_is_in_its_interval(edges):
    """At, just below and just above every edge, and anywhere else; outside is the first or the last."""
    edges = np.asarray(edges, dtype=np.float64)
    near = [edges, np.nextafter(edges, -math.inf), np.nextafter(edges, math.inf)]
    x = np.clip(np.concatenate([*near, np.random.default_rng(1).uniform(-5, 105, 3000)]), 0, 100)

    found = Bins(X, edges).places(batch_of(x))

    assert np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2).tolist() == found.tolist()


@pytest.mark.parametrize("edges", EDGES[1:3], ids=len)
def test_counts_are_those_of_numpy(edges):
    """The sum is NumPy's histogram."""
    x = np.random.default_rng(2).integers(0, 101, 500)

    found = Bins(X, edges).total(batch_of(x), None, 0)

    assert np.histogram(x, edges)[0].tolist() == found.tolist()


def test_a_tree_counts_runs_of_intervals():
    """Each width has its counts, times its weight, and rows without a value are counted apart, or at their fill."""
    x = [1, 1, 30, 60, 99, math.nan]
    tree = {"widths": (4, 2, 1), "weights": (1, 3, 2)}

    with_missing, filled = (Bins(X, [0, 25, 50, 75, 100], missing=m, **tree) for m in (True, False))
    found = [[int(t) for t in f.total(batch_of(x), None, 0)] for f in (with_missing, filled)]

    assert [[2, 1, 1, 1, 1], [2, 1, 2, 1]] == found
    assert [5, 9, 6, 4, 2, 2, 2, 6] == with_missing.image(found[0], 0)
    assert [6, 9, 9, 4, 2, 4, 2] == filled.image(found[1], 0)
    assert [1, 3, 3, 2, 2, 2, 2, 6] == with_missing.weights.tolist()


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("widths", [(1,), (4, 1), (2, 1), (4, 2, 1)])
@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_radius_and_diameter_are_attained(norm, widths, missing):
    """Over all intervals and no value, the bounds hold and are attained."""
    weights = (3, 1, 2)[: len(widths)]
    features = Bins(X, [0, 25, 50, 75, 100], widths=widths, weights=weights, missing=missing)

    rows = features.rows(batch_of([10, 30, 60, 90, *([math.nan] if missing else [])]))
    lengths = np.linalg.norm(rows, ord=norm, axis=1)
    apart = max(np.linalg.norm(a - b, ord=norm) for a, b in itertools.combinations(rows, 2))

    assert lengths.max() == pytest.approx(features.radius(norm), rel=1e-12)
    assert apart == pytest.approx(features.diameter(norm, NOBODY), rel=1e-12)
    assert 0 == features.diameter(norm, frozenset("x"))


@pytest.mark.parametrize("missing", [False, True])
def test_sums_by_place_and_mask(missing):
    """Totals under a mask and by place add up the rows' own vectors."""
    features = Bins(X, [0, 25, 50, 75, 100], widths=(2, 1), weights=(1, 1), missing=missing)
    x = np.where(np.arange(200) % 7, np.random.default_rng(3).uniform(0, 100, 200), math.nan)
    place = np.random.default_rng(4).integers(0, 4, 200)
    steps = features.steps(batch_of(x), 0)

    assert steps.sum(axis=0).tolist() == features.total(batch_of(x), None, 5).tolist()
    assert steps[place == 2].sum(axis=0).tolist() == features.total(batch_of(x), place == 2, 5).tolist()
    assert [steps[place == at].sum(axis=0).tolist() for at in range(3)] == features.totals(
        batch_of(x), place, 3, 5
    ).tolist()


def test_intervals_that_cannot_be():
    """Edges rise and are finite; widths divide their number; weights are whole."""
    for edges in ([0], [0, 0, 1], [0, math.inf], [1, 0], [math.nan, 1]):
        with pytest.raises(ArgumentError, match="finite and rise"):
            Bins(X, edges)
    for widths, weights in (((2,), (1,)), ((1,), (1, 2)), ((), ()), ((0,), (1,))):
        with pytest.raises(ArgumentError, match="3 intervals"):
            Bins(X, [0, 1, 2, 3], widths=widths, weights=weights)
    for weight in (0, 0.5, -1):
        with pytest.raises(ArgumentError, match="whole numbers"):
            Bins(X, [0, 1], weights=(weight,))


# ---- tallies of complete rows --------------------------------------------------------------------------------

MOMENTS = {
    "free where rows change": (Moments(X), (0, 0.5), 1, 1.5, 2.0),
    "free where they come and go": (Moments(X, count=True), (0, 1.5), 1, 1.5, 3.0),
    "the cube's": (Moments(X, centred=True), (1, -1), math.inf, 1.0, 2.0),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_missing_rows_are_counted_for_nothing(name):
    """A tally beside moments has their radius or diameter, and no pair of rows is further apart."""
    of, tally, norm, radius, diameter = MOMENTS[name]
    features = Given(X, of=of, tally=tally)
    rows = features.rows(batch_of([*np.linspace(0, 100, 801), math.nan]))

    assert (radius, diameter) == pytest.approx((features.radius(norm), features.diameter(norm, NOBODY)), abs=1e-12)
    assert np.linalg.norm(rows, ord=norm, axis=1).max() == pytest.approx(radius, abs=1e-12)
    apart = max(np.linalg.norm(rows - row, ord=norm, axis=1).max() for row in rows)
    assert diameter - 1e-5 <= apart <= diameter + 1e-12


def test_a_tally_is_summed_with_the_features():
    """The last coordinate counts complete rows and others, in totals of all kinds."""
    features = Given(X, of=Moments(X, degree=1), tally=(1, -0.5))
    batch = batch_of([0, 100, math.nan, 100])
    place = np.array([0, 1, 1, 2])

    assert [[-1, 1], [1, 1], [0, -0.5], [1, 1]] == features.rows(batch).tolist()
    assert [4, 4 * 2.5] == features.total(batch, None, 2).tolist()
    assert [[-4, 4], [4, 2]] == features.totals(batch, place, 2, 2).tolist()


def test_a_tally_that_counts_nothing():
    """A tally has two finite numbers, not both 0."""
    for tally in ((0, 0), (1,), (math.inf, 1)):
        with pytest.raises(ArgumentError, match="counts nothing"):
            Given(X, tally=tally)


def test_squares_are_centred_alone():
    """A centred square has neither a count beside it nor degree 1."""
    for options in ({"degree": 1}, {"count": True}):
        with pytest.raises(ArgumentError, match="centred"):
            Moments(X, centred=True, **options)


def test_the_rounding_of_heavy_counts_is_charged():
    """On a grid coarser than the unit, a moved row moves the rounded counts by no more than is charged."""
    rng = np.random.default_rng(1)
    widths, k = (4, 2, 1), -3
    bins = Bins(X, np.linspace(0, 8, 9), widths=widths, weights=[2**40 + 3] * 3)
    charged = Fraction(bins.diameter(1, frozenset())) * Fraction(2) ** k + bins.support
    far = []
    for counts in rng.integers(1, 1000, (4000, 8)).tolist():
        moved = counts.copy()
        moved[0], moved[7] = moved[0] - 1, moved[7] + 1
        far.append(sum(abs(a - b) for a, b in zip(bins.image(counts, k), bins.image(moved, k), strict=True)))

    assert max(far) <= charged
    assert max(far) > charged - bins.support  # rounding does move them
