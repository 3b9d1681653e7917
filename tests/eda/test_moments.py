"""Means, variances and counts: right, with the noise that is said, and with intervals that cover."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dfprivacy import Column, features
from dfprivacy.errors import ArgumentError, SchemaError
from dfprivacy.inference.engine import infer
from dfprivacy.laws import NoiseLaw
from dfprivacy.testing import seeded_noise
from dfprivacy_eda.moments import of_population
from dfprivacy_eda.sums import Sums

RELATIONS = ["replace_one", "add_remove"]
TRUTH = {
    "mean": lambda x: x.mean(),
    "var": lambda x: x.var(),
    "std": lambda x: x.std(),
    "sum": lambda x: x.sum(),
    "count": lambda x: x.count(),
    "missing": lambda x: x.isna().sum(),
}


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", TRUTH)
def test_the_answer_is_that_of_pandas(name, neighbors, frame, protect):
    """With next to no noise, what pandas says of the values that are there."""
    view = protect(neighbors=neighbors)

    for column in ("age", "income"):
        with seeded_noise(11):
            found = getattr(view, name)(column, epsilon=10**4)

        assert float(found) == pytest.approx(TRUTH[name](frame[column]), rel=1e-4, abs=0.02)
        assert found.low - 0.01 <= float(found) <= found.high + 0.01  # a count is unbiased, its interval is not
    left = None if name in {"missing", "sum"} else pytest.approx(frame["income"].isna().sum(), abs=0.5)
    assert left == found.missing


def test_on_every_frame(constructor, protect):
    """The same of every library."""
    view = protect(constructor({"age": [20.0, 40.0, None, 90.0]}), bounds={"age": (0, 120)}, categories={})

    assert 50 == pytest.approx(float(view.mean("age", epsilon=10**4)), abs=0.1)
    assert 1 == pytest.approx(float(view.missing("age", epsilon=10**4)), abs=0.01)


def test_missing_values_that_are_filled(frame, protect):
    """By request, or where the table was protected so, a missing value counts as its fill value."""
    truth = frame["income"].fillna(1e5).mean()

    for found in (
        protect().mean("income", nan_policy="fill", epsilon=10**4),
        protect(missing={"income": 1e5}).mean("income", epsilon=10**4),
    ):
        assert truth == pytest.approx(float(found), rel=1e-4)
        assert found.missing is None


def test_by_group(frame, protect):
    """Every group has its own answer, of its own rows, at the price of one."""
    groups = frame.groupby("sex")["income"]

    for neighbors in RELATIONS:
        found = protect(neighbors=neighbors).group_by("sex").mean("income", epsilon=10**4)
        assert [groups.mean()[key] for key in "fm"] == pytest.approx([float(found[key]) for key in "fm"], rel=1e-4)
        assert groups.count()["m"] == pytest.approx(found["m"].count, abs=0.1)
        assert 10**4 >= found.privacy.epsilon


def test_what_is_public_is_exact_and_free(frame, protect):
    """Of a public column, and of the number of rows where that is public, there is no noise."""
    view = protect(public=["income"])

    rows, left = view.count(epsilon=1), view.missing("income", epsilon=1)
    mean = view.mean("income", epsilon=1)

    assert (4000, frame["income"].isna().sum()) == (float(rows), float(left))
    assert frame["income"].mean() == pytest.approx(float(mean), rel=1e-6)
    assert 0 == mean.noise_standard_error == mean.high - mean.low == rows.privacy.epsilon + mean.privacy.epsilon


def test_complete_rows_of_several_columns(frame, protect):
    """A row is counted if it has a value in all columns that are named."""
    complete = frame[["income", "region"]].notna().all(axis=1).sum()

    for neighbors in RELATIONS:
        view = protect(neighbors=neighbors)
        assert complete == pytest.approx(float(view.count(["income", "region"], epsilon=100)), abs=1)
        assert 4000 - complete == pytest.approx(float(view.missing(["income", "region"], epsilon=100)), abs=1)


def test_sensitivities():
    """The L1 diameter of (y, y²/2) and 1/2 for a missing row is 2, and the radius with a count and 3/2 is 3/2.

    That of y alone and 1 for a missing row is 2 as well.
    """
    x = Column("x", bounds=(0.0, 1.0), fill=0.5)
    alone = features.Given(x, of=features.Moments(x, degree=1), tally=(0, 1))
    fixed = features.Given(x, of=features.Moments(x), tally=(0, 0.5))
    free = features.Given(x, of=features.Moments(x, count=True), tally=(0, 1.5))

    assert 2 == pytest.approx(features.Moments(x).diameter(1, frozenset()), abs=1e-12)
    assert 1.5 == pytest.approx(features.Moments(x, count=True).radius(1), abs=1e-12)
    assert 2 == pytest.approx(fixed.diameter(1, frozenset()), abs=1e-12)
    assert 2 == pytest.approx(alone.diameter(1, frozenset()), abs=1e-12)
    assert 1.5 == pytest.approx(free.radius(1), abs=1e-12)
    assert 3 == pytest.approx(free.diameter(1, frozenset()), abs=1e-12)


@pytest.mark.parametrize(
    ("neighbors", "scales"),
    [
        ("replace_one", {"mean": [32, 16 / 14], "var": [20, 1 / 0.85], "sum": [32, 16 / 15], "count": [1]}),
        ("add_remove", {"mean": [17 / 16], "std": [25 / 16], "sum": [32, 16 / 15], "count": [1]}),
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


COLUMN = Column("x", bounds=(0.0, 100.0), fill=50.0)
LAWS = {  # how many values are missing, and how the numbers follow from what is measured
    "size public": (0.0, [[0, 0], [1, 0], [0, 1], [0, 0]]),
    "size public, gaps": (0.15, [[0, 0, -2], [1, 0, 0], [0, 1, 0], [0, 0, 2]]),
    "size private": (0.15, [[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 2 / 3]]),
}


def noisy(law, scales, truth, n, rng):
    """Sums as they may be released."""
    laws = tuple(NoiseLaw(scale) for scale in scales)
    values = truth + rng.laplace(size=len(truth)) * scales
    start = np.array([0 if law == "size private" else n, 0.0, 0, 0])
    return Sums(COLUMN, values, laws, np.array(LAWS[law][1], float), start, counted=True)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("law", LAWS)
def test_intervals_cover(law, epsilon):
    """Over 600 draws of the noise, 95 % intervals hold the table's own numbers, as often as they say."""
    rng = np.random.default_rng(6)
    runs, n = 600, 3000
    x = rng.gamma(1.2, 9, n).clip(0, 100)
    gone = rng.random(n) < LAWS[law][0]
    kept = x[~gone]
    y = (kept - 50) / 50
    s0, s1, s2, m = len(y), y.sum(), (y**2).sum(), gone.sum()
    truth, scales = {
        "size public": ([s1, s2], [2, 4]),
        "size public, gaps": ([s1, s2, 0.5 * m], [2, 4, 2]),
        "size private": ([s1, s0 - s2, s2, 1.5 * m], [1.5, 1.5, 3, 1.5]),
    }[law]
    known = {"mean": kept.mean(), "std": kept.std(ddof=1), "var": kept.var(ddof=1), "sum": kept.sum(), "count": s0}
    if law == "size public":
        del known["count"]  # it is exact
    inside = dict.fromkeys(known, 0)

    for _ in range(runs):
        measured = noisy(law, np.array(scales) / epsilon, truth, n, rng)
        for name, value in known.items():
            _, _, low, high, _ = measured.cell(name, 0.95)
            inside[name] += low - 1e-9 <= value <= high + 1e-9

    spread = math.sqrt(runs * 0.95 * 0.05)
    assert all(abs(count - 0.95 * runs) < 5.5 * spread for count in inside.values()), inside


def test_an_interval_of_a_variance_that_noise_took_below_zero():
    """Of 400 draws of the noise, 95 % intervals hold it (P < 10⁻⁶), and none is a point."""
    rng, n, small = np.random.default_rng(7), 500, 0.1
    inside, below = 0, 0
    for _ in range(400):
        measured = noisy("size public", np.array([4.0, 4.0]) / 0.8, [0.0, n * small**2], n, rng)
        value, _, low, high, _ = measured.cell("std", 0.95)
        inside += low - 1e-9 <= small * 50 <= high + 1e-9
        first, second = measured.values / n  # noqa: PD011 - no frame
        below += second < 0
        assert 0 <= low < high
        assert (value == 0) == (second - first**2 <= 0)

    assert inside >= 354
    assert below > 20


ASKED = {
    "mean, rows private": ("add_remove", "income", "mean", 0.1),
    "var, at once": ("replace_one", "visits", "var", 0.1),
    "std, after a guess": ("replace_one", "visits", "std", 0.5),
    "std, after a guess, gaps": ("replace_one", "income", "std", 0.5),
}


@pytest.mark.statistical
@pytest.mark.parametrize("asked", ASKED)
def test_intervals_of_answers_cover(asked, frame, protect):
    """Of 80 answers, the intervals hold the table's own number in 95 %, but for 5.2 standard deviations."""
    neighbors, column, name, epsilon = ASKED[asked]
    view, policy = protect(neighbors=neighbors), "fill" if column == "visits" else "omit"
    truth = getattr(frame[column], name)()

    with seeded_noise(3):
        ask = getattr(view, name)
        found = [ask(column, nan_policy=policy, epsilon=epsilon, fresh=True) for _ in range(80)]

    held = sum(each.low <= truth <= each.high for each in found)
    assert held >= 0.95 * 80 - 5.2 * math.sqrt(80 * 0.95 * 0.05)
    widths = np.array([each.high - each.low for each in found])
    assert np.abs(np.array([each.value for each in found]) - truth).max() > np.median(widths) / 4


@pytest.mark.statistical
@pytest.mark.parametrize(("law", "epsilon"), [*zip(LAWS, [0.5, 0.05, 0.05], strict=True)])
def test_intervals_of_a_population_cover(law, epsilon):
    """Over 200 samples with noise, 95 % intervals hold the mean of what the rows are a sample of."""
    rng, runs, n, inside = np.random.default_rng(7), 200, 400, 0

    for _ in range(runs):
        y = rng.uniform(-0.5, 0.3, n)
        s1, s2 = y.sum(), (y**2).sum()
        truth, scales = {
            "size public": ([s1, s2], [2, 4]),
            "size public, gaps": ([s1, s2, 0], [2, 4, 2]),
            "size private": ([s1, n - s2, s2, 0], [1.5, 1.5, 3, 1.5]),
        }[law]
        measured = noisy(law, np.array(scales) / epsilon, truth, n, rng)
        low, high = infer(measured, of_population).interval(0.95)
        inside += low <= 45 <= high

    assert abs(inside - 0.95 * runs) < 5.5 * math.sqrt(runs * 0.95 * 0.05)


def test_a_population_is_less_certain_than_a_table(protect):
    """The interval for a population is wider than that for the table, and says what it is for."""
    view = protect()

    table, population = (view.mean("age", covers=covers, epsilon=5) for covers in ("table", "population"))

    assert population.high - population.low > 5 * (table.high - table.low)
    assert "for the population" in repr(population)


def test_it_says_what_it_is(protect):
    """The text has the question, the answer, its interval, the rows, and how many were left out."""
    text = repr(protect().mean("income", epsilon=2))

    assert "mean of income" in text
    assert "for this table" in text
    assert "left out" in text
    assert "missing" not in repr(protect().mean("age", epsilon=2))


def test_an_answer_that_tells_nothing_says_so(protect):
    """Where the noise hides the number, a note says so."""
    with seeded_noise(1):
        (note,) = protect().mean("age", epsilon=0.001).notes

    assert "more than half of the possible range" in note


REFUSED = {
    "no column": (lambda v: v.mean("agee", epsilon=1), SchemaError, "no column 'agee'"),
    "categories": (lambda v: v.mean("sex", epsilon=1), SchemaError, "categorical"),
    "raise": (lambda v: v.mean("age", nan_policy="raise", epsilon=1), ArgumentError, "nan_policy='raise'"),
    "confidence": (lambda v: v.std("age", confidence=1, epsilon=1), ArgumentError, "confidence"),
    "covers": (lambda v: v.mean("age", covers="all", epsilon=1), ArgumentError, "'table'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_any_charge(case, protect):
    """What cannot be answered costs nothing, and the error says what to do."""
    ask, error, text = REFUSED[case]
    view = protect()

    with pytest.raises(error) as raised:
        ask(view)

    assert text in str(raised.value)
    assert not list(view.releases)


def test_no_values_at_all(protect):
    """A column without a value has a mean within its bounds, and says that it knows next to nothing."""
    view = protect(pd.DataFrame({"x": [np.nan] * 50}), bounds={"x": (0, 1)}, categories={})

    for seed in range(20):
        with seeded_noise(seed):
            found = view.mean("x", epsilon=1, fresh=True)

        assert 0 <= float(found) <= 1
        assert (found.low, found.high) == (0, 1)
        assert found.notes


def test_it_explains_itself(protect):
    """A plan of the question has its two measurements: a guess of the rows that are left, and about it."""
    plan = protect().explain("mean", "income", epsilon=1)

    guess, rest = plan.measurements
    assert "given income" in guess.what
    assert "Centred(income)" == rest.what
