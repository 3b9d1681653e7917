"""Noise of the cube follows its law."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dfprivacy.cube import cube
from dfprivacy.testing.noise import seeded_noise


def draws(count, dimension, scale, seed):
    chance = np.random.default_rng(seed)
    with seeded_noise(seed) as sampler:
        return np.array(
            [cube(dimension, scale, sampler.laplace, lambda n: int(chance.integers(n))) for _ in range(count)]
        )


@pytest.mark.statistical
def test_small_noise_has_its_probabilities():
    """In two dimensions, every point has a probability proportional to exp(-max|x| / b)."""
    found = draws(20_000, 2, 1.3, 1)
    points = list(itertools.product(range(-3, 4), repeat=2))
    weights = {point: math.exp(-max(map(abs, point)) / 1.3) for point in points}
    q = math.exp(-1 / 1.3)
    total = sum(q**r * (8 * r or 1) for r in range(400))

    seen = [int((found == point).all(axis=1).sum()) for point in points]
    expected = [20_000 * weights[point] / total for point in points]
    rest = 20_000 - sum(seen), 20_000 - sum(expected)

    assert stats.chisquare([*seen, rest[0]], [*expected, rest[1]]).pvalue > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("dimension", [1, 3, 5])
def test_standard_deviation(dimension):
    """A coordinate has the standard deviation b √((d+1)(d+2)/3)."""
    found = draws(20_000, dimension, 2.0**20, 2) / 2.0**20

    assert found.std() == pytest.approx(math.sqrt((dimension + 1) * (dimension + 2) / 3), rel=0.05)
