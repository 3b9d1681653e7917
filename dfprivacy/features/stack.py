"""Several features as one."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import Norm, RowFeatures, common_unit, enforced
from dfprivacy.features.integers import together
from dfprivacy.features.upward import UP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.frames import Read
    from dfprivacy.features.integers import Integers

__all__ = ["Stack"]


@final
class Stack(RowFeatures):
    r"""Several features in one pass, with one vector of noise: their vectors, one after the other.

    The `~dfprivacy.NoisyValue` of their sum has one of each feature's shape among its ``parts``.

    Parameters
    ----------
    *features : RowFeatures
        At least one. ``OneHot(by) * Stack(a, b)`` has both by category.

    Notes
    -----
    A row's vector is made of the vectors of the parts, so with :math:`r_1, r_2, \dots` their radii, or their
    diameters for the same public columns, it has at most the length

    .. math:: \sum_i r_i \text{ in L1}, \quad \sqrt{\textstyle\sum_i r_i^2} \text{ in L2}, \quad
       \max_i r_i \text{ in the norm of infinity.}

    So they share one budget: in L2 m parts alike cost √m times what one costs, in the norm of infinity as much as
    one. All coordinates get noise of one scale: a part of large numbers, weights included, drowns the others.

    A part over public columns adds nothing to the diameter, but is **inside the noise as the others are**: asked on
    its own, its sum is exact and free. The sums are those of the parts, on the grid of the stack, to the last bit.
    """

    def __init__(self, *features: RowFeatures) -> None:
        if not features:
            raise ArgumentError("A stack of no features has no sums.", "Give at least one.")
        self.features = tuple(enforced(each) for each in features)
        self.columns = tuple(dict.fromkeys(column for each in self.features for column in each.columns))
        self.shape = (sum(each.dimension for each in self.features),)
        self.weights = np.concatenate([np.broadcast_to(each.weights, each.shape).ravel() for each in self.features])

    @property
    def reads(self) -> Sequence[Read]:
        """How the columns are read."""
        return [read for each in self.features for read in each.reads]

    @property
    def summands(self) -> int:
        """Number of coordinates that are added up."""
        return sum(each.summands for each in self.features)

    @property
    def support(self) -> int:
        """Most coordinates that one row can make different from zero."""
        return sum(each.support for each in self.features)

    @property
    def unit(self) -> float | None:
        """The unit of all parts, if each has one."""
        return common_unit(each.unit for each in self.features)

    @property
    def stacked(self) -> tuple[RowFeatures, ...]:
        """The features whose sums lie one after the other."""
        return self.features

    @property
    def threaded(self) -> bool:
        """Whether several batches are worked through side by side."""
        return all(each.threaded for each in self.features)

    @property
    def portable(self) -> bool:
        """Whether all processors give the same bits."""
        return all(each.portable for each in self.features)

    def rows(self, batch: Batch) -> NDArray[Any]:
        """Return the vectors of a batch."""
        return np.hstack([np.reshape(each.rows(batch), (batch.size, each.dimension)) for each in self.features])

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return the vectors of a batch in whole steps, those of each part clipped as they would be alone."""
        return np.hstack([each.steps(batch, k) for each in self.features])

    def total(self, batch: Batch, mask: NDArray[np.bool_] | None, k: int) -> NDArray[np.float64]:
        """Return the exact sums of a batch in whole steps."""
        return np.concatenate([each.total(batch, mask, k) for each in self.features])

    @property
    def counted(self) -> tuple[NDArray[np.intp], ...] | None:
        """The sets of all parts, if all have such."""
        starts = accumulate((each.summands for each in self.features), initial=0)
        sets: list[NDArray[np.intp]] = []
        for each, start in zip(self.features, starts, strict=False):
            if (counted := each.counted) is None:
                return None
            sets += [start + own for own in counted]
        return tuple(sets)

    def cells(self, batch: Batch, mask: NDArray[np.bool_] | None) -> list[NDArray[np.intp]]:
        """Return the place of each row in each set."""
        return [places for each in self.features for places in each.cells(batch, mask)]

    def totals(self, batch: Batch, place: NDArray[np.intp], bins: int, k: int) -> NDArray[np.float64]:
        """Return the same for the rows at each place below `bins`, shape (bins, summands)."""
        return np.hstack([each.totals(batch, place, bins, k) for each in self.features])

    def image(self, total: Integers, k: int) -> Integers:
        """Return the released coordinates of the exact sums, part by part."""
        ends = pairwise(accumulate((each.summands for each in self.features), initial=0))
        parts = zip(self.features, ends, strict=True)
        return together([each.image(total[start:end], k) for each, (start, end) in parts])

    def radius(self, norm: Norm) -> float:
        """Largest norm of a vector."""
        return _length([each.radius(norm) for each in self.features], norm)

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Largest distance of two vectors."""
        return _length([each.diameter(norm, public) for each in self.features], norm)

    def describe(self) -> str:
        """Name the features in words."""
        return f"Stack({', '.join(each.describe() for each in self.features)})"


def _length(lengths: list[float], norm: Norm) -> float:
    """Norm of a vector of parts of known norms, rounded up at every scale."""
    moved = [length for length in lengths if length]
    if norm == math.inf or len(moved) <= 1:
        return max(moved, default=0.0)
    return sum(moved) * UP ** len(moved) if norm == 1 else math.nextafter(math.hypot(*moved) * UP, math.inf)
