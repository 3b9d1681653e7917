"""Features of each group of a call, which differ where a group chose its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from dfprivacy._table.batch import category
from dfprivacy.features.base import Norm, RowFeatures
from dfprivacy.features.integers import together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.frames import Read
    from dfprivacy.features.integers import Integers
    from dfprivacy.schema import Column

__all__ = ["Apart"]


@final
class Apart(RowFeatures):
    """Of the rows of each group the sum of features of its own, on a grid of its own; for steps of a call alone."""

    def __init__(self, by: Sequence[Column], each: Mapping[int, tuple[RowFeatures, int]]) -> None:
        self.each = each
        self._by = tuple(by)
        columns = [*by, *(column for of, _ in each.values() for column in of.columns)]
        self.columns = tuple(dict.fromkeys(columns))
        self.shape = (sum(of.dimension for of, _ in each.values()),)

    @property
    def reads(self) -> Sequence[Read]:
        """How the columns are read."""
        inner = [read for of, _ in self.each.values() for read in of.reads]
        return tuple(dict.fromkeys([*map(category, self._by), *inner]))

    @property
    def summands(self) -> int:
        """Number of coordinates that are added up."""
        return sum(of.summands for of, _ in self.each.values())

    @property
    def portable(self) -> bool:
        """Whether all processors give the same bits."""
        return all(of.portable for of, _ in self.each.values())

    @property
    def threaded(self) -> bool:
        """Whether several batches are worked through side by side."""
        return any(of.threaded for of, _ in self.each.values())

    def rows(self, batch: Batch) -> NDArray[Any]:
        """Not for rows one by one."""
        raise NotImplementedError

    def radius(self, norm: Norm) -> float:
        """Largest norm of a vector: each group is priced by itself."""
        raise NotImplementedError

    def total(self, batch: Batch, mask: NDArray[np.bool_] | None, k: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Return the exact sums of a batch, each on its own grid."""
        place = np.zeros(batch.size, dtype=np.intp) if mask is None else np.where(mask, 0, -1)
        for column in self._by:
            codes, categories = batch.codes(column), len(column.categories or ())
            place = np.where((place >= 0) & (codes < categories), place * categories + codes, -1)
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], [*self.each, *(at + 1 for at in self.each)])
        sums = []
        starts, stops = ends[: len(self.each)], ends[len(self.each) :]
        for start, stop, (of, own) in zip(starts, stops, self.each.values(), strict=True):
            sums.append(of.total(batch.take(order[start:stop]), None, own))
        return np.concatenate(sums)

    def image(self, total: Integers, k: int) -> Integers:  # noqa: ARG002
        """Return the released coordinates of the exact sums."""
        parts, start = [], 0
        for of, own in self.each.values():
            parts.append(of.image(total[start : start + of.summands], own))
            start += of.summands
        return together(parts)
