"""Made-up rows in which the tests have something to find, for ``power``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from dfprivacy import Column, Probability, Range
from dfprivacy.made_up import groups_in_steps, spread_of

if TYPE_CHECKING:
    import numpy as np

__all__ = ["means"]


def means(
    rng: np.random.Generator,
    n: int,
    column: Column,
    by: Column | None = None,
    groups: Sequence[Any] | None = None,
    popmean: float = 0.0,
    sigma: float | None = None,
    *,
    effect: float = 0.5,
    spread: Annotated[float, Range(1e-12, 1e300)] | None = None,
    first: Probability | None = None,
) -> dict[str, Any]:
    """Make normal values, the first group above the second, or all above popmean, by the effect, in sds."""
    if by is not None:
        return groups_in_steps(rng, n, column, by, groups, effect, spread, first)
    sd = spread_of(column, sigma if spread is None else spread)
    return {column.name: popmean + sd * (effect + rng.normal(size=n))}
