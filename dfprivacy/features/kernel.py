"""Row features for kernels: kernel values at public points, and projections onto the span of these points."""

from __future__ import annotations

import math
import operator
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import UP, Norm, SlowFeatures, integers, root

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy.features.base import Integers
    from dfprivacy.features.product_kernel import ProductKernel

__all__ = ["Kernel", "Nystrom"]

_STEP = 39  # kernel values are added on a grid of 2^-39: 2^14 of them stay below 2^53
_MAP_STEP = 40  # the entries of a map are integer multiples of 2^-40
_ULP = 2.0**-52
_DEFECT_MAX = 1e-4
_BLOCK = 128


@final
class Kernel(SlowFeatures):
    r"""Values of a kernel at public points: the vector :math:`(k(x, z_1), \dots, k(x, z_M))` of a row x.

    Parameters
    ----------
    kernel : ProductKernel
        The kernel.
    points : array_like of shape (M, columns)
        Public rows: numbers within the bounds, codes of categories.

    Notes
    -----
    With K the kernel matrix of the points and :math:`\phi` the kernel's feature map, the vector is
    :math:`\Phi'\phi(x)` with :math:`\|\Phi\|^2 = \lambda_{\max}(K)`. So its L2 norm is at most
    :math:`\sqrt{\lambda_{\max}(K)}`, its L1 norm, a scalar product with the sum of the
    :math:`\phi(z_m)`, at most :math:`\sqrt{1'K1}`, and two rows' vectors are at most
    :math:`\sqrt{\lambda_{\max}(K)}` times :meth:`ProductKernel.distance` apart. Entries lie in [0, 1]: neither
    norm nor distance exceeds :math:`\sqrt M` (L1: M; infinity: 1). Each entry is such a vector with M = 1, so in
    the norm of infinity two rows are at most their :meth:`ProductKernel.distance` apart. K is that of the points
    where the kernel values have them, whatever the points' own digits (`ProductKernel.gram`), and all is rounded
    up, by `ProductKernel.excess` for the rounding of a row.
    """

    def __init__(self, kernel: ProductKernel, points: NDArray[np.float64]) -> None:
        self.kernel = kernel
        self.points = kernel.snap(kernel.check(points))
        self.columns = kernel.columns
        self.shape = (len(self.points),)
        self._right = np.ascontiguousarray(kernel.right_factors(self.points.T).T)

    def gram(self) -> NDArray[np.float64]:
        """Return the kernel matrix of the points, with the same rounding as the kernel values of rows."""
        return self.kernel.gram(self.points)

    @cached_property
    def _norms(self) -> dict[float, float]:
        gram = self.gram()
        m = len(gram)
        above = (1 + self.kernel.excess) * (1 + 4 * m * _ULP)  # the rounding of the matrix and of its norms
        return {
            math.inf: above,
            1: min(float(m), math.sqrt(gram.sum())) * above,
            2: math.sqrt(min(float(m), float(np.linalg.eigvalsh(gram)[-1]) + m * m * _ULP)) * above,
        }

    def features(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the kernel values of public rows at the points, shape (rows, M)."""
        return self._kernel_values(self.kernel.left_factors(rows.T))

    def _kernel_values(self, left: NDArray[np.float64]) -> NDArray[np.float64]:
        exponents: NDArray[np.float64] = left @ self._right
        return np.exp(exponents, out=exponents)

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        return self._kernel_values(self.kernel.left_factors(self.kernel.columns_of(batch)))

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return the feature vectors of a batch as multiples of the grid step."""
        steps = self.rows(batch)
        steps *= 2.0**k
        return np.rint(steps, out=steps)

    def radius(self, norm: Norm) -> float:
        """Return the largest norm of a row's feature vector."""
        return self._norms[norm]

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance between the feature vectors of two rows."""
        distance = self.kernel.distance(public)
        if not distance:
            return 0.0
        m = float(self.dimension)
        above = UP + self.kernel.excess  # an entry can be as much above 1
        if norm == math.inf:
            return min(above, self._norms[norm] * distance * UP)
        euclidean = min(math.sqrt(m) * above, self._norms[2] * distance * UP)
        return euclidean if norm != 1 else min(m * above, 2 * self._norms[1], math.sqrt(m) * euclidean * UP)

    def describe(self) -> str:
        """Return a description of the feature."""
        return f"{self.dimension} kernel values of ({self.kernel.describe()})"


@final
class Nystrom(SlowFeatures):
    r"""Coordinates of a row's projection onto the span of public points in the kernel's feature space.

    .. math:: \psi(x) = A\,(k(x, z_1), \dots, k(x, z_F))', \qquad A \approx K^{-1/2}

    so that :math:`\psi(x)'\psi(x')` is the kernel of two rows' projections: the Nyström kernel.

    Parameters
    ----------
    kernel : ProductKernel
        The kernel.
    points : array_like of shape (M, columns)
        Public rows that span the subspace.
    tolerance : float
        A point is left out when its squared distance from the span of those before it is less.

    Attributes
    ----------
    points : ndarray of shape (F, columns)
        The points that are kept, the pivots of a Cholesky factorisation.
    pivots : ndarray of int, shape (F,)
        Which of the given points they are.
    map : ndarray of shape (F, F)
        A, lower triangular.
    defect : float
        How much longer than its kernel feature a row's vector may be, relatively; it is charged.
    error : float
        Bound on the floating-point error of each coordinate of `rows`; sums have none.

    Notes
    -----
    **Sums.** Kernel values are rounded to a grid and added as integers. The entries of A are integer multiples of
    2\ :sup:`-40`, and A is applied to the exact sums once, in integer arithmetic. So the sum of the vectors is
    exact, and costs F kernel values a row.

    **Radius.** A is the rounded inverse of the Cholesky factor L of :math:`\tilde K + \delta I`, where
    :math:`\tilde K` is the computed kernel matrix. With unit roundoff u, the factorisation is that of a
    matrix within :math:`F(F+2)u` of it [1]_, and :math:`\tilde K` is within :math:`2Fu` of K. The ridge
    :math:`\delta = 2F(F+4)u` is larger than both, so :math:`K \preceq LL'`, and with R = AL - I

    .. math:: AKA' \preceq ALL'A' = (I + R)(I + R)', \qquad \|\psi(x)\| \le (1 + \|R\|)\,\|\phi(x)\|.

    The Frobenius norm of R, with the rounding of its own computation, is `defect`; a tolerance that makes it more
    than 1e-4 is raised tenfold until it does not. All depends on public numbers only. Two rows' vectors are apart
    by at most (1 + defect) times :meth:`ProductKernel.distance`, and :math:`\|A\|_F \sqrt F` steps of the grid of
    kernel values. The norm of infinity is at most that of L2. :math:`\tilde K` is computed where the kernel values
    have the points (`Kernel.gram`): :math:`\|A\|` is large, and would blow up what the points lose when they are
    written down beside a large offset.

    References
    ----------
    .. [1] Higham (2002). Accuracy and Stability of Numerical Algorithms, theorem 10.3. SIAM.
    """

    def __init__(self, kernel: ProductKernel, points: NDArray[np.float64], tolerance: float = 1e-10) -> None:
        rows = kernel.snap(kernel.check(points))
        if not 0 < tolerance < 1:
            raise ArgumentError(f"tolerance={tolerance!r} is not between 0 and 1.", "For example tolerance=1e-6.")
        self.kernel = kernel
        self.columns = kernel.columns
        while True:
            gram = Kernel(kernel, rows).gram()
            pivots = _cholesky_pivots(gram, tolerance)
            gram = gram[np.ix_(pivots, pivots)]
            A, defect = _whitening_matrix(gram)
            if defect <= _DEFECT_MAX:
                break
            tolerance *= 10
        self.pivots, self.map, self.defect, self.tolerance = pivots, A, defect, tolerance
        self.points = rows[pivots]
        self.shape = (len(pivots),)
        self.support = 2 * len(pivots)  # steps: the final rounding moves each coordinate of either row by one
        self._kernel = Kernel(kernel, self.points)
        frobenius = float(np.linalg.norm(A)) * (1 + 1e-9)
        self._grid_error = frobenius * math.sqrt(self.dimension) * 2.0**-_STEP * (1 + 2.0**-10)
        self.error = float(np.abs(A).sum(axis=1).max()) * (self.dimension + 2) * _ULP

    def features(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the feature vectors of public rows, in float64; shape (rows, F)."""
        return self._kernel.features(rows) @ self.map.T

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch, in float64; `error` bounds its rounding error."""
        values = self._kernel.steps(batch, _STEP)
        values *= 2.0**-_STEP
        return values @ self.map.T

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Return a batch's kernel values as multiples of a fixed grid step; `image` multiplies sums by `map`."""
        return self._kernel.steps(batch, _STEP)

    def image(self, total: Integers, k: int) -> Integers:
        """Return the matrix `map` times the exact sums of kernel values, rounded to multiples of the grid step."""
        total = integers(total)
        # A is lower triangular. A row at a time: Python's integers are large.
        rows = (np.ldexp(row[: i + 1], _MAP_STEP).tolist() for i, row in enumerate(self.map))
        mapped = (sum(map(operator.mul, map(int, row), total)) for row in rows)
        shift = _STEP + _MAP_STEP - k
        return [(value + (1 << (shift - 1))) >> shift for value in mapped]

    def radius(self, norm: Norm) -> float:
        """Return the largest norm of a row's feature vector."""
        euclidean = ((1 + self.defect) * (1 + self.kernel.excess) + self._grid_error) * UP
        return euclidean if norm != 1 else root(self.dimension) * euclidean * UP

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance between the feature vectors of two rows."""
        distance = self.kernel.distance(public)
        euclidean = ((1 + self.defect) * distance + self._grid_error) * UP if distance else 0.0
        return euclidean if norm != 1 else root(self.dimension) * euclidean * UP

    def describe(self) -> str:
        """Return a description of the feature."""
        return f"{self.dimension} kernel features of ({self.kernel.describe()})"


def _cholesky_pivots(gram: NDArray[np.float64], tolerance: float) -> NDArray[np.intp]:
    """Return the indices of the points that a pivoted Cholesky factorisation keeps at the given tolerance."""
    from scipy.linalg import lapack  # SciPy takes longer to import than all of dfprivacy

    _, order, rank, _ = lapack.dpstrf(gram.T, lower=1, tol=tolerance)
    pivots: NDArray[np.intp] = (order[:rank] - 1).astype(np.intp)
    return pivots


def _whitening_matrix(gram: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return a whitening matrix of the kernel matrix `gram`, and a bound of its error; `gram` is overwritten."""
    from scipy.linalg import lapack

    F = len(gram)
    gram.flat[:: F + 1] += F * (F + 4) * _ULP
    L = np.linalg.cholesky(gram)
    A = np.tril(lapack.dtrtri(L, lower=1)[0])
    np.rint(np.ldexp(A, _MAP_STEP, out=A), out=A)
    np.ldexp(A, -_MAP_STEP, out=A)
    size, squares = np.abs(L, out=gram), 0.0
    for start in range(0, F, _BLOCK):  # of rows of R
        block = A[start : start + _BLOCK]
        R = block @ L
        R[np.arange(len(block)), np.arange(len(block)) + start] -= 1
        squares += float(np.sum((np.abs(R) + (F + 1) * _ULP * (np.abs(block) @ size)) ** 2))
    return A, math.sqrt(squares) * (1 + 1e-9)
