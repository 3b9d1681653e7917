"""The moments test: reference noise, joint sensitivity, level."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dfprivacy._privacy.calibrate import gaussian_scale
from dfprivacy.schema import Column
from dfprivacy_kernel.design import Design
from dfprivacy_kernel.moments import Contrast, Party, conclude, conclude_apart, scales

SIGMA = {(1.0, 1e-5): 3.730632, (0.5, 1e-5): 7.031827, (2.5, 1e-5): 1.634002}


def test_noise_of_the_curator():
    """Difference and pooled mean have their reference noise."""
    found = scales("me", 5, 1000, 1000)

    assert found.difference * SIGMA[1, 1e-5] == pytest.approx(0.0085986811, rel=1e-6)
    assert found.pooled * SIGMA[1, 1e-5] == pytest.approx(0.0171973621, rel=1e-6)


@pytest.mark.parametrize(
    ("n", "m", "J", "epsilon", "expected"),
    [
        (1000, 1000, 5, 1.0, (0.0083419459, 0.0083419459, 0.0046632895)),
        (500, 2000, 10, 0.5, (0.0444731768, 0.0111182943, 0.0140636534)),
        (10000, 10000, 5, 2.5, (3.653740644e-4, 3.653740644e-4, 2.042503119e-4)),
    ],
)
def test_noise_of_separate_means(n, m, J, epsilon, expected):
    """Separate means and the pooled second moment have their reference noise."""
    sigma = SIGMA[epsilon, 1e-5]
    means = [scales("me", J, size).difference * sigma for size in (n, m)]

    assert (*means, scales("me", J, n, m).diagonal * sigma) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("J", [3, 5, 8])
def test_the_second_moment_is_free(J):
    """At the corners of the cube, mean and second moment together move exactly as the mean alone can."""
    corners = np.array(list(itertools.product([-0.5, 0.5], repeat=J)))
    upper = np.triu_indices(J)
    seconds = np.array([np.outer(v, v)[upper] for v in corners])

    apart = corners[:, None] - corners[None]
    moved = (apart**2).sum(-1) / J + 4 / J**2 * ((seconds[:, None] - seconds[None]) ** 2).sum(-1)

    assert moved.max() == pytest.approx(1, abs=1e-12)


def released(rng, n, m, J, sigma, shift=0.0):
    """A curator's release of correlated features in the cube, and its noise."""
    noise = scales("me", J, n, m)
    mix = rng.standard_normal((3, J))
    v = np.tanh(rng.standard_normal((n + m, 3)) @ mix) / 2
    v[:n] = np.clip(v[:n] + shift, -0.5, 0.5)
    error = np.triu(noise.diagonal * sigma * rng.standard_normal((J, J)))
    d = v[:n].mean(0) - v[n:].mean(0) + noise.difference * sigma * rng.standard_normal(J)
    u = v.mean(0) + noise.pooled * sigma * rng.standard_normal(J)
    S = v.T @ v / (n + m) + error + np.triu(error, 1).T
    scaled = type(noise)(*(sigma * x for x in (noise.difference, noise.pooled, noise.diagonal, noise.beside)))
    return Contrast(d, u, S, scaled, (n, m), (n, m))


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.5, 2.5])
def test_level(epsilon):
    """With the margin the test rejects a true hypothesis at most in 6.5% of cases."""
    rng = np.random.default_rng(7)

    rejected = sum(conclude(released(rng, 400, 900, 5, SIGMA[epsilon, 1e-5])).pvalue < 0.05 for _ in range(1000))

    assert rejected / 1000 <= 0.065 + 4 * math.sqrt(0.05 * 0.95 / 1000)


def test_finds_a_shift():
    """A shift far above the noise is found."""
    found = conclude(released(np.random.default_rng(1), 20_000, 20_000, 5, SIGMA[1, 1e-5], shift=0.05))

    assert found.pvalue < 1e-6


def test_any_noisy_numbers():
    """Whatever the noisy covariance is, the p-value is a probability."""
    noise = scales("me", 3, 50, 60)
    S = -100 * np.eye(3)

    found = [
        conclude(Contrast(np.full(3, 9.0), np.full(3, -7.0), S, noise, (50, 60), (50, 60))).pvalue,
        conclude_apart([Party(np.ones(3), S, noise, 50), Party(-np.ones(3), S, noise, 60)]).pvalue,
    ]

    assert all(0 <= p <= 1 for p in found)


# Small groups beside large ones, and hardly any noise


def small_beside_large(columns, n, m, epsilon, runs, seed):
    """P-values of two groups of uniform rows, as the mechanism would give them."""
    rng = np.random.default_rng(seed)
    asked = [Column(f"x{i}", bounds=(0.0, 1.0), fill=0.5) for i in range(columns)]
    embedding = Design.read(asked, "me", None, 0.5, None, 5).embedding(mapped=False)
    (part,) = embedding.parts
    sigma = gaussian_scale(2**60, 1, Fraction(epsilon), Fraction(1, 10**6)) / 2**30
    noise = scales("me", 5, n, m).times(sigma)
    pvalues = []
    for _ in range(runs):
        v = part.features(rng.random((n + m, columns))) - 0.5
        error = np.triu(noise.diagonal * rng.standard_normal((5, 5)))
        contrast = Contrast(
            v[:n].mean(axis=0) - v[n:].mean(axis=0) + noise.difference * rng.standard_normal(5),
            v.mean(axis=0) + noise.pooled * rng.standard_normal(5),
            v.T @ v / (n + m) + error + np.triu(error, 1).T,
            noise,
            (n, m),
            (n, m),
        )
        pvalues.append(conclude(contrast).pvalue)
    return np.array(pvalues)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("columns", "n", "m", "epsilon"), [(2, 100, 5000, 5), (2, 40, 2000, 50), (5, 40, 2000, 50)]
)
def test_a_small_group_keeps_the_level(columns, n, m, epsilon):
    """Where few of the rows of a small group are near a location, its mean is not normal, and p-values hold."""
    pvalues = small_beside_large(columns, n, m, epsilon, 400, 3)

    for level in (0.05, 0.01, 0.001):
        assert (pvalues <= level).mean() <= level + 5 * math.sqrt(level * (1 - level) / 400)
