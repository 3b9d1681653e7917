"""The released coefficients as estimators of scikit-learn: they predict, and cannot be fitted again."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

import dfprivacy as dp

N = 4000
rng = np.random.default_rng(20_261_123)
X = rng.uniform(0, 10, N)
G = rng.choice(["a", "b"], N)
DATA = pd.DataFrame({"x": X, "g": G, "y": np.clip(X + 3 * (G == "b") + rng.normal(0, 1, N), 0, 15)})
DATA["e"] = (rng.random(N) < 1 / (1 + np.exp(5 - X))).astype(int)
FEATURES = DATA[["x", "g"]]


@pytest.fixture(scope="module")
def view():
    bounds = {"x": (0, 10), "y": (0, 15)}
    return dp.protect(
        DATA, "fit", epsilon=400, bounds=bounds, categories={"g": ["a", "b"], "e": [0, 1]}, ledger="memory:"
    )


@pytest.mark.parametrize(("method", "outcome", "kind"), [("ols", "y", is_regressor), ("logit", "e", is_classifier)])
def test_it_is_an_estimator(method, outcome, kind, view):
    """It is fitted, cloned, put into a pipeline, scored on parts, and shown as a diagram."""
    fit = getattr(view, method)(f"{outcome} ~ x + C(g)", epsilon=100)
    model = fit.estimator()

    check_is_fitted(model)
    assert kind(model)
    assert model.feature_names_in_.tolist() == ["x", "g"]
    assert model.n_features_in_ == 2
    assert model.get_params() == {"release": fit}
    assert clone(model).release is fit
    pipeline = make_pipeline(FunctionTransformer(), model)
    scores = cross_val_score(pipeline, FEATURES, DATA[outcome], cv=3)
    assert scores.min() > 0.7
    assert model.fit(FEATURES.iloc[:9], DATA[outcome][:9]).release is fit
    assert "ReleasedRegressor" in pipeline._repr_html_() or "ReleasedClassifier" in pipeline._repr_html_()
    assert type(model).__name__ in model._repr_html_()


def test_it_predicts_what_the_release_does(view):
    """Arrays of means and of probabilities, from frames and from arrays."""
    line, logit = view.ols("y ~ x + C(g)", epsilon=100), view.logit("e ~ x + C(g)", epsilon=100)

    mean, chance = line.estimator().predict(FEATURES), logit.estimator().predict_proba(FEATURES.to_numpy())

    assert line.predict(FEATURES)["mean"].tolist() == mean.tolist()
    assert logit.predict(FEATURES)["probability"].to_numpy() == pytest.approx(chance[:, 1])
    assert ((chance[:, 1] >= 0.5) == logit.estimator().predict(FEATURES)).all()


def test_what_is_no_table_of_its_regressors_is_refused(view):
    """An array has as many columns as there are regressors, and there is one parameter."""
    model = view.ols("y ~ x + C(g)", epsilon=100).estimator()

    with pytest.raises(dp.ArgumentError, match=r"not \(rows, 2\)"):
        model.predict(np.ones((3, 1)))
    with pytest.raises(ValueError, match="Invalid parameter 'C'"):
        model.set_params(C=1)


def test_scikit_learn_need_not_be_installed():
    """Nothing imports it before somebody makes a diagram."""
    script = "import sys; sys.modules['sklearn'] = None; import dfprivacy_regression, dfprivacy_gmm"

    run = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)

    assert (run.returncode, run.stderr) == (0, "")
