"""``view.moments`` through the whole house."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp
from dfprivacy.testing.noise import seeded_noise
from dfprivacy_gmm import JointMoments

NAMES = (f"moments-{number}" for number in itertools.count())
chance = np.random.default_rng(1)
GROUP = chance.choice(["a", "b"], 20_000)
X = chance.standard_normal((20_000, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
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
    """A public number of rows is not measured: the sensitivity of the rest is √4.5 r, with it 1.5 r."""
    public = measured().privacy.noise[0].sensitivity
    private = measured(terms={"neighbors": "add_remove"}).privacy.noise[0].sensitivity

    r = math.sqrt(2)
    assert public == pytest.approx(math.sqrt(4.5) * r, rel=1e-3)
    assert private == pytest.approx(1.5 * r, rel=1e-3)


def test_frames():
    """Every column of every group has a row; matrices are frames whose rows are named."""
    found = measured(by="g")

    for library in ("pandas", "polars"):
        frame = found.to_frame(library)
        matrix = found.correlation("b", library)

        assert list(frame["g"]) == ["a", "a", "b", "b"]
        assert list(frame["column"]) == ["x", "y", "x", "y"]
        assert list(frame["mean"]) == found.means.ravel().tolist()
        assert list(frame["variance"]) == found.variances.ravel().tolist()
        assert list(matrix["column"]) == ["x", "y"]
        assert list(matrix["x"]) == found.correlations[1, 0].tolist()
        assert list(found.covariance("a", library)["y"]) == found.covariances[0, 1].tolist()


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
    for numbers in (found.means, found.covariances, found.correlations, found.mean_errors, found.covariance_errors):
        assert np.isfinite(numbers).all()


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
