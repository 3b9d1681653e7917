"""Long loops over rows, in pieces that fit the cache and on as many threads as BLAS may use."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from dfprivacy._forks import Lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["RoundedSum", "add_up", "side_by_side"]

S = TypeVar("S")
T = TypeVar("T")

_PIECE = 3 << 16  # numbers in a piece: 1.5 MB of float64, so that Python takes little of its time

Piece = tuple[int, int]
"""First row of a piece, and the row after its last."""


class _OneThreadBlas:
    """BLAS on one thread while any loop runs: many small products are slower on more, and fight over cores."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._controller = ThreadpoolController().select(user_api="blas")
        self._threads = 1
        self._limit: Any = None

    def __enter__(self) -> int:
        """Return the number of threads that BLAS was allowed."""
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


_own = threading.local()
"""Whether this thread is one of several that `side_by_side` has, and so starts none itself."""


@cache
def _blas() -> _OneThreadBlas:
    return _OneThreadBlas()


def add_up(
    rows: int,
    width: int,
    part: Callable[[Piece, NDArray[np.float64]], NDArray[np.int64]],
    *,
    sums: int | None = None,
) -> NDArray[np.int64]:
    """Sum of what `part` gives for each piece of the rows.

    Parameters
    ----------
    rows, width : int
        Shape of the matrix that is worked through in pieces.
    part : callable
        Given a piece and a matrix of its shape to work in, the piece's integer sums.
    sums : int, optional
        How many sums there are, if not one for each column.

    Returns
    -------
    ndarray of int64
        Integers: the order in which the pieces are done cannot matter.
    """
    height = max(16, _PIECE // max(1, width))
    pieces = [(start, min(start + height, rows)) for start in range(0, rows, height)]

    def work(share: list[Piece]) -> NDArray[np.int64]:
        room = np.empty((min(height, rows), width))
        total = np.zeros(sums or width, dtype=np.int64)
        for piece in share:
            total += part(piece, room[: piece[1] - piece[0]])
        return total

    if not pieces:
        return np.zeros(sums or width, dtype=np.int64)
    with _blas() as allowed:
        threads = 1 if getattr(_own, "one_of_several", False) else allowed
        shares = [share for i in range(threads) if (share := pieces[i::threads])]
        if len(shares) == 1:
            return work(shares[0])
        with ThreadPoolExecutor(len(shares)) as pool:
            return sum(pool.map(work, shares))  # type: ignore[return-value]


def side_by_side(work: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """Work through some items, as many at a time as BLAS may use threads.

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

    def alone(item: S) -> T:
        _own.one_of_several = True
        with np.errstate(all="ignore"):  # each thread has a state of its own
            return work(item)

    with _blas() as threads:
        if threads == 1 or getattr(_own, "one_of_several", False):
            yield from map(work, items)
            return
        with ThreadPoolExecutor(threads) as pool:
            started: deque[Any] = deque()
            for item in items:
                started.append(pool.submit(alone, item))
                if len(started) > threads:
                    yield started.popleft().result()
            while started:
                yield started.popleft().result()


class RoundedSum:
    """Columns' sums of values rounded to whole steps of 2^-k; the values are overwritten.

    Beside 1.5 · 2^(52-k) a float64 has a unit of 2^-k in its last place, so adding that number rounds, and
    the sum of the bit patterns is the sum of the steps. Values must be below 2^(51-k).
    """

    def __init__(self, k: int) -> None:
        # Threads wait for each other wherever Python, not NumPy, is at work: what can be done once is done here.
        self._offset = np.full(1, 1.5 * 2.0 ** (52 - k))
        self._bits = self._offset.view(np.int64)  # an array's products wrap around, as the sums do

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Add up the columns of a matrix."""
        np.add(values, self._offset, out=values)
        total: NDArray[np.int64] = np.add.reduce(values.view(np.int64), axis=0)
        total -= self._bits * len(values)
        return total
