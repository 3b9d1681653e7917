"""How often the tests reject, where both samples come from one distribution and where they do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import eigh

from dfprivacy.schema import Column
from dfprivacy_kernel import law
from dfprivacy_kernel.design import Design
from dfprivacy_kernel.law import Measured

pytestmark = pytest.mark.statistical


@pytest.fixture(autouse=True)
def _coarse(monkeypatch):
    """P-values as integrals over fewer points, which moves them by a few thousandths."""
    monkeypatch.setattr(law, "_POINTS", 2**9)
    law.cube_noise.cache_clear()  # else the points are those of whoever asked first
    yield
    law.cube_noise.cache_clear()


def columns(d, reach=3.0):
    return tuple(Column(f"x{i}", bounds=(-reach, reach), fill=0.0) for i in range(d))


def embedder(design):
    """What gives the features of rows, in float64, and the matrix that embeds them."""
    embedding = design.embedding()
    (part,) = embedding.parts
    reach = design.columns[0].high
    return lambda rows: part.features(np.clip(rows, -reach, reach)), embedding.map


def moments(C):
    return np.array(
        [np.trace(C), np.linalg.norm(C), eigh(C, eigvals_only=True, subset_by_index=[len(C) - 1] * 2)[0]]
    )


def second_moment(features, embedding):
    """The mean outer product of embedded rows, of the mean outer product of their features."""
    return embedding @ (features.T @ features / len(features)) @ embedding.T


def noisy_pvalue(features, embedding, n, epsilon, rng):
    """The p-value of the one-release test of rows, n of them in either sample, with noise from NumPy."""
    first, second = features[:n].mean(axis=0), features[n:].mean(axis=0)
    T = float(np.linalg.norm(embedding @ (first - second)))
    b, r = math.sqrt(2) / 2 / (0.85 * epsilon), 2 / (0.15 * epsilon)
    covariance = second_moment(features - (first + second) / 2, embedding)
    spread = 2 * n * moments(covariance) + rng.gamma(4) * rng.uniform(-1, 1, 3) * r
    return Measured(n / 2 * T + rng.laplace(0, b), b, spread, np.full(3, r), (n, n)).pvalue


def rejections(design, first, second, n, epsilon, runs, seed):
    rng = np.random.default_rng(seed)
    feature, embedding = embedder(design)
    found = [
        noisy_pvalue(feature(np.vstack([first(rng, n), second(rng, n)])), embedding, n, epsilon, rng) <= 0.05
        for _ in range(runs)
    ]
    return sum(found) / runs


def test_the_level_is_kept():
    """Normal rows of 50 columns, 500 in each sample, ε = 1: rejected in about 3% of cases, and not in 5.5%."""
    design = Design.read(columns(50), "nystrom", None, 0.5, None, 100)

    def normal(rng, n):
        return rng.standard_normal((n, 50))

    rate = rejections(design, normal, normal, 500, 1.0, 600, 1)

    assert 0.001 < rate < 0.055 + 4 * math.sqrt(0.055 / 600)


def test_stretched_blobs_are_found():
    """Blobs that are stretched along an axis, 2000 rows in each sample, ε = 0.5: found in 97% of cases."""
    design = Design.read(columns(2, 11.5), "nystrom", math.sqrt(2) * 3 / 11.5, 0.5, None, 200)

    def blobs(rng, n, stretch=1.0):
        return rng.standard_normal((n, 2)) * [stretch, 1.0] + 5 * (rng.integers(4, size=(n, 2)) - 1.5)

    rate = rejections(design, blobs, lambda rng, n: blobs(rng, n, math.sqrt(2)), 2000, 0.5, 200, 2)

    assert rate >= 0.90


def test_pairs_keep_the_level():
    """Pairs whose two rows are exchangeable, however alike, are told apart in one case of twenty at most."""
    design = Design.read(columns(2), "nystrom", None, 0.5, None, 40)
    (feature, embedding), rng, n = embedder(design), np.random.default_rng(3), 300
    rejected = 0
    for _ in range(600):
        person = rng.standard_normal((n, 2))
        x, y = (feature(person + 0.5 * rng.standard_normal((n, 2))) for _ in range(2))
        z = x - y
        b, r = 2 * math.sqrt(2) / 0.85, 2 / 0.15
        spread = n * moments(second_moment(z, embedding)) + rng.gamma(4) * rng.uniform(-1, 1, 3) * r
        apart = float(np.linalg.norm(embedding @ z.sum(axis=0))) + rng.laplace(0, b)
        rejected += Measured(apart, b, spread, np.full(3, r), (n, n), paired=True).pvalue <= 0.05

    assert rejected / 600 < 0.05 + 5 * math.sqrt(0.05 / 600)
