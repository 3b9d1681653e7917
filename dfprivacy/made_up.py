"""Functions that draw synthetic rows with an assumed effect, for `dfprivacy.Mechanism.assumes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.errors import ArgumentError
from dfprivacy.schema import SPREAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy.schema import Column

__all__ = [
    "assumed_sd",
    "cycle_categories",
    "groups_in_steps",
    "rows_with_shares",
]


def assumed_sd(column: Column, spread: float | None) -> float:
    """Return an assumed standard deviation in a column's units, by default a sixth of the range of its bounds.

    Parameters
    ----------
    column : Column
        A column with bounds.
    spread : float or None
        The assumed standard deviation, if the caller gives it.

    Returns
    -------
    float
        The standard deviation.
    """
    return 2 * column.half * SPREAD if spread is None else spread


def cycle_categories(
    column: Column, n: int, groups: Sequence[Any] | None = None, first: float | None = None
) -> NDArray[Any]:
    """Return the index of a category for each of n rows, sorted, so that each category has its share of the rows.

    Parameters
    ----------
    column : Column
        A column with categories.
    n : int
        Number of rows.
    groups : sequence, optional
        The categories; default: all.
    first : float, optional
        The share of the first category, with equal shares of the others; default: all shares are equal.

    Returns
    -------
    ndarray of shape (n,)
        Positions of the categories, increasing.
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
    """Draw normal values in groups whose means, around the middle of the bounds, decrease by `effect` sds each.

    Parameters
    ----------
    rng : Generator
        The generator.
    n : int
        Number of rows.
    column, by : Column
        The column of the values, and the column of the groups.
    groups : sequence or None
        The categories; None for all.
    effect : float
        The difference of the means, in standard deviations.
    spread : float or None
        The standard deviation in each group; None for a sixth of the range.
    first : float, optional
        The share of the rows in the first group; default: groups of equal size.

    Returns
    -------
    dict of str to ndarray
        Values of both columns.
    """
    kept = np.array(by.categories if groups is None else groups, dtype=object)
    of = cycle_categories(by, n, groups, first)
    spread = assumed_sd(column, spread)
    middle = (len(kept) - 1) / 2
    return {column.name: column.mid + spread * (rng.normal(size=n) + effect * (middle - of)), by.name: kept[of]}


def rows_with_shares(
    rng: np.random.Generator,
    n: int,
    column: Column,
    hit: Any,
    by: Column | None,
    groups: Sequence[Any] | None,
    effect: float,
    share: float,
    first: float | None = None,
) -> dict[str, NDArray[Any]]:
    """Draw rows in which a category has an equal share in all groups, and a share larger by `effect` in the first.

    Parameters
    ----------
    rng : Generator
        The generator.
    n : int
        Number of rows.
    column : Column
        A column with categories.
    hit : category
        The category.
    by, groups, first
        As in `groups_in_steps`; None for all rows together.
    effect, share : float
        The difference between the share in the first group and in the others, and the share in the others.

    Returns
    -------
    dict of str to ndarray
        Values of the columns.
    """
    if not 0 <= share + effect <= 1:
        raise ArgumentError(
            f"The share in the first group, {share:g} + {effect:g} = {share + effect:g}, is not between 0 and 1.",
            "Change the assumed share or effect: assume={'share': 0.3, 'effect': 0.1}.",
        )
    others = np.array([each for each in column.categories or () if each != hit] or [hit], dtype=object)
    of = np.zeros(n, dtype=int) if by is None else cycle_categories(by, n, groups, first)
    happened = rng.random(n) < share + effect * (of == 0)
    rows = {column.name: np.where(happened, np.array(hit, dtype=object), rng.choice(others, n))}
    if by is not None:
        rows[by.name] = np.array(by.categories if groups is None else groups, dtype=object)[of]
    return rows


def equal_weights(n: int, weights: Column | None) -> dict[str, NDArray[np.float64]]:
    """Return a column of n equal sampling weights, in the middle of their bounds; an empty dictionary for None."""
    return {} if weights is None else {weights.name: np.full(n, weights.mid)}
