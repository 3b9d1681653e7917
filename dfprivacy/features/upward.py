"""Numbers that bounds are made of, rounded up: no rounding may lower a sensitivity."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["UP", "root"]

UP = 1 + 2.0**-50
"""Above the rounding of eight operations, itself included."""


def root(x: float | Fraction) -> float:
    """Square root, rounded up: the least float whose square is at least x, or the next.

    Examples
    --------
    >>> root(9), root(3) > math.sqrt(3)
    (3.0, True)
    """
    root = math.sqrt(x)
    return root if Fraction(root) ** 2 >= x else math.nextafter(root, math.inf)
