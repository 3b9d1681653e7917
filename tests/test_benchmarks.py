"""The documents show what the benchmarks kept, and the benchmarks keep what they print."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import ast
import importlib
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import harness  # noqa: E402
import report  # noqa: E402

MODULES = [path.stem for path in sorted(BENCHMARKS.glob("*.py")) if "\ntables = Tables(" in path.read_text("utf-8")]


def test_documents_show_the_kept_results():
    """Every table, and every number of the README, is what the result files say."""
    assert [page for page in report.PAGES if report.rendered(text := page.read_text("utf-8")) != text] == []


def test_a_number_that_was_changed_by_hand_is_put_right():
    """Tables and the README's numbers are made of the files, whatever stands there."""
    (answer,) = (took for what, took, *_ in harness.read("speed")["rows"] if what.startswith("one `ttest`"))
    pages = {report.ROOT / "README.md": answer, report.ROOT / "docs/benchmarks/speed.md": f"| {answer} |"}
    for page, number in pages.items():
        text = page.read_text(encoding="utf-8")

        assert number in text
        assert text == report.rendered(text.replace(number, number.replace(answer, "1.234 ms")))


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_finds_what_it_imports(path):
    """A script that nobody runs for weeks follows the names of what it measures."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    wanted = [
        (importlib.import_module(each.module), alias.name)
        for each in ast.walk(tree)
        if isinstance(each, ast.ImportFrom) and (each.module or "").startswith("dfprivacy")
        for alias in each.names
    ]

    lost = [
        f"{module.__name__}.{name}"
        for module, name in wanted
        if not (hasattr(module, name) or (hasattr(module, "__path__") and find_spec(f"{module.__name__}.{name}")))
    ]
    assert lost == []


def test_results_are_complete():
    """A result says by which case, when, and with which version it was made, and has the columns of that case."""
    for name in sorted(report.shown()):
        result = harness.read(name)
        module, case = re.fullmatch(
            r"python tests/benchmarks/(\w+)\.py (\w+)(?: --\w+ \d+)*", result["command"]
        ).groups()

        assert name == result["name"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", result["date"]), name
        assert "dfprivacy" in result["versions"], name
        assert {len(result["columns"])} == {len(row) for row in result["rows"]}, name
        assert result["columns"] == list(importlib.import_module(module).tables.cases[case].columns), name


QUICK = {  # cases of what is asked of the library, and sizes at which they take a moment
    ("intervals", "inference_curves"): {"runs": 2},
    ("levels", "levels_anova"): {"runs": 2},
    ("papers", "gmm_cancer"): {"runs": 2},
    ("papers", "tong_table1"): {"runs": 100},
    ("power", "papers_raj2019_power"): {"runs": 2},
    ("speed", "peers_speed"): {"rows": 2000, "repeats": 1},
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("module", "case"), QUICK, ids=lambda name: name)
def test_a_case_measures_rows_of_its_columns(module, case):
    """What is asked in the documents is asked of what is there today."""
    tables = importlib.import_module(module).tables
    rows = list(tables.cases[case].measure(**QUICK[module, case]))

    assert {len(tables.cases[case].columns)} == {len(row) for row in rows}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_says_what_it_has(module, monkeypatch, capsys):
    """Each case has a name, options with defaults, and a word on what it measures."""
    tables = importlib.import_module(module).tables
    monkeypatch.setattr(sys, "argv", [f"{module}.py", "--help"])

    with pytest.raises(SystemExit):
        tables.main()

    told = capsys.readouterr().out
    assert [name for name in tables.cases if name not in told] == []


def test_a_benchmark_keeps_what_it_prints(tmp_path, monkeypatch, capsys):
    """What was printed is what is kept, with the command, without the folders of the machine."""
    monkeypatch.setattr(harness, "FOLDER", tmp_path)
    monkeypatch.setattr(
        sys, "argv", [f"{tmp_path.parent}/speed.py", "speed", "--rows", "10", "--resume", "/somewhere/parts"]
    )

    with harness.recorded("name", "what", "measured") as row:
        row("speed", 1.5)
        row("with ε", "")
    kept = harness.read("name")

    assert capsys.readouterr().out == harness.markdown(kept["columns"], kept["rows"]) + "\n"
    assert "| what | measured |\n|---|---|\n| speed | 1.5 |\n| with ε |  |" == report.markdown(
        kept["columns"], kept["rows"]
    )
    assert "python tests/benchmarks/speed.py speed --rows 10" == kept["command"]


def test_what_was_not_finished_is_not_kept(tmp_path, monkeypatch):
    """A benchmark that breaks off leaves the last complete table alone."""
    monkeypatch.setattr(harness, "FOLDER", tmp_path)

    with pytest.raises(ZeroDivisionError), harness.recorded("name", "what") as row:
        row(1 / 0)

    assert [] == list(tmp_path.iterdir())
