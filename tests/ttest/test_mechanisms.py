"""``view.ttest`` and ``view.ztest`` through the whole house."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ztest as textbook_ztest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_ttest import TTest, minimum_detectable_effect, sample_size

NAMES = (f"mechanisms-{number}" for number in itertools.count())
ROWS = 5000
PLENTY = 20_000  # an epsilon at which the noise is far smaller than what sampling leaves open

rng = np.random.default_rng(20_240_601)
ARM = rng.choice(["drug", "placebo"], ROWS)
PRESSURE = np.clip(np.where(ARM == "drug", 131.0, 132.0) + rng.normal(0, 12, ROWS), 80, 200)
DRUG, PLACEBO = PRESSURE[ARM == "drug"], PRESSURE[ARM == "placebo"]
SEEN = np.datetime64("2020-01-01") + rng.integers(0, 1000, ROWS)

ENGINES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
}
TABLE = {"pressure": PRESSURE, "arm": ARM, "seen": SEEN.astype("datetime64[ms]")}
TERMS = {
    "bounds": {"pressure": (80, 200), "seen": (dt.date(2020, 1, 1), dt.date(2022, 12, 31))},
    "categories": {"arm": ["placebo", "drug"]},
}


def protect(table=TABLE, engine=pd.DataFrame, **terms):
    terms = {"epsilon": 10**6, "ledger": "memory:", **TERMS, **terms}
    return dp.protect(engine(table), next(NAMES), **terms)


RELATIONS = {
    "public size": {"neighbors": "replace_one"},
    "private size": {"neighbors": "add_remove"},
}
GROUPINGS = {
    **RELATIONS,
    "public groups": {"neighbors": "replace_one", "public": ["arm"]},
}


@pytest.fixture(params=RELATIONS.values(), ids=RELATIONS)
def relation(request):
    return request.param


@pytest.fixture(params=GROUPINGS.values(), ids=GROUPINGS)
def grouping(request):
    return request.param


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def engine(request):
    return request.param


# Without noise to speak of, they are the textbook's tests.


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_one_sample_is_scipys(engine, relation, alternative):
    """At a huge epsilon the one-sample test is scipy's."""
    textbook = stats.ttest_1samp(PRESSURE, 132, alternative=alternative)

    found = protect(engine=engine, **relation).ttest(
        "pressure", popmean=132, alternative=alternative, epsilon=PLENTY
    )

    assert found.estimate == pytest.approx(PRESSURE.mean(), abs=1e-3)
    assert found.statistic == pytest.approx(textbook.statistic, abs=1e-2)
    assert found.pvalue == pytest.approx(textbook.pvalue, rel=0.1)
    assert list(found.confidence_interval()) == pytest.approx(list(textbook.confidence_interval()), abs=1e-2)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_two_samples_are_scipys(engine, grouping, alternative):
    """At a huge epsilon the comparison of two groups is Welch's as scipy has it."""
    textbook = stats.ttest_ind(DRUG, PLACEBO, equal_var=False, alternative=alternative)

    found = protect(engine=engine, **grouping).ttest(
        "pressure", by="arm", groups=("drug", "placebo"), alternative=alternative, epsilon=PLENTY
    )

    assert found.estimate == pytest.approx(DRUG.mean() - PLACEBO.mean(), abs=1e-3)
    assert found.statistic == pytest.approx(textbook.statistic, abs=1e-2)
    assert found.pvalue == pytest.approx(textbook.pvalue, rel=0.1)
    assert list(found.confidence_interval()) == pytest.approx(list(textbook.confidence_interval()), abs=1e-2)
    assert list(found.means) == pytest.approx([DRUG.mean(), PLACEBO.mean()], abs=1e-3)
    assert list(found.sizes) == pytest.approx([DRUG.size, PLACEBO.size], abs=1e-2)


def test_z_is_statsmodels(engine, relation):
    """At a huge epsilon, given the sample's own standard deviation, the z-test is that of statsmodels."""
    statistic, pvalue = textbook_ztest(PRESSURE, value=132)

    found = protect(engine=engine, **relation).ztest(
        "pressure", popmean=132, sigma=float(PRESSURE.std(ddof=1)), epsilon=PLENTY
    )

    assert found.statistic == pytest.approx(statistic, abs=1e-2)
    assert found.pvalue == pytest.approx(pvalue, rel=0.1)


@pytest.mark.parametrize("equal_var", [False, True])
def test_naive_is_scipys(grouping, equal_var):
    """At a huge epsilon the naive test is scipy's with its t-distribution, pooled or not."""
    textbook = stats.ttest_ind(DRUG, PLACEBO, equal_var=equal_var)

    found = protect(**grouping).ttest(
        "pressure", by="arm", groups=["drug", "placebo"], equal_var=equal_var, method="naive", epsilon=PLENTY
    )

    assert found.pvalue == pytest.approx(textbook.pvalue, rel=0.02)
    assert found.df == pytest.approx(textbook.df, rel=1e-3)


@pytest.mark.parametrize("level", [0.5, 0.99])
def test_other_intervals_come_for_free(level, grouping):
    """Intervals at other levels are computed from what was released, and are the textbook's."""
    view = protect(**grouping)
    found = view.ttest("pressure", by="arm", groups=("drug", "placebo"), epsilon=PLENTY)

    interval = found.confidence_interval(level)

    textbook = stats.ttest_ind(DRUG, PLACEBO, equal_var=False).confidence_interval(level)
    assert list(interval) == pytest.approx(list(textbook), abs=1e-2)
    assert view.budget.spent == PLENTY


def test_the_interval_asked_for_is_the_one_computed_again():
    """``confidence=`` and ``confidence_interval()`` give the same ends."""
    found = protect().ttest("pressure", popmean=130, confidence=0.8, epsilon=1)

    assert found.confidence_interval() == pytest.approx(found.confidence_interval(0.8), rel=1e-12)


def test_a_one_sided_interval_has_one_end():
    """The interval of a one-sided test is infinite on the side of its alternative."""
    view = protect()

    less = view.ttest("pressure", popmean=130, alternative="less", epsilon=1)
    greater = view.ttest("pressure", popmean=130, alternative="greater", epsilon=1)

    assert (less.low, greater.high) == (-math.inf, math.inf)
    assert math.isfinite(less.high)
    assert math.isfinite(greater.low)


def test_the_order_of_the_groups_is_the_sign():
    """Groups the other way round, the statistic is the negative and the p-value the same."""
    view = protect()

    forth, back = (
        view.ttest("pressure", by="arm", groups=pair, epsilon=PLENTY)
        for pair in (("drug", "placebo"), ("placebo", "drug"))
    )

    assert forth.statistic == pytest.approx(-back.statistic, abs=1e-2)
    assert forth.pvalue == pytest.approx(back.pvalue, rel=0.1)


def test_groups_come_in_the_order_of_the_categories():
    """Without ``groups`` the two categories are compared in the order in which they were declared."""
    found = protect().ttest("pressure", by="arm", epsilon=PLENTY)

    assert found.groups == ("placebo", "drug")
    assert found.estimate == pytest.approx(PLACEBO.mean() - DRUG.mean(), abs=1e-2)


def test_dates_count_in_days(engine):
    """A column of dates is tested in days, against a date."""
    days = SEEN.astype("datetime64[D]").astype(float)
    null = dt.date(2021, 5, 20)
    textbook = stats.ttest_1samp(days, (null - dt.date(1970, 1, 1)).days)

    found = protect(engine=engine).ttest("seen", popmean=null, epsilon=PLENTY)

    assert found.estimate == pytest.approx(days.mean(), abs=1e-2)
    assert found.pvalue == pytest.approx(textbook.pvalue, rel=0.1)


# Missing values.

HOLES = np.where(rng.random(ROWS) < np.where(ARM == "drug", 0.02, 0.15), np.nan, PRESSURE)


@pytest.mark.parametrize(("missing", "filled"), [(None, 140.0), ({"pressure": 100}, 100.0)])
def test_a_missing_value_counts_as_its_fill_on_request(engine, missing, filled):
    """With "fill", missing values are the middle of the bounds, or what was said; the rows stay."""
    full = np.where(np.isnan(HOLES), filled, HOLES)
    textbook = stats.ttest_1samp(full, 131)

    found = protect({**TABLE, "pressure": HOLES}, engine, missing=missing).ttest(
        "pressure", popmean=131, nan_policy="fill", epsilon=PLENTY
    )

    assert found.sizes == (ROWS,)
    assert found.missing is found.missing_standard_error is None
    assert found.statistic == pytest.approx(textbook.statistic, abs=1e-2)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_rows_without_a_value_are_left_out(engine, grouping, alternative):
    """By default both tests are scipy's with ``nan_policy="omit"``, whatever is public."""
    how = {"alternative": alternative, "nan_policy": "omit"}
    one = stats.ttest_1samp(HOLES, 132, **how)
    two = stats.ttest_ind(HOLES[ARM == "drug"], HOLES[ARM == "placebo"], equal_var=False, **how)
    view = protect({**TABLE, "pressure": HOLES}, engine, **grouping)

    found = [
        view.ttest("pressure", popmean=132, alternative=alternative, epsilon=PLENTY),
        view.ttest("pressure", by="arm", groups=("drug", "placebo"), alternative=alternative, epsilon=PLENTY),
    ]

    there = ~np.isnan(HOLES)
    assert sum(found[0].sizes) == pytest.approx(there.sum(), abs=0.02)
    assert found[1].sizes == pytest.approx([(there & (arm == ARM)).sum() for arm in ("drug", "placebo")], abs=0.02)
    for ours, textbook in zip(found, (one, two), strict=True):
        assert ours.statistic == pytest.approx(textbook.statistic, abs=2e-2)
        assert ours.pvalue == pytest.approx(textbook.pvalue, rel=0.1)


@pytest.mark.parametrize("by", [None, "arm"])
def test_how_many_were_missing_is_said_where_it_is_free(by):
    """Of a public number of rows, the release tells how many were left out, and how sure that is."""
    about = {"popmean": 132} if by is None else {"by": by}
    view = protect({**TABLE, "pressure": HOLES}, public=["arm"])

    found = view.ttest("pressure", **about, epsilon=2)
    whole = protect(public=["arm"]).ttest("pressure", **about, epsilon=2)

    gone = np.isnan(HOLES).sum()
    assert abs(found.missing - gone) < 20 * found.missing_standard_error
    assert found.missing_standard_error == pytest.approx(2.125 / 2 * math.sqrt(2 if by is None else 4), rel=1e-6)
    assert "missing" in repr(found)
    assert abs(whole.missing) < 20 * whole.missing_standard_error
    assert found.privacy.noise[0].sensitivity == pytest.approx(2.125, rel=1e-8)


def test_arms_that_miss_values_unequally_do_not_differ():
    """Two arms of one distribution, of which 2% and 15% are missing: filled they differ, left out they do not."""
    draw = np.random.default_rng(0)
    x, arm = draw.normal(1.5, 1, 4000), np.array(["a", "b"] * 2000)
    x[draw.random(4000) < np.where(arm == "a", 0.02, 0.15)] = np.nan
    terms = {"bounds": {"x": (-5, 5)}, "categories": {"arm": ["a", "b"]}, "public": ["arm"]}
    textbook = stats.ttest_ind(x[arm == "a"], x[arm == "b"], nan_policy="omit", equal_var=False).pvalue
    view = protect({"x": x, "arm": arm}, **terms)

    with seeded_noise(4000):
        omitted = view.ttest("x", by="arm", epsilon=1)
        filled = view.ttest("x", by="arm", nan_policy="fill", epsilon=1)

    assert textbook > 0.5
    assert omitted.pvalue > 0.05
    assert not omitted.rejected
    assert filled.pvalue < 1e-4


def test_missing_values_of_public_columns_can_be_refused():
    """With "raise" a missing value is refused before any charge where the column is public, else the policy is."""
    public = protect({**TABLE, "pressure": HOLES}, public=["pressure"])
    private = protect({**TABLE, "pressure": HOLES})

    with pytest.raises(dp.ArgumentError, match="A value is missing in 'pressure'"):
        public.ttest("pressure", popmean=130, nan_policy="raise", epsilon=1)
    with pytest.raises(dp.ArgumentError, match="would tell whether a private value is missing"):
        private.ttest("pressure", popmean=130, nan_policy="raise", epsilon=1)

    assert public.budget.spent == private.budget.spent == 0


def test_a_public_column_is_tested_exactly():
    """Of a public column all is known: the test is scipy's, free, and so is the number of missing values."""
    view = protect({**TABLE, "pressure": HOLES}, public=["pressure", "arm"])
    textbook = stats.ttest_ind(HOLES[ARM == "placebo"], HOLES[ARM == "drug"], equal_var=False, nan_policy="omit")

    found = view.ttest("pressure", by="arm", epsilon=1)

    assert (found.missing, found.missing_standard_error) == (np.isnan(HOLES).sum(), 0)
    assert found.pvalue == pytest.approx(textbook.pvalue, rel=1e-4)
    assert view.budget.spent == 0


def test_values_outside_count_as_the_bounds(engine):
    """What is tested is the mean of the values clipped to the bounds."""
    clipped = np.clip(PRESSURE, 120, 140)

    found = protect(engine=engine, bounds={"pressure": (120, 140)}).ttest("pressure", popmean=130, epsilon=PLENTY)

    assert found.estimate == pytest.approx(clipped.mean(), abs=1e-3)


# The noise is what the sensitivity asks for, and no more.

SENSITIVITIES = [
    # A row's (y, y²/2) can change by 2 in all: the squares are free. Whether it is below or above has 1/16 each.
    ({"neighbors": "replace_one"}, None, 2.125),
    # A row brings or takes (y, 1-y², y²/2), at most 3/2, and is below or above.
    ({"neighbors": "add_remove"}, None, 1.5625),
    ({"neighbors": "add_remove"}, "arm", 1.5625),
    # A row that changes its group takes and brings as much.
    ({"neighbors": "replace_one"}, "arm", 3.125),
    # It cannot if the groups are public.
    ({"neighbors": "replace_one", "public": ["arm"]}, "arm", 2.125),
]


@pytest.mark.parametrize(("terms", "by", "sensitivity"), SENSITIVITIES)
@pytest.mark.parametrize("epsilon", [0.1, 1, 7])
def test_the_noise_is_what_the_sensitivity_asks_for(terms, by, sensitivity, epsilon):
    """The scale of the noise is the sensitivity over epsilon; rounding adds six grid steps at most."""
    about = {"popmean": 130} if by is None else {"by": by}
    squares = 2 * sensitivity / epsilon

    found = protect(**terms).ttest("pressure", **about, epsilon=epsilon)

    (noise,) = found.privacy.noise
    slack = 6 * 2.0**-noise.grid  # half a step for each of four coordinates of two rows, and two for safety
    assert sensitivity <= noise.sensitivity <= sensitivity + slack
    assert sensitivity / epsilon <= noise.scale <= (sensitivity + slack) / epsilon * (1 + 1e-15)
    assert slack < 2e-8
    public = sensitivity == 2.125  # then the number of rows is measured beside the squares
    expected = (squares / 2, squares, squares / 2) if public else (squares / 2, squares / 2, squares)
    assert found.released["scales"] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("where", [{"pressure": (80, 140)}, {"arm": "drug"}])
def test_a_private_selection_has_a_private_size(where):
    """Under a condition on a private column the size is noisy, and a row may change its value or be gone: 8/3."""
    found = protect().where(where).ttest("pressure", popmean=130, epsilon=PLENTY)

    # And 1/8, for it may have been below the bounds and now be above.
    assert found.privacy.noise[0].sensitivity == pytest.approx(8 / 3 + 1 / 8, rel=1e-9)
    assert found.released["form"] == "private"


def test_a_public_selection_has_a_public_size():
    """Under a condition on a public column the size is public, and the noise that of a table of that size."""
    found = protect(public=["arm"]).where(arm="drug").ttest("pressure", popmean=130, epsilon=1)

    assert found.sizes == pytest.approx((DRUG.size,), abs=40)
    assert found.missing == pytest.approx(DRUG.size - found.sizes[0])
    assert found.privacy.noise[0].sensitivity == pytest.approx(2.125, rel=1e-9)


# Level and power.

CONFIGURATIONS = {
    "one sample": ({"neighbors": "replace_one"}, None),
    "one sample of private size": ({"neighbors": "add_remove"}, None),
    "two private groups": ({"neighbors": "replace_one"}, "arm"),
    "two public groups": ({"neighbors": "replace_one", "public": ["arm"]}, "arm"),
    "two groups of private size": ({"neighbors": "add_remove"}, "arm"),
}


def rejections(terms, by, *, effect, runs, rows=400, epsilon=0.5):
    """How many of many tests, each of a new sample, reject at 5%: one call, with a group for each sample."""
    draw = np.random.default_rng(20_240_602)
    arm = np.tile(np.repeat(["drug", "placebo"], rows // 2), runs)
    shift = np.where(arm == "drug", effect, 0.0) if by else effect
    table = {
        "y": draw.normal(0.1, 0.5, rows * runs) + shift,
        "arm": arm,
        "sample": np.repeat(np.arange(runs), rows),
    }
    if terms["neighbors"] == "replace_one":  # the size of a sample is public; else it is private, as it was
        terms = {**terms, "public": [*terms.get("public", ()), "sample"]}
    categories = {**TERMS["categories"], "sample": list(range(runs))}
    view = protect(table, bounds={"y": (-1, 1)}, categories=categories, epsilon=epsilon, **terms)
    about = {"by": by, "groups": ("drug", "placebo")} if by else {"popmean": 0.1}
    found = view.group_by("sample").ttest("y", **about, epsilon=epsilon)
    assert found.privacy.epsilon == epsilon
    return sum(one.pvalue <= 0.05 for one in found.releases)


@pytest.mark.statistical
@pytest.mark.parametrize(("terms", "by"), CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_true_hypothesis_is_rejected_at_its_level(terms, by):
    """Of 200 tests of a true hypothesis at 5% as many reject as a level between 3% and 6.5% lets."""
    runs = 200

    with seeded_noise(20_240_603):
        rejected = rejections(terms, by, effect=0.0, runs=runs)

    assert stats.binom.ppf(5e-7, runs, 0.03) <= rejected <= stats.binom.isf(5e-7, runs, 0.065)


@pytest.mark.statistical
@pytest.mark.parametrize(("terms", "by"), CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_an_effect_is_found_as_often_as_planned(terms, by):
    """Of 100 tests of the effect that planning says is found in four of five, about as many find it."""
    runs = 100
    plan = {
        "sd": 0.46,  # of the clipped values
        "bounds": (-1, 1),
        "neighbors": terms["neighbors"],
        "fixed_groups": "public" in terms,
        "mean": 0.1,
    }
    effect = minimum_detectable_effect(200 if by else 400, 0.5, n2=200 if by else None, **plan)

    with seeded_noise(20_240_604):
        rejected = rejections(terms, by, effect=effect, runs=runs)

    assert stats.binom.ppf(5e-7, runs, 0.7) <= rejected <= stats.binom.isf(5e-7, runs, 0.9)


@pytest.mark.parametrize("about", [{"popmean": 130}, {"by": "arm"}])
def test_an_uninformative_answer_says_so(about):
    """Where the noise drowns the data, the release carries a note, and does not reject."""
    view = protect({column: values[:20] for column, values in TABLE.items()})

    with seeded_noise(20_240_605):
        found = view.ttest("pressure", **about, epsilon=0.001)

    assert any(note.startswith("Uninformative") for note in found.notes)
    assert any("times the epsilon" in note for note in found.notes)
    assert any(note in repr(found) for note in found.notes)
    assert not found.rejected


def test_a_decision_is_at_the_level_asked_for():
    """``rejected`` compares the p-value with ``alpha``."""
    view = protect()
    null = float(PRESSURE.mean()) + 0.4

    strict, mild = (view.ttest("pressure", popmean=null, alpha=alpha, epsilon=PLENTY) for alpha in (0.001, 0.1))

    assert 0.001 < strict.pvalue < 0.1
    assert (strict.alpha, strict.rejected, mild.alpha, mild.rejected) == (0.001, False, 0.1, True)


def test_loose_bounds_are_named_with_what_would_help():
    """Where the bounds are wide against the spread, answer and plan say that the noise decides, and what helps."""
    draw = np.random.default_rng(40)
    view = protect({"y": draw.normal(0, 1, 40)}, bounds={"y": (-5, 5)}, categories={})

    found = view.ttest("y", popmean=0, epsilon=0.1)
    planned = view.explain("ztest", "y", popmean=0, sigma=1, epsilon=1)

    # Noise of 5 √2 · 2.125/40 beside 1/√40 from sampling.
    assert any("the epsilon, bounds" in note and "times the rows" in note for note in found.notes)
    said = dict(planned.findings)
    assert said.pop("privacy noise will be 2.4 times the sampling error").startswith(
        "to make them equal: 2.4 times the epsilon, bounds 2.4 times as narrow if the data fit, or 5.6 times"
    )
    assert (
        said.pop("the bounds are wide for this spread") == "wilcoxon() compares ranks, which bounds do not affect"
    )
    assert said.pop("expected standard error from noise") == said.pop("expected relative error")
    assert len(said) == 1


def test_an_informative_answer_has_no_notes():
    """Notes are for the doubtful."""
    assert protect().ttest("pressure", popmean=130, epsilon=1).notes == ()


# What is said about the tests.


@pytest.mark.parametrize(
    ("terms", "method", "about", "plan"),
    [
        ({}, "ttest", {"popmean": 130}, {"n": ROWS, "sd": 30}),
        ({}, "ztest", {"popmean": 130, "sigma": 12}, {"n": ROWS, "sd": 12}),
        ({}, "ttest", {"popmean": 90, "alternative": "less"}, {"n": ROWS, "sd": 30}),
        (
            {"public": ["arm"]},
            "ttest",
            {"by": "arm"},
            {"n": PLACEBO.size, "n2": DRUG.size, "sd": 30, "fixed_groups": True},
        ),
    ],
)
def test_explain_plans_for_the_sizes(terms, method, about, plan):
    """Where sizes are public, explain says the smallest effect that planning says is found in four of five."""
    mean = {"mean": about["popmean"]} if "popmean" in about else {}
    side = {"alternative": about.get("alternative", "two-sided")}
    expected = minimum_detectable_effect(epsilon=0.5, bounds=(80, 200), **plan, **mean, **side)

    explained = protect(**terms).explain(method, "pressure", **about, epsilon=0.5)

    effect = explained.findings[
        f"smallest effect found with probability 0.8, if the standard deviation is {plan['sd']}"
    ]
    assert effect == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(
    ("terms", "about", "plan", "end"),
    [
        ({"neighbors": "add_remove"}, {"popmean": 130}, {"mean": 130}, "rows"),
        ({"neighbors": "add_remove"}, {"by": "arm"}, {"ratio": 1}, "rows in each group"),
        ({}, {"by": "arm", "alternative": "less"}, {"ratio": 1}, "rows in each group"),
        ({}, {"by": "arm", "alternative": "greater"}, {"ratio": 1}, "rows in each group"),
    ],
)
def test_explain_plans_the_sizes(terms, about, plan, end):
    """Where sizes are private, explain says from how many rows planning finds an effect in four of five."""
    neighbors = terms.get("neighbors", "replace_one")
    side = about.get("alternative", "two-sided")
    effect = -6 if side == "less" else 6
    rows = sample_size(
        0.8, 0.5, effect=effect, sd=30, bounds=(80, 200), neighbors=neighbors, alternative=side, **plan
    )

    explained = protect(**terms).explain("ttest", "pressure", **about, epsilon=0.5)

    given = "an effect of 6 is found with probability 0.8, if the standard deviation is 30"
    words = explained.findings[given].split(" ", 2)
    assert (words[0], words[2]) == ("from", end)
    assert float(words[1].replace(",", "")) == pytest.approx(rows, rel=0.1)


@pytest.mark.parametrize("about", [{"popmean": 130}, {"by": "arm"}, {"by": "arm", "method": "naive"}])
def test_a_release_survives_json(about):
    """A release makes the same release again from its dictionary, with what it answers later."""
    found = protect().ttest("pressure", **about, epsilon=1)

    again = dp.Release.from_dict(json.loads(json.dumps(found.to_dict())))

    assert isinstance(again, TTest)
    assert again == found
    assert again.privacy == found.privacy
    assert again.confidence_interval(0.5) == found.confidence_interval(0.5)


def test_a_release_is_a_row(engine):
    """A release is one row of a frame, with scipy's names."""
    found = protect(engine=engine).ttest("pressure", by="arm", epsilon=0.5)

    pandas, polars = found.to_frame(), found.to_frame("polars")

    assert len(pandas) == polars.height == 1
    assert pandas["pvalue"].item() == polars["pvalue"].item() == found.pvalue
    assert polars["term"].item() == "pressure: {} - {}".format(*found.groups)


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
def test_a_release_has_a_picture(about, null):
    """The picture shows the interval, cut where no estimate can be, the part of it from sampling, and the null."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    found = protect().ttest("pressure", **about, epsilon=0.1)

    ax = found.plot()

    ax.figure.canvas.draw()
    drawn = {line.get_label(): list(line.get_xdata()) for line in ax.lines}
    pyplot.close(ax.figure)
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
    ({"popmean": 130, "alternative": "both"}, "alternative='both' is unknown"),
    ({"popmean": 130, "method": "exact"}, "method='exact' is unknown"),
    ({"popmean": 130, "nan_policy": "drop"}, "nan_policy='drop' is unknown"),
    ({"popmean": 130, "alpha": 0}, "alpha=0 is not between 0 and 1"),
    ({"popmean": 130, "equal_var": "no"}, "equal_var='no' is neither True nor False"),
    ({"popmean": 130, "confidence": 95}, "confidence=95.* is not between 0 and 1"),
    ({"popmean": 130, "confidence": math.nan}, "confidence=nan is not (between 0 and 1|a finite number)"),
    ({"popmean": 130, "confidence": "95%"}, "is not (between 0 and 1|a finite number)"),
    ({"popmean": 130, "sigma": 3}, "unexpected keyword argument 'sigma'"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_what_cannot_be_tested_costs_nothing(arguments, message):
    """A t-test that makes no sense is refused before any charge."""
    view = protect()

    with pytest.raises(dp.ArgumentError, match=message):
        view.ttest("pressure", **arguments, epsilon=1)

    assert view.budget.spent == 0


@pytest.mark.parametrize("sigma", [0, -1, 1e308, math.inf, math.nan, "12", None])
def test_a_z_test_needs_a_standard_deviation(sigma):
    """A sigma that is no positive finite number is refused before any charge."""
    view = protect()

    with pytest.raises(dp.ArgumentError, match="sigma"):
        view.ztest("pressure", popmean=130, sigma=sigma, epsilon=1)

    assert view.budget.spent == 0


def test_three_categories_need_a_choice():
    """A column with more than two categories is compared in two groups that must be named."""
    view = protect(categories={"arm": ["drug", "placebo", "nothing"]})

    with pytest.raises(dp.ArgumentError, match="This compares two groups of 'arm'"):
        view.ttest("pressure", by="arm", epsilon=1)

    assert view.ttest("pressure", by="arm", groups=("drug", "placebo"), epsilon=1).groups == ("drug", "placebo")


def test_a_public_group_of_one_is_refused():
    """Two rows are needed in every group whose size is public; nothing is charged."""
    arm = np.where(np.arange(ROWS) == 0, "drug", "placebo")
    view = protect({**TABLE, "arm": arm}, public=["arm"])

    with pytest.raises(dp.ArgumentError, match="1 rows, and 2 are needed"):
        view.ttest("pressure", by="arm", epsilon=1)

    assert view.budget.spent == 0


def test_one_row_is_too_few():
    """A table of one row is no sample."""
    view = protect({column: values[:1] for column, values in TABLE.items()})

    with pytest.raises(dp.ArgumentError, match="1 rows, and 2 are needed"):
        view.ttest("pressure", popmean=130, epsilon=1)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("terms", "about"),
    [
        ({}, {}),
        ({"neighbors": "add_remove"}, {}),
        ({"public": ["half"]}, {"by": "half"}),
        ({}, {"by": "half"}),
    ],
)
def test_the_error_that_is_expected_comes_true(terms, about):
    """Explain expects the noise of 200 answers, of a table like the one it supposes, within a quarter."""
    draw = np.random.default_rng(11)
    rows = {"y": draw.normal(0, 1 / 2, 10_000), "half": np.repeat(["a", "b"], 5_000)}
    known = {"bounds": {"y": (-1, 1)}, "categories": {"half": ["a", "b"]}}
    view = protect(rows, **known, **terms)

    expected = view.explain("ttest", "y", **about, epsilon=0.5).findings
    with seeded_noise(12):
        found = [view.ttest("y", **about, epsilon=0.5, fresh=True).estimate for _ in range(200)]

    (noise,) = (error for name, error in expected.items() if name.startswith("expected standard error"))
    assert 0.75 <= np.std(found) / noise <= 1.25
