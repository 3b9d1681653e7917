"""Noise of the cube follows its law, and sums with it cost what they say."""

# ruff: noqa: PD011 - measurements have values, too

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dfprivacy import mechanism, protect
from dfprivacy._measure.curator import Curator
from dfprivacy._measure.evaluate import Table
from dfprivacy._privacy.draws import cube_noise
from dfprivacy._privacy.losses import Cube, loss_from_dict
from dfprivacy._privacy.samplers import OpenDPSampler
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy.errors import ArgumentError
from dfprivacy.features import Count, Moments, OneHot, Outer, Stack
from dfprivacy.statistics import OfRows
from dfprivacy.testing import seeded_noise
from dfprivacy_audit import Case, check_mechanism


def draws(count, dimension, scale, seed):
    with seeded_noise(seed) as sampler:
        return np.array([cube_noise(dimension, scale, sampler) for _ in range(count)])


@pytest.mark.statistical
def test_small_noise_has_its_probabilities():
    """In two dimensions, every point has a probability proportional to exp(-max|x| / b)."""
    found = draws(20_000, 2, 1.3, 1)
    points = list(itertools.product(range(-3, 4), repeat=2))
    weights = {point: math.exp(-max(map(abs, point)) / 1.3) for point in points}
    q = math.exp(-1 / 1.3)
    total = sum(q**r * (8 * r or 1) for r in range(400))

    seen = [int((found == point).all(axis=1).sum()) for point in points]
    expected = [20_000 * weights[point] / total for point in points]
    rest = 20_000 - sum(seen), 20_000 - sum(expected)

    assert stats.chisquare([*seen, rest[0]], [*expected, rest[1]]).pvalue > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("dimension", [1, 3, 5])
def test_standard_deviation(dimension):
    """A coordinate has the standard deviation b √((d+1)(d+2)/3)."""
    found = draws(20_000, dimension, 2.0**20, 2) / 2.0**20

    assert found.std() == pytest.approx(math.sqrt((dimension + 1) * (dimension + 2) / 3), rel=0.05)


def test_noise_from_the_secure_source():
    """The sampler in force adds it to a vector of any shape, and other noise every time."""
    values = np.zeros((2, 3), dtype=np.int64)

    found = [OpenDPSampler().cube(values, 2.0**30) for _ in range(2)]

    assert [noisy.shape for noisy in found] == [(2, 3)] * 2
    assert (found[0] != found[1]).any()


def test_a_claim_is_checked():
    """Noise that is too small for its claim is not accounted for, and one that is large enough is kept as it is."""
    loss = Cube(Fraction(1, 2), 3, 6.0)

    assert loss == loss_from_dict(loss.to_dict())
    with pytest.raises(ArgumentError, match="private"):
        Cube(Fraction(1, 2), 3, 5.9)


class Two(OfRows):
    """Two values that one row moves by at most 1 each."""

    shape = (2,)

    def __init__(self, column):
        self.columns = (column,)

    def value(self, rows):
        return np.array([rows.standardized(self.columns[0]).sum() / 2] * 2)

    def sensitivity(self, relation, norm, public):
        return 1.0 if norm == math.inf else 2 ** (1 / norm)


def test_the_scale_takes_the_norm_of_infinity():
    """Two values that move together cost what one does."""

    @mechanism(columns={"column": "numeric"})
    def both(curator, column):
        return curator.measure(Two(column), noise="cube").noise.scale

    view = protect(pd.DataFrame({"x": [1.0, 2.0]}), "cube", epsilon=1, bounds={"x": (0, 3)}, ledger="memory:")

    assert view._question(both, ("x",), {"epsilon": 0.5}).ask().value == pytest.approx(2, rel=1e-6)


# ---- sums ------------------------------------------------------------------------------------------------

SAID = {"bounds": {"x": (0, 3)}, "categories": {"g": ["a", "b", "c"]}, "missing": None}
SUMS = {
    "moments": lambda c: Moments(c["x"], count=True),
    "counts": lambda c: Stack(OneHot(c["g"]), Moments(c["x"], degree=1, count=True)),
    "by": lambda c: OneHot(c["g"]) * Moments(c["x"]),
    "outer": lambda c: OneHot(c["g"]) * Outer([c["x"]], count=True),
}


class Budget:
    """A budget that notes what is paid, and has no end."""

    basic_composition = True

    def __init__(self, epsilon):
        self.epsilon, self.delta, self.paid = Fraction(epsilon), Fraction(0), []

    def pay(self, losses, reserve):
        self.paid += losses


def asked(rows, epsilon, **said):
    """A curator of rows (x, g), and its columns."""
    frame = pd.DataFrame(rows, columns=["x", "g"])
    schema = read_schema(adapt(frame), **{"public": (), "neighbors": "replace_one", **SAID, **said})
    return Curator(Table(adapt(frame), schema), Budget(epsilon)), schema.columns


@pytest.mark.statistical
def test_sums_follow_the_law():
    """Of a sum, the largest distance of a coordinate from the truth is a gamma variable, in any of them alike."""
    rows = [(1.0, "a"), (3.0, "b"), (0.5, "b")]
    truth, found = np.array([1, 2, 0, 1.5, 1.5]), []  # the last of (1 + y)/2 = x/3 and (1 - y)/2
    with seeded_noise(5):
        for _ in range(1_000):
            curator, c = asked(rows, 1)
            measured = curator.sum(Stack(OneHot(c["g"]), Moments(c["x"], degree=1, count=True)), noise="cube")
            found.append((measured.values - truth) / measured.scales)
    apart = np.array(found)
    largest, place = abs(apart).max(axis=1), abs(apart).argmax(axis=1)

    size = np.searchsorted(stats.gamma(5).ppf([0.2, 0.4, 0.6, 0.8]), largest)
    side = np.sign(apart[np.arange(1_000), place]) > 0
    cells = np.bincount(size * 10 + place * 2 + side, minlength=50)
    others = (np.sort(abs(apart), axis=1)[:, :-1] / largest[:, None]).ravel()

    assert measured.noise.sensitivity == pytest.approx(1, rel=1e-9)
    assert measured.scales == pytest.approx(1, rel=1e-9)
    assert stats.chisquare(cells).pvalue > 1e-6
    assert stats.kstest(others, "uniform").pvalue > 1e-6


@pytest.mark.parametrize(
    ("neighbors", "public"), [("replace_one", ()), ("replace_one", ("g",)), ("add_remove", ())]
)
@pytest.mark.parametrize("name", [*SUMS])
def test_sums_of_neighbours_are_within_the_sensitivity(name, public, neighbors):
    """Over all pairs of rows, no coordinate of a sum moves by more than is charged, and one by nearly as much."""
    every = [*itertools.product([0, 0.3, 1.5, 2.9, 3.0], ["a", "b", "c", None])]
    rest = [(1.1, "a"), (2.7, "c")]
    curator, c = asked([*rest, every[0]], 1, public=public, neighbors=neighbors)
    features = SUMS[name](c)
    said = curator.sum(features, noise="cube").noise
    (loss,) = curator._budget.paid

    tables = {row: asked([*rest, row], 1)[0]._table.total(features, said.grid) for row in every}
    without = asked(rest, 1)[0]._table.total(features, said.grid)
    pairs = [(tables[a], tables[b]) for a, b in itertools.combinations(every, 2) if not public or a[1] == b[1]]
    if neighbors == "add_remove":
        pairs = [(tables[row], without) for row in every]
    farthest = max(abs(a - b) for pair in pairs for a, b in zip(*pair, strict=True))

    assert isinstance(loss, Cube)
    assert 0.999 * loss.sensitivity <= farthest <= loss.sensitivity
    assert loss.sensitivity - 1 < math.ldexp(said.sensitivity, said.grid) <= loss.sensitivity


def test_the_grid_has_room_for_the_noise():
    """Many coordinates at a small epsilon take a coarser grid, on which 64 bits hold all of them."""
    crowd = [f"c{i}" for i in range(2_000)]
    curator, c = asked([(1.0, "c7")] * 5, "1/100000000", categories={"g": crowd})

    measured = curator.sum(OneHot(c["g"]), noise="cube")

    assert 64 * 2_001 * math.ldexp(measured.noise.scale, measured.noise.grid) <= 2**62
    assert math.ldexp(measured.noise.scale, measured.noise.grid) >= 2**15
    assert abs(measured.values).max() <= 2_200 * measured.noise.scale
    assert abs(measured.values).max() >= 1_800 * measured.noise.scale


def test_noise_is_no_larger_than_it_need_be():
    """A table of counts by a private category moves by 1 with noise of the cube, by 2 with Laplace noise."""
    curator, c = asked([(1.0, "a")] * 9, 1)

    scales = [
        curator.sum(OneHot(c["g"]), noise=noise, share="1/10").noise.sensitivity for noise in ("cube", "laplace")
    ]

    assert scales == pytest.approx([1, 2], rel=1e-9)


def test_public_sums_need_no_noise():
    """A sum over public columns is exact and free, whatever noise is asked for; a count of all rows too."""
    curator, c = asked([(1.0, "a"), (2.0, "b")], 1, public=("g",))

    found = [curator.sum(features, noise="cube") for features in (OneHot(c["g"]), Count())]

    assert [each.values.tolist() for each in found] == [[1, 1, 0], [2]]
    assert curator._budget.paid == []


def test_it_is_explained():
    """An explanation names the noise and its scale, and what is planned is what is asked."""

    @mechanism(columns={"by": "category"})
    def table(curator, by):
        return curator.sum(OneHot(by), noise="cube").values

    frame = pd.DataFrame({"g": ["a", "b"]})
    view = protect(frame, "explained cube", epsilon=1, categories={"g": ["a", "b"]}, ledger="memory:")
    question = view._question(table, ("g",), {"epsilon": 0.5})

    said, release = question.explain(), question.ask()

    assert said.measurements == release.privacy.noise
    assert "K-norm (cube) noise of scale 2 on the sum of OneHot(g) (sensitivity 1)" in repr(said)


DOC = """Sums with noise of the cube.

Notes
-----
**Privacy.** ε-differential privacy.

References
----------
.. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.
"""
CASE = Case(
    arguments={"column": "x", "by": "g"}, bounds={"x": (0.0, 3.0)}, categories={"g": ["a", "b", "c"]}, epsilon=1
)


@pytest.mark.parametrize("name", ["counts", "by"])
def test_the_audit_of_a_sum(name):
    """In closed form, the loss of the worst neighbours is what is charged, and not less."""

    def cube(curator, column, by):
        return curator.sum(SUMS[name]({"x": column, "g": by}), noise="cube").values

    cube.__doc__ = DOC
    checks = check_mechanism(mechanism(columns={"column": "numeric", "by": "category"})(cube), [CASE])
    wanted = {"loss_within_charge", "charge_is_tight", "concludes_from_noise_alone"}

    found = [check.run() for check in checks if check.name in wanted]

    assert {each.status for each in found} == {"passed"}, [each.detail for each in found]
