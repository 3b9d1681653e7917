"""Sketches of characteristic functions, and families of Gaussian mixtures with their derivatives.

A mixture with weights πₖ, means μₖ and covariances Σₖ = LₖLₖ' has the characteristic function

    A(w) = Σₖ πₖ ζₖ(w),   ζₖ(w) = exp(i w'μₖ - |Lₖ'w|²/2).

A sketch b is a noisy, empirical A at some frequencies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import scipy
from scipy.special import softmax

from dfprivacy_gmm.estimates import estimate_moments, repaired_covariance

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from dfprivacy_gmm.sums import Sums

__all__ = [
    "Family",
    "Mixture",
    "Shape",
    "Sketch",
    "Whitening",
    "draw_frequencies",
    "frequency_count",
    "smallest_sd",
    "whitening_of",
]

_BLOCK = 64  # frequencies whose products with all others fit into a cache

Shape = Literal["spherical", "diag", "tied", "full"]


@dataclass(frozen=True)
class Sketch:
    """Noisy values of an empirical characteristic function at m frequencies.

    Attributes
    ----------
    frequencies : ndarray of shape (m, d)
        The frequencies w.
    values : complex ndarray of shape (m,)
        The sketch b.
    noise : float or ndarray of shape (m,)
        Standard deviation of the noise in the real and in the imaginary part of each value.
    size : float
        Number of rows n, perhaps noisy.
    size_error : float
        Relative standard error of it; 0 if it is public.
    whitener : ndarray of shape (2m, 2m), optional
        An inverse root of the covariance of the values' real parts, then imaginary parts. Without it they count as
        independent, with a sampling variance of 1/(2n), which is more than they have on average.
    """

    frequencies: NDArray[np.float64]
    values: NDArray[np.complex128]
    noise: float | NDArray[np.float64]
    size: float = math.inf
    size_error: float = 0.0
    whitener: NDArray[np.float64] | None = None

    @property
    def m(self) -> int:
        """Number of frequencies."""
        return len(self.frequencies)

    @property
    def d(self) -> int:
        """Number of columns."""
        return int(self.frequencies.shape[1])

    def whitened(self, centre: NDArray[np.float64], root: NDArray[np.float64]) -> Sketch:
        """Return the sketch of the whitened rows z if the rows of this sketch are centre + root·z."""
        turned = self.values * np.exp(-1j * (self.frequencies @ centre))
        return replace(self, frequencies=self.frequencies @ root, values=turned, whitener=None)

    @cached_property
    def scale(self) -> float | NDArray[np.float64]:
        """Factors that scale the values to unit variance; 1 if the matrix `whitener` does so."""
        if self.whitener is not None:
            return 1.0
        scale: NDArray[np.float64] = 1 / np.sqrt(np.square(self.noise) + 0.5 / self.size)
        return scale

    def standardized(self, values: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Return complex values, shape (..., m), as whitened real values, shape (..., 2m)."""
        scaled = values * self.scale
        parts = np.concatenate([scaled.real, scaled.imag], axis=-1)
        return parts if self.whitener is None else parts @ self.whitener.T

    def with_sampling_covariance(self, mixture: Mixture) -> Sketch:
        """Return the sketch with its whitener computed from the covariance that rows of a mixture give it.

        Notes
        -----
        Products of cosines and sines are those of sums and differences, so n times the sampling covariance of the
        parts of values i and j follows from A(wᵢ + wⱼ) and A(wᵢ - wⱼ).
        """
        m = self.m
        zeta, rotated = mixture.components(self.frequencies)
        total = np.zeros((2, m, 2, m))
        for start in range(0, m, _BLOCK):
            i = slice(start, start + _BLOCK)
            for weight, v, phase in zip(mixture.weights, rotated, mixture.means @ self.frequencies.T, strict=True):
                c, s, half = np.cos(phase), np.sin(phase), np.square(v).sum(axis=0) / 2
                lengths, products = -(half[i, None] + half), v[:, i].T @ v
                plus, minus = weight / 2 * np.exp(lengths + products), weight / 2 * np.exp(lengths - products)
                even, odd = plus + minus, plus - minus
                cosines, sines = c[i, None] * c, s[i, None] * s
                total[0, i, 0] += cosines * even + sines * odd
                total[1, i, 1] += sines * even + cosines * odd
                total[1, i, 0] += s[i, None] * c * even - c[i, None] * s * odd
        total[0, :, 1] = total[1, :, 0].T
        value = mixture.weights @ zeta
        mean = np.concatenate([value.real, value.imag])
        covariance = (total.reshape(2 * m, 2 * m) - np.outer(mean, mean)) / self.size
        noise = np.tile(np.broadcast_to(np.square(self.noise), m), 2)
        covariance[np.diag_indices(2 * m)] += noise + 1e-9 / self.size
        whitener, _ = scipy.linalg.lapack.dtrtri(np.linalg.cholesky(covariance), lower=True)
        return replace(self, whitener=whitener)


class Mixture(NamedTuple):
    """Gaussian mixture of K components in d dimensions."""

    weights: NDArray[np.float64]  # (K,)
    means: NDArray[np.float64]  # (K, d)
    roots: NDArray[np.float64]  # (K, d, d): the lower Cholesky factors of the covariances

    @property
    def covariances(self) -> NDArray[np.float64]:
        """Covariance matrices of the components, shape (K, d, d)."""
        return self.roots @ self.roots.swapaxes(1, 2)

    def components(self, frequencies: NDArray[np.float64]) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
        """Return the components' characteristic functions ζₖ(w), and Lₖ'w for their Cholesky factors Lₖ."""
        rotated = self.roots.swapaxes(1, 2) @ frequencies.T
        return np.exp(1j * (self.means @ frequencies.T) - np.square(rotated).sum(axis=1) / 2), rotated


@dataclass(frozen=True)
class Family:
    """Parametric family of mixtures of K components, with a vector of P parameters.

    They are K logits of the weights, K·d means, what the covariance shape needs (logarithms of the diagonals of the
    Cholesky factors, and what is below them), and the logarithm of the total mass.

    Attributes
    ----------
    K, d : int
        Components and columns.
    shape : {"spherical", "diag", "tied", "full"}
        Shape of the covariances.
    """

    K: int
    d: int
    shape: Shape

    @cached_property
    def below_diagonal(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row and column indices of the entries below the diagonal of a covariance matrix."""
        return np.tril_indices(self.d, -1)

    @property
    def n_covariance_parameters(self) -> int:
        """Number of covariance parameters of a component, or of all components if tied."""
        triangle = len(self.below_diagonal[0]) if self.shape in {"tied", "full"} else 0
        return 1 if self.shape == "spherical" else self.d + triangle

    @property
    def n_covariances(self) -> int:
        """Number of different covariance matrices: 1 if tied, else K."""
        return 1 if self.shape == "tied" else self.K

    @property
    def covariance_slice(self) -> slice:
        """Slice of the parameter vector that contains the covariance parameters."""
        start = self.K * (1 + self.d)
        return slice(start, start + self.n_covariances * self.n_covariance_parameters)

    @property
    def n_parameters(self) -> int:
        """Number P of parameters."""
        return int(self.covariance_slice.stop) + 1

    @property
    def degrees_of_freedom(self) -> int:
        """Number of free parameters: the weights sum to 1, and the total mass is not counted."""
        return self.n_parameters - 2

    def covariance_parameters(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the covariance parameters as a view, with a row for each covariance matrix."""
        return p[self.covariance_slice].reshape(self.n_covariances, self.n_covariance_parameters)

    def mixture(self, p: NDArray[np.float64]) -> Mixture:
        """Return the mixture that a parameter vector describes."""
        K, d, spread = self.K, self.d, self.covariance_parameters(p)
        roots = np.zeros((K, d, d))
        roots[:, range(d), range(d)] = np.exp(spread[:, :d])
        if self.n_covariance_parameters > d:
            roots[:, *self.below_diagonal] = spread[:, d:]
        return Mixture(softmax(p[:K]), p[K : K * (1 + d)].reshape(K, d), roots)

    def residuals(self, p: NDArray[np.float64], sketch: Sketch) -> NDArray[np.float64]:
        """Return the whitened residuals: sketch of the mixture minus the noisy sketch, shape (2m,)."""
        mixture = self.mixture(p)
        zeta, _ = mixture.components(sketch.frequencies)
        return sketch.standardized(np.exp(p[-1]) * (mixture.weights @ zeta) - sketch.values)

    def jacobian(self, p: NDArray[np.float64], sketch: Sketch) -> NDArray[np.float64]:
        """Return the derivatives of `residuals` with respect to the parameters, shape (P, 2m)."""
        K, d, W = self.K, self.d, sketch.frequencies.T
        mixture = self.mixture(p)
        zeta, rotated = mixture.components(sketch.frequencies)
        zeta *= mixture.weights[:, None] * np.exp(p[-1])
        value = zeta.sum(axis=0)
        J = np.empty((self.n_parameters, sketch.m), dtype=np.complex128)
        J[:K] = zeta - mixture.weights[:, None] * value
        J[K : K * (1 + d)] = (1j * zeta[:, None] * W).reshape(K * d, -1)
        if self.shape == "tied":
            zeta, rotated = value[None], rotated[:1]
        diagonal = mixture.roots[: self.n_covariances, range(d), range(d)]
        slopes = -W * diagonal[..., None] * rotated
        if self.shape == "spherical":
            slopes = slopes.sum(axis=1, keepdims=True)
        if self.n_covariance_parameters > d:
            rows, columns = self.below_diagonal
            slopes = np.concatenate([slopes, -W[rows] * rotated[:, columns]], axis=1)
        J[self.covariance_slice] = (slopes * zeta[:, None]).reshape(-1, sketch.m)
        J[-1] = value if sketch.size_error else 0.0
        return sketch.standardized(J)


_FEWEST, _MOST, _PER_COLUMN = 200, 1000, 25  # frequencies: 25 for each component and column, 5 d of many
_MIN_VARIANCE = 1e-4  # least variance of a direction, in units of y


@dataclass(frozen=True)
class Whitening:
    """Noisy mean c and covariance C of the scaled columns y, by which rows are whitened.

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
        """Square root C^(1/2) of the covariance."""
        return self._matrix_power(0.5)

    @property
    def inverse_root(self) -> NDArray[np.float64]:
        """Inverse square root C^(-1/2) of the covariance."""
        return self._matrix_power(-0.5)

    def preserving_shape(self, shape: Shape, units: NDArray[np.float64]) -> Whitening:
        """Return a whitening that keeps covariances of a shape, such as diagonal, in that shape in original units.

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

    def _matrix_power(self, exponent: float) -> NDArray[np.float64]:
        e, V = np.linalg.eigh(self.covariance)
        power: NDArray[np.float64] = (V * e**exponent) @ V.T
        return power


def whitening_of(sums: Sums) -> Whitening:
    """Return the whitening by the noisy mean and a positive definite covariance matrix, from noisy sums.

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
    own = estimate_moments(sums)
    return Whitening(
        own.means[0], repaired_covariance(own.covariances[0], own.noise[0], repair="shrink", least=_MIN_VARIANCE)
    )


def smallest_sd(K: int, d: int) -> float:
    """Return the smallest standard deviation of a component, in whitened units, that a sketch resolves."""
    return float(min(0.7, 0.7 / K ** (1 / d)))


def frequency_count(K: int, d: int) -> int:
    """Return the number of frequencies of a sketch for K components in d columns."""
    return min(_MOST, max(_FEWEST, max(_PER_COLUMN, 5 * d) * K * d))


def draw_frequencies(m: int, K: int, d: int, rng: Generator) -> NDArray[np.float64]:
    """Draw the frequencies of a sketch of whitened rows.

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
