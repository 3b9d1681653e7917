from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from dfprivacy.features import MixtureMoments
from dfprivacy_gmm.characteristic import Family, Sketch, local_jacobian
from dfprivacy_gmm.choice import choose
from dfprivacy_gmm.fit import Fit
from dfprivacy_gmm.polish import scores

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

    found = (FAMILY.jacobian(P, SKETCH) @ FAMILY.residuals(P, SKETCH)[..., None])[0, :, 0]

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

    found = family.jacobian(p, sketch)[0]
    expected = approx_fprime(p[0], lambda x: family.residuals(x[None], sketch)[0], 1e-7).T

    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_moments_sensitivity() -> None:
    """No row's moments are longer than 3r/2, and no two rows' inner product is negative."""
    f = MixtureMoments([None] * 2, WEIGHTS, MEANS, ROOTS)  # type: ignore[list-item]
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

    found = scores(Fit(WEIGHTS, MEANS, ROOTS, 0.0, "full", agreed=True), z.T).mean(axis=1)

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
