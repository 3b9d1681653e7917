"""What cannot be fitted or measured is refused, with what to write instead, before any charge."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_gmm import GaussianClassifier

ROWS = np.random.default_rng(1).uniform(-1, 1, (200, 2))
TABLE = pd.DataFrame(ROWS, columns=["x0", "x1"]).assign(y=["one", "two"] * 100, one="a", both=0)
KNOWN = {
    "bounds": {"x0": (-1, 1), "x1": (-1, 1), "both": (0, 1)},
    "categories": {"y": ["one", "two"], "one": ["a"], "both": [0, 1]},
}
CLASSES, MIXTURE, SKETCH = {"label": "y"}, {"n_components": 2}, {"max_components": 2}
MISSING = {"nan_policy": "raise"}, "would reveal whether a private value is missing"
FEW = "is not an integer from 1 to 50"
NO_RADIUS = "is not above 0"
ANY = [
    ({"columns": []}, "at least one column"),
    ({"columns": ["x0", "x0"]}, "each once"),
    ({"columns": ["x0", "z"]}, "no column 'z'"),
    ({"columns": ["x0", "y"]}, "is categorical"),
    MISSING,
]
REFUSED = [
    *(("gmm_fit", CLASSES | asked, words) for asked, words in ANY),
    *(("gmm_fit", MIXTURE | asked, words) for asked, words in ANY),
    *(("fourier_sketch", SKETCH | asked, words) for asked, words in ANY),
    *(("moments", asked, words) for asked, words in ANY),
    ("gmm_fit", {"label": "z"}, "no column 'z'"),
    ("gmm_fit", CLASSES | {"columns": "x0"}, "takes a list of columns"),
    ("gmm_fit", {"label": "x0"}, "has no categories"),
    ("gmm_fit", {"label": "one"}, "'one' has one category"),
    ("gmm_fit", {"columns": ["x0", "both"], "label": "both"}, "label='both' is also one of the columns"),
    ("gmm_fit", {}, "needs either"),
    ("gmm_fit", CLASSES | MIXTURE, "needs either"),
    *(("gmm_fit", CLASSES | {"method": each}, "is unknown") for each in ("tree", ["lda"])),
    ("gmm_fit", CLASSES | {"repair": "none"}, "repair='none' is unknown"),
    *(("gmm_fit", CLASSES | {"grid_minimum": each}, NO_RADIUS) for each in (0, -1, math.nan)),
    *(("gmm_fit", CLASSES | {"radius": each}, NO_RADIUS) for each in (0, math.inf, "far")),
    ("gmm_fit", CLASSES | {"radius": 1.5}, "is out of range"),
    ("gmm_fit", CLASSES | {"radius": 1, "delta": 0}, "needs Gaussian noise"),
    ("gmm_fit", CLASSES | {"queries": "separately", "radius": 1.0}, "joint measurement of all sums"),
    ("gmm_fit", CLASSES | {"queries": "one by one"}, "queries='one by one' is unknown"),
    ("gmm_fit", MIXTURE | {"queries": "separately"}, "queries= is an option of a fit with label="),
    *(("gmm_fit", {"n_components": each}, FEW) for each in (0, -1, 1.5, "many", True, 51)),
    *(("fourier_sketch", {"max_components": each}, FEW) for each in (0, 1.5, "many", None, True, 51)),
    *(("gmm_fit", MIXTURE | {"covariance_type": each}, "is unknown") for each in ("round", ["full"])),
    *(("gmm_fit", MIXTURE | {"restarts": each}, "is not an integer") for each in (0, True)),
    ("gmm_fit", MIXTURE | {"delta": 0}, "delta"),
    ("moments", {"by": "x0", "columns": ["x1"]}, "has no categories"),
    ("moments", {"columns": ["x0", "both"], "by": "both"}, "by='both' is also one of the columns"),
    ("moments", {"radius": 2}, "is out of range"),
    ("moments", {"radius": 1, "delta": 0}, "needs Gaussian noise"),
]


@pytest.fixture(scope="module")
def view():
    return dp.protect(TABLE, "refusals of gmm", epsilon=9, delta=0.1, ledger="memory:", **KNOWN)


@pytest.mark.parametrize(("method", "asked", "words"), REFUSED)
def test_a_question_is_refused_for_nothing(view, method, asked, words):
    """Whatever is wrong, nothing is spent."""
    with pytest.raises(dp.ArgumentError, match=words):
        getattr(view, method)(**{"columns": ["x0", "x1"], "epsilon": 1, "delta": 1e-6, **asked})
    assert view.budget.spent == 0


@pytest.fixture(scope="module")
def made():
    """A classifier, and releases of each kind."""
    view = dp.protect(TABLE, "answers of gmm", epsilon=9, delta=0.1, ledger="memory:", **KNOWN)
    asked = {"columns": ["x0", "x1"], "epsilon": 1, "delta": 1e-6}
    with seeded_noise(1):
        return {
            "classifier": GaussianClassifier().fit(np.arange(8.0).reshape(4, 2), [0, 0, 1, 1]),
            "classes": view.gmm_fit(label="y", **asked),
            "mixture": view.gmm_fit(n_components=2, **asked),
            "sketch": view.fourier_sketch(max_components=3, **asked),
        }


ROWS_REFUSED = [
    ([["a", "b"]], "does not hold numbers"),
    ([1.0, 2.0], r"shape \(2,\), not \(rows, 2\)"),
    ([[1.0, 2.0, 3.0]], r"shape \(1, 3\), not \(rows, 2\)"),
    ([[[0, 0]]], r"not \(rows, 2\)"),
    ([[1.0, math.nan]], "missing or infinite"),
    ([[1.0, math.inf]], "missing or infinite"),
]


@pytest.mark.parametrize(
    ("of", "call", "words"),
    [
        *(("classifier", lambda it, X=X: it.predict(X), words) for X, words in ROWS_REFUSED),
        *(("mixture", lambda it, X=X: it.predict(X), words) for X, words in ROWS_REFUSED),
        ("classifier", lambda it: it.fit([[1.0], [2.0]], [1]), r"y has the shape \(1,\)"),
        ("classifier", lambda it: it.fit(np.empty((0, 2)), []), "X has 0 rows"),
        ("classifier", lambda it: it.fit([1.0, 2.0], [1, 2]), r"not \(rows, columns\)"),
        ("classifier", lambda it: it.set_params(depth=3), "no parameter 'depth'"),
        ("classes", lambda it: it.refit(method="tree"), "method='tree' is unknown"),
        *(
            ("classes", lambda it, columns=columns: it.plot(columns=columns), "must be two fitted columns")
            for columns in (5, "x0", ("x0",), ("x0", "x0"), ("x0", "z"), ("x0", "x1", "x0"))
        ),
        ("mixture", lambda it: it.predict(pd.DataFrame({"x0": [0]})), "no column 'x1'"),
        *(("mixture", lambda it, n=n: it.sample(n), "is not an integer from 1 on") for n in (0, -1, 1.5, "many")),
        ("sketch", lambda it: it.fit(n_components=4), "at most 3"),  # more than its frequencies were chosen for
        ("sketch", lambda it: it.fit(n_components=0), "not an integer"),
        ("sketch", lambda it: it.fit(restarts=0), "restarts"),
        ("sketch", lambda it: it.fit(covariance_type="round"), "unknown"),
    ],
)
def test_what_an_answer_cannot_do_is_refused(made, of, call, words):
    """Rows that cannot be scored, options that do not exist, and more than a sketch resolves."""
    with pytest.raises(dp.ArgumentError, match=words):
        call(made[of])
