"""Where a decreasing function reaches a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["solve_decreasing"]


def solve_decreasing(function: Callable[[Array], Array], high: ArrayLike, *, tolerance: float = 2.0**-51) -> Array:
    """Solve function(x) = 0 elementwise for a decreasing function on [0, high].

    By Chandrupatla's method: inverse quadratic interpolation through the last three points where these lie so
    that it can be trusted, else bisection. The solution stays bracketed, as with bisection, but a dozen
    evaluations do for sixty-four.

    Parameters
    ----------
    function : callable
        A decreasing function of an array, evaluated elementwise.
    high : array_like
        An upper end for each element, where the function is at most 0.
    tolerance : float
        How near the solution is, in units of `high`.

    Returns
    -------
    ndarray
        The solutions; `high` where the function is positive everywhere.

    References
    ----------
    T. R. Chandrupatla. A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function
    without using derivatives. Advances in Engineering Software 28, 145-149 (1997).
    """
    # The solution lies between a, the newest point, and b; c is the one that was left last.
    a = np.asarray(high, dtype=np.float64)
    fa = function(a)
    a = np.broadcast_to(a, fa.shape)
    b = c = np.where(fa > 0, a, 0.0)
    fb = fc = function(b)
    near = a * (tolerance / 2)
    share = np.full_like(a, 0.5)  # of the way from a to b
    for _ in range(64):
        x = a + share * (b - a)
        fx = function(x)
        beyond = (fx > 0) == (fa > 0)  # then a is left, else b
        b, c = np.where(beyond, b, a), np.where(beyond, a, b)
        fb, fc = np.where(beyond, fb, fa), np.where(beyond, fa, fb)
        a, fa = x, fx
        width = np.abs(b - a)
        if np.all((width <= 2 * near) | (fa == 0)):
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            trusted = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            quadratic = fa / (fb - fa) * fc / (fb - fc)
            quadratic += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            least = np.minimum(near / width, 0.5)
        share = np.where(trusted, np.clip(quadratic, least, 1 - least), 0.5)
    return np.where(fa == 0, a, np.maximum(a, b))
