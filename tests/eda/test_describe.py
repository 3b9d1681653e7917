"""A table at a glance: the shape and numbers of pandas, the noise of the cube, and intervals that cover."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dfprivacy import Column
from dfprivacy.errors import ArgumentError
from dfprivacy.laws import NoiseLaw
from dfprivacy.release import NoisyValue
from dfprivacy.testing import seeded_noise
from dfprivacy_eda.describe import Summed, split
from dfprivacy_eda.sums import drawn_noise

from .conftest import data

RELATIONS = ["replace_one", "add_remove"]
ROWS = ["mean", "std", "25%", "50%", "75%"]


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_the_table_is_that_of_pandas(neighbors, frame, protect):
    """With next to no noise, every cell that pandas has too, with the gaps beside the counts."""
    truth = frame.describe(include="all")

    found = protect(neighbors=neighbors).describe(epsilon=10**4)

    for column in ("age", "visits", "income"):
        for row in ("count", *ROWS):
            near = 60 if column == "income" else 0.03
            assert truth.loc[row, column] == pytest.approx(found.loc[row, column], abs=near), (row, column)
    assert ["f", "n"] == [found.loc["top", name] for name in ("sex", "region")]
    assert truth.loc["freq", "region"] == pytest.approx(found.loc["freq", "region"], abs=0.5)
    assert frame["income"].isna().sum() == pytest.approx(found.loc["missing", "income"], abs=0.5)
    assert math.isnan(found.loc["mean", "sex"])
    assert found.frame.shape == found.errors.shape == (9, 5)
    assert found == type(found).from_dict(found.to_dict())


def test_other_libraries(protect):
    """Polars and Arrow have the names of the rows in a first column."""
    found = protect(pl.DataFrame(data())).describe(["age", "sex"], epsilon=10**4)

    assert isinstance(found.frame, pl.DataFrame)
    assert ["statistic", "age", "sex"] == found.frame.columns
    assert "f" == found.frame.filter(pl.col("statistic") == "top")["sex"][0]
    assert ["statistic", "age", "sex"] == protect(pl.DataFrame(data()).to_arrow()).describe(
        ["age", "sex"], epsilon=1
    ).frame.column_names


def test_a_tidy_table(protect):
    """One row for each number, with its interval."""
    found = protect().describe(["age", "sex"], epsilon=1)

    tidy = found.to_frame()

    assert ["column", "statistic", "value", "standard_error", "low", "high", "covers"] == list(tidy.columns)
    assert 10 == len(tidy)
    assert (tidy["low"] <= tidy["high"]).all()


def test_by_group(frame, protect):
    """Every group is described, at the price of one."""
    found = protect().group_by("sex").describe(["income"], epsilon=10**4)

    truth = frame.groupby("sex")["income"].mean()
    assert truth.to_list() == pytest.approx([found[key].loc["mean", "income"] for key in "fm"], abs=100)
    assert 10**4 >= found.privacy.epsilon


def shares(*asked):
    """The parts as numbers."""
    return pytest.approx({name: float(part) for name, part in split(*asked).items()})


def test_how_the_budget_issplit():
    """One part for the moments of a column, two for its quartiles, one for categories; or three quarters."""
    assert {"moments": 3 / 11, "quartiles": 6 / 11, "categories": 2 / 11} == shares(3, 2, None)
    assert {"moments": 3 / 4, "quartiles": 1 / 4} == shares(5, 0, "moments")
    assert {"categories": 1} == shares(0, 2, "categories")
    with pytest.raises(ArgumentError, match="focus='moments'"):
        split(0, 2, "moments")


def test_a_cell_by_its_names(constructor, frame, protect):
    """Whatever the library, a row and a column name a cell; of others it is said which there are."""
    ages = constructor({"age": frame["age"].to_list()})
    found = protect(ages, categories={}, bounds={"age": (0, 120)}).describe(epsilon=10**4)

    assert frame["age"].mean() == pytest.approx(found["mean", "age"], abs=0.05)
    for cell in (("mode", "age"), ("mean", "region")):
        with pytest.raises(ArgumentError, match="Rows are"):
            found[cell]


@pytest.mark.parametrize(("neighbors", "moment", "tree"), [("replace_one", 2, 2 * 5), ("add_remove", 1, 5)])
def test_the_noise_of_the_cube(neighbors, moment, tree, protect):
    """Moments of three columns share noise for a sensitivity of 2, or of 1 with the count; trees that of each."""
    found = protect(neighbors=neighbors).describe(["age", "visits", "income"], focus="moments", epsilon=1)

    beyond, moments, trees = found.privacy.noise

    assert "K-norm (cube)" == beyond.kind == moments.kind
    assert 16 / 0.75 == pytest.approx(beyond.scale, rel=1e-6)
    assert moment / 0.75 * 16 / 15 == pytest.approx(moments.scale, rel=1e-6)
    assert 3 * tree / 0.25 == pytest.approx(trees.scale, rel=1e-6)  # of 12 · 20 leaves, with weights 2 and 3
    assert 1 == pytest.approx(found.privacy.epsilon)


@pytest.mark.parametrize(
    ("dimension", "sd"), [(1, 1.4142), (2, 2), (3, 2.5820), (5, 3.7417), (10, 6.6332), (20, 12.4097)]
)
def test_draws_of_the_cube(dimension, sd):
    """The public draws have the standard deviation of the mechanism's noise."""
    law = NoiseLaw(1.0, kind="cube", dimension=dimension)

    assert [sd, sd] == pytest.approx(drawn_noise((law, law)).std(axis=1), rel=0.03)


@pytest.mark.statistical
def test_small_noise_of_the_cube_has_the_probabilities_of_reference():
    """In two dimensions, at a rate of 0.7 a step, how far the larger coordinate is from 0."""
    far = np.arange(200)
    weights = np.exp(-0.7 * far) * np.where(far, 8 * far, 1)
    with seeded_noise(5) as sampler:
        drawn = np.array([sampler.cube(np.zeros(2, dtype=np.int64), 1 / 0.7) for _ in range(15_000)])

    reference = [0.05997, 0.23823, 0.23660, 0.17624, 0.11669]
    seen = np.bincount(np.abs(drawn).max(axis=1), minlength=5)[:5]

    assert reference == pytest.approx(weights[:5] / weights.sum(), abs=1e-5)
    assert reference == pytest.approx(seen / len(drawn), abs=0.02)  # six standard deviations at most


@pytest.mark.statistical
def test_errors_where_rows_come_and_go_are_those_of_reference():
    """Hours of UCI Adult, 0 to 100 in 32,561 rows, at an epsilon of 0.5: computed elsewhere, to 3 %."""
    column, n, mean, sd = Column("hours", bounds=(0.0, 100.0)), 32_561.0, 40.437456, 12.347239
    y = (mean - 50) / 50
    squares = (sd / 50) ** 2 * (n - 1) + n * y * y
    part = NoisyValue(np.array([n * y, 2 * squares - n]), np.array([2.0, 2.0]), None)
    whole = Summed(n, NoiseLaw(2.0, kind="cube", dimension=3), {"hours": part}, "rows")

    measured = whole.of(column, 2, None, complete=True)
    drawn, _ = measured.draws()

    assert (mean, sd) == pytest.approx((measured.known("mean"), measured.known("std")))
    assert 5.16 == pytest.approx(drawn.count.std(), rel=0.03)
    assert 0.0062 == pytest.approx(np.abs(drawn.mean - mean).mean(), rel=0.03)
    assert 0.0093 == pytest.approx(np.abs(drawn.std - sd).mean(), rel=0.03)


@pytest.mark.statistical
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_intervals_cover(neighbors, frame, protect):
    """Of 50 descriptions at an epsilon of 1, 95 % intervals hold the table's own numbers."""
    view, truth = protect(neighbors=neighbors), frame.describe()
    inside = dict.fromkeys(("count", *ROWS), 0)
    for seed in range(50):
        with seeded_noise(seed):
            found = view.describe(["age", "visits", "income"], epsilon=1, fresh=True)
        for at, column in enumerate(found.columns):
            for row in inside:
                place = found.statistics.index(row)
                inside[row] += found.lows[at][place] <= truth.loc[row, column] <= found.highs[at][place]

    for row, count in inside.items():
        width = 5.5 * math.sqrt(150 * 0.95 * 0.05) * math.sqrt(3)  # the columns share noise
        assert count > 150 * 0.95 - width, row
        assert count < 150 * 0.95 + width or row.endswith("%"), row


def test_columns_that_cannot_be(protect):
    """None, the same twice, and a table of which nothing is known are refused before any charge."""
    view = protect()

    for columns in ([], ["age", "age"]):
        with pytest.raises(ArgumentError, match="columns="):
            view.describe(columns, epsilon=1)
    with pytest.raises(ArgumentError, match="No column has bounds"):
        protect(bounds={}, categories={}).describe(epsilon=1)

    assert not list(view.releases)


def test_nothing_but_gaps(protect):
    """A column without a value is described without an error, and its interval says that nothing is known."""
    view = protect(pd.DataFrame({"x": [np.nan] * 100}), bounds={"x": (0, 1)}, categories={})

    found = view.describe(epsilon=1)

    assert 0 <= found.loc["mean", "x"] <= 1


@pytest.mark.parametrize("ask", ["describe", "agg"])
def test_of_no_row_everything_is_possible(ask, protect):
    """Of a column without a value, noise alone makes a mean: its interval is all that lies between the bounds."""
    view = protect(pd.DataFrame({"x": [np.nan] * 100}), bounds={"x": (-3, 5)}, categories={})
    ends = []
    for seed in range(40):
        with seeded_noise(seed):
            found = (
                view.describe(epsilon=1, fresh=True)
                if ask == "describe"
                else view.agg({"x": ["count", "missing", "mean", "std"]}, epsilon=1, fresh=True)
            )
        lows, highs = (found.lows[0], found.highs[0]) if ask == "describe" else (found.lows, found.highs)
        ends += [(lows[row], highs[row]) for row in (2, 3)]

    assert ends.count((-3.0, 5.0)) >= 36
    assert ends.count((0.0, 4.0)) >= 36
