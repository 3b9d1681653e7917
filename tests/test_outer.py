"""Outer products of rows: their norms are upper bounds and attained, and their sums are exact."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dfprivacy._measure.evaluate import Table
from dfprivacy._table.batch import Batch, category, number
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import Dictionary, adapt
from dfprivacy.errors import ArgumentError
from dfprivacy.features import Given, OneHot, Outer
from dfprivacy.features.outer import _ball_diameter_squared, _cube_diameter
from dfprivacy.schema import Column

LOW, HIGH = 2.0, 6.0
NOTHING: frozenset[str] = frozenset()
UNIT = 2.0**38
BY = Column("by", categories=("a", "b", "c"))


def columns(d):
    return [Column(f"x{i}", bounds=(LOW, HIGH), fill=4.0) for i in range(d)]


def batch_of(y, by=None):
    """A batch of rows y in [-1, 1]^d, and codes."""
    y = np.atleast_2d(np.asarray(y, dtype=np.float64))
    raw = {number(c): values for c, values in zip(columns(y.shape[1]), (4 + 2 * y).T, strict=True)}
    if by is not None:
        raw[category(BY)] = Dictionary(np.asarray(by, dtype=np.intp), tuple("abcz"))
    return Batch(len(y), raw)


def radius_of(share, d):
    return None if share is None else share * math.sqrt(d)


def corners(d):
    return np.array(list(itertools.product([-1.0, 1.0], repeat=d)))


# ---- coordinates -----------------------------------------------------------------------------------------


def test_the_coordinates_are_the_upper_triangle():
    """Undone by the weights, a row's vector is 1, y and the products y_i y_j, i ≤ j, in that order."""
    features = Outer(columns(2), count=True)

    [row] = features.rows(batch_of([[0.5, -0.25]]))

    assert (row / features.weights).tolist() == pytest.approx([1, 0.5, -0.25, 0.25, -0.125, 0.0625], abs=1e-15)


@pytest.mark.parametrize(
    ("d", "radius", "weights"),
    [
        (2, None, [1, 1, 1, 0.5, 0.5, 0.5]),
        (3, None, [1.5, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]),
        (2, 0.8, [0.4, 1, 1, 1 / 0.8, math.sqrt(2) / 0.8, 1 / 0.8]),
        (1, 1.0, [0.5, 1, 1]),
    ],
)
def test_the_weights(d, radius, weights):
    """The weights are those of the table in the class's notes; without the count its own is left out."""
    counted, plain = Outer(columns(d), radius=radius, count=True), Outer(columns(d), radius=radius)

    assert counted.weights.tolist() == pytest.approx(weights)
    assert plain.weights.tolist() == pytest.approx(weights[1:])
    assert (counted.shape, plain.shape) == ((len(weights),), (len(weights) - 1,))


@pytest.mark.parametrize("count", [False, True, 2.0])
def test_centred_squares(count):
    """For the cube: 2y²-1 in place of y², every weight 1 but that of the count, and sums as exact as all others."""
    features = Outer(columns(2), count=count, centred=True)
    rng = np.random.default_rng(1)
    y = np.round(rng.uniform(-1, 1, (7, 2)) * 64) / 64
    batch, place = batch_of(y), np.array([0, 1, 1, 2, 0, 1, 3])

    rows = features.rows(batch)
    total = features.image([int(t) for t in features.total(batch, None, 0)], 20)
    totals = [features.image([int(t) for t in each], 20) for each in features.totals(batch, place, 3, 0)]

    wanted = [float(count)] * bool(count) + [
        y[0, 0],
        y[0, 1],
        2 * y[0, 0] ** 2 - 1,
        y[0, 0] * y[0, 1],
        2 * y[0, 1] ** 2 - 1,
    ]
    assert rows[0].tolist() == pytest.approx(wanted, abs=1e-12)
    assert (np.array(total) / 2**20).tolist() == pytest.approx(rows.sum(axis=0).tolist(), abs=1e-6)
    for at, each in enumerate(totals):
        assert (np.array(each) / 2**20).tolist() == pytest.approx(rows[place == at].sum(axis=0).tolist(), abs=1e-6)
    assert features.shape == (5 + bool(count),)
    assert features.radius(math.inf) == max(1.0, float(count))
    assert features.diameter(math.inf, NOTHING) == 2
    assert features.radius(1) == float(count) + 5
    assert abs(rows).max() <= features.radius(math.inf)
    with pytest.raises(ArgumentError, match="no radius"):
        Outer(columns(2), radius=0.5, centred=True)


def test_long_rows_are_scaled_down():
    """A row outside the ball keeps its direction and gets the radius' length; others stay as they are."""
    features = Outer(columns(2), radius=0.5)

    long, short = features.points(batch_of([[0.6, -0.8], [0.25, 0.125]]))[1:].T / 2.0**19

    assert long.tolist() == pytest.approx([0.3, -0.4], abs=1e-5)
    assert short.tolist() == [0.25, 0.125]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_row_leaves_the_ball(data):
    """Whatever the raw numbers, the rounded row is no longer than the radius, exactly."""
    d = data.draw(st.integers(1, 6))
    radius = data.draw(st.floats(0.002, 1)) * math.sqrt(d)
    raw = data.draw(st.lists(st.floats() | st.floats(1, 7), min_size=d, max_size=d))
    batch = Batch(1, {number(c): np.array([x]) for c, x in zip(columns(d), raw, strict=True)})

    y = [Fraction(int(step), 2**19) for step in Outer(columns(d), radius=radius).points(batch)[1:, 0]]

    assert max(map(abs, y)) <= 1
    assert sum(each * each for each in y) <= Fraction(radius) ** 2 or radius > math.sqrt(d) * (1 - 1e-12)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_heavier_count_is_free_where_rows_only_change(d):
    """Up to a weight of √2.5 r, or √2 r of one column, complete rows are no farther from none than from others."""
    r = 0.8 * math.sqrt(d)
    weight = r * math.sqrt(2 if d == 1 else 2.5)
    heavy = Given(*columns(d), of=Outer(columns(d), radius=r, count=weight))

    assert heavy.of.weights[0] == weight
    assert heavy.radius(2) == pytest.approx(math.sqrt(weight**2 + 2 * r**2))
    assert heavy.diameter(2, NOTHING) == pytest.approx(Outer(columns(d), radius=r).diameter(2, NOTHING))


@pytest.mark.parametrize("count", [0.0, -1.0, math.inf, math.nan])
def test_a_count_has_a_positive_weight(count):
    """Anything else is refused."""
    with pytest.raises(ArgumentError, match="is no weight"):
        Outer(columns(2), radius=1.0, count=count)


@pytest.mark.parametrize("radius", [0, -1, 1.5, math.inf, math.nan, 1e-9])
def test_a_radius_out_of_range(radius):
    """A radius is positive, and no larger than the diagonal of the cube."""
    with pytest.raises(ArgumentError, match="out of range"):
        Outer(columns(2), radius=radius)


@pytest.mark.parametrize("wanted", [[], columns(1) * 2])
def test_columns_that_cannot_be_multiplied(wanted):
    """There is at least one column, and none twice."""
    with pytest.raises(ArgumentError, match="at least one column, each once"):
        Outer(wanted)


# ---- radius and diameter ---------------------------------------------------------------------------------


@pytest.mark.parametrize("r", [0.6, 1.0, 2.2])
def test_reference_sensitivities(r):
    """Under Gaussian noise: 1.5 r for a row more or less, √4.5 r for a row that changes, with its class or not."""
    d = 6
    classes = OneHot(BY) * Outer(columns(d), radius=r, count=True)

    assert classes.radius(2) == pytest.approx(1.5 * r)
    assert classes.diameter(2, NOTHING) == pytest.approx(2.1213 * r, rel=1e-4)
    assert classes.diameter(2, frozenset({"by"})) == pytest.approx(math.sqrt(4.5) * r)
    assert Outer(columns(d), radius=r).diameter(2, NOTHING) == pytest.approx(math.sqrt(4.5) * r)


@pytest.mark.parametrize(("r", "w", "squared"), [(1, 1, 4.5), (2, 0.5, 18), (1, 2, 10.125), (1, 0.6, 4)])
def test_reference_diameters_of_a_ball(r, w, squared):
    """Joint sensitivities of y and w yyᵀ within a class."""
    assert _ball_diameter_squared(r, w) == pytest.approx(squared)


@pytest.mark.parametrize("d", [1, 2, 5, 10])
def test_reference_sensitivities_of_the_cube(d):
    """Under Laplace noise: d/2 + d + d(d+1)/4 for a row more or less, twice that for one that changes its class."""
    classes = OneHot(BY) * Outer(columns(d), count=True)

    assert classes.radius(1) == d / 2 + d + d * (d + 1) / 4
    assert classes.diameter(1, NOTHING) == 2 * classes.radius(1)


@pytest.mark.parametrize("share", [None, 1.0, 0.6, 0.1])
@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_radii(d, count, share):
    """Over corners of the cube and random rows, radii are upper bounds; the one that noise needs is attained."""
    features = Outer(columns(d), radius=radius_of(share, d), count=count)
    random = np.random.default_rng(d).uniform(-1, 1, (2000, d))
    rows = features.rows(batch_of(np.concatenate([corners(d), random])))

    for norm in (1, 2):
        attained = np.linalg.norm(rows, ord=norm, axis=1).max()
        assert attained <= features.radius(norm) * (1 + 1e-12)
    needed = 1 if share is None else 2
    assert np.linalg.norm(rows, ord=needed, axis=1).max() >= features.radius(needed) * 0.999


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("w", [0.5, 0.1, 1.0, 3.0])
def test_the_diameter_of_a_cube(d, w):
    """The closed form is attained, and no pair found by climbing from random ones is further apart."""
    i, j = np.triu_indices(d)
    u = w * (d + 1)
    best = np.ones(d), np.full(d, max(0.0, 1 - 1 / u) - 1)
    rng = np.random.default_rng(d)
    y, z = rng.uniform(-1, 1, (2, 500, d))

    def distance(y, z):
        products = np.abs(y[..., i] * y[..., j] - z[..., i] * z[..., j]).sum(-1)
        return np.abs(y - z).sum(-1) + w * products

    reached = distance(y, z)
    for step in 2.0 ** -np.arange(0, 6, 0.02):
        y2, z2 = (np.clip(p + step * rng.normal(size=p.shape), -1, 1) for p in (y, z))
        moved = distance(y2, z2)
        better = moved > reached
        y[better], z[better], reached[better] = y2[better], z2[better], moved[better]

    bound = _cube_diameter(d, w)
    assert distance(*best) == pytest.approx(bound, rel=1e-12)
    assert bound * 0.97 <= reached.max() <= bound * (1 + 1e-12)


@pytest.mark.parametrize("share", [0.3, 0.6])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_diameter_of_a_ball(d, share):
    """Over rows of full length and shorter ones, the L2 diameter is an upper bound and attained."""
    radius = radius_of(share, d)
    features = Outer(columns(d), radius=radius)
    directions = np.random.default_rng(7).normal(size=(1500, d))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    rows = features.rows(batch_of(np.concatenate([radius * directions, 0.8 * radius * directions])))

    widest = max(np.linalg.norm(rows - row, axis=1).max() for row in rows[:400])

    assert widest <= features.diameter(2, NOTHING) * (1 + 1e-12)
    assert widest >= features.diameter(2, NOTHING) * 0.999


@pytest.mark.parametrize("share", [None, 0.6])
def test_the_other_norm_is_bounded(share):
    """The diameter in the norm that the weights are not made for is an upper bound too."""
    features = Outer(columns(3), radius=radius_of(share, 3), count=True)
    rows = features.rows(batch_of(np.concatenate([corners(3), np.random.default_rng(1).uniform(-1, 1, (500, 3))])))

    for norm in (1, 2):
        widest = max(np.linalg.norm(rows - row, ord=norm, axis=1).max() for row in rows)
        assert widest <= features.diameter(norm, NOTHING)


def test_public_columns_do_not_change():
    """Tables that agree on all columns agree on their products; one private column is enough to differ."""
    features = Outer(columns(2), radius=1.0)

    assert features.diameter(2, frozenset({"x0", "x1"})) == features.diameter(1, frozenset({"x0", "x1"})) == 0
    assert features.diameter(2, frozenset({"x0"})) > 0


# ---- exact sums ------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_the_total_is_the_sum_of_the_steps(data):
    """However the products are added up, in all or by category and under any mask, the units are the same."""
    size, d = data.draw(st.integers(0, 30)), data.draw(st.integers(1, 4))
    y = np.array(
        data.draw(st.lists(st.lists(st.floats(-1, 1), min_size=d, max_size=d), min_size=size, max_size=size))
    )
    by = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    mask = data.draw(
        st.none() | st.lists(st.booleans(), min_size=size, max_size=size).map(lambda m: np.array(m, bool))
    )
    groups = data.draw(st.none() | st.permutations(["a", "b", "c"]) | st.just(["b"]))
    outer = Outer(
        columns(d), radius=radius_of(data.draw(st.sampled_from([None, 0.6])), d), count=data.draw(st.booleans())
    )
    batch = batch_of(y.reshape(size, d), by)

    for features in (outer, OneHot(BY, groups=groups) * outer, OneHot(BY) * OneHot(BY, groups=groups) * outer):
        steps = features.steps(batch, 5)
        kept = steps if mask is None else steps[mask]

        assert (steps == np.rint(steps)).all()
        assert features.total(batch, mask, 5).tolist() == kept.sum(axis=0).tolist()


def test_products_of_full_batches_are_exact():
    """The sum of a full batch at the largest products, and at random ones, is that of Python's integers."""
    d, size = 6, 1 << 14
    rows = np.random.default_rng(3).uniform(-1, 1, (size, d))
    rows[: size // 2] = 1 - 2.0**-19
    features = Outer(columns(d), count=True)
    batch = batch_of(rows)

    found = features.total(batch, None, 0)

    points = features.points(batch).astype(np.int64)
    assert found.tolist() == [int(points[i] @ points[j]) for i, j in zip(*np.triu_indices(d + 1), strict=True)]
    assert np.abs(found).max() <= 2**53


@pytest.mark.parametrize("k", [-3, 0, 20, 36, 38, 39, 60])
def test_settling_rounds_weighted_sums(k):
    """An image of a sum is within half a step of the weighted one, in Python's fractions."""
    features = Outer(columns(2), radius=0.77, count=True)
    total = [int(t) for t in np.random.default_rng(4).integers(-(2**61), 2**61, 6)]

    found = features.image(total, k)

    for step, t, weight in zip(found, total, features.weights.tolist(), strict=True):
        assert abs(step - Fraction(weight) * t * Fraction(2) ** (k - 38)) <= Fraction(1, 2)


FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": lambda data: pl.concat([pl.DataFrame(data)[i : i + 777] for i in range(0, 5000, 777)]).lazy(),
    "arrow": lambda data: pl.DataFrame(data)[::-1].to_arrow(),
}


def table(frame, d=4, **said):
    terms = {"bounds": {f"x{i}": (LOW, HIGH) for i in range(d)}, "categories": {"by": ["a", "b", "c"]}}
    terms |= {"public": (), "missing": None, "neighbors": "add_remove"}
    return Table(adapt(frame), read_schema(adapt(frame), **{**terms, **said}))


def test_one_sum_whatever_computes_it():
    """Every engine, batching and order of the rows gives the same integers."""
    rng = np.random.default_rng(5)
    data = {f"x{i}": rng.normal(4, 1.3, 5000) for i in range(4)} | {"by": rng.choice([*"abcz"], 5000)}
    totals = set()
    for make in FRAMES.values():
        seen = table(make(data))
        outer = Outer([seen.schema.columns[f"x{i}"] for i in range(4)], radius=1.2, count=True)
        totals.add(tuple(seen.total(OneHot(seen.schema.columns["by"]) * outer, 30)))

    assert len(totals) == 1


@pytest.mark.parametrize("share", [None, 0.6])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_sum_is_as_sensitive_as_charged(share, data):
    """A row more or less, or another row in its place, moves the image of the sum by the steps charged at most."""
    k, d, size = data.draw(st.sampled_from([20, 30, 38])), 2, data.draw(st.integers(1, 8))
    row = st.tuples(*[st.floats(LOW, HIGH) | st.sampled_from([LOW, HIGH])] * d, st.sampled_from("abcz"))
    rows = data.draw(st.lists(row, min_size=size, max_size=size))
    other = data.draw(row)
    by = Column("by", categories=("a", "b", "c"))
    features = OneHot(by) * Outer(columns(d), radius=radius_of(share, d), count=True)
    norm = 1 if share is None else 2

    def total(rows):
        *x, by = zip(*rows, strict=True)
        frame = pd.DataFrame({**{f"x{i}": pd.Series(v, dtype=float) for i, v in enumerate(x)}, "by": by})
        return np.array(table(frame, d).total(features, k), dtype=object)

    base, replaced, added = total(rows), total([*rows[:-1], other]), total([*rows, other])

    slack = features.support if norm == 1 else math.sqrt(features.support)
    for moved, size in ((replaced, features.diameter(norm, NOTHING)), (added, features.radius(norm))):
        assert np.linalg.norm((moved - base).astype(float), ord=norm) <= size * 2.0**k + slack + 1


def test_outer_products_are_described():
    """A feature says what it is of, and how many coordinates the final rounding can move."""
    features = OneHot(BY) * Outer(columns(2), count=True)

    assert features.describe() == "OneHot(by) x Outer(x0, x1)"
    assert features.shape == (3, 6)
    assert features.support == 12
