"""A method's form for whoever holds the table: exact rows, no charge, no release."""

# ruff: noqa: PD011, SIM300 - no pandas here; expected == actual

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._plugins.loader import register_mechanism, unregister

DATA = {"age": [31.0, 45.0, np.nan, 152.0], "smoker": ["yes", "no", "no", "maybe"], "arm": ["a", "a", "a", "b"]}
TERMS = {
    "bounds": {"age": (18, 90)},
    "categories": {"smoker": ["yes", "no"], "arm": ["a", "b"]},
    "public": ["arm"],
}


@dp.mechanism(columns={"column": "numeric", "by": "category"})
def average(curator, column, by, *, scale=1.0):
    """The mean of a bounded column."""
    return scale * curator.sum(dp.features.Moments(column, degree=1)).values[0]


def own(holder, column, by, *, scale=1.0):
    """What its holder sees."""
    rows = holder.rows(column, by)
    return [scale * value for value in rows.values(column)], rows.codes(by).tolist(), holder.size


@pytest.fixture
def offer():
    """Register the mechanism with a form for the holder, or with another one."""
    names = []

    def register(holder=own, function=average):
        register_mechanism(function.holds(holder))
        names.append(function.name)

    yield register
    for name in names:
        unregister(name)


def protect(df=None, **terms):
    return dp.protect(pd.DataFrame(DATA) if df is None else df, "held", **{"epsilon": 1, **TERMS, **terms})


def test_without_an_epsilon_the_holder_sees_cleaned_rows(constructor, offer):
    """Clipped, filled and encoded as for everybody, in order; nothing is charged or kept."""
    offer()
    view = protect(constructor(DATA))

    assert ([62.0, 90.0, 108.0, 180.0], [0, 1, 1, 2], 4) == view.average("age", "smoker", scale=2.0)
    assert view.average("age", "smoker") == view.average("age", "smoker", epsilon=None, fresh=True)
    assert (0, []) == (view.budget.spent, list(view.releases))


def test_the_holder_sees_the_rows_that_the_view_selects(offer):
    """A private condition selects too: who holds the table knows whom. Their number stays unknown to the plugin."""
    offer()
    view = protect()

    assert ([31.0, 45.0, 54.0], [0, 1, 1], 3) == view.where(arm="a").average("age", "smoker")
    assert ([45.0, 54.0], [1, 1], None) == view.where(smoker="no").average("age", "smoker")


def test_a_price_is_a_price(offer):
    """With an epsilon, or with the view's default, the method pays and releases."""
    offer()

    paid = protect().average("age", "smoker", epsilon=0.5)
    by_default = protect(default_epsilon=0.25).average("age", "smoker", fresh=True)

    assert (0.5, 0.25) == (paid.privacy.epsilon, by_default.privacy.epsilon)


def test_other_methods_refuse_a_missing_epsilon(offer):
    """As ever; and so does an explanation, of any method."""
    offer()
    view = protect()

    with pytest.raises(dp.ArgumentError, match="No epsilon was given"):
        view.ttest("age", popmean=3)
    with pytest.raises(dp.ArgumentError, match="No epsilon was given"):
        view.explain("average", "age", "smoker")


def test_groups_are_refused(offer):
    """A holder's form answers for one table; the refusal shows the way."""
    offer()

    with pytest.raises(dp.ArgumentError, match=r"not by group.*view\.where\(arm="):
        protect().group_by("arm").average("age", "smoker")


@pytest.mark.parametrize(
    ("holder", "said"),
    [
        (lambda holder, **_: dp.Value(value=1), "failed without an epsilon, with Value"),
        (lambda holder, column, **_: [0, 1][int(holder.rows(column).values(column)[0])], "with IndexError"),
        (lambda holder, column, **_: holder.sum(dp.features.Moments(column)), "nothing private is measured"),
        (
            lambda holder, by, **_: holder.select(dp.features.OneHot(by)),
            "failed without an epsilon|nothing private",
        ),
    ],
)
def test_a_holders_form_that_is_none(offer, holder, said):
    """A release, a failure whose text could quote a row, a measurement: the plugin's authors are to be told."""
    offer(holder)

    with pytest.raises(dp.PluginError, match=said) as caught:
        protect().average("age", "smoker")
    assert not any(str(value) in str(caught.value) for value in (31, 45, 152))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_what_is_public_is_measured_as_ever(offer):
    """Sums over public columns are exact, and free."""
    offer(lambda holder, by, **_: holder.sizes(by).tolist())

    assert [3.0, 1.0] == protect().average("age", "arm")


def test_a_refusal_of_the_holders_form_is_shown(offer):
    """What it says to the caller reaches the caller."""

    def refuse(holder, **_):
        raise dp.ArgumentError("Not today.", "Come back tomorrow.")

    offer(refuse)

    with pytest.raises(dp.ArgumentError, match="Not today"):
        protect().average("age", "smoker")


def test_arguments_are_prepared_for_the_holder_too(offer):
    """A preparer runs before, as for a release, and its failure is the plugin's."""

    def prepare(curator, column, by, *, scale):
        return {"scale": 1 / scale}

    offer(function=average.prepares(prepare))

    assert [15.5, 22.5, 27.0, 45.0] == protect().average("age", "smoker", scale=2)[0]
    with pytest.raises(dp.PluginError, match="ZeroDivisionError"):
        protect().average("age", "smoker", scale=0)


def test_the_documentation_says_what_no_epsilon_means(offer):
    """The price's paragraph tells it of a method that has such a form, and of no other."""
    offer()
    view = protect()

    assert "no release" in view.average.__doc__
    assert "no release" not in view.ttest.__doc__


def test_a_copy_without_rows_has_none_to_show(offer):
    """What was pickled carries no rows."""
    offer()
    view = pickle.loads(pickle.dumps(protect()))  # noqa: S301 - its own

    with pytest.raises(dp.NotProtected, match="carries no rows"):
        view.average("age", "smoker")


def test_a_second_view_has_a_holder_of_its_own():
    """No form for the holder goes with a second view, whose rows another account answers for."""

    @dp.mechanism(columns={"column": "numeric", "other": "view"})
    def compare(curator, column, *, other=None):
        """Two means."""
        return curator.sum(dp.features.Moments(column)).values

    with pytest.raises(dp.PluginError, match="a holder of its own"):
        compare.holds(own)
