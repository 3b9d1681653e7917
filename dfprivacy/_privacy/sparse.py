r"""Laplace noise on a vector that is nearly all zeros: the coordinates that reach a threshold, and no others.

With noise on every one of d coordinates, each zero reaches a threshold T with the same small probability

.. math:: p = P(X \ge T) = q^T / (1 + q), \qquad q = e^{-1/b}.

So their number is drawn first, from its binomial law, then which they are, and then by how much they reach it [1]_.
The law of what comes out is that of noise on all d, to the last digit, and the work is that of the others.

References
----------
.. [1] Cormode, Procopiuc, Srivastava and Tran (2012). Differentially private summaries for sparse data. ICDT.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dfprivacy._privacy.samplers import Sampler

__all__ = ["binomial", "zeros_that_reach"]

_DIGITS = 40  # at first; a draw that these do not decide, one of 10^20, gets twice as many
_WORD = 32  # random bits at a time
_LARGEST = 2**63 - 1
_ONE = Decimal(1)
_Bounds: TypeAlias = tuple[Decimal, Decimal]


def zeros_that_reach(
    occupied: Iterable[int], size: int, scale: float, threshold: int, sampler: Sampler
) -> dict[int, int]:
    """Add discrete Laplace noise to the zeros of a vector, and give those that reach a threshold.

    Parameters
    ----------
    occupied : iterable of int
        Coordinates that are not among these zeros, each once.
    size : int
        How many coordinates there are.
    scale : float
        b.
    threshold : int
        T, at least 1: else most zeros would reach it.
    sampler : Sampler
        What draws Laplace noise and uniform whole numbers.

    Returns
    -------
    dict of int to int
        Coordinates, in no order that may be shown, and their noise.

    Raises
    ------
    ArgumentError
        If the threshold is below 1, or beyond what 64 bits hold.

    Notes
    -----
    Beyond a threshold the noise has no memory: X - T, where X reaches T, is geometric. Any X is made geometric as X
    if X ≥ 0, else -X-1. Noise of 64 bits ends at 2^63 - 1, and so does this.
    """
    if not 1 <= threshold < _LARGEST // 2:
        raise ArgumentError(
            f"Zeros that reach {threshold} cannot be drawn.", "Ask with a larger epsilon, or of a smaller domain."
        )
    taken = np.sort(np.fromiter(occupied, dtype=np.int64))
    zeros = size - len(taken)
    count = binomial(zeros, scale, threshold, sampler.below)
    ranks: set[int] = set()
    while len(ranks) < count:  # p is below one half, and so is their share, but for chance
        ranks.add(sampler.below(zeros))
    before = taken - np.arange(len(taken))  # zeros below each of the others
    places = [rank + int(np.searchsorted(before, rank, side="right")) for rank in ranks]
    drawn = sampler.laplace(np.zeros(count, dtype=np.int64), scale)
    above = np.where(drawn >= 0, drawn, ~drawn).tolist()
    return {place: min(threshold + more, _LARGEST) for place, more in zip(places, above, strict=True)}


def binomial(trials: int, scale: float, threshold: int, below: Callable[[int], int]) -> int:
    """Draw how many of independent discrete Laplace variables reach a threshold, exactly.

    Parameters
    ----------
    trials : int
        How many variables there are.
    scale : float
        b.
    threshold : int
        T, at least 1.
    below : callable
        What draws one of 0, ..., n-1, all equally likely.

    Returns
    -------
    int
        Their number.

    Notes
    -----
    Inversion: the smallest n with U < P(N ≤ n), for a uniform number U of which no more digits are drawn than the
    comparison needs. Both sides are held between bounds: U by its digits so far, the probabilities by decimal
    arithmetic with directed rounding, where exp and ln are correctly rounded. While the bounds do not tell,
    both get twice as many digits. So there is no rounding error, and the time is that of n + 1 terms.
    """
    if not trials:
        return 0
    uniform, bits, digits = 0, 0, _DIGITS
    while True:
        while bits < 4 * digits:  # more than there are decimals
            uniform, bits = (uniform << _WORD) | below(1 << _WORD), bits + _WORD
        low, high = Fraction(uniform, 1 << bits), Fraction(uniform + 1, 1 << bits)
        for n, (least, most) in enumerate(_distribution(trials, scale, threshold, digits)):
            if n == trials or high <= least:
                return n
            if low < most:
                break
        digits *= 2


def _distribution(trials: int, scale: float, threshold: int, digits: int) -> Iterator[tuple[Fraction, Fraction]]:
    """Return bounds of the probabilities of at most 0, 1, 2, ... that reach the threshold."""
    down, up = _contexts(digits)
    n, (odds, log) = Decimal(trials), _of_one(scale, threshold, digits)
    least = _lower(down, down.exp(down.multiply(n, log[0])))
    most = up.next_plus(up.exp(up.multiply(n, log[1])))
    sums = [least, most]
    for k in range(trials + 1):
        yield Fraction(sums[0]), Fraction(sums[1])
        more, many = Decimal(trials - k), Decimal(k + 1)
        least = down.divide(down.multiply(down.multiply(least, odds[0]), more), many)
        most = up.divide(up.multiply(up.multiply(most, odds[1]), more), many)
        sums = [down.add(sums[0], least), up.add(sums[1], most)]


@lru_cache(maxsize=64)  # by public numbers alone: how many zeros there are is private, and comes in afterwards
def _of_one(scale: float, threshold: int, digits: int) -> tuple[_Bounds, _Bounds]:
    """Return bounds of p / (1 - p) and of ln(1 - p)."""
    down, up = _contexts(digits)
    b = Fraction(scale)

    def power(steps: int) -> _Bounds:
        """Bounds of q to a power."""
        x = Decimal(-steps * b.denominator), Decimal(b.numerator)
        return _lower(down, down.exp(down.divide(*x))), up.next_plus(up.exp(up.divide(*x)))

    q, tail = power(1), power(threshold)
    p = down.divide(tail[0], up.add(_ONE, q[1])), up.divide(tail[1], down.add(_ONE, q[0]))
    rest = down.subtract(_ONE, p[1]), up.subtract(_ONE, p[0])  # 1 - p
    odds = down.divide(p[0], rest[1]), up.divide(p[1], rest[0])
    return odds, (down.next_minus(down.ln(rest[0])), up.next_plus(up.ln(rest[1])))


def _contexts(digits: int) -> tuple[Context, Context]:
    """Return arithmetic that rounds down, and up."""
    return Context(prec=digits, rounding=ROUND_FLOOR), Context(prec=digits, rounding=ROUND_CEILING)


def _lower(down: Context, rounded: Decimal) -> Decimal:
    """Return a number below what was rounded, and not below 0."""
    return max(down.next_minus(rounded), Decimal(0))
