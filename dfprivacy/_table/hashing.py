"""Keyed hashes of whole arrays, which nobody can tell from chance without the key."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Hashes", "keyed_numbers", "keyed_texts", "keyed_words", "mixed", "siphash"]

Hashes = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]

_AT_ONCE = 1 << 13  # arrays of so many stay in the cache
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def keyed_numbers(numbers: NDArray[np.int64], key: bytes, purpose: bytes) -> Hashes:
    """Give a hash from 0 to 2^64 - 1 of each whole number, another for another key or purpose."""
    words = np.ascontiguousarray(numbers, dtype=np.int64).view(np.uint64)[:, None]
    last = np.full((len(words), 1), 8 << 56, dtype=np.uint64)  # a message of eight bytes
    return siphash(np.concatenate([words, last], axis=1), _derived(key, b"number " + purpose))


def keyed_texts(texts: Sequence[str], key: bytes, purpose: bytes) -> Hashes:
    """Give a hash from 0 to 2^64 - 1 of each text, another for another key or purpose."""
    written = [text.encode(errors="surrogatepass") for text in texts]
    lengths = np.fromiter(map(len, written), dtype=np.int64, count=len(written))
    hashes = np.empty(len(written), dtype=np.uint64)
    derived = _derived(key, b"text " + purpose)
    for words in np.unique(lengths // 8 + 1).tolist():
        places = np.flatnonzero(lengths // 8 + 1 == words)
        part = written if len(places) == len(written) else [written[place] for place in places.tolist()]
        padded = np.array(part, dtype=f"S{8 * words}")
        message = padded.view("<u8").reshape(-1, words).astype(np.uint64)
        message[:, -1] |= (lengths[places] & 0xFF).astype(np.uint64) << np.uint64(56)
        hashes[places] = siphash(message, derived)
    return hashes


def keyed_words(words: Hashes, key: bytes, purpose: bytes) -> Hashes:
    """Give the same of texts that are written as messages, with zero words behind."""
    derived = _derived(key, b"text " + purpose)
    hashes = np.empty(words.shape[1], dtype=np.uint64)
    used = np.ones(words.shape[1], dtype=np.intp)
    for place, word in enumerate(words[1:], start=2):
        used[word != 0] = place
    for count in np.unique(used).tolist():
        rows = np.flatnonzero(used == count)
        hashes[rows] = siphash(words[:count, rows].T, derived)
    return hashes


def siphash(words: Hashes, key: bytes) -> Hashes:
    """Hash messages of one length by SipHash-2-4, a pseudo-random function [1]_.

    Parameters
    ----------
    words : ndarray of uint64 of shape (messages, words)
        Each message's bytes, padded as the paper says: the last word's last byte is the length modulo 256.
    key : bytes
        Sixteen bytes.

    Returns
    -------
    ndarray of uint64 of shape (messages,)
        Their hashes.

    References
    ----------
    .. [1] Aumasson and Bernstein (2012). SipHash: a fast short-input PRF. INDOCRYPT.
    """
    parts = [_hashed(words[start : start + _AT_ONCE], key) for start in range(0, len(words), _AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)


def _hashed(words: Hashes, key: bytes) -> Hashes:
    halves = np.frombuffer(key, dtype="<u8").astype(np.uint64)
    start = b"somepseudorandomlygeneratedbytes"
    constants = [np.uint64(int.from_bytes(start[at : at + 8], "big")) for at in range(0, 32, 8)]
    v: list[Hashes] = [np.full(len(words), halves[at % 2] ^ constant) for at, constant in enumerate(constants)]
    for word in words.T:
        v[3] ^= word
        _rounds(v, 2)
        v[0] ^= word
    v[2] ^= np.uint64(0xFF)
    _rounds(v, 4)
    return np.asarray(v[0] ^ v[1] ^ v[2] ^ v[3])


def _rounds(v: list[Hashes], times: int) -> None:
    for _ in range(times):
        for a, b, c, d, left, right in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
            # Half a round: of both halves of the state, the first word gets the second, which is turned.
            v[a] += v[b]
            v[b] = _turned(v[b], left) ^ v[a]
            v[a] = _turned(v[a], 32)
            v[c] += v[d]
            v[d] = _turned(v[d], right) ^ v[c]


def _turned(words: Hashes, bits: int) -> Hashes:
    return np.asarray((words << np.uint64(bits)) | (words >> np.uint64(64 - bits)))


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(digest_size=16, key=key, person=purpose).digest()


def mixed(states: Hashes, words: Hashes) -> Hashes:
    """Mix words into states: of one state, different words have different results [1]_.

    References
    ----------
    .. [1] Steele, Lea and Flood (2014). Fast splittable pseudorandom number generators. OOPSLA.
    """
    z = (states + _GOLDEN) ^ words
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z
