"""Columns computed from columns: every answer is that of a table which holds them."""

from __future__ import annotations

import datetime as dt
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy import col
from dfprivacy.testing import seeded_noise

N = 3000
NAMES = (f"computed {at}" for at in itertools.count())
_rng = np.random.default_rng(11)
DATA = pd.DataFrame(
    {
        "weight": _rng.normal(75, 15, N).clip(41, 159),
        "height": _rng.normal(1.7, 0.1, N).clip(1.45, 2.05),
        "income": _rng.lognormal(10, 1, N).clip(0, 200_000),
        "age": _rng.integers(0, 100, N).astype(float),
        "sex": _rng.choice(["f", "m"], N),
        "born": pd.to_datetime(_rng.integers(-5000, 15000, N), unit="D"),
        "month": _rng.integers(1, 13, N),
    }
)
DATA.loc[::7, "weight"] = np.nan
DATA.loc[::11, "sex"] = None
TERMS = {
    "bounds": {
        "weight": (40, 160),
        "height": (1.4, 2.1),
        "income": (0, 250_000),
        "age": (0, 120),
        "born": (dt.date(1950, 1, 1), dt.date(2020, 1, 1)),
        "month": (1, 12),
    },
    "categories": {"sex": ["f", "m"], "month": list(range(1, 13))},
    "epsilon": 100,
    "delta": "1e-6",
    "ledger": "memory:",
}
FRAMES = {
    "pandas": lambda df: df, "polars": pl.from_pandas, "lazy": lambda df: pl.from_pandas(df).lazy(),
    "arrow": pa.Table.from_pandas,
}  # fmt: skip


some = pytest.mark.one_in(4)  # of each expression, for the engines read columns and compute none
on_frames = pytest.mark.parametrize(
    "frame", [pytest.param(name, marks=[some] * (name != "pandas")) for name in FRAMES]
)


def protect(frame=DATA, **more):
    return dp.protect(frame, next(NAMES), **{**TERMS, **more})


def _season(month):
    return "winter" if month in {12, 1, 2} else "summer" if month in {6, 7, 8} else None


SEASONS = {month: _season(month) for month in range(1, 13) if _season(month)}
NUMBERS = {
    "bmi": (col("weight") / col("height") ** 2, lambda d: d.weight / d.height**2),
    "log": (np.log(col("income") + 1), lambda d: np.log(d.income + 1)),
    "rest": (100 - abs(2 * col("age") - col("weight")), lambda d: 100 - abs(2 * d.age - d.weight)),
    "root": (col("age").sqrt() * np.exp(-col("height")), lambda d: np.sqrt(d.age) * np.exp(-d.height)),
    "limited": (col("age").clip(18, 65).round(-1), lambda d: d.age.clip(18, 65).round(-1)),
    "filled": (col("weight").fill(70) - 1, lambda d: d.weight.fillna(70) - 1),
    "either": (
        col("age").where(col("sex") == "f", 2 * col("age")),
        lambda d: d.age.where(d.sex == "f", 2 * d.age).where(d.sex.notna()),
    ),
    "cube": ((col("height") - 2) ** 3, lambda d: (d.height - 2) ** 3),
    "old": (col("age") >= 65, lambda d: (d.age >= 65).astype(float)),
    "heavy man": (
        (col("weight") > 80) & (col("sex") == "m"),
        lambda d: ((d.weight > 80) & (d.sex == "m")).astype(float).where(d.weight.notna() & d.sex.notna()),
    ),
    "not child": (
        ~((col("age") < 18) | (col("age") == 99)),
        lambda d: (~((d.age < 18) | (d.age == 99))).astype(float),
    ),
    "of map": (col("month").map({1: 10, 2: 20.5}), lambda d: d.month.map({1: 10, 2: 20.5})),
    "isin": (col("month").isin([3, 4]), lambda d: d.month.isin([3, 4]).astype(float)),
    "year": (col("born").year(), lambda d: d.born.dt.year),
    "of date": (
        col("born").month() * 10000 + col("born").day() * 100 + col("born").weekday(),
        lambda d: d.born.dt.month * 10000 + d.born.dt.day * 100 + d.born.dt.day_of_week,
    ),
    "since": (col("born") >= dt.date(1990, 1, 1), lambda d: (d.born >= "1990-01-01").astype(float)),
}
LABELS = {
    "season": (col("month").map(SEASONS), lambda d: d.month.map(SEASONS)),
    "band": (
        col("age").cut([0, 18, 65, 90]),
        lambda d: pd.cut(d.age, [0, 18, 65, 90], include_lowest=True, labels=["[0, 18]", "(18, 65]", "(65, 90]"]),
    ),
    "known": (col("sex").fill("unknown"), lambda d: d.sex.fillna("unknown")),
    "named": (
        col("sex").map({"f": "woman", "m": "man"}).where(col("age") > 17, "child"),
        lambda d: d.sex.map({"f": "woman", "m": "man"}).where(d.age > 17, "child"),
    ),
}


def answers(ask, *views):
    """Tables of the answers of views to one question with one noise."""
    for view in views:
        with seeded_noise(5):
            yield ask(view).to_frame("pandas")


@on_frames
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_those_of_pandas(name, frame):
    """The bounds hold all values, and sums and missing values are those of a table with the column."""
    expression, of_pandas = NUMBERS[name]
    view = protect(FRAMES[frame](DATA)).with_columns(z=expression)
    low, high = view.schema.columns["z"].bounds
    there = of_pandas(DATA).astype(float)
    assert low <= there.min() <= there.max() <= high
    filled = {"missing": {"z": low}} if view.schema.columns["z"].filled else {}  # nothing of it can be missing
    held = protect(FRAMES[frame](DATA.assign(z=there)), bounds={**TERMS["bounds"], "z": (low, high)}, **filled)
    for ask in (lambda v: v.mean("z", epsilon=1), lambda v: v.describe(["z"], epsilon=1)):
        ours, theirs = (each.drop(columns="covers", errors="ignore") for each in answers(ask, view, held))
        assert ours.round(9).equals(theirs.round(9))


@on_frames
@pytest.mark.parametrize("name", LABELS)
def test_labels_are_those_of_pandas(name, frame):
    """Counts of categories, and what is asked by them, are those of a table with the column."""
    expression, of_pandas = LABELS[name]
    view = protect(FRAMES[frame](DATA)).with_columns(z=expression)
    known = view.schema.columns["z"].categories
    there = of_pandas(DATA).astype(object)
    assert {*there.dropna()} == {*known}
    held = protect(FRAMES[frame](DATA.assign(z=there)), categories={**TERMS["categories"], "z": list(known)})
    for ask in (
        lambda v: v.value_counts("z", epsilon=1),
        lambda v: v.group_by("z").mean("age", epsilon=1),
        lambda v: v.where(z=known[0]).mean("income", epsilon=1),
        lambda v: v.anova("age", by="z", epsilon=1) if len(known) > 2 else v.ttest("age", by="z", epsilon=1),
        lambda v: v.ols("income", ["age", "z"], epsilon=1),
    ):
        pd.testing.assert_frame_equal(*answers(ask, view, held))


def with_bmi(view):
    return view.with_columns(bmi=col("weight") / col("height") ** 2, heavy=lambda df: df.bmi > 30)


def test_a_question_is_its_formula():
    """Asked again it is free; of another formula under the same name, nothing is known."""
    view = protect()
    first, again = (with_bmi(view).mean("bmi", epsilon=1) for _ in range(2))
    other = view.with_columns(bmi=col("weight") / col("height")).mean("bmi", epsilon=1)
    assert [each.privacy.epsilon for each in (first, again, other)] == [1, 1, 1]
    assert (again.privacy.replayed, other.privacy.replayed, view.budget.spent) == (True, False, 2)
    assert "where bmi := (weight / (height ** 2))" in repr(first)
    assert "where bmi := (weight / (height ** 2))" in repr(view.releases)
    counts = [
        part(view).count("bmi", epsilon=0.01) for part in (with_bmi, lambda v: v.with_columns(bmi=col("age") + 1))
    ]
    assert [each.privacy.epsilon for each in counts] == [0, 0.01]


def test_people_samples_and_what_is_made_of_them():
    """A person's rows are chosen as they were before; a sample and a row of a person have computed columns too."""
    terms = {"unit": "id", "max_rows": 3}
    people = DATA.assign(id=np.arange(N) // 5)
    plain = protect(people, **terms)
    with seeded_noise(1):
        known = plain.mean("weight", epsilon=50).value
    with seeded_noise(1):
        chosen = plain.with_columns(z=col("weight") + 0).mean("z", epsilon=50).value
    assert chosen == pytest.approx(known)
    of_one = with_bmi(protect(people, **terms)).per("id").agg(bmi="mean", height="max", heavy="max")
    then = of_one.with_columns(both=col("bmi") * col("height"))
    assert then.mean("both", epsilon=20).value == pytest.approx(46, abs=4)
    assert 0 < of_one.mean("heavy", epsilon=20).value < 0.6
    assert with_bmi(protect().sample(0.5)).mean("bmi", epsilon=20).value == pytest.approx(26, abs=1)
    assert with_bmi(plain.declare(bounds={"weight": (60, 70)})).schema.columns["bmi"].high == pytest.approx(
        70 / 1.4**2
    )


def test_what_a_view_tells_of_a_computed_column():
    view = with_bmi(protect(public=["weight", "height"]))
    assert view.schema.columns["bmi"].public
    assert not with_bmi(protect(public=["weight"])).schema.columns["bmi"].public
    assert "bmi: (weight / (height ** 2)); from 9.07029 to 81.6327 (public)" in repr(view)
    assert "bmi" not in view.to_toml()
    assert "bmi" not in view.schema.dummy(5)
    assert view.mean("bmi", epsilon=1).privacy.epsilon == 0
    assert view.power(("ttest", "bmi", {"by": "sex"}), n=50, epsilon=1, runs=4).shares[0][0] <= 1
    limited = view.with_columns(tall=col("height"), bounds={"tall": (1.6, 1.8)})
    assert limited.schema.columns["tall"].bounds == (1.6, 1.8)
    assert limited.ttest("tall", popmean=1.7, epsilon=20).clipped[0][0][0] > 0.05


def test_a_changed_formula_tells_of_the_same_rows():
    """Two answers that differ by a formula are of the same people: none is for the population."""
    view = protect()
    one, two = (
        view.with_columns(z=each).mean("z", epsilon=1, covers="population") for each in (col("age"), 2 * col("age"))
    )
    assert (two - one).covers == "limited table"


REFUSED = {
    "no column": ({}, "no column"),
    "unknown": ({"z": col("bmj") + 1}, "no column 'bmj'"),
    "itself": ({"z": col("z") + 1}, "no column 'z'"),
    "a later one": ({"z": col("y") + 1, "y": col("age")}, "no column 'y'"),
    "taken": ({"age": col("age") + 1}, "a column 'age' already"),
    "text": ({"z": "age + 1"}, "not an expression"),
    "a function of rows": ({"z": lambda df: 3}, "not an expression"),
    "0 divides": ({"z": col("weight") / col("age")}, "do not follow.*any number to any number"),
    "log 0": ({"z": col("age").log()}, "any number to 4.7"),
    "label": ({"z": col("sex") + 1}, "a label is not a number"),
    "no such label": ({"z": col("sex") == "woman"}, "'woman' is not among the labels"),
    "no such labels": ({"z": col("sex").isin(["f", "x"])}, "'x' is not among the labels"),
    "no such key": ({"z": col("sex").map({"F": 1})}, "'F' is not among the labels"),
    "keys of a number": ({"z": col("age").map({"old": 1, 3: 2})}, "a label is not a number"),
    "values of a number": ({"z": col("age").isin([3, "old"])}, "a label is not a number"),
    "truth": ({"z": col("age") & col("weight")}, "must be true or false"),
    "mixed": ({"z": col("age").where(col("sex") == "f", "old")}, "mix numbers and labels"),
    "constant": ({"z": col("age") * 0}, "equal or reversed"),
    "undeclared": ({"z": col("other") + 1}, "has no bounds"),
    "bounds of another": ({"z": col("age") + 1, "bounds": {"age": (0, 1)}}, "bounds names a column 'age'"),
    "wrong bounds": ({"z": col("age") + 1, "bounds": {"z": (1, 0)}}, "reversed"),
}


@pytest.mark.parametrize(("columns", "why"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_computed_is_refused(columns, why):
    view = protect(DATA.assign(other=1))
    with pytest.raises((dp.ArgumentError, dp.SchemaError), match=why):
        view.with_columns(**columns)
    assert view.budget.spent == 0


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: col(3), "named by a string"),
        (lambda: bool(col("age") > 3), "differs from row to row"),
        (lambda: col("age") + None, "the operand=None"),
        (lambda: col("sex") > "f", "the operand='f'"),
        (lambda: col("age") + float("nan"), "the operand=nan"),
        (lambda: col("age") ** col("age"), "from -64 to 64"),
        (lambda: col("age") ** 1e9, "from -64 to 64"),
        (lambda: col("age").clip(3, 1), "reversed"),
        (lambda: col("age").cut([3, 2, 1]), "do not increase"),
        (lambda: col("age").cut([1]), "do not increase"),
        (lambda: col("age").cut(range(10**9)), "1 to 100,000"),
        (lambda: col("age").cut([1, 2, 3], ["a"]), "2 different labels, one for each"),
        (lambda: col("age").cut([1, 2, 3], ["a", "a"]), "2 different labels, one for each"),
        (lambda: col("age").map({}), "1 to 100,000"),
        (lambda: col("age").map(dict.fromkeys(range(10**5 + 1), 1)), "1 to 100,000"),
        (lambda: col("age").isin(range(10**9)), "1 to 100,000"),
        (lambda: col("age").isin([]), "1 to 100,000"),
        (lambda: col("age").round(1.5), "not an integer"),
        (lambda: np.sin(col("age")), "sin cannot be applied"),
        (lambda: np.add.reduce(col("age")), "cannot be applied to columns"),
    ],
)
def test_expressions_that_make_no_sense_are_refused(make, why):
    with pytest.raises(dp.ArgumentError, match=why):
        make()
