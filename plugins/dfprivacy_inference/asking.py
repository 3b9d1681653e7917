"""What a question is about: groups, numbers of rows, and which missing values matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Column, Curator

__all__ = ["FEWEST", "all_categories", "check_apart", "enough", "groups_of", "pair_of", "public_sizes"]

FEWEST = 4
"""Rows that a test needs, where their number is public."""


def groups_of(by: Column, groups: Sequence[Any] | None, *, least: int = 2) -> tuple[Any, ...]:
    """Give the categories to compare, as the column has them.

    Parameters
    ----------
    by : Column
        The column of the groups.
    groups : sequence or None
        The categories, if not all.
    least : int
        How many there must be.

    Returns
    -------
    tuple
        The categories.

    Raises
    ------
    ArgumentError
        If there are too few, or one is unknown or named twice.
    """
    known = by.categories or ()
    named = known if groups is None else groups
    if not isinstance(named, tuple | list):
        raise ArgumentError(f"groups={groups!r} is no list.", f"The categories of {by.name!r} are {list(known)!r}.")
    codes = tuple(known[by.code(value)] for value in named)
    if len(set(codes)) < len(codes):
        raise ArgumentError(f"groups={groups!r} names a group twice.", "Name each group once.")
    if len(codes) < least:
        raise ArgumentError(
            f"Comparing needs {least} groups; {list(codes)!r} are {len(codes)}.",
            f"The categories of {by.name!r} are {list(known)!r}.",
        )
    return codes


def pair_of(by: Column, groups: Sequence[Any] | None) -> tuple[Any, Any]:
    """Give the two categories to compare; an error if they are not two."""
    pair = groups_of(by, groups)
    if len(pair) != 2:  # noqa: PLR2004
        raise ArgumentError(
            f"This compares two groups; {list(pair)!r} are {len(pair)}.", "Name two: groups=[first, second]."
        )
    return pair[0], pair[1]


def check_apart(*columns: Column) -> None:
    """Refuse a column that is named for two purposes."""
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(f"{name!r} is named twice.", "Name different columns.")


def public_sizes(curator: Curator, by: Column, groups: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Give the rows of each group, None where they are private; an error if a public group has fewer than two."""
    sizes = curator.sizes(by, groups, least=2)
    return None if sizes is None else tuple(int(size) for size in sizes)


def enough(rows: int | None) -> int | None:
    """Give back a public number of rows; an error if it is too small."""
    if rows is not None and rows < FEWEST:
        raise ArgumentError(f"There are {rows} rows, and {FEWEST} are needed.", "Ask it of more rows.")
    return rows


def all_categories(by: Column, groups: tuple[Any, ...]) -> bool:
    """Tell whether these are all categories of a column."""
    return len(groups) == len(by.categories or ())
