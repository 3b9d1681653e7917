"""Schemas made from users' declarations about a table, checked against the names of its columns."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._table.frames import redact_errors
from dfprivacy.errors import ArgumentError, SchemaError, quoted
from dfprivacy.expressions import FOR_EXAMPLE, ComputedColumn, Expression, col, computed_column
from dfprivacy.schema import (
    OTHER,
    Category,
    Column,
    FoundPair,
    LabelAndUnits,
    Schema,
    Unit,
    as_integer,
    as_number,
    bounds_of,
    code_book_of,
    distinct_categories,
)
from dfprivacy.schema.values import plain, plain_number, plain_text, read_number

if TYPE_CHECKING:
    from dfprivacy._table.frames import Frame
    from dfprivacy.schema import Bounds, Neighbors

__all__ = [
    "ROWS_OF_ONE",
    "computed_columns",
    "looked_up_columns",
    "read_schema",
    "read_size",
    "read_unit",
    "redeclared_schema",
]

ROWS_OF_ONE = 1 << 20
"""The most rows of one person that may count."""
_PUBLIC_ROWS = 100_000  # of a public table in which values are looked up
_LISTED = 200  # different numbers of it that are listed as categories


def read_schema(
    frame: Frame,
    *,
    bounds: Mapping[str, Bounds] | None,
    categories: Mapping[str, Sequence[Category]] | None,
    public: Sequence[str],
    missing: Mapping[str, Any] | None,
    neighbors: str,
    unit: Unit | None = None,
    size: int | None = None,
) -> Schema:
    """Make a schema from declarations, checked against the table's column names.

    Raises
    ------
    SchemaError
        If anything said cannot be used. No value is looked at, and the type of no other column.
    """
    names = frame.columns
    doubles = sorted(name for name, times in Counter(names).items() if times > 1)
    if doubles:
        raise SchemaError(f"Columns {doubles!r} appear more than once.", "Give every column its own name.")
    relation = _check_relation(neighbors)
    public = _read_column_names("public", public)
    if unit is not None:
        _check_unit(frame, unit, public)
    if public and relation == "add_remove":
        raise SchemaError(
            "public columns need neighbors='replace_one': if a row is added or removed, every column changes.",
            "Leave out public=, or neighbors='add_remove'.",
        )
    _refuse_unknown_columns(names, "public", public)
    columns = {name: Column(name, public=True) for name in public}
    people = None if unit is None else size
    person = "" if unit is None else unit.column
    schema = Schema(names, columns, relation, None, unit, people, person=person, library=frame.library)
    schema = redeclared_schema(schema, bounds=bounds, categories=categories, missing=missing)
    if unit is not None or relation == "add_remove":
        return schema
    return replace(schema, size=size or _number_of_rows(frame))


def _check_relation(neighbors: object) -> Neighbors:
    if not isinstance(neighbors, str) or neighbors not in ("replace_one", "add_remove"):
        raise SchemaError(f"neighbors{quoted(neighbors)} is unknown.", 'Use "replace_one" or "add_remove".')
    return "add_remove" if neighbors == "add_remove" else "replace_one"


def _number_of_rows(frame: Frame) -> int:
    size = redact_errors(frame.rows)
    if size < 1:
        raise SchemaError("The table has no rows.", "Protect a table with at least one row.")
    return size


def read_unit(unit: object, max_rows: object, missing: object) -> Unit | None:
    """Return the privacy unit: the column that names people, and the most rows of each that count; else None.

    Raises
    ------
    SchemaError
        If it cannot be used.
    """
    if not isinstance(missing, str) or missing not in ("omit", "own"):
        raise SchemaError(
            f"unit_missing{quoted(missing)} is unknown.",
            'Use "omit" to leave out rows without a person, or "own" to count every such row as a person.',
        )
    if unit is None:
        if max_rows is not None:
            raise SchemaError(
                "max_rows= needs unit=.", "Name the column that identifies people: unit='patient_id'."
            )
        return None
    if not isinstance(unit, str):
        raise SchemaError(
            f"unit= is the name of a column, not {type(unit).__name__}.", "For example unit='patient_id'."
        )
    if max_rows is None:
        raise SchemaError(
            "max_rows= is missing.",
            f"Set max_rows= to the largest number of rows of one {unit!r} that count, from 1 to {ROWS_OF_ONE}. A "
            "larger number means more noise, a smaller one leaves out more rows.",
        )
    return Unit(unit, as_integer(max_rows, "max_rows", 1, ROWS_OF_ONE), "own" if missing == "own" else "omit")


def read_size(size: object, neighbors: object) -> int | None:
    """Return the declared public number of rows or people as an integer; None if `size` is None."""
    if _check_relation(neighbors) == "add_remove" and size is not None:
        raise SchemaError(
            "size= states a public number, and under neighbors='add_remove' no number of rows is public.",
            "Leave out size=, or use neighbors='replace_one'.",
        )
    return None if size is None else as_integer(size, "size", 1)


def _check_unit(frame: Frame, unit: Unit, public: Sequence[str]) -> None:
    _refuse_unknown_columns(frame.columns, "unit", [unit.column])
    if public:
        raise SchemaError(
            "public columns need one row per person: if all rows of a person change, every column may change.",
            "Leave out public=, or unit=.",
        )
    if not frame.identifier_kind(unit.column):
        raise SchemaError(
            f"unit={unit.column!r} must be a column of integers or text.",
            "Floats are rounded, so that two people could get one identifier. In pandas, a missing value turns "
            "integers into floats: use astype('Int64'), or text.",
        )


def redeclared_schema(
    schema: Schema,
    *,
    bounds: Mapping[str, Bounds] | None,
    categories: Mapping[str, Sequence[Category]] | None,
    missing: Mapping[str, Any] | None,
) -> Schema:
    """Return a schema with new declarations of some columns; public columns and number of rows do not change.

    Raises
    ------
    SchemaError
        As for `read_schema`.
    """
    given = {"bounds": bounds, "categories": categories, "missing": missing}
    declarations = {argument: _read_mapping(argument, of) for argument, of in given.items()}
    for argument, names in declarations.items():
        if schema.unit is not None and schema.unit.column in names:
            raise SchemaError(
                f"{argument}= names {schema.unit.column!r}, which identifies people and cannot be analysed.",
                f"Leave it out of {argument}=.",
            )
        _refuse_unknown_columns(schema.names, argument, names)
    columns = dict(schema.columns)
    for name in dict.fromkeys(name for each in declarations.values() for name in each):
        before = columns.get(name, Column(name))
        counts_as = (OTHER if before.other else before.fill) if before.filled else None
        columns[name] = _redeclared_column(
            before,
            declarations["bounds"].get(name),
            declarations["categories"].get(name, before.categories),
            declarations["missing"].get(name, counts_as),
        )
    known = (columns.get(name, Column(name)) for name in schema.names)
    dates = {
        name: LabelAndUnits(f"{name} since 1970-01-01", "days")
        for name, ends in declarations["bounds"].items()
        if any(isinstance(end, dt.date | np.datetime64) for end in ends)
    }
    return replace(
        schema,
        columns={each.name: each for each in known if each != Column(each.name)},
        words={**dates, **schema.words},
    )


def computed_columns(
    schema: Schema, columns: Mapping[str, Any], bounds: Mapping[str, Bounds]
) -> dict[str, ComputedColumn]:
    """Declare new columns computed from others; an expression may use the new columns declared before it.

    Parameters
    ----------
    schema : Schema
        Of the columns that there are.
    columns : mapping of str to Expression or callable
        An expression for each new column.
    bounds : mapping
        Bounds of some of them; default: what their values can be.

    Returns
    -------
    dict of str to ComputedColumn
        The new columns, whose formulas name columns of the frame only.

    Raises
    ------
    ArgumentError, SchemaError
        If an expression does not fit the columns, a name is taken, or numbers have no bounds.
    """
    limits = _read_mapping("bounds", bounds)
    _refuse_unknown_columns([*columns], "bounds", limits)
    made: dict[str, ComputedColumn] = {}
    for name, given in columns.items():
        if name in schema.names or name in made:
            raise SchemaError(f"There is a column {name!r} already.", "Give the new one another name.")
        expression = given(_ColumnExpressions()) if callable(given) and not isinstance(given, Expression) else given
        if not isinstance(expression, Expression):
            raise ArgumentError(f"{name}= is a {type(given).__name__}, not an expression.", FOR_EXAMPLE)
        known = {each: made.get(each) or schema.described(each) for each in expression.node.columns}
        made[name] = computed_column(name, expression, known, limits.get(name))
    return made


def looked_up_columns(
    schema: Schema, frame: Frame, on: object, columns: object, missing: object
) -> dict[str, ComputedColumn]:
    """Declare new columns with values from a public table, looked up by the value of the column `on`.

    Parameters
    ----------
    schema : Schema
        Of the columns that there are.
    frame : Frame
        The public table.
    on, columns, missing
        As for `PrivateFrame.lookup`.

    Returns
    -------
    dict of str to ComputedColumn
        The new columns.

    Raises
    ------
    ArgumentError, SchemaError
        If the table or the columns cannot be used.
    """
    if not isinstance(on, str):
        raise SchemaError(f"on= takes the name of a column, not {type(on).__name__}.", "For example on='zip'.")
    key, names = schema.described(on), frame.columns
    wanted = [name for name in names if name != on] if columns is None else _read_column_names("columns", columns)
    fill = _read_mapping("missing", missing)
    _refuse_unknown_columns(names, "lookup()", [on, *wanted])
    _refuse_unknown_columns(wanted, "missing", fill)
    rows = redact_errors(frame.rows)
    if rows > _PUBLIC_ROWS or not wanted or len(set(names)) < len(names):
        raise ArgumentError(
            f"The public table cannot be used: it has {rows} rows and the columns {list(names)!r}.",
            f"Pass a table with at most {_PUBLIC_ROWS} rows, no column name twice, and a column besides {on!r}.",
        )
    values = redact_errors(lambda: frame.lists([on, *wanted]))
    keys = [_key_as_declared(key, each) for each in values[on]]
    if max(Counter(each for each in keys if each is not None).values(), default=1) > 1:
        raise ArgumentError(
            f"The public table has several rows with the same value of {on!r}.",
            f"Pass a table with one row for each value of {on!r}.",
        )
    expressions: dict[str, Expression] = {}
    limits: dict[str, tuple[float, float]] = {}
    for name in wanted:
        pairs = zip(keys, map(_plain_value, values[name]), strict=True)
        found = {each: value for each, value in pairs if each is not None and value is not None}
        if not found:
            raise ArgumentError(
                f"The public table has no value of {name!r} for any possible value of {on!r}.",
                f"Compare its values of {on!r} with the bounds or categories declared for {on!r}.",
            )
        expressions[name] = col(on).map(found)
        numbers = {*found.values()}
        if len(numbers) == 1 and not isinstance(next(iter(numbers)), str | bool):
            raise ArgumentError(
                f"All usable rows of the public table have the same number in {name!r}.",
                f"Leave {name!r} out: name the other columns in columns=[...].",
            )
        if name in fill:
            expressions[name] = expressions[name].fill(fill[name])
        elif len(numbers) > _LISTED and not any(isinstance(each, str) for each in numbers):
            limits[name] = float(min(numbers)), float(max(numbers))
    return computed_columns(schema, expressions, limits)


def _key_as_declared(column: Column, value: object) -> Any:
    """Convert a value of the public table to a number or category of a column; None if it is neither."""
    if column.bounds is None:
        at = code_book_of(column.categories or ()).code(value, -1)
        return None if at < 0 else (column.categories or ())[at]
    text = plain_text(value)
    number = plain_number(value) if text is None else read_number(text)
    return number if column.low <= number <= column.high else None


def _plain_value(value: object) -> Any:
    """Convert a value of the public table to a string, bool, int or finite float; None for other values."""
    known = plain(value)
    if isinstance(known, str | bool | int):
        return known
    number = plain_number(value)
    return number if math.isfinite(number) else None


class _ColumnExpressions:
    """The columns of a table as expressions: the argument of a function such as ``lambda t: t.weight / 2``."""

    def __getitem__(self, name: str) -> Expression:
        return col(name)

    def __getattr__(self, name: str) -> Expression:
        return col(name)


def _refuse_unknown_columns(names: Sequence[str], argument: str, keys: Iterable[str]) -> None:
    there = {*names}
    for name in keys:
        if name not in there:
            raise SchemaError(
                f"{argument} names a column {name!r} that the table lacks.",
                f"The table's columns are {list(names)!r}.",
            )


def _redeclared_column(before: Column, bounds: object, categories: object, missing: object) -> Column:
    """Return a column with new declarations; bounds that are not declared again are kept."""
    name = before.name
    domain = None if categories is None else distinct_categories(f"categories[{name!r}]", categories)
    find, limits, beyond = before.find, before.bounds, before.beyond
    if isinstance(bounds, str) and bounds == "find":
        find = True
    elif bounds is not None:
        find, limits = False, bounds_of(name, bounds)
        beyond = bounds.beyond if isinstance(bounds, FoundPair) else None
    if find and domain and all(isinstance(each, str) and math.isnan(read_number(each)) for each in domain):
        raise SchemaError(
            f"Column {name!r} has categories that are no numbers, so it has no bounds to find.",
            f"Leave it out of bounds=; value_counts({name!r}) counts its categories.",
        )
    other = domain is not None and isinstance(missing, str) and missing == OTHER
    fill = None
    if other:
        domain = (*(c for c in domain or () if c != OTHER), OTHER)
    elif missing is not None:
        if limits is None and not find:
            raise SchemaError(
                f"missing[{name!r}]{quoted(missing)} cannot be used.",
                f'A column with bounds takes a number, a column with categories takes "{OTHER}".',
            )
        fill = as_number(missing, f"missing[{name!r}]")
        if limits is not None and not limits[0] <= fill <= limits[1]:
            raise SchemaError(
                f"missing[{name!r}] = {fill:g} lies outside the bounds {list(limits)!r}.",
                "Choose a value within the bounds.",
            )
    filled = missing is not None
    said: dict[str, Any] = {"bounds": limits, "categories": domain, "fill": fill, "other": other}
    return replace(before, **said, filled=filled, find=find, beyond=beyond)


def _read_column_names(argument: str, names: object) -> tuple[str, ...]:
    if (
        isinstance(names, str | range)
        or not isinstance(names, Sequence)
        or not all(isinstance(n, str) for n in names)
    ):
        raise SchemaError(f"{argument}= takes a list of column names.", f"For example {argument}=['arm'].")
    return tuple(names)


def _read_mapping(argument: str, declared: object) -> Mapping[str, Any]:
    if declared is None:
        return {}
    if not isinstance(declared, Mapping):
        raise SchemaError(f"{argument}= takes a dictionary by column name, not {type(declared).__name__}.")
    return declared
