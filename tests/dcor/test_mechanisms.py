"""Distance correlation of tables, screening, and what two parties learn from a message."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.local import Arc
from dfprivacy.testing import seeded_noise
from dfprivacy_dcor import DistanceMessage, load_message
from dfprivacy_dcor.angles import Angles, best_reach

COUNT = itertools.count()  # every table has an account of its own
BOUNDS = {"x": (-1.0, 1.0), "y": (-1.5, 1.5), "z": (-1.0, 1.0)}


def table(n, relation=np.square, seed=0):
    """Rows with y a noisy function of x, and z on its own."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    y = np.clip(relation(x) + 0.1 * rng.normal(size=n), -1.5, 1.5)
    return pd.DataFrame({"x": x, "y": y, "z": rng.uniform(-1, 1, n), "g": rng.choice(list("ab"), n)})


def protect(frame, name="dcor", **terms):
    """Protect rows with much to spend."""
    known = {"bounds": BOUNDS, "categories": {"g": ["a", "b"]}, "epsilon": 10**5, "ledger": "memory:"}
    return dp.protect(frame, f"{name} {next(COUNT)}", **{**known, **terms})


def test_every_metric_answers():
    """Each metric gives an interval around its estimate, on numbers and categories."""
    view = protect(table(300))
    with seeded_noise(3):
        found = [
            view.dcor(["x", "z"], "y", epsilon=20),
            view.dcor(["x", "z"], "y", metric="l1", epsilon=20),
            view.dcor(["x", "z"], "y", metric="projected", epsilon=20),
            view.dcor("g", "y", metric="euclidean", epsilon=20),
        ]

    assert all(each.low <= each.correlation <= each.high for each in found)


def test_screening_finds_what_matters():
    """The column that y depends on comes first, with its estimate if asked for."""
    with seeded_noise(5):
        found = protect(table(1000)).dcor_screen("y", top=1, estimate=True, epsilon=20)

    assert ("x",) == found.features
    assert {"x", "z", "g"} == set(found.candidates)
    assert found.estimates[0].correlation > 0.3


def noiseless(frame, **changed):
    """A message whose angles are the true ones, and a factor of one."""
    column = protect(frame).schema.columns["x"]
    angles = Angles((column,), np.ones(1), 1, 1.0).rows(_Batch(frame["x"].to_numpy()))
    n = len(frame)
    common = {"columns": ("x",), "rows": n, "turns": np.zeros(n, np.int64), "directions": np.ones((1, 1))}
    common |= {"harmonics": (1,), "length": 1.0, "places": 1 << 16, "deviation": 0.2, "deviation_scale": 0.001}
    exact = {"angles": angles, "reach": 0, "inside": 2**45, "outside": 1, "keys": None}
    return DistanceMessage(**{**common, **exact, **changed})


class _Batch:
    """Rows of one column within (-1, 1)."""

    def __init__(self, x):
        self.x, self.size = x, len(x)

    def standardized(self, column):
        """Numbers in [-1, 1]."""
        return self.x


@pytest.mark.statistical
def test_the_estimate_from_a_message_is_unbiased():
    """The mean over 2000 messages is the estimate from the true angles, within five standard errors."""
    frame = table(300)
    message, y = noiseless(frame), frame["y"].to_numpy()
    truth = message.estimate(y, permutations=1).covariance
    arc = Arc.within(Fraction(1), places=1 << 16, reach=best_reach(1.0))
    rng = np.random.default_rng(6)
    known = {"reach": arc.reach, "inside": arc.inside, "outside": arc.outside}
    found = [
        replace(message, angles=arc.moved(message.angles, rng.integers(arc.weight, size=300)), **known)
        .estimate(y, permutations=1)
        .covariance
        for _ in range(2000)
    ]

    assert truth == pytest.approx(np.mean(found), abs=5 * np.std(found) / math.sqrt(2000))


def test_the_permutation_at_home_is_the_formula():
    """The estimate from the true angles is the textbook U-statistic, on a line and as points."""
    frame = table(40)
    message, y = noiseless(frame), frame["y"].to_numpy()
    f = message.features
    a = -4 / math.pi**2 * f @ f.T
    np.fill_diagonal(a, 0)
    b = np.abs(y[:, None] - y)
    n = 40
    first, second, third = (a * b).sum(), a.sum(axis=1) @ b.sum(axis=1), a.sum() * b.sum()
    expected = first / n - 2 * second / (n * (n - 2)) + third / (n * (n - 1) * (n - 2))

    assert expected / (n - 3) == pytest.approx(message.estimate(y, permutations=9).covariance, rel=1e-9)
    twice = np.stack([y, np.zeros(n)], axis=1)
    assert expected / (n - 3) == pytest.approx(message.estimate(twice, permutations=9).covariance, rel=1e-9)


def test_what_may_be_shown_is_near_what_is_known_at_home():
    """With much to spend, the shown estimate is the one that its party makes for itself, but for sampling."""
    frame = table(3000, np.copy)
    with seeded_noise(7):
        message = protect(frame, "alice").dcor_message("x", epsilon=5)
        shown = protect(frame, "bob").dcor_with(message, "y", epsilon=50)

    assert message.estimate(frame["y"], permutations=1).squared == pytest.approx(shown.squared, abs=0.05)


def test_dependence_is_found_in_another_process(tmp_path, forked):
    """One process writes a message; another reads it and tests independence of numbers of its own."""
    alice = (
        "import sys, numpy as np, pandas as pd, dfprivacy as dp\n"
        "x = np.linspace(-1, 1, 3000)\n"
        "view = dp.protect(pd.DataFrame({'x': x}), 'a', epsilon=9, ledger='memory:', bounds={'x': (-1, 1)})\n"
        "view.dcor_message('x', epsilon=5).save(sys.argv[1])\n"
    )
    bob = (
        "import sys, numpy as np, dfprivacy_dcor\n"
        "message = dfprivacy_dcor.load_message(sys.argv[1])\n"
        "print(message.estimate(np.linspace(-1, 1, 3000) ** 2, permutations=99, seed=0).pvalue)\n"
    )
    path = str(tmp_path / "message.json")
    forked(alice, path)

    said = forked(bob, path)

    assert float(said.stdout) == pytest.approx(0.01)


def test_keys_put_rows_in_order():
    """A message with keys fits a table in another order."""
    frame = table(200)
    message = noiseless(frame, keys=tuple(range(200)))
    order = np.random.default_rng(8).permutation(200)
    y = frame["y"].to_numpy()

    expected = message.estimate(y, keys=list(range(200)), permutations=1).covariance
    assert expected == pytest.approx(message.estimate(y[order], keys=order.tolist(), permutations=1).covariance)


@pytest.mark.parametrize(
    ("y", "keys", "said"),
    [
        (np.zeros(5), None, "about 20 rows"),
        (np.full(20, np.nan), None, "missing"),
        (["a"] * 20, None, "array of numbers"),
        (np.zeros(20), list(range(20)), "Only one"),
    ],
)
def test_rows_that_do_not_fit_are_refused(y, keys, said):
    """Other lengths, missing numbers, text, and keys on one side only."""
    message = noiseless(table(20))

    with pytest.raises(dp.ArgumentError, match=said):
        message.estimate(y, keys=keys)


def test_keys_that_do_not_match_are_not_named():
    """The refusal says how many keys do not match, and not which."""
    message = noiseless(table(20), keys=tuple(range(20)))

    with pytest.raises(dp.ArgumentError, match="no row for 1 of") as caught:
        message.estimate(np.zeros(20), keys=[*range(19), 4711])
    assert "4711" not in str(caught.value)


def test_constant_numbers_say_nothing():
    """Numbers that are all the same have a correlation of 0 and a note."""
    found = noiseless(table(20)).estimate(np.zeros(20), permutations=9)

    assert (0.0, 1.0) == (found.squared, found.pvalue)
    assert "constant" in found.notes[1]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda text: text[: len(text) // 2], "cut short"),
        (lambda text: text.replace("deviation", "deviatiom"), "changed"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "version"),
        (lambda text: "[]", "no message"),
    ],
)
def test_a_spoiled_message_is_refused(tmp_path, spoil, said):
    """Truncated, tampered with, of another version, or something else."""
    path = tmp_path / "message.json"
    noiseless(table(20)).save(path)
    path.write_text(spoil(path.read_text()))

    with pytest.raises(dp.ArgumentError, match=said):
        load_message(path)


@pytest.mark.parametrize(
    ("method", "arguments", "said"),
    [
        ("dcor", {"x": "x", "y": "x"}, "both sides"),
        ("dcor", {"x": "x", "y": "y", "metric": "magic"}, "unknown"),
        ("dcor", {"x": "x", "y": "y", "alpha": 0}, "between 0 and 1"),
        ("dcor", {"x": "x", "y": "y", "nan_policy": "raise"}, "would tell whether"),
        ("dcor", {"x": "x", "y": "y", "confidence": 2}, "between 0 and 1"),
        ("dcor", {"x": ["x", "g"], "y": "y"}, "categories"),
        ("dcor", {"x": "x", "y": "y", "directions": 0}, "directions"),
        ("dcor_screen", {"target": "y", "top": 9}, "cannot be selected"),
        ("dcor_screen", {"target": ["x", "y"], "top": 1}, "one column"),
        ("dcor_message", {"columns": "g"}, "numbers"),
        ("dcor_message", {"columns": "x", "harmonics": [2]}, "odd"),
        ("dcor_message", {"columns": "x", "length": 0}, "length"),
        ("dcor_message", {"columns": "x", "blocks": 3}, "blocks"),
        ("dcor_message", {"columns": "x", "keys": [1, 1]}, "keys"),
        ("dcor_with", {"other": "hello", "columns": "y"}, "no message"),
    ],
)
def test_bad_arguments_cost_nothing(method, arguments, said):
    """What cannot be used is refused before any charge."""
    view = protect(table(20), "bad")

    with pytest.raises(dp.DPError, match=said):
        getattr(view, method)(**arguments, epsilon=1)
    assert 0 == view.budget.spent


@pytest.mark.parametrize("terms", [{"neighbors": "add_remove"}, {}])
def test_the_number_of_rows_must_be_public_and_enough(terms):
    """A private number of rows, or one below four, is refused."""
    view = protect(table(20 if terms else 3), "rows", **terms)

    with pytest.raises(dp.ArgumentError, match="rows"):
        view.dcor("x", "y", epsilon=1)


def test_results_are_drawn():
    """Every result draws itself on axes."""
    pytest.importorskip("matplotlib").use("Agg")
    view, message = protect(table(100)), noiseless(table(100))
    with seeded_noise(9):
        found = [
            view.dcor("x", "y", epsilon=5),
            view.dcor_screen("y", top=2, epsilon=5),
            view.dcor_screen("y", top=2, estimate=True, epsilon=5),
            view.dcor_with(message, "y", epsilon=5),
        ]

    assert all(each.plot().get_xlabel() for each in found)
