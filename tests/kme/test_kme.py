"""``view.kme_release`` and ``view.kme_exponential`` through the whole house: what they say is true."""

from __future__ import annotations

import itertools
import math
import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import log_ndtr, ndtr

import dfprivacy as dp
from dfprivacy.features import ProductKernel
from dfprivacy.statistics import gaussian_scale
from dfprivacy.testing import seeded_noise
from dfprivacy_kme.embedding import Space
from dfprivacy_kme.mechanisms import classical_scale, classical_share

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from expansion import Expansion

NAMES = (f"kme {number}" for number in itertools.count())
ROWS = 20_000
rng = np.random.default_rng(7)
X = np.clip(rng.normal(100, 15, ROWS), 0, 200)
Y = np.clip(0.5 * X + rng.normal(50, 8, ROWS), 0, 200)
GROUP = np.where(X + rng.normal(0, 10, ROWS) > 100, "b", "a")
TABLE = {"x": X, "y": Y, "g": GROUP}
FEW = {name: values[:500] for name, values in TABLE.items()}
PUBLIC = {"x": X[:300].tolist(), "y": Y[:300].tolist()}  # as if these rows had been published
PRICE = {"epsilon": 1, "delta": 1e-6}
UNIT = {"bounds": {"x": (0, 1), "y": (0, 1)}, "categories": {}}


def protect(table=TABLE, engine=pd.DataFrame, **terms):
    known = {"bounds": {"x": (0, 200), "y": (0, 200)}, "categories": {"g": ["a", "b"]}}
    account = {"epsilon": 10**5, "delta": 1e-1, "accounting": "basic", "ledger": "memory:"}
    return dp.protect(engine(table), next(NAMES), **{**account, **known, **terms})


def released(columns=("x", "y"), *, seed=1, table=TABLE, **asked):
    with seeded_noise(seed):
        return protect(table).kme_release(list(columns), **{**PRICE, **asked})


@pytest.fixture(scope="module")
def found():
    return released()


@pytest.fixture(autouse=True)
def noise():
    """Noise from a seed, so that every run is the same."""
    with seeded_noise(1):
        yield


def of_x(rows):
    return rows["x"]


# The points


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({}, 2e-3),
        ({"features": "subspace"}, 2e-3),
        ({"features": "fourier"}, 3e-3),
        ({"features": "subspace", "represent": "weights"}, 4e-3),
        ({"features": "subspace", "represent": "l1"}, 2e-3),
        ({"points": PUBLIC, "represent": "bayes"}, 1e-3),
        ({"points": PUBLIC}, 2e-3),
    ],
)
def test_the_points_are_close_to_the_rows(asked, most):
    """In the kernel's space, by an exact basis, each feature map and each fit is as close as its noise allows."""
    release = released(gamma=5e-5, **asked)  # a lengthscale of 100
    basis = Expansion(ProductKernel([dp.Column(name, bounds=(0.0, 200.0)) for name in "xy"], 100.0), 20)
    alpha = basis.features(np.column_stack([X, Y])).mean(axis=0)

    assert np.linalg.norm(release.weights @ basis.features(release.locations) - alpha) < most
    if asked.get("represent") == "l1":
        assert np.abs(release.weights).sum() <= 1 + 1e-9
        assert release.support < 60


def test_what_the_points_say(found):
    """Moments, samples, marginals and conditionals are those of the rows; a density is the mean of the kernel."""
    kernel = ProductKernel([dp.Column(name, bounds=(0.0, 200.0)) for name in "xy"], 100.0)
    at = {"x": [110.0], "y": [90.0]}
    sample = pd.DataFrame(found.sample(4000, seed=1))
    old, cut = found.conditional({"x": (115, 200)}), sample[(sample.x >= 115)]

    assert found.mean() == pytest.approx({"x": X.mean(), "y": Y.mean()}, abs=0.5)
    assert np.cov(X, Y).ravel().tolist() == pytest.approx(found.cov().ravel().tolist(), rel=0.15)
    assert (len(sample), [*sample.columns]) == (4000, ["x", "y"])
    assert sample.mean().tolist() == pytest.approx([X.mean(), Y.mean()], abs=1)
    assert found.marginal(["y"]).mean() == pytest.approx({"y": found.mean()["y"]})
    assert old.mean()["y"] == pytest.approx(cut.y.mean(), abs=1)
    assert (old.notes, old.weights.sum()) == ((), pytest.approx(1))
    exact = float(kernel(np.array([[110.0, 90.0]]), np.column_stack([X, Y])).mean())
    assert found.evaluate(at)[0] == pytest.approx(exact, abs=2e-3)
    assert found.deviation(at)[0] <= math.sqrt(2) * found.noise_standard_error


def test_numbers_with_categories():
    """Categories are published with the numbers: shares, and what goes with each."""
    found = released(categories=["g"], epsilon=5)
    points = pd.DataFrame(found.points)
    sample = pd.DataFrame(found.sample(20_000, seed=0))
    in_b, in_a = (found.conditional({"g": group}).mean() for group in "ba")

    assert list(points.columns) == ["x", "y", "g", "weight"]
    assert points.groupby("g")["weight"].sum()["b"] == pytest.approx((GROUP == "b").mean(), abs=0.1)
    assert in_b["x"] > in_a["x"] + 3
    assert in_b["x"] == pytest.approx(sample[sample.g == "b"].x.mean(), abs=0.5)


def test_public_points_of_any_library():
    """As a frame of any library they are those of the same lists; a point that is there twice spans no more."""
    points = {"x": [50.0, 50.0, 100.0, 150.0], "y": [100, 100, 120, 110], "g": [*"aaba"], "more": [1] * 4}
    plain, *framed = (
        released(points=frame(points), categories=["g"], features="subspace", table=FEW)
        for frame in (dict, pd.DataFrame, pl.LazyFrame, pa.table)
    )

    assert framed == [plain] * 3
    assert plain.dimension == 3


def test_many_columns():
    """Eight columns are released, and the locations are refined beyond the grid."""
    columns = {f"c{at}": np.linspace(40, 60, 500) for at in range(8)}
    view = protect(columns, bounds=dict.fromkeys(columns, (0, 100)), categories={})
    found = view.kme_release([*columns], n_points=64, **PRICE)

    assert found.weights.sum() == pytest.approx(1)
    assert (found.weights >= 0).all()
    assert found.mean().intervals["c0"].low <= 50 <= found.mean().intervals["c0"].high


@pytest.mark.parametrize(
    ("engine", "kind"), [(pd.DataFrame, pd.DataFrame), (pl.DataFrame, pl.DataFrame), (pa.table, pa.Table)]
)
def test_tables_are_the_callers(engine, kind):
    """Points, samples and those of marginals are tables of the library that holds the rows, replayed ones too."""
    view = protect({"weight": X, "y": Y}, engine, bounds={"weight": (0, 200), "y": (0, 200)}, categories={})
    first, again = (view.kme_release(["weight", "y"], n_points=16, **PRICE) for _ in range(2))

    assert again.privacy.replayed
    for release in (first, again, again.marginal(["weight"]), again.conditional({"y": (50, 150)})):
        assert isinstance(release.points, kind)
        assert isinstance(release.sample(3), kind)
    names = first.points.column_names if kind is pa.Table else [*first.points.columns]
    assert names == ["weight", "y", "weight_"]  # for a column has the name of the weights


# Noise


def test_the_noise_is_what_is_said(found):
    """It is the scale of the mechanism for what a row moves at most, over the number of rows."""
    (noise,) = found.privacy.noise
    (filled,) = released(nan_policy="fill").privacy.noise
    pure = released(delta=0, n_points=16, epsilon=5)
    wide = released(["x"], lengthscale=1e8, epsilon=0.1)  # just below the widest kernel that is let through

    assert noise.scale / found.size == pytest.approx(found.noise_standard_error)
    assert noise.scale == found.missing_standard_error
    assert noise.sensitivity == pytest.approx(math.sqrt(2), rel=1e-3)  # a row that vanishes, and is not counted
    assert filled.sensitivity == pytest.approx(math.sqrt(2 - 2 * math.exp(-4.0)), rel=1e-3)
    assert (pure.noise_kind, pure.privacy.noise[0].kind) == ("laplace", "discrete Laplace")
    assert math.sqrt(2) * pure.privacy.noise[0].scale / pure.size == pytest.approx(pure.noise_standard_error)
    assert wide.noise_standard_error >= 200 / 1e8 / 0.1 / ROWS


def delta_of(scale, epsilon):
    """The least delta of Gaussian noise of this standard deviation, for a sensitivity of 1, in closed form."""
    near, far = 1 / (2 * scale) - epsilon * scale, -1 / (2 * scale) - epsilon * scale
    return float(ndtr(near) - np.exp(epsilon + log_ndtr(far)))


def test_the_papers_calibration():
    """It is private enough at 1, and fails above; so much noise, at its part of the price, is just private."""
    assert classical_scale(1, 1e-6) == pytest.approx(5.298802527, rel=1e-9)
    for epsilon, delta, costs in ((1, 1e-6, 3.2e-9), (10, 1e-6, 1.9e-6), (8, 0.1, 0.236)):
        assert delta_of(classical_scale(epsilon, delta), epsilon) == pytest.approx(costs, rel=0.05)
    for sensitivity in (0.3, 1.4, 2.0):
        part = classical_share(0.7, 1e-5, sensitivity)
        noise = sensitivity * gaussian_scale(0.7 * part, 1e-5 * part)
        assert noise == pytest.approx(2 * classical_scale(0.7, 1e-5))


@pytest.mark.parametrize("epsilon", [0.01, 1])
@pytest.mark.parametrize("policy", ["omit", "fill"])
def test_the_papers_noise_is_added_and_charged_as_what_it_costs(epsilon, policy):
    """Its standard deviation is that of line 7, and the price of so much noise is below the paper's."""
    asked = {"features": "subspace", "n_points": 9, "calibration": "classical", "nan_policy": policy}
    found = released(epsilon=epsilon, **asked)
    printed = math.sqrt(8 * math.log(1.25e6)) / (ROWS * epsilon)

    assert found.noise_standard_error * found.size / ROWS == pytest.approx(printed, rel=1e-4)
    assert found.privacy.epsilon < 0.6 * epsilon


@pytest.mark.statistical
def test_noise_intervals_and_level(monkeypatch):
    """The noise is chi-squared, 95% intervals cover, and a test rejects 5 % of one population."""
    monkeypatch.setattr("dfprivacy_kme.release._DRAWS", 99)  # the level is exact with 19, 39, 59, ...
    draws = np.random.default_rng(3)
    gaps = np.where(draws.random(500) < 0.5, np.nan, draws.uniform(120, 200, 500))
    view = protect({**FEW, "gaps": gaps}, bounds=dict.fromkeys(["x", "y", "gaps"], (0, 200)))
    asked = {"n_points": 16, "represent": "weights", "lengthscale": 100, "epsilon": 0.1, "delta": 1e-6}

    def releases(count, columns, **asked):
        for seed in range(count):
            with seeded_noise(seed):
                yield view.kme_release(columns, **asked, fresh=True)

    def covering(releases, f, truth):
        intervals = [release.expectation(f) for release in releases]
        return sum(interval.low <= truth <= interval.high for interval in intervals)

    many, pure = (
        [*releases(count, ["x", "y"], **{**asked, **price})]
        for count, price in ((100, {}), (40, {"epsilon": 60, "delta": 0}))
    )
    partly = releases(40, ["gaps"], n_points=8, epsilon=2, delta=1e-6)
    alpha = Space.from_json(many[0].space).features(np.column_stack([FEW["x"], FEW["y"]])).mean(axis=0)
    raw = [float(np.sum((each.beta - alpha) ** 2)) / each.noise_standard_error**2 for each in many]
    rejected = [each.two_sample({"x": X[seed::100], "y": Y[seed::100]}).rejected for seed, each in enumerate(many)]

    assert np.mean(raw) == pytest.approx(len(alpha), abs=5 * math.sqrt(2 * len(alpha) / 100))
    assert sum(rejected) <= 17  # more with a probability below 1e-5, at the exact level
    for f in (of_x, lambda rows: np.cos(rows["x"] / 60)):
        assert covering(many, f, f(FEW).mean()) >= 83  # of 100 at 0.95 each: fewer with a probability below 1e-6
    assert covering(pure, of_x, FEW["x"].mean()) >= 29  # of 40
    assert covering(partly, lambda rows: rows["gaps"], np.nanmean(gaps)) >= 29
    assert pure[0].expectation(of_x).estimable


# Expectations


def test_means_say_how_well_they_are_known(found):
    """Each mean has the interval of its expectation, which widens with the confidence asked for."""
    means, surer, alone = found.mean(), found.mean(confidence=0.999), found.expectation(of_x)
    lost = released(epsilon=1e-4, n_points=32).mean()
    x, sure = means.intervals["x"], surer.intervals["x"]

    assert (x.value, x.low, x.high) == pytest.approx((alone.value, alone.low, alone.high), rel=1e-9)
    assert sure.low < x.low <= means["x"] <= x.high < sure.high
    assert repr(means).startswith(f"{{'x': {means['x']:.5g} (")
    assert pickle.loads(pickle.dumps(means)).intervals == means.intervals  # noqa: S301 - its own
    assert not lost.intervals["x"].estimable
    assert "uninformative" in repr(lost)


def test_what_can_be_told_of_functions(found):
    """A constant is known, and the share above a threshold is not told by a smooth embedding."""
    share = found.expectation(lambda rows: rows["x"] > 100)

    assert tuple(found.expectation(lambda rows: np.full(len(rows["x"]), 3.0))) == pytest.approx((3, 3, 3, True))
    assert not share.estimable
    assert 0 <= share.low <= (X > 100).mean() <= share.high <= 1
    assert dp.Release.from_json(found.to_json()).expectation(of_x) == found.expectation(of_x)


@pytest.mark.statistical
def test_bounds_many_lengthscales_wide():
    """The points fit as well as noise allows, and intervals cover functions as narrow as the kernel."""
    draws = np.random.default_rng(3)
    centres = draws.uniform(-1, 1, (5, 2))
    x, y = (centres[draws.integers(5, size=50_000)] + draws.normal(0, 0.2, (50_000, 2))).T
    rows = {"x": x, "y": y}
    view = protect(rows, bounds=dict.fromkeys(rows, (-7, 7)), categories=None)
    found = view.kme_release(["x", "y"], lengthscale=1, nan_policy="fill", **PRICE)

    assert found.objective < 1.5 * found.noise_standard_error**2 * found.dimension
    assert not found.notes
    for at in draws.uniform(-1.5, 1.5, (20, 2)):

        def near(r, at=at):
            return np.exp(-((r["x"] - at[0]) ** 2 + (r["y"] - at[1]) ** 2) / 2)

        interval = found.expectation(near)
        assert interval.low <= near(rows).mean() <= interval.high


def test_an_embedding_of_a_function_of_x():
    """The embedding of f(X) by f of the points is close to that of f of the rows, and costs nothing."""
    view = protect()
    found = view.kme_release(["x", "y"], epsilon=5, delta=1e-6, represent="l1")
    asked = {"features": "subspace", "n_points": 64, "represent": "weights", "lengthscale": 20.0}
    loose = view.kme_release(["x"], epsilon=0.05, delta=1e-6, **asked)
    spent, at = view.budget.spent, np.linspace(0, 400, 21)
    squares = found.transform(lambda rows: {"z": rows["x"] ** 2 / 100}, lengthscale=160.0)
    kernel = np.exp(-((at[:, None] - X**2 / 100) ** 2) / (2 * 160.0**2)).mean(axis=1)

    assert view.budget.spent == spent
    assert np.abs(squares.evaluate({"z": at}) - kernel).max() < 0.01
    assert found.transform(lambda rows: rows["x"] * 0).locations.ravel().tolist() == [0.0] * found.support
    assert dp.Release.from_dict(squares.to_dict()) == squares
    assert "absolute weights" in loose.transform(of_x).notes[0]
    for f in (lambda rows: rows["x"][:-1], lambda rows: np.log(rows["x"] * 0 - 1), lambda rows: {}):
        with np.errstate(invalid="ignore"), pytest.raises(dp.ArgumentError):
            found.transform(f)


# Two samples


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"features": "subspace"},
        {"features": "subspace", "n_points": 256},
        {"features": "fourier", "n_points": 40},
        {"features": "subspace", "points": {"x": [0.1, 0.5, 0.9, 0.1], "y": [0.2, 0.5, 0.4, 0.9]}},
    ],
    ids=["default", "subspace", "many points", "waves", "points"],
)
def test_releases_of_other_sizes_are_compared(asked, monkeypatch):
    """Two paid releases of one kernel are compared, whatever their sizes and prices; a shift is found."""
    monkeypatch.setattr("dfprivacy_kme.release._DRAWS", 999)
    draws = np.random.default_rng(4)

    def release(table, epsilon=1):
        return protect(table, **UNIT).kme_release(["x", "y"], epsilon=epsilon, delta=1e-6, **asked)

    one = release({name: draws.random(2000) for name in "xy"})
    for rows, epsilon in ((300, 1), (20_000, 1), (2000, 20)):
        table = {name: draws.random(rows) for name in "xy"}
        other, far = (release({**table, "x": table["x"] / by}, epsilon) for by in (1, 4))

        same, differ = one.two_sample(other), one.two_sample(far, alpha=0.01)
        assert same.pvalue > 1e-3
        assert (same.alpha, same.rejected) == (0.05, same.pvalue <= 0.05)
        assert differ.rejected
        assert one.mmd(other) == pytest.approx(other.mmd(one))
        assert abs(one.mmd(other)) < 0.1


@pytest.mark.parametrize(("rows", "noted"), [(60, True), (600, False)])
def test_a_small_pvalue_of_a_small_sample_is_noted(rows, noted):
    """A few unlike rows in a sample of a tenth and less of the other are not trusted below 1%."""
    view = protect({"x": np.repeat([0.0, 1.0], [1960, 40])}, bounds={"x": (0, 1)}, categories={})
    release = view.kme_release(["x"], epsilon=20, delta=1e-6)
    unlike, alike = (release.two_sample({"x": np.arange(rows) < share * rows}) for share in (0.2, 0.02))

    assert unlike.pvalue < 0.01 < alike.pvalue
    assert any("rare values" in note for note in unlike.notes) == noted
    assert alike.notes == ()


@pytest.mark.statistical
def test_a_few_public_rows_are_not_always_another_population(found, monkeypatch):
    """Rows of the same population are told apart as seldom as is said, be it forty of a rare category."""
    monkeypatch.setattr("dfprivacy_kme.release._DRAWS", 999)
    draws, pvalues = np.random.default_rng(6), []
    for _ in range(60):
        view = protect({"x": draws.random(2000) < 0.02}, bounds={"x": (0, 1)}, categories={})
        release = view.kme_release(["x"], n_points=8, epsilon=20, delta=1e-6)
        pvalues.append(release.two_sample({"x": (draws.random(40) < 0.02).astype(float)}).pvalue)
    alike, shifted = ({"x": X[:1000] + by, "y": Y[:1000]} for by in (0, 5))

    assert sum(p <= 0.05 for p in pvalues) <= 14  # of 60 at 0.05: more with a probability below 1e-6
    assert sum(p <= 0.001 for p in pvalues) <= 3  # of 60 at 0.001: more with a probability below 1e-6
    assert found.two_sample(shifted).pvalue < 0.01 < found.two_sample(alike).pvalue
    assert abs(found.mmd(alike)) < 1e-3
    assert found.mmd({"x": X[:1000] - 20, "y": Y[:1000]}) > 0.01


# Missing values


def test_rows_with_a_missing_value_are_left_out():
    """The mean is that of complete rows, and the release says how many were left out; filled, it is another."""
    x, y, gaps = np.random.default_rng(1).uniform(size=(3, ROWS)) * [[0.4], [1], [1]]
    gone, exact = gaps < 0.3, x[gaps >= 0.3].mean()
    table = {"x": np.where(gone, np.nan, x), "y": y}
    view, public = protect(table, **UNIT), protect(table, public=["x", "y"], **UNIT)
    omitted, filled = (view.kme_release(["x", "y"], nan_policy=policy, **PRICE) for policy in ("omit", "fill"))
    known = public.kme_release(["x", "y"], **PRICE)

    assert abs(omitted.missing - gone.sum()) < 6 * omitted.missing_standard_error < 100
    assert omitted.size == ROWS - omitted.missing
    assert abs(omitted.mean()["x"] - exact) < 0.01
    assert filled.missing is None
    assert abs(filled.mean()["x"] - (0.7 * exact + 0.3 * 0.5)) < 0.02
    assert (known.size, known.missing, known.missing_standard_error) == (ROWS - gone.sum(), gone.sum(), 0)
    with pytest.raises(dp.ArgumentError, match="A value is missing"):
        public.kme_release(["x", "y"], nan_policy="raise", **PRICE)


# The exponential mechanism


def test_the_closest_table_is_chosen():
    """Of a table that is one of the synthetic ones, many times over, that one; with or without gaps, or a size."""
    table = {"x": [10.0, 50.0, 50.0] * 3000 + [math.nan] * 1000}
    for terms in ({}, {"neighbors": "add_remove"}):
        view = protect(table, bounds={"x": (0, 100)}, categories={}, **terms)
        found = view.kme_exponential(["x"], points={"x": [10.0, 30.0, 50.0, 90.0]}, n_rows=3, epsilon=1)

        assert found.locations.ravel().tolist() == [10.0, 50.0]
        assert found.weights == pytest.approx([1 / 3, 2 / 3])
        assert found.privacy.delta == 0


# What is said, and what is refused


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"table": {name: values[:3] for name, values in TABLE.items()}}, ["is unreliable", "are few"]),
        ({"points": {"x": [100.0], "y": [100.0]}}, ["has only 1 features"]),
        ({"lengthscale": 5.0, "n_points": 64}, ["a larger lengthscale or more points"]),
        ({"lengthscale": 1.0, "n_points": 8}, ["lengthscales wide"]),
    ],
    ids=["three rows", "one point", "narrow kernel", "far wider bounds"],
)
def test_what_tells_little_says_so(asked, said):
    """Hardly any rows, few points, and kernels too narrow for the bounds."""
    notes = released(**asked).notes

    assert all(any(each in note for note in notes) for each in said)


TWICE = pa.Table.from_arrays([pa.array([50.0]), pa.array([60.0])], names=["x", "x"])
NARROW = {"lengthscale": 1e12}
REFUSED = [
    *(({"lengthscale": each}, "is not above 0") for each in (0, -1.0)),
    ({"gamma": 0}, "is not above 0"),
    ({"gamma": 1e-4, "lengthscale": 3.0}, "gamma"),
    (NARROW, "hardly tells rows apart"),
    (NARROW | {"features": "fourier"}, "hardly tells rows apart"),
    *(({"features": each}, "features=") for each in ("haar", "taylor")),
    ({"represent": "nearest"}, "represent="),
    ({"represent": "bayes"}, "bayes"),
    ({"features": "fourier", "represent": "weights"}, "weights"),
    ({"features": "fourier", "categories": ["g"]}, "fourier"),
    ({"calibration": "classic"}, "calibration="),
    *(({"calibration": "classical", **each}, "classical") for each in ({"epsilon": 1.5}, {"delta": 0})),
    *(({"n_points": each}, "n_points=") for each in (0, 10**6)),
    *(({"points": each}, "points") for each in ({"x": [1.0]}, {"x": [], "y": []})),
    *(({"points": {"x": [each], "y": [1.0]}}, "points|bounds") for each in (300.0, math.nan)),
    ({"points": PUBLIC, "n_points": 8}, "points"),
    *(({"points": each}, "names a column twice") for each in (TWICE, TWICE.to_pandas())),
    ({"mismatch": 1.0, "categories": ["g"]}, "mismatch"),
    ({"nan_policy": "raise"}, "nan_policy='raise' would reveal"),
]


def test_what_cannot_be_asked_costs_nothing():
    """Each is refused before any charge."""
    frame = pd.DataFrame(FEW)
    view = protect(frame, lambda table: table)
    for asked, said in [*REFUSED, ({"points": frame}, "a protected table as an argument")]:
        with pytest.raises(dp.ArgumentError, match=said):
            view.kme_release(["x", "y"], **{**PRICE, **asked})
    for asked, said in (
        ({"n_points": 168, "n_rows": 4}, "tables of 4 rows"),
        ({"n_points": 5, "points": PUBLIC}, "points"),
    ):
        with pytest.raises(dp.ArgumentError, match=said):
            view.kme_exponential(["x", "y"], epsilon=1, **asked)
    assert view.budget.spent == 0


def test_misuse_of_a_release(found):
    """What a release cannot tell is refused; other feature maps are not compared."""
    signed = released(features="subspace", represent="weights", table=FEW)
    for ask in (
        lambda: signed.sample(3),
        signed.mean,
        lambda: found.marginal(["y"]).two_sample({"y": [1.0]}),
        lambda: found.two_sample(found.marginal(["y"])),
        lambda: found.mmd(released(lengthscale=50)),
        lambda: found.marginal(["z"]),
        *(
            lambda given=given: found.conditional(given)
            for given in ({"x": (0, 200), "y": (0, 200)}, {"x": 140}, {"x": (199.99, 200)})
        ),
        lambda: found.sample(0),
        lambda: found.expectation(lambda rows: 1.0),
        lambda: found.expectation(of_x, confidence=1),
        lambda: found.mean(confidence=1),
        *(lambda at=at: found.evaluate(at) for at in ([1.0], {"x": ["one"], "y": [1.0]})),
    ):
        with pytest.raises(dp.DPError):
            ask()
    others = [
        released(table=FEW, features=kind, **asked)
        for kind, asked in (
            ("subspace", {"n_points": 16, "lengthscale": 0.3}),
            ("subspace", {"points": {"x": [20, 80], "y": [30, 40]}}),
            ("fourier", {"n_points": 8}),
            ("fourier", {"n_points": 9}),
        )
    ]
    for one, other in itertools.combinations(others, 2):
        with pytest.raises(dp.ArgumentError, match="different feature maps"):
            one.two_sample(other)
