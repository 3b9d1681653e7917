"""From a noisy embedding to weighted points."""

from __future__ import annotations

import numpy as np
import pytest

import dfprivacy as dp
from dfprivacy.features import Nystrom, ProductKernel, spread
from dfprivacy_kme.embedding import Space
from dfprivacy_kme.fitting import absolute, hull, shrunk, simplex

COLUMNS = tuple(dp.Column(name, bounds=(0.0, 200.0)) for name in "xy")
KERNEL = ProductKernel(COLUMNS, 100.0)  # gamma = 5e-5
ROWS = np.array([[90, 110], [100, 95], [120, 105], [80, 80]], dtype=float)
POINTS = np.array([[100, 100], [50, 100], [100, 150], [100, 100]], dtype=float)
SUBSPACE = Nystrom(KERNEL, POINTS, 1e-10)
SPACE = Space.of(SUBSPACE, KERNEL)
PSI = SPACE.features(POINTS)
ALPHA = SPACE.features(ROWS).mean(axis=0)
NOISY = ALPHA + np.array([0.03, -0.02, 0.05])


def distance(weights):
    """Distance in the kernel's space of the weighted points from the rows."""
    K, across, own = KERNEL(POINTS, POINTS), KERNEL(POINTS, ROWS).mean(axis=1), KERNEL(ROWS, ROWS).mean()
    return np.sqrt(own - 2 * weights @ across + weights @ K @ weights)


def test_reference_projection():
    """The kernel means at the points, and the coordinates of four rows in the span of three points."""
    expected = [0.982141061063, 0.879675246800, 0.857790869192, 0.982141061063]

    assert pytest.approx(expected, abs=1e-9) == KERNEL(POINTS, ROWS).mean(axis=1).tolist()
    assert pytest.approx([0.982141061063, 0.027510741210, -0.019020261053], abs=1e-9) == ALPHA.tolist()
    assert pytest.approx(0.965719675039, abs=1e-9) == ALPHA @ ALPHA


def test_reference_weights_without_constraint():
    """Algorithm 1's weights, without noise and with some."""
    exact, noisy = (np.append(SUBSPACE.map.T @ beta, 0.0) for beta in (ALPHA, NOISY))

    assert pytest.approx([0.96620967, 0.05849389, -0.04044126, 0], abs=1e-7) == exact.tolist()
    assert pytest.approx(0.02066023785, abs=1e-8) == distance(exact)
    assert pytest.approx([0.93991819, 0.01596949, 0.06586974, 0], abs=1e-7) == noisy.tolist()
    assert pytest.approx(0.06501419405, abs=1e-8) == distance(noisy)


@pytest.mark.parametrize(
    ("beta", "expected", "away"),
    [
        (ALPHA, [0.93601325, 0.06398675, 0], 0.03003683454),
        (NOISY, [0.93871085, 0.00569445, 0.0555947], 0.05654358937),
    ],
)
def test_reference_weights_of_a_distribution(beta, expected, away):
    """The closest distribution on the points; two equal points share their weight."""
    found = simplex(PSI, beta, 1e-15)

    assert pytest.approx(expected, abs=1e-7) == [found[0] + found[3], found[1], found[2]]
    assert pytest.approx(away, abs=1e-8) == distance(found)


@pytest.mark.parametrize(
    ("most", "objective", "total"), [(1.0, -1.02502483504, 1.0), (1.5, -1.02544568295, 1.02175742)]
)
def test_reference_weights_of_theorem_11(most, objective, total):
    """The closest weights whose absolute values add up to a bound at most."""
    u = absolute(PSI, NOISY, 1e-15, most)

    assert pytest.approx(objective, abs=1e-8) == (u @ PSI) @ (u @ PSI) - 2 * u @ PSI @ NOISY
    assert pytest.approx(total, abs=1e-7) == np.abs(u).sum()


def test_reference_posterior():
    """The posterior mean of the embedding, given the points as a public sample."""
    found = shrunk(PSI, NOISY, 0.03)

    assert pytest.approx([0.987450473544, 0.014098106337, 0.036132661414], abs=1e-8) == found.tolist()


def test_a_sample_of_another_population_is_mistrusted():
    """Far from the public sample, and with little noise, the posterior mean is the noisy embedding."""
    rng = np.random.default_rng(3)
    psi = rng.normal(size=(200, 5)) * 0.1
    beta = np.full(5, 0.5)

    assert np.linalg.norm(shrunk(psi, beta, 1e-3) - beta) < 1e-2


@pytest.mark.parametrize("size", [1, 3, 40])
def test_no_distribution_is_closer(size):
    """The gap to every point's direction is within what was asked, whatever the embedding."""
    rng = np.random.default_rng(size)
    psi = rng.normal(size=(size, 6))
    for length in (0.0, 0.5, 1e3):
        beta = length * rng.normal(size=6)

        w = simplex(psi, beta, 1e-9)

        gradient = psi @ (w @ psi - beta)
        assert pytest.approx(1.0) == w.sum()
        assert (w >= 0).all()
        assert w @ gradient - gradient.min() <= 1e-9 + 1e-9 * max(1, length)


def test_two_subspaces_have_their_common_points():
    """The maps to the span of the common points give its coordinates of any row, and have orthonormal rows."""
    fine = Space.of(Nystrom(KERNEL, spread(COLUMNS, 64), 1e-9), KERNEL)
    coarse = Space.of(Nystrom(KERNEL, spread(COLUMNS, 48), 1e-3), KERNEL)
    rows = np.random.default_rng(1).uniform(0, 200, (50, 2))

    space, first, second = fine.common(coarse)

    assert 4 < len(space) <= len(coarse) < len(fine)
    for each, to_common in ((fine, first), (coarse, second)):
        assert each.features(rows) @ to_common.T == pytest.approx(space.features(rows), abs=1e-6)
        assert to_common @ to_common.T == pytest.approx(np.eye(len(space)), abs=1e-6)


@pytest.mark.statistical
def test_the_hull_takes_most_of_the_noise_away():
    """The noise in the span is chi-squared with F degrees of freedom; projected to the hull, it is far less."""
    space = Space.of(Nystrom(KERNEL, spread(COLUMNS, 64), 1e-6), KERNEL)
    rng = np.random.default_rng(11)
    rows = np.clip(rng.normal(100, 15, size=(2000, 2)), 0, 200)
    alpha, sigma, candidates = space.features(rows).mean(axis=0), 0.004, spread(COLUMNS, 256)
    raw, projected = [], []
    for _ in range(200):
        beta = alpha + sigma * rng.normal(size=len(alpha))
        points, w = hull(space.features, candidates, beta, 1e-3 * sigma**2, COLUMNS)
        raw.append(float((beta - alpha) @ (beta - alpha)))
        left = w @ space.features(points) - alpha
        projected.append(float(left @ left))

    spread_of_mean = sigma**2 * np.sqrt(2 * len(alpha) / 200)
    assert abs(np.mean(raw) - sigma**2 * len(alpha)) < 5 * spread_of_mean
    assert np.mean(projected) < np.mean(raw) / 2


@pytest.mark.parametrize(
    ("dimension", "seed", "degree", "count", "expected"),
    [
        (2, 0, 20, 100_000, 0.9650184036189766),
        (2, 1, 20, 100_000, 0.940435510604633),
        (5, 0, 7, 100_000, 0.9736165423188158),
        (5, 1, 7, 100_000, 0.9575781757029587),
        (2, 0, 20, 20_000, 0.9650192507112481),
        (5, 0, 7, 20_000, 0.9736588800187369),
    ],
)
def test_reference_norms_of_the_papers_tables(expansion, dimension, seed, degree, count, expected):
    """The squared norm of the embedding of rows of ten clusters, in the exact basis; the last two by all pairs."""
    rng = np.random.default_rng([dimension, seed])
    means = 100 + np.sqrt(200) * rng.standard_normal((10, dimension))
    shares = 1 / np.arange(1, 11)
    of = rng.choice(10, 100_000, p=shares / shares.sum())
    rows = (means[of] + np.sqrt(30) * rng.standard_normal((100_000, dimension)))[:count]
    columns = [dp.Column(f"x{i}", bounds=(0.0, 200.0)) for i in range(dimension)]
    basis = expansion(ProductKernel(columns, np.sqrt(dimension / 2e-4)), degree)

    mean = sum(basis.features(part).sum(axis=0) for part in np.array_split(rows, 50)) / len(rows)

    assert pytest.approx(expected, rel=1e-11 if dimension == 2 else 1e-8) == mean @ mean
