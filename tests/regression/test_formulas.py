"""Formulas with functions and products: the coefficients, and their names, are those of statsmodels."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dfprivacy as dp

NAMES = (f"formula {at}" for at in itertools.count())
N = 3000
_rng = np.random.default_rng(8)
DATA = pd.DataFrame({
    "age": _rng.uniform(20, 80, N), "income": _rng.lognormal(10, 1, N).clip(1e3, 1e6), "a": _rng.uniform(-1, 1, N),
    "sex": _rng.choice(["f", "m"], N), "region": _rng.choice(["n", "s", "w"], N), "my col": _rng.uniform(-2, 2, N),
})  # fmt: skip
DATA["cost"] = 5 + DATA.age * (1 + (DATA.sex == "m")) / 10 + np.log(DATA.income) + _rng.normal(size=N)
DATA["ill"] = (_rng.random(N) < 1 / (1 + np.exp(3 - DATA.age / 20))).astype(int)
BOUNDS = {"age": (20, 80), "income": (1e3, 1e6), "a": (-1, 1), "my col": (-2, 2), "cost": (0, 60)}
CATEGORIES = {"sex": ["f", "m"], "region": ["n", "s", "w"], "ill": [0, 1]}


def protect(**more):
    terms = {"bounds": BOUNDS, "categories": CATEGORIES, "epsilon": 10**6, "accounting": "basic"}
    return dp.protect(DATA, next(NAMES), **{**terms, **more}, ledger="memory:")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "formula",
    [
        "cost ~ age + np.log(income) + C(sex):age + I(age**2)",
        "cost ~ age * C(sex)",
        "cost ~ C(sex):C(region)",
        "cost ~ C(region) + C(region):a",
        "cost ~ a + a:C(sex):C(region)",
        "cost ~ (a + age) ** 2 - age",
        "np.log(cost + 1) ~ np.sqrt(age) + np.exp(a)",
        "cost ~ C(sex) + I(-a / (age + 1) * 10) + a:age",
        "cost ~ a / age",
        "cost ~ I(1.0 * (age > 50)) + age",
    ],
)
def test_least_squares_is_that_of_statsmodels(formula):
    view = protect()
    fit = view.ols(formula, epsilon=10**5)
    known = smf.ols(formula, DATA).fit()
    assert {*fit.params} == {*known.params.index}
    for name, value in fit.params.items():
        assert value == pytest.approx(known.params[name], abs=0.02 * known.bse[name]), name
        assert fit.bse[name] == pytest.approx(
            known.get_robustcov_results("HC0").bse[[*known.params.index].index(name)], rel=0.1
        )
    new = DATA.head(5)
    predicted = fit.predict(new)["mean"].to_numpy()
    np.testing.assert_allclose(predicted, known.predict(new), rtol=1e-3)


def test_logistic_regression_is_that_of_statsmodels():
    fit = protect().logit("ill ~ age + I(age ** 2) + C(sex):a", epsilon=10**5)
    known = smf.logit("ill ~ age + I(age ** 2) + C(sex):a", DATA).fit(disp=False)
    for name, value in fit.params.items():
        assert value == pytest.approx(known.params[name], abs=0.02 * known.bse[name]), name


def test_columns_with_blanks_are_quoted_where_there_is_more():
    plain, quoted = (
        protect().ols(each, epsilon=10**5).params
        for each in ("cost ~ my col + a", "cost ~ `my col` + a:`my col` + a")
    )
    assert {*plain} == {"Intercept", "my col", "a"}
    assert {*quoted} == {"Intercept", "my col", "a", "a:my col"}
    assert {*protect().ols("cost ~ I(`my col` ** 2)", epsilon=10**5).params} == {"Intercept", "I(`my col` ** 2)"}


def test_the_same_by_columns_of_the_view():
    """A formula's term is a column that `with_columns` computes: the same measurement, which is kept."""
    view = protect()
    first = view.ols("cost ~ log(income) + age", epsilon=1)
    second = view.with_columns(z=np.log(dp.col("income"))).ols("cost ~ z + age", epsilon=1)
    assert first.params["log(income)"] == pytest.approx(second.params["z"], abs=2)
    assert second.formulas["z"]["formula"] == first.formulas["log(income)"]["formula"]
    assert view.ols("cost ~ log(income) + age", epsilon=1).privacy.replayed
    assert "log(income)" in repr(first)
    groups = view.group_by("sex").ols("cost ~ log(income)", epsilon=10)
    assert {*groups["f"].params} == {"Intercept", "log(income)"}
    assert "expected" in repr(view.explain("ols", "cost ~ log(income) + a:age", epsilon=1))


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("cost ~ age +", "cannot be read"),
        ("cost ~ age - 1", "leaves the intercept out"),
        ("cost ~ 0 + age", "leaves the intercept out"),
        ("cost ~ age | sex", "several parts"),
        ("cost ~ .", "cannot be read"),
        ("cost ~ log(missing)", "no column 'missing'"),
        ("cost ~ age:missing", "no column 'missing'"),
        ("cost ~ sin(age)", "'sin.age.' is not supported"),
        ("cost ~ poly(age, 2)", "not supported"),
        ("cost ~ C(sex, Treatment('m'))", "no column"),
        ("cost ~ I(__import__('os').system('true'))", "not supported"),
        ("cost ~ I((lambda: age)())", "not supported"),
        ("cost ~ I(age.log())", "not supported"),
        ("cost ~ I([age][0])", "not supported"),
        ("cost ~ np.linalg.norm(age)", "not supported"),
        ("cost ~ log(sex)", "a label is not a number"),
        ("cost ~ log(a)", "do not follow"),
        ("cost ~ 1 / a", "no column '1'"),
        ("cost ~ I(1 / a)", "do not follow"),
        ("log(sex) ~ age", "a label is not a number"),
        ("C(sex) ~ age", "no bounds"),
        ("cost ~ cost:age + exp(-cost / 9) + cost", "also a regressor"),
        ("cost ~ log(age) + log(age) + age:age", None),
        ("cost ~ a*age*income*C(region)*C(sex)*log(age)*exp(a)*sqrt(age)*I(a ** 2)", "more than 200"),
        ("cost ~ (a + age + income) ** 99", "more than 200"),
        ("cost ~ (a + age) ** age", "more than 200|cannot be read"),
        ("cost ~ " + "(" * 3000 + "a" + ")" * 3000, "more than 5,000 characters"),
        ("cost ~ " + "(" * 2000 + "a" + ")" * 2000, None),
        ("cost ~ I(" + "(" * 900 + "a" + ")" * 900 + ")", None),
        ("cost ~ " + " + ".join(f"I(a ** {power})" for power in range(2, 300)), "more than 200"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)  # fmt: skip
def test_what_is_no_formula_is_refused_in_time(formula, why):
    """Nothing is run, charged or expanded without end."""
    view = protect(epsilon=100)
    begun = time.process_time()
    if why is None:
        try:
            view.ols(formula, epsilon=1)
        except dp.DPError as error:
            assert "cannot be read" in str(error) or "not supported" in str(error)  # noqa: PT017 - or it is answered
    else:
        with pytest.raises(dp.DPError, match=why):
            view.ols(formula, epsilon=1)
        assert view.budget.spent == 0
    assert time.process_time() - begun < 20
