"""``view.chi2`` through the whole house."""

from __future__ import annotations

import bisect
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
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.margin import NoisyMargin
from dfprivacy_chi2.tables import signed_distance

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


def test_the_difference_of_two_shares(engine):
    """At a huge epsilon, with the share known, the test of the difference is Pearson's."""
    textbook = stats.chi2_contingency(crosstab("ill", "arm"), correction=False)

    found = protect(engine=engine).chi2(
        "ill", "arm", method="difference", nan_policy="fill", rate=ILL.mean(), epsilon=PLENTY
    )

    assert found.released == pytest.approx([abs(C11 / N1 - C10 / N0)], abs=1e-5)
    assert found.statistic == pytest.approx(textbook.statistic, rel=1e-2)
    assert found.pvalue == pytest.approx(textbook.pvalue, rel=0.03)
    assert (found.groups, found.sizes) == (("drug", "placebo"), (N1, N0))
    assert (found.direction, found.effect) == (None, "absolute difference")
    assert [note for note in found.notes if "direction was not released" not in note] == []


def test_nothing_known_of_the_share_is_the_worst_case():
    """With nothing known of the share the p-value is that of shares around 1/2, which is larger."""
    statistic = abs(C11 / N1 - C10 / N0)
    worst = 2 * stats.norm.sf(statistic / math.sqrt((1 / N1 + 1 / N0) / 4))

    found = protect().chi2("ill", "arm", method="difference", nan_policy="fill", epsilon=PLENTY)

    assert found.pvalue == pytest.approx(worst, rel=0.03)


def test_the_calibrated_test():
    """A noisy number of X = 1 replaces what is known of the share: at a huge epsilon, the same as if known."""
    textbook = stats.chi2_contingency(crosstab("ill", "arm"), correction=False)

    found = protect().chi2("ill", "arm", epsilon=PLENTY)

    shares = C11 / N1, C10 / N0
    assert found.method == "calibrated"
    assert found.released[:2] == pytest.approx([shares[0] - shares[1], ILL.sum() - ROWS / 2], abs=0.1)
    assert textbook.pvalue * 0.9 <= found.pvalue <= textbook.pvalue * 1.3
    assert found.statistic == pytest.approx(textbook.statistic, rel=1e-2)
    assert found.estimate == pytest.approx(shares[0] - shares[1], abs=1e-4)
    assert found.low < found.estimate < found.high
    assert [share[1] for share in found.shares] == pytest.approx(shares, abs=1e-3)
    assert found.missing == pytest.approx(0, abs=1)


def test_the_signed_test():
    """A small table is told in which group more are ill, and how much more at least, for the whole budget."""
    found = protect().chi2("ill", "arm", method="signed", alpha=0.1, epsilon=PLENTY)

    apart, textbook = C11 / N1 - C10 / N0, stats.chi2_contingency(crosstab("ill", "arm"), correction=False)
    assert found.released == pytest.approx([apart], abs=1e-4)
    assert (found.effect, found.estimate) == ("difference", pytest.approx(apart, abs=1e-4))
    assert found.low < apart < found.high
    more, fewer = ("drug", "placebo") if apart > 0 else ("placebo", "drug")
    assert found.direction == f"ill = True is more frequent in arm = {more} than in arm = {fewer}"
    assert found.statistic <= textbook.statistic * 1.01  # at a share of 1/2
    assert textbook.pvalue <= found.pvalue <= 0.1
    assert any("at least as large" in note for note in found.notes)
    assert not any("direction was not released" in note for note in found.notes)
    whole = protect().chi2("ill", "arm", method="signed", epsilon=0.5)
    assert whole.noise_standard_error == pytest.approx([math.sqrt(2) / (0.5 * min(N1, N0))], rel=1e-6)


def test_the_distance(engine):
    """At a huge epsilon the statistic is the signed distance at the critical value of 5%."""
    found = protect(engine=engine).chi2("ill", "arm", method="distance", nan_policy="fill", epsilon=PLENTY)

    assert found.released == pytest.approx([int(signed_distance(C11, C10, N1, N0, TAU))], abs=0.01)
    assert found.statistic is None
    assert found.tau == TAU


def test_more_groups(engine):
    """With the share known, the test of three groups is Pearson's."""
    textbook = stats.chi2_contingency(crosstab("ill", "centre"), correction=False)

    view = protect(engine=engine)
    found = view.chi2("ill", "centre", rate=ILL.mean(), nan_policy="fill", epsilon=PLENTY)
    counted = view.chi2("ill", "centre", epsilon=PLENTY)

    assert (found.method, counted.method) == ("spread", "table")
    assert [found.statistic, counted.statistic] == pytest.approx([textbook.statistic] * 2, rel=1e-2)
    assert [found.pvalue, counted.pvalue] == pytest.approx([textbook.pvalue] * 2, rel=0.03)


@pytest.mark.parametrize("by", ["arm", "centre"])
def test_more_categories(engine, by):
    """With the shares of the categories known, the test of a larger table is Pearson's."""
    shares = [float(np.mean(TABLE["grade"] == grade)) for grade in TERMS["categories"]["grade"]]
    textbook = stats.chi2_contingency(crosstab("grade", by), correction=False)

    view = protect(engine=engine)
    found = view.chi2("grade", by, rate=shares, nan_policy="fill", epsilon=PLENTY)
    counted = view.chi2("grade", by, epsilon=PLENTY)

    assert [found.statistic, counted.statistic] == pytest.approx([textbook.statistic] * 2, rel=1e-2)
    assert [found.pvalue, counted.pvalue] == pytest.approx([textbook.pvalue] * 2, rel=0.03)
    first = TABLE["grade"][TABLE[by] == counted.groups[0]]
    assert counted.shares[0] == pytest.approx([np.mean(first == grade) for grade in counted.categories], abs=1e-3)


def test_some_groups_of_many():
    """Two groups of three are a 2 x 2 table, in the order in which they are named."""
    rows = TABLE["centre"]

    found = protect().chi2("ill", "centre", groups=["c", "a"], epsilon=PLENTY)

    assert found.groups == ("c", "a")
    assert found.sizes == (1000, 1000)
    assert found.estimate == pytest.approx(ILL[rows == "c"].mean() - ILL[rows == "a"].mean(), abs=1e-4)


def test_private_groups(engine):
    """Where the groups are private too, the statistic is that of the counts, and the test asymptotically chi²."""
    table = crosstab("ill", "smoker")
    determinant = abs(table[0, 0] * table[1, 1] - table[0, 1] * table[1, 0])

    found = protect(engine=engine).chi2("ill", "smoker", nan_policy="fill", epsilon=PLENTY)

    assert found.method == "association"
    assert found.released == pytest.approx([determinant / (ROWS - 1)], abs=1e-2)
    assert found.sizes == (ROWS,)
    widest = 2 * stats.norm.sf(determinant / (math.sqrt(ROWS) / 4 * ROWS))
    assert found.pvalue == pytest.approx(widest, rel=0.03)


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
        filled, omitted, alone = (
            view.chi2("x", "by", epsilon=5, **how) for how in ({"nan_policy": "fill"}, {}, {"method": "difference"})
        )

    assert filled.rejected
    assert not omitted.rejected
    assert not alone.rejected
    assert omitted.low < 0 < omitted.high
    gone = [side.missing for side in (omitted,)]
    assert gone == pytest.approx([pd.isna(pd.Series(x)).sum()], abs=60)


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
    asked = [("arm", {"method": m, "nan_policy": "fill"}) for m in ("difference", "calibrated", "distance")]
    asked += [(by, {"nan_policy": policy}) for by in ("centre", "smoker") for policy in ("fill", "omit")]

    with seeded_noise(3):
        found = [view.chi2("ill", by, epsilon=5, fresh=True, **how) for by, how in asked for _ in range(20)]

    assert sum(one.rejected for one in found) <= 0.05 * 140 + 5 * math.sqrt(0.05 * 0.95 * 140)


def test_selections_by_public_columns():
    """Rows selected by a public column have public groups."""
    found = protect().where(centre="a").chi2("ill", "arm", method="difference", epsilon=1)

    assert sum(found.sizes) == 1000


# The noise is what the sensitivity asks for, and the price what was asked.

SCALES = [
    ({"method": "difference"}, "arm", 1 / N1),
    ({"method": "difference", "nan_policy": "fill"}, "arm", 1 / N1),
    ({"method": "distance", "nan_policy": "fill"}, "arm", 1.0),
    ({"nan_policy": "fill"}, "centre", math.sqrt(1 / 1000 - 1 / ROWS)),
    ({"nan_policy": "fill"}, "smoker", 1.0),
    ({}, "centre", 2.0),
    ({}, "smoker", 2.0),
]


@pytest.mark.parametrize(("how", "by", "sensitivity"), SCALES)
@pytest.mark.parametrize("epsilon", [0.01, 0.5])
def test_the_noise_is_what_the_sensitivity_asks_for(how, by, sensitivity, epsilon):
    """The scale of the noise is the sensitivity over epsilon, and all that is asked is spent."""
    view = protect()

    found = view.chi2("ill", by, **how, epsilon=epsilon)

    deviation = math.sqrt(2) * sensitivity / epsilon
    if found.method == "table":  # on whole rows, noise of this scale is smaller
        deviation = math.sqrt(2) / (2 * math.sinh(epsilon / sensitivity / 2))
    assert found.noise_standard_error[0] == pytest.approx(deviation, rel=1e-6)
    assert found.noise_standard_error[0] >= deviation * (1 - 1e-12)
    assert float(view.budget.spent) == epsilon


def test_the_calibrated_test_shares_its_budget():
    """A tenth is for the numbers of X = 1 and of missing X, which cost no more than the first alone."""
    found = protect().chi2("ill", "arm", method="calibrated", epsilon=0.5)

    expected = [1 / (0.45 * N1), 20, 40, 40]
    assert found.noise_standard_error == pytest.approx([math.sqrt(2) * scale for scale in expected], rel=1e-6)
    assert len(found.privacy.noise) == 2
    assert found.privacy.epsilon == 0.5


def test_auto():
    """With nothing known the calibrated test, in small tables the difference; unsigned where gaps are filled."""
    view = protect()

    assert view.chi2("ill", "arm", epsilon=0.02).method == "signed"
    assert view.chi2("ill", "arm", epsilon=0.5).method == "calibrated"
    assert view.chi2("ill", "arm", nan_policy="fill", epsilon=0.05).method == "difference"
    assert view.chi2("ill", "arm", nan_policy="fill", epsilon=0.5).method == "calibrated"
    assert view.chi2("ill", "arm", rate=(0.2, 0.4), epsilon=0.5).method == "difference"


# Level, power and coverage.

TESTS = {
    "difference": {"by": "arm", "method": "difference"},
    "difference in a range": {"by": "arm", "rate": (0.2, 0.3)},
    "calibrated": {"by": "arm", "method": "calibrated"},
    "signed": {"by": "arm", "method": "signed"},
    "calibrated, filled": {"by": "arm", "method": "calibrated", "nan_policy": "fill"},
    "distance": {"by": "arm", "method": "distance", "nan_policy": "fill"},
    "three groups": {"by": "centre", "nan_policy": "fill"},
    "private groups": {"by": "smoker", "nan_policy": "fill"},
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
@pytest.mark.parametrize("method", ["difference", "calibrated", "signed", "distance"])
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
            found += view.chi2("ill", "arm", method=method, nan_policy="fill", epsilon=0.5).rejected

    assert 0.5 < planned < 0.99
    assert stats.binom.ppf(5e-7, runs, planned - 0.02) <= found <= stats.binom.isf(5e-7, runs, planned + 0.02)


def concluded(released, scales, n1, n0, **known):
    """A result with these noisy numbers."""
    about = {"method": "difference", "categories": (0, 1), "x": "x", "by": "by", "groups": ("a", "b"), **known}
    deviations = tuple(math.sqrt(2) * scale for scale in scales)
    return Chi2(alpha=0.05, released=released, noise_standard_error=deviations, sizes=(n1, n0), **about)


COVERED = [
    (200, 300, 0.5, 0.3, 1.0),
    (200, 300, 0.3, 0.3, 0.1),
    (500, 500, 0.04, 0.10, 0.5),
    (100, 900, 0.9, 0.6, 1.0),
]
RUNS = 200


@pytest.mark.statistical
@pytest.mark.parametrize("known", ["nothing", "share"])
@pytest.mark.parametrize(("n1", "n0", "p1", "p0", "epsilon"), COVERED)
def test_intervals_cover_the_absolute_difference(known, n1, n0, p1, p0, epsilon):
    """Of 200 intervals of 90%, as many hold the true difference as that says, or more."""
    draw, scale, true = np.random.default_rng(5), 1 / (min(n1, n0) * epsilon), abs(p1 - p0)
    rate = {"rate": (n1 * p1 + n0 * p0) / (n1 + n0)} if known == "share" else {}
    apart = draw.binomial(n1, p1, RUNS) / n1 - draw.binomial(n0, p0, RUNS) / n0
    released = np.sort(np.abs(apart) + draw.laplace(0, scale, RUNS)).tolist()

    def ends(number):
        low, high = concluded((number,), (scale,), n1, n0, **rate)._interval(0.9)
        return low > true, high >= true

    # Both ends rise with what was released: those that hold the truth are neighbours in its order.
    first = bisect.bisect_left(released, True, key=lambda number: ends(number)[1])
    beyond = bisect.bisect_left(released, True, key=lambda number: ends(number)[0])
    assert beyond - first >= stats.binom.ppf(1e-7, RUNS, 0.89)


@pytest.mark.statistical
@pytest.mark.parametrize("known", ["total", "missing"])
@pytest.mark.parametrize(("n1", "n0", "p1", "p0", "epsilon"), COVERED)
def test_intervals_cover_the_signed_difference(known, n1, n0, p1, p0, epsilon, monkeypatch):
    """So do those with a sign, where the noisy numbers of X = 1 and of complete rows tell the variance."""
    draw, scale, true, covered = np.random.default_rng(5), 1 / (min(n1, n0) * epsilon), p1 - p0, 0
    for _ in range(RUNS):
        gone = draw.binomial((n1, n0), (0.3, 0.1)) if known == "missing" else np.zeros(2)
        m1, m0 = n1 - int(gone[0]), n0 - int(gone[1])
        c11, c10 = draw.binomial(m1, p1), draw.binomial(m0, p0)
        apart = (c11 / m1 - c10 / m0) * min(m1, m0) / min(n1, n0) + draw.laplace(0, scale)
        half = c11 + c10 - (m1 + m0) / 2 + draw.laplace(0, 5)
        missing = (gone + draw.laplace(0, 10, 2)).tolist() if known == "missing" else []
        scales = (scale, 5.0, *(10.0 for _ in missing))
        result = concluded((apart, half, *missing), scales, n1, n0, method="calibrated")
        with monkeypatch.context() as patch:  # the interval is no narrower than where the test has no say
            patch.setattr(NoisyMargin, "critical_value", lambda *_: 0.0)
            low, high = result._signed_interval(0.9)
        if not low <= true <= high:
            low, high = result._signed_interval(0.9)
        covered += low <= true <= high

    assert covered >= stats.binom.ppf(1e-7, RUNS, 0.89)


@pytest.mark.parametrize("method", ["difference", "calibrated", "signed", "table"])
def test_intervals_come_for_free(method):
    """Intervals at other levels, and decisions, are computed from what was released."""
    view = protect()
    found = view.chi2("ill", "arm", method=method, confidence=0.8, epsilon=1)

    wide, narrow = found.confidence_interval(0.99), found.confidence_interval(0.5)

    assert wide.low <= found.low <= narrow.low < narrow.high <= found.high <= wide.high
    assert found.confidence_interval() == (found.low, found.high) == found.confidence_interval(0.8)
    assert found.rejected == (found.pvalue <= found.alpha == 0.05)
    with pytest.warns(FutureWarning, match="reject.. is called rejected"):
        assert found.reject(found.pvalue)
    with pytest.warns(FutureWarning, match="reject is called rejected"):
        assert bool(found.reject) == found.rejected  # it was true of every result that was not called
    with pytest.warns(FutureWarning, match="reject"):
        assert not found.reject(found.pvalue * 0.99)
    assert view.budget.spent == 1


@pytest.mark.parametrize("asked", TESTS.values(), ids=TESTS)
def test_a_critical_value_divides_what_is_rejected(asked):
    """A statistic is rejected at a level if it lies beyond the critical value of that level."""
    with seeded_noise(1):  # other noise may leave a table of which nothing can be said
        found = protect(SMALL).chi2("ill", **asked, epsilon=0.5)

    number = found.statistic if found.method == "table" else found.released[0]
    number = abs(number) if found.method in {"calibrated", "signed"} else number
    for alpha in (0.001, 0.05, 0.2, 0.7):
        assert (found.pvalue <= alpha) == (number >= found.critical_value(alpha))


def test_only_a_difference_has_an_interval():
    """The other statistics do not say how large a difference is."""
    found = protect().chi2("ill", "arm", method="distance", nan_policy="fill", epsilon=1)

    assert found.low is None
    with pytest.raises(dp.ArgumentError, match="nothing of the size"):
        found.confidence_interval()


# Any noise at all.


ASKED = {
    **TESTS,
    "categories": {"x": "grade", "by": "centre", "nan_policy": "fill"},
    "shares": {"x": "grade", "by": "centre", "rate": (0.2, 0.3, 0.5), "nan_policy": "fill"},
    "counts": {"x": "grade", "by": "centre"},
}


@pytest.mark.parametrize("scales", [-1e6, -50, 0, 50, 1e6])
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_any_noise_is_concluded_from(asked, scales, steady):
    """Whatever the noise is, the result holds numbers, and says where it tells nothing."""
    with steady(scales):
        found = protect(SMALL).chi2(**{"x": "ill", **asked}, epsilon=0.1)

    ends = [found.low, found.high] if found.low is not None else [0.0, 1.0]
    least = -1 if found.method in {"calibrated", "signed"} else 0
    assert 0 <= found.pvalue <= 1
    assert least <= ends[0] <= ends[1] <= 1
    if found.method == "table":
        return
    assert math.isfinite(found.critical_value(1e-6))
    if found.method in {"calibrated", "signed"}:
        assert found.pvalue < 1e-4 if abs(scales) >= 50 else True
        return
    assert (found.pvalue > 0.9) if scales < -2 else (found.pvalue < 1e-6) if scales >= 50 else True
    if scales <= -50 and found.low is not None:
        assert any("uninformative" in note for note in found.notes)


# What is said about the tests.


@pytest.mark.parametrize("method", ["difference", "calibrated", "signed", "distance"])
def test_explain_says_what_could_be_found(method):
    """Explain gives the power for three differences, the same as planning, and costs nothing."""
    view = protect(SMALL)
    n1, n0 = (int((SMALL["arm"] == arm).sum()) for arm in ("drug", "placebo"))

    explained = view.explain("chi2", "ill", "arm", method=method, nan_policy="fill", epsilon=0.1)

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
    side = -1 if found.method in {"calibrated", "signed"} and found.estimate < 0 else 1
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
    ({"rate": 0}, "rate=0 is no share"),
    ({"rate": 1.0}, "no share"),
    ({"rate": -0.1}, "no share"),
    ({"rate": math.nan}, "rate"),
    ({"rate": "half"}, "rate"),
    ({"rate": (0.4, 0.2)}, "no range"),
    ({"rate": (0.2, 0.3, 0.4)}, "no range"),
    ({"rate": []}, "no range"),
    ({"rate": (0.1, None)}, "rate"),
    ({"rate": 0.3, "method": "calibrated"}, "rate= is of no use to method='calibrated'"),
    ({"rate": 0.3, "method": "signed"}, "rate= is of no use to method='signed'"),
    ({"confidence": 95}, "confidence=95 is not between 0 and 1"),
    ({"confidence": math.nan}, "confidence=nan is not between"),
    ({"by": "centre", "method": "difference"}, "two categories in two groups"),
    ({"method": "distance"}, 'nan_policy="fill"'),
    ({"method": "association", "nan_policy": "fill"}, "for private groups"),
    ({"nan_policy": "drop"}, "nan_policy='drop' is unknown"),
    ({"alpha": 5}, "alpha=5 is not between 0 and 1"),
    ({"x": "grade", "rate": (0.5, 0.3, 0.2)}, "noisy counts tell already"),
    ({"x": "grade", "method": "distance", "nan_policy": "fill"}, "two categories in two groups"),
    ({"x": "grade", "rate": 0.3}, "a share above 0 for each of 3"),
    ({"x": "grade", "rate": (0.5, 0.5)}, "a share above 0 for each of 3"),
    ({"x": "grade", "rate": (0.5, 0.5, 0.5)}, "a share above 0 for each of 3"),
    ({"x": "grade", "rate": (0.5, 0.5, 0.0)}, "a share above 0 for each of 3"),
    ({"x": "grade", "rate": (0.5, 0.5, math.nan)}, "a share above 0 for each of 3"),
    ({"x": "grade", "rate": (0.5, 0.5, "0")}, "a share above 0 for each of 3"),
    ({"x": "grade", "by": "smoker", "method": "association", "nan_policy": "fill"}, "'grade' has 3 categories"),
    ({"x": "ill", "by": "grade", "method": "association", "nan_policy": "fill"}, "'grade' has 3 categories"),
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


@pytest.mark.parametrize("method", ["difference", "calibrated", "signed", "distance"])
def test_a_group_of_one_row(method):
    """A group of one row is tested with the noise that it needs, and says how little can be found."""
    view = protect({**TABLE, "arm": np.where(np.arange(ROWS) == 0, "drug", "placebo")})

    found = view.chi2("ill", "arm", method=method, nan_policy="fill", epsilon=1)

    assert found.sizes == (1, ROWS - 1)
    assert 0 <= found.pvalue <= 1
    if method == "difference":
        assert found.noise_standard_error == pytest.approx([math.sqrt(2)], rel=1e-6)
        assert any("only large differences" in note for note in found.notes)


@pytest.mark.parametrize("rows", [1, 2])
def test_few_rows_with_private_groups(rows):
    """One row is no sample; two are the smallest, and nothing can be found in them."""
    view = protect({name: values[:rows] for name, values in TABLE.items()})

    if rows == 1:
        with pytest.raises(dp.ArgumentError, match="A test needs at least two"):
            view.chi2("ill", "smoker", nan_policy="fill", epsilon=1)
        assert view.budget.spent == 0
    else:
        assert view.chi2("ill", "smoker", nan_policy="fill", epsilon=1).sizes == (2,)
    assert any("Uninformative" in note for note in view.chi2("ill", "smoker", epsilon=1).notes)


def test_groups_too_large_for_the_distance():
    """The signed distance is refused where its law would take too long, and the error says what to do."""
    rows = 14_000
    view = protect(
        {"ill": np.zeros(rows, dtype=bool), "arm": np.repeat(["drug", "placebo"], rows // 2)},
        categories={"ill": [False, True], "arm": ["drug", "placebo"]},
        public=["arm"],
    )

    with pytest.raises(dp.ArgumentError, match="for groups of up to"):
        view.chi2("ill", "arm", method="distance", nan_policy="fill", epsilon=1)

    assert view.budget.spent == 0


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
        assert "above expectation: never in low" in found.direction
        assert found.low > 0.5


def test_rows_selected_by_private_columns():
    """Where rows are selected by a private column nothing is known of their number, and counts are enough."""
    found = protect().where(grade="low").chi2("ill", "smoker", epsilon=5)

    assert found.missing is None
    assert 0 <= found.pvalue <= 1


def test_old_names_warn():
    """What fields were called before is there for one release more."""
    found = protect().chi2("ill", "arm", epsilon=1)

    for old, value in (("scale", 1 / (0.9 * N1)), ("total_scale", 10), ("total", ILL.sum())):
        with pytest.warns(FutureWarning, match=f"Chi2.{old} is called"):
            assert getattr(found, old) == pytest.approx(value, rel=1e-5, abs=300 if old == "total" else 0)


def test_the_default_keeps_its_level_where_x_is_rare():
    """In 1,000 and 20 rows with a share of 0.5 %, few true hypotheses are rejected, at 5 %, 1 % and 0.1 %."""
    draw, runs, epsilon = np.random.default_rng(11), 2000, 20.0
    scale, scales = 1 / (0.9 * epsilon * 20), (10 / epsilon, 20 / epsilon, 20 / epsilon)
    pvalues = []
    for _ in range(runs):
        c11, c10 = draw.binomial((1000, 20), 0.005)
        apart = c11 / 1000 - c10 / 20 + draw.laplace(0, scale)
        numbers = (apart, c11 + c10 - 510 + draw.laplace(0, scales[0]), *draw.laplace(0, scales[1], 2))
        null = concluded(numbers, (scale, *scales), 1000, 20, method="calibrated")._null()
        pvalues.append(null.pvalue(apart, scale) if null.plain(apart, scale) < 0.06 else 1.0)

    for alpha in (0.05, 0.01, 0.001):
        assert sum(p <= alpha for p in pvalues) <= stats.binom.isf(1e-6, runs, alpha)
