"""The people of a table, numbered in the order in which they appear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._table.frames import Dictionary
from dfprivacy._table.hashing import keyed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from dfprivacy._table.frames import Raw
    from dfprivacy._table.hashing import Hashes

__all__ = ["NOBODY", "UNKNOWN", "People"]

NOBODY = -1
UNKNOWN = -2


class People:
    """The people whom a column names, and how many rows each has.

    A whole number and the text of its digits name one person, for libraries read the one as the other.

    Parameters
    ----------
    parts : iterable of Raw
        The column, read as people.
    settled : bool
        Whether to keep whose each row is.

    Attributes
    ----------
    names : pyarrow.Array
        Whole numbers or bytes of UTF-8, each there once.
    rows : ndarray of int of shape (people,)
        How many rows each has.
    whose : ndarray of int of shape (rows,)
        Whose each row is, -1 for nobody's; of shape (0,) where that is not kept.
    """

    def __init__(self, parts: Iterable[Raw], *, settled: bool) -> None:
        from dfprivacy._table.frames import columns  # which imports Arrow

        named: list[Any] = []
        codes: list[NDArray[np.int32]] = []
        times: list[NDArray[np.int64]] = []
        for part in map(_named, parts):
            names = columns.coded(part.values)
            code = np.append(names.codes, NOBODY).astype(np.int32)[part.codes]
            named.append(names.values)
            times.append(np.bincount(code[code >= 0], minlength=len(names.values)))
            if settled:
                codes.append(code)
        self.names, places = columns.together(named)
        self.rows = np.zeros(len(self.names), dtype=np.int64)
        for place, more in zip(places, times, strict=True):
            self.rows[place] += more  # each is there once
        whose = [
            np.append(place, NOBODY).astype(np.int32)[code] for place, code in zip(places, codes, strict=False)
        ]
        self.whose = np.concatenate([np.zeros(0, dtype=np.int32), *whose])

    def __len__(self) -> int:
        return len(self.names)

    def find(self, raw: Raw) -> NDArray[np.intp]:
        """Give each row the number of its person: -1 where it names nobody, -2 where somebody who is not known."""
        from dfprivacy._table.frames import columns

        part = _named(raw)
        known = columns.places(self.names, part.values, UNKNOWN)
        numbers: NDArray[np.intp] = np.append(known, NOBODY)[part.codes]  # the code -1 (missing) is the last entry
        return numbers

    def hashes(self, people: NDArray[np.integer], key: bytes, purpose: bytes) -> Hashes:
        """Give a keyed hash of the name of each of some people."""
        from dfprivacy._table.frames import columns

        return keyed(columns.written(self.names, people), key, purpose)


def _named(raw: Raw) -> Dictionary:
    if not isinstance(raw, Dictionary):
        raise TypeError
    return raw
