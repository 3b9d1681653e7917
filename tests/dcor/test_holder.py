"""What a party learns for itself: no epsilon, no charge, no release, and nothing that could be taken for one."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_dcor import Estimate, SharedCorrelation

COUNT = itertools.count()
ASKED = {"columns": "x", "epsilon": 3}


def party(values, **terms):
    """A view of a table of its own."""
    known = {"epsilon": 100, "accounting": "basic", "ledger": "memory:", "bounds": dict.fromkeys(values, (-2, 2))}
    return dp.protect(pd.DataFrame(values), f"holder {next(COUNT)}", **{**known, **terms})


def both(n=400, **terms):
    """Alice with x, Bob with its square, some of it missing or far out."""
    rng = np.random.default_rng(1)
    x, y, z = rng.uniform(-1, 1, (3, n))
    y = x**2 + 0.1 * y
    y[:2] = np.nan, 50
    return party({"x": x}), party({"y": y, "z": z}, **terms), y, z


def test_the_owner_gets_the_estimate():
    """It is what `estimate` says of the cleaned rows, each column scaled by its bounds, p-value included."""
    alice, bob, y, _ = both()
    message = alice.dcor_message("x", epsilon=5)

    found = bob.dcor_with_own(message, "y", permutations=99, seed=1, nan_policy="fill")

    clean = np.where(np.isnan(y), 0.0, np.clip(y, -2, 2)) / 4 + 0.5
    assert message.estimate(clean, permutations=99, seed=1) == found
    assert 0.01 == found.pvalue


def test_rows_with_a_missing_value_are_left_out():
    """The holder's estimate is that of the complete rows, and of their part of the message."""
    alice, bob, y, _ = both()
    message = alice.dcor_message("x", epsilon=5)
    there = np.flatnonzero(~np.isnan(y))

    found = bob.dcor_with_own(message, "y", permutations=99, seed=1)

    clean = np.clip(y[there], -2, 2) / 4 + 0.5
    assert 0 < len(there) < len(y)
    assert message.only(there).estimate(clean, permutations=99, seed=1) == found
    assert found.rejected == (found.pvalue <= found.alpha)


def test_several_columns_are_scaled_by_their_bounds():
    """Their distances are those of what `dcor_with` releases."""
    alice, bob, y, z = both()
    message = alice.dcor_message("x", epsilon=5)

    found = bob.dcor_with_own(message, ["y", "z"], permutations=9, seed=1, nan_policy="fill")

    clean = [np.where(np.isnan(column), 0.0, np.clip(column, -2, 2)) / 4 + 0.5 for column in (y, z)]
    assert message.estimate(np.stack(clean, axis=1), permutations=9, seed=1) == found


def test_categories_are_equal_or_not():
    """The distance of two categories is 1, and what is in none of them is one more."""
    labels = ["a", "b", "c", "d"] * 20
    x = np.repeat([0.0, 1.0], 40)
    bob = party({"g": labels}, bounds={}, categories={"g": ["a", "b", "c"]})
    message = party({"x": x}).dcor_message("x", epsilon=5)

    found = bob.dcor_with_own(message, "g", permutations=9, seed=1, nan_policy="fill")

    codes = np.array([*"abcd"]).searchsorted(labels)
    points = np.eye(4)[codes] / np.sqrt(2)
    assert np.allclose(codes[:, None] != codes, cdist(points, points))
    assert found.covariance == pytest.approx(message.estimate(points, permutations=9, seed=1).covariance)


def test_nothing_is_charged_or_kept():
    """The account has neither an entry nor an answer, however often the holder asks."""
    alice, bob, *_ = both()
    message = alice.dcor_message("x", epsilon=1)
    for _ in range(3):
        bob.dcor_with_own(message, "y", permutations=9)

    assert 0 == bob.budget.spent
    assert [] == list(bob.releases)
    assert [] == bob._target.account.entries()


def test_it_cannot_be_taken_for_a_release():
    """Its class, what it shows first, its notes and its documentation all say so, and it has no way out as one."""
    alice, bob, *_ = both()

    found = bob.dcor_with_own(alice.dcor_message("x", epsilon=1), "y", permutations=9)

    assert isinstance(found, Estimate)
    assert not isinstance(found, dp.Release)
    assert repr(found).startswith("Estimate, not private: a function of one's own rows without noise")
    assert found.notes[0].startswith("not private")
    assert Estimate.__doc__.startswith("Not private")
    assert not any(hasattr(found, name) for name in ("privacy", "to_dict", "to_frame", "_repr_html_", "plot"))
    with pytest.raises(TypeError):
        json.dumps(found)


def test_a_release_needs_an_epsilon():
    """With an epsilon, or with the view's default, the same call pays and may be shown."""
    alice, bob, *_ = both(default_epsilon=2)
    message = alice.dcor_message("x", epsilon=1)

    found = bob.dcor_with(message, "y")

    assert isinstance(found, SharedCorrelation)
    assert 2 == bob.budget.spent
    assert isinstance(bob.dcor_with(message, "y", epsilon=1), SharedCorrelation)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("dcor", ("y", "z")),
        ("dcor_message", ("y",)),
        ("dcor_screen", ("y",)),
        ("ttest", ("y",)),
        ("chi2", ("g", "g")),
    ],
)
def test_no_other_method_does_without(method, arguments):
    """A missing epsilon is refused, with nothing charged."""
    said = {"bounds": {"y": (0, 1), "z": (0, 1)}, "categories": {"g": ["a", "b"]}}
    bob = party({"y": np.zeros(20), "z": np.zeros(20), "g": ["a", "b"] * 10}, **said)
    more = {"top": 1} if method == "dcor_screen" else {}

    with pytest.raises(dp.ArgumentError, match="No epsilon was given"):
        getattr(bob, method)(*arguments, **more)
    assert 0 == bob.budget.spent


def test_an_explanation_needs_an_epsilon():
    """There is nothing to plan for an answer that costs and measures nothing."""
    alice, bob, *_ = both()

    with pytest.raises(dp.ArgumentError, match="No epsilon"):
        bob.explain("dcor_with", alice.dcor_message("x", epsilon=1), "y")


def test_another_view_pays_for_its_message():
    """The holder's side is free; the other view is asked for a message as ever, and refuses as ever."""
    alice, bob, *_ = both()

    found = bob.dcor_with_own(alice, "y", asked=ASKED, permutations=9, seed=1)

    assert bob.dcor_with_own(alice.dcor_message("x", epsilon=3), "y", permutations=9, seed=1) == found
    assert (3, 0) == (alice.budget.spent, bob.budget.spent)
    with pytest.raises(dp.ArgumentError, match="without its question, asked="):
        bob.dcor_with_own(alice, "y", asked={"columns": "x"})
    with pytest.raises(dp.BudgetExceeded):
        bob.dcor_with_own(alice, "y", asked={"columns": "x", "epsilon": 1000})
    assert (3, 0) == (alice.budget.spent, bob.budget.spent)


def test_the_papers_message_serves_as_well():
    """Any message is estimated from; a row is brought to its place by its key."""
    rng = np.random.default_rng(2)
    x, order = rng.uniform(-1, 1, 500), rng.permutation(500)
    alice = party({"x": x, "id": np.arange(500)}, delta=0.1, bounds={"x": (-1, 1)}, public=["id"])
    bob = party({"y": x[order], "id": order}, bounds={"y": (-1, 1)}, public=["id"])
    with seeded_noise(2):
        message = alice.dcor_message("x", protocol="paper", keys="id", epsilon=50, delta=0.01)

    found = bob.dcor_with_own(message, "y", keys="id", permutations=99, seed=1)

    assert found.squared > 0.5
    assert 0.01 == found.pvalue
    assert "before the distance" in found.notes[1]


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (lambda bob: bob.where(y=(0, 1)), "public number of rows"),
        (lambda bob: bob.group_by("g"), "not by group"),
        (lambda bob: bob.where(g="a"), "about 400 rows"),
    ],
)
def test_rows_that_are_not_those_of_the_message_are_refused(view, said):
    """A part, parts, and a part of private size; the refusal says what to do, and depends on no private value."""
    rng = np.random.default_rng(3)
    alice = party({"x": rng.uniform(-1, 1, 400)})
    bob = party(
        {"y": rng.uniform(-1, 1, 400), "g": ["a", "b"] * 200},
        bounds={"y": (-1, 1)},
        categories={"g": ["a", "b"]},
        public=["g"],
    )

    with pytest.raises(dp.ArgumentError, match=said):
        view(bob).dcor_with_own(alice.dcor_message("x", epsilon=1), "y")
    assert 0 == bob.budget.spent


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"permutations": 0}, "permutations=0 is not a whole number from 1 on"),
        ({"permutations": True}, "permutations=True is not a whole number"),
        ({"alpha": 2}, "between 0 and 1"),
        ({"protocol": "paper"}, "not 'paper'"),
        ({"asked": ASKED}, "another view"),
        ({"keys": list(range(400))}, "Only one"),
        ({"delta": 0.1}, "delta"),
        ({"columns": "x"}, "no column 'x'"),
    ],
)
def test_bad_arguments_are_refused(arguments, said):
    """As with an epsilon."""
    alice, bob, *_ = both()
    message = alice.dcor_message("x", epsilon=1)

    with pytest.raises(dp.ArgumentError, match=said):
        bob.dcor_with_own(message, **{"columns": "y", **arguments})


def test_a_protected_table_is_no_message():
    """The frame itself is refused, as everywhere."""
    _, bob, *_ = both()
    frame = pd.DataFrame({"x": np.zeros(400)})
    view = dp.protect(frame, f"holder {next(COUNT)}", epsilon=1, ledger="memory:", bounds={"x": (0, 1)})

    with pytest.raises(dp.ArgumentError, match="protected table"):
        bob.dcor_with_own(frame, "y")
    assert 0 == view.budget.spent
