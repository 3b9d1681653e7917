"""Whole columns, and the memory that they may take."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp

ROWS = 1000
NEEDED = 10 * 2 * ROWS


def protected(name="table", make=pl.DataFrame, **terms):
    columns = {"x": [place / ROWS for place in range(ROWS)], "g": ["a", "b"] * (ROWS // 2)}
    said = {"bounds": {"x": (0, 1)}, "categories": {"g": ["a", "b"]}, "epsilon": 100, "ledger": "memory:"}
    return dp.protect(make(columns), name, **{**said, **terms})


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table, lambda columns: pl.DataFrame(columns).lazy()])
def test_what_needs_more_is_refused_before_it_is_paid(make):
    """By a public number of rows, whatever is selected; a sample has room."""
    view = protected(make=make, memory=NEEDED - 1)

    for part in (view, view.where(g="a")):
        for ask in (part.explain, lambda method, *args, part=part, **price: getattr(part, method)(*args, **price)):
            with pytest.raises(dp.ArgumentError, match=r"sample\(0.1\)"):
                ask("mannwhitneyu", "x", by="g", epsilon=1)
    assert view.budget.spent == 0
    assert view.mean("x", epsilon=1).privacy.epsilon == 1
    assert view.sample("1/2").mannwhitneyu("x", by="g", epsilon=1).privacy.epsilon == 1


def test_what_fits_is_answered():
    """To the last byte; and two tables have the smaller of both rooms."""
    enough = protected(memory=NEEDED)
    double, small = protected("double", memory=2 * NEEDED), protected("small", memory=NEEDED)

    assert enough.mannwhitneyu("x", by="g", epsilon=1).privacy.epsilon == 1
    with pytest.raises(dp.ArgumentError, match="memory"):
        double.kernel_two_sample(["x"], other=small, epsilon=1, method="permutation", nan_policy="fill")
    assert not double.budget.spent


@pytest.mark.parametrize("terms", [{"neighbors": "add_remove"}])
def test_a_private_number_of_rows_refuses_nothing(terms):
    """What turns out to be too much is an error with the charge kept; half of the rows fit."""
    view = protected(memory=NEEDED * 0.6, **terms)
    plan = view.explain("mannwhitneyu", "x", by="g", epsilon=1)

    with pytest.raises(dp.ReadError, match="bytes"):
        view.mannwhitneyu("x", by="g", epsilon=1)
    assert plan.epsilon == 1
    assert view.budget.spent == 1
    assert view.where(x=(0, 0.4)).mannwhitneyu("x", by="g", epsilon=1).privacy.epsilon == 1


@pytest.mark.parametrize("memory", [0, -1, float("nan"), "2 GB", True, None])
def test_a_memory_that_is_none_is_refused(memory):
    """It is a number of bytes."""
    with pytest.raises(dp.ArgumentError):
        protected(memory=memory)
