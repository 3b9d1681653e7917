"""Names of data sets: what looks the same is one name, and has one budget."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import re
import sqlite3
from contextlib import suppress
from fractions import Fraction

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.names import name_key
from dfprivacy.cli import main

TERMS = {"epsilon": Fraction(1), "delta": Fraction(0), "accounting": None}
TERMS |= {"neighbors": "replace_one"}
SAME = {
    "clinic": ["clinic ", " clinic", "Clinic", "CLINIC", "сlinic", "СLІNІС", "ｃlinic", "clınic", "clιnic"],
    "my clinic": ["my  clinic", "My Clinic ", "my clіnic"],
    "café": ["cafe\u0301", "CAFÉ", "CAFE\u0301"],
    "data-1": ["data–1", "data‑1", "Data−1", "data-①"],
    "straße": ["STRASSE", "strasse"],
    "опрос": ["Опрос", "ОПРОС "],
    "office": ["oﬃce"],
}
OTHER = ["clinic", "clinic2", "clinics", "my clinic", "myclinic", "cafe", "café", "data-1", "data_1", "data 1"]
OTHER += ["опрос", "問診"]
UNSEEN = [
    "clinic\u200b",
    "cli\u00adnic",
    "clinic\u2060",
    "clinic\u00a0",
    "clinic\u3164",
    "cli\u034fnic",
    "clinic\ufe0f",
]


@pytest.mark.parametrize("known", SAME)
def test_a_look_alike_is_refused(known):
    """A name that differs from a known one only in case, spaces or look-alike letters gets no budget."""
    ledger = open_ledger(None)
    ledger.open_account(known, **TERMS)

    for other in SAME[known]:
        with pytest.raises(dp.AccountMismatch, match=re.escape(repr(known))):
            ledger.open_account(other, **TERMS)
    assert [known] == [account.name for account in ledger.accounts()]


def test_what_reads_differently_is_another_name():
    """Names that people can tell apart are data sets of their own, and each is found again as it was given."""
    ledger = open_ledger(None)
    for name in OTHER * 2:
        ledger.open_account(name, **TERMS)

    assert sorted(OTHER) == sorted(account.name for account in ledger.accounts())


@pytest.mark.parametrize("name", UNSEEN)
def test_what_cannot_be_seen_is_refused(name):
    """A name with characters that nobody sees is refused, known or not."""
    ledger = open_ledger(None)

    with pytest.raises(dp.ArgumentError, match="printable"):
        ledger.open_account(name, **TERMS)
    assert [] == ledger.accounts()


def test_one_data_set_has_one_budget():
    """Through a frame: a spelling does not buy a second budget, and the first name goes on."""
    df = pd.DataFrame({"x": [0.5] * 100})
    for name in ("clinic", "clinic ", " clinic", "Clinic"):
        with suppress(dp.AccountMismatch):
            df.dp.protect(name, epsilon=1, bounds={"x": (0, 1)}).ttest("x", popmean=0.5, epsilon="0.75")

    ledger = open_ledger(None)
    assert [("clinic", 1)] == [(account.name, len(account.entries())) for account in ledger.accounts()]


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
