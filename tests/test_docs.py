"""The documents are complete, agree with the code, and speak of nothing but the project."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import os
import pydoc
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpydoc.docscrape
import numpydoc.validate
import pytest

import dfprivacy as dp
from dfprivacy import cli, errors, features, statistics
from dfprivacy._plugins import hookspecs
from dfprivacy._plugins.loader import BUNDLED, registry
from dfprivacy._privacy.calibrate import gaussian_scale, laplace_scale
from dfprivacy._privacy.filters import Accountant, exact
from dfprivacy._privacy.losses import Gaussian, Laplace

ROOT = Path(__file__).parents[1]
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - {*(ROOT / "docs/example_plugin").rglob("*")})
REFERENCE = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs/reference").glob("*.md")))
INDEX = "\n".join(
    page.read_text(encoding="utf-8")
    for page in [ROOT / "docs/reference/sources.md", *sorted((ROOT / "docs/papers").glob("*.md"))]
)
SOURCES = sorted([*(ROOT / "dfprivacy").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")])
BUNDLED_MECHANISMS = [m for m in registry().mechanisms.values() if m.origin.startswith(f"{BUNDLED} ")]

# What a docstring must have. Left out: closing quotes on a line of their own (GL02), an imperative that numpydoc
# guesses from the last letter (SS05), capital letters where a text begins with a symbol (PR08, RT04), an extended
# summary, "See Also" and examples everywhere (ES01, SA01, EX01), and Returns where the summary says it (RT01).
CHECKS = {
    "GL03", "GL05", "GL06", "GL07", "GL08", "GL10",
    "SS01", "SS02", "SS03", "SS04", "SS06",
    "PR01", "PR02", "PR03", "PR05", "PR06", "PR07", "PR09", "PR10",
    "RT05",
}  # fmt: skip


def documented(directives):
    """Full names of what the reference documents with one of the directives."""
    module, found = "", set()
    for directive, name in re.findall(r"^\.\. (\w+):: ([\w.]+)", REFERENCE, flags=re.MULTILINE):
        if directive == "currentmodule":
            module = name
        elif re.fullmatch(directives, directive):
            found |= {name, f"{module}.{name}"}
    return found


NAMES = documented("auto(function|class|exception|method|data|module)|data")


def members(name):
    """What the reference lists of a class, None if it lists all."""
    block = re.search(rf"^\.\. autoclass:: {re.escape(name)}\n((?:   .*\n)*)", REFERENCE, flags=re.MULTILINE)
    listed = re.search(r":members:(.*)", block[1])[1]
    return {each.strip() for each in listed.split(",")} if listed.strip() else None


def test_public_names_are_in_the_reference():
    """Every public name of the house, every method and every other name of a bundled plugin has an entry there."""
    wanted = [
        *(f"dfprivacy.{name}" for name in {*dp.__all__} - {"errors", "features", "statistics", *errors.__all__}),
        *(f"dfprivacy.features.{name}" for name in features.__all__),
        *(f"dfprivacy.statistics.{name}" for name in statistics.__all__),
        *(f"dfprivacy._plugins.hookspecs.{name}" for name in vars(hookspecs) if name.startswith("dfprivacy_")),
        *(f"dfprivacy.PrivateFrame.{mechanism.name}" for mechanism in BUNDLED_MECHANISMS),
    ]
    methods = {mechanism.name for mechanism in BUNDLED_MECHANISMS}
    for module in {mechanism.function.__module__.split(".")[0] for mechanism in BUNDLED_MECHANISMS}:
        wanted += [f"{module}.{name}" for name in importlib.import_module(module).__all__ if name not in methods]

    assert len(wanted) > 150
    assert sorted({*wanted} - NAMES) == []
    assert [name for name in errors.__all__ if not {f"dfprivacy.errors.{name}", f"dfprivacy.{name}"} & NAMES] == []


@pytest.mark.parametrize("name", ["PrivateFrame", "GroupedView"])
def test_members_of_views_are_in_the_reference(name):
    """Every public attribute that a view has of its own is listed."""
    public = {member for member in dir(getattr(dp, name)) if not member.startswith("_")}
    public -= set(registry().mechanisms)

    assert members(name) == public


def test_environment_variables_are_in_the_reference():
    """Every environment variable that the source reads is in the reference, and no other."""
    read = {found for source in SOURCES for found in re.findall(r"DFPRIVACY_[A-Z]+", source.read_text("utf-8"))}
    page = (ROOT / "docs/reference/environment.md").read_text(encoding="utf-8")

    assert read == set(re.findall(r"^`(DFPRIVACY_[A-Z]+)`$", page, flags=re.MULTILINE))


def test_the_command_line_is_in_the_reference():
    """Every subcommand and option is in the reference, and no other."""
    (commands,) = (a for a in cli._make_parser([])._actions if isinstance(a, argparse._SubParsersAction))
    asked = {
        name: {
            max(option.option_strings, key=len, default=option.dest.upper())
            for option in parser._actions
            if option.dest != "help"
        }
        for name, parser in commands.choices.items()
    }
    page = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^## `dfprivacy (\w+)`$", page, flags=re.MULTILINE)
    told = {
        name: {term.split()[0] for term in re.findall(r"^`([^`]+)`$", text, flags=re.MULTILINE)}
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }

    assert asked == told


def public_objects():
    """Full name of everything public with a docstring, for numpydoc."""
    others = {
        "errors",
        "features",
        "statistics",
        "__version__",
        "hookimpl",
        "Probability",
        "NanPolicy",
        "missing",
        "present",
    }
    tops = [f"dfprivacy.{name}" for name in dp.__all__ if name not in others]
    tops += [f"dfprivacy.features.{name}" for name in features.__all__]
    tops += [f"dfprivacy.statistics.{name}" for name in statistics.__all__]
    tops += [f"dfprivacy.errors.{name}" for name in errors.__all__]
    tops += [f"dfprivacy._plugins.hookspecs.{name}" for name in vars(hookspecs) if name.startswith("dfprivacy_")]
    tops += ["dfprivacy.accessor.Accessor", "dfprivacy.plotting.axes"]
    for module in {m.function.__module__.split(".")[0] for m in BUNDLED_MECHANISMS}:
        mechanisms = {m.name for m in BUNDLED_MECHANISMS}
        tops += [f"{module}.{name}" for name in importlib.import_module(module).__all__ if name not in mechanisms]
    for top in tops:
        yield top
        owner, _, name = top.rpartition(".")
        thing = getattr(importlib.import_module(owner), name)
        if inspect.isclass(thing) and thing.__module__.startswith("dfprivacy"):
            yield from (
                f"{top}.{member}"
                for member, value in vars(thing).items()
                if not member.startswith("_") and (inspect.isroutine(value) or isinstance(value, property))
            )


def test_docstrings_are_valid():
    """Every public docstring is numpydoc by the checks above."""
    names = sorted(set(public_objects()))
    found = [
        (name, code, text)
        for name in names
        for code, text in numpydoc.validate.validate(name)["errors"]
        if code in CHECKS and not waived(name, code)
    ]

    assert len(names) > 500
    assert found == []


def waived(name, code):
    """Whether a docstring may do without its list of parameters: it is one line, or lists a class's attributes."""
    thing = pydoc.locate(name)
    if inspect.isclass(thing):
        return code in {"PR01", "PR02"}
    return code == "PR01" and "\n" not in inspect.getdoc(thing)


@pytest.mark.parametrize("mechanism", BUNDLED_MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_mechanisms_state_their_guarantee(mechanism):
    """A bundled mechanism's docstring says what privacy it gives and where it comes from, with an example."""
    doc = numpydoc.docscrape.NumpyDocString(mechanism.doc)

    assert re.search(r"\*\*Privacy\.\*\*.*differential privacy", " ".join(doc["Notes"]))
    assert doc["References"]
    assert any(line.startswith(">>> ") for line in doc["Examples"])
    assert [p.name.lstrip("*") for p in doc["Parameters"]] == list(mechanism.signature.parameters)


def test_the_index_of_sources_names_what_there_is():
    """Every full name in the index of sources can be imported."""
    names = set(re.findall(r"`(dfprivacy\w*(?:\.\w+)+)`", INDEX))

    assert len(names) > 100
    assert [name for name in sorted(names) if pydoc.locate(name) is None] == []


def test_the_index_of_sources_names_tests_that_there_are():
    """Every test in the index of sources is a function of its file."""
    told = sorted(set(re.findall(r"`(tests/[^`:]*)::([^`]*)`", INDEX)))
    there = {
        file: {each.name for each in ast.parse((ROOT / file).read_text("utf-8")).body if hasattr(each, "name")}
        for file in {file for file, _ in told if (ROOT / file).is_file()}
    }

    assert len(told) > 100
    assert [f"{file}::{test}" for file, test in told if test not in there.get(file, ())] == []


def rows_of(page):
    """Cells of each row of the tables of a page, without their heads."""
    text = re.sub(r"(?s)<!-- table: .*?<!-- end -->", "", (ROOT / page).read_text(encoding="utf-8"))
    lines = text.splitlines()
    return [re.split(r" ?\| ?", line)[1:-1] for line in lines if re.match(r"\| (?!---|in the paper|source)", line)]


def test_the_index_of_sources_has_no_loose_ends():
    """A source has a use, code and a test."""
    table = rows_of("docs/reference/sources.md")

    assert len(table) > 50
    assert [row[0] for row in table if not (row[2].startswith("`dfprivacy") and row[3].startswith("`tests/"))] == []


@pytest.mark.parametrize("paper", ["tong2017", "raj2019", "kakizaki2017", "balog2018", "vepakomma2021"])
def test_every_part_of_a_paper_is_run_or_left_out_for_a_reason(paper):
    """A row names a test, a script or a page of examples, or says what is left out and links to the reason."""
    table = rows_of(f"docs/papers/{paper}.md")
    scripts = {script for *_, run in table for script in re.findall(r"`python (tests/benchmarks/\S+\.py)", run)}
    loose = [
        part
        for part, _, differs, run in table
        if not re.search("`(?:(?:python )?tests|docs)/", run)
        and not (re.search(r"\*Not (implemented|used)\*", differs) and re.search(r"\{doc\}|\{ref\}|\]\(#", differs))
    ]

    assert len(table) >= 10
    assert loose == []
    assert [script for script in sorted(scripts) if not (ROOT / script).is_file()] == []


def sections_of_references():
    """Where there is a list of sources, in a docstring or at the end of an explanation, and the list."""
    for source in SOURCES:
        text = source.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "References\n" in text else ():
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                listed = re.search(
                    r"(?s)\bReferences\n-+\n(.*?)(?=\n\n[^\n]+\n---|$)", ast.get_docstring(node) or ""
                )
                yield source, listed[1] if listed else ""
    for page in sorted((ROOT / "docs/explanation").glob("*.md")):
        yield page, page.read_text(encoding="utf-8").partition("\n## References\n")[2]


CITED = sorted(
    (place.relative_to(ROOT).as_posix(), " ".join(entry.split()))
    for place, listed in sections_of_references()
    for entry in re.split(r"(?m)^(?:\.\. \[\d+\]|\d+\.|-) ", listed)
    if entry.strip()
)


def in_the_index(entry):
    """Whether a source has a row, by its arXiv number, or else by its first author and its year."""
    if numbers := re.findall(r"arXiv:\d+\.\d+", entry):
        return all(number in INDEX for number in numbers)
    author = re.match(r"(?:\w\.[ -]?)*([\w-]+)", entry)
    year = re.search(r"\b(?:19|20)\d\d\b", entry)
    return bool(author and year and re.search(rf"\b{author[1]}\b.*\({year[0]}\)", INDEX))


def test_every_source_is_in_the_index():
    """What a docstring or an explanation cites has a row in the index of sources, and any arXiv number too."""
    numbers = {number for source in SOURCES for number in re.findall(r"arXiv:\d+\.\d+", source.read_text("utf-8"))}

    assert len(CITED) > 50
    assert sorted(number for number in numbers if number not in INDEX) == []
    assert [entry for entry in CITED if not in_the_index(entry[1])] == []


def test_no_document_knows_a_machine():
    """No document or source names a path of somebody's machine."""
    path = re.compile(r"(?<![\w.])/(?:home|root|Users|work|tmp)/\w+")

    assert [
        (page, path.findall(text)) for page in [*PAGES, *SOURCES] if path.search(text := page.read_text("utf-8"))
    ] == []


def test_links_lead_somewhere():
    """Every relative link of a document leads to a file."""
    lost, links = [], 0
    for page in PAGES:
        text = re.sub(r"```.*?```|`[^`]*`|\$[^$]*\$", "", page.read_text("utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            links += 1
            lost += [] if (page.parent / link).exists() else [(page, link)]

    assert links > 50
    assert lost == []


def test_the_architecture_shows_every_room():
    """Every module of dfprivacy stands in the tree, those of a package behind an underscore with it."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    tree = page.partition("## The tree")[2].partition("```text")[2].partition("```")[0]
    shown = set(re.findall(r"\w+", re.sub(r"\(.*?\)", "", tree)))

    modules = {path.stem for path in (ROOT / "dfprivacy").glob("*.py")}
    packages = {path.parent.name for path in (ROOT / "dfprivacy").glob("*/__init__.py")}
    inner = {
        path.parent.name if path.stem == "__init__" else path.stem
        for path in (ROOT / "dfprivacy").glob("_*/**/*.py")
        if path.parent.parent.name == "dfprivacy" or path.stem == "__init__"
    }

    assert modules | packages | inner <= shown


def rows(cells):
    """Rows of a Markdown table that begin with a number."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in cells if re.match(r"\| \d", line)]


def test_how_many_releases_fit():
    """The table in the explanation of the accounting is what the accounting does."""
    page = (ROOT / "docs/explanation/accounting.md").read_text(encoding="utf-8")
    table = rows(page.partition("<!-- how many fit")[2].splitlines())
    steps, delta = 2**30, exact("1e-8")

    for total, part, *told in table:
        epsilon = exact(part)
        laplace = Laplace(steps, laplace_scale(steps, epsilon), epsilon)
        gaussian = Gaussian(steps**2, gaussian_scale(steps**2, 1, epsilon, delta), 1, epsilon, delta)
        accounts = [
            Accountant.open(kind, *map(exact, total.split(", "))) for kind in ("basic", "rdp", "gdp", "portfolio")
        ]

        assert [str(fits(account, loss)) for loss in (laplace, gaussian) for account in accounts] == told

    assert len(table) == 6


def fits(account, loss):
    """Count how often a loss is admitted."""
    spent, count = account.no_charges, 0
    while account.holds(spent := account.after(spent, loss)):
        count += 1
    return count


def test_both_commands_of_the_readme_are_the_real_ones():
    """The README's second command is what CI runs, and its first is the demo."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first, second, *_ = re.findall(r"^\$ (.*)$", readme, flags=re.MULTILINE)

    assert first == 'python -m venv .venv && .venv/bin/pip install ".[demo]" && .venv/bin/dfprivacy demo'
    assert (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines() == [
        "#!/usr/bin/env bash",
        "set -euo pipefail",
        'cd "$(dirname "$0")/.."',
        "# For tests of the custodian's page and of clocks that jump; without them, these are skipped.",
        "for each in chromium faketime; do",
        '  type "$each" || timeout 120 apt-get install -y --no-install-recommends "$each" &> /dev/null || true',
        "done",
        second,
    ]


THROUGH_WALLS = {
    "_ledger.accounts": "view",
    "_privacy.losses": "_measure.curator",
    "_table.frames": "_measure.curator",
    "release": "view",
    "errors": "view",
    "schema": "_table.batch",
    "_table.batch": "_measure.evaluate",
    "features.base": "_measure.evaluate",
    "mechanism": "_call.question",
    "_privacy.filters": "_ledger.accounts",
    "statistics": "_measure.evaluate",
    "progress": "release",
    "dfprivacy_ttest": "_privacy.conversions",
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """What import-linter says of a copy of the tree with an import through every wall, for type checkers alone."""
    copy = tmp_path_factory.mktemp("walls")
    for part in ("dfprivacy", "plugins"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for importer, imported in THROUGH_WALLS.items():
        place = (
            copy / ("plugins" if importer.startswith("dfprivacy_") else "dfprivacy") / importer.replace(".", "/")
        )
        module = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        with module.open("a", encoding="utf-8") as file:
            file.write(f"\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import dfprivacy.{imported}\n")

    command = Path(sysconfig.get_path("scripts")) / "lint-imports"
    return subprocess.run(
        [command, "--no-cache"],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (copy, copy / "plugins"))), "COLUMNS": "1000"},
        check=False,
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.parametrize("importer", THROUGH_WALLS)
def test_no_import_goes_up_or_sideways(importer, refused):
    """import-linter refuses every import that leads up, sideways or into the house from a plugin."""
    full = importer if importer.startswith("dfprivacy_") else f"dfprivacy.{importer}"

    assert f"{full} -> dfprivacy.{THROUGH_WALLS[importer]} (l." in " ".join(refused.split())


def test_each_page_has_data_sets_of_its_own():
    """Pages can be pasted one after another, with one ledger: none finds another's budget under its own name."""
    block = re.compile(r"```python\n(.*?)```", re.DOTALL)
    protected = re.compile(r"""\bprotect\((?:\s|\.{3})*(?:\w+,(?:\s|\.{3})*)?"([^"]+)\"""")
    owners: dict[str, set[str]] = {}
    for page in PAGES:
        for text in block.findall(page.read_text(encoding="utf-8")):
            for name in protected.findall(text):
                owners.setdefault(name, set()).add(page.name)

    assert len(owners) > 30
    assert {name: pages for name, pages in owners.items() if len(pages) > 1} == {}
