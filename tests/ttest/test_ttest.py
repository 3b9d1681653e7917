"""``view.ttest`` and ``view.ztest`` through the whole house."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ztest as textbook_ztest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy.testing import seeded_noise
from dfprivacy_ttest import minimum_detectable_effect, power
from dfprivacy_ttest.mechanisms import ColumnPower

NAMES = (f"ttest-{number}" for number in itertools.count())
ROWS = 5000
PLENTY = 20_000  # an epsilon at which the noise is far smaller than what sampling leaves open

rng = np.random.default_rng(20_240_601)
ARM = rng.choice(["drug", "placebo"], ROWS)
PRESSURE = np.clip(np.where(ARM == "drug", 131.0, 132.0) + rng.normal(0, 12, ROWS), 80, 200)
SEEN = (np.datetime64("2020-01-01") + rng.integers(0, 1000, ROWS)).astype("datetime64[ms]")
TABLE = {"pressure": PRESSURE, "arm": ARM, "seen": SEEN}
GONE = rng.random(ROWS) < np.where(ARM == "drug", 0.02, 0.15)
HOLES = {**TABLE, "pressure": np.where(GONE, np.nan, PRESSURE)}
TERMS = {
    "bounds": {"pressure": (80, 200), "seen": (dt.date(2020, 1, 1), dt.date(2022, 12, 31))},
    "categories": {"arm": ["placebo", "drug"]},
}
ONE, TWO = {"popmean": 132}, {"by": "arm", "groups": ("drug", "placebo")}
COME, PUBLIC = {"neighbors": "add_remove"}, {"public": ["arm"]}
GROUPINGS = {"public size": {}, "private size": COME, "public groups": PUBLIC}


def protect(table=TABLE, **terms):
    return dp.protect(pd.DataFrame(table), next(NAMES), **{"epsilon": 10**6, "ledger": "memory:", **TERMS, **terms})


# Without noise to speak of, they are the textbook's tests.


@pytest.mark.one_in(2)
@pytest.mark.parametrize("terms", GROUPINGS.values(), ids=GROUPINGS)
@pytest.mark.parametrize("policy", ["omit", "fill"])
def test_without_noise_they_are_the_textbooks(policy, terms):
    """One sample and two, Welch's and Student's, the noise in the law or not, asked apart or at once; on each side.

    Of rows with a value, or with 140, the middle of the bounds, in place of those that have none.
    """
    kept = ~GONE if policy == "omit" else np.full(ROWS, fill_value=True)
    x, arm = np.where(GONE, 140, PRESSURE)[kept], ARM[kept]
    both = [x[arm == each] for each in TWO["groups"]]
    view = protect(HOLES, **terms)
    for side, of_statsmodels in (("two-sided", "two-sided"), ("less", "smaller"), ("greater", "larger")):
        how = {"alternative": side, "nan_policy": policy, "epsilon": PLENTY}
        single = stats.ttest_1samp(x, 132, alternative=side)
        welch, student = (stats.ttest_ind(*both, equal_var=each, alternative=side) for each in (False, True))
        for asked, textbook in (
            (ONE, single),
            (TWO, welch),
            ({**TWO, "equal_var": True}, student),
            ({**ONE, "method": "naive"}, single),
            ({**TWO, "method": "naive"}, welch),
            ({**TWO, "method": "naive", "equal_var": True}, student),
            ({**ONE, "queries": "separately"}, single),
            ({**TWO, "queries": "separately", "method": "naive"}, welch),
        ):
            found = view.ttest("pressure", **asked, **how)
            parts = both if "by" in asked else [x]
            assert found.statistic == pytest.approx(textbook.statistic, abs=2e-2)
            assert found.pvalue == pytest.approx(textbook.pvalue, rel=0.1)
            assert found.df == pytest.approx(textbook.df, rel=1e-3)
            assert list(found.confidence_interval()) == pytest.approx(
                list(textbook.confidence_interval()), abs=2e-2
            )
            assert list(found.means) == pytest.approx([part.mean() for part in parts], abs=2e-3)
            assert list(found.sizes) == pytest.approx([part.size for part in parts], abs=0.05)
        statistic, pvalue = textbook_ztest(x, value=132, alternative=of_statsmodels)
        z = view.ztest("pressure", popmean=132, sigma=float(x.std(ddof=1)), **how)
        assert (z.statistic, z.pvalue) == (pytest.approx(statistic, abs=1e-2), pytest.approx(pvalue, rel=0.1))


def test_the_order_of_the_groups_is_the_sign():
    """That of the categories without ``groups``; the other way round, the statistic is the negative."""
    view = protect()
    forth, back = (view.ttest("pressure", by="arm", groups=each, epsilon=PLENTY) for each in (None, TWO["groups"]))

    assert (forth.groups, back.groups) == (("placebo", "drug"), ("drug", "placebo"))
    assert forth.statistic == pytest.approx(-back.statistic, abs=1e-2)
    assert forth.pvalue == pytest.approx(back.pvalue, rel=0.1)


def test_dates_count_in_days():
    """A column of dates is tested in days, against a date."""
    null, days = dt.date(2021, 5, 20), SEEN.astype("datetime64[D]").astype(float)
    textbook = stats.ttest_1samp(days, (null - dt.date(1970, 1, 1)).days)

    found = protect().ttest("seen", popmean=null, epsilon=PLENTY)

    assert found.estimate == pytest.approx(days.mean(), abs=1e-2)
    assert found.pvalue == pytest.approx(textbook.pvalue, rel=0.1)


@pytest.mark.parametrize("queries", ["jointly", "separately"])
def test_other_conclusions_are_free(queries):
    """Intervals at other levels, of which a one-sided one has one end; decisions at others; another hypothesis."""
    view = protect()
    asked = {"queries": queries, "epsilon": PLENTY}
    null = float(PRESSURE.mean()) + 0.4
    strict, mild, narrow, less, greater, other = (
        view.ttest("pressure", **{"popmean": null, **each}, **asked)
        for each in (
            {"alpha": 0.001},
            {"alpha": 0.1},
            {"confidence": 0.8},
            {"alternative": "less"},
            {"alternative": "greater"},
            {"popmean": 130},
        )
    )

    assert 0.001 < strict.pvalue < 0.1
    assert (strict.rejected, mild.rejected, other.rejected) == (False, True, True)
    assert narrow.confidence_interval() == pytest.approx(strict.confidence_interval(0.8), rel=1e-12)
    assert (less.low, greater.high) == (-math.inf, math.inf)
    assert all(map(math.isfinite, (less.high, greater.low)))
    assert dp.combine(lambda test: 2 * test.estimate, narrow).estimate == pytest.approx(2 * narrow.estimate)
    assert view.budget.spent == pytest.approx(PLENTY)


# Missing values.


@pytest.mark.parametrize("by", [None, "arm"])
def test_how_many_were_missing_is_said_where_it_is_free(by):
    """Of a public number of rows, the release tells how many were left out, and how sure that is."""
    about = ONE if by is None else {"by": by}
    found, whole = (protect(table, **PUBLIC).ttest("pressure", **about, epsilon=2) for table in (HOLES, TABLE))

    assert abs(found.missing - GONE.sum()) < 20 * found.missing_standard_error
    assert found.missing_standard_error == pytest.approx(2.125 / 2 * math.sqrt(2 if by is None else 4), rel=1e-6)
    assert "missing" in repr(found)
    assert abs(whole.missing) < 20 * whole.missing_standard_error
    assert protect(HOLES).ttest("pressure", **about, nan_policy="fill", epsilon=2).missing is None
    part = protect(HOLES, **PUBLIC).where(arm="drug").ttest("pressure", **ONE, epsilon=2)
    assert part.missing == pytest.approx((ARM == "drug").sum() - part.sizes[0])


def test_a_public_column_is_tested_exactly():
    """Of a public column all is known: the test is scipy's, free, and so is the number of missing values."""
    view = protect(HOLES, public=["pressure", "arm"])
    parts = [HOLES["pressure"][arm == ARM] for arm in ("placebo", "drug")]

    found = view.ttest("pressure", by="arm", epsilon=1)

    assert (found.missing, found.missing_standard_error) == (GONE.sum(), 0)
    textbook = stats.ttest_ind(*parts, equal_var=False, nan_policy="omit")
    assert found.pvalue == pytest.approx(textbook.pvalue, rel=1e-4)
    assert view.budget.spent == 0


# The noise is what the sensitivity asks for, and no more.

SIZED, UNSIZED = (1, 2, 1), (1, 1, 2)  # the scales of what is measured, in sensitivities over epsilon
SENSITIVITIES = {
    # A row's (y, y²/2) can change by 2 in all: the squares are free. Whether it is below or above has 1/16 each.
    "public size": ({}, {}, ONE, 2.125, SIZED),
    # A row brings or takes (y, 1-y², y²/2), at most 3/2, and is below or above.
    "private size": (COME, {}, ONE, 1.5625, UNSIZED),
    "private groups and sizes": (COME, {}, TWO, 1.5625, UNSIZED),
    # A row that changes its group takes and brings as much.
    "private groups": ({}, {}, TWO, 3.125, UNSIZED),
    # It cannot if the groups are public.
    "public groups": (PUBLIC, {}, TWO, 2.125, SIZED),
    # A row may change its value or be gone, 8/3, and may have been below the bounds and now be above.
    "private rows": ({}, {"pressure": (80, 140)}, ONE, 8 / 3 + 1 / 8, None),
    "a private group": ({}, {"arm": "drug"}, ONE, 8 / 3 + 1 / 8, None),
    "a public group": (PUBLIC, {"arm": "drug"}, ONE, 2.125, SIZED),
}


@pytest.mark.parametrize("case", SENSITIVITIES)
@pytest.mark.parametrize("epsilon", [0.1, 7])
def test_the_noise_is_what_the_sensitivity_asks_for(case, epsilon):
    """The scale of the noise is the sensitivity over epsilon; rounding adds six grid steps at most."""
    terms, where, about, sensitivity, scales = SENSITIVITIES[case]

    view = protect(**terms)
    found = (view.where(where) if where else view).ttest("pressure", **about, epsilon=epsilon)

    (noise,) = found.privacy.noise
    slack = 6 * 2.0**-noise.grid  # half a step for each of four coordinates of two rows, and two for safety
    assert sensitivity * (1 - 1e-12) <= noise.sensitivity <= sensitivity + slack
    assert noise.sensitivity / epsilon <= noise.scale <= (sensitivity + slack) / epsilon * (1 + 1e-15)
    assert slack < 2e-8
    if scales is None:
        assert found.released["form"] == "private"
    else:
        assert found.released["scales"] == pytest.approx(
            [each * sensitivity / epsilon for each in scales], rel=1e-8
        )


@pytest.mark.parametrize("n", [2, 5, 40])
def test_the_printed_queries_cost_twice_what_is_said(n):
    """One row of a table of zeros in [0, 1] moves mean and variance by all of their sensitivity, 1/n, at once."""
    zeros, one = np.zeros(n), np.eye(n)[0]

    moved = [abs(f(one) - f(zeros)) for f in (np.mean, lambda x: np.var(x, ddof=1))]
    loss = sum(move / (1 / (n * 0.3)) for move in moved)  # of two Laplace noises of scale 1/(n ε), ε = 0.3

    assert moved == pytest.approx([1 / n, 1 / n])
    assert loss == pytest.approx(2 * 0.3)


APART = {
    "public size": ({}, {"nan_policy": "fill"}, [2, 1]),
    "missing rows": ({}, {}, [2, 1, 1]),
    "private size": (COME, {"nan_policy": "fill"}, [1, 1, 1]),
    "private groups": ({}, {"by": "arm", "nan_policy": "fill"}, [2, 2, 2]),
    "public groups": (PUBLIC, {"by": "arm", "nan_policy": "fill"}, [2, 1]),
}


@pytest.mark.parametrize("case", APART)
def test_each_query_has_its_part_of_epsilon(case):
    """Scales are the sensitivities over equal parts of epsilon, and the parts add up to what is charged."""
    terms, asked, sensitivities = APART[case]
    view = protect(**terms)

    found = view.ttest("pressure", queries="separately", popmean=0 if "by" in asked else 132, **asked, epsilon=0.6)

    scales = [sensitivity * len(sensitivities) / 0.6 for sensitivity in sensitivities]
    assert found.released["scales"] == pytest.approx(scales, rel=1e-3)
    assert [record.sensitivity for record in found.privacy.noise] == pytest.approx(sensitivities)
    assert view.budget.spent == pytest.approx(0.6)
    assert found.queries == "separately"


X, BY = dp.Column("x", bounds=(-3.0, 1.5), fill=-0.75), dp.Column("by", categories=("a", "b"))


@pytest.mark.parametrize("by", [None, BY, replace(BY, public=True)], ids=["all", "private", "public"])
@pytest.mark.parametrize("exponent", [1, 2])
def test_no_row_moves_a_sum_more(search, exponent, by):
    """One row moves each sum by what its query claims, of all rows or of groups."""
    asked = ColumnPower(X, exponent)
    every = [X] if by is None else [X, by]

    most = search(every, 1).features(asked if by is None else features.OneHot(by) * asked, 1, tries=4, steps=120)

    assert 0.9 < most <= 1 + 1e-9


# Level and power.

CONFIGURATIONS = {"one sample of private size": (COME, False), "two public groups": (PUBLIC, True)}


@pytest.mark.statistical
@pytest.mark.parametrize("case", CONFIGURATIONS)
def test_a_true_hypothesis_is_rejected_at_its_level(case):
    """Of 100 tests a level of 3% to 6.5%; and 70% to 90% of the effect that planning says is found in four of five.

    All are one call, with a group for each sample.
    """
    terms, two = CONFIGURATIONS[case]
    draw, runs, rows, epsilon = np.random.default_rng(20_240_602), 100, 400, 0.5
    plan = {"sd": 0.46, "bounds": (-1, 1), "mean": 0.1, "fixed_groups": "public" in terms}  # sd of clipped values
    sizes = {"n": rows // 2, "n2": rows // 2} if two else {"n": rows}
    relation = terms.get("neighbors", "replace_one")
    effect = minimum_detectable_effect(epsilon=epsilon, neighbors=relation, **sizes, **plan)
    sample = np.repeat(np.arange(2 * runs), rows)
    arm = np.tile(np.repeat(["drug", "placebo"], rows // 2), 2 * runs)
    shift = effect * (sample >= runs) * ((arm == "drug") if two else 1)
    table = {"y": draw.normal(0.1, 0.5, len(sample)) + shift, "arm": arm, "sample": sample}
    # the size of a sample is public where that of the table is
    public = [*terms.get("public", ()), *(["sample"] if relation == "replace_one" else [])]
    known = {"bounds": {"y": (-1, 1)}, "categories": {**TERMS["categories"], "sample": list(range(2 * runs))}}
    view = protect(table, neighbors=relation, public=public, epsilon=epsilon, **known)

    found = view.group_by("sample").ttest("y", **(TWO if two else {"popmean": 0.1}), epsilon=epsilon)

    level, power = np.array([one.pvalue <= 0.05 for one in found.releases]).reshape(2, runs).sum(axis=1)
    assert found.privacy.epsilon == epsilon
    assert stats.binom.ppf(5e-7, runs, 0.03) <= level <= stats.binom.isf(5e-7, runs, 0.065)
    assert stats.binom.ppf(5e-7, runs, 0.7) <= power <= stats.binom.isf(5e-7, runs, 0.9)


# What is said about the tests.


@pytest.mark.parametrize("about", [ONE, {"by": "arm"}])
def test_an_uninformative_answer_says_so(about):
    """Where the noise drowns the data, the release carries a note, and does not reject; else it has no notes."""
    with seeded_noise(20_240_605):
        found = protect(pd.DataFrame(TABLE).head(20)).ttest("pressure", **about, epsilon=0.001)

    assert any(note.startswith("Uninformative") for note in found.notes)
    assert any("times the epsilon" in note for note in found.notes)
    assert any(note in repr(found) for note in found.notes)
    assert not found.rejected
    assert protect().ttest("pressure", **about, epsilon=1).notes == ()


def test_loose_bounds_are_named_with_what_would_help():
    """Where the bounds are wide against the spread, answer and plan say that the noise decides, and what helps."""
    view = protect({"y": np.random.default_rng(40).normal(0, 1, 40)}, bounds={"y": (-5, 5)}, categories={})

    found = view.ttest("y", popmean=0, epsilon=0.1)
    planned = view.explain("ztest", "y", popmean=0, sigma=1, epsilon=1)

    # Noise of 5 √2 · 2.125/40 beside 1/√40 from sampling.
    assert any("the epsilon, bounds" in note and "times the rows" in note for note in found.notes)
    said = dict(planned.findings)
    assert said.pop("privacy noise will be 2.4 times the sampling error").startswith(
        "to make them equal: 2.4 times the epsilon, bounds 2.4 times as narrow if the data fit, or 5.6 times"
    )
    assert (
        said.pop("the bounds are wide compared with the spread of the values")
        == "wilcoxon() compares ranks, which bounds do not affect"
    )
    assert said.pop("expected standard error of the mean from noise") == said.pop("expected relative error")
    assert len(said) == 1


@pytest.mark.parametrize(
    ("terms", "method", "about", "plan"),
    [
        ({}, "ztest", {"popmean": 130, "sigma": 12}, {"sd": 12, "mean": 130}),
        ({}, "ttest", {"popmean": 90, "alternative": "less"}, {"sd": 30, "mean": 90}),
        (PUBLIC, "ttest", {"by": "arm"}, {"n2": (ARM != "drug").sum(), "sd": 30, "fixed_groups": True}),
        (COME, "ttest", {"popmean": 130}, {"sd": 30, "mean": 130, "neighbors": "add_remove"}),
        ({}, "ttest", {"by": "arm", "alternative": "less"}, {"sd": 30}),
    ],
)
def test_explain_plans(terms, method, about, plan):
    """An effect, or where sizes are private, numbers of rows, that planning says are found in four of five."""
    side = about.get("alternative", "two-sided")

    said = protect(**terms).explain(method, "pressure", **about, epsilon=0.5).findings

    quarter = "" if method == "ztest" else " (a quarter of the range)"
    given = f"with probability 0.8, if the standard deviation is {plan['sd']}{quarter}"
    if terms == COME or (about.get("by") and not terms):
        first, number, last = said[f"an effect of 6 is found {given}"].split(" ", 2)
        rows, effect = int(number.replace(",", "")), 6
        plan = {**plan, "n2": rows if about.get("by") else None}
        assert (first, last) == ("with", f"rows or more{' in each group' * bool(about.get('by'))}")
    else:
        rows, effect = (ARM == "drug").sum() if terms else ROWS, said[f"smallest effect found {given}"]
    effect = -effect if side == "less" else effect
    found = power(rows, 0.5, effect=effect, bounds=(80, 200), alternative=side, **plan)
    assert found == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("about", "null"),
    [
        ({"popmean": 130}, 130),
        ({"popmean": 130, "method": "naive"}, 130),
        ({"popmean": 130, "alternative": "greater"}, 130),
        ({"by": "arm"}, 0),
    ],
    ids=str,
)
def test_a_release_has_a_picture(plt, about, null):
    """The picture shows the interval, cut where no estimate can be, the part of it from sampling, and the null."""
    found, (_, given) = protect().ttest("pressure", **about, epsilon=0.1), plt.subplots()

    ax = found.plot(given)
    drawn = {line.get_label(): list(line.get_xdata()) for line in ax.lines}
    assert (ax, ax.get_title()) == (given, f"p = {found.pvalue:.3g}")
    assert drawn["null hypothesis"] == [null, null]
    assert drawn["estimate"] == [found.estimate]
    low, high = drawn["of it from sampling"]
    if about.get("method") == "naive":  # its interval leaves the noise out
        assert (low, high) == found.confidence_interval()
    else:
        left, right = drawn["95% interval, noise included"]
        assert left < low < found.estimate < high < right
        assert (left, right) == (max(found.low, -120 if "by" in about else 80), min(found.high, 200))


# What cannot be asked is refused before it is paid.

THREE = {"categories": {"arm": ["drug", "placebo", "nothing"]}}
RARE = {**TABLE, "arm": np.where(np.arange(ROWS) == 0, "drug", "placebo")}
FIRST = {name: values[:1] for name, values in TABLE.items()}
REFUSED = [
    ({"popmean": 130, "groups": ("drug", "placebo")}, "groups= was given without by="),
    ({"popmean": 130, "by": "arm"}, "exclude each other"),
    ({"popmean": 79}, "lies outside the bounds of 'pressure', 80 to 200"),
    ({"popmean": math.nan}, "popmean.*a finite number"),
    ({"popmean": "130"}, "popmean.*a finite number"),
    ({"by": "arm", "groups": "ab"}, "compares two groups of 'arm'"),
    ({"by": "arm", "groups": 2}, "compares two groups of 'arm'"),
    ({"by": "arm", "groups": ("drug",)}, "compares two groups of 'arm'"),
    ({"by": "arm", "groups": ("drug", "drug")}, "compares two groups of 'arm'"),
    ({"by": "arm", "groups": ("drug", "herbs")}, "'herbs' is not a category of column 'arm'"),
    ({"by": "pressure"}, "has no categories"),
    ({"alternative": "both"}, "alternative='both' is unknown"),
    ({"method": "exact"}, "method='exact' is unknown"),
    ({"queries": "apart"}, "queries='apart' is unknown"),
    ({"nan_policy": "drop"}, "nan_policy='drop' is unknown"),
    ({"alpha": 0}, "alpha=0 is not between 0 and 1"),
    ({"equal_var": "no"}, "equal_var='no' is neither True nor False"),
    ({"confidence": 95}, "confidence=95.* is not between 0 and 1"),
    ({"confidence": math.nan}, "confidence=nan is not (between 0 and 1|a finite number)"),
    ({"confidence": "95%"}, "is not (between 0 and 1|a finite number)"),
    ({"sigma": 3}, "unexpected keyword argument 'sigma'"),
    *(({"of": "ztest", "sigma": each}, "sigma") for each in (0, -1, 1e308, math.inf, math.nan, "12", None)),
    ({"by": "arm", "terms": THREE}, "This compares two groups of 'arm'"),
    ({"by": "arm", "table": RARE, "terms": PUBLIC}, "1 rows, and 2 are needed"),
    ({"popmean": 130, "table": FIRST}, "1 rows, and at least 2 are needed"),
    ({"nan_policy": "raise", "table": HOLES}, "would reveal whether a private value is missing"),
    (
        {"nan_policy": "raise", "table": HOLES, "terms": {"public": ["pressure"]}},
        "A value is missing in 'pressure'",
    ),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_be_tested_costs_nothing(asked, message):
    """What makes no sense is refused before any charge, and the message says why."""
    view = protect(asked.get("table", TABLE), **asked.get("terms", {}))
    about = {name: each for name, each in asked.items() if name not in {"of", "table", "terms"}}
    about = about if "by" in about else {"popmean": 130, **about}

    with pytest.raises(dp.ArgumentError, match=message):
        getattr(view, asked.get("of", "ttest"))("pressure", **about, epsilon=1)

    assert view.budget.spent == 0
