"""What a plugin writes cannot make a private sum free, exact, or cheaper than it is."""

# ruff: noqa: PD011 - measurements have values, too
from __future__ import annotations

import itertools
import math
import threading
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._measure.evaluate import Table
from dfprivacy._measure.query import Query, copied
from dfprivacy._privacy.calibrate import exact_exponent
from dfprivacy._table.batch import BATCH_ROWS, batches, number
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
from dfprivacy.features.base import enforced
from dfprivacy.schema import Column, Schema
from dfprivacy.statistics import OfRows, OfSums

ROWS = pd.DataFrame({"x": [0.123456789] * 99 + [1.0], "g": ["a", "b"] * 50})
NAMES = (f"enforced {i}" for i in itertools.count())


def view(frame=ROWS, **terms):
    """Protect a table under a name of its own."""
    how = {"epsilon": 100, "bounds": {"x": (0, 1)}, "categories": {"g": ["a", "b"]}, **terms}
    return dp.protect(frame, next(NAMES), ledger="memory:", **how)


@contextmanager
def registered(function, **columns):
    """Let every view have a mechanism that measures something of column x."""
    made = dp.mechanism(columns=columns or {"column": "numeric"}, name="mine")(function)
    dp.register_mechanism(made)
    try:
        yield
    finally:
        dp.unregister("mine")


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


# ---- what is free ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("neighbors", "public", "where", "free"),
    [
        ("replace_one", ["x"], {}, True),
        ("replace_one", [], {}, False),
        ("replace_one", ["x"], {"g": "a"}, False),
        ("replace_one", ["x", "g"], {"g": "a"}, True),
        ("add_remove", [], {}, False),
    ],
)
def test_what_is_free_follows_from_names(neighbors, public, where, free):
    """A sum is exact and free if its columns are public, and so are which rows it is of; else it is paid for."""
    asked = view(neighbors=neighbors, public=public)
    asked = asked.where(**where) if where else asked
    with registered(lambda curator, column: curator.sum(Values(column)).noise is None):
        release = asked.mine("x", epsilon=1)

    assert (free, 0 if free else 1) == (release.value, asked.budget.spent)


@pytest.mark.parametrize("claim", [0.0, -1.0, math.nan])
def test_a_sensitivity_of_zero_frees_nothing(claim):
    """A statistic of a private column that claims to be moved by no row is refused, and nothing is spent."""

    class Claimed(Total):
        def sensitivity(self, relation, norm, public):
            return claim

    asked = view()
    with (
        registered(lambda curator, column: curator.measure(Claimed(column)).values[0]),
        pytest.raises(dp.PluginError),
    ):
        asked.mine("x", epsilon=1)

    assert asked.budget.spent == 0


def test_an_underflow_frees_nothing():
    """A kernel so wide that all its values are one number is not public for that."""
    asked = view(bounds={"x": (0, 1)})
    release = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProductKernel, "distance", lambda *_: 0.0)
        patch.setattr(Nystrom, "diameter", lambda *_: 0.0)
        with pytest.raises(dp.DPError):
            release = asked.kme_release(["x"], lengthscale=1e9, features="subspace", epsilon=1)

    assert (release, asked.budget.spent) == (None, 0)


# ---- who is enforced -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bundled", [Count, Moments, OneHot, Nystrom])
def test_bundled_features_have_no_subclasses(bundled):
    """What is proved of bundled features holds for their own rows, so nobody extends them."""
    with pytest.raises(dp.PluginError, match=bundled.__name__):
        type("Mine", (bundled,), {"rows": lambda self, batch: batch.values(self.columns[0])[:, None]})


@pytest.mark.parametrize(
    "name", ["diameter", "sensitivity", "steps", "total", "totals", "image", "support", "reads"]
)
def test_a_mix_in_cannot_derive(name):
    """What is derived from rows and radius is not redefined by a mix-in, before or after RowFeatures."""
    loose = type("Loose", (), {name: lambda *_: 0.0})
    for bases in ((loose, RowFeatures), (loose, Values), (type("More", (loose,), {}), RowFeatures)):
        with pytest.raises(dp.PluginError, match=name):
            type("Mine", bases, {})


@pytest.mark.parametrize("name", ["diameter", "sensitivity", "radius"])
def test_an_attribute_of_the_object_changes_nothing(name):
    """A number that is put in place of a method is not believed beyond the radius that rows are cut to."""
    features = Values(Column("x", (0.0, 1.0)))
    setattr(features, name, lambda *_: 1e-9)
    taken = enforced(features)
    steps = taken.steps(one_batch([1.0], taken.columns[0]), 60)

    assert abs(steps).max() <= 2.0**60 * taken.diameter(1, frozenset()) / 2 * (1 + 1e-9)


A, B = Column("x", (0.0, 1.0)), Column("y", (0.0, 9.0))
G = Column("g", categories=("a", "b"))
KERNEL = ProductKernel([A, B], 1.0)
POINTS = np.array([[0.0, 0.0], [1.0, 9.0]])
FROZEN = [
    *(
        Count(),
        Moments(A),
        OneHot(G, of=Moments(A)),
        Given(A, of=Moments(A), tally=(0, 0.5)),
        Stack(Count(), Moments(A)),
    ),
    *(Outer([A, B]), Outer([A, B], radius=1.0), Bins(A, np.linspace(0, 1, 5), widths=(4, 1), weights=(1, 1))),
    *(Fourier([A, B], np.ones((3, 2))), KERNEL, Kernel(KERNEL, POINTS), Nystrom(KERNEL, POINTS)),
]


@pytest.mark.parametrize("features", FROZEN, ids=lambda each: type(each).__name__)
def test_bundled_features_are_fixed(features):
    """What is proved holds for what a feature was made of, so no attribute is set and no array written to."""
    held = [name for name in vars(features) if not name.startswith("_")]
    before = {name: np.copy(value) for name, value in vars(features).items() if isinstance(value, np.ndarray)}
    for name in {*held, "weights", "radius", "diameter", "unit", "columns"}:
        with pytest.raises(dp.PluginError, match="cannot change"):
            setattr(features, name, 100)
    for name in before:
        with pytest.raises(ValueError, match="read-only"):
            vars(features)[name] *= 100

    assert all(np.array_equal(vars(features)[name], value) for name, value in before.items())


def test_arrays_of_features_are_their_own():
    """Who made features of an array may change it: it is another one."""
    edges, frequencies = np.linspace(0, 1, 5), np.ones((3, 2))
    features = Bins(A, edges), Fourier([A, B], frequencies)
    edges *= 2
    frequencies *= 2

    assert (features[0].edges[-1], pytest.approx(features[1].frequencies[0, 0], rel=1e-6)) == (1.0, 1.0)


@pytest.mark.parametrize("last", [19.0, math.nan])
@pytest.mark.parametrize(
    "narrowed",
    [
        lambda column: dp.Column(column.name, bounds=(18.0, 20.0)),
        lambda column: replace(column, bounds=(18.0, 20.0), fill=None),
        lambda column: replace(column, bounds=(18.0, 20.0)),
    ],
    ids=["another", "middle", "old fill"],
)
def test_narrower_bounds_hold_what_is_missing(request, narrowed, last):
    """Where a plugin narrows bounds, a missing value counts as their middle; an old fill outside is refused."""
    frame = pd.DataFrame({"x": [19.0] * 99 + [last], "g": "a"})
    asked, refused = view(frame, bounds={"x": (0, 1000)}), "old fill" in request.node.name
    found = []
    with (
        registered(lambda curator, column: float(curator.sum(Moments(narrowed(column), degree=1)).values[0])),
        pytest.raises(dp.SchemaError, match="outside of") if refused else nullcontext(),
    ):
        found.append(abs(asked.mine("x", epsilon=100).value) < 1)

    assert ([], 0) if refused else (found, asked.budget.spent) == ([True], 100)


def one_batch(values, column):
    """Make a batch of one numeric column."""
    frame = adapt(pd.DataFrame({column.name: values}))
    (batch, _), *_ = batches(frame, [number(column)], ())
    return batch


# ---- norms and diameters of others -----------------------------------------------------------------------


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


X = Column("x", (0.0, 1.0), fill=0.5)


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_a_stated_diameter_is_taken(norm):
    """A diameter of its author's is the sensitivity where it is below twice the radius, and is asked once."""
    features = Segment(X)
    taken = enforced(features)

    found = [taken.sensitivity("replace_one", norm, frozenset(public)) for public in ("", "x", "", "x")]

    asked = [each for each in features.asked if each[0] == norm]
    assert found[:2] == found[2:] == [Segment.says * (math.sqrt(2) if norm == 1 else 1), 0.0]
    assert asked == [(norm, frozenset()), (norm, frozenset("x"))]
    assert [each[1] for each in features.asked if each[0] == "radius"] == [1, 2, math.inf]
    assert (
        OneHot(Column("g", categories=("a", "b"), public=True), of=features).diameter(norm, frozenset("g"))
        == found[0]
    )


def test_a_stated_diameter_is_what_is_charged():
    """The noise of a sum is for the stated diameter, by category too; a larger one is twice the radius."""
    asked = view()
    for says, charged in [
        (Segment.says, Segment.says * math.sqrt(2)),
        (5.0, 2 * math.sqrt(2)),
        (math.inf, 2 * math.sqrt(2)),
    ]:
        with (
            pytest.MonkeyPatch.context() as patch,
            registered(lambda curator, column: curator.sum(Segment(column)).noise.sensitivity),
        ):
            patch.setattr(Segment, "says", says)
            assert asked.mine("x", epsilon=1, fresh=True).value == pytest.approx(charged, rel=1e-6)


@pytest.mark.parametrize("says", [math.nan, -1.0, 0.0])
@pytest.mark.parametrize("noise", ["laplace", "cube"])
def test_a_diameter_that_is_none_is_refused(says, noise):
    """One that is not a number, negative, or 0 of a private column is refused, and nothing is spent."""
    asked = view()
    with (
        pytest.MonkeyPatch.context() as patch,
        registered(lambda curator, column: curator.sum(Segment(column), noise=noise).values),
    ):
        patch.setattr(Segment, "says", says)
        with pytest.raises(dp.PluginError, match="diameter"):
            asked.mine("x", epsilon=1)

    assert asked.budget.spent == 0


def test_a_diameter_is_of_the_same_hand_as_the_rows():
    """Of two classes, or on the object, nobody has proved the one for the other."""
    own = {"rows": Segment.rows, "diameter": lambda self, norm, public: 1e-9}
    turned = Segment(X)
    turned.rows = lambda batch: np.full((batch.size, 2), 0.5)

    assert enforced(type("Derived", (Segment,), {})(X)).diameter(2, frozenset()) == Segment.says
    assert enforced(type("Both", (Segment,), own)(X)).diameter(2, frozenset()) == 1e-9
    assert enforced(turned).diameter(2, frozenset()) == 2.0
    for name, method in own.items():
        with pytest.raises(dp.PluginError, match="two classes"):
            type("Half", (Segment,), {name: method})
    with pytest.raises(dp.PluginError, match="diameter"):
        type("Mixed", (type("Loose", (), {"diameter": own["diameter"]}), RowFeatures), {"rows": own["rows"]})


@pytest.mark.parametrize(
    ("says", "held"),
    [
        (lambda norm: {1: 3.0, 2: 2.0, math.inf: 1.0}[norm], 1.0),
        (lambda norm: {1: 3.0, 2: 2.0}[norm], 2.0),
        (lambda norm: 3.0 if norm == 1 else 2.0, 2.0),
        (lambda norm: 2.0 if norm == 2 else 3.0, 2.0),
        (lambda norm: 4.0 / norm, 2.0),
        (lambda norm: (3.0, 2.0)[norm - 1], 2.0),
        (lambda norm: math.nan if norm > 2 else 2.0, 2.0),
    ],
)
def test_the_norm_of_infinity(says, held):
    """Whoever says less than in L2 is held to it, whoever has never heard of the norm to that of L2."""

    class Long(Values):
        shape = (3,)

        def rows(self, batch):
            return np.column_stack([batch.values(self.columns[0])] * 2 + [np.full(batch.size, -9.0)])

        def radius(self, norm):
            return says(norm)

    features = enforced(Long(Column("x", (0.0, 9.0), fill=0.0)))

    steps = features.steps(one_batch([0.5, 9.0, 0.0], features.columns[0]), 20)

    assert features.radius(math.inf) == held
    assert features.diameter(math.inf, frozenset()) == 2 * held
    for norm in (1, 2, math.inf):
        assert np.linalg.norm(steps, ord=norm, axis=1).max() <= features.radius(norm) * 2**20 + 3
    assert abs(steps).max() == pytest.approx(min(held, features.radius(2)) * 2**20, rel=1e-5)


# ---- scales ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-299, *range(-275, 301, 25), 306])
@pytest.mark.parametrize("shape", [(-1.0, 1.0), (0.0, 1.0), (0.5, 0.75), (-1e-3, 1.0)])
def test_numbers_in_natural_units_move_by_what_is_charged(exponent, shape):
    """At every scale, the sum on its grid moves by at most the diameter and a step when one row changes."""
    scale = 10.0**exponent
    column = Column("x", tuple(end * scale for end in shape))
    features = enforced(Values(column))
    k = exact_exponent(features.radius(2), BATCH_ROWS)
    inside = [column.low, column.high, column.mid, column.low / 3 + column.high / 1.5, 7 * column.high]
    steps = features.steps(one_batch(inside, column), k)[:, 0]
    moved = max(abs(int(a) - int(b)) for a, b in itertools.product(steps, repeat=2))

    assert moved <= Fraction(features.diameter(1, frozenset())) * Fraction(2) ** k + 1
    assert max(abs(steps)) >= 0.999 * 2.0**38
    assert BATCH_ROWS * max(abs(steps)) <= 2**53


def test_rows_too_long_are_cut_at_every_scale():
    """A vector longer than the radius is cut to it even where its squares are no float64."""

    class Long(RowFeatures):
        shape = (3,)

        def __init__(self, column, size, radius):
            self.columns, self.size, self.length = (column,), size, radius

        def rows(self, batch):
            return np.full((batch.size, 3), self.size)

        def radius(self, norm):
            return self.length * (math.sqrt(3) if norm == 1 else 1)

    column = Column("x", (0.0, 1.0), fill=0.0)
    for size, radius in [(1e300, 1.0), (1e-299, 1e-300), (1e-160, 1e-170), (1e308, 1e300), (5e-324, 1e-323)]:
        features = enforced(Long(column, size, radius))
        k = exact_exponent(radius, BATCH_ROWS)
        steps = features.steps(one_batch([0.5], column), k)[0]

        assert math.hypot(*steps) <= Fraction(radius) * Fraction(2) ** k + 3


@pytest.mark.parametrize("high", [1e6, 5e-10, 1e-299, 1e300])
def test_statistics_of_sums_in_natural_units(high):
    """A statistic of sums neither wraps nor loses small units: it is as far from the truth as its noise."""
    values = np.full(20_000, 0.85895 * high)
    asked = view(pd.DataFrame({"x": values}), bounds={"x": (0, high)}, categories={})
    with registered(lambda curator, column: curator.measure(Total(column)).values[0]):
        found = asked.mine("x", epsilon=50).value

    assert abs(found / high - 20_000 * 0.85895) < 1


@pytest.mark.parametrize("name", ["error", "lipschitz"])
@pytest.mark.parametrize("said", [-1e-9, -1e9, math.nan, math.inf])
def test_what_a_statistic_says_takes_no_noise_away(name, said):
    """An error or a Lipschitz constant below 0, or no number, is refused before any charge."""

    class Said(Total):
        def __init__(self, column):
            super().__init__(column)
            setattr(self, name, said)

    asked = view()
    with (
        registered(lambda curator, column: curator.measure(Said(column)).values[0]),
        pytest.raises(dp.PluginError, match=name),
    ):
        asked.mine("x", epsilon=1)

    assert asked.budget.spent == 0


def test_statistics_of_rounded_sums_are_charged_for_the_rounding():
    """What rounding adds to a statistic is in its sensitivity: its neighbours are never further apart."""
    g = 2.0**-30
    for half in (0.5001 * g, 0.3 * g, 1e-9, 0.7):
        column = Column("x", (-half, half), fill=0.0)
        moved, claimed = [], None
        for value in (half, -half):
            frame = pd.DataFrame({"x": np.r_[value, np.full(99, half / 3)]})
            asked = view(frame, bounds={"x": (-half, half)}, categories={})
            table = Table(adapt(frame), Schema(("x",), {"x": column}, "replace_one", 100))
            moved.append(table.value(Query.read(Total(column)), 60)[0])
            with registered(lambda curator, column: curator.measure(Total(column)).noise.sensitivity):
                claimed = asked.mine("x", epsilon=1).value

        assert abs(moved[0] - moved[1]) * 2.0**-60 <= claimed <= 2 * half * (1 + 1e-5)


def test_whether_sums_are_counts_is_derived_not_said():
    """Features that call their sums counts, against their class, free a statistic of no rounding."""

    class Counted(Values):
        def __getattribute__(self, name):
            return True if name == "counts" else super().__getattribute__(name)

    class OfCounted(Total):
        def __init__(self, column):
            super().__init__(column)
            self.features = Counted(column)

    asked, moved = view(), []
    for kind in (Total, OfCounted):
        with registered(lambda curator, column, kind=kind: curator.measure(kind(column)).noise.sensitivity):
            moved.append(asked.mine("x", epsilon=1, fresh=True).value)

    assert moved[0] == moved[1]


# ---- only a copy sees rows -------------------------------------------------------------------------------


def test_what_a_feature_keeps_of_rows_is_not_found():
    """Features, statistics and maps of labels keep what they see on a copy, which is thrown away."""

    class Stored(Values):
        def rows(self, batch):
            self.seen = batch.values(self.columns[0]).sum()
            return super().rows(batch)

    class Looked(OfRows):
        shape = (1,)

        def __init__(self, column):
            self.columns = (column,)

        def value(self, rows):
            self.seen = rows.values(self.columns[0]).sum()
            return self.seen

        def sensitivity(self, relation, norm, public):
            return 1.0

    class Labels(dp.local.RowLabels):
        places = 2

        def __init__(self, column):
            self.columns = (column,)

        def rows(self, batch):
            self.seen = batch.values(self.columns[0]).sum()
            return batch.values(self.columns[0]) > 0.5

    kept = []

    def measured(curator, column):
        notes = []

        def noted(batch):
            notes.append(batch.values(column).sum())
            return batch.values(column)[:, None]

        closure = Values(column)
        closure.rows = noted
        everything = [Stored(column), OneHot(curator.columns[1]) * Stored(column), closure]
        for each in everything:
            curator.sum(each, share="1/10")
        looked, labels = Looked(column), Labels(column)
        curator.measure(looked, share="1/10")
        curator.randomize(labels, share="1/10")
        everything += [looked, labels]
        kept.extend([hasattr(each, "seen") for each in everything])
        return sum(notes)

    with registered(measured):
        found = view().mine("x", epsilon=10).value

    assert (kept, found) == ([False] * 5, 0.5)  # the made-up row that it is tried on


class Fails(Values):
    """Numbers of a row, but for one value: of that, whatever `instead` does."""

    def __init__(self, column, instead):
        super().__init__(column)
        self.instead = instead

    def rows(self, batch):
        values = super().rows(batch)
        return self.instead() if (values == 0.25).any() else values


def raises(error):
    raise error


FAILURES = {
    "error": lambda: raises(ValueError("a row")),
    "exit": lambda: raises(SystemExit("a row")),
    "shape": lambda: np.zeros((3, 7)),
    "nothing": lambda: None,
    "text": lambda: "a row",
}


@pytest.mark.parametrize("instead", FAILURES.values(), ids=FAILURES)
def test_a_row_for_which_features_fail_counts_as_zeros(instead):
    """It alone: no other row counts otherwise, and nobody is told that any did."""
    values = np.linspace(0.5, 1, 301)
    values[[7, 150]] = 0.25
    batch = one_batch(values, X)

    steps = enforced(Fails(X, instead)).steps(batch, 20)[:, 0]

    assert np.array_equal(steps, np.where(values == 0.25, 0, np.rint(values * 2**20)))
    for last in (0.25, 0.5):
        asked = view(pd.DataFrame({"x": [1.0] * 99 + [last], "g": "a"}))
        with registered(lambda curator, column: float(curator.sum(Fails(column, instead)).values[0])):
            assert abs(asked.mine("x", epsilon=100).value - 99.25) < 1
        assert asked.budget.spent == 100


@pytest.mark.parametrize("instead", FAILURES.values(), ids=FAILURES)
def test_a_statistic_that_fails_is_zero(instead):
    """A call goes on, is paid, and answers in the same words, whether a statistic fails on the rows or not."""

    class Least(OfRows):
        shape = (1,)

        def __init__(self, column):
            self.columns = (column,)

        def value(self, rows):
            least = rows.values(self.columns[0]).min()
            return instead() if least == 0.25 else [least]

        def sensitivity(self, relation, norm, public):
            return 1.0

    found = []
    for last in (0.25, 0.5):
        asked = view(pd.DataFrame({"x": [1.0] * 99 + [last], "g": "a"}))
        with registered(lambda curator, column: float(curator.measure(Least(column)).values[0])):
            found.append(asked.mine("x", epsilon=100).value)
        assert asked.budget.spent == 100

    assert np.allclose(found, [0, 0.5], atol=0.25)


@pytest.mark.parametrize("instead", FAILURES.values(), ids=FAILURES)
def test_a_row_for_which_labels_fail_has_the_first_place(instead):
    """In the local model too, a row that fails has a message like any other."""

    class Above(dp.local.RowLabels):
        places = 2

        def __init__(self, column):
            self.columns = (column,)

        def rows(self, batch):
            values = batch.values(self.columns[0])
            return instead() if (values == 0.25).any() else values > 0.1

    asked = view(pd.DataFrame({"x": [1.0] * 99 + [0.25], "g": "a"}))
    with registered(lambda curator, column: curator.randomize(Above(column)).values.tolist()):
        assert asked.mine("x", epsilon=40).value == [1] * 99 + [0]


def test_features_that_fail_on_any_row_are_refused():
    """Of a row that is made up, the error is shown, and nothing is paid."""
    asked = view(ROWS.copy(), bounds={"x": (0, 0.5)})
    with (
        registered(lambda curator, column: curator.sum(Fails(column, FAILURES["error"])).values),
        pytest.raises(dp.PluginError, match="fails on a made-up row with ValueError: a row") as caught,
    ):
        asked.mine("x", epsilon=1)

    assert "Nothing was released or spent" in str(caught.value)
    assert asked.budget.spent == 0


@pytest.mark.parametrize("raw", [False, True])
def test_features_change_no_rows(raw):
    """What others see of a batch, and the table itself, stay as they are when features write to them."""

    class Writes(Values):
        def rows(self, batch):
            values = batch.raw[number(self.columns[0])] if raw else batch.values(self.columns[0])
            values *= 1000
            return np.zeros((batch.size, 1))

    frame = pd.DataFrame({"x": [1.0] * 100, "g": "a"})
    asked = view(frame)

    def measured(curator, column):
        return curator.sum(Stack(Writes(column), Moments(column, degree=1))).parts[1].values.tolist()

    with registered(measured), pytest.raises(dp.PluginError, match="read-only") if raw else nullcontext():
        assert abs(asked.mine("x", epsilon=100).value[0] - 100) < 1
    assert (frame["x"] == 1).all()


def test_what_cannot_be_copied_is_refused():
    """A feature that holds a lock, or the curator, is refused before any charge."""
    for holds in (lambda curator: threading.Lock(), lambda curator: curator):

        def measured(curator, column, holds=holds):
            features = Values(column)
            features.held = holds(curator)
            return curator.sum(features).values[0]

        asked = view()
        with (
            registered(lambda curator, column, _m=measured: _m(curator, column)),
            pytest.raises(dp.PluginError, match="cannot be copied"),
        ):
            asked.mine("x", epsilon=1)

        assert asked.budget.spent == 0


def test_a_radius_that_grows_with_the_rows_cuts_them_all_the_same():
    """Radius and weights are asked before the rows are read; what they are afterwards changes nothing."""

    class Adaptive(Values):
        def __init__(self, column):
            super().__init__(column)
            self.seen = 1e-3

        def rows(self, batch):
            self.seen = max(self.seen, float(batch.values(self.columns[0]).max()))
            self.weights = self.seen
            return super().rows(batch)

        def radius(self, norm):
            return self.seen

    with registered(lambda curator, column: list(curator.sum(Adaptive(column)).values)):
        found = view().mine("x", epsilon=100).value

    assert abs(found[0]) < 100 * 1e-3 + 0.01


def test_claims_that_change_from_one_time_to_the_next_are_asked_once():
    """A radius that says something else each time is taken at its first word, by which rows are cut."""

    class Fickle(Values):
        def radius(self, norm):
            self.times = getattr(self, "times", 0) + 1
            return 1e-3 if self.times <= 2 else 1.0

    with registered(lambda curator, column: curator.sum(Fickle(column)).values[0]):
        found = view().mine("x", epsilon=100).value

    assert abs(found) < 100 * 1e-3 + 0.01


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
    frame = ROWS.assign(p=0.5)
    terms = {"bounds": {"x": (0, 1), "p": (0, 1)}, "public": ["p"]}
    with registered(
        lambda curator, column, p: curator.measure(kind(p, column)).values[0], column="numeric", p="numeric"
    ):
        free = view(frame, **terms).mine("x", "p", epsilon=1)
    assert (read, 0) == (free.value, free.privacy.epsilon)

    refused = pytest.raises(dp.ArgumentError, match="public columns only")
    with (
        registered(lambda curator, column, p: curator.select(kind(p, column))[0], column="numeric", p="numeric"),
        refused,
    ):
        view(frame, **terms).mine("x", "p", epsilon=1)


def test_warnings_of_a_feature_reach_nobody():
    """A warning raised over rows may quote them: it is not shown, in one thread or in many."""

    class Warns(Values):
        def rows(self, batch):
            warnings.warn(f"seen {batch.values(self.columns[0]).max()}", UserWarning, stacklevel=1)
            return super().rows(batch)

    asked = view()
    errors = []

    def ask():
        try:
            asked.mine("x", epsilon=1, fresh=True)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    with registered(lambda curator, column: curator.sum(Warns(column)).values[0]):
        before = list(warnings.filters)
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            threads = [threading.Thread(target=ask) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    assert ([], [], before) == (shown, errors, list(warnings.filters))


def test_a_curator_measures_nothing_after_its_call():
    """Whoever keeps the curator of a call gets nothing from it afterwards."""
    kept = []

    def measured(curator, column):
        kept.append((curator, column))
        return curator.sum(Values(column), share="1/2").values[0]

    asked = view()
    with registered(measured):
        asked.mine("x", epsilon=1)
    curator, column = kept[0]

    with pytest.raises(dp.PluginError, match="share"):
        curator.sum(Values(column))
    assert asked.budget.spent == Fraction(1, 2)


def test_a_copy_is_by_value():
    """Functions and what they close over travel with the copy."""
    notes = []
    features = Values(Column("x", (0.0, 1.0)))
    features.note = notes.append

    copied(features).note(1)

    assert notes == []


# ---- statistics far from 0 -------------------------------------------------------------------------------


class Mean(OfRows):
    """A mean, whose sensitivity is small beside it."""

    shape = (1,)

    def __init__(self, column, n, off=0.0):
        self.columns, self.n, self.off = (column,), n, off

    def value(self, rows):
        return rows.values(self.columns[0]).mean() - self.off

    def sensitivity(self, relation, norm, public):
        return (self.columns[0].high - self.columns[0].low) / self.n


@pytest.mark.parametrize("off", [0.0, 1.75e9])
def test_a_statistic_that_is_cut_off_says_so(off):
    """Beyond 2^32 sensitivities a value is cut off, with a warning that says what to do; near 0 there is none."""
    n, start = 60_000, 1.75e9
    times = start + np.linspace(0, 8640, n)
    asked = view(pd.DataFrame({"x": times}), bounds={"x": (start, start + 8640)}, categories={})
    with (
        registered(lambda curator, column: curator.measure(Mean(column, n, off)).values[0] + off),
        warnings.catch_warnings(record=True) as shown,
    ):
        warnings.simplefilter("always")
        found = asked.mine("x", epsilon=1).value

    assert (off == 0.0, off != 0.0) == (len(shown) == 1, abs(found - times.mean()) < 10)


def test_a_selection_far_from_zero_still_selects():
    """Scores of which only the differences count are compared wherever they lie."""

    class Scores(Mean):
        shape = (3,)

        def value(self, rows):
            return rows.values(self.columns[0]).mean() + np.array([0.0, 5e6, 1e6])

    n, start = 60_000, 1.75e12
    asked = view(
        pd.DataFrame({"x": start + np.linspace(0, 8640, n)}), bounds={"x": (start, start + 8640)}, categories={}
    )
    with registered(lambda curator, column: int(curator.select(Scores(column, n))[0])):
        found = asked.mine("x", epsilon=10).value

    assert found == 1


# ---- what a replay answers -------------------------------------------------------------------------------


def test_a_replay_answers_the_columns_that_were_looked_at():
    """Where a mechanism looks at the columns of the view, other columns or bounds are another question."""

    def means(curator):
        return {c.name: float(curator.sum(Moments(c, degree=1), share="1/4").values[0]) for c in curator.columns}

    frame = pd.DataFrame({"x": [0.5] * 50, "y": [0.5] * 50})
    how = {"epsilon": 100, "ledger": "memory:"}
    name = next(NAMES)
    whole = dp.protect(frame, name, bounds={"x": (0, 1), "y": (0, 1)}, **how)
    wider = dp.protect(frame.copy(), name, bounds={"x": (0, 1), "y": (0, 9)}, **how)
    made = dp.mechanism(name="mine")(means)
    dp.register_mechanism(made)
    try:
        asked = [whole, whole, whole.select("x"), wider, whole]
        replayed = [each.mine(epsilon=4).privacy.replayed for each in asked]
    finally:
        dp.unregister("mine")

    assert replayed == [False, True, False, False, True]


def test_a_replay_answers_for_others_whatever_they_know():
    """Where a mechanism looks at what it is asked only, a column that is declared later changes no question."""
    frame = pd.DataFrame({"x": [0.5] * 50, "y": [0.5] * 50})
    name = next(NAMES)
    views = [
        dp.protect(frame.copy(), name, epsilon=9, ledger="memory:", bounds=bounds)
        for bounds in ({"x": (0, 1)}, {"x": (0, 1), "y": (0, 1)})
    ]

    assert [each.ttest("x", popmean=0.5, epsilon=1).privacy.replayed for each in views] == [False, True]


def test_a_mechanism_with_another_closure_is_another():
    """The variables that a notebook's mechanism closes over, and the functions it calls, belong to it."""
    asked = view()
    found = []
    for k in (1, 2, 2):
        with registered(lambda curator, column, *, k=k: k):
            found.append(asked.mine("x", epsilon=1).privacy.replayed)
        with registered(lambda curator, column: k):  # noqa: B023
            found.append(asked.mine("x", epsilon=1).privacy.replayed)

    assert found == [False, False, False, False, True, True]


@pytest.mark.parametrize("same", [Fraction(1, 2), "numpy", 0.5])
def test_numbers_of_other_types_ask_the_same(same):
    """A fraction that is a float asks what the float asks."""
    asked = view()
    asked.ttest("x", popmean=0.5, epsilon=1)

    assert asked.ttest("x", popmean=np.float64(0.5) if same == "numpy" else same, epsilon=1).privacy.replayed
