"""Bad input of every kind: a clear error before any charge, that says what happened and what to do.

No error quotes a value of the data: values planted in the table are searched for in every text.
"""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import re
import traceback
from datetime import date
from decimal import Decimal
from fractions import Fraction
from math import inf, nan

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._plugins.loader import register_mechanism, unregister
from dfprivacy.errors import (
    ArgumentError,
    BudgetExceeded,
    DPError,
    LedgerError,
    PluginError,
    ReadError,
    SchemaError,
)
from dfprivacy.schema import chosen_groups

pytestmark = pytest.mark.pandas

CANARIES = ("CANARY", "987654")
DATA = {
    "age": [987654.25, 31.0, 45.0, 28.0] * 50, "smoker": ["CANARY-TEXT", "yes", "no", "no"] * 50,
    "diagnosis": ["CANARY-TEXT"] * 200, "income": [987654.321] * 200, "arm": ["drug", "placebo"] * 100,
    "rating": [1, 2, 3, 4] * 50,
}  # fmt: skip
TERMS = {
    "epsilon": 10, "delta": 1e-6, "bounds": {"age": (18, 90), "rating": (1, 4)},
    "categories": {"smoker": ["yes", "no"], "arm": ["drug", "placebo"], "rating": [1, 2, 3, 4]},
    "public": ["arm"],
}  # fmt: skip
NAMES = re.escape(repr(list(DATA)))


@dp.mechanism(columns={"column": "numeric"})
def crashes(curator, column):
    "Fails before it measures."
    raise RuntimeError("a bug")


@dp.mechanism(columns={"by": "category"})
def least_of_three(curator, by):
    "Looks at the sizes of groups."
    return None if curator.sizes(by, least=3) is None else "public"


@pytest.fixture(autouse=True)
def mechanism():
    for each in (crashes, least_of_three):
        register_mechanism(each)
    yield
    for each in (crashes, least_of_three):
        unregister(each.name)


# What happened says at times what to do.
TOLD = re.compile("must|takes|need|named by|may hold|is a pair|outside the bounds|too far apart")


def refused(call, kind, what, hint=""):
    """Call something that must be refused; check the three parts of the text, and that it tells no value."""
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    shown = "".join(traceback.format_exception_only(error)) + repr(error)
    shown += repr(error.__cause__) + ("" if error.__suppress_context__ else repr(error.__context__))

    assert kind is type(error)
    assert re.search(what, error.what)
    assert DPError.outcome == "Nothing was released or spent."
    assert f" {DPError.outcome}" in str(error)
    assert re.search(hint, error.hint)
    assert error.hint or TOLD.search(error.what)
    assert not [canary for canary in CANARIES if canary in shown]


# What a table cannot be protected with

NUMBER = "Give a number"
TODAY = date(2020, 1, 2)
HUGE = 10**5000  # more digits than Python writes out

BAD_TERMS = [
    ({"epsilon": 0}, ArgumentError, "epsilon=0 must be a number from 1e-09", "Typical"),
    ({"epsilon": -1.5}, ArgumentError, r"epsilon=-1\.5 must be a number from 1e-09", "Typical"),
    ({"epsilon": nan}, ArgumentError, "epsilon=nan is not a finite number", NUMBER),
    ({"epsilon": inf}, ArgumentError, "epsilon=inf is not a finite number", NUMBER),
    ({"epsilon": "a lot"}, ArgumentError, "epsilon='a lot' is not a finite number", NUMBER),
    ({"epsilon": "x" * 9999}, ArgumentError, "^epsilon='x{40}' has too many digits", NUMBER),
    ({"epsilon": True}, ArgumentError, "epsilon=True is not a finite number", NUMBER),
    ({"epsilon": None}, ArgumentError, "needs a total budget", "epsilon=1"),
    ({"epsilon": b"1"}, ArgumentError, "of type bytes", NUMBER),
    ({"epsilon": [1]}, ArgumentError, "of type list", NUMBER),
    ({"epsilon": np.array([1.0, 2.0])}, ArgumentError, "of type ndarray", NUMBER),
    ({"epsilon": pd.Series(DATA["age"])}, ArgumentError, "of type Series", NUMBER),
    ({"epsilon": 10**400}, ArgumentError, "of type int.* must be a number from 1e-09 to 1000000", ""),
    ({"epsilon": HUGE}, ArgumentError, "epsilon .* has too many digits", NUMBER),
    ({"epsilon": 5e-324}, ArgumentError, "epsilon=5e-324 must be a number from 1e-09", "Typical"),
    ({"epsilon": Decimal("1e-999")}, ArgumentError, "epsilon .* must be a number from 1e-09", "Typical"),
    ({"epsilon": Fraction(10**400 + 1, 10**400)}, ArgumentError, "too many digits", NUMBER),
    ({"delta": "1e-400"}, ArgumentError, "delta has too many digits", NUMBER),
    ({"epsilon": "1/0"}, ArgumentError, "is not a finite number", NUMBER),
    ({"epsilon": "rest"}, ArgumentError, "epsilon='rest' is not a finite number", NUMBER),
    ({"default_epsilon": 0}, ArgumentError, "default_epsilon=0 must be a number from 1e-09", "Typical"),
    ({"delta": 1}, ArgumentError, "delta=1 must be at least 0 and below 1", "Typical"),
    ({"delta": -1e-9}, ArgumentError, "delta=-1e-09 must be at least 0", "Typical"),
    ({"delta": nan}, ArgumentError, "delta=nan is not a finite number", NUMBER),
    ({"name": ""}, ArgumentError, "must be a string that is not empty", "For example"),
    ({"name": None}, ArgumentError, "it is of type NoneType", "For example"),
    ({"name": "x" * 100_000}, ArgumentError, "not a short printable text", "1 to 200 printable"),
    ({"name": "two\nlines"}, ArgumentError, "not a short printable text", "1 to 200 printable"),
    ({"name": "\ud800"}, ArgumentError, "not a short printable text", "1 to 200 printable"),
    ({"name": pd.DataFrame(DATA)}, ArgumentError, "of type DataFrame", "For example"),
    ({"bounds": {"age": (90, 18)}}, SchemaError, r"bounds\['age'\] = \(90, 18\)", "low < high"),
    ({"bounds": {"age": (0, inf)}}, SchemaError, "must be a finite number", ""),
    ({"bounds": {"age": ("a", "b")}}, SchemaError, "must be a finite number", ""),
    ({"bounds": {"age": (1,)}}, SchemaError, "must be a pair", ""),
    ({"bounds": {"age": 5}}, SchemaError, "must be a pair", ""),
    ({"bounds": {"age": (-1e308, 1.7e308)}}, SchemaError, "too far apart", ""),
    ({"bounds": {"agee": (0, 1)}}, SchemaError, "'agee' that the table lacks", NAMES),
    ({"bounds": [("age", 0, 1)]}, SchemaError, "takes a dictionary", ""),
    ({"bounds": pd.DataFrame(DATA)}, SchemaError, "not DataFrame", ""),
    ({"categories": {"smoker": []}}, SchemaError, "must list at least one value", ""),
    ({"categories": {"smoker": ["a", "a"]}}, SchemaError, "each value once", ""),
    ({"categories": {"smoker": "yes"}}, SchemaError, "must be a list", ""),
    ({"categories": {"age": pd.Series(DATA["age"])}}, SchemaError, "must be a list", ""),
    ({"categories": {"smoker": [None]}}, SchemaError, "not the value=None", "missing values"),
    ({"categories": {"smoke": ["a"]}}, SchemaError, "'smoke' that the table lacks", NAMES),
    ({"public": ["arms"]}, SchemaError, "'arms' that the table lacks", NAMES),
    ({"public": "arm"}, SchemaError, "takes a list", r"\['arm'\]"),
    ({"neighbors": "add_remove"}, SchemaError, "public columns need", ""),
    ({"neighbors": "replace"}, SchemaError, "neighbors='replace' is unknown", "replace_one"),
    ({"accounting": "moments"}, ArgumentError, "'moments' is not an accounting method", "portfolio"),
    ({"accounting": []}, ArgumentError, "accounting= must be a string, not list", "portfolio"),
    ({"accounting": "rdp", "delta": 0}, ArgumentError, "needs a delta", "basic"),
    ({"missing": {"age": 200}}, SchemaError, "outside the bounds", ""),
    ({"missing": {"agee": 20}}, SchemaError, "'agee' that the table lacks", NAMES),
    ({"missing": {"income": 20}}, SchemaError, "cannot be used", "A column with bounds"),
    ({"ledger": 5}, LedgerError, "not int", "For example ledger="),
    ({"ledger": b"x"}, LedgerError, "not bytes", "For example ledger="),
    ({"ledger": "/"}, LedgerError, "is a folder", "Name a file"),
    ({"ledger": "no/such/folder/l.sqlite"}, LedgerError, "does not exist", "Name a file"),
    ({"ledger": "nosql://x"}, LedgerError, "not a database", "another ledger"),
    *(({"ledger": path}, LedgerError, "path|folder", "ledger|file")
      for path in ("a\0b", "x" * 5000, "~nobody-of-this-name/l.sqlite")),
    *(({"bounds": {"age": pair}}, SchemaError, "age", "")
      for pair in ((0,), (), ("0", "1"), {0: 1}, (None, 1), (0, 10**400), (0, 1e-310), (TODAY, date(2020, 1, 1)))),
    *(({"categories": {"arm": known}}, SchemaError, "arm", "")
      for known in (7, [1, True], [1, 1.0], [0, False], [0.0, -0.0], [2**53, 2**53 + 1], [nan], [inf], [["a"]],
                    [b"a"], [10**400], [Decimal(1)], [TODAY], {"a", "b"})),
    *(({"missing": missing}, SchemaError, "missing", "")
      for missing in (1, {"income": "other"}, {"age": 17.9}, {"age": nan}, {"age": "0"}, {"arm": 0})),
]  # fmt: skip


def protect(df, **terms):
    terms = {"name": "clinic", **TERMS, **terms}
    return dp.protect(df, terms.pop("name"), **terms)


@pytest.mark.parametrize(("terms", "kind", "what", "hint"), BAD_TERMS)
def test_terms_that_cannot_be_used(terms, kind, what, hint, ledger):
    """What cannot be said of a table is refused, opens no account, and leaves the frame unprotected."""
    df = pd.DataFrame(DATA)

    refused(lambda: protect(df, **terms), kind, what, hint)

    assert not hasattr(df.dp, "view")
    assert not ledger.exists() or [] == open_ledger(ledger).accounts()


@pytest.mark.parametrize("epsilon", [
    Decimal("5e-1"), 0.5, np.float64(0.5), np.float32(0.5), np.float16(0.5), "0.5", "1/2", Fraction(1, 2),
], ids=repr)  # fmt: skip
def test_every_kind_of_number_is_a_price(epsilon):
    """Python's and NumPy's numbers, decimals, fractions and exact texts all mean the same."""
    view = protect(pd.DataFrame(DATA), epsilon=epsilon, delta=0, default_epsilon=epsilon)

    released = view.ttest("age", popmean=30, epsilon=epsilon)

    assert Fraction(1, 2) == view.budget.epsilon == view.budget.spent
    assert 0.5 == released.privacy.epsilon


BAD_TABLES = [
    (lambda: 5, ArgumentError, "an object of type int", "Pass a DataFrame of pandas"),
    (lambda: None, ArgumentError, "an object of type NoneType", "Pass a DataFrame of pandas"),
    (lambda: np.array(DATA["age"]), ArgumentError, "an object of type ndarray", "Pass a DataFrame of pandas"),
    (lambda: pd.DataFrame, ArgumentError, "type", "Pass a"),
    (lambda: pd.Series(DATA["age"]), ArgumentError, "Series", "Pass a"),
    (lambda: pl.Series(DATA["age"]), ArgumentError, "Series", "Pass a"),
    (lambda: pl.DataFrame(DATA).group_by("arm"), ArgumentError, "GroupBy", "Pass a"),
    (lambda: pd.DataFrame(DATA).head(0), SchemaError, "no rows", "at least one row"),
    (lambda: pl.DataFrame(DATA).head(0), SchemaError, "no rows", "at least one row"),
    (lambda: pl.LazyFrame(DATA).head(0), SchemaError, "no rows", "at least one row"),
    (pd.DataFrame, SchemaError, "no rows", "at least one row"),
    (lambda: pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]), SchemaError,
     r"Columns \['a'\] appear more than once", "its own name"),
    (lambda: pl.scan_parquet("/no/such/file"), ReadError, "Reading the rows", "custodian"),
    (lambda: pl.LazyFrame(DATA).select("x"), ReadError, "Reading the rows", "custodian"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "kind", "what", "hint"), BAD_TABLES)
def test_tables_that_cannot_be_used(make, kind, what, hint, ledger):
    """What is no table, or has no rows, or two columns of one name, is refused and opens no account."""
    refused(lambda: dp.protect(make(), "clinic", epsilon=1), kind, what, hint)

    assert not ledger.exists()


# What a view cannot be asked


def ttest(*args, **kwargs):
    return lambda view: view.ttest(*args, **{"epsilon": 1, **kwargs})


def two(**kwargs):
    return ttest("age", **{"by": "smoker", **kwargs})


def one(**kwargs):
    return ttest("age", **{"popmean": 30, **kwargs})


IT_IS_CALLED = r"It is called ttest\(column, by=None, \*, weights=None, groups=None, queries='jointly', "

BAD_QUESTIONS = [
    (one(epsilon=0), ArgumentError, "epsilon=0 must be a number from 1e-09", "Typical"),
    (one(epsilon="all"), ArgumentError, "epsilon='all' is not a finite number", NUMBER),
    (one(epsilon=1e-300), ArgumentError, "must be a number from 1e-09", "Typical"),
    (one(epsilon=pl.Series(DATA["age"])), ArgumentError, "of type Series", NUMBER),
    (one(epsilon=None), ArgumentError, "No epsilon was given", "epsilon=0.1"),
    (one(epsilon=12), BudgetExceeded, "asks for epsilon = 12", "Ask "),
    (one(delta=1e-7), ArgumentError, "unexpected keyword argument 'delta'", IT_IS_CALLED),
    (one(popmena=30), ArgumentError, "unexpected keyword argument 'popmena'", IT_IS_CALLED),
    (ttest("age", "smoker", 30), ArgumentError, "too many positional", "by name: ttest.*popmean=30"),
    (ttest("age", 30), SchemaError, "named by a string, not by int", "or write popmean=30"),
    (one(column="age"), ArgumentError, "multiple values for argument", IT_IS_CALLED),
    (ttest(popmean=30), ArgumentError, "missing a required argument: 'column'", IT_IS_CALLED),
    (ttest("agee", popmean=30), SchemaError, "no column 'agee'", NAMES),
    (ttest(None, popmean=30), SchemaError, "named by a string, not by NoneType", ""),
    (ttest(pd.Series(DATA["age"]), popmean=30), ArgumentError, "column is a Series", "Pass the name"),
    (ttest(pl.col("age"), popmean=30), SchemaError, "named by a string, not by Expr", ""),
    (ttest("income", popmean=30), SchemaError, "'income' has no bounds", "bounds={'income'"),
    (ttest("diagnosis"), SchemaError, "'diagnosis' has no bounds", "bounds={'diagnosis'"),
    (ttest("smoker", popmean=30), SchemaError, "'smoker' is categorical", "bounds={'smoker'"),
    (two(by="income"), SchemaError, "'income' has no categories", "categories={'income'"),
    (two(by="age"), SchemaError, "'age' has no categories", "categories={'age'"),
    (two(by="smokers"), SchemaError, "no column 'smokers'", NAMES),
    (two(by=["smoker"]), SchemaError, "named by a string, not by list", ""),
    (two(by=pd.Series(DATA["smoker"])), ArgumentError, "by is a Series", "Pass the name"),
    (two(groups=("yes", "maybe")), SchemaError, "'maybe' is not a category", r"\['yes', 'no'\]"),
    (two(groups=("yes", None)), SchemaError, "None is not a category", r"\['yes', 'no'\]"),
    (two(groups=("yes",)), ArgumentError, "compares two groups", "Name different"),
    (two(groups=("no", "no")), ArgumentError, "compares two groups", "Name different"),
    (two(by="rating"), ArgumentError, "compares two groups", "Name different"),
    (two(groups="no"), ArgumentError, "compares two groups", "Name different"),
    (two(groups=5), ArgumentError, "compares two groups", "Name different"),
    (two(groups=pd.Series(DATA["smoker"])), ArgumentError, "groups is a Series", "Pass the"),
    (one(groups=("yes", "no")), ArgumentError, "groups= was given without by=", "Name the column"),
    (one(popmean=17.9), ArgumentError, "popmean=17.9 lies outside the bounds", "wider bounds"),
    (one(popmean=pl.Series(DATA["age"])), ArgumentError, "popmean is a Series", "Pass the name"),
    (two(popmean=30), ArgumentError, "popmean= and by= exclude each other", "With by="),
    (two(equal_var=pd.Series([True])), ArgumentError, "equal_var is a Series", "Pass the"),
    (lambda v: v.ztest("age", popmean=30, sigma=0, epsilon=1), ArgumentError, "is not above 0", ""),
    (lambda v: v.ztest("age", popmean=30, sigma=1e308, epsilon=1), ArgumentError,
     "more than half the width", "wider bounds"),
    (lambda v: v.crashes("age", epsilon=1), PluginError,
     "'crashes' .*failed with RuntimeError: a bug", "Report this error"),
    (lambda v: v.where(), SchemaError, "no condition", "For example"),
    (lambda v: v.where(agee=5), SchemaError, "no column 'agee'", NAMES),
    (lambda v: v.where({5: 5}), SchemaError, "named by a string", ""),
    (lambda v: v.where(age=(40, 30)), SchemaError, "the interval is reversed", "lower end first"),
    (lambda v: v.where(age=("a", "b")), SchemaError, "must be a finite number", ""),
    (lambda v: v.where(income=(1, 2)), SchemaError, "no bounds", "bounds={'income'"),
    (lambda v: v.where(smoker="maybe"), SchemaError, "not a category", r"\['yes', 'no'\]"),
    (lambda v: v.where(income=5), SchemaError, "no bounds", "bounds={'income'"),
    (lambda v: v.where(pd.Series(DATA["age"]) > 30), SchemaError, "not Series", "For example"),
    (lambda v: v.where(pl.col("age") > 30), SchemaError, "not Expr", "For example"),
    (lambda v: v.where(age=pd.Series(DATA["age"])), ArgumentError, "age is a Series", "Pass the"),
    (lambda v: v.select("age", "agee"), SchemaError, "no column 'agee'", NAMES),
    (lambda v: v.select(["age"]), SchemaError, "named by a string, not by list", ""),
    (lambda v: v.select(pd.Series(DATA["age"])), SchemaError, "not by Series", ""),
    (lambda v: v.group_by("agee"), SchemaError, "no column 'agee'", NAMES),
    (lambda v: v.group_by("age"), SchemaError, "no categories", "categories={'age'"),
    (lambda v: v.group_by(pl.Series(DATA["age"])), SchemaError, "not by Series", ""),
    (lambda v: v.group_by("smoker").ttest("income", epsilon=1), SchemaError,
     "'income' has no bounds", "bounds={'income'"),
    (lambda v: v.explain("tttest", "age"), ArgumentError, "no method 'tttest'", "'ttest'"),
    (lambda v: v.explain(v.ttest, "age"), ArgumentError, "no method 'function'", "The methods are"),
    (lambda v: v.explain({}, "age"), ArgumentError, "no method 'dict'", "The methods are"),
    (lambda v: v.explain("ttest", "age", popmean=30), ArgumentError, "No epsilon", "Pass"),
    (lambda v: v.explain("ttest", "age", popmean=30, epsilon=1, confidence=2), ArgumentError,
     "confidence=2", "between 0 and 1"),
]  # fmt: skip


@pytest.fixture(scope="module")
def protected(tmp_path_factory):
    """A frame and its view, which nothing that is refused changes."""
    df = pd.DataFrame(DATA)
    return df, protect(df, ledger=tmp_path_factory.mktemp("refused") / "ledger.sqlite")


@pytest.mark.parametrize(("ask", "kind", "what", "hint"), BAD_QUESTIONS)
def test_questions_that_cannot_be_asked(ask, kind, what, hint, protected):
    """What cannot be asked is refused before any charge, and leaves the budget as it was."""
    df, view = protected
    refused(lambda: ask(view), kind, what, hint)
    refused(lambda: ask(df.dp), kind, what, hint)

    assert 0 == view.budget.spent == len(view.releases)
    assert [] == view._target.account.entries()


@pytest.mark.parametrize("rows", [0, 1])
def test_one_row(rows):
    """A t-test of one row, or none, is refused where the number of rows is public, and answered where it is not."""
    data = pd.DataFrame(DATA).head(rows)
    if rows:
        view = protect(data)
        refused(lambda: one()(view), ArgumentError, "1 rows, and at least 2 are needed", "more rows")
        assert 0 == view.budget.spent
    private = protect(data, name="private", neighbors="add_remove", public=())
    one()(private)  # an error would tell
    assert 1 == private.budget.spent


def test_a_closed_ledger():
    """A view whose ledger was closed answers nothing."""
    view = protect(pd.DataFrame(DATA))
    view._target.account.ledger.close()

    refused(lambda: view.ttest("age", popmean=30, epsilon=1), LedgerError, "is closed", "Protect the data again")
    refused(lambda: view.budget, LedgerError, "is closed", "Protect the data again")


def test_groups_are_given_as_they_were_declared():
    """In the order asked for, a number as it was declared; all of them where none is named."""
    arm = dp.Column("arm", categories=("drug", "placebo", 1))

    assert chosen_groups(arm, [1.0, "drug"]) == (1, "drug")
    assert chosen_groups(arm, most=None) == ("drug", "placebo", 1)
    with pytest.raises(ArgumentError, match="two groups of 'arm'"):
        chosen_groups(arm, (1, True))


def test_a_public_group_that_is_too_small_is_refused_before_any_charge():
    """The curator says so from public numbers; private ones it does not look at."""
    frame = pd.DataFrame({"arm": ["drug", "drug", "placebo"], "other": "drug", "number": [0, 1, 0]})
    known = {name: ["drug", "placebo"] for name in ("arm", "other")} | {"number": ["no", "yes"]}
    view = dp.protect(frame, "threes", epsilon=1, public=["arm", "number"], categories=known)

    for by, words in (
        ("arm", "A group of 'arm' has 1 rows, and 3 are needed"),
        ("number", "No row has any of these categories"),
    ):
        with pytest.raises(ArgumentError, match=words):
            view.least_of_three(by, epsilon=1)
    assert view.budget.spent == 0
    assert view.least_of_three("other", epsilon=1).value is None
