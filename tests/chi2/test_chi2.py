"""``view.chi2`` through the whole house."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy.testing.noise import seeded_noise
from dfprivacy_chi2 import Chi2, power
from dfprivacy_chi2.asked import TAU
from dfprivacy_chi2.tables import signed_distance

NAMES = (f"chi2-{number}" for number in itertools.count())
ROWS = 3000
PLENTY = 20_000  # an epsilon at which the noise is far smaller than what sampling leaves open

chance = np.random.default_rng(20_261_121)
ARM = np.where(np.arange(ROWS) < 1200, "drug", "placebo")
ILL = chance.random(ROWS) < np.where(ARM == "drug", 0.33, 0.30)
TABLE = {
    "ill": ILL,
    "arm": ARM,
    "grade": chance.choice(["low", "mid", "high"], ROWS, p=[0.5, 0.3, 0.2]),
    "centre": np.array(["a", "b", "c"])[np.arange(ROWS) % 3],
    "smoker": chance.choice(["yes", "no"], ROWS),
}
TERMS = {
    "categories": {
        "ill": [False, True],
        "arm": ["drug", "placebo"],
        "grade": ["low", "mid", "high"],
        "centre": ["a", "b", "c"],
        "smoker": ["yes", "no"],
    },
    "public": ["arm", "centre"],
}
SMALL = {name: values[::11] for name, values in TABLE.items()}
N1, N0 = 1200, 1800
C11, C10 = int(ILL[ARM == "drug"].sum()), int(ILL[ARM == "placebo"].sum())
ENGINES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "polars lazy": pl.LazyFrame}


def protect(table=TABLE, engine=pd.DataFrame, **terms):
    terms = {"epsilon": 10**6, "ledger": "memory:", **TERMS, **terms}
    return dp.protect(engine(table), next(NAMES), **terms)


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def engine(request):
    return request.param


# Without noise to speak of, they are the textbook's tests.


def crosstab(x, by):
    """The counts of two columns."""
    return pd.crosstab(TABLE[x], TABLE[by]).to_numpy()


def test_the_difference_of_two_shares(engine):
    """At a huge epsilon, with the share known, the test of the difference is Pearson's."""
    textbook = stats.chi2_contingency(crosstab("ill", "arm"), correction=False)

    found = protect(engine=engine).chi2("ill", "arm", method="difference", rate=ILL.mean(), epsilon=PLENTY)

    assert found.statistic == pytest.approx(abs(C11 / N1 - C10 / N0), abs=1e-5)
    assert found.pvalue == pytest.approx(textbook.pvalue, rel=0.03)
    assert (found.groups, found.sizes, found.notes) == (("drug", "placebo"), (N1, N0), ())


def test_nothing_known_of_the_share_is_the_worst_case():
    """With nothing known of the share the p-value is that of shares around 1/2, which is larger."""
    statistic = abs(C11 / N1 - C10 / N0)
    worst = 2 * stats.norm.sf(statistic / math.sqrt((1 / N1 + 1 / N0) / 4))

    found = protect().chi2("ill", "arm", method="difference", epsilon=PLENTY)

    assert found.pvalue == pytest.approx(worst, rel=0.03)


def test_the_calibrated_test():
    """A noisy number of X = 1 replaces what is known of the share: at a huge epsilon, the same as if known."""
    textbook = stats.chi2_contingency(crosstab("ill", "arm"), correction=False)

    found = protect().chi2("ill", "arm", epsilon=PLENTY)

    assert found.method == "calibrated"
    assert found.total == pytest.approx(ILL.sum(), abs=0.1)
    assert textbook.pvalue * 0.9 <= found.pvalue <= textbook.pvalue * 1.3


def test_the_distance(engine):
    """At a huge epsilon the statistic is the signed distance at the critical value of 5%."""
    found = protect(engine=engine).chi2("ill", "arm", method="distance", epsilon=PLENTY)

    assert found.statistic == pytest.approx(signed_distance(C11, C10, N1, N0, TAU), abs=0.01)
    assert found.tau == TAU


def test_more_groups(engine):
    """With the share known, the test of three groups is Pearson's."""
    textbook = stats.chi2_contingency(crosstab("ill", "centre"), correction=False)

    found = protect(engine=engine).chi2("ill", "centre", rate=ILL.mean(), epsilon=PLENTY)

    assert found.method == "spread"
    assert found.statistic**2 / (ILL.mean() * (1 - ILL.mean())) == pytest.approx(textbook.statistic, rel=1e-3)
    assert found.pvalue == pytest.approx(textbook.pvalue, rel=0.03)


@pytest.mark.parametrize("by", ["arm", "centre"])
def test_more_categories(engine, by):
    """With the shares of the categories known, the test of a larger table is Pearson's."""
    shares = [float(np.mean(TABLE["grade"] == grade)) for grade in TERMS["categories"]["grade"]]
    textbook = stats.chi2_contingency(crosstab("grade", by), correction=False)

    found = protect(engine=engine).chi2("grade", by, rate=shares, epsilon=PLENTY)

    assert found.statistic**2 == pytest.approx(textbook.statistic, rel=1e-3)
    assert found.pvalue == pytest.approx(textbook.pvalue, rel=0.03)


def test_some_groups_of_many():
    """Two groups of three are a 2 x 2 table, in the order in which they are named."""
    rows = TABLE["centre"]

    found = protect().chi2("ill", "centre", groups=["c", "a"], method="difference", epsilon=PLENTY)

    assert found.groups == ("c", "a")
    assert found.sizes == (1000, 1000)
    assert found.statistic == pytest.approx(abs(ILL[rows == "c"].mean() - ILL[rows == "a"].mean()), abs=1e-5)


def test_private_groups(engine):
    """Where the groups are private too, the statistic is that of the counts, and the test asymptotically chi²."""
    table = crosstab("ill", "smoker")
    determinant = abs(table[0, 0] * table[1, 1] - table[0, 1] * table[1, 0])

    found = protect(engine=engine).chi2("ill", "smoker", epsilon=PLENTY)

    assert found.method == "association"
    assert found.statistic == pytest.approx(determinant / (ROWS - 1), abs=1e-2)
    assert found.sizes == (ROWS,)
    widest = 2 * stats.norm.sf(determinant / (math.sqrt(ROWS) / 4 * ROWS))
    assert found.pvalue == pytest.approx(widest, rel=0.03)


def test_numbers_and_missing_values():
    """X = 1 is the second category; missing values count as the first."""
    table = {"x": [2, 2, 1, None, 1, None] * 10, "by": ["a", "a", "a", "b", "b", "b"] * 10}
    view = protect(table, categories={"x": [1, 2], "by": ["a", "b"]}, public=["by"])

    found = view.chi2("x", "by", method="difference", epsilon=PLENTY)

    assert found.statistic == pytest.approx(2 / 3, abs=1e-2)


@pytest.mark.statistical
def test_a_constant_column_is_no_evidence():
    """A column with one value is significant at 5 % by the noise alone, by every method."""
    view = protect({**TABLE, "ill": np.zeros(ROWS, dtype=bool)})
    asked = [("arm", {"method": method}) for method in ("difference", "calibrated", "distance")]
    asked += [("centre", {}), ("smoker", {})]

    with seeded_noise(3):
        found = [view.chi2("ill", by, epsilon=5, fresh=True, **how) for by, how in asked for _ in range(20)]

    assert sum(one.reject(0.05) for one in found) <= 0.05 * 100 + 5 * math.sqrt(0.05 * 0.95 * 100)


def test_selections_by_public_columns():
    """Rows selected by a public column have public groups."""
    found = protect().where(centre="a").chi2("ill", "arm", method="difference", epsilon=1)

    assert sum(found.sizes) == 1000


# The noise is what the sensitivity asks for, and the price what was asked.

SCALES = [
    ({"method": "difference"}, "arm", 1 / N1),
    ({"method": "distance"}, "arm", 1.0),
    ({}, "centre", math.sqrt(1 / 1000 - 1 / ROWS)),
    ({}, "smoker", 1.0),
]


@pytest.mark.parametrize(("how", "by", "sensitivity"), SCALES)
@pytest.mark.parametrize("epsilon", [0.01, 0.5])
def test_the_noise_is_what_the_sensitivity_asks_for(how, by, sensitivity, epsilon):
    """The scale of the noise is the sensitivity over epsilon, and all that is asked is spent."""
    view = protect()

    found = view.chi2("ill", by, **how, epsilon=epsilon)

    assert found.scale == pytest.approx(sensitivity / epsilon, rel=1e-6)
    assert found.scale >= sensitivity / epsilon
    assert float(view.budget.spent) == epsilon


def test_the_calibrated_test_shares_its_budget():
    """A tenth is for the number of X = 1."""
    found = protect().chi2("ill", "arm", method="calibrated", epsilon=0.5)

    assert found.total_scale == pytest.approx(20, rel=1e-6)
    assert found.scale == pytest.approx(1 / (0.45 * N1), rel=1e-6)
    assert len(found.privacy.noise) == 2
    assert found.privacy.epsilon == 0.5


def test_auto():
    """With little to spend, or a share that is known, the difference; with more, the calibrated test."""
    view = protect()

    assert view.chi2("ill", "arm", epsilon=0.05).method == "difference"
    assert view.chi2("ill", "arm", epsilon=0.5).method == "calibrated"
    assert view.chi2("ill", "arm", rate=(0.2, 0.4), epsilon=0.5).method == "difference"


# Level, power and coverage.

TESTS = {
    "difference": {"by": "arm", "method": "difference"},
    "difference in a range": {"by": "arm", "rate": (0.2, 0.3)},
    "calibrated": {"by": "arm", "method": "calibrated"},
    "distance": {"by": "arm", "method": "distance"},
    "three groups": {"by": "centre"},
    "private groups": {"by": "smoker"},
}


@pytest.mark.statistical
@pytest.mark.parametrize("asked", TESTS.values(), ids=TESTS)
def test_a_true_hypothesis_is_rejected_at_its_level(asked):
    """Of 40 tests at 20% of columns without association, no more reject than that lets."""
    draw, runs, rejected = np.random.default_rng(1), 40, 0
    with seeded_noise(2):
        for _ in range(runs):
            view = protect({**SMALL, "ill": draw.random(len(SMALL["arm"])) < 0.25})
            rejected += view.chi2("ill", **asked, epsilon=1).pvalue <= 0.2

    assert rejected <= stats.binom.isf(5e-7, runs, 0.2)


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["difference", "calibrated", "distance"])
def test_an_association_is_found_as_often_as_planned(method):
    """Of 30 tables with a difference, as many are found as the power says."""
    draw, runs, found = np.random.default_rng(3), 30, 0
    arm = np.repeat(["drug", "placebo"], [150, 250])
    planned = power(150, 250, 0.5, base=0.3, difference=0.2, method=method)
    with seeded_noise(4):
        for _ in range(runs):
            ill = draw.random(400) < np.where(arm == "drug", 0.5, 0.3)
            view = protect(
                {"ill": ill, "arm": arm},
                categories={"ill": [False, True], "arm": ["drug", "placebo"]},
                public=["arm"],
            )
            found += view.chi2("ill", "arm", method=method, epsilon=0.5).reject()

    assert 0.5 < planned < 0.99
    assert stats.binom.ppf(5e-7, runs, planned - 0.02) <= found <= stats.binom.isf(5e-7, runs, planned + 0.02)


def released(statistic, n1, n0, scale, **known):
    """A result with this noisy statistic."""
    asked = {"method": "difference", "categories": 2, "x": "x", "by": "by", "groups": ("a", "b"), **known}
    return Chi2(statistic=statistic, scale=scale, sizes=(n1, n0), low=0.0, high=1.0, **asked)


@pytest.mark.statistical
@pytest.mark.parametrize("known", ["nothing", "share", "total"])
@pytest.mark.parametrize(
    ("n1", "n0", "p1", "p0", "epsilon"),
    [(200, 300, 0.5, 0.3, 1.0), (200, 300, 0.3, 0.3, 0.1), (500, 500, 0.04, 0.10, 0.5), (100, 900, 0.9, 0.6, 1.0)],
)
def test_intervals_cover_the_difference(known, n1, n0, p1, p0, epsilon):
    """Of 200 intervals of 90%, as many hold the true difference as that says, or more."""
    draw, runs, covered = np.random.default_rng(5), 200, 0
    scale = 1 / (min(n1, n0) * epsilon)
    share = (n1 * p1 + n0 * p0) / (n1 + n0)
    for _ in range(runs):
        c11, c10 = draw.binomial(n1, p1), draw.binomial(n0, p0)
        noisy = abs(c11 / n1 - c10 / n0) + draw.laplace(0, scale)
        said = {
            "nothing": {},
            "share": {"rate": share},
            "total": {"method": "calibrated", "total": c11 + c10 + draw.laplace(0, 5), "total_scale": 5.0},
        }
        low, high = released(noisy, n1, n0, scale, **said[known]).confidence_interval(0.9)
        covered += low <= abs(p1 - p0) <= high

    assert covered >= stats.binom.ppf(1e-7, runs, 0.89)


def test_intervals_come_for_free():
    """Intervals at other levels, and decisions, are computed from what was released."""
    view = protect()
    found = view.chi2("ill", "arm", method="difference", confidence=0.8, epsilon=1)

    wide, narrow = found.confidence_interval(0.99), found.confidence_interval(0.5)

    assert wide.low <= found.low <= narrow.low < narrow.high <= found.high <= wide.high
    assert found.confidence_interval() == (found.low, found.high) == found.confidence_interval(0.8)
    assert found.reject(found.pvalue)
    assert not found.reject(found.pvalue * 0.99)
    assert view.budget.spent == 1


@pytest.mark.parametrize("asked", TESTS.values(), ids=TESTS)
def test_a_critical_value_divides_what_is_rejected(asked):
    """A statistic is rejected at a level if it lies beyond the critical value of that level."""
    found = protect(SMALL).chi2("ill", **asked, epsilon=0.5)

    for alpha in (0.001, 0.05, 0.2, 0.7):
        assert found.reject(alpha) == (found.statistic >= found.critical_value(alpha))


def test_only_a_difference_has_an_interval():
    """The other statistics do not say how large a difference is."""
    found = protect().chi2("ill", "arm", method="distance", epsilon=1)

    assert found.low is None
    with pytest.raises(dp.ArgumentError, match="says nothing of the size"):
        found.confidence_interval()


# Any noise at all.


ASKED = {
    **TESTS,
    "categories": {"x": "grade", "by": "centre"},
    "shares": {"x": "grade", "by": "centre", "rate": (0.2, 0.3, 0.5)},
}


@pytest.mark.parametrize("scales", [-1e6, -50, 0, 50, 1e6])
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_any_noise_is_concluded_from(asked, scales, steady):
    """Whatever the noise is, the result holds numbers, and says where it tells nothing."""
    with steady(scales):
        found = protect(SMALL).chi2(**{"x": "ill", **asked}, epsilon=0.1)

    ends = [found.low, found.high] if found.low is not None else [0.0, 1.0]
    assert 0 <= found.pvalue <= 1
    assert 0 <= ends[0] <= ends[1] <= 1
    assert math.isfinite(found.critical_value(1e-6))
    assert (found.pvalue > 0.9) if scales < -2 else (found.pvalue < 1e-6) if scales >= 50 else True
    if scales <= -50 and found.low is not None:
        assert any("uninformative" in note for note in found.notes)


# What is said about the tests.


@pytest.mark.parametrize("method", ["difference", "calibrated", "distance"])
def test_explain_says_what_could_be_found(method):
    """Explain gives the power for three differences, the same as planning, and costs nothing."""
    view = protect(SMALL)
    n1, n0 = (int((SMALL["arm"] == arm).sum()) for arm in ("drug", "placebo"))

    explained = view.explain("chi2", "ill", "arm", method=method, epsilon=0.1)

    expected = [power(n1, n0, 0.1, base=0.5 - d / 2, difference=d, method=method) for d in (0.05, 0.1, 0.2)]
    assert list(explained.findings.values()) == pytest.approx(expected)
    assert view.budget.spent == 0


def test_explain_at_a_share():
    """Where the share is known, the power is that around it."""
    explained = protect().explain("chi2", "ill", "arm", rate=0.02, epsilon=0.1)

    expected = [
        power(N1, N0, 0.1, base=0.0, difference=d, method="difference", rate=0.02) for d in (0.05, 0.1, 0.2)
    ]
    assert list(explained.findings.values()) == pytest.approx(expected)


@pytest.mark.parametrize(("x", "by"), [("grade", "arm"), ("ill", "centre"), ("ill", "smoker")])
def test_explain_of_other_tables(x, by):
    """Of larger tables and private groups, explain says the price and the noise."""
    explained = protect().explain("chi2", x, by, epsilon=0.1)

    assert explained.findings == {}
    assert len(explained.measurements) == 1


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_release_survives_json(asked):
    """A release makes the same release again from its dictionary, with what it answers later."""
    found = protect(SMALL).chi2(**{"x": "ill", **asked}, epsilon=1)

    again = dp.Release.from_dict(json.loads(json.dumps(found.to_dict())))

    assert isinstance(again, Chi2)
    assert again.critical_value(0.01) == found.critical_value(0.01)
    assert json.dumps(again.to_dict()) == json.dumps(found.to_dict())
    if found.low is not None:
        assert again.confidence_interval(0.5) == found.confidence_interval(0.5)


def test_a_release_is_a_row():
    """A release is one row of a frame, with the price."""
    found = protect().chi2("ill", "arm", epsilon=0.5)

    row = found.to_frame("polars")

    assert row["pvalue"].item() == found.pvalue
    assert row["epsilon"].item() == 0.5


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_release_has_a_picture(asked):
    """The picture shows the noisy statistic and where it would be significant."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    found = protect(SMALL).chi2(**{"x": "ill", **asked}, epsilon=1)

    ax = found.plot()

    ax.figure.canvas.draw()
    drawn = {line.get_label(): list(line.get_xdata()) for line in ax.lines}
    pyplot.close(ax.figure)
    assert drawn["significant at 5%"][0] == found.critical_value(0.05)
    assert drawn["significant at 1%"][0] == found.critical_value(0.01)


# What cannot be asked is refused before it is paid.

REFUSED = [
    ({"by": "ill"}, "the column that is tested"),
    ({"x": "arm"}, "the column that is tested"),
    ({"method": "exact"}, "method='exact' is unknown"),
    ({"method": None}, "method=None is unknown"),
    ({"by": "age"}, "has no categories"),
    ({"x": "age"}, "has no categories"),
    ({"by": "nobody"}, "no column 'nobody'"),
    ({"groups": "ab"}, "at least 2 groups"),
    ({"groups": 2}, "at least 2 groups"),
    ({"groups": ()}, "at least 2 groups"),
    ({"groups": ("drug",)}, "at least 2 groups"),
    ({"groups": ("drug", "drug")}, "at least 2 groups"),
    ({"groups": ("drug", "herbs")}, "'herbs' is not a category of column 'arm'"),
    ({"groups": ("drug", None)}, "is not a category"),
    ({"rate": 0}, "rate=0 is no share"),
    ({"rate": 1.0}, "no share"),
    ({"rate": -0.1}, "no share"),
    ({"rate": math.nan}, "rate"),
    ({"rate": "half"}, "rate"),
    ({"rate": (0.4, 0.2)}, "no range"),
    ({"rate": (0.2, 0.3, 0.4)}, "no range"),
    ({"rate": []}, "no range"),
    ({"rate": (0.1, None)}, "rate"),
    ({"rate": 0.3, "method": "calibrated"}, "rate= says already"),
    ({"confidence": 95}, "confidence=95 is not between 0 and 1"),
    ({"confidence": math.nan}, "confidence=nan is not between"),
    ({"by": "centre", "method": "difference"}, "two categories in two groups"),
    ({"x": "grade", "method": "distance"}, "two categories in two groups"),
    ({"x": "grade", "rate": 0.3}, "a share above 0 for each of 3"),
    ({"x": "grade", "rate": (0.5, 0.5)}, "a share above 0 for each of 3"),
    ({"x": "grade", "rate": (0.5, 0.5, 0.5)}, "a share above 0 for each of 3"),
    ({"x": "grade", "rate": (0.5, 0.5, 0.0)}, "a share above 0 for each of 3"),
    ({"x": "grade", "rate": (0.5, 0.5, math.nan)}, "a share above 0 for each of 3"),
    ({"x": "grade", "rate": (0.5, 0.5, "0")}, "a share above 0 for each of 3"),
    ({"x": "grade", "by": "smoker"}, "'grade' has 3 categories, where two are needed"),
    ({"x": "ill", "by": "grade"}, "'grade' has 3 categories, where two are needed"),
    ({"by": "smoker", "groups": ("yes", "no")}, "need public groups, and 'smoker' is private"),
    ({"by": "smoker", "method": "difference"}, "need public groups, and 'smoker' is private"),
    ({"by": "smoker", "rate": 0.3}, "need public groups, and 'smoker' is private"),
    ({"tau": 3}, "unexpected keyword argument 'tau'"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_what_cannot_be_tested_costs_nothing(arguments, message):
    """A test that makes no sense is refused before any charge."""
    view = protect({**TABLE, "age": np.arange(ROWS)}, bounds={"age": (0, 100)})

    with pytest.raises((dp.ArgumentError, dp.SchemaError), match=message):
        view.chi2(**{"x": "ill", "by": "arm", **arguments}, epsilon=1)

    assert view.budget.spent == 0


@pytest.mark.parametrize(
    ("select", "by", "terms", "message"),
    [
        ({"ill": True}, "arm", {}, "how many rows each group"),
        ({"smoker": "yes"}, "centre", {}, "how many rows each group"),
        ({"grade": "low"}, "smoker", {}, "public number of rows"),
        ({}, "smoker", {"neighbors": "add_remove", "public": []}, "public number of rows"),
    ],
)
def test_groups_of_private_sizes_are_refused(select, by, terms, message):
    """Where what must be public is private, the error says so, and nothing is charged."""
    view = protect(**terms)

    with pytest.raises(dp.ArgumentError, match=message):
        (view.where(select) if select else view).chi2("ill", by, epsilon=1)

    assert view.budget.spent == 0


def test_an_empty_group_is_refused():
    """Labels with one class empty are told from the public sizes."""
    view = protect({**TABLE, "arm": np.full(ROWS, "drug")})

    with pytest.raises(dp.ArgumentError, match="A group of 'arm' has no rows"):
        view.chi2("ill", "arm", epsilon=1)

    assert view.budget.spent == 0


@pytest.mark.parametrize("method", ["difference", "calibrated", "distance"])
def test_a_group_of_one_row(method):
    """A group of one row is tested with the noise that it needs, and says how little can be found."""
    view = protect({**TABLE, "arm": np.where(np.arange(ROWS) == 0, "drug", "placebo")})

    found = view.chi2("ill", "arm", method=method, epsilon=1)

    assert found.sizes == (1, ROWS - 1)
    assert 0 <= found.pvalue <= 1
    if method == "difference":
        assert found.scale == pytest.approx(1, rel=1e-6)
        assert any("only large differences" in note for note in found.notes)


@pytest.mark.parametrize("rows", [1, 2])
def test_few_rows_with_private_groups(rows):
    """One row is no sample; two are the smallest, and nothing can be found in them."""
    view = protect({name: values[:rows] for name, values in TABLE.items()})

    if rows == 1:
        with pytest.raises(dp.ArgumentError, match="A test needs at least two"):
            view.chi2("ill", "smoker", epsilon=1)
        assert view.budget.spent == 0
    else:
        assert view.chi2("ill", "smoker", epsilon=1).sizes == (2,)


def test_groups_too_large_for_the_distance():
    """The signed distance is refused where its law would take too long, and the error says what to do."""
    rows = 14_000
    view = protect(
        {"ill": np.zeros(rows, dtype=bool), "arm": np.repeat(["drug", "placebo"], rows // 2)},
        categories={"ill": [False, True], "arm": ["drug", "placebo"]},
        public=["arm"],
    )

    with pytest.raises(dp.ArgumentError, match="for groups of up to"):
        view.chi2("ill", "arm", method="distance", epsilon=1)

    assert view.budget.spent == 0
