"""From a noisy symmetric matrix to a covariance: positive definite, and not further away than need be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Repair", "moved", "nearest", "repaired", "spectral_noise"]

Repair = Literal["noise_aware", "shrink", "paper", "clip"]

_FLOOR = 1e-9  # of eigenvalues, where there is no noise
_STEPS = 200
_CLOSE = 1e-7  # of the noise
_NOTED = 0.5  # standard deviations of the noise


def repaired(
    covariance: Array,
    noise: Array,
    *,
    repair: Repair,
    grid_minimum: float = 0.0,
    units: Array | None = None,
    least: float = _FLOOR,
) -> Array:
    """Make a noisy symmetric matrix a covariance: positive definite.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        Any symmetric matrix of finite numbers.
    noise : ndarray of shape (d, d)
        Standard deviations of the noise of its entries.
    repair : {"noise_aware", "shrink", "paper", "clip"}
        ``"noise_aware"``: the nearest matrix, in standard deviations of the noise, with eigenvalues of at least
        the size of the noise. ``"shrink"``: the same after what is off the diagonal has been shrunk by the share of
        it that is noise. ``"clip"``: raise eigenvalues to 1e-9. ``"paper"``: negative ones become `grid_minimum`.
    grid_minimum : float
        For ``"paper"``, in the columns' own units.
    units : ndarray of shape (d,), optional
        Half widths of the columns' bounds, for ``"paper"``.
    least : float
        Least eigenvalue, however small the noise.

    Returns
    -------
    ndarray of shape (d, d)
        With eigenvalues of d at most, for y is in [-1, 1].
    """
    if repair == "paper":
        scale = np.ones(len(covariance)) if units is None else units
        scale = scale[:, None] * scale
        return (
            _with_eigenvalues(covariance * scale, lambda values: np.where(values < 0, grid_minimum, values)) / scale
        )
    if repair == "clip":
        return nearest(covariance, np.zeros_like(covariance), least)
    floor = min(max(spectral_noise(noise), least), 1.0)
    if repair == "shrink":
        return nearest(_shrunk(covariance, noise), np.zeros_like(noise), floor)
    return nearest(covariance, noise, floor)


def nearest(covariance: Array, noise: Array, floor: float) -> Array:
    r"""Give the nearest matrix with eigenvalues from a floor to d, counted in standard deviations of the noise.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        A symmetric matrix C.
    noise : ndarray of shape (d, d)
        Standard deviations s of the noise of its entries.
    floor : float
        The least eigenvalue allowed.

    Returns
    -------
    ndarray of shape (d, d)
        The X that minimises :math:`\sum_{i \le j} (X_{ij} - C_{ij})^2 / s_{ij}^2`.

    Notes
    -----
    The noise of a product of two columns has half the variance of that of a square, which makes the sum a half of
    the squared Frobenius norm: then it is enough to clip eigenvalues [1]_. Where the means' noise or Laplace noise
    makes weights unequal, this is the first step of a projected gradient method with momentum [2]_.

    References
    ----------
    .. [1] N. J. Higham. Computing a nearest symmetric positive semidefinite matrix. LAA 103 (1988).
    .. [2] A. Beck, M. Teboulle. A fast iterative shrinkage-thresholding algorithm. SIAM J. Imaging Sci. 2 (2009).
    """
    d = len(covariance)

    def projected(matrix: Array) -> Array:
        return _with_eigenvalues(matrix, lambda values: np.clip(values, floor, float(d)))

    first = projected(covariance)
    if not noise.any() or d == 1 or np.allclose(first, covariance, rtol=0, atol=_CLOSE * float(noise.max())):
        return first
    weights = 1 / np.square(noise)
    weights[np.diag_indices(d)] *= 2  # an entry off the diagonal is there twice
    step = 1 / weights.max()
    X = ahead = first
    momentum = 1.0
    for _ in range(_STEPS):
        before, X = X, projected(ahead - step * weights * (ahead - covariance))
        if float(np.abs(X - before).max()) <= _CLOSE * float(noise.min()):
            break
        momentum, last = (1 + math.sqrt(1 + 4 * momentum**2)) / 2, momentum
        ahead = X + (last - 1) / momentum * (X - before)
    return X


def moved(covariance: Array, changed: Array, noise: Array, names: Sequence[str]) -> str | None:
    """Say by how much a repair moved a covariance, or None if by next to nothing.

    Parameters
    ----------
    covariance, changed : ndarray of shape (d, d)
        Before and after the repair.
    noise : ndarray of shape (d, d)
        Standard deviations of the noise of the entries.
    names : sequence of str
        The columns.

    Returns
    -------
    str or None
        The largest change, in standard deviations of the noise.
    """
    if not noise.any():
        return None
    moves = np.abs(changed - covariance) / np.maximum(noise, np.finfo(float).tiny)
    i, j = sorted(int(place) for place in np.unravel_index(moves.argmax(), moves.shape))
    if moves[i, j] <= _NOTED:
        return None
    which = f"variance of {names[i]}" if i == j else f"covariance of {names[i]} and {names[j]}"
    return f"{moves[i, j]:.1f} standard deviations of its noise (the {which})"


def spectral_noise(noise: Array) -> float:
    """About half the largest eigenvalue of a symmetric matrix of such noise."""
    d = len(noise)
    each = noise[np.triu_indices(d, 1)].mean() if d > 1 else noise[0, 0]
    return float(each) * math.sqrt(d)


def _shrunk(covariance: Array, noise: Array) -> Array:
    """Take from what is off the diagonal the share of it that is noise."""
    off = covariance - np.diag(np.diag(covariance))
    size = float(np.square(off).sum())
    expected = float(np.square(noise - np.diag(np.diag(noise))).sum())
    shrunk: Array = covariance - off * (min(1.0, expected / size) if size else 1.0)
    return shrunk


def _with_eigenvalues(matrix: Array, change: Callable[[Array], Array]) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    made: Array = (vectors * change(values)) @ vectors.T
    return (made + made.T) / 2
