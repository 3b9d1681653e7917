"""Checks that arguments are public: no data, and tables only where a method takes a public one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sized
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dfprivacy._privacy.filters import NUMBER, exact
from dfprivacy._table.frames import adapt
from dfprivacy.errors import ArgumentError, quoted
from dfprivacy.release import Exact
from dfprivacy.schema.values import plain_number

__all__ = ["MOST", "check_given", "public_table"]

MOST = 250_000
"""Items of a list that a question is given."""

_LONGEST = 10**5  # characters of a text
_DEEPEST = 20  # lists in lists
_BITS_MAX = 1000  # of a whole number: it is a float as well
_TABLES = {"pandas", "polars", "pyarrow", "duckdb", "_duckdb", "dask", "pyspark"}
_BOUNDED = (bool, float, type(None))
_HALF = re.compile("[\ud800-\udfff]")


def check_given(what: str, value: object) -> None:
    """Check what a question is given: public and of bounded size, for it is kept and quoted.

    Parameters
    ----------
    what : str
        Its name, for errors.
    value : object
        Numbers, text, lists and dictionaries of them; of other objects, the type alone is looked at.

    Raises
    ------
    ArgumentError
        If it is a column or a table, or has too many digits, characters, items or lists in lists.
    """
    items, todo = 0, [(value, 0)]
    while todo:
        each, depth = todo.pop()
        _check_one(what, each)
        if isinstance(each, dict):
            each = (*each, *each.values())
        elif isinstance(each, range):  # as long as it may be, it is three numbers
            each = (each.start, each.stop, each.step)
        if isinstance(each, list | tuple | set | frozenset):
            items += len(each)
            if items > MOST or depth == _DEEPEST:
                raise ArgumentError(f"{what} has over {MOST:,} items, or lists too deep in lists.", "Give fewer.")
            todo += [(item, depth + 1) for item in each if type(item) not in _BOUNDED]


def _check_one(what: str, value: object) -> None:
    if isinstance(value, Exact):
        raise ArgumentError(
            f"{what} is exact and for the table's owner alone; questions are made of public values only.",
            "Ask for it with an epsilon.",
        )
    library = type(value).__module__.partition(".")[0]
    if library in _TABLES and isinstance(value, Sized):
        raise ArgumentError(
            f"{what} is a {type(value).__name__}; questions are made of public values only.",
            "Pass the name of a column, or the values as numbers, strings or a list of them.",
        )
    if isinstance(value, str) and (len(value) > _LONGEST or _HALF.search(value)):
        raise ArgumentError(f"{what}{quoted(value)} is too long, or holds half a character.", "Write another.")
    if isinstance(value, int) and value.bit_length() > _BITS_MAX:
        raise ArgumentError(f"{what} has too many digits.", NUMBER)
    if isinstance(value, Decimal | Fraction):
        exact(value, what)


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
    try:
        return {name: [_plain(value) for value in values] for name, values in lists.items()}
    except Exception:  # noqa: BLE001 - of an object that is no list, whatever it says
        raise ArgumentError(f"{what} has a column that cannot be read.", "Give lists, or a frame.") from None


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | bool | int | float) else plain_number(value)
