"""A ledger file among processes that are killed, forked and interrupted."""

from __future__ import annotations

import functools
import sqlite3
import subprocess
import sys
from contextlib import closing
from fractions import Fraction

import pytest

from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._privacy.losses import Pure
from dfprivacy.errors import BudgetExceeded

TERMS = {"delta": Fraction(0), "accounting": None, "neighbors": "replace_one", "public": ()}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def python(forked):
    """What runs a script in a process of its own, and gives what it prints."""

    def run(script, *arguments, status=0):
        ended = forked(script, *map(str, arguments), strict=True, status=status)
        assert ended.stderr == b""
        return ended.stdout.decode().strip()

    return run


# Two workers at any time charge and then release, until each is killed. A worker is a fork of a process that
# has imported everything and charged once, so it charges from its first millisecond; it says so through a pipe.
KILLER = """
import gc, os, random, signal, sys, time
from fractions import Fraction
from dfprivacy._privacy.losses import Pure
from dfprivacy._ledger.ledger import open_ledger

path, released, kills = sys.argv[1], sys.argv[2], int(sys.argv[3])
account = open_ledger(path).account("survey")
account.charge(Pure(Fraction(1, 1000)), call=str(os.getpid()), mechanism="mean")
chance = random.Random(20_260_101)
gc.freeze()

def work(pipe):
    file = os.open(released, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(pipe, b"!")
    while True:
        entry = account.charge(Pure(Fraction(1, 1000)), call=str(os.getpid()), mechanism="mean")
        os.write(file, f"{entry} {os.getpid()}\\n".encode())
        os.fsync(file)

def start():
    read, write = os.pipe()
    worker = os.fork()
    if worker == 0:
        try:
            work(write)
        finally:
            os._exit(1)
    os.close(write)
    assert os.read(read, 1) == b"!"
    os.close(read)
    return worker

def enough():
    # on a busy machine many workers die before their first release
    with open(released) as file:
        return killed >= kills and len(file.readlines()) >= 50

workers = [start(), start()]
killed = 0
while workers:
    time.sleep(chance.uniform(0, 0.015))
    worker = workers.pop(chance.randrange(len(workers)))
    os.kill(worker, signal.SIGKILL)
    _, status = os.waitpid(worker, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
    killed += 1
    if not enough():
        workers.append(start())
print(killed)
"""


def test_a_kill_gives_no_answer_away(path, tmp_path):
    """However often processes are killed, every answer that got out is charged, and the sums are right."""
    account = open_ledger(path).open_account("survey", epsilon=Fraction(10**6), **TERMS)
    released = tmp_path / "released"

    # A lean interpreter, for it is forked 240 times.
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", KILLER, path, released, "240"],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (run.returncode, run.stderr) == (0, "")
    killed = int(run.stdout)

    entries = account.entries()
    charged = {f"{entry.id} {entry.call}" for entry in entries}
    lines = released.read_text().splitlines()
    losses = [entry.loss for entry in entries]
    assert killed >= 240
    assert len(lines) >= 50
    assert set() == set(lines) - charged
    assert len(lines) == len(set(lines))
    assert functools.reduce(account.accountant.after, losses, account.accountant.nothing) == account.spent()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


CRASH = """
import os, signal, sys
from fractions import Fraction
from dfprivacy._privacy.losses import Pure
from dfprivacy._ledger.ledger import open_ledger

account = open_ledger(sys.argv[1]).account("survey")
account.charge(Pure(Fraction(3, 4)), call="c1", mechanism="mean")
os.kill(os.getpid(), signal.SIGKILL)
account.keep(call="c1", mechanism="mean", question="{}", release={})
"""


def test_a_crash_after_the_charge_leaves_the_charge(python, path):
    """An answer lost between its charge and its release stays paid for."""
    account = open_ledger(path).open_account("survey", epsilon=Fraction(1), **TERMS)

    python(CRASH, path, status=-9)

    assert [Fraction(3, 4)] == [entry.epsilon for entry in account.entries()]
    assert account.answers() == []
    with pytest.raises(BudgetExceeded):
        account.charge(Pure(Fraction(1, 2)), call="c2", mechanism="mean")


INTERRUPT = """
import os, signal, sys
from fractions import Fraction
from dfprivacy._privacy.losses import Pure
from dfprivacy._ledger.ledger import open_ledger

account = open_ledger(sys.argv[1]).account("survey")
with account.ledger.transaction(write=True) as connection:
    connection.exec_driver_sql("UPDATE accounts SET spent = 'half a charge'")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_crash_within_the_charge_leaves_nothing(python, path):
    """A process killed before its commit has charged nothing, and holds nobody up."""
    account = open_ledger(path).open_account("survey", epsilon=Fraction(1), **TERMS)

    python(INTERRUPT, path, status=-9)

    assert account.accountant.nothing == account.spent()
    account.charge(Pure(Fraction(1)), call="c1", mechanism="mean")
