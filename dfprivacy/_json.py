"""Lossless conversion of releases to JSON and back, which imports no module that the JSON text names."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from dfprivacy.errors import ArgumentError, trimmed
from dfprivacy.measured import ConfidenceInterval, MeasurementRecord, Privacy

__all__ = ["JsonConversion", "loaders", "plain_json", "read_release", "register"]

R = TypeVar("R", bound="JsonConversion")

_COLUMN_TEXTS = ("column_words", "column_units")
_COMMON_FIELDS = frozenset({"privacy", "library", "covers", *_COLUMN_TEXTS})  # fields that are not of every result
_BITS_MAX = 14_000  # of an integer: Python writes no more than 4,300 digits

_types: dict[str, type[JsonConversion]] = {}
loaders: list[Callable[[], object]] = []
"""Functions that register more types, such as the loader of plugins."""


class JsonConversion:
    """Base class of releases: conversion to JSON and back."""

    if TYPE_CHECKING:

        @property
        def covers(self) -> str | None: ...

        def paid(self, privacy: Privacy) -> Self: ...

    @property
    def result(self) -> dict[str, Any]:
        """Fields of the result by name; the last is `covers`, if the result has intervals."""
        kind: Any = type(self)
        result = {name: getattr(self, name) for name in _field_names(kind)}
        return result if self.covers is None is kind.covers else {**result, "covers": self.covers}

    def to_dict(self) -> dict[str, Any]:
        """Return the release as a dictionary of JSON values, which `from_dict` converts back.

        Returns
        -------
        dict
            Strings, numbers, booleans, None, lists and dictionaries.
        """
        return {
            "type": _type_name(type(self)),
            **{name: _to_plain(value) for name, value in self.result.items()},
            "privacy": _to_plain(getattr(self, "privacy", None)),
            **{name: dict(words) for name in _COLUMN_TEXTS if (words := getattr(self, name))},
        }

    @classmethod
    @trimmed
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Convert the result of `to_dict` to a release.

        Parameters
        ----------
        plain : mapping
            The result of `to_dict`, possibly after a conversion to JSON text and back.

        Returns
        -------
        Release
            Of the class that made it.

        Raises
        ------
        ArgumentError
            If it is no release, or its class is not installed here or is not a subclass of this one.

        Notes
        -----
        Classes are those of plugins that were loaded and of modules that were imported. No module is imported
        because a text names it: a ledger is written by many hands, and an import runs code.
        """
        name = plain.get("type") if isinstance(plain, Mapping) else None
        kind = _class_of_name(name)
        if kind is None:
            raise ArgumentError(
                f"No class {name!r} of releases is installed here.", "Install the plugin that made the release."
            )
        paid = plain.get("privacy")
        try:
            made = kind(**_read_fields(plain))
            made = made if paid is None else made.paid(_read_privacy(paid))
        except (TypeError, KeyError, ValueError, AttributeError, ArithmeticError):
            raise ArgumentError(
                f"The fields of this {kind.__name__} differ from the fields of the installed class.",
                "Install the version that made the release.",
            ) from None
        if not isinstance(made, cls):
            raise ArgumentError(
                f"This is a {kind.__name__}, not a {cls.__name__}.", "Read it with Release.from_dict or from_json."
            )
        return made

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the result, its price and its question as JSON text, which `from_json` converts back.

        Parameters
        ----------
        indent : int, optional
            Number of spaces for each level of indentation; default: one line.

        Returns
        -------
        str
            JSON.
        """
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    @trimmed
    def from_json(cls, text: str) -> Self:
        """Convert the result of `to_json` to a release.

        Parameters
        ----------
        text : str
            The result of `to_json`.

        Returns
        -------
        Release
            Of the class that made it.

        Raises
        ------
        ArgumentError
            If it is no release, or its class is not installed here.
        """
        try:
            plain = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            raise ArgumentError("The text is not JSON.", "Pass the result of a release's to_json().") from None
        return read_release(cls, plain)


def read_release(kind: type[R], plain: Mapping[str, Any]) -> R:
    """Convert JSON values from an untrusted source to a release; raise an error if it cannot be displayed."""
    made = kind.from_dict(plain)
    try:
        repr(made)
    except Exception:  # noqa: BLE001 - whatever a field of another kind leads to
        raise ArgumentError(
            f"The fields of this answer do not fit the class {type(made).__name__}.",
            "Ask for the answer again, and read it with the same version of the plugin.",
        ) from None
    return made


def register(cls: type[JsonConversion]) -> None:
    """Register a class of releases for `from_dict`, in place of an older class of the same name."""
    _types[_type_name(cls)] = cls


def _type_name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _class_of_name(name: object) -> type[JsonConversion] | None:
    """Return the class of releases that has a name, even if its module was renamed since; None if there is none."""
    if not isinstance(name, str) or "<locals>" in name:
        return None
    if name not in _types:
        for load in loaders:
            load()
    moved = [each for kind, each in _types.items() if _package_and_name(kind) == _package_and_name(name)]
    return _types.get(name, moved[0] if len(moved) == 1 else None)


def _package_and_name(kind: str) -> tuple[str, str]:
    """Return a class's top-level package and its name, without the module, which may change between versions."""
    module, _, name = kind.partition(":")
    return module.partition(".")[0], name


def _read_fields(plain: Mapping[str, Any]) -> dict[str, Any]:
    words = {name: plain.get(name, {}) for name in _COLUMN_TEXTS}
    texts = all(
        isinstance(of, Mapping) and all(isinstance(each, str) for each in of.values()) for of in words.values()
    )
    if "library" in plain or not texts:
        raise TypeError  # whoever asks has a library: it is never stored
    beside = {"type", "privacy", *_COLUMN_TEXTS}
    rich = {key: _from_plain(value) for key, value in plain.items() if key not in beside}
    return {**rich, **{name: dict(of) for name, of in words.items()}}


_READ = {
    "tuple[str, ...]": tuple,
    "str": str,
    "float": int | float,
    "int": int,
    "bool": bool,
    "tuple[MeasurementRecord, ...]": tuple,
}


def _read_privacy(plain: Mapping[str, Any]) -> Any:
    noise = tuple(_read_record(MeasurementRecord, item) for item in plain["noise"])
    return _read_record(
        Privacy, {**plain, "noise": noise, **{each: tuple(plain.get(each, ())) for each in ("where", "found")}}
    )


def _read_record(kind: Any, plain: Mapping[str, Any]) -> Any:
    """Construct a `MeasurementRecord` or `Privacy`; raise a TypeError for missing, unknown or mistyped fields."""
    made = kind(**plain)
    if not all(isinstance(getattr(made, f.name), _READ[str(f.type)]) for f in dataclasses.fields(kind)):
        raise TypeError
    return made


def plain_json(value: Any) -> str:
    """Return a value as one line of JSON text with sorted keys and without NaN literals."""
    return json.dumps(_to_plain(value), sort_keys=True, allow_nan=False, separators=(",", ":"))


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    """Return the names of a class's fields, computed once: a call by group has hundreds of results."""
    return tuple(f.name for f in dataclasses.fields(kind) if f.name not in _COMMON_FIELDS)


def _to_plain(value: Any) -> Any:  # noqa: C901 - one case for each type
    """Convert a value to JSON values; a type that JSON lacks becomes a dictionary with a key such as "$tuple"."""
    if value is None or (kind := type(value)) is str or kind is bool or (kind is float and math.isfinite(value)):
        return value  # what there is most of
    if isinstance(value, JsonConversion):
        return {"$release": value.to_dict()}
    if isinstance(value, Privacy):
        noise = [{**vars(each)} for each in value.noise]
        return {**vars(value), "noise": noise, "where": list(value.where)}
    if isinstance(value, np.ndarray):
        items = value.ravel().tolist()
        if value.dtype.kind not in "biu" and not (value.dtype.kind == "f" and np.isfinite(value).all()):
            items = [_to_plain(item) for item in items]
        return {"$array": items, "shape": list(value.shape), "dtype": value.dtype.str}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float | int | Fraction | Decimal):
        return _number_to_plain(value)
    if isinstance(value, ConfidenceInterval):
        return {"$interval": [_to_plain(end) for end in value]}
    if isinstance(value, tuple):
        return {"$tuple": [_to_plain(item) for item in value]}
    if isinstance(value, list):
        return [_to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {_checked_key(key): _to_plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def _number_to_plain(value: float | Fraction | Decimal) -> Any:
    if isinstance(value, Fraction):
        return {"$fraction": [_number_to_plain(value.numerator), _number_to_plain(value.denominator)]}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, int) and value.bit_length() > _BITS_MAX:
        raise TypeError("an integer of thousands of digits cannot be written as JSON")
    return value


def _checked_key(key: object) -> str:
    if not isinstance(key, str) or key.startswith("$"):
        raise TypeError("the keys of a dictionary in a release must be strings, without a dollar in front")
    return key


def _from_plain(value: Any) -> Any:
    """Convert JSON values back to the value that `_to_plain` converted."""
    if isinstance(value, list):
        return [_from_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$release": plain}:
            return JsonConversion.from_dict(plain)
        case {"$array": items, "shape": shape, "dtype": dtype}:
            return np.array([_from_plain(item) for item in items], dtype=dtype).reshape(shape)
        case {"$float": text}:
            return float(text)
        case {"$fraction": [numerator, denominator]}:
            return Fraction(numerator, denominator)
        case {"$decimal": text}:
            return Decimal(text)
        case {"$interval": ends}:
            return ConfidenceInterval(*(_from_plain(end) for end in ends))
        case {"$tuple": items}:
            return tuple(_from_plain(item) for item in items)
    return {key: _from_plain(item) for key, item in value.items()}
