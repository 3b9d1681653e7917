"""Work on rows where they are, here or in another process: integers come back, and nothing else."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import numpy as np

from dfprivacy._table.batch import BATCH_ROWS, batches
from dfprivacy.features.threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.conditions import Condition
    from dfprivacy._table.frames import Read, Rows
    from dfprivacy.features import RowFeatures
    from dfprivacy.features.integers import Integers
    from dfprivacy.schema import Column

__all__ = ["Selected", "SumTask", "Task"]

T = TypeVar("T")
V = TypeVar("V")
Selected: TypeAlias = "Iterator[tuple[Batch, NDArray[np.bool_] | None]]"
_FLUSH = 512  # batches whose float64 totals, each below 2^53, add up in int64


@dataclass(frozen=True)
class Task(Generic[T]):
    """Work on rows where they are: the columns, the conditions, and a function of the rows."""

    reads: tuple[Read, ...]
    conditions: tuple[Condition, ...]
    mark: tuple[Column, int] | None
    use: Callable[[Selected], T]

    def __call__(self, rows: Rows, count: Callable[[int], None]) -> T:
        """Read the rows, counted, and use them."""
        return self.use(self._selected(rows, count))

    @property
    def needed(self) -> list[Read]:
        """Columns that are read, those of conditions included."""
        return [*self._own, *(read for condition in self.conditions for read in condition.reads)]

    @property
    def _own(self) -> list[Read]:
        marked = self.mark[0].name if self.mark else None
        return [read for read in self.reads if read.name != marked]

    def _selected(self, rows: Rows, count: Callable[[int], None]) -> Selected:
        """Rows in batches, with a mask of those that the view selects."""
        for batch, mask in batches(rows, self._own, self.conditions):
            count(batch.size)
            if self.mark:
                batch.mark(*self.mark)
            yield batch, mask


class CountedCells:
    """Counts of rows by cell: places are gathered until they are twice as many as the cells."""

    def __init__(self, cells: int) -> None:
        self._counts = np.zeros(cells, dtype=np.int64)
        self._gathered: list[NDArray[np.intp]] = []

    def add(self, places: NDArray[np.intp]) -> None:
        """Count rows in the cells of these numbers; numbers beyond are in none."""
        self._gathered.append(places)
        if len(self._gathered) * BATCH_ROWS >= 2 * len(self._counts):
            self._count()

    def total(self) -> NDArray[np.int64]:
        """Return the counts."""
        self._count()
        return self._counts

    def _count(self) -> None:
        if self._gathered:
            places = self._gathered[0] if len(self._gathered) == 1 else np.concatenate(self._gathered)
            self._counts += np.bincount(places, minlength=len(self._counts))[: len(self._counts)]
            self._gathered.clear()


@dataclass(frozen=True)
class SumTask:
    """Exact sums of features over selected rows, in steps of 2 to the minus k."""

    features: RowFeatures
    k: int

    def __call__(self, read: Selected) -> Integers:
        """Read the rows, and add them up."""
        summands = self.features.summands
        # Where there are more coordinates than rows in a batch, most of a sum would be zeros.
        if summands > BATCH_ROWS and (counted := self.features.counted) is not None:
            return self._counted(counted, read)
        total: list[int] = []  # of what may not fit into 64 bits
        pending = np.zeros(summands, dtype=np.int64)

        def flush() -> None:
            total[:] = map(operator.add, total or [0] * summands, pending.tolist())
            pending[:] = 0

        for count, of_batch in enumerate(self._each(self._of_batch, read), start=1):
            pending += of_batch
            if count % _FLUSH == 0:
                flush()
        if not total:
            return pending
        flush()
        return total

    def _of_batch(self, selected: tuple[Batch, NDArray[np.bool_] | None]) -> NDArray[np.int64]:
        """Return the sums of a batch."""
        return self.features.total(*selected, self.k).astype(np.int64)

    def _counted(self, counted: Sequence[NDArray[np.intp]], read: Selected) -> NDArray[np.int64]:
        """Count the rows at each coordinate of each set."""
        sets = [CountedCells(len(at)) for at in counted]
        for places in self._each(lambda selected: self.features.cells(*selected), read):
            for cells, of_batch in zip(sets, places, strict=True):
                cells.add(of_batch)
        total = np.zeros(self.features.summands, dtype=np.int64)
        for at, cells in zip(counted, sets, strict=True):
            total[at] = cells.total()
        return total

    def _each(self, work: Callable[[tuple[Batch, NDArray[np.bool_] | None]], V], read: Selected) -> Iterator[V]:
        return (side_by_side if self.features.threaded else map)(work, read)
