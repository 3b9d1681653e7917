"""What a ledger promises, wherever it is kept: in a SQLite file, in memory, on a PostgreSQL server."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest

from dfprivacy._ledger import known_states
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.tables import SCHEMA_VERSION, Measurement, sha256_of_text, tables
from dfprivacy._privacy.losses import Pure
from dfprivacy.errors import AccountMismatch, ArgumentError, BudgetExceeded, LedgerError

from .helpers import SCRIPT, TERMS, added, keep, opened, pay


def on_server(where, *statements):
    """Do what an administrator might; the rows of the last statement."""
    import psycopg

    with psycopg.connect(where) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def database_of(where):
    return where.removeprefix("postgresql://analyst@/").partition("?")[0]


def waited_for(where):
    """Wait until somebody waits for a lock."""
    deadline = time.monotonic() + 300
    while on_server(where, "SELECT count(*) FROM pg_locks WHERE NOT granted") != [(1,)]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def place(kind, path, request):
    return (
        request.getfixturevalue("new_database")() if kind == "postgresql" else {"memory": "memory:"}.get(kind, path)
    )


@pytest.fixture(params=["file", "memory", "postgresql"])
def ledger(request, path):
    """A ledger of each kind."""
    return open_ledger(place(request.param, path, request))


@pytest.fixture(params=["file", "postgresql"])
def shared_place(request, path):
    """A place where several processes can find the ledger."""
    return place(request.param, path, request)


@pytest.fixture
def account(ledger):
    return ledger.open_account("survey", **TERMS)


@pytest.fixture
def where(new_database):
    """A database on a server."""
    return new_database()


def test_an_account_is_what_was_opened(account, ledger):
    """It holds its terms and the moment, in UTC; each charge is an entry; opened again it is the same."""
    assert (account.name, account.epsilon, account.delta) == ("survey", 1, 0)
    assert (account.accounting, account.neighbors) == ("basic", "replace_one")
    assert timedelta(0) <= datetime.now(UTC) - account.opened < timedelta(minutes=1)
    assert timedelta(0) == account.opened.utcoffset()
    assert account.accountant.no_charges == account.spent()
    assert ledger is account.ledger
    paid = [(Fraction(1, 3), "a", "mean"), (Fraction(11, 30), "b", "ttest")]
    numbers = [account.charge(Pure(each), call=call, mechanism=name) for each, call, name in paid]
    assert account == ledger.open_account("survey", **TERMS)
    entries = ledger.account("survey").entries()
    assert [(e.epsilon, e.call, e.mechanism) for e in entries] == paid
    assert [(e.id, e.delta, e.loss) for e in entries] == [
        (number, 0, Pure(each)) for number, (each, *_) in zip(numbers, paid, strict=True)
    ]
    assert account.opened <= entries[0].at <= entries[1].at
    with pytest.raises(AccountMismatch, match="epsilon = 1, not 2"):
        ledger.open_account("survey", **{**TERMS, "accounting": "basic", "epsilon": Fraction(2)})
    with pytest.raises(BudgetExceeded):
        pay(ledger.account("survey"), "0.4")
    with pytest.raises(LedgerError, match="'survey'"):
        ledger.account("affair")
    for name in ("", " ", "a\nb", "a\0b", "x" * 201):
        with pytest.raises(ArgumentError, match="name"):
            ledger.open_account(name, **TERMS)


def test_a_budget_holds_to_the_last_digit(account):
    """Ten charges of 0.1 fit 1 exactly; a refusal leaves no entry, and says what was asked and what is left."""
    with pytest.raises(BudgetExceeded, match=r"epsilon = 1\.1"):  # the rest of a call must fit, too
        pay(account, "0.5", reserve=[Pure(Fraction(6, 10))])
    assert account.entries() == []
    pay(account, "0.4", reserve=[Pure(Fraction(6, 10))])
    assert [Fraction(4, 10)] == [entry.epsilon for entry in account.entries()]
    for _ in range(4):
        pay(account, "0.1")
    before = account.spent()
    with pytest.raises(BudgetExceeded) as caught:
        pay(account, "0.5")
    for said in ("epsilon = 0.5", "'survey'", "at most epsilon = 0.2 is left.", "Nothing was released or spent."):
        assert said in str(caught.value)
    assert before == account.spent() == added(account)
    pay(account, "0.1")
    pay(account, "0.1")
    with pytest.raises(BudgetExceeded):
        pay(account, "0.000000000000000001")
    assert account.accountant.after(account.accountant.no_charges, Pure(Fraction(1))) == account.spent()
    assert len(account.entries()) == 7


def test_the_newest_answer_is_given(account, ledger):
    """Of several to a question, with its exact numbers; another account has its own answers and budget."""
    question = '{"column": "âge", "mechanism": "mean"}'
    release = {"mean": 1 / 3, "n": [1, None, "é"]}
    other = ledger.open_account("other", **TERMS)
    pay(account, 1)
    keep(account, question, release={"mean": 0.1})
    keep(account, question, release=release, call="c2")
    keep(account, "{}", release={"mean": 3.0}, call="c3")
    keep(account, release={"mean": 2.0}, call="c4")

    answer = account.answer(question)
    assert ("c2", "mean", question, release) == (answer.call, answer.mechanism, answer.question, answer.release)
    assert [each.call for each in account.answers()] == ["c1", "c2", "c3", "c4"]
    assert account.answer("null") is None
    assert other.accountant.no_charges == other.spent()
    assert (other.entries(), other.answers(), other.answer("{}")) == ([], [], None)
    assert {"survey", "other"} == {each.name for each in ledger.accounts()}


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
    assert added(account) == account.spent()


def test_processes_race_for_the_last_of_a_budget(forked, shared_place):
    """Four processes make one ledger and one account at one moment, and spend exactly its budget together."""
    race = SCRIPT + "print(spend(opened(), Fraction(1, 100)))"
    admitted = forked.run_together(race, *([str(shared_place)] for _ in range(4)))

    account = open_ledger(shared_place).account("survey")
    assert len(admitted) == 4
    assert 100 == sum(map(int, admitted)) == len(account.entries())
    assert account.accountant.after(account.accountant.no_charges, Pure(Fraction(1))) == account.spent()


FORK = """
account = opened()
pay(account, "1/100")
children = []
for child in range(3):
    children.append(os.fork())
    if children[-1] == 0:
        break
spend(account, "1/100")
if 0 in children:
    os._exit(0)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


def test_forks_share_the_budget(python, shared_place):
    """An account used before a fork can be used in every process after it, and they spend one budget."""
    account = opened(shared_place)

    assert python(FORK, shared_place) == ""
    assert len(account.entries()) == 100


def test_one_of_two_opens_the_account(where):
    """Who finds that another process has just opened the account gets that account, or the mismatch."""
    import psycopg

    ledger = opened(where, "first").ledger
    terms = "epsilon, delta, accounting, neighbors, public, accountant, opened, spent"

    def open_meanwhile(name, epsilon):
        with psycopg.connect(where) as other, ThreadPoolExecutor(1) as threads:
            other.execute(f"INSERT INTO accounts (name, {terms}) SELECT %s, {terms} FROM accounts LIMIT 1", [name])  # noqa: S608
            opening = threads.submit(ledger.open_account, name, **{**TERMS, "epsilon": epsilon})
            waited_for(where)
            other.commit()
            return opening.result()

    assert open_meanwhile("same", Fraction(1)) == ledger.account("same")
    with pytest.raises(AccountMismatch, match="epsilon = 1, not 2"):
        open_meanwhile("other", Fraction(2))


def test_one_of_many_spellings_opens_the_account(where):
    """Of spellings of one name that are opened at one moment, from many connections, one gets a budget."""
    ledger = open_ledger(where)
    spellings = ["Survey", "survey", "SURVEY", "survey ", " survey", "sUrvey", "suRvey", "surVey"]

    def tried(name):
        try:
            return ledger.open_account(name, **TERMS).name
        except AccountMismatch:
            return None

    with ThreadPoolExecutor(len(spellings)) as threads:
        names = list(threads.map(tried, spellings))

    (only,) = (account.name for account in ledger.accounts())
    assert [only] == [name for name in names if name]


def test_a_server_that_does_not_wait_for_its_disk_is_told_to(where):
    """A charge waits for the disk even where the database is set not to."""
    on_server(where, f"ALTER DATABASE {database_of(where)} SET synchronous_commit = off")

    with open_ledger(where).transaction(write=True) as connection:
        setting = connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()

    assert on_server(where, "SHOW synchronous_commit") == [("off",)]
    assert setting == "on"


FAILS = {
    "the commit fails": (
        "RAISE EXCEPTION 'no room'", "CONSTRAINT TRIGGER t AFTER INSERT ON charges DEFERRABLE INITIALLY DEFERRED",
        r"no room[\s\S]*Nothing was released; what was charged stays charged\."),
    "the server is gone": (
        "PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW", "TRIGGER t BEFORE INSERT ON charges",
        "cannot be written"),
}  # fmt: skip


@pytest.mark.parametrize(("does", "trigger", "said"), FAILS.values(), ids=FAILS)
def test_a_charge_that_fails_on_the_server_is_none(where, does, trigger, said):
    """If the server refuses the commit, or breaks the connection, the caller learns it and nothing is charged."""
    account = opened(where)
    on_server(
        where,
        f"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {does}; END $$",
        f"CREATE {trigger} FOR EACH ROW EXECUTE FUNCTION f()",
    )

    with pytest.raises(LedgerError, match=said):
        pay(account, "0.5")

    assert account.entries() == []
    assert account.accountant.no_charges == account.spent()


def test_an_older_dump_under_an_open_account_is_refused(where):
    """If an administrator puts back what the server had before, an account that is open is not charged again."""
    account = opened(where)
    pay(account, "0.5")
    nothing = json.dumps(account.accountant.no_charges.to_list())
    on_server(where, "DELETE FROM charges", f"UPDATE accounts SET spent = '{nothing}'")  # noqa: S608 - our own

    with pytest.raises(LedgerError, match=r"replaced by an older.*newer backup of the server"):
        pay(account, "0.5")
    with pytest.raises(LedgerError, match="was lost"):
        open_ledger(where)


def a_pair(where):
    """Two accounts of one ledger."""
    return [opened(where, name, epsilon=Fraction(1000)) for name in "ab"]


def test_answers_lock_accounts_in_the_order_of_charges(where):
    """While an answer of two accounts waits for the first by name, it holds nothing of the second."""
    import psycopg

    first, second = a_pair(where)

    with psycopg.connect(where) as other, ThreadPoolExecutor(1) as threads:
        other.execute("SELECT * FROM accounts WHERE name = 'a' FOR UPDATE")
        kept = threads.submit(keep, second, also=[first])
        waited_for(where)
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


def test_what_a_server_undoes_is_tried_again(where, monkeypatch):
    """A charge and an answer that were undone as a whole are written once; what is undone each time is refused."""
    first, second = a_pair(where)
    for table in ("charges", "answers"):
        undo(where, table, 2)

    pay(second, 1, also=[first])
    keep(second, "{}", also=[first])

    on_server(where, "DROP TRIGGER undo ON charges", "DROP FUNCTION undo_charges", "DROP SEQUENCE tries_charges")
    undo(where, "charges", 10**6)
    monkeypatch.setattr("dfprivacy._ledger.store.TRIES", 3)
    with pytest.raises(LedgerError, match=r"deadlock.*Nothing was released or spent"):
        pay(first, 1)
    assert on_server(where, "SELECT last_value FROM tries_charges") == [(3,)]
    for account in (first, second):
        assert [Fraction(1)] == [entry.epsilon for entry in account.entries()]
        assert added(account) == account.spent()
        assert len(account.answers()) == 1


PAIR = """
from dfprivacy._ledger.accounts import JointAccount

joint, asked = JointAccount(*map(open_ledger(sys.argv[1]).account, sys.argv[2])), 0
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    pay(joint, Fraction(1, 1000))
    joint.keep(call=sys.argv[2], mechanism="mean", question=None, release={})
    asked += 1
print(asked)
"""


@pytest.mark.stress
@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_questions_of_two_accounts_in_both_orders(forked, where, isolation):
    """Processes that ask of two accounts, in either order, are all answered, whatever the server isolates."""
    on_server(where, f"ALTER DATABASE {database_of(where)} SET default_transaction_isolation = '{isolation}'")
    accounts = a_pair(where)
    seconds = os.environ.get("DFPRIVACY_TEST_STRESS", "0.7")

    asked = forked.run_together(SCRIPT + PAIR, *([where, order, seconds] for order in ["ab", "ba", "ab", "ba"]))

    assert len(asked) == 4
    assert all(int(count) > 0 for count in asked)
    for account in accounts:
        assert sum(map(int, asked)) == len(account.entries()) == len(account.answers())
        assert added(account) == account.spent()


def test_measurements_are_kept_to_the_last_bit(account, ledger):
    """What was measured comes back by its description, kind of noise and sampler, oldest first."""
    steps = np.array([-(2**63), -1, 0, 2**63 - 1], dtype=np.int64)
    for private, scale, grid in ((True, 1 / 3, 39), (True, 2.5, -7), (False, 1.0, 0)):
        keep(
            account,
            measurements=[Measurement('{"what":"é"}', "laplace", scale, grid, private, steps)],
            release=None,
        )

    key = sha256_of_text('{"what":"é"}')
    (found,) = account.measurements([key], private=True).values()

    assert [(each.steps_scale, each.grid) for each in found] == [(1 / 3, 39), (2.5, -7)]
    assert all((steps == account.noisy_steps(each)).all() for each in found)
    assert account.measurements([sha256_of_text('{"what":"e"}')], private=True) == {}
    assert not ledger.open_account("other", **TERMS).measurements([key], private=True)
    assert account.answers() == []


def test_an_old_ledger_on_a_server_goes_on(where, monkeypatch):
    """On a server what schema 1 had not is made in one transaction, and no other row changes."""
    account = opened(where)
    pay(account, "1/4")
    keep(account, '"?"', release={"mean": 1.0})
    with account.ledger.transaction(write=True) as connection:
        for table in (tables().records, tables().shares, tables().askers, tables().measurements):
            table.drop(connection)
        connection.execute(tables().ledger.update().values(schema_version=1))

    monkeypatch.setattr(known_states, "_memories", {})
    again = open_ledger(where)

    assert (again._schema_version(), again.keeps_measurements) == (SCHEMA_VERSION, True)
    known = again.account("survey")
    assert (account.spent(), {"mean": 1.0}) == (known.spent(), known.answer('"?"').release)
    assert not known.measurements([sha256_of_text("")], private=True)
