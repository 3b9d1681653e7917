"""Made-up rows in which the methods have something to find, for ``power``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from dfprivacy import ArgumentError, Column, Probability, Range
from dfprivacy.made_up import groups_in_steps, labels, shares_of, spread_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_inference.proportions import Proportions

__all__ = ["differ", "differences", "flips", "lives", "shares", "steps"]

Spread = Annotated[float, Range(1e-12, 1e300)] | None
Rows = dict[str, Any]


def steps(
    rng: np.random.Generator,
    n: int,
    column: Column,
    by: Column,
    groups: Sequence[Any] | None,
    *,
    effect: float = 0.5,
    spread: Spread = None,
    first: Probability | None = None,
) -> Rows:
    """Make normal groups, each above the next by the effect, in standard deviations."""
    return groups_in_steps(rng, n, column, by, groups, effect, spread, first)


def differences(
    rng: np.random.Generator,
    n: int,
    column: Column,
    other: Column | None,
    popmean: float,
    *,
    effect: float = 0.5,
    spread: Spread = None,
) -> Rows:
    """Make normal differences, the effect above 0, in standard deviations."""
    d = popmean + spread_of(column, spread) * (effect + rng.normal(size=n))
    if other is None:
        return {column.name: d}
    base = np.full(n, np.clip(other.mid, column.low - popmean, column.high - popmean))
    return {column.name: base + d, other.name: base}


def shares(
    rng: np.random.Generator,
    n: int,
    column: Column,
    by: Column | None,
    success: Any,
    groups: Sequence[Any] | None,
    *,
    effect: float = 0.1,
    share: Probability = 0.5,
    first: Probability | None = None,
) -> Rows:
    """Make a share with the outcome in all groups but the first, where it is larger by the effect."""
    hit = (column.categories or ())[column.code(success)]
    return shares_of(rng, n, column, hit, by, groups, effect, share, first)


def differ(release: Proportions) -> bool:
    """Tell whether the interval of the first two shares' difference leaves 0 out."""
    _, (low, high) = release.difference
    return low > 0 or high < 0


def flips(
    rng: np.random.Generator,
    n: int,
    column: Column,
    other: Column,
    success: Any,
    *,
    effect: float = 0.1,
    discordant: Probability = 0.25,
) -> Rows:
    """Make pairs of outcomes, some discordant, of which the first happens more often by the effect."""
    if not abs(effect) <= discordant:
        raise ArgumentError(
            f"Shares that are {abs(effect):g} apart need more than {discordant:g} discordant rows.", "Assume more."
        )
    u = rng.random(n)
    one = u < (discordant + effect) / 2
    two = (u >= (discordant + effect) / 2) & (u < discordant)
    both = rng.random(n) < 0.5  # noqa: PLR2004 - of the others

    def values(column: Column, happened: NDArray[np.bool_]) -> NDArray[Any]:
        known = column.categories or ()
        hit = known[column.code(success)]
        miss = next((each for each in known if each != hit), hit)
        return np.asarray(np.array([miss, hit], dtype=object)[happened.astype(int)])

    return {
        column.name: values(column, one | (both & ~two)),
        other.name: values(other, two | (both & ~one)),
    }


def lives(
    rng: np.random.Generator,
    n: int,
    time: Column,
    event: Column,
    by: Column | None,
    groups: Sequence[Any] | None,
    *,
    ratio: Annotated[float, Range(1e-3, 1e3)] = 1.5,
    censored: Probability | None = None,
    first: Probability | None = None,
) -> Rows:
    """Make exponential times, a third of the first group beyond the bounds, other hazards higher by the ratio."""
    known = sorted(event.categories or ())
    of = np.zeros(n, dtype=int) if by is None else labels(by, n, groups, first)
    lived = rng.exponential(size=n) * time.high / np.log(3) / np.where(of == 0, 1.0, ratio)
    happened = lived < time.high
    end = np.minimum(lived, time.high)
    if censored is not None:
        lost = rng.random(n) < censored
        end, happened = np.where(lost, end * rng.random(n), end), happened & ~lost
    rows = {time.name: end, event.name: np.array(known, dtype=object)[happened.astype(int)]}
    if by is not None:
        rows[by.name] = np.array(by.categories if groups is None else groups, dtype=object)[of]
    return rows
