"""Type stubs of the plugins' methods, for type checkers and editors."""

from __future__ import annotations

import ast
import inspect
import types
import typing
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dfprivacy._method_signature import MethodSignature
    from dfprivacy.mechanism import Mechanism

__all__ = ["write_stub"]

_PLAIN = (str, int, bool, bytes, NoneType)

# What no annotation says: which class is returned for which arguments. The last case is the general one.
_CASES: Mapping[str, Sequence[Mapping[str, str]]] = {
    "dfprivacy_dcor.dcor_message": (
        {"protocol": "Literal['angle'] = 'angle'", "return": "DistanceMessage"},
        {"protocol": "Literal['paper']", "return": "ProjectionMessage"},
        {},
    ),
    "dfprivacy_dcor.dcor_screen": ({"target": "str"},),  # one, with bounds or categories
    "dfprivacy_eda.quantile": (
        {"q": "float = 0.5", "return": "ColumnStatistic"},
        {"q": "Sequence[float]", "return": "Quantiles"},
        {},
    ),
    "dfprivacy_gmm.gmm_fit": (
        {"label": "str", "n_components": "None = None", "return": "GaussianClasses"},
        {"label": "None = None", "n_components": "int | Literal['auto']", "return": "GaussianMixture"},
        {},
    ),
}


def write_stub(mechanisms: Iterable[Mechanism]) -> str:
    """Return the text of a stub file with the methods of all mechanisms.

    Parameters
    ----------
    mechanisms : iterable of Mechanism
        All mechanisms, the bundled ones first.

    Returns
    -------
    str
        The content of ``dfprivacy/_bundled.pyi``: a class with the methods of a view, and one with the methods of a
        view with groups, which return one result for each group and leave out the methods for the owner alone.
    """
    offered = list(mechanisms)
    forms = [form for each in offered for form in (each, each.own) if form is not None]
    imports: dict[str, str] = {}
    for module, name in (
        ("collections.abc", "Sequence"),
        ("dfprivacy.release", "Groups"),
        ("dfprivacy.view", "PrivateFrame"),
        ("typing", "Literal"),
        ("typing", "overload"),
    ):
        _import_name(module, name, imports)
    methods = "".join(_method_stub(each, "{}", imports) for each in forms)
    grouped = "".join(_method_stub(each, "Groups[{}]", imports) for each in offered)
    told = '"""The methods of views, for type checkers: at run time they come from the plugins."""'
    named = "\n".join(sorted(imports.values()))
    return f"{told}\n\n{named}\n\nclass BundledMethods:\n{methods}\nclass BundledGroups:\n{grouped}"


def _method_stub(mechanism: MethodSignature, returned: str, imports: dict[str, str]) -> str:
    """Return the stub of a method as text: one overload for each case in `_CASES`."""
    signature = mechanism.signature
    cases = _CASES.get(f"{mechanism.__module__.partition('.')[0]}.{mechanism.name}", ({},))
    text = ""
    for case in cases:
        lines = ["self"]
        for each in signature.parameters.values():
            if each.kind is each.KEYWORD_ONLY and "*" not in lines:
                lines.append("*")
            stars = "**" if each.kind is each.VAR_KEYWORD else ""
            lines.append(f"{stars}{each.name}: {case.get(each.name) or _parameter_stub(each, imports)}")
        result = returned.format(case.get("return") or _annotation_as_text(signature.return_annotation, imports))
        body = "".join(f"        {line},\n" for line in lines)
        text += "    @overload\n" if len(cases) > 1 else ""
        text += f"    def {mechanism.name}(\n{body}    ) -> {result}: ...\n"
    return text


def _parameter_stub(parameter: inspect.Parameter, imports: dict[str, str]) -> str:
    default = "" if parameter.default is parameter.empty else f" = {_default_as_text(parameter.default)}"
    return f"{_annotation_as_text(parameter.annotation, imports)}{default}"


def _default_as_text(value: object) -> str:
    """Return a default as Python text; ``...`` if it is not a literal."""
    try:
        ast.literal_eval(repr(value))
    except (ValueError, SyntaxError):
        return "..."
    return repr(value)


def _annotation_as_text(hint: Any, imports: dict[str, str]) -> str:
    """Return an annotation as Python text and collect its imports; `Any` if a stub file cannot import it."""
    inner = get_args(hint)
    match get_origin(hint):
        case typing.Annotated:
            return _annotation_as_text(inner[0], imports)
        case typing.Union | types.UnionType:
            return " | ".join(_annotation_as_text(each, imports) for each in inner)
        case typing.Literal if all(isinstance(each, _PLAIN) for each in inner):
            return f"{_import_name('typing', 'Literal', imports)}[{', '.join(map(repr, inner))}]"
        case type() as origin:
            arguments = ", ".join(_annotation_as_text(each, imports) for each in inner)
            return f"{_annotation_as_text(origin, imports)}[{arguments}]"
    if isinstance(hint, list):  # the parameters of a Callable
        return f"[{', '.join(_annotation_as_text(each, imports) for each in hint)}]"
    return _name_of_hint(hint, imports)


def _name_of_hint(hint: Any, imports: dict[str, str]) -> str:
    if hint in ("PrivateFrame", "PrivateFrame | None"):
        return str(hint)
    if hint in (..., NoneType):
        return "..." if hint is ... else "None"
    if not isinstance(hint, type) or hint is inspect.Parameter.empty or "<" in hint.__qualname__:
        return _import_name("typing", "Any", imports)
    if hint.__module__ == "builtins":
        return hint.__qualname__
    return _import_name(hint.__module__, hint.__qualname__, imports)


def _import_name(module: str, name: str, imports: dict[str, str]) -> str:
    outer, dot, inner = name.partition(".")
    line = f"from {module} import {outer}"
    if imports.setdefault(outer, line) != line:  # two plugins may have a class of one name
        outer = f"_{module.replace('.', '_')}_{outer}"
        imports[outer] = f"{line} as {outer}"
    return f"{outer}{dot}{inner}"
