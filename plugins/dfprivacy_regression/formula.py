"""Formulas: an outcome and its regressors, read from a formula or from names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from dfprivacy import ArgumentError, Column, SchemaError
from dfprivacy_regression.design import Design

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["read", "read_binary"]

_FACTOR_TERM = re.compile(r"C\(\s*(.*?)\s*\)")
_ARITHMETIC = re.compile(r"[*:/^|~(]|\s-|^-|^[01]?$")  # in a term that is no column
_TERM_HINT = (
    "Terms are names of columns and C(name) for categories, with +; an intercept is always there. Make products "
    "and functions columns of the table, with bounds of their own."
)
_FORMULA_HINT = 'Write "outcome ~ a + b + C(category)", or give the names: outcome, ["a", "b"].'


def read(y: str, x: str | Sequence[str] | None, known: Mapping[str, Column]) -> Design:
    """Parse a formula, or the names of an outcome and of regressors.

    Parameters
    ----------
    y : str
        A formula such as ``"price ~ area + C(region)"``; or the outcome, if there is `x`.
    x : str or sequence of str, optional
        The regressors.
    known : mapping of str to Column
        The columns that have bounds or categories.

    Returns
    -------
    Design
        What is regressed on what.

    Raises
    ------
    ArgumentError
        If it is no formula that can be answered.
    SchemaError
        If a column has neither bounds nor categories, or is not there.
    """
    outcome, terms = _sides(y, x)
    column = _column(outcome, known)
    if column.bounds is None:
        raise SchemaError(f"The outcome {outcome!r} has no bounds.", "Say them: protect(..., bounds={...}).")
    return Design(column, *_regressors(column, terms, known))


def read_binary(y: str, x: str | Sequence[str] | None, success: object, known: Mapping[str, Column]) -> Design:
    """Parse a formula whose outcome is a category.

    Parameters
    ----------
    y, x, known
        As for `read`.
    success : object, optional
        The category that counts as 1; default: the second of two.

    Returns
    -------
    Design
        What is regressed on what.

    Raises
    ------
    ArgumentError, SchemaError
        As for `read`; and if the outcome does not say what counts as 1.
    """
    outcome, terms = _sides(y, x)
    column = _column(outcome, known)
    categories = column.categories
    if categories is None:
        raise SchemaError(
            f"The outcome {outcome!r} has no categories.",
            f"Say them: protect(..., categories={{{outcome!r}: [0, 1]}}).",
        )
    if success is None and len(categories) != 2:  # noqa: PLR2004
        raise ArgumentError(f"{outcome!r} has {len(categories)} categories.", "Say which counts as 1: success=...")
    if len(categories) < 2:  # noqa: PLR2004
        raise ArgumentError(f"{outcome!r} has one category, and so is constant.", "Declare all of its categories.")
    kept = categories[1] if success is None else categories[column.code(success)]
    return Design(replace(column, bounds=None), *_regressors(column, terms, known), success=kept)


def _sides(y: str, x: object) -> tuple[str, list[str]]:
    """Return the outcome and the list of terms."""
    if x is None:
        return _terms(y)
    if not isinstance(x, Iterable):
        raise ArgumentError(f"x= takes names of columns, not a {type(x).__name__}.", _FORMULA_HINT)
    return y, [x] if isinstance(x, str) else list(x)


def _regressors(
    outcome: Column, terms: Sequence[str], known: Mapping[str, Column]
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the numeric and the categorical regressors."""
    numbers, factors = [], []
    for term in terms:
        named = _FACTOR_TERM.fullmatch(term) if isinstance(term, str) and term not in known else None
        each = _column(named[1] if named else term, known)
        if named and each.categories is None:
            raise SchemaError(f"{each.name!r} has no categories.", "Say them: protect(..., categories={...}).")
        if named or each.bounds is None:
            factors.append(replace(each, bounds=None))  # read as categories, whatever else it is
        else:
            numbers.append(each)
    _check(outcome, [*numbers, *factors])
    for each in factors:
        if len(each.categories or ()) < 2:  # noqa: PLR2004 - the first is what others are compared with
            raise ArgumentError(f"{each.name!r} has one category, and so is constant.", "Leave it out.")
    return tuple(numbers), tuple(factors)


def _terms(formula: str) -> tuple[str, list[str]]:
    """Split a formula into its outcome and its terms."""
    outcome, tilde, rest = formula.partition("~")
    if not tilde or "~" in rest:
        raise ArgumentError(f"{formula!r} is no formula.", _FORMULA_HINT)
    terms = [term.strip() for term in rest.split("+")]
    if terms in ([""], ["1"]):
        raise ArgumentError(f"{formula!r} has nothing on the right.", "For a mean alone, ask for mean().")
    return outcome.strip(), [term for term in terms if term != "1"]  # the intercept, which is always there


def _column(name: object, known: Mapping[str, Column]) -> Column:
    if not isinstance(name, str) or name not in known:
        if isinstance(name, str) and _ARITHMETIC.search(name):
            raise ArgumentError(f"The term {name!r} is not supported.", _TERM_HINT)
        raise SchemaError(
            f"There is no column {name!r} with bounds or categories.",
            f"There are {', '.join(map(repr, known))}. {_FORMULA_HINT}"
            if known
            else "Say bounds: protect(..., bounds={...}).",
        )
    return known[name]


def _check(outcome: Column, regressors: Sequence[Column]) -> None:
    if not regressors:
        raise ArgumentError("There is no regressor.", _FORMULA_HINT)
    twice = [name for name, times in Counter(each.name for each in regressors).items() if times > 1]
    if twice:
        raise ArgumentError(f"{twice!r} is named twice.", "Name each regressor once.")
    if outcome.name in {each.name for each in regressors}:
        raise ArgumentError(f"The outcome {outcome.name!r} is also a regressor.", "Leave it out of the regressors.")
