"""Views: ``df.dp``, one account for all that is made of a table, what parts cost, and no row of it to be seen."""

# ruff: noqa: PD003, PD011, SIM300 - no pandas here; expected == actual

from __future__ import annotations

import copy
import gc
import inspect
import json
import logging
import pickle
import rlcompleter
import struct
import subprocess
import sys
import textwrap
import traceback
import warnings
import weakref
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp
import dfprivacy_kernel
from dfprivacy import features
from dfprivacy._plugins.loader import register_mechanism, registry, unregister

pytestmark = pytest.mark.pandas

every_frame = pytest.mark.parametrize("constructor", ["pandas", "polars", "polars-lazy"], indirect=True)
every_part = pytest.mark.parametrize(
    "derive", [lambda v: v, lambda v: v.where(arm="drug"), lambda v: v.group_by("arm")]
)
N = 200
DATA = {
    "age": [31.0, 45.0, 28.0, 52.0] * 50, "smoker": ["yes", "no", "no", "no"] * 50,
    "arm": ["drug", "placebo"] * 100, "note": ["a"] * N,
}  # fmt: skip
BOUNDS = {"age": (18, 90)}
CATEGORIES = {"smoker": ["yes", "no"], "arm": ["drug", "placebo"]}
PROBES = (
    *("_repr_html_", "_repr_mimebundle_", "_ipython_display_", "_ipython_canary_method_should_not_exist_"),
    *("__len__", "anything"),
)


def protect(df=None, name="clinic", **terms):
    df = pd.DataFrame(DATA) if df is None else df
    return dp.protect(df, name, **{"epsilon": 10, "bounds": BOUNDS, "categories": CATEGORIES, **terms})


@dp.mechanism()
def size(curator):
    "The number of rows, if it is public."
    return curator.size


@dp.mechanism(columns={"column": "numeric"})
def average(curator, column, by=2, *, shares=(1,)):
    """Measure the mean as often as there are shares.

    Parameters
    ----------
    column : str
        A column with bounds.
        It is averaged.
    by : int
        Into how many.
    shares : sequence
        How often.
    """
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


# ---- one account -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("other", "term"), [
    ({"epsilon": 11}, "epsilon = 10, not 11"), ({"epsilon": "10.0000001"}, "epsilon = 10, not 100000001/10000000"),
    ({"delta": 1e-7}, "delta = 1/1000000, not 1/10000000"), ({"delta": 0}, "delta = 1/1000000, not 0"),
    ({"neighbors": "add_remove"}, "neighbors = replace_one, not add_remove"),
    ({"accounting": "basic"}, "accounting = portfolio, not basic"),
    ({"public": ["arm"]}, r"public = \[\], not \['arm'\]"),
])  # fmt: skip
def test_a_name_never_gets_other_terms(other, term):
    """Another budget, relation, accounting or set of public columns is refused; the same in other words is not."""
    df = pd.DataFrame(DATA)
    view = protect(df, delta=1e-6)

    with pytest.raises(dp.AccountMismatch, match=term):
        protect(df, **{"delta": 1e-6, **other})

    assert df.dp.view is view
    assert protect(df, delta="1e-6", epsilon="10", public=(), accounting="portfolio").budget.spent == 0


@every_frame
def test_parts_share_the_account(constructor):
    """What is asked of parts of a table is paid by the table's account."""
    view = protect(constructor(DATA))
    parts = [
        view.where(age=(20, 40)),
        view.select("age"),
        view.where(smoker="no").where(arm=["drug"]).select("age"),  # conditions on columns that are dropped hold
        view.select("age", "arm").group_by("arm"),
        view.where({"age": (20, 40)}),
        view.where(lambda row: row["age"] > 30),
        view["age"],
    ]

    replayed = [part.average("age", epsilon=1).privacy.replayed for part in parts[:-1]]

    assert [False, False, False, False, True, False] == replayed  # the fifth is the first, written otherwise
    assert parts[-1].average(epsilon=1).privacy.replayed
    assert (5, 5) == (view.budget.remaining, len(view.releases))
    assert ("age",) == parts[1].schema.names
    with pytest.raises(dp.SchemaError, match="no column 'smoker'"):
        parts[1].where(smoker="no")


@pytest.mark.parametrize(("derive", "expected"), [
    (lambda view: view, N), (lambda view: view.where(arm="drug"), N / 2),
    (lambda view: view.where(arm=["drug", "placebo"]), N), (lambda view: view.where(smoker="yes"), None),
    (lambda view: view.where(age=(0, 100)), None), (lambda view: view.where(arm="drug", smoker="yes"), None),
    (lambda view: view.where(lambda row: True), None),
])  # fmt: skip
def test_the_size_of_a_part_is_public_where_its_conditions_are(derive, expected):
    """Selected by public columns it is; by anything else, or where rows come and go, it is not; neither costs."""
    view, other = protect(public=["arm"]), protect(name="other", neighbors="add_remove")

    released = derive(view).size(epsilon=1)

    assert expected == released.value
    assert 0 == released.privacy.epsilon == view.budget.spent
    assert derive(other).size(epsilon=1).value is None
    assert "rows: private" in repr(other)


@every_frame
@pytest.mark.parametrize("terms", [{"neighbors": "add_remove"}, {"public": ["arm"]}, {}], ids=str)
@pytest.mark.parametrize("shares", [(1,), ("1/2", "1/2"), (0.25, 0.5, 0.25)], ids=len)
def test_all_groups_together_cost_what_was_asked(constructor, terms, shares):
    """Each group gets the whole epsilon, and is answered from its own rows; all of them together cost epsilon."""
    view = protect(constructor(DATA), epsilon=10**4, **terms)

    groups = view.where(age=(0, 50)).group_by("arm").average("age", shares=shares, epsilon=4000)

    paid = [noise.epsilon for noise in groups.privacy.noise]
    assert [float(Fraction(share)) * 4000 for share in shares] * 2 == paid
    assert 4000 == groups.privacy.epsilon == view.budget.spent
    assert ("drug", "placebo") == groups.groups
    assert [29.5, 45] == [pytest.approx(groups[arm].value[0], abs=0.5) for arm in groups]


def test_groups_that_measure_unevenly_cost_no_more_than_asked():
    """A mechanism whose shares depend on the group is stopped before it costs more than the call may."""
    view = protect(pd.DataFrame({**DATA, "arm": ["drug"] * (N - 10) + ["placebo"] * 10}), public=["arm"])

    with pytest.raises(dp.PluginError, match=r"different noise.*measurements stay charged: epsilon 1") as refused:
        view.group_by("arm").uneven("age", epsilon=1)

    assert refused.value.hint
    assert (1, 0) == (view.budget.spent, len(view.releases))


# ---- what a view shows -----------------------------------------------------------------------------------

CANARIES = ("CANARY-TEXT", "987654.321", "987654.25", "-123456.75")
SECRET = {
    "age": [987654.25, -123456.75, 987654.25, 44.0] * 50, "income": [987654.321, 5.0, 6.0, 7.0] * 50,
    "smoker": ["CANARY-TEXT", "no", "no", "yes"] * 50, "name": ["CANARY-TEXT"] * N,
    "arm": ["drug", "placebo"] * 100,
}  # fmt: skip


@every_frame
def test_nothing_that_is_shown_holds_a_value_of_the_data(constructor, caplog):
    """No repr, HTML, completion, JSON, log or warning holds a planted value."""
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        df = constructor(SECRET)
        view = protect(df, public=["arm"], delta=1e-6)
        part = view.where(smoker="no", age=(20, 40)).where(lambda row: row["age"] > 30)
        grouped = view.group_by("smoker")
        released = [each.average("age", epsilon=1) for each in (view, grouped, part)]
        shown = [view, df.dp, part, grouped, view.budget, view.releases, view.explain("average", "age", epsilon=1)]
        texts = [
            *(repr(thing) for thing in [*shown, *released, view.schema, view["age"]]),
            *(thing._repr_html_() for thing in [*shown, *released] if hasattr(thing, "_repr_html_")),
            *(str(dir(thing)) for thing in shown),
            json.dumps([release.to_dict() for release in released]),
            json.dumps(view.budget.to_dict()),
            str(vars(view)),
            caplog.text,
            *(str(warning.message) for warning in caught),
        ]

    assert [] == [text for text in texts if any(canary in text for canary in CANARIES)]


@every_frame
@every_part
def test_a_pickle_holds_no_rows(constructor, derive):
    """The bytes of a pickled view hold no planted value; it has the account, all its charges, and old answers."""
    view = protect(constructor(SECRET), public=["arm"])
    part = derive(view)
    known = part.average("age", epsilon=1)
    stored = pickle.dumps(part)
    view.average("age", epsilon=2)

    again = pickle.loads(stored)  # noqa: S301
    replayed = again.average("age", epsilon=1)
    with pytest.raises(
        dp.NotProtected, match=r"carries no rows\. Nothing was released or spent\. Protect the table"
    ):
        again.average("age", epsilon=4)

    secrets = [b"CANARY", *(struct.pack("<d", float(canary)) for canary in CANARIES[1:])]
    assert [] == [secret for secret in (*secrets, *map(str.encode, CANARIES)) if secret in stored]
    assert known.to_dict()["privacy"]["noise"] == replayed.to_dict()["privacy"]["noise"]
    assert replayed.privacy.replayed
    assert 3 == view.budget.spent
    if part is view:
        assert (view.budget.to_dict(), view.schema) == (again.budget.to_dict(), again.schema)
    for copied in (copy.copy, copy.deepcopy):  # is no second budget, and no second table
        assert copied(part) is part
        assert copied({"view": part})["view"] is part


def test_a_view_shows_what_is_public(ledger):
    """The repr names the account, rows, what is known of columns, conditions and the budget; it fails never."""
    view = protect(pd.DataFrame(SECRET), public=["arm"]).where(age=(20, 40)).where(lambda row: True)

    assert repr(view).splitlines() == [
        "PrivateFrame 'clinic'",
        "  number of rows: 200; neighbors: replace_one (a row's content changes); missing values are left out",
        "  age: from 18 to 90",
        "  income: not declared, so no method can use it",
        "  smoker: one of ['yes', 'no']",
        "  name: not declared, so no method can use it",
        "  arm: one of ['drug', 'placebo'] (public)",
        "  where age from 20 to 40",
        "  where a Python function holds",
        f"  {view.budget!r}",
    ]
    view._target.account.ledger.close()
    assert "budget unknown: The ledger" in repr(view)
    assert "budget unknown: The ledger" in view._repr_html_()


def test_a_budget_says_what_its_accounting_adds_up():
    """Epsilons and deltas of the basic accounting; of others what was charged, and the most of one question."""
    basic = protect(name="basic delta", delta=1e-3, accounting="basic")
    other = protect(name="portfolio", delta=1e-3)
    for view in (basic, other):
        view.average("age", epsilon=2.5)

    assert repr(basic.budget).endswith("epsilon: 2.5 of 10 spent, 7.5 left; delta: 0 of 0.001 spent")
    assert repr(other.budget).endswith(
        f"epsilon: 2.5 charged in sum, budget 10, {float(other.budget.remaining):g} left for one question; "
        "delta: 0.001 for all questions"
    )


def test_budget_and_releases():
    """A bar of what is spent; a list and a table of all that was asked, or of one method, in any library."""
    view = protect()
    bars = []
    for price in (2.5, "rest"):
        view.average("age", epsilon=price, fresh=True)
        bars.append(repr(view.budget))
    other = protect(name="other")
    made = [other.mean("age", epsilon=1), other.count(epsilon="1/4"), other.average("age", epsilon=1)]
    frame = other.releases.filter(method="mean").to_frame()

    assert "budget █████░░░░░░░░░░░░░░░ epsilon: 2.5 of 10 spent, 7.5 left" == bars[0]
    assert "budget ████████████████████ epsilon: 10 of 10 spent, 0 left" == bars[1]
    assert 'value="1.0000"' in view.budget._repr_html_()
    assert made == [*other.releases]
    assert made[1:] == other.releases[1:]
    assert "3 releases" in repr(other.releases)
    assert 1 == other.releases._repr_html_().count("average")
    assert list(frame.columns) == ["asked", "by", "method", "question", "epsilon", "delta"]
    assert frame["question"].tolist() == ["mean('age')"]
    assert other.releases.to_frame("polars")["epsilon"].to_list() == [1.0, 0.0, 1.0]


def test_methods_look_like_methods():
    """A column is given by its name, a list by names, another view as a view; what comes back is a release."""
    view = protect()
    test, fit = inspect.signature(view.kernel_two_sample), inspect.signature(view.gmm_fit)
    asked = {name: parameter.annotation for name, parameter in test.parameters.items()}

    assert "ttest" == view.ttest.__name__
    assert ["column", "by", "shares", "epsilon", "fresh"] == list(inspect.signature(view.average).parameters)
    assert "epsilon : float, str or None" in inspect.getdoc(view.ttest)
    assert set(registry().mechanisms) <= set(dir(view)) & set(dir(view.group_by("arm")))
    assert (Sequence[str], str | None, "PrivateFrame | None") == (asked["columns"], asked["by"], asked["other"])
    assert (float | str | None, float | str | None, bool) == (asked["epsilon"], asked["delta"], asked["fresh"])
    assert dp.Probability == asked["confidence"]
    assert "Annotated[float, Range(0, 1, exclusive='both')] = 0.95" in str(test)
    assert dfprivacy_kernel.KernelTest is test.return_annotation
    assert str | None == fit.parameters["label"].annotation
    assert dp.Groups is inspect.signature(view.group_by("arm").ttest).return_annotation
    assert dp.Release is inspect.signature(view.average).return_annotation


# ---- one column ------------------------------------------------------------------------------------------


def test_a_column_has_its_methods():
    """With signature and help, the column left out of both; also of a third party, of groups, and of gaps."""
    view = protect()
    column, method, grouped = view["age"], view["age"].average, view.group_by("arm")["age"]

    assert view.average("age", 4, shares=["1"], epsilon=1) == method(4, shares=["1"], epsilon=1)
    assert ["by", "shares", "epsilon", "fresh"] == list(inspect.signature(method).parameters)
    assert [said in method.__doc__ for said in ("A column with bounds", "It is averaged")] == [False, False]
    assert [said in method.__doc__ for said in ("Into how many", "epsilon : float")] == [True, True]
    assert view.explain("mean", "age", epsilon=1) == column.explain("mean", epsilon=1)
    assert ("drug", "placebo") == grouped.count(epsilon=1).groups
    assert grouped.agg(["mean", "std"], epsilon=1) == view.group_by("arm").agg({"age": ["mean", "std"]}, epsilon=1)
    assert dp.Groups is inspect.signature(grouped.mean).return_annotation
    assert "missing" in repr(column.isna())
    assert "age" not in repr(inspect.signature(column.isna().sum))
    assert repr(view.select("age")) in repr(column)
    assert "age" == column.name == copy.deepcopy(column).name


def test_gaps_are_counted():
    """As pandas writes it, and Polars; the sum is `missing`, with its parameters."""
    view = protect(pd.DataFrame({"age": [31.0, None] * 100}), categories=None, epsilon=1000)
    column = view["age"]

    for gaps in (column.isna(), column.isnull(), column.is_null()):
        assert view.missing("age", epsilon=100) == gaps.sum(epsilon=100)
    for there in (column.notna(), column.is_not_null()):
        assert view.count("age", epsilon=100) == there.sum(epsilon=100)
    assert 100 == pytest.approx(float(column.isna().sum(epsilon=100)), abs=1)


def test_completion_shows_what_a_column_can_be_asked():
    """Means of numbers, counts of categories, and of a column of which nothing is known what can be discovered."""
    numbers, labels, unknown = (set(dir(protect()[name])) for name in ("age", "smoker", "note"))

    assert {"mean", "std", "median", "histogram", "ttest", "missing", "explain", "name", "isna"} <= numbers
    assert {"value_counts", "chi2", "count"} <= labels
    assert not {"crosstab"} & numbers
    assert not {"mean", "ttest"} & labels
    assert "value_counts" in unknown
    assert not {"mean", "count"} & unknown


def test_names_of_columns_and_other_names():
    """They are public, and a view is asked for them as a table is; `filter` is `where`, `groupby` is `group_by`."""
    df = pd.DataFrame(DATA)
    view = protect(df)

    assert [*DATA] == list(view) == list(view.group_by("smoker"))
    assert [name in view for name in ("age", "agee")] == [True, False]
    assert ("smoker", "age") == view[["smoker", "age"]].schema.names
    assert ("age",) == view.group_by("smoker")[["age"]].describe(epsilon=1)["no"].columns
    assert repr(view.filter(smoker="yes")) == repr(view.where(smoker="yes")) != repr(view)
    assert view.groupby("smoker")._by == view.group_by("smoker")._by
    assert {"filter", "groupby"} <= set(dir(view)) & set(dir(df.dp))
    assert "age" == df.dp["age"].name


@pytest.mark.parametrize(
    ("wanted", "rows"), [(45, 50), ((None, 31), 100), ((45, None), 100), ((None, None), 200), (39.5, 0)]
)
def test_rows_are_selected_by_a_number_or_half_an_interval(wanted, rows):
    """What users of dataframes type."""
    assert round(protect(epsilon=1000).where(age=wanted).count(epsilon=1000)) == rows


NO_QUESTION = [
    (lambda v: v["agee"], dp.SchemaError, r"no column 'agee'.*\['age', 'smoker', 'arm', 'note'\]"),
    (lambda v: v[3], dp.SchemaError, "named by a string"),
    (lambda v: v[["age", "agee"]], dp.SchemaError, "no column 'agee'"),
    (lambda v: v["age"].maen, AttributeError, "Did you mean 'mean'"),
    (lambda v: v["age"].xyzzy, AttributeError, "methods of this column are .*'median'"),
    (lambda v: v["smoker"].gmm_fit, AttributeError, r"belongs to the view: view\.gmm_fit"),
    (lambda v: v["smoker"].mean(epsilon=1), dp.SchemaError, "'smoker' is categorical"),
    (lambda v: v["note"].value_counts(epsilon=1), dp.SchemaError, "has no categories"),
    (lambda v: v["age"] > 3, dp.ArgumentError, r"view\.where\(age=\(low, high\)\)"),
    (lambda v: v["age"].mean(column="age", epsilon=1), dp.ArgumentError, "multiple values"),
    (lambda v: v.age, AttributeError, r"view\['age'\]"),
    (lambda v: v.group_by("arm").age, AttributeError, r"view\['age'\]"),
    (lambda v: v.mean(["age"], epsilon=1), dp.DPError, "agg"),
    (lambda v: v.where(note="x"), dp.DPError, "has no categories"),
    (lambda v: v.avrage, AttributeError, r"There is no method 'avrage'\. Did you mean 'average'\?"),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "error", "text"), NO_QUESTION)
def test_what_is_no_question_says_what_is(ask, error, text):
    """And costs nothing."""
    view = protect()
    with pytest.raises(error, match=text):
        ask(view)

    assert not list(view.releases)


# ---- df.dp -----------------------------------------------------------------------------------------------


@every_frame
def test_the_frame_finds_its_view(constructor):
    """The view need not be kept: the frame alone finds account, terms and rows again, and keeps no state."""
    df = constructor(DATA)
    before = set(vars(df))
    protect(df, default_epsilon="1/4")
    gc.collect()
    released = df.dp.average("age")
    view = protect(df, "second")
    holds = protect(constructor(DATA), "held").average  # its view holds a temporary frame
    gc.collect()

    assert 0.25 == released.privacy.epsilon
    assert (view, "second") == (df.dp.view, df.dp.name)
    assert view.budget.remaining == df.dp.budget.remaining == 10
    assert df.dp is not df.dp
    assert before == set(vars(df))
    assert 0.5 == holds("age", epsilon=0.5).privacy.epsilon


DERIVED = {
    pd.DataFrame: [
        lambda df: df[df["age"] > 30], lambda df: df.copy(), copy.copy, lambda df: df.head(),
        lambda df: df.assign(b=1), lambda df: pd.concat([df, df]),
        lambda df: pickle.loads(pickle.dumps(df)),  # noqa: S301
    ],
    pl.DataFrame: [
        lambda df: df.filter(pl.col("age") > 30), lambda df: df.clone(), copy.copy, lambda df: df.lazy(),
        lambda df: df.select("age"),
    ],
    pl.LazyFrame: [lambda df: df.filter(pl.col("age") > 30), lambda df: df.collect()],
}  # fmt: skip


@pytest.mark.parametrize(("make", "derive"), [(make, each) for make, those in DERIVED.items() for each in those])
def test_what_is_derived_from_a_protected_frame_is_not_protected(make, derive):
    """A derived frame is another frame: it says so, and names the way out."""
    df = make(DATA)
    protect(df)
    derived = derive(df)

    with pytest.raises(
        dp.NotProtected, match=r"no private view.*Nothing was released or spent.*view\.where"
    ) as caught:
        derived.dp.ttest("age", popmean=30, epsilon=0.1)

    text = traceback.format_exception(caught.value)[-1]
    assert "NotProtected: This frame has no private view" in text
    assert "Did you mean" not in text  # Python's own guess, a method that is there but as useless
    assert caught.value.obj is None  # from which Python guesses: some of its versions elsewhere than in this text
    assert df.dp.budget.spent == 0


@every_frame
def test_looking_around_costs_nothing(constructor, ledger):
    """`hasattr`, `getattr`, `dir`, `inspect`, `repr` and completion never fail, and open no ledger."""
    df = constructor(DATA)
    completer = rlcompleter.Completer({"df": df})

    for name in ("view", "ttest", "budget", "releases", *PROBES):
        assert not hasattr(df.dp, name)
        assert "default" == getattr(df.dp, name, "default")
    assert "dp" in dir(df)
    assert {"protect", "view", "budget", "releases", "where", "select", "group_by", "explain"} <= set(dir(df.dp))
    assert set(registry().mechanisms) <= set(dir(df.dp))
    assert "protect" in dict(inspect.getmembers(df.dp))
    assert "no private view" in repr(df.dp)
    assert not ledger.exists()
    for protected in (False, True):
        view = protect(df) if protected else None
        found = [completer.complete("df.dp.prot", state) for state in range(2)]
        assert found[0].startswith("df.dp.protect")
        assert found[1] is None
        assert completer.complete("df.dp.ttest", 0).startswith("df.dp.ttest")
    for name in PROBES:
        assert hasattr(view, name) == hasattr(df.dp, name) or name == "_repr_html_"
    assert not hasattr(view, "_repr_png_")
    assert {name for name in dir(view) if not name.startswith("_")} <= set(dir(df.dp))
    assert view.budget.spent == 0


@every_frame
def test_no_reference_keeps_a_frame_alive(constructor):
    """A frame is freed with its last name, without the garbage collector; one at its address is unprotected."""
    df, reused = constructor(DATA), False
    protect(df).average("age", epsilon=0.5)
    repr(df.dp)
    alive = weakref.ref(df)
    gc.disable()
    try:
        del df
        assert alive() is None
    finally:
        gc.enable()

    for _ in range(1000):
        df = constructor(DATA)
        protect(df)
        address = id(df)
        del df
        other = constructor(DATA)
        reused |= id(other) == address
        assert not hasattr(other.dp, "view")
        if reused:
            break

    assert reused


def test_the_class_has_the_accessor_itself():
    """On the class the attribute is the accessor's class, whose documentation tools show; no column hides it."""
    df = pd.DataFrame({"dp": [1.0, 2.0]})

    assert pd.DataFrame.dp is pl.DataFrame.dp is pl.LazyFrame.dp is dp.accessor.Accessor
    assert isinstance(df.dp, dp.accessor.Accessor)
    assert [1.0, 2.0] == df["dp"].tolist()


HEAVY = (
    *("opendp", "scipy", "sqlalchemy", "matplotlib", "dfprivacy_ttest"),
    *("pandas", "polars", "pyarrow", "duckdb", "dask", "distributed", "pyspark"),
)
SLOW = "scipy.stats", "scipy.optimize", "scipy.spatial", "scipy.sparse"


@pytest.mark.parametrize(("first", "second"), [("dfprivacy", "pandas"), ("polars", "dfprivacy")])
def test_one_library_is_used_without_the_other(first, second):
    """The accessor appears whichever is imported first; a question loads no other library, nor what is slow.

    To import dfprivacy loads no dataframe library, no plugin and no large dependency; frames of a library that is
    imported last have the accessor.
    """
    library = "pandas" if "pandas" in {first, second} else "polars"
    other = {"pandas": "polars", "polars": "pandas"}[library]
    script = f"""
    import json, sys
    import {first}
    heavy = [name for name in {HEAVY!r} if name in sys.modules and {first == "dfprivacy"}]
    import {second}
    df = {library}.DataFrame({DATA!r})
    view = df.dp.protect("members", epsilon=1, bounds={{"age": (18, 90)}}, ledger="memory:")
    released = df.dp.ttest("age", popmean=30, epsilon=1)
    repr(view), view._repr_html_(), released._repr_html_()
    found = [released.privacy.epsilon, heavy, [name for name in {(other, *SLOW)!r} if name in sys.modules]]
    import {other}
    print(json.dumps([*found, type({other}.DataFrame().dp).__name__]))
    """
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)], check=False, capture_output=True, text=True
    )

    assert run.returncode == 0, run.stderr
    assert [1.0, [], [], "Accessor"] == json.loads(run.stdout)
