"""Secret samples: who is in them, what they cost, and what is refused."""

from __future__ import annotations

import copy
import json
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
from dfprivacy._plugins.loader import unregister
from dfprivacy._privacy.conversions import on_sample
from dfprivacy._privacy.losses import Approximate, Pure
from dfprivacy._table import sample
from dfprivacy.view import PrivateFrame

ROWS = 24
SURE = 600  # an epsilon of which half, for two rows of a person, leaves no doubt about a count
FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": lambda columns: pl.DataFrame(columns).lazy(),
    "arrow": pa.table,
    "data set": lambda columns: ds.dataset(pa.table(columns)),
}


@pytest.fixture
def bits():
    """A method that says twice which rows it saw."""

    @dp.mechanism(columns={"column": "category"})
    def bits(curator, column):
        "How many rows of each number there are, twice."
        noisy = [curator.sum(features.OneHot(column), share=Fraction(1, 2)) for _ in range(2)]
        rows = [np.flatnonzero(np.rint(each.values)).tolist() for each in noisy]
        return {"rows": rows, "size": curator.size, "spent": curator.epsilon}

    dp.register_mechanism(bits)
    yield
    unregister("bits")


def table(**more):
    """Each row has a number; two rows are of each person."""
    rows = [*range(ROWS)]
    return {"x": rows, "pid": [place // 2 for place in rows], "arm": ["a", "b"] * (ROWS // 2), **more}


def protected(make=pl.DataFrame, name="table", columns=None, **terms):
    said = {"epsilon": 10**6, "accounting": "basic", "categories": {"x": range(ROWS), "arm": ["a", "b"]}}
    return dp.protect(make(columns or table()), name, **{**said, "ledger": "memory:", **terms})


@pytest.mark.parametrize("frame", FRAMES)
def test_a_public_number_of_rows_is_drawn(frame, bits):
    """As many as were said, the same ones for all that a question measures."""
    view = protected(FRAMES[frame]).sample(0.3)

    found = view.bits("x", epsilon=SURE).value

    assert found["size"] == view.schema.size == 7
    assert len(found["rows"][0]) == 7
    assert found["rows"][0] == found["rows"][1]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_people_are_drawn_with_all_their_rows(frame, neighbors, bits):
    """And their number is private."""
    view = protected(FRAMES[frame], unit="pid", max_rows=2, neighbors=neighbors).sample("1/2")

    found = [view.bits("x", epsilon=SURE, fresh=True).value for _ in range(3)]

    for each in found:
        rows = each["rows"][0]
        assert each["size"] is None
        assert each["rows"][1] == rows
        assert {*rows} == {place ^ 1 for place in rows}
    assert any(0 < len(each["rows"][0]) < ROWS for each in found)  # or a chance of 1 in 2,048 came true thrice


def test_rows_of_nobody_are_drawn_by_themselves(bits):
    """Where each is of a person of its own."""
    columns = table(pid=[None] * ROWS)
    columns["pid"][0] = 1
    view = protected(columns=columns, unit="pid", max_rows=2, unit_missing="own").sample("1/2")

    samples = [{*found["rows"][0]} for found in asked(view, 3)]

    assert any(rows != {place ^ 1 for place in rows} for rows in samples)


def asked(view, times):
    return [view.bits("x", epsilon=SURE, fresh=True).value for _ in range(times)]


@pytest.mark.parametrize("terms", [{}, {"neighbors": "add_remove"}, {"unit": "pid", "max_rows": 2}])
def test_every_question_draws_a_sample_of_its_own(terms, bits, monkeypatch):
    """None is drawn before it is paid, and none is seen by two questions."""
    drawn = []
    monkeypatch.setattr(sample, "shuffled", lambda count, real=sample.shuffled: drawn.append(count) or real(count))
    view = protected(epsilon=3 * SURE, **terms).sample("1/2")
    assert not drawn

    found = asked(view, 3)
    with pytest.raises(dp.BudgetExceeded):
        view.bits("x", epsilon=1)

    assert len(drawn) == 3
    assert len({tuple(each["rows"][0]) for each in found}) > 1  # or a chance of less than 1 in 10 million came true


def test_the_account_pays_what_was_asked_and_more_is_spent(bits):
    """One charge for all that is measured, whatever the noise."""
    view = protected(delta=1e-3, columns=table(y=[0.5] * ROWS), bounds={"y": (0, 1)}).sample("1/2")
    found = view.bits("x", epsilon=1)
    view.group_by("arm").nunique("x", epsilon=2)
    view.kme_release(["y"], epsilon=1, delta=1e-6)

    losses = [entry.loss for entry in view._target.account.entries()]

    assert losses[:2] == [Pure(Fraction(1)), Pure(Fraction(2))]
    assert losses[2] == Approximate(Fraction(1), Fraction(1, 10**6))
    assert found.value["spent"] == float(on_sample(Fraction(1), Fraction(1, 2)))
    assert found.privacy.epsilon == 1
    assert "secret sample of 12 of 24 rows" in str(found.privacy)


@pytest.mark.parametrize("accounting", ["basic", "portfolio", "rdp", "gdp"])
@pytest.mark.parametrize("method", ["bits", "moments"])
def test_what_is_left_is_what_a_sample_can_be_asked_for(accounting, method, bits):
    """Its price is that of whatever noise, which is less than Laplace noise alone may have; then little is left."""
    terms = {"epsilon": 2, "delta": 0 if accounting == "basic" else 1e-6, "accounting": accounting}
    view = protected(columns=table(y=[0.5] * ROWS), bounds={"y": (0, 1)}, **terms)
    for question in range(40 if accounting == "portfolio" else 1):  # so that the basic filter is not the best
        view.bits("x", epsilon=0.01 + question / 10**6)
    account = view._target.account
    sample = view.sample("1/2")

    privacy = getattr(sample, method)(["y"] if method == "moments" else "x", epsilon="rest").privacy

    kind = "approximate" if privacy.delta else "pure"
    assert privacy.epsilon > 0
    assert (method == "moments" and accounting != "basic") == (privacy.delta > 0)
    assert account.largest(kind) < privacy.epsilon / 100
    assert account.entries()[-1].loss.kind == kind


def test_a_refusal_says_what_a_sample_could_be_asked_for(bits):
    """Not what Laplace noise on the table could have, which is more."""
    view = protected(epsilon=2, delta=1e-6, accounting="gdp")
    laplace, pure = (view._target.account.largest(kind) for kind in ("laplace", "pure"))

    assert pure < laplace
    with pytest.raises(dp.BudgetExceeded, match=f"at most epsilon = {float(pure):.8g}"):
        view.sample("1/2").bits("x", epsilon=laplace)


def test_noise_is_that_of_what_is_spent(bits):
    """And a plan says so."""
    view = protected().sample("1/4")

    records = view.bits("x", epsilon=1).privacy.noise
    plan = view.explain("bits", "x", epsilon=1)

    spent = float(on_sample(Fraction(1), Fraction(1, 4)))
    assert sum(record.sensitivity / record.scale for record in records) == pytest.approx(spent, rel=1e-6)
    assert plan.measurements == records
    assert f"a secret sample of 6 of 24 rows, on which it has epsilon {spent:g}" in repr(plan)


def test_nothing_is_kept_but_the_answer(bits):
    """Neither for the table, nor for the sample, nor from the table for it."""
    view = protected()
    whole = view.bits("x", epsilon=1)
    part = view.sample("1/2").bits("x", epsilon=1)
    again = view.sample("1/2").bits("x", epsilon=1)
    other = view.sample("1/4").bits("x", epsilon=1)

    account = open_ledger("memory:").account("table")
    with account.ledger.transaction() as connection:
        kept = connection.execute(select(func.count()).select_from(tables().measurements)).scalar_one()
    assert kept == len(whole.privacy.noise)
    assert not any(record.reused for record in (*part.privacy.noise, *other.privacy.noise))
    assert [each.privacy.replayed for each in (whole, part, other, again)] == [False, False, False, True]
    assert again.value == part.value
    with pytest.raises(dp.ArgumentError, match="secret sample"):
        dp.combine(lambda r: r.value["spent"], part)


def test_no_column_of_a_sample_is_public(bits):
    """For another row may be in the place of one that is not drawn."""
    view = protected(public=["arm"])

    @dp.mechanism(columns={"by": "category"})
    def by(curator, by):
        "What is public of a column."
        counts = curator.sum(features.OneHot(by))
        return {"sizes": curator.sizes(by) is not None, "free": counts.noise is None}

    dp.register_mechanism(by)
    arms = [each.by("arm", epsilon=1) for each in (view, view.sample("1/2"), view.where(arm="a").sample("1/2"))]
    unregister("by")

    assert [each.value for each in arms] == [{"sizes": True, "free": True}] + [{"sizes": False, "free": False}] * 2
    assert arms[1].privacy.noise[0].sensitivity == pytest.approx(2)
    assert arms[2].privacy.epsilon == 1


@pytest.mark.parametrize("terms", [{}, {"neighbors": "add_remove"}])
def test_rows_that_are_not_drawn_have_no_influence(terms, bits, monkeypatch):
    """Not even if they are of another type."""
    monkeypatch.setattr(sample, "distinct", lambda below, count: np.arange(count))
    monkeypatch.setattr(sample, "coins", lambda share, count: np.arange(count) < count // 2)
    odd = table(x=[place if place < ROWS // 2 else None for place in range(ROWS)])

    found = [
        protected(name=f"{name}", columns=columns, **terms).sample("1/2").bits("x", epsilon=SURE).value
        for name, columns in {"plain": table(), "odd": odd}.items()
    ]

    assert found[0]["rows"] == found[1]["rows"] == [[*range(ROWS // 2)]] * 2


def test_conditions_groups_and_people_are_of_the_sample():
    """Selected before or after, asked by group, and of a table with one row a person."""
    columns = {"x": [1.0] * 4000, "pid": [*range(2000)] * 2, "arm": ["a", "b"] * 2000}
    view = protected(columns=columns, unit="pid", max_rows=2, bounds={"x": (0, 1)}, categories={"arm": ["a", "b"]})
    people = view.per("pid").agg(x="sum").sample("1/2")
    half = view.sample("1/2")

    counts = [
        half.where(arm="a").count(epsilon=50).value,
        view.where(arm="a").sample("1/2").count(epsilon=50).value,
        *(each.value for each in half.group_by("arm").count(epsilon=50).releases),
    ]

    for count in counts:  # of a thousand people with two rows of arm a, half
        assert abs(count - 1000) < 8 * 2 * np.sqrt(250)
    assert abs(people.count(epsilon=50).value - 1000) < 8 * np.sqrt(500)
    assert abs(people.mean("x", epsilon=50).value - 2) < 0.1


def test_a_declaration_reaches_the_sample(bits):
    """Of people as well."""
    for terms in ({}, {"unit": "pid", "max_rows": 2}):
        view = protected(name=f"{len(terms)}", categories={}, **terms).sample("1/2")
        declared = view.declare(categories={"x": range(ROWS)})
        assert len(declared.bits("x", epsilon=SURE).value["rows"][0]) < ROWS


@pytest.mark.parametrize("share", [0, 1, 2, -0.1, "all", None, True, float("nan"), "1/100000000000000000000"])
def test_shares_that_cannot_be_used_are_refused(share):
    """And nothing is charged."""
    view = protected()

    with pytest.raises(dp.ArgumentError):
        view.sample(share)
    assert view.budget.spent == 0


def test_what_has_no_proof_is_refused(bits):
    """Samples of samples, of people by row, beside another table, without a price; a sample of none."""
    numbers = {"columns": table(x=[0.5] * ROWS), "bounds": {"x": (0, 1)}, "categories": {}}
    view, delta = protected(**numbers), protected(name="delta", delta=0.3, **numbers)
    people = protected(name="people", unit="pid", max_rows=2)
    half = view.sample("1/2")
    refused = [
        lambda: half.sample("1/2"),
        lambda: people.sample("1/2").per("pid"),
        lambda: view.sample("1/25"),
        lambda: half.kernel_two_sample(["x"], other=protected(name="other", **numbers), epsilon=1),
        lambda: protected(name="other", **numbers).kernel_two_sample(["x"], other=half, epsilon=1),
        lambda: delta.sample("1/10").kme_release(["x"], epsilon=1, delta="1/5"),
        lambda: copy.deepcopy(view._target.table).sampled(Fraction(1, 2)),
    ]

    for ask in refused:
        with pytest.raises((dp.ArgumentError, dp.NotProtected), match=r"sample|none|carries"):
            ask()
    with pytest.raises(dp.SchemaError, match="sample"):
        half.to_toml()
    with pytest.raises(dp.NotProtected):
        PrivateFrame(copy.deepcopy(half._target)).mean("x", epsilon=1)
    assert not any(each.budget.spent for each in (view, delta, people))


def test_a_query_shows_only_what_is_declared():
    """It is read once, so what nobody declared is not there; a table can be read again."""
    terms = {"delta": 1e-3, "columns": {"x": [1.0] * 500, "city": ["Ulm"] * 500}, "categories": {}}
    terms |= {"bounds": {"x": (0, 1)}}
    lazy = protected(FRAMES["lazy"], "lazy", **terms).sample("1/2")

    with pytest.raises(dp.ArgumentError, match="declared"):
        lazy.find_categories(["city"], epsilon=10, delta=1e-4)
    found = protected(name="eager", **terms).sample("1/2").find_categories(["city"], epsilon=10, delta=1e-4)

    assert lazy.budget.spent == 0
    assert "Ulm" in json.dumps(found.to_dict())


def test_another_number_of_rows_is_an_error_with_the_charge_kept(bits):
    """The sample is of as many rows as were said."""
    view = protected(size=ROWS + 1).sample("1/2")

    with pytest.raises(dp.ReadError):
        view.bits("x", epsilon=1)
    assert view.budget.spent == 1


def test_a_sample_has_the_memory_that_was_said(bits):
    """Else the charge stays, and nothing is released."""
    view = protected(memory=50).sample("1/2")

    with pytest.raises(dp.ReadError):
        view.bits("x", epsilon=1)
    assert view.budget.spent == 1


def test_an_interval_of_a_sample_says_that_it_is_the_samples():
    """Nobody takes it for one of the table's own number."""
    frame = pd.DataFrame({"x": range(1000), "g": ["a", "b"] * 500})
    view = frame.dp.protect("whose", epsilon=9, bounds={"x": (0, 1000)}, categories={"g": ["a", "b"]})

    assert "for this sample" in repr(view.sample(0.5).mean("x", covers="table", epsilon=1))
    assert "for this table" in repr(view.mean("x", epsilon=1))
    assert "covers  this sample" in repr(view.sample(0.5).group_by("g").std("x", epsilon=1))
