"""The conformance kit: how its checks are run, named, excused, collected by pytest and asked for from the shell."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
import dfprivacy_audit
from dfprivacy._plugins.loader import registry, unregister
from dfprivacy._privacy import conversions
from dfprivacy._privacy import samplers as noise
from dfprivacy.cli import main
from dfprivacy.local import Arc
from dfprivacy.testing import SeededSampler, seeded_noise
from dfprivacy_audit import CHECKS, Case, catalogue, check_mechanism, harness
from dfprivacy_audit.cases import candidate_rows, cases_of, tables
from dfprivacy_audit.exact import families, loss_between, worst_pair
from dfprivacy_audit.harness import Harness, Recording, Replay
from dfprivacy_audit.pytest_plugin import conformance_items
from dfprivacy_audit.sampler import goodness_of_fit
from dfprivacy_audit.sampling import Output, audit_by_sampling, separation

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "howto" / "audit.md"
# A package of its own: an audit looks into all modules of a mechanism's package, which has all tests here.
_SPEC = importlib.util.spec_from_file_location("totals", ROOT / "tests" / "meta" / "totals.py")
totals = sys.modules["totals"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(totals)
total, difference = totals.total, totals.difference

CASE = Case(arguments={"column": "x"}, bounds={"x": (-1.0, 1.0)}, epsilon=1)


@pytest.fixture
def registered():
    """The mechanisms as a plugin that gives their cases."""

    class Totals:
        @dp.hookimpl
        def dfprivacy_register_mechanisms(self, register):
            register(total)
            register(totals.private_total)

        @dp.hookimpl
        def dfprivacy_conformance_cases(self, mechanism, case):
            return [case(arguments={"column": "x"}, bounds={"x": (-1.0, 1.0)}, epsilon=1)]

    dp.register(Totals())
    yield
    unregister("Totals")


def test_every_check_is_given_once_for_each_case():
    """A mechanism has each check in each case, by name, with what it catches."""
    found = list(check_mechanism(total, [CASE, CASE]))

    assert [*CHECKS] * 2 == [check.name for check in found]
    assert all(check.catches for check in found)
    assert "total(column='x'): answers" == str(found[0])


def test_a_check_can_be_called():
    """Called, a check returns what it saw, or raises an `AssertionError` that says what is wrong."""
    found = {check.name: check for check in check_mechanism(total, [CASE])}

    assert found["answers"]().startswith("the release has no NaN")
    with pytest.raises(AssertionError, match="does not state the privacy guarantee"):
        found["is_documented"]()


def test_a_failure_can_be_expected():
    """A check that is expected to fail does no harm, and one that passes in spite of that does."""
    expected = {"is_documented": "a test", "answers": "another test"}
    checks = check_mechanism(total, [CASE], expected_failed_checks=expected)
    found = {check.name: check.run() for check in checks if check.name in expected}

    assert "expected" == found["is_documented"].status
    assert "failed" == found["answers"].status
    assert "expected to fail (another test), but passed" in found["answers"].detail


def test_a_check_that_takes_too_long_is_skipped(monkeypatch):
    """What is left of a check is not waited for, and it says so."""
    monkeypatch.setattr(harness, "SECONDS", 0)

    found = [check.run() for check in check_mechanism(total, [CASE]) if check.name == "loss_within_charge"]

    assert [("skipped", "not finished in 0 s")] == [(outcome.status, outcome.detail) for outcome in found]


def test_an_unknown_check_cannot_be_expected():
    """An excuse for a check that does not exist is an error."""
    with pytest.raises(dp.ArgumentError, match="There are no checks"):
        list(check_mechanism(total, [CASE], expected_failed_checks={"nothing": "to excuse"}))


def test_cases_come_from_the_plugin(registered):
    """The hook's cases are used where there are some."""
    assert (CASE,) == cases_of(registry().mechanisms["total"])


def test_cases_follow_from_the_columns():
    """Else cases are made from the kinds of columns, in both neighbouring relations, with and without options."""

    @dp.mechanism(columns={"many": ["numeric"], "by": "category"})
    def found(curator, many, by=None):
        return None

    cases = cases_of(found)

    assert [{"many": ["many", "many_2"]}, {"many": ["many", "many_2"], "by": "by"}] * 2 == [
        case.arguments for case in cases
    ]
    assert ["replace_one"] * 2 + ["add_remove"] * 2 == [case.neighbors for case in cases]


def test_cases_cannot_be_guessed():
    """A parameter without a default that names no column needs cases of the author's."""

    @dp.mechanism(columns={"column": "numeric"})
    def needs(curator, column, popmean):
        return None

    with pytest.raises(dp.ArgumentError, match="'needs' has no default case"):
        cases_of(needs)


def test_tables_and_rows_have_the_corners():
    """Rows have the ends of the bounds, every category, missing and extreme values, and what the author says."""
    case = Case(bounds={"x": (-1.0, 1.0)}, categories={"g": ["a", "b"]}, rows=({"x": 0.123, "g": "a"},))

    rows = candidate_rows(case)

    assert {"x": 0.123, "g": "a"} == rows[0]
    assert {(x, g) for x in (-1, 1) for g in "ab"} <= {(row["x"], row["g"]) for row in rows}
    assert {None, "unheard of"} <= {row["g"] for row in rows}
    assert {np.inf, -np.inf, 1e300} <= {row["x"] for row in rows}
    assert any(np.isnan(row["x"]) for row in rows)
    assert ["mixed", "lowest", "highest", "one group", "one row"] == list(tables(case))


def test_neighbours_are_in_either_of_two_tables():
    """With a second view both tables have rows, and neighbours differ in a row of the first or of the second."""
    case = Case(arguments={"column": "x"}, bounds={"x": (-1.0, 1.0)}, other="other", epsilon=1)

    family = families(Harness(difference, case))[0]
    sides = [[row["other"] for row, _ in pair] for pair in family.pairs()]

    assert "column='x', other a second view" == str(case)
    assert [12, 12] == [len(part) for part in Harness(difference, case).parts(family.rows)]
    assert {(False, False), (True, True)} == set(map(tuple, sides))
    assert family.base.charges == family.base.second


def test_the_exact_audit_of_laplace_noise_is_exact():
    """For a sum of y in [-1, 1] the worst pair is the two ends, and the loss is their distance over the scale."""
    family = families(Harness(total, CASE))[0]

    loss = worst_pair(family)

    (draw,) = family.base.draws
    k = family.base.release.privacy.noise[0].grid
    assert float(2 * 2**k / Fraction(draw.scale)) == loss.epsilon
    assert not loss.exceeds
    assert {-1.0, 1.0} == {max(-1.0, min(1.0, row["x"])) for row in loss.pair}


def test_the_exact_audit_of_gaussian_noise_is_exact():
    """The loss of Gaussian noise is the epsilon at which its delta is the one charged."""

    @dp.mechanism(columns={"column": "numeric"}, delta=True)
    def gaussian(curator, column):
        """Sum with Gaussian noise."""
        return curator.sum(dp.features.Moments(column, degree=1), noise="gaussian").values[0]  # noqa: PD011

    case = Case(arguments={"column": "x"}, bounds={"x": (-1.0, 1.0)}, epsilon=1, delta="1/100000")
    family = families(Harness(gaussian, case))[0]

    loss = worst_pair(family)

    (draw,), k = family.base.draws, family.base.release.privacy.noise[0].grid
    delta = conversions.gaussian_delta((2 * 2**k) ** 2, draw.scale, 1, Fraction(loss.epsilon))
    assert 1e-5 == pytest.approx(float(delta), rel=1e-6)
    assert 0.99 < loss.tightness <= 1
    assert not loss.exceeds


@pytest.mark.parametrize(("stretch", "exceeds"), [(1.0, False), (1.2, True)])
@pytest.mark.parametrize("epsilon", [1, 100])
def test_two_halves_of_a_price_hold_at_any_epsilon(stretch, exceeds, epsilon):
    """Two sums with Gaussian noise at half of the price each; and one that moves by more than it says."""

    class Stretched(dp.statistics.OfSums):
        shape = (1,)

        def __init__(self, features):
            self.features, self.columns = features, features.columns

        def value(self, sums):
            return stretch * sums

        def sensitivity(self, relation, norm, public):
            return 2.0

    @dp.mechanism(columns={"column": "numeric"}, delta=True)
    def halves(curator, column):
        """Two sums with Gaussian noise."""
        asked = dp.features.Moments(column, degree=1), dp.features.Moments(column, degree=2)
        first = curator.measure(Stretched(asked[0]), noise="gaussian", share="1/2").values  # noqa: PD011
        return float(first[0]) + float(curator.sum(asked[1], noise="gaussian").values[1])  # noqa: PD011

    case = Case(arguments={"column": "x"}, bounds={"x": (-1.0, 1.0)}, epsilon=epsilon, delta="1/100000")

    assert worst_pair(families(Harness(halves, case))[0]).exceeds is (exceeds and epsilon > 1)


def loss_of(ask, one, other):
    """The audit's loss between two tables on which a sampler is asked for something."""
    traces = []
    for values in (one, other):
        replay = Replay()
        ask(replay, np.array(values, dtype=np.int64))
        traces.append(Recording(tuple(replay.draws), (), (), None, None, (), (), opaque=False))
    return loss_between(*traces, (None, None), "by hand").epsilon


def largest_ratio(one, other):
    """The loss between two laws, given as probabilities of the same outcomes."""
    return max(abs(math.log(p / q)) for p, q in zip(one, other, strict=True))


@pytest.mark.parametrize(("places", "reach"), [(2, 0), (5, 0), (5, 1), (6, 2)])
def test_the_exact_audit_of_messages_is_exact(places, reach):
    """Over all pairs of messages of two rows the loss is what the audit says, for any change of both rows."""
    arc = Arc(places, reach, 7, 3)

    def law(labels):
        one, other = (
            np.bincount(arc.sample(np.full(arc.weight, at), np.arange(arc.weight)), minlength=places)
            for at in labels
        )
        return np.outer(one, other).ravel() / arc.weight**2

    for moved in itertools.product(range(places), repeat=2):
        said = loss_of(lambda sampler, labels: sampler.arc(labels, arc), [0, 1], moved)
        assert largest_ratio(law([0, 1]), law(moved)) == pytest.approx(said, abs=1e-12)


def flipped(values, scale):
    """Exact law of permute-and-flip: in a random order, each is taken with probability exp(-gap / scale)."""
    heads = np.exp((np.array(values) - max(values)) / scale)
    law = np.zeros(len(values))
    for order in itertools.permutations(range(len(values))):
        left = 1.0
        for at in order:
            law[at] += left * heads[at] / math.factorial(len(values))
            left *= 1 - heads[at]
    return law


def exponential(values, scale):
    """Exact law of the exponential mechanism."""
    weights = np.exp((np.array(values) - max(values)) / scale)
    return weights / weights.sum()


@pytest.mark.parametrize(("law", "flip"), [(flipped, True), (exponential, False)])
def test_the_exact_audit_of_selections_is_a_bound_that_is_nearly_reached(law, flip):
    """No change of three scores by one loses more than the audit says, and some lose nearly that."""
    worst = 0.0
    for values in itertools.product([0, 3, 9, 30], repeat=3):
        for shift in itertools.product([-1, 0, 1], repeat=3):
            moved = [value + step for value, step in zip(values, shift, strict=True)]
            said = loss_of(lambda sampler, scores: sampler.noisy_top_k(scores, 2.0, 1, flip=flip), values, moved)
            lost = largest_ratio(law(values, 2.0), law(moved, 2.0))
            assert lost <= said + 1e-12
            worst = max(worst, lost / said if said else 0.0)

    assert worst > 0.99


def test_the_exact_audit_of_a_decision_is_a_bound():
    """No change by one of a value and of those of two rearrangements loses more than the audit says."""
    support = np.arange(-120, 121)
    noise_law = np.tanh(0.25) * np.exp(-np.abs(support) / 2)

    def rejects(values):
        level = support + values[0]
        below, same = (
            [np.array([noise_law[hit(support + v, m)].sum() for m in level]) for v in values[1:]]
            for hit in (np.less, np.equal)
        )
        first = below[0] * below[1] + (below[0] * same[1] + same[0] * below[1]) / 2 + same[0] * same[1] / 3
        probability = float(first @ noise_law)
        return probability, 1 - probability

    worst = 0.0
    for values in ([0, 0, 0], [9, 0, 0], [0, 9, 9], [25, 0, 0]):
        for shift in itertools.product([-1, 1], repeat=3):
            one, other = np.array(values), np.array(values) + shift
            said = loss_of(lambda sampler, them: sampler.permutation_decision(them, 2.0, 1), one, other)
            lost = largest_ratio(rejects(one), rejects(other))
            assert lost <= said == 1.0
            worst = max(worst, lost)

    assert worst > 0.9


def test_arcs_that_differ_are_told_apart():
    """Where the law of the messages depends on the table, no bound holds."""
    arcs = iter([Arc(16, 3, 7, 3), Arc(16, 2, 7, 3)])

    assert math.inf == loss_of(lambda sampler, labels: sampler.arc(labels, next(arcs)), [0, 1], [0, 1])


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.7, 3.0, 41.5, 1e6, 2.0**38])
@pytest.mark.parametrize("sampler", [noise.OpenDPSampler(), SeededSampler(4)], ids=["OpenDP", "seeded"])
def test_the_samplers_fit(sampler, kind, scale):
    """Noise follows its law at every scale, OpenDP's and that of tests."""
    assert goodness_of_fit(sampler, kind, scale, 4_000) > 1e-8


class Wrong:
    """A sampler that is wrong in one way."""

    name, private = "wrong", False

    def __init__(self, change):
        self.change = change

    def laplace(self, values, scale):
        return self.change(values, scale, np.random.default_rng(1))


WRONG = {
    "too small": lambda v, s, g: v + np.rint(g.laplace(0, 0.9 * s, v.shape)).astype(np.int64),
    "normal": lambda v, s, g: v + np.rint(g.normal(0, 1.4 * s, v.shape)).astype(np.int64),
    "coarse": lambda v, s, g: v + 2 * np.rint(g.laplace(0, s / 2, v.shape)).astype(np.int64),
    "one for all": lambda v, s, g: v + np.rint(g.laplace(0, s, (len(v), 1))).astype(np.int64),
    "one after another": lambda v, s, g: (
        v + np.repeat(np.rint(g.laplace(0, s, (len(v) // 2, 2))), 2, axis=0).astype(np.int64)
    ),
    "of the value": lambda v, s, g: v + np.rint(g.laplace(0, s, v.shape)).astype(np.int64) * (v % 2 == 0),
    "shifted": lambda v, s, g: v + np.rint(g.laplace(0.1 * s, s, v.shape)).astype(np.int64),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_sampler_does_not_fit(fault):
    """Noise that is too small, of another law, coarse, repeated, shifted, or dependent on the value is found."""
    assert goodness_of_fit(Wrong(WRONG[fault]), "laplace", 2.0**30) < 1e-8


def on_a_grid(values):
    """Round, as the house does: the last bits of NumPy's noise tell where it was added."""
    return np.rint(values * 2**20) / 2**20


def outputs(values, text=""):
    return [Output((float(value),), text) for value in values]


@pytest.mark.statistical
def test_sampling_proves_no_more_than_is_true():
    """For Laplace noise of epsilon 1 the proof comes close to 1, and in 80 runs never exceeds it."""
    rng = np.random.default_rng(20_260_101)
    found = [separation(*(outputs(on_a_grid(rng.laplace(at, 1, 1_000))) for at in (0, 1)))[0] for _ in range(80)]

    large, _ = separation(*(outputs(on_a_grid(rng.laplace(at, 1, 100_000))) for at in (0, 1)))

    assert max(found) <= 1
    assert 0.9 < large <= 1


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("one", "other", "event"),
    [
        (lambda g: outputs(g.laplace(0, 0.5, 10_000)), lambda g: outputs(g.laplace(1, 0.5, 10_000)), "number 0"),
        (lambda g: outputs(g.laplace(0, 1, 10_000)), lambda g: outputs(1 + g.laplace(0, 1, 10_000)), "last bits"),
        (lambda g: outputs(g.normal(size=9_000), "a"), lambda g: outputs(g.normal(size=9_000), "b"), "text"),
        (
            lambda g: outputs(np.where(g.random(9_000) < 0.2, np.nan, g.normal(size=9_000))),
            lambda g: outputs(g.normal(size=9_000)),
            "finite",
        ),
        (
            lambda g: [Output((1.0,), "")] * 9_000,
            lambda g: [Output((1.0,) if g.random() > 0.1 else (), "error") for _ in range(9_000)],
            "text",
        ),
    ],
)
def test_sampling_finds_the_event(one, other, event):
    """Half the noise, the last bits of NumPy's floats, words, NaN and errors are each found as what they are."""
    rng = np.random.default_rng(20_260_102)

    epsilon, found = separation(one(rng), other(rng))

    assert epsilon > 1
    assert event in found


@pytest.mark.statistical
def test_an_event_that_proves_enough_ends_the_search():
    """Few outputs of epsilon 3 prove .05, with what is allowed to be wrong in all the search."""
    stage = Harness(total, replace(CASE, epsilon=3))

    proof = audit_by_sampling(stage, 2_000, enough=0.05)

    assert 0.05 < proof.epsilon <= 3
    assert 250 == proof.samples


def test_the_page_shows_what_each_check_catches():
    """The table on the page is the one that the code writes."""
    assert f"\n\n{catalogue()}\n\n<!-- end -->" in PAGE.read_text(encoding="utf-8")


def test_the_command_audits(capsys, tmp_path, registered):
    """``dfprivacy audit`` prints a line for each case, and writes every outcome as JSON."""
    target = tmp_path / "audit.json"

    code = main(["audit", "private_total", "--output", str(target)])

    out, _ = capsys.readouterr()
    found = json.loads(target.read_text(encoding="utf-8"))
    assert 0 == code
    assert re.search(r"^private_total\(column='x'\): 11 passed, 2 skipped; loss 1 of 1", out, re.MULTILINE)
    assert found["passed"]
    assert len(CHECKS) == len(found["outcomes"])
    assert all(0.9 <= o["tightness"] <= 1 for o in found["outcomes"] if o["check"] == "charge_is_tight")


def test_the_command_fails(capsys, registered):
    """A check that fails is shown, and the exit code is 1."""
    code = main(["audit", "total"])

    out, _ = capsys.readouterr()
    assert 1 == code
    assert "  FAILED    is_documented: the docstring does not state the privacy guarantee" in out.splitlines()


def test_the_command_shows_what_a_terminal_would_obey(capsys):
    """Text of a plugin may hold no character that changes what stands on the screen already."""

    class Rude:
        def __repr__(self):
            return "\x1b[2K"

    class Rudely:
        @dp.hookimpl
        def dfprivacy_register_mechanisms(self, register):
            register(total)

        @dp.hookimpl
        def dfprivacy_conformance_cases(self, mechanism, case):
            return [case(arguments={"column": "x", "other": Rude()}, bounds={"x": (-1.0, 1.0)}, epsilon=1)]

    dp.register(Rudely())
    main(["audit", "total"])
    unregister("Rudely")

    out, _ = capsys.readouterr()
    assert "\\x1b[2K" in out
    assert "\x1b" not in out


def test_the_command_knows_its_methods(capsys):
    """A method that is not installed is an error."""
    code = main(["audit", "nothing"])

    assert 1 == code
    assert "There is no method 'nothing'." in capsys.readouterr().err


def pytest_of(folder, *arguments):
    """Run pytest in a folder of its own."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "dfprivacy_pytest", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)


def test_pytest_collects_mechanisms(tmp_path):
    """``pytest --dp-conformance`` has an item for each check of each case."""
    done = pytest_of(tmp_path, "--dp-conformance", "-v", "-k", "ztest and (answers or outputs_do_not_tell)")

    assert 0 == done.returncode, done.stdout
    assert re.search(r"dp-conformance::ztest\(.*\): answers PASSED", done.stdout)
    assert "2 passed, 2 skipped" in done.stdout


def test_items_are_checks(request, registered):
    """An item runs its check: it fails with what is wrong, and what the check is for."""
    items = {item.name: item for item in conformance_items(request.session)}

    items["dp-conformance::total(column='x'): answers"].runtest()
    with pytest.raises(pytest.skip.Exception, match="the exact audit suffices"):
        items["dp-conformance::total(column='x'): outputs_do_not_tell"].runtest()
    wrong = items["dp-conformance::total(column='x'): is_documented"]
    with pytest.raises(Exception, match="does not state the privacy guarantee") as failure:
        wrong.runtest()

    catches = "The check catches a docstring without a privacy guarantee or without a reference."
    assert catches in wrong.repr_failure(failure)
    assert "dp-conformance::total(column='x'): is_documented" == wrong.reportinfo()[2]


def test_items_need_cases(request):
    """A mechanism of which no case can be made is a usage error."""

    @dp.register_mechanism
    @dp.mechanism(columns={"column": "numeric"})
    def needs(curator, column, popmean):
        return None

    try:
        with pytest.raises(pytest.UsageError, match="'needs' has no default case"):
            conformance_items(request.session)
    finally:
        unregister("needs")


@pytest.mark.parametrize("name", dfprivacy_audit.__all__)
def test_the_kit_is_in_the_reference(name):
    """Every public name of the kit has an entry in the reference."""
    page = (ROOT / "docs" / "reference" / "testing.md").read_text(encoding="utf-8")

    assert re.search(rf"^\.\. (auto\w+|data):: {name}$", page, re.MULTILINE)


def test_a_pytest_that_is_not_asked_imports_nothing(tmp_path):
    """Without the option the plugin imports nothing of dfprivacy."""
    (tmp_path / "test_it.py").write_text("import sys\ndef test_it(): assert 'dfprivacy' not in sys.modules\n")

    done = pytest_of(tmp_path)

    assert 0 == done.returncode, done.stdout


def test_an_audit_leaves_no_trace_and_can_be_repeated():
    """Sampler, warnings, NumPy's generators and ledgers are what they were; with one seed it says the same."""
    view = dp.protect(pd.DataFrame({"x": [0.5] * 9}), "audited", epsilon=1, bounds={"x": (-1, 1)})
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002

    details = []
    for _ in range(2):
        with seeded_noise(3):
            sampler = noise.sampler()
            found = [check.run() for check in check_mechanism(total, [CASE])]
            assert noise.sampler() is sampler
        details.append([outcome.detail for outcome in found])

    assert details[0] == details[1]
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert noise.sampler().private
    assert np.random.default_rng is not None
    assert 0 == view.budget.spent
