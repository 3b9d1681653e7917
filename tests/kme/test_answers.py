"""What a release says is true: of complete rows, of conditions, and of two samples."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

NAMES = (f"kme answers {number}" for number in itertools.count())


def protect(table, **terms):
    said = {"epsilon": 1000, "delta": 1e-3, "accounting": "basic", "ledger": "memory:", **terms}
    return dp.protect(pd.DataFrame(table), next(NAMES), **said)


def uniform(rng, rows):
    return {"x": rng.random(rows), "y": rng.random(rows)}


UNIT = {"x": (0, 1), "y": (0, 1)}


# Complete rows


def test_rows_with_a_missing_value_are_left_out():
    """The mean is that of complete rows, and the release says how many were left out; filled, it is another."""
    rng = np.random.default_rng(1)
    x = rng.uniform(0.0, 0.4, 20_000)
    table = {"x": np.where(rng.random(20_000) < 0.3, np.nan, x), "y": rng.random(20_000)}
    gone = int(np.isnan(table["x"]).sum())
    with seeded_noise(1):
        view = protect(table, bounds=UNIT)
        omitted, filled = (
            view.kme_release(["x", "y"], nan_policy=policy, epsilon=1, delta=1e-6) for policy in ("omit", "fill")
        )

    exact = float(np.nanmean(table["x"]))
    assert abs(omitted.missing - gone) < 6 * omitted.missing_standard_error < 100
    assert omitted.size == 20_000 - omitted.missing
    assert abs(omitted.mean()["x"] - exact) < 0.01
    interval = omitted.expectation(lambda rows: rows["x"], confidence=1 - 1e-9)
    assert interval.low < exact < interval.high
    assert filled.missing is None
    assert abs(filled.mean()["x"] - (0.7 * exact + 0.3 * 0.5)) < 0.02
    assert "missing" in repr(omitted)
    assert "missing" not in repr(filled)


def test_what_is_missing_in_public_columns_is_known():
    """Of public columns the number of complete rows is exact, and may be refused."""
    table = {"x": [0.1, None, 0.3, 0.5] * 500, "y": [0.5, 0.2, None, 0.7] * 500}
    view = protect(table, bounds=UNIT, public=["x", "y"])

    found = view.kme_release(["x", "y"], epsilon=1, delta=1e-6)

    assert (found.size, found.missing, found.missing_standard_error) == (1000, 1000, 0)
    with pytest.raises(dp.ArgumentError, match="A value is missing"):
        view.kme_release(["x", "y"], nan_policy="raise", epsilon=1, delta=1e-6)
    with pytest.raises(dp.ArgumentError, match="nan_policy='raise' would tell"):
        protect(table, bounds=UNIT).kme_release(["x"], nan_policy="raise", epsilon=1, delta=1e-6)


def test_intervals_cover_the_mean_of_complete_rows():
    """With a noisy number of rows, 95% intervals hold the mean of a function far from 0 at least so often."""
    rng = np.random.default_rng(2)
    table = {"x": np.where(rng.random(300) < 0.5, np.nan, rng.uniform(0.6, 1.0, 300))}
    truth = float(np.nanmean(table["x"]))
    view = protect(table, bounds={"x": (0, 1)})
    hits = 0
    for seed in range(40):
        with seeded_noise(seed):
            found = view.kme_release(["x"], n_points=8, epsilon=2, delta=1e-6, fresh=True)
        interval = found.expectation(lambda rows: rows["x"])
        hits += interval.low <= truth <= interval.high

    assert hits >= 29  # of 40 at 0.95 each: fewer with a probability below 1e-6


# Conditions


def test_a_conditional_is_that_of_the_sample():
    """The distribution among rows of a category, and among numbers of an interval, is what a sample has."""
    rng = np.random.default_rng(3)
    income = rng.random(30_000) < 0.3
    table = {
        "age": np.clip(rng.normal(38, 12, 30_000) + 8 * income, 15, 95),
        "hours": np.clip(rng.normal(38, 10, 30_000) + 7 * income, 0, 100),
        "income": np.where(income, "high", "low"),
    }
    view = protect(table, bounds={"age": (15, 95), "hours": (0, 100)}, categories={"income": ["low", "high"]})
    with seeded_noise(3):
        release = view.kme_release(["age", "hours"], categories=["income"], epsilon=10, delta=1e-6)
    sample = release.sample(100_000, seed=0)
    rich, late = sample[sample.income == "high"], sample[(sample.age >= 50) & (sample.age <= 95)]

    high, old = release.conditional({"income": "high"}), release.conditional({"age": (50, 95)})

    assert high.mean() == pytest.approx({name: rich[name].mean() for name in ("age", "hours")}, abs=0.1)
    assert old.mean()["hours"] == pytest.approx(late.hours.mean(), abs=0.1)
    assert abs(high.mean()["age"] - table["age"][income].mean()) < 2
    assert high.weights.sum() == pytest.approx(1)
    with pytest.raises(dp.ArgumentError, match=r"Give an interval"):
        release.conditional({"age": 60})


# Two samples


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"features": "subspace"},
        {"features": "subspace", "n_points": 256},
        {"features": "fourier", "n_points": 40},
        {"features": "subspace", "points": {"x": [0.1, 0.5, 0.9, 0.1], "y": [0.2, 0.5, 0.4, 0.9]}},
    ],
    ids=["default", "subspace", "many points", "waves", "points"],
)
def test_releases_of_other_sizes_are_compared(asked):
    """Two paid releases of one kernel are compared, whatever their sizes and prices; a shift is found."""
    rng = np.random.default_rng(4)
    with seeded_noise(4):
        one = protect(uniform(rng, 2000), bounds=UNIT).kme_release(["x", "y"], epsilon=1, delta=1e-6, **asked)
        for rows, epsilon in ((300, 1), (20_000, 1), (2000, 20)):
            table = uniform(rng, rows)
            other = protect(table, bounds=UNIT).kme_release(["x", "y"], epsilon=epsilon, delta=1e-6, **asked)
            shifted = protect({**table, "x": table["x"] / 4}, bounds=UNIT)
            far = shifted.kme_release(["x", "y"], epsilon=epsilon, delta=1e-6, **asked)

            same, differ = one.two_sample(other), one.two_sample(far, alpha=0.01)
            assert same.pvalue > 1e-3
            assert (same.alpha, same.rejected) == (0.05, same.pvalue <= 0.05)
            assert differ.rejected
            assert one.mmd(other) == pytest.approx(other.mmd(one))
            assert abs(one.mmd(other)) < 0.1


def test_releases_of_other_kernels_are_not_compared():
    """Another lengthscale, no points in common, and other frequencies are refused."""
    view = protect(uniform(np.random.default_rng(5), 500), bounds=UNIT)
    asked = [
        {"features": "subspace", "n_points": 16, "lengthscale": 0.3},
        {"features": "subspace", "points": {"x": [0.2, 0.8], "y": [0.3, 0.4]}},
        {"features": "fourier", "n_points": 8},
        {"features": "fourier", "n_points": 9},
    ]

    releases = [view.kme_release(["x", "y"], epsilon=1, delta=1e-6, **each) for each in asked]

    for one, other in itertools.combinations(releases, 2):
        with pytest.raises(dp.ArgumentError, match="different feature maps"):
            one.two_sample(other)


@pytest.mark.parametrize(("rows", "noted"), [(60, True), (600, False)])
def test_a_small_pvalue_of_a_small_sample_is_noted(rows, noted):
    """A few unlike rows in a sample of a tenth and less of the other are not trusted below 1%."""
    with seeded_noise(7):
        release = protect({"x": np.repeat([0.0, 1.0], [1960, 40])}, bounds={"x": (0, 1)}).kme_release(
            ["x"], epsilon=20, delta=1e-6
        )
    unlike, alike = (release.two_sample({"x": np.arange(rows) < share * rows}) for share in (0.2, 0.02))

    assert unlike.pvalue < 0.01 < alike.pvalue
    assert any("rare values" in note for note in unlike.notes) == noted
    assert alike.notes == ()


@pytest.mark.statistical
def test_a_few_public_rows_are_not_always_another_population():
    """Forty rows of a rare category, half of the time without a single one, are told apart as seldom as is said."""
    rng = np.random.default_rng(6)
    rejected = np.zeros(2, dtype=int)
    with seeded_noise(6):
        for _ in range(60):
            view = protect({"x": rng.random(2000) < 0.02}, bounds={"x": (0, 1)})
            release = view.kme_release(["x"], epsilon=20, delta=1e-6)
            test = release.two_sample({"x": (rng.random(40) < 0.02).astype(float)})
            rejected += [test.pvalue <= 0.05, test.pvalue <= 0.001]

    assert rejected[0] <= 14  # of 60 at 0.05: more with a probability below 1e-6
    assert rejected[1] <= 3  # of 60 at 0.001: more with a probability below 1e-6
