"""What an answer says: decisions, small p-values, levels, plans that hold, and names of before."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_dcor.inference import Numbers, noisy_tail, null_tail

COUNT = itertools.count()
BOUNDS = {"bounds": {"x": (-1, 1), "y": (-1, 1)}}


def protect(values, **said):
    """Protect rows with much to spend."""
    known = {"epsilon": 10**6, "accounting": "basic", "ledger": "memory:"}
    return dp.protect(pd.DataFrame(values), f"answers {next(COUNT)}", **{**known, **BOUNDS, **said})


def line(n=2000, slope=1.0):
    """Two columns that fill their bounds evenly, the second a part of the first."""
    x = np.linspace(-1, 1, n)
    other = np.random.default_rng(0).permutation(x)
    return {"x": x, "y": np.where(np.random.default_rng(1).random(n) < slope, x, other)}


# The law under independence


@pytest.mark.parametrize("spread", [0.0, 1e-9, 0.05, 0.4, 1.0])
@pytest.mark.parametrize("scale", [1e-3, 0.02, 0.3, 5.0])
@pytest.mark.parametrize("value", [-1.0, 0.3, 1.0, 1.7, 3.0, 5.0])
def test_the_tail_is_the_integral(spread, scale, value):
    """Against quadrature, within two parts in a thousand however small it is, for a mean of 1."""

    def integrand(z):
        far = (value - math.sqrt(1 - spread + spread * z * z)) / scale
        beyond = math.exp(-far) / 2 if far > 0 else 1 - math.exp(far) / 2
        return 2 * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * beyond

    kink = math.sqrt(max(0.0, (value * abs(value) - 1 + spread) / spread)) if spread else 1.0
    ends = sorted(
        {0.0, *(kink * part for part in (0.5, 0.9, 0.99, 0.999, 1, 1.001, 1.01, 1.1)), 1.0, 3.0, 8.0, 38.0}
    )
    parts = [end for end in ends if end <= 38]
    exact = sum(integrate.quad(integrand, a, b, epsabs=0, limit=500)[0] for a, b in itertools.pairwise(parts))

    found = float(noisy_tail(value, scale, 1.0, spread))

    assert 0 <= found <= 1
    assert max(exact, 1e-250) == pytest.approx(max(found, 1e-250), rel=2e-3)


def test_the_tail_is_that_of_many_at_once():
    """Arrays are answered number by number."""
    value, scale, mean = np.linspace(-1, 3, 7), np.geomspace(1e-3, 1, 7), np.linspace(0, 2, 7)

    whole = noisy_tail(value, scale, mean, mean / 3)

    each = [float(noisy_tail(*one)) for one in zip(value, scale, mean, mean / 3, strict=True)]
    assert each == pytest.approx(whole.tolist())


def spectrum(quantiles):
    """Eigenvalues of the centred distances of points that stand for a distribution."""
    a = np.abs(quantiles[:, None] - quantiles)
    a -= a.mean(axis=0) + a.mean(axis=1)[:, None] - a.mean()
    values = np.sort(np.linalg.eigvalsh(-a) / len(a))[::-1]
    return values[values > 1e-9]


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["uniform", "norm", "expon", "t", "coin"])
def test_the_matched_law_is_wider_than_the_limit(kind):
    """Of the quadratic form of such columns, as many as is said at most lie beyond, and not far fewer at .05."""
    grid = (np.arange(400) + 0.5) / 400
    points = np.round(grid) if kind == "coin" else getattr(stats, kind).ppf(grid, *([3] if kind == "t" else []))
    values = np.sort(np.outer(*[spectrum(points)] * 2).ravel())[::-1]
    mean, spread = values.sum(), math.sqrt((values**2).sum())
    rng = np.random.default_rng(0)
    normal = (rng.standard_normal(400_000, dtype=np.float32) for _ in values[:100])
    draws = values[100:].sum() + sum(value * each**2 for value, each in zip(values[:100], normal, strict=True))

    beyond = [np.mean(draws > mean - spread + spread * stats.chi2(1).isf(level)) for level in (0.05, 0.01, 0.001)]

    assert 0.04 < beyond[0] < 0.0525
    assert beyond[1] < 0.011
    assert beyond[2] < 0.0013


def test_the_pvalue_is_the_level_at_which_it_is_rejected():
    """At levels above it independence is rejected, at those below it is not."""
    for covariance in (0.01, 0.03, 0.06, 0.2):
        values, scales = (covariance, 0.2, 0.2, -0.67, -0.67, 1.0), (2e-3, 6e-3, 6e-3, 1e-2, 1e-2, 5e-3)
        numbers = Numbers(values, scales, 1000, (0.5,) * 4)
        pvalue = numbers.pvalue()

        for level in (pvalue * 0.999, pvalue * 1.001):
            if level < 1:
                tail = null_tail(values, scales, 1000, numbers.largest, level)
                assert (level > pvalue) == (float(tail) <= 0.9 * level)


# Decisions


def test_a_pvalue_can_be_small():
    """Ten tests with Bonferroni's correction reject, by default arguments."""
    found = protect(line()).dcor("x", "y", epsilon=2)

    assert found.pvalue < 0.001 / 10
    assert (True, 0.05) == (found.rejected, found.alpha)


def test_a_test_decides_at_the_level_asked():
    """`alpha` in, `rejected` out, a bool."""
    dependent, independent = line(500), line(500, slope=0.0)
    with seeded_noise(1):
        yes = protect(dependent).dcor("x", "y", alpha=0.01, epsilon=20)
        no = protect(independent).dcor("x", "y", alpha=0.01, epsilon=20)

    assert ((True, 0.01), (False, 0.01)) == ((yes.rejected, yes.alpha), (no.rejected, no.alpha))
    assert [type(each.rejected) for each in (yes, no)] == [bool] * 2
    assert "rejected" in repr(yes)


def test_screened_columns_are_decided_on_as_well():
    """Each estimate has a decision at the level asked."""
    with seeded_noise(2):
        found = protect(line()).dcor_screen("x", ["y"], top=1, estimate=True, alpha=0.001, epsilon=5)

    assert [(True, 0.001)] == [(each.rejected, each.alpha) for each in found.estimates]


def test_a_party_decides_for_itself():
    """The estimate without noise has a level and a decision too."""
    values = line(1000)
    message = protect({"x": values["x"]}, bounds={"x": (-1, 1)}).dcor_message("x", epsilon=5)
    bob = protect({"y": values["y"]}, bounds={"y": (-1, 1)})

    found = bob.dcor_with_own(message, "y", permutations=99, seed=1, alpha=0.02)

    assert (0.01, 0.02, True) == (found.pvalue, found.alpha, found.rejected)
    assert not message.estimate(values["y"], permutations=9, seed=1, alpha=0.05).rejected
    with pytest.raises(dp.ArgumentError, match="alpha"):
        message.estimate(values["y"], alpha=1)


@pytest.mark.parametrize("value", [0.3, 1e6 / 3, 0.0])
def test_a_constant_is_independent_of_everything(value):
    """What rounding leaves of a constant's distances is no evidence: the p-value is 1, and nothing can be said."""
    message = protect({"x": np.linspace(0, 1, 300)}, bounds={"x": (0, 1)}).dcor_message("x", epsilon=5)

    found = message.estimate(np.full(300, value), permutations=99, seed=1)

    assert (found.pvalue, found.rejected, found.squared, found.covariance) == (1.0, False, 0.0, 0.0)
    assert any("constant" in note for note in found.notes)


def test_booleans_near_one_half_are_informative():
    """Halves of a table in either category, as numbers or as categories: nothing is called uninformative."""
    rng = np.random.default_rng(3)
    a = rng.random(2000) < 0.5
    values = {"x": a, "y": a ^ (rng.random(2000) < 0.1)}
    as_numbers = protect(values, bounds={"x": (0, 1), "y": (0, 1)})
    as_categories = protect(values, bounds={}, categories={"x": [False, True], "y": [False, True]})
    with seeded_noise(3):
        found = [
            view.dcor("x", "y", epsilon=5, fresh=True) for view in (as_numbers, as_categories) for _ in range(20)
        ]

    assert not any(each.notes for each in found)
    assert 0.05 > max(abs(each.correlation - 0.8) for each in found)


# Levels


@functools.cache
def numbers_of_tables(kind, runs, n):
    """Six numbers of each of many tables of independent columns, as a part of all rows."""
    rng = np.random.default_rng(4)
    tables = rng.random((runs, 2, n))
    if kind == "rare":
        tables = (tables < 0.05).astype(float)
    there = rng.random((runs, n)) < (0.6 if kind == "gaps" else 1)
    values = np.empty((runs, 6))
    for run in range(runs):
        kept = tables[run][:, there[run]]
        m = kept.shape[1]
        distances = [np.abs(side[:, None] - side) for side in kept]
        means = [each.mean() for each in distances]
        a, b = (each - each.mean(axis=0) - each.mean(axis=1)[:, None] + each.mean() for each in distances)
        squares = [np.vdot(one, other) / m**2 for one, other in ((a, b), (a, a), (b, b))]
        values[run] = np.array([*np.sqrt(np.maximum(squares, 0)), *np.subtract(means, 1), 1]) * (m / n)
    return values


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.5, 5, 100])
@pytest.mark.parametrize("kind", ["uniform", "rare", "gaps"])
def test_levels_hold(kind, epsilon):
    """Of 1,500 tables of independent columns no more are rejected than is said, at .05, .01 and .001."""
    n, runs, largest = 200, 1500, (0.5,) * 4
    values, rng = numbers_of_tables(kind, runs, n), np.random.default_rng(5)
    change = 2 * (n - 1) / n**2
    scales = (
        np.array([*(change / np.array([0.5, 0.15, 0.15, 0.1, 0.1])), 1 / (0.1 * (n - 2) / (n - 1) * n)]) / epsilon
    )
    noisy = values + rng.laplace(size=values.shape) * scales

    rejected = [int((null_tail(noisy, scales, n, largest, a) <= 0.9 * a).sum()) for a in (0.05, 0.01, 0.001)]

    for count, level in zip(rejected, (0.05, 0.01, 0.001), strict=True):
        assert count <= stats.binom(runs, 1.2 * level).isf(1e-6)


# Plans


def test_a_plan_says_how_wide_the_interval_will_be():
    """For columns that fill their bounds, ends of intervals are near those that `explain` gives."""
    n, view = 2000, protect(line(2000, slope=0.9))
    said = view.explain("dcor", "x", "y", epsilon=2).findings
    with seeded_noise(5):
        found = [view.dcor("x", "y", epsilon=2, fresh=True) for _ in range(40)]
    truth = protect(line(n, slope=0.9)).dcor("x", "y", epsilon=10**5).correlation

    low, high = (float(end) for end in next(text for key, text in said.items() if "R = 0.9" in key).split(" to "))

    assert truth == pytest.approx(0.9, abs=0.03)
    assert low == pytest.approx(np.mean([each.low for each in found]), abs=0.05)
    assert high == pytest.approx(np.mean([each.high for each in found]), abs=0.05)
    assert ["R = 0.1", "R = 0.5", "R = 0.9"] == [key.split(",")[0].removeprefix("interval for ") for key in said]


def test_a_plan_that_finds_nothing_says_so():
    """With hardly any budget the interval is from 0 to 1 for every truth."""
    said = protect(line(50)).explain("dcor", "x", "y", epsilon=0.01).findings

    assert {"0.00 to 1.00"} == set(said.values())


# Names of before


def test_an_answer_says_what_was_asked():
    """Columns, estimate, decision and notes are what is seen first."""
    text = repr(protect(line()).dcor("x", "y", epsilon=5))
    _, _, table = text.partition("\nDistanceCorrelation: ")

    assert ["x", "y", "correlation", "low", "high"] == [row.split()[0] for row in table.splitlines()[1:6]]
    assert "rejected" in text
