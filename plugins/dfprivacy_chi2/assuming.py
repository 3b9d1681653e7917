"""Made-up rows in which the tests have something to find, for ``power``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Column, Probability
from dfprivacy.made_up import labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["shares"]


def shares(
    rng: np.random.Generator,
    n: int,
    x: Column,
    by: Column,
    groups: Sequence[Any] | None,
    *,
    effect: float = 0.1,
    share: Probability = 0.5,
    first: Probability | None = None,
) -> dict[str, Any]:
    """Make a share of the last category in all groups but the first, where it is larger by the effect."""
    if not 0 <= share + effect <= 1:
        raise ArgumentError(f"A share of {share + effect:g} cannot be.", "Assume another share, or effect.")
    *others, last = x.categories or ()
    of = labels(by, n, groups, first)
    hit = rng.random(n) < share + effect * (of == 0)
    rest: NDArray[Any] = np.array(others, dtype=object)
    return {
        x.name: np.where(hit, np.array(last, dtype=object), rng.choice(rest, n)),
        by.name: np.array(by.categories if groups is None else groups, dtype=object)[of],
    }
