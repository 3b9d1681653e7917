"""What a plugin writes: a function of a curator, marked with `mechanism`."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from dfprivacy.errors import ArgumentError, PluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dfprivacy.schema import Column, Schema

__all__ = ["Mechanism", "mechanism"]

Kind = Literal["numeric", "category"]

_PRICE = {
    "epsilon": "epsilon : float, str or None\n"
    '    The privacy to pay: a number, an exact string such as ``"1/3"``, ``"rest"`` for all that is left, or\n'
    "    None for the view's ``default_epsilon``.",
    "delta": "delta : float, str or None\n    The delta to pay; None for the budget's in proportion to epsilon.",
    "fresh": "fresh : bool, default False\n"
    "    Pay for a new answer even if the ledger holds one to the same question.",
}


@dataclass(frozen=True)
class Mechanism:
    """A differentially private method, as the views offer it.

    Attributes
    ----------
    name : str
        Its name as a method of a view.
    function : callable
        ``function(curator, ...) -> Release``.
    columns : mapping of str to {"numeric", "category"}
        The parameters that name columns, and what kind each must be.
    delta : bool
        Whether it takes a delta.
    planner : callable or None
        ``planner(curator, ...) -> dict``: what the method could find out, from public numbers only.
    origin : str
        Distribution and version it comes from; filled in by the loader.
    """

    name: str
    function: Callable[..., Any]
    columns: Mapping[str, Kind] = field(default_factory=dict)
    delta: bool = False
    planner: Callable[..., Mapping[str, Any]] | None = None
    origin: str = ""

    def __post_init__(self) -> None:
        for attribute in ("__doc__", "__module__"):  # so that help() shows the function's
            object.__setattr__(self, attribute, getattr(self.function, attribute))
        if not self.name.isidentifier() or self.name.startswith("_"):
            raise PluginError(f"{self.name!r} cannot be the name of a method.", "Use a plain identifier.")
        own = inspect.signature(self.function).parameters
        if not own:
            raise PluginError(f"Mechanism {self.name!r} takes no curator.", "Make it the first parameter.")
        unknown = [name for name in self.columns if name not in own]
        taken = [name for name in (*_PRICE, "self") if name in own]
        if unknown or taken:
            raise PluginError(
                f"Mechanism {self.name!r} has no parameter {unknown!r}."
                if unknown
                else f"Mechanism {self.name!r} has a parameter {taken!r}, which the core adds.",
                "Make the parameters of columns= those of the function, without epsilon, delta and fresh.",
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
        variadic = [p for p in own if p.kind is inspect.Parameter.VAR_KEYWORD]
        return inspect.Signature([*(p for p in own if p not in variadic), *added, *variadic])

    @property
    def doc(self) -> str:
        """The docstring of the method of a view: that of the function, with the price's parameters."""
        text = inspect.getdoc(self.function) or ""
        added = "\n".join(_PRICE[name] for name in _PRICE if name in self.signature.parameters)
        head, mark, tail = text.partition("Parameters\n----------\n")
        if not mark:
            return f"{text}\n\nParameters\n----------\n{added}"
        own, gap, rest = tail.partition("\n\n")
        return f"{head}{mark}{own}\n{added}{gap}{rest}"

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Match the arguments of a call with the function's parameters, defaults filled in.

        Raises
        ------
        ArgumentError
            If they do not match.
        """
        _, *own = inspect.signature(self.function).parameters.values()
        try:
            bound = inspect.Signature(own).bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self.name}(): {error}.", f"It is called {self.name}{self.signature}.") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def resolve(self, schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Replace column names by what is public about the columns.

        Raises
        ------
        SchemaError
            If a column is not there, or not of the kind the method needs.
        """

        def look_up(kind: Kind, name: object) -> Column | tuple[Column, ...] | None:
            if name is None:
                return None
            find = schema.numeric if kind == "numeric" else schema.categorical
            if isinstance(name, list | tuple):
                return tuple(find(item) for item in name)
            return find(name)

        looked_up = {name: look_up(kind, arguments[name]) for name, kind in self.columns.items()}
        return {**arguments, **looked_up}

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


def mechanism(
    *,
    name: str | None = None,
    columns: Mapping[str, Kind] | None = None,
    delta: bool = False,
) -> Callable[[Callable[..., Any]], Mechanism]:
    """Mark a function as a mechanism.

    Parameters
    ----------
    name : str, optional
        Its name as a method of a view; default: the function's.
    columns : mapping of str to {"numeric", "category"}, optional
        The parameters that name columns. The function receives a `Column` (or a tuple of them, or None) in place
        of the name, checked to have bounds or categories.
    delta : bool, default False
        Whether the method takes a delta (for Gaussian noise).

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
            name or str(getattr(function, "__name__", "")), function, columns=columns or {}, delta=delta
        )

    return mark
