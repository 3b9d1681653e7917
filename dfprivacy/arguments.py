"""Checks of arguments by the annotations of a function's parameters."""

from __future__ import annotations

import difflib
import inspect
import math
import typing
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType, SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import numpy as np

from dfprivacy.errors import ArgumentError, DPError, PluginError, quoted
from dfprivacy.schema.values import plain_number

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NanPolicy", "Probability", "Range", "checked", "fits", "hints"]

_TINY = 1e-100  # numbers below it count as 0: parts and squares of them underflow


@dataclass(frozen=True, repr=False)
class Range:
    """Range of the values of a numeric parameter, for annotations: ``Annotated[int, Range(1, 100)]``.

    Parameters
    ----------
    low, high : float, optional
        The ends; None for no end, which leaves all finite numbers. An end of ``math.inf`` is a number of its own.
    exclusive : {"low", "high", "both"}, optional
        The ends that are excluded from the range.

    Examples
    --------
    >>> from dfprivacy import Range
    >>> Range(0, 1, exclusive="low")
    Range(0, 1, exclusive='low')
    >>> print(Range(0, 1, exclusive="low"))
    above 0 and at most 1
    """

    low: float | None = None
    high: float | None = None
    exclusive: Literal["low", "high", "both"] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.exclusive, str | None) or self.exclusive not in (None, "low", "high", "both"):
            raise PluginError(f"exclusive{quoted(self.exclusive)} is unknown.", 'Use "low", "high" or "both".')
        for end in (self.low, self.high):
            number = plain_number(end) if isinstance(end, int | float) and not isinstance(end, bool) else math.nan
            if end is not None and (math.isnan(number) or (isinstance(end, int) and math.isinf(number))):
                raise PluginError(f"The end{quoted(end)} of a range is not a number.", "For example Range(0, 1).")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise PluginError(
                f"{self!r} is empty or a single number.", "Pass the lower end first, for example Range(0, 1)."
            )

    def __contains__(self, number: float) -> bool:
        if number != number:  # noqa: PLR0124 - NaN, also where an integer is no float
            return False
        number = 0 if abs(number) < _TINY else number
        above = -math.inf < number if self.low is None else self.low < number
        below = number < math.inf if self.high is None else number < self.high
        return (above or (number == self.low and self.exclusive not in {"low", "both"})) and (
            below or (number == self.high and self.exclusive not in {"high", "both"})
        )

    def __repr__(self) -> str:
        ends = [] if self.low is None and self.high is None else [repr(self.low)]
        ends += [] if self.high is None else [repr(self.high)]
        ends += [] if self.exclusive is None else [f"exclusive={self.exclusive!r}"]
        return f"Range({', '.join(ends)})"

    def __str__(self) -> str:
        low, high = (None if end is None else f"{end:g}" for end in (self.low, self.high))
        if low and high and self.exclusive in {None, "both"}:
            return f"between {low} and {high}" if self.exclusive else f"from {low} to {high}"
        if low and high is None and self.exclusive not in {"low", "both"}:
            return f"from {low} on"
        ends = [] if low is None else [f"{'above' if self.exclusive in {'low', 'both'} else 'at least'} {low}"]
        ends += [] if high is None else [f"{'below' if self.exclusive in {'high', 'both'} else 'at most'} {high}"]
        return " and ".join(ends)


Probability: TypeAlias = Annotated[float, Range(0, 1, exclusive="both")]
"""A level, a confidence or a power: above 0 and below 1."""

NanPolicy: TypeAlias = Literal["omit", "fill", "raise"]
"""Policy for rows with a missing value: leave them out, count them with the fill value of the column, or raise an
error, which is possible for public columns only."""


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function, with names in strings resolved.

    Parameters
    ----------
    function : callable
        A function, or an object that wraps one.

    Returns
    -------
    dict of str to annotation
        By parameter, and by ``"return"``. An annotation whose names are not defined at run time stays a string.
    """
    function = inspect.unwrap(function)  # as `inspect.signature` does
    hints = {}
    for name, written in inspect.get_annotations(function).items():
        one = SimpleNamespace(__annotations__={name: written})
        try:
            names = getattr(function, "__globals__", {})
            hints[name] = typing.get_type_hints(one, globalns=names, include_extras=True)[name]
        except DPError:  # a Range that is none
            raise
        except Exception:  # noqa: BLE001 - a name for type checkers only, or no type at all: it tells nothing
            hints[name] = written
    return hints


def checked(value: object, hint: object, what: str) -> Any:
    """Return an argument, checked and converted according to its annotation.

    `Literal`, `bool`, `int`, `float`, `str`, `None`, their unions, and numbers with a `Range` are checked. Other
    annotations are not checked.

    Parameters
    ----------
    value : object
        The argument.
    hint : annotation
        A resolved annotation; None if the parameter has no annotation.
    what : str
        The name of the argument, for errors.

    Returns
    -------
    object
        The argument; a scalar of NumPy becomes one of Python, and for `float` a number, or a date in days, a float.

    Raises
    ------
    ArgumentError
        If the argument does not fit the annotation.
    """
    kinds = _types_of_hint(hint)
    if kinds is None:
        return value
    read = _convert_by_type(value, kinds)
    if read is _NO_MATCH:
        raise _argument_error(value, kinds, what)
    return read


def fits(value: object, hint: object) -> bool:
    """Return whether a value fits an annotation that can be checked.

    Parameters
    ----------
    value : object
        The value.
    hint : annotation
        As for `checked`.

    Returns
    -------
    bool
        Whether it fits; False for an annotation that is not checked.
    """
    return _convert_by_type(value, _types_of_hint(hint) or ()) is not _NO_MATCH


def _types_of_hint(hint: object) -> tuple[_AllowedType, ...] | None:
    try:
        return _cached_allowed_types(hint)
    except TypeError:  # it holds what has no hash
        return _allowed_types(hint)


def _convert_by_type(value: object, kinds: tuple[_AllowedType, ...]) -> Any:
    """Convert a value by the first type that allows it; return `_NO_MATCH` if no type does."""
    plain = value
    if isinstance(value, np.generic) and not isinstance(value, np.timedelta64 | np.datetime64):
        plain = value.item()
    for kind in kinds:
        value_read = kind.read(plain)
        if value_read is not _NO_MATCH:
            return value_read
    return _NO_MATCH


_NO_MATCH = object()


@dataclass(frozen=True)
class _AllowedType:
    """One allowed type of an annotation: a set of choices, or a type with ranges in which its values must lie."""

    of: type | None = None
    choices: tuple[Any, ...] = ()
    ranges: tuple[Range, ...] = ()

    def read(self, value: Any) -> Any:
        """Return the value, converted to this type, or `_NO_MATCH`."""
        if self.of is None:
            same = (each for each in self.choices if type(each) is type(value) and each == value)
            return next(same, _NO_MATCH)
        if self.of is float:
            number = _as_float(value)
            ranges = self.ranges or (Range(),)
            return number if all(number in each for each in ranges) else _NO_MATCH
        if self.of is int:
            integer = isinstance(value, int) and not isinstance(value, bool)
            return int(value) if integer and all(value in each for each in self.ranges) else _NO_MATCH
        return value if isinstance(value, self.of) else _NO_MATCH

    def __str__(self) -> str:
        if self.of is None:
            return ", ".join(map(repr, self.choices))
        ends = "".join(f" {each}" for each in self.ranges)
        if self.of is float:
            return f"a number{ends}" if ends else "a finite number or a date"
        names = {int: "an integer", str: "a string", bool: "True or False", NoneType: "None"}
        return f"{names[self.of]}{ends}"


def _as_float(value: Any) -> float:
    """Return a number, or a date in days, as a float; NaN for anything else."""
    return math.nan if isinstance(value, bool | complex) else plain_number(value)


def _allowed_types(hint: Any, ranges: tuple[Range, ...] = ()) -> tuple[_AllowedType, ...] | None:
    """Return the types that an annotation allows; None if the annotation cannot be checked."""
    hint = getattr(hint, "__value__", hint)  # of ``type X = ...``
    origin = get_origin(hint)
    if origin is Annotated:
        base, *notes = get_args(hint)
        return _allowed_types(base, ranges + tuple(note for note in notes if isinstance(note, Range)))
    if origin is Literal:
        return (_AllowedType(choices=get_args(hint)),)
    if origin in {Union, UnionType}:
        parts = [_allowed_types(part, ranges) for part in get_args(hint)]
        known = [part for part in parts if part is not None]
        return tuple(kind for part in known for kind in part) if len(known) == len(parts) else None
    if any(hint is each for each in (int, float)):
        return (_AllowedType(hint, ranges=ranges),)
    return (_AllowedType(hint),) if any(hint is each for each in (bool, str, NoneType)) else None


_cached_allowed_types = lru_cache(maxsize=1024)(_allowed_types)


def _argument_error(value: object, kinds: tuple[_AllowedType, ...], what: str) -> ArgumentError:
    name = what.rsplit(maxsplit=1)[-1]
    what = f"{what}{quoted(value)}"
    choices = [each for kind in kinds for each in kind.choices]
    given = [kind for kind in kinds if kind.of is not NoneType]
    rest = " or None" if len(given) < len(kinds) else ""
    if all(kind.of is None for kind in given):
        near = difflib.get_close_matches(value[:100], map(str, choices), n=1) if isinstance(value, str) else ()
        hint = f"Did you mean {near[0]!r}? " if near else ""
        return ArgumentError(f"{what} is unknown.", f"{hint}Use one of {', '.join(map(repr, choices))}{rest}.")
    if all(kind.of is bool for kind in given):
        return ArgumentError(f"{what} is neither True nor False.", f"Use {name}=True or {name}=False{rest}.")
    alternatives = " or ".join(map(str, given))
    short = alternatives.replace("a number above", "above").replace("a number between", "between")
    return ArgumentError(f"{what} is not {short}.", f"Give {alternatives}{rest}.")
