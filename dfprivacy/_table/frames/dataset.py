"""Data sets of Arrow: files in a folder, read a few pieces at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

from dfprivacy.engines import Engine, Keep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_AHEAD = {"batch_size": 1 << 17, "batch_readahead": 4, "fragment_readahead": 2}  # what bounds the memory


def adapt(frame: object) -> Engine | None:
    """Return the engine of a data set, None for anything else."""
    return DatasetEngine(frame) if isinstance(frame, ds.Dataset) else None


class DatasetEngine(Engine):
    """A data set, of which only the columns that are asked for are read."""

    settled = True

    def __init__(self, dataset: ds.Dataset) -> None:
        self._dataset = dataset

    def empty(self) -> pa.Table:
        """Return a table without rows."""
        return self._dataset.schema.empty_table()

    def rows(self) -> int:
        """Count the rows, of Parquet without reading any."""
        return int(self._dataset.count_rows())

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pa.Table]:
        """Read some columns, a batch at a time."""
        kept = [_expression(each, self._dataset.schema.field(each.column).type) for each in keep]
        wanted = None
        for each in kept:
            wanted = each if wanted is None else wanted & each
        for batch in self._dataset.to_batches(columns=list(columns), filter=wanted, **_AHEAD):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])


def _expression(keep: Keep, dtype: pa.DataType) -> ds.Expression:
    field = ds.field(keep.column)
    if keep.texts is not None:
        return field.isin(pa.array(keep.texts, dtype))
    kind = dtype if pa.types.is_integer(dtype) else pa.float64()
    low = ds.scalar(True) if keep.low is None else field >= pa.scalar(keep.low, kind)
    return low if keep.high is None else low & (field <= pa.scalar(keep.high, kind))
