"""A method's form for the table's owner, of a name of its own: exact rows, no charge, no release."""

# ruff: noqa: PD011, SIM300 - no pandas here; expected == actual

from __future__ import annotations

import inspect
import json
import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._plugins.loader import register_mechanism, registry, unregister

DATA = {"age": [31.0, 45.0, np.nan, 152.0], "smoker": ["yes", "no", "no", "maybe"], "arm": ["a", "a", "a", "b"]}
TERMS = {"bounds": {"age": (18, 90)}, "categories": {"smoker": ["yes", "no"], "arm": ["a", "b"]}, "public": ["arm"]}


@dp.mechanism(columns={"column": "numeric", "by": "category"})
def average(curator, column, by, *, scale=1.0):
    """The mean of a bounded column."""
    return scale * curator.sum(dp.features.Moments(column, degree=1)).values[0]


@dataclass(frozen=True, repr=False)
class Seen(dp.Exact):
    """What the owner sees."""

    is_: object


@dataclass(frozen=True)
class Silent(dp.Exact):
    """What says nothing of itself."""

    is_: object


def own(holder, column, by, *, scale=1.0):
    """Rows of one's own table."""
    rows = holder.rows(column, by)
    return Seen(([scale * value for value in rows.values(column)], rows.codes(by).tolist(), holder.size))


@pytest.fixture
def offer():
    """Register the mechanism with a form for the holder, or with another one."""
    names = []

    def register(holder=own, function=average):
        register_mechanism(function.holds(holder))
        names.append(function.name)

    yield register
    for name in {*names}:
        unregister(name)


def protect(df=None, **terms):
    return dp.protect(pd.DataFrame(DATA) if df is None else df, "held", **{"epsilon": 1, **TERMS, **terms})


def test_the_owner_sees_cleaned_rows(constructor, offer):
    """Clipped, filled, encoded, in order, of those that the view selects; nothing is charged or kept; no groups."""
    offer()
    view = protect(constructor(DATA))

    assert ([62.0, 90.0, 108.0, 180.0], [0, 1, 1, 2], 4) == view.average_own("age", "smoker", scale=2.0).is_
    assert ([31.0, 45.0, 54.0], [0, 1, 1], 3) == view.where(arm="a").average_own("age", "smoker").is_
    assert ([45.0, 54.0], [1, 1], None) == view.where(smoker="no").average_own("age", "smoker").is_
    assert (0, []) == (view.budget.spent, list(view.releases))
    with pytest.raises(dp.ArgumentError, match=r"not by group.*view\.where\(arm="):
        view.group_by("arm").average_own("age", "smoker")
    for ask in (view.average, lambda *a, **k: view.explain("average", *a, **k)):
        with pytest.raises(dp.ArgumentError, match="No epsilon was given"):
            ask("age", "smoker", epsilon=None)


@pytest.mark.parametrize(
    ("holder", "said"),
    [
        (lambda holder, column, by: dp.Value(value=1), "failed in average_own..: it returned or raised Value"),
        (lambda holder, column, by: holder.rows(column).values(column)[0], "float64, not an Exact"),
        (lambda holder, column, by: None, "raised NoneType"),
        (lambda holder, column, by: Silent(1), "Silent, not an Exact whose repr says"),
        (lambda holder, column, by: [0, 1][int(holder.rows(column).values(column)[0])], "raised IndexError"),
        (lambda holder, column, by: holder.sum(dp.features.Moments(column)), "cannot make a private measurement"),
        (
            lambda holder, column, by: holder.select(dp.features.OneHot(by)),
            "failed in average_own|cannot make a private measurement",
        ),
    ],
)
def test_a_holders_form_that_is_none(offer, holder, said):
    """A release, a failure whose text could quote a row, a measurement: the plugin's authors are to be told."""
    offer(holder)

    with pytest.raises(dp.PluginError, match=said) as caught:
        protect().average_own("age", "smoker")
    assert not any(str(value) in str(caught.value) for value in (31, 45, 152))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_arguments_are_prepared_for_the_holder_too(offer):
    """A preparer runs before, as for a release, and its failure is the plugin's."""
    offer(function=average.prepares(lambda curator, column, by, *, scale: {"scale": 1 / scale}))

    assert [15.5, 22.5, 27.0, 45.0] == protect().average_own("age", "smoker", scale=2).is_[0]
    with pytest.raises(dp.PluginError, match="ZeroDivisionError"):
        protect().average_own("age", "smoker", scale=0)


def test_the_form_is_a_method_of_its_own(offer):
    """Its signature has its own arguments and no price; no column, explanation or request knows it."""
    offer()
    view = protect()

    assert "(column: str, by: str, *, scale=1.0)" in str(inspect.signature(view.average_own))
    assert "Rows of one's own table." in view.average_own.__doc__
    assert "average_own" in dir(view)
    assert "average_own" not in dir(view["age"])
    assert "average_own" not in registry().mechanisms
    with pytest.raises(dp.ArgumentError, match="no method 'average_own'"):
        view.explain("average_own", "age", "smoker", epsilon=1)
    with pytest.raises(dp.ArgumentError, match="unexpected keyword argument 'epsilon'"):
        view.average_own("age", "smoker", epsilon=1)
    with pytest.raises(AttributeError, match="ttest_own"):
        view.ttest_own("age", popmean=3)


def test_what_the_owner_sees_enters_no_release(offer):
    """It is refused as an argument, as what a mechanism releases, and by whatever writes a release down."""
    offer()
    seen = protect().average_own("age", "smoker")

    @dp.mechanism(columns={"column": "numeric"})
    def taken(curator, column, value=0):
        """What it was given, or what the owner saw."""
        return seen if value else float(curator.sum(dp.features.Moments(column, degree=1)).values[0])

    register_mechanism(taken)
    try:
        view = protect()
        with pytest.raises(dp.ArgumentError, match="for the table's owner alone"):
            view.taken("age", seen, epsilon=0.1)
        assert 0 == view.budget.spent
        with pytest.raises(dp.PluginError):
            view.taken("age", 1, epsilon=0.1)
    finally:
        unregister("taken")
    assert "not private" in repr(seen)
    with pytest.raises(TypeError):
        dp.Value(value=seen).to_json()
    with pytest.raises(TypeError):
        json.dumps(seen)


def test_rows_are_shown_while_the_form_runs(offer):
    """Whatever keeps its curator sees no row afterwards."""
    kept = []

    def keep(holder, column, by):
        kept.append((holder, column))
        return Seen(None)

    offer(keep)
    protect().average_own("age", "smoker")
    ((holder, column),) = kept

    with pytest.raises(dp.PluginError, match="had ended"):
        holder.rows(column)


def test_forms_that_show_what_is_free_or_refuse(offer):
    """What is public is exact; a refusal reaches the caller; a copy and a second view have no rows."""
    offer()
    view = protect()
    with pytest.raises(dp.NotProtected, match="carries no rows"):
        pickle.loads(pickle.dumps(view)).average_own("age", "smoker")  # noqa: S301 - its own

    offer(lambda holder, column, by: Seen(holder.sizes(by).tolist()))
    assert [3.0, 1.0] == view.average_own("age", "arm").is_

    def refuse(holder, column, by):
        raise dp.ArgumentError("Not today.", "Come back tomorrow.")

    offer(refuse)
    with pytest.raises(dp.ArgumentError, match="Not today"):
        view.average_own("age", "smoker")

    @dp.mechanism(columns={"column": "numeric", "other": "view"})
    def compare(curator, column, *, other=None):
        """Two means."""

    with pytest.raises(dp.PluginError, match="another owner"):
        compare.holds(own)
