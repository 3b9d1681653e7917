"""Kept measurements: taken from the ledger in place of measuring, and left there for others, by descriptions.

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
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._ledger.tables import MOST, KeptMeasurement, Measurement, digest
from dfprivacy._measure.query import Query
from dfprivacy._privacy import samplers as noises
from dfprivacy._table.conditions import IsIn
from dfprivacy.errors import LedgerError
from dfprivacy.features import Count, OneHot, RowFeatures
from dfprivacy.features.base import FROZEN
from dfprivacy.features.composed import Composed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._ledger.accounts import Account, JointAccount
    from dfprivacy._measure.evaluate import Table
    from dfprivacy._measure.query import Price
    from dfprivacy._measure.steps import Asked
    from dfprivacy.release import MeasurementRecord

__all__ = ["Kept", "Origins", "Taken", "describe", "larger", "placed"]

_FEW = 3  # conditions, of which any order is tried
_LONG = 1024  # characters, beyond which a digest stands for a value
_HOUSE = "dfprivacy"
_version = cache(version)  # which reads the metadata anew each time: a tenth of what a question of few rows takes
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


@dataclass(frozen=True)
class Taken:
    """The answer to a measurement: noisy whole numbers, the record of their noise, and an id."""

    steps: NDArray[np.int64]
    record: MeasurementRecord
    id: str


@dataclass(frozen=True)
class Part:
    """A kept measurement, or a part of one.

    Attributes
    ----------
    kept : KeptMeasurement
        What was measured.
    description : str
        Its description.
    dimension : int
        The number of its coordinates.
    places : ndarray of int
        Which of them, as they are kept.
    """

    kept: KeptMeasurement
    description: str
    dimension: int
    places: NDArray[np.intp]


class Kept:
    """The measurements that an account keeps, as one call sees them.

    A mechanism that measures the same twice wants two draws of noise: in one call no kept measurement is taken
    twice, and none that the call has made itself, for those are kept when it ends.

    Parameters
    ----------
    account : Account or JointAccount
        Whose measurements they are.
    origins : mapping of str to str
        Distribution and version of each package with plugins.
    call : str
        The call's number, which tells its measurements from all others; empty for plans.
    fresh : bool
        Whether to measure anew what is kept.
    """

    def __init__(
        self, account: Account | JointAccount, origins: Mapping[str, str], call: str = "", *, fresh: bool
    ) -> None:
        self.new: list[Measurement] = []
        self._account = account
        self._call = call
        self._origins = Origins(origins)
        self._fresh = fresh
        self._texts: dict[tuple[bytes, object], str | None] = {}
        self._taken: dict[int, NDArray[np.intp]] = {}

    def recall(self, asked: Sequence[Asked], *, dry: bool) -> None:
        """Answer what the ledger keeps and is at least as accurate, at no charge and without a look at the rows.

        Parameters
        ----------
        asked : sequence of Asked
            What the groups of a call ask. Each measurement that may be kept is described.
        dry : bool
            Whether this is a plan, which takes no values, and leaves none.
        """
        if not self._account.keeps_measurements or (dry and self._fresh):
            return
        wanted = []
        for each in asked:
            if each.price is not None and each.losses:
                each.text = describe(self._described(each.price.query), each.table, self._origins)
                if each.text is not None and not self._fresh:
                    wanted.append((each, each.price, self._parts(each.price, each.text, each.table)))
        if not wanted:
            return
        keys = [digest(description) for *_, parts in wanted for description, *_ in parts]
        known = self._account.measurements(keys, private=noises.sampler().private)
        for each, price, parts in wanted:
            if (found := self._best(price, parts, known)) is not None:
                each.told = self._recalled(price, found, dry=dry)

    def _described(self, query: Query) -> str | None:
        """Describe what all groups measure once."""
        about = query.key, query.reveal
        if about not in self._texts:
            self._texts[about] = describe_query(query, self._origins)
        return self._texts[about]

    def _parts(self, price: Price, text: str, table: Table) -> list[tuple[str, int, NDArray[np.intp]]]:
        """Describe what holds a measurement: itself and, but for noise of the cube, others of which it is a part.

        Each with the number of its coordinates, and the places there of what is asked, as they are kept.
        """
        query = price.query
        parts = [(text, query.dimension, query.places)]
        if not isinstance(query.of, RowFeatures) or query.reveal is not None:
            return parts
        if price.noise == "cube" or table.parts:
            return parts
        for features, rows, places in larger(query.of, table):
            whole = Query.read(features)
            described = describe(self._described(whole), rows, self._origins)
            parts += [] if described is None else [(described, whole.dimension, whole.places[places])]
        return parts

    def _best(
        self,
        price: Price,
        parts: Sequence[tuple[str, int, NDArray[np.intp]]],
        known: Mapping[tuple[str, str], Sequence[KeptMeasurement]],
    ) -> Part | None:
        """Choose the most accurate, and of these the newest, if it is at least as accurate as what is wanted.

        No coordinate of it was taken yet. Its steps are no coarser either: who counts on noise as good as
        continuous gets such. Scales and grids are public, so the choice tells of nothing else.
        """
        wanted = KeptMeasurement(0, "", price.noise, price.scale, price.grid.k)
        good = [
            Part(kept, description, dimension, places)
            for description, dimension, places in parts
            for kept in known.get((digest(description), price.noise), ())
            if kept.grid >= wanted.grid and kept.spread <= wanted.spread
            if not np.isin(places, self._taken.get(kept.id, ())).any()
        ]
        return min(good, key=lambda each: (each.kept.spread, -each.kept.id), default=None)

    def _recalled(self, price: Price, part: Part, *, dry: bool) -> Taken:
        """Take the values of a measurement that is kept: in this call none of these coordinates again."""
        of = part.kept
        self._taken[of.id] = np.union1d(self._taken.get(of.id, part.places), part.places)
        record = replace(price.record, scale=of.scale, grid=of.grid, epsilon=0.0, delta=0.0, reused=of.at)
        every = np.zeros(part.dimension, dtype=np.int64) if dry else self._account.steps(of)
        if every.shape != (part.dimension,):
            raise LedgerError("A measurement in the ledger is damaged.", "Ask with fresh=True.")
        return Taken(every[part.places], record, _identity(of.call, part.description, every, part.places))

    def leave(self, asked: Asked, price: Price, steps: NDArray[np.int64]) -> Taken:
        """Leave what was measured for others, when the call ends; but not what would fill the ledger."""
        places = price.query.places
        ordered = steps[np.argsort(places)]
        if asked.text is not None and ordered.size <= MOST:
            private = noises.sampler().private
            self.new.append(Measurement(asked.text, price.noise, price.scale, price.grid.k, private, ordered))
        return Taken(steps, price.record, _identity(self._call, asked.text, ordered, places))


class Origins(dict[str, str]):
    """Distribution and version of each package, dfprivacy among them, for the descriptions of one call.

    Parameters
    ----------
    origins : mapping of str to str
        Those of the packages with plugins.
    """

    def __init__(self, origins: Mapping[str, str]) -> None:
        super().__init__({_HOUSE: f"{_HOUSE} {_version(_HOUSE)}", **origins})
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
    # What tables of one row a person have not is not written, so that what was kept of them before is found again.
    facts = {
        f.name: value
        for f in fields(table.schema)
        if f.compare and f.name not in {"names", "columns"}
        if (value := getattr(table.schema, f.name)) is not None or f.name == "size"
    }
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


def _identity(call: str, text: str | None, kept: NDArray[np.int64], places: NDArray[np.intp]) -> str:
    """Return what tells a measurement from all others, wherever it is read; empty on a sample, and of a plan."""
    if not call:
        return ""
    call = call if noises.sampler().private else "a test"  # of which everything is to be the same again
    return placed(hashlib.blake2b(f"{call} {text}".encode() + kept.tobytes(), digest_size=8).hexdigest(), places)


def placed(identity: str, places: NDArray[np.intp]) -> str:
    """Return the id of some values of a measurement: after an @ are their places, if they are not the first."""
    if np.array_equal(places, np.arange(places.size)):
        return identity
    return f"{identity}@{','.join(map(str, places.tolist()))}"
