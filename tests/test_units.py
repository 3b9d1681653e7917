"""Noise on whole units: what is claimed, what is charged, what law it has, and what is taken for it."""

# ruff: noqa: PD011 - measurements have values, too
from __future__ import annotations

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
from dfprivacy._measure.query import Query, grid_for, unit_grid
from dfprivacy._privacy.calibrate import laplace_scale
from dfprivacy._privacy.losses import Laplace
from dfprivacy._privacy.samplers import OpenDPSampler
from dfprivacy._table.batch import batches, number
from dfprivacy._table.frames import adapt
from dfprivacy.features import Bins, Count, Given, Moments, OneHot, RowFeatures, Stack
from dfprivacy.features.base import common_unit, enforced
from dfprivacy.laws import NoiseLaw
from dfprivacy.schema import Column, Schema
from dfprivacy.testing import seeded_noise
from dfprivacy_audit.sampler import goodness_of_fit

NAMES = (f"units {i}" for i in itertools.count())
RELATIONS = ["replace_one", "add_remove"]
G = Column("g", categories=("a", "b"))
H = Column("h", categories=("u", "v", "w"))
X = Column("x", (0.0, 4.0), fill=2.0)
FRAME = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.5] * 100, "g": ["a", "b", "b", None] * 100, "h": list("uvwu") * 100})
SAID = {"bounds": {"x": (0, 4)}, "categories": {"g": ["a", "b"], "h": ["u", "v", "w"]}}


def view(frame=FRAME, *, name=None, **terms):
    """Protect the table under a name of its own."""
    return dp.protect(frame, name or next(NAMES), **{"epsilon": 10_000, "ledger": "memory:", **SAID, **terms})


@contextmanager
def registered(function):
    """Let every view have a mechanism of this function."""
    made = dp.mechanism(columns={"column": "any"}, name="mine", delta=True)(function)
    dp.register_mechanism(made)
    try:
        yield
    finally:
        dp.unregister("mine")


def summed(features, **how):
    """A mechanism that gives the noise and the values of a sum."""

    def mine(curator, column):
        found = curator.sum(features(column), **how)
        return {"grid": found.noise.grid, "scale": found.noise.scale, "values": found.values.ravel().tolist()}

    return mine


# ---- what is claimed -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "unit"),
    [
        (Count(), 1.0),
        (OneHot(G), 1.0),
        (OneHot(G, H), 1.0),
        (OneHot(G) * Moments(X), None),
        (Moments(X), None),
        (Given(X), 1.0),
        (Given(X, tally=(0, 1)), 1.0),
        (Given(X, tally=(0, 0.5)), 0.5),
        (Given(X, tally=(0, 0.1)), 2.0**-55),
        (Given(X, of=Moments(X), tally=(0, 1)), None),
        (Bins(X, [0, 1, 2, 3, 4]), 1.0),
        (Bins(X, [0, 1, 2, 3, 4], widths=(2, 1), weights=(6, 4)), 2.0),
        (Stack(OneHot(G), Given(X, tally=(0, 0.5))), 0.5),
        (Stack(OneHot(G), Moments(X)), None),
    ],
    ids=lambda value: value.describe() if isinstance(value, RowFeatures) else str(value),
)
def test_a_unit_is_claimed_where_all_parts_have_one(features, unit):
    """The unit is the largest power of two that divides all parts; None if one part has none."""
    assert unit == features.unit


@pytest.mark.parametrize(
    "numbers", [[1.0], [0.75, 6.0], [-12.0, 0.0, 20.0], [0.1, 1.0], [5e-324, 1e300], [2.0**1000]]
)
def test_a_common_unit_divides(numbers):
    """All numbers are odd or even multiples of it, and not all are even."""
    unit = Fraction(common_unit(numbers))
    times = [Fraction(number) / unit for number in numbers]

    assert all(each.denominator == 1 for each in times)
    assert any(each.numerator % 2 for each in times)


def all_tables(rows):
    """Every table of up to two rows."""
    return [list(each) for size in range(3) for each in itertools.product(rows, repeat=size)]


def apart(features, neighbors, k):
    """The largest L1 distance of sums on neighbouring tables, in steps, by looking at all of them."""
    rows = [
        {"x": x, "g": g, "h": h}
        for x, g, h in itertools.product([0.0, 1.5, 4.0, math.nan], ["a", "b", None], ["u", "v"])
    ]
    frame = adapt(pd.DataFrame(rows))
    (batch, _), *_ = batches(frame, list(features.reads), ())
    each = features.steps(batch, k)
    vectors = np.array([features.image([int(step) for step in row], k) for row in each], dtype=np.int64)
    if neighbors == "add_remove":
        return int(np.abs(vectors).sum(axis=1).max())
    return int(np.abs(vectors[:, None] - vectors[None]).sum(axis=2).max())


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize(
    ("features", "exact"),
    [
        (OneHot(G), (2, 1)),
        (OneHot(G, H), (2, 1)),
        (Given(X), (1, 1)),
        (Given(X, tally=(0, 1)), (2, 1)),
        (Given(X, tally=(0, 0.5)), (3, 2)),
        (Given(G, of=OneHot(H), tally=(0, 1)), (2, 1)),
        (Bins(X, [0, 1, 2, 3, 4], missing=True), (2, 1)),
        (Bins(X, [0, 1, 2, 3, 4], widths=(2, 1), weights=(3, 1)), (8, 4)),
        (Bins(X, [0, 1, 2, 3, 4], widths=(2, 1), weights=(6, 4), missing=True), (10, 5)),
        (Stack(OneHot(G), OneHot(H), Given(X)), (5, 3)),
    ],
    ids=lambda value: value.describe() if isinstance(value, RowFeatures) else str(value),
)
def test_the_sensitivity_on_units_is_that_of_all_pairs_of_rows(features, exact, neighbors):
    """In whole units the sum moves by what is charged and no more, and by that on some pair of rows."""
    table = Table(None, Schema(("x", "g", "h"), {"x": X, "g": G, "h": H}, neighbors, None))
    query = Query.read(features)
    grid = unit_grid(table, query, grid_for(table, query, 1, Fraction(1)))

    assert math.ldexp(1.0, -grid.k) == features.unit
    assert exact[RELATIONS.index(neighbors)] == grid.steps == apart(features, neighbors, grid.k)


# ---- what somebody else claims ---------------------------------------------------------------------------


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


def rows_of(features, numbers):
    """The vectors of some rows, in units."""
    (batch, _), *_ = batches(adapt(pd.DataFrame({"x": numbers})), [number(X)], ())
    return enforced(features).steps(batch, 1 - math.frexp(features.unit)[1])


@pytest.mark.parametrize("unit", [1.0, 0.5, 2.0, 2.0**-20])
def test_a_false_claim_is_cut_to_whole_units_within_the_radius(unit):
    """Whatever rows are, what is summed is whole, no longer than the radius, and nowhere larger than it was."""

    def made(x):
        return np.column_stack([x * 1.7, -x / 3])

    steps = rows_of(Whole(X, unit, made), np.linspace(0, 4, 1001))
    for k in (3, 30):
        (batch, _), *_ = batches(adapt(pd.DataFrame({"x": np.linspace(0, 4, 1001)})), [number(X)], ())
        fine = enforced(Whole(X, unit, made)).steps(batch, k)
        assert (np.rint(steps * unit * 2**k) == fine).all()

    assert (steps == np.rint(steps)).all()
    assert np.abs(steps).sum(axis=1).max() * unit <= 4
    assert (np.square(steps * unit).sum(axis=1) <= 10 * (1 + 1e-12)).all()
    assert (np.abs(steps) * unit <= np.abs(made(np.linspace(0, 4, 1001))) * (1 + 1e-12)).all()


def test_a_true_claim_loses_nothing():
    """Rows of whole units are what they were, also those of just the radius, whatever last bits a root has."""
    rows = np.array([[3.0, 1.0], [1.0, 3.0], [-3.0, 1.0], [0.0, 0.0], [2.0, -2.0]])

    assert (rows == rows_of(Whole(X, 1.0, lambda x: rows[x.astype(int)]), [0.0, 1.0, 2.0, 3.0, 4.0])).all()


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_cutting_is_charged_beside_a_stated_diameter(norm):
    """Rows that are not what they claim stay within what is charged, whatever diameter was proved."""

    def made(x):
        return np.column_stack([0.9 + x / 2, 0.9 + x / 2]) / (1 if norm == math.inf else 2)

    features = Proved(X, 1.0, made)
    steps = rows_of(features, np.linspace(0, 4, 1001))
    moved = max(np.linalg.norm(steps - one, ord=norm, axis=1).max() for one in np.unique(steps, axis=0))
    taken = enforced(features)

    assert 2.0 < taken.diameter(norm, frozenset()) <= 2 * features.radius(norm)
    assert moved <= taken.diameter(norm, frozenset())
    assert taken.diameter(norm, frozenset("x")) == 0.0
    assert enforced(Proved(X, None, made)).diameter(norm, frozenset()) == 2.0


@pytest.mark.parametrize("unit", [0, -1.0, 3.0, math.nan, math.inf, "1", 0.1])
def test_a_unit_that_is_none_is_refused(unit):
    """A unit is a power of two; anything else is refused before a row is read or anything charged."""
    asked = view()
    with (
        registered(summed(lambda column: Whole(column, unit, lambda x: x), grid="unit")),
        pytest.raises(dp.PluginError, match="unit"),
    ):
        asked.mine("x", epsilon=1)

    assert asked.budget.spent == 0


def test_a_unit_of_an_object_of_the_house_is_not_believed():
    """Whoever writes a unit on bundled features changes nothing."""
    moments = Moments(X)
    with pytest.raises(dp.PluginError, match="is fixed"):
        moments.unit = 1.0
    vars(moments)["unit"] = 1.0

    assert enforced(moments).unit is None


def test_the_noise_of_a_claim_is_on_its_units():
    """A claim of somebody else gets its grid, with noise of the whole sensitivity, whatever the rows are."""
    asked = view(neighbors="add_remove")
    with registered(summed(lambda column: Whole(column, 2.0, lambda x: np.column_stack([x, x])), grid="unit")):
        found = asked.mine("x", epsilon=4)

    assert (found.value["grid"], found.value["scale"]) == (-1, 1.0)
    assert all(each % 2 == 0 for each in found.value["values"])


# ---- on which grid ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("neighbors", "moved"), [("replace_one", 2), ("add_remove", 1)])
@pytest.mark.parametrize("epsilon", [0.01, 1, 3, 700])
def test_a_count_has_noise_on_whole_rows(neighbors, moved, epsilon):
    """Where it is asked for: its scale is the sensitivity over epsilon, the next float at most; else it is fine."""
    asked, found = view(neighbors=neighbors), {}
    for grid in ("unit", "fine"):
        with registered(summed(OneHot, grid=grid)):
            found[grid] = asked.mine("g", epsilon=epsilon, fresh=True).value

    assert found["unit"]["grid"] == 0
    assert moved / epsilon <= found["unit"]["scale"] <= math.nextafter(moved / epsilon, math.inf)
    assert all(each == round(each) for each in found["unit"]["values"])
    assert found["fine"]["scale"] * 2.0 ** found["fine"]["grid"] >= 2**15


def test_the_loss_on_units_is_exactly_the_price():
    """The charge of a count on whole rows is that of one step (two) at a scale of which it is at most epsilon."""
    for steps, epsilon in itertools.product((1, 2, 7), (Fraction(1, 3), Fraction(1), Fraction(20))):
        loss = Laplace(steps, laplace_scale(steps, epsilon), epsilon)

        assert Fraction(steps) / Fraction(loss.scale) <= epsilon


@pytest.mark.parametrize(
    ("terms", "whole"),
    [
        ({}, True),
        ({"delta": 1e-6, "accounting": "basic"}, True),
        ({"delta": 1e-6}, False),
        ({"delta": 1e-6, "accounting": "gdp"}, False),
        ({"delta": 1e-6, "accounting": "rdp"}, False),
    ],
)
def test_noise_is_fine_where_fine_noise_composes_better(terms, whole):
    """Noise on whole rows costs more than fine noise where epsilons do not add up, so it is not used there."""
    asked = view(**{"epsilon": 10, **terms})

    (noise,) = asked.value_counts("g", epsilon=1).privacy.noise

    assert whole == (noise.grid == 0)


def test_a_person_with_several_rows_moves_whole_rows():
    """With k rows a person, the sensitivity is k times as many whole rows."""
    frame = FRAME.assign(id=np.arange(400) // 4)
    asked = view(frame, unit="id", max_rows=3)

    (noise,) = asked.value_counts("g", epsilon=1).privacy.noise

    assert (noise.grid, noise.sensitivity) == (0, noise.scale)
    assert noise.scale in {3.0, 6.0}


def test_groups_have_the_noise_of_one_view():
    """By group, counts are whole, and of the same scale."""
    found = view(public=["h"]).group_by("h").value_counts("g", epsilon=1)

    each = [found[key] for key in "uvw"]
    assert {0} == {noise.grid for noise in found.privacy.noise}
    assert all((one.raw == np.rint(one.raw)).all() for one in each)


@pytest.mark.parametrize(
    ("features", "noise"),
    [(OneHot, "gaussian"), (OneHot, "cube"), (lambda column: Stack(OneHot(column), Moments(X)), "laplace")],
    ids=["gaussian", "cube", "no unit"],
)
def test_other_noise_and_features_stay_on_their_grid(features, noise):
    """Gaussian noise, that of the cube, and noise of features that have no unit, are as they are without asking."""
    asked, found = view(delta=1e-6, accounting="basic"), []
    for grid in ("unit", "fine"):
        with registered(summed(features, noise=noise, grid=grid)):
            found.append(asked.mine("g", epsilon=1, fresh=True, **({"delta": 1e-9} if noise == "gaussian" else {})))
    unit, fine = (each.value for each in found)

    assert (unit["grid"], unit["scale"]) == (fine["grid"], fine["scale"])
    assert unit["grid"] > 0


def test_a_secret_sample_has_noise_on_whole_rows():
    """Within a sample epsilons add up, and counts of it have noise on whole rows."""
    (noise,) = view().sample(0.5).value_counts("g", epsilon=1).privacy.noise

    assert noise.grid == 0
    assert noise.scale < 2


def test_what_cannot_be_asked_is_refused():
    """An unknown grid, and a mean of several on units, are refused before anything is charged."""
    asked = view()
    for how in ({"grid": "whole"}, {"grid": "unit", "pool": True}):
        with registered(summed(OneHot, **how)), pytest.raises(dp.DPError):
            asked.mine("g", epsilon=1)

    assert asked.budget.spent == 0


# ---- the law ---------------------------------------------------------------------------------------------


def reference(scale, step):
    """The law to 40 digits: probabilities by the distance from 0 in steps."""
    with mpmath.workdps(40):
        q = mpmath.exp(-mpmath.mpf(step) / mpmath.mpf(scale))
        far = [(1 - q) / (1 + q)]
        while len(far) < 3 or far[-1] > mpmath.mpf(10) ** -35:
            far.append(2 * (1 - q) / (1 + q) * q ** len(far))
        return far


@pytest.mark.parametrize("scale", [0.02, 0.05, 0.2, 0.5, 1.0, 2.0, 2 / 3, 10.0])
@pytest.mark.parametrize("step", [1.0, 0.25])
def test_the_variance_is_that_of_the_probabilities(scale, step):
    """Summed up in 40 digits."""
    with mpmath.workdps(40):
        exact = float(sum(p * (m * step) ** 2 for m, p in enumerate(reference(scale, step))))

    assert exact == pytest.approx(NoiseLaw(scale, step).variance, rel=1e-13)


@pytest.mark.parametrize("scale", [0.05, 0.2, 0.5, 1.0, 2 / 3, 10.0])
@pytest.mark.parametrize("confidence", [0.0, 0.5, 0.9, 0.95, 0.99, 1 - 1e-9])
def test_the_reach_is_the_least_that_covers(scale, confidence):
    """The probabilities up to it are the confidence at least, and without its ends less."""
    far, reach = reference(scale, 1.0), NoiseLaw(scale, 1.0).reach(confidence)

    assert float(sum(far[: int(reach) + 1])) >= confidence
    assert reach == 0 or float(sum(far[: int(reach)])) < confidence


def test_a_fine_step_has_the_law_of_laplace():
    """Its variance and reach go to those of continuous noise, and are never above by more than a step."""
    for step in (0.0, 2.0**-40, 2.0**-30, 2.0**-20):
        law = NoiseLaw(3.0, step)

        assert law.variance == pytest.approx(18.0, rel=1e-12 + step)
        assert law.reach(0.95) == pytest.approx(-3 * math.log(0.05), abs=step + 1e-10)
    assert (NoiseLaw(0.0).variance, NoiseLaw(0.0).reach(0.95)) == (0.0, 0.0)


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 2.0])
def test_the_sampler_follows_the_law_on_units(scale):
    """OpenDP's noise of so small a scale is what its probabilities say."""
    assert goodness_of_fit(OpenDPSampler(), "laplace", scale) > 1e-7


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [1, 5, 20])
def test_outputs_have_the_exact_distribution(epsilon):
    """The noisy counts of 4,000 categories less the exact ones, mostly 0, have the law that is said."""
    names = list(range(4000))
    frame = pd.DataFrame({"c": [0, 0, 1, 5]})
    asked = view(frame, bounds=None, categories={"c": names}, neighbors="add_remove")
    with seeded_noise(20_261_101 + epsilon):
        found = asked.value_counts("c", sort=False, epsilon=epsilon)
    far = np.abs(found.raw - np.bincount(frame["c"], minlength=4000)).astype(int)
    law = [float(p) for p in reference(1 / epsilon, 1.0)]

    for m in range(4):
        p = law[m]
        assert abs((far == m).mean() - p) <= 5.5 * math.sqrt(max(p * (1 - p), 1 / 4000) / 4000)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 5])
def test_counts_are_as_accurate_as_geometric_noise(epsilon):
    """Where rows come and go, the variance is that of the geometric mechanism, which peers add to counts."""
    asked, q = view(neighbors="add_remove"), math.exp(-epsilon)
    geometric = 2 * q / (1 - q) ** 2
    found = [
        asked.count(epsilon=epsilon).noise_standard_error,
        asked.value_counts("g", epsilon=epsilon).noise_standard_error,
        asked.crosstab("g", "h", epsilon=epsilon).noise_standard_error,
        asked.histogram("x", 4, epsilon=epsilon).noise_standard_error,
    ]

    assert all(error**2 <= geometric * (1 + 1e-12) for error in found)


@pytest.mark.statistical
@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("epsilon", [1, 5, 20])
def test_intervals_of_counts_cover_where_noise_is_on_few_numbers(epsilon, neighbors):
    """95 % intervals hold the exact counts that often at least, and as often as the law says."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"c": rng.integers(0, 200, 20_000)})
    asked = view(frame, bounds=None, categories={"c": list(range(200))}, neighbors=neighbors)
    truth, inside = np.bincount(frame["c"], minlength=200), 0
    with seeded_noise(20_261_102):
        for _ in range(20):
            found = asked.value_counts("c", sort=False, epsilon=epsilon, fresh=True)
            low, high = found.intervals
            inside += int(((low <= truth) & (truth <= high)).sum())
    law = reference((2 if neighbors == "replace_one" else 1) / epsilon, 1.0)
    exact = float(sum(law[: int(found.reach) + 1]))

    assert exact >= 0.95
    assert abs(inside / 4000 - exact) <= 5.5 * math.sqrt(max(exact * (1 - exact), 1 / 4000) / 4000)


# ---- what is kept ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "free"),
    [
        (("fine", 2), ("unit", 1), True),
        (("fine", 1), ("unit", 1), False),
        (("fine", 1.05), ("unit", 1), True),
        (("fine", 1.005), ("unit", 1), False),
        (("unit", 1), ("unit", 1), True),
        (("unit", 2), ("unit", 1), True),
        (("unit", 1), ("unit", 2), False),
        (("unit", 2), ("fine", 1), False),
        (("fine", 1), ("fine", 1), True),
    ],
)
def test_what_is_taken_is_as_accurate_and_no_coarser(first, second, free):
    """Between grids the variances decide; who counts on fine noise is never given coarser noise."""
    asked, spent = view(), []
    for grid, epsilon in (first, second):
        with registered(summed(OneHot, grid=grid)):
            asked.mine("g", epsilon=epsilon)
        spent.append(float(asked.budget.spent))

    assert [first[1], first[1] + (0 if free else second[1])] == pytest.approx(spent)


def test_tests_find_what_tables_have_measured():
    """The chi-squared test of a crosstab is on the same counts, and costs nothing."""
    asked = view()
    asked.crosstab("g", "h", epsilon=1)
    found = asked.chi2("g", "h", method="table", epsilon=1)

    assert found.privacy.epsilon == 0
    assert found.privacy.noise[0].grid == 0


def test_a_difference_of_counts_has_an_interval_of_whole_rows():
    """Noise on whole rows is drawn again on whole rows."""
    parts = view(neighbors="add_remove").where(g="a"), view(neighbors="add_remove").where(g="b")
    with seeded_noise(20_261_103):
        found = dp.combine(lambda a, b: float(a) - float(b), *(part.count(epsilon=1) for part in parts))

    assert found.low < found.high
    assert all(each == round(each) for each in (found.low, found.high, found.estimate))
