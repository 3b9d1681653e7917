"""Where a decreasing function reaches a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["solve_decreasing"]


def solve_decreasing(
    function: Callable[[Array], Array], high: ArrayLike, *, at_zero: ArrayLike, tolerance: float = 2.0**-51
) -> Array:
    """Solve function(x) = 0 elementwise for a decreasing function of x >= 0.

    By Chandrupatla's method: inverse quadratic interpolation through the last three points where these lie so
    that it can be trusted, else bisection; the first step is that of a secant. The solution stays bracketed, as
    with bisection, but half a dozen evaluations do for sixty-four.

    Parameters
    ----------
    function : callable
        A decreasing function of an array, evaluated elementwise, that becomes negative somewhere.
    high : array_like
        A guess for each element of where the function is at most 0; it is doubled where that is not far enough.
    at_zero : array_like
        The value of the function at 0, at least 0.
    tolerance : float
        How near the solution is, in units of `high`.

    Returns
    -------
    ndarray
        The solutions.

    References
    ----------
    T. R. Chandrupatla. A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function
    without using derivatives. Advances in Engineering Software 28, 145-149 (1997).
    """
    # The solution lies between a, the newest point, and b; c is the one that was left last.
    a = np.asarray(high, dtype=np.float64)
    fa = function(a)
    a = np.broadcast_to(a, fa.shape)
    b, fb = np.zeros_like(fa), np.broadcast_to(np.asarray(at_zero, dtype=np.float64), fa.shape)
    while np.any(beyond := fa > 0):
        b, fb = np.where(beyond, a, b), np.where(beyond, fa, fb)
        a = np.where(beyond, 2 * a, a)
        fa = function(a)
    c, fc = b, fb
    near, last = a * tolerance, a * tolerance**0.6 / 10
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip(fa / (fa - fb), 0.01, 0.99)  # of the way from a to b
    x = a + share * (b - a)
    solved = np.zeros(x.shape, dtype=np.bool_)
    for _ in range(64):
        fx = function(x)
        beyond = (fx > 0) == (fa > 0)  # then a is left, else b
        b, c = np.where(beyond, b, a), np.where(beyond, a, b)
        fb, fc = np.where(beyond, fb, fa), np.where(beyond, fa, fb)
        a, fa = x, fx
        width = np.abs(b - a)
        with np.errstate(divide="ignore", invalid="ignore"):
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            trusted = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            quadratic = fa / (fb - fa) * fc / (fb - fc)
            quadratic += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            least = np.minimum(near / (2 * width), 0.5)
        share = np.where(trusted, np.minimum(np.maximum(quadratic, least), 1 - least), 0.5)
        x = np.where((fa == 0) | solved, a, a + share * (b - a))
        # The error of a trusted step is about the step to the power 1.8: one as small as this needs no other.
        solved |= (fa == 0) | (width <= near) | (trusted & (np.abs(x - a) <= last))
        if np.all(solved):
            break
    return x
