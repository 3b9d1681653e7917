"""DataFrames of Dask: the partitions are pandas DataFrames, and stay where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask as untyped
import dask.dataframe as dd

from dfprivacy.engines import Cluster, Engine, Keep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pandas as pd

dask: Any = untyped  # or its types would depend on whether it is installed


def adapt(frame: object) -> Engine | None:
    """Return the engine of a Dask DataFrame, None for anything else."""
    return DaskEngine(frame) if isinstance(frame, dd.DataFrame) else None


class DaskEngine(Cluster):
    """A Dask DataFrame, on whatever scheduler is in use."""

    library = "pandas"

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def empty(self) -> pd.DataFrame:
        """Return a table without rows: what Dask believes of the columns and their types."""
        table: pd.DataFrame = self._frame._meta  # noqa: SLF001 - Dask's own word for it, without a computation
        return table

    def rows(self) -> int:
        """Count the rows."""
        return len(self._frame)

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        """Fetch the partitions, one at a time."""
        for part in self._partitions(columns):
            yield part.compute()

    def run(
        self,
        columns: Sequence[str],
        keep: Sequence[Keep],  # noqa: ARG002
        work: Callable[[Iterator[object]], bytes],
    ) -> Iterator[bytes]:
        """Call a function on each partition."""

        def on_one(table: object) -> bytes:  # pickled with its code: a worker need not have this module
            return work(iter([table]))

        asked = dask.delayed(on_one, pure=False)
        tasks = [asked(part) for part in self._partitions(columns)]
        if (client := _client()) is None:
            yield from dask.compute(*tasks)
            return
        futures = client.compute(tasks)
        try:
            for future in futures:
                yield future.result()
        finally:
            client.cancel(futures)

    def _partitions(self, columns: Sequence[str]) -> list[Any]:
        known = {str(label): label for label in reversed(list(self._frame.columns))}
        partitions: list[Any] = self._frame[[known[name] for name in columns]].to_delayed()
        return partitions


def _client() -> Any:
    """Find the client of the cluster that Dask would use, if it would use one."""
    owner = getattr(dask.base.get_scheduler(), "__self__", None)
    return owner if hasattr(owner, "cancel") else None
