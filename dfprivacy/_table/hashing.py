"""Keyed hashes of names, which nobody can tell from chance without the key, and a mixture of whole arrays."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Hashes", "keyed", "mixed"]

Hashes = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def keyed(names: Iterable[bytes], key: bytes, purpose: bytes) -> Hashes:
    """Return a hash from 0 to 2^64 - 1 of each name, another for another key or purpose, by BLAKE2b [1]_.

    References
    ----------
    .. [1] Saarinen and Aumasson (2015). The BLAKE2 cryptographic hash and message authentication code. RFC 7693.
    """
    start = hashlib.blake2b(digest_size=8, key=key, person=purpose)

    def digest(name: bytes) -> bytes:
        each = start.copy()
        each.update(name)
        return each.digest()

    return np.frombuffer(b"".join(map(digest, names)), dtype="<u8").astype(np.uint64)


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
