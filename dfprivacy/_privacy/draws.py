r"""Exact draws of Bernoulli variables, of K-norm noise of the cube, and of noise of sparse vectors.

**Coins.** A coin is heads if a uniform number U between 0 and 1 is below exp(-x). Of U, 32 binary digits are
drawn; where these and float64 arithmetic decide, they decide as any number of digits and exact arithmetic would.
Where they do not, about once in 2^30 coins, digits are drawn and arithmetic made finer until they do. So the
probability is exp(-x), exactly.

**Noise of the cube** is the K-norm mechanism for vectors of which every coordinate moves by the same amount at
most: P(x) is proportional to exp(-max|x_i| / b) on integers. A vector whose coordinates all move by s at most
is released at epsilon = s/b, with a standard deviation of b √((d+1)(d+2)/3) a coordinate; independent Laplace
noise would need b √2 d [1]_.

**Sparse noise** is Laplace noise on a vector that is nearly all zeros: the coordinates that reach a threshold, and
no others. With noise on every one of d coordinates, each zero reaches a threshold T with the same small
probability

.. math:: p = P(X \ge T) = q^T / (1 + q), \qquad q = e^{-1/b}.

So their number is drawn first, from its binomial law, then which they are, and then by how much they reach it
[2]_. The law of what comes out is that of noise on all d, to the last digit, and the work is that of the others.

References
----------
.. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.
.. [2] Cormode, Procopiuc, Srivastava and Tran (2012). Differentially private summaries for sparse data. ICDT.
"""

from __future__ import annotations

import os
import secrets
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    AddLaplace: TypeAlias = Callable[[NDArray[np.int64], float], NDArray[np.int64]]
    DrawBelow: TypeAlias = Callable[[int], int]


__all__ = ["cube_noise", "draw_bernoulli", "draw_count_above", "less_than_exp", "noise_of_zeros"]

_BITS = 32
_MARGIN = 2.0 ** (1 - _BITS)  # twice what U may be above its digits so far; float64's exp(-x) is off by far less
_MORE = 64
_DIGITS = 40  # at first; a draw that these do not decide, one of 10^20, gets twice as many
_WORD = 32  # random bits at a time
_LARGEST = 2**63 - 1
_ONE = Decimal(1)
_Bounds: TypeAlias = tuple[Decimal, Decimal]


def draw_bernoulli(gaps: NDArray[np.uint64], scale: float) -> NDArray[np.bool_]:
    """Draw a Bernoulli variable for each gap: true with probability exp(-gap / scale).

    Parameters
    ----------
    gaps : ndarray of uint64 of shape (n,)
        Integers.
    scale : float
        Finite and above 0.

    Returns
    -------
    ndarray of bool of shape (n,)
        Whether each is heads.

    Examples
    --------
    >>> draw_bernoulli(np.zeros(3, dtype=np.uint64), 2.5).tolist()
    [True, True, True]
    """
    return less_than_exp(np.frombuffer(os.urandom(_BITS // 8 * gaps.size), dtype=np.uint32), gaps, scale)


def less_than_exp(
    digits: NDArray[np.uint32],
    gaps: NDArray[np.uint64],
    scale: float,
    more: Callable[[int], int] = secrets.randbits,
) -> NDArray[np.bool_]:
    """Return whether uniform numbers, whose first 32 binary digits are given, are below exp(-gap / scale).

    Parameters
    ----------
    digits : ndarray of uint32 of shape (n,)
        The digits of each number.
    gaps, scale
        As for `draw_bernoulli`.
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
        below[at] = _is_less_than_exp(int(digits[at]), Fraction(int(gaps[at])) / Fraction(scale), more)
    return below


def _is_less_than_exp(digits: int, x: Fraction, more: Callable[[int], int]) -> bool:
    """Return whether a uniform number is below exp(-x), drawing as many digits as needed."""
    bits = _BITS
    while x:
        if digits and x >= bits:  # it is 2^-bits at least, and exp(-x) is less
            return False
        if x < bits:
            low, high = _bounds_of_exp(x, bits)
            if Fraction(digits + 1, 1 << bits) <= low:
                return True
            if Fraction(digits, 1 << bits) >= high:
                return False
        digits, bits = digits << _MORE | more(_MORE), bits + _MORE
    return True  # as any number below 1


def _bounds_of_exp(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return bounds of exp(-x), for x from 0 to `bits`, with relative width below 2^-bits.

    Decimal rounds quotients and exponentials correctly. With p digits, x is off by x 10^(1-p) at most, which moves
    exp(-x) by a part of less than 2x 10^(1-p), and it is rounded by a part of 10^(1-p).
    """
    digits = bits // 3 + 30
    context = Context(prec=digits)
    middle = Fraction(context.exp(context.divide(Decimal(-x.numerator), Decimal(x.denominator))))
    error = (2 * x + 1) / 10 ** (digits - 1)
    return middle * (1 - error), middle * (1 + error)


def cube_noise(dimension: int, scale: float, laplace: AddLaplace, uniform_below: DrawBelow) -> NDArray[np.int64]:
    r"""Draw one vector x of K-norm noise of the cube exactly, with P(x) proportional to exp(-max abs(x_i) / scale).

    Parameters
    ----------
    dimension : int
        Number of coordinates d.
    scale : float
        b, in grid steps.
    laplace, uniform_below : callable
        Add Laplace noise of a scale to a vector; draw one of the first n integers.

    Returns
    -------
    ndarray of int64, shape (d,)
        The noise.

    Notes
    -----
    With q = exp(-1/b), let r have probabilities proportional to (2r+1)^d q^r, and x be uniform among the (2r+1)^d
    points with max|x_i| ≤ r. Then P(x) is proportional to the sum of q^r over r ≥ max|x_i|: to q^max|x_i|.

    A sum of d+1 geometric variables has probabilities proportional to C(r+d, d) q^r. It is accepted as r with
    probability Π (2r+1) / (2r+2i) over i = 1, …, d, a product of fractions below 1, which leaves (2r+1)^d q^r. A
    Laplace variable z is made geometric as z if z ≥ 0, else -z-1: both of probability proportional to q^k.
    """
    while True:
        drawn = laplace(np.zeros(dimension + 1, dtype=np.int64), scale)
        r = sum(np.where(drawn >= 0, drawn, -drawn - 1).tolist())  # of Python's integers, which have no end
        if all(uniform_below(2 * (r + i)) < 2 * r + 1 for i in range(1, dimension + 1)):
            return np.array([uniform_below(2 * r + 1) - r for _ in range(dimension)], dtype=np.int64)


def noise_of_zeros(
    occupied: Iterable[int], size: int, scale: float, threshold: int, laplace: AddLaplace, uniform_below: DrawBelow
) -> dict[int, int]:
    """Draw discrete Laplace noise for the zeros of a sparse vector, and return the values that reach a threshold.

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
    laplace, uniform_below : callable
        Add Laplace noise of a scale to a vector; draw one of the first n integers.

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
            f"The threshold {threshold} is out of range for noise of 64 bits.",
            "Use a larger epsilon, or a smaller domain.",
        )
    taken = np.sort(np.fromiter(occupied, dtype=np.int64))
    zeros = size - len(taken)
    count = draw_count_above(zeros, scale, threshold, uniform_below)
    ranks: set[int] = set()
    while len(ranks) < count:  # p is below one half, and so is their share, but for chance
        ranks.add(uniform_below(zeros))
    before = taken - np.arange(len(taken))  # zeros below each of the others
    places = [rank + int(np.searchsorted(before, rank, side="right")) for rank in ranks]
    drawn = laplace(np.zeros(count, dtype=np.int64), scale)
    above = np.where(drawn >= 0, drawn, ~drawn).tolist()
    return {place: min(threshold + more, _LARGEST) for place, more in zip(places, above, strict=True)}


def draw_count_above(trials: int, scale: float, threshold: int, below: DrawBelow) -> int:
    """Draw the number of independent discrete Laplace variables that reach a threshold, exactly.

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
        for n, (least, most) in enumerate(_distribution_bounds(trials, scale, threshold, digits)):
            if n == trials or high <= least:
                return n
            if low < most:
                break
        digits *= 2


def _distribution_bounds(
    trials: int, scale: float, threshold: int, digits: int
) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield bounds of the probabilities that at most 0, 1, 2, ... variables reach the threshold."""
    down, up = _rounding_contexts(digits)
    n, (odds, log) = Decimal(trials), _odds_bounds(scale, threshold, digits)
    least = _next_below(down, down.exp(down.multiply(n, log[0])))
    most = up.next_plus(up.exp(up.multiply(n, log[1])))
    sums = [least, most]
    for k in range(trials + 1):
        yield Fraction(sums[0]), Fraction(sums[1])
        more, many = Decimal(trials - k), Decimal(k + 1)
        least = down.divide(down.multiply(down.multiply(least, odds[0]), more), many)
        most = up.divide(up.multiply(up.multiply(most, odds[1]), more), many)
        sums = [down.add(sums[0], least), up.add(sums[1], most)]


@lru_cache(maxsize=64)  # by public numbers alone: how many zeros there are is private, and comes in afterwards
def _odds_bounds(scale: float, threshold: int, digits: int) -> tuple[_Bounds, _Bounds]:
    """Return bounds of p / (1 - p) and of ln(1 - p) for the probability p that one variable reaches a threshold."""
    down, up = _rounding_contexts(digits)
    b = Fraction(scale)

    def bounds_of_power(steps: int) -> _Bounds:
        """Return bounds of q^steps, where q = exp(-1 / scale)."""
        x = Decimal(-steps * b.denominator), Decimal(b.numerator)
        return _next_below(down, down.exp(down.divide(*x))), up.next_plus(up.exp(up.divide(*x)))

    q, tail = bounds_of_power(1), bounds_of_power(threshold)
    p = down.divide(tail[0], up.add(_ONE, q[1])), up.divide(tail[1], down.add(_ONE, q[0]))
    rest = down.subtract(_ONE, p[1]), up.subtract(_ONE, p[0])  # 1 - p
    odds = down.divide(p[0], rest[1]), up.divide(p[1], rest[0])
    return odds, (down.next_minus(down.ln(rest[0])), up.next_plus(up.ln(rest[1])))


def _rounding_contexts(digits: int) -> tuple[Context, Context]:
    """Return two decimal contexts, of which the first rounds down and the second up."""
    return Context(prec=digits, rounding=ROUND_FLOOR), Context(prec=digits, rounding=ROUND_CEILING)


def _next_below(down: Context, rounded: Decimal) -> Decimal:
    """Return the next decimal below a rounded number, but at least 0."""
    return max(down.next_minus(rounded), Decimal(0))
