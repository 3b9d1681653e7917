"""Row features and kernels: their coordinates, how they combine, what cannot be made; bounds are in guarantees."""

# ruff: noqa: PD011 - measurements have values, too
from __future__ import annotations

import itertools
import math
import threading
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

import dfprivacy as dp
from dfprivacy._measure.tasks import map_in_threads
from dfprivacy._table.batch import BATCH_ROWS, Batch, category, number
from dfprivacy.errors import ArgumentError, PluginError, SchemaError
from dfprivacy.features import (
    Beyond,
    Bins,
    Count,
    Fourier,
    Given,
    Kernel,
    Moments,
    Nystrom,
    OneHot,
    Outer,
    ProductKernel,
    RowFeatures,
    Stack,
    Weighted,
    gaussian_frequencies,
    spread,
)
from dfprivacy.schema import Column
from dfprivacy.schema.values import Dictionary

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
    (Weighted(Y, Count(), square=0.5), [[3.5 / 6, 49 / 288], [1, 0.5], [1 / 3, 1 / 18]]),
    (Weighted(Y, OneHot(TWO)), [[0, 7 / 12, 0, 49 / 144], [1, 0, 1, 0], [0, 0, 0, 0]]),
    (Weighted(Y, Moments(X, degree=1, count=True), square=0), [[7 / 16, 7 / 48], [0.5, 0.5], [1 / 3, 0]]),
    (Given(X, of=Weighted(Y, Moments(X, degree=1, count=True))),
     [[7 / 16, 7 / 48, 49 / 256, 49 / 2304, 49 / 384], [0, 0, 0, 0, 0], [1 / 3, 0, 1 / 9, 0, 0]]),
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
    (OneHot(BY) * OneHot(TWO) * Moments(X), "x and x² by two by by", (3, 2, 2), 2),
    (OneHot(BY, groups=["c"]) * Stack(OneHot(TWO), Count()), "(indicators of two; ones) by by", (1, 3), 2),
    (OneHot(BY) * Outer([X, Y], count=True), "ones, x, y and their products by by", (3, 6), 12),
    (OneHot(BY, TWO, groups={"two": [2]}), "indicators of two by by", (3, 1), 1),
    (OneHot(BY) * Stack(Given(X, of=Moments(X)), Beyond(X)),
     "(x and x² where x is not missing; indicators of x below and above its bounds) by by", (3, 4), 3),
    (Given(X, Y, of=Weighted(Y, Count())), "ones weighted by y where x and y are not missing", (2,), 2),
    (Given(X), "ones where x is not missing", (1,), 1),
    (Moments(X, degree=1, count=True), "ones and x", (2,), 2),
    (Bins(X, [2, 3, 4, 5, 6], widths=(2, 1), weights=(3, 1)), "indicators of 4 intervals of x, and of wider ones",
     (6,), 4),
])  # fmt: skip
def test_features_in_words(features, words, shape, support):
    """A feature says what it is of, what shape its sums have, and how many coordinates rounding can move."""
    assert (features.describe(), features.shape, features.support) == (words, shape, support)
    assert {c.name for c in features.columns} >= {c.name for c in getattr(features, "given", ())}


REFUSED = [
    *((lambda w=w: Beyond(X, weight=w), "not a power of two") for w in (0.0, -1.0, 3.0, math.inf, math.nan)),
    *((lambda d=d: Moments(X, degree=d), "degree=1 or degree=2") for d in (0, 3, "2", None)),
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
    *((lambda e=e: Bins(X, e), "and increasing") for e in ([0], [0, 0, 1], [0, math.inf], [1, 0], [math.nan, 1])),
    *((lambda w=w, v=v: Bins(X, [0, 1, 2, 3], widths=w, weights=v), "3 intervals")
      for w, v in (((2,), (1,)), ((1,), (1, 2)), ((), ()), ((0,), (1,)))),
    *((lambda w=w: Bins(X, [0, 1], weights=(w,)), "integers") for w in (0, 0.5, -1)),
    (lambda: Given(of=Moments(X)), "no column"),
    *((lambda t=t: Given(X, tally=t), "not a pair of finite numbers") for t in ((0, 0), (1,), (math.inf, 1))),
    *((lambda b=b: Weighted(Column("w", bounds=b), Count()), "not negative") for b in ((-1.0, 1.0), (-2.0, 0.0))),
    (lambda: Weighted(BY, Count()), "not negative"),
    (lambda: Weighted(X, Moments(X, degree=1, count=True)), "as the weights"),
    *((lambda f=f: Weighted(X, f), "add up to at most 1") for f in (Moments(Y), Stack(Count(), Count()))),
    *((lambda s=s: Weighted(X, Count(), square=s), "power of two") for s in (-1.0, 3.0, math.inf, math.nan)),
    (Stack, "no features"),
    (lambda: Stack(Count(), 3), "not a row feature"),
    *((lambda c=c: ProductKernel(c, 1.0), ".") for c in ((), (X, X), (X, Column("bare")))),
    *((lambda w=w: ProductKernel((X, Y), w), ".") for w in (0.0, -1.0, 1e-7, {"x": 1.0}, "wide")),
    *((lambda m=m: ProductKernel((X, BY), 1.0, m), ".") for m in (1.0, -0.1)),
    *((lambda p=p: Kernel(ProductKernel((X, Y), 1.0), p), ".")
      for p in ([[2.0, 3.0, 4.0]], np.empty((0, 2)), [[3.0, 6.1]], [[math.nan, 2.0]])),
    *((lambda c=c: Kernel(ProductKernel((X, BY), 1.0, 0.3), [[2.0, c]]), ".") for c in (3.0, 0.5)),
    (lambda: Nystrom(ProductKernel((X, Y), 1.0), [[2.0, 3.0]], 0.0), "."),
    *((lambda c=c, f=f: Fourier(c, f), ".") for c, f in (((X, Y), [[1.0]]), ((X,), [[math.inf]]), ((X,), [[1e9]]))),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_features_that_cannot_be(make, words):
    """What cannot be summed is refused when it is made."""
    with pytest.raises((ArgumentError, PluginError, SchemaError), match=words):
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


@pytest.mark.parametrize(
    "radius", [(1.0, 1.0, 1.0), (4.0, 1.5, 1.0), (2.0, 2.0, 1.0), (4.0, 2.0, 1.0), (0.75, 4.0, 4.0)]
)
def test_rows_within_one_radius_are_clipped_to_the_others(radius, monkeypatch):
    """A vector whose coordinates alone are within bounds may still be too long in L1 or L2."""
    within = dict(zip((1, 2, math.inf), radius, strict=True))
    monkeypatch.setattr(Claim, "radius", lambda _, norm: within[norm])
    steps = np.ldexp(Claim().steps(batch_of([1.0, 0.6, 1.6, 50.0]), 30), -30)

    for norm, most in within.items():
        assert (np.linalg.norm(steps, ord=norm, axis=1) <= most + 1e-6).all()


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


# ---- several at once -------------------------------------------------------------------------------------

ROWS = pd.DataFrame({
    "x": np.random.default_rng(1).uniform(-1, 3, 400), "y": np.random.default_rng(2).uniform(0, 1, 400),
    "g": np.random.default_rng(3).choice(["a", "b", "c"], 400), "h": np.random.default_rng(4).choice([*"uvw"], 400),
})  # fmt: skip
SAID = {"bounds": {"x": (-1, 3), "y": (0, 1)}, "categories": {"g": ["a", "b", "c"], "h": ["u", "v"]}}


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
    asked = dp.protect(ROWS, "parts", epsilon=10**6, **SAID)
    table, c = asked._target.table, asked.schema.columns
    features = [
        Moments(c["x"], count=True), Mine(c["y"]), OneHot(c["g"]) * Moments(c["y"], degree=1),
        Stack(Moments(c["y"]), OneHot(c["h"])), Outer([c["x"], c["y"]], radius=1.2),
    ]  # fmt: skip
    together = table.total(Stack(*features), 30)
    apart = [step for each in features for step in table.total(each, 30)]
    found = []

    @dp.mechanism()
    def measures(curator):
        found.append(curator.sum(Stack(*features), share="1/2"))
        by = OneHot(c["g"], c["h"], groups={"g": ["c", "a"]})
        found.append(curator.sum(by * Stack(Moments(c["x"]), Stack(OneHot(c["h"])))))

    dp.register_mechanism(measures)
    try:
        noise = asked.measures(epsilon=10**6).privacy.noise
    finally:
        dp.unregister("measures")
    whole, keyed = found
    moments, mine, by, inner, outer = whole.parts
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
    assert len(noise) == 2


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


# ---- kernels ---------------------------------------------------------------------------------------------

A, B = (Column(name, bounds=(0.0, 200.0), fill=100.0) for name in "ab")
ARM = Column("arm", categories=(1, 2, 3))
GAMMA = 5e-5
PLANE = ProductKernel((A, B), 1 / math.sqrt(2 * GAMMA))
MIXED = ProductKernel((A, B, ARM), 60.0, 0.3)
POINTS = np.array([[100, 100], [50, 100], [100, 150], [100, 100]], dtype=float)


def rows_of(rows):
    """A batch of the rows of an array, of two numbers and perhaps a category."""
    raw = {number(A): rows[:, 0], number(B): rows[:, 1]}
    return Batch(len(rows), raw | ({category(ARM): rows[:, 2] + 1} if rows.shape[1] > 2 else {}))


def sample(columns, n=400, seed=0):
    """Rows within the bounds, corners among them."""
    rng = np.random.default_rng(seed)
    made = [rng.uniform(c.low, c.high, n) if c.bounds else rng.integers(0, len(c.categories), n) for c in columns]
    rows = np.column_stack(made).astype(float)
    corners = [*itertools.product(*((c.low, c.high) if c.bounds else range(len(c.categories)) for c in columns))]
    rows[: len(corners)] = corners
    return rows


def test_the_kernel_is_its_formula():
    """A Gaussian of the numbers, times a factor where the category differs; rounded values are close to it."""
    rows, others = sample(MIXED.columns, 20), sample(MIXED.columns, 15, seed=1)
    features = Kernel(MIXED, spread(MIXED.columns, 40))
    expected = [
        [
            math.exp(-((x[0] - z[0]) ** 2 + (x[1] - z[1]) ** 2) / (2 * 60**2)) * (0.3 if x[2] != z[2] else 1.0)
            for z in others
        ]
        for x in rows
    ]

    assert MIXED(rows, others) == pytest.approx(np.array(expected), abs=1e-13)
    assert features.rows(rows_of(rows)) == pytest.approx(MIXED(rows, features.points), abs=1e-8)


def test_points_hardly_move():
    """Snapping moves a point by less than 10^-4 lengthscales, and not out of the bounds; twice is once."""
    points = sample(MIXED.columns, 100)
    snapped = MIXED.snap(points)

    assert np.abs(snapped - points).max() < 60e-4
    assert MIXED.snap(snapped).tolist() == MIXED.check(snapped).tolist() == snapped.tolist()


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [((0, 200), 1.401202598564009), ((50, 150), 1.1243847729568004), ((-1e4, 1e4), math.sqrt(2))],
)
def test_reference_distances(bounds, expected):
    """The largest distance in the kernel's space follows from the least kernel value within the bounds."""
    kernel = ProductKernel([Column(name, bounds) for name in "ab"], 1 / math.sqrt(2 * GAMMA))

    assert kernel.distance() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("public", [{"a"}, {"a", "b"}, {"arm"}, {"a", "b", "arm"}, set()])
def test_the_least_kernel_value(public):
    """The least value is the one of opposite corners in another category, public columns aside."""
    exponent = sum(200**2 / (2 * 60**2) for name in "ab" if name not in public)
    expected = math.exp(-exponent) * (1 if "arm" in public else 0.3)

    assert MIXED.smallest(frozenset(public)) == pytest.approx(expected, rel=1e-7)


def test_rows_without_a_category():
    """A row in none of the categories is zero, at distance 1; where none is a category too, it is not."""
    nowhere = Batch(
        1,
        {
            number(A): np.array([1.0]),
            number(B): np.array([1.0]),
            category(ARM): np.array([7]),
        },
    )
    close = ProductKernel((A, B, ARM), 1e4, 0.9)
    other = ProductKernel((A, B, Column("site", categories=(1, 2, 3), other=True)), 1e4, 0.9)

    assert Kernel(close, [[1, 1, 0]]).steps(nowhere, 40).tolist() == [[0]]
    assert close.distance() == pytest.approx(1, abs=1e-12)
    assert other.distance() == pytest.approx(math.sqrt(0.2), rel=1e-2)
    assert close.distance(frozenset({"arm"})) < 0.03


def test_the_points_cover():
    """Public points are the unscrambled Sobol sequence over bounds and categories."""
    points = spread((A, B, ARM), 6)

    assert points[:3].tolist() == [[0, 0, 0], [100, 100, 1], [150, 50, 0]]
    assert len(points) == 6
    assert spread((A,), 1).tolist() == [[0]]
    assert spread([Column(str(i), (0, 1)) for i in range(50)], 3).shape == (3, 50)


def test_reference_features_of_a_subspace():
    """Pivots, means and norms of a small example that was computed by hand."""
    features = Nystrom(PLANE, POINTS)
    rows = np.array([[90, 110], [100, 95], [120, 105], [80, 80]], dtype=float)
    total = features.image([int(t) for t in features.total(rows_of(rows), None, 39)], 39)

    mean = np.ldexp(np.array(total, dtype=float), -39) / 4

    assert features.pivots.tolist() == [0, 1, 2]
    assert mean == pytest.approx([0.982141061063, 0.027510741210, -0.019020261053], abs=1e-9)
    assert mean @ mean == pytest.approx(0.965719675039, abs=1e-9)
    expected = [[1, 0, 0], [0.882496902585, 0.470318208162, 0], [0.882496902585, 0, 0.470318208162], [1, 0, 0]]
    assert features.features(POINTS) == pytest.approx(np.array(expected), abs=1e-11)


def test_reference_diameter_of_a_subspace():
    """With 64 Sobol points nearly the whole distance of the kernel is attained, and never more."""
    features = Nystrom(PLANE, spread((A, B), 64))
    corners = features.features(sample((A, B), 2000))

    widest = max(np.linalg.norm(corners - corner, axis=1).max() for corner in corners[:4])

    assert features.dimension == 55
    assert 1.4012 < widest <= 1.4012025986
    assert (corners**2).sum(axis=1).max() <= 1 + 1e-9
    assert features.diameter(2, NOBODY) == pytest.approx(1.4012025986, rel=1e-5)


def test_the_nystrom_kernel_of_points_in_the_span():
    """For the points themselves, the projected kernel is the kernel; some rows attain radius and diameter."""
    features = Nystrom(MIXED, spread(MIXED.columns, 100), 1e-6)
    at = features.features(features.points)
    rows = features.rows(rows_of(sample(MIXED.columns)))

    assert at @ at.T == pytest.approx(MIXED(features.points, features.points), abs=1e-7)
    assert np.linalg.norm(rows, axis=1).max() >= 0.99 * features.radius(2)
    assert max(np.linalg.norm(rows - row, axis=1).max() for row in rows) >= 0.9 * features.diameter(2, NOBODY)


def test_sums_of_a_subspace_are_exact():
    """The map is applied to sums in integers, right to half a step; rows in float64 are as near as they say."""
    features = Nystrom(PLANE, spread((A, B), 64))
    total = [2**60 + 7 * i for i in range(features.dimension)]
    batch = rows_of(sample((A, B), 20))

    exact = [sum(int(a * 2**40) * t for a, t in zip(row, total, strict=True)) for row in features.map]
    steps = features.steps(batch, 39)
    rows = np.array([[float(v) for v in features.image([int(s) for s in row], 60)] for row in steps]) * 2.0**-60

    image = features.image(total, 30)
    assert all(abs(step * 2**49 - value) <= 2**48 for step, value in zip(image, exact, strict=True))
    assert np.abs(features.rows(batch) - rows).max() <= features.error + 2.0**-60


def test_a_nearly_dependent_subspace_is_charged():
    """Points that nearly coincide give a map with huge entries, and a diameter that pays for them."""
    close = np.column_stack([np.linspace(100, 101, 40), np.full(40, 100.0)])

    features = Nystrom(PLANE, close, 1e-14)
    rows = features.rows(rows_of(sample((A, B))))

    assert np.abs(features.map).max() > 1e4
    assert features.defect <= 1e-4
    assert features.diameter(2, NOBODY) > PLANE.distance() * (1 + 1e-7)
    assert np.linalg.norm(rows, axis=1).max() <= features.radius(2)


def test_fourier_features_approximate_the_kernel():
    """A thousand quasi-random frequencies have the Gaussian kernel to a few hundredths."""
    features = Fourier((A, B), gaussian_frequencies(PLANE.lengthscales, 1000))
    rows = sample((A, B), 50)
    at = features.features(rows)

    assert at @ at.T == pytest.approx(PLANE(rows, rows), abs=2e-2)


def test_fourier_sums_are_characteristic_functions():
    """Divided by the weight, the vectors are cosines and sines of phases from the centre."""
    frequencies = np.array([[0.01, 0.02], [-0.5, 3.0], [0.0, 0.0]])
    features = Fourier((A, B), frequencies)
    rows = sample((A, B), 50)

    angles = (rows - 100) @ features.frequencies.T
    found = features.rows(rows_of(rows)) / features.weights

    assert features.frequencies == pytest.approx(frequencies, rel=1e-5, abs=1e-12)
    assert found == pytest.approx(np.hstack([np.cos(angles), np.sin(angles)]), abs=1e-5)
    assert features.features(rows) / features.weights == pytest.approx(found, abs=1e-5)
    assert features.shape == (2, 3)


@pytest.mark.parametrize(("m", "columns"), [(2, (A,)), (16, (A,)), (250, (A,)), (100, (A, B))])
@pytest.mark.parametrize("lengthscale", [30.0, 300.0])
def test_the_diameter_of_fourier_features_is_nearly_attained(m, columns, lengthscale):
    """No two of many rows are further apart than the diameter, and some are nearly as far."""
    features = Fourier(columns, gaussian_frequencies(np.full(len(columns), lengthscale), m))
    differences = np.random.default_rng(4).uniform(-200, 200, size=(40_000, len(columns)))

    apart = np.sqrt(2 - 2 * np.cos(differences @ features.frequencies.T).mean(axis=1).min())

    assert apart <= features.diameter(2, NOBODY) <= 1.01 * apart


def test_fourier_features_of_many_columns_may_be_opposite():
    """Where the search would take too long, nothing less than the distance of opposite vectors is claimed."""
    columns = [Column(str(i), (0, 1)) for i in range(8)]

    features = Fourier(columns, gaussian_frequencies(np.full(8, 0.1), 64))

    assert features.diameter(2, NOBODY) == pytest.approx(2, abs=1e-5)


def test_batches_side_by_side():
    """Sums are the same on any number of threads, by category and given what is there; no thread is left."""
    rows = 5 * BATCH_ROWS + 7
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"x": rng.uniform(-1, 2, rows), "g": rng.choice(["a", "b", None], rows)})
    view = dp.protect(frame, "threads", epsilon=1, bounds={"x": (0, 1)}, categories={"g": ["a", "b"]})
    x, g, table = view.schema.numeric("x"), view.schema.categorical("g"), view._target.table
    kernel = Kernel(ProductKernel((x,)), spread((x,), 5))
    asked = [kernel, Stack(Fourier((x,), [[3.0]]), kernel), OneHot(g, of=Given(x, of=kernel))]
    before = threading.active_count()
    sums = []
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            sums.append([table.total(each, 30) for each in asked])

    assert sums[0] == sums[1]
    assert all(each.threaded for each in asked)
    assert not OneHot(g, of=Given(x, of=Moments(x))).threaded
    assert threading.active_count() == before


def test_items_are_read_as_they_are_worked_on():
    """Results come in order, and memory is for the items of the threads and two more."""
    read, done = [], []

    def items():
        for item in range(20):
            read.append(item)
            assert len(read) - len(done) <= 3 + 2
            yield item

    with threadpool_limits(3, user_api="blas"):
        for place, result in enumerate(map_in_threads(lambda item: item * item, items())):
            done.append(result == place * place)

    assert done == [True] * 20
