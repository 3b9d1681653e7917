"""Planning from public numbers only: expected errors of estimates, and power of tests.

A planner says θ, V and which releases made-up tables would give, as ``sums.simulate(...)`` of a measurement to
come does. The rest follows: the errors of `infer` on average over such releases (`expected`), how often its test
rejects (`power`), which rows and effect a power takes (`rows_for`, `effect_for`), and that as a finding
(`smallest`). A test whose law is its own gives its power itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.errors import ArgumentError
from dfprivacy.inference.engine import Alternative, infer

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfprivacy.inference.engine import NoisySums, Parameter

__all__ = ["FEW", "FOUND", "TABLES", "effect_for", "expected_errors", "power", "rows_for", "smallest_effect"]

FOUND = 0.8
"""The power at which a test is said to find an effect."""

NONE = "none: a larger epsilon or more rows are needed"
TABLES, FEW = 512, 128
"""Made-up tables for a power; and for one of groups, or for an error."""

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
    """Return the power of a test: the share of simulated releases in which it rejects.

    Parameters
    ----------
    sums : NoisySums
        Simulated releases, along the first axis.
    parameter : callable
        The tested parameter.
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


def expected_errors(sums: NoisySums, parameter: Parameter) -> tuple[float, float]:
    """Return two expected standard errors of an estimate: from noise alone, and from noise and sampling.

    Parameters
    ----------
    sums : NoisySums
        Simulated releases, along the first axis.
    parameter : callable
        The estimated parameter.

    Returns
    -------
    tuple of two float
        Medians over the releases; of several estimates those of the least accurate one.
    """
    found = infer(sums, parameter, _DRAWS)
    noise, both = (
        float(np.median(each, axis=0).max()) for each in (found.noise_standard_error, found.standard_error)
    )
    return noise, both


def rows_for(wanted: float, power_of: Callable[[int], float], least: int = 2) -> int:
    """Return the smallest number of rows at which a test reaches the wanted power.

    Parameters
    ----------
    wanted : float
        The power.
    power_of : callable
        Returns the power for a number of rows.
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
    from scipy.optimize import brentq  # here only: loading it takes half a second

    low, high = least, 4 * least
    while power_of(high) < wanted:
        low, high = high, 4 * high
        if high > _MOST_ROWS:
            raise ArgumentError(
                f"More than {_MOST_ROWS:.0e} rows would be needed to reach this power.",
                "Assume a larger effect, or use a larger epsilon.",
            )
    if power_of(low) >= wanted:
        return low
    ends = math.log(low), math.log(high)
    root = brentq(lambda logarithm: power_of(round(math.exp(logarithm))) - wanted, *ends, xtol=5e-3)
    return math.ceil(math.exp(root))


def effect_for(wanted: float, power_of: Callable[[float], float], most: float) -> float:
    """Return the smallest effect for which a test reaches the wanted power.

    Parameters
    ----------
    wanted : float
        The power.
    power_of : callable
        Returns the power for an effect.
    most : float
        The largest effect there can be.

    Returns
    -------
    float
        The effect, to half a percent; infinity if none is large enough.
    """
    from scipy.optimize import brentq

    if power_of(most) < wanted:
        return math.inf
    return float(brentq(lambda effect: power_of(effect) - wanted + 1e-9, 0.0, most, xtol=1e-4 * most, rtol=5e-3))


def smallest_effect(
    effect: str,
    power_of: Callable[[float], float],
    most: float,
    *,
    given: str = "",
    write: Callable[[float], Any] = "{:.3f}".format,
    none: Any = NONE,
) -> dict[str, Any]:
    """Return the smallest effect that a test detects with power 0.8, as one entry of ``explain``.

    Parameters
    ----------
    effect : str
        Names the effect.
    power_of, most
        As for `effect_for`.
    given : str
        Says what is assumed, after a comma.
    write : callable
        Writes the effect.
    none : object
        What is said where no effect is large enough.

    Returns
    -------
    dict
        One finding.
    """
    found = effect_for(FOUND, power_of, most)
    return {
        f"smallest {effect} found with probability {FOUND}{given}": write(found) if math.isfinite(found) else none
    }
