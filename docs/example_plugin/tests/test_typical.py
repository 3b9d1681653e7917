"""Exactness, honesty, determinism and sensitivity of the mode and the median."""

import doctest
import math
from itertools import count, pairwise

import numpy as np
import pandas as pd
import pytest
from dfprivacy_typical import Histogram, median, mode
from dfprivacy_typical.noise import reach, tail

import dfprivacy as dp
from dfprivacy.features import Batch, number
from dfprivacy.testing import seeded_noise
from dfprivacy_audit import check_mechanism

COLORS = ["red", "green", "blue"]
names = (f"table {i}" for i in count())


def protect(df: pd.DataFrame, **terms) -> dp.PrivateFrame:
    """Protect a table under a name of its own, with a budget that never ends."""
    known = {"bounds": {"x": (0, 64)}, "categories": {"color": COLORS}}
    known = {key: {c: v for c, v in said.items() if c in df} for key, said in known.items()}
    return dp.protect(df, next(names), epsilon=10**6, ledger="memory:", **known, **terms)


@pytest.fixture
def numbers() -> np.ndarray:
    return np.random.default_rng(1).gamma(4, 5, size=501).clip(0, 64)


def test_mode_is_exact_without_noise():
    """At a huge epsilon the mode, the counts and the gap are those of the table."""
    view = protect(pd.DataFrame({"color": ["blue"] * 5 + ["red"] * 3 + ["green"]}))

    found = view.mode("color", epsilon=10**4)

    assert found.mode == "blue"
    assert found.counts == pytest.approx([3, 1, 5], abs=0.01)
    assert found.gap == pytest.approx(2, abs=0.01)
    assert found.notes == ()


def test_mode_is_seldom_wrong_and_sure():
    """Where two categories are as good as equal, a wrong answer is called uninformative, but for 5 in 100."""
    view = protect(pd.DataFrame({"color": ["red"] * 50 + ["green"] * 51}))

    wrong_and_sure = 0
    with seeded_noise(1):
        for _ in range(200):
            found = view.mode("color", epsilon=0.2, fresh=True)
            wrong_and_sure += found.mode != "green" and not found.notes

    assert 0 < wrong_and_sure < 27  # of 200 at 5 in 100, more than 26 come once in a million


def test_median_is_exact_without_noise(numbers):
    """At a huge epsilon the median is in its bin, and the interval is that bin."""
    view = protect(pd.DataFrame({"x": numbers}))

    found = view.middle("x", epsilon=10**4)

    truth = np.median(numbers)
    assert found.counts == pytest.approx(np.histogram(numbers, found.edges)[0], abs=0.01)
    assert found.confidence_interval() == (np.floor(truth), np.ceil(truth))
    assert found.low <= found.median <= found.high


def test_median_interval_covers(numbers):
    """Over the noise, the interval misses the median of the rows in at most 5 of 100 answers."""
    view = protect(pd.DataFrame({"x": numbers}))

    missed = 0
    with seeded_noise(1):
        for _ in range(200):
            found = view.middle("x", epsilon=0.5, fresh=True)
            missed += not found.low <= np.median(numbers) <= found.high

    assert missed < 27
    assert found.high - found.low < 32


def test_median_of_a_small_table_is_uninformative():
    """Where the noise drowns the rows, the interval says so."""
    view = protect(pd.DataFrame({"x": [1.0, 2.0, 3.0]}))

    with seeded_noise(1):
        found = view.middle("x", epsilon=0.01)

    assert found.confidence_interval() == (0, 64)
    assert found.notes == ("uninformative: the noise reaches both bounds",)


@pytest.mark.parametrize("method", ["mode", "middle"])
def test_same_seed_same_answer(method, numbers):
    """An answer is a function of the table and the noise alone."""
    column = {"mode": "color", "middle": "x"}[method]
    view = protect(pd.DataFrame({"x": numbers, "color": "red"}))

    answers = []
    for seed in (1, 1, 2):
        with seeded_noise(seed):
            answers.append(getattr(view, method)(column, epsilon=1, fresh=True).counts)

    assert np.array_equal(answers[0], answers[1])
    assert not np.array_equal(answers[0], answers[2])


@pytest.mark.parametrize("norm", [1, 2])
def test_sensitivity_of_the_histogram_is_exact(norm):
    """A number on, just below or just above an edge is in one bin, the right one, so its vector has norm 1."""
    column = dp.Column("x", bounds=(0.0, 1.0), fill=0.5)
    histogram = Histogram(column, 7)
    edges = np.array([e for edge in histogram.edges for e in (np.nextafter(edge, -1), edge, np.nextafter(edge, 2))])

    rows = histogram.rows(Batch(len(edges), {number(column): edges}))

    assert (np.linalg.norm(rows, ord=norm, axis=1) == histogram.radius(norm)).all()
    assert (rows.argmax(axis=1) == [max(0, min(6, i // 3 - (i % 3 == 0))) for i in range(24)]).all()


@pytest.mark.parametrize(("neighbors", "sensitivity"), [("replace_one", 2), ("add_remove", 1)])
@pytest.mark.parametrize(("method", "column"), [("mode", "color"), ("middle", "x")])
def test_noise_is_scaled_to_the_sensitivity(method, column, neighbors, sensitivity):
    """The noise of the counts has the scale that the docstring says, in both neighbouring relations."""
    view = protect(pd.DataFrame({"x": [1.0, 2.0], "color": ["red", "blue"]}), neighbors=neighbors)

    (noise,) = view.explain(method, column, epsilon=0.5).measurements

    assert noise.sensitivity == pytest.approx(sensitivity, rel=1e-6)
    assert noise.scale == pytest.approx(sensitivity / 0.5, rel=1e-6)


def test_plan_says_what_gap_is_informative():
    """A gap as large as the plan says has a p-value of just the error rate."""
    view = protect(pd.DataFrame({"color": COLORS}))

    plan = view.explain("mode", "color", epsilon=0.5)

    (gap,) = plan.findings.values()
    assert 2 * tail(gap / plan.measurements[0].scale, 2) == pytest.approx(0.05)


@pytest.mark.parametrize("wrong", [{"confidence": 95}, {"bins": 1}])
def test_wrong_arguments_cost_nothing(wrong, numbers):
    """What cannot be used is refused before anything is paid."""
    view = protect(pd.DataFrame({"x": numbers}))

    with pytest.raises(dp.ArgumentError, match=next(iter(wrong))):
        view.middle("x", epsilon=1, **wrong)

    assert view.budget.spent == 0


def test_tail_is_that_of_sums_of_laplace_variables():
    """The tail is half an exponential for one variable, falls with t, and is that of simulated sums for many."""
    sums = np.random.default_rng(1).laplace(size=(200_000, 9)).sum(axis=1)

    assert tail(1.5, 1) == pytest.approx(math.exp(-1.5) / 2)
    assert all(a > b for a, b in pairwise(tail(t, 9) for t in range(9)))
    assert (sums > reach(0.1, 9)).mean() == pytest.approx(0.1, abs=0.004)
    assert reach(0.5, 9) == 0


@pytest.mark.parametrize("check", [*check_mechanism(mode), *check_mechanism(median)], ids=str)
def test_the_audit_is_passed(check):
    """No check of the conformance kit fails, with either neighbouring relation."""
    check()


@pytest.mark.parametrize("method", [mode, median], ids=["mode", "middle"])
def test_examples_of_the_docstrings_run(method):
    """What the docstring of a mechanism shows is what happens."""
    (example,) = doctest.DocTestFinder().find(method.function, globs={})

    assert doctest.DocTestRunner().run(example) == (0, len(example.examples))
