"""The null law of the MMD: reference numbers, and sense made of any noisy numbers."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from dfprivacy_kernel.law import Measured, Moments, Null, cube, cube_noise, laplace_tail

KNOWN = [
    ((0.04, 0.2, 0.0268, 0.0053, 500, 500, 1), 0.0201387, 0.03796),
    ((0.04, 0.125, 0.0138, 0.0029, 500, 500, 1), 0.0028296, 0.00991),
    ((0.035, 0.75, 0.09, 0.023, 2000, 2000, 0.5), 0.0149752, 0.01667),
    ((0.1, 0.1, 0.1, 0.1, 100, 100, 2.5), 0.0291024, 0.04173),
    ((0.05, 0.3, 0.02, 0.05, 100, 2000, 1), None, 0.61776),
]


def of(*numbers):
    return Moments(*(np.array(float(x)) for x in numbers))


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        ((0.2, 0.0268, 0.0053), (0.2677631014, 0.3033572733)),
        ((0.75, 0.09, 0.023), (0.9820833874, 1.1113540974)),
        ((0.1, 0.1, 0.1), (0.3841458821, 0.6634896601)),
    ],
)
def test_upper_points(moments, expected):
    """The upper 5% and 1% points of the shifted chi-square have their reference values."""
    assert tuple(of(*moments).quantile(np.array([0.95, 0.99]))) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("given", "expected", "_"), [known for known in KNOWN if known[1] is not None])
def test_pvalue_of_known_moments(given, expected, _):
    """With the moments known, the p-value has its reference value."""
    T, trace, frobenius, largest, n, m, epsilon = given
    scale = math.sqrt(2) / min(n, m) / (0.85 * epsilon)
    level = (np.arange(200_000) + 0.5) / 200_000
    h = (1 / n + 1 / m) * (n + m) / (n + m - 1)

    null = np.sqrt(h * of(trace, frobenius, largest).quantile(level))

    assert laplace_tail((T - null) / scale).mean() == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(("given", "_", "expected"), KNOWN)
def test_pvalue_of_noisy_moments(given, _, expected):
    """With noisy moments, the p-value has its reference value, also where these are in no possible order."""
    T, trace, frobenius, largest, n, m, epsilon = given
    total = n + m
    measured = Measured(
        separation=T * n * m / total,
        scale=math.sqrt(2) * max(n, m) / total / (0.85 * epsilon),
        spread=total * np.array([trace, frobenius, largest]),
        spread_scales=np.full(3, 2 * (total - 1) / total / (0.15 * epsilon)),
        sizes=(n, m),
    )

    assert measured.pvalue == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.02])
@pytest.mark.parametrize("tail", [1e-3, 1e-6, 1e-12])
def test_far_tails_are_those_of_the_law_and_the_noise(scale, tail):
    """However small the noise is, a p-value is about the integral; no draw of the law need reach the statistic."""
    moments, (_, uniform) = (0.2, 0.0268, 0.0053), cube_noise(3)
    law = Null(Moments(*(np.full(len(uniform), x) for x in moments)), np.full(len(uniform), 0.004), uniform)
    statistic = math.sqrt(0.004 * float(of(*moments).quantile(np.array(1 - tail)))) + scale

    def beyond(noise):
        reached = max(statistic - noise, 0.0)
        weight = math.exp(-abs(noise) / scale) / (2 * scale)
        return weight * float(of(*moments).tail(np.array(reached**2 / 0.004)))

    ends = [-40 * scale, *np.linspace(0.0, statistic, 9), statistic + 40 * scale]
    parts = [quad(beyond, *part, epsabs=0, limit=400)[0] for part in pairwise(ends)]
    expected = sum(parts) + math.exp(-ends[-1] / scale) / 2

    assert expected / 2 < law.pvalue(statistic, scale) < 2 * expected


@pytest.mark.parametrize(("dimension", "expected"), [(3, 2.581989), (4, 3.162278), (9, 6.055301)])
def test_noise_of_the_cube(dimension, expected):
    """The points that stand for the noise of the cube have its standard deviation."""
    noise, _ = cube_noise(dimension)

    assert noise.std(axis=1) == pytest.approx(expected, rel=6e-3)


def test_tail_of_the_cube():
    """The upper points of one coordinate have their reference values."""
    assert [cube(3).reach(1 - 2 * tail) for tail in (0.025, 0.005)] == pytest.approx([5.1863, 7.2953], abs=1e-4)


numbers = st.floats(-1e6, 1e6)


@settings(max_examples=40, deadline=None)
@given(numbers, st.tuples(numbers, numbers, numbers, numbers, numbers), st.sampled_from([None, (2, 2), (30, 500)]))
def test_any_noisy_numbers(separation, spread, sizes):
    """Whatever the noisy numbers are, the p-value is a probability and the estimate a number."""
    noisy = np.array(spread if sizes is None else spread[2:])

    found = Measured(separation, 3.0, noisy, np.full(len(noisy), 20.0), sizes)

    assert 0 <= found.pvalue <= 1
    assert math.isfinite(found.squared)


def test_draws_that_are_impossible_are_moved():
    """Where no draw is possible, the nearest possible moments stand in."""
    null = Measured(0.0, 1.0, np.full(3, -2000.0), np.full(3, 0.04), (20, 20)).null()

    assert np.isfinite(null.quantile(0.95)).all()


def test_noisy_sizes_above_what_there_is_are_no_rare_draw():
    """Where nothing is missing, noisy sizes are above the public ones half of the time; the law stays fine."""
    scales = np.array([0.42, 0.42, 0.84, 0.84, 0.84])
    noisy = np.array([54.5, 1813.1, 908.2, 915.5, 917.0])

    null = Measured(0.0, 1.0, noisy, scales, None, (52, 1812)).null()

    level = (np.arange(4000) + 0.5) / 4000
    exact = math.sqrt(52 * 1812 / 1863) * np.sqrt(of(0.49, 0.49, 0.49).quantile(level))
    assert len(null.uniform) >= 2**12
    assert np.quantile(null.quantile(null.uniform), [0.5, 0.99, 0.999]) == pytest.approx(
        np.quantile(exact, [0.5, 0.99, 0.999]), rel=0.1
    )


def test_few_possible_draws_make_a_fine_law():
    """However few draws of the moments are possible, quantiles of the law are those of many uniform numbers."""
    null = Measured(0.0, 1.0, 400 * np.array([0.2, 0.27, 0.33]), np.full(3, 8.0), (200, 200)).null()

    assert len(null.uniform) >= 2**12
    assert 0.0005 < np.mean(null.uniform > 0.999) < 0.002
