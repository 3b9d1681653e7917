"""A description, and several statistics by name: the numbers of pandas, the noise of the cube, and coverage."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dfprivacy import Column
from dfprivacy.errors import ArgumentError
from dfprivacy.laws import NoiseLaw
from dfprivacy.release import NoisyValue
from dfprivacy.testing import seeded_noise
from dfprivacy_eda import aggregate, describe
from dfprivacy_eda.describe import JointSums
from dfprivacy_eda.sums import draw_noise

RELATIONS = ["replace_one", "add_remove"]
NUMBERS, ROWS = ["age", "visits", "income"], ["mean", "std", "25%", "50%", "75%"]
ASKED = {
    "age": ["mean", "std", "median"],
    "income": ["count", "missing", "sum", "var", "25%"],
    "visits": "mean",
    "region": ["count", "missing", "top", "freq"],
}


def known(frame):
    """What is asked, as pandas has it."""
    age, income, region = (frame[name] for name in ("age", "income", "region"))
    return {
        **{f"age_{name}": getattr(age, name)() for name in ("mean", "std", "median")},
        **{f"income_{name}": getattr(income, name)() for name in ("count", "sum", "var")},
        "income_missing": income.isna().sum(),
        "income_25%": income.quantile(0.25),
        "visits_mean": frame["visits"].mean(),
        "region_count": region.count(),
        "region_missing": region.isna().sum(),
        "region_freq": region.value_counts().iloc[0],
    }


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_a_description_is_that_of_pandas(neighbors, frame, protect):
    """With next to no noise, every cell that pandas has too, with gaps beside counts; and that of groups."""
    truth, view = frame.describe(include="all"), protect(neighbors=neighbors)

    found = view.describe(epsilon=10**4)
    groups = view.group_by("sex").describe(["income"], epsilon=10**4)

    for column in NUMBERS:
        for row in ("count", *ROWS):
            near = 60 if column == "income" else 0.03
            assert truth.loc[row, column] == pytest.approx(found.loc[row, column], abs=near), (row, column)
    assert ["f", "n"] == [found.loc["top", name] for name in ("sex", "region")]
    assert truth.loc["freq", "region"] == pytest.approx(found.loc["freq", "region"], abs=0.5)
    assert frame["income"].isna().sum() == pytest.approx(found.loc["missing", "income"], abs=0.5)
    assert math.isnan(found.loc["mean", "sex"])
    assert found.frame.shape == found.errors.shape == (9, 5)
    assert found["mean", "age"] == found.loc["mean", "age"]
    for cell in (("mode", "age"), ("mean", "regionn")):
        with pytest.raises(ArgumentError, match="Its rows are"):
            found[cell]
    means = frame.groupby("sex")["income"].mean().to_list()
    assert means == pytest.approx([groups[key].loc["mean", "income"] for key in "fm"], abs=100)
    assert 10**4 >= groups.privacy.epsilon


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("nan_policy", ["omit", "fill"])
def test_aggregations_are_those_of_pandas(neighbors, nan_policy, frame, protect):
    """With next to no noise, of all rows, with gaps left out or filled in."""
    if nan_policy == "fill":
        frame = frame.assign(income=frame["income"].fillna(1e5))

    view = protect(neighbors=neighbors)
    found = view.agg(ASKED, nan_policy=nan_policy, epsilon=3000)
    asked = {"nan_policy": nan_policy, "rows": ("age", "count"), "epsilon": 2000}
    groups = view.group_by("sex").agg({"age": "std", "income": "median"}, **asked)
    women = view.where(sex="f").agg({"income": "missing", "region": "missing"}, epsilon=2000)

    assert "n" == found["region_top"]
    for key, rows in frame.groupby("sex"):
        assert rows["age"].std() == pytest.approx(groups[key]["age_std"], abs=0.1)
        assert len(rows) == pytest.approx(groups[key]["rows"], abs=0.5)
        assert rows["income"].median() == pytest.approx(groups[key]["income_median"], abs=1500)
    assert frame["region"][frame["sex"] == "f"].isna().sum() == pytest.approx(women["region_missing"], abs=0.5)
    for name, value in known(frame).items():
        near = 60 if name == "income_25%" else 0.2
        assert value == pytest.approx(found[name], rel=3e-3, abs=near), name
        at = found.names.index(name)
        assert found.lows[at] <= found[name] <= found.highs[at] or name == "region_freq"
        exact = name == "income_count" and nan_policy == "fill" and neighbors == "replace_one"
        if nan_policy == "omit" or "missing" not in name:
            assert (found.standard_errors[at] > 0) != exact


def test_how_the_budget_is_split():
    """One part for moments of a column, two for quartiles, one for categories; in `agg` by their errors."""

    def shares(*asked):
        return pytest.approx({name: float(part) for name, part in describe.split_budget(*asked).items()})

    assert {"moments": 3 / 11, "quartiles": 6 / 11, "categories": 2 / 11} == shares(3, 2, None)
    assert {"moments": 3 / 4, "quartiles": 1 / 4} == shares(5, 0, "moments")
    assert {"categories": 1} == shares(0, 2, "categories")
    with pytest.raises(ArgumentError, match="focus='moments'"):
        describe.split_budget(0, 2, "moments")
    parts, of_three = aggregate.split_budget(2, 1, [], moments=True), [type("K", (), {"categories": "abc"})]
    assert 1 == sum(parts.values())
    assert 12 / (12 + 2.507 * 26.152) == pytest.approx(float(parts["sums"]), abs=1e-5)
    assert {"categories": 1} == aggregate.split_budget(0, 0, of_three, moments=False)
    assert {} == aggregate.split_budget(0, 0, [], moments=False)
    assert ["sums", "categories"] == [*aggregate.split_budget(1, 0, of_three, moments=False)]
    for numbers, labels in [(0, 3), *itertools.product([1, 2, 100, 101], [0, 3])]:
        parts = describe.split_budget(numbers, labels, together=True)  # of a report
        assert sum(parts.values()) == 1
        assert ("correlations" in parts, "categories" in parts) == (2 <= numbers <= 100, bool(labels))


# Noise


@pytest.mark.parametrize(("neighbors", "moment", "tree"), [("replace_one", 2, 2 * 5), ("add_remove", 1, 5)])
def test_the_noise_of_the_cube(neighbors, moment, tree, protect):
    """Moments of three columns share noise for a sensitivity of 2, or of 1 with the count; trees that of each.

    So do aggregations: two coordinates of age and one of income, with its gaps and no number of rows.
    """
    found = protect(neighbors=neighbors).describe(NUMBERS, focus="moments", epsilon=1)
    several = protect().agg({"age": ["std"], "income": ["mean"]}, epsilon=1)
    error = protect().agg({"age": ["mean", "std"], "income": ["mean", "std"]}, epsilon=1).standard_errors[0]

    beyond, moments, trees = found.privacy.noise
    assert {"K-norm (cube)"} == {each.kind for each in (beyond, moments, *several.privacy.noise)}
    assert 16 / 0.75 == pytest.approx(beyond.scale, rel=1e-6)
    assert moment / 0.75 * 16 / 15 == pytest.approx(moments.scale, rel=1e-6)
    assert 3 * tree / 0.25 == pytest.approx(trees.scale, rel=1e-6)  # of 12 · 20 leaves, with weights 2 and 3
    assert 1 == pytest.approx(found.privacy.epsilon) == pytest.approx(several.privacy.epsilon)
    assert [16, 32 / 15] == pytest.approx([each.scale for each in several.privacy.noise])
    # y and 2y²-1 of both, and gaps of each: six coordinates, for pandas cannot say that age has none
    assert math.sqrt(7 * 8 / 3) * 32 / 15 * 60 / 4000 == pytest.approx(error, rel=0.1)


@pytest.mark.statistical
def test_draws_of_the_cube():
    """Public draws have the standard deviation of the noise; small noise in two dimensions has its law."""
    for dimension, sd in [(1, 1.4142), (2, 2), (3, 2.5820), (5, 3.7417), (10, 6.6332), (20, 12.4097)]:
        law = NoiseLaw(1.0, kind="cube", dimension=dimension)
        assert [sd, sd] == pytest.approx(draw_noise((law, law)).std(axis=1), rel=0.03)
    far = np.arange(200)
    weights = np.exp(-0.7 * far) * np.where(far, 8 * far, 1)
    with seeded_noise(5) as sampler:
        drawn = np.array([sampler.cube(np.zeros(2, dtype=np.int64), 1 / 0.7) for _ in range(8_000)])
    reference = [0.05997, 0.23823, 0.23660, 0.17624, 0.11669]
    seen = np.bincount(np.abs(drawn).max(axis=1), minlength=5)[:5]
    assert reference == pytest.approx(weights[:5] / weights.sum(), abs=1e-5)
    assert reference == pytest.approx(seen / len(drawn), abs=0.029)  # six standard deviations at most


@pytest.mark.statistical
def test_errors_where_rows_come_and_go_are_those_of_reference():
    """Hours of UCI Adult, 0 to 100 in 32,561 rows, at an epsilon of 0.5: computed elsewhere, to 3 %."""
    column, n, mean, sd = Column("hours", bounds=(0.0, 100.0)), 32_561.0, 40.437456, 12.347239
    y = (mean - 50) / 50
    squares = (sd / 50) ** 2 * (n - 1) + n * y * y
    part = NoisyValue(np.array([n * y, 2 * squares - n]), np.array([2.0, 2.0]), None)
    whole = JointSums(n, NoiseLaw(2.0, kind="cube", dimension=3), {"hours": part}, "rows")

    measured = whole.column_sums(column, 2, None, complete=True)
    drawn, _ = measured.draws()

    assert (mean, sd) == pytest.approx((measured.noisy_value("mean"), measured.noisy_value("std")))
    assert 5.16 == pytest.approx(drawn.count.std(), rel=0.03)
    assert 0.0062 == pytest.approx(np.abs(drawn.mean - mean).mean(), rel=0.03)
    assert 0.0093 == pytest.approx(np.abs(drawn.std - sd).mean(), rel=0.03)


@pytest.mark.statistical
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_intervals_cover(neighbors, frame, protect):
    """Of 14 descriptions and 14 aggregations, 95 % intervals hold the table's own numbers."""
    view, truth, exact, runs = protect(neighbors=neighbors), frame.describe(), known(frame), 14
    inside, named = dict.fromkeys(("count", *ROWS), 0), dict.fromkeys(exact, 0)
    for _ in range(runs):
        found = view.describe(NUMBERS, epsilon=1, fresh=True)
        for at, column in enumerate(found.columns):
            for row in inside:
                place = found.statistics.index(row)
                inside[row] += found.lows[at][place] <= truth.loc[row, column] <= found.highs[at][place]
        several = view.agg(ASKED, epsilon=2, fresh=True)
        for name, value in exact.items():
            at = several.names.index(name)
            named[name] += several.lows[at] - 1e-9 <= value <= several.highs[at] + 1e-9

    for row, count in inside.items():
        width = 5.5 * math.sqrt(3 * runs * 0.95 * 0.05) * math.sqrt(3)  # the columns share noise
        assert count > 3 * runs * 0.95 - width, row
    for name, count in named.items():
        assert count >= 8, (name, count)  # six standard deviations below 13.3


def test_statistics_are_written_as_they_were_asked(protect):
    """By name or by column: no argument that was not given, and a name with what it stands for."""
    view = protect()

    by_column = view.where(age=30).agg({"visits": ["mean"]}, epsilon=10)
    by_name = view.agg(usual=("visits", "mean"), epsilon=10)

    assert ["agg({'visits': ['mean']})", "agg(usual=('visits', 'mean'))"] == [
        each.privacy.question for each in (by_column, by_name)
    ]
    assert str(by_column).startswith("Where age = 30: the mean of visits ")
    assert str(by_name).startswith("usual, the mean of visits, is ")
    assert "named" not in view.releases.to_dict()[0]["asked"]
