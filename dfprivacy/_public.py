"""What is public of what a question is given: no data, and tables only where a method takes a public one."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

from dfprivacy._table.frames import adapt
from dfprivacy.errors import ArgumentError
from dfprivacy.release import Exact
from dfprivacy.schema.values import plain_number

__all__ = ["public_table", "refuse_data"]


def refuse_data(what: str, value: object) -> None:
    """Refuse a column or a table: nothing that a question is made of may be data, for it is kept and quoted."""
    if isinstance(value, Exact):
        raise ArgumentError(
            f"{what} is exact and for the table's owner alone; questions are made of public values only.",
            "Ask for it with an epsilon.",
        )
    library = type(value).__module__.partition(".")[0]
    tables = {"pandas", "polars", "pyarrow", "duckdb", "_duckdb", "dask", "pyspark"}
    if isinstance(value, Sized) and library in tables:
        raise ArgumentError(
            f"{what} is a {type(value).__name__}; questions are made of public values only.",
            "Pass the name of a column, or the values as numbers, strings or a list of them.",
        )


def public_table(table: object, what: str) -> dict[str, list[Any]]:
    """Public rows of any kind as plain values.

    Parameters
    ----------
    table : mapping of str to sequence, or a frame
        Public rows: values by column, or a frame of any library that can be protected.
    what : str
        Its name, for errors.

    Returns
    -------
    dict of str to list
        Numbers, strings and booleans by column; dates as days since 1970-01-01.

    Raises
    ------
    ArgumentError
        If it is no table, or names a column twice.
    """
    if isinstance(table, Mapping):
        lists = dict(table)
        if not all(
            isinstance(name, str) and isinstance(values, Sized) and not isinstance(values, str)
            for name, values in lists.items()
        ):
            raise ArgumentError(
                f"{what} must have a list of values for each column.", "For example {'age': [20, 40], ...}."
            )
    else:
        frame = adapt(table)
        if len(set(frame.columns)) < len(frame.columns):
            raise ArgumentError(f"{what} names a column twice.", "Give each column a name of its own.")
        lists = frame.lists(frame.columns)
    return {name: [_plain(value) for value in values] for name, values in lists.items()}


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | bool | int | float) else plain_number(value)
