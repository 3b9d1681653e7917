"""What is concluded from noisy numbers: the law under independence, levels and intervals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from dfprivacy_dcor.inference import NoisyStatistics, noisy_tail, null_tail
from dfprivacy_dcor.mechanisms import hsic_interval


@pytest.mark.parametrize("spread", [0.0, 1e-9, 0.05, 0.4, 1.0])
def test_the_tail_is_the_integral(spread):
    """Against quadrature, within two parts in a thousand however small it is, for a mean of 1; many at once."""
    values, scales = np.array([-1.0, 0.3, 1.0, 1.7, 3.0, 5.0]), np.array([1e-3, 0.02, 0.3, 5.0])

    found = noisy_tail(values[:, None], scales, 1.0, np.full(4, spread))

    for (row, value), (column, scale) in itertools.product(enumerate(values), enumerate(scales)):

        def integrand(z, value=value, scale=scale):
            far = (value - math.sqrt(1 - spread + spread * z * z)) / scale
            beyond = math.exp(-far) / 2 if far > 0 else 1 - math.exp(far) / 2
            return 2 * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * beyond

        kink = math.sqrt(max(0.0, (value * abs(value) - 1 + spread) / spread)) if spread else 1.0
        parts = {0.0, *(kink * part for part in (0.5, 0.9, 0.99, 0.999, 1, 1.001, 1.01, 1.1)), 1.0, 3.0, 8.0, 38.0}
        ends = sorted(end for end in parts if end <= 38)
        exact = sum(integrate.quad(integrand, a, b, epsabs=0, limit=500)[0] for a, b in itertools.pairwise(ends))
        assert max(exact, 1e-250) == pytest.approx(max(found[row, column], 1e-250), rel=2e-3)
    assert found.min() >= 0
    assert found.max() <= 1


def spectrum(quantiles):
    """Eigenvalues of the centred distances of points that stand for a distribution."""
    a = np.abs(quantiles[:, None] - quantiles)
    a -= a.mean(axis=0) + a.mean(axis=1)[:, None] - a.mean()
    values = np.sort(np.linalg.eigvalsh(-a) / len(a))[::-1]
    return values[values > 1e-9]


def beyond(values, x):
    """The probability that a quadratic form of normal variables exceeds x, by Imhof's formula."""
    u = np.arange(1, 60_001) * 1e-3 - 5e-4
    turn, shrink = -x * u / 2, np.zeros_like(u)
    for value in values:
        turn += np.arctan(value * u) / 2
        shrink += np.log1p((value * u) ** 2) / 4
    return 0.5 + (np.sin(turn) * np.exp(-shrink) / u).sum() * 1e-3 / math.pi


@pytest.mark.parametrize("kind", ["uniform", "norm", "expon", "t"])
def test_the_matched_law_is_wider_than_the_limit(kind):
    """Of the quadratic form of such columns, as many as is said at most lie beyond, and not far fewer at .05."""
    points = getattr(stats, kind).ppf((np.arange(400) + 0.5) / 400, *([3] if kind == "t" else []))
    values = np.sort(np.outer(*[spectrum(points)] * 2).ravel())[::-1]
    spread = math.sqrt((values**2).sum())
    values, levels = values / spread, np.array([0.05, 0.01, 0.001])
    mean, kept = values.sum(), values[:150]
    ends = mean - 1 + stats.chi2(1).isf(levels)

    found = [beyond(kept, end - (mean - kept.sum())) for end in ends]

    assert levels == pytest.approx(noisy_tail(np.sqrt(ends), 1e-7, mean, 1.0), rel=2e-3)
    assert 0.04 < found[0] < 0.0525
    assert found[1] < 0.011
    assert found[2] < 0.0013


def test_the_pvalue_is_the_level_at_which_it_is_rejected():
    """At levels above it independence is rejected, at those below it is not."""
    for covariance in (0.01, 0.03, 0.06, 0.2):
        values, scales = (covariance, 0.2, 0.2, -0.67, -0.67, 1.0), (2e-3, 6e-3, 6e-3, 1e-2, 1e-2, 5e-3)
        numbers = NoisyStatistics(values, scales, 1000, (0.5,) * 4)
        pvalue = numbers.pvalue()

        for level in (pvalue * 0.999, pvalue * 1.001):
            if level < 1:
                tail = null_tail(values, scales, 1000, numbers.largest, level)
                assert (level > pvalue) == (float(tail) <= 0.9 * level)


def numbers_of_tables(kind, runs, n):
    """Six numbers of each of many tables of independent columns, as a part of all rows."""
    rng = np.random.default_rng(4)
    tables = rng.random((runs, 2, n))
    if kind == "rare":
        tables = (tables < 0.05).astype(float)
    there = rng.random((runs, n)) < (0.6 if kind == "gaps" else 1)
    values = np.empty((runs, 6))
    for run in range(runs):
        kept = tables[run][:, there[run]]
        m = kept.shape[1]
        distances = [np.abs(side[:, None] - side) for side in kept]
        means = [each.mean() for each in distances]
        a, b = (each - each.mean(axis=0) - each.mean(axis=1)[:, None] + each.mean() for each in distances)
        squares = [np.vdot(one, other) / m**2 for one, other in ((a, b), (a, a), (b, b))]
        values[run] = np.array([*np.sqrt(np.maximum(squares, 0)), *np.subtract(means, 1), 1]) * (m / n)
    return values


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["uniform", "rare", "gaps"])
def test_levels_hold(kind):
    """Of 1,500 tables of independent columns no more are rejected than is said, at .05, .01 and .001."""
    n, runs, largest = 100, 1500, (0.5,) * 4
    values, rng = numbers_of_tables(kind, runs, n), np.random.default_rng(5)
    change = 2 * (n - 1) / n**2
    parts = np.array([*(change / np.array([0.5, 0.15, 0.15, 0.1, 0.1])), 1 / (0.1 * (n - 2) / (n - 1) * n)])
    for epsilon, level in itertools.product((0.5, 5, 100), (0.05, 0.01, 0.001)):
        noisy = values + rng.laplace(size=values.shape) * parts / epsilon

        rejected = (null_tail(noisy, parts / epsilon, n, largest, level) <= 0.9 * level).sum()

        assert rejected <= stats.binom(runs, 1.2 * level).isf(1e-6)


def numbers(values, scale=1e-3, rows=1000):
    """Noisy s_xy, s_x, s_y, m_x and m_y of complete rows, with noise of one scale."""
    below = [value - 1 for value in values[3:]]
    return NoisyStatistics((*values[:3], *below, 1.0), (*(scale,) * 5, 0.0), rows, (0.5,) * 4)


@pytest.mark.parametrize(
    "values", [[0] * 5, [-1e9] * 5, [1e9] * 5, [1e9, -1e9, -1e9, -1e9, -1e9], [-5, 5, 5, 0, 0]]
)
def test_any_numbers_have_a_sensible_conclusion(values):
    """Whatever the noise is, correlation, interval and p-value are finite and within 0 and 1."""
    found = numbers(values)

    low, high = found.interval(0.95)

    assert all(0 <= answer <= 1 for answer in [found.correlation, found.corrected, found.pvalue(), low, high])
    assert low <= high


def test_hardly_any_noise_gives_the_ratio():
    """Without noise to speak of the correlation is s_xy over the root of s_x s_y."""
    found = numbers([0.1, 0.2, 0.2, 0.33, 0.33], scale=1e-9)

    assert found.correlation == pytest.approx(0.5)
    assert found.corrected == pytest.approx((0.1**2 - 0.33**2 / 1000) / 0.2**2)
    assert np.mean(found.interval(0.95)) == pytest.approx(0.5, abs=1e-6)
    assert found.informative


@pytest.mark.statistical
def test_intervals_cover():
    """Of 2,000 noisy versions of the same numbers 95 % and more have intervals of R and HSIC with the truth."""
    rng = np.random.default_rng(1)
    truth, scale, n = np.array([0.1, 0.2, 0.22, 0.33, 0.33]), 0.01, 500
    ratio, square = 0.1 / math.sqrt(0.2 * 0.22), (0.05 / (0.8 - 1 / n)) ** 2

    found = [numbers(v, scale).interval(0.95) for v in truth + rng.laplace(scale=scale, size=(2000, 5))]
    drawn = zip(rng.laplace(0.05, 0.004, 2000), rng.laplace(0.8, 0.01, 2000), strict=True)
    ends = [hsic_interval(root, 0.004, share, 0.01, n, 1.0, 0.95)[1:] for root, share in drawn]

    assert np.mean([low <= ratio <= high for low, high in found]) > 0.95
    assert np.mean([low <= square <= high for low, high in ends]) > 0.95
