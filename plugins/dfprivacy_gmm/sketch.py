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

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy_gmm.estimates import estimates
from dfprivacy_gmm.repair import repaired
from dfprivacy_gmm.search import smallest_sd

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from dfprivacy_gmm.characteristic import Shape
    from dfprivacy_gmm.sums import Sums

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
        power: NDArray[np.float64] = (V * e**exponent) @ V.T
        return power


def whitening(sums: Sums) -> Whitening:
    """Make a centre and a positive definite covariance of noisy sums, whatever they are.

    Parameters
    ----------
    sums : Sums
        Noisy sums of y and y yᵀ, of one group.

    Returns
    -------
    Whitening
        It is only a choice of units, so covariances that could be noise are rather left out: off-diagonal ones are
        shrunk by the share of them that the noise explains, and eigenvalues are at least what the noise alone
        would make.
    """
    own = estimates(sums)
    return Whitening(own.means[0], repaired(own.covariances[0], own.noise[0], repair="shrink", least=_FLOOR))


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
    frequencies: NDArray[np.float64] = directions * (lengths / sigma)[:, None]
    return frequencies
