"""A ledger that was lost, cut off, replaced or changed gives no fresh budget; backups bring it back."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from dfprivacy._ledger import remembered
from dfprivacy._ledger.backup import backup, forget, restore
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._privacy.losses import Gaussian, Laplace, Pure
from dfprivacy.cli import main
from dfprivacy.errors import LedgerError

TERMS = {"epsilon": Fraction(1), "accounting": None, "neighbors": "replace_one", "public": ("size",)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


def opened(path, name="survey", delta=Fraction(0)):
    return open_ledger(path).open_account(name, delta=delta, **TERMS)


def pay(account, epsilon="0.25"):
    return account.charge(Pure(Fraction(epsilon)), call="c1", mechanism="mean")


def behind(path, *statements):
    """Change a ledger file behind its back."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def less_spent(path, spent):
    behind(path, f"UPDATE accounts SET spent = '{json.dumps(spent)}'")  # noqa: S608 - our own


def files(path):
    """A ledger's file and what SQLite keeps beside it."""
    return [path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")]


def deleted(path):
    for file in files(path):
        file.unlink(missing_ok=True)


def emptied(path):
    path.write_bytes(b"")


def emptied_with_its_log(path):
    path.write_bytes(b"")
    files(path)[1].write_bytes(b"left over")


def made_anew(path):
    deleted(path)
    sqlite3.connect(path).execute("CREATE TABLE other (id INTEGER)").connection.close()


def exchanged(path):
    deleted(path)
    other = path.with_name("other.sqlite")
    pay(opened(other), "0.5")
    shutil.copy(other, path)


def set_back(path):
    behind(path, "DELETE FROM charges", """UPDATE accounts SET spent = '["0", "0", "0"]'""")


def without_its_account(path):
    behind(path, "DELETE FROM charges", "DELETE FROM accounts")


LOSSES = [deleted, emptied, emptied_with_its_log, made_anew, exchanged, set_back, without_its_account]


@pytest.mark.parametrize("lose", LOSSES)
def test_a_lost_ledger_is_no_fresh_budget(path, lose):
    """What happens to the file of a known account is an error that says what to do, and makes no ledger."""
    pay(opened(path))
    lose(path)
    before = [file.read_bytes() if file.exists() else None for file in files(path)]

    with pytest.raises(LedgerError) as caught:
        opened(path)
    if lose is made_anew:
        assert "holds 'other', which belongs to no ledger" in str(caught.value)
    else:
        assert "it lacks charges or shares that were seen in it" in str(caught.value)
        assert "dfprivacy ledger restore" in str(caught.value)
        assert f"dfprivacy ledger forget {path}" in str(caught.value)
    if lose in {deleted, emptied, emptied_with_its_log}:
        assert before == [file.read_bytes() if file.exists() else None for file in files(path)]


@pytest.mark.parametrize(
    "address", ["{}", "sqlite:///{}", "sqlite:///file:{}?uri=true", "sqlite:///{}?timeout=5", "link"]
)
def test_every_way_to_the_file_is_refused(path, address):
    """A lost ledger is missed however it is addressed."""
    pay(opened(path))
    deleted(path)
    link = path.with_name("link")
    link.symlink_to(path)

    with pytest.raises(LedgerError, match="was lost"):
        opened(str(link) if address == "link" else address.format(path))


def test_other_files_are_not_concerned(path, tmp_path):
    """A new ledger beside a known one, and a known one that was moved with its folder, are used."""
    pay(opened(path))
    (tmp_path / "folder").mkdir()
    elsewhere = tmp_path / "folder" / path.name
    pay(opened(elsewhere))
    (tmp_path / "folder").rename(tmp_path / "moved")

    assert 1 == len(opened(tmp_path / "moved" / path.name).entries())
    assert [] == opened(tmp_path / "new.sqlite").entries()


def test_a_copy_that_knows_more_is_used(path, tmp_path, monkeypatch):
    """A file with more charges than are remembered, such as one that another machine went on with, is used."""
    account = opened(path)
    pay(account)
    memory = open_ledger(path).memory.path
    shutil.copy(memory, tmp_path / "older")
    pay(account)
    shutil.copy(tmp_path / "older", memory)
    monkeypatch.setattr(remembered, "_memories", {})  # as in another process

    assert 2 == len(opened(path).entries())
    assert memory.stat().st_size > (tmp_path / "older").stat().st_size


def test_an_old_ledger_is_remembered(path):
    """A ledger from before there was a memory is used, and remembered from then on."""
    pay(opened(path))
    open_ledger(path).memory.path.unlink()

    assert 1 == len(opened(path).entries())
    deleted(path)
    with pytest.raises(LedgerError, match="was lost"):
        open_ledger(path)


def test_a_damaged_memory_loses_lines_only(path):
    """A torn line spoils no other, and nothing in the memory can break a ledger."""
    account = opened(path)
    pay(account)
    memory = open_ledger(path).memory.path
    with memory.open("ab") as file:
        file.write(
            b'\n{"account": "survey", "ope\n[]\n7\n{"account": "survey", "opened": 1, "spent": "x"}\n\xff\xfe'
        )
    pay(account)

    assert 2 == len(opened(path).entries())
    deleted(path)
    with pytest.raises(LedgerError, match="was lost"):
        open_ledger(path)


def test_the_memory_stays_small(path, monkeypatch):
    """However many charges leave a short file, with the newest number."""
    monkeypatch.setattr(remembered, "_LARGEST", 2000)
    account = opened(path)
    for _ in range(40):
        pay(account, "0.001")
    memory = account.ledger.memory

    assert memory.path.stat().st_size < 2500
    monkeypatch.setattr(remembered, "_memories", {})
    assert [40] == [seen.charge for seen in open_ledger(path).memory.recall().values()]


def test_a_memory_that_cannot_be_written(path):
    """Where nothing can be remembered, the ledger works as ever."""
    open_ledger(path).memory.path.mkdir()

    pay(opened(path))
    assert 1 == len(opened(path).entries())


def test_forgetting_is_for_what_was_meant(path, capsys):
    """After `forget`, and only then, a deleted ledger is made anew."""
    pay(opened(path))
    deleted(path)

    assert 0 == main(["ledger", "forget", str(path)])
    assert "new budget" in capsys.readouterr().out
    assert [] == opened(path).entries()
    assert not forget(path.with_name("never"))


# Ways back, under an open account


def older(path):
    """The ledger as it was after its first charge, which a copy of the file alone may lack."""
    return path.with_name("backup")


def copied_over(path):
    deleted(path)
    shutil.copy(older(path), path)


def written_over(path):
    for file in files(path)[1:]:
        file.unlink(missing_ok=True)
    path.write_bytes(older(path).read_bytes())


def moved_over(path):
    shutil.copy(older(path), path.with_name("moved"))
    path.with_name("moved").replace(path)


def replaced_by_another(path):
    deleted(path)
    other = path.with_name("other.sqlite")
    for _ in range(3):
        pay(opened(other))
    shutil.copy(backup(open_ledger(other), path.with_name("of-other")), path)


def linked(path):
    path.with_name("second").hardlink_to(path)


def remembers_all(path, monkeypatch):
    pass


def remembers_in_the_process(path, monkeypatch):
    path.with_name("ledger.sqlite.remembered").unlink()


def remembers_beside(path, monkeypatch):
    monkeypatch.setattr(remembered, "_memories", {})


@pytest.mark.parametrize("memory", [remembers_all, remembers_in_the_process, remembers_beside])
@pytest.mark.parametrize("way", [copied_over, written_over, moved_over, replaced_by_another, deleted, linked])
def test_no_way_back_is_a_fresh_budget(path, monkeypatch, way, memory):
    """Nothing more is charged or kept, by an open account or a new one, by this process or another."""
    account = opened(path)
    pay(account)
    backup(account.ledger, older(path))
    for _ in range(3):
        pay(account)
    way(path)
    memory(path, monkeypatch)

    if memory is not remembers_beside:  # as the account of another process has its own memory
        for write in (pay, kept):
            with pytest.raises(LedgerError, match=r"was lost, or replaced|several names") as caught:
                write(account)
            assert ("stays charged" in str(caught.value)) == (write is kept)
    with pytest.raises(LedgerError, match=r"was lost, or replaced|several names"):
        opened(path)


def kept(account):
    account.keep(call="c1", mechanism="mean", question=None, release={})


def test_an_account_stays_with_its_ledger(path):
    """Another ledger is not written by an account of the one before it, even if nothing was charged there."""
    account = opened(path)
    deleted(path)
    opened(path)

    with pytest.raises(LedgerError, match="replaced"):
        pay(account)
    pay(opened(path))


def test_only_a_lost_ledger_can_be_given_up(path, monkeypatch, capsys):
    """A complete ledger is not forgotten; what is given up is on record in the ledger that comes in its place."""
    account = opened(path)
    pay(account)
    backup(account.ledger, older(path))
    pay(account)
    with pytest.raises(LedgerError, match="is there, with all that is remembered"):
        forget(path)
    deleted(path)
    with pytest.raises(LedgerError, match="lower"):
        restore(older(path), path)

    assert forget(path)
    restore(older(path), path)

    (made, *said) = open_ledger(path).records()
    assert [each.event for each in said] == ["restored", "forgotten"]
    assert said[1].subject == made.subject
    assert said[1].value.startswith("charge 2, 20")
    assert 0 == main(["ledger", "--ledger", str(path)])
    assert "the custodian gave up the ledger" in capsys.readouterr().out
    pay(account)  # the custodian's word counts for an open account too
    monkeypatch.setattr(remembered, "_memories", {})
    assert 2 == len(opened(path).entries())
    assert len(said) + 1 == len(open_ledger(path).records())
    copied_over(path)
    with pytest.raises(LedgerError, match="was lost"):  # it was given for what was lost then
        open_ledger(path)


def test_a_copy_of_which_nothing_is_remembered_is_on_record(path, monkeypatch):
    """Where both files were deleted, an older copy can be used, and holds a record of it."""
    account = opened(path)
    pay(account)
    backup(account.ledger, older(path))
    pay(account)
    copied_over(path)
    account.ledger.memory.path.unlink()
    monkeypatch.setattr(remembered, "_memories", {})

    assert [each.event for each in open_ledger(path).records()] == ["made", "found"]
    assert [each.value for each in open_ledger(path).records()] == ["", "charge 1"]


def test_a_damaged_ledger_of_which_nothing_is_remembered(path, monkeypatch):
    """Whether a backup has all that it had cannot be known: it has to be moved away first."""
    account = opened(path)
    pay(account)
    backup(account.ledger, older(path))
    account.ledger.memory.path.unlink()
    deleted(path)
    path.write_bytes(b"no ledger" * 1000)
    monkeypatch.setattr(remembered, "_memories", {})

    with pytest.raises(LedgerError, match=r"cannot be read.*move it away"):
        restore(older(path), path)
    path.rename(path.with_name("damaged"))
    restore(older(path), path)
    assert [each.event for each in open_ledger(path).records()] == ["made", "restored"]


FOREIGN = [
    "CREATE TRIGGER t AFTER UPDATE OF spent ON accounts BEGIN UPDATE accounts SET spent = old.spent; END",
    "CREATE TRIGGER t BEFORE INSERT ON charges BEGIN SELECT raise(IGNORE); END",
    "CREATE VIEW v AS SELECT * FROM accounts",
    "CREATE TABLE t (id INTEGER)",
    "CREATE UNIQUE INDEX t ON charges (account)",
    "DROP TABLE shares; CREATE TABLE shares (id INTEGER PRIMARY KEY ON CONFLICT IGNORE, account, analyst, opened)",
    "DROP INDEX charges_of; CREATE UNIQUE INDEX charges_of ON charges (account)",
]


@pytest.mark.parametrize("foreign", FOREIGN)
def test_foreign_objects_are_refused(path, foreign):
    """A file with a trigger, a view, or a table or an index of others is neither opened nor restored."""
    account = opened(path)
    backup(account.ledger, older(path))
    with closing(sqlite3.connect(older(path))) as connection:
        connection.executescript(foreign)

    for use in (open_ledger, lambda source: restore(source, path)):
        with pytest.raises(LedgerError, match="belongs to no ledger"):
            use(older(path))
    pay(account)
    assert 1 == len(opened(path).entries())


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_what_is_remembered_of_a_lost_ledger_is_for_its_owner_alone(path):
    """Whoever can write the file beside a ledger could say that losses were accepted."""
    beside = path.with_name(f"{path.name}.remembered")
    before = os.umask(0)
    try:
        assert remembered.Memory(path).note(remembered.Seen("a ledger", charge=1))
    finally:
        os.umask(before)

    assert not path.exists()
    assert 0o600 == beside.stat().st_mode & 0o777


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o660])
def test_files_keep_their_mode(path, tmp_path, mode):
    """A ledger holds keys: it is made for its owner alone, and no copy is open to more people than it is."""
    account = opened(path)
    assert 0o600 == path.stat().st_mode & 0o777
    path.chmod(mode)
    pay(account)
    copy = backup(account.ledger, tmp_path / "copy")
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    deleted(path)
    restore(copy, path)

    assert set(modes.values()) == {mode}
    assert len(modes) >= 3
    assert mode == path.stat().st_mode & 0o777


# Spent and charged


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**6)])
def test_spent_is_held_against_the_charges(path, delta, capsys):
    """If less was spent than was charged, the account is not opened, and the command line says why."""
    account = opened(path, delta=delta)
    nothing = account.accountant.nothing.to_list()
    pay(account, "0.125")
    account.charge(Laplace(2**20, 8.0 * 2**20, Fraction(1, 8)), call="c2", mechanism="mean")
    assert [] == account.ledger.problems()
    if delta:
        loss = Gaussian(4, 1e6, 3, Fraction(1, 8), Fraction(1, 10**8))
        account.charge(loss, call="c3", mechanism="mean")
    memory = account.ledger.memory.path
    memory.unlink()
    less_spent(path, nothing)

    with pytest.raises(LedgerError, match=r"less was spent of 'survey' than was charged.*restore"):
        opened(path, delta=delta)
    assert 1 == main(["ledger", "--ledger", str(path)])
    assert "problem: The ledger" in capsys.readouterr().out


def test_each_sum_is_held_against_the_charges(path):
    """Every filter's own sum counts, and what rounding could explain does not."""
    account = opened(path, delta=Fraction(1, 10**6))
    pay(account)
    spent = account.spent().to_list()

    for i, count in enumerate(spent):
        for factor, refused in ((Fraction(99, 100), int(count) > 0), (1 - Fraction(1, 10**12), False)):
            less = [*spent[:i], str(int(int(count) * factor)), *spent[i + 1 :]]
            less_spent(path, less)
            if refused:
                with pytest.raises(LedgerError, match="than was charged"):
                    opened(path, delta=Fraction(1, 10**6))
            else:
                opened(path, delta=Fraction(1, 10**6))


def test_what_is_charged_later_is_held_against_it_too(forked, path):
    """Charges that another process made since the last look are added to those that were looked at."""
    account = opened(path)
    for i in range(1, 8):
        pay(account, Fraction(1, 100 + i % 3))
        account.check()
    less = str(account.spent().counts[0])
    forked(PAID, str(path))
    account.check()
    less_spent(path, [less, "0", "0"])

    with pytest.raises(LedgerError, match="than was charged"):
        account.check()


PAID = """
import sys
from fractions import Fraction
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._privacy.losses import Pure
open_ledger(sys.argv[1]).account("survey").charge(Pure(Fraction(1, 100)), call="c", mechanism="mean")
"""


# Backups

KILLED = """
import os, signal, sys
from fractions import Fraction
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._privacy.losses import Pure
account = open_ledger(sys.argv[1]).open_account(
    "survey", epsilon=Fraction(1), delta=Fraction(0), accounting=None, neighbors="replace_one", public=("size",)
)
open_connection = account.ledger._engine.connect()  # as of another thread: the log is not written back
open_connection.exec_driver_sql("SELECT * FROM accounts").fetchall()
account.charge(Pure(Fraction(1, 2)), call="c", mechanism="mean")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_backup_after_a_kill_has_every_charge(forked, path, tmp_path, capsys):
    """A copy of the file alone lacks what was written ahead and is refused; a backup has it, alone."""
    opened(path)
    forked(KILLED, str(path), status=-signal.SIGKILL)
    shutil.copy(path, tmp_path / "copy")
    assert 0 == main(["ledger", "backup", str(tmp_path / "backup"), "--ledger", str(path)])
    assert [] == list(tmp_path.glob("backup*[!p]"))

    spent = opened(path).spent()
    deleted(path)
    shutil.copy(tmp_path / "copy", path)
    with pytest.raises(LedgerError, match="was lost"):
        open_ledger(path)
    with pytest.raises(LedgerError, match="lower what was spent"):
        restore(tmp_path / "copy", path)
    assert 0 == main(["ledger", "restore", str(tmp_path / "backup"), "--ledger", str(path)])
    assert spent == opened(path).spent()


@pytest.mark.parametrize("lose", [lose for lose in LOSSES if lose is not exchanged])
def test_a_backup_brings_it_back(path, tmp_path, lose):
    """Whatever became of the file, a complete backup takes its place, and leaves nothing else behind."""
    account = opened(path)
    pay(account)
    account.keep(call="c1", mechanism="mean", question="{}", release={"mean": 1.0})
    backup(open_ledger(path), tmp_path / "backup")
    lose(path)

    restore(tmp_path / "backup", path)
    again = opened(path)
    assert (1, {"mean": 1.0}, account.spent()) == (len(again.entries()), again.answer("{}").release, again.spent())
    assert not [file for file in tmp_path.iterdir() if "copy" in file.name]


def test_an_old_backup_is_refused(path, tmp_path):
    """A backup from before a charge never takes the place of the ledger, there or lost."""
    account = opened(path)
    pay(account)
    backup(account.ledger, tmp_path / "backup")
    pay(account)

    with pytest.raises(LedgerError, match=r"lower what was spent in the ledger .*newer backup"):
        restore(tmp_path / "backup", path)
    assert 2 == len(opened(path).entries())
    deleted(path)
    with pytest.raises(LedgerError, match="lower"):
        restore(tmp_path / "backup", path)
    assert not path.exists()


def test_a_backup_without_an_account_is_refused(path, tmp_path):
    """A backup from before an account was opened lowers what was spent of it, memory or not."""
    backup(opened(path).ledger, tmp_path / "backup")
    pay(opened(path, "other"))
    open_ledger(path).memory.path.unlink()

    with pytest.raises(LedgerError, match="lower what was spent"):
        restore(tmp_path / "backup", path)
    assert 1 == len(opened(path, "other").entries())


def test_a_backup_of_another_ledger_is_refused(path, tmp_path, monkeypatch):
    """It takes no working ledger's place, whatever is remembered, and changes nothing there."""
    pay(opened(path))
    other = opened(tmp_path / "other.sqlite")
    pay(other)
    pay(other)
    copy = backup(other.ledger, tmp_path / "copy")
    for memory in (remembers_all, remembers_in_the_process, remembers_beside):
        memory(path, monkeypatch)
        with pytest.raises(LedgerError, match="lower what was spent"):
            restore(copy, path)
        pay(opened(path), "0.125")
    assert 4 == len(opened(path).entries())


def test_a_ledger_in_use_is_restored_in_one_transaction(path, tmp_path):
    """An account that is open while its ledger is restored goes on in the same file."""
    account = opened(path)
    pay(account)
    backup(account.ledger, tmp_path / "backup")
    restore(tmp_path / "backup", path)

    pay(account, "0.5")
    assert [Fraction(1, 4), Fraction(1, 2)] == [entry.epsilon for entry in opened(path).entries()]


def test_a_restore_waits_for_a_charge(path, tmp_path, monkeypatch):
    """A restore does not go between a charge and its commit."""
    monkeypatch.setattr("dfprivacy._ledger.address.LOCK_SECONDS", 0.05)
    account = opened(path)
    backup(account.ledger, tmp_path / "backup")

    with (
        account.ledger.transaction(write=True),
        pytest.raises(LedgerError, match="locked"),
    ):
        restore(tmp_path / "backup", path)
    assert [] == opened(path).entries()


def test_a_damaged_backup_is_refused(path, tmp_path):
    """What is no ledger, or one whose sums do not add up, is neither made nor restored."""
    pay(opened(path))
    backup(open_ledger(path), tmp_path / "backup")
    behind(tmp_path / "backup", """UPDATE accounts SET spent = '["0", "0", "0"]'""")
    (tmp_path / "text").write_text("no ledger" * 1000)
    (tmp_path / "cut").write_bytes(path.read_bytes()[:5000])

    for source in ("backup", "text", "cut", "missing"):
        with pytest.raises(LedgerError):
            restore(tmp_path / source, path)
    assert 1 == len(opened(path).entries())


def test_a_backup_takes_no_others_place(path, tmp_path):
    """A backup never overwrites a file, and needs a ledger in a file."""
    pay(opened(path))
    (tmp_path / "backup").write_text("precious")

    with pytest.raises(LedgerError, match="exists"):
        backup(open_ledger(path), tmp_path / "backup")
    with pytest.raises(LedgerError, match="no/such"):
        backup(open_ledger(path), "no/such/folder")
    with pytest.raises(LedgerError, match="not in a file"):
        backup(open_ledger("memory:"), tmp_path / "memory")
    assert "precious" == (tmp_path / "backup").read_text()


@pytest.mark.parametrize("words", [["backup", "a", "b"], ["copy", "a"]])
def test_wrong_words_are_usage_errors(words):
    """What is neither an account nor a command is refused with the usage."""
    with pytest.raises(SystemExit):
        main(["ledger", *words])
