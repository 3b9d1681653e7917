"""What type checkers are told of the bundled methods is what a view has."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import ast
import re
from math import inf
from pathlib import Path
from typing import Literal

import pytest

import dfprivacy
from dfprivacy._plugins.loader import registry
from dfprivacy._plugins.stubs import by_group, methods, stub

STUB = ast.parse((Path(dfprivacy.__file__).parent / "_bundled.pyi").read_text())
CLASS, _ = (node for node in STUB.body if isinstance(node, ast.ClassDef))
ALIASES = {
    node.target.id: ast.unparse(node.value) for node in STUB.body if isinstance(node, ast.AnnAssign) and node.value
}
BY_HAND = {  # what a person knows better
    ("dcor_screen", ("target", "any")),
    ("dcor_screen", ("features", "any")),
    ("dcor_with", ("other", "any")),
    ("dcor_with_own", ("other", "any")),
    ("kme_exponential", ("points", "keyword")),
    ("kme_release", ("points", "keyword")),
}
Stage = Literal["raw", "done"]
WRITTEN = {node.name: node for node in CLASS.body if isinstance(node, ast.FunctionDef)}


@pytest.fixture
def bundled():
    """The mechanisms of our own distribution by name, and their forms for the owner."""
    own = [m for m in registry().mechanisms.values() if m.origin.startswith("dfprivacy ")]
    return {form.name: form for each in own for form in (each, each.own) if form is not None}


def test_the_names_are_those_of_the_registry(bundled):
    """Every bundled mechanism is written down, and nothing else."""
    assert set(bundled) == set(WRITTEN)


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_method_is_that_of_the_registry(name, bundled):
    """Parameters, their order, kinds, defaults and types, and the result, are what `dfprivacy stubs` writes."""
    _, text = methods([bundled[name]])
    (made,) = ast.parse(f"class Methods:\n{text}").body[0].body
    written = WRITTEN[name]

    told, asked = plain(written), plain(made)

    assert [(p, default) for p, _, default in asked] == [(p, default) for p, _, default in told]
    for (parameter, kind, _), (_, said, _) in zip(asked, told, strict=True):
        if kind != "Any" and (name, parameter) not in BY_HAND:
            assert kind == said, parameter
    assert spelled(made.returns) == spelled(written.returns)


def test_a_users_file_of_every_method_is_checked():
    """`tests/typing/answers.py`, calls each method and says what it returns, without an ignore."""
    text = (Path(__file__).parent / "typing/answers.py").read_text()
    called = {
        node.func.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }

    assert set(WRITTEN) <= called
    assert "type: ignore" not in text
    assert "pyright: ignore" not in text


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_everything_has_a_type(name):
    """Every parameter and result is annotated."""
    written = WRITTEN[name]

    untyped = [a.arg for a in [*written.args.args[1:], *written.args.kwonlyargs] if a.annotation is None]

    assert [] == untyped
    assert written.returns is not None


def test_the_stub_of_another_plugin(bundled):
    """The methods of others stand below the bundled ones; types by names of their own, what has none as `Any`."""

    def stages(curator, column, by=None, *, stage: Stage = "raw", each=None, size=inf) -> Path: ...

    stages.__annotations__ |= {"column": "Column", "by": "Column | None", "each": "Unknown"}
    other = dfprivacy.mechanism(columns={"column": ["numeric"], "by": "category"})(stages)

    text = stub({**bundled, "stages": other})

    body, grouped = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    made = {node.name: node for node in body.body}["stages"]
    assert "\nfrom dfprivacy.release import Value as _dfprivacy_release_Value\n" in text
    assert set(WRITTEN) | {"stages"} == {node.name for node in body.body}
    assert ast.unparse(made) == (
        "def stages(self, column: _collections_abc_Sequence[str], by: str | None=None, *, "
        "stage: _typing_Literal['raw', 'done']='raw', each: _typing_Any=None, size: _typing_Any=..., "
        "epsilon: float | str | None=None, fresh: bool=False) -> _dfprivacy_release_Value:\n    ..."
    )
    (of_groups,) = (node for node in grouped.body if node.name == "stages")
    assert ast.unparse(of_groups) == ast.unparse(made).replace("-> _dfpr", "-> Groups[_dfpr").replace(
        "Value:", "Value]:"
    )


def test_by_group_each_method_returns_groups():
    """The second class has the methods of the first, and wraps what they return."""
    text = Path(dfprivacy.__file__).with_name("_bundled.pyi").read_text()
    first, grouped = text.split("\nclass BundledGroups:\n")

    assert by_group(first) == f"\nclass BundledGroups:\n{grouped}"
    assert grouped.count("-> Groups[") > 40


def test_without_other_plugins_the_stub_is_the_bundled_one(bundled):
    """Where nothing else is installed, there is nothing to add."""
    assert Path(dfprivacy.__file__).with_name("_bundled.pyi").read_text() == stub(bundled)


def plain(function):
    """Each parameter of a definition, with its kind, type and default."""
    args = function.args
    first, *ordered = args.args
    defaults = [None] * (len(ordered) - len(args.defaults)) + args.defaults
    assert "self" == first.arg
    assert (args.posonlyargs, args.vararg) == ([], None)
    gathered = [] if args.kwarg is None else [((args.kwarg.arg, "others"), spelled(args.kwarg.annotation), None)]
    named = [
        ((argument.arg, kind), spelled(argument.annotation), None if default is None else ast.literal_eval(default))
        for kind, some, values in [("any", ordered, defaults), ("keyword", args.kwonlyargs, args.kw_defaults)]
        for argument, default in zip(some, values, strict=True)
    ]
    return named + gathered


def spelled(annotation):
    """A type with aliases replaced and without its modules."""
    text = re.sub(r"\b_[a-z][a-z_0-9]*_(?=[A-Z])", "", ast.unparse(annotation))
    return re.sub(r"\b_[A-Z]\w+", lambda alias: ALIASES[alias[0]], text)
