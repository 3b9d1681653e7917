"""pandas DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api import types

from dfprivacy._table.frames import Dictionary, Frame, Raw, Read
from dfprivacy.schema.values import days, missing, plain_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray


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
        columns = {read: _whole_column(self._column(read.name), read) for read in reads}
        for start in range(0, len(self._frame), size):
            stop = min(start + size, len(self._frame))
            yield stop - start, {read: _part(column, read, start, stop) for read, column in columns.items()}

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns as lists."""
        return {name: self._column(name).tolist() for name in names}

    def names_people(self, name: str) -> bool:
        """Whether the type of a column can name people."""
        return _names_people(self._column(name).dtype)

    def _column(self, name: str) -> pd.Series[Any]:
        index, (known, places) = self._frame.columns, self._places
        if not index.is_(known):  # a frame may get other columns, an index may not change
            places = {str(each): at for at, each in reversed(list(enumerate(index)))}
            self._places = index, places
        return self._frame.iloc[:, places[name]]  # by position: a name need not be a string in pandas


def _whole_column(column: pd.Series[Any], read: Read) -> Any:
    """Give a column as what is soonest cut into parts."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf" and read.domain != "people":
        return column.to_numpy()
    return _arrow(column) if isinstance(dtype, pd.ArrowDtype) else column


def _part(column: Any, read: Read, start: int, stop: int) -> Raw:
    if isinstance(column, np.ndarray):
        return column[start:stop]
    if isinstance(column, pd.Series):
        return _raw(column if stop - start == len(column) else column.iloc[start:stop], read)
    return _of_arrow(column.slice(start, stop - start), read)


def _names_people(dtype: Any) -> bool:
    if isinstance(dtype, pd.ArrowDtype):
        from dfprivacy._table.frames import arrow

        return arrow.names_people(dtype.pyarrow_dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        return _names_people(dtype.categories.dtype)
    return types.is_integer_dtype(dtype) or types.is_string_dtype(dtype) or types.is_object_dtype(dtype)


def _raw(column: pd.Series[Any], read: Read) -> Raw:
    dtype: Any = column.dtype
    if isinstance(dtype, pd.ArrowDtype) or (read.domain == "people" and _has_arrow_texts(dtype)):
        return _of_arrow(_arrow(column), read)
    if read.domain == "people" and types.is_integer_dtype(dtype):
        return _integer_column(column)
    if isinstance(dtype, pd.SparseDtype):
        sparse: Any = column.sparse
        return _raw(sparse.to_dense(), read)
    if isinstance(dtype, pd.CategoricalDtype):
        return _categorical(column, read)
    if types.is_datetime64_any_dtype(dtype):
        if read.domain is not None:  # a date is no category, though it stands for a number
            return missing(len(column))
        naive = column.dt.tz_convert(None) if isinstance(dtype, pd.DatetimeTZDtype) else column
        since: NDArray[np.float64] = days(naive.to_numpy())
        return since
    if (types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype)) and not types.is_complex_dtype(dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    if read.domain is None:
        return _numbers(column)
    if types.infer_dtype(column, skipna=True) == "string":
        codes, values = pd.factorize(column)
        return Dictionary(codes, values.tolist())
    # pandas would take unlike objects for one if they say they are equal; which one must not depend on other rows.
    return Dictionary(np.arange(len(column)), list(column))


def _has_arrow_texts(dtype: Any) -> bool:
    return isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"


def _arrow(column: pd.Series[Any]) -> pa.Array | pa.ChunkedArray:
    array: Any = column.array
    chunked = array.__arrow_array__()
    return chunked.chunk(0) if chunked.num_chunks == 1 else chunked


def _of_arrow(column: pa.Array | pa.ChunkedArray, read: Read) -> Raw:
    from dfprivacy._table.frames import arrow

    return arrow.raw(column.combine_chunks() if hasattr(column, "num_chunks") else column, read)


def _integer_column(column: pd.Series[Any]) -> Dictionary:
    if isinstance(column.dtype, np.dtype):
        return Dictionary(np.arange(len(column)), column.to_numpy())  # people are numbered for all engines alike
    codes, values = pd.factorize(column)
    return Dictionary(codes, values.tolist())


def _categorical(column: pd.Series[Any], read: Read) -> Raw:
    if len(column.cat.categories) > len(column):  # not worth looking through
        column = column.cat.remove_unused_categories()
    values = list(column.cat.categories)
    codes = column.cat.codes.to_numpy().astype(np.intp)
    if read.domain is not None:
        return Dictionary(codes, values)
    return _numbers([*values, None])[codes]  # the code -1 (missing) is the last entry


def _numbers(values: Collection[object]) -> NDArray[np.float64]:
    return np.fromiter((plain_number(value) for value in values), dtype=np.float64, count=len(values))
