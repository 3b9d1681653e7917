"""What a row feature is, and what follows from its radius."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.errors import PluginError
from dfprivacy.rows import category, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy.frames import Read
    from dfprivacy.rows import Batch
    from dfprivacy.schema import Column

__all__ = ["Norm", "RowFeatures", "Selective"]

Norm = int  # 1 or 2
_DERIVED = {"dimension", "summands", "support", "diameter", "sensitivity", "steps", "total", "totals", "image"}
_FEW = 5  # places from which on np.bincount is faster than a product of matrices; both are exact
_HOUSE = "dfprivacy.features."  # what is written here may override what others may not


class RowFeatures(ABC):
    """A bounded map from one row to a vector; what a mechanism asks the sum of.

    A third party subclasses it, sets `columns` and `shape`, and writes `rows` and `radius`.

    Attributes
    ----------
    columns : tuple of Column
        The columns it reads.
    shape : tuple of int
        Shape of the sum; its product is the dimension d.
    weights : float or ndarray
        The released sum is divided by them: coordinates that matter less may be scaled down before the noise.

    Examples
    --------
    The share of rows above a threshold, as somebody else might write it:

    >>> class Above(RowFeatures):
    ...     shape = (1,)
    ...     def __init__(self, column, threshold):
    ...         self.columns = (column,)
    ...         self.threshold = threshold
    ...     def rows(self, batch):
    ...         return (batch.values(self.columns[0]) > self.threshold)[:, None]
    ...     def radius(self, norm):
    ...         return 1.0
    """

    columns: tuple[Column, ...]
    shape: tuple[int, ...]
    weights: float | NDArray[np.float64] = 1.0

    @property
    def reads(self) -> Sequence[Read]:
        """How the columns are read: as numbers where they have bounds, else as categories."""
        return [number(c) if c.bounds is not None else category(c) for c in self.columns]

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return math.prod(self.shape)

    @property
    def summands(self) -> int:
        """Number of coordinates that are added up; `image` makes the d released ones of their sums."""
        return self.dimension

    @property
    def support(self) -> int:
        """Most coordinates that one row can make different from zero."""
        return self.dimension

    @abstractmethod
    def rows(self, batch: Batch) -> NDArray[Any]:
        """Vectors of the rows of a batch, weights included, shape (batch.size, d)."""

    @abstractmethod
    def radius(self, norm: Norm) -> float:
        """Largest L1 or L2 norm of a row's vector."""

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:  # noqa: ARG002
        """Largest L1 or L2 distance of two rows' vectors, when the rows agree on the public columns."""
        return 2 * self.radius(norm)

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Sensitivity of the sum: the radius for a row more or less, the diameter for a row that changes."""
        return self.radius(int(norm)) if relation == "add_remove" else self.diameter(int(norm), public)

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        r"""Vectors of a batch in whole steps of :math:`2^{-k}`, clipped to the declared radius."""
        rows = np.array(self.rows(batch), dtype=np.float64).reshape(batch.size, self.dimension)
        rows[~np.isfinite(rows).all(axis=1)] = 0  # a row without a vector counts nowhere
        for norm in (1, 2):
            length = np.linalg.norm(rows, ord=norm, axis=1)
            over = length > self.radius(norm)
            rows[over] *= (self.radius(norm) / length[over])[:, None]
        rows *= 2.0**k
        return np.rint(rows, out=rows)

    def total(self, batch: Batch, mask: NDArray[np.bool_] | None, k: int) -> NDArray[np.float64]:
        """Exact sum of a batch in whole steps, shape (summands,). Whole numbers: order cannot matter."""
        steps = self.steps(batch, k)
        total: NDArray[np.float64] = (steps if mask is None else steps[mask]).sum(axis=0)
        return total

    def totals(self, batch: Batch, place: NDArray[np.intp], bins: int, k: int) -> NDArray[np.float64]:
        """Exact sums of the rows at each place below `bins`, shape (bins, summands); others count nowhere."""
        steps = self.steps(batch, k)
        total: NDArray[np.float64]
        if bins < _FEW:
            total = (place == np.arange(bins)[:, None]).astype(np.float64) @ steps
        else:
            total = np.array([np.bincount(place, weights=each, minlength=bins + 1)[:bins] for each in steps.T]).T
        return total

    def image(self, total: list[int], k: int) -> list[int]:  # noqa: ARG002
        r"""Released coordinates of the exact sums, in steps of :math:`2^{-k}`, rounded once and for all rows."""
        return total

    def describe(self) -> str:
        """Name the feature in words for an explanation."""
        names = ", ".join(column.name for column in self.columns)
        return f"{type(self).__name__}({names})"

    def __init_subclass__(cls) -> None:
        # What privacy rests on is derived here from `rows` and `radius`, which are enforced.
        derived = _DERIVED & vars(cls).keys()
        if derived and not cls.__module__.startswith(_HOUSE):
            raise PluginError(
                f"{cls.__name__} defines {sorted(derived)!r}, which RowFeatures derives.",
                "Write rows() and radius() only.",
            )


class Selective(RowFeatures):
    """Row features whose `total` looks at the selected rows only."""

    def totals(self, batch: Batch, place: NDArray[np.intp], bins: int, k: int) -> NDArray[np.float64]:
        """Exact sums of the rows at each place below `bins`, shape (bins, summands); others count nowhere."""
        return np.array([self.total(batch, place == each, k) for each in range(bins)])
