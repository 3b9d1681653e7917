"""Names of data sets: what looks the same is one name, and has one budget."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import re
import sqlite3

import pytest

import dfprivacy as dp
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.names import name_key
from dfprivacy.cli import main

from .helpers import TERMS

SAME = {
    "clinic": ["clinic ", " clinic", "Clinic", "CLINIC", "сlinic", "СLІNІС", "ｃlinic", "clınic", "clιnic"],
    "my clinic": ["my  clinic", "My Clinic ", "my clіnic"], "café": ["cafe\u0301", "CAFÉ", "CAFE\u0301"],
    "data-1": ["data–1", "data‑1", "Data−1", "data-①"], "straße": ["STRASSE", "strasse"],
    "опрос": ["Опрос", "ОПРОС "], "office": ["oﬃce"],
}  # fmt: skip
OTHER = ["clinic", "clinic2", "clinics", "my clinic", "myclinic", "cafe", "café", "data-1", "data_1", "data 1"]
OTHER += ["опрос", "問診"]
UNSEEN = [
    "clinic\u200b", "cli\u00adnic", "clinic\u2060", "clinic\u00a0", "clinic\u3164", "cli\u034fnic",
    "clinic\ufe0f",
]  # fmt: skip


def test_what_looks_alike_is_one_name():
    """What differs only in case, spaces or letters that look alike is refused; all else is found again."""
    opened = open_ledger(None)
    for name in UNSEEN:
        with pytest.raises(dp.ArgumentError, match="printable"):
            opened.open_account(name, **TERMS)
    for name in [*SAME, *OTHER, *OTHER]:
        opened.open_account(name, **TERMS)

    for known, others in SAME.items():
        for other in others:
            with pytest.raises(dp.AccountMismatch, match=re.escape(repr(known))):
                opened.open_account(other, **TERMS)
    assert sorted({*SAME, *OTHER}) == sorted(account.name for account in opened.accounts())


def test_the_key_is_its_own_key():
    """Taking the key twice changes nothing, whatever the character."""
    names = [chr(code) for code in (*range(0xD800), *range(0xE000, 0x33480), *range(0xE0000, 0xE0200))]
    others = {key for name in names if (key := name_key(name)) != name}  # the rest are their own keys

    assert [] == [key for key in others if name_key(key) != key]


def test_old_ledgers_keep_both(capsys, ledger):
    """Two look-alikes that a ledger already holds stay usable exactly as spelled, and the command line says so."""
    open_ledger(None).open_account("clinic", **TERMS)
    odd = "Clinic\ufe0f"
    with sqlite3.connect(ledger) as behind:
        columns = "epsilon, delta, accounting, neighbors, public, accountant, opened, spent"
        behind.execute(f"INSERT INTO accounts (name, {columns}) SELECT ?, {columns} FROM accounts", [odd])  # noqa: S608
    behind.close()

    assert odd == open_ledger(None).open_account(odd, **TERMS).name
    assert "clinic" == open_ledger(None).open_account("clinic", **TERMS).name
    with pytest.raises(dp.AccountMismatch, match=r"'Clinic.' and 'clinic'"):
        open_ledger(None).open_account("CLINIC", **TERMS)
    main(["ledger"])
    assert f"{odd!a} and 'clinic' look the same" in capsys.readouterr().out
