"""Engine for Dask DataFrames, whose partitions are pandas DataFrames on Dask's workers."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import dask as untyped
import dask.dataframe as dd

from dfprivacy.engines import Cluster, Engine, Keep, WorkersLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pandas as pd

dask: Any = untyped  # or its types would depend on whether it is installed

_LOOK = 2.0  # seconds between two looks at whether there are workers
_PARTS = 64  # in which all rows of a person are together, at most
_PATIENCE = 300.0  # seconds without any: a cluster may take minutes to start some


def adapt(frame: object) -> Engine | None:
    """Return the engine for a Dask DataFrame; None for any other object."""
    return DaskEngine(frame) if isinstance(frame, dd.DataFrame) else None


class DaskEngine(Cluster):
    """A Dask DataFrame, computed by Dask's current scheduler."""

    library = "pandas"

    def __init__(self, frame: Any, by: str | None = None) -> None:
        self._frame = frame
        self._by = by

    def empty(self) -> pd.DataFrame:
        """Return Dask's metadata: a table with the same columns and types and no rows."""
        table: pd.DataFrame = self._frame._meta  # noqa: SLF001 - Dask's own word for it, without a computation
        return table

    def rows(self) -> int:
        """Count the rows."""
        (rows,) = _compute_tasks([self._frame.index.size])
        return int(rows)

    def split_by_person(self, column: str) -> list[DaskEngine]:
        """Return an engine with each person's rows in one part; unlike Dask's shuffle, it keeps their order."""
        return [DaskEngine(self._frame, column)]

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        """Yield the partitions as pandas DataFrames, fetched one at a time."""
        for part in self._partitions(columns):
            for tables in _compute_tasks([dask.delayed(part)]):
                yield from tables

    def run(
        self,
        columns: Sequence[str],
        keep: Sequence[Keep],  # noqa: ARG002
        work: Callable[[Iterator[object]], bytes],
    ) -> Iterator[bytes]:
        """Call a function on each partition, on its worker, and yield the results."""

        def work_on_tables(
            tables: list[object],
        ) -> bytes:  # pickled with its code: a worker need not have this module
            return work(iter(tables))

        delayed = dask.delayed(work_on_tables, pure=False)
        yield from _compute_tasks([delayed(part) for part in self._partitions(columns)])

    def join(
        self, other: Engine, on: str, how: Literal["left", "inner"], own: Sequence[str], others: Sequence[str]
    ) -> Engine | None:
        """Join with another Dask DataFrame on the workers, both divided by person; None for any other engine."""
        if not isinstance(other, DaskEngine):
            return None
        empty = self.empty()

        def join_parts(left: list[Any], right: list[Any]) -> Any:
            try:
                from dfprivacy._table.frames.pandas import concatenate, join_frames
            except ImportError:  # which the work says
                return empty
            return join_frames(concatenate(left), concatenate(right), on, how, own, others)

        parts = min(self._frame.npartitions, _PARTS)
        pairs = zip(
            DaskEngine(self._frame, on)._partitions(own, parts),  # noqa: SLF001
            DaskEngine(other._frame, on)._partitions([*others, on], parts),  # noqa: SLF001
            strict=True,
        )
        delayed = dask.delayed(join_parts, pure=False)
        known = join_parts([empty], [other.empty()])
        return DaskEngine(dd.from_delayed([delayed(*pair) for pair in pairs], meta=known, verify_meta=False))

    def _partitions(self, columns: Sequence[str], parts: int | None = None) -> list[list[Any]]:
        """Return the delayed tables of each part: one partition, or pieces of all partitions, divided by person."""
        known = {str(label): label for label in reversed(list(self._frame.columns))}
        tables: list[Any] = self._frame[[known[name] for name in columns]].to_delayed()
        if self._by is None:
            return [[table] for table in tables]
        by, parts = self._by, parts or min(len(tables), _PARTS)

        def divide_partition(table: Any) -> list[Any]:
            try:
                from dfprivacy._table.frames.pandas import divide_by_person
            except ImportError:  # which the work says
                return [table, *[table.iloc[:0]] * (parts - 1)]
            return divide_by_person(table, by, parts)

        pieces = [dask.delayed(divide_partition, pure=False, nout=parts)(table) for table in tables]
        return [[each[part] for each in pieces] for part in range(parts)]


def _compute_tasks(tasks: list[Any]) -> Iterator[Any]:
    """Compute delayed tasks, and yield their results in order."""
    if (client := _current_client()) is None:
        yield from dask.compute(*tasks)
        return
    futures = client.compute(tasks)
    try:
        for future in futures:
            yield _wait_for_result(client, future)
    finally:
        client.cancel(futures)


def _wait_for_result(client: Any, future: Any) -> Any:
    """Wait for a future's result; raise `WorkersLost` if the cluster has had no workers for too long.

    Dask itself waits for good: a worker that dies before its nanny knows that it has started is never replaced.
    """
    seconds = dask.config.get("distributed.scheduler.no-workers-timeout", None)
    patience = _PATIENCE if seconds is None else dask.utils.parse_timedelta(seconds)
    seen = time.monotonic()
    while True:
        try:  # a result that is there may take its time to come
            return future.result(timeout=_PATIENCE if future.status == "finished" else min(_LOOK, patience))
        except TimeoutError:
            if future.status == "error":  # it is the task's own
                raise
        if _has_workers(client):
            seen = time.monotonic()
        elif time.monotonic() - seen > patience:
            raise WorkersLost


def _has_workers(client: Any) -> bool:
    with suppress(Exception):  # nobody answers
        return bool(client.nthreads(callback_timeout=_LOOK))
    return False


def _current_client() -> Any:
    """Return the client of the cluster that Dask currently computes on; None without a cluster."""
    owner = getattr(dask.base.get_scheduler(), "__self__", None)
    return owner if hasattr(owner, "cancel") else None
