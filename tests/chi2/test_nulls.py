"""Tests keep their level whatever the share of X = 1 is: levels are computed, not simulated."""

import math

import numpy as np
import pytest
from scipy import stats

from dfprivacy_chi2 import nulls
from dfprivacy_chi2.asked import TAU
from dfprivacy_chi2.laws import by_binomials
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
    """Judged as if p = 1/2, the difference is too large too often at no share."""
    scale = 1 / (min(n1, n0) * epsilon)
    critical = nulls.difference(n1, n0, None).critical_value(alpha, scale)

    level = worst_level(lambda p: nulls.difference_law(n1, n0, p, p), critical, scale)

    assert level <= alpha * (1 + 1e-9)
    assert level >= 0.9 * alpha


@pytest.mark.parametrize(("low", "high"), [(0.05, 0.05), (0.05, 0.1), (0.2, 0.7), (0.8, 0.9)])
def test_level_of_the_difference_in_a_range(low, high):
    """Known to be in a range, the share nearest 1/2 is the worst."""
    critical = nulls.difference(100, 150, (low, high)).critical_value(0.05, 0.02)

    level = worst_level(lambda p: nulls.difference_law(100, 150, p, p), critical, 0.02, np.linspace(low, high, 21))

    assert level == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize("p", [0.02, 0.1, 0.5])
@pytest.mark.parametrize(("n1", "n0", "epsilon"), [(1001, 1000, 0.1), (1500, 1500, 1), (1000, 4000, 0.05)])
def test_level_of_the_difference_by_a_normal_law(n1, n0, epsilon, p):
    """Beyond 2,000 rows the law is normal, and its critical values have their level to a few percent."""
    scale = 1 / (min(n1, n0) * epsilon)
    exact = by_binomials(lambda c11, c10: np.abs(c11 / n1 - c10 / n0), n1, n0, p, p)

    found = [
        exact.sf(nulls.difference_law(n1, n0, p, p).critical_value(alpha, scale), scale) for alpha in (0.05, 5e-4)
    ]

    assert 0.0498 <= found[0] <= 0.0512
    assert 4.7e-4 <= found[1] <= 5.9e-4


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

        assert test.pvalue(test.critical_value(0.01, 0.05), 0.05) == pytest.approx(0.01, rel=1e-6)


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
    """The probability of a false rejection, by summing over all tables and 100 quantiles of the total's noise."""
    scale, total_scale = 1 / (0.9 * epsilon * min(n1, n0)), 10 / epsilon
    test = nulls.NoisyShare(n1, n0, 0.0, total_scale)
    plain = test.plain_level(alpha, scale)
    noise = stats.laplace.ppf((np.arange(100) + 0.5) / 100, scale=total_scale)
    first, second = stats.binom.pmf(np.arange(n1 + 1), n1, p), stats.binom.pmf(np.arange(n0 + 1), n0, p)
    at = test.critical_values(plain, scale, test.share(np.arange(n1 + n0 + 1)[:, None] + noise))
    rejected = 0.0
    for m1 in range(n1 + n0 + 1):
        c11 = np.arange(max(0, m1 - n0), min(n1, m1) + 1)
        weights = first[c11] * second[m1 - c11]
        delta = np.abs(c11 / n1 - (m1 - c11) / n0)
        away = (delta - at[m1][:, None]) / scale
        tail = np.exp(-np.abs(away)) / 2
        rejected += (np.where(away < 0, tail, 1 - tail) @ weights).mean()
    return rejected


@pytest.mark.parametrize("p", [0.002, 0.02, 0.1, 0.3, 0.5])
@pytest.mark.parametrize(("n1", "n0", "epsilon"), [(100, 100, 1.0), (250, 250, 0.2), (100, 300, 2.0)])
def test_level_with_a_noisy_total(n1, n0, epsilon, p):
    """Where a noisy total says which shares are likely, false rejections are hardly more than the level."""
    assert level_with_a_noisy_total(n1, n0, epsilon, p, 0.05) <= 0.0515


def test_a_noisy_total_spoils_little_where_the_share_is_common():
    """At the worst share the level is nearly used up."""
    worst = max(level_with_a_noisy_total(250, 250, 1.0, p, 0.05) for p in (0.1, 0.3, 0.5))

    assert worst >= 0.04


@pytest.mark.parametrize("total", [-1e6, -3.0, 0.0, 40.0, 100.0, 203.0, 1e6])
@pytest.mark.parametrize("statistic", [-1e6, -0.1, 0.0, 0.15, 1.0, 1e6])
def test_any_noisy_total_gives_a_p_value(total, statistic):
    """Whatever the noise did, the p-value is a probability, and agrees with the critical value."""
    test = nulls.NoisyShare(100, 100, total, 10.0)

    p = test.pvalue(statistic, 0.02)

    assert 0 <= p <= 1
    assert (p <= 0.05) == (statistic >= test.critical_value(0.05, 0.02))


def test_a_rare_share_makes_the_test_sharper():
    """A total near 0, or near all, gives smaller p-values than one in the middle."""
    rare, common, full = (nulls.NoisyShare(500, 500, total, 10.0).pvalue(0.05, 0.005) for total in (20, 500, 980))

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
