"""Rows that nobody holds: columns as arrays, made up to find out what a method would find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._table.frames import Dictionary, Raw, Read
from dfprivacy.schema.values import plain_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["MadeUpFrame"]


class MadeUpFrame:
    """Columns of one length, as arrays.

    Parameters
    ----------
    columns : mapping of str to ndarray
        Numbers, or categories.
    """

    library = "pandas"
    settled = True

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self._columns = dict(columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._columns)

    def rows(self) -> int:
        """Count the rows."""
        return len(next(iter(self._columns.values())))

    def ready(self) -> None:
        """Do nothing: rows can be read in every process."""

    def names_people(self, name: str) -> bool:
        """Whether a column can name people."""
        return self._columns[name].dtype.kind in "iuO"

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        columns = {read: _raw(self._columns[read.name], read) for read in reads}
        for start in range(0, self.rows(), size):
            stop = min(start + size, self.rows())
            yield (
                stop - start,
                {
                    read: Dictionary(raw.codes[start:stop], raw.values)
                    if isinstance(raw, Dictionary)
                    else raw[start:stop]
                    for read, raw in columns.items()
                },
            )

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns as lists."""
        return {name: self._columns[name].tolist() for name in names}


def _raw(column: NDArray[Any], read: Read) -> Raw:
    if column.dtype.kind in "biuf":
        return column
    if read.domain is None:
        return np.array([plain_number(value) for value in column.tolist()], dtype=np.float64)
    known: dict[object, int] = {}
    codes = np.fromiter((known.setdefault(value, len(known)) for value in column.tolist()), np.intp, len(column))
    return Dictionary(codes, [*known])
