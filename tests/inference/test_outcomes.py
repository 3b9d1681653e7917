"""Analysis of variance, proportions and pairs, through a view and by their formulas."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from statsmodels.stats.contingency_tables import Table2x2, mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

import dfprivacy as dp
from dfprivacy import Column
from dfprivacy.inference.counts import EVEN, NoisyCounts, difference, odds_ratio, ratio, share, share_of
from dfprivacy.inference.engine import infer
from dfprivacy.inference.groups import holm, omnibus
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.laws import NoiseLaw
from dfprivacy_inference.mcnemar import Discordant
from dfprivacy_inference.proportions import Outcome

COUNT = itertools.count()
TERMS = {
    "bounds": {"x": (0.0, 10.0)},
    "categories": {"g": ["a", "b", "c"], "ill": ["no", "yes"], "well": ["no", "yes"]},
    "ledger": "memory:",
}


def table(n=600, seed=2):
    """Rows whose mean and whose share of the ill differ between groups."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], n)
    shift = np.array([{"a": 0, "b": 1, "c": 2}[each] for each in group])
    return pd.DataFrame({
        "x": np.clip(4 + shift + rng.normal(size=n) * (1 + shift / 4), 0, 10),
        "g": group,
        "ill": np.where(rng.random(n) < 0.2 + 0.1 * shift, "yes", "no"),
        "well": np.where(rng.random(n) < 0.5, "yes", "no"),
    })  # fmt: skip


def protect(frame, **terms):
    """Protect rows with much to spend."""
    return dp.protect(frame, f"outcomes {next(COUNT)}", **{**TERMS, "epsilon": 10**6, **terms})


def released_counts(rng, sizes, shares, scale, form, runs):
    """Releases of groups, without rows that have no value."""
    n = np.array(sizes, dtype=float)
    hits = rng.binomial(sizes, shares, (runs, len(sizes)))
    exact = {"hits": (hits,), "counts": (hits, n - hits), "halves": (hits - n / 2, n / 2 + 0 * hits)}[form]
    values = np.stack(exact, axis=-1) + rng.laplace(0, scale, (runs, len(sizes), len(exact)))
    return NoisyCounts(values, [NoiseLaw(scale)] * len(exact), None if form == "counts" else n, form)


def of_two(parameter):
    """A parameter of the first and the second group."""
    return lambda exact: parameter(exact[0], exact[1])


@pytest.mark.statistical
@pytest.mark.parametrize("form", ["counts", "halves", "hits"])
@pytest.mark.parametrize(
    ("sizes", "p", "q"), [((120, 120), 0.1, 0.3), ((50, 400), 0.02, 0.05), ((2000, 2000), 0.5, 0.45)]
)
def test_intervals_of_shares_cover(form, sizes, p, q):
    """Of 1,000 releases at the noise of ε = 0.5: a share, a difference, a ratio, and an odds ratio."""
    sums = released_counts(np.random.default_rng(5), sizes, (p, q), 4.0 if form == "counts" else 2.0, form, 1000)
    truths = (p, p - q, np.log(p / q), np.log(p / (1 - p) * (1 - q) / q))
    parameters = (lambda exact: share(exact[0]), of_two(difference), of_two(ratio), of_two(odds_ratio))

    for parameter, truth in zip(parameters, truths, strict=True):
        low, high = infer(sums, parameter, 256).interval()
        low, high = (share_of(low), share_of(high)) if truth == p else (low, high)
        assert scipy.stats.binom.ppf(1e-4, 1000, 0.94) <= ((low <= truth) & (truth <= high)).sum()


@pytest.mark.statistical
@pytest.mark.parametrize("form", ["counts", "halves"])
@pytest.mark.parametrize(("n", "scale"), [(10, 5.0), (16, 0.02), (50, 1.0), (200, 5.0)])
def test_level_and_power_of_an_even_share(form, n, scale):
    """Of 3,000 releases of discordant rows as many are rejected as should be, with few rows and with much noise."""
    rng = np.random.default_rng(8)
    even, uneven = (released_counts(rng, (n,), (p,), scale, form, 3000) for p in (0.5, 0.75))

    p = infer(even, lambda exact: share(exact[0]), 256).pvalue(EVEN)
    found = infer(uneven, lambda exact: share(exact[0]), 256).pvalue(EVEN)

    most = 0.08 if scale < 1 else 0.06  # without noise the normal law has the steps of the binomial one
    assert (p <= 0.05).sum() <= scipy.stats.binom.isf(1e-4, 3000, most)
    assert (found <= 0.05).mean() >= {10: 0.04, 16: 0.4, 50: 0.8, 200: 0.9}[n]


def test_void_counts_say_nothing():
    """Where the noise is larger than the counts, the interval is nearly all there is, and ratios are finite."""
    sums = NoisyCounts(np.array([[0.3, -2.0], [-4.0, 3.0]]), [NoiseLaw(20.0)] * 2)

    low, high = (share_of(end) for end in infer(sums, share).interval())
    ends = infer(sums, of_two(odds_ratio)).interval()

    assert (low < 0.02).all()
    assert (high > 0.98).all()
    assert ends[0] < -3
    assert 3 < ends[1] < 20


def test_hits_are_no_more_than_the_rows():
    """Counts that cannot be are moved to what is possible, of what was released and of draws."""
    sums = NoisyCounts(np.array([[-3.0], [55.0]]), [NoiseLaw(2.0)], np.array([50.0, 50.0]), "hits")

    exact, weights = sums.draws()

    assert sums.estimate.share[:, 0].tolist() == [0.0, 1.0]
    assert (exact.n == 50).all()
    assert exact.hits.min() == 0
    assert exact.hits.max() == 50
    assert weights.sum() == pytest.approx(1, abs=1e-12)


def test_hardly_any_noise_gives_the_usual_intervals():
    """Shares as by Anscombe's angle, near Wilson's; differences and odds ratios as statsmodels has them."""
    frame = table()
    two = frame[frame.g != "c"]
    counts = pd.crosstab(two.g, two.ill)[["yes", "no"]]
    hits, rows = counts["yes"], counts.sum(axis=1)
    its = Table2x2(counts.to_numpy(), shift_zeros=False)

    found = protect(frame).proportions("ill", "g", success="yes", groups=["a", "b"], epsilon=10**5)

    for at, group in enumerate("ab"):
        middle, error = (
            np.arcsin(np.sqrt((hits[group] + 0.375) / (rows[group] + 0.75))),
            (4 * rows[group] + 2) ** -0.5,
        )
        expected = [np.sin(middle + z * error) ** 2 for z in (-1.959964, 1.959964)]
        assert (found.lows[at], found.highs[at]) == pytest.approx(expected, abs=1e-4)
        wilson = proportion_confint(hits[group], rows[group], method="wilson")
        assert (found.lows[at], found.highs[at]) == pytest.approx(wilson, abs=5e-3)
    agresti = confint_proportions_2indep(hits["a"], rows["a"], hits["b"], rows["b"], method="agresti-caffo")
    halves = Table2x2(counts.to_numpy() + 0.5)
    assert found.difference[1] == pytest.approx(agresti, abs=1e-4)
    assert found.odds_ratio[1] == pytest.approx(halves.oddsratio_confint(), rel=1e-3)
    assert found.odds_ratio[0] == pytest.approx(its.oddsratio, abs=1e-3)
    assert found.risk_ratio[0] == pytest.approx(its.riskratio, abs=1e-3)
    assert found.difference[0] == pytest.approx(found.shares[0] - found.shares[1], abs=1e-12)


def test_hardly_any_noise_gives_mcnemars_test():
    """The p-value of statsmodels, without its correction."""
    frame = table()
    both = pd.crosstab(frame.ill, frame.well).loc[["yes", "no"], ["yes", "no"]]

    found = protect(frame).mcnemar("ill", "well", success="yes", epsilon=10**5)

    its = mcnemar(both.to_numpy(), exact=False, correction=False)
    assert found.statistic == pytest.approx(both.loc["yes", "no"] - both.loc["no", "yes"], abs=0.01)
    assert found.pvalue == pytest.approx(its.pvalue, rel=0.01)
    assert found.low < found.odds_ratio < found.high


def test_hardly_any_noise_gives_scipys_analysis_of_variance():
    """Means, and nearly the p-value and the effect size, of Welch's test."""
    frame = table()
    frame["x"] = np.where(frame.g == "c", 4, 4.0) + 0.15 * (frame.x - 4)  # small differences
    parts = [frame.x[frame.g == each] for each in "abc"]

    found = protect(frame).anova("x", "g", epsilon=10**5)

    total = ((frame.x - frame.x.mean()) ** 2).sum()
    assert found.means == pytest.approx([part.mean() for part in parts], abs=1e-3)
    assert found.eta_squared == pytest.approx(1 - sum(((p - p.mean()) ** 2).sum() for p in parts) / total, abs=5e-3)
    assert found.pvalue < 0.001


def released(rng, sizes, means, sd, epsilon, form, runs):
    """Releases of normal groups in [-1, 1]."""
    n = np.array(sizes, dtype=float)
    average = np.array(means) + sd / np.sqrt(n) * rng.standard_normal((runs, len(n)))
    s, q = n * average, sd**2 * rng.chisquare(n - 1, (runs, len(n))) + n * average**2
    rest = {"private": (n - q, q), "known": (q,), "beside": (n - q, n + 0 * q)}[form]
    b = (3.0 if form == "private" else 2.0) / epsilon
    scales = b / np.array({"private": (1, 1, 0.5), "known": (1, 0.5), "beside": (1, 0.5, 1)}[form])
    values = np.stack([s, *rest], axis=-1)
    values += scales * rng.laplace(size=values.shape)
    rows = None if form == "private" else np.broadcast_to(n, (runs, len(n)))
    return NoisyMoments(values, [NoiseLaw(each) for each in scales], rows, form)


@pytest.mark.statistical
@pytest.mark.parametrize("form", ["private", "known", "beside"])
@pytest.mark.parametrize(
    ("sizes", "sd", "epsilon"), [((100, 100, 100), 0.3, 1), ((5, 50, 200), 0.3, 50), ((50, 50, 50, 50), 0.1, 3)]
)
def test_level_of_the_analysis_of_variance(sizes, sd, epsilon, form):
    """Of 3,000 tables of normal groups with one mean, as many are rejected as should be."""
    sums = released(np.random.default_rng(6), sizes, [0.2] * len(sizes), sd, epsilon, form, 3000)

    p = omnibus(sums, 512).pvalue

    assert all((p <= level).sum() <= scipy.stats.binom.isf(1e-6, 3000, 1.2 * level) for level in (0.05, 0.01))
    assert (p <= 0.05).mean() >= 0.01


@pytest.mark.statistical
@pytest.mark.parametrize("apart", [0.0, 0.1, 0.3])
def test_the_interval_of_eta_squared_covers_the_populations(apart):
    """Of 400 tables of three groups, the middle one apart, about as many cover as is said."""
    sums = released(np.random.default_rng(9), (200, 200, 200), (0, apart, 0), 0.3, 5, "private", 400)
    between = apart**2 * 2 / 9

    low, high = omnibus(sums, 256).interval(0.95)

    covered = ((low <= between / (between + 0.09)) & (high >= between / (between + 0.09))).sum()
    assert 350 <= covered <= 399


def test_holm_is_that_of_statsmodels():
    """Stepping down, capped at 1."""
    p = np.array([0.01, 0.04, 0.03, 0.005, 0.9])

    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-15)


class Rows:
    """Rows of codes, as features read them."""

    def __init__(self, **codes):
        self.of = {name: np.array(values) for name, values in codes.items()}
        self.size = len(next(iter(self.of.values())))

    def codes(self, column):
        return self.of[column.name]


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_rows_are_no_farther_apart_than_is_claimed(norm):
    """Every two rows of three categories, and of none; every pair of outcomes."""
    x, y = Column("x", categories=("a", "b", "c")), Column("y", categories=("a", "b"))
    every = list(itertools.product(range(4), range(3)))
    rows = Rows(x=[a for a, _ in every], y=[b for _, b in every])
    features = [*(Outcome(x, 1, form) for form in ("hits", "counts", "halves")), Discordant(x, y, (0, 0))]

    for feature in features:
        vectors = feature.rows(rows)
        apart = np.linalg.norm(vectors[:, None] - vectors[None], ord=norm, axis=2).max()
        assert 0.99 * feature.diameter(norm, frozenset()) <= apart <= feature.diameter(norm, frozenset())
        assert np.linalg.norm(vectors, ord=norm, axis=1).max() <= feature.radius(norm)


@pytest.mark.parametrize("terms", [{}, {"public": ["g"]}, {"neighbors": "add_remove"}])
def test_every_way_of_asking_answers(constructor, terms):
    """Private and public groups, both relations, some rows and by group, with values missing."""
    frame = table()
    frame.loc[::10, ["x", "ill"]] = [np.nan, None]
    lists = {**frame.to_dict("list"), "ill": [None if pd.isna(each) else each for each in frame["ill"]]}
    view = protect(constructor(lists), **terms)

    means, shares = view.anova("x", "g", epsilon=50), view.proportions("ill", "g", success="yes", epsilon=50)
    one, pairs = (
        view.proportions("ill", success="yes", epsilon=50),
        view.mcnemar("ill", "well", success="yes", epsilon=50),
    )
    some = view.where(well="yes").anova("x", "g", epsilon=50)
    each = view.group_by("g").proportions("ill", success="yes", epsilon=50)

    assert means.rejected
    assert some.pvalue < 0.05
    assert [round(mean) for mean in means.means] == [4, 5, 6]
    assert means.comparisons[1][4] < 0.01
    assert means.pairwise().shape[0] == 3
    assert shares.compared().shape[0] == 3
    assert all(
        low < 0.2 + 0.1 * at < high for at, (low, high) in enumerate(zip(shares.lows, shares.highs, strict=True))
    )
    assert one.lows[0] < 0.3 < one.highs[0]
    assert pairs.rejected
    assert len(each.releases) == 3
    if "public" in terms:
        assert means.missing == pytest.approx(60, abs=10)
        assert shares.missing == pytest.approx(60, abs=10)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda view: view.anova("x", "g", groups=["a"], epsilon=1), "compares (two|at least 2) groups"),
        (lambda view: view.proportions("ill", "g", success="maybe", epsilon=1), "'maybe'"),
        (lambda view: view.proportions("ill", "ill", success="yes", epsilon=1), "named twice"),
        (lambda view: view.proportions("ill", success="yes", groups=["a"], epsilon=1), "without by="),
        (lambda view: view.mcnemar("ill", "ill", success="yes", epsilon=1), "named twice"),
        (lambda view: view.mcnemar("ill", "g", success="yes", epsilon=1), "'yes'"),
        (lambda view: view.mcnemar("ill", "well", success="yes", nan_policy="raise", epsilon=1), "private value"),
    ],
)
def test_bad_input_costs_nothing(ask, message):
    """It is refused before anything is paid."""
    view = protect(table(60))

    with pytest.raises(dp.ArgumentError, match=message):
        ask(view)

    assert view.budget.spent == 0


def test_a_single_share_is_compared_with_nothing():
    """It says what to ask instead."""
    with pytest.raises(dp.ArgumentError, match="no comparison"):
        _ = protect(table()).proportions("ill", success="yes", epsilon=1).difference


def test_notes_of_much_noise():
    """Means with loose bounds name ranks; shares of few rows say that they say little."""
    view = protect(table(120))

    assert "kruskal()" in " ".join(view.anova("x", "g", epsilon=0.1).notes)
    assert "wider than 0.5" in view.proportions("ill", "g", success="yes", epsilon=0.05).notes[0]


def test_plots_are_forests():
    """A row for each group."""
    view = protect(table())

    for result in (view.anova("x", "g", epsilon=5), view.proportions("ill", "g", success="yes", epsilon=5)):
        labels = [label.get_text() for label in result.plot().get_yticklabels()]
        assert [label[0] for label in labels] == ["a", "b", "c"]


def test_scipy_agrees_where_groups_are_large():
    """Welch's p-value, of means so near that it is not tiny."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"x": rng.normal(5, 1, 3000), "g": np.repeat(["a", "b", "c"], 1000)})
    frame.loc[:999, "x"] += 0.09
    its = scipy.stats.f_oneway(*(frame.x[frame.g == each] for each in "abc"), equal_var=False)

    found = protect(frame, categories={"g": ["a", "b", "c"]}).anova("x", "g", epsilon=10**5)

    assert found.pvalue == pytest.approx(its.pvalue, abs=0.01)
    assert found.statistic == pytest.approx(its.statistic, rel=0.01)


def test_results_say_what_their_intervals_cover():
    """The population's numbers."""
    frame = pd.DataFrame({"x": np.arange(600) % 17, "g": np.repeat(["a", "b"], 300), "e": np.arange(600) % 2})
    view = dp.protect(
        frame,
        "what intervals cover",
        epsilon=100,
        ledger="memory:",
        bounds={"x": (0, 20)},
        categories={"g": ["a", "b"], "e": [0, 1]},
    )
    means = view.anova("x", by="g", epsilon=5)
    limited = [means, view.mannwhitneyu("x", by="g", epsilon=5), view.kaplan_meier("x", "e", 5, epsilon=5)]

    assert {each.covers for each in [*limited, view.survival_test("x", "e", by="g", epsilon=5)]} == {
        "limited population"
    }
    assert view.proportions("e", by="g", success=1, epsilon=5).covers == "population"
    assert "for the table's own" not in repr(means)
