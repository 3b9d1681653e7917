"""A profile of a table of which nothing was declared: what is found, what is not said, and how it is used."""

# ruff: noqa: SIM300, PD011 - expected == actual; a profile's values are no frame's
from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy import ArgumentError, Column, SchemaError
from dfprivacy._privacy.calibrate import gaussian_discovery
from dfprivacy.testing import seeded_noise
from dfprivacy_eda.bounds import EDGES
from dfprivacy_eda.profile import bins, shape

pytestmark = pytest.mark.pandas

ROWS = 6000
NAMES = (f"profile-{at}" for at in itertools.count())


def data():
    """Ages, incomes with gaps, texts, flags, days, texts that nobody shares, and nothing."""
    rng = np.random.default_rng(2)
    income = rng.lognormal(10, 0.6, ROWS)
    return {
        "age": rng.normal(45, 12, ROWS).clip(17, 120).round(),
        "income": np.where(rng.random(ROWS) < 0.25, np.nan, income),
        "sex": rng.choice(["f", "m"], ROWS).tolist(),
        "ill": rng.random(ROWS) < 0.3,
        "seen": np.datetime64("2020-01-01", "ms") + rng.integers(0, 10**11, ROWS).astype("timedelta64[ms]"),
        "id": [f"p{at}" for at in range(ROWS)],
        "empty": [None] * ROWS,
    }


def protect(frame=None, **said):
    frame = pd.DataFrame(data()) if frame is None else frame
    return dp.protect(frame, next(NAMES), **{"epsilon": 100, "delta": 1e-4, "ledger": "memory:", **said})


@pytest.mark.parametrize("public", [["age"], ["age", "income"], ["sex"]], ids=str)
def test_public_columns_beside_private_ones(public):
    """Numbers of public columns alone are seen, where all that is private is text."""
    frame = pd.DataFrame(data())[["age", "income", "sex"]]
    found = protect(frame, public=public).profile(epsilon=10, delta=1e-6)

    assert ("number", "number", "text") == found.kinds
    assert (16, 128) == found.schema["bounds"]["age"]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, lambda d: pl.DataFrame(d).lazy(), pa.table])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_what_the_columns_hold(library, neighbors):
    """On every engine and under both relations: kinds, gaps, bounds, moments and frequent values, and a schema."""
    view = protect(library(data()), neighbors=neighbors)

    with seeded_noise(4):
        found = view.profile(epsilon=10, delta=1e-6)
    said = found.schema

    assert ("number", "number", "text", "number", "date", "text", None) == found.kinds
    assert {"income", "age"} < set(said["bounds"])
    assert (16, 128) == (said["bounds"]["age"][0], said["bounds"]["age"][1])
    assert {"f", "m"} == set(found.values[2])
    assert {"sex": ["f", "m", "other"], "ill": [0, 1]} == said["categories"]
    assert {"sex": "other"} == said["missing"]
    assert 0.25 * ROWS == pytest.approx(found.missing[1], abs=150)
    assert ROWS == pytest.approx(found.missing[6], abs=100)
    assert [None] * 3 == [found.missing[at] for at in (0, 2, 3)]
    assert 45 == pytest.approx(found.mean[0], abs=3)
    assert 1 < found.skewness[1] < 4
    assert any("'id'" in note for note in found.notes)
    assert 10 == pytest.approx(found.privacy.epsilon)
    assert 1e-6 == pytest.approx(found.privacy.delta)
    assert 7 == found.frame.shape[0]


def test_its_schema_can_be_used_at_once():
    """A view with what was found, and a table protected with it, answer like any other."""
    view = protect()
    with seeded_noise(4):
        found = view.profile(epsilon=10, delta=1e-6)

    declared, again = view.declare(found), protect(**found.schema)

    assert declared.schema.columns == again.schema.columns
    assert 45 == pytest.approx(float(declared.mean("age", epsilon=10)), abs=1)
    assert 0.5 == pytest.approx(declared.value_counts("sex", normalize=True, epsilon=10)["f"], abs=0.05)
    assert "sex" in repr(declared.describe(epsilon=10))


def test_what_too_few_rows_hold_is_not_said():
    """Of 30 rows nothing is seen, and the release says so; nor is what it would take to be seen hidden."""
    view = protect(pd.DataFrame({"x": range(30), "y": ["a", "b", None] * 10}))

    found = view.profile(epsilon=0.1, delta=1e-6)

    assert (None, None) == found.kinds
    assert {"bounds": {}, "categories": {}, "missing": {}} == found.schema
    assert "larger epsilon" in repr(found)
    assert f"from {found.threshold:,} rows on" in repr(found)


def test_parts_and_groups():
    """Of a part of the rows and by group: each has a profile of its own at one price."""
    view = protect(categories={"sex": ["f", "m"]})

    with seeded_noise(1):
        part = view.where(sex="f").profile(["age", "ill"], epsilon=10)
        by = view.group_by("sex").profile(["age", "empty"], epsilon=10)

    assert ("number", "number") == part.kinds
    assert part.size is None
    assert [("number", None)] * 2 == [by[key].kinds for key in "fm"]
    assert 10 == pytest.approx(by.privacy.epsilon)


def test_a_selection_of_columns_is_another_question():
    """All columns of another selection are asked anew; the same words are answered from the ledger."""
    view = protect()

    first = view.select("age").profile(epsilon=1)
    other = view.select("age", "sex").profile(epsilon=1)
    again = view.select("age").profile(epsilon=1)

    assert (("age",), ("age", "sex"), ("age",)) == (first.columns, other.columns, again.columns)
    assert again.privacy.replayed
    assert first.columns == view.profile("age", epsilon=1).columns


@pytest.mark.parametrize("skewed", [False, True])
def test_the_shape_of_a_histogram(skewed):
    """Mean, standard deviation and skewness of 32 bins are about those of the values; noise may hide each."""
    rng = np.random.default_rng(1)
    x = rng.gamma(2, 8, 10**5).clip(0, 127.9) if skewed else rng.normal(64, 16, 10**5).clip(0, 127.9)
    edges = np.linspace(0, 128, 33)
    counts = np.histogram(x, edges)[0].astype(float)

    mean, std, skewness = shape(edges, counts, 0.0)

    assert (x.mean(), x.std()) == pytest.approx((mean, std), abs=0.3)
    assert 2 / math.sqrt(2) * skewed == pytest.approx(skewness, abs=0.1)
    assert None not in shape(edges, counts, 10.0)
    assert (None, None, None) == shape(edges, counts, 10**5)
    assert None in shape(edges, counts, 1500.0)[2:]
    assert (None, None, None) == shape(edges, np.zeros(32), 1.0)


def test_the_histograms_stay_within_what_is_planned():
    """Between any bounds the features have the radius of those that are planned, and no more sums."""
    column, ends = Column("x"), EDGES.tolist()
    planned = bins(column, (ends[0], ends[1]))

    for low, high in itertools.combinations(ends, 2):
        found = bins(column, (low, high))
        assert 1.0 == found.radius(2) == planned.radius(2)
        assert 32 <= found.dimension <= planned.dimension == 115


def test_what_is_refused():
    """No delta, a column twice or not there, and no column are refused before any charge."""
    view, pure = protect(), protect(delta=0)

    for refused, error, match in (
        (lambda: pure.profile(epsilon=1), ArgumentError, "delta above zero"),
        (lambda: view.profile(["age", "age"], epsilon=1), ArgumentError, "each once"),
        (lambda: view.profile([], epsilon=1), ArgumentError, "at least one"),
        (lambda: view.profile(["agee"], epsilon=1), SchemaError, "no column 'agee'"),
        (lambda: view.profile(epsilon=1e-3, delta=1e-2), ArgumentError, "not below epsilon"),
    ):
        with pytest.raises(error, match=match):
            refused()

    assert (0, 0) == (view.budget.spent, pure.budget.spent)


@pytest.mark.parametrize(
    ("epsilon", "come_and_go", "change"), [("1/10", 186.23, 262.96), ("1/2", 41.84, 58.75), ("1", 22.35, 31.20)]
)
def test_gaussian_thresholds_are_those_of_reference(epsilon, come_and_go, change):
    """1 + σ Φ⁻¹(1 - δ/2) with σ for half of δ of 10⁻⁶, computed elsewhere, rounded up to whole rows."""
    found = [gaussian_discovery(moved, 1, Fraction(epsilon), Fraction(1, 10**6))[1] for moved in (1, 2)]

    assert [math.ceil(come_and_go), math.ceil(change)] == found
