"""pandas DataFrames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from dfprivacy.frames import Dictionary, Frame, Kind, Raw, Read
from dfprivacy.schema import plain_number

_DAY = np.timedelta64(1, "D")


def adapt(frame: object) -> Frame | None:
    """Return the adapter of a pandas DataFrame, None for anything else."""
    return PandasFrame(frame) if isinstance(frame, pd.DataFrame) else None


class PandasFrame:
    """A pandas DataFrame as batches of raw columns."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(str(name) for name in self._frame.columns)

    def kind(self, name: str) -> Kind:
        """Tell what the column's type says about its values."""
        return _kind(self._column(name).dtype)

    def rows(self) -> int:
        """Number of rows."""
        return len(self._frame)

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        columns = {read: self._column(read.name) for read in reads}
        plain = {read: column.to_numpy() for read, column in columns.items() if _is_plain(column.dtype)}
        for start in range(0, len(self._frame), size):
            stop = min(start + size, len(self._frame))
            yield (
                stop - start,
                {
                    read: plain[read][start:stop] if read in plain else _raw(column.iloc[start:stop], read)
                    for read, column in columns.items()
                },
            )

    def _column(self, name: str) -> pd.Series[Any]:
        at = self.columns.index(name)  # by position: a name need not be a string in pandas
        return self._frame.iloc[:, at]


def _is_plain(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def _kind(dtype: Any) -> Kind:
    if isinstance(dtype, pd.CategoricalDtype):
        return "mixed"
    if types.is_bool_dtype(dtype):
        return "boolean"
    if types.is_numeric_dtype(dtype):
        return "other" if types.is_complex_dtype(dtype) else "number"
    if types.is_datetime64_any_dtype(dtype):
        return "date"
    if dtype == object:
        return "mixed"
    if types.is_string_dtype(dtype):
        return "text"
    if isinstance(dtype, pd.ArrowDtype):
        return _arrow_kind(dtype)
    return "other"


def _arrow_kind(dtype: pd.ArrowDtype) -> Kind:
    import pyarrow as pa

    from dfprivacy.frames.arrow import kind

    return kind(pa.field("column", dtype.pyarrow_dtype).type)


def _raw(column: pd.Series[Any], read: Read) -> Raw:
    dtype: Any = column.dtype
    if read.domain is None:
        return _numbers(column)
    if isinstance(dtype, pd.CategoricalDtype):
        return Dictionary(column.cat.codes.to_numpy().astype(np.intp), list(column.cat.categories))
    if types.is_numeric_dtype(dtype) and not types.is_object_dtype(dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    codes, values = pd.factorize(column)
    return Dictionary(codes.astype(np.intp), list(values))


def _numbers(column: pd.Series[Any]) -> Raw:
    dtype: Any = column.dtype
    if isinstance(dtype, pd.ArrowDtype):
        from dfprivacy.frames.arrow import numbers

        return numbers(column.array.__arrow_array__())
    if types.is_datetime64_any_dtype(dtype):
        naive = column.dt.tz_convert("UTC").dt.tz_localize(None) if getattr(dtype, "tz", None) else column
        days: np.ndarray[Any, Any] = (naive.to_numpy() - np.datetime64(0, "D")) / _DAY
        return days
    if types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.fromiter((plain_number(value) for value in column), dtype=np.float64, count=len(column))
