"""A question whose bounds are found first: with a part of its epsilon, in one call."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dfprivacy._call.question import Question
from dfprivacy._call.target import is_rest
from dfprivacy._plugins.loader import registry
from dfprivacy._table.declare import declared
from dfprivacy.errors import ArgumentError, BudgetExceeded, DPError, SchemaError
from dfprivacy.release import Groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy._call.target import Target
    from dfprivacy.mechanism import Mechanism
    from dfprivacy.release import Release
    from dfprivacy.schema import Column

__all__ = ["with_found_bounds"]

_PART = Fraction(1, 4)  # of the epsilon, for the bounds
_ANY = (-(2.0**31), 2.0**31)  # bounds that can be found lie within


def with_found_bounds(
    target: Target,
    mechanism: Mechanism,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    by: tuple[Column, ...],
) -> Release:
    """Find bounds of the columns of numbers that a call names, and answer it within them.

    Parameters
    ----------
    target, mechanism, args, kwargs, by
        As for `Question.read`.

    Returns
    -------
    Release
        The answer, with what both parts have paid. Its notes say which bounds were found.

    Raises
    ------
    ArgumentError, SchemaError
        If the call cannot be answered. It is checked with wide bounds while nothing is paid; if none are found, a
        quarter of the epsilon is spent.
    """
    names = _numbers(mechanism, args, kwargs)
    epsilon, _ = target.price(kwargs.get("epsilon"), None, takes_delta=False)
    parts = epsilon * _PART, epsilon * (1 - _PART)
    known = target.table.schema.columns
    if labels := [name for name in names if name in known and known[name].categories and not known[name].bounds]:
        raise SchemaError(f"Column {labels[0]!r} has categories, and no numbers.", "Ask for its value_counts.")

    def asked(bounds: Mapping[str, tuple[float, float]]) -> Question:
        schema = declared(target.table.schema, bounds=bounds, categories=None, missing=None)
        within = replace(target, table=target.table.declaring(schema.columns))
        return Question.read(
            within,
            mechanism,
            args,
            {**kwargs, "epsilon": "rest" if is_rest(kwargs.get("epsilon")) else parts[1]},
            by,
        )

    asked(dict.fromkeys(names, _ANY)).check()
    search = registry("find_bounds").mechanisms.get("find_bounds")
    if search is None:
        raise ArgumentError('bounds="find" needs the plugin that has find_bounds().', "Declare bounds.")
    again = {"fresh": kwargs["fresh"]} if "fresh" in kwargs else {}
    looked = Question.read(target, search, (names,), {"epsilon": parts[0], **again})
    if epsilon > (most := target.payer.largest()) and not looked.is_kept():
        raise BudgetExceeded(
            f"{mechanism.name} asks for epsilon = {float(epsilon):g} of {target.account.name!r}, where "
            f"one more release can have epsilon = {float(most):g}.",
            "Ask for less.",
        )
    found: Any = looked.ask()
    try:
        ends = {name: _ends(name, found, known[name].bounds if name in known else None) for name in names}
        release = asked(ends).ask()
    except DPError as error:
        paid = found.privacy.epsilon
        raise error.after(f"Bounds were looked for, at epsilon {paid:g}.") if paid else error from None
    return _together(release, found, ends)


def _ends(name: str, found: Any, declared_ones: tuple[float, float] | None) -> tuple[float, float]:
    """Return the bounds that were found, within those that were declared."""
    low, high = found.bounds.get(name, declared_ones or (math.nan, math.nan))
    if math.isnan(low):
        raise ArgumentError(f"Bounds of {name!r} were not found.", "Ask with a larger epsilon, or declare them.")
    if declared_ones is None:
        return low, high
    inside = max(low, declared_ones[0]), min(high, declared_ones[1])
    return inside if inside[0] < inside[1] else declared_ones


def _numbers(mechanism: Mechanism, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """Name the columns of numbers that a call names."""
    given = mechanism.bind(tuple(args), {name: each for name, each in kwargs.items() if name not in _PRICE})
    kinds = {name: kind for name, kind in mechanism.columns.items() if kind in ("numeric", ["numeric"])}
    listed = [given[name] if isinstance(given[name], list | tuple) else [given[name]] for name in kinds]
    names = list(dict.fromkeys(name for each in listed for name in each if isinstance(name, str)))
    if not names:
        raise ArgumentError(
            f'bounds="find" is for methods that name columns of numbers, and {mechanism.name}() names none here.',
            "Find them first: view.declare(view.find_bounds(['age'], epsilon=...)).",
        )
    return names


_PRICE = {"epsilon", "delta", "fresh"}


def _together(release: Release, found: Any, ends: Mapping[str, tuple[float, float]]) -> Release:
    """Return an answer with the price of both parts, and a note of the bounds."""
    one, other = release.privacy, found.privacy
    if one is None or other is None:
        raise TypeError
    told = [
        f"{name} in [{low:g}, {high:g}], with at most {beyond or 0:,.0f} rows beyond (at 95 %)"
        for (name, (low, high)), beyond in zip(ends.items(), found.beyond, strict=True)
    ]
    words = f"Bounds were found with a quarter of the epsilon: {'; '.join(told)}."
    both = replace(one, epsilon=one.epsilon + other.epsilon, noise=(*other.noise, *one.noise))
    return replace(_noting(release, words), privacy=both)


def _noting(release: Release, words: str) -> Release:
    if isinstance(release, Groups):
        return replace(release, releases=tuple(_noting(each, words) for each in release.releases))
    notes = release.result.get("notes")
    return replace(release, notes=(*notes, words)) if isinstance(notes, tuple) else release  # type: ignore[call-arg]
