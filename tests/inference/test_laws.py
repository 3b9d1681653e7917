"""The laws of noisy shares, means, rank sums and life tables: reference values, levels, power and coverage."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.multitest import multipletests

import dfprivacy as dp
from dfprivacy.inference.counts import (
    EVEN,
    NoisyCounts,
    arcsine_share,
    difference,
    odds_ratio,
    ratio,
    share_of_angle,
)
from dfprivacy.inference.engine import infer
from dfprivacy.inference.groups import holm, omnibus
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.laws import NoiseLaw
from dfprivacy_inference.curves import Curve, LifeTable, cumulative_hazard
from dfprivacy_inference.groups import SeveralGroups, TwoGroups, largest_rank_sum_pvalue
from dfprivacy_inference.hazards import TwoLifeTables, log_hazard_ratio
from dfprivacy_inference.signed import Differences, sign_pvalue
from dfprivacy_inference.statistics import GehanScores, MidRanks, dot_product, signed_ranks, taper

TIME, EVENT = dp.Column("t", bounds=(0.0, 1000.0)), dp.Column("e", categories=(0, 1))


class Rows:
    """A few rows, as features and statistics read them."""

    def __init__(self, times, events=()):
        self.size, self.times, self.events = len(times), np.array(times, dtype=float), np.array(events)

    def values(self, _):
        return self.times

    def codes(self, _):
        return self.events

    def missing(self, _):
        return np.zeros(self.size, dtype=bool)


# Shares


def counted(rng, sizes, shares, scale, form, runs):
    """Releases of groups, without rows that have no value."""
    n = np.array(sizes, dtype=float)
    hits = rng.binomial(sizes, shares, (runs, len(sizes)))
    exact = {"hits": (hits,), "counts": (hits, n - hits), "halves": (hits - n / 2, n / 2 + 0 * hits)}[form]
    values = np.stack(exact, axis=-1) + rng.laplace(0, scale, (runs, len(sizes), len(exact)))
    return NoisyCounts(values, [NoiseLaw(scale)] * len(exact), None if form == "counts" else n, form)


def of_two(parameter):
    """A parameter of the first and the second group."""
    return lambda exact: parameter(exact[0], exact[1])


def first(exact):
    """The share of the first group."""
    return arcsine_share(exact[0])


@pytest.mark.statistical
@pytest.mark.parametrize("form", ["counts", "halves", "hits"])
@pytest.mark.parametrize(
    ("sizes", "p", "q"), [((120, 120), 0.1, 0.3), ((50, 400), 0.02, 0.05), ((2000, 2000), 0.5, 0.45)]
)
def test_intervals_of_shares_cover(form, sizes, p, q):
    """Of 600 releases at the noise of ε = 0.5: a share, a difference, a ratio, and an odds ratio."""
    sums = counted(np.random.default_rng(5), sizes, (p, q), 4.0 if form == "counts" else 2.0, form, 600)
    truths = (np.arcsin(p**0.5), p - q, np.log(p / q), np.log(p / (1 - p) * (1 - q) / q))

    for parameter, truth in zip((first, *map(of_two, (difference, ratio, odds_ratio))), truths, strict=True):
        held = infer(sums, parameter, 256).pvalue(truth) >= 0.05  # as of all that a 95% interval holds
        assert scipy.stats.binom.ppf(1e-6, 600, 0.945) <= held.sum()


@pytest.mark.statistical
@pytest.mark.parametrize("form", ["counts", "halves"])
@pytest.mark.parametrize(("n", "scale"), [(10, 5.0), (16, 0.02), (50, 1.0), (200, 5.0)])
def test_level_and_power_of_an_even_share(form, n, scale):
    """Of 3,000 releases of discordant rows as many are rejected as should be, with few rows and with much noise."""
    rng = np.random.default_rng(8)
    level, power = (
        (infer(counted(rng, (n,), (p,), scale, form, 3000), first, 256).pvalue(EVEN) <= 0.05).sum()
        for p in (0.5, 0.75)
    )

    most = 0.08 if scale < 1 else 0.06  # without noise the normal law has the steps of the binomial one
    assert level <= scipy.stats.binom.isf(1e-4, 3000, most)
    assert power / 3000 >= {10: 0.04, 16: 0.4, 50: 0.8, 200: 0.9}[n]


def test_void_counts_say_nothing():
    """Where the noise is larger than the counts, the interval is nearly all there is, and ratios are finite."""
    sums = NoisyCounts(np.array([[0.3, -2.0], [-4.0, 3.0]]), [NoiseLaw(20.0)] * 2)

    low, high = (share_of_angle(end) for end in infer(sums, arcsine_share).interval())
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
    assert (exact.hits.min(), exact.hits.max()) == (0, 50)
    assert weights.sum() == pytest.approx(1, abs=1e-12)


# Means


def summed(rng, sizes, means, sd, epsilon, form, runs):
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
@pytest.mark.parametrize(("sizes", "sd", "epsilon"), [
    ((5, 50, 200), 0.3, 50),
    *(pytest.param(*each, marks=pytest.mark.one_in(3))
      for each in (((100, 100, 100), 0.3, 1), ((50, 50, 50, 50), 0.1, 3))),
])  # fmt: skip
def test_level_of_the_analysis_of_variance(sizes, sd, epsilon, form):
    """Of 1,500 tables of normal groups with one mean, as many are rejected as should be."""
    sums = summed(np.random.default_rng(6), sizes, [0.2] * len(sizes), sd, epsilon, form, 1500)

    p = omnibus(sums, 128).pvalue

    assert all((p <= level).sum() <= scipy.stats.binom.isf(1e-6, 1500, 1.2 * level) for level in (0.05, 0.01))
    assert (p <= 0.05).mean() >= 0.01


@pytest.mark.statistical
@pytest.mark.parametrize("apart", [0.0, 0.1, 0.3])
def test_the_interval_of_eta_squared_covers_the_populations(apart):
    """Of 400 tables of three groups, the middle one apart, about as many cover as is said."""
    sums = summed(np.random.default_rng(9), (200, 200, 200), (0, apart, 0), 0.3, 5, "private", 400)
    truth = apart**2 * 2 / 9 / (apart**2 * 2 / 9 + 0.09)

    low, high = omnibus(sums, 64).interval(0.95)

    assert 350 <= ((low <= truth) & (high >= truth)).sum() <= 399


def test_holm_is_that_of_statsmodels():
    """Stepping down, capped at 1."""
    p = np.array([0.01, 0.04, 0.03, 0.005, 0.9])

    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-15)


# Ranks


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
    f, n1, tau, n, epsilon = release
    on, noise = n * epsilon >= 100, np.random.default_rng(2).laplace(size=(2, 200_000))
    b = (1.1 if on else 1.0) / epsilon
    scales = [b, b / 0.2, 0.0, 3 * b / (0.1 * (n + 1))]
    two = TwoGroups(np.array([f, n1, 0, tau]), scales, n, sized=on, spread="ties" if on else None)
    statistic, size = f - b * noise[0], np.full(noise.shape[1], n / 2)
    tau = min(tau + scales[3], 1.0) if on else 1.0
    if on:
        size = np.clip(n1 - scales[1] * noise[1], 2, n - 2)
    sd = two.multiplier(size, n - size) * np.sqrt(size * (n - size) * (n + 1) / 12 * tau)
    law = 2 * scipy.stats.norm.sf(statistic / np.maximum(sd, np.sqrt((sd**2).mean()))).mean()

    found = float(two.effect().pvalue(0.5))

    assert found == pytest.approx(law, rel=0.1)
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
    for q, level in zip(at, (0.05, 0.01), strict=True):
        below, above = (
            largest_rank_sum_pvalue(q * part * n, (n - 1) / eps, n, np.full(k, 1 / k), 1.0)
            for part in (0.995, 1.005)
        )
        assert below > level > above


def test_reference_scores():
    """Twice the middle ranks of ties, less n + 1; the sum of signed ranks, zeros included; products of any size."""
    doubled = MidRanks(TIME).twice_ranks(Rows([1, 2, 2, 3, 5, 5, 5, 8]), np.ones(8, dtype=bool))
    large = np.array([3 * 10**9, -(3 * 10**9), 10**9])

    assert doubled.tolist() == [-7, -4, -4, -1, 3, 3, 3, 7]
    assert doubled[[0, 1, 4, 7]].sum() / 2 == -0.5
    assert dot_product(doubled, doubled) * 3 / (8 * 63) == pytest.approx(0.9404761904761905, abs=1e-12)
    assert dot_product(large, large) == 19 * 10**18  # more than 64 bits
    assert signed_ranks(np.array([-3, -1, 0, 0, 1, 2, 2, 4.0])) == 12


def test_reference_scores_of_censored_times():
    """Gehan's scores of six rows in one group, and three times the products of numbers at risk."""
    rows = Rows([2, 3, 3, 5, 7, 9], [1, 0, 1, 1, 0, 1])

    summed = GehanScores(TIME, EVENT).group_sums(rows, np.array([0, 1, 0, 1, 0, 1]), 2)

    assert summed == ([-5, 5], 3 * (3 * 3 + 2 * 3 + 1 * 2 + 0))


def test_the_noise_is_taken_out_of_h():
    """On average over 2,000 noises of two groups alike in size: T² has 2b² less."""
    t, b, sizes = 9000.0, 3000.0, np.full(2, 200.0)

    def h(released, scale):
        scales = [scale, 0.0, 0.0]
        return SeveralGroups([released, *sizes, 1.0], scales, int(sum(sizes)), tuple(sizes), True, True).kruskal_h

    found = np.mean([h(t + each, b) for each in np.random.default_rng(5).laplace(0, b, 2000)])

    assert found == pytest.approx(h(t, 0.0), rel=0.15)


def rank_sums(rng, n, shift, at, runs):
    """Rank sums of the rows before one, which are shifted."""
    x = rng.normal(size=(runs, n))
    x[:, :at] += shift
    return (scipy.stats.rankdata(x, axis=1) - (n + 1) / 2)[:, :at].sum(axis=1)


@pytest.mark.statistical
def test_level_and_power_of_two_private_groups():
    """4,000 tables of 200 alike, and 4,000 of 40 one standard deviation apart."""
    rng = np.random.default_rng(3)

    def rejected(n, shift):
        half, on = n // 2, n >= 100
        b, c = (1.1, 0.2) if on else (1.0, 0.0)
        scales = np.array([b, b / 0.2, b / 0.1, 3 * b / (0.1 * (n + 1))])
        d = taper(n, half, c) * rank_sums(rng, n, shift, half, 4000)
        exact = np.stack(np.broadcast_arrays(d, half, n, 1.0), axis=-1)
        values = exact + rng.laplace(size=exact.shape) * scales
        two = TwoGroups(values, scales, n, sized=on, spread="ties" if on else None)
        return (two.effect(draws=128).pvalue(0.5) <= 0.05).mean()

    assert 0.034 <= rejected(200, 0.0) <= 0.068
    assert 0.53 <= rejected(40, 1.0) <= 0.62


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["private", "public", "add_remove"])
def test_intervals_of_the_effect_cover(kind):
    """Of 1,000 tables of 300 rows, 30% in the first group; 1/2 is within if and only if it is not rejected.

    Those of laws of one shape are narrower.
    """
    rng, n, size = np.random.default_rng(4), 300, 90
    d = rank_sums(rng, n, 0.5, size, 1000)
    if kind == "private":
        scales, exact = [1.1, 5.5, 11.0, 33 / (n + 1)], [taper(n, n - size, 0.2) * d, size, n, 1.0]
        told = {"n": n, "sized": True, "complete": True, "spread": "ties"}
    elif kind == "public":
        scales, exact = [n - size, 2.0, 2.0, 0.0], [d, size, n - size, 1.0]
        told = {"n": n, "rows": (size, n - size), "complete": True}
    else:
        scales, exact = [0.55, 11.0, 11.0, 0.0], [d / n, size, n - size, 0.0]
        told = {"n": None}
    values = np.stack(np.broadcast_arrays(*exact), axis=-1) + rng.laplace(size=(len(d), 4)) * scales
    truth, widths = scipy.stats.norm.cdf(0.5 / 2**0.5), []
    for shapes in ("similar", "any"):
        found = TwoGroups(values, scales, **told).effect(shapes, draws=128)
        low, high = found.interval(0.95)
        widths.append(np.median(high - low))

        assert ((low <= truth) & (truth <= high)).sum() >= scipy.stats.binom.ppf(1e-6, len(d), 0.95)
        assert np.array_equal(found.pvalue(0.5) < 0.05, (low > 0.5) | (high < 0.5))
    assert widths[0] < widths[1] < 0.6


# Survival


def life_table(times, events, edges):
    """The exact table of some rows."""
    table = LifeTable(TIME, EVENT, np.asarray(edges, dtype=float))
    return table.rows(Rows(times, events)).sum(axis=0).reshape(3, -1)


def test_reference_life_table():
    """Intervals hold their upper ends, the first both; a censored time is shared, and no row is more than 1."""
    times, events = [0.0, 2.0, 2.5, 4.0, 3.0, 4.0, 9.0, 1.0], [1, 1, 1, 1, 0, 0, 0, 2]

    assert life_table(times, events, [0, 2, 4, 5]).tolist() == [[2, 2, 0], [0, 1.5, 1], [0, 0.5, 0]]


def test_reference_curve():
    """Times on edges: 1 - d/n multiplied, and Greenwood's sum; within, rows are exposed as long as they lived."""
    d, c, n = np.array([10, 8, 6, 4]), np.array([2, 3, 5, 12]), np.array([50, 38, 27, 16])
    hazard, added, at_risk = cumulative_hazard(np.stack([d, c, 0 * c]).astype(float))
    rng = np.random.default_rng(2)
    times, ends = rng.exponential(40, 10**6), rng.uniform(0, 60, 10**6)
    even = life_table(np.minimum(times, ends), (times <= ends).astype(int), [0, 20, 40, 60])

    assert np.exp(-hazard) == pytest.approx(np.cumprod(1 - d / n), abs=1e-12)
    assert added == pytest.approx(d / (n * (n - d)), abs=1e-12)
    assert at_risk.tolist() == n.tolist()
    assert cumulative_hazard(even)[0] == pytest.approx([0.5, 1.0, 1.5], abs=0.04)  # the hazard of all


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("hazards", "until", "power"),
    [((1 / 1000, 1.8 / 1000), (60, 60), 0.85), ((1 / 30, 1.25 / 30), (30, None), 0.75)],
    ids=["few events", "unequal censoring"],
)
def test_level_and_power_of_censored_times(hazards, until, power):
    """Of 200 tables of 2 · 1,000 rows, ε = 1: where the variance of uncensored times finds a third of them."""
    rng, runs, n = np.random.default_rng(8), 200, 1000
    scales = [1.1 * n, 0.0, 0.0, 1.1 * 1.5 / (0.1 * (2 * n + 1))]
    group, scores = np.repeat([0, 1], n), GehanScores(TIME, EVENT)

    def rejected(hazards):
        exact = []
        for _ in range(runs):
            times = rng.exponential(1 / np.array(hazards)[group])
            last = np.concatenate([rng.uniform(0, 30, n) if end == 30 else np.full(n, 60.0) for end in until])
            rows = Rows(np.minimum(times, last), (times <= last).astype(int))
            (one, _), spread = scores.group_sums(rows, group, 2)
            exact.append([one / 2, n, n, spread / (2 * n * (4 * n**2 - 1))])
        values = np.array(exact) + rng.laplace(size=(runs, 4)) * scales
        two = TwoGroups(values, scales, 2 * n, rows=(n, n), complete=True, spread="variance")
        return (two.effect().pvalue(0.5) <= 0.05).sum()

    assert rejected(hazards[:1] * 2) <= scipy.stats.binom.isf(1e-6, runs, 0.065)
    assert rejected(hazards) >= scipy.stats.binom.ppf(1e-6, runs, power + 0.07)


@pytest.mark.statistical
@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("n", "epsilon", "shape", "ends"),
    [(20_000, 1.0, 1.0, (24.0, 60.0)), (20_000, 1.0, 2.5, (60.0,)), (2000, 0.5, 1.0, (60.0,))],
)
def test_bands_medians_and_means_cover(n, epsilon, shape, ends):
    """Of 150 tables with ten intervals, censored at the end of the study, or half of them before."""
    rng, runs, edges = np.random.default_rng(7), 150, np.linspace(0, 60, 11)
    truth, median = np.exp(-((edges[1:] / 40) ** shape)), 40 * np.log(2) ** (1 / shape)
    mean = (np.exp(-((np.linspace(0, 60, 6001) / 40) ** shape)) * 0.01).sum()
    covered = np.zeros(12)
    for _ in range(runs):
        times, last = rng.weibull(shape, n) * 40, rng.choice(ends, n)
        exact = life_table(np.minimum(times, last), (times <= last).astype(int), edges)
        curve = Curve(exact + rng.laplace(0, 2 / epsilon, exact.shape), NoiseLaw(2 / epsilon), edges)
        low, high = curve.bands(0.95)
        (_, after, before), (_, least, most) = curve.median(low, high), curve.restricted_mean(0.95)
        covered += [*((low <= truth) & (truth <= high)), after <= median <= before, least <= mean <= most]

    assert (covered >= scipy.stats.binom.ppf(1e-7, runs, 0.945)).all()


@pytest.mark.statistical
@pytest.mark.parametrize(("ratio", "first", "strata"), [(1.0, 0.5, [0, 1, 2]), (0.5, 0.25, [1]), (2.0, 0.5, [1])])
def test_intervals_of_hazard_ratios_cover(ratio, first, strata):
    """95 % of intervals hold the ratio of the population, noise of ε = 4 included, and groups differ in strata."""
    rng, runs, n, edges = np.random.default_rng(7), 150, 800, np.linspace(0, 40, 5)
    exact = []
    for _ in range(runs):
        one = rng.random(n) < first
        h = np.where(rng.random(n) < 0.5, 2 * one, rng.integers(3, size=n))
        times = rng.weibull(1.4, n) * 20 / (np.where(one, ratio, 1.0) * np.array([0.3, 1, 3])[h]) ** (1 / 1.4)
        last = np.minimum(rng.uniform(10, 90, n), 40)
        cells = [[(h == each) & one, (h == each) & ~one] for each in strata]
        seen = np.minimum(times, last), (times <= last).astype(int)
        exact.append([[life_table(*(each[cell] for each in seen), edges) for cell in pair] for pair in cells])
    tables = TwoLifeTables(np.array(exact) + rng.laplace(0, 0.5, np.shape(exact)), 0.5)

    found = infer(tables, log_hazard_ratio, 128)

    held = (found.pvalue(np.log(ratio)) >= 0.05).sum()
    assert scipy.stats.binom.ppf(1e-7, runs, 0.95) <= held <= scipy.stats.binom.isf(1e-7, runs, 0.95)
    assert (found.noise_standard_error / found.standard_error).mean() > 0.2
