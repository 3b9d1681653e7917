"""One number of a column, or one a group: right, with the noise that is said, and with intervals that cover."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dfprivacy import Column
from dfprivacy.inference.engine import infer
from dfprivacy.laws import NoiseLaw
from dfprivacy.testing import seeded_noise
from dfprivacy_eda.moments import mean_and_degrees
from dfprivacy_eda.sums import Sums

RELATIONS = ["replace_one", "add_remove"]
NAMES = ["mean", "var", "std", "sum", "count", "missing", "nunique"]


def truth(name, column):
    """What pandas says."""
    return column.isna().sum() if name == "missing" else getattr(column, name)()


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_that_of_pandas(name, neighbors, frame, protect):
    """With next to no noise, what pandas says of the values that are there, of all rows and of each group."""
    view = protect(neighbors=neighbors)
    columns = ["age", "income", *(["sex", "region"] if name == "nunique" else [])]

    for column in columns:
        found = getattr(view, name)(column, epsilon=10**4)

        assert float(found) == pytest.approx(truth(name, frame[column]), rel=1e-4, abs=0.02)
        assert found.low - 0.01 <= float(found) <= found.high + 0.01  # a count is unbiased, its interval is not
    left = pytest.approx(frame["income"].isna().sum(), abs=0.5)
    assert getattr(view, name)("income", epsilon=10**4).missing == (
        left if name in {"mean", "var", "std", "count"} else None
    )
    groups = getattr(view.group_by("sex"), name)("income", epsilon=10**4)
    known = [truth(name, frame["income"][frame["sex"] == key]) for key in "fm"]
    assert known == pytest.approx([float(groups[key]) for key in "fm"], rel=1e-3, abs=0.1)
    assert 10**4 >= groups.privacy.epsilon


def test_what_is_public_is_exact_and_free(frame, protect):
    """Of a public column, and of the number of rows where that is public, there is no noise."""
    view = protect(public=["income"])

    every = {name: getattr(view, name)("income", epsilon=1) for name in NAMES}

    assert 4000 == float(view.count(epsilon=1))
    assert 4000 == protect(missing={"age": 60}).agg({"age": "count"}, epsilon=1)["age_count"]
    sizes = protect(public=["sex", "age"]).group_by("sex").agg({"age": "count"}, epsilon=1)
    assert frame.groupby("sex")["age"].count().to_list() == [sizes[key]["age_count"] for key in "fm"]
    for name, found in every.items():
        assert truth(name, frame["income"]) == pytest.approx(float(found), rel=1e-6)
        assert 0 == found.privacy.epsilon == found.high - found.low
        assert () == found.privacy.noise
        assert "exact: it follows from public columns or from what was declared" in repr(found).replace("\n", " ")


def test_missing_values_that_are_filled_or_counted(frame, protect):
    """Filled by request, or where the table was protected so; a complete row has a value in all columns named."""
    filled, complete = frame["income"].fillna(1e5), frame[["income", "region"]].notna().all(axis=1).sum()

    for found in (
        protect().mean("income", nan_policy="fill", epsilon=10**4),
        protect(missing={"income": 1e5}).mean("income", epsilon=10**4),
    ):
        assert filled.mean() == pytest.approx(float(found), rel=1e-4)
        assert found.missing is None
    different = protect().nunique("income", nan_policy="fill", epsilon=500)
    assert filled.nunique() == pytest.approx(float(different), abs=0.1)
    for neighbors in RELATIONS:
        view = protect(neighbors=neighbors)
        assert complete == pytest.approx(float(view.count(["income", "region"], epsilon=100)), abs=1)
        assert 4000 - complete == pytest.approx(float(view.missing(["income", "region"], epsilon=100)), abs=1)


@pytest.mark.parametrize(
    ("neighbors", "scales"),
    [
        ("replace_one", {"mean": [32, 16 / 14], "var": [20, 1 / 0.85], "sum": [32, 16 / 15], "count": [1]}),
        ("add_remove", {"mean": [17 / 16], "std": [25 / 16], "sum": [32, 16 / 15], "count": [1], "nunique": [1]}),
    ],
)
def test_the_noise_is_that_of_the_sensitivity(neighbors, scales, protect):
    """The scale of the noise at an epsilon of 1 is the sensitivity, but for the rows beyond bounds."""
    view = protect(neighbors=neighbors)

    for name, expected in scales.items():
        noise = getattr(view, name)("income", epsilon=1, fresh=True).privacy.noise
        assert expected == pytest.approx(
            [record.scale for record in noise], rel=0.1
        )  # where the rows are unknown, some is for rounding


# Coverage

COLUMN = Column("x", bounds=(0.0, 100.0), fill=50.0)
LAWS = {  # the part that is missing, how numbers follow from what is measured, and its scales at an epsilon of 1
    "size public": (0.0, [[0, 0], [1, 0], [0, 1], [0, 0]], [2, 4]),
    "size public, gaps": (0.15, [[0, 0, -2], [1, 0, 0], [0, 1, 0], [0, 0, 2]], [2, 4, 2]),
    "size private": (0.15, [[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 2 / 3]], [1.5, 1.5, 3, 1.5]),
}


def noisy(law, epsilon, y, gone, rng):
    """Sums of values about the middle, with some missing, as they may be released."""
    _, matrix, scales = LAWS[law]
    n, s1, s2 = len(y) + gone, y.sum(), (y**2).sum()
    exact = {"size public": [s1, s2], "size public, gaps": [s1, s2, 0.5 * gone]}
    exact["size private"] = [s1, len(y) - s2, s2, 1.5 * gone]
    scales = np.array(scales) / epsilon
    values = exact[law] + rng.laplace(size=len(scales)) * scales
    start = np.array([0 if law == "size private" else n, 0.0, 0, 0])
    laws = tuple(NoiseLaw(scale) for scale in scales)
    return Sums(COLUMN, values, laws, np.array(matrix, float), start, counted=True)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("law", "epsilon"), [("size public", 0.1), ("size public, gaps", 0.5), ("size private", 0.3)]
)
def test_intervals_cover(law, epsilon):
    """Over 200 draws of the noise, 95 % intervals hold the table's own numbers, as often as they say."""
    rng, runs = np.random.default_rng(6), 200
    x = rng.gamma(1.2, 9, 3000).clip(0, 100)
    kept = x[rng.random(3000) >= LAWS[law][0]]
    known = {"mean": kept.mean(), "std": kept.std(ddof=1), "var": kept.var(ddof=1), "sum": kept.sum()}
    known |= {} if law == "size public" else {"count": len(kept)}  # it is exact
    inside = dict.fromkeys(known, 0)

    for _ in range(runs):
        measured = noisy(law, epsilon, (kept - 50) / 50, 3000 - len(kept), rng)
        for name, exact in known.items():
            _, _, low, high, _ = measured.cell(name, 0.95)
            inside[name] += low - 1e-9 <= exact <= high + 1e-9

    spread = math.sqrt(runs * 0.95 * 0.05)
    assert all(abs(count - 0.95 * runs) < 3.6 * spread for count in inside.values()), inside


@pytest.mark.statistical
@pytest.mark.parametrize(("law", "epsilon"), [*zip(LAWS, [0.5, 0.05, 0.05], strict=True)])
def test_intervals_of_a_population_cover(law, epsilon):
    """They hold the mean of what rows are a sample of, and are as wide as sampling and noise make them."""
    rng, runs, n = np.random.default_rng(7), 12, 400
    every = [noisy(law, epsilon, rng.uniform(-0.5, 0.3, n), 0, rng) for _ in range(runs)]

    ends = np.array([infer(measured, mean_and_degrees).interval(0.95) for measured in every])

    variance = 0.8**2 / 12 / n + 2 * (LAWS[law][2][0] / epsilon / n) ** 2
    width = 2 * 1.96 * 50 * math.sqrt(variance)
    assert ((ends[:, 0] <= 45) & (ends[:, 1] >= 45)).sum() >= 9  # P < 10⁻³
    assert 0.9 * width < np.diff(ends).mean() < (1.15 if law == "size public" else 2) * width


def test_an_interval_of_a_variance_that_noise_took_below_zero():
    """Of 200 draws of the noise, 95 % intervals hold it, and none is a point."""
    rng, n, small, inside, below = np.random.default_rng(7), 500, 0.1, 0, 0
    y = np.tile([small, -small], n // 2)
    for _ in range(200):
        measured = noisy("size public", 0.8, y, 0, rng)
        value, _, low, high, _ = measured.cell("std", 0.95)
        inside += low - 1e-9 <= small * 50 <= high + 1e-9
        first, second = measured.values / n  # noqa: PD011 - no frame
        below += second < 0
        assert 0 <= low < high
        assert (value == 0) == (second - first**2 <= 0)

    assert inside >= 175  # P < 10⁻⁵
    assert below > 4


ASKED = {
    "mean, rows private": ("add_remove", "income", "mean", 0.1),
    "var, at once": ("replace_one", "visits", "var", 0.1),
    "std, after a guess": ("replace_one", "visits", "std", 0.5),
    "std, after a guess, gaps": ("replace_one", "income", "std", 0.5),
}


@pytest.mark.statistical
@pytest.mark.one_in(2)
@pytest.mark.parametrize("asked", ASKED)
def test_intervals_of_answers_cover(asked, frame, protect):
    """Of 40 answers, the intervals hold the table's own number in 95 %, but for five standard deviations."""
    neighbors, column, name, epsilon = ASKED[asked]
    view, policy = protect(neighbors=neighbors), "fill" if column == "visits" else "omit"
    exact = getattr(frame[column], name)()

    found = [getattr(view, name)(column, nan_policy=policy, epsilon=epsilon, fresh=True) for _ in range(40)]

    assert sum(each.low <= exact <= each.high for each in found) >= 0.95 * 40 - 5.2 * math.sqrt(40 * 0.95 * 0.05)
    widths = np.array([each.high - each.low for each in found])
    assert np.abs(np.array([each.value for each in found]) - exact).max() > np.median(widths) / 4


def test_different_values_of_nobody(protect):
    """Each group has its own, and an empty one none; what is beyond bounds is at them, no category is no value."""
    rows = {"x": [1.0, 2.0, 2.0, 9.0], "g": ["a", "b", "b", None], "h": ["z", "u", "u", None]}
    known = {"g": ["a", "b", "c"], "h": ["u", "v"]}
    view = protect(pd.DataFrame(rows), bounds={"x": (0, 5)}, categories=known)

    found = view.group_by("g").nunique("x", epsilon=500)

    assert [1, 1, 0] == [round(float(found[key])) for key in "abc"]
    assert [3, 1] == [round(float(view.nunique(name, epsilon=500))) for name in "xh"]


def test_an_answer_says_for_what_it_is(protect):
    """The interval for a population is wider than that for the table; where noise hides all, a note says so."""
    table, population = (protect().mean("age", covers=covers, epsilon=5) for covers in ("table", "population"))
    left = protect().mean("income", epsilon=2)
    with seeded_noise(1):
        (note,) = protect().mean("age", epsilon=0.001).notes

    assert population.high - population.low > 5 * (table.high - table.low)
    assert "for the population" in repr(population)
    assert "left out" in repr(left)
    assert "more than half of the possible range" in note


def shown(found):
    """The rows of a repr as a dictionary."""
    pairs = (line.split(maxsplit=1) for line in repr(found).splitlines())
    return {pair[0]: pair[-1] for pair in pairs if pair}


def test_a_private_number_of_rows_is_shown_with_its_error(frame, protect):
    """A public one has none; the error is that of the noise, as it varies."""
    view = protect()
    with seeded_noise(1):
        weighted = [view.mean("age", weights="income", epsilon=4, fresh=True) for _ in range(200)]
    counts = np.array([found.count for found in weighted])

    assert "4,000" == shown(view.mean("age", nan_policy="fill", epsilon=1))["rows"]
    rows, error = shown(weighted[0])["rows"].split(" ± ")
    assert rows == f"{counts[0]:,.0f}"
    assert counts.std() == pytest.approx(float(error), rel=0.3)
    assert counts.mean() == pytest.approx(frame["income"].notna().sum(), abs=float(error))
    assert "± " in shown(view.std("income", epsilon=1))["rows"]
