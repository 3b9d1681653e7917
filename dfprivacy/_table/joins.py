"""Joins of two tables of the same people, on the column that names people in both.

A person's rows of a join are made of this person's rows in both tables, and of nothing else. So the join is a table
of people with several rows, of whom a limited number counts: docs/howto/joins.md has the proof.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from dfprivacy._json import plain_json
from dfprivacy._table.batch import frame_reads, number
from dfprivacy._table.declare import ROWS_OF_ONE
from dfprivacy._table.rows import Join
from dfprivacy.errors import ArgumentError, SchemaError, quoted
from dfprivacy.expressions import ComputedColumn
from dfprivacy.schema import Unit, as_integer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dfprivacy._table.rows import Rows
    from dfprivacy.schema import Column, Schema

__all__ = ["read_join"]


def read_join(left: Rows, right: Rows, on: object, how: object, max_rows: object, account: str) -> Join:
    """Check the arguments of `PrivateFrame.join`, and return the join of two tables of one privacy account.

    Parameters
    ----------
    left, right : Rows
        The tables.
    on, how, max_rows
        As for `PrivateFrame.join`.
    account : str
        The account's name, which is that of its own table.

    Returns
    -------
    Join
        The join.

    Raises
    ------
    ArgumentError, SchemaError
        If the tables cannot be joined so.
    """
    if not isinstance(how, str) or how not in ("left", "inner"):
        raise ArgumentError(f"how{quoted(how)} is unknown.", 'Use "left" or "inner".')
    if not isinstance(on, str):
        raise SchemaError(
            f"on= takes the name of a column, not {type(on).__name__}.", "For example on='patient_id'."
        )
    limits = [_max_rows_per_person(each, on) for each in (left, right)]
    if right.conditions:
        raise ArgumentError(
            "The right view selects some rows, but join() takes the whole table.",
            "Join the whole table, and select rows of the join: view.join(...).where(...).",
        )
    kinds = [each.required_frame.identifier_kind(on) for each in (left, right)]
    if "" in kinds:
        raise SchemaError(
            f"on={on!r} must be a column of integers or text in both tables.",
            "Floats are rounded, so that two people could get one identifier: cast the column to integers or text.",
        )
    if kinds[0] != kinds[1]:
        raise SchemaError(
            f"on={on!r} holds {kinds[0]} in one table and {kinds[1]} in the other, so people cannot be matched.",
            "Cast one of the two columns, and protect its table again.",
        )
    most = limits[0] * limits[1]
    if max_rows is not None:
        most = as_integer(max_rows, "max_rows", 1, min(most, ROWS_OF_ONE))
    elif most > ROWS_OF_ONE:
        raise ArgumentError(
            f"One person may have {most} rows in the join, and at most {ROWS_OF_ONE} can count.",
            "Set max_rows= to the largest number of joined rows per person that count.",
        )
    return _make_join(left, right, on, "left" if how == "left" else "inner", Unit(on, most), account)


def _max_rows_per_person(table: Rows, on: str) -> int:
    """Return the declared most rows per person of a table; raise an error if the table cannot be joined."""
    schema = table.schema
    if schema.derived is not None:
        raise ArgumentError(
            "A sample, or a table that per() aggregated to one row per person, cannot be joined.",
            "Join the whole tables, and call sample() or per() on the join.",
        )
    unit = schema.unit
    if unit is None:
        if on not in table.required_frame.columns:
            raise SchemaError(
                f"One of the tables has no column {on!r}.", f"Its columns are {list(schema.names)!r}."
            )
        return 1
    if on != unit.column:
        raise ArgumentError(
            f"One of the tables identifies people by column {unit.column!r}, not by {on!r}.",
            f"Join on the column that identifies people in both tables: on={unit.column!r}. To add columns of a "
            "public table, matched on any column, use lookup().",
        )
    if unit.missing == "own":
        raise ArgumentError(
            "One of the tables counts each row without a person as a separate person (unit_missing='own'), and a "
            "join cannot match such rows.",
            "Protect that table with unit_missing='omit', under another name.",
        )
    return unit.max_rows


def _make_join(left: Rows, right: Rows, on: str, how: Literal["left", "inner"], unit: Unit, account: str) -> Join:
    """Return the join with the columns of both tables; a declared column replaces an undeclared namesake."""
    declared = [{n: c for n, c in each.schema.columns.items() if n != on} for each in (left, right)]
    needed = [
        _names_read_from_frame(columns.values(), each)
        for columns, each in zip(declared, (left, right), strict=True)
    ]
    taken = [
        {_case_key(name) for name in {*columns, *raw} - {on}} for columns, raw in zip(declared, needed, strict=True)
    ]
    clash = sorted((taken[0] & taken[1]) | ({_case_key(on)} & (taken[0] | taken[1])))
    if clash:
        raise SchemaError(
            f"Both tables have a column {clash[0]!r}.",
            "Leave it out of one of them: visits.join(persons.select('age', 'sex'), on='patient_id').",
        )
    own = [name for name in left.schema.names if name == on or _case_key(name) not in taken[1] | {_case_key(on)}]
    own = own if on in own else [on, *own]
    others = [name for name in right.schema.names if _case_key(name) not in taken[0] | {*map(_case_key, own)}]
    columns = {**declared[0], **declared[1]}
    frames = left.required_frame.columns, right.required_frame.columns
    read = (
        tuple(name for name in frames[0] if name in own or name in needed[0]),
        tuple(name for name in frames[1] if name != on and (name in others or name in needed[1])),
    )
    which = {
        "join": [_identity(each.schema, account) for each in (left, right)],
        "on": on,
        "how": how,
        "max_rows": [each.schema.unit and each.schema.unit.max_rows for each in (left, right)],
        # Of a name that both frames have, whose values these are.
        "others": sorted({*read[1]} & {*frames[0]}),
    }
    schema = replace(
        left.schema,
        names=(*own, *others),
        columns={n: replace(columns[n], public=False) for n in (*own, *others) if n in columns},
        size=None,
        unit=unit,
        people=None,
        table=plain_json(which),
        words={**right.schema.words, **left.schema.words},
        person=on,
    )
    return Join(on, how, *read, schema)


def _names_read_from_frame(columns: Iterable[Column], table: Rows) -> set[str]:
    """Return the names of the frame's columns that computed columns and the table's conditions read."""
    computed = (number(column) for column in columns if isinstance(column, ComputedColumn))
    return {read.name for read in frame_reads([*computed, *(read for c in table.conditions for read in c.reads)])}


def _case_key(name: str) -> str:
    """Return a column name in lower case, as engines that ignore case compare it."""
    return name.casefold()


def _identity(schema: Schema, account: str) -> Any:
    return [account, ""] if schema.table is None else json.loads(schema.table)
