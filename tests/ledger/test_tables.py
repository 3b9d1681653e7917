"""Tables and editions of an account: one budget, whichever of them is asked, and one account for each name."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy.errors import AccountMismatch, ArgumentError

from .helpers import SCRIPT, added, integrity, sqlite

PERSONS = pd.DataFrame({"pid": range(40), "age": [20.0, 40.0, 60.0, 80.0] * 10})
VISITS = pd.DataFrame({"pid": [who % 40 for who in range(100)], "cost": [10.0, 90.0] * 50})
WHOSE = {"unit": "pid", "max_rows": 3, "bounds": {"cost": (0, 100)}}


def persons(path, name="persons", rows=PERSONS, **terms):
    return dp.protect(rows, name, ledger=path, **{"account": "clinic", "bounds": {"age": (0, 100)}, **terms})


def visits(path, name="visits", **terms):
    return dp.protect(VISITS, name, ledger=path, **{"account": "clinic", "epsilon": 1, **WHOSE, **terms})


def test_tables_of_an_account_spend_one_budget(path):
    """Each answers for itself, and together they get what the account has."""
    first, second = visits(path), persons(path)

    cost, age = first.mean("cost", epsilon="1/4"), second.mean("age", epsilon="1/2")

    assert (first.name, second.name, first.account) == ("visits", "persons", "clinic")
    assert Fraction(3, 4) == first.budget.spent == second.budget.spent
    assert [cost, age] == [*first.releases] == [*persons(path).releases]
    assert [each["name"] for each in first.budget.to_dict()["tables"]] == ["visits", "persons"]
    assert "of 'persons'" in str(age)
    assert "rows of one 'pid'" in str(cost.privacy)
    with pytest.raises(dp.BudgetExceeded, match="the account 'clinic'"):
        second.mean("age", epsilon="1/2", fresh=True)


def test_editions_are_tables_of_one_account(path):
    """Of each edition its own answer; their difference has an interval, and neither is paid twice."""
    first = persons(path, edition="2026-9", epsilon=10)
    second = persons(path, edition="2026-11", rows=PERSONS.assign(age=PERSONS["age"] + 10))

    answers = [each.mean("age", epsilon=4) for each in (first, second)]
    difference = answers[1] - answers[0]

    assert ["2026-9", "2026-11"] == first.editions == second.editions
    assert second.name == "persons, edition 2026-11"
    assert first.budget.spent == 8
    assert difference.low < 10 < difference.high
    assert answers[0] == persons(path, edition="2026-9").mean("age", epsilon=4)


REFUSED = [
    ("belongs to the account 'clinic'", {"name": "visits", "account": "other", "epsilon": 1, **WHOSE}),
    ("belongs to the account 'clinic'", {"name": "visits", "account": None, "epsilon": 1, **WHOSE}),
    ("belongs to the account 'own'", {"name": "own"}),
    ("belongs to the account 'own'", {"name": "own", "account": "new", "epsilon": 1}),
    ("looks the same as 'visits'", {"name": "Visits"}),
    ("looks the same as 'own'", {"name": "Own"}),
    ("looks the same as 'clinic'", {"name": "persons", "account": "Clinic", "epsilon": 1}),
    ("neighbors = replace_one, not add_remove", {"name": "persons", "neighbors": "add_remove"}),
    ("max_rows = 3, not 4", {"name": "visits", **WHOSE, "max_rows": 4}),
    ("unit = pid, not None; max_rows = 3, not None", {"name": "visits"}),
    ("needs a total budget", {"name": "persons", "account": "nobody"}),
    ("'month' has editions: '2026-9', '2026-10'", {"name": "month"}),
    ("does not come after the last one, '2026-10'", {"name": "month", "edition": "2026-8"}),
    ("does not come after the last one, '2026-10'", {"name": "month", "edition": "2026 -10"}),
    ("public size of 40, not 39", {"name": "month", "edition": "2026-10", "rows": PERSONS[1:]}),
    ("edition= is not a short printable text", {"name": "month", "edition": " "}),
    ("edition= is not a short printable text", {"name": "month", "edition": 2026}),
    ("edition= is not a short printable text", {"name": "month", "edition": "1" * 10**5}),
    ("account= is not a short printable text", {"name": "persons", "account": ["clinic"]}),
    ("account= is not a short printable text", {"name": "persons", "account": "cli\u200bnic"}),
    ("invisible characters", {"name": "per\u3164sons"}),
]


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A ledger with an account of two tables, one of them in editions, and a table with an account of its own."""
    path = tmp_path_factory.mktemp("known") / "ledger.sqlite"
    visits(path)
    for edition in ("2026-9", "2026-10"):
        persons(path, "month", edition=edition)
    persons(path, "own", account=None, epsilon=1)
    return path


@pytest.mark.parametrize(("said", "terms"), REFUSED)
def test_what_would_be_a_second_budget_is_refused(known, said, terms):
    """Or would mix what belongs to different people, tables or editions; nothing is opened or lost."""

    def held():
        wanted = "SELECT name, spent FROM accounts", "SELECT name, edition FROM data_tables"
        return [sqlite(known, each) for each in wanted]

    before, protect = held(), visits if "unit" in terms else persons
    with pytest.raises((AccountMismatch, ArgumentError), match=said):
        protect(known, **terms)

    assert before == held()


@pytest.fixture(params=[False, True], ids=["rows", "people"])
def old(request, path):
    """A ledger of schema 4, whose account says itself what its one table is."""
    protect = visits if request.param else persons
    view = protect(path, "members", account=None, epsilon=1)
    paid = view.mean("cost" if request.param else "age", epsilon="1/8")
    view._target.account.ledger.close()
    (relation,) = sqlite(path, "SELECT neighbors FROM accounts")[0]
    said = {"unit": "pid", "max_rows": 3, "unit_missing": "omit"} if request.param else None
    relation = json.dumps(said | json.loads(relation)) if said else "replace_one"
    sqlite(
        path,
        f"UPDATE accounts SET neighbors = '{relation}'",  # noqa: S608 - our own
        "DROP TABLE data_tables",
        "UPDATE ledger SET schema_version = 4",
    )
    return protect, paid


def test_an_old_account_is_that_of_its_table(path, old):
    """What it knows is found again, other terms are refused, and more tables may share it."""
    protect, paid = old
    view = protect(path, "members", account=None, epsilon=1)

    assert paid == view.releases[0]
    assert [each.name for each in view._target.account.tables()] == ["members"]
    with pytest.raises(AccountMismatch, match="max_rows = "):
        dp.protect(PERSONS, "members", epsilon=1, ledger=path, unit="pid", max_rows=7)
    more = persons(path, "more", account="members")
    more.mean("age", epsilon="1/8")
    again = protect(path, "members", account=None, epsilon=1)

    assert Fraction(1, 4) == again.budget.spent
    assert [each.name for each in again._target.account.tables()] == ["members", "more"]
    assert again.mean(*("cost",) if protect is visits else ("age",), epsilon="1/8") == paid
    assert len(bytes.fromhex(again._target.account.key)) == 32
    assert len(more._target.account.ledger.records()) == 1


RACE = """
import pandas as pd, dfprivacy as dp
path, name = sys.argv[1:]
rows = pd.DataFrame({"x": [0.25, 0.75] * 50})
view = dp.protect(rows, name, account="clinic", epsilon=1, bounds={"x": (0, 1)}, ledger=path)
times = 0
try:
    while True:
        view.mean("x", epsilon="1/20", fresh=True)
        times += 1
except dp.BudgetExceeded:
    print(times)
"""


def test_two_tables_never_overspend_one_account(forked, path):
    """Two processes open it at one moment and ask until nothing is left: all is spent, and not a part more."""
    times = forked.run_together(SCRIPT + RACE, *([str(path), name] for name in ("one", "two")))

    account = open_ledger(path).account("clinic")
    assert sum(map(int, times)) == 20
    assert account.total_charged() == 1
    assert added(account) == account.spent()
    assert sorted(each.name for each in account.tables()) == ["one", "two"]


def test_one_of_two_accounts_gets_a_table(path):
    """A name that two accounts claim at one moment is that of one of them."""
    ledger = visits(path)._target.account.ledger
    persons(path, "first", account="other", epsilon=1)

    def tried(account):
        try:
            return persons(path, "claimed", account=account)
        except AccountMismatch:
            return None

    for _ in range(3):
        with ThreadPoolExecutor(4) as threads:
            views = [*threads.map(tried, ["clinic", "other"] * 4)]
        owners = {view.account for view in views if view is not None}
        assert len(owners) == 1
    claimed = sqlite(path, "SELECT account FROM data_tables WHERE name = 'claimed'")
    assert [(*owners,)] == claimed
    assert ledger.problems() == []


def test_a_kill_between_two_tables_loses_nothing(python, path):
    """Killed while it opens and asks tables in turn, a process leaves whole tables and whole charges."""
    script = """
import pandas as pd, dfprivacy as dp
rows = pd.DataFrame({"x": [0.25, 0.75] * 50})
path, wait = sys.argv[1], float(sys.argv[2])
signal.setitimer(signal.ITIMER_REAL, wait)
signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
for at in range(1000):
    name = f"{os.getpid()} {at}"
    view = dp.protect(rows, name, account="clinic", epsilon=1000, bounds={"x": (0, 1)}, ledger=path)
    view.mean("x", epsilon="1/100", fresh=True)
"""
    for wait in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5):
        python(script, path, wait, status=-9)
        account = open_ledger(path).find_account("clinic")
        if account is not None:
            assert added(account) == account.spent()
            assert len(account.answers()) <= len(account.tables())
            account.ledger.close()
    assert integrity(path) == [("ok",)]
