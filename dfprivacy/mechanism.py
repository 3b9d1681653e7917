"""What a plugin writes: a function of a curator, marked with `mechanism`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from dfprivacy.errors import ArgumentError, PluginError, SchemaError
from dfprivacy.frames import adapt
from dfprivacy.frames.values import plain_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfprivacy.schema import Schema

__all__ = ["Mechanism", "mechanism", "public_table"]

Kind = Literal["numeric", "category", "columns"]
Names = Kind | list[Kind] | Literal["public", "view"]
_KINDS: tuple[object, ...] = (*get_args(Kind), ["numeric"], ["category"], "public", "view")

_PRICE = {
    "epsilon": "epsilon : float, str or None\n"
    '    The privacy to pay: a number, an exact string such as ``"1/3"``, ``"rest"`` for all that is left, or\n'
    "    None for the view's ``default_epsilon``.",
    "delta": "delta : float, str or None\n    The delta to pay; None for the budget's in proportion to epsilon.",
    "fresh": "fresh : bool, default False\n"
    "    Pay for a new answer even if the ledger holds one to the same question.",
}
_HELD = (
    "\n    Where neither is given, the answer is for whoever holds the table, and nobody else: exact, free, not"
    "\n    private, and no release."
)


@dataclass(frozen=True)
class Mechanism:
    """A differentially private method, as the views offer it.

    Attributes
    ----------
    name : str
        Its name as a method of a view.
    function : callable
        ``function(curator, ...) -> Release``.
    columns : mapping of str to {"numeric", "category", ["numeric"], ["category"], "columns", "public", "view"}
        The parameters that name columns, and what kind each must be; in brackets if it takes a list of them.
        ``"columns"``: one name or a list, each with bounds or categories. ``"public"``: the name of a public
        column, or something that is no name. ``"view"``: the parameter takes a second view.
    tables : tuple of str
        The parameters that take a public table.
    delta : bool
        Whether it takes a delta.
    local : bool
        Whether its release holds one randomised message for each row.
    planner : callable or None
        ``planner(curator, ...) -> dict``: what the method could find out, from public numbers only.
    preparer : callable or None
        ``preparer(curator, ...) -> dict``: arguments to put in place of those given, before anything is paid.
    holder : callable or None
        ``holder(holder, ...)``: what whoever holds the table may compute for themselves, without an epsilon.
    origin : str
        Distribution and version it comes from; filled in by the loader.
    """

    name: str
    function: Callable[..., Any]
    columns: Mapping[str, Names] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    delta: bool = False
    local: bool = False
    planner: Callable[..., Mapping[str, Any]] | None = None
    preparer: Callable[..., Mapping[str, Any]] | None = None
    holder: Callable[..., Any] | None = None
    origin: str = ""

    def __post_init__(self) -> None:
        for attribute in ("__doc__", "__module__"):  # so that help() shows the function's
            object.__setattr__(self, attribute, getattr(self.function, attribute))
        if not self.name.isidentifier() or self.name.startswith("_"):
            raise PluginError(f"{self.name!r} cannot be the name of a method.", "Use a plain identifier.")
        own = inspect.signature(self.function).parameters
        if not own:
            raise PluginError(f"Mechanism {self.name!r} takes no curator.", "Make it the first parameter.")
        unknown = [name for name in (*self.columns, *self.tables) if name not in own]
        taken = [name for name in (*_PRICE, "self") if name in own]
        if unknown or taken:
            raise PluginError(
                f"Mechanism {self.name!r} has no parameter {unknown!r}."
                if unknown
                else f"Mechanism {self.name!r} has a parameter {taken!r}, which the core adds.",
                "Take those of columns= and tables= from the function, which has no epsilon, delta and fresh.",
            )
        if self.holder is not None and "view" in self.columns.values():
            raise PluginError(
                f"Mechanism {self.name!r} takes a second view, which has a holder of its own.",
                "Leave out holds(), or let prepares() ask the other view.",
            )
        _, *asked = own.values()
        for one in asked:
            if one.kind not in {one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY}:
                raise PluginError(
                    f"Mechanism {self.name!r} has a parameter {one} that is not passed by name.",
                    "Name every parameter: a question is written down with its arguments by name.",
                )
        for parameter, kind in self.columns.items():
            if kind not in _KINDS:
                raise PluginError(
                    f"columns={{{parameter!r}: {kind!r}}} of mechanism {self.name!r} is unknown.",
                    'Use "numeric" or "category" for one column, ["numeric"] or ["category"] for a list of them, '
                    '"columns" for one or several of either, "public" for a public one, "view" for a second view.',
                )

    def __call__(self, curator: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self.function(curator, *args, **kwargs)

    @property
    def signature(self) -> inspect.Signature:
        """The signature of the method of a view: that of the function, and the price."""
        _, *own = inspect.signature(self.function).parameters.values()
        prices = [name for name in _PRICE if name != "delta" or self.delta]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False if name == "fresh" else None)
            for name in prices
        ]
        return inspect.Signature([*own, *added])

    @property
    def doc(self) -> str:
        """The docstring of the method of a view: that of the function, with the price's parameters."""
        text = inspect.getdoc(self.function) or ""
        prices = _PRICE if self.holder is None else {**_PRICE, "epsilon": _PRICE["epsilon"] + _HELD}
        added = "\n".join(prices[name] for name in prices if name in self.signature.parameters)
        head, mark, tail = text.partition("Parameters\n----------\n")
        if not mark:
            return f"{text}\n\nParameters\n----------\n{added}"
        own, gap, rest = tail.partition("\n\n")
        return f"{head}{mark}{own}\n{added}{gap}{rest}"

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Match the arguments of a call with the function's parameters, defaults filled in.

        Parameters
        ----------
        args : sequence
            Arguments by position.
        kwargs : mapping
            Arguments by name.

        Returns
        -------
        dict
            The arguments by parameter.

        Raises
        ------
        ArgumentError
            If they do not match.
        """
        _, *own = inspect.signature(self.function).parameters.values()
        try:
            bound = inspect.Signature(own).bind(*args, **kwargs)
        except TypeError as error:
            bare = [p.replace(annotation=inspect.Parameter.empty) for p in self.signature.parameters.values()]
            hint = f"It is called {self.name}{inspect.Signature(bare)}."
            raise ArgumentError(f"{self.name}(): {error}.", hint) from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            what = f"{self.name}(): {name}"
            if name in self.tables and value is not None:
                bound.arguments[name] = public_table(value, what)
            else:
                refuse_data(what, value)
        return dict(bound.arguments)

    def resolve(self, schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Replace column names by what is public about the columns.

        Parameters
        ----------
        schema : Schema
            What is public about the table.
        arguments : mapping
            The arguments by parameter.

        Returns
        -------
        dict
            The same, with a `Column` for the name of each.

        Raises
        ------
        SchemaError
            If a column is not there, or not of the kind the method needs.
        """

        def look_up(parameter: str, kind: Names) -> Any:
            given = arguments[parameter]
            if kind == "view" or (given is None and self.signature.parameters[parameter].default is None):
                return None
            if kind == "public":
                return schema.public(given) if isinstance(given, str) else given
            if kind == "columns":
                names = given if isinstance(given, list | tuple) else [given]
                return tuple(schema.described(item) for item in names)
            find = schema.numeric if kind in ("numeric", ["numeric"]) else schema.categorical
            if not isinstance(kind, list):
                return find(given)
            if not isinstance(given, list | tuple):
                raise SchemaError(
                    f"{self.name}(): {parameter} takes a list of columns, not a {type(given).__name__}.",
                    f"For example {parameter}=['age', 'income'].",
                )
            return tuple(find(item) for item in given)

        return {**arguments, **{parameter: look_up(parameter, kind) for parameter, kind in self.columns.items()}}

    def plans(self, planner: Callable[..., Mapping[str, Any]]) -> Mechanism:
        """Return the same mechanism with a planner, which ``explain`` calls.

        Parameters
        ----------
        planner : callable
            ``planner(curator, ...)`` with the same arguments as the function; it may use what is public on the
            curator, and returns a dictionary of what the method could find out.

        Returns
        -------
        Mechanism
            The mechanism to register.
        """
        return replace(self, planner=planner)

    def prepares(self, preparer: Callable[..., Mapping[str, Any]]) -> Mechanism:
        """Return the same mechanism with a preparer, for an argument that may be another view.

        Parameters
        ----------
        preparer : callable
            ``preparer(curator, ...)`` with the same arguments as the function; it may use what is public on the
            curator, ask another view a question, at the price of that view's account, and returns a dictionary of
            the arguments that change. It runs whenever the method is asked, before the question is looked up in
            the ledger or paid, and never for ``explain``.

        Returns
        -------
        Mechanism
            The mechanism to register.
        """
        return replace(self, preparer=preparer)

    def holds(self, holder: Callable[..., Any]) -> Mechanism:
        """Return the same mechanism with a form for whoever holds the table, which takes no epsilon.

        Parameters
        ----------
        holder : callable
            ``holder(holder, ...)`` with the same arguments as the function, and a `Holder` for its curator, which
            shows rows as they are. It is called where neither the call nor the view has an epsilon. Nothing is
            charged or kept, and what it returns is no `Release`: it is a function of the rows without noise, and
            has to say so itself.

        Returns
        -------
        Mechanism
            The mechanism to register.
        """
        return replace(self, holder=holder)


def refuse_data(what: str, value: object) -> None:
    """Refuse a column or a table: nothing that a question is made of may be data, for it is kept and quoted."""
    library = type(value).__module__.partition(".")[0]
    if isinstance(value, Sized) and library in {"pandas", "polars", "pyarrow"}:
        raise ArgumentError(
            f"{what} is a {type(value).__name__}; questions are made of public values only.",
            "Pass the name of a column, or the values as numbers, strings or a list of them.",
        )


def public_table(table: object, what: str) -> dict[str, list[Any]]:
    """Public rows of any kind as plain values.

    Parameters
    ----------
    table : mapping of str to sequence, or a frame
        Public rows: values by column, or a frame of any library that can be protected.
    what : str
        Its name, for errors.

    Returns
    -------
    dict of str to list
        Numbers, strings and booleans by column; dates as days since 1970-01-01.

    Raises
    ------
    ArgumentError
        If it is no table, or names a column twice.
    """
    if isinstance(table, Mapping):
        lists = dict(table)
        if not all(
            isinstance(name, str) and isinstance(values, Sized) and not isinstance(values, str)
            for name, values in lists.items()
        ):
            raise ArgumentError(
                f"{what} must have a list of values for each column.", "For example {'age': [20, 40], ...}."
            )
    else:
        frame = adapt(table)
        if len(set(frame.columns)) < len(frame.columns):
            raise ArgumentError(f"{what} names a column twice.", "Give each column a name of its own.")
        lists = frame.lists(frame.columns)
    return {name: [_plain(value) for value in values] for name, values in lists.items()}


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | bool | int | float) else plain_number(value)


def mechanism(
    *,
    name: str | None = None,
    columns: Mapping[str, Names] | None = None,
    tables: Sequence[str] = (),
    delta: bool = False,
    local: bool = False,
) -> Callable[[Callable[..., Any]], Mechanism]:
    """Mark a function as a mechanism.

    Parameters
    ----------
    name : str, optional
        Its name as a method of a view; default: the function's.
    columns : mapping of str to kind, optional
        The parameters that name columns. In place of the name the function receives a `Column`, checked to have
        bounds (``"numeric"``) or categories (``"category"``); where the kind is in brackets, a tuple of them in
        place of a list of names; where it is ``"columns"``, a tuple in place of one name or a list, each with
        bounds or categories. ``"public"``: a public column, which need have neither; what is no string stays as it
        is. None stays None where it is the default. ``"view"``: the parameter, None by default, takes a second
        view. Then the function is asked of both tables as one, both accounts are charged, and in place of the view
        it receives a public `Column` with a category for each of the two tables.
    tables : sequence of str, optional
        The parameters that take a public table: a frame of any library, or a mapping of lists. The function
        receives a dictionary of lists. The question is kept with its values, or with a digest of them if they are
        many, so they must be public; elsewhere a frame is refused.
    delta : bool, default False
        Whether the method takes a delta (for Gaussian noise).
    local : bool, default False
        Whether its release holds one randomised message for each row, as `dfprivacy.Curator.randomize` makes them.
        A release of any other mechanism must hold nothing as long as the table.

    Returns
    -------
    callable
        What turns the function into a `Mechanism`.

    Examples
    --------
    >>> from dfprivacy import mechanism, features
    >>> @mechanism(columns={"column": "numeric"})
    ... def average(curator, column):
    ...     "The mean of a bounded column."
    ...     total = curator.sum(features.Moments(column, degree=1)).values[0]
    ...     return column.mid + column.half * total / curator.size
    >>> average.signature
    <Signature (column, *, epsilon=None, fresh=False)>
    """

    def mark(function: Callable[..., Any]) -> Mechanism:
        return Mechanism(
            name or str(getattr(function, "__name__", "")),
            function,
            columns=columns or {},
            tables=tuple(tables),
            delta=delta,
            local=local,
        )

    return mark
