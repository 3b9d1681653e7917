"""Column of a view: the view's methods about one column, with that column as first argument."""

from __future__ import annotations

import difflib
import inspect
import re
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from dfprivacy._plugins.loader import registry
from dfprivacy.errors import ArgumentError, trimmed
from dfprivacy.markup import escaped

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfprivacy._call.explanation import Explanation
    from dfprivacy.mechanism import Mechanism
    from dfprivacy.schema import Column

__all__ = ["DATAFRAME_HINTS", "ColumnView", "Presences"]

_PERSON = (
    "The extreme is one person's value. Ask for a quantile near it: "
    "view.quantile(column, [0.01, 0.99], epsilon=...)."
)
_ROWS = "The number of rows is in view.schema.size, or private: view.count(epsilon=...)."
DATAFRAME_HINTS = {  # methods of dataframes that views, or grouped views, lack: what to use instead
    **dict.fromkeys(
        ("where", "filter", "select", "with_columns", "assign", "per", "join"),
        "Select rows and columns first, and group then: view.where(...).group_by(...).",
    ),
    **dict.fromkeys(("min", "max"), _PERSON),
    **dict.fromkeys(
        ("head", "tail", "sample", "iloc", "loc", "values", "unique", "first", "last"),
        ("Rows are never shown. Explore the table with view.describe(epsilon=...)."),
    ),
    **dict.fromkeys(("shape", "size", "len"), _ROWS),
    "columns": "The names of the columns are list(view).",
    "dtypes": "The public facts about each column are in view.schema; the view displays them.",
    "mode": "The most frequent category is the first of view.value_counts(column, epsilon=...).",
    "hist": "It is called histogram.",
    "null_count": "It is called missing.",
    "query": "Select rows with view.where(age=(low, high)), or view.where(sex='f').",
}


class _ViewInterface(Protocol):
    """Interface of views, with or without groups, whose columns `ColumnView` represents."""

    def explain(self, method: str, /, *args: Any, **kwargs: Any) -> Explanation:
        """Explain what a method would measure, and at what price."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a method by its name."""

    def __getitem__(self, name: list[str], /) -> Any:
        """Return a view of some columns."""


class ColumnView:
    """One column of a view, or of a view with groups: ``view["age"]``.

    It has the methods of all installed plugins whose first parameter names a column, without that parameter:
    ``view["age"].mean(epsilon=0.5)`` is ``view.mean("age", epsilon=0.5)``. It holds no values.
    """

    def __init__(self, view: _ViewInterface, column: Column) -> None:
        self._view = view
        self._column = column

    @property
    def name(self) -> str:
        """Name of the column."""
        return self._column.name

    @trimmed
    def explain(self, method: str, /, *args: Any, **kwargs: Any) -> Explanation:
        """Explain what a method would measure in this column, with which noise and at what price.

        Parameters
        ----------
        method : str
            The method's name.
        *args, **kwargs
            Arguments of the method, without the column.

        Returns
        -------
        Explanation
            The plan, as of `PrivateFrame.explain`.
        """
        return self._view.explain(method, self.name, *args, **kwargs)

    @trimmed
    def agg(self, statistics: str | list[str], /, **kwargs: Any) -> Any:
        """Compute several statistics of this column: ``view["age"].agg(["mean", "std"], epsilon=0.5)``.

        Parameters
        ----------
        statistics : str or list of str
            Names of statistics, as the method `agg` takes them.
        **kwargs
            Other arguments of `agg`, and the price.

        Returns
        -------
        Release
            The statistics.
        """
        return self._view.agg({self.name: statistics}, **kwargs)

    def isna(self) -> Presences:
        """Select the rows without a value in this column, to count them: ``view["age"].isna().sum(epsilon=0.1)``.

        Returns
        -------
        Presences
            Its ``sum`` is the method `missing` of this column.
        """
        return Presences(self, "missing")

    def notna(self) -> Presences:
        """Select the rows with a value in this column, to count them: ``view["age"].notna().sum(epsilon=0.1)``.

        Returns
        -------
        Presences
            Its ``sum`` is the method `count` of this column.
        """
        return Presences(self, "count")

    isnull = is_null = isna
    notnull = is_not_null = notna

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):  # what Python and notebooks probe for
            raise AttributeError(name)
        mechanism = registry(name).mechanisms.get(name)
        first = None if mechanism is None else _column_parameter(mechanism)
        if mechanism is None or first is None:
            raise AttributeError(f"A column has no method {name!r}. {self._suggest(name, mechanism)}")
        bound = getattr(self._view, name)

        @trimmed
        def method(*args: Any, **kwargs: Any) -> Any:
            return bound(self.name, *args, **kwargs)

        signature = inspect.signature(bound)
        _, *rest = signature.parameters.values()
        method.__name__ = method.__qualname__ = name
        method.__doc__ = _drop_parameter(mechanism.doc, first)
        method.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return method

    def _suggest(self, name: str, mechanism: Mechanism | None) -> str:
        if mechanism is not None:
            return f"{name}() belongs to the view: view.{name}(...)."
        if name in DATAFRAME_HINTS:
            return DATAFRAME_HINTS[name]
        known = [*self._method_names(), "explain", "isna", "notna"]
        near = difflib.get_close_matches(name, known, n=1)
        return f"Did you mean {near[0]!r}?" if near else f"The methods of this column are {sorted(known)!r}."

    def _method_names(self) -> list[str]:
        """Return the names of the methods for this column, by its bounds and categories."""
        named = ((name, each, _column_parameter(each)) for name, each in registry().mechanisms.items())
        kinds = {name: each.columns[first] for name, each, first in named if first is not None}
        known = {
            "numeric": self._column.bounds is not None,
            "category": self._column.categories is not None,
            "any": True,
        }
        known["columns"] = known["numeric"] or known["category"]
        return [name for name, kind in kinds.items() if known[str(kind)]]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._method_names()})

    def _refuse_comparison(self, _: object) -> NoReturn:
        raise ArgumentError(
            "Private columns cannot be compared row by row.",
            f"Select rows with view.where({self.name}=(low, high)), or view.where({self.name}=[...]).",
        )

    __lt__ = __le__ = __gt__ = __ge__ = _refuse_comparison

    def __repr__(self) -> str:
        return f"Column {self.name!r} of\n{self._view[[self.name]]!r}"

    def _repr_html_(self) -> str:
        return f"<p>Column {escaped(repr(self.name))} of</p>{self._view[[self.name]]._repr_html_()}"


class Presences:
    """Rows with, or without, a value in a column; ``sum`` releases their noisy number.

    Attributes
    ----------
    sum : callable
        The method that counts the rows, with its parameters and its price.
    """

    def __init__(self, column: ColumnView, method: str) -> None:
        self._column = column
        self._method = method

    @property
    def sum(self) -> Callable[..., Any]:
        """Method that counts these rows with noise."""
        counted: Callable[..., Any] = getattr(self._column, self._method)
        return counted

    def __repr__(self) -> str:
        return f"Where {self._column.name!r} is {self._method}: sum(epsilon=...) counts these rows"


def _column_parameter(mechanism: Mechanism) -> str | None:
    """Return the first parameter of a mechanism, if it takes the name of one column."""
    first = next(iter(mechanism.signature.parameters))
    kind = mechanism.columns.get(first)
    return first if kind in ("numeric", "category", "any", "columns") else None


def _drop_parameter(doc: str, parameter: str) -> str:
    """Remove the entry of a parameter from a docstring."""
    return re.sub(rf"^{parameter} : .*\n(?:[ \t]+.*\n)*", "", doc, count=1, flags=re.MULTILINE)
