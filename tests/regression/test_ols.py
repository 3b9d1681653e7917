"""Regressions through the public face: against statsmodels, on every kind of table, and with bad input."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dfprivacy import ArgumentError, DPError, Release
from dfprivacy.testing import seeded_noise
from tests.regression.conftest import table

FORMULA = "y ~ a + b + C(g)"


def plain(df, regressors=("a", "b"), factor="g", outcome="y"):
    """Least squares of a table, with robust covariance, by NumPy."""
    df = df.dropna(subset=[outcome, *regressors])
    dummies = (
        [] if factor is None else [(df[factor] == each).astype(float) for each in sorted(df[factor].unique())[1:]]
    )
    x = np.column_stack([np.ones(len(df)), *(df[name] for name in regressors), *dummies])
    inverse = np.linalg.inv(x.T @ x)
    params = inverse @ x.T @ df[outcome]
    residuals = df[outcome] - x @ params
    meat = (x * residuals.to_numpy()[:, None] ** 2).T @ x
    return params, np.sqrt(np.diag(inverse @ meat @ inverse)), 1 - residuals.var() / df[outcome].var()


@pytest.mark.pandas
@pytest.mark.parametrize("constructor", ["pandas", "polars", "polars-lazy", "pyarrow"], indirect=True)
def test_with_much_to_spend_it_is_least_squares(constructor, protect):
    params, errors, rsquared = plain(table())

    fit = protect(constructor(table().to_dict("list"))).ols(FORMULA, epsilon=1e5)

    assert [*fit.params] == ["Intercept", "a", "b", "C(g)[T.v]", "C(g)[T.w]"]
    assert [*fit.params.values()] == pytest.approx(params, abs=1e-4)
    assert [*fit.bse.values()] == pytest.approx(errors, rel=1e-2)
    assert fit.rsquared == pytest.approx(rsquared, abs=1e-4)
    assert fit.nobs == pytest.approx(4000, abs=0.1)
    assert (fit.stages, fit.robust, fit.informative) == ("two", True, True)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("asked", ["all", "where", "groups"])
def test_rows_with_gaps_are_left_out(protect, neighbors, asked):
    view, df = protect(neighbors=neighbors), table()
    if asked == "groups":
        fits = view.group_by("h").ols("y ~ gaps + b", epsilon=1e4)
        fit, df = fits["q"], df[df.h == "q"]
    else:
        view, df = (view.where({"h": ["p"]}), df[df.h == "p"]) if asked == "where" else (view, df)
        fit = view.ols("y ~ gaps + b", epsilon=1e4)

    params, _, _ = plain(df, ["gaps", "b"], None)

    assert [*fit.params.values()] == pytest.approx(params, abs=2e-3)
    assert fit.nobs == pytest.approx(df.gaps.notna().sum(), abs=0.5)


def test_filled_rows_count(protect):
    params, _, _ = plain(table().fillna({"gaps": 0.0}), ["gaps", "b"], None)

    fit = protect().ols("y ~ gaps + b", nan_policy="fill", epsilon=1e5)

    assert [*fit.params.values()] == pytest.approx(params, abs=1e-4)
    assert (fit.nobs, fit.nobs_standard_error) == (4000, 0)


def test_two_factors_and_numbers_with_categories(protect):
    df = table()
    dummies = pd.get_dummies(df[["g", "h"]], drop_first=True, dtype=float)
    x = np.column_stack([np.ones(len(df)), df.a, df.both, dummies])

    params = np.linalg.lstsq(x, df.y, rcond=None)[0]
    fit = protect().ols("y", ["a", "both", "g", "h"], epsilon=1e5)

    assert [*fit.params.values()] == pytest.approx(params, abs=1e-3)


def test_public_columns_are_free_and_exact(protect):
    view = protect(public=["a", "b", "y"], epsilon=1)
    params, _, _ = plain(table(), factor=None)

    fit = view.ols("y ~ a + b", epsilon=1e-3)

    assert [*fit.params.values()] == pytest.approx(params, abs=1e-4)
    assert (fit.stages, fit.privacy.epsilon) == ("exact", 0)


def test_other_conclusions_are_free(protect):
    view = protect(epsilon=1)
    fit = view.ols(FORMULA, epsilon=1)

    wide = view.ols("y", ["a", "b", "g"], confidence=0.99, epsilon=1)

    assert wide.privacy.epsilon == 0
    assert wide.params == fit.params
    assert wide.low["a"] < fit.low["a"] < fit.high["a"] < wide.high["a"]


@pytest.mark.parametrize("below", [2**-51, 2**-53])
def test_a_confidence_beside_1_is_concluded_from(protect, below):
    """Rounded weights of draws may add up to less than it, and what was measured is paid for by then."""
    for seed in range(8):
        fit = protect(table(seed=seed)).ols("y ~ a + b", confidence=1 - below, epsilon=1)

        assert fit.low["a"] <= fit.params["a"] <= fit.high["a"]
        assert 0 <= fit.rsquared_low <= fit.rsquared_high <= 1


def test_correlations_have_paid_for_the_first_stage(protect):
    view = protect()
    view.corr(["a", "b", "y"], epsilon=1)

    fit = view.ols("y ~ a + b", epsilon=1)

    assert fit.privacy.epsilon == pytest.approx(0.6 * 31 / 32)


@pytest.mark.parametrize("design", ["one", "two"])
@pytest.mark.statistical
def test_intervals_cover(protect, design):
    """Of 200 tables with uneven residuals; 19 of 20 intervals hold the slope of the population."""
    rows, epsilon = (400, 1.0) if design == "one" else (3000, 2.0)
    fits = []
    for seed in range(200):
        a = np.random.default_rng(seed).normal(size=rows).clip(-3, 3)
        df = pd.DataFrame({"a": a, "y": 1 + 2 * a + np.random.default_rng(1000 + seed).normal(0, 3, rows)})
        with seeded_noise(seed):
            fits.append(
                protect(df, bounds={"a": (-3, 3), "y": (-20, 20)}, categories={}).ols("y ~ a", epsilon=epsilon)
            )

    assert {fit.stages for fit in fits} == {design}
    assert sum(fit.low["a"] <= 2 <= fit.high["a"] for fit in fits) >= 172  # below it: 1e-6
    assert sum(fit.rejected["a"] for fit in fits) > (20 if design == "one" else 199)


@pytest.mark.statistical
def test_outliers_are_in_the_intervals(protect):
    """Of 24 tables with a lognormal outcome, of which the score clips one row in fifty: R² is held as well.

    Slope and R² of the population, its outcome limited to the bounds, are those of eight million rows.
    """
    rng, bounds = np.random.default_rng(4), {"a": (-3, 3), "b": (-3, 3), "y": (0, 30)}
    fits = []
    for seed in range(24):
        df = pd.DataFrame(rng.normal(size=(20_000, 2)).clip(-3, 3), columns=["a", "b"])
        df["y"] = np.exp(0.3 * df["a"] + rng.normal(size=len(df)))
        with seeded_noise(seed):
            fits.append(protect(df, bounds=bounds, categories={}).ols("y ~ a + b", epsilon=3))

    assert sum(fit.low["a"] <= 0.509 <= fit.high["a"] for fit in fits) >= 15  # below it: 1e-6
    assert sum(fit.rsquared_low <= 0.0486 <= fit.rsquared_high for fit in fits) >= 15
    assert all(fit.stages == "two" and "Outliers: some" in fit.notes[0] for fit in fits)
    assert {fit.covers for fit in fits} == {"limited population"}
    assert "limited to their bounds" in fits[0].summary()


@pytest.mark.statistical
@pytest.mark.parametrize(("count", "epsilon"), [(1, 1), (4, 2)])
def test_nothing_explained_is_in_the_interval_of_r_squared(protect, count, epsilon):
    """Noise only adds to an R² of 0, so that percentiles of draws would lie above it."""
    rng, names, lows = np.random.default_rng(5), [f"x{at}" for at in range(count)], []
    for seed in range(40):
        df = pd.DataFrame(rng.uniform(-1, 1, (400, count + 1)), columns=[*names, "y"])
        view = protect(df, bounds=dict.fromkeys(df, (-1, 1)), categories={})
        with seeded_noise(seed):
            lows.append(view.ols(f"y ~ {' + '.join(names)}", epsilon=epsilon).rsquared_low)

    assert sum(low == 0 for low in lows) >= 31  # fewer of 40: 1e-6 where 95 % cover


@pytest.mark.parametrize(
    ("asked", "blamed"),
    [("y ~ a + same", ["a", "same"]), ("y ~ flat + b", ["flat"]), ("y ~ a + b + same", ["a", "same"])],
)
def test_what_cannot_be_told_apart_is_said(protect, asked, blamed):
    """A duplicated or a constant regressor; nothing is shrunk, and no interval is narrow."""
    with seeded_noise(1):
        fit = protect().ols(asked, epsilon=1)

    assert not fit.informative
    assert fit.notes[0].startswith("Uninformative")
    assert all(name in fit.notes[0] for name in blamed)
    assert all(fit.high[name] - fit.low[name] > 1 for name in blamed)


def test_hardly_any_budget_says_so(protect):
    fit = protect().ols(FORMULA, epsilon=1e-4)

    assert not fit.informative
    assert "Uninformative" in repr(fit)
    assert Release.from_dict(fit.to_dict()) == fit


def test_predictions_are_those_of_the_line(protect):
    fit = protect().ols(FORMULA, epsilon=1e5)
    params, _, _ = plain(table())

    found = fit.predict({"a": [0.0, 99.0], "b": 5.0, "g": ["u", "v"]})

    assert found["mean"].tolist() == pytest.approx([params @ [1, 0, 5, 0, 0], params @ [1, 3, 5, 1, 0]], abs=1e-3)
    assert (found["low"] < found["mean_low"]).all()
    with pytest.raises(ArgumentError, match="no value for 'g'"):
        fit.predict({"a": 1, "b": 2})
    with pytest.raises(ArgumentError, match="is not a category"):
        fit.predict({"a": 1, "b": 2, "g": "z"})
    with pytest.raises(ArgumentError, match="missing"):
        fit.predict({"a": math.nan, "b": 2, "g": "u"})


def test_it_is_written_as_statsmodels_prints_it(protect):
    fit = protect().ols(FORMULA, epsilon=1e5)

    assert fit.summary().splitlines()[2] == FORMULA
    assert [line.split()[0] for line in fit.summary().splitlines()[9:14]] == [*fit.params]
    assert fit.to_frame()["term"].tolist() == [*fit.params]
    assert fit.to_frame("polars")["estimate"].to_list() == [*fit.params.values()]
    assert fit.conf_int()["a"].low == fit.low["a"]
    assert [label.get_text() for label in fit.plot().get_yticklabels()] == [*fit.params][1:]


def test_it_is_explained(protect):
    """Few rows may tell nothing, and more rows tell more."""
    plans = [protect(table(rows)).explain("ols", FORMULA, epsilon=1) for rows in (100, 4000, 8000)]
    none, few, many = (plan.findings for plan in plans)
    unknown = protect(neighbors="add_remove").explain("ols", FORMULA, epsilon=1).findings

    assert none["stages"].endswith("all of the budget")
    assert many["stages"].endswith("of the residuals")
    beyond, moments, score = (each.what for each in plans[1].measurements)
    assert "Beyond(a)" in beyond
    assert "Outer" in moments
    assert "Score" in score
    assert none["expected relative error"].startswith("not known")
    assert few["expected standard error of a"] > many["expected standard error of a"] > 0
    assert few["expected relative error"] > many["expected relative error"] > 0
    assert unknown["assumed"].endswith("there are 10,000 rows")


@pytest.mark.statistical
@pytest.mark.parametrize("rows", [600, 4000])
def test_errors_are_as_expected(protect, rows):
    """Of 60 tables: the error is within a quarter, and seven of its errors, of what explain says."""
    found, bounds = [], {"a": (-3, 3), "y": (-6, 6)}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        df = pd.DataFrame({"a": rng.normal(size=rows).clip(-3, 3), "y": rng.normal(0, 2, rows).clip(-6, 6)})
        view = protect(df, bounds=bounds, categories={})
        with seeded_noise(seed):
            found.append(view.ols("y ~ a", epsilon=1).params["a"])

    said = view.explain("ols", "y ~ a", epsilon=1).findings["expected standard error of a"]

    assert math.sqrt(np.mean(np.square(found))) == pytest.approx(said, rel=0.25 + 7 / math.sqrt(2 * 60))


@pytest.mark.parametrize(
    "asked",
    [
        {"y": "y ~ log(a)"},
        {"y": "y ~ nowhere"},
        {"y": "y ~ y"},
        {"y": "y ~ one"},
        {"y": "y", "x": ["a", "a"]},
        {"y": 3},
        {"y": "y ~ a", "confidence": 1.5},
        {"y": "y ~ a", "robust": "yes"},
        {"y": "y ~ a", "nan_policy": "raise"},
        {"y": "y ~ a", "epsilon": math.nan},
    ],
)
def test_bad_input_costs_nothing(protect, asked):
    view = protect()

    with pytest.raises(DPError):
        view.ols(**{"epsilon": 1, **asked})

    assert view.budget.spent == 0


@pytest.mark.parametrize("rows", [1, 3])
def test_too_few_rows_for_the_coefficients(protect, rows):
    with pytest.raises(ArgumentError, match="are too few"):
        protect(table(10).head(rows)).ols("y ~ a + b", epsilon=1)


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0])
def test_few_rows_of_a_private_number(protect, rows, epsilon):
    fit = protect(table(10).head(rows), neighbors="add_remove").ols("y ~ a + b", epsilon=epsilon)

    assert not fit.informative


def test_a_plan_says_what_is_not_known(protect):
    """Little budget gives no error; more of it does, and what is known is split evenly."""
    view = protect(table(4000))
    questions = [("ols", "y ~ a + b"), ("logit", "both ~ a + b")]

    little, much = (view.plan(questions, epsilon=epsilon) for epsilon in (0.02, 4))
    wanted = view.plan(questions, error=0.1)

    assert [each.error for each in little.questions] == [math.inf, math.inf]
    assert str(little).count("not known") == 2
    assert [each.error for each in much.questions] == pytest.approx([much.questions[0].error] * 2, rel=0.1)
    assert [each.error for each in wanted.questions] == pytest.approx([0.1, 0.1], rel=0.2)


def test_everything_missing(protect):
    fit = protect(table().assign(gaps=math.nan)).ols("y ~ gaps", epsilon=1)

    assert not fit.informative


def test_groups_may_be_measured_in_other_stages(protect):
    """Regressors that are one in one group: measured again there, by the score elsewhere, for one price."""
    rng = np.random.default_rng(15)
    df = pd.DataFrame(rng.normal(size=(40_000, 3)).clip(-3, 3), columns=["a", "same", "gaps"])
    df["b"], df["g"], df["both"], df["one"], df["flat"] = 1.0, "u", 0, "k", 1.0
    df["y"], df["h"] = 2 * df["a"] + rng.normal(size=len(df)), np.where(df.index < len(df) / 2, "p", "q")
    df.loc[df["h"] == "q", "same"] = df["a"]
    view = protect(df, epsilon=1, public=["h"])

    with seeded_noise(2):
        fits = view.group_by("h").ols("y ~ a + same + gaps", epsilon=1)

    assert [fits[each].stages for each in "pq"] == ["two", "again"]
    assert [fits[each].informative for each in "pq"] == [True, False]
    assert view.budget.spent == 1


def test_groups_of_other_sizes_pay_one_price(protect):
    """A group of few rows gets the shares of the large one, so that all together cost what one does."""
    rng = np.random.default_rng(16)
    df = table(3000)
    df["h"] = np.where(df.index < 100, "p", "q")
    df["both"] = rng.integers(0, 2, len(df))
    view = protect(df, epsilon=2, public=["h"])

    view.group_by("h").ols("y ~ a", epsilon=1)
    view.group_by("h").logit("both ~ a", epsilon=1)

    assert view.budget.spent == 2
