"""Vectors of whole numbers that have no end: 64 bits each in an array where all fit, else Python's in a list."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Integers", "integers", "together"]

Integers: TypeAlias = "list[int] | NDArray[np.int64]"


def integers(values: Integers) -> list[int]:
    """Return them as Python's, with which arithmetic never wraps around."""
    return values.tolist() if isinstance(values, np.ndarray) else values


def together(parts: Sequence[Integers]) -> Integers:
    """Put some one after the other."""
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if arrays and len(arrays) == len(parts):
        return np.concatenate(arrays)
    return list(chain.from_iterable(map(integers, parts)))
