"""What type checkers are told of the bundled methods is what a view has."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import ast
from math import inf
from pathlib import Path
from typing import Literal

import pytest

import dfprivacy
from dfprivacy import mechanism
from dfprivacy._plugins.loader import registry
from dfprivacy._plugins.stubs import write_stub

STUB = ast.parse((Path(dfprivacy.__file__).parent / "_bundled.pyi").read_text())
CLASS, GROUPED = (node for node in STUB.body if isinstance(node, ast.ClassDef))
Stage = Literal["raw", "done"]
WRITTEN = {node.name: node for node in CLASS.body if isinstance(node, ast.FunctionDef)}


@pytest.fixture
def bundled():
    """The mechanisms of our own distribution by name."""
    return {name: m for name, m in registry().mechanisms.items() if m.origin.startswith("dfprivacy ")}


def test_the_stub_is_that_of_the_plugins(bundled):
    """What was written when the package was built is what `dfprivacy stubs` writes; else: python hatch_build.py."""
    written = Path(dfprivacy.__file__).with_name("_bundled.pyi").read_text()

    assert set(WRITTEN) == {form.name for m in bundled.values() for form in (m, m.own) if form is not None}
    assert sorted(write_stub(bundled.values()).splitlines()) == sorted(written.splitlines())


@pytest.mark.parametrize(
    ("method", "parameter", "written"),
    [
        ("ttest", "groups", "Sequence[Any] | None"),
        ("ols", "x", "str | Sequence[str] | None"),
        ("kme_release", "lengthscale", "float | Mapping[str, float] | None"),
        ("kernel_two_sample", "other", "PrivateFrame | None"),
        ("dcor_screen", "target", "str"),
        ("missing", "columns", "str | Sequence[str]"),
    ],
)
def test_types_are_what_a_user_gives(method, parameter, written):
    """A column is named, a union is written out, and what a person knows better is taken."""
    args = WRITTEN[method].args

    (annotation,) = (each.annotation for each in [*args.args, *args.kwonlyargs] if each.arg == parameter)

    assert written == ast.unparse(annotation)


def test_some_results_depend_on_arguments():
    """A method that returns one of two classes has a definition for each, and one for both."""
    results = [ast.unparse(each.returns) for each in CLASS.body if each.name == "gmm_fit"]

    assert ["GaussianClasses", "GaussianMixture", "GaussianClasses | GaussianMixture"] == results
    assert 9 == sum("overload" in map(ast.unparse, each.decorator_list) for each in CLASS.body)


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


def test_everything_has_a_type():
    """Every parameter and result is annotated."""
    for name, written in WRITTEN.items():
        untyped = [a.arg for a in [*written.args.args[1:], *written.args.kwonlyargs] if a.annotation is None]

        assert ([], True) == (untyped, written.returns is not None), name


def test_the_stub_of_another_plugin(bundled):
    """The methods of others stand below the bundled ones; what has no type is `Any`, and names never clash."""

    class Histogram(dfprivacy.Release):
        """A class of a name that there is."""

    def stages(curator, column, by=None, *, stage: Stage = "raw", each=None, size=inf) -> Path: ...

    def counts(curator) -> Histogram: ...

    Histogram.__qualname__, Histogram.__module__ = "Histogram", "others"
    stages.__annotations__ |= {"column": "Column", "by": "Column | None", "each": "Unknown"}
    counts.__annotations__["return"] = Histogram
    others = mechanism(columns={"column": ["numeric"], "by": "category"})(stages), mechanism()(counts)

    text = write_stub([*bundled.values(), *others])

    body, grouped = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    *_, made, other = body.body
    assert "\nfrom dfprivacy.release import Value\n" in text
    assert "\nfrom others import Histogram as _others_Histogram\n" in text
    assert "-> _others_Histogram:" in ast.unparse(other)
    assert {*WRITTEN, "stages", "counts"} == {node.name for node in body.body}
    assert ast.unparse(made) == (
        "def stages(self, column: Sequence[str], by: str | None=None, *, stage: Literal['raw', 'done']='raw', "
        "each: Any=None, size: Any=..., epsilon: float | str | None=None, fresh: bool=False) -> Value:\n    ..."
    )
    assert ast.unparse(grouped.body[-2]) == ast.unparse(made).replace("-> Value:", "-> Groups[Value]:")


def test_by_group_each_method_returns_groups():
    """The second class has the methods of the first but for the owner's, and wraps what they return."""
    own = {name for name in WRITTEN if name.endswith("_own")}

    assert {name for name in WRITTEN if name not in own} == {each.name for each in GROUPED.body}
    assert all(ast.unparse(each.returns).startswith("Groups[") for each in GROUPED.body)
    assert len(own) > 0
