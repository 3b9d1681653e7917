"""Engine for pandas DataFrames."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api import types

from dfprivacy._table.frames import Read
from dfprivacy._table.frames.columns import Column, identifiers_as_bytes, matching_rows, read_column
from dfprivacy.engines import Engine, Keep
from dfprivacy.schema.values import Dictionary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def adapt(frame: object) -> Engine | None:
    """Return the engine for a pandas DataFrame; None for any other object."""
    return PandasEngine(frame) if isinstance(frame, pd.DataFrame) else None


class PandasEngine(Engine):
    """A pandas DataFrame in memory."""

    library = "pandas"
    settled = True

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def empty(self) -> pd.DataFrame:
        """Return a table with the same columns and no rows."""
        return self._frame.iloc[:0]

    def rows(self) -> int:
        """Count the rows."""
        return len(self._frame)

    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        """Return the whole table as one part."""
        return iter([self._frame])

    def join(
        self, other: Engine, on: str, how: Literal["left", "inner"], own: Sequence[str], others: Sequence[str]
    ) -> Engine | None:
        """Join with another pandas DataFrame in memory; None for any other engine."""
        if not isinstance(other, PandasEngine):
            return None
        return PandasEngine(join_frames(self._frame, other._frame, on, how, own, others))  # noqa: SLF001


def names(frame: pd.DataFrame) -> list[str]:
    """Return the column names of a DataFrame as strings, duplicates included."""
    return [str(name) for name in frame.columns]


def empty_column(frame: pd.DataFrame, name: str) -> Column:
    """Return an empty column with the type of a DataFrame's column."""
    return _raw_column(_columns_by_position(frame, [name])[name].iloc[:0])


def batches(frame: pd.DataFrame, wanted: Sequence[str], size: int) -> Iterator[tuple[int, dict[str, Column]]]:
    """Yield some columns in parts of at most `size` rows, each as its number of rows and its columns."""
    whole = {
        name: _convert_without_copy(series, size) for name, series in _columns_by_position(frame, wanted).items()
    }
    for start in range(0, len(frame), size):
        part = slice(start, min(start + size, len(frame)))
        yield part.stop - start, {name: _column_slice(column, part) for name, column in whole.items()}


def lists(frame: pd.DataFrame, wanted: Sequence[str]) -> dict[str, list[Any]]:
    """Return some columns as lists."""
    return {name: series.tolist() for name, series in _columns_by_position(frame, wanted).items()}


def divide_by_person(frame: pd.DataFrame, by: str, parts: int) -> list[pd.DataFrame]:
    """Split a DataFrame by a hash of the column that names people; all rows without a person are in one part."""
    people = _encoded_people(frame, by)
    part = [zlib.crc32(name) % parts for name in identifiers_as_bytes(people.values, np.arange(len(people.values)))]
    of_rows = np.array([*part, 0])[people.codes]
    return [frame.iloc[np.flatnonzero(of_rows == each)] for each in range(parts)]


def join_frames(
    left: pd.DataFrame,
    right: pd.DataFrame,
    on: str,
    how: Literal["left", "inner"],
    own: Sequence[str],
    others: Sequence[str],
) -> pd.DataFrame:
    """Join two DataFrames on a column that names people, as `dfprivacy.engines.Engine.join` does."""
    of_left, of_right = matching_rows(_encoded_people(left, on), _encoded_people(right, on), how)
    columns = {name: each.take(of_left) for name, each in _columns_by_position(left, own).items()}
    for name, each in _columns_by_position(right, others).items():
        columns[name] = each.reset_index(drop=True).reindex(of_right)  # without a row -1: it has missing values
    return pd.DataFrame({name: each.reset_index(drop=True) for name, each in columns.items()})


def concatenate(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate DataFrames by rows; if their types differ, as Python objects, so that no number is rounded."""
    alike = all(frame.dtypes.equals(frames[0].dtypes) for frame in frames)
    return pd.concat(frames if alike else [frame.astype(object) for frame in frames])


def _encoded_people(frame: pd.DataFrame, by: str) -> Any:
    return read_column(_raw_column(_columns_by_position(frame, [by])[by]), Read(by, "people"))


def _columns_by_position(frame: pd.DataFrame, wanted: Sequence[str]) -> dict[str, pd.Series[Any]]:
    """Return columns by name, selected by position, as column labels in pandas need not be strings."""
    places = {name: at for at, name in reversed(list(enumerate(names(frame))))} if wanted else {}
    return {name: frame.iloc[:, places[name]] for name in wanted}


def _convert_without_copy(column: pd.Series[Any], size: int) -> Any:
    """Convert a whole column as `_raw_column` does if that copies nothing; else return it unchanged."""
    dtype: Any = column.dtype
    few = isinstance(dtype, pd.CategoricalDtype) and len(dtype.categories) <= size
    return _raw_column(column) if few or (isinstance(dtype, np.dtype) and dtype.kind in "biuf") else column


def _column_slice(column: Any, rows: slice) -> Column:
    return _raw_column(column.iloc[rows]) if isinstance(column, pd.Series) else column[rows]


def _raw_column(column: pd.Series[Any]) -> Column:
    """Convert a part of a column to an Arrow or NumPy array, a `Dictionary` or a list of Python objects."""
    dtype: Any = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        if len(dtype.categories) > len(column):  # not worth looking through
            column = column.cat.remove_unused_categories()
        known = column.cat.categories
        return Dictionary(column.cat.codes.to_numpy(), _raw_column(pd.Series(known, dtype=known.dtype)))
    if isinstance(dtype, pd.SparseDtype):
        sparse: Any = column.sparse
        return _raw_column(sparse.to_dense())
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
    arrow = isinstance(dtype, pd.StringDtype | pd.ArrowDtype)
    if arrow or types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype):
        with suppress(Exception):  # of which Arrow has no text, or no type
            array: Any = column.array
            made = array.__arrow_array__()
            return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
    return column.astype(object).tolist()
