"""Questions whose bounds are found first, in one call: the answer, the price, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing.noise import seeded_noise

_rng = np.random.default_rng(5)
DATA = pd.DataFrame({
    "x": _rng.normal(40, 5, 20_000), "y": _rng.normal(-3, 1, 20_000), "g": ["a", "b"] * 10_000
})  # fmt: skip


@pytest.fixture(autouse=True)
def _seeded():
    with seeded_noise(11):
        yield


def protect(name, **terms):
    terms = {"epsilon": 10, "categories": {"g": ["a", "b"]}, "ledger": "memory:", **terms}
    return dp.protect(DATA, name, **terms)


def test_an_answer_within_bounds_that_were_found():
    """One call pays what it says, in two parts; asked again it is free; the notes say the bounds."""
    view = protect("found")
    found = view.ttest("x", by="g", bounds="find", epsilon=1)
    assert (found.privacy.epsilon, view.budget.spent) == (1, 1)
    assert found.bounds == (16, 64)
    assert found.notes[-1].startswith(
        "Bounds were found with a quarter of the epsilon: x in [16, 64], with at most "
    )
    assert [record.epsilon for record in found.privacy.noise] == [0.25, 0.75]
    assert view.ttest("x", by="g", bounds="find", epsilon=1).estimate == found.estimate
    assert view.budget.spent == 1
    assert view["y"].mean(bounds="find", epsilon="rest").privacy.epsilon == 9
    assert view.budget.spent == 10


def test_wide_bounds_are_mended():
    """What is found lies within what was declared, and a wide one no longer costs an answer."""
    view = protect("wide", bounds={"x": (0, 50_000)})
    wide, found = view.mean("x", epsilon=0.5), view.mean("x", bounds="find", epsilon=0.5)
    assert found.noise_standard_error < wide.noise_standard_error / 100
    assert found.low < DATA["x"].mean() < found.high
    inside = protect("inside", bounds={"x": (20, 50)}).mean("x", bounds="find", epsilon=0.5)
    assert inside.bounds == (20, 50)


def test_groups():
    """Bounds are of all rows, and every group's answer is within them."""
    groups = protect("groups").group_by("g").mean("y", bounds="find", epsilon=1)
    assert len({each.bounds for each in groups.releases}) == 1
    assert all("were found" in each.notes[-1] for each in groups.releases)
    assert groups.privacy.epsilon == 1


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda v: v.ttest("x", bounds="find", alpha=7, epsilon=1), "not between 0 and 1"),
        (lambda v: v.count(bounds="find", epsilon=1), "names none here"),
        (lambda v: v.mean("x", bounds=(0, 100), epsilon=1), r'bounds= takes "find".*view.declare'),
        (lambda v: v.mean("nope", bounds="find", epsilon=1), "not there"),
        (lambda v: v.mean("g", bounds="find", epsilon=1), "'g'"),
        (lambda v: v.mean("x", bounds="find", epsilon=1000), "can have epsilon"),
        (lambda v: v.mean("x", bounds="find", epsilon=-1), "above zero"),
    ],
)
def test_what_is_refused_costs_nothing(ask, words):
    view = protect("refused")
    with pytest.raises(dp.errors.DPError, match=words):
        ask(view)
    assert view.budget.spent == 0


def test_what_is_not_found_says_what_it_has_cost():
    view = protect("not found")
    with pytest.raises(dp.ArgumentError, match=r"not found. Bounds were looked for, at epsilon 0.00025"):
        view.mean("x", bounds="find", epsilon=0.001)
    assert view.budget.spent == Fraction("0.00025")
