"""Where a table's characteristic function is measured, and in which units: public choices and post-processing.

y is a row mapped from its bounds to [-1, 1]^d. The frequencies are designed for whitened rows z = C^(-1/2)(y - c),
with c and C the noisy mean and covariance, so that the sketch resolves the same mixtures however much of the bounds
the data fill. Since w'z = Ω'y - Ω'c with Ω = C^(-1/2) w, what is summed over the rows is exp(iΩ'y); the phase is
turned afterwards.

References
----------
.. [1] N. Keriven, A. Bourrier, R. Gribonval, P. Pérez. Sketching for large-scale learning of mixture models.
   Information and Inference 7 (2018). (The adapted-radius distribution of frequencies.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy_gmm.fit import smallest_sd

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from dfprivacy_gmm.characteristic import Shape

__all__ = ["Whitening", "draw_frequencies", "frequency_count", "whitening"]

_LEAST, _MOST, _EACH = 200, 1000, 25  # frequencies: 25 for each component and column
_FLOOR = 1e-4  # least variance of a direction, in units of y


@dataclass(frozen=True)
class Whitening:
    """The noisy mean c and covariance C of y.

    Attributes
    ----------
    centre : ndarray of shape (d,)
        c.
    covariance : ndarray of shape (d, d)
        C, positive definite.
    """

    centre: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @property
    def root(self) -> NDArray[np.float64]:
        """C^(1/2)."""
        return self._power(0.5)

    @property
    def inverse_root(self) -> NDArray[np.float64]:
        """C^(-1/2)."""
        return self._power(-0.5)

    def keeping(self, shape: Shape, units: NDArray[np.float64]) -> Whitening:
        """Give the whitening for a fit of this shape, which must still have it in the columns' units.

        Parameters
        ----------
        shape : {"spherical", "diag", "tied", "full"}
            Shape of the covariances.
        units : ndarray of shape (d,)
            A unit of y in each column's units.
        """
        if shape in {"tied", "full"}:
            return self
        variances = np.diag(self.covariance)
        if shape == "spherical":
            variances = np.mean(variances * units**2) / units**2
        return Whitening(self.centre, np.diag(variances))

    def _power(self, exponent: float) -> NDArray[np.float64]:
        e, V = np.linalg.eigh(self.covariance)
        found: NDArray[np.float64] = (V * e**exponent) @ V.T
        return found


def whitening(mean: NDArray[np.float64], second: NDArray[np.float64], noise: float) -> Whitening:
    """Make a centre and a positive definite covariance of noisy moments, whatever they are.

    Parameters
    ----------
    mean : ndarray of shape (d,)
        Noisy mean of y.
    second : ndarray of shape (d, d)
        Noisy mean of yy', symmetric.
    noise : float
        Standard deviation of the noise of its off-diagonal entries.

    Returns
    -------
    Whitening
        Off-diagonal covariances are shrunk by the share of them that the noise explains, and eigenvalues are at
        least what the noise alone would make.
    """
    d = len(mean)
    centre = np.clip(mean, -1.0, 1.0)
    C = second - np.outer(centre, centre)
    diagonal = np.diag(np.diag(C))
    off = C - diagonal
    explained = min(1.0, noise**2 * d * (d - 1) / max(float(np.square(off).sum()), 1e-300))
    e, V = np.linalg.eigh(diagonal + (1 - explained) * off)
    e = np.clip(e, min(1.0, max(noise * math.sqrt(d), _FLOOR)), float(d))
    return Whitening(centre, (V * e) @ V.T)


def frequency_count(K: int, d: int) -> int:
    """Give the number of frequencies for K components in d columns."""
    return min(_MOST, max(_LEAST, _EACH * K * d))


def draw_frequencies(m: int, K: int, d: int, rng: Generator) -> NDArray[np.float64]:
    """Draw frequencies for whitened rows.

    Parameters
    ----------
    m : int
        How many.
    K, d : int
        Components and columns.
    rng : Generator
        Whose seed may be known to all.

    Returns
    -------
    ndarray of shape (m, d)
        Directions are uniform. Lengths are ρ/σ, with ρ of the density √(ρ² + ρ⁴/4) exp(-ρ²/2) and log σ uniform
        from the smallest standard deviation to be resolved to 1, both stratified.
    """
    rho = np.linspace(1e-3, 5, 4000)
    mass = np.cumsum(np.sqrt(rho**2 + rho**4 / 4) * np.exp(-(rho**2) / 2))
    lengths = np.interp((rng.permutation(m) + 0.5) / m, mass / mass[-1], rho)
    sigma = smallest_sd(K, d) ** ((rng.permutation(m) + 0.5) / m)
    directions = rng.standard_normal((m, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    found: NDArray[np.float64] = directions * (lengths / sigma)[:, None]
    return found
