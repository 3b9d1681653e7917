"""``view.ttest`` with mean and variance as queries of their own."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy import Column, features
from dfprivacy.inference.engine import infer
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.laws import NoiseLaw
from dfprivacy.testing import seeded_noise
from dfprivacy_ttest.mechanisms import Power
from dfprivacy_ttest.parameters import parameter, textbook

NAMES = (f"separately-{number}" for number in itertools.count())
X = Column("x", bounds=(-3.0, 1.5), fill=-0.75)
BY = Column("by", categories=("a", "b"))
ROWS = 2000
TABLE = {
    "x": np.random.default_rng(3).normal(-0.5, 0.6, ROWS),
    "g": np.where(np.arange(ROWS) < 800, "a", "b"),
}


def protect(rows=TABLE, **terms):
    known = {"bounds": {"x": (-3.0, 1.5)}, "categories": {"g": ["a", "b"]}, "ledger": "memory:"}
    return dp.protect(pd.DataFrame(rows), next(NAMES), **{"epsilon": 10**6, **known, **terms})


@pytest.mark.parametrize("by", [None, BY, replace(BY, public=True)], ids=["all", "private", "public"])
@pytest.mark.parametrize("exponent", [1, 2])
def test_no_row_moves_a_sum_more(search, exponent, by):
    """One row moves each sum by what its query claims, of all rows or of groups."""
    asked = Power(X, exponent)
    every = [X] if by is None else [X, by]

    most = search(every, 1).features(asked if by is None else features.OneHot(by) * asked, 1, tries=4, steps=120)

    assert 0.9 < most <= 1 + 1e-9


TERMS = {
    "public size": ({}, {"nan_policy": "fill"}, [2, 1]),
    "missing rows": ({}, {}, [2, 1, 1]),
    "private size": ({"neighbors": "add_remove"}, {"nan_policy": "fill"}, [1, 1, 1]),
    "private groups": ({}, {"by": "g", "nan_policy": "fill"}, [2, 2, 2]),
    "public groups": ({"public": ["g"]}, {"by": "g", "nan_policy": "fill"}, [2, 1]),
}


@pytest.mark.parametrize("case", TERMS)
def test_each_query_has_its_part_of_epsilon(case):
    """Scales are the sensitivities over equal parts of epsilon, and the parts add up to what is charged."""
    terms, asked, sensitivities = TERMS[case]
    view = protect(**terms)

    found = view.ttest("x", queries="separately", **asked, epsilon=0.6)

    scales = [sensitivity * len(sensitivities) / 0.6 for sensitivity in sensitivities]
    assert found.released["scales"] == pytest.approx(scales, rel=1e-3)
    assert [record.sensitivity for record in found.privacy.noise] == pytest.approx(sensitivities)
    assert view.budget.spent == pytest.approx(0.6)
    assert found.queries == "separately"


@pytest.mark.parametrize("terms", [{}, {"neighbors": "add_remove"}])
@pytest.mark.parametrize("by", [None, "g"])
def test_with_little_noise_it_is_the_same_test(terms, by):
    """Where there is hardly any noise, queries apart and together say what scipy says."""
    view = protect(**terms)
    asked = {"by": by} if by else {"popmean": -0.52}
    x, g = TABLE["x"].clip(-3, 1.5), TABLE["g"]
    expected = stats.ttest_ind(x[g == "a"], x[g == "b"], equal_var=False) if by else stats.ttest_1samp(x, -0.52)

    for method in ("conv", "naive"):
        found = view.ttest("x", **asked, queries="separately", method=method, epsilon=10**3)

        assert found.statistic == pytest.approx(expected.statistic, abs=0.02)
        assert found.pvalue == pytest.approx(expected.pvalue, abs=0.02)


def test_a_query_is_reused():
    """Each query is kept on its own: the same test again is free, and so is another one of the same sums."""
    view = protect()
    view.ttest("x", queries="separately", popmean=-0.5, epsilon=1)

    view.ttest("x", queries="separately", popmean=-0.4, epsilon=1)

    assert view.budget.spent == pytest.approx(1)


def test_combining_knows_the_estimate():
    """The short way to the estimate is that of the release."""
    view = protect()
    found = view.ttest("x", queries="separately", epsilon=1)

    assert dp.combine(lambda test: 2 * test.estimate, found).estimate == pytest.approx(2 * found.estimate)


@pytest.mark.parametrize("n", [2, 5, 40])
def test_the_printed_queries_cost_twice_what_is_said(n):
    """One row of a table of zeros in [0, 1] moves mean and variance by all of their sensitivity, 1/n, at once."""
    zeros, one = np.zeros(n), np.eye(n)[0]

    moved = [abs(f(one) - f(zeros)) for f in (np.mean, lambda x: np.var(x, ddof=1))]
    loss = sum(move / (1 / (n * 0.3)) for move in moved)  # of two Laplace noises of scale 1/(n ε), ε = 0.3

    assert moved == pytest.approx([1 / n, 1 / n])
    assert loss == pytest.approx(2 * 0.3)


def released(rng, n, epsilon, sd, runs, mean=0.0):
    """Many releases of two queries of a normal sample, in units of y."""
    y = np.clip(rng.normal(mean, sd, (runs, n)), -1, 1)
    total = y.sum(axis=1) + rng.laplace(0, 4 / epsilon, runs)
    squares = np.square(y).sum(axis=1) + rng.laplace(0, 2 / epsilon, runs)
    return np.stack([total, squares], axis=-1)


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "epsilon"), [(100, 0.5), (400, 0.2), (400, 2.0)])
def test_levels_hold(n, epsilon):
    """With the noise in the p-value a true hypothesis is rejected at its level; the textbook test rejects more."""
    rng, runs = np.random.default_rng(n), 10_000
    values = np.stack([released(rng, n, epsilon, 0.4, runs) for _ in range(2)], axis=1)
    both = NoisyMoments(values, [NoiseLaw(4 / epsilon), NoiseLaw(2 / epsilon)], np.full((runs, 2), float(n)))
    one = replace(both, values=values[:, :1], rows=both.rows[:, :1])

    with np.errstate(invalid="ignore"):
        pvalues = {
            "one": infer(one, parameter(1), 512).pvalue(0.0),
            "two": infer(both, parameter(2), 512).pvalue(0.0),
            "naive": textbook(one, parameter(1)).pvalue(0.0),
        }
    rates = {name: np.nanmean(np.where(np.isnan(p), np.nan, p <= 0.05)) for name, p in pvalues.items()}

    slack = 5.5 * math.sqrt(0.05 * 0.95 / runs)
    assert 0.035 <= rates["one"] <= 0.05 + slack + 0.005
    assert 0.035 <= rates["two"] <= 0.05 + slack + 0.005
    assert rates["naive"] > rates["one"]


@pytest.mark.statistical
def test_apart_costs_power():
    """At the same price the test of two queries has half of the epsilon for the mean, and finds less."""
    many = range(200)
    view = protect({"x": np.tile(TABLE["x"], len(many)), "r": np.repeat(many, ROWS)}, public=["r"],
                   categories={"r": list(many)})  # fmt: skip
    asked = view.group_by("r")
    with seeded_noise(5):
        apart, together = (
            [test.pvalue for test in asked.ttest("x", popmean=-0.4, queries=queries, epsilon=0.02).releases]
            for queries in ("separately", "jointly")
        )

    assert np.median(apart) > np.median(together)


def test_unknown_queries_are_refused():
    """A word that is no way to ask is refused before any charge."""
    view = protect()

    with pytest.raises(dp.ArgumentError, match="queries='apart' is unknown"):
        view.ttest("x", queries="apart", epsilon=1)

    assert view.budget.spent == 0
