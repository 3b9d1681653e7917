"""``view.kme_release`` through the whole house."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import itertools
import json
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy.features import ProductKernel
from dfprivacy.testing import seeded_noise
from dfprivacy_kme.embedding import Space

NAMES = (f"kme-{number}" for number in itertools.count())
ROWS = 20_000
rng = np.random.default_rng(7)
X = np.clip(rng.normal(100, 15, ROWS), 0, 200)
Y = np.clip(0.5 * X + rng.normal(50, 8, ROWS), 0, 200)
GROUP = np.where(X + rng.normal(0, 10, ROWS) > 100, "b", "a")
TABLE = {"x": X, "y": Y, "g": GROUP}
TERMS = {"bounds": {"x": (0, 200), "y": (0, 200)}, "categories": {"g": ["a", "b"]}}
PUBLIC = {"x": X[:300].tolist(), "y": Y[:300].tolist()}  # as if these rows had been published


def protect(table=TABLE, engine=pd.DataFrame, **terms):
    terms = {"epsilon": 100, "delta": 1e-2, "ledger": "memory:", **TERMS, **terms}
    return dp.protect(engine(table), next(NAMES), **terms)


def released(columns=("x", "y"), *, seed=1, table=TABLE, engine=pd.DataFrame, **asked):
    with seeded_noise(seed):
        return protect(table, engine).kme_release(list(columns), **{"epsilon": 1, "delta": 1e-6, **asked})


@pytest.fixture(scope="module")
def found():
    return released()


def distance(release, expansion):
    """Distance of the points from the rows in the kernel's space, in an exact basis."""
    columns = [dp.Column(name, bounds=(0.0, 200.0)) for name in "xy"]
    basis = expansion(ProductKernel(columns, 100.0), 20)
    alpha = basis.features(np.column_stack([X, Y])).mean(axis=0)
    return float(np.linalg.norm(release.weights @ basis.features(release.locations) - alpha))


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({}, 1e-3),
        ({"features": "subspace"}, 1e-3),
        ({"features": "fourier"}, 3e-3),
        ({"features": "subspace", "represent": "weights"}, 4e-3),
        ({"features": "subspace", "represent": "l1"}, 2e-3),
        ({"points": PUBLIC, "represent": "bayes"}, 1e-3),
        ({"points": PUBLIC}, 1e-3),
    ],
)
def test_the_points_are_close_to_the_rows(expansion, asked, most):
    """Each feature map and each fit is as close as its noise allows."""
    assert distance(released(lengthscale=100, **asked), expansion) < most


def test_gamma_is_a_lengthscale():
    """The kernel's width can be said in either way."""
    assert released(gamma=5e-5) == released(lengthscale=100.0)


@pytest.mark.parametrize("engine", [pl.DataFrame, pl.LazyFrame])
def test_the_engine_does_not_matter(engine):
    """The release is the same to the last bit whatever library holds the rows."""
    assert released() == released(engine=engine)


def test_rows_are_streamed_from_a_file(tmp_path):
    """A release of a Parquet file that is never held as a whole is that of its rows."""
    pl.DataFrame(TABLE).write_parquet(tmp_path / "table.parquet", row_group_size=1000)

    streamed = released(table=tmp_path / "table.parquet", engine=pl.scan_parquet)

    assert released() == streamed


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_public_points_of_any_library(frame):
    """Public points may be a frame of any library: the release is that of the same lists."""
    points = {"x": [50.0, 100.0, 150.0], "y": [100, 120, 110], "g": ["a", "b", "a"], "more": [1, 2, 3]}
    asked = {"categories": ["g"], "features": "subspace"}

    assert released(points=points, **asked) == released(points=frame(points), **asked)


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_public_points_with_a_column_twice_are_refused(library):
    """Which of the two is meant cannot be known: nothing is charged."""
    twice = pa.Table.from_arrays([pa.array([50.0]), pa.array([60.0])], names=["x", "x"])

    with pytest.raises(dp.ArgumentError, match="names a column twice"):
        released(["x"], points=twice if library == "pyarrow" else twice.to_pandas())


@pytest.mark.parametrize(
    ("engine", "kind"), [(pd.DataFrame, pd.DataFrame), (pl.DataFrame, pl.DataFrame), (pa.table, pa.Table)]
)
def test_tables_are_the_callers(engine, kind):
    """Points, samples and those of marginals are tables of the library that holds the rows, replayed ones too."""
    view = protect(engine=engine)
    first, again = (view.kme_release(["x", "y"], n_points=16, epsilon=1, delta=1e-6) for _ in range(2))

    assert again.privacy.replayed
    for release in (first, again, again.marginal(["x"]), again.conditional({"y": (50, 150)})):
        assert isinstance(release.points, kind)
        assert isinstance(release.sample(3), kind)
    assert first == again


def test_a_protected_table_is_not_public():
    """Points that are the private rows themselves are refused, uncharged."""
    df = pd.DataFrame(TABLE)
    view = protect(df, lambda table: table)

    with pytest.raises(dp.ArgumentError, match="a protected table as an argument"):
        view.kme_release(["x", "y"], points=df, epsilon=1, delta=1e-6)
    assert 0 == view.budget.spent


def test_a_column_may_be_called_weight():
    """The points' weights get another name where a column has theirs."""
    table = {"weight": X}
    view = protect(table, bounds={"weight": (0, 200)}, categories={})

    found = view.kme_release(["weight"], epsilon=1, delta=1e-6)

    assert ["weight", "weight_"] == list(found.points.columns)
    assert pytest.approx(1.0) == found.points["weight_"].sum()


def test_the_noise_is_what_is_said(found):
    """It is the scale of the Gaussian mechanism for what a row moves at most, over the number of rows."""
    (noise,) = found.privacy.noise
    (filled,) = released(nan_policy="fill").privacy.noise

    assert noise.scale / found.size == pytest.approx(found.noise_standard_error)
    assert noise.scale == found.missing_standard_error
    assert noise.kind == "discrete Gaussian"
    assert math.sqrt(2) == pytest.approx(noise.sensitivity, rel=1e-3)  # a row that vanishes, and is not counted
    assert math.sqrt(2 - 2 * math.exp(-4.0)) == pytest.approx(filled.sensitivity, rel=1e-3)


def test_without_delta_the_noise_is_laplace():
    """Pure epsilon: Laplace noise, and its standard deviation."""
    found = released(delta=0, n_points=16, epsilon=5)
    (noise,) = found.privacy.noise

    assert ("laplace", "discrete Laplace") == (found.noise_kind, noise.kind)
    assert math.sqrt(2) * noise.scale / found.size == pytest.approx(found.noise_standard_error)


def test_means_and_covariances(found):
    """The weighted points have about the rows' moments."""
    assert found.mean() == pytest.approx({"x": X.mean(), "y": Y.mean()}, abs=0.5)
    assert np.cov(X, Y).ravel().tolist() == pytest.approx(found.cov().ravel().tolist(), rel=0.15)


@pytest.mark.statistical
def test_intervals_cover():
    """Over the noise, 95% intervals hold the rows' mean at least so often, and tell."""
    f = {"x": lambda rows: rows["x"], "wave": lambda rows: np.cos(rows["x"] / 60)}
    truth = {"x": X.mean(), "wave": np.cos(X / 60).mean()}
    for delta in (1e-6, 0):
        hits, view = 0, protect()
        for seed in range(40):
            with seeded_noise(seed):
                found = view.kme_release(["x", "y"], epsilon=2, delta=delta, n_points=64, fresh=True)
            intervals = {name: found.expectation(g) for name, g in f.items()}
            hits += sum(i.low <= truth[name] <= i.high for name, i in intervals.items())

        assert intervals["x"].estimable
        assert hits >= 66  # of 80 at 0.95 each: fewer with a probability below 1e-6


def test_means_say_how_well_they_are_known(found):
    """Each mean has the interval of its expectation, which widens with the confidence asked for."""
    means, surer = found.mean(), found.mean(confidence=0.999)
    written = repr(means)

    assert means == {name: each.value for name, each in means.intervals.items()}
    of_x, alone = means.intervals["x"], found.expectation(lambda rows: rows["x"])
    assert (of_x.value, of_x.low, of_x.high) == pytest.approx((alone.value, alone.low, alone.high), rel=1e-9)
    assert all(each.low <= means[name] <= each.high for name, each in means.intervals.items())
    assert (
        surer.intervals["x"].low < means.intervals["x"].low < means.intervals["x"].high < surer.intervals["x"].high
    )
    assert (0.95, 0.999) == (means.confidence, surer.confidence)
    assert written.startswith(f"{{'x': {means['x']:.5g} (")
    assert "confidence of 95%" in written
    assert pickle.loads(pickle.dumps(means)).intervals == means.intervals  # noqa: S301 - its own
    with pytest.raises(dp.ArgumentError, match="confidence"):
        found.mean(confidence=1)


def test_means_that_tell_nothing_say_so():
    """With far too much noise, an interval is the bounds, and the answer says that it tells next to nothing."""
    means = released(epsilon=1e-4, n_points=32).mean()

    assert not means.intervals["x"].estimable
    assert "tells next to nothing" in repr(means)


def test_a_jump_cannot_be_estimated(found):
    """The share of rows above a threshold is not told by a smooth embedding, and the answer says so."""
    share = found.expectation(lambda rows: rows["x"] > 100)

    assert not share.estimable
    assert 0 <= share.low <= (X > 100).mean() <= share.high <= 1


def test_a_constant_is_known(found):
    """The mean of a constant is that constant."""
    answer = found.expectation(lambda rows: np.full(len(rows["x"]), 3.0))

    assert (3.0, 3.0, 3.0, True) == pytest.approx(tuple(answer))


def test_distance_of_the_same_rows_and_of_others(found):
    """The squared distance is near zero for rows of the population and not for shifted ones."""
    same = found.mmd({"x": X[:5000], "y": Y[:5000]})
    shifted = found.mmd({"x": X[:5000] - 20, "y": Y[:5000]})

    assert abs(same) < 1e-3
    assert shifted > 0.01


def test_two_samples(found):
    """The test sees a shift and, noise included, none where there is none."""
    rows = {"x": X[:1000], "y": Y[:1000]}
    shifted = {"x": X[:1000] + 5, "y": Y[:1000]}

    assert found.two_sample(rows).pvalue > 0.01
    assert found.two_sample(shifted).pvalue < 0.01
    assert found.two_sample(released(seed=5)).pvalue > 0.01


@pytest.mark.statistical
def test_the_two_sample_test_keeps_its_level(monkeypatch):
    """At 5%, with noise that dominates, about 5% of the releases of one population are rejected."""
    monkeypatch.setattr("dfprivacy_kme.release._DRAWS", 99)  # the level is exact with 19, 39, 59, ...
    rejected, view = 0, protect()
    for seed in range(100):
        with seeded_noise(seed):
            found = view.kme_release(
                ["x", "y"], epsilon=0.05, delta=1e-6, n_points=32, represent="weights", fresh=True
            )
        rejected += found.two_sample({"x": X[seed::100], "y": Y[seed::100]}).rejected

    assert rejected <= 17  # more with a probability below 1e-5, at the exact level


def test_samples_are_rows(found):
    """A sample has as many rows as asked, within the bounds, with the rows' means."""
    rows = pd.DataFrame(found.sample(4000, seed=1))

    assert (4000, ["x", "y"]) == (len(rows), list(rows.columns))
    assert [X.mean(), Y.mean()] == pytest.approx(rows.mean().tolist(), abs=1)


def test_numbers_with_categories():
    """Categories are published with the numbers: shares, and what goes with each."""
    found = released(categories=["g"], epsilon=5)
    points = pd.DataFrame(found.points)
    shares = points.groupby("g")["weight"].sum()

    assert (GROUP == "b").mean() == pytest.approx(shares["b"], abs=0.1)
    assert found.conditional({"g": "b"}).mean()["x"] > found.conditional({"g": "a"}).mean()["x"] + 3
    assert ["x", "y", "g", "weight"] == list(points.columns)


def test_marginals_and_conditionals(found):
    """A marginal keeps the weights; a conditional moves the mean along the correlation."""
    marginal = found.marginal(["y"])
    conditional = found.conditional({"x": (115, 200)})

    assert {"y": found.mean()["y"]} == pytest.approx(marginal.mean())
    assert conditional.mean()["y"] > found.mean()["y"]
    assert conditional.notes == ()


def test_written_down_and_read(found):
    """What is written is plain JSON, and what is read is the same release."""
    plain = json.loads(found.to_json())
    again = dp.Release.from_json(found.to_json())

    assert "dfprivacy_kme.release:KME" == plain["type"]
    assert found == again
    assert found.evaluate({"x": [100], "y": [100]}) == pytest.approx(again.evaluate({"x": [100], "y": [100]}))
    assert found.expectation(lambda rows: rows["x"]) == again.expectation(lambda rows: rows["x"])


def test_a_density(found):
    """The embedding as a function is the mean of the kernel, noise aside."""
    kernel = ProductKernel([dp.Column(name, bounds=(0.0, 200.0)) for name in "xy"], 100.0)
    at = np.array([[110.0, 90.0]])
    truth = float(kernel(at, np.column_stack([X, Y])).mean())

    assert truth == pytest.approx(found.evaluate({"x": [110.0], "y": [90.0]})[0], abs=2e-3)
    assert found.deviation({"x": [110.0], "y": [90.0]})[0] <= math.sqrt(2) * found.noise_standard_error


@pytest.mark.parametrize("columns", [["x"], ["x", "y"]])
def test_a_picture(columns):
    """A release draws itself: a distribution function of one column, a scatter of more."""
    axes = released(columns).plot()

    assert columns[0] == axes.get_xlabel()


def test_many_columns():
    """Fifty columns are released, and the locations are refined beyond the grid."""
    rng = np.random.default_rng(2)
    table = {f"c{i}": rng.uniform(40, 60, 500) for i in range(50)}
    view = dp.protect(
        pd.DataFrame(table), next(NAMES), epsilon=1, delta=1e-3, ledger="memory:",
        bounds=dict.fromkeys(table, (0, 100)),
    )  # fmt: skip
    found = view.kme_release(list(table), epsilon=1, n_points=64)

    assert 1.0 == pytest.approx(found.weights.sum())
    assert (found.weights >= 0).all()


def test_three_rows_say_how_little_they_tell():
    """With hardly any rows the answer says that it is noise."""
    found = released(table={name: values[:3] for name, values in TABLE.items()})

    assert "tells nothing" in found.notes[0]
    assert any("tell little" in note for note in found.notes)
    assert not found.expectation(lambda rows: rows["x"]).estimable


def test_one_point_says_so():
    """A single point is an answer that says how little it tells."""
    found = released(points={"x": [100.0], "y": [100.0]})

    assert "Features are few, 1" in found.notes[-1]


def test_a_narrow_kernel_says_what_it_misses():
    """Points too far apart for the kernel see little of the domain, and the answer says so."""
    found = released(lengthscale=5.0, n_points=64)

    assert "a wider kernel or more points" in found.notes[0]


def test_a_wide_kernel_is_not_free():
    """Just below the widest kernel that is let through, the mean is measured with noise, and charged for."""
    view = protect(TABLE)

    found = view.kme_release(["x"], lengthscale=1e8, epsilon=0.1, delta=1e-6)

    assert found.privacy.epsilon > 0
    assert found.noise_standard_error >= 200 / 1e8 / 0.1 / len(X)


@pytest.mark.parametrize("features", ["subspace", "fourier"])
def test_a_kernel_that_sees_no_difference_says_so(features):
    """A kernel far wider than the bounds is refused, whatever the features: it would tell nothing."""
    with pytest.raises(dp.ArgumentError, match="all rows are alike"):
        released(lengthscale=1e12, features=features)


def test_duplicates_are_left_out():
    """A public point that is there twice spans no more."""
    found = released(points={"x": [50.0, 50.0, 100.0, 150.0], "y": [100.0] * 4})

    assert 3 == found.dimension


@pytest.mark.parametrize(
    "asked",
    [
        {"lengthscale": 0},
        {"lengthscale": -1.0},
        {"gamma": 0},
        {"gamma": 1e-4, "lengthscale": 3.0},
        {"features": "haar"},
        {"represent": "nearest"},
        {"features": "fourier", "represent": "weights"},
        {"calibration": "classic"},
        {"represent": "bayes"},
        {"n_points": 0},
        {"n_points": 10**6},
        {"points": {"x": [1.0]}},
        {"points": {"x": [300.0], "y": [1.0]}},
        {"points": {"x": [float("nan")], "y": [1.0]}},
        {"points": {"x": [], "y": []}},
        {"points": PUBLIC, "n_points": 8},
        {"features": "fourier", "categories": ["g"]},
        {"features": "taylor"},
        {"mismatch": 1.0, "categories": ["g"]},
    ],
)
def test_what_cannot_be_asked_costs_nothing(asked):
    """Each is refused before any charge."""
    view = protect()

    with pytest.raises(dp.ArgumentError):
        view.kme_release(["x", "y"], epsilon=1, delta=1e-6, **asked)
    assert 0 == view.budget.spent


@pytest.mark.parametrize("terms", [{"neighbors": "add_remove"}, {"bounds": {"x": (0, 200)}}])
def test_tables_that_cannot_be_released(terms):
    """A private number of rows, or a column without bounds, is refused."""
    with pytest.raises(dp.DPError):
        protect(**terms).kme_release(["x", "y"], epsilon=1, delta=1e-6)


@pytest.mark.statistical
def test_the_noise_is_chi_squared():
    """The squared distance from the rows' mean feature is sigma squared times a chi-squared variable."""
    table = {name: values[:500] for name, values in TABLE.items()}
    view = protect(table)
    asked = {"n_points": 16, "represent": "weights", "lengthscale": 100, "epsilon": 0.1, "delta": 1e-6}
    raw = []
    for seed in range(200):
        with seeded_noise(seed):
            found = view.kme_release(["x", "y"], fresh=True, **asked)
        if not raw:
            space = Space.read(found.space)
            alpha = space.features(np.column_stack([table["x"], table["y"]])).mean(axis=0)
        raw.append(float(np.sum((found.beta - alpha) ** 2)) / found.noise_standard_error**2)

    assert found.dimension == pytest.approx(np.mean(raw), abs=5 * math.sqrt(2 * found.dimension / 200))


def test_misuse_of_a_release(found):
    """What a release cannot tell is refused with the reason."""
    signed = released(features="subspace", represent="weights")
    refused = [
        lambda: signed.sample(3),
        lambda: found.marginal(["y"]).two_sample({"y": [1.0]}),
        lambda: found.two_sample(found.marginal(["y"])),
        lambda: found.mmd(released(lengthscale=50)),
        lambda: found.marginal(["z"]),
        lambda: found.conditional({"x": (0, 200), "y": (0, 200)}),
        lambda: found.conditional({"x": 140}),
        lambda: found.conditional({"x": (199.99, 200)}),
        lambda: found.sample(0),
        lambda: found.expectation(lambda rows: 1.0),
        lambda: found.expectation(lambda rows: rows["x"], confidence=1),
        lambda: found.evaluate([1.0]),
        lambda: found.evaluate({"x": ["one"], "y": [1.0]}),
    ]

    for ask in refused:
        with pytest.raises(dp.DPError):
            ask()


def test_an_explanation_costs_nothing():
    """What would be measured, and how precise a mean would be, without reading or charging."""
    view = protect(epsilon=4, delta=1e-5)
    said = view.explain("kme_release", ["x", "y"], epsilon=1, delta=1e-6)

    assert "standard deviation" in str(said)
    assert 0 == view.budget.spent


@pytest.mark.statistical
@pytest.mark.parametrize("wide", [10, 20])
def test_bounds_many_lengthscales_wide(wide):
    """The points fit as well as noise allows, and intervals cover functions as narrow as the kernel."""
    rng = np.random.default_rng(3)
    centres = rng.uniform(-1, 1, (5, 2))
    rows = pd.DataFrame(centres[rng.integers(5, size=50_000)] + rng.normal(0, 0.2, (50_000, 2)), columns=["x", "y"])
    view = protect(rows, bounds=dict.fromkeys(rows, (-wide / 2, wide / 2)), categories=None)
    functions = [
        lambda r, at=at: np.exp(-((r["x"] - at[0]) ** 2 + (r["y"] - at[1]) ** 2) / 2)
        for at in rng.uniform(-1.5, 1.5, (20, 2))
    ]
    with seeded_noise(4):
        found = view.kme_release(["x", "y"], lengthscale=1, epsilon=1, delta=1e-6, nan_policy="fill")
    intervals = [found.expectation(f) for f in functions]

    assert found.objective < 1.5 * found.noise_standard_error**2 * found.dimension
    assert not found.notes
    assert all(i.low <= f(rows).mean() <= i.high for i, f in zip(intervals, functions, strict=True))


def test_bounds_far_wider_than_the_kernel_are_noted():
    """An interval is for functions that are smooth between the rows at which they are evaluated."""
    view = protect({"x": X, "y": Y}, bounds={"x": (-5000, 5000), "y": (-5000, 5000)}, categories=None)

    found = view.kme_release(["x", "y"], lengthscale=100, epsilon=1, n_points=8)

    assert any("lengthscales wide" in note for note in found.notes)
