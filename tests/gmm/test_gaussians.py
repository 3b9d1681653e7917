"""Gaussian classes as classifiers, on public data."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dfprivacy.errors import ArgumentError
from dfprivacy_gmm import GaussianClassifier

IRIS = load_iris(return_X_y=True)


def population(d, second, *, equal):
    """The experiments of Tong et al.: means of .75 and of `second`, covariances of correlation 1/2, or one of I."""
    model = GaussianClassifier()
    own = 0.64 * (0.5 * np.eye(d) + 0.5)
    model.classes_, model.priors_ = np.array(["one", "two"]), np.array([0.5, 0.5])
    model.means_ = np.array([np.full(d, 0.75), np.full(d, second)])
    model.covariances_ = np.array([own if equal else np.eye(d), own])
    return model


def error(model, rows=400_000):
    X, y = model.sample(rows, random_state=1)
    return 1 - model.score(X, y)


# Table 2 of the paper has the errors of a second mean of -.25; its text says +.25.
LINEAR = {(2, -0.25): 0.23524, (5, -0.25): 0.20987, (10, -0.25): 0.19968} | {
    (2, 0.25): 0.35911,
    (5, 0.25): 0.34331,
    (10, 0.25): 0.33674,
}
QUADRATIC = {(2, -0.25): 0.2106, (5, -0.25): 0.1173, (10, -0.25): 0.0588} | {
    (2, 0.25): 0.308,
    (5, 0.25): 0.1876,
    (10, 0.25): 0.0945,
}


@pytest.mark.statistical
@pytest.mark.parametrize(("asked", "expected"), LINEAR.items())
def test_true_errors_of_equal_covariances(asked, expected):
    """Of Table 2, with the sign corrected: the errors of the true classes, by formula and by 400,000 rows."""
    d, second = asked
    distance = (0.75 - second) * math.sqrt(d / (0.64 * (1 + 0.5 * (d - 1))))

    assert ndtr(-distance / 2) == pytest.approx(expected, abs=1e-5)
    assert error(population(d, second, equal=True)) == pytest.approx(expected, abs=0.004)


@pytest.mark.statistical
@pytest.mark.parametrize(("asked", "expected"), QUADRATIC.items())
def test_true_errors_of_two_covariances(asked, expected):
    """Of Table 2, with the sign corrected: the errors of the true classes, in 400,000 rows."""
    d, second = asked

    assert error(population(d, second, equal=False)) == pytest.approx(expected, abs=0.004)


def test_probabilities_are_those_of_the_densities():
    """`predict_proba` is Bayes' rule with the densities of scipy, and its logarithm is `predict_log_proba`."""
    model = population(3, -0.25, equal=False)
    X = np.random.default_rng(2).normal(size=(50, 3))
    densities = np.array(
        [multivariate_normal(m, c).pdf(X) for m, c in zip(model.means_, model.covariances_, strict=True)]
    ).T

    found = model.predict_proba(X)

    assert found == pytest.approx(densities / densities.sum(axis=1, keepdims=True))
    assert model.predict_log_proba(X) == pytest.approx(np.log(found))
    assert model.predict(X).tolist() == model.classes_[densities.argmax(axis=1)].tolist()


def test_linear_is_scikit_learns():
    """Without noise, "lda" gives the labels and, but for the divisor, the probabilities of scikit-learn."""
    X, y = IRIS
    reference = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)

    model = GaussianClassifier("lda").fit(X, y)

    assert model.predict(X).tolist() == reference.predict(X).tolist()
    assert model.predict_proba(X) == pytest.approx(reference.predict_proba(X), abs=0.01)
    assert model.priors_ == pytest.approx(reference.priors_)
    assert model.means_ == pytest.approx(reference.means_)


def test_quadratic_is_scikit_learns():
    """Without noise, "qda" gives the labels and, but for the divisor, the probabilities of scikit-learn."""
    X, y = IRIS
    reference = QuadraticDiscriminantAnalysis().fit(X, y)

    model = GaussianClassifier("qda").fit(X, y)

    assert model.predict(X).tolist() == reference.predict(X).tolist()
    assert model.predict_proba(X) == pytest.approx(reference.predict_proba(X), abs=0.02)


def test_scikit_learn_takes_it_for_a_classifier():
    """It can be cloned, has parameters, and cross-validates."""
    model = GaussianClassifier("qda", grid_minimum=0.5)

    copy = clone(model)

    assert is_classifier(model)
    assert copy.get_params() == {"method": "qda", "repair": "noise_aware", "grid_minimum": 0.5}
    assert model.set_params(method="lda") is model
    assert model.method == "lda"
    assert cross_val_score(model, *IRIS, cv=5).mean() > 0.95


def test_scikit_learn_searches_its_parameters():
    """It works in a pipeline and in a grid search, which finds that the irises' covariances differ."""
    search = GridSearchCV(
        make_pipeline(StandardScaler(), GaussianClassifier()),
        {"gaussianclassifier__method": ["lda", "qda"], "gaussianclassifier__repair": ["clip", "noise_aware"]},
    )

    search.fit(*IRIS)

    assert search.best_score_ > 0.95
    assert search.predict_proba(IRIS[0]).shape == (150, 3)


def test_samples_have_the_moments():
    """Synthetic rows have the classes' shares, means and covariances."""
    model = population(3, -0.25, equal=False)

    X, y = model.sample(100_000, random_state=3)

    assert X.shape == (100_000, 3)
    assert np.mean(y == "one") == pytest.approx(0.5, abs=0.01)
    for name, mean, covariance in zip(model.classes_, model.means_, model.covariances_, strict=True):
        assert X[y == name].mean(axis=0) == pytest.approx(mean, abs=0.03)
        assert np.cov(X[y == name].T) == pytest.approx(covariance, abs=0.04)


def test_seeds_make_samples():
    """One seed gives one sample, another seed another."""
    model = population(2, -0.25, equal=True)

    first, again, other = (model.sample(5, random_state=seed)[0].tolist() for seed in (1, 1, 2))

    assert first == again
    assert first != other


def test_degenerate_data_are_classified():
    """A constant column, and more columns than rows, give finite probabilities."""
    constant = GaussianClassifier("qda").fit([[0.0, 7], [1, 7], [4, 7], [5, 7]], [0, 0, 1, 1])
    wide = GaussianClassifier("lda").fit(np.eye(4, 9), [0, 0, 1, 1])

    assert constant.predict([[0.2, 7], [4.9, 7]]).tolist() == [0, 1]
    assert np.isfinite(wide.predict_proba(np.ones((2, 9)))).all()


@pytest.mark.parametrize("repair", ["noise_aware", "paper", "clip"])
def test_rows_far_from_every_class_have_probabilities(repair):
    """However far a row is, and however narrow the classes, its probabilities are numbers that add up to 1."""
    model = GaussianClassifier("qda", repair).fit([[1.0], [1.0], [2.0], [2.0]], [0, 0, 1, 1])

    found = model.predict_proba([[1e300], [-1e300], [1.7e308], [1.5]])

    assert found.sum(axis=1) == pytest.approx(1)


def test_a_label_that_is_no_class_is_an_error_of_the_score():
    """Rows of a class that the model does not know count as wrong."""
    model = GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], ["low", "low", "high", "high"])

    assert model.score([[0.0], [5.0]], ["low", "middle"]) == 0.5


GOOD = GaussianClassifier().fit(np.arange(8.0).reshape(4, 2), [0, 0, 1, 1])
REFUSED = {
    "text": (lambda: GOOD.predict([["a", "b"]]), "does not hold numbers"),
    "one dimension": (lambda: GOOD.predict([1.0, 2.0]), r"shape \(2,\), not \(rows, 2\)"),
    "another width": (lambda: GOOD.predict([[1.0, 2.0, 3.0]]), r"shape \(1, 3\), not \(rows, 2\)"),
    "missing": (lambda: GOOD.predict([[1.0, np.nan]]), "missing or infinite"),
    "infinite": (lambda: GOOD.predict([[1.0, np.inf]]), "missing or infinite"),
    "other labels": (lambda: GaussianClassifier().fit([[1.0], [2.0]], [1]), r"y has the shape \(1,\)"),
    "no rows": (lambda: GaussianClassifier().fit(np.empty((0, 2)), []), "X has 0 rows"),
    "flat rows": (lambda: GaussianClassifier().fit([1.0, 2.0], [1, 2]), r"not \(rows, columns\)"),
    "parameter": (lambda: GaussianClassifier().set_params(depth=3), "no parameter 'depth'"),
}


@pytest.mark.parametrize(("call", "match"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused(call, match):
    """What cannot be fitted or predicted is refused, with what to do."""
    with pytest.raises(ArgumentError, match=match):
        call()


def test_columns_of_a_frame_have_an_order_of_their_own():
    """A public frame without names that were fitted is taken as it stands."""
    frame = pd.DataFrame({"b": [0.0, 6.0], "a": [1.0, 7.0]})

    assert GOOD.predict(frame).tolist() == [0, 1]


def test_it_shows_itself_as_scikit_learn_does():
    """A fitted one knows its columns; a notebook shows the diagram, alone and in a pipeline."""
    rows = pd.DataFrame({"wide": [0.0, 1.0, 4.0, 5.0], "long": [1.0, 0.0, 5.0, 4.0]})
    model = GaussianClassifier()

    assert not hasattr(model, "feature_names_in_")
    model.fit(rows, ["low", "low", "high", "high"])

    assert model.feature_names_in_.tolist() == ["wide", "long"]
    assert model.predict(rows[["long", "wide"]]).tolist() == model.predict(rows).tolist()
    assert "GaussianClassifier" in model._repr_html_()
    assert "GaussianClassifier" in make_pipeline(StandardScaler(), model)._repr_html_()
