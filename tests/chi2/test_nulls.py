"""Tests keep their level whatever the share of X = 1 is: levels are computed, not simulated."""

import math

import numpy as np
import pytest
from scipy import special, stats
from scipy.special import chdtrc

from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.given_margin import Noisy, grid
from dfprivacy_chi2.laws import by_binomials
from dfprivacy_chi2.margin import NoisyMargin
from dfprivacy_chi2.shares import Shares, tails
from dfprivacy_chi2.table import NoisyTable, merged
from dfprivacy_chi2.tables import signed_distances, tight_sensitivity

DESIGNS = [(20, 20, 1.0), (100, 100, 0.1), (100, 100, 1.0), (30, 170, 0.5), (400, 400, 0.05)]
SHARES = np.concatenate([np.geomspace(1e-4, 0.05, 25), np.linspace(0.06, 0.5, 23)])
"""A grid that is finer than that of the tests, and has other points."""


def worst_level(law, critical, scale, shares=SHARES):
    """The largest probability of a false rejection."""
    return max(law(p).sf(critical, scale) for p in shares)


@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize(("n1", "n0", "epsilon"), DESIGNS)
def test_level_of_the_difference(n1, n0, epsilon, alpha):
    """Judged at the share that is proved to be the worst, the difference is too large too often at no share."""
    scale = 1 / (min(n1, n0) * epsilon)
    critical = nulls.difference(n1, n0, None).critical_value(alpha, scale)

    level = worst_level(lambda p: nulls.difference_law(n1, n0, p, p), critical, scale)

    assert 0.9 * alpha <= level <= alpha


@pytest.mark.parametrize(("low", "high"), [(0.05, 0.05), (0.05, 0.1), (0.2, 0.7), (0.8, 0.9)])
def test_level_of_the_difference_in_a_range(low, high):
    """Known to be in a range, the largest of its shares is the level, to the percent of the proof."""
    critical = nulls.difference(100, 150, (low, high)).critical_value(0.05, 0.02)

    level = worst_level(lambda p: nulls.difference_law(100, 150, p, p), critical, 0.02, np.linspace(low, high, 21))

    assert 0.0495 * (1 - 1e-6) <= level <= 0.05


COUNTEREXAMPLES = [(250, 5, 10, 0.001), (500, 10, 10, 5e-5), (50, 3, 10, 0.001)]


@pytest.mark.parametrize(("n1", "n0", "epsilon", "alpha"), COUNTEREXAMPLES)
def test_the_share_one_half_is_not_always_the_worst(n1, n0, epsilon, alpha):
    """In unequal groups the critical value at p = 1/2 is exceeded too often elsewhere; that of all is not."""
    scale = 1 / (min(n1, n0) * epsilon)
    shares = np.concatenate([SHARES, np.linspace(0.1, 0.5, 201)])
    at_half = nulls.difference(n1, n0, 0.5).critical_value(alpha, scale)
    of_all = nulls.difference(n1, n0, None).critical_value(alpha, scale)

    levels = [
        worst_level(lambda p: nulls.difference_law(n1, n0, p, p), at, scale, shares) for at in (at_half, of_all)
    ]

    assert levels[0] > 1.5 * alpha
    assert 0.9 * alpha <= levels[1] <= alpha


def test_the_worst_share_is_bounded_by_a_percent():
    """The bound over all shares is at most a percent above its own value, and above a search that is finer."""
    rng = np.random.default_rng(6)
    for _ in range(30):
        n1, n0 = (int(n) for n in np.exp(rng.uniform(0, 6, 2)))
        scale, t = float(np.exp(rng.uniform(-7, 0))), float(rng.uniform(0, 1))
        null = Shares(n1, n0)

        bound, share = null.most(t, scale)

        fine = np.sin(np.linspace(1e-3, math.pi / 4, 400)) ** 2
        values = tails(n1, n0, fine, fine, t, scale)
        assert values.max() <= bound * (1 + 1e-12)
        assert bound <= 1.0101 * tails(n1, n0, np.array([share]), np.array([share]), t, scale)[0] + 1e-299


@pytest.mark.parametrize("scales", [(0.05,), (0.02, 0.3), (1e-7,)])
@pytest.mark.parametrize(("n1", "n0", "p1", "p0"), [(3, 17, 0.2, 0.7), (40, 40, 0.5, 0.5), (1, 1, 0.01, 0.9)])
def test_tails_of_the_difference_are_sums_over_all_tables(n1, n0, p1, p0, scales):
    """One pass over the counts of each group gives the sum over all tables, at either side of 0."""
    law = by_binomials(lambda c11, c10: np.abs(c11 / n1 - c10 / n0), n1, n0, p1, p0)

    for t in (-0.3, 1e-9, 0.05, 0.31, 0.999, 1.7):
        found = tails(n1, n0, np.array([p1]), np.array([p0]), t, *scales)[0]

        assert found == pytest.approx(law.sf(t, *scales), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("left", [0.02, 0.5, 1.0])
@pytest.mark.parametrize(("n1", "n0"), [(200, 200), (200, 40), (60, 50)])
def test_level_where_rows_are_left_out(n1, n0, left):
    """However many of the larger group are left, a critical value for rows that may be left out is large enough."""
    epsilon, smaller = 2.0, min(n1, n0)
    at = nulls.difference(n1, n0, None, complete=False).critical_value(0.01, 1 / (smaller * epsilon))
    m, k = max(1, round(n1 * left)), n0

    # What is released is the difference of m and k rows times the smaller number, over the smaller size.
    level = max(
        nulls.difference_law(m, k, p, p).sf(at * smaller / min(m, k), 1 / (min(m, k) * epsilon)) for p in SHARES
    )

    assert level <= 0.0105


@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize(("n1", "n0", "epsilon"), DESIGNS)
def test_level_of_the_norm(n1, n0, epsilon, alpha):
    """The norm is too large too often at no share; at 5% a constant X, whose norm is 1, is the worst."""
    scale = tight_sensitivity(n1, n0, TAU) / epsilon
    critical = nulls.norm(n1, n0, TAU, None).critical_value(alpha, scale)

    level = worst_level(lambda p: nulls.norm_law(n1, n0, TAU, p, p), critical, scale)

    assert level <= alpha * (1 + 1e-12)
    constant = 1 + scale * math.log(1 / (2 * alpha))
    assert critical >= constant * (1 - 1e-12)
    assert alpha < 0.05 or critical == pytest.approx(constant, rel=1e-9)


def test_level_of_the_norm_of_many_rows():
    """Beyond 2,000 rows a mixture of laws given M1 has the level of the exact law."""
    n1, n0, p = 1200, 1300, 0.13
    scale = tight_sensitivity(n1, n0, TAU) / 0.3
    critical = nulls.norm(n1, n0, TAU, p).critical_value(0.05, scale)

    level = nulls.norm_law(n1, n0, TAU, p, p).sf(critical, scale)

    assert level == pytest.approx(0.05, abs=5e-4)


@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize(("n1", "n0", "epsilon"), DESIGNS)
def test_level_of_the_distance(n1, n0, epsilon, alpha):
    """The signed distance is too large too often at no share; its worst is a small one."""
    table = signed_distances(n1, n0, TAU)
    critical = nulls.distance(n1, n0, TAU, None).critical_value(alpha, 1 / epsilon)

    level = worst_level(lambda p: nulls.distance_law(table, p, p), critical, 1 / epsilon)

    assert level <= alpha * 1.02


@pytest.mark.parametrize("null", [nulls.difference, lambda *n: nulls.norm(*n[:2], TAU, n[2])], ids=["δ", "norm"])
def test_a_p_value_and_a_critical_value_agree(null):
    """The p-value of the critical value is the level, for a share, a range, and nothing known."""
    for rate in (0.2, (0.1, 0.3), None):
        test = null(60, 40, rate)

        assert 0.0099 <= test.pvalue(test.critical_value(0.01, 0.05), 0.05) <= 0.01 * (1 + 1e-6)


def test_the_more_is_known_the_smaller_the_critical_value():
    """A share is better than a range, and that than nothing."""
    for null in (nulls.difference, lambda *n: nulls.norm(*n[:2], TAU, n[2])):
        known, between, nothing = (null(60, 40, rate).critical_value(0.05, 0.1) for rate in (0.2, (0.1, 0.3), None))

        assert known < between < nothing


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_shares_and_their_complements(rate):
    """X and not X are tested alike."""
    for null in (nulls.difference, lambda *n: nulls.norm(*n[:2], TAU, n[2])):
        found, other = (null(60, 40, p).critical_value(0.05, 0.1) for p in (rate, 1 - rate))

        assert found == pytest.approx(other, rel=1e-9)


@pytest.mark.parametrize(("low", "high"), [(0.01, 0.02), (0.3, 0.9), (0.1, 0.95), (0.97, 0.99), (0.4, 0.4)])
def test_a_range_is_searched_from_end_to_end(low, high):
    """The grid of shares holds the range's own ends, and 1/2 where that is inside, complements taken for alike."""
    shares = nulls._shares((low, high), 1000)

    inside = [p for p in shares if low <= p <= high or low <= 1 - p <= high]
    assert shares == pytest.approx(inside)
    assert max(shares) == pytest.approx(min(max(low, 0.5), high) if low < 0.5 else 1 - low)
    assert min(shares) == pytest.approx(min(low, 1 - high))


# A noisy total says which shares are likely.


def level_with_a_noisy_total(n1, n0, epsilon, p, alpha):
    """The probability of a false rejection, over all likely tables and 100 quantiles of the total's noise."""
    scale, total_scale = 1 / (0.9 * epsilon * min(n1, n0)), 10 / epsilon
    test = NoisyMargin(n1, n0, 0.0, total_scale)
    noise = stats.laplace.ppf((np.arange(100) + 0.5) / 100, scale=total_scale)
    first, second = stats.binom.pmf(np.arange(n1 + 1), n1, p), stats.binom.pmf(np.arange(n0 + 1), n0, p)
    at = test.required(np.arange(n1 + n0 + 1)[:, None] + noise, alpha, scale)
    rejected = 1e-6 * alpha  # tables of this probability altogether, which are left out: taken to be rejected
    for m1 in range(n1 + n0 + 1):
        c11 = np.arange(max(0, m1 - n0), min(n1, m1) + 1)
        weights = first[c11] * second[m1 - c11]
        kept = weights > 1e-6 * alpha / ((n1 + 1) * (n0 + 1))
        if not kept.any():
            continue
        c11, weights = c11[kept], weights[kept]
        delta = c11 / n1 - (m1 - c11) / n0
        for side in (delta, -delta):
            away = (side - at[m1][:, None]) / scale
            tail = np.exp(-np.abs(away)) / 2
            rejected += (np.where(away < 0, tail, 1 - tail) @ weights).mean()
    return rejected


@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.001])
@pytest.mark.parametrize("p", [0.002, 0.005, 0.02, 0.1, 0.3, 0.5])
@pytest.mark.parametrize(
    ("n1", "n0", "epsilon"), [(100, 100, 1.0), (250, 250, 0.2), (100, 300, 2.0), (600, 12, 10.0), (600, 12, 50.0)]
)
def test_level_with_a_noisy_total(n1, n0, epsilon, p, alpha):
    """Where a noisy total says which shares are likely, false rejections are no more than the level."""
    assert level_with_a_noisy_total(n1, n0, epsilon, p, alpha) <= 1.02 * alpha


def test_a_noisy_total_spoils_little_where_the_share_is_common():
    """At the worst share the level is nearly used up."""
    worst = max(level_with_a_noisy_total(250, 250, 1.0, p, 0.05) for p in (0.1, 0.3, 0.5))

    assert worst >= 0.04


@pytest.mark.parametrize("scale", [1e-9, 1e-4, 0.02, 3.0])
@pytest.mark.parametrize(("n1", "n0"), [(1, 1), (1, 5), (30, 40), (7, 300), (6000, 9000)])
def test_tails_and_quantiles_given_the_margin(n1, n0, scale):
    """They are the sums over all tables with the margin, and the inverse of these, at any scale of the noise."""
    laws, margins, asked = Noisy.of(n1, n0, scale), grid(n1 + n0), np.array([1e-9, 0.05, 0.7])

    at = np.stack([laws.quantiles(u) for u in asked], axis=1)

    assert np.stack([laws.tails(t, np.arange(len(margins))) for t in at.T], axis=1) == pytest.approx(
        np.tile(asked, (len(margins), 1)), rel=1e-5
    )
    for place in np.flatnonzero(laws.few)[::6]:
        m = margins[place]
        c11 = np.arange(max(0, m - n0), min(n1, m) + 1)
        apart, weights = c11 / n1 - (m - c11) / n0, stats.hypergeom.pmf(c11, n1 + n0, n1, m)
        away = (at[place][:, None] + np.concatenate([apart, -apart])) / scale
        tail = np.exp(-np.abs(away)) / 2
        assert np.where(away > 0, tail, 1 - tail) @ np.tile(weights, 2) == pytest.approx(asked, rel=1e-5)


@pytest.mark.parametrize("total", [-1e6, -3.0, 0.0, 40.0, 100.0, 203.0, 1e6])
@pytest.mark.parametrize("statistic", [-1e6, -0.1, 0.0, 0.15, 1.0, 1e6])
def test_any_noisy_total_gives_a_p_value(total, statistic):
    """Whatever the noise did, the p-value is a probability, and agrees with the critical value."""
    test = NoisyMargin(100, 100, total, 10.0)

    p = test.pvalue(statistic, 0.02)

    assert 0 <= p <= 1
    assert p == test.pvalue(-statistic, 0.02)
    assert (p <= 0.05) == (abs(statistic) >= test.critical_value(0.05, 0.02))


def test_a_rare_share_makes_the_test_sharper():
    """A total near 0, or near all, gives smaller p-values than one in the middle."""
    rare, common, full = (NoisyMargin(500, 500, total, 10.0).pvalue(0.05, 0.005) for total in (20, 500, 980))

    assert rare == pytest.approx(full, rel=1e-6)
    assert rare < common / 5


# More groups, more categories, private groups: exact laws on small tables, simulation on others.


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("scale", [0.05, 0.5])
def test_level_of_the_spread_over_groups(p, scale):
    """With 20 rows or more in a group the chi law of the spread has its level, at the exact counts."""
    sizes = np.array([20, 30, 25])
    c = np.array(np.meshgrid(*(np.arange(size + 1) for size in sizes), indexing="ij")).reshape(3, -1).T
    weights = np.prod([stats.binom.pmf(c[:, j], sizes[j], p) for j in range(3)], axis=0)
    spread = np.sqrt((sizes * (c / sizes - c.sum(axis=1, keepdims=True) / sizes.sum()) ** 2).sum(axis=1))
    kept = weights > 1e-12
    at = nulls.spread(2, 3, None).critical_value(0.05, scale)

    level = weights[kept] @ np.where(
        spread[kept] < at,
        np.exp(-np.abs(at - spread[kept]) / scale) / 2,
        1 - np.exp(-np.abs(spread[kept] - at) / scale) / 2,
    )

    assert level <= 0.0515


def test_two_groups_are_the_smallest_case_of_many():
    """For two groups the spread is the difference times √(N1 N0/N), and so are its critical values."""
    n1, n0 = 3000, 5000
    length = math.sqrt(n1 * n0 / (n1 + n0))

    spread = nulls.spread(2, 2, 0.3).critical_value(0.05, 0.4)

    assert spread == pytest.approx(
        length * nulls.difference(n1, n0, 0.3).critical_value(0.05, 0.4 / length), rel=1e-4
    )


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("shares", "weighted"),
    [
        ((0.5, 0.3, 0.2), True),
        ((0.8, 0.15, 0.05), True),
        ((1 / 3, 1 / 3, 1 / 3), False),
        ((0.5, 0.5, 0.0), False),
        ((0.7, 0.2, 0.1), False),
    ],
)
def test_level_of_the_spread_of_categories(shares, weighted):
    """Of simulated tables of three categories in three groups, no more are rejected than the level lets."""
    rng = np.random.default_rng(20_261_121)
    sizes, runs, scale = np.array([200, 300, 500]), 20_000, 0.3
    w = np.array(shares) if weighted else np.ones(3)
    tables = np.stack([rng.multinomial(size, shares, runs) for size in sizes], axis=1)
    apart = tables / sizes[:, None] - tables.sum(axis=1, keepdims=True) / sizes.sum()
    noisy = np.sqrt((sizes[:, None] * apart**2 / w).sum(axis=(1, 2))) + rng.laplace(0, scale, runs)
    at = nulls.spread(3, 3, shares if weighted else None).critical_value(0.05, scale)

    rejected = (noisy > at).sum()

    assert rejected <= stats.binom.isf(1e-7, runs, 0.051)


@pytest.mark.statistical
@pytest.mark.parametrize(("p", "pi"), [(0.5, 0.5), (0.3, 0.5), (0.1, 0.2)])
def test_level_of_the_association(p, pi):
    """Of simulated tables with private groups no more are rejected than the level lets."""
    rng = np.random.default_rng(20_261_122)
    n, runs, scale = 1000, 40_000, 10.0
    cells = rng.multinomial(n, [p * pi, p * (1 - pi), (1 - p) * pi, (1 - p) * (1 - pi)], runs)
    value = np.abs(cells[:, 0] * cells[:, 3] - cells[:, 1] * cells[:, 2]) / (n - 1)
    at = nulls.association(n).critical_value(0.05, scale)

    rejected = (value + rng.laplace(0, scale, runs) > at).sum()

    assert at == pytest.approx(30.8, abs=0.2)
    assert rejected <= stats.binom.isf(1e-7, runs, 0.05)
    assert rejected >= stats.binom.ppf(1e-7, runs, 0.03)


# Noisy counts of all cells.


@pytest.mark.statistical
@pytest.mark.parametrize("deviation", [0.5, 10.0])
@pytest.mark.parametrize(("shares", "sizes"), [((0.3, 0.7), (500, 500)), ((0.5, 0.3, 0.2), (300, 900, 300))])
def test_level_of_noisy_counts(shares, sizes, deviation):
    """Of simulated tables without association, no more are rejected than the levels let, and few less."""
    rng, runs = np.random.default_rng(20_261_124), 1500
    scales, pvalues = np.full((len(shares), len(sizes)), deviation), []
    for _ in range(runs):
        counts = np.stack([rng.multinomial(size, shares) for size in sizes], axis=1)
        table, *_ = merged(counts + rng.laplace(0, deviation / math.sqrt(2), scales.shape), scales, groups=True)
        least = chdtrc(table.df, table.statistic)  # no p-value is below the one without noise
        pvalues.append(table.pvalue(table.statistic) if least <= 0.2 else least)

    for alpha in (0.2, 0.05, 0.01):
        assert stats.binom.ppf(1e-7, runs, 0.8 * alpha) <= sum(p <= alpha for p in pvalues)
        assert sum(p <= alpha for p in pvalues) <= stats.binom.isf(1e-7, runs, alpha)


def test_noisy_counts_without_noise_are_pearsons_test():
    """Without noise the statistic, its law, and Cramér's V are the textbook's."""
    counts = np.array([[30.0, 45, 60], [70, 55, 40]])
    textbook = stats.chi2_contingency(counts, correction=False)

    table, rows, columns = merged(counts, np.full((2, 3), 1e-9), groups=True)

    assert table.statistic == pytest.approx(textbook.statistic, rel=1e-12)
    assert table.pvalue(table.statistic) == pytest.approx(textbook.pvalue, rel=1e-6)
    assert table.pvalue(table.critical_value(0.01)) == pytest.approx(0.01, rel=1e-4)
    assert table.interval(0.95)[0] < stats.contingency.association(counts.astype(int)) < table.interval(0.95)[1]
    assert (rows, columns) == ([[0], [1]], [[0], [1], [2]])


@pytest.mark.statistical
def test_intervals_for_cramers_v_cover_it():
    """Of 95% intervals from noisy counts, about as many hold the true effect."""
    rng, runs = np.random.default_rng(7), 400
    cells = np.array([[0.20, 0.10], [0.15, 0.15], [0.15, 0.25]])
    margins = np.outer(cells.sum(axis=1), cells.sum(axis=0))
    true, covered = math.sqrt(((cells - margins) ** 2 / margins).sum()), 0
    for _ in range(runs):
        counts = rng.multinomial(2000, cells.ravel()).reshape(3, 2) + rng.laplace(0, 10, (3, 2))
        low, high = merged(counts, np.full((3, 2), 10 * math.sqrt(2)), groups=True)[0].interval(0.95)
        covered += low <= true <= high

    assert covered >= stats.binom.ppf(1e-7, runs, 0.94)


def test_few_rows_are_taken_together():
    """Categories whose cells expect too few rows for the noise go together; if less than two are left, none."""
    counts = np.array([[300.0, 310], [12, 9], [250, 260], [4, 2]])

    table, rows, columns = merged(counts, np.full((4, 2), 3.0), groups=False)
    nothing, *_ = merged(counts, np.full((4, 2), 200.0), groups=True)

    assert rows == [[0], [1, 3, 2]]  # the two small ones expect 13 rows in a cell, and 18 are needed
    assert columns == [[0], [1]]
    assert isinstance(table, NoisyTable)
    assert table.rows == counts.sum()
    assert nothing is None


@pytest.mark.parametrize("rows", [100.0, 1e4, 1e6])
@pytest.mark.parametrize("part", [0.001, 0.05, 0.3])
def test_a_grid_of_noises_has_the_tail_of_all_draws(rows, part):
    """The p-value is the mean of the tails of all draws of the noise, to six digits and to a billionth."""
    table = NoisyTable(((rows, 2 * rows, rows),) * 2, ((part * rows,) * 3,) * 2)
    lengths, shares = table._noise

    for statistic in (0.01, 1.0, *np.quantile(lengths, [0.5, 0.99]) + 3, 25.0 + lengths.max() / 2):
        every = shares @ special.chndtr(statistic, table.df, lengths)
        assert table.pvalue(statistic) == pytest.approx(max(1 - every, 1e-9), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("rows", "deviation"), [(50.0, 2.0), (40.0, 10.0), (300.0, 100.0), (3100.0, 1000.0)])
@pytest.mark.parametrize("beyond", [4.0, 10.0, 20.0, 30.0])
def test_the_far_tail_of_a_table_of_noisy_counts(rows, deviation, beyond):
    """Two by two equal cells: a normal and four Laplace variables, whose law is known, as far as 1e-5 and less."""
    table = NoisyTable(((rows, rows), (rows, rows)), ((deviation, deviation), (deviation, deviation)))
    statistic = beyond * (1 + deviation**2 / rows)
    scale = deviation / math.sqrt(2) / (2 * math.sqrt(rows))
    # By the inverse Fourier transform of the characteristic function; the tail of the density beyond is negligible.
    points, reach = 2**18, 60 * max(1.0, scale)
    step = 2 * reach / points
    frequency = 2 * np.pi * np.fft.fftfreq(points, step)
    transform = np.exp(-(frequency**2) / 2) / (1 + (scale * frequency) ** 2) ** 4
    density = np.fft.fftshift(np.real(np.fft.ifft(transform))) / step
    at = (np.arange(points) - points // 2) * step
    exact = float(density[np.abs(at) > math.sqrt(statistic)].sum() * step)

    assert 1e-9 < exact < 0.06
    assert table.pvalue(statistic) == pytest.approx(exact, rel=0.05 if exact > 1e-3 else 0.3)


def test_no_p_value_of_noisy_counts_is_below_the_one_without_noise():
    """However far out a statistic lies, noise makes it less surprising, and no p-value is 0."""
    table = NoisyTable(((500.0, 10.0), (10.0, 500.0)), ((1.0, 1.0), (1.0, 1.0)))

    assert table.pvalue(table.statistic) >= chdtrc(1, table.statistic) > 0
