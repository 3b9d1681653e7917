"""Rank tests through a view, their laws, and reference values."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.stats

import dfprivacy as dp
from dfprivacy.inference.counts import NoisyCounts
from dfprivacy.laws import NoiseLaw
from dfprivacy.testing import seeded_noise
from dfprivacy_inference.groups import SeveralGroups, TwoGroups, pvalue_of_t
from dfprivacy_inference.signed import Differences, sign_pvalue
from dfprivacy_inference.statistics import MidRanks, products, signed_ranks, taper

COUNT = itertools.count()
TERMS = {
    "bounds": {"x": (-9.0, 9.0), "y": (-9.0, 9.0)},
    "categories": {"g": ["a", "b"], "h": ["u", "v", "w"]},
    "ledger": "memory:",
}


def table(n, shift=1.0, seed=1):
    """Rows in which x is larger in group a."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "x": rng.normal(size=n),
        "y": rng.normal(size=n),
        "g": rng.choice(["a", "b"], n),
        "h": rng.choice(list("uvw"), n),
    })  # fmt: skip
    frame.loc[frame.g == "a", "x"] += shift
    return frame


def protect(frame, epsilon=10**6, **terms):
    """Protect rows with much to spend."""
    return dp.protect(frame, f"ranks {next(COUNT)}", **{**TERMS, "epsilon": epsilon, **terms})


def noisy(f, n1, tau, n, epsilon):
    """A release of two private groups, none of whose rows is left out."""
    on = n * epsilon >= 100
    b = (1.1 if on else 1.0) / epsilon
    scales = [b, b / 0.2, 0.0, 3 * b / (0.1 * (n + 1))]
    return TwoGroups(np.array([f, n1, 0, tau]), scales, n, sized=on, spread="ties" if on else None)


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ((5, 0, 0, 40, 1), 0.02547),
        ((4, 300, 0.7, 1000, 0.5), 0.5066),
        ((9, 150, 0.97, 200, 1), 0.003089),
        ((40, 600, 0.99, 2000, 1), 2.035e-6),
    ],
)
def test_reference_pvalues_of_two_groups(release, expected):
    """The p-value of a noisy rank sum, size and share of ties: the mean over draws of what noise may have been."""
    n, noise = release[3], np.random.default_rng(2).laplace(size=(2, 10**6))
    two = noisy(*release)
    statistic, first = release[0] - two.scales[0] * noise[0], np.full(10**6, n / 2)
    tau = 1.0
    if not two.unsized:
        first = np.clip(release[1] - two.scales[1] * noise[1], 2, n - 2)
        tau = min(release[2] + two.scales[3], 1.0)
    sd = two.factor(first, n - first) * np.sqrt(first * (n - first) * (n + 1) / 12 * tau)
    least = np.sqrt((sd**2).mean())

    found = float(two.effect().pvalue(0.5))

    assert found == pytest.approx(2 * scipy.stats.norm.sf(statistic / np.maximum(sd, least)).mean(), rel=0.1)
    assert found == pytest.approx(expected, rel=0.02)


def test_reference_pvalues_of_differences():
    """Signed ranks by the normal law, and signs by draws of the noise: near the sum of both laws."""
    for n, w, epsilon, expected in ((30, 250, 1, 0.054608537), (100, 1500, 0.5, 0.065418089)):
        ranks = Differences(np.array([w, n]), [2 * n / epsilon, 1.0], ranks=True, n=n, gaps=False)
        assert float(ranks.effect().pvalue(0.5)) == pytest.approx(expected, rel=0.01)
    for n, s, scale in ((30, 14, 1.0), (200, 25, 10.0), (20, 8.2, 0.01)):
        signs = NoisyCounts(np.array([[(n + s) / 2]]), [NoiseLaw(scale)], np.array([float(n)]), "hits")
        lacks = (n + s) / 2 - np.arange(n + 1)  # what the noise has to make up for
        law = scipy.stats.binom.pmf(np.arange(n + 1), n, 0.5) @ scipy.stats.laplace.sf(lacks, scale=scale)
        assert sign_pvalue(signs) == pytest.approx(2 * law, rel=0.05)
        assert sign_pvalue(signs, "greater") == pytest.approx(law, rel=0.05)
        assert sign_pvalue(signs, "less") > 0.5


@pytest.mark.parametrize(("n", "k", "eps", "at"), [(60, 3, 1, (3.794, 5.38)), (300, 4, 0.5, (8.673, 11.88))])
def test_reference_quantiles_of_several_groups(n, k, eps, at):
    """5% and 1% of T and its noise lie above these multiples of n."""
    found = [
        [pvalue_of_t(q * part * n, (n - 1) / eps, n, np.full(k, 1 / k), 1.0) for part in (0.995, 1.005)] for q in at
    ]

    assert found[0][0] > 0.05 > found[0][1]
    assert found[1][0] > 0.01 > found[1][1]


def test_reference_scores():
    """Ranks with ties, their squares, signed ranks with zeros, and Gehan's scores."""
    x, first = np.array([1, 2, 2, 3, 5, 5, 5, 8.0]), np.array([0, 1, 4, 7])
    frame = pd.DataFrame({"x": x, "g": np.where(np.isin(np.arange(8), first), "a", "b")})
    view = protect(frame, bounds={"x": (0, 9)}, categories={"g": ["a", "b"]}, public=["g"])
    two = view.mannwhitneyu("x", "g", epsilon=10**5)
    d = pd.DataFrame({"d": [-3, -1, 0, 0, 1, 2, 2, 4.0]})
    one = protect(d, bounds={"d": (-5, 5)}, categories={}).wilcoxon("d", method="rank", epsilon=10**5)

    assert two.statistic - 8 == pytest.approx(-0.5, abs=1e-2)
    assert two.effect == pytest.approx(0.46875, abs=1e-3)
    assert one.statistic == pytest.approx(12, abs=1e-2)


def test_reference_scores_are_exact():
    """Before any noise: twice the middle ranks of ties, less n + 1; and the sum of signed ranks, zeros included."""

    class Rows:
        size = 8

        def values(self, _):
            return np.array([1, 2, 2, 3, 5, 5, 5, 8.0])

    column = dp.Column("x", bounds=(0.0, 9.0))
    doubled = MidRanks(column).doubled(Rows(), np.ones(8, dtype=bool))

    assert doubled.tolist() == [-7, -4, -4, -1, 3, 3, 3, 7]
    assert doubled[[0, 1, 4, 7]].sum() / 2 == -0.5
    assert products(doubled, doubled) * 3 / (8 * 63) == pytest.approx(0.9404761904761905, abs=1e-12)
    assert signed_ranks(np.array([-3, -1, 0, 0, 1, 2, 2, 4.0])) == 12


def test_an_interval_of_signed_ranks_is_refused():
    """With the reason, and with what has one."""
    with pytest.raises(dp.ArgumentError, match="depends on the law of the differences"):
        protect(table(60)).wilcoxon("x", epsilon=1).confidence_interval()


def test_products_are_exact():
    """Where one does not fit into 64 bits, too."""
    large = np.array([3 * 10**9, -(3 * 10**9), 10**9])

    assert products(large, large) == 19 * 10**18


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_hardly_any_noise_gives_scipys_numbers(alternative):
    """Statistics and p-values, without ties."""
    frame = table(400)
    view, a, b = protect(frame), frame.x[frame.g == "a"], frame.x[frame.g == "b"]

    two = view.mannwhitneyu("x", "g", alternative=alternative, epsilon=10**5)
    one = view.wilcoxon("x", "y", alternative=alternative, epsilon=10**5)
    sign = view.wilcoxon("y", method="sign", alternative=alternative, epsilon=10**5)

    its = scipy.stats.mannwhitneyu(a, b, use_continuity=False, method="asymptotic", alternative=alternative)
    ours = scipy.stats.wilcoxon(frame.x - frame.y, alternative=alternative, correction=False, method="asymptotic")
    above = int((frame.y > 0).sum())
    exact = scipy.stats.binomtest(above, len(frame), alternative=alternative).pvalue
    ties = 2 * scipy.stats.binom.pmf(above, len(frame), 0.5)  # hardly any noise tells values at the edge apart
    assert two.statistic == pytest.approx(its.statistic, abs=1)
    assert two.pvalue == pytest.approx(its.pvalue, rel=0.01)
    assert one.pvalue == pytest.approx(ours.pvalue, rel=0.01)
    assert exact - ties - 1e-9 <= sign.pvalue <= exact + 1e-9


def test_hardly_any_noise_gives_the_largest_rank_sum():
    """T is half the sum of absolute rank sums, by scipy's ranks."""
    frame = table(300)
    centred = scipy.stats.rankdata(frame.x) - 301 / 2
    expected = sum(abs(centred[frame.h == kind].sum()) for kind in "uvw") / 2

    found = protect(frame).kruskal("x", "h", epsilon=10**5)

    assert found.largest_rank_sum == pytest.approx(expected, abs=0.1)
    assert found.sizes == pytest.approx([(frame.h == kind).sum() for kind in "uvw"], abs=0.1)


@pytest.mark.parametrize("terms", [{}, {"public": ["g", "h"]}, {"neighbors": "add_remove"}])
@pytest.mark.parametrize("digits", [0, 6])
def test_hardly_any_noise_gives_kruskals_h(terms, digits):
    """Scipy's number for two groups, ties included; none for three, of which T does not tell it."""
    frame = table(600).round({"x": digits})
    frame.loc[frame.h == "u", "x"] += 0.6
    expected = scipy.stats.kruskal(*(each.x for _, each in frame.groupby("g"))).statistic

    found = protect(frame, **terms).kruskal("x", "g", epsilon=10**5)

    tied = 0.15 if terms.get("neighbors") == "add_remove" and not digits else 0.0  # τ is not measured there
    assert found.statistic == pytest.approx(expected, rel=1e-3 + tied)
    assert protect(frame, **terms).kruskal("x", "h", epsilon=1).statistic is None


def test_the_noise_is_taken_out_of_h():
    """On average over 2,000 noises of two groups alike in size: T² has 2b² less."""
    t, b, sizes = 9000.0, 3000.0, np.full(2, 200.0)
    noise = np.random.default_rng(5).laplace(0, b, 2000)

    def h(released, scale):
        groups = SeveralGroups(
            [released, *sizes, 1.0], [scale, 0.0, 0.0], int(sum(sizes)), tuple(sizes), True, True
        )
        return groups.kruskal_h

    plain = h(t, 0.0)
    found = np.mean([h(t + each, b) for each in noise])

    assert found == pytest.approx(plain, rel=0.15)


@pytest.mark.parametrize("public", [(), ("h",)], ids=["private", "public"])
def test_rows_without_a_value_do_not_make_the_law_of_several_groups_narrower(public):
    """With hardly any noise the p-value is that of the rows with a value, however many others there are."""
    frame = table(400, seed=4)
    frame.loc[frame.index % 3 > 0, "x"] = np.nan

    alone = protect(frame.dropna(), public=public).kruskal("x", "h", epsilon=10**5)
    among = protect(frame, public=public).kruskal("x", "h", epsilon=10**5)

    assert 0.01 < alone.pvalue < 0.99
    assert among.largest_rank_sum == pytest.approx(alone.largest_rank_sum, abs=0.1)
    assert among.largest_rank_sum == pytest.approx(alone.largest_rank_sum, rel=1e-3)
    assert among.pvalue == pytest.approx(alone.pvalue, abs=0.01)


@pytest.mark.statistical
def test_level_and_power_of_two_private_groups():
    """2,000 tables of 200 alike, and 2,000 of 40 one standard deviation apart."""
    rng = np.random.default_rng(3)

    def rejected(n, shift):
        x, half = rng.normal(size=(4000, n)), n // 2
        x[:, :half] += shift
        d = (scipy.stats.rankdata(x, axis=1) - (n + 1) / 2)[:, :half].sum(axis=1)
        on = n >= 100
        b, c = (1.1, 0.2) if on else (1.0, 0.0)
        scales = np.array([b, b / 0.2, b / 0.1, 3 * b / (0.1 * (n + 1))])
        exact = np.stack([taper(n, half, c) * d, *np.full((2, 4000), [[half], [n]]), np.ones(4000)], axis=-1)
        values = exact + rng.laplace(size=exact.shape) * scales
        two = TwoGroups(values, scales, n, sized=on, spread="ties" if on else None)
        return (two.effect().pvalue(0.5) <= 0.05).mean()

    assert 0.04 <= rejected(200, 0.0) <= 0.065
    assert 0.53 <= rejected(40, 1.0) <= 0.62


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["private", "public", "add_remove"])
@pytest.mark.parametrize("shapes", ["similar", "any"])
def test_intervals_of_the_effect_cover(kind, shapes):
    """Of 2,000 tables of 300 rows, 30% in the first group; 1/2 is within if and only if it is not rejected."""
    rng, runs, n, first = np.random.default_rng(4), 2000, 300, 90
    x = rng.normal(size=(runs, n))
    x[:, :first] += 0.5
    d = (scipy.stats.rankdata(x, axis=1) - (n + 1) / 2)[:, :first].sum(axis=1)

    if kind == "private":
        scales, exact = [1.1, 5.5, 11.0, 33 / (n + 1)], [taper(n, n - first, 0.2) * d, first, n, 1.0]
        told = {"n": n, "sized": True, "complete": True, "spread": "ties"}
    elif kind == "public":
        scales, exact = [n - first, 2.0, 2.0, 0.0], [d, first, n - first, 1.0]
        told = {"n": n, "rows": (first, n - first), "complete": True}
    else:
        scales, exact = [0.55, 11.0, 11.0, 0.0], [d / n, first, n - first, 0.0]
        told = {"n": None}
    values = np.stack(np.broadcast_arrays(*exact), axis=-1) + rng.laplace(size=(runs, 4)) * scales
    found = TwoGroups(values, scales, **told).effect(shapes)
    low, high = found.interval(0.95)
    truth = scipy.stats.norm.cdf(0.5 / 2**0.5)

    assert 0.935 <= ((low <= truth) & (truth <= high)).mean() <= 1
    assert np.median(high - low) < 0.6
    assert np.array_equal(found.pvalue(0.5) < 0.05, (low > 0.5) | (high < 0.5))


@pytest.mark.parametrize("terms", [{}, {"public": ["g", "h"]}, {"neighbors": "add_remove"}])
def test_every_way_of_asking_answers(constructor, terms):
    """Private and public groups, both relations, of all rows, some, and by group, with values missing."""
    frame = table(300)
    frame.loc[::10, "x"] = np.nan
    view = protect(constructor(frame.to_dict("list")), **terms)

    whole = view.mannwhitneyu("x", "g", epsilon=50)
    some = view.where(h="u").mannwhitneyu("x", "g", epsilon=50)
    each = view.group_by("h").mannwhitneyu("x", "g", epsilon=50)
    several, pairs = view.kruskal("x", "h", epsilon=50), view.group_by("g").wilcoxon("x", "y", epsilon=50)

    assert whole.rejected
    assert whole.low < 0.76 < whole.high
    assert some.pvalue < 0.5
    assert len(each.releases) == 3
    assert 0 < several.pvalue < 1
    assert len(pairs.releases) == 2
    if terms != {"neighbors": "add_remove"}:
        assert whole.missing == pytest.approx(30, abs=15)


def test_laws_of_one_shape_have_narrower_intervals():
    """The same release, read with another variance."""
    view = protect(table(600))

    found = [
        view.mannwhitneyu("x", "g", shapes=shapes, epsilon=10).confidence_interval()
        for shapes in ("any", "similar")
    ]

    widths = [interval.high - interval.low for interval in found]
    assert widths[1] < widths[0]


def test_without_sizes_there_is_no_effect():
    """Where they would take too much of the budget, the result says so."""
    found = protect(table(60)).mannwhitneyu("x", "g", epsilon=1)

    assert found.effect is None
    assert found.statistic is None
    assert found.confidence_interval() == found.confidence_interval(0.5) == (0.0, 1.0)
    assert "There is no effect size" in found.notes[0]
    assert "effect" not in str(found).split("notes")[0]


def test_few_values_that_differ_are_noted():
    """Nearly all are equal, and the smaller group has few others."""
    frame = pd.DataFrame(
        {"x": (np.arange(3000) % 50 == 0).astype(float), "g": np.where(np.arange(3000) < 90, "a", "b")}
    )
    known = {"bounds": {"x": (0, 1)}, "categories": {"g": ["a", "b"]}}

    assert "Most values are equal" in protect(frame, **known).mannwhitneyu("x", "g", epsilon=30).notes[0]
    assert protect(table(3000)).mannwhitneyu("x", "g", epsilon=30).notes == ()


def test_signs_are_counted_where_ranks_drown():
    """The method follows from the number of rows and epsilon."""
    view = protect(table(200))

    assert view.wilcoxon("x", epsilon=0.1).method == "sign"
    assert view.wilcoxon("x", epsilon=1).method == "rank"


def test_a_second_look_at_the_same_ranks_is_free():
    """The same rank sum at another level, side and coverage."""
    view = protect(table(300))
    view.mannwhitneyu("x", "g", epsilon=1)
    spent = view.budget.spent

    other = view.mannwhitneyu("x", "g", alternative="greater", confidence=0.9, shapes="similar", epsilon=1)

    assert view.budget.spent == spent
    assert other.confidence == 0.9
    assert (
        other.confidence_interval(0.8)
        == view.mannwhitneyu("x", "g", confidence=0.8, epsilon=1).confidence_interval()
    )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda view: view.mannwhitneyu("x", "h", epsilon=1), "compares two groups"),
        (lambda view: view.mannwhitneyu("x", "h", groups=["u"], epsilon=1), "compares (two|at least 2) groups"),
        (lambda view: view.mannwhitneyu("x", "h", groups=["u", "u"], epsilon=1), "twice"),
        (lambda view: view.mannwhitneyu("x", "h", groups=["u", "z"], epsilon=1), "'z'"),
        (lambda view: view.mannwhitneyu("x", "g", nan_policy="raise", epsilon=1), "private value is missing"),
        (lambda view: view.kruskal("x", "h", groups=["w"], epsilon=1), "compares (two|at least 2) groups"),
        (lambda view: view.wilcoxon("x", "x", epsilon=1), "named twice"),
        (lambda view: view.wilcoxon("x", popmean=10, epsilon=1), "lies outside"),
        (lambda view: view.wilcoxon("x", method="t", epsilon=1), "unknown"),
    ],
)
def test_bad_input_costs_nothing(ask, message):
    """It is refused before anything is paid."""
    view = protect(table(60))

    with pytest.raises(dp.ArgumentError, match=message):
        ask(view)

    assert view.budget.spent == 0


def test_few_public_rows_are_refused():
    """A public group of one, and a table of three rows."""
    frame = table(12)
    frame["g"] = ["a", *["b"] * 11]

    for view, match in ((protect(frame, public=["g"]), "has 1 rows"), (protect(frame[:3]), "There are 3 rows")):
        with pytest.raises(dp.ArgumentError, match=match):
            view.mannwhitneyu("x", "g", epsilon=1)
        assert view.budget.spent == 0


def test_the_t_test_names_ranks_where_bounds_are_loose():
    """Before and after it is paid; and of rows whose groups are private as well."""
    view = protect(table(40), bounds={"x": (-5.0, 5.0), "y": (-5.0, 5.0)})

    plan = view.explain("ttest", "x", by="g", epsilon=1)
    with seeded_noise(1):
        paid = view.ttest("x", by="g", epsilon=1)

    assert any("mannwhitneyu()" in str(each) for each in plan.findings.values())
    assert any("mannwhitneyu()" in note for note in paid.notes)


def test_plots_draw_the_interval():
    """One axis from 0 to 1."""
    ax = protect(table(300)).mannwhitneyu("x", "g", epsilon=5).plot()

    assert ax.get_xlim() == (0, 1)


@pytest.mark.parametrize(("epsilon", "least", "most"), [(10**5, 0.0, 0.001), (1.0, 0.05, 0.9)])
def test_the_noises_part_of_an_interval_is_told(epsilon, least, most):
    """Next to none of it with hardly any noise; more with more, in the answer, its sentence and its picture."""
    with seeded_noise(3):
        found = protect(table(300)).mannwhitneyu("x", by="g", epsilon=epsilon)

    ax = found.plot()

    assert least <= found._noise_part <= most
    assert "of its width is privacy noise" in " ".join(repr(found).split())
    assert "of it from sampling" in [text.get_text() for text in ax.get_legend().get_texts()]
