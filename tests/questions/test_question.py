"""From a call to a release: the charge before the rows, one answer to one question, and what fails half way."""

# ruff: noqa: PD011, SIM300 - no pandas here; expected == actual

from __future__ import annotations

import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy.testing import seeded_noise

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
        dp.register_mechanism(mechanism)
    yield
    for mechanism in MECHANISMS:
        dp.unregister(mechanism.name)
    HOOKS.clear()


# ---- the charge comes first -------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_charge_is_in_the_ledger_before_a_row_is_read(ledger, neighbors):
    """When the rows are opened for a measurement, another reader of the ledger's file sees its charge."""
    df = Watched(DATA)
    view = protect(df, neighbors=neighbors)
    seen = []
    df.at_pass = lambda: seen.append(
        [float(entry.epsilon) for entry in open_ledger(ledger).account("clinic").entries()]
    )

    view.twice("age", first=0.25, epsilon=2)

    assert [[0.5], [0.5, 1.5]] == seen


def test_a_frame_that_lost_a_column_keeps_its_charge():
    """Its text quotes nothing; queries that fail are in frames/test_engines.py."""
    df = pd.DataFrame(DATA)
    view = protect(df)
    del df["age"]

    with pytest.raises(dp.ReadError, match=r"what was charged stays charged\. The frame's custodian") as failed:
        view.average("age", epsilon=1)

    assert (1, 0) == (view.budget.spent, len(view.releases))
    assert failed.value.__cause__ is failed.value.__context__ is None


# Names, conditions and prices are in test_bad_input.py.
REFUSED = {
    "second": (dp.BudgetExceeded, "", lambda v: v.twice("age", first=0.1, epsilon=11)),
    "column": (dp.SchemaError, "", lambda v: v.average("agee", epsilon=1)),
    "budget": (dp.BudgetExceeded, "", lambda v: v.average("age", epsilon=11)),
    "where": (dp.ArgumentError, "", lambda v: v.where(age="x")),
    "explain": (dp.SchemaError, "", lambda v: v.explain("average", "agee", epsilon=1)),
    "plugin": (dp.PluginError, "'broken' .*failed with ValueError: .*badly written",
               lambda v: v.broken("age", epsilon=1)),
    "key error": (dp.PluginError, "failed with KeyError: .*badly written",
                  lambda v: v.broken("age", error="KeyError", epsilon=1)),
    "explain a broken one": (dp.PluginError, "'broken' .*ValueError",
                             lambda v: v.explain("broken", "age", epsilon=1)),
    "no delta": (dp.ArgumentError, "needs a delta above zero", lambda v: v.gaussian("age", epsilon=1)),
    **{f"share {share}": (dp.DPError, "", lambda v, share=share: v.twice("age", first=share, epsilon=1))
       for share in (0, -0.5, 1.5, 2, float("nan"), "x")},
    "one for several": (dp.SchemaError, "takes a list of columns", lambda v: v.several("age", epsilon=1)),
    "several for one": (dp.SchemaError, "named by a string", lambda v: v.average(["age"], epsilon=1)),
    "none for one": (dp.SchemaError, "", lambda v: v.average(None, epsilon=1)),
}  # fmt: skip


@pytest.mark.parametrize(("error", "said", "ask"), REFUSED.values(), ids=REFUSED)
def test_a_refused_question_reads_nothing(error, said, ask):
    """What is refused costs nothing and does not look at the rows."""
    df = Watched(DATA)
    view = protect(df)
    before = df.passes

    with pytest.raises(error, match=said or None) as refused:
        ask(view)

    assert NOTHING in str(refused.value)
    assert before == df.passes
    assert 0 == view.budget.spent


# ---- answers are kept -------------------------------------------------------------------------------------


def test_a_replayed_answer_reads_no_row():
    """A replay says so, with its date, and does not notice that the rows changed; a new question does."""
    df = pd.DataFrame(DATA)
    view = protect(df)
    first = view.average("age", epsilon=0.5)
    df.loc[200] = df.loc[0]

    again = view.average("age", epsilon=0.5)
    with pytest.raises(dp.ReadError, match="protected with 200 rows and now has another number"):
        view.average("age", epsilon=0.75)

    assert (first.value, first.privacy.at) == (again.value, again.privacy.at)
    assert (False, True) == (first.privacy.replayed, again.privacy.replayed)
    assert f"answered on {first.privacy.at} and replayed at no charge" in repr(again)
    assert 1 == len(view.releases)


def asked(view, **said):
    return view.average("age", **{"epsilon": 0.5, **said})


SAME = {
    "default written out": lambda view: asked(view, scale=1.0, option=None),
    "by name": lambda view: view.average(column="age", epsilon=0.5),
    "exact": lambda view: asked(view, epsilon="1/2"),
    "fraction": lambda view: asked(view, epsilon=Fraction(1, 2)),
    "numpy": lambda view: asked(view, scale=np.float64(1), epsilon=np.float32(0.5)),
    "integer": lambda view: asked(view, scale=1),
    "default epsilon": lambda view: view.average("age"),
    "selection": lambda view: asked(view.select("age", "arm")),
    "protected again": lambda _: asked(protect(default_epsilon=0.5)),
    "other table, same account": lambda _: asked(protect(pl.DataFrame(DATA))),
    "other bounds elsewhere": lambda _: asked(
        protect(pd.DataFrame({**DATA, "x": 1.0}), bounds={"age": (18, 90), "x": (0, 5)})
    ),
}
OTHER = {
    "argument": lambda view: asked(view, scale=2.0),
    "kind of argument": lambda view: asked(view, option=True),
    "epsilon": lambda view: asked(view, epsilon=0.75),
    "rest": lambda view: asked(view, epsilon="rest"),
    "mechanism": lambda view: view.twice("age", first="1/2", epsilon=0.5),
    "fresh": lambda view: asked(view, fresh=True),
    "where": lambda view: asked(view.where(age=(18, 90))),
    "group": lambda view: asked(view.group_by("arm")),
    "bounds": lambda _: asked(protect(bounds={"age": (18, 91)})),
    "fill": lambda _: asked(protect(missing={"age": 30})),
    "rows": lambda _: asked(protect(pd.DataFrame(DATA).head(199))),
}


@pytest.mark.parametrize("case", [*SAME, *OTHER])
def test_what_was_asked_counts_not_how_it_was_written(case):
    """The same question in other words is free; whatever could change the answer makes another one."""
    view = protect(default_epsilon=0.5)
    first = asked(view)

    again = {**SAME, **OTHER}[case](view)

    assert (case in SAME) == again.privacy.replayed
    assert case in OTHER or first.value == again.value
    assert 0.5 + (again.privacy.epsilon if case in OTHER else 0) == view.budget.spent
    assert 1 + (case in OTHER) == len(view.releases)
    assert first.privacy.at <= again.privacy.at


def test_another_version_of_a_mechanism_is_another_question():
    """A mechanism whose code changed answers anew."""
    view = protect()
    asked(view)

    @dp.mechanism(name="average", columns={"column": "numeric"})
    def changed(curator, column, *, scale=1.0, option=None):
        "Something else."
        return float(curator.sum(features.Moments(column, degree=1)).values[0])

    dp.register_mechanism(changed)

    assert not asked(view).privacy.replayed


NEVER = {
    "a function": lambda view, at: view.where(lambda row: row["age"] > 30).average("age", epsilon=0.5),
    "an object": lambda view, at: view.average("age", option=object(), epsilon=0.5, fresh=True),
    "1 and True": lambda view, at: view.average("age", option=[1, True][at], epsilon=0.5),
    "fresh": lambda view, at: view.average("age", epsilon=0.5, fresh=True),
}


@pytest.mark.parametrize("case", NEVER)
def test_what_is_never_replayed(case):
    """A condition or argument that cannot be written down, equal values of two types, and what is fresh."""
    view = protect()

    answers = [NEVER[case](view, at) for at in range(2)]

    assert [False, False] == [answer.privacy.replayed for answer in answers]
    assert (0.5 if case == "1 and True" else 1, 2) == (view.budget.spent, len(view.releases))  # the same sum
    if case == "fresh":
        again = view.average("age", epsilon=0.5)
        assert answers[0].value != answers[1].value == again.value


def test_test_noise_is_never_replayed_as_an_answer():
    """An answer made with seeded noise is not given to somebody who asks for a private one."""
    view = protect()
    with seeded_noise(1):
        seeded = view.average("age", epsilon=0.5)

    released = view.average("age", epsilon=0.5)

    assert (False, True) == (seeded.privacy.private, released.privacy.private)
    assert not released.privacy.replayed
    assert "NOT PRIVATE" in repr(seeded)


# ---- prices -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("terms", [{}, {"delta": 1e-6}], ids=str)
def test_the_rest_is_all_that_is_left(terms):
    """``epsilon="rest"`` spends all that is left, to the last digit; asking again replays it."""
    view = protect(epsilon=1, **terms)
    ask = view.gaussian if terms else view.average
    if not terms:
        ask("age", epsilon="1/3")

    rest, again = ask("age", epsilon="rest"), ask("age", epsilon="rest")

    assert rest.to_dict()["value"] == again.to_dict()["value"]
    assert again.privacy.replayed
    assert 2 - bool(terms) == len(view.releases)
    if not terms:
        assert (float(Fraction(2, 3)), 1, 0) == (rest.privacy.epsilon, view.budget.spent, view.budget.remaining)
        for asked in (view.average, lambda *a, **k: view.explain("average", *a, **k)):
            with pytest.raises(dp.BudgetExceeded, match=r"Nothing is left of the budget of 'clinic'\. Nothing was"):
                asked("age", scale=2.0, epsilon="rest")


def test_prices_that_are_not_named():
    """A table's default epsilon is paid, and delta in proportion; a delta that is named is the one that is paid."""
    view = protect(default_epsilon="1/4")
    assert 0.25 == view.average("age").privacy.epsilon == view.where(smoker="no").average("age").privacy.epsilon
    view = protect(name="delta", epsilon=10, delta=1e-6, accounting="basic")
    released, named = view.gaussian("age", epsilon=2.5), view.gaussian("age", epsilon=1, delta=7e-7, fresh=True)
    with pytest.raises(dp.BudgetExceeded):
        view.gaussian("age", epsilon=1, delta=2e-7, fresh=True)

    assert (pytest.approx(2.5e-7), 7e-7) == (released.privacy.delta, named.privacy.delta)
    assert "discrete Gaussian" == released.privacy.noise[0].kind
    assert 3.5 == view.budget.spent


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
    assert f"Nothing was released; the call's measurements stay charged: epsilon {spent:g}." in str(refused.value)
    assert "add up to at most 1" in refused.value.hint
    assert float(shares[0] or 1) == spent


def test_a_call_must_be_affordable_and_says_what_it_paid():
    """A call is refused before its first measurement; if others spend meanwhile, the first stays charged."""
    view = protect(epsilon=1)
    view.average("age", epsilon=0.25)
    with pytest.raises(dp.BudgetExceeded, match=r"epsilon = 0\.8.*Nothing was released or spent"):
        view.twice("age", first="1/8", epsilon=0.8)
    assert Fraction(1, 4) == view.budget.spent

    HOOKS["other"] = lambda: view.average("age", epsilon="rest")
    with pytest.raises(dp.BudgetExceeded, match=r"the call's measurements stay charged: epsilon 0\.25"):
        view.twice("age", first="1/3", between="other", epsilon=0.75)
    assert (1, 2) == (view.budget.spent, len(view.releases))


# ---- plugins that fail ------------------------------------------------------------------------------------

FAILS = {
    "after": (dp.PluginError, "ValueError", lambda v: v.broken("age", when="after", epsilon=1)),
    "in our way": (dp.ArgumentError, "badly written",
                   lambda v: v.broken("age", when="after", error="ArgumentError", epsilon=1)),
    **{what: (dp.PluginError, "'strange' .*TypeError", lambda v, what=what: v.strange("age", what=what, epsilon=1))
       for what in ("set", "keys", "complex", "object", "dollar")},
}  # fmt: skip


@pytest.mark.parametrize(("kind", "said", "ask"), FAILS.values(), ids=FAILS)
def test_a_plugin_that_fails_after_it_measured_keeps_its_charge(kind, said, ask):
    """Whatever it raises, and what no ledger can keep."""
    view = protect()

    with pytest.raises(kind, match=rf"{said}.*the call's measurements stay charged: epsilon 1\.") as failed:
        ask(view)

    assert NOTHING not in str(failed.value)
    assert (1, 0) == (view.budget.spent, len(view.releases))


def test_an_interrupt_is_not_swallowed():
    """Ctrl-C during a call stops it; what was charged stays charged."""
    view = protect()

    def interrupt():
        raise KeyboardInterrupt

    HOOKS["interrupt"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        view.twice("age", first=0.5, between="interrupt", epsilon=1)

    assert Fraction(1, 2) == view.budget.spent


WRONG = [
    ({"columns": {"column": "number"}}, lambda curator, column: 1, "unknown kind 'number'"),
    ({"columns": {"colum": "numeric"}}, lambda curator, column: 1, "has no parameter"),
    ({"name": "not a name"}, lambda curator, column: 1, "cannot be the name"),
    ({"name": "_hidden"}, lambda curator, column: 1, "cannot be the name"),
    ({}, lambda: 1, None),
    ({}, lambda curator, *columns: 1, None),
    ({}, lambda curator, column, /: 1, None),
    ({}, lambda curator, epsilon: 1, None),
    ({}, lambda curator, fresh: 1, None),
]


@pytest.mark.parametrize(("given", "function", "said"), WRONG)
def test_a_mechanism_that_is_marked_wrongly_is_refused(given, function, said):
    """What cannot become a method, or has a parameter that no question can name, is refused where it is written."""
    with pytest.raises(dp.PluginError, match=said):
        dp.mechanism(**{"name": "method", **given})(function)


def test_columns_are_one_or_several():
    """A kind in brackets takes a list of columns, any other one; "columns" either, with bounds or categories."""

    @dp.mechanism(columns={"names": "columns"})
    def pick(curator, names):
        """Name columns."""

    view = protect(
        pd.DataFrame({**DATA, "x": 1.0, "g": "a"}), bounds={"age": (18, 90), "x": (0, 5)}, categories={"g": ["a"]}
    )
    bare = protect(pd.DataFrame(DATA), "bare", bounds={}).schema

    assert ["age", "x"] == view.several(["age", "x"], epsilon=1).value
    assert ["x"] == view.several(("x",), by=None, epsilon=1).value
    for given, expected in (("x", ["x"]), ("g", ["g"]), (["g", "x"], ["g", "x"])):
        found = pick.resolve(view.schema, {"names": given})
        assert expected == [column.name for column in found["names"]]
    with pytest.raises(dp.SchemaError, match="bounds"):
        pick.resolve(bare, {"names": "age"})


# ---- explanations -----------------------------------------------------------------------------------------


def test_explaining_costs_and_reads_nothing():
    """A plan names price, noise and what is left, reads no private row, and warns of nothing."""
    private = pl.col("age").map_batches(lambda _: 1 / 0, return_dtype=pl.Float64)
    view = protect(pl.LazyFrame(DATA).with_columns(age=private), public=["arm"])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = view.explain("twice", "age", first=0.25, epsilon=2)
        view.group_by("smoker").explain("average", "age", epsilon=1)
        part = view.where(arm="drug").explain("ttest", "age", popmean=40, method="naive", epsilon=1)

    assert [0.5, 1.5] == [noise.epsilon for noise in plan.measurements]
    assert (2.0, 10.0, "ttest", 1) == (plan.epsilon, plan.largest, part.method, len(part.measurements))
    assert any("smallest effect" in finding for finding in part.findings)
    assert "can pay" in repr(plan)
    assert all("nothing was charged or read" in said for said in (repr(plan), plan._repr_html_()))
    assert (0, 0) == (view.budget.spent, len(view.releases))
    assert "CANNOT pay: the most it can pay at once is epsilon 10" in repr(
        view.explain("average", "age", epsilon=11)
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


def test_findings_are_worked_out_when_they_are_read():
    """A planner runs once, when findings are first read, shown or copied; its failure is the plugin's error."""
    calls = []
    dp.register_mechanism(average.plans(lambda curator, column, **_: {"calls": calls.append(column) or len(calls)}))

    plan = protect().explain("average", "age", epsilon=1)
    before = len(calls)
    copy = pickle.loads(pickle.dumps(plan))  # noqa: S301 - made just now

    assert (0, 1) == (before, len(calls))
    assert {"calls": 1} == plan.findings == copy.findings
    assert "calls: 1" in repr(copy)
    dp.register_mechanism(average.plans(lambda curator, column, **_: {"x": 1 / 0}))
    with pytest.raises(dp.PluginError, match=f"ZeroDivisionError.*{NOTHING}"):
        _ = protect().explain("average", "age", epsilon=1).findings


# ---- the hook, threads, preparers -------------------------------------------------------------------------


def test_the_hook_hears_every_new_release_once():
    """`dfprivacy_released` is called for a new answer, and not for a replay, a plan or a refusal."""
    heard = []

    class Log:
        @dp.hookimpl
        def dfprivacy_released(self, release, account):
            heard.append((account, release.privacy.epsilon))

    dp.register(Log())
    try:
        view = protect()
        view.average("age", epsilon=1)
        view.average("age", epsilon=1)
        view.group_by("arm").average("age", epsilon=2)
        view.explain("average", "age", epsilon=3)
        with pytest.raises(dp.PluginError):
            view.broken("age", when="after", epsilon=4)
    finally:
        dp.unregister("Log")

    assert [("clinic", 1.0), ("clinic", 2.0)] == heard


@pytest.mark.parametrize("where", ["file", "memory:"])
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.LazyFrame])
def test_two_threads_cannot_both_have_the_last_of_a_budget(frame, where, tmp_path):
    """Of many threads that ask one view for all that is left, one gets it; the others are told that none is."""
    view = protect(frame(DATA), epsilon=1, ledger=tmp_path / "ledger.sqlite" if where == "file" else where)
    view.explain("average", "age", epsilon=1)
    start, answered, refused = threading.Barrier(8), [], []

    def ask(number):
        start.wait()
        try:
            answered.append(asked(view, scale=float(number), epsilon=1, fresh=True))
        except dp.BudgetExceeded as error:
            refused.append(str(error))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ask, range(8)))

    assert (1, 7) == (len(answered), len(refused))
    assert all(NOTHING in text for text in refused)
    assert 1 == view.budget.spent


def test_a_preparer_exchanges_arguments_before_the_question_is_written_down():
    """What it gives is what is asked and replayed; `explain` does without it; if it fails, nothing is charged."""
    seen = []

    @dp.mechanism(columns={"column": "numeric"})
    def shifted(curator, column, by=0):
        """The mean, plus something."""
        return curator.sum(dp.features.Moments(column, degree=1)).values[0] + by

    def prepare(curator, column, by=0):
        seen.append((curator.size, column.name))
        return {"by": 14 // by if isinstance(by, int) else 7}

    dp.register_mechanism(shifted.prepares(prepare))
    try:
        view = protect()
        view.explain("shifted", "age", by=7, epsilon=1)
        assert [] == seen
        first = view.shifted("age", by="seven", epsilon=1)
        again = view.shifted("age", by=2, epsilon=1)
        with pytest.raises(dp.PluginError, match="failed with ZeroDivisionError"):
            view.shifted("age", by=0, epsilon=1)
    finally:
        dp.unregister("shifted")

    assert first == again
    assert again.privacy.replayed
    assert 1 == view.budget.spent
    assert [(view.schema.size, "age")] * 3 == seen


def test_a_delta_is_explained_where_one_would_be_charged():
    """A method that takes a delta, and measures without one here, is explained without."""
    rows = pd.DataFrame({"x": np.arange(200) % 7, "g": ["a", "b"] * 100})
    terms = {"bounds": {"x": (0, 6)}, "categories": {"g": ["a", "b"]}, "public": ["g"], "ledger": "memory:"}
    view = dp.protect(rows, "explained delta", epsilon=9, delta=1e-5, **terms)

    assert view.explain("kernel_two_sample", ["x"], by="g", method="mmd", epsilon=1).delta == 0
    assert view.explain("kme_release", ["x"], epsilon=1).delta > 0
    assert view.kernel_two_sample(["x"], by="g", method="mmd", epsilon=1).privacy.delta == 0
