"""Several features as one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dfprivacy._table.batch import category
from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import UP, Composed, Norm, RowFeatures, enforced, together

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.frames import Read
    from dfprivacy.features.base import Integers
    from dfprivacy.schema import Column

__all__ = ["Apart", "Stack"]


@final
class Stack(Composed):
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
    def inner(self) -> tuple[RowFeatures, ...]:
        """The features whose sums lie one after the other."""
        return self.features

    stacked = inner

    def rows(self, batch: Batch) -> NDArray[Any]:
        """Return the vectors of a batch."""
        return np.hstack([np.reshape(each.rows(batch), (batch.size, each.dimension)) for each in self.features])

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return the vectors of a batch in whole steps, those of each part clipped as they would be alone."""
        return np.hstack([each.steps(batch, k) for each in self.features])

    def totals(self, batch: Batch, place: NDArray[np.intp] | None, bins: int, k: int) -> NDArray[np.float64]:
        """Return the exact sums of the rows at each place below `bins`, shape (bins, summands)."""
        return np.hstack([each.totals(batch, place, bins, k) for each in self.features])

    def image(self, total: Integers, k: int) -> Integers:
        """Return the released coordinates of the exact sums, part by part."""
        return _images(total, [(each, k) for each in self.features])

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


@final
class Apart(Composed):
    """Of the rows of each group the sum of features of its own, on a grid of its own; for steps of a call alone."""

    def __init__(self, by: Sequence[Column], each: Mapping[int, tuple[RowFeatures, int]]) -> None:
        self.each = each
        self._by = tuple(by)
        self.columns = tuple(dict.fromkeys([*by, *(column for of in self.inner for column in of.columns)]))
        self.shape = (sum(of.dimension for of in self.inner),)

    @property
    def inner(self) -> tuple[RowFeatures, ...]:
        """The features of all groups."""
        return tuple(of for of, _ in self.each.values())

    @property
    def reads(self) -> Sequence[Read]:
        """How the columns are read."""
        return tuple(dict.fromkeys([*map(category, self._by), *super().reads]))

    def rows(self, batch: Batch) -> NDArray[Any]:
        """Not for rows one by one."""
        raise NotImplementedError

    def radius(self, norm: Norm) -> float:
        """Largest norm of a vector: each group is priced by itself."""
        raise NotImplementedError

    def totals(self, batch: Batch, place: NDArray[np.intp] | None, bins: int, k: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Return the exact sums of the rows at the first place, each on its own grid."""
        group = np.zeros(batch.size, dtype=np.intp) if place is None else np.where(place == 0, 0, -1)
        for column in self._by:
            codes, categories = batch.codes(column), len(column.categories or ())
            group = np.where((group >= 0) & (codes < categories), group * categories + codes, -1)
        rows = {at: batch.take(np.flatnonzero(group == at)) for at in self.each}
        return np.concatenate([of.total(rows[at], None, own) for at, (of, own) in self.each.items()])[None]

    def image(self, total: Integers, k: int) -> Integers:  # noqa: ARG002
        """Return the released coordinates of the exact sums."""
        return _images(total, self.each.values())


def _images(total: Integers, parts: Iterable[tuple[RowFeatures, int]]) -> Integers:
    """Return the released coordinates of sums that lie one after the other, each on its own grid."""
    images, start = [], 0
    for of, k in parts:
        images.append(of.image(total[start : start + of.summands], k))
        start += of.summands
    return together(images)
