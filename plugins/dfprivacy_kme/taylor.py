"""An exact orthonormal basis of the Gaussian kernel's space."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError
from dfprivacy.features import RowFeatures
from dfprivacy.features.upward import UP, root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy.features import ProductKernel

__all__ = ["Taylor"]

_ULP = 2.0**-52
_PIECE = 1 << 17  # numbers at a time: 1 MB of float64
_DEEP = 710.0  # |t|²/2 from which on exp(-t²/2) is not a normal number, and taken for 0
_NORMAL = float(np.finfo(np.float64).tiny)


class Taylor(RowFeatures):
    r"""Coordinates of a row's Gaussian kernel feature in an orthonormal basis, up to a total degree.

    .. math:: e_\nu(x) = \prod_i \frac{t_i^{\nu_i}}{\sqrt{\nu_i!}}\, e^{-t_i^2/2}, \qquad
       t_i = (x_i - c_i) / \ell_i, \quad |\nu| \le n

    Parameters
    ----------
    kernel : ProductKernel
        A kernel of numbers only.
    degree : int
        n.

    Attributes
    ----------
    powers : ndarray of int, shape (F, columns)
        The exponents :math:`\nu`, by total degree.
    error : float
        Bound on the length of a vector's floating-point error.

    Notes
    -----
    These functions are an orthonormal basis of the kernel's space [1]_:
    :math:`\sum_\nu e_\nu(x) e_\nu(x') = k(x, x')`. There is no matrix to invert, and nothing to go wrong with its
    conditioning. What a truncation leaves out of a row is :math:`1 - \sum e_\nu(x)^2`, the probability that a
    Poisson variable of mean :math:`|t|^2` exceeds n. All operations are elementwise, so a row's vector is a pure
    function of the row.

    **Diameter.** The t of floating point are what `ProductKernel.distance` is taken of. Each coordinate is
    a product of numbers that are computed to a few last bits each: with T the largest :math:`|t_i|`, the square of
    which goes into an exponential, to a relative :math:`\sum_i T_i^2/2 + 4n + 8d` bits. So a vector, no longer than
    1, is off by no more (`error`). Where :math:`e^{-t_i^2/2}` is no normal number of float64, the row's vector is
    0; there the bounds are so far apart that the diameter is above 1. The norm of infinity is at most that of L2.

    References
    ----------
    .. [1] Steinwart, Hush and Scovel (2006). An explicit description of the reproducing kernel Hilbert spaces of
       Gaussian RBF kernels. IEEE Transactions on Information Theory 52.
    """

    def __init__(self, kernel: ProductKernel, degree: int) -> None:
        if kernel.categories:
            raise ArgumentError("The Taylor basis is of numbers only.", "Leave out the categories.")
        if not isinstance(degree, int) or degree < 0:
            raise ArgumentError(f"degree={degree!r} is not a whole number from 0.", "Try 8.")
        self.kernel = kernel
        self.columns = kernel.columns
        self.degree = degree
        self.powers = np.array(list(_powers(len(self.columns), degree)))
        self.shape = (len(self.powers),)
        ends = [kernel.scaled(np.array([c.low, c.high]), j) for j, c in enumerate(self.columns)]
        deep = sum(min(float(np.abs(t).max()) ** 2 / 2, _DEEP) for t in ends)
        self.error = (deep + 4 * degree + 8 * len(ends)) * _ULP

    def _fill(self, columns: Sequence[NDArray[np.float64]], out: NDArray[np.float64]) -> None:
        out[:] = 1
        for i, numbers in enumerate(columns):
            t = self.kernel.scaled(numbers, i)
            powers = np.empty((self.degree + 1, len(t)))
            np.exp(-t * t / 2, out=powers[0])
            powers[0][powers[0] < _NORMAL] = 0
            for n in range(self.degree):
                np.multiply(powers[n], t / math.sqrt(n + 1), out=powers[n + 1])
            out *= powers[self.powers[:, i]].T

    def features(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Vectors of public rows, shape (rows, F)."""
        return self._of(list(np.asarray(rows, dtype=np.float64).T))

    def rows(self, batch: Any) -> NDArray[np.float64]:
        """Return the vectors of a batch."""
        return self._of(self.kernel.columns_of(batch))

    def _of(self, columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Give the vectors of rows, as many at a time as fit the cache."""
        vectors = np.empty((len(columns[0]), self.dimension))
        height = max(1, _PIECE // self.dimension)
        for start in range(0, len(vectors), height):
            piece = slice(start, start + height)
            self._fill([column[piece] for column in columns], vectors[piece])
        return vectors

    def radius(self, norm: float) -> float:
        """Largest norm of a vector."""
        euclidean = (1 + self.error) * UP
        return euclidean if norm != 1 else root(self.dimension) * euclidean * UP

    def diameter(self, norm: float, public: frozenset[str]) -> float:
        """Largest distance of two vectors."""
        distance = self.kernel.distance(public, exact=False)
        euclidean = (distance + 2 * self.error) * UP if distance else 0.0
        return euclidean if norm != 1 else root(self.dimension) * euclidean * UP

    def describe(self) -> str:
        """Name the feature in words."""
        return f"{self.dimension} Taylor features of ({self.kernel.describe()})"


def _powers(columns: int, degree: int) -> list[tuple[int, ...]]:
    """Exponents by total degree, and within one from the last column to the first."""
    found: list[tuple[int, ...]] = []
    for total in range(degree + 1):
        bars = itertools.combinations(range(total + columns - 1), columns - 1)
        for chosen in bars:
            ends = (-1, *chosen, total + columns - 1)
            found.append(tuple(b - a - 1 for a, b in itertools.pairwise(ends)))
    return found
