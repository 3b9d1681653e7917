"""Views: one account for all that is made of a table, the price of its parts, and no row of it to be seen."""

# ruff: noqa: PD011, SIM300 - no pandas here; expected == actual

from __future__ import annotations

import copy
import inspect
import json
import logging
import pickle
import struct
import subprocess
import sys
import warnings
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp
import dfprivacy_kernel
from dfprivacy import features
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._plugins.loader import register_mechanism, registry, unregister

pytestmark = pytest.mark.pandas

every_frame = pytest.mark.parametrize("constructor", ["pandas", "polars", "polars-lazy"], indirect=True)
N = 200
DATA = {
    "age": [31.0, 45.0, 28.0, 52.0] * 50,
    "smoker": ["yes", "no", "no", "no"] * 50,
    "arm": ["drug", "placebo"] * 100,
}
BOUNDS = {"age": (18, 90)}
CATEGORIES = {"smoker": ["yes", "no"], "arm": ["drug", "placebo"]}


def protect(df, name="clinic", **terms):
    return dp.protect(df, name, **{"epsilon": 10, "bounds": BOUNDS, "categories": CATEGORIES, **terms})


@dp.mechanism()
def size(curator):
    "The number of rows, if it is public."
    return curator.size


@dp.mechanism(columns={"column": "numeric"})
def average(curator, column, *, shares=(1,)):
    "The mean, measured as often as there are shares."
    found = []
    for share in shares:
        measured = curator.sum(features.Moments(column, degree=1, count=True), share=share)
        up, down = measured.values
        found.append(column.mid + column.half * (up - down) / (up + down))
    return np.array(found)


@dp.mechanism(columns={"column": "numeric"})
def uneven(curator, column):
    "Spends the more at first the more rows there are: a share that depends on the group."
    first = Fraction(3, 4) if curator.size and curator.size > N / 2 else Fraction(1, 4)
    curator.sum(features.Moments(column), share=first)
    return curator.sum(features.Moments(column)).values


@pytest.fixture(autouse=True)
def mechanisms():
    for mechanism in (size, average, uneven):
        register_mechanism(mechanism)
    yield
    for mechanism in (size, average, uneven):
        unregister(mechanism.name)


# One account


@every_frame
def test_a_name_is_one_account(constructor):
    """Two frames of one name spend one budget."""
    first, second = protect(constructor(DATA)), protect(constructor(DATA))

    first.average("age", epsilon=4)

    assert 6 == first.budget.remaining == second.budget.remaining
    assert 4 == second.budget.spent
    assert 1 == len(second.releases)


def test_a_name_is_one_account_for_every_library():
    """A pandas and a Polars frame of one name spend one budget."""
    first, second = protect(pd.DataFrame(DATA)), protect(pl.DataFrame(DATA))

    first.average("age", epsilon=4)
    second.average("age", epsilon=6, fresh=True)

    assert 0 == first.budget.remaining
    assert 2 == len(first.releases)


@pytest.mark.parametrize(
    ("other", "term"),
    [
        ({"epsilon": 11}, "epsilon = 10, not 11"),
        ({"epsilon": "10.0000001"}, "epsilon = 10, not 100000001/10000000"),
        ({"delta": 1e-7}, "delta = 1/1000000, not 1/10000000"),
        ({"delta": 0}, "delta = 1/1000000, not 0"),
        ({"neighbors": "add_remove"}, "neighbors = replace_one, not add_remove"),
        ({"accounting": "basic"}, "accounting = portfolio, not basic"),
        ({"public": ["arm"]}, 'public = \\[\\], not \\["arm"\\]'),
    ],
)
def test_a_name_never_gets_other_terms(other, term):
    """Another budget, relation, accounting or set of public columns for a known name is refused."""
    df = pd.DataFrame(DATA)
    view = protect(df, delta=1e-6)

    with pytest.raises(dp.AccountMismatch, match=term):
        protect(df, **{"delta": 1e-6, **other})

    assert 0 == view.budget.spent
    assert df.dp.view is view


def test_the_same_terms_may_be_written_otherwise():
    """What counts is the exact budget and the set of public columns, not how they are written."""
    df = pd.DataFrame(DATA)
    first = protect(df, epsilon=0.5, delta=1e-6, public=["arm", "smoker"])

    second = protect(df, epsilon="1/2", delta="1e-6", public=("smoker", "arm"), accounting="portfolio")

    assert first.budget.to_dict() == second.budget.to_dict()


@every_frame
def test_parts_share_the_account(constructor):
    """What is asked of parts of a table is paid by the table's account."""
    view = protect(constructor(DATA))
    parts = [
        view.where(age=(20, 40)),
        view.select("age"),
        view.where(smoker="no").where(arm=["drug"]),
        view.select("age", "arm").group_by("arm"),
        view.where({"age": (20, 40)}),
        view.where(lambda row: row["age"] > 30),
    ]

    replayed = [part.average("age", epsilon=1).privacy.replayed for part in parts]

    assert [False, False, False, False, True, False] == replayed  # the fifth is the first, written otherwise
    assert 5 == view.budget.remaining
    assert 5 == len(view.releases)


def test_a_selection_has_no_other_columns():
    """A column that was not selected is not there."""
    view = protect(pd.DataFrame(DATA)).select("age")

    with pytest.raises(dp.SchemaError, match="no column 'smoker'"):
        view.where(smoker="no")

    assert ("age",) == view.schema.names


def test_the_order_of_derivations_does_not_matter():
    """Conditions on columns that are dropped afterwards still hold."""
    view = protect(pd.DataFrame(DATA)).where(smoker="yes").select("age")

    assert 31 == pytest.approx(view.average("age", epsilon=10).value[0], abs=3)


# What is public about a part


@every_frame
@pytest.mark.parametrize(
    ("derive", "expected"),
    [
        (lambda view: view, N),
        (lambda view: view.where(arm="drug"), N / 2),
        (lambda view: view.where(arm=["drug", "placebo"]), N),
        (lambda view: view.where(smoker="yes"), None),
        (lambda view: view.where(age=(0, 100)), None),
        (lambda view: view.where(arm="drug", smoker="yes"), None),
        (lambda view: view.where(lambda row: True), None),
    ],
)
def test_the_size_of_a_part_is_public_where_its_conditions_are(constructor, derive, expected):
    """A part selected by public columns has a public size; by anything else, a private one; neither costs."""
    view = protect(constructor(DATA), public=["arm"])

    released = derive(view).size(epsilon=1)

    assert expected == released.value
    assert 0 == released.privacy.epsilon == view.budget.spent


@every_frame
def test_the_size_is_private_under_add_remove(constructor):
    """Where a row may come or go, no size is public."""
    view = protect(constructor(DATA), neighbors="add_remove")

    assert view.size(epsilon=1).value is None
    assert "rows: private" in repr(view)


# The price of groups


@every_frame
@pytest.mark.parametrize(
    ("terms", "each"),
    [({"neighbors": "add_remove"}, 2.0), ({"public": ["arm"]}, 2.0), ({"neighbors": "replace_one"}, 2.0)],
    ids=["add_remove", "public", "replace_one"],
)
@pytest.mark.parametrize("shares", [(1,), ("1/2", "1/2"), (0.25, 0.5, 0.25)], ids=len)
def test_all_groups_together_cost_what_was_asked(constructor, terms, each, shares):
    """Each group gets the whole epsilon, and all of them together cost epsilon."""
    view = protect(constructor(DATA), **terms)

    groups = view.group_by("arm").average("age", shares=shares, epsilon=2)

    paid = [noise.epsilon for noise in groups.privacy.noise]
    assert [float(Fraction(share)) * each for share in shares] * 2 == paid
    assert 2 == groups.privacy.epsilon == view.budget.spent
    assert ("drug", "placebo") == groups.groups


@every_frame
@pytest.mark.parametrize("terms", [{"neighbors": "add_remove"}, {"public": ["arm"]}, {}], ids=str)
def test_each_group_is_answered_from_its_own_rows(constructor, terms):
    """The answer of a group is about its rows only."""
    view = protect(constructor(DATA), epsilon=2000, **terms)

    groups = view.group_by("arm").average("age", epsilon=1000)

    assert 29.5 == pytest.approx(groups["drug"].value[0], abs=0.5)
    assert 48.5 == pytest.approx(groups["placebo"].value[0], abs=0.5)


@every_frame
def test_groups_of_a_part_are_groups_of_its_rows(constructor):
    """Conditions and groups combine, at the price of the groups."""
    view = protect(constructor(DATA), epsilon=2000)

    groups = view.where(age=(40, 90)).group_by("arm").average("age", epsilon=1000)

    assert 48.5 == pytest.approx(groups["placebo"].value[0], abs=0.5)
    assert 1000 == view.budget.spent


def test_groups_that_measure_unevenly_cost_no_more_than_asked():
    """A mechanism whose shares depend on the group is stopped before it costs more than the call may."""
    data = {**DATA, "arm": ["drug"] * (N - 10) + ["placebo"] * 10}
    view = protect(pd.DataFrame(data), public=["arm"])

    with pytest.raises(dp.PluginError, match=r"differently.*measurements stay charged: epsilon 1") as refused:
        view.group_by("arm").uneven("age", epsilon=1)

    assert refused.value.hint
    assert 1 == view.budget.spent
    assert 0 == len(view.releases)


def test_a_public_group_that_cannot_be_asked_is_found_before_any_pays():
    """A group too small for a test refuses the call while it is still free."""
    data = {**DATA, "arm": ["drug"] * (N - 1) + ["placebo"]}
    view = protect(pd.DataFrame(data), public=["arm"])

    with pytest.raises(dp.ArgumentError, match=r"1 rows, and 2 are needed\. Nothing was released or spent\."):
        view.group_by("arm").ttest("age", popmean=30, epsilon=1)

    assert 0 == view.budget.spent


def test_groups_can_be_explained():
    """The plan of a call by group shows what one group gets of the price."""
    grouped = protect(pd.DataFrame(DATA)).group_by("arm")

    plan = grouped.explain("average", "age", epsilon=2)

    assert 2 == plan.epsilon
    assert [2.0] == [noise.epsilon for noise in plan.measurements]


def test_groups_need_a_column_with_categories():
    """Groups are named by public categories, never found in the data."""
    view = protect(pd.DataFrame(DATA))

    with pytest.raises(dp.SchemaError, match="'age' has no categories"):
        view.group_by("age")


# What a view shows

CANARIES = ("CANARY-TEXT", "987654.321", "987654.25", "-123456.75")
SECRET = {
    "age": [987654.25, -123456.75, 987654.25, 44.0] * 50,
    "income": [987654.321, 5.0, 6.0, 7.0] * 50,
    "smoker": ["CANARY-TEXT", "no", "no", "yes"] * 50,
    "name": ["CANARY-TEXT"] * N,
    "arm": ["drug", "placebo"] * 100,
}


def shows_nothing(text):
    return not any(canary in text for canary in CANARIES)


@every_frame
def test_nothing_that_is_shown_holds_a_value_of_the_data(constructor, caplog):
    """No repr, HTML, completion, JSON, log or warning holds a planted value."""
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        df = constructor(SECRET)
        view = protect(df, public=["arm"], epsilon=10, delta=1e-6)
        part = view.where(smoker="no", age=(20, 40)).where(lambda row: row["age"] > 30)
        grouped = view.group_by("smoker")
        released = [
            view.average("age", epsilon=1),
            grouped.average("age", epsilon=1),
            part.average("age", epsilon=1),
        ]
        shown = [view, df.dp, part, grouped, view.budget, view.releases, view.explain("average", "age", epsilon=1)]
        texts = [
            *(repr(thing) for thing in [*shown, *released, view.schema]),
            *(thing._repr_html_() for thing in [*shown, *released] if hasattr(thing, "_repr_html_")),
            *(str(dir(thing)) for thing in shown),
            json.dumps([release.to_dict() for release in released]),
            json.dumps(view.budget.to_dict()),
            str(vars(view)),
            caplog.text,
            *(str(warning.message) for warning in caught),
        ]

    assert [] == [text for text in texts if not shows_nothing(text)]


@every_frame
@pytest.mark.parametrize("derive", [lambda v: v, lambda v: v.where(smoker="no"), lambda v: v.group_by("arm")])
def test_a_pickle_holds_no_rows(constructor, derive):
    """The bytes of a pickled view hold no planted value, in text or in binary."""
    view = derive(protect(constructor(SECRET)))

    stored = pickle.dumps(view)

    secrets = [b"CANARY", *(struct.pack("<d", float(canary)) for canary in CANARIES[1:])]
    secrets += [canary.encode() for canary in CANARIES]
    assert [] == [secret for secret in secrets if secret in stored]


def test_a_view_shows_what_is_public():
    """The repr names the account, the rows, each column with what is known of it, the conditions and the budget."""
    view = protect(pd.DataFrame(SECRET), public=["arm"]).where(age=(20, 40)).where(lambda row: True)

    assert repr(view).splitlines() == [
        "PrivateFrame 'clinic'",
        "  rows: 200; neighbors: replace_one; missing values are left out",
        "  age: from 18 to 90",
        "  income: nothing is known, so no method can use it",
        "  smoker: one of ['yes', 'no']",
        "  name: nothing is known, so no method can use it",
        "  arm: one of ['drug', 'placebo'] (public)",
        "  where age from 20 to 40",
        "  where a Python function holds",
        f"  {view.budget!r}",
    ]


def test_html_is_escaped():
    """Names of data sets and columns are text, not markup."""
    df = pd.DataFrame({"<b>x</b>": [1.0, 2.0], "<i>g</i>": ["<u>", "b"]})
    view = dp.protect(df, "<script>", epsilon=1, bounds={"<b>x</b>": (0, 5)}, categories={"<i>g</i>": ["<u>", "b"]})
    part = view.where({"<i>g</i>": "<u>"})
    view.ttest("<b>x</b>", popmean=1, epsilon=1)

    shown = part._repr_html_() + view.releases._repr_html_() + view.budget._repr_html_()

    assert not any(tag in shown for tag in ("<script>", "<b>x", "<i>g", "<u>"))
    assert "&lt;script&gt;" in shown


def test_a_view_can_be_shown_when_its_ledger_is_closed(ledger):
    """What shows a view must not fail, whatever became of its ledger."""
    view = protect(pd.DataFrame(DATA))
    view._target.account.ledger.close()

    assert "budget unknown: The ledger" in repr(view)
    assert "budget unknown: The ledger" in view._repr_html_()


# Copies


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("derive", [lambda v: v, lambda v: v.where(smoker="no"), lambda v: v.group_by("arm")])
def test_a_copy_is_the_same_view(copied, derive):
    """A copy of a view is no second budget, and no second table."""
    view = derive(protect(pd.DataFrame(DATA)))

    assert copied(view) is view
    assert copied({"view": view})["view"] is view


@every_frame
def test_a_pickled_view_loses_no_charge(constructor):
    """A view that comes out of a pickle has the same account, with all that was charged before and after."""
    view = protect(constructor(DATA))
    view.average("age", epsilon=1)
    stored = pickle.dumps(view)
    view.average("age", epsilon=2)

    again = pickle.loads(stored)  # noqa: S301

    assert 3 == again.budget.spent
    assert view.budget.to_dict() == again.budget.to_dict()
    assert view.schema == again.schema


@pytest.mark.parametrize("derive", [lambda v: v, lambda v: v.where(arm="drug"), lambda v: v.group_by("arm")])
def test_a_pickled_view_answers_nothing_new(derive):
    """Without rows a view replays what was answered, and refuses the rest before it pays."""
    view = protect(pd.DataFrame(DATA), public=["arm"])
    part = derive(view)
    known = part.average("age", epsilon=1)
    again = pickle.loads(pickle.dumps(part))  # noqa: S301

    replayed = again.average("age", epsilon=1)
    with pytest.raises(
        dp.NotProtected, match=r"carries no rows\. Nothing was released or spent\. Protect the table"
    ):
        again.average("age", epsilon=2)

    assert known.to_dict()["privacy"]["noise"] == replayed.to_dict()["privacy"]["noise"]
    assert replayed.privacy.replayed
    assert 1 == view.budget.spent


def test_a_pickled_view_knows_its_account_in_another_process(tmp_path, ledger):
    """The account is in the ledger, so a process that loads the pickle sees and spends the same budget."""
    view = protect(pd.DataFrame(DATA))
    view.average("age", epsilon=1)
    (tmp_path / "view.pickle").write_bytes(pickle.dumps(view))
    script = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).budget.remaining)"

    run = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "view.pickle"], check=True, capture_output=True, text=True
    )

    assert "9" == run.stdout.strip()


# Methods


def test_methods_look_like_methods():
    """A method has the name, the signature and the documentation of its mechanism, with the price."""
    view = protect(pd.DataFrame(DATA))

    assert "ttest" == view.ttest.__name__
    assert ["column", "shares", "epsilon", "fresh"] == list(inspect.signature(view.average).parameters)
    assert "epsilon : float, str or None" in inspect.getdoc(view.ttest)
    assert set(registry().mechanisms) <= set(dir(view)) & set(dir(view.group_by("arm")))


def test_signatures_show_what_a_caller_gives():
    """A column is given by its name, a list by names, another view as a view; what comes back is a release."""
    view = protect(pd.DataFrame(DATA))

    test, fit = inspect.signature(view.kernel_two_sample), inspect.signature(view.gmm_fit)

    asked = {name: parameter.annotation for name, parameter in test.parameters.items()}
    assert (Sequence[str], str | None, "PrivateFrame | None") == (asked["columns"], asked["by"], asked["other"])
    assert (float | str | None, float | str | None, bool) == (asked["epsilon"], asked["delta"], asked["fresh"])
    assert dp.Probability == asked["confidence"]
    assert "Annotated[float, Range(0, 1, exclusive='both')] = 0.95" in str(test)
    assert dfprivacy_kernel.KernelTest is test.return_annotation
    assert str | None == fit.parameters["label"].annotation
    assert dp.Groups is inspect.signature(view.group_by("arm").ttest).return_annotation
    assert dp.Release is inspect.signature(view.average).return_annotation


def test_what_is_no_method_is_an_attribute_error_with_a_hint():
    """A misspelt method is an `AttributeError` that proposes the right one."""
    view = protect(pd.DataFrame(DATA))

    with pytest.raises(AttributeError, match=r"There is no method 'avrage'\. Did you mean 'average'\?"):
        _ = view.avrage

    assert not hasattr(view, "_repr_png_")


def test_the_budget_reads_as_a_bar():
    """The budget says what is spent, of what, and how large the next release may be."""
    view = protect(pd.DataFrame(DATA))

    view.average("age", epsilon=2.5)

    assert "budget █████░░░░░░░░░░░░░░░ spent 2.5 of epsilon 10; 7.5 left" == repr(view.budget)
    assert 'value="0.2500"' in view.budget._repr_html_()


def test_an_empty_budget_says_so():
    """When nothing is left, the budget says so in words."""
    view = protect(pd.DataFrame(DATA))

    view.average("age", epsilon="rest")

    assert "budget ████████████████████ spent 10 of epsilon 10; nothing is left" == repr(view.budget)


def test_releases_are_a_sequence():
    """The releases of an account can be counted, indexed, sliced, iterated and shown, oldest first."""
    view = protect(pd.DataFrame(DATA))
    made = [view.average("age", epsilon=price) for price in (1, 2, 3)]

    releases = view.releases

    assert [1.0, 2.0, 3.0] == [release.privacy.epsilon for release in releases]
    assert [2.0, 3.0] == [release.privacy.epsilon for release in releases[1:]]
    assert made[-1].to_dict() == releases[-1].to_dict()
    assert "3 releases" in repr(releases)
    assert 3 == releases._repr_html_().count("average")


def test_the_view_of_an_arrow_stream_works_like_any_other():
    """Any object with an Arrow C stream can be protected, though it has no ``dp``."""
    pa = pytest.importorskip("pyarrow")
    view = protect(pa.table(DATA))

    view.average("age", epsilon=1)

    assert 1 == view.budget.spent


def test_a_frame_that_cannot_be_referred_to_weakly_can_be_protected():
    """An object with an Arrow C stream need not support weak references."""

    class Stream:
        __slots__ = ("table",)

        def __arrow_c_stream__(self, requested_schema=None):
            return self.table.__arrow_c_stream__(requested_schema)

    stream = Stream()
    stream.table = pl.DataFrame(DATA)

    assert N == protect(stream).schema.size


def test_the_ledger_can_be_named(tmp_path):
    """A view keeps its account where it is told to, as text or as a path."""
    path = tmp_path / "study.sqlite"

    protect(pd.DataFrame(DATA), ledger=path).average("age", epsilon=1)
    protect(pd.DataFrame(DATA), ledger=str(path)).average("age", epsilon=2)

    assert 3 == sum(entry.epsilon for entry in open_ledger(path).account("clinic").entries())
