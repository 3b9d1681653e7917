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

__all__ = ["linear_design", "logistic_design"]

_FACTOR_TERM = re.compile(r"C\(\s*(.*?)\s*\)")
_ARITHMETIC = re.compile(r"[*:/^|~(]|\s-|^-|^[01]?$")  # in a term that is no column
_TERM_HINT = (
    "Terms are names of columns and C(name) for categories, with +; an intercept is always there. Make products "
    "and functions columns of the table, with bounds of their own."
)
_FORMULA_HINT = 'Write "outcome ~ a + b + C(category)", or give the names: outcome, ["a", "b"].'


def linear_design(y: str, x: str | Sequence[str] | None, known: Mapping[str, Column]) -> Design:
    """Return the design of a linear regression, from a formula or from names of columns.

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
    outcome, terms = _outcome_and_terms(y, x)
    column = _known_column(outcome, known)
    if column.bounds is None:
        raise SchemaError(f"The outcome {outcome!r} has no bounds.", "Declare bounds: protect(..., bounds={...}).")
    return Design(column, *_regressors(column, terms, known))


def logistic_design(y: str, x: str | Sequence[str] | None, success: object, known: Mapping[str, Column]) -> Design:
    """Return the design of a logistic regression, from a formula or from names of columns.

    Parameters
    ----------
    y, x, known
        As for `linear_design`.
    success : object, optional
        The category that counts as 1; default: the second of two.

    Returns
    -------
    Design
        What is regressed on what.

    Raises
    ------
    ArgumentError, SchemaError
        As for `linear_design`; and if the outcome does not say what counts as 1.
    """
    outcome, terms = _outcome_and_terms(y, x)
    column = _known_column(outcome, known)
    categories = column.categories
    if categories is None:
        raise SchemaError(
            f"The outcome {outcome!r} has no categories.",
            f"Declare categories: protect(..., categories={{{outcome!r}: [0, 1]}}).",
        )
    if success is None and len(categories) != 2:  # noqa: PLR2004
        raise ArgumentError(
            f"Outcome {outcome!r} has {len(categories)} categories.",
            "Choose the category that counts as 1: success=...",
        )
    if len(categories) < 2:  # noqa: PLR2004
        raise ArgumentError(
            f"Outcome {outcome!r} has one category, so it is constant.", "Declare all of its categories."
        )
    kept = categories[1] if success is None else categories[column.code(success)]
    return Design(replace(column, bounds=None), *_regressors(column, terms, known), success=kept)


def _outcome_and_terms(y: str, x: object) -> tuple[str, list[str]]:
    """Return the name of the outcome and the list of terms on the right-hand side."""
    if x is None:
        return _split_formula(y)
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
        each = _known_column(named[1] if named else term, known)
        if named and each.categories is None:
            raise SchemaError(
                f"Column {each.name!r} has no categories.", "Declare them: protect(..., categories={...})."
            )
        if named or each.bounds is None:
            factors.append(replace(each, bounds=None))  # read as categories, whatever else it is
        else:
            numbers.append(each)
    _check_regressors(outcome, [*numbers, *factors])
    for each in factors:
        if len(each.categories or ()) < 2:  # noqa: PLR2004 - the first is what others are compared with
            raise ArgumentError(
                f"Column {each.name!r} has one category, so it is constant.", "Leave it out of the regressors."
            )
    return tuple(numbers), tuple(factors)


def _split_formula(formula: str) -> tuple[str, list[str]]:
    """Split a formula into its outcome and its terms."""
    outcome, tilde, rest = formula.partition("~")
    if not tilde or "~" in rest:
        raise ArgumentError(f"{formula!r} is not a formula of the form outcome ~ regressors.", _FORMULA_HINT)
    terms = [term.strip() for term in rest.split("+")]
    if terms in ([""], ["1"]):
        raise ArgumentError(f"{formula!r} has no regressor right of ~.", "For the mean of the outcome, use mean().")
    return outcome.strip(), [term for term in terms if term != "1"]  # the intercept, which is always there


def _known_column(name: object, known: Mapping[str, Column]) -> Column:
    if not isinstance(name, str) or name not in known:
        if isinstance(name, str) and _ARITHMETIC.search(name):
            raise ArgumentError(f"The term {name!r} is not supported.", _TERM_HINT)
        raise SchemaError(
            f"There is no column {name!r} with bounds or categories.",
            f"The columns are {', '.join(map(repr, known))}. {_FORMULA_HINT}"
            if known
            else "Declare bounds: protect(..., bounds={...}).",
        )
    return known[name]


def _check_regressors(outcome: Column, regressors: Sequence[Column]) -> None:
    if not regressors:
        raise ArgumentError("No regressor is named.", _FORMULA_HINT)
    twice = [name for name, times in Counter(each.name for each in regressors).items() if times > 1]
    if twice:
        raise ArgumentError(f"The regressors {twice!r} are named twice.", "Name each regressor once.")
    if outcome.name in {each.name for each in regressors}:
        raise ArgumentError(f"The outcome {outcome.name!r} is also a regressor.", "Leave it out of the regressors.")
