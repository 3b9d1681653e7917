"""Different texts, numbered as they come, and found again: whole arrays at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfprivacy._table.hashing import mixed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy._table.frames.texts import Texts
    from dfprivacy._table.hashing import Hashes

__all__ = ["LONGEST", "UNKNOWN", "TextTable", "read_words", "written_as_words"]

Numbers: TypeAlias = "NDArray[np.intp]"

UNKNOWN = -2
LONGEST = 127
"""Bytes of the longest text that a table holds: with a byte for its length, sixteen words."""

_AT_ONCE = 1 << 14  # texts of so many stay in the cache
_WORD, _LAST = 8, np.uint64(56)
_INSIDE = np.array([(1 << 8 * bytes_) - 1 for bytes_ in range(_WORD + 1)], dtype=np.uint64)  # so many of a word's


class TextTable:
    """Texts of at most `LONGEST` bytes, and numbers for them.

    What is looked up is found by a hash, and then compared word by word: two texts are never taken for one.
    """

    def __init__(self) -> None:
        self._words = np.zeros((1, 1), dtype=np.uint64)  # with room for more
        self._count = 0
        self._bits = 10
        self._slots = np.full(1 << self._bits, UNKNOWN, dtype=np.int32)

    def __len__(self) -> int:
        return self._count

    @property
    def words(self) -> Hashes:
        """All texts, as `written_as_words` writes them, by number."""
        return self._words[:, : self._count]

    def skip(self) -> int:
        """Give a number to what is kept elsewhere."""
        self._append(np.zeros((1, 1), dtype=np.uint64))
        return self._count - 1

    def find(self, texts: Texts) -> Numbers:
        """Give the number of each text, -2 where there is none."""
        return self._numbered(texts, new=False)

    def add(self, texts: Texts) -> Numbers:
        """Give the number of each text, the next one to whichever is new; -2 to those that are too long."""
        return self._numbered(texts, new=True)

    def _numbered(self, texts: Texts, *, new: bool) -> Numbers:
        numbers_of_all = np.empty(len(texts), dtype=np.intp)
        for start in range(0, len(texts), _AT_ONCE):
            part = texts[start : start + _AT_ONCE]
            words = self._as_wide(written_as_words(part))
            hashes = _hashed(words)
            numbers = self._find(words, hashes)
            numbers[part.lengths > LONGEST] = UNKNOWN
            if new:
                rows = np.flatnonzero((numbers == UNKNOWN) & (part.lengths <= LONGEST))
                numbers[rows] = self._insert(words[:, rows], hashes[rows])
            numbers_of_all[start : start + len(part)] = numbers
        return numbers_of_all

    def _as_wide(self, words: Hashes) -> Hashes:
        """Give texts as many words as those of the table have, and these as many as they have."""
        more = len(words) - len(self._words)
        if more > 0:
            self._words = np.pad(self._words, ((0, more), (0, 0)))
            self._fill()
        return np.pad(words, ((0, -more), (0, 0))) if more < 0 else words

    def _find(self, words: Hashes, hashes: Hashes) -> Numbers:
        slots = self._first(hashes)
        numbers = self._slots.take(slots).astype(np.intp)
        other = np.flatnonzero((numbers != UNKNOWN) & ~self._equal(numbers, words))
        while len(other):  # some slot is free
            slots[other] = nearby = self._next(slots.take(other))
            numbers[other] = others = self._slots.take(nearby)
            other = other[(others != UNKNOWN) & ~self._equal(others, words[:, other])]
        return numbers

    def _equal(self, numbers: NDArray[np.integer], words: Hashes) -> NDArray[np.bool_]:
        equal = np.ones(len(numbers), dtype=np.bool_)
        for known, word in zip(self._words, words, strict=True):
            equal &= known.take(numbers, mode="clip") == word  # what is unknown is compared with some text
        return equal

    def _insert(self, words: Hashes, hashes: Hashes) -> Numbers:
        """Give numbers to texts that are new; some may be equal."""
        order = np.argsort(hashes, kind="stable")
        differs = _from_the_one_before(words[:, order])
        if np.any(differs[1:] & (hashes[order[1:]] == hashes[order[:-1]])):  # equal ones need not be neighbours
            order = np.lexsort(words)
            differs = _from_the_one_before(words[:, order])
        numbers = np.empty(len(order), dtype=np.intp)
        numbers[order] = np.cumsum(differs) - 1 + self._count
        firsts = order[differs]
        self._append(words[:, firsts])
        if 2 * self._count > len(self._slots):
            self._fill()
        else:
            self._place(numbers[firsts], hashes[firsts])
        return numbers

    def _append(self, words: Hashes) -> None:
        room, end = self._words.shape[1], self._count + words.shape[1]
        if end > room:
            self._words = np.pad(self._words, ((0, 0), (0, max(end, room * 3 // 2) - room)))
        self._words[: len(words), self._count : end] = words
        self._count = end

    def _fill(self) -> None:
        """Put all texts into slots of which at most a quarter is taken."""
        self._bits = max(self._bits, (4 * self._count).bit_length())
        self._slots = np.full(1 << self._bits, UNKNOWN, dtype=np.int32)
        for start in range(0, self._count, _AT_ONCE):
            numbers = np.arange(start, min(start + _AT_ONCE, self._count))
            self._place(numbers, _hashed(self._words[:, numbers]))

    def _place(self, numbers: Numbers, hashes: Hashes) -> None:
        """Put each text into the first free slot from its own on."""
        slots = self._first(hashes)
        while len(numbers):
            free = self._slots[slots] == UNKNOWN
            self._slots[slots[free]] = numbers[free]  # of several, one stays
            more = self._slots[slots] != numbers
            numbers, slots = numbers[more], self._next(slots[more])

    def _first(self, hashes: Hashes) -> Numbers:
        return (hashes >> np.uint64(64 - self._bits)).view(np.int64).astype(np.intp, copy=False)

    def _next(self, slots: Numbers) -> Numbers:
        return (slots + 1) & (len(self._slots) - 1)


def _from_the_one_before(words: Hashes) -> NDArray[np.bool_]:
    """Tell which texts are not like the one before; the first one is not."""
    differs = np.ones(words.shape[1], dtype=np.bool_)
    differs[1:] = np.any(words[:, 1:] != words[:, :-1], axis=0)
    return differs


def _hashed(words: Hashes) -> Hashes:
    hashes: Hashes = np.zeros(words.shape[1], dtype=np.uint64)
    for word in words:
        hashes = mixed(hashes, word)
    return hashes


def written_as_words(texts: Texts) -> Hashes:
    """Write texts as words of eight bytes.

    Each is written as SipHash reads it: with zeros up to whole words, and its length as the last byte of the last
    one. Then come zero words, up to the same number for all. No two texts are written alike: a length of less
    than 256 is zero for the empty text only, so where its word is, is seen.

    Parameters
    ----------
    texts : Texts
        Some; of those that are longer than `LONGEST`, the beginning is written, and may be that of another one.

    Returns
    -------
    ndarray of uint64 of shape (words, texts)
        They.
    """
    first = texts.bounds[0]
    lengths = np.minimum(texts.lengths, LONGEST)
    width = int(lengths.max(initial=0)) // _WORD + 1
    own = texts.data[first : texts.bounds[-1]]
    data = np.zeros(len(own) + _WORD * width, dtype=np.uint8)
    data[: len(own)] = own
    at_byte = np.ndarray((len(data) - _WORD + 1,), dtype="<u8", buffer=data, strides=(1,))  # the word from each on
    words = np.empty((width, len(texts)), dtype=np.uint64)
    starts, written = texts.bounds[:-1] - first, lengths.astype(np.uint64) << _LAST
    for place in range(width):
        rest = lengths - _WORD * place
        words[place] = at_byte[starts + _WORD * place]
        if rest.min(initial=_WORD) < _WORD:
            words[place] &= _INSIDE[np.clip(rest, 0, _WORD)]
            words[place] |= written * ((rest >= 0) & (rest < _WORD))
    return words


def read_words(words: Hashes) -> str:
    """Read a text that was written as words."""
    used = np.flatnonzero(words)
    length = int(words[used[-1]] >> _LAST) if len(used) else 0
    return words.astype("<u8").tobytes()[:length].decode(errors="surrogatepass")
