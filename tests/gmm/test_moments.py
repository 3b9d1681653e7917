"""`view.moments`: covariances and correlations of several columns, of all rows or by group."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

NAMES = (f"moments {number}" for number in itertools.count())
rng = np.random.default_rng(1)
GROUP = rng.choice(["a", "b"], 20_000)
X = rng.standard_normal((20_000, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
TABLE = {"x": X[:, 0].clip(-5, 6), "y": (X[:, 1] + (GROUP == "a")).clip(-5, 6), "g": GROUP}
GONE = [rng.random(20_000) < np.where(GROUP == "a", 0.4, 0.1), rng.random(20_000) < 0.1]
GAPPY = TABLE | {name: np.where(gone, np.nan, TABLE[name]) for name, gone in zip("xy", GONE, strict=True)}
CREDITS = pd.DataFrame({  # seven columns that fill a small part of their bounds; months and amount are correlated
    "months": (months := rng.gamma(3, 7, 1000).clip(4, 72)),
    "amount": (250 + months * 150 * rng.lognormal(0, 0.45, 1000)).clip(250, 20_000),
    "rate": rng.integers(1, 5, 1000),
    "since": rng.integers(1, 5, 1000),
    "age": rng.gamma(9, 4, 1000).clip(19, 75),
    "credits": rng.integers(1, 4, 1000),
    "people": rng.integers(1, 3, 1000),
})  # fmt: skip
WIDE = dict(zip(CREDITS, [(0, 72), (0, 20_000), (1, 4), (1, 4), (18, 80), (1, 4), (1, 2)], strict=True))


@pytest.fixture(autouse=True)
def noise():
    """Noise from a seed, so that every run is the same."""
    with seeded_noise(1):
        yield


def protect(table=TABLE, engine=pd.DataFrame, **terms):
    known = {"epsilon": 10**5, "delta": 0.1, "accounting": "basic", "ledger": "memory:"}
    known |= {"bounds": {"x": (-5, 6), "y": (-5, 6)}, "categories": {"g": ["a", "b"]}}
    return dp.protect(engine(table), next(NAMES), **{**known, **terms})


def measured(*, table=TABLE, engine=pd.DataFrame, terms=None, **asked):
    view = protect(table, engine, **(terms or {}))
    return view.moments(["x", "y"], **{"epsilon": 40, "delta": 1e-6, **asked})


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("by", [None, "g"])
@pytest.mark.parametrize("table", [TABLE, GAPPY], ids=["whole", "gaps"])
def test_moments_are_those_of_complete_rows(table, neighbors, delta, by):
    """A row with a missing value neither pulls a mean to the middle nor counts; how many there are is said."""
    found = measured(table=table, terms={"neighbors": neighbors}, delta=delta, by=by)

    whole, complete = pd.DataFrame(table), pd.DataFrame(table).dropna()
    parts = [complete] if by is None else [part for _, part in complete.groupby("g")]
    assert found.groups == (("all",) if by is None else ("a", "b"))
    for at, part in enumerate(parts):
        both = part[["x", "y"]]
        assert found.sizes[at] == pytest.approx(len(part), abs=15)
        assert found.means[at] == pytest.approx(both.mean(), abs=0.02)
        assert found.covariances[at] == pytest.approx(both.cov().to_numpy(), abs=0.1)
        assert found.correlations[at] == pytest.approx(both.corr().to_numpy(), abs=0.04)
    if neighbors == "add_remove":
        assert found.missing is found.missing_standard_error is None
    else:
        assert found.missing == pytest.approx(len(whole) - len(complete), abs=6 * found.missing_standard_error)
        assert [note for note in found.notes if "rows were left out" in note] == [*found.notes]
        assert len(found.notes) == (table is GAPPY)
    assert found.nearest_covariances == pytest.approx(found.covariances, rel=1e-6)


def test_filled_values_count_where_they_are_asked_for():
    """With "fill" the sizes are all rows, and means go to the middle of the bounds; a declared fill does so too."""
    filled = pd.DataFrame(GAPPY)[["x", "y"]].fillna(0.5)
    declared = {"missing": {"x": 0.5, "y": 0.5}}

    for found in (measured(table=GAPPY, nan_policy="fill"), measured(table=GAPPY, terms=declared)):
        assert (found.public_sizes, found.sizes.tolist()) == (True, [20_000])
        assert found.means[0] == pytest.approx(filled.mean(), abs=0.01)


def test_missing_values_of_public_columns_are_known():
    """They are refused if asked for, and left out exactly and for nothing otherwise."""
    view, complete = protect(GAPPY, public=["x", "y"]), pd.DataFrame(GAPPY).dropna()

    with pytest.raises(dp.ArgumentError, match="A value is missing in 'x'"):
        view.moments(["x", "y"], epsilon=1, delta=1e-6, nan_policy="raise")
    found = view.moments(["x", "y"], epsilon=1, delta=1e-6)

    assert found.missing == pytest.approx(20_000 - len(complete))
    assert (found.missing_standard_error, view.budget.spent) == (0, 0)
    assert found.means[0] == pytest.approx(complete[["x", "y"]].mean(), abs=1e-4)


@pytest.mark.parametrize("epsilon", [1, 10])
def test_covariances_are_unbiased_and_their_errors_hold(epsilon):
    """Over 40 answers their mean is the truth to within its error, and an interval seldom misses it.

    They were shrunk away. Where a variance could be all noise there is no correlation, and a note says so.
    """
    view, truth = protect(CREDITS, bounds=WIDE, categories={}), CREDITS.cov().loc["months", "amount"]

    found = [view.moments([*WIDE], epsilon=epsilon, delta=1e-6, fresh=True) for _ in range(40)]

    covariances = np.array([each.covariances[0, 0, 1] for each in found])
    noise = np.array([each.standard_errors("none")[1][0, 0, 1] for each in found])
    assert abs(covariances.mean() - truth) < 5 * noise.mean() / math.sqrt(40)
    assert covariances.std() == pytest.approx(noise.mean(), rel=0.6)
    assert np.mean(np.abs(covariances - truth) > 2 * noise) < 0.2
    for each in found[:20]:
        hidden = np.isnan(each.correlations[0, 0, 1])
        assert not hidden or any("no correlations of" in note for note in each.notes)
        if np.linalg.eigvalsh(each.covariances[0]).min() < 0:
            assert any("are not positive definite" in note for note in each.notes)
        assert np.linalg.eigvalsh(each.nearest_covariances[0]).min() > 0
    assert epsilon > 1 or sum(np.isnan(each.correlations[0, 0, 1]) for each in found) > 20


def test_standard_errors_on_other_terms():
    """Those of any data are the largest, those of the noise alone the smallest; anything else is refused."""
    found = measured()

    bounded, normal, noise = (found.standard_errors(each) for each in ("bounded", "normal", "none"))

    assert bounded[1].tolist() == found.covariance_errors.tolist()
    assert bounded[2].tolist() == found.correlation_errors.tolist()
    for most, some, least in zip(bounded[1:], normal[1:], noise[1:], strict=True):
        assert (most >= some).all()
        assert (some >= least).all()
    assert (normal[0] > noise[0]).all()
    with pytest.raises(dp.ArgumentError, match="sampling='all' is unknown"):
        found.standard_errors("all")


def test_matrices_are_tables_with_names():
    """Covariances and correlations of a group are the caller's tables, with names that no column has."""
    table = {"column": TABLE["x"], "x": TABLE["y"], "mean": GROUP}
    known = {"bounds": {"column": (-5, 6), "x": (-5, 6)}, "categories": {"mean": ["a", "b"]}}
    found = protect(table, pl.DataFrame, **known).moments(["column", "x"], by="mean", epsilon=30, delta=1e-6)
    frame, covariance = found.to_frame(), found.covariance("a")

    assert {type(each) for each in (frame, covariance)} == {pl.DataFrame}
    assert list(frame["mean_"]) == ["a", "a", "b", "b"]
    assert list(frame["variance"]) == found.variances.ravel().tolist()
    assert list(frame["variance_error"]) == found.covariance_errors[:, [0, 1], [0, 1]].ravel().tolist()
    assert list(covariance["column_"]) == ["column", "x"]
    assert list(covariance["column"]) == found.covariances[0, 0].tolist()
    assert found.correlation("b", library="pandas")["x"].tolist() == found.correlations[1, 1].tolist()
    for group in (None, "c", ["a"]):
        with pytest.raises(dp.ArgumentError, match="no group"):
            found.covariance(group)


# Whatever the table, there is a sensible answer


def test_little_data_are_uninformative():
    """Where the noise drowns the rows, or columns are more than rows, numbers are finite, and a note says so."""
    names = [f"x{i}" for i in range(10)]
    few = {name: np.random.default_rng(2).normal(size=6) for name in names}

    drowned = measured(table={name: values[:5] for name, values in TABLE.items()}, by="g", epsilon=0.01)
    found = protect(few, bounds=dict.fromkeys(names, (-4, 4)), categories={}).moments(names, epsilon=50, delta=1e-6)

    assert drowned.notes != ()
    for numbers in (drowned.means, drowned.covariances, drowned.nearest_correlations, drowned.mean_errors):
        assert np.isfinite(numbers).all()
    assert re.search(r"all: it has about \d+ rows?, too few for 10 columns", "\n".join(found.notes))
    assert np.linalg.eigvalsh(found.nearest_covariances[0]).min() > 0


def test_a_constant_column_has_almost_no_variance():
    """Its variance is 0 to within the noise, it has no correlations, and its mean is right."""
    found = measured(table={**TABLE, "y": np.full(20_000, 2.0)})

    assert found.means[0, 1] == pytest.approx(2, abs=0.01)
    assert abs(found.variances[0, 1]) < 0.1
    assert np.isnan(found.correlations[0, 1]).all()
    assert found.nearest_covariances[0, 1, 1] > 0
    assert any("no correlations of y" in note for note in found.notes)


def test_public_sizes_leave_less_to_measure():
    """A public number of rows is not measured: the sensitivity of the rest is √4.5 r, with it 1.5 r.

    Beside the rows beyond the bounds, of weight 1/4: two of each column where rows change, else one.
    """
    public, private = (measured(terms={"neighbors": each}) for each in ("replace_one", "add_remove"))

    r = math.sqrt(2)
    assert public.privacy.noise[0].sensitivity == pytest.approx(math.hypot(math.sqrt(4.5) * r, 1 / 2), rel=1e-3)
    assert private.privacy.noise[0].sensitivity == pytest.approx(math.hypot(1.5 * r, math.sqrt(2) / 4), rel=1e-3)


def test_a_group_that_never_occurs_is_named():
    """It gets numbers like the others, and a note says that they say nothing."""
    found = measured(by="g", terms={"categories": {"g": ["a", "never", "b"]}})

    assert {note.split(":")[0] for note in found.notes} == {"never"}
    assert np.isfinite(found.covariances).all()
    assert np.isfinite(found.nearest_correlations).all()
    assert np.isnan(found.correlations[1]).all()
