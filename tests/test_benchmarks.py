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
import report  # noqa: E402
import results  # noqa: E402

NOT_RUN = {
    "designs",
    "eda_peers",
    "eda_simulation",
    "eda_tables",
    "expansion",
    "peers_ask",
    "report",
    "results",
    "rows",
}  # what others import or start
SCRIPTS = sorted(
    path.relative_to(BENCHMARKS).as_posix()
    for path in (*BENCHMARKS.glob("*.py"), *BENCHMARKS.glob("papers/*.py"))
    if path.stem not in NOT_RUN
)


@pytest.mark.parametrize("page", report.PAGES, ids=lambda page: page.relative_to(report.ROOT).as_posix())
def test_documents_show_the_kept_results(page):
    """Every table, and every number of the README, is what the result files say."""
    text = page.read_text(encoding="utf-8")

    assert report.rendered(text) == text


def test_a_number_that_was_changed_by_hand_is_put_right():
    """Tables and the README's numbers are made of the files, whatever stands there."""
    (answer,) = (took for what, took, *_ in results.read("speed")["rows"] if what.startswith("one `ttest`"))
    pages = {report.ROOT / "README.md": answer, report.ROOT / "docs/benchmarks/speed.md": f"| {answer} |"}
    for page, number in pages.items():
        text = page.read_text(encoding="utf-8")

        assert number in text
        assert text == report.rendered(text.replace(number, number.replace(answer, "1.234 ms")))


@pytest.mark.parametrize("path", sorted(BENCHMARKS.rglob("*.py")), ids=lambda path: path.stem)
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


@pytest.mark.parametrize("name", sorted(report.shown()))
def test_results_are_complete(name):
    """A result says by which script, when, and with which version it was made; its rows have its columns."""
    result = results.read(name)
    script = re.fullmatch(r"python tests/benchmarks/((?:papers/)?\w+\.py).*", result["command"])[1]

    assert name == result["name"]
    assert script in SCRIPTS
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", result["date"])
    assert "dfprivacy" in result["versions"]
    assert {len(result["columns"])} == {len(row) for row in result["rows"]}


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_benchmark_keeps_its_tables(script):
    """No benchmark prints the head of a table itself."""
    source = (BENCHMARKS / script).read_text(encoding="utf-8")

    assert "from results import" in source
    assert "|---" not in source


def test_a_benchmark_keeps_what_it_prints(tmp_path, monkeypatch, capsys):
    """What was printed is what is kept, with the command, without the folders of the machine."""
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(
        sys, "argv", [f"{tmp_path.parent}/speed.py", "--rows", "10", "/somewhere/else/adult.csv", "--a=/b/c d"]
    )

    with results.recorded("name", "what", "measured") as row:
        row("speed", 1.5)
        row("with ε", "")
    kept = results.read("name")

    assert capsys.readouterr().out == results.markdown(kept["columns"], kept["rows"]) + "\n"
    assert "| what | measured |\n|---|---|\n| speed | 1.5 |\n| with ε |  |" == report.markdown(
        kept["columns"], kept["rows"]
    )
    assert "python tests/benchmarks/speed.py --rows 10 adult.csv '--a=c d'" == kept["command"]


def test_what_was_not_finished_is_not_kept(tmp_path, monkeypatch):
    """A benchmark that breaks off, or measures a part of its table only, leaves the last complete table alone."""
    monkeypatch.setattr(results, "FOLDER", tmp_path)

    with pytest.raises(ZeroDivisionError), results.recorded("name", "what") as row:
        row(1 / 0)
    with results.recorded("name", "what", keep=False) as row:
        row("part")

    assert [] == list(tmp_path.iterdir())
