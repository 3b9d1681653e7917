"""A ledger with damaged rows, and one that cannot be written: what is said, and what still works."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager, suppress
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

from dfprivacy._ledger import remembered
from dfprivacy._ledger.budget import Budget, Releases
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.tables import SCHEMA_VERSION
from dfprivacy._privacy.losses import Pure
from dfprivacy.errors import ArgumentError, BudgetError, LedgerError

DATA = {"x": [0.25, 0.5, 0.75] * 50}
JUNK = ["much", "1/0", "1e999999999", "null", "{}", '["-1", "0", "0"]', "[" * 3000, b"\xff\xfe", 7]
MUST = {
    "ledger": ["schema_version"],
    "accounts": ["name", "epsilon", "delta", "accounting", "neighbors", "public", "accountant", "opened", "spent"],
    "charges": ["at", "loss", "epsilon", "delta"],
    "answers": ["at", "release"],
    "measurements": ["at", "scale", "steps"],
}
COLUMNS = [
    *((table, column) for table, columns in MUST.items() for column in columns),
    *(
        (table, column)
        for table in ("charges", "answers", "measurements")
        for column in ("id", "account", "call", "mechanism")
    ),
    ("answers", "question"),
    ("answers", "question_sha256"),
    *(("measurements", column) for column in ("description", "description_sha256", "noise", "grid", "private")),
]


def protect(path):
    return pd.DataFrame(DATA).dp.protect("survey", epsilon=1, bounds={"x": (0, 1)}, ledger=path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A ledger with a charge and its answer, in one file."""
    path = tmp_path_factory.mktemp("whole") / "ledger.sqlite"
    protect(path).ttest("x", popmean=0.5, epsilon=0.25)
    return path


def everything(path, held):
    """What can be done with a ledger, step by step."""
    yield held.spent
    yield held.entries
    yield held.answers
    yield lambda: held.charge(Pure(Fraction(1, 100)), call="c", mechanism="mean")
    yield lambda: open_ledger(path).account("survey").check()
    yield lambda: repr(Budget(held)) + Budget(held)._repr_html_()
    yield lambda: repr(Releases(held)) + Releases(held)._repr_html_()
    view = protect(path)
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


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_junk_in_a_column_is_said(whole, tmp_path, monkeypatch, table, column):
    """Whatever stands in a column, all works or raises an error of ours; what matters is noticed."""
    path, written = tmp_path / "ledger.sqlite", []
    for junk in JUNK:
        for file in tmp_path.iterdir():
            file.unlink()
        shutil.copy(whole, path)
        monkeypatch.setattr(remembered, "_memories", {})  # of the file before
        held = open_ledger(path).account("survey")
        with suppress(sqlite3.IntegrityError), closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"UPDATE {table} SET {column} = ?", [junk])  # noqa: S608 - our own
            written.append(junk)
        if junk not in written:  # SQLite lets no such thing into this column
            continue

        assert noticed(path, held) or column not in MUST[table], junk
    assert written


def test_a_whole_ledger_has_nothing_to_say(whole, tmp_path):
    """The same steps raise nothing where nothing is damaged."""
    path = Path(shutil.copy(whole, tmp_path))

    assert [] == noticed(path, open_ledger(path).account("survey"))


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
    writer = sqlite3.connect(in_use)
    writer.execute("UPDATE ledger SET schema_version = ?", [SCHEMA_VERSION])
    writer.commit()
    for folder in locked:
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)

    run = subprocess.run(
        [
            *without_rights(),
            sys.executable,
            "-c",
            READER,
            closed,
            in_use,
            f"sqlite:///file:{immutable}?immutable=1&uri=true",
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    writer.close()
    assert ["True 3/4 1 True True 3/4"] * 3 == run.stdout.splitlines(), run.stderr
