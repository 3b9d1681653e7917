"""What a measurement is of, in canonical words, by which the ledger knows it again.

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
from functools import cache, cached_property, lru_cache
from importlib.metadata import version
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dfprivacy._table.conditions import IsIn
from dfprivacy.features import Count, Given, OneHot, RowFeatures, Stack
from dfprivacy.features.frozen import FROZEN
from dfprivacy.schema import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._measure.evaluate import Table
    from dfprivacy._measure.query import Query
    from dfprivacy._table.conditions import Condition
    from dfprivacy.schema import Schema

__all__ = ["Origins", "canonical_order", "describe", "describe_query", "larger"]

T = TypeVar("T")

_FEW = 3  # conditions, of which any order is tried
_LONG = 1024  # characters, beyond which a digest stands for a value
_HOUSE = "dfprivacy"
_NO_PLUGINS = frozenset({_HOUSE, "builtins", "abc", "typing"})
_WORKED_OUT = {  # attributes of the house's own classes that follow from others, or that no number follows from
    "dfprivacy.schema:Column": frozenset({"find", "beyond"}),
    "dfprivacy.features.base:_Enforced": frozenset({"_diameter", "_unit"}),
    "dfprivacy.features.onehot:OneHot": frozenset({"groups", "columns", "shape", "weights", "_codes", "_place"}),
}


class _UndescribedError(Exception):
    """Something cannot be written down."""


class Origins(dict[str, str]):
    """Distribution and version of each package, dfprivacy among them, for the descriptions of one call.

    Parameters
    ----------
    origins : mapping of str to str
        Those of the packages with plugins.

    Attributes
    ----------
    texts : dict
        What was written of columns, conditions and schemas, by their identity: the groups of a call share them.
    """

    def __init__(self, origins: Mapping[str, str]) -> None:
        super().__init__({_HOUSE: f"{_HOUSE} {_version()}", **origins})
        self.texts: dict[int, tuple[object, str]] = {}
        self._kinds: dict[type, str | None] = {}

    def kind(self, kind: type) -> str | None:
        """Name an installed class and its distribution, None for any other."""
        if kind not in self._kinds:
            origin = self.get(kind.__module__.partition(".")[0])
            named = getattr(sys.modules.get(kind.__module__), kind.__qualname__, None)
            known = origin is not None and named is kind and not _slotted(kind)
            self._kinds[kind] = f"{kind.__module__}:{kind.__qualname__}, {origin}" if known else None
        return self._kinds[kind]

    def once(self, value: T, write: Callable[[T, Origins], str]) -> str:
        """Write an object that many descriptions have in common."""
        if id(value) not in self.texts:
            self.texts[id(value)] = value, write(value, self)  # which keeps the identity taken
        return self.texts[id(value)][1]


@lru_cache(maxsize=1024)
def _slotted(kind: type) -> bool:
    """Whether a class has attributes that `vars` does not show."""
    return any(vars(each).get("__slots__") for each in kind.__mro__)


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
        return None if what is None else f'{what[:-1]},"rows":{_rows(table, known)}}}'
    except (_UndescribedError, RecursionError):
        return None


def describe_query(query: Query, known: Origins) -> str | None:
    """Describe what is measured alone; None if it cannot be written down."""
    parts = {"what": query.of, "columns": query.columns, "shape": query.shape, "features": query.features}
    try:
        claims = {name: _text(value, known) for name, value in parts.items()}
        claims["weights"] = _text(query.of.weights, known)
        if query.reveal is not None:
            claims["reveal"] = _text(query.reveal, known)
        return _members(claims)
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


def _rows(table: Table, known: Origins) -> str:
    """Describe which rows of which tables."""
    if table.parts:
        both = []
        for part in table.parts:
            column, code = part.mark or (None, 0)
            both += [_text(column, known), _text(code, known), _rows(part, known)]
        return _items(both)
    where = {known.once(condition, _condition) for condition in table.conditions}
    rows = {"where": _items(sorted(where)), "table": known.once(table.schema, _table)}
    chosen = {"chosen": _brief(_items(_text(column, known) for column in table.known))} if table.known else {}
    return _members({**rows, **chosen})


def _condition(condition: Condition, known: Origins) -> str:
    if condition.describe() is None:
        raise _UndescribedError
    return _text(condition, known)


def _table(schema: Schema, known: Origins) -> str:
    """Describe the whole table, but for its columns."""
    facts = [f.name for f in fields(schema) if f.compare and f.name not in {"names", "columns"}]
    values = {name: getattr(schema, name) for name in facts}
    # What tables of one row a person have not is not written, so that what was kept of them before is found again.
    return _text({name: value for name, value in values.items() if value is not None or name == "size"}, known)


def _text(value: object, known: Origins) -> str:
    """Write a value as JSON, with its type where that matters, or its digest where that is long."""
    kind = type(value)
    if kind is float or kind is int:
        return repr(value)
    text = _WRITERS.get(kind, _other)(value, known)
    return text if len(text) <= _LONG else _brief(text)


def _brief(text: str) -> str:
    """Put the digest of a text in its place if it is long."""
    return text if len(text) <= _LONG else _members({"sha256": _quoted(_digest(text.encode()))})


def _column(value: Column, known: Origins) -> str:
    return _brief(_object(value, known))


def _number(value: Fraction | Decimal, _: Origins) -> str:
    return _members({type(value).__name__: _quoted(str(value))})


def _sequence(value: Sequence[object], known: Origins) -> str:
    return f'{{"{type(value).__name__}":[{",".join([_text(item, known) for item in value])}]}}'


def _pairs(value: Mapping[object, object], known: Origins) -> str:
    return _members({"dict": _items([_text(item, known) for pair in value.items() for item in pair])})


def _set(value: Iterable[object], known: Origins) -> str:
    return _members({"set": _items(sorted(_text(item, known) for item in value))})


def _array(value: NDArray[Any], known: Origins) -> str:
    if value.dtype.kind not in "biufSU":
        return _object(value, known)
    shape, data = ",".join(map(repr, value.shape)), _digest(value.tobytes())  # in the order of its coordinates
    return f'{{"{value.dtype.str}":{{"tuple":[{shape}]}},"sha256":"{data}"}}'


def _other(value: Any, known: Origins) -> str:
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return _members({value.dtype.str: repr(value.item())})
    return _object(value, known)


def _object(value: Any, known: Origins) -> str:
    """Write an object of an installed class, by its attributes."""
    kind = type(value)
    name = known.kind(kind)
    if name is None or not hasattr(value, "__dict__"):
        raise _UndescribedError
    had = {**_of_class(kind), **vars(value)}
    attributes = [f"{head}{_text(had[each], known)}" for each, head in _described(kind, tuple(had))]  # type: ignore[arg-type]
    if kind is OneHot:
        attributes.append(f'"groups":{_text(sorted(value.by.codes(value.groups)), known)}')
    return f"{{{_quoted(name)}:{{{','.join(attributes)}}}}}"


def _of_class(kind: type) -> dict[str, object]:
    """Give the attributes of a plugin's classes that are no code: whoever sets one measures something else."""
    bases = (base for base in reversed(kind.__mro__) if base.__module__.partition(".")[0] not in _NO_PLUGINS)
    return {name: value for base in bases for name, value in vars(base).items() if not _is_code(name, value)}


def _is_code(name: str, value: object) -> bool:
    return name.startswith("__") or name == "_abc_impl" or callable(value) or hasattr(type(value), "__get__")


@lru_cache(maxsize=1024)
def _described(kind: type, attributes: tuple[str, ...]) -> list[tuple[str, str]]:
    """Give the attributes that are written, in order, each with how it begins."""
    later = _WORKED_OUT.get(f"{kind.__module__}:{kind.__qualname__}", frozenset())
    return [
        (each, f"{_quoted(each)}:")
        for each in sorted(attributes)
        if each not in later and each != FROZEN and not isinstance(getattr(kind, each, None), cached_property)
    ]


def _items(texts: Iterable[str]) -> str:
    return f"[{','.join(texts)}]"


def _members(texts: Mapping[str, str]) -> str:
    return "{" + ",".join([f"{_quoted(name)}:{text}" for name, text in texts.items()]) + "}"


_quoted = json.encoder.encode_basestring_ascii

_WRITERS: dict[type, Callable[[Any, Origins], str]] = {  # of a value, by its class; those of a subclass are others
    NoneType: lambda *_: "null",
    bool: lambda value, _: "true" if value else "false",
    str: lambda value, _: _quoted(value),
    Column: lambda value, known: known.once(value, _column),
    **dict.fromkeys((Fraction, Decimal), _number),
    **dict.fromkeys((tuple, list), _sequence),
    dict: _pairs,
    **dict.fromkeys((set, frozenset), _set),
    np.ndarray: _array,
}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@cache
def _version() -> str:
    return version(_HOUSE)
