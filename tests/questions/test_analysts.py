"""Who asked what: shares of a budget that hold whatever is asked, and a history of questions in full."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sqlite3
import threading
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._ledger.backup import backup_ledger, restore_ledger
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._privacy.losses import Pure
from dfprivacy.cli import main

ROWS = pd.DataFrame({"x": [0.25, 0.5, 0.75] * 50, "g": ["a", "b"] * 75})
SAID = {"bounds": {"x": (0, 1)}, "categories": {"g": ["a", "b"]}}


@pytest.fixture
def ask(monkeypatch):
    """Ask as somebody."""

    def asked(view, analyst, epsilon, **where):
        monkeypatch.setenv("DFPRIVACY_ANALYST", analyst)
        return (view.where(**where) if where else view).mean("x", epsilon=epsilon, fresh=True)

    return asked


def test_a_share_is_kept_to_the_last_digit(ledger, ask):
    """A third and two thirds of a share are all of it; shares may add up to more than the budget, which holds."""
    view = dp.protect(ROWS, "survey", epsilon="4/3", budgets={"ana": "1/3", "bo": "4/3"}, **SAID)
    mine, done = replace(view._target.account, analyst="ana"), []

    def charge(call):
        with suppress(dp.BudgetExceeded):
            done.append(mine.charge(Pure(Fraction(1, 9)), call=call, mechanism="mean"))

    threads = [threading.Thread(target=charge, args=[f"call {number}"]) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(done) == 3
    with pytest.raises(dp.BudgetExceeded, match=r"share that 'ana' has of the account 'survey'.*epsilon = 0"):
        ask(view, "ana", "1/1000000000")
    ask(view, "bo", 0.75)
    with pytest.raises(dp.BudgetExceeded, match="of the account 'survey', where"):
        ask(view, "bo", 0.5)
    ask(view, "bo", 0.25)
    assert view.budget.spent == Fraction(4, 3)
    assert view._target.account.check_spent() is None


def test_who_has_no_share_cannot_ask(ask):
    """Nor can a name that is spelled otherwise have a share of its own; what is free stays free."""
    view = dp.protect(ROWS, "survey", epsilon=10, budgets={"ana": 1}, **SAID)

    ask(view, "Ana ", 1)
    for other in ("ana", "АNA", "bo"):
        with pytest.raises(dp.BudgetExceeded, match="share"):
            ask(view, other, 0.1)
    assert view.mean("x", epsilon=1).privacy.replayed
    assert view.budget.spent == 1
    with pytest.raises(dp.BudgetExceeded, match="Nothing is left"):
        view.mean("x", epsilon="rest")
    assert "CANNOT pay" in repr(view.explain("mean", "x", epsilon=0.5, fresh=True))


@pytest.mark.parametrize("accounting", ["portfolio", "rdp", "gdp"])
def test_a_share_with_a_delta(ask, accounting):
    """A share is a filter of the account's kind, delta in proportion: it allows what such an account does."""
    terms = {"delta": 1e-6, "accounting": accounting, **SAID}
    view = dp.protect(ROWS, "shared", epsilon=4, budgets={"ana": 1}, **terms)
    alone = dp.protect(ROWS, "alone", epsilon=1, **{**terms, "delta": "1/4000000"})

    answered = 0
    for _ in range(400):
        both = []
        for each in (view, alone):
            with suppress(dp.BudgetExceeded):
                both.append(ask(each, "ana", 0.05))
        assert len(both) != 1
        answered += bool(both)
        if not both:
            break
    assert 10 < answered < 400


def test_shares_are_given_once():
    """Another share is refused, more analysts may come, and who asked before has spent of it."""
    view = dp.protect(ROWS, "survey", epsilon=2, **SAID)
    view.mean("x", epsilon=0.5)
    me = view.releases.to_dict()[0]["analyst"]

    dp.protect(ROWS, "survey", epsilon=2, budgets={me: 0.75}, **SAID)
    again = dp.protect(ROWS, "survey", epsilon=2, budgets={"ana": 1}, **SAID)
    with pytest.raises(dp.AccountMismatch, match=r"is epsilon = 1: 'ana' cannot be given a share of 2"):
        dp.protect(ROWS, "survey", epsilon=2, budgets={"ana": 2}, **SAID)
    with pytest.raises(dp.BudgetExceeded, match=r"epsilon = 0\.25"):
        again.mean("x", epsilon=0.5, fresh=True)
    assert f'budgets = {{{me} = "3/4", ana = "1"}}' in again.to_toml().replace('"' + me + '"', me)


@pytest.mark.parametrize(
    "budgets", [{"ana": 3}, {"ana": 0}, {"": 1}, {"a\nb": 1}, {1: 1}, {"ana": 1, "Ana": 1}, ["ana"], {"ana": "x"}]
)
def test_no_shares(budgets):
    """What is no share is refused, before the account is opened."""
    with pytest.raises(dp.ArgumentError):
        dp.protect(ROWS, "survey", epsilon=2, budgets=budgets, **SAID)
    assert open_ledger("memory:").accounts() == []


def test_shares_in_a_file(tmp_path, ask):
    """The schema file may give shares."""
    path = tmp_path / "s.toml"
    path.write_text('epsilon = 2\n[budgets]\nana = "1/2"\n[columns.x]\nbounds = [0, 1]\n')
    view = dp.protect(ROWS, "survey", schema=path)

    ask(view, "ana", 0.5)
    with pytest.raises(dp.BudgetExceeded):
        ask(view, "ana", 0.1)
    assert dp.protect(ROWS, "survey", schema=path, budgets={"ana": 0.5}).budget.spent == 0.5
    with pytest.raises(dp.SchemaError, match="different values of budgets"):
        dp.protect(ROWS, "survey", schema=path, budgets={"ana": 0.25})


def test_a_share_that_was_lowered_is_noticed(ledger, ask):
    """A ledger in which less was spent of a share than was charged is refused."""
    view = dp.protect(ROWS, "survey", epsilon=10, budgets={"ana": 1, "bo": 1}, **SAID)
    ask(view, "ana", 0.5)
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("UPDATE shares SET spent = (SELECT spent FROM shares WHERE analyst = 'bo')")
        connection.commit()

    with pytest.raises(
        dp.LedgerError, match="the spent total of 'survey' by 'ana' is below the sum of its charges"
    ):
        dp.protect(ROWS, "survey", epsilon=10, **SAID)


def test_a_backup_from_before_the_shares_is_refused(ledger, tmp_path, ask):
    """Shares are carried by backups: an older one would let everybody ask."""
    view = dp.protect(ROWS, "survey", epsilon=10, **SAID)
    ask(view, "ana", 0.5)
    copy = backup_ledger(open_ledger(ledger), tmp_path / "copy.sqlite")
    dp.protect(ROWS, "survey", epsilon=10, budgets={"ana": 1}, **SAID)

    with pytest.raises(dp.LedgerError, match="lower what was spent"):
        restore_ledger(copy, ledger)
    with pytest.raises(dp.BudgetExceeded, match="share"):
        ask(view, "bo", 0.5)
    whole = backup_ledger(open_ledger(ledger), tmp_path / "whole.sqlite")
    for more in ("", "-wal", "-shm"):
        ledger.with_name(ledger.name + more).unlink(missing_ok=True)
    shutil.copy(copy, ledger)
    with pytest.raises(dp.LedgerError, match="lacks charges or shares"):
        ask(view, "bo", 0.5)
    restore_ledger(whole, ledger)
    again = dp.protect(ROWS, "survey", epsilon=10, **SAID)
    with pytest.raises(dp.BudgetExceeded, match="share"):
        ask(again, "bo", 0.5)
    assert {"ana"} == set(again._target.account.askers().values())


@pytest.fixture
def view(ask):
    """A view of which two have asked."""
    view = dp.protect(ROWS, "survey", epsilon=10, **SAID)
    ask(view, "ana", 0.5, x=(0.25, 0.5))
    ask(view, "bo", 0.25, g=["a", "b"])
    view.group_by("g").ttest("x", popmean=0.5, epsilon=1)
    view.ttest("x", popmean=0.5, alternative="less", epsilon=1)
    view.ttest("x", popmean=0.25, epsilon=1)
    return view


def test_questions_are_shown_in_full_and_filtered(view):
    """Method, arguments, rows, who asked, what was paid or reused; by method, by analyst and by time."""
    shown = repr(view.releases)

    first, second, third, _, last = view.releases.to_dict()
    assert first["asked"].startswith("mean(column='x'")
    assert (first["analyst"], first["epsilon"], first["reused"]) == ("ana", "1/2", 0)
    assert (last["epsilon"], last["reused"]) == ("0", 1)
    for each, text in ((first, "where x from 0.25 to 0.5"), (second, "where g = a or b"), (third, " by g")):
        assert text in each["asked"]
        assert text in shown
        assert text in view.releases._repr_html_()
    assert "1 measurement reused" in shown
    assert re.findall(r"  (ana|bo)  +mean", shown) == ["ana", "bo"]

    def found(**by):
        return view.releases.filter(**by)

    assert [each["analyst"] for each in found(analyst="Ana").to_dict()] == ["ana"]
    lengths = [len(found(**by)) for by in ({"method": "ttest"}, {"method": "ttest", "analyst": "ana"})]
    times = {"since": "2020-01-01", "until": "2099-12-31"}, {"until": "2020-01-01"}, {"since": first["at"][:10]}
    assert [*lengths, *(len(found(**by)) for by in times)] == [3, 0, 5, 0, 5]
    assert isinstance(found(method="mean")[0], dp.Release)
    for bad in ("yesterday", 3, ""):
        with pytest.raises(dp.ArgumentError, match="is neither a date nor a time"):
            found(since=bad)


def test_the_command_line_filters(ledger, ask, capsys):
    """As text, JSON and CSV, by method, analyst and time."""
    view = dp.protect(ROWS, "survey", epsilon=10, budgets={"ana": 1, "=cmd()": 1}, **SAID)
    ask(view, "ana", 0.5, x=(0.25, 0.5))
    ask(view, "=cmd()", 0.25)

    def run(*options):
        assert main(["ledger", "survey", *options]) == 0
        return capsys.readouterr().out

    text = run("--analyst", "ana")
    assert "where x from 0.25 to 0.5" in text
    assert "=cmd()" not in text.partition("asked")[2]
    assert "share of ana: epsilon 1; 0.5 left" in text
    (account,) = json.loads(run("--json", "--analyst", "ana"))["accounts"]
    assert [(each["analyst"], each["epsilon"]) for each in account["questions"]] == [("ana", "1/2")]
    assert [each["analyst"] for each in account["entries"]] == ["ana"]
    assert account["shares"]["ana"] == {"epsilon": "1", "delta": "0", "remaining": "1/2"}
    rows = list(csv.DictReader(io.StringIO(run("--csv"))))
    assert [row["analyst"] for row in rows] == ["ana", "'=cmd()"]
    assert rows[0]["asked"].endswith("where x from 0.25 to 0.5")
    assert run("--csv", "--method", "ttest").count("\n") == 1
    assert run("--csv", "--until", "2020-01-01").count("\n") == 1
    assert main(["ledger", "survey", "--since", "soon"]) == 1
