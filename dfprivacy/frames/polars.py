"""Polars DataFrames, and LazyFrames streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dfprivacy.frames import Dictionary, Frame, Kind, Raw, Read, withheld
from dfprivacy.frames.values import days, plain_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_STREAMED = 1 << 17  # rows asked of the streaming engine at a time


def adapt(frame: object) -> Frame | None:
    """Return the adapter of a Polars DataFrame or LazyFrame, None for anything else."""
    if isinstance(frame, pl.DataFrame):
        return PolarsFrame(frame)
    if isinstance(frame, pl.LazyFrame):
        return PolarsLazyFrame(frame)
    return None


class PolarsFrame:
    """A Polars DataFrame as batches of raw columns."""

    library = "polars"

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._frame.columns)

    def kind(self, name: str) -> Kind:
        """Tell what the column's type says about its values."""
        return _kind(self._frame.get_column(name).dtype)

    def rows(self) -> int:
        """Count the rows."""
        return self._frame.height

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        return _slices(self._frame.select(_names(reads, self.columns)), reads, size)

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns as lists."""
        return self._frame.select(names).to_dict(as_series=False)


class PolarsLazyFrame:
    """A Polars LazyFrame, run by the streaming engine at every pass and never held as a whole."""

    library = "polars"

    def __init__(self, frame: pl.LazyFrame) -> None:
        self._frame = frame
        self._schema = withheld(frame.collect_schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._schema.names())

    def kind(self, name: str) -> Kind:
        """Tell what the column's type says about its values."""
        return _kind(self._schema[name])

    def rows(self) -> int:
        """Count the rows."""
        return int(self._frame.select(pl.len()).collect(engine="streaming").item())

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        for frame in _stream(self._frame.select(_names(reads, self.columns))):
            yield from _slices(frame, reads, size)

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns as lists."""
        return self._frame.select(names).collect().to_dict(as_series=False)


def _stream(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    # The one function that uses a method Polars calls unstable. Messages and statistics are of rows in order.
    return frame.collect_batches(chunk_size=_STREAMED, maintain_order=True, engine="streaming")


def _names(reads: Sequence[Read], columns: tuple[str, ...]) -> list[str]:
    # A frame without columns has no rows in Polars: to count rows, read some column.
    return list(dict.fromkeys(read.name for read in reads)) or list(columns[:1])


def _slices(frame: pl.DataFrame, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
    for batch in frame.iter_slices(size):
        if batch.height:
            yield batch.height, {read: _raw(batch[read.name], read) for read in reads}


def _kind(dtype: pl.DataType) -> Kind:
    if dtype == pl.Boolean:
        return "boolean"
    if dtype.is_numeric():
        return "number"
    if dtype in (pl.Date, pl.Datetime):
        return "date"
    if dtype in (pl.Object, pl.Null):
        return "mixed"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    return "other"


def _raw(column: pl.Series, read: Read) -> Raw:
    dtype = column.dtype
    if dtype == pl.Object:
        values = column.to_list()
        return _numbers_of(values) if read.domain is None else Dictionary(np.arange(len(values)), values)
    if read.domain is None or dtype.is_numeric() or dtype == pl.Boolean:
        return _numbers(column)
    # Never to_physical() of a Categorical: its codes are handed out by the process, in order of appearance.
    domain = [value for value in read.domain if isinstance(value, str)]
    codes = column.cast(pl.Enum(domain), strict=False).to_physical().cast(pl.Int32).fill_null(-1)
    return Dictionary(codes.to_numpy().astype(np.intp), domain)


def _numbers(column: pl.Series) -> np.ndarray[Any, Any]:
    dtype = column.dtype
    if dtype == pl.Boolean:
        column = column.cast(pl.UInt8)
    elif dtype in (pl.Date, pl.Datetime):
        since: np.ndarray[Any, Any] = days(column.to_numpy())
        return since
    elif dtype.is_decimal() or not dtype.is_numeric() or dtype in (pl.Int128, pl.UInt128, pl.Float16):
        column = column.cast(pl.Float64, strict=False)
    return column.to_numpy()  # integers with nulls become float64 with NaN


def _numbers_of(values: list[object]) -> np.ndarray[Any, Any]:
    return np.fromiter((plain_number(value) for value in values), dtype=np.float64, count=len(values))
