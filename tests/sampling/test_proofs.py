"""What a secret sample is worth: exact laws of the answers on neighbouring tables."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from dfprivacy._privacy.conversions import epsilon_on_sample
from dfprivacy._table import sample

PRICES = ["1e-9", "1/100", "1/3", "1", "10", "500", "1000000"]
SHARES = ["1e-12", "1/1000", "1/3", "1/2", "999/1000"]


@pytest.mark.parametrize("price", PRICES)
def test_what_is_spent_on_a_sample_costs_no_more_than_is_paid(price):
    """At 120 digits: log(1 + q (exp(e) - 1)) is at most the price, and less by no more than the last decimal."""
    epsilon = Fraction(price)
    for q in map(Fraction, SHARES):
        found = epsilon_on_sample(epsilon, q)

        with mpmath.workdps(120):
            spent = mpmath.mpf(found.numerator) / found.denominator
            cost = mpmath.log1p(mpmath.mpf(q.numerator) / q.denominator * mpmath.expm1(spent))
            left = mpmath.mpf(epsilon.numerator) / epsilon.denominator - cost
        assert 0 <= left < 2e-24
        assert found >= epsilon - Fraction(1, 10**24)


def of_laplace(sums, chances, scale):
    """The law of a sum with discrete Laplace noise, where the sum is random."""
    x = np.arange(-60, 61)
    return (chances[:, None] * stats.dlaplace.pmf(x[None, :] - np.asarray(sums)[:, None], 1 / scale)).sum(axis=0)


def apart(one, other):
    """The largest loss between two laws."""
    return float(np.abs(np.log(one) - np.log(other)).max())


@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(1, 2)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 5), Fraction(1)])
def test_a_row_more_costs_what_is_paid(share, epsilon):
    """Of a count of rows, each drawn by itself: no event tells more, and the extremes tell all of it."""
    q, scale = float(share), 1 / float(epsilon_on_sample(epsilon, share))
    laws = [of_laplace(np.arange(n + 1), stats.binom.pmf(np.arange(n + 1), n, q), scale) for n in (5, 6)]

    assert float(epsilon) * 0.999 < apart(*laws) <= float(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("drawn", [1, 3, 6])
@pytest.mark.parametrize("epsilon", [Fraction(1, 5), Fraction(1)])
def test_another_row_costs_what_is_paid(drawn, epsilon):
    """Of a sum of rows of 0 and 1, a public number of which is drawn: no event tells more."""
    share = Fraction(drawn, 6)
    scale = 1 / float(epsilon_on_sample(epsilon, share))

    def law(ones):
        sums = np.arange(drawn + 1)
        return of_laplace(sums, stats.hypergeom.pmf(sums, 6, ones, drawn), scale)

    found = [apart(law(ones), law(ones + 1)) for ones in range(6)]

    assert float(epsilon) * 0.99 < max(found) <= float(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["a row more", "another row"])
def test_gaussian_noise_costs_what_is_paid(kind):
    """The delta at the price is at most that of the price, and not far from it where the bound is tight."""
    share, epsilon, delta = Fraction(1, 4), 0.5, 1e-3
    spent, allowed = float(epsilon_on_sample(Fraction(1, 2), share)), delta / float(share)
    x = np.arange(-400, 401)

    def given(scale):
        noise = np.exp(-((x[None, :] - np.arange(5)[:, None]) ** 2) / (2 * scale**2))
        return noise / noise.sum(axis=1, keepdims=True)

    def lost(one, other, at):
        return max(np.maximum(a - np.exp(at) * b, 0).sum() for a, b in ((one, other), (other, one)))

    scale = next(s for s in np.arange(0.3, 9, 0.01) if lost(given(s)[0], given(s)[1], spent) <= allowed)
    q, sums = float(share), np.arange(5)
    if kind == "a row more":
        laws = [stats.binom.pmf(sums, n, q) @ given(scale) for n in (3, 4)]
    else:
        laws = [stats.hypergeom.pmf(sums, 4, ones, 1) @ given(scale) for ones in (0, 1)]

    assert 0.2 * delta < lost(*laws, epsilon) <= delta * (1 + 1e-9)


def test_coins_orders_and_sets_are_as_likely_as_is_said():
    """A sixteenth of a million coins, to within seven standard deviations; sets of four; orders of three."""
    drawn = int(sample.draw_memberships(Fraction(1, 16), 1_000_000).sum())
    sets = {count: [sample.draw_distinct(4, count) for _ in range(4000)] for count in (1, 2, 3)}
    orders = [sample.draw_permutation(3) @ [9, 3, 1] for _ in range(3000)]
    codes = [[sum(1 << number for number in one.tolist()) for one in each] for each in sets.values()]

    assert abs(drawn - 62_500) < 7 * np.sqrt(62_500 * 15 / 16)
    assert all(sorted({*one}) == [*one] for each in sets.values() for one in each)
    for drawn, kinds in zip([*codes, orders], [4, 6, 4, 6], strict=True):
        times = np.unique(drawn, return_counts=True)[1]
        assert len(times) == kinds
        assert stats.chisquare(times).pvalue > 1e-9


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 999, 1000])
def test_numbers_are_different_and_as_many_as_are_asked(count):
    """From none to all of a thousand."""
    found = sample.draw_distinct(1000, count)

    assert len(np.unique(found)) == count
    assert np.all((found >= 0) & (found < 1000))
    assert sorted(sample.draw_permutation(count).tolist()) == list(range(count))
