"""Canonical descriptions of measurements, by which the ledger knows them again.

Two measurements of one description are of the same number: everything that the exact value follows from is in it,
and all of that is public. The noise is no part of it. Where something cannot be written down there is no
description, and what was measured is never taken for anything else.

=================== ==============================================================================================
part                what is written
=================== ==============================================================================================
what                the class of the features or the statistic, the distribution and version that it comes from,
                    and every attribute of the object, those of columns, kernels and other features included, and
                    of a plugin's class;
                    the rule by which a part of it is shown, if not all is
which rows          the conditions, in any order, with the columns that they look at as they were declared; the
                    number of rows and all else that the schema says of the whole table; the columns by which
                    the rows of people with too many are chosen; both of two tables
=================== ==============================================================================================
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._table.conditions import IsIn
from dfprivacy.features import Count, Given, OneHot, RowFeatures, Stack
from dfprivacy.features.base import FROZEN
from dfprivacy.features.composed import Composed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from dfprivacy._measure.evaluate import Table
    from dfprivacy._measure.query import Query

__all__ = ["Origins", "canonical_order", "describe", "describe_query", "larger"]

_FEW = 3  # conditions, of which any order is tried
_LONG = 1024  # characters, beyond which a digest stands for a value
_HOUSE = "dfprivacy"
_NO_PLUGINS = frozenset({_HOUSE, "builtins", "abc", "typing"})
_WORKED_OUT = {  # attributes of the house's own classes that follow from others, or that no number follows from
    "dfprivacy.schema:Column": frozenset({"find", "beyond"}),
    "dfprivacy.features.base:_Enforced": frozenset({"_diameter", "_unit"}),
    "dfprivacy.features.composed:OneHot": frozenset(
        {"groups", "columns", "shape", "weights", "_codes", "_of", "_place"}
    ),
}


_OF_OTHERS = frozenset({"inner", "portable", "stacked", "threaded"})  # what features made of others have of these


class _UndescribedError(Exception):
    """Something cannot be written down."""


class Origins(dict[str, str]):
    """Distribution and version of each package, dfprivacy among them, for the descriptions of one call.

    Parameters
    ----------
    origins : mapping of str to str
        Those of the packages with plugins.
    """

    def __init__(self, origins: Mapping[str, str]) -> None:
        super().__init__({_HOUSE: f"{_HOUSE} {version(_HOUSE)}", **origins})
        self._texts: dict[int, tuple[object, str]] = {}

    def kind(self, kind: type) -> str:
        """Name an installed class and its distribution; an error for any other, or one with hidden attributes."""
        origin = self.get(kind.__module__.partition(".")[0])
        named = getattr(sys.modules.get(kind.__module__), kind.__qualname__, None)
        if origin is None or named is not kind or any(vars(each).get("__slots__") for each in kind.__mro__):
            raise _UndescribedError
        return f"{kind.__module__}:{kind.__qualname__}, {origin}"

    def once(self, value: object, write: Callable[[], object]) -> str:
        """Write what the groups of a call have in common, by its identity."""
        if id(value) not in self._texts:
            self._texts[id(value)] = value, json.dumps(write())  # which keeps the identity taken
        return self._texts[id(value)][1]


def describe(what: str | Query | None, table: Table, known: Origins) -> str | None:
    """Describe what is measured, and of which rows.

    Parameters
    ----------
    what : str, Query or None
        What is measured, or its description.
    table : Table
        The table, with a view's conditions.
    known : Origins
        Where classes come from.

    Returns
    -------
    str or None
        One line of JSON; None if it cannot be written down: a Python function among the conditions or the
        attributes, an object of a class that is not installed, or of one with attributes of unknown kinds.
    """
    what = what if what is None or isinstance(what, str) else describe_query(what, known)
    try:
        return None if what is None else f'{what[:-1]}, "rows": {json.dumps(_rows(table, known))}}}'
    except (_UndescribedError, RecursionError):
        return None


def describe_query(query: Query, known: Origins) -> str | None:
    """Describe what is measured alone; None if it cannot be written down."""
    claims: dict[str, Any] = {
        "what": query.of,
        "columns": query.columns,
        "shape": query.shape,
        "features": query.features,
    }
    claims |= {"weights": query.of.weights} | ({} if query.reveal is None else {"reveal": query.reveal})
    try:
        return json.dumps({name: _plain(value, known) for name, value in claims.items()})
    except (_UndescribedError, RecursionError):
        return None


def canonical_order(features: object) -> NDArray[np.intp] | None:
    """Find the order in which coordinates are kept, which does not depend on that of a `OneHot`'s groups.

    Parameters
    ----------
    features : RowFeatures or Statistic
        What is measured.

    Returns
    -------
    ndarray of shape (d,) or None
        ``values[order]`` are in canonical order; None where they are as they come.
    """
    match features:
        case OneHot():
            of = canonical_order(features.of)
            width = 1 if features.of is None else features.of.dimension
            first = np.argsort(features.by.codes(features.groups))
            return (first[:, None] * width + (np.arange(width) if of is None else of)).ravel()
        case Given():
            order = canonical_order(features.of)
            tallied = features.tally is not None  # as the last coordinate
            return order if order is None or not tallied else np.append(order, len(order))
        case Stack():
            orders, start = [], 0
            for each in features.features:
                order = canonical_order(each)
                orders.append(start + (np.arange(each.dimension) if order is None else order))
                start += each.dimension
            return np.concatenate(orders)
    return None


def larger(features: RowFeatures, table: Table) -> Iterator[tuple[RowFeatures, Table, NDArray[np.intp]]]:
    """Return the features, and the rows, of whose sums those that are asked are a part.

    Parameters
    ----------
    features : RowFeatures
        What is asked.
    table : Table
        Of which rows.

    Yields
    ------
    tuple
        Other features, of the same rows or more; and the places of what is asked among their coordinates: of some
        categories among all, of two columns in the other order, and of rows in one category among the same of all.
    """
    places = np.arange(features.dimension)
    if isinstance(features, OneHot):
        many, inner = len(features.groups), features.of
        if many < len(features.by.categories or ()):
            codes = features.by.codes(features.groups)
            blocks = np.arange(features.dimension // many) + features.dimension // many * np.array(codes)[:, None]
            yield OneHot(features.by, of=inner), table, blocks.ravel()
        if isinstance(inner, OneHot):
            turned = OneHot(
                inner.by, groups=inner.groups, of=OneHot(features.by, groups=features.groups, of=inner.of)
            )
            yield turned, table, np.moveaxis(places.reshape(turned.shape), 1, 0).ravel()
    for condition in table.conditions if len(table.conditions) <= _FEW else ():
        if (
            isinstance(condition, IsIn)
            and len(condition.categories) == 1
            and condition.column not in features.columns
        ):
            (code,) = condition.column.codes(condition.categories)
            every = OneHot(condition.column, of=None if isinstance(features, Count) else features)
            rest, own = table.without(condition), code * features.dimension + places
            yield every, rest, own
            for larger_still, rows, at in larger(every, rest):
                yield larger_still, rows, at[own]


def _rows(table: Table, known: Origins) -> object:
    """Describe which rows of which tables."""
    if table.parts:
        return [[_plain(part.mark, known), _rows(part, known)] for part in table.parts]
    if any(condition.describe() is None for condition in table.conditions):
        raise _UndescribedError
    where = {known.once(each, lambda each=each: _plain(each, known)) for each in table.conditions}  # type: ignore[misc]
    schema, names = table.schema, [f.name for f in fields(table.schema) if f.compare]
    facts = {name: getattr(schema, name) for name in names if name not in {"names", "columns"}}
    # What tables of one row a person have not is not written, so that what was kept of them before is found again.
    facts = {name: value for name, value in facts.items() if value is not None or name == "size"}
    chosen = [_plain(column, known) for column in table.known]
    return {"where": sorted(where), "table": _plain(facts, known), **({"chosen": chosen} if chosen else {})}


def _plain(value: Any, known: Origins) -> Any:
    """Write a value as JSON, with its type where that matters, or its digest where that is long."""
    kind = type(value)
    if value is None or kind in {bool, int, float}:
        return value
    if kind is str:
        return value if len(value) <= _LONG else {"sha256": _digest(value.encode())}
    name = kind.__name__
    if kind in {tuple, list}:
        written: Any = {name: [_plain(item, known) for item in value]}
    elif kind in {set, frozenset}:
        written = {"set": sorted(json.dumps(_plain(item, known)) for item in value)}
    elif kind is dict:
        written = {"dict": [[_plain(each, known) for each in pair] for pair in value.items()]}
    elif kind in {Fraction, Decimal}:
        written = {name: str(value)}
    elif kind is np.ndarray and value.dtype.kind in "biufSU":
        written = {
            value.dtype.str: list(value.shape),
            "sha256": _digest(value.tobytes()),
        }
    elif isinstance(value, np.generic) and value.dtype.kind in "biuf":
        written = {value.dtype.str: repr(value.item())}
    else:
        return _object(value, known)
    text = json.dumps(written)
    return written if len(text) <= _LONG else {"sha256": _digest(text.encode())}


def _object(value: Any, known: Origins) -> dict[str, Any]:
    """Write an object of an installed class, by its attributes and those of a plugin's classes that are no code."""
    kind = type(value)
    name = known.kind(kind)
    if not hasattr(value, "__dict__"):
        raise _UndescribedError
    bases = [each for each in reversed(kind.__mro__) if each.__module__.partition(".")[0] not in _NO_PLUGINS]
    had = {of: each for base in bases for of, each in vars(base).items() if not _is_code(of, each)} | vars(value)
    later = _WORKED_OUT.get(f"{kind.__module__}:{kind.__qualname__}", frozenset())
    later = later | _OF_OTHERS if isinstance(value, Composed) else later
    attributes = {
        of: _plain(had[of], known)
        for of in sorted(had)
        if of not in later and of != FROZEN and not isinstance(getattr(kind, of, None), cached_property)
    }
    if kind is OneHot:
        attributes["groups"] = sorted(value.by.codes(value.groups))
    return {name: attributes}


def _is_code(name: str, value: object) -> bool:
    return name.startswith("__") or name == "_abc_impl" or callable(value) or hasattr(type(value), "__get__")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
