"""From noisy sums to covariances: repair, standard errors, and doubts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dfprivacy_gmm.estimates import estimate_moments, nearest_covariance, repaired_covariance
from dfprivacy_gmm.sums import Sums

NOISE = np.full((2, 2), 0.1)


def sums_of(y, codes=None, *, sd=(0.0, 0.0, 0.0)):
    """The sums of rows y in [-1, 1] as they are, declared to have noise."""
    codes = np.zeros(len(y), int) if codes is None else codes
    groups = [y[codes == code] for code in range(codes.max() + 1)]
    totals, products = ([part.sum(axis=0) for part in groups], [part.T @ part for part in groups])
    noise = np.full((y.shape[1],) * 2, sd[2])
    return Sums(np.array([*map(len, groups)], float), np.array(totals), np.array(products), sd[0], sd[1], noise)


@pytest.mark.parametrize("sizes", [None, np.array([5.0, 9.0])])
def test_sums_are_taken_apart(sizes):
    """Counts where they are private, totals, and the upper triangle of the products, row by row."""
    values = np.array([[4.0, 1, 2, 10, 20, 30], [7.0, 3, 5, 40, 50, 60]])
    sd = np.array([9.0, 8, 8, 1, 2, 1])
    start = 0 if sizes is None else 1

    found = Sums.from_outer(values[:, start:], sd[start:], sizes)

    assert found.sizes.tolist() == ([4.0, 7.0] if sizes is None else [5.0, 9.0])
    assert (found.size_sd, found.total_sd) == (9.0 if sizes is None else 0.0, 8.0)
    assert found.totals.tolist() == [[1, 2], [3, 5]]
    assert found.products.tolist() == [[[10, 20], [20, 30]], [[40, 50], [50, 60]]]
    assert found.product_sd.tolist() == [[1, 2], [2, 1]]


def test_exact_sums_give_numpys_moments():
    """With the divisor n - 1; pooled as in linear discriminant analysis, from each group's own mean, with n - 3."""
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 3, 90)
    y = rng.uniform(-0.5, 0.5, (90, 2)) + codes[:, None] * 0.2
    own = np.array([y[codes == code].mean(axis=0) for code in range(3)])

    found = estimate_moments(sums_of(y, codes))

    assert found.means == pytest.approx(own)
    assert found.covariances == pytest.approx(np.array([np.cov(y[codes == code].T) for code in range(3)]))
    assert found.pooled().covariances == pytest.approx(np.cov((y - own[codes]).T, ddof=3)[None])


def test_the_papers_repair_is_a_floor_of_the_negative_eigenvalues():
    """Negative eigenvalues become the grid's minimum, in the columns' units; nothing else changes."""
    vectors, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))
    units = np.array([1.0, 2.0, 5.0, 0.5])
    scale = units[:, None] * units
    matrix = (vectors * [-0.3, -0.01, 0.02, 1.5]) @ vectors.T

    found = repaired_covariance(matrix / scale, np.zeros((4, 4)), repair="paper", grid_minimum=0.05, units=units)

    assert found * scale == pytest.approx((vectors * [0.05, 0.05, 0.02, 1.5]) @ vectors.T)


SHARE = 1 - 2 * 0.1**2 / (2 * 0.3**2)


@pytest.mark.parametrize(
    ("repair", "noise", "matrix", "expected"),
    [
        *((repair, 0 * NOISE, [[0.5, 0.2], [0.2, 0.4]], None) for repair in ("clip", "noise_aware", "paper")),
        ("noise_aware", NOISE, [[0.5, 0.3], [0.3, 0.5]], None),
        ("shrink", NOISE, [[0.5, 0.3], [0.3, 0.5]], [[0.5, 0.3 * SHARE], [0.3 * SHARE, 0.5]]),
        ("shrink", NOISE, [[0.5, 0.05], [0.05, 0.4]], [[0.5, 0], [0, 0.4]]),
        ("shrink", NOISE, [[0.5, 0], [0, 0.01]], [[0.5, 0], [0, 0.1 * math.sqrt(2)]]),
    ],
)
def test_repairs_by_hand(repair, noise, matrix, expected):
    """What has more variance than noise in every direction stays; shrinking keeps 1 - s² d (d-1)/||off||² of it."""
    found = repaired_covariance(np.array(matrix), noise, repair=repair, grid_minimum=0.01)

    assert found == pytest.approx(np.array(matrix if expected is None else expected))


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

    X = nearest_covariance(C, s, floor)

    slope = (X - C) / s**2 * np.where(np.eye(d), 2, 1)  # half the derivative in a symmetric direction
    assert np.linalg.eigvalsh(X).min() >= floor - 1e-9
    assert np.linalg.eigvalsh(slope).min() >= -1e-4 * np.abs(slope).max()
    assert abs(np.sum(slope * (X - floor * np.eye(d)))) <= 1e-4 * np.abs(slope).max()
    if equal:  # Higham's: it is enough to clip eigenvalues
        e, V = np.linalg.eigh(C)
        assert pytest.approx((V * np.maximum(e, floor)) @ V.T, abs=1e-9) == X
    for _ in range(50):
        other = rng.normal(size=(d, d)) * 0.1
        e, V = np.linalg.eigh(X + (other + other.T) / 2)
        assert off_by((V * np.maximum(e, floor)) @ V.T, C, s) >= off_by(X, C, s) - 1e-6


@pytest.mark.parametrize("repair", ["noise_aware", "shrink", "paper", "clip"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_symmetric_matrix_can_be_repaired(repair, data):
    """Whatever the noise made of it, the result is finite, symmetric, and has no negative eigenvalue."""
    d = data.draw(st.integers(1, 5))
    size = data.draw(st.sampled_from([1e-9, 1.0, 1e12]))
    raw = data.draw(hnp.arrays(float, (d, d), elements=st.floats(-1, 1))) * size
    noise = np.full((d, d), data.draw(st.sampled_from([0.0, 1e-3, 1e9])))

    found = repaired_covariance(raw + raw.T, noise, repair=repair, grid_minimum=0.01)

    assert np.isfinite(found).all()
    assert (found == found.T).all()
    assert np.linalg.eigvalsh(found).min() >= -1e-14 * np.abs(found).max()


@pytest.mark.statistical
def test_standard_errors_are_those_of_the_noise():
    """Over 20,000 draws of small noise in all sums, means and covariances spread as predicted, to 6%."""
    rng, runs = np.random.default_rng(4), 20_000
    codes = rng.integers(0, 2, 4000)
    y = np.clip(rng.normal(0.2 + 0.2 * codes[:, None], 0.2, (4000, 2)), -1, 1)
    exact = sums_of(y, codes, sd=(10.0, 8.0, 6.0))
    truth = estimate_moments(exact)

    def noisy(of, shape):
        """These sums with noise."""
        noise = rng.normal(0, 6, (*shape, 2, 2))
        return Sums(
            exact.sizes[of] + rng.normal(0, 10, shape),
            exact.totals[of] + rng.normal(0, 8, (*shape, 2)),
            exact.products[of] + np.triu(noise) + np.triu(noise, 1).swapaxes(-1, -2),
            *(10.0, 8.0, exact.product_sd),
        )

    for at in (0, 1):
        found = estimate_moments(noisy(at, (runs,)))
        assert found.means.std(axis=0) == pytest.approx(truth.mean_errors(sampling=False)[at], rel=0.06)
        assert found.covariances.std(axis=0) == pytest.approx(truth.covariance_errors("none")[at], rel=0.06)
    pooled = [estimate_moments(noisy(slice(2), (2,))).pooled().covariances for _ in range(1500)]
    assert np.std(pooled, axis=0) == pytest.approx(truth.pooled().covariance_errors("none"), rel=0.12)


@pytest.mark.statistical
def test_standard_errors_are_those_of_sampling():
    """Without noise, they are the textbook's of normal samples, over 5,000 samples to 7%."""
    factor = 0.1 * np.array([[1.0, 0.0], [0.6, 0.8]])
    y = np.random.default_rng(5).standard_normal((5000, 200, 2)) @ factor.T
    found = estimate_moments(
        Sums(np.full(5000, 200.0), y.sum(axis=1), y.swapaxes(1, 2) @ y, 0.0, 0.0, np.zeros((2, 2)))
    )

    for numbers, errors in (
        (found.means, found.mean_errors()),
        (found.covariances, found.covariance_errors("normal")),
        (found.correlations(), found.correlation_errors("normal")),
    ):
        assert numbers.std(axis=0) == pytest.approx(errors.mean(axis=0), rel=0.07, abs=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.02, 0.2, 0.5])
def test_errors_of_covariances_hold_for_rare_values(share):
    """Of two columns of 0 and 1, intervals of variances, covariance and correlation miss in 7.5% at most.

    They were those of normal data, which do not cover rare values.
    """
    rng, runs, n = np.random.default_rng(5), 2000, 2000
    x = rng.random((runs, n), dtype=np.float32) < share
    y = np.where(rng.random((runs, n), dtype=np.float32) < 0.5, x, rng.random((runs, n), dtype=np.float32) < share)
    one, other, both = (2 * each.sum(axis=1) for each in (x, y, x == y))
    totals, product = np.stack([one, other], axis=1) - float(n), both - float(n)
    products = np.array([[np.full(runs, n), product], [product, np.full(runs, n)]]).transpose(2, 0, 1)
    own = estimate_moments(Sums(np.full(runs, float(n)), totals, products, 0.0, 0.0, np.zeros((2, 2))))
    variance = 4 * share * (1 - share)

    def missed(numbers, truth, errors, at):
        return np.mean(np.abs(numbers[:, 0, at] - truth) > 1.96 * errors[:, 0, at])

    errors = own.covariance_errors()
    assert missed(own.covariances, variance, errors, 0) < 0.075
    assert missed(own.covariances, variance / 2, errors, 1) < 0.075
    assert missed(own.correlations(), 0.5, own.correlation_errors(), 1) < 0.075
    if share < 0.1:
        assert missed(own.covariances, variance, own.covariance_errors("normal"), 0) > 0.4


def test_doubts_are_named():
    """A class that its noise could explain, one with too few rows, and a covariance of noise are told apart."""
    y = np.random.default_rng(6).uniform(-1, 1, (100, 2))
    codes = np.array([0] * 98 + [1] * 2)

    noisy = estimate_moments(sums_of(y, codes, sd=(5.0, 5.0, 5.0))).unreliable_groups(None)
    drowned = estimate_moments(sums_of(y, np.arange(100) % 2, sd=(0.0, 9.0, 90.0))).pooled().unreliable_groups(None)

    assert estimate_moments(sums_of(y)).unreliable_groups(None) == []
    assert estimate_moments(sums_of(y, codes)).unreliable_groups(None)[0] == (
        1,
        "it has about 2 rows, too few for 2 columns",
    )
    assert (1, "the noise hides the number of rows: its estimates are unreliable") in noisy
    assert drowned == [(None, "the covariance is mostly noise")]


@pytest.mark.parametrize(
    ("scale", "radius", "noise", "named"),
    [(0.9, 1.0, 0.0, True), (0.5, 1.0, 0.0, False), (1.0, math.sqrt(2), 0.0, False), (0.9, 1.0, 100.0, False)],
)
def test_rows_as_long_as_the_radius_are_named(scale, radius, noise, named):
    """Where rows end at the radius, and that is not noise, a doubt says so; a radius that scales none is fine."""
    angles = np.random.default_rng(8).uniform(0, 2 * np.pi, 500)
    d = estimate_moments(
        sums_of(scale * np.array([np.cos(angles), np.sin(angles)]).T, sd=(0.0, 0.0, noise))
    ).unreliable_groups(radius)

    said = "many rows are longer than radius= and were scaled towards the middle of the bounds"
    assert ((None, f"{said}: use radius=2**0.5") in d) is named
