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
from dfprivacy.testing import seeded_noise
from dfprivacy_chi2 import Chi2, power

NAMES = (f"chi2-{number}" for number in itertools.count())
ROWS = 3000
PLENTY = 20_000  # an epsilon at which the noise is far smaller than what sampling leaves open

rng = np.random.default_rng(20_261_121)
ARM = np.where(np.arange(ROWS) < 1200, "drug", "placebo")
ILL = rng.random(ROWS) < np.where(ARM == "drug", 0.33, 0.30)
TABLE = {
    "ill": ILL,
    "arm": ARM,
    "grade": rng.choice(["low", "mid", "high"], ROWS, p=[0.5, 0.3, 0.2]),
    "centre": np.array(["a", "b", "c"])[np.arange(ROWS) % 3],
    "smoker": rng.choice(["yes", "no"], ROWS),
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


def test_the_signed_test(engine):
    """At a huge epsilon it is Pearson's, and tells the direction, the shares and what is missing."""
    textbook = stats.chi2_contingency(crosstab("ill", "arm"), correction=False)

    found = protect(engine=engine).chi2("ill", "arm", alpha=0.1, epsilon=PLENTY)

    shares = C11 / N1, C10 / N0
    apart = shares[0] - shares[1]
    assert (found.method, found.groups, found.sizes) == ("signed", ("drug", "placebo"), (N1, N0))
    assert found.released[:2] == pytest.approx([apart, ILL.sum() - ROWS / 2], abs=0.1)
    assert found.pvalue == pytest.approx(textbook.pvalue, rel=0.1)  # of the hypergeometric law
    assert found.statistic == pytest.approx(textbook.statistic, rel=1e-2)
    assert (found.effect, found.estimate) == ("difference", pytest.approx(apart, abs=1e-4))
    assert found.low < apart < found.high
    assert [share[1] for share in found.shares] == pytest.approx(shares, abs=1e-3)
    assert found.missing == pytest.approx(0, abs=1)
    more, fewer = ("drug", "placebo") if apart > 0 else ("placebo", "drug")
    assert found.direction == f"ill = True is more frequent in arm = {more} than in arm = {fewer}"
    assert found.notes == ()


def test_the_signed_test_of_a_small_table():
    """Where the number of X = 1 would be noise, all is paid for the difference, at a share of 1/2."""
    view = protect({name: values[::40] for name, values in TABLE.items()})

    found = view.chi2("ill", "arm", epsilon=1)

    n1, n0 = found.sizes
    assert n1 + n0 == ROWS / 40
    assert found.noise_standard_error == pytest.approx([math.sqrt(2) / min(n1, n0)], rel=1e-6)
    assert (found.shares, found.missing, found.omitted) == (None, None, True)
    assert any("at least as large" in note for note in found.notes)


@pytest.mark.parametrize(("x", "by"), [("ill", "centre"), ("grade", "arm"), ("grade", "centre"), ("ill", "smoker")])
def test_larger_tables_and_private_groups(engine, x, by):
    """At a huge epsilon the test of noisy counts is Pearson's."""
    textbook = stats.chi2_contingency(crosstab(x, by), correction=False)

    found = protect(engine=engine).chi2(x, by, epsilon=PLENTY)

    assert found.method == "table"
    assert found.statistic == pytest.approx(textbook.statistic, rel=1e-2)
    assert found.pvalue == pytest.approx(textbook.pvalue, abs=0.03)
    first = TABLE[x][TABLE[by] == found.groups[0]]
    assert found.shares[0] == pytest.approx([np.mean(first == each) for each in found.categories], abs=1e-3)
    assert found.missing == pytest.approx(0, abs=0.1)


def test_some_groups_of_many():
    """Two groups of three are a 2 x 2 table, in the order in which they are named."""
    rows = TABLE["centre"]

    found = protect().chi2("ill", "centre", groups=["c", "a"], epsilon=PLENTY)

    assert found.groups == ("c", "a")
    assert found.sizes == (1000, 1000)
    assert found.estimate == pytest.approx(ILL[rows == "c"].mean() - ILL[rows == "a"].mean(), abs=1e-4)


def test_numbers_and_missing_values():
    """X = 1 is the second category; missing values count as the first."""
    table = {"x": [2, 2, 1, None, 1, None] * 10, "by": ["a", "a", "a", "b", "b", "b"] * 10}
    view = protect(table, categories={"x": [1, 2], "by": ["a", "b"]}, public=["by"])

    filled, omitted = (view.chi2("x", "by", nan_policy=policy, epsilon=PLENTY) for policy in ("fill", "omit"))

    assert filled.estimate == pytest.approx(2 / 3, abs=1e-2)
    assert omitted.estimate == pytest.approx(2 / 3, abs=1e-2)
    assert (filled.missing, omitted.missing) == (None, pytest.approx(20, abs=0.1))
    assert "missing" in repr(omitted)


def test_missing_values_are_no_evidence():
    """Two arms of one distribution with 2 % and 40 % missing differ if these are filled, and not if left out."""
    rows = np.arange(4000)
    draw = np.random.default_rng(12)
    x = np.where(draw.random(4000) < 0.5, "yes", "no").astype(object)
    x[draw.random(4000) < np.where(rows < 2000, 0.02, 0.4)] = None
    table = {"x": x, "by": np.where(rows < 2000, "a", "b")}
    view = protect(table, categories={"x": ["no", "yes"], "by": ["a", "b"]}, public=["by"])

    with seeded_noise(1):
        filled, omitted, counted = (
            view.chi2("x", "by", epsilon=5, **how) for how in ({"nan_policy": "fill"}, {}, {"method": "table"})
        )

    assert filled.rejected
    assert not omitted.rejected
    assert not counted.rejected
    assert omitted.low < 0 < omitted.high
    gone = [omitted.missing, counted.missing]
    assert gone == pytest.approx([pd.isna(pd.Series(x)).sum()] * 2, abs=60)


def test_missing_values_of_private_columns_cannot_be_refused():
    """Whether a private value is missing is nobody's to know; where both columns are public it is free."""
    table = {"x": [1, 0, None, 1] * 10, "by": ["a", "b"] * 20}
    terms = {"categories": {"x": [0, 1], "by": ["a", "b"]}}

    for public, message in ((["by"], "would tell"), (["x", "by"], "A value is missing in 'x'")):
        view = protect(table, **terms, public=public)
        with pytest.raises(dp.ArgumentError, match=message):
            view.chi2("x", "by", nan_policy="raise", epsilon=1)
        assert view.budget.spent == 0


@pytest.mark.statistical
def test_a_constant_column_is_no_evidence():
    """A column with one value is significant at 5 % by the noise alone, by every method."""
    view = protect({**TABLE, "ill": np.zeros(ROWS, dtype=bool)})
    asked = [
        ("arm", {"nan_policy": "fill"}),
        ("arm", {}),
        ("arm", {"method": "table"}),
        ("centre", {}),
        ("smoker", {}),
    ]

    with seeded_noise(3):
        found = [view.chi2("ill", by, epsilon=5, fresh=True, **how) for by, how in asked for _ in range(20)]

    assert sum(one.rejected for one in found) <= 0.05 * 100 + 5 * math.sqrt(0.05 * 0.95 * 100)


def test_selections_by_public_columns():
    """Rows selected by a public column have public groups."""
    found = protect().where(centre="a").chi2("ill", "arm", epsilon=1)

    assert sum(found.sizes) == 1000


# The noise is what the sensitivity asks for, and the price what was asked.

SCALES = [
    ({}, "arm", 1 / N1),
    ({"nan_policy": "fill"}, "arm", 1 / N1),
    ({"method": "table"}, "arm", 2.0),
    ({}, "centre", 2.0),
    ({}, "smoker", 2.0),
]


@pytest.mark.parametrize(("how", "by", "sensitivity"), SCALES)
@pytest.mark.parametrize("epsilon", [0.01, 0.5])
def test_the_noise_is_what_the_sensitivity_asks_for(how, by, sensitivity, epsilon):
    """The scale of the noise is the sensitivity over epsilon, and all that is asked is spent."""
    view = protect()

    found = view.chi2("ill", by, **how, epsilon=epsilon)

    part = 0.9 if found.method == "signed" and ROWS * epsilon >= 100 else 1.0
    deviation = math.sqrt(2) * sensitivity / (part * epsilon)
    if found.method == "table":  # on whole rows, noise of this scale is smaller
        deviation = math.sqrt(2) / (2 * math.sinh(epsilon / sensitivity / 2))
    assert found.noise_standard_error[0] == pytest.approx(deviation, rel=1e-6)
    assert found.noise_standard_error[0] >= deviation * (1 - 1e-12)
    assert float(view.budget.spent) == epsilon


def test_the_signed_test_shares_its_budget():
    """A tenth is for the numbers of X = 1 and of missing X, which cost no more than the first alone."""
    found = protect().chi2("ill", "arm", epsilon=0.5)

    expected = [1 / (0.45 * N1), 20, 40, 40]
    assert found.noise_standard_error == pytest.approx([math.sqrt(2) * scale for scale in expected], rel=1e-6)
    assert len(found.privacy.noise) == 2
    assert found.privacy.epsilon == 0.5


# Level, power and coverage.

TESTS = {
    "signed": {"by": "arm"},
    "signed, filled": {"by": "arm", "nan_policy": "fill"},
    "counts of two groups": {"by": "arm", "method": "table"},
    "counts of three groups": {"by": "centre"},
    "counts of private groups": {"by": "smoker"},
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
@pytest.mark.parametrize(("policy", "epsilon"), [("fill", 0.5), ("omit", 0.5), ("omit", 0.2)])
def test_an_association_is_found_as_often_as_planned(policy, epsilon):
    """Of 30 tables with a difference, as many are found as the power says."""
    draw, runs, found = np.random.default_rng(3), 30, 0
    arm = np.repeat(["drug", "placebo"], [150, 250])
    planned = power(150, 250, epsilon, base=0.3, difference=0.2)
    with seeded_noise(4):
        for _ in range(runs):
            ill = draw.random(400) < np.where(arm == "drug", 0.5, 0.3)
            view = protect(
                {"ill": ill, "arm": arm},
                categories={"ill": [False, True], "arm": ["drug", "placebo"]},
                public=["arm"],
            )
            found += view.chi2("ill", "arm", nan_policy=policy, epsilon=epsilon).rejected

    assert 0.5 < planned < 0.99
    assert stats.binom.ppf(5e-7, runs, planned - 0.02) <= found <= stats.binom.isf(5e-7, runs, planned + 0.02)


@pytest.mark.parametrize("method", ["signed", "table"])
def test_intervals_come_for_free(method):
    """Intervals at other levels, and decisions, are computed from what was released."""
    view = protect()
    found = view.chi2("ill", "arm", method=method, confidence=0.8, epsilon=1)

    wide, narrow = found.confidence_interval(0.99), found.confidence_interval(0.5)

    assert wide.low <= found.low <= narrow.low < narrow.high <= found.high <= wide.high
    assert found.confidence_interval() == (found.low, found.high) == found.confidence_interval(0.8)
    assert found.rejected == (found.pvalue <= found.alpha == 0.05)
    assert view.budget.spent == 1


@pytest.mark.parametrize("asked", TESTS.values(), ids=TESTS)
def test_a_critical_value_divides_what_is_rejected(asked):
    """A statistic is rejected at a level if it lies beyond the critical value of that level."""
    with seeded_noise(1):  # other noise may leave a table of which nothing can be said
        found = protect(SMALL).chi2("ill", **asked, epsilon=0.5)

    number = found.statistic if found.method == "table" else found.released[0]
    number = abs(number) if found.method == "signed" else number
    for alpha in (0.01, 0.05, 0.2, 0.7):
        assert (found.pvalue <= alpha) == (number >= found.critical_value(alpha))


# Any noise at all.


ASKED = {**TESTS, "larger": {"x": "grade", "by": "centre"}}


@pytest.mark.parametrize("scales", [-1e6, -50, 0, 50, 1e6])
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_any_noise_is_concluded_from(asked, scales, steady):
    """Whatever the noise is, the result holds numbers, and says where it tells nothing."""
    with steady(scales):
        found = protect(SMALL).chi2(**{"x": "ill", **asked}, epsilon=0.1)

    least = -1 if found.method == "signed" else 0
    assert 0 <= found.pvalue <= 1
    assert least <= found.low <= found.high <= 1
    assert math.isfinite(found.critical_value(1e-6))


# What is said about the tests.


@pytest.mark.parametrize("epsilon", [0.1, 1])
def test_explain_says_what_could_be_found(epsilon):
    """Explain gives the power for three differences, the same as planning, and costs nothing."""
    view = protect(SMALL)
    n1, n0 = (int((SMALL["arm"] == arm).sum()) for arm in ("drug", "placebo"))

    explained = view.explain("chi2", "ill", "arm", epsilon=epsilon)

    expected = [power(n1, n0, epsilon, base=0.5 - d / 2, difference=d) for d in (0.05, 0.1, 0.2)]
    assert list(explained.findings.values()) == pytest.approx(expected)
    assert view.budget.spent == 0


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
    assert again.confidence_interval(0.5) == found.confidence_interval(0.5)


def test_a_release_is_rows():
    """A release is a row for the test and one for each share."""
    found = protect().chi2("ill", "arm", epsilon=0.5)

    row = found.to_frame("polars")

    assert row["pvalue"].to_list() == [found.pvalue, *[None] * 4]
    assert row["estimate"].to_list() == [found.estimate, *(share for of in found.shares for share in of)]


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
    side = -1 if found.method == "signed" and found.estimate < 0 else 1
    assert drawn["significant at 5%"][0] == side * found.critical_value(0.05)
    assert drawn["significant at 1%"][0] == side * found.critical_value(0.01)


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
    ({"confidence": 95}, "confidence=95 is not between 0 and 1"),
    ({"confidence": math.nan}, "confidence=nan is not between"),
    ({"nan_policy": "drop"}, "nan_policy='drop' is unknown"),
    ({"alpha": 5}, "alpha=5 is not between 0 and 1"),
    ({"by": "smoker", "groups": ("yes", "no")}, "need public groups, and 'smoker' is private"),
    ({"tau": 3}, "unexpected keyword argument 'tau'"),
    ({"rate": 0.3}, "unexpected keyword argument 'rate'"),
    ({"method": "calibrated"}, "method='calibrated' is unknown"),
    ({"by": "centre", "method": "signed"}, "two categories in two groups"),
    ({"x": "grade", "method": "signed"}, "two categories in two groups"),
    ({"x": "grade", "nan_policy": "fill"}, "noisy counts leave out rows"),
    ({"by": "smoker", "nan_policy": "fill"}, "noisy counts leave out rows"),
    ({"by": "smoker", "method": "signed"}, "need public groups, and 'smoker' is private"),
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

    with pytest.raises(dp.ArgumentError, match="A group of 'arm' has 0 rows"):
        view.chi2("ill", "arm", epsilon=1)

    assert view.budget.spent == 0


@pytest.mark.parametrize("method", ["signed", "table"])
def test_a_group_of_one_row(method):
    """A group of one row is tested with the noise that it needs, and says how little can be found."""
    view = protect({**TABLE, "arm": np.where(np.arange(ROWS) == 0, "drug", "placebo")})

    found = view.chi2("ill", "arm", method=method, epsilon=1)

    assert found.sizes == (1, ROWS - 1)
    assert found.pvalue > 0.01
    if method == "signed":
        assert found.noise_standard_error[0] == pytest.approx(math.sqrt(2) / 0.9, rel=1e-6)
        assert any("only large differences" in note for note in found.notes)


@pytest.mark.parametrize("rows", [1, 2])
def test_few_rows_with_private_groups(rows):
    """Where all is noise the answer says so."""
    view = protect({name: values[:rows] for name, values in TABLE.items()})

    with seeded_noise(1):
        found = view.chi2("ill", "smoker", epsilon=0.1)

    assert any("Uninformative" in note for note in found.notes)


@pytest.mark.parametrize(
    ("by", "terms"), [("smoker", {}), ("grade", {}), ("grade", {"neighbors": "add_remove", "public": []})]
)
def test_private_groups_of_any_number(by, terms):
    """Noisy counts of private columns tell direction, shares and an effect, also of a private size."""
    grade = np.asarray(TABLE["grade"])
    ill = np.where(grade == "low", "never", np.where(ILL, "once", "often"))
    view = protect(
        {**TABLE, "ill": ill}, categories={**TERMS["categories"], "ill": ["never", "once", "often"]}, **terms
    )

    found = view.chi2("ill", by, epsilon=2)

    textbook = stats.chi2_contingency(pd.crosstab(ill, TABLE[by]), correction=False)
    assert found.method == "table"
    assert found.statistic == pytest.approx(textbook.statistic, rel=0.1, abs=5)
    assert len(found.shares) == len(TERMS["categories"][by])
    if by == "grade":
        assert found.rejected
        assert "more often than expected: ill = never where grade = low" in found.direction
        assert found.low > 0.5


def test_rows_selected_by_private_columns():
    """Where rows are selected by a private column nothing is known of their number, and counts are enough."""
    found = protect().where(grade="low").chi2("ill", "smoker", epsilon=5)

    assert found.missing is None
    assert 0 <= found.pvalue <= 1
