"""People with several rows: what is public, kept, shown and refused."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.tables import read_relation, write_relation

from .helpers import Rank

SAID = {"bounds": {"x": (0.0, 8.0)}, "categories": {"g": ["a", "b"]}}
OTHERS = [(1, 8.0, "a"), (2, 0.0, "b"), (2, 3.0, "a"), (2, 5.0, "b"), (2, 8.0, "b"), (1, 2.0, "a")]


def frame_of(rows):
    return pl.DataFrame(rows, schema={"pid": pl.Int64, "x": pl.Float64, "g": pl.String}, orient="row")


def protected(name="table", frame=None, **terms):
    said = {"epsilon": 99, "unit": "pid", "max_rows": 2, "ledger": "memory:", **SAID, **terms}
    return dp.protect(frame_of(OTHERS * 20) if frame is None else frame, name, **said)


@pytest.fixture
def register():
    """Let every view have a method, until the end of a test."""
    made = []

    def registered(function):
        made.append(dp.register_mechanism(function))

    yield registered
    for each in made:
        dp.unregister(each.name)


# What is public


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_the_number_of_rows_is_private(neighbors, register):
    """Neither the rows nor the sizes of groups are known, whatever the relation, also where people are counted."""

    @dp.mechanism(columns={"by": "category"})
    def curious(curator, by):
        "What a mechanism is told."
        curator.sum(features.OneHot(by))
        return [curator.size, curator.sizes(by), curator.typical_size]

    register(curious)
    found = protected(neighbors=neighbors, **({"size": 2} if neighbors == "replace_one" else {})).curious(
        "g", epsilon=1
    )

    assert found.value == [None] * 3
    assert found.privacy.epsilon == 1


def test_the_number_of_people_may_be_public():
    """Where somebody said it, also of some of them; a wrong number is found out, after the charge."""
    frame = pd.DataFrame({"pid": np.arange(200) // 4, "x": np.linspace(0, 8, 200), "g": ["a", "b"] * 100})
    view = protected("people", frame, max_rows=4, size=50)
    each = view.per("pid").agg(x="mean", g="first")
    wrong = protected("wrong", frame, max_rows=4, size=49).per("pid").agg(x="mean")

    assert each.schema.size == each.where(x=(0, 4)).schema.size == 50
    assert not each.where(x=(0, 4))._target.table.is_public(())
    assert each.ttest("x", popmean=4, epsilon=1).privacy.rows_note == ""
    assert "exchanged for those of another" in str(each.sum("x", epsilon=2).privacy)
    with pytest.raises(dp.ReadError, match="protected with 49 rows"):
        wrong.mean("x", epsilon=1)


def test_a_table_of_another_size_is_not_read():
    """Where somebody says how many rows there are, they are not counted; a wrong number is found out."""
    terms = {"unit": None, "max_rows": None}
    right, wrong = (protected(f"sized {size}", frame_of(OTHERS), size=size, **terms) for size in (len(OTHERS), 3))
    frame = frame_of(OTHERS).to_pandas()
    changed = protected("changed", frame)
    changed.sum("x", epsilon=1)
    frame.loc[len(frame)] = frame.loc[0]

    assert right.schema.size == len(OTHERS)
    assert right.sum("x", epsilon=1).privacy.epsilon == 1
    for view in (wrong, changed):  # rows of people are chosen by their place
        with pytest.raises(dp.ReadError, match=" rows"):
            view.sum("x", epsilon=2)
    assert protected("arrow", pa.table({"x": [1.0]}), size=1, categories={}, **terms).schema.size == 1


MAKES = {
    "polars": pl.DataFrame, "lazy": pl.LazyFrame, "arrow": pa.table,
    "data set": lambda columns: ds.dataset(pa.table(columns)),
    "pandas": lambda columns: pl.DataFrame(columns).to_pandas(use_pyarrow_extension_array=True),
    "pandas objects": lambda columns: pd.DataFrame(columns, dtype=object),
}  # fmt: skip


@pytest.mark.parametrize("ids", [[1, None, 2, 2, None], ["p", None, "q", "q", None]], ids=["numbers", "texts"])
@pytest.mark.parametrize("make", MAKES)
def test_missing_names_are_alike_on_all_frames(make, ids):
    """Left out, or each a person of its own: rows, people, and people in a sample of nearly all."""
    for missing, people in (("omit", 2), ("own", 4)):
        frame = MAKES[make]({"pid": ids, "x": [1.0] * 5, "g": ["a"] * 5})
        view = protected(f"missing {missing}", frame, epsilon=1000, max_rows=1, unit_missing=missing)

        for part in (view, view.per("pid").agg(x="mean"), view.sample("999999999999/1000000000000")):
            assert round(part.count(epsilon=100).value) == people


# What is kept


def test_an_accounts_promise_is_kept():
    """Another unit, number of rows or rule for missing names is another promise, and the key is shown nowhere."""
    frame = frame_of(OTHERS).with_columns(other="pid")
    view = protected("promise", frame)
    account = open_ledger("memory:").account("promise")
    alone = {"unit": None, "max_rows": None}

    for changed in ({"max_rows": 3}, {"unit": "other"}, {"unit_missing": "own"}, alone):
        with pytest.raises(dp.AccountMismatch, match=f"{next(iter(changed))} = "):
            protected("promise", frame, **changed)
    with pytest.raises(dp.AccountMismatch):  # grouped by people, it would be another account's
        protected("promise", frame, **alone, categories={"pid": [1, 2]})
    by_people = (
        protected("another", frame, **alone, categories={"pid": [1, 2]}).group_by("pid").mean("x", epsilon=1)
    )
    assert "content of one row" in str(by_people.privacy)
    assert open_ledger("memory:").account("promise").key == account.key
    assert len(bytes.fromhex(account.key)) == 32
    assert account.key not in f"{view!r}{view.budget!r}{view.budget.to_dict()}{account!r}"
    assert "at most" in repr(view)
    assert "pid: identifies people" in repr(view)


def test_a_relation_is_read_as_it_was_written():
    """Also as schema 4 wrote it; and what nobody wrote is damage."""
    given = "replace_one", "ab" * 32
    assert read_relation(write_relation(*given)) == given
    assert read_relation("add_remove") == ("add_remove", "")
    good = {**json.loads(write_relation(*given)), "unit": "pid", "max_rows": 3, "unit_missing": "own"}
    assert read_relation(json.dumps(good)) == given
    for changed in ({"max_rows": 0}, {"max_rows": True}, {"key": "ab"}, {"unit_missing": "any"}, {"more": 1}):
        with pytest.raises((ValueError, TypeError, KeyError)):
            read_relation(json.dumps({**good, **changed}))


def test_a_view_that_nobody_held_is_made_again():
    """With the same rows left out; and a copy carries none."""
    frame = frame_of([(who, float(visit), "a") for who in range(30) for visit in range(who % 7 + 1)])
    view = protected("again", frame, max_rows=1)
    of = features.Moments(view._target.table.schema.numeric("x"))
    before = view._target.table.total(of, 0)
    copy = pickle.loads(pickle.dumps(view.per("pid").agg(x="mean")._target.table))  # noqa: S301
    del view

    assert frame.dp.view._target.table.total(of, 0) == before
    with pytest.raises(dp.NotProtected):
        copy.require_rows()


def clustered():
    """People with large numbers have more rows, so a mean over rows is another one than over people."""
    rng = np.random.default_rng(0)
    own = rng.normal(size=400)
    frame = pd.DataFrame({"pid": np.repeat(np.arange(400), 5)})
    frame["x"] = np.clip(own[frame.pid] + rng.normal(size=len(frame)) * 0.1, -4, 4)
    frame["g"] = np.where(own[frame.pid] > 0, "a", "b")
    frame["y"] = np.arange(len(frame)) % 7.0
    return frame[frame.groupby("pid").cumcount() < np.where(frame.g == "a", 5, 1)].reset_index(drop=True)


VIEWS = {
    "rows": lambda v: v,
    "people": lambda v: v.per("pid").agg(x="mean", g="first"),
    "where": lambda v: v.where(g="a"),
    "declared": lambda v: v.declare(bounds={"y": (0, 7)}),
    "people_where": lambda v: v.where(g="a").per("pid").agg(x="max", g="last"),
    "of_people": lambda v: v.per("pid").agg(x="mean", g="first").where(g="b"),
}


def of_clustered():
    return protected("clustered", clustered(), bounds={"x": (-4, 4)}, epsilon=10**6, accounting="basic", max_rows=3)


@pytest.mark.parametrize(("of", "through"), [*zip(VIEWS, ["people", "rows", "sample"] * 2, strict=True)])
def test_a_refined_answer_is_of_the_rows_that_were_asked(of, through):
    """Whichever view of the data set asks again, with the sensitivity that these rows have, for the same charge."""
    view = of_clustered()
    first = VIEWS[of](view).mean("x", epsilon=10**4)
    second = (view.sample("1/2") if through == "sample" else VIEWS[through](view)).refine(first, epsilon=10**4)

    assert math.isclose(first.value, second.estimate, abs_tol=1e-3)
    assert second.privacy.noise[0].sensitivity == first.privacy.noise[0].sensitivity
    assert view.budget.spent == 2 * 10**4


def test_an_answer_whose_rows_are_gone_is_not_refined():
    """That came from JSON, or whose view was dropped: nothing is paid."""
    terms = {"unit": None, "max_rows": None, "bounds": {"x": (-4, 4)}, "epsilon": 10**6}
    first = protected("dropped", clustered(), **terms).mean("x", epsilon=10**4)
    again = protected("dropped", clustered(), **terms)
    for answer in (first, dp.Release.from_json(first.to_json())):
        with pytest.raises(dp.ArgumentError, match=r"was deleted|not known to this process"):
            again.refine(answer, epsilon=10**4)

    assert again.budget.spent == 10**4


def test_answers_about_other_rows_are_not_exchanged():
    """Tables that were made in other ways and look the same, or of rows that another declaration chooses."""
    view = of_clustered()
    answers = [make(each).mean("x", epsilon=100) for make in (VIEWS["rows"], VIEWS["people"], VIEWS["people_where"])
               for each in (view, VIEWS["declared"](view))]  # fmt: skip
    made = [{"x": "mean"}, {"x": "max"}]
    sums = [view.per("pid").agg(each).sum("x", epsilon=10) for each in made]

    assert [each.privacy.epsilon for each in answers] == [100] * 6
    assert answers[0].value != answers[1].value
    assert [each.privacy.epsilon for each in sums] == [10] * 2
    assert VIEWS["declared"](view).mean("x", epsilon=100).privacy.replayed


# What is shown


@dp.mechanism(columns={"column": "numeric"})
def raw_total(curator, column):
    "A mechanism without a class of its own."
    return float(curator.sum(features.Moments(column)).values[0])  # noqa: PD011 - no frame's


ASSUME = {
    "ttest": {"column": "x", "popmean": 4}, "ztest": {"column": "x", "popmean": 4, "sigma": 2},
    "wilcoxon": {"column": "x", "popmean": 4}, "kruskal": {"column": "x", "by": "o"},
    "anova": {"column": "x", "by": "o"}, "chi2": {"x": "o", "by": "h"},
    "proportions": {"column": "o", "by": "h", "success": "a"}, "ols": {"y": "y ~ x"},
    "logit": {"y": "o ~ x", "epsilon": 20}, "mannwhitneyu": {"column": "x", "by": "h"},
    "kernel_two_sample": {"columns": ["x"], "by": "h", "n_locations": 20}, "moments": {"columns": ["x", "y"]},
    "mean": {"column": "x", "covers": "population"}, "raw_total": {"column": "x"},
}  # fmt: skip
DO_NOT = {
    "mean": {"column": "x"}, "std": {"column": "x"}, "describe": {"epsilon": 9}, "corr": {"columns": ["x", "y"]},
    "value_counts": {"column": "o"}, "median": {"column": "x"},
}  # fmt: skip


def test_every_answer_that_assumes_independent_rows_says_so(register):
    """Once in the text, and in the notes of a class that has some; intervals for the table do not assume it."""
    rng, n = np.random.default_rng(3), 1000
    table = {"pid": np.arange(n) // 4, **{name: rng.uniform(0, 8, n) for name in "xy"}}
    table |= {name: rng.choice(["a", "b"], n) for name in "gho"}
    said = {"bounds": {"x": (0, 8), "y": (0, 8)}, "categories": {name: ["a", "b"] for name in "gho"}}
    view, single = (
        protected(f"rows {most}", pd.DataFrame(table), epsilon=999, **said, max_rows=most) for most in (4, 1)
    )
    register(raw_total)

    def ask(asked, name, given):
        return getattr(asked, name)(**{"epsilon": 5, **given})

    for name, given in ASSUME.items():
        for asked in (view, view.group_by("g")) if name != "kernel_two_sample" else (view,):
            answer = ask(asked, name, given)
            first = answer.releases[0] if asked is not view else answer
            assert repr(answer).count("are correlated") == 1, name
            assert not hasattr(first, "notes") or answer.privacy.rows_note == first.notes[-1], name
    assert not [name for name, given in DO_NOT.items() if "are correlated" in repr(ask(view, name, given))]
    release, alone = (ask(each, "ttest", ASSUME["ttest"]) for each in (view, single))
    assert "Up to 4 rows of one 'pid' are correlated" in release.notes[-1]
    assert repr(release).count("view.per('pid')") == 1
    assert (alone.privacy.rows_note, alone.privacy.unit, "correlated" in repr(alone)) == ("", "pid", False)


# What is refused

BAD = [
    {"max_rows": 0},
    {"max_rows": -1},
    {"max_rows": 2.0},
    {"max_rows": True},
    {"max_rows": "2"},
    {"max_rows": 10**9},
    {"max_rows": None},
    {"unit": None},
    {"unit": "nobody"},
    {"unit": 3},
    {"unit": "x"},  # fractions
    {"unit": "date"},
    {"unit": "true"},
    {"bounds": {"x": (0, 8), "pid": (0, 9)}},
    {"categories": {"pid": [1, 2]}},
    {"missing": {"pid": 1}},
    {"public": ["pid"]},
    {"public": ["g"]},
    {"unit_missing": "keep"},
    {"size": 0},
    {"size": 1.5},
    {"size": True},
    {"size": 2, "neighbors": "add_remove"},
    {"categories": {"g": dp.discover()}},
]


@pytest.mark.parametrize("terms", BAD)
def test_what_cannot_be_a_unit_is_refused(terms):
    """Before an account is opened; that fractions and dates name nobody, on every engine."""
    frame = frame_of(OTHERS).with_columns(date=pl.col("pid").cast(pl.Date), true=pl.col("pid") > 1)
    typed = terms.get("unit") in ("x", "date", "true")
    for each in (frame, frame.to_pandas(), frame.to_arrow(), frame.lazy()) if typed else (frame,):
        with pytest.raises(
            (dp.SchemaError, dp.ArgumentError), match="integers or text" if typed else None
        ) as error:
            protected("bad", each, **{"bounds": {}, **terms} if typed else terms)

        assert error.value.hint
    assert open_ledger("memory:").accounts() == []


@pytest.fixture
def views(register):
    """Views of which something is refused."""

    @dp.mechanism(columns={"by": "category"})
    def chosen(curator, by):
        "Measure, and choose."
        curator.sum(features.OneHot(by), share="1/2")
        return int(curator.select(Rank(by))[0])

    register(chosen)
    frame = frame_of(OTHERS * 20).with_columns(z=pl.col("x") / 2)
    terms = {"bounds": {"x": (0, 8), "z": (0, 8)}, "delta": 1e-6}
    alone = protected("alone", frame, unit=None, max_rows=None)
    return protected("first", frame, size=2, **terms), protected("second", frame, size=2, **terms), alone


AGGREGATES = [
    {}, {"x": "median"}, {"y": "mean"}, {"g": "mean"}, {"x": ("x", "mean", (0, 1))}, {"x": ("y", "mean")},
    {"x": ("x", "sum", (5, 1))}, {"pid": "count"}, {"w": ("pid", "first")}, {"x": 3}, {"x": ("x",)},
    {"x": ["x", "mean"]},
]  # fmt: skip
REFUSED = [
    (lambda v, *_: v.declare(categories={"pid": [1, 2]}), dp.SchemaError, None),
    (lambda v, *_: v.declare(bounds={"pid": (0, 9)}), dp.SchemaError, None),
    (lambda v, *_: v.group_by("pid"), dp.SchemaError, "identifies people"),
    (lambda v, *_: v.where(pid=1), dp.SchemaError, "identifies people"),
    (lambda v, *_: v.mean("pid", epsilon=1), dp.SchemaError, "identifies people"),
    # What is proved for one row, or a known number of them
    (lambda v, *_: v.find_categories(["g"], epsilon=1), dp.ArgumentError, None),
    (lambda v, *_: v.profile(epsilon=1), dp.ArgumentError, None),
    (lambda v, *_: v.dcor("x", "z", epsilon=1), dp.ArgumentError, None),
    # What is chosen for each group, where a person may be in several
    (lambda v, *_: v.group_by("g").chosen("g", epsilon=1), dp.ArgumentError, r"view.per\('pid'\)"),
    (lambda v, w, _: v.kernel_two_sample(["x"], other=w, epsilon=1), dp.ArgumentError, r"view.per\('pid'\)"),
    (lambda *v: v[2].per("pid"), dp.ArgumentError, "max_rows"),
    (lambda v, *_: v.per("g"), dp.ArgumentError, None),
    (lambda v, *_: v.where(lambda row: True).per("pid"), dp.ArgumentError, "Python function"),
    *((lambda v, *_, asked=asked: v.per("pid").agg(asked), dp.SchemaError, None) for asked in AGGREGATES),
]


def test_what_has_no_proof_is_refused(views):
    """With the way out, and before anything is paid; what is near to it is answered."""
    for ask, error, said in REFUSED:
        with pytest.raises(error, match=said):
            ask(*views)
    assert not any(view.budget.spent for view in views)
    view, other, _ = views
    single, second = (each.per("pid").agg(x="mean") for each in (view, other))
    assert single.kernel_two_sample(["x"], other=second, epsilon=1).privacy.unit == "pid"
    assert view.where(lambda row: "pid" not in row).sum("x", epsilon=1).privacy.epsilon == 1
    assert view.chosen("g", epsilon=1).value == 0
