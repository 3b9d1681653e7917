"""Several Gaussian sums paid as one: their noise, their charge, their privacy, their refusals."""

# ruff: noqa: PD011 - of measurements

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._measure import joint
from dfprivacy._measure.curator import Curator
from dfprivacy._measure.price import JointShare
from dfprivacy._privacy import calibrate
from dfprivacy._privacy.conversions import mu_budget
from dfprivacy._privacy.filters import Accountant
from dfprivacy._privacy.losses import BoundedRange, Gaussian
from dfprivacy.features import Count, Fourier, Moments, Outer
from dfprivacy.statistics import OfSums
from dfprivacy_audit import Case, Check
from dfprivacy_audit.discipline import Audit

NAMES = (f"jointly-{number}" for number in itertools.count())
BOUNDS = {"x": (-1.0, 1.0), "y": (0.0, 4.0)}
UNIT = 4.224678889  # noise of the Gaussian mechanism at epsilon 1 and delta 1e-6, in sensitivities
PRICE = {"epsilon": 1, "delta": 1e-6}
CHECKS = {"loss_within_charge", "charge_is_tight", "concludes_from_noise_alone"}


@dp.mechanism(columns={"column": "numeric"}, delta=True)
def parts(curator, column, *, shares=("0.1", "0.5", "0.4")):
    each = Moments(column, degree=1)
    found = [part(each) for part in curator.jointly(*((each, share) for share in shares))]
    return {"values": [m.values.tolist() for m in found], "scales": [float(m.scales[0]) for m in found]}


@dp.mechanism(columns={"column": "numeric"}, delta=True)
def adaptive(curator, column):
    first, second = curator.jointly((Moments(column, degree=1), "1/3"), (Outer([column], radius=1.0), "2/3"))
    mean = float(first(Moments(column, degree=1)).values[0])
    return {"mean": mean, "then": second(Outer([column], radius=0.5 if mean > 0 else 1.0)).values.tolist()}


@dp.mechanism(columns={"column": "numeric"}, delta=True)
def farther(curator, column):
    near, far = (Fourier([column], [[frequency]]) for frequency in (0.1, math.pi / 2))
    (part,) = curator.jointly((near, 1))
    return float(part(far).scales[0, 0])


@dp.mechanism(columns={"column": "numeric"}, delta=True)
def longer(curator, column):
    (part,) = curator.jointly((Outer([column], radius=0.5), 1))
    return part(Outer([column], radius=1.0)).values.tolist()


@dp.mechanism(columns={"column": "numeric"}, delta=True)
def again(curator, column):
    first, _ = curator.jointly((Count(), "0.5"), (Moments(column), "0.5"))
    return [first(Count()).values.tolist() for _ in range(2)]


class Far(OfSums):
    """Distances of a number of rows from others, which one row moves by 1 in either direction."""

    shape = (3,)

    def __init__(self, column):
        self.features, self.columns = Outer([column], radius=1.0), (column,)

    def value(self, sums):
        total = float(np.clip(np.ravel(sums)[0], -1e6, 1e6))
        return np.array([total, -total, 0.0])

    def sensitivity(self, relation, norm, public):
        return {1: 3.0, 2: 2.0, math.inf: 1.0}[norm] * (2.0 if relation == "replace_one" else 1.0)


@dp.mechanism(columns={"column": "numeric"}, delta=True)
def chosen(curator, column, *, shares=("0.2", "0.5", "0.3")):
    kinds = (Outer([column], radius=1.0), "select", "select")
    total, *choices = curator.jointly(*zip(kinds, shares, strict=True))
    first = choices[0](Far(column))
    return {"chosen": [first, choices[1](Far(column))], "sum": total(Outer([column], radius=1.0)).values.tolist()}


@dp.mechanism(columns={"column": "numeric"}, delta=True)
def chosen_twice(curator, column):
    _, choice = curator.jointly((Moments(column), "0.5"), ("select", "0.5"))
    return [choice(Far(column)) for _ in range(2)]


@dp.mechanism(columns={"column": "numeric"}, delta=True)
def only_chosen(curator, column):
    curator.jointly(("select", 1))


@dp.mechanism(columns={"columns": ["numeric"]}, delta=True)
def several(curator, columns):
    planned = [Moments(column, degree=1) for column in columns]
    made = curator.jointly(*((each, Fraction(1, len(planned))) for each in planned))
    return [part(each).scales.tolist() for part, each in zip(made, planned, strict=True)]


def protected(**terms):
    df = pd.DataFrame({"x": np.linspace(-1, 1, 1000), "y": np.linspace(0, 4, 1000)})
    budget = {**PRICE, "accounting": "basic", "bounds": BOUNDS, "ledger": "memory:"}
    return dp.protect(df, next(NAMES), **{**budget, **terms})


def ask(view, mechanism, *args, **asked):
    return view._question(mechanism, args, {**PRICE, **asked}).ask()


def test_noise_follows_the_parts():
    """Each part has the noise of one Gaussian mechanism over the root of its part; the account is charged once."""
    view = protected()
    plan = view._question(parts, ("x",), PRICE).explain()
    assert (str(plan).count("discrete Gaussian"), view.budget.spent) == (3, 0)

    found = ask(view, parts, "x").value

    np.testing.assert_allclose(found["scales"], 2 * UNIT / np.sqrt([0.1, 0.5, 0.4]), rtol=1e-6)
    np.testing.assert_allclose(np.array(found["scales"]) / 2, [13.359607673, 5.974598182, 6.679803837], rtol=1e-6)
    assert (view.budget.spent, len(view._target.account.entries())) == (Fraction(1), 1)
    # the noise is for the features that are measured, not for those that were planned
    assert ask(protected(), farther, "x").value == pytest.approx(2 * UNIT, rel=1e-5)


REFUSED = [
    ("larger than planned", 1, longer, {}, {}),
    ("a second time", 1, again, {}, {"neighbors": "add_remove"}),
    ("planned fewer selections", 1, chosen_twice, {}, {}),
    ("at least one sum", 0, only_chosen, {}, {}),
    *[("at most 1", 0, parts, {"shares": each}, {}) for each in ([], ["0.5", "0.6"], ["1", "0"], ["-0.5", "0.5"])],
    ("delta", 0, parts, {"delta": None}, {"delta": 0}),
]


@pytest.mark.parametrize(("said", "spent", "mechanism", "asked", "terms"), REFUSED)
def test_parts_that_cannot_be(said, spent, mechanism, asked, terms):
    """Longer rows than planned and a part twice stay charged; more than the whole and no delta cost nothing."""
    view = protected(**terms)

    with pytest.raises(dp.DPError, match=said):
        ask(view, mechanism, "x", **asked)

    assert view.budget.spent == spent


def test_the_charge_covers_the_parts():
    """Under Gaussian and Rényi DP the one loss is at least the sum of those of its parts, and hardly more."""
    paid = []

    class Budget:
        epsilon, delta, basic_composition = Fraction(1), Fraction(1, 10**6), True

        def pay(self, losses, reserve):
            assert not reserve
            paid.extend(losses)

    table = protected()._target.table
    x, y = (table.schema.columns[name] for name in "xy")
    planned = [Moments(x, degree=1), Outer([x, y], radius=1.0), Moments(y, degree=2)]
    curator = Curator(table, Budget())

    for part, each in zip(curator.jointly(*zip(planned, ("1/7", "4/7", "2/7"), strict=True)), planned, strict=True):
        part(each)
    noise = [(Fraction(n.sensitivity) * 2**n.grid, Fraction(n.scale) * 2**n.grid) for n in curator.measured]
    mu_squared = sum(s**2 / (scale**2 - Fraction(1, 11)) for s, scale in noise)
    renyi = sum(5 * s**2 / (2 * scale**2) for s, scale in noise)

    (loss,) = paid
    assert isinstance(loss, Gaussian)
    assert 1 - 1e-8 < mu_squared / loss.mu_squared() <= 1 + 1e-14
    assert 1 - 1e-8 < renyi / loss.renyi(5) <= 1 + 1e-14
    assert loss.dimension == sum(each.dimension for each in planned)
    assert loss.scale <= min(scale for _, scale in noise)


def failures(mechanism, neighbors, tightness):
    case = Case(
        arguments={"column": "x"},
        bounds={"x": (-1.0, 1.0)},
        delta="1/100000",
        neighbors=neighbors,
        tightness=tightness,
    )
    audit = Audit(mechanism, case, thorough=False)
    return {check for check in CHECKS if Check(check, "", audit).run().status != "passed"}


@pytest.mark.parametrize(
    ("mechanism", "neighbors"), [(parts, "replace_one"), (parts, "add_remove"), (adaptive, "replace_one")]
)
def test_joint_measurements_pass_the_audit(mechanism, neighbors):
    """What is measured jointly is exactly as private as it says, also if what is second follows from the first."""
    assert set() == failures(mechanism, neighbors, 0.999)


def test_the_audit_finds_parts_that_cost_nothing(monkeypatch):
    """Had every part the noise of the whole, the audit would know."""
    monkeypatch.setattr(
        JointShare,
        "scale",
        lambda self, squared: self.loss.scale * math.sqrt(squared / self.loss.squared_sensitivity),
    )

    assert {"loss_within_charge"} == failures(parts, "replace_one", 0.1)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_selections_beside_sums_pass_the_audit(neighbors):
    """A selection is as private as its part of mu squared says, and hardly more."""
    assert set() == failures(chosen, neighbors, 0.9)


def test_the_audit_finds_selections_that_cost_too_little(monkeypatch):
    """Had a selection the epsilon of the whole call, the audit would know."""
    monkeypatch.setattr(joint.calibrate, "bounded_range_epsilon", lambda _: Fraction(4))

    assert {"loss_within_charge"} == failures(chosen, "add_remove", 0.1)


def test_the_epsilon_of_a_selection_is_within_its_part():
    """Under Gaussian DP it is charged its part and hardly less; under Rényi DP no more than a Gaussian sum."""
    for part in (1e-9, 1e-4, 0.01, 0.3, 1.0, 7.0, 100.0):
        loss = BoundedRange(calibrate.bounded_range_epsilon(Fraction(part)))

        assert 1 - 1e-6 < loss.mu_squared() / Fraction(part) <= 1
        assert all(
            loss.renyi(alpha) <= Fraction(alpha) * Fraction(part) / 2 for alpha in (1.01, 1.5, 3.0, 20.0, 300.0)
        )


def test_what_is_public_is_free():
    """Sums over public columns come exact and free; beside private ones they are refused, uncharged."""
    view = protected(public=["x", "y"])
    half = protected(public=["y"])

    assert ask(view, several, ["x", "y"]).value == [[0.0], [0.0]]
    with pytest.raises(dp.DPError, match="private columns"):
        ask(half, several, ["x", "y"])

    assert 0 == view.budget.spent == half.budget.spent


def test_groups_share_the_charge():
    """By group every group has its parts, for one charge of the sensitivity of them all."""
    df = pd.DataFrame({"x": np.zeros(100), "g": ["a", "b"] * 50})
    terms = {**PRICE, "accounting": "basic", "ledger": "memory:", "bounds": {"x": (-1, 1)}}
    view = dp.protect(df, next(NAMES), **terms, categories={"g": ["a", "b"]})

    found = ask(view.group_by("g"), parts, "x", shares=["0.5", "0.5"])

    assert Fraction(1) == view.budget.spent
    scales = [each.value["scales"] for each in found.releases]
    np.testing.assert_allclose(scales, 2 * UNIT * math.sqrt(2), rtol=1e-6)


# ---- Gaussian sums that are paid one by one --------------------------------------------------------------


class Budget:
    """A call's budget on an account of (1, 1e-6), which it may share with other calls."""

    basic_composition = False

    def __init__(self, accountant, spent):
        self.epsilon, self.delta = Fraction(1, 10), Fraction(1, 10**8)
        self.accountant, self.spent = accountant, spent

    def pay(self, losses, reserve):
        after = functools.reduce(self.accountant.after, losses, self.spent)
        whole = functools.reduce(self.accountant.after, reserve, after)
        if not (self.accountant.holds(after) and self.accountant.holds(whole)):
            raise dp.BudgetExceeded("It does not fit.", "")
        self.spent = after


def calls(share, then):
    """How many calls of two Gaussian sums fit, and whether one of them ended half way."""
    table, accountant = protected()._target.table, Accountant.open(None, Fraction(1), Fraction(1, 10**6))
    asked, spent = Moments(table.schema.columns["x"]), accountant.no_charges
    count = measured = 0
    with contextlib.suppress(dp.BudgetExceeded):
        while True:
            curator, measured = Curator(table, Budget(accountant, spent)), 0
            for part in (share, None):
                curator.sum(asked, noise="gaussian", share=part, then=then)
                measured += 1
            count, spent = count + 1, curator._budget.spent
    return count, measured


@pytest.mark.parametrize("share", ["1/2", "1/10"])
def test_a_call_of_gaussian_sums_reserves_gaussian_noise(share):
    """What the rest of a call may lose is little if it says so: many times as many fit, and none ends half way."""
    (many, half_way), (few, never) = calls(share, "gaussian"), calls(share, "any")

    assert (half_way, never) == (0, 0)
    assert many > 10 * few


def test_a_reserve_covers_every_way_to_divide_it():
    """Parts of a price, each spent on Gaussian noise, never lose more than the whole at once: the theorem."""
    rng = np.random.default_rng(4)
    for _ in range(60):
        epsilon, delta = 10 ** rng.uniform(-2, 1.3), 10 ** rng.uniform(-12, -2)
        shares = rng.dirichlet(np.ones(rng.integers(2, 6)))
        parts = sum(mu_budget(epsilon * share, delta * share) ** 2 for share in shares)

        assert parts <= mu_budget(epsilon, delta) ** 2 * (1 + 1e-9)


def test_a_call_is_held_to_what_it_reserved():
    """After then="gaussian" other noise is refused, and nothing was paid for it."""
    curator = Curator(protected()._target.table, Unlimited())
    column = curator._table.schema.columns["x"]
    curator.sum(Moments(column), noise="gaussian", share="1/2", then="gaussian")
    with pytest.raises(dp.PluginError, match="with other noise"):
        curator.sum(Moments(column))
    with pytest.raises(dp.PluginError, match="unknown"):
        curator.sum(Moments(column), noise="gaussian", then="laplace")

    assert len(curator.measured) == 1


class Unlimited:
    """A budget without an end."""

    epsilon, delta, basic_composition = Fraction(1), Fraction(1, 10**6), True

    def pay(self, losses, reserve):
        pass


def test_a_budget_that_is_short_names_what_this_noise_could_have():
    """A question at all of the delta is refused with the epsilon that Gaussian noise could have, and how."""
    view = protected(accounting=None)
    with pytest.raises(dp.BudgetExceeded) as refused:
        view.moments(["x", "y"], epsilon=1, delta=1e-6)
    text = str(refused.value)
    at_this = float(re.search(r"at most epsilon = (\S+) is left at this delta", text)[1])
    at_none = float(re.search(r"or epsilon = (\S+) at the default delta", text)[1])

    assert "Laplace" not in text
    assert view.budget.spent == 0
    assert at_this < 1 == at_none
    assert at_this == view.moments(["x"], epsilon=at_this, delta=1e-6).privacy.epsilon
    assert protected(accounting=None).moments(["x"], epsilon=at_none).privacy.epsilon == 1
