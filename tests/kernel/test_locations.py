"""Locations chosen on rows that are held out."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp

N = 20_000
KNOWN = {
    "epsilon": 50,
    "delta": 1e-3,
    "bounds": {"x": (-5, 5), "y": (-5, 5)},
    "categories": {"arm": ["a", "b"], "fold": [0, 1]},
    "public": ["arm", "fold"],
    "ledger": "memory:",
}


def protect(*, apart=1.5, gaps=0.0, **terms):
    """Two groups that differ in the first column, at ±2 only, and in no other."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.uniform(-5, 5, (N, 2)), columns=["x", "y"])
    frame["arm"] = np.where(np.arange(N) % 2, "b", "a")
    frame["fold"] = (np.arange(N) // 2) % 2
    near = (frame.arm == "b") & (frame.x.abs() < apart)
    frame.loc[near, "x"] = 2 * np.sign(frame.x[near])
    frame.loc[rng.random(N) < gaps, "x"] = math.nan
    return dp.protect(frame, f"locations {apart} {gaps} {terms}", **{**KNOWN, **terms})


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_locations_are_where_the_groups_differ(gaps):
    """One at 0, where a group has no rows, then one at either peak; none near another."""
    at = [[x, y] for x in (-4, -2, 0, 2, 4) for y in (-4, 0, 4)]
    found = protect(gaps=gaps).kernel_locations(
        ["x", "y"], by="arm", lengthscale=0.8, locations=at, n_locations=3, epsilon=20
    )

    assert {abs(x) for x, _ in found.locations} <= {0.0, 2.0}
    assert len(set(found.locations)) == 3
    assert found.privacy.delta == 0
    assert dp.Release.from_dict(found.to_dict()) == found


def test_a_test_takes_them():
    """Chosen on one half of the rows, they serve a test of the other."""
    view = protect()
    where = view.where(fold=0).kernel_locations(["x"], by="arm", n_locations=2, epsilon=5)
    test = view.where(fold=1).kernel_two_sample(
        ["x"], by="arm", method="moments", locations=where.locations, lengthscale=where.lengthscale, epsilon=5
    )

    assert test.locations == where.locations
    assert test.pvalue < 1e-6


def test_two_tables_and_few_candidates():
    """Of two views; where all candidates are alike, one is chosen."""
    known = {"epsilon": 9, "bounds": {"x": (-5, 5)}, "ledger": "memory:"}
    tables = {"p": np.linspace(-3, -2, 5000), "q": np.linspace(2, 3, 5000)}
    views = [dp.protect(pd.DataFrame({"x": x}), name, **known) for name, x in tables.items()]
    found = views[0].kernel_locations(["x"], other=views[1], locations=[[1.9], [2.0], [2.1]], epsilon=1)

    assert len(found.locations) == 1
    assert views[0].budget.spent == views[1].budget.spent > 0


@pytest.mark.parametrize("terms", [{"public": ["fold"]}, {"neighbors": "add_remove", "public": []}])
def test_private_groups_are_refused(terms):
    """Nothing is charged."""
    view = protect(**terms)

    with pytest.raises(dp.ArgumentError):
        view.kernel_locations(["x"], by="arm", epsilon=1)
    assert view.budget.spent == 0
