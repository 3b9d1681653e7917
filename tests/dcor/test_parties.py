"""Two parties: messages, keys, the paper's protocol, what a party learns for itself, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.spatial.distance import cdist

import dfprivacy as dp
from dfprivacy.features import Batch, number
from dfprivacy.local import Arc
from dfprivacy.statistics import gaussian_scale
from dfprivacy.testing import seeded_noise
from dfprivacy_dcor import DistanceMessage, Estimate, ProjectionMessage, SharedCorrelation, load_message
from dfprivacy_dcor.angles import PLACES, Angles, best_half_width
from dfprivacy_dcor.message import checked_message
from dfprivacy_dcor.paper import Projections, kenthapadi_scale
from dfprivacy_dcor.points import Line, covariance_u, round_to_grid
from dfprivacy_dcor.spaces import unit_vectors

COUNT = itertools.count()
ASKED = {"columns": "x", "epsilon": 3}
KEYED = {**ASKED, "keys": "id"}
PAPER = {"protocol": "paper", "epsilon": 1, "delta": 0.001}
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.LazyFrame, "arrow": pa.table}
Z = np.zeros(20)


@pytest.fixture(autouse=True)
def noise():
    """Noise from a seed, so that every run is the same."""
    with seeded_noise(1):
        yield


def party(values, library="pandas", **terms):
    """A view of a table of its own, whose column id is public if there is one."""
    known = {"epsilon": 10**4, "delta": 0.01, "accounting": "basic", "ledger": "memory:"}
    known["public"] = ["id"] if "id" in values else []
    known["bounds"] = {name: (-1, 1) if name == "x" else (-1.5, 1.5) for name in values if name in "wxyz"}
    return dp.protect(LIBRARIES[library](values), f"a party {next(COUNT)}", **{**known, **terms})


def both(n=400, relation=np.square, **terms):
    """Alice with x and w, Bob with y, a function of x, and z."""
    x, w, z = np.random.default_rng(1).uniform(-1, 1, (3, n))
    y = np.clip(relation(x) + 0.1 * np.random.default_rng(2).normal(size=n), -1.5, 1.5)
    return party({"x": x, "w": w}), party({"y": y, "z": z}, **terms), y


def keyed(n, kind=int, seed=1, **terms):
    """Both parties with the same x, in another order, and keys."""
    rng = np.random.default_rng(seed)
    x, order = rng.uniform(-1, 1, n), rng.permutation(n)
    keys = [kind(10**6 + at) for at in range(n)]
    return {"x": x, "id": keys}, {"y": x[order], "id": [keys[at] for at in order]}


def noiseless(x, length=1.0, **changed):
    """A message whose angles are those of numbers from 0 to 1, as they are."""
    n = len(x)
    exact = {"angles": np.rint(x / 2 * PLACES).astype(np.int64), "reach": 0, "inside": 2**45, "outside": 1}
    one = {"turns": np.zeros(n, np.int64), "directions": np.ones((1, 1)), "harmonics": (1,), "length": length}
    known = {"columns": ("x",), "rows": n, "places": PLACES, "deviation": 0.2, "deviation_scale": 0.001}
    return DistanceMessage(**{**known, **one, **exact, "keys": None, **changed})


def unbiased(a, b):
    """Squared distance covariance without bias, from all pairs."""
    n = len(a)
    first, second, third = (a * b).sum(), a.sum(axis=1) @ b.sum(axis=1), a.sum() * b.sum()
    return (first - 2 * second / (n - 2) + third / ((n - 1) * (n - 2))) / (n * (n - 3))


def lines(x):
    """Distances of numbers."""
    return np.abs(np.subtract.outer(x, x))


def heard(angles, there=1.0, harmonic=1):
    """What a harmonic of angles makes of distances."""
    wave = np.exp(2j * np.pi * angles / PLACES) * there
    apart = -4 / (np.pi * harmonic) ** 2 * (wave[:, None] * wave.conj()).real
    np.fill_diagonal(apart, 0)
    return apart


# Messages


def test_the_estimate_from_a_message_is_its_formula():
    """From the true angles it is the textbook's U-statistic, on a line and as points; keys bring rows together."""
    rng = np.random.default_rng(8)
    x, y, order = rng.random(40), rng.random(40), rng.permutation(40)
    message = noiseless(x, keys=tuple(range(40)))
    expected = unbiased(heard(message.angles), lines(y))

    points = np.stack([y, np.zeros(40)], axis=1)
    for numbers, keys in ((y, range(40)), (points, range(40)), (y[order], order)):
        found = message.estimate(numbers, keys=[*map(int, keys)], permutations=9)
        assert expected == pytest.approx(found.covariance, rel=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("harmonic", [1, 3])
def test_the_estimate_from_a_message_is_unbiased(harmonic):
    """The mean over 1,000 messages is that of true angles, and of 0 for rows that lack a value, within 5 errors."""
    rng, n = np.random.default_rng(5), 200
    x = rng.random(n)
    y, gone = x + 0.1 * rng.random(n), rng.random(n) < 0.4
    arc = Arc.within(Fraction(1), places=PLACES, reach=best_half_width(1.0))
    true = np.rint(harmonic * x / 2 * PLACES).astype(np.int64) % PLACES
    known = {"reach": arc.reach, "inside": arc.inside, "outside": arc.outside, "harmonics": (harmonic,)}
    message = noiseless(x, **known)

    def estimate(places):
        return replace(message, angles=arc.sample(places, rng.integers(arc.weight, size=n))).covariances(y, 1, rng)[
            0
        ]

    for there in (np.ones(n, bool), ~gone):
        found = [estimate(np.where(there, true, rng.integers(2, size=n) * PLACES // 2)) for _ in range(1000)]
        expected = unbiased(heard(true, there, harmonic), lines(y))
        assert expected == pytest.approx(np.mean(found), abs=5 * np.std(found) / math.sqrt(1000))


@pytest.mark.parametrize("gap", [0, PLACES // 2])
def test_the_angle_of_a_row_that_lacks_a_value_is_given(gap):
    """It is that of the coin, whatever the other columns are."""
    columns = tuple(dp.Column(name, bounds=(0.0, 1.0), fill=0.5) for name in "yz")
    rows = np.array([[0.5, math.nan], [math.nan, 0.1], [0.5, 0.5], [0.0, 0.0]])
    batch = Batch(4, {number(column): rows[:, at] for at, column in enumerate(columns)})

    places = Angles(columns, np.array([0.6, 0.8]), 1, 1.0, gap).rows(batch)

    assert [gap, gap, PLACES // 4, 0] == places.tolist()


@pytest.mark.parametrize("party_with_gaps", ["alice", "bob", "both"])
def test_gaps_of_either_party_hardly_bias_the_squared_correlation(party_with_gaps):
    """With four in ten values missing, both answers are near those of complete rows."""
    rng, n = np.random.default_rng(6), 10_000
    x = rng.uniform(-1, 1, n)
    columns = {"x": x.copy(), "y": x**2}
    for name in {"alice": "x", "bob": "y", "both": "xy"}[party_with_gaps]:
        columns[name][rng.random(n) < 0.4] = np.nan
    alice, bob = (party({name: columns[name]}, bounds={name: (-1, 1)}) for name in "xy")
    message = alice.dcor_message("x", harmonics=[1], epsilon=8)
    shown, known = bob.dcor_with(message, "y", epsilon=20), bob.dcor_with_own(message, "y", permutations=9)
    exact = noiseless(x / 2 + 0.5, deviation=math.sqrt(unbiased(*[lines(x[:2000] / 2)] * 2)))
    complete = exact.estimate(x**2 / 2 + 0.5, permutations=1).squared

    assert complete == pytest.approx(shown.squared, abs=0.04)
    assert complete == pytest.approx(known.squared, abs=0.04)
    assert message.share == pytest.approx(1.0 if party_with_gaps == "bob" else 0.6, abs=0.03)
    assert ("have missing values" in "".join(shown.notes)) == (party_with_gaps != "bob")
    assert ("left out" in "".join(shown.notes)) == (party_with_gaps != "alice")


def test_what_may_be_shown_is_near_what_is_known_at_home():
    """With much to spend the shown estimate is the one that its party makes for itself, on a line."""
    alice, bob, y = both(3000, np.copy)
    message = alice.dcor_message("x", epsilon=5)
    hardly, shown = (bob.dcor_with(message, "y", epsilon=epsilon) for epsilon in (0.01, 50))

    known = message.estimate(y, permutations=1).squared
    assert known == pytest.approx(shown.squared, abs=0.05)
    assert 0.6 < shown.low <= shown.squared <= shown.high == 1
    weak = alice.dcor_message("x", epsilon=1)  # where the paper's message hides a line, that of angles does not
    paper = alice.dcor_message("x", **{**PAPER, "delta": 1e-5}).estimate(y, permutations=1).squared
    assert paper < 0.2
    assert weak.estimate(y, permutations=1).squared > 0.5
    assert (hardly.low, any("uninformative" in note for note in hardly.notes)) == (0, True)


@pytest.mark.statistical
@pytest.mark.one_in(2)
@pytest.mark.parametrize(("relation", "least"), [("line", 0.6), ("parabola", 0.05), ("wave", 0.04), ("none", -1.0)])
def test_the_lower_bound_holds(relation, least):
    """No bound of 14 messages exceeds the table's own R², and strong dependence has a bound above 0."""
    rng, n = np.random.default_rng(5), 3000
    x = rng.uniform(-1, 1, n)
    y = {"line": x, "parabola": x**2, "wave": np.sin(2 * np.pi * x), "none": rng.uniform(-1, 1, n)}[relation]
    y = np.clip(y + 0.1 * rng.normal(size=n), -1.5, 1.5)
    sides = [Line(round_to_grid(each, 20), 20) for each in (x / 2 + 0.5, y / 3 + 0.5)]
    covariance, *variances = (float(covariance_u(*pair)) for pair in (sides, 2 * sides[:1], 2 * sides[1:]))
    truth = covariance / math.sqrt(math.prod(variances))
    alice, bob = party({"x": x}), party({"y": y})
    for epsilon in (1, 50):
        messages = [alice.dcor_message("x", epsilon=epsilon, fresh=True) for _ in range(7)]
        bounds = [bob.dcor_with(message, "y", epsilon=epsilon).low for message in messages]
        assert max(bounds) <= max(truth, 0.0)
    assert np.mean(bounds) > least


@pytest.mark.parametrize("spoil", [0.5, np.nan, np.inf])
def test_columns_of_any_kind_are_answered(spoil):
    """A constant column, missing and infinite values of either party: answers say that they mean nothing.

    What rounding leaves of a constant's distances is no evidence.
    """
    alice, bob, _y = both(200)
    odd, message = party({"x": np.full(200, spoil)}), alice.dcor_message("x", epsilon=1)
    found = [
        bob.dcor_with(odd.dcor_message("x", epsilon=1), "y", epsilon=1),
        odd.dcor_with(message, "x", epsilon=1),
    ]
    plane = alice.dcor_message(["x", "w"], protocol="paper", epsilon=5, delta=0.01)

    assert all(any("uninformative" in note for note in each.notes) for each in found)
    assert (
        bob.dcor_with(plane, "y", epsilon=1)
        .notes[1]
        .startswith("the lower bound holds for the message's 10 directions")
    )
    for value in (0.3, 1e6 / 3, 0.0):
        same = noiseless(np.linspace(0, 1, 300)).estimate(np.full(300, value), permutations=99, seed=1)
        assert (same.pvalue, same.rejected, same.squared, same.covariance) == (1.0, False, 0.0, 0.0)
        assert any("constant" in note for note in same.notes)


# Files


def test_messages_travel(tmp_path):
    """What is read from a file of either kind is what was saved, and serves as well; a spoiled one is refused.

    Truncated, tampered with, of another version, or something else: an object of another class is not looked up.
    """
    _, bob, _ = both(40)
    path = tmp_path / "message.json"
    for sent in (PROJECTIONS, replace(ANGLES, keys=tuple(range(40)))):
        sent.save(path)
        received = load_message(path)
        assert (type(received), received.to_dict()) == (type(sent), sent.to_dict())
    assert bob.dcor_with(replace(received, keys=None), "y", epsilon=1).rows == 40

    text = path.read_text()
    envelope = json.loads(text)
    content = envelope["content"].replace("dfprivacy_dcor.angles:DistanceMessage", "dfprivacy.release:Value")
    other = json.dumps({**envelope, "content": content, "sha256": sha256(content.encode()).hexdigest()})
    for spoiled, said in (
        (text[: len(text) // 2], "incomplete"),
        (text.replace("deviation", "deviatiom"), "changed"),
        (text.replace('"version": 1', '"version": 2'), "version"),
        ("[]", "not contain a message|must be a message"),
        (other, "not contain a message|must be a message"),
    ):
        path.write_text(spoiled)
        with pytest.raises(dp.ArgumentError, match=said):
            load_message(path)


ANGLES = noiseless(np.linspace(0, 1, 40))
PROJECTIONS = ProjectionMessage(
    columns=("x",), rows=40, projections=np.linspace(0, 1, 40)[:, None], turns=np.zeros(40, np.int64),
    directions=np.ones((1, 1)), scale=0.1, deviation=0.2, deviation_scale=0.01, keys=None,
)  # fmt: skip


@pytest.mark.parametrize("changed", [
    {"projections": np.zeros((40, 2))}, {"projections": np.full((40, 1), np.nan)}, {"projections": None},
    {"scale": 0.0}, {"deviation": np.nan}, {"directions": np.zeros((1, 1))}, {"turns": np.full(40, 7)},
    {"rows": 3}, {"keys": (1,) * 40},
    {"angles": np.full(40, PLACES)}, {"angles": np.zeros(39, dtype=np.int64)}, {"angles": np.zeros(40)},
    {"harmonics": (0,)}, {"harmonics": (10**400,)}, {"length": np.inf}, {"inside": 1, "outside": 3},
    {"inside": 10**30 + 1, "outside": 10**30}, {"deviation_scale": 0.0},
])  # fmt: skip
def test_a_message_that_does_not_fit_together_is_refused(changed):
    """Whoever wrote the file: shapes, ranges and numbers are looked at before anything is computed."""
    for message in (PROJECTIONS, ANGLES):
        assert message is checked_message(message)
        if all(hasattr(message, name) for name in changed):
            with pytest.raises(dp.ArgumentError, match="invalid type, shape or value"):
                checked_message(replace(message, **changed))


def test_a_message_beyond_the_range_of_numbers_is_refused():
    """Where products underflow or overflow, no bound can be computed: refused, before anything is charged."""
    bob = party({"y": np.linspace(-1, 1, 40)})

    for scale in (0.0, 5e-324, 1e-300, 1.7e308):
        extreme = replace(PROJECTIONS, projections=PROJECTIONS.projections**3 * scale)
        with pytest.raises(dp.ArgumentError, match="rows of the message are all equal"), np.errstate(all="ignore"):
            bob.dcor_with(extreme, "y", epsilon=1)
    assert bob.budget.spent == 0
    assert bob.dcor_with(PROJECTIONS, "y", epsilon=1).rows == 40


# Views in place of messages


def test_a_view_is_asked_for_its_message():
    """It pays for the message itself, once, whoever uses it; the answer is that to the message."""
    alice, bob, _ = both(default_epsilon=2)
    found = bob.dcor_with(alice, "y", asked=ASKED)
    message = alice.dcor_message("x", epsilon=3)
    again = bob.dcor_with(message, "y", epsilon=2)
    own, known = (bob.dcor_with_own(each, "y", asked=asked, permutations=9, seed=1)
                  for each, asked in ((alice, ASKED), (message, None)))  # fmt: skip
    said = bob.explain("dcor_with", message, "y", epsilon=1)

    assert isinstance(found, SharedCorrelation)
    assert (found, own, again.privacy.replayed, len(said.measurements)) == (again, known, True, 1)
    assert (alice.budget.spent, bob.budget.spent) == (3, 2)
    paper = bob.dcor_with(alice, "y", asked={**ASKED, "delta": 0.001}, protocol="paper", epsilon=1)
    assert "before distances" in paper.notes[0]


def test_a_question_holds_digests_of_its_message_and_keys():
    """The ledger keeps a few characters in place of rows; another message, or other keys, ask anew."""
    alice, bob, _ = both(1000)
    first, second = (alice.dcor_message("x", epsilon=1, fresh=True) for _ in range(2))
    bob.dcor_with(first, "y", epsilon=1)
    assert not bob.dcor_with(second, "y", epsilon=1).privacy.replayed
    assert bob.dcor_with(replace(first, privacy=None), "y", epsilon=1).privacy.replayed

    spent, keys = alice.budget.spent, list(range(1000))
    alice.dcor_message("x", keys=keys, epsilon=1)
    assert alice.dcor_message("x", keys=keys, epsilon=1).privacy.replayed
    assert not alice.dcor_message("x", keys=keys[::-1], epsilon=1).privacy.replayed
    assert alice.budget.spent - spent == Fraction(18, 10)  # the distance deviation, a tenth, has no keys in it
    answers = [*alice._target.account.answers(), *bob._target.account.answers()]
    assert max(len(answer.question) for answer in answers) < 1000


@pytest.mark.one_in(3)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", [int, str])
def test_a_key_column_is_the_same_as_its_values(library, kind):
    """Whoever's table it is, a column of public keys says what a list of them does, and brings rows together."""
    mine, its = keyed(1000, kind)
    alice, bob, elsewhere = party(mine, library), party(its, library), party(its)
    with seeded_noise(1):
        message = alice.dcor_message("x", keys="id", epsilon=20)
        found = bob.dcor_with(message, "y", keys="id", epsilon=20)
        there = elsewhere.dcor_with(alice, "y", asked={**KEYED, "epsilon": 20}, keys="id", epsilon=20)
    with seeded_noise(1):
        listed = alice.dcor_message("x", keys=mine["id"], epsilon=20)
        same = bob.dcor_with(listed, "y", keys=its["id"], epsilon=20)
        unrelated = bob.dcor_with(replace(message, keys=None), "y", epsilon=20)

    assert tuple(mine["id"]) == message.keys
    assert (message.angles.tolist(), found.released) == (listed.angles.tolist(), same.released)
    assert min(found.squared, there.squared) > 0.5
    assert unrelated.squared < 0.1


def test_keys_of_a_scanned_file_and_their_fingerprint(tmp_path):
    """Rows of a file come in the order of their keys; before anything is paid both parties can compare them."""
    n, path = 60_000, tmp_path / "rows.parquet"
    x = np.linspace(-1, 1, n)
    pl.DataFrame({"x": x, "id": np.arange(n)}).write_parquet(path, row_group_size=5000)
    terms = {"epsilon": 20, "ledger": "memory:", "bounds": {"x": (-1, 1)}, "public": ["id"]}
    scanned = dp.protect(pl.scan_parquet(path), "a file with keys", **terms)
    message = scanned.dcor_message("x", keys="id", epsilon=20)
    mine, its = keyed(20)
    alice, bob = party(mine), party({**its, "x": its["y"]})
    said, again = (view.explain("dcor_message", "x", keys="id", epsilon=1).findings for view in (alice, bob))

    assert tuple(range(n)) == message.keys
    assert message.estimate(x, keys=list(range(n)), permutations=1).squared > 0.9
    assert said == again
    assert (said["rows"], len(said["fingerprint of the keys"])) == (20, 64)
    assert alice.explain("dcor_message", "x", epsilon=1).findings == {"rows": 20}
    assert bob.dcor_screen("y", top=1, epsilon=1).candidates == ("x",)  # a key is none


def test_parts_that_public_columns_select_go_together():
    """Rows of a public `where` have a public number and public keys; all rows, or a private part, do not fit."""
    mine, its = keyed(40)
    terms = {"categories": {"arm": ["a", "b"]}, "public": ["id", "arm"]}
    alice, bob = (
        party({**each, "arm": ["a" if key % 4 else "b" for key in each["id"]]}, **terms) for each in (mine, its)
    )
    part, same = alice.where(arm="a"), bob.where(arm="a")
    message = part.dcor_message("x", keys="id", epsilon=3)

    found = same.dcor_with(message, "y", keys="id", epsilon=1)
    again = same.dcor_with(part, "y", asked=KEYED, keys="id", epsilon=1)

    assert (message.rows, found.rows, again.privacy.replayed) == (30, 30, True)
    assert {key % 4 == 0 for key in message.keys} == {False}
    for one, other, match in (
        (bob, part, "30"), (same, alice, "30"),
        (bob, alice.where(x=(0, 1)), "public number"), (bob.where(y=(0, 1)), alice, "public number"),
    ):  # fmt: skip
        with pytest.raises(dp.ArgumentError, match=match):
            one.dcor_with(other, "y", asked=KEYED, keys="id", epsilon=1)
    for view, match in (
        (bob.where(y=(0, 1)), "public number"),
        (bob.group_by("arm"), "not by group"),
        (same, "about 40"),
    ):
        with pytest.raises(dp.ArgumentError, match=match):
            view.dcor_with_own(alice.dcor_message("x", epsilon=3), "y")
    assert bob.budget.spent == 1


# The paper's protocol


@pytest.mark.parametrize("split", [True, False])
def test_the_papers_estimate_is_equation_3_or_4(split):
    """The average over k of C_p C_q times the U-statistic of u_k x and v_k y: of all rows, or of block k."""
    rng = np.random.default_rng(7)
    x, y, u, v = rng.random((60, 3)), rng.random((60, 2)), unit_vectors(4, 3, 0), unit_vectors(4, 2, 1)
    turns = np.arange(60) % 4 if split else np.zeros(60, dtype=np.int64)
    projections = (x * u[turns]).sum(axis=1, keepdims=True) if split else x @ u.T
    message = replace(
        PROJECTIONS, columns=("a", "b", "c"), rows=60, projections=projections, turns=turns, directions=u
    )

    found = message.estimate(y, permutations=1)

    rows = [turns == k if split else slice(None) for k in range(4)]
    each = [unbiased(lines(x[rows[k]] @ u[k]), lines(y[rows[k]] @ v[k])) for k in range(4)]
    assert 2 * math.pi / 2 * np.mean(each) == pytest.approx(found.covariance, rel=1e-6)


def test_the_papers_message_serves_as_well():
    """Any message is estimated from, and shown: with next to no noise on projections, near the truth, 0.213."""
    _alice, bob, _y = both(1000)
    x = np.random.default_rng(1).uniform(-1, 1, (3, 1000))[0]
    message = replace(
        PROJECTIONS, rows=1000, projections=x[:, None] / 2, turns=np.zeros(1000, np.int64), scale=1e-6,
        deviation=0.2108, deviation_scale=1e-6,
    )  # fmt: skip
    shown, own = (
        bob.dcor_with(message, "y", epsilon=100),
        bob.dcor_with_own(message, "y", permutations=99, seed=1),
    )

    assert shown.squared == pytest.approx(0.213, abs=0.04)
    assert own.squared == pytest.approx(0.213, abs=0.04)
    assert own.pvalue == 0.01
    assert "before distances" in shown.notes[0]
    assert "before distances" in own.notes[1]


@pytest.mark.parametrize(("split", "factor"), [(True, 1.0), (False, 1.4)])
def test_the_papers_message_protects_whole_rows(split, factor):
    """The noise of several projections is for a row that changes in all columns; delta is paid as well."""
    alice, *_ = both(60)
    about = {"protocol": "paper", "epsilon": 1, "delta": 1e-5, "fresh": True}
    one = alice.dcor_message(["x", "w"], blocks=1, **about)
    found, wider = (
        alice.dcor_message(["x", "w"], blocks=4, split=split, calibration=by, **about)
        for by in ("analytic", "kenthapadi")
    )

    assert (60, 1 if split else 4) == found.projections.shape
    assert found.scale > factor * one.scale * 0.99
    assert pytest.approx((found.privacy.epsilon, found.privacy.delta)) == (1, 0.9e-5)
    assert found.scale > 3.7 * np.abs(found.directions[0]).sum() if split else found.scale > 3.7
    columns = tuple(dp.Column(name, bounds=(-1.5, 1.5), fill=0.0) for name in "xw")
    statistic = Projections(columns, wider.directions, wider.turns, split=split)
    change = statistic.sensitivity("replace_one", 2, frozenset())
    assert kenthapadi_scale(0.9, 0.9e-5) * change == pytest.approx(
        wider.scale, rel=1e-4
    )  # appendix D costs the same
    assert 1.25 < wider.scale / found.scale < 1.36
    assert gaussian_scale(0.9, 0.9e-5) * change == pytest.approx(found.scale, rel=1e-4)
    assert wider.privacy.delta == found.privacy.delta


# What a party learns for itself


def test_the_owner_gets_the_estimate():
    """It is what `estimate` says of the cleaned rows, scaled by their bounds, of those that are complete."""
    alice, _, y = both()
    y[:2] = np.nan, 50
    z = np.random.default_rng(1).uniform(-1, 1, 400)
    bob, message = party({"y": y, "z": z}), alice.dcor_message("x", epsilon=5)
    there, scaled = np.flatnonzero(~np.isnan(y)), np.clip(y, -1.5, 1.5) / 3 + 0.5
    filled, terms = np.where(np.isnan(y), 0.5, scaled), {"permutations": 99, "seed": 1}

    found, plane = (bob.dcor_with_own(message, of, nan_policy="fill", **terms) for of in ("y", ["y", "z"]))
    complete = bob.dcor_with_own(message, "y", alpha=0.02, **terms)

    assert message.estimate(filled, **terms) == found
    assert message.estimate(np.stack([filled, z / 3 + 0.5], axis=1), **terms) == plane
    assert message.subset(there).estimate(scaled[there], alpha=0.02, **terms) == complete
    assert (complete.pvalue, complete.alpha, complete.rejected) == (0.01, 0.02, True)
    assert not message.estimate(filled, permutations=9, seed=1).rejected
    assert (bob.budget.spent, [*bob.releases], bob._target.account.entries()) == (0, [], [])


def test_categories_are_equal_or_not():
    """The distance of two categories is 1, and what is in none of them is one more."""
    codes = np.arange(80) % 4
    bob = party({"g": ["a", "b", "c", "d"] * 20}, categories={"g": ["a", "b", "c"]})
    message, points = noiseless(np.repeat([0.0, 1.0], 40)), np.eye(4)[codes] / np.sqrt(2)

    found = bob.dcor_with_own(message, "g", permutations=9, seed=1, nan_policy="fill")

    assert np.allclose(codes[:, None] != codes, cdist(points, points))
    assert found.covariance == pytest.approx(message.estimate(points, permutations=9, seed=1).covariance)


def test_it_cannot_be_taken_for_a_release():
    """Its class, what it shows first, its notes and its documentation all say so, and it has no way out as one."""
    found = noiseless(np.linspace(0, 1, 20)).estimate(np.arange(20.0), permutations=9)

    assert isinstance(found, Estimate)
    assert not isinstance(found, dp.Release)
    assert repr(found).startswith("Estimate, not private: computed without noise from your own rows")
    assert found.notes[0].startswith("not private")
    assert "not private" in Estimate.__doc__.splitlines()[0]
    assert not any(hasattr(found, name) for name in ("privacy", "to_dict", "to_frame", "_repr_html_", "plot"))
    with pytest.raises(TypeError):
        json.dumps(found)


# What is refused


def of_view(**more):
    """Ask a view for its message on the way."""
    return lambda a, b, m: b.dcor_with(a, "y", epsilon=1, **more)


def own(**more):
    """Ask for what one learns for oneself."""
    return lambda a, b, m: b.dcor_with_own(m, **{"columns": "y", **more})


def written(**more):
    """Ask for a message."""
    return lambda a, b, m: a.dcor_message(**{"columns": "x", "epsilon": 1, **more})


def estimated(y, **more):
    """Estimate from a message."""
    return lambda a, b, m: m.estimate(y, **more)


ONES, DEAR = [*range(20)], {**ASKED, "epsilon": 10**5}


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (of_view(), "asked= with the arguments"),
        (of_view(asked={"columns": "x"}), "asked= with the arguments"),
        (of_view(asked={**ASKED, "protocol": "paper"}), "must not contain 'protocol'"),
        (of_view(asked={**ASKED, "keys": ONES}), "Only one"),
        (of_view(asked={**ASKED, "keys": ONES}, keys=[*range(1, 21)]), "do not match one to one"),
        (of_view(asked={**ASKED, "columns": "nothing"}), "nothing"),
        (of_view(asked={**ASKED, "colour": "red"}), "colour"),
        (of_view(asked=ASKED, confidence=1), "between 0 and 1"),
        (of_view(asked=ASKED, protocol="magic"), "unknown"),
        (of_view(asked=DEAR), "epsilon"),
        (lambda a, b, m: b.dcor_with_own(a, "y", asked=DEAR), "epsilon"),
        (lambda a, b, m: b.explain("dcor_with", a, "y", asked=ASKED, epsilon=1), "spends no budget"),
        (lambda a, b, m: b.explain("dcor_with", m, "y"), "No epsilon"),
        (lambda a, b, m: party({"y": Z[1:]}).dcor_with(a, "y", asked=ASKED, epsilon=1), "20 rows.*has 19"),
        (lambda a, b, m: party({"y": Z[1:]}).dcor_with(m, "y", epsilon=1), "20 rows.*has 19"),
        (lambda a, b, m: b.dcor_with(m, "y", keys=ONES, epsilon=1), "Only one"),
        (lambda a, b, m: b.dcor_with(m, "y", protocol="paper", epsilon=1), "not 'paper'"),
        (lambda a, b, m: b.dcor_with("hello", "y", epsilon=1), "not contain a message|must be a message"),
        (lambda a, b, m: b.dcor_with_own(pd.DataFrame({"x": Z}), "y"), "public values only"),
        (own(permutations=0), "permutations=0 is not an integer from 1 on"),
        (own(permutations=True), "permutations=True is not an integer"),
        (own(alpha=2), "between 0 and 1"),
        (own(asked=ASKED), "only used if other= is a view"),
        (own(delta=0.1), "delta"),
        (own(columns="x"), "no column 'x'"),
        (written(protocol="magic"), "unknown"),
        (written(**PAPER, length=0.5), "protocol=.angle."),
        (written(**PAPER, harmonics=[1]), "protocol=.angle."),
        (written(**PAPER, split=1), "neither"),
        (written(**{**PAPER, "delta": 0}), "delta"),
        (written(calibration="kenthapadi"), "calibration= is an option of protocol"),
        (written(columns="g"), "takes numeric columns with bounds"),
        *((written(harmonics=harmonics), "odd") for harmonics in ([2], [], [1, 1])),
        (written(length=0), "length"),
        (written(blocks=3), "blocks"),
        (written(columns=["x", "w"], blocks=6), "blocks"),
        (written(keys=[1, 1]), "keys"),
        (written(keys="x"), "not public"),
        (written(keys="name"), "no column 'name'"),
        (estimated(np.zeros(5)), "about 20 rows"),
        (estimated(np.full(20, np.nan)), "missing"),
        (estimated(["a"] * 20), "array of numbers"),
        (estimated(Z, keys=ONES), "Only one"),
        (estimated(Z, alpha=1), "alpha"),
    ],
)
def test_what_cannot_be_used_is_refused(call, match):
    """Whatever is wrong, and whoever is asked: neither account is charged."""
    alice, bob = party({"x": Z, "w": Z, "g": ["a"] * 20}, categories={"g": ["a", "b"]}), party({"y": Z})

    with pytest.raises(dp.DPError, match=match):
        call(alice, bob, noiseless(Z))
    assert (alice.budget.spent, bob.budget.spent) == (0, 0)


@pytest.mark.parametrize(
    "keys",
    [[7] * 20, [*range(19), 4711], [*range(19), None], [float(at) for at in range(20)],
     [at % 2 == 0 for at in range(20)], pd.date_range("2020-01-01", periods=20), [f"row {at}" for at in range(20)]],
    ids=["doubles", "stranger", "missing", "fractions", "booleans", "dates", "text"],
)  # fmt: skip
def test_keys_that_do_not_match_are_refused_without_saying_which(keys):
    """By a message or by a view, as a column or listed: nobody is charged, and no key is named."""
    alice, bob = party({"x": Z, "id": list(range(20))}), party({"y": Z, "id": keys})
    message = noiseless(Z, keys=tuple(range(20)))
    for other, asked, known in ((message, None, "id"), (alice, KEYED, "id"), (message, None, list(keys))):
        with pytest.raises(dp.ArgumentError) as caught:
            bob.dcor_with(other, "y", asked=asked, keys=known, epsilon=1)
        assert not any(word in str(caught.value) for word in ("4711", "2020", "19", "row 1"))
    with pytest.raises(dp.ArgumentError):
        message.estimate(Z, keys=list(keys))

    assert (alice.budget.spent, bob.budget.spent) == (0, 0)
