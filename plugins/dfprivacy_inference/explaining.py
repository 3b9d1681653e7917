"""What rank tests could find out, said before anything is paid, from public numbers only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from scipy.special import ndtri

from dfprivacy.inference.planning import effect_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dfprivacy import Curator
    from dfprivacy.inference.engine import Alternative

__all__ = ["POWER", "apart", "finds", "hazards", "measured", "rows_of"]

POWER = 0.8
"""Of what is called found."""

_NONE = "none: more epsilon, or more rows, are needed"
_ROWS = 10_000  # that a table is taken to have where that is private
_MOST = 1 - 1e-6


def rows_of(curator: Curator) -> tuple[int, str]:
    """Give the number of rows that a plan is for, and what to say of it where that is private."""
    n = curator.size
    return (_ROWS, f", of {_ROWS:,} rows") if n is None else (n, "")


def finds(effect: str, also: Callable[[Any, float], str] = lambda _, __: "") -> Callable[..., Mapping[str, Any]]:
    """Make the planner of a rank test.

    Parameters
    ----------
    effect : str
        Names the effect.
    also : callable
        Says more, of the measurement to come and the smallest effect that is found.

    Returns
    -------
    callable
        Says which effect would be found. How far an estimate lies from the truth is not said as a relative error,
        which a probability does not have.
    """

    def find(
        curator: Curator, *, alternative: Alternative = "two-sided", alpha: float = 0.05, **_: Any
    ) -> Mapping[str, Any]:
        if not curator.measured:
            return {}
        sums, (rows, given) = curator.planned, rows_of(curator)
        side: Alternative = "two-sided" if alternative == "two-sided" else "greater"
        found = 0.5 + effect_for(POWER, lambda d: sums.power(rows, 0.5 + d, alpha, side), _MOST - 0.5)
        shown = f"{found:.2f}{also(sums, found)}" if math.isfinite(found) else _NONE
        return {f"smallest {effect} found with probability {POWER}{given}, at best": shown}

    return find


def apart(_: object, effect: float) -> str:
    """Say how far apart normal groups are that have an effect."""
    return f", normal groups {2**0.5 * ndtri(effect):.2g} standard deviations apart"


def hazards(_: object, effect: float) -> str:
    """Say which hazards have an effect."""
    return f", a hazard ratio of {effect / (1 - effect):.2g} where no time is censored"


def measured(sums: Any, _: float) -> str:
    """Say what is measured of differences."""
    return ", by signed ranks" if sums.ranks else " of P(d > 0), by signs"
