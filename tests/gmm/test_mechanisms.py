"""``view.gmm_fit`` through the whole house."""

from __future__ import annotations

import copy
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
from sklearn.base import clone, is_classifier
from sklearn.model_selection import cross_val_score
from sklearn.utils.validation import check_is_fitted

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_gmm import GaussianClasses, GaussianClassifier

NAMES = (f"gmm-{number}" for number in itertools.count())
BOUNDS = (-2.95, 3.45)
PLENTY = 50  # an epsilon at which the noise is far smaller than what is compared


def drawn(d, rows, *, equal=True, seed=1):
    """Rows of the experiments of Tong et al., with the sign of Table 2, and their labels."""
    rng = np.random.default_rng(seed)
    y = rng.choice(["one", "two"], rows)
    z = rng.standard_normal((rows, d))
    own = z @ np.linalg.cholesky(0.64 * (0.5 * np.eye(d) + 0.5)).T
    return np.where((y == "one")[:, None], 0.75 + (own if equal else z), -0.25 + own), y


def protect(X, y, engine=pd.DataFrame, **terms):
    """A view, and its columns."""
    names = [f"x{i}" for i in range(X.shape[1])]
    table = {**dict(zip(names, X.T, strict=True)), "y": y}
    terms = {
        "epsilon": 10**6,
        "delta": 0.1,
        "accounting": "basic",
        "ledger": "memory:",
        "bounds": dict.fromkeys(names, BOUNDS),
        "categories": {"y": ["one", "two"]},
        **terms,
    }
    return dp.protect(engine(table), next(NAMES), **terms), names


def fit(X, y, *, seed=1, delta=1e-6, terms=None, **asked):
    view, names = protect(X, y, **(terms or {}))
    with seeded_noise(seed):
        return view.gmm_fit(names, "y", delta=delta, **{"epsilon": 1, **asked})


SMALL = drawn(2, 3000)
RELATIONS = {
    "public size": {"neighbors": "replace_one"},
    "private size": {"neighbors": "add_remove"},
    "public groups": {"public": ["y"]},
}


# The noise is what the reference says.


@pytest.mark.parametrize(
    ("delta", "epsilon", "scale"),
    [
        (1e-6, 0.1, 36.305), (1e-6, 0.5, 8.0576), (1e-6, 0.6, 6.7963), (1e-6, 1, 4.2247),
        (1e-5, 0.1, 30.750), (1e-5, 0.5, 7.0318), (1e-5, 0.6, 5.9496), (1e-5, 1, 3.7306),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("neighbors", "sensitivity"), [("add_remove", 1.5), ("replace_one", math.sqrt(4.5))])
def test_the_noise_is_the_analytic_gaussian(delta, epsilon, scale, neighbors, sensitivity):
    """One scale for all sums: that of the analytic Gaussian mechanism at 1.5 r, or √4.5 r, over the weights."""
    r = math.sqrt(2)

    found = fit(*SMALL, epsilon=epsilon, delta=delta, terms={"neighbors": neighbors})

    size, *totals, square, product, _ = found.noise_standard_error / (scale * sensitivity * r)
    assert found.radius == pytest.approx(r)
    assert size == pytest.approx(2 / r, rel=1e-3)
    assert totals == pytest.approx([1, 1], rel=1e-3)
    assert (square, product) == pytest.approx((r, r / math.sqrt(2)), rel=1e-3)
    assert found.privacy.noise[0].sensitivity == pytest.approx(sensitivity * r, rel=1e-3)


@pytest.mark.parametrize(("neighbors", "times"), [("add_remove", 1), ("replace_one", 2)])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_pure_noise_is_laplaces(neighbors, times, d):
    """Without a delta, of scale (d/2 + d + d (d+1)/4)/ε over the weights, twice that for a row that changes."""
    sensitivity = times * (d / 2 + d + d * (d + 1) / 4)

    found = fit(*drawn(d, 500), epsilon=0.5, delta=0, terms={"neighbors": neighbors})

    assert found.radius is None
    assert found.privacy.delta == 0
    assert found.privacy.noise[0].kind == "discrete Laplace"
    assert found.noise_standard_error[:2] == pytest.approx(
        math.sqrt(2) * sensitivity / 0.5 / np.array([d / 2, 1]), rel=1e-3
    )
    assert found.noise_standard_error[d + 1 :] == pytest.approx(math.sqrt(2) * sensitivity / 0.5 / 0.5, rel=1e-3)


def test_public_classes_cost_less():
    """Rows that cannot change class have public sizes, and no noise in them, if missing values are filled."""
    found = fit(*SMALL, terms={"public": ["y"]}, nan_policy="fill")

    assert found.public_sizes
    assert found.sizes.tolist() == [int((SMALL[1] == name).sum()) for name in ("one", "two")]
    assert found.released.shape == (2, 5)


# The fit is that of the data.


@pytest.mark.parametrize("engine", [pd.DataFrame, pl.DataFrame, pl.LazyFrame])
@pytest.mark.parametrize("terms", RELATIONS.values(), ids=RELATIONS)
@pytest.mark.parametrize("method", ["lda", "qda"])
def test_with_a_huge_epsilon_it_is_the_fit_without_privacy(engine, terms, method):
    """Priors, means and covariances are those of the rows as clipped to the bounds."""
    X, y = drawn(2, 30_000)
    reference = GaussianClassifier(method).fit(np.clip(X, *BOUNDS), y)

    view, names = protect(X, y, engine, **terms)
    found = view.gmm_fit(names, "y", method=method, radius=math.sqrt(2), epsilon=PLENTY, delta=1e-6)

    assert found.method == method
    assert found.classes_.tolist() == ["one", "two"]
    assert found.priors_ == pytest.approx(reference.priors_, abs=1e-3)
    assert found.means_ == pytest.approx(reference.means_, abs=3e-3)
    assert found.covariances_ == pytest.approx(reference.covariances_, abs=6e-3)
    assert np.mean(found.predict(X) == reference.predict(X)) > 0.995


@pytest.mark.statistical
def test_linear_errors_of_the_experiments():
    """Five columns, 20,000 rows, ε = 0.6 in all: an error of .207 to .216, where .2099 is the least there is."""
    test = drawn(5, 100_000, seed=99)

    errors = [1 - fit(*drawn(5, 20_000, seed=s), seed=s, epsilon=0.6).score(*test) for s in range(5)]

    assert 0.207 <= np.mean(errors) <= 0.216


@pytest.mark.statistical
def test_quadratic_errors_of_the_experiments():
    """Ten columns, 50,000 rows, ε = 1 in all: an error of .065 at most, where .0588 is the least there is."""
    test = drawn(10, 100_000, equal=False, seed=99)

    errors = [1 - fit(*drawn(10, 50_000, equal=False, seed=s), seed=s, method="qda").score(*test) for s in range(3)]

    assert 0.055 <= np.mean(errors) <= 0.065


@pytest.mark.statistical
def test_quadratic_errors_without_a_delta():
    """Laplace noise costs more: the same experiment errs for about .071."""
    test = drawn(10, 100_000, equal=False, seed=99)
    tables = [drawn(10, 50_000, equal=False, seed=s) for s in range(3)]

    errors = [1 - fit(*table, seed=s, method="qda", delta=0).score(*test) for s, table in enumerate(tables)]

    assert 0.066 <= np.mean(errors) <= 0.077


@pytest.mark.statistical
def test_standard_errors_hold():
    """Over 300 releases of one table the means spread as the standard errors without sampling say, to 20%."""
    view, names = protect(*SMALL)
    with seeded_noise(5):
        found = [view.gmm_fit(names, "y", epsilon=1, delta=1e-6, fresh=True) for _ in range(300)]

    means, covariances = found[0].standard_errors(sampling=False)
    assert np.std([each.means for each in found], axis=0) == pytest.approx(means, rel=0.2)
    assert covariances.shape == (1, 2, 2)
    assert (found[0].standard_errors()[0] > means).all()


# It is a release, and a classifier.


@pytest.mark.parametrize("terms", RELATIONS.values(), ids=RELATIONS)
def test_json_and_back(terms):
    """A trip through JSON changes nothing: neither the numbers nor what it predicts, nor a fit again."""
    found = fit(*SMALL, terms=terms)

    again = dp.Release.from_dict(json.loads(json.dumps(found.to_dict())))

    assert type(again) is GaussianClasses
    assert again.to_dict() == found.to_dict()
    assert again.predict_proba(SMALL[0]).tolist() == found.predict_proba(SMALL[0]).tolist()
    assert again.refit(method="qda").covariances.tolist() == found.refit(method="qda").covariances.tolist()


def test_a_fit_again_costs_nothing_and_uses_the_same_sums():
    """Refitting with what was asked gives the same; with another method what that would have given."""
    view, names = protect(*SMALL)
    with seeded_noise(3):
        found = view.gmm_fit(names, "y", epsilon=1, delta=1e-6)
    spent = view.budget.spent

    same, other = found.refit(), found.refit(method="qda", repair="paper", grid_minimum=0.5)

    assert same.to_dict() == found.to_dict()
    assert (other.method, other.repair, other.grid_minimum) == ("qda", "paper", 0.5)
    assert other.released is found.released
    assert other.covariances.shape == (2, 2, 2)
    assert view.budget.spent == spent


def test_scikit_learn_takes_the_release_for_a_classifier():
    """It cross-validates on public data: its clone is the same model without privacy."""
    found = fit(*SMALL, method="qda")

    copied = clone(found)

    assert is_classifier(found)
    assert type(copied) is GaussianClassifier
    assert copied.get_params() == {"method": "qda", "repair": "noise_aware", "grid_minimum": 0.01}
    assert cross_val_score(found, *SMALL, cv=3).mean() == pytest.approx(0.76, abs=0.05)
    assert (found.n_features_in_, found.feature_names_in_.tolist()) == (2, ["x0", "x1"])
    assert found.fit(*SMALL).predict(SMALL[0][:5]).shape == (5,)
    check_is_fitted(found)
    assert copy.deepcopy(found).to_dict() == found.to_dict()


def test_columns_of_a_frame_are_found_by_name():
    """A public frame may have its columns in another order, and others."""
    found = fit(*SMALL)
    X = SMALL[0][:100]

    for library in (pd.DataFrame, pl.DataFrame):
        frame = library({"z": X[:, 0], "x1": X[:, 1], "x0": X[:, 0]})

        assert found.predict(frame).tolist() == found.predict(X).tolist()


def test_samples_are_in_the_columns_units():
    """Synthetic rows have the fitted means."""
    found = fit(*SMALL)

    X, y = found.sample(50_000, random_state=1)

    for name, mean in zip(found.classes, found.means, strict=True):
        assert X[y == name].mean(axis=0) == pytest.approx(mean, abs=0.03)


def test_a_fit_has_a_picture():
    """It shows the mean and two ellipses of each class, over the bounds, of any two columns."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    found = fit(*drawn(3, 3000), method="qda")

    for columns, place in ((None, [0, 1]), (("x2", "x0"), [2, 0]), (["x1", "x2"], [1, 2])):
        ax = found.plot(columns=columns)

        ax.figure.canvas.draw()
        points = {line.get_label(): [line.get_xdata()[0], line.get_ydata()[0]] for line in ax.lines}
        assert points["y = one"] == found.means[0, place].tolist()
        assert points["y = two"] == found.means[1, place].tolist()
        assert len(ax.lines) == 6
        assert list(ax.get_xlim()) == pytest.approx(BOUNDS)
        pyplot.close(ax.figure)


@pytest.mark.parametrize("columns", [5, "x0", ("x0",), ("x0", "x0"), ("x0", "z"), ("x0", "x1", "x0")])
def test_a_picture_is_of_two_columns(columns):
    """Anything else is refused."""
    pytest.importorskip("matplotlib")
    found = fit(*SMALL)

    with pytest.raises(dp.ArgumentError, match="are not two columns of the fit"):
        found.plot(columns=columns)


def test_explain_says_how_exact_the_means_would_be():
    """Of equal classes, the noise in the means in each column's unit; with private sizes, the rows for 1%."""
    asked = {"columns": ["x0", "x1"], "label": "y", "epsilon": 0.5, "delta": 1e-6}
    public, _ = protect(*SMALL, epsilon=1)
    private, _ = protect(*SMALL, epsilon=1, neighbors="add_remove")
    noise = 8.0576 * math.sqrt(2) * math.sqrt(4.5) / 1500 * 3.2

    found = public.explain("gmm_fit", **asked)

    (said,) = found.findings.values()
    assert said == pytest.approx({"x0": noise, "x1": noise}, rel=1e-3)
    (rows,) = private.explain("gmm_fit", **asked).findings.values()
    assert rows == pytest.approx(100 * 8.0576 * math.sqrt(2) * 1.5, rel=2e-3)
    assert public.budget.spent == private.budget.spent == 0


# Whatever the noise does, there is a sensible answer.


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_noise_makes_it_fail(data):
    """For any noisy sums a fit has finite numbers, priors that add up to 1, probabilities, samples and errors."""
    d = data.draw(st.integers(1, 4))
    public = data.draw(st.booleans())
    shape = (2, d * (d + 3) // 2 + (not public))
    size = data.draw(st.sampled_from([0.0, 1e-6, 1.0, 1e6, 1e15]))
    released = size * np.array(
        data.draw(st.lists(st.floats(-1, 1), min_size=math.prod(shape), max_size=math.prod(shape)))
    ).reshape(shape)
    blank = GaussianClasses(
        columns=tuple(f"x{i}" for i in range(d)),
        label="y",
        classes=("one", "two"),
        method="lda",
        repair="clip",
        grid_minimum=0.01,
        radius=1.0,
        sizes=np.array([0.0, 5.0]) if public else released[:, 0],
        priors=np.ones(2),
        means=np.zeros((2, d)),
        covariances=np.ones((1, d, d)),
        estimated_covariances=np.ones((1, d, d)),
        notes=(),
        released=released,
        noise_standard_error=np.full(shape[1], data.draw(st.sampled_from([1e-3, 10.0, 1e9]))),
        public_sizes=public,
        bounds=((0.0, 1.0),) * d,
    )

    for method, repair in itertools.product(["lda", "qda"], ["noise_aware", "shrink", "paper", "clip"]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = blank.refit(method=method, repair=repair)
            probabilities = found.predict_proba(np.array([[0.5] * d, [1e6] * d]))
            rows, _ = found.sample(10, random_state=1)
            errors = found.standard_errors()

        for numbers in (found.means, found.covariances, found.priors, probabilities, rows, *errors):
            assert np.isfinite(numbers).all()
        assert found.priors.sum() == pytest.approx(1)
        assert probabilities.sum(axis=1) == pytest.approx(1)
        assert found.means.min() >= 0
        assert found.means.max() <= 1
        json.dumps(found.to_dict())


@pytest.mark.parametrize("terms", RELATIONS.values(), ids=RELATIONS)
@pytest.mark.parametrize("method", ["lda", "qda"])
def test_a_class_that_never_occurs_is_named(terms, method):
    """It gets an answer like the others, and a note says that it is uninformative."""
    X, y = SMALL

    found = fit(X, y, method=method, terms={**terms, "categories": {"y": ["one", "two", "three"]}})

    assert any(note.startswith("y = three: ") for note in found.notes)
    assert not any(note.startswith(("y = one", "y = two")) for note in found.notes)
    assert found.priors[2] < 0.05
    assert np.isfinite(found.predict_proba(X)).all()
    assert np.mean(found.predict(X) == y) > 0.7


def test_too_little_data_are_uninformative():
    """Where rows are fewer than columns, or than the noise, the answer says so."""
    X, y = drawn(8, 6)

    found = fit(X, y, epsilon=0.1)

    assert len(found.notes) >= 2
    known = ("mostly noise", "say nothing", "too few", "hardly a row")
    assert all(any(words in note for words in known) for note in found.notes)
    assert np.isfinite(found.predict_proba(X)).all()


def test_an_empty_table_is_answered():
    """No rows at all are uninformative where their number is private."""
    found = fit(np.empty((0, 2)), np.empty(0, dtype=str), terms={"neighbors": "add_remove"})

    assert found.notes != ()
    assert np.isfinite(found.predict_proba([[0.0, 0.0]])).all()


def test_a_constant_column_changes_little():
    """A column of one value is fitted, and does not spoil the others."""
    X, y = drawn(2, 20_000)
    X = np.column_stack([X, np.full(len(X), 1.0)])

    found = fit(X, y)

    assert found.score(X, y) == pytest.approx(0.765, abs=0.02)
    assert found.means[:, 2] == pytest.approx([1, 1], abs=0.02)


def test_rows_at_the_end_of_their_bounds_are_noted():
    """Columns that are 0 for most make rows long: with a radius that scales them down a note says so."""
    rng = np.random.default_rng(6)
    X = np.where(rng.random((5000, 3)) < 0.9, 0, rng.uniform(0, 100, (5000, 3)))
    terms = {"bounds": dict.fromkeys(["x0", "x1", "x2"], (0, 100))}
    y = rng.choice(["one", "two"], 5000)

    whole, scaled = fit(X, y, terms=terms), fit(X, y, terms=terms, radius=0.6 * math.sqrt(3))

    assert any("middle of the bounds: use radius=3**0.5" in note for note in scaled.notes)
    assert whole.notes == ()


def test_unseen_labels_count_nowhere():
    """Rows with a label that is no category are left out, and belong to no class."""
    X, y = drawn(2, 6000)
    labels = np.where(np.arange(6000) % 3 == 0, "else", y)

    found = fit(X, labels, epsilon=PLENTY)

    assert found.sizes.sum() == pytest.approx(4000, abs=1)


def test_many_classes_and_columns():
    """Fifty classes of a hundred columns are fitted and described."""
    rng = np.random.default_rng(8)
    y = np.repeat(np.arange(50), 200)
    X = np.clip(rng.normal(size=(10_000, 100)) + y[:, None] / 25 - 1, *BOUNDS)

    found = fit(X, y, terms={"categories": {"y": list(range(50))}}, epsilon=PLENTY)

    assert found.released.shape == (50, 5151)
    assert found.covariances.shape == (1, 100, 100)
    assert found.score(X, y) > 0.2  # by rng: 0.02


# What is refused, before any charge.

REFUSED = {
    "no such label": ({"label": "z"}, "no column 'z'"),
    "no columns": ({"columns": []}, "at least one column"),
    "twice": ({"columns": ["x0", "x0"]}, "each once"),
    "one name": ({"columns": "x0"}, "takes a list of columns"),
    "a category": ({"columns": ["x0", "y"]}, "is categorical"),
    "a number for a label": ({"label": "x0"}, "has no categories"),
    "method": ({"method": "tree"}, "method='tree' is unknown"),
    "a list for a method": ({"method": ["lda"]}, "is unknown"),
    "repair": ({"repair": "none"}, "repair='none' is unknown"),
    "grid minimum 0": ({"grid_minimum": 0}, "grid_minimum=0 is not above 0"),
    "grid minimum below 0": ({"grid_minimum": -1}, "grid_minimum=-1 is not above 0"),
    "grid minimum NaN": ({"grid_minimum": math.nan}, "grid_minimum=nan is not above 0"),
    "radius 0": ({"radius": 0}, "radius=0 is not above 0"),
    "radius too large": ({"radius": 1.5}, "is out of range"),
    "radius infinite": ({"radius": math.inf}, "radius=inf is not above 0"),
    "radius text": ({"radius": "far"}, "radius='far' is not above 0"),
    "radius without delta": ({"radius": 1, "delta": 0}, "belongs to Gaussian noise"),
}


@pytest.mark.parametrize(("asked", "match"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_uncharged(asked, match):
    """What cannot be fitted is refused, and nothing is spent."""
    view, names = protect(*SMALL)

    with pytest.raises(dp.ArgumentError, match=match):
        view.gmm_fit(**{"columns": names, "label": "y", "epsilon": 1, "delta": 1e-6, **asked})

    assert view.budget.spent == 0


def test_one_class_is_refused():
    """There is nothing to tell apart."""
    view, names = protect(*SMALL, categories={"y": ["one"]})

    with pytest.raises(dp.ArgumentError, match="'y' has one category"):
        view.gmm_fit(names, "y", epsilon=1, delta=1e-6)

    assert view.budget.spent == 0


def test_a_label_among_the_columns_is_refused():
    """A column that is known as a number and by its categories can be either, but not both at once."""
    X, y = SMALL
    terms = {"bounds": {"x0": BOUNDS, "x1": BOUNDS, "y": (0, 1)}, "categories": {"y": [0, 1]}}
    view, names = protect(X, (y == "one").astype(int), **terms)

    with pytest.raises(dp.ArgumentError, match="label='y' is among the columns"):
        view.gmm_fit([*names, "y"], "y", epsilon=1, delta=1e-6)
    with pytest.raises(dp.ArgumentError, match="by='y' is among the columns"):
        view.moments([*names, "y"], by="y", epsilon=1, delta=1e-6)

    assert view.budget.spent == 0
    assert view.moments([*names, "y"], epsilon=1, delta=1e-6).columns == ("x0", "x1", "y")


def test_a_fit_again_is_refused_what_a_fit_is():
    """An unknown method is as wrong afterwards."""
    found = fit(*SMALL)

    with pytest.raises(dp.ArgumentError, match="method='tree' is unknown"):
        found.refit(method="tree")
