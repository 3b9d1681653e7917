"""Categories that are written as no value is: nothing can be refused, and every answer says what to look at."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp
from dfprivacy.schema import UNDECLARED
from dfprivacy.testing import seeded_noise

N = 3000
CALLS = {
    "ttest": lambda view, _: view.ttest("x", by="g", epsilon=1),
    "one of the groups": lambda view, first: view.where(g=first).ttest("x", popmean=1, epsilon=1),
    "chi2": lambda view, _: view.chi2("h", "g", epsilon=1),
    "kernel": lambda view, _: view.kernel_two_sample(["x"], by="g", epsilon=1),
    "moments": lambda view, _: view.moments(["x", "y"], by="g", epsilon=1),
    "classes": lambda view, _: view.gmm_fit(["x", "y"], "g", epsilon=1),
    "embedding": lambda view, _: view.kme_release(["x"], categories=["g"], epsilon=1),
    "counts": lambda view, _: view.value_counts("h", epsilon=1),
    "ranks": lambda view, _: view.mannwhitneyu("x", by="g", epsilon=1),
    "several ranks": lambda view, _: view.kruskal("x", by="h", epsilon=1),
    "variance": lambda view, _: view.anova("x", by="h", epsilon=1),
}


@pytest.mark.parametrize("call", CALLS)
def test_the_answer_says_what_to_compare(call):
    """Integers whose categories are words are in no group, which noisy counts show; as text, they are."""
    rng = np.random.default_rng(0)
    table = {
        "x": rng.normal(size=N),
        "y": rng.normal(size=N),
        "g": rng.integers(0, 2, N),
        "h": rng.integers(0, 3, N),
    }
    for make, g, h in (
        (pd.DataFrame, ["no", "yes"], ["few", "some", "many"]),
        (pd.DataFrame, ["0", "1"], ["0", "1", "2"]),
        (pl.DataFrame, ["0", "1"], ["0", "1", "2"]),
    ):
        said = {"bounds": {"x": (-4, 4), "y": (-4, 4)}, "categories": {"g": g, "h": h}, "accounting": "basic"}
        view = dp.protect(make(table), f"undeclared {g}", epsilon=100, delta=1e-4, ledger="memory:", **said)
        with seeded_noise(15):
            shown = repr(CALLS[call](view, g[0]))

        assert (UNDECLARED.rstrip(".") in shown) == (g[0] == "no")
