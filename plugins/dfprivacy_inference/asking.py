"""Checks and public facts of a question: the groups and their numbers of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import ArgumentError

if TYPE_CHECKING:
    from dfprivacy import Column, Curator

__all__ = ["FEWEST", "all_categories", "assumed_rows", "check_different", "checked_rows", "public_sizes"]

FEWEST = 4
"""Rows that a test needs, where their number is public."""


def check_different(*columns: Column | None) -> None:
    """Refuse a column that is named twice."""
    names = [column.name for column in columns if column is not None]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(f"{name!r} is named twice.", "Name different columns.")


def public_sizes(curator: Curator, by: Column, groups: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Return the public rows of each group, or None; an error if a public group has fewer than two."""
    sizes = curator.sizes(by, groups, least=2)
    return None if sizes is None else tuple(int(size) for size in sizes)


def checked_rows(rows: int | None) -> int | None:
    """Return a public number of rows; an error if it is below `FEWEST`."""
    if rows is not None and rows < FEWEST:
        raise ArgumentError(f"There are {rows} rows, and {FEWEST} are needed.", "Use more rows.")
    return rows


def all_categories(by: Column, groups: tuple[Any, ...]) -> bool:
    """Return whether these are all categories of a column."""
    return len(groups) == len(by.categories or ())


def assumed_rows(curator: Curator) -> tuple[int, str]:
    """Return the number of rows assumed by a plan, with a note where it is private."""
    rows, given = curator.supposed_size
    return rows, given and f", if {given}"
