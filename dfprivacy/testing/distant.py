"""Tables that are far from one another, and agree on what is public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfprivacy.testing.cases import Case, Row

__all__ = ["distant"]


def distant(case: Case, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Make tables as far from one as its public part allows.

    Parameters
    ----------
    case : Case
        What is public.
    rows : sequence of dict
        The table.

    Returns
    -------
    dict
        Rows by what they are; empty if all columns are public.
    """
    ends: dict[str, tuple[Any, Any]] = {**case.bounds}
    ends |= {name: (values[0], values[-1]) for name, values in case.categories.items()}
    ends = {name: end for name, end in ends.items() if name not in case.public}
    if not ends:
        return {}

    def filled(at: Callable[[int, tuple[Any, Any]], Any]) -> list[Row]:
        return [{**row, **{name: at(place, end) for name, end in ends.items()}} for place, row in enumerate(rows)]

    tables = {
        "highest": filled(lambda _, end: end[1]),
        "lowest": filled(lambda _, end: end[0]),
        "halves": filled(lambda place, end: end[place % 2]),
        "missing": filled(lambda *_: None),
    }
    if case.neighbors == "add_remove":
        tables |= {"one row": [*rows[:1]], "many rows": [*rows] * 5}
    return tables
