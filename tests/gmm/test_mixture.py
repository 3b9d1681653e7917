"""The mathematics of mixtures: reference numbers, derivatives, sensitivities, searches."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

import dfprivacy as dp
from dfprivacy_gmm.fit import Fit, Search, choose
from dfprivacy_gmm.polish import MixtureMoments, Moments, polished, scores
from dfprivacy_gmm.sketch import Family, Sketch, draw_frequencies, local_jacobian, whitening
from dfprivacy_gmm.sums import Sums

W = np.array([[0.5, -1], [1, 0.25], [0, 2]])
WEIGHTS = np.array([0.3, 0.7])
MEANS = np.array([[0, 0], [1, -0.5]])
ROOTS = np.linalg.cholesky(np.array([[[1, 0.2], [0.2, 0.5]], [[0.3, -0.1], [-0.1, 0.4]]]))
A = np.array(
    [
        0.511581998687 + 0.441852708909j,
        0.561457055886 + 0.468258369121j,
        0.280305265136 - 0.264668100157j,
    ]
)
SKETCH = Sketch(
    W, A + np.array([0.02 + 0.005j, -0.03 - 0.015j, 0.01 + 0.025j]), np.sqrt(0.5 / np.array([100.0, 200, 50]))
)
COLUMNS = [dp.Column("x", bounds=(-1, 1)), dp.Column("y", bounds=(-1, 1))]
FAMILY = Family(2, 2, "full")
P = np.concatenate(
    [
        np.log(WEIGHTS),
        MEANS.ravel(),
        *[np.concatenate([np.log(np.diag(L)), [L[1, 0]]]) for L in ROOTS],
        [0.0],
    ]
)[None]


def test_characteristic_function() -> None:
    """The characteristic function of a mixture is the reference number."""
    value, _ = local_jacobian(WEIGHTS, MEANS, ROOTS, W)

    np.testing.assert_allclose(value, A, atol=1e-11)


def test_objective() -> None:
    """Half the squared residuals are the reference number."""
    found = np.square(FAMILY.residuals(P, SKETCH)).sum() / 2

    assert math.isclose(found, 0.30375, rel_tol=1e-9)


def test_gradient_reference() -> None:
    """The gradient is the reference's, by the chain rule."""
    pi = np.array([3.409892457735, 9.16750204234])
    mu = [0.908473240287, -0.068345260097, -2.530916915955, -3.680935626369]
    L = np.array(
        [
            [-2.010336041239, 0, -0.721919654335, 0.830930880788],
            [-3.406876010686, 0, -1.302227569263, -0.520216734857],
        ]
    )
    expected = np.concatenate(
        [
            WEIGHTS * (pi - WEIGHTS @ pi),
            mu,
            *[[g[0] * R[0, 0], g[3] * R[1, 1], g[2]] for g, R in zip(L, ROOTS, strict=True)],
            [0.0],
        ]
    )

    rest, J = FAMILY.linear(P, SKETCH)
    found = (J @ rest[..., None])[0, :, 0]

    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_local_jacobian() -> None:
    """The derivatives in local coordinates are the reference numbers."""
    _, J = local_jacobian(WEIGHTS, MEANS, ROOTS, W)

    np.testing.assert_allclose(
        J[0].real,
        [
            *(0.074397037361, 0, 0, -0.010254223664, 0.046365019071, -0.052410476503),
            *(-0.074397037361, -0.201677246469, 0.267555102116, -0.029553162679, 0.07841340158, -0.052013566315),
        ],
        atol=1e-10,
    )
    np.testing.assert_allclose(
        J[0].imag,
        [
            *(-0.132555812672, 0.06836149109, -0.154550063571, 0, 0, 0),
            *(0.132555812672, 0.12949547076, -0.171795155424, -0.046026323844, 0.122121637337, -0.081006329966),
        ],
        atol=1e-10,
    )


@pytest.mark.parametrize("shape", ["spherical", "diag", "tied", "full"])
def test_jacobian_is_the_derivative(shape: str) -> None:
    """Derivatives are those of finite differences, for every shape."""
    family = Family(3, 2, shape)  # type: ignore[arg-type]
    p = np.random.default_rng(1).normal(0, 0.5, (1, family.width))
    sketch = Sketch(W, A, 0.1, size_error=0.1)

    rest, (found,) = family.linear(p, sketch)
    expected = approx_fprime(p[0], lambda x: family.residuals(x[None], sketch)[0], 1e-7).T

    np.testing.assert_allclose(rest, family.residuals(p, sketch), atol=1e-12)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_moments_sensitivity() -> None:
    """No row's moments are longer than 3r/2, and no two rows' inner product is negative."""
    f = MixtureMoments(COLUMNS, WEIGHTS, MEANS, ROOTS)
    y = np.random.default_rng(1).normal(0, 3, (2, 2000))

    rows = (f.coordinates(y) * f.weights[..., None]).reshape(-1, 2000)
    products = rows.T @ rows

    assert products.min() > -1e-9
    assert math.sqrt(products.max()) <= f.radius(2) * (1 + 1e-12)
    assert math.isclose(f.radius(2), 1.5 * f.reach)


def test_scores_have_mean_zero() -> None:
    """Under the mixture the scores have mean 0."""
    rng = np.random.default_rng(1)
    label = rng.choice(2, size=200_000, p=WEIGHTS)
    z = MEANS[label] + np.einsum("nij,nj->ni", ROOTS[label], rng.standard_normal((200_000, 2)))

    found = scores(MixtureMoments(COLUMNS, WEIGHTS, MEANS, ROOTS), z.T).mean(axis=1)

    np.testing.assert_allclose(found, 0, atol=5e-3)


def test_saddle_is_left() -> None:
    """Two equal components, which whitening puts on a saddle, are told apart."""
    rng = np.random.default_rng(0)
    waves = rng.normal(0, 1.5, (200, 2))
    truth = Fit(
        np.array([0.5, 0.5]),
        np.array([[-0.78, 0], [0.78, 0]]),
        np.repeat(np.diag([0.62, 1])[None], 2, 0),
        0,
        "full",
        agreed=True,
    )
    value, _ = local_jacobian(truth.weights, truth.means, truth.roots, waves)

    fit = choose(Sketch(waves, value, 1e-3), [2], "full")[0]

    np.testing.assert_allclose(np.sort(fit.means[:, 0]), [-0.78, 0.78], atol=0.01)


TRUTH = Fit(WEIGHTS, MEANS, ROOTS, 0.0, "full", agreed=True)


def drawn(rows: int, seed: int = 1) -> np.ndarray:
    """Rows of the mixture, shape (2, rows)."""
    rng = np.random.default_rng(seed)
    label = rng.choice(2, size=rows, p=WEIGHTS)
    return (MEANS[label] + np.einsum("nij,nj->ni", ROOTS[label], rng.standard_normal((rows, 2)))).T


def test_moments_of_the_mixture() -> None:
    """Under the mixture E g = π, E gu = 0 and E guu' = πI."""
    features = MixtureMoments(COLUMNS, WEIGHTS, MEANS, ROOTS)

    found = features.coordinates(drawn(400_000), clip=False).mean(axis=2)

    np.testing.assert_allclose(found, np.outer(WEIGHTS, [1, 0, 0, 1, 0, 1]), atol=3e-3)


def test_moments_attain_their_sensitivity() -> None:
    """Rows that are far away in one direction have radius 3r/2, and some two of them diameter √4.5 r."""
    features = MixtureMoments(COLUMNS, np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    turn = np.linspace(0, np.pi, 1001)

    rows = (features.coordinates(9 * np.array([np.cos(turn), np.sin(turn)])) * features.weights[..., None])[0].T
    lengths = np.linalg.norm(rows, axis=1)
    distances = np.linalg.norm(rows - rows[0], axis=1)

    assert math.isclose(lengths.max(), 1.5 * features.reach, rel_tol=1e-12)
    assert math.isclose(distances.max(), features.diameter(2, frozenset()), rel_tol=1e-5)
    assert distances.max() <= features.diameter(2, frozenset())


def test_sampling_covariance() -> None:
    """The covariance of an empirical characteristic function is what simulation says."""
    z = drawn(20_000 * 100).reshape(2, 20_000, 100)
    waves = np.exp(1j * np.einsum("md,dij->ijm", W, z)).mean(axis=1)

    whitener = Sketch(W, A, 0.0, size=100).sampled(TRUTH.mixtures).whitener
    found = np.hstack([(waves - A).real, (waves - A).imag]) @ whitener.T

    np.testing.assert_allclose(np.cov(found.T), np.eye(6), atol=0.05)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=0.05)


def test_the_truth_is_not_moved() -> None:
    """Moments and a sketch that are what the mixture makes them leave it where it is."""
    features = MixtureMoments(COLUMNS, WEIGHTS, MEANS, ROOTS)
    rng = np.random.default_rng(1)
    waves = rng.normal(0, 1.5, (100, 2))
    sketch = Sketch(waves, local_jacobian(WEIGHTS, MEANS, ROOTS, waves)[0], 1e-3, size=1e5)
    moments = Moments(features.coordinates(drawn(1_000_000)).mean(axis=2), np.full((2, 6), 1e-6), 1e5)

    found, covariance = polished(TRUTH, sketch, features, moments, rng)

    np.testing.assert_allclose(found.weights, WEIGHTS, atol=2e-3)
    np.testing.assert_allclose(found.means, MEANS, atol=5e-3)
    np.testing.assert_allclose(found.covariances, TRUTH.covariances, atol=1e-2)
    assert np.linalg.eigvalsh(covariance).min() > -1e-12


def test_moments_move_a_fit_to_the_truth() -> None:
    """From a fit that is somewhat wrong, one step on precise moments goes more than half of the way."""
    start = replace(TRUTH, means=MEANS + 0.15, weights=np.array([0.4, 0.6]))
    features = MixtureMoments(COLUMNS, start.weights, start.means, start.roots)
    rng = np.random.default_rng(1)
    waves = rng.normal(0, 1.5, (100, 2))
    sketch = Sketch(waves, local_jacobian(WEIGHTS, MEANS, ROOTS, waves)[0], 0.5, size=1e6)
    moments = Moments(features.coordinates(drawn(1_000_000)).mean(axis=2), np.full((2, 6), 1e-8), 1e6)

    found, _ = polished(start, sketch, features, moments, rng)

    assert np.abs(found.means - MEANS).max() < 0.15 / 2
    assert np.abs(found.weights - WEIGHTS).max() < 0.1 / 2


def test_standard_errors_count_the_rows_once() -> None:
    """Errors of a polished fit are the predicted ones, though moments and sketch are of the same rows."""
    features = MixtureMoments(COLUMNS, WEIGHTS, MEANS, ROOTS)
    waves = np.random.default_rng(1).normal(0, 1.5, (60, 2))
    errors = []
    for seed in range(60):
        y = drawn(2000, seed)
        sketch = Sketch(waves, np.exp(1j * waves @ y).mean(axis=1), 1e-3, size=2000)
        moments = Moments(features.coordinates(y).mean(axis=2), np.full((2, 6), 1e-6), 2000)
        found, covariance = polished(TRUTH, sketch, features, moments, np.random.default_rng(2))
        moved = np.linalg.solve(ROOTS, (found.means - MEANS)[..., None])[..., 0]
        errors.append(moved / np.sqrt(np.diag(covariance).reshape(2, 6)[:, 1:3]))

    assert 0.85 < math.sqrt(np.mean(np.square(errors))) < 1.15


@pytest.mark.parametrize("shape", ["spherical", "diag", "tied", "full"])
def test_a_search_ends_where_nothing_is_better(shape: str) -> None:
    """At its end the objective, prior included, has no slope."""
    search = Search(replace(SKETCH, size_error=0.1), 2, np.random.default_rng(1))
    ends = search.along(search.starts().best(1), shape)  # type: ignore[arg-type]
    family, start, centre = search.family(shape), ends.p[0], ends.prior.centre[0]  # type: ignore[arg-type]

    def objective(p: np.ndarray) -> float:
        fit = np.square(family.residuals(p[None], search.sketch)).sum()
        return float(fit + (ends.prior.precision * np.square(p - centre)).sum()) / 2

    found = search.minimise(ends.p, ends.prior, shape, steps=200, tolerance=1e-12)  # type: ignore[arg-type]

    assert objective(start) >= found.f[0]
    assert math.isclose(objective(found.p[0]), found.f[0], rel_tol=1e-12)
    np.testing.assert_allclose(approx_fprime(found.p[0], objective, 1e-6), 0, atol=2e-3)


def test_the_right_number_is_chosen_from_many_rows() -> None:
    """What two components leave in a sketch of many rows is sampling, not a third component."""
    z = drawn(200_000, seed=3)
    waves = draw_frequencies(100, 3, 2, np.random.default_rng(1))
    noise = np.random.default_rng(2).normal(0, 1e-4, 200).view(np.complex128)
    values = np.array([np.exp(1j * (w @ z)).mean() for w in waves]) + noise

    fit, criteria = choose(Sketch(waves, values, 1e-4, size=2e5), [1, 2, 3], "full")

    assert fit.means.shape == (2, 2)
    assert 60 < fit.residual < 130  # half a chi squared of 200
    assert criteria[1] > criteria[3] > criteria[2]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whitening_of_any_moments(data: st.DataObject) -> None:
    """Whatever the noisy moments, the whitening is positive definite, and finite."""
    d = data.draw(st.integers(1, 4))
    size = data.draw(st.sampled_from([0.0, 1e-9, 1.0, 1e9]))
    numbers = st.lists(st.floats(-1, 1), min_size=d * d, max_size=d * d)
    M = size * np.array(data.draw(numbers)).reshape(d, d)
    noise = data.draw(st.sampled_from([0.0, 1e-3, 1e6]))

    found = whitening(Sums(np.array([5.0]), M[:1], (M + M.T)[None], noise, noise, np.full((d, d), noise)))

    assert np.linalg.eigvalsh(found.covariance).min() > 0
    assert np.isfinite(found.inverse_root).all()
    assert np.abs(found.centre).max() <= 1
