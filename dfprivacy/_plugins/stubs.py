"""The methods of plugins as text for type checkers and editors, which do not see what is found at run time."""

from __future__ import annotations

import ast
import inspect
import re
import types
import typing
from importlib import resources
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin

from dfprivacy.mechanism import OWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dfprivacy._called import MethodSignature
    from dfprivacy.mechanism import Mechanism

__all__ = ["methods", "stub"]

_BY_GROUP = "\nclass BundledGroups:\n"
_RETURNED = re.compile(r"-> (?P<name>[^\n]+): \.\.\.(?=\n|\Z)")
_OF_OWNERS = re.compile(rf"    def \w+{OWN}\(\n(?: {{8}}.*\n)*    \) -> .*\n")
_PLAIN = (str, int, bool, bytes, NoneType)


def stub(mechanisms: Mapping[str, Mechanism]) -> str:
    """Write the stub of all methods: that of the bundled ones, and the others below.

    Parameters
    ----------
    mechanisms : mapping of str to Mechanism
        All that are offered.

    Returns
    -------
    str
        What stands in place of ``dfprivacy/_bundled.pyi``.
    """
    bundled = resources.files("dfprivacy").joinpath("_bundled.pyi").read_text(encoding="utf-8")
    foreign = (each for each in mechanisms.values() if not each.origin.startswith("dfprivacy "))
    others = [form for each in foreign for form in (each, each.own) if form is not None]
    if not others:
        return bundled
    imports, text = methods(others)
    told, _, rest = bundled.partition("\n\n")  # its docstring
    of_all, _, _ = rest.partition(_BY_GROUP)
    return "\n\n".join([told, "\n".join(imports), of_all + text.rstrip()]) + "\n" + by_group(of_all + text)


def by_group(text: str) -> str:
    """Write the methods of a view by group: each returns one result for each group; none is for the owner alone.

    Parameters
    ----------
    text : str
        A stub whose last class has the methods of a view.

    Returns
    -------
    str
        The class that follows it.
    """
    _, _, body = text.partition("class BundledMethods:\n")
    grouped = _RETURNED.sub(r"-> Groups[\g<name>]: ...", _OF_OWNERS.sub("", body).rstrip())
    return f"{_BY_GROUP}{grouped}\n"


def methods(mechanisms: Iterable[MethodSignature]) -> tuple[list[str], str]:
    """Write methods as they stand in the body of a class.

    Parameters
    ----------
    mechanisms : iterable of Mechanism
        Any.

    Returns
    -------
    imports : list of str
        Lines for the names in it, beside `dfprivacy.view.PrivateFrame`. Each has its module in front: two plugins
        may have a class of one name, and a package may export a function of the name of its module.
    text : str
        One definition for each.
    """
    imports: set[str] = set()
    text = "".join(_method(each, imports) for each in mechanisms)
    return sorted(imports), text


def _method(mechanism: MethodSignature, imports: set[str]) -> str:
    lines, named = ["self"], False
    for each in mechanism.signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not named:
            lines.append("*")
            named = True
        default = "" if each.default is each.empty else f" = {_default(each.default)}"
        stars = "**" if each.kind is each.VAR_KEYWORD else ""
        lines.append(f"{stars}{each.name}: {_annotation(each.annotation, imports)}{default}")
    returned = _annotation(mechanism.signature.return_annotation, imports)
    body = "".join(f"        {line},\n" for line in lines)
    return f"    def {mechanism.name}(\n{body}    ) -> {returned}: ...\n"


def _default(value: object) -> str:
    """Write a default; what is no literal is left to the function."""
    try:
        ast.literal_eval(repr(value))
    except (ValueError, SyntaxError):
        return "..."
    return repr(value)


def _annotation(hint: Any, imports: set[str]) -> str:
    """Write a type in full, and note what is to be imported; `Any` for what another file could not name."""
    inner = get_args(hint)
    match get_origin(hint):
        case typing.Annotated:
            return _annotation(inner[0], imports)
        case typing.Union | types.UnionType:
            return " | ".join(_annotation(each, imports) for each in inner)
        case typing.Literal if all(isinstance(each, _PLAIN) for each in inner):
            return f"{_imported('typing', 'Literal', imports)}[{', '.join(map(repr, inner))}]"
        case type() as origin:
            return f"{_annotation(origin, imports)}[{', '.join(_annotation(each, imports) for each in inner)}]"
    if isinstance(hint, list):  # the parameters of a Callable
        return f"[{', '.join(_annotation(each, imports) for each in hint)}]"
    return _name(hint, imports)


def _name(hint: Any, imports: set[str]) -> str:
    if hint in ("PrivateFrame", "PrivateFrame | None"):
        return str(hint)
    if hint in (..., NoneType):
        return "..." if hint is ... else "None"
    if not isinstance(hint, type) or hint is inspect.Parameter.empty or "<" in hint.__qualname__:
        return _imported("typing", "Any", imports)
    if hint.__module__ == "builtins":
        return hint.__qualname__
    return _imported(hint.__module__, hint.__qualname__, imports)


def _imported(module: str, name: str, imports: set[str]) -> str:
    outer, dot, inner = name.partition(".")
    alias = f"_{module.replace('.', '_')}_{outer}"
    imports.add(f"from {module} import {outer} as {alias}")
    return f"{alias}{dot}{inner}"
