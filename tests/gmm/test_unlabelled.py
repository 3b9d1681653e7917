"""Gaussian mixtures and Fourier sketches through the whole house."""

from __future__ import annotations

import itertools
import json
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture as Reference

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_gmm import FourierSketch, GaussianMixture
from dfprivacy_gmm.fit import rows_needed

NAMES = (f"mixture-{number}" for number in itertools.count())
SHAPES = ["spherical", "diag", "tied", "full"]


def drawn(K, d, separation, rows, seed=1):
    """Rows of K standard normals on a line or a simplex, scaled into two fifths of the bounds, and labels."""
    rng = np.random.default_rng([K, d, rows, seed])
    means = np.zeros((K, d))
    if d == 1:
        means[:, 0] = separation * np.arange(K)
    else:
        turn = 2 * np.pi * np.arange(K) / K
        radius = separation / (2 * math.sin(np.pi / K)) if K > 1 else 0.0
        means[:, 0], means[:, 1] = radius * np.cos(turn), radius * np.sin(turn)
    means -= means.mean(axis=0)
    labels = rng.integers(0, K, rows)
    sd = 0.4 / (np.abs(means).max() + 3)
    centre = rng.uniform(-0.3, 0.3, d)
    return (means[labels] + rng.standard_normal((rows, d))) * sd + centre, labels, means * sd + centre, sd


def protect(X, engine=pd.DataFrame, **terms):
    names = [f"x{i}" for i in range(X.shape[1])]
    terms = {
        "epsilon": 10**6,
        "delta": 0.1,
        "accounting": "basic",
        "ledger": "memory:",
        "bounds": dict.fromkeys(names, (-1, 1)),
        **terms,
    }
    return dp.protect(engine(dict(zip(names, X.T, strict=True))), next(NAMES), **terms), names


def fit(X, *, seed=1, terms=None, engine=pd.DataFrame, **asked):
    view, names = protect(X, engine, **(terms or {}))
    with seeded_noise(seed):
        return view.gmm_fit(names, **{"epsilon": 1, "delta": 1e-6, **asked})


def agreement(found, labels):
    counts = pd.crosstab(found, labels).to_numpy()
    return counts[linear_sum_assignment(-counts)].sum() / len(labels)


def matched(found, means):
    """The components in the order of these means."""
    return linear_sum_assignment(np.linalg.norm(found.means_[:, None] - means, axis=2).T)[1]


TWO = drawn(2, 2, 4, 5000)
SKETCHED, _ = protect(TWO[0])
with seeded_noise(1):
    SKETCH = SKETCHED.fourier_sketch(["x0", "x1"], max_components=3, epsilon=1, delta=1e-6)
FOUND = fit(TWO[0], n_components=2)


# It finds what is there.


@pytest.mark.parametrize(
    ("K", "d", "separation", "rows"),
    [(2, 1, 2.5, 10_000), (2, 2, 2.5, 10_000), (5, 2, 4, 10_000), (2, 5, 4, 10_000)],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mixtures_are_found(K, d, separation, rows, seed):
    """Labels are as often right as with the true mixture, to within 3 points."""
    X, labels, means, _ = drawn(K, d, separation, rows, seed)
    best = agreement(np.linalg.norm(X[:, None] - means, axis=2).argmin(axis=1), labels)

    found = fit(X, n_components=K, seed=seed)

    assert agreement(found.predict(X), labels) > best - 0.03


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("terms", [{}, {"neighbors": "add_remove"}], ids=["public size", "private size"])
def test_without_noise_it_is_the_fit_of_scikit_learn(shape, terms):
    """With a huge epsilon weights, means and covariances are those of maximum likelihood, nearly."""
    X, _, means, sd = drawn(2, 2, 4, 20_000)

    found = fit(X, n_components=2, covariance_type=shape, epsilon=50, terms=terms)
    expected = Reference(2, covariance_type=shape, random_state=0).fit(X)

    here, there = matched(found, means), matched(expected, means)
    np.testing.assert_allclose(found.weights_[here], expected.weights_[there], atol=0.02)
    np.testing.assert_allclose(found.means_[here], expected.means_[there], atol=0.1 * sd)
    assert found.covariances_.shape == expected.covariances_.shape
    if shape == "tied":
        np.testing.assert_allclose(found.covariances_, expected.covariances_, atol=0.15 * sd**2)
    else:
        np.testing.assert_allclose(found.covariances_[here], expected.covariances_[there], atol=0.15 * sd**2)


def test_columns_have_their_own_units():
    """Other units and bounds give the same mixture in those units."""
    X, *_ = TWO
    df = pd.DataFrame({"a": 5 + 100 * X[:, 0], "b": X[:, 1] / 1000})
    view = dp.protect(
        df,
        next(NAMES),
        epsilon=1,
        delta=1e-6,
        ledger="memory:",
        accounting="basic",
        bounds={"a": (-95, 105), "b": (-0.001, 0.001)},
    )

    with seeded_noise(1):
        found = view.gmm_fit(["a", "b"], n_components=2, epsilon=1, delta=1e-6)

    np.testing.assert_allclose(found.means_, FOUND.means_ * [100, 1e-3] + [5, 0], rtol=1e-4)
    np.testing.assert_allclose(found.weights_, FOUND.weights_, rtol=1e-4)


@pytest.mark.parametrize(("K", "rows"), [(1, 5000), (3, 20_000)])
def test_the_number_is_chosen(K, rows):
    """ "auto" finds how many there are, and says what it weighed."""
    X, *_ = drawn(K, 2, 3, rows)

    found = fit(X, n_components="auto", restarts=1)

    assert found.n_components == K
    assert list(found.criteria) == [str(k) for k in range(1, 7)]
    assert min(found.criteria, key=found.criteria.get) == str(K)


def test_equal_components_are_told_apart():
    """Two equal components, whose whitened mixture has a saddle, are separated at every seed."""
    for seed in range(4):
        X, labels, means, _ = drawn(2, 2, 2.5, 50_000, seed)

        found = fit(X, n_components=2, seed=seed)

        best = agreement(np.linalg.norm(X[:, None] - means, axis=2).argmin(axis=1), labels)
        assert agreement(found.predict(X), labels) > best - 0.01


@pytest.mark.statistical
def test_errors_are_as_predicted():
    """Means are within about as much as their standard errors of the truth, and the residual test has its level."""
    z, p = [], []
    for seed in range(16):
        X, _, means, _ = drawn(2, 1, 4, 5000, seed)
        found = fit(X, n_components=2, seed=seed)
        order = matched(found, means)
        z.append((found.means_[order] - means) / found.mean_errors[order])
        p.append(found.residual_pvalue)

    # Of 32 numbers: with standard normal ones one case in a million is outside.
    assert 0.45 < math.sqrt(np.square(z).mean()) < 1.65
    assert sum(q < 0.01 for q in p) < 6


# What it says of itself.


def test_few_rows_are_uninformative():
    """Where noise is larger than what there is to see, the answer says so."""
    X, *_ = drawn(5, 5, 4, 300)

    found = fit(X, n_components=5, epsilon=0.1)

    assert any("Uninformative" in note for note in found.notes)
    assert found.relative_error > 0.2


def test_some_rows_are_few():
    """Between the two limits only well separated components are found, it says."""
    assert any("Few rows" in note for note in FOUND.notes)
    assert fit(drawn(2, 2, 4, 12_000)[0], n_components=2).notes == ()


def test_the_rule_of_how_many_rows():
    """It grows with components, with the square of many columns, and with 1/epsilon; and is a quarter at 4."""
    assert rows_needed(2, 1, 1) == rows_needed(2, 5, 1) == 10_000
    assert rows_needed(2, 10, 0.5) == 80_000
    assert rows_needed(2, 10, 0.5, 4) == 20_000


def test_what_is_no_mixture_is_flagged():
    """Values that repeat are no Gaussians: the residual test says so, and the notes."""
    rng = np.random.default_rng(1)
    X = np.where(rng.random((20_000, 1)) < 0.5, 0.3, rng.uniform(-0.5, 0.5, (20_000, 1)))

    found = fit(X, n_components=2)

    assert found.residual_pvalue < 1e-6
    assert any("does not describe" in note for note in found.notes)


DEGENERATE = {
    "empty": (np.zeros((0, 2)), {"neighbors": "add_remove"}),
    "three rows": (np.zeros((3, 2)), {}),
    "three rows, private size": (np.zeros((3, 2)), {"neighbors": "add_remove"}),
    "constant": (np.full((5000, 2), 0.25), {}),
    "constant, private size": (np.full((5000, 2), 0.25), {"neighbors": "add_remove"}),
    "more columns than rows": (np.ones((1, 6)), {}),
}


@pytest.mark.parametrize(("X", "terms"), DEGENERATE.values(), ids=DEGENERATE)
def test_degenerate_tables_are_answered(X, terms):
    """Whatever the table, the numbers are finite and the answer says what they are worth."""
    found = fit(X, n_components=2, terms=terms)

    for numbers in (found.weights_, found.means_, found.covariances_, found.mean_errors):
        assert np.isfinite(numbers).all()
    assert found.notes
    assert np.linalg.eigvalsh(found.covariances).min() > 0


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_noise_makes_it_fail(data):
    """Whatever numbers a sketch has, a fit is finite, its weights add up to 1, and it can be written down."""
    d, size = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([1.0, 1e3, 1e9]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    scale = data.draw(st.sampled_from([0.0, 1e-6, 1.0, 1e6]))
    sketch = FourierSketch(
        columns=tuple(f"x{i}" for i in range(d)),
        bounds=np.array([[-1.0, 1.0]] * d),
        frequencies=rng.normal(0, 5, (30, d)),
        cosines=scale * rng.normal(size=30),
        sines=scale * rng.normal(size=30),
        noise_standard_error=data.draw(st.sampled_from([0.0, 1e-4, 1.0, 1e4])),
        centre=np.zeros(d),
        covariance=data.draw(st.sampled_from([1e-4, 0.1, 1.0])) * np.eye(d),
        size=size,
        size_error=data.draw(st.sampled_from([0.0, 0.3])),
        max_components=2,
        epsilon=1.0,
    )

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sketch.fit(2, covariance_type=data.draw(st.sampled_from(SHAPES)), restarts=1)
        probabilities = found.predict_proba(np.zeros((3, d)))

    for numbers in (found.weights_, found.means_, found.covariances_, found.mean_errors, probabilities):
        assert np.isfinite(numbers).all()
    assert found.weights_.sum() == pytest.approx(1)
    json.dumps(found.to_dict())


# It is a release.


def test_a_sketch_is_kept_and_fitted_again():
    """From JSON it gives the same fits, with other numbers and shapes, for nothing."""
    again = dp.Release.from_dict(json.loads(json.dumps(SKETCH.to_dict())))

    assert type(again) is FourierSketch
    assert again.to_dict() == SKETCH.to_dict()
    assert again.fit(2).to_dict() == SKETCH.fit(2).to_dict()
    assert again.fit(3, covariance_type="diag").covariances_.shape == (3, 2)
    assert SKETCH.fit().n_components == 2
    assert SKETCHED.budget.spent == 1


def test_a_fit_has_its_sketch():
    """A mixture goes through JSON with the sketch it came from, which gives it again."""
    again = dp.Release.from_dict(json.loads(json.dumps(FOUND.to_dict())))

    assert type(again) is GaussianMixture
    assert again.to_dict() == FOUND.to_dict()
    assert again.sketch.fit(2).means_.tolist() == FOUND.means_.tolist()
    assert again.sketch.fit(2).means_.tolist() == again.means_.tolist()


def test_a_sketch_is_the_characteristic_function():
    """Without noise it is the mean of exp(iw'y), in every engine to the last bit."""
    X = TWO[0]
    found = []
    for engine in (pd.DataFrame, pl.DataFrame):
        view, names = protect(X, engine)
        with seeded_noise(1):
            found.append(view.fourier_sketch(names, epsilon=50, delta=1e-6))

    expected = np.exp(1j * X @ found[0].frequencies.T).mean(axis=0)

    np.testing.assert_allclose(
        found[0].cosines + 1j * found[0].sines, expected, atol=6 * found[0].noise_standard_error + 1e-6
    )
    assert found[0].cosines.tolist() == found[1].cosines.tolist()


def test_restarts_cost_nothing():
    """More restarts are a better or equal fit of the same sketch."""
    few, many = (SKETCH.fit(3, restarts=restarts) for restarts in (1, 8))

    assert many.residual <= few.residual + 0.01
    assert few.sketch is many.sketch is SKETCH


def test_groups_have_mixtures():
    """By group there is one for each, for the price of one."""
    X = np.concatenate([TWO[0], TWO[0]])
    df = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "g": np.repeat(["a", "b"], 5000)})
    view = dp.protect(
        df,
        next(NAMES),
        epsilon=1,
        delta=1e-6,
        accounting="basic",
        ledger="memory:",
        bounds={"x": (-1, 1), "y": (-1, 1)},
        categories={"g": ["a", "b"]},
    )

    found = view.group_by("g").gmm_fit(["x", "y"], n_components=2, epsilon=1, delta=1e-6)

    assert view.budget.spent == 1
    assert found["a"].means_.shape == found["b"].means_.shape == (2, 2)


# It has scikit-learn's names.


def test_densities_and_labels_are_those_of_scipy():
    """Densities are the mixture's, probabilities the components' shares, labels the largest."""
    X = TWO[0][:50]
    parts = np.array(
        [
            w * multivariate_normal(m, S).pdf(X)
            for w, m, S in zip(FOUND.weights_, FOUND.means_, FOUND.covariances, strict=True)
        ]
    ).T

    np.testing.assert_allclose(FOUND.score_samples(X), np.log(parts.sum(axis=1)))
    np.testing.assert_allclose(FOUND.predict_proba(X), parts / parts.sum(axis=1, keepdims=True))
    assert FOUND.predict(X).tolist() == parts.argmax(axis=1).tolist()
    assert FOUND.score(X) == pytest.approx(np.log(parts.sum(axis=1)).mean())
    frame = pd.DataFrame(X, columns=["x0", "x1"])[["x1", "x0"]]
    assert FOUND.score(frame) == pytest.approx(FOUND.score(X))
    assert FOUND.n_features_in_ == 2
    assert FOUND.feature_names_in_.tolist() == ["x0", "x1"]


def test_samples_are_of_the_mixture():
    """Synthetic rows have its moments, and the same seed gives the same."""
    rows, labels = FOUND.sample(40_000, random_state=1)

    for k, (mean, covariance) in enumerate(zip(FOUND.means_, FOUND.covariances, strict=True)):
        own = rows[labels == k]
        np.testing.assert_allclose(own.mean(axis=0), mean, atol=0.002)
        np.testing.assert_allclose(np.cov(own.T), covariance, atol=0.05 * np.trace(covariance))
    np.testing.assert_allclose(np.bincount(labels) / 40_000, FOUND.weights_, atol=0.02)
    assert FOUND.sample(5, random_state=2)[0].tolist() == FOUND.sample(5, random_state=2)[0].tolist()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_pictures(d):
    """A mixture and a sketch have pictures."""
    pytest.importorskip("matplotlib")
    found = fit(drawn(2, d, 4, 3000)[0], n_components=2)

    assert found.plot().get_xlabel() == "x0"
    assert found.sketch.plot().get_ylabel() == "size"


def test_explain_says_how_many_rows_it_takes():
    """A plan tells what is measured and from how many rows on it works, for nothing."""
    view, names = protect(np.zeros((1000, 3)))

    plan = view.explain("gmm_fit", names, n_components=2, epsilon=1, delta=1e-6)

    assert sorted(plan.findings.values()) == [2500, 10_000]
    assert str(plan).count("discrete Gaussian") == 2
    assert view.budget.spent == 0


def test_a_plan_searches_for_nothing(monkeypatch):
    """What would be measured is known without a fit: a plan leaves none behind."""
    view, names = protect(np.zeros((1000, 3)))
    searched = []
    monkeypatch.setattr("dfprivacy_gmm.fit.find_mixture", lambda *_, **__: searched.append(1))

    view.explain("gmm_fit", names, n_components=6, epsilon=1, delta=1e-6)

    assert searched == []


# What is refused, before any charge.

REFUSED = {
    "no label, no number": ({"n_components": None}, "Give either"),
    "both": ({"label": "x1"}, "has no categories|Give either"),
    "no components": ({"n_components": 0}, "n_components=0 is not a whole number from 1 to 50 or 'auto'"),
    "negative": ({"n_components": -1}, "is not a whole number from 1 to 50"),
    "half": ({"n_components": 1.5}, "is not a whole number from 1 to 50"),
    "a word": ({"n_components": "many"}, "is not a whole number from 1 to 50"),
    "true": ({"n_components": True}, "is not a whole number from 1 to 50"),
    "too many": ({"n_components": 51}, "is not a whole number from 1 to 50"),
    "shape": ({"covariance_type": "round"}, "is unknown"),
    "a list for a shape": ({"covariance_type": ["full"]}, "is unknown"),
    "restarts": ({"restarts": 0}, "restarts=0 is not a whole number from 1 on"),
    "restarts true": ({"restarts": True}, "restarts=True is not a whole number"),
    "no columns": ({"columns": []}, "at least one column"),
    "twice": ({"columns": ["x0", "x0"]}, "each once"),
    "no such column": ({"columns": ["z"]}, "no column 'z'"),
    "no delta": ({"delta": 0}, "delta"),
}


@pytest.mark.parametrize(("asked", "match"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_uncharged(asked, match):
    """What cannot be fitted is refused, and nothing is spent."""
    view, names = protect(TWO[0])

    with pytest.raises(dp.ArgumentError, match=match):
        view.gmm_fit(**{"columns": names, "n_components": 2, "epsilon": 1, "delta": 1e-6, **asked})

    assert view.budget.spent == 0


@pytest.mark.parametrize("most", [0, 1.5, "many", None, True, 51])
def test_a_sketch_of_no_number_is_refused(most):
    """The largest number of components is a number."""
    view, names = protect(TWO[0])

    with pytest.raises(dp.ArgumentError, match="is not a whole number from 1 to 50"):
        view.fourier_sketch(names, max_components=most, epsilon=1, delta=1e-6)

    assert view.budget.spent == 0


def test_a_sketch_resolves_what_it_was_made_for():
    """More components than its frequencies were chosen for are refused, as is what a fit refuses."""
    for asked, match in [({"n_components": 4}, "at most 3"), ({"n_components": 0}, "not a whole number"),
                         ({"restarts": 0}, "restarts"), ({"covariance_type": "round"}, "unknown")]:  # fmt: skip
        with pytest.raises(dp.ArgumentError, match=match):
            SKETCH.fit(**asked)


@pytest.mark.parametrize(
    "X", [[[1, 2, 3]], [1, 2], [["a", "b"]], [[math.nan, 0]], [[[0, 0]]], pd.DataFrame({"x0": [0]})]
)
def test_rows_that_cannot_be_scored_are_refused(X):
    """Rows have the fitted columns, and are finite."""
    with pytest.raises(dp.ArgumentError):
        FOUND.predict(X)


@pytest.mark.parametrize("count", [0, -1, 1.5, "many"])
def test_no_number_of_samples_is_refused(count):
    """Samples are counted."""
    with pytest.raises(dp.ArgumentError, match="is not a whole number from 1 on"):
        FOUND.sample(count)
