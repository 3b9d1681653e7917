"""Parsing of regression designs, from a formula or from names of columns."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Column, SchemaError, col
from dfprivacy.expressions import computed_column
from dfprivacy_regression.design import Design

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy.expressions import Expression
    from dfprivacy.schema import Category

__all__ = ["linear_design", "logistic_design"]

_FACTOR_TERM = re.compile(r"C\(\s*(.*?)\s*\)")
_QUOTED = re.compile("`([^`]*)`")
_TERMS_MAX = 200
_LENGTH_MAX = 5000
_NAMED_EXPRESSION_HINT = (
    "Compute the column before the call, view.with_columns(name=...), and name it in the formula."
)
_FORMULA_HINT = (
    'Write "outcome ~ a + b + C(category) + log(c) + a:b", or give the names: outcome, ["a", "b"]. An intercept is '
    "always included."
)
_FUNCTIONS: dict[str, Any] = {
    **{name: getattr(np, name) for name in ("log", "log10", "log1p", "exp", "sqrt", "abs")},
    "I": lambda expression: expression,
}
_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.USub: operator.neg,
    ast.Invert: operator.invert, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class _Factor:
    """Factor of a term of a formula: a numeric or a categorical column, with the levels of the latter.

    Attributes
    ----------
    text : str
        The factor as it was written.
    column : Column
        The column, which is computed if the factor is a function.
    levels : tuple
        All categories of a categorical column; else empty.
    """

    text: str
    column: Column
    levels: tuple[Category, ...] = ()


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
    outcome, terms = _outcome_and_terms(y, x, known)
    column = _parse_factor(outcome, known).column
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
    outcome, terms = _outcome_and_terms(y, x, known)
    column = _parse_factor(outcome, known).column
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


def _outcome_and_terms(y: str, x: object, known: Mapping[str, Column]) -> tuple[str, list[tuple[str, ...]]]:
    """Return the name of the outcome, and the factors of each term on the right-hand side."""
    if x is not None:
        if not isinstance(x, Iterable):
            raise ArgumentError(f"x= takes names of columns, not a {type(x).__name__}.", _FORMULA_HINT)
        return y, [(term,) for term in ([x] if isinstance(x, str) else x)]
    outcome, tilde, rest = y.partition("~")
    if not tilde or "~" in rest:
        raise ArgumentError(f"{y!r} is not a formula of the form outcome ~ regressors.", _FORMULA_HINT)
    terms: list[tuple[str, ...]] = [(term.strip(),) for term in rest.split("+")]
    if terms != [("",)] and not all(term == "1" or term in known or _is_factor(term, known) for (term,) in terms):
        terms = _parsed_terms(rest)
    terms = [term for term in terms if term not in {("1",), ("",)}]  # the intercept, which is always there
    if not terms:
        raise ArgumentError(f"{y!r} has no regressor right of ~.", "For the mean of the outcome, use mean().")
    return outcome.strip(), terms


def _is_factor(term: object, known: Mapping[str, Column]) -> bool:
    named = _FACTOR_TERM.fullmatch(term) if isinstance(term, str) else None
    return named is not None and named[1] in known


def _parsed_terms(formula: str) -> list[tuple[str, ...]]:
    """Return the terms of a formula's right-hand side, with products after single factors."""
    from formulaic.errors import FormulaicError  # which takes a while, and plain formulas have no need of it
    from formulaic.parser import DefaultFormulaParser

    parser = DefaultFormulaParser()
    wrong = f"{formula.strip()[:100]!r} cannot be read as regressors"
    if len(formula) > _LENGTH_MAX:
        raise ArgumentError(f"{wrong}: it has more than {_LENGTH_MAX:,} characters.", _FORMULA_HINT)
    try:
        if _max_terms(parser.get_ast(formula)) > _TERMS_MAX:
            raise ArgumentError(
                f"{wrong}: it may expand to more than {_TERMS_MAX} terms.", "Write out the terms that you need."
            )
        terms: Any = parser.get_terms(formula).root
    except (FormulaicError, RecursionError, ValueError, SyntaxError) as error:
        why = re.sub(r"\x1b\[[0-9;]*m|\u29db|\u29da", "", str(error)).partition("\n")[0]
        raise ArgumentError(f"{wrong}: {why or 'it is nested too deep'}", _FORMULA_HINT) from None
    if isinstance(terms, tuple):
        raise ArgumentError(f"{wrong}: it has several parts, separated by | or ~.", _FORMULA_HINT)
    found = [tuple(_unquoted(factor.expr) for factor in term.factors) for term in terms]
    if ("1",) not in found:
        raise ArgumentError(f"{wrong}: it leaves the intercept out.", "An intercept is always included.")
    return sorted(found, key=len)


def _max_terms(node: Any) -> float:
    """Return an upper bound of the number of terms that a parsed formula expands to."""
    parts = [_max_terms(part) for part in getattr(node, "args", ())]
    match str(getattr(node, "operator", "")):
        case "**" | "^":
            base, power = parts[0], re.fullmatch(r"[0-9]{1,2}", str(node.args[1]))
            return math.inf if power is None else (base + 1) ** float(power[0])
        case "*" | "/" | "in":
            return (parts[0] + 1) * (parts[-1] + 1)
        case ":":
            return math.prod(parts)
    return max(sum(parts), 1.0)


def _unquoted(text: str) -> str:
    named = _QUOTED.fullmatch(text)
    return named[1] if named else text


def _parse_factor(text: object, known: Mapping[str, Column]) -> _Factor:
    """Parse a factor of a term: a column, C(column), or an expression of columns."""
    if isinstance(text, str) and text in known:
        column = known[text]
        return (
            _Factor(text, column)
            if column.bounds is not None
            else _Factor(f"C({text})", column, column.categories or ())
        )
    named = _FACTOR_TERM.fullmatch(text) if isinstance(text, str) else None
    if named is not None:
        column = _known_column(_unquoted(named[1]), known)
        if column.categories is None:
            raise SchemaError(
                f"Column {column.name!r} has no categories.",
                "Declare its categories: protect(..., categories={...}).",
            )
        return _Factor(f"C({column.name})", replace(column, bounds=None), column.categories)
    expression = _parse_expression(text, known)
    column = computed_column(
        str(text), expression, {name: _known_column(name, known) for name in expression.node.columns}
    )
    return (
        _Factor(str(text), column)
        if column.bounds is not None
        else _Factor(str(text), column, column.categories or ())
    )


def _parse_expression(text: object, known: Mapping[str, Column]) -> Expression:
    """Parse an expression of columns, such as ``log(income)`` or ``I(age ** 2)``."""
    if not isinstance(text, str) or text.isidentifier() or "(" not in text:
        _known_column(text, known)  # which is not there
    names: dict[str, str] = {}

    def quoted(found: re.Match[str]) -> str:
        return names.setdefault(found[1], f"quoted_{len(names)}")

    try:
        tree = ast.parse(_QUOTED.sub(quoted, str(text)).strip(), mode="eval").body
        found: Expression = _evaluate(tree, {place: name for name, place in names.items()})
    except (SyntaxError, ValueError, RecursionError, MemoryError, KeyError, TypeError):
        raise ArgumentError(
            f"The term {str(text)[:100]!r} is not supported.",
            f"Supported are + - * / ** in I(...), and {', '.join(_FUNCTIONS)} of columns. {_NAMED_EXPRESSION_HINT}",
        ) from None
    return found


def _evaluate(tree: ast.AST, names: Mapping[str, str]) -> Any:
    """Return the value of a parsed expression; raise KeyError or TypeError if an operation is not supported."""
    match tree:
        case ast.Name(name):
            return col(names.get(name, name))
        case ast.Constant(value) if isinstance(value, str | int | float):
            return value
        case ast.UnaryOp(op, of):
            return _OPERATORS[type(op)](_evaluate(of, names))
        case ast.BinOp(left, op, right):
            return _OPERATORS[type(op)](_evaluate(left, names), _evaluate(right, names))
        case ast.Compare(left, [op], [right]):
            return _OPERATORS[type(op)](_evaluate(left, names), _evaluate(right, names))
        case ast.Call(ast.Name(name) | ast.Attribute(ast.Name("np"), name), [of], []):
            return _FUNCTIONS[name](_evaluate(of, names))
    raise TypeError


def _regressors(
    outcome: Column, terms: Sequence[tuple[str, ...]], known: Mapping[str, Column]
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the numeric and the categorical regressors; a product of several columns is numeric."""
    numbers, categorical = list[Column](), list[Column]()
    spanned: dict[frozenset[str], set[frozenset[str]]] = {frozenset(): {frozenset()}}
    for term in (tuple(_parse_factor(text, known) for text in term) for term in terms):
        of_numbers = frozenset(factor.text for factor in term if not factor.levels)
        codings = _factor_codings(
            [factor.text for factor in term if factor.levels], spanned.setdefault(of_numbers, set())
        )
        if len(term) > 1:
            numbers += [column for coding in codings for column in _product_columns(term, coding)]
        elif term[0].levels:
            categorical.append(term[0].column)
        else:
            numbers.append(term[0].column)
    _check_regressors(outcome, [*numbers, *categorical])
    for each in categorical:
        if len(each.categories or ()) < 2:  # noqa: PLR2004 - the first is what others are compared with
            raise ArgumentError(
                f"Column {each.name!r} has one category, so it is constant.", "Omit it from the regressors."
            )
    return tuple(numbers), tuple(categorical)


def _factor_codings(names: Sequence[str], spanned: set[frozenset[str]]) -> list[dict[str, bool]]:
    """Choose the coding of a term's categorical factors that avoids collinear columns, as patsy does.

    Parameters
    ----------
    names : sequence of str
        The categorical factors of the term.
    spanned : set of frozenset of str
        Products of contrasts that other terms with the same numeric factors have; those of this term are added.

    Returns
    -------
    list of dict of str to bool
        By factor, whether all its levels have a column, or all but the first.
    """
    subsets = (frozenset(chosen) for size in range(len(names) + 1) for chosen in combinations(names, size))
    codings = [dict.fromkeys(sorted(subset, key=names.index), False) for subset in subsets if subset not in spanned]
    spanned |= {frozenset(coding) for coding in codings}
    merged = True
    while merged:  # contrasts of one factor, with and without another, are all levels of the other
        merged = False
        for short, long in combinations(codings, 2):
            more = long.keys() - short.keys()
            if len(more) == 1 and long.items() >= short.items() and not long[name := next(iter(more))]:
                codings = [each for each in codings if each is not long and each is not short]
                codings.append({**long, name: True})
                merged = True
                break
    return codings


def _product_columns(term: Sequence[_Factor], coding: Mapping[str, bool]) -> list[Column]:
    """Return the computed columns of a product of factors, one for each combination of coded levels."""
    choices = []
    for factor in (each for each in term if not each.levels or each.text in coding):
        if not factor.levels:
            choices.append([(factor.text, col(factor.column.name))])
            continue
        mark, first = ("", 0) if coding[factor.text] else ("T.", 1)
        choices.append(
            [(f"{factor.text}[{mark}{level}]", col(factor.column.name) == level) for level in factor.levels[first:]]
        )
    columns = {factor.column.name: factor.column for factor in term}
    made: list[Column] = []
    for chosen in product(*choices):
        names, parts = zip(*chosen, strict=True)
        made.append(computed_column(":".join(names), reduce(operator.mul, parts), columns))
    return made


def _known_column(name: object, known: Mapping[str, Column]) -> Column:
    if not isinstance(name, str) or name not in known:
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
        raise ArgumentError(f"The outcome {outcome.name!r} is also a regressor.", "Omit it from the regressors.")
