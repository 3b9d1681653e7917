"""What type checkers are told of the bundled methods is what a view has."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import dfprivacy
from dfprivacy.plugins import registry

STUB = ast.parse((Path(dfprivacy.__file__).parent / "_bundled.pyi").read_text())
(CLASS,) = (node for node in STUB.body if isinstance(node, ast.ClassDef))
WRITTEN = {node.name: node for node in CLASS.body if isinstance(node, ast.FunctionDef)}


@pytest.fixture
def bundled():
    """The mechanisms of our own distribution by name."""
    return {name: m for name, m in registry().mechanisms.items() if m.origin.startswith("dfprivacy ")}


def test_the_names_are_those_of_the_registry(bundled):
    """Every bundled mechanism is written down, and nothing else."""
    assert set(bundled) == set(WRITTEN)


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_parameters_are_those_of_the_method(name, bundled):
    """Parameters, their order and kinds and defaults are those that a view's method has."""
    written = WRITTEN[name].args

    positional, keyword = [], []
    for parameter in bundled[name].signature.parameters.values():
        default = None if parameter.default is parameter.empty else repr(parameter.default)
        (keyword if parameter.kind is inspect.Parameter.KEYWORD_ONLY else positional).append(
            (parameter.name, default)
        )

    first, *ordered = [argument.arg for argument in written.args]
    defaults = [None] * (len(ordered) - len(written.defaults)) + [_value(d) for d in written.defaults]
    assert "self" == first
    assert not written.posonlyargs
    assert (written.vararg, written.kwarg) == (None, None)
    assert positional == list(zip(ordered, defaults, strict=True))
    assert keyword == [
        (argument.arg, None if default is None else _value(default))
        for argument, default in zip(written.kwonlyargs, written.kw_defaults, strict=True)
    ]


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_everything_has_a_type(name):
    """Every parameter and result is annotated."""
    written = WRITTEN[name]

    untyped = [a.arg for a in [*written.args.args[1:], *written.args.kwonlyargs] if a.annotation is None]

    assert [] == untyped
    assert written.returns is not None


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_choices_are_those_of_the_function(name, bundled):
    """Where the function names its choices by a `Literal`, or its result by a class, the stub has the same."""
    function = bundled[name].function
    aliases = {
        node.target.id: ast.unparse(node.value)
        for node in STUB.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value
    }

    module = inspect.getmodule(function)
    for argument in WRITTEN[name].args.kwonlyargs:
        parameter = inspect.signature(function).parameters.get(argument.arg)
        choices = getattr(module, str(parameter.annotation), None) if parameter else None
        if choices is not None and hasattr(choices, "__args__"):
            told = ast.unparse(argument.annotation)
            assert aliases.get(told, told) == f"Literal[{', '.join(map(repr, choices.__args__))}]", argument.arg
    forms = [function, bundled[name].holder] if bundled[name].holder else [function]
    returned = " | ".join(inspect.signature(form).return_annotation for form in forms)
    assert returned == ast.unparse(WRITTEN[name].returns)


def _value(node):
    return repr(ast.literal_eval(node))
