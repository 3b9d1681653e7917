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


def table() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "x": rng.normal(size=N),
        "y": rng.normal(size=N),
        "g": rng.integers(0, 2, N),
        "h": rng.integers(0, 3, N),
    }


def protect(frame, g, h) -> dp.PrivateFrame:
    bounds = {"x": (-4, 4), "y": (-4, 4)}
    said = {"bounds": bounds, "categories": {"g": g, "h": h}, "accounting": "basic"}
    return dp.protect(frame, "undeclared", epsilon=100, delta=1e-4, ledger="memory:", **said)


@pytest.fixture(autouse=True)
def noise():
    with seeded_noise(15):
        yield


@pytest.mark.parametrize("call", CALLS)
def test_the_answer_says_what_to_compare(call):
    """Integers whose categories are words are in no group: noisy counts show it, for nothing."""
    view = protect(pd.DataFrame(table()), ["no", "yes"], ["few", "some", "many"])

    assert UNDECLARED.rstrip(".") in repr(CALLS[call](view, "no"))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("call", CALLS)
def test_integers_declared_as_their_text_are_counted(call, frame):
    """The text of a number is that number, so nothing is lost, and nothing is noted."""
    view = protect(frame(table()), ["0", "1"], ["0", "1", "2"])

    assert UNDECLARED.rstrip(".") not in repr(CALLS[call](view, "0"))
