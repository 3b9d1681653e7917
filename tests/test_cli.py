"""The command line: what it prints, as text and as JSON, and how it fails."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.cli import main

SCRIPT = Path(sys.executable).parent / "dfprivacy"
DATA = {"age": [987654.25, 31.0, 45.0, 28.0] * 50, "g": ["CANARY", "b"] * 100}


@pytest.fixture
def spent():
    """Two accounts, of which one has paid for two answers."""
    df = pd.DataFrame(DATA)
    terms = {"bounds": {"age": (18, 90)}, "categories": {"g": ["a", "b"]}}
    clinic = dp.protect(df, "clinic", epsilon=2, delta=1e-6, **terms)
    dp.protect(df, "school", epsilon="1/3", neighbors="add_remove", **terms)
    clinic.ttest("age", popmean=30, epsilon="1/3")
    clinic.group_by("g").ttest("age", popmean=30, epsilon=0.5)
    return clinic


def run(capsys, *arguments):
    """Run a command in this process; its exit code, output and errors."""
    code = main(arguments)
    return code, *capsys.readouterr()


def test_plugins_as_text(capsys):
    """A line for each plugin: its name, distribution, version, status and methods."""
    code, out, err = run(capsys, "plugins")

    assert (0, "") == (code, err)
    assert f"ttest            dfprivacy {metadata.version('dfprivacy')}: loaded: ttest, ztest" in out.splitlines()


def test_a_command_that_cannot_be_loaded_is_left_out(capsys, tmp_path, monkeypatch):
    """A command of a broken package is named, and all others work."""
    metadata_of = tmp_path / "broken-1.0.dist-info"
    metadata_of.mkdir()
    (metadata_of / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (metadata_of / "entry_points.txt").write_text("[dfprivacy.commands]\nmend = broken_commands:add\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    out, err = capsys.readouterr()
    assert 0 == ended.value.code
    assert "audit" in out
    assert "The command 'mend' was left out: ModuleNotFoundError" in err


def test_plugins_as_json(capsys):
    """The same as JSON, with the time it took and what is wrong."""
    code, out, err = run(capsys, "plugins", "--json")

    found = json.loads(out)
    (ttest,) = (plugin for plugin in found["plugins"] if plugin["name"] == "ttest")
    assert (0, "") == (code, err)
    assert ["ttest", "ztest"] == ttest["methods"]
    assert ("dfprivacy", "loaded") == (ttest["distribution"], ttest["status"])
    assert {"plugins", "problems"} == found.keys()


def test_a_ledger_without_accounts(capsys, ledger):
    """A new ledger has no accounts."""
    assert (0, f"{ledger}: 0 accounts\n", "") == run(capsys, "ledger")


def test_the_ledger_as_text(capsys, ledger, spent):
    """Each account with its charges, answers, and what is left; a named one with its questions, oldest first."""
    code, out, err = run(capsys, "ledger")
    one = run(capsys, "ledger", "clinic")[1]

    charges = [line.split()[-1] for line in one.splitlines() if " ttest(" in line]
    assert (["0.333333", "0.5"], False) == (charges, "school" in one)
    assert (0, "") == (code, err)
    assert out.splitlines() == [
        f"{ledger}: 2 accounts",
        "",
        "clinic: 2 charges, 2 answers",
        f"  {spent.budget!r}",
        "",
        "school: 0 charges, 0 answers",
        f"  budget {'░' * 20} epsilon: 0 of 0.333333 spent, 0.333333 left",
    ]


def test_the_ledger_as_json(capsys, ledger, spent):
    """As JSON, budgets are exact and every charge has its loss."""
    code, out, err = run(capsys, "ledger", "--json")

    found = json.loads(out)
    clinic, school = found["accounts"]
    assert (0, "", str(ledger)) == (code, err, found["ledger"])
    assert ("clinic", "2", "1/1000000", "portfolio") == tuple(
        clinic[key] for key in ("account", "epsilon", "delta", "accounting")
    )
    assert ("5/6", "7/6") == (clinic["spent"], clinic["remaining"])
    assert ["1/3", "1/2"] == [entry["epsilon"] for entry in clinic["entries"]]
    assert all(entry["loss"] and entry["at"].endswith("+00:00") for entry in clinic["entries"])
    assert ("1/3", "1/3", "add_remove", []) == tuple(
        school[key] for key in ("epsilon", "remaining", "neighbors", "entries")
    )
    assert "CANARY" not in out
    assert "987654" not in out
    dp.protect(pd.DataFrame(DATA), "elsewhere", epsilon=1, ledger=(other := ledger.with_name("other.sqlite")))
    _, out, _ = run(capsys, "ledger", "--ledger", str(other), "--json")
    assert ["elsewhere"] == [account["account"] for account in json.loads(out)["accounts"]]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["ledger", "clinc"], "LedgerError: The ledger .* has no account 'clinc'; it has 'clinic', 'school'"),
        (["ledger", "clinc", "--json"], "LedgerError: The ledger"),
        (["ledger", "--ledger", "no/such/folder/l.sqlite"], "LedgerError: The ledger .* does not exist"),
        (["ledger", "--ledger", "nosql://x"], "LedgerError: 'nosql' is not a database"),
        (["ledger", "--ledger", "typo.sqlite"], "LedgerError: The ledger .* does not exist"),
        (["ledger", "--ledger", "junk.sqlite"], "LedgerError: The ledger"),
        (["demo", "--ledger", "no/such/folder/l.sqlite"], "LedgerError: The ledger .* does not exist"),
    ],
)
def test_an_error_is_text_on_stderr(capsys, spent, tmp_path, monkeypatch, arguments, text):
    """What goes wrong is explained on stderr, without a traceback, by exit code 1; looking makes no ledger."""
    monkeypatch.chdir(tmp_path)
    Path("junk.sqlite").write_bytes(b"this is no database" * 1000)
    code, _, err = run(capsys, *arguments)

    assert 1 == code
    assert re.match(text, err)
    assert "Nothing was released or spent." in err
    assert not Path("typo.sqlite").exists()


def test_stubs_tell_of_all_plugins(capsys, tmp_path):
    """``stubs`` prints, or writes as a partial stub package, the bundled methods and those of other plugins."""

    @dp.register_mechanism
    @dp.mechanism(columns={"column": "numeric"})
    def stubbed(curator, column): ...

    try:
        printed, written = run(capsys, "stubs"), run(capsys, "stubs", "--output", str(tmp_path))
        listed = run(capsys, "plugins")[1]  # without a distribution
    finally:
        dp.unregister("stubbed")

    package = tmp_path / "dfprivacy-stubs"
    assert (0, "") == (printed[0], printed[2])
    assert "def stubbed(\n        self,\n        column: str,\n" in printed[1]
    assert "def chi2(" in printed[1]
    assert any(line.startswith("stubbed ") and line.endswith("loaded: stubbed") for line in listed.splitlines())
    assert (0, f"{package}: now has the methods of all plugins\n", "") == written
    assert printed[1] == (package / "_bundled.pyi").read_text()
    assert "partial\n" == (package / "py.typed").read_text()


@pytest.mark.parametrize(("arguments", "code"), [
    *((arguments, 2) for arguments in ([], ["nothing"], ["ledger", "--nothing"], ["plugins", "surplus"])),
    *(([*command, "--help"], 0) for command in ([], ["demo"], ["plugins"], ["ledger"])),
])  # fmt: skip
def test_there_is_help(capsys, arguments, code):
    """Every command explains itself; what is no command is refused with the usage, by exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    said = capsys.readouterr()
    assert code == ended.value.code
    assert "usage: dfprivacy" in (said.err if code else said.out)


@pytest.mark.parametrize("command", [[SCRIPT], [sys.executable, "-m", "dfprivacy"]], ids=["script", "module"])
def test_the_installed_command_works_on_an_old_terminal(command, ledger, spent):
    """Script and module run, and bars and Greek letters do not fail where the terminal cannot show them."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONWARNINGS": "error"}

    ended = subprocess.run([*command, "ledger"], check=False, capture_output=True, env=environment)

    assert (0, b"") == (ended.returncode, ended.stderr)
    assert b"clinic: 2 charges" in ended.stdout
    assert b"?" in ended.stdout
