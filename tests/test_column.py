"""One column of a view: every method that asks about a column first, and what a table's own columns are asked."""

# ruff: noqa: PD003, PD011, SIM300 - no pandas here; expected == actual

from __future__ import annotations

import copy
import inspect

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._plugins.loader import register_mechanism, unregister

DATA = {"age": [31.0, 45.0, None, 52.0] * 50, "smoker": ["yes", "no", "no", "no"] * 50, "note": ["a"] * 200}
SAID = {"bounds": {"age": (18, 90)}, "categories": {"smoker": ["yes", "no"]}}


@dp.mechanism(columns={"what": "numeric"})
def halved(curator, what, by=2, *, times=1):
    """Halve a column.

    Parameters
    ----------
    what : str
        A column with bounds.
        It is halved.
    by : int
        Into how many.
    times : int
        How often.
    """
    return times * curator.sum(features.Moments(what, degree=1)).values[0] / by


@pytest.fixture
def third_party():
    register_mechanism(halved)
    yield
    unregister("halved")


@pytest.fixture
def view():
    return dp.protect(pd.DataFrame(DATA), "column", epsilon=10**6, ledger="memory:", **SAID)


def test_it_is_the_method_with_the_column_filled_in(view):
    """The same question, so the second time is a replay."""
    whole = view.mean("age", confidence=0.9, epsilon=1)

    found = view["age"].mean(confidence=0.9, epsilon=1)

    assert whole == found
    assert found.privacy.replayed


def test_a_third_partys_method_is_there_too(view, third_party):
    """With its signature and its help, the column left out of both."""
    method = view["age"].halved

    assert ["by", "times", "epsilon", "fresh"] == list(inspect.signature(method).parameters)
    assert "A column with bounds" not in method.__doc__
    assert "It is halved" not in method.__doc__
    assert "Into how many" in method.__doc__
    assert "epsilon : float" in method.__doc__
    assert "halved" in dir(view["age"])
    assert view.halved("age", 4, times=3, epsilon=10) == view["age"].halved(4, times=3, epsilon=10)


def test_completion_shows_what_the_column_can_be_asked(view):
    """Means of numbers, counts of categories, and of a column of which nothing is known what can be discovered."""
    numbers, labels, unknown = (set(dir(view[name])) for name in DATA)

    assert {"mean", "std", "median", "histogram", "ttest", "missing", "explain", "name", "isna"} <= numbers
    assert {"value_counts", "chi2", "count"} <= labels
    assert "crosstab" not in numbers
    assert not {"mean", "ttest"} & labels
    assert "value_counts" in unknown
    assert not {"mean", "count"} & unknown


def test_gaps_are_counted(view):
    """As pandas writes it, and Polars; the sum is `missing`, with its parameters."""
    column = view["age"]

    for gaps in (column.isna(), column.isnull(), column.is_null()):
        assert view.missing("age", epsilon=100) == gaps.sum(epsilon=100)
    assert (
        view.count("age", epsilon=100) == column.notna().sum(epsilon=100) == column.is_not_null().sum(epsilon=100)
    )
    assert "age" not in repr(inspect.signature(column.isna().sum))
    assert 50 == pytest.approx(float(column.isna().sum(epsilon=100)), abs=1)


def test_of_groups_and_parts(view):
    """A column of a grouped view answers for each group; of a part, of its rows."""
    grouped = view.group_by("smoker")["age"].count(epsilon=100)

    assert ("yes", "no") == grouped.groups
    assert 50 == pytest.approx(float(grouped["yes"]), abs=1)
    assert 50 == pytest.approx(float(view.filter(smoker="yes")["age"].count(epsilon=100)), abs=1)
    assert dp.Groups is inspect.signature(view.groupby("smoker")["age"].mean).return_annotation


def test_a_list_selects(view):
    """Some columns are a view of them, of all rows and by group."""
    assert ("smoker", "age") == view[["smoker", "age"]].schema.names
    found = view.group_by("smoker")[["age"]].describe(epsilon=1)
    assert ("age",) == found["no"].columns


def test_names_of_columns(view):
    """They are public, and a view is asked for them as a table is."""
    assert [*DATA] == list(view) == list(view.group_by("smoker"))
    assert "age" in view
    assert "agee" not in view
    assert "age" == view["age"].name


def test_other_names():
    """`filter` is `where`, `groupby` is `group_by`, here and on the frame."""
    df = pd.DataFrame(DATA)
    view = df.dp.protect("names", epsilon=1, ledger="memory:", **SAID)

    assert repr(view.filter(smoker="yes")) == repr(view.where(smoker="yes")) != repr(view)
    assert view.groupby("smoker")._by == view.group_by("smoker")._by
    assert {"filter", "groupby"} <= set(dir(view)) & set(dir(df.dp))
    assert "age" == df.dp["age"].name


def test_it_explains(view):
    """A plan of the column's method, at no charge."""
    assert view.explain("mean", "age", epsilon=1) == view["age"].explain("mean", epsilon=1)
    assert not list(view.releases)


REFUSED = {
    "no column": (lambda v: v["agee"], dp.SchemaError, r"no column 'agee'.*\['age', 'smoker', 'note'\]"),
    "no name": (lambda v: v[3], dp.SchemaError, "named by a string"),
    "in a list": (lambda v: v[["age", "agee"]], dp.SchemaError, "no column 'agee'"),
    "near": (lambda v: v["age"].maen, AttributeError, "Did you mean 'mean'"),
    "far": (lambda v: v["age"].xyzzy, AttributeError, "methods of this column are .*'median'"),
    "of a view": (lambda v: v["smoker"].gmm_fit, AttributeError, r"belongs to the view: view\.gmm_fit"),
    "no number": (lambda v: v["smoker"].mean(epsilon=1), dp.SchemaError, "'smoker' is categorical"),
    "unknown": (lambda v: v["note"].value_counts(epsilon=1), dp.SchemaError, "has no categories"),
    "compared": (lambda v: v["age"] > 3, dp.ArgumentError, r"view\.where\(age="),
    "twice": (lambda v: v["age"].mean(column="age", epsilon=1), dp.ArgumentError, "multiple values"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, view):
    """What is no question of a column says so, and costs nothing."""
    ask, error, text = REFUSED[case]

    with pytest.raises(error, match=text):
        ask(view)

    assert not list(view.releases)


def test_it_holds_no_values(view):
    """Its text is that of the view of this column alone, and its copy has its name."""
    assert repr(view.select("age")) in repr(view["age"])
    assert "missing" in repr(view["age"].isna())
    assert view["age"].name == copy.deepcopy(view["age"]).name
