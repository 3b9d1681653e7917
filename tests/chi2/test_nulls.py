"""Tests keep their level: of the norm it is computed, of differences and counts simulated."""

import math

import numpy as np
import pytest
from scipy import stats

from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.inference import NoisyTable, SignedDifference
from dfprivacy_chi2.tables import tight_sensitivity

DESIGNS = [(20, 20, 1.0), (100, 100, 0.1), (100, 100, 1.0), (30, 170, 0.5), (400, 400, 0.05)]
SHARES = np.concatenate([np.geomspace(1e-4, 0.05, 25), np.linspace(0.06, 0.5, 23)])
"""A grid that is finer than that of the tests, and has other points."""


@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize(("n1", "n0", "epsilon"), DESIGNS)
def test_level_of_the_norm(n1, n0, epsilon, alpha):
    """The norm is too large too often at no share; at 5% a constant X, whose norm is 1, is the worst."""
    scale = tight_sensitivity(n1, n0, TAU) / epsilon
    critical = nulls.norm_null(n1, n0, TAU, None).critical_value(alpha, scale)

    level = max(nulls.norm_law(n1, n0, TAU, p, p).sf(critical, scale) for p in SHARES)

    assert level <= alpha * (1 + 1e-12)
    constant = 1 + scale * math.log(1 / (2 * alpha))
    assert critical >= constant * (1 - 1e-12)
    assert alpha < 0.05 or critical == pytest.approx(constant, rel=1e-9)


def test_level_of_the_norm_of_many_rows():
    """Beyond 2,000 rows a mixture of laws given M1 has the level of the exact law."""
    n1, n0, p = 1200, 1300, 0.13
    scale = tight_sensitivity(n1, n0, TAU) / 0.3
    critical = nulls.norm_null(n1, n0, TAU, p).critical_value(0.05, scale)

    level = nulls.norm_law(n1, n0, TAU, p, p).sf(critical, scale)

    assert level == pytest.approx(0.05, abs=5e-4)


def test_a_p_value_and_a_critical_value_agree():
    """The p-value of the critical value is the level, for a share, a range, and nothing known."""
    for rate in (0.2, (0.1, 0.3), None):
        test = nulls.norm_null(60, 40, TAU, rate)

        assert 0.0099 <= test.pvalue(test.critical_value(0.01, 0.05), 0.05) <= 0.01 * (1 + 1e-6)


def test_the_more_is_known_the_smaller_the_critical_value():
    """A share is better than a range, and that than nothing."""
    rates = (0.2, (0.1, 0.3), None)
    known, between, nothing = (nulls.norm_null(60, 40, TAU, rate).critical_value(0.05, 0.1) for rate in rates)

    assert known < between < nothing


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_shares_and_their_complements(rate):
    """X and not X are tested alike."""
    found, other = (nulls.norm_null(60, 40, TAU, p).critical_value(0.05, 0.1) for p in (rate, 1 - rate))

    assert found == pytest.approx(other, rel=1e-9)


@pytest.mark.parametrize(("low", "high"), [(0.01, 0.02), (0.3, 0.9), (0.1, 0.95), (0.97, 0.99), (0.4, 0.4)])
def test_a_range_is_searched_from_end_to_end(low, high):
    """The grid of shares holds the range's own ends, and 1/2 where that is inside, complements taken for alike."""
    shares = nulls._share_grid((low, high), 1000)

    inside = [p for p in shares if low <= p <= high or low <= 1 - p <= high]
    assert shares == pytest.approx(inside)
    assert max(shares) == pytest.approx(min(max(low, 0.5), high) if low < 0.5 else 1 - low)
    assert min(shares) == pytest.approx(min(low, 1 - high))


# A noisy signed difference.


def simulated(rng, sizes, shares, epsilon, gone=(0.0, 0.0)):
    """The test of a simulated release, some of the rows missing."""
    complete = [n - rng.binomial(n, part) for n, part in zip(sizes, gone, strict=True)]
    (c, d), (m, k) = rng.binomial(complete, shares), complete
    measured = sum(sizes) * epsilon >= 100
    of_margin = epsilon / 10 if measured else 0.0
    scale, margin_scale = 1 / (epsilon - of_margin), 1 / of_margin if measured else 0.0
    halves = np.array([c + d - (m + k) / 2, *((n - each) / 2 for n, each in zip(sizes, complete, strict=True))])
    margins = tuple(halves + rng.laplace(0, margin_scale, 3)) if measured else ()
    released = (c * k - d * m) / max(m, k) + rng.laplace(0, scale)
    return SignedDifference(sizes, released, scale, margins, margin_scale, omitted=not measured)


SIGNED = [
    ((1000, 20), 0.005, 50.0),
    ((20, 20), 0.1, 50.0),
    ((5000, 5000), 0.005, 1.0),
    ((100, 100), 0.3, 1.0),
    ((100, 100), 0.5, 0.5),
    ((40, 40), 0.3, 1.0),
    ((60, 600), 0.1, 0.1),
]


@pytest.mark.statistical
@pytest.mark.parametrize("gone", [(0.0, 0.0), (0.3, 0.1)])
@pytest.mark.parametrize(("sizes", "share", "epsilon"), SIGNED)
def test_level_of_the_signed_difference(sizes, share, epsilon, gone):
    """True hypotheses are rejected at a fifth above the nominal level at most, whatever is missing."""
    rng, runs = np.random.default_rng(20_261_124), 600
    pvalues = [simulated(rng, sizes, (share, share), epsilon, gone).pvalue for _ in range(runs)]

    for alpha in (0.05, 0.01):
        assert sum(p <= alpha for p in pvalues) <= stats.binom.isf(1e-4, runs, 1.2 * alpha)


@pytest.mark.statistical
@pytest.mark.parametrize("gone", [(0.0, 0.0), (0.3, 0.1)])
@pytest.mark.parametrize(
    ("sizes", "shares", "epsilon"),
    [
        ((200, 300), (0.5, 0.3), 1.0),
        ((200, 300), (0.3, 0.3), 0.1),
        ((500, 500), (0.04, 0.10), 0.5),
        ((100, 900), (0.9, 0.6), 1.0),
        ((250, 5), (0.3, 0.8), 50.0),
    ],
)
def test_intervals_cover_the_signed_difference(sizes, shares, epsilon, gone):
    """Of 90% intervals, as many hold the true difference as that says, or more."""
    rng, runs, covered = np.random.default_rng(5), 300, 0
    for _ in range(runs):
        low, high = simulated(rng, sizes, shares, epsilon, gone).interval(0.9)
        covered += low <= shares[0] - shares[1] <= high

    assert covered >= stats.binom.ppf(1e-4, runs, 0.88)


def test_the_signed_difference_without_noise_is_fishers_test():
    """Without noise the law is hypergeometric, and the interval that of Agresti and Caffo."""
    found = SignedDifference((30, 40), 30 * (12 / 30 - 10 / 40) - 0.01, 1e-3, (22 - 35.0, 0.0, 0.0), 1e-3)

    points = np.arange(23)
    apart = np.abs(points / 30 - (22 - points) / 40)
    beyond = stats.hypergeom.pmf(points, 70, 22, 30)[apart >= 12 / 30 - 10 / 40 - 1e-9].sum()
    assert found.pvalue == pytest.approx(beyond, rel=1e-3)
    one, other = 13 / 32, 11 / 42
    width = stats.norm.isf(0.025) * math.sqrt(one * (1 - one) / 32 + other * (1 - other) / 42)
    assert found.interval(0.95) == pytest.approx((one - other - width, one - other + width), abs=2e-3)
    assert found.shares == pytest.approx((12 / 30, 10 / 40), abs=1e-3)
    assert found.pvalue > 0.1


# Noisy counts of all cells.


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [0.3, 7.0])
@pytest.mark.parametrize(
    ("shares", "sizes"),
    [((0.3, 0.7), (500, 500)), ((0.5, 0.3, 0.2), (300, 900, 300)), ((0.6, 0.39, 0.01), (300, 300, 100, 30))],
)
def test_level_of_noisy_counts(shares, sizes, scale):
    """Of simulated tables without association, no more are rejected than the levels let, nor with few rows."""
    rng, runs, pvalues = np.random.default_rng(20_261_124), 500, []
    for _ in range(runs):
        counts = np.stack([rng.multinomial(size, shares) for size in sizes], axis=1)
        pvalues.append(NoisyTable(counts + rng.laplace(0, scale, counts.shape), scale).pvalue)

    assert sum(p <= 0.2 for p in pvalues) >= stats.binom.ppf(1e-4, runs, 0.12)
    for alpha in (0.2, 0.05, 0.01):
        assert sum(p <= alpha for p in pvalues) <= stats.binom.isf(1e-4, runs, 1.2 * alpha)


def test_noisy_counts_without_noise_are_pearsons_test():
    """Without noise the statistic, its law, and Cramér's V are the textbook's."""
    counts = np.array([[30.0, 45, 60], [70, 55, 40]])
    textbook = stats.chi2_contingency(counts, correction=False)

    table = NoisyTable(counts, 1e-9)

    assert table.statistic == pytest.approx(textbook.statistic, rel=1e-9)
    assert 0.1 < table.pvalue / textbook.pvalue < 10
    for alpha, off in ((0.5, 0.1), (0.05, 0.15), (1e-3, 0.25)):
        assert table.critical_value(alpha) == pytest.approx(stats.chi2.isf(alpha, 2), rel=off)
    assert table.interval(0.95)[0] < stats.contingency.association(counts.astype(int)) < table.interval(0.95)[1]


def test_what_the_noise_hides_adds_nothing():
    """The statistic of a table with categories that are all noise is near that without them."""
    counts = np.array([[300.0, 450, 600], [700, 550, 400]])
    hidden = np.array([[0.4, -0.3, 0.2], [-0.5, 0.6, -0.1]])

    both = NoisyTable(np.concatenate([counts, hidden]), 5.0)

    assert both.statistic == pytest.approx(NoisyTable(counts, 5.0).statistic, rel=0.02)


def test_a_p_value_and_a_critical_value_of_counts_agree():
    """Within the draws and beyond them."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        table = NoisyTable(
            rng.multinomial(400, [0.1, 0.2, 0.1, 0.3, 0.2, 0.1]).reshape(3, 2) + rng.laplace(0, 4, (3, 2)), 4.0
        )
        at = [table.critical_value(alpha) for alpha in (0.9, 0.5, 0.1, 0.03, 0.01, 1e-4, 1e-9)]

        assert at == sorted(at)
        for alpha in (0.9, 0.5, 0.1, 0.03, 0.01, 1e-4):
            assert (table.pvalue <= alpha) == (table.statistic >= table.critical_value(alpha))


@pytest.mark.statistical
def test_the_extended_tail_of_noisy_counts_is_not_too_thin():
    """Of 40,000 tables under the law itself, those beyond the value for .0005 are as many as that says."""
    rng, scale = np.random.default_rng(3), 5.0
    p, g = np.array([0.6, 0.3, 0.1]), np.array([0.5, 0.5])
    table = NoisyTable(1000 * np.outer(p, g), scale)
    at, beyond = table.critical_value(5e-4), 0
    counts = rng.multinomial(1000, np.outer(p, g).ravel(), 40_000).reshape(-1, 3, 2) + rng.laplace(
        0, scale, (40_000, 3, 2)
    )
    beyond = sum(NoisyTable(each, scale).statistic >= at for each in counts)

    assert beyond <= stats.binom.isf(1e-3, 40_000, 7e-4)


@pytest.mark.statistical
def test_intervals_for_cramers_v_cover_it():
    """Of 95% intervals from noisy counts, about as many hold the true effect."""
    rng, runs = np.random.default_rng(7), 400
    cells = np.array([[0.20, 0.10], [0.15, 0.15], [0.15, 0.25]])
    margins = np.outer(cells.sum(axis=1), cells.sum(axis=0))
    true, covered = math.sqrt(((cells - margins) ** 2 / margins).sum()), 0
    for _ in range(runs):
        counts = rng.multinomial(2000, cells.ravel()).reshape(3, 2) + rng.laplace(0, 10, (3, 2))
        low, high = NoisyTable(counts, 10.0).interval(0.95)
        covered += low <= true <= high

    assert covered >= stats.binom.ppf(1e-4, runs, 0.94)
