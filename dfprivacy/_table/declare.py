"""What the caller says of a table, checked against the names of its columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._table.frames import redact_errors
from dfprivacy.errors import SchemaError, quoted
from dfprivacy.schema import OTHER, Category, Column, Schema, as_number, category_key

if TYPE_CHECKING:
    from dfprivacy._table.frames import Frame

__all__ = ["declared", "read_schema"]


def read_schema(
    frame: Frame,
    *,
    bounds: Mapping[str, tuple[Any, Any]] | None,
    categories: Mapping[str, Sequence[Category]] | None,
    public: Sequence[str],
    missing: Mapping[str, Any] | None,
    neighbors: str,
) -> Schema:
    """Check what the user says of a table against its column names.

    Raises
    ------
    SchemaError
        If anything said cannot be used. Neither a value nor the type of a column is looked at.
    """
    names = frame.columns
    doubles = sorted(name for name, times in Counter(names).items() if times > 1)
    if doubles:
        raise SchemaError(f"Columns {doubles!r} appear more than once.", "Give every column its own name.")
    if neighbors not in ("replace_one", "add_remove"):
        raise SchemaError(f"neighbors={neighbors!r} is unknown.", 'Use "replace_one" or "add_remove".')
    public = _names("public", public)
    if public and neighbors == "add_remove":
        raise SchemaError(
            "public columns need neighbors='replace_one': tables that differ by a row do not agree on any column.",
            "Leave out public=, or protect the content of rows instead of their presence.",
        )
    said = _said(names, bounds=bounds, categories=categories, missing=missing)
    _known(names, "public", public)
    columns = {}
    for name in names:
        column = _column(
            name,
            said["bounds"].get(name),
            said["categories"].get(name),
            said["missing"].get(name),
            public=name in public,
        )
        if column != Column(name):
            columns[name] = column
    size = None if neighbors == "add_remove" else redact_errors(frame.rows)
    if size is not None and size < 1:
        raise SchemaError("The table has no rows.", "Protect a table with at least one row.")
    return Schema(names, columns, "add_remove" if neighbors == "add_remove" else "replace_one", size)


def declared(
    schema: Schema,
    *,
    bounds: Mapping[str, tuple[Any, Any]] | None,
    categories: Mapping[str, Sequence[Category]] | None,
    missing: Mapping[str, Any] | None,
) -> Schema:
    """Say more of some columns of a schema, or something else; what is public and how many rows there are stays.

    Raises
    ------
    SchemaError
        As for `read_schema`.
    """
    said = _said(schema.names, bounds=bounds, categories=categories, missing=missing)
    columns = dict(schema.columns)
    for name in dict.fromkeys(name for each in said.values() for name in each):
        before = columns.get(name, Column(name))
        counts_as = (OTHER if before.other else before.fill) if before.filled else None
        columns[name] = _column(
            name,
            said["bounds"].get(name, before.bounds),
            said["categories"].get(name, before.categories),
            said["missing"].get(name, counts_as),
            public=before.public,
        )
    return replace(schema, columns={name: columns[name] for name in schema.names if name in columns})


def _said(names: Sequence[str], **arguments: object) -> dict[str, Mapping[str, Any]]:
    """Read what is said by column."""
    said = {argument: _mapping(argument, given) for argument, given in arguments.items()}
    for argument, keys in said.items():
        _known(names, argument, keys)
    return said


def _known(names: Sequence[str], argument: str, keys: Iterable[str]) -> None:
    for name in keys:
        if name not in names:
            raise SchemaError(
                f"{argument} names a column {name!r} that is not there.", f"The columns are {list(names)!r}."
            )


def _column(name: str, bounds: object, categories: object, missing: object, *, public: bool) -> Column:
    limits = None if bounds is None else _bounds(name, bounds)
    domain = None if categories is None else _categories(name, categories)
    fill = None
    if limits is not None:
        fill = limits[0] / 2 + limits[1] / 2
    other = domain is not None and missing == OTHER
    if other:
        domain = (*(c for c in domain or () if c != OTHER), OTHER)
    elif missing is not None:
        if limits is None:
            raise SchemaError(
                f"missing[{name!r}] = {missing!r} cannot be used.",
                f'A column with bounds takes a number, a column with categories takes "{OTHER}".',
            )
        fill = as_number(missing, f"missing[{name!r}]")
        if not limits[0] <= fill <= limits[1]:
            raise SchemaError(
                f"missing[{name!r}] = {missing!r} lies outside the bounds {list(limits)!r}.",
                "Choose a value within.",
            )
    return Column(name, limits, domain, fill, other, public, filled=missing is not None)


def _names(argument: str, names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise SchemaError(f"{argument}= takes a list of column names.", f"For example {argument}=['arm'].")
    return tuple(names)


def _mapping(argument: str, said: object) -> Mapping[str, Any]:
    if said is None:
        return {}
    if not isinstance(said, Mapping):
        raise SchemaError(
            f"{argument}= takes a dictionary by column name, not {type(said).__name__}.",
        )
    return said


def _bounds(name: str, bounds: object) -> tuple[float, float]:
    if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:  # noqa: PLR2004
        raise SchemaError(f"bounds[{name!r}] must be a pair (low, high).")
    low, high = (as_number(bound, f"bounds[{name!r}]") for bound in bounds)
    if not low < high:
        raise SchemaError(
            f"bounds[{name!r}] = {tuple(bounds)!r} are equal or reversed.", "Give (low, high) with low < high."
        )
    if not math.isfinite(high - low) or (high - low) / 2 < 1e-300:  # noqa: PLR2004 - or 1/half overflows
        raise SchemaError(
            f"bounds[{name!r}] = {tuple(bounds)!r} are too far apart or too close for float64.",
            "Narrow or widen them.",
        )
    return low, high


def _categories(name: str, categories: object) -> tuple[Category, ...]:
    if isinstance(categories, str) or not isinstance(categories, Sequence | range | np.ndarray):
        raise SchemaError(f"categories[{name!r}] must be a list of values.")
    domain: list[Category] = []
    for item in categories:
        value = item.item() if isinstance(item, np.generic) else item
        if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise SchemaError(
                f"categories[{name!r}] may hold strings and finite numbers; found one{quoted(value)}.",
                "Missing values are in no category, or in one of their own: missing={...: 'other'}.",
            )
        if not isinstance(value, str):
            as_number(value, f"categories[{name!r}]")
        domain.append(value)
    keys = [category_key(value) for value in domain]
    if not domain or len(set(keys)) < len(keys):
        raise SchemaError(f"categories[{name!r}] must be at least one value, each once.")
    return tuple(domain)
