"""Logistic regressions: reference numbers, against plain maximum likelihood, their coverage, and bad input."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from dfprivacy import ArgumentError, DPError, Release, SchemaError
from dfprivacy.testing import seeded_noise
from dfprivacy_regression.design import Design
from dfprivacy_regression.least_squares import Moments, Sums
from dfprivacy_regression.scores import Information, LogisticScore, discriminant, sigmoid
from tests.regression.test_least_squares import G, H, X, Z, batch, exactly

BINARY = Design(H, (X, Z), (G,), success="q")
BOUNDS, KINDS = {"a": (-3, 3), "b": (0, 10)}, {"g": ["u", "v", "w"], "ill": ["no", "yes"]}


ILL = {"ill": ["no", "yes"]}


def table(rows=6000, seed=5, shift=-1.0, slope=0.7):
    """Make rows of whom some are ill, more of those with a large a and in v."""
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({"a": rng.normal(size=rows).clip(-3, 3), "b": rng.uniform(0, 10, rows)})
    df["g"] = rng.choice(["u", "v", "w"], rows)
    odds = shift + slope * df.a - 0.05 * df.b + 0.5 * (df.g == "v")
    df["ill"] = np.where(rng.random(rows) < 1 / (1 + np.exp(-odds)), "yes", "no")
    return df


@pytest.fixture
def ask(protect):
    """Protect a table for a logistic regression."""
    return lambda df, **said: protect(df, **{"bounds": BOUNDS, "categories": KINDS, **said})


def plain(df):
    """Fit by maximum likelihood, with its standard errors."""
    x = np.column_stack([np.ones(len(df)), df.a, df.b, df.g == "v", df.g == "w"]).astype(float)
    fit = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=1000).fit(x, df.ill == "yes")
    share = fit.predict_proba(x)[:, 1]
    return fit.coef_[0], np.sqrt(np.diag(np.linalg.inv(x.T @ (x * (share * (1 - share))[:, None]))))


def test_the_start_is_the_discriminant():
    """A thousand rows, 270 of them ill; the sums of x are 40 and 60, that of its square 112."""
    design = Design(H, (X,), (), success="q")
    moments = np.zeros(design.index().max() + 1)
    index = design.index()
    for (i, j), value in {(0, 0): 1000, (0, 1): 40, (1, 2): 60, (0, 2): 270, (1, 1): 112}.items():
        moments[index[i, j]] = value

    start = discriminant(exactly(design, moments))

    assert start == pytest.approx([-1.2424453425763726, 2.544055596922313], abs=1e-9)


@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize("design", [BINARY, Design(H, (), (G,), success="p"), Design(H, (X,), (), success="q")])
def test_the_matrix_is_that_of_the_rows(design, count):
    rows = batch()
    z = np.vstack([np.ones(rows.size), design.rows(rows)])
    sums = design.moments(count=count).rows(rows).sum(axis=0)

    known = Moments.of(design, None if count else rows.size, Sums(sums, np.zeros(len(sums)), len(sums)))

    assert known.matrix(known.moments) == pytest.approx(z @ z.T, abs=1e-3)


def test_the_information_is_that_of_the_rows():
    rows, b = batch(), np.array([0.2, -0.5, 0.7, 0.1, -0.3])
    x = np.vstack([np.ones(rows.size), BINARY.rows(rows)[:-1]])
    share = sigmoid(b @ x)

    score, weight = (LogisticScore(BINARY, b, information=information) for information in (False, True))
    sums = weight.top * weight.rows(rows).sum(axis=0)
    found = Information.of(BINARY, b, sums, 0.0, (weight.top * rows.size, 0.0))

    assert score.top * score.rows(rows).sum(axis=0) == pytest.approx(x @ (BINARY.rows(rows)[-1] - share))
    assert score.top == pytest.approx(sigmoid(np.array([1.8]))[0])
    assert weight.top == 1 / 4
    assert pytest.approx((x * share * (1 - share)) @ x.T) == found.H


def test_the_information_of_normal_regressors_follows_from_their_moments():
    """A hundred thousand rows: that of the model is that of the rows; noise gives it weight, and none is left."""
    rng, b = np.random.default_rng(3), np.array([-1.0, 2.0, -0.5])
    design = Design(H, (X, Z), (), success="q")
    x = np.vstack([np.ones(100_000), [[0.6], [1.0]] * rng.normal(size=(2, 100_000)) / 4 + [[0.1], [-0.3]]])
    x[2] += x[1] / 2
    z = np.vstack([x, rng.random(100_000) < sigmoid(b @ x)])
    moments = np.zeros(design.index().max() + 1)
    moments[design.index()] = z @ z.T
    share = sigmoid(b @ x)
    exact = (x * share * (1 - share)) @ x.T

    model = Information.expected(exactly(design, moments), b)
    noisy = Information(b, exact + 500.0, np.full((3, 3), 500.0**2))

    assert pytest.approx(exact, abs=100) == model.H
    assert abs(noisy.pooled(model).H - exact).max() < 450
    assert (noisy.pooled(model).noise < noisy.noise).all()
    assert (replace(noisy, noise=np.zeros((3, 3))).pooled(model).H == noisy.H).all()


@pytest.mark.parametrize("information", [False, True])
@pytest.mark.parametrize("far", [0.1, 1.0, 8.0, 1e6])
def test_no_row_moves_a_score_more(search, information, far):
    score = LogisticScore(BINARY, far * np.array([0.2, -0.5, 0.7, 0.1, -0.3]), information=information)
    columns = [H, X, Z, G]

    most = search(columns, 1).features(score, math.inf, tries=4, steps=100)
    drawn = search(columns, 2)
    rows = score.rows(drawn.batch(np.array([[drawn.drawn(each) for each in columns] for _ in range(500)])))

    assert 0.8 < most <= 1
    assert score.radius(math.inf) == 1
    assert abs(rows).max() <= 1


@pytest.mark.pandas
@pytest.mark.parametrize(
    ("constructor", "neighbors"),
    [
        ("pandas", "replace_one"),
        ("polars", "add_remove"),
        ("polars-lazy", "replace_one"),
        ("pyarrow", "add_remove"),
    ],
    indirect=["constructor"],
)
def test_with_much_to_spend_it_is_maximum_likelihood(constructor, ask, neighbors):
    params, errors = plain(table())

    fit = ask(constructor(table().to_dict("list")), neighbors=neighbors).logit("ill ~ a + b + C(g)", epsilon=1e4)

    assert [*fit.params] == ["Intercept", "a", "b", "C(g)[T.v]", "C(g)[T.w]"]
    assert [*fit.params.values()] == pytest.approx(params, abs=2e-3)
    assert [*fit.bse.values()] == pytest.approx(errors, rel=1e-2)
    assert fit.informative


def test_rows_with_gaps_are_left_out(ask):
    df = table()
    df.loc[::4, "a"] = np.nan
    params, _ = plain(df.dropna())

    fit = ask(df).logit("ill", ["a", "b", "g"], epsilon=1e4)

    assert [*fit.params.values()] == pytest.approx(params, abs=2e-3)
    assert fit.nobs == pytest.approx(4500, abs=1)


def test_the_other_category_turns_the_signs(ask):
    view = ask(table())

    yes, no = (view.logit("ill ~ a", success=each, epsilon=1e4) for each in ("yes", "no"))

    assert no.params["a"] == pytest.approx(-yes.params["a"], abs=1e-3)
    assert view.logit("g ~ a", success="v", epsilon=1e4).formula == "(g == 'v') ~ a"


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rows", "shift", "slope", "neighbors"),
    [(1000, -1.0, 0.7, "replace_one"), (6000, -1.0, 1.5, "add_remove"), (6000, -3.2, 0.7, "replace_one")],
)
def test_intervals_cover(ask, rows, shift, slope, neighbors):
    """Of 120 tables, a rare outcome, a strong slope, and rows that come and go among them."""
    fits = []
    for seed in range(120):
        df = table(rows, 100 + seed, shift, slope).assign(b=0.0)
        with seeded_noise(seed):
            fits.append(ask(df, neighbors=neighbors).logit("ill ~ a + C(g)", epsilon=2))

    assert sum(fit.low["a"] <= slope <= fit.high["a"] for fit in fits) >= 97  # below it: 1e-6


@pytest.mark.parametrize(
    ("bounds", "shift"), [((-60, 60), -1.0), ((0, 40), -5.0)], ids=["loose bounds", "a skewed regressor"]
)
def test_steps_that_end_too_early_are_said(ask, bounds, shift):
    """A fit that did not converge claims nothing, and the first line says so."""
    rng = np.random.default_rng(8)
    df = pd.DataFrame(rng.normal(size=(20_000, 2)).clip(-3, 3), columns=["a", "b"])
    df["a"] = np.exp(df["a"]) if bounds[0] == 0 else df["a"]
    df["ill"] = np.where(rng.random(20_000) < 1 / (1 + np.exp(-shift - 0.7 * df["a"])), "yes", "no")
    view = ask(df, bounds={"a": bounds, "b": (-3, 3)}, categories=ILL)

    for seed in range(10):
        with seeded_noise(seed):
            fit = view.logit("ill ~ a + b", epsilon=10, fresh=True)

        assert (fit.converged, fit.informative, fit.rejected["a"]) == (False, False, False)
        assert (fit.high["b"], fit.pvalues["b"]) == (math.inf, 1)
        assert "did not converge" in str(fit).splitlines()[0]
        assert Release.from_dict(fit.to_dict()) == fit


@pytest.mark.statistical
def test_few_events_claim_nothing(ask):
    """Of 40 tables with about 35 events: an irrelevant regressor is never significant, but by chance one in 100."""
    rng, rejected = np.random.default_rng(6), []
    for seed in range(40):
        df = pd.DataFrame(rng.normal(size=(5000, 2)).clip(-3, 3), columns=["a", "b"])
        df["ill"] = np.where(rng.random(5000) < 1 / (1 + np.exp(5 - 0.5 * df["a"])), "yes", "no")
        with seeded_noise(seed):
            fit = ask(df, bounds={"a": (-3, 3), "b": (-3, 3)}, categories=ILL).logit("ill ~ a + b", epsilon=3)
        rejected.append(fit.rejected["b"])

    assert fit.covers == "limited population"
    assert sum(rejected) <= 6  # more: 1e-6


def test_predictions_and_odds(ask):
    fit = ask(table()).logit("ill ~ a + b + C(g)", epsilon=1e4)
    params, _ = plain(table())

    found = fit.predict({"a": [0.0, 9.0], "b": 5.0, "g": ["u", "v"]})

    assert found["probability"].tolist() == pytest.approx(
        [1 / (1 + math.exp(-params @ each)) for each in ([1, 0, 5, 0, 0], [1, 3, 5, 1, 0])], abs=1e-3
    )
    assert fit.odds_ratios()["a"].low < math.exp(params[1]) < fit.odds_ratios()["a"].high
    assert "Intercept" not in fit.odds_ratios()
    assert fit.summary().splitlines()[2] == "(ill == 'yes') ~ a + b + C(g)"


def test_hardly_any_budget_says_so(ask):
    fit = ask(table()).logit("ill ~ a", epsilon=1e-4)

    assert not fit.informative
    assert "Uninformative" in repr(fit)
    assert Release.from_dict(fit.to_dict()) == fit


def test_it_is_explained(ask):
    """Few rows may tell nothing, and more rows tell more."""
    none, few, many = (
        ask(table(rows)).explain("logit", "ill ~ a", epsilon=1).findings for rows in (100, 6000, 60_000)
    )

    assert (none["stages"][-18:], many["stages"][-19:]) == ("one step of Newton", "two steps of Newton")
    assert none["expected relative error"].startswith("not known")
    assert few["expected standard error of a"] > many["expected standard error of a"] > 0
    assert few["expected relative error"] > many["expected relative error"] > 0


@pytest.mark.statistical
def test_errors_are_as_expected(ask):
    """Of 60 tables: the error is within a quarter, and seven of its errors, of what explain says."""
    found = []
    for seed in range(60):
        df = table(6000, seed, 0.0, 0.0).assign(b=0.0, g="u")
        df["ill"] = np.random.default_rng(seed).choice(["no", "yes"], len(df))
        with seeded_noise(seed):
            found.append(ask(df).logit("ill ~ a", epsilon=1).params["a"])

    said = ask(df).explain("logit", "ill ~ a", epsilon=1).findings["expected standard error of a"]

    assert math.sqrt(np.mean(np.square(found))) == pytest.approx(said, rel=0.25 + 7 / math.sqrt(2 * 60))


def test_a_step_allows_for_the_information_on_the_way():
    """From 0 towards a rare outcome, the information falls: so the step is longer, and near the maximum."""
    n, rare = 1000.0, 30.0
    information = Information(np.zeros(1), np.array([[n / 4]]), np.zeros((1, 1)))
    near = Information(np.array([-3.0]), np.array([[n * 0.0452]]), np.zeros((1, 1)))
    score = rare - n * float(sigmoid(np.array([-3.0]))[0])

    step = near.step(np.array([score]))

    assert information.step(np.array([5.0])) == pytest.approx([0.02], abs=1e-4)
    assert -3 + step[0] == pytest.approx(math.log(rare / (n - rare)), abs=0.03)
    assert abs(-3 + score / near.H[0, 0] - math.log(rare / (n - rare))) > 0.03


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"y": "ill ~ log(a)"}, ArgumentError),
        ({"y": "b ~ a"}, SchemaError),
        ({"y": "g ~ a"}, ArgumentError),
        ({"y": "ill ~ ill"}, ArgumentError),
        ({"y": "ill ~ a", "success": "perhaps"}, DPError),
        ({"y": "ill ~ a", "nan_policy": "raise"}, ArgumentError),
        ({"y": "ill", "x": []}, ArgumentError),
    ],
)
def test_bad_input_costs_nothing(ask, asked, error):
    view = ask(table(100))

    with pytest.raises(error):
        view.logit(**asked, epsilon=1)

    assert view.budget.spent == 0


@pytest.mark.parametrize("outcome", ["no", "yes", None])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_one_outcome_alone(ask, outcome, neighbors):
    """Nobody, everybody or nothing known: an answer, and no error that would tell."""
    fit = ask(table(50).assign(ill=outcome), neighbors=neighbors).logit("ill ~ a", epsilon=1)

    assert all(math.isfinite(value) for value in fit.params.values())


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows(ask, rows):
    assert not ask(table(10).head(rows), neighbors="add_remove").logit("ill ~ a", epsilon=1).informative


@pytest.mark.statistical
def test_regressors_that_are_one_are_never_told_apart(ask):
    """Nothing is known of either of two columns alike, however small the noise of the score; of others it is."""
    rng = np.random.default_rng(12)
    df = table(2000, slope=0.0)
    df["same"] = df["a"]
    rejected, free = [], 0
    for seed in range(50):
        df["ill"] = rng.choice(["no", "yes"], len(df))
        with seeded_noise(seed):
            fit = ask(df, bounds={**BOUNDS, "same": (-3, 3)}).logit("ill", ["a", "same"], epsilon=1)
        rejected += [fit.rejected["a"], fit.rejected["same"]]
        free += math.isinf(fit.high["a"])

        assert not fit.informative

    assert np.isfinite(fit.predict({"a": [1, -1], "same": [1, -1]}).to_numpy()).all()
    assert free > 40
    assert np.mean(rejected) < 0.1
