"""Bounds that cut into the data cannot mislead: every method that sums bounded numbers says so."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

ROWS = 20_000
RNG = np.random.default_rng(31)
TABLE = pd.DataFrame({"x": RNG.lognormal(3, 1, ROWS), "g": RNG.choice(["a", "b"], ROWS)})
TABLE["y"] = RNG.permutation(TABLE.x)
BEYOND = float((TABLE.x > 50).mean())
NAMES = (f"clipped {at}" for at in itertools.count())
ASKED = {
    "ttest": lambda view: view.ttest("x", popmean=20, epsilon=1),
    "ttest by group": lambda view: view.ttest("x", by="g", epsilon=1),
    "ztest": lambda view: view.ztest("x", popmean=20, sigma=15, epsilon=1),
    "anova": lambda view: view.anova("x", by="g", epsilon=1),
    **{name: lambda view, name=name: getattr(view, name)("x", epsilon=1) for name in ("mean", "var", "std", "sum")},
    "mean of a population": lambda view: view.mean("x", covers="population", epsilon=1),
    "agg": lambda view: view.agg({"x": ["std", "sum"], "g": "top"}, epsilon=1),
    "describe": lambda view: view.describe(["x", "g"], epsilon=1),
    **{name: lambda view, name=name: getattr(view, name)(["x", "y"], epsilon=1) for name in ("corr", "cov")},
    "moments": lambda view: view.moments(["x", "y"], epsilon=1),
    "moments with a delta": lambda view: view.moments(["x", "y"], epsilon=1, delta=1e-6),
    "moments by group": lambda view: view.moments(["x", "y"], by="g", epsilon=4),
    "ols": lambda view: view.ols("y ~ x + C(g)", epsilon=1),
    "ols by group": lambda view: view.group_by("g").ols("y ~ x", epsilon=4)["a"],
    "logit": lambda view: view.logit("g ~ x + y", epsilon=1),
    "a statistic": lambda view: view.contract_spread("x", epsilon=1),
}


@pytest.fixture(scope="module", autouse=True)
def registered():
    """A mechanism of a statistic, as anybody may write it."""

    def contract_spread(s):
        """Estimate the standard deviation."""
        return s.sd, s.variance / (2 * s.n)

    dp.register_mechanism(dp.statistic(null=15.0)(contract_spread))
    yield
    dp.unregister("contract_spread")


def ask(name, bounds, **terms):
    known = {"bounds": {"x": bounds, "y": bounds}, "categories": {"g": ["a", "b"]}, "ledger": "memory:"}
    view = dp.protect(TABLE, next(NAMES), **{"epsilon": 4, "delta": 1e-6, **known, **terms})
    with seeded_noise(31):
        return ASKED[name](view)


def limits(found):
    """What an answer shows about values that were limited."""
    return [line for line in str(found).splitlines() if line.strip().startswith("note") and "limited" in line]


def sides_of(clipped):
    """The shares below and above, of every group and column."""
    if clipped is None or (isinstance(clipped, tuple) and isinstance(clipped[0][0], float)):
        return [] if clipped is None else [clipped]
    every = clipped.values() if isinstance(clipped, dict) else clipped
    return [sides for each in every for sides in sides_of(each)]


@pytest.mark.parametrize("terms", [{}, {"neighbors": "add_remove"}, {"missing": {"x": 50.0}}], ids=str)
@pytest.mark.parametrize("name", ASKED)
def test_an_answer_about_limited_values_says_how_many_were(name, terms):
    """A fifth lies above: a note says so, and each share has an interval that holds it."""
    found = ask(name, (0.0, 50.0), **terms)

    notes = limits(found)
    assert notes
    assert all("were above 50, and limited to it" in note for note in notes)
    for (least, *_), (share, low, high) in sides_of(found.clipped):
        assert least < 0.02
        assert low < share < high
        assert abs(share - BEYOND) < 0.04
    assert dp.Release.from_json(found.to_json()) == found


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_about_values_within_their_bounds_has_no_such_note(name):
    """What is not clearly some is in the fields, and not said."""
    found = ask(name, (0.0, 2000.0))

    assert not limits(found)
    assert all(low == 0 for sides in sides_of(found.clipped) for _, low, _ in sides)


@pytest.mark.statistical
def test_intervals_of_shares_cover():
    """Of 400 intervals as many hold the share as is said."""
    view = dp.protect(TABLE, next(NAMES), epsilon=10**6, bounds={"x": (0.0, 50.0)}, ledger="memory:")

    with seeded_noise(5):
        found = [view.ttest("x", popmean=20, epsilon=1, fresh=True).clipped[0][1] for _ in range(400)]

    assert 0.89 < np.mean([low <= BEYOND <= high for _, low, high in found]) <= 0.99
