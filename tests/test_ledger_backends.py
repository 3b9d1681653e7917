"""What a ledger promises, wherever it is kept: in a SQLite file, in memory, on a PostgreSQL server."""

from __future__ import annotations

import functools
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dfprivacy._ledger import remembered
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.tables import SCHEMA_VERSION, Measurement, digest, tables
from dfprivacy._privacy.losses import Pure
from dfprivacy.errors import AccountMismatch, BudgetExceeded, LedgerError

TERMS = {"delta": Fraction(0), "accounting": None, "neighbors": "replace_one", "public": ("size",)}


def server_binaries():
    """The folder of initdb and pg_ctl, or None."""
    on_path = shutil.which("pg_ctl")
    folders = [Path(on_path).parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def unprivileged():
    """Arguments of subprocess.run that leave root, as which PostgreSQL refuses to run."""
    if os.geteuid() != 0:
        return {}
    names = {user.pw_name: user for user in pwd.getpwall()}
    user = names.get("postgres") or names.get("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else None


@pytest.fixture(scope="session")
def new_database():
    """Start a throwaway PostgreSQL server; gives a function that makes a database and returns its URL."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    binaries, user = server_binaries(), unprivileged()
    if binaries is None or user is None:
        pytest.skip("no PostgreSQL server here that can be started")
    folder = Path(tempfile.mkdtemp(prefix="dfprivacy-pg-"))  # short: the path of a socket has 107 bytes
    if user:
        os.chown(folder, user["user"], user["group"])
    run = functools.partial(
        subprocess.run, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **user
    )
    data, log = folder / "data", folder / "log"
    pg_ctl = [binaries / "pg_ctl", "-D", data]
    try:
        try:
            run(
                [
                    binaries / "initdb",
                    "-D",
                    data,
                    "-U",
                    "analyst",
                    "-A",
                    "trust",
                    "-E",
                    "UTF8",
                    "--no-sync",
                    "--locale=C",
                ]
            )
            options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
            run([*pg_ctl, "-w", "-l", log, "-o", options, "start"])
        except (subprocess.CalledProcessError, OSError) as error:
            pytest.skip(f"PostgreSQL does not start: {error}")

        def create():
            create.made += 1
            name = f"ledger{create.made}"
            with psycopg.connect(host=str(folder), user="analyst", dbname="postgres", autocommit=True) as server:
                server.execute(f"CREATE DATABASE {name}")
            return f"postgresql://analyst@/{name}?host={folder}"

        create.made = 0
        yield create
        run([*pg_ctl, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def on_server(where, *statements):
    """Do what an administrator might; the rows of the last statement."""
    import psycopg

    with psycopg.connect(where) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def place(kind, tmp_path, request):
    if kind == "postgresql":
        return request.getfixturevalue("new_database")()
    return "memory:" if kind == "memory" else str(tmp_path / "ledger.sqlite")


@pytest.fixture(params=["file", "memory", "postgresql"])
def ledger(request, tmp_path):
    """A ledger of each kind; the one in memory is shared, so accounts take the name of their test."""
    return open_ledger(place(request.param, tmp_path, request))


@pytest.fixture(params=["file", "postgresql"])
def shared_place(request, tmp_path):
    """A place where several processes can find the ledger."""
    return place(request.param, tmp_path, request)


@pytest.fixture
def account(ledger, request):
    return ledger.open_account(request.node.name, epsilon=Fraction(1), **TERMS)


def pay(account, epsilon, **more):
    return account.charge(Pure(Fraction(epsilon)), call="c1", mechanism="mean", **more)


def replayed(account):
    """What the entries add up to."""
    losses = [entry.loss for entry in account.entries()]
    return functools.reduce(account.accountant.after, losses, account.accountant.nothing)


def test_an_account_is_what_was_opened(account, ledger, request):
    """An account holds the terms it was opened with, and the moment, in UTC."""
    assert (request.node.name, 1, 0) == (account.name, account.epsilon, account.delta)
    assert (account.accounting, account.neighbors, account.public) == ("basic", "replace_one", ("size",))
    assert timedelta(0) <= datetime.now(UTC) - account.opened < timedelta(minutes=1)
    assert timedelta(0) == account.opened.utcoffset()
    assert account.accountant.nothing == account.spent()
    assert ledger is account.ledger


def test_the_same_name_is_the_same_account(account, ledger):
    """Opening an account again gives no fresh budget."""
    pay(account, "0.7")

    again = ledger.open_account(account.name, epsilon=Fraction(1), **TERMS)

    assert account == again
    with pytest.raises(BudgetExceeded):
        pay(again, "0.4")


@pytest.mark.parametrize(
    ("term", "other", "said"),
    [
        ("epsilon", Fraction(2), "epsilon = 1, not 2"),
        ("delta", Fraction(1, 10), "delta = 0, not 1/10"),
        ("neighbors", "add_remove", "neighbors = replace_one, not add_remove"),
        ("public", ("size", "age"), 'public = ["size"], not ["size", "age"]'),
    ],
)
def test_other_terms_are_a_mismatch(account, ledger, term, other, said):
    """The error says which term differs and what is stored, and changes nothing."""
    with pytest.raises(AccountMismatch) as caught:
        ledger.open_account(account.name, **{"epsilon": Fraction(1), **TERMS, "accounting": "basic", term: other})

    assert said in str(caught.value)
    assert account == ledger.account(account.name)


def test_ten_tenths_are_one(account):
    """Ten charges of 0.1 fit a budget of 1 exactly, and then nothing does."""
    for _ in range(10):
        pay(account, "0.1")

    with pytest.raises(BudgetExceeded):
        pay(account, "0.000000000000000001")
    assert len(account.entries()) == 10


def test_a_refusal_charges_nothing(account):
    """A refused charge leaves no entry, and says what was asked and what is left."""
    pay(account, "0.75")
    before = account.spent()

    with pytest.raises(BudgetExceeded) as caught:
        pay(account, "0.5")

    assert "epsilon = 0.5" in str(caught.value)
    assert "at most epsilon = 0.25 is left." in str(caught.value)
    assert account.name in str(caught.value)
    assert "Nothing was released or spent." in str(caught.value)
    assert before == account.spent() == replayed(account)


def test_the_rest_of_a_call_must_fit(account):
    """A measurement is refused if the rest of its call could not be paid."""
    with pytest.raises(BudgetExceeded, match=r"epsilon = 1\.1"):
        pay(account, "0.5", reserve=[Pure(Fraction(6, 10))])

    assert account.entries() == []


def test_the_rest_of_a_call_is_charged_later(account):
    """What must fit is not charged before it is measured."""
    pay(account, "0.4", reserve=[Pure(Fraction(6, 10))])

    assert [Fraction(4, 10)] == [entry.epsilon for entry in account.entries()]
    pay(account, "0.6")
    assert account.accountant.after(account.accountant.nothing, Pure(Fraction(1))) == account.spent()


def test_entries_tell_the_story(account):
    """Each charge is an entry with its number, call, mechanism, moment and exact loss."""
    first = account.charge(Pure(Fraction(1, 3)), call="a", mechanism="mean")
    second = account.charge(Pure(Fraction(1, 6)), call="b", mechanism="ttest")

    entries = account.entries()
    assert [(first, "a", "mean"), (second, "b", "ttest")] == [(e.id, e.call, e.mechanism) for e in entries]
    assert [Pure(Fraction(1, 3)), Pure(Fraction(1, 6))] == [e.loss for e in entries]
    assert [(Fraction(1, 3), 0), (Fraction(1, 6), 0)] == [(e.epsilon, e.delta) for e in entries]
    assert account.opened <= entries[0].at <= entries[1].at


def test_accounts_do_not_share(account, ledger):
    """Two data sets in one ledger spend their own budgets and keep their own answers."""
    other = ledger.open_account(account.name + " other", epsilon=Fraction(1), **TERMS)
    pay(account, 1)
    account.keep(call="c1", mechanism="mean", question="{}", release={})

    assert other.accountant.nothing == other.spent()
    assert (other.entries(), other.answers(), other.answer("{}")) == ([], [], None)
    assert {account.name, other.name} <= {each.name for each in ledger.accounts()}


def test_the_newest_answer_is_given(account):
    """Of several answers to a question the newest is given, with its exact numbers."""
    question = '{"column": "âge", "mechanism": "mean"}'
    account.keep(call="c1", mechanism="mean", question=question, release={"mean": 0.1})
    account.keep(call="c2", mechanism="mean", question=question, release={"mean": 1 / 3, "n": [1, None, "é"]})
    account.keep(call="c3", mechanism="mean", question="{}", release={"mean": 3.0})

    answer = account.answer(question)
    assert ("c2", "mean", question) == (answer.call, answer.mechanism, answer.question)
    assert answer.release == {"mean": 1 / 3, "n": [1, None, "é"]}
    assert [each.call for each in account.answers()] == ["c1", "c2", "c3"]


def test_an_answer_without_a_question_is_not_given_again(account):
    """An answer kept without a question is on record and answers nothing."""
    account.keep(call="c1", mechanism="mean", question=None, release={"mean": 2.0})

    assert [each.question for each in account.answers()] == [None]
    assert account.answer("null") is None


def test_an_unknown_account_names_the_known(account, ledger):
    """Asking for an account that was never opened lists those that were."""
    with pytest.raises(LedgerError) as caught:
        ledger.account("affair")

    assert repr(account.name) in str(caught.value)


def test_threads_share_a_budget(account):
    """Two threads that spend one budget admit exactly what it holds."""

    def spend(_):
        admitted = 0
        while True:
            try:
                pay(account, Fraction(1, 40))
            except BudgetExceeded:
                return admitted
            admitted += 1

    with ThreadPoolExecutor(2) as threads:
        admitted = list(threads.map(spend, range(2)))

    assert 40 == sum(admitted) == len(account.entries())
    assert replayed(account) == account.spent()


RACER = """
import sys
from fractions import Fraction
from dfprivacy._privacy.losses import Pure
from dfprivacy.errors import BudgetExceeded
from dfprivacy._ledger.ledger import open_ledger

account = open_ledger(sys.argv[1]).open_account(
    "race", epsilon=Fraction(1), delta=Fraction(0), accounting=None, neighbors="replace_one", public=()
)
admitted = 0
while True:
    try:
        account.charge(Pure(Fraction(1, 100)), call=sys.argv[2], mechanism="mean")
    except BudgetExceeded:
        break
    admitted += 1
print(admitted)
"""


def test_processes_race_for_the_last_of_a_budget(forked, shared_place):
    """Four processes make one ledger and one account at one moment, and spend exactly its budget together."""
    admitted = forked.together(RACER, *([shared_place, str(number)] for number in range(4)))

    account = open_ledger(shared_place).account("race")
    assert len(admitted) == 4
    assert 100 == sum(map(int, admitted)) == len(account.entries())
    assert account.accountant.after(account.accountant.nothing, Pure(Fraction(1))) == account.spent()


FORK = """
import os, sys
from fractions import Fraction
from dfprivacy._privacy.losses import Pure
from dfprivacy.errors import BudgetExceeded
from dfprivacy._ledger.ledger import open_ledger

account = open_ledger(sys.argv[1]).account("fork")
account.charge(Pure(Fraction(1, 100)), call="parent", mechanism="mean")
children = []
for child in range(3):
    children.append(os.fork())
    if children[-1] == 0:
        break
try:
    while True:
        account.charge(Pure(Fraction(1, 100)), call="more", mechanism="mean")
except BudgetExceeded:
    pass
if 0 in children:
    os._exit(0)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


def test_forks_share_the_budget(forked, shared_place):
    """An account used before a fork can be used in every process after it, and they spend one budget."""
    account = open_ledger(shared_place).open_account("fork", epsilon=Fraction(1), **TERMS)

    run = forked(FORK, shared_place, strict=True)

    assert run.stderr == b""
    assert len(account.entries()) == 100


def test_one_of_two_opens_the_account(new_database):
    """Who finds that another process has just opened the account gets that account, or the mismatch."""
    import psycopg

    where = new_database()
    ledger = open_ledger(where)
    ledger.open_account("first", epsilon=Fraction(1), **TERMS)
    terms = "epsilon, delta, accounting, neighbors, public, accountant, opened, spent"

    def open_meanwhile(name, epsilon):
        with psycopg.connect(where) as other, ThreadPoolExecutor(1) as threads:
            other.execute(f"INSERT INTO accounts (name, {terms}) SELECT %s, {terms} FROM accounts LIMIT 1", [name])  # noqa: S608
            opening = threads.submit(ledger.open_account, name, epsilon=epsilon, **TERMS)
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            deadline = time.monotonic() + 300
            while on_server(where, waiting) != [(1,)] and time.monotonic() < deadline:
                time.sleep(0.01)
            other.commit()
            return opening.result()

    won = open_meanwhile("same", Fraction(1))
    with pytest.raises(AccountMismatch, match="epsilon = 1, not 2"):
        open_meanwhile("other", Fraction(2))

    assert won == ledger.account("same")


def test_one_of_many_spellings_opens_the_account(new_database):
    """Of spellings of one name that are opened at one moment, from many connections, one gets a budget."""
    ledger = open_ledger(new_database())
    spellings = ["Survey", "survey", "SURVEY", "survey ", " survey", "sUrvey", "suRvey", "surVey"]

    def opened(name):
        try:
            return ledger.open_account(name, epsilon=Fraction(1), **TERMS).name
        except AccountMismatch:
            return None

    with ThreadPoolExecutor(len(spellings)) as threads:
        names = list(threads.map(opened, spellings))

    (only,) = (account.name for account in ledger.accounts())
    assert [only] == [name for name in names if name]


def test_a_commit_that_fails_is_a_charge_that_fails(new_database):
    """If the server refuses the commit, the caller learns it and the account has not moved."""
    where = new_database()
    account = open_ledger(where).open_account("x", epsilon=Fraction(1), **TERMS)
    on_server(
        where,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room'; END $$",
        "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON charges DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION refuse()",
    )

    with pytest.raises(LedgerError, match="no room") as caught:
        pay(account, "0.5")

    assert "Nothing was released; what was charged stays charged." in str(caught.value)
    assert account.entries() == []
    assert account.accountant.nothing == account.spent()


def test_a_server_that_does_not_wait_for_its_disk_is_told_to(new_database):
    """A charge waits for the disk even where the database is set not to."""
    where = new_database()
    database = where.removeprefix("postgresql://analyst@/").partition("?")[0]
    on_server(where, f"ALTER DATABASE {database} SET synchronous_commit = off")

    with open_ledger(where).transaction(write=True) as connection:
        setting = connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()

    assert on_server(where, "SHOW synchronous_commit") == [("off",)]
    assert setting == "on"


def test_a_server_gone_is_a_ledger_error(new_database):
    """If the connection breaks within the charge, it is an error of the ledger and nothing is charged."""
    where = new_database()
    account = open_ledger(where).open_account("x", epsilon=Fraction(1), **TERMS)
    on_server(
        where,
        "CREATE FUNCTION hang_up() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$",
        "CREATE TRIGGER hang_up BEFORE INSERT ON charges FOR EACH ROW EXECUTE FUNCTION hang_up()",
    )

    with pytest.raises(LedgerError, match="cannot be written"):
        pay(account, "0.5")

    assert account.accountant.nothing == account.spent()


def test_an_older_dump_under_an_open_account_is_refused(new_database):
    """If an administrator puts back what the server had before, an account that is open is not charged again."""
    where = new_database()
    account = open_ledger(where).open_account("x", epsilon=Fraction(1), **TERMS)
    pay(account, "0.5")
    nothing = json.dumps(account.accountant.nothing.to_list())
    on_server(where, "DELETE FROM charges", f"UPDATE accounts SET spent = '{nothing}'")  # noqa: S608 - our own

    with pytest.raises(LedgerError, match=r"replaced by an older.*newer backup of the server"):
        pay(account, "0.5")
    with pytest.raises(LedgerError, match="was lost"):
        open_ledger(where)


def a_pair(where):
    """Two accounts of one ledger."""
    ledger = open_ledger(where)
    return [ledger.open_account(name, epsilon=Fraction(1000), **TERMS) for name in "ab"]


def test_answers_lock_accounts_in_the_order_of_charges(new_database):
    """While an answer of two accounts waits for the first by name, it holds nothing of the second."""
    import psycopg

    where = new_database()
    first, second = a_pair(where)

    with psycopg.connect(where) as other, ThreadPoolExecutor(1) as threads:
        other.execute("SELECT * FROM accounts WHERE name = 'a' FOR UPDATE")
        kept = threads.submit(second.keep, call="c", mechanism="m", question=None, release={}, also=[first])
        deadline = time.monotonic() + 300
        while on_server(where, "SELECT count(*) FROM pg_locks WHERE NOT granted") != [(1,)]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        free = on_server(where, "SELECT name FROM accounts WHERE name = 'b' FOR UPDATE NOWAIT")
        other.commit()
        kept.result()

    assert free == [("b",)]
    assert all(len(account.answers()) == 1 for account in (first, second))


def undo(where, table, times):
    """Let a server undo the first transactions that insert into a table, as in a deadlock."""
    on_server(
        where,
        f"CREATE SEQUENCE tries_{table}",  # counts the tries that were undone, too
        f"CREATE FUNCTION undo_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF nextval('tries_{table}') <= {times} THEN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END IF; "
        "RETURN NEW; END $$",
        f"CREATE TRIGGER undo AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION undo_{table}()",
    )


def test_what_a_server_undoes_is_tried_again(new_database):
    """A charge and an answer that the server undid as a whole are written at another try, once."""
    where = new_database()
    first, second = a_pair(where)
    undo(where, "charges", 2)
    undo(where, "answers", 2)

    pay(second, 1, also=[first])
    second.keep(call="c1", mechanism="mean", question="{}", release={}, also=[first])

    for account in (first, second):
        assert [Fraction(1)] == [entry.epsilon for entry in account.entries()]
        assert replayed(account) == account.spent()
        assert len(account.answers()) == 1


def test_tries_end(new_database, monkeypatch):
    """What the server undoes each time is refused, with nothing charged."""
    monkeypatch.setattr("dfprivacy._ledger.accounts.TRIES", 3)
    where = new_database()
    account, _ = a_pair(where)
    undo(where, "charges", 10**6)

    with pytest.raises(LedgerError, match=r"deadlock.*Nothing was released or spent"):
        pay(account, 1)

    assert account.entries() == []
    assert on_server(where, "SELECT last_value FROM tries_charges") == [(3,)]


PAIR = """
import sys, time
from fractions import Fraction
from dfprivacy._ledger.accounts import JointAccount
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._privacy.losses import Pure

ledger = open_ledger(sys.argv[1])
pair = [ledger.account(name) for name in sys.argv[2]]
joint, asked = JointAccount(*pair), 0
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    joint.charge(Pure(Fraction(1, 1000)), call=sys.argv[2], mechanism="mean")
    joint.keep(call=sys.argv[2], mechanism="mean", question=None, release={})
    asked += 1
print(asked)
"""


@pytest.mark.stress
@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_questions_of_two_accounts_in_both_orders(forked, new_database, isolation):
    """Processes that ask of two accounts, in either order, are all answered, whatever the server isolates."""
    where = new_database()
    database = where.removeprefix("postgresql://analyst@/").partition("?")[0]
    on_server(where, f"ALTER DATABASE {database} SET default_transaction_isolation = '{isolation}'")
    accounts = a_pair(where)
    seconds = os.environ.get("DFPRIVACY_TEST_STRESS", "2")

    asked = forked.together(PAIR, *([where, order, seconds] for order in ["ab", "ba", "ab", "ba"]))

    assert len(asked) == 4
    assert all(int(count) > 0 for count in asked)
    for account in accounts:
        assert sum(map(int, asked)) == len(account.entries()) == len(account.answers())
        assert replayed(account) == account.spent()


def test_measurements_are_kept_to_the_last_bit(account, ledger):
    """What was measured comes back by its description, kind of noise and sampler, oldest first."""
    steps = np.array([-(2**63), -1, 0, 2**63 - 1], dtype=np.int64)
    for private, scale, grid in ((True, 1 / 3, 39), (True, 2.5, -7), (False, 1.0, 0)):
        new = Measurement('{"what":"é"}', "laplace", scale, grid, private, steps)
        account.keep(call="c", mechanism="mean", question=None, release=None, measurements=[new])

    key = digest('{"what":"é"}')
    (found,) = account.measurements([key], private=True).values()

    assert [(each.steps_scale, each.grid) for each in found] == [(1 / 3, 39), (2.5, -7)]
    assert all((steps == account.steps(each)).all() for each in found)
    assert account.measurements([digest('{"what":"e"}')], private=True) == {}
    other = ledger.open_account(f"{account.name} other", epsilon=Fraction(1), **TERMS)
    assert not other.measurements([key], private=True)
    assert account.answers() == []


def test_an_old_ledger_on_a_server_goes_on(new_database, monkeypatch):
    """On a server what schema 1 had not is made in one transaction, and no other row changes."""
    url = new_database()
    ledger = open_ledger(url)
    account = ledger.open_account("survey", epsilon=Fraction(1), **TERMS)
    pay(account, "1/4")
    account.keep(call="c", mechanism="mean", question='"?"', release={"mean": 1.0})
    with ledger.transaction(write=True) as connection:
        for table in (tables().records, tables().shares, tables().askers, tables().measurements):
            table.drop(connection)
        connection.execute(tables().ledger.update().values(schema_version=1))

    monkeypatch.setattr(remembered, "_memories", {})
    again = open_ledger(url)

    assert (again._version(), again.keeps_measurements) == (SCHEMA_VERSION, True)
    known = again.account("survey")
    assert (account.spent(), {"mean": 1.0}) == (known.spent(), known.answer('"?"').release)
    assert not known.measurements([digest("")], private=True)
