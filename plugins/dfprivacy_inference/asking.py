"""Checks of the arguments of group comparisons, and the groups' public numbers of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import ArgumentError

if TYPE_CHECKING:
    from dfprivacy import Column, Curator

__all__ = [
    "FEWEST",
    "are_all_categories",
    "assumed_rows",
    "check_distinct_columns",
    "checked_rows",
    "public_sizes",
]

FEWEST = 4
"""Rows that a test needs, where their number is public."""


def check_distinct_columns(*columns: Column | None) -> None:
    """Check that no column is named twice."""
    names = [column.name for column in columns if column is not None]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(f"Column {name!r} is named twice.", "Name different columns.")


def public_sizes(curator: Curator, by: Column, groups: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Return the public size of each group, or None if private; raise an error if one is below 2."""
    sizes = curator.sizes(by, groups, least=2)
    return None if sizes is None else tuple(int(size) for size in sizes)


def checked_rows(rows: int | None) -> int | None:
    """Return the public number of rows, or None if private; raise an error if it is below `FEWEST`."""
    if rows is not None and rows < FEWEST:
        raise ArgumentError(
            f"There are {rows} rows, and the test needs at least {FEWEST}.", "Use a table with more rows."
        )
    return rows


def are_all_categories(by: Column, groups: tuple[Any, ...]) -> bool:
    """Return whether the compared groups are all categories of the grouping column."""
    return len(groups) == len(by.categories or ())


def assumed_rows(curator: Curator) -> tuple[int, str]:
    """Return the number of rows that a plan assumes, and a phrase that says so (empty if it is public)."""
    rows, given = curator.supposed_size
    return rows, given and f", if {given}"
