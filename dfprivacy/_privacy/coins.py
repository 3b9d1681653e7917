"""Exact coins: heads with probability exp(-x), many at once, from the operating system's secure source.

A coin is heads if a uniform number U between 0 and 1 is below exp(-x). Of U, 32 binary digits are drawn; where
these and float64 arithmetic decide, they decide as any number of digits and exact arithmetic would. Where they do
not, about once in 2^30 coins, digits are drawn and arithmetic made finer until they do. So the probability is
exp(-x), exactly.
"""

from __future__ import annotations

import decimal
import os
import secrets
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["compared", "heads"]

_BITS = 32
_MARGIN = 2.0 ** (1 - _BITS)  # twice what U may be above its digits so far; float64's exp(-x) is off by far less
_MORE = 64


def heads(gaps: NDArray[np.uint64], scale: float) -> NDArray[np.bool_]:
    """Throw a coin for each gap: heads with probability exp(-gap / scale).

    Parameters
    ----------
    gaps : ndarray of uint64 of shape (n,)
        Whole numbers.
    scale : float
        Finite and above 0.

    Returns
    -------
    ndarray of bool of shape (n,)
        Whether each is heads.

    Examples
    --------
    >>> heads(np.zeros(3, dtype=np.uint64), 2.5).tolist()
    [True, True, True]
    """
    return compared(np.frombuffer(os.urandom(_BITS // 8 * gaps.size), dtype=np.uint32), gaps, scale)


def compared(
    digits: NDArray[np.uint32],
    gaps: NDArray[np.uint64],
    scale: float,
    more: Callable[[int], int] = secrets.randbits,
) -> NDArray[np.bool_]:
    """Return whether numbers are below exp(-gap / scale), given their first 32 binary digits.

    Parameters
    ----------
    digits : ndarray of uint32 of shape (n,)
        The digits of each number.
    gaps, scale
        As for `heads`.
    more : callable
        Given how many, the next digits of a number.

    Returns
    -------
    ndarray of bool of shape (n,)
        Whether each is below.
    """
    shares = digits * 2.0**-_BITS  # exactly, and U is less than 2^-32 above
    chances = np.exp(gaps / -scale)
    below: NDArray[np.bool_] = shares < chances
    for at in np.flatnonzero(abs(shares - chances) <= _MARGIN):
        below[at] = _is_below(int(digits[at]), Fraction(int(gaps[at])) / Fraction(scale), more)
    return below


def _is_below(digits: int, x: Fraction, more: Callable[[int], int]) -> bool:
    """Return whether a number is below exp(-x), with as many digits as that takes."""
    bits = _BITS
    while x:
        if digits and x >= bits:  # it is 2^-bits at least, and exp(-x) is less
            return False
        if x < bits:
            low, high = _exponential(x, bits)
            if Fraction(digits + 1, 1 << bits) <= low:
                return True
            if Fraction(digits, 1 << bits) >= high:
                return False
        digits, bits = digits << _MORE | more(_MORE), bits + _MORE
    return True  # as any number below 1


def _exponential(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Bound exp(-x) from both sides, for x from 0 to `bits`, by less than 2^-bits of it.

    Decimal rounds quotients and exponentials correctly. With p digits, x is off by x 10^(1-p) at most, which moves
    exp(-x) by a part of less than 2x 10^(1-p), and it is rounded by a part of 10^(1-p).
    """
    digits = bits // 3 + 30
    with decimal.localcontext(decimal.Context(prec=digits)):
        middle = Fraction((-(Decimal(x.numerator) / Decimal(x.denominator))).exp())
    error = (2 * x + 1) / 10 ** (digits - 1)
    return middle * (1 - error), middle * (1 + error)
