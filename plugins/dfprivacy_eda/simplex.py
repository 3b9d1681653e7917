"""Counts that are not negative: the nearest ones of a total."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["project"]


def project(counts: ArrayLike, totals: ArrayLike) -> NDArray[np.float64]:
    """Find the nearest numbers in least squares that are not negative and have given sums, row by row.

    Parameters
    ----------
    counts : array_like of shape (..., c)
        Any numbers.
    totals : array_like of shape (...)
        The sums; below 0 counts as 0.

    Returns
    -------
    ndarray of shape (..., c)
        max(counts - theta, 0), with one theta a row.

    Examples
    --------
    >>> project([3, -1, 5, 2], 8).round(3).tolist()
    [2.333, 0.0, 4.333, 1.333]
    """
    counts = np.asarray(counts, dtype=np.float64)
    if not counts.size:
        return counts
    totals = np.maximum(np.asarray(totals, dtype=np.float64), 0.0)[..., None]
    falling = -np.sort(-counts, axis=-1)
    thetas = (np.cumsum(falling, axis=-1) - totals) / np.arange(1, counts.shape[-1] + 1)
    last = np.maximum((falling > thetas).sum(axis=-1, keepdims=True) - 1, 0)  # the first is always kept
    return np.maximum(counts - np.take_along_axis(thetas, last, axis=-1), 0.0)
