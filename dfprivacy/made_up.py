"""Made-up rows: with an effect, for `dfprivacy.Mechanism.assumes`, or from a schema alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy.schema import Column

__all__ = [
    "SPREAD",
    "assumed_sd",
    "cycle_categories",
    "groups_in_steps",
    "person_ids",
    "rows_with_shares",
    "values_of",
]

SPREAD = 1 / 6
"""Standard deviation that a column is taken to have, as a part of its range."""


def assumed_sd(column: Column, spread: float | None) -> float:
    """Return a standard deviation in a column's units, by default a sixth of the range.

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


def cycle_categories(
    column: Column, n: int, groups: Sequence[Any] | None = None, first: float | None = None
) -> NDArray[Any]:
    """Return a category for each of n rows, in order.

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
    """Make normal groups in the middle of the bounds, each group's mean above the next one's by `effect`.

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
    """Make rows in which a category has the same share in all groups, but a larger one in the first.

    Parameters
    ----------
    rng : Generator
        What draws.
    n : int
        Number of rows.
    column : Column
        A column with categories.
    hit : category
        Which of them.
    by, groups, first
        As in `groups_in_steps`; None for all rows together.
    effect, share : float
        The difference, and the share in the other groups.

    Returns
    -------
    dict of str to ndarray
        Values of the columns.
    """
    if not 0 <= share + effect <= 1:
        raise ArgumentError(
            f"The share {share + effect:g} is not between 0 and 1.", "Assume another share, or effect."
        )
    others = np.array([each for each in column.categories or () if each != hit] or [hit], dtype=object)
    of = np.zeros(n, dtype=int) if by is None else cycle_categories(by, n, groups, first)
    happened = rng.random(n) < share + effect * (of == 0)
    rows = {column.name: np.where(happened, np.array(hit, dtype=object), rng.choice(others, n))}
    if by is not None:
        rows[by.name] = np.array(by.categories if groups is None else groups, dtype=object)[of]
    return rows


def equal_weights(n: int, weights: Column | None) -> dict[str, NDArray[np.float64]]:
    """Return sampling weights in the middle of their bounds for all of n rows, by column; none without a column."""
    return {} if weights is None else {weights.name: np.full(n, weights.mid)}


def values_of(rng: np.random.Generator, n: int, column: Column) -> list[Any] | NDArray[np.float64]:
    """Draw values of a column: normal numbers around the middle of its bounds, or equally likely categories.

    Parameters
    ----------
    rng : Generator
        What draws.
    n : int
        Number of rows.
    column : Column
        The column.

    Returns
    -------
    list or ndarray
        The values. What counts as ``"other"`` is None, and so is everything of a column of which nothing is known.
        Categories that are text and numbers are all text.
    """
    if column.categories is None:
        if column.bounds is None:
            return rng.normal(size=n) if column.find else [None] * n
        drawn = column.mid + assumed_sd(column, None) * rng.normal(size=n)
        return np.clip(drawn, column.low, column.high)
    known = list(column.categories[:-1] if column.other else column.categories)
    if len({isinstance(value, str) for value in known}) > 1:
        known = list(map(str, known))
    values = [*known, None] if column.other else known
    return [values[code] for code in rng.integers(len(values), size=n)]


def person_ids(n: int, max_rows: int, known: int | None) -> NDArray[np.int64]:
    """Return a person for each of n rows, with at most `max_rows` rows each.

    Parameters
    ----------
    n : int
        Number of rows.
    max_rows : int
        How many rows of one person count.
    known : int or None
        How many people there are, where that is public; no more than the rows.

    Returns
    -------
    ndarray of int
        Numbers of people: as many as are known, else of up to three rows each.
    """
    return np.arange(n) % (max(1, n // min(max_rows, 3)) if known is None else known)
