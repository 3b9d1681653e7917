"""Laws of noisy statistics, against exact sums, integrals and reference values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.laws import Law, binomial, by_binomials, by_margin
from dfprivacy_chi2.nulls import norm_given_margin, norm_law
from dfprivacy_chi2.tables import chi2_statistic, paper_sensitivity, tight_sensitivity


def difference_law(n1, n0, p1, p0):
    """The law of the absolute difference of two shares."""
    return by_binomials(lambda c, d: np.abs(c / n1 - d / n0), n1, n0, p1, p0)


# Critical values at 5%, noise included.

BINOMIAL = [
    # n1, n0, p, epsilon; the norm with the paper's sensitivity, with the tight one, the difference
    (100, 100, 0.3, 0.5, 1.201068268, 1.107932713, 0.138756006),
    (100, 100, 0.5, 0.5, 1.156482215, 1.082443601, 0.149397203),
    (500, 500, 0.3, 0.1, 1.692630701, 1.414956666, 0.078838773),
    (20, 180, 0.1, 1, 1.375104467, 1.371670587, 0.194668122),
]


@pytest.mark.parametrize(("n1", "n0", "p", "epsilon", "paper", "tight", "difference"), BINOMIAL)
def test_critical_values_at_a_share(n1, n0, p, epsilon, paper, tight, difference):
    """Where the share is known, critical values have their reference values."""
    norm = norm_law(n1, n0, TAU, p, p)

    found = [
        norm.critical_value(0.05, paper_sensitivity(n1, n0, TAU) / epsilon),
        norm.critical_value(0.05, tight_sensitivity(n1, n0, TAU) / epsilon),
        difference_law(n1, n0, p, p).critical_value(0.05, 1 / (min(n1, n0) * epsilon)),
    ]

    assert found == pytest.approx([paper, tight, difference], abs=1e-6)


def noisy_chi2(n, epsilon):
    """The sensitivity of chi² for two groups of n, over epsilon."""
    return 4 * (1 - 1 / (n + 1)) / epsilon


def test_critical_values_of_other_statistics():
    """So do those of chi² itself."""
    chi2 = by_binomials(lambda c11, c10: chi2_statistic(c11, c10, 100, 100), 100, 100, 0.3, 0.3)

    assert chi2.critical_value(0.05, noisy_chi2(100, 0.5)) == pytest.approx(19.395448685, abs=1e-6)


MARGIN = [
    # n1, n0, m1, epsilon; of the norm: the critical value, the p-value of 1.5; of the difference: the same, of 0.2
    (100, 100, 60, 0.5, 1.105851810, 0.006031629, 0.139069562, 0.005281770),
    (500, 500, 300, 0.1, 1.414490386, 0.038561374, 0.078851291, 0.000120198),
    (20, 180, 20, 1, 1.369502437, 0.027454984, 0.193842100, 0.044599516),
]


@pytest.mark.parametrize(("n1", "n0", "m1", "epsilon", "norm_at", "norm_p", "delta_at", "delta_p"), MARGIN)
def test_critical_values_and_p_values_at_a_margin(n1, n0, m1, epsilon, norm_at, norm_p, delta_at, delta_p):
    """Where M1 is known, critical values and p-values have their reference values."""
    norm, scale = norm_given_margin(n1, n0, TAU, m1), tight_sensitivity(n1, n0, TAU) / epsilon
    delta, of_delta = (
        by_margin(lambda c11, c10: np.abs(c11 / n1 - c10 / n0), n1, n0, m1),
        1 / (min(n1, n0) * epsilon),
    )

    found = [
        norm.critical_value(0.05, scale),
        norm.sf(1.5, scale),
        delta.critical_value(0.05, of_delta),
        delta.sf(0.2, of_delta),
    ]

    assert found == pytest.approx([norm_at, norm_p, delta_at, delta_p], abs=1e-7)


def test_a_million_rows_given_the_margin():
    """With a million rows the law given M1 has some thousand points."""
    norm = norm_given_margin(500_000, 500_000, TAU, 300_000)

    found = norm.critical_value(0.05, tight_sensitivity(500_000, 500_000, TAU) / 0.1)

    assert found == pytest.approx(1.00049620, abs=1e-7)
    assert len(norm.points) < 5000


def test_powers_at_a_share():
    """The powers of the norm, of the difference and of chi² have their reference values."""
    critical = [
        norm_law(100, 100, TAU, 0.3, 0.3).critical_value(0.05, tight_sensitivity(100, 100, TAU) / 0.5),
        difference_law(100, 100, 0.3, 0.3).critical_value(0.05, 0.02),
        19.395448685,
    ]
    chi2 = by_binomials(lambda c11, c10: chi2_statistic(c11, c10, 100, 100), 100, 100, 0.4815, 0.3)

    found = [
        norm_law(100, 100, TAU, 0.4815, 0.3).sf(critical[0], tight_sensitivity(100, 100, TAU) / 0.5),
        difference_law(100, 100, 0.4815, 0.3).sf(critical[1], 0.02),
        chi2.sf(critical[2], noisy_chi2(100, 0.5)),
    ]

    assert found == pytest.approx([0.6669224, 0.7215378, 0.1490005], abs=1e-6)


# They are what they are said to be.


def laplace_sf(x, a, b):
    """The closed form of the probability that the sum of two Laplace variables of different scales exceeds x."""
    beyond = (a * a * math.exp(-abs(x) / a) - b * b * math.exp(-abs(x) / b)) / (2 * (a * a - b * b))
    return beyond if x >= 0 else 1 - beyond


@pytest.mark.parametrize("x", [-4.0, 0.0, 0.5, 7.0])
@pytest.mark.parametrize(("a", "b"), [(1.0, 2.0), (3.0, 0.1), (0.5, 0.4)])
def test_two_laplace_variables(x, a, b):
    """A constant with two Laplace variables is their sum, in either order."""
    constant = Law(np.zeros(1), np.ones(1))

    assert constant.sf(x, a, b) == pytest.approx(laplace_sf(x, a, b), rel=1e-12)
    assert constant.sf(x, b, a) == constant.sf(x, a, b)


def test_two_laplace_variables_of_one_scale():
    """Two equal scales are taken for nearly equal, which is right to three digits."""
    constant = Law(np.zeros(1), np.ones(1))

    found = [constant.sf(x, 2.0, 2.0) for x in (0.0, 1.0, 10.0)]

    assert found == pytest.approx([math.exp(-x / 2) * (1 + x / 4) / 2 for x in (0.0, 1.0, 10.0)], rel=1e-3)


@pytest.mark.parametrize(("n", "p"), [(1, 0.5), (1, 0.0), (7, 1.0), (40, 0.2), (800, 0.01), (2000, 0.5)])
def test_binomial_counts(n, p):
    """The probabilities are the binomial ones."""
    counts, weights = binomial(n, p)

    assert weights == pytest.approx(stats.binom.pmf(counts, n, p), rel=1e-9, abs=1e-15)
    assert weights.sum() == pytest.approx(1, rel=1e-12)


def test_many_counts_are_thinned():
    """Of many counts some stand for their neighbours, with the same mean and variance."""
    counts, weights = binomial(10**7, 0.3)

    mean = weights @ counts
    assert len(counts) <= 1000
    assert mean == pytest.approx(3e6, abs=0.01)
    assert weights @ (counts - mean) ** 2 == pytest.approx(2.1e6, rel=1e-6)


@pytest.mark.parametrize(("n1", "n0", "m1"), [(1, 1, 1), (5, 9, 0), (5, 9, 14), (40, 7, 20), (3000, 500, 1200)])
def test_hypergeometric_counts(n1, n0, m1):
    """Given M1 the first count is hypergeometric."""
    law = by_margin(lambda c11, c10: c11 + 0.0 * c10, n1, n0, m1)

    assert law.weights == pytest.approx(stats.hypergeom.pmf(law.points, n1 + n0, n1, m1), rel=1e-8, abs=1e-15)


LAWS = {
    "constant": Law(np.ones(1), np.ones(1)),
    "norm": norm_law(20, 30, TAU, 0.2, 0.2),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("scales", [(1e-6,), (0.02,), (50.0,), (0.02, 0.5), (1.0, 1.0), (1e-3, 1e3)])
@pytest.mark.parametrize("alpha", [1e-9, 0.05, 0.5, 0.999])
def test_a_critical_value_has_its_level(law, scales, alpha):
    """The noisy statistic exceeds it with this probability."""
    assert law.sf(law.critical_value(alpha, *scales), *scales) == pytest.approx(alpha, rel=1e-6)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@settings(max_examples=100, deadline=None)
@given(t=st.floats(-1e100, 1e100) | st.floats(-2, 2), scale=st.floats(1e-9, 1e9), other=st.floats(1e-9, 1e9))
def test_any_noisy_statistic_has_a_probability(law, t, scale, other):
    """Whatever the noise was, the result is a probability, and falls as the statistic grows."""
    for scales in ((scale,), (scale, other)):
        p, beyond = law.sf(t, *scales), law.sf(t + max(scales), *scales)

        assert -1e-9 <= p <= 1 + 1e-9
        assert beyond <= p + 1e-9
