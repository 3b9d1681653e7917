"""Conversion of results to tidy tables with one row for each estimate."""

from __future__ import annotations

import csv
import importlib
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dfprivacy.errors import ArgumentError, MissingDependency, quoted

__all__ = [
    "COLUMNS_MAX",
    "csv_of",
    "frame_of",
    "is_scalar",
    "nested_scalars",
    "plain_cell",
    "prefix_columns",
    "rows_of",
    "table_of",
]

COLUMNS_MAX = 10
"""Columns of a tidy table, beside those that name groups."""

LIBRARIES = ("pandas", "polars", "pyarrow")
_FORMULAS = tuple("=+-@\t\r＝＋－＠")  # a text that begins so is a formula to spreadsheets
_NUMBERS = (int, float, Fraction, Decimal, np.number, np.bool_)


def is_scalar(value: object) -> bool:
    """Return whether a value fits into a cell of a table: a number, a text, True, False or None."""
    return value is None or isinstance(value, (str, *_NUMBERS))


def plain_cell(value: Any) -> Any:
    """Convert a scalar to a Python value; a Fraction or Decimal to the nearest float."""
    if isinstance(value, np.generic):
        return value.item()
    return float(value) if isinstance(value, Fraction | Decimal) else value


def rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Convert columns to rows; a column that is a scalar is repeated in each row.

    Parameters
    ----------
    columns : mapping
        By name, a scalar, or a list, tuple or array with a scalar for each row.

    Returns
    -------
    list of dict
        The rows; one if no column is a sequence.

    Examples
    --------
    >>> rows_of({"term": ["a", "b"], "estimate": (1.5, 2.5), "n": 20})
    [{'term': 'a', 'estimate': 1.5, 'n': 20}, {'term': 'b', 'estimate': 2.5, 'n': 20}]
    """
    lists = {
        name: value.ravel().tolist() if isinstance(value, np.ndarray) else list(value)
        for name, value in columns.items()
        if isinstance(value, np.ndarray) or (isinstance(value, Sequence) and not isinstance(value, str))
    }
    length = len(next(iter(lists.values()))) if lists else 1
    cells = [lists.get(name, [value] * length) for name, value in columns.items()]
    return [dict(zip(columns, map(plain_cell, row), strict=True)) for row in zip(*cells, strict=True)]


def nested_scalars(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over the scalars in a nested value, each with its path of keys.

    Parameters
    ----------
    value : object
        Releases, mappings, sequences and arrays of scalars; any other object yields the name of its type.
    path : str
        The path of the value itself.

    Yields
    ------
    tuple of str and scalar
        The path and the scalar.

    Examples
    --------
    >>> list(nested_scalars({"mean": 1.5, "ends": (1, 2)}))
    [('mean', 1.5), ('ends[0]', 1), ('ends[1]', 2)]
    """
    if is_scalar(value):
        yield path, plain_cell(value)
    elif isinstance(value, Mapping) or hasattr(value, "result"):
        for key, part in getattr(value, "result", value).items():
            yield from nested_scalars(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, np.ndarray):
        for cell in np.ndindex(value.shape):
            yield from nested_scalars(value[cell], f"{path}[{', '.join(map(str, cell))}]")
    elif isinstance(value, list | tuple):
        for at, part in enumerate(value):
            yield from nested_scalars(part, f"{path}[{at}]")
    else:
        yield path, type(value).__name__


def prefix_columns(key: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the columns of a group's key in front; an underscore is added to a duplicate name."""
    named = {}
    for name, value in key.items():
        free = name
        while free in row or free in named:
            free += "_"
        named[free] = value
    return {**named, **row}


def table_of(columns: Mapping[str, Any], library: str) -> Any:
    """Convert lists or arrays by column to a dataframe of a library."""
    module = _import_library(library)
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


def frame_of(rows: Sequence[Mapping[str, Any]], library: str) -> Any:
    """Convert rows to a dataframe; a column that a row lacks is missing in that row.

    Parameters
    ----------
    rows : sequence of mappings
        Scalars by column.
    library : {"pandas", "polars", "pyarrow"}
        The library of the dataframe.

    Returns
    -------
    pandas.DataFrame, polars.DataFrame or pyarrow.Table
        The table. A column of Polars or Arrow has one type: one of several kinds becomes text.
    """
    if not isinstance(library, str) or library not in LIBRARIES:
        raise ArgumentError(f"library{quoted(library)} is unknown.", 'Use "pandas", "polars" or "pyarrow".')
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    if library != "pandas":
        return table_of({name: _convert_to_one_type(cells) for name, cells in columns.items()}, library)
    return table_of({name: _replace_none_by_nan(cells) for name, cells in columns.items()}, library)


def csv_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """Convert rows to CSV text; a column that a row lacks is empty in that row.

    Parameters
    ----------
    rows : sequence of mappings
        Scalars by column.
    columns : sequence of str, optional
        Names of the columns; default: those of the rows.

    Returns
    -------
    str
        Lines. A text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    out = io.StringIO()
    columns = columns or [*dict.fromkeys(name for row in rows for name in row)]
    table = csv.DictWriter(out, columns, lineterminator="\n")
    table.writerow({name: _escape_formula(name) for name in columns})
    table.writerows({name: _escape_formula(cell) for name, cell in row.items()} for row in rows)
    return out.getvalue()


def _escape_formula(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULAS) else cell


def _replace_none_by_nan(cells: list[Any]) -> list[Any]:
    """Return a column with None replaced by NaN if it has numbers only, which pandas would store as objects."""
    kinds = {type(cell) for cell in cells}
    return [math.nan if cell is None else cell for cell in cells] if kinds <= {int, float, type(None)} else cells


def _convert_to_one_type(values: list[Any]) -> list[Any]:
    """Return a column as text if its values have several types, since a column of Arrow has one type."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    return values if len(kinds) < 2 else [None if value is None else str(value) for value in values]  # noqa: PLR2004


def _import_library(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError:
        raise MissingDependency(f"{library} is not installed.", f'pip install "dfprivacy[{library}]"') from None
