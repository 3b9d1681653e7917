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
from dfprivacy_gmm.fit import Search, choose, prior_precision
from dfprivacy_gmm.sketch import Family, Mixture, Sketch, draw_frequencies, whitening
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
)
TRUTH = Mixture(WEIGHTS, MEANS, ROOTS)


def test_characteristic_function() -> None:
    """The characteristic function of a mixture is the reference number."""
    value = WEIGHTS @ TRUTH.components(W)[0]

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

    found = FAMILY.jacobian(P, SKETCH) @ FAMILY.residuals(P, SKETCH)

    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("shape", ["spherical", "diag", "tied", "full"])
def test_jacobian_is_the_derivative(shape: str) -> None:
    """Derivatives are those of finite differences, for every shape."""
    family = Family(3, 2, shape)  # type: ignore[arg-type]
    p = np.random.default_rng(1).normal(0, 0.5, family.width)
    sketch = Sketch(W, A, 0.1, size_error=0.1)

    found = family.jacobian(p, sketch)
    expected = approx_fprime(p, lambda x: family.residuals(x, sketch), 1e-7).T

    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_saddle_is_left() -> None:
    """Two equal components, which whitening puts on a saddle, are told apart."""
    rng = np.random.default_rng(0)
    waves = rng.normal(0, 1.5, (200, 2))
    means, roots = np.array([[-0.78, 0], [0.78, 0]]), np.repeat(np.diag([0.62, 1])[None], 2, 0)
    value = np.array([0.5, 0.5]) @ Mixture(np.array([0.5, 0.5]), means, roots).components(waves)[0]

    fit = choose(Sketch(waves, value, 1e-3), [2], "full")[0]

    np.testing.assert_allclose(np.sort(fit.mixture.means[:, 0]), [-0.78, 0.78], atol=0.01)


def drawn(rows: int, seed: int = 1) -> np.ndarray:
    """Rows of the mixture, shape (2, rows)."""
    rng = np.random.default_rng(seed)
    label = rng.choice(2, size=rows, p=WEIGHTS)
    return (MEANS[label] + np.einsum("nij,nj->ni", ROOTS[label], rng.standard_normal((rows, 2)))).T


def test_sampling_covariance() -> None:
    """The covariance of an empirical characteristic function is what simulation says."""
    z = drawn(20_000 * 100).reshape(2, 20_000, 100)
    waves = np.exp(1j * np.einsum("md,dij->ijm", W, z)).mean(axis=1)

    whitener = Sketch(W, A, 0.0, size=100).sampled(TRUTH).whitener
    found = np.hstack([(waves - A).real, (waves - A).imag]) @ whitener.T

    np.testing.assert_allclose(np.cov(found.T), np.eye(6), atol=0.05)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=0.05)


@pytest.mark.parametrize("shape", ["spherical", "diag", "tied", "full"])
def test_a_search_ends_where_nothing_is_better(shape: str) -> None:
    """At its end the objective, prior included, has no slope."""
    search = Search(replace(SKETCH, size_error=0.1), 2, np.random.default_rng(1))
    end = search.along(search.starts()[0], shape)  # type: ignore[arg-type]

    def objective(p: np.ndarray) -> float:
        fit = np.square(end.family.residuals(p, search.sketch)).sum()
        return float(fit + (prior_precision(end.family, 0.1) * np.square(p - end.centre)).sum()) / 2

    found = search.minimise(end.p, end.centre, shape, steps=200, tolerance=1e-12)  # type: ignore[arg-type]

    assert objective(end.p) >= found.f
    assert math.isclose(objective(found.p), found.f, rel_tol=1e-12)
    np.testing.assert_allclose(approx_fprime(found.p, objective, 1e-6), 0, atol=2e-3)


def test_the_right_number_is_chosen_from_many_rows() -> None:
    """What two components leave in a sketch of many rows is sampling, not a third component."""
    z = drawn(200_000, seed=3)
    waves = draw_frequencies(100, 3, 2, np.random.default_rng(1))
    noise = np.random.default_rng(2).normal(0, 1e-4, 200).view(np.complex128)
    values = np.array([np.exp(1j * (w @ z)).mean() for w in waves]) + noise

    fit, criteria = choose(Sketch(waves, values, 1e-4, size=2e5), [1, 2, 3], "full")

    assert fit.mixture.means.shape == (2, 2)
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
