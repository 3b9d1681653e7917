"""Made-up rows with something to find, for `dfprivacy.Mechanism.assumes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy.schema import Column

__all__ = ["SPREAD", "groups_in_steps", "labels", "spread_of"]

SPREAD = 1 / 6
"""Standard deviation that a column is taken to have, as a part of its range."""


def spread_of(column: Column, spread: float | None) -> float:
    """Give a standard deviation in a column's units, a sixth of the range unless said.

    Parameters
    ----------
    column : Column
        A column with bounds.
    spread : float or None
        What is said.

    Returns
    -------
    float
        The standard deviation.
    """
    return 2 * column.half * SPREAD if spread is None else spread


def labels(column: Column, n: int, groups: Sequence[Any] | None = None, first: float | None = None) -> NDArray[Any]:
    """Give each of n rows one of some categories, in order.

    Parameters
    ----------
    column : Column
        A column with categories.
    n : int
        Number of rows.
    groups : sequence, optional
        The categories; default: all.
    first : float, optional
        The part of the rows that the first has, the others alike; default: all alike.

    Returns
    -------
    ndarray of shape (n,)
        Places of the categories, rising.
    """
    k = len(column.categories or () if groups is None else groups)
    shares = np.full(k, 1 / k)
    if first is not None and k > 1:
        shares = np.append(first, np.full(k - 1, (1 - first) / (k - 1)))
    return np.searchsorted(np.cumsum(shares) - 1e-9, (np.arange(n) + 0.5) / n)


def groups_in_steps(
    rng: np.random.Generator,
    n: int,
    column: Column,
    by: Column,
    groups: Sequence[Any] | None,
    effect: float,
    spread: float | None,
    first: float | None = None,
) -> dict[str, NDArray[Any]]:
    """Make normal groups, each above the next by the effect, in standard deviations; in the middle of the bounds.

    Parameters
    ----------
    rng : Generator
        What draws.
    n : int
        Number of rows.
    column, by : Column
        The numbers, and the groups.
    groups : sequence or None
        The categories; None for all.
    effect : float
        In standard deviations.
    spread : float or None
        The standard deviation in each group; None for a sixth of the range.
    first : float, optional
        The part of the rows in the first group; default: all alike.

    Returns
    -------
    dict of str to ndarray
        Values of both columns.
    """
    kept = np.array(by.categories if groups is None else groups, dtype=object)
    of = labels(by, n, groups, first)
    spread = spread_of(column, spread)
    middle = (len(kept) - 1) / 2
    return {
        column.name: column.mid + spread * (rng.normal(size=n) + effect * (middle - of)),
        by.name: kept[of],
    }
