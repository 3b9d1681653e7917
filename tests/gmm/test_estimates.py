"""From noisy sums to covariances: repair, standard errors, and doubts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dfprivacy_gmm.estimates import estimates, nearest, repaired
from dfprivacy_gmm.sums import Sums

NOISE = np.full((2, 2), 0.1)


def sums_of(y, codes=None, *, sd=(0.0, 0.0, 0.0)):
    """The sums of rows y in [-1, 1] as they are, declared to have noise."""
    codes = np.zeros(len(y), int) if codes is None else codes
    groups = [y[codes == code] for code in range(codes.max() + 1)]
    d = y.shape[1]
    return Sums(
        np.array([float(len(part)) for part in groups]),
        np.array([part.sum(axis=0) for part in groups]),
        np.array([part.T @ part for part in groups]),
        sd[0],
        sd[1],
        np.full((d, d), sd[2]),
    )


@pytest.mark.parametrize("sizes", [None, np.array([5.0, 9.0])])
def test_sums_are_taken_apart(sizes):
    """Counts where they are private, totals, and the upper triangle of the products, row by row."""
    values = np.array([[4.0, 1, 2, 10, 20, 30], [7.0, 3, 5, 40, 50, 60]])
    sd = np.array([9.0, 8, 8, 1, 2, 1])
    start = 0 if sizes is None else 1

    found = Sums.named(values[:, start:], sd[start:], sizes)

    assert found.sizes.tolist() == ([4.0, 7.0] if sizes is None else [5.0, 9.0])
    assert found.size_sd == (9.0 if sizes is None else 0.0)
    assert found.totals.tolist() == [[1, 2], [3, 5]]
    assert found.products.tolist() == [[[10, 20], [20, 30]], [[40, 50], [50, 60]]]
    assert found.total_sd == 8.0
    assert found.product_sd.tolist() == [[1, 2], [2, 1]]


def test_exact_sums_give_numpys_moments():
    """Without noise the estimates are numpy's means and covariances with the divisor n - 1."""
    y = np.random.default_rng(1).uniform(-1, 1, (50, 3))

    found = estimates(sums_of(y))

    assert found.means[0] == pytest.approx(y.mean(axis=0))
    assert found.covariances[0] == pytest.approx(np.cov(y.T))


def test_the_pooled_covariance_is_the_average_over_rows():
    """Pooling is that of linear discriminant analysis: deviations from each group's own mean, n - 3 of them."""
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 3, 90)
    y = rng.uniform(-0.5, 0.5, (90, 2)) + codes[:, None] * 0.2
    own = np.array([y[codes == code].mean(axis=0) for code in range(3)])

    found = estimates(sums_of(y, codes)).pooled()

    assert found.covariances.shape == (1, 2, 2)
    assert found.covariances[0] == pytest.approx(np.cov((y - own[codes]).T, ddof=3))


def test_the_papers_repair_is_a_floor_of_the_negative_eigenvalues():
    """Negative eigenvalues become the grid's minimum, in the columns' units; nothing else changes."""
    vectors, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))
    units = np.array([1.0, 2.0, 5.0, 0.5])
    scale = units[:, None] * units
    matrix = (vectors * [-0.3, -0.01, 0.02, 1.5]) @ vectors.T

    found = repaired(matrix / scale, np.zeros((4, 4)), repair="paper", grid_minimum=0.05, units=units)

    assert np.linalg.eigvalsh(found * scale) == pytest.approx([0.02, 0.05, 0.05, 1.5])
    assert found * scale == pytest.approx((vectors * [0.05, 0.05, 0.02, 1.5]) @ vectors.T)


def test_clip_changes_a_covariance_in_nothing():
    """What is a covariance stays one, under "clip"; under the noise-aware repair too, if there is no noise."""
    matrix = np.array([[0.5, 0.2], [0.2, 0.4]])

    for repair in ("clip", "noise_aware", "paper"):
        found = repaired(matrix, np.zeros((2, 2)), repair=repair, grid_minimum=0.01)

        assert found == pytest.approx(matrix)


def test_shrinking_by_hand():
    """Off the diagonal it keeps the share 1 - s² d (d-1)/||off||²; eigenvalues are at least s √d."""
    matrix = np.array([[0.5, 0.3], [0.3, 0.5]])
    share = 1 - 2 * 0.1**2 / (2 * 0.3**2)

    found = repaired(matrix, NOISE, repair="shrink")

    assert found == pytest.approx(np.array([[0.5, 0.3 * share], [0.3 * share, 0.5]]))
    assert repaired(np.array([[0.5, 0.05], [0.05, 0.4]]), NOISE, repair="shrink") == pytest.approx(
        np.diag([0.5, 0.4])
    )
    floored = repaired(np.diag([0.5, 0.01]), NOISE, repair="shrink")
    assert floored == pytest.approx(np.diag([0.5, 0.1 * np.sqrt(2)]))


def test_the_noise_aware_repair_keeps_what_can_be_kept():
    """What has no less variance in any direction than the noise is not changed, however large the noise is."""
    matrix = np.array([[0.5, 0.3], [0.3, 0.5]])

    assert repaired(matrix, NOISE, repair="noise_aware") == pytest.approx(matrix)


def off_by(X, C, s):
    """Squared distance of the upper triangles in standard deviations of the noise."""
    upper = np.triu_indices(len(C))
    return float(np.square((X - C)[upper] / s[upper]).sum())


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("d", [2, 3, 6])
def test_nothing_positive_definite_is_nearer_in_standard_deviations_of_the_noise(d, equal):
    """The optimality conditions hold: the change is normal to the cone, in the noise's metric."""
    rng = np.random.default_rng(d)
    C = rng.normal(size=(d, d))
    C = (C + C.T) / 10
    s = np.full((d, d), 0.1) if equal else rng.uniform(0.05, 0.2, (d, d))
    s = (s + s.T) / 2
    s[np.diag_indices(d)] *= math.sqrt(2)
    floor = 0.01

    X = nearest(C, s, floor)

    slope = (X - C) / s**2 * np.where(np.eye(d), 2, 1)  # half the derivative in a symmetric direction
    assert np.linalg.eigvalsh(X).min() >= floor - 1e-9
    assert np.linalg.eigvalsh(slope).min() >= -1e-4 * np.abs(slope).max()
    assert abs(np.sum(slope * (X - floor * np.eye(d)))) <= 1e-4 * np.abs(slope).max()
    for _ in range(200):
        other = rng.normal(size=(d, d)) * 0.1
        other = X + (other + other.T) / 2
        e, V = np.linalg.eigh(other)
        assert off_by((V * np.maximum(e, floor)) @ V.T, C, s) >= off_by(X, C, s) - 1e-6
    if equal:  # Higham's: it is enough to clip eigenvalues
        e, V = np.linalg.eigh(C)
        assert pytest.approx((V * np.maximum(e, floor)) @ V.T, abs=1e-9) == X


@pytest.mark.parametrize("repair", ["noise_aware", "shrink", "paper", "clip"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_symmetric_matrix_can_be_repaired(repair, data):
    """Whatever the noise made of it, the result is finite, symmetric, and has no negative eigenvalue."""
    d = data.draw(st.integers(1, 5))
    size = data.draw(st.sampled_from([1e-9, 1.0, 1e12]))
    raw = data.draw(hnp.arrays(float, (d, d), elements=st.floats(-1, 1))) * size
    noise = np.full((d, d), data.draw(st.sampled_from([0.0, 1e-3, 1e9])))

    found = repaired(raw + raw.T, noise, repair=repair, grid_minimum=0.01)

    assert np.isfinite(found).all()
    assert (found == found.T).all()
    assert np.linalg.eigvalsh(found).min() >= -1e-14 * np.abs(found).max()


@pytest.mark.statistical
def test_standard_errors_are_those_of_the_noise():
    """Over 4000 draws of small noise in all sums, means and covariances spread as predicted, to 12%."""
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 2, 4000)
    y = np.clip(rng.normal(0.2 + 0.2 * codes[:, None], 0.2, (4000, 2)), -1, 1)
    exact = sums_of(y, codes, sd=(10.0, 8.0, 6.0))
    means, covariances, pooled = [], [], []
    for _ in range(4000):
        noise = rng.normal(0, 6, (2, 2, 2))
        products = exact.products + np.triu(noise) + np.triu(noise, 1).transpose(0, 2, 1)
        noisy = Sums(
            exact.sizes + rng.normal(0, 10, 2),
            exact.totals + rng.normal(0, 8, (2, 2)),
            products,
            *(10.0, 8.0, exact.product_sd),
        )
        noisy = estimates(noisy)
        means.append(noisy.means)
        covariances.append(noisy.covariances)
        pooled.append(noisy.pooled().covariances)
    truth = estimates(exact)

    expected = truth.mean_errors(sampling=False)
    assert np.std(means, axis=0) == pytest.approx(expected, rel=0.06)
    expected = truth.covariance_errors("none")
    assert np.std(covariances, axis=0) == pytest.approx(expected, rel=0.06)
    common = truth.pooled()
    expected = common.covariance_errors("none")
    assert np.std(pooled, axis=0) == pytest.approx(expected, rel=0.12)


@pytest.mark.statistical
def test_standard_errors_are_those_of_sampling():
    """Without noise, they are the textbook's of normal samples, over 3000 samples to 7%."""
    rng = np.random.default_rng(5)
    factor = 0.1 * np.array([[1.0, 0.0], [0.6, 0.8]])
    samples = rng.standard_normal((3000, 200, 2)) @ factor.T
    found = [estimates(sums_of(y)) for y in samples]
    errors = [
        np.mean([each.mean_errors() for each in found], axis=0),
        np.mean([each.covariance_errors("normal") for each in found], axis=0),
        np.mean([each.correlation_errors("normal") for each in found], axis=0),
    ]

    assert np.std([each.means for each in found], axis=0) == pytest.approx(errors[0], rel=0.07)
    assert np.std([each.covariances for each in found], axis=0) == pytest.approx(errors[1], rel=0.07)
    assert np.std([each.correlations() for each in found], axis=0) == pytest.approx(errors[2], rel=0.07, abs=1e-9)


def test_doubts_are_named():
    """A class that its noise could explain, one with too few rows, and a covariance of noise are told apart."""
    y = np.random.default_rng(6).uniform(-1, 1, (100, 2))
    codes = np.array([0] * 98 + [1] * 2)

    clear = estimates(sums_of(y)).doubts(None)
    few = estimates(sums_of(y, codes)).doubts(None)
    noisy = estimates(sums_of(y, codes, sd=(5.0, 5.0, 5.0))).doubts(None)
    drowned = estimates(sums_of(y, np.arange(100) % 2, sd=(0.0, 9.0, 90.0))).pooled().doubts(None)

    assert clear == []
    assert few[0] == (1, "it has about 2 rows, too few for 2 columns")
    assert (1, "the noise could be all of its number of rows: its numbers say nothing") in noisy
    assert drowned == [(None, "the covariance is mostly noise")]


@pytest.mark.parametrize(
    ("scale", "radius", "noise", "named"),
    [(0.9, 1.0, 0.0, True), (0.5, 1.0, 0.0, False), (1.0, math.sqrt(2), 0.0, False), (0.9, 1.0, 100.0, False)],
)
def test_rows_as_long_as_the_radius_are_named(scale, radius, noise, named):
    """Where rows end at the radius, and that is not noise, a doubt says so; a radius that scales none is fine."""
    angles = np.random.default_rng(8).uniform(0, 2 * np.pi, 500)
    y = scale * np.array([np.cos(angles), np.sin(angles)]).T
    d = estimates(sums_of(y, sd=(0.0, 0.0, noise))).doubts(radius)

    said = "many rows are as long as the radius and were scaled down, to the middle of the bounds"
    assert ((None, f"{said}: use radius=2**0.5") in d) is named
