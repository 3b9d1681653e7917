"""What a plugin writes cannot make a private sum free, exact, or cheaper than it is."""

# ruff: noqa: PD011 - measurements have values, too
from __future__ import annotations

import itertools
import math
import threading
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._measure.evaluate import Table
from dfprivacy._measure.query import Query
from dfprivacy._privacy.calibrate import exact_exponent
from dfprivacy._table.batch import BATCH_ROWS, number
from dfprivacy._table.conditions import batches
from dfprivacy._table.frames import adapt
from dfprivacy.features import (
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
)
from dfprivacy.features.base import enforce_bounds
from dfprivacy.schema import Column, Schema
from dfprivacy.statistics import OfRows, OfSums

ROWS = pd.DataFrame({"x": [0.123456789] * 99 + [1.0], "g": ["a", "b"] * 50})
NAMES = (f"enforced {i}" for i in itertools.count())
X, Y = Column("x", (0.0, 1.0), fill=0.5), Column("y", (0.0, 9.0))
NOBODY: frozenset[str] = frozenset()


def view(frame=ROWS, **terms):
    """Protect a table under a name of its own."""
    how = {"epsilon": 100, "bounds": {"x": (0, 1)}, "categories": {"g": ["a", "b"]}, **terms}
    return dp.protect(frame, next(NAMES), ledger="memory:", **how)


def with_last(last):
    """Protect 99 ones and a number."""
    return view(pd.DataFrame({"x": [1.0] * 99 + [last], "g": "a"}))


def ask(function, asked=None, *more, epsilon=1, **columns):
    """Ask a mechanism that measures something of column x."""
    dp.register_mechanism(dp.mechanism(columns=columns or {"column": "numeric"}, name="mine")(function))
    try:
        return (view() if asked is None else asked).mine("x", *more, epsilon=epsilon)
    finally:
        dp.unregister("mine")


def summed(kind, **how):
    return lambda curator, column: curator.sum(kind(column), **how).values.tolist()


def measured(kind):
    return lambda curator, column: curator.measure(kind(column)).values.tolist()


def like(base, **own):
    """Derive a class."""
    return type("Mine", (base,), own)


def having(kind, **said):
    """Make an object that has more attributes."""

    def make(column):
        made = kind(column)
        vars(made).update(said)
        return made

    return make


def raises(error):
    raise error


def one_batch(values, column):
    """Make a batch of one numeric column."""
    (batch, _), *_ = batches(adapt(pd.DataFrame({column.name: values})), [number(column)], ())
    return batch


class Values(RowFeatures):
    """The numbers of a column in their natural units."""

    shape = (1,)

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        return batch.values(self.columns[0])[:, None]

    def radius(self, norm):
        return max(abs(end) for end in self.columns[0].bounds)


class Total(OfSums):
    """The sum of such numbers."""

    shape = (1,)

    def __init__(self, column):
        self.features = Values(column)
        self.columns = (column,)

    def value(self, sums):
        return sums

    def sensitivity(self, relation, norm, public):
        low, high = self.columns[0].bounds
        return high - low if relation == "replace_one" else max(abs(low), abs(high))


class Segment(RowFeatures):
    """Points of a circle within an angle of 1, whose author has proved how far apart they are."""

    shape = (2,)
    says = 2 * math.sin(0.5)

    def __init__(self, column):
        self.columns = (column,)
        self.asked = []

    def rows(self, batch):
        angle = batch.values(self.columns[0])
        return np.column_stack([np.cos(angle), np.sin(angle)])

    def radius(self, norm):
        self.asked.append(("radius", norm))
        return {1: math.sqrt(2), 2: 1.0, math.inf: 1.0}[norm]

    def diameter(self, norm, public):
        self.asked.append((norm, public))
        return 0.0 if self.columns[0].name in public else self.says * (math.sqrt(2) if norm == 1 else 1)


class Least(OfRows):
    """The least number of a column."""

    shape = (1,)

    def __init__(self, column):
        self.columns = (column,)

    def value(self, rows):
        return rows.values(self.columns[0]).min()

    def sensitivity(self, relation, norm, public):
        return 1.0


# ---- what is free, and what is refused -------------------------------------------------------------------


@pytest.mark.parametrize(("neighbors", "public", "where", "free"), [
    ("replace_one", ["x"], {}, True), ("replace_one", [], {}, False), ("replace_one", ["x"], {"g": "a"}, False),
    ("replace_one", ["x", "g"], {"g": "a"}, True), ("add_remove", [], {}, False),
])  # fmt: skip
def test_what_is_free_follows_from_names(neighbors, public, where, free):
    """A sum is exact and free if its columns are public, and so are which rows it is of; else it is paid for."""
    asked = view(neighbors=neighbors, public=public)
    release = ask(
        lambda curator, column: curator.sum(Values(column)).noise is None, asked.where(**where) if where else asked
    )

    assert (free, 0 if free else 1) == (release.value, asked.budget.spent)


def writes(self, batch):
    batch.raw[number(self.columns[0])] *= 1000


CLAIMS = [
    *((measured(like(Total, sensitivity=lambda *_, claim=claim: claim)), ".") for claim in (0.0, -1.0, math.nan)),
    *((measured(having(Total, **{name: said})), name)
      for name in ("error", "lipschitz") for said in (-1e-9, -1e9, math.nan, math.inf)),
    *((summed(like(Segment, says=says), noise=noise), "diameter")
      for says in (math.nan, -1.0, 0.0) for noise in ("laplace", "cube")),
    *((summed(lambda column, kind=kind, mine=mine: kind(mine(column))),
       "a positive, finite number")
      for r in (-1.0, math.nan, math.inf, -math.inf) for mine in [like(Values, radius=lambda *_, r=r: r)]
      for kind in (lambda each: each, lambda each: OneHot(Column("g", categories=("a", "b")), of=each))),
    (lambda curator, column: curator.sum(having(Values, held=threading.Lock())(column)), "cannot be copied"),
    (lambda curator, column: curator.sum(having(Values, held=curator)(column)), "cannot be copied"),
    (summed(like(Values, rows=lambda *_: raises(ValueError("a row")))),
     "fails on a made-up row with ValueError: a row.*Nothing was released or spent"),
    (summed(like(Values, rows=writes)), "read-only"),
]  # fmt: skip


RELATIONS = ["replace_one", "add_remove"]


@pytest.mark.parametrize(
    ("function", "words", "neighbors"),
    [(*claim, relation) for claim in CLAIMS for relation in RELATIONS[: 1 if claim[1] == "diameter" else 2]],
)
def test_a_claim_that_is_none_is_refused(function, words, neighbors):
    """Sensitivities, errors, diameters, radii that free something; what fails on any row; what cannot be copied."""
    asked = view(neighbors=neighbors)
    with pytest.raises(dp.PluginError, match=words):
        ask(function, asked)

    assert asked.budget.spent == 0


def test_an_underflow_frees_nothing(monkeypatch):
    """A kernel so wide that all its values are one number is not public for that."""
    asked = view()
    monkeypatch.setattr(ProductKernel, "distance", lambda *_: 0.0)
    monkeypatch.setattr(Nystrom, "diameter", lambda *_: 0.0)
    with pytest.raises(dp.DPError):
        asked.kme_release(["x"], lengthscale=1e9, features="subspace", epsilon=1)

    assert asked.budget.spent == 0


# ---- who is enforced -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bundled", [Count, Moments, OneHot, Nystrom])
def test_bundled_features_have_no_subclasses(bundled):
    """What is proved of bundled features holds for their own rows, so nobody extends them."""
    with pytest.raises(dp.PluginError, match=bundled.__name__):
        like(bundled, rows=lambda self, batch: batch.values(self.columns[0])[:, None])


@pytest.mark.parametrize(
    "name",
    ["dimension", "diameter", "sensitivity", "steps", "total", "totals", "image", "support", "reads"],
)
def test_what_privacy_rests_on_is_not_redefined(name):
    """What is derived from rows and radius is nobody else's: not a class's, nor a mix-in's before or after it."""
    loose = like(object, **{name: lambda *_: 0.0})
    for bases in ((loose, RowFeatures), (loose, Values), (like(loose), RowFeatures)):
        with pytest.raises(dp.PluginError, match=name):
            type("Mine", bases, {})
    if name not in {"diameter", "sensitivity"}:
        with pytest.raises(dp.PluginError, match=name):
            like(RowFeatures, **{name: lambda *_: 0})


@pytest.mark.parametrize("name", ["diameter", "sensitivity", "radius"])
def test_an_attribute_of_the_object_changes_nothing(name):
    """A number that is put in place of a method is not believed beyond the radius that rows are cut to."""
    taken = enforce_bounds(having(Values, **{name: lambda *_: 1e-9})(X))
    steps = taken.steps(one_batch([1.0], X), 60)

    assert abs(steps).max() <= 2.0**60 * taken.diameter(1, NOBODY) / 2 * (1 + 1e-9)


def frozen():
    """Make features of every bundled class."""
    g = Column("g", categories=("a", "b"))
    kernel, points = ProductKernel([X, Y], 1.0), np.array([[0.0, 0.0], [1.0, 9.0]])
    edges, frequencies = np.linspace(0, 1, 5), np.ones((3, 2))
    made = [
        *(Count(), Moments(X), OneHot(g, of=Moments(X)), Given(X, of=Moments(X), tally=(0, 0.5))),
        *(Stack(Count(), Moments(X)), Outer([X, Y]), Outer([X, Y], radius=1.0)),
        *(Bins(X, edges, widths=(4, 1), weights=(1, 1)), Fourier([X, Y], frequencies)),
        *(kernel, Kernel(kernel, points), Nystrom(kernel, points)),
    ]
    for array in (edges, frequencies, points):
        np.multiply(array, 2, out=array)  # it is another one
    return made


@pytest.mark.parametrize(
    ("features", "again"), [*zip(frozen(), frozen(), strict=True)], ids=lambda each: type(each).__name__
)
def test_bundled_features_are_fixed(features, again):
    """What is proved holds for what a feature was made of, so no attribute is set and no array written to."""
    arrays = {name: value for name, value in vars(features).items() if isinstance(value, np.ndarray)}
    for name in {*vars(features), "weights", "radius", "diameter", "unit", "columns"}:
        if not name.startswith("_"):
            with pytest.raises(dp.PluginError, match="cannot change"):
                setattr(features, name, 100)
    for array in arrays.values():
        with pytest.raises(ValueError, match="read-only"):
            np.multiply(array, 100, out=array)

    assert all(np.array_equal(vars(again)[name], value) for name, value in arrays.items())
    assert all(np.abs(value).max() <= 9 for name, value in arrays.items() if name in {"edges", "points"})


@pytest.mark.parametrize("last", [19.0, math.nan])
@pytest.mark.parametrize("narrowed", [
    lambda column: dp.Column(column.name, bounds=(18.0, 20.0)),
    lambda column: replace(column, bounds=(18.0, 20.0), fill=None),
])  # fmt: skip
def test_narrower_bounds_hold_what_is_missing(narrowed, last):
    """Where a plugin narrows bounds, a missing value counts as their middle; an old fill outside is refused."""
    frame = pd.DataFrame({"x": [19.0] * 99 + [last], "g": "a"})
    asked = view(frame, bounds={"x": (0, 1000)})
    found = ask(summed(lambda column: Moments(narrowed(column), degree=1)), asked, epsilon=99).value
    with pytest.raises(dp.SchemaError, match="lies outside"):
        ask(summed(lambda column: Moments(replace(column, bounds=(18.0, 20.0)))), asked)

    assert abs(found[0]) < 1
    assert asked.budget.spent == 99


# ---- norms and diameters of others -----------------------------------------------------------------------


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_a_stated_diameter_is_taken(norm):
    """A diameter of its author's is the sensitivity where it is below twice the radius, and is asked once."""
    features = Segment(X)
    taken = enforce_bounds(features)

    found = [taken.sensitivity("replace_one", norm, frozenset(public)) for public in ("", "x", "", "x")]

    asked = [each for each in features.asked if each[0] == norm]
    assert found[:2] == found[2:] == [Segment.says * (math.sqrt(2) if norm == 1 else 1), 0.0]
    assert asked == [(norm, NOBODY), (norm, frozenset("x"))]
    assert [each[1] for each in features.asked if each[0] == "radius"] == [1, 2, math.inf]
    by = OneHot(Column("g", categories=("a", "b"), public=True), of=features)
    assert by.diameter(norm, frozenset("g")) == found[0]


@pytest.mark.parametrize(("says", "charged"), [(Segment.says, Segment.says), (5.0, 2), (math.inf, 2)])
def test_a_stated_diameter_is_what_is_charged(says, charged):
    """The noise of a sum is for the stated diameter; a larger one is twice the radius."""
    kind = like(Segment, says=says)
    found = ask(lambda curator, column: curator.sum(kind(column)).noise.sensitivity)

    assert found.value == pytest.approx(charged * math.sqrt(2), rel=1e-6)


def test_a_diameter_is_of_the_same_hand_as_the_rows():
    """Of two classes, or on the object, nobody has proved the one for the other."""
    own = {"rows": Segment.rows, "diameter": lambda self, norm, public: 1e-9}
    turned = having(Segment, rows=lambda batch: np.full((batch.size, 2), 0.5))

    for kind, claimed in ((like(Segment), Segment.says), (like(Segment, **own), 1e-9), (turned, 2.0)):
        assert enforce_bounds(kind(X)).diameter(2, NOBODY) == claimed
    for name, method in own.items():
        with pytest.raises(dp.PluginError, match="two classes"):
            like(Segment, **{name: method})


@pytest.mark.parametrize(("says", "held"), [
    (lambda norm: {1: 3.0, 2: 2.0, math.inf: 1.0}[norm], 1.0), (lambda norm: {1: 3.0, 2: 2.0}[norm], 2.0),
    (lambda norm: 3.0 if norm == 1 else 2.0, 2.0), (lambda norm: 2.0 if norm == 2 else 3.0, 2.0),
    (lambda norm: 4.0 / norm, 2.0), (lambda norm: (3.0, 2.0)[norm - 1], 2.0),
    (lambda norm: math.nan if norm > 2 else 2.0, 2.0),
])  # fmt: skip
def test_the_norm_of_infinity(says, held):
    """Whoever says less than in L2 is held to it, whoever has never heard of the norm to that of L2."""

    class Long(Values):
        shape = (3,)

        def rows(self, batch):
            return np.column_stack([batch.values(self.columns[0])] * 2 + [np.full(batch.size, -9.0)])

        def radius(self, norm):
            return says(norm)

    features = enforce_bounds(Long(replace(Y, fill=0.0)))

    steps = features.steps(one_batch([0.5, 9.0, 0.0], features.columns[0]), 20)

    assert features.radius(math.inf) == held
    assert features.diameter(math.inf, NOBODY) == 2 * held
    for norm in (1, 2, math.inf):
        assert np.linalg.norm(steps, ord=norm, axis=1).max() <= features.radius(norm) * 2**20 + 3
    assert abs(steps).max() == pytest.approx(min(held, features.radius(2)) * 2**20, rel=1e-5)


# ---- scales ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-299, *range(-275, 301, 25), 306])
def test_numbers_in_natural_units_move_by_what_is_charged(exponent):
    """At every scale, the sum on its grid moves by at most the diameter and a step when one row changes."""
    for shape in ((-1.0, 1.0), (0.0, 1.0), (0.5, 0.75), (-1e-3, 1.0)):
        column = Column("x", tuple(end * 10.0**exponent for end in shape))
        features = enforce_bounds(Values(column))
        k = exact_exponent(features.radius(2), BATCH_ROWS)
        inside = [column.low, column.high, column.mid, column.low / 3 + column.high / 1.5, 7 * column.high]
        steps = [int(step) for step in features.steps(one_batch(inside, column), k)[:, 0]]

        assert max(steps) - min(steps) <= Fraction(features.diameter(1, NOBODY)) * Fraction(2) ** k + 1
        assert max(map(abs, steps)) >= 0.999 * 2.0**38
        assert BATCH_ROWS * max(map(abs, steps)) <= 2**53


class Long(RowFeatures):
    """Vectors that need not keep to the radius they claim."""

    def __init__(self, rows, radius):
        self.columns, self.made, self.length = (X,), np.asarray(rows), radius
        self.shape = self.made.shape[1:]

    def rows(self, batch):
        return self.made[: batch.size]

    def radius(self, norm):
        return self.length * (math.sqrt(3) if norm == 1 else 1)


@pytest.mark.parametrize("radius", [1e-323, 1e-300, 1e-170, 1e-3, 0.7, 30.0, 1e3, 1e300])
def test_rows_too_long_are_cut_at_every_scale(radius):
    """A vector longer than the radius is cut to it even where its squares are no float64."""
    rng = np.random.default_rng(4)
    sizes = [5e-324, 1e-299, 1e-160, 1e300, 1e308, *10 ** rng.uniform(-300, 300, 2000)]
    every = np.concatenate(
        [np.outer(sizes, [1, 1, 1]), np.outer(sizes, [1, -0.3, 1e-9]), rng.uniform(-9, 9, (99, 3))]
    )
    features = enforce_bounds(Long(every, radius))
    for k in {exact_exponent(radius, BATCH_ROWS), *([0, 11] if 1e-4 < radius < 1e4 else [])}:
        steps = features.steps(one_batch([0.5] * len(every), X), k)
        most = float(Fraction(radius) * Fraction(2) ** k)

        assert np.linalg.norm(steps, axis=1).max() <= most + 3
        assert np.abs(steps).sum(axis=1).max() <= math.sqrt(3) * most + 3


@pytest.mark.parametrize("high", [1e6, 5e-10, 1e-299, 1e300])
def test_statistics_of_sums_in_natural_units(high):
    """A statistic of sums neither wraps nor loses small units: it is as far from the truth as its noise."""
    asked = view(pd.DataFrame({"x": np.full(20_000, 0.85895 * high)}), bounds={"x": (0, high)}, categories={})
    (found,) = ask(measured(Total), asked, epsilon=50).value

    assert abs(found / high - 20_000 * 0.85895) < 1


def test_statistics_of_rounded_sums_are_charged_for_the_rounding():
    """What rounding adds to a statistic is in its sensitivity: its neighbours are never further apart."""
    g = 2.0**-30
    for half in (0.5001 * g, 0.3 * g, 1e-9, 0.7):
        column = Column("x", (-half, half), fill=0.0)
        moved, claimed = [], None
        for value in (half, -half):
            frame = pd.DataFrame({"x": np.r_[value, np.full(99, half / 3)]})
            table = Table(adapt(frame), Schema(("x",), {"x": column}, "replace_one", 100))
            moved.append(table.value(Query.read(Total(column)), 60)[0])
            asked = view(frame, bounds={"x": (-half, half)}, categories={})
            claimed = ask(lambda curator, column: curator.measure(Total(column)).noise.sensitivity, asked).value

        assert abs(moved[0] - moved[1]) * 2.0**-60 <= claimed <= 2 * half * (1 + 1e-5)


def test_whether_sums_are_counts_is_derived_not_said():
    """Features that call their sums counts, against their class, free a statistic of no rounding."""

    class Counted(Values):
        def __getattribute__(self, name):
            return True if name == "counts" else super().__getattribute__(name)

    kinds = Total, lambda column: having(Total, features=Counted(column))(column)
    moved = {ask(lambda c, column, k=k: c.measure(k(column)).noise.sensitivity).value for k in kinds}

    assert len(moved) == 1


# ---- only a copy sees rows -------------------------------------------------------------------------------


class Labels(dp.local.RowLabels):
    """Whether a number is above a half."""

    places = 2

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        return batch.values(self.columns[0]) > 0.5


def test_what_a_feature_keeps_of_rows_is_not_found():
    """Features, statistics and maps of labels keep what they see on a copy, which is thrown away."""

    def looks(own):
        def look(self, batch):
            self.seen = batch.values(self.columns[0]).sum()
            return own(self, batch)

        return look

    stored, least, labels = (
        like(kind, **{name: looks(getattr(kind, name))})
        for kind, name in ((Values, "rows"), (Least, "value"), (Labels, "rows"))
    )
    kept = []

    def look(curator, column):
        notes = []

        def noted(batch):
            notes.append(batch.values(column).sum())
            return batch.values(column)[:, None]

        closure = having(Values, rows=noted)(column)
        everything = [
            stored(column),
            OneHot(curator.columns[1]) * stored(column),
            closure,
            least(column),
            labels(column),
        ]
        for verb, each in zip([curator.sum] * 3 + [curator.measure, curator.randomize], everything, strict=True):
            verb(each, share="1/10")
        kept.extend([hasattr(each, "seen") for each in everything])
        return sum(notes)

    assert ask(look, epsilon=10).value == 0.5  # the made-up row that it is tried on
    assert kept == [False] * 5


FAILURES = {
    "error": lambda: raises(ValueError("a row")),
    "exit": lambda: raises(SystemExit("a row")),
    "shape": lambda: np.zeros((3, 7)),
    "nothing": lambda: None,
    "text": lambda: "a row",
}


@pytest.mark.parametrize("instead", FAILURES.values(), ids=FAILURES)
def test_what_fails_on_a_row_counts_as_zero(instead):
    """Of features, statistics and labels: no other row counts otherwise, and nobody is told that any did."""

    def fails(kind, name):
        own = getattr(kind, name)

        def fail(self, batch):
            return instead() if (batch.values(self.columns[0]) == 0.25).any() else own(self, batch)

        return like(kind, **{name: fail})

    values = np.linspace(0.5, 1, 301)
    values[[7, 150]] = 0.25
    kind, least, labels = fails(Values, "rows"), fails(Least, "value"), fails(Labels, "rows")

    steps = enforce_bounds(kind(X)).steps(one_batch(values, X), 20)[:, 0]

    assert np.array_equal(steps, np.where(values == 0.25, 0, np.rint(values * 2**20)))
    for last in (0.25, 0.75):
        asked = [with_last(last) for _ in range(3)]
        (total,) = ask(summed(kind), asked[0], epsilon=100).value
        (least_of,) = ask(measured(least), asked[1], epsilon=100).value
        sent = ask(lambda c, column: c.randomize(labels(column)).values.tolist(), asked[2], epsilon=40).value

        assert abs(total - 99 - (last > 0.5) * 0.75) < 0.35
        assert abs(least_of - (last > 0.5) * 0.75) < 0.35
        assert sent == [1] * 99 + [last > 0.5]
        assert [each.budget.spent for each in asked] == [100, 100, 40]


def test_features_change_no_rows():
    """What others see of a batch, and the table itself, stay as they are when features write to them."""

    def write(self, batch):
        batch.values(self.columns[0])[:] *= 1000
        return np.zeros((batch.size, 1))

    writing, frame = like(Values, rows=write), pd.DataFrame({"x": [1.0] * 100, "g": "a"})
    found = ask(
        lambda c, column: c.sum(Stack(writing(column), Moments(column, degree=1))).parts[1].values.tolist(),
        view(frame),
        epsilon=100,
    )

    assert abs(found.value[0] - 100) < 1
    assert (frame["x"] == 1).all()


class Adaptive(Values):
    """Its radius grows with the rows."""

    seen = 1e-3

    def rows(self, batch):
        self.seen = self.weights = max(self.seen, float(batch.values(self.columns[0]).max()))
        return super().rows(batch)

    def radius(self, norm):
        return self.seen


class Fickle(Values):
    """Its radius is another one each time it is asked."""

    times = 0

    def radius(self, norm):
        self.times += 1
        return 1e-3 if self.times <= 2 else 1.0


@pytest.mark.parametrize("kind", [Adaptive, Fickle])
def test_claims_are_asked_once_before_rows_are_read(kind):
    """By what was said first rows are cut; what a radius or weights are afterwards changes nothing."""
    assert abs(ask(summed(kind), epsilon=100).value[0]) < 100 * 1e-3 + 0.01


class ByTurns:
    """Statistics that look at a public column when first asked, and at another one ever after."""

    shape = (1,)

    def __init__(self, public, private):
        self.both, self.times = (public, private), 0

    def turn(self):
        self.times += 1
        return self.both[self.times > 1]

    def describe(self):
        return type(self).__name__

    def sensitivity(self, relation, norm, public):
        return 1.0


class RowsByTurns(ByTurns, OfRows):
    @property
    def columns(self):
        return (self.turn(),)

    def value(self, rows):
        try:
            return rows.values(self.both[1]).sum()
        except KeyError:
            return -1.0


class SumsByTurns(ByTurns, OfSums):
    columns = ()

    @property
    def features(self):
        return Values(self.turn())

    def value(self, sums):
        return sums


@pytest.mark.parametrize(("kind", "read"), [(RowsByTurns, -1), (SumsByTurns, 50)])
def test_a_statistic_reads_what_it_said_first(kind, read):
    """What makes a statistic free is what it reads: another column that it names later is not looked at."""
    both = {"column": "numeric", "p": "numeric"}
    terms = {"bounds": {"x": (0, 1), "p": (0, 1)}, "public": ["p"]}
    asked = view(ROWS.assign(p=0.5), **terms)
    free = ask(lambda curator, column, p: curator.measure(kind(p, column)).values[0], asked, "p", **both)
    with pytest.raises(dp.ArgumentError, match="public columns only"):
        ask(lambda curator, column, p: curator.select(kind(p, column))[0], asked, "p", **both)

    assert (read, 0) == (free.value, free.privacy.epsilon)


def test_warnings_of_a_feature_reach_nobody():
    """A warning raised over rows may quote them: it is not shown, in one thread or in many."""

    class Warns(Values):
        def rows(self, batch):
            warnings.warn(f"seen {batch.values(self.columns[0]).max()}", UserWarning, stacklevel=1)
            return super().rows(batch)

    asked, errors = view(), []

    def concurrently():
        try:
            asked.mine("x", epsilon=1, fresh=True)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    dp.register_mechanism(dp.mechanism(columns={"column": "numeric"}, name="mine")(summed(Warns)))
    try:
        before = list(warnings.filters)
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            threads = [threading.Thread(target=concurrently) for _ in range(4)]
            for step in ("start", "join"):
                for thread in threads:
                    getattr(thread, step)()
    finally:
        dp.unregister("mine")

    assert ([], [], before) == (shown, errors, list(warnings.filters))


def test_a_curator_measures_nothing_after_its_call():
    """Whoever keeps the curator of a call gets nothing from it afterwards."""
    kept, asked = [], view()
    ask(lambda curator, column: kept.append(curator) or summed(Values, share="1/2")(curator, column), asked)

    with pytest.raises(dp.PluginError, match="share"):
        kept[0].sum(Values(X))
    assert asked.budget.spent == Fraction(1, 2)


# ---- statistics far from 0 -------------------------------------------------------------------------------


class Mean(OfRows):
    """A mean and more, whose sensitivity is small beside it."""

    def __init__(self, column, plus=(0.0,)):
        self.columns, self.plus, self.shape = (column,), np.array(plus), (len(plus),)

    def value(self, rows):
        return rows.values(self.columns[0]).mean() + self.plus

    def sensitivity(self, relation, norm, public):
        return 8640 / 60_000


def times(start):
    """Protect some times that are long after 0."""
    frame = pd.DataFrame({"x": start + np.linspace(0, 8640, 60_000)})
    return view(frame, bounds={"x": (start, start + 8640)}, categories={})


@pytest.mark.parametrize("off", [0.0, -1.75e9])
def test_a_statistic_that_is_cut_off_says_so(off):
    """Beyond 2^32 sensitivities a value is cut off, with a warning that says what to do; near 0 there is none."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        (found,) = ask(measured(lambda column: Mean(column, [off])), times(1.75e9)).value

    assert (off == 0.0, off != 0.0) == (len(shown) == 1, abs(found - off - 1.75e9 - 4320) < 10)


def test_a_selection_far_from_zero_still_selects():
    """Scores of which only the differences count are compared wherever they lie."""
    scores = [0.0, 5e6, 1e6]

    assert ask(lambda c, column: int(c.select(Mean(column, scores))[0]), times(1.75e12), epsilon=10).value == 1


# ---- what a replay answers -------------------------------------------------------------------------------


def test_a_replay_answers_the_columns_that_were_looked_at():
    """Where a mechanism looks at the columns of the view, other columns or bounds are another question."""

    def means(curator):
        return {c.name: float(curator.sum(Moments(c, degree=1), share="1/4").values[0]) for c in curator.columns}

    frame, name = pd.DataFrame({"x": [0.5] * 50, "y": [0.5] * 50}), next(NAMES)
    whole, wider = (
        dp.protect(frame.copy(), name, epsilon=100, ledger="memory:", bounds={"x": (0, 1), "y": (0, high)})
        for high in (1, 9)
    )
    dp.register_mechanism(dp.mechanism(name="mine")(means))
    try:
        asked = [whole, whole, whole.select("x"), wider, whole]
        replayed = [each.mine(epsilon=4).privacy.replayed for each in asked]
    finally:
        dp.unregister("mine")

    assert replayed == [False, True, False, False, True]


def test_a_mechanism_with_another_closure_is_another():
    """The variables that a notebook's mechanism closes over, and the functions it calls, belong to it."""
    asked, found = view(), []
    for k in (1, 2, 2):
        mine = (lambda curator, column, *, k=k: k, lambda curator, column: k)  # noqa: B023
        found += [ask(each, asked).privacy.replayed for each in mine]

    assert found == [False, False, False, False, True, True]
