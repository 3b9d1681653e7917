"""Row features: what their coordinates are, how they combine, and what cannot be made; bounds are in guarantees."""

# ruff: noqa: PD011 - measurements have values, too
from __future__ import annotations

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._measure.curator import Curator
from dfprivacy._measure.evaluate import Table
from dfprivacy._table.batch import Batch, category, number
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import Dictionary, adapt
from dfprivacy.errors import ArgumentError, PluginError
from dfprivacy.features import Beyond, Bins, Count, Given, Moments, OneHot, Outer, RowFeatures, Stack
from dfprivacy.schema import Column

X, Y = (Column(name, bounds=(2.0, 6.0), fill=4.0) for name in "xy")
BY, TWO = Column("by", categories=("a", "b", "c")), Column("two", categories=(1, 2))
NOBODY: frozenset[str] = frozenset()


def batch_of(x, y=None, by=None, two=None):
    """A batch of raw numbers, and of codes of categories, of which -1 is none."""
    raw = {number(c): np.asarray(v, dtype=np.float64) for c, v in ((X, x), (Y, y)) if v is not None}
    codes = {c: np.asarray(v, dtype=np.intp) for c, v in ((BY, by), (TWO, two)) if v is not None}
    return Batch(len(x), raw | {category(c): Dictionary(v, list(c.categories)) for c, v in codes.items()})


COORDINATES = [  # of rows with standardized numbers (1/2, -1/4), (missing, 1), (beyond, -1) and categories 1, 0, -1
    (Count(), [[1], [1], [1]]),
    (Moments(X, degree=1), [[0.5], [0], [1]]),
    (Moments(X), [[0.5, 0.125], [0, 0], [1, 0.5]]),
    (Moments(X, degree=1, count=True), [[0.75, 0.25], [0.5, 0.5], [1, 0]]),
    (Moments(X, count=True), [[0.5, 0.75, 0.125], [0, 1, 0], [1, 0, 0.5]]),
    (Moments(X, count="beside"), [[0.5, 0.375, 1], [0, 0.5, 1], [1, 0, 1]]),
    (Moments(X, centred=True), [[0.5, -0.5], [0, -1], [1, 1]]),
    (Beyond(X, weight=1 / 16), [[0, 0], [0, 0], [0, 1 / 16]]),
    (OneHot(BY), [[0, 1, 0], [1, 0, 0], [0, 0, 0]]),
    (OneHot(BY, groups=["c", "b"]) * Moments(X, degree=1), [[0, 0.5], [0, 0], [0, 0]]),
    (OneHot(BY, TWO, groups={"by": ["b", "a"], "two": [2]}), [[1, 0], [0, 0], [0, 0]]),
    (Given(X), [[1], [0], [1]]),
    (Given(X, Y, of=Moments(Y, degree=1), tally=(1, -0.5)), [[-0.25, 1], [0, -0.5], [-1, 1]]),
    (Outer([X, Y], count=True),
     [[1, 0.5, -0.25, 0.125, -0.0625, 0.03125], [1, 0, 1, 0, 0, 0.5], [1, 1, -1, 0.5, -0.5, 0.5]]),
    (Outer([X, Y], centred=True), [[0.5, -0.25, -0.5, -0.125, -0.875], [0, 1, -1, 0, 1], [1, -1, 1, -1, 1]]),
    (Bins(X, [2, 4, 5, 6]), [[0, 0, 1], [0, 1, 0], [0, 0, 1]]),
    (Bins(X, [2, 3, 4, 5, 6], widths=(2, 1), weights=(3, 1), missing=True),
     [[0, 3, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0, 4], [0, 3, 0, 0, 0, 1, 0]]),
    (Stack(Moments(Y, degree=1), Stack(Count(), OneHot(TWO))), [[-0.25, 1, 0, 1], [1, 1, 1, 0], [-1, 1, 0, 0]]),
]  # fmt: skip


@pytest.mark.parametrize(("features", "rows"), COORDINATES, ids=lambda each: getattr(each, "describe", str)())
def test_coordinates(features, rows):
    """The vectors of three rows, and the weights that are in them."""
    batch = batch_of([5, math.nan, 99], [3.5, 6, -math.inf], [1, 0, -1], [1, 0, -1])

    assert features.rows(batch) == pytest.approx(np.array(rows), abs=1e-9)
    assert features.dimension == len(rows[0])
    assert features.diameter(1, frozenset({"x", "y", "by", "two"})) == 0
    assert batch.take(slice(1, 3)).values(X).tolist() == [4, 6]


def test_weights():
    """Undone by the weights, coordinates are powers, products and counts."""
    batch = batch_of([5.0], [3.5])

    assert (Moments(X).rows(batch) / Moments(X).weights).tolist() == [[0.5, 0.25]]
    assert Outer([X, Y], radius=0.8, count=True).weights.tolist() == pytest.approx(
        [0.4, 1, 1, 1 / 0.8, math.sqrt(2) / 0.8, 1 / 0.8]
    )
    assert Outer([X, Y], count=True).weights.tolist() == [1, 1, 1, 0.5, 0.5, 0.5]
    assert Given(X, Y, of=Outer([X, Y], radius=0.8, count=1.2)).of.weights[0] == 1.2
    assert Given(X, of=Moments(X), tally=(0, 3)).weights.tolist() == [1, 0.5, 1]
    assert Bins(X, [2, 4, 6], widths=(2, 1), weights=(3, 1), missing=True).weights.tolist() == [3, 1, 1, 4]


def test_heavy_counts_beside_products_are_free_where_rows_only_change():
    """Up to a weight of √2.5 r, or √2 r of one column, complete rows are no farther from none than from others."""
    for columns in ([X], [X, Y]):
        r = 0.8 * math.sqrt(len(columns))
        plain = Outer(columns, radius=r)
        heavy = Given(*columns, of=Outer(columns, radius=r, count=r * math.sqrt(2 if len(columns) == 1 else 2.5)))

        assert heavy.diameter(2, NOBODY) == pytest.approx(plain.diameter(2, NOBODY))


def test_rows_in_and_out_of_the_ball():
    """A row outside the ball keeps its direction and gets the radius' length; others stay as they are."""
    features = Outer([X, Y], radius=0.5)

    long, short = features.points(batch_of([5.2, 4.5], [2.4, 4.25]))[1:].T / 2.0**19

    assert long.tolist() == pytest.approx([0.3, -0.4], abs=1e-5)
    assert short.tolist() == [0.25, 0.125]


@pytest.mark.parametrize("edges", [np.linspace(2, 6, 4097), [2, 3, 3.5, 6], [2.5, 3, 3.0000001, 5]], ids=len)
def test_every_number_is_in_its_interval(edges):
    """At, just below and just above every edge, and anywhere else; outside is the first or the last."""
    edges = np.asarray(edges, dtype=np.float64)
    near = [edges, np.nextafter(edges, -math.inf), np.nextafter(edges, math.inf)]
    x = np.clip(np.concatenate([*near, np.random.default_rng(1).uniform(1, 7, 3000)]), 2, 6)
    expected = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)

    assert Bins(X, edges).places(batch_of(x)).tolist() == expected.tolist()
    assert (
        Bins(X, edges).total(batch_of(x), None, 0).tolist() == np.bincount(expected, None, len(edges) - 1).tolist()
    )


def test_the_rounding_of_heavy_counts_is_charged():
    """On a grid coarser than the unit, a moved row moves the rounded counts by no more than is charged."""
    rng, k = np.random.default_rng(1), -3
    bins = Bins(X, np.linspace(2, 6, 9), widths=(4, 2, 1), weights=[2**40 + 3] * 3)
    charged = Fraction(bins.diameter(1, NOBODY)) * Fraction(2) ** k + bins.support
    far = []
    for counts in rng.integers(1, 1000, (4000, 8)).tolist():
        moved = [counts[0] - 1, *counts[1:-1], counts[7] + 1]
        far.append(sum(abs(a - b) for a, b in zip(bins.image(counts, k), bins.image(moved, k), strict=True)))

    assert charged - bins.support < max(far) <= charged  # rounding does move them


def test_many_groups_and_columns_are_counted_like_few():
    """Sums of few groups are products of matrices, of many counts; columns may lie in memory in any way."""
    rng = np.random.default_rng(2)
    many = Column("many", categories=tuple(range(40)))
    batch = Batch(5000, {number(X): rng.uniform(1, 7, 5000), category(many): rng.integers(-1, 45, 5000)})
    moments = Moments(X, count=True)
    together = (OneHot(many) * moments).total(batch, None, 38).reshape(40, 3)
    pairs = [(OneHot(many, groups=[g, g + 1]) * moments).total(batch, None, 38) for g in range(0, 40, 2)]
    block, by, mask = rng.integers(0, 2, (200, 300)).astype(bool), rng.integers(-1, 3, 200), rng.random(200) < 0.8
    columns = [Column(f"c{at}", categories=(False, True)) for at in range(300)]
    raw = {category(column): block[:, at] for at, column in enumerate(columns)}
    crosstabs = OneHot(BY) * Stack(*(OneHot(c, groups=[at % 2 == 0]) for at, c in enumerate(columns)))
    wanted = block == (np.arange(300) % 2 == 0)

    counts = crosstabs.total(Batch(200, raw | {category(BY): Dictionary(by, ["a", "b", "c"])}), mask, 3)

    assert np.concatenate(pairs).tolist() == together.ravel().tolist()
    assert counts.tolist() == [n for g in range(3) for n in 8.0 * wanted[mask & (by == g)].sum(axis=0)]


@pytest.mark.parametrize(("features", "words", "shape", "support"), [
    (OneHot(BY) * OneHot(TWO) * Moments(X), "OneHot(by) x OneHot(two) x Moments(x)", (3, 2, 2), 2),
    (OneHot(BY, groups=["c"]) * Stack(OneHot(TWO), Count()), "OneHot(by) x Stack(OneHot(two), Count())", (1, 3), 2),
    (OneHot(BY) * Outer([X, Y], count=True), "OneHot(by) x Outer(x, y)", (3, 6), 12),
    (OneHot(BY, TWO, groups={"two": [2]}), "OneHot(by) x OneHot(two)", (3, 1), 1),
    (Given(X, Y, of=Moments(X)), "Moments(x) given x, y", (2,), 2), (Given(X), "Count() given x", (1,), 1),
])  # fmt: skip
def test_features_in_words(features, words, shape, support):
    """A feature says what it is of, what shape its sums have, and how many coordinates rounding can move."""
    assert (features.describe(), features.shape, features.support) == (words, shape, support)
    assert {c.name for c in features.columns} >= {c.name for c in getattr(features, "given", ())}


REFUSED = [
    *((lambda w=w: Beyond(X, weight=w), "not a power of two") for w in (0.0, -1.0, 3.0, math.inf, math.nan)),
    *((lambda d=d: Moments(X, degree=d), "degree 1 or 2") for d in (0, 3, "2", None)),
    *((lambda d=d, c=c: Moments(X, degree=d, count=c), "is unknown")
      for d, c in ((1, "beside"), (2, "no"), (2, None))),
    *((lambda o=o: Moments(X, centred=True, **o), "centred") for o in ({"degree": 1}, {"count": True})),
    *((lambda g=g: OneHot(BY, groups=g), "categor|group") for g in ([], ["a", "a"], ["z"], [None])),
    *((lambda g=g: OneHot(BY, TWO, groups=g), "groups") for g in ({"x": ["a"]}, ["a"])),
    (lambda: OneHot(X), "at least one category"),
    (lambda: OneHot(BY, BY), "once"),
    (lambda: OneHot(BY, ["a"]), "groups="),
    (lambda: OneHot(BY) * Moments(X) * Moments(X), "has features already"),
    *((lambda c=c: Outer([X, Y], radius=1.0, count=c), "is not a weight") for c in (0.0, -1.0, math.inf, math.nan)),
    *((lambda r=r: Outer([X, Y], radius=r), "out of range") for r in (0, -1, 1.5, math.inf, math.nan, 1e-9)),
    *((lambda c=c: Outer(c), "at least one column, each once") for c in ([], [X, X])),
    (lambda: Outer([X, Y], radius=0.5, centred=True), "without radius="),
    *((lambda e=e: Bins(X, e), "finite and rise") for e in ([0], [0, 0, 1], [0, math.inf], [1, 0], [math.nan, 1])),
    *((lambda w=w, v=v: Bins(X, [0, 1, 2, 3], widths=w, weights=v), "3 intervals")
      for w, v in (((2,), (1,)), ((1,), (1, 2)), ((), ()), ((0,), (1,)))),
    *((lambda w=w: Bins(X, [0, 1], weights=(w,)), "whole numbers") for w in (0, 0.5, -1)),
    (lambda: Given(of=Moments(X)), "no column"),
    *((lambda t=t: Given(X, tally=t), "counts nothing") for t in ((0, 0), (1,), (math.inf, 1))),
    (Stack, "no features"),
    (lambda: Stack(Count(), 3), "not a row feature"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_features_that_cannot_be(make, words):
    """What cannot be summed is refused when it is made."""
    with pytest.raises((ArgumentError, PluginError), match=words):
        make()


# ---- what others write -----------------------------------------------------------------------------------


class Claim(RowFeatures):
    """Vectors that need not keep to the radius they claim."""

    shape = (2, 2)

    def __init__(self, column=X, radius=5.0):
        self.columns, self._radius = (column,), radius

    def rows(self, batch):
        x = batch.raw[number(X)]
        with np.errstate(all="ignore"):
            return np.column_stack([x, x * x, np.log(x), -x])

    def radius(self, norm):
        return self._radius if norm == 1 else self._radius / 2


@pytest.mark.parametrize("radius", [1e-3, 0.7, 1.0, 30.0, 1e3])
def test_a_lying_radius_is_enforced(radius):
    """No row's whole steps have a norm above the radius claimed, but for half a step in each coordinate and one."""
    rng = np.random.default_rng(4)
    x = np.concatenate([10 ** rng.uniform(-300, 300, 2000) * rng.choice([-1, 1], 2000), rng.uniform(-9, 9, 2000)])
    for k in (-5, 0, 11, 30):
        steps = Claim(X, radius).steps(batch_of(x), k)

        assert np.linalg.norm(steps, ord=1, axis=1).max() <= radius * 2.0**k + 4 / 2 + 1
        assert np.linalg.norm(steps, ord=2, axis=1).max() <= radius / 2 * 2.0**k + math.sqrt(4) / 2 + 1


def test_an_honest_row_is_not_clipped():
    """A row within its radius is rounded to the grid and nothing else; twice the radius is the diameter."""
    steps = Claim(X, 100.0).steps(batch_of([1.0, 2.0]), 4)

    assert steps.tolist() == [[16, 16, 0, -16], [32, 64, round(16 * math.log(2)), -32]]
    for features, public in (
        (Claim(X, 3.0), "x"),
        (OneHot(BY) * Claim(X, 3.0), ""),
        (OneHot(BY) * Claim(X, 3.0), "by"),
    ):
        assert features.diameter(1, frozenset({public})) == 6


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 0.0, 1e200])
def test_a_row_without_a_vector_counts_nowhere(value):
    """A row with a coordinate that is no finite number is zero, and its neighbours are as they were."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps = Claim().steps(batch_of([1.0, value, 1.0]), 10)

    assert steps[1].tolist() == [0, 0, 0, 0]
    assert steps[0].tolist() == steps[2].tolist() == Claim().steps(batch_of([1.0]), 10)[0].tolist()


def test_rows_are_taken_as_they_come_and_left_alone():
    """Rows may be kept, not to be written to, booleans, and one column without a second axis."""
    kept = np.array([[3.0, 4.0, 0.0, 0.0]])
    kept.flags.writeable = False

    class Kept(Claim):
        def rows(self, batch):
            return kept

    class Above(Claim):
        shape = (1,)

        def rows(self, batch):
            return batch.values(X) > 4

    Kept(X, 1.0).steps(batch_of([1.0]), 10)

    assert kept.tolist() == [[3, 4, 0, 0]]
    assert Above(X, 2.0).steps(batch_of([3.0, 5.0]), 2).tolist() == [[0], [4]]
    assert Given(Y, of=Above(X)).steps(batch_of([5, 5], [4, math.nan]), 0).tolist() == [[1], [0]]


@pytest.mark.parametrize("name", ["dimension", "support", "diameter", "steps", "total"])
def test_what_privacy_rests_on_cannot_be_redefined(name):
    """A third party writes rows and radius; a class that redefines what is derived from them is refused."""
    with pytest.raises(PluginError, match=name):
        type("Mine", (RowFeatures,), {name: lambda *_: 0})


@pytest.mark.parametrize("radius", [-1.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("by_group", [False, True])
def test_a_radius_that_is_none_buys_no_exact_sum(radius, neighbors, by_group):
    """A third party's radius that is negative or not finite is refused before any charge, and sums nothing."""

    @dp.mechanism(columns={"column": "numeric", "by": "category"})
    def exact(curator, column, by):
        asked = Claim(column, radius)
        return curator.sum(OneHot(by) * asked if by_group else asked).values

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


# ---- several at once -------------------------------------------------------------------------------------

ROWS = pd.DataFrame({
    "x": np.random.default_rng(1).uniform(-1, 3, 400), "y": np.random.default_rng(2).uniform(0, 1, 400),
    "g": np.random.default_rng(3).choice(["a", "b", "c"], 400), "h": np.random.default_rng(4).choice([*"uvw"], 400),
})  # fmt: skip
SAID = {"bounds": {"x": (-1, 3), "y": (0, 1)}, "categories": {"g": ["a", "b", "c"], "h": ["u", "v"]}}


class Budget:
    """A budget that notes what is paid, and has no end."""

    basic_composition = True

    def __init__(self, epsilon):
        self.epsilon, self.delta, self.paid = Fraction(epsilon), Fraction(0), []

    def pay(self, losses, reserve):
        self.paid += losses


def curator(public=()):
    """A curator of some rows, its budget, and their columns."""
    schema = read_schema(adapt(ROWS), public=public, missing=None, neighbors="replace_one", **SAID)
    budget = Budget(10**6)
    return Curator(Table(adapt(ROWS), schema), budget), budget, schema.columns


class Mine(RowFeatures):
    """Somebody else's feature: two numbers with weights, of which the radius cuts some."""

    shape = (2,)
    weights = np.array([1.0, 2.0])

    def __init__(self, column, radius=2.5):
        self.columns, self.length = (column,), radius

    def rows(self, batch):
        return np.column_stack([batch.values(self.columns[0]), np.where(batch.values(self.columns[0]) > 1, 2, 0)])

    def radius(self, norm):
        return self.length


def test_parts_have_the_sums_and_shapes_of_their_features():
    """Under one charge; nested ones and those by several keys too, with an axis for every key before their own."""
    asked, budget, c = curator()
    features = [
        Moments(c["x"], count=True), Mine(c["y"]), OneHot(c["g"]) * Moments(c["y"], degree=1),
        Stack(Moments(c["y"]), OneHot(c["h"])), Outer([c["x"], c["y"]], radius=1.2),
    ]  # fmt: skip
    together = asked._table.total(Stack(*features), 30)
    apart = [step for each in features for step in asked._table.total(each, 30)]

    whole = asked.sum(Stack(*features), share="1/2")
    moments, mine, by, inner, outer = whole.parts
    keyed = asked.sum(
        OneHot(c["g"], c["h"], groups={"g": ["c", "a"]}) * Stack(Moments(c["x"]), Stack(OneHot(c["h"])))
    )
    cell = ROWS[(ROWS.g == "a") & (ROWS.h == "v")]

    assert [int(each) for each in together] == [int(each) for each in apart]
    assert [part.values.shape for part in whole.parts] == [(3,), (2,), (3, 1), (4,), (5,)]
    assert [part.values.shape for part in inner.parts] == [(2,), (2,)]
    assert mine.scales.tolist() == [whole.noise.scale, whole.noise.scale / 2]
    assert all(part.noise is whole.noise for part in (*whole.parts, *inner.parts))
    assert moments.parts == ()
    assert inner.parts[1].values == pytest.approx([(ROWS.h == "u").sum(), (ROWS.h == "v").sum()], abs=0.01)
    assert by.values[1, 0] == pytest.approx((2 * ROWS.y[ROWS.g == "b"] - 1).sum(), abs=0.01)
    assert outer.values.shape == (5,)
    assert [part.values.shape for part in (*keyed.parts, *keyed.parts[1].parts)] == [(2, 2, 2)] * 3
    assert keyed.parts[0].values[1, 1] == pytest.approx(
        [((cell.x - 1) / 2).sum(), (((cell.x - 1) / 2) ** 2).sum()], abs=0.01
    )
    assert keyed.parts[1].values[1, 1] == pytest.approx([0, len(cell)], abs=0.01)
    assert len(budget.paid) == 2


@pytest.mark.parametrize("public", ["", "g", "gh"])
def test_what_is_public_is_free_alone(public):
    """Over public columns alone sums are exact; beside a private one they are inside the noise; by two keys too."""
    asked, budget, c = curator([*public])
    counts = pd.crosstab(ROWS.g, ROWS.h)[["u", "v"]].to_numpy()

    found = asked.sum(OneHot(c["g"], c["h"]), share="1/4")
    paid = len(budget.paid)
    one = asked.sum(Stack(OneHot(c["g"]), Count()), share="1/4")
    noisy = asked.sum(Stack(OneHot(c["g"]), Moments(c["x"])))

    assert found.values == pytest.approx(counts, abs=0.01)
    assert (public == "gh") == (found.noise is None) == (paid == 0)
    assert (
        ("g" in public)
        == (one.noise is None)
        == (one.parts[0].values.tolist() == [(ROWS.g == k).sum() for k in "abc"])
    )
    assert (noisy.parts[0].scales > 0).all()


@pytest.mark.parametrize(
    ("lengths", "exponent"), [*itertools.product([(3, 4), (1, 1), (2,), (1,) * 9], [-320, 0, 300])]
)
def test_norms_of_a_stack_are_rounded_up(lengths, exponent):
    """Sum, root and maximum are at least what they are in exact arithmetic, at every scale."""
    sizes = [float(f"{length}e{exponent}") for length in lengths]
    stack = Stack(*(Mine(X, size) for size in sizes))
    exact = [Fraction(size) for size in sizes]

    assert sum(exact) <= Fraction(stack.radius(1)) <= sum(exact) * (1 + Fraction(1, 2**40)) + Fraction(5e-324)
    assert sum(size**2 for size in exact) <= Fraction(stack.radius(2)) ** 2
    assert Fraction(stack.radius(2)) <= Fraction(math.hypot(*sizes)) * (1 + Fraction(1, 2**40)) + Fraction(1e-323)
    assert max(sizes) == stack.radius(math.inf)
