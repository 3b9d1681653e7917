"""Radius and diameter of the row features are upper bounds, and attained."""

from __future__ import annotations

import math
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import dfprivacy as dp
from dfprivacy._table.batch import Batch, category, number
from dfprivacy._table.frames import Dictionary
from dfprivacy.errors import ArgumentError, PluginError
from dfprivacy.features import Beyond, Count, Given, Moments, OneHot, RowFeatures, Stack
from dfprivacy.features.moments import _parabola_diameter
from dfprivacy.schema import Column

X = Column("x", bounds=(2.0, 6.0), fill=4.0)
BY = Column("by", categories=("a", "b", "c"))
TWO = Column("by", categories=("a", "b"))
ARM = Column("arm", categories=(1, 2))

GRID = 1601
"""Points of y in [-1, 1]; the norms of differences are searched over all their pairs."""

MOMENTS = [*((degree, count) for degree in (1, 2) for count in (False, True)), (2, "beside")]


def batch_of(x=None, by=None, arm=None):
    """A batch of raw numbers and codes."""
    raw = {}
    if x is not None:
        raw[number(X)] = np.asarray(x, dtype=np.float64)
    if by is not None:
        for column in (BY, TWO):
            raw[category(column)] = Dictionary(np.asarray(by, dtype=np.intp), ["a", "b", "c"])
    if arm is not None:
        raw[category(ARM)] = np.asarray(arm)
    return Batch(max(len(values) for values in (x, by, arm) if values is not None), raw)


def vectors(features, points):
    """The vectors of rows (x, by) in batches."""
    x, by = zip(*points, strict=True)
    return features.rows(batch_of(x, by))


def widest(rows, others, norm):
    """Largest distance of a row of one set from a row of the other."""
    return cdist(rows, others, {1: "cityblock", 2: "euclidean", math.inf: "chebyshev"}[norm]).max()


def check(bound, attained):
    """An upper bound, and at most a thousandth above what is attained."""
    assert attained <= bound * (1 + 1e-12)
    assert attained >= bound * 0.999


# ---- moments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize(("degree", "count"), MOMENTS)
def test_moments_radius_and_diameter(degree, count, norm):
    """Over a fine grid of y, the radius and diameter of moments are upper bounds and attained."""
    features = Moments(X, degree=degree, count=count)
    rows = features.rows(batch_of(np.linspace(2, 6, GRID)))

    check(features.radius(norm), np.linalg.norm(rows, ord=norm, axis=1).max())
    check(features.diameter(norm, frozenset()), widest(rows, rows, norm))


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize(("degree", "count"), MOMENTS)
@settings(max_examples=200, deadline=None)
@given(pair=st.tuples(st.floats(), st.floats()))
def test_moments_of_any_two_numbers(degree, count, norm, pair):
    """No two raw values, missing and infinite ones among them, are further apart than the diameter."""
    features = Moments(X, degree=degree, count=count)

    one, other = features.rows(batch_of(pair))

    assert np.linalg.norm(one, ord=norm) <= features.radius(norm) * (1 + 1e-15)
    assert np.linalg.norm(one - other, ord=norm) <= features.diameter(norm, frozenset()) * (1 + 1e-15)


@pytest.mark.parametrize(
    ("degree", "count", "expected"),
    [
        (1, False, [1, 2, 1, 2]),
        (2, False, [1.5, 2, math.sqrt(5) / 2, 2]),
        (1, True, [1, 2, 1, math.sqrt(2)]),
        (2, True, [1.5, 8 / 3, math.sqrt(5) / 2, 2]),
        (2, "beside", [2, 2, math.sqrt(2), 2]),
    ],
)
def test_the_table_of_moments(degree, count, expected):
    """The radii and diameters are those of the table in the class's notes."""
    features = Moments(X, degree=degree, count=count)

    found = [value for norm in (1, 2) for value in (features.radius(norm), features.diameter(norm, frozenset()))]

    assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("degree", "count", "coordinates"),
    [
        *[(1, False, [0.5]), (2, False, [0.5, 0.125]), (1, True, [0.75, 0.25]), (2, True, [0.5, 0.75, 0.125])],
        (2, "beside", [0.5, 0.375, 1.0]),
    ],
)
def test_the_coordinates_of_moments(degree, count, coordinates):
    """The coordinates of y = 1/2 are those of the table, and undone by the weights they are its powers."""
    features = Moments(X, degree=degree, count=count)

    [row] = features.rows(batch_of([5.0]))

    assert row.tolist() == coordinates
    if degree == 2:
        first, *_, last = row / features.weights
        assert (first, last) == (0.5, 1.0 if count == "beside" else 0.25)


@pytest.mark.parametrize(("degree", "count"), MOMENTS)
def test_moments_of_a_public_column_do_not_change(degree, count):
    """Tables that agree on a column agree on its moments."""
    features = Moments(X, degree=degree, count=count)

    assert features.diameter(1, frozenset({"x"})) == features.diameter(2, frozenset({"x"})) == 0


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_a_count_beside_the_moments_of_rows_with_a_value_is_free(norm):
    """No row is farther from one without a value than from another with one: the diameter is y's own."""
    features = Given(X, of=Moments(X, count="beside"))
    rows = features.rows(batch_of([*np.linspace(2, 6, GRID), math.nan]))

    check(features.diameter(norm, frozenset()), widest(rows, rows, norm))
    assert features.diameter(norm, frozenset()) == pytest.approx(2, rel=1e-14)


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_rows_beyond_their_bounds(norm):
    """They are told by their value before it is limited; one on a bound, or missing, is not beyond."""
    features = Beyond(X, weight=1 / 16)
    rows = features.rows(batch_of([2, 6, 4, math.nan, 1.9, -math.inf, 6.1, math.inf]))

    assert (16 * rows).tolist() == [[0, 0]] * 4 + [[1, 0]] * 2 + [[0, 1]] * 2
    check(features.radius(norm), widest(rows, np.zeros((1, 2)), norm))
    check(features.diameter(norm, frozenset()), widest(rows, rows, norm))
    assert features.diameter(norm, frozenset({"x"})) == 0
    part = batch_of([1, 4, 7]).take(slice(1, 3))
    assert [side.tolist() for side in part.beyond(X)] == [[False, False], [False, True]]


@pytest.mark.parametrize("weight", [0.0, -1.0, 3.0, math.inf, math.nan])
def test_a_row_beyond_weighs_a_power_of_two(weight):
    """Whole steps of it are exact."""
    with pytest.raises(dp.ArgumentError, match="no power of two"):
        Beyond(X, weight=weight)


@pytest.mark.parametrize(("degree", "count"), [(1, "beside"), (2, "besides"), (2, None)])
def test_moments_count_in_known_ways(degree, count):
    """A count that is unknown, or has no coordinates, is refused."""
    with pytest.raises(ArgumentError, match=r"count=.* is unknown"):
        Moments(X, degree=degree, count=count)


@pytest.mark.parametrize("degree", [0, 3, "2", None])
def test_moments_of_other_degrees(degree):
    """Moments have degree 1 or 2."""
    with pytest.raises(ArgumentError, match="degree 1 or 2"):
        Moments(X, degree=degree)


@pytest.mark.parametrize(
    ("norm", "c", "diameter"),
    [
        (1, 0.5, 2),
        (1, 0.75, 2.083333333),
        (1, 1, 2.25),
        (1, 1.5, 2.666666667),
        (1, 2, 3.125),
        (2, 0.5, 2),
        (2, math.sqrt(2), 2),
        (2, 1.66509, 2),
        (2, 2, 2.26817),
    ],
)
def test_reference_diameters_of_a_parabola(norm, c, diameter):
    """Joint sensitivities of the sums of y and c y²."""
    assert _parabola_diameter(norm, c) == pytest.approx(diameter, abs=2e-5)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("c", [0.1, 0.5, 0.6, 1, 1.4, 1.42, 1.6, 1.7, 2, 3, 10])
def test_the_diameter_of_a_parabola(norm, c):
    """The closed form is the largest distance of two points of (y, c y²), by search over a fine grid."""
    y = np.linspace(-1, 1, GRID)
    points = np.column_stack([y, c * y * y])

    check(_parabola_diameter(norm, c), widest(points, points, norm))


# ---- categories ------------------------------------------------------------------------------------------

POINTS = [(x, by) for by in range(-1, 3) for x in np.linspace(2, 6, 161)]
"""Rows of a number and a category; -1 is none."""


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("groups", [None, ["b"], ["c", "a"], ["a", "b"], ["c", "a", "b"]])
@pytest.mark.parametrize("inner", [None, *MOMENTS])
def test_one_hot_radius_and_diameter(norm, groups, inner):
    """Whatever is summed by category, and whichever categories are kept, the bounds hold and are attained."""
    features = OneHot(BY, groups=groups)
    if inner:
        features = features * Moments(X, degree=inner[0], count=inner[1])
    rows = vectors(features, POINTS)

    check(features.radius(norm), np.linalg.norm(rows, ord=norm, axis=1).max())
    check(features.diameter(norm, frozenset()), widest(np.unique(rows, axis=0), rows, norm))


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("groups", [None, ["b"], ["c", "a"]])
@pytest.mark.parametrize("inner", MOMENTS)
def test_one_hot_of_a_public_category(norm, groups, inner):
    """Where the category is public, only what is summed within it can change."""
    features = OneHot(BY, groups=groups) * Moments(X, degree=inner[0], count=inner[1])
    rows = vectors(features, POINTS).reshape(4, 161, -1)  # by category

    check(features.diameter(norm, frozenset({"by"})), max(widest(same, same, norm) for same in rows))
    assert features.diameter(norm, frozenset({"by", "x"})) == 0


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("inner", MOMENTS)
def test_one_hot_of_a_public_number(norm, inner):
    """Where the number is public, a row can only move it to another category."""
    features = OneHot(BY) * Moments(X, degree=inner[0], count=inner[1])
    rows = vectors(features, POINTS).reshape(4, 161, -1)

    attained = max(widest(rows[:, i], rows[:, i], norm) for i in range(161))
    check(features.diameter(norm, frozenset({"x"})), attained)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("public", [set(), {"by"}, {"arm"}, {"x"}, {"by", "arm"}, {"by", "x"}, {"arm", "x"}])
def test_one_hot_of_two_categories(norm, public):
    """Two categories cross; which of the three columns may change decides the diameter."""
    features = OneHot(TWO) * OneHot(ARM) * Moments(X, count=True)
    rows = list(product(np.linspace(2, 6, 81), range(2), [1, 2]))
    x, by, arm = zip(*rows, strict=True)
    found = features.rows(batch_of(x, by, arm))
    values = dict(zip(["x", "by", "arm"], (x, by, arm), strict=True))

    attained = 0.0
    same = np.ones((len(rows), len(rows)), dtype=bool)
    for name in public:
        column = np.array(values[name])
        same &= column[:, None] == column
    for i, row in enumerate(found):
        attained = max(attained, np.linalg.norm(found[same[i]] - row, ord=norm, axis=1).max())

    assert features.shape == (2, 2, 3)
    check(features.diameter(norm, frozenset(public)), attained)
    check(features.radius(norm), np.linalg.norm(found, ord=norm, axis=1).max())


def test_groups_are_in_the_order_asked_for():
    """The sums stand in the order of the groups; rows of dropped groups count nowhere."""
    batch = batch_of([5.0, 3.0, 2.0, 4.0], [0, 1, 2, -1])

    rows = (OneHot(BY, groups=["c", "a"]) * Moments(X, degree=1)).rows(batch)

    assert rows.tolist() == [[0, 0.5], [0, 0], [-1, 0], [0, 0]]
    assert OneHot(BY, groups=["c", "a"]).groups == ("c", "a")


@pytest.mark.parametrize("groups", [[], ["a", "a"], ["z"], [None]])
def test_groups_that_cannot_be_kept(groups):
    """Groups are categories, each named once."""
    with pytest.raises(ArgumentError):
        OneHot(BY, groups=groups)


def test_a_column_without_categories_has_no_groups():
    """Counting by category needs categories."""
    with pytest.raises(ArgumentError, match="at least one category"):
        OneHot(X)


def test_only_categories_multiply():
    """What is summed within categories is given once."""
    with pytest.raises(ArgumentError, match="cannot be multiplied"):
        OneHot(BY) * Moments(X) * Moments(X)


def test_features_are_described():
    """A feature says what it is of."""
    features = OneHot(TWO) * OneHot(ARM) * Moments(X)

    assert features.describe() == "OneHot(by) x OneHot(arm) x Moments(x)"
    assert features.support == 2
    assert features.dimension == 8
    assert features.columns == (TWO, ARM, X)


def test_counting_rows():
    """A count has radius 1; exchanging a row does not change it."""
    features = Count()

    assert features.rows(batch_of([1, 2, 3])).tolist() == [[1], [1], [1]]
    assert [features.radius(1), features.radius(2), features.diameter(1, frozenset())] == [1, 1, 0]


@settings(max_examples=150, deadline=None)
@given(data=st.data(), k=st.integers(0, 40))
def test_the_total_is_the_sum_of_the_steps(data, k):
    """However the sum is computed, it is the sum of the rows' whole steps, under every mask."""
    size = data.draw(st.integers(0, 30))
    x = data.draw(st.lists(st.floats(), min_size=size, max_size=size))
    by = data.draw(st.lists(st.integers(-1, 2), min_size=size, max_size=size))
    arm = data.draw(st.lists(st.sampled_from([1, 2, 7]), min_size=size, max_size=size))
    mask = data.draw(
        st.none() | st.lists(st.booleans(), min_size=size, max_size=size).map(lambda m: np.array(m, bool))
    )
    groups = data.draw(st.none() | st.permutations(["a", "b", "c"]) | st.just(["b"]))
    degree, count = data.draw(st.sampled_from(MOMENTS))
    moments = Moments(X, degree=degree, count=count)
    batch = batch_of(x, by, arm)

    for features in (
        Count(),
        moments,
        OneHot(BY, groups=groups),
        OneHot(BY, groups=groups) * moments,
        OneHot(BY, groups=groups) * Stack(moments, Beyond(X, weight=1 / 16)),
        OneHot(BY, groups=groups) * OneHot(ARM),
        OneHot(BY, groups=groups) * OneHot(ARM) * moments,
        Claim(2.0),
        OneHot(BY, groups=groups) * Claim(0.7),
    ):
        steps = features.steps(batch, k)
        kept = steps if mask is None else steps[mask]

        assert steps.shape == (size, features.dimension)
        assert (steps == np.rint(steps)).all()
        assert features.total(batch, mask, k).tolist() == kept.sum(axis=0).tolist()


def test_many_groups_are_summed_like_few():
    """Few groups are summed by a product of matrices and many by counting; the sums are the same integers."""
    rng = np.random.default_rng(2)
    many = Column("many", categories=tuple(range(40)))
    codes, x = rng.integers(-1, 45, 5000), rng.uniform(1, 7, 5000)
    batch = Batch(5000, {number(X): x, category(many): codes})
    moments = Moments(X, count=True)

    together = (OneHot(many) * moments).total(batch, None, 38).reshape(40, 3)

    pairs = [
        (OneHot(many, groups=[g, g + 1]) * moments).total(batch, None, 38).reshape(2, 3) for g in range(0, 40, 2)
    ]
    assert np.concatenate(pairs).tolist() == together.tolist()


# ---- what others write -----------------------------------------------------------------------------------


class Claim(RowFeatures):
    """Vectors that need not keep to the radius they claim."""

    shape = (2, 2)
    columns = (X,)

    def __init__(self, radius):
        self._radius = radius

    def rows(self, batch):
        x = batch.raw[number(X)]
        with np.errstate(all="ignore"):
            return np.column_stack([x, x * x, np.log(x), -x])

    def radius(self, norm):
        return self._radius if norm == 1 else self._radius / 2


@settings(max_examples=300, deadline=None)
@given(x=st.lists(st.floats(), min_size=1, max_size=8), radius=st.floats(1e-3, 1e3), k=st.integers(-5, 30))
def test_a_lying_radius_is_enforced(x, radius, k):
    """No row's whole steps have a norm above the radius claimed, but for half a step in each coordinate."""
    features = Claim(radius)

    steps = features.steps(batch_of(x), k)

    # One step more is what the curator charges for the rounding of the radius itself.
    assert np.linalg.norm(steps, ord=1, axis=1).max() <= radius * 2.0**k + 4 / 2 + 1
    assert np.linalg.norm(steps, ord=2, axis=1).max() <= radius / 2 * 2.0**k + math.sqrt(4) / 2 + 1


def test_an_honest_row_is_not_clipped():
    """A row within its radius is rounded to the grid and nothing else."""
    steps = Claim(100.0).steps(batch_of([1.0, 2.0]), 4)

    assert steps.tolist() == [[16, 16, 0, -16], [32, 64, round(16 * math.log(2)), -32]]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 0.0, 1e200])
def test_a_row_without_a_vector_counts_nowhere(value):
    """A row with a coordinate that is no finite number is zero, and its neighbours are as they were."""
    features = Claim(5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps = features.steps(batch_of([1.0, value, 1.0]), 10)

    assert steps[1].tolist() == [0, 0, 0, 0]
    assert steps[0].tolist() == steps[2].tolist() == features.steps(batch_of([1.0]), 10)[0].tolist()


def test_the_vectors_of_others_are_not_changed():
    """What a feature's `rows` returns is its own, also if it is kept or cannot be written to."""
    kept = np.array([[3.0, 4.0, 0.0, 0.0]])
    kept.flags.writeable = False

    class Kept(Claim):
        def rows(self, batch):
            return kept

    Kept(1.0).steps(batch_of([1.0]), 10)

    assert kept.tolist() == [[3, 4, 0, 0]]


def test_rows_of_other_types():
    """A feature may return booleans or integers, and one column without a second axis."""

    class Above(Claim):
        shape = (1,)

        def rows(self, batch):
            return batch.values(X) > 4

    assert Above(2.0).steps(batch_of([3.0, 5.0]), 2).tolist() == [[0], [4]]


@pytest.mark.parametrize("name", ["dimension", "support", "diameter", "steps", "total"])
def test_what_privacy_rests_on_cannot_be_redefined(name):
    """A third party writes rows and radius; a class that redefines what is derived from them is refused."""
    with pytest.raises(PluginError, match=name):
        type("Mine", (RowFeatures,), {name: lambda *_: 0})


def test_third_party_diameter():
    """The diameter of a third party's features is twice the radius they claim."""
    assert Claim(3.0).diameter(1, frozenset({"x"})) == 6
    assert (OneHot(BY) * Claim(3.0)).diameter(1, frozenset()) == 6
    assert (OneHot(BY) * Claim(3.0)).diameter(1, frozenset({"by"})) == 6


@pytest.mark.parametrize("radius", [-1.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("by_group", [False, True])
def test_a_radius_that_is_none_buys_no_exact_sum(radius, neighbors, by_group):
    """A third party's radius that is negative or not finite is refused before any charge, and sums nothing."""

    class Unbounded(RowFeatures):
        shape = (1,)

        def __init__(self, column):
            self.columns = (column,)

        def rows(self, batch):
            return batch.values(self.columns[0])[:, None]

        def radius(self, norm):
            return radius

    @dp.mechanism(columns={"column": "numeric", "by": "category"})
    def exact(curator, column, by):
        asked = Unbounded(column)
        return curator.sum(OneHot(by) * asked if by_group else asked).values  # noqa: PD011

    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "g": ["a", "b", "a"]})
    terms = {"bounds": {"x": (0, 4)}, "categories": {"g": ["a", "b"]}, "neighbors": neighbors}
    view = dp.protect(frame, f"radius {radius} {neighbors} {by_group}", epsilon=1, **terms)
    dp.register_mechanism(exact)
    try:
        with pytest.raises(dp.PluginError, match="A radius is positive and finite"):
            view.exact("x", "g", epsilon=1)
    finally:
        dp.unregister("exact")

    assert view.budget.spent == 0


# ---- many columns by the groups of one -------------------------------------------------------------------

ILL = Column("ill", categories=(0, 1))
MARK = Column("mark", categories=("a", "b", "c"))


def crosstab_batch(ill, mark, by):
    """A batch of two columns and their groups; -1 is no category."""
    raw = {category(ILL): np.asarray(ill, dtype=np.float64)}
    raw |= {
        category(c): Dictionary(np.asarray(v, dtype=np.intp), ["a", "b", "c"]) for c, v in ((MARK, mark), (BY, by))
    }
    return Batch(len(ill), raw)


def crosstabs(columns, categories, groups=None):
    """Whether a row is in one category of each column, by group."""
    return OneHot(BY, groups=groups) * Stack(
        *(OneHot(column, groups=[value]) for column, value in zip(columns, categories, strict=True))
    )


CROSSTABS = [
    crosstabs([ILL], [1]),
    crosstabs([ILL, MARK], [1, "c"]),
    crosstabs([ILL, MARK], [0, "b"], ["c", "a"]),
    crosstabs([MARK, MARK, ILL], ["a", "b", 1], ["b"]),
]


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("features", CROSSTABS, ids=range(len(CROSSTABS)))
@pytest.mark.parametrize("public", [set(), {"by"}, {"by", "ill"}, {"by", "ill", "mark"}])
def test_crosstabs_radius_and_diameter(features, public, norm):
    """Of all rows of two columns in groups, none is longer than the radius, and no two are further apart."""
    points = list(product([math.nan, 0, 1], range(-1, 3), range(-1, 3)))
    rows = features.rows(crosstab_batch(*zip(*points, strict=True)))
    columns = {"ill": 0, "mark": 1, "by": 2}

    attained = 0.0
    for point, row in zip(points, rows, strict=True):
        same = [all(str(point[columns[c]]) == str(other[columns[c]]) for c in public) for other in points]
        attained = max(attained, np.linalg.norm(rows[same] - row, ord=norm, axis=1).max())

    assert np.linalg.norm(rows, ord=norm, axis=1).max() <= features.radius(norm) * (1 + 1e-12)
    assert attained <= features.diameter(norm, frozenset(public)) * (1 + 1e-12)


@pytest.mark.parametrize("norm", [1, 2])
def test_crosstabs_of_different_columns_attain_their_bounds(norm):
    """Where each column is named once, radius and diameter are attained."""
    features = crosstabs([ILL, MARK], [1, "c"])
    points = list(product([0, 1], range(3), range(3)))
    rows = features.rows(crosstab_batch(*zip(*points, strict=True)))
    same = rows.reshape(6, 3, -1)

    check(features.radius(norm), np.linalg.norm(rows, ord=norm, axis=1).max())
    check(features.diameter(norm, frozenset()), widest(rows, rows, norm))
    check(features.diameter(norm, frozenset({"by"})), max(widest(same[:, i], same[:, i], norm) for i in range(3)))
    assert features.diameter(norm, frozenset({"by", "ill", "mark"})) == 0


@settings(max_examples=50, deadline=None)
@given(data=st.data(), k=st.integers(0, 30))
def test_the_total_of_crosstabs_is_the_sum_of_the_steps(data, k):
    """Counting gives the sum of the rows' whole steps, under every mask."""
    size = data.draw(st.integers(0, 30))
    draw = [st.sampled_from([math.nan, 0, 1, 7]), st.integers(-1, 2), st.integers(-1, 2)]
    columns = [data.draw(st.lists(each, min_size=size, max_size=size)) for each in draw]
    mask = data.draw(
        st.none() | st.lists(st.booleans(), min_size=size, max_size=size).map(lambda m: np.array(m, bool))
    )
    features, batch = data.draw(st.sampled_from(CROSSTABS)), crosstab_batch(*columns)

    total = features.total(batch, mask, k)

    rows = features.rows(batch)
    assert total.tolist() == (rows[slice(None) if mask is None else mask].sum(axis=0) * 2.0**k).tolist()


def test_crosstabs_are_counts_by_group():
    """The shape is groups by columns, in the orders asked for; rows of other groups count nowhere."""
    features = crosstabs([ILL, MARK], [1, "b"], ["c", "a"])
    batch = crosstab_batch([1, 1, 0, 1], [1, 0, 1, 1], [0, 2, 2, 1])

    total = features.total(batch, None, 0).reshape(features.shape)

    assert total.tolist() == [[1, 1], [1, 1]]
    assert features.columns == (BY, ILL, MARK)
    assert features.support == 2
    assert features.describe() == "OneHot(by) x Stack(OneHot(ill), OneHot(mark))"


def test_many_columns_are_counted_like_few():
    """However many columns there are, and however their values are laid out, each is counted."""
    rng = np.random.default_rng(3)
    block = rng.integers(0, 2, (200, 300)).astype(bool)
    by, mask = rng.integers(-1, 3, 200), rng.random(200) < 0.8
    many = [Column(f"c{k}", categories=(False, True)) for k in range(300)]
    raw = {category(column): block[:, k] for k, column in enumerate(many)}
    batch = Batch(200, {**raw, category(BY): Dictionary(by.astype(np.intp), ["a", "b", "c"])})
    features = crosstabs(many, [k % 2 == 0 for k in range(300)])

    total = features.total(batch, mask, 3).reshape(features.shape)

    wanted = block == (np.arange(300) % 2 == 0)
    assert total.tolist() == [(8.0 * wanted[mask & (by == group)].sum(axis=0)).tolist() for group in range(3)]
