"""The words of docstrings and messages are the field's: first words, and no pronoun for a subject."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import dfprivacy
import dfprivacy_eda

ROOTS = (Path(dfprivacy.__file__).parent, Path(dfprivacy_eda.__file__).parent.parent)
MODULES = sorted(
    path
    for root, pattern in zip(ROOTS, ("**/*.py", "dfprivacy_*/**/*.py"), strict=True)
    for path in root.glob(pattern)
)
VERBS = {"Give", "Gives", "Tell", "Tells", "Say", "Says", "Let", "Note"}
PRONOUNS = {"What", "Who", "Whom", "Whose", "Nobody"}
SUBJECTS = re.compile(r"(?:^|[.:] )(?:What|Who|Whose|Whoever|Nobody) (?!(?:is|are|was|were|do|does)\b[^.]*\?)")


TREES = [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in MODULES]


def strings(call):
    """The texts among a call's arguments, of formatted ones the parts that are always there."""
    for argument in call.args:
        for node in ast.walk(argument):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def name_of(call):
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def test_a_docstring_begins_as_those_of_the_field_do():
    """A function returns, computes, tests or estimates; a class and a module are a noun."""
    found = [
        (path, text.splitlines()[0])
        for path, tree in TREES
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and (text := ast.get_docstring(node))
        if text.split(maxsplit=1)[0].strip(".,:`") in VERBS | PRONOUNS
    ]

    assert len(TREES) > 200
    assert found == []


def test_an_error_names_its_subject():
    """The sentences of an error begin with a noun, a verb or a value, and not with a pronoun."""
    found = [
        (path, text)
        for path, tree in TREES
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and name_of(node).endswith(("Error", "Exceeded", "Mismatch", "Warning"))
        for text in strings(node)
        if SUBJECTS.search(text)
    ]

    assert found == []
