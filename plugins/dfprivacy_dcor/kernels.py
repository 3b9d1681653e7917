r"""Kernels, as metric spaces: the distance 1 - k that a kernel k induces.

A kernel of values in [0, 1] with k(x, x) = 1 has features of norm 1, and :math:`|\varphi(x) - \varphi(x')|^2 =
2 (1 - k(x, x'))`. So 1 - k is of negative type, and the squared distance covariance that it gives is HSIC with 1/n²
in place of 1/(n-1)² [1]_. The other way round, a distance d of diameter D is induced by the kernel 1 - d / D.

References
----------
.. [1] Shen and Vogelstein (2021). The exact equivalence of distance and kernel methods in hypothesis testing. AStA
   Advances in Statistical Analysis 105.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy

from dfprivacy import ArgumentError
from dfprivacy_dcor.points import Points
from dfprivacy_dcor.spaces import Space, space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.arguments import NanPolicy

__all__ = ["Induced", "Kernel", "kernel_space", "unit"]

Kernel = Literal["gaussian", "laplace", "distance"]

SIXTHS = 6
"""A lengthscale is in sixths of the bounds' widths, as in all of the library: a standard deviation, roughly."""

_METRICS: dict[str, Any] = {"gaussian": "sqeuclidean", "laplace": "cityblock"}
_EXPONENTIAL = 12  # roundings that scaling and an exponential may add to those of a distance


@dataclass(frozen=True)
class Unlike(Points):
    """Points, already divided by the lengthscale, whose distance is 1 - k."""

    kernel: str = "gaussian"

    def distances(self, rows: slice) -> NDArray[np.float64]:
        """Distances from some rows to all, each from its two points alone."""
        distances: NDArray[np.float64] = -np.expm1(
            -scipy.spatial.distance.cdist(self.points[rows], self.points, _METRICS[self.kernel])
        )
        return distances

    def ordered(self, order: NDArray[np.intp]) -> Unlike:
        """Give the same points in another order."""
        return Unlike(self.points[order], self.kernel)


@dataclass(frozen=True)
class Induced(Space):
    """Columns with the distance 1 - k: what is public of it.

    Attributes
    ----------
    kernel : {"gaussian", "laplace"}
        The kernel.
    lengthscale : float
        In widths of the bounds.
    """

    kernel: Literal["gaussian", "laplace"] = "gaussian"
    lengthscale: float = 1.0

    @property
    def straight(self) -> bool:
        """Whether the distance is a sum of distances on lines: never."""
        return False

    @property
    def diameter(self) -> float:
        """Largest distance D, that of two opposite corners of the bounds."""
        apart = len(self.columns) / self.lengthscale ** (2 if self.kernel == "gaussian" else 1)
        return -math.expm1(-apart) * (1 + _EXPONENTIAL * 2.0**-52)

    @property
    def pairwise(self) -> bool:
        """Whether all pairs of distances are needed: always."""
        return True

    @property
    def terms(self) -> int:
        """How many numbers are added for one distance, and what an exponential's rounding counts as."""
        return len(self.columns) + _EXPONENTIAL

    def rows(self, batch: Any) -> Unlike:
        """Make points of cleaned rows."""
        units = [(batch.standardized(column) / 2 + 0.5) / self.lengthscale for column in self.columns]
        return Unlike(np.stack(units, axis=1), self.kernel)


def kernel_space(
    columns: tuple[Column, ...], kernel: Kernel, lengthscale: float | None, *, nan_policy: NanPolicy
) -> Space:
    """Check columns, and describe the space whose distance covariance is HSIC, but for `unit`.

    Parameters
    ----------
    columns : tuple of Column
        Columns with bounds; or one with categories, of which k is 1 for equal ones and else 0.
    kernel : {"gaussian", "laplace", "distance"}
        The kernel of numbers.
    lengthscale : float or None
        Of the kernel, in sixths of the bounds' widths; None for the default.
    nan_policy : {"omit", "fill", "raise"}
        Whether rows with a missing value are left out.

    Returns
    -------
    Space
        What is public of it.
    """
    if kernel == "distance" and lengthscale is not None:
        raise ArgumentError("kernel='distance' has no lengthscale.", "Leave lengthscale= out.")
    plain = space(columns, "euclidean", nan_policy=nan_policy)
    if kernel == "distance" or plain.metric == "discrete":
        return plain
    p = len(columns)
    sixths = (math.sqrt(p) if kernel == "gaussian" else p) if lengthscale is None else lengthscale
    return Induced(columns, "euclidean", omit=plain.omit, kernel=kernel, lengthscale=sixths / SIXTHS)


def unit(of: Space) -> float:
    """Give the distance that is 1 for the kernel: the diameter of the kernel 1 - d / D, else 1."""
    return 1.0 if isinstance(of, Induced) else of.diameter
