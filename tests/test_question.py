"""From a call to a release: the charge before the rows, one answer to one question, and what fails half way."""

# ruff: noqa: PD011, SIM300 - no pandas here; expected == actual

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._plugins.loader import register, register_mechanism, registry, unregister

every_frame = pytest.mark.parametrize("constructor", ["pandas", "polars", "polars-lazy"], indirect=True)
DATA = {
    "age": [31.0, 45.0, 28.0, 52.0] * 50,
    "smoker": ["yes", "no", "no", "no"] * 50,
    "arm": ["drug", "placebo"] * 100,
}
TERMS = {"bounds": {"age": (18, 90)}, "categories": {"smoker": ["yes", "no"], "arm": ["drug", "placebo"]}}
NOTHING = "Nothing was released or spent."


def protect(df=None, name="clinic", **terms):
    df = pd.DataFrame(DATA) if df is None else df
    return dp.protect(df, name, **{"epsilon": 10, **TERMS, **terms})


class Watched:
    """An Arrow stream that does something at every pass over its rows."""

    def __init__(self, data):
        self.table = pa.table(data)
        self.passes = 0
        self.at_pass = lambda: None

    def __arrow_c_stream__(self, requested_schema=None):
        self.passes += 1
        self.at_pass()
        return self.table.__arrow_c_stream__(requested_schema)


@dp.mechanism(columns={"column": "numeric"})
def average(curator, column, *, scale=1.0, option=None):
    "The mean of a bounded column, times a number."
    up, down = curator.sum(features.Moments(column, degree=1, count=True)).values
    return scale * (column.mid + column.half * (up - down) / (up + down))


@dp.mechanism(columns={"column": "numeric"})
def twice(curator, column, *, first=None, second=None, between=None):
    "Two measurements, and something between them."
    before = curator.sum(features.Moments(column), share=first)
    if between is not None:
        HOOKS[between]()
    after = curator.sum(features.Moments(column), share=second)
    return np.concatenate([before.values, after.values])


@dp.mechanism(columns={"column": "numeric"}, delta=True)
def gaussian(curator, column, *, share=None):
    "A sum with Gaussian noise."
    return curator.sum(features.Moments(column), noise="gaussian", share=share).values


@dp.mechanism(columns={"column": "numeric"})
def broken(curator, column, *, when="before", error="ValueError"):
    "A mechanism that fails."
    kind = {"ValueError": ValueError, "ArgumentError": dp.ArgumentError, "KeyError": KeyError}[error]
    if when == "before":
        raise kind("badly written")
    curator.sum(features.Moments(column))
    raise kind("badly written")


@dp.mechanism(columns={"column": "numeric"})
def strange(curator, column, *, what="set"):
    "A result that cannot be kept."
    curator.sum(features.Moments(column))
    return {"set": {1, 2}, "keys": {1: 0.5}, "complex": 1j, "object": object(), "dollar": {"$float": "1"}}[what]


@dp.mechanism(columns={"column": "category"})
def counts(curator, column):
    "Rows in each category."
    return curator.sum(features.OneHot(column)).values


@dp.mechanism(columns={"columns": ["numeric"], "by": "category"})
def several(curator, columns, *, by=None):
    "How many columns it was given."
    return [column.name for column in columns]


MECHANISMS = (average, twice, gaussian, broken, strange, counts, several)
HOOKS = {}


@pytest.fixture(autouse=True)
def mechanisms():
    for mechanism in MECHANISMS:
        register_mechanism(mechanism)
    yield
    for mechanism in MECHANISMS:
        unregister(mechanism.name)
    HOOKS.clear()


@pytest.fixture
def log():
    heard = []

    class Log:
        @dp.hookimpl
        def dfprivacy_released(self, release, account):
            heard.append((account, release.privacy.epsilon))

    register(Log())
    yield heard
    unregister("Log")


# The charge comes first


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_charge_is_in_the_ledger_before_a_row_is_read(ledger, neighbors):
    """When the rows are opened for an answer, another reader of the ledger file sees the charge."""
    df = Watched(DATA)
    view = protect(df, neighbors=neighbors)
    seen = []
    df.at_pass = lambda: seen.append(
        [float(entry.epsilon) for entry in open_ledger(ledger).account("clinic").entries()]
    )

    view.average("age", epsilon=0.5)

    assert [[0.5]] == seen


def test_each_measurement_is_charged_before_it_reads(ledger):
    """A call of two measurements pays for each before it is made, and all of it must be affordable at first."""
    df = Watched(DATA)
    view = protect(df)
    seen = []
    df.at_pass = lambda: seen.append([float(entry.epsilon) for entry in view._target.account.entries()])

    view.twice("age", first=0.25, epsilon=2)

    assert [[0.5], [0.5, 1.5]] == seen


def test_values_that_break_are_missing_and_tell_nothing():
    """Objects in a column that raise whatever is done with them count as missing: no error tells of their row."""

    class Breaks:
        def __hash__(self):
            raise ValueError("CANARY-TEXT")

        __float__ = __eq__ = __str__ = __repr__ = __hash__

    df = pd.DataFrame({name: pd.Series([Breaks()] * 9, dtype=object) for name in "ag"})
    view = protect(df, bounds={"a": (0, 10)}, categories={"g": [1, 2]}, epsilon=2000)

    assert 5 == pytest.approx(view.average("a", epsilon=1000).value, abs=0.1)
    assert [0, 0] == pytest.approx(view.counts("g", epsilon=1000).value, abs=0.1)
    assert "CANARY" not in repr(view)


def test_a_frame_that_cannot_be_read_keeps_its_charge():
    """Where reading fails, here for want of a column, the charge stays, and the text tells no value of the data."""
    df = pd.DataFrame(DATA)
    view = protect(df)
    del df["age"]

    with pytest.raises(dp.ReadError, match=r"what was charged stays charged\. The frame's custodian") as failed:
        view.average("age", epsilon=1)

    assert 1 == view.budget.spent
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None


@pytest.mark.parametrize(
    "plan",
    [
        pl.col("age").cast(pl.String).str.replace("28.0", "CANARY-TEXT").cast(pl.Float64),
        pl.col("age").map_batches(lambda _: 1 / 0, return_dtype=pl.Float64),
    ],
    ids=["cast", "python"],
)
def test_a_plan_that_fails_keeps_its_charge(plan):
    """A lazy frame whose plan fails gives a `ReadError` without the engine's text, which may quote the data."""
    view = protect(pl.LazyFrame(DATA).with_columns(age=plan))

    with pytest.raises(dp.ReadError, match="Reading the rows failed") as failed:
        view.average("age", epsilon=1)

    assert 1 == view.budget.spent
    assert 0 == len(view.releases)
    assert "CANARY" not in str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None


REFUSED = {
    "epsilon": lambda view: view.average("age", epsilon=-1),
    "nothing": lambda view: view.average("age"),
    "column": lambda view: view.average("agee", epsilon=1),
    "keyword": lambda view: view.average("age", epsilon=1, scael=2),
    "budget": lambda view: view.average("age", epsilon=11),
    "second": lambda view: view.twice("age", first=0.1, epsilon=11),
    "shares": lambda view: view.twice("age", first=2, epsilon=1),
    "plugin": lambda view: view.broken("age", epsilon=1),
    "where": lambda view: view.where(age="x"),
    "group": lambda view: view.group_by("age"),
    "explain": lambda view: view.explain("average", "agee", epsilon=1),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_question_reads_nothing(case):
    """What is refused costs nothing and does not look at the rows."""
    df = Watched(DATA)
    view = protect(df)
    before = df.passes

    with pytest.raises(dp.DPError) as refused:
        REFUSED[case](view)

    assert NOTHING in str(refused.value)
    assert before == df.passes
    assert 0 == view.budget.spent


# Answers are kept


@every_frame
def test_the_same_question_has_the_same_answer_at_no_charge(constructor):
    """A question asked again is answered from the ledger, marked as replayed and with its date."""
    view = protect(constructor(DATA))
    first = view.average("age", epsilon=0.5)

    again = view.average("age", epsilon=0.5)

    assert first.value == again.value
    assert (False, True) == (first.privacy.replayed, again.privacy.replayed)
    assert first.privacy.at == again.privacy.at
    assert f"answered on {first.privacy.at} and replayed at no charge" in repr(again)
    assert Fraction(1, 2) == view.budget.spent
    assert 1 == len(view.releases)


def test_a_replayed_answer_reads_no_row():
    """A replay does not open the rows, and does not notice that they changed."""
    df = Watched(DATA)
    view = protect(df)
    first = view.average("age", epsilon=0.5)
    passes, df.table = df.passes, None

    again = view.average("age", epsilon=0.5)

    assert first.value == again.value
    assert passes == df.passes


def test_a_table_changed_in_place_replays_and_refuses_the_rest():
    """After a row was added in place, old answers stand and a new question notices the number of rows."""
    df = pd.DataFrame(DATA)
    view = protect(df)
    first = view.average("age", epsilon=0.5)
    df.loc[200] = df.loc[0]

    again = view.average("age", epsilon=0.5)
    with pytest.raises(dp.ReadError, match="protected with 200 rows and now has another number"):
        view.average("age", epsilon=0.75)

    assert first.value == again.value


def test_an_answer_is_replayed_in_another_process(ledger):
    """Running a script again costs nothing."""
    script = f"""
    import json
    import pandas as pd, dfprivacy as dp
    view = dp.protect(pd.DataFrame({DATA!r}), "clinic", epsilon=10, **{TERMS!r})
    test = view.ttest("age", popmean=30, epsilon=0.5)
    print(json.dumps([test.pvalue, test.privacy.at, test.privacy.replayed, str(view.budget.spent)]))
    """

    run = subprocess.run(  # sets are in another order there
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONHASHSEED": "26"},
        check=True,
        capture_output=True,
        text=True,
    )
    first = json.loads(run.stdout)
    view = protect()
    test = view.ttest("age", popmean=30, epsilon=0.5)
    second = [test.pvalue, str(test.privacy.at), test.privacy.replayed, str(view.budget.spent)]

    assert [False, "1/2"] == first[2:]
    assert [*first[:2], True, "1/2"] == second
    assert [first[0]] == [release.pvalue for release in protect().releases]


SAME = {
    "default written out": lambda view: view.average("age", scale=1.0, option=None, epsilon=0.5),
    "by name": lambda view: view.average(column="age", epsilon=0.5),
    "exact": lambda view: view.average("age", epsilon="1/2"),
    "fraction": lambda view: view.average("age", epsilon=Fraction(1, 2)),
    "numpy": lambda view: view.average("age", scale=np.float64(1), epsilon=np.float32(0.5)),
    "integer": lambda view: view.average("age", scale=1, epsilon=0.5),
    "default epsilon": lambda view: view.average("age"),
    "selection": lambda view: view.select("age", "arm").average("age", epsilon=0.5),
    "protected again": lambda view: protect(default_epsilon=0.5).average("age", epsilon=0.5),
    "other table, same account": lambda view: protect(pl.DataFrame(DATA)).average("age", epsilon=0.5),
    "other bounds elsewhere": lambda view: protect(
        pd.DataFrame({**DATA, "x": 1.0}), bounds={"age": (18, 90), "x": (0, 5)}
    ).average("age", epsilon=0.5),
}


@pytest.mark.parametrize("case", SAME)
def test_the_same_question_in_other_words(case):
    """What was asked counts, not how it was written."""
    view = protect(default_epsilon=0.5)
    first = view.average("age", epsilon=0.5)

    again = SAME[case](view)

    assert first.value == again.value
    assert again.privacy.replayed
    assert 1 == len(view.releases)


OTHER = {
    "argument": lambda view: view.average("age", scale=2.0, epsilon=0.5),
    "kind of argument": lambda view: view.average("age", option=True, epsilon=0.5),
    "epsilon": lambda view: view.average("age", epsilon=0.25),
    "rest": lambda view: view.average("age", epsilon="rest"),
    "mechanism": lambda view: view.twice("age", first="1/2", epsilon=0.5),
    "fresh": lambda view: view.average("age", epsilon=0.5, fresh=True),
    "where": lambda view: view.where(age=(18, 90)).average("age", epsilon=0.5),
    "group": lambda view: view.group_by("arm").average("age", epsilon=0.5),
    "bounds": lambda view: protect(bounds={"age": (18, 91)}).average("age", epsilon=0.5),
    "fill": lambda view: protect(missing={"age": 30}).average("age", epsilon=0.5),
    "rows": lambda view: protect(pd.DataFrame(DATA).head(199)).average("age", epsilon=0.5),
}


@pytest.mark.parametrize("case", OTHER)
def test_another_question_is_paid(case):
    """Whatever could change the answer makes another question."""
    view = protect(epsilon=10)
    first = view.average("age", epsilon=0.5)

    other = OTHER[case](view)

    assert not other.privacy.replayed
    assert 0.5 + other.privacy.epsilon == view.budget.spent
    assert 2 == len(view.releases)
    assert first.privacy.at <= other.privacy.at


def test_numbers_and_truth_values_ask_differently():
    """1 and True are different arguments, though Python calls them equal."""
    view = protect()
    view.average("age", option=1, epsilon=0.5)

    assert not view.average("age", option=True, epsilon=0.5).privacy.replayed


def test_another_version_of_a_mechanism_is_another_question():
    """A mechanism whose code changed answers anew."""
    view = protect()
    view.average("age", epsilon=0.5)

    @dp.mechanism(name="average", columns={"column": "numeric"})
    def changed(curator, column, *, scale=1.0, option=None):
        "Something else."
        return float(curator.sum(features.Moments(column, degree=1)).values[0])

    register_mechanism(changed)

    assert not view.average("age", epsilon=0.5).privacy.replayed


def test_a_fresh_answer_replaces_the_old_one():
    """After ``fresh=True`` the newest answer is the one that is replayed."""
    view = protect()
    first = view.average("age", epsilon=0.5)
    fresh = view.average("age", epsilon=0.5, fresh=True)

    again = view.average("age", epsilon=0.5)

    assert first.value != fresh.value == again.value
    assert 1 == view.budget.spent


def test_a_python_function_in_where_is_never_replayed():
    """A condition that cannot be written down is asked anew each time."""
    view = protect()
    part = view.where(lambda row: row["age"] > 30)

    answers = [part.average("age", epsilon=0.5) for _ in range(2)]

    assert [False, False] == [answer.privacy.replayed for answer in answers]
    assert 1 == view.budget.spent
    assert 2 == len(view.releases)


def test_an_argument_that_cannot_be_written_down_is_never_replayed():
    """A question with an object among its arguments is answered, and asked anew each time it is to be fresh."""
    view = protect()

    answers = [view.average("age", option=object(), epsilon=0.5, fresh=True) for _ in range(2)]

    assert [False, False] == [answer.privacy.replayed for answer in answers]
    assert 1 == view.budget.spent


def test_test_noise_is_never_replayed_as_an_answer():
    """An answer made with seeded noise is not given to somebody who asks for a private one."""
    from dfprivacy.testing import seeded_noise

    view = protect()
    with seeded_noise(1):
        seeded = view.average("age", epsilon=0.5)

    released = view.average("age", epsilon=0.5)

    assert (False, True) == (seeded.privacy.private, released.privacy.private)
    assert not released.privacy.replayed
    assert "NOT PRIVATE" in repr(seeded)


# Prices


def test_the_rest_is_all_that_is_left():
    """``epsilon="rest"`` spends what is left, to the last digit, and asking again replays it."""
    view = protect(epsilon=1)
    view.average("age", epsilon="1/3")

    rest = view.average("age", epsilon="rest")
    again = view.average("age", epsilon="rest")

    assert float(Fraction(2, 3)) == rest.privacy.epsilon
    assert 1 == view.budget.spent
    assert 0 == view.budget.remaining
    assert rest.value == again.value
    assert again.privacy.replayed


def test_nothing_is_left_of_an_empty_budget():
    """When nothing is left, another question for the rest is refused."""
    view = protect(epsilon=1)
    view.average("age", epsilon="rest")

    with pytest.raises(
        dp.BudgetExceeded, match=r"Nothing is left of the budget of 'clinic'\. Nothing was released"
    ):
        view.average("age", scale=2.0, epsilon="rest")
    with pytest.raises(dp.BudgetExceeded, match="Nothing is left"):
        view.explain("average", "age", epsilon="rest")


def test_the_rest_can_be_asked_with_gaussian_noise():
    """The rest of a budget with a delta is replayed as well, though the default delta depended on it."""
    view = protect(epsilon=1, delta=1e-6)
    rest = view.gaussian("age", epsilon="rest")

    again = view.gaussian("age", epsilon="rest")

    assert rest.to_dict()["value"] == again.to_dict()["value"]
    assert 1 == len(view.releases)


def test_the_default_epsilon_is_paid_where_none_is_named():
    """A table protected with a default asks for it, and one without refuses."""
    view = protect(default_epsilon="1/4")

    assert 0.25 == view.average("age").privacy.epsilon
    assert 0.25 == view.where(smoker="no").average("age").privacy.epsilon
    with pytest.raises(dp.ArgumentError, match=r"No epsilon was given\. Nothing was released or spent\. Say"):
        protect(name="other").average("age")


def test_delta_is_paid_in_proportion():
    """Where no delta is named, a call gets the share of delta that its epsilon is of the budget's."""
    view = protect(epsilon=10, delta=1e-6, accounting="basic")

    released = view.gaussian("age", epsilon=2.5)

    assert 2.5e-7 == pytest.approx(released.privacy.delta)
    assert "discrete Gaussian" == released.privacy.noise[0].kind


def test_delta_can_be_named():
    """A delta is charged as it was asked for, and refused where it cannot be paid."""
    view = protect(epsilon=10, delta=1e-6, accounting="basic")

    released = view.gaussian("age", epsilon=1, delta=9e-7)
    with pytest.raises(dp.BudgetExceeded):
        view.gaussian("age", epsilon=1, delta=2e-7, fresh=True)

    assert 9e-7 == released.privacy.delta
    assert 1 == view.budget.spent


def test_gaussian_noise_needs_a_delta():
    """Without a delta a method with Gaussian noise is refused, with the way out."""
    view = protect()

    with pytest.raises(
        dp.ArgumentError, match=r"needs a delta above zero\. Nothing was released or spent\. Protect"
    ):
        view.gaussian("age", epsilon=1)

    assert 0 == view.budget.spent


@pytest.mark.parametrize("price", [0.1, 1 / 3, "1/7", 2])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.1, 0.2), ("1/3", None), (0.9, 0.1), (1e-6, None)])
def test_a_call_never_costs_more_than_asked(price, shares):
    """However a call is shared among its measurements, it never costs more than its epsilon."""
    view = protect()

    released = view.twice("age", first=shares[0], second=shares[1], epsilon=price)

    asked = Fraction(price) if isinstance(price, str | int) else Fraction(str(price))
    assert view.budget.spent <= asked
    assert sum(noise.epsilon for noise in released.privacy.noise) == pytest.approx(released.privacy.epsilon)
    if shares[1] is None or sum(map(Fraction, map(str, shares))) == 1:
        assert view.budget.spent == pytest.approx(asked, rel=1e-14)


@pytest.mark.parametrize("shares", [(0.6, 0.6), (1, 0.1), (None, None)])
def test_shares_that_add_up_to_more_are_refused(shares):
    """A second measurement that was not left room for is the plugin's error; the first stays charged."""
    view = protect()

    with pytest.raises(dp.PluginError, match=r"of which .* is left") as refused:
        view.twice("age", first=shares[0], second=shares[1], epsilon=1)

    spent = float(view.budget.spent)
    assert f"Nothing was released; its measurements stay charged: epsilon {spent:g}." in str(refused.value)
    assert "add up to at most 1" in refused.value.hint
    assert float(shares[0] or 1) == spent


@pytest.mark.parametrize("share", [0, -0.5, 1.5, float("nan"), "x"])
def test_a_share_must_be_a_part(share):
    """A share that is no part of a call is refused before anything is charged."""
    view = protect()

    with pytest.raises((dp.PluginError, dp.ArgumentError), match=r"Nothing was released or spent\."):
        view.twice("age", first=share, epsilon=1)

    assert 0 == view.budget.spent


def test_a_second_measurement_must_be_affordable_before_the_first():
    """A call whose later measurement cannot be paid is refused before its first."""
    view = protect(epsilon=1)
    view.average("age", epsilon=0.5)

    with pytest.raises(dp.BudgetExceeded, match=r"epsilon = 0\.6.*Nothing was released or spent"):
        view.twice("age", first="1/6", epsilon=0.6)

    assert Fraction(1, 2) == view.budget.spent


def test_a_call_that_loses_its_budget_half_way_says_what_it_paid():
    """Where somebody else spends the budget between two measurements, the first stays charged and is said to."""
    view = protect(epsilon=1)
    HOOKS["other"] = lambda: view.average("age", epsilon="rest")

    with pytest.raises(dp.BudgetExceeded, match=r"its measurements stay charged: epsilon 0\.25"):
        view.twice("age", first=0.25, between="other", epsilon=1)

    assert 1 == view.budget.spent
    assert 1 == len(view.releases)


# Plugins that fail


@pytest.mark.parametrize("error", ["ValueError", "KeyError"])
def test_a_plugin_that_fails_before_it_measures_costs_nothing(error):
    """The error names the mechanism, where it comes from, what it said, and that nothing was spent."""
    view = protect()

    with pytest.raises(
        dp.PluginError, match=f"'broken' .*failed with {error}: .*badly written.*{NOTHING} Tell"
    ) as failed:
        view.broken("age", error=error, epsilon=1)

    assert error == type(failed.value.__cause__).__name__
    assert 0 == view.budget.spent


@pytest.mark.parametrize(("error", "kind"), [("ValueError", dp.PluginError), ("ArgumentError", dp.ArgumentError)])
def test_a_plugin_that_fails_after_it_measured_keeps_its_charge(error, kind):
    """What was measured stays charged, whatever the plugin raises, and the text says so."""
    view = protect()

    with pytest.raises(kind, match=r"Nothing was released; its measurements stay charged: epsilon 1\.") as failed:
        view.broken("age", when="after", error=error, epsilon=1)

    assert NOTHING not in str(failed.value)
    assert 1 == view.budget.spent
    assert 0 == len(view.releases)


@pytest.mark.parametrize("what", ["set", "keys", "complex", "object", "dollar"])
def test_a_result_that_cannot_be_kept_is_the_plugins_error(what):
    """A result that is no JSON is refused with a `PluginError`; its charge stays."""
    view = protect()

    with pytest.raises(dp.PluginError, match=r"'strange' .*TypeError.*stay charged: epsilon 1"):
        view.strange("age", what=what, epsilon=1)

    assert 1 == view.budget.spent
    assert 0 == len(view.releases)


def test_an_interrupt_is_not_swallowed():
    """Ctrl-C during a call stops it; what was charged stays charged."""
    view = protect()

    def interrupt():
        raise KeyboardInterrupt

    HOOKS["interrupt"] = interrupt

    with pytest.raises(KeyboardInterrupt):
        view.twice("age", first=0.5, between="interrupt", epsilon=1)

    assert Fraction(1, 2) == view.budget.spent


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"columns": {"column": "number"}}, "'number'.*unknown"),
        ({"columns": {"colum": "numeric"}}, "no parameter"),
        ({"name": "not a name"}, "cannot be the name"),
        ({"name": "_hidden"}, "cannot be the name"),
    ],
)
def test_a_mechanism_that_is_marked_wrongly_is_refused(given, said):
    """What cannot become a method is refused where it is written."""

    def function(curator, column):
        "Nothing."

    with pytest.raises(dp.PluginError, match=said):
        dp.mechanism(**given)(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda: 1,
        lambda curator, *columns: 1,
        lambda curator, column, /: 1,
        lambda curator, epsilon: 1,
        lambda curator, fresh: 1,
    ],
)
def test_parameters_that_a_question_cannot_name_are_refused(function):
    """Every parameter needs a name of its own, and the price belongs to the core."""
    with pytest.raises(dp.PluginError):
        dp.mechanism(name="method")(function)


def test_columns_in_brackets_take_a_list():
    """A parameter whose kind is in brackets takes a list of columns, any other takes one."""
    view = protect(pd.DataFrame({**DATA, "x": 1.0}), bounds={"age": (18, 90), "x": (0, 5)})

    assert ["age", "x"] == view.several(["age", "x"], epsilon=1).value
    assert ["x"] == view.several(("x",), by=None, epsilon=1).value
    for wrong in ("age", None, 5):
        with pytest.raises(dp.SchemaError, match="takes a list of columns"):
            view.several(wrong, epsilon=1)
    for wrong in (["age"], None, 5):
        with pytest.raises(dp.SchemaError, match="named by a string"):
            view.average(wrong, epsilon=1)


def test_columns_of_either_kind_are_one_or_several():
    """A parameter of kind "columns" takes one name or a list, each with bounds or categories."""

    @dp.mechanism(columns={"names": "columns"})
    def pick(curator, names):
        """Name columns."""

    schema = protect(
        pd.DataFrame({**DATA, "x": 1.0, "g": "a"}), bounds={"x": (0, 5)}, categories={"g": ["a"]}
    ).schema

    for given, expected in (("x", ["x"]), ("g", ["g"]), (["g", "x"], ["g", "x"])):
        found = pick.resolve(schema, {"names": given})
        assert expected == [column.name for column in found["names"]]
    with pytest.raises(dp.SchemaError, match="bounds"):
        pick.resolve(schema, {"names": "age"})


# Explanations


def test_explaining_costs_and_reads_nothing():
    """A plan names price, noise and what is left, without a charge and without a pass over the rows."""
    df = Watched(DATA)
    view = protect(df)
    before = df.passes

    plan = view.explain("twice", "age", first=0.25, epsilon=2)

    assert [0.5, 1.5] == [noise.epsilon for noise in plan.measurements]
    assert (2.0, 10.0) == (plan.epsilon, plan.largest)
    assert "can pay" in repr(plan)
    assert "nothing was charged or read" in repr(plan)
    assert "nothing was charged or read" in plan._repr_html_()
    assert before == df.passes
    assert 0 == view.budget.spent
    assert 0 == len(view.releases)


def test_a_method_may_have_a_parameter_called_method():
    """The name of the method to explain does not stand in the way of a parameter of the same name."""
    said = protect().explain("ttest", "age", popmean=40, method="naive", epsilon=1)

    assert "ttest" == said.method


def test_an_explanation_reads_public_columns_only():
    """The rows of private columns could be anything at all."""
    private = pl.col("age").map_batches(lambda _: 1 / 0, return_dtype=pl.Float64)
    df = pl.LazyFrame(DATA).with_columns(age=private)
    view = protect(df, public=["arm"])

    plan = view.where(arm="drug").explain("ttest", "age", popmean=30, epsilon=1)

    assert 1 == len(plan.measurements)
    assert any("smallest effect" in finding for finding in plan.findings)


def test_an_explanation_says_what_cannot_be_paid():
    """A plan beyond the budget is shown, with the verdict."""
    assert "CANNOT pay: the most it can pay at once is epsilon 10" in repr(
        protect().explain("average", "age", epsilon=11)
    )


def test_an_explanation_of_gaussian_noise_knows_its_budget():
    """With Gaussian noise, what can be paid at once is more than with Laplace noise, and is what is compared."""
    view = protect(epsilon=1, delta=1e-6)

    for price in ("0.9", "1", "1.1", "1.5"):
        plan = view.explain("gaussian", "age", epsilon=price, delta=1e-7)
        try:
            protect(name=f"copy {price}", epsilon=1, delta=1e-6).gaussian("age", epsilon=price, delta=1e-7)
            paid = "can pay"
        except dp.BudgetExceeded:
            paid = "CANNOT pay"

        assert paid in repr(plan), price


def test_an_explanation_is_quiet():
    """Planning on an empty table warns of nothing, whatever a mechanism computes from it."""
    view = protect(public=["arm"])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = view.group_by("smoker").explain("average", "age", epsilon=1)
        view.group_by("arm").average("age", epsilon=1)

    assert 1 == len(plan.measurements)


def test_explaining_a_broken_plugin_names_it():
    """A mechanism that fails before it measures is the plugin's error in a plan as well."""
    with pytest.raises(dp.PluginError, match=r"'broken' .*ValueError"):
        protect().explain("broken", "age", epsilon=1)


def test_a_broken_planner_is_the_plugins_error():
    """A planner that fails is reported like a mechanism that fails."""
    register_mechanism(average.plans(lambda curator, column, **_: {"x": 1 / 0}))

    with pytest.raises(dp.PluginError, match=f"ZeroDivisionError.*{NOTHING}"):
        _ = protect().explain("average", "age", epsilon=1).findings


def test_findings_are_worked_out_when_they_are_read():
    """A planner runs once, when its findings are first read, shown or copied, however long it takes."""
    calls = []
    register_mechanism(average.plans(lambda curator, column, **_: {"calls": calls.append(column) or len(calls)}))

    plan = protect().explain("average", "age", epsilon=1)
    before = len(calls)
    copy = pickle.loads(pickle.dumps(plan))  # noqa: S301 - made just now

    assert (0, 1) == (before, len(calls))
    assert {"calls": 1} == plan.findings == copy.findings
    assert "calls: 1" in repr(copy)


# The hook, threads


def test_the_hook_hears_every_new_release_once(log):
    """`dfprivacy_released` is called for a new answer, and not for a replay, a plan or a refusal."""
    view = protect()

    view.average("age", epsilon=1)
    view.average("age", epsilon=1)
    view.group_by("arm").average("age", epsilon=2)
    view.explain("average", "age", epsilon=3)
    with pytest.raises(dp.PluginError):
        view.broken("age", when="after", epsilon=4)

    assert [("clinic", 1.0), ("clinic", 2.0)] == log


def test_two_threads_cannot_both_have_the_last_of_a_budget():
    """Of many threads that ask for all that is left, one gets it."""
    view = protect(epsilon=1)
    registry()
    start, answered, refused = threading.Barrier(8), [], []

    def ask(number):
        start.wait()
        try:
            answered.append(view.average("age", scale=float(number), epsilon=1, fresh=True))
        except dp.BudgetExceeded as error:
            refused.append(str(error))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (1, 7) == (len(answered), len(refused))
    assert all(NOTHING in text for text in refused)
    assert 1 == view.budget.spent


@every_frame
@pytest.mark.parametrize("where", ["file", "memory:"])
def test_threads_share_a_view(constructor, where):
    """Several threads ask one view different things, and each is charged for its own."""
    view = protect(
        constructor(DATA), name=f"threads on {where} {constructor}", ledger=None if where == "file" else where
    )
    answers = {}

    def ask(price):
        answers[price] = view.average("age", epsilon=price, fresh=True).privacy.epsilon

    threads = [threading.Thread(target=ask, args=(price,)) for price in (0.5, 1, 1.5, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {0.5: 0.5, 1: 1.0, 1.5: 1.5, 2: 2.0} == answers
    assert 5 == view.budget.spent


# Arguments that are prepared


def test_a_preparer_exchanges_arguments_before_the_question_is_written_down():
    """What the preparer gives is what is asked, kept and replayed; `explain` does without it."""
    seen = []

    @dp.mechanism(columns={"column": "numeric"})
    def shifted(curator, column, by=0):
        """The mean, plus something."""
        return curator.sum(dp.features.Moments(column, degree=1)).values[0] + by

    def prepare(curator, column, by=0):
        seen.append((curator.size, column.name))
        return {"by": 7} if by == "seven" else {}

    register_mechanism(shifted.prepares(prepare))
    try:
        view = protect()
        view.explain("shifted", "age", by=7, epsilon=1)
        assert [] == seen
        first = view.shifted("age", by="seven", epsilon=1)
        again = view.shifted("age", by=7, epsilon=1)
    finally:
        unregister("shifted")

    assert first == again
    assert again.privacy.replayed
    assert 1 == view.budget.spent
    assert [(view.schema.size, "age")] * 2 == seen


def test_a_preparer_that_fails_is_a_plugins_failure():
    """Nothing is charged, and the authors are to be told."""

    @dp.mechanism(columns={"column": "numeric"})
    def failing(curator, column):
        """The mean."""
        return curator.sum(dp.features.Moments(column, degree=1)).values[0]

    def prepare(curator, column):
        raise ValueError("no such thing")

    register_mechanism(failing.prepares(prepare))
    try:
        view = protect()
        with pytest.raises(dp.PluginError, match="failed with ValueError"):
            view.failing("age", epsilon=1)
    finally:
        unregister("failing")

    assert 0 == view.budget.spent
