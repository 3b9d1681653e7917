"""``view.chi2`` and ``view.chi2_unitcircle``: textbooks, noise and price, conclusions, a survey, and refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_chi2 import nulls, power
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.tables import paper_sensitivity, swap_sensitivity, tight_sensitivity, unit_circle_norm

NAMES = (f"chi2-{number}" for number in itertools.count())
ROWS, N1, N0 = 3000, 1200, 1800
GENES = [f"gene{k}" for k in range(30)]
PLENTY = 20_000  # an epsilon at which the noise is far smaller than what sampling leaves open

rng = np.random.default_rng(20_261_121)
ARM = np.where(np.arange(ROWS) < N1, "drug", "placebo")
ILL = rng.random(ROWS) < np.where(ARM == "drug", 0.33, 0.30)
TABLE = {
    "ill": ILL,
    "arm": ARM,
    "grade": rng.choice(["low", "mid", "high"], ROWS, p=[0.5, 0.3, 0.2]),
    "centre": np.array(["a", "b", "c"])[np.arange(ROWS) % 3],
    "smoker": rng.choice(["yes", "no"], ROWS),
}
KNOWN = {
    "ill": [False, True],
    "arm": ["drug", "placebo"],
    "grade": ["low", "mid", "high"],
    "centre": ["a", "b", "c"],
    "smoker": ["yes", "no"],
}
SMALL = {name: values[::11] for name, values in TABLE.items()}
INVARIANT = {"margin": "invariant", "nan_policy": "fill"}
TESTS = {
    "signed": {},
    "signed, filled": {"nan_policy": "fill"},
    "counts of two groups": {"method": "table"},
    "counts of three groups": {"by": "centre"},
    "counts of private groups": {"by": "smoker"},
    "larger": {"x": "grade", "by": "centre"},
}
CIRCLES = {
    "circle": {},
    "circle, paper's sensitivity": {"sensitivity": "paper"},
    "circle, share known": {"margin": "public_rate", "rate": 0.2},
    "circle, range known": {"margin": "public_rate", "rate": (0.1, 0.3)},
    "circle, margin known": {**INVARIANT, "rate": 0.2},
    "circle, filled": {"nan_policy": "fill"},
    "circle, small tau": {"tau": 0.01},
}
EVERY = {**TESTS, **CIRCLES}


def protect(table=TABLE, **terms):
    categories = {name: values for name, values in KNOWN.items() if name in table}
    public = [name for name in ("arm", "centre") if name in table]
    known = {"epsilon": 10**6, "ledger": "memory:", "categories": categories, "public": public}
    return dp.protect(pd.DataFrame(table), next(NAMES), **{**known, **terms})


def ask(view, name, **more):
    """Ask one of the questions."""
    test = view.chi2_unitcircle if name in CIRCLES else view.chi2
    return test(**{"x": "ill", "by": "arm", **EVERY[name], **more})


def trial(c11, c10, n1=100, n0=400):
    """A table with these counts, protected."""
    ill = [True] * c11 + [False] * (n1 - c11) + [True] * c10 + [False] * (n0 - c10)
    return protect({"ill": ill, "arm": ["drug"] * n1 + ["placebo"] * n0})


def scale_of(found):
    """The scale of the noise in what was released."""
    return found.noise_standard_error[0] / math.sqrt(2)


@pytest.fixture(scope="module")
def view():
    """The table, with much to spend."""
    return protect()


# Without noise to speak of, they are the textbook's tests.


def textbook(x, by):
    """Pearson's test of two columns."""
    return stats.chi2_contingency(pd.crosstab(x, by).to_numpy(), correction=False)


def test_the_signed_test(view):
    """At a huge epsilon it is Pearson's, and tells the direction, the shares and what is missing."""
    found = view.chi2("ill", "arm", alpha=0.1, epsilon=PLENTY)

    known, shares = textbook(ILL, ARM), (ILL[ARM == "drug"].mean(), ILL[ARM == "placebo"].mean())
    apart = shares[0] - shares[1]
    assert (found.method, found.groups, found.sizes) == ("signed", ("drug", "placebo"), (N1, N0))
    assert found.released[:2] == pytest.approx([apart, ILL.sum() - ROWS / 2], abs=0.1)
    assert found.pvalue == pytest.approx(known.pvalue, rel=0.1)  # of the hypergeometric law
    assert found.statistic == pytest.approx(known.statistic, rel=1e-2)
    assert (found.effect, found.estimate) == ("difference", pytest.approx(apart, abs=1e-4))
    assert found.low < apart < found.high
    assert [share[1] for share in found.shares] == pytest.approx(shares, abs=1e-3)
    assert found.missing == pytest.approx(0, abs=1)
    more, fewer = ("drug", "placebo") if apart > 0 else ("placebo", "drug")
    assert found.direction == f"ill = True is more frequent in arm = {more} than in arm = {fewer}"
    assert found.notes == ()
    row = found.to_frame("polars")
    assert row["pvalue"].to_list() == [found.pvalue, *[None] * 4]
    assert row["estimate"].to_list() == [found.estimate, *(share for of in found.shares for share in of)]


@pytest.mark.parametrize(("x", "by"), [("ill", "centre"), ("grade", "arm"), ("grade", "centre"), ("ill", "smoker")])
def test_larger_tables_and_private_groups(x, by, view):
    """At a huge epsilon the test of noisy counts is Pearson's; also where rows come and go."""
    for found in (view.chi2(x, by, epsilon=PLENTY), of_private_size().chi2(x, by, epsilon=PLENTY)):
        assert found.method == "table"
        assert found.statistic == pytest.approx(textbook(TABLE[x], TABLE[by]).statistic, rel=1e-2)
        assert found.pvalue == pytest.approx(textbook(TABLE[x], TABLE[by]).pvalue, abs=0.03)
        first = TABLE[x][TABLE[by] == found.groups[0]]
        assert found.shares[0] == pytest.approx([np.mean(first == each) for each in found.categories], abs=1e-3)
        assert found.missing == (pytest.approx(0, abs=0.1) if found.privacy.neighbors == "replace_one" else None)


def of_private_size():
    """The table, where rows come and go."""
    return protect(neighbors="add_remove", public=[])


def test_some_groups_and_some_rows(view):
    """Two groups of three are a 2 x 2 table, in the order in which they are named; rows may be selected."""
    found = view.chi2("ill", "centre", groups=["c", "a"], epsilon=PLENTY)
    ill = np.where(TABLE["grade"] == "low", "never", np.where(ILL, "once", "often"))
    known = {**KNOWN, "ill": ["never", "once", "often"]}
    larger = protect({**TABLE, "ill": ill}, categories=known).chi2("ill", "grade", epsilon=2)

    share = {each: ILL[TABLE["centre"] == each].mean() for each in "ac"}
    assert (found.groups, found.sizes) == (("c", "a"), (1000, 1000))
    assert found.estimate == pytest.approx(share["c"] - share["a"], abs=1e-4)
    assert sum(view.where(centre="a").chi2("ill", "arm", epsilon=1).sizes) == 1000
    assert view.where(grade="low").chi2("ill", "smoker", epsilon=5).missing is None  # no number of rows is known
    assert "more often than expected: ill = never where grade = low" in larger.direction
    assert larger.rejected
    assert larger.low > 0.5


def test_the_unit_circle():
    """At a huge epsilon the statistic is the norm, its p-value that of the null; a constant X has the norm 1."""
    how = {"margin": "public_rate", "rate": 0.2, "nan_policy": "fill"}
    found = trial(40, 60).chi2_unitcircle("ill", "arm", **how, epsilon=10**5)
    margin = trial(40, 20, 100, 100).chi2_unitcircle("ill", "arm", **INVARIANT, rate=0.3, epsilon=0.5)

    assert found.released == pytest.approx([2.359312491498], abs=1e-4)
    assert found.statistic == pytest.approx(31.25, rel=1e-3)  # at the share given, which is the true one
    assert found.tau == TAU
    assert found.pvalue == pytest.approx(nulls.norm_null(100, 400, TAU, 0.2).pvalue(2.3593, 1e-9), abs=1e-6)
    law = nulls.norm_given_margin(100, 100, TAU, 60)  # the margin is judged by itself
    assert margin.pvalue == pytest.approx(law.sf(margin.released[0], scale_of(margin)), rel=1e-9)
    assert margin.critical_value(0.01) == pytest.approx(law.critical_value(0.01, scale_of(margin)), rel=1e-9)
    for constant in (trial(0, 0), trial(100, 400)):
        assert constant.chi2_unitcircle("ill", "arm", epsilon=10**5).released == pytest.approx([1], abs=1e-4)


def test_a_guarantee_for_swaps():
    """It says what is protected; where a single row moves the norm further than a swap, the noise is for that."""
    view = trial(4, 2, 10, 10)
    asked = {"x": "ill", "by": "arm", "tau": 1e4, "epsilon": 1}

    swaps, plain = (view.chi2_unitcircle(**asked, **how) for how in ({**INVARIANT, "rate": 0.3}, {}))

    assert swap_sensitivity(10, 10, 1e4) < tight_sensitivity(10, 10, 1e4) <= scale_of(swaps)
    assert "same margins" in swaps.guarantee
    assert swaps.guarantee in repr(swaps)
    assert plain.guarantee == ""


# Missing values


@pytest.mark.statistical
@pytest.mark.parametrize("categories", [["no", "yes"], ["yes", "no"]], ids=str)
def test_missing_values_are_no_evidence(categories):
    """Two arms of one distribution with 2 % and 40 % missing differ if these are filled, and not if left out."""
    rows, draw = np.arange(4000), np.random.default_rng(12)
    x = np.where(draw.random(4000) < 0.5, "yes", "no").astype(object)
    x[draw.random(4000) < np.where(rows < 2000, 0.02, 0.4)] = None
    table = {"x": x, "by": np.where(rows < 2000, "a", "b")}
    view = protect(table, categories={"x": categories, "by": ["a", "b"]}, public=["by"])

    with seeded_noise(1):
        filled, omitted, counted = (
            view.chi2("x", "by", epsilon=5, **how) for how in ({"nan_policy": "fill"}, {}, {"method": "table"})
        )
        circles = [view.chi2_unitcircle("x", "by", nan_policy=policy, epsilon=5) for policy in ("fill", "omit")]

    assert [each.rejected for each in (filled, circles[0])] == [True, True]
    assert [each.rejected for each in (omitted, counted, circles[1])] == [False] * 3
    assert omitted.low < 0 < omitted.high
    assert [omitted.missing, counted.missing] == pytest.approx([pd.isna(pd.Series(x)).sum()] * 2, abs=60)
    assert filled.missing is None
    few = {"x": [2, 2, 1, None, 1, None] * 10, "by": ["a", "a", "a", "b", "b", "b"] * 10}
    view = protect(few, categories={"x": [1, 2], "by": ["a", "b"]}, public=["by"])
    known = [view.chi2("x", "by", nan_policy=policy, epsilon=PLENTY) for policy in ("fill", "omit")]
    assert [each.estimate for each in known] == pytest.approx([2 / 3] * 2, abs=1e-2)  # X = 1 is the second category
    assert known[1].missing == pytest.approx(20, abs=0.1)


# The noise is what the sensitivity asks for, and the price what was asked.

SCALES = [
    *(("chi2", how, 1 / N1) for how in ({}, {"nan_policy": "fill"})),
    *(("chi2", how, 2.0) for how in ({"method": "table"}, {"by": "centre"}, {"by": "smoker"})),
    ("chi2_unitcircle", {}, tight_sensitivity(N1, N0, TAU)),
    ("chi2_unitcircle", {"sensitivity": "paper"}, paper_sensitivity(N1, N0, TAU)),
    ("chi2_unitcircle", {"tau": 0.5}, tight_sensitivity(N1, N0, 0.5)),
    ("chi2_unitcircle", {"margin": "public_rate", "rate": 0.2}, tight_sensitivity(N1, N0, TAU)),
    ("chi2_unitcircle", {**INVARIANT, "rate": 0.2}, swap_sensitivity(N1, N0, TAU)),
]


@pytest.mark.parametrize(("method", "how", "sensitivity"), SCALES)
@pytest.mark.parametrize("epsilon", [0.01, 0.5])
def test_the_noise_is_what_the_sensitivity_asks_for(method, how, sensitivity, epsilon):
    """The scale of the noise is the sensitivity over epsilon, and all that is asked is spent."""
    view = protect()

    found = getattr(view, method)(**{"x": "ill", "by": "arm", **how}, epsilon=epsilon)

    part = 0.9 if found.method == "signed" and ROWS * epsilon >= 100 else 1.0
    deviation = math.sqrt(2) * sensitivity / (part * epsilon)
    if found.method == "table":  # on whole rows, noise of this scale is smaller
        deviation = 1 / (math.sqrt(2) * math.sinh(part * epsilon / sensitivity / 2))
    assert deviation * (1 - 1e-12) <= found.noise_standard_error[0] <= deviation * (1 + 1e-6)
    assert float(view.budget.spent) == epsilon
    if found.method == "signed" and not how and epsilon == 0.5:
        # A tenth is for the numbers of X = 1 and of missing X; of a small table all is for the difference.
        expected = [math.sqrt(2) * scale for scale in (1 / (0.45 * N1), 20, 40, 40)]
        assert found.noise_standard_error == pytest.approx(expected, rel=1e-6)
        small = protect({name: values[::40] for name, values in TABLE.items()}).chi2("ill", "arm", epsilon=1)
        assert small.noise_standard_error == pytest.approx([math.sqrt(2) / min(small.sizes)], rel=1e-6)
        assert (small.shares, small.missing, small.omitted) == (None, None, True)
        assert any("farther from 0 than" in note for note in small.notes)


@pytest.mark.parametrize(("n1", "n0"), [(1, 1), (1, 7), (1, 1500)])
def test_groups_of_one_row(n1, n0):
    """They are tested with the noise that they need, which no table exceeds, and say how little can be found."""
    view, one = trial(1, n0 // 3, n1, n0), protect({name: values[:n1] for name, values in TABLE.items()})
    with seeded_noise(1):
        assert any("Uninformative" in note for note in one.chi2("ill", "smoker", epsilon=0.1).notes)  # all is noise
    signed, counted = (view.chi2("ill", "arm", method=method, epsilon=1) for method in ("signed", "table"))
    circle = view.chi2_unitcircle("ill", "arm", epsilon=1)

    every = unit_circle_norm(*np.indices((n1 + 1, n0 + 1)), n1, n0, TAU)
    assert scale_of(circle) * (1 + 1e-12) >= max(np.abs(np.diff(every, axis=axis)).max() for axis in (0, 1))
    assert min(each.pvalue for each in (signed, counted, circle)) > 0.01
    assert scale_of(signed) == pytest.approx(1 / (0.9 if n0 > 99 else 1), rel=1e-6)
    assert any("only large differences" in note for note in signed.notes)


# What is concluded


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", EVERY)
def test_levels_and_intervals_come_for_free(name, plt):
    """A statistic is rejected beyond its critical value, which is drawn; wider intervals hold narrower ones."""
    view = protect(SMALL)
    with seeded_noise(1):  # other noise may leave a table of which nothing can be said
        found = ask(view, name, epsilon=0.5)

    number = found.statistic if found.method == "table" else found.released[0]
    number = abs(number) if found.method == "signed" else number
    for alpha in (1e-4, 0.01, 0.05, 0.2, 0.7):
        assert (found.pvalue <= alpha) == (number >= found.critical_value(alpha))
    assert found.rejected == (found.pvalue <= found.alpha == 0.05)
    drawn = {line.get_label(): line.get_xdata()[0] for line in found.plot().lines}
    side = -1 if found.method == "signed" and found.estimate < 0 else 1
    for level, alpha in (("5%", 0.05), ("1%", 0.01)):
        assert drawn[f"significant at {level}"] == side * found.critical_value(alpha)
    if name in TESTS:
        wide, narrow = found.confidence_interval(0.99), found.confidence_interval(0.5)
        assert wide.low <= found.low <= narrow.low <= narrow.high <= found.high <= wide.high
        assert found.confidence_interval() == (found.low, found.high)
    else:
        with pytest.raises(dp.ArgumentError, match="does not estimate an effect"):
            found.confidence_interval()
    assert view.budget.spent == 0.5


@pytest.mark.one_in(3)
@pytest.mark.parametrize("scales", [-1e6, 0, 50])
@pytest.mark.parametrize("name", EVERY)
def test_any_noise_is_concluded_from(name, scales, steady):
    """Whatever the noise is, the result holds numbers; a norm below 0 has a p-value of 1."""
    with steady(scales):
        found = ask(protect(SMALL), name, epsilon=0.1)

    assert 0 <= found.pvalue <= 1
    assert math.isfinite(found.critical_value(1e-6))
    if name in TESTS:
        assert (-1 if found.method == "signed" else 0) <= found.low <= found.high <= 1
    elif scales:
        assert (found.pvalue > 0.99) == (scales < 0)


def test_explain_says_what_could_be_found(view):
    """The power for three differences, as planning gives it, by the arguments that are asked; of counts, none."""
    signed = view.explain("chi2", "ill", "arm", epsilon=0.02)
    how = {"margin": "public_rate", "rate": 0.3, "tau": 0.5}
    circle = view.explain("chi2_unitcircle", "ill", "arm", **how, epsilon=0.1)
    asked = [("grade", "arm"), ("ill", "centre"), ("ill", "smoker")]
    others = [view.explain("chi2", *each, epsilon=0.1) for each in asked]

    assert list(signed.findings.values()) == pytest.approx(
        [power(N1, N0, 0.02, base=0.5 - d / 2, difference=d) for d in (0.05, 0.1, 0.2)]
    )
    known = {"method": "unit_circle", "rate": 0.3, "tau": 0.5}
    assert list(circle.findings.values()) == pytest.approx(
        [
            power(N1, N0, 0.1, base=0.3 - d / 2, difference=d, **known, bound=bound)
            for d in (0.05, 0.1, 0.2)
            for bound in (False, True)
        ]
    )
    assert [each.findings for each in others] == [{}] * 3
    assert [len(each.measurements) for each in others] == [1] * 3


# A real survey, beside the same tests without privacy

QUESTIONS = ["affair", "happy", "mother", "graduate", "long", "young"]
CODES = {
    **dict.fromkeys(["devout", *QUESTIONS, "coin", "rare_coin"], (False, True)),
    "religious": [1, 2, 3, 4],
    "rate_marriage": [1, 2, 3, 4, 5],
}


def test_a_survey():
    """Of 6,366 women the devout have fewer affairs: every test finds it, and what differs by more than noise."""
    df = pytest.importorskip("statsmodels.datasets").fair.load_pandas().data
    coins = np.random.default_rng(1).random((len(df), 2)) < (0.5, 0.1)
    df = df.assign(
        devout=df.religious >= 3, affair=df.affairs > 0, happy=df.rate_marriage >= 4, mother=df.children > 0,
        graduate=df.educ >= 16, long=df.yrs_married > 10, young=df.age < 30,
        coin=coins[:, 0], rare_coin=coins[:, 1],
    )  # fmt: skip
    view, private = (protect(df, categories=CODES, public=public) for public in (["devout", "religious"], []))
    shares = df.groupby("devout").affair.mean()
    gaps = df.groupby("devout")[QUESTIONS].mean().diff().iloc[1].abs()

    with seeded_noise(2):
        tests = [view.chi2("affair", "devout", nan_policy=policy, epsilon=0.5) for policy in ("omit", "fill")]
        others = [
            view.chi2_unitcircle("affair", "devout", epsilon=0.5),
            view.chi2("affair", "religious", epsilon=0.5),
            view.chi2("rate_marriage", "religious", epsilon=0.5),
            private.chi2("affair", "devout", epsilon=0.5),
        ]
        svt = view.chi2_many([*QUESTIONS, "coin", "rare_coin"], "devout", max_rejections=6, epsilon=4)
        best = view.chi2_many([*QUESTIONS, "coin"], "devout", method="select", max_rejections=4, epsilon=4)

    assert textbook(df.affair, df.devout).pvalue < 1e-15
    for test in tests:
        assert test.pvalue < 1e-12
        assert test.low < shares[False] - shares[True] < test.high
        assert shares[False] - shares[True] == pytest.approx(test.estimate, abs=15 * test.noise_standard_error[0])
        assert test.direction == "affair = True is more frequent in devout = False than in devout = True"
    assert max(other.pvalue for other in others) < 1e-4
    assert set(gaps.index[gaps > 0.05]) == set(svt.discoveries) - {"graduate"}
    assert set(gaps.nlargest(4).index) == set(best.answered)
    assert [pytest.approx(gaps[name], abs=0.02) for name in best.answered] == list(best.differences)


# What cannot be asked is refused before it is paid.

BOTH = [
    ({"by": "ill"}, "the tested column"),
    ({"x": "arm"}, "the tested column"),
    ({"by": "empty"}, "A group of 'empty' has 0 rows"),
    ({"groups": ("drug", "herbs")}, "'herbs' is not a category of column 'arm'"),
    *(({"groups": groups}, "groups") for groups in ("ab", 2, (), ("drug",), ("drug", "drug"))),
]
REFUSED = [
    *(("chi2", *each) for each in BOTH),
    *(("chi2_unitcircle", *each) for each in BOTH),
    *(("chi2", {"method": wrong}, f"method={wrong!r} is unknown") for wrong in ("exact", None, "calibrated")),
    *(("chi2", {of: "age"}, "has no categories") for of in ("x", "by")),
    ("chi2", {"by": "nobody"}, "no column 'nobody'"),
    ("chi2", {"groups": ("drug", None)}, "is not a category"),
    *(("chi2", {"confidence": wrong}, f"confidence={wrong} is not between") for wrong in (95, math.nan)),
    ("chi2", {"nan_policy": "drop"}, "nan_policy='drop' is unknown"),
    ("chi2", {"alpha": 5}, "alpha=5 is not between 0 and 1"),
    ("chi2", {"by": "smoker", "groups": ("yes", "no")}, "need public groups, but the column 'smoker' is private"),
    *(("chi2", {name: 0.3}, f"unexpected keyword argument '{name}'") for name in ("tau", "rate")),
    ("chi2", {"by": "centre", "method": "signed"}, "two categories of x and two groups"),
    ("chi2", {"x": "grade", "method": "signed"}, "two categories of x and two groups"),
    ("chi2", {"x": "grade", "nan_policy": "fill"}, "noisy counts leave out rows"),
    ("chi2", {"by": "smoker", "nan_policy": "fill"}, "noisy counts leave out rows"),
    ("chi2", {"by": "smoker", "method": "signed"}, "need public groups, but the column 'smoker' is private"),
    ("chi2_unitcircle", {"tau": 0}, "tau=0 is not a number from 1e-06"),
    ("chi2_unitcircle", {"tau": 1e-300}, "tau=1e-300 is not a number from"),
    *(("chi2_unitcircle", {"tau": wrong}, "tau") for wrong in (-3.84, math.nan, math.inf, "5%")),
    *(("chi2_unitcircle", {"margin": wrong}, f"margin={wrong!r}") for wrong in ("known", None)),
    ("chi2_unitcircle", {"sensitivity": "loose"}, "sensitivity='loose'"),
    ("chi2_unitcircle", {"rate": 0.2}, "cannot be combined with margin='private'"),
    *(
        ("chi2_unitcircle", {"margin": each}, "rate=None cannot be combined with")
        for each in ("public_rate", "invariant")
    ),
    ("chi2_unitcircle", {"margin": "invariant", "rate": (0.1, 0.2)}, "cannot be combined with margin='invariant'"),
    *(
        ("chi2_unitcircle", {"margin": "public_rate", "rate": each}, "neither a share between 0 and 1")
        for each in (0, 1)
    ),
    ("chi2_unitcircle", {"margin": "public_rate", "rate": (0.3, 0.1)}, "nor a range"),
    ("chi2_unitcircle", {"margin": "invariant", "rate": 0.2}, "needs public sizes"),
    *(("chi2_unitcircle", {"margin": "invariant", "rate": each}, "rate") for each in (math.nan, "a fifth")),
    ("chi2", {"nan_policy": "raise"}, "would reveal"),
    ("chi2_unitcircle", {"nan_policy": "raise"}, "would reveal"),
    ("chi2", {"x": "gone", "nan_policy": "raise"}, "A value is missing in 'gone'"),
    ("chi2_unitcircle", {"x": "grade"}, "'grade' has 3 categories, but the test needs two"),
    ("chi2_unitcircle", {"by": "centre"}, "compares two groups"),
    ("chi2_unitcircle", {"by": "smoker"}, "public sizes of the groups of 'smoker'"),
    ("chi2_many", {"by": "smoker"}, "public sizes of the groups of 'smoker'"),
    ("chi2_many", {"xs": []}, "no column to test|at least one"),
    ("chi2_many", {"xs": ["gene0", "gene1", "gene0"]}, "named twice"),
    ("chi2_many", {"xs": ["gene0", "arm"]}, "the tested column"),
    ("chi2_many", {"xs": ["gene0", "grade"]}, "'grade' has 3 categories, but the test needs two"),
    ("chi2_many", {"xs": ["gene0", "nobody"]}, "no column 'nobody'"),
    ("chi2_many", {"xs": ["gene0", 7]}, "named by a string"),
    ("chi2_many", {"by": "nobody"}, "no column 'nobody'"),
    ("chi2_many", {"by": "gene5", "xs": ["gene0", "gene1"]}, "public sizes of the groups of 'gene5'"),
    ("chi2_many", {"by": "grade", "xs": ["gene0"]}, "compares two groups|public sizes"),
    ("chi2_many", {"by": "empty"}, "A group of 'empty' has 0 rows"),
    ("chi2_many", {"method": "svn"}, "method='svn' is unknown"),
    ("chi2_many", {"max_rejections": 0}, "max_rejections=0 is not an integer from 1 on"),
    ("chi2_many", {"max_rejections": 31}, "max_rejections=31 exceeds the number of columns, 30"),
    *(("chi2_many", {"max_rejections": wrong}, f"max_rejections={wrong}") for wrong in (-1, 2.0, True, None)),
    *(("chi2_many", {"alpha": wrong}, "is not between") for wrong in (0, 1, math.nan, "5%")),
    ("chi2_many", {"alpha": 1e-99}, "too small"),
    ("chi2_many", {"rate": 0}, "neither a share"),
    ("chi2_many", {"rate": (0.4, 0.2)}, "nor a range"),
    ("chi2_many", {"rate": [0.2, 0.3]}, "2 entries for 30 columns"),
    ("chi2_many", {"rate": [0.2] * 29 + [1.0]}, "neither a share"),
    ("chi2_many", {"rate": [0.2] * 29 + ["a lot"]}, "rate"),
    *(("chi2_many", {"groups": groups}, "compares two groups") for groups in (("drug",), ("drug", "drug"))),
    ("chi2_many", {"groups": ("drug", "herbs")}, "'herbs' is not a category"),
    ("chi2_many", {"statistic": "circle", "nan_policy": "fill"}, "statistic='circle' is unknown"),
    ("chi2_many", {"score": "distance", "method": "select"}, "needs public sizes"),
    ("chi2_many", {"score": "distance", "nan_policy": "fill"}, 'is an option of method="select"'),
    ("chi2_many", {"max_tests": 0}, "max_tests=0 is not an integer from 1 on"),
    ("chi2_many", {"max_tests": 2, "max_rejections": 3}, "max_rejections=3 exceeds max_tests=2"),
    ("chi2_many", {"max_tests": 2, "method": "select"}, "compares all columns"),
    ("chi2_many", {"tau": 3.84}, "tau= is an option of statistic="),
    ("chi2_many", {"statistic": "unitcircle", "nan_policy": "fill", "tau": 0}, "tau=0"),
]


@pytest.fixture(scope="module")
def strange():
    """The table with more columns, to which nothing is charged."""
    rows = {**TABLE, "age": np.arange(ROWS), "empty": np.full(ROWS, "drug"), "gone": [1, 0, None] * (ROWS // 3)}
    rows |= dict.fromkeys(GENES, ILL)
    known = {"bounds": {"age": (0, 100)}, "categories": {**KNOWN, "empty": ["drug", "placebo"], "gone": [0, 1]}}
    known["categories"] |= dict.fromkeys(GENES, (False, True))
    return protect(rows, **known, public=["arm", "centre", "empty", "gone"])


@pytest.mark.parametrize(("method", "arguments", "message"), REFUSED)
def test_what_cannot_be_tested_costs_nothing(method, arguments, message, strange):
    """A test that makes no sense is refused before any charge."""
    first = {"xs": GENES} if method == "chi2_many" else {"x": "ill"}

    with pytest.raises((dp.ArgumentError, dp.SchemaError), match=message):
        getattr(strange, method)(**{**first, "by": "arm", **arguments}, epsilon=1)

    assert strange.budget.spent == 0


@pytest.mark.parametrize(("select", "by"), [({"ill": True}, "arm"), ({"smoker": "yes"}, "centre")])
def test_groups_of_private_sizes_are_refused(select, by, strange):
    """Where what must be public is private, the error says so and what to do, and nothing is charged."""
    for method in ("chi2", "chi2_unitcircle"):
        with pytest.raises(dp.ArgumentError, match=r"public sizes of the groups|compares two groups") as caught:
            getattr(strange.where(select), method)("ill", by, epsilon=1)
        assert f"public=['{by}']" in caught.value.hint or method != "chi2"

    assert strange.budget.spent == 0
