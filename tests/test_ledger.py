"""Where a ledger can be kept, and what happens where it cannot."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dfprivacy._ledger import address
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._privacy.losses import Pure
from dfprivacy.errors import ArgumentError, LedgerError, MissingDependency

TERMS = {
    "epsilon": Fraction(1),
    "delta": Fraction(0),
    "accounting": None,
    "neighbors": "replace_one",
    "public": ("size",),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def account(path):
    return open_ledger(path).open_account("survey", **TERMS)


def pay(account, epsilon):
    return account.charge(Pure(Fraction(epsilon)), call="c1", mechanism="mean")


@pytest.fixture
def python(forked):
    """What runs a script in a process of its own, and gives what it prints."""

    def run(script, *arguments, status=0):
        ended = forked(script, *map(str, arguments), strict=True, status=status)
        assert ended.stderr == b""
        return ended.stdout.decode().strip()

    return run


def sqlite(path, *statements):
    """Change a ledger file behind its back; the rows of the last statement."""
    connection = sqlite3.connect(path)
    for statement in statements:
        rows = connection.execute(statement).fetchall()
    connection.commit()
    connection.close()
    return rows


# Where


def test_a_path_is_a_file_that_stays(path):
    """A ledger file opened again remembers what was spent."""
    pay(open_ledger(path).open_account("survey", **TERMS), "0.5")

    again = open_ledger(str(path))
    assert str(path) == again.where
    assert [Fraction(1, 2)] == [entry.epsilon for entry in again.account("survey").entries()]


def test_the_environment_says_where(path, monkeypatch):
    """Without an argument the ledger is where DFPRIVACY_LEDGER says."""
    monkeypatch.setenv("DFPRIVACY_LEDGER", str(path))

    assert str(path) == open_ledger(None).where
    assert path.is_file()


def test_the_default_is_the_users_data_directory(tmp_path):
    """With nothing said, the ledger is made in the user's data directory, with its folders."""
    script = "from dfprivacy._ledger.ledger import open_ledger; print(open_ledger(None).where)"
    environment = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
    run = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, env=environment
    )

    where = Path(run.stdout.strip())
    assert tmp_path in where.parents
    assert where.name == "ledger.sqlite"
    assert where.is_file()


def test_memory_is_one_ledger():
    """Every ledger in memory of a process is the same one, however it is written."""
    ledger = open_ledger("memory:")

    assert ledger is open_ledger("memory:") is open_ledger(":memory:") is open_ledger("sqlite://")
    assert ledger.where == "memory:"


def test_a_closed_memory_is_no_fresh_budget(python):
    """Closing the ledger in memory does not make room for another one."""
    script = """
from dfprivacy.errors import LedgerError
from dfprivacy._ledger.ledger import open_ledger
open_ledger("memory:").close()
try:
    open_ledger("memory:").accounts()
except LedgerError as error:
    print(error)
"""
    assert "closed" in python(script)


def test_memory_is_no_second_budget_in_a_fork(python):
    """A forked process cannot spend its copy of the ledger in memory."""
    script = """
import os, sys
from fractions import Fraction
from dfprivacy._privacy.losses import Pure
from dfprivacy.errors import LedgerError
from dfprivacy._ledger.ledger import open_ledger
account = open_ledger("memory:").open_account(
    "survey", epsilon=Fraction(1), delta=Fraction(0), accounting=None, neighbors="replace_one", public=()
)
if os.fork() == 0:
    try:
        account.charge(Pure(Fraction(1)), call="c", mechanism="mean")
    except LedgerError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
account.charge(Pure(Fraction(1)), call="c", mechanism="mean")
print("paid")
"""
    refused, paid = python(script).splitlines()
    assert "second budget" in refused
    assert paid == "paid"


def test_a_relative_path_does_not_move(tmp_path, monkeypatch):
    """A ledger opened by a relative path, or by its URL, stays in its folder when the process leaves it."""
    monkeypatch.chdir(tmp_path)
    account = open_ledger("here.sqlite").open_account("survey", **TERMS)
    same = open_ledger("sqlite:///here.sqlite").account("survey")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    pay(account, "0.5")
    pay(same, "0.5")
    assert len(same.entries()) == 2
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_file_is_safe_from_power_loss(path):
    """A SQLite ledger writes ahead and waits for the disk at every commit."""
    with open_ledger(path).transaction(write=True) as connection:
        pragmas = [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in PRAGMAS]

    assert pragmas == ["wal", 2, 1, 60_000]


PRAGMAS = ["journal_mode", "synchronous", "foreign_keys", "busy_timeout"]


def test_importing_is_light():
    """SQLAlchemy is imported by the first ledger, not by the module."""
    script = "import sys, dfprivacy._ledger.ledger; print('sqlalchemy' in sys.modules)"

    run = subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, capture_output=True, text=True)
    assert run.stdout == "False\n"


# Where not


def refused(where):
    with pytest.raises(LedgerError) as caught:
        open_ledger(where).open_account("survey", **TERMS)
    return str(caught.value)


def test_a_missing_folder(tmp_path):
    """A ledger in a folder that does not exist is an error, and no folder is made."""
    assert f"the folder {tmp_path / 'no'} does not exist" in refused(tmp_path / "no" / "ledger.sqlite")
    assert not (tmp_path / "no").exists()


def test_a_folder(tmp_path):
    """A folder is no ledger."""
    assert "is a folder" in refused(tmp_path)


@pytest.mark.parametrize(
    "content", [b"not a database, and long enough to see it. " * 50, b"SQLite format 3\0" * 100]
)
def test_a_file_that_is_no_database(path, content):
    """A file that is not SQLite's is left as it is."""
    path.write_bytes(content)

    assert str(path) in refused(path)
    assert content == path.read_bytes()


def test_a_database_of_another_program(path):
    """A database whose tables have our names is not written to."""
    sqlite(path, "CREATE TABLE accounts (id INTEGER)")

    assert "holds 'accounts', which belongs to no ledger" in refused(path)
    assert sqlite(path, "SELECT name FROM sqlite_master") == [("accounts",)]
    assert sqlite(path, "PRAGMA journal_mode") == [("delete",)]


def test_a_newer_schema(path, account):
    """A ledger written by a newer version is not touched."""
    sqlite(path, "UPDATE ledger SET schema_version = 99")

    assert "newer dfprivacy (schema 99, not 4)" in refused(path)


def test_a_read_only_file(path, account):
    """A ledger that cannot be written can be read, and charges nothing."""
    pay(account, "0.5")
    read_only = open_ledger(f"sqlite:///file:{path}?mode=ro&uri=true").account("survey")

    with pytest.raises(LedgerError, match=r"cannot be written: .*readonly"):
        pay(read_only, "0.5")
    assert len(read_only.entries()) == 1


def test_a_removed_file(path, account):
    """An account whose file was removed cannot be charged, and no new file is made."""
    path.unlink()

    with pytest.raises(LedgerError, match="lacks charges or shares"):
        pay(account, "0.5")
    assert not path.exists()


def test_a_full_disk(python, path):
    """A charge that finds no room on the disk is no charge, and the ledger works when there is room again."""
    script = """
import resource, sys
from fractions import Fraction
from dfprivacy._privacy.losses import Pure
from dfprivacy.errors import LedgerError
from dfprivacy._ledger.ledger import open_ledger
account = open_ledger(sys.argv[1]).open_account(
    "survey", epsilon=Fraction(1), delta=Fraction(0), accounting=None, neighbors="replace_one", public=()
)
for room in (0, 5_000, 9_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    try:
        account.charge(Pure(Fraction(1, 10)), call="c", mechanism="mean")
    except LedgerError as error:
        failed = error
    else:
        failed = None
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(failed, len(account.entries()), account.spent() == account.accountant.nothing)
account.charge(Pure(Fraction(1)), call="c", mechanism="mean")
print(len(account.entries()))
"""
    *full, after = python(script, path).splitlines()
    assert all("cannot be written" in line and line.endswith("0 True") for line in full)
    assert len(full) == 3
    assert after == "1"


def test_a_damaged_row(path, account):
    """A row that cannot be understood is an error of the ledger, for reading and for charging."""
    pay(account, "0.5")
    sqlite(path, "UPDATE accounts SET spent = 'much'", "UPDATE charges SET loss = '{}'")

    with pytest.raises(LedgerError, match="damaged"):
        account.spent()
    with pytest.raises(LedgerError, match="damaged"):
        account.entries()
    with pytest.raises(LedgerError, match="damaged"):
        pay(account, "0.1")


def test_a_closed_ledger(account):
    """Nothing can be read or charged after close, which may be said twice."""
    account.ledger.close()
    account.ledger.close()

    with pytest.raises(LedgerError, match="closed"):
        pay(account, "0.5")
    with pytest.raises(LedgerError, match="closed"):
        account.ledger.accounts()


def test_a_busy_file(path, account, monkeypatch):
    """A ledger that another process keeps locked is an error in the end, and charges nothing."""
    monkeypatch.setitem(address._CONNECT, "timeout", 0.05)
    impatient = open_ledger(path).account("survey")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(LedgerError, match="locked"):
        pay(impatient, "0.5")
    other.close()
    assert impatient.entries() == []


def test_an_answer_that_cannot_be_kept(path, account):
    """If the answer cannot be kept, the error says that its charge stands."""
    pay(account, "0.5")
    sqlite(path, "DROP TABLE answers")

    with pytest.raises(LedgerError, match="what was charged stays charged") as caught:
        account.keep(call="c1", mechanism="mean", question=None, release={})
    assert "Nothing was released or spent" not in str(caught.value)
    assert len(account.entries()) == 1


def test_passwords_are_not_shown():
    """Neither the ledger nor its errors show a password."""
    said = refused("postgresql://analyst:secret1@127.0.0.1:1/x?sslpassword=secret2")

    assert "postgresql+psycopg://analyst:***@127.0.0.1:1/x" in said
    assert "secret" not in said
    assert "secret" not in refused("postgresql://analyst:secret1@127.0.0.1:port/x")


def test_a_missing_driver(monkeypatch):
    """Without psycopg the error says how to install it."""
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(MissingDependency, match=r'pip install "dfprivacy\[postgresql\]"'):
        open_ledger("postgresql://127.0.0.1/x")


def test_an_unknown_database():
    """A database that SQLAlchemy does not know is an error."""
    assert "'nosuch'" in refused("nosuch://host/x")


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\0b", "x" * 201])
def test_names_are_short_lines(account, name):
    """A data set's name is a short printable line."""
    with pytest.raises(ArgumentError, match="name"):
        account.ledger.open_account(name, **TERMS)
