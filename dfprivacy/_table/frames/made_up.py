"""Rows that nobody holds: columns as arrays, made up to find out what a method would find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy._table.frames import Frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.frames import Raw, Read

__all__ = ["MadeUpFrame"]


class MadeUpFrame(Frame):
    """Columns of one length, as arrays.

    Parameters
    ----------
    columns : mapping of str to ndarray
        Numbers, or categories.
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self._columns = dict(columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._columns)

    def rows(self) -> int:
        """Count the rows."""
        return len(next(iter(self._columns.values())))

    def names_people(self, name: str) -> bool:
        """Return whether a column can name people."""
        return self._columns[name].dtype.kind in "iuO"

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows in batches of at most `size`."""
        from dfprivacy._table.frames import columns  # which imports Arrow

        for start in range(0, self.rows(), size):
            parts = {read: self._columns[read.name][start : start + size] for read in reads}
            yield (
                min(size, self.rows() - start),
                {
                    read: columns.raw(part if part.dtype.kind in "biuf" else part.tolist(), read)
                    for read, part in parts.items()
                },
            )

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns as lists."""
        return {name: self._columns[name].tolist() for name in names}
