"""pandas DataFrames."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api import types

from dfprivacy._table.frames import Frame, Raw, Read, columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def adapt(frame: object) -> Frame | None:
    """Return the adapter of a pandas DataFrame, None for anything else."""
    return PandasFrame(frame) if isinstance(frame, pd.DataFrame) else None


class PandasFrame:
    """A pandas DataFrame as batches of raw columns."""

    library = "pandas"
    settled = True

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame
        self._places: tuple[pd.Index[Any] | None, dict[str, int]] = None, {}  # of one index: threads share both

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(str(name) for name in self._frame.columns)

    def rows(self) -> int:
        """Count the rows."""
        return len(self._frame)

    def ready(self) -> None:
        """Do nothing: rows can be read in every process."""

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        whole = {read: _whole(self._column(read.name)) for read in reads}
        for start in range(0, len(self._frame), size):
            stop = min(start + size, len(self._frame))
            yield (
                stop - start,
                {read: columns.raw(_part(column, start, stop), read) for read, column in whole.items()},
            )

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns as lists."""
        return {name: self._column(name).tolist() for name in names}

    def names_people(self, name: str) -> bool:
        """Whether the type of a column can name people."""
        return columns.names_people(_part(_whole(self._column(name)), 0, 0))

    def _column(self, name: str) -> pd.Series[Any]:
        index, (known, places) = self._frame.columns, self._places
        if not index.is_(known):  # a frame may get other columns, an index may not change
            places = {str(each): at for at, each in reversed(list(enumerate(index)))}
            self._places = index, places
        return self._frame.iloc[:, places[name]]  # by position: a name need not be a string in pandas


def _whole(column: pd.Series[Any]) -> Any:
    """Give a column as what is soonest cut into parts: as Arrow or NumPy has it, if that is the same memory."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return column.to_numpy()
    in_arrow = isinstance(dtype, pd.ArrowDtype) or (
        isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"
    )
    return _arrow(column) if in_arrow else column


def _part(column: Any, start: int, stop: int) -> columns.Column:
    if isinstance(column, pd.Series):
        return _column(column if stop - start == len(column) else column.iloc[start:stop])
    if isinstance(column, np.ndarray):
        return column[start:stop]
    part = column.slice(start, stop - start)
    return part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part


def _arrow(column: pd.Series[Any]) -> pa.Array | pa.ChunkedArray:
    array: Any = column.array
    made = array.__arrow_array__()
    return made.chunk(0) if isinstance(made, pa.ChunkedArray) and made.num_chunks == 1 else made


def _column(column: pd.Series[Any]) -> columns.Column:
    """Give a part of a column as Arrow or NumPy has it, or as the Python objects that it is."""
    dtype: Any = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        if len(dtype.categories) > len(column):  # not worth looking through
            column = column.cat.remove_unused_categories()
        known = column.cat.categories
        return columns.Taken(_column(pd.Series(known, dtype=known.dtype)), column.cat.codes.to_numpy())
    if isinstance(dtype, pd.SparseDtype):
        sparse: Any = column.sparse
        return _column(sparse.to_dense())
    if isinstance(dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert(None)
        dtype = column.dtype
    if isinstance(dtype, np.dtype):
        if dtype.kind in "biuf":
            return column.to_numpy()
        if dtype.kind == "c":
            values = column.to_numpy()
            return np.where(values.imag == 0, values.real, np.nan)
        return pa.array(column.to_numpy()) if dtype.kind in "mM" else column.tolist()
    if types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype) or isinstance(dtype, pd.StringDtype):
        with suppress(Exception):  # of which Arrow has no text, or no type
            return _part(_arrow(column), 0, len(column))
    return column.astype(object).tolist()
