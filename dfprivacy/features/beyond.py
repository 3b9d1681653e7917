"""Rows whose number lies beyond its bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, final

import numpy as np

from dfprivacy._table.batch import number
from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import Norm, RowFeatures, root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.frames import Read
    from dfprivacy.schema import Column

__all__ = ["Beyond"]


@final
class Beyond(RowFeatures):
    r"""Indicators of a number below its bounds and above them: the sums count such rows.

    Parameters
    ----------
    column : Column
        A column with bounds. A value on a bound is not beyond it, nor is one that is missing.
    weight : float
        A power of two: what such a row counts beside others in a `Stack`, which has the noise of its largest part.

    Notes
    -----
    A row has the vector (w, 0), (0, w) or 0, w being the weight. So the radius is w in every norm, and the diameter
    is 2w in L1, √2 w in L2 and w in the norm of infinity.

    ``Stack(Moments(x), Beyond(x, weight=1/16))`` has the L1 diameter 2 + 2/16: the noise in the moments grows by a
    sixteenth, and 16 times that in each of the numbers of rows tells how many values were limited.
    """

    portable = True
    support = 1

    def __init__(self, column: Column, *, weight: float = 1.0) -> None:
        if not 0 < weight < math.inf or math.frexp(weight)[0] != 0.5:  # noqa: PLR2004 - of a power of two
            raise ArgumentError(f"weight={weight!r} is no power of two.", "For example 1/16.")
        self.columns = (column,)
        self.shape = (2,)
        self.weights = self._weight = float(weight)

    @property
    def reads(self) -> Sequence[Read]:
        """How the column is read."""
        return [number(self.columns[0])]

    @property
    def unit(self) -> float | None:
        """One row."""
        return self._weight

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the vectors of a batch."""
        return self._vectors(batch, self._weight)

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return the vectors of a batch in whole steps."""
        return self._vectors(batch, float(np.rint(math.ldexp(self._weight, k))))

    def _vectors(self, batch: Batch, one: float) -> NDArray[np.float64]:
        vectors: NDArray[np.float64] = np.multiply(batch.beyond(self.columns[0]), one).T
        return vectors

    def radius(self, norm: Norm) -> float:  # noqa: ARG002
        """Largest norm of a vector."""
        return self._weight

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Largest distance of two vectors."""
        if self.columns[0].name in public:
            return 0.0
        return self._weight * {1: 2.0, 2: root(2), math.inf: 1.0}[norm]
