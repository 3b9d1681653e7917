"""Bad input of every kind: a clear error before any charge, that says what happened and what to do.

No error quotes a value of the data: values planted in the table are searched for in every text.
"""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import re
import traceback
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp
import dfprivacy._ledger.ledger
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._plugins.loader import register_mechanism, unregister
from dfprivacy.errors import (
    AccountMismatch,
    ArgumentError,
    BudgetExceeded,
    DPError,
    LedgerError,
    NotProtected,
    PluginError,
    ReadError,
    SchemaError,
)

pytestmark = pytest.mark.pandas

every_frame = pytest.mark.parametrize("constructor", ["pandas", "polars", "polars-lazy"], indirect=True)
each_library = pytest.mark.parametrize("constructor", ["pandas", "polars"], indirect=True)
CANARIES = ("CANARY", "987654")
DATA = {
    "age": [987654.25, 31.0, 45.0, 28.0] * 50,
    "smoker": ["CANARY-TEXT", "yes", "no", "no"] * 50,
    "diagnosis": ["CANARY-TEXT"] * 200,
    "income": [987654.321] * 200,
    "arm": ["drug", "placebo"] * 100,
    "rating": [1, 2, 3, 4] * 50,
}
TERMS = {
    "epsilon": 10,
    "delta": 1e-6,
    "bounds": {"age": (18, 90), "rating": (1, 4)},
    "categories": {"smoker": ["yes", "no"], "arm": ["drug", "placebo"], "rating": [1, 2, 3, 4]},
    "public": ["arm"],
}
NAMES = re.escape(repr(list(DATA)))


@dp.mechanism(columns={"column": "numeric"})
def crashes(curator, column):
    "Fails before it measures."
    raise RuntimeError("a bug")


@pytest.fixture(autouse=True)
def mechanism():
    register_mechanism(crashes)
    yield
    unregister("crashes")


# What happened says at times what to do.
TOLD = re.compile("must|takes|need|named by|may hold|is a pair|outside the bounds|too far apart")


def refused(call, kind, what, hint=""):
    """Call something that must be refused; check the three parts of the text, and that it tells no value."""
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    shown = "".join(traceback.format_exception_only(error)) + repr(error)
    shown += repr(error.__cause__) + ("" if error.__suppress_context__ else repr(error.__context__))

    assert kind is type(error) or NotProtected is kind
    assert re.search(what, error.what)
    assert DPError.outcome == "Nothing was released or spent."
    assert f" {DPError.outcome}" in str(error)
    assert re.search(hint, error.hint)
    assert error.hint or TOLD.search(error.what)
    assert not [canary for canary in CANARIES if canary in shown]


# What a table cannot be protected with

NUMBER = "Give a number"
HUGE = 10**5000  # more digits than Python writes out

BAD_TERMS = {
    "epsilon zero": ({"epsilon": 0}, ArgumentError, "epsilon=0 must be above zero", "Typical"),
    "epsilon zero text": ({"epsilon": "0"}, ArgumentError, "epsilon='0' must be above zero", "Typical"),
    "epsilon negative": ({"epsilon": -1.5}, ArgumentError, r"epsilon=-1\.5 must be above zero", "Typical"),
    "epsilon nan": ({"epsilon": float("nan")}, ArgumentError, "epsilon=nan is not a finite number", NUMBER),
    "epsilon numpy nan": (
        {"epsilon": np.float32("nan")},
        ArgumentError,
        "epsilon.* is not a finite number",
        NUMBER,
    ),
    "epsilon inf": ({"epsilon": float("inf")}, ArgumentError, "epsilon=inf is not a finite number", NUMBER),
    "epsilon text": ({"epsilon": "a lot"}, ArgumentError, "epsilon='a lot' is not a finite number", NUMBER),
    "epsilon long text": ({"epsilon": "x" * 9999}, ArgumentError, "^epsilon='x{40}' has too many digits", NUMBER),
    "epsilon bool": ({"epsilon": True}, ArgumentError, "epsilon=True is not a finite number", NUMBER),
    "epsilon numpy bool": ({"epsilon": np.True_}, ArgumentError, "epsilon .* is not a finite number", NUMBER),
    "epsilon none": ({"epsilon": None}, ArgumentError, "has no budget", "epsilon=1"),
    "epsilon complex": ({"epsilon": 1j}, ArgumentError, "epsilon=1j is not a finite number", NUMBER),
    "epsilon bytes": ({"epsilon": b"1"}, ArgumentError, "of type bytes", NUMBER),
    "epsilon list": ({"epsilon": [1]}, ArgumentError, "of type list", NUMBER),
    "epsilon array": ({"epsilon": np.array([1.0, 2.0])}, ArgumentError, "of type ndarray", NUMBER),
    "epsilon column": ({"epsilon": pd.Series(DATA["age"])}, ArgumentError, "of type Series", NUMBER),
    "epsilon huge": (
        {"epsilon": 10**400},
        ArgumentError,
        "of type int.* must be above zero, from 1e-09 to 1000000",
        "",
    ),
    "epsilon too huge to write": ({"epsilon": HUGE}, ArgumentError, "epsilon .* has too many digits", NUMBER),
    "epsilon tiny": ({"epsilon": 5e-324}, ArgumentError, "epsilon=5e-324 must be above zero", "Typical"),
    "epsilon vanishing": ({"epsilon": Fraction(1, 10**400)}, ArgumentError, "epsilon .* must be above", "Typical"),
    "epsilon decimal": ({"epsilon": Decimal("1e-999")}, ArgumentError, "epsilon .* must be above zero", "Typical"),
    "epsilon long": ({"epsilon": Fraction(10**400 + 1, 10**400)}, ArgumentError, "too many digits", NUMBER),
    "delta long": ({"delta": "1e-400"}, ArgumentError, "delta has too many digits", NUMBER),
    "epsilon division": ({"epsilon": "1/0"}, ArgumentError, "is not a finite number", NUMBER),
    "epsilon rest": ({"epsilon": "rest"}, ArgumentError, "epsilon='rest' is not a finite number", NUMBER),
    "default epsilon": ({"default_epsilon": 0}, ArgumentError, "default_epsilon=0 must be above zero", "Typical"),
    "default epsilon rest": ({"default_epsilon": "rest"}, ArgumentError, "is not a finite number", NUMBER),
    "delta one": ({"delta": 1}, ArgumentError, "delta=1 must be at least 0 and below 1", "Typical"),
    "delta more": ({"delta": 1.5}, ArgumentError, r"delta=1\.5 must be at least 0 and below 1", "Typical"),
    "delta negative": ({"delta": -1e-9}, ArgumentError, "delta=-1e-09 must be at least 0", "Typical"),
    "delta nan": ({"delta": float("nan")}, ArgumentError, "delta=nan is not a finite number", NUMBER),
    "delta column": ({"delta": pl.Series(DATA["age"])}, ArgumentError, "of type Series", NUMBER),
    "delta huge": ({"delta": HUGE}, ArgumentError, "delta .* has too many digits", NUMBER),
    "name empty": ({"name": ""}, ArgumentError, "must be a string, not an empty one", "For example"),
    "name white": ({"name": " \t "}, ArgumentError, "must be a string, not an empty one", "For example"),
    "name none": ({"name": None}, ArgumentError, "not a NoneType", "For example"),
    "name huge": ({"name": "x" * 100_000}, ArgumentError, "not a short line", "1 to 200 printable"),
    "name lines": ({"name": "two\nlines"}, ArgumentError, "not a short line", "1 to 200 printable"),
    "name surrogate": ({"name": "\ud800"}, ArgumentError, "not a short line", "1 to 200 printable"),
    "name a table": ({"name": pd.DataFrame(DATA)}, ArgumentError, "not a DataFrame", "For example"),
    "bounds reversed": ({"bounds": {"age": (90, 18)}}, SchemaError, r"bounds\['age'\] = \(90, 18\)", "low < high"),
    "bounds equal": ({"bounds": {"age": (5, 5)}}, SchemaError, "equal or reversed", "low < high"),
    "bounds infinite": ({"bounds": {"age": (0, float("inf"))}}, SchemaError, "must be a finite number", ""),
    "bounds nan": ({"bounds": {"age": (float("nan"), 1)}}, SchemaError, "must be a finite number", ""),
    "bounds text": ({"bounds": {"age": ("a", "b")}}, SchemaError, "must be a finite number", ""),
    "bounds one": ({"bounds": {"age": (1,)}}, SchemaError, "must be a pair", ""),
    "bounds number": ({"bounds": {"age": 5}}, SchemaError, "must be a pair", ""),
    "bounds far": ({"bounds": {"age": (-1e308, 1.7e308)}}, SchemaError, "too far apart", ""),
    "bounds unknown": ({"bounds": {"agee": (0, 1)}}, SchemaError, "'agee' that is not there", NAMES),
    "bounds no mapping": ({"bounds": [("age", 0, 1)]}, SchemaError, "takes a dictionary", ""),
    "bounds a table": ({"bounds": pd.DataFrame(DATA)}, SchemaError, "not DataFrame", ""),
    "categories empty": ({"categories": {"smoker": []}}, SchemaError, "must be at least one value", ""),
    "categories double": ({"categories": {"smoker": ["a", "a"]}}, SchemaError, "each once", ""),
    "categories text": ({"categories": {"smoker": "yes"}}, SchemaError, "must be a list", ""),
    "categories a column": ({"categories": {"age": pd.Series(DATA["age"])}}, SchemaError, "must be a list", ""),
    "categories none": ({"categories": {"smoker": [None]}}, SchemaError, "found one=None", "Missing values"),
    "categories unknown": ({"categories": {"smoke": ["a"]}}, SchemaError, "'smoke' that is not there", NAMES),
    "public unknown": ({"public": ["arms"]}, SchemaError, "'arms' that is not there", NAMES),
    "public text": ({"public": "arm"}, SchemaError, "takes a list", r"\['arm'\]"),
    "public none": ({"public": None}, SchemaError, "takes a list", r"\['arm'\]"),
    "public and private size": ({"neighbors": "add_remove"}, SchemaError, "public columns need", ""),
    "neighbors": ({"neighbors": "replace"}, SchemaError, "neighbors='replace' is unknown", "replace_one"),
    "neighbors list": ({"neighbors": []}, SchemaError, "is unknown", "replace_one"),
    "accounting": ({"accounting": "moments"}, ArgumentError, "'moments' is not a kind of accounting", "portfolio"),
    "accounting list": ({"accounting": []}, ArgumentError, "A list names no accounting", "portfolio"),
    "accounting without delta": ({"accounting": "rdp", "delta": 0}, ArgumentError, "needs a delta", "basic"),
    "missing outside": ({"missing": {"age": 200}}, SchemaError, "outside the bounds", ""),
    "missing unknown": ({"missing": {"agee": 20}}, SchemaError, "'agee' that is not there", NAMES),
    "missing without bounds": ({"missing": {"income": 20}}, SchemaError, "cannot be used", "A column with bounds"),
    "ledger number": ({"ledger": 5}, LedgerError, "A int is no ledger", "Name a file"),
    "ledger bytes": ({"ledger": b"x"}, LedgerError, "A bytes is no ledger", "Name a file"),
    "ledger folder": ({"ledger": "/"}, LedgerError, "is a folder", "Name a file"),
    "ledger nowhere": ({"ledger": "no/such/folder/l.sqlite"}, LedgerError, "does not exist", "Name a file"),
    "ledger unknown database": ({"ledger": "nosql://x"}, LedgerError, "no database", "another ledger"),
}


def protect(df, **terms):
    terms = {"name": "clinic", **TERMS, **terms}
    return dp.protect(df, terms.pop("name"), **terms)


@each_library
@pytest.mark.parametrize("case", BAD_TERMS)
def test_terms_that_cannot_be_used(constructor, case, ledger):
    """What cannot be said of a table is refused, opens no account, and leaves the frame unprotected."""
    terms, kind, what, hint = BAD_TERMS[case]
    df = constructor(DATA)

    refused(lambda: protect(df, **terms), kind, what, hint)

    assert not hasattr(df.dp, "view")
    assert not ledger.exists() or [] == open_ledger(ledger).accounts()


GOOD_PRICES = [0.5, np.float64(0.5), np.float32(0.5), np.float16(0.5), "0.5", "1/2", Fraction(1, 2), Decimal("0.5")]


@pytest.mark.parametrize("epsilon", GOOD_PRICES, ids=repr)
def test_every_kind_of_number_is_a_price(epsilon):
    """Python's and NumPy's numbers, decimals, fractions and exact texts all mean the same."""
    view = protect(pd.DataFrame(DATA), epsilon=epsilon, delta=0, default_epsilon=epsilon)

    released = view.ttest("age", popmean=30, epsilon=epsilon)

    assert Fraction(1, 2) == view.budget.epsilon == view.budget.spent
    assert 0.5 == released.privacy.epsilon


@pytest.mark.parametrize("epsilon", [np.int8(2), np.uint64(2), 2, 2.0, "2"], ids=repr)
def test_every_kind_of_whole_number_is_a_price(epsilon):
    """Whole numbers of any width are prices."""
    assert 2 == protect(pd.DataFrame(DATA), epsilon=epsilon, delta=0).budget.epsilon


BAD_TABLES = {
    "number": (lambda: 5, ArgumentError, "A int is not a table", "Pass a DataFrame of pandas"),
    "nothing": (lambda: None, ArgumentError, "A NoneType is not a table", "Pass a DataFrame of pandas"),
    "mapping": (lambda: DATA, ArgumentError, "A dict is not a table", "Pass a DataFrame of pandas"),
    "array": (
        lambda: np.array(DATA["age"]),
        ArgumentError,
        "A ndarray is not a table",
        "Pass a DataFrame of pandas",
    ),
    "class": (lambda: pd.DataFrame, ArgumentError, "type", "Pass a"),
    "pandas column": (lambda: pd.Series(DATA["age"]), ArgumentError, "Series", "Pass a"),
    "polars column": (lambda: pl.Series(DATA["age"]), ArgumentError, "Series", "Pass a"),
    "polars groups": (lambda: pl.DataFrame(DATA).group_by("arm"), ArgumentError, "GroupBy", "Pass a"),
    "pandas without rows": (lambda: pd.DataFrame(DATA).head(0), SchemaError, "no rows", "at least one row"),
    "polars without rows": (lambda: pl.DataFrame(DATA).head(0), SchemaError, "no rows", "at least one row"),
    "lazy without rows": (lambda: pl.LazyFrame(DATA).head(0), SchemaError, "no rows", "at least one row"),
    "pandas without columns": (pd.DataFrame, SchemaError, "no rows", "at least one row"),
    "polars without columns": (pl.DataFrame, SchemaError, "no rows", "at least one row"),
    "double names": (
        lambda: pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]),
        SchemaError,
        r"Columns \['a'\] appear more than once",
        "its own name",
    ),
    "names that become double": (
        lambda: pd.DataFrame([[1, 2]], columns=[1, "1"]),
        SchemaError,
        r"Columns \['1'\] appear more than once",
        "its own name",
    ),
    "file that is not there": (
        lambda: pl.scan_parquet("/no/such/file"),
        ReadError,
        "Reading the rows",
        "custodian",
    ),
    "plan that fails": (lambda: pl.LazyFrame(DATA).select("x"), ReadError, "Reading the rows", "custodian"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_tables_that_cannot_be_used(case, ledger):
    """What is no table, or has no rows, or two columns of one name, is refused and opens no account."""
    make, kind, what, hint = BAD_TABLES[case]

    refused(lambda: dp.protect(make(), "clinic", epsilon=1), kind, what, hint)

    assert not ledger.exists()


# What a view cannot be asked


def ttest(*args, **kwargs):
    return lambda view: view.ttest(*args, **{"epsilon": 1, **kwargs})


def two(**kwargs):
    return ttest("age", **{"by": "smoker", **kwargs})


def one(**kwargs):
    return ttest("age", **{"popmean": 30, **kwargs})


IT_IS_CALLED = r"It is called ttest\(column, by=None, \*, groups=None, queries='jointly', nan_policy='omit', "

BAD_QUESTIONS = {
    "epsilon zero": (one(epsilon=0), ArgumentError, "epsilon=0 must be above zero", "Typical"),
    "epsilon negative": (one(epsilon=-1), ArgumentError, "epsilon=-1 must be above zero", "Typical"),
    "epsilon nan": (one(epsilon=float("nan")), ArgumentError, "epsilon=nan is not a finite number", NUMBER),
    "epsilon inf": (one(epsilon=float("inf")), ArgumentError, "epsilon=inf is not a finite number", NUMBER),
    "epsilon text": (one(epsilon="all"), ArgumentError, "epsilon='all' is not a finite number", NUMBER),
    "epsilon bool": (one(epsilon=True), ArgumentError, "epsilon=True is not a finite number", NUMBER),
    "epsilon complex": (one(epsilon=1j), ArgumentError, "epsilon=1j is not a finite number", NUMBER),
    "epsilon huge": (one(epsilon=10**400), ArgumentError, "must be above zero", "Typical"),
    "epsilon too huge to write": (one(epsilon=-HUGE), ArgumentError, "has too many digits", NUMBER),
    "epsilon tiny": (one(epsilon=1e-300), ArgumentError, "must be above zero", "Typical"),
    "epsilon array": (one(epsilon=np.array([1, 2])), ArgumentError, "of type ndarray", NUMBER),
    "epsilon pandas column": (one(epsilon=pd.Series(DATA["age"])), ArgumentError, "of type Series", NUMBER),
    "epsilon polars column": (one(epsilon=pl.Series(DATA["age"])), ArgumentError, "of type Series", NUMBER),
    "epsilon table": (one(epsilon=pd.DataFrame(DATA)), ArgumentError, "of type DataFrame", NUMBER),
    "epsilon expression": (one(epsilon=pl.col("age")), ArgumentError, "of type Expr", NUMBER),
    "no epsilon": (one(epsilon=None), ArgumentError, "No epsilon was given", "epsilon=0.1"),
    "too much": (one(epsilon=12), BudgetExceeded, "asks for epsilon = 12", "Ask for less"),
    "delta where there is none": (
        one(delta=1e-7),
        ArgumentError,
        "unexpected keyword argument 'delta'",
        IT_IS_CALLED,
    ),
    "fresh": (one(fresh="yes"), ArgumentError, "fresh='yes' is neither True nor False", "fresh=True"),
    "fresh a table": (one(fresh=pd.DataFrame(DATA)), ArgumentError, "fresh .of type DataFrame", "fresh=True"),
    "keyword": (one(popmena=30), ArgumentError, "unexpected keyword argument 'popmena'", IT_IS_CALLED),
    "keyword with a table": (one(data=pd.DataFrame(DATA)), ArgumentError, "argument 'data'", IT_IS_CALLED),
    "self": (one(self=1), ArgumentError, "unexpected keyword argument 'self'", IT_IS_CALLED),
    "positional surplus": (
        ttest("age", "smoker", 30),
        ArgumentError,
        "too many positional",
        "such as ttest.*popmean=30",
    ),
    "positional popmean": (ttest("age", 30), SchemaError, "named by a string, not by int", "or write popmean=30"),
    "positional and keyword": (one(column="age"), ArgumentError, "multiple values for argument", IT_IS_CALLED),
    "no column": (ttest(popmean=30), ArgumentError, "missing a required argument: 'column'", IT_IS_CALLED),
    "unknown column": (ttest("agee", popmean=30), SchemaError, "no column 'agee'", NAMES),
    "column none": (ttest(None, popmean=30), SchemaError, "named by a string, not by NoneType", ""),
    "column number": (ttest(0, popmean=30), SchemaError, "named by a string, not by int", ""),
    "column list": (ttest(["age"], popmean=30), SchemaError, "named by a string, not by list", ""),
    "column itself": (
        ttest(pd.Series(DATA["age"]), popmean=30),
        ArgumentError,
        "column is a Series",
        "Pass the name",
    ),
    "column itself in polars": (
        ttest(pl.Series(DATA["age"])),
        ArgumentError,
        "column is a Series",
        "Pass the name",
    ),
    "column expression": (ttest(pl.col("age"), popmean=30), SchemaError, "named by a string, not by Expr", ""),
    "column without bounds": (
        ttest("income", popmean=30),
        SchemaError,
        "'income' has no bounds",
        "bounds={'income'",
    ),
    "text without bounds": (ttest("diagnosis"), SchemaError, "'diagnosis' has no bounds", "bounds={'diagnosis'"),
    "categorical column": (ttest("smoker", popmean=30), SchemaError, "'smoker' is categorical", "bounds={'smoker'"),
    "by without categories": (two(by="income"), SchemaError, "'income' has no categories", "categories={'income'"),
    "by the same column": (two(by="age"), SchemaError, "'age' has no categories", "categories={'age'"),
    "by unknown": (two(by="smokers"), SchemaError, "no column 'smokers'", NAMES),
    "by list": (two(by=["smoker"]), SchemaError, "named by a string, not by list", ""),
    "by itself": (two(by=pd.Series(DATA["smoker"])), ArgumentError, "by is a Series", "Pass the name"),
    "group unknown": (two(groups=("yes", "maybe")), SchemaError, "'maybe' is not a category", r"\['yes', 'no'\]"),
    "group none": (two(groups=("yes", None)), SchemaError, "None is not a category", r"\['yes', 'no'\]"),
    "group list": (two(groups=("yes", ["no"])), SchemaError, "is not a category", r"\['yes', 'no'\]"),
    "one group": (two(groups=("yes",)), ArgumentError, "compares two groups", "Name different"),
    "three groups": (two(groups=("yes", "no", "yes")), ArgumentError, "compares two groups", "Name different"),
    "the same group": (two(groups=("no", "no")), ArgumentError, "compares two groups", "Name different"),
    "the same number": (two(by="rating", groups=(1, 1.0)), ArgumentError, "compares two groups", "Name different"),
    "too many categories": (two(by="rating"), ArgumentError, "compares two groups", "Name different"),
    "groups a text": (two(groups="no"), ArgumentError, "compares two groups", "Name different"),
    "groups a set": (two(groups={"yes", "no"}), ArgumentError, "compares two groups", "Name different"),
    "groups a number": (two(groups=5), ArgumentError, "compares two groups", "Name different"),
    "groups from the data": (
        two(groups=pd.Series(DATA["smoker"])),
        ArgumentError,
        "groups is a Series",
        "Pass the",
    ),
    "groups without by": (
        one(groups=("yes", "no")),
        ArgumentError,
        "groups= was given without by=",
        "Name the column",
    ),
    "popmean nan": (
        one(popmean=float("nan")),
        ArgumentError,
        "popmean.* is not a finite number",
        "Give a finite number",
    ),
    "popmean inf": (
        one(popmean=float("inf")),
        ArgumentError,
        "popmean.* is not a finite number",
        "Give a finite number",
    ),
    "popmean text": (one(popmean="30"), ArgumentError, "popmean.* is not a finite number", "Give a finite number"),
    "popmean none": (one(popmean=None), ArgumentError, "popmean.* is not a finite number", "Give a finite number"),
    "popmean huge": (
        one(popmean=10**400),
        ArgumentError,
        "popmean has too many digits",
        "Give a number",
    ),
    "popmean outside": (one(popmean=17.9), ArgumentError, "popmean=17.9 lies outside the bounds", "wider bounds"),
    "popmean a column": (
        one(popmean=pl.Series(DATA["age"])),
        ArgumentError,
        "popmean is a Series",
        "Pass the name",
    ),
    "popmean and by": (two(popmean=30), ArgumentError, "popmean= and by= exclude each other", "With by="),
    "confidence zero": (one(confidence=0), ArgumentError, "confidence=0.* is not between", "0.95|between"),
    "confidence one": (one(confidence=1), ArgumentError, "confidence=1.* is not between", "0.95|between"),
    "confidence nan": (
        one(confidence=float("nan")),
        ArgumentError,
        "confidence=nan is not (between|a finite number)",
        "Give|0.95",
    ),
    "confidence text": (
        one(confidence="95%"),
        ArgumentError,
        "confidence='95%' is not (between|a finite number)",
        "Give|0.95",
    ),
    "confidence bool": (
        one(confidence=True),
        ArgumentError,
        "confidence=True is not (between|a finite number)",
        "Give|0.95",
    ),
    "alternative": (one(alternative="both"), ArgumentError, "alternative='both' is unknown", "two-sided"),
    "alternative list": (one(alternative=["less"]), ArgumentError, "is unknown", "two-sided"),
    "method": (one(method="exact"), ArgumentError, "method='exact' is unknown", "conv"),
    "method none": (one(method=None), ArgumentError, "method=None is unknown", "conv"),
    "equal_var a column": (two(equal_var=pd.Series([True])), ArgumentError, "equal_var is a Series", "Pass the"),
    "sigma zero": (lambda v: v.ztest("age", popmean=30, sigma=0, epsilon=1), ArgumentError, "is not above 0", ""),
    "sigma huge": (
        lambda v: v.ztest("age", popmean=30, sigma=1e308, epsilon=1),
        ArgumentError,
        "more than half the width",
        "wider bounds",
    ),
    "equal_var text": (two(equal_var="x"), ArgumentError, "neither True nor False", "equal_var=True"),
    "sigma nan": (
        lambda v: v.ztest("age", popmean=30, sigma=float("nan"), epsilon=1),
        ArgumentError,
        "sigma=nan is not above 0",
        "Give a number above 0",
    ),
    "a plugin that raises": (
        lambda v: v.crashes("age", epsilon=1),
        PluginError,
        "'crashes' .*failed with RuntimeError: a bug",
        "Tell its authors",
    ),
    "where nothing": (lambda v: v.where(), SchemaError, "no condition", "For example"),
    "where unknown": (lambda v: v.where(agee=5), SchemaError, "no column 'agee'", NAMES),
    "where typo in mapping": (lambda v: v.where({"agee": 5}), SchemaError, "no column 'agee'", NAMES),
    "where number named": (lambda v: v.where({5: 5}), SchemaError, "named by a string", ""),
    "where reversed": (lambda v: v.where(age=(40, 30)), SchemaError, "the interval is reversed", "low, high"),
    "where three ends": (lambda v: v.where(age=(1, 2, 3)), SchemaError, "an interval is a pair", ""),
    "where text ends": (lambda v: v.where(age=("a", "b")), SchemaError, "must be a finite number", ""),
    "where nan": (lambda v: v.where(age=(float("nan"), 1)), SchemaError, "must be a finite number", ""),
    "where without bounds": (lambda v: v.where(income=(1, 2)), SchemaError, "no bounds", "bounds={'income'"),
    "where no category": (lambda v: v.where(smoker="maybe"), SchemaError, "not a category", r"\['yes', 'no'\]"),
    "where a number without bounds": (lambda v: v.where(income=5), SchemaError, "no bounds", "bounds={'income'"),
    "where a mask": (lambda v: v.where(pd.Series(DATA["age"]) > 30), SchemaError, "not a Series", "For example"),
    "where an expression": (lambda v: v.where(pl.col("age") > 30), SchemaError, "not a Expr", "For example"),
    "where a column": (lambda v: v.where(age=pd.Series(DATA["age"])), ArgumentError, "age is a Series", "Pass the"),
    "select unknown": (lambda v: v.select("age", "agee"), SchemaError, "no column 'agee'", NAMES),
    "select a list": (lambda v: v.select(["age"]), SchemaError, "named by a string, not by list", ""),
    "select a column": (lambda v: v.select(pd.Series(DATA["age"])), SchemaError, "not by Series", ""),
    "group_by unknown": (lambda v: v.group_by("agee"), SchemaError, "no column 'agee'", NAMES),
    "group_by a number": (lambda v: v.group_by("age"), SchemaError, "no categories", "categories={'age'"),
    "group_by a column": (lambda v: v.group_by(pl.Series(DATA["age"])), SchemaError, "not by Series", ""),
    "a group of a bad test": (
        lambda v: v.group_by("smoker").ttest("income", epsilon=1),
        SchemaError,
        "'income' has no bounds",
        "bounds={'income'",
    ),
    "explain unknown": (lambda v: v.explain("tttest", "age"), ArgumentError, "no method 'tttest'", "'ttest'"),
    "explain a method": (
        lambda v: v.explain(v.ttest, "age"),
        ArgumentError,
        "no method 'function'",
        "The methods are",
    ),
    "explain without price": (lambda v: v.explain("ttest", "age", popmean=30), ArgumentError, "No epsilon", "Say"),
    "explain a bad test": (
        lambda v: v.explain("ttest", "age", popmean=30, epsilon=1, confidence=2),
        ArgumentError,
        "confidence=2",
        "between 0 and 1",
    ),
}


@pytest.fixture
def in_memory(monkeypatch):
    """A throwaway ledger that waits for no disk."""
    monkeypatch.setenv("DFPRIVACY_LEDGER", "memory:")
    monkeypatch.setattr(dfprivacy._ledger.ledger, "_in_memory", {})


@each_library
@pytest.mark.parametrize("case", BAD_QUESTIONS)
def test_questions_that_cannot_be_asked(constructor, case, in_memory):
    """What cannot be asked is refused before any charge, and leaves the budget as it was."""
    ask, kind, what, hint = BAD_QUESTIONS[case]
    df = constructor(DATA)
    view = protect(df)
    before = view.budget.to_dict()

    refused(lambda: ask(view), kind, what, hint)
    refused(lambda: ask(df.dp), kind, what, hint)

    assert before == view.budget.to_dict()
    assert [] == view._target.account.entries()
    assert 0 == len(view.releases)


@every_frame
def test_one_row_cannot_be_tested(constructor):
    """A t-test of one row is refused before the charge: the number of rows is public."""
    view = protect(constructor({name: values[:1] for name, values in DATA.items()}))

    refused(
        lambda: view.ttest("age", popmean=30, epsilon=1), ArgumentError, "1 rows, and 2 are needed", "more rows"
    )

    assert 0 == view.budget.spent


@every_frame
def test_one_row_of_unknown_number_is_answered(constructor):
    """Where the number of rows is private, one row is answered like any other number: an error would tell."""
    view = protect(
        constructor({name: values[:1] for name, values in DATA.items()}), neighbors="add_remove", public=()
    )

    view.ttest("age", popmean=30, epsilon=1)

    assert 1 == view.budget.spent


def test_a_table_without_rows_may_have_a_private_size():
    """Where the number of rows is private, an empty table is answered like any other: an error would tell."""
    view = protect(pd.DataFrame(DATA).head(0), neighbors="add_remove", public=())

    view.ttest("age", popmean=30, epsilon=1)

    assert 1 == view.budget.spent


def test_another_budget_for_a_known_name():
    """A name that is known with other terms is refused, and its account stays."""
    df = pd.DataFrame(DATA)
    view = protect(df)
    view.ttest("age", popmean=30, epsilon=1)

    refused(lambda: protect(df, epsilon=20), AccountMismatch, "epsilon = 10, not 20", "another name")

    assert 1 == view.budget.spent
    assert df.dp.view is view


@every_frame
def test_an_unprotected_frame(constructor):
    """A frame that was never protected refuses, with the way out."""
    df = constructor(DATA)

    refused(lambda: df.dp.ttest("age", epsilon=1), NotProtected, "no private view", r"df\.dp\.protect")
    refused(lambda: df.dp.view, NotProtected, "no private view", r"df\.dp\.protect")
    refused(lambda: df.dp.budget, NotProtected, "no private view", r"df\.dp\.protect")


# Ledgers that cannot be used


@every_frame
@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "~nobody-of-this-name/l.sqlite"])
def test_a_path_that_is_none(constructor, path):
    """A ledger cannot be where no file can be."""
    refused(
        lambda: dp.protect(constructor(DATA), "clinic", epsilon=1, ledger=path),
        LedgerError,
        "path|folder",
        "ledger|file",
    )


def test_a_closed_ledger(constructor):
    """A view whose ledger was closed answers nothing."""
    view = protect(constructor(DATA))
    view._target.account.ledger.close()

    refused(lambda: view.ttest("age", popmean=30, epsilon=1), LedgerError, "is closed", "Open it")
    refused(lambda: view.budget, LedgerError, "is closed", "Open it")


@every_frame
def test_a_read_only_ledger(constructor, ledger):
    """A ledger that cannot be written measures nothing new, and still gives what follows from old measurements."""
    df = constructor(DATA)
    known = protect(df).ttest("age", popmean=30, epsilon=1)
    account = open_ledger(f"sqlite:///file:{ledger}?mode=ro&uri=true").account("clinic")
    view = df.dp.view
    object.__setattr__(view._target, "account", account)

    part = view.where(age=(20, 40))
    refused(lambda: part.ttest("age", popmean=30, epsilon=1), LedgerError, "cannot be written", "another ledger")

    assert known.pvalue == view.ttest("age", popmean=30, epsilon=1).pvalue
    assert known.estimate == view.ttest("age", popmean=31, epsilon=1).estimate
    assert 1 == view.budget.spent


@every_frame
def test_a_corrupt_ledger(constructor, ledger):
    """A file that is no ledger is refused and left alone."""
    ledger.write_bytes(b"this is no database" * 1000)

    refused(lambda: protect(constructor(DATA)), LedgerError, "cannot be read|not a database", "another ledger")

    assert ledger.read_bytes().startswith(b"this is no database")


@every_frame
def test_a_ledger_that_becomes_corrupt(constructor, ledger):
    """A ledger that was destroyed under a view gives no answer."""
    view = protect(constructor(DATA))
    for path in ledger.parent.glob(f"{ledger.name}*"):
        path.write_bytes(b"this is no database" * 1000)

    refused(lambda: view.ttest("age", popmean=30, epsilon=1), LedgerError, "cannot be", "another ledger")


def test_a_ledger_that_disappears(ledger):
    """A view whose ledger file was deleted gives no answer: a new file would be a new budget."""
    view = protect(pd.DataFrame(DATA))
    for path in ledger.parent.glob(f"{ledger.name}*"):
        path.unlink()

    refused(lambda: view.ttest("age", popmean=30, epsilon=1), LedgerError, "cannot be", "another ledger")
