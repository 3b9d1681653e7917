"""Measurements that the ledger keeps by their descriptions, and that calls reuse in place of new ones.

Two measurements of one description are of the same number: everything that the exact value follows from is in it,
and all of that is public. The noise is no part of it. Where something cannot be written as JSON there is no
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

from dfprivacy._ledger.tables import MOST, KeptMeasurement, Measurement, sha256_of_text
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
    from dfprivacy._measure.price import Price, RowRequest
    from dfprivacy.release import MeasurementRecord

__all__ = [
    "NoisyResult",
    "PackageOrigins",
    "ResultCache",
    "containing_features",
    "describe_measurement",
    "id_with_positions",
]

_CONDITIONS_MAX = 3  # conditions, of which any order is tried
_LENGTH_MAX = 1024  # characters, beyond which a digest stands for a value
_PACKAGE = "dfprivacy"
_version = cache(version)  # which reads the metadata anew each time: a tenth of what a question of few rows takes
_NO_PLUGINS = frozenset({_PACKAGE, "builtins", "abc", "typing"})
_DERIVED_ATTRIBUTES = {  # attributes of bundled classes that follow from others, or that change no number
    "dfprivacy.schema:Column": frozenset({"find", "beyond"}),
    "dfprivacy.features.base:_ClippedFeatures": frozenset({"_diameter", "_unit"}),
    "dfprivacy.features.composed:OneHot": frozenset(
        {"groups", "columns", "shape", "weights", "_codes", "_summed", "_index_of_code"}
    ),
}


_COMPOSED_ATTRIBUTES = frozenset({"inner", "portable", "stacked", "threaded"})  # the same, of composed features


class _UndescribedError(Exception):
    """Error for a value that cannot be described as JSON."""


@dataclass(frozen=True)
class NoisyResult:
    """Result of a measurement: noisy integers, the record of their noise, and an id."""

    steps: NDArray[np.int64]
    record: MeasurementRecord
    id: str


@dataclass(frozen=True)
class KeptCoordinates:
    """Coordinates of a kept measurement that answer a request.

    Attributes
    ----------
    kept : KeptMeasurement
        The kept measurement.
    description : str
        Its description.
    dimension : int
        The number of its coordinates.
    places : ndarray of int
        Their positions in it.
    """

    kept: KeptMeasurement
    description: str
    dimension: int
    places: NDArray[np.intp]


class ResultCache:
    """Access of one call to the measurements that its account keeps, and the call's new measurements to keep.

    A mechanism that measures the same twice wants two draws of noise: in one call no kept measurement is taken
    twice, and none that the call has made itself, for those are kept when it ends.

    Parameters
    ----------
    account : Account or JointAccount
        The account that keeps them.
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
        self._origins = PackageOrigins(origins)
        self._fresh = fresh
        self._texts: dict[tuple[bytes, object], str | None] = {}
        self._used_places: dict[int, NDArray[np.intp]] = {}

    def answer_from_kept(self, asked: Sequence[RowRequest], *, dry: bool) -> None:
        """Answer requests from kept measurements that are at least as accurate, at no charge.

        Parameters
        ----------
        asked : sequence of RowRequest
            The requests of the groups. Each measurement that may be kept gets its description.
        dry : bool
            Whether this is a plan, which takes no values, and leaves none.
        """
        if not self._account.keeps_measurements or (dry and self._fresh):
            return
        wanted = []
        for each in asked:
            if each.price is not None and each.losses:
                each.description = describe_measurement(
                    self._describe_query_once(each.price.query), each.table, self._origins
                )
                if each.description is not None and not self._fresh:
                    wanted.append(
                        (each, each.price, self._containing_measurements(each.price, each.description, each.table))
                    )
        if not wanted:
            return
        keys = [sha256_of_text(description) for *_, parts in wanted for description, *_ in parts]
        known = self._account.measurements(keys, private=noises.sampler().private)
        for each, price, parts in wanted:
            if (found := self._most_accurate(price, parts, known)) is not None:
                each.result = self._reuse_coordinates(price, found, dry=dry)

    def _describe_query_once(self, query: Query) -> str | None:
        """Return the description of a query, computed once for all groups."""
        about = query.key, query.reveal
        if about not in self._texts:
            self._texts[about] = describe_query(query, self._origins)
        return self._texts[about]

    def _containing_measurements(
        self, price: Price, text: str, table: Table
    ) -> list[tuple[str, int, NDArray[np.intp]]]:
        """Return descriptions of measurements that contain the values of a query: its own, and larger ones.

        Each comes with the number of its coordinates, and the positions of the query's values among them.
        """
        query = price.query
        parts = [(text, query.dimension, query.places)]
        if not isinstance(query.of, RowFeatures) or query.reveal is not None:
            return parts
        if price.noise == "cube" or table.parts:
            return parts
        for features, rows, places in containing_features(query.of, table):
            whole = Query.read(features)
            described = describe_measurement(self._describe_query_once(whole), rows, self._origins)
            parts += [] if described is None else [(described, whole.dimension, whole.places[places])]
        return parts

    def _most_accurate(
        self,
        price: Price,
        parts: Sequence[tuple[str, int, NDArray[np.intp]]],
        known: Mapping[tuple[str, str], Sequence[KeptMeasurement]],
    ) -> KeptCoordinates | None:
        """Return the most accurate kept measurement, if it is at least as accurate as a new one at this price.

        No coordinate of it was taken yet. Its steps are no coarser either: who counts on noise as good as
        continuous gets such. Scales and grids are public, so the choice tells of nothing else.
        """
        wanted = KeptMeasurement(0, "", price.noise, price.scale, price.grid.k)
        good = [
            KeptCoordinates(kept, description, dimension, places)
            for description, dimension, places in parts
            for kept in known.get((sha256_of_text(description), price.noise), ())
            if kept.grid >= wanted.grid and kept.noise_size <= wanted.noise_size
            if not np.isin(places, self._used_places.get(kept.id, ())).any()
        ]
        return min(good, key=lambda each: (each.kept.noise_size, -each.kept.id), default=None)

    def _reuse_coordinates(self, price: Price, part: KeptCoordinates, *, dry: bool) -> NoisyResult:
        """Return the values of a kept measurement, and mark these coordinates as used in this call."""
        of = part.kept
        self._used_places[of.id] = np.union1d(self._used_places.get(of.id, part.places), part.places)
        record = replace(price.record, scale=of.scale, grid=of.grid, epsilon=0.0, delta=0.0, reused=of.at)
        every = np.zeros(part.dimension, dtype=np.int64) if dry else self._account.noisy_steps(of)
        if every.shape != (part.dimension,):
            raise LedgerError(
                "A measurement in the ledger is damaged.", "Ask with fresh=True to measure again, which is charged."
            )
        return NoisyResult(every[part.places], record, _unique_id(of.call, part.description, every, part.places))

    def add_measurement(self, asked: RowRequest, price: Price, steps: NDArray[np.int64]) -> NoisyResult:
        """Queue a new measurement for the ledger, unless it is too large, and return it with its id."""
        places = price.query.places
        ordered = steps[np.argsort(places)]
        if asked.description is not None and ordered.size <= MOST:
            private = noises.sampler().private
            self.new.append(
                Measurement(asked.description, price.noise, price.scale, price.grid.k, private, ordered)
            )
        return NoisyResult(steps, price.record, _unique_id(self._call, asked.description, ordered, places))


class PackageOrigins(dict[str, str]):
    """Distribution and version of each package, for the descriptions of one call.

    Parameters
    ----------
    origins : mapping of str to str
        Those of the packages with plugins.
    """

    def __init__(self, origins: Mapping[str, str]) -> None:
        super().__init__({_PACKAGE: f"{_PACKAGE} {_version(_PACKAGE)}", **origins})
        self._texts: dict[int, tuple[object, str]] = {}

    def describe_class(self, kind: type) -> str:
        """Describe an installed class by its name and distribution; raise an error for any other class."""
        origin = self.get(kind.__module__.partition(".")[0])
        named = getattr(sys.modules.get(kind.__module__), kind.__qualname__, None)
        if origin is None or named is not kind or any(vars(each).get("__slots__") for each in kind.__mro__):
            raise _UndescribedError
        return f"{kind.__module__}:{kind.__qualname__}, {origin}"

    def describe_once(self, value: object, write: Callable[[], object]) -> str:
        """Return the JSON description of an argument, written once and reused for all groups of a call."""
        if id(value) not in self._texts:
            self._texts[id(value)] = value, json.dumps(write())  # which keeps the identity taken
        return self._texts[id(value)][1]


def describe_measurement(what: str | Query | None, table: Table, known: PackageOrigins) -> str | None:
    """Describe a measurement, its query and the selection of its rows, as one line of JSON.

    Parameters
    ----------
    what : str, Query or None
        The query, or its description.
    table : Table
        The table, with a view's conditions.
    known : Origins
        Where classes come from.

    Returns
    -------
    str or None
        One line of JSON; None if it cannot be written as JSON: a Python function among the conditions or the
        attributes, an object of a class that is not installed, or of one with attributes of unknown kinds.
    """
    what = what if what is None or isinstance(what, str) else describe_query(what, known)
    try:
        return None if what is None else f'{what[:-1]}, "rows": {json.dumps(_describe_rows(table, known))}}}'
    except (_UndescribedError, RecursionError):
        return None


def describe_query(query: Query, known: PackageOrigins) -> str | None:
    """Return the JSON description of a query, without its rows; None if the query cannot be described."""
    claims: dict[str, Any] = {
        "what": query.of,
        "columns": query.columns,
        "shape": query.shape,
        "features": query.features,
    }
    claims |= {"weights": query.of.weights} | ({} if query.reveal is None else {"reveal": query.reveal})
    try:
        return json.dumps({name: _encode(value, known) for name, value in claims.items()})
    except (_UndescribedError, RecursionError):
        return None


def containing_features(
    features: RowFeatures, table: Table
) -> Iterator[tuple[RowFeatures, Table, NDArray[np.intp]]]:
    """Yield features with more coordinates, or over more rows, whose sums contain the sums of these features.

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
    for condition in table.conditions if len(table.conditions) <= _CONDITIONS_MAX else ():
        if (
            isinstance(condition, IsIn)
            and len(condition.categories) == 1
            and condition.column not in features.columns
        ):
            (code,) = condition.column.codes(condition.categories)
            every = OneHot(condition.column, of=None if isinstance(features, Count) else features)
            rest, own = table.without_condition(condition), code * features.dimension + places
            yield every, rest, own
            for larger_still, rows, at in containing_features(every, rest):
                yield larger_still, rows, at[own]


def _describe_rows(table: Table, known: PackageOrigins) -> object:
    """Describe the selection of the rows of a table, or of each table of a union, for JSON."""
    if table.parts:
        return [[_encode(part.mark, known), _describe_rows(part, known)] for part in table.parts]
    if any(condition.describe() is None for condition in table.conditions):
        raise _UndescribedError
    where = {known.describe_once(each, lambda each=each: _encode(each, known)) for each in table.conditions}  # type: ignore[misc]
    # What tables of one row a person have not is not written, so that what was kept of them before is found again.
    facts = {
        f.name: value
        for f in fields(table.schema)
        if f.compare and f.name not in {"names", "columns"}
        if (value := getattr(table.schema, f.name)) is not None or f.name == "size"
    }
    chosen = [_encode(column, known) for column in table.known]
    return {"where": sorted(where), "table": _encode(facts, known), **({"chosen": chosen} if chosen else {})}


def _encode(value: Any, known: PackageOrigins) -> Any:
    """Convert a value to JSON values with the name of its type; a long value to its SHA-256 digest."""
    kind = type(value)
    if value is None or kind in {bool, int, float}:
        return value
    if kind is str:
        return value if len(value) <= _LENGTH_MAX else {"sha256": _sha256(value.encode())}
    name = kind.__name__
    if kind in {tuple, list}:
        written: Any = {name: [_encode(item, known) for item in value]}
    elif kind in {set, frozenset}:
        written = {"set": sorted(json.dumps(_encode(item, known)) for item in value)}
    elif kind is dict:
        written = {"dict": [[_encode(each, known) for each in pair] for pair in value.items()]}
    elif kind in {Fraction, Decimal}:
        written = {name: str(value)}
    elif kind is np.ndarray and value.dtype.kind in "biufSU":
        written = {value.dtype.str: list(value.shape), "sha256": _sha256(value.tobytes())}
    elif isinstance(value, np.generic) and value.dtype.kind in "biuf":
        written = {value.dtype.str: repr(value.item())}
    else:
        return _encode_object(value, known)
    text = json.dumps(written)
    return written if len(text) <= _LENGTH_MAX else {"sha256": _sha256(text.encode())}


def _encode_object(value: Any, known: PackageOrigins) -> dict[str, Any]:
    """Convert an object of an installed class to JSON: its class, attributes, and class attributes of plugins."""
    kind = type(value)
    name = known.describe_class(kind)
    if not hasattr(value, "__dict__"):
        raise _UndescribedError
    bases = [each for each in reversed(kind.__mro__) if each.__module__.partition(".")[0] not in _NO_PLUGINS]
    had = {
        of: each for base in bases for of, each in vars(base).items() if not _is_code_attribute(of, each)
    } | vars(value)
    later = _DERIVED_ATTRIBUTES.get(f"{kind.__module__}:{kind.__qualname__}", frozenset())
    later = later | _COMPOSED_ATTRIBUTES if isinstance(value, Composed) else later
    attributes = {
        of: _encode(had[of], known)
        for of in sorted(had)
        if of not in later and of != FROZEN and not isinstance(getattr(kind, of, None), cached_property)
    }
    if kind is OneHot:
        attributes["groups"] = sorted(value.by.codes(value.groups))
    return {name: attributes}


def _is_code_attribute(name: str, value: object) -> bool:
    return name.startswith("__") or name == "_abc_impl" or callable(value) or hasattr(type(value), "__get__")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _unique_id(call: str, text: str | None, kept: NDArray[np.int64], places: NDArray[np.intp]) -> str:
    """Return a unique id of a measurement; empty for samples and plans."""
    if not call:
        return ""
    call = call if noises.sampler().private else "a test"  # of which everything is to be the same again
    return id_with_positions(
        hashlib.blake2b(f"{call} {text}".encode() + kept.tobytes(), digest_size=8).hexdigest(), places
    )


def id_with_positions(identity: str, places: NDArray[np.intp]) -> str:
    """Append the positions of some values to a measurement's id, unless the positions are 0, 1, 2, ..."""
    if np.array_equal(places, np.arange(places.size)):
        return identity
    return f"{identity}@{','.join(map(str, places.tolist()))}"
