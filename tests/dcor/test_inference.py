"""What is concluded from five noisy numbers."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import math

import numpy as np
import pytest

from dfprivacy import ArgumentError
from dfprivacy_dcor.inference import Numbers


def numbers(values, scale=1e-3, rows=1000):
    """Noisy s_xy, s_x, s_y, m_x and m_y of complete rows, with noise of one scale."""
    below = [value - 1 for value in values[3:]]
    return Numbers((*values[:3], *below, 1.0), (*(scale,) * 5, 0.0), rows, (0.5,) * 4)


@pytest.mark.parametrize(
    "values", [[0] * 5, [-1e9] * 5, [1e9] * 5, [1e9, -1e9, -1e9, -1e9, -1e9], [-5, 5, 5, 0, 0]]
)
def test_any_numbers_have_a_sensible_conclusion(values):
    """Whatever the noise is, correlation, interval and p-value are finite and within 0 and 1."""
    found = numbers(values)

    low, high = found.interval(0.95)
    answers = [found.correlation, found.corrected, found.pvalue(), low, high]

    assert all(0 <= answer <= 1 for answer in answers)
    assert low <= high


def test_hardly_any_noise_gives_the_ratio():
    """Without noise to speak of the correlation is s_xy over the root of s_x s_y."""
    found = numbers([0.1, 0.2, 0.2, 0.33, 0.33], scale=1e-9)

    assert 0.5 == pytest.approx(found.correlation)
    assert (0.1**2 - 0.33**2 / 1000) / 0.2**2 == pytest.approx(found.corrected)
    assert 0.5 == pytest.approx(np.mean(found.interval(0.95)), abs=1e-6)
    assert found.informative


@pytest.mark.statistical
def test_the_interval_covers():
    """Of 2,000 noisy versions of the same numbers at least 95 % have an interval that covers the truth."""
    rng = np.random.default_rng(1)
    truth, scale = np.array([0.1, 0.2, 0.22, 0.33, 0.33]), 0.01
    ratio = 0.1 / math.sqrt(0.2 * 0.22)

    noisy = truth + rng.laplace(scale=scale, size=(2000, 5))
    covered = [low <= ratio <= high for low, high in (numbers(v, scale).interval(0.95) for v in noisy)]

    assert np.mean(covered) > 0.95


@pytest.mark.parametrize("confidence", [0, 1, "0.95", None, True, math.nan])
def test_confidence_levels_that_are_none_are_refused(confidence):
    """A confidence level lies between 0 and 1."""
    with pytest.raises(ArgumentError):
        numbers([0.1] * 5).interval(confidence)
