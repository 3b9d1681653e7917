"""Several features in one pass under one norm, and categories by several keys at once."""

# ruff: noqa: PD011, SIM300 - measurements have values, too; expected == actual
from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._measure.curator import Curator
from dfprivacy._measure.evaluate import Table
from dfprivacy._table.batch import Batch
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy.features import Count, Moments, Nystrom, OneHot, Outer, ProductKernel, RowFeatures, Stack, spread
from dfprivacy_audit import Case, check_mechanism

NOBODY: frozenset[str] = frozenset()
NORMS = (1, 2, math.inf)
ROWS = pd.DataFrame(
    {
        "x": np.random.default_rng(1).uniform(-1, 3, 400),
        "y": np.random.default_rng(2).uniform(0, 1, 400),
        "g": np.random.default_rng(3).choice(["a", "b", "c"], 400),
        "h": np.random.default_rng(4).choice(["u", "v", "w"], 400),
    }
)
SAID = {"bounds": {"x": (-1, 3), "y": (0, 1)}, "categories": {"g": ["a", "b", "c"], "h": ["u", "v"]}}


class Budget:
    """A budget that notes what is paid, and has no end."""

    basic_composition = True

    def __init__(self, epsilon=1, delta=0):
        self.epsilon, self.delta, self.paid = Fraction(epsilon), Fraction(delta), []

    def pay(self, losses, reserve):
        self.paid += losses


def curator(frame=ROWS, *, epsilon=1, delta=0, public=(), neighbors="replace_one"):
    """A curator of some rows, and its budget."""
    said = {"public": public, "missing": None, "neighbors": neighbors, **SAID}
    schema = read_schema(adapt(frame), **said)
    budget = Budget(epsilon, delta)
    return Curator(Table(adapt(frame), schema), budget), budget, schema.columns


class Mine(RowFeatures):
    """Somebody else's feature: two numbers in natural units, of which the radius cuts some."""

    shape = (2,)
    weights = np.array([1.0, 2.0])

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        return np.column_stack([batch.values(self.columns[0]), np.where(batch.values(self.columns[0]) > 1, 2, 0)])

    def radius(self, norm):
        return 2.5


def many(c):
    """Features of every kind: counts, rounded row by row, rounded once, of somebody else, by category."""
    kernel = ProductKernel([c["x"], c["y"]], {"x": 1.0, "y": 0.5})
    return {
        "moments": Moments(c["x"], count=True),
        "count": Count(),
        "codes": OneHot(c["g"]),
        "outer": Outer([c["x"], c["y"]], count=True),
        "nystrom": Nystrom(kernel, spread([c["x"], c["y"]], 4)),
        "mine": Mine(c["y"]),
        "by": OneHot(c["g"]) * Moments(c["y"], degree=1),
        "stack": Stack(Moments(c["y"]), OneHot(c["h"])),
    }


# ---- sums ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pair", [*itertools.combinations(["moments", "codes", "outer", "nystrom", "mine", "by"], 2)]
)
@pytest.mark.parametrize("by", [None, "g", "gh"])
def test_sums_are_those_of_the_parts(pair, by):
    """On one grid, a stack has the integers of its parts, one after the other; by category, in each cell."""
    asked, _, c = curator()
    parts = [many(c)[name] for name in (*pair, "stack")]
    wrap = (lambda of: of) if by is None else (lambda of: OneHot(*(c[name] for name in by), of=of))
    cells = 1 if by is None else math.prod(len(c[name].categories) for name in by)

    together = np.array(asked._table.total(wrap(Stack(*parts)), 30)).reshape(cells, -1)
    apart = np.hstack([np.array(asked._table.total(wrap(part), 30)).reshape(cells, -1) for part in parts])

    assert apart.tolist() == together.tolist()


def test_parts_have_the_shapes_of_their_features():
    """A measurement of a stack is taken apart into the shapes and weights of its features, nested ones too."""
    asked, budget, c = curator(epsilon=10**6)
    features = [many(c)[name] for name in ("moments", "mine", "by", "stack")]

    whole = asked.sum(Stack(*features))
    moments, mine, by, inner = whole.parts

    assert [(3,), (2,), (3, 1), (4,)] == [part.values.shape for part in (moments, mine, by, inner)]
    assert [(2,), (2,)] == [part.values.shape for part in inner.parts]
    assert np.concatenate([part.values.ravel() for part in whole.parts]).tolist() == whole.values.tolist()
    assert mine.scales.tolist() == [whole.noise.scale, whole.noise.scale / 2]
    assert all(part.noise is whole.noise for part in (moments, mine, by, inner, *inner.parts))
    assert moments.parts == ()
    assert inner.parts[1].values == pytest.approx([(ROWS.h == "u").sum(), (ROWS.h == "v").sum()], abs=0.01)
    assert by.values[1, 0] == pytest.approx((2 * ROWS.y[ROWS.g == "b"] - 1).sum(), abs=0.01)
    assert len(budget.paid) == 1


def test_parts_by_category():
    """By several keys each part has an axis for every key before its own."""
    asked, _, c = curator(epsilon=10**6)
    features = OneHot(c["g"], c["h"], groups={"g": ["c", "a"]}) * Stack(Moments(c["x"]), Stack(OneHot(c["h"])))

    whole = asked.sum(features)
    moments, nested = whole.parts

    cell = ROWS[(ROWS.g == "a") & (ROWS.h == "v")]
    assert [(2, 2, 4), (2, 2, 2), (2, 2, 2), (2, 2, 2)] == [
        part.values.shape for part in (whole, moments, nested, *nested.parts)
    ]
    assert moments.values[1, 1] == pytest.approx(
        [((cell.x - 1) / 2).sum(), (((cell.x - 1) / 2) ** 2).sum()], abs=0.01
    )
    assert nested.values[1, 1] == pytest.approx([0, len(cell)], abs=0.01)


def test_public_parts_are_free_only_alone():
    """A stack over public columns alone is exact; beside a private one, its sums are inside the noise."""
    asked, budget, c = curator(public=["g"])
    both = Stack(OneHot(c["g"]), Moments(c["x"]))

    free = asked.sum(Stack(OneHot(c["g"]), Count()))
    assert budget.paid == []
    noisy = asked.sum(both)

    assert free.noise is None
    assert free.parts[0].values.tolist() == [(ROWS.g == key).sum() for key in "abc"]
    assert (noisy.parts[0].scales > 0).all()
    assert both.diameter(1, frozenset("g")) == Moments(c["x"]).diameter(1, NOBODY)
    assert both.diameter(1, frozenset("gx")) == 0


def test_a_stack_of_nothing():
    """What has no sums is refused, and what is no feature too."""
    with pytest.raises(dp.ArgumentError, match="no features"):
        Stack()
    with pytest.raises(dp.PluginError, match="no row feature"):
        Stack(Count(), 3)


# ---- norms -----------------------------------------------------------------------------------------------


def batch_of(c, rows):
    """Rows of numbers and codes as a batch."""
    batch = Batch(len(rows), {})
    for name, values in zip("xygh", zip(*rows, strict=True), strict=True):
        kept = batch._cleaned if name in "xy" else batch._encoded
        kept[c[name]] = np.array(values, dtype=float if name in "xy" else np.intp)
    return batch


GRID = [*itertools.product(np.linspace(-1, 3, 9), [0.0, 1 / 3, 1.0], range(4), range(3))]


@pytest.mark.parametrize("public", ["", "g", "h", "gh", "xg", "xyg"])
def test_exact_sensitivities(public):
    """Over all pairs of a fine set of rows, no diameter is passed in any norm, and simple ones are attained."""
    _, _, c = curator()
    named, attained = frozenset(public), {}
    stacks = {
        "two counts": Stack(OneHot(c["g"]), OneHot(c["h"])),
        "mean and count": Stack(Moments(c["x"], degree=1), OneHot(c["h"])),
        "keys": OneHot(c["g"], c["h"]),
        "by keys": OneHot(c["g"], c["h"]) * Moments(c["x"], degree=1),
        "one kept": OneHot(c["g"], c["h"], groups={"g": ["b"], "h": ["u"]}) * Moments(c["x"], degree=1),
        "by a stack": OneHot(c["g"]) * Stack(Moments(c["x"]), OneHot(c["h"])),
    }
    batch, keys = batch_of(c, GRID), ["xygh".index(name) for name in public]
    places = [tuple(row[at] for at in keys) for row in GRID]
    for name, features in stacks.items():
        vectors = features.rows(batch)
        for norm in NORMS:
            most = 0.0
            for place in set(places):
                own = np.unique(vectors[[at for at, each in enumerate(places) if each == place]], axis=0)
                apart = np.linalg.norm(own[:, None] - own, ord=norm, axis=2)
                most = max(most, float(apart.max()))
            claim = features.diameter(norm, named)
            assert most <= claim
            assert np.linalg.norm(vectors, ord=norm, axis=1).max() <= features.radius(norm)
            attained[name, norm] = most / claim if claim else 1.0

    assert min(part for (name, _), part in attained.items() if name != "by a stack") > 1 - 1e-12


@pytest.mark.parametrize(
    ("lengths", "exponent"), [*itertools.product([(3, 4), (1, 1), (0, 2), (1,) * 9], [-320, 0, 300])]
)
def test_norms_of_a_stack_are_rounded_up(lengths, exponent):
    """Sum, root and maximum are at least what they are in exact arithmetic, at every scale."""

    class Long(Mine):
        def __init__(self, column, length):
            super().__init__(column)
            self.length = length

        def radius(self, norm):
            return self.length

    c = curator()[2]
    sizes = [float(f"{length}e{exponent}") for length in lengths if length]
    stack = Stack(*(Long(c["x"], size) for size in sizes))
    exact = [Fraction(size) for size in sizes]

    assert sum(exact) <= Fraction(stack.radius(1)) <= sum(exact) * (1 + Fraction(1, 2**40)) + Fraction(5e-324)
    assert sum(size**2 for size in exact) <= Fraction(stack.radius(2)) ** 2
    assert Fraction(stack.radius(2)) <= Fraction(math.hypot(*sizes)) * (1 + Fraction(1, 2**40)) + Fraction(1e-323)
    assert max(sizes) == stack.radius(math.inf)


# ---- several keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("public", ["", "g", "h", "gh"])
def test_several_keys_are_a_product(public):
    """Counts by two keys are those of the pairs; a row changes its cell unless all keys are public."""
    asked, budget, c = curator(epsilon=10**6, public=[*public])
    counts = pd.crosstab(ROWS.g, ROWS.h)

    found = asked.sum(OneHot(c["g"], c["h"]))

    assert (3, 2) == found.values.shape
    assert found.values == pytest.approx(counts[["u", "v"]].to_numpy(), abs=0.01)
    assert (public == "gh") == (found.noise is None) == (budget.paid == [])


def test_groups_by_key():
    """Categories to keep are given by column; an order of one's own, a column that is none, or a list are told."""
    c = curator()[2]

    kept = OneHot(c["g"], c["h"], groups={"h": ["v"]})

    assert ((3, 1), ("a", "b", "c"), ("v",)) == (kept.shape, kept.groups, kept.of.groups)
    assert "OneHot(g) x OneHot(h)" == kept.describe()
    assert ("b", "a") == OneHot(c["g"], groups={"g": ["b", "a"]}).groups
    for groups in ({"x": ["a"]}, ["a"]):
        with pytest.raises(dp.ArgumentError, match="groups"):
            OneHot(c["g"], c["h"], groups=groups)
    with pytest.raises(dp.ArgumentError, match="once"):
        OneHot(c["g"], c["g"])
    with pytest.raises(dp.ArgumentError, match="groups="):
        OneHot(c["g"], ["a"])


# ---- whole mechanisms ------------------------------------------------------------------------------------

DOC = """Measure several things at once.

Notes
-----
**Privacy.** ε-differential privacy.

References
----------
.. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.
"""
WHOLE = Case(
    arguments={"column": "x", "by": "g", "other": "h"},
    bounds={"x": (-1.0, 3.0)},
    categories={"g": ["a", "b"], "h": ["u", "v", "w"]},
    epsilon=1,
    tightness=0.6,
)


def audited(name, noise, case):
    """A mechanism that measures a stack or a product of keys with some noise, and its checks."""
    make = {
        "stack": lambda x, g, h: Stack(Moments(x), OneHot(g), OneHot(h)),
        "by stack": lambda x, g, h: OneHot(g) * Stack(Moments(x, degree=1), OneHot(h)),
        "keys": lambda x, g, h: OneHot(g, h) * Moments(x, degree=1),
    }[name]

    def together(curator, column, by, other):
        return curator.sum(make(column, by, other), noise=noise).values

    together.__doc__ = DOC
    kinds = {"column": "numeric", "by": "category", "other": "category"}
    return check_mechanism(dp.mechanism(columns=kinds, delta=noise == "gaussian")(together), [case])


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "cube"])
@pytest.mark.parametrize("name", ["stack", "by stack", "keys"])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_what_is_measured_at_once_keeps_its_price(name, noise, neighbors):
    """Between neighbouring tables, losses in closed form are within what is charged, in every other case too."""
    case = replace(WHOLE, neighbors=neighbors, delta="1/100000" if noise == "gaussian" else 0)
    wanted = ["answers", "loss_within_charge", "explains_for_nothing"]
    checks = {check.name: check for check in audited(name, noise, case)}

    found = {check: checks[check].run() for check in wanted}

    assert {} == {check: each.detail for check, each in found.items() if each.status != "passed"}


@pytest.mark.parametrize("public", [(), ("h",)])
def test_groups_with_noise_of_their_own(public):
    """A row that changes its group moves the noise of two: in the norm of infinity too, the losses add up."""
    arguments = {"column": "x", "by": "g"}
    case = replace(WHOLE, arguments=arguments, group_by="h", public=public, tightness=0.99)

    def grouped(curator, column, by):
        return curator.sum(Stack(OneHot(by), Count()), noise="cube").values

    checks = check_mechanism(dp.mechanism(columns={"column": "numeric", "by": "category"})(grouped), [case])

    found = [check.run() for check in checks if check.name in {"loss_within_charge", "charge_is_tight"}]

    assert ["passed"] * 2 == [each.status for each in found], [each.detail for each in found]
