"""Laws of noisy statistics, and the tests that follow: exact sums, reference values, levels and coverage."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.inference import NoisyTable, SignedDifference, _residuals, _weighted_chi2
from dfprivacy_chi2.laws import Law, binomial_counts, binomial_law, hypergeometric_law, noise_pdf, noise_sf
from dfprivacy_chi2.nulls import MissingRowsNull, norm_given_margin, norm_law
from dfprivacy_chi2.tables import chi2_statistic, paper_sensitivity, tight_sensitivity


def apart(n1, n0):
    """The absolute difference of two shares."""
    return lambda c, d: np.abs(c / n1 - d / n0)


BINOMIAL = [
    # n1, n0, p, epsilon; at 5%, of the norm with the paper's sensitivity, with the tight one, of the difference
    (100, 100, 0.3, 0.5, 1.201068268, 1.107932713, 0.138756006),
    (100, 100, 0.5, 0.5, 1.156482215, 1.082443601, 0.149397203),
    (500, 500, 0.3, 0.1, 1.692630701, 1.414956666, 0.078838773),
    (20, 180, 0.1, 1, 1.375104467, 1.371670587, 0.194668122),
]
MARGIN = [
    # n1, n0, m1, epsilon; of the norm: the critical value, the p-value of 1.5; of the difference: the same, of 0.2
    (100, 100, 60, 0.5, 1.105851810, 0.006031629, 0.139069562, 0.005281770),
    (500, 500, 300, 0.1, 1.414490386, 0.038561374, 0.078851291, 0.000120198),
    (20, 180, 20, 1, 1.369502437, 0.027454984, 0.193842100, 0.044599516),
]


def test_critical_values_and_p_values_of_reference():
    """Where the share of X = 1 is known, or M1; of a million rows the law given M1 has some thousand points."""
    for n1, n0, p, epsilon, *known in BINOMIAL:
        norm, delta = norm_law(n1, n0, TAU, p, p), binomial_law(apart(n1, n0), n1, n0, p, p)
        scales = [of(n1, n0, TAU) / epsilon for of in (paper_sensitivity, tight_sensitivity)]
        found = [norm.critical_value(0.05, scale) for scale in scales]
        assert [*found, delta.critical_value(0.05, 1 / (min(n1, n0) * epsilon))] == pytest.approx(known, abs=1e-6)
    for n1, n0, m1, epsilon, *known in MARGIN:
        norm, scale = norm_given_margin(n1, n0, TAU, m1), tight_sensitivity(n1, n0, TAU) / epsilon
        delta, of_delta = hypergeometric_law(apart(n1, n0), n1, n0, m1), 1 / (min(n1, n0) * epsilon)
        found = [norm.critical_value(0.05, scale), norm.sf(1.5, scale)]
        found += [delta.critical_value(0.05, of_delta), delta.sf(0.2, of_delta)]
        assert found == pytest.approx(known, abs=1e-7)
    many = norm_given_margin(500_000, 500_000, TAU, 300_000)
    assert many.critical_value(0.05, tight_sensitivity(500_000, 500_000, TAU) / 0.1) == pytest.approx(1.0004962)
    assert len(many.points) < 5000


def test_powers_of_reference():
    """Of the norm, of the difference and of chi² itself."""
    of = [
        (lambda p: norm_law(100, 100, TAU, p, 0.3), tight_sensitivity(100, 100, TAU) / 0.5),
        (lambda p: binomial_law(apart(100, 100), 100, 100, p, 0.3), 0.02),
        (lambda p: binomial_law(lambda c, d: chi2_statistic(c, d, 100, 100), 100, 100, p, 0.3), 8 * (1 - 1 / 101)),
    ]
    critical = [law(0.3).critical_value(0.05, scale) for law, scale in of]

    found = [law(0.4815).sf(at, scale) for (law, scale), at in zip(of, critical, strict=True)]

    assert critical[2] == pytest.approx(19.395448685, abs=1e-6)
    assert found == pytest.approx([0.6669224, 0.7215378, 0.1490005], abs=1e-6)


# They are what they are said to be.

CONSTANT = Law(np.zeros(1), np.ones(1))
SCALES = [(2.0,), (0.1,), (1.0, 3.0), (0.05, 0.08)]  # of the noise, in rows


def test_two_laplace_variables():
    """A constant with two is their sum, in either order; two equal scales are right to three digits."""
    for x, (a, b) in itertools.product([-4.0, 0.0, 0.5, 7.0], [(1.0, 2.0), (3.0, 0.1), (0.5, 0.4)]):
        tail = (a * a * math.exp(-abs(x) / a) - b * b * math.exp(-abs(x) / b)) / (2 * (a * a - b * b))
        assert CONSTANT.sf(x, a, b) == pytest.approx(tail if x >= 0 else 1 - tail, rel=1e-12)
        assert CONSTANT.sf(x, b, a) == CONSTANT.sf(x, a, b)
    for x in (0.0, 1.0, 10.0):
        assert CONSTANT.sf(x, 2.0, 2.0) == pytest.approx(math.exp(-x / 2) * (1 + x / 4) / 2, rel=1e-3)
    for scales in SCALES:  # densities are slopes of tails
        y, step = np.array([-4.0, -0.2, 0.3, 2.0, 9.0]) * max(scales), 1e-5 * max(scales)
        slope = (noise_sf(y - step, *scales) - noise_sf(y + step, *scales)) / (2 * step)
        assert slope == pytest.approx(noise_pdf(y, *scales), rel=1e-5)


def test_counts():
    """Those of one group are binomial, thinned where they are many; given M1 they are hypergeometric."""
    for n, p in [(1, 0.5), (1, 0.0), (7, 1.0), (40, 0.2), (800, 0.01), (2000, 0.5)]:
        counts, weights = binomial_counts(n, p)
        assert weights == pytest.approx(stats.binom.pmf(counts, n, p), rel=1e-9, abs=1e-15)
        assert weights.sum() == pytest.approx(1, rel=1e-12)
    counts, weights = binomial_counts(10**7, 0.3)
    assert len(counts) <= 1000
    assert weights @ counts == pytest.approx(3e6, abs=0.01)
    assert weights @ (counts - weights @ counts) ** 2 == pytest.approx(2.1e6, rel=1e-6)
    for n1, n0, m1 in [(1, 1, 1), (5, 9, 0), (5, 9, 14), (40, 7, 20), (3000, 500, 1200)]:
        law = hypergeometric_law(lambda c11, c10: c11 + 0.0 * c10, n1, n0, m1)
        exact = stats.hypergeom.pmf(law.points, n1 + n0, n1, m1)
        assert law.weights == pytest.approx(exact, rel=1e-8, abs=1e-15)


LAWS = {"constant": Law(np.ones(1), np.ones(1)), "norm": norm_law(20, 30, TAU, 0.2, 0.2)}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_a_critical_value_has_its_level(law):
    """The noisy statistic exceeds it with this probability."""
    noises = [(1e-6,), (0.02,), (50.0,), (0.02, 0.5), (1.0, 1.0), (1e-3, 1e3)]
    for scales, alpha in itertools.product(noises, [1e-9, 0.05, 0.5, 0.999]):
        assert law.sf(law.critical_value(alpha, *scales), *scales) == pytest.approx(alpha, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(t=st.floats(-1e100, 1e100) | st.floats(-2, 2), scale=st.floats(1e-9, 1e9), other=st.floats(1e-9, 1e9))
def test_any_noisy_statistic_has_a_probability(t, scale, other):
    """Whatever the noise was, the result is a probability, and falls as the statistic grows."""
    for law, scales in itertools.product(LAWS.values(), [(scale,), (scale, other)]):
        p, further = law.sf(t, *scales), law.sf(t + max(scales), *scales)

        assert -1e-9 <= p <= 1 + 1e-9
        assert further <= p + 1e-9


# The norm


@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize(("n1", "n0", "epsilon"), [(20, 20, 1.0), (100, 100, 0.1), (30, 170, 0.5)])
def test_level_of_the_norm(n1, n0, epsilon, alpha):
    """The norm is too large too often at no share; at 5% a constant X, whose norm is 1, is the worst."""
    scale = tight_sensitivity(n1, n0, TAU) / epsilon
    critical = nulls.norm_null(n1, n0, TAU, None).critical_value(alpha, scale)
    shares = np.concatenate([np.geomspace(1e-4, 0.05, 15), np.linspace(0.06, 0.5, 15)])  # others than the tests'

    assert max(norm_law(n1, n0, TAU, p, p).sf(critical, scale) for p in shares) <= alpha * (1 + 1e-12)
    constant = 1 + scale * math.log(1 / (2 * alpha))
    assert critical >= constant * (1 - 1e-12)
    assert alpha < 0.05 or critical == pytest.approx(constant, rel=1e-9)


@pytest.mark.parametrize(("n1", "n0", "tau"), [(6, 6, 0.3), (6, 14, 0.3), (6, 14, 3.84)])
def test_the_level_holds_whatever_rows_are_left_out(n1, n0, tau):
    """Of all numbers of complete rows; tables are small, and levels up to a twentieth too large by their steps."""
    scale = tight_sensitivity(n1, n0, tau) / 2
    critical = nulls.norm_null(n1, n0, tau, None, complete=False).critical_value(0.05, scale)
    rows = itertools.product(range(1, n1 + 1), range(1, n0 + 1))

    levels = [norm_law(n1, n0, tau, p, p, mk).sf(critical, scale) for mk in rows for p in (0.01, 0.1, 0.3, 0.5)]

    assert 0.02 < max(levels) <= 0.0525


def test_the_norm_of_many_rows_and_what_is_known_of_it():
    """Beyond 2,000 rows a mixture has the exact level; to know more takes less; X is as good as not X."""
    scale = tight_sensitivity(1200, 1300, TAU) / 0.3
    mixed = nulls.norm_null(1200, 1300, TAU, 0.13).critical_value(0.05, scale)
    tests = [nulls.norm_null(60, 40, TAU, rate) for rate in (0.2, (0.1, 0.3), None)]
    critical = [test.critical_value(0.01, 0.05) for test in tests]

    assert norm_law(1200, 1300, TAU, 0.13, 0.13).sf(mixed, scale) == pytest.approx(0.05, abs=5e-4)
    assert critical[0] < critical[1] < critical[2]
    for test, at in zip(tests, critical, strict=True):
        assert 0.0099 <= test.pvalue(at, 0.05) <= 0.01 * (1 + 1e-6)
    for rate in (0.1, 0.3, (0.01, 0.02), (0.1, 0.95)):
        ends = 1 - np.array(rate)
        others = tuple(sorted(ends)) if ends.ndim else float(ends)
        found, other = (nulls.norm_null(60, 40, TAU, p).critical_value(0.05, 0.1) for p in (rate, others))
        assert found == pytest.approx(other, rel=1e-9)
        shares = np.linspace(*rate, 20) if ends.ndim else [rate]  # a range keeps its level from end to end
        assert max(norm_law(60, 40, TAU, p, p).sf(found, 0.1) for p in shares) == pytest.approx(0.05, rel=0.01)


# The absolute difference, whatever rows are left out

SHARES = (0.02, 0.1, 0.2, 0.35, 0.5)


def tail(m, k, p, t, *scales):
    """The probability that the difference of shares of m and k rows, times the smaller number, exceeds t."""
    n = min(m, k)
    return binomial_law(apart(m, k), m, k, p, p).sf(t / n, *(scale / n for scale in scales))


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize(("n1", "n0"), [(2, 7), (5, 4)])
def test_no_rows_that_are_left_out_exceed_the_bound(n1, n0, scales):
    """Over all numbers of complete rows, shares and places, the exact probability is at most the bound."""
    rows = min(n1, n0)
    null = MissingRowsNull(rows, 0.5)
    complete = [*itertools.product(range(1, n1 + 1), range(1, n0 + 1), SHARES)]

    for t in np.linspace(0.0, rows + 3 * max(scales), 6):
        bound = null.pvalue(t / rows, *(scale / rows for scale in scales))
        assert max(tail(*each, t, *scales) for each in complete) <= bound * (1 + 1e-9) + 1e-12


def test_the_level_of_the_difference():
    """Known shares, unequal groups and many columns, in which one half is not the worst share, keep it too."""
    for m, k, t, share in itertools.product((5, 12, 20), (7, 30, 60), (3.0, 6.0, 9.0), (0.05, 0.3)):
        bound = MissingRowsNull(20, share).pvalue(t / 20, 1 / 20)
        assert max(tail(m, k, p, t, 1.0) for p in (share, share / 2)) <= bound * (1 + 1e-9)
    for n1, n0, scales, alpha in [
        (250, 5, (0.1,), 1e-3), (500, 10, (0.1,), 5e-5), (50, 3, (0.1,), 1e-3), (500, 10, (0.5, 0.25), 5e-5)
    ]:  # fmt: skip
        at = MissingRowsNull(n0, 0.5).critical_value(alpha, *(scale / n0 for scale in scales)) * n0
        complete = [max(1, round(n1 * part)) for part in (1.0, 0.5, 0.1, 0.02)]
        assert max(tail(m, n0, p, at, *scales) for m in complete for p in SHARES) <= alpha
    for alpha, scales in itertools.product((0.3, 0.05, 1e-6), ((0.02,), (0.01, 0.3))):
        at = MissingRowsNull(100, 0.5).critical_value(alpha, *scales)
        assert 0.9999 * alpha <= MissingRowsNull(100, 0.5).pvalue(at, *scales) <= alpha


def test_the_bound_costs_little():
    """A threshold is that of the worst law where noise prevails, and a few percent more where it does not."""
    law = binomial_law(apart(2500, 2500), 2500, 2500, 0.5, 0.5)
    for scale, price in [(25.0 / 2500, 1.001), (5.0 / 2500, 1.02), (0.2 / 2500, 1.06)]:
        ratio = MissingRowsNull(2500).critical_value(5e-5, scale) / law.critical_value(5e-5, scale)
        assert 1 - 1e-6 <= ratio <= price


@pytest.mark.parametrize(("rows", "p"), [(1, 0.5), (3, 0.5), (40, 0.1), (3000, 0.5)])
def test_the_bound_is_the_least_mean_over_the_tangents(rows, p):
    """Of the difference of two sums; h is the larger of tail and tangent up to t, and the tangent beyond."""
    counts = np.arange(rows + 1)
    exact = np.convolve(stats.binom.pmf(counts, rows, p), stats.binom.pmf(counts, rows, p)[::-1])[rows:]
    exact[1:] *= 2
    null = MissingRowsNull(rows, p)

    assert null._probabilities == pytest.approx(exact[: len(null._probabilities)], abs=1e-14)
    for scales, t in itertools.product(SCALES, [-1.5, 0.0, 0.4, 2.0, 3.7, 60.0, 200.0]):
        bounds = []
        for y in np.linspace(0.0, 40.0, 81) * max(scales):
            tangent = noise_sf(-y, *scales) + noise_pdf(y, *scales) * (counts - t - y)
            h = np.where(counts <= t, np.maximum(noise_sf(t - counts, *scales), tangent), tangent)
            bounds.append(h @ exact)
        found = null.pvalue(t / rows, *(scale / rows for scale in scales))
        assert found == pytest.approx(min(1.0, *bounds), rel=1e-9, abs=1e-13)


# The signed difference


def simulated(rng, sizes, shares, epsilon, gone):
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


NONE, SOME = (0.0, 0.0), (0.3, 0.1)  # parts of the rows without X


@pytest.mark.statistical
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("sizes", "shares", "epsilon", "gone"),
    [
        ((1000, 20), (0.005, 0.005), 50.0, SOME),
        ((20, 20), (0.1, 0.1), 50.0, NONE),
        ((5000, 5000), (0.005, 0.005), 1.0, SOME),
        ((60, 600), (0.1, 0.1), 0.1, SOME),
        ((200, 300), (0.5, 0.3), 1.0, SOME),
        ((200, 300), (0.3, 0.3), 0.1, NONE),
        ((500, 500), (0.04, 0.10), 0.5, SOME),
        ((250, 5), (0.3, 0.8), 50.0, SOME),
    ],
)
def test_the_signed_difference_keeps_level_and_coverage(sizes, shares, epsilon, gone, monkeypatch):
    """True hypotheses are rejected at a fifth above the level at most; 90% intervals hold the difference."""
    monkeypatch.setattr("dfprivacy_chi2.inference.DRAWS", 128)
    rng, runs, level = np.random.default_rng(20_261_124), 200, shares[0] == shares[1]
    every = [simulated(rng, sizes, shares, epsilon, gone) for _ in range(runs)]

    if level:
        for alpha in (0.05, 0.01):
            assert sum(each.pvalue <= alpha for each in every) <= stats.binom.isf(1e-4, runs, 1.2 * alpha)
    if not level or epsilon < 0.5:
        held = [low <= shares[0] - shares[1] <= high for low, high in (each.interval(0.9) for each in every)]
        assert sum(held) >= stats.binom.ppf(1e-4, runs, 0.88)


def test_the_signed_difference_without_noise_is_fishers_test():
    """Without noise the law is hypergeometric, and the interval that of Agresti and Caffo."""
    found = SignedDifference((30, 40), 30 * (12 / 30 - 10 / 40) - 0.01, 1e-3, (22 - 35.0, 0.0, 0.0), 1e-3)

    points = np.arange(23)
    off = np.abs(points / 30 - (22 - points) / 40)
    exact = stats.hypergeom.pmf(points, 70, 22, 30)[off >= 12 / 30 - 10 / 40 - 1e-9].sum()
    assert found.pvalue == pytest.approx(exact, rel=1e-3)
    one, other = 13 / 32, 11 / 42
    width = stats.norm.isf(0.025) * math.sqrt(one * (1 - one) / 32 + other * (1 - other) / 42)
    assert found.interval(0.95) == pytest.approx((one - other - width, one - other + width), abs=2e-3)
    assert found.shares == pytest.approx((12 / 30, 10 / 40), abs=1e-3)
    assert found.pvalue > 0.1


# Noisy counts of all cells


def drawn(rng, cells, n, scale, runs):
    """Noisy tables of rows with the probabilities of cells."""
    counts = rng.multinomial(n, np.ravel(cells), runs).reshape(runs, *np.shape(cells))
    return [NoisyTable(each, scale) for each in counts + rng.laplace(0, scale, counts.shape)]


@pytest.mark.statistical
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("shares", "sizes", "scale"),
    [
        ((0.3, 0.7), (500, 500), 7.0),
        ((0.5, 0.3, 0.2), (300, 900, 300), 0.3),
        ((0.6, 0.39, 0.01), (300, 300, 100, 30), 7.0),
    ],
)
def test_level_of_noisy_counts(shares, sizes, scale, monkeypatch):
    """Of simulated tables without association, no more are rejected than the levels let, nor with few rows."""
    monkeypatch.setattr("dfprivacy_chi2.inference._N_DRAWS", 1023)
    runs, cells = 200, np.outer(shares, sizes) / sum(sizes)
    pvalues = [each.pvalue for each in drawn(np.random.default_rng(20_261_124), cells, sum(sizes), scale, runs)]

    assert sum(p <= 0.2 for p in pvalues) >= stats.binom.ppf(1e-6, runs, 0.12)
    for alpha in (0.2, 0.05, 0.01):
        assert sum(p <= alpha for p in pvalues) <= stats.binom.isf(1e-6, runs, 1.2 * alpha)


def test_noisy_counts_without_noise_are_pearsons_test():
    """The statistic, its law, and Cramér's V are the textbook's; what the noise hides adds nothing."""
    counts = np.array([[30.0, 45, 60], [70, 55, 40]])
    textbook = stats.chi2_contingency(counts, correction=False)

    table = NoisyTable(counts, 1e-9)

    assert table.statistic == pytest.approx(textbook.statistic, rel=1e-9)
    assert 0.1 < table.pvalue / textbook.pvalue < 10
    for alpha, off in ((0.5, 0.1), (0.05, 0.15), (1e-3, 0.25)):
        assert table.critical_value(alpha) == pytest.approx(stats.chi2.isf(alpha, 2), rel=off)
    known = [special.chndtrinc(textbook.statistic, 2, level) for level in (0.975, 0.025)]
    assert table.interval(0.95) == pytest.approx([math.sqrt(end / 300) for end in known], rel=1e-6)
    assert table.estimate == pytest.approx(math.sqrt((textbook.statistic - 2) / 300), rel=1e-6)
    hidden = [[0.4, -0.3, 0.2], [-0.5, 0.6, -0.1]]
    both, alone = (NoisyTable(each, 5.0) for each in (np.concatenate([10 * counts, hidden]), 10 * counts))
    assert both.statistic == pytest.approx(alone.statistic, rel=0.02)


def test_a_p_value_and_a_critical_value_of_counts_agree():
    """Within the draws and beyond them."""
    for table in drawn(np.random.default_rng(2), np.reshape([0.1, 0.2, 0.1, 0.3, 0.2, 0.1], (3, 2)), 400, 4.0, 20):
        at = [table.critical_value(alpha) for alpha in (0.9, 0.5, 0.1, 0.03, 0.01, 1e-4, 1e-9)]

        assert at == sorted(at)
        for alpha in (0.9, 0.5, 0.1, 0.03, 0.01, 1e-4):
            assert (table.pvalue <= alpha) == (table.statistic >= table.critical_value(alpha))


@pytest.mark.statistical
def test_the_extended_tail_of_noisy_counts_is_not_too_thin():
    """Of 20,000 tables under the law itself, those beyond the value for .0005 are as many as that says."""
    runs, cells = 20_000, np.outer([0.6, 0.3, 0.1], [0.5, 0.5])
    tables = np.array([each.counts for each in drawn(np.random.default_rng(3), cells, 1000, 5.0, runs)])

    further = _weighted_chi2(*_residuals(tables, 2 * 5.0**2)) >= NoisyTable(1000 * cells, 5.0).critical_value(5e-4)

    assert further.sum() <= stats.binom.isf(1e-3, runs, 7e-4)


@pytest.mark.statistical
def test_intervals_for_cramers_v_cover_it():
    """Of 95% intervals from noisy counts, about as many hold the true effect."""
    runs, cells = 200, np.array([[0.20, 0.10], [0.15, 0.15], [0.15, 0.25]])
    margins = np.outer(cells.sum(axis=1), cells.sum(axis=0))
    true = math.sqrt(((cells - margins) ** 2 / margins).sum())

    ends = [each.interval(0.95) for each in drawn(np.random.default_rng(7), cells, 2000, 10.0, runs)]

    assert sum(low <= true <= high for low, high in ends) >= stats.binom.ppf(1e-4, runs, 0.94)
