"""A question as text, by which the ledger knows it again."""

from __future__ import annotations

import hashlib
import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._json import plain_json
from dfprivacy._privacy import samplers as noises
from dfprivacy.release import Release
from dfprivacy.schema import Column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy._measure.evaluate import Table
    from dfprivacy.mechanism import Mechanism

__all__ = ["columns_among", "written"]

_TEXT_MAX = 1024  # characters of an argument that are kept as they are


def written(
    table: Table,
    mechanism: Mechanism,
    arguments: Mapping[str, Any],
    resolved: Mapping[str, Any],
    by: Sequence[Column],
    price: Sequence[str | None],
    seen: Sequence[Column],
) -> str | None:
    """Write a question down, with all that is public and could change its answer; None if it cannot be.

    What the mechanism looked at beyond what the question names, `seen`, is part of it.
    """
    conditions = [condition.describe() for condition in table.conditions]
    named = [value for name in mechanism.columns for value in columns_among(resolved[name])]
    named += by
    if None in conditions:
        return None
    try:
        return plain_json(
            {
                "mechanism": mechanism.name,
                "origin": mechanism.origin,
                "arguments": {name: _brief(_same(value)) for name, value in arguments.items()},
                "price": price,
                **(
                    {"tables": [_of_which_rows(part, named) for part in table.parts]}
                    if table.parts
                    else _of_which_rows(table, named)
                ),
                "group_by": _names(by),
                "neighbors": table.schema.neighbors,
                **({"seen": {column.name: column.describe() for column in seen}} if seen else {}),
                "sampler": noises.sampler().name,
            }
        )
    except (TypeError, OverflowError):
        return None


def _names(by: Sequence[Column]) -> str | list[str] | None:
    names = [column.name for column in by]
    return names if len(names) > 1 else next(iter(names), None)


def _of_which_rows(table: Table, named: Sequence[Column]) -> dict[str, Any]:
    selected = [column for condition in table.conditions for column in condition.columns]
    columns = {column.name: column.describe() for column in (*selected, *named)}
    otherwise = any(columns[column.name] != column.describe() for column in selected)  # they were declared then
    return {
        "where": [condition.describe() for condition in table.conditions],
        "columns": columns,
        **({"selected": [[column.name, column.describe()] for column in selected]} if otherwise else {}),
        "rows": table.schema.size,
        **_of_whom(table),
    }


def _of_whom(table: Table) -> dict[str, Any]:
    """Return whose the rows are and what chooses a person's, where one may have several; and how they were made."""
    unit, derived = table.schema.unit, table.schema.derived
    facts: dict[str, Any] = {}
    if unit is not None:
        facts = {"unit": [unit.column, unit.max_rows, unit.missing], "chosen": table.chosen}
    return facts if derived is None else {**facts, "derived": derived}


def _same(value: Any) -> Any:
    """Write a whole number as an integer, for 30 and 30.0 ask the same, and a release as its digest."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Fraction | Decimal) and math.isfinite(value):
        value = float(value) if Fraction(value) == float(value) else Fraction(value)
    if isinstance(value, Release):  # it may be as long as a table, and what was paid for it changes when replayed
        return {"sha256": _digest(plain_json({"type": type(value).__qualname__, **value.result}))}
    if isinstance(value, range):  # as long as it may be, it is three numbers
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, list | tuple):
        items = [_same(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _brief(value: Any) -> Any:
    """Write what is long, such as a key for each row, as its digest."""
    text = plain_json(value)
    return {"sha256": _digest(text)} if len(text) > _TEXT_MAX else value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def columns_among(value: Any) -> Sequence[Column]:
    """Return the columns among what a parameter that names columns was given."""
    return [each for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, Column)]
