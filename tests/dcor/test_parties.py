"""Two parties: a view in place of a message, the paper's protocol, keys, and what is refused."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._plugins.loader import registry
from dfprivacy.statistics import gaussian_scale
from dfprivacy.testing import seeded_noise
from dfprivacy_dcor import DistanceMessage, ProjectionMessage, load_message
from dfprivacy_dcor.message import checked
from dfprivacy_dcor.paper import Projections, kenthapadi
from dfprivacy_dcor.points import Line, covariance_u, on_grid
from dfprivacy_dcor.spaces import unit_vectors

COUNT = itertools.count()
ASKED = {"columns": "x", "epsilon": 3}


def party(values, name="party", **terms):
    """A view of a table of its own."""
    known = {"epsilon": 10**4, "delta": 0.01, "accounting": "basic", "ledger": "memory:"}
    bounds = dict.fromkeys(values, (-1.5, 1.5))
    return dp.protect(
        pd.DataFrame(values), f"{name} of two parties {next(COUNT)}", **{**known, "bounds": bounds, **terms}
    )


def both(n=400, relation=np.square, **terms):
    """Alice with x and w, Bob with y, a function of x."""
    chance = np.random.default_rng(1)
    x, w = chance.uniform(-1, 1, (2, n))
    y = np.clip(relation(x) + 0.1 * chance.normal(size=n), -1.5, 1.5)
    return party({"x": x, "w": w}, "alice"), party({"y": y}, "bob", **terms)


def test_a_view_is_asked_for_its_message():
    """A view in place of a message pays for the message itself; the answer is that to the message."""
    alice, bob = both()
    with seeded_noise(1):
        found = bob.dcor_with(alice, "y", asked=ASKED, epsilon=2)
        again = bob.dcor_with(alice.dcor_message("x", epsilon=3), "y", epsilon=2)

    assert (3, 2) == (alice.budget.spent, bob.budget.spent)
    assert found == again
    assert again.privacy.replayed


def test_a_view_that_cannot_pay_costs_nobody():
    """If the other account cannot pay, neither is charged."""
    alice, bob = party({"x": np.zeros(20)}, epsilon=1), party({"y": np.zeros(20)})

    with pytest.raises(dp.BudgetExceeded):
        bob.dcor_with(alice, "y", asked=ASKED, epsilon=2)
    assert (0, 0) == (alice.budget.spent, bob.budget.spent)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "without its question, asked="),
        ({"asked": {"columns": "x"}}, "without its question, asked="),
        ({"asked": {**ASKED, "protocol": "paper"}}, "names a protocol"),
        ({"asked": {**ASKED, "keys": list(range(20))}}, "Only one"),
        ({"asked": {**ASKED, "keys": list(range(20))}, "keys": list(range(1, 21))}, "do not match one to one"),
        ({"asked": {**ASKED, "columns": "nothing"}}, "nothing"),
        ({"asked": {**ASKED, "colour": "red"}}, "colour"),
        ({"asked": ASKED, "confidence": 1}, "between 0 and 1"),
        ({"asked": ASKED, "protocol": "magic"}, "unknown"),
    ],
)
def test_a_view_is_not_asked_in_vain(arguments, said):
    """What cannot be used is refused before either account is charged."""
    alice, bob = both(20)

    with pytest.raises(dp.DPError, match=said):
        bob.dcor_with(alice, "y", epsilon=1, **arguments)
    assert (0, 0) == (alice.budget.spent, bob.budget.spent)


def test_tables_of_other_lengths_do_not_go_together():
    """Views and messages of another number of rows are refused; nothing is charged for what is not of use."""
    alice, bob = both(20)
    other = party({"y": np.zeros(21)})
    message = alice.dcor_message("x", epsilon=1)

    with pytest.raises(dp.ArgumentError, match="is about 20 rows, and this table has 21"):
        other.dcor_with(alice, "y", asked=ASKED, epsilon=1)
    with pytest.raises(dp.ArgumentError, match="about 20 rows"):
        other.dcor_with(message, "y", epsilon=1)
    assert (1, 0) == (alice.budget.spent, other.budget.spent)
    assert bob.dcor_with(message, "y", epsilon=1).rows == 20


def test_an_explanation_asks_no_other_view():
    """`explain` with a message plans; with a view it is refused, for a message costs something."""
    alice, bob = both(20)
    message = alice.dcor_message("x", epsilon=1)

    said = bob.explain("dcor_with", message, "y", epsilon=1)

    assert 1 == len(said.measurements)
    with pytest.raises(dp.ArgumentError, match="an explanation charges nothing"):
        bob.explain("dcor_with", alice, "y", asked=ASKED, epsilon=1)
    assert (1, 0) == (alice.budget.spent, bob.budget.spent)


def test_a_message_serves_as_often_as_one_likes():
    """Using a message again is post-processing: its maker pays once, who shows results pays for each."""
    alice, bob = both(100)
    message = alice.dcor_message("x", epsilon=1)
    for epsilon in (1, 2):
        bob.dcor_with(message, "y", epsilon=epsilon)

    message.estimate(np.zeros(100), permutations=1)

    assert (1, 3) == (alice.budget.spent, bob.budget.spent)


def test_a_question_holds_a_digest_of_its_message():
    """The ledger keeps a few characters in place of the message's rows, and another message asks anew."""
    alice, bob = both(1000)
    first, second = (alice.dcor_message("x", epsilon=1, fresh=True) for _ in range(2))
    arguments = {"columns": "y", "epsilon": 1}
    mechanism = registry().mechanisms["dcor_with"]

    one, other = (bob._question(mechanism, (message,), arguments).text for message in (first, second))

    assert len(one) < 1000
    assert one != other
    bob.dcor_with(first, "y", epsilon=1)
    assert not bob.dcor_with(second, "y", epsilon=1).privacy.replayed
    assert bob.dcor_with(replace(first, privacy=None), "y", epsilon=1).privacy.replayed


def test_a_question_holds_a_digest_of_its_keys():
    """A key for each row is not written down; the same keys ask the same, and others ask for angles anew."""
    alice, _ = both(1000)
    keys = list(range(1000))

    alice.dcor_message("x", keys=keys, epsilon=1)

    assert alice.dcor_message("x", keys=keys, epsilon=1).privacy.replayed
    assert not alice.dcor_message("x", keys=keys[::-1], epsilon=1).privacy.replayed
    assert Fraction(19, 10) == alice.budget.spent  # the distance deviation, a tenth, has no keys in it
    assert max(len(answer.question) for answer in alice._target.account.answers()) < 1000


def test_keys_bring_the_rows_of_two_views_together():
    """With keys the tables may be in any order, and the answer is the same."""
    chance = np.random.default_rng(2)
    x, order = chance.uniform(-1, 1, 3000), chance.permutation(3000)
    alice, bob = party({"x": x}), party({"y": x[order]})
    with seeded_noise(2):
        asked = {**ASKED, "keys": list(range(3000))}
        found = bob.dcor_with(alice, "y", asked=asked, keys=order.tolist(), epsilon=20)
        unrelated = bob.dcor_with(alice, "y", asked=ASKED, epsilon=20)

    assert found.squared > 0.5
    assert unrelated.squared < 0.1


@pytest.mark.parametrize(
    "keys", [[1] * 20, list(range(1, 21)), list(range(19)), [*range(19), "b"], [*range(19), 1.0]]
)
def test_keys_that_do_not_match_are_refused_without_saying_which(keys):
    """Doubles, strangers, too few, and keys of other kinds; the refusal names none of them."""
    alice, bob = both(20)
    message = alice.dcor_message("x", keys=[f"row {at}" for at in range(19)] + ["4711"], epsilon=1)

    with pytest.raises(dp.ArgumentError) as caught:
        bob.dcor_with(message, "y", keys=keys, epsilon=1)
    assert not any(word in str(caught.value) for word in ("4711", "row 1", "'b'"))
    assert 0 == bob.budget.spent


def test_one_party_without_keys_is_refused():
    """Keys on one side only are no alignment."""
    alice, bob = both(20)

    with pytest.raises(dp.ArgumentError, match="Only one"):
        bob.dcor_with(alice.dcor_message("x", epsilon=1), "y", keys=list(range(20)), epsilon=1)


# The paper's protocol


def unbiased(x, y):
    """Squared distance covariance without bias, from all pairs."""
    a, b = (np.abs(np.subtract.outer(z, z)) for z in (x, y))
    n = len(a)
    first, second, third = (a * b).sum(), a.sum(axis=1) @ b.sum(axis=1), a.sum() * b.sum()
    return (first - 2 * second / (n - 2) + third / ((n - 1) * (n - 2))) / (n * (n - 3))


@pytest.mark.parametrize("split", [True, False])
def test_the_papers_estimate_is_equation_3_or_4(split):
    """The average over k of C_p C_q times the U-statistic of u_k x and v_k y: of all rows, or of block k."""
    chance = np.random.default_rng(7)
    x, y, u, v = chance.random((60, 3)), chance.random((60, 2)), unit_vectors(4, 3, 0), unit_vectors(4, 2, 1)
    turns = np.arange(60) % 4 if split else np.zeros(60, dtype=np.int64)
    projections = (x * u[turns]).sum(axis=1, keepdims=True) if split else x @ u.T
    terms = {"columns": ("a", "b", "c"), "rows": 60, "keys": None, "deviation": 0.2, "deviation_scale": 0.01}
    message = ProjectionMessage(projections=projections, turns=turns, directions=u, scale=0.1, **terms)

    found = message.estimate(y, permutations=1)

    rows = [turns == k if split else slice(None) for k in range(4)]
    each = [unbiased(x[rows[k]] @ u[k], y[rows[k]] @ v[k]) for k in range(4)]
    assert 2 * math.pi / 2 * np.mean(each) == pytest.approx(found.covariance, rel=1e-6)


def test_the_papers_message_is_shown():
    """With next to no noise on projections, what is shown is near the truth, 0.213."""
    _, bob = both(1000)
    x = np.random.default_rng(1).uniform(-1, 1, (2, 1000))[0]
    terms = {"columns": ("x",), "rows": 1000, "keys": None, "deviation": 0.2108, "deviation_scale": 1e-6}
    common = {"turns": np.zeros(1000, dtype=np.int64), "directions": np.ones((1, 1)), "scale": 1e-6}
    with seeded_noise(3):
        shown = bob.dcor_with(ProjectionMessage(projections=x[:, None] / 2, **common, **terms), "y", epsilon=100)

    assert 0.213 == pytest.approx(shown.squared, abs=0.04)
    assert "before the distance" in shown.notes[0]


@pytest.mark.parametrize(("split", "factor"), [(True, 1.0), (False, 1.4)])
def test_the_papers_message_protects_whole_rows(split, factor):
    """The noise of several projections is for a row that changes in all columns; delta is paid as well."""
    alice, _ = both(60)
    one = alice.dcor_message(["x", "w"], protocol="paper", blocks=1, epsilon=1, delta=1e-5)
    about = {"protocol": "paper", "split": split, "blocks": 4, "epsilon": 1, "delta": 1e-5}
    found = alice.dcor_message(["x", "w"], **about, fresh=True)

    assert (60, 1 if split else 4) == found.projections.shape
    assert found.scale > factor * one.scale * 0.99
    assert (1, 0.9e-5) == pytest.approx((found.privacy.epsilon, found.privacy.delta))
    assert found.scale > 3.7 * np.abs(found.directions[0]).sum() if split else found.scale > 3.7


@pytest.mark.parametrize("split", [True, False])
def test_the_noise_of_appendix_d_is_wider_and_costs_the_same(split):
    """Its scale is that of Theorem 4, for the change of a whole row in place of an attribute's."""
    alice, _ = both(60)
    about = {"protocol": "paper", "split": split, "blocks": 4, "epsilon": 1, "delta": 1e-5, "fresh": True}
    least, wider = (alice.dcor_message(["x", "w"], calibration=by, **about) for by in ("analytic", "kenthapadi"))

    columns = tuple(dp.Column(name, bounds=(-1.5, 1.5), fill=0.0) for name in "xw")
    statistic = Projections(columns, wider.directions, wider.turns, split=split)
    change = statistic.sensitivity("replace_one", 2, frozenset())
    assert kenthapadi(0.9, 0.9e-5) * change == pytest.approx(wider.scale, rel=1e-4)
    assert gaussian_scale(0.9, 0.9e-5) * change == pytest.approx(least.scale, rel=1e-4)
    assert (1, 0.9e-5) == pytest.approx((wider.privacy.epsilon, wider.privacy.delta))
    with pytest.raises(dp.ArgumentError, match="calibration= is of Gaussian"):
        alice.dcor_message("x", calibration="kenthapadi", epsilon=1)


def test_the_papers_noise_hides_dependence():
    """At epsilon 1 a line of 500 rows is hardly seen through the paper's message, and is through the angles."""
    alice, _ = both(500, np.copy)
    y = np.random.default_rng(1).uniform(-1, 1, (2, 500))[0]
    with seeded_noise(4):
        angles = alice.dcor_message("x", epsilon=1).estimate(y, permutations=1).squared
        paper = alice.dcor_message("x", protocol="paper", epsilon=1, delta=1e-5).estimate(y, permutations=1).squared

    assert paper < 0.2
    assert angles > 0.5


def test_the_papers_protocol_is_asked_of_a_view():
    """`protocol=` is passed to another view, and checked of a message."""
    alice, bob = both(40)
    asked = {**ASKED, "delta": 0.001}

    found = bob.dcor_with(alice, "y", asked=asked, protocol="paper", epsilon=1)

    assert "before the distance" in found.notes[0]
    with pytest.raises(dp.ArgumentError, match="protocol"):
        bob.dcor_with(alice.dcor_message("x", epsilon=1), "y", protocol="paper", epsilon=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"protocol": "magic"}, "unknown"),
        ({"protocol": "paper", "length": 0.5}, "angles"),
        ({"protocol": "paper", "harmonics": [1]}, "angles"),
        ({"protocol": "paper", "split": 1}, "neither"),
        ({"protocol": "paper", "delta": 0}, "delta"),
    ],
)
def test_the_papers_message_is_refused(arguments, said):
    """Arguments of the other protocol, and no delta: nothing is charged."""
    alice, _ = both(20)

    with pytest.raises(dp.ArgumentError, match=said):
        alice.dcor_message("x", epsilon=1, **arguments)
    assert 0 == alice.budget.spent


def test_the_papers_message_travels(tmp_path):
    """A file holds either kind of message."""
    alice, _ = both(40)
    sent = alice.dcor_message("x", protocol="paper", epsilon=1, delta=0.001, keys=list(range(40)))
    sent.save(tmp_path / "message.json")

    received = load_message(tmp_path / "message.json")

    assert isinstance(received, ProjectionMessage)
    assert sent.to_dict() == received.to_dict()


@pytest.mark.parametrize(
    "changed",
    [
        {"projections": np.zeros((40, 2))},
        {"projections": np.full((40, 1), np.nan)},
        {"scale": 0.0},
        {"deviation": np.nan},
        {"directions": np.zeros((1, 1))},
        {"turns": np.full(40, 7)},
        {"rows": 3},
        {"keys": (1,) * 40},
        {"projections": None},
    ],
)
def test_a_message_that_does_not_fit_together_is_refused(changed):
    """Whoever wrote the file: shapes, ranges and numbers are looked at before anything is computed."""
    alice, bob = both(40)
    message = alice.dcor_message("x", protocol="paper", epsilon=1, delta=0.001)

    with pytest.raises(dp.ArgumentError, match="fit together"):
        bob.dcor_with(replace(message, **changed), "y", epsilon=1)
    assert 0 == bob.budget.spent


@pytest.mark.parametrize(
    "changed",
    [
        {"angles": np.full(40, 1 << 16)},
        {"angles": np.zeros(39, dtype=np.int64)},
        {"angles": np.zeros(40)},
        {"harmonics": (0,)},
        {"length": np.inf},
        {"inside": 1, "outside": 3},
        {"deviation_scale": 0.0},
    ],
)
def test_angles_that_do_not_fit_together_are_refused(changed):
    """The same of the other protocol."""
    alice, _ = both(40)
    message = alice.dcor_message("x", epsilon=1)

    assert message is checked(message)
    with pytest.raises(dp.ArgumentError, match="fit together"):
        checked(replace(message, **changed))


def test_a_file_names_no_other_class(tmp_path):
    """What else a file says it is, is not looked up."""
    path = tmp_path / "message.json"
    both(40)[0].dcor_message("x", epsilon=1).save(path)
    envelope = json.loads(path.read_text())
    content = envelope["content"].replace("dfprivacy_dcor.angles:DistanceMessage", "dfprivacy.release:Value")
    envelope |= {"content": content, "sha256": sha256(content.encode()).hexdigest()}
    path.write_text(json.dumps(envelope))

    with pytest.raises(dp.ArgumentError, match="no message"):
        load_message(path)


def test_two_processes_show_a_result(tmp_path, forked):
    """Alice writes a file and is gone; Bob reads it, and shows what his own account has paid for."""
    alice = (
        "import sys, numpy as np, pandas as pd, dfprivacy as dp\n"
        "x = np.linspace(-1, 1, 3000)\n"
        "view = dp.protect(pd.DataFrame({'x': x}), 'a', epsilon=9, ledger='memory:', bounds={'x': (-1, 1)})\n"
        "view.dcor_message('x', epsilon=5).save(sys.argv[1])\n"
    )
    bob = (
        "import sys, numpy as np, pandas as pd, dfprivacy as dp, dfprivacy_dcor\n"
        "y = np.linspace(-1, 1, 3000)\n"
        "view = dp.protect(pd.DataFrame({'y': y}), 'b', epsilon=9, ledger='memory:', bounds={'y': (-1, 1)})\n"
        "found = view.dcor_with(dfprivacy_dcor.load_message(sys.argv[1]), 'y', epsilon=5)\n"
        "print(found.squared, view.budget.spent)\n"
    )
    path = str(tmp_path / "message.json")
    forked(alice, path)

    said = forked(bob, path)

    squared, spent = said.stdout.split()
    assert (0.9, 5.0) == (pytest.approx(float(squared), abs=0.1), float(spent))


# What is private may be anything


@pytest.mark.parametrize("spoil", ["constant", "missing", "infinite"])
def test_rows_of_any_kind_are_answered(spoil):
    """A constant column, missing and infinite values: every method answers, and says if it means nothing."""
    chance = np.random.default_rng(5)
    values = {name: chance.uniform(-1, 1, 200) for name in ("x", "w", "y")}
    values["x"][:] = {"constant": 0.5, "missing": np.nan, "infinite": np.inf}[spoil]
    view = party(values)
    with seeded_noise(5):
        message = view.dcor_message("x", epsilon=1)
        found = [
            view.dcor("x", "y", epsilon=1),
            view.dcor(["x", "w"], "y", epsilon=1),
            view.dcor_screen("y", top=1, estimate=True, epsilon=1),
            view.dcor_with(message, "y", epsilon=1),
            view.dcor_with(view.dcor_message("y", epsilon=1), "x", epsilon=1),
        ]

    for release in found:
        json.dumps(release.to_dict(), allow_nan=False)
    assert "uninformative" in found[0].notes[0]
    assert "uninformative" in found[3].notes[0]
    assert "uninformative" in found[4].notes[0]
    assert isinstance(message, DistanceMessage)


@pytest.mark.statistical
@pytest.mark.parametrize(("relation", "least"), [("line", 0.6), ("parabola", 0.05), ("wave", 0.04), ("none", -1.0)])
def test_the_lower_bound_holds(relation, least):
    """No bound of 40 messages exceeds the table's own R², and strong dependence has a bound above 0."""
    rng, n = np.random.default_rng(5), 3000
    x = rng.uniform(-1, 1, n)
    y = {"line": x, "parabola": x**2, "wave": np.sin(2 * np.pi * x), "none": rng.uniform(-1, 1, n)}[relation]
    y = np.clip(y + 0.1 * rng.normal(size=n), -1.5, 1.5)
    lines = [Line(on_grid(each, 20), 20) for each in (x / 2 + 0.5, y / 3 + 0.5)]
    covariance, *variances = (float(covariance_u(*pair)) for pair in (lines, 2 * lines[:1], 2 * lines[1:]))
    truth = covariance / math.sqrt(math.prod(variances))
    with seeded_noise(7):
        alice, bob = party({"x": x}, "alice"), party({"y": y}, "bob")
        for epsilon in (1, 2, 5, 50):
            messages = [alice.dcor_message("x", epsilon=epsilon, fresh=True) for _ in range(10)]
            bounds = [bob.dcor_with(message, "y", epsilon=epsilon, fresh=True).low for message in messages]

            assert max(bounds) <= max(truth, 0.0)
    assert np.mean(bounds) > least


def test_what_is_shown_is_drawn():
    """The picture has the estimate and its interval."""
    pytest.importorskip("matplotlib").use("Agg")
    alice, bob = both(100)
    found = bob.dcor_with(alice, "y", asked=ASKED, epsilon=2)

    interval, estimate, *_ = found.plot().lines

    assert [found.low, found.high] == list(interval.get_xdata())
    assert [found.squared] == list(estimate.get_xdata())
