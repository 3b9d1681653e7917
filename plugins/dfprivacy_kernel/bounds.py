"""How far one row can move what is not linear in the rows; docs/explanation/kernel_two_sample.md has the proofs.

Every bound is computed without cancellation, so that rounding changes it by some 2^-50 of itself; it is raised by
2^-30.
"""

from __future__ import annotations

import math

__all__ = ["ABOVE", "lift", "ridge", "whitened_move", "whitened_sensitivity"]

ABOVE = 1 + 2.0**-30
"""Above whatever rounding can make of a norm, or of a bound."""


def lift(moved: float, longest: float, traced: float = math.inf) -> float:
    """Bound the largest eigenvalue of aa' - bb'.

    Parameters
    ----------
    moved : float
        At least |a - b|.
    longest : float
        At least |a| and |b|.
    traced : float
        At least the trace, |a|² - |b|², where more is known of it.

    Returns
    -------
    float
        The bound; at most the square of the longest.
    """
    if moved >= longest:
        return longest**2 * ABOVE
    trace = min(traced, moved * (2 * longest - moved))
    # The root is that of (2 longest - moved)² or more: nothing cancels.
    return (trace + moved * math.sqrt(4 * longest**2 - 2 * trace - moved**2)) / 2 * ABOVE


def ridge(total: int, diameter: float, part: float) -> float:
    """Give the γ at which the diameter is a part of √(N²γ/(N-1))."""
    return diameter**2 * (total - 1) / (total**2 * part**2)


def whitened_sensitivity(n: int, m: int, moved: float, lifted: float, gamma: float, clip: float) -> float:
    """Bound how far one row's features move min(T, clip), whatever the labels are.

    Parameters
    ----------
    n, m : int
        Rows in each group.
    moved, lifted : float
        How far the row's features move, and its outer product about the mean of the others; see `lift`.
    gamma : float
        The ridge.
    clip : float
        The largest T.
    """
    total = n + m
    most = min(clip, math.sqrt(total))  # T² is a part of a sum of squares that is N
    return whitened_move(math.sqrt(max(n / m, m / n)) * moved, lifted * (total - 1) / total, total * gamma, most)


def whitened_move(shifted: float, lifted: float, ridge: float, most: float) -> float:
    """Bound how far min(√(g'W⁻¹g), most) moves.

    Parameters
    ----------
    shifted : float
        At least the length by which g moves.
    lifted : float
        At least the largest eigenvalue of what is added to W, or taken from it.
    ridge : float
        At most the least eigenvalue of either W.
    most : float
        The largest value.
    """
    root = math.sqrt(1 + lifted / ridge)
    shift = shifted / math.sqrt(ridge)
    if shift >= most:
        return most * ABOVE
    # most - (most - shift)/root, where nothing cancels
    grown = lifted / ridge / (1 + root)
    return (most * grown + shift) / root * ABOVE
