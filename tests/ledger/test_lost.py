"""A ledger that was lost, cut off, replaced or changed gives no fresh budget; backups bring it back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from dfprivacy._ledger import known_states
from dfprivacy._ledger.backup import backup_ledger, forget_ledger, restore_ledger
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._privacy.losses import Gaussian, Laplace
from dfprivacy.cli import main
from dfprivacy.errors import LedgerError

from .helpers import keep, opened, pay, sqlite


def less_spent(path, spent):
    sqlite(path, f"UPDATE accounts SET spent = '{json.dumps(spent)}'")  # noqa: S608 - our own


def files(path):
    """A ledger's file and what SQLite keeps beside it."""
    return [path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")]


def older(path):
    """The ledger as it was after its first charge, which a copy of the file alone may lack."""
    return path.with_name("backup")


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
    sqlite(path, "DELETE FROM charges", """UPDATE accounts SET spent = '["0", "0", "0"]'""")


def without_its_account(path):
    sqlite(path, "DELETE FROM charges", "DELETE FROM accounts")


LOSSES = [deleted, emptied, emptied_with_its_log, made_anew, exchanged, set_back, without_its_account]


@pytest.mark.parametrize("lose", LOSSES)
def test_a_lost_ledger_is_no_fresh_budget(path, lose):
    """What happens to the file of a known account is an error that says what to do; a backup brings it back."""
    account = opened(path)
    pay(account)
    keep(account, "{}", release={"mean": 1.0})
    backup_ledger(account.ledger, older(path))
    lose(path)
    before = [file.read_bytes() if file.exists() else None for file in files(path)]

    with pytest.raises(LedgerError) as caught:
        opened(path)
    if lose is made_anew:
        assert "has the table or trigger 'other', which no ledger has" in str(caught.value)
    else:
        assert "it lacks charges or shares that were seen in it" in str(caught.value)
        assert "dfprivacy ledger restore" in str(caught.value)
        assert f"dfprivacy ledger forget {path}" in str(caught.value)
    if lose in {deleted, emptied, emptied_with_its_log}:
        assert before == [file.read_bytes() if file.exists() else None for file in files(path)]
    if lose is exchanged:
        return

    restore_ledger(older(path), path)
    again = opened(path)
    assert (1, {"mean": 1.0}, account.spent()) == (len(again.entries()), again.answer("{}").release, again.spent())
    assert not [file for file in path.parent.iterdir() if "copy" in file.name]


def test_every_way_to_the_file_is_refused(path):
    """A lost ledger is missed however it is addressed; one beside it, or moved with its folder, is another."""
    elsewhere = path.with_name("folder") / path.name
    elsewhere.parent.mkdir()
    for each in (path, elsewhere):
        pay(opened(each))
    deleted(path)
    link = path.with_name("link")
    link.symlink_to(path)

    for address in ("{}", "sqlite:///{}", "sqlite:///file:{}?uri=true", "sqlite:///{}?timeout=5", str(link)):
        with pytest.raises(LedgerError, match="was lost"):
            opened(address.format(path))
    elsewhere.parent.rename(path.with_name("moved"))
    assert len(opened(path.with_name("moved") / path.name).entries()) == 1
    assert opened(path.with_name("new.sqlite")).entries() == []


# ---- the memory beside it ---------------------------------------------------------------------------------


def test_a_copy_that_knows_more_is_used(path, tmp_path, monkeypatch):
    """A file with more charges than are remembered, such as one that another machine went on with, is used."""
    account = opened(path)
    pay(account)
    memory = account.ledger.memory.path
    shutil.copy(memory, tmp_path / "older")
    pay(account)
    shutil.copy(tmp_path / "older", memory)
    monkeypatch.setattr(known_states, "_memories", {})  # as in another process

    assert len(opened(path).entries()) == 2
    assert memory.stat().st_size > (tmp_path / "older").stat().st_size


@pytest.mark.parametrize("torn", [True, False])
def test_a_memory_that_is_damaged_or_gone(path, torn):
    """A torn line spoils no other; a ledger without a memory is used, and remembered from then on."""
    account = opened(path)
    pay(account)
    memory = account.ledger.memory.path
    if torn:
        lines = b'\n{"account": "survey", "ope\n[]\n7\n{"account": "survey", "opened": 1, "spent": "x"}\n\xff\xfe'
        memory.write_bytes(memory.read_bytes() + lines)
        pay(account)
    else:
        memory.unlink()

    assert len(opened(path).entries()) == 1 + torn
    deleted(path)
    with pytest.raises(LedgerError, match="was lost"):
        open_ledger(path)


def test_the_memory_stays_small(path, monkeypatch):
    """However many charges leave a short file, with the newest number; where it cannot be, the ledger works."""
    monkeypatch.setattr(known_states, "_LARGEST", 2000)
    account = opened(path)
    for _ in range(40):
        pay(account, "0.001")
    memory = account.ledger.memory

    assert memory.path.stat().st_size < 2500
    monkeypatch.setattr(known_states, "_memories", {})
    assert [seen.charge for seen in open_ledger(path).memory.recall_states().values()] == [40]
    other = path.with_name("other")
    open_ledger(other).memory.path.mkdir()
    pay(opened(other))
    assert len(opened(other).entries()) == 1


def test_forgetting_is_for_what_was_meant(path, capsys):
    """After `forget_ledger`, and only then, a deleted ledger is made anew."""
    pay(opened(path))
    deleted(path)

    assert main(["ledger", "forget", str(path)]) == 0
    assert "new budget" in capsys.readouterr().out
    assert opened(path).entries() == []
    assert not forget_ledger(path.with_name("never"))


# ---- ways back, under an open account ---------------------------------------------------------------------


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
    shutil.copy(backup_ledger(open_ledger(other), path.with_name("of-other")), path)


def linked(path):
    path.with_name("second").hardlink_to(path)


def remembers_all(path, monkeypatch):
    pass


def remembers_in_the_process(path, monkeypatch):
    path.with_name("ledger.sqlite.remembered").unlink()


def remembers_beside(path, monkeypatch):
    monkeypatch.setattr(known_states, "_memories", {})


@pytest.mark.parametrize("memory", [remembers_all, remembers_in_the_process, remembers_beside])
@pytest.mark.parametrize("way", [copied_over, written_over, moved_over, replaced_by_another, deleted, linked])
def test_no_way_back_is_a_fresh_budget(path, monkeypatch, way, memory):
    """Nothing more is charged or kept, by an open account or a new one, by this process or another."""
    account = opened(path)
    pay(account)
    backup_ledger(account.ledger, older(path))
    for _ in range(3):
        pay(account)
    way(path)
    memory(path, monkeypatch)

    if memory is not remembers_beside:  # as the account of another process has its own memory
        for write in (pay, keep):
            with pytest.raises(LedgerError, match=r"was lost, or replaced|several names") as caught:
                write(account)
            assert ("stays charged" in str(caught.value)) == (write is keep)
            assert path.exists() == (way is not deleted)
    with pytest.raises(LedgerError, match=r"was lost, or replaced|several names"):
        opened(path)


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
    backup_ledger(account.ledger, older(path))
    pay(account)
    with pytest.raises(LedgerError, match="no known charge is missing"):
        forget_ledger(path)
    deleted(path)
    with pytest.raises(LedgerError, match="lower"):
        restore_ledger(older(path), path)

    assert forget_ledger(path)
    restore_ledger(older(path), path)

    (made, *said) = open_ledger(path).records()
    assert [each.event for each in said] == ["restored", "forgotten"]
    assert said[1].subject == made.subject
    assert said[1].value.startswith("charge 2, 20")
    assert main(["ledger", "--ledger", str(path)]) == 0
    assert "the custodian had the ledger forgotten" in capsys.readouterr().out
    pay(account)  # the custodian's word counts for an open account too
    monkeypatch.setattr(known_states, "_memories", {})
    assert len(opened(path).entries()) == 2
    assert len(said) + 1 == len(open_ledger(path).records())
    copied_over(path)
    with pytest.raises(LedgerError, match="was lost"):  # it was given for what was lost then
        open_ledger(path)


@pytest.mark.parametrize("damaged", [False, True])
def test_what_is_done_where_nothing_is_remembered_is_on_record(path, monkeypatch, damaged):
    """An older copy can be used; whether a backup has all of a damaged file cannot be known: it is moved away."""
    account = opened(path)
    pay(account)
    backup_ledger(account.ledger, older(path))
    pay(account)
    copied_over(path)
    account.ledger.memory.path.unlink()
    monkeypatch.setattr(known_states, "_memories", {})
    if damaged:
        path.write_bytes(b"no ledger" * 1000)
        with pytest.raises(LedgerError, match=r"cannot be read.*move the ledger away"):
            restore_ledger(older(path), path)
        path.rename(path.with_name("damaged"))
        restore_ledger(older(path), path)

    found = ("restored", None) if damaged else ("found", "charge 1")
    made, then = open_ledger(path).records()
    assert [(made.event, made.value), (then.event, found[1] and then.value)] == [("made", ""), found]


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
    backup_ledger(account.ledger, older(path))
    with closing(sqlite3.connect(older(path))) as connection:
        connection.executescript(foreign)

    for use in (open_ledger, lambda source: restore_ledger(source, path)):
        with pytest.raises(LedgerError, match="no ledger has"):
            use(older(path))
    pay(account)
    assert len(opened(path).entries()) == 1


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o660])
def test_files_keep_their_mode(path, tmp_path, mode):
    """A ledger holds keys: it is made for its owner alone, and no copy is open to more people than it is."""
    account = opened(path)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(mode)
    pay(account)
    copy = backup_ledger(account.ledger, tmp_path / "copy")
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    deleted(path)
    restore_ledger(copy, path)

    assert set(modes.values()) == {mode}
    assert len(modes) >= 3
    assert mode == path.stat().st_mode & 0o777


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_what_is_remembered_of_a_lost_ledger_is_for_its_owner_alone(path):
    """Whoever can write the file beside a ledger could say that losses were accepted."""
    before = os.umask(0)
    try:
        assert known_states.StateMemory(path).remember_states(known_states.LedgerState("a ledger", charge=1))
    finally:
        os.umask(before)

    assert not path.exists()
    assert path.with_name(f"{path.name}.remembered").stat().st_mode & 0o777 == 0o600


# ---- spent and charged ------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**6)])
def test_spent_is_held_against_the_charges(path, delta, capsys):
    """If less of any sum was spent than was charged, but for rounding, the account is not opened."""
    account = opened(path, delta=delta)
    pay(account, "0.125")
    account.charge(Laplace(2**20, 8.0 * 2**20, Fraction(1, 8)), call="c2", mechanism="mean")
    assert account.ledger.problems() == []
    if delta:
        loss = Gaussian(4, 1e6, 3, Fraction(1, 8), Fraction(1, 10**8))
        account.charge(loss, call="c3", mechanism="mean")
    account.ledger.memory.path.unlink()
    spent = account.spent().to_list()

    for i, count in enumerate(spent):
        for factor in (0, Fraction(99, 100)):
            less_spent(path, [*spent[:i], str(int(int(count) * factor)), *spent[i + 1 :]])
            if int(count):
                with pytest.raises(
                    LedgerError, match=r"the spent total of 'survey' is below the sum of its charges.*restore"
                ):
                    opened(path, delta=delta)
    less_spent(
        path,
        [str(int(int(count) * (1 - Fraction(1, 10**12))) if int(count) > 10**15 else count) for count in spent],
    )
    opened(path, delta=delta)
    less_spent(path, account.accountant.no_charges.to_list())
    assert main(["ledger", "--ledger", str(path)]) == 1
    assert "problem: In the ledger" in capsys.readouterr().out


def test_what_is_charged_later_is_held_against_it_too(python, path):
    """Charges that another process made since the last look are added to those that were looked at."""
    account = opened(path)
    for i in range(1, 8):
        pay(account, Fraction(1, 100 + i % 3))
        account.check_spent()
    less = str(account.spent().counts[0])
    python("pay(opened(), '1/100')", path)
    account.check_spent()
    less_spent(path, [less, "0", "0"])

    with pytest.raises(LedgerError, match="below the sum of its charges"):
        account.check_spent()


# ---- backups ----------------------------------------------------------------------------------------------

KILLED = """
account = opened()
open_connection = account.ledger._engine.connect()  # as of another thread: the log is not written back
open_connection.exec_driver_sql("SELECT * FROM accounts").fetchall()
pay(account, "1/2")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_backup_after_a_kill_has_every_charge(python, path, tmp_path):
    """A copy of the file alone lacks what was written ahead and is refused; a backup has it, alone."""
    opened(path)
    python(KILLED, path, status=-signal.SIGKILL)
    shutil.copy(path, tmp_path / "copy")
    assert main(["ledger", "backup", str(tmp_path / "backup"), "--ledger", str(path)]) == 0
    assert list(tmp_path.glob("backup*[!p]")) == []

    spent = opened(path).spent()
    deleted(path)
    shutil.copy(tmp_path / "copy", path)
    with pytest.raises(LedgerError, match="was lost"):
        open_ledger(path)
    with pytest.raises(LedgerError, match="lower what was spent"):
        restore_ledger(tmp_path / "copy", path)
    assert main(["ledger", "restore", str(tmp_path / "backup"), "--ledger", str(path)]) == 0
    assert spent == opened(path).spent()


def test_a_backup_that_lacks_something_is_refused(path):
    """One from before a charge, or from before an account was opened, takes no ledger's place, there or lost."""
    account = opened(path)
    pay(account)
    backup_ledger(account.ledger, path.with_name("one account"))
    pay(opened(path, "other"))
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"lower what was spent.*newer backup"):
            restore_ledger(path.with_name("one account"), path)
        account.ledger.memory.path.unlink(missing_ok=True)
    assert len(opened(path, "other").entries()) == 1
    backup_ledger(account.ledger, path.with_name("newest"))
    pay(account)
    for lose in (lambda _: None, deleted):
        lose(path)
        with pytest.raises(LedgerError, match="lower what was spent"):
            restore_ledger(path.with_name("newest"), path)
    assert not path.exists()


def test_a_backup_of_another_ledger_is_refused(path, tmp_path, monkeypatch):
    """It takes no working ledger's place, whatever is remembered, and changes nothing there."""
    pay(opened(path))
    other = opened(tmp_path / "other.sqlite")
    pay(other)
    pay(other)
    copy = backup_ledger(other.ledger, tmp_path / "copy")
    for memory in (remembers_all, remembers_in_the_process, remembers_beside):
        memory(path, monkeypatch)
        with pytest.raises(LedgerError, match="lower what was spent"):
            restore_ledger(copy, path)
        pay(opened(path), "0.125")
    assert len(opened(path).entries()) == 4


def test_a_ledger_in_use_is_restored_in_one_transaction(path, monkeypatch):
    """An open account goes on in the same file; a restore does not go between a charge and its commit."""
    monkeypatch.setattr("dfprivacy._ledger.address.LOCK_SECONDS", 0.05)
    account = opened(path)
    pay(account)
    backup_ledger(account.ledger, older(path))
    restore_ledger(older(path), path)

    pay(account, "0.5")
    assert [Fraction(1, 4), Fraction(1, 2)] == [entry.epsilon for entry in opened(path).entries()]
    newest = backup_ledger(account.ledger, path.with_name("newest"))
    with account.ledger.transaction(write=True), pytest.raises(LedgerError, match="locked"):
        restore_ledger(newest, path)
    assert len(opened(path).entries()) == 2


def test_no_backup(path, tmp_path):
    """What is no ledger, or does not add up, is not restored; a backup takes no file's place."""
    account = opened(path)
    pay(account)
    backup_ledger(account.ledger, tmp_path / "backup")
    sqlite(tmp_path / "backup", """UPDATE accounts SET spent = '["0", "0", "0"]'""")
    (tmp_path / "text").write_text("no ledger" * 1000)
    (tmp_path / "cut").write_bytes(path.read_bytes()[:5000])

    for source in ("backup", "text", "cut", "missing"):
        with pytest.raises(LedgerError):
            restore_ledger(tmp_path / source, path)
    for ledger, target, said in [
        (account.ledger, tmp_path / "text", "exists"),
        (account.ledger, "no/such/folder", "no/such"),
        (open_ledger("memory:"), tmp_path / "memory", "not in a file"),
    ]:
        with pytest.raises(LedgerError, match=said):
            backup_ledger(ledger, target)
    assert (tmp_path / "text").read_text().startswith("no ledger")
    assert len(opened(path).entries()) == 1
    for words in (["backup", "a", "b"], ["copy", "a"]):
        with pytest.raises(SystemExit):
            main(["ledger", *words])
