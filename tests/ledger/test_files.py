"""Where a ledger can be kept, what is said of one that is damaged or closed, and how an old one goes on."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._ledger import address
from dfprivacy._ledger.backup import backup_ledger, restore_ledger
from dfprivacy._ledger.budget import Budget, Releases
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.tables import SCHEMA_VERSION
from dfprivacy._privacy.losses import Pure
from dfprivacy.errors import ArgumentError, BudgetError, LedgerError, MissingDependency

from .helpers import keep, opened, pay, sqlite

# ---- where ----------------------------------------------------------------------------------------------


def test_a_ledger_is_where_it_is_said_to_be(path, tmp_path, monkeypatch):
    """By a path, by the environment; a relative one stays in its folder when the process leaves it."""
    monkeypatch.chdir(tmp_path)
    pay(opened(path), "0.5")
    monkeypatch.setenv("DFPRIVACY_LEDGER", str(path))
    same = [
        open_ledger(str(path)),
        open_ledger(None),
        open_ledger(path.name),
        open_ledger(f"sqlite:///{path.name}"),
    ]
    assert [str(path)] * 2 == [each.where for each in same[:2]]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    for each in same:
        pay(each.account("survey"), "0.125")
    assert [Fraction(1, 2), *[Fraction(1, 8)] * 4] == [entry.epsilon for entry in opened(path).entries()]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_default_is_the_users_data_directory(tmp_path):
    """With nothing said, it is made in the user's data directory; SQLAlchemy is imported by then, not before."""
    script = """
import sys, dfprivacy._ledger.ledger as it
print("sqlalchemy" in sys.modules, it.open_ledger(None).where)"""
    environment = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], check=True, capture_output=True, text=True, env=environment
    )

    light, _, where = run.stdout.strip().partition(" ")
    assert light == "False"
    assert tmp_path in Path(where).parents
    assert Path(where).name == "ledger.sqlite"
    assert Path(where).is_file()


MEMORY = """
ledger = open_ledger("memory:")
assert ledger is open_ledger(":memory:") is open_ledger("sqlite://") and ledger.where == "memory:"
account = ledger.open_account(
    "survey", epsilon=Fraction(1), delta=Fraction(0), accounting=None, neighbors="replace_one"
)
if os.fork() == 0:
    try:
        pay(account, 1)
    except LedgerError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
pay(account, 1)
ledger.close()
try:
    open_ledger("memory:").accounts()
except LedgerError as error:
    print(error)
"""


def test_memory_is_one_ledger(python):
    """However it is written; neither a fork nor a new one after it was closed is a second budget."""
    forked, closed = python(MEMORY).splitlines()
    assert "second budget" in forked
    assert "closed" in closed


def test_a_file_is_safe_from_power_loss(path):
    """A SQLite ledger writes ahead and waits for the disk at every commit."""
    names = ["journal_mode", "synchronous", "foreign_keys", "busy_timeout"]
    with open_ledger(path).transaction(write=True) as connection:
        pragmas = [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names]

    assert pragmas == ["wal", 2, 1, 60_000]


# ---- where not ------------------------------------------------------------------------------------------


def refused(where):
    with pytest.raises(LedgerError) as caught:
        opened(where)
    return str(caught.value)


def test_what_is_no_ledger_is_refused(path, tmp_path, monkeypatch):
    """No folder, a folder, another program's file, a newer schema, an unknown database: all is left as it is."""
    assert f"the folder {tmp_path / 'no'} does not exist" in refused(tmp_path / "no" / "ledger.sqlite")
    assert not (tmp_path / "no").exists()
    assert "is a folder" in refused(tmp_path)
    for content in (b"not a database, and long enough to see it. " * 50, b"SQLite format 3\0" * 100):
        path.write_bytes(content)
        assert str(path) in refused(path)
        assert content == path.read_bytes()
    path.unlink()
    sqlite(path, "CREATE TABLE accounts (id INTEGER)")
    assert "has the table or trigger 'accounts', which no ledger has" in refused(path)
    assert sqlite(path, "SELECT name FROM sqlite_master") == [("accounts",)]
    assert sqlite(path, "PRAGMA journal_mode") == [("delete",)]
    newer = tmp_path / "newer.sqlite"
    opened(newer)
    sqlite(newer, "UPDATE ledger SET schema_version = 99")
    assert f"newer dfprivacy (schema 99, not {SCHEMA_VERSION})" in refused(newer)
    assert "'nosuch'" in refused("nosuch://host/x")
    said = refused("postgresql://analyst:secret1@127.0.0.1:1/x?sslpassword=secret2")
    assert "postgresql+psycopg://analyst:***@127.0.0.1:1/x" in said
    assert "secret" not in said + refused("postgresql://analyst:secret1@127.0.0.1:port/x")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingDependency, match=r'pip install "dfprivacy\[postgresql\]"'):
        open_ledger("postgresql://127.0.0.1/x")


def test_a_read_only_file(path, account):
    """A ledger that cannot be written can be read, and charges nothing."""
    pay(account, "0.5")
    read_only = open_ledger(f"sqlite:///file:{path}?mode=ro&uri=true").account("survey")

    with pytest.raises(LedgerError, match=r"cannot be written: .*readonly"):
        pay(read_only, "0.5")
    assert len(read_only.entries()) == 1


FULL = """
import resource
account = opened()
for room in (0, 5_000, 9_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    try:
        pay(account, "1/10")
    except LedgerError as error:
        failed = error
    else:
        failed = None
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(failed, len(account.entries()), account.spent() == account.accountant.no_charges)
pay(account, 1)
print(len(account.entries()))
"""


def test_a_full_disk(python, path):
    """A charge that finds no room on the disk is no charge, and the ledger works when there is room again."""
    *full, after = python(FULL, path).splitlines()
    assert all("cannot be written" in line and line.endswith("0 True") for line in full)
    assert len(full) == 3
    assert after == "1"


def test_a_busy_file(path, account, monkeypatch):
    """A ledger that another process keeps locked is an error in the end, and charges nothing."""
    monkeypatch.setitem(address._CONNECT, "timeout", 0.05)
    impatient = open_ledger(path).account("survey")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="locked"):
            pay(impatient, "0.5")

    assert impatient.entries() == []


def test_an_answer_that_cannot_be_kept(path, account):
    """If the answer cannot be kept, the error says that its charge stands."""
    pay(account, "0.5")
    sqlite(path, "DROP TABLE answers")

    with pytest.raises(LedgerError, match="what was charged stays charged") as caught:
        keep(account)
    assert "Nothing was released or spent" not in str(caught.value)
    assert len(account.entries()) == 1


# ---- damaged rows ---------------------------------------------------------------------------------------

DATA = {"x": [0.25, 0.5, 0.75] * 50}
JUNK = ["'much'", "x'fffe'", "7", "printf('%.3000c', '[')", "'1/0'", "'1e999999999'", "'null'", "'{}'",
        """'["-1", "0", "0"]'"""]  # fmt: skip
JSON = {"terms", "accountant", "spent", "loss", "release"}  # of the others, JSON is a text like any other
MUST = {
    "ledger": ["schema_version"],
    "accounts": ["name", "epsilon", "delta", "accounting", "neighbors", "accountant", "opened", "spent"],
    "data_tables": ["account", "terms"], "charges": ["at", "loss", "epsilon", "delta"],
    "answers": ["at", "release"], "measurements": ["at", "scale", "steps"],
}  # fmt: skip
MAY = {
    **{table: ["id", "account", "call", "mechanism"] for table in ("charges", "answers", "measurements")},
    "accounts ": ["public"],
    "data_tables ": ["id", "name", "edition", "opened"],
    "answers ": ["question", "question_sha256"],
    "measurements ": ["description", "description_sha256", "noise", "grid", "private"],
}
COLUMNS = [
    pytest.param(table.strip(), name, junk, marks=pytest.mark.one_in(12 if columns is MAY else 3))
    for columns in (MUST, MAY) for table, names in columns.items() for name in names
    for junk in (JUNK if name in JSON else JUNK[:6] if columns is MUST else JUNK[:4])
]  # fmt: skip


def asked(path):
    return pd.DataFrame(DATA).dp.protect("survey", epsilon=1, bounds={"x": (0, 1)}, ledger=path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A ledger with a charge and its answer, in one file."""
    path = tmp_path_factory.mktemp("whole") / "ledger.sqlite"
    asked(path).ttest("x", popmean=0.5, epsilon=0.25)
    return path


def everything(path, held):
    """What can be done with a ledger, step by step."""
    yield held.spent
    yield held.entries
    yield held.answers
    yield lambda: held.charge(Pure(Fraction(1, 100)), call="c", mechanism="mean")
    yield held.check_spent
    yield lambda: repr(Budget(held)) + Budget(held)._repr_html_()
    yield lambda: repr(Releases(held)) + Releases(held)._repr_html_()
    view = asked(path)
    yield lambda: [repr(release) for release in view.releases]
    yield lambda: view.releases.to_frame().to_dict("list")
    yield lambda: view.ttest("x", popmean=0.5, epsilon=0.25)
    yield lambda: view.ttest("x", popmean=0.25, epsilon=0.25)
    yield held.ledger.problems


def noticed(path, held):
    """The errors of ours that anything raises; any other one ends the test."""
    found = []
    with _ours(found):
        for step in everything(path, held):
            with _ours(found):
                step()
    return found


@contextmanager
def _ours(found):
    try:
        yield
    except (LedgerError, BudgetError, ArgumentError) as error:
        found.append(str(error))


@pytest.mark.parametrize(("table", "column", "junk"), COLUMNS)
def test_junk_in_a_column_is_said(whole, path, table, column, junk):
    """Whatever stands in a column, all works or raises an error of ours; what matters is noticed."""
    shutil.copy(whole, path)
    held = open_ledger(path).account("survey")
    try:
        sqlite(path, f"UPDATE {table} SET {column} = {junk}")  # noqa: S608 - our own
    except sqlite3.IntegrityError:
        return  # SQLite lets no such thing into this column

    assert noticed(path, held) or column not in MUST[table]


def test_a_whole_ledger_has_nothing_to_say(whole, tmp_path):
    """The same steps raise nothing where nothing is damaged."""
    path = Path(shutil.copy(whole, tmp_path))

    assert noticed(path, open_ledger(path).account("survey")) == []


READER = """
import sys, warnings
import pandas as pd, dfprivacy as dp
from dfprivacy.errors import LedgerError

def protect(name, address):
    df = pd.DataFrame({"x": [0.25, 0.5, 0.75] * 50})
    return df.dp.protect(name, epsilon=1, bounds={"x": (0, 1)}, ledger=address)

for address in sys.argv[1:]:
    view = protect("survey", address)
    said = [view.ttest("x", popmean=0.5, epsilon=0.25).privacy.replayed, view.budget.remaining, len(view.releases)]
    for refused in (lambda: view.ttest("x", popmean=0.5, epsilon=0.5), lambda: protect("other", address)):
        try:
            refused()
        except LedgerError as error:
            said.append("cannot be written" in str(error) and "Nothing was released or spent" in str(error))
    print(*said, view.budget.remaining)
"""


@pytest.fixture
def locked():
    """Folders that a reader without rights can look into."""
    folders = [Path(tempfile.mkdtemp()) for _ in range(3)]
    yield folders
    for folder in folders:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def without_rights():
    """What makes a process of root's obey the permissions of files; nothing for others, who do."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and there is no setpriv")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


def test_a_ledger_that_cannot_be_written_can_be_read(locked, whole):
    """On a read-only mount accounts open and answers are replayed; what needs a charge or an account is refused."""
    closed, in_use, immutable = paths = [folder / "ledger.sqlite" for folder in locked]
    for path in paths:
        shutil.copy(whole, path)
    with closing(sqlite3.connect(in_use)) as writer:
        writer.execute("UPDATE ledger SET schema_version = ?", [SCHEMA_VERSION])
        writer.commit()
        for folder in locked:
            for file in folder.iterdir():
                file.chmod(0o444)
            folder.chmod(0o555)

        places = [closed, in_use, f"sqlite:///file:{immutable}?immutable=1&uri=true"]
        command = [*without_rights(), sys.executable, "-c", READER, *places]
        run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert run.stdout.splitlines() == ["True 3/4 1 True True 3/4"] * 3, run.stderr


# ---- of older versions ----------------------------------------------------------------------------------

FOLDER = Path(__file__).parents[1] / "data"
WRITTEN = {1: FOLDER / "ledger-0.1.0.sql", 2: FOLDER / "ledger-schema-2.sql"}
"""What the tables held after older versions had asked the questions of `ROWS` that `ANSWERS` counts."""
ROWS = pd.DataFrame({"x": [0.25, 0.5, 0.75] * 50, "g": ["a", "b"] * 75})
SPENT = {"survey": Fraction(1, 4) + Fraction(1, 3), "mixed": Fraction(3, 4)}
ANSWERS = {"survey": 2, "mixed": 2}


@pytest.fixture(params=[1, 2])
def schema(request):
    """The schema that a ledger begins with."""
    return request.param


@pytest.fixture
def old(path, schema):
    """A ledger file as an older version wrote it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(WRITTEN[schema].read_text())
    return path


def dumped(path, *, old_only=False):
    """All that a file holds, as SQL."""
    with closing(sqlite3.connect(path)) as connection:
        lines = list(connection.iterdump())
    new = ["measurements", "data_tables", "ledger", "askers", "shares", "records"]
    new += ["charges_for", "answers_for", "answers_of"]
    return [line for line in lines if not (old_only and any(name in line for name in new))]


def backups(path):
    return sorted(path.parent.glob(f"{path.name}.schema-[12].*"))


def protect(path, **terms):
    known = {"bounds": {"x": (0, 1)}, "categories": {"g": ["a", "b"]}}
    return dp.protect(ROWS, "survey", epsilon=1, ledger=path, **known, **terms)


def test_an_old_ledger_goes_on(old, schema):
    """Accounts, charges and answers are those that were there; a copy of the old file stands beside it, once."""
    before = dumped(old)

    ledger = open_ledger(old)

    assert ledger._schema_version() == SCHEMA_VERSION
    assert ledger.keeps_measurements and ledger.keeps_analysts  # noqa: PT018
    (copy,) = backups(old)
    assert before == dumped(copy)
    assert f".schema-{schema}." in copy.name
    assert dumped(copy, old_only=True) == dumped(old, old_only=True)
    for name, spent in SPENT.items():
        account = ledger.account(name)
        account.check_spent()
        assert spent == sum((entry.epsilon for entry in account.entries()), Fraction(0))
        assert ANSWERS[name] == len(account.answers())
        assert all(account.answer(each.question) == each for each in account.answers())
    ledger.close()
    open_ledger(old).close()
    assert len(backups(old)) == 1


def test_an_old_ledger_can_be_charged_and_shared(old, monkeypatch):
    """Old releases are releases still; nobody wrote down who asked: shares hold for what is asked from now on."""
    monkeypatch.setenv("DFPRIVACY_ANALYST", "ana")
    view = protect(old, budgets={"ana": "1/4"})

    first, second = view.releases
    assert {""} == {asked["analyst"] for asked in view.releases.to_dict()}
    release = view.ttest("x", popmean=0.125, epsilon=0.25, fresh=True)

    assert first.privacy.noise[0].reused == ""
    assert {1 / 3, 0.25} == {first.privacy.epsilon, second.privacy.epsilon}
    assert view.ttest("x", popmean=0.75, epsilon=0.25).privacy.epsilon == 0
    with pytest.raises(dp.BudgetExceeded, match="the share that 'ana' has"):
        view.ttest("x", popmean=0.125, epsilon=0.125, fresh=True)
    assert (0.25, Fraction(1, 4) + SPENT["survey"]) == (release.privacy.epsilon, view.budget.spent)


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


def test_an_old_backup_is_restored_in_a_new_ledger_and_a_new_one_in_an_old_file(old, tmp_path):
    """Backups go both ways, as long as nothing that was spent is lost."""
    source = Path(shutil.copy(old, tmp_path / "old-backup.sqlite"))
    open_ledger(old).close()
    new = backup_ledger(open_ledger(old), tmp_path / "new-backup.sqlite")

    restore_ledger(source, old)
    assert open_ledger(old)._schema_version() == SCHEMA_VERSION
    other = tmp_path / "other" / "ledger.sqlite"
    other.parent.mkdir()
    shutil.copy(source, other)
    restore_ledger(new, other)

    again = open_ledger(other)
    assert (again._schema_version(), again.keeps_measurements) == (SCHEMA_VERSION, True)
    assert ANSWERS["mixed"] == len(again.account("mixed").answers())


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
    ledger.account("survey").check_spent()
    (made,) = ledger.records()
    assert (made.event, made.value) == ("made", f"schema {schema}")
    backups(old)[0].replace(old)  # as it was before: no charge is missing
    assert made.subject == open_ledger(old).records()[0].subject
