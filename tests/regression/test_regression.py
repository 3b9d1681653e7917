"""Regressions through the whole house: against plain least squares and maximum likelihood, and with bad input."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

import dfprivacy as dp
from dfprivacy import ArgumentError, DPError
from dfprivacy_regression.result import collinear_note

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
import real  # noqa: E402 - what was asked for the page

NAMES = (f"regression-{at}" for at in itertools.count())
LINE, ODDS = "y ~ a + b + C(g)", "ill ~ a + b + C(g)"
TERMS = ["Intercept", "a", "b", "C(g)[T.v]", "C(g)[T.w]"]
BOUNDS = {"a": (-3, 3), "b": (0, 10), "y": (-20, 30), "gaps": (-3, 3), "same": (-3, 3), "flat": (0, 2)}
CATEGORIES = {"g": ["u", "v", "w"], "h": ["p", "q"], "one": ["k"], "both": [0, 1], "ill": ["no", "yes"]}
COME = {"neighbors": "add_remove"}


def table(rows=4000, seed=3, shift=-1.0, slope=0.7):
    """Rows of which y depends on a, b and g, its spread on a; and whether somebody is ill on them as well."""
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({"a": rng.normal(size=rows).clip(-3, 3), "b": rng.uniform(0, 10, rows)})
    df["g"] = rng.choice(["u", "v", "w"], rows, p=[0.5, 0.3, 0.2])
    df["h"] = rng.choice(["p", "q"], rows)
    df["one"], df["flat"], df["same"] = "k", 1.0, df["a"]
    noise = rng.normal(size=rows) * np.sqrt(0.25 + 0.75 * df["a"] ** 2)
    df["y"] = 1 + 2 * df["a"] - 0.5 * df["b"] + 3 * (df["g"] == "v") + noise
    df["gaps"] = df["a"].where(rng.random(rows) > 0.2)
    odds = shift + slope * df["a"] - 0.05 * df["b"] + 0.5 * (df["g"] == "v")
    df["both"] = (rng.random(rows) < 1 / (1 + np.exp(-odds))).astype(int)  # a number and categories
    df["ill"] = np.where(df["both"], "yes", "no")
    return df


WHOLE = table()


def protect(df=WHOLE, **said):
    """Protect a table, for as much as is asked."""
    known = {"bounds": {**BOUNDS, "both": (0, 1)}, "categories": CATEGORIES}
    known = {kind: {name: each for name, each in of.items() if name in df} for kind, of in known.items()}
    return dp.protect(df, next(NAMES), **{"epsilon": 10**6, "ledger": "memory:", **known, **said})


def matrix(df, *regressors):
    """The regressors of plain fits, each category but the first a column."""
    columns = pd.get_dummies(df[[*regressors]], drop_first=True, dtype=float)
    return np.column_stack([np.ones(len(df)), columns.astype(float)])


def plain(df, *regressors):
    """Least squares, with robust covariance, by NumPy."""
    df = df.dropna(subset=["y", *regressors])
    x = matrix(df, *regressors)
    inverse = np.linalg.inv(x.T @ x)
    params = inverse @ x.T @ df["y"].to_numpy()
    residuals = df["y"].to_numpy() - x @ params
    meat = (x * residuals[:, None] ** 2).T @ x
    return params, np.sqrt(np.diag(inverse @ meat @ inverse)), 1 - residuals.var() / df["y"].to_numpy().var()


def likely(df, *regressors):
    """Maximum likelihood, with its standard errors."""
    x = matrix(df, *regressors)
    fit = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=1000).fit(x, df["ill"] == "yes")
    share = fit.predict_proba(x)[:, 1]
    return fit.coef_[0], np.sqrt(np.diag(np.linalg.inv(x.T @ (x * (share * (1 - share))[:, None]))))


def values(named):
    return [*named.values()]


# With much to spend they are the plain fits.


@pytest.mark.parametrize("terms", [{}, COME], ids=["replace_one", "add_remove"])
def test_with_much_to_spend_it_is_least_squares(terms):
    """Coefficients, robust errors, R² and rows; and what is predicted, refused of regressors that are none."""
    params, errors, rsquared = plain(WHOLE, "a", "b", "g")

    fit = protect(**terms).ols(LINE, epsilon=5e3 if terms else 1e5)
    found = fit.predict({"a": [0.0, 99.0], "b": 5.0, "g": ["u", "v"]})

    assert [*fit.params] == TERMS
    assert values(fit.params) == pytest.approx(params, abs=5e-3)
    assert values(fit.bse) == pytest.approx(errors, rel=5e-2 if terms else 1e-2)
    assert fit.rsquared == pytest.approx(rsquared, abs=2e-3)
    assert fit.nobs == pytest.approx(4000, abs=0.5)
    assert (fit.stages, fit.robust, fit.informative) == ("two", True, True)
    assert fit.summary().splitlines()[2] == LINE
    assert [line.split()[0] for line in fit.summary().splitlines()[9:14]] == TERMS
    assert fit.to_frame()["term"].tolist() == TERMS
    assert fit.conf_int()["a"].low == fit.low["a"]
    assert found["mean"].tolist() == pytest.approx([params @ [1, 0, 5, 0, 0], params @ [1, 3, 5, 1, 0]], abs=1e-2)
    assert (found["low"] < found["mean_low"]).all()
    for rows, said in (
        ({"a": 1, "b": 2}, "no value for 'g'"),
        ({"a": 1, "b": 2, "g": "z"}, "is not a category"),
        ({"a": math.nan, "b": 2, "g": "u"}, "missing"),
    ):
        with pytest.raises(ArgumentError, match=said):
            fit.predict(rows)


@pytest.mark.parametrize("terms", [{}, COME], ids=["replace_one", "add_remove"])
def test_with_much_to_spend_it_is_maximum_likelihood(terms):
    """Coefficients and errors, probabilities and odds, of either outcome."""
    params, errors = likely(WHOLE, "a", "b", "g")
    view = protect(**terms)

    fit, no = (view.logit(ODDS, success=success, epsilon=1e4) for success in (None, "no"))
    found = fit.predict({"a": [0.0, 9.0], "b": 5.0, "g": ["u", "v"]})

    assert [*fit.params] == TERMS
    assert values(fit.params) == pytest.approx(params, abs=3e-3)
    assert values(fit.bse) == pytest.approx(errors, rel=1e-2)
    assert fit.informative
    assert no.params["a"] == pytest.approx(-fit.params["a"], abs=3e-3)
    assert found["probability"].tolist() == pytest.approx(
        [1 / (1 + math.exp(-params @ each)) for each in ([1, 0, 5, 0, 0], [1, 3, 5, 1, 0])], abs=2e-3
    )
    assert fit.odds_ratios()["a"].low < math.exp(params[1]) < fit.odds_ratios()["a"].high
    assert "Intercept" not in fit.odds_ratios()
    assert fit.summary().splitlines()[2] == "(ill == 'yes') ~ a + b + C(g)"
    assert view.logit("g ~ a", success="v", epsilon=1e4).formula == "(g == 'v') ~ a"


@pytest.mark.parametrize("terms", [{}, COME], ids=["replace_one", "add_remove"])
@pytest.mark.parametrize("asked", ["all", "where", "groups"])
def test_rows_with_gaps_are_left_out(terms, asked):
    """Of all rows, of some, and by group."""
    view, df = protect(**terms), WHOLE if asked == "all" else WHOLE[WHOLE.h == "q"]
    part = {"all": lambda: view, "where": lambda: view.where(h="q"), "groups": lambda: view.group_by("h")}[asked]()
    line, odds = part.ols("y ~ gaps + b", epsilon=1e4), part.logit("ill", ["gaps", "b"], epsilon=1e4)
    line, odds = (line["q"], odds["q"]) if asked == "groups" else (line, odds)

    assert values(line.params) == pytest.approx(plain(df, "gaps", "b")[0], abs=2e-3)
    assert values(odds.params) == pytest.approx(likely(df.dropna(), "gaps", "b")[0], abs=5e-3)
    assert line.nobs == pytest.approx(df.gaps.notna().sum(), abs=0.5)
    assert odds.nobs == pytest.approx(df.gaps.notna().sum(), abs=1)


def test_filled_rows_count_and_numbers_with_categories_are_numbers():
    """A missing value counts as the middle of the bounds; two factors, and a number that has categories."""
    view = protect()

    filled = view.ols("y ~ gaps + b", nan_policy="fill", epsilon=1e5)
    several = view.ols("y", ["a", "both", "g", "h"], epsilon=1e5)

    assert values(filled.params) == pytest.approx(plain(WHOLE.fillna({"gaps": 0.0}), "gaps", "b")[0], abs=1e-3)
    assert (filled.nobs, filled.nobs_standard_error) == (4000, 0)
    assert values(several.params) == pytest.approx(plain(WHOLE, "a", "both", "g", "h")[0], abs=1e-3)


def test_public_columns_are_free_and_exact():
    """Nothing is measured, and what correlations measured before is the first stage."""
    fit = protect(public=["a", "b", "y"], epsilon=1).ols("y ~ a + b", epsilon=1e-3)
    view = protect()
    view.corr(["a", "b", "y"], epsilon=1)

    assert values(fit.params) == pytest.approx(plain(WHOLE, "a", "b")[0], abs=1e-4)
    assert (fit.stages, fit.privacy.epsilon) == ("exact", 0)
    assert view.ols("y ~ a + b", epsilon=1).privacy.epsilon == pytest.approx(0.6 * 31 / 32)


@pytest.mark.parametrize("below", [2**-51, 2**-53])
def test_a_confidence_beside_1_is_concluded_from(below):
    """Rounded weights of draws may add up to less than it, and what was measured is paid for by then."""
    for seed in range(5):
        fit = protect(table(seed=seed)).ols("y ~ a + b", confidence=1 - below, epsilon=1)

        assert fit.low["a"] <= fit.params["a"] <= fit.high["a"]
        assert 0 <= fit.rsquared_low <= fit.rsquared_high <= 1


def test_other_conclusions_are_free():
    """Another confidence, by the names of the columns in place of a formula."""
    view = protect(epsilon=1)
    fit = view.ols(LINE, epsilon=1)

    wide = view.ols("y", ["a", "b", "g"], confidence=0.99, epsilon=1)

    assert wide.privacy.epsilon == 0
    assert wide.params == fit.params
    assert wide.low["a"] < fit.low["a"] < fit.high["a"] < wide.high["a"]


# Intervals


def fits(runs, made, method, formula, epsilon, **said):
    """Fit as many tables, each with noise of its own: they are the groups of one."""
    df = pd.concat([made(seed).assign(run=seed) for seed in range(runs)], ignore_index=True)
    categories = {**{name: each for name, each in CATEGORIES.items() if name in df}, "run": [*range(runs)]}
    view = protect(df, categories=categories, public=[] if "neighbors" in said else ["run"], **said)
    return getattr(view.group_by("run"), method)(formula, epsilon=epsilon).releases


def holds(truth, low, high, runs):
    """Whether as many intervals hold the truth as 19 of 20 let in a million."""
    held = sum(one <= truth <= other for one, other in zip(low, high, strict=True))
    return held >= stats.binom.ppf(1e-6, runs, 0.95)


@pytest.mark.statistical
@pytest.mark.parametrize(("rows", "epsilon", "design"), [(400, 1.0, "one"), (3000, 2.0, "two")])
def test_intervals_cover(rows, epsilon, design):
    """Of 50 tables: the slope of the population is within, and off by as much as the errors say."""
    runs = 50

    def made(seed):
        rng = np.random.default_rng(seed)
        a = rng.normal(size=rows).clip(-3, 3)
        return pd.DataFrame({"a": a, "y": 1 + 2 * a + rng.normal(0, 3, rows)})

    found = fits(runs, made, "ols", "y ~ a", epsilon, bounds={"a": (-3, 3), "y": (-20, 20)})

    assert {fit.stages for fit in found} == {design}
    assert holds(2, [fit.low["a"] for fit in found], [fit.high["a"] for fit in found], runs)
    off = [(fit.params["a"] - 2) / fit.bse["a"] for fit in found if fit.informative]
    assert np.square(off).sum() <= stats.chi2.isf(1e-6, len(off)) * 1.1
    assert sum(fit.rejected["a"] for fit in found) > (2 if design == "one" else runs - 1)


@pytest.mark.statistical
def test_outliers_are_in_the_intervals():
    """Of 16 tables with a lognormal outcome, of which the score clips one row in fifty: R² is held as well.

    Slope and R² of the population, its outcome limited to the bounds, are those of eight million rows.
    """
    rng, runs = np.random.default_rng(4), 16

    def made(_):
        df = pd.DataFrame(rng.normal(size=(20_000, 2)).clip(-3, 3), columns=["a", "b"])
        return df.assign(y=np.exp(0.3 * df["a"] + rng.normal(size=len(df))))

    found = fits(runs, made, "ols", "y ~ a + b", 3, bounds={"a": (-3, 3), "b": (-3, 3), "y": (0, 30)})

    assert holds(0.509, [fit.low["a"] for fit in found], [fit.high["a"] for fit in found], runs)
    assert holds(0.0486, [fit.rsquared_low for fit in found], [fit.rsquared_high for fit in found], runs)
    assert all(fit.stages == "two" and "Outliers: some" in fit.notes[0] for fit in found)
    assert {fit.covers for fit in found} == {"limited population"}
    assert "limited to their bounds" in found[0].summary()


@pytest.mark.statistical
@pytest.mark.parametrize(("count", "epsilon"), [(1, 1), (4, 2)])
def test_nothing_explained_is_in_the_interval_of_r_squared(count, epsilon):
    """Noise only adds to an R² of 0, so that percentiles of draws would lie above it."""
    rng, names = np.random.default_rng(5), [f"x{at}" for at in range(count)]
    bounds = dict.fromkeys([*names, "y"], (-1, 1))

    def made(_):
        return pd.DataFrame(rng.uniform(-1, 1, (400, count + 1)), columns=[*bounds])

    found = fits(25, made, "ols", f"y ~ {' + '.join(names)}", epsilon, bounds=bounds)

    assert sum(fit.rsquared_low == 0 for fit in found) >= stats.binom.ppf(1e-6, 25, 0.95)


@pytest.mark.statistical
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("rows", "shift", "slope", "terms"), [(1000, -1.0, 0.7, {}), (6000, -1.0, 1.5, COME), (6000, -3.2, 0.7, {})]
)
def test_intervals_of_log_odds_cover(rows, shift, slope, terms):
    """Of 40 tables, a rare outcome, a strong slope, and rows that come and go among them."""
    runs = 40

    def made(seed):
        return table(rows, 100 + seed, shift, slope).assign(b=0.0)[["a", "g", "ill"]]

    found = fits(runs, made, "logit", "ill ~ a + C(g)", 2, **terms)

    assert holds(slope, [fit.low["a"] for fit in found], [fit.high["a"] for fit in found], runs)


@pytest.mark.statistical
def test_few_events_claim_nothing():
    """Of 40 tables with about 35 events: an irrelevant regressor is never significant, but by chance one in 100."""
    rng = np.random.default_rng(6)

    def made(_):
        df = pd.DataFrame(rng.normal(size=(5000, 2)).clip(-3, 3), columns=["a", "b"])
        return df.assign(ill=np.where(rng.random(5000) < 1 / (1 + np.exp(5 - 0.5 * df["a"])), "yes", "no"))

    found = fits(40, made, "logit", "ill ~ a + b", 3, bounds={"a": (-3, 3), "b": (-3, 3)})

    assert found[0].covers == "limited population"
    assert sum(fit.rejected["b"] for fit in found) <= 6  # more: 1e-6


@pytest.mark.statistical
def test_regressors_that_are_one_are_never_told_apart():
    """Nothing is known of either of two columns alike, however small the noise of the score; of others it is."""
    rng, runs = np.random.default_rng(12), 30

    def made(_):
        return table(2000, slope=0.0)[["a", "same"]].assign(ill=rng.choice(["no", "yes"], 2000))

    found = fits(runs, made, "logit", "ill ~ a + same", 1)

    assert not any(fit.informative for fit in found)
    assert np.isfinite(found[0].predict({"a": [1, -1], "same": [1, -1]}).to_numpy()).all()
    assert sum(math.isinf(fit.high["a"]) for fit in found) > 0.7 * runs
    assert np.mean([fit.rejected[name] for fit in found for name in ("a", "same")]) < 0.1


@pytest.mark.parametrize(
    ("bounds", "shift"), [((-60, 60), -1.0), ((0, 40), -5.0)], ids=["loose bounds", "a skewed regressor"]
)
def test_steps_that_end_too_early_are_said(bounds, shift):
    """A fit that did not converge claims nothing, and the first line says so."""
    rng = np.random.default_rng(8)
    df = pd.DataFrame(rng.normal(size=(20_000, 2)).clip(-3, 3), columns=["a", "b"])
    df["a"] = np.exp(df["a"]) if bounds[0] == 0 else df["a"]
    df["ill"] = np.where(rng.random(20_000) < 1 / (1 + np.exp(-shift - 0.7 * df["a"])), "yes", "no")
    view = protect(df, bounds={"a": bounds, "b": (-3, 3)})

    for _ in range(6):
        fit = view.logit("ill ~ a + b", epsilon=10, fresh=True)

        assert (fit.converged, fit.informative, fit.rejected["a"]) == (False, False, False)
        assert (fit.high["b"], fit.pvalues["b"]) == (math.inf, 1)
        assert "did not converge" in str(fit).splitlines()[0]
        assert dp.Release.from_dict(fit.to_dict()) == fit


# What cannot be known, and what is said.


@pytest.mark.parametrize(
    ("asked", "blamed"),
    [("y ~ a + same", ["a", "same"]), ("y ~ flat + b", ["flat"]), ("y ~ a + b + same", ["a", "same"])],
)
def test_what_cannot_be_told_apart_is_said(asked, blamed):
    """A duplicated or constant regressor: a private fact is answered; nothing is shrunk, no interval is narrow."""
    fit = protect().ols(asked, epsilon=1)

    assert not fit.informative
    assert fit.notes[0].startswith("Uninformative")
    assert all(name in fit.notes[0] for name in blamed)
    assert all(fit.high[name] - fit.low[name] > 1 for name in blamed)


@pytest.mark.parametrize(("blamed", "doubted"), [(("Intercept", "b"), False), (("a", "b"), True)])
def test_the_sentence_is_doubted_if_its_own_coefficient_is(blamed, doubted):
    """If the noise may make others collinear, the sentence names them, and is not called uninformative itself."""
    note = "Uninformative: " + collinear_note(blamed, np.ones(2))
    fit = dataclasses.replace(protect().ols("y ~ a + b", epsilon=100), notes=(note,))

    text = " ".join(repr(fit).partition("OLS:")[0].split())

    assert text.startswith("Uninformative: the coefficient of a" if doubted else "The coefficient of a")
    assert ("Do not trust Intercept and b: the noise may cause collinearity." in text) is not doubted


FIRST = table(50)


@pytest.mark.parametrize(
    ("method", "formula", "df", "epsilon", "terms"),
    [
        ("ols", LINE, WHOLE, 1e-4, {}),
        ("logit", "ill ~ a", WHOLE, 1e-4, {}),
        ("ols", "y ~ gaps", WHOLE.assign(gaps=math.nan), 1, {}),
        *(
            ("ols", "y ~ a + b", WHOLE.head(rows), epsilon, COME)
            for rows, epsilon in itertools.product((0, 1, 2), (1e-3, 1))
        ),
        *(("logit", "ill ~ a", WHOLE.head(rows), 1, COME) for rows in (0, 1)),
        *(
            ("logit", "ill ~ a", FIRST.assign(ill=pd.Series([outcome] * 50, dtype=object)), 1, terms)
            for outcome, terms in itertools.product(("no", "yes", None), ({}, COME))
        ),
    ],
)
def test_what_tells_nothing_is_answered(method, formula, df, epsilon, terms):
    """Hardly any budget, rows or outcomes: an answer, and no error that would tell."""
    fit = getattr(protect(df, **terms), method)(formula, epsilon=epsilon)

    assert dp.Release.from_dict(fit.to_dict()) == fit
    if len(df) == len(FIRST):
        assert all(math.isfinite(value) for value in fit.params.values())
    else:
        assert not fit.informative
        assert "Uninformative" in repr(fit)


@pytest.mark.parametrize(
    ("method", "formula", "one", "two"),
    [
        ("ols", LINE, "all of the budget", "of the residuals"),
        ("logit", "ill ~ a", "one Newton step", "two Newton steps"),
    ],
)
def test_it_is_explained(method, formula, one, two):
    """Few rows may tell nothing, and more rows tell more."""
    plans = [protect(table(rows)).explain(method, formula, epsilon=1) for rows in (100, 6000, 60_000)]
    none, few, many = (plan.findings for plan in plans)
    unknown = protect(**COME).explain(method, formula, epsilon=1).findings

    assert none["stages"].endswith(one)
    assert many["stages"].endswith(two)
    assert none["expected relative error"].startswith("not known")
    assert (
        few["expected standard error of the coefficient of a"]
        > many["expected standard error of the coefficient of a"]
        > 0
    )
    assert few["expected relative error"] > many["expected relative error"] > 0
    assert unknown["assumed"].split(" and half")[0].endswith("there are 10,000 rows")
    measured = [each.what for each in plans[1].measurements]
    for word in ("indicators of a below", "their products", "scores")[: len(measured)]:
        assert any(word in each for each in measured)


def test_a_plan_says_what_is_not_known():
    """Little budget gives no error; more of it does, and what is known is split evenly."""
    view = protect()
    questions = [("ols", "y ~ a + b"), ("logit", "both ~ a + b")]

    little, much = (view.plan(questions, epsilon=epsilon) for epsilon in (0.02, 4))
    wanted = view.plan(questions, error=0.1)

    assert [each.error for each in little.questions] == [math.inf, math.inf]
    assert str(little).count("not known") == 2
    assert [each.error for each in much.questions] == pytest.approx([much.questions[0].error] * 2, rel=0.1)
    assert [each.error for each in wanted.questions] == pytest.approx([0.1, 0.1], rel=0.2)


def test_groups_may_be_measured_in_other_stages():
    """Regressors that are one in one group: measured again there, by the score elsewhere, for one price."""
    rng = np.random.default_rng(15)
    df = pd.DataFrame(rng.normal(size=(40_000, 3)).clip(-3, 3), columns=["a", "same", "gaps"])
    df["y"], df["h"] = 2 * df["a"] + rng.normal(size=len(df)), np.where(df.index < len(df) / 2, "p", "q")
    df.loc[df["h"] == "q", "same"] = df["a"]
    view = protect(df, epsilon=1, public=["h"])

    found = view.group_by("h").ols("y ~ a + same + gaps", epsilon=1)

    assert [found[each].stages for each in "pq"] == ["two", "again"]
    assert [found[each].informative for each in "pq"] == [True, False]
    assert view.budget.spent == 1


def test_groups_of_other_sizes_pay_one_price():
    """A group of few rows gets the shares of the large one, so that all together cost what one does."""
    df = table(3000)
    view = protect(df.assign(h=np.where(df.index < 100, "p", "q")), epsilon=2, public=["h"])

    view.group_by("h").ols("y ~ a", epsilon=1)
    view.group_by("h").logit("both ~ a", epsilon=1)

    assert view.budget.spent == 2


# Estimators of scikit-learn: they predict, and cannot be fitted again.


@pytest.mark.parametrize(
    ("method", "formula", "kind"), [("ols", LINE, is_regressor), ("logit", "both ~ a + b + C(g)", is_classifier)]
)
def test_it_is_an_estimator(method, formula, kind):
    """Fitted, cloned, in a pipeline, scored on parts, shown as a diagram; it predicts what the release does."""
    fit, outcome = getattr(protect(), method)(formula, epsilon=100), formula.split()[0]
    model, rows = fit.estimator(), WHOLE[["a", "b", "g"]]
    pipeline = make_pipeline(FunctionTransformer(), model)

    check_is_fitted(model)
    assert kind(model)
    assert model.feature_names_in_.tolist() == ["a", "b", "g"]
    assert model.n_features_in_ == 3
    assert {*model.get_params()} == {"formula", "regressors", "linear_predictor"}
    assert clone(model) is model
    target = WHOLE[outcome]
    assert cross_val_score(pipeline, rows, target, cv=3).min() > 0.65
    assert model.fit(rows.iloc[:9], target[:9]) is model
    assert type(model).__name__ in pipeline._repr_html_()
    assert type(model).__name__ in model._repr_html_()
    if method == "ols":
        assert fit.predict(rows)["mean"].tolist() == model.predict(rows).tolist()
    else:
        chance = model.predict_proba(rows.to_numpy())[:, 1]
        assert fit.predict(rows)["probability"].to_numpy() == pytest.approx(chance)
        assert (chance >= 0.5).tolist() == model.predict(rows).tolist()
    with pytest.raises(ArgumentError, match=r"not \(rows, 3\)"):
        model.predict(np.ones((3, 1)))
    with pytest.raises(ValueError, match="Invalid parameter 'C'"):
        model.set_params(C=1)


def test_scikit_learn_need_not_be_installed():
    """Nothing imports it before somebody makes a diagram."""
    script = "import sys; sys.modules['sklearn'] = None; import dfprivacy_regression, dfprivacy_gmm"

    run = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)

    assert (run.returncode, run.stderr) == (0, "")


# The page "What predicts the price?" says what its table answers: asked again, where the table is at hand.

PAGE = (ROOT / "docs" / "howto" / "price.md").read_text(encoding="utf-8")


@pytest.fixture
def houses():
    """The page's table."""
    file = Path(os.environ.get("DFPRIVACY_TEST_DATA", "")) / "housing.csv"
    if not file.is_file():
        pytest.skip("DFPRIVACY_TEST_DATA names no folder with the table")
    df = pd.read_csv(file, header=None, names=real.HOUSES)[list(real.USED)].rename(columns=real.USED)
    return protect(df, epsilon=1000, bounds=real.BOUNDS, categories={"river": [0, 1]})


@pytest.mark.parametrize(("formula", "epsilon"), [(real.POOR, 5), (real.ROOMS, 20)])
def test_what_is_informative_is_as_the_page_says(houses, formula, epsilon):
    """One answer; a summary is laid out as the page shows, but for numbers and spaces."""

    def bare(text):
        return re.sub(r"\s+", " ", re.sub(r"-?[\d.,]+", "#", text)).strip()

    fit = houses.ols(formula, epsilon=epsilon)

    assert fit.informative
    assert f"| {formula} | {epsilon} | " in PAGE
    if formula == real.POOR:
        assert -1.5 < fit.low["poor"] < fit.high["poor"] < 0
    else:
        shown = re.search(r"```text\n( +OLS Regression.*?)```", PAGE, flags=re.DOTALL)
        assert bare(shown[1]) == bare(str(fit.summary()))


def test_what_could_be_found_is_as_the_page_says(houses):
    """The coefficient of rooms that two regressors can find at an epsilon of 2, if rooms vary by 1."""
    findings = houses.explain("ols", real.ROOMS, epsilon=2).findings

    (found,) = (value for finding, value in findings.items() if " of rooms " in finding)
    said = re.search(r"has to be ([\d.]+) thousand dollars", PAGE)
    assert float(said[1]) == pytest.approx(found, rel=0.05)


def test_power_is_as_the_page_says():
    """Of made-up rows, as many as the table has: the table is not needed. 40 runs, and five of their errors."""
    terms = {"bounds": {name: real.BOUNDS[name] for name in ("price", "poor")}, "runs": 40}
    said = dict(re.findall(r"^  epsilon ([\d.]+) +([\d.]+)$", PAGE, flags=re.MULTILINE))

    powers = dp.power(("ols", real.POOR), n=506, epsilon=[0.5, 1], assume={"effect": 1, "spread": 6}, **terms)

    for (found,), each in zip(powers.shares, (float(said["0.5"]), float(said["1"])), strict=True):
        assert found == pytest.approx(each, abs=0.02 + 5 * math.sqrt(each * (1 - each) / 40))


# What cannot be asked is refused before anything is paid.

REFUSED = [
    ("ols", ["a"], {}, "is not a formula"),
    ("ols", ["a ~ b ~ g"], {}, "is not a formula"),
    ("ols", ["a ~ 1"], {}, "no regressor right of"),
    ("ols", ["a ~"], {}, "no regressor right of"),
    ("ols", ["log(a) ~ b"], {}, "do not follow"),
    ("ols", ["a ~ income"], {}, "no column 'income'"),
    ("ols", ["income ~ a"], {}, "no column 'income'"),
    ("ols", ["g ~ a"], {}, "has no bounds"),
    ("ols", ["a ~ C(b)"], {}, "no categories"),
    ("ols", ["a ~ a + b"], {}, "is also a regressor"),
    ("ols", ["both ~ C(both)"], {}, "is also a regressor"),
    ("ols", ["a ~ b + b"], {}, "twice"),
    ("ols", ["a ~ both + C(both)"], {}, "twice"),
    ("ols", ["a ~ one"], {}, "constant"),
    ("ols", ["a", []], {}, "No regressor is named"),
    ("ols", ["a", ["b", "b"]], {}, "twice"),
    ("ols", [3], {}, "3"),
    ("ols", ["y ~ a"], {"robust": "yes"}, "robust"),
    ("ols", ["y ~ a"], {"nan_policy": "raise"}, "private value"),
    ("logit", ["ill ~ log(a)"], {}, "log"),
    ("logit", ["b ~ a"], {}, "no categories"),
    ("logit", ["g ~ a"], {}, "3 categories"),
    ("logit", ["ill ~ ill"], {}, "is also a regressor"),
    ("logit", ["ill ~ a"], {"success": "perhaps"}, "perhaps"),
    ("logit", ["ill", []], {}, "No regressor is named"),
    *(("ols", ["y ~ a + b"], {"rows": rows}, "are too few") for rows in (1, 3)),  # a public number of them
]


@pytest.fixture(scope="module")
def view():
    """The table, of which nothing is asked."""
    return protect()


@pytest.mark.parametrize(("method", "args", "asked", "said"), REFUSED, ids=[f"{each[:3]}" for each in REFUSED])
def test_bad_input_costs_nothing(view, method, args, asked, said):
    """What cannot be asked raises an error that says so, before any charge."""
    if "rows" in asked:
        view, asked = protect(WHOLE.head(asked["rows"])), {}
    with pytest.raises(DPError, match=said):
        getattr(view, method)(*args, **asked, epsilon=1)

    assert view.budget.spent == 0
