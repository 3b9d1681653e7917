"""Mechanisms as methods of a view: signature, docstring, checks of arguments, and calls of their functions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Literal, get_args

from dfprivacy._privacy.filters import NUMBER, exact
from dfprivacy._table.frames import adapt
from dfprivacy.arguments import checked, fits, hints
from dfprivacy.errors import ArgumentError, PluginError, SchemaError, quoted
from dfprivacy.release import Exact, Release, Value
from dfprivacy.schema import Column
from dfprivacy.schema.values import plain_number

if TYPE_CHECKING:
    from dfprivacy.schema import Schema

__all__ = ["MethodSignature", "Names", "check_public_argument", "public_table"]

Kind = Literal["numeric", "category", "columns", "any", "all"]
Names = Kind | list[Kind] | Literal["public", "view"]
_KINDS: tuple[object, ...] = (*get_args(Kind), ["numeric"], ["category"], ["any"], "public", "view")

_NAME_TYPES: Mapping[object, Any] = {
    "numeric": str,
    "category": str,
    "any": str,
    "columns": str | Sequence[str],
    "all": str | Sequence[str] | None,
    ("numeric",): Sequence[str],
    ("category",): Sequence[str],
    ("any",): Sequence[str],
    "view": "PrivateFrame",
}
"""Type of the argument for each kind of column."""

_PRICE = {
    "epsilon": "epsilon : float, str or None\n"
    '    The privacy to pay: a number, an exact string such as ``"1/3"``, ``"rest"`` for all that is left, or\n'
    "    None for the view's ``default_epsilon``.",
    "delta": "delta : float, str or None\n    The delta to pay; None for the budget's in proportion to epsilon.",
    "fresh": "fresh : bool, default False\n"
    "    Pay for a new answer even if the ledger holds one to the same question.",
}

_HINT = (
    "The first parameter of the concluding function receives the result of the measuring function. Set the default "
    "of a parameter that both have in the measuring function."
)

ITEMS_MAX = 250_000
"""Largest number of items in a question's arguments."""

_TEXT_MAX = 10**5  # characters of a text
_DEPTH_MAX = 20  # lists in lists
_BITS_MAX = 1000  # of an integer: it is a float as well
_TABLE_LIBRARIES = {"pandas", "polars", "pyarrow", "duckdb", "_duckdb", "dask", "pyspark"}
_SMALL_TYPES = (bool, float, type(None))
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class MethodSignature:
    """A mechanism as a method of a view: functions that measure and conclude; see `Mechanism`."""

    name: str
    function: Callable[..., Any]
    columns: Mapping[str, Names] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    delta: bool = False
    local: bool = False
    planner: Callable[..., Mapping[str, Any]] | None = None
    maker: Callable[..., Mapping[str, Any]] | None = None
    finder: Callable[[Any], Any] | None = None
    preparer: Callable[..., Mapping[str, Any]] | None = None
    own: MethodSignature | None = None
    exact: bool = False
    conclusion: Callable[..., Any] | None = None
    reader: Callable[..., tuple[float, Any] | None] | None = None
    sources: tuple[str, ...] = ()
    check: Callable[..., object] | None = None
    origin: str = ""

    def __post_init__(self) -> None:
        for attribute in ("__doc__", "__module__"):  # so that help() shows the function's
            object.__setattr__(self, attribute, getattr(self.function, attribute))
        if not self.name.isidentifier() or self.name.startswith("_"):
            raise PluginError(f"{self.name!r} cannot be the name of a method.", "Use a plain identifier.")
        own = inspect.signature(self.function).parameters
        if not own:
            raise PluginError(f"Mechanism {self.name!r} takes no curator.", "Make curator the first parameter.")
        parameters = _joint_parameters(self.name, self.function, self.conclusion)
        known = {*own, *(one.name for one in parameters)}
        unknown = [name for name in (*self.columns, *self.tables) if name not in own]
        taken = [name for name in (*_PRICE, "self") if name in known]
        if unknown or taken:
            raise PluginError(
                f"Mechanism {self.name!r} has no parameter {unknown!r}."
                if unknown
                else f"Mechanism {self.name!r} has a parameter {taken!r}, a name that dfprivacy uses itself.",
                "In columns= and tables=, name parameters of the function; none may be epsilon, delta or fresh.",
            )
        if self.own is not None:
            self._store_owner_form(self.own)
        for one in parameters:
            gathers = one.kind is one.VAR_KEYWORD and one.name in own
            if one.kind not in {one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY} and not gathers:
                raise PluginError(
                    f"Mechanism {self.name!r} has a parameter {one} that cannot be passed by name.",
                    "Use parameters that can be passed by name: a question is stored with its arguments by name.",
                )
        for parameter, kind in self.columns.items():
            if kind not in _KINDS:
                raise PluginError(
                    f"columns= of mechanism {self.name!r} gives {parameter!r} the unknown kind {kind!r}.",
                    'Use "numeric", "category" or "any" for one column, one in a list for several columns, '
                    '"columns" for one or several with bounds or categories, "all" for any or None for all, '
                    '"public" for a public column, or "view" for a second view.',
                )
        self._check_defaults(parameters)

    def _store_owner_form(self, own: MethodSignature) -> None:
        """Store the exact form for the table's owner; raise a `PluginError` if the method takes a second view."""
        if "view" in self.columns.values():
            raise PluginError(
                f"Mechanism {self.name!r} takes a second view, which may have another owner.",
                "Leave out holds(), or let prepares() ask the other view.",
            )
        object.__setattr__(self, "own", replace(own, origin=self.origin))

    def _check_defaults(self, parameters: Sequence[inspect.Parameter]) -> None:
        known = self._resolve_hints()  # not those kept: a name may be defined below the function
        for one in parameters:
            if one.default is one.empty or one.name in (*self.columns, *self.tables):
                continue
            try:
                checked(one.default, known.get(one.name), one.name)
            except ArgumentError as error:
                raise PluginError(
                    f"A default of mechanism {self.name!r} does not fit its annotation: {error.what}", error.hint
                ) from None

    def __call__(self, curator: Any, *args: Any, **kwargs: Any) -> Any:
        """Measure with a curator, and return what the concluding function computes from the measurements."""
        call = self._call_signature.bind(*args, **kwargs)
        call.apply_defaults()
        return self.conclude(self.measure(curator, call.arguments), call.arguments)

    @cached_property
    def _parameters(self) -> list[inspect.Parameter]:
        """Parameters of the measuring and the concluding function, without curator and measurement."""
        return _joint_parameters(self.name, self.function, self.conclusion)

    @cached_property
    def _call_signature(self) -> inspect.Signature:
        """Signature of the measuring and the concluding function together, without curator and measurement."""
        return inspect.Signature(self._parameters)

    @cached_property
    def _function_parameters(self) -> tuple[Sequence[str], Sequence[str]]:
        """Parameter names of the measuring and of the concluding function, each without its first parameter."""
        halves = (self.function, self.conclusion)
        first, second = ([*inspect.signature(half).parameters][1:] if half else [] for half in halves)
        return first, second

    @cached_property
    def kwargs_parameter(self) -> str:
        """Name of the ``**`` parameter of the function that measures; empty without such a parameter."""
        every = inspect.signature(self.function).parameters.values()
        return next((one.name for one in every if one.kind is one.VAR_KEYWORD), "")

    @cached_property
    def hints(self) -> Mapping[str, Any]:
        """Annotations of the measuring and the concluding function, resolved when they are first needed."""
        return self._resolve_hints()

    def _resolve_hints(self) -> dict[str, Any]:
        second: dict[str, Any] = {}
        if self.conclusion is not None:
            measured, *_ = inspect.signature(self.conclusion).parameters
            second = {name: hint for name, hint in hints(self.conclusion).items() if name != measured}
        return {**second, **hints(self.function), **({"return": second["return"]} if "return" in second else {})}

    @cached_property
    def signature(self) -> inspect.Signature:
        """Signature of the method of a view: its arguments, the price, and the class of the release."""
        given = [each.replace(annotation=self._caller_annotation(each)) for each in self._parameters]
        prices = [name for name in _PRICE if not self.exact and (name != "delta" or self.delta)]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
            if name == "fresh"
            else inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=float | str | None
            )
            for name in prices
        ]
        every = sorted([*given, *added], key=lambda one: one.kind)  # what gathers others by name stands last
        return inspect.Signature(every, return_annotation=self._result_class)

    def _caller_annotation(self, parameter: inspect.Parameter) -> Any:
        """Return the annotation of a parameter for callers, who name columns by strings."""
        kind = self.columns.get(parameter.name, "public")
        if kind == "public":
            hint = self.hints.get(parameter.name, parameter.empty)
            if Column not in (hint, *get_args(hint)):
                return hint
            return reduce(or_, (str if each is Column else each for each in get_args(hint) or (hint,)))
        named = _NAME_TYPES[tuple(kind) if isinstance(kind, list) else kind]
        if parameter.default is not None:
            return named
        return f"{named} | None" if isinstance(named, str) else named | None

    @property
    def _result_class(self) -> Any:
        """Class that the view's method returns; `Value` if the functions return no release."""
        returned = self.hints.get("return", Release)
        classes = get_args(returned) or (returned,)
        if all(isinstance(each, type) and not issubclass(each, Release | Exact) for each in classes):
            returned = Value
        return returned

    @cached_property
    def doc(self) -> str:
        """Docstring of the view's method: the function's docstring, with the parameters of the price."""
        text = inspect.getdoc(self.function) or ""
        added = "\n".join(_PRICE[name] for name in _PRICE if name in self.signature.parameters)
        head, mark, tail = text.partition("Parameters\n----------\n")
        if not mark:
            return f"{text}\n\nParameters\n----------\n{added}"
        own, gap, rest = tail.partition("\n\n")
        own, stars, others = own.partition("\n**")  # what gathers others by name stands last
        return "".join([head, mark, own, "\n" if added else "", added, stars, others, gap, rest])

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Bind the arguments of a call to the parameters, check them by their annotations, and add defaults.

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
            If the arguments do not match the parameters, or one does not fit its annotation.
        """
        if (
            self.kwargs_parameter and args and all(map(_is_expression, args))
        ):  # what is gathered by name: its own check says what to write instead
            args = [tuple(args)]
        try:
            bound = self._call_signature.bind(*args, **kwargs)
        except TypeError as error:
            bare = [p.replace(annotation=inspect.Parameter.empty) for p in self.signature.parameters.values()]
            hint = f"It is called {self.name}{inspect.Signature(bare)}."
            if any(map(_is_expression, args)):
                hint = f"It takes no Polars expressions: name columns and statistics by strings. {hint}"
            hint = self._keyword_hint(args) or hint
            raise ArgumentError(f"{self.name}(): {error}.", hint) from None
        given = {name: self._checked_argument(name, value) for name, value in bound.arguments.items()}
        parameters = self._call_signature.parameters
        return {
            name: given[name] if name in given else self._checked_default(each) for name, each in parameters.items()
        }

    def _keyword_hint(self, args: Sequence[Any]) -> str:
        """Return a hint that repeats surplus positional arguments by name; empty if no name can be guessed."""
        named: dict[str, Any] = {}
        placed = [one.name for one in self._parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        for value in args[len(placed) :]:
            named[self._guess_parameter(value, (*placed, *named))] = value
        written = ", ".join(f"{name}{quoted(value)}" for name, value in named.items())
        return f"Pass the others by name: {self.name}(..., {written})." if written and "" not in named else ""

    def _guess_parameter(self, value: object, taken: Sequence[str] = ()) -> str:
        """Guess the parameter, among those that name no column, that a value was meant for; empty if none fits."""
        names = (one.name for one in self._parameters if one.name not in (*self.columns, *self.tables, *taken))
        return next((name for name in names if fits(value, self.hints.get(name))), "")

    def _checked_argument(self, name: str, value: object) -> Any:
        """Return an argument after checking it by the annotation of its parameter."""
        what = f"{self.name}(): {name}"
        if name in self.tables and value is not None:
            return public_table(value, what)
        check_public_argument(what, value)
        if name == self.kwargs_parameter and isinstance(value, Mapping):
            for each, given in value.items():
                check_public_argument(f"{self.name}(): {each}", given)
        elif name not in self.columns:
            return checked(value, self.hints.get(name), what)
        return value

    def _checked_default(self, parameter: inspect.Parameter) -> Any:
        """Return the default value of a parameter, which is checked when first needed."""
        if parameter.kind is parameter.VAR_KEYWORD:
            return {}
        if parameter.name not in self._defaults:
            self._defaults[parameter.name] = self._checked_argument(parameter.name, parameter.default)
        return self._defaults[parameter.name]

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        """Cache of checked default values, by parameter; filled when a default is first needed."""
        return {}

    def resolve(self, schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Replace column names by `Column` objects, which hold the public facts.

        Parameters
        ----------
        schema : Schema
            Public facts about the table.
        arguments : mapping
            The arguments by parameter.

        Returns
        -------
        dict
            The arguments, with a `Column` in place of each column's name.

        Raises
        ------
        SchemaError
            If the table lacks a column, or it is not of the kind that the method needs.
        """

        def look_up(parameter: str, kind: Names) -> Any:
            given = arguments[parameter]
            if kind == "all":
                names = schema.names if given is None else given if isinstance(given, list | tuple) else [given]
                return tuple(schema.named(item) for item in names)
            if kind == "view" or (given is None and self.signature.parameters[parameter].default is None):
                return None
            if kind == "public":
                return schema.public(given) if isinstance(given, str) else given
            if kind == "columns":
                names = given if isinstance(given, list | tuple) else [given]
                return tuple(schema.described(item) for item in names)
            if isinstance(kind, str) and not isinstance(given, str) and (name := self._guess_parameter(given)):
                raise SchemaError(
                    f"{self.name}(): a column is named by a string, not by {type(given).__name__}.",
                    f"Pass its name, or write {name}{quoted(given)}.",
                )
            each = kind[0] if isinstance(kind, list) else kind
            find = {"numeric": schema.numeric, "category": schema.categorical, "any": schema.named}[each]
            if not isinstance(kind, list):
                return find(given)
            if not isinstance(given, list | tuple):
                raise SchemaError(
                    f"{self.name}(): {parameter} takes a list of columns, not {type(given).__name__}.",
                    f"For example {parameter}=['age', 'income'].",
                )
            return tuple(find(item) for item in given)

        return {**arguments, **{parameter: look_up(parameter, kind) for parameter, kind in self.columns.items()}}

    def second_view_parameter(self, arguments: Mapping[str, Any]) -> str:
        """Return the parameter that has a second view as its argument; empty if no parameter has."""
        named = (name for name, kind in self.columns.items() if kind == "view" and arguments[name] is not None)
        return next(named, "")

    def measure(self, curator: Any, arguments: Mapping[str, Any]) -> Any:
        """Call the mechanism's function that measures.

        Parameters
        ----------
        curator : Curator
            The curator that measures.
        arguments : mapping
            The arguments by parameter, with columns in place of their names.

        Returns
        -------
        object
            The result of the function.
        """
        own = {name: arguments[name] for name in self._function_parameters[0]}
        gathered = own.pop(self.kwargs_parameter, {})
        return self.function(curator, **own, **gathered)

    def conclude(self, measured: Any, arguments: Mapping[str, Any]) -> Any:
        """Call the mechanism's function that computes the answer from the result of `measure`.

        Parameters
        ----------
        measured : object
            The result of `measure`.
        arguments : mapping
            As for `measure`.

        Returns
        -------
        object
            The result; `measured` itself if there is no such function.
        """
        if self.conclusion is None:
            return measured
        return self.conclusion(measured, **{name: arguments[name] for name in self._function_parameters[1]})


def _is_expression(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "polars"


def _joint_parameters(
    name: str, function: Callable[..., Any], conclusion: Callable[..., Any] | None
) -> list[inspect.Parameter]:
    """Return the parameters of a mechanism's two functions, each once: positional ones, then keyword-only ones."""
    _, *first = inspect.signature(function).parameters.values()
    if conclusion is None:
        return first
    second = list(inspect.signature(conclusion).parameters.values())
    if not second or second.pop(0).kind is inspect.Parameter.KEYWORD_ONLY:
        raise PluginError(
            f"The concluding function of mechanism {name!r} has no parameter for the measurements.", _HINT
        )
    known = {one.name: one for one in first}
    both = sorted([*first, *(one for one in second if one.name not in known)], key=lambda one: one.kind)
    try:
        inspect.Signature(both)
    except ValueError as error:
        raise PluginError(
            f"The parameters of the measuring and concluding function of {name!r} do not fit together: {error}.",
            _HINT,
        ) from None
    for one in second:
        default = known[one.name].default if one.name in known else one.default
        if one.default is not one.empty and not (type(default) is type(one.default) and default == one.default):
            raise PluginError(
                f"The measuring and concluding function of {name!r} have different defaults for {one.name!r}.",
                _HINT,
            )
    return both


def check_public_argument(what: str, value: object) -> None:
    """Raise an error unless an argument of a question is public, and small enough to be stored and quoted.

    Parameters
    ----------
    what : str
        Its name, for errors.
    value : object
        Numbers, text, lists and dictionaries of them; of other objects, only the type is checked.

    Raises
    ------
    ArgumentError
        If it is a column or a table, or has too many digits, characters, items or lists in lists.
    """
    items, todo = 0, [(value, 0)]
    while todo:
        each, depth = todo.pop()
        _check_public_value(what, each)
        if isinstance(each, dict):
            each = (*each, *each.values())
        elif isinstance(each, range):  # as long as it may be, it is three numbers
            each = (each.start, each.stop, each.step)
        if isinstance(each, list | tuple | set | frozenset):
            items += len(each)
            if items > ITEMS_MAX or depth == _DEPTH_MAX:
                raise ArgumentError(
                    f"{what} has over {ITEMS_MAX:,} items, or is nested deeper than {_DEPTH_MAX} levels.",
                    "Pass fewer items, in a flatter list.",
                )
            todo += [(item, depth + 1) for item in each if type(item) not in _SMALL_TYPES]


def _check_public_value(what: str, value: object) -> None:
    if isinstance(value, Exact):
        raise ArgumentError(
            f"{what} is an exact answer for the table's owner alone; questions are made of public values only.",
            "Use the private answer, which the method returns for an epsilon.",
        )
    library = type(value).__module__.partition(".")[0]
    if library in _TABLE_LIBRARIES and isinstance(value, Sized):
        raise ArgumentError(
            f"{what} is a {type(value).__name__}; questions are made of public values only.",
            "Pass the name of a column, or the values as numbers, strings or a list of them.",
        )
    if isinstance(value, str) and (len(value) > _TEXT_MAX or _SURROGATES.search(value)):
        raise ArgumentError(
            f"{what}{quoted(value)} has over {_TEXT_MAX:,} characters, or half of a surrogate pair.",
            "Pass a shorter text that can be encoded as UTF-8.",
        )
    if isinstance(value, int) and value.bit_length() > _BITS_MAX:
        raise ArgumentError(f"{what} has too many digits.", NUMBER)
    if isinstance(value, Decimal | Fraction):
        exact(value, what)


def public_table(table: object, what: str) -> dict[str, list[Any]]:
    """Convert a public table of any kind, such as a dataframe, to a list of plain values for each column.

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
    try:
        return {name: [_plain_values(value) for value in values] for name, values in lists.items()}
    except Exception:  # noqa: BLE001 - of an object that is no list, whatever it says
        raise ArgumentError(
            f"{what} has a column that cannot be read.",
            "Pass a list of numbers, strings or booleans for each column, or a dataframe.",
        ) from None


def _plain_values(value: Any) -> Any:
    return value if value is None or isinstance(value, str | bool | int | float) else plain_number(value)
