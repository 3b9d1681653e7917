"""Mixtures from Fourier sketches: the mathematics, `view.fourier_sketch`, and `view.gmm_fit` without a label."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, linear_sum_assignment
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture as Reference

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_gmm import FourierSketch
from dfprivacy_gmm.fit import Search, choose_mixture, prior_precision, rows_needed
from dfprivacy_gmm.sketch import Family, Mixture, Sketch, draw_frequencies, whitening_of
from dfprivacy_gmm.sums import Sums

NAMES = (f"mixtures {number}" for number in itertools.count())
SHAPES = ["spherical", "diag", "tied", "full"]

# The mathematics: reference numbers, derivatives, searches

W = np.array([[0.5, -1], [1, 0.25], [0, 2]])
WEIGHTS, MEANS = np.array([0.3, 0.7]), np.array([[0, 0], [1, -0.5]])
ROOTS = np.linalg.cholesky(np.array([[[1, 0.2], [0.2, 0.5]], [[0.3, -0.1], [-0.1, 0.4]]]))
TRUTH = Mixture(WEIGHTS, MEANS, ROOTS)
A = np.array([
    0.511581998687 + 0.441852708909j, 0.561457055886 + 0.468258369121j, 0.280305265136 - 0.264668100157j
])  # fmt: skip
OFF = np.array([0.02 + 0.005j, -0.03 - 0.015j, 0.01 + 0.025j])
REFERENCE = Sketch(W, A + OFF, np.sqrt(0.5 / np.array([100.0, 200, 50])))
SPREADS = [np.concatenate([np.log(np.diag(L)), [L[1, 0]]]) for L in ROOTS]
P = np.concatenate([np.log(WEIGHTS), MEANS.ravel(), *SPREADS, [0.0]])


def test_objective():
    """Characteristic function, half the squared residuals and their gradient are the reference numbers."""
    family = Family(2, 2, "full")
    pi = np.array([3.409892457735, 9.16750204234])
    mu = [0.908473240287, -0.068345260097, -2.530916915955, -3.680935626369]
    first, second = (
        (-2.010336041239, 0.830930880788, -0.721919654335),
        (-3.406876010686, -0.520216734857, -1.302227569263),
    )
    spread = [(g[0] * R[0, 0], g[1] * R[1, 1], g[2]) for g, R in zip((first, second), ROOTS, strict=True)]
    gradient = [*(WEIGHTS * (pi - WEIGHTS @ pi)), *mu, *np.ravel(spread), 0.0]

    residuals = family.residuals(P, REFERENCE)

    np.testing.assert_allclose(WEIGHTS @ TRUTH.components(W)[0], A, atol=1e-11)
    assert np.square(residuals).sum() / 2 == pytest.approx(0.30375, rel=1e-9)
    np.testing.assert_allclose(family.jacobian(P, REFERENCE) @ residuals, gradient, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_search_ends_where_nothing_is_better(shape):
    """Derivatives are those of finite differences; at the end the objective, prior included, has no slope."""
    family, sketch = Family(3, 2, shape), Sketch(W, A, 0.1, size_error=0.1)
    p = np.random.default_rng(1).normal(0, 0.5, family.n_parameters)
    expected = approx_fprime(p, lambda x: family.residuals(x, sketch), 1e-7).T
    np.testing.assert_allclose(family.jacobian(p, sketch), expected, atol=1e-5)

    search = Search(replace(REFERENCE, size_error=0.1), 2, np.random.default_rng(1))
    end = search.generalize(search.starting_fits()[0], shape)

    def objective(p):
        fit = np.square(end.family.residuals(p, search.sketch)).sum()
        return float(fit + (prior_precision(end.family, 0.1) * np.square(p - end.centre)).sum()) / 2

    found = search.minimise(end.p, end.centre, shape, steps=200, tolerance=1e-12)

    assert objective(end.p) >= found.f
    assert math.isclose(objective(found.p), found.f, rel_tol=1e-12)
    np.testing.assert_allclose(approx_fprime(found.p, objective, 1e-6), 0, atol=2e-3)


def test_a_saddle_is_left():
    """Two equal components, which whitening puts on a saddle, are told apart."""
    waves = np.random.default_rng(0).normal(0, 1.5, (200, 2))
    means, roots = np.array([[-0.78, 0], [0.78, 0]]), np.repeat(np.diag([0.62, 1])[None], 2, 0)
    value = np.array([0.5, 0.5]) @ Mixture(np.array([0.5, 0.5]), means, roots).components(waves)[0]

    fit = choose_mixture(Sketch(waves, value, 1e-3), [2], "full")[0]

    np.testing.assert_allclose(np.sort(fit.mixture.means[:, 0]), [-0.78, 0.78], atol=0.01)


def of_mixture(rows, seed=1):
    """Rows of the mixture, shape (2, rows)."""
    rng = np.random.default_rng(seed)
    label = rng.choice(2, size=rows, p=WEIGHTS)
    return (MEANS[label] + np.einsum("nij,nj->ni", ROOTS[label], rng.standard_normal((rows, 2)))).T


def test_sampling_covariance():
    """The covariance of an empirical characteristic function is what simulation says."""
    z = of_mixture(10_000 * 50).reshape(2, 10_000, 50)
    waves = np.exp(1j * np.einsum("md,dij->ijm", W, z)).mean(axis=1)

    found = (
        np.hstack([(waves - A).real, (waves - A).imag])
        @ Sketch(W, A, 0.0, size=50).with_sampling_covariance(TRUTH).whitener.T
    )

    np.testing.assert_allclose(np.cov(found.T), np.eye(6), atol=0.07)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=0.05)


def test_the_right_number_is_chosen_from_many_rows():
    """What two components leave in a sketch of many rows is sampling, not a third component."""
    z = of_mixture(100_000, seed=3)
    waves = draw_frequencies(100, 3, 2, np.random.default_rng(1))
    noise = np.random.default_rng(2).normal(0, 1e-4, 200).view(np.complex128)
    values = np.array([np.exp(1j * (w @ z)).mean() for w in waves]) + noise

    fit, criteria = choose_mixture(Sketch(waves, values, 1e-4, size=1e5), [1, 2, 3], "full")

    assert fit.mixture.means.shape == (2, 2)
    assert 60 < fit.residual < 130  # half a chi squared of 200
    assert criteria[1] > criteria[3] > criteria[2]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_whitening_of_any_moments(data):
    """Whatever the noisy moments, the whitening is positive definite, and finite."""
    d, size = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([0.0, 1e-9, 1.0, 1e9]))
    M = size * np.array(data.draw(st.lists(st.floats(-1, 1), min_size=d * d, max_size=d * d))).reshape(d, d)
    noise = data.draw(st.sampled_from([0.0, 1e-3, 1e6]))

    found = whitening_of(Sums(np.array([5.0]), M[:1], (M + M.T)[None], noise, noise, np.full((d, d), noise)))

    assert np.linalg.eigvalsh(found.covariance).min() > 0
    assert np.isfinite(found.inverse_root).all()
    assert np.abs(found.centre).max() <= 1


# It finds what is there


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


def protect(X, **terms):
    names = [f"x{i}" for i in range(X.shape[1])]
    known = {"epsilon": 10**6, "delta": 0.1, "accounting": "basic", "ledger": "memory:"}
    known["bounds"] = dict.fromkeys(names, (-1, 1))
    return dp.protect(pd.DataFrame(X, columns=names), next(NAMES), **{**known, **terms}), names


def fit(X, *, seed=1, terms=None, **asked):
    view, names = protect(X, **(terms or {}))
    with seeded_noise(seed):
        return view.gmm_fit(names, **{"epsilon": 1, "delta": 1e-6, "n_components": 2, **asked})


def missed(found, X, labels, means):
    """By how much labels are less often right than with the true mixture."""

    def agreement(guess):
        counts = pd.crosstab(guess, labels).to_numpy()
        return counts[linear_sum_assignment(-counts)].sum() / len(labels)

    return agreement(np.linalg.norm(X[:, None] - means, axis=2).argmin(axis=1)) - agreement(found.predict(X))


def matched(found, means):
    """The components in the order of these means."""
    return linear_sum_assignment(np.linalg.norm(found.means_[:, None] - means, axis=2).T)[1]


TWO = drawn(2, 2, 4, 5000)
SKETCHED, _ = protect(TWO[0])
with seeded_noise(1):
    SKETCH = SKETCHED.fourier_sketch(["x0", "x1"], max_components=3, epsilon=1, delta=1e-6)
FOUND = fit(TWO[0])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("K", "d", "separation", "rows"),
    [(2, 1, 2.5, 10_000), (5, 2, 4, 10_000), (2, 5, 4, 10_000), (2, 2, 2.5, 50_000)],
)
def test_mixtures_are_found(K, d, separation, rows):
    """Labels are as often right as with the true mixture, to within 3 points, or with many rows 1."""
    X, labels, means, _ = drawn(K, d, separation, rows)

    assert missed(fit(X, n_components=K), X, labels, means) < (0.03 if rows == 10_000 else 0.01)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("shape", "neighbors"), [*((shape, "replace_one") for shape in SHAPES), ("full", "add_remove")]
)
def test_without_noise_it_is_the_fit_of_scikit_learn(shape, neighbors):
    """With a huge epsilon weights, means and covariances are those of maximum likelihood, nearly."""
    X, _, means, sd = drawn(2, 2, 4, 10_000)

    found = fit(X, covariance_type=shape, epsilon=50, restarts=1, terms={"neighbors": neighbors})
    expected = Reference(2, covariance_type=shape, random_state=0).fit(X)

    here, there = matched(found, means), matched(expected, means)
    mine, its = (each.covariances_ if shape == "tied" else each.covariances_[order]
                 for each, order in ((found, here), (expected, there)))  # fmt: skip
    np.testing.assert_allclose(found.weights_[here], expected.weights_[there], atol=0.02)
    np.testing.assert_allclose(found.means_[here], expected.means_[there], atol=0.1 * sd)
    assert mine.shape == its.shape
    np.testing.assert_allclose(mine, its, atol=0.15 * sd**2)


@pytest.mark.parametrize("d", [1, 3])
def test_a_mixture_is_of_complete_rows(d):
    """Half of the rows are missing, which would be a peak in the middle of the bounds."""
    rng = np.random.default_rng(1)
    rows = rng.normal(np.repeat([-0.5, 0.5], 8000)[:, None], 0.125, (16_000, d))
    rows[rng.random(16_000) < 0.5, d - 1] = np.nan

    found = fit(rows, epsilon=2)

    assert np.sort(found.means_[:, 0]) == pytest.approx([-0.5, 0.5], abs=0.025)
    assert found.sketch.size == pytest.approx(8000, abs=300)
    assert any("rows were left out" in note for note in found.notes)


def test_columns_have_their_own_units():
    """Other units and bounds give the same mixture in those units."""
    view, names = protect(TWO[0] * [100, 1e-3] + [5, 0], bounds={"x0": (-95, 105), "x1": (-0.001, 0.001)})

    with seeded_noise(1):
        found = view.gmm_fit(names, n_components=2, epsilon=1, delta=1e-6)

    np.testing.assert_allclose(found.means_, FOUND.means_ * [100, 1e-3] + [5, 0], rtol=1e-4)
    np.testing.assert_allclose(found.weights_, FOUND.weights_, rtol=1e-4)


def test_the_number_is_chosen():
    """ "auto" finds how many there are, one or three, and says what it weighed."""
    found = fit(drawn(3, 2, 3, 10_000)[0], n_components="auto", restarts=1, epsilon=2)
    view, names = protect(drawn(1, 2, 3, 3000)[0])
    with seeded_noise(1):
        sketch = view.fourier_sketch(names, max_components=2, epsilon=1, delta=1e-6)

    assert (found.n_components, sketch.fit(restarts=1).n_components) == (3, 1)
    assert list(found.criteria) == [str(k) for k in range(1, 7)]
    assert min(found.criteria, key=found.criteria.get) == "3"


@pytest.mark.statistical
def test_errors_are_as_predicted():
    """Means are within about as much as their standard errors of the truth, and the residual test has its level."""
    z, p = [], []
    for seed in range(10):
        X, _, means, _ = drawn(2, 1, 4, 5000, seed)
        found = fit(X, seed=seed, restarts=1)
        order = matched(found, means)
        z.append((found.means_[order] - means) / found.mean_errors[order])
        p.append(found.residual_pvalue)

    # Of 20 numbers: with standard normal ones one case in a million is outside.
    assert 0.35 < math.sqrt(np.square(z).mean()) < 1.8
    assert sum(q < 0.01 for q in p) < 5


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_a_sketch_is_the_characteristic_function(neighbors):
    """Of complete rows it is the mean of exp(iw'y); its size is their noisy number."""
    X = TWO[0].copy()
    X[np.random.default_rng(1).random(5000) < 0.2, 0] = np.nan
    view, names = protect(X, neighbors=neighbors)
    with seeded_noise(1):
        found = view.fourier_sketch(names, epsilon=20, delta=1e-6)

    complete = X[~np.isnan(X[:, 0])]
    expected = np.exp(1j * complete @ found.frequencies.T).mean(axis=0)

    error = 6 * found.noise_standard_error + 6 * found.size_error
    np.testing.assert_allclose(found.cosines + 1j * found.sines, expected, atol=error)
    assert error < 0.1
    assert found.size == pytest.approx(len(complete), abs=6 * found.size_error * found.size)
    assert found.size_error > 0
    assert (found.missing is None) == (neighbors == "add_remove")


# What it says of itself


def test_what_cannot_be_told_is_said():
    """Notes tell of few rows, of noise larger than what there is to see, and of what is no mixture."""
    repeated = np.random.default_rng(1).uniform(-0.5, 0.5, (20_000, 1))
    repeated[:10_000] = 0.3
    hidden, odd = fit(drawn(3, 3, 4, 200)[0], n_components=3, epsilon=0.1, restarts=1), fit(repeated, restarts=1)

    assert any("Uninformative" in note for note in hidden.notes)
    assert hidden.relative_error > 0.2
    assert any("Few rows" in note for note in FOUND.notes)
    assert fit(drawn(2, 2, 4, 12_000)[0]).notes == ()
    assert odd.residual_pvalue < 1e-6
    assert any("does not describe" in note for note in odd.notes)
    assert "test rejects this model (p < 0.001)" in " ".join(repr(odd).split())


def test_the_rule_of_how_many_rows():
    """It grows with components, with the square of many columns, and with 1/epsilon; and is a quarter at 4."""
    view, names = protect(np.zeros((1000, 3)))
    plan = view.explain("gmm_fit", names, n_components=2, epsilon=1, delta=1e-6)

    assert rows_needed(2, 1, 1) == rows_needed(2, 5, 1) == 10_000
    assert (rows_needed(2, 10, 0.5), rows_needed(2, 10, 0.5, 4)) == (80_000, 20_000)
    assert sorted(plan.findings.values()) == [2500, 10_000]
    assert str(plan).count("discrete Gaussian") == 2


def test_what_the_noise_alone_shows_to_be_hopeless_is_not_searched_for():
    """Five components in ten columns of 2,000 rows: said at once, with one Gaussian of all rows for each."""
    found = fit(np.clip(np.random.default_rng(1).normal(0.2, 0.2, (2000, 10)), -1, 1), n_components=5)

    assert any(note.startswith("Uninformative: 5 components in 10 columns need about") for note in found.notes)
    assert found.relative_error > 1
    assert (found.means_ == found.means_[0]).all()
    assert found.means_[0] == pytest.approx(np.full(10, 0.2), abs=0.25)
    assert np.isfinite(found.mean_errors).all()
    assert found.predict_proba(np.zeros((1, 10))) == pytest.approx(np.full((1, 5), 0.2))
    assert dp.Release.from_dict(found.to_dict()).to_dict() == found.to_dict()


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
    found = fit(X, terms=terms, restarts=1)

    for numbers in (found.weights_, found.means_, found.covariances_, found.mean_errors):
        assert np.isfinite(numbers).all()
    assert found.notes
    assert np.linalg.eigvalsh(found.covariances).min() > 0


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_no_noise_makes_it_fail(data):
    """Whatever numbers a sketch has, a fit is finite, its weights add up to 1, and it can be written down."""
    d, size = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([1.0, 1e3, 1e9]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    scale = data.draw(st.sampled_from([0.0, 1e-6, 1.0, 1e6]))
    sketch = FourierSketch(
        columns=tuple(f"x{i}" for i in range(d)), bounds=np.array([[-1.0, 1.0]] * d),
        frequencies=rng.normal(0, 5, (30, d)), cosines=scale * rng.normal(size=30),
        sines=scale * rng.normal(size=30), centre=np.zeros(d),
        noise_standard_error=data.draw(st.sampled_from([0.0, 1e-4, 1.0, 1e4])),
        covariance=data.draw(st.sampled_from([1e-4, 0.1, 1.0])) * np.eye(d), size=size,
        size_error=data.draw(st.sampled_from([0.0, 0.3])), max_components=2, epsilon=1.0,
    )  # fmt: skip

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sketch.fit(2, covariance_type=data.draw(st.sampled_from(SHAPES)), restarts=1)
        probabilities = found.predict_proba(np.zeros((3, d)))

    for numbers in (found.weights_, found.means_, found.covariances_, found.mean_errors, probabilities):
        assert np.isfinite(numbers).all()
    assert found.weights_.sum() == pytest.approx(1)
    json.dumps(found.to_dict())


# It is a release, with scikit-learn's names


def test_a_sketch_is_fitted_again():
    """From JSON it gives the same fits, with other numbers and shapes, for nothing; a mixture holds its sketch."""
    again, found = (dp.Release.from_json(each.to_json()) for each in (SKETCH, FOUND))
    few, many = SKETCH.fit(2, restarts=1), SKETCH.fit(2)

    assert again.fit(2).to_dict() == many.to_dict()
    assert found.sketch.fit(2).means_.tolist() == FOUND.means_.tolist()
    assert again.fit(3, covariance_type="diag", restarts=1).covariances_.shape == (3, 2)
    assert many.residual <= few.residual + 0.01
    assert SKETCHED.budget.spent == 1


def test_densities_labels_and_samples_are_those_of_scipy():
    """Densities are the mixture's, probabilities its shares, labels the largest; samples have its moments."""
    X = TWO[0][:50]
    components = [*zip(FOUND.weights_, FOUND.means_, FOUND.covariances, strict=True)]
    parts = np.array([w * multivariate_normal(m, S).pdf(X) for w, m, S in components]).T
    rows, labels = FOUND.sample(40_000, random_state=1)

    np.testing.assert_allclose(FOUND.score_samples(X), np.log(parts.sum(axis=1)))
    np.testing.assert_allclose(FOUND.predict_proba(X), parts / parts.sum(axis=1, keepdims=True))
    assert FOUND.predict(X).tolist() == parts.argmax(axis=1).tolist()
    assert FOUND.score(X) == pytest.approx(np.log(parts.sum(axis=1)).mean())
    assert FOUND.score(pd.DataFrame(X, columns=["x0", "x1"])[["x1", "x0"]]) == pytest.approx(FOUND.score(X))
    assert (FOUND.n_features_in_, FOUND.feature_names_in_.tolist()) == (2, ["x0", "x1"])
    for k, (weight, mean, covariance) in enumerate(components):
        own = rows[labels == k]
        np.testing.assert_allclose(own.mean(axis=0), mean, atol=0.002)
        np.testing.assert_allclose(np.cov(own.T), covariance, atol=0.05 * np.trace(covariance))
        assert len(own) / 40_000 == pytest.approx(weight, abs=0.02)
    assert FOUND.sample(5, random_state=2)[0].tolist() == FOUND.sample(5, random_state=2)[0].tolist()


def test_a_plan_searches_for_nothing(monkeypatch):
    """What would be measured is known without a fit: a plan leaves none behind."""
    view, names = protect(np.zeros((1000, 3)))
    searched = []
    monkeypatch.setattr("dfprivacy_gmm.fit.find_mixture", lambda *_, **__: searched.append(1))

    view.explain("gmm_fit", names, n_components=6, epsilon=1, delta=1e-6)

    assert searched == []
