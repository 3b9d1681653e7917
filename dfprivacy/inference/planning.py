"""Tests and estimates to come: how well they will know, how often they will find, from public numbers only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scipy.optimize import brentq

from dfprivacy.errors import ArgumentError
from dfprivacy.inference.engine import Alternative, infer

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfprivacy.inference.engine import NoisySums, Parameter

__all__ = ["effect_for", "power", "rows_for"]

TABLES = 512
_DRAWS = 256
_MOST_ROWS = 2**40  # no table is larger


def power(
    sums: NoisySums,
    parameter: Parameter,
    *,
    null: float = 0.0,
    alternative: Alternative = "two-sided",
    alpha: float = 0.05,
) -> float:
    """Return how often a test rejects, of releases that are to be expected.

    Parameters
    ----------
    sums : NoisySums
        Many such releases, along the first axis.
    parameter : callable
        What is tested.
    null : float
        Its value under the null hypothesis.
    alternative : {"two-sided", "less", "greater"}
        Side on which the truth is suspected.
    alpha : float
        The level.

    Returns
    -------
    float
        The power.
    """
    return float((infer(sums, parameter, _DRAWS).pvalue(null, alternative) <= alpha).mean())


def rows_for(wanted: float, power_of: Callable[[int], float], least: int = 2) -> int:
    """Return the rows from which on a test has a power.

    Parameters
    ----------
    wanted : float
        The power.
    power_of : callable
        Gives the power of a number of rows.
    least : int
        Rows that the test needs.

    Returns
    -------
    int
        The rows, to half a percent.

    Raises
    ------
    ArgumentError
        If no table is large enough.
    """
    low, high = least, 4 * least
    while power_of(high) < wanted:
        low, high = high, 4 * high
        if high > _MOST_ROWS:
            raise ArgumentError(
                f"More than {_MOST_ROWS:.0e} rows would be needed.", "Look for a larger effect, or spend more."
            )
    if power_of(low) >= wanted:
        return low
    ends = math.log(low), math.log(high)
    root = brentq(lambda logarithm: power_of(round(math.exp(logarithm))) - wanted, *ends, xtol=5e-3)
    return math.ceil(math.exp(root))


def effect_for(wanted: float, power_of: Callable[[float], float], most: float) -> float:
    """Return the smallest effect that a test finds with a power.

    Parameters
    ----------
    wanted : float
        The power.
    power_of : callable
        Gives the power of an effect.
    most : float
        The largest effect there can be.

    Returns
    -------
    float
        The effect, to half a percent; infinity if none is large enough.
    """
    if power_of(most) < wanted:
        return math.inf
    return float(brentq(lambda effect: power_of(effect) - wanted + 1e-9, 0.0, most, xtol=1e-4 * most, rtol=5e-3))
