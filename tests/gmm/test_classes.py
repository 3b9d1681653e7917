"""Gaussian classes: the classifier, and `view.gmm_fit` with a label."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_gmm import GaussianClasses, GaussianClassifier

IRIS = load_iris(return_X_y=True)
NAMES = (f"classes {number}" for number in itertools.count())
BOUNDS = (-2.95, 3.45)
PLENTY = 50  # an epsilon at which the noise is far smaller than what is compared


def population(d, second, *, equal):
    """The experiments of Tong et al.: means of .75 and of `second`, covariances of correlation 1/2, or one of I."""
    model = GaussianClassifier()
    own = 0.64 * (0.5 * np.eye(d) + 0.5)
    model.classes_, model.priors_ = np.array(["one", "two"]), np.array([0.5, 0.5])
    model.means_ = np.array([np.full(d, 0.75), np.full(d, second)])
    model.covariances_ = np.array([own if equal else np.eye(d), own])
    return model


def drawn(d, rows, *, equal=True, seed=1):
    """Rows of the experiments, with the sign of Table 2, and their labels."""
    return population(d, -0.25, equal=equal).sample(rows, random_state=seed)


def protect(X, y, **terms):
    """A view, and its columns."""
    names = [f"x{i}" for i in range(X.shape[1])]
    known = {"bounds": dict.fromkeys(names, BOUNDS), "categories": {"y": ["one", "two"]}}
    known |= {"epsilon": 10**6, "delta": 0.1, "accounting": "basic", "ledger": "memory:"}
    return dp.protect(pd.DataFrame(X, columns=names).assign(y=y), next(NAMES), **{**known, **terms}), names


def fit(X, y, *, seed=1, terms=None, **asked):
    view, names = protect(X, y, **(terms or {}))
    with seeded_noise(seed):
        return view.gmm_fit(names, "y", **{"epsilon": 1, "delta": 1e-6, **asked})


SMALL = drawn(2, 3000)
THREE = drawn(3, 3000)
RELATIONS = {
    "public size": {"neighbors": "replace_one"},
    "private size": {"neighbors": "add_remove"},
    "public groups": {"public": ["y"]},
}

# The classifier, on public data


TABLE_2 = {  # by dimension and second mean: the errors for equal covariances, and for two
    (2, -0.25): (0.23524, 0.2106), (5, -0.25): (0.20987, 0.1173), (10, -0.25): (0.19968, 0.0588),
    (2, 0.25): (0.35911, 0.308), (5, 0.25): (0.34331, 0.1876), (10, 0.25): (0.33674, 0.0945),
}  # fmt: skip


@pytest.mark.statistical
@pytest.mark.parametrize(("d", "second"), TABLE_2)
def test_true_errors_of_the_experiments(d, second):
    """Of Table 2 (which has a second mean of -.25, and its text +.25), as 30,000 rows expect of true classes."""
    for equal, expected in zip((True, False), TABLE_2[d, second], strict=True):
        model = population(d, second, equal=equal)
        likeliest = model.predict_proba(model.sample(30_000, random_state=1)[0]).max(axis=1)
        assert 1 - likeliest.mean() == pytest.approx(expected, abs=0.005)


def test_probabilities_and_samples_are_those_of_the_densities():
    """`predict_proba` is Bayes' rule with the densities of scipy; rows have the classes' shares and moments."""
    model = population(3, -0.25, equal=False)
    points = np.random.default_rng(2).normal(size=(50, 3))
    classes = [*zip(model.classes_, model.means_, model.covariances_, strict=True)]
    densities = np.array([multivariate_normal(m, c).pdf(points) for _, m, c in classes]).T

    found, (X, y) = model.predict_proba(points), model.sample(100_000, random_state=3)

    assert found == pytest.approx(densities / densities.sum(axis=1, keepdims=True))
    assert model.predict_log_proba(points) == pytest.approx(np.log(found))
    assert model.predict(points).tolist() == model.classes_[densities.argmax(axis=1)].tolist()
    assert np.mean(y == "one") == pytest.approx(0.5, abs=0.01)
    for name, mean, covariance in classes:
        assert X[y == name].mean(axis=0) == pytest.approx(mean, abs=0.03)
        assert np.cov(X[y == name].T) == pytest.approx(covariance, abs=0.04)
    first, again, other = (model.sample(5, random_state=seed)[0].tolist() for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("method", "reference", "off"),
    [("lda", LinearDiscriminantAnalysis(solver="lsqr"), 0.01), ("qda", QuadraticDiscriminantAnalysis(), 0.02)],
)
def test_without_noise_it_is_scikit_learns(method, reference, off):
    """It gives the labels and, but for the divisor, the probabilities of scikit-learn."""
    X, y = IRIS
    reference.fit(X, y)

    model = GaussianClassifier(method).fit(X, y)

    assert model.predict(X).tolist() == reference.predict(X).tolist()
    assert model.predict_proba(X) == pytest.approx(reference.predict_proba(X), abs=off)
    assert model.priors_ == pytest.approx(reference.priors_)
    assert model.means_ == pytest.approx(reference.means_)


def test_scikit_learn_takes_it_for_a_classifier():
    """It has parameters, is cloned, shown, cross-validated and searched, and knows its columns by name."""
    rows = pd.DataFrame({"wide": [0.0, 1.0, 4.0, 5.0], "long": [1.0, 0.0, 5.0, 4.0]})
    model = GaussianClassifier("qda", grid_minimum=0.5)
    assert not hasattr(model, "feature_names_in_")
    model.fit(rows, ["low", "low", "high", "high"])
    search = GridSearchCV(
        make_pipeline(StandardScaler(), GaussianClassifier()),
        {"gaussianclassifier__method": ["lda", "qda"], "gaussianclassifier__repair": ["clip", "noise_aware"]},
    )
    search.fit(*IRIS)

    assert is_classifier(model)
    assert clone(model).get_params() == {"method": "qda", "repair": "noise_aware", "grid_minimum": 0.5}
    assert model.feature_names_in_.tolist() == ["wide", "long"]
    assert model.predict(rows[["long", "wide"]]).tolist() == model.predict(rows).tolist()
    assert model.score(rows, ["low", "low", "middle", "high"]) == 0.75  # a label that is no class is an error
    assert (model.set_params(method="lda"), model.method) == (model, "lda")
    assert cross_val_score(model, *IRIS, cv=5).mean() > 0.95
    assert search.best_score_ > 0.95
    assert search.predict_proba(IRIS[0]).shape == (150, 3)
    for shown in (model, search.best_estimator_):
        assert "GaussianClassifier" in shown._repr_html_()


@pytest.mark.parametrize("repair", ["noise_aware", "paper", "clip"])
def test_degenerate_data_are_classified(repair):
    """A constant column, more columns than rows, and rows far from every class have finite probabilities."""
    constant = GaussianClassifier("qda").fit([[0.0, 7], [1, 7], [4, 7], [5, 7]], [0, 0, 1, 1])
    wide = GaussianClassifier("lda", repair).fit(np.eye(4, 9), [0, 0, 1, 1])
    narrow = GaussianClassifier("qda", repair).fit([[1.0], [1.0], [2.0], [2.0]], [0, 0, 1, 1])

    assert constant.predict([[0.2, 7], [4.9, 7]]).tolist() == [0, 1]
    assert np.isfinite(wide.predict_proba(np.ones((2, 9)))).all()
    assert narrow.predict_proba([[1e300], [-1e300], [1.7e308], [1.5]]).sum(axis=1) == pytest.approx(1)


# The noise


@pytest.mark.parametrize(
    ("delta", "epsilon", "scale"),
    [(1e-6, 0.1, 36.305), (1e-6, 0.5, 8.0576), (1e-6, 0.6, 6.7963), (1e-6, 1, 4.2247),
     (1e-5, 0.1, 30.750), (1e-5, 0.5, 7.0318), (1e-5, 0.6, 5.9496), (1e-5, 1, 3.7306)],
)  # fmt: skip
def test_the_noise_is_the_analytic_gaussian(delta, epsilon, scale):
    """One scale for all sums: that of the analytic Gaussian mechanism at 1.5 r, or √4.5 r, over the weights."""
    r = math.sqrt(2)
    for neighbors, sensitivity in (("add_remove", 1.5), ("replace_one", math.sqrt(4.5))):
        found = fit(*SMALL, epsilon=epsilon, delta=delta, terms={"neighbors": neighbors})

        size, *totals, square, product, _ = found.noise_standard_error / (scale * sensitivity * r)
        assert found.radius == pytest.approx(r)
        assert [size, *totals] == pytest.approx([2 / r, 1, 1], rel=1e-3)
        assert (square, product) == pytest.approx((r, r / math.sqrt(2)), rel=1e-3)
        assert found.privacy.noise[0].sensitivity == pytest.approx(sensitivity * r, rel=1e-3)


@pytest.mark.parametrize(("neighbors", "times"), [("add_remove", 1), ("replace_one", 2)])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_pure_noise_is_laplaces(neighbors, times, d):
    """Without a delta, of scale (d/2 + d + d (d+1)/4)/ε over the weights, twice that for a row that changes."""
    sensitivity = times * (d / 2 + d + d * (d + 1) / 4)

    found = fit(*drawn(d, 500), epsilon=0.5, delta=0, terms={"neighbors": neighbors})

    unit = math.sqrt(2) * sensitivity / 0.5
    assert (found.radius, found.privacy.delta, found.privacy.noise[0].kind) == (None, 0, "discrete Laplace")
    assert found.noise_standard_error[:2] == pytest.approx(unit / np.array([d / 2, 1]), rel=1e-3)
    assert found.noise_standard_error[d + 1 :] == pytest.approx(unit / 0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("terms", "asked", "sensitivities"),
    [
        ({"public": ["y"]}, {"nan_policy": "fill"}, [2, 2, 2, 1, 2, 2, 1, 2, 1]),
        ({"public": ["y"]}, {}, [1, 2, 2, 2, 1, 2, 2, 1, 2, 1]),
        ({}, {}, [2] * 10),
        ({"neighbors": "add_remove"}, {}, [1] * 10),
    ],
    ids=["public classes", "missing rows", "private classes", "private size"],
)
def test_each_query_has_its_part_of_epsilon(terms, asked, sensitivities):
    """Each sum has its sensitivity over an equal part of epsilon; the parts add up to the price."""
    view, names = protect(*THREE, **terms)

    found = view.gmm_fit(names, "y", queries="separately", **asked, epsilon=0.6, delta=0)

    scales = np.array(sensitivities) * len(sensitivities) / 0.6
    assert found.noise_standard_error == pytest.approx(math.sqrt(2) * scales, rel=1e-3)
    assert [record.sensitivity for record in found.privacy.noise] == pytest.approx(sensitivities)
    assert (float(view.budget.spent), found.queries) == (pytest.approx(0.6), "separately")
    if found.public_sizes:  # rows that cannot change class, and none of them missing
        assert found.sizes.tolist() == [int((THREE[1] == name).sum()) for name in ("one", "two")]


def test_explain_says_how_exact_the_means_would_be():
    """Of equal classes, the noise in the means in each column's unit; with private sizes, the rows for 1%."""
    noise, asked = 8.0576 * math.sqrt(2), {"columns": ["x0", "x1"], "label": "y", "epsilon": 0.5, "delta": 1e-6}
    views = (protect(*SMALL, neighbors=each)[0] for each in ("replace_one", "add_remove"))

    (said,), (rows,) = (view.explain("gmm_fit", **asked).findings.values() for view in views)

    assert said == pytest.approx(dict.fromkeys(["x0", "x1"], noise * math.sqrt(4.5) / 1500 * 3.2), rel=1e-3)
    assert rows == pytest.approx(100 * noise * 1.5, rel=2e-3)


# The fit is that of the data


@pytest.mark.one_in(2)
@pytest.mark.parametrize("terms", RELATIONS.values(), ids=RELATIONS)
@pytest.mark.parametrize(("method", "queries"), [("lda", "jointly"), ("qda", "jointly"), ("qda", "separately")])
def test_with_a_huge_epsilon_it_is_the_fit_without_privacy(terms, method, queries):
    """Priors, means and covariances are those of the rows as clipped to the bounds; a refit knows the noise."""
    X, y = drawn(2, 30_000)
    reference = GaussianClassifier(method).fit(np.clip(X, *BOUNDS), y)
    more = {"radius": math.sqrt(2), "epsilon": PLENTY} if queries == "jointly" else {"epsilon": 10**5, "delta": 0}

    found = fit(X, y, method=method, queries=queries, terms=terms, **more)

    assert (found.method, found.classes_.tolist()) == (method, ["one", "two"])
    assert found.priors_ == pytest.approx(reference.priors_, abs=1e-3)
    assert found.means_ == pytest.approx(reference.means_, abs=3e-3)
    assert found.covariances_ == pytest.approx(reference.covariances_, abs=6e-3)
    assert np.mean(found.predict(X) == reference.predict(X)) > 0.995
    assert found.refit(repair="paper").means == pytest.approx(found.means)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("d", "rows", "runs", "asked", "low", "high"),
    [
        (5, 20_000, 5, {"epsilon": 0.6}, 0.207, 0.216),  # where .2099 is the least there is
        (10, 50_000, 3, {"method": "qda"}, 0.055, 0.069),  # where .0588 is the least
        (10, 50_000, 3, {"method": "qda", "delta": 0}, 0.066, 0.077),
    ],
)
def test_errors_of_the_experiments(d, rows, runs, asked, low, high):
    """Private classifiers of the paper's classes are wrong hardly more often than the true ones."""
    equal = "method" not in asked
    test = drawn(d, 50_000, equal=equal, seed=99)

    errors = [1 - fit(*drawn(d, rows, equal=equal, seed=s), seed=s, **asked).score(*test) for s in range(runs)]

    assert low <= np.mean(errors) <= high


@pytest.mark.statistical
def test_standard_errors_hold():
    """Over 500 draws of the noise in its sums the means spread as the standard errors without sampling say."""
    found, rng = fit(*SMALL), np.random.default_rng(5)
    noise = rng.normal(size=(500, *found.released.shape)) * found.noise_standard_error
    means, covariances = found.standard_errors(sampling=False)

    spread = np.std([replace(found, released=found.released + each).refit().means for each in noise], axis=0)

    assert spread == pytest.approx(means, rel=0.2)
    assert covariances.shape == (1, 2, 2)
    assert (found.standard_errors()[0] > means).all()


def test_a_covariance_says_by_how_much_it_was_moved():
    """A classifier needs a positive definite one; what it comes from stays beside it, unbiased."""
    X = np.clip(np.random.default_rng(1).normal(0, 0.25, (20_000, 7)).cumsum(axis=1), *BOUNDS)
    y = np.where(np.arange(20_000) % 2, "one", "two")
    hidden, clear = (fit(X, y, radius=math.sqrt(7), epsilon=epsilon) for epsilon in (0.5, 60))

    assert (
        np.linalg.eigvalsh(hidden.covariances[0]).min()
        > 0
        > np.linalg.eigvalsh(hidden.estimated_covariances[0]).min()
    )
    assert any("changed by up to" in note and "standard deviations of its noise" in note for note in hidden.notes)
    assert clear.notes == ()
    assert clear.covariances == pytest.approx(clear.estimated_covariances)
    assert clear.estimated_covariances[0] == pytest.approx(np.cov(X.T), rel=0.1, abs=0.01)


def test_classes_are_those_of_complete_rows():
    """A class with more gaps is no smaller a class for that to its mean; rows of no class are left out."""
    X, y = drawn(2, 20_000)
    rng = np.random.default_rng(3)
    labels, gappy = np.where(np.arange(20_000) % 5, y, "else"), X.copy()
    gappy[rng.random(20_000) < np.where(y == "one", 0.4, 0.1), 0] = np.nan

    found = fit(gappy, labels, method="qda", radius=1.4, epsilon=40)

    there = ~np.isnan(gappy[:, 0])
    for name, size, mean in zip(found.classes, found.sizes, found.means, strict=True):
        own = X[there & (labels == name)].clip(*BOUNDS)
        assert size == pytest.approx(len(own), abs=10)
        assert mean == pytest.approx(own.mean(axis=0), abs=0.02)
    assert found.missing == pytest.approx((~there | (labels == "else")).sum(), abs=6 * found.missing_standard_error)


# It is a release, and a classifier


@pytest.mark.parametrize("terms", RELATIONS.values(), ids=RELATIONS)
def test_a_fit_again_uses_the_same_sums(terms):
    """What was asked gives the same, from JSON too; another method what that would have given, for nothing."""
    found = fit(*SMALL, terms=terms)
    other = found.refit(method="qda", repair="paper", grid_minimum=0.5)
    again = dp.Release.from_json(found.to_json()).refit(method="qda", repair="paper", grid_minimum=0.5)

    assert found.refit().to_dict() == found.to_dict()
    assert other.to_dict() == again.to_dict()
    assert (other.method, other.repair, other.grid_minimum) == ("qda", "paper", 0.5)
    assert other.covariances.shape == (2, 2, 2)
    assert other.released is found.released


def test_scikit_learn_takes_the_release_for_a_classifier():
    """Its clone is the same model without privacy; frames have its columns in any order; samples have its units."""
    found, X = fit(*SMALL, method="qda"), SMALL[0][:100]
    copied = clone(found)
    rows, labels = found.sample(50_000, random_state=1)

    assert is_classifier(found)
    check_is_fitted(found)
    assert type(copied) is GaussianClassifier
    assert copied.get_params() == {"method": "qda", "repair": "noise_aware", "grid_minimum": 0.01}
    assert cross_val_score(found, *SMALL, cv=3).mean() == pytest.approx(0.76, abs=0.05)
    assert (found.n_features_in_, found.feature_names_in_.tolist()) == (2, ["x0", "x1"])
    assert found.fit(*SMALL).score(*SMALL) == pytest.approx(found.score(*SMALL), abs=0.02)  # without privacy
    for library in (pd.DataFrame, pl.DataFrame):
        frame = library({"z": X[:, 0], "x1": X[:, 1], "x0": X[:, 0]})
        assert found.predict(frame).tolist() == found.predict(X).tolist()
    for name, mean in zip(found.classes, found.means, strict=True):
        assert rows[labels == name].mean(axis=0) == pytest.approx(mean, abs=0.03)


def test_a_fit_has_a_picture_of_two_columns(plt):
    """It shows the mean and two ellipses of each class, over the bounds, of any two columns."""
    found = fit(*THREE, method="qda")

    for columns, place in ((None, [0, 1]), (("x2", "x0"), [2, 0]), (["x1", "x2"], [1, 2])):
        ax = found.plot(columns=columns)
        points = {line.get_label(): [line.get_xdata()[0], line.get_ydata()[0]] for line in ax.lines}
        assert [points["y = one"], points["y = two"]] == found.means[:, place].tolist()
        assert len(ax.lines) == 6
        assert list(ax.get_xlim()) == pytest.approx(BOUNDS)


# Whatever the noise or the table, there is a sensible answer


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_noise_makes_it_fail(data):
    """For any noisy sums a fit has finite numbers, priors that add up to 1, probabilities, samples and errors."""
    d, public = data.draw(st.integers(1, 4)), data.draw(st.booleans())
    shape = (2, d * (d + 3) // 2 + (not public))
    size = data.draw(st.sampled_from([0.0, 1e-6, 1.0, 1e6, 1e15]))
    numbers = st.lists(st.floats(-1, 1), min_size=math.prod(shape), max_size=math.prod(shape))
    released = size * np.array(data.draw(numbers)).reshape(shape)
    noise = np.full(shape[1], data.draw(st.sampled_from([1e-3, 10.0, 1e9])))
    blank = GaussianClasses(
        columns=tuple(f"x{i}" for i in range(d)), label="y", classes=("one", "two"), method="lda", repair="clip",
        grid_minimum=0.01, radius=1.0, sizes=np.array([0.0, 5.0]) if public else released[:, 0], priors=np.ones(2),
        means=np.zeros((2, d)), covariances=np.ones((1, d, d)), estimated_covariances=np.ones((1, d, d)), notes=(),
        released=released, noise_standard_error=noise, public_sizes=public, bounds=((0.0, 1.0),) * d,
    )  # fmt: skip

    for method, repair in itertools.product(["lda", "qda"], ["noise_aware", "shrink", "paper", "clip"]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = blank.refit(method=method, repair=repair)
            probabilities = found.predict_proba(np.array([[0.5] * d, [1e6] * d]))
            rows, _ = found.sample(10, random_state=1)
            errors = found.standard_errors()

        for each in (found.means, found.covariances, found.priors, probabilities, rows, *errors):
            assert np.isfinite(each).all()
        assert found.priors.sum() == pytest.approx(1)
        assert probabilities.sum(axis=1) == pytest.approx(1)
        assert 0 <= found.means.min() <= found.means.max() <= 1
        json.dumps(found.to_dict())


@pytest.mark.parametrize("terms", RELATIONS.values(), ids=RELATIONS)
@pytest.mark.parametrize("method", ["lda", "qda"])
def test_a_class_that_never_occurs_is_named(terms, method):
    """It gets an answer like the others, and a note says that it is uninformative."""
    X, y = SMALL

    found = fit(X, y, method=method, terms={**terms, "categories": {"y": ["one", "two", "three"]}})

    assert {note.split(":")[0] for note in found.notes if note.startswith("y = ")} == {"y = three"}
    assert found.priors[2] < 0.05
    assert np.mean(found.predict(X) == y) > 0.7


def test_tables_of_any_kind_are_fitted():
    """Few rows, and none, are uninformative; a constant column spoils nothing."""
    few = fit(*drawn(8, 6), epsilon=0.1)
    none = fit(np.empty((0, 2)), np.empty(0, dtype=str), terms={"neighbors": "add_remove"})
    X, y = drawn(2, 20_000)
    X = np.column_stack([X, np.full(len(X), 1.0)])
    constant = fit(X, y)

    known = ("mostly noise", "too few", "noise hides", "hardly any rows", "to be positive definite")
    for found in (few, none):
        assert found.notes
        assert all(any(words in note for words in known) for note in found.notes)
        assert np.isfinite(found.predict_proba(np.zeros((1, len(found.columns))))).all()
    assert constant.score(X, y) == pytest.approx(0.765, abs=0.02)
    assert constant.means[:, 2] == pytest.approx([1, 1], abs=0.02)


def test_rows_at_the_end_of_their_bounds_are_noted():
    """Columns that are 0 for most make rows long: with a radius that scales them down a note says so."""
    rng = np.random.default_rng(6)
    X, y = (
        np.where(rng.random((5000, 3)) < 0.9, 0, rng.uniform(0, 100, (5000, 3))),
        rng.choice(["one", "two"], 5000),
    )
    terms = {"bounds": dict.fromkeys(["x0", "x1", "x2"], (0, 100))}

    whole, scaled = fit(X, y, terms=terms), fit(X, y, terms=terms, radius=0.6 * math.sqrt(3))

    assert any("middle of the bounds: use radius=3**0.5" in note for note in scaled.notes)
    assert whole.notes == ()
