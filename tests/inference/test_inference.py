"""Tests of ranks, means, shares, pairs and censored times through the whole house."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from statsmodels.duration.survfunc import SurvfuncRight, survdiff
from statsmodels.stats.contingency_tables import Table2x2, mcnemar
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

NAMES = (f"inference {number}" for number in itertools.count())
PLENTY = 20_000  # an epsilon at which there is hardly any noise
ARMS = ["a", "b", "c"]
KNOWN = {
    "bounds": {"x": (-9.0, 9.0), "y": (-9.0, 9.0), "t": (0.0, 1000.0)},
    "categories": {
        "g": ["a", "b"],
        "h": ["u", "v", "w"],
        "arm": ARMS,
        "died": [0, 1],
        "ill": ["no", "yes"],
        "well": ["no", "yes"],
    },
}
TERMS = {"private": {}, "public": {"public": ["g", "h", "arm"]}, "add_remove": {"neighbors": "add_remove"}}


@pytest.fixture(params=TERMS)
def terms(request):
    """What is public, and how tables may differ."""
    return TERMS[request.param]


def table(n=600, seed=1, shift=1.0):
    """Rows that differ between groups, in x by a shift, in t by Weibull times in whole days that are censored."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"g": rng.choice(["a", "b"], n), "h": rng.choice(list("uvw"), n)})
    arm = rng.integers(3, size=n)
    frame["x"], frame["y"] = rng.normal(size=n) + shift * (frame.g == "a"), rng.normal(size=n)
    frame["arm"] = np.array(ARMS)[arm]
    frame["ill"] = np.where(rng.random(n) < 0.2 + 0.1 * arm, "yes", "no")
    frame["well"] = np.where(rng.random(n) < 0.36, "yes", "no")
    times = rng.weibull(1.3, n) * 420 * np.where(frame.g == "a", 1.0, 1.3 ** (1 / 1.3))
    ends = rng.uniform(200, 1000, n)
    frame["t"], frame["died"] = np.floor(np.minimum(times, ends)).clip(0, 999), (times <= ends).astype(int)
    return frame


def with_gaps(frame):
    """The same, one value in ten missing, of each column in other rows; and each column's rows that have one."""
    gone = {name: np.arange(len(frame)) % 10 == at for at, name in enumerate(("x", "y", "t", "ill"))}
    return frame.assign(**{name: frame[name].mask(where) for name, where in gone.items()}), gone


def protect(frame, **terms):
    """Protect rows with much to spend."""
    known = {kind: {c: each for c, each in said.items() if c in frame} for kind, said in KNOWN.items()}
    return dp.protect(frame, next(NAMES), **{**known, "epsilon": 10**6, "ledger": "memory:", **terms})


# With hardly any noise they are the usual tests.


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_ranks_are_scipys(alternative, terms):
    """Statistics and p-values, of the rows that have a value."""
    frame, gone = with_gaps(table())
    view, x = protect(frame, **terms), frame[~gone["x"]]
    both, y = x.dropna(subset="y"), frame.y.dropna()
    how = {"alternative": alternative}

    two = view.mannwhitneyu("x", "g", **how, epsilon=PLENTY)
    one = view.wilcoxon("x", "y", **how, epsilon=PLENTY)
    sign = view.wilcoxon("y", method="sign", **how, epsilon=PLENTY)

    parts = [x.x[x.g == each] for each in "ab"]
    its = scipy.stats.mannwhitneyu(*parts, use_continuity=False, method="asymptotic", **how)
    ours = scipy.stats.wilcoxon(both.x - both.y, **how, correction=False, method="asymptotic")
    above = int((y > 0).sum())
    exact = scipy.stats.binomtest(above, len(y), **how).pvalue
    ties = 2 * scipy.stats.binom.pmf(above, len(y), 0.5)  # hardly any noise tells values at the edge apart
    assert two.statistic == pytest.approx(its.statistic, abs=1.5)
    assert two.effect == pytest.approx(its.statistic / np.prod([each.size for each in parts]), abs=1e-3)
    assert two.pvalue == pytest.approx(its.pvalue, rel=0.02, abs=1e-12)
    assert two.low < 0.76 < two.high or alternative != "two-sided"
    positive, m = scipy.stats.wilcoxon(both.x - both.y, alternative="greater").statistic, len(both)
    assert one.statistic == pytest.approx(2 * positive - m * (m + 1) / 2, abs=10)
    assert one.pvalue == pytest.approx(ours.pvalue, rel=0.02, abs=1e-12)
    assert exact - ties - 1e-3 <= sign.pvalue <= exact + 1e-3
    if terms != TERMS["add_remove"]:
        assert two.missing == pytest.approx(gone["x"].sum(), abs=0.1)


@pytest.mark.parametrize("digits", [0, 6])
def test_several_groups_are_ranked_as_by_scipy(terms, digits):
    """H of two groups, ties included; of three, T is half the sum of absolute rank sums, and tells no H."""
    frame, gone = with_gaps(table().round({"x": digits}))
    x = frame[~gone["x"]]
    view = protect(frame, **terms)
    centred = scipy.stats.rankdata(x.x) - (len(x) + 1) / 2

    two, three = (view.kruskal("x", by, epsilon=PLENTY) for by in "gh")

    h = scipy.stats.kruskal(*(each.x for _, each in x.groupby("g"))).statistic
    tied = 0.15 if terms == TERMS["add_remove"] and not digits else 0.0  # τ is not measured there
    assert two.statistic == pytest.approx(h, rel=2e-3 + tied)
    assert three.statistic is None
    largest = sum(abs(centred[x.h == kind].sum()) for kind in "uvw") / 2
    assert three.largest_rank_sum == pytest.approx(largest, abs=1 + 0.1 * tied * largest)
    assert three.sizes == pytest.approx([(x.h == kind).sum() for kind in "uvw"], abs=0.1)


@pytest.mark.parametrize("public", [(), ("h",)], ids=["private", "public"])
def test_rows_without_a_value_do_not_make_the_law_of_several_groups_narrower(public):
    """With hardly any noise the p-value is that of the rows with a value, however many others there are."""
    frame = table(400, seed=4)
    frame.loc[frame.index % 3 > 0, "x"] = np.nan

    alone, among = (
        protect(each, public=public).kruskal("x", "h", epsilon=PLENTY) for each in (frame.dropna(), frame)
    )

    assert 0.01 < alone.pvalue < 0.99
    assert among.largest_rank_sum == pytest.approx(alone.largest_rank_sum, rel=1e-3)
    assert among.pvalue == pytest.approx(alone.pvalue, abs=0.01)


def test_zeros_and_ties_are_ranked():
    """Of eight rows: two groups with ties, and differences with zeros, as Pratt has them."""
    x, first = [1, 2, 2, 3, 5, 5, 5, 8.0], [0, 1, 4, 7]
    frame = pd.DataFrame({"x": x, "g": np.where(np.isin(range(8), first), "a", "b")})
    two = protect(frame, public=["g"]).mannwhitneyu("x", "g", epsilon=PLENTY)
    one = protect(pd.DataFrame({"x": [-3, -1, 0, 0, 1, 2, 2, 4.0]})).wilcoxon("x", method="rank", epsilon=PLENTY)

    assert two.statistic - 8 == pytest.approx(-0.5, abs=1e-2)
    assert two.effect == pytest.approx(0.46875, abs=1e-3)
    assert one.statistic == pytest.approx(12, abs=1e-2)


def test_means_are_compared_as_by_scipy(terms):
    """Welch's p-value and statistic, the effect size, and pairs, of the rows that have a value."""
    rng, n = np.random.default_rng(8), 3000
    frame = pd.DataFrame({"x": rng.normal(1, 1, n), "arm": np.repeat(ARMS, n // 3)})
    frame.loc[frame.arm == "a", "x"] += 0.15
    frame.loc[::10, "x"] = np.nan
    x = frame.dropna()
    parts = [x.x[x.arm == each] for each in ARMS]
    its = scipy.stats.f_oneway(*parts, equal_var=False)
    public = {"public": ["arm"]} if "public" in terms else terms

    found = protect(frame, **public).anova("x", "arm", epsilon=PLENTY)

    within, total = (sum(((each - each.mean()) ** 2).sum() for each in several) for several in (parts, [x.x]))
    assert found.means == pytest.approx([part.mean() for part in parts], abs=1e-3)
    assert found.statistic == pytest.approx(its.statistic, rel=0.02)
    assert found.pvalue == pytest.approx(its.pvalue, abs=0.01)
    assert found.eta_squared == pytest.approx(1 - within / total, abs=1e-3)
    assert found.pairwise().shape[0] == 3
    assert found.comparisons[2][4] > 0.05 > found.comparisons[0][4]
    if "public" in terms:
        assert found.missing == pytest.approx(n / 10, abs=0.1)


def test_shares_are_those_of_statsmodels(terms):
    """Shares as by Anscombe's angle, near Wilson's; differences and odds ratios as statsmodels has them."""
    frame, gone = with_gaps(table())
    kept = frame[~gone["ill"]]
    counts = pd.crosstab(kept.arm, kept.ill).loc[["a", "b"], ["yes", "no"]]
    hits, rows = counts["yes"], counts.sum(axis=1)
    its, halves = (Table2x2(counts.to_numpy() + more, shift_zeros=False) for more in (0, 0.5))
    view = protect(frame, **terms)

    found = view.proportions("ill", "arm", success="yes", groups=["a", "b"], epsilon=PLENTY)
    one, three = (view.proportions("ill", by, success="yes", epsilon=PLENTY) for by in (None, "arm"))

    for at, group in enumerate("ab"):
        middle = np.arcsin(np.sqrt((hits[group] + 0.375) / (rows[group] + 0.75)))
        ends = [np.sin(middle + z * (4 * rows[group] + 2) ** -0.5) ** 2 for z in (-1.959964, 1.959964)]
        assert (found.lows[at], found.highs[at]) == pytest.approx(ends, abs=1e-3)
        wilson = proportion_confint(hits[group], rows[group], method="wilson")
        assert (found.lows[at], found.highs[at]) == pytest.approx(wilson, abs=7e-3)
    agresti = confint_proportions_2indep(hits["a"], rows["a"], hits["b"], rows["b"], method="agresti-caffo")
    assert found.difference[0] == pytest.approx(found.shares[0] - found.shares[1], abs=1e-12)
    assert found.difference[1] == pytest.approx(agresti, abs=1e-3)
    assert found.odds_ratio[0] == pytest.approx(its.oddsratio, abs=2e-3)
    assert found.odds_ratio[1] == pytest.approx(halves.oddsratio_confint(), rel=3e-3)
    assert found.risk_ratio[0] == pytest.approx(its.riskratio, abs=2e-3)
    assert one.shares[0] == pytest.approx((kept.ill == "yes").mean(), abs=1e-3)
    assert three.compared().shape[0] == 3
    with pytest.raises(dp.ArgumentError, match="no comparison"):
        _ = one.difference


def test_pairs_are_compared_as_by_statsmodels(terms):
    """McNemar's p-value, without its correction."""
    frame, gone = with_gaps(table())
    kept = frame[~gone["ill"]]
    both = pd.crosstab(kept.ill, kept.well).loc[["yes", "no"], ["yes", "no"]]

    found = protect(frame, **terms).mcnemar("ill", "well", success="yes", epsilon=PLENTY)

    its = mcnemar(both.to_numpy(), exact=False, correction=False)
    assert found.statistic == pytest.approx(both.loc["yes", "no"] - both.loc["no", "yes"], abs=0.05)
    assert found.pvalue == pytest.approx(its.pvalue, rel=0.05)
    assert found.low < found.odds_ratio < found.high


@pytest.mark.parametrize("followed", ["all for 60", "half for 24", "at random"])
def test_a_curve_is_that_of_statsmodels(followed):
    """Kaplan and Meier's, with its bands, where times are whole months, censored at the end or before."""
    rng, n = np.random.default_rng(4), 1500
    ends = {
        "all for 60": np.full(n, 60),
        "half for 24": rng.choice([24, 60], n),
        "at random": rng.integers(1, 61, n),
    }
    times = np.ceil(rng.exponential(40, n))
    t, died = np.minimum(times, ends[followed]), (times <= ends[followed]).astype(int)
    exact = SurvfuncRight(t, died)

    found = protect(pd.DataFrame({"t": t, "died": died}), bounds={"t": (0.0, 60.0)}).kaplan_meier(
        "t", "died", 60, epsilon=PLENTY
    )

    at = np.searchsorted(exact.surv_times, found.edges[1:], side="right") - 1
    error = exact.surv_prob_se[at] / (exact.surv_prob[at] * -np.log(exact.surv_prob[at]))
    for ends, reach in ((found.survival, 0), (found.lows, 1.959964), (found.highs, -1.959964)):
        assert ends[0] == pytest.approx(exact.surv_prob[at] ** np.exp(reach * error), abs=1e-3 if reach else 2e-5)
    assert found.median[0] <= exact.quantile(0.5) <= found.median[0] + 1
    assert found.median_low[0] <= exact.quantile_ci(0.5)[0]
    assert exact.quantile_ci(0.5)[1] <= found.median_high[0] + 1


def test_censored_times_are_compared_as_by_statsmodels(terms):
    """Gehan's p-value, and an effect whose interval leaves 1/2 out if and only if the test rejects; and curves."""
    frame, gone = with_gaps(table())
    t = frame[~gone["t"]]
    _, expected = survdiff(t.t, t.died, t.g, weight_type="gb")
    view = protect(frame, **terms)

    found = view.survival_test("t", "died", "g", epsilon=PLENTY)
    curves = view.kaplan_meier("t", "died", list(range(0, 1001, 100)), by="g", epsilon=PLENTY)

    assert found.pvalue == pytest.approx(expected, rel=0.03, abs=1e-4)
    assert found.effect == pytest.approx(0.5 + found.statistic / 2 / np.prod(found.sizes), abs=1e-9)
    assert found.rejected == (not found.low <= 0.5 <= found.high)
    assert curves.at_risk[0][0] == pytest.approx((t.g == "a").sum(), abs=1)
    for group, at_risk, low, middle, high in zip(
        "ab", curves.at_risk, curves.median_low, curves.median, curves.median_high, strict=True
    ):
        exact = SurvfuncRight(t.t[t.g == group], t.died[t.g == group])
        assert low < middle < high
        assert middle - 100 <= exact.quantile(0.5) <= middle + 100
        assert at_risk[0] > at_risk[5]


# What is said, and drawn.


def test_times_on_the_ends_of_intervals_are_within_the_medians_interval():
    """Half of all credits end at 36 months, and the table of years cannot tell that from any time after 24."""
    frame = pd.DataFrame({"t": np.repeat([12.0, 24.0, 36.0, 48.0], [150, 250, 400, 200]), "died": 1})

    found = protect(frame, bounds={"t": (0.0, 60.0)}).kaplan_meier("t", "died", 5, epsilon=5)

    assert (found.median_low[0], found.median_high[0]) == (24.0, 36.0)
    assert "ends of the intervals" in found.notes[0]


def test_a_curve_that_stays_high_has_no_median():
    """Infinity, and a restricted mean all the same; many intervals are noted."""
    view = protect(pd.DataFrame({"t": np.full(500, 900.0), "died": 0}))

    found, many = view.kaplan_meier("t", "died", 10, epsilon=5), view.kaplan_meier("t", "died", 50, epsilon=1)

    assert (found.median, found.median_high) == ((np.inf,), (np.inf,))
    assert found.restricted_mean[0] == pytest.approx(1000, abs=60)
    assert "many intervals" in many.notes[0]


def test_laws_of_one_shape_have_narrower_intervals():
    """The same rank sum, at another level, side and coverage, and of laws of any shape, is free."""
    view = protect(table(300))
    found = view.mannwhitneyu("x", "g", epsilon=1)
    spent = view.budget.spent
    wide, other = (
        view.mannwhitneyu("x", "g", **asked, epsilon=1)
        for asked in ({"shapes": "any"}, {"alternative": "greater", "confidence": 0.8})
    )

    assert view.budget.spent == spent
    assert found.confidence_interval().high - found.confidence_interval().low < wide.high - wide.low
    assert other.confidence == 0.8
    again = view.mannwhitneyu("x", "g", confidence=0.8, epsilon=1)
    assert again.confidence_interval() == found.confidence_interval(0.8)


def test_without_sizes_there_is_no_effect():
    """Where they would take too much of the budget, the result says so."""
    found = protect(table(60)).mannwhitneyu("x", "g", epsilon=1)

    assert found.effect is None
    assert found.statistic is None
    assert found.confidence_interval() == found.confidence_interval(0.5) == (0.0, 1.0)
    assert "There is no effect size" in found.notes[0]
    assert "effect" not in str(found).split("notes")[0]


def test_notes():
    """Of few values that differ, of loose bounds, of shares of few rows; signs are counted where ranks drown."""
    rows = np.arange(3000)
    few = pd.DataFrame({"x": (rows % 50 == 0).astype(float), "g": np.where(rows < 90, "a", "b")})
    small, view = protect(table(120)), protect(table(200))

    assert "Most values are equal" in protect(few, bounds={"x": (0, 1)}).mannwhitneyu("x", "g", epsilon=30).notes[0]
    assert protect(table(3000)).mannwhitneyu("x", "g", epsilon=30).notes == ()
    with pytest.raises(dp.ArgumentError, match="depends on the law of the differences"):
        view.wilcoxon("x", epsilon=1).confidence_interval()
    assert "kruskal()" in " ".join(small.anova("x", "arm", epsilon=0.1).notes)
    assert "wider than 0.5" in small.proportions("ill", "arm", success="yes", epsilon=0.05).notes[0]
    assert [view.wilcoxon("x", epsilon=epsilon, fresh=True).method for epsilon in (0.1, 1)] == ["sign", "rank"]


def test_the_t_test_names_ranks_where_bounds_are_loose():
    """Before and after it is paid; and of rows whose groups are private as well."""
    view = protect(table(40), bounds={"x": (-5.0, 5.0)})

    plan = view.explain("ttest", "x", by="g", epsilon=1)
    with seeded_noise(1):
        paid = view.ttest("x", by="g", epsilon=1)

    assert any("mannwhitneyu()" in str(each) for each in plan.findings.values())
    assert any("mannwhitneyu()" in note for note in paid.notes)


@pytest.mark.parametrize(("epsilon", "least", "most"), [(PLENTY, 0.0, 0.001), (1.0, 0.05, 0.9)])
def test_the_noises_part_of_an_interval_is_told(epsilon, least, most):
    """Next to none of it with hardly any noise; more with more, in the answer, its sentence and its picture."""
    with seeded_noise(3):
        found = protect(table(300)).mannwhitneyu("x", by="g", epsilon=epsilon)

    ax = found.plot()

    assert least <= found._noise_part <= most
    assert "of its width is privacy noise" in " ".join(repr(found).split())
    assert "of it from sampling" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert ax.get_xlim() == (0, 1)


def test_pictures_and_pages_of_groups():
    """Forests have a row for each group; curves have bands, within each that without noise, and rows at risk."""
    view = protect(table())

    forests = view.anova("x", "arm", epsilon=5), view.proportions("ill", "arm", success="yes", epsilon=5)
    curves = view.kaplan_meier("t", "died", 20, by="g", epsilon=5)

    for forest in forests:
        assert [label.get_text()[0] for label in forest.plot().get_yticklabels()] == ARMS
    ax, frame = curves.plot(), curves.to_frame()
    assert (len(ax.lines), len(ax.collections)) == (2, 4)
    with_noise, without, *others = (height(band, 10) for band in ax.collections)
    assert with_noise > without > 0
    assert others[0] > others[1] > 0
    assert "at risk" in [text.get_text() for text in ax.texts]
    curve = frame[frame.term == "survival"]
    assert len(curve) == 40
    assert (curve.low <= curve.estimate).all()
    assert (curve.estimate <= curve.high).all()
    lines = [line.split()[:2] for line in repr(curves).splitlines() if line.strip().startswith("b ")]
    assert lines == [["b", f"{time}"] for time in range(100, 1001, 100)]


def height(band, edge):
    """How high a band is at an edge, counted from 0."""
    here = band.get_paths()[0].vertices
    return np.ptp(here[here[:, 0] == np.unique(here[:, 0])[edge], 1])


# What cannot be asked is refused before anything is paid.

N = 60
REFUSED = [
    ("mannwhitneyu", ("x", "one"), {}, "two groups"),
    ("mannwhitneyu", ("x", "h"), {}, "compares two groups"),
    ("mannwhitneyu", ("x", "h"), {"groups": ["u"]}, "compares (two|at least 2) groups"),
    ("mannwhitneyu", ("x", "h"), {"groups": ["u", "u"]}, "twice"),
    ("mannwhitneyu", ("x", "h"), {"groups": ["u", "z"]}, "'z'"),
    ("mannwhitneyu", ("x", "g"), {"nan_policy": "raise"}, "private value is missing"),
    ("mannwhitneyu", ("x", "solo"), {}, "has 1 rows"),
    ("mannwhitneyu", ("x", "g"), {"rows": 3}, "There are 3 rows"),
    ("kruskal", ("x", "h"), {"groups": ["w"]}, "compares (two|at least 2) groups"),
    ("wilcoxon", ("x", "x"), {}, "named twice"),
    ("wilcoxon", ("x",), {"popmean": 10}, "lies outside"),
    ("wilcoxon", ("x",), {"method": "t"}, "unknown"),
    ("anova", ("x", "g"), {"groups": ["a"]}, "compares (two|at least 2) groups"),
    ("anova", ("x", "g"), {"groups": ["a", "q"]}, "'q' is not a category"),
    ("anova", ("x", "solo"), {}, "has 1 rows"),
    ("proportions", ("ill", "g"), {"success": "maybe"}, "'maybe' is not a category"),
    ("proportions", ("ill", "ill"), {"success": "yes"}, "named twice"),
    ("proportions", ("ill",), {"success": "yes", "groups": ["a"]}, "without by="),
    ("mcnemar", ("ill", "ill"), {"success": "yes"}, "named twice"),
    ("mcnemar", ("ill", "g"), {"success": "yes"}, "'yes' is not a category"),
    ("mcnemar", ("ill", "well"), {"success": "yes", "nan_policy": "raise"}, "private value"),
    ("kaplan_meier", ("t", "h", 10), {}, "not 0 and 1"),
    ("kaplan_meier", ("x", "died", 10), {}, "cannot be negative"),
    ("kaplan_meier", ("t", "died", [0, 500]), {}, "do not cover"),
    ("kaplan_meier", ("t", "died", [1, 1000]), {}, "do not cover"),
    ("kaplan_meier", ("t", "died", [0, 900, 800, 1000]), {}, "increase"),
    ("kaplan_meier", ("t", "died", 0), {}, "must be at least 1"),
    ("kaplan_meier", ("t", "died", ["a", "b"]), {}, "not a list of times"),
    ("kaplan_meier", ("t", "died", 10), {"groups": ["a"]}, "without by="),
    ("hazard_ratio", ("t", "died", 10), {"by": "h"}, "compares two groups"),
    ("hazard_ratio", ("t", "died", 10), {"by": "died"}, "named twice"),
    ("hazard_ratio", ("t", "died", 10), {"by": "g", "strata": "g"}, "named twice"),
    ("hazard_ratio", ("t", "died", 400), {"by": "g", "strata": "h"}, "3 strata with 400 intervals"),
    ("hazard_ratio", ("t", "ill", 10), {"by": "g"}, "not 0 and 1"),
    ("hazard_ratio", ("t", "died", [0, 500]), {"by": "g"}, "do not cover"),
    ("hazard_ratio", ("t", "died", 10), {"by": "g", "nan_policy": "raise"}, "private value is missing"),
    ("survival_test", ("x", "died", "g"), {}, "negative"),
    ("survival_test", ("t", "died", "died"), {}, "named twice"),
    ("survival_test", ("t", "died", "g"), {"groups": ["a"]}, "compares two groups"),
    ("survival_test", ("t", "ill", "g"), {}, "not 0 and 1"),
]


@pytest.fixture(scope="module")
def view():
    """Few rows, and among them a public group of one."""
    frame = table(N).assign(one="a", solo=np.where(np.arange(N) == 0, "s", "r"))
    more = {"categories": {**KNOWN["categories"], "one": ["a"], "solo": ["r", "s"]}, "public": ["solo"]}
    return protect(frame, **more)


@pytest.mark.parametrize(("method", "args", "asked", "message"), REFUSED, ids=[f"{each[:3]}" for each in REFUSED])
def test_what_cannot_be_asked_costs_nothing(view, method, args, asked, message):
    """What makes no sense raises an error that names it, and is not charged."""
    if "rows" in asked:
        view, asked = protect(table(asked["rows"])), {}
    with pytest.raises((dp.ArgumentError, dp.SchemaError), match=message):
        getattr(view, method)(*args, **asked, epsilon=0.5)

    assert view.budget.spent == 0
