"""Secret samples: who is in them, what they cost, what is said of them, and what is refused."""

from __future__ import annotations

import copy
import functools
import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from sqlalchemy import func, select

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.tables import tables
from dfprivacy._privacy.conversions import epsilon_on_sample
from dfprivacy._privacy.losses import Approximate, Pure
from dfprivacy._table import sample
from dfprivacy.view import PrivateFrame

ROWS = 24
SURE = 600  # an epsilon of which half, for two rows of a person, leaves no doubt about a count
FRAMES = {
    "pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.LazyFrame, "arrow": pa.table,
    "data set": lambda columns: ds.dataset(pa.table(columns)),
}  # fmt: skip


@dp.mechanism(columns={"column": "category"})
def bits(curator, column):
    "How many rows of each number there are, twice, and what is public."
    noisy = [curator.sum(features.OneHot(column), share=Fraction(1, 2)) for _ in range(2)]
    rows = [np.flatnonzero(np.rint(each.values)).tolist() for each in noisy]
    free = noisy[0].noise is None, curator.sizes(column) is not None
    return {"rows": rows, "size": curator.size, "spent": curator.epsilon, "free": free}


@pytest.fixture(autouse=True, scope="module")
def registered():
    """Every view says which rows it saw."""
    dp.register_mechanism(bits)
    yield
    dp.unregister("bits")


def table(**more):
    """Each row has a number; two rows are of each person."""
    rows = [*range(ROWS)]
    return {"x": rows, "pid": [place // 2 for place in rows], "arm": ["a", "b"] * (ROWS // 2), **more}


def protected(make=pl.DataFrame, name="table", columns=None, **terms):
    said = {"epsilon": 10**6, "accounting": "basic", "categories": {"x": range(ROWS), "arm": ["a", "b"]}}
    return dp.protect(make(columns or table()), name, **{**said, "ledger": "memory:", **terms})


def asked(view, times):
    return [view.bits("x", epsilon=SURE, fresh=True).value for _ in range(times)]


# Who is in them


@pytest.mark.parametrize("frame", FRAMES)
def test_who_is_drawn(frame):
    """As many rows as were said, the same ones for all of a question; people with all their rows, by chance."""
    view = protected(FRAMES[frame]).sample(0.3)
    (found,) = asked(view, 1)

    assert found["size"] == view.schema.size == 7
    assert len(found["rows"][0]) == 7
    assert found["rows"][0] == found["rows"][1]
    for neighbors in ("replace_one", "add_remove"):
        people = protected(FRAMES[frame], neighbors, unit="pid", max_rows=2, neighbors=neighbors).sample("1/2")
        for each in (every := asked(people, 3)):
            assert each["size"] is None
            assert each["rows"][1] == each["rows"][0]
            assert {*each["rows"][0]} == {place ^ 1 for place in each["rows"][0]}
        assert any(0 < len(each["rows"][0]) < ROWS for each in every)  # or a chance of 1 in 2,048 came true thrice


def test_rows_of_nobody_are_drawn_by_themselves():
    """Where each is of a person of its own."""
    view = protected(columns=table(pid=[1] + [None] * (ROWS - 1)), unit="pid", max_rows=2, unit_missing="own")
    samples = [{*found["rows"][0]} for found in asked(view.sample("1/2"), 3)]

    assert any(rows != {place ^ 1 for place in rows} for rows in samples)


@pytest.mark.parametrize("terms", [{}, {"neighbors": "add_remove"}, {"unit": "pid", "max_rows": 2}])
def test_every_question_draws_a_sample_of_its_own(terms, monkeypatch):
    """None is drawn before it is paid, and none is seen by two questions."""
    drawn = []
    monkeypatch.setattr(
        sample, "draw_permutation", lambda count, real=sample.draw_permutation: drawn.append(count) or real(count)
    )
    view = protected(epsilon=3 * SURE, **terms).sample("1/2")
    assert not drawn

    found = asked(view, 3)
    with pytest.raises(dp.BudgetExceeded):
        view.bits("x", epsilon=1, fresh=True)

    assert len(drawn) == 3
    assert len({tuple(each["rows"][0]) for each in found}) > 1  # or a chance of less than 1 in 10 million came true


@pytest.mark.parametrize("terms", [{}, {"neighbors": "add_remove"}])
def test_rows_that_are_not_drawn_have_no_influence(terms, monkeypatch):
    """Not even if they are of another type."""
    monkeypatch.setattr(sample, "draw_distinct", lambda below, count: np.arange(count))
    monkeypatch.setattr(sample, "draw_memberships", lambda share, count: np.arange(count) < count // 2)
    odd = table(x=[place if place < ROWS // 2 else None for place in range(ROWS)])

    (plain,), (other,) = (
        asked(protected(name=name, columns=columns, **terms).sample("1/2"), 1)
        for name, columns in {"plain": table(), "odd": odd}.items()
    )

    assert plain["rows"] == other["rows"] == [[*range(ROWS // 2)]] * 2


def test_conditions_groups_people_and_declarations_are_of_the_sample():
    """Selected before or after, asked by group, of a table with one row a person, and declared of the sample."""
    columns = {"x": [1.0] * 4000, "pid": [*range(2000)] * 2, "arm": ["a", "b"] * 2000}
    view = protected(columns=columns, unit="pid", max_rows=2, bounds={"x": (0, 1)}, categories={"arm": ["a", "b"]})
    people, half = view.per("pid").agg(x="sum").sample("1/2"), view.sample("1/2")
    counts = [half.where(arm="a").count(epsilon=50), view.where(arm="a").sample("1/2").count(epsilon=50)]

    for count in (*counts, *half.group_by("arm").count(epsilon=50).releases):
        assert abs(count.value - 1000) < 8 * 2 * np.sqrt(250)  # of a thousand people with two rows of an arm, half
    assert abs(people.count(epsilon=50).value - 1000) < 8 * np.sqrt(500)
    assert abs(people.mean("x", epsilon=50).value - 2) < 0.1
    for terms in ({}, {"unit": "pid", "max_rows": 2}):
        plain = protected(name=f"{len(terms)}", categories={}, **terms).sample("1/2")
        (found,) = asked(plain.declare(categories={"x": range(ROWS)}), 1)
        assert len(found["rows"][0]) < ROWS


def test_no_column_of_a_sample_is_public():
    """For another row may be in the place of one that is not drawn."""
    view = protected(public=["arm"])
    arms = [each.bits("arm", epsilon=1) for each in (view, view.sample("1/2"), view.where(arm="a").sample("1/2"))]

    assert [each.value["free"] for each in arms] == [(True, True), (False, False), (False, False)]
    assert arms[1].privacy.noise[0].sensitivity == pytest.approx(2)
    assert arms[2].privacy.epsilon == 1


# What they cost


def test_the_account_pays_what_was_asked_and_more_is_spent():
    """One charge for all that is measured, whatever the noise, which is that of what is spent; a plan says so."""
    view = protected(delta=1e-3, columns=table(y=[0.5] * ROWS), bounds={"y": (0, 1)}).sample("1/4")
    plan, found = view.explain("bits", "x", epsilon=1), view.bits("x", epsilon=1)
    view.group_by("arm").nunique("x", epsilon=2)
    view.kme_release(["y"], epsilon=1, delta=1e-6)
    spent = float(epsilon_on_sample(Fraction(1), Fraction(1, 4)))

    assert [entry.loss for entry in view._target.account.entries()] == [
        Pure(Fraction(1)),
        Pure(Fraction(2)),
        Approximate(Fraction(1), Fraction(1, 10**6)),
    ]
    assert (found.value["spent"], found.privacy.epsilon) == (spent, 1)
    assert "secret sample of 6 of 24 rows" in str(found.privacy)
    assert sum(noise.sensitivity / noise.scale for noise in found.privacy.noise) == pytest.approx(spent, rel=1e-6)
    assert plan.measurements == found.privacy.noise
    assert f"a secret sample of 6 of 24 rows, on which the question has epsilon {spent:g}" in repr(plan)


@pytest.mark.parametrize("accounting", ["basic", "portfolio", "rdp", "gdp"])
@pytest.mark.parametrize("method", ["bits", "moments"])
def test_what_is_left_is_what_a_sample_can_be_asked_for(accounting, method):
    """Its price is that of whatever noise, which is less than Laplace noise alone may have; then little is left."""
    terms = {"epsilon": 2, "delta": 0 if accounting == "basic" else 1e-6, "accounting": accounting}
    view = protected(columns=table(y=[0.5] * ROWS), bounds={"y": (0, 1)}, **terms)
    for asked in range(40 if accounting == "portfolio" else 1):  # so that the basic filter is not the best
        view.count("x", epsilon=0.01 + asked / 10**6, fresh=True)
    account = view._target.account
    laplace, pure = (account.largest(kind) for kind in ("laplace", "pure"))
    if accounting == "gdp":
        assert pure < laplace
        with pytest.raises(dp.BudgetExceeded, match=f"at most epsilon = {float(pure):.8g}"):
            view.sample("1/2").bits("x", epsilon=laplace)

    privacy = getattr(view.sample("1/2"), method)(["y"] if method == "moments" else "x", epsilon="rest").privacy

    kind = "approximate" if privacy.delta else "pure"
    assert privacy.epsilon > 0
    assert (method == "moments" and accounting != "basic") == (privacy.delta > 0)
    assert account.largest(kind) < privacy.epsilon / 100
    assert account.entries()[-1].loss.kind == kind


def test_nothing_is_kept_but_the_answer():
    """Neither for the table, nor for the sample, nor from the table for it, nor of one sample for another."""
    view = protected()
    whole = view.bits("x", epsilon=1)
    part, again = (view.sample("1/2").bits("x", epsilon=1) for _ in range(2))
    other = view.sample("1/4").bits("x", epsilon=1)
    grouped = view.sample("1/2").group_by("arm")
    first, second = grouped.value_counts("x", epsilon=100), grouped.count(epsilon=100)

    with open_ledger("memory:").account("table").ledger.transaction() as connection:
        kept = connection.execute(select(func.count()).select_from(tables().measurements)).scalar_one()
    assert kept == len(whole.privacy.noise)
    assert not any(noise.reused for each in (part, other, first, second) for noise in each.privacy.noise)
    assert [each.privacy.replayed for each in (whole, part, other, again)] == [False, False, False, True]
    assert again.value == part.value
    assert view.budget.spent == 203
    with pytest.raises(dp.ArgumentError, match="secret sample"):
        dp.combine(lambda r: r.value["spent"], part)


# What is said of them

XY = {"x": np.random.default_rng(7).uniform(0, 1, 4000), "y": np.random.default_rng(8).uniform(0, 1, 4000)}
XY["g"] = np.random.default_rng(9).choice(["a", "b"], 4000)
NUMBERS = [
    lambda v: v.mean("x", epsilon=9), lambda v: v.mean("x", covers="table", epsilon=9),
    lambda v: v.sum("x", epsilon=9), lambda v: v.median("x", epsilon=9),
    lambda v: v.quantile("x", [0.5], epsilon=9), lambda v: v.quantile("x", [0.5], covers="table", epsilon=9),
    lambda v: v.describe(epsilon=9), lambda v: v.corr(["x", "y"], epsilon=9),
    lambda v: v.agg(x=["mean", "std"], epsilon=9), lambda v: v.value_counts("g", epsilon=9),
    lambda v: v.histogram("x", bins=4, epsilon=9), lambda v: v.dcor("x", "y", epsilon=9),
    lambda v: v.group_by("g").mean("x", covers="table", epsilon=9), lambda v: v.group_by("g").describe(epsilon=9),
]  # fmt: skip


def of_numbers(make=pd.DataFrame):
    terms = {"bounds": {"x": (0, 1), "y": (0, 1)}, "categories": {"g": ["a", "b"]}}
    return protected(make, "numbers", XY, **terms)


def test_no_answer_speaks_of_the_table():
    """Its own number is the sample's, in sentences, tables, notes and in `covers`."""
    view = of_numbers()
    part = view.sample("1/10")
    for ask in NUMBERS:
        release = ask(part)
        members = [release, *getattr(release, "releases", ())]
        notes = [note for each in members for note in getattr(each, "notes", ()) if isinstance(note, str)]

        text = " ".join((repr(release) + release.summary() + release.to_markdown() + release._repr_html_()).split())
        assert "the table's" not in text
        assert "for the table" not in text
        assert not any(str(each.covers).endswith("table") for each in members)
        assert not any("the table" in note for note in notes)
    assert "for this sample" in repr(part.mean("x", covers="table", epsilon=1))
    assert "covers  this sample" in repr(part.group_by("g").std("x", epsilon=1))
    assert "for this table" in repr(view.mean("x", epsilon=1))


@pytest.mark.statistical
def test_intervals_for_the_population_hold_for_the_table():
    """Sampling is in them, so of 20 at 95% fewer than 12 cover once in a million times; a plan says by how much."""
    part, x = of_numbers().sample("1/10"), XY["x"]
    means = [float(part.mean("x", covers="table", epsilon=1, fresh=True)) for _ in range(40)]
    columns = {"x": np.tile(x, 10), "g": np.arange(40_000) // 2000}
    known = {"bounds": {"x": (0, 1)}, "categories": {"g": range(20)}}
    grouped = protected(pd.DataFrame, "groups", columns, **known).sample("1/10").group_by("g").mean("x", epsilon=1)
    true = columns["x"].reshape(20, 2000).mean(axis=1)
    plan, added = part.explain("mean", "x", epsilon=1), math.sqrt(1 / 400 - 1 / 4000)
    expected = math.hypot(plan.findings["expected standard error of the mean"], added * x.std())

    assert sum(each.low <= mean <= each.high for each, mean in zip(grouped.releases, true, strict=True)) >= 12
    assert part.quantile("x", 0.5, epsilon=1).low is None
    assert f"{added:.3g} standard deviations" in repr(plan)
    assert "of the mean, for this sample" in repr(plan)
    assert f"{added:.3g}" in repr(part.plan([("mean", "x")], epsilon=1))
    assert 0.5 * expected < np.std(means) < 1.6 * expected


# What is refused


def test_what_has_no_proof_is_refused():
    """Samples of samples, of people by row, beside another table, without a price, of none; bad shares."""
    numbers = {"columns": table(x=[0.5] * ROWS), "bounds": {"x": (0, 1)}, "categories": {}}
    view, delta = protected(**numbers), protected(name="delta", delta=0.3, **numbers)
    people, other, half = protected(name="people", unit="pid", max_rows=2), protected(name="other", **numbers), None
    half = view.sample("1/2")
    for ask in (
        lambda: half.sample("1/2"),
        lambda: people.sample("1/2").per("pid"),
        lambda: view.sample("1/25"),
        lambda: half.kernel_two_sample(["x"], other=other, epsilon=1),
        lambda: other.kernel_two_sample(["x"], other=half, epsilon=1),
        lambda: delta.sample("1/10").kme_release(["x"], epsilon=1, delta="1/5"),
        lambda: copy.deepcopy(view._target.table).sampled(Fraction(1, 2)),
    ):
        with pytest.raises((dp.ArgumentError, dp.NotProtected), match=r"sample|less than one row|carries"):
            ask()
    for share in (0, 1, 2, -0.1, "all", None, True, float("nan"), "1/100000000000000000000"):
        with pytest.raises(dp.ArgumentError):
            view.sample(share)
    with pytest.raises(dp.SchemaError, match="sample"):
        half.to_toml()
    with pytest.raises(dp.NotProtected):
        PrivateFrame(copy.deepcopy(half._target)).mean("x", epsilon=1)
    assert not any(each.budget.spent for each in (view, delta, people, other))


def test_a_query_shows_only_what_is_declared():
    """It is read once, so what nobody declared is not there; a table can be read again."""
    terms = {"delta": 1e-3, "columns": {"x": [1.0] * 500, "city": ["Ulm"] * 500}, "categories": {}}
    lazy, eager = (protected(FRAMES[frame], frame, bounds={"x": (0, 1)}, **terms) for frame in ("lazy", "polars"))

    with pytest.raises(dp.ArgumentError, match="declared"):
        lazy.sample("1/2").find_categories(["city"], epsilon=10, delta=1e-4)
    found = eager.sample("1/2").find_categories(["city"], epsilon=10, delta=1e-4)

    assert lazy.budget.spent == 0
    assert "Ulm" in json.dumps(found.to_dict())


@pytest.mark.parametrize("terms", [{"size": ROWS - 1}, {"size": 2 * ROWS}, {"memory": 50}], ids=str)
def test_what_turns_out_to_be_wrong_is_an_error_with_the_charge_kept(terms):
    """The sample is of as many rows as were said, and in the memory that was."""
    view = protected(**terms).sample("1/2")

    with pytest.raises(dp.ReadError):
        view.bits("x", epsilon=1)
    assert view.budget.spent == 1


# Memory of whole columns

MANY = 1000
NEEDED = 10 * 2 * MANY


def columns_of(name="memory", make=pl.DataFrame, **terms):
    columns = {"x": [place / MANY for place in range(MANY)], "g": ["a", "b"] * (MANY // 2)}
    return protected(make, name, columns, bounds={"x": (0, 1)}, categories={"g": ["a", "b"]}, **terms)


@pytest.mark.parametrize("make", ["polars", "arrow", "lazy"])
def test_what_needs_more_memory_is_refused_before_it_is_paid(make):
    """By a public number of rows, whatever is selected; a sample has room, and what fits to the last byte has."""
    view, enough = (columns_of(f"{room}", FRAMES[make], memory=NEEDED - 1 + room) for room in (0, 1))
    question = {"by": "g", "epsilon": 1}

    for part in (view, view.where(g="a")):
        for ask in (part.mannwhitneyu, functools.partial(part.explain, "mannwhitneyu")):
            with pytest.raises(dp.ArgumentError, match=r"sample\(0.1\)"):
                ask("x", **question)
    assert view.budget.spent == 0
    assert view.mean("x", epsilon=1).privacy.epsilon == 1
    for part in (view.sample("1/2"), enough):
        assert part.mannwhitneyu("x", **question).privacy.epsilon == 1


def test_two_tables_have_the_smaller_of_both_rooms():
    """And a memory is a number of bytes."""
    double, small = columns_of("double", memory=2 * NEEDED), columns_of("small", memory=NEEDED)

    with pytest.raises(dp.ArgumentError, match="memory"):
        double.kernel_two_sample(["x"], other=small, epsilon=1, method="permutation", nan_policy="fill")
    assert not double.budget.spent
    for memory in (0, -1, float("nan"), "2 GB", True, None):
        with pytest.raises(dp.ArgumentError):
            columns_of("none", memory=memory)


def test_a_private_number_of_rows_refuses_nothing():
    """What turns out to be too much is an error with the charge kept; half of the rows fit."""
    view = columns_of(memory=NEEDED * 0.6, neighbors="add_remove")
    plan = view.explain("mannwhitneyu", "x", by="g", epsilon=1)

    with pytest.raises(dp.ReadError, match="bytes"):
        view.mannwhitneyu("x", by="g", epsilon=1)
    assert plan.epsilon == view.budget.spent == 1
    assert view.where(x=(0, 0.4)).mannwhitneyu("x", by="g", epsilon=1).privacy.epsilon == 1
