"""A column of texts as the bytes of all, one after the other, and where each one ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Texts"]


class Texts(Sequence[str]):
    """Texts in UTF-8, none of them missing; a list of them that is not made.

    Parameters
    ----------
    data : ndarray of uint8
        The bytes of all.
    bounds : ndarray of int of shape (texts + 1,)
        Where each one starts, and the last one ends.
    """

    def __init__(self, data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> None:
        self.data = data
        self.bounds = bounds

    @classmethod
    def joined(cls, data: NDArray[np.uint8], lengths: NDArray[np.integer]) -> Texts:
        """Take texts that lie one after the other, and how many bytes each one has."""
        bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, dtype=np.int64, out=bounds[1:])
        return cls(data, bounds)

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        """Take Python's strings."""
        written = [text.encode(errors="surrogatepass") for text in texts]
        data = np.frombuffer(b"".join(written), dtype=np.uint8)
        return cls.joined(data, np.fromiter(map(len, written), dtype=np.int64, count=len(written)))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many bytes each one has."""
        return np.diff(self.bounds)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Texts: ...
    def __getitem__(self, place: int | slice) -> str | Texts:
        if isinstance(place, slice):
            first, end, _ = place.indices(len(self))
            return Texts(self.data, self.bounds[first : max(first, end) + 1])
        start, end = self.bounds[place], self.bounds[place + 1]
        return self.data[start:end].tobytes().decode(errors="surrogatepass")
