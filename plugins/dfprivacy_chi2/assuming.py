"""Made-up rows in which the tests have something to find, for ``power``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dfprivacy import Column, Probability
from dfprivacy.made_up import shares_of

if TYPE_CHECKING:
    import numpy as np

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
    return shares_of(rng, n, x, (x.categories or ())[-1], by, groups, effect, share, first)
