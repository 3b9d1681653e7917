"""Noise of the cube follows its law."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dfprivacy import mechanism, protect
from dfprivacy.cube import cube_noise
from dfprivacy.errors import ArgumentError
from dfprivacy.features import Moments
from dfprivacy.losses import Cube, loss_from_dict
from dfprivacy.noise import OpenDPSampler
from dfprivacy.statistics import OfRows
from dfprivacy.testing.noise import seeded_noise


def draws(count, dimension, scale, seed):
    with seeded_noise(seed) as sampler:
        return np.array([cube_noise(dimension, scale, sampler) for _ in range(count)])


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


def test_noise_from_the_secure_source():
    """The sampler in force adds it to a vector of any shape, and other noise every time."""
    values = np.zeros((2, 3), dtype=np.int64)

    found = [OpenDPSampler().cube(values, 2.0**30) for _ in range(2)]

    assert [noisy.shape for noisy in found] == [(2, 3)] * 2
    assert (found[0] != found[1]).any()


def test_a_claim_is_checked():
    """Noise that is too small for its claim is not accounted for, and one that is large enough is kept as it is."""
    loss = Cube(Fraction(1, 2), 3, 6.0)

    assert loss == loss_from_dict(loss.to_dict())
    with pytest.raises(ArgumentError, match="private"):
        Cube(Fraction(1, 2), 3, 5.9)


class Two(OfRows):
    """Two values that one row moves by at most 1 each."""

    shape = (2,)

    def __init__(self, column):
        self.columns = (column,)

    def value(self, rows):
        return np.array([rows.standardized(self.columns[0]).sum() / 2] * 2)

    def sensitivity(self, relation, norm, public):
        return 1.0 if norm == math.inf else 2 ** (1 / norm)


def test_the_scale_takes_the_norm_of_infinity():
    """Two values that move together cost what one does, and a sum of features is refused."""

    @mechanism(columns={"column": "numeric"})
    def both(curator, column):
        return curator.measure(Two(column), noise="cube").noise.scale

    @mechanism(columns={"column": "numeric"})
    def total(curator, column):
        return curator.sum(Moments(column), noise="cube")

    view = protect(pd.DataFrame({"x": [1.0, 2.0]}), "cube", epsilon=1, bounds={"x": (0, 3)}, ledger="memory:")

    assert view._question(both, ("x",), {"epsilon": 0.5}).ask().value == pytest.approx(2, rel=1e-6)
    with pytest.raises(ArgumentError, match="cube"):
        view._question(total, ("x",), {"epsilon": 0.5}).ask()
