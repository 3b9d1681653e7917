"""The tests of independence on a real survey, beside the same tests without privacy."""

# ruff: noqa: SIM300 - expected == actual

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

fair = pytest.importorskip("statsmodels.datasets").fair

NAMES = (f"chi2-demonstration-{number}" for number in itertools.count())
QUESTIONS = ["affair", "happy", "mother", "graduate", "long", "young"]
YES_OR_NO = ["devout", *QUESTIONS, "coin", "rare_coin"]
CODES = {**dict.fromkeys(YES_OR_NO, (False, True)), "religious": [1, 2, 3, 4], "rate_marriage": [1, 2, 3, 4, 5]}


@pytest.fixture(scope="module")
def survey():
    """6,366 women, what they answered, and two columns of coins."""
    df = fair.load_pandas().data
    coins = np.random.default_rng(1).random((len(df), 2)) < (0.5, 0.1)
    return df.assign(
        devout=df.religious >= 3,
        affair=df.affairs > 0,
        happy=df.rate_marriage >= 4,
        mother=df.children > 0,
        graduate=df.educ >= 16,
        long=df.yrs_married > 10,
        young=df.age < 30,
        coin=coins[:, 0],
        rare_coin=coins[:, 1],
    )


def private(df, public=("devout", "religious"), categories=CODES):
    """The survey with an account of its own."""
    return dp.protect(
        df,
        next(NAMES),
        epsilon=100,
        ledger="memory:",
        categories=categories,
        public=public,
    )


def plain(df, x, by):
    """The p-value without privacy."""
    return chi2_contingency(pd.crosstab(df[x], df[by]), correction=False)[1]


@pytest.mark.parametrize("policy", ["omit", "fill"])
def test_the_difference_of_two_groups_is_found_and_its_interval_holds_it(survey, policy):
    """The devout have fewer affairs: significantly, and the interval holds the true number."""
    exact = survey[~survey.devout].affair.mean() - survey[survey.devout].affair.mean()

    with seeded_noise(1):
        test = private(survey).chi2("affair", "devout", nan_policy=policy, epsilon=0.5)

    assert plain(survey, "affair", "devout") < 1e-15
    assert test.pvalue < 1e-12
    assert test.low < exact < test.high
    assert exact == pytest.approx(test.estimate, abs=15 * test.noise_standard_error[0])
    assert test.direction == "affair = True is more frequent in devout = False than in devout = True"


def test_every_method_finds_what_the_test_without_privacy_finds(survey):
    """Circle, more groups, more categories and private groups reject as well, at a tenth of a thousandth."""
    view = private(survey)

    with seeded_noise(2):
        pvalues = {
            "circle": view.chi2_unitcircle("affair", "devout", epsilon=0.5).pvalue,
            "four groups": view.chi2("affair", "religious", epsilon=0.5).pvalue,
            "four groups, five categories": view.chi2("rate_marriage", "religious", epsilon=0.5).pvalue,
            "private groups": private(survey, public=()).chi2("affair", "devout", epsilon=0.5).pvalue,
        }

    assert {} == {name: p for name, p in pvalues.items() if not p < 1e-4}


def test_all_questions_are_asked_at_once(survey):
    """What differs by more than the noise hides is rejected, the coins are not; select finds the largest."""
    view = private(survey)
    gaps = survey.groupby("devout")[QUESTIONS].mean().diff().iloc[1].abs()

    with seeded_noise(3):
        svt = view.chi2_many([*QUESTIONS, "coin", "rare_coin"], "devout", max_rejections=6, epsilon=4)
        best = view.chi2_many([*QUESTIONS, "coin"], "devout", method="select", max_rejections=4, epsilon=4)

    assert set(gaps.index[gaps > 0.05]) == set(svt.discoveries) - {"graduate"}
    assert svt.notes == ()
    assert set(gaps.nlargest(4).index) == set(best.answered)
    assert [pytest.approx(gaps[name], abs=0.02) for name in best.answered] == list(best.differences)


def test_columns_laid_out_by_rows_are_counted_as_columns_laid_out_by_columns(survey):
    """A frame around one matrix of booleans gives the same answers as one of separate columns."""
    matrix = np.hstack([survey[QUESTIONS].to_numpy()] * 50 + [survey[["devout"]].to_numpy()])
    names = [f"q{number}" for number in range(matrix.shape[1] - 1)]
    by_rows = pd.DataFrame(np.ascontiguousarray(matrix), columns=[*names, "devout"], copy=False)
    by_columns = pd.DataFrame({name: by_rows[name].to_numpy().copy() for name in by_rows})
    terms = {"method": "select", "max_rejections": 3, "epsilon": 90}

    answers = []
    for frame in (by_rows, by_columns):
        with seeded_noise(4):
            many = private(frame, ("devout",), dict.fromkeys(frame, (False, True))).chi2_many(
                names, "devout", **terms
            )
        answers.append((many.answered, many.differences))

    assert not by_rows["q0"].to_numpy().flags.c_contiguous
    assert answers[0] == answers[1]
