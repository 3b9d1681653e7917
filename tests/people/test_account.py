"""People with several rows: what is public, kept, shown and refused."""

from __future__ import annotations

import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.tables import read_relation, written_relation
from dfprivacy._measure.evaluate import Table
from dfprivacy._plugins.loader import unregister
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy.schema import Unit
from dfprivacy.statistics import OfSums

KEY = bytes(range(32))
SAID = {"bounds": {"x": (0.0, 8.0)}, "categories": {"g": ["a", "b"]}}
OTHERS = [(1, 8.0, "a"), (2, 0.0, "b"), (2, 3.0, "a"), (2, 5.0, "b"), (2, 8.0, "b"), (1, 2.0, "a")]
VISITS = [(who, float(visit), "a") for who in range(30) for visit in range(who % 7 + 1)]


def frame_of(rows):
    return pl.DataFrame(rows, schema={"pid": pl.Int64, "x": pl.Float64, "g": pl.String}, orient="row")


def table_of(rows, neighbors, most=2, missing="omit", key=KEY, known=None):
    unit = Unit("pid", most, missing)
    frame = adapt(frame_of(rows))
    said = {**SAID, "public": (), "missing": None, "neighbors": neighbors}
    schema = read_schema(frame, **said, unit=unit)
    return Table(frame, schema, key=key, known=[*schema.columns.values()][:known])


def by_category(table):
    """The counts of the categories."""
    return features.OneHot(table.schema.categorical("g"))


def protected(name="table", frame=None, **terms):
    said = {"epsilon": 99, "unit": "pid", "max_rows": 2, "ledger": "memory:", **SAID, **terms}
    return dp.protect(frame_of(OTHERS * 20) if frame is None else frame, name, **said)


def test_the_column_of_people_is_private_in_every_view_of_an_account():
    """Grouped by in a table that protects rows one by one, it is a column like any other: of another account."""
    frame = frame_of(OTHERS)
    protected("one", frame)
    terms = {"unit": None, "max_rows": None, "categories": {"pid": [1, 2]}}

    with pytest.raises(dp.AccountMismatch):
        protected("one", frame, **terms)
    other = protected("another", frame, **terms).group_by("pid").mean("x", epsilon=1)
    assert "content of one row" in str(other.privacy)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_the_number_of_rows_is_private(neighbors):
    """Neither the rows nor the sizes of groups are known, whatever the relation, also where people are counted."""
    terms = {"size": 2} if neighbors == "replace_one" else {}
    view = protected(neighbors=neighbors, **terms)

    @dp.mechanism(columns={"by": "category"})
    def curious(curator, by):
        "What a mechanism is told."
        curator.sum(features.OneHot(by))
        return {"size": curator.size, "sizes": curator.sizes(by), "typical": curator.typical_size}

    dp.register_mechanism(curious)

    assert view.curious("g", epsilon=1).value == {"size": None, "sizes": None, "typical": None}
    assert view.curious("g", epsilon=1).privacy.epsilon == 1
    unregister("curious")


def test_the_result_says_what_misleads():
    """A result about rows of people says so and names the way out; one of a row each does not."""
    release = protected().ttest("x", popmean=4, epsilon=5)
    single = protected("single", max_rows=1).ttest("x", popmean=4, epsilon=5)

    assert "Up to 2 rows of one 'pid' are correlated" in release.notes[-1]
    assert repr(release).count("view.per('pid')") == 1
    assert (single.privacy.rows_note, single.privacy.unit) == ("", "pid")
    assert "correlated" not in repr(single)
    assert dp.Release.from_dict(json.loads(json.dumps(release.to_dict()))) == release


@dp.mechanism(columns={"column": "numeric"})
def raw_total(curator, column):
    "A mechanism without a class of its own."
    return float(curator.sum(features.Moments(column)).values[0])  # noqa: PD011 - no frame's


ASSUME = {
    "ttest": lambda v: v.ttest("x", popmean=4, epsilon=5),
    "ztest": lambda v: v.ztest("x", popmean=4, sigma=2, epsilon=5),
    "wilcoxon": lambda v: v.wilcoxon("x", popmean=4, epsilon=5),
    "kruskal": lambda v: v.kruskal("x", by="o", epsilon=5),
    "anova": lambda v: v.anova("x", by="o", epsilon=5),
    "chi2": lambda v: v.chi2("o", by="h", epsilon=5),
    "proportions": lambda v: v.proportions("o", by="h", success="a", epsilon=5),
    "ols": lambda v: v.ols("y ~ x", epsilon=5),
    "logit": lambda v: v.logit("o ~ x", epsilon=20),
    "mannwhitneyu": lambda v: v.mannwhitneyu("x", by="h", epsilon=5),
    "kernel": lambda v: v.kernel_two_sample(["x"], by="h", epsilon=5),
    "moments": lambda v: v.moments(["x", "y"], epsilon=5),
    "mean": lambda v: v.mean("x", covers="population", epsilon=5),
    "raw_total": lambda v: v.raw_total("x", epsilon=5),
}
DO_NOT = {
    "mean": lambda v: v.mean("x", epsilon=5),
    "std": lambda v: v.std("x", epsilon=5),
    "describe": lambda v: v.describe(epsilon=9),
    "corr": lambda v: v.corr(["x", "y"], epsilon=5),
    "value_counts": lambda v: v.value_counts("o", epsilon=5),
    "median": lambda v: v.median("x", epsilon=5),
}


def test_every_answer_that_assumes_independent_rows_says_so():
    """Once in the text, and in the notes of a class that has some; intervals for the table do not assume it."""
    rng = np.random.default_rng(3)
    table = {"pid": np.arange(4000) // 4, "x": rng.uniform(0, 8, 4000), "y": rng.uniform(0, 8, 4000)}
    table |= {name: rng.choice(["a", "b"], 4000) for name in "gho"}
    said = {"bounds": {"x": (0, 8), "y": (0, 8)}, "categories": {name: ["a", "b"] for name in "gho"}}
    view = dp.protect(pd.DataFrame(table), "rows", epsilon=999, **said, unit="pid", max_rows=4, ledger="memory:")
    dp.register_mechanism(raw_total)

    for name, ask in ASSUME.items():
        for asked in (view, view.group_by("g")) if name != "kernel" else (view,):
            answer = ask(asked)
            first = answer.releases[0] if asked is not view else answer
            assert repr(answer).count("are correlated") == 1, name
            assert not hasattr(first, "notes") or answer.privacy.rows_note == first.notes[-1], name
            assert dp.Release.from_json(answer.to_json()) == answer, name
    assert not [name for name, ask in DO_NOT.items() if "are correlated" in repr(ask(view))]
    unregister("raw_total")


def test_an_accounts_promise_is_kept():
    """Another unit, number of rows or rule for missing names is another promise, and the key is shown nowhere."""
    frame = frame_of(OTHERS).with_columns(other="pid")
    view = protected("promise", frame)
    key = open_ledger("memory:").account("promise").key

    for changed in ({"max_rows": 3}, {"unit": "other"}, {"unit_missing": "own"}, {"unit": None, "max_rows": None}):
        with pytest.raises(dp.AccountMismatch, match="neighbors"):
            protected("promise", frame, **changed)
    assert open_ledger("memory:").account("promise").key == key
    assert len(bytes.fromhex(key)) == 32
    shown = f"{view!r}{view.budget!r}{view.budget.to_dict()}{open_ledger('memory:').account('promise')!r}"
    assert key not in shown
    assert "at most" in repr(view)
    assert "pid: says whose a row is" in repr(view)


def test_a_relation_is_read_as_it_was_written():
    """And what nobody wrote is damage."""
    whose = ("pid", 3, "own")
    assert read_relation(written_relation("replace_one", whose, "ab" * 32)) == ("replace_one", whose, "ab" * 32)
    assert read_relation("add_remove") == ("add_remove", None, "")
    good = json.loads(written_relation("replace_one", whose, "ab" * 32))
    for changed in ({"max_rows": 0}, {"max_rows": True}, {"key": "ab"}, {"unit_missing": "any"}, {"more": 1}):
        with pytest.raises((ValueError, TypeError, KeyError)):
            read_relation(json.dumps({**good, **changed}))


def test_a_view_that_nobody_held_is_made_again():
    """With the same rows left out; and a copy carries none."""
    frame = frame_of(VISITS)
    view = protected("again", frame, max_rows=1)
    before = view._target.table.total(by_category(table_of(OTHERS, "add_remove")), 0)
    copy = pickle.loads(pickle.dumps(view.per("pid").agg(x="mean")._target.table))  # noqa: S301
    del view

    assert frame.dp.view._target.table.total(by_category(table_of(OTHERS, "add_remove")), 0) == before
    with pytest.raises(dp.NotProtected):
        copy.present()


BAD = {
    "no rows": {"max_rows": 0},
    "fewer than none": {"max_rows": -1},
    "a fraction": {"max_rows": 2.0},
    "a boolean": {"max_rows": True},
    "text": {"max_rows": "2"},
    "very many": {"max_rows": 10**9},
    "no number": {"max_rows": None},
    "no unit": {"unit": None},
    "an unknown column": {"unit": "nobody"},
    "no name": {"unit": 3},
    "fractions": {"unit": "x"},
    "among the bounds": {"bounds": {"x": (0, 8), "pid": (0, 9)}},
    "among the categories": {"categories": {"pid": [1, 2]}},
    "among the missing": {"missing": {"pid": 1}},
    "public": {"public": ["pid"]},
    "something public": {"public": ["g"]},
    "another rule": {"unit_missing": "keep"},
    "no people": {"size": 0},
    "half a person": {"size": 1.5},
    "true people": {"size": True},
    "presence and a number": {"size": 2, "neighbors": "add_remove"},
    "categories to find": {"categories": {"g": dp.discover()}},
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_a_unit_is_refused(case):
    """Before an account is opened."""
    with pytest.raises((dp.SchemaError, dp.ArgumentError)) as error:
        protected("bad", **BAD[case])

    assert error.value.hint
    assert [account.name for account in open_ledger("memory:").accounts()] == []


@pytest.mark.parametrize("make", [lambda f: f, lambda f: f.to_pandas(), lambda f: f.to_arrow(), lambda f: f.lazy()])
def test_fractions_and_dates_name_nobody(make):
    """On every engine, by the type of the column alone."""
    frame = frame_of(OTHERS).with_columns(
        f=pl.col("pid").cast(pl.Float64), d=pl.col("pid").cast(pl.Date), b=pl.col("pid") > 1
    )
    for name in "fdb":
        with pytest.raises(dp.SchemaError, match="whole numbers or text"):
            protected("typed", make(frame), unit=name)


MAKES = {
    "polars": pl.DataFrame,
    "lazy": lambda columns: pl.DataFrame(columns).lazy(),
    "arrow": pa.table,
    "data set": lambda columns: ds.dataset(pa.table(columns)),
    "pandas": lambda columns: pl.DataFrame(columns).to_pandas(use_pyarrow_extension_array=True),
    "pandas objects": lambda columns: pd.DataFrame(columns, dtype=object),
}


@pytest.mark.parametrize("ids", [[1, None, 2, 2, None], ["p", None, "q", "q", None]])
@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize(("missing", "people"), [("omit", 2), ("own", 4)])
def test_missing_names_are_alike_on_all_frames(make, ids, missing, people):
    """Left out, or each a person of its own: rows, people, and people in a sample of nearly all."""
    frame = MAKES[make]({"pid": ids, "x": [1.0] * 5, "g": ["a"] * 5})
    view = protected("missing", frame, epsilon=1000, max_rows=1, unit_missing=missing)

    assert round(view.count(epsilon=100).value) == people
    assert round(view.per("pid").agg(x="mean").count(epsilon=100).value) == people
    assert round(view.sample("999999999999/1000000000000").count(epsilon=100).value) == people


def test_nobody_is_grouped_by():
    """The column that names people is in no question of the account."""
    view = protected("grouped")

    with pytest.raises(dp.SchemaError):
        view.declare(categories={"pid": [1, 2]})
    with pytest.raises(dp.SchemaError):
        view.declare(bounds={"pid": (0, 9)})
    for ask in (lambda: view.group_by("pid"), lambda: view.where(pid=1), lambda: view.mean("pid", epsilon=1)):
        with pytest.raises(dp.SchemaError, match="says whose a row is"):
            ask()
    assert view.where(lambda row: "pid" not in row).sum("x", epsilon=1).privacy.epsilon == 1


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("find_categories", (["g"],)), ("profile", ()), ("dcor", ("x", "z"))],
)
def test_what_is_proved_for_one_row_is_refused(method, arguments):
    """With the way out, and before anything is paid."""
    frame = frame_of(OTHERS * 20).with_columns(z=pl.col("x") / 2)
    view = protected("refused", frame, bounds={"x": (0, 8), "z": (0, 8)}, delta=1e-6)

    with pytest.raises(dp.ArgumentError):
        getattr(view, method)(*arguments, epsilon=1)
    assert view.budget.spent == 0


class Rank(OfSums):
    """A statistic of counts that one row more moves by 1, one exchanged by 2."""

    shape = (1,)

    def __init__(self, column):
        self.features = features.OneHot(column)
        self.columns = (column,)

    def value(self, sums):
        return sums[0] - sums[1]

    def sensitivity(self, relation, norm, public):
        return 2.0 if relation == "replace_one" else 1.0


def test_a_decision_by_group_is_refused_before_anything_is_paid():
    """A quantile chosen for each group, where a person may be in several."""

    @dp.mechanism(columns={"by": "category"})
    def chosen(curator, by):
        "Measure, and choose."
        curator.sum(features.OneHot(by), share="1/2")
        return int(curator.select(Rank(by))[0])

    dp.register_mechanism(chosen)
    view = protected(
        "chosen", categories={"g": ["a", "b"], "h": ["a"]}, frame=frame_of(OTHERS).with_columns(h=pl.lit("a"))
    )

    assert view.chosen("g", epsilon=1).value == 0
    with pytest.raises(dp.ArgumentError, match=r"view.per\('pid'\)"):
        view.group_by("h").chosen("g", epsilon=1)
    assert view.budget.spent == 1
    unregister("chosen")


def test_per_needs_the_unit_that_was_protected():
    """Of rows that are protected one by one, one row of several is no row of the promise."""
    with pytest.raises(dp.ArgumentError, match="max_rows"):
        protected("rows", unit=None, max_rows=None).per("pid")
    with pytest.raises(dp.ArgumentError):
        protected("units").per("g")
    with pytest.raises(dp.ArgumentError, match="Python function"):
        protected("units").where(lambda row: True).per("pid")


@pytest.mark.parametrize(
    "asked",
    [
        {}, {"x": "median"}, {"y": "mean"}, {"g": "mean"}, {"x": ("x", "mean", (0, 1))}, {"x": ("y", "mean")},
        {"x": ("x", "sum", (5, 1))}, {"pid": "count"}, {"w": ("pid", "first")}, {"x": 3}, {"x": ("x",)},
        {"x": ["x", "mean"]},
    ],
)  # fmt: skip
def test_what_cannot_be_aggregated_is_refused(asked):
    """And the error says what can."""
    with pytest.raises(dp.SchemaError):
        protected("agg").per("pid").agg(asked)


def test_two_tables_of_several_rows_are_not_asked_together():
    """A table with one row each is."""
    first, second = protected("first", size=2), protected("second", size=2)

    with pytest.raises(dp.ArgumentError, match=r"view.per\('pid'\)"):
        first.kernel_two_sample(["x"], other=second, epsilon=1)
    single, other = (each.per("pid").agg(x="mean") for each in (first, second))
    assert single.kernel_two_sample(["x"], other=other, epsilon=1).privacy.unit == "pid"


def test_a_stated_size_spares_the_count():
    """Rows are not counted where somebody says how many there are; a wrong number is found out."""
    frame = frame_of(OTHERS)
    view = dp.protect(frame, "sized", epsilon=9, **SAID, size=len(OTHERS), ledger="memory:")

    assert view.schema.size == len(OTHERS)
    assert view.sum("x", epsilon=1).privacy.epsilon == 1
    wrong = dp.protect(frame, "wrongly sized", epsilon=9, **SAID, size=3, ledger="memory:")
    with pytest.raises(dp.ReadError, match="3 rows"):
        wrong.sum("x", epsilon=1)
    assert (
        dp.protect(
            pa.table({"x": [1.0]}), "arrow", epsilon=1, size=1, bounds={"x": (0, 8)}, ledger="memory:"
        ).schema.size
        == 1
    )


def test_prices_are_those_of_k_rows():
    """The noise of a sum is k times that of one row, no more; under replace_one as where the number is private."""
    table = {most: table_of(OTHERS, "add_remove", most) for most in (1, 3)}
    of = by_category(table_of(OTHERS, "add_remove"))

    assert [table[3].sensitivity(of, norm) / table[1].sensitivity(of, norm) for norm in (1, 2, math.inf)] == [3] * 3
    assert Fraction(table_of(OTHERS, "replace_one", 3).sensitivity(of, 1)) == 6
