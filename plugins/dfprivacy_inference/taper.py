r"""The factor H(M) by which a rank sum is multiplied before it is released, where groups are private.

M is the size of the larger of two groups of n rows in all. Where one row can change its group, the rank sum D moves
by up to n - 1, but only if nearly all rows are in one group; between groups alike, by half of that. H is as large
as the rows allow: H(M) D, with c times the size of the first group beside it, moves by 1 at most, in L1. The proof,
and that what is below is the largest such factor by its recursion, is in docs/explanation/inference.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["switch", "taper"]


def switch(n: int, c: float) -> int:
    """Give the smallest M from which on H(M) = 1/M.

    Parameters
    ----------
    n : int
        Number of rows, 2 or more.
    c : float
        The part of the sensitivity for the size, 0 to 1/2.

    Returns
    -------
    int
        The smallest M, from n/2 on, with (1 - 2c)(M + 1) at least 2(n - 1 - M).
    """
    last = math.floor((2 * n - 3 + 2 * c) / (3 - 2 * c))  # at most one below
    while (1 - 2 * c) * (last + 1) < 2 * (n - 1 - last):
        last += 1
    return min(max(last, (n + 1) // 2), n)


def taper(n: int, larger: ArrayLike, c: float = 0.0) -> NDArray[np.float64]:
    """Give H(M).

    Parameters
    ----------
    n : int
        Number of rows, 2 or more.
    larger : array_like
        M, the size of the larger group, at least n/2.
    c : float
        The part of the sensitivity for the size, 0 to 1/2.

    Returns
    -------
    ndarray
        The factor.

    Examples
    --------
    >>> taper(10, [5, 7, 10]) * 10
    array([1.86666667, 1.42857143, 1.        ])
    """
    last, larger = switch(n, c), np.asarray(larger, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = (n - last) / last + 2 * (1 - c) * ((last - 1) / (larger - 1) - 1)
        below = (larger - 1) / (n - larger) * rest / max(last - 1, 1)
    return np.where(larger >= last, 1 / larger, below)
