"""Tasks on rows, in this process or another one: only their results come back."""

from __future__ import annotations

import operator
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from dfprivacy._forks import Lock
from dfprivacy._table.batch import frame_reads
from dfprivacy._table.conditions import batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.conditions import Condition
    from dfprivacy._table.frames import BatchSource, Read
    from dfprivacy.features import RowFeatures
    from dfprivacy.features.base import Integers
    from dfprivacy.schema import Column

__all__ = ["Selected", "SumTask", "Task", "map_in_threads"]

T = TypeVar("T")
S = TypeVar("S")
Selected: TypeAlias = "Iterator[tuple[Batch, NDArray[np.bool_] | None]]"
_FLUSH = 512  # batches whose float64 totals, each below 2^53, add up in int64


@dataclass(frozen=True)
class Task(Generic[T]):
    """Task on rows: the columns to read, the conditions on rows, and a function of the selected rows."""

    reads: tuple[Read, ...]
    conditions: tuple[Condition, ...]
    mark: tuple[Column, int] | None
    use: Callable[[Selected], T]

    @property
    def columns_asked(self) -> list[Read]:
        """Columns that the function or the conditions read, without the column that `mark` sets."""
        marked = self.mark[0].name if self.mark else None
        own = [read for read in self.reads if read.name != marked]
        return [*own, *(read for condition in self.conditions for read in condition.reads)]

    @property
    def columns_needed(self) -> list[Read]:
        """Columns to read from the table, with the columns of its formula in place of a computed column."""
        return [*frame_reads(self.columns_asked)]

    def __call__(self, rows: BatchSource, count: Callable[[int], None]) -> T:
        """Read and count the rows, and apply the function to them."""
        return self.use(self._selected_batches(rows, count))

    def _selected_batches(self, rows: BatchSource, count: Callable[[int], None]) -> Selected:
        """Iterate over rows in batches, with a mask of the rows that the view selects."""
        for batch, mask in batches(rows, self.columns_asked, self.conditions):
            count(batch.size)
            if self.mark:
                batch.mark(*self.mark)
            yield batch, mask


class _OneThreadBlas:
    """Context manager that limits BLAS to one thread: many small products are slower on more threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._controller = ThreadpoolController().select(user_api="blas")
        self._threads = 1
        self._limit: Any = None

    def __enter__(self) -> int:
        """Limit BLAS to one thread, and return how many threads it had before."""
        with self._lock:
            if not self._inside:
                self._threads = max([1, *(library["num_threads"] for library in self._controller.info())])
                self._limit = self._controller.limit(limits=1)
            self._inside += 1
            return self._threads

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


@cache
def _one_thread_blas() -> _OneThreadBlas:
    return _OneThreadBlas()


def map_in_threads(work: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """Apply a function to items in as many threads as BLAS may use.

    Parameters
    ----------
    work : callable
        Given an item, its result. It runs in threads of its own, with NumPy's warnings off.
    items : iterable
        Read in this thread, and no more of them than threads and one ahead.

    Yields
    ------
    object
        The results, in order.
    """

    def with_one_thread(item: S) -> T:
        with np.errstate(all="ignore"):  # each thread has a state of its own
            return work(item)

    with _one_thread_blas() as threads:
        if threads == 1:
            yield from map(work, items)
            return
        with ThreadPoolExecutor(threads) as pool:
            started: deque[Any] = deque()
            for item in items:
                started.append(pool.submit(with_one_thread, item))
                if len(started) > threads:
                    yield started.popleft().result()
            while started:
                yield started.popleft().result()


@dataclass(frozen=True)
class SumTask:
    """Function that sums features exactly over selected rows, as multiples of 2^-k."""

    features: RowFeatures
    k: int

    def __call__(self, read: Selected) -> Integers:
        """Return the exact sums of the features over the rows."""
        n_sums = self.features.n_sums
        total: list[int] = []  # of what may not fit into 64 bits
        pending = np.zeros(n_sums, dtype=np.int64)

        def add_batch_sums() -> None:
            total[:] = map(operator.add, total or [0] * n_sums, pending.tolist())
            pending[:] = 0

        many = map_in_threads if self.features.threaded else map
        for count, of_batch in enumerate(many(self._batch_sums, read), start=1):
            pending += of_batch
            if count % _FLUSH == 0:
                add_batch_sums()
        if not total:
            return pending
        add_batch_sums()
        return total

    def _batch_sums(self, selected: tuple[Batch, NDArray[np.bool_] | None]) -> NDArray[np.int64]:
        """Return the exact sums of the features over one batch of rows."""
        return self.features.total(*selected, self.k).astype(np.int64, copy=False)
