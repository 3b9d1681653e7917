"""A ledger of an older schema goes on: nothing that was spent or released is lost, and a backup is taken first."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._ledger.backup import backup, restore
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.tables import SCHEMA_VERSION

FOLDER = Path(__file__).parent / "data"
WRITTEN = {1: FOLDER / "ledger-0.1.0.sql", 2: FOLDER / "ledger-schema-2.sql"}
"""What the tables held after older versions had asked the questions of `ROWS` that `ANSWERS` counts."""
ROWS = pd.DataFrame({"x": [0.25, 0.5, 0.75] * 50, "g": ["a", "b"] * 75})
SPENT = {"survey": Fraction(1, 4) + Fraction(1, 3), "mixed": Fraction(3, 4)}
ANSWERS = {"survey": 2, "mixed": 2}


@pytest.fixture
def schema(request):
    """The schema that a ledger begins with: that of 0.1.0, where nobody says otherwise."""
    return getattr(request, "param", 1)


@pytest.fixture
def old(tmp_path, schema):
    """A ledger file as an older version wrote it."""
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(WRITTEN[schema].read_text())
    return path


def dumped(path, *, old_only=False):
    """All that a file holds, as SQL."""
    with closing(sqlite3.connect(path)) as connection:
        lines = list(connection.iterdump())
    new = ("measurements", "ledger", "askers", "shares", "records", "charges_for", "answers_for", "answers_of")
    return [line for line in lines if not (old_only and any(name in line for name in new))]


def backups(path):
    return sorted(path.parent.glob(f"{path.name}.schema-[12].*"))


def protect(path, name="survey", **terms):
    how = {"epsilon": 1, "bounds": {"x": (0, 1)}, "categories": {"g": ["a", "b"]}, **terms}
    return dp.protect(ROWS, name, ledger=path, **how)


both = pytest.mark.parametrize("schema", [1, 2], indirect=True)


@both
def test_an_old_ledger_goes_on(old, schema):
    """Accounts, charges and answers are those that were there; a copy of the old file stands beside it."""
    before = dumped(old)

    ledger = open_ledger(old)

    assert ledger._version() == SCHEMA_VERSION
    assert (ledger.keeps_measurements, ledger.keeps_analysts) == (True, True)
    (copy,) = backups(old)
    assert before == dumped(copy)
    assert f".schema-{schema}." in copy.name
    assert dumped(copy, old_only=True) == dumped(old, old_only=True)
    for name, spent in SPENT.items():
        account = ledger.account(name)
        account.check()
        assert spent == sum((entry.epsilon for entry in account.entries()), Fraction(0))
        assert ANSWERS[name] == len(account.answers())
        assert all(account.answer(each.question) == each for each in account.answers())


def test_releases_of_an_old_ledger_can_be_read_and_it_can_be_charged(old):
    """Old releases are releases still, and new questions are paid on top of what was spent."""
    view = protect(old)

    first, second = view.releases
    release = view.ttest("x", popmean=0.125, epsilon=0.25)

    assert first.privacy.noise[0].reused == ""
    assert (0.25, Fraction(1, 4) + SPENT["survey"]) == (release.privacy.epsilon, view.budget.spent)
    assert view.ttest("x", popmean=0.75, epsilon=0.25).privacy.epsilon == 0
    assert {1 / 3, 0.25} == {first.privacy.epsilon, second.privacy.epsilon}


@both
def test_shares_of_an_old_ledger(old, monkeypatch, schema):
    """Nobody wrote down who asked before; shares that are given now hold for what is asked from now on."""
    monkeypatch.setenv("DFPRIVACY_ANALYST", "ana")
    view = protect(old, budgets={"ana": "1/4"})

    assert {""} == {asked["analyst"] for asked in view.releases.to_dict()}
    view.ttest("x", popmean=0.125, epsilon=0.25, fresh=True)
    assert view.budget.spent == Fraction(1, 4) + SPENT["survey"]
    with pytest.raises(dp.BudgetExceeded, match="the share that 'ana' has"):
        view.ttest("x", popmean=0.125, epsilon=0.125, fresh=True)
    assert view.budget.spent == Fraction(1, 4) + SPENT["survey"]


@both
def test_it_is_brought_up_to_date_once(old, schema):
    """A second opening makes no second backup."""
    open_ledger(old).close()
    open_ledger(old).close()

    assert len(backups(old)) == 1


@both
def test_what_cannot_be_written_is_used_as_it_is(old, schema):
    """A file that may only be read stays as it is: no backup, no measurements, and it says so."""
    before = dumped(old)

    ledger = open_ledger(f"sqlite:///file:{old}?immutable=1&uri=true")

    assert (ledger.keeps_measurements, ledger.keeps_analysts) == (schema == 2, False)
    assert backups(old) == []
    assert before == dumped(old)
    assert (ledger.account("survey").askers(), ledger.account("survey").shares()) == ({}, [])
    assert any("older dfprivacy" in problem for problem in ledger.problems())
    assert ANSWERS["survey"] == len(ledger.account("survey").answers())


@both
def test_an_old_backup_is_restored_in_a_new_ledger_and_a_new_one_in_an_old_file(old, tmp_path, schema):
    """Backups go both ways, as long as nothing that was spent is lost."""
    source = tmp_path / "old-backup.sqlite"
    source.write_bytes(old.read_bytes())
    open_ledger(old).close()
    new = backup(open_ledger(old), tmp_path / "new-backup.sqlite")

    restore(source, old)
    assert open_ledger(old)._version() == SCHEMA_VERSION
    other = tmp_path / "other" / "ledger.sqlite"
    other.parent.mkdir()
    other.write_bytes(source.read_bytes())
    restore(new, other)

    again = open_ledger(other)
    assert (again._version(), again.keeps_measurements) == (SCHEMA_VERSION, True)
    assert ANSWERS["mixed"] == len(again.account("mixed").answers())


@both
def test_what_an_older_version_remembered_counts(old, schema):
    """A lost file of an older version is missed; one that is there is brought up to date, always under one id."""
    line = '{"account": "survey", "opened": "2026-11-22T19:39:18.159653+00:00", "spent": ["1", "0", "0"]}'
    old.with_name("ledger.sqlite.remembered").write_text(f"\n{line}")
    content = old.read_bytes()
    old.unlink()

    with pytest.raises(dp.LedgerError, match="was lost"):
        open_ledger(old)
    old.write_bytes(content)
    ledger = open_ledger(old)
    ledger.account("survey").check()
    (made,) = ledger.records()
    assert (made.event, made.value) == ("made", f"schema {schema}")
    backups(old)[0].replace(old)  # as it was before: no charge is missing
    assert made.subject == open_ledger(old).records()[0].subject
