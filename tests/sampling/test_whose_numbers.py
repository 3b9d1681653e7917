"""Answers on a sample say whose number an interval is for, and those for the population cover the table's too."""

import math

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp

ROWS = 4000
RUNS = 60


@pytest.fixture(name="table", scope="module")
def _table():
    rng = np.random.default_rng(7)
    return pd.DataFrame(
        {"x": rng.uniform(0, 1, ROWS), "y": rng.uniform(0, 1, ROWS), "g": rng.choice(["a", "b"], ROWS)}
    )


@pytest.fixture(name="sample", scope="module")
def _sample(table):
    terms = {"bounds": {"x": (0, 1), "y": (0, 1)}, "categories": {"g": ["a", "b"]}, "ledger": "memory:"}
    return dp.protect(table, "whose", epsilon=10**6, **terms).sample("1/10")


ASKED = [
    lambda v: v.mean("x", epsilon=9),
    lambda v: v.mean("x", covers="table", epsilon=9),
    lambda v: v.sum("x", epsilon=9),
    lambda v: v.median("x", epsilon=9),
    lambda v: v.quantile("x", [0.5], epsilon=9),
    lambda v: v.quantile("x", [0.5], covers="table", epsilon=9),
    lambda v: v.describe(epsilon=9),
    lambda v: v.corr(["x", "y"], epsilon=9),
    lambda v: v.agg(x=["mean", "std"], epsilon=9),
    lambda v: v.value_counts("g", epsilon=9),
    lambda v: v.histogram("x", bins=4, epsilon=9),
    lambda v: v.dcor("x", "y", epsilon=9),
    lambda v: v.group_by("g").mean("x", covers="table", epsilon=9),
    lambda v: v.group_by("g").describe(epsilon=9),
]


def said(release):
    return " ".join([repr(release), release.summary(), release.to_markdown(), release._repr_html_()]).split()


@pytest.mark.parametrize("ask", ASKED)
def test_no_answer_speaks_of_the_table(sample, ask):
    """Its own number is the sample's, in sentences, tables, notes and in `covers`."""
    release = ask(sample)
    members = [release, *getattr(release, "releases", ())]

    text = " ".join(said(release))
    assert "the table's" not in text
    assert "for the table" not in text
    assert not any(str(each.covers).endswith("table") for each in members)
    assert not any(
        "the table" in note for each in members for note in getattr(each, "notes", ()) if isinstance(note, str)
    )


@pytest.mark.parametrize(
    ("ask", "of"),
    [
        (lambda v: v.mean("x", epsilon=1, fresh=True), lambda d: d.x.mean()),
        (lambda v: v.group_by("g").mean("x", epsilon=1, fresh=True)["a"], lambda d: d.x[d.g == "a"].mean()),
        (lambda v: v.quantile("x", 0.5, epsilon=1, fresh=True), lambda d: d.x.median()),
    ],
)
def test_intervals_for_the_population_hold_for_the_table(sample, table, ask, of):
    """Sampling is in them, so of 60 at 95% fewer than 45 cover the table's number once in ten million times."""
    truth = of(table)
    answers = [ask(sample) for _ in range(RUNS)]
    ends = [(each.low, each.high) for each in answers if each.low is not None]

    assert not ends or sum(low <= truth <= high for low, high in ends) * RUNS / len(ends) >= 45


def test_a_plan_says_what_its_errors_leave_out(sample, table):
    """The error of a mean for the table's own is that of the noise and what sampling adds, as measured."""
    explained = sample.explain("mean", "x", epsilon=1)
    noise = explained.findings["expected standard error of the mean"]
    added = math.sqrt(1 / 400 - 1 / ROWS)
    errors = [float(sample.mean("x", epsilon=1, fresh=True)) - table.x.mean() for _ in range(RUNS)]

    assert f"{added:.3g} standard deviations" in repr(explained)
    assert "of the mean, for this sample" in repr(explained)
    assert f"{added:.3g}" in repr(sample.plan([("mean", "x")], epsilon=1))
    expected = math.hypot(noise, added * table.x.std())
    assert 0.5 * expected < np.std(errors) < 1.6 * expected


def test_groups_of_a_sample_take_nothing_that_is_kept(table):
    """Each question by group has a sample of its own: nothing measured of one is taken for another."""
    view = dp.protect(table, "by group", epsilon=10**5, bounds={"x": (0, 1)}, categories={"g": ["a", "b"]})
    sample = view.sample("1/10").group_by("g")
    first = sample.ttest("x", popmean=0.5, epsilon=100)
    second = sample.ttest("x", popmean=0.4, epsilon=100)

    assert not any(record.reused for record in second.privacy.noise)
    assert first["a"].estimate != second["a"].estimate
    assert view.budget.spent == 200
