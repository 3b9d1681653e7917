"""``view.moments`` through the whole house."""

from __future__ import annotations

import itertools
import json
import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_gmm import JointMoments

NAMES = (f"moments-{number}" for number in itertools.count())
rng = np.random.default_rng(1)
GROUP = rng.choice(["a", "b"], 20_000)
X = rng.standard_normal((20_000, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
Y = X[:, 1] + (GROUP == "a")
TABLE = {"x": X[:, 0], "y": Y, "g": GROUP}
BOTH = np.clip(np.array([X[:, 0], Y]), -5, 6)


def protect(table=TABLE, engine=pd.DataFrame, **terms):
    terms = {
        "epsilon": 100,
        "delta": 0.1,
        "accounting": "basic",
        "ledger": "memory:",
        "bounds": {"x": (-5, 6), "y": (-5, 6)},
        "categories": {"g": ["a", "b"]},
        **terms,
    }
    return dp.protect(engine(table), next(NAMES), **terms)


def measured(*, seed=1, terms=None, **asked):
    with seeded_noise(seed):
        return protect(**(terms or {})).moments(["x", "y"], **{"epsilon": 30, "delta": 1e-6, **asked})


@pytest.mark.parametrize("engine", [pd.DataFrame, pl.DataFrame, pl.LazyFrame])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_moments_are_numpys(engine, neighbors, delta):
    """At a large epsilon they are numpy's, of all rows."""
    found = protect(engine=engine, neighbors=neighbors).moments(["x", "y"], epsilon=30, delta=delta)

    assert found.groups == ("all",)
    assert found.sizes == pytest.approx([20_000], abs=10)
    assert found.means[0] == pytest.approx(BOTH.mean(axis=1), abs=0.01)
    assert found.covariances[0] == pytest.approx(np.cov(BOTH), abs=0.05)
    assert found.variances[0] == pytest.approx(BOTH.var(axis=1), abs=0.05)
    assert found.correlations[0] == pytest.approx(np.corrcoef(BOTH), abs=0.03)
    assert found.notes == ()


@pytest.mark.parametrize("public", [[], ["g"]])
def test_groups_have_moments_of_their_own(public):
    """By a column of categories, private or public, each group has its moments."""
    found = measured(by="g", terms={"public": public})

    assert found.groups == ("a", "b")
    for group, means, covariances in zip(found.groups, found.means, found.covariances, strict=True):
        own = BOTH[:, group == GROUP]
        assert means == pytest.approx(own.mean(axis=1), abs=0.02)
        assert covariances == pytest.approx(np.cov(own), abs=0.1)


def test_public_sizes_leave_less_to_measure():
    """A public number of rows is not measured: the sensitivity of the rest is √4.5 r, with it 1.5 r.

    Beside the rows beyond the bounds, of weight 1/4: two of each column where rows change, else one.
    """
    public = measured().privacy.noise[0].sensitivity
    private = measured(terms={"neighbors": "add_remove"}).privacy.noise[0].sensitivity

    r = math.sqrt(2)
    assert public == pytest.approx(math.hypot(math.sqrt(4.5) * r, 1 / 2), rel=1e-3)
    assert private == pytest.approx(math.hypot(1.5 * r, math.sqrt(2) / 4), rel=1e-3)


TABLES = {
    "pandas": (pd.DataFrame, pd.DataFrame),
    "polars": (pl.DataFrame, pl.DataFrame),
    "lazy": (pl.LazyFrame, pl.DataFrame),
    "arrow": (pa.table, pa.Table),
}


def lists(table):
    return table.to_pydict() if isinstance(table, pa.Table) else {name: list(table[name]) for name in table.columns}


@pytest.mark.parametrize(("engine", "made"), TABLES.values(), ids=TABLES)
def test_tables_are_the_callers(engine, made):
    """Every column of every group has a row; matrices have rows with names; all are of the caller's library."""
    found = protect(engine=engine).moments(["x", "y"], by="g", epsilon=30, delta=1e-6)

    tables = found.to_frame(), found.correlation("b"), found.covariance("a")

    frame, correlation, covariance = map(lists, tables)
    assert {type(table) for table in tables} == {made}
    assert frame["g"] == ["a", "a", "b", "b"]
    assert frame["column"] == ["x", "y", "x", "y"]
    assert frame["size"] == found.sizes.repeat(2).tolist()
    assert frame["mean"] == found.means.ravel().tolist()
    assert frame["variance"] == found.variances.ravel().tolist()
    assert frame["variance_error"] == found.covariance_errors[:, [0, 1], [0, 1]].ravel().tolist()
    assert correlation["column"] == ["x", "y"]
    assert correlation["x"] == found.correlations[1, 0].tolist()
    assert covariance["y"] == found.covariances[0, 1].tolist()


def test_answers_by_group_and_replayed_ones_make_the_callers_tables_too():
    """The moments of a group's view, and an answer from the ledger, know whose they are."""
    view = protect(engine=pl.DataFrame)

    first, again = (view.group_by("g").moments(["x", "y"], epsilon=30, delta=1e-6) for _ in range(2))

    assert again.privacy.replayed
    assert {type(group.covariance()) for group in (*first.releases, *again.releases)} == {pl.DataFrame}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_of_any_library_can_be_asked_for(library):
    """With the name of a library, tables are its own."""
    found = measured()

    tables = found.to_frame(library), found.correlation(library=library), found.covariance(library=library)

    assert {type(table).__module__.split(".")[0] for table in tables} == {library}
    with pytest.raises(dp.ArgumentError, match="library='numpy' is unknown"):
        found.to_frame("numpy")


@pytest.mark.parametrize("engine", [pd.DataFrame, pl.DataFrame])
def test_tables_of_columns_with_unhappy_names(engine):
    """A column may be called as one of the table's own, and groups may be text and numbers."""
    table = {"column": X[:, 0], "x": Y, "mean": GROUP}
    view = protect(table, engine, bounds={"column": (-5, 6), "x": (-5, 6)}, categories={"mean": ["a", 1]})

    found = view.moments(["column", "x"], by="mean", epsilon=30, delta=1e-6)

    assert list(map(str, found.to_frame()["mean_"])) == ["a", "a", "1", "1"]
    assert list(found.covariance("a")["column_"]) == ["column", "x"]
    assert list(found.covariance("a")["column"]) == found.covariances[0, 0].tolist()


def test_json_and_back():
    """A trip through JSON changes nothing."""
    found = measured(by="g")

    again = dp.Release.from_dict(json.loads(json.dumps(found.to_dict())))

    assert type(again) is JointMoments
    assert again.to_dict() == found.to_dict()
    assert again.correlations.tolist() == found.correlations.tolist()


def test_regression_follows_from_the_moments():
    """The slope of y on x is the covariance over the variance, as least squares has it."""
    found = measured()

    slope = found.covariances[0, 0, 1] / found.variances[0, 0]

    assert slope == pytest.approx(np.polyfit(*BOTH, 1)[0], abs=0.02)


def test_little_data_are_uninformative():
    """Where the noise drowns the rows, the numbers are finite and a note says so."""
    few = {column: values[:5] for column, values in TABLE.items()}

    found = protect(few).moments(["x", "y"], by="g", epsilon=0.01, delta=1e-6)

    assert found.notes != ()
    for numbers in (found.means, found.covariances, found.nearest_correlations, found.mean_errors):
        assert np.isfinite(numbers).all()


def test_a_group_that_never_occurs_is_named():
    """It gets numbers like the others, and a note says that they say nothing."""
    found = measured(by="g", terms={"categories": {"g": ["a", "never", "b"]}})

    assert {note.split(":")[0] for note in found.notes} == {"never"}
    assert np.isfinite(found.covariances).all()
    assert np.isfinite(found.nearest_correlations).all()
    assert np.isnan(found.correlations[1]).all()


def test_a_constant_column_has_almost_no_variance():
    """Its variance is 0 to within the noise, it has no correlations, and its mean is right."""
    found = measured(terms={"table": {**TABLE, "y": np.full(20_000, 2.0)}})

    assert found.means[0, 1] == pytest.approx(2, abs=0.01)
    assert abs(found.variances[0, 1]) < 0.1
    assert np.isnan(found.correlations[0, 1]).all()
    assert found.nearest_covariances[0, 1, 1] > 0
    assert any("no correlations, of y" in note for note in found.notes)


def test_more_columns_than_rows_are_answered():
    """Ten columns of six rows have positive definite covariances, and a note."""
    names = [f"x{i}" for i in range(10)]
    values = np.random.default_rng(2).normal(size=(6, 10))
    view = protect(
        {**dict(zip(names, values.T, strict=True)), "g": GROUP[:6]}, bounds=dict.fromkeys(names, (-4, 4))
    )

    found = view.moments(names, epsilon=50, delta=1e-6)

    assert re.search(r"all: it has about \d+ rows?, too few for 10 columns", "\n".join(found.notes))
    assert np.linalg.eigvalsh(found.nearest_covariances[0]).min() > 0


REFUSED = {
    "no columns": ({"columns": []}, "at least one column"),
    "twice": ({"columns": ["x", "x"]}, "each once"),
    "a category": ({"columns": ["x", "g"]}, "is categorical"),
    "groups by a number": ({"by": "x"}, "has no categories"),
    "radius": ({"radius": 2}, "is out of range"),
    "radius without delta": ({"radius": 1, "delta": 0}, "belongs to Gaussian noise"),
}


@pytest.mark.parametrize(("asked", "match"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_uncharged(asked, match):
    """What cannot be measured is refused, and nothing is spent."""
    view = protect()

    with pytest.raises(dp.ArgumentError, match=match):
        view.moments(**{"columns": ["x", "y"], "epsilon": 1, "delta": 1e-6, **asked})

    assert view.budget.spent == 0


@pytest.mark.parametrize("group", [None, "c", ["a"]])
def test_a_matrix_is_of_a_group(group):
    """One that there is, and which is named where there are several."""
    found = measured(by="g")

    with pytest.raises(dp.ArgumentError, match="is no group"):
        found.covariance(group)
