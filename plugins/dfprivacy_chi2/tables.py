"""Statistics of a 2 x 2 table with public group sizes, and their sensitivities to one row.

X is 0 or 1 and private; the sizes N1, N0 of the two groups are fixed and public; c11, c10 count X = 1 in each.
One row changes its X: one of c11, c10 moves by 1. N = N1 + N0, M1 = c11 + c10, q = M1/N, δ = c11/N1 - c10/N0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "chi2_sensitivity",
    "chi2_statistic",
    "paper_sensitivity",
    "signed_distance",
    "swap_sensitivity",
    "tight_sensitivity",
    "unit_circle_norm",
]

_UNREACHABLE = 2**40  # farther than any table


def unit_circle_norm(
    c11: ArrayLike,
    c10: ArrayLike,
    n1: int,
    n0: int,
    tau: float,
    complete: tuple[ArrayLike, ArrayLike] | None = None,
) -> NDArray[np.float64]:
    r"""Return the norm ‖V‖ of the unit circle mechanism, which exceeds 1 if and only if chi² exceeds tau.

    Two squares: :math:`\lVert V\rVert^2 = \frac{4 N_1 N_0}{\tau N}\,\delta^2 + (2q-1)^2`, which is
    :math:`1 + 4q(1-q)\,(\chi^2/\tau - 1)`. Where only m and k rows have an X, δ is
    :math:`(c_{11} k - c_{10} m)/(\max(m, k) \min(N_1, N_0))`, as in `counts.Difference`, and 2q - 1 is
    :math:`(2 c_{11} + 2 c_{10} - m - k)/N`.

    Parameters
    ----------
    c11, c10 : array_like
        Rows with X = 1 in each group.
    n1, n0 : int
        Sizes of the groups.
    tau : float
        Value of chi² that the circle stands for.
    complete : tuple of two array_like, optional
        Rows with an X in each group; default: all.

    Returns
    -------
    ndarray
        The norm.
    """
    n, c11, c10 = n1 + n0, np.asarray(c11, dtype=np.float64), np.asarray(c10, dtype=np.float64)
    m, k = np.asarray((n1, n0) if complete is None else complete, dtype=np.float64)
    apart = np.where(np.minimum(m, k) > 0, c11 * k - c10 * m, 0.0) / np.maximum(np.maximum(m, k), 1.0)
    across = apart * (max(n1, n0) * 2 / math.sqrt(tau * n * n1 * n0))
    along = (2 * (c11 + c10) - (m + k)) / n
    norm: NDArray[np.float64] = np.hypot(across, along)
    return norm


def tight_sensitivity(n1: int, n0: int, tau: float) -> float:
    r"""Return the sensitivity of ‖V‖ to one row: :math:`2\sqrt{N_{\max}/(\tau N_{\min} N) + 1/N^2}`.

    It is the length of the step of V, so never too small (triangle inequality); it is attained where the larger
    group is even. It holds where a row gains or loses its X as well: the difference times the smaller group moves
    by 1 at most (`counts.Difference`), and 2q - 1 by 1/N.
    """
    n = n1 + n0
    return 2 * math.sqrt(max(n1, n0) / (tau * min(n1, n0) * n) + 1 / n**2)


def paper_sensitivity(n1: int, n0: int, tau: float) -> float:
    """Return the sensitivity bound of Kakizaki, Fukuchi and Sakuma, up to √2 times `tight_sensitivity`."""
    n = n1 + n0
    return 2 * math.sqrt(((n0**2 + n1**2) * n + 2 * tau * n0 * n1) / (tau * n0 * n1 * n**2))


def swap_sensitivity(n1: int, n0: int, tau: float) -> float:
    """Return the largest change of ‖V‖ if two rows of different groups exchange their values of X."""
    return 2 * math.sqrt((n1 + n0) / (tau * n1 * n0))


def chi2_statistic(c11: ArrayLike, c10: ArrayLike, n1: int, n0: int) -> NDArray[np.float64]:
    """Return Pearson's chi² of a 2 x 2 table, exact and not private; 0 if X is constant."""
    n, c11, c10 = n1 + n0, np.asarray(c11, dtype=np.float64), np.asarray(c10, dtype=np.float64)
    margins = n1 * n0 * (c11 + c10) * (n - c11 - c10)
    chi2 = n * (n0 * c11 - n1 * c10) ** 2 / np.where(margins > 0, margins, 1)
    return np.where(margins > 0, chi2, 0.0)


def chi2_sensitivity(n1: int, n0: int) -> float:
    r"""Return the sensitivity of chi² to one row: :math:`\frac{N^2}{N_1 N_0}(1 - 1/(N_{\max} + 1))`.

    It is about 4 for equal groups of any size, which is why chi² itself is not released.
    """
    return (n1 + n0) ** 2 / (n1 * n0) * (1 - 1 / (max(n1, n0) + 1))


def signed_distance(c11: ArrayLike, c10: ArrayLike, n1: int, n0: int, tau: float) -> NDArray[np.int64]:
    """Return the number of rows that must change to reverse significance, positive if chi² exceeds tau.

    Parameters
    ----------
    c11, c10 : int or array_like of int
        Rows with X = 1 in each group, of one table or of several.
    n1, n0 : int
        Sizes of the groups.
    tau : float
        A table is significant if its chi² exceeds this.

    Returns
    -------
    ndarray of int
        Of a significant table: the number of rows that must change until it is not. Of another: 1 minus the
        number of rows that must change until it is; minus all rows if no table is significant. One row moves it
        by 1 at most, whatever the set of significant tables: both distances are 1-Lipschitz, and they meet at 1
        and 0.
    """
    if n1 > n0:
        c11, c10, n1, n0 = c10, c11, n0, n1
    low, high = _insignificant_range(n1, n0, tau)
    first, second = np.broadcast_arrays(c11, c10)
    of = [_table_distance(int(c), int(d), low, high, n0) for c, d in zip(first.flat, second.flat, strict=True)]
    return np.array(of, dtype=np.int64).reshape(first.shape)


def _table_distance(c11: int, c10: int, low: NDArray[np.int64], high: NDArray[np.int64], n0: int) -> int:
    aside, none = np.abs(np.arange(len(low)) - c11), low > high
    if not low[c11] <= c10 <= high[c11]:  # into the interval of some c11
        steps = np.where(none, _UNREACHABLE, np.maximum(0, np.maximum(low - c10, c10 - high)))
        return int((aside + steps).min())
    below = np.where(low > 0, c10 - low + 1, _UNREACHABLE)  # out of it, within 0 to n0
    above = np.where(high < n0, high - c10 + 1, _UNREACHABLE)
    nearest = int((aside + np.where(none, 0, np.maximum(0, np.minimum(below, above)))).min())
    return 1 - nearest if nearest < _UNREACHABLE else -(len(low) - 1 + n0)


def _insignificant_range(n1: int, n0: int, tau: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each c11, the smallest and the largest c10 for which chi² is at most tau.

    They fill an ellipse: solve its equation for c10, and settle the ends by the definition.
    """
    n, c11 = n1 + n0, np.arange(n1 + 1, dtype=np.float64)
    a, b = n * n0**2 + tau * n1 * n0, n * n1**2 + tau * n1 * n0
    c, d = n1 * n0 * (tau - n), -tau * n1 * n0 * n
    middle = -(2 * c * c11 + d) / (2 * b)
    half = np.sqrt(np.maximum(0.0, middle**2 - (a * c11 + d) * c11 / b))

    def within(c10: NDArray[np.float64]) -> NDArray[np.bool_]:
        m1 = c11 + c10
        over = n * (c11 * n0 - c10 * n1) ** 2 > tau * n1 * n0 * m1 * (n - m1)
        return ~over & (c10 >= 0) & (c10 <= n0)  # a step may have left the box

    low, high = (np.clip(end, 0, n0) for end in (np.ceil(middle - half) - 1, np.floor(middle + half) + 1))
    for _ in range(2):  # an end may be one beyond by the step outwards, and one more by rounding
        low, high = np.where(within(low), low, low + 1), np.where(within(high), high, high - 1)
    empty = ~within(low) | ~within(high)
    low[empty], high[empty] = n0 + 1, -1
    return low.astype(np.int64), high.astype(np.int64)
