"""Readers of the aggregations that are asked for, which refuse while nothing is paid."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dfprivacy import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Column

__all__ = ["Aggregation", "columns_of", "each_once", "read"]

OF_NUMBERS = ("count", "missing", "mean", "sum", "var", "std", "median")
OF_LABELS = ("count", "missing", "top", "freq")
_INSTEAD = {  # what dataframes have, and nobody can be told
    "min": 'It is one person\'s value. Ask for a quantile near the end, such as "1%".',
    "max": 'It is one person\'s value. Ask for a quantile near the end, such as "99%".',
    "first": "It is one person's value.",
    "last": "It is one person's value.",
    "nunique": "It has a measurement of its own: view.nunique(column).",
    "n_unique": "It has a measurement of its own: view.nunique(column).",
    "size": 'Rows with a value are "count".',
    "len": 'Rows with a value are "count".',
    "null_count": 'Rows without a value are "missing".',
    "mode": 'The most frequent category is "top", and its rows "freq".',
    "quantile": 'Write the share as in describe: "25%".',
}


@dataclass(frozen=True)
class Aggregation:
    """One aggregation.

    Attributes
    ----------
    name : str
        What it is called in the answer.
    column : str
        Of which column.
    statistic : str
        Which.
    """

    name: str
    column: str
    statistic: str

    @property
    def share(self) -> float | None:
        """The share of rows at or below it, if it is a quantile."""
        if self.statistic == "median":
            return 0.5
        written = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)%", self.statistic)
        return None if written is None else float(written[1]) / 100


def each_once(columns: Sequence[Column] | None, **_: object) -> None:
    """Check that columns are named, each once, before anything is paid; None names all."""
    names = None if columns is None else [column.name for column in columns]
    if names is not None and (not names or len(set(names)) < len(names)):
        raise ArgumentError(f"columns={names!r} must name at least one column, each once.", "Name each once.")


def read(aggregations: object, named: Mapping[str, object]) -> tuple[Aggregation, ...]:
    """Read what is asked for: statistics by column, or pairs of column and statistic by name.

    Parameters
    ----------
    aggregations : mapping or None
        ``{"age": "mean", "income": ["mean", "std"]}``.
    named : mapping
        ``{"oldest": ("age", "99%")}``; a name with a statistic, or a list of them, is that of a column.

    Returns
    -------
    tuple of Aggregation
        In the order asked.

    Raises
    ------
    ArgumentError
        If something is no aggregation, or two have one name.
    """
    if not isinstance(aggregations, Mapping | None):
        raise ArgumentError(
            f"agg() takes statistics by column, not a {type(aggregations).__name__}.",
            'For example agg({"age": ["mean", "std"]}), or agg(mean_age=("age", "mean")).',
        )
    every = []
    by_column = [*(aggregations or {}).items(), *((name, each) for name, each in named.items() if _of_column(each))]
    for column, statistics in by_column:
        several = statistics if isinstance(statistics, list | tuple) else [statistics]
        every += [_checked(f"{column}_{each}", column, each) for each in several]
    for name, pair in named.items():
        if _of_column(pair):
            continue
        if not isinstance(pair, list | tuple) or len(pair) != 2:  # noqa: PLR2004
            given = repr(pair)[:100] if isinstance(pair, str | int | float | list | tuple) else type(pair).__name__
            raise ArgumentError(f"{name}={given} is no aggregation.", f'For example {name}=("age", "mean").')
        every.append(_checked(name, *pair))
    if not every:
        raise ArgumentError("agg() was asked for nothing.", 'For example agg({"age": ["mean", "std"]}).')
    names = [each.name for each in every]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError(
            f"Two aggregations are called {twice[0]!r}.", "Name each in its own way: agg(name=(column, statistic))."
        )
    return tuple(every)


def _of_column(given: object) -> bool:
    """Return whether statistics of the column of that name are given, not a pair of column and statistic."""
    several = given if isinstance(given, list) else [given]
    return bool(several) and all(isinstance(each, str) and _statistic(each) for each in several)


def _statistic(name: str) -> bool:
    share = Aggregation("", "", name).share
    return name in {*OF_NUMBERS, *OF_LABELS} or (share is not None and 0 <= share <= 1)


def _checked(name: str, column: object, statistic: object) -> Aggregation:
    if not isinstance(column, str):
        raise ArgumentError(f"{name}: a column is named by a string, not by a {type(column).__name__}.")
    if isinstance(statistic, str):
        if _statistic(statistic):
            return Aggregation(name, column, statistic)
        if statistic in _INSTEAD:
            raise ArgumentError(f"No column is aggregated by {statistic!r}.", _INSTEAD[statistic])
    written = getattr(statistic, "__name__", statistic) if callable(statistic) else statistic
    near = difflib.get_close_matches(str(written)[:100], {*OF_NUMBERS, *OF_LABELS}, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise ArgumentError(
        f"{written!r} is no aggregation of {column!r}."
        if not callable(statistic)
        else "A function is no aggregation.",
        f'{hint}Of numbers: {", ".join(OF_NUMBERS)}, or a quantile such as "25%"; of categories: '
        f"{', '.join(OF_LABELS)}.",
    )


def columns_of(aggregations: Sequence[Aggregation], columns: Sequence[Column]) -> dict[str, Column]:
    """Find the columns that are asked for, and check that each can be aggregated so.

    Parameters
    ----------
    aggregations : sequence of Aggregation
        The aggregations.
    columns : sequence of Column
        All columns that have bounds or categories.

    Returns
    -------
    dict of str to Column
        Those asked for, in order.

    Raises
    ------
    ArgumentError
        If a column is not among them, or has no such statistic.
    """
    known = {column.name: column for column in columns}
    for each in aggregations:
        column = known.get(each.column)
        if column is None:
            near = difflib.get_close_matches(each.column, known, n=1)
            raise ArgumentError(
                f"There is no column {each.column!r} with bounds or categories.",
                (f"Did you mean {near[0]!r}?" if near else f"They are {[*known]!r}.")
                + f" Bounds of numbers that nobody knows: view.find_bounds({each.column!r}, epsilon=...).",
            )
        allowed = OF_LABELS if column.bounds is None else OF_NUMBERS
        if each.statistic not in allowed and not (each.share is not None and column.bounds is not None):
            kind = "categories" if column.bounds is None else "numbers"
            raise ArgumentError(
                f"{each.column!r} is a column of {kind}, which has no {each.statistic!r}.",
                f"It has {', '.join(allowed)}.",
            )
    return {each.column: known[each.column] for each in aggregations}
