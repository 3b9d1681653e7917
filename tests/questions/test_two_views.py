"""A question of two views: asked of the union of their tables, paid by both accounts or by neither."""

# ruff: noqa: PD011, SIM300 - no pandas here; expected == actual

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._measure.evaluate import union_of_tables
from dfprivacy._plugins.loader import register_mechanism, unregister
from dfprivacy._privacy.losses import Pure
from dfprivacy.statistics import OfRows
from dfprivacy.testing import seeded_noise

pytestmark = pytest.mark.pandas

BOUNDS = {"age": (18, 90)}
ARMS = {"arm": ["drug", "placebo"]}


class Range(OfRows):
    """The largest age of each group, of rows taken whole."""

    shape = (2,)

    def __init__(self, column, by):
        self.columns = (column, by)

    def value(self, rows):
        ages, codes = rows.values(self.columns[0]), rows.codes(self.columns[1])
        return [ages[codes == code].max(initial=self.columns[0].low) for code in (0, 1)]

    def sensitivity(self, relation, norm, public):
        moved = 2 * self.columns[0].half
        return moved if self.columns[1].name in public else moved * 2


@dp.mechanism(columns={"column": "numeric", "by": "category", "other": "view"})
def compare(curator, column, *, by=None, other=None, kind="sum"):
    "Sums, or largest values, of two groups."
    groups = by or other
    if kind == "sizes":
        sizes = curator.sizes(groups)
        return None if sizes is None else sizes.tolist()
    if kind == "whole":
        return curator.measure(Range(column, groups)).values
    return curator.sum(features.OneHot(groups) * features.Moments(column)).values


@dp.mechanism(columns={"column": "numeric", "other": "view"})
def halves(curator, column, *, other=None):
    "Two measurements."
    first = curator.sum(features.Moments(column), share="1/2").values
    return np.concatenate([first, curator.sum(features.Moments(column)).values])


@pytest.fixture(autouse=True)
def mechanisms():
    for each in (compare, halves):
        register_mechanism(each)
    yield
    for each in (compare, halves):
        unregister(each.name)


def table(seed, rows=60):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"age": rng.uniform(18, 90, rows), "arm": rng.choice(["drug", "placebo"], rows)})


def protect(name, df=None, **terms):
    df = table(len(name)) if df is None else df
    return dp.protect(df, name, **{"epsilon": 10, "bounds": BOUNDS, "categories": ARMS, **terms})


def spent(*views):
    return [sum((entry.epsilon for entry in view._target.account.entries()), Fraction(0)) for view in views]


# The union


@pytest.mark.parametrize("kind", ["sum", "whole"])
@pytest.mark.parametrize("make", [pd.DataFrame, pa.table])
def test_two_views_answer_as_two_groups_of_one(kind, make):
    """Two tables have the answer, and the noise, of one table with a public column that tells them apart."""
    one, two = table(1, 40), table(2, 70)
    both = pd.concat([one, two]).assign(place=["one"] * 40 + ["two"] * 70)
    whole = protect("whole", both, categories={**ARMS, "place": ["one", "two"]}, public=["place"])
    first = protect("one", make(one.to_dict("list")))
    second = protect("two", make(two.to_dict("list")))

    with seeded_noise(1):
        grouped = whole.compare("age", by="place", kind=kind, epsilon=1)
    with seeded_noise(1):
        apart = first.compare("age", other=second, kind=kind, epsilon=1)

    assert grouped.value.tolist() == apart.value.tolist()
    assert [(n.scale, n.sensitivity) for n in grouped.privacy.noise] == [
        (n.scale, n.sensitivity) for n in apart.privacy.noise
    ]


def test_neighbouring_unions_differ_in_one_row_of_one_table():
    """A row's content, or under add_remove a row, is protected; which table it is of is public."""
    for neighbors, expected in (("replace_one", 2.0), ("add_remove", 1.0)):
        one, two = (protect(f"{name} {neighbors}", neighbors=neighbors) for name in ("one", "two"))
        whole, which = union_of_tables(one._target.table, two._target.table, ("one", "two"))

        found = whole.sensitivity(features.OneHot(which) * features.Moments(one.schema.columns["age"], degree=1), 1)

        assert expected == found
        assert (0.0 if neighbors == "replace_one" else 1.0) == whole.sensitivity(features.OneHot(which), 1)


def test_each_view_selects_its_own_rows():
    """On columns that the other need not have; a row may leave a private part; names do not clash."""
    named = table(1).assign(wave=1.0, **{"data set": [0.0, 1.0] * 30})
    known = {**BOUNDS, "data set": (0, 1)}
    one = protect("one", named, bounds={**known, "wave": (0, 2)}, public=["arm"])
    two = protect("two", table(2).assign(**{"data set": [0.0, 1.0] * 30}), bounds=known, public=["arm"])

    def sizes(first, second):
        return first.compare("age", other=second, kind="sizes", epsilon=1).value

    def sensitivity(first, second):
        return first.explain("compare", "age", other=second, epsilon=1).measurements[0].sensitivity

    assert [float((named["arm"] == "drug").sum()), 60.0] == sizes(one.where(arm="drug"), two)
    assert sizes(one.where(wave=(1, 1), arm="drug"), two) is None
    assert 2 == round(sensitivity(one, two), 6) <= sensitivity(one, two.where(age=(20, 40)))
    assert 30 == pytest.approx(one.compare("data set", other=two, epsilon=9).value[0, 1], abs=60)


# Both or neither


def test_both_accounts_pay_the_same():
    """Each account is charged the whole price, and says so to whoever looks; the rest is what both can pay."""
    one, two = protect("one", epsilon=5), protect("two", epsilon=2)

    release = one.compare("age", other=two, epsilon="0.5")

    assert [Fraction(1, 2)] * 2 == spent(one, two)
    entries = [view._target.account.entries() for view in (one, two)]
    assert [entry.loss for entry in entries[0]] == [entry.loss for entry in entries[1]]
    assert {entry.call for entry in entries[0]} == {entry.call for entry in entries[1]}
    assert ("one and two", 0.5) == (release.privacy.account, release.privacy.epsilon)
    assert [1, 1] == [len(view.releases) for view in (one, two)]
    assert 1.5 == one.explain("compare", "age", other=two, epsilon=1).largest
    assert 1.5 == one.compare("age", other=two, epsilon="rest").privacy.epsilon


@pytest.mark.parametrize("poor", ["one", "two"])
@pytest.mark.parametrize("method", ["compare", "halves"])
def test_a_budget_that_is_too_small_charges_neither(poor, method):
    """Where one of the accounts cannot pay the whole call, nothing is charged to either."""
    one, two = (protect(name, epsilon=1 if name == poor else 9) for name in ("one", "two"))

    with pytest.raises(dp.BudgetExceeded, match=f"{poor!r}.*Nothing was released or spent"):
        getattr(one, method)("age", other=two, epsilon=2)

    assert [0, 0] == spent(one, two)


def test_the_charge_is_on_the_disk_before_a_row_is_read(ledger):
    """When the rows of either table are read, both accounts have paid."""
    seen = []

    class Watched:
        def __init__(self, data):
            self.table = pa.table(data)

        def __arrow_c_stream__(self, requested_schema=None):
            accounts = open_ledger(ledger).accounts()
            seen.append([len(account.entries()) for account in accounts])
            return self.table.__arrow_c_stream__(requested_schema)

    one, two = (protect(name, Watched(table(1).to_dict("list"))) for name in ("one", "two"))
    seen.clear()
    one.compare("age", other=two, epsilon=1)

    assert [[1, 1], [1, 1]] == seen


INTERRUPT = """
import os, signal, sys
from fractions import Fraction
from sqlalchemy import event
from dfprivacy._privacy.losses import Pure
from dfprivacy._ledger.ledger import open_ledger

ledger = open_ledger(sys.argv[1])
one, two = ledger.account("one"), ledger.account("two")
written = []

@event.listens_for(ledger._engine, "before_cursor_execute")
def count(connection, cursor, statement, *rest):
    if statement.startswith(("UPDATE", "INSERT")):
        written.append(statement)
    if len(written) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

one.charge(Pure(Fraction(3, 4)), call="c1", mechanism="mean", also=[two])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.pandas(False)
@pytest.mark.parametrize(("at", "charged"), [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 1)])
def test_a_crash_leaves_both_or_neither(forked, ledger, at, charged):
    """A process killed at any of the six writes has charged nobody; killed after the commit, both."""
    one, two = protect("one", epsilon=1), protect("two", epsilon=1)

    forked(INTERRUPT, str(ledger), str(at), status=-9)

    assert [Fraction(3, 4) * charged] * 2 == spent(one, two)
    expected = one._target.account.accountant
    whole = expected.after(expected.no_charges, Pure(Fraction(3, 4))) if charged else expected.no_charges
    assert [whole, whole] == [view._target.account.spent() for view in (one, two)]


RACE = """
import sys
from fractions import Fraction
from dfprivacy.errors import BudgetExceeded
from dfprivacy._privacy.losses import Pure
from dfprivacy._ledger.ledger import open_ledger

ledger = open_ledger(sys.argv[1])
first, second = (ledger.account(name) for name in sys.argv[2:])
try:
    while True:
        first.charge(Pure(Fraction(1, 50)), call="c", mechanism="mean", also=[second])
except BudgetExceeded:
    pass
"""


@pytest.mark.pandas(False)
def test_processes_that_charge_crosswise_stay_in_step(forked, ledger):
    """Processes that charge the same two accounts in either order neither wait for each other nor overspend."""
    one, two = protect("one", epsilon=1), protect("two", epsilon=1)

    forked.run_together(
        RACE, *([str(ledger), *names] for names in (["one", "two"], ["two", "one"], ["one", "two"]))
    )

    assert [1, 1] == spent(one, two)
    assert [50, 50] == [len(view._target.account.entries()) for view in (one, two)]


# Kept answers


def test_the_same_question_is_answered_again_for_nothing():
    """The first account knows it again; from the other side, or of other rows, it is another question."""
    one, two = protect("one"), protect("two")
    first = one.compare("age", other=two, epsilon=1)

    again = one.compare("age", other=protect("two"), epsilon=1)

    assert again.privacy.replayed
    assert first.value.tolist() == again.value.tolist()
    assert [1, 1] == spent(one, two)
    assert not two.compare("age", other=one, epsilon=1).privacy.replayed
    for other in ({"other": protect("three")}, {"other": two.where(arm="drug")}, {"by": "arm"}):
        assert not one.compare("age", **other, epsilon=1).privacy.replayed


# Refusals, none of which costs anything


def differently(**terms):
    return lambda _: (protect("one"), protect("two", **terms))


def same(_):
    view = protect("one")
    return view, view.where(arm="drug")


DIFFERENTLY = "differently in 'one' and 'two'"
REFUSED = {
    "the same account": (same, "Both views are of the account 'one'"),
    "two ledgers": (lambda folder: (protect("one"), protect("two", ledger=folder / "elsewhere")), "two ledgers"),
    "relations": (differently(neighbors="add_remove"), "'two' with 'add_remove'"),
    "bounds": (differently(bounds={"age": (18, 91)}), DIFFERENTLY),
    "missing": (differently(missing={"age": 30}), DIFFERENTLY),
    "public": (differently(public=["age"]), DIFFERENTLY),
    "no bounds": (differently(bounds={}), "In 'two': Column 'age' has no bounds"),
    "no column": (differently(df=table(2)[["arm"]], bounds={}), "In 'two': There is no column 'age'"),
    "grouped": (lambda _: (protect("one").group_by("arm"), protect("two")), "in a question about two views"),
    "another grouped": (lambda _: (protect("one"), protect("two").group_by("arm")), "takes a view"),
    "no view": (lambda _: (protect("one"), "two"), "takes a view, not str"),
    "a frame": (lambda _: (protect("one"), table(1)), "made of public values only"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_asked_together_is_refused(make, said, tmp_path):
    """A pair of views that cannot be asked together is refused before any charge, and the error says why."""
    view, other = make(tmp_path)

    with pytest.raises(dp.DPError, match=said):
        view.compare("age", other=other, epsilon=1)

    assert [] == [entry for account in open_ledger().accounts() for entry in account.entries()]


def test_what_can_no_longer_be_asked():
    """A pickled view has no rows: nothing is paid. Each table keeps its number of rows, or the charge stays."""
    frame = table(1)
    one, two = protect("one", frame), protect("two")
    bare = pickle.loads(pickle.dumps(two))  # noqa: S301 - our own
    for first, second in ((one, bare), (bare, one)):
        with pytest.raises(dp.NotProtected):
            first.compare("age", other=second, epsilon=1)
    assert [0, 0] == spent(one, two)

    frame.loc[60] = frame.loc[0]
    with pytest.raises(dp.ReadError, match="60 rows"):
        one.compare("age", other=two, epsilon=1)
    assert [1, 1] == spent(one, two)
