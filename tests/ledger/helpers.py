"""What the tests of the ledger share: an account, a charge, and scripts that begin with both."""

from __future__ import annotations

import functools
import sqlite3
from contextlib import closing
from fractions import Fraction

from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._privacy.losses import Pure

TERMS = {"epsilon": Fraction(1), "delta": Fraction(0), "accounting": None, "neighbors": "replace_one"}
SCRIPT = """
import ctypes, os, random, signal, sys, threading, time
from fractions import Fraction
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._privacy.losses import Pure
from dfprivacy.errors import BudgetExceeded, LedgerError

def opened(name="survey"):
    return open_ledger(sys.argv[1]).open_account(
        name, epsilon=Fraction(1), delta=Fraction(0), accounting=None, neighbors="replace_one"
    )

def pay(account, epsilon, call="c", **more):
    return account.charge(Pure(Fraction(epsilon)), call=call, mechanism="mean", **more)

def spend(account, part, call="c", **more):
    times = 0
    try:
        while True:
            pay(account, part, call, **more)
            times += 1
    except BudgetExceeded:
        return times
"""


def opened(place, name="survey", **terms):
    """Open an account of a budget of 1, where nothing else is said."""
    return open_ledger(place).open_account(name, **{**TERMS, **terms})


def pay(account, epsilon="0.25", **more):
    """Charge it."""
    return account.charge(Pure(Fraction(epsilon)), call="c1", mechanism="mean", **more)


def keep(account, question=None, **more):
    """Keep an answer."""
    account.keep(**{"call": "c1", "mechanism": "mean", "question": question, "release": {}, **more})


def added(account):
    """What the entries add up to."""
    losses = [entry.loss for entry in account.entries()]
    return functools.reduce(account.accountant.after, losses, account.accountant.no_charges)


def sqlite(path, *statements):
    """Change a ledger file behind its back; the rows of the last statement."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            rows = connection.execute(statement).fetchall()
    return rows


def integrity(path):
    """What SQLite says of its own file."""
    return sqlite(path, "PRAGMA integrity_check")
